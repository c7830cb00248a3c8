// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Socket options that concern both the program and the control: error, pacing rate, congestion
//! control, and the limit of unsent data.
use super::read::pending_error;
use super::{controlled_already, inherited, preserving_errno};
use crate::process;
use crate::real::real;
use alcc_socket::{ReentrancyGuard, is_own_unsent_limit};
use libc::{c_int, c_void, socklen_t};

/// getsockopt(2)
///
/// # Safety
/// The same as for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    // SAFETY: the caller's arguments, unchanged.
    let rc = unsafe { (real().getsockopt)(fd, level, name, value, len) };
    let unsent = (level, name) == (libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT);
    if rc != 0 || !(level == libc::SOL_SOCKET || unsent) || ReentrancyGuard::is_held() {
        return rc;
    }
    // SAFETY: the kernel has stored this many bytes there.
    let stored = || unsafe { std::slice::from_raw_parts_mut(value.cast::<u8>(), *len as usize) };
    match name {
        _ if unsent => {
            let set = <[u8; 4]>::try_from(&*stored()).map(u32::from_ne_bytes);
            if set.is_ok_and(is_own_unsent_limit) {
                put(stored(), &0u32.to_ne_bytes());
            }
        }
        libc::SO_ERROR if stored().iter().all(|byte| *byte == 0) => {
            if let Some(why) = preserving_errno(|| pending_error(fd)) {
                put(stored(), &why.to_ne_bytes());
            }
        }
        libc::SO_MAX_PACING_RATE => {
            let own = preserving_errno(|| match controlled_already(fd) {
                Some((conn, runtime)) => runtime.guarded(|| conn.own_pacing()),
                None => inherited(process::current()?.parent?, fd)?.0.pacing,
            });
            // The kernel's format: a long if there is room for one.
            match own {
                Some(rate) if stored().len() == size_of::<u64>() => {
                    put(stored(), &rate.to_ne_bytes());
                }
                Some(rate) => {
                    let rate = u32::try_from(rate).unwrap_or(u32::MAX);
                    put(stored(), &rate.to_ne_bytes());
                }
                None => {}
            }
        }
        _ => {}
    }
    rc
}

fn put(to: &mut [u8], bytes: &[u8]) {
    to.iter_mut().zip(bytes).for_each(|(to, byte)| *to = *byte);
}

/// setsockopt(2)
///
/// # Safety
/// The same as for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> c_int {
    // SAFETY: the caller's arguments, unchanged.
    let real = || unsafe { (real().setsockopt)(fd, level, name, value, len) };
    let under = (level, name) == (libc::IPPROTO_TCP, libc::TCP_CONGESTION);
    let pacing = (level, name) == (libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE);
    let cork = (level, name) == (libc::IPPROTO_TCP, libc::TCP_CORK);
    if !(under || pacing || cork) || ReentrancyGuard::is_held() {
        return real();
    }
    match preserving_errno(|| controlled_already(fd)) {
        Some((conn, runtime)) if under => conn.select_under(runtime, fd, real),
        Some((conn, runtime)) if cork => conn.set_alone(runtime, real),
        Some((conn, runtime)) => conn.set_pacing(runtime, fd, real),
        None => real(),
    }
}
