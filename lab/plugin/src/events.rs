// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The events of the C side as ours. The other direction is `events.rs` of `alcc-plugin`.
use alcc_cc::{
    AckBatch, Kind, LimitedBy, LossBatch, Packet, Path, RecoveryEnd, Rto, RttView, Sent, Source,
    Stamp, Tag,
};
use alcc_plugin::abi::*;
use alcc_units::{Bytes, Rate, Span, Time};

fn some(ns: u64) -> Option<Span> {
    (ns != ALCC_NONE).then(|| Span::from_nanos(ns))
}

fn kind(flags: u32) -> Kind {
    match flags {
        _ if flags & ALCC_PACKET_RETRANSMIT != 0 => Kind::Retransmit,
        _ if flags & ALCC_PACKET_PROBE != 0 => Kind::Probe,
        _ => Kind::New,
    }
}

pub(crate) fn path(path: &alcc_path) -> Path {
    Path {
        mss: Bytes::new(path.mss),
        rtt_hint: some(path.rtt_hint_ns),
        seed: path.seed,
    }
}

pub(crate) fn sent(sent: &alcc_sent) -> Sent {
    Sent {
        pn: sent.number,
        len: Bytes::new(sent.length),
        in_flight_before: Bytes::new(sent.in_flight_before),
        kind: kind(sent.flags),
        app_limited: sent.flags & ALCC_PACKET_APP_LIMITED != 0,
    }
}

fn packet(packet: &alcc_packet, first_sent_at: Time) -> Packet {
    Packet {
        pn: packet.number,
        len: Bytes::new(packet.length),
        sent_at: Time::from_nanos(packet.sent_at_ns),
        tag: Tag(packet.tag),
        stamp: Stamp {
            delivered: Bytes::new(packet.delivered),
            delivered_at: Time::from_nanos(packet.delivered_at_ns),
            first_sent_at,
            in_flight: Bytes::new(packet.in_flight),
            app_limited: packet.flags & ALCC_PACKET_APP_LIMITED != 0,
        },
        rtt: some(packet.rtt_ns),
        kind: kind(packet.flags),
    }
}

/// Fills in the packets of a batch.
///
/// # Safety
/// There are `count` packets, and as many times or NULL.
pub(crate) unsafe fn packets(
    to: &mut Vec<Packet>,
    from: *const alcc_packet,
    count: u64,
    first_sent_at: *const u64,
) {
    // SAFETY: the caller's promise.
    let (from, first) = unsafe {
        let times = (!first_sent_at.is_null())
            .then(|| std::slice::from_raw_parts(first_sent_at, count as usize));
        (std::slice::from_raw_parts(from, count as usize), times)
    };
    let first = |n: usize| first.map_or(Time::ZERO, |times| Time::from_nanos(times[n]));
    to.clear();
    to.extend(from.iter().enumerate().map(|(n, p)| packet(p, first(n))));
}

fn rtt(rtt: &alcc_rtt) -> RttView {
    RttView {
        latest: Span::from_nanos(rtt.latest_ns),
        smoothed: Span::from_nanos(rtt.smoothed_ns),
        variance: Span::from_nanos(rtt.variance_ns),
        min: Span::from_nanos(rtt.min_ns),
    }
}

pub(crate) fn ack<'a>(ack: &alcc_ack, acked: &'a [Packet]) -> AckBatch<'a> {
    let has = |flag| ack.flags & flag != 0;
    AckBatch {
        acked,
        in_flight_before: Bytes::new(ack.in_flight_before),
        in_flight: Bytes::new(ack.in_flight),
        delivered: Bytes::new(ack.delivered),
        rtt: rtt(&ack.rtt),
        rate: (ack.rate_bps != ALCC_NONE).then(|| Rate::bps(ack.rate_bps)),
        round_start: has(ALCC_ACK_ROUND_START),
        limited: LimitedBy {
            window: has(ALCC_ACK_LIMITED_BY_WINDOW),
            quota: has(ALCC_ACK_LIMITED_BY_QUOTA),
            pacer: has(ALCC_ACK_LIMITED_BY_PACING),
            app: has(ALCC_ACK_LIMITED_BY_APP),
            peer: has(ALCC_ACK_LIMITED_BY_PEER),
        },
        in_recovery: has(ALCC_ACK_IN_RECOVERY),
        advanced: !has(ALCC_ACK_ABOVE_HOLE),
        source: match has(ALCC_ACK_FROM_COUNTERS) {
            true => Source::TcpInfo,
            false => Source::Wire,
        },
        rtt_error: Span::from_nanos(ack.rtt_error_ns),
        marked: Bytes::new(ack.marked),
    }
}

pub(crate) fn loss<'a>(loss: &alcc_loss, lost: &'a [Packet]) -> LossBatch<'a> {
    LossBatch {
        lost,
        new_episode: loss.new_episode != 0,
        in_flight: Bytes::new(loss.in_flight),
        rtt: rtt(&loss.rtt),
    }
}

pub(crate) fn rto(rto: &alcc_rto) -> Rto {
    Rto {
        backoff: rto.backoff,
        oldest: packet(&rto.oldest, Time::ZERO),
        in_flight: Bytes::new(rto.in_flight),
        silence: Span::from_nanos(rto.silence_ns),
    }
}

pub(crate) fn recovery_end(end: &alcc_recovery_end) -> RecoveryEnd {
    RecoveryEnd {
        in_flight: Bytes::new(end.in_flight),
        rtt: rtt(&end.rtt),
    }
}
