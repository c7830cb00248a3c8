// SPDX-License-Identifier: Apache-2.0 OR MIT
// Every way for a connection to end.
#include "peer.h"

static int half_close(void) {
    int fd = accepted();
    put(fd, 0, TOTAL);
    CHECK(shutdown(fd, SHUT_WR) == 0);
    char got[100];
    ssize_t n, all = 0;
    while ((n = read(fd, got + all, sizeof got - all)) > 0) all += n;
    say("the client says %.*s", (int)all, got);
    return close(fd);
}

static int shut_both(void) {
    int fd = accepted();
    put(fd, 0, TOTAL);
    CHECK(shutdown(fd, SHUT_RDWR) == 0);
    char byte;
    expect(read(fd, &byte, 1), 0, "read");
    return close(fd);
}

static int shut_reading(void) {
    int fd = accepted();
    CHECK(shutdown(fd, SHUT_RD) == 0);
    put(fd, 0, TOTAL);
    return close(fd);
}

// The last bytes are still in the kernel when the program ends.
static int end_at_once(void) {
    int fd = accepted();
    put(fd, 0, TOTAL);
    _exit(7);
}

static int end_without_closing(void) {
    put(accepted(), 0, TOTAL);
    return 5;
}

// Close with bytes unsent: a reset instead.
static int abort_(void) {
    int fd = accepted();
    set_nonblocking(fd, 1);
    while (write(fd, data, 50000) > 0) {}
    struct linger none = {1, 0};
    CHECK(setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none) == 0);
    return close(fd);
}

// close() waits until all is acknowledged.
static int lingering(void) {
    int fd = accepted();
    struct linger long_ = {1, 20};
    CHECK(setsockopt(fd, SOL_SOCKET, SO_LINGER, &long_, sizeof long_) == 0);
    put(fd, 0, TOTAL);
    return close(fd);
}

// Nobody reads: close() waits one second, no more.
static int lingering_in_vain(void) {
    int fd = accepted();
    struct linger short_ = {1, 1};
    CHECK(setsockopt(fd, SOL_SOCKET, SO_LINGER, &short_, sizeof short_) == 0);
    set_nonblocking(fd, 1);
    while (write(fd, data, 50000) > 0) {}
    set_nonblocking(fd, 0);
    double since = now();
    int closed = close(fd);
    say("%d", closed);
    CHECK(now() - since > 0.9 && now() - since < 8);
    return 0;
}

static int by_fclose(void) {
    int fd = accepted();
    FILE *f = fdopen(fd, "w");
    CHECK(f && fwrite(data, 1, TOTAL, f) == TOTAL);
    CHECK(fclose(f) == 0);
    // The number is free again, and what gets it is a file.
    int file = file_of(0);
    CHECK(file == fd);
    expect(write(file, data, BIG), BIG, "write to a file");
    return 0;
}

static int by_close_range(void) {
    int fd = accepted();
    put(fd, 0, TOTAL);
    CHECK(close_range(fd, ~0u, 0) == 0);
    expect(write(fd, data, 10), -1, "write");
    say("%s", name_of(errno));
    int file = file_of(0);
    CHECK(file == fd);
    expect(write(file, data, BIG), BIG, "write to a file");
    return 0;
}

static int by_closefrom(void) {
    int fd = accepted();
    put(fd, 0, TOTAL);
    closefrom(fd);
    int file = file_of(0);
    CHECK(file == fd);
    expect(write(file, data, BIG), BIG, "write to a file");
    return 0;
}

// Behind our back, by the system call itself.
static int by_system_call(void) {
    int fd = accepted();
    put(fd, 0, TOTAL);
    CHECK(syscall(SYS_close, fd) == 0);
    int file = file_of(0);
    CHECK(file == fd);
    expect(write(file, data, BIG), BIG, "write to a file");
    expect(lseek(file, 0, SEEK_CUR), BIG, "the file's position");
    CHECK(close(file) == 0);
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 && pair[0] == fd);
    expect(send(pair[0], data, 100000, 0), 100000, "send");
    return 0;
}

// The number goes straight to the next connection.
static int next_by_system_call(void) {
    int fd = accepted();
    put(fd, 0, TOTAL);
    CHECK(syscall(SYS_close, fd) == 0);
    int next = accepted();
    CHECK(next == fd);
    put(next, 0, TOTAL);
    return close(next);
}

static int replaced_by_system_call(void) {
    int fd = accepted(), file = file_of(0);
    put(fd, 0, TOTAL);
    CHECK(syscall(SYS_dup2, file, fd) == fd);
    expect(write(fd, data, BIG), BIG, "write to a file");
    set_nonblocking(fd, 1);
    expect(write(fd, data, BIG), BIG, "write to a file");
    return close(fd);
}

// With bytes on the way and the loop at work on them: the file must not be touched.
static int while_at_work(void) {
    for (int i = 0; i < 20; i++) {
        int fd = accepted_nonblocking();
        while (write(fd, data, 50000) > 0) {}
        CHECK(i % 2 ? close(fd) == 0 : syscall(SYS_close, fd) == 0);
        int file = file_of(0);
        CHECK(file == fd);
        for (int j = 0; j < 5; j++) {
            expect(write(file, data, 1000), 1000, "write to a file");
            nap(0.002);
        }
        expect(lseek(file, 0, SEEK_END), 5000, "the file's size");
        CHECK(close(file) == 0);
    }
    return 0;
}

static int many_in_a_row(void) {
    for (int i = 0; i < 40; i++) {
        int fd = accepted();
        put(fd, 0, 10000);
        CHECK(close(fd) == 0);
    }
    return 0;
}

static int accepted_and_closed(void) {
    for (int i = 0; i < 40; i++) CHECK(close(accepted()) == 0);
    put(accepted(), 0, TOTAL);
    return 0;
}

const struct peer_case close_cases[] = {
    {"half-close", "client=answer", half_close},
    {"shut-both", "", shut_both},
    {"shut-reading", "", shut_reading},
    {"end-at-once", "", end_at_once},
    {"end-without-closing", "", end_without_closing},
    {"abort", "gate=maybe client=hold sndbuf=100000", abort_},
    {"lingering", "", lingering},
    {"lingering-in-vain", "gate=maybe client=hold sndbuf=100000", lingering_in_vain},
    {"fclose", "gate=maybe connections=none", by_fclose},
    {"close-range", "", by_close_range},
    {"closefrom", "", by_closefrom},
    {"close-by-system-call", "", by_system_call},
    {"next-by-system-call", "clients=2", next_by_system_call},
    {"replaced-by-system-call", "", replaced_by_system_call},
    {"closed-while-at-work", "clients=20 client=hold sndbuf=100000", while_at_work},
    {"many-in-a-row", "gate=maybe clients=40", many_in_a_row},
    {"accepted-and-closed", "connections=1 clients=41", accepted_and_closed},
    {0},
};
