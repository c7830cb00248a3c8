// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `alcc_window` allows of a wish, and when it gives a socket back: the same source that runs
//! in the kernel, compiled for the host.
use alcc_bpf as _;

/// `struct window`.
#[repr(C)]
struct Window {
    answered: u64,
    last_ack: u64,
    beat: u32,
    round_began: u32,
    round_ends: u32,
    last_round: u32,
    tested: u32,
}

unsafe extern "C" {
    fn alcc_host_window_start(w: *mut Window, now: u64, delivered: u32, cwnd: u32);
    fn alcc_host_window_is_steered(w: *mut Window, now: u64, beat: u32) -> i32;
    fn alcc_host_window_round(w: *mut Window, delivered: u32, in_flight: u32, tested: i32);
    fn alcc_host_window_quota_holds(w: *const Window, now: u64, beat: u32) -> i32;
    fn alcc_host_window_until(wish: u32, until: u32, sent: u32, in_flight: u32) -> u32;
    fn alcc_host_window_paced(rate: u64, mss: u32) -> u64;
    fn alcc_host_window_allowed(w: *const Window, wish: u32, clamp: u32, repairing: i32) -> u32;
}

const MS: u64 = 1000;

impl Window {
    fn new(now: u64, delivered: u32, cwnd: u32) -> Self {
        let mut w = Self {
            answered: 0,
            last_ack: 0,
            beat: 0,
            round_began: 0,
            round_ends: 0,
            last_round: 0,
            tested: 0,
        };
        // SAFETY: the structure is the C code's, and nobody else has it.
        unsafe { alcc_host_window_start(&raw mut w, now, delivered, cwnd) };
        w
    }

    fn is_steered(&mut self, now: u64, beat: u32) -> bool {
        // SAFETY: as in `new`.
        (unsafe { alcc_host_window_is_steered(self, now, beat) }) != 0
    }

    fn round(&mut self, delivered: u32, in_flight: u32) {
        // SAFETY: as in `new`.
        unsafe { alcc_host_window_round(self, delivered, in_flight, 1) }
    }

    /// With less than half of the window in use.
    fn idle_round(&mut self, delivered: u32, in_flight: u32) {
        // SAFETY: as in `new`.
        unsafe { alcc_host_window_round(self, delivered, in_flight, 0) }
    }

    fn allowed(&self, wish: u32, clamp: u32, repairing: bool) -> u32 {
        // SAFETY: as in `new`.
        unsafe { alcc_host_window_allowed(self, wish, clamp, repairing.into()) }
    }
}

#[test]
fn half_a_second_of_acknowledgements_without_an_answer_is_the_end() {
    let mut w = Window::new(0, 0, 10);
    // Acknowledgements every 100 ms, answers until 300 ms.
    for n in 1..=3u32 {
        assert!(w.is_steered(u64::from(n) * 100 * MS, n));
    }
    for n in 4..=8 {
        assert!(w.is_steered(n * 100 * MS, 3), "{n}");
    }
    assert!(!w.is_steered(801 * MS, 3));
    assert!(w.is_steered(810 * MS, 4), "an answer is in time again");
}

#[test]
fn a_pause_is_no_silence() {
    let mut w = Window::new(0, 0, 10);
    assert!(w.is_steered(10 * MS, 1));
    // An idle connection has no acknowledgements to answer.
    assert!(w.is_steered(60_000 * MS, 1));
    assert!(w.is_steered(60_200 * MS, 1));
    assert!(w.is_steered(60_400 * MS, 1));
    assert!(!w.is_steered(60_501 * MS, 1));
}

#[test]
fn a_wish_is_bounded_by_what_was_delivered() {
    let mut w = Window::new(0, 1_000, 10);
    assert_eq!(w.allowed(30, 0, false), 30);
    assert_eq!(w.allowed(1_000, 0, false), 50, "four times ten and ten");
    assert_eq!(w.allowed(1_000, 0, true), 20, "twice ten");
    // 50 are sent; the round ends with the first ten, and the next one when the 50 are delivered.
    w.round(1_010, 50);
    assert_eq!(w.allowed(1_000, 0, false), 50);
    w.round(1_059, 50);
    assert_eq!(w.last_round, 10);
    w.round(1_060, 200);
    assert_eq!(w.last_round, 50);
    assert_eq!(w.allowed(1_000, 0, false), 210);
    assert_eq!(w.allowed(1_000, 0, true), 100);
    assert_eq!(
        w.allowed(1_000, 70, false),
        70,
        "the application's own limit"
    );
}

#[test]
fn what_the_sender_held_back_bounds_no_window() {
    let mut w = Window::new(0, 0, 10);
    w.round(10, 500);
    w.round(510, 500);
    assert_eq!(w.allowed(10_000, 0, false), 2_010);
    // The sender had little to send; a round trip within a machine may be a single segment.
    w.idle_round(1_010, 45);
    w.idle_round(1_055, 45);
    w.idle_round(1_100, 45);
    assert_eq!(w.allowed(10_000, 0, false), 2_010);
    // More than before is known at once.
    w.idle_round(1_145, 600);
    w.idle_round(1_745, 600);
    assert_eq!(w.allowed(10_000, 0, false), 2_410);
    // One moment in which the window was the limit is enough.
    w.round(1_800, 600);
    w.idle_round(2_345, 100);
    w.round(2_445, 100);
    assert_eq!(w.allowed(10_000, 0, false), 410);
}

#[test]
fn nonsense_is_bounded() {
    let w = Window::new(0, 0, u32::MAX);
    assert_eq!(w.allowed(u32::MAX, 0, false), 65_536);
    assert_eq!(w.allowed(u32::MAX, u32::MAX, true), 65_536);
    assert_eq!(w.allowed(1, 0, false), 2);
    let w = Window::new(0, 0, 0);
    assert_eq!(w.allowed(100, 0, true), 2, "something may always leave");
    assert_eq!(w.allowed(100, 1, false), 2);
}

#[test]
fn a_quota_is_no_window() {
    // SAFETY: a function of numbers.
    let until =
        |until, sent, in_flight| unsafe { alcc_host_window_until(100, until, sent, in_flight) };
    assert_eq!(until(0, 5_000, 40), 100, "there is none");
    assert_eq!(until(5_010, 5_000, 40), 50);
    assert_eq!(until(5_010, 5_010, 50), 50, "it is used up");
    assert_eq!(
        until(5_010, 5_010, 30),
        30,
        "what is delivered makes no room"
    );
    assert_eq!(until(5_010, 5_012, 30), 30, "a probe went past it");
    assert_eq!(until(6_000, 5_000, 30), 100, "the window holds as well");
    assert_eq!(until(4, u32::MAX - 1, 10), 16, "numbers wrap");
}

#[test]
fn a_quota_of_who_is_silent_is_old() {
    let mut w = Window::new(0, 0, 10);
    assert!(w.is_steered(10 * MS, 1));
    // SAFETY: as in `new`.
    let holds = |now: u64, beat| unsafe { alcc_host_window_quota_holds(&raw const w, now, beat) };
    assert_eq!(holds(110 * MS, 1), 1);
    assert_eq!(holds(111 * MS, 1), 0);
    assert_eq!(
        holds(900 * MS, 2),
        1,
        "an answer that no acknowledgement has seen"
    );
}

#[test]
fn counters_wrap() {
    let mut w = Window::new(0, u32::MAX - 4, 10);
    w.round(u32::MAX, 10);
    assert_eq!(w.round_began, u32::MAX - 4, "ten are not delivered yet");
    w.round(5, 20);
    assert_eq!((w.last_round, w.round_ends), (10, 25));
}

#[test]
fn a_rate_of_next_to_nothing_is_ten_packets_per_second() {
    // SAFETY: no pointers.
    let paced = |rate| unsafe { alcc_host_window_paced(rate, 1500) };
    assert_eq!(paced(1), 15_000);
    assert_eq!(paced(15_001), 15_001);
    assert_eq!(paced(u64::MAX), u64::MAX);
}
