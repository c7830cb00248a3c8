// SPDX-License-Identifier: Apache-2.0 OR MIT
// Duplicating and passing descriptors.
#include "peer.h"

static int half_and_half(int a, int b) {
    for (size_t at = 0; at < TOTAL; at += 20000) put(at / 20000 % 2 ? a : b, at, at + 20000);
    return 0;
}

static int by_dup(void) {
    int fd = accepted(), other = dup(fd);
    CHECK(other >= 0);
    half_and_half(fd, other);
    CHECK(close(fd) == 0);
    put(other, 0, TOTAL);
    return close(other);
}

static int by_dup2(void) {
    int fd = accepted(), other = 50;
    CHECK(dup2(fd, other) == other && dup2(fd, fd) == fd);
    half_and_half(fd, other);
    CHECK(close(other) == 0);
    put(fd, 0, TOTAL);
    expect(write(other, data, 10), -1, "write");
    say("%s", name_of(errno));
    return close(fd);
}

static int by_dup3(void) {
    int fd = accepted(), other = dup3(fd, 60, O_CLOEXEC);
    CHECK(other == 60 && fcntl(other, F_GETFD) == FD_CLOEXEC);
    expect(dup3(fd, fd, 0), -1, "dup3");
    say("%s", name_of(errno));
    CHECK(close(fd) == 0);
    put(other, 0, TOTAL);
    return close(other);
}

static int by_fcntl(void) {
    int fd = accepted(), a = fcntl(fd, F_DUPFD, 30), b = fcntl(fd, F_DUPFD_CLOEXEC, 40);
    CHECK(a == 30 && b == 40 && fcntl(a, F_GETFD) == 0 && fcntl(b, F_GETFD) == FD_CLOEXEC);
    half_and_half(fd, a);
    half_and_half(a, b);
    CHECK(close(fd) == 0 && close(b) == 0);
    put(a, 0, TOTAL);
    return close(a);
}

// One connection's descriptor put over another's: the other one ends.
static int over_another(void) {
    int first = accepted(), second = accepted();
    put(first, 0, 100000);
    put(second, 0, 150000);
    CHECK(dup2(first, second) == second);
    put(second, 100000, 120000);
    put(first, 120000, TOTAL);
    CHECK(close(first) == 0);
    return close(second);
}

static int shared_flags(void) {
    int fd = accepted_nonblocking(), other = dup(fd);
    set_nonblocking(fd, 0);
    set_nonblocking(other, 1);
    size_t at = 0;
    while (at < TOTAL) {
        ssize_t n = write(fd, data + at, TOTAL - at);
        if (n > 0) at += n;
        else CHECK(errno == EAGAIN && poll(&(struct pollfd){other, POLLOUT, 0}, 1, 10000) == 1);
    }
    CHECK(close(fd) == 0);
    return close(other);
}

void give(int to, int fd) {
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    struct iovec v = {"x", 1};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
    expect(sendmsg(to, &m, 0), 1, "sendmsg of a descriptor");
}

int take(int from) {
    char control[CMSG_SPACE(sizeof(int))], byte;
    struct iovec v = {&byte, 1};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    expect(recvmsg(from, &m, 0), 1, "recvmsg of a descriptor");
    int fd;
    CHECK(CMSG_FIRSTHDR(&m));
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof fd);
    return fd;
}

// Accepted in one process, served in another that was there before: as HAProxy or vsftpd pass connections on.
static int passed(void) {
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    listener();
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        close(pair[0]);
        int fd = take(pair[1]);
        put(fd, 0, TOTAL);
        _exit(close(fd));
    }
    close(pair[1]);
    int fd = accepted();
    give(pair[0], fd);
    CHECK(close(fd) == 0);
    reap(child);
    return 0;
}

static int passed_while_writing(void) {
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    int fd = accepted();
    put(fd, 0, 80000);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        // Not the inherited one, the passed one.
        close(fd);
        int got = take(pair[1]);
        put(got, 80000, TOTAL);
        _exit(close(got));
    }
    give(pair[0], fd);
    CHECK(close(fd) == 0);
    reap(child);
    return 0;
}

static int passed_to_itself(void) {
    int pair[2], fd = accepted();
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    give(pair[0], fd);
    CHECK(close(fd) == 0);
    fd = take(pair[1]);
    put(fd, 0, TOTAL);
    return close(fd);
}

// What the kernel has: the process that gets the socket may not know of us.
static int passed_without_a_limit(void) {
    int pair[2], fd = accepted();
    for (int i = 0; i < 5; i++) {
        // Time for a reading, after which the algorithm has a rate.
        put(fd, i * 100000, (i + 1) * 100000);
        usleep(20000);
    }
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    give(pair[0], fd);
    CHECK(close(fd) == 0);
    fd = take(pair[1]);
    struct limits l = limits_of(fd);
    say("%lx %s %u", l.rate, l.control, l.unsent);
    put(fd, 500000, 600000);
    return close(fd);
}

// Descriptors that are closed already, that are something else, and that never were.
static void put_in_pieces_waiting(int fd, size_t from, size_t to) {
    while (from < to) {
        ssize_t n = write(fd, data + from, to - from);
        if (n > 0) from += n;
        else expect(poll(&(struct pollfd){fd, POLLOUT, 0}, 1, 10000), 1, "poll");
    }
}
static void result(const char *what, long rc) { say("%s %ld %s", what, rc, rc < 0 ? name_of(errno) : ""); }
static int misused(void) {
    int fd = accepted_nonblocking(), epfd = epoll_create1(0), other = dup(fd), wrong[] = {-1, 63, 0, 0};
    struct epoll_event event = {.events = EPOLLOUT | EPOLLET};
    CHECK(epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event) == 0);
    for (size_t at = 0; at < 60000;) {
        ssize_t n = write(fd, data + at, 60000 - at);
        if (n > 0) at += n;
        else expect(epoll_wait(epfd, &event, 1, 10000), 1, "epoll_wait");
    }
    expect(close(fd), 0, "close");
    wrong[2] = fd, wrong[3] = epfd;
    for (size_t i = 0; i < 4; i++) {
        int bad = wrong[i];
        struct pollfd p = {bad, POLLOUT, 0};
        fd_set out;
        FD_ZERO(&out);
        result("write", write(bad, data, 10000));
        result("send", send(bad, data, 10000, MSG_DONTWAIT));
        result("sendfile", sendfile(bad, epfd, NULL, 10000));
        result("epoll_ctl", epoll_ctl(epfd, EPOLL_CTL_MOD, bad, &event));
        result("epoll_ctl", epoll_ctl(bad, EPOLL_CTL_ADD, other, &event));
        if (i == 3) result("epoll_ctl", epoll_ctl(bad, EPOLL_CTL_DEL, other, NULL));
        result("epoll_wait", i == 3 ? -2 : epoll_wait(bad, &event, 1, 0));
        result("poll", bad == epfd ? 0 : poll(&p, 1, 0));
        say("%d", p.revents);
        if (bad >= 0 && bad != epfd) {
            FD_SET(bad, &out);
            result("select", select(bad + 1, NULL, &out, NULL, &(struct timeval){0, 0}));
        }
        if (i < 3) result("dup", dup(bad)), result("close", close(bad)), result("shutdown", shutdown(bad, SHUT_WR));
    }
    put_in_pieces_waiting(other, 60000, TOTAL);
    return close(other);
}

// The number of an epoll instance is a connection's afterwards, and the other way round.
static int number_given_again(void) {
    int first = accepted_nonblocking(), epfd = epoll_create1(0), kept = dup(epfd);
    struct epoll_event event = {.events = EPOLLOUT};
    CHECK(epoll_ctl(epfd, EPOLL_CTL_ADD, first, &event) == 0);
    CHECK(close(epfd) == 0);
    int second = accepted_nonblocking();
    expect(second, epfd, "the number of the next connection");
    put_in_pieces_waiting(second, 0, TOTAL);
    for (size_t at = 0; at < TOTAL;) {
        ssize_t n = write(first, data + at, TOTAL - at);
        if (n > 0) at += n;
        else expect(epoll_wait(kept, &event, 1, 10000), 1, "epoll_wait");
    }
    return close(first) | close(second);
}

const struct peer_case descriptor_cases[] = {
    {"dup", "", by_dup},
    {"dup2", "", by_dup2},
    {"dup3", "", by_dup3},
    {"fcntl-dup", "", by_fcntl},
    {"dup2-over-another", "clients=2", over_another},
    {"shared-flags", "", shared_flags},
    {"passed", "gate=maybe", passed},
    {"passed-while-writing", "", passed_while_writing},
    {"passed-to-itself", "", passed_to_itself},
    {"passed-without-a-limit", "cc=copa", passed_without_a_limit},
    {"misused", "", misused},
    {"number-given-again", "clients=2", number_given_again},
    {0},
};
