// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Calls that create processes and drop privileges.
use super::descriptors::{fd_received, fds_closing};
use super::{handed_over, lent_to_a_child, preserving_errno};
use crate::process::{self, Process};
use crate::real::real;
use alcc_socket::set_errno;
use libc::{c_char, c_int, c_long, c_uint, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

/// vfork(2). The child runs on the caller's stack frame, so this frame must not exist when the real
/// call returns. So it jumps there.
///
/// # Safety
/// The same as for the C function.
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
/// The same as for the C function.
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

extern "C" fn before_vfork() -> usize {
    process::vforks();
    real().vfork as usize
}

/// Calls that replace the program, which keeps its descriptors: it may not have the library, so the
/// sockets' options are restored. Some have variable arguments, whose number a hook cannot know. So
/// they jump to the real call, with unchanged arguments.
macro_rules! exec {
    ($($name:ident)*) => { $(
        /// See [`before_exec`].
        ///
        /// # Safety
        /// The same as for the C function.
        #[cfg(target_arch = "x86_64")]
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                "push rdi",
                "push rsi",
                "push rdx",
                "push rcx",
                "push r8",
                "push r9",
                "sub rsp, 8",
                "call {before}",
                "add rsp, 8",
                "pop r9",
                "pop r8",
                "pop rcx",
                "pop rdx",
                "pop rsi",
                "pop rdi",
                "mov r11, rax",
                "xor eax, eax",
                "jmp r11",
                before = sym before_exec::<{ Exec::$name as usize }>,
            )
        }

        /// See [`before_exec`].
        ///
        /// # Safety
        /// The same as for the C function.
        #[cfg(target_arch = "aarch64")]
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $name() {
            core::arch::naked_asm!(
                "stp x29, x30, [sp, #-80]!",
                "stp x0, x1, [sp, #16]",
                "stp x2, x3, [sp, #32]",
                "stp x4, x5, [sp, #48]",
                "stp x6, x7, [sp, #64]",
                "bl {before}",
                "mov x16, x0",
                "ldp x0, x1, [sp, #16]",
                "ldp x2, x3, [sp, #32]",
                "ldp x4, x5, [sp, #48]",
                "ldp x6, x7, [sp, #64]",
                "ldp x29, x30, [sp], #80",
                "br x16",
                before = sym before_exec::<{ Exec::$name as usize }>,
            )
        }
    )*

        #[allow(non_camel_case_types, reason = "the names of the calls")]
        enum Exec {
            $($name),*
        }

        /// The address of the real call of this number.
        fn real_exec(call: usize) -> usize {
            [$(real().$name as usize),*][call]
        }
    };
}

exec! { execl execle execlp execv execve execveat execvp execvpe fexecve }

extern "C" fn before_exec<const CALL: usize>() -> usize {
    preserving_errno(handed_over);
    real_exec(CALL)
}

/// Calls in which the C library itself starts a process with another program: no hook sees the
/// clone.
macro_rules! spawns {
    ($($name:ident($($arg:ident: $of:ty),*) -> $ret:ty;)*) => { $(
        /// See [`lent_to_a_child`].
        ///
        /// # Safety
        /// The same as for the C function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($arg: $of),*) -> $ret {
            preserving_errno(lent_to_a_child);
            // SAFETY: the caller's arguments, unchanged.
            unsafe { (real().$name)($($arg),*) }
        }
    )* };
}

spawns! {
    posix_spawn(
        child: *mut libc::pid_t,
        path: *const c_char,
        actions: *const c_void,
        attributes: *const c_void,
        arguments: *const *mut c_char,
        environment: *const *mut c_char
    ) -> c_int;
    posix_spawnp(
        child: *mut libc::pid_t,
        file: *const c_char,
        actions: *const c_void,
        attributes: *const c_void,
        arguments: *const *mut c_char,
        environment: *const *mut c_char
    ) -> c_int;
    system(command: *const c_char) -> c_int;
    popen(command: *const c_char, kind: *const c_char) -> *mut libc::FILE;
}

/// Calls that end the process at once. Those that end it in order run [`process::ends`] anyway.
macro_rules! exits {
    ($($name:ident)*) => { $(
        /// See [`process::ends`].
        ///
        /// # Safety
        /// The same as for the C function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(status: c_int) -> ! {
            process::ends();
            // SAFETY: the caller's argument, unchanged.
            unsafe { (real()._exit)(status) };
            // SAFETY: the real call does not return.
            unsafe { std::hint::unreachable_unchecked() }
        }
    )* };
}

exits! { _exit _Exit }

/// clone(2) of the C library: the child begins with a function, on its own stack. Arguments that
/// are not passed are not used.
///
/// # Safety
/// The same as for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn clone(
    run: *mut c_void,
    stack: *mut c_void,
    flags: c_int,
    argument: *mut c_void,
    parent_id: usize,
    tls: usize,
    child_id: usize,
) -> c_int {
    let is = |flag: c_int| flags & flag != 0;
    if is(libc::CLONE_VM) && !is(libc::CLONE_THREAD) {
        // With its own thread-local memory the child is not this thread, even if this one waits for
        // it.
        if is(libc::CLONE_VFORK) && !is(libc::CLONE_SETTLS) {
            process::vforks();
        } else {
            process::shares_memory();
        }
    }
    // SAFETY: the caller's arguments, unchanged.
    unsafe { (real().clone)(run, stack, flags, argument, parent_id, tls, child_id) }
}

/// Makes a call that the library's own thread would disturb: it fails in a multi-threaded process,
/// or applies to the calling thread alone. `call` gets true if its thread is the only one.
fn single_threaded<T>(call: impl FnOnce(bool) -> T) -> T {
    match process::current().and_then(Process::running) {
        Some(runtime) => runtime.single_threaded(call),
        None => call(true),
    }
}

/// Makes a call that gives the calling thread its own descriptor table: `call` if no other thread
/// used the table; otherwise `elsewhere`, after which the known descriptors are the other threads'.
pub(super) fn unsharing(call: impl FnOnce() -> c_int, elsewhere: impl FnOnce() -> c_int) -> c_int {
    single_threaded(|only| {
        if only {
            return call();
        }
        let rc = elsewhere();
        if rc == 0 {
            process::sets_apart();
        }
        rc
    })
}

/// unshare(2)
///
/// # Safety
/// The same as for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn unshare(flags: c_int) -> c_int {
    // SAFETY: the caller's argument, unchanged.
    let real = || unsafe { (real().unshare)(flags) };
    if flags & libc::CLONE_FILES == 0 {
        single_threaded(|_| real())
    } else {
        unsharing(real, real)
    }
}

/// setns(2)
///
/// # Safety
/// The same as for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn setns(fd: c_int, kind: c_int) -> c_int {
    // SAFETY: the caller's arguments, unchanged.
    single_threaded(|_| unsafe { (real().setns)(fd, kind) })
}

/// capset(2): it applies to the calling thread, and ours would keep the capabilities that the
/// program drops.
///
/// # Safety
/// The same as for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn capset(header: *mut c_void, data: *const c_void) -> c_int {
    // SAFETY: the caller's arguments, unchanged.
    single_threaded(|_| unsafe { (real().capset)(header, data) })
}

/// setfsuid(2), with the same problem.
///
/// # Safety
/// The same as for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn setfsuid(id: libc::uid_t) -> c_int {
    // SAFETY: the caller's argument, unchanged.
    single_threaded(|_| unsafe { (real().setfsuid)(id) })
}

/// setfsgid(2), with the same problem.
///
/// # Safety
/// The same as for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn setfsgid(id: libc::gid_t) -> c_int {
    // SAFETY: the caller's argument, unchanged.
    single_threaded(|_| unsafe { (real().setfsgid)(id) })
}

/// pthread_exit(3): a process whose first thread ends this way runs until its last thread has
/// ended, which would be ours.
///
/// # Safety
/// The same as for the C function.
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

/// prctl(2): a program that forbids itself system calls may forbid ours too, and some rights belong
/// to a thread.
///
/// # Safety
/// The same as for the C function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn prctl(
    option: c_int,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
) -> c_int {
    // SAFETY: the caller's arguments, unchanged.
    let real = || unsafe { (real().prctl)(option, a, b, c, d) };
    match option {
        libc::PR_SET_SECCOMP if a == SECCOMP_MODE_STRICT || b != 0 => seccomp_enabled(),
        libc::PR_SET_NO_NEW_PRIVS
        | libc::PR_CAPBSET_DROP
        | libc::PR_CAP_AMBIENT
        | libc::PR_SET_SECUREBITS => return single_threaded(|_| real()),
        _ => {}
    }
    real()
}

/// Constants of linux/seccomp.h for prctl(2) and seccomp(2). A filter at address zero only tests
/// whether the kernel supports filters.
const SECCOMP_MODE_STRICT: usize = 1;
const SECCOMP_SET_MODE_STRICT: usize = 0;
const SECCOMP_SET_MODE_FILTER: usize = 1;

/// System calls by number for which we have a function, or the C library has none.
#[cfg(target_arch = "x86_64")]
const WATCHED: [c_long; 7] = [
    libc::SYS_seccomp,
    libc::SYS_pidfd_getfd,
    libc::SYS_io_uring_setup,
    libc::SYS_prctl,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_close_range,
];

/// System calls that drop rights of the calling thread. The C library's functions of these names
/// apply to all threads.
const RIGHTS: [c_long; 11] = [
    libc::SYS_capset,
    libc::SYS_landlock_restrict_self,
    libc::SYS_setuid,
    libc::SYS_setgid,
    libc::SYS_setreuid,
    libc::SYS_setregid,
    libc::SYS_setresuid,
    libc::SYS_setresgid,
    libc::SYS_setgroups,
    libc::SYS_setfsuid,
    libc::SYS_setfsgid,
];

/// One bit for each system call: set if it is watched.
#[cfg(target_arch = "x86_64")]
static BITS: [u64; 8] = bits(bits([0; 8], &WATCHED), &RIGHTS);

#[cfg(target_arch = "x86_64")]
const fn bits(mut set: [u64; 8], numbers: &[c_long]) -> [u64; 8] {
    let mut i = 0;
    while i < numbers.len() {
        set[numbers[i] as usize / 64] |= 1 << (numbers[i] % 64);
        i += 1;
    }
    set
}

/// syscall(2). Calls that are not watched, clone among them, are made by a jump, because a child
/// may share this stack.
///
/// # Safety
/// The same as for the C function.
#[cfg(target_arch = "x86_64")]
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn syscall() {
    core::arch::naked_asm!(
        "cmp rdi, 512",
        "jae 2f",
        "lea rax, [rip + {bits}]",
        "bt [rax], rdi",
        "jc 3f",
        "2:",
        "mov rax, [rip + {real}]",
        "test rax, rax",
        "je {ours}",
        "jmp rax",
        "3:",
        "cmp rdi, {uring}",
        "jne {ours}",
        "mov rcx, [rsp]",
        "jmp {ring}",
        bits = sym BITS,
        real = sym REAL_SYSCALL,
        ours = sym watched_syscall,
        uring = const libc::SYS_io_uring_setup,
        ring = sym ring,
    )
}

/// Address of the real syscall(2), set at the program's start; zero before.
pub(crate) static REAL_SYSCALL: AtomicUsize = AtomicUsize::new(0);

/// Makes a watched call.
///
/// # Safety
/// The contract of syscall(2).
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
    // SAFETY: the caller's arguments, unchanged; the kernel does not read those that were not
    // passed.
    let real = || unsafe { (real().syscall)(number, a, b, c, d, e, f) };
    // SAFETY: by the caller's contract; the kernel, too, takes the lower half of an int argument.
    unsafe {
        match number {
            libc::SYS_prctl => prctl(a as c_int, b, c, d, e).into(),
            libc::SYS_unshare => unshare(a as c_int).into(),
            libc::SYS_setns => setns(a as c_int, b as c_int).into(),
            libc::SYS_close_range => {
                fds_closing(a as c_uint, b as c_uint, c as c_int, || real() as c_int).into()
            }
            libc::SYS_seccomp => {
                let filters = a == SECCOMP_SET_MODE_FILTER && c != 0;
                if filters || a == SECCOMP_SET_MODE_STRICT {
                    seccomp_enabled();
                }
                real()
            }
            libc::SYS_io_uring_setup => ring(number, a, b, 0),
            libc::SYS_pidfd_getfd => {
                let fd = real();
                fd_received(c_int::try_from(fd).unwrap_or(-1));
                fd
            }
            number if RIGHTS.contains(&number) => single_threaded(|_| real()),
            _ => real(),
        }
    }
}

/// io_uring_setup(2), called from address `caller`. If libuv (Node, uvloop) gets a ring, it
/// registers with epoll through it, unseen by the hooks; without one it uses epoll_ctl. So only
/// libuv's call is refused.
///
/// # Safety
/// The contract of the system call.
unsafe extern "C-unwind" fn ring(
    number: c_long,
    entries: usize,
    parameters: usize,
    caller: usize,
) -> c_long {
    if process::current().is_some() && is_libuv(caller) {
        set_errno(libc::ENOSYS);
        return -1;
    }
    // SAFETY: the caller's arguments, unchanged.
    unsafe { (real().syscall)(number, entries, parameters, 0, 0, 0, 0) }
}

/// A string in libuv's code: the environment variable that it reads about rings. libuv is often
/// linked into another library, loaded without symbols, so its name cannot be used.
const IN_LIBUV: &[u8] = b"UV_USE_IO_URING\0";

/// True if libuv is in the object that contains this address. Zero: in any object.
fn is_libuv(caller: usize) -> bool {
    struct Search {
        caller: usize,
        found: bool,
    }
    unsafe extern "C" fn look(
        object: *mut libc::dl_phdr_info,
        _: usize,
        search: *mut c_void,
    ) -> c_int {
        // SAFETY: the loader's description of an object that is loaded, and our own search.
        let (object, search) = unsafe { (&*object, &mut *search.cast::<Search>()) };
        // SAFETY: as above.
        let segments =
            unsafe { std::slice::from_raw_parts(object.dlpi_phdr, object.dlpi_phnum.into()) };
        let loaded = segments.iter().filter(|s| s.p_type == libc::PT_LOAD);
        let start = |s: &libc::Elf64_Phdr| (object.dlpi_addr + s.p_vaddr) as usize;
        let holds = |s: &libc::Elf64_Phdr| {
            (start(s)..start(s) + s.p_memsz as usize).contains(&search.caller)
        };
        if search.caller != 0 && !loaded.clone().any(holds) {
            return 0;
        }
        let constant = |s: &&libc::Elf64_Phdr| s.p_flags & (libc::PF_R | libc::PF_W) == libc::PF_R;
        search.found |= loaded.filter(constant).any(|s| {
            let (from, len) = (start(s) as *const c_void, s.p_filesz as usize);
            // SAFETY: mapped for reading as long as the object is loaded.
            let at = unsafe { libc::memmem(from, len, IN_LIBUV.as_ptr().cast(), IN_LIBUV.len()) };
            // Our own constant does not count.
            !at.is_null() && at != IN_LIBUV.as_ptr().cast_mut().cast()
        });
        c_int::from(search.found)
    }
    let mut search = Search {
        caller,
        found: false,
    };
    // SAFETY: the search outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut search).cast()) };
    search.found
}

fn seccomp_enabled() {
    if let Some(process) = process::current() {
        if let Some(runtime) = process.running() {
            runtime.retire();
        }
        process.on_seccomp();
    }
}
