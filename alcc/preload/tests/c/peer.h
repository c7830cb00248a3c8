// SPDX-License-Identifier: Apache-2.0 OR MIT
// A program that does with TCP connections what programs do. Each case is one way to write, wait, duplicate, fork or close.
// Run plainly it is the oracle: under `alcc run` the same case must say the same, end the same and send the same bytes.
#ifndef PEER_H
#define PEER_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

// Bytes of an ordinary case, and of one that has to fill every buffer on the way.
#define TOTAL 200000
#define BIG 3000000

struct peer_case {
    const char *name;
    // What the harness does at the other end, see main.rs of the test: "client=late clients=2".
    const char *how;
    int (*run)(void);
};

extern const struct peer_case write_cases[], edge_cases[], wait_cases[], epoll_cases[], block_cases[], descriptor_cases[],
    close_cases[], process_cases[], exec_cases[], thread_cases[], connect_cases[], limit_cases[], serve_cases[],
    spawn_cases[], alone_cases[], error_cases[], stdio_cases[];
// In C++, if there is a compiler for it.
extern const struct peer_case streams_cases[];

// The stream of a connection: the same BIG bytes for everyone.
extern char data[BIG];

// What the kernel limits a connection by, as a process sees it that knows nothing of us.
struct limits {
    uint64_t rate;
    char control[16];
    uint32_t unsent;
};
struct limits limits_of(int fd);

// Listens where the harness asked for (made at the first call) and accepts one connection.
int listener(void);
int accepted(void);
int accepted_nonblocking(void);
// The same, but nobody has waited for room on it.
int accepted_unasked(void);
// Connects to the harness's own listener.
int sink_address(struct sockaddr_storage *to, socklen_t *len);
int connected(void);
// Writes all with write(2), waiting in the call; says so if one call returns less than it was given.
void put(int fd, size_t from, size_t to);
// As put, but a short count is nothing to talk about.
void put_in_pieces(int fd, size_t from, size_t to);
// Passes a descriptor through a UNIX socket, and receives it.
void give(int to, int fd);
int take(int from);
// An unlinked file with the stream's first n bytes.
int file_of(size_t n);
// Says where and why and ends with status 3 unless `ok`.
#define CHECK(ok) check(!!(ok), #ok, __FILE__, __LINE__)
void check(int ok, const char *what, const char *file, int line);
void expect(long got, long want, const char *what);
// One line on standard output, past stdio, so that a fork prints nothing twice.
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
const char *name_of(int error);
double now(void);
void nap(double seconds);
void set_nonblocking(int fd, int on);
// Waits for a child and says how it ended.
void reap(pid_t child);
void on_signal(int signal, void (*handler)(int), int flags);
void alarm_every(int milliseconds);
// stdio.c: what a program does that was started with a connection as its standard streams.
int prints_to_standard_streams(void);
#endif
