// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Write permissions of files that root relies on.
use crate::output::note;
use alcc_sys::{Sticky, open_owned, path_of};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Warns root of a file that another user can change or replace. The file is used nevertheless, because
/// the administrator may intend it.
pub(crate) fn warn_of_writers(path: &Path) {
    if nix::unistd::geteuid().is_root()
        && let Some(who) = writers(path)
    {
        note(format_args!(
            "alcc: use {} as root: {who}: anyone who can write it controls what root runs; chown it to root, and chmod go-w",
            path.display()
        ));
    }
}

/// Opens a file that only root and this user can change or replace.
///
/// # Errors
/// `PermissionDenied` with the folder of its path that another user could replace. `Other` if the file is a
/// symbolic link, is not a regular file, belongs to another user, or may be written by one. Otherwise the
/// system's error.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let refused = |why: &str| {
        let why = format!("{} {why}: chown it to root, and chmod go-w", path.display());
        io::Error::other(why)
    };
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(refused("is not a file"));
    };
    let folder = open_owned(folder, Sticky::Allowed)?;
    let opened = File::options()
        .read(true)
        .custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK)
        .open(path_of(&folder).join(name));
    let file = opened.map_err(|e| match e.raw_os_error() {
        Some(nix::libc::ELOOP) => refused("is a symbolic link"),
        _ => e,
    })?;
    let about = file.metadata()?;
    if !about.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let own = nix::unistd::geteuid().as_raw();
    if about.uid() != 0 && about.uid() != own {
        return Err(refused(&format!("belongs to user {}", about.uid())));
    }
    if about.mode() & 0o022 != 0 {
        return Err(refused("may be written by other users"));
    }
    Ok(file)
}

/// Describes who other than root can write or replace the file. `None` if nobody can, or if the file cannot be
/// inspected.
fn writers(path: &Path) -> Option<String> {
    let path = path.canonicalize().ok()?;
    let about = fs::metadata(&path).ok()?;
    if about.uid() != 0 {
        return Some(format!("it belongs to user {}", about.uid()));
    }
    if about.mode() & 0o022 != 0 {
        return Some("it may be written by other users".to_owned());
    }
    let folder = open_owned(path.parent()?, Sticky::Allowed);
    folder.err().map(|why| why.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown};

    #[test]
    #[allow(clippy::print_stdout, reason = "says that it was skipped")]
    fn what_others_may_write_is_found() {
        if !nix::unistd::geteuid().is_root() {
            println!("skipped: needs root to give a file to somebody else");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("alcc.toml");
        fs::write(&file, "").unwrap();
        let mode = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        mode(&file, 0o644);
        assert_eq!(writers(&file), None);
        mode(&file, 0o664);
        assert!(writers(&file).unwrap().contains("written by other users"));
        mode(&file, 0o644);
        chown(&file, Some(4242), None).unwrap();
        assert!(writers(&file).unwrap().contains("user 4242"));
        chown(&file, Some(0), None).unwrap();
        mode(dir.path(), 0o777);
        assert!(writers(&file).unwrap().contains("written by other users"));
    }
}
