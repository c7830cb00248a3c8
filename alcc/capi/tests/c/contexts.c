/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Whole ends against frames that are right by themselves: what tests/vectors.rs reads from alcc/inband/tests/wire-format-vectors.json.
 * Each line of standard input is BUFFER SENT PREFACE HEARD, the last two in hexadecimal. Each line of the output is what
 * the application read, the errno that followed ("end" for the peer's end), and what was said then.
 */
#include "common.h"

static size_t parsed(const char *hex, unsigned char *out) {
    size_t n = strlen(hex) / 2;
    for (size_t i = 0; i < n; i++) {
        unsigned octet;
        CHECK(sscanf(hex + 2 * i, "%2x", &octet) == 1);
        out[i] = (unsigned char)octet;
    }
    return n;
}

static void print(const unsigned char *bytes, size_t n) {
    if (n == 0) printf("-");
    for (size_t i = 0; i < n; i++) printf("%02x", bytes[i]);
}

static size_t take_all(struct alcc_session *s, unsigned char *out, size_t size) {
    size_t all = 0;
    for (ssize_t n; (n = alcc_session_take(s, out + all, size - all)) != 0; all += (size_t)n) CHECK(n > 0);
    return all;
}

int main(void) {
    static char preface[4096], heard[65536];
    static unsigned char in[32768], out[65536];
    unsigned buffer, sent;
    while (scanf("%u %u %4095s %65535s", &buffer, &sent, preface, heard) == 4) {
        struct alcc_inband_options options = {.cc = "fixed:window=100", .receive_buffer = buffer};
        struct alcc_session *s = alcc_session_new(ALCC_ACCEPTED, &options, sizeof options);
        CHECK(s);
        CHECK(alcc_session_feed(s, in, parsed(preface, in)) == 0);
        CHECK(take_all(s, out, sizeof out) > 0);
        memset(in, 7, sent);
        CHECK(sent == 0 || alcc_session_write(s, in, sent) == (ssize_t)sent);
        CHECK(sent == 0 || take_all(s, out, sizeof out) > sent);
        alcc_session_feed(s, in, parsed(heard, in));
        size_t got = 0;
        ssize_t n;
        errno = 0;
        while ((n = alcc_session_read(s, out + got, sizeof out - got)) > 0) got += (size_t)n;
        int error = errno;
        print(out, got);
        printf(n == 0 ? " end " : " %d ", error);
        print(out, take_all(s, out, sizeof out));
        printf("\n");
        alcc_session_free(s);
    }
    return 0;
}
