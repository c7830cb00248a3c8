// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Invariants of every direction, for arbitrary packets and late calls.
use alcc_link::{
    Changes, Dir, Direction, DirectionSpec, Ecn, Outcome, Outcomes, Packet, QueueKind, QueueSpec,
    RadioKind, RadioSpec, RateSpec, Step,
};
use alcc_trace::Trace;
use alcc_units::{Bytes, Rate, Span, Time};
use proptest::prelude::*;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
struct Case {
    spec: DirectionSpec,
    order: Dir,
    seed: u64,
    pushes: Vec<(Time, Packet)>,
}

fn rate() -> impl Strategy<Value = RateSpec> {
    let trace = prop::collection::vec(0..40_u32, 1..30).prop_map(|mut ms| {
        ms.sort_unstable();
        ms.push(40);
        RateSpec::Trace(Trace::new(ms).unwrap())
    });
    prop_oneof![
        1 => Just(RateSpec::Unlimited),
        3 => (10_000..100_000_000_u64).prop_map(|bps| RateSpec::Fixed(Rate::bps(bps))),
        4 => trace,
    ]
}

/// Every registered queue, with limits that bind and thresholds that are reached.
fn queue() -> impl Strategy<Value = String> {
    let mut specs: Vec<String> = QueueKind::all()
        .flat_map(|k| {
            [
                k.name.to_owned(),
                format!("{}:packets=4,bytes=5000", k.name),
            ]
        })
        .collect();
    specs.push("red:min=2000,max=8000,p=0.5,weight=0.3".to_owned());
    specs.push("codel:target=1ms,interval=5ms".to_owned());
    specs.push("fq_codel:flows=2,quantum=300,target=1ms,interval=5ms".to_owned());
    specs.push("users:scheduler=pf,window=5ms,slot=2ms".to_owned());
    specs.push("users:number=2,slot=0s,user-packets=3".to_owned());
    specs.push("pie:target=1us,update=1ms,alpha=100,beta=100,burst=0s".to_owned());
    prop::sample::select(specs)
}

fn overtaking(queue: &QueueSpec) -> bool {
    QueueKind::all().any(|kind| kind.name == queue.spec().name && kind.overtaking)
}

/// Mostly none; else rates, standstill and a path that always comes back, and losses, at round and
/// at odd times.
fn changes() -> impl Strategy<Value = Changes> {
    let at = prop_oneof![
        (0..300_u64).prop_map(|ms| ms * 1_000_000),
        0..300_000_000_u64
    ];
    let rate = prop_oneof![1 => Just(0), 4 => 10_000..50_000_000_u64];
    let step =
        (at, prop::option::of(rate), prop::option::of(0.0..0.3)).prop_map(|(at, rate, loss)| {
            Step {
                at: Time::from_nanos(at),
                rate: rate.map(Rate::bps),
                delay: None,
                loss,
                loss_up: None,
            }
        });
    let repeat = prop::option::of((1_000_000..400_000_000_u64).prop_map(Span::from_nanos));
    let some = (prop::collection::vec(step, 1..6), repeat).prop_map(|(mut steps, repeat)| {
        // in the end it moves
        steps.push("300ms:rate=1mbit".parse().unwrap());
        if repeat.is_some() {
            steps.push("0s:rate=1mbit".parse().unwrap());
        }
        Changes {
            repeat,
            ..Changes::of(steps)
        }
    });
    prop_oneof![2 => Just(Changes::default()), 1 => some]
}

/// Mostly none; else one or two of those registered, as they come and with times that bind.
fn radio() -> impl Strategy<Value = Vec<RadioSpec>> {
    let mut specs: Vec<String> = RadioKind::all().map(|k| k.name.to_owned()).collect();
    for text in [
        "harq:errors=0.5,rtt=3ms",
        "rlc:errors=0.3,delay=11ms",
        "grant:period=7ms,delay=1ms,keep=2ms",
        "handover:every=60ms,length=20ms",
        "aggregation:stations=2,airtime=4ms",
        "leo:every=50ms,gap=10ms,spread=9ms,jitter=2ms",
    ] {
        specs.push(text.to_owned());
    }
    let one = prop::sample::select(specs).prop_map(|text| text.parse().unwrap());
    prop_oneof![2 => Just(Vec::new()), 1 => prop::collection::vec(one, 1..3)]
}

fn case() -> impl Strategy<Value = Case> {
    // gaps of nothing, of whole milliseconds (to meet opportunities exactly), and any
    let gap = prop_oneof![
        2 => Just(0),
        1 => (0..50_u64).prop_map(|ms| ms * 1_000_000),
        2 => 0..3_000_000_u64,
    ];
    let pushes = prop::collection::vec((gap, 0..3200_u64), 0..150);
    let order = prop_oneof![Just(Dir::Down), Just(Dir::Up)];
    let delay = prop_oneof![Just(0), Just(7_000_000), 0..30_000_000_u64];
    let loss = prop_oneof![3 => Just(0.0), 1 => 0.0..0.5];
    let link = (rate(), queue(), order, delay, loss, changes(), radio());
    (link, any::<u64>(), pushes).prop_map(
        |((rate, queue, order, delay, loss, changes, radio), seed, pushes)| {
            let mut now = Time::ZERO;
            let pushes = (0..)
                .zip(pushes)
                .map(|(id, (gap, len))| {
                    now += Span::from_nanos(gap);
                    let packet = Packet {
                        id,
                        flow: (id % 3) as u32,
                        len: Bytes::new(len),
                        ecn: Ecn::NotEct,
                    };
                    (now, packet)
                })
                .collect();
            let spec = DirectionSpec {
                rate,
                queue: queue.parse().unwrap(),
                delay: Span::from_nanos(delay),
                loss,
                changes,
                radio,
            };
            Case {
                spec,
                order,
                seed,
                pushes,
            }
        },
    )
}

impl Case {
    fn direction(&self) -> Direction {
        Direction::new(&self.spec, self.order, self.seed)
    }

    /// Nothing but the rate, and its changes, holds a packet back.
    fn rate_alone(&self) -> Self {
        let mut plain = self.clone();
        plain.spec.queue = QueueSpec::infinite();
        plain.spec.delay = Span::ZERO;
        plain.spec.radio = Vec::new();
        plain.spec.loss = 0.0;
        plain
    }

    /// Calls it exactly at the times that it returns.
    fn punctual(&self) -> Vec<Outcome> {
        let mut direction = self.direction();
        let mut out = Vec::new();
        for &(at, packet) in &self.pushes {
            while let Some(next) = direction.next_event().filter(|n| *n <= at) {
                direction.advance(next, &mut out);
            }
            direction.push(at, packet, &mut out);
        }
        while let Some(next) = direction.next_event() {
            direction.advance(next, &mut out);
        }
        out
    }
}

const END: Time = Time::from_millis(1 << 40);

/// Watches only when it looks.
#[derive(Default)]
struct Host {
    told: Vec<Outcome>,
    looks: bool,
}

impl Outcomes for Host {
    fn tell(&mut self, outcome: Outcome) {
        self.told.push(outcome);
    }

    fn is_watching(&self) -> bool {
        self.looks
    }
}

fn what(outcome: &Outcome) -> (Time, Packet) {
    match *outcome {
        Outcome::Arrived { at, packet }
        | Outcome::Departed { at, packet, .. }
        | Outcome::Delivered { at, packet, .. }
        | Outcome::Repeated { at, packet }
        | Outcome::Dropped { at, packet, .. } => (at, packet),
    }
}

/// The outcomes of each packet, one packet after the other.
fn by_packet(out: &[Outcome]) -> Vec<Outcome> {
    let mut out = out.to_vec();
    out.sort_by_key(|outcome| what(outcome).1.id);
    out
}

fn times(out: &[Outcome]) -> Vec<Time> {
    out.iter().map(|o| what(o).0).collect()
}

fn departed(out: &[Outcome]) -> Vec<(Time, Packet)> {
    out.iter()
        .filter_map(|o| match *o {
            Outcome::Departed { at, packet, .. } => Some((at, packet)),
            _ => None,
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_late_call_reports_the_same(case in case()) {
        let punctual = case.punctual();
        let mut direction = case.direction();
        let mut late = Vec::new();
        for &(at, packet) in &case.pushes {
            direction.push(at, packet, &mut late);
        }
        direction.advance(END, &mut late);
        prop_assert_eq!(punctual, late);
    }

    #[test]
    fn calls_too_many_change_nothing(case in case()) {
        let mut direction = case.direction();
        let mut out = Vec::new();
        for &(at, packet) in &case.pushes {
            direction.advance(at - Span::from_micros(300), &mut out);
            direction.advance(at, &mut out);
            direction.advance(Time::ZERO, &mut out);
            direction.push(at, packet, &mut out);
            direction = direction.clone();
        }
        direction.advance(END, &mut out);
        prop_assert_eq!(case.punctual(), out);
    }

    /// A change at the end has no effect, but while one is due, the link advances step by step.
    #[test]
    fn what_is_computed_when_a_packet_comes_is_what_happens_step_by_step(case in case()) {
        let mut known = case.clone();
        known.spec.changes = Changes::default();
        known.spec.loss = 0.0;
        known.spec.radio = Vec::new();
        let mut stepped = known.clone();
        stepped.spec.changes = Changes::of(vec![Step { at: END, loss: Some(0.0), ..Step::default() }]);
        // The packets of one opportunity depart together before one is delivered, or one by one.
        let apart = |case: &Case| -> (Vec<_>, Vec<_>) {
            let outcomes = case.punctual().into_iter();
            outcomes.partition(|o| matches!(o, Outcome::Delivered { .. }))
        };
        prop_assert_eq!(apart(&known), apart(&stepped));
    }

    /// A host that waits only for deliveries misses none of them, and gets all other outcomes in
    /// order.
    #[test]
    fn deliveries_come_when_they_are_announced(case in case()) {
        let mut direction = case.direction();
        let mut out = Vec::new();
        let on_time = |out: &[Outcome], from: usize, now| {
            let late = |o: &Outcome| matches!(o, Outcome::Delivered { at, .. } if *at != now);
            !out[from..].iter().any(late)
        };
        for &(at, packet) in &case.pushes {
            while let Some(next) = direction.next_delivery().filter(|n| *n <= at) {
                let from = out.len();
                direction.advance(next, &mut out);
                prop_assert!(on_time(&out, from, next));
            }
            let from = out.len();
            direction.push(at, packet, &mut out);
            prop_assert!(on_time(&out, from, at));
        }
        while let Some(next) = direction.next_delivery() {
            let from = out.len();
            direction.advance(next, &mut out);
            prop_assert!(on_time(&out, from, next));
        }
        direction.advance(END, &mut out);
        prop_assert_eq!(case.punctual(), out);
    }

    /// A host that is not watching gets deliveries in time, and all other outcomes when it
    /// advances.
    #[test]
    fn an_unobserved_link_delivers_the_same(case in case()) {
        let punctual = case.punctual();
        let mut direction = case.direction();
        let mut host = Host::default();
        for &(at, packet) in &case.pushes {
            while let Some(next) = direction.next_delivery().filter(|n| *n <= at) {
                direction.advance(next, &mut host);
            }
            direction.push(at, packet, &mut host);
            if packet.len.get().is_multiple_of(3) {
                host.looks = true;
                direction.advance(at, &mut host);
                host.looks = false;
                prop_assert!(times(&host.told).iter().all(|told| *told <= at));
                // The next packet, at this very moment, may still push others out.
                let over = |out: &[Outcome]| {
                    let out = out.iter().copied().filter(|o| what(o).0 < at);
                    by_packet(&out.collect::<Vec<_>>())
                };
                prop_assert_eq!(over(&punctual), over(&host.told));
            }
        }
        while let Some(next) = direction.next_delivery() {
            direction.advance(next, &mut host);
        }
        let delivered = |out: &[Outcome]| -> Vec<Outcome> {
            let out = out.iter().copied();
            out.filter(|o| matches!(o, Outcome::Delivered { .. })).collect()
        };
        prop_assert_eq!(delivered(&punctual), delivered(&host.told));
        host.looks = true;
        direction.advance(END, &mut host);
        prop_assert_eq!(by_packet(&punctual), by_packet(&host.told));
    }

    #[test]
    fn packets_are_conserved_at_every_moment(case in case()) {
        let mut direction = case.direction();
        let mut out = Vec::new();
        let ends = |out: &[Outcome]| {
            let end = |o: &&Outcome| matches!(o, Outcome::Delivered { .. } | Outcome::Dropped { .. });
            out.iter().filter(end).count()
        };
        for (pushed, &(at, packet)) in (1..).zip(&case.pushes) {
            direction.push(at, packet, &mut out);
            prop_assert_eq!(pushed, ends(&out) + direction.inside());
        }
        direction.advance(END, &mut out);
        prop_assert_eq!(direction.inside(), 0);
        prop_assert_eq!(direction.next_event(), None);
        // and each ends once
        let mut ids: Vec<u64> = out.iter().filter_map(|o| match o {
            Outcome::Delivered { packet, .. } | Outcome::Dropped { packet, .. } => Some(packet.id),
            _ => None,
        }).collect();
        ids.sort_unstable();
        prop_assert_eq!(ids, (0..case.pushes.len() as u64).collect::<Vec<_>>());
    }

    #[test]
    fn nothing_travels_in_time_or_overtakes(case in case()) {
        let out = case.punctual();
        prop_assert!(times(&out).is_sorted());
        let overtaking = overtaking(&case.spec.queue);
        let mut last = BTreeMap::new();
        for outcome in &out {
            if let Outcome::Delivered { at, packet, queue_delay, arrived } = *outcome {
                let pushed = case.pushes[packet.id as usize].0;
                let least = pushed + case.spec.delay + queue_delay;
                prop_assert!(at == least || at > least && !case.spec.radio.is_empty());
                prop_assert!(arrived >= pushed && arrived + queue_delay <= at);
                let line = if overtaking { packet.flow } else { 0 };
                prop_assert!(last.insert(line, packet.id) < Some(packet.id));
            }
        }
    }

    #[test]
    fn no_more_is_delivered_than_is_offered(case in case()) {
        let direction = case.direction();
        let mut sum = Bytes::ZERO;
        for (at, packet) in departed(&case.punctual()) {
            sum += packet.len;
            let offered = direction.opportunity_bytes(Time::ZERO, at);
            // at the very start, before the first window: an opportunity, or everything
            let at_start = match &case.spec.rate {
                RateSpec::Trace(trace) => trace.opportunities().iter().filter(|ms| **ms == 0).count() as u64,
                RateSpec::Unlimited => u64::MAX,
                RateSpec::Fixed(_) => 0,
            };
            prop_assert!(sum <= offered + Bytes::new(1500) * at_start, "{} > {}", sum, offered);
        }
    }

    /// A second model, as plain as can be: every opportunity one after the other, none skipped.
    #[test]
    fn a_trace_link_is_as_one_that_walks_every_opportunity(case in case()) {
        let RateSpec::Trace(trace) = &case.spec.rate else { return Ok(()) };
        let mut plain = case.rate_alone();
        plain.spec.changes = Changes::default();
        let mut want = Vec::new();
        let mut waiting: Vec<(Packet, u64)> = Vec::new();
        let mut pushes = plain.pushes.iter().peekable();
        for at in trace.cursor() {
            while let Some((_, packet)) = pushes.next_if(|(pushed, _)| *pushed < at) {
                waiting.push((*packet, packet.len.get()));
            }
            let mut room = 1500;
            while room > 0 && !waiting.is_empty() {
                let part = waiting[0].1.min(room);
                waiting[0].1 -= part;
                room -= part;
                if waiting[0].1 == 0 {
                    want.push((at, waiting.remove(0).0));
                }
            }
            if want.len() == plain.pushes.len() {
                break;
            }
        }
        prop_assert_eq!(departed(&plain.punctual()), want);
    }

    /// And one for a fixed rate: exact fractions, no events.
    #[test]
    fn a_fixed_link_is_as_the_sum_of_its_packets(case in case()) {
        let RateSpec::Fixed(rate) = case.spec.rate else { return Ok(()) };
        let mut plain = case.rate_alone();
        plain.spec.changes = Changes::default();
        let rate = u128::from(rate.as_bps());
        // in units of 1 / rate ns
        let mut free = 0_u128;
        let mut want = Vec::new();
        for (pushed, packet) in &plain.pushes {
            let pushed = u128::from(pushed.as_nanos()) * rate;
            free = free.max(pushed) + u128::from(packet.len.get()) * 8_000_000_000;
            want.push((Time::from_nanos(free.div_ceil(rate) as u64), *packet));
        }
        prop_assert_eq!(departed(&plain.punctual()), want);
    }

    /// And one for a rate that changes: what a busy time has carried is the sum of the rates under
    /// it.
    #[test]
    fn a_changing_link_is_as_the_sum_of_its_rates(case in case()) {
        let RateSpec::Fixed(rate) = case.spec.rate else { return Ok(()) };
        let mut plain = case.rate_alone();
        for step in &mut plain.spec.changes.steps {
            step.loss = None;
        }
        plain.spec.changes.repeat = None;
        let mut points = vec![(Time::ZERO, rate)];
        points.extend(plain.spec.changes.steps.iter().filter_map(|s| s.rate.map(|r| (s.at, r))));
        points.sort_by_key(|p| p.0);
        // when `bit_ns` are done that begin at `from`
        let done = |from: Time, mut bit_ns: u128| {
            for (i, (at, rate)) in points.iter().enumerate() {
                let until = points.get(i + 1).map_or(Time::MAX, |p| p.0);
                let begin = from.max(*at);
                let rate = u128::from(rate.as_bps());
                let here = rate * u128::from(until.since(begin).as_nanos());
                if here >= bit_ns && until > begin {
                    return begin + Span::from_nanos(bit_ns.div_ceil(rate.max(1)) as u64);
                }
                bit_ns -= here;
            }
            Time::MAX
        };
        let (mut busy_from, mut bit_ns, mut last) = (Time::ZERO, 0, Time::ZERO);
        let mut want = Vec::new();
        for (pushed, packet) in &plain.pushes {
            if *pushed >= last {
                (busy_from, bit_ns) = (*pushed, 0);
            }
            bit_ns += u128::from(packet.len.get()) * 8_000_000_000;
            last = done(busy_from, bit_ns);
            want.push((last, *packet));
        }
        prop_assert_eq!(departed(&plain.punctual()), want);
    }
}
