// SPDX-License-Identifier: Apache-2.0 OR MIT
// Every way to wait in epoll.
#include "peer.h"
#include <sys/eventfd.h>

static void control(int epfd, int op, int fd, uint32_t events, uint64_t word) {
    struct epoll_event event = {.events = events, .data.u64 = word};
    if (epoll_ctl(epfd, op, fd, &event) == 0) return;
    say("epoll_ctl: %s", name_of(errno));
    _exit(3);
}

static uint32_t next(int epfd, uint64_t word) {
    struct epoll_event got[4];
    int n = epoll_wait(epfd, got, 4, 10000);
    if (n != 1) say("epoll_wait returned %d", n), _exit(3);
    CHECK(got[0].data.u64 == word);
    return got[0].events;
}

static int pump(int fd, int epfd, void (*waits)(int, int)) {
    size_t at = 0, waited = 0;
    while (at < TOTAL) {
        ssize_t wrote = write(fd, data + at, TOTAL - at < 20000 ? TOTAL - at : 20000);
        if (wrote > 0) {
            at += wrote;
        } else {
            CHECK(wrote < 0 && errno == EAGAIN);
            waits(fd, epfd);
            waited++;
        }
    }
    if (waited > 2000) say("a busy loop");
    return close(fd);
}

static void out(int fd, int epfd) {
    (void)fd;
    CHECK(next(epfd, 77) & EPOLLOUT);
}

static int level(void) {
    int fd = accepted_nonblocking(), epfd = epoll_create1(0);
    control(epfd, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLOUT, 77);
    return pump(fd, epfd, out);
}

static int edge(void) {
    int fd = accepted_nonblocking(), epfd = epoll_create1(0);
    control(epfd, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLOUT | EPOLLET | EPOLLRDHUP, 77);
    return pump(fd, epfd, out);
}

// A short count is as good as EAGAIN, says epoll(7).
static int edge_short(void) {
    int fd = accepted_nonblocking(), epfd = epoll_create(1);
    control(epfd, EPOLL_CTL_ADD, fd, EPOLLOUT | EPOLLET, 77);
    for (size_t at = 0; at < TOTAL;) {
        size_t n = TOTAL - at < 60000 ? TOTAL - at : 60000;
        ssize_t wrote = write(fd, data + at, n);
        CHECK(wrote > 0 || errno == EAGAIN);
        if (wrote > 0) at += wrote;
        if (wrote < (ssize_t)n) out(fd, epfd);
    }
    return close(fd);
}

static void rearm(int fd, int epfd) {
    control(epfd, EPOLL_CTL_MOD, fd, EPOLLOUT | EPOLLONESHOT, 77);
    out(fd, epfd);
}

static int oneshot(void) {
    int fd = accepted_nonblocking(), epfd = epoll_create1(0);
    control(epfd, EPOLL_CTL_ADD, fd, EPOLLOUT | EPOLLONESHOT, 77);
    CHECK(next(epfd, 77) & EPOLLOUT);
    struct epoll_event got;
    expect(epoll_wait(epfd, &got, 1, 50), 0, "epoll_wait after one shot");
    return pump(fd, epfd, rearm);
}

static void rearm_edge(int fd, int epfd) {
    control(epfd, EPOLL_CTL_MOD, fd, EPOLLOUT | EPOLLONESHOT | EPOLLET, 77);
    out(fd, epfd);
}

static int oneshot_edge(void) {
    int fd = accepted_nonblocking(), epfd = epoll_create1(0);
    control(epfd, EPOLL_CTL_ADD, fd, EPOLLOUT | EPOLLONESHOT | EPOLLET, 77);
    return pump(fd, epfd, rearm_edge);
}

static int exclusive(void) {
    int fd = accepted_nonblocking(), epfd = epoll_create1(0);
    control(epfd, EPOLL_CTL_ADD, fd, EPOLLOUT | EPOLLEXCLUSIVE, 77);
    return pump(fd, epfd, out);
}

static int exclusive_edge(void) {
    int fd = accepted_nonblocking(), epfd = epoll_create1(0);
    control(epfd, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLOUT | EPOLLET | EPOLLEXCLUSIVE, 77);
    return pump(fd, epfd, out);
}

// As libevent does it: registered only while there is something to wait for.
static void added(int fd, int epfd) {
    control(epfd, EPOLL_CTL_ADD, fd, EPOLLOUT, 77);
    out(fd, epfd);
    control(epfd, EPOLL_CTL_DEL, fd, 0, 0);
}
static int add_and_delete(void) { return pump(accepted_nonblocking(), epoll_create1(0), added); }

static void modified(int fd, int epfd) {
    control(epfd, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLOUT, 77);
    out(fd, epfd);
    control(epfd, EPOLL_CTL_MOD, fd, EPOLLIN, 78);
}
static int modify(void) {
    int fd = accepted_nonblocking(), epfd = epoll_create1(0);
    control(epfd, EPOLL_CTL_ADD, fd, EPOLLIN, 78);
    return pump(fd, epfd, modified);
}

static void modified_edge(int fd, int epfd) {
    control(epfd, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLOUT | EPOLLET, 77);
    out(fd, epfd);
    control(epfd, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLET, 78);
}
static int modify_edge(void) {
    int fd = accepted_nonblocking(), epfd = epoll_create1(0);
    control(epfd, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLET, 78);
    return pump(fd, epfd, modified_edge);
}

// An epoll within an epoll.
static int inner;
static void out_of_inner(int fd, int outer) {
    (void)fd;
    next(outer, 99);
    CHECK(next(inner, 77) & EPOLLOUT);
}
static int nest(uint32_t within, uint32_t around) {
    int fd = accepted_nonblocking(), outer = epoll_create1(0);
    inner = epoll_create1(0);
    control(inner, EPOLL_CTL_ADD, fd, EPOLLOUT | within, 77);
    control(outer, EPOLL_CTL_ADD, inner, EPOLLIN | around, 99);
    return pump(fd, outer, out_of_inner);
}
static int nested(void) { return nest(0, 0); }
static int nested_edge(void) { return nest(EPOLLET, 0); }

static void polled(int fd, int epfd) {
    struct pollfd p = {epfd, POLLIN, 0};
    expect(poll(&p, 1, 10000), 1, "poll");
    out(fd, epfd);
}
static int poll_of_epoll(void) {
    int fd = accepted_nonblocking(), epfd = epoll_create1(0);
    control(epfd, EPOLL_CTL_ADD, fd, EPOLLOUT, 77);
    return pump(fd, epfd, polled);
}

static void pwaited(int fd, int epfd) {
    (void)fd;
    struct epoll_event got;
    sigset_t none;
    sigemptyset(&none);
    expect(epoll_pwait(epfd, &got, 1, 10000, &none), 1, "epoll_pwait");
    CHECK(got.events & EPOLLOUT);
}
static int pwait(void) {
    int fd = accepted_nonblocking(), epfd = epoll_create1(0);
    control(epfd, EPOLL_CTL_ADD, fd, EPOLLOUT | EPOLLET, 77);
    return pump(fd, epfd, pwaited);
}

static void pwaited2(int fd, int epfd) {
    (void)fd;
    struct epoll_event got;
    expect(epoll_pwait2(epfd, &got, 1, &(struct timespec){10, 0}, NULL), 1, "epoll_pwait2");
    CHECK(got.events & EPOLLOUT);
}
static int pwait2(void) {
    int fd = accepted_nonblocking(), epfd = epoll_create1(0);
    control(epfd, EPOLL_CTL_ADD, fd, EPOLLOUT, 77);
    return pump(fd, epfd, pwaited2);
}

// The descriptor and its duplicate in one epoll, and in another.
static int second;
static void out_of_both(int fd, int epfd) {
    (void)fd;
    struct epoll_event got[4];
    expect(epoll_wait(second, got, 4, 10000), 1, "epoll_wait");
    uint64_t seen = 0;
    int n = epoll_wait(epfd, got, 4, 10000);
    for (int i = 0; i < n; i++) seen |= got[i].data.u64;
    CHECK(n > 0 && (seen & ~3ull) == 0);
}
static int several(void) {
    int fd = accepted_nonblocking(), epfd = epoll_create1(0), other = dup(fd);
    second = epoll_create1(0);
    control(epfd, EPOLL_CTL_ADD, fd, EPOLLOUT, 1);
    control(epfd, EPOLL_CTL_ADD, other, EPOLLOUT, 2);
    control(second, EPOLL_CTL_ADD, fd, EPOLLOUT, 4);
    pump(fd, epfd, out_of_both);
    return close(other);
}

// Waits on one thread, writes on another.
static int handover;
static void *waiter(void *epfd) {
    for (uint64_t one_ = 1;;) {
        struct epoll_event got;
        int n = epoll_wait(*(int *)epfd, &got, 1, 10000);
        if (n != 1) return NULL;
        if (got.data.u64 == 5) return NULL;
        CHECK(write(handover, &one_, 8) == 8);
    }
}
static void told(int fd, int epfd) {
    (void)fd, (void)epfd;
    uint64_t count;
    CHECK(poll(&(struct pollfd){handover, POLLIN, 0}, 1, 10000) == 1 && read(handover, &count, 8) == 8);
}
static int by_another_thread(void) {
    int fd = accepted_nonblocking(), epfd = epoll_create1(0), stop = eventfd(1, 0);
    pthread_t thread;
    handover = eventfd(0, 0);
    control(epfd, EPOLL_CTL_ADD, fd, EPOLLOUT | EPOLLET, 77);
    CHECK(pthread_create(&thread, NULL, waiter, &epfd) == 0);
    int status = pump(fd, epfd, told);
    control(epfd, EPOLL_CTL_ADD, stop, EPOLLIN, 5);
    CHECK(pthread_join(thread, NULL) == 0);
    return status;
}

static int errors(void) {
    int fd = accepted_nonblocking(), epfd = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLOUT};
    expect(epoll_ctl(epfd, EPOLL_CTL_MOD, fd, &event), -1, "epoll_ctl");
    say("%s", name_of(errno));
    expect(epoll_ctl(epfd, EPOLL_CTL_DEL, fd, NULL), -1, "epoll_ctl");
    say("%s", name_of(errno));
    control(epfd, EPOLL_CTL_ADD, fd, EPOLLOUT | EPOLLET, 77);
    expect(epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event), -1, "epoll_ctl");
    say("%s", name_of(errno));
    expect(epoll_ctl(epfd, 9, fd, &event), -1, "epoll_ctl");
    say("%s", name_of(errno));
    expect(epoll_ctl(epfd, EPOLL_CTL_MOD, fd, NULL), -1, "epoll_ctl");
    say("%s", name_of(errno));
    expect(epoll_ctl(987, EPOLL_CTL_ADD, fd, &event), -1, "epoll_ctl");
    say("%s", name_of(errno));
    expect(epoll_ctl(fd, EPOLL_CTL_ADD, epfd, &event), -1, "epoll_ctl");
    say("%s", name_of(errno));
    event.events = EPOLLOUT | EPOLLONESHOT | EPOLLEXCLUSIVE;
    int other = epoll_create1(0);
    expect(epoll_ctl(other, EPOLL_CTL_ADD, fd, &event), -1, "epoll_ctl");
    say("%s", name_of(errno));
    expect(epoll_wait(epfd, &event, 0, 0), -1, "epoll_wait");
    say("%s", name_of(errno));
    expect(epoll_wait(fd, &event, 1, 0), -1, "epoll_wait");
    say("%s", name_of(errno));
    return pump(fd, epfd, out);
}

// Nothing to write to, for a client that does not read; its reset still comes through.
static int reset_meanwhile(void) {
    int fd = accepted_nonblocking(), epfd = epoll_create1(0);
    on_signal(SIGPIPE, SIG_IGN, 0);
    control(epfd, EPOLL_CTL_ADD, fd, EPOLLOUT | EPOLLET, 77);
    uint32_t events;
    do {
        while (write(fd, data, 50000) > 0) {}
        events = next(epfd, 77);
    } while (!(events & (EPOLLERR | EPOLLHUP)));
    say("%d %d", !!(events & EPOLLERR), !!(events & EPOLLHUP));
    return 0;
}

static int talk_meanwhile(void) {
    int fd = accepted_nonblocking(), epfd = epoll_create1(0);
    control(epfd, EPOLL_CTL_ADD, fd, EPOLLOUT | EPOLLIN, 77);
    uint32_t events;
    do {
        while (write(fd, data, 50000) > 0) {}
        events = next(epfd, 77);
    } while (!(events & EPOLLIN));
    char got[16];
    ssize_t n = read(fd, got, sizeof got);
    say("%.*s", (int)n, got);
    return 0;
}

static int timeouts(void) {
    int fd = accepted_nonblocking(), epfd = epoll_create1(0), n;
    struct epoll_event got;
    control(epfd, EPOLL_CTL_ADD, fd, EPOLLOUT, 77);
    double since;
    do {
        while (write(fd, data, 50000) > 0) {}
        since = now();
    } while ((n = epoll_wait(epfd, &got, 1, 400)) > 0);
    CHECK(n == 0 && now() - since > 0.39 && now() - since < 5);
    say("timed out");
    return 0;
}

// An epoll instance has two names, and the one by which a socket was registered goes away.
static int duplicate(uint32_t edge) {
    int fd = accepted_unasked(), first = epoll_create1(0), other = dup(first);
    control(first, EPOLL_CTL_ADD, fd, EPOLLOUT | edge, 77);
    close(first);
    return pump(fd, other, out);
}
static int duplicated(void) { return duplicate(0); }
static int duplicated_edge(void) { return duplicate(EPOLLET); }

// Registered by one name, written to by another.
static int of_a_duplicate(void) {
    int fd = accepted_unasked(), epfd = epoll_create1(0);
    control(epfd, EPOLL_CTL_ADD, fd, EPOLLOUT, 77);
    int other = dup(fd);
    pump(other, epfd, out);
    return close(fd);
}

// The child has its parent's registration.
static int inherit(uint32_t edge) {
    int fd = accepted_unasked(), epfd = epoll_create1(0);
    control(epfd, EPOLL_CTL_ADD, fd, EPOLLOUT | edge, 77);
    pid_t child = fork();
    if (child == 0) _exit(pump(fd, epfd, out));
    close(fd);
    reap(child);
    return 0;
}
static int inherited(void) { return inherit(0); }
static int inherited_edge(void) { return inherit(EPOLLET); }

// There is no room when the parent goes.
static int left_to_a_child(void) {
    int fd = accepted_unasked(), epfd = epoll_create1(0);
    size_t at = 0;
    control(epfd, EPOLL_CTL_ADD, fd, EPOLLOUT, 77);
    for (ssize_t n; (n = write(fd, data + at, 20000)) > 0;) at += n;
    pid_t child = fork();
    if (child == 0) {
        nap(0.1);
        while (at < BIG) {
            out(fd, epfd);
            ssize_t n = write(fd, data + at, BIG - at);
            if (n > 0) at += n;
        }
        _exit(0);
    }
    close(fd);
    reap(child);
    return 0;
}

// A server of lines that drops a client whose write is short, and waits for what clients say alone.
static int serve_lines(int fd, int epfd, uint32_t edge) {
    struct epoll_event got;
    control(epfd, EPOLL_CTL_ADD, fd, EPOLLIN | edge, 77);
    for (size_t at = 0; at < 72000; at += 6000) {
        expect(epoll_wait(epfd, &got, 1, 1), 0, "epoll_wait");
        expect(write(fd, data + at, 6000), 6000, "write");
    }
    control(epfd, EPOLL_CTL_DEL, fd, 0, 0);
    return close(fd);
}
static int careless(void) { return serve_lines(accepted_unasked(), epoll_create1(0), 0); }
static int careless_edge(void) { return serve_lines(accepted_unasked(), epoll_create1(0), EPOLLET); }

// It looks for what its clients say before it registers them, and removes them before it closes them.
static int careless_reader(void) {
    for (int i = 0; i < 2; i++) {
        char said[100];
        int fd = accepted_unasked(), epfd = epoll_create1(0);
        CHECK(read(fd, said, sizeof said) == -1 && errno == EAGAIN);
        serve_lines(fd, epfd, 0);
        close(epfd);
    }
    return 0;
}

// It has connected to another server, and waited for that.
static int careless_beside_a_server(void) {
    struct sockaddr_storage to;
    socklen_t len;
    int server = sink_address(&to, &len), epfd = epoll_create1(0);
    set_nonblocking(server, 1);
    expect(connect(server, (struct sockaddr *)&to, len), -1, "connect");
    CHECK(errno == EINPROGRESS);
    control(epfd, EPOLL_CTL_ADD, server, EPOLLOUT, 5);
    CHECK(next(epfd, 5) & EPOLLOUT);
    control(epfd, EPOLL_CTL_MOD, server, EPOLLIN, 5);
    serve_lines(accepted_unasked(), epfd, 0);
    return close(server);
}

// Threads share an epoll. What was reported of a one-shot registration is its owner's, until the owner arms it again.
static int pool, pooled, owners, clashes, over;
static size_t pool_at;
static void *works(void *unused) {
    struct epoll_event got;
    while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE)) {
        if (epoll_wait(pool, &got, 1, 50) != 1) continue;
        if (__atomic_add_fetch(&owners, 1, __ATOMIC_ACQ_REL) > 1) __atomic_add_fetch(&clashes, 1, __ATOMIC_RELAXED);
        char asked[100];
        while (recv(pooled, asked, sizeof asked, MSG_DONTWAIT) > 0) {}
        if (got.events & EPOLLIN) nap(0.002);
        ssize_t n = write(pooled, data + pool_at, TOTAL - pool_at);
        if (n > 0) pool_at += n;
        int done = pool_at == TOTAL;
        __atomic_sub_fetch(&owners, 1, __ATOMIC_ACQ_REL);
        if (done) __atomic_store_n(&over, 1, __ATOMIC_RELEASE);
        else control(pool, EPOLL_CTL_MOD, pooled, EPOLLIN | EPOLLOUT | EPOLLONESHOT, 5);
    }
    return unused;
}
static void *talks(void *at) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    static char got[TOTAL];
    CHECK(connect(fd, at, sizeof(struct sockaddr_in)) == 0);
    for (size_t n = 0; n < TOTAL;) {
        if (send(fd, "x", 1, MSG_NOSIGNAL) != 1) break;
        nap(0.001);
        ssize_t part = recv(fd, got + n, sizeof got - n, MSG_DONTWAIT);
        CHECK(part > 0 || (part < 0 && errno == EAGAIN));
        if (part > 0) n += part;
    }
    CHECK(memcmp(got, data, TOTAL) == 0);
    close(fd);
    return NULL;
}
static int one_owner(void) {
    struct sockaddr_in at;
    socklen_t len = sizeof at;
    pthread_t client, workers[4];
    int first = accepted_unasked();
    CHECK(getsockname(listener(), (struct sockaddr *)&at, &len) == 0);
    CHECK(pthread_create(&client, NULL, talks, &at) == 0);
    pooled = accepted_unasked(), pool = epoll_create1(0);
    control(pool, EPOLL_CTL_ADD, pooled, EPOLLIN | EPOLLOUT | EPOLLONESHOT, 5);
    for (int i = 0; i < 4; i++) CHECK(pthread_create(&workers[i], NULL, works, NULL) == 0);
    for (int i = 0; i < 4; i++) CHECK(pthread_join(workers[i], NULL) == 0);
    CHECK(pthread_join(client, NULL) == 0);
    say("%d times two threads owned it", clashes);
    return close(first) | close(pooled);
}

const struct peer_case epoll_cases[] = {
    {"epoll", "", level},
    {"epoll-edge", "", edge},
    {"epoll-edge-short", "", edge_short},
    {"epoll-oneshot", "", oneshot},
    {"epoll-oneshot-edge", "", oneshot_edge},
    {"epoll-exclusive", "", exclusive},
    {"epoll-exclusive-edge", "", exclusive_edge},
    {"epoll-add-and-delete", "", add_and_delete},
    {"epoll-modify", "", modify},
    {"epoll-modify-edge", "", modify_edge},
    {"epoll-nested", "", nested},
    {"epoll-nested-edge", "", nested_edge},
    {"epoll-polled", "", poll_of_epoll},
    {"epoll-pwait", "", pwait},
    {"epoll-pwait2", "", pwait2},
    {"epoll-several", "", several},
    {"epoll-by-another-thread", "", by_another_thread},
    {"epoll-errors", "", errors},
    {"epoll-reset-meanwhile", "client=hold-and-reset sndbuf=100000", reset_meanwhile},
    {"epoll-talk-meanwhile", "client=hold-and-talk sndbuf=100000", talk_meanwhile},
    {"epoll-timeouts", "client=hold sndbuf=100000", timeouts},
    {"epoll-duplicated", "", duplicated},
    {"epoll-duplicated-edge", "", duplicated_edge},
    {"epoll-of-a-duplicate", "", of_a_duplicate},
    {"epoll-inherited", "", inherited},
    {"epoll-inherited-edge", "", inherited_edge},
    {"epoll-left-to-a-child", "client=late", left_to_a_child},
    {"epoll-careless", "gate=maybe", careless},
    {"epoll-careless-edge", "gate=maybe", careless_edge},
    {"epoll-careless-reader", "gate=maybe clients=2", careless_reader},
    {"epoll-careless-beside-a-server", "gate=maybe client=both", careless_beside_a_server},
    {"epoll-one-owner", "", one_owner},
    {0},
};
