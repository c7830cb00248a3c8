// SPDX-License-Identifier: Apache-2.0 OR MIT
// A program with the C library: one connection over loopback, which sends until standard input ends.
#include <alcc.h>
#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static void *reader(void *from)
{
    static char bytes[65536];
    struct sockaddr *to = from;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, to, sizeof(struct sockaddr_in)) != 0)
        abort();
    while (read(fd, bytes, sizeof bytes) > 0)
        usleep(2000);
    close(fd);
    return NULL;
}

int main(void)
{
    static char bytes[16384];
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&at, len) != 0 || listen(listener, 1) != 0 ||
        getsockname(listener, (struct sockaddr *)&at, &len) != 0)
        return 1;
    pthread_t thread;
    if (pthread_create(&thread, NULL, reader, &at) != 0)
        return 2;
    int fd = alcc_accept(listener, NULL, NULL);
    if (fd < 0)
        return 3;
    printf("%d\n", ntohs(at.sin_port));
    fflush(stdout);
    struct pollfd end = {.fd = STDIN_FILENO, .events = POLLIN};
    while (poll(&end, 1, 0) == 0)
        if (alcc_send(fd, bytes, sizeof bytes, 0) <= 0)
            return 4;
    if (alcc_close(fd) != 0)
        return 5;
    pthread_join(thread, NULL);
    return 0;
}
