// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Calls that make processes and take rights away.
use super::descriptors::handed_over;
use crate::process;
use crate::real::real;
use alcc_socket::set_errno;
use libc::{c_int, c_long, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

/// vfork(2): the child runs on the caller's stack frame, so this one must be gone when the real call returns: a jump.
///
/// # Safety
/// As the C function.
#[cfg(target_arch = "x86_64")]
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn vfork() -> libc::pid_t {
    core::arch::naked_asm!(
        "sub rsp, 8",
        "call {before}",
        "add rsp, 8",
        "jmp rax",
        before = sym before_vfork,
    )
}

/// vfork(2), as above.
///
/// # Safety
/// As the C function.
#[cfg(target_arch = "aarch64")]
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn vfork() -> libc::pid_t {
    core::arch::naked_asm!(
        "stp x29, x30, [sp, #-16]!",
        "bl {before}",
        "mov x16, x0",
        "ldp x29, x30, [sp], #16",
        "br x16",
        before = sym before_vfork,
    )
}

/// The child shares this memory until it calls exec: what it closes and duplicates are its own descriptors.
extern "C" fn before_vfork() -> usize {
    process::vforking(std::process::id());
    real().vfork as usize
}

/// pthread_exit(3): a process whose first thread ends so lives until its last one has ended, and ours would be that.
///
/// # Safety
/// As the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_exit(value: *mut c_void) -> ! {
    // SAFETY: no arguments.
    if unsafe { libc::gettid() == libc::getpid() }
        && let Some(process) = process::current()
    {
        process.first_ended.store(true, Ordering::Relaxed);
        if let Some(runtime) = process.running() {
            runtime.guarded(|| runtime.end_with_the_last());
        }
    }
    // SAFETY: the caller's argument, unchanged.
    unsafe { (real().pthread_exit)(value) };
    // SAFETY: the real call does not return.
    unsafe { std::hint::unreachable_unchecked() }
}

/// prctl(2): a program that takes system calls from itself may take ours too.
///
/// # Safety
/// As the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn prctl(
    option: c_int,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
) -> c_int {
    if option == libc::PR_SET_SECCOMP {
        locked_up();
    }
    // SAFETY: the caller's arguments, unchanged.
    unsafe { (real().prctl)(option, a, b, c, d) }
}

/// syscall(2): seccomp(2), pidfd_getfd(2) and io_uring_setup(2) have no function of their own. Everything else, a clone among
/// them, goes on by a jump: its child may share this stack.
///
/// # Safety
/// As the C function.
#[cfg(target_arch = "x86_64")]
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn syscall() {
    core::arch::naked_asm!(
        "cmp rdi, {seccomp}",
        "je {ours}",
        "cmp rdi, {getfd}",
        "je {ours}",
        "cmp rdi, {uring}",
        "je {ours}",
        "mov rax, [rip + {real}]",
        "test rax, rax",
        "je {ours}",
        "jmp rax",
        seccomp = const libc::SYS_seccomp,
        getfd = const libc::SYS_pidfd_getfd,
        uring = const libc::SYS_io_uring_setup,
        real = sym REAL_SYSCALL,
        ours = sym watched_syscall,
    )
}

/// Set at the program's start; zero before.
pub(crate) static REAL_SYSCALL: AtomicUsize = AtomicUsize::new(0);

/// The calls that we watch.
///
/// # Safety
/// As syscall(2).
#[cfg_attr(not(target_arch = "x86_64"), unsafe(export_name = "syscall"))]
unsafe extern "C-unwind" fn watched_syscall(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    const SECCOMP_SET_MODE_FILTER: usize = 1;
    if number == libc::SYS_seccomp && a <= SECCOMP_SET_MODE_FILTER {
        locked_up();
    }
    if number == libc::SYS_io_uring_setup && process::current().is_some() && has_libuv() {
        set_errno(libc::ENOSYS);
        return -1;
    }
    // SAFETY: the caller's arguments, unchanged; what was not passed is not looked at by the kernel.
    let rc = unsafe { (real().syscall)(number, a, b, c, d, e, f) };
    if number == libc::SYS_pidfd_getfd {
        handed_over(c_int::try_from(rc).unwrap_or(-1));
    }
    rc
}

/// libuv (Node) registers with epoll through a ring if it gets one, where we would not see it, and falls back to epoll_ctl if
/// not. Others may need theirs, and for other things.
fn has_libuv() -> bool {
    // SAFETY: a constant name; the answer is only compared.
    unsafe { !libc::dlsym(libc::RTLD_DEFAULT, c"uv_version".as_ptr()).is_null() }
}

fn locked_up() {
    if let Some(process) = process::current() {
        if let Some(runtime) = process.running() {
            runtime.retire();
        }
        process.lock_up();
    }
}
