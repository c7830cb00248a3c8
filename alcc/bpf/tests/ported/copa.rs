// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Copa in integers.
use super::beside::{Link, Seen, reaches_the_same, stay_together};
use super::paced::{Ack, Control, controller};

unsafe extern "C" {
    fn alcc_host_copa_start(c: *mut Raw, now: u64, delta: u32);
    fn alcc_host_copa_timeout(c: *mut Raw, now: u64);
    fn alcc_host_copa_ack(c: *mut Raw, a: *const CopaAck);
    fn alcc_host_copa_cwnd(c: *const Raw) -> u64;
    fn alcc_host_copa_pacing_rate(c: *const Raw, mss: u32) -> u64;
}

/// `struct copa`, which `host.c` asserts to fit.
#[derive(Clone)]
#[repr(C, align(8))]
struct Raw([u64; 128]);

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

/// With a value of the option that a socket may set: delta in units of 2^-16, 0.18 or 0.5.
#[derive(Clone)]
pub(crate) struct Copa<const DELTA: u32>(Raw);
pub(crate) type State = Copa<11_796>;

// SAFETY: the state is as large as the C code's, and nobody else has it.
impl<const DELTA: u32> Control for Copa<DELTA> {
    const FOLLOWS: &'static str = if DELTA == 32_768 {
        "copa:delta=0.5"
    } else {
        "copa"
    };

    fn new() -> Self {
        let mut state = Self(Raw([0; 128]));
        // SAFETY: as above.
        unsafe { alcc_host_copa_start(&mut state.0, 1, DELTA) };
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
        unsafe { alcc_host_copa_ack(&mut self.0, &raw const ack) };
    }

    fn lost(&mut self, now: u64, sent_at: u64, segments: u32) {
        let ack = CopaAck {
            now,
            sent_at,
            lost: segments,
            ..CopaAck::default()
        };
        // SAFETY: as above.
        unsafe { alcc_host_copa_ack(&mut self.0, &raw const ack) };
    }

    fn start(&mut self, now: u64) {
        // SAFETY: as above.
        unsafe { alcc_host_copa_start(&mut self.0, now, DELTA) };
    }

    fn timeout(&mut self, now: u64) {
        // SAFETY: as above.
        unsafe { alcc_host_copa_timeout(&mut self.0, now) };
    }

    fn cwnd(&self) -> u64 {
        // SAFETY: as above.
        unsafe { alcc_host_copa_cwnd(&raw const self.0) }
    }

    fn pacing_rate(&self, mss: u32) -> u64 {
        // SAFETY: as above.
        unsafe { alcc_host_copa_pacing_rate(&raw const self.0, mss) }
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
    reaches_the_same("copa:delta=0.5", controller::<Copa<32_768>>, 0.02, 0.0);
}
