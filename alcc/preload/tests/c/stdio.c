// SPDX-License-Identifier: Apache-2.0 OR MIT
// Streams of the C library on a connection: every function that writes or reads one, every way in which a connection comes under
// a stream and leaves it again. What they return, errno, the bytes and their order have to be the C library's own.
#include "peer.h"
#include <err.h>
#include <error.h>
#include <locale.h>
#include <netdb.h>
#include <stdio_ext.h>
#include <wchar.h>

// Where to say things when standard output has become a connection.
static void say_elsewhere(void) {
    char number[16];
    snprintf(number, sizeof number, "%d", dup(1));
    setenv("PEER_OUT", number, 1);
}

// A connection as standard output and, if asked for, standard error.
static void become(int fd, int error_too) {
    CHECK(dup2(fd, 1) == 1 && (!error_too || dup2(fd, 2) == 2) && close(fd) == 0);
}

struct row {
    const char *name;
    long (*run)(FILE *f);
};

// Runs a table; what each function returned, and what the stream says then.
static void table(const struct row *rows, FILE *f) {
    for (; rows->name; rows++) {
        errno = 0;
        long got = rows->run(f);
        int error = errno;
        say("%s: %ld, %s; error %d end %d", rows->name, got, got < 0 ? name_of(error) : "-", ferror(f), feof(f));
    }
}

static int vf(FILE *f, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = vfprintf(f, format, args);
    va_end(args);
    return n;
}
static int v(const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = vprintf(format, args);
    va_end(args);
    return n;
}
static int vfw(FILE *f, const wchar_t *format, ...) {
    va_list args;
    va_start(args, format);
    int n = vfwprintf(f, format, args);
    va_end(args);
    return n;
}
static int vw(const wchar_t *format, ...) {
    va_list args;
    va_start(args, format);
    int n = vwprintf(format, args);
    va_end(args);
    return n;
}

#define ROW(name, expression) \
    static long name(FILE *f) { return (long)(expression); }
ROW(f_fprintf, fprintf(f, "<%s %d %5.2f>", "fprintf", 7, 1.5))
ROW(f_positions, fprintf(f, "<%2$s %1$d>", 3, "positions"))
ROW(f_wider_than_the_buffer, fprintf(f, "<%*d>", 20000, 5))
ROW(f_wide_argument, fprintf(f, "<%ls>", L"gr\u00fc\u00df"))
ROW(f_vfprintf, vf(f, "<%s>", "vfprintf"))
ROW(f_fputc, fputc('1', f))
ROW(f_putc, putc('2', f))
ROW(f_fputc_unlocked, fputc_unlocked('3', f))
ROW(f_putc_unlocked, putc_unlocked('4', f))
ROW(f_fputs, fputs("<fputs>\n", f))
ROW(f_fputs_unlocked, fputs_unlocked("<fputs_unlocked>\n", f))
ROW(f_putw, putw(0x41424344, f))
ROW(f_fwrite, fwrite(data, 3, 33, f))
ROW(f_fwrite_nothing, fwrite(data, 0, 33, f))
ROW(f_fwrite_unlocked, fwrite_unlocked(data, 1, 100, f))
ROW(f_fwrite_much, fwrite(data, 1, 100001, f))
ROW(f_fflush, fflush(f))
ROW(f_fflush_unlocked, fflush_unlocked(f))
ROW(f_fflush_all, fflush(NULL))
ROW(f_flushlbf, (_flushlbf(), 0))
ROW(f_pending, (fputs("pending", f), __fpending(f)))
ROW(f_buffer, __fbufsize(f) > 0)
ROW(f_modes, __freadable(f) | __fwritable(f) << 1 | __flbf(f) << 2 | __fwriting(f) << 3)
ROW(f_wide, fwide(f, 0))
ROW(f_fileno, fileno(f) >= 0)
ROW(f_is_the_connection, ({ struct stat s; fstat(fileno(f), &s) == 0 && S_ISSOCK(s.st_mode); }))
ROW(f_ftell, ftell(f))
ROW(f_fseek, fseek(f, 0, SEEK_END))
ROW(f_fseeko, fseeko(f, 10, SEEK_SET))
ROW(f_rewind, (rewind(f), 0))
ROW(f_fgetpos, ({ fpos_t at; fgetpos(f, &at); }))
ROW(f_lock, ({ flockfile(f); int n = ftrylockfile(f); fputs("<locked>", f); funlockfile(f); funlockfile(f); n; }))
ROW(f_many_small, ({ long n = 0; for (int i = 0; i < 5000; i++) n += fprintf(f, "%d,", i); n; }))
ROW(f_many_single, ({ long n = 0; for (int i = 0; i < 9000; i++) n += putc_unlocked('a' + i % 26, f); n; }))

static const struct row narrow[] = {
    {"wide", f_wide}, {"buffer", f_buffer}, {"modes", f_modes}, {"fprintf", f_fprintf}, {"buffer", f_buffer},
    {"positions", f_positions}, {"wide argument", f_wide_argument}, {"vfprintf", f_vfprintf}, {"fputc", f_fputc}, {"putc", f_putc},
    {"fputc_unlocked", f_fputc_unlocked}, {"putc_unlocked", f_putc_unlocked}, {"fputs", f_fputs},
    {"fputs_unlocked", f_fputs_unlocked}, {"putw", f_putw}, {"fwrite", f_fwrite}, {"fwrite nothing", f_fwrite_nothing},
    {"fwrite_unlocked", f_fwrite_unlocked}, {"pending", f_pending}, {"fflush", f_fflush}, {"pending", f_pending},
    {"fflush_unlocked", f_fflush_unlocked}, {"wider than the buffer", f_wider_than_the_buffer}, {"flushlbf", f_flushlbf},
    {"fwrite much", f_fwrite_much}, {"fputs", f_fputs}, {"fflush(NULL)", f_fflush_all}, {"modes", f_modes},
    {"fileno", f_fileno}, {"is the connection", f_is_the_connection}, {"ftell", f_ftell}, {"fputs", f_fputs}, {"fseek", f_fseek},
    {"fseeko", f_fseeko}, {"fgetpos", f_fgetpos}, {"rewind", f_rewind}, {"lock", f_lock}, {"many small", f_many_small},
    {"many single", f_many_single}, {"wide", f_wide}, {0},
};

ROW(w_fputws, fputws(L"<fputws gr\u00fc\u00df>\n", f))
ROW(w_fputws_unlocked, fputws_unlocked(L"<fputws_unlocked \u20ac>\n", f))
ROW(w_fwprintf, fwprintf(f, L"<%d %ls %s>", 7, L"\u00e4", "x"))
ROW(w_vfwprintf, vfw(f, L"<%d %ls>", 8, L"\u00f6"))
ROW(w_fputwc, fputwc(L'\u00fc', f))
ROW(w_putwc, putwc(L'\u20ac', f))
ROW(w_fputwc_unlocked, fputwc_unlocked(L'3', f))
ROW(w_putwc_unlocked, putwc_unlocked(L'4', f))
ROW(w_mixed_up, fputs("narrow on wide", f))
ROW(w_not_to_be_written, fputwc((wchar_t)0x7fffffff, f) == WEOF ? -1 : 1)
ROW(w_many, ({ long n = 0; for (int i = 0; i < 4000; i++) n += fwprintf(f, L"%d\u20ac,", i); n; }))
ROW(w_clearerr, (clearerr(f), 0))
ROW(w_fwide, fwide(f, 1))

static const struct row wide[] = {
    {"fwide", w_fwide}, {"fputws", w_fputws}, {"fputws_unlocked", w_fputws_unlocked}, {"fwprintf", w_fwprintf},
    {"vfwprintf", w_vfwprintf}, {"fputwc", w_fputwc}, {"putwc", w_putwc}, {"fputwc_unlocked", w_fputwc_unlocked},
    {"putwc_unlocked", w_putwc_unlocked}, {"fflush", f_fflush}, {"many", w_many}, {"mixed up", w_mixed_up},
    {"not to be written", w_not_to_be_written}, {"clearerr", w_clearerr}, {"fputws", w_fputws}, {"ftell", f_ftell},
    {"fflush", f_fflush}, {"fwide", f_wide}, {0},
};

ROW(s_printf, printf("<%s %d>", "printf", 7))
ROW(s_vprintf, v("<%s>\n", "vprintf"))
ROW(s_puts, puts("<puts>"))
ROW(s_putchar, putchar('c'))
ROW(s_putchar_unlocked, putchar_unlocked('d'))
ROW(s_fflush, fflush(stdout))
static const struct row standard[] = {
    {"printf", s_printf}, {"vprintf", s_vprintf}, {"puts", s_puts}, {"putchar", s_putchar}, {"putchar_unlocked", s_putchar_unlocked},
    {"fflush", s_fflush}, {0},
};

ROW(s_wprintf, wprintf(L"<%ls %d>", L"\u00fc", 7))
ROW(s_vwprintf, vw(L"<%d>", 9))
ROW(s_putwchar, putwchar(L'\u20ac'))
ROW(s_putwchar_unlocked, putwchar_unlocked(L'x'))
static const struct row standard_wide[] = {
    {"wprintf", s_wprintf}, {"vwprintf", s_vwprintf}, {"putwchar", s_putwchar}, {"putwchar_unlocked", s_putwchar_unlocked},
    {"fflush", s_fflush}, {0},
};

// To standard error, without a program's name, which is a path.
ROW(e_perror, (errno = ENOENT, perror("perror"), 0))
ROW(e_psignal, (psignal(SIGTERM, "psignal"), 0))
ROW(e_psiginfo, ({ siginfo_t info = {.si_signo = SIGTERM, .si_code = SI_USER, .si_pid = 1}; psiginfo(&info, "psiginfo"); 0; }))
ROW(e_error, (error(0, ENOENT, "error %d", 5), 0))
ROW(e_error_at_line, (error_at_line(0, 0, "file", 7, "error_at_line"), 0))
ROW(e_warn, (errno = EACCES, warn("warn %d", 1), 0))
ROW(e_warnx, (warnx("warnx %d", 1), 0))
ROW(e_herror, (h_errno = HOST_NOT_FOUND, herror("herror"), 0))
ROW(e_fprintf, fprintf(stderr, "<%d>", 3))
ROW(e_fputs, fputs("fputs", stderr))
static const struct row errors[] = {
    {"perror", e_perror}, {"psignal", e_psignal}, {"psiginfo", e_psiginfo}, {"error", e_error}, {"error_at_line", e_error_at_line},
    {"warn", e_warn}, {"warnx", e_warnx}, {"herror", e_herror}, {"fprintf", e_fprintf}, {"fputs", e_fputs}, {0},
};

static int by_table(const char *mode, const struct row *rows) {
    setlocale(LC_ALL, "C.UTF-8");
    FILE *f = fdopen(accepted(), mode);
    CHECK(f);
    table(rows, f);
    return fclose(f);
}
static int fdopen_w(void) { return by_table("w", narrow); }
static int fdopen_a(void) { return by_table("a", narrow); }
static int fdopen_r_plus(void) { return by_table("r+", narrow); }
static int fdopen_w_plus(void) { return by_table("w+e", narrow); }
static int fdopen_wide(void) { return by_table("w", wide); }
static int fdopen_ccs(void) { return by_table("w,ccs=UTF-8", wide); }

static int fdopen_refused(void) {
    int fd = accepted();
    errno = 0;
    say("%d %s", fdopen(fd, "x") != NULL, name_of(errno));
    say("%d %s", fdopen(999, "w") != NULL, name_of(errno));
    FILE *f = fdopen(fd, "r");
    CHECK(f);
    say("%d %s", fputs("nothing", f), name_of(errno));
    return fclose(f);
}

static int as_stdout(void) {
    setlocale(LC_ALL, "C.UTF-8");
    int fd = accepted();
    say_elsewhere();
    become(fd, 0);
    table(standard, stdout);
    table(narrow, stdout);
    for (int i = 0; i < 5000; i++) printf("line %d\n", i);
    return 0;
}
static int as_stdout_wide(void) {
    setlocale(LC_ALL, "C.UTF-8");
    int fd = accepted();
    say_elsewhere();
    become(fd, 0);
    table(standard_wide, stdout);
    table(wide, stdout);
    return 0;
}
static int as_stderr(void) {
    int fd = accepted();
    say_elsewhere();
    program_invocation_name = program_invocation_short_name = "peer";
    become(fd, 1);
    table(errors, stderr);
    table(narrow, stderr);
    return 0;
}

static void vd(int fd, const char *format, ...) {
    va_list args;
    va_start(args, format);
    say("vdprintf: %d", vdprintf(fd, format, args));
    va_end(args);
}
static int by_dprintf(void) {
    int fd = accepted();
    setlocale(LC_ALL, "C.UTF-8");
    for (int i = 0; i < 10000; i++) CHECK(dprintf(fd, "line %d of dprintf\n", i) > 0);
    vd(fd, "<%s %ls>", "vdprintf", L"\u00fc");
    say("dprintf: %d", dprintf(fd, "<%*d>", 100000, 5));
    // What comes before a character that cannot be written is written.
    wchar_t bad[] = {L'a', 0x7fffffff, 0};
    say("dprintf: %d %s", dprintf(fd, "before %ls after", bad), name_of(errno));
    say("dprintf: %d %s", dprintf(999, "x"), name_of(errno));
    return close(fd);
}

// setvbuf before the first byte.
static int buffered(char *buffer, int mode, size_t size) {
    FILE *f = fdopen(accepted(), "w");
    CHECK(f);
    say("%d", setvbuf(f, buffer, mode, size));
    for (int i = 0; i < 3000; i++) CHECK(fprintf(f, "line %d\n", i) > 0 && fputc('.', f) == '.');
    say("pending %zu of %zu", __fpending(f), __fbufsize(f));
    CHECK(fwrite(data, 1, 50000, f) == 50000);
    return fclose(f);
}
static int fully_buffered(void) { static char mine[777]; return buffered(mine, _IOFBF, sizeof mine); }
static int line_buffered(void) { return buffered(NULL, _IOLBF, 0); }
static int unbuffered(void) { return buffered(NULL, _IONBF, 0); }
static int setbuffers(void) {
    int fd = accepted();
    FILE *a = fdopen(fd, "w"), *b = fdopen(dup(fd), "w"), *c = fdopen(dup(fd), "w");
    static char mine[100], his[BUFSIZ];
    setbuffer(a, mine, sizeof mine);
    setlinebuf(b);
    setbuf(c, his);
    fputs("a\n", a);
    fputs("b\n", b);
    fputs("c\n", c);
    say("%zu %zu %zu", __fpending(a), __fpending(b), __fpending(c));
    return fclose(c) | fclose(b) | fclose(a);
}

static int fwrite_slowly_read(void) {
    FILE *f = fdopen(accepted(), "w");
    CHECK(f && fwrite(data, 1, 11, f) == 11);
    expect(fwrite(data + 11, 1, BIG - 11, f), BIG - 11, "fwrite");
    return fclose(f);
}

// Streams and calls on one connection; the connection is under control as far as the calls go.
static int with_calls(void) {
    int fd = accepted();
    FILE *f = fdopen(fd, "w");
    for (int i = 0; i < 20; i++) {
        CHECK(fprintf(f, "header %d\r\n", i) > 0 && fflush(f) == 0);
        put(fd, 0, 10000);
        CHECK(fwrite(data, 1, 10000, f) == 10000 && fflush(f) == 0);
    }
    return fclose(f);
}
static int calls_first(void) {
    int fd = accepted();
    put(fd, 0, 50000);
    FILE *f = fdopen(dup(fd), "w");
    CHECK(f && fwrite(data + 50000, 1, 50000, f) == 50000 && fclose(f) == 0);
    put(fd, 100000, TOTAL);
    return close(fd);
}

// A connection comes under standard output before and after something has been printed.
static int printed_before(void) {
    int fd = accepted();
    say_elsewhere();
    printf("printed before, ");
    become(fd, 0);
    printf("and after\n");
    return 0;
}
static int printed_and_flushed_before(void) {
    int fd = accepted(), before = dup(1);
    printf("to the old place\n");
    fflush(stdout);
    become(fd, 0);
    printf("to the new place\n");
    CHECK(dup2(before, 1) == 1);
    printf("buffered there, written here\n");
    return 0;
}
static int back_and_forth(void) {
    int fd = accepted(), before = dup(1);
    for (int i = 0; i < 10; i++) {
        CHECK(dup2(fd, 1) == 1);
        printf("to the connection %d\n", i);
        fflush(stdout);
        CHECK(dup2(before, 1) == 1);
        printf("home %d\n", i);
        fflush(stdout);
    }
    return close(fd);
}

// Whoever kept the pointer writes into the same buffer.
static FILE **kept(void) { static FILE *f; return &f; }
static int saved_pointer(void) {
    *kept() = stdout;
    int fd = accepted();
    become(fd, 0);
    for (int i = 0; i < 1000; i++) {
        printf("A%d ", i);
        fprintf(*kept(), "B%d ", i);
        fputs("C ", stdout);
        fputs("D ", *kept());
    }
    return 0;
}
static int saved_stderr(void) {
    FILE *f = stderr;
    int fd = accepted();
    CHECK(setvbuf(stderr, NULL, _IOFBF, 1000) == 0);
    say_elsewhere();
    become(fd, 1);
    for (int i = 0; i < 1000; i++) {
        fprintf(stderr, "A%d ", i);
        fprintf(f, "B%d ", i);
    }
    say("the same %d", f == stderr);
    return 0;
}

static int freopen_to_null(void) {
    int fd = accepted();
    say_elsewhere();
    become(dup(fd), 1);
    printf("printed before ");
    FILE *f = freopen("/dev/null", "w", stdout), *g = freopen("/dev/null", "w", stderr);
    say("%d %d, the same %d %d, numbers %d %d", !!f, !!g, f == stdout, g == stderr, fileno(stdout), fileno(stderr));
    printf("lost");
    fprintf(stderr, "lost");
    put(fd, 0, 100);
    return close(fd);
}
static int freopen_to_a_file(void) {
    FILE *f = fdopen(accepted(), "w");
    CHECK(f && fputs("to the connection", f) >= 0);
    FILE *g = freopen("reopened", "w+", f);
    CHECK(g == f);
    fputs("to the file", f);
    rewind(f);
    char line[100];
    CHECK(fgets(line, sizeof line, f));
    say("%s", line);
    return fclose(f);
}
static int freopen_in_place(void) {
    FILE *f = fdopen(accepted(), "w");
    CHECK(f && fputs("before", f) >= 0);
    errno = 0;
    FILE *g = freopen(NULL, "a", f);
    say("%d %s", !!g, g ? "-" : name_of(errno));
    return 0;
}
static int freopen_wide(void) {
    setlocale(LC_ALL, "C.UTF-8");
    int fd = accepted();
    say_elsewhere();
    become(fd, 0);
    wprintf(L"w\u00fc ");
    FILE *f = freopen("/dev/null", "w", stdout);
    say("%d wide %d", !!f, fwide(stdout, 0));
    return 0;
}

// Standard streams are the C library's own: what uses them after they were closed is forgiven.
static int closed_standard_streams(void) {
    int fd = accepted();
    say_elsewhere();
    become(dup(fd), 1);
    printf("hello ");
    fclose(stdout);
    fclose(stderr);
    fclose(stdin);
    char *x = malloc(4096);
    memset(x, 'A', 4096);
    for (int i = 0; i < 50; i++) memset(malloc(100 + i * 20), 'B', 100 + i * 20);
    say("%d", printf("lost\n"));
    say("%d", fflush(stdout));
    fprintf(stderr, "lost");
    put(fd, 0, 3);
    return 0;
}
static int reopened(void) {
    int fd = accepted();
    for (int i = 0; i < 20; i++) {
        FILE *f = fdopen(dup(fd), "w");
        CHECK(f && fprintf(f, "stream %d\n", i) > 0 && fclose(f) == 0);
    }
    return close(fd);
}
static int all_closed(void) {
    int fd = accepted();
    FILE *f = fdopen(fd, "w");
    fputs("all", f);
    say("%d", fcloseall());
    fputs(" and after", f);
    return 0;
}
static int left_to_exit(void) {
    FILE *f = fdopen(accepted(), "w");
    CHECK(f && fputs("left to exit", f) >= 0);
    exit(7);
}
static int left_to__exit(void) {
    FILE *f = fdopen(accepted(), "w");
    CHECK(f && fputs("lost", f) >= 0);
    _exit(8);
}
static int left_to_abort(void) {
    FILE *f = fdopen(accepted(), "w");
    struct rlimit none = {0, 0};
    CHECK(f && fputs("lost", f) >= 0 && setrlimit(RLIMIT_CORE, &none) == 0);
    abort();
}
static int left_to_err(void) {
    FILE *f = fdopen(accepted(), "w");
    CHECK(f && fputs("left to err", f) >= 0);
    program_invocation_name = program_invocation_short_name = "peer";
    errx(9, "ends");
}

// Both write what was in the buffer.
static int forked(void) {
    FILE *f = fdopen(accepted(), "w");
    fputs("twice ", f);
    pid_t child = fork();
    if (child == 0) {
        fputs("child ", f);
        exit(0);
    }
    reap(child);
    fputs("parent", f);
    return fclose(f);
}
static int forked_to_print(void) {
    int fd = accepted();
    for (int i = 0; i < 3; i++) {
        pid_t child = fork();
        if (child == 0) {
            become(fd, 1);
            for (int n = 0; n < 500; n++) printf("child %d line %d\n", i, n);
            fprintf(stderr, "to the client, too\n");
            exit(0);
        }
        reap(child);
    }
    return close(fd);
}
static int run_by_a_shell(void) {
    int fd = accepted();
    become(fd, 0);
    printf("before ");
    fflush(stdout);
    say_elsewhere();
    int status = system("echo from a shell; i=0; while [ $i -lt 300 ]; do echo line $i; i=$((i+1)); done; printf end");
    printf(" after %d", status);
    return 0;
}

static void *prints(void *f) {
    for (int i = 0; i < 400; i++) {
        flockfile(f);
        for (int n = 0; n < 5; n++) putc_unlocked('a' + n, f);
        fprintf(f, " %d", i);
        putc_unlocked('\n', f);
        funlockfile(f);
        fprintf(f, "a whole line\n");
    }
    return NULL;
}
static int in_threads(void) {
    FILE *f = fdopen(accepted(), "w");
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) CHECK(pthread_create(&threads[i], NULL, prints, f) == 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    return fclose(f);
}

static int both_ways(void) {
    int fd = accepted();
    FILE *in = fdopen(fd, "r"), *out = fdopen(dup(fd), "w");
    char line[100];
    CHECK(in && out && fgets(line, sizeof line, in));
    line[strcspn(line, "\n")] = 0;
    say("asked for %s", line);
    for (int i = 0; i < 10000; i++) CHECK(fprintf(out, "answer %d\n", i) > 0);
    CHECK(fclose(out) == 0);
    return fclose(in);
}
static int for_both(void) {
    FILE *f = fdopen(accepted(), "r+");
    char what[100] = "", *more = NULL;
    size_t size = 0;
    CHECK(f);
    say("%d %s", fscanf(f, "%99s", what), what);
    say("%zd %s", getline(&more, &size, f), more);
    for (int i = 0; i < 10000; i++) CHECK(fprintf(f, "answer %d\n", i) > 0);
    say("%d %d", ferror(f), feof(f));
    return fclose(f);
}
static int for_both_wide(void) {
    setlocale(LC_ALL, "C.UTF-8");
    FILE *f = fdopen(accepted(), "r+");
    wchar_t what[100] = L"";
    CHECK(f);
    say("%d", fwscanf(f, L"%99ls", what));
    say("%ls %d", what, fwprintf(f, L"\u20ac %ls", what));
    return fclose(f);
}
static int as_all_three(void) {
    int fd = accepted();
    say_elsewhere();
    CHECK(dup2(fd, 0) == 0);
    become(fd, 1);
    char what[100] = "";
    say("%d", scanf("%99s", what));
    say("%d %d", getchar(), ungetc('u', stdin));
    printf("you said %s %c\n", what, getchar());
    fprintf(stderr, "error\n");
    return 0;
}
// As inetd starts servers.
static int started_as_all_three(void) {
    int fd = accepted();
    CHECK(dup2(fd, 0) == 0);
    become(fd, 1);
    execl("/proc/self/exe", "peer", "--prints", (char *)0);
    return 3;
}

// The other end resets: the stream says so, as long as nobody clears it.
static int after_a_reset(void) {
    signal(SIGPIPE, SIG_IGN);
    FILE *f = fdopen(accepted(), "w");
    CHECK(f);
    while (fwrite(data, 1, 30000, f) == 30000 && fflush(f) == 0) {}
    int error = errno;
    say("%d", error == ECONNRESET || error == EPIPE);
    say("error %d end %d", ferror(f), feof(f));
    nap(0.05);
    say("%d %s", fputc('x', f), "-");
    say("%d %s", fflush(f), name_of(errno));
    clearerr(f);
    say("error %d", ferror(f));
    say("%d %s", fprintf(f, "more"), "-");
    say("%d %s", fclose(f), name_of(errno));
    return 0;
}
static int killed_by_printing(void) {
    int fd = accepted();
    say_elsewhere();
    become(fd, 0);
    for (;;) fwrite(data, 1, 30000, stdout);
}

// Streams that are none of a descriptor.
static int other_streams(void) {
    int fd = accepted();
    char *text;
    size_t size;
    FILE *memory = open_memstream(&text, &size);
    CHECK(memory && fprintf(memory, "in memory %d", 1) > 0 && fclose(memory) == 0);
    FILE *fixed = fmemopen(NULL, 100, "w+");
    CHECK(fixed && fputs("fixed", fixed) >= 0 && fclose(fixed) == 0);
    FILE *from = popen("echo from a pipe", "r");
    char line[100];
    CHECK(from && fgets(line, sizeof line, from));
    FILE *to = popen("cat >into", "w");
    CHECK(to && fputs("into a pipe", to) >= 0);
    say("%s %d %d", text, pclose(from), pclose(to));
    put(fd, 0, TOTAL);
    return close(fd);
}
// The program's own functions under a stream are ordinary calls.
static ssize_t writes(void *cookie, const char *from, size_t n) { return write((intptr_t)cookie, from, n); }
static int closes(void *cookie) { return close((intptr_t)cookie); }
static int by_cookie(void) {
    cookie_io_functions_t calls = {.write = writes, .close = closes};
    FILE *f = fopencookie((void *)(intptr_t)accepted(), "w", calls);
    CHECK(f && fwrite(data, 1, TOTAL, f) == TOTAL);
    return fclose(f);
}

// What a program does that was started with a connection as its standard streams.
int prints_to_standard_streams(void) {
    char what[100] = "";
    if (scanf("%99s", what) != 1) return 3;
    printf("you said %s, ", what);
    fprintf(stdout, "again %s\n", what);
    for (int i = 0; i < 3000; i++) printf("line %d\n", i);
    fflush(stdout);
    fprintf(stderr, "error\n");
    printf("left to exit\n");
    return 0;
}

// Streams only: nothing of it is under control, and it is not said to be.
#define PLAIN "gate=maybe connections=none"
const struct peer_case stdio_cases[] = {
    {"fdopen-w", PLAIN, fdopen_w},
    {"fdopen-a", PLAIN, fdopen_a},
    {"fdopen-r+", PLAIN, fdopen_r_plus},
    {"fdopen-w+", PLAIN, fdopen_w_plus},
    {"fdopen-wide", PLAIN, fdopen_wide},
    {"fdopen-ccs", PLAIN, fdopen_ccs},
    {"fdopen-refused", PLAIN, fdopen_refused},
    {"stdout", PLAIN, as_stdout},
    {"stdout-wide", PLAIN, as_stdout_wide},
    {"stderr", PLAIN, as_stderr},
    {"dprintf", PLAIN, by_dprintf},
    {"setvbuf-full", PLAIN, fully_buffered},
    {"setvbuf-line", PLAIN, line_buffered},
    {"setvbuf-none", PLAIN, unbuffered},
    {"setbuffers", PLAIN, setbuffers},
    {"fwrite-slowly-read", "client=late sndbuf=20000 " PLAIN, fwrite_slowly_read},
    {"stdio-with-calls", "", with_calls},
    {"stdio-after-calls", "", calls_first},
    {"printed-before", PLAIN, printed_before},
    {"printed-and-flushed-before", PLAIN, printed_and_flushed_before},
    {"stdout-back-and-forth", PLAIN, back_and_forth},
    {"saved-stdout", PLAIN, saved_pointer},
    {"saved-stderr", PLAIN, saved_stderr},
    {"freopen-to-null", "gate=maybe", freopen_to_null},
    {"freopen-to-a-file", PLAIN, freopen_to_a_file},
    {"freopen-in-place", PLAIN, freopen_in_place},
    {"freopen-wide", PLAIN, freopen_wide},
    {"closed-standard-streams", "gate=maybe", closed_standard_streams},
    {"fdopen-again", PLAIN, reopened},
    {"fcloseall", PLAIN, all_closed},
    {"left-to-exit", PLAIN, left_to_exit},
    {"left-to-_exit", PLAIN, left_to__exit},
    {"left-to-abort", PLAIN, left_to_abort},
    {"left-to-err", PLAIN, left_to_err},
    {"forked-with-a-full-buffer", PLAIN, forked},
    {"forked-to-print", PLAIN, forked_to_print},
    {"printed-by-a-shell", "gate=maybe connections=maybe", run_by_a_shell},
    {"printed-by-threads", "client=lines " PLAIN, in_threads},
    {"stdio-both-ways", "client=ask " PLAIN, both_ways},
    {"stdio-for-both", "client=ask " PLAIN, for_both},
    {"stdio-for-both-wide", "client=ask " PLAIN, for_both_wide},
    {"stdin-stdout-stderr", "client=ask " PLAIN, as_all_three},
    {"started-as-by-inetd", "client=ask " PLAIN, started_as_all_three},
    {"stdio-after-a-reset", "client=reset " PLAIN, after_a_reset},
    {"killed-by-printing", "client=reset " PLAIN, killed_by_printing},
    {"streams-of-no-descriptor", "", other_streams},
    {"fopencookie", "", by_cookie},
    {0},
};
