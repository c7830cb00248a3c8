/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * A server that writes BYTES to its one client in one way, and waits for room as the manual pages say:
 *   ways PORT WAY BYTES
 * block: write(2) that waits. edge: write(2) until EAGAIN, then an edge of epoll. sendfile, sendfile-edge: the same with
 * sendfile(2) of a file. splice: splice(2) from a pipe. zerocopy: send(2) with MSG_ZEROCOPY that waits. reselect: as
 * block, and selects a congestion control in mid-transfer.
 * It prints: bytes, EAGAINs, calls that took less than they were given, and the kernel's TCP_NOTSENT_LOWAT. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/errqueue.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BLOCK (256 * 1024)

static char block[BLOCK];
static size_t bytes, sent, refused, part;
static int fd, file, ends[2];
static unsigned sends, told;

static int is(const char *way, const char *name)
{
    return strncmp(way, name, strlen(name)) == 0;
}

/* Each send is notified once, in any order of ranges. */
static void told_of_zerocopy(int wait)
{
    while (told < sends) {
        char control[256];
        struct msghdr m = {.msg_control = control, .msg_controllen = sizeof control};
        if (recvmsg(fd, &m, MSG_ERRQUEUE) < 0) {
            struct pollfd error = {.fd = fd};
            if (errno != EAGAIN)
                exit(6);
            if (!wait)
                return;
            if (poll(&error, 1, 30000) != 1)
                exit(7);
            continue;
        }
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        struct sock_extended_err *e = c ? (void *)CMSG_DATA(c) : NULL;
        if (!e || e->ee_origin != SO_EE_ORIGIN_ZEROCOPY)
            exit(8);
        told += e->ee_data - e->ee_info + 1;
    }
}

static ssize_t once(const char *way, size_t want)
{
    size_t at = sent % BLOCK;
    off_t offset = at;
    if (want > BLOCK - at)
        want = BLOCK - at;
    ssize_t n;
    if (is(way, "sendfile")) {
        n = sendfile(fd, file, &offset, want);
    } else if (is(way, "splice")) {
        ssize_t in = write(ends[1], block + at, want < 65536 ? want : 65536);
        size_t remaining = in;
        while (remaining > 0) {
            if ((n = splice(ends[0], NULL, fd, NULL, remaining, SPLICE_F_MOVE)) <= 0)
                exit(9);
            remaining -= n;
        }
        return in;
    } else if (is(way, "zerocopy")) {
        n = send(fd, block + at, want, MSG_ZEROCOPY);
        sends += n >= 0;
        told_of_zerocopy(0);
    } else {
        n = write(fd, block + at, want);
    }
    part += n >= 0 && (size_t)n < want;
    return n;
}

int main(int argc, char **argv)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    int on = 1, listener = socket(AF_INET, SOCK_STREAM, 0), epoll = epoll_create1(0);
    if (argc != 4)
        return 2;
    const char *way = argv[2];
    bytes = strtoul(argv[3], NULL, 10);
    at.sin_port = htons(atoi(argv[1]));
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    for (size_t i = 0; i < BLOCK; i++)
        block[i] = i * 7 + i / 251;
    if (is(way, "sendfile")) {
        FILE *made = tmpfile();
        if (!made || fwrite(block, BLOCK, 1, made) != 1 || fflush(made))
            return 1;
        file = fileno(made);
    }
    if (pipe(ends) || bind(listener, (struct sockaddr *)&at, sizeof at) || listen(listener, 1))
        return 1;
    fd = accept(listener, NULL, NULL);
    char go[2];
    if (fd < 0 || read(fd, go, sizeof go) != sizeof go)
        return 1;
    if (is(way, "zerocopy") && setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof on))
        return 1;
    if (strstr(way, "edge")) {
        struct epoll_event edge = {.events = EPOLLOUT | EPOLLET};
        if (fcntl(fd, F_SETFL, O_NONBLOCK) || epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &edge))
            return 1;
    }
    while (sent < bytes) {
        ssize_t n = once(way, bytes - sent);
        if (n > 0) {
            if (is(way, "reselect") && sent < bytes / 3 && sent + n >= bytes / 3 &&
                setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4))
                return 10;
            sent += n;
            continue;
        }
        struct epoll_event edge;
        if (n == 0 || errno != EAGAIN || !strstr(way, "edge"))
            return 3;
        refused++;
        /* An edge that does not come is for ever. */
        if (epoll_wait(epoll, &edge, 1, 30000) != 1)
            return 4;
    }
    told_of_zerocopy(1);
    unsigned limit = 0;
    socklen_t len = sizeof limit;
    syscall(SYS_getsockopt, fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &limit, &len);
    printf("%zu %zu %zu %u\n", sent, refused, part, limit);
    return 0;
}
