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
    fn alcc_host_verus_start(v: *mut State, now: u64);
    fn alcc_host_verus_tick(v: *mut State, now: u64);
    fn alcc_host_verus_lost(v: *mut State, now: u64, sent_at: u64, lost: u32);
    fn alcc_host_verus_acked(v: *mut State, ack: *const VerusAck);
    fn alcc_host_verus_timeout(v: *mut State, now: u64);
    fn alcc_host_verus_window(v: *const State) -> u64;
    fn alcc_host_verus_cwnd(v: *const State) -> u64;
    fn alcc_host_verus_pacing_rate(v: *const State, mss: u32) -> u64;
}

/// `struct verus`, which `host.c` asserts to fit.
#[derive(Clone)]
#[repr(C, align(8))]
pub(crate) struct State([u64; 1024]);

// SAFETY: the state is as large as the C code's, and nobody else has it.
impl Control for State {
    const FOLLOWS: &'static str = "verus";

    fn new() -> Self {
        let mut state = Self([0; 1024]);
        state.start(0);
        state
    }

    fn start(&mut self, now: u64) {
        // SAFETY: as above.
        unsafe { alcc_host_verus_start(self, now) };
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
        unsafe { alcc_host_verus_acked(self, &raw const ack) };
    }

    fn lost(&mut self, now: u64, sent_at: u64, segments: u32) {
        // SAFETY: as above.
        unsafe { alcc_host_verus_lost(self, now, sent_at, segments) };
    }

    fn timeout(&mut self, now: u64) {
        // SAFETY: as above.
        unsafe { alcc_host_verus_timeout(self, now) };
    }

    fn timer(&mut self, now: u64) {
        // SAFETY: as above.
        unsafe { alcc_host_verus_tick(self, now) };
    }

    fn target(&self) -> Option<u64> {
        // SAFETY: as above.
        Some(unsafe { alcc_host_verus_window(self) })
    }

    fn cwnd(&self) -> u64 {
        // SAFETY: as above.
        unsafe { alcc_host_verus_cwnd(self) }
    }

    fn pacing_rate(&self, mss: u32) -> u64 {
        // SAFETY: as above.
        unsafe { alcc_host_verus_pacing_rate(self, mss) }
    }
}

/// On the average the targets are within 12 %, and within 25 where the path changes. Drains and
/// curves of the two come at moments of their own, and only the reference's window is tested: what
/// is beyond it the curve does not know, which on a large path or after an outage is 40 %. Alone
/// the two reach the same there.
fn together(link: &Link, seen: &Seen) -> bool {
    let most = match link.name {
        "12 and 4 Mbit/s in turns, 40 ms" => 0.25,
        "100 Mbit/s, 100 ms" | "3 s without service" => 0.4,
        _ => 0.12,
    };
    seen.mean_share() <= most
}

#[test]
fn on_the_same_acknowledgements_the_windows_stay_together() {
    stay_together("verus", controller::<State>, together);
}

/// Within a machine one acknowledgement tells of all that was in flight. The window was in use, and
/// slow start goes on.
#[test]
fn an_acknowledgement_of_all_in_flight_lets_slow_start_grow() {
    let mut state = State::new();
    for round in 1..=10_u64 {
        let now = 100 * round;
        let flight = (state.cwnd() >> 20) as u32;
        state.acked(&Ack {
            now,
            sent_at: now - 50,
            rtt: 50,
            segments: flight,
            in_flight: flight,
            used: true,
            full: true,
            idle: false,
            rate: 0,
        });
    }
    let packets = state.cwnd() >> 20;
    assert!(packets >= 5_000, "{packets} after ten round trips");
}

#[test]
fn alone_on_a_link_it_reaches_what_the_reference_reaches() {
    reaches_the_same("verus", controller::<State>, 0.1, 0.2);
}
