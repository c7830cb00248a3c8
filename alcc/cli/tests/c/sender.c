/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * A server that accepts one connection and sends BYTES bytes in one of the ways by which data may leave a program:
 *   sender send|zerocopy|replaced|mptcp|uring|stdio|stdout|dprintf|aio|both|by-a-child BYTES
 * It prints its port first. */
#include <aio.h>
#include <linux/io_uring.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char block[65536];

static void fail(const char *what) {
    perror(what);
    exit(3);
}

/* One submission at a time on a ring of our own. */
static struct io_uring_params params;
static int ring = -1;
static char *queue, *completed;
static struct io_uring_sqe *entries;

static void ring_open(void) {
    ring = syscall(SYS_io_uring_setup, 4, &params);
    if (ring < 0)
        exit(77);
    queue = mmap(0, params.sq_off.array + params.sq_entries * 4, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING);
    completed = mmap(0, params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe), PROT_READ | PROT_WRITE, MAP_SHARED,
                     ring, IORING_OFF_CQ_RING);
    entries = mmap(0, params.sq_entries * sizeof *entries, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES);
    if (queue == MAP_FAILED || completed == MAP_FAILED || entries == MAP_FAILED)
        fail("mmap");
}

static long ring_send(int fd, size_t n) {
    unsigned *tail = (unsigned *)(queue + params.sq_off.tail), mask = *(unsigned *)(queue + params.sq_off.ring_mask);
    unsigned at = *tail & mask;
    memset(&entries[at], 0, sizeof *entries);
    entries[at].opcode = IORING_OP_SEND;
    entries[at].fd = fd;
    entries[at].addr = (unsigned long)block;
    entries[at].len = n;
    ((unsigned *)(queue + params.sq_off.array))[at] = at;
    __atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
    if (syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, 0, 0) < 0)
        fail("io_uring_enter");
    unsigned *head = (unsigned *)(completed + params.cq_off.head);
    struct io_uring_cqe *all = (struct io_uring_cqe *)(completed + params.cq_off.cqes);
    long result = all[*head & *(unsigned *)(completed + params.cq_off.ring_mask)].res;
    __atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
    return result;
}

/* By streams of the C library, or by what else it writes with calls of its own. */
static long stream_send(const char *how, int fd, size_t n) {
    static FILE *stream;
    static long count;
    if (!strcmp(how, "dprintf"))
        return dprintf(fd, "%*d", (int)n, 1);
    if (!strcmp(how, "aio")) {
        struct aiocb write = {.aio_fildes = fd, .aio_buf = block, .aio_nbytes = n};
        const struct aiocb *list[] = {&write};
        return aio_write(&write) || aio_suspend(list, 1, 0) ? -1 : aio_return(&write);
    }
    if (!strcmp(how, "both") && count++ % 2)
        return send(fd, block, n, MSG_NOSIGNAL);
    if (!stream)
        stream = !strcmp(how, "stdout") ? (dup2(fd, 1), stdout) : fdopen(dup(fd), "w");
    return stream && fwrite(block, 1, n, stream) == n && fflush(stream) == 0 ? (long)n : -1;
}

/* By a child that ends, on a connection that is its parent's standard output: what it sent is not missed. */
static long child_send(int fd, size_t n) {
    if (dup2(fd, 1) < 0)
        return -1;
    pid_t child = fork();
    if (child == 0)
        _exit(send(1, block, n, MSG_NOSIGNAL) != (long)n || close(1) || close(fd));
    int status;
    return waitpid(child, &status, 0) == child && status == 0 ? (long)n : -1;
}

int main(int argc, char **argv) {
    if (argc != 3)
        return 2;
    int mptcp = !strcmp(argv[1], "mptcp"), uring = !strcmp(argv[1], "uring");
    long remaining = atol(argv[2]);
    int listener = socket(AF_INET, SOCK_STREAM, mptcp ? 262 : 0);
    if (listener < 0)
        return 77;
    if (uring)
        ring_open();
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    if (bind(listener, (void *)&at, len) || listen(listener, 1) || getsockname(listener, (void *)&at, &len))
        fail("listen");
    printf("%d\n", ntohs(at.sin_port));
    fflush(stdout);
    int fd = accept(listener, 0, 0);
    if (fd < 0)
        fail("accept");
    int zerocopy = !strcmp(argv[1], "zerocopy"), one = 1;
    if (zerocopy && setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &one, sizeof one))
        return 77;
    int replaced = !strcmp(argv[1], "replaced");
    long total = remaining;
    while (remaining > 0) {
        // In the middle, by a call that no library sees.
        if (replaced && remaining <= total / 2) {
            replaced = 0;
            if (syscall(SYS_setsockopt, fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4))
                fail("TCP_CONGESTION");
        }
        size_t n = remaining < (long)sizeof block ? remaining : sizeof block;
        long sent = uring ? ring_send(fd, n)
                    : !strcmp(argv[1], "by-a-child") ? child_send(fd, n)
                    : !strcmp(argv[1], "send") || !strcmp(argv[1], "replaced") || mptcp ? send(fd, block, n, MSG_NOSIGNAL)
                    : zerocopy ? send(fd, block, n, MSG_NOSIGNAL | MSG_ZEROCOPY)
                    : stream_send(argv[1], fd, n);
        if (sent <= 0)
            fail("send");
        remaining -= sent;
    }
    close(fd);
    return 0;
}
