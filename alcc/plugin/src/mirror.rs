// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Conversion of events and results to C structures and back: one list of members generates both directions. Members
//! that are not numbers, such as the packets of a batch, are converted by the two adaptors (`adaptor.rs`, and
//! `algorithm.rs` of the laboratory's plug-in).
use crate::abi::*;
use alcc_cc::{
    AckBatch, Allowance, Kind, LossBatch, Needs, Packet, Path, Recovery, RecoveryEnd, Rto, RttView,
    Sent, Source, Tag,
};
use alcc_units::{Bytes, Rate, Span, Time};

/// A value as a member of a C structure.
trait Member<C>: Sized {
    fn there(&self) -> C;
    fn back(c: &C) -> Self;
}

macro_rules! members {
    ($($ours:ty = $c:ty: |$value:ident| $there:expr, |$from:ident| $back:expr;)*) => {$(
        impl Member<$c> for $ours {
            fn there(&self) -> $c {
                let $value = *self;
                $there
            }
            fn back(c: &$c) -> Self {
                let $from = *c;
                $back
            }
        }
    )*};
}

members! {
    u64 = u64: |n| n, |n| n;
    u32 = u32: |n| n, |n| n;
    bool = u32: |on| on.into(), |n| n != 0;
    Bytes = u64: |bytes| bytes.get(), |n| Self::new(n);
    Time = u64: |time| time.as_nanos(), |ns| Self::from_nanos(ns);
    Span = u64: |span| span.as_nanos(), |ns| Self::from_nanos(ns);
    Option<Span> = u64: |span| span.map_or(ALCC_NONE, Span::as_nanos), |ns| (ns != ALCC_NONE).then(|| Span::from_nanos(ns));
    Option<Rate> = u64: |rate| rate.map_or(ALCC_NONE, Rate::as_bps), |bps| (bps != ALCC_NONE).then(|| Rate::bps(bps));
    Tag = u64: |tag| tag.0, |n| Self(n);
    RttView = alcc_rtt: |rtt| (&rtt).into(), |rtt| (&rtt).into();
    Packet = alcc_packet: |packet| (&packet).into(), |packet| (&packet).into();
}

/// A value as flags, of which those of `mask` are converted.
trait Flags: Sized {
    fn there(&self, mask: u32) -> u32;
    fn back(set: u32) -> Self;
}

impl Flags for bool {
    fn there(&self, mask: u32) -> u32 {
        u32::from(*self) * mask
    }
    fn back(set: u32) -> Self {
        set != 0
    }
}

impl Flags for Source {
    fn there(&self, mask: u32) -> u32 {
        u32::from(*self == Self::TcpInfo) * mask
    }
    fn back(set: u32) -> Self {
        match set {
            0 => Self::Wire,
            _ => Self::TcpInfo,
        }
    }
}

impl Flags for Recovery {
    fn there(&self, mask: u32) -> u32 {
        u32::from(*self == Self::Prr) * mask
    }
    fn back(set: u32) -> Self {
        match set {
            0 => Self::AtOnce,
            _ => Self::Prr,
        }
    }
}

impl Flags for Kind {
    fn there(&self, _mask: u32) -> u32 {
        match self {
            Self::New => 0,
            Self::Retransmit => ALCC_PACKET_RETRANSMIT,
            Self::Probe => ALCC_PACKET_PROBE,
        }
    }
    fn back(set: u32) -> Self {
        match set {
            0 => Self::New,
            ALCC_PACKET_PROBE => Self::Probe,
            _ => Self::Retransmit,
        }
    }
}

const KIND: u32 = ALCC_PACKET_RETRANSMIT | ALCC_PACKET_PROBE;

macro_rules! mirror {
    ($(
        $ours:ty, $theirs:ident $(($size:ident))? {
            $($($of:ident).+ = $member:ident),* $(,)?
        } $({ $($($flag:ident).+ = $mask:expr),* $(,)? })?
    )*) => {$(
        impl From<&$ours> for $theirs {
            #[inline]
            fn from(ours: &$ours) -> Self {
                let mut theirs = Self::default();
                $(theirs.$size = size_of::<Self>() as u32;)?
                $(theirs.$member = Member::there(&ours.$($of).+);)*
                $($(theirs.flags |= Flags::there(&ours.$($flag).+, $mask);)*)?
                theirs
            }
        }
        impl From<&$theirs> for $ours {
            #[inline]
            fn from(theirs: &$theirs) -> Self {
                let mut ours = Self::default();
                $(ours.$($of).+ = Member::back(&theirs.$member);)*
                $($(ours.$($flag).+ = Flags::back(theirs.flags & $mask);)*)?
                ours
            }
        }
    )*};
}

mirror! {
    Path, alcc_path (size) { mss = mss, rtt_hint = rtt_hint_ns, seed = seed }
    Sent, alcc_sent (size) {
        pn = number, len = length, in_flight_before = in_flight_before,
    } { kind = KIND, app_limited = ALCC_PACKET_APP_LIMITED }
    Packet, alcc_packet {
        pn = number, len = length, sent_at = sent_at_ns, tag = tag, rtt = rtt_ns,
        stamp.delivered = delivered, stamp.delivered_at = delivered_at_ns,
        stamp.first_sent_at = first_sent_at_ns, stamp.in_flight = in_flight,
    } { kind = KIND, stamp.app_limited = ALCC_PACKET_APP_LIMITED }
    RttView, alcc_rtt {
        latest = latest_ns, smoothed = smoothed_ns, variance = variance_ns, min = min_ns,
    }
    AckBatch<'_>, alcc_ack (size) {
        in_flight_before = in_flight_before, in_flight = in_flight, delivered = delivered,
        rtt = rtt, rate = rate_bps, rtt_error = rtt_error_ns, marked = marked,
    } {
        limited.window = ALCC_ACK_LIMITED_BY_WINDOW, limited.quota = ALCC_ACK_LIMITED_BY_QUOTA,
        limited.pacer = ALCC_ACK_LIMITED_BY_PACING, limited.app = ALCC_ACK_LIMITED_BY_APP,
        limited.peer = ALCC_ACK_LIMITED_BY_PEER, round_start = ALCC_ACK_ROUND_START,
        in_recovery = ALCC_ACK_IN_RECOVERY, source = ALCC_ACK_FROM_COUNTERS,
        advanced = ALCC_ACK_ADVANCED,
    }
    LossBatch<'_>, alcc_loss (size) { new_episode = new_episode, in_flight = in_flight, rtt = rtt }
    Rto, alcc_rto (size) {
        backoff = backoff, oldest = oldest, in_flight = in_flight, silence = silence_ns,
    }
    RecoveryEnd, alcc_recovery_end (size) { in_flight = in_flight, rtt = rtt }
    Allowance, alcc_allowance (size) {
        ping = ping, window = window, quota = quota, rate = rate_bps, burst = burst,
    }
    Needs, alcc_needs (size) { feedback_period = feedback_period_ns } {
        per_packet_ack = ALCC_NEEDS_PER_PACKET_ACK, paced = ALCC_NEEDS_PACING,
        recovery = ALCC_NEEDS_PRR, ecn = ALCC_NEEDS_ECN, strict = ALCC_NEEDS_STRICT,
        stream = ALCC_NEEDS_STREAM,
    }
}
