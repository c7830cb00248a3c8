// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Running a program until it and everything it left behind has ended.
use crate::failure::Failure;
use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

/// Signals that are meant for the program.
const FORWARDED: [Signal; 6] = [
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
];

/// Runs the command and waits for it and for every process it leaves behind (a server that goes into the background becomes
/// our child); passes signals on. The exit status is the command's, or 128 and the signal that ended it.
pub(crate) fn run(command: &mut Command) -> Result<ExitCode, Failure> {
    let name = command.get_program().to_string_lossy().into_owned();
    nix::sys::prctl::set_child_subreaper(true)
        .map_err(|e| Failure::usage(format!("adopt background processes: {e}")))?;
    let mut signals = SigSet::from_iter(FORWARDED);
    signals.add(Signal::SIGCHLD);
    let before = signals
        .thread_swap_mask(nix::sys::signal::SigmaskHow::SIG_BLOCK)
        .map_err(|e| Failure::usage(format!("block signals: {e}")))?;
    // SAFETY: sigprocmask is async-signal-safe.
    unsafe { command.pre_exec(move || before.thread_set_mask().map_err(io::Error::from)) };
    let child = command.spawn().map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => Failure::usage(format!(
            "start {name}: not found; install it, or give its full path"
        )),
        io::ErrorKind::PermissionDenied => {
            Failure::usage(format!("start {name}: no permission to run it"))
        }
        _ => Failure::usage(format!("start {name}: {e}")),
    })?;
    let child = Pid::from_raw(child.id().cast_signed());
    let mut status = None;
    loop {
        // All that have ended, then wait for a signal.
        loop {
            match waitpid(None, Some(nix::sys::wait::WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) => break,
                Ok(WaitStatus::Exited(pid, code)) if pid == child => status = Some(code),
                Ok(WaitStatus::Signaled(pid, signal, _)) if pid == child => {
                    status = Some(128 + signal as i32);
                }
                Ok(_) | Err(Errno::EINTR) => {}
                Err(_) => {
                    return Ok(ExitCode::from(
                        u8::try_from(status.unwrap_or(0)).unwrap_or(1),
                    ));
                }
            }
        }
        if let Ok(signal) = signals.wait()
            && signal != Signal::SIGCHLD
        {
            // The terminal sends Ctrl-C to the whole foreground group; a second one does no harm.
            let targets = if status.is_none() {
                vec![child]
            } else {
                children()
            };
            for pid in targets {
                let _ = kill(pid, signal);
            }
        }
    }
}

/// Our own children, adopted ones included.
fn children() -> Vec<Pid> {
    let us = std::process::id();
    let list =
        std::fs::read_to_string(format!("/proc/{us}/task/{us}/children")).unwrap_or_default();
    list.split_whitespace()
        .filter_map(|pid| pid.parse().ok().map(Pid::from_raw))
        .collect()
}
