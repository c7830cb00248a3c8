// SPDX-License-Identifier: Apache-2.0 OR MIT
// Connections handed to another program: inetd, sshd, CGI.
#include "peer.h"
#include <spawn.h>
#include <sys/prctl.h>

extern char **environ;
static char fd_text[16];
static char *self[] = {"/proc/self/exe", "--inherited", fd_text, NULL};

static int prepared(void) {
    int fd = accepted();
    snprintf(fd_text, sizeof fd_text, "%d", fd);
    return fd;
}

static int by_exec(void) {
    prepared();
    execv(self[0], self);
    return 9;
}

static int exec_after_writing(void) {
    put(prepared(), 0, 100000);
    execv(self[0], self);
    return 9;
}

static int fork_and_exec(void) {
    int fd = prepared();
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        execv(self[0], self);
        _exit(9);
    }
    CHECK(close(fd) == 0);
    reap(child);
    return 0;
}

static int vfork_and_exec(void) {
    int fd = prepared();
    put(fd, 0, 50000);
    pid_t child = vfork();
    CHECK(child >= 0);
    if (child == 0) {
        execv(self[0], self);
        _exit(9);
    }
    reap(child);
    // The parent's descriptors are as they were.
    put(fd, 0, 100000);
    return close(fd);
}

// What a vfork child closes it closes for itself, although it writes in the parent's memory.
static int vfork_and_close(void) {
    int fd = prepared(), other = dup(fd);
    put(fd, 0, 50000);
    pid_t child = vfork();
    CHECK(child >= 0);
    if (child == 0) {
        close(fd);
        dup2(0, other);
        execv("/bin/true", (char *[]){"true", NULL});
        _exit(9);
    }
    reap(child);
    put(fd, 50000, 100000);
    put(other, 100000, TOTAL);
    CHECK(close(other) == 0);
    return close(fd);
}

static int by_posix_spawn(void) {
    int fd = prepared();
    put(fd, 0, 50000);
    pid_t child;
    posix_spawn_file_actions_t actions;
    CHECK(posix_spawn_file_actions_init(&actions) == 0);
    CHECK(posix_spawn_file_actions_adddup2(&actions, fd, 70) == 0 && posix_spawn_file_actions_addclose(&actions, fd) == 0);
    snprintf(fd_text, sizeof fd_text, "70");
    CHECK(posix_spawn(&child, self[0], &actions, NULL, self, environ) == 0);
    reap(child);
    put(fd, 50000, 100000);
    return close(fd);
}

// As inetd does it, with programs that know nothing of networks.
static int inetd(const char *script) {
    int fd = accepted();
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        dup2(fd, 0);
        dup2(fd, 1);
        dup2(fd, 2);
        close(fd);
        execl("/bin/sh", "sh", "-c", script, NULL);
        _exit(9);
    }
    CHECK(close(fd) == 0);
    reap(child);
    return 0;
}

static int inetd_shell(void) { return inetd("i=0; while [ $i -lt 6000 ]; do echo \"line $i of the shell\"; i=$((i+1)); done"); }
static int inetd_cat(void) { return inetd("head -c 300000 /dev/zero | cat; head -c 100000 /dev/zero; seq 20000; ls /nowhere 2>/dev/null; printf end"); }
static int inetd_reads(void) { return inetd("read what; echo \"you said $what\"; head -c 200000 /dev/zero | cat"); }

static int system_meanwhile(void) {
    int fd = accepted();
    put(fd, 0, 100000);
    CHECK(system("exit 3") == 3 << 8);
    FILE *f = popen("echo from a pipe", "r");
    char line[100];
    CHECK(f && fgets(line, sizeof line, f) && pclose(f) == 0);
    say("%.*s", (int)strcspn(line, "\n"), line);
    put(fd, 100000, TOTAL);
    return close(fd);
}

// Without the environment the new program is not ours: the connection goes on as plain TCP.
static int bare_environment(void) {
    int fd = prepared();
    put(fd, 0, 100000);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        execve(self[0], self, (char *[]){NULL});
        _exit(9);
    }
    CHECK(close(fd) == 0);
    reap(child);
    return 0;
}

static int no_limit_after_exec(void) {
    int fd = prepared();
    for (int i = 0; i < 5; i++) {
        // Time for a reading, after which the algorithm has a rate.
        put(fd, i * 100000, (i + 1) * 100000);
        usleep(20000);
    }
    execle(self[0], self[0], "--inherited-plainly", fd_text, NULL, (char *[]){NULL});
    return fd;
}

// A connection whose algorithm has a rate, and what starts a program that has no library: it looks at once, or when the other
// end of this pipe is closed.
static int piped[2];
static char pipe_text[16], path[4096], command[5000];
static char *plainly[] = {path, "--inherited-plainly", fd_text, NULL, NULL}, *nothing[] = {NULL};
static int paced(void) {
    int fd = prepared();
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    CHECK(n > 0);
    for (int i = 0; i < 5; i++) {
        put(fd, i * 100000, (i + 1) * 100000);
        usleep(20000);
    }
    return fd;
}
static pid_t spawned(void) {
    pid_t child;
    CHECK(posix_spawn(&child, path, NULL, NULL, plainly, nothing) == 0);
    return child;
}
static pid_t spawned_by_name(void) {
    pid_t child;
    CHECK(posix_spawnp(&child, path, NULL, NULL, plainly, nothing) == 0);
    return child;
}
static pid_t forked(void) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        execve(path, plainly, nothing);
        _exit(9);
    }
    return child;
}
static pid_t vforked(void) {
    pid_t child = vfork();
    CHECK(child >= 0);
    if (child == 0) {
        execve(path, plainly, nothing);
        _exit(9);
    }
    return child;
}

// By SCM_RIGHTS, when it was there already.
static pid_t passed(void) {
    int fd = atoi(fd_text), pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    CHECK(fcntl(fd, F_SETFD, FD_CLOEXEC) == 0 && fcntl(pair[0], F_SETFD, FD_CLOEXEC) == 0);
    snprintf(fd_text, sizeof fd_text, "%d", pair[1]);
    pid_t child = spawned();
    for (int i = 0; i < 5; i++) {
        put(fd, 0, 100000);
        usleep(20000);
    }
    give(pair[0], fd);
    CHECK(close(pair[0]) == 0 && close(pair[1]) == 0);
    return child;
}

// Handed over by a program that keeps it, and does not write.
static int no_limit(pid_t (*start)(void)) {
    int fd = paced();
    reap(start());
    return close(fd);
}
static int no_limit_after_spawn(void) { return no_limit(spawned); }
static int no_limit_after_spawnp(void) { return no_limit(spawned_by_name); }
static int no_limit_after_fork_and_exec(void) { return no_limit(forked); }
static int no_limit_after_vfork_and_exec(void) { return no_limit(vforked); }
static int no_limit_after_passing(void) { return no_limit(passed); }
static int no_limit_by_the_shell(void) {
    int fd = paced();
    snprintf(command, sizeof command, "exec env -i %s --inherited-plainly %s", path, fd_text);
    CHECK(system(command) == 0);
    return close(fd);
}
static int no_limit_in_a_pipe(void) {
    int fd = paced();
    char line[100];
    snprintf(command, sizeof command, "exec env -i %s --inherited-plainly %s", path, fd_text);
    FILE *f = popen(command, "r");
    CHECK(f && fgets(line, sizeof line, f) && pclose(f) == 0);
    say("%.*s", (int)strcspn(line, "\n"), line);
    return close(fd);
}

// By a program that goes on writing, and then goes.
static int no_limit_when_gone(pid_t (*start)(void), void (*leave)(int)) {
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    pid_t server = fork();
    CHECK(server >= 0);
    if (server == 0) {
        int fd = paced();
        CHECK(pipe2(piped, 0) == 0 && fcntl(piped[1], F_SETFD, FD_CLOEXEC) == 0);
        snprintf(pipe_text, sizeof pipe_text, "%d", piped[0]);
        plainly[3] = pipe_text;
        start();
        for (int i = 0; i < 5; i++) {
            put(fd, 0, 100000);
            usleep(20000);
        }
        leave(fd);
    }
    reap(server);
    siginfo_t child;
    CHECK(waitid(P_ALL, 0, &child, WEXITED | WNOWAIT) == 0);
    reap(child.si_pid);
    return 0;
}
static void closes(int fd) {
    CHECK(close(fd) == 0);
    _exit(0);
}
static void exits(int fd) { exit(fd == -1); }
static void exits_at_once(int fd) { _exit(fd == -1); }
static int no_limit_when_closed(void) { return no_limit_when_gone(spawned, closes); }
static int no_limit_when_the_giver_closed(void) { return no_limit_when_gone(passed, closes); }
static int no_limit_when_exited(void) { return no_limit_when_gone(spawned, exits); }
static int no_limit_when_exited_at_once(void) { return no_limit_when_gone(spawned, exits_at_once); }
static int no_limit_when_the_parent_exited(void) { return no_limit_when_gone(forked, exits); }
static int no_limit_when_the_vfork_parent_exited(void) { return no_limit_when_gone(vforked, exits_at_once); }

// The library's thread reads the connection while the program is about to be replaced.
static int no_limit_meanwhile(void) {
    int fd = prepared(), limits = 0;
    for (int i = 0; i < 30; i++) {
        put(fd, i * 20000, (i + 1) * 20000);
        expect(execl("/no/such/program", "x", NULL), -1, "execl");
        usleep(10000);
        struct limits l = limits_of(fd);
        limits += l.rate != UINT64_MAX || l.unsent != 0 || !strncmp(l.control, "alcc_", 5);
    }
    say("%d limits", limits);
    return close(fd);
}

static int failed_exec(void) {
    int fd = prepared();
    put(fd, 0, 50000);
    expect(execl("/no/such/program", "x", NULL), -1, "execl");
    say("%s", name_of(errno));
    put(fd, 50000, TOTAL);
    return close(fd);
}

const struct peer_case exec_cases[] = {
    {"exec", "", by_exec},
    {"exec-after-writing", "", exec_after_writing},
    {"fork-and-exec", "", fork_and_exec},
    {"vfork-and-exec", "", vfork_and_exec},
    {"vfork-and-close", "", vfork_and_close},
    {"posix-spawn", "", by_posix_spawn},
    {"inetd-shell", "gate=maybe", inetd_shell},
    {"inetd-cat", "", inetd_cat},
    {"inetd-reads", "client=ask", inetd_reads},
    {"system-meanwhile", "", system_meanwhile},
    {"bare-environment", "", bare_environment},
    {"no-limit-after-exec", "cc=copa", no_limit_after_exec},
    {"no-limit-under-another-control", "cc=copa under=reno", no_limit_after_exec},
    {"no-limit-meanwhile", "cc=copa", no_limit_meanwhile},
    {"no-limit-after-spawn", "cc=copa", no_limit_after_spawn},
    {"no-limit-after-spawnp", "cc=copa", no_limit_after_spawnp},
    {"no-limit-after-fork-and-exec", "cc=copa", no_limit_after_fork_and_exec},
    {"no-limit-after-vfork-and-exec", "cc=copa", no_limit_after_vfork_and_exec},
    {"no-limit-after-passing", "cc=copa", no_limit_after_passing},
    {"no-limit-by-the-shell", "cc=copa", no_limit_by_the_shell},
    {"no-limit-in-a-pipe", "cc=copa", no_limit_in_a_pipe},
    {"no-limit-when-closed", "cc=copa", no_limit_when_closed},
    {"no-limit-when-the-giver-closed", "cc=copa", no_limit_when_the_giver_closed},
    {"no-limit-when-exited", "cc=copa", no_limit_when_exited},
    {"no-limit-when-exited-at-once", "cc=copa", no_limit_when_exited_at_once},
    {"no-limit-when-the-parent-exited", "cc=copa", no_limit_when_the_parent_exited},
    {"no-limit-when-the-vfork-parent-exited", "cc=copa", no_limit_when_the_vfork_parent_exited},
    {"failed-exec", "", failed_exec},
    {0},
};
