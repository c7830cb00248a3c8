/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * A server that writes ahead of its one client, as soon as that has sent two bytes, as much as the kernel takes, without
 * waiting:
 *   ahead PORT own|given-back
 * own: for two seconds as it is, then two with a TCP_NOTSENT_LOWAT of its own, and two after it took that back.
 * given-back: until the kernel has no limit of anybody's, 60 s at most.
 * For each part it prints a line: the most that waited unsent after a write that was refused, what getsockopt says of
 * TCP_NOTSENT_LOWAT, and what the kernel itself says. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static char block[65536];

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static unsigned of_the_kernel(int fd)
{
    unsigned value = 0;
    socklen_t len = sizeof value;
    syscall(SYS_getsockopt, fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &value, &len);
    return value;
}

static void write_ahead(int fd, double seconds, int until_given_back)
{
    double began = now();
    int most = 0, last = 0;
    unsigned seen = 0, kernel = 0;
    socklen_t len = sizeof seen;
    while (now() - began < seconds && !(until_given_back && kernel > 0 && of_the_kernel(fd) == 0)) {
        struct pollfd room = {.fd = fd, .events = POLLOUT};
        ssize_t n = send(fd, block, sizeof block, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN)
            exit(3);
        if (n >= 0)
            continue;
        /* The first moments have no limit yet. */
        if (now() - began > 0.5 && ioctl(fd, SIOCOUTQNSD, &last) == 0 && last > most)
            most = last;
        if (!kernel)
            kernel = of_the_kernel(fd);
        poll(&room, 1, 1000);
    }
    if (getsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &seen, &len) != 0 || len != sizeof seen)
        exit(4);
    printf("%d %u %u\n", most, seen, of_the_kernel(fd));
    fflush(stdout);
}

int main(int argc, char **argv)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    int on = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    if (argc != 3)
        return 2;
    at.sin_port = htons(atoi(argv[1]));
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&at, sizeof at) != 0 || listen(listener, 1) != 0)
        return 1;
    int fd = accept(listener, NULL, NULL);
    if (fd < 0 || read(fd, block, 2) != 2)
        return 1;
    if (strcmp(argv[2], "own") != 0) {
        write_ahead(fd, 60, 1);
        return 0;
    }
    for (unsigned own = 0; own < 3; own++) {
        unsigned limit = own == 1 ? 1 << 20 : 0;
        if (own > 0 && setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &limit, sizeof limit) != 0)
            return 5;
        write_ahead(fd, 2, 0);
    }
    return 0;
}
