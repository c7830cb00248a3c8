// SPDX-License-Identifier: Apache-2.0 OR MIT
// Every call that writes, on a blocking connection: each must take all it is given, as under plain TCP.
#include "peer.h"
#include <linux/errqueue.h>

static int by_write(void) {
    int fd = accepted();
    static const size_t sizes[] = {1, 10, 100, 1447, 1448, 1449, 10000, 60000};
    size_t at = 0;
    for (int i = 0; at < TOTAL; i++) {
        size_t n = sizes[i % 8];
        if (n > TOTAL - at) n = TOTAL - at;
        expect(write(fd, data + at, n), n, "write");
        at += n;
    }
    return close(fd);
}

static int by_small_writes(void) {
    int fd = accepted();
    for (size_t at = 0; at < 100000; at += 50) expect(write(fd, data + at, 50), 50, "write");
    return close(fd);
}

static int pieces(struct iovec *v, int count, size_t from, size_t each) {
    for (int i = 0; i < count; i++) v[i] = (struct iovec){data + from + i * each, each};
    return count;
}

static int by_writev(void) {
    int fd = accepted();
    struct iovec v[8];
    for (size_t at = 0; at < TOTAL; at += 8 * 5000) expect(writev(fd, v, pieces(v, 8, at, 5000)), 8 * 5000, "writev");
    return close(fd);
}

static int by_pwritev2(void) {
    int fd = accepted();
    struct iovec v[8];
    // A position is refused on a connection, as ever; no position is the next.
    expect(pwritev2(fd, v, pieces(v, 8, 0, 5000), 0, 0), -1, "pwritev2 at a position");
    say("%s", name_of(errno));
    for (size_t at = 0; at < TOTAL; at += 8 * 5000) expect(pwritev2(fd, v, pieces(v, 8, at, 5000), -1, 0), 8 * 5000, "pwritev2");
    expect(pwritev2(fd, v, -1, -1, 0), -1, "pwritev2");
    say("%s", name_of(errno));
    return close(fd);
}

static int by_long_writev(void) {
    int fd = accepted();
    static struct iovec v[1024];
    for (size_t at = 0; at < TOTAL; at += 100000) {
        pieces(v, 1000, at, 100);
        // Empty pieces are allowed, also without an address.
        for (int i = 1000; i < 1024; i++) v[i] = (struct iovec){NULL, 0};
        expect(writev(fd, v, 1024), 100000, "writev");
    }
    return close(fd);
}

static int by_send(void) {
    int fd = accepted();
    for (size_t at = 0; at < TOTAL; at += 20000) expect(send(fd, data + at, 20000, 0), 20000, "send");
    return close(fd);
}

static int by_sendto(void) {
    int fd = accepted();
    struct sockaddr_in to;
    socklen_t len = sizeof to;
    CHECK(getpeername(fd, (struct sockaddr *)&to, &len) == 0);
    // On a stream the address is ignored, with or without one.
    for (size_t at = 0; at < TOTAL; at += 40000) {
        expect(sendto(fd, data + at, 20000, 0, NULL, 0), 20000, "sendto");
        expect(sendto(fd, data + at + 20000, 20000, MSG_NOSIGNAL, (struct sockaddr *)&to, len), 20000, "sendto");
    }
    return close(fd);
}

static int by_sendmsg(void) {
    int fd = accepted();
    static struct iovec v[200];
    for (size_t at = 0; at < TOTAL; at += 40000) {
        struct msghdr m = {.msg_iov = v, .msg_iovlen = pieces(v, 200, at, 200)};
        expect(sendmsg(fd, &m, 0), 40000, "sendmsg");
        CHECK(m.msg_iov == v && m.msg_iovlen == 200 && v[0].iov_base == data + at && v[199].iov_len == 200);
    }
    return close(fd);
}

static int by_sendmmsg(void) {
    int fd = accepted();
    struct iovec v[8][3];
    struct mmsghdr m[8];
    for (size_t at = 0; at < TOTAL; at += 8 * 5000) {
        memset(m, 0, sizeof m);
        for (int i = 0; i < 8; i++) {
            char *from = data + at + i * 5000;
            v[i][0] = (struct iovec){from, 1000};
            v[i][1] = (struct iovec){from + 1000, 1500};
            v[i][2] = (struct iovec){from + 2500, 2500};
            m[i].msg_hdr.msg_iov = v[i];
            m[i].msg_hdr.msg_iovlen = 3;
        }
        expect(sendmmsg(fd, m, 8, 0), 8, "sendmmsg");
        for (int i = 0; i < 8; i++) expect(m[i].msg_len, 5000, "a message of sendmmsg");
    }
    return close(fd);
}

static int by_sendfile(void) {
    int fd = accepted(), from = file_of(TOTAL);
    expect(sendfile(fd, from, NULL, 150000), 150000, "sendfile");
    expect(lseek(from, 0, SEEK_CUR), 150000, "the file's position");
    // More than there is: what there is.
    expect(sendfile(fd, from, NULL, 150000), TOTAL - 150000, "sendfile");
    expect(sendfile(fd, from, NULL, 10), 0, "sendfile at the end");
    return close(fd);
}

static int by_sendfile_offset(void) {
    int fd = accepted(), from = file_of(TOTAL);
    off_t at = 0;
    expect(sendfile(fd, from, &at, 1000), 1000, "sendfile");
    expect(at, 1000, "the offset");
    expect(sendfile(fd, from, &at, TOTAL), TOTAL - 1000, "sendfile");
    expect(at, TOTAL, "the offset");
    expect(lseek(from, 0, SEEK_CUR), 0, "the file's position");
    return close(fd);
}

static int by_splice(void) {
    int fd = accepted(), pipe_[2];
    CHECK(pipe(pipe_) == 0);
    for (size_t at = 0; at < TOTAL; at += 50000) {
        expect(write(pipe_[1], data + at, 50000), 50000, "write to the pipe");
        for (size_t remaining = 50000; remaining > 0;) {
            ssize_t n = splice(pipe_[0], NULL, fd, NULL, remaining, SPLICE_F_MOVE | SPLICE_F_MORE);
            CHECK(n > 0);
            remaining -= n;
        }
    }
    return close(fd);
}

static int by_splice_of_a_file(void) {
    int fd = accepted(), from = file_of(TOTAL), pipe_[2];
    CHECK(pipe(pipe_) == 0);
    ssize_t in;
    while ((in = splice(from, NULL, pipe_[1], NULL, 65536, 0)) > 0)
        while (in > 0) {
            ssize_t n = splice(pipe_[0], NULL, fd, NULL, in, 0);
            CHECK(n > 0);
            in -= n;
        }
    CHECK(in == 0);
    return close(fd);
}

static int by_send_more(void) {
    int fd = accepted();
    for (size_t at = 0; at < TOTAL; at += 2000) {
        expect(send(fd, data + at, 700, MSG_MORE), 700, "send");
        expect(send(fd, data + at + 700, 1300, at + 2000 < TOTAL ? MSG_MORE : 0), 1300, "send");
    }
    return close(fd);
}

static int by_cork(void) {
    int fd = accepted(), on = 1, off = 0;
    for (size_t at = 0; at < TOTAL; at += 20000) {
        CHECK(setsockopt(fd, IPPROTO_TCP, TCP_CORK, &on, sizeof on) == 0);
        for (int i = 0; i < 20; i++) expect(write(fd, data + at + i * 1000, 1000), 1000, "write");
        CHECK(setsockopt(fd, IPPROTO_TCP, TCP_CORK, &off, sizeof off) == 0);
    }
    return close(fd);
}

static int by_nodelay(void) {
    int fd = accepted(), on = 1;
    CHECK(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0);
    for (size_t at = 0; at < TOTAL; at += 100) expect(write(fd, data + at, 100), 100, "write");
    return close(fd);
}

static int by_oob(void) {
    int fd = accepted();
    put(fd, 0, 50000);
    expect(send(fd, "!", 1, MSG_OOB), 1, "send");
    put(fd, 50000, TOTAL);
    return close(fd);
}

// Each call has a number, and the kernel says when its memory may be used again: a call that became two would mislead.
static int by_zerocopy(void) {
    int fd = accepted(), on = 1;
    if (setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof on) != 0) return say("no SO_ZEROCOPY here"), put(fd, 0, TOTAL), 0;
    uint32_t calls = 0, done = 0;
    for (size_t at = 0; at < TOTAL; at += 20000, calls++) expect(send(fd, data + at, 20000, MSG_ZEROCOPY), 20000, "send");
    while (done < calls) {
        struct pollfd p = {fd, 0, 0};
        CHECK(poll(&p, 1, 10000) == 1);
        char control[128];
        struct msghdr m = {.msg_control = control, .msg_controllen = sizeof control};
        if (recvmsg(fd, &m, MSG_ERRQUEUE) < 0) {
            CHECK(errno == EAGAIN);
            continue;
        }
        struct sock_extended_err *e = (void *)CMSG_DATA(CMSG_FIRSTHDR(&m));
        CHECK(e->ee_origin == SO_EE_ORIGIN_ZEROCOPY && e->ee_info == done);
        done = e->ee_data + 1;
    }
    expect(done, calls, "the number of notifications");
    return close(fd);
}

static int over_v6(void) {
    struct sockaddr_in6 from;
    socklen_t len = sizeof from;
    char text[64];
    int fd = accept(listener(), (struct sockaddr *)&from, &len);
    CHECK(fd >= 0 && inet_ntop(AF_INET6, &from.sin6_addr, text, sizeof text));
    say("from %s", text);
    put(fd, 0, TOTAL);
    return close(fd);
}

#ifndef SO_MAX_PACING_RATE
#define SO_MAX_PACING_RATE 47
#endif

static void say_pacing(int fd) {
    uint64_t words[2] = {0, 0};
    uint32_t word = 0;
    uint16_t half = 0;
    socklen_t of_words = sizeof words, of_word = sizeof word, of_half = sizeof half;
    CHECK(getsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, words, &of_words) == 0);
    CHECK(getsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &word, &of_word) == 0);
    CHECK(getsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &half, &of_half) == 0);
    say("%lx %lx (%u), %x (%u), %x (%u)", words[0], words[1], of_words, word, of_word, half, of_half);
}

// A program that paces itself, by a short and a long number, now and then, and looks: what it set holds.
static int own_pacing(void) {
    int fd = accepted();
    say_pacing(fd);
    uint32_t rate = 1000000;
    CHECK(setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof rate) == 0);
    double since = now();
    put(fd, 0, 600000);
    say_pacing(fd);
    uint64_t other = 5000000;
    CHECK(setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &other, sizeof other) == 0);
    say_pacing(fd);
    put(fd, 600000, 700000);
    expect(setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &other, 2), -1, "setsockopt");
    expect(setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, (void *)8, sizeof other), -1, "setsockopt");
    say("%s", name_of(errno));
    say_pacing(fd);
    rate = 1000000;
    CHECK(setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof rate) == 0);
    put(fd, 700000, 900000);
    pid_t child = fork();
    if (child == 0) {
        say_pacing(fd);
        put(fd, 900000, 1000000);
        say_pacing(fd);
        _exit(0);
    }
    reap(child);
    char said[100];
    CHECK(shutdown(fd, SHUT_WR) == 0 && read(fd, said, sizeof said) > 0);
    // The first round trips are faster than any rate.
    say("took its time: %s", now() - since > 0.5 ? "yes" : "no");
    rate = ~0u;
    CHECK(setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof rate) == 0);
    say_pacing(fd);
    return close(fd);
}

const struct peer_case write_cases[] = {
    {"write", "", by_write},
    {"small-writes", "", by_small_writes},
    {"writev", "", by_writev},
    {"long-writev", "", by_long_writev},
    {"pwritev2", "", by_pwritev2},
    {"send", "", by_send},
    {"sendto", "", by_sendto},
    {"sendmsg", "", by_sendmsg},
    {"sendmmsg", "", by_sendmmsg},
    {"sendfile", "", by_sendfile},
    {"sendfile-offset", "", by_sendfile_offset},
    {"splice", "", by_splice},
    {"splice-of-a-file", "", by_splice_of_a_file},
    {"send-more", "", by_send_more},
    {"cork", "", by_cork},
    {"nodelay", "", by_nodelay},
    {"oob", "", by_oob},
    {"zerocopy", "", by_zerocopy},
    {"own-pacing", "client=answer cc=budget", own_pacing},
    {"ipv6", "address=::1", over_v6},
    {"ipv4-mapped", "address=::", over_v6},
    {0},
};
