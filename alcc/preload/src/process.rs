// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The state of this process: its settings, its descriptors, and the runtime once it has a
//! connection.
use crate::alloc::{PRELOAD_HEAP, Pause};
use crate::epoll::Epoll;
use crate::hooks;
use crate::table::Table;
use alcc_cc::Registry;
use alcc_observe::{Event, Segment};
use alcc_socket::{ReentrancyGuard, Runtime, Settings};
use std::cell::Cell;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

/// The state of one process. A child has a copy of this memory, but not of the threads that may
/// have been changing it.
pub(crate) struct Process {
    /// The process id, because a child that was made unnoticed may run in the same memory.
    id: u32,
    pub(crate) table: Table,
    runtime: OnceLock<Arc<Runtime<Epoll>>>,
    /// The parent's state, for its knowledge of the descriptors.
    pub(crate) parent: Option<&'static Self>,
    /// True if other processes may have descriptors of the same connections.
    shared: AtomicBool,
    /// True if the program has waited for a connection, after a call on it would have blocked, in a
    /// way that the library sees. It will do so with others.
    waits_for_room: AtomicBool,
    /// True if there are one-shot registrations that the library may have to arm.
    one_shots: AtomicBool,
    /// True if it has forbidden itself system calls (seccomp), perhaps ones that we need: it is
    /// left alone from then on.
    seccomp_enabled: AtomicBool,
    /// True if the C library can start threads in this process, which it cannot in one made by a
    /// raw clone. Also, a thread of ours would keep such a process alive after its only thread
    /// ends.
    threads: bool,
    /// True if the program's first thread has ended, and the process continues until its last one
    /// has.
    pub(crate) first_ended: AtomicBool,
}

/// Never freed: a reader may hold it, and a child must not free what its parent allocated.
static PROCESS: AtomicPtr<Process> = AtomicPtr::new(null_mut());

/// Memory that the kernel zeroes in every child with its own memory, however it was made.
struct WipeOnFork {
    /// 0 a new process, 1 being set up, 2 ready.
    state: AtomicU32,
    /// Zero, or the process id of a process that has made another in its memory (vfork). Each
    /// caller has to query its process id then, which costs a system call.
    sharing: AtomicU32,
}

/// The page of this memory, which is never unmapped.
static WIPE_ON_FORK: AtomicPtr<WipeOnFork> = AtomicPtr::new(null_mut());

thread_local! {
    /// Between vfork and exec the child runs in its parent's memory, as this thread. The value is
    /// the parent's process id, from which the child's differs, or [`APART`].
    static VFORKED: Cell<u32> = const { Cell::new(0) };
}

/// The value for a thread with its own descriptor table, of which nothing is known. It is not a
/// process id.
const APART: u32 = u32::MAX;

/// The algorithms of this process: the built-in ones and those of plug-ins. Plug-ins are loaded
/// when the process starts, before the program can change its root directory.
fn registry() -> Result<&'static Registry, String> {
    static REGISTRY: OnceLock<Result<Registry, String>> = OnceLock::new();
    let registry = REGISTRY.get_or_init(|| {
        let files = alcc_socket::variable(alcc_plugin::ENV);
        alcc_plugin::with_env(Registry::builtin(), files.as_deref()).map_err(|e| e.to_string())
    });
    registry.as_ref().map_err(Clone::clone)
}

fn settings() -> Option<&'static Settings> {
    static SETTINGS: OnceLock<Option<Settings>> = OnceLock::new();
    SETTINGS
        .get_or_init(|| {
            let read = registry().and_then(|registry| {
                Settings::from_env(registry, alcc_socket::variable)
                    .map_err(|error| error.to_string())
            });
            match read {
                Ok(settings) => settings,
                Err(error) => {
                    let line = format!("alcc: {error}; connections stay plain TCP\n");
                    // SAFETY: pointer and length describe `line`.
                    unsafe { libc::write(2, line.as_ptr().cast(), line.len()) };
                    None
                }
            }
        })
        .as_ref()
}

/// The shared segment, mapped at the program's start, while it still has its original rights and
/// files. A child inherits it.
pub(crate) fn segment() -> Option<Arc<Segment>> {
    static SEGMENT: OnceLock<Option<Arc<Segment>>> = OnceLock::new();
    SEGMENT
        .get_or_init(|| {
            Segment::open(settings()?.report.as_deref()?)
                .ok()
                .map(Arc::new)
        })
        .clone()
}

/// This thread is about to run as its own child until exec. The child's calls are not followed,
/// because it closes and duplicates descriptors of its own.
pub(crate) fn vforks() {
    hooks::lent_to_a_child();
    VFORKED.set(std::process::id());
}

/// A child is about to run beside its parent in the same memory.
pub(crate) fn shares_memory() {
    // SAFETY: null, or the page, which is never unmapped.
    if let Some(wiped) = unsafe { WIPE_ON_FORK.load(Ordering::Acquire).as_ref() } {
        wiped.sharing.store(std::process::id(), Ordering::Release);
    }
}

/// This thread has its own descriptor table from now on.
pub(crate) fn sets_apart() {
    VFORKED.set(APART);
}

/// Notes that the program waits for room: see [`Process::waits_for_room`].
pub(crate) fn learn_to_wait() {
    if let Some(process) = current() {
        process.waits_for_room.store(true, Ordering::Relaxed);
    }
}

/// See [`Process::has_one_shots`].
pub(crate) fn watch_one_shots() {
    if let Some(process) = current() {
        process.one_shots.store(true, Ordering::Relaxed);
    }
}

/// The state of this process, if its connections are to be controlled at all.
pub(crate) fn current() -> Option<&'static Process> {
    // SAFETY: null, or the page, which is never unmapped.
    let wiped = unsafe { WIPE_ON_FORK.load(Ordering::Acquire).as_ref() }?;
    let sharing = wiped.sharing.load(Ordering::Relaxed);
    if sharing != 0 && sharing != std::process::id() {
        return None;
    }
    let vforked = VFORKED.get();
    if vforked != 0 {
        if vforked != std::process::id() {
            return None;
        }
        VFORKED.set(0);
    }
    let state = &wiped.state;
    let mut pause = Pause::default();
    while state.load(Ordering::Acquire) != 2 {
        if ReentrancyGuard::is_held() {
            // This is a signal handler that interrupted `reinitialise` in this very thread.
            return None;
        }
        // SAFETY: null, or leaked by the parent's `reinitialise`.
        let parent = unsafe { PROCESS.load(Ordering::Acquire).as_ref() };
        if parent.is_some_and(|process| process.seccomp_enabled.load(Ordering::Relaxed)) {
            // A child inherits the filters of its parent.
            return None;
        }
        if state
            .compare_exchange(0, 1, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
        {
            let inside = ReentrancyGuard::set();
            reinitialise();
            ReentrancyGuard::restore(inside);
            state.store(2, Ordering::Release);
        } else {
            pause.wait();
        }
    }
    // SAFETY: leaked by `reinitialise`.
    unsafe { PROCESS.load(Ordering::Acquire).as_ref() }
        .filter(|process| !process.seccomp_enabled.load(Ordering::Relaxed))
}

/// The process that last returned from fork(3), whose handlers have run.
static FORKED: AtomicU32 = AtomicU32::new(0);

extern "C" fn forked() {
    FORKED.store(std::process::id(), Ordering::Relaxed);
    // This thread has made a vfork and not been here since.
    VFORKED.set(0);
}

extern "C" fn forks() {
    let errno = alcc_socket::errno();
    hooks::lent_to_a_child();
    if let Some(runtime) = current().and_then(Process::running) {
        runtime.pause_before_fork();
    }
    alcc_socket::set_errno(errno);
}

/// The process ends without closing its sockets, and others may keep them.
pub(crate) extern "C" fn ends() {
    if let Some(process) = current()
        && let Some(runtime) = process.running()
        && process.id == std::process::id()
    {
        runtime.give_back();
    }
}

/// Makes a child's own state. The parent's state is not touched: locks may be held forever, and
/// the heap may be inconsistent.
#[cold]
#[inline(never)]
fn reinitialise() {
    let parent = PROCESS.load(Ordering::Acquire);
    if !parent.is_null() {
        // SAFETY: a new process has one thread, this one, until it makes another, which waits in
        // `current`.
        unsafe { PRELOAD_HEAP.reinitialise() };
    }
    // SAFETY: never freed.
    let parent: Option<&'static Process> = unsafe { parent.as_ref() };
    let fresh = Process {
        id: std::process::id(),
        table: Table::new(),
        runtime: OnceLock::new(),
        parent,
        shared: AtomicBool::new(false),
        waits_for_room: AtomicBool::new(parent.is_some_and(Process::waits_for_room)),
        one_shots: AtomicBool::new(false),
        seccomp_enabled: AtomicBool::new(false),
        threads: parent.is_none() || FORKED.load(Ordering::Relaxed) == std::process::id(),
        first_ended: AtomicBool::new(false),
    };
    PROCESS.store(Box::into_raw(Box::new(fresh)), Ordering::Release);
}

impl Process {
    /// The runtime of this process, made at its first connection.
    pub(crate) fn runtime(&self) -> Option<&Arc<Runtime<Epoll>>> {
        let (settings, registry) = (settings()?, registry().ok()?);
        Some(self.runtime.get_or_init(|| {
            let runtime = Runtime::new(settings.clone(), registry.clone(), segment());
            if self.shared.load(Ordering::Relaxed) {
                runtime.shares();
            }
            if !self.threads {
                runtime.go_inline();
            }
            if self.first_ended.load(Ordering::Relaxed) {
                runtime.end_with_the_last();
            }
            Arc::new(runtime)
        }))
    }

    /// The runtime, if there is one already.
    pub(crate) fn running(&self) -> Option<&Arc<Runtime<Epoll>>> {
        self.runtime.get()
    }

    /// Notes that other processes may have descriptors of the same connections from now on.
    pub(crate) fn shares(&self) {
        self.shared.store(true, Ordering::Relaxed);
        if let Some(runtime) = self.running() {
            runtime.shares();
        }
    }

    /// True if the program is known to wait for room in a way that the library sees.
    pub(crate) fn waits_for_room(&self) -> bool {
        self.waits_for_room.load(Ordering::Relaxed)
    }

    /// True if events of one-shot registrations have to be checked.
    pub(crate) fn has_one_shots(&self) -> bool {
        self.one_shots.load(Ordering::Relaxed)
    }

    /// The program forbids itself system calls.
    pub(crate) fn on_seccomp(&self) {
        self.seccomp_enabled.store(true, Ordering::Relaxed);
    }
}

/// The environment is read before the program can change it. The segment is mapped while the
/// program still has the rights it was started with.
extern "C" fn start() {
    if settings().is_none() {
        return;
    }
    // The runtime reports a panic of the library in one line, and the default hook would print a
    // second, longer message.
    std::panic::set_hook(Box::new(|_| ()));
    if let Some(segment) = segment() {
        segment.count(&Event::ProcessStarted);
    }
    // SAFETY: functions of this library, which is never unloaded. Without memory for them, children
    // run without our thread.
    unsafe { pthread_atfork(Some(forks), None, Some(forked)) };
    let real = crate::real::real();
    hooks::processes::REAL_SYSCALL.store(real.syscall as usize, Ordering::Release);
    // SAFETY: a fresh anonymous page, which is never unmapped.
    unsafe {
        let page = libc::mmap(
            null_mut(),
            4096,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        if page != libc::MAP_FAILED && libc::madvise(page, 4096, libc::MADV_WIPEONFORK) == 0 {
            WIPE_ON_FORK.store(page.cast(), Ordering::Release);
        }
    }
    // inetd and similar servers pass a connection as standard output.
    hooks::stdio::standard(libc::STDOUT_FILENO);
    hooks::stdio::standard(libc::STDERR_FILENO);
}

unsafe extern "C" {
    fn pthread_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
    ) -> libc::c_int;
}

#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = ends;
