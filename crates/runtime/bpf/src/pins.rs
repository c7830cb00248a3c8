// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The files that keep programs, maps and links alive after their loader has ended.
use crate::{BpfError, PINS};
use libbpf_rs::Link;
use nix::mount::{MsFlags, mount};
use nix::sys::statfs::{BPF_FS_MAGIC, statfs};
use std::fs::{DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// A pin, by its name.
pub(crate) fn pin(name: &str) -> PathBuf {
    Path::new(PINS).join(name)
}

/// Makes the folder, and mounts a BPF file system on it unless there is one.
pub(crate) fn prepare() -> Result<(), BpfError> {
    let dir = Path::new(PINS);
    DirBuilder::new()
        .recursive(true)
        .mode(0o755)
        .create(dir)
        .map_err(|e| BpfError::file("create", dir, e))?;
    if is_mounted()? {
        return Ok(());
    }
    mount(
        Some("bpf"),
        dir,
        Some("bpf"),
        MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC,
        Some("mode=0755"),
    )
    .map_err(|e| match e {
        nix::errno::Errno::EPERM => BpfError::Forbidden {
            attempt: format!("mount a BPF file system on {PINS}"),
        },
        e => BpfError::file("mount a BPF file system on", dir, e.into()),
    })
}

/// Who may use a pin.
pub(crate) fn permit(name: &str, mode: u32) -> Result<(), BpfError> {
    let path = pin(name);
    std::fs::set_permissions(&path, Permissions::from_mode(mode))
        .map_err(|e| BpfError::file("set the rights of", path, e))
}

/// Ends a link at once, and removes its pin. The removal alone ends it a moment later; that must
/// do where the kernel cannot end this kind of link otherwise (struct_ops before Linux 6.11).
pub(crate) fn end_link(name: &str) -> Result<(), BpfError> {
    // libbpf would print.
    libbpf_rs::set_print(None);
    let path = pin(name);
    if path.exists() {
        let _ = Link::open(&path).and_then(|link| link.detach());
    }
    remove(name)
}

/// Names of the pins that begin with `prefix`, in order.
pub(crate) fn names(prefix: &str) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(PINS) else {
        return Vec::new();
    };
    let mut names: Vec<_> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.starts_with(prefix))
        .collect();
    names.sort();
    names
}

/// Removes a pin; one that is not there is as good.
pub(crate) fn remove(name: &str) -> Result<(), BpfError> {
    let path = pin(name);
    match std::fs::remove_file(&path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(BpfError::file("remove", path, e))
        }
        _ => Ok(()),
    }
}

/// A BPF file system is what one sees in the folder. A list of mounts would name hidden ones, too.
fn is_mounted() -> Result<bool, BpfError> {
    let dir = Path::new(PINS);
    let system = statfs(dir).map_err(|e| BpfError::file("look at", dir, e.into()))?;
    Ok(system.filesystem_type() == BPF_FS_MAGIC)
}
