// SPDX-License-Identifier: Apache-2.0 OR MIT
// Threads and signal handlers that share connections.
#include "peer.h"
#include <limits.h>
#include <ucontext.h>

#define THREADS 8
#define LINES 120

static int shared;

// Room for all of it, as otherwise the kernel itself cuts lines in two where its buffer is full.
static int roomy(int fd) {
    int size = 200000;
    CHECK(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size) == 0);
    return fd;
}

// Each line goes out in one call, so it has to arrive in one piece, as it does under plain TCP.
static void *writes_lines(void *number) {
    char line[101];
    for (int i = 0; i < LINES; i++) {
        int n = snprintf(line, sizeof line, "thread %d line %d ", (int)(intptr_t)number, i);
        memset(line + n, 'a' + (int)(intptr_t)number, sizeof line - n - 1);
        line[99] = '\n';
        expect(write(shared, line, 100), 100, "write");
    }
    return NULL;
}

static int one_for_all(void) {
    pthread_t thread[THREADS];
    shared = roomy(accepted());
    for (intptr_t i = 0; i < THREADS; i++) CHECK(pthread_create(&thread[i], NULL, writes_lines, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(thread[i], NULL) == 0);
    return close(shared);
}

static void *sends_lines(void *number) {
    char line[101];
    for (int i = 0; i < LINES; i++) {
        int n = snprintf(line, sizeof line, "thread %d line %d ", (int)(intptr_t)number, i);
        memset(line + n, 'a' + (int)(intptr_t)number, sizeof line - n - 1);
        line[99] = '\n';
        struct iovec v[2] = {{line, 30}, {line + 30, 70}};
        ssize_t done = writev(shared, v, 2);
        while (done < 0) {
            CHECK(errno == EAGAIN && poll(&(struct pollfd){shared, POLLOUT, 0}, 1, 10000) == 1);
            done = writev(shared, v, 2);
        }
        // The kernel may cut a line that does not wait, though for so few bytes it does not.
        expect(done, 100, "writev");
    }
    return NULL;
}

static int one_for_all_nonblocking(void) {
    pthread_t thread[THREADS];
    shared = roomy(accepted_nonblocking());
    for (intptr_t i = 0; i < THREADS; i++) CHECK(pthread_create(&thread[i], NULL, sends_lines, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(thread[i], NULL) == 0);
    return close(shared);
}

static void *serves(void *fd) {
    put((int)(intptr_t)fd, 0, TOTAL);
    CHECK(close((int)(intptr_t)fd) == 0);
    return NULL;
}

static int thread_each(void) {
    pthread_t thread[THREADS];
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&thread[i], NULL, serves, (void *)(intptr_t)accepted()) == 0);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(thread[i], NULL) == 0);
    return 0;
}

static int main_thread_ends(void) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, serves, (void *)(intptr_t)accepted()) == 0);
    pthread_detach(thread);
    pthread_exit(NULL);
}

static void *accepts_and_ends(void *none) {
    (void)none;
    shared = accepted();
    put(shared, 0, 50000);
    return NULL;
}

static int accepting_thread_ends(void) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, accepts_and_ends, NULL) == 0 && pthread_join(thread, NULL) == 0);
    put(shared, 50000, TOTAL);
    return close(shared);
}

// Blocked in the write when another thread ends the connection.
static void *blocked(void *none) {
    (void)none;
    ssize_t n;
    while ((n = write(shared, data, BIG)) > 0) {}
    return (void *)(intptr_t)errno;
}

static int shut_under_a_writer(void) {
    pthread_t thread;
    void *error;
    on_signal(SIGPIPE, SIG_IGN, 0);
    shared = accepted();
    CHECK(pthread_create(&thread, NULL, blocked, NULL) == 0);
    nap(0.5);
    CHECK(shutdown(shared, SHUT_RDWR) == 0 && pthread_join(thread, &error) == 0);
    say("%s", name_of((int)(intptr_t)error));
    return close(shared);
}

// Closed under a blocked writer, and the number taken by a file: not one byte may get into the file.
static void *blocked_once(void *none) {
    (void)none;
    return (void *)(intptr_t)write(shared, data, BIG);
}

static int closed_under_a_writer(void) {
    pthread_t thread;
    shared = accepted();
    CHECK(pthread_create(&thread, NULL, blocked_once, NULL) == 0);
    nap(0.4);
    int fd = shared;
    CHECK(close(fd) == 0);
    int file = file_of(0);
    CHECK(file == fd);
    void *wrote;
    CHECK(pthread_join(thread, &wrote) == 0);
    say("the file has %ld bytes", (long)lseek(file, 0, SEEK_END));
    return 0;
}

// A handler that writes to another connection, and to a file, while the main program is in a write.
static int other, storm_file;
static volatile sig_atomic_t sent, handler_failed;
static void writes_elsewhere(int signal) {
    (void)signal;
    int before = errno;
    if (sent < 1000) {
        ssize_t n = write(other, "storm....\n", 10);
        if (n == 10) sent++;
        else if (n >= 0) handler_failed = 1;
    }
    if (write(storm_file, "x", 1) != 1) handler_failed = 1;
    errno = before;
}

static int storm(void) {
    int fd = accepted();
    other = accepted();
    storm_file = file_of(0);
    on_signal(SIGALRM, writes_elsewhere, SA_RESTART);
    struct itimerval t = {{0, 300}, {0, 300}};
    CHECK(setitimer(ITIMER_REAL, &t, NULL) == 0);
    put_in_pieces(fd, 0, TOTAL);
    while (sent < 1000) pause();
    alarm_every(0);
    say("failed: %d", handler_failed);
    return close(fd) | close(other);
}

// The handler writes to the connection that the main program is writing to.
static int storm_fd;
static void writes_here(int signal) {
    (void)signal;
    int before = errno;
    if (sent < 1000 && write(storm_fd, "s", 1) == 1) sent++;
    errno = before;
}

static int storm_within(void) {
    storm_fd = accepted();
    static char m[1000];
    memset(m, 'm', sizeof m);
    on_signal(SIGALRM, writes_here, SA_RESTART);
    struct itimerval t = {{0, 300}, {0, 300}};
    CHECK(setitimer(ITIMER_REAL, &t, NULL) == 0);
    for (size_t remaining = TOTAL; remaining > 0;) {
        ssize_t n = write(storm_fd, m, remaining < 1000 ? remaining : 1000);
        if (n > 0) remaining -= n;
        else CHECK(errno == EINTR);
    }
    while (sent < 1000) pause();
    alarm_every(0);
    return close(storm_fd);
}

static int storm_nonblocking(void) {
    storm_fd = accepted_nonblocking();
    static char m[1000];
    memset(m, 'm', sizeof m);
    on_signal(SIGALRM, writes_here, SA_RESTART);
    struct itimerval t = {{0, 300}, {0, 300}};
    CHECK(setitimer(ITIMER_REAL, &t, NULL) == 0);
    for (size_t remaining = TOTAL; remaining > 0;) {
        ssize_t n = write(storm_fd, m, remaining < 1000 ? remaining : 1000);
        if (n > 0) remaining -= n;
        else if (errno == EAGAIN) poll(&(struct pollfd){storm_fd, POLLOUT, 0}, 1, 10000);
        else CHECK(errno == EINTR);
    }
    while (sent < 1000) pause();
    alarm_every(0);
    return close(storm_fd);
}

// As `storm`, with the handler on a stack of its own of 16 KiB in the middle of the program's data, as Python has it: what lies
// below must stay as it is. The handler also writes to a pipe with a number that nobody has used before.
static unsigned char around[3 * 65536];
static int far_away;
static void writes_from_afar(int signal) {
    int before = errno;
    if (write(far_away, "w", 1) != 1 && errno != EAGAIN) handler_failed = 1;
    errno = before;
    writes_elsewhere(signal);
}

static int storm_on_a_small_stack(void) {
    int fd = accepted(), pipes[2];
    other = accepted();
    storm_file = file_of(0);
    CHECK(pipe2(pipes, O_NONBLOCK) == 0);
    struct rlimit files;
    CHECK(getrlimit(RLIMIT_NOFILE, &files) == 0);
    files.rlim_cur = files.rlim_max;
    CHECK(setrlimit(RLIMIT_NOFILE, &files) == 0);
    far_away = fcntl(pipes[1], F_DUPFD, files.rlim_cur > 1100 ? 1100 : 900);
    CHECK(far_away >= 900);
    CHECK(write(other, "storm....\n", 10) == 10);
    memset(around, 0xa5, sizeof around);
    stack_t stack = {.ss_sp = around + 2 * 65536, .ss_size = 16384};
    CHECK(sigaltstack(&stack, NULL) == 0);
    on_signal(SIGALRM, writes_from_afar, SA_RESTART | SA_ONSTACK);
    struct itimerval t = {{0, 300}, {0, 300}};
    CHECK(setitimer(ITIMER_REAL, &t, NULL) == 0);
    put_in_pieces(fd, 0, TOTAL);
    while (sent < 1000) pause();
    alarm_every(0);
    size_t below = 0;
    while (below < 2 * 65536 && around[below] == 0xa5) below++;
    say("failed: %d, overwritten below the stack: %zu bytes", handler_failed, 2 * 65536 - below);
    size_t unused = 0;
    while (around[2 * 65536 + unused] == 0xa5) unused++;
    if (getenv("PEER_DEPTH")) fprintf(stderr, "the handler used %zu of 16384 bytes\n", 16384 - unused);
    return close(fd) | close(other);
}

// The smallest stack that a thread can have.
static int smallest_stack(void) {
    pthread_attr_t how;
    pthread_t thread;
    int fd = accepted();
    CHECK(pthread_attr_init(&how) == 0 && pthread_attr_setstacksize(&how, PTHREAD_STACK_MIN) == 0);
    CHECK(pthread_create(&thread, &how, serves, (void *)(intptr_t)fd) == 0 && pthread_join(thread, NULL) == 0);
    return 0;
}

// A coroutine, whose stack nobody guards: how much of it is used shows in what was painted there.
#define PAINT 0xa5
#define PAINTED (64 * 1024)
static unsigned char painted[PAINTED] __attribute__((aligned(64)));
static ucontext_t home, coroutine;
static void in_a_coroutine(void) {
    serves((void *)(intptr_t)shared);
    swapcontext(&coroutine, &home);
}
static int painted_stack(void) {
    shared = accepted();
    memset(painted, PAINT, sizeof painted);
    CHECK(getcontext(&coroutine) == 0);
    coroutine.uc_stack = (stack_t){.ss_sp = painted, .ss_size = sizeof painted};
    makecontext(&coroutine, in_a_coroutine, 0);
    CHECK(swapcontext(&home, &coroutine) == 0);
    size_t untouched = 0;
    while (untouched < PAINTED && painted[untouched] == PAINT) untouched++;
    // Frameworks give a coroutine 8 KiB and more.
    if (PAINTED - untouched > 8 * 1024) say("%zu bytes of stack used", PAINTED - untouched);
    return 0;
}

const struct peer_case thread_cases[] = {
    {"threads-on-one", "client=lines", one_for_all},
    {"threads-on-one-nonblocking", "client=lines gate=maybe", one_for_all_nonblocking},
    {"thread-each", "clients=8", thread_each},
    {"main-thread-ends", "", main_thread_ends},
    {"accepting-thread-ends", "", accepting_thread_ends},
    {"shut-under-a-writer", "client=hold sndbuf=100000", shut_under_a_writer},
    {"closed-under-a-writer", "client=late-and-any sndbuf=100000", closed_under_a_writer},
    {"storm", "clients=2", storm},
    {"storm-on-a-small-stack", "clients=2", storm_on_a_small_stack},
    {"storm-within", "client=bag", storm_within},
    {"storm-nonblocking", "client=bag", storm_nonblocking},
    {"smallest-stack", "", smallest_stack},
    {"painted-stack", "", painted_stack},
    {0},
};
