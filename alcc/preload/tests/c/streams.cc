// SPDX-License-Identifier: Apache-2.0 OR MIT
// The streams of C++, which write into those of C as long as they are synchronised, mixed with them on a connection.
#include <fstream>
#include <iostream>
#include <sstream>
extern "C" {
#include "peer.h"
}

static void become(int fd, bool error_too) {
    CHECK(dup2(fd, 1) == 1 && (!error_too || dup2(fd, 2) == 2) && close(fd) == 0);
}

static int cout_and_printf() {
    become(accepted(), false);
    for (int i = 0; i < 2000; i++) {
        printf("A%d\n", i);
        std::cout << "B" << i << '\n';
        puts("C");
        std::cout << 1.5 << "D" << std::endl;
        fputs("E", stdout);
    }
    return 0;
}

static int cout_after_output() {
    std::cout << "before " << std::flush;
    printf("the connection\n");
    fflush(stdout);
    become(accepted(), false);
    std::cout << "B2\n";
    printf("C3\n");
    std::cout << "D4\n";
    return 0;
}

static int cerr_and_clog() {
    become(accepted(), true);
    for (int i = 0; i < 300; i++) {
        std::cerr << "A" << i << '\n';
        fprintf(stderr, "B%d\n", i);
        std::clog << "C" << i << '\n';
        perror("D");
        std::cout << "E\n" << std::flush;
    }
    return 0;
}

static int wcout() {
    setlocale(LC_ALL, "C.UTF-8");
    become(accepted(), false);
    for (int i = 0; i < 300; i++) {
        std::wcout << L"A\u00fc" << i << L'\n';
        wprintf(L"B%d\n", i);
    }
    return 0;
}

// Not synchronised, they write by themselves: calls that the library stands in front of.
static int on_its_own() {
    std::ios::sync_with_stdio(false);
    become(accepted(), false);
    for (int i = 0; i < 20000; i++) std::cout << "line " << i << '\n';
    return 0;
}

static int elsewhere_and_back() {
    int fd = accepted();
    std::ostringstream kept;
    become(fd, false);
    std::cout << "to the connection\n";
    std::streambuf *own = std::cout.rdbuf(kept.rdbuf());
    std::cout << "kept";
    printf("printed\n");
    std::cout.rdbuf(own);
    std::cout << "and " << kept.str() << '\n';
    return 0;
}

static int cin_and_cout() {
    int fd = accepted();
    CHECK(dup2(fd, 0) == 0);
    become(fd, false);
    std::string what;
    std::cin >> what;
    printf("you said ");
    std::cout << what << getchar();
    throw std::runtime_error("left to terminate");
}

const struct peer_case streams_cases[] = {
    {"cout", "gate=maybe connections=none", cout_and_printf},
    {"cout-after-output", "gate=maybe connections=none", cout_after_output},
    {"cerr-and-clog", "gate=maybe connections=none", cerr_and_clog},
    {"wcout", "gate=maybe connections=none", wcout},
    {"cout-on-its-own", "", on_its_own},
    {"cout-elsewhere", "gate=maybe connections=none", elsewhere_and_back},
    {"cin-and-terminate", "client=ask gate=maybe connections=none", cin_and_cout},
    {0, 0, 0},
};
