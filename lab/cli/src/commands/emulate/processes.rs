// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The programs at both ends: their signals, their end, and their remaining children.
use super::watch::{self, Watch, Watched};
use crate::failure::Failure;
use crate::handover::Handover;
use crate::output::note;
use crate::supervise::{Change, Exit, change, next_signal, not_started, stop_too};
use alcc_emu::Namespace;
use nix::errno::Errno;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork, getpid, getppid};
use std::collections::BTreeSet;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// Maximum time until everything ends after SIGTERM.
const MAX_WAIT: Duration = Duration::from_secs(1);
/// Maximum time until a server listens. A Java VM takes seconds on a busy machine.
const MAX_START: Duration = Duration::from_secs(30);
/// Time of waiting after which a message is printed.
const SILENT: Duration = Duration::from_secs(2);
const TICK: Duration = Duration::from_millis(5);

pub(crate) struct Processes {
    before: SigSet,
    /// The process that ends everything should this one be killed.
    guard: Option<Pid>,
    /// The connection to the process that ends everything if both are killed.
    watched: Option<Watched>,
}

/// The role of a process after the fork.
pub(super) enum Half {
    /// The one that does the work.
    Working(Processes),
    /// Its parent, or the process that watches both, once all has ended; how that one ended.
    Guard(Exit),
}

impl Processes {
    /// From here on signals wait until they are passed on, and orphans of our children become our
    /// children.
    pub(super) fn new() -> Result<Self, Failure> {
        let failed = |what: &'static str| move |e: Errno| Failure::usage(format!("{what}: {e}"));
        nix::sys::prctl::set_child_subreaper(true).map_err(failed("adopt background processes"))?;
        let before = SigSet::all()
            .thread_swap_mask(SigmaskHow::SIG_BLOCK)
            .map_err(failed("block signals"))?;
        Ok(Self {
            before,
            guard: None,
            watched: None,
        })
    }

    /// As [`Self::divided`], and a third process ends everything when both are killed at once.
    pub(super) fn guarded() -> Result<Half, Failure> {
        Self::divided(Some(watch::pair()?))
    }

    /// Divides this process: the parent only waits, passes signals on, and ends what a child that
    /// was killed has left behind. The child ends everything when the parent is killed. So SIGKILL
    /// leaves nothing, whichever of them it reaches.
    fn divided(watch: Option<(Watched, Watch)>) -> Result<Half, Failure> {
        let guard = Self::new()?;
        let parent = getpid();
        // SAFETY: this process has one thread.
        let forked = unsafe { fork() };
        match forked.map_err(|e| Failure::usage(format!("start a process: {e}")))? {
            ForkResult::Child => {
                let failed = |e: Errno| Failure::usage(format!("set the parent-death signal: {e}"));
                nix::sys::prctl::set_child_subreaper(true).map_err(failed)?;
                nix::sys::prctl::set_pdeathsig(Signal::SIGTERM).map_err(failed)?;
                Ok(Half::Working(Self {
                    guard: Some(parent),
                    watched: watch.map(|(watched, _)| watched),
                    ..guard
                }))
            }
            ForkResult::Parent { child } => {
                let mut _watched = None;
                if let Some((watched, watch)) = watch {
                    // SAFETY: this process has one thread.
                    if let Ok(ForkResult::Child) = unsafe { fork() } {
                        drop(watched);
                        watch.run(MAX_WAIT);
                        return Ok(Half::Guard(Exit::Signal(Signal::SIGKILL as u8)));
                    }
                    _watched = Some(watched);
                }
                let exit = guard.wait(child, None);
                guard.end(None);
                exit.map(Half::Guard)
            }
        }
    }

    /// The same for a command whose own programs end with it. `Some` in the parent: its exit status,
    /// once all has ended.
    ///
    /// # Errors
    /// No process can be started.
    pub(crate) fn guard() -> Result<Option<ExitCode>, Failure> {
        let working = match Self::divided(None)? {
            Half::Working(processes) => processes,
            Half::Guard(exit) => return Ok(Some(ExitCode::from(exit.status()))),
        };
        // Entering a user namespace clears what was set. Without one the command says so itself.
        let _ = alcc_emu::prepare();
        let failed = |e: Errno| Failure::usage(format!("set the parent-death signal: {e}"));
        nix::sys::prctl::set_pdeathsig(Signal::SIGTERM).map_err(failed)?;
        if working.guard != Some(getppid()) {
            return Err(Failure::failed("the parent process was killed"));
        }
        working.before.thread_set_mask().map_err(failed)?;
        Ok(None)
    }

    /// Names the network of CMD, whose programs end when all of `alcc-lab` is killed.
    pub(super) fn watch(&self, inside: &Namespace) {
        self.watched.iter().for_each(|watched| watched.name(inside));
    }

    fn start(
        &self,
        namespace: &Namespace,
        mut command: Command,
        at_our_death: Signal,
    ) -> Result<Pid, Failure> {
        let name = command.get_program().to_string_lossy().into_owned();
        let handover = Handover::of(&mut command, self.before)?;
        namespace.enter_before(&mut command);
        // SAFETY: both make only calls that are allowed between fork and exec.
        unsafe {
            command.pre_exec(move || {
                nix::sys::prctl::set_pdeathsig(at_our_death)?;
                // Last: it may start the program itself.
                handover.take()
            });
        }
        let child = command.spawn().map_err(|e| not_started(&name, &e))?;
        Ok(Pid::from_raw(child.id().cast_signed()))
    }

    /// Starts CMD, in our process group: the terminal is for it. Without root only an emulator that
    /// is nested needs the capabilities of our user namespace. Programs that make a sandbox of their
    /// own (bwrap, browsers) refuse to run with them.
    pub(super) fn start_command(
        &self,
        inside: &Namespace,
        mut command: Command,
    ) -> Result<Pid, Failure> {
        let program = std::path::Path::new(command.get_program());
        let is_nested = program.file_name() == Some("alcc-lab".as_ref());
        if !is_nested {
            let drop_ambient = || alcc_emu::drop_ambient_capabilities();
            // SAFETY: one system call, which is allowed between fork and exec.
            unsafe { command.pre_exec(drop_ambient) };
        }
        self.start(inside, command, Signal::SIGTERM)
    }

    /// Starts a server, away from the terminal's signals, and waits until it listens or all of it has
    /// ended.
    ///
    /// # Errors
    /// If it ends with a failure before it listens.
    pub(super) fn start_server(
        &self,
        outside: &Namespace,
        mut command: Command,
    ) -> Result<Pid, Failure> {
        command
            .process_group(0)
            .stdin(std::process::Stdio::null())
            // Standard output belongs to CMD.
            .stdout(io::stderr());
        let listening = || outside.run(listeners).map_err(Failure::usage);
        let before = listening()?;
        let pid = self.start(outside, command, Signal::SIGKILL)?;
        let (began, mut is_silent) = (Instant::now(), true);
        while !listening()?.difference(&before).any(|inode| is_held(inode)) {
            match change() {
                Change::Ended(ended, exit) if ended == pid.as_raw() => {
                    if let Some(how) = failed(exit) {
                        self.end(Some(pid));
                        return Err(Failure::failed(format!(
                            "start the command of --outside: it {how} before it listened on a TCP or UDP port"
                        )));
                    }
                }
                // A command that ends well may have started the server in the background.
                Change::NoChildren => break,
                _ => {}
            }
            let waited = began.elapsed();
            if waited > MAX_START {
                note(format_args!(
                    "alcc-lab emulate: the command of --outside does not listen on a TCP or UDP port after {} s; CMD starts",
                    MAX_START.as_secs()
                ));
                break;
            }
            if waited > SILENT && std::mem::take(&mut is_silent) {
                note(format_args!(
                    "alcc-lab emulate: waiting until the command of --outside listens on a TCP or UDP port, {} s at most",
                    MAX_START.as_secs()
                ));
            }
            std::thread::sleep(TICK);
        }
        Ok(pid)
    }

    /// Waits for CMD; passes signals on to it. Says so if the server fails meanwhile.
    pub(super) fn wait(&self, child: Pid, server: Option<Pid>) -> Result<Exit, Failure> {
        let child = child.as_raw();
        let server = server.map(Pid::as_raw);
        loop {
            match change() {
                Change::None if self.guard.is_some_and(|guard| getppid() != guard) => {
                    return Ok(Exit::Signal(Signal::SIGKILL as u8));
                }
                Change::None => {
                    if let Some(signal) = next_signal() {
                        signal.pass_on(child);
                    }
                }
                Change::Ended(pid, exit) if pid == child => return Ok(exit),
                Change::Ended(pid, exit) if Some(pid) == server => {
                    if let Some(how) = failed(exit) {
                        note(format_args!(
                            "alcc-lab emulate: the command of --outside {how}; CMD continues"
                        ));
                    }
                }
                Change::Stopped(pid, signal) if pid == child => stop_too(child, signal),
                Change::Ended(..) | Change::Stopped(..) => {}
                Change::NoChildren => {
                    return Err(Failure::failed(
                        "wait for CMD: it is not a child of this process any more",
                    ));
                }
            }
        }
    }

    /// Ends the server and all processes that either side left behind: by SIGTERM, then by SIGKILL.
    pub(super) fn end(&self, server: Option<Pid>) {
        if let Some(server) = server {
            let _ = nix::sys::signal::killpg(server, Signal::SIGTERM);
        }
        for signal in [Signal::SIGTERM, Signal::SIGKILL] {
            let deadline = Instant::now() + MAX_WAIT;
            let mut told = BTreeSet::new();
            loop {
                while matches!(
                    waitpid(None, Some(WaitPidFlag::WNOHANG)),
                    Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..))
                ) {}
                let remaining = children();
                if remaining.is_empty() || Instant::now() > deadline {
                    break;
                }
                // We inherit the children of a process that ends, so the list may grow meanwhile.
                for pid in remaining {
                    if told.insert(pid) {
                        let _ = kill(pid, signal);
                    }
                }
                std::thread::sleep(TICK);
            }
        }
    }
}

/// Failure of a command; `None` if it succeeded.
fn failed(exit: Exit) -> Option<String> {
    match exit {
        Exit::Status(0) => None,
        Exit::Status(code) => Some(format!("ended with status {code}")),
        Exit::Signal(signal) => Some(format!("was ended by signal {signal}")),
    }
}

/// Our children, adopted ones included.
fn children() -> Vec<Pid> {
    let of_us = |(pid, parent): (Pid, Pid)| (parent == Pid::this()).then_some(pid);
    parents().into_iter().filter_map(of_us).collect()
}

/// All processes with their parents. The kernel's list of children is an option of its build.
fn parents() -> Vec<(Pid, Pid)> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let parent = |pid: Pid| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name in parentheses may hold anything; the state and the parent follow the last one.
        let (_, rest) = stat.rsplit_once(')')?;
        rest.split_whitespace()
            .nth(1)?
            .parse()
            .ok()
            .map(Pid::from_raw)
    };
    entries
        .flatten()
        .filter_map(|e| e.file_name().to_str()?.parse().ok().map(Pid::from_raw))
        .filter_map(|pid| Some((pid, parent(pid)?)))
        .collect()
}

/// True if a process that descends from us holds the socket with this inode: in a network that is
/// shared with others, as root's is, theirs begin to listen as well.
fn is_held(inode: &str) -> bool {
    let socket = format!("socket:[{inode}]");
    let holds = |pid: &Pid| {
        let files = std::fs::read_dir(format!("/proc/{pid}/fd"));
        let links = files.into_iter().flatten().flatten();
        links
            .filter_map(|file| std::fs::read_link(file.path()).ok())
            .any(|to| to.as_os_str() == socket.as_str())
    };
    let parents = parents();
    let mut ours = vec![Pid::this()];
    while let Some(pid) = ours.pop() {
        if pid != Pid::this() && holds(&pid) {
            return true;
        }
        let children = parents.iter().filter(|(_, parent)| *parent == pid);
        ours.extend(children.map(|(child, _)| *child));
    }
    false
}

/// Tables of sockets, and the state in which one waits for peers: LISTEN for TCP; for UDP, whose
/// sockets are there once they are bound, CLOSE, which is not connected to a peer.
const TABLES: [(&str, &str); 4] = [("tcp", "0A"), ("tcp6", "0A"), ("udp", "07"), ("udp6", "07")];

/// The inodes of the TCP and UDP sockets that wait for peers in the namespace of the calling thread.
fn listeners() -> BTreeSet<String> {
    TABLES
        .iter()
        .flat_map(|(table, waits)| {
            let text = std::fs::read_to_string(format!("/proc/thread-self/net/{table}"))
                .unwrap_or_default();
            text.lines()
                .filter_map(|line| {
                    let mut words = line.split_whitespace().skip(1);
                    let (state, inode) = (words.nth(2)?, words.nth(5)?);
                    (state == *waits).then(|| inode.to_owned())
                })
                .collect::<Vec<_>>()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, UdpSocket};
    use std::os::fd::{AsFd, AsRawFd, OwnedFd};

    fn inode(socket: impl AsFd) -> String {
        let file = format!("/proc/self/fd/{}", socket.as_fd().as_raw_fd());
        let link = std::fs::read_link(file).unwrap();
        let inode = link.to_str().unwrap().strip_prefix("socket:[").unwrap();
        inode.strip_suffix(']').unwrap().to_owned()
    }

    #[test]
    fn servers_of_both_protocols_are_found() {
        for any in ["127.0.0.1:0", "[::1]:0"] {
            // A machine without IPv6.
            let Ok(tcp) = TcpListener::bind(any) else {
                continue;
            };
            let [udp, connected] = [0, 1].map(|_| UdpSocket::bind(any).unwrap());
            connected.connect(udp.local_addr().unwrap()).unwrap();
            let found = listeners();
            assert!(found.contains(&inode(&tcp)) && found.contains(&inode(&udp)));
            assert!(!found.contains(&inode(&connected)));
        }
    }

    #[test]
    fn only_a_socket_of_a_child_counts() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let inode = inode(&listener);
        assert!(!is_held(&inode), "this process is not a server");
        let mut child = Command::new("sleep")
            .arg("60")
            .stdin(OwnedFd::from(listener))
            .spawn()
            .unwrap();
        let held = is_held(&inode);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(held);
    }
}
