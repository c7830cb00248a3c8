// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Inherited state that `alcc` passes on to the programs that it starts: blocked and ignored signals,
//! closed standard descriptors, and the variables in which a service manager names the process it
//! started.
use crate::failure::Failure;
use nix::libc::{self, c_char, c_int};
use nix::sys::signal::SigSet;
use std::collections::BTreeMap;
use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

/// Variables in which systemd names the process that it starts, because only that process may use the
/// descriptors and the watchdog (sd_listen_fds(3), sd_watchdog_enabled(3)).
const NAMING: [&str; 2] = ["LISTEN_PID", "WATCHDOG_PID"];
/// Names the same process by the number of its pidfd. It is dropped: that of the program is unknown
/// before its start, and no program needs it.
const NAMING_BY_PIDFD: &str = "LISTEN_PIDFDID";
/// Largest number of digits of a process id.
const DIGITS: usize = 10;

/// The state at the start of the process. Read before Rust's runtime ignores SIGPIPE and opens
/// /dev/null for closed standard descriptors.
static PIPE_IGNORED: AtomicBool = AtomicBool::new(false);
static CHILD_IGNORED: AtomicBool = AtomicBool::new(false);
static CLOSED: [AtomicBool; 3] = [const { AtomicBool::new(false) }; 3];

extern "C" fn look() {
    // SAFETY: the calls ask, or set a disposition; `now` is a valid out pointer.
    unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(libc::SIGPIPE, std::ptr::null(), &raw mut now) == 0 {
            PIPE_IGNORED.store(now.sa_sigaction == libc::SIG_IGN, Ordering::Relaxed);
        }
        // Where it is ignored, the kernel keeps no exit status of a child.
        let asked = libc::sigaction(libc::SIGCHLD, std::ptr::null(), &raw mut now);
        if asked == 0 && now.sa_sigaction == libc::SIG_IGN {
            CHILD_IGNORED.store(true, Ordering::Relaxed);
            libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        }
        for (fd, closed) in (0..).zip(&CLOSED) {
            closed.store(libc::fcntl(fd, libc::F_GETFD) == -1, Ordering::Relaxed);
        }
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

/// Steps in the child, between fork and exec.
pub struct Handover {
    blocked: SigSet,
    renamed: Option<Renamed>,
}

impl Handover {
    /// Prepares this command. `blocked`: the signals that were blocked at the start.
    pub fn of(command: &mut Command, blocked: SigSet) -> Result<Self, Failure> {
        let us = OsString::from(std::process::id().to_string());
        let naming_us: Vec<_> = NAMING
            .into_iter()
            .filter(|name| std::env::var_os(name).as_ref() == Some(&us))
            .collect();
        if naming_us.contains(&NAMING[0]) {
            command.env_remove(NAMING_BY_PIDFD);
        }
        let renamed = (!naming_us.is_empty()).then(|| Renamed::new(command, &naming_us));
        Ok(Self {
            blocked,
            renamed: renamed
                .transpose()
                .map_err(|e| Failure::usage(format!("pass {} on: {e}", naming_us.join(", "))))?,
        })
    }

    /// Runs in the child.
    pub fn take(&self) -> io::Result<()> {
        // SAFETY: the calls are async-signal-safe.
        unsafe {
            if PIPE_IGNORED.load(Ordering::Relaxed) {
                libc::signal(libc::SIGPIPE, libc::SIG_IGN);
            }
            if CHILD_IGNORED.load(Ordering::Relaxed) {
                libc::signal(libc::SIGCHLD, libc::SIG_IGN);
            }
            for (fd, closed) in (0..).zip(&CLOSED) {
                if closed.load(Ordering::Relaxed) {
                    libc::close(fd);
                }
            }
        }
        self.blocked.thread_set_mask()?;
        match &self.renamed {
            Some(renamed) => Err(renamed.exec()),
            None => Ok(()),
        }
    }
}

/// A command whose environment names its own process, which exists only after fork.
struct Renamed {
    file: CString,
    /// The strings that `argv` and `envp` point to.
    _args: Vec<CString>,
    _env: Vec<Vec<u8>>,
    argv: Vec<*const c_char>,
    envp: Vec<*const c_char>,
    /// Place of the process id.
    places: Vec<*mut u8>,
}

// SAFETY: the pointers lead to what the value owns, which is changed only in the child, by its one
// thread.
unsafe impl Send for Renamed {}
// SAFETY: as above.
unsafe impl Sync for Renamed {}

impl Renamed {
    fn new(command: &Command, naming_us: &[&str]) -> io::Result<Self> {
        let mut all: BTreeMap<OsString, OsString> = std::env::vars_os().collect();
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => drop(all.insert(name.to_owned(), value.to_owned())),
                None => drop(all.remove(name)),
            }
        }
        for name in naming_us {
            all.insert(name.into(), "0".repeat(DIGITS).into());
        }
        let text = |text: &OsStr| CString::new(text.as_bytes());
        let file = text(command.get_program())?;
        let args: Vec<_> = std::iter::once(command.get_program())
            .chain(command.get_args())
            .map(text)
            .collect::<Result<_, _>>()?;
        let mut env: Vec<Vec<u8>> = all
            .iter()
            .map(|(name, value)| {
                let line = [name.as_bytes(), b"=", value.as_bytes()].concat();
                CString::new(line).map(CString::into_bytes_with_nul)
            })
            .collect::<Result<_, _>>()?;
        let lines: Vec<*mut u8> = env.iter_mut().map(Vec::as_mut_ptr).collect();
        let places = lines
            .iter()
            .zip(all.keys())
            .filter(|(_, name)| naming_us.iter().any(|us| OsStr::new(us) == *name))
            .map(|(line, name)| line.wrapping_add(name.len() + 1))
            .collect();
        let end = std::iter::once(std::ptr::null());
        Ok(Self {
            file,
            argv: args.iter().map(|a| a.as_ptr()).chain(end.clone()).collect(),
            envp: lines
                .iter()
                .map(|line| line.cast_const().cast())
                .chain(end)
                .collect(),
            _args: args,
            _env: env,
            places,
        })
    }

    /// Replaces this process. Returns only with an error.
    fn exec(&self) -> io::Error {
        // SAFETY: each place has room for DIGITS bytes and the zero after them; both lists end with
        // a null pointer.
        unsafe {
            for place in &self.places {
                decimal(
                    libc::getpid(),
                    std::slice::from_raw_parts_mut(*place, DIGITS + 1),
                );
            }
            libc::execvpe(self.file.as_ptr(), self.argv.as_ptr(), self.envp.as_ptr());
        }
        io::Error::last_os_error()
    }
}

/// A number as text that ends with a zero byte; makes no allocation.
fn decimal(number: c_int, to: &mut [u8]) {
    let mut digits = [0; DIGITS];
    let (mut rest, mut len) = (number.unsigned_abs(), 0);
    while len == 0 || rest > 0 {
        digits[len] = b'0' + (rest % 10) as u8;
        rest /= 10;
        len += 1;
    }
    let reversed = digits[..len].iter().rev().chain(std::iter::once(&0));
    to.iter_mut().zip(reversed).for_each(|(to, d)| *to = *d);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_text() {
        for number in [0, 1, 9, 10, 4_194_304, c_int::MAX] {
            let mut to = [b'x'; DIGITS + 1];
            decimal(number, &mut to);
            let text = std::ffi::CStr::from_bytes_until_nul(&to).unwrap();
            assert_eq!(text.to_str().unwrap(), number.to_string());
        }
    }
}
