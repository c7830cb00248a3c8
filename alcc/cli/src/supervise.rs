// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Supervision of a program until it and all its descendants have ended.
use crate::failure::Failure;
use crate::handover::Handover;
use nix::libc::{self, c_int, pid_t, siginfo_t};
use nix::sys::signal::{SigSet, SigmaskHow};
use nix::unistd::Pid;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};

/// Error for a program that cannot be started, with a hint.
pub fn not_started(name: &str, why: &io::Error) -> Failure {
    Failure::usage(format!("start {name}: {}", hindrance(name, why)))
}

/// The reason why a program cannot be started, with a hint.
pub fn hindrance(name: &str, why: &io::Error) -> String {
    let found = Path::new(name).metadata().ok();
    let found = found.filter(|_| name.contains('/'));
    let known = match why.kind() {
        io::ErrorKind::NotFound if found.is_some() => {
            "its interpreter does not exist: check its first line (#!), or its architecture"
        }
        io::ErrorKind::NotFound => "not found: install it, or give its full path",
        io::ErrorKind::PermissionDenied if found.is_some_and(|it| it.is_dir()) => {
            "it is a folder: name a program"
        }
        io::ErrorKind::PermissionDenied => {
            "no permission to run it, or to look into a folder of PATH"
        }
        _ => return why.to_string(),
    };
    known.to_owned()
}

/// Runs the command and waits for it and for every process it leaves behind. A server that goes
/// into the background becomes a child of this process. Every signal that can be caught, but for
/// SIGCHLD, is passed on. The exit status is the command's, or 128 and the signal that ended it.
/// `began` is called once the command has started.
pub fn run(command: &mut Command, began: impl FnOnce()) -> Result<ExitCode, Failure> {
    let name = command.get_program().to_string_lossy().into_owned();
    nix::sys::prctl::set_child_subreaper(true)
        .map_err(|e| Failure::usage(format!("adopt background processes: {e}")))?;
    let before = SigSet::all()
        .thread_swap_mask(SigmaskHow::SIG_BLOCK)
        .map_err(|e| Failure::usage(format!("block signals: {e}")))?;
    let handover = Handover::of(command, before)?;
    // SAFETY: the closure makes only calls that are allowed between fork and exec.
    unsafe { command.pre_exec(move || handover.take()) };
    let child = command.spawn().map_err(|e| not_started(&name, &e))?;
    began();
    let child = child.id().cast_signed();
    let mut status = None;
    loop {
        // All that have ended, then wait for a signal.
        loop {
            match change() {
                Change::None => break,
                Change::Ended(pid, exit) if pid == child => status = Some(exit.status()),
                Change::Stopped(pid, signal) if pid == child => stop_too(child, signal),
                Change::Ended(..) | Change::Stopped(..) => {}
                Change::NoChildren => {
                    return Ok(ExitCode::from(status.unwrap_or(0)));
                }
            }
        }
        if let Some(signal) = next_signal() {
            let targets = if status.is_none() {
                vec![child]
            } else {
                children()
            };
            targets.into_iter().for_each(|pid| signal.pass_on(pid));
        }
    }
}

/// The end of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    Status(u8),
    Signal(u8),
}

impl Exit {
    /// The exit status as in a shell.
    pub fn status(self) -> u8 {
        match self {
            Self::Status(code) => code,
            Self::Signal(signal) => 128 + signal,
        }
    }
}

/// State of a child.
pub enum Change {
    None,
    NoChildren,
    Ended(pid_t, Exit),
    /// Ended by this signal.
    Stopped(pid_t, c_int),
}

/// `waitpid` with real-time signals, which the wrapper of the library does not support.
pub fn change() -> Change {
    loop {
        let mut status = 0;
        // SAFETY: `status` is a valid out pointer.
        match unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG | libc::WUNTRACED) } {
            0 => return Change::None,
            -1 if io::Error::last_os_error().raw_os_error() == Some(libc::EINTR) => {}
            -1 => return Change::NoChildren,
            pid if libc::WIFEXITED(status) => {
                return Change::Ended(pid, Exit::Status(libc::WEXITSTATUS(status) as u8));
            }
            pid if libc::WIFSIGNALED(status) => {
                return Change::Ended(pid, Exit::Signal(libc::WTERMSIG(status) as u8));
            }
            pid if libc::WIFSTOPPED(status) => {
                return Change::Stopped(pid, libc::WSTOPSIG(status));
            }
            _ => {}
        }
    }
}

/// A signal for the program.
pub struct Signal {
    number: c_int,
    info: siginfo_t,
}

/// Waits for a signal. `None`: it was not meant for the program.
pub fn next_signal() -> Option<Signal> {
    // SAFETY: zero is a valid siginfo_t; the set and the out pointer are valid.
    let (number, info) = unsafe {
        let mut info: siginfo_t = std::mem::zeroed();
        let number = libc::sigwaitinfo(SigSet::all().as_ref(), &raw mut info);
        (number, info)
    };
    let signal = Signal { number, info };
    (number > 0 && number != libc::SIGCHLD && !signal.is_ours()).then_some(signal)
}

impl Signal {
    /// Sent by the kernel: the terminal, or a limit of this process.
    fn is_the_kernels(&self) -> bool {
        self.info.si_code > 0
    }

    /// Caused by this process: standard error is a pipe without a reader.
    fn is_ours(&self) -> bool {
        // SAFETY: the field is there for every signal that a process has sent; for others it is
        // some number.
        !self.is_the_kernels() && unsafe { self.info.si_pid() } == std::process::id().cast_signed()
    }

    pub fn pass_on(&self, pid: pid_t) {
        if self.is_the_kernels() && self.was_told(pid) {
            return;
        }
        // SAFETY: numbers only; the value is there for a queued signal.
        unsafe {
            if self.info.si_code == libc::SI_QUEUE {
                libc::sigqueue(pid, self.number, self.info.si_value());
            } else {
                libc::kill(pid, self.number);
            }
        }
    }

    /// The terminal sends SIGINT and the like to a whole process group, so it is not sent again: a
    /// second one may mean "at once" to a program. When the terminal itself ends (SIGHUP, SIGCONT),
    /// only the first process of the session receives it. Without `alcc` that would be the program.
    fn was_told(&self, pid: pid_t) -> bool {
        let first = nix::unistd::getsid(None).ok() == Some(nix::unistd::getpid());
        let alone = first && [libc::SIGHUP, libc::SIGCONT].contains(&self.number);
        !alone && in_our_group(pid)
    }
}

fn in_our_group(pid: pid_t) -> bool {
    nix::unistd::getpgid(Some(Pid::from_raw(pid))) == Ok(nix::unistd::getpgrp())
}

/// Stops this process as the child was stopped, so that the shell sees a stopped job. The SIGCONT
/// that continues this process is passed on to the child.
pub fn stop_too(child: pid_t, signal: c_int) {
    let foreground = || {
        let terminal = std::fs::File::open("/dev/tty").ok()?;
        Some(nix::unistd::tcgetpgrp(terminal).ok()? == nix::unistd::getpgrp())
    };
    // A program that was stopped alone, by SIGSTOP, will be continued alone too.
    if !in_our_group(child) || (signal == libc::SIGSTOP && foreground() != Some(true)) {
        return;
    }
    // SAFETY: sets of our own and numbers. Sent while it is blocked: the terminal may have sent it
    // as well, and we are to stop once.
    unsafe {
        let mut only: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut only);
        libc::sigaddset(&raw mut only, signal);
        libc::kill(libc::getpid(), signal);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const only, std::ptr::null_mut());
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const only, std::ptr::null_mut());
    }
}

/// Our own children, adopted ones included.
fn children() -> Vec<pid_t> {
    let us = std::process::id();
    let list =
        std::fs::read_to_string(format!("/proc/{us}/task/{us}/children")).unwrap_or_default();
    list.split_whitespace()
        .filter_map(|pid| pid.parse().ok())
        .collect()
}
