// SPDX-License-Identifier: Apache-2.0 OR MIT
// A server with the C library: a thread for each connection, which sends until the client goes. It writes its port
// into the file that it is given.
#include <alcc.h>
#include <arpa/inet.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>

static void *sender(void *number)
{
    static const char bytes[65536];
    int fd = (int)(intptr_t)number;
    while (alcc_send(fd, bytes, sizeof bytes, 0) > 0)
        ;
    alcc_close(fd);
    return NULL;
}

int main(int argc, char **argv)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
    socklen_t len = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (argc != 2 || bind(listener, (struct sockaddr *)&at, len) != 0 || listen(listener, 16) != 0 ||
        getsockname(listener, (struct sockaddr *)&at, &len) != 0)
        return 1;
    FILE *file = fopen(argv[1], "w");
    if (file == NULL || fprintf(file, "%d", ntohs(at.sin_port)) < 0 || fclose(file) != 0)
        return 2;
    for (;;) {
        int fd = alcc_accept(listener, NULL, NULL);
        pthread_t thread;
        if (fd < 0 || pthread_create(&thread, NULL, sender, (void *)(intptr_t)fd) != 0)
            return 3;
        pthread_detach(thread);
    }
}
