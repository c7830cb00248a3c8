// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The entry of a process, by which `alcc top` and `ctl` find its segment: a folder in `$XDG_RUNTIME_DIR/alcc`, for
//! root in `/run/alcc`, or in `/tmp/alcc-UID`.
//!
//! The folder has the process id as its name and contains the segment and a lock. A running process holds the lock; a
//! folder whose lock is free is stale. If a folder cannot be used, because another user has one of that name, the disk
//! is full or the file system frozen, the segment is in memory without a name, so that nothing keeps a server from
//! starting.
use crate::segment::Segment;
use alcc_sys::{Sticky, create_owned, open_owned, path_of, within};
use alcc_units::Span;
use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Suffix of a folder's name, after the process id, if the C library made it.
const LIBRARY: &str = "lib";
/// Maximum time for which a program waits for a file system.
pub const MAX_FILE_WAIT: Span = Span::from_millis(500);

/// The entry of this process. Dropping it removes the folder.
pub struct Entry {
    /// Path at which processes of this user open the segment.
    file: Option<PathBuf>,
    folder: Option<Folder>,
}

struct Folder {
    path: PathBuf,
    _lock: File,
}

fn user() -> u32 {
    // SAFETY: no arguments.
    unsafe { libc::geteuid() }
}

/// The folders in which entries may be, ours first.
pub fn run_directories() -> Vec<PathBuf> {
    let user = user();
    let session = alcc_sys::variable("XDG_RUNTIME_DIR")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(format!("/run/user/{user}"))))
        .filter(|dir| !dir.as_os_str().is_empty());
    // A session's folder is removed when root logs out, while root's servers stay.
    let session = session.filter(|dir| user != 0 || !dir.starts_with("/run/user"));
    let system = (user == 0).then(|| PathBuf::from("/run/alcc"));
    let all = session
        .map(|dir| dir.join("alcc"))
        .into_iter()
        .chain(system);
    all.chain([PathBuf::from(format!("/tmp/alcc-{user}"))])
        .collect()
}

/// Those of [`run_directories`] that exist and belong to this user alone.
pub fn own_directories() -> impl Iterator<Item = PathBuf> {
    run_directories().into_iter().filter(|place| {
        let dir = open_owned(place, Sticky::Allowed);
        dir.is_ok_and(|dir| fs::metadata(path_of(&dir)).is_ok_and(|m| m.uid() == user()))
    })
}

/// Creates the folder if it does not exist. It must belong to us alone, because everybody can write in /tmp.
fn base(place: &Path) -> io::Result<()> {
    if !place.parent().is_some_and(Path::is_dir) {
        return Err(io::ErrorKind::NotFound.into());
    }
    let dir = create_owned(place, 0o700, Sticky::Allowed)?;
    if fs::metadata(path_of(&dir))?.uid() == user() {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::PermissionDenied,
        "it belongs to another user",
    ))
}

/// The lock of an entry's folder, which is released when the file is closed.
///
/// # Errors
/// The file cannot be opened, or another process holds the lock.
pub fn lock(folder: &Path) -> io::Result<File> {
    let mut options = File::options();
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let options = options.write(true).create(true).custom_flags(flags);
    let file = options.mode(0o600).open(folder.join("lock"))?;
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
    /// An entry for this process, and its segment. `kind` and `what` are shown to people. `first` is called before, if
    /// the file system responds. If no folder can be used, `warn` gets the reason, in one line.
    ///
    /// # Errors
    /// The memory is exhausted.
    pub fn new(
        kind: &str,
        what: &str,
        first: impl FnOnce() + Send + 'static,
        warn: impl Fn(&str),
    ) -> io::Result<(Self, Segment)> {
        Self::somewhere(&std::process::id().to_string(), kind, what, first, warn)
    }

    /// The same for a program that uses alcc's C library. Stale entries of other such programs are removed first, because
    /// perhaps nothing else will ever remove them.
    ///
    /// # Errors
    /// The errors of [`Entry::new`].
    pub fn of_library(what: &str, warn: impl Fn(&str)) -> io::Result<(Self, Segment)> {
        let tidy = || {
            for place in own_directories() {
                for entry in fs::read_dir(place).into_iter().flatten().flatten() {
                    let name = entry.file_name();
                    let suffix = name.to_str().and_then(|name| name.split('.').nth(1));
                    if suffix == Some(LIBRARY) && lock(&entry.path()).is_ok() {
                        drop(fs::remove_dir_all(entry.path()));
                    }
                }
            }
        };
        let name = format!("{}.{LIBRARY}", std::process::id());
        Self::somewhere(&name, "library", what, tidy, warn)
    }

    fn somewhere(
        name: &str,
        kind: &str,
        what: &str,
        first: impl FnOnce() + Send + 'static,
        warn: impl Fn(&str),
    ) -> io::Result<(Self, Segment)> {
        let [name, kind, what] = [name, kind, what].map(str::to_owned);
        let words = (name.clone(), kind.clone(), what.clone());
        let tried = within(MAX_FILE_WAIT, move || {
            first();
            let mut why = Vec::new();
            for place in run_directories() {
                match Self::at(&place, &words.0, &words.1, &words.2) {
                    Ok(made) => return Ok(made),
                    Err(e) => why.push(format!("{}: {e}", place.display())),
                }
            }
            Err(why.join("; "))
        });
        let why = match tried {
            Some(Ok(made)) => return Ok(made),
            Some(Err(why)) => why,
            None => "a folder: its file system does not answer".to_owned(),
        };
        // The same name as a folder would have.
        let (segment, file) = Segment::in_memory(&CString::new(format!("alcc/{name}/report"))?)?;
        let found = if file.is_some() {
            "it has no name, so 'alcc top' needs --run"
        } else {
            "only this process has it, so its connections are not shown and accept no commands"
        };
        warn(&format!(
            "create the shared memory in {why}: {found}; set XDG_RUNTIME_DIR to a folder of your own"
        ));
        segment.describe(&format!("{kind}\n{what}"));
        Ok((Self { file, folder: None }, segment))
    }

    /// An entry in this folder.
    ///
    /// # Errors
    /// The folder or a file in it cannot be created.
    pub fn at(place: &Path, name: &str, kind: &str, what: &str) -> io::Result<(Self, Segment)> {
        base(place)?;
        // Under another name until it is locked, because an unlocked one would count as stale.
        let hidden = temporary(place)?;
        // Processes of two process-id namespaces may have the same number.
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
                    file: Some(folder.join("report")),
                    folder: Some(Folder {
                        path: folder,
                        _lock: lock,
                    }),
                };
                Ok((entry, segment))
            });
        if made.is_err() {
            drop(fs::remove_dir_all(&hidden));
        }
        made
    }

    /// The segment's file; `None` if other processes cannot open it.
    pub fn file(&self) -> Option<PathBuf> {
        self.file.clone()
    }

    /// Removes the entry, so that it is not found any more.
    pub fn remove(&self) {
        if let Some(folder) = &self.folder {
            drop(fs::remove_dir_all(&folder.path));
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.remove();
    }
}
