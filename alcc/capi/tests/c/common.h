/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What the test programs share: every wait has an end, every failure names its line. */
#ifndef COMMON_H
#define COMMON_H
#define _GNU_SOURCE
#include <alcc.h>
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(what)                                                                                \
    do {                                                                                           \
        int why_ = errno;                                                                          \
        if (!(what)) {                                                                             \
            fprintf(stderr, "%s:%d: %s (errno %d: %s; %s)\n", __FILE__, __LINE__, #what, why_,     \
                    strerror(why_), alcc_message());                                               \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

static inline void nap(int ms) {
    struct timespec t = {ms / 1000, ms % 1000 * 1000000L};
    nanosleep(&t, NULL);
}

static inline double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* The byte at a position of stream `key`. */
static inline unsigned char pattern(uint64_t key, uint64_t at) {
    return (unsigned char)((at * 31 + at / 251 + key * 77) % 253);
}

static inline unsigned char *filled(uint64_t key, uint64_t from, size_t n) {
    unsigned char *bytes = malloc(n);
    CHECK(bytes);
    for (size_t i = 0; i < n; i++) bytes[i] = pattern(key, from + i);
    return bytes;
}

static inline int listener(int family, struct sockaddr_storage *at, socklen_t *len) {
    int fd = socket(family, SOCK_STREAM, 0);
    CHECK(fd >= 0);
    memset(at, 0, sizeof *at);
    if (family == AF_INET6) {
        struct sockaddr_in6 *a = (void *)at;
        a->sin6_family = AF_INET6;
        a->sin6_addr = in6addr_loopback;
        *len = sizeof *a;
    } else {
        struct sockaddr_in *a = (void *)at;
        a->sin_family = AF_INET;
        a->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        *len = sizeof *a;
    }
    CHECK(bind(fd, (void *)at, *len) == 0 && listen(fd, 200) == 0);
    CHECK(getsockname(fd, (void *)at, len) == 0);
    return fd;
}

/* A stream of ours and its plain peer. */
struct pair {
    int ours, peer;
};

static inline struct pair paired(int family, int flags) {
    struct sockaddr_storage at;
    socklen_t len;
    int l = listener(family, &at, &len);
    struct pair p;
    p.peer = socket(family, SOCK_STREAM, 0);
    CHECK(p.peer >= 0 && connect(p.peer, (void *)&at, len) == 0);
    struct timeval limit = {20, 0};
    CHECK(setsockopt(p.peer, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    p.ours = alcc_accept4(l, NULL, NULL, flags);
    CHECK(p.ours >= 0);
    close(l);
    return p;
}

/* Reads `want` bytes of stream `key` from a plain socket and compares them. */
static inline void expect(int fd, uint64_t key, uint64_t from, uint64_t want) {
    static __thread unsigned char got[65536];
    for (uint64_t at = 0; at < want;) {
        size_t ask = want - at < sizeof got ? (size_t)(want - at) : sizeof got;
        ssize_t n = recv(fd, got, ask, 0);
        CHECK(n > 0);
        for (ssize_t i = 0; i < n; i++, at++) CHECK(got[i] == pattern(key, from + at));
    }
}

static inline void expect_end(int fd) {
    char c;
    CHECK(recv(fd, &c, 1, 0) == 0);
}

static inline struct alcc_info info_of(int fd) {
    struct alcc_info info;
    CHECK(alcc_get_info(fd, &info, sizeof info) == 0);
    return info;
}

struct reader {
    pthread_t thread;
    int fd;
    uint64_t key, want;
};

static inline void *read_thread(void *arg) {
    struct reader *r = arg;
    expect(r->fd, r->key, 0, r->want);
    expect_end(r->fd);
    return NULL;
}

/* A thread that reads and compares all of a stream. */
static inline void start_reader(struct reader *r, int fd, uint64_t key, uint64_t want) {
    r->fd = fd;
    r->key = key;
    r->want = want;
    CHECK(pthread_create(&r->thread, NULL, read_thread, r) == 0);
}

/* Fills queue and kernel until nothing moves any more; returns how much was taken. */
static inline uint64_t fill(int fd, uint64_t key) {
    uint64_t sent = 0;
    for (int still = 0; still < 10;) {
        unsigned char *bytes = filled(key, sent, 4000);
        ssize_t n = alcc_send(fd, bytes, 4000, MSG_DONTWAIT);
        free(bytes);
        if (n > 0) {
            sent += (uint64_t)n;
            still = 0;
        } else {
            CHECK(n < 0 && errno == EAGAIN);
            still++;
            nap(20);
        }
    }
    return sent;
}
#endif
