// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Westwood+ in integers.
use super::beside::{stay_together, within_a_packet};
use super::stack::{Ack, Control, Growth, controller};

unsafe extern "C" {
    fn alcc_host_westwood_measure(w: *mut State, now: u64, rtt: u32, acked: u32);
    fn alcc_host_westwood_grow(w: *mut State, g: *mut Growth, acked: u32);
    fn alcc_host_westwood_ssthresh(w: *mut State, cwnd: u32) -> u32;
    fn alcc_host_westwood_bdp(w: *const State) -> u32;
    fn alcc_host_westwood_timeout(w: *mut State) -> u32;
}

/// `struct westwood`, which `host.c` asserts to fit.
#[derive(Clone)]
#[repr(C, align(8))]
pub(crate) struct State([u64; 13]);

// SAFETY: the state is as large as the C code's, and nobody else has it.
impl Control for State {
    const FOLLOWS: &'static str = "westwood";

    fn new() -> Self {
        Self([0; 13])
    }

    fn acked(&mut self, ack: &Ack) {
        // SAFETY: as above.
        unsafe { alcc_host_westwood_measure(self, ack.now, ack.rtt, ack.segments) };
    }

    fn avoid(&mut self, mut w: Growth, ack: &Ack) -> Growth {
        if ack.used {
            // SAFETY: as above.
            unsafe { alcc_host_westwood_grow(self, &mut w, ack.segments) };
        }
        w
    }

    fn ssthresh(&mut self, cwnd: u32) -> u32 {
        // SAFETY: as above.
        unsafe { alcc_host_westwood_ssthresh(self, cwnd) }
    }

    fn repaired(&mut self, _w: Growth, _next: u32) -> Growth {
        // SAFETY: as above.
        let cwnd = unsafe { alcc_host_westwood_bdp(self) };
        Growth {
            cwnd,
            ssthresh: cwnd,
        }
    }

    fn timeout(&mut self, w: Growth, _next: u32) -> Growth {
        // SAFETY: as above.
        let ssthresh = unsafe { alcc_host_westwood_timeout(self) };
        Growth { ssthresh, ..w }
    }
}

#[test]
fn on_the_same_acknowledgements_the_windows_stay_within_a_packet() {
    stay_together("westwood", controller::<State>, within_a_packet);
}
