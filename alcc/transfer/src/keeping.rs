// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Received files: their place while they arrive, and their final name.
use crate::clock::new_session;
use crate::receiving::Output;
use alcc_sys::Folder;
use alcc_units::reason;
use nix::sys::statvfs::fstatvfs;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Free space of the file system that is left to others: a twentieth of its size, at most this many
/// bytes.
const MAX_RESERVE: u64 = 1 << 30;
/// Interval of checking the free space, in bytes of a file.
const LOOK_EVERY: u64 = 16 << 20;

/// The disk space of all files that a receiver keeps, partial ones included.
#[derive(Debug)]
pub struct Disk {
    most: u64,
    kept: AtomicU64,
    /// The first number that may be free for a name.
    next: AtomicU32,
}

impl Disk {
    /// A limit of `most` bytes for all files together.
    pub fn new(most: u64) -> Self {
        Self {
            most,
            kept: AtomicU64::new(0),
            next: AtomicU32::new(1),
        }
    }

    fn take(&self, bytes: u64) -> Result<(), String> {
        let kept = self.kept.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if kept > self.most {
            self.give_back(bytes);
            return Err(format!(
                "store the data: {} bytes are stored already: raise --max-total",
                kept - bytes
            ));
        }
        Ok(())
    }

    fn give_back(&self, bytes: u64) {
        self.kept.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// The free space of the file system of `file`, a file or folder, beyond the reserve that is left to
/// others, bytes.
///
/// # Errors
/// There is none.
pub fn room(file: &File) -> Result<u64, String> {
    // If this fails, writing will report the error.
    let Ok(about) = fstatvfs(file) else {
        return Ok(LOOK_EVERY);
    };
    #[allow(clippy::unnecessary_cast, reason = "narrower on some platforms")]
    let bytes = |blocks| (blocks as u64).saturating_mul(about.fragment_size() as u64);
    let reserve = (bytes(about.blocks()) / 20).min(MAX_RESERVE);
    let room = bytes(about.blocks_available()).saturating_sub(reserve);
    if room == 0 {
        return Err(format!(
            "store the data: only the reserve of {} MB is left: free some space, or choose another place",
            reserve / 1_000_000
        ));
    }
    Ok(room)
}

/// The temporary name of a file. Its folder is held open, so that a user who may rename the folder,
/// or put a link in its place, cannot redirect the file.
struct Part {
    folder: Folder,
    name: OsString,
}

impl Part {
    /// The path of this name in the open folder.
    fn beside(&self, name: &OsStr) -> PathBuf {
        self.folder.path().0.join(name)
    }

    fn create(&self) -> io::Result<File> {
        let mut new = OpenOptions::new();
        new.write(true)
            .create_new(true)
            .open(self.beside(&self.name))
    }

    fn remove(&self) {
        let _ = fs::remove_file(self.beside(&self.name));
    }
}

/// A file that is being received. It gets its name only when it is complete.
pub(crate) struct PartialFile {
    file: File,
    part: Option<Box<Part>>,
    disk: Arc<Disk>,
    bytes: u64,
    look_at: u64,
}

impl PartialFile {
    pub(crate) fn begin(out: &Output, disk: &Arc<Disk>) -> Result<Option<Self>, String> {
        // In a folder that others may write into, they cannot guess the name and take it first.
        let random = new_session().map_err(|why| why.to_string())?;
        let unique = format!("{:032x}", u128::from_ne_bytes(random));
        let begun = |file, part| Self {
            file,
            part,
            disk: Arc::clone(disk),
            bytes: 0,
            look_at: 0,
        };
        let named = match out {
            Output::Discard => return Ok(None),
            Output::Stdout => {
                use std::os::fd::AsFd;
                let file = io::stdout().as_fd().try_clone_to_owned();
                let file = file.map_err(|e| format!("write to standard output: {e}"))?;
                return Ok(Some(begun(file.into(), None)));
            }
            Output::File(path) => path.clone(),
            Output::Folder(folder) => folder.join(".received"),
        };
        let created = Folder::of(&named).and_then(|folder| {
            let mut name = folder.path().1.to_owned();
            name.push(format!(".part-{unique}"));
            let part = Part { folder, name };
            Ok((part.create()?, part))
        });
        let (file, part) = created
            .map_err(|e| format!("create {}.part-{unique}: {}", named.display(), reason(&e)))?;
        Ok(Some(begun(file, Some(Box::new(part)))))
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), String> {
        if self.part.is_some() {
            if self.bytes >= self.look_at {
                self.look_at = self.bytes + room(&self.file)?.min(LOOK_EVERY);
            }
            self.disk.take(bytes.len() as u64)?;
            self.bytes += bytes.len() as u64;
        }
        self.file
            .write_all(bytes)
            .map_err(|e| format!("store the data: {e}"))
    }

    /// Gives the file its final name. Returns that name.
    pub(crate) fn finish(
        mut self,
        out: &Output,
        overwrite: bool,
    ) -> Result<Option<PathBuf>, String> {
        let Some(part) = self.part.take() else {
            return Ok(None);
        };
        let done = match out {
            Output::File(path) => {
                let own = part.folder.path().1;
                name(&part, own, overwrite).map(|()| path.clone())
            }
            Output::Folder(folder) => {
                free_name(&part, &self.disk.next).map(|name| folder.join(name))
            }
            Output::Discard | Output::Stdout => return Ok(None),
        };
        let done = done.map_err(|e| {
            part.remove();
            self.disk.give_back(self.bytes);
            let remedy = match e.kind() {
                io::ErrorKind::AlreadyExists => ": --overwrite replaces one that is there",
                _ => "",
            };
            format!("rename the finished file: {e}{remedy}")
        });
        done.map(Some)
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        if let Some(part) = &self.part {
            part.remove();
            self.disk.give_back(self.bytes);
        }
    }
}

/// Maximum number of names that are tried.
const MAX_NAMES: u32 = 1_000_000;

fn free_name(part: &Part, next: &AtomicU32) -> io::Result<String> {
    // Lower numbers are taken.
    let next_free = first_free(next.load(Ordering::Relaxed), |number| {
        fs::symlink_metadata(part.beside(format!("received-{number}").as_ref())).is_ok()
    });
    for number in next_free..MAX_NAMES {
        let free = format!("received-{number}");
        match name(part, free.as_ref(), false) {
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {}
            other => {
                next.fetch_max(number + 1, Ordering::Relaxed);
                return other.map(|()| free);
            }
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// The number `from`, or a larger one after one that is taken. With thousands of files of an earlier receiver, trying
/// all of them would take longer than receiving one.
fn first_free(from: u32, is_taken: impl Fn(u32) -> bool) -> u32 {
    if !is_taken(from) {
        return from;
    }
    let (mut taken, mut free) = (from, from + 1);
    while free < MAX_NAMES && is_taken(free) {
        (taken, free) = (free, free * 2);
    }
    while free - taken > 1 {
        let middle = taken.midpoint(free);
        if is_taken(middle) {
            taken = middle;
        } else {
            free = middle;
        }
    }
    free
}

fn name(part: &Part, name: &OsStr, overwrite: bool) -> io::Result<()> {
    let (from, to) = (part.beside(&part.name), part.beside(name));
    if overwrite {
        // A device or a pipe would be replaced, so it is refused.
        if fs::metadata(&to).is_ok_and(|there| !there.is_file()) {
            return Err(io::Error::other("it is not a regular file"));
        }
        return fs::rename(from, to);
    }
    // A hard link cannot replace an existing file, a rename can.
    match fs::hard_link(&from, &to) {
        Ok(()) => fs::remove_file(from),
        Err(why) if why.kind() == io::ErrorKind::AlreadyExists => Err(why),
        Err(_) => {
            // The file system has no hard links.
            OpenOptions::new().write(true).create_new(true).open(&to)?;
            fs::rename(from, to)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_free_number_is_found_in_few_steps() {
        for many in [0, 1, 2, 3, 1000, 123_456] {
            let steps = std::cell::Cell::new(0);
            let found = first_free(1, |number| {
                steps.set(steps.get() + 1);
                number <= many
            });
            assert_eq!(found, many + 1);
            assert!(steps.get() <= 40, "{many}: {}", steps.get());
        }
        // With holes it need not be the lowest.
        let found = first_free(5, |number| number % 3 != 0);
        assert!(found > 5 && found % 3 == 0, "{found}");
    }

    #[test]
    fn only_a_regular_file_is_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        for name in ["part", "file"] {
            fs::write(at(name), name).unwrap();
        }
        let part = Part {
            folder: Folder::of(&at("file")).unwrap(),
            name: "part".into(),
        };
        name(&part, "socket".as_ref(), true).unwrap_err();
        assert!(!fs::metadata(at("socket")).unwrap().is_file());
        name(&part, "file".as_ref(), true).unwrap();
        assert_eq!(fs::read(at("file")).unwrap(), b"part");
    }

    /// The owner of the folder puts a link to another one in its place while a file comes.
    #[test]
    fn a_file_goes_into_the_folder_in_which_it_was_begun() {
        for overwrite in [false, true] {
            let above = tempfile::tempdir().unwrap();
            let at = |name: &str| above.path().join(name);
            let disk = Arc::new(Disk::new(1000));
            for name in ["theirs", "roots"] {
                fs::create_dir(at(name)).unwrap();
            }
            let outs = [
                Output::Folder(at("theirs")),
                Output::File(at("theirs/named")),
                Output::File(at("theirs/given-up")),
            ];
            let begin = |out| PartialFile::begin(out, &disk).unwrap().unwrap();
            let mut begun: Vec<_> = outs.iter().map(begin).collect();
            fs::rename(at("theirs"), at("moved")).unwrap();
            symlink("roots", at("theirs")).unwrap();
            drop(begun.pop());
            for (mut file, out) in begun.into_iter().zip(&outs) {
                file.write(b"from the network").unwrap();
                file.finish(out, overwrite).unwrap();
            }
            let names = |folder: &str| {
                let entries = fs::read_dir(at(folder)).unwrap().flatten();
                let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
                names.sort();
                names
            };
            assert!(names("roots").is_empty(), "{:?}", names("roots"));
            assert_eq!(names("moved"), ["named", "received-1"]);
        }
    }
}
