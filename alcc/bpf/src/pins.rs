// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The files that keep programs, maps and links alive after their loader has ended.
//!
//! Only root can change their folder: each part of its path is checked ([`alcc_sys::create_owned`]), and
//! the file system is mounted on the checked descriptor. From then on the path is as safe.
use crate::{BpfError, PINS};
use alcc_sys::{Sticky, create_owned, open_owned, path_of};
use libbpf_rs::Link;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::statfs::{BPF_FS_MAGIC, statfs};
use std::fs::{self, File, Permissions};
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

/// Folder of the pins of versions before 0.2. With common units its parent belongs to a service.
const OLD: &str = "/run/alcc/bpf";
/// Folder of this crate's locks: a BPF file system cannot hold other files.
const LOCKS: &str = "/run";

/// The path of a pin.
pub(crate) fn pin(name: &str) -> PathBuf {
    Path::new(PINS).join(name)
}

/// True if a program, a map or a link is pinned at this path. No other file counts.
pub(crate) fn is_pin(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|about| about.is_file()) && is_bpf(path)
}

/// True if a BPF file system is visible there. A list of mounts would include hidden ones.
fn is_bpf(path: &Path) -> bool {
    statfs(path).is_ok_and(|system| system.filesystem_type() == BPF_FS_MAGIC)
}

/// True if a BPF file system is mounted on the folder of the pins.
pub(crate) fn is_mounted() -> bool {
    open_owned(Path::new(PINS), Sticky::Refused).is_ok_and(|folder| is_bpf(&path_of(&folder)))
}

/// Creates the folder, and mounts a BPF file system on it unless there is one.
pub(crate) fn prepare() -> Result<(), BpfError> {
    let dir = Path::new(PINS);
    let folder =
        create_owned(dir, 0o755, Sticky::Refused).map_err(|e| refused("create", dir, e))?;
    let at = path_of(&folder);
    if is_bpf(&at) {
        return Ok(());
    }
    mount(
        Some("bpf"),
        &at,
        Some("bpf"),
        MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC,
        Some("mode=0755"),
    )
    .map_err(|e| match e {
        Errno::EPERM => BpfError::Forbidden {
            attempt: format!("mount a BPF file system on {PINS}"),
        },
        e => BpfError::file("mount a BPF file system on", dir, e.into()),
    })
}

/// Error if the folder belongs to another user or cannot be created.
fn refused(attempt: &'static str, dir: &Path, error: std::io::Error) -> BpfError {
    match error.raw_os_error() {
        None if error.kind() == ErrorKind::PermissionDenied => BpfError::NotOwn {
            path: dir.to_path_buf(),
            why: error.to_string(),
        },
        _ => BpfError::file(attempt, dir, error),
    }
}

/// Lock for one load or unload at a time, and for one trial of a selection, until it is dropped.
pub(crate) fn lock(name: &str, how: FlockArg) -> Result<Flock<File>, BpfError> {
    let path = Path::new(LOCKS).join(format!("alcc-{name}.lock"));
    let below = Path::new(LOCKS);
    let folder = open_owned(below, Sticky::Refused).map_err(|e| refused("open", below, e))?;
    let file = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(nix::libc::O_NOFOLLOW)
        .open(path_of(&folder).join(format!("alcc-{name}.lock")))
        .map_err(|e| BpfError::file("create", &path, e))?;
    Flock::lock(file, how).map_err(|(_, e)| match e {
        Errno::EWOULDBLOCK => BpfError::Busy,
        e => BpfError::file("lock", &path, e.into()),
    })
}

/// Restricts a pin to root and a group.
pub(crate) fn permit(name: &str, mode: u32, group: Option<u32>) -> Result<(), BpfError> {
    let path = pin(name);
    // The group first, because the mode applies to it.
    chown(&path, None, Some(group.unwrap_or(0)))
        .and_then(|()| fs::set_permissions(&path, Permissions::from_mode(mode)))
        .map_err(|e| BpfError::file("set the rights of", path, e))
}

/// Ends a link at once, and removes its pin. The removal alone ends it slightly later, which is the
/// only way if the kernel cannot detach this kind of link (struct_ops before Linux 6.11).
pub(crate) fn end_link(path: &Path) -> Result<(), BpfError> {
    // Otherwise libbpf prints.
    libbpf_rs::set_print(None);
    if is_pin(path) {
        let _ = Link::open(path).and_then(|link| link.detach());
    }
    remove(path)
}

/// The names of the pins that begin with `prefix`, sorted.
pub(crate) fn names(prefix: &str) -> Vec<String> {
    names_in(Path::new(PINS), prefix)
}

pub(crate) fn names_in(folder: &Path, prefix: &str) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let pins = entries.flatten().filter(|entry| is_pin(&entry.path()));
    let mut names: Vec<_> = pins
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.starts_with(prefix))
        .collect();
    names.sort();
    names
}

/// Removes a pin. A missing pin is not an error.
pub(crate) fn remove(path: &Path) -> Result<(), BpfError> {
    match fs::remove_file(path) {
        // Only a BPF file system has pins.
        Err(e) if !matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Err(BpfError::file("remove", path, e))
        }
        _ => Ok(()),
    }
}

/// The folder of an older version, if root owns it and it has pins.
pub(crate) fn older() -> Option<Older> {
    let folder = open_owned(Path::new(OLD), Sticky::Refused).ok()?;
    let is_used =
        is_bpf(&path_of(&folder)) && fs::read_dir(path_of(&folder)).ok()?.next().is_some();
    is_used.then_some(Older(folder))
}

/// The folder of an older version.
pub(crate) struct Older(OwnedFd);

impl Older {
    pub(crate) const PATH: &str = OLD;

    pub(crate) fn folder(&self) -> PathBuf {
        path_of(&self.0)
    }

    /// Ends everything in it.
    pub(crate) fn end(self) -> Result<(), BpfError> {
        drop(self);
        umount2(OLD, MntFlags::MNT_DETACH | MntFlags::UMOUNT_NOFOLLOW)
            .map_err(|e| BpfError::file("unmount", OLD, e.into()))
    }
}
