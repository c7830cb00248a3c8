// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The functions of a build without the loader: they refuse or find nothing.
use crate::{
    Attached, BpfError, Choice, Chosen, Control, Cost, Counters, Ended, Future, Loaded, Selection,
    TransferEnd,
};
use std::path::{Path, PathBuf};

/// Always an error: this build cannot load BPF programs.
pub fn load(_group: Option<u32>) -> Result<Vec<Loaded>, BpfError> {
    Err(BpfError::NotBuilt)
}

/// The controls that another build of this program has registered, by the kernel's list.
pub fn loaded() -> Vec<&'static Control> {
    const FILE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    let there = std::fs::read_to_string(FILE).unwrap_or_default();
    let registered = |c: &&'static Control| there.split_whitespace().any(|name| name == c.name);
    crate::controls().filter(registered).collect()
}

/// Always an error: this build cannot load BPF programs.
pub fn allow_users(_may: bool) -> Result<(), BpfError> {
    Err(BpfError::NotBuilt)
}

/// Always `true`: this build restricts nothing.
pub fn is_for_users(_control: &Control) -> bool {
    true
}

/// Always `None`: this build has no BPF loader.
pub fn older() -> Option<PathBuf> {
    None
}

/// Always `None`: this build has no BPF loader.
pub fn window_group() -> Option<u32> {
    None
}

/// Always an error: this build cannot load BPF programs.
pub fn unload() -> Result<Ended, BpfError> {
    Err(BpfError::NotBuilt)
}

/// Always an error: this build cannot load BPF programs.
pub fn attach(_selection: &Selection, _control: impl Into<Chosen>) -> Result<Attached, BpfError> {
    Err(BpfError::NotBuilt)
}

/// Always an error: this build cannot load BPF programs.
pub fn detach(_selection: &Selection) -> Result<Attached, BpfError> {
    Err(BpfError::NotBuilt)
}

/// Always an error: this build cannot load BPF programs.
pub fn survey(_selection: &Selection) -> Result<Attached, BpfError> {
    Err(BpfError::NotBuilt)
}

impl Future<'_> {
    /// Always an error: this build cannot load BPF programs.
    pub fn begin(&self, _control: impl Into<Chosen>) -> Result<(), BpfError> {
        Err(BpfError::NotBuilt)
    }
}

/// Always empty.
pub fn futures() -> Vec<Choice> {
    Vec::new()
}

/// Always an error: this build cannot load BPF programs.
pub fn end_futures(_meant: impl Fn(&Choice) -> bool) -> Result<Vec<Choice>, BpfError> {
    Err(BpfError::NotBuilt)
}

/// Always an error: this build cannot load BPF programs.
pub fn check_door(_cgroup: &Path) -> Result<(), BpfError> {
    Err(BpfError::NotBuilt)
}

/// Always an error: this build cannot load BPF programs.
pub fn open_door(_cgroup: &Path) -> Result<bool, BpfError> {
    Err(BpfError::NotBuilt)
}

/// Always empty.
pub fn doors() -> Vec<PathBuf> {
    Vec::new()
}

/// Always an error: this build cannot load BPF programs.
pub fn end_doors() -> Result<(), BpfError> {
    Err(BpfError::NotBuilt)
}

/// Always `None`: there is no door.
pub fn door_cost(_cgroup: &Path) -> Option<Cost> {
    None
}

/// A trial, which this build never creates.
#[derive(Debug)]
pub enum Trial {}

impl Trial {
    /// Always an error: this build cannot load BPF programs.
    pub fn begin(_of: &Selection, _cgroup: &Path, _control: &Chosen) -> Result<Self, BpfError> {
        Err(BpfError::NotBuilt)
    }

    /// Does nothing: there is no trial.
    pub fn readings(&mut self) -> Result<Vec<Counters>, BpfError> {
        match *self {}
    }

    /// Does nothing: there is no trial.
    pub fn ends(&self) -> Vec<TransferEnd> {
        match *self {}
    }

    /// Does nothing: there is no trial.
    pub fn ends_lost(&self) -> u64 {
        match *self {}
    }

    /// Does nothing: there is no trial.
    pub fn give_back(&mut self) -> Result<(), BpfError> {
        match *self {}
    }
}

/// Policies.
pub mod policy {
    use crate::{BpfError, InForce, Rule, Walk};
    use std::path::{Path, PathBuf};

    /// Always an error: this build cannot load BPF programs.
    pub fn apply(_rules: &[Rule], _file: &Path) -> Result<Walk, BpfError> {
        Err(BpfError::NotBuilt)
    }

    /// Always an error: this build cannot load BPF programs.
    pub fn rollback() -> Result<Option<Walk>, BpfError> {
        Err(BpfError::NotBuilt)
    }

    /// Always an error: this build cannot load BPF programs.
    pub fn in_force() -> Result<Option<InForce>, BpfError> {
        Err(BpfError::NotBuilt)
    }

    /// Always an error: this build cannot load BPF programs.
    pub fn look() -> Result<Walk, BpfError> {
        Err(BpfError::NotBuilt)
    }

    /// Always empty: unknown without the loader.
    pub fn others() -> Vec<PathBuf> {
        Vec::new()
    }

    /// Always empty: there is no policy.
    pub fn without_cgroup(_policy: &InForce) -> Vec<usize> {
        Vec::new()
    }
}
