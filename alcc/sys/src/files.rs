// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Paths that other users may manipulate: sockets at a path, and files that are created or overwritten.
use crate::owned::{about, make_part, path_of};
use std::collections::VecDeque;
use std::ffi::{CString, OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{self, ErrorKind};
use std::mem::zeroed;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Component, Path, PathBuf};

/// Maximum number of links followed in one path, as in the kernel.
const MAX_LINKS: usize = 40;

/// A UNIX socket that listens at a path. Dropping it removes the name, unless the name belongs to another file by then.
#[derive(Debug)]
pub struct PathListener {
    listener: UnixListener,
    path: PathBuf,
    folder: Folder,
    identity: (u64, u64),
}

impl PathListener {
    /// Listens at `path`. A socket without a listener, left by a process that was killed, is replaced; any other file
    /// of that name stays.
    ///
    /// # Errors
    /// [`ErrorKind::AddrInUse`]: another process listens there. [`ErrorKind::AlreadyExists`]: another kind of file is
    /// there, and the error names it. Others are those of bind(2).
    pub fn bind(path: &Path) -> io::Result<Self> {
        let folder = Folder::of(path)?;
        // Exchanging the folder has no effect from here on.
        let (dir, name) = folder.path();
        let at = dir.join(name);
        let listener = match UnixListener::bind(&at) {
            Err(e) if e.kind() == ErrorKind::AddrInUse => {
                let there = std::fs::symlink_metadata(&at)?;
                if !there.file_type().is_socket() {
                    return Err(io::Error::new(
                        ErrorKind::AlreadyExists,
                        format!("{}, not a socket, has this name", kind(&there)),
                    ));
                }
                let abandoned = UnixStream::connect(&at)
                    .is_err_and(|e| e.kind() == ErrorKind::ConnectionRefused);
                if !abandoned {
                    return Err(e);
                }
                folder.remove_socket(identity(&there))?;
                UnixListener::bind(&at)
            }
            other => other,
        }?;
        let identity = identity(&std::fs::symlink_metadata(at)?);
        Ok(Self {
            listener,
            path: path.to_owned(),
            folder,
            identity,
        })
    }

    /// The listening socket.
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

/// A name in a folder that is held open, so that renaming the folder has no effect.
#[derive(Debug)]
pub struct Folder {
    folder: OwnedFd,
    name: CString,
    /// True if the name is a link in /proc to an open file, which has no path.
    magic: bool,
}

impl Folder {
    /// The folder that the last part of `path` is in. A symbolic link on the way is followed only if it and its folder
    /// belong to root or to this process's user, and if other users cannot replace it. Otherwise another user could
    /// choose where we write.
    ///
    /// # Errors
    /// The errors of open(2), and [`ErrorKind::PermissionDenied`] with the link that is not followed.
    pub fn of(path: &Path) -> io::Result<Self> {
        Self::walk(path, false, false)
    }

    /// The same, but missing folders are created.
    ///
    /// # Errors
    /// The errors of [`Folder::of`], and those of creating a folder.
    pub fn made(path: &Path) -> io::Result<Self> {
        Self::walk(path, false, true)
    }

    /// The same, but a symbolic link in the last part is followed, too, for a file that is written through it.
    ///
    /// # Errors
    /// The errors of [`Folder::of`].
    pub fn behind(path: &Path) -> io::Result<Self> {
        Self::walk(path, true, false)
    }

    /// True if the name is that of an open file in /proc: it is written and never replaced.
    pub fn is_open_file(&self) -> bool {
        self.magic
    }

    /// The folder's own path, for calls that need a path, and the name in it.
    pub fn path(&self) -> (PathBuf, &OsStr) {
        (
            path_of(&self.folder),
            OsStr::from_bytes(self.name.to_bytes()),
        )
    }

    /// `through`: a link in the last part is followed, too. `make`: missing folders are created.
    fn walk(path: &Path, through: bool, make: bool) -> io::Result<Self> {
        let is_folder = || io::Error::from(ErrorKind::IsADirectory);
        if path.as_os_str().as_bytes().ends_with(b"/") {
            return Err(is_folder());
        }
        let mut remaining: VecDeque<_> = parts(path).collect();
        let mut folder = start(path)?;
        let owners = [0, user(), File::open("/")?.metadata()?.uid()];
        let mut links = 0;
        loop {
            let name = remaining.pop_front().ok_or_else(is_folder)?;
            let last = remaining.is_empty();
            let link = match last && !through {
                true => None,
                false => link_at(&folder, &name)?,
            };
            let Some((owner, target)) = link else {
                if last {
                    return Self::with(folder, &name, false);
                }
                let flags = libc::O_PATH | libc::O_NOFOLLOW;
                let opened = match open_at(&folder, &name, flags) {
                    Err(e) if make && e.kind() == ErrorKind::NotFound => {
                        make_part(&folder, &name, 0o777)?;
                        open_at(&folder, &name, flags)
                    }
                    opened => opened,
                };
                folder = opened?.into();
                continue;
            };
            let around = about(&folder)?;
            // In a folder with the sticky bit only the owner can replace a link.
            let open_to_all = around.mode() & 0o1002 == 0o002;
            let ours = [owner, around.uid()].iter().all(|id| owners.contains(id));
            if !ours || open_to_all {
                return Err(io::Error::new(
                    ErrorKind::PermissionDenied,
                    format!(
                        "another user could have created the symbolic link {}: name its target",
                        Path::new(&name).display()
                    ),
                ));
            }
            links += 1;
            if links > MAX_LINKS {
                return Err(io::Error::from_raw_os_error(libc::ELOOP));
            }
            if is_proc(&folder) {
                if last {
                    return Self::with(folder, &name, true);
                }
                folder = open_at(&folder, &name, libc::O_PATH)?.into();
                continue;
            }
            if target.is_absolute() {
                folder = start(&target)?;
            }
            for part in parts(&target).rev() {
                remaining.push_front(part);
            }
        }
    }

    fn with(folder: OwnedFd, name: &OsStr, magic: bool) -> io::Result<Self> {
        Ok(Self {
            folder,
            name: c_string(name)?,
            magic,
        })
    }

    /// open(2) with these flags.
    fn open(&self, flags: libc::c_int) -> io::Result<File> {
        let follow = if self.magic { 0 } else { libc::O_NOFOLLOW };
        let name = OsStr::from_bytes(self.name.to_bytes());
        open_at(&self.folder, name, flags | follow)
    }

    /// Creates the file, or opens and truncates it.
    fn open_to_write(&self) -> io::Result<File> {
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_NONBLOCK | libc::O_TRUNC;
        let file = self.open(flags).map_err(|e| match e.raw_os_error() {
            Some(libc::ENXIO) => io::Error::other(
                "it is a socket, or a FIFO that no program reads: start its reader first",
            ),
            _ => e,
        })?;
        // SAFETY: numbers only; the descriptor is open.
        if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, 0) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(file)
    }

    /// Removes the name if it still belongs to this socket.
    fn remove_socket(&self, identity: (u64, u64)) -> io::Result<()> {
        let fd = self.folder.as_raw_fd();
        // SAFETY: all zero is a valid value of this plain structure.
        let mut there: libc::stat = unsafe { zeroed() };
        // SAFETY: the name ends with a zero byte, and the structure is a valid out parameter.
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

/// Creates a folder, and missing ones above it.
///
/// # Errors
/// The errors of [`Folder::made`]; a part of the path is not a folder.
pub fn create_folders(path: &Path) -> io::Result<()> {
    // This fails if the path is a file, which contains no names.
    let folder = Folder::made(&path.join("x"))?.folder;
    match about(&folder)?.is_dir() {
        true => Ok(()),
        false => Err(ErrorKind::NotADirectory.into()),
    }
}

/// Creates a file, or truncates an existing one. Symbolic links are followed as in [`Folder::of`], the last part, too.
/// It never waits for the reader of a FIFO; writing waits.
///
/// # Errors
/// The errors of [`Folder::of`]; no program reads the FIFO.
pub fn create(path: &Path) -> io::Result<File> {
    Folder::behind(path)?.open_to_write()
}

/// Opens a file of this user for overwriting, and creates it if it does not exist. It never waits for a FIFO.
///
/// # Errors
/// The errors of [`Folder::of`]; `PermissionDenied` if it is a symbolic link, not a regular file, another user's, or
/// has a second name. Such a file was not made for this purpose, and its content stays.
pub fn overwrite_own(path: &Path) -> io::Result<File> {
    let refusal = |why: &str| {
        let why = format!("{} {why}", path.display());
        io::Error::new(ErrorKind::PermissionDenied, why)
    };
    let opened = Folder::of(path)?.open(libc::O_WRONLY | libc::O_CREAT | libc::O_NONBLOCK);
    let file = opened.map_err(|e| match e.raw_os_error() {
        Some(libc::ELOOP | libc::ENXIO) => refusal("is not a regular file"),
        _ => e,
    })?;
    let about = file.metadata()?;
    if !about.is_file() {
        return Err(refusal("is not a regular file"));
    }
    if about.uid() != user() {
        return Err(refusal(&format!("belongs to user {}", about.uid())));
    }
    if about.nlink() != 1 {
        return Err(refusal("has a second name (hard link)"));
    }
    file.set_len(0)?;
    Ok(file)
}

pub(crate) fn user() -> u32 {
    // SAFETY: it has no arguments and cannot fail.
    unsafe { libc::geteuid() }
}

/// Opens the start of a path: the root, or the current folder.
pub(crate) fn start(path: &Path) -> io::Result<OwnedFd> {
    let from = if path.is_absolute() { "/" } else { "." };
    let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC;
    let name = c_string(OsStr::new(from))?;
    // SAFETY: a text that ends with a zero byte, and flags.
    match unsafe { libc::open(name.as_ptr(), flags) } {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: a descriptor that was just opened, with no other owner.
        fd => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
    }
}

fn parts(path: &Path) -> impl DoubleEndedIterator<Item = OsString> + '_ {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    })
}

pub(crate) fn open_at(folder: &OwnedFd, name: &OsStr, flags: libc::c_int) -> io::Result<File> {
    let name = c_string(name)?;
    let flags = flags | libc::O_CLOEXEC;
    // SAFETY: a descriptor, a text that ends with a zero byte, flags and a mode.
    match unsafe { libc::openat(folder.as_raw_fd(), name.as_ptr(), flags, 0o666) } {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: a descriptor that was just opened, with no other owner.
        fd => Ok(unsafe { File::from_raw_fd(fd) }),
    }
}

/// The owner and the target of a symbolic link. `None`: it is another kind of file, or does not exist.
fn link_at(folder: &OwnedFd, name: &OsStr) -> io::Result<Option<(u32, PathBuf)>> {
    let link = match open_at(folder, name, libc::O_PATH | libc::O_NOFOLLOW) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    let about = link.metadata()?;
    if !about.is_symlink() {
        return Ok(None);
    }
    let mut target = vec![0u8; libc::PATH_MAX as usize];
    let (to, room) = (target.as_mut_ptr().cast(), target.len());
    // SAFETY: the descriptor of a link, an empty name, and room for the target.
    let n = unsafe { libc::readlinkat(link.as_raw_fd(), c"".as_ptr(), to, room) };
    let n = usize::try_from(n).map_err(|_| io::Error::last_os_error())?;
    target.truncate(n);
    Ok(Some((about.uid(), OsString::from_vec(target).into())))
}

fn is_proc(folder: &OwnedFd) -> bool {
    // SAFETY: all zero is a valid value of this plain structure.
    let mut about: libc::statfs = unsafe { zeroed() };
    // SAFETY: a descriptor and room for the result.
    let read = unsafe { libc::fstatfs(folder.as_raw_fd(), &raw mut about) } == 0;
    read && about.f_type == libc::PROC_SUPER_MAGIC
}

pub(crate) fn c_string(name: &OsStr) -> io::Result<CString> {
    CString::new(name.as_bytes()).map_err(|_| ErrorKind::InvalidInput.into())
}

/// A file's identity as the kernel prints it in a process's list of mappings. On some file systems, such as btrfs,
/// stat(2) returns another device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Inode {
    /// The device as printed there, `MAJOR:MINOR`.
    device: String,
    /// The inode number on the device.
    pub number: u64,
}

impl Inode {
    /// Parses the fourth and the fifth word of a line of `/proc/PID/maps`.
    pub fn parse(device: &str, number: &str) -> Option<Self> {
        Some(Self {
            device: device.to_owned(),
            number: number.parse().ok()?,
        })
    }

    /// The identity that a mapping of this file has. The file must be open for reading.
    ///
    /// # Errors
    /// The errors of mmap(2), and of reading /proc.
    pub fn mapped(file: &File) -> io::Result<Self> {
        let (any, one) = (std::ptr::null_mut(), 1);
        let (read, shared) = (libc::PROT_READ, libc::MAP_SHARED);
        // SAFETY: a mapping at an address of the kernel's choice; it is never read.
        let page = unsafe { libc::mmap(any, one, read, shared, file.as_raw_fd(), 0) };
        if page == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let maps = std::fs::read_to_string("/proc/self/maps");
        // SAFETY: the mapping that was just made, with no other user.
        unsafe { libc::munmap(page, one) };
        let start = format!("{:08x}-", page.addr());
        let found = maps?.lines().find_map(|line| {
            let mut words = line.strip_prefix(&start)?.split_whitespace();
            Self::parse(words.nth(3)?, words.next()?)
        });
        found.ok_or_else(|| ErrorKind::NotFound.into())
    }
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

    /// A link in a folder that everybody may write, one in a folder of another user, and one of another user in a folder
    /// like /tmp.
    fn is_not_followed(folder: &Path, path: &Path) {
        use std::os::unix::fs::{PermissionsExt, chown, lchown};
        let mode = |mode| fs::set_permissions(folder, fs::Permissions::from_mode(mode)).unwrap();
        let refused = || {
            for open in [create, overwrite_own] {
                let why = open(path).unwrap_err();
                assert_eq!(why.kind(), ErrorKind::PermissionDenied, "{why}");
            }
            create_folders(&path.with_file_name("new/er")).unwrap_err();
            PathListener::bind(&path.with_file_name("socket")).map(drop)
        };
        mode(0o777);
        refused().unwrap_err();
        mode(0o755);
        if user() == 0 {
            chown(folder, Some(4242), None).unwrap();
            refused().unwrap_err();
            chown(folder, Some(0), None).unwrap();
        }
        mode(0o1777);
        if user() == 0 {
            let mut parents = path.ancestors();
            let link = parents.find(|at| at.parent() == Some(folder)).unwrap();
            lchown(link, Some(4242), None).unwrap();
            refused().unwrap_err();
            lchown(link, Some(0), None).unwrap();
        }
    }

    #[test]
    fn a_link_on_the_way_is_followed_only_where_nobody_else_can_put_one() {
        let folder = folder("middle");
        let at = |name: &str| folder.join(name);
        fs::create_dir(at("real")).unwrap();
        fs::create_dir(at("real/in")).unwrap();
        fs::write(at("real/in/file"), "important").unwrap();
        symlink("real", at("link")).unwrap();
        symlink(at("link"), at("far")).unwrap();
        for path in ["link/in/file", "far/in/file", "far/../link/in/file"] {
            is_not_followed(&folder, &at(path));
            assert_eq!(
                fs::read(at("real/in/file")).unwrap(),
                b"important",
                "{path}"
            );
        }
        create_folders(&at("far/in/new/er")).unwrap();
        assert!(at("real/in/new/er").is_dir());
        fs::remove_dir_all(at("real/in/new")).unwrap();
        assert!(create_folders(&at("real/in/file")).is_err());
        assert!(create_folders(&at("real/in/file/x")).is_err());
        overwrite_own(&at("far/in/file")).unwrap();
        assert_eq!(fs::read(at("real/in/file")).unwrap(), b"");
        create(&at("far/in/new")).unwrap();
        assert!(at("real/in/new").exists());
        symlink("round", at("round")).unwrap();
        assert_eq!(
            create(&at("round/x")).unwrap_err().raw_os_error(),
            Some(libc::ELOOP)
        );
        let held = Folder::of(&at("far/in/file")).unwrap();
        let (real, file) = held.path();
        assert_eq!(file, "file");
        assert_eq!(
            fs::canonicalize(real).unwrap(),
            fs::canonicalize(at("real/in")).unwrap()
        );
        for nowhere in ["no/file", "real/in/", "", "real/in/file/x"] {
            create(&at(nowhere)).unwrap_err();
        }
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_leads_to_an_open_file_is_opened() {
        create(Path::new("/dev/null")).unwrap();
        let folder = folder("magic");
        let file = File::create(folder.join("x")).unwrap();
        let path = format!("/dev/fd/{}", file.as_raw_fd());
        io::Write::write_all(&mut create(Path::new(&path)).unwrap(), b"1").unwrap();
        assert_eq!(fs::read(folder.join("x")).unwrap(), b"1");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_link_is_followed_only_where_no_other_user_can_put_one() {
        use std::os::unix::fs::{PermissionsExt, chown, lchown};
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
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o1777)).unwrap();
        create(&at("link")).unwrap();
        if user() == 0 {
            fs::write(at("file"), "important").unwrap();
            chown(&folder, Some(4242), None).unwrap();
            create(&at("link")).unwrap_err();
            chown(&folder, Some(0), None).unwrap();
            lchown(at("link"), Some(4242), None).unwrap();
            create(&at("link")).unwrap_err();
            assert_eq!(fs::read(at("file")).unwrap(), b"important");
        }
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_fifo_is_written_if_somebody_reads_it_and_else_refused_at_once() {
        let folder = folder("fifo");
        let fifo = folder.join("fifo");
        let name = CString::new(fifo.to_str().unwrap()).unwrap();
        // SAFETY: a text that ends with a zero byte, and a mode.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        let why = create(&fifo).unwrap_err().to_string();
        assert!(why.contains("no program reads"), "{why}");
        let reading = std::thread::spawn({
            let fifo = fifo.clone();
            move || fs::read(fifo).unwrap().len()
        });
        let mut file = loop {
            match create(&fifo) {
                Ok(file) => break file,
                Err(_) => std::thread::yield_now(),
            }
        };
        // More than a pipe holds: writing waits.
        io::Write::write_all(&mut file, &[0; 1 << 20]).unwrap();
        drop(file);
        assert_eq!(reading.join().unwrap(), 1 << 20);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn overwrites_a_regular_file_of_its_own_and_nothing_else() {
        let folder = folder("over");
        let at = |name: &str| folder.join(name);
        fs::write(at("precious"), "content").unwrap();
        symlink("precious", at("link")).unwrap();
        symlink("nothing", at("dangling")).unwrap();
        fs::hard_link(at("precious"), at("second")).unwrap();
        let fifo = CString::new(at("fifo").to_str().unwrap()).unwrap();
        // SAFETY: a text that ends with a zero byte, and a mode.
        assert_eq!(unsafe { libc::mkfifo(fifo.as_ptr(), 0o600) }, 0);
        for name in ["link", "dangling", "second", "precious", "fifo"] {
            let refused = overwrite_own(&at(name)).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::PermissionDenied, "{name}");
        }
        assert_eq!(fs::read_to_string(at("precious")).unwrap(), "content");
        assert!(!at("nothing").exists());
        fs::remove_file(at("second")).unwrap();
        overwrite_own(&at("precious")).unwrap();
        assert_eq!(fs::read_to_string(at("precious")).unwrap(), "");
        if std::os::unix::fs::chown(at("precious"), Some(4242), None).is_ok() {
            assert!(overwrite_own(&at("precious")).is_err());
        }
        fs::remove_dir_all(folder).unwrap();
    }
}
