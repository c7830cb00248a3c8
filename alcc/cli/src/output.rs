// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All output of the program: standard output, standard error, and files that options name.
//!
//! A closed pipe is not a failure: the remaining output is dropped, and the exit status does not change.
//! Any other error while writing output is one line and status 1. If standard error cannot be written,
//! the program continues.
use crate::failure::{Failure, reason};
use alcc_sys::Folder;
use alcc_units::is_printable;
pub use alcc_units::one_line;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::{AccessFlags, access};
use std::borrow::Cow;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

/// Creates a folder for output, and checks that files can be written in it.
///
/// # Errors
/// [`Failure::Usage`], because nothing has been done yet.
pub fn folder(path: &Path) -> Result<(), Failure> {
    can_hold_files(path).map_err(|e| not_a_folder(path, e))
}

/// The same, with the system's error.
pub fn can_hold_files(path: &Path) -> io::Result<()> {
    if path.exists() && !path.is_dir() {
        return Err(io::Error::other("it is a file: name a folder"));
    }
    if path.as_os_str().is_empty() {
        return Err(ErrorKind::NotFound.into());
    }
    takes_files(&Folder::made(&path.join(probe()))?)
}

/// The error of [`can_hold_files`].
pub fn not_a_folder(path: &Path, error: io::Error) -> Failure {
    let why = reason(&not_made(path, error));
    Failure::usage(format!("write into {}: {why}", path.display()))
}

/// The error of creating something at `path`. An existing folder that accepts no files, such as /proc,
/// returns the same error as a missing one.
pub fn not_made(path: &Path, error: io::Error) -> io::Error {
    if error.kind() == ErrorKind::NotFound && around(path).is_dir() {
        return io::Error::other("no file can be created in that folder: choose another");
    }
    error
}

/// Creates a file that is written from now on.
///
/// # Errors
/// [`Failure::Usage`], because nothing has been done yet.
pub fn create(path: &Path) -> Result<File, Failure> {
    alcc_sys::create(path).map_err(|e| {
        let why = reason(&not_made(path, e));
        Failure::usage(format!("write {}: {why}", path.display()))
    })
}

/// The folder that a file is in.
fn around(file: &Path) -> &Path {
    let folder = file.parent().filter(|path| !path.as_os_str().is_empty());
    folder.unwrap_or_else(|| Path::new("."))
}

/// The name of a file that is created and removed.
fn probe() -> String {
    format!(".alcc-{}", std::process::id())
}

/// Checks that this file can be created. Permissions alone do not show that: see [`not_made`].
fn takes_files(probe: &Folder) -> io::Result<()> {
    let (folder, name) = probe.path();
    access(&folder, AccessFlags::W_OK | AccessFlags::X_OK)?;
    let probe = folder.join(name);
    match File::options().write(true).create_new(true).open(&probe) {
        Ok(_) => std::fs::remove_file(probe),
        Err(e) if e.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(e) => Err(not_made(&probe, e)),
    }
}

/// Locks a folder against other commands until the result is dropped. Two that store runs there would
/// damage each other's pages.
///
/// # Errors
/// Another command is using it.
pub fn alone_in(folder: &Path) -> Result<Option<Flock<File>>, Failure> {
    // Not every file system can lock a folder; then the user has to take care.
    let Ok(open) = File::open(folder) else {
        return Ok(None);
    };
    match Flock::lock(open, FlockArg::LockExclusiveNonblock) {
        Err((_, Errno::EWOULDBLOCK)) => Err(Failure::usage(format!(
            "write into {}: another command is writing there: wait for it, or give another --out",
            folder.display()
        ))),
        locked => Ok(locked.ok()),
    }
}

/// Checks that `file`, which the command creates in one step when it ends, can be written.
///
/// # Errors
/// As [`folder`].
pub fn will_be_written(file: &Path) -> Result<(), Failure> {
    let wrong = |e: io::Error| Failure::usage(format!("write {}: {}", file.display(), reason(&e)));
    if file.is_dir() {
        return Err(wrong(Errno::EISDIR.into()));
    }
    if file.exists() {
        return access(file, AccessFlags::W_OK).map_err(|e| wrong(e.into()));
    }
    Folder::of(&around(file).join(probe()))
        .and_then(|probe| takes_files(&probe))
        .map_err(wrong)
}

/// The state of the reader.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reader {
    There,
    /// The reader has closed: a command without an end should end.
    Gone,
}

/// The state of the reader of a pipe. A command that writes nothing for a while notices its end only in
/// this way.
fn reader(of: BorrowedFd<'_>) -> Reader {
    let mut look = [PollFd::new(of, PollFlags::empty())];
    let gone = poll(&mut look, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
        && look[0]
            .revents()
            .is_some_and(|e| e.contains(PollFlags::POLLERR));
    if gone { Reader::Gone } else { Reader::There }
}

/// Writes to standard output at once, without adding a line break. Control characters are escaped, because
/// names of files, processes and cgroups come from others.
pub fn print(text: impl Display) -> Result<Reader, Failure> {
    print_screen(shown(&text.to_string()))
}

/// The same for a text with terminal control sequences, in which names have been escaped by [`shown`].
pub fn print_screen(text: impl Display) -> Result<Reader, Failure> {
    Product::standard().fill(|to| to.write_all(text.to_string().as_bytes()))
}

/// Lines of text with control characters escaped, as in JSON.
pub fn shown(text: &str) -> Cow<'_, str> {
    let stays = |c| is_printable(c) || matches!(c, '\n' | '\t');
    if text.chars().all(stays) {
        return text.into();
    }
    let mut lines = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match stays(c) {
            true => lines.push(c),
            false => lines.push_str(&format!("\\u{:04x}", u32::from(c))),
        }
    }
    lines.into()
}

/// Writes one line to standard error, or several that belong together, in one piece. Control characters
/// are escaped. A failure to write is ignored.
pub fn note(text: impl Display) {
    let text = text.to_string();
    let lines: Vec<String> = text.split('\n').map(one_line).collect();
    let _ = Standard::Error.write_all(format!("{}\n", lines.join("\n")).as_bytes());
}

/// Reports a panic of this program in one line, and with `RUST_BACKTRACE` its origin.
pub fn panics_are_one_line() {
    let whole = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |fault| {
        let text = fault.to_string().replace('\n', " ");
        note(format_args!(
            "alcc: internal error: {text}: please report it, with the command"
        ));
        if std::env::var_os("RUST_BACKTRACE").is_some() {
            whole(fault);
        }
    }));
}

/// The output of a command: a file, or standard output.
pub struct Product {
    to: BufWriter<Box<dyn Write + Send>>,
    name: String,
    /// True if it is standard output.
    standard: bool,
}

impl Product {
    /// Opens the file, or standard output if none is named.
    ///
    /// # Errors
    /// [`Failure::Usage`], because nothing has been done yet.
    pub fn open(path: Option<&Path>) -> Result<Self, Failure> {
        let Some(path) = path else {
            return Ok(Self::standard());
        };
        Ok(Self::of(create(path)?, path))
    }

    /// Opens the file of an option, if it is given.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn named(path: Option<&Path>) -> Result<Option<Self>, Failure> {
        path.map(|path| Self::open(Some(path))).transpose()
    }

    /// The output in an open file.
    pub fn of(file: File, path: &Path) -> Self {
        Self {
            to: BufWriter::new(Box::new(file)),
            name: path.display().to_string(),
            standard: false,
        }
    }

    fn standard() -> Self {
        Self {
            to: BufWriter::new(Box::new(Standard::Output)),
            name: "standard output".to_owned(),
            standard: true,
        }
    }

    /// Lets `write` add output, possibly none, and writes it at once.
    ///
    /// # Errors
    /// [`Failure::Failed`], unless only the reader has closed.
    pub fn add(
        &mut self,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<Reader, Failure> {
        match write(&mut self.to).and_then(|()| self.to.flush()) {
            Ok(()) if self.standard => Ok(reader(io::stdout().as_fd())),
            Ok(()) => Ok(Reader::There),
            Err(e) if e.kind() == ErrorKind::BrokenPipe => Ok(Reader::Gone),
            Err(e) => Err(Failure::failed(format!(
                "write {}: {}",
                self.name,
                reason(&e)
            ))),
        }
    }

    /// Lets `write` write all output, and closes it.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn fill(
        mut self,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<Reader, Failure> {
        let result = self.add(write);
        // Failed writes are not repeated.
        drop(self.to.into_parts());
        result
    }

    /// Writes the report of a finished run. A failure is printed, but the exit status stays that of
    /// the run.
    pub fn report(self, text: impl Display) {
        if let Err(why) = self.fill(|to| writeln!(to, "{text}")) {
            note(format_args!("alcc: {why}"));
        }
    }
}

/// The descriptors themselves, because a buffer of the standard library would retry when the program
/// ends.
#[derive(Clone, Copy)]
enum Standard {
    Output,
    Error,
}

impl Write for Standard {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Output => write(io::stdout().as_fd(), bytes),
            Self::Error => write(io::stderr().as_fd(), bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Waits if the descriptor does not, because another program that shares it may have made it
/// non-blocking.
fn write(to: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    loop {
        match nix::unistd::write(to, bytes) {
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => {
                let mut wait = [PollFd::new(to, PollFlags::POLLOUT)];
                match poll(&mut wait, PollTimeout::NONE) {
                    Ok(_) | Err(Errno::EINTR) => {}
                    Err(e) => return Err(e.into()),
                }
            }
            other => return other.map_err(io::Error::from),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_is_shown_steers_a_terminal_and_json_stays_what_it_is() {
        assert_eq!(shown("a\tb\n\u{e4}\n"), "a\tb\n\u{e4}\n");
        assert_eq!(
            shown("\x1b[2J\r\u{9b}\u{202e}"),
            "\\u001b[2J\\u000d\\u009b\\u202e"
        );
        let json = serde_json::json!({ "name": "\x1b\u{9b}\u{202e}\u{200d}\n" });
        let read: serde_json::Value = serde_json::from_str(&shown(&json.to_string())).unwrap();
        assert_eq!(read, json);
    }

    #[test]
    fn a_reader_that_has_gone_is_known_before_anything_is_written() {
        let (from, to) = nix::unistd::pipe().unwrap();
        assert_eq!(reader(to.as_fd()), Reader::There);
        drop(from);
        assert_eq!(reader(to.as_fd()), Reader::Gone);
        let file = tempfile::tempfile().unwrap();
        assert_eq!(reader(file.as_fd()), Reader::There);
    }
}
