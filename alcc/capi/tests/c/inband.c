/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* In-band streams over sockets, and sessions without one. Usage: inband SCENARIO */
#include "common.h"

#define MANY 2000000

static struct alcc_inband_options with(const char *cc) {
    struct alcc_inband_options options = {.cc = cc};
    return options;
}

struct end {
    pthread_t thread;
    int fd, role;
    const char *cc;
};

/* Sends `MANY` bytes of stream 1, hears "thanks". */
static void sender(struct end *e) {
    struct alcc_inband_options options = with(e->cc);
    struct alcc_inband *s = alcc_inband_wrap(e->fd, e->role, &options, sizeof options);
    CHECK(s);
    for (uint64_t sent = 0; sent < MANY;) {
        size_t n = MANY - sent < 50000 ? (size_t)(MANY - sent) : 50000;
        unsigned char *block = filled(1, sent, n);
        CHECK(alcc_inband_send(s, block, n, 0) == (ssize_t)n);
        free(block);
        sent += n;
    }
    CHECK(alcc_inband_finish(s, 20000) == 0);
    char answer[16];
    size_t got = 0;
    for (ssize_t n; (n = alcc_inband_recv(s, answer + got, sizeof answer - got, 0)) > 0;) got += (size_t)n;
    CHECK(got == 6 && memcmp(answer, "thanks", 6) == 0);
    CHECK(alcc_inband_send(s, "x", 1, 0) < 0 && errno == EPIPE);
    struct alcc_inband_info info;
    CHECK(alcc_inband_get_info(s, &info, sizeof info) == 0);
    CHECK(info.sent == MANY && info.received == 6 && info.in_flight == 0 && info.error == 0);
    CHECK(info.bytes_out >= MANY && info.bytes_out < MANY * 1.015);
    CHECK(info.min_rtt_us > 0 && info.min_rtt_us <= info.rtt_us);
    alcc_inband_close(s);
}

static void *receiver(void *arg) {
    struct end *e = arg;
    struct alcc_inband *s = alcc_inband_wrap(e->fd, e->role, NULL, 0);
    CHECK(s);
    static unsigned char block[30000];
    uint64_t got = 0;
    for (ssize_t n; (n = alcc_inband_recv(s, block, sizeof block, 0)) != 0; got += (uint64_t)n) {
        CHECK(n > 0);
        for (ssize_t i = 0; i < n; i++) CHECK(block[i] == pattern(1, got + (uint64_t)i));
    }
    CHECK(got == MANY);
    CHECK(alcc_inband_send(s, "thanks", 6, 0) == 6);
    CHECK(alcc_inband_finish(s, 20000) == 0);
    alcc_inband_close(s);
    return NULL;
}

static void transfer(int near, int far, const char *cc) {
    struct end send = {.fd = near, .role = ALCC_CONNECTED, .cc = cc};
    struct end take = {.fd = far, .role = ALCC_ACCEPTED};
    CHECK(pthread_create(&take.thread, NULL, receiver, &take) == 0);
    sender(&send);
    CHECK(pthread_join(take.thread, NULL) == 0);
    /* The descriptors went with the streams. */
    CHECK(fcntl(near, F_GETFD) < 0 && errno == EBADF);
    CHECK(fcntl(far, F_GETFD) < 0 && errno == EBADF);
}

static void tcp_pair(int fds[2]) {
    struct sockaddr_storage at;
    socklen_t len;
    int l = listener(AF_INET, &at, &len);
    fds[0] = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(fds[0] >= 0 && connect(fds[0], (void *)&at, len) == 0);
    fds[1] = accept(l, NULL, NULL);
    CHECK(fds[1] >= 0);
    close(l);
}

static void tcp(void) {
    int fds[2];
    tcp_pair(fds);
    transfer(fds[0], fds[1], "verus");
    tcp_pair(fds);
    transfer(fds[0], fds[1], "sprout");
}

static void unix_socket(void) {
    int fds[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
    transfer(fds[0], fds[1], "copa");
}

/* Time limits, and a peer that goes without a word. */
static void limits(void) {
    int fds[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
    struct alcc_inband_options options = {.cc = "verus", .handshake_ms = 300};
    double began = now();
    CHECK(alcc_inband_wrap(fds[0], ALCC_CONNECTED, &options, sizeof options) == NULL);
    CHECK(errno == ETIMEDOUT && now() - began < 20);
    CHECK(strstr(alcc_message(), "did not start the in-band protocol"));
    CHECK(fcntl(fds[0], F_GETFD) < 0);
    close(fds[1]);

    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
    CHECK(write(fds[1], "HTTP/1.1 400 Bad Request\r\n\r\n", 28) == 28);
    CHECK(alcc_inband_wrap(fds[0], ALCC_CONNECTED, NULL, 0) == NULL && errno == EPROTO);
    CHECK(strstr(alcc_message(), "HTTP") && !strchr(alcc_message(), '\n'));
    close(fds[1]);
}

struct opened {
    pthread_t thread;
    int fd;
    struct alcc_inband *s;
};

static void *open_far(void *arg) {
    struct opened *o = arg;
    o->s = alcc_inband_wrap(o->fd, ALCC_ACCEPTED, NULL, 0);
    CHECK(o->s);
    return NULL;
}

static void waits(void) {
    int fds[2];
    tcp_pair(fds);
    struct opened far = {.fd = fds[1]};
    CHECK(pthread_create(&far.thread, NULL, open_far, &far) == 0);
    struct alcc_inband *s = alcc_inband_wrap(fds[0], ALCC_CONNECTED, NULL, 0);
    CHECK(s && pthread_join(far.thread, NULL) == 0);
    char c;
    CHECK(alcc_inband_recv(s, &c, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN);
    CHECK(alcc_inband_set_timeout(s, 200) == 0);
    double began = now();
    CHECK(alcc_inband_recv(s, &c, 1, 0) < 0 && errno == EAGAIN);
    CHECK(now() - began >= 0.15 && now() - began < 20);
    /* Nobody reads there: what the window, the peer and the queue take is all that goes. */
    static char block[1 << 20];
    uint64_t sent = 0;
    for (ssize_t n; (n = alcc_inband_send(s, block, sizeof block, 0)) > 0;) sent += (uint64_t)n;
    CHECK(errno == EAGAIN && sent > 0 && sent < 64 << 20);
    alcc_inband_close(far.s);
    CHECK(alcc_inband_set_timeout(s, 20000) == 0);
    CHECK(alcc_inband_recv(s, &c, 1, 0) < 0);
    CHECK(errno == ECONNABORTED || errno == ECONNRESET);
    CHECK(alcc_inband_finish(s, 1000) < 0 && (errno == ECONNABORTED || errno == ECONNRESET));
    alcc_inband_close(s);
    alcc_inband_close(NULL);
}

/* Carries what `from` gives to `to`, in pieces. */
static int carry(struct alcc_session *from, struct alcc_session *to, size_t piece) {
    static char bytes[70000];
    ssize_t n = alcc_session_take(from, bytes, piece);
    CHECK(n >= 0);
    if (n > 0) CHECK(alcc_session_feed(to, bytes, (size_t)n) == 0);
    return n > 0;
}

static void memory(void) {
    struct alcc_inband_options options = with("copa");
    struct alcc_session *a = alcc_session_new(ALCC_CONNECTED, &options, sizeof options);
    struct alcc_session *b = alcc_session_new(ALCC_ACCEPTED, NULL, 0);
    CHECK(a && b);
    uint64_t sent = 0, got = 0;
    int over = 0;
    size_t piece = 1;
    double limit = now() + 20;
    while (!over) {
        CHECK(now() < limit);
        if (sent < MANY) {
            size_t n = MANY - sent < 9000 ? (size_t)(MANY - sent) : 9000;
            unsigned char *block = filled(1, sent, n);
            ssize_t took = alcc_session_write(a, block, n);
            CHECK(took > 0 || errno == EAGAIN);
            if (took > 0) sent += (uint64_t)took;
            free(block);
        } else {
            int done = alcc_session_finish(a);
            CHECK(done >= 0);
            over = done && got == MANY && alcc_session_read(b, &(char){0}, 1) == 0;
        }
        piece = piece % 60000 * 3 + 1;
        int moved = carry(a, b, piece) + carry(b, a, 7);
        static unsigned char block[20000];
        ssize_t n = alcc_session_read(b, block, sizeof block);
        for (ssize_t i = 0; i < n; i++) CHECK(block[i] == pattern(1, got + (uint64_t)i));
        if (n > 0) got += (uint64_t)n;
        else if (!moved) {
            int64_t wait_a = alcc_session_timer_us(a), wait_b = alcc_session_timer_us(b);
            CHECK(over || wait_a >= 0 || wait_b >= 0);
            int64_t wait = wait_a < 0 || (wait_b >= 0 && wait_b < wait_a) ? wait_b : wait_a;
            struct timespec t = {0, (long)(wait < 5000 ? wait : 5000) * 1000};
            nanosleep(&t, NULL);
        }
    }
    struct alcc_inband_info info;
    CHECK(alcc_session_get_info(a, &info, sizeof info) == 0 && info.sent == MANY && info.in_flight == 0);
    CHECK(alcc_session_get_info(b, &info, sizeof info) == 0 && info.received == MANY);
    alcc_session_free(a);
    alcc_session_free(b);
    alcc_session_free(NULL);
}

static void nonsense(void) {
    struct alcc_inband_options options = with("vrus");
    CHECK(!alcc_session_new(ALCC_CONNECTED, &options, sizeof options) && errno == EINVAL);
    CHECK(strstr(alcc_message(), "vrus"));
    CHECK(!alcc_session_new(7, NULL, 0) && errno == EINVAL);
    int fd = open("/dev/null", O_RDWR);
    CHECK(!alcc_inband_wrap(fd, ALCC_CONNECTED, NULL, 0) && errno == ENOTSOCK);
    close(fd);
    CHECK(!alcc_inband_wrap(-1, ALCC_CONNECTED, NULL, 0) && errno == EBADF);
    fd = socket(AF_INET, SOCK_DGRAM, 0);
    CHECK(!alcc_inband_wrap(fd, ALCC_CONNECTED, NULL, 0) && errno == EINVAL);
    close(fd);
    CHECK(alcc_inband_send(NULL, "x", 1, 0) < 0 && errno == EFAULT);
    struct alcc_session *s = alcc_session_new(ALCC_ACCEPTED, NULL, 0);
    CHECK(s && alcc_session_write(s, NULL, 1) < 0 && errno == EFAULT);
    char bytes[100];
    CHECK(alcc_session_take(s, bytes, sizeof bytes) == 0);
    CHECK(alcc_session_read(s, bytes, sizeof bytes) < 0 && errno == EAGAIN);
    CHECK(alcc_session_feed(s, "SSH-2.0-x\r\n", 11) < 0 && errno == EPROTO);
    CHECK(strstr(alcc_message(), "SSH"));
    CHECK(alcc_session_read(s, bytes, sizeof bytes) < 0 && errno == EPROTO);
    CHECK(alcc_session_write(s, "x", 1) < 0 && errno == EPROTO);
    CHECK(alcc_session_finish(s) < 0 && errno == EPROTO);
    alcc_session_free(s);
    /* An end that nobody has said. */
    s = alcc_session_new(ALCC_ACCEPTED, NULL, 0);
    CHECK(alcc_session_feed(s, NULL, 0) < 0 && errno == ECONNRESET);
    alcc_session_free(s);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } all[] = {{"tcp", tcp},       {"unix", unix_socket}, {"limits", limits},
               {"waits", waits},   {"memory", memory},    {"nonsense", nonsense}};
    for (size_t i = 0; argc == 2 && i < sizeof all / sizeof *all; i++)
        if (strcmp(argv[1], all[i].name) == 0) {
            all[i].run();
            return 0;
        }
    return 2;
}
