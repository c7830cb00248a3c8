/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* In-band above TLS of OpenSSL: a session's bytes go through SSL_write and come through SSL_read. */
#include "common.h"
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#define MANY 1500000

static SSL_CTX *server_context(void) {
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = X509_new();
    CHECK(key && certificate);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -60);
    X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
    X509_set_pubkey(certificate, key);
    X509_NAME *name = X509_get_subject_name(certificate);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"test", -1, -1, 0);
    X509_set_issuer_name(certificate, name);
    CHECK(X509_sign(certificate, key, EVP_sha256()) > 0);
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    CHECK(context && SSL_CTX_use_certificate(context, certificate) == 1 && SSL_CTX_use_PrivateKey(context, key) == 1);
    return context;
}

struct end {
    SSL *ssl;
    struct alcc_session *session;
    int fd;
};

/* Carries what is due in both directions, then waits for a while at most. */
static void turn(struct end *e) {
    char bytes[16384];
    ssize_t due;
    while ((due = alcc_session_take(e->session, bytes, sizeof bytes)) > 0)
        /* The socket blocks here, which is soon over: the algorithm keeps it short. */
        CHECK(SSL_write(e->ssl, bytes, (int)due) == due);
    if (SSL_pending(e->ssl) == 0) {
        int64_t timer = alcc_session_timer_us(e->session);
        int ms = timer < 0 || timer > 20000 ? 20 : (int)((timer + 999) / 1000);
        struct pollfd p = {.fd = e->fd, .events = POLLIN};
        if (poll(&p, 1, ms) <= 0) return;
    }
    int n = SSL_read(e->ssl, bytes, sizeof bytes);
    if (n > 0) CHECK(alcc_session_feed(e->session, bytes, (size_t)n) == 0);
    else if (SSL_get_error(e->ssl, n) == SSL_ERROR_ZERO_RETURN)
        /* The peer has everything and has gone. */
        CHECK(alcc_session_feed(e->session, bytes, 0) == 0);
    else CHECK(SSL_get_error(e->ssl, n) == SSL_ERROR_WANT_READ);
}

static void *server(void *arg) {
    struct end e = {.fd = *(int *)arg};
    e.ssl = SSL_new(server_context());
    SSL_set_fd(e.ssl, e.fd);
    CHECK(SSL_accept(e.ssl) == 1);
    e.session = alcc_session_new(ALCC_ACCEPTED, NULL, 0);
    CHECK(e.session);
    uint64_t got = 0;
    double limit = now() + 30;
    for (int over = 0; !over; turn(&e)) {
        CHECK(now() < limit);
        unsigned char block[20000];
        ssize_t n;
        while ((n = alcc_session_read(e.session, block, sizeof block)) > 0)
            for (ssize_t i = 0; i < n; i++, got++) CHECK(block[i] == pattern(3, got));
        over = n == 0;
        CHECK(over || errno == EAGAIN);
    }
    CHECK(got == MANY);
    CHECK(alcc_session_write(e.session, "thanks", 6) == 6);
    while (alcc_session_finish(e.session) == 0) {
        CHECK(now() < limit);
        turn(&e);
    }
    CHECK(alcc_session_finish(e.session) == 1);
    SSL_shutdown(e.ssl);
    alcc_session_free(e.session);
    return NULL;
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    int fds[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, server, &fds[1]) == 0);
    struct end e = {.fd = fds[0]};
    e.ssl = SSL_new(SSL_CTX_new(TLS_client_method()));
    SSL_set_fd(e.ssl, e.fd);
    CHECK(SSL_connect(e.ssl) == 1);
    struct alcc_inband_options options = {.cc = "copa"};
    e.session = alcc_session_new(ALCC_CONNECTED, &options, sizeof options);
    CHECK(e.session);
    uint64_t sent = 0;
    char answer[16];
    size_t got = 0;
    double limit = now() + 30;
    for (int over = 0; !over; turn(&e)) {
        CHECK(now() < limit);
        if (sent < MANY) {
            size_t n = MANY - sent < 30000 ? (size_t)(MANY - sent) : 30000;
            unsigned char *block = filled(3, sent, n);
            ssize_t took = alcc_session_write(e.session, block, n);
            CHECK(took > 0 || errno == EAGAIN);
            if (took > 0) sent += (uint64_t)took;
            free(block);
        } else CHECK(alcc_session_finish(e.session) >= 0);
        ssize_t n = alcc_session_read(e.session, answer + got, sizeof answer - got);
        if (n > 0) got += (size_t)n;
        over = n == 0 && sent == MANY;
    }
    CHECK(got == 6 && memcmp(answer, "thanks", 6) == 0);
    /* The acknowledgement of the peer's end. */
    for (ssize_t due; (due = alcc_session_take(e.session, answer, sizeof answer)) > 0;)
        CHECK(SSL_write(e.ssl, answer, (int)due) == due);
    struct alcc_inband_info info;
    CHECK(alcc_session_get_info(e.session, &info, sizeof info) == 0);
    CHECK(info.sent == MANY && info.in_flight == 0 && info.error == 0);
    printf("%s %s\n", SSL_get_version(e.ssl), SSL_get_cipher(e.ssl));
    fflush(stdout);
    CHECK(pthread_join(thread, NULL) == 0);
    SSL_shutdown(e.ssl);
    alcc_session_free(e.session);
    return 0;
}
