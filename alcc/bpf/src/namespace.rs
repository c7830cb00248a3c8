// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Network namespaces.
use crate::error::BpfError;
use nix::sched::{CloneFlags, setns};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;

/// The number of a process's network namespace.
///
/// # Errors
/// There is no such process, or it is another user's.
pub fn namespace_of(pid: u32) -> Result<u64, BpfError> {
    let path = path_of(pid);
    let found = fs::metadata(&path).map_err(|e| BpfError::file("look at", path, e))?;
    Ok(found.ino())
}

/// Calls `act` in the network namespace that these processes share, in a separate thread. Some of
/// them may have ended.
///
/// # Errors
/// The namespace cannot be entered, for example because all of them have ended.
pub fn within<T: Send>(pids: &[u32], act: impl FnOnce() -> T + Send) -> Result<T, BpfError> {
    let open = |pid: &u32| {
        let path = path_of(*pid);
        let file = File::open(&path).map_err(|e| BpfError::file("open", &path, e))?;
        Ok((file, path))
    };
    let mut pids = pids.iter();
    let none = || {
        BpfError::file(
            "enter the network namespace",
            "",
            ErrorKind::NotFound.into(),
        )
    };
    let first = pids.next().ok_or_else(none).and_then(open);
    let (file, path) = first.or_else(|why| pids.find_map(|pid| open(pid).ok()).ok_or(why))?;
    let number = file.metadata().map(|found| found.ino()).ok();
    if number == namespace_of(std::process::id()).ok() {
        return Ok(act());
    }
    std::thread::scope(|threads| {
        let inside = || {
            // This thread alone.
            setns(file, CloneFlags::CLONE_NEWNET)
                .map_err(|e| BpfError::file("enter the network namespace", path, e.into()))?;
            Ok(act())
        };
        let ended = threads.spawn(inside).join();
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn path_of(pid: u32) -> String {
    format!("/proc/{pid}/ns/net")
}
