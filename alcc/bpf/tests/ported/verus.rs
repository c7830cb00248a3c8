// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Verus in integers.
use super::beside::{Link, Seen, reaches_the_same, stay_together};
use super::paced::{Ack, Control, controller};

/// `struct verus_ack`.
#[repr(C)]
struct VerusAck {
    now: u64,
    sent_at: u64,
    rtt: u32,
    acked: u32,
    idle: u32,
    rate: u32,
    in_flight: u32,
}

unsafe extern "C" {
    fn alcc_host_verus_start(v: *mut Raw, now: u64, ratio: u32);
    fn alcc_host_verus_tick(v: *mut Raw, now: u64);
    fn alcc_host_verus_lost(v: *mut Raw, now: u64, sent_at: u64, lost: u32);
    fn alcc_host_verus_acked(v: *mut Raw, ack: *const VerusAck);
    fn alcc_host_verus_timeout(v: *mut Raw, now: u64);
    fn alcc_host_verus_undone(v: *mut Raw);
    fn alcc_host_verus_points(v: *const Raw) -> u32;
    fn alcc_host_verus_window(v: *const Raw) -> u64;
    fn alcc_host_verus_cwnd(v: *const Raw) -> u64;
    fn alcc_host_verus_pacing_rate(v: *const Raw, mss: u32) -> u64;
}

/// `struct verus`, which `host.c` asserts to fit.
#[derive(Clone)]
#[repr(C, align(8))]
struct Raw([u64; 1024]);

/// With a value of the option that a socket may set: r in units of 2^-8.
#[derive(Clone)]
pub(crate) struct Verus<const R: u32>(Raw);
pub(crate) type State = Verus<{ 6 << 8 }>;

// SAFETY: the state is as large as the C code's, and nobody else has it.
impl<const R: u32> Control for Verus<R> {
    const FOLLOWS: &'static str = if R == 2 << 8 { "verus:r=2" } else { "verus" };

    fn new() -> Self {
        let mut state = Self(Raw([0; 1024]));
        state.start(0);
        state
    }

    fn start(&mut self, now: u64) {
        // SAFETY: as above.
        unsafe { alcc_host_verus_start(&mut self.0, now, R) };
    }

    fn acked(&mut self, ack: &Ack) {
        // As the program does.
        self.timer(ack.now);
        let ack = VerusAck {
            now: ack.now,
            sent_at: ack.sent_at,
            rtt: ack.rtt,
            acked: ack.segments,
            idle: ack.idle.into(),
            rate: u32::try_from(ack.rate).unwrap_or(u32::MAX),
            in_flight: ack.in_flight,
        };
        // SAFETY: as above.
        unsafe { alcc_host_verus_acked(&mut self.0, &raw const ack) };
    }

    fn lost(&mut self, now: u64, sent_at: u64, segments: u32) {
        // SAFETY: as above.
        unsafe { alcc_host_verus_lost(&mut self.0, now, sent_at, segments) };
    }

    fn timeout(&mut self, now: u64) {
        // SAFETY: as above.
        unsafe { alcc_host_verus_timeout(&mut self.0, now) };
    }

    fn undone(&mut self) {
        // SAFETY: as above.
        unsafe { alcc_host_verus_undone(&mut self.0) };
    }

    fn timer(&mut self, now: u64) {
        // SAFETY: as above.
        unsafe { alcc_host_verus_tick(&mut self.0, now) };
    }

    fn target(&self) -> Option<u64> {
        // SAFETY: as above.
        Some(unsafe { alcc_host_verus_window(&raw const self.0) })
    }

    fn cwnd(&self) -> u64 {
        // SAFETY: as above.
        unsafe { alcc_host_verus_cwnd(&raw const self.0) }
    }

    fn pacing_rate(&self, mss: u32) -> u64 {
        // SAFETY: as above.
        unsafe { alcc_host_verus_pacing_rate(&raw const self.0, mss) }
    }
}

/// On the average the targets are within 10 %, and within 16 where the path changes. Drains and curves of the two come
/// at moments of their own, and only the reference's window is tested.
fn together(link: &Link, seen: &Seen) -> bool {
    let most = match link.name {
        "12 and 4 Mbit/s in turns, 40 ms" => 0.16,
        _ => 0.1,
    };
    seen.mean_share() <= most
}

#[test]
fn on_the_same_acknowledgements_the_windows_stay_together() {
    stay_together("verus", controller::<State>, together);
}

/// `segments` of a window in use are acknowledged after `rtt`.
fn ack(now: u64, rtt: u32, segments: u32, in_flight: u32) -> Ack {
    Ack {
        now,
        sent_at: now - u64::from(rtt),
        rtt,
        segments,
        in_flight,
        used: true,
        full: true,
        idle: false,
        rate: 0,
    }
}

/// Within a machine one acknowledgement covers everything in flight. The window was in use, so slow
/// start continues.
#[test]
fn an_acknowledgement_of_all_in_flight_lets_slow_start_grow() {
    let mut state = State::new();
    for round in 1..=10_u64 {
        let now = 100 * round;
        let flight = (state.cwnd() >> 20) as u32;
        state.acked(&ack(now, 50, flight, flight));
    }
    let packets = state.cwnd() >> 20;
    assert!(packets >= 5_000, "{packets} after ten round trips");
}

/// A flow whose queue of 30 ms is as long as it gets: what is lost counts. And the time, us.
fn at_its_longest_queue() -> (State, u64) {
    let mut state = State::new();
    let mut now = 0;
    for round in 0..5 {
        let rtt = if round < 4 { 50_000 } else { 80_000 };
        now += u64::from(rtt);
        let flight = (state.cwnd() >> 20) as u32;
        state.acked(&ack(now, rtt, flight, flight));
    }
    (state, now)
}

fn window(state: &State) -> u64 {
    state.target().unwrap() >> 20
}

#[test]
fn a_loss_that_was_none_is_undone_once() {
    let (mut state, now) = at_its_longest_queue();
    let was = window(&state);
    state.lost(now, now - 1000, 1);
    let reduced = window(&state);
    // Seven tenths of a flight, which is half of a window that has just doubled.
    assert!(reduced < was / 2, "{reduced} of {was}");
    let mut timed_out = state.clone();
    state.undone();
    assert_eq!(window(&state), was);
    state.lost(now + 200_000, now + 190_000, 1);
    assert!(window(&state) < was, "the next loss counts");
    // A timeout gives back what it has taken itself.
    timed_out.timeout(now + 300_000);
    let first = window(&timed_out);
    timed_out.timeout(now + 900_000);
    assert!(window(&timed_out) < first);
    for _ in 0..2 {
        timed_out.undone();
        assert_eq!(window(&timed_out), first);
    }
}

/// The reduction before it was for packets that were lost.
#[test]
fn a_loss_that_was_none_and_did_not_count_gives_nothing_back() {
    let (mut state, now) = at_its_longest_queue();
    state.lost(now, now - 1000, 1);
    let reduced = window(&state);
    // While the first one is repaired none counts.
    state.lost(now + 10_000, now + 5000, 1);
    state.undone();
    assert_eq!(window(&state), reduced);
}

/// A packet sent after a timeout is sent alone, so a second timeout concerns that packet and not a window.
#[test]
fn a_second_timeout_is_of_the_packet_that_left_after_the_first() {
    let (mut state, now) = at_its_longest_queue();
    state.timeout(now + 300_000);
    assert!(window(&state) > 10);
    state.timeout(now + 900_000);
    assert_eq!(window(&state), 1);
}

/// 12 packets are acknowledged in each 4 ms, the span of a label: by labels alone, one window in 12 would be known.
#[test]
fn a_window_that_rises_learns_the_delay_of_each_window() {
    let mut state = State::new();
    for ms in 50..200_u64 {
        for part in 0..3 {
            let now = ms * 1000 + part * 333;
            let flight = (state.cwnd() >> 20) as u32;
            state.acked(&ack(now, 50_000, 1, flight));
        }
    }
    // SAFETY: as above.
    let points = unsafe { alcc_host_verus_points(&raw const state.0) };
    // 150 acknowledgements are of what left before a label was noted; the others pass by some 80 windows.
    assert!(points >= 150 + 70, "{points} windows");
}

#[test]
fn alone_on_a_link_it_reaches_what_the_reference_reaches() {
    reaches_the_same("verus", controller::<State>, 0.1, 0.2);
    // With so short a queue the two differ more, but far less than from r = 6.
    reaches_the_same("verus:r=2", controller::<Verus<{ 2 << 8 }>>, 0.12, 0.5);
}
