/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* plugin FILE.so ALGORITHM: an algorithm in C for a connection of our own. Loads FILE.so unless it is "-"; then ALCC_PLUGIN has
 * to have done it. */
#include "common.h"

#define BYTES 300000

int main(int argc, char **argv) {
    CHECK(argc == 3);
    if (strcmp(argv[1], "-") != 0) {
        CHECK(alcc_set_cc(ALCC_DEFAULTS, argv[2]) == -1 && errno == EINVAL);
        CHECK(strstr(alcc_message(), "no algorithm") != NULL);
        CHECK(alcc_load_plugin("/nowhere/x.so") == -1 && errno == EINVAL);
        CHECK(strstr(alcc_message(), "plug-in /nowhere/x.so: ") != NULL);
        CHECK(alcc_load_plugin(NULL) == -1 && errno == EFAULT);
        CHECK(alcc_load_plugin(argv[1]) == 0);
        CHECK(alcc_load_plugin(argv[1]) == 0);
    }
    else /* loaded with the library, before the program could change its root or its environment */
        CHECK(unsetenv("ALCC_PLUGIN") == 0);
    CHECK(alcc_set_cc(ALCC_DEFAULTS, argv[2]) == 0);

    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int listening = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(bind(listening, (struct sockaddr *)&at, len) == 0 && listen(listening, 1) == 0);
    CHECK(getsockname(listening, (struct sockaddr *)&at, &len) == 0);
    int there = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(connect(there, (struct sockaddr *)&at, len) == 0);
    int fd = alcc_accept(listening, NULL, NULL);
    CHECK(fd >= 0);
    struct alcc_info info;
    CHECK(alcc_get_info(fd, &info, sizeof info) == 0);
    CHECK(strcmp(info.cc, argv[2]) == 0 && info.plain == 0);
    CHECK(info.cwnd > 0 && info.cwnd < 1000000);

    /* A child goes on with it. */
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        unsigned char *bytes = filled(1, 0, BYTES);
        CHECK(alcc_send(fd, bytes, BYTES, 0) == BYTES);
        CHECK(alcc_get_info(fd, &info, sizeof info) == 0);
        CHECK(strcmp(info.cc, argv[2]) == 0 && info.plain == 0);
        CHECK(alcc_close(fd) == 0);
        _exit(0);
    }
    CHECK(alcc_close(fd) == 0);
    uint64_t got = 0;
    unsigned char buffer[4096];
    for (ssize_t n; (n = read(there, buffer, sizeof buffer)) > 0;)
        for (ssize_t i = 0; i < n; i++) CHECK(buffer[i] == pattern(1, got++));
    CHECK(got == BYTES);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    return 0;
}
