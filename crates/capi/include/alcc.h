/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* TCP connections under a congestion control of alcc: accept, connect, send, recv, shutdown and close with the arguments of their
 * namesakes. What is sent waits in a bounded queue until the algorithm lets it go. See docs/library.md for a program.
 *
 * Generated from crates/capi/src/calls.rs: change that. */

#ifndef ALCC_H
#define ALCC_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

// Algorithms of your own, as plug-ins.
#include "alcc_plugin.h"


// As descriptor in `alcc_set_cc` and the like: what new streams of this process start from.
#define ALCC_DEFAULTS -1

// A stream as its algorithm sees it. Grows at the end: say how large yours is.
struct alcc_info {
  // Bytes in the queue.
  uint64_t queued;
  // Capacity of the queue, bytes.
  uint64_t queue_capacity;
  // Bytes handed to the kernel and not acknowledged, as of the last reading.
  uint64_t in_flight;
  // Bytes handed to the kernel in total.
  uint64_t sent;
  // How often the algorithm held bytes back.
  uint64_t gate_closed;
  // The algorithm's cwnd, bytes; UINT64_MAX: none.
  uint64_t cwnd;
  // Pacing rate, bits per second; 0: not paced.
  uint64_t pacing_bps;
  // Newest RTT sample, microseconds; 0 before the first.
  uint64_t rtt_us;
  // Smoothed RTT, microseconds.
  uint64_t smoothed_rtt_us;
  // Smallest RTT, microseconds.
  uint64_t min_rtt_us;
  // The error that broke the connection, as errno; 0: none.
  int32_t error;
  // 1: the algorithm failed, and the connection goes on as plain TCP.
  int32_t plain;
  // The algorithm as it was asked for, cut to fit.
  char cc[64];
  // Where acknowledgements are learned from: "timestamps" or "tcp-info".
  char feedback[16];
  // How the limit is kept: "queue+pacing" or "queue".
  char enforcement[16];
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// As accept(2); the connection's bytes go through a queue from then on. What cannot be controlled (a UNIX socket, say) is accepted
// all the same and stays plain.
int alcc_accept(int fd,
                struct sockaddr *addr,
                socklen_t *len);

// As accept4(2).
int alcc_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags);

// As connect(2). Where that returns before the connection is made (`EINPROGRESS`, a signal), it is taken over at the first
// `alcc_send` after; wait for it with `poll` on the socket itself, as ever.
int alcc_connect(int fd,
                 const struct sockaddr *addr,
                 socklen_t len);

// Takes over a connected TCP socket that was made elsewhere. 0, or -1 and errno.
int alcc_adopt(int fd);

// As send(2): returns how much was taken. Blocking, it waits until all is in the queue (SO_SNDTIMEO and signal handlers end that
// as they end send); with O_NONBLOCK or MSG_DONTWAIT it takes what fits, or fails with EAGAIN: then wait for
// `alcc_writable_fd`. An error that broke the connection is returned by every later call. Never raises SIGPIPE. MSG_MORE,
// MSG_EOR and MSG_NOSIGNAL are allowed and change nothing; MSG_OOB is EOPNOTSUPP. On what is no stream of ours it is
// send(2). Not for signal handlers.
ssize_t alcc_send(int fd,
                  const void *buf,
                  size_t len,
                  int send_flags);

// As recv(2). After a reset that a send has met, the end of the stream is that error.
ssize_t alcc_recv(int fd, void *buf, size_t len, int flags);

// As shutdown(2); what waits in the queue is sent before FIN.
int alcc_shutdown(int fd, int how);

// As close(2); what waits in the queue is sent before. A blocking descriptor waits for that, at most until the close deadline
// (`alcc_set_close_deadline`; ten seconds): then what is left is thrown away, the peer gets RST, and it returns -1 with ETIMEDOUT, or with the error
// that broke the connection before all was sent. A non-blocking one returns at once and is drained in the background, until the
// same deadline and also while the process exits. SO_LINGER: with a time, that is the deadline and is waited for; with 0
// it is `alcc_abort`. The descriptor is closed in any case.
int alcc_close(int fd);

// Throws away what waits, closes, and the peer gets RST. 0, or -1 and errno.
int alcc_abort(int fd);

// A descriptor that is writable (POLLOUT, EPOLLOUT; level and edge triggered) while `alcc_send` on `fd` takes bytes or has an error to
// tell. After EAGAIN or a short count it becomes so when a quarter of the queue is free. Only for waiting; closed with the stream, so
// take it out of an epoll set before. -1 and errno if there is none to be had.
//
// Wait for incoming bytes on `fd` itself. With time stamps as feedback, poll also reports POLLERR there while acknowledgement
// times wait to be read, which means nothing to you; descriptors that are non-blocking when they become a stream get
// "tcp-info" for that reason, unless `alcc_set_feedback` or ALCC_FEEDBACK says otherwise.
int alcc_writable_fd(int fd);

// The algorithm of a stream, also in mid-connection, or of all new ones (`ALCC_DEFAULTS`): "verus", "copa:profile=paper", ... as `alcc
// list` shows them. 0, or -1 with EINVAL: `alcc_message` says what is wrong with it.
int alcc_set_cc(int fd,
                const char *spec);

// Where a stream, or all new ones (`ALCC_DEFAULTS`), learn of acknowledgements: "timestamps", "tcp-info", or, for new ones, "auto".
// 0, or -1 with EINVAL.
int alcc_set_feedback(int fd,
                      const char *name);

// Capacity of the queue of a stream, or of all new ones (`ALCC_DEFAULTS`), in bytes; 1 MiB unless set here or by ALCC_QUEUE. Memory is
// used only while bytes wait. 0, or -1 and errno.
int alcc_set_queue(int fd,
                   size_t bytes);

// How long `alcc_close` of a stream, or of all without one of their own (`ALCC_DEFAULTS`), may take to send what waits, in milliseconds; 10 000
// unless set. 0, or -1 and errno.
int alcc_set_close_deadline(int fd,
                            int milliseconds);

// What the algorithm of a stream sees and does. `size` is that of your `struct alcc_info`. 0, or -1 and errno.
int alcc_get_info(int fd,
                  struct alcc_info *info,
                  size_t size);

// Waits until everything that was closed without waiting is sent, at most so many milliseconds. 0, or -1 with ETIMEDOUT. The end of the
// process by exit() does so by itself.
int alcc_drain(int milliseconds);

// One line about this thread's last EINVAL, or about an environment variable or plug-in that could not be used; empty if there is none. Valid
// until the thread's next failed call.
const char *alcc_message(void);

// The version of the library, "0.1.0".
const char *alcc_version(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* ALCC_H */
