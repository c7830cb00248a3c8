// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One list of operations for every host: its calls must equal those of the reference host.
use super::Checked;
use super::sender::Sender;
use crate::{
    AckBatch, Allowance, Controller, Cx, Instance, LossBatch, Packet, Pn, RecoveryEnd, Registry,
    Sent, Spec, Tag,
};
use alcc_units::{Bytes, Rng, Span, Time};
use std::sync::mpsc;

/// A host that [`check_host`] drives. Packets have the length that was passed to it, and are sent
/// in order.
pub trait HostUnderTest {
    /// Advances the time, and runs the timers that are due.
    fn wait(&mut self, now: Time);

    /// The application writes this many packets. Those that may be sent are; the others are
    /// dropped.
    fn send(&mut self, now: Time, packets: usize);

    /// One acknowledgement: of the packets in flight the oldest `lost` have not arrived, and the
    /// next `arrived` have. A lost packet may be sent again at any time, and then it arrives.
    fn acknowledge(&mut self, now: Time, lost: usize, arrived: usize);

    /// The number of packets in flight.
    fn under_way(&self) -> usize;
}

/// The start time of a list; the host is made then.
pub const START: Time = Time::from_millis(1000);
/// Lists of each kind.
const LISTS: u64 = 40;
const ROUNDS: usize = 12;
/// Window in packets of the algorithm that records its calls.
const WINDOW: usize = 10;

/// Drives a host with many algorithms. `make` makes a host with packets of `len` at [`START`].
///
/// * Without loss: the algorithm receives exactly the calls of the reference host, batch for batch.
/// * With losses, timeouts and pauses: the contract holds ([`Checked`]), with every algorithm of
///   `registry`.
///
/// # Panics
/// If one of them does not hold; the message names the seed.
pub fn check_host(
    registry: &Registry,
    len: Bytes,
    make: &dyn Fn(Instance) -> Box<dyn HostUnderTest>,
) {
    for seed in 0..LISTS {
        let told = |make: &dyn Fn(Instance) -> Box<dyn HostUnderTest>| {
            let (tell, told) = mpsc::channel();
            let window = len * WINDOW as u64;
            let mut host = make(Checked::of(Instance::new(Recorder { tell, window })));
            without_loss(host.as_mut(), seed);
            drop(host);
            told.into_iter().collect::<Vec<String>>()
        };
        let here = told(make);
        let reference = told(&|cc| Box::new(Reference::new(cc, len)));
        let differs = here.iter().zip(&reference).position(|(a, b)| a != b);
        if let Some(n) = differs {
            panic!(
                "seed {seed}, event {n}: {}\nbut the reference host: {}",
                here[n], reference[n]
            );
        }
        assert_eq!(here.len(), reference.len(), "seed {seed}: events");
    }
    for algorithm in registry.iter() {
        let spec = Spec {
            name: algorithm.name.to_owned(),
            options: Vec::new(),
        };
        // An algorithm that needs a file gets none here.
        let Ok(cc) = registry.build(&spec) else {
            continue;
        };
        for seed in 0..LISTS {
            let mut host = make(Checked::of(cc.clone()));
            with_losses(host.as_mut(), seed);
        }
    }
}

/// Drives round trips of some 40 ms, with pauses much shorter or much longer.
fn without_loss(host: &mut dyn HostUnderTest, seed: u64) {
    let (mut rng, mut now) = (Rng::new(seed), START);
    let below = |rng: &mut Rng, n: usize| rng.below(n as u64) as usize;
    for _ in 0..ROUNDS {
        host.send(now, 1 + below(&mut rng, WINDOW));
        now += Span::from_micros(38_000 + rng.below(4_000));
        for _ in 0..rng.below(6) {
            if host.under_way() > 0 {
                let arrived = 1 + below(&mut rng, host.under_way());
                host.acknowledge(now, 0, arrived);
                let room = WINDOW - host.under_way();
                host.send(now, below(&mut rng, room + 1));
            }
            now += Span::from_micros(rng.below(1_000));
        }
        if host.under_way() > 0 {
            now += Span::from_millis(30);
            host.acknowledge(now, 0, host.under_way());
        }
        now += if rng.below(4) == 0 {
            Span::from_millis(1000 + rng.below(4_000))
        } else {
            Span::from_micros(rng.below(5_000))
        };
    }
}

/// Drives arbitrary operations, with losses.
fn with_losses(host: &mut dyn HostUnderTest, seed: u64) {
    let (mut rng, mut now) = (Rng::new(seed), START);
    for _ in 0..ROUNDS * 8 {
        now += match rng.below(16) {
            0 => Span::from_millis(rng.below(20_000)),
            1 => Span::ZERO,
            _ => Span::from_micros(rng.below(50_000)),
        };
        host.wait(now);
        host.send(now, rng.below(20) as usize);
        let under_way = host.under_way() as u64;
        if rng.below(3) > 0 && under_way > 0 {
            let lost = if rng.below(4) == 0 {
                rng.below(under_way.min(6))
            } else {
                0
            };
            let arrived = 1 + rng.below(under_way - lost);
            host.acknowledge(now, lost as usize, arrived as usize);
        }
    }
}

/// Records the calls that it receives.
#[derive(Clone)]
struct Recorder {
    tell: mpsc::Sender<String>,
    window: Bytes,
}

impl Recorder {
    fn tell(&self, what: String) {
        // A failed send means that the receiver has seen enough.
        let _ = self.tell.send(what);
    }
}

fn numbers(packets: &[Packet]) -> Vec<(Pn, Bytes, Time, Tag)> {
    let mut all = packets.iter();
    all.by_ref()
        .map(|p| (p.pn, p.len, p.sent_at, p.tag))
        .collect()
}

impl Controller for Recorder {
    fn on_sent(&mut self, cx: &mut Cx<'_>, sent: &Sent) -> Tag {
        let (pn, len, before) = (sent.pn, sent.len, sent.in_flight_before);
        self.tell(format!("{}: {pn} of {len} leaves after {before}", cx.now));
        Tag(sent.pn + 7)
    }

    fn on_ack(&mut self, cx: &mut Cx<'_>, ack: &AckBatch<'_>) {
        let stamps = ack.acked.iter().map(|p| {
            let s = &p.stamp;
            (s.delivered, s.delivered_at, s.first_sent_at, s.in_flight)
        });
        self.tell(format!(
            "{}: {:?} arrived, {:?}; in flight {} to {}; {} delivered, rate {:?}, round {}, recovery {}, advanced {}",
            cx.now,
            numbers(ack.acked),
            stamps.collect::<Vec<_>>(),
            ack.in_flight_before,
            ack.in_flight,
            ack.delivered,
            ack.rate,
            ack.round_start,
            ack.in_recovery,
            ack.advanced,
        ));
    }

    fn on_loss(&mut self, cx: &mut Cx<'_>, loss: &LossBatch<'_>) {
        self.tell(format!("{}: {:?} lost", cx.now, numbers(loss.lost)));
    }

    fn on_recovery_end(&mut self, cx: &mut Cx<'_>, _end: &RecoveryEnd) {
        self.tell(format!("{}: repaired", cx.now));
    }

    fn on_idle_restart(&mut self, cx: &mut Cx<'_>, idle: Span) {
        self.tell(format!("{}: idle for {idle}", cx.now));
    }

    fn allowance(&self) -> Allowance {
        Allowance::window(self.window)
    }
}

struct Reference(Sender);

impl Reference {
    fn new(cc: Instance, len: Bytes) -> Self {
        Self(Sender::new(cc, len, len, Span::ZERO, 1))
    }
}

impl HostUnderTest for Reference {
    fn wait(&mut self, now: Time) {
        self.0.wake(now);
        let _ = self.0.feed.allowance();
    }

    fn send(&mut self, now: Time, packets: usize) {
        for _ in 0..packets {
            self.0.send(now);
        }
    }

    fn acknowledge(&mut self, now: Time, lost: usize, arrived: usize) {
        let under_way = self.0.outstanding.iter().skip(lost).take(arrived);
        let pns: Vec<Pn> = under_way.map(|p| p.pn).collect();
        self.0.acknowledge(now, &pns);
        // Reading the allowance ends the turn.
        let _ = self.0.feed.allowance();
    }

    fn under_way(&self) -> usize {
        self.0.outstanding.len()
    }
}

#[test]
fn the_reference_host() {
    check_host(&Registry::builtin(), Bytes::new(1200), &|cc| {
        Box::new(Reference::new(cc, Bytes::new(1200)))
    });
}
