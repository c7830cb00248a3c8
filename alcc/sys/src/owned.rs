// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Directories that no other user can change or exchange.
//!
//! Root may use a path only if no other user can replace a part of it. Therefore each component is
//! opened separately, relative to the one before, without following symbolic links, and its owner
//! and mode are checked on the descriptor. All further operations use the descriptor.
use crate::files::{c_string, open_at, start, user};
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// The rule for directories with the sticky bit that everybody may write (`/tmp`). Others cannot
/// replace our files there, but can create one of that name first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sticky {
    /// Such a directory may be above the opened one.
    Allowed,
    /// Such a directory is refused.
    Refused,
}

/// Opens an absolute path as a directory (`O_PATH`). The last component must belong to this user
/// (or root), those above to this user, to root or to the owner of `/`; no other user may write any
/// of them.
///
/// # Errors
/// `NotFound` if it does not exist; `PermissionDenied` with the component and its owner if another
/// user could replace or fill it, or if it is a symbolic link or not a directory.
pub fn open_owned(path: &Path, sticky: Sticky) -> io::Result<OwnedFd> {
    walk(path, sticky, None)
}

/// The same, but missing components are created with this mode.
///
/// # Errors
/// The errors of [`open_owned`], and those of creating a directory.
pub fn create_owned(path: &Path, mode: u32, sticky: Sticky) -> io::Result<OwnedFd> {
    walk(path, sticky, Some(mode))
}

/// The path of a descriptor's file, for calls that take only a path (mount, chmod).
pub fn path_of(file: &impl AsRawFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

fn walk(path: &Path, sticky: Sticky, make: Option<u32>) -> io::Result<OwnedFd> {
    let mut parts = path.components().peekable();
    if parts.next() != Some(Component::RootDir) {
        return Err(refusal(path, "is not an absolute path"));
    }
    let mut dir = start(path)?;
    let mut at = PathBuf::from("/");
    let top = about(&dir)?.uid();
    while let Some(part) = parts.next() {
        let Component::Normal(name) = part else {
            return Err(refusal(path, "has '..' in it"));
        };
        at.push(name);
        let opened = match (open_part(&dir, name), make) {
            (Err(e), Some(mode)) if e.kind() == io::ErrorKind::NotFound => {
                make_part(&dir, name, mode)?;
                open_part(&dir, name)
            }
            (opened, _) => opened,
        };
        dir = opened.map_err(|e| match e.raw_os_error() {
            Some(libc::ELOOP | libc::ENOTDIR) => {
                refusal(&at, "is a symbolic link or not a directory")
            }
            _ => e,
        })?;
        let last = parts.peek().is_none();
        check(&at, &about(&dir)?, last, top, sticky)?;
    }
    Ok(dir)
}

/// Checks one component.
fn check(at: &Path, about: &Metadata, last: bool, top: u32, sticky: Sticky) -> io::Result<()> {
    let owner = about.uid();
    if owner != 0 && owner != user() && (last || owner != top) {
        return Err(refusal(at, &format!("belongs to user {owner}")));
    }
    let shared = about.mode() & 0o022 != 0;
    let kept = about.mode() & 0o1000 != 0 && !last && sticky == Sticky::Allowed;
    if shared && !kept {
        return Err(refusal(at, "may be written by other users"));
    }
    Ok(())
}

fn refusal(at: &Path, why: &str) -> io::Error {
    let why = format!("{} {why}", at.display());
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

fn open_part(dir: &OwnedFd, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = libc::O_PATH | libc::O_NOFOLLOW | libc::O_DIRECTORY;
    open_at(dir, name, flags).map(OwnedFd::from)
}

/// Creates a component. Another process may create it at the same moment.
pub(crate) fn make_part(dir: &OwnedFd, name: &OsStr, mode: u32) -> io::Result<()> {
    let name = c_string(name)?;
    // SAFETY: a descriptor, a text that ends with a zero byte, and a mode.
    match unsafe { libc::mkdirat(dir.as_raw_fd(), name.as_ptr(), mode) } {
        0 => Ok(()),
        _ => match io::Error::last_os_error() {
            e if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            e => Err(e),
        },
    }
}

pub(crate) fn about(dir: &OwnedFd) -> io::Result<Metadata> {
    File::from(dir.try_clone()?).metadata()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    /// A directory of this test in /tmp, which is sticky; removed when dropped.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let dir = PathBuf::from(format!("/tmp/alcc-owned-{name}-{}", std::process::id()));
            fs::create_dir(&dir).unwrap();
            fs::set_permissions(&dir, Permissions::from_mode(0o700)).unwrap();
            Self(dir)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            drop(fs::remove_dir_all(&self.0));
        }
    }

    fn why(path: &Path, sticky: Sticky) -> String {
        let refused = open_owned(path, sticky).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied, "{refused}");
        refused.to_string()
    }

    #[test]
    fn opens_files_safe_from_exchange_and_makes_missing_folders() {
        let scratch = Scratch::new("made");
        let deep = scratch.0.join("a/b");
        let missing = open_owned(&deep, Sticky::Allowed).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        let dir = create_owned(&deep, 0o700, Sticky::Allowed).unwrap();
        fs::write(path_of(&dir).join("x"), "1").unwrap();
        assert_eq!(fs::read_to_string(deep.join("x")).unwrap(), "1");
        open_owned(&deep, Sticky::Allowed).unwrap();
        assert!(open_owned(Path::new("/proc"), Sticky::Refused).is_ok());
    }

    #[test]
    fn refuses_what_others_may_write_or_rename() {
        let scratch = Scratch::new("open");
        let deep = scratch.0.join("a/b");
        fs::create_dir_all(&deep).unwrap();
        for mode in [0o777, 0o775, 0o1777] {
            fs::set_permissions(&deep, Permissions::from_mode(mode)).unwrap();
            assert!(why(&deep, Sticky::Allowed).contains("a/b may be written by other users"));
        }
        fs::set_permissions(&deep, Permissions::from_mode(0o755)).unwrap();
        open_owned(&deep, Sticky::Allowed).unwrap();
        assert!(why(&deep, Sticky::Refused).starts_with("/tmp may be written"));
        fs::set_permissions(scratch.0.join("a"), Permissions::from_mode(0o777)).unwrap();
        assert!(why(&deep, Sticky::Allowed).contains("/a may be written"));
    }

    #[test]
    fn follows_no_link_and_takes_no_relative_path() {
        let scratch = Scratch::new("link");
        fs::create_dir(scratch.0.join("real")).unwrap();
        symlink("real", scratch.0.join("link")).unwrap();
        fs::write(scratch.0.join("file"), "").unwrap();
        for name in ["link", "file", "link/below"] {
            let refused = why(&scratch.0.join(name), Sticky::Allowed);
            assert!(
                refused.contains("is a symbolic link or not a directory"),
                "{refused}"
            );
        }
        let dotted = scratch.0.join("../x");
        assert!(why(&dotted, Sticky::Allowed).contains("'..'"));
        assert!(why(Path::new("tmp"), Sticky::Allowed).contains("absolute"));
    }

    #[test]
    fn refuses_what_another_user_owns() {
        let scratch = Scratch::new("other");
        let deep = scratch.0.join("a/b");
        fs::create_dir_all(&deep).unwrap();
        // Only root can give a directory away.
        if chown(scratch.0.join("a"), Some(4242), None).is_err() {
            return;
        }
        assert!(why(&deep, Sticky::Allowed).contains("/a belongs to user 4242"));
        chown(scratch.0.join("a"), Some(0), None).unwrap();
        chown(&deep, Some(4242), None).unwrap();
        assert!(why(&deep, Sticky::Allowed).contains("/a/b belongs to user 4242"));
        let made = create_owned(&deep.join("c"), 0o700, Sticky::Allowed).unwrap_err();
        assert!(made.to_string().contains("4242"), "{made}");
        assert!(!deep.join("c").exists());
    }
}
