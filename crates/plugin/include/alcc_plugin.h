/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Algorithms written in C. Generated from crates/plugin/src/abi.rs: change that. */

#ifndef ALCC_PLUGIN_H
#define ALCC_PLUGIN_H

#include <stdint.h>

// What a plug-in defines: the one symbol that it exports.
struct alcc_algorithm;
#ifdef __cplusplus
extern "C"
#else
extern
#endif
__attribute__((visibility("default"))) const struct alcc_algorithm alcc_algorithm_v1;


// The version of this interface, the first member of `struct alcc_algorithm`.
#define ALCC_PLUGIN_ABI 1

// "None" for every 64-bit number here: no limit, no pacing rate, no timer, no sample.
#define ALCC_NONE 18446744073709551615ull

// Flag of a packet: sent before and sent again.
#define ALCC_PACKET_RETRANSMIT 1

// Flag of a packet: a probe after silence.
#define ALCC_PACKET_PROBE 2

// Flag of a packet: the application had no more to send.
#define ALCC_PACKET_APP_LIMITED 4

// Flag of an acknowledgement: your window held the sender back since the last one.
#define ALCC_ACK_LIMITED_BY_WINDOW 1

// Flag of an acknowledgement: your quota held it back.
#define ALCC_ACK_LIMITED_BY_QUOTA 2

// Flag of an acknowledgement: pacing held it back.
#define ALCC_ACK_LIMITED_BY_PACING 4

// Flag of an acknowledgement: the application had no more to send.
#define ALCC_ACK_LIMITED_BY_APP 8

// Flag of an acknowledgement: something below held it back, such as the receiver's window.
#define ALCC_ACK_LIMITED_BY_PEER 16

// Flag of an acknowledgement: a round trip, counted in packets, has just begun.
#define ALCC_ACK_ROUND_START 32

// Flag of an acknowledgement: a loss is being repaired.
#define ALCC_ACK_IN_RECOVERY 64

// Flag of an acknowledgement: learned from kernel counters at a tick, not from packets.
#define ALCC_ACK_FROM_COUNTERS 128

// `alcc_needs.flags`: delayed or aggregated acknowledgements hurt.
#define ALCC_NEEDS_PER_PACKET_ACK 1

// `alcc_needs.flags`: the allowance has a pacing rate.
#define ALCC_NEEDS_PACING 2

// `alcc_needs.flags`: proportional rate reduction (RFC 6937) during recovery.
#define ALCC_NEEDS_PRR 4

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

// One option of an algorithm: `aimd:beta=0.7`.
struct alcc_option {
  // Its name: letters, digits, `-` and `_`.
  const char *name;
  // The default, as one would type it.
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

// What `create` gets.
struct alcc_create {
  // Size of this structure.
  uint32_t size;
  // How many values there are: as many as the algorithm has options.
  uint32_t value_count;
  // The values, in the order of the algorithm's options.
  const struct alcc_value *values;
  // Room for one line that says what is wrong with the values, if `create` returns NULL.
  char *error;
  // Size of that room in bytes.
  uint64_t error_size;
};

// What may leave. Comes filled with "no limit".
struct alcc_allowance {
  // Size of this structure.
  uint32_t size;
  // Not 0: one packet should leave now, whatever window and quota say. Cleared by sending.
  uint32_t ping;
  // Bytes in flight must not exceed this; from one mss to 2^30, the largest window of TCP.
  uint64_t window;
  // Bytes that may leave now, whatever is in flight, or ALCC_NONE. Take off it what `on_sent` reports.
  uint64_t quota;
  // Pacing rate in bit/s, 8000 to 10^12, or ALCC_NONE.
  uint64_t rate_bps;
  // How much may leave back to back when paced, in bytes.
  uint64_t burst;
};

// A packet that was acknowledged or lost.
struct alcc_packet {
  // Its transmission number.
  uint64_t number;
  // Bytes.
  uint64_t length;
  // When it was sent.
  uint64_t sent_at_ns;
  // What you returned when it was sent.
  uint64_t tag;
  // From sending to acknowledgement; ALCC_NONE if lost or not known for certain.
  uint64_t rtt_ns;
  // When it was sent: bytes delivered in total.
  uint64_t delivered;
  // When it was sent: the time at which that total was reached.
  uint64_t delivered_at_ns;
  // When it was sent: bytes in flight, this packet included.
  uint64_t in_flight;
  // `ALCC_PACKET_...`, when it was sent.
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
  // The smallest ever.
  uint64_t min_ns;
};

// Packets were acknowledged: at least one, in the order sent.
struct alcc_ack {
  // Size of this structure.
  uint32_t size;
  // `ALCC_ACK_...`
  uint32_t flags;
  // The packets.
  const struct alcc_packet *packets;
  // How many.
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
};

// What an algorithm wants of its host. Comes filled with the defaults.
struct alcc_needs {
  // Size of this structure.
  uint32_t size;
  // `ALCC_NEEDS_...`
  uint32_t flags;
  // Over TCP: how often acknowledgements should be looked for, 1 ms to 100 ms. Shorter costs wake-ups.
  uint64_t feedback_period_ns;
};

// The path, when a connection starts or its route changes.
struct alcc_path {
  // Size of this structure.
  uint32_t size;
  // Zero.
  uint32_t reserved;
  // Largest segment in bytes, at least 1.
  uint64_t mss;
  // RTT seen already, or ALCC_NONE.
  uint64_t rtt_hint_ns;
  // For a generator of random numbers of your own: the same seed has to give the same answers.
  uint64_t seed;
};

// A packet leaves.
struct alcc_sent {
  // Size of this structure.
  uint32_t size;
  // `ALCC_PACKET_...`
  uint32_t flags;
  // Transmission number: a new one for every transmission.
  uint64_t number;
  // Bytes. Over TCP one record may stand for several segments.
  uint64_t length;
  // Bytes in flight before it.
  uint64_t in_flight_before;
};

// Packets were lost: at least one. Comes before the acknowledgement that disclosed them.
struct alcc_loss {
  // Size of this structure.
  uint32_t size;
  // Not 0: the first loss of a recovery. Reduce the window once per recovery.
  uint32_t new_episode;
  // The packets.
  const struct alcc_packet *packets;
  // How many.
  uint64_t packet_count;
  // Bytes in flight after removing them.
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

// Everything lost has been repaired.
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

// Over TCP: the socket holds data that the kernel has not sent.
struct alcc_backpressure {
  // Size of this structure.
  uint32_t size;
  // Not 0: the socket refused bytes.
  uint32_t blocked;
  // Bytes handed to the kernel and not yet sent.
  uint64_t unsent;
};

// An algorithm. A plug-in is a shared object that defines one constant of this type, named `alcc_algorithm_v1`.
//
// `state` is what `create` or `clone` returned: the state of one connection. Callbacks of one `state` never run at the same time,
// those of different ones may: keep no variables outside of it. Callbacks do not wait, do no I/O, do not unwind.
// Times are nanoseconds since an origin of the host and never decrease; calls may be late. The same events must give the
// same answers. NULL is allowed where it says so.
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
  // How many options, at most 64.
  uint64_t option_count;
  // Names of its internal values for logs and plots; NULL: none.
  const char *const *gauge_names;
  // How many such names, at most 64.
  uint64_t gauge_count;
  // The state of a new connection. NULL: refused, with the reason in `settings->error`.
  void *(*create)(const struct alcc_create *settings);
  // A complete copy, independent of the first.
  void *(*clone)(const void *state);
  // Frees what `create` or `clone` made.
  void (*destroy)(void *state);
  // What may leave now. Asked often.
  void (*allowance)(const void *state, struct alcc_allowance *out);
  // Packets were acknowledged.
  void (*on_ack)(void *state, uint64_t now_ns, const struct alcc_ack *ack);
  // What the host should arrange. NULL: the defaults.
  void (*needs)(const void *state, struct alcc_needs *out);
  // Once, before every other event. NULL: not of interest; so for all that follow.
  void (*on_start)(void *state, uint64_t now_ns, const struct alcc_path *path);
  // A packet leaves. What is returned comes back with the packet as its tag.
  uint64_t (*on_sent)(void *state, uint64_t now_ns, const struct alcc_sent *sent);
  // Packets were lost.
  void (*on_loss)(void *state, uint64_t now_ns, const struct alcc_loss *loss);
  // The retransmission timer expired.
  void (*on_rto)(void *state, uint64_t now_ns, const struct alcc_rto *rto);
  // The last reduction was a mistake: the packets reported lost arrived (0), or the timer was too early (1).
  void (*on_spurious)(void *state, uint64_t now_ns, uint32_t timeout);
  // Everything lost has been repaired.
  void (*on_recovery_end)(void *state, uint64_t now_ns, const struct alcc_recovery_end *end);
  // A report of the receiver: bytes from outside, not to be trusted.
  void (*on_feedback)(void *state, uint64_t now_ns, const uint8_t *report, uint64_t length);
  // Over TCP: the kernel holds unsent data or refused some.
  void (*on_backpressure)(void *state, uint64_t now_ns, const struct alcc_backpressure *pressure);
  // Sending begins again after `idle_ns` with nothing in flight.
  void (*on_idle_restart)(void *state, uint64_t now_ns, uint64_t idle_ns);
  // The mss or the route changed.
  void (*on_path_change)(void *state, uint64_t now_ns, const struct alcc_path *path);
  // The time of `next_timer` has come.
  void (*on_timer)(void *state, uint64_t now_ns);
  // When `on_timer` wants to be called, or ALCC_NONE; later than the time of the last `on_timer`. NULL: never.
  uint64_t (*next_timer)(const void *state);
  // Fills in the internal values, in the order of `gauge_names`.
  void (*gauges)(const void *state, double *values);
};

#endif  /* ALCC_PLUGIN_H */
