// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The interface of an algorithm in C. These types become `alcc.h`, with these comments.
//!
//! Compatibility: structures of events and results begin with the size that the host knows, and grow at the end. The
//! tables of callbacks begin with the size that the plug-in knows. Callbacks beyond that size are NULL. `alcc_packet`
//! and `alcc_rtt` are parts of others, so they change only with [`ALCC_PLUGIN_ABI`].
use std::ffi::{c_char, c_void};

/// The version of this interface, the first member of `struct alcc_algorithm`.
pub const ALCC_PLUGIN_ABI: u32 = 3;

/// "None" for every 64-bit number: no limit, no pacing rate, no timer, no sample.
pub const ALCC_NONE: u64 = 0xFFFF_FFFF_FFFF_FFFF;

/// Flag of a packet: a retransmission.
pub const ALCC_PACKET_RETRANSMIT: u32 = 1;
/// Flag of a packet: a probe after silence.
pub const ALCC_PACKET_PROBE: u32 = 2;
/// Flag of a packet: the application had no more data.
pub const ALCC_PACKET_APP_LIMITED: u32 = 4;

/// Flag of an acknowledgement: your window limited the sender since the last one.
pub const ALCC_ACK_LIMITED_BY_WINDOW: u32 = 1;
/// Flag of an acknowledgement: your quota limited the sender.
pub const ALCC_ACK_LIMITED_BY_QUOTA: u32 = 2;
/// Flag of an acknowledgement: pacing limited the sender.
pub const ALCC_ACK_LIMITED_BY_PACING: u32 = 4;
/// Flag of an acknowledgement: the application had no more data.
pub const ALCC_ACK_LIMITED_BY_APP: u32 = 8;
/// Flag of an acknowledgement: something below limited the sender, such as the receiver's window.
pub const ALCC_ACK_LIMITED_BY_PEER: u32 = 16;
/// Flag of an acknowledgement: a packet-timed round trip begins.
pub const ALCC_ACK_ROUND_START: u32 = 32;
/// Flag of an acknowledgement: a loss is being repaired.
pub const ALCC_ACK_IN_RECOVERY: u32 = 64;
/// Flag of an acknowledgement: read from kernel counters at an interval, not from packets.
pub const ALCC_ACK_FROM_COUNTERS: u32 = 128;
/// Flag of an acknowledgement: the oldest data in flight has arrived. A kernel's window does not grow without it.
pub const ALCC_ACK_ADVANCED: u32 = 256;

/// `alcc_needs.flags`: delayed or aggregated acknowledgements hurt.
pub const ALCC_NEEDS_PER_PACKET_ACK: u32 = 1;
/// `alcc_needs.flags`: the allowance has a pacing rate.
pub const ALCC_NEEDS_PACING: u32 = 2;
/// `alcc_needs.flags`: proportional rate reduction (RFC 6937) during recovery.
pub const ALCC_NEEDS_PRR: u32 = 4;
/// `alcc_needs.flags`: it reacts to marks (ECN), so its packets may be marked instead of dropped.
pub const ALCC_NEEDS_ECN: u32 = 8;
/// `alcc_needs.flags`: its limit is enforced whatever it costs. Other algorithms leave control to the kernel while the
/// host sees their path too late.
pub const ALCC_NEEDS_STRICT: u32 = 16;
/// `alcc_needs.flags`: designed for TCP's own rules of loss detection and timers, not for datagrams.
pub const ALCC_NEEDS_STREAM: u32 = 32;

/// Maximum length of a header, in bytes.
pub const ALCC_HEADER_ROOM: u32 = 16;
/// Maximum length of a receiver module's report to the sender, in bytes.
pub const ALCC_REPORT_ROOM: u32 = 64;

/// Kind of an option: any text, in `text`.
pub const ALCC_OPTION_TEXT: u32 = 0;
/// Kind of an option: a whole number, in `whole`.
pub const ALCC_OPTION_WHOLE: u32 = 1;
/// Kind of an option: a real number, in `real`.
pub const ALCC_OPTION_REAL: u32 = 2;
/// Kind of an option: a length of time such as `5ms`, nanoseconds in `whole`.
pub const ALCC_OPTION_TIME: u32 = 3;
/// Kind of an option: a number of bytes such as `2M`, in `whole`.
pub const ALCC_OPTION_BYTES: u32 = 4;

/// One option of an algorithm: `aimd:beta=0.7`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct alcc_option {
    /// The name: letters, digits, `-` and `_`.
    pub name: *const c_char,
    /// The default, as typed.
    pub default_text: *const c_char,
    /// Meaning, unit and range, for `alcc list`.
    pub help: *const c_char,
    /// `ALCC_OPTION_...`.
    pub kind: u32,
    /// Zero.
    pub reserved: u32,
    /// Smallest value, in the unit of the kind. Both zero: no bounds.
    pub least: f64,
    /// Largest value, in the unit of the kind.
    pub most: f64,
}

/// The value of one option: as typed, or the default; within its bounds.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct alcc_value {
    /// As typed.
    pub text: *const c_char,
    /// A whole number, nanoseconds or bytes, by its kind; else 0.
    pub whole: u64,
    /// Any number, as a real number; else 0.
    pub real: f64,
}

/// The argument of `create`.
#[repr(C)]
pub struct alcc_create {
    /// Size of this structure.
    pub size: u32,
    /// Number of values, which is that of the algorithm's options.
    pub value_count: u32,
    /// Name of the algorithm, as in its table.
    pub algorithm: *const c_char,
    /// The chosen profile; NULL if the algorithm has none.
    pub profile: *const c_char,
    /// The values, in the order of the algorithm's options.
    pub values: *const alcc_value,
    /// Buffer for one line with the reason, if `create` returns NULL.
    pub error: *mut c_char,
    /// Size of that buffer in bytes.
    pub error_size: u64,
}

/// The requirements of an algorithm to its host. It is filled with the defaults.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct alcc_needs {
    /// Size of this structure.
    pub size: u32,
    /// `ALCC_NEEDS_...`
    pub flags: u32,
    /// Over TCP: the interval of reading acknowledgements, 1 ms to 100 ms. A shorter one costs wake-ups.
    pub feedback_period_ns: u64,
}

/// The path, when a connection starts.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct alcc_path {
    /// Size of this structure.
    pub size: u32,
    /// Zero.
    pub reserved: u32,
    /// Largest segment in bytes, at least 1.
    pub mss: u64,
    /// An RTT known before the first packet, or ALCC_NONE.
    pub rtt_hint_ns: u64,
    /// Seed of your random numbers: the same seed must give the same results.
    pub seed: u64,
}

/// A packet is sent.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct alcc_sent {
    /// Size of this structure.
    pub size: u32,
    /// `ALCC_PACKET_...`
    pub flags: u32,
    /// Transmission number: a new one for every transmission.
    pub number: u64,
    /// Length in bytes. Over TCP one record may stand for several segments.
    pub length: u64,
    /// Bytes in flight before it.
    pub in_flight_before: u64,
}

/// A packet that was acknowledged or lost.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct alcc_packet {
    /// Its transmission number.
    pub number: u64,
    /// Length in bytes.
    pub length: u64,
    /// Time of sending.
    pub sent_at_ns: u64,
    /// The tag that you returned when it was sent.
    pub tag: u64,
    /// Time from sending to acknowledgement; ALCC_NONE if lost or ambiguous.
    pub rtt_ns: u64,
    /// Total bytes delivered when it was sent.
    pub delivered: u64,
    /// Time at which that total was reached.
    pub delivered_at_ns: u64,
    /// Sending time of the first packet of its flight; this packet ended that flight.
    pub first_sent_at_ns: u64,
    /// Bytes in flight when it was sent, this packet included.
    pub in_flight: u64,
    /// `ALCC_PACKET_...`, as of sending.
    pub flags: u32,
    /// Zero.
    pub reserved: u32,
}

/// Round-trip times (RFC 6298); zero before the first sample.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct alcc_rtt {
    /// The newest sample.
    pub latest_ns: u64,
    /// Smoothed, weight 1/8.
    pub smoothed_ns: u64,
    /// Mean deviation, weight 1/4.
    pub variance_ns: u64,
    /// The smallest sample.
    pub min_ns: u64,
}

/// Packets were acknowledged: at least one, in the order of sending.
#[repr(C)]
#[derive(Default)]
pub struct alcc_ack {
    /// Size of this structure.
    pub size: u32,
    /// `ALCC_ACK_...`
    pub flags: u32,
    /// The packets.
    pub packets: *const alcc_packet,
    /// Number of packets.
    pub packet_count: u64,
    /// Bytes in flight before them.
    pub in_flight_before: u64,
    /// Bytes in flight after them.
    pub in_flight: u64,
    /// Bytes delivered in total.
    pub delivered: u64,
    /// Round-trip times.
    pub rtt: alcc_rtt,
    /// Delivery rate over the flight of the newest packet in bit/s, or ALCC_NONE.
    pub rate_bps: u64,
    /// Bound on the error of the RTT samples.
    pub rtt_error_ns: u64,
    /// Bytes that arrived with a mark (ECN, congestion experienced) since the last acknowledgement. The algorithm
    /// should react as to a loss, once per round trip.
    pub marked: u64,
}

/// Packets were lost: at least one. It comes before the acknowledgement that revealed them.
#[repr(C)]
#[derive(Default)]
pub struct alcc_loss {
    /// Size of this structure.
    pub size: u32,
    /// Not 0: the first loss of a recovery. Reduce the window once per recovery.
    pub new_episode: u32,
    /// The packets.
    pub packets: *const alcc_packet,
    /// Number of packets.
    pub packet_count: u64,
    /// Bytes in flight without the lost packets.
    pub in_flight: u64,
    /// Round-trip times.
    pub rtt: alcc_rtt,
}

/// The retransmission timer expired.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct alcc_rto {
    /// Size of this structure.
    pub size: u32,
    /// 1 on the first expiry for the same data, then 2, 3, ...
    pub backoff: u32,
    /// The oldest packet in flight.
    pub oldest: alcc_packet,
    /// Bytes in flight.
    pub in_flight: u64,
    /// Time since the last acknowledgement.
    pub silence_ns: u64,
}

/// Recovery has ended: all losses are repaired.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct alcc_recovery_end {
    /// Size of this structure.
    pub size: u32,
    /// Zero.
    pub reserved: u32,
    /// Bytes in flight.
    pub in_flight: u64,
    /// Round-trip times.
    pub rtt: alcc_rtt,
}

/// The allowance of an algorithm. It is filled with "no limit".
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct alcc_allowance {
    /// Size of this structure.
    pub size: u32,
    /// Not 0: one packet should be sent now, regardless of window and quota. Clear it in `on_sent`.
    pub ping: u32,
    /// Limit of bytes in flight; from one mss to 2^30, the largest window of TCP.
    pub window: u64,
    /// Bytes that may be sent now, whatever is in flight, or ALCC_NONE. Subtract the bytes that `on_sent` reports.
    pub quota: u64,
    /// Pacing rate in bit/s, 8000 to 10^12, or ALCC_NONE.
    pub rate_bps: u64,
    /// Bytes that may be sent back to back when paced.
    pub burst: u64,
}

/// The receiver module of an algorithm that needs the arrival times of packets. If the peer has no module, the host
/// keeps it beside the algorithm, and feeds it with acknowledgements. `algorithm` is the state of the algorithm,
/// `state` that returned by `create` or `clone` of the module. All callbacks are required.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct alcc_receiver {
    /// Size of this structure.
    pub size: u32,
    /// The length of headers, for which the host reserves space in each packet: at most ALCC_HEADER_ROOM bytes.
    pub header_length: u32,
    /// Writes the header of the packet of the algorithm's last `on_sent`, at most `header_length` bytes, and returns
    /// its length. `more`: another packet follows at once.
    pub on_header: Option<
        unsafe extern "C" fn(
            algorithm: *mut c_void,
            now_ns: u64,
            number: u64,
            more: u32,
            header: *mut u8,
        ) -> u64,
    >,
    /// A report of the receiver module for the algorithm. Its bytes come from the network and are untrusted.
    pub on_feedback: Option<
        unsafe extern "C" fn(algorithm: *mut c_void, now_ns: u64, report: *const u8, length: u64),
    >,
    /// Makes the receiver module of a connection; `algorithm` is the state of its algorithm.
    pub create: Option<unsafe extern "C" fn(algorithm: *const c_void) -> *mut c_void>,
    /// Makes a complete, independent copy.
    pub clone: Option<unsafe extern "C" fn(state: *const c_void) -> *mut c_void>,
    /// Frees the result of `create` or `clone`.
    pub destroy: Option<unsafe extern "C" fn(state: *mut c_void)>,
    /// A packet arrived. Its header comes from the network and is untrusted.
    pub on_packet: Option<
        unsafe extern "C" fn(
            state: *mut c_void,
            now_ns: u64,
            number: u64,
            length: u64,
            header: *const u8,
            header_length: u64,
        ),
    >,
    /// Called at the time that `next_timer` returned.
    pub on_timer: Option<unsafe extern "C" fn(state: *mut c_void, now_ns: u64)>,
    /// The time of the next call of `on_timer`, or ALCC_NONE.
    pub next_timer: Option<unsafe extern "C" fn(state: *const c_void) -> u64>,
    /// Writes a report for `on_feedback`, at most ALCC_REPORT_ROOM bytes. Returns its length, or
    /// ALCC_NONE if there is nothing to report.
    pub report:
        Option<unsafe extern "C" fn(state: *mut c_void, now_ns: u64, report: *mut u8) -> u64>,
}

/// An algorithm. A plug-in is a shared object that defines one constant of this type, named
/// `alcc_algorithm_v3`.
///
/// `state` is the result of `create` or `clone`: the state of one connection. Callbacks of one `state` never run at the
/// same time. Those of different states may, so keep no variables outside of it. Callbacks must not wait, do I/O or
/// unwind. Times are nanoseconds since an origin of the host and never decrease; calls may be late. The same events
/// must give the same results. NULL is allowed where a comment permits it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct alcc_algorithm {
    /// ALCC_PLUGIN_ABI.
    pub abi: u32,
    /// sizeof(struct alcc_algorithm).
    pub size: u32,
    /// Its name: lower-case letters, digits, `-` and `_`, at most 32.
    pub name: *const c_char,
    /// One line for `alcc list`.
    pub summary: *const c_char,
    /// Its options; NULL: none.
    pub options: *const alcc_option,
    /// Number of options, at most 64.
    pub option_count: u64,
    /// Names of its internal values for logs and plots; NULL: none.
    pub gauge_names: *const *const c_char,
    /// Number of these names, at most 64.
    pub gauge_count: u64,
    /// Names of its profiles, the values of `profile=`, the default first; NULL: none. If there is
    /// an algorithm of this name, these profiles are added to it.
    pub profile_names: *const *const c_char,
    /// Number of these names, at most 64.
    pub profile_count: u64,
    /// Makes the state of a new connection. NULL: refused, with the reason in `settings->error`.
    pub create: Option<unsafe extern "C" fn(settings: *const alcc_create) -> *mut c_void>,
    /// Makes a complete, independent copy.
    pub clone: Option<unsafe extern "C" fn(state: *const c_void) -> *mut c_void>,
    /// Frees the result of `create` or `clone`.
    pub destroy: Option<unsafe extern "C" fn(state: *mut c_void)>,
    /// Writes the current allowance. Called often.
    pub allowance: Option<unsafe extern "C" fn(state: *const c_void, out: *mut alcc_allowance)>,
    /// Packets were acknowledged.
    pub on_ack: Option<unsafe extern "C" fn(state: *mut c_void, now_ns: u64, ack: *const alcc_ack)>,
    /// Writes the requirements to the host. NULL: the defaults.
    pub needs: Option<unsafe extern "C" fn(state: *const c_void, out: *mut alcc_needs)>,
    /// Called once, before every other event. NULL, here and below: the event is ignored.
    pub on_start:
        Option<unsafe extern "C" fn(state: *mut c_void, now_ns: u64, path: *const alcc_path)>,
    /// A packet is sent. The result comes back with the packet as its tag.
    pub on_sent: Option<
        unsafe extern "C" fn(state: *mut c_void, now_ns: u64, sent: *const alcc_sent) -> u64,
    >,
    /// Packets were lost.
    pub on_loss:
        Option<unsafe extern "C" fn(state: *mut c_void, now_ns: u64, loss: *const alcc_loss)>,
    /// The retransmission timer expired.
    pub on_rto: Option<unsafe extern "C" fn(state: *mut c_void, now_ns: u64, rto: *const alcc_rto)>,
    /// The last reduction was spurious: the packets reported lost arrived (0), or the timeout was premature (1).
    pub on_spurious: Option<unsafe extern "C" fn(state: *mut c_void, now_ns: u64, timeout: u32)>,
    /// Recovery has ended: all losses are repaired.
    pub on_recovery_end: Option<
        unsafe extern "C" fn(state: *mut c_void, now_ns: u64, end: *const alcc_recovery_end),
    >,
    /// Sending restarts after `idle_ns` with nothing in flight.
    pub on_idle_restart:
        Option<unsafe extern "C" fn(state: *mut c_void, now_ns: u64, idle_ns: u64)>,
    /// Packets have another size from now on. The path is the same, so its properties stay valid.
    pub on_mtu: Option<unsafe extern "C" fn(state: *mut c_void, now_ns: u64, mss: u64)>,
    /// Called at the time that `next_timer` returned.
    pub on_timer: Option<unsafe extern "C" fn(state: *mut c_void, now_ns: u64)>,
    /// The time of the next call of `on_timer`, or ALCC_NONE; later than that of the last `on_timer`. NULL: never.
    pub next_timer: Option<unsafe extern "C" fn(state: *const c_void) -> u64>,
    /// Writes the internal values, in the order of `gauge_names`.
    pub gauges: Option<unsafe extern "C" fn(state: *const c_void, values: *mut f64)>,
    /// Frees memory that is not needed while nothing is sent for some time.
    pub release_memory: Option<unsafe extern "C" fn(state: *mut c_void)>,
    /// Its receiver module; NULL: none. An algorithm with one depends on its reports.
    pub receiver: *const alcc_receiver,
    /// For a plug-in with several algorithms: returns their tables by number from 0, and NULL after the last. Nothing
    /// else of the exported table is read then. NULL: there is only this algorithm.
    pub list: Option<unsafe extern "C" fn(number: u64) -> *const Self>,
}
