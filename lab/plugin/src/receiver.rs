// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A [`Receiver`] as a table of C functions.
use crate::algorithm::State;
use alcc_cc::{Receiver, Sending};
use alcc_plugin::abi::{ALCC_NONE, alcc_receiver};
use alcc_units::{Bytes, Time};
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;

/// All callbacks, for headers of this length.
pub(crate) const fn calls(header_length: u8) -> alcc_receiver {
    alcc_receiver {
        size: size_of::<alcc_receiver>() as u32,
        header_length: header_length as u32,
        on_header: Some(on_header),
        on_feedback: Some(on_feedback),
        create: Some(create),
        clone: Some(clone),
        destroy: Some(destroy),
        on_packet: Some(on_packet),
        on_timer: Some(on_timer),
        next_timer: Some(next_timer),
        report: Some(report),
    }
}

/// Receiver of one connection. `None`: it panicked, and reports nothing more.
struct Half(Option<Box<dyn Receiver>>);

/// The result of `call`, or `otherwise` after a panic.
///
/// # Safety
/// `state` is what [`create`] or [`clone`] returned.
unsafe fn with<T>(
    state: *mut c_void,
    otherwise: T,
    call: impl FnOnce(&mut dyn Receiver) -> T,
) -> T {
    // SAFETY: the caller's promise; callbacks of one state do not run at the same time.
    let half = unsafe { &mut *state.cast::<Half>() };
    let Some(receiver) = &mut half.0 else {
        return otherwise;
    };
    catch_unwind(AssertUnwindSafe(|| call(receiver.as_mut()))).unwrap_or_else(|_| {
        // What a panic left is not run again, not even to free it.
        std::mem::forget(half.0.take());
        otherwise
    })
}

unsafe extern "C" fn on_header(
    algorithm: *mut c_void,
    now_ns: u64,
    number: u64,
    more: u32,
    to: *mut u8,
) -> u64 {
    let sending = Sending {
        pn: number,
        more: more != 0,
    };
    // SAFETY: the state is one of this plug-in's algorithms; there is room for the longest header.
    unsafe {
        State::tell(algorithm, now_ns, 0, |cc, cx, _| {
            let header = cc.header(cx, &sending);
            std::ptr::copy_nonoverlapping(header.as_ptr(), to, header.len());
            header.len() as u64
        })
    }
}

unsafe extern "C" fn on_feedback(
    algorithm: *mut c_void,
    now_ns: u64,
    report: *const u8,
    length: u64,
) {
    // SAFETY: as above; the report has this length.
    unsafe {
        let report = match length {
            0 => &[],
            length => std::slice::from_raw_parts(report, length as usize),
        };
        State::tell(algorithm, now_ns, (), |cc, cx, _| {
            cc.on_feedback(cx, report);
        });
    }
}

fn boxed(receiver: Option<Box<dyn Receiver>>) -> *mut c_void {
    match receiver {
        Some(receiver) => Box::into_raw(Box::new(Half(Some(receiver)))).cast(),
        None => null_mut(),
    }
}

unsafe extern "C" fn create(algorithm: *const c_void) -> *mut c_void {
    // SAFETY: the state is one of this plug-in's algorithms.
    boxed(unsafe { State::ask(algorithm, None, |cc| cc.receiver()) })
}

unsafe extern "C" fn clone(state: *const c_void) -> *mut c_void {
    // SAFETY: as `with` asks. Cloning changes nothing.
    boxed(unsafe { with(state.cast_mut(), None, |half| Some(half.clone_box())) })
}

unsafe extern "C" fn destroy(state: *mut c_void) {
    // SAFETY: `create` and `clone` box it, and it is not used any more.
    let half = unsafe { Box::from_raw(state.cast::<Half>()) };
    let _ = catch_unwind(AssertUnwindSafe(|| drop(half)));
}

unsafe extern "C" fn on_packet(
    state: *mut c_void,
    now_ns: u64,
    number: u64,
    length: u64,
    header: *const u8,
    header_length: u64,
) {
    let header = match header_length {
        0 => &[],
        // SAFETY: the host's header has this length.
        length => unsafe { std::slice::from_raw_parts(header, length as usize) },
    };
    let now = Time::from_nanos(now_ns);
    // SAFETY: as `with` asks.
    unsafe {
        with(state, (), |half| {
            half.on_packet(now, number, Bytes::new(length), header);
        });
    }
}

unsafe extern "C" fn on_timer(state: *mut c_void, now_ns: u64) {
    // SAFETY: as `with` asks.
    unsafe { with(state, (), |half| half.on_timer(Time::from_nanos(now_ns))) }
}

unsafe extern "C" fn next_timer(state: *const c_void) -> u64 {
    // SAFETY: as `with` asks. Asking changes nothing.
    let at = unsafe { with(state.cast_mut(), None, |half| half.next_timer()) };
    at.map_or(ALCC_NONE, Time::as_nanos)
}

unsafe extern "C" fn report(state: *mut c_void, now_ns: u64, to: *mut u8) -> u64 {
    // SAFETY: as `with` asks.
    let report = unsafe { with(state, None, |half| half.report(Time::from_nanos(now_ns))) };
    report.map_or(ALCC_NONE, |report| {
        // SAFETY: there is room for the longest report.
        unsafe { std::ptr::copy_nonoverlapping(report.as_ptr(), to, report.len()) };
        report.len() as u64
    })
}
