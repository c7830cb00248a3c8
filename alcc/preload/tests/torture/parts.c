// SPDX-License-Identifier: Apache-2.0 OR MIT
// Every error at every part of a blocking write that the gate cuts into several calls. With torture.c preloaded, which makes the n-th
// of them fail. What was written before is the result of the write; the error itself is told once, by the next call that
// would have met it, if it is the connection's; if it was that call's alone nobody hears of it.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#define N 10000

static int server, client, wrong, cases, file, pipes[2];
static unsigned char data[N];
static volatile sig_atomic_t signalled;
// Bytes that the program was told were written, and that arrived.
static size_t written, arrived, misplaced;
static unsigned char at(size_t i) { return (i * 2654435761u) >> 11; }

static void fill(void) {
    for (size_t i = 0; i < N; i++) data[i] = at(written + i);
    // Where it belongs: a page that is still on its way must not change.
    if (pwrite(file, data, N, written) != N) abort();
}

static ssize_t by_write(void) { return write(server, data, N); }
static ssize_t by_send(void) { return send(server, data, N, 0); }
static ssize_t by_sendto(void) { return sendto(server, data, N, 0, NULL, 0); }
static struct iovec vector[3] = {{data, 1}, {data + 1, 4999}, {data + 5000, N - 5000}};
static ssize_t by_writev(void) { return writev(server, vector, 3); }
static ssize_t by_sendmsg(void) {
    struct msghdr m = {.msg_iov = vector, .msg_iovlen = 3};
    return sendmsg(server, &m, 0);
}
static ssize_t by_sendmmsg(void) {
    struct mmsghdr m = {{.msg_iov = vector, .msg_iovlen = 3}, 0};
    int rc = sendmmsg(server, &m, 1, 0);
    return rc < 0 ? rc : (ssize_t)m.msg_len;
}
static ssize_t by_sendfile(void) {
    off_t from = written;
    return sendfile(server, file, &from, N);
}
static ssize_t by_splice(void) {
    // What an earlier turn left in the pipe must not come before this one's. By number: only the call under test counts.
    char rest[N];
    loff_t from = written;
    fcntl(pipes[0], F_SETFL, O_NONBLOCK);
    while (syscall(SYS_read, pipes[0], rest, sizeof rest) > 0) {}
    fcntl(pipes[0], F_SETFL, 0);
    if (syscall(SYS_splice, file, &from, pipes[1], NULL, (size_t)N, 0) != N) abort();
    return splice(pipes[0], NULL, server, NULL, N, 0);
}

static const struct {
    const char *name;
    ssize_t (*writes)(void);
} ways[] = {
    {"write", by_write}, {"send", by_send}, {"sendto", by_sendto}, {"writev", by_writev}, {"sendmsg", by_sendmsg},
    {"sendmmsg", by_sendmmsg}, {"sendfile", by_sendfile}, {"splice", by_splice},
};

static const struct {
    int error, of_the_connection;
} errors[] = {
    {ECONNRESET, 1}, {ETIMEDOUT, 1}, {EHOSTUNREACH, 1}, {ENETUNREACH, 1}, {ECONNABORTED, 1}, {ENETDOWN, 1}, {EHOSTDOWN, 1},
    {EPIPE, 0},
    {EINTR, 0}, {EAGAIN, 0}, {ENOBUFS, 0}, {ENOMEM, 0}, {EFAULT, 0}, {EINVAL, 0}, {EIO, 0}, {ENOSPC, 0}, {EPERM, 0},
};

static void *reads(void *none) {
    unsigned char got[4096];
    ssize_t n;
    while ((n = read(client, got, sizeof got)) > 0)
        for (ssize_t i = 0; i < n; i++, arrived++) misplaced += got[i] != at(arrived);
    return none;
}

static void caught(int signal) {
    (void)signal;
    signalled++;
}

static const char *name(int error) { return error ? strerrorname_np(error) : "no error"; }

static void say(int ok, const char *way, int part, int error, const char *what, long n, int why) {
    if (ok) return;
    wrong++;
    printf("%s, part %d fails with %s: %s: %ld %s\n", way, part, name(error), what, n, n < 0 ? name(why) : "");
}

static int so_error(void) {
    int error = -1;
    socklen_t len = sizeof error;
    if (getsockopt(server, SOL_SOCKET, SO_ERROR, &error, &len) != 0) abort();
    return error;
}

static void one(size_t w, size_t e, int part, int looks) {
    const char *way = ways[w].name;
    int error = errors[e].error, kept = errors[e].of_the_connection;
    cases++;
    void (*fail)(int, int) = (void (*)(int, int))dlsym(RTLD_DEFAULT, "torture_part");
    fill();
    signalled = 0;
    fail(part, error);
    errno = 0;
    ssize_t n = ways[w].writes();
    int why = errno;
    fail(0, 0);
    if (part == 1) {
        // As it is: the program hears of it at once.
        say(n == -1 && why == error, way, part, error, "the write", n, why);
        kept = 0;
    } else {
        say(n > 0 && n < N, way, part, error, "the write", n, why);
        if (n > 0) written += n;
    }
    fill();
    if (looks == 0 && part > 1 && error == EPIPE) {
        // The kernel says so itself, at every write, and with a signal; this connection is not broken.
        n = ways[w].writes();
        say(n == N, way, part, error, "the next write", n, errno);
        written += N;
        fill();
    } else if (looks == 0 && kept) {
        n = ways[w].writes();
        say(n == -1 && errno == error, way, part, error, "the next write", n, errno);
    } else if (looks == 1) {
        int told = so_error(), want = kept || (part > 1 && error == EPIPE) ? error : 0;
        say(told == want, way, part, error, "SO_ERROR", -1, told);
    }
    // Told once. The connection itself is as it was.
    say(so_error() == 0, way, part, error, "SO_ERROR at the end", -1, error);
    n = ways[w].writes();
    say(n == N, way, part, error, "the write after that", n, errno);
    if (n > 0) written += n;
    say(!signalled, way, part, error, "SIGPIPE", signalled, 0);
}

int main(int argc, char **argv) {
    int listener = socket(AF_INET, SOCK_STREAM, 0), mss = 1448;
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    setsockopt(listener, IPPROTO_TCP, TCP_MAXSEG, &mss, sizeof mss);
    if (bind(listener, (void *)&a, sizeof a) || listen(listener, 1) || getsockname(listener, (void *)&a, &len)) return 2;
    client = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(client, (void *)&a, sizeof a) || (server = accept(listener, NULL, NULL)) < 0 || pipe(pipes)) return 2;
    if (fcntl(pipes[0], F_SETPIPE_SZ, 1 << 20) < 0 || (file = memfd_create("data", 0)) < 0) return 2;
    signal(SIGPIPE, caught);
    pthread_t reader;
    pthread_create(&reader, NULL, reads, NULL);
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++)
        for (size_t e = 0; e < sizeof errors / sizeof *errors; e++)
            for (int part = 1; part <= 3; part++)
                for (int looks = 0; looks < 2; looks++) one(w, e, part, looks);
    // What is read at the end of the stream, where a part of a write has met a reset.
    void (*fail)(int, int) = (void (*)(int, int))dlsym(RTLD_DEFAULT, "torture_part");
    shutdown(client, SHUT_WR);
    for (int i = 0; i < 2; i++) {
        fill();
        fail(2, i ? EPIPE : ECONNRESET);
        ssize_t n = by_write();
        fail(0, 0);
        say(n > 0 && n < N, "read", 2, ECONNRESET, "the write", n, errno);
        if (n > 0) written += n;
        char got[10];
        n = read(server, got, 0);
        say(n == 0, "read", 2, ECONNRESET, "nothing", n, errno);
        n = read(server, got, sizeof got);
        say(i ? n == 0 : n == -1 && errno == ECONNRESET, "read", 2, i ? EPIPE : ECONNRESET, "the read", n, errno);
        n = read(server, got, sizeof got);
        say(n == 0, "read", 2, ECONNRESET, "the read after that", n, errno);
    }
    shutdown(server, SHUT_WR);
    pthread_join(reader, NULL);
    if (arrived != written || misplaced) {
        printf("told %zu bytes, arrived %zu, %zu of them wrong\n", written, arrived, misplaced);
        wrong++;
    }
    printf("%d cases, %d wrong\n", cases, wrong);
    return wrong > 0;
}
