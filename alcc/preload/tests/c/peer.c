// SPDX-License-Identifier: Apache-2.0 OR MIT
#include "peer.h"

char data[BIG];

static const struct peer_case *const groups[] = {
    write_cases, edge_cases, wait_cases, epoll_cases, block_cases, descriptor_cases,
    close_cases, process_cases, exec_cases, thread_cases, connect_cases, limit_cases, serve_cases,
    spawn_cases, alone_cases, error_cases, stdio_cases,
#ifdef PEER_STREAMS
    streams_cases,
#endif
};
static const char *const group_names[] = {
    "write", "edge", "wait", "epoll", "block", "descriptor", "close", "process", "exec", "thread", "connect", "limit", "serve",
    "spawn", "alone", "error", "stdio",
#ifdef PEER_STREAMS
    "streams",
#endif
};

void say(const char *format, ...) {
    char line[512];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line, sizeof line - 1, format, args);
    va_end(args);
    if (n > (int)sizeof line - 2) n = sizeof line - 2;
    line[n] = '\n';
    // The raw call: standard output may have become a connection, and what is said must not depend on what is tested.
    static int out = -1;
    const char *to = getenv("PEER_OUT");
    if (out < 0 && to) out = atoi(to);
    if (syscall(SYS_write, out < 0 ? 1 : out, line, n + 1) < 0) _exit(4);
}

void check(int ok, const char *what, const char *file, int line) {
    if (ok) return;
    say("%s:%d: not so: %s (errno %s)", strrchr(file, '/') ? strrchr(file, '/') + 1 : file, line, what, name_of(errno));
    _exit(3);
}

void expect(long got, long want, const char *what) {
    if (got == want) return;
    say("%s returned %ld (%s) instead of %ld", what, got, got < 0 ? name_of(errno) : "", want);
    _exit(3);
}

const char *name_of(int error) {
    const char *name = strerrorname_np(error);
    return name ? name : "?";
}

double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

void nap(double seconds) {
    struct timespec t = {(time_t)seconds, (long)((seconds - (time_t)seconds) * 1e9)};
    while (nanosleep(&t, &t) < 0 && errno == EINTR) {}
}

void set_nonblocking(int fd, int on) {
    int flags = fcntl(fd, F_GETFL);
    CHECK(fcntl(fd, F_SETFL, on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK) == 0);
}

void on_signal(int signal, void (*handler)(int), int flags) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    sigemptyset(&action.sa_mask);
    CHECK(sigaction(signal, &action, NULL) == 0);
}

void alarm_every(int ms) {
    struct itimerval t = {{ms / 1000, ms % 1000 * 1000}, {ms / 1000, ms % 1000 * 1000}};
    CHECK(setitimer(ITIMER_REAL, &t, NULL) == 0);
}

void reap(pid_t child) {
    int status;
    pid_t got;
    do got = waitpid(child, &status, 0);
    while (got < 0 && errno == EINTR);
    CHECK(got == child);
    if (WIFSIGNALED(status)) say("the child was ended by signal %d", WTERMSIG(status));
    else if (WEXITSTATUS(status)) say("the child ended with status %d", WEXITSTATUS(status));
}

// The segment size of an ordinary path: loopback's own of 64 KiB would let whole transfers pass in two packets.
static void ordinary_segments(int fd) {
    int mss = getenv("PEER_MSS") ? atoi(getenv("PEER_MSS")) : 1448;
    CHECK(setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &mss, sizeof mss) == 0);
}

int listener(void) {
    static int fd = -1;
    if (fd >= 0) return fd;
    const char *where = getenv("PEER_ADDRESS") ? getenv("PEER_ADDRESS") : "127.0.0.1";
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    struct sockaddr *address = (struct sockaddr *)&v4;
    socklen_t len = sizeof v4;
    if (strchr(where, ':')) {
        CHECK(inet_pton(AF_INET6, where, &v6.sin6_addr) == 1);
        address = (struct sockaddr *)&v6;
        len = sizeof v6;
    } else {
        CHECK(inet_pton(AF_INET, where, &v4.sin_addr) == 1);
    }
    CHECK((fd = socket(address->sa_family, SOCK_STREAM, 0)) >= 0);
    int on = 1, off = 0;
    if (address->sa_family == AF_INET6) CHECK(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) == 0);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0);
    if (getenv("PEER_SNDBUF")) {
        int size = atoi(getenv("PEER_SNDBUF"));
        CHECK(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size) == 0);
    }
    if (getenv("PEER_PORT")) {
        v4.sin_port = v6.sin6_port = htons(atoi(getenv("PEER_PORT")));
    }
    ordinary_segments(fd);
    CHECK(bind(fd, address, len) == 0 && listen(fd, 64) == 0);
    CHECK(getsockname(fd, address, &len) == 0);
    int port = ntohs(address->sa_family == AF_INET6 ? v6.sin6_port : v4.sin_port);
    char line[64];
    int n = snprintf(line, sizeof line, "port %d\n", port);
    CHECK(write(2, line, n) == n);
    return fd;
}

int accepted(void) {
    int from = listener(), fd;
    do fd = accept(from, NULL, NULL);
    while (fd < 0 && errno == EINTR);
    CHECK(fd >= 0);
    return fd;
}

int accepted_nonblocking(void) {
    int fd = accepted_unasked();
    // A program that does not wait in the write waits elsewhere, from the start.
    CHECK(poll(&(struct pollfd){fd, POLLOUT, 0}, 1, 20000) == 1);
    return fd;
}

int accepted_unasked(void) {
    CHECK(poll(&(struct pollfd){listener(), POLLIN, 0}, 1, 20000) == 1);
    int fd = accept4(listener(), NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    CHECK(fd >= 0);
    return fd;
}

int sink_address(struct sockaddr_storage *to, socklen_t *len) {
    const char *port = getenv("PEER_SINK");
    memset(to, 0, sizeof *to);
    CHECK(port);
    const char *where = getenv("PEER_ADDRESS") ? getenv("PEER_ADDRESS") : "127.0.0.1";
    struct sockaddr_in *v4 = (struct sockaddr_in *)to;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)to;
    if (strchr(where, ':')) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(atoi(port));
        // Listening everywhere means: come by IPv4, seen as a mapped address.
        CHECK(inet_pton(AF_INET6, strcmp(where, "::") ? where : "::ffff:127.0.0.1", &v6->sin6_addr) == 1);
        *len = sizeof *v6;
    } else {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(atoi(port));
        CHECK(inet_pton(AF_INET, where, &v4->sin_addr) == 1);
        *len = sizeof *v4;
    }
    int fd = socket(to->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    ordinary_segments(fd);
    return fd;
}

int connected(void) {
    struct sockaddr_storage to;
    socklen_t len;
    int fd = sink_address(&to, &len);
    CHECK(connect(fd, (struct sockaddr *)&to, len) == 0);
    return fd;
}

void put(int fd, size_t from, size_t to) {
    while (from < to) {
        size_t n = to - from < 30000 ? to - from : 30000;
        expect(write(fd, data + from, n), n, "write");
        from += n;
    }
}

void put_in_pieces(int fd, size_t from, size_t to) {
    while (from < to) {
        ssize_t n = write(fd, data + from, to - from);
        if (n < 0 && errno == EINTR) continue;
        CHECK(n > 0);
        from += n;
    }
}

int file_of(size_t n) {
    char name[] = "peer-file-XXXXXX";
    int fd = mkstemp(name);
    CHECK(fd >= 0 && unlink(name) == 0);
    for (size_t done = 0; done < n;) {
        ssize_t wrote = write(fd, data + done, n - done);
        CHECK(wrote > 0);
        done += wrote;
    }
    CHECK(lseek(fd, 0, SEEK_SET) == 0);
    return fd;
}

struct limits limits_of(int fd) {
    struct limits l = {0};
    socklen_t rate = sizeof l.rate, control = sizeof l.control, unsent = sizeof l.unsent;
    CHECK(syscall(SYS_getsockopt, fd, SOL_SOCKET, 47 /* SO_MAX_PACING_RATE */, &l.rate, &rate) == 0);
    CHECK(syscall(SYS_getsockopt, fd, IPPROTO_TCP, TCP_CONGESTION, l.control, &control) == 0);
    CHECK(syscall(SYS_getsockopt, fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &l.unsent, &unsent) == 0);
    return l;
}

// What a program does that was started with a connection as its descriptor (see exec.c).
static int inherited(const char *fd) {
    put(atoi(fd), 0, TOTAL);
    return 0;
}

// As above, of a program that knows nothing of us: what the kernel has is the program's own. The connection may also be passed
// through the descriptor. It looks once the other end of a pipe is closed, if there is one.
static int inherited_plainly(const char *text, const char *pipe) {
    char none;
    int fd = atoi(text), domain;
    socklen_t len = sizeof domain;
    CHECK(getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0);
    if (domain == AF_UNIX) fd = take(fd);
    if (pipe) CHECK(read(atoi(pipe), &none, 1) == 0);
    struct limits l = limits_of(fd);
    say("%lx %s %u", l.rate, l.control, l.unsent);
    return 0;
}

int main(int argc, char **argv) {
    uint32_t x = 12345;
    for (size_t i = 0; i < BIG; i++) {
        x = x * 1664525 + 1013904223;
        data[i] = x >> 24;
    }
    if (argc == 2 && !strcmp(argv[1], "--list")) {
        for (size_t g = 0; g < sizeof groups / sizeof *groups; g++)
            for (const struct peer_case *c = groups[g]; c->name; c++) printf("%s %s %s\n", group_names[g], c->name, c->how);
        return 0;
    }
    if (argc == 3 && !strcmp(argv[1], "--inherited")) return inherited(argv[2]);
    if (argc == 3 && !strcmp(argv[1], "--inherited-plainly")) return inherited_plainly(argv[2], NULL);
    if (argc == 4 && !strcmp(argv[1], "--inherited-plainly")) return inherited_plainly(argv[2], argv[3]);
    if (argc == 2 && !strcmp(argv[1], "--prints")) return prints_to_standard_streams();
    for (size_t g = 0; argc == 2 && g < sizeof groups / sizeof *groups; g++)
        for (const struct peer_case *c = groups[g]; c->name; c++)
            if (!strcmp(c->name, argv[1])) return c->run();
    fprintf(stderr, "usage: peer CASE | --list | --inherited FD | --prints\n");
    return 2;
}
