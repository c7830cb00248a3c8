// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The real calls, which this library interposes. They are found by dlsym as the next in order, so
//! that other preloaded libraries keep working.
use libc::{
    FILE, c_char, c_int, c_long, c_uint, c_void, epoll_event, fd_set, gid_t, iovec, loff_t,
    mmsghdr, msghdr, nfds_t, off_t, pid_t, pollfd, sigset_t, size_t, sockaddr, socklen_t, ssize_t,
    timespec, timeval, uid_t,
};
use std::sync::OnceLock;

/// Replacement for a function that an older C library lacks.
extern "C-unwind" fn missing() -> c_long {
    alcc_socket::set_errno(libc::ENOSYS);
    -1
}

macro_rules! real {
    ($($name:ident: fn($($arg:ty),*) -> $ret:ty;)*) => {
        pub(crate) struct Real {
            $(pub(crate) $name: unsafe extern "C-unwind" fn($($arg),*) -> $ret,)*
        }

        /// The real calls.
        pub(crate) fn real() -> &'static Real {
            static REAL: OnceLock<Real> = OnceLock::new();
            REAL.get_or_init(|| Real {
                // SAFETY: dlsym returns the address of the C library's function of this name and
                // type; all return an integer, as `missing` does.
                $($name: unsafe {
                    let symbol = libc::dlsym(libc::RTLD_NEXT, concat!(stringify!($name), "\0").as_ptr().cast());
                    let symbol = if symbol.is_null() { missing as *mut c_void } else { symbol };
                    std::mem::transmute::<*mut c_void, unsafe extern "C-unwind" fn($($arg),*) -> $ret>(symbol)
                },)*
            })
        }
    };
}

real! {
    __read_chk: fn(c_int, *mut c_void, size_t, size_t) -> ssize_t;
    __recv_chk: fn(c_int, *mut c_void, size_t, size_t, c_int) -> ssize_t;
    __recvfrom_chk: fn(c_int, *mut c_void, size_t, size_t, c_int, *mut sockaddr, *mut socklen_t) -> ssize_t;
    _exit: fn(c_int) -> c_int;
    accept: fn(c_int, *mut sockaddr, *mut socklen_t) -> c_int;
    accept4: fn(c_int, *mut sockaddr, *mut socklen_t, c_int) -> c_int;
    close: fn(c_int) -> c_int;
    clone: fn(*mut c_void, *mut c_void, c_int, *mut c_void, usize, usize, usize) -> c_int;
    capset: fn(*mut c_void, *const c_void) -> c_int;
    close_range: fn(c_uint, c_uint, c_int) -> c_int;
    closefrom: fn(c_int) -> c_int;
    connect: fn(c_int, *const sockaddr, socklen_t) -> c_int;
    dup: fn(c_int) -> c_int;
    dup2: fn(c_int, c_int) -> c_int;
    dup3: fn(c_int, c_int, c_int) -> c_int;
    epoll_create: fn(c_int) -> c_int;
    epoll_create1: fn(c_int) -> c_int;
    execl: fn() -> c_int;
    execle: fn() -> c_int;
    execlp: fn() -> c_int;
    execv: fn() -> c_int;
    execve: fn() -> c_int;
    execveat: fn() -> c_int;
    execvp: fn() -> c_int;
    execvpe: fn() -> c_int;
    fexecve: fn() -> c_int;
    epoll_ctl: fn(c_int, c_int, c_int, *mut epoll_event) -> c_int;
    epoll_pwait: fn(c_int, *mut epoll_event, c_int, c_int, *const sigset_t) -> c_int;
    epoll_pwait2: fn(c_int, *mut epoll_event, c_int, *const timespec, *const sigset_t) -> c_int;
    epoll_wait: fn(c_int, *mut epoll_event, c_int, c_int) -> c_int;
    fcntl: fn(c_int, c_int, usize) -> c_int;
    fcntl64: fn(c_int, c_int, usize) -> c_int;
    fdopen: fn(c_int, *const c_char) -> *mut FILE;
    getsockopt: fn(c_int, c_int, c_int, *mut c_void, *mut socklen_t) -> c_int;
    poll: fn(*mut pollfd, nfds_t, c_int) -> c_int;
    popen: fn(*const c_char, *const c_char) -> *mut FILE;
    posix_spawn: fn(*mut pid_t, *const c_char, *const c_void, *const c_void, *const *mut c_char, *const *mut c_char) -> c_int;
    posix_spawnp: fn(*mut pid_t, *const c_char, *const c_void, *const c_void, *const *mut c_char, *const *mut c_char) -> c_int;
    ppoll: fn(*mut pollfd, nfds_t, *const timespec, *const sigset_t) -> c_int;
    prctl: fn(c_int, usize, usize, usize, usize) -> c_int;
    pselect: fn(c_int, *mut fd_set, *mut fd_set, *mut fd_set, *const timespec, *const sigset_t) -> c_int;
    pthread_exit: fn(*mut c_void) -> c_int;
    read: fn(c_int, *mut c_void, size_t) -> ssize_t;
    readv: fn(c_int, *const iovec, c_int) -> ssize_t;
    recv: fn(c_int, *mut c_void, size_t, c_int) -> ssize_t;
    recvfrom: fn(c_int, *mut c_void, size_t, c_int, *mut sockaddr, *mut socklen_t) -> ssize_t;
    pwritev2: fn(c_int, *const iovec, c_int, off_t, c_int) -> ssize_t;
    recvmmsg: fn(c_int, *mut mmsghdr, c_uint, c_int, *mut timespec) -> c_int;
    recvmsg: fn(c_int, *mut msghdr, c_int) -> ssize_t;
    select: fn(c_int, *mut fd_set, *mut fd_set, *mut fd_set, *mut timeval) -> c_int;
    send: fn(c_int, *const c_void, size_t, c_int) -> ssize_t;
    sendfile: fn(c_int, c_int, *mut off_t, size_t) -> ssize_t;
    sendfile64: fn(c_int, c_int, *mut off_t, size_t) -> ssize_t;
    sendmmsg: fn(c_int, *mut mmsghdr, c_uint, c_int) -> c_int;
    sendmsg: fn(c_int, *const msghdr, c_int) -> ssize_t;
    sendto: fn(c_int, *const c_void, size_t, c_int, *const sockaddr, socklen_t) -> ssize_t;
    setsockopt: fn(c_int, c_int, c_int, *const c_void, socklen_t) -> c_int;
    setfsgid: fn(gid_t) -> c_int;
    setfsuid: fn(uid_t) -> c_int;
    setns: fn(c_int, c_int) -> c_int;
    socket: fn(c_int, c_int, c_int) -> c_int;
    splice: fn(c_int, *mut loff_t, c_int, *mut loff_t, size_t, c_uint) -> ssize_t;
    syscall: fn(c_long, usize, usize, usize, usize, usize, usize) -> c_long;
    system: fn(*const c_char) -> c_int;
    unshare: fn(c_int) -> c_int;
    vfork: fn() -> pid_t;
    write: fn(c_int, *const c_void, size_t) -> ssize_t;
    writev: fn(c_int, *const iovec, c_int) -> ssize_t;
}
