// SPDX-License-Identifier: Apache-2.0 OR MIT
// A connection that breaks: whoever asks next is told so, once, and as the kernel would have told it.
#include "peer.h"

typedef ssize_t writes(int fd, const char *from, size_t n);

static ssize_t by_write(int fd, const char *from, size_t n) { return write(fd, from, n); }
static ssize_t by_send(int fd, const char *from, size_t n) { return send(fd, from, n, 0); }
static ssize_t by_sendto(int fd, const char *from, size_t n) { return sendto(fd, from, n, 0, NULL, 0); }
static ssize_t by_writev(int fd, const char *from, size_t n) {
    struct iovec v[2] = {{(char *)from, n / 3}, {(char *)from + n / 3, n - n / 3}};
    return writev(fd, v, 2);
}
static ssize_t by_sendmsg(int fd, const char *from, size_t n) {
    struct iovec v[2] = {{(char *)from, n / 3}, {(char *)from + n / 3, n - n / 3}};
    struct msghdr m = {.msg_iov = v, .msg_iovlen = 2};
    return sendmsg(fd, &m, 0);
}
static ssize_t by_sendmmsg(int fd, const char *from, size_t n) {
    struct iovec v = {(char *)from, n};
    struct mmsghdr m = {{.msg_iov = &v, .msg_iovlen = 1}, 0};
    int rc = sendmmsg(fd, &m, 1, 0);
    return rc < 0 ? rc : m.msg_len;
}

static const struct {
    const char *name;
    writes *writes;
} ways[] = {
    {"write", by_write}, {"send", by_send}, {"sendto", by_sendto}, {"writev", by_writev}, {"sendmsg", by_sendmsg}, {"sendmmsg", by_sendmmsg},
};

// What the program does next. SIGPIPE is as it was: a server that always met ECONNRESET first never had to ignore it.
static void next_write(int fd, writes *writes) {
    ssize_t n = writes(fd, data, 1000);
    say("%zd %s", n, n < 0 ? name_of(errno) : "");
    signal(SIGPIPE, SIG_IGN);
    n = writes(fd, data, 1000);
    say("%zd %s", n, n < 0 ? name_of(errno) : "");
}
static void next_read(int fd, writes *writes) {
    char got[10];
    for (int i = 0; i < 2; i++) {
        ssize_t n = read(fd, got, sizeof got);
        say("%zd %s", n, n < 0 ? name_of(errno) : "");
    }
}
static void next_received(int fd, writes *writes) {
    char got[10];
    struct iovec v = {got, sizeof got};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
    ssize_t n = recvmsg(fd, &m, 0);
    say("%zd %s", n, n < 0 ? name_of(errno) : "");
    n = recv(fd, got, sizeof got, 0);
    say("%zd %s", n, n < 0 ? name_of(errno) : "");
}
static void next_option(int fd, writes *writes) {
    for (int i = 0; i < 2; i++) {
        int error = -1;
        socklen_t len = sizeof error;
        CHECK(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0);
        say("%s", error ? name_of(error) : "no error");
    }
    next_read(fd, writes);
}
static void next_poll(int fd, writes *writes) {
    struct pollfd p = {fd, POLLIN | POLLOUT | POLLRDHUP, 0};
    expect(poll(&p, 1, 5000), 1, "poll");
    say("events %x", p.revents);
    int ep = epoll_create1(0);
    struct epoll_event e = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP}, got;
    CHECK(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e) == 0);
    expect(epoll_wait(ep, &got, 1, 5000), 1, "epoll_wait");
    say("events %x", got.events);
    next_write(fd, writes);
}

static const struct {
    const char *name;
    void (*looks)(int fd, writes *writes);
} looks[] = {
    {"write", next_write}, {"read", next_read}, {"recvmsg", next_received}, {"SO_ERROR", next_option}, {"poll", next_poll},
};

#define WAYS (sizeof ways / sizeof *ways)
#define LOOKS (sizeof looks / sizeof *looks)

// A child for each way to write and each look after it, all at once; what they say, in order.
static int reset_in_a_write(void) {
    int out[WAYS * LOOKS];
    pid_t child[WAYS * LOOKS];
    for (size_t i = 0; i < WAYS * LOOKS; i++) {
        int fd = accepted();
        out[i] = file_of(0);
        child[i] = fork();
        CHECK(child[i] >= 0);
        if (child[i] == 0) {
            writes *writes = ways[i / LOOKS].writes;
            dup2(out[i], 1);
            ssize_t n;
            while ((n = writes(fd, data, BIG)) == BIG) {}
            say("%s, then %s: %s", ways[i / LOOKS].name, looks[i % LOOKS].name, n < 0 ? name_of(errno) : "partial");
            looks[i % LOOKS].looks(fd, writes);
            _exit(0);
        }
        close(fd);
    }
    for (size_t i = 0; i < WAYS * LOOKS; i++) {
        char said[500];
        reap(child[i]);
        ssize_t n = pread(out[i], said, sizeof said - 1, 0);
        CHECK(n > 0);
        said[n - 1] = 0;
        say("%s", said);
    }
    return 0;
}

// By a file or a pipe the kernel itself fetches the error: all that is certain is that the program is told.
static void refused(int fd, int splices) {
    int from = file_of(BIG), p[2];
    CHECK(pipe(p) == 0);
    if (splices && fork() == 0) {
        close(p[0]);
        for (;;)
            if (write(p[1], data, BIG) < 0) _exit(0);
    }
    close(p[1]);
    ssize_t n;
    do n = splices ? splice(p[0], NULL, fd, NULL, BIG, 0) : sendfile(fd, from, NULL, BIG);
    while (n > 0);
    say("%s", n < 0 && (errno == ECONNRESET || errno == EPIPE) ? "refused" : name_of(n ? errno : 0));
}

static int reset_in_another_way(void) {
    signal(SIGPIPE, SIG_IGN);
    pid_t child[2];
    for (int splices = 0; splices < 2; splices++) {
        int fd = accepted();
        child[splices] = fork();
        if (child[splices] == 0) {
            refused(fd, splices);
            _exit(0);
        }
        close(fd);
    }
    reap(child[0]);
    reap(child[1]);
    return 0;
}

// A piece that is no memory ends the write there or a little before; what comes after goes on as if nothing had been.
static int bad_piece(void) {
    int fd = accepted();
    struct iovec v[3] = {{data, 50000}, {(char *)8, 50000}, {data, 10}};
    struct msghdr m = {.msg_iov = v, .msg_iovlen = 3};
    size_t at = 0;
    for (;;) {
        v[0] = (struct iovec){data + at, 50000 - at};
        ssize_t n = at % 2 ? sendmsg(fd, &m, 0) : writev(fd, v, 3);
        if (n < 0) break;
        at += n;
    }
    say("%s", name_of(errno));
    expect(writev(fd, v + 1, 2), -1, "writev");
    say("%s", name_of(errno));
    put(fd, at, TOTAL);
    return close(fd);
}

// The program is told by epoll that the connection is broken: the write that it then tries says why.
static int write_after_an_event(void) {
    signal(SIGPIPE, SIG_IGN);
    int fd = accepted_nonblocking(), ep = epoll_create1(0);
    struct epoll_event e = {.events = EPOLLOUT | EPOLLRDHUP}, got;
    CHECK(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e) == 0);
    for (;;) {
        if (write(fd, data, 100000) > 0) continue;
        CHECK(errno == EAGAIN);
        CHECK(epoll_wait(ep, &got, 1, 5000) == 1);
        if (got.events & (EPOLLERR | EPOLLHUP)) break;
    }
    say("events %x", got.events & (EPOLLERR | EPOLLHUP));
    ssize_t n = write(fd, data, 100000);
    say("%zd %s", n, n < 0 ? name_of(errno) : "");
    n = write(fd, data, 100000);
    say("%zd %s", n, n < 0 ? name_of(errno) : "");
    return 0;
}

const struct peer_case error_cases[] = {
    {"reset-in-a-write", "client=hold-and-reset clients=30 sndbuf=100000", reset_in_a_write},
    {"reset-in-another-way", "client=hold-and-reset clients=2 sndbuf=100000", reset_in_another_way},
    {"bad-piece", "", bad_piece},
    {"write-after-an-event", "client=hold-and-reset sndbuf=100000", write_after_an_event},
    {0},
};
