// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Budget in integers.
use super::beside::{
    reaches_the_same, stay_together, stays_together_beside_cubic, within_a_packet,
};
use super::paced::{Ack, Control, controller};

/// `struct budget_ack`.
#[repr(C)]
struct BudgetAck {
    now: u64,
    sent_at: u64,
    rtt: u32,
    acked: u32,
    used: u32,
    full: u32,
    idle: u32,
}

unsafe extern "C" {
    fn alcc_host_budget_start(b: *mut State, now: u64, delay: u32);
    fn alcc_host_budget_acked(b: *mut State, ack: *const BudgetAck);
    fn alcc_host_budget_lost(b: *mut State, now: u64, sent_at: u64, lost: u32);
    fn alcc_host_budget_timeout(b: *mut State, now: u64);
    fn alcc_host_budget_silence(b: *mut State, now: u64);
    fn alcc_host_budget_silent_at(b: *const State) -> u64;
    fn alcc_host_budget_cwnd(b: *const State) -> u64;
    fn alcc_host_budget_window(b: *const State) -> u64;
    fn alcc_host_budget_pacing_rate(b: *const State, mss: u32) -> u64;
}

/// `struct budget`, which `host.c` asserts to fit.
#[derive(Clone)]
#[repr(C, align(8))]
pub(crate) struct State([u64; 512]);

/// Microseconds.
const DELAY: u32 = 40_000;

// SAFETY: the state is as large as the C code's, and nobody else has it.
impl Control for State {
    const FOLLOWS: &'static str = "budget";

    fn new() -> Self {
        let mut state = Self([0; 512]);
        state.start(0);
        state
    }

    fn start(&mut self, now: u64) {
        // SAFETY: as above.
        unsafe { alcc_host_budget_start(self, now, DELAY) };
    }

    fn acked(&mut self, ack: &Ack) {
        let ack = BudgetAck {
            now: ack.now,
            sent_at: ack.sent_at,
            rtt: ack.rtt,
            acked: ack.segments,
            used: ack.used.into(),
            full: ack.full.into(),
            idle: ack.idle.into(),
        };
        // SAFETY: as above.
        unsafe { alcc_host_budget_acked(self, &raw const ack) };
    }

    fn lost(&mut self, now: u64, sent_at: u64, segments: u32) {
        // SAFETY: as above.
        unsafe { alcc_host_budget_lost(self, now, sent_at, segments) };
    }

    fn timeout(&mut self, now: u64) {
        // SAFETY: as above.
        unsafe { alcc_host_budget_timeout(self, now) };
    }

    fn timer(&mut self, now: u64) {
        // SAFETY: as above.
        unsafe { alcc_host_budget_silence(self, now) };
    }

    fn next_timer(&self) -> Option<u64> {
        // SAFETY: as above.
        let at = unsafe { alcc_host_budget_silent_at(self) };
        (at > 0).then_some(at)
    }

    fn cwnd(&self) -> u64 {
        // SAFETY: as above.
        unsafe { alcc_host_budget_cwnd(self) }
    }

    fn window(&self) -> u64 {
        // SAFETY: as above.
        unsafe { alcc_host_budget_window(self) }
    }

    fn pacing_rate(&self, mss: u32) -> u64 {
        // SAFETY: as above.
        unsafe { alcc_host_budget_pacing_rate(self, mss) }
    }
}

#[test]
fn on_the_same_acknowledgements_the_windows_stay_within_a_packet() {
    stay_together("budget", controller::<State>, within_a_packet);
}

#[test]
fn alone_on_a_link_it_reaches_what_the_reference_reaches() {
    reaches_the_same("budget", controller::<State>, 0.01, 0.0);
}

#[test]
fn the_window_that_competes_stays_within_a_packet() {
    stays_together_beside_cubic("budget", controller::<State>());
}

/// A packet every so many microseconds, back after `rtt` ms each; from after `from` until `until` ms.
fn deliver(b: &mut State, every: usize, rtt: u64, from: u64, until: u64) {
    for now in (from * 1000..=until * 1000).step_by(every).skip(1) {
        b.acked(&Ack {
            now,
            sent_at: now.saturating_sub(rtt * 1000),
            rtt: rtt as u32 * 1000,
            segments: 1,
            used: true,
            full: true,
            idle: false,
            rate: 0,
            in_flight: 0,
        });
    }
}

/// From 100 ms on others keep 60 ms of queue, which no drain lowers, until `until` ms.
fn beside_others(from: u64, until: u64, b: &mut State) {
    deliver(b, 1000, 100, from.min(100), until.min(100));
    deliver(b, 1000, 160, from.max(100), until.max(100));
}

fn packets(b: &State) -> f64 {
    b.cwnd() as f64 / f64::from(1 << 20)
}

/// The competition began at 12.16 s, as in the test of the same name in `cc`. A packet sent so many ms
/// after that is lost at 15 s.
fn first_loss(sent_after: i64) -> State {
    let mut b = State::new();
    beside_others(0, 15_000, &mut b);
    let sent_at = 12_160_u64.checked_add_signed(sent_after).unwrap() * 1000;
    b.lost(15_000_000, sent_at, 1);
    beside_others(15_000, 15_001, &mut b);
    b
}

#[test]
fn what_was_sent_before_the_competition_and_is_lost_is_no_cut() {
    let mut b = State::new();
    beside_others(0, 15_000, &mut b);
    let window = packets(&b);
    assert!((160.0..190.0).contains(&window), "it competes: {window}");
    let mut b = first_loss(-100);
    assert!((packets(&b) - window).abs() < 0.1, "{}", packets(&b));
    // Nor does it grow faster since: a packet per round trip, 1000 packets per second.
    beside_others(15_001, 17_001, &mut b);
    let from = packets(&b);
    beside_others(17_001, 17_201, &mut b);
    let grown = (packets(&b) - from) * (packets(&b) + from) / 2.0 / 200.0;
    assert!((grown - 1.0).abs() < 0.05, "{grown}");
    let cut = packets(&first_loss(100)) / window;
    assert!((cut - 0.7).abs() < 0.01, "{cut}");
}

#[test]
fn cuts_are_two_seconds_apart() {
    let mut b = State::new();
    deliver(&mut b, 1000, 100, 0, 100);
    deliver(&mut b, 1000, 300, 100, 15_000);
    let mut lost = |now: u64| {
        b.lost(now * 1000, (now - 100) * 1000, 1);
        deliver(&mut b, 1000, 300, now, now + 1);
        packets(&b)
    };
    let (first, soon, later) = (lost(15_000), lost(16_900), lost(17_100));
    assert!((210.0..220.0).contains(&first), "{first}");
    assert!((soon - first).abs() < 0.1, "{soon}, not {first}");
    assert!((later / soon - 0.7).abs() < 0.01, "{later} of {soon}");
}

/// The fourth drain ends when others that keep `queue` ms have taken all but a quarter of the rate; the
/// window, by the RTT.
fn rate_that_competes(queue: u64) -> f64 {
    let mut b = State::new();
    deliver(&mut b, 1000, 100, 0, 100);
    deliver(&mut b, 1000, 100 + queue, 100, 6200);
    deliver(&mut b, 4000, 100 + queue, 6200, 12_600);
    packets(&b) / (100 + queue) as f64 * 1000.0
}

#[test]
fn in_a_deep_buffer_a_competition_begins_with_the_best_rate() {
    let (shallow, deep) = (rate_that_competes(50), rate_that_competes(100));
    assert!((420.0..480.0).contains(&shallow), "{shallow}");
    assert!((990.0..1020.0).contains(&deep), "{deep}");
}

/// Packets after a drain of an RTT that has risen by 25 ms, while a packet came every so many
/// microseconds. Before that it was one a millisecond.
fn after_a_longer_rtt(every: usize) -> f64 {
    let mut b = State::new();
    deliver(&mut b, 1000, 40, 0, 100);
    b.timeout(100_000);
    deliver(&mut b, 1000, 40, 100, 6500);
    deliver(&mut b, every, 65, 6500, 9500);
    packets(&b)
}

#[test]
fn a_longer_route_is_seen_after_one_drain_if_the_rate_has_fallen() {
    let (route, queue) = (after_a_longer_rtt(1111), after_a_longer_rtt(1000));
    // Behind none of ours on the longer route: the quantile is 1.3 times the rate. Behind others the mean
    // decides, of a flow slow enough to have more than half of the budget.
    let high = 1.3 * 900.0 * (0.065 + 0.008) + 2.0;
    assert!((route - high).abs() < 0.5, "{route}, not {high}");
    let mean = 1000.0 * (0.04 + 0.02 + 0.001_36) + 2.0;
    assert!((queue - mean).abs() < 0.5, "{queue}, not {mean}");
}

#[test]
fn of_a_small_window_the_last_packet_is_in_flight_for_its_part() {
    let mut b = State::new();
    deliver(&mut b, 1000, 40, 0, 100);
    b.timeout(100_000);
    deliver(&mut b, 1000, 40, 100, 7000);
    let mut whole = 0;
    for ms in 7000..8000 {
        deliver(&mut b, 1000, 40, ms, ms + 1);
        whole += b.window() >> 20;
    }
    let (is, mean) = (packets(&b), whole as f64 / 1000.0);
    assert!((0.2..0.8).contains(&is.fract()), "{is}");
    assert!((mean - is).abs() < 0.01, "{mean}, not {is}");
}

#[test]
fn a_window_of_a_hundred_packets_is_whole() {
    let mut b = State::new();
    deliver(&mut b, 200, 40, 0, 100);
    b.timeout(100_000);
    deliver(&mut b, 200, 40, 100, 7000);
    assert!(packets(&b) > 100.0);
    assert_eq!(b.window(), b.cwnd());
}
