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
    fn alcc_host_budget_mark(b: *mut State);
    fn alcc_host_budget_undone(b: *mut State);
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

    fn episode(&mut self) {
        // SAFETY: as above.
        unsafe { alcc_host_budget_mark(self) };
    }

    fn undone(&mut self) {
        // SAFETY: as above.
        unsafe { alcc_host_budget_undone(self) };
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

/// Delivers a packet every `every` microseconds from after `from` until `until` ms, each with an RTT of `rtt` ms.
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

fn packets(b: &State) -> f64 {
    b.cwnd() as f64 / f64::from(1 << 20)
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
