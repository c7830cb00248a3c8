// SPDX-License-Identifier: Apache-2.0 OR MIT
//! BIC in integers.
use super::beside::{stay_together, within_a_packet};
use super::stack::{Ack, Control, Growth, controller};

unsafe extern "C" {
    fn alcc_host_bic_start(b: *mut State);
    fn alcc_host_bic_measure(b: *mut State, segments: u32);
    fn alcc_host_bic_grow(b: *mut State, w: *mut Growth, now: u64, acked: u32);
    fn alcc_host_bic_ssthresh(b: *mut State, cwnd: u32) -> u32;
}

/// `struct bic`, which `host.c` asserts to fit.
#[derive(Clone)]
#[repr(C, align(8))]
pub(crate) struct State([u64; 13]);

// SAFETY: the state is as large as the C code's, and nobody else has it.
impl Control for State {
    const FOLLOWS: &'static str = "bic";

    fn new() -> Self {
        let mut state = Self([0; 13]);
        // SAFETY: as above.
        unsafe { alcc_host_bic_start(&mut state) };
        state
    }

    fn acked(&mut self, ack: &Ack) {
        if !ack.repairing {
            // SAFETY: as above.
            unsafe { alcc_host_bic_measure(self, ack.segments) };
        }
    }

    fn avoid(&mut self, mut w: Growth, ack: &Ack) -> Growth {
        if ack.used {
            // SAFETY: as above.
            unsafe { alcc_host_bic_grow(self, &mut w, ack.now, ack.segments) };
        }
        w
    }

    fn ssthresh(&mut self, cwnd: u32) -> u32 {
        // SAFETY: as above.
        unsafe { alcc_host_bic_ssthresh(self, cwnd) }
    }

    fn timeout(&mut self, w: Growth, _next: u32) -> Growth {
        // SAFETY: as above.
        unsafe { alcc_host_bic_start(self) };
        w
    }
}

#[test]
fn on_the_same_acknowledgements_the_windows_stay_within_a_packet() {
    stay_together("bic", controller::<State>, within_a_packet);
}
