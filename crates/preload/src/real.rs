// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The calls that ours stand in front of: the next in line by dlsym, so that other preloaded libraries keep working.
use libc::{
    c_int, c_void, epoll_event, iovec, msghdr, off_t, size_t, sockaddr, socklen_t, ssize_t,
};
use std::sync::OnceLock;

macro_rules! real {
    ($($name:ident: fn($($arg:ty),*) -> $ret:ty;)*) => {
        pub(crate) struct Real {
            $(pub(crate) $name: unsafe extern "C" fn($($arg),*) -> $ret,)*
        }

        /// The real calls.
        pub(crate) fn real() -> &'static Real {
            static REAL: OnceLock<Real> = OnceLock::new();
            REAL.get_or_init(|| Real {
                // SAFETY: dlsym returns the address of the C library's function of this name and type. Every C library
                // has them; without them the program could not run, and there is nobody to report to.
                $($name: unsafe {
                    let symbol = libc::dlsym(libc::RTLD_NEXT, concat!(stringify!($name), "\0").as_ptr().cast());
                    if symbol.is_null() {
                        libc::abort();
                    }
                    std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($arg),*) -> $ret>(symbol)
                },)*
            })
        }
    };
}

real! {
    accept: fn(c_int, *mut sockaddr, *mut socklen_t) -> c_int;
    accept4: fn(c_int, *mut sockaddr, *mut socklen_t, c_int) -> c_int;
    close: fn(c_int) -> c_int;
    epoll_ctl: fn(c_int, c_int, c_int, *mut epoll_event) -> c_int;
    write: fn(c_int, *const c_void, size_t) -> ssize_t;
    writev: fn(c_int, *const iovec, c_int) -> ssize_t;
    send: fn(c_int, *const c_void, size_t, c_int) -> ssize_t;
    sendto: fn(c_int, *const c_void, size_t, c_int, *const sockaddr, socklen_t) -> ssize_t;
    sendmsg: fn(c_int, *const msghdr, c_int) -> ssize_t;
    sendfile: fn(c_int, c_int, *mut off_t, size_t) -> ssize_t;
    sendfile64: fn(c_int, c_int, *mut off_t, size_t) -> ssize_t;
}
