// SPDX-License-Identifier: Apache-2.0 OR MIT
// What a program is given by whoever starts it: signals, descriptors, variables.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

// Takes every signal and says which, with the value that came with it.
static void signals(void) {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    printf("ready %d\n", (int)getpid());
    fflush(stdout);
    for (;;) {
        siginfo_t info;
        int number = sigwaitinfo(&all, &info);
        if (number <= 0) continue;
        printf("%d %d\n", number, info.si_code == SI_QUEUE ? info.si_value.sival_int : 0);
        fflush(stdout);
    }
}

// How it was started.
static void started(void) {
    for (int fd = 0; fd < 3; fd++) fprintf(stderr, "fd %d %s\n", fd, fcntl(fd, F_GETFD) < 0 ? "closed" : "open");
    FILE *status = fopen("/proc/self/status", "r");
    char line[300];
    while (status && fgets(line, sizeof line, status))
        // Without 32 and 33, which the C library keeps for itself.
        if (!strncmp(line, "SigBlk", 6) || !strncmp(line, "SigIgn", 6))
            fprintf(stderr, "%.7s%llx\n", line, strtoull(line + 7, NULL, 16) & ~(3ULL << 31));
}

static int names_us(const char *name) {
    const char *value = getenv(name);
    return value && atoi(value) == getpid();
}

// sd_listen_fds(3) and sd_watchdog_enabled(3), in short; then serves one client on descriptor 3.
static void activated(void) {
    printf("listen %d\nwatchdog %d\npidfd %s\nother %s\n", names_us("LISTEN_PID"), names_us("WATCHDOG_PID"),
           getenv("LISTEN_PIDFDID") ? "named" : "not named", getenv("WITNESS") ? getenv("WITNESS") : "none");
    fflush(stdout);
    int client = accept(3, NULL, NULL);
    if (client < 0 || write(client, "hello", 5) != 5) exit(1);
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    if (!strcmp(argv[1], "signals")) signals();
    if (!strcmp(argv[1], "started")) started();
    if (!strcmp(argv[1], "activated")) activated();
    if (!strcmp(argv[1], "end-by")) raise(atoi(argv[2]));
    if (!strcmp(argv[1], "pause")) {
        printf("ready %d\n", (int)getpid());
        fflush(stdout);
        for (;;) pause();
    }
    return 0;
}
