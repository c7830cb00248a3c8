/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* One scenario per function; the test names it. Status 0: all is as it should be. */
#include "common.h"
#include <stdatomic.h>

/* 100 connections at once; none sees a byte of another. */
static void crosstalk(void) {
    enum { N = 100, BYTES = 150000 };
    static struct reader readers[N];
    static struct pair pairs[N];
    for (int i = 0; i < N; i++) {
        pairs[i] = paired(AF_INET, 0);
        start_reader(&readers[i], pairs[i].peer, (uint64_t)i, BYTES);
    }
    for (int at = 0; at < BYTES; at += 5000)
        for (int i = 0; i < N; i++) {
            unsigned char *bytes = filled((uint64_t)i, (uint64_t)at, 5000);
            CHECK(alcc_send(pairs[i].ours, bytes, 5000, 0) == 5000);
            free(bytes);
        }
    for (int i = 0; i < N; i++) CHECK(alcc_close(pairs[i].ours) == 0);
    for (int i = 0; i < N; i++) CHECK(pthread_join(readers[i].thread, NULL) == 0);
}

/* A queue filled to the last byte gives all of them back. */
static void capacity(void) {
    CHECK(alcc_set_queue(ALCC_DEFAULTS, 50000) == 0);
    struct pair p = paired(AF_INET, SOCK_NONBLOCK);
    uint64_t sent = fill(p.ours, 3);
    struct alcc_info info = info_of(p.ours);
    CHECK(info.queue_capacity == 50000 && info.gate_closed > 0);
    CHECK(info.sent + info.queued == sent);
    expect(p.peer, 3, 0, sent);
    CHECK(alcc_close(p.ours) == 0);
    expect_end(p.peer);
    /* Exactly full: the whole capacity in one call while the peer's window is closed. */
    p = paired(AF_INET, SOCK_NONBLOCK);
    sent = fill(p.ours, 4);
    for (int full = 0; !full;) {
        /* The kernel may have taken some more since it was last full. */
        uint64_t room = 50000 - info_of(p.ours).queued;
        unsigned char *bytes = filled(4, sent, room + 1);
        if (room > 0) CHECK(alcc_send(p.ours, bytes, room, 0) == (ssize_t)room);
        sent += room;
        ssize_t n = alcc_send(p.ours, bytes + room, 1, 0);
        full = n < 0;
        CHECK(n == 1 || errno == EAGAIN);
        sent += full ? 0 : 1;
        free(bytes);
    }
    struct reader r;
    start_reader(&r, p.peer, 4, sent);
    CHECK(alcc_close(p.ours) == 0);
    CHECK(pthread_join(r.thread, NULL) == 0);
}

/* The peer resets in the middle: the error stays, close returns. */
static void reset(void) {
    struct pair p = paired(AF_INET, 0);
    struct linger hard = {1, 0};
    CHECK(setsockopt(p.peer, SOL_SOCKET, SO_LINGER, &hard, sizeof hard) == 0);
    unsigned char *bytes = filled(0, 0, 1000000);
    CHECK(alcc_send(p.ours, bytes, 1000000, 0) == 1000000);
    close(p.peer);
    double end = now() + 20;
    ssize_t n;
    while ((n = alcc_send(p.ours, bytes, 100000, 0)) > 0) CHECK(now() < end);
    for (int i = 0; i < 3; i++)
        CHECK(alcc_send(p.ours, bytes, 1, 0) == -1 && (errno == ECONNRESET || errno == EPIPE));
    CHECK(info_of(p.ours).error != 0);
    int writable = alcc_writable_fd(p.ours);
    struct pollfd poll_for = {writable, POLLOUT, 0};
    CHECK(poll(&poll_for, 1, 0) == 1);
    /* Bytes that were taken are lost: close says so, and closes. */
    CHECK(alcc_close(p.ours) == -1 && (errno == ECONNRESET || errno == EPIPE));
    CHECK(fcntl(p.ours, F_GETFD) == -1 && errno == EBADF);
    free(bytes);
}

static void half_close(void) {
    struct pair p = paired(AF_INET, 0);
    struct reader r;
    unsigned char *bytes = filled(1, 0, 300000);
    CHECK(alcc_send(p.ours, bytes, 300000, 0) == 300000);
    CHECK(alcc_shutdown(p.ours, 77) == -1 && errno == EINVAL);
    CHECK(alcc_shutdown(p.ours, SHUT_WR) == 0);
    CHECK(alcc_send(p.ours, bytes, 1, 0) == -1 && errno == EPIPE);
    start_reader(&r, p.peer, 1, 300000);
    CHECK(pthread_join(r.thread, NULL) == 0);
    CHECK(send(p.peer, "answer", 6, 0) == 6);
    char answer[10] = "";
    CHECK(alcc_recv(p.ours, answer, 6, MSG_WAITALL) == 6 && strcmp(answer, "answer") == 0);
    CHECK(alcc_shutdown(p.ours, SHUT_RD) == 0);
    CHECK(alcc_close(p.ours) == 0);
    free(bytes);
}

/* A peer that stops reading: close gives up at its deadline, and the peer gets RST. */
static void deadline(void) {
    struct pair p = paired(AF_INET, 0);
    uint64_t sent = fill(p.ours, 0);
    CHECK(alcc_set_close_deadline(p.ours, 150) == 0);
    CHECK(alcc_set_close_deadline(p.ours, -2) == -1 && errno == EINVAL);
    double began = now();
    CHECK(alcc_close(p.ours) == -1 && errno == ETIMEDOUT);
    CHECK(now() - began > 0.1 && now() - began < 15);
    CHECK(fcntl(p.ours, F_GETFD) == -1);
    uint64_t got = 0;
    char buffer[65536];
    ssize_t n;
    while ((n = recv(p.peer, buffer, sizeof buffer, 0)) > 0) got += (uint64_t)n;
    CHECK(n == -1 && errno == ECONNRESET && got < sent);
    /* SO_LINGER's time is the deadline, for a non-blocking descriptor too. */
    p = paired(AF_INET, SOCK_NONBLOCK);
    fill(p.ours, 0);
    struct linger one = {1, 1};
    CHECK(setsockopt(p.ours, SOL_SOCKET, SO_LINGER, &one, sizeof one) == 0);
    began = now();
    CHECK(alcc_close(p.ours) == -1 && errno == ETIMEDOUT && now() - began > 0.9);
}

/* Abort, and SO_LINGER of zero: RST at once. */
static void abort_(void) {
    for (int how = 0; how < 2; how++) {
        struct pair p = paired(AF_INET, 0);
        fill(p.ours, 0);
        struct linger hard = {1, 0};
        if (how) CHECK(setsockopt(p.ours, SOL_SOCKET, SO_LINGER, &hard, sizeof hard) == 0);
        double began = now();
        CHECK((how ? alcc_close(p.ours) : alcc_abort(p.ours)) == 0);
        CHECK(now() - began < 5);
        char buffer[65536];
        ssize_t n;
        while ((n = recv(p.peer, buffer, sizeof buffer, 0)) > 0) {
        }
        CHECK(n == -1 && errno == ECONNRESET);
        CHECK(alcc_abort(p.ours) == -1 && errno == EBADF);
    }
}

enum { LEVEL_POLL, LEVEL_EPOLL, EDGE_EPOLL };

/* A non-blocking sender that waits for writability one way or the other. */
static void waits(int how) {
    enum { BYTES = 3000000 };
    CHECK(alcc_set_queue(ALCC_DEFAULTS, 60000) == 0);
    struct pair p = paired(AF_INET, SOCK_NONBLOCK);
    struct reader r;
    start_reader(&r, p.peer, 9, BYTES);
    int writable = alcc_writable_fd(p.ours);
    CHECK(writable >= 0 && alcc_writable_fd(p.ours) == writable);
    int ep = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLOUT | (how == EDGE_EPOLL ? EPOLLET : 0)};
    CHECK(epoll_ctl(ep, EPOLL_CTL_ADD, writable, &event) == 0);
    unsigned char *bytes = filled(9, 0, BYTES);
    uint64_t sent = 0, waited = 0;
    while (sent < BYTES) {
        if (how == LEVEL_POLL) {
            struct pollfd poll_for = {writable, POLLOUT, 0};
            CHECK(poll(&poll_for, 1, 20000) == 1 && poll_for.revents == POLLOUT);
        } else {
            CHECK(epoll_wait(ep, &event, 1, 20000) == 1 && (event.events & EPOLLOUT));
        }
        waited++;
        /* Level triggered: one write each time. Edge triggered: until it would block. */
        do {
            ssize_t n = alcc_send(p.ours, bytes + sent, BYTES - sent < 9000 ? BYTES - sent : 9000, 0);
            if (n < 0) {
                CHECK(errno == EAGAIN);
                break;
            }
            sent += (uint64_t)n;
        } while (how == EDGE_EPOLL && sent < BYTES);
    }
    CHECK(how != EDGE_EPOLL || waited > 5);
    CHECK(waited < BYTES / 1000); /* nobody spins */
    CHECK(info_of(p.ours).gate_closed > 0);
    CHECK(alcc_close(p.ours) == 0);
    CHECK(pthread_join(r.thread, NULL) == 0);
    free(bytes);
}

static void poll_level(void) { waits(LEVEL_POLL); }
static void epoll_level(void) { waits(LEVEL_EPOLL); }
static void epoll_edge(void) { waits(EDGE_EPOLL); }

/* Twenty writes of 100 bytes: in flight returns to nothing. */
static void small(void) {
    struct pair p = paired(AF_INET, 0);
    for (int i = 0; i < 20; i++) {
        unsigned char *bytes = filled(2, (uint64_t)i * 100, 100);
        CHECK(alcc_send(p.ours, bytes, 100, 0) == 100);
        free(bytes);
    }
    expect(p.peer, 2, 0, 2000);
    for (double end = now() + 20; info_of(p.ours).in_flight > 0; nap(2)) CHECK(now() < end);
    struct alcc_info info = info_of(p.ours);
    CHECK(info.sent == 2000 && info.queued == 0 && !info.plain);
    CHECK(alcc_send(p.ours, NULL, 0, 0) == 0);
    CHECK(alcc_send(p.ours, NULL, 5, 0) == -1 && errno == EFAULT);
    CHECK(alcc_send(p.ours, "x", 1, MSG_OOB) == -1 && errno == EOPNOTSUPP);
    CHECK(alcc_close(p.ours) == 0);
    expect_end(p.peer);
}

static volatile int handled;
static void handler(int signal) {
    (void)signal;
    handled++;
}

/* A handler interrupts a blocking send, unless it was installed with SA_RESTART; a time limit ends it. */
static void signals(void) {
    struct pair p = paired(AF_INET, 0);
    uint64_t sent = fill(p.ours, 5);
    struct sigaction action = {.sa_handler = handler};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    unsigned char *bytes = filled(5, sent, 2000000);
    struct itimerval soon = {{0, 0}, {0, 100000}};
    CHECK(setitimer(ITIMER_REAL, &soon, NULL) == 0);
    ssize_t n = alcc_send(p.ours, bytes, 2000000, 0);
    CHECK(handled == 1);
    CHECK((n == -1 && errno == EINTR) || (n >= 0 && n < 2000000));
    sent += n > 0 ? (uint64_t)n : 0;
    /* A time limit. */
    struct timeval limit = {0, 150000};
    CHECK(setsockopt(p.ours, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) == 0);
    free(bytes);
    bytes = filled(5, sent, 2000000);
    double began = now();
    n = alcc_send(p.ours, bytes, 2000000, 0);
    CHECK((n == -1 && errno == EAGAIN) || (n >= 0 && n < 2000000));
    CHECK(now() - began > 0.1 && now() - began < 15);
    sent += n > 0 ? (uint64_t)n : 0;
    /* With SA_RESTART the call goes on until the peer has read. */
    limit.tv_usec = 0;
    CHECK(setsockopt(p.ours, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) == 0);
    action.sa_flags = SA_RESTART;
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    CHECK(setitimer(ITIMER_REAL, &soon, NULL) == 0);
    pid_t reader = fork();
    CHECK(reader >= 0);
    if (reader == 0) {
        close(p.ours);
        nap(400);
        expect(p.peer, 5, 0, sent + 2000000);
        expect_end(p.peer);
        _exit(0);
    }
    close(p.peer);
    free(bytes);
    bytes = filled(5, sent, 2000000);
    CHECK(alcc_send(p.ours, bytes, 2000000, 0) == 2000000 && handled == 2);
    CHECK(alcc_close(p.ours) == 0);
    int status;
    CHECK(waitpid(reader, &status, 0) == reader && status == 0);
    free(bytes);
}

static void ipv6(void) {
    struct pair p = paired(AF_INET6, 0);
    struct reader r;
    start_reader(&r, p.peer, 6, 500000);
    unsigned char *bytes = filled(6, 0, 500000);
    CHECK(alcc_send(p.ours, bytes, 500000, 0) == 500000);
    CHECK(info_of(p.ours).gate_closed > 0);
    CHECK(alcc_close(p.ours) == 0);
    CHECK(pthread_join(r.thread, NULL) == 0);
    free(bytes);
}

/* Connections that we open: blocking, non-blocking, refused. */
static void connects(void) {
    for (int nonblocking = 0; nonblocking < 2; nonblocking++) {
        struct sockaddr_storage at;
        socklen_t len;
        int l = listener(AF_INET, &at, &len);
        int fd = socket(AF_INET, SOCK_STREAM | (nonblocking ? SOCK_NONBLOCK : 0), 0);
        int rc = alcc_connect(fd, (void *)&at, len);
        CHECK(rc == 0 || (nonblocking && errno == EINPROGRESS));
        CHECK(alcc_set_cc(fd, "fixed:window=3") == 0);
        struct pollfd ready = {fd, POLLOUT, 0};
        CHECK(poll(&ready, 1, 20000) == 1);
        int peer = accept(l, NULL, NULL);
        CHECK(peer >= 0);
        struct reader r;
        start_reader(&r, peer, 8, 200000);
        unsigned char *bytes = filled(8, 0, 200000);
        CHECK(alcc_send(fd, bytes, 200000, 0) == 200000);
        struct alcc_info info = info_of(fd);
        CHECK(strcmp(info.cc, "fixed:window=3") == 0);
        CHECK(strcmp(info.feedback, nonblocking ? "tcp-info" : "timestamps") == 0);
        CHECK(strcmp(info.enforcement, "queue+pacing") == 0);
        CHECK(alcc_close(fd) == 0);
        CHECK(pthread_join(r.thread, NULL) == 0);
        free(bytes);
        close(peer);
        close(l);
        fd = socket(AF_INET, SOCK_STREAM, 0);
        CHECK(alcc_connect(fd, (void *)&at, len) == -1 && errno == ECONNREFUSED);
        CHECK(alcc_close(fd) == 0);
    }
}

/* Descriptors that are not alcc streams: each call does as the system call of its name. */
static void unknown(void) {
    char c = 0;
    struct alcc_info info;
    int pipes[2];
    CHECK(pipe(pipes) == 0);
    int bad[] = {-1, -77, 9999, 1 << 20, 0x7fffffff};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK(alcc_send(bad[i], &c, 1, 0) == -1 && errno == EBADF);
        CHECK(alcc_recv(bad[i], &c, 1, 0) == -1 && errno == EBADF);
        CHECK(alcc_close(bad[i]) == -1 && errno == EBADF);
        CHECK(alcc_shutdown(bad[i], SHUT_WR) == -1 && errno == EBADF);
        CHECK(alcc_abort(bad[i]) == -1 && errno == EBADF);
        CHECK(alcc_adopt(bad[i]) == -1 && errno == EBADF);
        CHECK(alcc_writable_fd(bad[i]) == -1 && errno == EBADF);
        CHECK(alcc_get_info(bad[i], &info, sizeof info) == -1 && errno == EBADF);
        CHECK(alcc_accept(bad[i], NULL, NULL) == -1 && errno == EBADF);
        CHECK(bad[i] == -1 || (alcc_set_queue(bad[i], 1) == -1 && errno == EBADF));
    }
    CHECK(alcc_send(pipes[1], &c, 1, 0) == -1 && errno == ENOTSOCK);
    CHECK(alcc_writable_fd(pipes[1]) == -1 && errno == ENOTSOCK);
    CHECK(alcc_adopt(pipes[1]) == -1 && errno == ENOTSOCK);
    CHECK(alcc_close(pipes[1]) == 0);
    /* UNIX sockets and UDP: plain. */
    int two[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, two) == 0);
    CHECK(alcc_send(two[0], "hello", 5, 0) == 5);
    CHECK(alcc_recv(two[1], &c, 1, 0) == 1 && c == 'h');
    CHECK(alcc_adopt(two[0]) == -1 && errno == EOPNOTSUPP);
    CHECK(alcc_writable_fd(two[0]) == -1 && errno == EINVAL);
    CHECK(alcc_close(two[1]) == 0);
    CHECK(alcc_send(two[0], "x", 1, 0) == -1 && errno == EPIPE); /* and no SIGPIPE */
    CHECK(alcc_set_queue(ALCC_DEFAULTS, 0) == -1 && errno == EINVAL);
    CHECK(alcc_get_info(two[0], NULL, 0) == -1 && errno == EFAULT);
    /* A stream closed behind our back, and its number given to something else. */
    struct pair p = paired(AF_INET, 0);
    close(p.ours);
    CHECK(dup2(two[0], p.ours) == p.ours);
    CHECK(alcc_send(p.ours, "x", 1, 0) == -1 && errno == EPIPE);
    CHECK(fcntl(p.ours, F_GETFD) != -1);
    struct pair q = paired(AF_INET, 0);
    close(q.ours);
    struct pair again = paired(AF_INET, 0);
    CHECK(again.ours == q.ours || again.ours > 0);
    CHECK(alcc_send(again.ours, "fresh", 5, 0) == 5);
    char five[5];
    CHECK(recv(again.peer, five, 5, MSG_WAITALL) == 5 && memcmp(five, "fresh", 5) == 0);
    CHECK(alcc_close(again.ours) == 0);
    expect_end(again.peer);
}

/* The server that accepts, forks, and serves in the child. */
static void forks(void) {
    CHECK(alcc_set_cc(ALCC_DEFAULTS, "fixed:window=4") == 0);
    /* The parent's thread exists already. */
    struct pair other = paired(AF_INET, 0);
    CHECK(alcc_send(other.ours, "parent", 6, 0) == 6);
    for (int i = 0; i < 3; i++) {
        struct pair p = paired(AF_INET, 0);
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            unsigned char *bytes = filled(7, 0, 400000);
            CHECK(alcc_send(p.ours, bytes, 400000, 0) == 400000);
            struct alcc_info info = info_of(p.ours);
            CHECK(info.gate_closed > 0 && strcmp(info.cc, "fixed:window=4") == 0);
            CHECK(alcc_close(p.ours) == 0);
            _exit(0);
        }
        CHECK(alcc_close(p.ours) == 0);
        struct reader r;
        start_reader(&r, p.peer, 7, 400000);
        CHECK(pthread_join(r.thread, NULL) == 0);
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
        close(p.peer);
    }
    /* The parent's own stream goes on. */
    CHECK(alcc_send(other.ours, "again", 5, 0) == 5 && alcc_close(other.ours) == 0);
    char eleven[11];
    CHECK(recv(other.peer, eleven, 11, MSG_WAITALL) == 11 && memcmp(eleven, "parentagain", 11) == 0);
}

/* A non-blocking descriptor closes at once; exit() waits until the rest is sent. */
static void exits(void) {
    int ready[2];
    CHECK(pipe(ready) == 0);
    struct sockaddr_storage at;
    socklen_t len;
    int l = listener(AF_INET, &at, &len);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        int fd = alcc_accept4(l, NULL, NULL, SOCK_NONBLOCK);
        CHECK(fd >= 0);
        unsigned char *bytes = filled(1, 0, 800000);
        CHECK(alcc_set_cc(fd, "fixed:window=2") == 0);
        CHECK(alcc_send(fd, bytes, 800000, 0) == 800000);
        CHECK(alcc_close(fd) == 0);
        CHECK(alcc_send(fd, bytes, 1, 0) == -1 && errno == EBADF);
        exit(0);
    }
    int peer = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(connect(peer, (void *)&at, len) == 0);
    expect(peer, 1, 0, 800000);
    expect_end(peer);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

/* Names, options, messages, and an algorithm changed in mid-connection. */
static void algorithms(void) {
    CHECK(alcc_set_cc(ALCC_DEFAULTS, "vrus") == -1 && errno == EINVAL);
    CHECK(strstr(alcc_message(), "no algorithm 'vrus'"));
    CHECK(alcc_set_cc(ALCC_DEFAULTS, "fixed:windw=3") == -1 && errno == EINVAL);
    CHECK(strstr(alcc_message(), "windw"));
    CHECK(alcc_set_cc(ALCC_DEFAULTS, NULL) == -1 && errno == EFAULT);
    CHECK(alcc_set_feedback(ALCC_DEFAULTS, "sonar") == -1 && errno == EINVAL);
    CHECK(strstr(alcc_message(), "timestamps, tcp-info"));
    CHECK(strlen(alcc_version()) >= 5);
    struct pair p = paired(AF_INET, 0);
    CHECK(strcmp(info_of(p.ours).cc, "budget") == 0);
    struct reader r;
    start_reader(&r, p.peer, 1, 3000000);
    unsigned char *bytes = filled(1, 0, 3000000);
    const char *names[] = {"copa", "fixed:window=5", "verus:r=4"};
    for (int i = 0; i < 3; i++) {
        CHECK(alcc_set_cc(p.ours, names[i]) == 0);
        CHECK(alcc_set_feedback(p.ours, i % 2 ? "tcp-info" : "timestamps") == 0);
        CHECK(alcc_send(p.ours, bytes + i * 1000000, 1000000, 0) == 1000000);
        struct alcc_info info = info_of(p.ours);
        CHECK(strcmp(info.cc, names[i]) == 0);
        CHECK(strcmp(info.feedback, i % 2 ? "tcp-info" : "timestamps") == 0);
    }
    struct alcc_info part;
    memset(&part, 7, sizeof part);
    CHECK(alcc_get_info(p.ours, &part, 16) == 0 && part.in_flight == 0x0707070707070707u);
    CHECK(alcc_close(p.ours) == 0);
    CHECK(pthread_join(r.thread, NULL) == 0);
    free(bytes);
}

/* Prints the settings from the environment, which the test sets. */
static void environment(void) {
    struct pair p = paired(AF_INET, 0);
    struct alcc_info info = info_of(p.ours);
    printf("%s %s %s %llu\n", info.cc, info.feedback, info.enforcement,
           (unsigned long long)info.queue_capacity);
    printf("%s\n", alcc_message());
    CHECK(alcc_close(p.ours) == 0);
}

/* Two threads on one stream: each write arrives whole, as nothing else is promised. */
static void *half(void *arg) {
    int fd = *(int *)arg;
    for (int i = 0; i < 2000; i++) CHECK(alcc_send(fd, "0123456789", 10, 0) == 10);
    return NULL;
}

static void threads(void) {
    struct pair p = paired(AF_INET, 0);
    pthread_t two[2];
    for (int i = 0; i < 2; i++) CHECK(pthread_create(&two[i], NULL, half, &p.ours) == 0);
    for (int i = 0; i < 4000; i++) {
        char ten[10];
        CHECK(recv(p.peer, ten, 10, MSG_WAITALL) == 10 && memcmp(ten, "0123456789", 10) == 0);
    }
    for (int i = 0; i < 2; i++) CHECK(pthread_join(two[i], NULL) == 0);
    CHECK(alcc_close(p.ours) == 0);
    expect_end(p.peer);
}

/* One thread says all the time how long a close may take, another sends blocks that wait in the queue: they stay in order. */
static atomic_int sending;
static void *sets_deadlines(void *arg) {
    int fd = *(int *)arg;
    while (sending) CHECK(alcc_set_close_deadline(fd, 10000) == 0);
    return NULL;
}

static void deadlines(void) {
    enum { BLOCK = 65536, BLOCKS = 150 };
    CHECK(alcc_set_cc(ALCC_DEFAULTS, "fixed:window=2") == 0);
    struct pair p = paired(AF_INET, 0);
    struct reader r;
    start_reader(&r, p.peer, 5, (uint64_t)BLOCK * BLOCKS);
    pthread_t other;
    sending = 1;
    CHECK(pthread_create(&other, NULL, sets_deadlines, &p.ours) == 0);
    for (int i = 0; i < BLOCKS; i++) {
        unsigned char *bytes = filled(5, (uint64_t)BLOCK * i, BLOCK);
        CHECK(alcc_send(p.ours, bytes, BLOCK, 0) == BLOCK);
        free(bytes);
    }
    sending = 0;
    CHECK(pthread_join(other, NULL) == 0);
    CHECK(alcc_close(p.ours) == 0);
    CHECK(pthread_join(r.thread, NULL) == 0);
}

/* Two threads find at once that a socket is connected, and send: one stream, and a queue that keeps what it was given. */
static int just_connected;
static pthread_barrier_t both;
static void *first_send(void *arg) {
    (void)arg;
    char ten[10] = "0123456789";
    pthread_barrier_wait(&both);
    CHECK(alcc_send(just_connected, ten, 10, 0) == 10);
    return NULL;
}

static void first_sends(void) {
    struct sockaddr_storage at;
    socklen_t len;
    int from = listener(AF_INET, &at, &len);
    pthread_barrier_init(&both, NULL, 2);
    for (int i = 0; i < 300; i++) {
        just_connected = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        CHECK(alcc_connect(just_connected, (void *)&at, len) == 0 || errno == EINPROGRESS);
        int peer = accept(from, NULL, NULL);
        struct pollfd made = {just_connected, POLLOUT, 0};
        CHECK(poll(&made, 1, 10000) == 1);
        CHECK(fcntl(just_connected, F_SETFL, 0) == 0);
        pthread_t two[2];
        for (int t = 0; t < 2; t++) CHECK(pthread_create(&two[t], NULL, first_send, NULL) == 0);
        for (int t = 0; t < 2; t++) CHECK(pthread_join(two[t], NULL) == 0);
        /* The stream that is known has sent all of it, so it is the only one. */
        struct alcc_info info = info_of(just_connected);
        CHECK(info.sent + info.queued == 20);
        CHECK(alcc_close(just_connected) == 0);
        char twenty[21];
        CHECK(recv(peer, twenty, 21, MSG_WAITALL) == 20 && memcmp(twenty, "01234567890123456789", 20) == 0);
        close(peer);
    }
}

static const struct {
    const char *name;
    void (*run)(void);
} SCENARIOS[] = {
    {"crosstalk", crosstalk},   {"capacity", capacity},       {"reset", reset},
    {"half_close", half_close}, {"deadline", deadline},       {"abort", abort_},
    {"poll_level", poll_level}, {"epoll_level", epoll_level}, {"epoll_edge", epoll_edge},
    {"small", small},           {"signals", signals},         {"ipv6", ipv6},
    {"connects", connects},     {"unknown", unknown},         {"forks", forks},
    {"exits", exits},           {"algorithms", algorithms},   {"environment", environment},
    {"threads", threads},       {"deadlines", deadlines},     {"first_sends", first_sends},
};

int main(int argc, char **argv) {
    alarm(0);
    for (size_t i = 0; i < sizeof SCENARIOS / sizeof *SCENARIOS; i++)
        if (argc == 2 && strcmp(argv[1], SCENARIOS[i].name) == 0) {
            SCENARIOS[i].run();
            return 0;
        }
    fprintf(stderr, "no scenario of this name\n");
    return 2;
}
