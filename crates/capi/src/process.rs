// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What this process knows of itself, and how a descriptor becomes a stream.
use crate::message;
use crate::table::{self, Entry, What};
use alcc_cc::Registry;
use alcc_socket::own::{Options, Runtime, Settings, Stream};
use libc::c_int;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::Duration;

/// The algorithm where nothing else is said.
const DEFAULT_CC: &str = "verus";
/// How long a close may take to drain, where nothing else is said.
const PATIENCE: Duration = Duration::from_secs(10);

/// Belongs to one process: a child has a copy of this memory but not of the thread.
pub(crate) struct Process {
    pid: u32,
    pub(crate) runtime: Arc<Runtime>,
    /// Nanoseconds.
    patience: AtomicU64,
    exits: AtomicBool,
}

/// Never freed: a reader may hold it.
static PROCESS: AtomicPtr<Process> = AtomicPtr::new(null_mut());

/// This process; made at its first call.
pub(crate) fn current() -> Option<&'static Process> {
    let pid = std::process::id();
    let now = PROCESS.load(Ordering::Acquire);
    // SAFETY: null or leaked below.
    let known = unsafe { now.as_ref() };
    if let Some(process) = known.filter(|process| process.pid == pid) {
        return Some(process);
    }
    // A child goes on with what its parent had set.
    let (runtime, patience) = match known {
        Some(parent) => (
            Runtime::new(parent.runtime.settings(), registry()),
            parent.patience.load(Ordering::Relaxed),
        ),
        None => (Runtime::new(settings()?, registry()), nanos(PATIENCE)),
    };
    let fresh = Box::into_raw(Box::new(Process {
        pid,
        runtime,
        patience: AtomicU64::new(patience),
        exits: AtomicBool::new(false),
    }));
    let kept = match PROCESS.compare_exchange(now, fresh, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => fresh,
        Err(other) => {
            // SAFETY: nobody else has seen `fresh`.
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

/// Our algorithms and those of plug-ins; leaked at each change, which is rare: a child reads it whatever its parent was doing.
static REGISTRY: AtomicPtr<Registry> = AtomicPtr::new(null_mut());

fn registry() -> Registry {
    static START: Once = Once::new();
    START.call_once(|| {
        // A panic of ours is caught and makes its stream plain TCP; the default hook would print it.
        std::panic::set_hook(Box::new(|_| ()));
        let files = std::env::var_os(alcc_plugin::ENV);
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

/// Plug-ins that the environment names are loaded with the library: later the program may have changed its root.
extern "C" fn start() {
    if std::env::var_os(alcc_plugin::ENV).is_some() {
        drop(std::panic::catch_unwind(registry));
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

/// The environment over our defaults; a variable that makes no sense is told by `alcc_message` and ALCC_DEBUG, and none of them counts.
fn settings() -> Option<Settings> {
    let default = Settings::new(DEFAULT_CC.parse().ok()?);
    let read = Settings::from_env(default.clone(), &registry(), |name| std::env::var_os(name));
    let settings = read.unwrap_or_else(|why| {
        message::set(&format!("{why}: no variable counts"));
        default
    });
    message::tell(&format!("new streams begin under {}", settings.cc));
    Some(settings)
}

impl Process {
    /// Adds the algorithm of a plug-in.
    pub(crate) fn load(&self, file: &std::path::Path) -> Result<(), alcc_plugin::PluginError> {
        static LOADING: Mutex<()> = Mutex::new(());
        let _alone = LOADING.lock().unwrap_or_else(PoisonError::into_inner);
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

    /// Makes a stream of a connected socket; the errno if it cannot be one.
    pub(crate) fn adopt(&self, fd: c_int, entry: Option<Entry>) -> Result<Arc<Stream>, c_int> {
        let (options, patience) = entry.map_or_else(Default::default, |e| (e.options, e.patience));
        let stream = Stream::adopt(&self.runtime, fd, &options).map_err(|why| errno_of(&why))?;
        let stream = Arc::new(stream);
        let entry = Entry {
            pid: self.pid,
            what: What::Stream(Arc::clone(&stream)),
            options,
            patience,
        };
        let (kept, before) = table::set(fd, Some(entry));
        self.disown(before);
        if kept {
            Ok(stream)
        } else {
            // Beyond the table: plain.
            stream.give_back();
            Err(libc::EMFILE)
        }
    }

    /// An entry whose descriptor number now is something else, or somebody else's.
    pub(crate) fn disown(&self, entry: Option<Entry>) {
        let Some(Entry {
            pid,
            what: What::Stream(stream),
            ..
        }) = entry
        else {
            return;
        };
        if pid == self.pid {
            stream.forget();
        } else {
            // A copy of the parent's, perhaps locked by a thread that does not exist here.
            std::mem::forget(stream);
        }
    }

    /// Remembers a socket that is being connected.
    pub(crate) fn pend(&self, fd: c_int) {
        let entry = Entry {
            pid: self.pid,
            what: What::Pending,
            options: Options::default(),
            patience: None,
        };
        let (_, before) = table::set(fd, Some(entry));
        self.disown(before);
    }

    /// What we know of a descriptor; a stream that our parent made is made anew here.
    pub(crate) fn entry(&self, fd: c_int) -> Option<Entry> {
        let entry = table::find(fd)?;
        if entry.pid == self.pid {
            return Some(entry);
        }
        match entry.what {
            What::Pending => Some(Entry {
                pid: self.pid,
                ..entry
            }),
            What::Stream(theirs) => {
                let entry = Entry {
                    what: What::Pending,
                    ..entry
                };
                // Two handles of the parent's: the table's is let go by `adopt`.
                std::mem::forget(theirs);
                self.adopt(fd, Some(entry)).ok();
                table::find(fd).filter(|entry| entry.pid == self.pid)
            }
        }
    }

    /// The stream behind a descriptor. One that was being connected becomes one now, if it is connected.
    pub(crate) fn stream(&self, fd: c_int) -> Option<Arc<Stream>> {
        let entry = self.entry(fd)?;
        match &entry.what {
            What::Stream(stream) => Some(Arc::clone(stream)),
            What::Pending => self.adopt(fd, Some(entry)).ok(),
        }
    }

    /// Takes the entry of a descriptor that is about to be closed.
    pub(crate) fn take(&self, fd: c_int) -> Option<Entry> {
        let entry = self.entry(fd)?;
        table::set(fd, None);
        Some(entry)
    }

    /// What was closed and is still being drained must not be lost by the process's end.
    pub(crate) fn drain_at_exit(&self) {
        extern "C" fn drain() {
            let _ = std::panic::catch_unwind(|| {
                let pid = std::process::id();
                // SAFETY: null or leaked.
                let process = unsafe { PROCESS.load(Ordering::Acquire).as_ref() };
                if let Some(process) = process.filter(|process| process.pid == pid) {
                    // Every stream has a deadline of its own.
                    process.runtime.drained(Duration::from_secs(24 * 3600));
                }
            });
        }
        if !self.exits.swap(true, Ordering::AcqRel) {
            // SAFETY: a function that lives as long as the library, which is never unloaded while its thread runs.
            unsafe { libc::atexit(drain) };
        }
    }
}

/// As errno; the words, where there are some, for `alcc_message`.
pub(crate) fn errno_of(why: &std::io::Error) -> c_int {
    why.raw_os_error().unwrap_or_else(|| {
        message::set(&why.to_string());
        match why.kind() {
            std::io::ErrorKind::InvalidInput => libc::EINVAL,
            _ => libc::EIO,
        }
    })
}
