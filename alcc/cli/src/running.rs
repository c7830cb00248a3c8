// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A process of `alcc run`, `alcc proxy` or with the C library, by its shared memory.
use alcc_observe::Segment;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Another process's entry.
pub(crate) struct Running {
    /// Process id of the `alcc` that runs.
    pub(crate) id: u32,
    /// Its shared memory.
    pub(crate) segment: Segment,
    /// "run", "proxy" or "library".
    pub(crate) kind: String,
    /// Description of the program or server, for people.
    pub(crate) what: String,
    /// Feedback and enforcement at its start, and the reason for them. `None`: it did not choose.
    pub(crate) form: Option<(String, String)>,
    /// Its remaining processes; empty while `alcc` itself runs.
    remaining: Vec<u32>,
    /// Device and inode of the shared memory, and its owner.
    pub(crate) file: (u64, u64),
    pub(crate) owner: u32,
}

pub(crate) fn exists(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

impl Running {
    /// `left` is empty if it runs. `None` if the file is not a report.
    pub(crate) fn of(id: u32, remaining: Vec<u32>, file: File) -> Option<Self> {
        let meta = file.metadata().ok()?;
        let segment = Segment::attend_file(file).ok()?;
        let about = segment.about();
        let (first, what) = about.split_once('\n').unwrap_or(("run", &about));
        let mut parts = first.splitn(3, "; ").map(str::to_owned);
        let kind = parts.next().unwrap_or_default();
        Some(Self {
            id,
            kind,
            what: what.replace('\n', " "),
            form: parts.next().zip(parts.next()),
            remaining,
            file: (meta.dev(), meta.ino()),
            owner: meta.uid(),
            segment,
        })
    }

    /// True if `alcc run` was killed, and its server continues.
    pub(crate) fn is_killed(&self) -> bool {
        !self.remaining.is_empty()
    }

    /// Its process id, and its owner if that is another user.
    pub(crate) fn title(&self) -> String {
        if self.owner == nix::unistd::geteuid().as_raw() {
            return self.id.to_string();
        }
        let user = nix::unistd::User::from_uid(self.owner.into());
        let named = user.ok().flatten().map(|user| user.name);
        let name = named.unwrap_or_else(|| format!("user {}", self.owner));
        format!("{} of {name}", self.id)
    }

    /// True if there is anything to show.
    pub(crate) fn lives(&self) -> bool {
        if self.is_killed() {
            self.remaining.iter().any(|pid| exists(*pid))
        } else {
            exists(self.id)
        }
    }

    /// Frees the slots of processes that have ended, in place of `alcc run`. Must run in their PID
    /// namespace.
    pub(crate) fn tidy(&self) {
        let space = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
        let library = (self.kind == "library").then_some(self.id);
        let first = self.remaining.first().copied().or(library);
        let first = first.map(|pid| pid.to_string());
        if first.is_some_and(|pid| space(&pid).is_some() && space(&pid) == space("self")) {
            self.segment.reclaim(exists);
        }
    }
}
