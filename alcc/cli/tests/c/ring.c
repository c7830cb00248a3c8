// SPDX-License-Identifier: Apache-2.0 OR MIT
// A library that asks for a ring as libuv does (with LIBUV, also for what libuv asks the environment), and a program that loads one
// for itself alone and says what came of it.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/syscall.h>

#ifdef PROGRAM
int main(int argc, char **argv) {
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    int (*ring)(void) = library ? (int (*)(void))dlsym(library, "ring") : NULL;
    if (!ring) return 1;
    int why = ring();
    puts(why ? strerrorname_np(why) : "a ring");
    return 0;
}
#else
int ring(void) {
    char parameters[120] = {0};
#ifdef LIBUV
    if (getenv("UV_USE_IO_URING") && getenv("UV_NEVER")) return 0;
#endif
    long fd = syscall(SYS_io_uring_setup, 256, parameters);
    return fd < 0 ? errno : 0;
}
#endif
