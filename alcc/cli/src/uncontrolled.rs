// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Search for connections of the processes under `alcc run` that were not controlled although they should
//! have been. The kernel's list of open connections is compared with the table of connections. Findings
//! are counted in the shared memory at once, for `alcc top` and the metrics. Standard error reports each
//! program and reason once.
//!
//! Scans take at most 0.1 % of a core after the first second. Connections that open, send and close
//! between two scans are known by the kernel's notification at their end, and by the listening process.
//! The kernel drops notifications under load, so the figures are lower bounds.
use crate::holders::{Holder, holders, links};
use crate::http::spawn;
use crate::loader;
use crate::output::{note, one_line};
use crate::wording::{count, hint, megabytes};
use alcc_observe::{Bypass, Event, Missed, Peer, Segment, State};
use alcc_socket::Selection;
use alcc_sys::thread_cpu;
use alcc_sys::{Ended, Sockets, TcpSocket};
use alcc_units::{Bytes, Span};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Connections of one program that passed uncontrolled for one reason.
#[derive(Clone)]
pub(crate) struct NotControlled {
    pub(crate) program: String,
    /// One of its processes.
    pub(crate) pid: u32,
    pub(crate) why: Missed,
    pub(crate) connections: usize,
    pub(crate) bytes: u64,
    /// One of the other ends.
    pub(crate) example: SocketAddr,
}

impl NotControlled {
    /// One line for the summary.
    pub(crate) fn line(&self) -> String {
        format!(
            "alcc: at least {} of {} (process {}, e.g. to {}) passed uncontrolled with {}: {}",
            count(self.connections as u64, "connection"),
            self.program,
            self.pid,
            self.example,
            megabytes(self.bytes),
            hint(self.why.why(), self.why.remedy()),
        )
    }
}

/// Time between scans: its bounds, and its ratio to the time of a scan.
const MIN_INTERVAL: Duration = Duration::from_millis(50);
const MAX_INTERVAL: Duration = Duration::from_secs(10);
const QUIET: Duration = Duration::from_millis(100);
const RATIO: u32 = 1000;
/// Number of first scans that are not counted.
const FIRST: u32 = 20;
/// Minimum number of segments: an answer that fits into the first window cannot be controlled.
const SEGMENTS: u64 = 4;
/// Maximum number of lines while the program runs, because its own output is more important.
const MAX_LINES: usize = 20;

/// Number of scans without notifications of ended connections. They are switched off if more connections
/// end between two scans than the kernel's queue holds (some hundred), because each takes some
/// microseconds.
const AGAIN: u32 = 256;
/// Shortest time between two searches for processes that were killed. By time, because scans of a machine with many
/// sockets are seconds apart.
const RECLAIM: Duration = Duration::from_secs(1);
/// Longest wait for the kernel's last notifications, when the program has ended.
const LAST: Span = Span::from_millis(200);

/// A listening process.
struct Owner {
    holder: Holder,
    program: String,
}

/// Parameters of the search.
pub(crate) struct Wanted {
    pub(crate) segment: Arc<Segment>,
    pub(crate) selection: Selection,
    /// The shared memory and the library, which every reached process has mapped.
    pub(crate) shared: PathBuf,
    pub(crate) library: PathBuf,
    /// Print nothing on standard error.
    pub(crate) quiet: bool,
}

/// The search, in a separate thread.
pub(crate) struct Search {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<Vec<NotControlled>>>,
}

impl Search {
    /// Starts. Finds nothing if the kernel has no socket diagnosis.
    pub(crate) fn start(wanted: Wanted) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        // Before the program starts, because the kernel reports ended connections only from here on.
        let mut scan = Scan::new(wanted);
        let thread = spawn("alcc-search", move || {
            let mut pause = MIN_INTERVAL;
            while !stopped.load(Ordering::Acquire) {
                let before = thread_cpu();
                let busy = scan.once();
                scan.say();
                // The first scans are expensive because caches are cold, and say nothing about the
                // next.
                let ratio = if scan.looks <= FIRST { 1 } else { RATIO };
                let cost = Duration::from(thread_cpu().saturating_sub(before)) * ratio;
                pause = if busy {
                    MIN_INTERVAL
                } else {
                    (pause * 2).min(QUIET)
                }
                .max(cost)
                .min(MAX_INTERVAL);
                std::thread::park_timeout(pause);
            }
            if let Some(ended) = &mut scan.ended {
                let last = ended.take_last(alcc_sys::now() + LAST);
                scan.count_ended(&last);
            }
            scan.found()
        });
        Self {
            stop,
            thread: thread.ok(),
        }
    }

    /// Ends the search and returns the findings.
    pub(crate) fn finish(mut self) -> Vec<NotControlled> {
        self.stop.store(true, Ordering::Release);
        let Some(thread) = self.thread.take() else {
            return Vec::new();
        };
        thread.thread().unpark();
        thread.join().unwrap_or_default()
    }
}

/// By program and reason.
type Found = BTreeMap<(String, Missed), NotControlled>;

struct Scan {
    wanted: Wanted,
    sockets: Option<Sockets>,
    /// Notifications of ended connections. `None`: there are too many, or the kernel does not send them.
    ended: Option<Ended>,
    /// The process that listens on a port, with the inode of the listening socket; `None`: not below us.
    listeners: BTreeMap<u16, (u32, Option<Owner>)>,
    /// Ports that were listened on: connections to them were accepted.
    listened: BTreeSet<u16>,
    /// Connections of other programs, by the kernel's number.
    foreign: BTreeSet<u64>,
    /// Connections in the table without bytes under control, possibly before their first reading.
    doubtful: BTreeSet<u64>,
    /// Open uncontrolled connections: where they are counted, and their bytes so far.
    suspects: BTreeMap<u64, ((String, Missed), u64)>,
    found: Found,
    said: BTreeSet<(String, Missed)>,
    said_bypassed: BTreeSet<Bypass>,
    looks: u32,
    /// Time of the last search for processes that have ended without saying so.
    reclaimed: Instant,
}

impl Scan {
    fn new(wanted: Wanted) -> Self {
        Self {
            wanted,
            sockets: Sockets::open().ok(),
            ended: Ended::open().ok(),
            listeners: BTreeMap::new(),
            listened: BTreeSet::new(),
            foreign: BTreeSet::new(),
            doubtful: BTreeSet::new(),
            suspects: BTreeMap::new(),
            found: Found::new(),
            said: BTreeSet::new(),
            said_bypassed: BTreeSet::new(),
            looks: 0,
            reclaimed: Instant::now(),
        }
    }

    /// One scan. True if anything is open.
    fn once(&mut self) -> bool {
        self.looks += 1;
        if self.reclaimed.elapsed() >= RECLAIM {
            self.reclaimed = Instant::now();
            self.wanted
                .segment
                .reclaim(|pid| Path::new(&format!("/proc/{pid}")).exists());
        }
        // Before the sockets, so that the listening sockets of these connections are still among them.
        let ended = self.take_ended();
        // The table is read before and after. A connection that is taken under control or ends in
        // between is in one of the two.
        let mut controlled = self.controlled();
        let Some(Ok(open)) = self.sockets.as_mut().map(Sockets::dump) else {
            self.count_ended(&ended);
            return false;
        };
        controlled.append(&mut self.controlled());
        let listening = open.iter().filter(|s| s.listens);
        self.listened.extend(listening.map(|s| s.local.port()));
        self.know_listeners(&open);
        self.count_ended(&ended);
        let sending: Vec<&TcpSocket> = open.iter().filter(|s| self.is_sending(s)).collect();
        let there: BTreeSet<u64> = sending.iter().map(|s| s.cookie).collect();
        self.foreign.retain(|cookie| there.contains(cookie));
        self.suspects.retain(|cookie, _| there.contains(cookie));
        let mut doubtful = BTreeSet::new();
        let mut fresh = BTreeMap::new();
        for s in &sending {
            let passed = controlled.get(&s.cookie).copied();
            let missed = self.missed(s, passed);
            if self.is_entered(s, missed) {
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

    /// True if it is counted already: then the bytes since are.
    fn is_entered(&mut self, s: &TcpSocket, missed: u64) -> bool {
        let Some((place, bytes)) = self.suspects.get_mut(&s.cookie) else {
            return false;
        };
        let more = missed.saturating_sub(*bytes);
        *bytes += more;
        if let Some(sum) = self.found.get_mut(place) {
            sum.bytes += more;
        }
        self.wanted.segment.count(&Event::Missed {
            why: place.1,
            connections: 0,
            bytes: Bytes::new(more),
        });
        true
    }

    /// Searches once for the processes that hold a listening socket.
    fn know_listeners(&mut self, open: &[TcpSocket]) {
        let is_new = |s: &&TcpSocket| {
            let known = self.listeners.get(&s.local.port());
            s.listens && known.is_none_or(|(inode, _)| *inode != s.inode)
        };
        let new: BTreeMap<u64, u16> = (open.iter().filter(is_new))
            .map(|s| (u64::from(s.inode), s.local.port()))
            .collect();
        if new.is_empty() {
            return;
        }
        let holders = holders(&new, descendants());
        for (inode, port) in new {
            let holder = holders.get(&inode).and_then(|all| all.first());
            let owner = holder.map(|holder| Owner {
                holder: *holder,
                program: program(holder.pid).unwrap_or_default(),
            });
            self.listeners.insert(port, (inode as u32, owner));
        }
    }

    /// The connections that have ended since the last call.
    fn take_ended(&mut self) -> Vec<TcpSocket> {
        let Some(ended) = &mut self.ended else {
            if self.looks.is_multiple_of(AGAIN) {
                self.ended = Ended::open().ok();
            }
            return Vec::new();
        };
        let (all, dropped) = ended.take();
        if dropped {
            self.ended = None;
        }
        all
    }

    /// Counts connections that have ended unseen.
    fn count_ended(&mut self, all: &[TcpSocket]) {
        for s in all {
            let unseen = self.wanted.segment.unseen(s.cookie, s.sent);
            let missed = unseen.map_or(s.sent, |unseen| unseen.bytes);
            let is_known = self.foreign.contains(&s.cookie) || self.is_entered(s, missed);
            if is_known || missed <= least(s) || !self.is_covered(s) {
                continue;
            }
            let owner = self.listeners.get(&s.local.port());
            let Some((_, Some(owner))) = owner else {
                continue;
            };
            let pid = owner.holder.pid;
            let unknown = (owner.program.clone(), Missed::Ended);
            let place = match program(pid) {
                None => Some(unknown),
                Some(_) => match self.suspect(&owner.holder, s) {
                    // The listening process has the library, but another one may have sent.
                    Some((_, Missed::RawCalls)) if unseen.is_none() => Some(unknown),
                    place => place,
                },
            };
            if let Some(place) = place {
                self.enter(s, missed, pid, place);
            }
        }
    }

    fn controlled(&self) -> BTreeMap<u64, Passed> {
        let records = self.wanted.segment.connections().into_iter();
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

    /// Number of its bytes that were sent without an algorithm. If the library has counted bytes of the
    /// connection, in any process, the remaining bytes that the kernel has sent are uncontrolled.
    /// Otherwise all bytes are, or none.
    fn missed(&self, s: &TcpSocket, passed: Option<Passed>) -> u64 {
        match (passed, self.wanted.segment.unseen(s.cookie, s.sent)) {
            (Some(Passed::Failed), _) | (Some(Passed::Nothing) | None, None) => s.sent,
            (_, Some(unseen)) => unseen.bytes,
            (Some(Passed::Some), None) => 0,
        }
    }

    fn is_sending(&self, s: &TcpSocket) -> bool {
        !s.listens && s.inode != 0 && s.sent > least(s) && self.is_covered(s)
    }

    fn is_covered(&self, s: &TcpSocket) -> bool {
        let peer = Peer {
            remote: s.remote,
            local_port: s.local.port(),
            outbound: !self.listened.contains(&s.local.port()),
        };
        self.wanted.selection.covers(&peer)
    }

    /// Finds the programs of these connections, and the reasons why they are not controlled.
    fn examine(&mut self, fresh: &BTreeMap<u64, (TcpSocket, u64)>) {
        let holders = holders(fresh, descendants());
        for (inode, (s, missed)) in fresh {
            let holder = holders.get(inode).and_then(|all| all.first());
            match holder.and_then(|holder| Some((holder.pid, self.suspect(holder, s)?))) {
                Some((pid, place)) => self.enter(s, *missed, pid, place),
                // Its process has just ended: the connection is counted at its end.
                None if self.is_ours(s) && holder.is_none_or(|h| program(h.pid).is_none()) => {}
                None => drop(self.foreign.insert(s.cookie)),
            }
        }
    }

    /// True if a program of the run listens on its local port.
    fn is_ours(&self, s: &TcpSocket) -> bool {
        let listener = self.listeners.get(&s.local.port());
        listener.is_some_and(|(_, owner)| owner.is_some())
    }

    fn enter(&mut self, s: &TcpSocket, missed: u64, pid: u32, place: (String, Missed)) {
        let (program, why) = place.clone();
        let sum = self.found.entry(place.clone()).or_insert(NotControlled {
            program,
            pid,
            why,
            connections: 0,
            bytes: 0,
            example: s.remote,
        });
        sum.connections += 1;
        sum.bytes += missed;
        self.wanted.segment.count(&Event::Missed {
            why,
            connections: 1,
            bytes: Bytes::new(missed),
        });
        self.suspects.insert(s.cookie, (place, missed));
    }

    /// Its program, and the reason why it was not controlled. `None`: it is controlled, but not shown.
    fn suspect(&self, holder: &Holder, s: &TcpSocket) -> Option<(String, Missed)> {
        let pid = holder.pid;
        let program = program(pid)?;
        let why = match std::fs::read_to_string(format!("/proc/{pid}/maps")) {
            Err(_) => Missed::Hidden,
            Ok(maps) if !names(&maps, &self.wanted.library) => not_loaded(pid),
            Ok(maps) => {
                let segment = &self.wanted.segment;
                let unseen = segment.unseen(s.cookie, s.sent);
                if !names(&maps, &self.wanted.shared)
                    || (unseen.is_none() && segment.not_shown() > 0)
                {
                    return None;
                }
                self.not_reached(holder, unseen.is_some_and(|unseen| unseen.streams))
            }
        };
        Some((program, why))
    }

    /// The reason why the library did not control a program that has loaded it.
    fn not_reached(&self, holder: &Holder, streams: bool) -> Missed {
        let pid = holder.pid;
        if self.wanted.segment.failed().contains(&pid) {
            return Missed::Failed;
        }
        if protocol(holder) == Some(nix::libc::IPPROTO_MPTCP) {
            return Missed::Mptcp;
        }
        let mut fds = links(pid);
        if fds.any(|(_, link)| link.starts_with("anon_inode:[io_uring]")) {
            return Missed::IoUring;
        }
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let seccomp = status.lines().find_map(|l| l.strip_prefix("Seccomp:"));
        if seccomp.is_some_and(|mode| mode.trim() != "0") {
            return Missed::Seccomp;
        }
        if streams {
            Missed::Stdio
        } else {
            Missed::RawCalls
        }
    }

    /// Prints the new findings since the last scan.
    fn say(&mut self) {
        let lines = self.said.len() + self.said_bypassed.len();
        if self.wanted.quiet || lines >= MAX_LINES {
            return;
        }
        for (place, m) in &self.found {
            if self.said.insert(place.clone()) {
                note(format_args!(
                    "alcc: connections of {} (process {}, e.g. to {}) pass uncontrolled: {}",
                    m.program,
                    m.pid,
                    m.example,
                    hint(m.why.why(), m.why.remedy()),
                ));
            }
        }
        let totals = self.wanted.segment.totals();
        for (why, n) in totals.bypassed_bytes.iter() {
            if n > totals.bytes.max(BYPASSED) && self.said_bypassed.insert(why) {
                note(format_args!(
                    "alcc: the program bypasses the library: {}",
                    hint(why.why(), Some(why.remedy())),
                ));
            }
        }
    }

    /// By program and reason.
    fn found(self) -> Vec<NotControlled> {
        self.found.into_values().collect()
    }
}

/// The first bytes of most programs bypass the gate, until they have waited for room. More than
/// this, and more than are under control, is worth a line while the program runs.
const BYPASSED: u64 = 1_000_000;

/// Minimum number of bytes that count as uncontrolled.
fn least(s: &TcpSocket) -> u64 {
    SEGMENTS * u64::from(s.mss.max(536))
}

/// True if a memory map contains a file. It compares folder and name, because the map has the path
/// without symbolic links.
fn names(maps: &str, of: &Path) -> bool {
    let file = of.canonicalize();
    // Memory without a name has one only there, behind its descriptor.
    let file = file
        .or_else(|_| std::fs::read_link(of))
        .unwrap_or_else(|_| of.to_owned());
    let file = file.to_string_lossy();
    let file = file.trim_end_matches(" (deleted)");
    maps.lines()
        .map(|line| line.trim_end_matches(" (deleted)"))
        .any(|line| line.ends_with(file))
}

/// The entry of a connection in the table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Passed {
    Some,
    Nothing,
    Failed,
}

/// The program of a process; `None`: the process has ended.
fn program(pid: u32) -> Option<String> {
    let program = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(one_line(program.trim_end()))
}

/// The reason why a program has not loaded the library.
fn not_loaded(pid: u32) -> Missed {
    let program = format!("/proc/{pid}/exe");
    loader::not_loaded(Path::new(&program)).unwrap_or(Missed::NotLoaded)
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

/// The protocol of another process's socket; `None` without the permission.
fn protocol(holder: &Holder) -> Option<i32> {
    let process = alcc_sys::Process::open(holder.pid).ok()?;
    let socket = process.descriptor(holder.fd).ok()?;
    let mut value = 0i32;
    let level = nix::libc::SOL_SOCKET;
    alcc_sys::get_option(
        socket.as_raw_fd(),
        level,
        nix::libc::SO_PROTOCOL,
        &mut value,
    )?;
    Some(value)
}
