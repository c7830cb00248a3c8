// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Users without CAP_NET_ADMIN: which controls the kernel lets them select.
//!
//! The kernel has one flag for each control (`TCP_CONG_NON_RESTRICTED`), which the registration sets
//! for all controls but [`WINDOW`], and one list of the controls that have it, which root may write.
use crate::control::is_loaded;
use crate::error::BpfError;
use crate::{Control, RESIDENT, WINDOW, pins};
use nix::fcntl::FlockArg;

const LIST: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";

/// Decides whether every user may select the loaded [`RESIDENT`] controls, as after their registration,
/// or only processes with CAP_NET_ADMIN.
///
/// # Errors
/// The process may not write the kernel's list, or not in this network namespace.
pub fn allow_users(may: bool) -> Result<(), BpfError> {
    let _alone = pins::lock(crate::control::LOCK, FlockArg::LockExclusive)?;
    allow_residents(may)
}

/// The same, for a caller that has the lock.
pub(crate) fn allow_residents(may: bool) -> Result<(), BpfError> {
    set(&residents(), may)
}

/// True if [`RESIDENT`] controls are loaded, and no user may select any of them. Other network namespaces than the
/// machine's have no list.
pub(crate) fn are_for_root() -> bool {
    let loaded = residents();
    std::fs::exists(LIST).is_ok_and(|there| there)
        && !loaded.is_empty()
        && !loaded.iter().any(|control| is_for_users(control))
}

fn residents() -> Vec<&'static Control> {
    let all = RESIDENT.iter().map(|r| &r.control);
    all.filter(|c| is_loaded(c)).collect()
}

/// True if every user may select this control.
pub fn is_for_users(control: &Control) -> bool {
    let list = std::fs::read_to_string(LIST).unwrap_or_default();
    list.split_whitespace().any(|name| name == control.name)
}

/// Lets every user select [`WINDOW`], or only processes with CAP_NET_ADMIN. The kernel cannot tell the
/// members of a group: the rights of the maps decide who can set a window.
pub(crate) fn allow_window(may: bool) -> Result<(), BpfError> {
    set(&[&WINDOW], may)
}

fn set(controls: &[&Control], may: bool) -> Result<(), BpfError> {
    let before = std::fs::read_to_string(LIST).map_err(|e| BpfError::file("read", LIST, e))?;
    let mut names: Vec<_> = before.split_whitespace().collect();
    for control in controls {
        match names.iter().position(|name| *name == control.name) {
            Some(at) if !may => drop(names.remove(at)),
            None if may => names.push(control.name),
            _ => {}
        }
    }
    if names.len() == before.split_whitespace().count() {
        return Ok(());
    }
    std::fs::write(LIST, names.join(" ")).map_err(|e| BpfError::List {
        list: LIST,
        error: e,
    })
}
