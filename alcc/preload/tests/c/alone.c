// SPDX-License-Identifier: Apache-2.0 OR MIT
// Calls that a process of one thread can make and one of two cannot, or that concern the calling thread alone. Each is made in the
// middle of a transfer: it has to give what it gives plainly, no thread may be left behind, and the transfer goes on.
#include "peer.h"
#include <dirent.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>

#ifndef CLOSE_RANGE_UNSHARE
#define CLOSE_RANGE_UNSHARE 2
#endif

static int connection;

static void result(const char *what, long rc) {
    if (rc == -1) say("%s: %s", what, name_of(errno));
    else say("%s: %ld", what, rc);
}

// What a thread may do and where it is, as far as that is a thread's own.
static void rights_of(const char *thread, char *text, size_t size) {
    static const char *const lines[] = {"Uid:", "Gid:", "Groups:", "Cap", "NoNewPrivs:"};
    static const char *const spaces[] = {"user", "mnt", "net", "uts", "ipc", "cgroup"};
    char path[300], line[600];
    size_t used = 0;
    snprintf(path, sizeof path, "/proc/self/task/%s/status", thread);
    FILE *status = fopen(path, "r");
    text[0] = 0;
    while (status && fgets(line, sizeof line, status))
        for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
            if (strncmp(line, lines[i], strlen(lines[i])) == 0 && used + strlen(line) < size)
                used += sprintf(text + used, "%s", line);
    if (status) fclose(status);
    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++) {
        snprintf(path, sizeof path, "/proc/self/task/%s/ns/%s", thread, spaces[i]);
        ssize_t n = readlink(path, line, sizeof line);
        if (n > 0 && used + n < size) used += sprintf(text + used, "%.*s\n", (int)n, line);
    }
}

// Where the line begins in which two texts differ.
static size_t first_different(const char *a, const char *b) {
    size_t line = 0;
    for (size_t i = 0; a[i] && a[i] == b[i]; i++)
        if (a[i] == '\n') line = i + 1;
    return line;
}

// Every thread of the process has what the program's own has.
static void all_alike(void) {
    char ours[8192], other[8192], self[16];
    snprintf(self, sizeof self, "%d", (int)syscall(SYS_gettid));
    rights_of(self, ours, sizeof ours);
    DIR *threads = opendir("/proc/self/task");
    for (struct dirent *entry; threads && (entry = readdir(threads));) {
        if (entry->d_name[0] == '.') continue;
        rights_of(entry->d_name, other, sizeof other);
        // One that ends meanwhile has nothing.
        if (!*other || strcmp(ours, other) == 0) continue;
        size_t at = first_different(ours, other);
        say("a thread was left behind with %.*s", (int)strcspn(other + at, "\n"), other + at);
    }
    if (threads) closedir(threads);
}

// The call comes first after the connection's first bytes, then while the gate is shut.
static int serve_and(void (*call)(void)) {
    int fd = connection = accepted_nonblocking(), epfd = epoll_create1(0), calls = 0;
    struct epoll_event event = {.events = EPOLLOUT}, got;
    CHECK(epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event) == 0);
    expect(write(fd, data, 100), 100, "write");
    for (size_t at = 100; at < TOTAL;) {
        if (calls < 2) call(), all_alike(), calls++;
        ssize_t n = write(fd, data + at, calls < 2 ? 50000 : TOTAL - at);
        if (n >= 0) at += n;
        else CHECK(errno == EAGAIN);
        if (n < 0) expect(epoll_wait(epfd, &got, 1, 10000), 1, "epoll_wait");
    }
    if (calls < 2) call(), all_alike();
    return close(fd);
}

static void enter(const char *space) {
    char path[40];
    snprintf(path, sizeof path, "/proc/self/ns/%s", space);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    result(path, setns(fd, 0));
    close(fd);
}

static struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
static struct __user_cap_data_struct none[2], some[2];

#define CALLS(call) \
    call(unshare_files, result("files", unshare(CLONE_FILES))) \
    call(unshare_files_by_number, result("files", syscall(SYS_unshare, CLONE_FILES))) \
    call(unshare_fs, result("fs", unshare(CLONE_FS))) \
    call(unshare_vm, result("vm", unshare(CLONE_VM))) \
    call(unshare_signals, result("signals", unshare(CLONE_SIGHAND))) \
    call(unshare_thread, result("thread", unshare(CLONE_THREAD))) \
    call(unshare_user, result("user", unshare(CLONE_NEWUSER))) \
    call(unshare_mounts, result("mounts", unshare(CLONE_NEWNS))) \
    call(unshare_net, result("net", unshare(CLONE_NEWNET))) \
    call(unshare_names, result("names", unshare(CLONE_NEWUTS | CLONE_NEWIPC))) \
    call(unshare_pid, result("pid", unshare(CLONE_NEWPID))) \
    call(enter_user, enter("user")) \
    call(enter_mounts, enter("mnt")) \
    call(enter_net, enter("net")) \
    call(enter_pid, enter("pid")) \
    call(close_range_unshared, result("close_range", close_range(100, 200, CLOSE_RANGE_UNSHARE))) \
    call(close_range_by_number, result("close_range", syscall(SYS_close_range, 100, 200, CLOSE_RANGE_UNSHARE))) \
    call(no_new_privileges, result("prctl", prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))) \
    call(drop_bounding, result("prctl", prctl(PR_CAPBSET_DROP, CAP_SYS_TIME, 0, 0, 0))) \
    call(drop_capabilities, result("capset", syscall(SYS_capset, &header, none))) \
    call(drop_some_capabilities, { \
        result("capget", syscall(SYS_capget, &header, some)); \
        some[0].effective &= ~(1u << CAP_NET_ADMIN); \
        result("capset", capset(&header, some)); \
    }) \
    call(file_user, result("setfsuid", setfsuid(65534))) \
    call(file_group, result("setfsgid", setfsgid(65534))) \
    call(user_by_number, result("setresuid", syscall(SYS_setresuid, 65534, 65534, 65534))) \
    call(group_by_number, result("setresgid", syscall(SYS_setresgid, 65534, 65534, 65534))) \
    call(user, result("setuid", setuid(65534))) \
    call(question, result("seccomp", syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, NULL)))

int capset(struct __user_cap_header_struct *, const struct __user_cap_data_struct *);

#define CALL(name, call) static void do_##name(void) { call; } static int and_##name(void) { return serve_and(do_##name); }
#define CASE(name, call) {"alone-" #name, "", and_##name},
CALLS(CALL)

// The end of a connection reaches its other end when it is closed, not when the process ends: nobody else has the descriptor. The
// other end is a child of this program.
static int end_comes(int (*finish)(int)) {
    struct sockaddr_in to;
    socklen_t len = sizeof to;
    CHECK(getsockname(listener(), (struct sockaddr *)&to, &len) == 0);
    pid_t reader = fork();
    if (reader == 0) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        struct timeval patience = {5, 0};
        char some[1000];
        CHECK(connect(fd, (struct sockaddr *)&to, sizeof to) == 0);
        CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) == 0);
        ssize_t n;
        while ((n = read(fd, some, sizeof some)) > 0) {}
        _exit(n == 0 ? 0 : 1);
    }
    int fd = accepted();
    put(fd, 0, 1000);
    nap(0.02);
    CHECK(finish(fd) == 0 && fcntl(fd, F_GETFD) < 0 && errno == EBADF);
    reap(reader);
    return 0;
}
static int unshared_and_closed(int fd) { return unshare(CLONE_FILES) == 0 ? close(fd) : -1; }
static int range_closed(int fd) { return close_range(3, ~0u, CLOSE_RANGE_UNSHARE); }
static int end_of_the_unshared(void) { return end_comes(unshared_and_closed); }
static int end_of_the_range(void) { return end_comes(range_closed); }

// Another thread gets descriptors of its own and closes them all: the connection is the others' still.
static void *closes_its_own(void *unused) {
    if (unshare(CLONE_FILES) != 0) say("unshare: %s", name_of(errno));
    for (int fd = 3; fd < 60; fd++) close(fd);
    return NULL;
}
static int in_another_thread(void) {
    int fd = accepted_nonblocking(), epfd = epoll_create1(0), made = 0;
    struct epoll_event event = {.events = EPOLLOUT}, got;
    CHECK(epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event) == 0);
    for (size_t at = 0; at < TOTAL;) {
        ssize_t n = write(fd, data + at, TOTAL - at);
        if (n >= 0) at += n;
        pthread_t thread;
        if (made++ < 5) CHECK(pthread_create(&thread, NULL, closes_its_own, NULL) == 0 && pthread_join(thread, NULL) == 0);
        if (at < TOTAL) expect(epoll_wait(epfd, &got, 1, 10000), 1, "epoll_wait");
    }
    return close(fd);
}

// As Python asks after a fork, to warn of threads.
static int threads(void) {
    char line[1000];
    FILE *stat = fopen("/proc/self/stat", "r");
    CHECK(stat && fgets(line, sizeof line, stat));
    fclose(stat);
    char *at = strrchr(line, ')');
    for (int field = 2; field < 20; field++) at = strchr(at + 1, ' ');
    return atoi(at);
}
static int fork_alone(void) {
    int fd = accepted(), unsent = 1;
    for (int i = 0; i < 3; i++) {
        put(fd, i * 60000, (i + 1) * 60000);
        while (ioctl(fd, TIOCOUTQ, &unsent) == 0 && unsent > 0) nap(0.01);
        // A fork waits for the end of our thread, but not for long: on a busy machine another one may find it gone.
        int n = 2;
        for (int tries = 0; tries < 10 && n != 1; tries++) {
            nap(0.3);
            pid_t child = fork();
            if (child == 0) _exit(threads() != 1);
            reap(child);
            n = threads();
        }
        say("%d threads", n);
    }
    return close(fd);
}

#define ALLOW(n) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, n, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
static struct sock_filter strict[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    ALLOW(__NR_read), ALLOW(__NR_write), ALLOW(__NR_close), ALLOW(__NR_exit_group), ALLOW(__NR_rt_sigreturn), ALLOW(__NR_fork),
    ALLOW(__NR_clone), ALLOW(__NR_wait4), ALLOW(__NR_set_robust_list), ALLOW(__NR_gettid), ALLOW(__NR_getpid),
    ALLOW(__NR_rt_sigprocmask), ALLOW(__NR_rseq),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
};
#define FILTER(f) &(struct sock_fprog){sizeof f / sizeof *f, f}
static long by_seccomp(void) { return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, FILTER(strict)); }
static long by_seccomp_alone(void) { return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, FILTER(strict)); }
static long by_prctl(void) { return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, FILTER(strict), 0, 0); }
static long by_prctl_number(void) { return syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, FILTER(strict), 0, 0); }

// As soon as it has written something, and again some time later: our thread is anywhere.
static int locked_after(long (*lock)(void), int microseconds) {
    int fd = accepted();
    put(fd, 0, 16);
    usleep(microseconds);
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    if (lock() != 0) _exit(9);
    for (size_t at = 16; at < TOTAL;) {
        ssize_t n = write(fd, data + at, TOTAL - at);
        if (n < 0) _exit(7);
        at += n;
    }
    // Whoever else has the filter on now meets it here.
    for (volatile long i = 0; i < 100000000; i++) {}
    _exit(close(fd));
}
static int locked(long (*lock)(void)) {
    for (int i = 0; i < 4; i++) {
        pid_t child = fork();
        if (child == 0) _exit(locked_after(lock, (int[]){0, 300, 3000, 50000}[i]));
        reap(child);
    }
    return 0;
}
#define LOCKS(lock) lock(seccomp) lock(seccomp_alone) lock(prctl) lock(prctl_number)
#define LOCK(name) static int locked_by_##name(void) { listener(); return locked(by_##name); }
#define LOCKED(name) {"locked-by-" #name, "clients=4 gate=maybe", locked_by_##name},
LOCKS(LOCK)

// A child inherits the filter.
static int child_of_the_locked(void) {
    int fd = accepted();
    put(fd, 0, 16);
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && by_seccomp() == 0);
    pid_t child = syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, 0);
    if (child < 0) _exit(8);
    if (child == 0) {
        write(fd, data + 16, 1000);
        close(fd);
        _exit(0);
    }
    int status;
    if (syscall(SYS_wait4, child, &status, 0, NULL) != child) _exit(6);
    _exit(status != 0);
}

// A kernel or a sandbox without close_range(2).
static struct sock_filter without[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_close_range, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};
static int closefrom_without_close_range(void) {
    int fd = accepted();
    put(fd, 0, TOTAL);
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, FILTER(without), 0, 0) == 0);
    int other = fcntl(1, F_DUPFD, 50);
    closefrom(3);
    CHECK(fcntl(other, F_GETFD) < 0 && fcntl(fd, F_GETFD) < 0);
    return 0;
}

const struct peer_case alone_cases[] = {
    CALLS(CASE)
    {"alone-end_of_the_unshared", "clients=0 connections=1 gate=maybe", end_of_the_unshared},
    {"alone-end_of_the_range", "clients=0 connections=1 gate=maybe", end_of_the_range},
    {"alone-in_another_thread", "", in_another_thread},
    {"alone-fork", "gate=maybe", fork_alone},
    LOCKS(LOCKED)
    {"locked-child", "gate=maybe", child_of_the_locked},
    {"closefrom-without-close_range", "", closefrom_without_close_range},
    {0},
};
