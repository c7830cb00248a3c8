/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* secure: prints AT_SECURE, the algorithm of a first connection, and whether a plug-in of the environment is there. */
#include "common.h"
#include <sys/auxv.h>

int main(void) {
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
    printf("%lu %s %s\n", getauxval(AT_SECURE), info.cc, alcc_set_cc(ALCC_DEFAULTS, "aimd") == 0 ? "aimd" : "none");
    CHECK(alcc_close(fd) == 0);
    return 0;
}
