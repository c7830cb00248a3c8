// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The limits of `alcc_window` on a requested window, and the time at which it returns a socket: the
//! same source that runs in the kernel, compiled for the host.
use alcc_bpf as _;

/// `struct window`.
#[repr(C)]
#[derive(Default)]
struct Window {
    answered: u64,
    last_ack: u64,
    beat: u32,
    ends: u32,
    flight: u32,
    lost: u32,
    first: u32,
    rate: u32,
    rate_before: u32,
    ceiling: u32,
    start_rate: u32,
    rounds: u8,
    plateau: u8,
    sampled: u8,
}

/// `struct window_ack`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Ack {
    interval: u64,
    packets: u32,
    delivered: u32,
    lost: u32,
    in_flight: u32,
    rtt: u32,
    limited: i32,
}

unsafe extern "C" {
    fn alcc_host_window_start(w: *mut Window, now: u64, delivered: u32, lost: u32, cwnd: u32);
    fn alcc_host_window_is_steered(w: *mut Window, now: u64, beat: u32) -> i32;
    fn alcc_host_window_acked(w: *mut Window, ack: *const Ack);
    fn alcc_host_window_timeout(w: *mut Window, cwnd: u32);
    fn alcc_host_window_quota_holds(w: *const Window, now: u64, beat: u32) -> i32;
    fn alcc_host_window_until(wish: u32, until: u32, sent: u32, in_flight: u32) -> u32;
    fn alcc_host_window_paced(w: *const Window, rate: u64, mss: u32) -> u64;
    fn alcc_host_window_allowed(w: *const Window, wish: u32, clamp: u32, rtt: u32) -> u32;
}

const MS: u64 = 1000;
/// The path of these tests: 40 ms, and 100 packets in each.
const RTT: u32 = 40_000;
const CARRIED: u32 = 100;
/// The window wants more than any path has.
const ALL: u32 = u32::MAX;

impl Window {
    fn new(now: u64, delivered: u32, cwnd: u32) -> Self {
        Self::after_losses(now, delivered, 0, cwnd)
    }

    fn after_losses(now: u64, delivered: u32, lost: u32, cwnd: u32) -> Self {
        let mut w = Self::default();
        // SAFETY: the structure is the C code's, and nobody else has it.
        unsafe { alcc_host_window_start(&raw mut w, now, delivered, lost, cwnd) };
        w
    }

    fn is_steered(&mut self, now: u64, beat: u32) -> bool {
        // SAFETY: as in `new`.
        (unsafe { alcc_host_window_is_steered(self, now, beat) }) != 0
    }

    fn acked(&mut self, ack: Ack) {
        // SAFETY: as in `new`.
        unsafe { alcc_host_window_acked(self, &raw const ack) }
    }

    fn allowed(&self, wish: u32, clamp: u32) -> u32 {
        // SAFETY: as in `new`.
        unsafe { alcc_host_window_allowed(self, wish, clamp, RTT) }
    }

    fn paced(&self, rate: u64) -> u64 {
        // SAFETY: as in `new`.
        unsafe { alcc_host_window_paced(self, rate, 1500) }
    }
}

/// A connection that has all in flight that it may, on a path that carries `CARRIED` packets in
/// `RTT` and keeps `queue` more.
struct Greedy {
    w: Window,
    delivered: u32,
    lost: u32,
    queue: u32,
}

impl Greedy {
    fn new(queue: u32) -> Self {
        Self {
            w: Window::new(0, 0, 10),
            delivered: 0,
            lost: 0,
            queue,
        }
    }

    /// One round trip: what was allowed, and what of it was lost. The path took `of` of it at most.
    fn round(&mut self, of: u32) -> (u32, u32) {
        let window = self.w.allowed(ALL, 0);
        let lost = window.saturating_sub(of + self.queue);
        let packets = window - lost;
        self.delivered += packets;
        self.lost += lost;
        // What waits takes longer: the rate is never more than the path's.
        let ack = Ack {
            interval: u64::from(RTT) * u64::from(packets.max(of)) / u64::from(of),
            packets,
            delivered: self.delivered,
            lost: self.lost,
            in_flight: window,
            rtt: RTT,
            limited: 0,
        };
        self.w.acked(Ack {
            in_flight: self.w.allowed(ALL, 0),
            ..ack
        });
        (window, lost)
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
fn a_wish_is_bounded_by_what_the_path_carries() {
    let mut greedy = Greedy::new(CARRIED);
    assert_eq!(greedy.w.allowed(8, 0), 8, "a small wish is granted");
    assert_eq!(greedy.w.allowed(ALL, 0), 10, "nothing is known yet");
    // As fast as slow start.
    let first: Vec<_> = (0..4).map(|_| greedy.round(CARRIED).0).collect();
    assert!(first.windows(2).all(|w| w[1] >= 2 * w[0]), "{first:?}");
    // Then half as much again as the path carries, and ten.
    for _ in 0..20 {
        greedy.round(CARRIED);
    }
    let (window, lost) = greedy.round(CARRIED);
    assert!((158..=160).contains(&window), "{window}");
    assert_eq!(lost, 0);
    assert_eq!(greedy.w.allowed(ALL, 70), 70, "the application's own limit");
    // A flow that no longer has the link gets no more of it: the old rate is forgotten.
    for _ in 0..20 {
        greedy.round(CARRIED / 2);
    }
    let (window, _) = greedy.round(CARRIED / 2);
    assert!((83..=85).contains(&window), "{window}");
}

#[test]
fn a_round_of_losses_lowers_the_window_and_one_loss_does_not() {
    // There is no room for half as much again.
    let mut greedy = Greedy::new(20);
    let rounds: Vec<_> = (0..200).map(|_| greedy.round(CARRIED)).collect();
    let (sent, lost) = rounds[20..]
        .iter()
        .fold((0, 0), |sum, round| (sum.0 + round.0, sum.1 + round.1));
    assert!(lost * 30 < sent, "{lost} of {sent}");
    assert!(sent >= 180 * CARRIED, "the path is full: {sent}");
    // Two of a hundred are no sign of a full queue.
    let mut greedy = Greedy::new(CARRIED);
    for _ in 0..50 {
        greedy.round(CARRIED);
        greedy.lost += 2;
    }
    assert!(greedy.w.allowed(ALL, 0) >= 150);
    // A timeout is.
    // SAFETY: the structure is the C code's, and nobody else has it.
    unsafe { alcc_host_window_timeout(&raw mut greedy.w, 150) };
    assert_eq!(greedy.w.allowed(ALL, 0), 75);
}

#[test]
fn to_begin_again_grants_nothing() {
    // Another control in between: the window is what it was, and there is no second start.
    let w = Window::after_losses(0, 1_000, 5, 120);
    assert_eq!(w.allowed(ALL, 0), 120);
    let mut greedy = Greedy::new(CARRIED);
    greedy.w = Window::after_losses(0, 0, 5, 20);
    greedy.lost = 5;
    let first: Vec<_> = (0..6).map(|_| greedy.round(CARRIED).0).collect();
    assert!(first.iter().all(|window| *window <= 30), "{first:?}");
}

#[test]
fn what_the_program_held_back_bounds_no_window() {
    let mut greedy = Greedy::new(CARRIED);
    for _ in 0..30 {
        greedy.round(CARRIED);
    }
    let before = greedy.w.allowed(ALL, 0);
    for n in 1..=30 {
        let ack = Ack {
            interval: u64::from(RTT),
            packets: 3,
            delivered: greedy.delivered + 3 * n,
            lost: greedy.lost,
            in_flight: 3,
            rtt: RTT,
            limited: 1,
        };
        greedy.w.acked(ack);
    }
    assert_eq!(greedy.w.allowed(ALL, 0), before);
}

#[test]
fn nonsense_is_bounded() {
    let mut w = Window::new(0, 0, ALL);
    assert_eq!(w.allowed(ALL, 0), 65_536);
    assert_eq!(w.allowed(1, 0), 2);
    assert_eq!(w.allowed(100, 1), 2);
    w.acked(Ack {
        interval: 1,
        packets: ALL,
        delivered: ALL,
        lost: 0,
        in_flight: ALL,
        rtt: ALL,
        limited: 0,
    });
    // SAFETY: as in `new`.
    let most = unsafe { alcc_host_window_allowed(&raw const w, ALL, ALL, ALL) };
    assert_eq!(most, 65_536);
    assert!(w.paced(u64::MAX) > 1 << 32);
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
    let mut w = Window::new(0, ALL - 4, 10);
    let ack = |delivered| Ack {
        interval: 40_000,
        packets: 5,
        delivered,
        in_flight: 20,
        rtt: RTT,
        ..Ack::default()
    };
    w.acked(ack(ALL));
    assert_eq!(w.flight, 10, "ten are not delivered yet");
    w.acked(ack(5));
    assert_eq!((w.flight, w.ends), (20, 25));
}

#[test]
fn a_rate_is_at_least_ten_packets_per_second_and_at_most_twice_the_paths() {
    let w = Window::new(0, 0, 10);
    assert_eq!(w.paced(1), 15_000);
    assert_eq!(w.paced(15_001), 15_001);
    assert_eq!(w.paced(u64::MAX), u64::MAX, "nothing is known yet");
    let mut greedy = Greedy::new(CARRIED);
    for _ in 0..30 {
        greedy.round(CARRIED);
    }
    // 100 packets in 40 ms.
    let path = 1500.0 * 100.0 / 0.04;
    let most = greedy.w.paced(u64::MAX) as f64 / path;
    assert!((1.95..=2.0).contains(&most), "{most}");
    assert_eq!(greedy.w.paced(15_001), 15_001);
}
