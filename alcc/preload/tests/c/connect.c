// SPDX-License-Identifier: Apache-2.0 OR MIT
// Connections that the program opens itself.
#include "peer.h"

static int blocking(void) {
    int fd = connected();
    put(fd, 0, TOTAL);
    return close(fd);
}

static int start(int *fd) {
    struct sockaddr_storage to;
    socklen_t len;
    *fd = sink_address(&to, &len);
    set_nonblocking(*fd, 1);
    int rc = connect(*fd, (struct sockaddr *)&to, len);
    if (rc < 0) CHECK(errno == EINPROGRESS);
    return rc;
}

static void pump(int fd) {
    for (size_t at = 0; at < TOTAL;) {
        ssize_t n = send(fd, data + at, TOTAL - at, 0);
        if (n > 0) at += n;
        else CHECK(errno == EAGAIN && poll(&(struct pollfd){fd, POLLOUT, 0}, 1, 10000) == 1);
    }
}

static int with_poll(void) {
    int fd, error = -1;
    socklen_t len = sizeof error;
    start(&fd);
    expect(poll(&(struct pollfd){fd, POLLOUT, 0}, 1, 10000), 1, "poll");
    CHECK(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 && error == 0);
    pump(fd);
    return close(fd);
}

static int with_select(void) {
    int fd;
    start(&fd);
    fd_set out;
    FD_ZERO(&out);
    FD_SET(fd, &out);
    expect(select(fd + 1, NULL, &out, NULL, &(struct timeval){10, 0}), 1, "select");
    // Asking again is another way to find out.
    struct sockaddr_storage to;
    socklen_t len;
    close(sink_address(&to, &len));
    int rc = connect(fd, (struct sockaddr *)&to, len);
    CHECK(rc == 0 || errno == EISCONN);
    pump(fd);
    return close(fd);
}

static int with_epoll(void) {
    int fd, epfd = epoll_create1(0), error = -1;
    socklen_t len = sizeof error;
    struct sockaddr_storage to;
    socklen_t to_len;
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET}, got;
    fd = sink_address(&to, &to_len);
    set_nonblocking(fd, 1);
    // Registered before it is connected.
    CHECK(epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event) == 0);
    int rc = connect(fd, (struct sockaddr *)&to, to_len);
    CHECK(rc == 0 || errno == EINPROGRESS);
    do expect(epoll_wait(epfd, &got, 1, 10000), 1, "epoll_wait");
    while (!(got.events & EPOLLOUT));
    CHECK(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0 && error == 0);
    for (size_t at = 0; at < TOTAL;) {
        ssize_t n = write(fd, data + at, TOTAL - at);
        if (n > 0) at += n;
        else CHECK(errno == EAGAIN && epoll_wait(epfd, &got, 1, 10000) == 1);
    }
    return close(fd);
}

static int refused(void) {
    int fd = socket(AF_INET, SOCK_STREAM, 0), bound = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof to;
    // A port that nobody listens on.
    CHECK(bind(bound, (struct sockaddr *)&to, len) == 0 && getsockname(bound, (struct sockaddr *)&to, &len) == 0);
    expect(connect(fd, (struct sockaddr *)&to, len), -1, "connect");
    say("%s", name_of(errno));
    expect(connect(fd, NULL, 0), -1, "connect");
    say("%s", name_of(errno));
    expect(connect(987, (struct sockaddr *)&to, len), -1, "connect");
    say("%s", name_of(errno));
    expect(send(fd, data, 10, MSG_NOSIGNAL), -1, "send");
    say("%s", name_of(errno));
    close(fd);
    return blocking();
}

static int reconnected(void) {
    int fd = connected();
    struct sockaddr_storage to;
    socklen_t len;
    close(sink_address(&to, &len));
    expect(connect(fd, (struct sockaddr *)&to, len), -1, "connect");
    say("%s", name_of(errno));
    put(fd, 0, TOTAL);
    return close(fd);
}

static int both_roles(void) {
    int in = accepted(), out = connected();
    for (size_t at = 0; at < TOTAL; at += 20000) put(in, at, at + 20000), put(out, at, at + 20000);
    return close(in) | close(out);
}

// Without a cookie this is connect and send in one.
static int fast_open(void) {
    struct sockaddr_storage to;
    socklen_t len;
    int fd = sink_address(&to, &len);
    expect(sendto(fd, data, TOTAL, MSG_FASTOPEN, (struct sockaddr *)&to, len), TOTAL, "sendto");
    return close(fd);
}

static int fast_open_message(void) {
    struct sockaddr_storage to;
    struct iovec parts[2] = {{data, 1000}, {data + 1000, TOTAL - 1000}};
    socklen_t len;
    int fd = sink_address(&to, &len);
    struct msghdr message = {.msg_name = &to, .msg_namelen = len, .msg_iov = parts, .msg_iovlen = 2};
    expect(sendmsg(fd, &message, MSG_FASTOPEN), TOTAL, "sendmsg");
    return close(fd);
}

// connect(2) returns at once, and the first write connects.
static int fast_open_connect(void) {
    struct sockaddr_storage to;
    socklen_t len;
    int one = 1, fd = sink_address(&to, &len);
    CHECK(setsockopt(fd, IPPROTO_TCP, TCP_FASTOPEN_CONNECT, &one, sizeof one) == 0);
    expect(connect(fd, (struct sockaddr *)&to, len), 0, "connect");
    expect(write(fd, data, TOTAL), TOTAL, "write");
    return close(fd);
}

static int fast_open_nonblocking(void) {
    struct sockaddr_storage to;
    socklen_t len;
    int fd = sink_address(&to, &len);
    set_nonblocking(fd, 1);
    ssize_t n = sendto(fd, data, TOTAL, MSG_FASTOPEN, (struct sockaddr *)&to, len);
    CHECK(n > 0 || errno == EINPROGRESS);
    for (size_t at = n > 0 ? n : 0; at < TOTAL;) {
        struct pollfd p = {fd, POLLOUT, 0};
        expect(poll(&p, 1, 10000), 1, "poll");
        if ((n = write(fd, data + at, TOTAL - at)) > 0) at += n;
        else CHECK(errno == EAGAIN);
    }
    return close(fd);
}

static int in_a_child(void) {
    int fd = connected();
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        put(fd, 0, TOTAL);
        _exit(0);
    }
    CHECK(close(fd) == 0);
    reap(child);
    return 0;
}

const struct peer_case connect_cases[] = {
    {"connect", "client=sink", blocking},
    {"connect-ipv6", "client=sink address=::1", blocking},
    {"connect-ipv4-mapped", "client=sink address=::", blocking},
    {"connect-poll", "client=sink", with_poll},
    {"connect-select", "client=sink", with_select},
    {"connect-epoll", "client=sink", with_epoll},
    {"connect-refused", "client=sink", refused},
    {"connect-again", "client=sink", reconnected},
    {"connect-and-accept", "client=both", both_roles},
    {"connect-fast-open", "client=sink", fast_open},
    {"connect-fast-open-message", "client=sink", fast_open_message},
    {"connect-fast-open-connect", "client=sink", fast_open_connect},
    {"connect-fast-open-nonblocking", "client=sink", fast_open_nonblocking},
    {"connect-in-a-child", "client=sink", in_a_child},
    {0},
};
