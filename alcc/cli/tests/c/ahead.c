/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * A server that writes ahead of its one client, as soon as that has sent two bytes, as much as the kernel takes, without
 * waiting:
 *   ahead PORT own|given-back
 * own: some writes as it is, some with a TCP_NOTSENT_LOWAT of its own, and some after it took that back.
 * given-back: until the kernel has no limit of anybody's.
 * For each part it prints a line: the most that waited unsent after a write that was refused, what getsockopt says of
 * TCP_NOTSENT_LOWAT, what the kernel itself says, and whether the kernel had a limit and lost it meanwhile. */
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

/* Refused writes that a part looks at; s that it takes at most. */
enum { REFUSED = 10, PATIENCE = 60 };

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

enum until { BY_THEIRS, BY_OURS, UNLIMITED, GIVEN_BACK };

static void write_ahead(int fd, enum until until)
{
    double began = now();
    int most = 0, last = 0, before = 0, refused = 0, limited = 0, taken = 0, lost = 0;
    unsigned seen = 0;
    socklen_t len = sizeof seen;
    while (now() - began < PATIENCE && (until == GIVEN_BACK ? !lost : refused < REFUSED)) {
        struct pollfd room = {.fd = fd, .events = POLLOUT};
        unsigned kernel = of_the_kernel(fd);
        lost |= limited && kernel == 0;
        limited = kernel > 0;
        /* In the first moments theirs is large. */
        if (until == BY_THEIRS && kernel > sizeof block)
            taken = limited = 0;
        if (ioctl(fd, SIOCOUTQNSD, &before) != 0)
            exit(6);
        ssize_t n = send(fd, block, sizeof block, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN)
            exit(3);
        /* Data written before this limit was set has to drain first, and does not count. A write that only fills
         * the last segment is accepted even then. */
        taken |= n >= 0 && (until == UNLIMITED || (limited && (unsigned)before <= kernel));
        if (n >= 0)
            continue;
        if (taken && ioctl(fd, SIOCOUTQNSD, &last) == 0) {
            refused++;
            if (last > most)
                most = last;
        }
        poll(&room, 1, 100);
    }
    if (getsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &seen, &len) != 0 || len != sizeof seen)
        exit(4);
    printf("%d %u %u %d\n", most, seen, of_the_kernel(fd), lost);
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
        write_ahead(fd, GIVEN_BACK);
        return 0;
    }
    for (unsigned own = 0; own < 3; own++) {
        unsigned limit = own == 1 ? 1 << 20 : 0;
        if (own > 0 && setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &limit, sizeof limit) != 0)
            return 5;
        write_ahead(fd, own == 0 ? BY_THEIRS : own == 1 ? BY_OURS : UNLIMITED);
    }
    return 0;
}
