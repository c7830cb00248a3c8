// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CPU cost of the pure parts: every algorithm alone, every algorithm above TCP's counters and
//! above a kernel that keeps the limit on a fast path, and the link models. One packet per
//! millisecond, acknowledged after 40 to 60 ms, which is 12 Mbit/s with a queue that varies.
//! `ALCC_BENCH_PACKETS`: number of packets.
#[path = "support/median.rs"]
mod median;
#[path = "support/table.rs"]
mod table;

use alcc_cc::{Acked, Delivery, Feed, Instance, Kind, Packet, Path, RttView, Sent, Source, Spec};
use alcc_flow::{AckSample, OverTcp, TcpProgress};
use alcc_link::{Dir, Direction, DirectionSpec, Outcome, QueueSpec, RateSpec};
use alcc_trace::Trace;
use alcc_units::{Bytes, Rate, Rng, Span, Time};
use std::error::Error;
use std::hint::black_box;
use table::{Case, table};

const MSS: Bytes = Bytes::new(1448);
const FLIGHT: usize = 40;
/// Interval of readings of the kernel's counters, in packets (milliseconds).
const READING: u64 = 5;
/// Acknowledgements of a reading at 70 Gbit/s, and packets of each: a segment of 64 kB.
const FAST_ACKS: u64 = 670;
const FAST_BURST: u64 = 45;

/// The round-trip times of all packets, the same for everybody.
fn round_trips(packets: usize) -> Vec<Span> {
    let mut rng = Rng::new(1);
    (0..packets)
        .map(|_| Span::from_micros(40_000 + rng.below(20_000)))
        .collect()
}

fn alone(cc: Instance, rtts: &[Span]) {
    let mut feed = Feed::new(cc, Time::ZERO);
    let mut delivery = Delivery::new(Time::ZERO);
    let path = Path {
        mss: MSS,
        rtt_hint: None,
        seed: 1,
    };
    feed.start(&path);
    let in_flight = MSS * FLIGHT as u64;
    let mut flight: Vec<Packet> = Vec::with_capacity(FLIGHT);
    for (i, &rtt) in rtts.iter().enumerate() {
        let now = feed.advance(Time::from_millis(i as u64 + 1));
        if let Some(oldest) = flight.get_mut(i % FLIGHT) {
            oldest.rtt = Some(rtt);
            delivery.arrived(now, oldest);
            feed.limited().window = true;
            feed.acked(&Acked {
                packets: std::slice::from_ref(oldest),
                in_flight_before: in_flight,
                in_flight: in_flight.saturating_sub(MSS),
                delivery: &delivery,
                rtt: RttView {
                    latest: rtt,
                    smoothed: Span::from_millis(50),
                    variance: Span::from_millis(5),
                    min: Span::from_millis(40),
                },
                rate: Some(Rate::mbps(12)),
                in_recovery: false,
                advanced: true,
                source: Source::Wire,
                rtt_error: Span::ZERO,
            });
        }
        feed.run_timer();
        black_box(feed.allowance());
        let (pn, kind) = (i as u64, Kind::New);
        let sent = Sent {
            pn,
            len: MSS,
            in_flight_before: in_flight.saturating_sub(MSS),
            kind,
            app_limited: false,
        };
        let packet = Packet {
            pn,
            len: MSS,
            sent_at: now,
            tag: feed.sent(&sent),
            stamp: delivery.stamp(in_flight, false),
            rtt: None,
            kind,
        };
        match flight.get_mut(i % FLIGHT) {
            Some(place) => *place = packet,
            None => flight.push(packet),
        }
    }
}

fn over_tcp(cc: Instance, packets: u64) {
    let mut tcp = TcpProgress {
        mss: MSS,
        min_rtt: Span::from_millis(40),
        ..TcpProgress::default()
    };
    let mut connection = OverTcp::new(cc, Time::ZERO, &tcp, 1);
    let queued = MSS * FLIGHT as u64;
    for i in 1..=packets {
        let now = Time::from_millis(i);
        black_box(connection.room(now, MSS, queued, Bytes::ZERO));
        // The pace is ours: a gate that has shut opens at once.
        connection.unblock();
        connection.wrote(now, MSS);
        if i.is_multiple_of(READING) {
            tcp.written = i * MSS.get();
            tcp.acked = i.saturating_sub(FLIGHT as u64) * MSS.get();
            connection.progress(now, &tcp);
            black_box(connection.deadline());
        }
    }
}

/// A kernel that keeps the limit and reports each acknowledgement, at 70 Gbit/s: a reading of the
/// last 32 acknowledgements every 5 ms.
fn over_kernel(cc: Instance, packets: u64) {
    let in_flight = 600;
    let mut tcp = TcpProgress {
        mss: MSS,
        min_rtt: Span::from_micros(50),
        unsent: MSS,
        in_flight,
        ..TcpProgress::default()
    };
    let mut sample = AckSample {
        at: Time::ZERO,
        rtt: None,
        delivered: 0,
        lost: 0,
        in_flight,
    };
    let mut connection = OverTcp::new(cc, Time::ZERO, &tcp, 1);
    connection.use_samples(&sample);
    let (gap, mut samples) = (Span::from_nanos(7463), Vec::with_capacity(32));
    for reading in 0..packets / (FAST_ACKS * FAST_BURST) {
        samples.clear();
        for ack in 1..=FAST_ACKS {
            sample.at = Time::ZERO + gap * (reading * FAST_ACKS + ack);
            sample.rtt = Some(Span::from_micros(100 + ack % 7));
            sample.delivered = sample.delivered.wrapping_add(FAST_BURST as u32);
            if ack + 32 > FAST_ACKS {
                samples.push(sample);
            }
        }
        tcp.acked += FAST_ACKS * FAST_BURST * MSS.get();
        tcp.written = tcp.acked + MSS.get() * u64::from(in_flight);
        connection.progress_sampled(sample.at, &tcp, &samples);
        black_box((connection.limit(), connection.deadline()));
    }
}

fn link(spec: &DirectionSpec, packets: u64) {
    let mut direction = Direction::new(spec, Dir::Down, 1);
    let mut out: Vec<Outcome> = Vec::new();
    for id in 0..packets {
        let packet = alcc_link::Packet {
            id,
            flow: 0,
            len: Bytes::new(1500),
            ecn: alcc_link::Ecn::NotEct,
        };
        direction.push(Time::from_millis(id), packet, &mut out);
        black_box(&out);
        out.clear();
    }
}

/// A full link: another packet comes for each that leaves, so that a hundred are always there.
fn full_link(spec: &DirectionSpec, packets: u64) {
    let mut direction = Direction::new(spec, Dir::Down, 1);
    let packet = |id| alcc_link::Packet {
        id,
        flow: (id % 4) as u32,
        len: Bytes::new(1500),
        ecn: alcc_link::Ecn::NotEct,
    };
    let (mut out, mut ends) = (Vec::new(), Vec::new());
    let mut pushed = 100;
    for id in 0..pushed {
        direction.push(Time::ZERO, packet(id), &mut out);
    }
    while pushed < packets {
        let Some(next) = direction.next_event() else {
            return;
        };
        direction.advance(next, &mut out);
        ends.extend(out.drain(..).filter_map(|outcome| match outcome {
            Outcome::Delivered { at, .. } | Outcome::Dropped { at, .. } => Some(at),
            _ => None,
        }));
        for at in ends.drain(..) {
            direction.push(at, packet(pushed), &mut out);
            pushed += 1;
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let packets: u64 = match std::env::var("ALCC_BENCH_PACKETS") {
        Ok(text) => text.parse()?,
        Err(_) => 200_000,
    };
    let registry = alcc_zoo::registry();
    let mut specs: Vec<Spec> = registry.iter().map(|a| Spec::named(a.name)).collect();
    specs.sort_by_key(|s| s.name != "fixed");
    let rtts = &round_trips(usize::try_from(packets)?);
    let (mut single, mut above, mut fast): (Vec<Case<'_>>, Vec<Case<'_>>, Vec<Case<'_>>) =
        Default::default();
    for spec in &specs {
        let cc = registry.build(spec)?;
        let (copy, other) = (cc.clone(), cc.clone());
        single.push((spec.to_string(), Box::new(move || alone(cc.clone(), rtts))));
        above.push((
            spec.to_string(),
            Box::new(move || over_tcp(copy.clone(), packets)),
        ));
        fast.push((
            spec.to_string(),
            Box::new(move || over_kernel(other.clone(), packets)),
        ));
    }
    table(
        "algorithm alone (sent, acknowledged, timers)",
        packets,
        &single,
    );
    table(
        "algorithm over TCP's counters, a reading every 5 packets",
        packets,
        &above,
    );
    table(
        "algorithm above a kernel that keeps the limit, a reading every 30,150 packets",
        packets,
        &fast,
    );

    let fixed = RateSpec::Fixed(Rate::mbps(12));
    let trace = Trace::constant(Rate::mbps(12)).ok_or("no trace of 12 Mbit/s")?;
    let spec = |rate: &RateSpec, queue: QueueSpec| DirectionSpec {
        rate: rate.clone(),
        queue,
        delay: Span::from_millis(20),
        ..DirectionSpec::default()
    };
    let links = [
        ("fixed rate", spec(&fixed, QueueSpec::default())),
        ("trace", spec(&RateSpec::Trace(trace), QueueSpec::default())),
        ("fixed rate, codel", spec(&fixed, "codel".parse()?)),
        ("fixed rate, red", spec(&fixed, "red".parse()?)),
        ("fixed rate, pie", spec(&fixed, "pie".parse()?)),
        ("fixed rate, fq_codel", spec(&fixed, "fq_codel".parse()?)),
        ("fixed rate, users", spec(&fixed, "users".parse()?)),
    ];
    for (title, run) in [
        ("link, one direction", link as fn(&DirectionSpec, u64)),
        ("link, one direction, a hundred packets in it", full_link),
    ] {
        let cases: Vec<Case<'_>> = links
            .iter()
            .map(|(name, spec)| -> Case<'_> {
                ((*name).to_owned(), Box::new(move || run(spec, packets)))
            })
            .collect();
        table(title, packets, &cases);
    }
    Ok(())
}
