/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* transfer serve BYTES: sends BYTES to each connection to port 5000.
 * transfer fetch ADDRESS BYTES: fetches and compares them; prints the seconds since the first byte. */
#include "common.h"

static int serve(uint64_t bytes) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(5000)};
    int l = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    CHECK(setsockopt(l, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0);
    CHECK(bind(l, (void *)&at, sizeof at) == 0 && listen(l, 20) == 0);
    for (;;) {
        int fd = alcc_accept(l, NULL, NULL);
        CHECK(fd >= 0);
        for (uint64_t sent = 0; sent < bytes;) {
            size_t n = bytes - sent < 50000 ? (size_t)(bytes - sent) : 50000;
            unsigned char *block = filled(1, sent, n);
            CHECK(alcc_send(fd, block, n, 0) == (ssize_t)n);
            free(block);
            sent += n;
        }
        struct alcc_info info;
        double end = now() + 60;
        while (info = info_of(fd), info.queued + info.in_flight > 0 && now() < end) nap(5);
        CHECK(alcc_set_close_deadline(fd, 60000) == 0);
        CHECK(alcc_close(fd) == 0);
        printf("%s closed %llu plain %d rtt %llu min %llu\n", info.feedback,
               (unsigned long long)info.gate_closed, info.plain, (unsigned long long)info.rtt_us,
               (unsigned long long)info.min_rtt_us);
        fflush(stdout);
    }
}

static int fetch(const char *address, uint64_t bytes) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(5000)};
    CHECK(inet_pton(AF_INET, address, &at.sin_addr) == 1);
    int fd;
    for (double end = now() + 20;; nap(20)) {
        fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(fd, (void *)&at, sizeof at) == 0) break;
        close(fd);
        CHECK(now() < end);
    }
    char first;
    CHECK(recv(fd, &first, 1, MSG_PEEK) == 1);
    double began = now();
    expect(fd, 1, 0, bytes);
    printf("%.6f\n", now() - began);
    expect_end(fd);
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "serve") == 0) return serve(strtoull(argv[2], NULL, 10));
    if (argc == 4 && strcmp(argv[1], "fetch") == 0) return fetch(argv[2], strtoull(argv[3], NULL, 10));
    return 2;
}
