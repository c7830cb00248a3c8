// SPDX-License-Identifier: Apache-2.0 OR MIT
// Blocking writes: whole, interruptible, with their time limits, and cancellable.
#include "peer.h"

static int whole(void) {
    int fd = accepted();
    expect(write(fd, data, BIG), BIG, "write");
    return close(fd);
}

static int whole_by_every_call(void) {
    int fd = accepted(), from = file_of(BIG);
    struct iovec v[2] = {{data, 100000}, {data + 100000, 500000}};
    struct msghdr m = {.msg_iov = v, .msg_iovlen = 2};
    struct mmsghdr two[2] = {{{.msg_iov = v, .msg_iovlen = 1}, 0}, {{.msg_iov = v + 1, .msg_iovlen = 1}, 0}};
    off_t at = 0;
    expect(send(fd, data, 600000, 0), 600000, "send");
    expect(writev(fd, v, 2), 600000, "writev");
    expect(sendmsg(fd, &m, 0), 600000, "sendmsg");
    expect(sendmmsg(fd, two, 2, 0), 2, "sendmmsg");
    expect(two[0].msg_len + two[1].msg_len, 600000, "both messages");
    expect(sendfile(fd, from, &at, 600000), 600000, "sendfile");
    return close(fd);
}

static volatile sig_atomic_t rang;
static void ring(int signal) {
    (void)signal;
    rang++;
}

// The handler runs while the write waits. Without SA_RESTART a write that has done nothing yet says EINTR.
static int with_alarms(int flags) {
    on_signal(SIGALRM, ring, flags);
    int fd = accepted(), interrupted = 0;
    alarm_every(50);
    for (size_t at = 0; at < BIG;) {
        ssize_t n = write(fd, data + at, BIG - at);
        if (n > 0) at += n;
        else if (errno == EINTR) interrupted++;
        else CHECK(!"written");
    }
    alarm_every(0);
    say("rang: %s; interrupted: %s", rang > 3 ? "yes" : "no", interrupted ? "yes" : "no");
    return close(fd);
}

static int alarm_restarting(void) { return with_alarms(SA_RESTART); }
static int alarm_interrupting(void) { return with_alarms(0); }

// As alarms_end_waits, for a write in which nothing can be written.
static int alarms_end_writes(void) {
    int fd = accepted();
    struct timeval limit = {0, 400000}, none = {0, 0};
    CHECK(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) == 0);
    while (write(fd, data, 100000) > 0) {}
    CHECK(errno == EAGAIN && setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &none, sizeof none) == 0);
    on_signal(SIGALRM, ring, 0);
    alarm_every(7);
    for (int i = 0; i < 100; i++) {
        rang = 0;
        expect(write(fd, data, 100000), -1, "write");
        CHECK(errno == EINTR && rang < 50);
    }
    return 0;
}

// Nobody reads: one write after the other until one has waited as long as it may and done nothing.
static int send_timeout(void) {
    int fd = accepted();
    struct timeval limit = {0, 300000};
    CHECK(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) == 0);
    double since;
    ssize_t n;
    do {
        since = now();
        n = write(fd, data, 1000000);
    } while (n > 0);
    say("%s", name_of(errno));
    CHECK(now() - since > 0.29 && now() - since < 5);
    struct iovec v = {data, 1000};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
    since = now();
    expect(sendmsg(fd, &m, 0), -1, "sendmsg");
    say("%s", name_of(errno));
    CHECK(now() - since > 0.29 && now() - since < 5);
    return 0;
}

// As send_timeout, with a client that reads at last: whatever was counted as written arrives, and nothing else.
static int send_timeout_exact(void) {
    int fd = accepted();
    struct timeval limit = {0, 100000};
    CHECK(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) == 0);
    int timed_out = 0;
    for (size_t at = 0; at < BIG;) {
        ssize_t n = write(fd, data + at, BIG - at);
        if (n > 0) at += n;
        else if (errno == EAGAIN) timed_out = 1;
        else CHECK(!"written");
    }
    say("timed out: %d", timed_out);
    return close(fd);
}

static int receive_timeout(void) {
    int fd = accepted();
    struct timeval limit = {0, 200000};
    char got[10];
    CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    put(fd, 0, 100000);
    double since = now();
    expect(read(fd, got, sizeof got), -1, "read");
    say("%s", name_of(errno));
    CHECK(now() - since > 0.19);
    put(fd, 100000, TOTAL);
    return close(fd);
}

// Cancelled while it waits; the descriptor is as good as before.
static volatile int cleaned, cancelled_fd;
static void clean(void *what) {
    (void)what;
    cleaned = 1;
}
static void *writes_for_ever(void *fd) {
    pthread_cleanup_push(clean, NULL);
    for (;;) {
        if (write(*(int *)fd, data, 1000000) < 0) break;
    }
    pthread_cleanup_pop(0);
    return NULL;
}
static int cancelled(void) {
    int fd = accepted();
    pthread_t thread;
    void *result;
    CHECK(pthread_create(&thread, NULL, writes_for_ever, &fd) == 0);
    nap(1.2);
    CHECK(pthread_cancel(thread) == 0 && pthread_join(thread, &result) == 0);
    say("cancelled: %d, cleaned up: %d", result == PTHREAD_CANCELED, cleaned);
    struct pollfd p = {fd, POLLOUT, 0};
    expect(poll(&p, 1, 100), 0, "poll");
    return close(fd);
}

// The client goes away while the write waits.
static int reset_meanwhile(void) {
    int fd = accepted();
    on_signal(SIGPIPE, SIG_IGN, 0);
    double since = now();
    ssize_t n;
    while ((n = write(fd, data, BIG)) > 0) {}
    say("%s", errno == ECONNRESET || errno == EPIPE ? "refused" : name_of(errno));
    CHECK(now() - since < 10);
    return 0;
}

// The client stays and says nothing: the write ends when a signal's handler ends it.
static int timer_and_slow_reader(void) {
    int fd = accepted();
    on_signal(SIGALRM, ring, SA_RESTART);
    alarm_every(1);
    put_in_pieces(fd, 0, TOTAL);
    alarm_every(0);
    return close(fd);
}

// Non-blocking while another write is blocked: the flag belongs to the open file, and each call looks at it when it begins.
static int back_and_forth(void) {
    int fd = accepted();
    size_t at = 0;
    for (int turn = 0; at < TOTAL; turn++) {
        set_nonblocking(fd, turn % 2);
        ssize_t n = write(fd, data + at, TOTAL - at < 20000 ? TOTAL - at : 20000);
        CHECK(n > 0 || (turn % 2 && errno == EAGAIN));
        if (turn % 2 == 0) expect(n, TOTAL - at < 20000 ? TOTAL - at : 20000, "a blocking write");
        if (n > 0) at += n;
    }
    return close(fd);
}

const struct peer_case block_cases[] = {
    {"whole", "client=late sndbuf=100000", whole},
    {"whole-by-every-call", "", whole_by_every_call},
    {"alarm-restarting", "client=late sndbuf=100000", alarm_restarting},
    {"alarm-interrupting", "client=late sndbuf=100000", alarm_interrupting},
    {"alarms-end-writes", "client=hold sndbuf=100000", alarms_end_writes},
    {"send-timeout", "client=hold sndbuf=100000", send_timeout},
    {"send-timeout-exact", "client=late sndbuf=100000", send_timeout_exact},
    {"receive-timeout", "", receive_timeout},
    {"cancelled", "client=hold sndbuf=100000", cancelled},
    {"blocked-and-reset", "client=hold-and-reset sndbuf=100000", reset_meanwhile},
    {"timer-and-write", "", timer_and_slow_reader},
    {"back-and-forth", "", back_and_forth},
    {0},
};
