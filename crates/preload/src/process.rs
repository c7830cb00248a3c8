// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What this process knows of itself: its settings, and the runtime once it has accepted a connection.
use crate::epoll::Epoll;
use alcc_cc::Registry;
use alcc_socket::{Report, Runtime, Settings, Totals};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, OnceLock};

struct Process {
    pid: u32,
    runtime: Arc<Runtime<Epoll>>,
}

/// The runtime belongs to one process: a child has a copy of this memory but not of the thread. Never freed: a reader may
/// hold it.
static PROCESS: AtomicPtr<Process> = AtomicPtr::new(null_mut());

fn settings() -> Option<&'static Settings> {
    static SETTINGS: OnceLock<Option<Settings>> = OnceLock::new();
    SETTINGS
        .get_or_init(|| {
            match Settings::from_env(&Registry::builtin(), |name| std::env::var_os(name)) {
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

fn report() -> Option<Report> {
    Report::open(settings()?.report.as_deref()?).ok()
}

/// The runtime of this process, made at its first accepted connection.
pub(crate) fn runtime() -> Option<&'static Arc<Runtime<Epoll>>> {
    let settings = settings()?;
    let pid = std::process::id();
    let now = PROCESS.load(Ordering::Acquire);
    // SAFETY: null or leaked below.
    if let Some(process) = unsafe { now.as_ref() }.filter(|process| process.pid == pid) {
        return Some(&process.runtime);
    }
    let runtime = Arc::new(Runtime::new(settings.clone(), Registry::builtin(), report()).ok()?);
    let fresh = Box::into_raw(Box::new(Process { pid, runtime }));
    let kept = match PROCESS.compare_exchange(now, fresh, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => fresh,
        Err(other) => {
            // SAFETY: nobody else has seen `fresh`.
            drop(unsafe { Box::from_raw(fresh) });
            other
        }
    };
    // SAFETY: never freed.
    unsafe { kept.as_ref() }.map(|process| &process.runtime)
}

/// The environment is read before the program can change it, and the report is opened while the program still has the
/// rights it was started with.
extern "C" fn start() {
    if settings().is_some() {
        // A panic of ours is reported by the runtime in one line; the default hook would print a second, longer one.
        std::panic::set_hook(Box::new(|_| ()));
        if let Some(report) = report() {
            report.add(&Totals {
                processes: 1,
                ..Totals::default()
            });
        }
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;
