// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where `alcc top` and `ctl` find a segment: a folder in `$XDG_RUNTIME_DIR/alcc` or
//! `/tmp/alcc-UID`.
//!
//! The folder has the process id as its name and holds the segment and a lock. Who runs holds the
//! lock; a folder whose lock is free was left behind.
use crate::segment::Segment;
use std::ffi::CString;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// How a folder's name goes on after the process id if the C library made it.
const LIBRARY: &str = "lib";

/// The entry of this process; removed when dropped.
pub struct Entry {
    folder: PathBuf,
    _lock: File,
}

fn user() -> u32 {
    // SAFETY: no arguments.
    unsafe { libc::geteuid() }
}

/// Where entries may be, ours first.
pub fn run_directories() -> Vec<PathBuf> {
    let session = alcc_sys::variable("XDG_RUNTIME_DIR")
        .filter(|dir| !dir.is_empty())
        .map(|dir| Path::new(&dir).join("alcc"));
    session
        .into_iter()
        .chain([PathBuf::from(format!("/tmp/alcc-{}", user()))])
        .collect()
}

/// The folder, made if it is not there. It must be ours alone: /tmp is everybody's.
fn base(place: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(place) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
        _ => {}
    }
    let found = fs::symlink_metadata(place)?;
    if found.is_dir() && found.uid() == user() && found.mode() & 0o22 == 0 {
        Ok(())
    } else {
        Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "it is not a folder of this user alone",
        ))
    }
}

/// The lock of an entry's folder, free again when the file is closed.
///
/// # Errors
/// If the file cannot be opened, or if another process holds the lock.
pub fn lock(folder: &Path) -> io::Result<File> {
    let file = File::create(folder.join("lock"))?;
    // SAFETY: a descriptor and a number.
    match unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } {
        0 => Ok(file),
        _ => Err(io::Error::last_os_error()),
    }
}

fn temporary(place: &Path) -> io::Result<PathBuf> {
    let template = place.join(format!(".{}-XXXXXX", std::process::id()));
    let mut name = CString::new(template.as_os_str().as_bytes())?.into_bytes_with_nul();
    // SAFETY: a text that ends with a zero byte, and is changed in place.
    if unsafe { libc::mkdtemp(name.as_mut_ptr().cast()) }.is_null() {
        return Err(io::Error::last_os_error());
    }
    name.pop();
    Ok(PathBuf::from(std::ffi::OsString::from_vec(name)))
}

impl Entry {
    /// An entry for this process, and its segment. `kind` and `what` are for people who look.
    ///
    /// # Errors
    /// Why no place will do, in one line.
    pub fn new(kind: &str, what: &str) -> Result<(Self, Segment), String> {
        Self::in_one_of(&std::process::id().to_string(), kind, what)
    }

    /// The same for a program with the C library. What other such programs left behind is removed
    /// first: they may come and go without anybody who looks.
    ///
    /// # Errors
    /// As there.
    pub fn of_library(what: &str) -> Result<(Self, Segment), String> {
        for place in run_directories() {
            for entry in fs::read_dir(place).into_iter().flatten().flatten() {
                let name = entry.file_name();
                let suffix = name.to_str().and_then(|name| name.split('.').nth(1));
                if suffix == Some(LIBRARY) && lock(&entry.path()).is_ok() {
                    drop(fs::remove_dir_all(entry.path()));
                }
            }
        }
        let name = format!("{}.{LIBRARY}", std::process::id());
        Self::in_one_of(&name, "library", what)
    }

    fn in_one_of(name: &str, kind: &str, what: &str) -> Result<(Self, Segment), String> {
        let mut why = String::new();
        for place in run_directories() {
            match Self::at(&place, name, kind, what) {
                Ok(made) => return Ok(made),
                Err(e) => {
                    let more = format!("{}: {e}", place.display());
                    why = if why.is_empty() {
                        more
                    } else {
                        format!("{why}; {more}")
                    };
                }
            }
        }
        Err(format!(
            "make the shared memory in {why}; set XDG_RUNTIME_DIR to a folder of your own"
        ))
    }

    /// In this place.
    ///
    /// # Errors
    /// If the folder or a file in it cannot be made.
    pub fn at(place: &Path, name: &str, kind: &str, what: &str) -> io::Result<(Self, Segment)> {
        base(place)?;
        // Under another name until it is locked: whoever looks would take it for one that was left
        // behind.
        let hidden = temporary(place)?;
        // Two process-id namespaces may have the same number.
        let names = (1..100).map(|n| place.join(format!("{name}.{n}")));
        let made = std::iter::once(place.join(name))
            .chain(names)
            .find(|folder| !folder.exists())
            .ok_or_else(|| io::ErrorKind::AlreadyExists.into())
            .and_then(|folder| {
                let lock = lock(&hidden)?;
                let segment = Segment::create(&hidden.join("report"))?;
                segment.describe(&format!("{kind}\n{what}"));
                fs::rename(&hidden, &folder)?;
                let entry = Self {
                    folder,
                    _lock: lock,
                };
                Ok((entry, segment))
            });
        if made.is_err() {
            drop(fs::remove_dir_all(&hidden));
        }
        made
    }

    /// The segment's file.
    pub fn file(&self) -> PathBuf {
        self.folder.join("report")
    }

    /// Removes it, so that nobody finds it any more.
    pub fn remove(&self) {
        drop(fs::remove_dir_all(&self.folder));
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.remove();
    }
}
