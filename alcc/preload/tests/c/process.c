// SPDX-License-Identifier: Apache-2.0 OR MIT
// Connections and fork in all its forms.
#include "peer.h"
#include <sched.h>

static int child_writes(void) {
    int fd = accepted();
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        close(listener());
        put(fd, 0, TOTAL);
        _exit(close(fd));
    }
    CHECK(close(fd) == 0);
    reap(child);
    return 0;
}

static int child_goes_on(void) {
    int fd = accepted();
    put(fd, 0, 100000);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        put(fd, 100000, TOTAL);
        _exit(close(fd));
    }
    CHECK(close(fd) == 0);
    reap(child);
    return 0;
}

// First the child, then the parent, which has never closed it.
static int both_write(void) {
    int fd = accepted();
    put(fd, 0, 50000);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        put(fd, 50000, 150000);
        _exit(0);
    }
    reap(child);
    put(fd, 150000, TOTAL);
    return close(fd);
}

static int child_ends(void) {
    int fd = accepted();
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) _exit(0);
    put(fd, 0, 100000);
    reap(child);
    put(fd, 100000, TOTAL);
    return close(fd);
}

static int parent_ends(void) {
    int fd = accepted();
    put(fd, 0, 50000);
    int done[2];
    CHECK(pipe(done) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child > 0) _exit(0);
    close(done[1]);
    char byte;
    // Until the parent is gone.
    CHECK(read(done[0], &byte, 1) == 0);
    put(fd, 50000, TOTAL);
    return close(fd);
}

static int grandchild_writes(void) {
    int fd = accepted();
    put(fd, 0, 50000);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        put(fd, 50000, 100000);
        pid_t grandchild = fork();
        CHECK(grandchild >= 0);
        if (grandchild == 0) {
            put(fd, 100000, TOTAL);
            _exit(0);
        }
        reap(grandchild);
        _exit(0);
    }
    CHECK(close(fd) == 0);
    reap(child);
    return 0;
}

static int nonblocking_child(void) {
    int fd = accepted_nonblocking(), epfd = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLOUT | EPOLLET}, got;
    CHECK(epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        // An epoll of its own, as after any sound fork.
        epfd = epoll_create1(0);
        CHECK(epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event) == 0);
        for (size_t at = 0; at < TOTAL;) {
            ssize_t n = write(fd, data + at, TOTAL - at);
            if (n > 0) at += n;
            else CHECK(errno == EAGAIN && epoll_wait(epfd, &got, 1, 10000) == 1);
        }
        _exit(close(fd));
    }
    CHECK(close(fd) == 0);
    reap(child);
    return 0;
}

static int raw_clone(void) {
    int fd = accepted();
    put(fd, 0, 50000);
    // No handler of the C library runs in this child.
    pid_t child = syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, 0);
    CHECK(child >= 0);
    if (child == 0) {
        put(fd, 50000, TOTAL);
        _exit(close(fd));
    }
    CHECK(close(fd) == 0);
    reap(child);
    return 0;
}

static int raw_clone_before(void) {
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    listener();
    pid_t child = syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, 0);
    CHECK(child >= 0);
    if (child == 0) {
        int fd = accepted();
        put(fd, 0, TOTAL);
        _exit(close(fd));
    }
    reap(child);
    return 0;
}

static int in_clone(void *fd) {
    put(*(int *)fd, 50000, TOTAL);
    return close(*(int *)fd);
}

static int clone_with_a_stack(void) {
    int fd = accepted();
    put(fd, 0, 50000);
    static char stack[256 * 1024] __attribute__((aligned(16)));
    pid_t child = clone(in_clone, stack + sizeof stack, SIGCHLD, &fd);
    CHECK(child >= 0);
    CHECK(close(fd) == 0);
    reap(child);
    return 0;
}

// A child that shares the descriptors: closing in one is closing in both.
static int clone_sharing_files(void) {
    int fd = accepted();
    put(fd, 0, 50000);
    static char stack[256 * 1024] __attribute__((aligned(16)));
    pid_t child = clone(in_clone, stack + sizeof stack, CLONE_FILES | SIGCHLD, &fd);
    CHECK(child >= 0);
    reap(child);
    expect(write(fd, data, 10), -1, "write");
    say("%s", name_of(errno));
    return 0;
}

static int in_the_background(void) {
    int fd = accepted();
    put(fd, 0, 50000);
    CHECK(daemon(1, 1) == 0);
    put(fd, 50000, TOTAL);
    return close(fd);
}

static int background_before(void) {
    listener();
    CHECK(daemon(1, 1) == 0);
    int fd = accepted();
    put(fd, 0, TOTAL);
    return close(fd);
}

#define WORKERS 4
static int workers(void) {
    listener();
    pid_t child[WORKERS];
    for (int i = 0; i < WORKERS; i++) {
        CHECK((child[i] = fork()) >= 0);
        if (child[i] == 0) {
            for (int j = 0; j < 2; j++) {
                int fd = accepted();
                put(fd, 0, TOTAL);
                CHECK(close(fd) == 0);
            }
            _exit(0);
        }
    }
    for (int i = 0; i < WORKERS; i++) reap(child[i]);
    return 0;
}

// A process per connection, all at the same time, made while others are at work.
static int process_each(void) {
    pid_t child[6];
    for (int i = 0; i < 6; i++) {
        int fd = accepted();
        CHECK((child[i] = fork()) >= 0);
        if (child[i] == 0) {
            put(fd, 0, TOTAL);
            _exit(0);
        }
        CHECK(close(fd) == 0);
    }
    for (int i = 0; i < 6; i++) reap(child[i]);
    return 0;
}

static void *forks(void *fd) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        put(*(int *)fd, 100000, TOTAL);
        _exit(0);
    }
    reap(child);
    return NULL;
}

static int fork_in_a_thread(void) {
    int fd = accepted();
    put(fd, 0, 100000);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, forks, &fd) == 0 && pthread_join(thread, NULL) == 0);
    return close(fd);
}

// Again and again while another thread writes: the child must find nothing locked for ever.
static volatile int stop;
static void *writes(void *fd) {
    put(*(int *)fd, 0, TOTAL);
    stop = 1;
    return NULL;
}
static int fork_while_writing(void) {
    int fd = accepted(), file = file_of(0);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, writes, &fd) == 0);
    for (int i = 0; i < 200 && !stop; i++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            alarm(20);
            CHECK(write(file, data, 100) == 100);
            // Nothing is written here, but everything about it is asked.
            poll(&(struct pollfd){fd, POLLOUT, 0}, 1, 0);
            _exit(close(fd));
        }
        reap(child);
    }
    CHECK(pthread_join(thread, NULL) == 0);
    return close(fd);
}

const struct peer_case process_cases[] = {
    {"fork-child-writes", "", child_writes},
    {"fork-child-goes-on", "", child_goes_on},
    {"fork-both-write", "", both_write},
    {"fork-child-ends", "", child_ends},
    {"fork-parent-ends", "", parent_ends},
    {"fork-grandchild", "", grandchild_writes},
    {"fork-nonblocking", "", nonblocking_child},
    {"raw-clone", "", raw_clone},
    {"raw-clone-before", "", raw_clone_before},
    {"clone-with-a-stack", "", clone_with_a_stack},
    {"clone-sharing-files", "", clone_sharing_files},
    {"daemon", "", in_the_background},
    {"daemon-before", "", background_before},
    {"workers", "clients=8", workers},
    {"process-each", "clients=6", process_each},
    {"fork-in-a-thread", "", fork_in_a_thread},
    {"fork-while-writing", "", fork_while_writing},
    {0},
};
