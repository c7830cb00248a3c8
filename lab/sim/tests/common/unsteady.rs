// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Paths that are unsteady for a while and then stand still, and what a flow makes of them.
use alcc_link::{Changes, RateSpec, Step};
use alcc_sim::Simulation;
use alcc_units::{Rate, Span, Time};

/// Mbit/s of the link, and bytes of its queue.
const LINK: u64 = 20;
const QUEUE: &str = "droptail:bytes=200000";
const SECONDS: u64 = 45;
/// Windows of a second begin so far apart.
const SLOT: Span = Span::from_millis(100);
const SLOTS: usize = 10;
/// The start is over then.
const STARTED: Span = Span::from_secs(3);

/// A path, and its changes.
pub(crate) struct Unsteady {
    pub(crate) name: &'static str,
    /// Round trip, ms: at first, and when the path stands still.
    first: u64,
    last: u64,
    steps: Vec<Step>,
    /// The path stands still from then on.
    still: Span,
}

/// Results of a flow on the path.
pub(crate) struct Seen {
    /// The longest time with less than half of the link after the path stood still.
    pub(crate) starved: Span,
    /// The most that was sent in a second after the start, of what the link carries in one.
    pub(crate) most: f64,
}

/// At `at` ms the path has another round trip, in ms.
fn route(at: u64, rtt: u64) -> Step {
    Step {
        at: Time::from_millis(at),
        delay: Some(Span::from_millis(rtt) / 2),
        ..Step::default()
    }
}

fn loss(at: u64, loss: f64) -> Step {
    Step {
        at: Time::from_millis(at),
        loss: Some(loss),
        ..Step::default()
    }
}

fn rate(at: u64, mbps: u64) -> Step {
    Step {
        at: Time::from_millis(at),
        rate: Some(Rate::mbps(mbps)),
        ..Step::default()
    }
}

/// Between 10 and 20 s the path changes each second.
fn each_second(change: impl Fn(u64) -> Vec<Step>) -> Vec<Step> {
    (0..=10).flat_map(change).collect()
}

pub(crate) fn paths() -> Vec<Unsteady> {
    let path = |name, (first, last), still, steps| Unsteady {
        name,
        first,
        last,
        steps,
        still: Span::from_millis(still),
    };
    let flaps = |short, long| {
        each_second(move |i| {
            vec![route(
                1000 * (10 + i),
                if i % 2 == 0 { short } else { long },
            )]
        })
    };
    let slower = |i: u64| {
        let at = 1000 * (10 + i);
        let (rtt, mbps) = if i.is_multiple_of(2) {
            (40, LINK)
        } else {
            (140, 5)
        };
        vec![route(at, rtt), rate(at, mbps)]
    };
    let bursts = |i: u64| {
        vec![loss(
            1000 * (10 + i),
            if i.is_multiple_of(2) { 0.0 } else { 0.3 },
        )]
    };
    let outage = vec![rate(10_000, 0), route(11_000, 140), rate(12_000, LINK)];
    let losing = vec![loss(9_000, 0.05), route(10_000, 140), loss(11_000, 0.0)];
    vec![
        path("flaps, ends at 40 ms", (40, 40), 20_000, flaps(40, 140)),
        path("flaps, ends at 140 ms", (40, 140), 20_000, flaps(140, 40)),
        path("flaps with the rate", (40, 40), 20_000, each_second(slower)),
        path("30 % lost in bursts", (40, 40), 20_000, each_second(bursts)),
        path("rerouted in an outage", (40, 140), 12_000, outage),
        path("longer in the start", (40, 240), 100, vec![route(100, 240)]),
        path("shorter in the start", (240, 40), 600, vec![route(600, 40)]),
        path("rerouted while losing", (40, 140), 11_000, losing),
    ]
}

impl Unsteady {
    /// Time for which a flow may have less than half of the link once the path stands still.
    pub(crate) fn bound(&self) -> Span {
        Span::from_millis(10 * self.last).max(Span::from_secs(3))
    }

    pub(crate) fn run(&self, flow: &str) -> Seen {
        let link = RateSpec::Fixed(Rate::mbps(LINK));
        let mut scenario = super::common::scenario(link, SECONDS, &[flow]);
        let both = &mut scenario.links[0];
        both.down.queue = QUEUE.parse().unwrap();
        let half = Span::from_millis(self.first) / 2;
        (both.down.delay, both.up.delay) = (half, half);
        let changes = Changes::of(self.steps.clone());
        both.down.changes = changes.clone();
        both.up.changes = Changes {
            steps: (changes.steps.into_iter())
                .map(|step| Step {
                    rate: None,
                    loss: None,
                    ..step
                })
                .collect(),
            ..Changes::default()
        };
        let mut simulation = Simulation::new(&scenario).unwrap();
        let mut so_far = vec![(0.0, 0.0)];
        while !simulation.is_over() {
            simulation.run_until(simulation.now() + SLOT).unwrap();
            let flow = simulation.flow(0).unwrap();
            let delivered = flow.delivered.get() as f64 * 8.0;
            so_far.push((flow.sent as f64 * 12_000.0, delivered));
        }
        let second = LINK as f64 * 1e6;
        let from = |span: Span| (span.as_nanos().div_ceil(SLOT.as_nanos())) as usize;
        let windows = |first: usize| {
            let all = so_far.windows(SLOTS + 1).skip(first);
            all.map(move |w| {
                (
                    (w[SLOTS].0 - w[0].0) / second,
                    (w[SLOTS].1 - w[0].1) / second,
                )
            })
        };
        let (mut longest, mut now) = (0, 0);
        for (_, delivered) in windows(from(self.still)) {
            now = if delivered < 0.5 { now + 1 } else { 0 };
            longest = longest.max(now);
        }
        // A window has half of the link when half of it is over.
        let until_half = if longest > 0 {
            SLOT * (SLOTS as u64 / 2)
        } else {
            Span::ZERO
        };
        Seen {
            starved: SLOT * longest + until_half,
            most: windows(from(STARTED))
                .map(|(sent, _)| sent)
                .fold(0.0, f64::max),
        }
    }
}
