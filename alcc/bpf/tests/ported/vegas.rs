// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Vegas in integers.
use super::beside::{stay_together, within_a_packet};
use super::stack::{Ack, Control, Growth, controller};

unsafe extern "C" {
    fn alcc_host_vegas_start(v: *mut State, next: u32);
    fn alcc_host_vegas_round(v: *mut State, next: u32);
    fn alcc_host_vegas_sample(v: *mut State, rtt: u32);
    fn alcc_host_vegas_grow(v: *mut State, w: *mut Growth, ack: u32, next: u32, acked: u32);
    fn alcc_host_vegas_ssthresh(v: *mut State, cwnd: u32) -> u32;
}

/// `struct vegas`, which `host.c` asserts to fit.
#[derive(Clone)]
#[repr(C, align(8))]
pub(crate) struct State([u64; 13]);

// SAFETY: the state is as large as the C code's, and nobody else has it.
impl Control for State {
    const FOLLOWS: &'static str = "vegas";

    fn new() -> Self {
        let mut state = Self([0; 13]);
        // SAFETY: as above.
        unsafe { alcc_host_vegas_start(&mut state, 1) };
        state
    }

    fn acked(&mut self, ack: &Ack) {
        // SAFETY: as above.
        unsafe { alcc_host_vegas_sample(self, ack.rtt) };
    }

    fn avoid(&mut self, mut w: Growth, ack: &Ack) -> Growth {
        let acked = if ack.used { ack.segments } else { 0 };
        // SAFETY: as above.
        unsafe { alcc_host_vegas_grow(self, &mut w, ack.ack, ack.next, acked) };
        w
    }

    fn ssthresh(&mut self, cwnd: u32) -> u32 {
        // SAFETY: as above.
        unsafe { alcc_host_vegas_ssthresh(self, cwnd) }
    }

    fn repaired(&mut self, w: Growth, next: u32) -> Growth {
        // SAFETY: as above.
        unsafe { alcc_host_vegas_round(self, next) };
        w
    }

    fn timeout(&mut self, w: Growth, next: u32) -> Growth {
        self.repaired(w, next)
    }

    fn idle(&mut self, next: u32) {
        // SAFETY: as above.
        unsafe { alcc_host_vegas_start(self, next) };
    }
}

#[test]
fn on_the_same_acknowledgements_the_windows_stay_within_a_packet() {
    stay_together("vegas", controller::<State>, within_a_packet);
}
