/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* TCP connections under a congestion control of alcc: accept, connect, send, recv, shutdown and close with the arguments of their
 * namesakes. What is sent waits in a bounded queue until the algorithm lets it go. See docs/library.md for a program.
 *
 * A plug-in with an algorithm needs the structures only: it does not link the library.
 *
 * Generated from calls.rs, inband.rs and session.rs in alcc/capi/src, and from alcc/plugin/src/abi.rs: change those. */

#ifndef ALCC_H
#define ALCC_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

// What a plug-in with an algorithm defines: the one symbol that it exports. See docs/writing-an-algorithm-in-c.md.
struct alcc_algorithm;
#ifdef __cplusplus
extern "C"
#else
extern
#endif
__attribute__((visibility("default"))) const struct alcc_algorithm alcc_algorithm_v3;


// As the descriptor in `alcc_set_cc` and the like: the defaults of new streams of this process.
#define ALCC_DEFAULTS -1

// Role: this end opened the connection.
#define ALCC_CONNECTED 0

// Role: this end accepted the connection.
#define ALCC_ACCEPTED 1

// The version of this interface, the first member of `struct alcc_algorithm`.
#define ALCC_PLUGIN_ABI 3

// "None" for every 64-bit number: no limit, no pacing rate, no timer, no sample.
#define ALCC_NONE 18446744073709551615ull

// Flag of a packet: a retransmission.
#define ALCC_PACKET_RETRANSMIT 1

// Flag of a packet: a probe after silence.
#define ALCC_PACKET_PROBE 2

// Flag of a packet: the application had no more data.
#define ALCC_PACKET_APP_LIMITED 4

// Flag of an acknowledgement: your window limited the sender since the last one.
#define ALCC_ACK_LIMITED_BY_WINDOW 1

// Flag of an acknowledgement: your quota limited the sender.
#define ALCC_ACK_LIMITED_BY_QUOTA 2

// Flag of an acknowledgement: pacing limited the sender.
#define ALCC_ACK_LIMITED_BY_PACING 4

// Flag of an acknowledgement: the application had no more data.
#define ALCC_ACK_LIMITED_BY_APP 8

// Flag of an acknowledgement: something below limited the sender, such as the receiver's window.
#define ALCC_ACK_LIMITED_BY_PEER 16

// Flag of an acknowledgement: a packet-timed round trip begins.
#define ALCC_ACK_ROUND_START 32

// Flag of an acknowledgement: a loss is being repaired.
#define ALCC_ACK_IN_RECOVERY 64

// Flag of an acknowledgement: read from kernel counters at an interval, not from packets.
#define ALCC_ACK_FROM_COUNTERS 128

// Flag of an acknowledgement: the oldest data in flight has arrived. A kernel's window does not grow without it.
#define ALCC_ACK_ADVANCED 256

// `alcc_needs.flags`: delayed or aggregated acknowledgements hurt.
#define ALCC_NEEDS_PER_PACKET_ACK 1

// `alcc_needs.flags`: the allowance has a pacing rate.
#define ALCC_NEEDS_PACING 2

// `alcc_needs.flags`: proportional rate reduction (RFC 6937) during recovery.
#define ALCC_NEEDS_PRR 4

// `alcc_needs.flags`: it reacts to marks (ECN), so its packets may be marked instead of dropped.
#define ALCC_NEEDS_ECN 8

// `alcc_needs.flags`: its limit is enforced whatever it costs. Other algorithms leave control to the kernel while the
// host sees their path too late.
#define ALCC_NEEDS_STRICT 16

// `alcc_needs.flags`: designed for TCP's own rules of loss detection and timers, not for datagrams.
#define ALCC_NEEDS_STREAM 32

// Maximum length of a header, in bytes.
#define ALCC_HEADER_ROOM 16

// Maximum length of a receiver module's report to the sender, in bytes.
#define ALCC_REPORT_ROOM 64

// Kind of an option: any text, in `text`.
#define ALCC_OPTION_TEXT 0

// Kind of an option: a whole number, in `whole`.
#define ALCC_OPTION_WHOLE 1

// Kind of an option: a real number, in `real`.
#define ALCC_OPTION_REAL 2

// Kind of an option: a length of time such as `5ms`, nanoseconds in `whole`.
#define ALCC_OPTION_TIME 3

// Kind of an option: a number of bytes such as `2M`, in `whole`.
#define ALCC_OPTION_BYTES 4

// An in-band stream over a socket.
struct alcc_inband;

// One in-band end without a socket: bytes in, bytes out.
struct alcc_session;

// The state of a stream and of its algorithm. The structure may grow at its end, so calls take its
// size.
struct alcc_info {
  // Bytes in the queue.
  uint64_t queued;
  // Capacity of the queue, bytes.
  uint64_t queue_capacity;
  // Bytes written to the kernel and not acknowledged, as of the last reading.
  uint64_t in_flight;
  // Bytes written to the kernel in total.
  uint64_t sent;
  // Number of times that the algorithm held bytes back.
  uint64_t gate_closed;
  // The algorithm's congestion window, bytes; UINT64_MAX: none.
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
  // 1: the algorithm has failed, and the connection continues as plain TCP.
  int32_t plain;
  // The algorithm as requested, truncated to fit.
  char cc[64];
  // The source of acknowledgements: "bpf", "timestamps" or "tcp-info".
  char feedback[16];
  // The enforcement of the limit: "bpf", "queue+pacing" or "queue".
  char enforcement[16];
};

// The options of an in-band end. Zero and NULL stand for the default. The structure may grow at
// its end, so calls take its size.
struct alcc_inband_options {
  // The algorithm of the data sent by this end; NULL: that of new streams (`alcc_set_cc`, ALCC_CC).
  const char *cc;
  // Size of a segment of the stream below, 256 to 65 535 bytes of frames; default: the socket's, or 1400.
  uint32_t segment;
  // Bytes that the peer may send before the application reads them; default: 4 MiB.
  uint32_t receive_buffer;
  // Size of the queue of bytes that wait for the algorithm; default: 64 KiB.
  uint32_t queue;
  // Maximum time until the peer's first message, in milliseconds; default: 10 000.
  uint32_t handshake_ms;
  // Maximum time until an answer that is due, in milliseconds; default: 120 000.
  uint32_t silence_ms;
};

// The state of an in-band end and of its algorithm. The structure may grow at its end, so calls take its size.
struct alcc_inband_info {
  // Payload sent, bytes.
  uint64_t sent;
  // Payload received, bytes.
  uint64_t received;
  // Bytes of frames written to the stream below.
  uint64_t bytes_out;
  // Bytes of frames received from the stream below.
  uint64_t bytes_in;
  // Bytes that the peer has not acknowledged.
  uint64_t in_flight;
  // Number of times that the algorithm held bytes back.
  uint64_t gate_closed;
  // The algorithm's congestion window, bytes; UINT64_MAX: none.
  uint64_t cwnd;
  // Pacing rate, bits per second; 0: not paced.
  uint64_t pacing_bps;
  // Newest RTT sample, microseconds, without the time for which the peer held its answer; 0
  // before the first.
  uint64_t rtt_us;
  // Smoothed RTT, microseconds.
  uint64_t smoothed_rtt_us;
  // Smallest RTT, microseconds.
  uint64_t min_rtt_us;
  // The error that ended it, as errno; 0: none.
  int32_t error;
  // Zero.
  int32_t reserved;
};

// One option of an algorithm: `aimd:beta=0.7`.
struct alcc_option {
  // The name: letters, digits, `-` and `_`.
  const char *name;
  // The default, as typed.
  const char *default_text;
  // Meaning, unit and range, for `alcc list`.
  const char *help;
  // `ALCC_OPTION_...`.
  uint32_t kind;
  // Zero.
  uint32_t reserved;
  // Smallest value, in the unit of the kind. Both zero: no bounds.
  double least;
  // Largest value, in the unit of the kind.
  double most;
};

// The value of one option: as typed, or the default; within its bounds.
struct alcc_value {
  // As typed.
  const char *text;
  // A whole number, nanoseconds or bytes, by its kind; else 0.
  uint64_t whole;
  // Any number, as a real number; else 0.
  double real;
};

// The argument of `create`.
struct alcc_create {
  // Size of this structure.
  uint32_t size;
  // Number of values, which is that of the algorithm's options.
  uint32_t value_count;
  // Name of the algorithm, as in its table.
  const char *algorithm;
  // The chosen profile; NULL if the algorithm has none.
  const char *profile;
  // The values, in the order of the algorithm's options.
  const struct alcc_value *values;
  // Buffer for one line with the reason, if `create` returns NULL.
  char *error;
  // Size of that buffer in bytes.
  uint64_t error_size;
};

// The allowance of an algorithm. It is filled with "no limit".
struct alcc_allowance {
  // Size of this structure.
  uint32_t size;
  // Not 0: one packet should be sent now, regardless of window and quota. Clear it in `on_sent`.
  uint32_t ping;
  // Limit of bytes in flight; from one mss to 2^30, the largest window of TCP.
  uint64_t window;
  // Bytes that may be sent now, whatever is in flight, or ALCC_NONE. Subtract the bytes that `on_sent` reports.
  uint64_t quota;
  // Pacing rate in bit/s, 8000 to 10^12, or ALCC_NONE.
  uint64_t rate_bps;
  // Bytes that may be sent back to back when paced.
  uint64_t burst;
};

// A packet that was acknowledged or lost.
struct alcc_packet {
  // Its transmission number.
  uint64_t number;
  // Length in bytes.
  uint64_t length;
  // Time of sending.
  uint64_t sent_at_ns;
  // The tag that you returned when it was sent.
  uint64_t tag;
  // Time from sending to acknowledgement; ALCC_NONE if lost or ambiguous.
  uint64_t rtt_ns;
  // Total bytes delivered when it was sent.
  uint64_t delivered;
  // Time at which that total was reached.
  uint64_t delivered_at_ns;
  // Sending time of the first packet of its flight; this packet ended that flight.
  uint64_t first_sent_at_ns;
  // Bytes in flight when it was sent, this packet included.
  uint64_t in_flight;
  // `ALCC_PACKET_...`, as of sending.
  uint32_t flags;
  // Zero.
  uint32_t reserved;
};

// Round-trip times (RFC 6298); zero before the first sample.
struct alcc_rtt {
  // The newest sample.
  uint64_t latest_ns;
  // Smoothed, weight 1/8.
  uint64_t smoothed_ns;
  // Mean deviation, weight 1/4.
  uint64_t variance_ns;
  // The smallest sample.
  uint64_t min_ns;
};

// Packets were acknowledged: at least one, in the order of sending.
struct alcc_ack {
  // Size of this structure.
  uint32_t size;
  // `ALCC_ACK_...`
  uint32_t flags;
  // The packets.
  const struct alcc_packet *packets;
  // Number of packets.
  uint64_t packet_count;
  // Bytes in flight before them.
  uint64_t in_flight_before;
  // Bytes in flight after them.
  uint64_t in_flight;
  // Bytes delivered in total.
  uint64_t delivered;
  // Round-trip times.
  struct alcc_rtt rtt;
  // Delivery rate over the flight of the newest packet in bit/s, or ALCC_NONE.
  uint64_t rate_bps;
  // Bound on the error of the RTT samples.
  uint64_t rtt_error_ns;
  // Bytes that arrived with a mark (ECN, congestion experienced) since the last acknowledgement. The algorithm
  // should react as to a loss, once per round trip.
  uint64_t marked;
};

// The requirements of an algorithm to its host. It is filled with the defaults.
struct alcc_needs {
  // Size of this structure.
  uint32_t size;
  // `ALCC_NEEDS_...`
  uint32_t flags;
  // Over TCP: the interval of reading acknowledgements, 1 ms to 100 ms. A shorter one costs wake-ups.
  uint64_t feedback_period_ns;
};

// The path, when a connection starts.
struct alcc_path {
  // Size of this structure.
  uint32_t size;
  // Zero.
  uint32_t reserved;
  // Largest segment in bytes, at least 1.
  uint64_t mss;
  // An RTT known before the first packet, or ALCC_NONE.
  uint64_t rtt_hint_ns;
  // Seed of your random numbers: the same seed must give the same results.
  uint64_t seed;
};

// A packet is sent.
struct alcc_sent {
  // Size of this structure.
  uint32_t size;
  // `ALCC_PACKET_...`
  uint32_t flags;
  // Transmission number: a new one for every transmission.
  uint64_t number;
  // Length in bytes. Over TCP one record may stand for several segments.
  uint64_t length;
  // Bytes in flight before it.
  uint64_t in_flight_before;
};

// Packets were lost: at least one. It comes before the acknowledgement that revealed them.
struct alcc_loss {
  // Size of this structure.
  uint32_t size;
  // Not 0: the first loss of a recovery. Reduce the window once per recovery.
  uint32_t new_episode;
  // The packets.
  const struct alcc_packet *packets;
  // Number of packets.
  uint64_t packet_count;
  // Bytes in flight without the lost packets.
  uint64_t in_flight;
  // Round-trip times.
  struct alcc_rtt rtt;
};

// The retransmission timer expired.
struct alcc_rto {
  // Size of this structure.
  uint32_t size;
  // 1 on the first expiry for the same data, then 2, 3, ...
  uint32_t backoff;
  // The oldest packet in flight.
  struct alcc_packet oldest;
  // Bytes in flight.
  uint64_t in_flight;
  // Time since the last acknowledgement.
  uint64_t silence_ns;
};

// Recovery has ended: all losses are repaired.
struct alcc_recovery_end {
  // Size of this structure.
  uint32_t size;
  // Zero.
  uint32_t reserved;
  // Bytes in flight.
  uint64_t in_flight;
  // Round-trip times.
  struct alcc_rtt rtt;
};

// The receiver module of an algorithm that needs the arrival times of packets. If the peer has no module, the host
// keeps it beside the algorithm, and feeds it with acknowledgements. `algorithm` is the state of the algorithm,
// `state` that returned by `create` or `clone` of the module. All callbacks are required.
struct alcc_receiver {
  // Size of this structure.
  uint32_t size;
  // The length of headers, for which the host reserves space in each packet: at most ALCC_HEADER_ROOM bytes.
  uint32_t header_length;
  // Writes the header of the packet of the algorithm's last `on_sent`, at most `header_length` bytes, and returns
  // its length. `more`: another packet follows at once.
  uint64_t (*on_header)(void *algorithm,
                        uint64_t now_ns,
                        uint64_t number,
                        uint32_t more,
                        uint8_t *header);
  // A report of the receiver module for the algorithm. Its bytes come from the network and are untrusted.
  void (*on_feedback)(void *algorithm, uint64_t now_ns, const uint8_t *report, uint64_t length);
  // Makes the receiver module of a connection; `algorithm` is the state of its algorithm.
  void *(*create)(const void *algorithm);
  // Makes a complete, independent copy.
  void *(*clone)(const void *state);
  // Frees the result of `create` or `clone`.
  void (*destroy)(void *state);
  // A packet arrived. Its header comes from the network and is untrusted.
  void (*on_packet)(void *state,
                    uint64_t now_ns,
                    uint64_t number,
                    uint64_t length,
                    const uint8_t *header,
                    uint64_t header_length);
  // Called at the time that `next_timer` returned.
  void (*on_timer)(void *state, uint64_t now_ns);
  // The time of the next call of `on_timer`, or ALCC_NONE.
  uint64_t (*next_timer)(const void *state);
  // Writes a report for `on_feedback`, at most ALCC_REPORT_ROOM bytes. Returns its length, or
  // ALCC_NONE if there is nothing to report.
  uint64_t (*report)(void *state, uint64_t now_ns, uint8_t *report);
};

// An algorithm. A plug-in is a shared object that defines one constant of this type, named
// `alcc_algorithm_v3`.
//
// `state` is the result of `create` or `clone`: the state of one connection. Callbacks of one `state` never run at the
// same time. Those of different states may, so keep no variables outside of it. Callbacks must not wait, do I/O or
// unwind. Times are nanoseconds since an origin of the host and never decrease; calls may be late. The same events
// must give the same results. NULL is allowed where a comment permits it.
struct alcc_algorithm {
  // ALCC_PLUGIN_ABI.
  uint32_t abi;
  // sizeof(struct alcc_algorithm).
  uint32_t size;
  // Its name: lower-case letters, digits, `-` and `_`, at most 32.
  const char *name;
  // One line for `alcc list`.
  const char *summary;
  // Its options; NULL: none.
  const struct alcc_option *options;
  // Number of options, at most 64.
  uint64_t option_count;
  // Names of its internal values for logs and plots; NULL: none.
  const char *const *gauge_names;
  // Number of these names, at most 64.
  uint64_t gauge_count;
  // Names of its profiles, the values of `profile=`, the default first; NULL: none. If there is
  // an algorithm of this name, these profiles are added to it.
  const char *const *profile_names;
  // Number of these names, at most 64.
  uint64_t profile_count;
  // Makes the state of a new connection. NULL: refused, with the reason in `settings->error`.
  void *(*create)(const struct alcc_create *settings);
  // Makes a complete, independent copy.
  void *(*clone)(const void *state);
  // Frees the result of `create` or `clone`.
  void (*destroy)(void *state);
  // Writes the current allowance. Called often.
  void (*allowance)(const void *state, struct alcc_allowance *out);
  // Packets were acknowledged.
  void (*on_ack)(void *state, uint64_t now_ns, const struct alcc_ack *ack);
  // Writes the requirements to the host. NULL: the defaults.
  void (*needs)(const void *state, struct alcc_needs *out);
  // Called once, before every other event. NULL, here and below: the event is ignored.
  void (*on_start)(void *state, uint64_t now_ns, const struct alcc_path *path);
  // A packet is sent. The result comes back with the packet as its tag.
  uint64_t (*on_sent)(void *state, uint64_t now_ns, const struct alcc_sent *sent);
  // Packets were lost.
  void (*on_loss)(void *state, uint64_t now_ns, const struct alcc_loss *loss);
  // The retransmission timer expired.
  void (*on_rto)(void *state, uint64_t now_ns, const struct alcc_rto *rto);
  // The last reduction was spurious: the packets reported lost arrived (0), or the timeout was premature (1).
  void (*on_spurious)(void *state, uint64_t now_ns, uint32_t timeout);
  // Recovery has ended: all losses are repaired.
  void (*on_recovery_end)(void *state, uint64_t now_ns, const struct alcc_recovery_end *end);
  // Sending restarts after `idle_ns` with nothing in flight.
  void (*on_idle_restart)(void *state, uint64_t now_ns, uint64_t idle_ns);
  // Packets have another size from now on. The path is the same, so its properties stay valid.
  void (*on_mtu)(void *state, uint64_t now_ns, uint64_t mss);
  // Called at the time that `next_timer` returned.
  void (*on_timer)(void *state, uint64_t now_ns);
  // The time of the next call of `on_timer`, or ALCC_NONE; later than that of the last `on_timer`. NULL: never.
  uint64_t (*next_timer)(const void *state);
  // Writes the internal values, in the order of `gauge_names`.
  void (*gauges)(const void *state, double *values);
  // Frees memory that is not needed while nothing is sent for some time.
  void (*release_memory)(void *state);
  // Its receiver module; NULL: none. An algorithm with one depends on its reports.
  const struct alcc_receiver *receiver;
  // For a plug-in with several algorithms: returns their tables by number from 0, and NULL after the last. Nothing
  // else of the exported table is read then. NULL: there is only this algorithm.
  const struct alcc_algorithm *(*list)(uint64_t number);
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The same as accept(2). The connection's bytes go through a queue from then on. A connection that
// cannot be controlled, such as that of a UNIX socket, is also accepted and stays plain.
int alcc_accept(int fd, struct sockaddr *addr, socklen_t *len);

// The same as accept4(2).
int alcc_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags);

// The same as connect(2). If it returns before the connection is made (`EINPROGRESS`, a signal),
// the first `alcc_send` takes it over. Wait for the connection with `poll` on the socket itself,
// as usual.
int alcc_connect(int fd, const struct sockaddr *addr, socklen_t len);

// Takes over a connected TCP socket that was connected elsewhere. Returns 0, or -1 with errno.
int alcc_adopt(int fd);

// The same as send(2): returns the number of bytes taken. A blocking call waits until all bytes
// are in the queue. SO_SNDTIMEO and signal handlers end that wait as they end that of send. With
// O_NONBLOCK or MSG_DONTWAIT it takes the bytes that fit, or fails with EAGAIN: then wait for
// `alcc_writable_fd`. Once an error has broken the connection, every later call returns it. It
// never raises SIGPIPE. MSG_MORE, MSG_EOR and MSG_NOSIGNAL are allowed and ignored; MSG_OOB fails
// with EOPNOTSUPP. On any other descriptor it is send(2). It must not be called in signal handlers.
ssize_t alcc_send(int fd, const void *buf, size_t len, int send_flags);

// The same as recv(2). After a send has failed because of a reset, it returns that error instead
// of the end of the stream.
ssize_t alcc_recv(int fd, void *buf, size_t len, int flags);

// The same as shutdown(2). The queue is sent before the FIN.
int alcc_shutdown(int fd, int how);

// The same as close(2), after sending the queue. A blocking descriptor waits for that, at most
// until the close deadline (`alcc_set_close_deadline`; ten seconds). Then it discards the rest,
// resets the connection, and returns -1 with ETIMEDOUT. If an error broke the connection before
// all was sent, it returns -1 with that error. A non-blocking descriptor returns at once and is
// drained in the background until the same deadline, also while the process exits. SO_LINGER with
// a time sets the deadline and makes the call wait; with 0 it is `alcc_abort`. The descriptor is
// closed in any case.
int alcc_close(int fd);

// Discards the queue, closes, and resets the connection. Returns 0, or -1 with errno.
int alcc_abort(int fd);

// A descriptor that is writable while `alcc_send` on `fd` takes bytes or has an error to return.
// Wait for POLLOUT or EPOLLOUT, level or edge triggered. After EAGAIN or a short count it becomes
// writable when a quarter of the queue is free. Use it only for waiting. It is closed with the
// stream, so remove it from epoll sets first. Returns -1 with errno if there is none.
//
// Wait for incoming bytes on `fd` itself. With time stamps as feedback, poll also reports POLLERR
// on `fd` while acknowledgement times wait to be read; ignore it. If `fd` was non-blocking when it
// became a stream, the feedback is "tcp-info", unless `alcc_set_feedback` or ALCC_FEEDBACK selects
// another source; with "tcp-info" there is no such POLLERR.
int alcc_writable_fd(int fd);

// Sets the algorithm of a stream, also during a connection, or of all new ones (`ALCC_DEFAULTS`):
// "verus", "copa:profile=paper", ... as `alcc list` shows them. Returns 0, or -1 with EINVAL; then
// `alcc_message` returns the reason.
int alcc_set_cc(int fd, const char *spec);

// Adds the algorithm of a plug-in, a shared object that exports `alcc_algorithm_v3`. It stays
// loaded. ALCC_PLUGIN names plug-ins to load with the library. Returns 0, or -1 with EINVAL; then
// `alcc_message` returns the reason.
int alcc_load_plugin(const char *file);

// Sets the source of acknowledgements of a stream, or of all new ones (`ALCC_DEFAULTS`):
// "timestamps", "tcp-info", or, for new ones, "auto". Returns 0, or -1 with EINVAL.
int alcc_set_feedback(int fd, const char *name);

// Sets the capacity of the queue of a stream, or of all new ones (`ALCC_DEFAULTS`), in bytes. It
// is 1 MiB unless set here or by ALCC_QUEUE. Memory is used only while bytes wait. Returns 0, or
// -1 with errno.
int alcc_set_queue(int fd, size_t bytes);

// Sets the maximum time of `alcc_close` for sending the queue, in milliseconds; the default is 10
// 000. `ALCC_DEFAULTS` is for all streams without their own deadline. Returns 0, or -1 with errno.
int alcc_set_close_deadline(int fd, int milliseconds);

// Returns the state of a stream and of its algorithm. `size` is that of your `struct alcc_info`.
// Returns 0, or -1 with errno.
int alcc_get_info(int fd, struct alcc_info *info, size_t size);

// Waits until the queues of all streams that were closed without waiting are sent, at most
// `milliseconds`. Returns 0, or -1 with ETIMEDOUT. exit() does the same.
int alcc_drain(int milliseconds);

// One line about this thread's last EINVAL, or about an environment variable or plug-in that could
// not be used. Empty if there is none. The pointer is the same for every call of a thread and
// valid as long as the thread lives. The line changes with the next failed call. With ALCC_DEBUG=1
// in the environment every line is also printed on standard error.
const char *alcc_message(void);

// The version of the library, "0.1.0".
const char *alcc_version(void);

// Speaks the in-band format (docs/formats.md) over a connected TCP or UNIX stream socket. The algorithm gets
// acknowledgements from the library at the other end, whatever lies between. It waits for the peer's first message.
// From then on the descriptor belongs to the stream. It is closed with the stream, and also if this fails. Returns
// NULL with errno if it fails: EPROTO if the peer has another protocol, ETIMEDOUT if it sends nothing. `alcc_message`
// then returns the reason. A child of fork must not use it.
struct alcc_inband *alcc_inband_wrap(int fd,
                                     int the_role,
                                     const struct alcc_inband_options *options,
                                     size_t size);

// The same as send(2). It waits until all bytes are taken, which depends on the algorithm. It takes fewer, or fails
// with EAGAIN, after the time limit of `alcc_inband_set_timeout` or with MSG_DONTWAIT. One thread may send while
// another receives. It never raises SIGPIPE, and signal handlers do not end it.
ssize_t alcc_inband_send(const struct alcc_inband *s,
                         const void *buf,
                         size_t len,
                         int flags);

// The same as recv(2): returns at most `len` bytes, and 0 once the peer has ended its direction. It fails with EAGAIN
// after the time limit of `alcc_inband_set_timeout` or with MSG_DONTWAIT, and with ECONNRESET if the connection ends
// without the peer's end.
ssize_t alcc_inband_recv(const struct alcc_inband *s,
                         void *buf,
                         size_t len,
                         int flags);

// Sets the time limit of `alcc_inband_send` and `alcc_inband_recv`, in milliseconds. Negative, the default, means no
// limit. Returns 0, or -1 with errno.
int alcc_inband_set_timeout(const struct alcc_inband *s,
                            int milliseconds);

// Ends this direction. It waits until the peer has acknowledged everything, the end included, at most `milliseconds`.
// Returns 0, or -1 with ETIMEDOUT; then it may be called again. Receiving continues.
int alcc_inband_finish(const struct alcc_inband *s,
                       int milliseconds);

// Returns the state of the stream and of its algorithm. `size` is that of your structure. Returns 0, or -1 with errno.
int alcc_inband_get_info(const struct alcc_inband *s,
                         struct alcc_inband_info *info,
                         size_t size);

// Closes the stream and its socket. If `alcc_inband_finish` has not returned 0 before, the peer is informed that the
// stream was aborted. NULL is allowed.
void alcc_inband_close(struct alcc_inband *s);

// Makes an in-band end for a stream that is not a socket, such as TLS of any library, a tunnel or
// a serial line. Pass it the bytes that arrive from that stream, and write its output to the
// stream:
//
// 1. while `n = alcc_session_take(s, out, sizeof out)` is above 0: write n bytes to the stream;
// 2. wait until the stream is readable, or for `alcc_session_timer_us(s)` microseconds;
// 3. read n bytes from the stream: `alcc_session_feed(s, in, n)`;
// 4. use `alcc_session_read` and `alcc_session_write`, and begin again.
//
// Only one thread may use it at a time. Returns NULL with errno if the options are invalid.
struct alcc_session *alcc_session_new(int the_role,
                                      const struct alcc_inband_options *options,
                                      size_t size);

// Takes bytes from the stream below, all of them; `len` 0 means that it has ended. The other calls
// also return an error that these bytes cause. Returns 0, or -1 with errno: EPROTO if the peer has
// another protocol, ECONNRESET if the stream ends without the peer's end.
int alcc_session_feed(struct alcc_session *s, const void *buf, size_t len);

// Returns bytes to write to the stream below now, at most `len`; 0 if there are none. After every
// other call, and when the timer is due, call it until it returns 0. `len` should be the amount
// that the stream below takes at once, because the returned bytes count as sent. It works after an
// error, too, so that the peer learns of it.
ssize_t alcc_session_take(struct alcc_session *s, void *buf, size_t len);

// Microseconds until `alcc_session_take` has to be called even without another event. 0 means now;
// -1 means that no timer is set.
int64_t alcc_session_timer_us(const struct alcc_session *s);

// The same as send(2), but it never waits. It takes the bytes that fit into the queue, or fails
// with EAGAIN.
ssize_t alcc_session_write(struct alcc_session *s, const void *buf, size_t len);

// The same as recv(2), but it never waits. Returns 0 once the peer has ended its direction. It
// fails with EAGAIN if nothing has arrived yet.
ssize_t alcc_session_read(struct alcc_session *s, void *buf, size_t len);

// Ends this direction; the queue is sent first. Returns 1 if the peer has acknowledged everything,
// the end included. Returns 0 if not yet: call it again. Returns -1 with errno if it fails.
int alcc_session_finish(struct alcc_session *s);

// Returns the state of the session and of its algorithm. `size` is that of your structure. Returns
// 0, or -1 with errno.
int alcc_session_get_info(const struct alcc_session *s, struct alcc_inband_info *info, size_t size);

// Frees the session. The peer is not informed, so close the stream below. NULL is allowed.
void alcc_session_free(struct alcc_session *s);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* ALCC_H */
