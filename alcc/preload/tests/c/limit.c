// SPDX-License-Identifier: Apache-2.0 OR MIT
// Programs that give up their rights: after that no thread, no file, and few system calls are to be had.
#include "peer.h"
#include <grp.h>
#include <stddef.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

static int served(void) {
    int fd = accepted();
    put(fd, 0, TOTAL);
    return close(fd);
}

static int served_in_poll(void) {
    int fd = accepted_nonblocking();
    for (size_t at = 0; at < TOTAL;) {
        ssize_t n = write(fd, data + at, TOTAL - at);
        if (n > 0) at += n;
        else CHECK(errno == EAGAIN && poll(&(struct pollfd){fd, POLLOUT, 0}, 1, 10000) == 1);
    }
    return close(fd);
}

static int served_in_epoll(void) {
    int fd = accepted_nonblocking(), epfd = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLOUT | EPOLLET}, got;
    CHECK(epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event) == 0);
    for (size_t at = 0; at < TOTAL;) {
        ssize_t n = write(fd, data + at, TOTAL - at);
        if (n > 0) at += n;
        else CHECK(errno == EAGAIN && epoll_wait(epfd, &got, 1, 10000) == 1);
    }
    return close(fd);
}

// To another user, where there is the right to do it, as servers do once they listen.
static void give_up_rights(void) {
    if (getuid() != 0) return;
    if (setgroups(0, NULL) != 0 || setgid(65534) != 0 || setuid(65534) != 0) say("no other user here");
}

static int few_descriptors(int (*serves)(void), int more) {
    int next = dup(listener());
    CHECK(close(next) == 0);
    struct rlimit limit = {next + 1 + more, next + 1 + more};
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    return serves();
}
static int no_descriptor(void) { return few_descriptors(served, 0); }
static int no_descriptor_in_poll(void) { return few_descriptors(served_in_poll, 0); }
static int no_descriptor_in_epoll(void) { return few_descriptors(served_in_epoll, 1); }

static int no_process(int (*serves)(void)) {
    listener();
    give_up_rights();
    struct rlimit none = {0, 0};
    CHECK(setrlimit(RLIMIT_NPROC, &none) == 0);
    return serves();
}
static int no_thread(void) { return no_process(served); }
static int no_thread_in_poll(void) { return no_process(served_in_poll); }
static int no_thread_in_epoll(void) { return no_process(served_in_epoll); }

static int other_user(void) {
    listener();
    give_up_rights();
    return served();
}

static int other_root(void) {
    listener();
    CHECK(mkdir("empty", 0755) == 0 || errno == EEXIST);
    if (chroot("empty") != 0 || chdir("/") != 0) say("no other root here");
    give_up_rights();
    return served();
}

static int little_memory(void) {
    listener();
    struct rlimit limit = {600l << 20, 600l << 20};
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    return served();
}

static int no_file_size(void) {
    listener();
    struct rlimit none = {0, 0};
    CHECK(setrlimit(RLIMIT_FSIZE, &none) == 0);
    return served();
}

// Lets pass what this program itself needs from here on.
#define ALLOW(name) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
static void confined(uint32_t otherwise) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(write), ALLOW(writev), ALLOW(sendto), ALLOW(sendmsg), ALLOW(read), ALLOW(close), ALLOW(accept), ALLOW(accept4),
        ALLOW(exit_group), ALLOW(exit), ALLOW(rt_sigreturn), ALLOW(poll), ALLOW(epoll_create1), ALLOW(epoll_ctl),
        ALLOW(epoll_wait), ALLOW(fcntl), ALLOW(brk), ALLOW(mmap), ALLOW(munmap),
        BPF_STMT(BPF_RET | BPF_K, otherwise),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

static int confined_and(uint32_t otherwise, int (*serves)(void)) {
    listener();
    confined(otherwise);
    return serves();
}
static int refusing(void) { return confined_and(SECCOMP_RET_ERRNO | EPERM, served); }
static int refusing_in_poll(void) { return confined_and(SECCOMP_RET_ERRNO | EPERM, served_in_poll); }
static int refusing_in_epoll(void) { return confined_and(SECCOMP_RET_ERRNO | ENOSYS, served_in_epoll); }

// Confined with the connection at hand, as vsftpd and sshd confine their children.
static int confined_child(void) {
    int fd = accepted();
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        confined(SECCOMP_RET_ERRNO | EPERM);
        put(fd, 0, TOTAL);
        _exit(close(fd));
    }
    CHECK(close(fd) == 0);
    reap(child);
    return 0;
}

// Where everything else is death: what a write under control needs at least is not the program's to allow, so such a
// program can only be left alone.
static int killing(void) { return confined_and(SECCOMP_RET_KILL_PROCESS, served); }
static int killing_meanwhile(void) {
    int fd = accepted();
    put(fd, 0, 100000);
    confined(SECCOMP_RET_KILL_PROCESS);
    put(fd, 100000, TOTAL);
    return close(fd);
}

const struct peer_case limit_cases[] = {
    {"no-descriptor", "", no_descriptor},
    {"no-descriptor-in-poll", "", no_descriptor_in_poll},
    {"no-descriptor-in-epoll", "", no_descriptor_in_epoll},
    {"no-thread", "", no_thread},
    {"no-thread-in-poll", "", no_thread_in_poll},
    {"no-thread-in-epoll", "", no_thread_in_epoll},
    {"other-user", "", other_user},
    {"other-root", "", other_root},
    {"little-memory", "", little_memory},
    {"no-file-size", "", no_file_size},
    {"confined", "gate=maybe connections=maybe", refusing},
    {"confined-in-poll", "gate=maybe connections=maybe", refusing_in_poll},
    {"confined-in-epoll", "gate=maybe connections=maybe", refusing_in_epoll},
    {"confined-child", "gate=maybe connections=maybe", confined_child},
    {"confined-or-dead", "gate=maybe connections=maybe", killing},
    {"confined-or-dead-meanwhile", "gate=maybe connections=maybe", killing_meanwhile},
    {0},
};
