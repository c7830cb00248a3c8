// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Copa in integers.
use super::beside::{Link, Seen, reaches_the_same, stay_together};
use super::paced::{Ack, Control, controller};

unsafe extern "C" {
    fn alcc_host_copa_start(c: *mut State, now: u64, delta: u32);
    fn alcc_host_copa_timeout(c: *mut State, now: u64);
    fn alcc_host_copa_ack(c: *mut State, a: *const CopaAck);
    fn alcc_host_copa_cwnd(c: *const State) -> u64;
    fn alcc_host_copa_pacing_rate(c: *const State, mss: u32) -> u64;
}

/// `struct copa`, which `host.c` asserts to fit.
#[derive(Clone)]
#[repr(C, align(8))]
pub(crate) struct State([u64; 128]);

/// `struct copa_ack`.
#[repr(C)]
#[derive(Default)]
struct CopaAck {
    now: u64,
    sent_at: u64,
    rtt: u32,
    acked: u32,
    lost: u32,
    may_grow: u32,
}

/// delta = 0.18, in units of 2^-16.
const DELTA: u32 = 11_796;
// SAFETY: the state is as large as the C code's, and nobody else has it.
impl Control for State {
    const FOLLOWS: &'static str = "copa";

    fn new() -> Self {
        let mut state = Self([0; 128]);
        // SAFETY: as above.
        unsafe { alcc_host_copa_start(&mut state, 1, DELTA) };
        state
    }

    fn acked(&mut self, ack: &Ack) {
        let ack = CopaAck {
            now: ack.now,
            sent_at: ack.sent_at,
            rtt: ack.rtt,
            acked: ack.segments,
            lost: 0,
            may_grow: ack.used.into(),
        };
        // SAFETY: as above.
        unsafe { alcc_host_copa_ack(self, &raw const ack) };
    }

    fn lost(&mut self, now: u64, sent_at: u64, segments: u32) {
        let ack = CopaAck {
            now,
            sent_at,
            lost: segments,
            ..CopaAck::default()
        };
        // SAFETY: as above.
        unsafe { alcc_host_copa_ack(self, &raw const ack) };
    }

    fn start(&mut self, now: u64) {
        // SAFETY: as above.
        unsafe { alcc_host_copa_start(self, now, DELTA) };
    }

    fn timeout(&mut self, now: u64) {
        // SAFETY: as above.
        unsafe { alcc_host_copa_timeout(self, now) };
    }

    fn cwnd(&self) -> u64 {
        // SAFETY: as above.
        unsafe { alcc_host_copa_cwnd(self) }
    }

    fn pacing_rate(&self, mss: u32) -> u64 {
        // SAFETY: as above.
        unsafe { alcc_host_copa_pacing_rate(self, mss) }
    }
}

/// Within three packets. But on the longest path the coarser minima end a period some acknowledgements
/// later, and by then the velocity is high: there within 2 % on the average.
fn together(link: &Link, seen: &Seen) -> bool {
    match link.name {
        "100 Mbit/s, 100 ms" => seen.mean_share() <= 0.02,
        _ => seen.apart <= 3.0,
    }
}

#[test]
fn on_the_same_acknowledgements_the_windows_stay_together() {
    stay_together("copa", controller::<State>, together);
}

#[test]
fn alone_on_a_link_it_reaches_what_the_reference_reaches() {
    reaches_the_same("copa", controller::<State>, 0.01, 0.0);
}
