// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use alcc_cc::conformance::{Checked, HostUnderTest, START, check_host};
use alcc_cc::{AckBatch, Algorithm, Controller, Cx, Instance, LossBatch, RecoveryEnd, Spec, Tag};
use proptest::prelude::*;
use std::cell::RefCell;

const MTU: u16 = 1200;

thread_local! {
    static TOLD: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

fn report(what: String) {
    TOLD.with_borrow_mut(|told| told.push(what));
}

/// The calls since the last time.
fn told() -> Vec<String> {
    TOLD.take()
}

/// Records its calls. It has a window of ten packets, and a timer every 5 ms.
#[derive(Clone)]
struct Recorder {
    timer: Time,
}

impl Controller for Recorder {
    fn on_sent(&mut self, cx: &mut Cx<'_>, sent: &Sent) -> Tag {
        let ms = cx.now.as_millis_f64();
        report(format!(
            "sent {} at {ms} over {}",
            sent.pn,
            sent.in_flight_before.get()
        ));
        Tag(sent.pn + 100)
    }

    fn on_ack(&mut self, _cx: &mut Cx<'_>, ack: &AckBatch<'_>) {
        let of: Vec<_> = (ack.acked.iter())
            .map(|p| {
                format!(
                    "{}/{}/{}",
                    p.pn,
                    p.tag.0,
                    p.rtt.unwrap_or_default().as_millis_f64()
                )
            })
            .collect();
        report(format!(
            "ack {} in flight {} to {} delivered {} round {} recovery {} app {}",
            of.join(" "),
            ack.in_flight_before.get(),
            ack.in_flight.get(),
            ack.delivered.get(),
            ack.round_start,
            ack.in_recovery,
            ack.limited.app,
        ));
    }

    fn on_loss(&mut self, _cx: &mut Cx<'_>, loss: &LossBatch<'_>) {
        let of: Vec<_> = loss
            .lost
            .iter()
            .map(|p| format!("{}/{}", p.pn, p.tag.0))
            .collect();
        let (new, in_flight) = (loss.new_episode, loss.in_flight.get());
        report(format!(
            "loss {} new {new} in flight {in_flight}",
            of.join(" ")
        ));
    }

    fn on_rto(&mut self, cx: &mut Cx<'_>, rto: &Rto) {
        let ms = cx.now.as_millis_f64();
        report(format!(
            "timeout {} of {} at {ms}",
            rto.backoff, rto.oldest.pn
        ));
    }

    fn on_spurious(&mut self, _cx: &mut Cx<'_>, what: Spurious) {
        report(format!("spurious {what:?}"));
    }

    fn on_recovery_end(&mut self, _cx: &mut Cx<'_>, _end: &RecoveryEnd) {
        report("repaired".to_owned());
    }

    fn on_idle_restart(&mut self, _cx: &mut Cx<'_>, idle: Span) {
        report(format!("idle {}", idle.as_millis_f64()));
    }

    fn on_mtu(&mut self, _cx: &mut Cx<'_>, mss: Bytes) {
        report(format!("mss {}", mss.get()));
    }

    fn on_timer(&mut self, cx: &mut Cx<'_>) {
        self.timer = cx.now + Span::from_millis(5);
    }

    fn next_timer(&self) -> Option<Time> {
        Some(self.timer)
    }

    fn allowance(&self) -> Allowance {
        Allowance::window(Bytes::new(12_000))
    }
}

struct Stack {
    origin: Instant,
    host: Host,
}

impl Stack {
    fn new(cc: Instance) -> Self {
        let origin = Instant::now();
        told();
        Self {
            origin,
            host: Host::new(Checked::of(cc), origin, MTU, 1, Arc::default()),
        }
    }

    fn recorded() -> Self {
        let timer = Time::ZERO + Span::from_millis(5);
        Self::new(Instance::new(Recorder { timer }))
    }

    fn at(&self, ms: u64) -> Instant {
        self.origin + Duration::from_millis(ms)
    }

    fn sent(&mut self, ms: u64, numbers: std::ops::Range<u64>) {
        for number in numbers {
            self.host.sent(self.at(ms), 1200, number);
        }
    }

    /// Acknowledges as the stack does: each packet, then the end, then it reads the window.
    fn acked(&mut self, ms: u64, sent: u64, numbers: &[u64], in_flight: u64) {
        for number in numbers {
            self.host.acknowledged(self.at(ms), self.at(sent), *number);
        }
        self.host.end_acks(self.at(ms), in_flight, false);
    }
}

#[test]
fn losses_come_before_the_acknowledgement_that_disclosed_them() {
    let mut stack = Stack::recorded();
    stack.sent(0, 0..6);
    assert_eq!(told()[5], "sent 5 at 0 over 6000");
    stack.acked(40, 0, &[4, 5], 4800);
    stack.host.lost(stack.at(40), 1200, 0);
    stack.host.lost(stack.at(40), 1200, 1);
    stack.host.on_congestion_event(stack.at(40), false, false);
    assert!(told().is_empty(), "in pieces");
    stack.host.run(None);
    assert_eq!(
        told(),
        [
            "loss 0/100 1/101 new true in flight 2400",
            "ack 4/104/40 5/105/40 in flight 7200 to 2400 delivered 2400 round true recovery true app false",
        ]
    );
    stack.sent(41, 6..7);
    stack.acked(80, 41, &[6], 2400);
    stack.host.run(None);
    assert_eq!(
        told()[1..],
        [
            "ack 6/106/39 in flight 3600 to 2400 delivered 3600 round true recovery false app false",
            "repaired",
        ]
    );
}

#[test]
fn a_mark_is_answered_as_a_loss() {
    let mut stack = Stack::recorded();
    stack.sent(0, 0..3);
    stack.acked(40, 0, &[0], 2400);
    stack.host.on_congestion_event(stack.at(40), false, true);
    stack.host.run(None);
    assert_eq!(told()[3], "loss 0/100 new true in flight 2400");
}

#[test]
fn numbers_of_two_spaces_are_kept_apart() {
    let mut stack = Stack::recorded();
    stack.sent(0, 0..1);
    stack.sent(3, 0..1);
    stack.acked(50, 3, &[0], 1200);
    stack.acked(60, 0, &[0], 0);
    stack.host.run(None);
    let told = told();
    assert!(told[2].starts_with("ack 1/101/47 "), "{told:?}");
    assert!(told[3].starts_with("ack 0/100/60 "), "{told:?}");
}

#[test]
fn silence_becomes_a_timeout_and_doubles() {
    let mut stack = Stack::recorded();
    stack.sent(0, 0..2);
    stack.acked(100, 0, &[0], 1200);
    told();
    let mut events = Vec::new();
    for ms in 100..8_000 {
        stack.host.run(Some(stack.at(ms)));
        events.extend(told());
    }
    let timeouts: Vec<_> = events.iter().filter(|t| t.starts_with("timeout")).collect();
    // 3 x (100 + 4 x 50 + 25) ms are less than a second.
    assert_eq!(
        timeouts,
        [
            "timeout 1 of 1 at 1100",
            "timeout 2 of 1 at 3100",
            "timeout 3 of 1 at 7100"
        ]
    );
    // The stack reports this when the path works again, which is known then.
    stack.host.lost(stack.at(8_000), 1200, 1);
    stack.host.on_congestion_event(stack.at(8_000), true, false);
    stack.host.run(None);
    assert_eq!(told(), ["loss 1/101 new true in flight 0"]);
}

#[test]
fn after_a_pause_and_on_another_path() {
    let mut stack = Stack::recorded();
    stack.sent(0, 0..1);
    stack.acked(50, 0, &[0], 0);
    stack.sent(1_050, 1..2);
    let told_so = told();
    assert_eq!(told_so[2], "idle 1000", "{told_so:?}");
    stack.host.mtu(1452);
    assert_eq!(told(), ["mss 1452"]);
    let mut other = stack.host.clone_for_path();
    assert_eq!(
        other.window(),
        8 * 1452,
        "ten packets of 1200, in whole ones of 1452"
    );
    // Packets in flight on the old path do not belong to this one.
    other.acknowledged(stack.at(1_100), stack.at(1_050), 1);
    other.end_acks(stack.at(1_100), 0, true);
    other.run(None);
    assert!(told().is_empty());
}

#[test]
fn small_packets_take_no_place_of_large_ones() {
    let mut stack = Stack::recorded();
    stack.sent(0, 0..9);
    stack.host.sent(stack.at(0), 40, 9);
    // The stack sends if a full packet fits below the window.
    let in_flight = 9 * 1200 + 40;
    assert!(in_flight + 1200 <= stack.host.window());
    stack.sent(0, 10..11);
    assert!(in_flight + 1200 + 1200 > stack.host.window());
}

#[derive(Clone, Debug)]
enum Event {
    Wait(u32),
    Send(u8, u16),
    /// Acknowledges some of those under way, from the front or the back.
    Ack(u8, bool),
    Lose(u8),
    Mark,
    Persistent,
    Spurious,
    Mtu(u16),
    /// The stack reckons otherwise.
    InFlight(u64),
    Stranger(u64),
    Blocked,
    Fork,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0..60_000u32).prop_map(Event::Wait),
        1 => (0..u32::MAX).prop_map(Event::Wait),
        6 => (1..40u8, 1..1500u16).prop_map(|(n, len)| Event::Send(n, len)),
        6 => (any::<u8>(), any::<bool>()).prop_map(|(n, back)| Event::Ack(n, back)),
        2 => any::<u8>().prop_map(Event::Lose),
        1 => Just(Event::Mark),
        1 => Just(Event::Persistent),
        1 => Just(Event::Spurious),
        1 => (1..9000u16).prop_map(Event::Mtu),
        1 => any::<u64>().prop_map(|n| Event::InFlight(n >> 20)),
        1 => any::<u64>().prop_map(Event::Stranger),
        1 => Just(Event::Blocked),
        1 => Just(Event::Fork),
    ]
}

/// With any events of the stack, windows and timers are valid for it.
fn bears(cc: Instance, events: &[Event], clock: bool, timers: bool) {
    let mut stack = Stack::new(cc);
    if timers {
        stack.host.has_timers();
    }
    let (mut us, mut next, mut mtu) = (0u64, 0u64, u64::from(MTU));
    let mut under_way: Vec<(u64, u64, u64)> = Vec::new();
    for event in events {
        let now = stack.origin + Duration::from_micros(us);
        let sum = |all: &[(u64, u64, u64)]| all.iter().map(|p| p.2).sum::<u64>();
        match *event {
            Event::Wait(more) => us += u64::from(more),
            Event::Send(n, len) => {
                for _ in 0..n {
                    let len = u64::from(len);
                    if sum(&under_way) + len > stack.host.window().min(1 << 24) {
                        stack.host.blocked();
                        break;
                    }
                    stack.host.sent(now, len, next);
                    under_way.push((next, us, len));
                    next += 1;
                }
            }
            Event::Ack(n, back) => {
                let n = usize::from(n).min(under_way.len());
                let from = if back { under_way.len() - n } else { 0 };
                for (number, sent, _) in under_way.drain(from..from + n).collect::<Vec<_>>() {
                    let sent = stack.origin + Duration::from_micros(sent);
                    stack.host.acknowledged(now, sent, number);
                }
                stack.host.end_acks(now, sum(&under_way), n % 3 == 0);
            }
            Event::Lose(n) => {
                let n = usize::from(n).min(under_way.len());
                for (number, _, len) in under_way.drain(..n).collect::<Vec<_>>() {
                    stack.host.lost(now, len, number);
                }
                stack.host.on_congestion_event(now, false, false);
            }
            Event::Mark => stack.host.on_congestion_event(now, false, true),
            Event::Persistent => stack.host.on_congestion_event(now, true, false),
            Event::Spurious => stack.host.spurious(),
            Event::Mtu(to) => {
                mtu = u64::from(to);
                stack.host.mtu(to);
            }
            Event::InFlight(n) => stack.host.end_acks(now, n, true),
            Event::Stranger(number) => {
                stack.host.acknowledged(now, now, number);
                stack.host.lost(now, number % 1500, number);
            }
            Event::Blocked => stack.host.blocked(),
            Event::Fork => {
                stack.host = stack.host.clone_for_path();
                under_way.clear();
            }
        }
        stack.host.run(clock.then_some(now));
        let window = stack.host.window();
        assert!(window > 0, "after {event:?}");
        if stack.host.is_idle() && !timers {
            assert!(window >= mtu, "after {event:?}: stuck with {window}");
        }
        if let Some(rate) = stack.host.allowance().rate {
            let bps = rate.as_bps();
            assert!((8_000..=1_000_000_000_000).contains(&bps), "{bps}");
        }
        // A caller that follows `next_timer` does not spin.
        if let (true, Some(wakes)) = (clock, stack.host.next_timer()) {
            assert!(wakes > now, "after {event:?}");
        }
    }
}

fn all() -> Vec<(Algorithm, Spec)> {
    let registry = alcc_zoo::registry();
    let specs = |a: &Algorithm| {
        let spec = |options| Spec {
            name: a.name.to_owned(),
            options,
        };
        let profiles = a
            .profiles
            .iter()
            .map(|p| vec![("profile".to_owned(), (*p).to_owned())]);
        let named: Vec<_> = profiles.map(spec).collect();
        if named.is_empty() {
            vec![spec(Vec::new())]
        } else {
            named
        }
    };
    registry
        .iter()
        .flat_map(|a| specs(a).into_iter().map(|s| (a.clone(), s)))
        .collect()
}

#[test]
fn every_algorithm_bears_whatever_a_stack_says() {
    let registry = alcc_zoo::registry();
    for (_, spec) in all() {
        let Ok(cc) = registry.build(&spec) else {
            // One that has to be given a file.
            continue;
        };
        let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
            cases: 12,
            failure_persistence: None,
            ..ProptestConfig::default()
        });
        let events = proptest::collection::vec(event(), 1..80);
        let outcome = runner.run(
            &(events, any::<bool>(), any::<bool>()),
            |(events, clock, timers)| {
                bears(cc.clone(), &events, clock, timers);
                Ok(())
            },
        );
        assert!(outcome.is_ok(), "{spec}: {}", outcome.unwrap_err());
    }
}

/// The stack below [`Host`], as far as the conformance kit's list goes.
struct Driven {
    stack: Stack,
    next: u64,
    under_way: Vec<(u64, Instant)>,
}

impl Driven {
    fn at(&self, now: Time) -> Instant {
        self.stack.origin + Duration::from_nanos(now.as_nanos())
    }
}

impl HostUnderTest for Driven {
    fn wait(&mut self, now: Time) {
        self.stack.host.run(Some(self.at(now)));
    }

    fn send(&mut self, now: Time, packets: usize) {
        let at = self.at(now);
        for _ in 0..packets {
            self.stack.host.run(Some(at));
            let in_flight = self.under_way.len() as u64 * u64::from(MTU);
            if in_flight + u64::from(MTU) > self.stack.host.window() {
                self.stack.host.blocked();
                break;
            }
            self.stack.host.sent(at, MTU.into(), self.next);
            self.under_way.push((self.next, at));
            self.next += 1;
        }
    }

    fn acknowledge(&mut self, now: Time, lost: usize, arrived: usize) {
        let at = self.at(now);
        let events: Vec<_> = self.under_way.drain(..lost + arrived).collect();
        for (number, sent) in &events[lost..] {
            self.stack.host.acknowledged(at, *sent, *number);
        }
        let in_flight = (self.under_way.len() + lost) as u64 * u64::from(MTU);
        self.stack.host.end_acks(at, in_flight, false);
        for (number, _) in &events[..lost] {
            self.stack.host.lost(at, MTU.into(), *number);
        }
        if lost > 0 {
            self.stack.host.on_congestion_event(at, false, false);
        }
        self.stack.host.run(None);
    }

    fn under_way(&self) -> usize {
        self.under_way.len()
    }
}

#[test]
fn reports_the_same_as_the_reference_host() {
    check_host(&alcc_zoo::registry(), Bytes::new(MTU.into()), &|cc| {
        let mut stack = Stack::new(cc);
        stack.host.has_timers();
        let start = stack.origin + Duration::from_nanos(START.as_nanos());
        stack.host.run(Some(start));
        Box::new(Driven {
            stack,
            next: 0,
            under_way: Vec::new(),
        })
    });
}
