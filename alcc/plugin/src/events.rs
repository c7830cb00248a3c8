// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Our events as the C side sees them.
use crate::abi::*;
use alcc_cc::{
    AckBatch, Kind, LimitedBy, LossBatch, Packet, Path, RecoveryEnd, Rto, RttView, Sent, Source,
};
use alcc_units::{Rate, Span};

const fn size<T>() -> u32 {
    size_of::<T>() as u32
}

/// The sum of the flags whose condition holds.
fn flags(list: &[(bool, u32)]) -> u32 {
    list.iter()
        .filter(|(on, _)| *on)
        .map(|(_, flag)| flag)
        .sum()
}

fn or_none(span: Option<Span>) -> u64 {
    span.map_or(ALCC_NONE, Span::as_nanos)
}

fn packet_flags(kind: Kind, app_limited: bool) -> u32 {
    flags(&[
        (kind == Kind::Retransmit, ALCC_PACKET_RETRANSMIT),
        (kind == Kind::Probe, ALCC_PACKET_PROBE),
        (app_limited, ALCC_PACKET_APP_LIMITED),
    ])
}

pub(crate) fn path(path: &Path) -> alcc_path {
    alcc_path {
        size: size::<alcc_path>(),
        reserved: 0,
        mss: path.mss.get(),
        rtt_hint_ns: or_none(path.rtt_hint),
        seed: path.seed,
    }
}

pub(crate) fn sent(sent: &Sent) -> alcc_sent {
    alcc_sent {
        size: size::<alcc_sent>(),
        flags: packet_flags(sent.kind, sent.app_limited),
        number: sent.pn,
        length: sent.len.get(),
        in_flight_before: sent.in_flight_before.get(),
    }
}

pub(crate) fn packet(packet: &Packet) -> alcc_packet {
    alcc_packet {
        number: packet.pn,
        length: packet.len.get(),
        sent_at_ns: packet.sent_at.as_nanos(),
        tag: packet.tag.0,
        rtt_ns: or_none(packet.rtt),
        delivered: packet.stamp.delivered.get(),
        delivered_at_ns: packet.stamp.delivered_at.as_nanos(),
        in_flight: packet.stamp.in_flight.get(),
        flags: packet_flags(packet.kind, packet.stamp.app_limited),
        reserved: 0,
    }
}

fn rtt(rtt: &RttView) -> alcc_rtt {
    alcc_rtt {
        latest_ns: rtt.latest.as_nanos(),
        smoothed_ns: rtt.smoothed.as_nanos(),
        variance_ns: rtt.variance.as_nanos(),
        min_ns: rtt.min.as_nanos(),
    }
}

/// `packets` are those of the batch, `first_sent` when their flights began.
pub(crate) fn ack(ack: &AckBatch<'_>, packets: &[alcc_packet], first_sent: &[u64]) -> alcc_ack {
    let LimitedBy {
        window,
        quota,
        pacer,
        app,
        peer,
    } = ack.limited;
    alcc_ack {
        size: size::<alcc_ack>(),
        flags: flags(&[
            (window, ALCC_ACK_LIMITED_BY_WINDOW),
            (quota, ALCC_ACK_LIMITED_BY_QUOTA),
            (pacer, ALCC_ACK_LIMITED_BY_PACING),
            (app, ALCC_ACK_LIMITED_BY_APP),
            (peer, ALCC_ACK_LIMITED_BY_PEER),
            (ack.round_start, ALCC_ACK_ROUND_START),
            (ack.in_recovery, ALCC_ACK_IN_RECOVERY),
            (ack.source == Source::TcpInfo, ALCC_ACK_FROM_COUNTERS),
            (!ack.advanced, ALCC_ACK_ABOVE_HOLE),
        ]),
        packets: packets.as_ptr(),
        packet_count: packets.len() as u64,
        in_flight_before: ack.in_flight_before.get(),
        in_flight: ack.in_flight.get(),
        delivered: ack.delivered.get(),
        rtt: rtt(&ack.rtt),
        rate_bps: ack.rate.map_or(ALCC_NONE, Rate::as_bps),
        rtt_error_ns: ack.rtt_error.as_nanos(),
        marked: ack.marked.get(),
        first_sent_at_ns: first_sent.as_ptr(),
    }
}

/// `packets` are those of the batch.
pub(crate) fn loss(loss: &LossBatch<'_>, packets: &[alcc_packet]) -> alcc_loss {
    alcc_loss {
        size: size::<alcc_loss>(),
        new_episode: loss.new_episode.into(),
        packets: packets.as_ptr(),
        packet_count: packets.len() as u64,
        in_flight: loss.in_flight.get(),
        rtt: rtt(&loss.rtt),
    }
}

pub(crate) fn rto(rto: &Rto) -> alcc_rto {
    alcc_rto {
        size: size::<alcc_rto>(),
        backoff: rto.backoff,
        oldest: packet(&rto.oldest),
        in_flight: rto.in_flight.get(),
        silence_ns: rto.silence.as_nanos(),
    }
}

pub(crate) fn recovery_end(end: &RecoveryEnd) -> alcc_recovery_end {
    alcc_recovery_end {
        size: size::<alcc_recovery_end>(),
        reserved: 0,
        in_flight: end.in_flight.get(),
        rtt: rtt(&end.rtt),
    }
}

/// "No limit", to be filled in.
pub(crate) fn unlimited() -> alcc_allowance {
    alcc_allowance {
        size: size::<alcc_allowance>(),
        ping: 0,
        window: ALCC_NONE,
        quota: ALCC_NONE,
        rate_bps: ALCC_NONE,
        burst: 0,
    }
}

/// The defaults, to be filled in.
pub(crate) fn needs() -> alcc_needs {
    alcc_needs {
        size: size::<alcc_needs>(),
        flags: 0,
        feedback_period_ns: alcc_cc::Needs::default().feedback_period.as_nanos(),
        header: 0,
    }
}
