// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which connections of the processes under `alcc run` were not controlled although they should have been: what the kernel says
//! is open, compared with the table of connections.
//!
//! A look at a time, never more than a tenth of a percent of a core after the first second. What opens, sends and closes between two looks is not seen: the
//! figures are "at least".
use crate::loader::Loader;
use crate::metrics::deaf;
use alcc_lab::{Sockets, TcpSocket};
use alcc_socket::{Bypass, Peer, Report, Selection, State};
use nix::time::{ClockId, clock_gettime};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Connections of one program that passed uncontrolled for one reason.
pub(crate) struct NotControlled {
    pub(crate) program: String,
    /// One of its processes.
    pub(crate) pid: u32,
    pub(crate) why: &'static str,
    pub(crate) connections: usize,
    pub(crate) bytes: u64,
    /// One of the other ends.
    pub(crate) example: SocketAddr,
}

/// Time between looks: the bounds, and how many times as long as the look itself.
const SHORTEST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(10);
const QUIET: Duration = Duration::from_millis(400);
const RATIO: u32 = 1000;
/// So many looks are not counted.
const FIRST: u32 = 20;
/// Fewer segments say nothing: an answer that fits into the first window cannot be controlled by anybody.
const SEGMENTS: u64 = 4;

/// The search, in a thread of its own.
pub(crate) struct Search {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<Vec<NotControlled>>>,
}

impl Search {
    /// Begins. Where the kernel has no socket diagnosis nothing will be found.
    /// `shared` and `library` are what a process that we reach has mapped.
    pub(crate) fn start(
        report: Arc<Report>,
        selection: Selection,
        shared: PathBuf,
        library: PathBuf,
    ) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = deaf("alcc-search", move || {
            let mut look = Look::new(report, selection, shared, library);
            let mut pause = SHORTEST;
            while !stopped.load(Ordering::Acquire) {
                let before = cpu();
                let busy = look.once();
                // The first looks are dear (whatever they touch is touched for the first time) and say nothing about the next.
                let ratio = if look.looks <= FIRST { 1 } else { RATIO };
                let cost = cpu().saturating_sub(before) * ratio;
                pause = if busy {
                    SHORTEST
                } else {
                    (pause * 2).min(QUIET)
                }
                .max(cost)
                .min(LONGEST);
                std::thread::park_timeout(pause);
            }
            look.found()
        });
        Self {
            stop,
            thread: thread.ok(),
        }
    }

    /// Ends; what was found.
    pub(crate) fn finish(mut self) -> Vec<NotControlled> {
        self.stop.store(true, Ordering::Release);
        let Some(thread) = self.thread.take() else {
            return Vec::new();
        };
        thread.thread().unpark();
        thread.join().unwrap_or_default()
    }
}

/// CPU time of this thread.
fn cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Into::into)
}

/// One that was not controlled.
struct Suspect {
    program: String,
    pid: u32,
    why: &'static str,
    bytes: u64,
    remote: SocketAddr,
}

struct Look {
    report: Arc<Report>,
    selection: Selection,
    shared: PathBuf,
    library: PathBuf,
    sockets: Option<Sockets>,
    /// Ports that were listened on: connections to them were accepted.
    listened: BTreeSet<u16>,
    /// Connections that are nobody's of ours, by the kernel's number.
    foreign: BTreeSet<u64>,
    /// In the table, but nothing has passed under control: perhaps its first reading is still to come.
    doubtful: BTreeSet<u64>,
    suspects: BTreeMap<u64, Suspect>,
    looks: u32,
}

/// A descriptor of a process under us.
struct Holder {
    pid: u32,
    fd: i32,
}

impl Look {
    fn new(report: Arc<Report>, selection: Selection, shared: PathBuf, library: PathBuf) -> Self {
        Self {
            report,
            selection,
            shared,
            library,
            sockets: Sockets::open().ok(),
            listened: BTreeSet::new(),
            foreign: BTreeSet::new(),
            doubtful: BTreeSet::new(),
            suspects: BTreeMap::new(),
            looks: 0,
        }
    }

    /// One look; true if anything is open.
    fn once(&mut self) -> bool {
        self.looks += 1;
        if self.looks.is_multiple_of(16) {
            self.report
                .reclaim(|pid| Path::new(&format!("/proc/{pid}")).exists());
        }
        // The table before and after: one that is taken under control or ends in between is in one of the two.
        let mut controlled = self.controlled();
        let Some(Ok(open)) = self.sockets.as_mut().map(Sockets::look) else {
            return false;
        };
        controlled.append(&mut self.controlled());
        let listening = open.iter().filter(|s| s.listens);
        self.listened.extend(listening.map(|s| s.local.port()));
        let sending: Vec<&TcpSocket> = open.iter().filter(|s| self.is_sending(s)).collect();
        let there: BTreeSet<u64> = sending.iter().map(|s| s.cookie).collect();
        self.foreign.retain(|cookie| there.contains(cookie));
        let mut doubtful = BTreeSet::new();
        let mut fresh = BTreeMap::new();
        for s in &sending {
            let passed = controlled.get(&s.cookie).copied();
            let missed = self.missed(s, passed);
            if let Some(suspect) = self.suspects.get_mut(&s.cookie) {
                suspect.bytes = suspect.bytes.max(missed);
                continue;
            }
            if missed <= least(s) {
                continue;
            }
            if passed == Some(Passed::Nothing) {
                doubtful.insert(s.cookie);
                if !self.doubtful.contains(&s.cookie) {
                    continue;
                }
            }
            if !self.foreign.contains(&s.cookie) {
                fresh.insert(u64::from(s.inode), (**s, missed));
            }
        }
        self.doubtful = doubtful;
        if !fresh.is_empty() {
            self.examine(&fresh);
        }
        !sending.is_empty()
    }

    fn controlled(&self) -> BTreeMap<u64, Passed> {
        let records = self.report.connections().into_iter();
        records
            .map(|c| {
                let passed = match c.now.state {
                    State::Failed => Passed::Failed,
                    State::Controlled if c.now.bytes == 0 => Passed::Nothing,
                    _ => Passed::Some,
                };
                (c.who.cookie, passed)
            })
            .collect()
    }

    /// How many bytes of it no algorithm has let through. Where the library has counted what passed by it, in whichever
    /// process, that is what the kernel has sent beyond; else all or nothing.
    fn missed(&self, s: &TcpSocket, passed: Option<Passed>) -> u64 {
        match (passed, self.report.unseen(s.cookie, s.sent)) {
            (Some(Passed::Failed), _) | (Some(Passed::Nothing) | None, None) => s.sent,
            (_, Some(unseen)) => unseen.bytes,
            (Some(Passed::Some), None) => 0,
        }
    }

    fn is_sending(&self, s: &TcpSocket) -> bool {
        let peer = Peer {
            remote: s.remote,
            local_port: s.local.port(),
            outbound: !self.listened.contains(&s.local.port()),
        };
        !s.listens && s.inode != 0 && s.sent > least(s) && self.selection.covers(&peer)
    }

    /// Whose are they, and why did we not control them?
    fn examine(&mut self, fresh: &BTreeMap<u64, (TcpSocket, u64)>) {
        let holders = holders(fresh);
        for (inode, (s, missed)) in fresh {
            let suspect = holders
                .get(inode)
                .and_then(|holder| self.suspect(holder, s, *missed));
            match suspect {
                Some(suspect) => drop(self.suspects.insert(s.cookie, suspect)),
                None => drop(self.foreign.insert(s.cookie)),
            }
        }
    }

    /// `None`: it is controlled, and only not shown.
    fn suspect(&self, holder: &Holder, s: &TcpSocket, missed: u64) -> Option<Suspect> {
        let pid = holder.pid;
        let program = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
        let why = match std::fs::read_to_string(format!("/proc/{pid}/maps")) {
            Err(_) => "we may not look into the process (another user's, set-user-id?)",
            Ok(maps) if !names(&maps, &self.library) => not_loaded(pid),
            Ok(maps) => {
                let unseen = self.report.unseen(s.cookie, s.sent);
                if !names(&maps, &self.shared) || (unseen.is_none() && self.report.not_shown() > 0)
                {
                    return None;
                }
                self.not_reached(holder, unseen.is_some_and(|unseen| unseen.streams))
            }
        };
        Some(Suspect {
            program: program.trim_end().to_owned(),
            pid,
            why,
            bytes: missed,
            remote: s.remote,
        })
    }

    /// Why a program that has the library was not reached by it.
    fn not_reached(&self, holder: &Holder, streams: bool) -> &'static str {
        let pid = holder.pid;
        if self.report.failed().contains(&pid) {
            return "the runtime failed in its process";
        }
        if protocol(holder) == Some(nix::libc::IPPROTO_MPTCP) {
            return "an MPTCP socket";
        }
        let mut fds = links(pid);
        if fds.any(|(_, link)| link.starts_with("anon_inode:[io_uring]")) {
            return "it sends by io_uring";
        }
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let seccomp = status.lines().find_map(|l| l.strip_prefix("Seccomp:"));
        if seccomp.is_some_and(|mode| mode.trim() != "0") {
            return "it has taken system calls from itself (seccomp)";
        }
        let why = if streams {
            Bypass::Stdio
        } else {
            Bypass::Unseen
        };
        why.why()
    }

    /// By program and reason.
    fn found(self) -> Vec<NotControlled> {
        let mut found = BTreeMap::<(String, &str), NotControlled>::new();
        for s in self.suspects.into_values() {
            let key = (s.program.clone(), s.why);
            let sum = found.entry(key).or_insert(NotControlled {
                program: s.program,
                pid: s.pid,
                why: s.why,
                connections: 0,
                bytes: 0,
                example: s.remote,
            });
            sum.connections += 1;
            sum.bytes += s.bytes;
        }
        found.into_values().collect()
    }
}

/// Fewer bytes are nobody's fault.
fn least(s: &TcpSocket) -> u64 {
    SEGMENTS * u64::from(s.mss.max(536))
}

/// Whether a memory map names a file. Compared by folder and name: the map has the path without links.
fn names(maps: &str, file: &Path) -> bool {
    let file = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    maps.lines()
        .map(|line| line.trim_end_matches(" (deleted)"))
        .any(|line| line.ends_with(&*file.to_string_lossy()))
}

/// What the table says of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Passed {
    Some,
    Nothing,
    Failed,
}

/// Why a program does not have the library.
fn not_loaded(pid: u32) -> &'static str {
    let exe = format!("/proc/{pid}/exe");
    let mode = std::fs::metadata(&exe).map_or(0, |m| m.permissions().mode());
    if mode & 0o6000 != 0 {
        return "a set-user-id program does not load the library";
    }
    let objection = Loader::of(Path::new(&exe)).and_then(|loader| loader.objection());
    objection.unwrap_or("it did not load the library (its environment was cleaned?)")
}

/// The descriptors of a process and where they lead.
fn links(pid: u32) -> impl Iterator<Item = (i32, String)> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd"));
    entries.into_iter().flatten().flatten().filter_map(|entry| {
        let fd = entry.file_name().to_str()?.parse().ok()?;
        let link = std::fs::read_link(entry.path()).ok()?;
        Some((fd, link.to_str()?.to_owned()))
    })
}

/// Which process under us has these sockets, by inode.
fn holders<T>(wanted: &BTreeMap<u64, T>) -> BTreeMap<u64, Holder> {
    let mut found = BTreeMap::new();
    for pid in descendants() {
        for (fd, link) in links(pid) {
            let inode = link
                .strip_prefix("socket:[")
                .and_then(|rest| rest.strip_suffix(']')?.parse().ok());
            if let Some(inode) = inode.filter(|inode| wanted.contains_key(inode)) {
                found.entry(inode).or_insert(Holder { pid, fd });
            }
        }
    }
    found
}

/// All processes below this one; those that went into the background have become our children.
fn descendants() -> Vec<u32> {
    let mut children = BTreeMap::<u32, Vec<u32>>::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let pid = entry.file_name().to_str().and_then(|n| n.parse().ok());
        if let Some((pid, parent)) = pid.and_then(|p| Some((p, crate::runs::parent_of(p)?))) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = children.remove(&std::process::id()).unwrap_or_default();
    let mut next = 0;
    while let Some(pid) = found.get(next) {
        if let Some(more) = children.remove(pid) {
            found.extend(more);
        }
        next += 1;
    }
    found
}

/// The protocol of another process's socket; `None` where we may not ask.
fn protocol(holder: &Holder) -> Option<i32> {
    let owned = |fd: i64| {
        // SAFETY: a descriptor that the kernel has just made for us.
        (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd as i32) })
    };
    // SAFETY: numbers only.
    let process = owned(unsafe {
        nix::libc::syscall(nix::libc::SYS_pidfd_open, holder.pid as nix::libc::pid_t, 0)
    })?;
    // SAFETY: as above.
    let socket = owned(unsafe {
        nix::libc::syscall(
            nix::libc::SYS_pidfd_getfd,
            process.as_raw_fd(),
            holder.fd,
            0,
        )
    })?;
    let (mut value, mut len) = (0i32, size_of::<i32>() as nix::libc::socklen_t);
    // SAFETY: pointer and length describe `value`.
    let rc = unsafe {
        nix::libc::getsockopt(
            socket.as_raw_fd(),
            nix::libc::SOL_SOCKET,
            nix::libc::SO_PROTOCOL,
            (&raw mut value).cast(),
            &raw mut len,
        )
    };
    (rc == 0).then_some(value)
}
