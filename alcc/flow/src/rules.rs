// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The host's behaviour around an algorithm, as one table. A row is a kernel of a certain age, or the program of a
//! paper.
//!
//! | | `linux` | `linux-3.16` | `linux-2.6.24` | `windows7-newreno` | source |
//! |---|---|---|---|---|---|
//! | loss detection | RACK | 3 segments (FACK) | 3 segments (FACK) | 3 segments | RFC 8985; RFC 6675; tcp_input |
//! | tail probe | yes | yes | no | no | RFC 8985, section 7 |
//! | recovery | PRR (RFC 6937bis) | PRR (RFC 6937) | rate halving | immediate | tcp_cwnd_reduction |
//! | timeout: initial, minimum | 1 s, 200 ms | 1 s, 200 ms | 3 s, 200 ms | 3 s, 300 ms | tcp_timer; Windows' TcpInitialRTO (from memory) |
//! | spurious reductions undone by | time stamps, F-RTO, DSACK | same | same | nothing | RFC 3522, 5682; tcp_undo |
//! | time stamps | yes | yes | yes | no | |
//! | delayed ACK | 2 segments, 40 ms; 16 quick, and each that opens the window | same | same | 2 segments, 200 ms | tcp_input; Windows' default |
//! | maximum send buffer | 4 MiB | 4 MiB | 4 MiB | none that counts | tcp_wmem |
//! | maximum receive buffer | 32 MiB | 6 MiB | 4 MiB | 16 MiB | tcp_rmem |
//!
//! The datagram rows: this project's own, that of `alcc-udp`, and those of the authors' programs:
//!
//! | | `datagrams` | `udp` | `verus-paper` | `verus-original` | `copa-original` | `sprout-original` |
//! |---|---|---|---|---|---|---|
//! | payload of a packet | 1472 | 1367 | 1472 | 1450 | 1440 | 1440 |
//! | loss detection | RACK | same | 3 smoothed RTTs after the gap was found, at the epoch's timer | a gap 150 ms old, at the epoch's timer | any gap | any gap |
//! | retransmission | yes | yes | yes | no | no | no |
//! | timeout | RTT + 200 ms or more: a probe, after 1 s reported | same | RFC 6298, at least 1 s: a probe, and reported | 5 x RTT in 150 to 1000 ms, no backoff, only reported | 2 s of silence, all marked lost | none |
//! | acknowledgements | as the algorithm wants | each 5 ms, with the time of each packet | as the algorithm wants | each packet | each packet | each packet |
use alcc_units::{Bytes, Span};

/// The rules of one host. Each row is a public constant; [`Rules::named`] finds one.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rules {
    /// Its name.
    pub name: &'static str,
    /// Payload of a full packet.
    pub mss: Bytes,
    /// Overhead on the wire: IP and transport headers with their usual options.
    pub header: Bytes,
    /// Length of an acknowledgement on the wire, without SACK blocks.
    pub ack_len: Bytes,
    /// Form of acknowledgements.
    pub ack_semantics: AckSemantics,
    /// True if segments carry time stamps (RFC 7323).
    pub timestamps: bool,
    /// True if ACKs carry the receive time of each packet, so that RTT samples exclude the ACK delay. Packets whose
    /// arrival cannot have been reported yet do not count as in flight.
    pub arrivals: bool,
    /// Loss detection.
    pub detection: Detection,
    /// Tail loss probe (RFC 8985, section 7).
    pub tail_probe: bool,
    /// Rate reduction in recovery, for algorithms that leave it to the host.
    pub reduction: Reduction,
    /// True if a packet may be sent while less than the window is in flight, even if it then exceeds it.
    pub overshoots: bool,
    /// The retransmission timer.
    pub timeout: Timeout,
    /// The rule for sending acknowledgements.
    pub acks: AckRule,
    /// Initial and maximum send buffer, as the kernel counts it; zero: unlimited.
    pub send_buffer: (Bytes, Bytes),
    /// The application may write while less than this is unsent (`TCP_NOTSENT_LOWAT`, tcp(7)); `None`: always.
    pub notsent_lowat: Option<Bytes>,
    /// Memory of a segment in the send buffer beyond its payload.
    pub overhead: Bytes,
    /// Initial and maximum receive window.
    pub window: (Bytes, Bytes),
}

/// Form of acknowledgements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AckSemantics {
    /// TCP: a cumulative ACK and up to four SACK blocks.
    ByteStream,
    /// Ranges of packet numbers.
    PacketNumbers {
        /// True if lost data is retransmitted.
        reliable: bool,
    },
}

/// Loss detection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Detection {
    /// By time: a later packet has arrived, and this one is overdue (RFC 8985).
    Rack,
    /// By packet threshold: a packet sent this many packets later has arrived. For a stream this is
    /// FACK, retransmissions included.
    PacketThreshold(u64),
    /// By time threshold: the hole is this old when the algorithm's own timer fires.
    TimeThreshold(Patience),
}

/// The age of a hole at which its packets are lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Patience {
    /// A constant.
    Fixed(Span),
    /// A number of smoothed RTTs.
    Rtts(u64),
}

/// Rate reduction in recovery, down to the algorithm's window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reduction {
    /// The window applies at once.
    Immediate,
    /// Proportional rate reduction (RFC 6937).
    Prr {
        /// True for the revision of it, as in Linux since 4.3.
        bis: bool,
    },
    /// One segment less per two ACKs, and at most one segment per ACK (Linux before 3.2).
    RateHalving,
}

/// The retransmission timer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timeout {
    /// RTO before the first RTT sample.
    pub initial: Span,
    /// Dependence on the RTT.
    pub rule: TimeoutRule,
    /// Upper bound of the RTO.
    pub max: Span,
    /// Action at expiry.
    pub on_expiry: Expiry,
}

/// Dependence of the RTO on the RTT.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimeoutRule {
    /// Linux: smoothed RTT plus a variance of at least this, kept for a round trip.
    Linux(Span),
    /// RFC 6298, with this minimum RTO.
    Rfc6298(Span),
    /// A multiple of the latest RTT between two bounds, without backoff.
    Multiple(u64, Span, Span),
    /// Constant, without backoff.
    Fixed(Span),
    /// No timer.
    Never,
}

/// Action at expiry of the retransmission timer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expiry {
    /// Everything in flight is marked lost.
    MarkAllLost,
    /// Nothing is marked lost; the oldest packet is sent again, whatever the window. Expiries are reported to the
    /// algorithm from this length of silence on (RFC 9002, section 6.2: a probe timeout is no sign of loss).
    Probe(Span),
    /// The algorithm is informed; nothing else happens.
    Notify,
}

/// The rule for sending acknowledgements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AckRule {
    /// Maximum number of packets per acknowledgement.
    pub every: u64,
    /// Longest time for which an acknowledgement is delayed.
    pub delay: Span,
    /// Number of first ACKs that are sent at once. If not zero, each segment that opens the receive window is
    /// acknowledged at once, too.
    pub quick: u64,
}

impl AckRule {
    /// Acknowledges every packet.
    pub const EACH: Self = Self {
        every: 1,
        delay: Span::ZERO,
        quick: 0,
    };
}

const DELAYED: AckRule = AckRule {
    every: 2,
    delay: Span::from_millis(40),
    quick: 16,
};

const UDP_HEADER: Bytes = Bytes::new(28);

/// Linux 6.
pub const LINUX: Rules = Rules {
    name: "linux",
    mss: Bytes::new(1448),
    header: Bytes::new(52),
    ack_len: Bytes::new(52),
    ack_semantics: AckSemantics::ByteStream,
    timestamps: true,
    arrivals: false,
    detection: Detection::Rack,
    tail_probe: true,
    reduction: Reduction::Prr { bis: true },
    overshoots: false,
    timeout: Timeout {
        initial: Span::from_secs(1),
        rule: TimeoutRule::Linux(Span::from_millis(200)),
        max: Span::from_secs(120),
        on_expiry: Expiry::MarkAllLost,
    },
    acks: DELAYED,
    send_buffer: (Bytes::new(87_040), Bytes::new(4 << 20)),
    notsent_lowat: None,
    // Two segments per buffer head of about 1280 bytes, because segments are split off when they are sent.
    overhead: Bytes::new(640),
    window: (Bytes::new(65_535), Bytes::new(16 << 20)),
};

/// Linux 3.16, the kernel of the Verus paper.
pub const LINUX_3_16: Rules = Rules {
    name: "linux-3.16",
    detection: Detection::PacketThreshold(3),
    reduction: Reduction::Prr { bis: false },
    window: (Bytes::new(29_200), Bytes::new(3 << 20)),
    ..LINUX
};

/// Linux 2.6.24, the kernel of the HSDPA paper.
pub const LINUX_2_6_24: Rules = Rules {
    name: "linux-2.6.24",
    tail_probe: false,
    reduction: Reduction::RateHalving,
    timeout: Timeout {
        initial: Span::from_secs(3),
        ..LINUX.timeout
    },
    window: (Bytes::new(5_792), Bytes::new(2 << 20)),
    ..LINUX_3_16
};

/// NewReno as in Windows 7, the other TCP of the Verus paper.
pub const WINDOWS_7: Rules = Rules {
    name: "windows7-newreno",
    mss: Bytes::new(1460),
    header: Bytes::new(40),
    ack_len: Bytes::new(40),
    timestamps: false,
    detection: Detection::PacketThreshold(3),
    tail_probe: false,
    reduction: Reduction::Immediate,
    timeout: Timeout {
        initial: Span::from_secs(3),
        rule: TimeoutRule::Rfc6298(Span::from_millis(300)),
        ..LINUX.timeout
    },
    acks: AckRule {
        delay: Span::from_millis(200),
        quick: 0,
        ..DELAYED
    },
    send_buffer: (Bytes::ZERO, Bytes::ZERO),
    notsent_lowat: None,
    window: (Bytes::new(65_535), Bytes::new(16 << 20)),
    ..LINUX
};

/// Datagrams with this project's own rules: for algorithms that send packets themselves.
pub const DATAGRAMS: Rules = Rules {
    name: "datagrams",
    mss: Bytes::new(1472),
    header: UDP_HEADER,
    ack_len: Bytes::new(52),
    ack_semantics: AckSemantics::PacketNumbers { reliable: true },
    timestamps: false,
    arrivals: false,
    detection: Detection::Rack,
    tail_probe: false,
    reduction: Reduction::Immediate,
    overshoots: false,
    timeout: Timeout {
        initial: Span::from_secs(1),
        rule: TimeoutRule::Linux(Span::from_millis(200)),
        max: Span::from_secs(60),
        on_expiry: Expiry::Probe(Span::from_secs(1)),
    },
    acks: DELAYED,
    send_buffer: (Bytes::ZERO, Bytes::ZERO),
    notsent_lowat: None,
    overhead: Bytes::ZERO,
    window: (Bytes::new(1 << 30), Bytes::new(1 << 30)),
};

/// Datagrams as `alcc-udp` sends them: 1400 bytes each, with a header of 33.
pub const UDP: Rules = Rules {
    name: "udp",
    mss: Bytes::new(1400 - 33),
    header: Bytes::new(28 + 33),
    // One range, the receive times of some five new packets, and of as many reported before.
    ack_len: Bytes::new(28 + 120),
    arrivals: true,
    acks: AckRule {
        every: 64,
        delay: Span::from_millis(5),
        quick: 0,
    },
    window: (Bytes::new(16 << 20), Bytes::new(16 << 20)),
    ..DATAGRAMS
};

/// Verus by the text of its paper (section 5.2): each missing packet has a timer of three delays.
pub const VERUS_PAPER: Rules = Rules {
    name: "verus-paper",
    detection: Detection::TimeThreshold(Patience::Rtts(3)),
    timeout: Timeout {
        rule: TimeoutRule::Rfc6298(Span::from_secs(1)),
        ..DATAGRAMS.timeout
    },
    ..DATAGRAMS
};

/// The Verus authors' program.
pub const VERUS: Rules = Rules {
    name: "verus-original",
    mss: Bytes::new(1450),
    ack_len: Bytes::new(64),
    ack_semantics: AckSemantics::PacketNumbers { reliable: false },
    detection: Detection::TimeThreshold(Patience::Fixed(Span::from_millis(150))),
    timeout: Timeout {
        initial: Span::from_secs(1),
        rule: TimeoutRule::Multiple(5, Span::from_millis(150), Span::from_secs(1)),
        max: Span::from_secs(1),
        on_expiry: Expiry::Notify,
    },
    acks: AckRule::EACH,
    ..DATAGRAMS
};

/// genericCC, with which Copa's authors published it.
pub const COPA: Rules = Rules {
    name: "copa-original",
    mss: Bytes::new(1440),
    ack_semantics: AckSemantics::PacketNumbers { reliable: false },
    detection: Detection::PacketThreshold(1),
    overshoots: true,
    timeout: Timeout {
        initial: Span::from_secs(2),
        rule: TimeoutRule::Fixed(Span::from_secs(2)),
        max: Span::from_secs(2),
        on_expiry: Expiry::MarkAllLost,
    },
    acks: AckRule::EACH,
    ..DATAGRAMS
};

/// The Sprout authors' program.
pub const SPROUT: Rules = Rules {
    name: "sprout-original",
    mss: Bytes::new(1440),
    ack_semantics: AckSemantics::PacketNumbers { reliable: false },
    detection: Detection::PacketThreshold(1),
    timeout: Timeout {
        rule: TimeoutRule::Never,
        ..DATAGRAMS.timeout
    },
    acks: AckRule::EACH,
    ..DATAGRAMS
};

impl Rules {
    /// All rows.
    pub const ALL: &'static [Self] = &[
        LINUX,
        LINUX_3_16,
        LINUX_2_6_24,
        WINDOWS_7,
        DATAGRAMS,
        UDP,
        VERUS_PAPER,
        VERUS,
        COPA,
        SPROUT,
    ];

    /// The row with this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        Self::ALL.iter().find(|rules| rules.name == name)
    }

    /// True for the rules of a TCP implementation: acknowledgements name bytes of a stream.
    pub fn is_stream(&self) -> bool {
        self.ack_semantics == AckSemantics::ByteStream
    }
}
