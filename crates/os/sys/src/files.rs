// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Names in the file system that other users may have a hand in: sockets at a path, and files that
//! are written anew.
use std::ffi::{CString, OsStr};
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// The UNIX socket that listens at a path. Its name is removed when this is dropped, unless the
/// name belongs to another file by then.
#[derive(Debug)]
pub struct PathListener {
    listener: UnixListener,
    path: PathBuf,
    folder: Folder,
    identity: (u64, u64),
}

impl PathListener {
    /// Listens at `path`. A socket that nobody listens on, left by a process that was killed, is
    /// replaced; anything else that has the name stays.
    ///
    /// # Errors
    /// [`ErrorKind::AddrInUse`]: somebody listens there. [`ErrorKind::AlreadyExists`]: another kind
    /// of file is there, and the error says which. Others as those of bind(2).
    pub fn bind(path: &Path) -> io::Result<Self> {
        let folder = Folder::of(path)?;
        let listener = match UnixListener::bind(path) {
            Err(e) if e.kind() == ErrorKind::AddrInUse => {
                let there = std::fs::symlink_metadata(path)?;
                if !there.file_type().is_socket() {
                    return Err(io::Error::new(
                        ErrorKind::AlreadyExists,
                        format!("{}, not a socket, has this name", kind(&there)),
                    ));
                }
                let abandoned = UnixStream::connect(path)
                    .is_err_and(|e| e.kind() == ErrorKind::ConnectionRefused);
                if !abandoned {
                    return Err(e);
                }
                folder.remove_socket(identity(&there))?;
                UnixListener::bind(path)
            }
            other => other,
        }?;
        let identity = identity(&std::fs::symlink_metadata(path)?);
        Ok(Self {
            listener,
            path: path.to_owned(),
            folder,
            identity,
        })
    }

    /// The socket.
    pub fn listener(&self) -> &UnixListener {
        &self.listener
    }

    /// The path as it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for PathListener {
    fn drop(&mut self) {
        // The name may be gone, or belong to a later run.
        let _ = self.folder.remove_socket(self.identity);
    }
}

/// The folder around a name, held open: whoever renames it does not redirect what is removed.
#[derive(Debug)]
struct Folder {
    folder: File,
    name: CString,
}

impl Folder {
    fn of(path: &Path) -> io::Result<Self> {
        let name = path
            .file_name()
            .ok_or_else(|| io::Error::from(ErrorKind::IsADirectory))?;
        Ok(Self {
            folder: open_folder(path)?,
            name: c_string(name)?,
        })
    }

    /// Removes the name if it still belongs to this socket.
    fn remove_socket(&self, identity: (u64, u64)) -> io::Result<()> {
        let fd = self.folder.as_raw_fd();
        // SAFETY: all zero is a valid value of this plain structure.
        let mut there: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: the name ends with a zero, and the structure is ours.
        let found = unsafe {
            libc::fstatat(
                fd,
                self.name.as_ptr(),
                &raw mut there,
                libc::AT_SYMLINK_NOFOLLOW,
            )
        };
        if found != 0 {
            return Err(io::Error::last_os_error());
        }
        let is_socket = there.st_mode & libc::S_IFMT == libc::S_IFSOCK;
        if !is_socket || (there.st_dev, there.st_ino) != identity {
            return Err(ErrorKind::AlreadyExists.into());
        }
        // SAFETY: as above.
        if unsafe { libc::unlinkat(fd, self.name.as_ptr(), 0) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }
}

/// Makes a file, or empties the one that is there. A symbolic link is followed only if it and its
/// folder belong to root or to this process's user, and if not everybody can replace it: otherwise
/// another user could choose which of our files is emptied.
///
/// # Errors
/// As open(2), and [`ErrorKind::PermissionDenied`] for a link of another user.
pub fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    open_own(path, &mut options)
}

/// Opens a file as `options` say, with the rule of [`create`] for symbolic links.
///
/// # Errors
/// As [`create`].
pub fn open_own(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let refused = match options.custom_flags(libc::O_NOFOLLOW).open(path) {
        Err(e) if e.raw_os_error() == Some(libc::ELOOP) => e,
        other => return other,
    };
    // A link that leads to itself says the same.
    let link = std::fs::symlink_metadata(path).map_err(|_| refused)?;
    let folder = open_folder(path)?.metadata()?;
    // In a folder with the sticky bit only its owner replaces a link.
    let open_to_all = folder.mode() & 0o1002 == 0o002;
    if !is_ours(&link) || !is_ours(&folder) || open_to_all {
        return Err(io::Error::new(
            ErrorKind::PermissionDenied,
            "another user could have put a symbolic link here: name the file that it leads to",
        ));
    }
    options.custom_flags(0).open(path)
}

fn is_ours(file: &Metadata) -> bool {
    // SAFETY: it has no arguments and cannot fail.
    let user = unsafe { libc::geteuid() };
    file.uid() == 0 || file.uid() == user
}

fn open_folder(path: &Path) -> io::Result<File> {
    let folder = path.parent().filter(|path| !path.as_os_str().is_empty());
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_PATH | libc::O_DIRECTORY)
        .open(folder.unwrap_or_else(|| Path::new(".")))
}

fn c_string(name: &OsStr) -> io::Result<CString> {
    CString::new(name.as_bytes()).map_err(|_| ErrorKind::InvalidInput.into())
}

fn identity(file: &Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

fn kind(file: &Metadata) -> &'static str {
    let kind = file.file_type();
    if kind.is_file() {
        "a regular file"
    } else if kind.is_dir() {
        "a folder"
    } else if kind.is_symlink() {
        "a symbolic link"
    } else {
        "a pipe or a device"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("alcc-files-{name}-{}", std::process::id()));
        drop(fs::remove_dir_all(&folder));
        fs::create_dir(&folder).unwrap();
        folder
    }

    #[test]
    fn only_an_abandoned_socket_is_replaced() {
        let folder = folder("replace");
        let at = |name: &str| folder.join(name);
        fs::write(at("file"), "important").unwrap();
        fs::create_dir(at("folder")).unwrap();
        symlink(at("file"), at("link")).unwrap();
        symlink(at("nothing"), at("dangling")).unwrap();
        drop(UnixListener::bind(at("socket")).unwrap());
        symlink(at("socket"), at("to-socket")).unwrap();
        for name in ["file", "folder", "link", "dangling", "to-socket"] {
            let why = PathListener::bind(&at(name)).unwrap_err();
            assert_eq!(why.kind(), ErrorKind::AlreadyExists, "{name}: {why}");
        }
        assert_eq!(fs::read(at("file")).unwrap(), b"important");
        assert_eq!(fs::read_link(at("link")).unwrap(), at("file"));
        let first = PathListener::bind(&at("socket")).unwrap();
        let why = PathListener::bind(&at("socket")).unwrap_err();
        assert_eq!(why.kind(), ErrorKind::AddrInUse);
        UnixStream::connect(first.path()).unwrap();
        drop(first);
        assert!(!at("socket").exists());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn only_what_was_made_is_removed() {
        let folder = folder("remove");
        let path = folder.join("s");
        let first = PathListener::bind(&path).unwrap();
        fs::rename(&path, folder.join("old")).unwrap();
        let second = PathListener::bind(&path).unwrap();
        drop(first);
        UnixStream::connect(&path).expect("the later run's socket is still there");
        fs::rename(&path, folder.join("older")).unwrap();
        fs::write(&path, "a file").unwrap();
        drop(second);
        assert_eq!(fs::read(&path).unwrap(), b"a file");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_link_is_followed_only_where_nobody_else_can_put_one() {
        use std::os::unix::fs::PermissionsExt;
        let folder = folder("link");
        let at = |name: &str| folder.join(name);
        fs::write(at("file"), "important").unwrap();
        symlink(at("file"), at("link")).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        let why = create(&at("link")).unwrap_err();
        assert_eq!(why.kind(), ErrorKind::PermissionDenied);
        assert_eq!(fs::read(at("file")).unwrap(), b"important");
        create(&at("file")).unwrap();
        create(&at("new")).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        create(&at("link")).unwrap();
        assert_eq!(fs::read(at("file")).unwrap(), b"");
        // SAFETY: it has no arguments and cannot fail.
        if unsafe { libc::geteuid() } == 0 {
            fs::write(at("file"), "important").unwrap();
            std::os::unix::fs::chown(&folder, Some(4242), None).unwrap();
            create(&at("link")).unwrap_err();
            assert_eq!(fs::read(at("file")).unwrap(), b"important");
        }
        fs::remove_dir_all(folder).unwrap();
    }
}
