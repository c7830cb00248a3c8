// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The in-band form in C without a socket: bytes in, bytes out. The header is generated from this
//! file, too.
#![allow(
    clippy::missing_safety_doc,
    reason = "the comments go into the header, for readers of C: pointers are what their namesakes' are"
)]
use crate::boundary::{boundary, buffer, bytes, free, give, known, known_mut, pointer};
use crate::inband::{alcc_inband_info, alcc_inband_options, errno_of, role, settings};
use ::alcc_inband::{Output, Session, When};
use alcc_sys::now;
use libc::{c_int, c_void, size_t, ssize_t};
use std::io::IoSlice;

/// One in-band end without a socket: bytes in, bytes out.
#[allow(non_camel_case_types, reason = "the name in C")]
pub struct alcc_session {
    session: Session,
    output: Output,
    /// Output of the session that was not taken yet.
    pending: Vec<u8>,
    given: usize,
}

/// Makes an in-band end for a stream that is not a socket, such as TLS of any library, a tunnel or
/// a serial line. Pass it the bytes that arrive from that stream, and write its output to the
/// stream:
///
/// 1. while `n = alcc_session_take(s, out, sizeof out)` is above 0: write n bytes to the stream;
/// 2. wait until the stream is readable, or for `alcc_session_timer_us(s)` microseconds;
/// 3. read n bytes from the stream: `alcc_session_feed(s, in, n)`;
/// 4. use `alcc_session_read` and `alcc_session_write`, and begin again.
///
/// Only one thread may use it at a time. Returns NULL with errno if the options are invalid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alcc_session_new(
    the_role: c_int,
    options: *const alcc_inband_options,
    size: size_t,
) -> *mut alcc_session {
    pointer(|| {
        let initiator = role(the_role)?;
        // SAFETY: by contract.
        let (settings, registry) = unsafe { settings(options, size) }?;
        let made = if initiator {
            Session::connect(now(), &registry, settings)
        } else {
            Session::accept(now(), &registry, settings)
        };
        let session = made.map_err(|why| errno_of(&why))?;
        Ok(Box::into_raw(Box::new(alcc_session {
            session,
            output: Output::default(),
            pending: Vec::new(),
            given: 0,
        })))
    })
}

/// Takes bytes from the stream below, all of them; `len` 0 means that it has ended. The other calls
/// also return an error that these bytes cause. Returns 0, or -1 with errno: EPROTO if the peer has
/// another protocol, ECONNRESET if the stream ends without the peer's end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alcc_session_feed(
    s: *mut alcc_session,
    buf: *const c_void,
    len: size_t,
) -> c_int {
    boundary(|| {
        // SAFETY: by contract.
        let (s, come) = unsafe { (known_mut(s)?, bytes(buf, len)?) };
        if come.is_empty() {
            s.session.on_end();
        } else {
            s.session.on_bytes(When::exactly(now()), come, &mut []);
        }
        s.session.error().map_or(Ok(0), |why| Err(errno_of(why)))
    })
}

/// Returns bytes to write to the stream below now, at most `len`; 0 if there are none. After every
/// other call, and when the timer is due, call it until it returns 0. `len` should be the amount
/// that the stream below takes at once, because the returned bytes count as sent. It works after an
/// error, too, so that the peer learns of it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alcc_session_take(
    s: *mut alcc_session,
    buf: *mut c_void,
    len: size_t,
) -> ssize_t {
    boundary(|| {
        // SAFETY: by contract.
        let (s, into) = unsafe { (known_mut(s)?, buffer(buf, len)?) };
        if s.given == s.pending.len() {
            s.pending.clear();
            s.given = 0;
            s.fill(into.len());
        }
        let pending = &s.pending[s.given..];
        let n = pending.len().min(into.len());
        into[..n].copy_from_slice(&pending[..n]);
        s.given += n;
        Ok(n as ssize_t)
    })
}

impl alcc_session {
    /// Collects the output that is due, about as much as fits.
    fn fill(&mut self, max: usize) {
        let now = now();
        self.session.on_timer(now);
        self.output.clear();
        let max = max as u64;
        self.session.output(now, &[], false, max, &mut self.output);
        let mut pieces: Vec<IoSlice<'_>> = Vec::new();
        self.output.slices(&[], &mut pieces);
        for piece in &pieces {
            self.pending.extend_from_slice(piece);
        }
    }
}

/// Microseconds until `alcc_session_take` has to be called even without another event. 0 means now;
/// -1 means that no timer is set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alcc_session_timer_us(s: *const alcc_session) -> i64 {
    boundary(|| {
        // SAFETY: by contract.
        let s = unsafe { known(s) }?;
        if s.given < s.pending.len() {
            return Ok(0);
        }
        let due = s.session.next_timer();
        Ok(due.map_or(-1, |due| {
            // Rounded up, because a call just before would do nothing.
            let remaining = due.since(now()).as_nanos().div_ceil(1000);
            i64::try_from(remaining).unwrap_or(i64::MAX)
        }))
    })
}

/// The same as send(2), but it never waits. It takes the bytes that fit into the queue, or fails
/// with EAGAIN.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alcc_session_write(
    s: *mut alcc_session,
    buf: *const c_void,
    len: size_t,
) -> ssize_t {
    boundary(|| {
        // SAFETY: by contract.
        let (s, from) = unsafe { (known_mut(s)?, bytes(buf, len)?) };
        match s.session.write(now(), from) {
            Ok(0) if !from.is_empty() => Err(libc::EAGAIN),
            Ok(n) => Ok(n as ssize_t),
            Err(why) => Err(errno_of(&why)),
        }
    })
}

/// The same as recv(2), but it never waits. Returns 0 once the peer has ended its direction. It
/// fails with EAGAIN if nothing has arrived yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alcc_session_read(
    s: *mut alcc_session,
    buf: *mut c_void,
    len: size_t,
) -> ssize_t {
    boundary(|| {
        // SAFETY: by contract.
        let (s, into) = unsafe { (known_mut(s)?, buffer(buf, len)?) };
        if s.session.is_readable() {
            return Ok(s.session.read(now(), into) as ssize_t);
        }
        Err(s.session.error().map_or(libc::EAGAIN, errno_of))
    })
}

/// Ends this direction; the queue is sent first. Returns 1 if the peer has acknowledged everything,
/// the end included. Returns 0 if not yet: call it again. Returns -1 with errno if it fails.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alcc_session_finish(s: *mut alcc_session) -> c_int {
    boundary(|| {
        // SAFETY: by contract.
        let s = unsafe { known_mut(s) }?;
        s.session.close();
        if s.session.is_finished() {
            return Ok(1);
        }
        s.session.error().map_or(Ok(0), |why| Err(errno_of(why)))
    })
}

/// Returns the state of the session and of its algorithm. `size` is that of your structure. Returns
/// 0, or -1 with errno.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alcc_session_get_info(
    s: *const alcc_session,
    info: *mut alcc_inband_info,
    size: size_t,
) -> c_int {
    boundary(|| {
        // SAFETY: by contract.
        let s = unsafe { known(s) }?;
        let error = s.session.error().map_or(0, errno_of);
        let mut made = alcc_inband_info::of(&s.session.stats(), error);
        if let Some(flow) = s.session.flow() {
            let allowance = flow.allowance();
            made.set(
                allowance.window,
                allowance.rate,
                flow.in_flight(),
                flow.rtt(),
            );
        }
        // SAFETY: by contract.
        unsafe { give(|| Ok(made), info, size) }
    })
}

/// Frees the session. The peer is not informed, so close the stream below. NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn alcc_session_free(s: *mut alcc_session) {
    // SAFETY: made by `alcc_session_new`, and given back.
    unsafe { free(s) }
}
