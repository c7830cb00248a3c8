// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a host does around an algorithm, as one table: a row is a kernel of a certain age, or the program of a paper.
//!
//! | | `linux` | `linux-3.16` | `linux-2.6.24` | `windows7-newreno` | source |
//! |---|---|---|---|---|---|
//! | loss found by | RACK | 3 segments (FACK) | 3 segments (FACK) | 3 segments | RFC 8985; RFC 6675; tcp_input |
//! | tail probe | yes | yes | no | no | RFC 8985, section 7 |
//! | recovery | PRR (RFC 6937bis) | PRR (RFC 6937) | rate halving | window at once | tcp_cwnd_reduction |
//! | timeout: first, least | 1 s, 200 ms | 1 s, 200 ms | 3 s, 200 ms | 3 s, 300 ms | tcp_timer; Windows' TcpInitialRTO (from memory) |
//! | mistakes undone by | time stamps, F-RTO, DSACK | same | same | nothing | RFC 3522, 5682; tcp_undo |
//! | time stamps | yes | yes | yes | no | |
//! | delayed ACK | 2 segments, 40 ms, 16 quick | same | same | 2 segments, 200 ms | tcp_input; Windows' default |
//! | send buffer at most | 4 MiB | 4 MiB | 4 MiB | none that counts | tcp_wmem |
//! | receive buffer at most | 32 MiB | 6 MiB | 4 MiB | 16 MiB | tcp_rmem |
//!
//! The datagram rows: ours, that of `alcc-udp`, and those of the authors' programs:
//!
//! | | `datagrams` (ours) | `udp` | `verus-original` | `copa-original` | `sprout-original` |
//! |---|---|---|---|---|---|
//! | payload of a packet | 1472 | 1367 | 1450 | 1440 | 1440 |
//! | loss found by | 3 packets | same | a gap 150 ms old, at the epoch's timer | any gap | any gap |
//! | lost data is sent again | yes | yes | no | no | no |
//! | timeout | RFC 6298, at least 1 s | same | 5 x RTT in 150 to 1000 ms, no backoff, only told | 2 s of silence, all forgotten | none |
//! | acknowledged | as the algorithm wants | each 5 ms, with the time of each packet | each packet | each packet | each packet |
use alcc_cc::Stack;
use alcc_units::{Bytes, Span};

/// The rules of one host. A public constant per row, [`Rules::of`] finds one.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rules {
    /// What it is chosen by.
    pub name: &'static str,
    /// Payload of a full packet.
    pub mss: Bytes,
    /// What the wire adds: IP and transport headers with their usual options.
    pub header: Bytes,
    /// Length of an acknowledgement on the wire, without SACK blocks.
    pub ack_len: Bytes,
    /// How the peer says what has arrived.
    pub form: Form,
    /// Segments carry time stamps (RFC 7323).
    pub timestamps: bool,
    /// Acknowledgements say when each packet arrived: a sample is free of the time for which they were held back.
    pub arrivals: bool,
    /// When a packet counts as lost.
    pub detection: Detection,
    /// Probe for a lost tail (RFC 8985, section 7).
    pub tail_probe: bool,
    /// How what leaves is shaped while losses are repaired, for algorithms that leave this to the host.
    pub shape: Shape,
    /// A packet may leave while less than the window is in flight, even if it then is more.
    pub overshoots: bool,
    /// The retransmission timer.
    pub timeout: Timeout,
    /// How it acknowledges.
    pub acks: AckRule,
    /// Send buffer at first and at most, as the kernel counts; zero: data is not limited by a buffer.
    pub send_buffer: (Bytes, Bytes),
    /// What a segment takes of the send buffer beyond its payload.
    pub overhead: Bytes,
    /// Receive window at first and at most.
    pub window: (Bytes, Bytes),
}

/// How the peer says what has arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// TCP: up to which byte the stream is complete, and up to four ranges of bytes beyond (SACK).
    Stream,
    /// Ranges of transmission numbers.
    Datagrams {
        /// What is lost is sent again.
        reliable: bool,
    },
}

/// When a packet counts as lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Detection {
    /// By time: one sent later has arrived, and this one should have (RFC 8985).
    Rack,
    /// One sent so many transmissions later has arrived. For a stream this is FACK, retransmissions included.
    Packets(u64),
    /// The gap that it left is so old as the algorithm's own timer comes.
    Gap(Span),
}

/// How sending is shaped in recovery, towards the window that the algorithm publishes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// The published window holds at once.
    AtOnce,
    /// Proportional rate reduction (RFC 6937); `bis`: its revision, as in Linux since 4.3.
    Prr {
        /// The revision.
        bis: bool,
    },
    /// One segment less per two acknowledgements, and never more than one more than is in flight (Linux before 3.2).
    RateHalving,
}

/// The retransmission timer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timeout {
    /// Before the first sample.
    pub first: Span,
    /// How it follows the RTT.
    pub rule: TimeoutRule,
    /// It never grows beyond.
    pub most: Span,
    /// What its expiry means.
    pub expiry: Expiry,
}

/// How the retransmission timer follows the round-trip time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimeoutRule {
    /// Linux: smoothed RTT plus a deviation, this at least so long and kept for a round trip.
    Kernel(Span),
    /// RFC 6298 with this minimum for the whole.
    Rfc(Span),
    /// A multiple of the newest sample, between two bounds, never doubled.
    Multiple(u64, Span, Span),
    /// Always the same, never doubled.
    Fixed(Span),
    /// There is none.
    Never,
}

/// What an expiry of the retransmission timer means for what is in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expiry {
    /// All of it is lost.
    DeclareAll,
    /// Nothing is known: the oldest packet is sent once more, whatever the window.
    Probe,
    /// The algorithm is told; nothing else happens.
    Tell,
}

/// How a receiver acknowledges.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AckRule {
    /// After so many packets at the latest.
    pub every: u64,
    /// After so long at the latest.
    pub delay: Span,
    /// So many at the start at once.
    pub quick: u64,
}

impl AckRule {
    /// Every packet by itself.
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
    form: Form::Stream,
    timestamps: true,
    arrivals: false,
    detection: Detection::Rack,
    tail_probe: true,
    shape: Shape::Prr { bis: true },
    overshoots: false,
    timeout: Timeout {
        first: Span::from_secs(1),
        rule: TimeoutRule::Kernel(Span::from_millis(200)),
        most: Span::from_secs(120),
        expiry: Expiry::DeclareAll,
    },
    acks: DELAYED,
    send_buffer: (Bytes::new(87_040), Bytes::new(4 << 20)),
    // Two segments per buffer head of about 1280 bytes, as they are split off when they leave.
    overhead: Bytes::new(640),
    window: (Bytes::new(65_535), Bytes::new(16 << 20)),
};

/// Linux 3.16, the kernel of the Verus paper.
pub const LINUX_3_16: Rules = Rules {
    name: "linux-3.16",
    detection: Detection::Packets(3),
    shape: Shape::Prr { bis: false },
    window: (Bytes::new(29_200), Bytes::new(3 << 20)),
    ..LINUX
};

/// Linux 2.6.24, the kernel of the HSDPA paper.
pub const LINUX_2_6_24: Rules = Rules {
    name: "linux-2.6.24",
    tail_probe: false,
    shape: Shape::RateHalving,
    timeout: Timeout {
        first: Span::from_secs(3),
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
    detection: Detection::Packets(3),
    tail_probe: false,
    shape: Shape::AtOnce,
    timeout: Timeout {
        first: Span::from_secs(3),
        rule: TimeoutRule::Rfc(Span::from_millis(300)),
        ..LINUX.timeout
    },
    acks: AckRule {
        delay: Span::from_millis(200),
        quick: 0,
        ..DELAYED
    },
    send_buffer: (Bytes::ZERO, Bytes::ZERO),
    window: (Bytes::new(65_535), Bytes::new(16 << 20)),
    ..LINUX
};

/// Datagrams with our own rules: for algorithms that send packets themselves.
pub const DATAGRAMS: Rules = Rules {
    name: "datagrams",
    mss: Bytes::new(1472),
    header: UDP_HEADER,
    ack_len: Bytes::new(52),
    form: Form::Datagrams { reliable: true },
    timestamps: false,
    arrivals: false,
    detection: Detection::Packets(3),
    tail_probe: false,
    shape: Shape::AtOnce,
    overshoots: false,
    timeout: Timeout {
        first: Span::from_secs(1),
        // A shorter one takes the outages of a cellular link for losses.
        rule: TimeoutRule::Rfc(Span::from_secs(1)),
        most: Span::from_secs(60),
        expiry: Expiry::Probe,
    },
    acks: DELAYED,
    send_buffer: (Bytes::ZERO, Bytes::ZERO),
    overhead: Bytes::ZERO,
    window: (Bytes::new(1 << 30), Bytes::new(1 << 30)),
};

/// Our own datagrams as `alcc-udp` puts them on a wire: 1400 bytes each, of which 33 are its header.
pub const UDP: Rules = Rules {
    name: "udp",
    mss: Bytes::new(1400 - 33),
    header: Bytes::new(28 + 33),
    // One range, and the times of some five packets that came since the acknowledgement before, and of as many before.
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

/// The Verus authors' program.
pub const VERUS: Rules = Rules {
    name: "verus-original",
    mss: Bytes::new(1450),
    ack_len: Bytes::new(64),
    form: Form::Datagrams { reliable: false },
    detection: Detection::Gap(Span::from_millis(150)),
    timeout: Timeout {
        first: Span::from_secs(1),
        rule: TimeoutRule::Multiple(5, Span::from_millis(150), Span::from_secs(1)),
        most: Span::from_secs(1),
        expiry: Expiry::Tell,
    },
    acks: AckRule::EACH,
    ..DATAGRAMS
};

/// genericCC, with which Copa's authors published it.
pub const COPA: Rules = Rules {
    name: "copa-original",
    mss: Bytes::new(1440),
    form: Form::Datagrams { reliable: false },
    detection: Detection::Packets(1),
    overshoots: true,
    timeout: Timeout {
        first: Span::from_secs(2),
        rule: TimeoutRule::Fixed(Span::from_secs(2)),
        most: Span::from_secs(2),
        expiry: Expiry::DeclareAll,
    },
    acks: AckRule::EACH,
    ..DATAGRAMS
};

/// The Sprout authors' program.
pub const SPROUT: Rules = Rules {
    name: "sprout-original",
    mss: Bytes::new(1440),
    form: Form::Datagrams { reliable: false },
    detection: Detection::Packets(1),
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
        VERUS,
        COPA,
        SPROUT,
    ];

    /// The row of that stack.
    pub const fn of(stack: Stack) -> &'static Self {
        match stack {
            Stack::Linux => &LINUX,
            Stack::Linux3_16 => &LINUX_3_16,
            Stack::Linux2_6_24 => &LINUX_2_6_24,
            Stack::Windows7 => &WINDOWS_7,
            Stack::Datagrams => &DATAGRAMS,
            Stack::Udp => &UDP,
            Stack::VerusOriginal => &VERUS,
            Stack::CopaOriginal => &COPA,
            Stack::SproutOriginal => &SPROUT,
        }
    }

    /// The row of that name, for a user who names one.
    pub fn named(name: &str) -> Option<&'static Self> {
        Self::ALL.iter().find(|rules| rules.name == name)
    }

    /// They are those of a TCP.
    pub fn is_stream(&self) -> bool {
        self.form == Form::Stream
    }
}
