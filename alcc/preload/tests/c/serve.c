// SPDX-License-Identifier: Apache-2.0 OR MIT
// Small servers that take errors as they come: a connection that fails is closed and the next one served. They serve
// PEER_CONNECTIONS connections (2) and end.
#include "peer.h"

static int rounds(void) { return getenv("PEER_CONNECTIONS") ? atoi(getenv("PEER_CONNECTIONS")) : 2; }
static size_t bytes(void) { return getenv("PEER_BYTES") ? atoi(getenv("PEER_BYTES")) : 60000; }

// The next connection; an error that passes is given some patience.
static int next_connection(int flags) {
    for (int tries = 0; tries < 20; tries++) {
        int fd = accept4(listener(), NULL, NULL, flags);
        if (fd >= 0) return fd;
        if (errno == EAGAIN) poll(&(struct pollfd){listener(), POLLIN, 0}, 1, 1000);
        else if (errno != EINTR && errno != ECONNABORTED) nap(0.01);
    }
    say("no connection: %s", name_of(errno));
    _exit(3);
}

static void finish(int fd) {
    if (close(fd) != 0 && errno != EINTR) say("close: %s", name_of(errno));
}

static int blocking(void) {
    signal(SIGPIPE, SIG_IGN);
    for (int i = 0; i < rounds(); i++) {
        int fd = next_connection(0);
        for (size_t at = 0; at < bytes();) {
            ssize_t n = write(fd, data + at, bytes() - at);
            if (n > 0) at += n;
            else if (n == 0 || (errno != EINTR && errno != EAGAIN)) break;
        }
        finish(fd);
    }
    return 0;
}

static int in_poll(void) {
    signal(SIGPIPE, SIG_IGN);
    for (int i = 0; i < rounds(); i++) {
        poll(&(struct pollfd){listener(), POLLIN, 0}, 1, 10000);
        int fd = next_connection(SOCK_NONBLOCK);
        for (size_t at = 0; at < bytes();) {
            // It asks before it writes: what never waits for room is never refused.
            if (poll(&(struct pollfd){fd, POLLOUT, 0}, 1, 10000) < 0 && errno != EINTR) break;
            ssize_t n = send(fd, data + at, bytes() - at, 0);
            if (n > 0) at += n;
            else if (n == 0 || (errno != EINTR && errno != EAGAIN)) break;
        }
        finish(fd);
    }
    return 0;
}

static int in_epoll(void) {
    signal(SIGPIPE, SIG_IGN);
    int epfd = epoll_create1(0);
    CHECK(epfd >= 0);
    for (int i = 0; i < rounds(); i++) {
        poll(&(struct pollfd){listener(), POLLIN, 0}, 1, 10000);
        int fd = next_connection(SOCK_NONBLOCK);
        struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET | EPOLLRDHUP}, got;
        if (epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event) != 0) {
            finish(fd);
            continue;
        }
        for (size_t at = 0; at < bytes();) {
            struct iovec v[2] = {{data + at, (bytes() - at) / 2}, {data + at + (bytes() - at) / 2, bytes() - at - (bytes() - at) / 2}};
            ssize_t n = writev(fd, v, 2);
            if (n > 0) at += n;
            else if (n == 0 || (errno != EINTR && errno != EAGAIN)) break;
            else if (errno == EAGAIN && epoll_wait(epfd, &got, 1, 10000) < 0 && errno != EINTR) break;
        }
        finish(fd);
    }
    return 0;
}

// A thread for each, however many there are at a time.
static void *serves(void *fd_) {
    int fd = (intptr_t)fd_;
    for (size_t at = 0; at < bytes();) {
        ssize_t n = write(fd, data + at, bytes() - at);
        if (n > 0) at += n;
        else if (n == 0 || errno != EINTR) break;
    }
    finish(fd);
    return NULL;
}

static int threads(void) {
    signal(SIGPIPE, SIG_IGN);
    for (int i = 0; i < rounds(); i++) {
        pthread_t thread;
        int fd = next_connection(0);
        if (pthread_create(&thread, NULL, serves, (void *)(intptr_t)fd) == 0) pthread_detach(thread);
        else finish(fd);
    }
    // The process ends with its last thread.
    pthread_exit(NULL);
}

// One wait for all of them. A connection that may be writable; it is closed at its end, and then this is true.
static int served(int fd, size_t *at) {
    ssize_t sent = send(fd, data + *at, bytes() - *at, 0);
    if (sent > 0) *at += sent;
    if (sent < 0 && (errno == EINTR || errno == EAGAIN)) return 0;
    if (sent > 0 && *at < bytes()) return 0;
    finish(fd);
    return 1;
}

static int many_in_poll(void) {
    signal(SIGPIPE, SIG_IGN);
    int n = rounds(), open = n;
    struct pollfd *all = calloc(n, sizeof *all);
    size_t *at = calloc(n, sizeof *at);
    for (int i = 0; i < n; i++) all[i] = (struct pollfd){next_connection(SOCK_NONBLOCK), POLLOUT, 0};
    while (open > 0 && (poll(all, n, 10000) >= 0 || errno == EINTR)) {
        for (int i = 0; i < n; i++) {
            if (all[i].fd < 0 || !all[i].revents || !served(all[i].fd, &at[i])) continue;
            all[i].fd = -1;
            open--;
        }
    }
    return 0;
}

static int many_in_select(void) {
    signal(SIGPIPE, SIG_IGN);
    int n = rounds(), open = n, last = 0;
    int *all = calloc(n, sizeof *all);
    size_t *at = calloc(n, sizeof *at);
    fd_set wanted;
    FD_ZERO(&wanted);
    for (int i = 0; i < n; i++) {
        all[i] = next_connection(SOCK_NONBLOCK);
        FD_SET(all[i], &wanted);
        if (all[i] > last) last = all[i];
    }
    while (open > 0) {
        fd_set out = wanted;
        if (select(last + 1, NULL, &out, NULL, &(struct timeval){10, 0}) < 0) continue;
        for (int i = 0; i < n; i++) {
            if (!FD_ISSET(all[i], &out) || !FD_ISSET(all[i], &wanted) || !served(all[i], &at[i])) continue;
            FD_CLR(all[i], &wanted);
            open--;
        }
    }
    return 0;
}

static int many_in_epoll(void) {
    signal(SIGPIPE, SIG_IGN);
    int n = rounds(), open = n, epfd = epoll_create1(0);
    int *all = calloc(n, sizeof *all);
    size_t *at = calloc(n, sizeof *at);
    for (int i = 0; i < n; i++) {
        struct epoll_event event = {.events = EPOLLOUT, .data.u32 = i};
        all[i] = next_connection(SOCK_NONBLOCK);
        CHECK(epoll_ctl(epfd, EPOLL_CTL_ADD, all[i], &event) == 0);
    }
    while (open > 0) {
        struct epoll_event got[64];
        int some = epoll_wait(epfd, got, 64, 10000);
        for (int i = 0; i < some; i++) open -= served(all[got[i].data.u32], &at[got[i].data.u32]);
    }
    return 0;
}

const struct peer_case serve_cases[] = {
    {"serve", "clients=2 gate=maybe", blocking},
    {"serve-in-poll", "clients=2 gate=maybe", in_poll},
    {"serve-in-epoll", "clients=2 gate=maybe", in_epoll},
    {"serve-in-threads", "clients=2 gate=maybe", threads},
    {"serve-many-in-poll", "clients=2 gate=maybe", many_in_poll},
    {"serve-many-in-select", "clients=2 gate=maybe", many_in_select},
    {"serve-many-in-epoll", "clients=2 gate=maybe", many_in_epoll},
    {0},
};
