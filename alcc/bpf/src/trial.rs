// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A share of the clients under another control, and the counters of all connections.
use crate::attach::detach;
use crate::control;
use crate::encoded::Rules;
use crate::error::BpfError;
use crate::namespace::{namespace_of, within};
use crate::options;
use crate::pins;
use crate::policy::exchange;
use crate::rule::Rule;
use crate::selection::{Counters, Selection, TransferEnd, name_of, open_cgroup, other_namespaces};
use crate::sockets::{Act, ENDS_MAPS, FUTURE, POLICIES, Wanted, link, map, program, read_link};
use alcc_sys::Chosen;
use libbpf_rs::{Link, MapCore, MapFlags, Object};
use nix::fcntl::{Flock, FlockArg};
use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::{Duration, Instant};

/// Program that records the end of each connection, and of each transfer on a connection that continues.
const CLOSED: &str = "alcc_closed";
const ACKED: &str = "alcc_acked";
const READINGS: &str = "alcc_readings";
/// Map of the number of open connections in each network namespace.
const CONNECTIONS: &str = "connections";
/// Shortest interval between two searches for processes in other network namespaces.
const SEARCH: Duration = Duration::from_secs(1);
/// `struct counters` of `watched.h`.
const COUNTERS_LEN: usize = 48;
/// Capacity of the queue of ends.
const ENDS_LEN: usize = 16_384;

/// A trial: connections that clients open from [`Trial::begin`] on, a share of them under a control.
///
/// It lasts as long as this value. When the process ends for any reason, new connections get the
/// system's control. Those under the trial's control keep it until [`Trial::give_back`],
/// [`detach`] or their end.
pub struct Trial {
    selection: Selection,
    /// The first field to be dropped: from then on new connections do not change.
    future: Option<Link>,
    readings: Link,
    /// The network namespace of this process.
    own: u64,
    /// Processes by which each network namespace can be entered, and the time of the last search.
    processes: BTreeMap<u64, Vec<u32>>,
    searched: Option<Instant>,
    _ends: [Link; 2],
    object: Object,
    _lock: Flock<File>,
}

impl fmt::Debug for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trial")
            .field("selection", &self.selection)
            .finish_non_exhaustive()
    }
}

impl Trial {
    /// Begins the trial: of the matching connections accepted by processes of the cgroup, the
    /// selection's share gets the control.
    ///
    /// # Errors
    /// The kernel refuses, or another trial of the same selection is running.
    pub fn begin(selection: &Selection, cgroup: &Path, control: &Chosen) -> Result<Self, BpfError> {
        control::able()?;
        options::check(control)?;
        pins::prepare()?;
        let (folder, number) = open_cgroup(cgroup)?;
        let lock = alone(&name_of(selection.port, selection.prefix, number))?;
        let failed = |e: libbpf_rs::Error| BpfError::kernel("begin the trial", &e);
        let wanted = Wanted {
            watch: true,
            ..Wanted::all(Act::Apply)
        };
        let object = wanted.load(&[FUTURE, READINGS, CLOSED, ACKED])?;
        // The share, and then all others, which are left alone.
        let others = Rule {
            share: None,
            ..selection.rule(None)
        };
        let mut rules = Rules::default();
        rules.attach(&others);
        rules.attach(&selection.rule(Some(control.clone())));
        exchange(&map(&object, POLICIES), &rules)?;
        let readings = link(&object, READINGS)?;
        let own = namespace_of(std::process::id())?;
        // There is room for it, however many namespaces users make.
        map(&object, CONNECTIONS)
            .update(
                &(own as u32).to_ne_bytes(),
                &0u64.to_ne_bytes(),
                MapFlags::ANY,
            )
            .map_err(failed)?;
        // First, so that no connection ends unseen.
        let closed = program(&object, CLOSED)
            .attach_cgroup(folder.as_raw_fd())
            .map_err(failed)?;
        let acked = program(&object, ACKED).attach().map_err(failed)?;
        let future = program(&object, FUTURE)
            .attach_cgroup(folder.as_raw_fd())
            .map_err(failed)?;
        Ok(Self {
            selection: selection.clone(),
            future: Some(future),
            readings,
            own,
            processes: BTreeMap::from([(own, vec![std::process::id()])]),
            searched: None,
            _ends: [closed, acked],
            object,
            _lock: lock,
        })
    }

    /// The counters of all connections that have changed since the last call. A call visits every TCP
    /// socket of the network namespaces with open connections.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn readings(&mut self) -> Result<Vec<Counters>, BpfError> {
        let open = self.namespaces();
        let is_due = self.searched.is_none_or(|at| at.elapsed() >= SEARCH);
        if is_due && open.iter().any(|number| *number != self.own) {
            self.processes = other_namespaces();
            self.processes.insert(self.own, vec![std::process::id()]);
            self.searched = Some(Instant::now());
        }
        let (mut records, mut refused) = (Vec::new(), None);
        for number in open {
            let pids = self.processes.get(&number).into_iter().flatten().copied();
            // The number of a process that has ended may be that of another by now.
            let inside = |pid: &u32| namespace_of(*pid).is_ok_and(|found| found == number);
            let pids: Vec<u32> = pids.filter(inside).take(1).collect();
            match within(&pids, || read_link(&self.readings)) {
                Ok(Ok(read)) => records.extend(read),
                Ok(Err(why)) => refused = Some(why),
                // Of a namespace that cannot be entered only the ends are counted.
                Err(_) => {}
            }
        }
        // What was read of the others is not told again.
        if let Some(why) = refused.filter(|_| records.is_empty()) {
            return Err(why);
        }
        Ok(records.chunks_exact(COUNTERS_LEN).map(counters).collect())
    }

    /// The network namespaces with open connections.
    fn namespaces(&self) -> Vec<u64> {
        let connections = map(&self.object, CONNECTIONS);
        let is_open = |key: &Vec<u8>| {
            let count = connections.lookup(key, MapFlags::ANY).ok().flatten();
            count.is_some_and(|count| count.iter().any(|byte| *byte != 0))
        };
        let numbers = connections.keys().filter(is_open);
        let number = |key: Vec<u8>| u32::from_ne_bytes(key.try_into().expect("four bytes")).into();
        numbers.map(number).collect()
    }

    /// The ends of transfers and connections since the last call, in order.
    pub fn ends(&self) -> Vec<TransferEnd> {
        let queue = map(&self.object, ENDS_MAPS[0]);
        let next = || queue.lookup_and_delete(&[]).ok().flatten();
        std::iter::from_fn(next)
            .take(ENDS_LEN)
            .map(|record| TransferEnd {
                counters: counters(&record[..COUNTERS_LEN]),
                closed: record[COUNTERS_LEN..].iter().any(|byte| *byte != 0),
            })
            .collect()
    }

    /// The number of ends that were lost because they came too fast.
    pub fn ends_lost(&self) -> u64 {
        let lost = map(&self.object, ENDS_MAPS[1]).lookup(&0u32.to_ne_bytes(), MapFlags::ANY);
        let lost = lost.ok().flatten().and_then(|bytes| bytes.try_into().ok());
        lost.map_or(0, u64::from_ne_bytes)
    }

    /// Stops switching: new connections keep their congestion control, and switched ones get back the
    /// earlier one. [`Trial::readings`] continues for connections that are already watched.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn give_back(&mut self) -> Result<(), BpfError> {
        self.future = None;
        let refused = detach(&self.selection)?.into_iter().find_map(|f| f.error);
        refused.map_or(Ok(()), |error| {
            Err(BpfError::Kernel {
                attempt: "give connections back what they had".into(),
                error,
            })
        })
    }
}

/// Lock against a second trial of the same connections: the two would undo each other's choice.
fn alone(name: &str) -> Result<Flock<File>, BpfError> {
    pins::lock(&format!("trial-{name}"), FlockArg::LockExclusiveNonblock)
}

fn counters(record: &[u8]) -> Counters {
    let word = |at: usize| u32::from_ne_bytes(record[at..at + 4].try_into().expect("four bytes"));
    let long = |at: usize| u64::from_ne_bytes(record[at..at + 8].try_into().expect("eight bytes"));
    Counters {
        cookie: long(0),
        client: long(8),
        acked: long(16),
        in_flight: word(24),
        rtt_us: word(28),
        retransmits: word(32),
        mss: word(36),
        is_first: long(40) != 0,
    }
}
