// SPDX-License-Identifier: Apache-2.0 OR MIT
// Non-blocking writes, and every way but epoll to wait until one may write again.
#include "peer.h"
#include <linux/aio_abi.h>

// The compiler must not know how many, or a hardened build would not check.
static volatile nfds_t one = 1;

// Writes TOTAL bytes; `waits` returns when one may write. A wait that returns at once without cause would be a busy loop.
static int pump(int fd, void (*waits)(int)) {
    size_t at = 0, waited = 0;
    while (at < TOTAL) {
        size_t n = TOTAL - at < 20000 ? TOTAL - at : 20000;
        ssize_t wrote = write(fd, data + at, n);
        if (wrote > 0) {
            at += wrote;
        } else {
            CHECK(wrote < 0 && errno == EAGAIN);
            waits(fd);
            waited++;
        }
    }
    if (waited > 2000) say("a busy loop");
    return close(fd);
}

static void in_poll(int fd) {
    struct pollfd p[3] = {{-1, POLLOUT, 7}, {fd, POLLIN | POLLOUT, 0}, {0, 0, 0}};
    nfds_t n = one + 1;
    expect(poll(p, n, 10000), 1, "poll");
    CHECK(p[0].revents == 0 && p[1].revents & POLLOUT);
}

static void in_ppoll(int fd) {
    struct pollfd p = {fd, POLLOUT, 0};
    sigset_t none;
    sigemptyset(&none);
    expect(ppoll(&p, one, &(struct timespec){10, 0}, &none), 1, "ppoll");
    CHECK(p.revents == POLLOUT);
}

static void in_select(int fd) {
    fd_set in, out;
    FD_ZERO(&in);
    FD_ZERO(&out);
    FD_SET(fd, &in);
    FD_SET(fd, &out);
    expect(select(fd + 1, &in, &out, NULL, &(struct timeval){10, 0}), 1, "select");
    CHECK(FD_ISSET(fd, &out) && !FD_ISSET(fd, &in));
}

static void in_pselect(int fd) {
    fd_set out;
    FD_ZERO(&out);
    FD_SET(fd, &out);
    struct timespec limit = {10, 0};
    expect(pselect(fd + 1, NULL, &out, NULL, &limit, NULL), 1, "pselect");
    CHECK(FD_ISSET(fd, &out) && limit.tv_sec == 10);
}

static int by_poll(void) { return pump(accepted_nonblocking(), in_poll); }
static int by_ppoll(void) { return pump(accepted_nonblocking(), in_ppoll); }
static int by_select(void) { return pump(accepted_nonblocking(), in_select); }
static int by_pselect(void) { return pump(accepted_nonblocking(), in_pselect); }

// Looks again and again without waiting, as some event loops do.
static void in_turns(int fd) {
    for (int i = 0; i < 10000; i++) {
        struct pollfd p = {fd, POLLOUT, 0};
        if (poll(&p, one, 0) == 1) return;
        nap(0.001);
    }
    CHECK(!"writable");
}
static int by_turns(void) { return pump(accepted_nonblocking(), in_turns); }

// A blocking connection, written to without waiting.
static int by_dontwait(void) {
    int fd = accepted_nonblocking();
    set_nonblocking(fd, 0);
    for (size_t at = 0; at < TOTAL;) {
        struct iovec v = {data + at, TOTAL - at};
        struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
        ssize_t n = sendmsg(fd, &m, MSG_DONTWAIT);
        if (n < 0) {
            CHECK(errno == EAGAIN);
            in_poll(fd);
        } else {
            at += n;
        }
    }
    return close(fd);
}

static int by_ioctl(void) {
    int fd = accepted_nonblocking(), on = 1;
    set_nonblocking(fd, 0);
    CHECK(ioctl(fd, FIONBIO, &on) == 0);
    return pump(fd, in_poll);
}

// Every call that writes, without waiting: partly, or EAGAIN.
static int by_every_call(void) {
    int fd = accepted_nonblocking(), from = file_of(TOTAL), pipe_[2];
    size_t at = 0, piped = 0;
    CHECK(pipe(pipe_) == 0);
    for (int turn = 0; at < TOTAL; turn++) {
        size_t n = TOTAL - at < 9000 ? TOTAL - at : 9000, part = n / 3;
        struct iovec v[3] = {{data + at, part}, {data + at + part, part}, {data + at + 2 * part, n - 2 * part}};
        struct msghdr m = {.msg_iov = v, .msg_iovlen = 3};
        struct mmsghdr two[2] = {{{.msg_iov = v, .msg_iovlen = 1}, 0}, {{.msg_iov = v + 1, .msg_iovlen = 2}, 0}};
        off_t offset = at;
        ssize_t wrote;
        switch (piped ? 7 : turn % 8) {
        case 0: wrote = write(fd, data + at, n); break;
        case 1: wrote = writev(fd, v, 3); break;
        case 2: wrote = send(fd, data + at, n, 0); break;
        case 3: wrote = sendto(fd, data + at, n, 0, NULL, 0); break;
        case 4: wrote = sendmsg(fd, &m, 0); break;
        case 5:
            wrote = sendmmsg(fd, two, 2, 0);
            // How many messages, and of each how much; after one that is short there is no next.
            if (wrote > 0) {
                size_t first = two[0].msg_len, second = wrote == 2 ? two[1].msg_len : 0;
                CHECK(first == part || wrote == 1);
                wrote = first + second;
            }
            break;
        case 6:
            wrote = sendfile(fd, from, &offset, n);
            CHECK(wrote < 0 || offset == (off_t)at + wrote);
            break;
        default:
            if (!piped) expect(piped = write(pipe_[1], data + at, n), n, "write to the pipe");
            wrote = splice(pipe_[0], NULL, fd, NULL, piped, SPLICE_F_NONBLOCK);
            if (wrote > 0) piped -= wrote;
        }
        if (wrote < 0) {
            CHECK(errno == EAGAIN);
            in_poll(fd);
        } else {
            at += wrote;
        }
    }
    return close(fd);
}

static void fill(int fd) {
    while (write(fd, data, 50000) > 0) {}
    CHECK(errno == EAGAIN);
}

// The client does not read: nothing may be writable for ever, and a wait has to end in time.
static int timeouts(void) {
    int fd = accepted_nonblocking();
    double since;
    do {
        fill(fd);
        since = now();
    } while (poll(&(struct pollfd){fd, POLLOUT, 0}, one, 400) != 0);
    CHECK(now() - since > 0.39 && now() - since < 5);
    fd_set out;
    do {
        fill(fd);
        FD_ZERO(&out);
        FD_SET(fd, &out);
        since = now();
    } while (select(fd + 1, NULL, &out, NULL, &(struct timeval){0, 400000}) != 0);
    CHECK(now() - since > 0.39 && now() - since < 5 && !FD_ISSET(fd, &out));
    say("timed out");
    return 0;
}

static volatile sig_atomic_t rang;
static void ring(int signal) {
    (void)signal;
    rang++;
}

// The last acknowledgements may come late on a busy machine. Then there is room, and a write finds it.
static int room_after_all(int fd, int rc) {
    static int times;
    if (rc != 1 || ++times > 5) return 0;
    CHECK(write(fd, data, 50000) > 0);
    fill(fd);
    return 1;
}

static int interrupted(void) {
    int fd = accepted_nonblocking(), rc;
    sigset_t alarm_, none;
    sigemptyset(&none);
    sigemptyset(&alarm_);
    sigaddset(&alarm_, SIGALRM);
    on_signal(SIGALRM, ring, SA_RESTART);
    struct pollfd p = {fd, POLLOUT, 0};
    do fill(fd);
    while (poll(&p, one, 400) != 0);
    alarm_every(200);
    // Waiting calls are never restarted.
    do rc = poll(&p, one, 10000);
    while (room_after_all(fd, rc));
    expect(rc, -1, "poll");
    say("%s", name_of(errno));
    CHECK(sigprocmask(SIG_BLOCK, &alarm_, NULL) == 0);
    nap(0.3);
    rang = 0;
    // Pending outside, let in inside.
    do rc = ppoll(&p, one, &(struct timespec){10, 0}, &none);
    while (room_after_all(fd, rc));
    expect(rc, -1, "ppoll");
    say("%s %d", name_of(errno), rang > 0);
    fd_set out;
    do {
        FD_ZERO(&out);
        FD_SET(fd, &out);
        rc = pselect(fd + 1, NULL, &out, NULL, &(struct timespec){10, 0}, &none);
    } while (room_after_all(fd, rc));
    expect(rc, -1, "pselect");
    say("%s %d", name_of(errno), rang > 1);
    return 0;
}

// While there is no room to write the client says something.
static int readable_meanwhile(void) {
    int fd = accepted_nonblocking();
    struct pollfd p = {fd, POLLIN | POLLOUT, 0};
    do {
        fill(fd);
        p.revents = 0;
        expect(poll(&p, one, 10000), 1, "poll");
    } while (!(p.revents & POLLIN));
    char got[16];
    ssize_t n = read(fd, got, sizeof got);
    say("%.*s", (int)n, got);
    return 0;
}

static int reset_meanwhile(void) {
    int fd = accepted_nonblocking();
    on_signal(SIGPIPE, SIG_IGN, 0);
    struct pollfd p = {fd, POLLOUT, 0};
    do {
        while (write(fd, data, 50000) > 0) {}
        p.revents = 0;
        expect(poll(&p, one, 10000), 1, "poll");
    } while (!(p.revents & (POLLERR | POLLHUP)));
    say("%d %d", !!(p.revents & POLLERR), !!(p.revents & POLLHUP));
    return 0;
}

static int errors_of_poll(void) {
    int fd = accepted_nonblocking();
    struct pollfd p[2] = {{fd, POLLIN, 0}, {987, POLLOUT, 0}};
    expect(poll(p, one + 1, 1000), 1, "poll");
    say("%d", p[1].revents == POLLNVAL);
    expect(poll(NULL, 0, 10), 0, "poll");
    expect(select(-1, NULL, NULL, NULL, NULL), -1, "select");
    say("%s", name_of(errno));
    fd_set out;
    FD_ZERO(&out);
    FD_SET(fd, &out);
    FD_SET(40, &out);
    expect(select(41, NULL, &out, NULL, NULL), -1, "select");
    say("%s", name_of(errno));
    return pump(fd, in_select);
}

// Signal-driven: told by SIGIO when there is room again.
static int by_sigio(void) {
    int fd = accepted_nonblocking();
    sigset_t io;
    sigemptyset(&io);
    sigaddset(&io, SIGIO);
    CHECK(sigprocmask(SIG_BLOCK, &io, NULL) == 0);
    CHECK(fcntl(fd, F_SETOWN, getpid()) == 0 && fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_ASYNC) == 0);
    for (size_t at = 0; at < BIG;) {
        ssize_t n = write(fd, data + at, BIG - at);
        if (n > 0) at += n;
        else if (errno == EAGAIN) CHECK(sigtimedwait(&io, NULL, &(struct timespec){10, 0}) == SIGIO);
        else CHECK(!"written");
    }
    return close(fd);
}

// Alarms whose handler only counts: a wait has to end with the first that falls into it. (One may come before the wait has
// begun, or two in one, where the machine is busy.)
static int alarms_end_waits(void) {
    int fd = accepted_nonblocking();
    struct pollfd p = {fd, POLLOUT, 0};
    do fill(fd);
    while (poll(&p, one, 400) != 0);
    on_signal(SIGALRM, ring, SA_RESTART);
    alarm_every(7);
    for (int i = 0; i < 100; i++) {
        rang = 0;
        expect(poll(&p, one, 10000), -1, "poll");
        CHECK(errno == EINTR && rang < 50);
    }
    return 0;
}

// A server of lines that drops a client whose write is short, as gpsd does. It waits for what clients say alone.
static int careless(void) {
    int fd = accepted_unasked();
    for (size_t at = 0; at < 72000; at += 6000) {
        fd_set in;
        FD_ZERO(&in);
        FD_SET(fd, &in);
        expect(pselect(fd + 1, &in, NULL, NULL, &(struct timespec){0, 1000000}, NULL), 0, "pselect");
        expect(write(fd, data + at, 6000), 6000, "write");
    }
    return close(fd);
}

// Waits that no call of the C library makes: epoll's, and an asynchronous poll.
static int unseen_epoll(int fd, uint32_t edge) {
    int epfd = syscall(SYS_epoll_create1, 0);
    struct epoll_event event = {.events = EPOLLOUT | edge};
    CHECK(epfd >= 0 && syscall(SYS_epoll_ctl, epfd, EPOLL_CTL_ADD, fd, &event) == 0);
    return epfd;
}
static void out_of_sight(int epfd) {
    struct epoll_event event;
    expect(syscall(SYS_epoll_wait, epfd, &event, 1, 10000), 1, "epoll_wait");
}
static int pump_out_of_sight(int fd, uint32_t edge) {
    int epfd = unseen_epoll(fd, edge), waited = 0;
    for (size_t at = 0; at < BIG;) {
        ssize_t n = write(fd, data + at, BIG - at < 65536 ? BIG - at : 65536);
        CHECK(n > 0 || errno == EAGAIN);
        if (n > 0) at += n;
        else out_of_sight(epfd), waited++;
    }
    if (waited > 2000) say("a busy loop");
    return close(fd);
}
// As every program in Rust does before it begins.
static void poll_for_nothing(void) { poll(&(struct pollfd){0, 0, 0}, one, 0); }
static int unseen(void) {
    poll_for_nothing();
    return pump_out_of_sight(accepted_unasked(), 0);
}
static int unseen_edge(void) {
    poll_for_nothing();
    return pump_out_of_sight(accepted_unasked(), EPOLLET);
}
static int unseen_aio(void) {
    poll_for_nothing();
    int fd = accepted_unasked();
    aio_context_t context = 0;
    int waited = 0;
    CHECK(syscall(SYS_io_setup, 4, &context) == 0);
    for (size_t at = 0; at < BIG;) {
        ssize_t n = write(fd, data + at, BIG - at < 65536 ? BIG - at : 65536);
        CHECK(n > 0 || errno == EAGAIN);
        if (n > 0) at += n;
        if (n > 0) continue;
        waited++;
        struct iocb block = {.aio_fildes = fd, .aio_lio_opcode = IOCB_CMD_POLL, .aio_buf = POLLOUT}, *blocks = &block;
        struct io_event event;
        CHECK(syscall(SYS_io_submit, context, 1, &blocks) == 1);
        expect(syscall(SYS_io_getevents, context, 1, 1, &event, &(struct timespec){10, 0}), 1, "io_getevents");
    }
    if (waited > 2000) say("a busy loop");
    return close(fd);
}

// The program has registered it for reading, where the library sees that.
static int unseen_reader(uint32_t edge) {
    int fd = accepted_unasked(), epfd = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    CHECK(epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event) == 0);
    return pump_out_of_sight(fd, edge);
}
static int unseen_reader_level(void) { return unseen_reader(0); }
static int unseen_reader_edge(void) { return unseen_reader(EPOLLET); }
// It has waited for room once where the library sees it, and not again.
static int unseen_after_poll(void) { return pump_out_of_sight(accepted_nonblocking(), EPOLLET); }

// One connection is waited for in poll once it has no room, another where nobody sees it.
static int unseen_beside_poll(void) {
    int seen = accepted_unasked(), other = accepted_unasked();
    for (size_t at = 0; at < BIG;) {
        ssize_t n = write(seen, data + at, BIG - at);
        if (n > 0) at += n;
        else in_poll(seen);
    }
    close(seen);
    return pump_out_of_sight(other, EPOLLET);
}

// Times that are none, which the kernel refuses.
static void refuse_times(int fd) {
    static const struct timespec nonsense[] = {{0, -1}, {0, 1000000000}, {-1, 0}};
    static const struct timeval no_times[] = {{-1, 0}, {0, -1}};
    struct pollfd p = {fd, POLLOUT, 0};
    fd_set out;
    FD_ZERO(&out);
    FD_SET(fd, &out);
    for (size_t i = 0; i < 3; i++) {
        struct timespec time = nonsense[i];
        expect(ppoll(&p, one, &time, NULL), -1, "ppoll");
        say("%s", name_of(errno));
        expect(pselect(fd + 1, NULL, &out, NULL, &time, NULL), -1, "pselect");
        say("%s", name_of(errno));
        struct epoll_event event;
        int epfd = epoll_create1(0);
        expect(epoll_pwait2(epfd, &event, 1, &time, NULL), -1, "epoll_pwait2");
        say("%s", name_of(errno));
        close(epfd);
    }
    for (size_t i = 0; i < 2; i++) {
        struct timeval time = no_times[i];
        expect(select(fd + 1, NULL, &out, NULL, &time), -1, "select");
        say("%s", name_of(errno));
    }
    // More descriptors than a process may have, in an array whose size no hardened build knows.
    struct pollfd *volatile unknown = &p;
    expect(poll(unknown, (nfds_t)1 << 30, 0), -1, "poll");
    say("%s", name_of(errno));
    // More than a second, but in microseconds.
    struct timeval odd = {0, 1500000};
    fd_set in;
    FD_ZERO(&in);
    FD_SET(fd, &in);
    double since = now();
    expect(select(fd + 1, &in, NULL, NULL, &odd), 0, "select");
    CHECK(now() - since > 1.4);
}
// As programs do that pass the number of descriptors they may have: the set is shorter, and the kernel looks only as far
// as there are descriptors.
static int longer_than_its_set(void) {
    int fd = accepted_nonblocking();
    char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED && mprotect(pages + 4096, 4096, PROT_NONE) == 0);
    fd_set *out = (fd_set *)(pages + 4096 - sizeof *out);
    for (size_t at = 0; at < TOTAL;) {
        ssize_t n = write(fd, data + at, TOTAL - at);
        if (n > 0) at += n;
        memset(out, 0, sizeof *out);
        FD_SET(fd, out);
        expect(select(1 << 20, NULL, out, NULL, NULL), 1, "select");
    }
    return close(fd);
}
static int nonsense_times(void) {
    int fd = accepted_nonblocking();
    expect(write(fd, data, 1000), 1000, "write");
    refuse_times(fd);
    // No thread can be made in this one.
    pid_t child = syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (child == 0) {
        expect(write(fd, data + 1000, 1000), 1000, "write");
        refuse_times(fd);
        _exit(0);
    }
    reap(child);
    return pump(fd, in_poll);
}

const struct peer_case wait_cases[] = {
    {"poll", "", by_poll},
    {"ppoll", "", by_ppoll},
    {"select", "", by_select},
    {"pselect", "", by_pselect},
    {"poll-in-turns", "", by_turns},
    {"dontwait", "", by_dontwait},
    {"fionbio", "", by_ioctl},
    {"every-call", "", by_every_call},
    {"timeouts", "client=hold sndbuf=100000", timeouts},
    {"interrupted-waits", "client=hold sndbuf=100000", interrupted},
    {"alarms-end-waits", "client=hold sndbuf=100000", alarms_end_waits},
    {"readable-meanwhile", "client=hold-and-talk sndbuf=100000", readable_meanwhile},
    {"reset-meanwhile", "client=hold-and-reset sndbuf=100000", reset_meanwhile},
    {"errors-of-poll", "", errors_of_poll},
    {"sigio", "gate=maybe", by_sigio},
    {"careless", "gate=maybe", careless},
    {"unseen", "gate=maybe client=late", unseen},
    {"unseen-edge", "gate=maybe client=late", unseen_edge},
    {"unseen-aio", "gate=maybe client=late", unseen_aio},
    {"unseen-reader", "gate=maybe client=late", unseen_reader_level},
    {"unseen-reader-edge", "gate=maybe client=late", unseen_reader_edge},
    {"unseen-after-poll", "client=late", unseen_after_poll},
    {"unseen-beside-poll", "client=late clients=2", unseen_beside_poll},
    {"nonsense-times", "", nonsense_times},
    {"longer-than-its-set", "", longer_than_its_set},
    {0},
};
