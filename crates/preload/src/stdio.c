/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Streams of the C library on a socket. The C library writes them by calls of its own that nobody can stand in front of, so a
 * stream on a controlled socket is one whose reading and writing is ours: by read() and write(), which are interposed.
 * In C, because a stream that knows its descriptor needs the struct, and dprintf() takes variable arguments. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <unistd.h>

static int descriptor(void *cookie) { return (int)(intptr_t)cookie; }

static ssize_t cookie_read(void *cookie, char *buf, size_t len) { return read(descriptor(cookie), buf, len); }

/* All of it, as the C library does it; fewer means an error. */
static ssize_t cookie_write(void *cookie, const char *buf, size_t len) {
    size_t done = 0;
    while (done < len) {
        ssize_t n = write(descriptor(cookie), buf + done, len - done);
        if (n < 0)
            break;
        done += (size_t)n;
    }
    return (ssize_t)done;
}

static int cookie_close(void *cookie) { return close(descriptor(cookie)); }

/* fdopen() for a socket. */
FILE *alcc_stream(int fd, const char *mode) {
    cookie_io_functions_t calls = {.read = cookie_read, .write = cookie_write, .close = cookie_close};
    FILE *stream = fopencookie((void *)(intptr_t)fd, mode, calls);
    if (stream)
        stream->_fileno = fd; /* fileno() is asked of streams */
    return stream;
}

/* Descriptor 1 or 2 has become a socket: inetd starts servers like that, and others do it to themselves. */
void alcc_standard_stream(int fd) {
    FILE **standard = fd == STDOUT_FILENO ? &stdout : &stderr;
    FILE *old = *standard;
    if (!old || fileno(old) != fd)
        return;
    int saved = errno;
    /* What waits in the old buffer belongs before everything that follows. */
    if (__fpending(old) > 0)
        fflush(old);
    FILE *new = alcc_stream(fd, "w");
    if (new) {
        if (fd == STDERR_FILENO)
            setvbuf(new, NULL, _IONBF, 0);
        else if (__flbf(old))
            setvbuf(new, NULL, _IOLBF, BUFSIZ);
        else if (__fbufsize(old) == 1)
            setvbuf(new, NULL, _IONBF, 0);
        *standard = new;
    }
    errno = saved;
}

int alcc_vdprintf(int fd, const char *format, va_list args) {
    char *text;
    int len = vasprintf(&text, format, args);
    if (len < 0)
        return len;
    ssize_t n = cookie_write((void *)(intptr_t)fd, text, (size_t)len);
    int saved = errno;
    free(text);
    errno = saved;
    return n == len ? len : -1;
}

int alcc_dprintf(int fd, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = alcc_vdprintf(fd, format, args);
    va_end(args);
    return n;
}

/* As fortified programs call it; the flag asks for checks that vasprintf leaves out. */
int alcc_dprintf_chk(int fd, int flag, const char *format, ...) {
    (void)flag;
    va_list args;
    va_start(args, format);
    int n = alcc_vdprintf(fd, format, args);
    va_end(args);
    return n;
}
