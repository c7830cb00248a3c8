// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The state of this process, and the conversion of a descriptor to a stream.
use crate::message;
use crate::table::{Entry, Known, Table, What};
use alcc_cc::Registry;
use alcc_observe::Segment;
use alcc_socket::own::{Options, Runtime, Settings, Stream};
use libc::c_int;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Once};
use std::time::Duration;

/// Default time limit for a close to drain.
const DEFAULT_PATIENCE: Duration = Duration::from_secs(10);

/// The state of one process: a child has a copy of this memory but not of the thread.
pub(crate) struct Process {
    pid: u32,
    pub(crate) table: Table,
    /// The parent process's state, for its descriptors.
    parent: Option<&'static Self>,
    /// Held while a descriptor becomes a stream, so that two threads make only one.
    adopting: Mutex<()>,
    pub(crate) runtime: Arc<Runtime>,
    /// The close deadline of new streams, nanoseconds.
    patience: AtomicU64,
    exits: AtomicBool,
}

/// Never freed: a reader may hold it.
static PROCESS: AtomicPtr<Process> = AtomicPtr::new(null_mut());

/// The state of this process; made at its first call.
pub(crate) fn current() -> Option<&'static Process> {
    let pid = std::process::id();
    let now = PROCESS.load(Ordering::Acquire);
    // SAFETY: null or leaked below.
    let known = unsafe { now.as_ref() };
    if let Some(process) = known.filter(|process| process.pid == pid) {
        return Some(process);
    }
    // A child inherits the settings of its parent.
    let (runtime, patience) = match known {
        Some(parent) => (
            Runtime::with_segment(
                parent.runtime.settings(),
                registry(),
                parent.runtime.segment().cloned(),
            ),
            parent.patience.load(Ordering::Relaxed),
        ),
        None => (
            Runtime::with_segment(settings()?, registry(), segment()),
            nanos(DEFAULT_PATIENCE),
        ),
    };
    let fresh = Box::into_raw(Box::new(Process {
        pid,
        table: Table::new(),
        parent: known,
        adopting: Mutex::new(()),
        runtime,
        patience: AtomicU64::new(patience),
        exits: AtomicBool::new(false),
    }));
    let kept = match PROCESS.compare_exchange(now, fresh, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => fresh,
        Err(other) => {
            // SAFETY: no other thread has seen `fresh`.
            drop(unsafe { Box::from_raw(fresh) });
            other
        }
    };
    // SAFETY: never freed.
    unsafe { kept.as_ref() }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// The built-in algorithms and those of plug-ins. Leaked at each change, which is rare, so that a
/// child can always read it.
static REGISTRY: AtomicPtr<Registry> = AtomicPtr::new(null_mut());

fn registry() -> Registry {
    static START: Once = Once::new();
    START.call_once(|| {
        // A panic of the library is caught and makes its stream plain TCP; the default hook would
        // print it.
        std::panic::set_hook(Box::new(|_| ()));
        let files = alcc_sys::variable(alcc_plugin::ENV);
        let all = alcc_plugin::with_env(Registry::builtin(), files.as_deref());
        let all = all.unwrap_or_else(|why| {
            message::set(&why.to_string());
            Registry::builtin()
        });
        REGISTRY.store(Box::into_raw(Box::new(all)), Ordering::Release);
    });
    // SAFETY: null or leaked.
    unsafe { REGISTRY.load(Ordering::Acquire).as_ref() }
        .map_or_else(Registry::builtin, Clone::clone)
}

/// Plug-ins of the environment are loaded with the library, because the program may change its root
/// later.
extern "C" fn start() {
    if alcc_sys::variable(alcc_plugin::ENV).is_some() {
        drop(std::panic::catch_unwind(registry));
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

/// Names the segment of the `alcc run` above this process.
const SEGMENT: &str = "ALCC_REPORT";

/// The published state of this process. It is in the segment of the `alcc run` above it, or else in
/// one of its own. The library also works without a segment.
fn segment() -> Option<Arc<Segment>> {
    static ENTERED: Mutex<Option<(alcc_observe::Entry, Arc<Segment>)>> = Mutex::new(None);
    static CREATOR: AtomicU32 = AtomicU32::new(0);
    extern "C" fn leave() {
        // The end of a child is not the end of the published process.
        if CREATOR.load(Ordering::Relaxed) == std::process::id()
            && let Ok(entered) = ENTERED.try_lock()
            && let Some((entry, _)) = &*entered
        {
            entry.remove();
        }
    }
    if let Some(path) = alcc_sys::variable(SEGMENT) {
        return Segment::open(path.as_ref()).ok().map(Arc::new);
    }
    let mut entered = alcc_sys::lock(&ENTERED);
    if entered.is_none() {
        let name = std::fs::read_to_string("/proc/self/comm").unwrap_or_default();
        let made = alcc_observe::Entry::of_library(name.trim_end(), message::print);
        let (entry, segment) = made.ok()?;
        CREATOR.store(std::process::id(), Ordering::Relaxed);
        // SAFETY: a function that lives as long as the library, which is never unloaded.
        unsafe { libc::atexit(leave) };
        *entered = Some((entry, Arc::new(segment)));
    }
    entered.as_ref().map(|(_, segment)| Arc::clone(segment))
}

/// The settings of the environment over the defaults. An invalid variable is reported by
/// `alcc_message` and ALCC_DEBUG, and all are ignored then.
fn settings() -> Option<Settings> {
    let default = Settings::new(alcc_cc::DEFAULT.parse().ok()?);
    // `alcc run` sets the enforcement for the programs below it, but there is no gate here.
    let below = alcc_sys::variable(SEGMENT).is_some();
    let read = Settings::from_env(default.clone(), &registry(), |name| {
        alcc_sys::variable(name).filter(|_| !(below && name == "ALCC_ENFORCE"))
    });
    let settings = read.unwrap_or_else(|why| {
        message::set(&format!("{why}: no environment variable is used"));
        default
    });
    message::print(&format!("new streams begin under {}", settings.cc));
    Some(settings)
}

/// Removes an entry whose descriptor number was reused.
fn disown(known: Known) {
    if let Known::Entry(Entry {
        what: What::Stream(stream),
        ..
    }) = known
    {
        stream.forget();
    }
}

impl Process {
    /// Adds the algorithm of a plug-in.
    pub(crate) fn load(&self, file: &std::path::Path) -> Result<(), alcc_plugin::PluginError> {
        static LOADING: Mutex<()> = Mutex::new(());
        let _alone = alcc_sys::lock(&LOADING);
        let all = alcc_plugin::with_files(registry(), [file])?;
        REGISTRY.store(Box::into_raw(Box::new(all.clone())), Ordering::Release);
        self.runtime.set_registry(all);
        Ok(())
    }

    pub(crate) fn patience(&self) -> Duration {
        Duration::from_nanos(self.patience.load(Ordering::Relaxed))
    }

    pub(crate) fn set_patience(&self, patience: Duration) {
        self.patience.store(nanos(patience), Ordering::Relaxed);
    }

    /// Makes a stream of a new descriptor. Returns errno if it cannot be one.
    pub(crate) fn take_over(&self, fd: c_int) -> Result<Arc<Stream>, c_int> {
        let _one = alcc_sys::lock(&self.adopting);
        self.make(fd, Entry::pending(Options::default(), None))
    }

    /// Makes a stream of a connected socket, unless it is one already. Returns errno if it cannot
    /// be one.
    pub(crate) fn adopt(&self, fd: c_int) -> Result<Arc<Stream>, c_int> {
        let _one = alcc_sys::lock(&self.adopting);
        let entry = self
            .entry(fd)
            .unwrap_or_else(|| Entry::pending(Options::default(), None));
        match entry.what {
            What::Stream(stream) => Ok(stream),
            What::Pending => self.make(fd, entry),
        }
    }

    fn make(&self, fd: c_int, entry: Entry) -> Result<Arc<Stream>, c_int> {
        let stream =
            Stream::adopt(&self.runtime, fd, &entry.options).map_err(|why| errno_of(&why))?;
        let stream = Arc::new(stream);
        let known = Known::Entry(Entry {
            what: What::Stream(Arc::clone(&stream)),
            ..entry
        });
        match self.table.set(fd, known) {
            Some(before) => {
                disown(before);
                Ok(stream)
            }
            None => {
                // A number beyond the table stays plain.
                stream.give_back();
                Err(libc::EMFILE)
            }
        }
    }

    /// Remembers a socket that is being connected.
    pub(crate) fn pend(&self, fd: c_int) {
        let entry = Entry::pending(Options::default(), None);
        if let Some(before) = self.table.set(fd, Known::Entry(entry)) {
            disown(before);
        }
    }

    /// Removes the entry of a descriptor that was closed without the library.
    pub(crate) fn forget(&self, fd: c_int) {
        if let Some(before) = self.table.set(fd, Known::Nothing) {
            disown(before);
        }
    }

    /// The entry of a descriptor. A stream of the parent process is made anew at its first use.
    pub(crate) fn entry(&self, fd: c_int) -> Option<Entry> {
        let ours = |known: &Known| match known {
            Known::Unused => None,
            Known::Nothing => Some(None),
            Known::Entry(entry) => Some(Some(entry.clone())),
        };
        if let Some(known) = self.table.get(fd, ours).flatten() {
            return known;
        }
        let entry = self.parent?.left_to_a_child(fd)?;
        let set = self.table.update(fd, |known| {
            if matches!(known, Known::Unused) {
                *known = Known::Entry(entry);
            }
        });
        set.and_then(|()| self.table.get(fd, ours).flatten()?)
    }

    /// The entry that a child continues with. The parent's stream is not touched, because a thread
    /// may have been changing it.
    fn left_to_a_child(&self, fd: c_int) -> Option<Entry> {
        let theirs = self.table.get_in_child(fd, |known| match known {
            Known::Unused => None,
            Known::Nothing => Some(None),
            Known::Entry(entry) => {
                let (options, patience) = (entry.options.clone(), entry.patience);
                Some(Some(Entry::pending(options, patience)))
            }
        });
        match theirs {
            Some(Some(known)) => known,
            Some(None) | None => self.parent?.left_to_a_child(fd),
        }
    }

    /// The stream of a descriptor. A socket that has connected meanwhile becomes a stream.
    pub(crate) fn stream(&self, fd: c_int) -> Option<Arc<Stream>> {
        match self.entry(fd)?.what {
            What::Stream(stream) => Some(stream),
            What::Pending => self.adopt(fd).ok(),
        }
    }

    /// Changes the entry of a descriptor; `None` if there is none.
    pub(crate) fn update<T>(&self, fd: c_int, update: impl FnOnce(&mut Entry) -> T) -> Option<T> {
        self.entry(fd)?;
        self.table.update(fd, |known| match known {
            Known::Entry(entry) => Some(update(entry)),
            Known::Unused | Known::Nothing => None,
        })?
    }

    /// Takes the entry of a descriptor that is about to be closed.
    pub(crate) fn take(&self, fd: c_int) -> Option<Entry> {
        self.entry(fd)?;
        match self.table.set(fd, Known::Nothing)? {
            Known::Entry(entry) => Some(entry),
            Known::Unused | Known::Nothing => None,
        }
    }

    /// Closed streams must finish draining before the process ends.
    pub(crate) fn drain_at_exit(&self) {
        extern "C" fn drain() {
            let _ = std::panic::catch_unwind(|| {
                let pid = std::process::id();
                // SAFETY: null or leaked.
                let process = unsafe { PROCESS.load(Ordering::Acquire).as_ref() };
                if let Some(process) = process.filter(|process| process.pid == pid) {
                    // Every stream has its own deadline.
                    process.runtime.drained(Duration::from_secs(24 * 3600));
                }
            });
        }
        if !self.exits.swap(true, Ordering::AcqRel) {
            // SAFETY: a function that lives as long as the library, which is never unloaded while
            // its thread runs.
            unsafe { libc::atexit(drain) };
        }
    }
}

/// Converts an error to errno. Keeps its text, if any, for `alcc_message`.
pub(crate) fn errno_of(why: &std::io::Error) -> c_int {
    why.raw_os_error().unwrap_or_else(|| {
        message::set(&why.to_string());
        match why.kind() {
            std::io::ErrorKind::InvalidInput => libc::EINVAL,
            _ => libc::EIO,
        }
    })
}
