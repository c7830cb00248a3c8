// SPDX-License-Identifier: Apache-2.0 OR MIT
// Makes the n-th call of a function fail, once. Preloaded after the library under test, it stands under that library's own
// calls, too. In the environment:
//
//   TORTURE_CALL=write    the function
//   TORTURE_N=3           which call of it, counted from the first connection on
//   TORTURE_ERRNO=32      with which errno (functions of pthread return it)
//   TORTURE_LOG=FILE      gets a line when it has failed; without TORTURE_CALL: which functions were called, how often
//
// A program may also ask for it: torture_part(n, errno) makes its n-th sending call from now on fail, whichever it is.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>

static int error, wanted;
static const char *target, *log_file;
static atomic_int connected, fired;

// Past everything that may be replaced.
static void note(const char *what, int n) {
    char line[100];
    if (!log_file) return;
    int len = snprintf(line, sizeof line, "%s %d\n", what, n);
    long fd = syscall(SYS_openat, AT_FDCWD, log_file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0) return;
    syscall(SYS_write, fd, line, len);
    syscall(SYS_close, fd);
}

static int fails(const char *name, atomic_int *calls) {
    if (!atomic_load(&connected)) return 0;
    int n = atomic_fetch_add(calls, 1) + 1;
    if (!target || n != wanted || strcmp(name, target) || atomic_exchange(&fired, 1)) return 0;
    int before = errno;
    note(name, n);
    errno = before;
    return 1;
}

static atomic_int part_in, part_error;

void torture_part(int n, int with) {
    atomic_store(&part_error, with);
    atomic_store(&part_in, n);
}

static int part_fails(void) {
    if (atomic_load(&part_in) <= 0 || atomic_fetch_sub(&part_in, 1) != 1) return 0;
    error = atomic_load(&part_error);
    return 1;
}

static void *next(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    if (!found) _exit(99);
    return found;
}

// What the function returns when it fails, with errno set.
#define FAILED (errno = error, -1)

#define TORTURE(type, name, parameters, arguments)                                                                      \
    static type(*real_##name) parameters;                                                                                  \
    static atomic_int calls_##name;                                                                                        \
    type name parameters {                                                                                                 \
        if (!real_##name) real_##name = next(#name);                                                                       \
        if (fails(#name, &calls_##name)) return (type)(intptr_t)FAILED;                                                    \
        return real_##name arguments;                                                                                      \
    }

// The same for what sends.
#define SENDING(type, name, parameters, arguments)                                                                      \
    static type(*real_##name) parameters;                                                                                  \
    static atomic_int calls_##name;                                                                                        \
    type name parameters {                                                                                                 \
        if (!real_##name) real_##name = next(#name);                                                                       \
        if (fails(#name, &calls_##name) || part_fails()) return FAILED;                                                    \
        return real_##name arguments;                                                                                      \
    }

// What of the functions that take it makes a connection: from then on calls count.
#define ACCEPT(name, parameters, arguments)                                                                             \
    static int(*real_##name) parameters;                                                                                   \
    static atomic_int calls_##name;                                                                                        \
    int name parameters {                                                                                                  \
        if (!real_##name) real_##name = next(#name);                                                                       \
        if (fails(#name, &calls_##name)) return FAILED;                                                                    \
        int new = real_##name arguments;                                                                                   \
        if (new >= 0) atomic_store(&connected, 1);                                                                         \
        return new;                                                                                                        \
    }

ACCEPT(accept, (int fd, struct sockaddr *a, socklen_t *n), (fd, a, n))
ACCEPT(accept4, (int fd, struct sockaddr *a, socklen_t *n, int f), (fd, a, n, f))

SENDING(ssize_t, write, (int fd, const void *p, size_t n), (fd, p, n))
SENDING(ssize_t, writev, (int fd, const struct iovec *v, int n), (fd, v, n))
SENDING(ssize_t, send, (int fd, const void *p, size_t n, int f), (fd, p, n, f))
SENDING(ssize_t, sendto, (int fd, const void *p, size_t n, int f, const struct sockaddr *a, socklen_t l), (fd, p, n, f, a, l))
SENDING(ssize_t, sendmsg, (int fd, const struct msghdr *m, int f), (fd, m, f))
SENDING(ssize_t, sendfile, (int o, int i, off_t *at, size_t n), (o, i, at, n))
SENDING(ssize_t, sendfile64, (int o, int i, off64_t *at, size_t n), (o, i, at, n))
SENDING(ssize_t, splice, (int i, off64_t *a, int o, off64_t *b, size_t n, unsigned f), (i, a, o, b, n, f))
TORTURE(ssize_t, read, (int fd, void *p, size_t n), (fd, p, n))
TORTURE(ssize_t, readv, (int fd, const struct iovec *v, int n), (fd, v, n))
TORTURE(ssize_t, recv, (int fd, void *p, size_t n, int f), (fd, p, n, f))
TORTURE(ssize_t, recvfrom, (int fd, void *p, size_t n, int f, struct sockaddr *a, socklen_t *l), (fd, p, n, f, a, l))
TORTURE(ssize_t, recvmsg, (int fd, struct msghdr *m, int f), (fd, m, f))
TORTURE(int, close, (int fd), (fd))
TORTURE(int, shutdown, (int fd, int how), (fd, how))
TORTURE(int, dup, (int fd), (fd))
TORTURE(int, socket, (int d, int t, int p), (d, t, p))
TORTURE(int, getsockopt, (int fd, int l, int o, void *v, socklen_t *n), (fd, l, o, v, n))
TORTURE(int, setsockopt, (int fd, int l, int o, const void *v, socklen_t n), (fd, l, o, v, n))
TORTURE(int, getpeername, (int fd, struct sockaddr *a, socklen_t *n), (fd, a, n))
TORTURE(int, getsockname, (int fd, struct sockaddr *a, socklen_t *n), (fd, a, n))
TORTURE(int, poll, (struct pollfd *p, nfds_t n, int t), (p, n, t))
TORTURE(int, ppoll, (struct pollfd *p, nfds_t n, const struct timespec *t, const sigset_t *m), (p, n, t, m))
TORTURE(int, select, (int n, fd_set *r, fd_set *w, fd_set *e, struct timeval *t), (n, r, w, e, t))
TORTURE(int, pselect, (int n, fd_set *r, fd_set *w, fd_set *e, const struct timespec *t, const sigset_t *m), (n, r, w, e, t, m))
TORTURE(int, epoll_create1, (int f), (f))
TORTURE(int, epoll_ctl, (int e, int o, int fd, struct epoll_event *v), (e, o, fd, v))
TORTURE(int, epoll_wait, (int e, struct epoll_event *v, int n, int t), (e, v, n, t))
TORTURE(int, epoll_pwait, (int e, struct epoll_event *v, int n, int t, const sigset_t *m), (e, v, n, t, m))
TORTURE(int, timerfd_create, (int c, int f), (c, f))
TORTURE(int, timerfd_settime, (int fd, int f, const struct itimerspec *n, struct itimerspec *o), (fd, f, n, o))
TORTURE(void *, mmap, (void *a, size_t n, int p, int f, int fd, off_t o), (a, n, p, f, fd, o))
TORTURE(void *, mmap64, (void *a, size_t n, int p, int f, int fd, off64_t o), (a, n, p, f, fd, o))
TORTURE(int, munmap, (void *a, size_t n), (a, n))
TORTURE(int, madvise, (void *a, size_t n, int k), (a, n, k))

// With a list of arguments of which there is at most one.
#define TORTURE_ONE(name, type)                                                                                         \
    static int (*real_##name)(int, type, ...);                                                                             \
    static atomic_int calls_##name;                                                                                        \
    int name(int fd, type what, ...) {                                                                                     \
        va_list list;                                                                                                      \
        va_start(list, what);                                                                                              \
        void *one = va_arg(list, void *);                                                                                  \
        va_end(list);                                                                                                      \
        if (!real_##name) real_##name = next(#name);                                                                       \
        if (fails(#name, &calls_##name)) return FAILED;                                                                    \
        return real_##name(fd, what, one);                                                                                 \
    }

TORTURE_ONE(ioctl, unsigned long)
TORTURE_ONE(fcntl, int)
TORTURE_ONE(fcntl64, int)

// Not errno, but the result.
static int (*real_create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
static atomic_int calls_create;
int pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*f)(void *), void *p) {
    if (!real_create) real_create = next("pthread_create");
    return fails("pthread_create", &calls_create) ? error : real_create(t, a, f, p);
}

// The clock of the day jumps by an hour to and fro; the clock that only goes forward does not.
static int (*real_clock)(clockid_t, struct timespec *);
int clock_gettime(clockid_t clock, struct timespec *t) {
    static atomic_int calls;
    static int jumps = -1;
    if (!real_clock) real_clock = next("clock_gettime");
    if (jumps < 0) jumps = getenv("TORTURE_CLOCK") != NULL;
    int rc = real_clock(clock, t);
    if (rc == 0 && jumps && clock == CLOCK_REALTIME) t->tv_sec += atomic_fetch_add(&calls, 1) % 2 ? 3600 : -3600;
    return rc;
}

static const struct {
    const char *name;
    atomic_int *calls;
} all[] = {
#define COUNTED(name) {#name, &calls_##name}
    COUNTED(accept), COUNTED(accept4), COUNTED(write), COUNTED(writev), COUNTED(send), COUNTED(sendto), COUNTED(sendmsg),
    COUNTED(sendfile), COUNTED(sendfile64), COUNTED(splice), COUNTED(read), COUNTED(readv), COUNTED(recv), COUNTED(recvfrom),
    COUNTED(recvmsg), COUNTED(close), COUNTED(shutdown), COUNTED(dup), COUNTED(socket), COUNTED(getsockopt),
    COUNTED(setsockopt), COUNTED(getpeername), COUNTED(getsockname), COUNTED(poll), COUNTED(ppoll), COUNTED(select),
    COUNTED(pselect), COUNTED(epoll_create1), COUNTED(epoll_ctl), COUNTED(epoll_wait), COUNTED(epoll_pwait),
    COUNTED(timerfd_create), COUNTED(timerfd_settime), COUNTED(mmap), COUNTED(mmap64), COUNTED(munmap), COUNTED(madvise),
    COUNTED(ioctl), COUNTED(fcntl), COUNTED(fcntl64),
    {"pthread_create", &calls_create},
};

__attribute__((constructor)) static void begin(void) {
    target = getenv("TORTURE_CALL");
    log_file = getenv("TORTURE_LOG");
    wanted = getenv("TORTURE_N") ? atoi(getenv("TORTURE_N")) : 0;
    error = getenv("TORTURE_ERRNO") ? atoi(getenv("TORTURE_ERRNO")) : EIO;
}

__attribute__((destructor)) static void end(void) {
    if (target) return;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (atomic_load(all[i].calls)) note(all[i].name, atomic_load(all[i].calls));
}
