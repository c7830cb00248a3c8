// SPDX-License-Identifier: Apache-2.0 OR MIT
// Errors, odd arguments, and everything that is no TCP connection.
#include "peer.h"
#include <sys/eventfd.h>

static void outcome(const char *what, long n) {
    say("%s: %ld %s", what, n, n < 0 ? name_of(errno) : "");
}

static int odd_arguments(void) {
    on_signal(SIGPIPE, SIG_IGN, 0);
    int fd = accepted(), none = 987;
    struct iovec v = {data, 10}, nowhere = {NULL, 10}, huge[2] = {{data, SIZE_MAX / 2}, {data, SIZE_MAX / 2}};
    struct iovec many[1025];
    for (int i = 0; i < 1025; i++) many[i] = v;
    outcome("nothing", write(fd, data, 0));
    outcome("nothing from nowhere", write(fd, NULL, 0));
    outcome("from nowhere", write(fd, NULL, 10));
    outcome("send from nowhere", send(fd, NULL, 10, 0));
    outcome("no such descriptor", write(none, data, 10));
    outcome("negative descriptor", write(-1, data, 10));
    outcome("writev of nothing", writev(fd, &v, 0));
    outcome("writev of a negative number", writev(fd, &v, -1));
    outcome("writev of too many", writev(fd, many, 1025));
    outcome("writev from nowhere", writev(fd, NULL, 1));
    outcome("writev of nowhere", writev(fd, &nowhere, 1));
    outcome("writev of too much", writev(fd, huge, 2));
    struct msghdr m = {.msg_iov = many, .msg_iovlen = 1025};
    outcome("sendmsg of too many", sendmsg(fd, &m, 0));
    m = (struct msghdr){.msg_iov = NULL, .msg_iovlen = 1};
    outcome("sendmsg from nowhere", sendmsg(fd, &m, 0));
    outcome("sendmsg of no message", sendmsg(fd, NULL, 0));
    outcome("sendmmsg of no message", sendmmsg(fd, NULL, 0, 0));
    outcome("sendmmsg from nowhere", sendmmsg(fd, NULL, 2, 0));
    outcome("sendfile from nowhere", sendfile(fd, none, NULL, 10));
    int file = file_of(1000), pipe_[2];
    CHECK(pipe(pipe_) == 0);
    off_t negative = -5;
    outcome("sendfile from before the start", sendfile(fd, file, &negative, 10));
    loff_t zero = 0;
    outcome("splice with an offset of the connection", splice(pipe_[0], NULL, fd, &zero, 10, 0));
    outcome("splice without a pipe", splice(file, NULL, fd, NULL, 10, 0));
    outcome("pwrite", pwrite(fd, data, 10, 0));
    outcome("lseek", lseek(fd, 0, SEEK_SET));
    outcome("writing to the listener", write(listener(), data, 10));
    put(fd, 0, TOTAL);
    outcome("shutdown", shutdown(fd, SHUT_WR));
    outcome("writing after shutdown", write(fd, data, 10));
    outcome("sending after shutdown", send(fd, data, 10, MSG_NOSIGNAL));
    outcome("close", close(fd));
    outcome("closing again", close(fd));
    return 0;
}

static volatile sig_atomic_t signals;
static void count(int signal) {
    (void)signal;
    signals++;
}

static int until_refused(int fd, int flags) {
    for (;;) {
        ssize_t n = send(fd, data, 100000, flags);
        if (n < 0 && errno != ECONNRESET) return errno;
    }
}

static int no_signal(void) {
    say("%s", name_of(until_refused(accepted(), MSG_NOSIGNAL)));
    return 0;
}

static int broken_pipe_ends(void) {
    until_refused(accepted(), 0);
    say("still there");
    return 0;
}

static int broken_pipe_handled(void) {
    on_signal(SIGPIPE, count, 0);
    int fd = accepted();
    say("%s", name_of(until_refused(fd, 0)));
    expect(write(fd, data, 10), -1, "write");
    say("%s, %d signals", name_of(errno), (int)signals);
    return 0;
}

static int broken_pipe_ignored(void) {
    on_signal(SIGPIPE, SIG_IGN, 0);
    int fd = accepted();
    while (write(fd, data, 100000) > 0) {}
    say("%s", name_of(errno) ? "an error" : "?");
    while (write(fd, data, 100000) > 0 || errno == ECONNRESET) {}
    say("%s", name_of(errno));
    struct iovec v = {data, 10};
    expect(writev(fd, &v, 1), -1, "writev");
    say("%s", name_of(errno));
    expect(sendfile(fd, file_of(1000), NULL, 1000), -1, "sendfile");
    say("%s", name_of(errno));
    return 0;
}

// Nothing of this is ours.
static int untouched(void) {
    int pair[2], pipe_[2], udp = socket(AF_INET, SOCK_DGRAM, 0), file = file_of(0), event = eventfd(0, EFD_NONBLOCK);
    char got[2000];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 && pipe(pipe_) == 0 && udp >= 0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof to;
    CHECK(bind(udp, (struct sockaddr *)&to, len) == 0 && getsockname(udp, (struct sockaddr *)&to, &len) == 0);
    int fd = accepted();
    expect(write(pair[0], data, 1000), 1000, "write");
    expect(read(pair[1], got, sizeof got), 1000, "read");
    expect(write(pipe_[1], data, 1000), 1000, "write");
    expect(read(pipe_[0], got, sizeof got), 1000, "read");
    expect(sendto(udp, data, 1000, 0, (struct sockaddr *)&to, len), 1000, "sendto");
    expect(recv(udp, got, sizeof got, 0), 1000, "recv");
    CHECK(connect(udp, (struct sockaddr *)&to, len) == 0);
    expect(send(udp, data, 1200, 0), 1200, "send");
    expect(recv(udp, got, sizeof got, 0), 1200, "recv");
    expect(write(file, data, BIG), BIG, "write");
    struct iovec v[2] = {{data, 1000}, {data, 500}};
    expect(writev(file, v, 2), 1500, "writev");
    expect(sendfile(pipe_[1], file, &(off_t){0}, 4000), 4000, "sendfile");
    uint64_t one = 1;
    expect(write(event, &one, 8), 8, "write");
    struct sockaddr_un at = {.sun_family = AF_UNIX, .sun_path = "peer.sock"};
    int unix_ = socket(AF_UNIX, SOCK_STREAM, 0), to_unix = socket(AF_UNIX, SOCK_STREAM, 0);
    unlink(at.sun_path);
    CHECK(bind(unix_, (struct sockaddr *)&at, sizeof at) == 0 && listen(unix_, 1) == 0);
    CHECK(connect(to_unix, (struct sockaddr *)&at, sizeof at) == 0);
    int from = accept(unix_, NULL, NULL);
    CHECK(from >= 0);
    expect(send(from, data, 100000, 0), 100000, "send");
    for (int remaining = 100000; remaining > 0;) {
        ssize_t n = read(to_unix, got, sizeof got);
        CHECK(n > 0);
        remaining -= n;
    }
    unlink(at.sun_path);
    put(fd, 0, TOTAL);
    return close(fd);
}

// Numbers are given out as the kernel does it: programs count on the lowest free one.
static int numbers(void) {
    int before = dup(0);
    listener();
    int fd = accepted(), after = dup(0);
    put(fd, 0, TOTAL);
    int later = dup(0);
    say("%d %d %d %d", before, fd, after, later);
    struct rlimit few = {later + 1, later + 1};
    CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
    CHECK(close(fd) == 0);
    fd = accepted();
    say("%d", fd);
    put(fd, 0, TOTAL);
    return close(fd);
}

static int options(void) {
    int fd = accept4(listener(), NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC), error = -1;
    socklen_t len = sizeof error;
    CHECK(fd >= 0);
    say("%x %x", fcntl(fd, F_GETFL), fcntl(fd, F_GETFD));
    CHECK(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) == 0);
    say("%d", error);
    int on = 1;
    CHECK(ioctl(fd, FIONBIO, &on) == 0);
    on = 0;
    CHECK(ioctl(fd, FIONBIO, &on) == 0);
    put(fd, 0, TOTAL);
    return close(fd);
}

const struct peer_case edge_cases[] = {
    {"odd-arguments", "", odd_arguments},
    {"no-signal", "client=reset", no_signal},
    {"broken-pipe-ends", "client=reset", broken_pipe_ends},
    {"broken-pipe-handled", "client=reset", broken_pipe_handled},
    {"broken-pipe-ignored", "client=reset", broken_pipe_ignored},
    {"untouched", "", untouched},
    {"numbers", "clients=2", numbers},
    {"options", "", options},
    {0},
};
