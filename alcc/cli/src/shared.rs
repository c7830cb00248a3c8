// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Search for runs through the processes that share their memory, wherever its file is. It may belong to
//! another user, to a unit with a private /tmp, or to a container, or its `alcc run` was killed.
//!
//! The kernel says which file a process has mapped, by device and inode; names are not trusted.
//! Readers check the contents, and nothing here waits for the owner of a file. A file counts if its
//! owner is root, the current user, or the user of the process that has it mapped.
use crate::running::Running;
use alcc_sys::{Inode, path_of};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A shared mapping of a file `.../ID/report`.
struct Mapping {
    /// As the kernel writes it, `START-END`.
    range: String,
    /// Inodes of different devices may have the same number: any user can mount a file system.
    file: Inode,
    /// In the process's own view.
    path: PathBuf,
    /// The process id of `alcc`, in its own namespace.
    id: u32,
    /// The process id of a program with the C library.
    library: bool,
}

fn mapping(pid: u32) -> Option<Mapping> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    mappings(&maps).next()
}

fn mappings(maps: &str) -> impl Iterator<Item = Mapping> {
    maps.lines().filter_map(|line| {
        // START-END rights offset device inode path
        let mut words = line.split_whitespace();
        let range = words.next()?.to_owned();
        let rights = words.next()?;
        let file = Inode::parse(words.nth(1)?, words.next()?)?;
        let path = line.get(line.find('/')?..)?.trim_end_matches(" (deleted)");
        let path = PathBuf::from(path);
        // A file that the process may only read is not one of its own.
        if !rights.starts_with("rw-s") || path.file_name()? != "report" {
            return None;
        }
        let mut folder = path.parent()?.file_name()?.to_str()?.split('.');
        let id = folder.next()?.parse().ok()?;
        let library = folder.next() == Some("lib");
        Some(Mapping {
            range,
            file,
            path,
            id,
            library,
        })
    })
}

fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// A program called alcc, as its first letters say: not those that it runs.
fn is_alcc(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.starts_with("alcc"))
}

/// The process's id in its own namespace.
fn inner_id(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let ids = status
        .lines()
        .find_map(|line| line.strip_prefix("NSpid:"))?;
    ids.split_whitespace().last()?.parse().ok()
}

/// The processes that have this file mapped, but for programs called alcc.
pub(crate) fn users(report: &Path) -> Vec<u32> {
    let mut options = OpenOptions::new();
    options.custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK);
    let file = options.read(true).open(report);
    let mapped = file.and_then(|file| Inode::mapped(&file));
    mapped.map_or_else(|_| Vec::new(), |file| sharing(&file))
}

fn sharing(file: &Inode) -> Vec<u32> {
    processes()
        .filter(|pid| !is_alcc(*pid))
        .filter(|pid| mapping(*pid).is_some_and(|m| m.file == *file))
        .collect()
}

impl Mapping {
    /// Places of its file: by the mapping where that is permitted, otherwise by its name in
    /// the view of the process. Memory without a name is behind one of its descriptors.
    fn places(&self, pid: u32) -> impl Iterator<Item = PathBuf> {
        let direct = PathBuf::from(format!("/proc/{pid}/map_files/{}", self.range));
        let path = self.path.strip_prefix("/").unwrap_or(&self.path);
        let named = Path::new(&format!("/proc/{pid}/root")).join(path);
        let memory = path.to_str().is_some_and(|path| path.starts_with("memfd:"));
        let fds = memory.then(|| fs::read_dir(format!("/proc/{pid}/fd")));
        let fds = fds.into_iter().flatten().flatten().flatten();
        let fds: Vec<_> = fds
            .map(|fd| fd.path())
            .filter(|fd| self.is_of(fd))
            .collect();
        [direct, named].into_iter().chain(fds)
    }

    /// True if a descriptor leads to this file, by its name.
    fn is_of(&self, fd: &Path) -> bool {
        let link = fs::read_link(fd).unwrap_or_default();
        link.to_string_lossy().trim_end_matches(" (deleted)") == self.path.to_string_lossy()
    }
}

/// Opens the file without blocking, because its owner may have a lease on it, or have put a FIFO in its
/// place. Its kind is checked before it is opened, because opening a device may have an effect.
fn open(pid: u32, mapping: &Mapping) -> Option<File> {
    let found = mapping.places(pid).find_map(|place| {
        let mut look = OpenOptions::new();
        // Only what the kernel itself links to is followed.
        let named = place.starts_with(format!("/proc/{pid}/root"));
        let follow = if named { nix::libc::O_NOFOLLOW } else { 0 };
        look.read(true).custom_flags(nix::libc::O_PATH | follow);
        look.open(place).ok()
    })?;
    let about = found.metadata().ok()?;
    let process = fs::metadata(format!("/proc/{pid}")).ok()?.uid();
    let us = nix::unistd::geteuid().as_raw();
    let trusted = [0, us, process].contains(&about.uid());
    if !about.is_file() || !trusted || about.ino() != mapping.file.number {
        return None;
    }
    let mut options = OpenOptions::new();
    options.custom_flags(nix::libc::O_NONBLOCK);
    let file = options.read(true).write(true).open(path_of(&found)).ok()?;
    (Inode::mapped(&file).ok()? == mapping.file).then_some(file)
}

/// The run of a process that is `alcc run` or `alcc proxy` itself, or under one, or has the C
/// library.
pub(crate) fn of(pid: u32) -> Option<Running> {
    let mapping = mapping(pid)?;
    let file = open(pid, &mapping)?;
    let ours = |pid| mapping.library || is_alcc(pid);
    let owner = |pid: &u32| ours(*pid) && inner_id(*pid) == Some(mapping.id);
    let shares = |pid: &u32| self::mapping(*pid).is_some_and(|m| m.file == mapping.file);
    let alcc = std::iter::once(pid).chain(processes()).filter(owner);
    match alcc.into_iter().find(shares) {
        Some(alcc) => Running::of(alcc, Vec::new(), file),
        None => Running::of(mapping.id, sharing(&mapping.file), file).filter(Running::is_killed),
    }
}

/// All accessible `alcc run` and `alcc proxy`.
pub(crate) fn running() -> impl Iterator<Item = Running> {
    let alcc = processes().filter(|pid| is_alcc(*pid) && *pid != std::process::id());
    // Other commands only read, maybe from several runs.
    let own = alcc.filter(|pid| mapping(*pid).is_some_and(|m| inner_id(*pid) == Some(m.id)));
    own.filter_map(of)
}

/// All accessible programs with the C library: every process is looked at.
pub(crate) fn libraries() -> impl Iterator<Item = Running> {
    let is_one = |m: &Mapping, pid| m.library && inner_id(pid) == Some(m.id);
    processes()
        .filter(move |pid| mapping(*pid).is_some_and(|m| is_one(&m, *pid)))
        .filter_map(of)
}

/// Runs whose `alcc run` was killed: every process is looked at.
pub(crate) fn left_behind() -> impl Iterator<Item = Running> {
    processes()
        .filter(|pid| !is_alcc(*pid))
        .filter_map(of)
        .filter(Running::is_killed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alcc_observe::Segment;

    #[test]
    #[allow(clippy::print_stdout, reason = "says that it was skipped")]
    fn a_file_that_a_process_shares_is_opened_unless_it_is_a_strangers() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("4711");
        fs::create_dir(&folder).unwrap();
        let path = folder.join("report");
        let segment = Segment::create(&path).unwrap();
        let pid = std::process::id();
        // Other tests of this process may have mappings too.
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let ours = mappings(&maps).find(|m| m.path == path).expect("mapped");
        assert_eq!(ours.id, 4711);
        assert!(open(pid, &ours).is_some());
        if nix::unistd::geteuid().is_root() {
            std::os::unix::fs::chown(&path, Some(1234), None).unwrap();
            assert!(open(pid, &ours).is_none());
        } else {
            println!("skipped: needs root to give a file to somebody else");
        }
        drop(segment);
        // Another file of that name is not the one that is mapped.
        if !nix::unistd::geteuid().is_root() {
            fs::remove_file(&path).unwrap();
            drop(Segment::create(&path).unwrap());
            assert!(open(pid, &ours).is_none());
        }
    }

    #[test]
    fn only_shared_mappings_of_a_report_count() {
        let maps = "7f00-7f01 rw-s 00000000 fe:01 12345                      /run/alcc/77.2/report (deleted)\n\
                    7f02-7f03 rw-p 00000000 fe:01 12346                      /run/alcc/78/report\n\
                    7f04-7f05 rw-s 00000000 fe:01 12347                      /run/alcc/report\n\
                    7f06-7f07 rw-s 00000000 00:01 12348                      /dev/zero (deleted)\n\
                    7ffd-7ffe rw-p 00000000 00:00 0                          [stack]\n";
        let maps = &maps.replace(
            "/78/report\n",
            "/78/report\n7f08-7f09 r--s 00000000 fe:01 12349 /x/79/report\n",
        );
        let found: Vec<_> = mappings(maps).map(|m| (m.id, m.file, m.range)).collect();
        let file = Inode::parse("fe:01", "12345").unwrap();
        assert_eq!(found, [(77, file, "7f00-7f01".to_owned())]);
    }
}
