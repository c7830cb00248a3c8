// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Running `alcc run`, `alcc proxy` and programs with the C library, found by their entries
//! ([`alcc_observe::Entry`]).
//!
//! An entry whose lock is free was left behind. The next command removes it, unless processes still
//! share its memory. Then `alcc run` was killed, and its server continues under control. Entries in
//! other folders are found through the processes that share their memory: see `shared.rs`.
use crate::failure::Failure;
use crate::output::note;
use crate::running::{Running, exists};
use crate::shared;
use alcc_observe::{Entry, MAX_FILE_WAIT, Segment, lock, own_directories, run_directories};
use alcc_sys::within;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Selects a run: `--run` of every command.
#[derive(clap::Args, Default)]
pub(crate) struct Which {
    /// Only this run: process id of 'alcc run' or of a process under it
    ///
    /// Without it, 'top' shows all runs, and 'ctl off' and 'ctl on' act on all runs of this user. The
    /// other commands need it if there are several.
    #[arg(long, value_name = "PID", global = true)]
    run: Option<u32>,
}

/// Creates an entry for this process and its shared memory. `kind` and `what` are shown to users.
pub(crate) fn enter(kind: &str, what: &str) -> Result<(Entry, Segment), Failure> {
    let warn = |why: &str| note(format_args!("alcc: {why}"));
    // Removes stale entries first.
    Entry::new(kind, what, || drop(in_folders()), warn)
        .map_err(|e| Failure::failed(format!("create the shared memory: {e}")))
}

/// Describes a run as [`enter`] does, with its feedback and enforcement and the reason for them.
pub(crate) fn describe(segment: &Segment, kind: &str, what: &str, form: &(String, String)) {
    segment.describe(&format!("{kind}; {}; {}\n{what}", form.0, form.1));
}

/// Entries whose process runs or has left others behind. Removes unused ones.
fn live(place: &Path) -> Vec<Running> {
    let mut found = Vec::new();
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(id) = name
            .to_str()
            .and_then(|n| n.split('.').next()?.parse().ok())
        else {
            continue;
        };
        let report = entry.path().join("report");
        let remaining = match lock(&entry.path()) {
            // A child of the process may hold the lock, too.
            Err(_) if !exists(id) => shared::users(&report),
            Err(_) => Vec::new(),
            Ok(_) => match shared::users(&report) {
                none if none.is_empty() => {
                    drop(fs::remove_dir_all(entry.path()));
                    continue;
                }
                remaining => remaining,
            },
        };
        let mut options = fs::OpenOptions::new();
        options.custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK);
        let file = options.read(true).write(true).open(report);
        found.extend(file.ok().and_then(|file| Running::of(id, remaining, file)));
    }
    found.sort_by_key(|run| run.id);
    found
}

/// All runs of this user; for root, of all users.
pub(crate) fn all() -> Vec<Running> {
    let mut all = within(MAX_FILE_WAIT, in_folders).unwrap_or_default();
    // One whose memory has no name is in no folder either.
    if nix::unistd::geteuid().is_root() || all.is_empty() {
        add(&mut all, shared::running());
    }
    // It was killed, and its folder is not searched.
    if all.is_empty() {
        add(&mut all, shared::left_behind());
    }
    all
}

/// The same, with the programs of other users that use the C library: each process is looked at.
pub(crate) fn everywhere() -> Vec<Running> {
    let mut all = all();
    if nix::unistd::geteuid().is_root() {
        add(&mut all, shared::libraries());
        add(&mut all, shared::left_behind());
    }
    all
}

/// Adds the runs that are not known yet.
fn add(all: &mut Vec<Running>, more: impl IntoIterator<Item = Running>) {
    for run in more {
        if all.iter().all(|known| known.file != run.file) {
            all.push(run);
        }
    }
}

/// Runs in the folders that are searched.
fn in_folders() -> Vec<Running> {
    own_directories().flat_map(|place| live(&place)).collect()
}

impl Which {
    /// True if no run was named.
    pub(crate) fn is_all(&self) -> bool {
        self.run.is_none()
    }

    /// The selected runs: one, or all.
    pub(crate) fn some(&self) -> Result<Vec<Running>, Failure> {
        let all = all();
        let family: Vec<u32> = self.run.into_iter().flat_map(ancestors).collect();
        let known: Vec<_> = all.iter().map(|run| run.id.to_string()).collect();
        let Some(pid) = self.run else {
            return if all.is_empty() {
                Err(self.none())
            } else {
                Ok(all)
            };
        };
        let one = all.into_iter().find(|run| family.contains(&run.id));
        let one = one.or_else(|| family.iter().find_map(|pid| shared::of(*pid)));
        if one.is_none() && (known.is_empty() || maps(pid).is_err()) {
            return Err(self.none());
        }
        one.map(|run| vec![run]).ok_or_else(|| {
            Failure::failed(format!(
                "--run {pid}: that process is neither an 'alcc run' of this user nor under one; there are {}",
                known.join(", ")
            ))
        })
    }

    fn none(&self) -> Failure {
        let places: Vec<_> = run_directories()
            .iter()
            .map(|p| p.display().to_string())
            .collect();
        let is_root = nix::unistd::geteuid().is_root();
        let named = self.run.map(|pid| (pid, maps(pid)));
        Failure::failed(none_found(&places.join(" and "), is_root, named))
    }

    /// The selected run, or all of this user; only if this user has none, those of others. So a run
    /// that another user pretends to have changes nothing.
    pub(crate) fn own(&self) -> Result<Vec<Running>, Failure> {
        let mut some = self.some()?;
        let user = nix::unistd::geteuid().as_raw();
        if some.iter().any(|run| run.owner == user) {
            some.retain(|run| run.owner == user);
        }
        Ok(some)
    }

    /// The selected run: the only one, or the only one of this user.
    pub(crate) fn one(&self) -> Result<Running, Failure> {
        let mut some = self.some()?;
        let user = nix::unistd::geteuid().as_raw();
        if some.iter().filter(|run| run.owner == user).count() == 1 {
            some.retain(|run| run.owner == user);
        }
        match some.pop() {
            Some(run) if some.is_empty() => Ok(run),
            last => {
                let all = some.iter().chain(&last);
                let name = |run: &Running| {
                    let what: String = run.what.chars().take(40).collect();
                    format!("{} ({what})", run.title())
                };
                let list: Vec<_> = all.clone().take(5).map(name).collect();
                Err(Failure::usage(format!(
                    "{} are running: select one by --run: {}{}",
                    all.count(),
                    list.join(", "),
                    if list.len() < 5 { "" } else { ", ..." }
                )))
            }
        }
    }
}

/// Checks that this user can read the memory map of a process.
fn maps(pid: u32) -> Result<(), io::ErrorKind> {
    match File::open(format!("/proc/{pid}/maps")) {
        Ok(_) => Ok(()),
        Err(e) => Err(e.kind()),
    }
}

/// The reason why no run was found, with a hint. `named` is the process of --run.
fn none_found(
    places: &str,
    is_root: bool,
    named: Option<(u32, Result<(), io::ErrorKind>)>,
) -> String {
    let why = match named {
        Some((pid, Err(io::ErrorKind::NotFound))) => {
            format!("no process {pid} is visible to this user: check the number")
        }
        Some((pid, Err(_))) if is_root => {
            format!(
                "process {pid} does not show its memory, even to root: give --run a process of the server"
            )
        }
        Some((pid, Err(_))) => {
            format!(
                "process {pid} belongs to another user: run the command as root or as that user"
            )
        }
        Some((pid, Ok(()))) => format!(
            "this user has none (looked in {places}, and process {pid} shares no memory with one)"
        ),
        None if is_root => {
            format!(
                "no user has one (looked in {places}, too): start one, such as 'alcc run -- nginx'"
            )
        }
        None => format!(
            "this user has none (looked in {places}): root sees those of all users (sudo), and --run with a process of the server finds others"
        ),
    };
    format!("find a running 'alcc run': {why}")
}

/// A process, its parent, and so on.
fn ancestors(pid: u32) -> impl Iterator<Item = u32> {
    std::iter::successors(Some(pid), |pid| parent_of(*pid)).take(100)
}

/// The parent of a process; `None` if there is no such process.
pub(crate) fn parent_of(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may contain anything.
    let rest = stat.rsplit_once(')')?.1;
    rest.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_finds_nothing_learns_what_would_find_it() {
        let denied = Some((7, Err(io::ErrorKind::PermissionDenied)));
        for (is_root, named, part) in [
            (false, None, "root sees those of all users"),
            (true, None, "start one, such as 'alcc run -- nginx'"),
            (false, denied, "process 7 belongs to another user: run"),
            (
                false,
                Some((7, Err(io::ErrorKind::NotFound))),
                "no process 7",
            ),
            (true, Some((7, Ok(()))), "process 7 shares no memory"),
            (true, denied, "process 7 does not show its memory"),
        ] {
            let line = none_found("/tmp/alcc-1", is_root, named);
            assert!(line.contains(part), "{line}");
        }
        // Whose maps those are is not known to everybody.
        assert_eq!(maps(std::process::id()), Ok(()));
        assert_eq!(maps(999_999_999), Err(io::ErrorKind::NotFound));
    }

    #[test]
    fn an_entry_is_found_while_it_lives_and_what_is_left_behind_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("alcc");
        let (entry, ours) =
            Entry::at(&place, &std::process::id().to_string(), "run", "nginx -c x").unwrap();
        let stale = place.join("4000001");
        fs::create_dir(&stale).unwrap();
        File::create(stale.join("lock")).unwrap();
        drop(Segment::create(&stale.join("report")).unwrap());
        let found = live(&place);
        assert_eq!(found.len(), 1);
        assert_eq!(
            (found[0].id, found[0].what.as_str()),
            (std::process::id(), "nginx -c x")
        );
        assert!(!stale.exists());
        ours.count(&alcc_observe::Event::ProcessStarted);
        assert_eq!(found[0].segment.totals().processes, 1);
        drop(entry);
        assert!(live(&place).is_empty());
    }

    #[test]
    fn a_folder_of_others_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("open");
        fs::create_dir(&place).unwrap();
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        fs::set_permissions(&place, open).unwrap();
        assert!(Entry::at(&place, "1", "run", "x").is_err());
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(dir.path(), &link).unwrap();
        assert!(Entry::at(&link, "1", "run", "x").is_err());
    }

    #[test]
    fn a_process_has_ancestors() {
        let ours: Vec<_> = ancestors(std::process::id()).collect();
        assert!(ours.len() >= 2 && ours[1] == nix::unistd::getppid().as_raw().cast_unsigned());
    }
}
