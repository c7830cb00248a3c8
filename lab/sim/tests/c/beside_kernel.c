// SPDX-License-Identifier: Apache-2.0 OR MIT
// The parts of scripts/beside-kernel that run in the emulated machine, one in each network namespace:
//   beside_kernel sink FLOWS SECONDS              takes FLOWS connections; says how many bytes came in SECONDS
//   beside_kernel source ADDRESS FLOWS SECONDS    opens one every 50 ms and fills it; says how much was sent again.
//                                                 While it runs: time, window, threshold and state of the first
//   beside_kernel meter IN OUT                    says how long packets stay between two devices; ends with SIGTERM
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <linux/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { PORT = 5001, APART_MS = 50, MOST = 64, SMALL = 200 };
static char buffer[1 << 18];

static void fail(const char *what) { perror(what); exit(1); }

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static int wait_ms(int64_t until) {
    int64_t remaining = until - now_ns();
    return remaining <= 0 ? 0 : (int)((remaining + 999999) / 1000000);
}

static int sink(int flows, int seconds) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    int on = 1, listener = socket(AF_INET, SOCK_STREAM, 0), open = 0;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&at, sizeof at) || listen(listener, 128)) fail("listen");
    struct pollfd fds[MOST + 1] = {{.fd = listener, .events = POLLIN}};
    int64_t end = 0;
    uint64_t bytes = 0;
    while (!end || now_ns() < end) {
        poll(fds, open + 1, end ? wait_ms(end) : -1);
        if (end && now_ns() >= end) break;
        for (int i = 1; i <= open; i++)
            if (fds[i].revents) {
                ssize_t n = recv(fds[i].fd, buffer, sizeof buffer, MSG_DONTWAIT);
                if (n > 0) bytes += n;
            }
        if (fds[0].revents && open < flows) {
            if (!end) end = now_ns() + seconds * 1000000000LL;
            fds[++open] = (struct pollfd){.fd = accept(listener, NULL, NULL), .events = POLLIN};
        }
    }
    printf("bytes %llu\n", (unsigned long long)bytes);
    return 0;
}

static struct tcp_info state(int fd) {
    struct tcp_info info;
    socklen_t size = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size)) fail("TCP_INFO");
    return info;
}

static int source(const char *address, int flows, int seconds) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    inet_pton(AF_INET, address, &to.sin_addr);
    struct pollfd fds[MOST];
    int64_t start = now_ns(), end = start + seconds * 1000000000LL;
    int open = 0, told = 0;
    while (now_ns() < end) {
        if (open && now_ns() >= start + told * 1000000000LL / 4) {
            struct tcp_info info = state(fds[0].fd);
            fprintf(stderr, "%.2f %u %u %d, ", told++ / 4.0, info.tcpi_snd_cwnd, info.tcpi_snd_ssthresh, info.tcpi_ca_state);
        }
        int64_t next = open < flows ? start + open * APART_MS * 1000000LL : end;
        if (open < flows && now_ns() >= next) {
            int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
            if (connect(fd, (struct sockaddr *)&to, sizeof to) && errno != EINPROGRESS) fail("connect");
            fds[open++] = (struct pollfd){.fd = fd, .events = POLLOUT};
            continue;
        }
        poll(fds, open, wait_ms(next));
        for (int i = 0; i < open; i++)
            if (fds[i].revents & POLLOUT) send(fds[i].fd, buffer, sizeof buffer, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    unsigned again = 0, window = 0;
    for (int i = 0; i < open; i++) {
        struct tcp_info info = state(fds[i].fd);
        again += info.tcpi_total_retrans;
        window += info.tcpi_snd_cwnd;
    }
    printf("resent %u cwnd %u\n", again, window);
    return 0;
}

static volatile sig_atomic_t ended;
static void on_term(int number) { (void)number; ended = 1; }

static int listen_to(const char *device) {
    int on = 1, size = 64 << 20, fd = socket(AF_PACKET, SOCK_DGRAM | SOCK_NONBLOCK, htons(ETH_P_ALL));
    struct sockaddr_ll at = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = (int)if_nametoindex(device)};
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at)) fail(device);
    setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size);
    return fd;
}

// When the data packet with that port and IP identification passed the first device.
static int64_t arrived[MOST][65536];

static int meter(const char *in, const char *out) {
    struct pollfd fds[2] = {{.fd = listen_to(in), .events = POLLIN}, {.fd = listen_to(out), .events = POLLIN}};
    uint16_t ports[MOST];
    int known = 0;
    int64_t sum = 0, packets = 0, first = 0;
    signal(SIGTERM, on_term);
    while (!ended) {
        poll(fds, 2, -1);
        for (int side = 0; side < 2; side++)
            for (;;) {
                uint8_t head[64], control[128];
                struct sockaddr_ll from;
                struct iovec part = {head, sizeof head};
                struct msghdr message = {.msg_name = &from, .msg_namelen = sizeof from, .msg_iov = &part, .msg_iovlen = 1,
                                         .msg_control = control, .msg_controllen = sizeof control};
                ssize_t len = recvmsg(fds[side].fd, &message, MSG_TRUNC);
                if (len < 0) break;
                int outgoing = from.sll_pkttype == PACKET_OUTGOING;
                if (len < SMALL || outgoing != side || head[0] != 0x45) continue;
                struct cmsghdr *c = CMSG_FIRSTHDR(&message);
                if (!c) continue;
                struct timespec t;
                memcpy(&t, CMSG_DATA(c), sizeof t);
                int64_t at = t.tv_sec * 1000000000LL + t.tv_nsec;
                uint16_t id = head[4] << 8 | head[5], port = head[20] << 8 | head[21];
                int flow = 0;
                while (flow < known && ports[flow] != port) flow++;
                if (flow == MOST) continue;
                if (flow == known) ports[known++] = port;
                if (!side) arrived[flow][id] = at;
                else if (arrived[flow][id]) {
                    if (!first) first = at;
                    sum += at - arrived[flow][id];
                    packets++;
                    arrived[flow][id] = 0;
                }
            }
    }
    printf("packets %lld queue_ms %.3f\n", (long long)packets, packets ? sum / 1e6 / packets : 0.0);
    return 0;
}

int main(int count, char **words) {
    if (count == 4 && !strcmp(words[1], "sink")) return sink(atoi(words[2]), atoi(words[3]));
    if (count == 5 && !strcmp(words[1], "source")) return source(words[2], atoi(words[3]), atoi(words[4]));
    if (count == 4 && !strcmp(words[1], "meter")) return meter(words[2], words[3]);
    fprintf(stderr, "usage: see the head of the source\n");
    return 2;
}
