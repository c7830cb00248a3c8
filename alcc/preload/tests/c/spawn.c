// SPDX-License-Identifier: Apache-2.0 OR MIT
// Every way to make a process or a thread, while the gate of a connection is shut: what the child does with its descriptors is
// its own affair, whether it shares the memory or not.
#include "peer.h"
#include <linux/sched.h>
#include <sched.h>
#include <spawn.h>
#include <threads.h>

extern char **environ;
static int connection;
static char stack[64 * 1024] __attribute__((aligned(16)));

// Gives another meaning to the connection's number, and then to none.
static void tidy_up(void) {
    int null = open("/dev/null", O_RDWR);
    dup2(null, connection);
    dup3(null, connection + 1, O_CLOEXEC);
    for (int fd = 3; fd < 40; fd++) close(fd);
    close_range(40, 60, 0);
}
static int child(void *unused) {
    tidy_up();
    execl("/bin/true", "true", NULL);
    _exit(1);
}
static int short_child(void *unused) {
    tidy_up();
    _exit(0);
}
// In a copy of the table that nobody else has; in the parent's memory nothing else may be touched.
static void collect(pid_t child) {
    CHECK(child > 0);
    reap(child);
}

static void by_fork(void) {
    pid_t made = fork();
    if (made == 0) child(NULL);
    collect(made);
}
static void by_vfork(void) {
    pid_t made = vfork();
    if (made == 0) child(NULL);
    collect(made);
}
static void by_clone(void) { collect(clone(child, stack + sizeof stack, SIGCHLD, NULL)); }
static void by_clone_like_vfork(void) { collect(clone(child, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL)); }
static void by_clone_in_the_same_memory(void) { collect(clone(short_child, stack + sizeof stack, CLONE_VM | SIGCHLD, NULL)); }
static void by_clone_with_signals(void) {
    collect(clone(short_child, stack + sizeof stack, CLONE_VM | CLONE_VFORK | CLONE_FS | SIGCHLD, NULL));
}
static void by_raw_clone(void) {
    pid_t made = syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, 0);
    if (made == 0) child(NULL);
    collect(made);
}
static void by_clone3(void) {
    struct clone_args how = {.exit_signal = SIGCHLD};
    pid_t made = syscall(SYS_clone3, &how, sizeof how);
    // Old kernels and old sandboxes do not have it.
    if (made < 0) return;
    if (made == 0) child(NULL);
    collect(made);
}
static void by_spawn(void) {
    posix_spawn_file_actions_t actions;
    char *arguments[] = {"true", NULL};
    pid_t made;
    CHECK(posix_spawn_file_actions_init(&actions) == 0);
    CHECK(posix_spawn_file_actions_addopen(&actions, connection, "/dev/null", O_RDWR, 0) == 0);
    CHECK(posix_spawn_file_actions_adddup2(&actions, connection, connection + 1) == 0);
    CHECK(posix_spawn_file_actions_addclose(&actions, connection) == 0);
    CHECK(posix_spawn(&made, "/bin/true", &actions, NULL, arguments, environ) == 0);
    posix_spawn_file_actions_destroy(&actions);
    collect(made);
}
static void by_spawnp(void) {
    char *arguments[] = {"true", NULL};
    pid_t made;
    CHECK(posix_spawnp(&made, "true", NULL, NULL, arguments, environ) == 0);
    collect(made);
}
static void by_system(void) { CHECK(system("exec 3>&- 4>&- 5>&-; true") == 0); }
static void by_popen(void) {
    FILE *from = popen("exec 3>&- 4>&- 5>&-; echo here", "r");
    char line[10];
    CHECK(from && fgets(line, sizeof line, from) && pclose(from) == 0);
}
static void by_daemon(void) {
    pid_t made = fork();
    if (made == 0) {
        CHECK(daemon(1, 1) == 0);
        child(NULL);
    }
    collect(made);
}
static void *thread(void *unused) {
    close(dup(connection));
    return NULL;
}
static int c_thread(void *unused) {
    close(dup(connection));
    return 0;
}
static void by_pthread(void) {
    pthread_t made;
    CHECK(pthread_create(&made, NULL, thread, NULL) == 0 && pthread_join(made, NULL) == 0);
}
static void by_thrd(void) {
    thrd_t made;
    CHECK(thrd_create(&made, c_thread, NULL) == thrd_success && thrd_join(made, NULL) == thrd_success);
}

// Serves one connection in epoll, level-triggered, and makes a child at some of the moments at which it is refused.
static int serve_and(void (*make)(void), int before) {
    int fd = connection = accepted_nonblocking(), epfd = epoll_create1(0), made = 0;
    struct epoll_event event = {.events = EPOLLOUT}, got;
    CHECK(epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event) == 0);
    // Plain TCP may take all at once: once before that, too.
    if (before) make();
    for (size_t at = 0; at < TOTAL;) {
        ssize_t n = write(fd, data + at, TOTAL - at);
        if (n >= 0) at += n;
        else CHECK(errno == EAGAIN);
        if (at == TOTAL) break;
        if (made < 6) make(), made++;
        expect(epoll_wait(epfd, &got, 1, 10000), 1, "epoll_wait");
    }
    return close(fd);
}

#define WAYS(way) \
    way(fork) way(vfork) way(clone) way(clone_like_vfork) way(clone_in_the_same_memory) way(clone_with_signals) way(raw_clone) \
    way(clone3) way(spawn) way(spawnp) way(system) way(popen) way(daemon) way(pthread) way(thrd)
#define SERVE(name) \
    static int serve_and_##name(void) { return serve_and(by_##name, 0); } \
    static int serve_after_##name(void) { return serve_and(by_##name, 1); }
#define CASE(name) {"spawn-by-" #name, "", serve_and_##name}, {"spawn-before-by-" #name, "", serve_after_##name},
WAYS(SERVE)

const struct peer_case spawn_cases[] = {WAYS(CASE) {0}};
