// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A [`Controller`] as a table of C functions. The other direction is `adaptor.rs` of `alcc-plugin`.
use crate::EMPTY;
use alcc_cc::{
    AckBatch, Allowance, Cx, Discard, Instance, LossBatch, Packet, Path, RecoveryEnd, Rto, Sent,
    Spurious,
};
use alcc_plugin::abi::*;
use alcc_units::{Bytes, Span, Time};
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;

/// Window of a connection whose algorithm panicked.
const FALLBACK_SEGMENTS: u64 = 10;

/// All callbacks but `create`.
pub(crate) const CALLS: alcc_algorithm = alcc_algorithm {
    clone: Some(clone),
    destroy: Some(destroy),
    allowance: Some(allowance),
    on_ack: Some(on_ack),
    needs: Some(needs),
    on_start: Some(on_start),
    on_sent: Some(on_sent),
    on_loss: Some(on_loss),
    on_rto: Some(on_rto),
    on_spurious: Some(on_spurious),
    on_recovery_end: Some(on_recovery_end),
    on_idle_restart: Some(on_idle_restart),
    on_mtu: Some(on_mtu),
    on_timer: Some(on_timer),
    next_timer: Some(next_timer),
    gauges: Some(gauges),
    release_memory: Some(release_memory),
    ..EMPTY
};

/// One connection.
pub(crate) struct State {
    /// `None`: it panicked.
    controller: Option<Instance>,
    mss: Bytes,
    gauges: &'static [&'static str],
    /// The packets of a batch, for the time of a call.
    packets: Vec<Packet>,
}

impl State {
    pub(crate) fn new(controller: Instance, gauges: &'static [&'static str]) -> Self {
        Self {
            controller: Some(controller),
            mss: Bytes::new(1),
            gauges,
            packets: Vec::new(),
        }
    }

    /// The result of `call`, or `otherwise` after a panic.
    ///
    /// # Safety
    /// `state` is what `create` or `clone` of this plug-in returned. Callbacks of one state do not
    /// run at the same time.
    pub(crate) unsafe fn ask<T>(
        state: *const c_void,
        otherwise: T,
        call: impl FnOnce(&Instance) -> T,
    ) -> T {
        // SAFETY: the caller's promise.
        let state = unsafe { &*state.cast::<Self>() };
        let Some(controller) = &state.controller else {
            return otherwise;
        };
        catch_unwind(AssertUnwindSafe(|| call(controller))).unwrap_or(otherwise)
    }

    /// An event.
    ///
    /// # Safety
    /// As [`State::ask`].
    pub(crate) unsafe fn tell<T>(
        state: *mut c_void,
        now_ns: u64,
        otherwise: T,
        call: impl FnOnce(&mut Instance, &mut Cx<'_>, &mut Vec<Packet>) -> T,
    ) -> T {
        // SAFETY: the caller's promise.
        let state = unsafe { &mut *state.cast::<Self>() };
        let Some(controller) = &mut state.controller else {
            return otherwise;
        };
        let mut cx = Cx {
            now: Time::from_nanos(now_ns),
            log: &mut Discard,
        };
        let packets = &mut state.packets;
        let told = catch_unwind(AssertUnwindSafe(|| call(controller, &mut cx, packets)));
        told.unwrap_or_else(|_| {
            // What a panic left is not run again, not even to free it.
            std::mem::forget(state.controller.take());
            otherwise
        })
    }

    /// # Safety
    /// As [`State::ask`].
    unsafe fn set_mss(state: *mut c_void, mss: u64) {
        // SAFETY: the caller's promise.
        unsafe { (*state.cast::<Self>()).mss = Bytes::new(mss) };
    }
}

unsafe extern "C" fn clone(state: *const c_void) -> *mut c_void {
    // SAFETY: the host passes a state of this plug-in, here and below.
    let copy = unsafe { State::ask(state, None, |cc| Some(cc.clone())) };
    let Some(copy) = copy else {
        return null_mut();
    };
    // SAFETY: as above.
    let State { mss, gauges, .. } = unsafe { &*state.cast::<State>() };
    Box::into_raw(Box::new(State {
        mss: *mss,
        ..State::new(copy, gauges)
    }))
    .cast()
}

unsafe extern "C" fn destroy(state: *mut c_void) {
    // SAFETY: `create` and `clone` box it, and it is not used any more.
    let state = unsafe { Box::from_raw(state.cast::<State>()) };
    let _ = catch_unwind(AssertUnwindSafe(|| drop(state)));
}

unsafe extern "C" fn allowance(state: *const c_void, out: *mut alcc_allowance) {
    // SAFETY: as above; `out` is there to be filled in.
    unsafe {
        let mss = (*state.cast::<State>()).mss;
        let fallback = Allowance::window(mss * FALLBACK_SEGMENTS);
        let allowed = State::ask(state, fallback, |cc| cc.allowance());
        *out = (&allowed).into();
    }
}

unsafe extern "C" fn needs(state: *const c_void, out: *mut alcc_needs) {
    // SAFETY: as above; `out` is there to be filled in.
    unsafe {
        if let Some(needs) = State::ask(state, None, |cc| Some(cc.needs())) {
            *out = (&needs).into();
        }
    }
}

unsafe extern "C" fn on_start(state: *mut c_void, now_ns: u64, path: *const alcc_path) {
    // SAFETY: as above; events are there for the time of the call, here and below.
    unsafe {
        State::set_mss(state, (*path).mss);
        let path = Path::from(&*path);
        State::tell(state, now_ns, (), |cc, cx, _| cc.on_start(cx, &path));
    }
}

unsafe extern "C" fn on_sent(state: *mut c_void, now_ns: u64, sent: *const alcc_sent) -> u64 {
    // SAFETY: as above.
    unsafe {
        let sent = Sent::from(&*sent);
        State::tell(state, now_ns, 0, |cc, cx, _| cc.on_sent(cx, &sent).0)
    }
}

/// Fills in the packets of a batch.
///
/// # Safety
/// There are `count` packets.
unsafe fn fill(to: &mut Vec<Packet>, from: *const alcc_packet, count: u64) {
    // SAFETY: the caller's promise.
    let from = unsafe { std::slice::from_raw_parts(from, count as usize) };
    to.clear();
    to.extend(from.iter().map(Packet::from));
}

unsafe extern "C" fn on_ack(state: *mut c_void, now_ns: u64, ack: *const alcc_ack) {
    // SAFETY: as above.
    unsafe {
        let ack = &*ack;
        State::tell(state, now_ns, (), |cc, cx, packets| {
            fill(packets, ack.packets, ack.packet_count);
            let acked = packets.as_slice();
            cc.on_ack(
                cx,
                &AckBatch {
                    acked,
                    ..ack.into()
                },
            );
        });
    }
}

unsafe extern "C" fn on_loss(state: *mut c_void, now_ns: u64, loss: *const alcc_loss) {
    // SAFETY: as above.
    unsafe {
        let loss = &*loss;
        State::tell(state, now_ns, (), |cc, cx, packets| {
            fill(packets, loss.packets, loss.packet_count);
            let lost = packets.as_slice();
            cc.on_loss(
                cx,
                &LossBatch {
                    lost,
                    ..loss.into()
                },
            );
        });
    }
}

unsafe extern "C" fn on_rto(state: *mut c_void, now_ns: u64, rto: *const alcc_rto) {
    // SAFETY: as above.
    unsafe {
        let rto = Rto::from(&*rto);
        State::tell(state, now_ns, (), |cc, cx, _| cc.on_rto(cx, &rto));
    }
}

unsafe extern "C" fn on_spurious(state: *mut c_void, now_ns: u64, timeout: u32) {
    let what = match timeout {
        0 => Spurious::Loss,
        _ => Spurious::Rto,
    };
    // SAFETY: as above.
    unsafe { State::tell(state, now_ns, (), |cc, cx, _| cc.on_spurious(cx, what)) }
}

unsafe extern "C" fn on_recovery_end(
    state: *mut c_void,
    now_ns: u64,
    end: *const alcc_recovery_end,
) {
    // SAFETY: as above.
    unsafe {
        let end = RecoveryEnd::from(&*end);
        State::tell(state, now_ns, (), |cc, cx, _| cc.on_recovery_end(cx, &end));
    }
}

unsafe extern "C" fn on_idle_restart(state: *mut c_void, now_ns: u64, idle_ns: u64) {
    let idle = Span::from_nanos(idle_ns);
    // SAFETY: as above.
    unsafe { State::tell(state, now_ns, (), |cc, cx, _| cc.on_idle_restart(cx, idle)) }
}

unsafe extern "C" fn on_mtu(state: *mut c_void, now_ns: u64, mss: u64) {
    // SAFETY: as above.
    unsafe {
        State::set_mss(state, mss);
        State::tell(state, now_ns, (), |cc, cx, _| {
            cc.on_mtu(cx, Bytes::new(mss));
        });
    }
}

unsafe extern "C" fn on_timer(state: *mut c_void, now_ns: u64) {
    // SAFETY: as above.
    unsafe { State::tell(state, now_ns, (), |cc, cx, _| cc.on_timer(cx)) }
}

unsafe extern "C" fn next_timer(state: *const c_void) -> u64 {
    // SAFETY: as above.
    let at = unsafe { State::ask(state, None, |cc| cc.next_timer()) };
    at.map_or(ALCC_NONE, Time::as_nanos)
}

unsafe extern "C" fn release_memory(state: *mut c_void) {
    // SAFETY: as above.
    unsafe {
        State::tell(state, 0, (), |cc, _, packets| {
            *packets = Vec::new();
            cc.release_memory();
        });
    }
}

unsafe extern "C" fn gauges(state: *const c_void, values: *mut f64) {
    // SAFETY: as above; there is room for a value of each name.
    unsafe {
        let names = (*state.cast::<State>()).gauges;
        State::ask(state, (), |cc| {
            cc.gauges(&mut |name, value| {
                if let Some(place) = names.iter().position(|known| *known == name) {
                    *values.add(place) = value;
                }
            });
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alcc_cc::Controller;

    /// Panics at the first timer, and could not be freed either.
    struct Broken;

    impl Drop for Broken {
        fn drop(&mut self) {
            panic!("this one must not be freed");
        }
    }

    impl Controller for Broken {
        fn on_ack(&mut self, _cx: &mut Cx<'_>, _ack: &AckBatch<'_>) {}
        fn on_timer(&mut self, _cx: &mut Cx<'_>) {
            panic!("for a test");
        }
        fn allowance(&self) -> Allowance {
            Allowance::window(Bytes::new(5_000_000))
        }
        fn next_timer(&self) -> Option<Time> {
            Some(Time::ZERO)
        }
    }

    impl Clone for Broken {
        fn clone(&self) -> Self {
            panic!("for a test");
        }
    }

    #[test]
    fn a_panic_ends_in_the_callback_and_leaves_ten_segments() {
        let state = Box::into_raw(Box::new(State::new(Instance::new(Broken), &[]))).cast();
        let window = || {
            let mut out = alcc_allowance::from(&Allowance::UNLIMITED);
            // SAFETY: a state as `create` makes it.
            unsafe { allowance(state, &raw mut out) };
            (out.window, out.quota)
        };
        // SAFETY: as above.
        unsafe {
            on_mtu(state, 0, 1000);
            assert_eq!(window(), (5_000_000, ALCC_NONE));
            assert!(clone(state).is_null());
            on_timer(state, 1);
            assert_eq!(window(), (10_000, ALCC_NONE));
            assert_eq!(next_timer(state), ALCC_NONE);
            on_timer(state, 2);
            destroy(state);
        }
    }
}
