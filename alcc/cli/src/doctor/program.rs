// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks of a program: whether the preload library can control it, and an alternative if not.
use super::{Finding, State};
use crate::loader;
use crate::supervise::hindrance;
use alcc_observe::Missed;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Checks the program that `alcc run` would start for this command.
pub(crate) fn examine(words: &[OsString]) -> Vec<Finding> {
    let Some(command) = words.first() else {
        return Vec::new();
    };
    let name = command.to_string_lossy();
    let Some(path) = loader::found(command) else {
        let means = hindrance(&name, &refusal(command));
        return vec![Finding::new("program", State::Stops, name, means)];
    };
    if let Some(why) = loader::started_elsewhere(words) {
        return vec![Finding::new("program", State::Stops, name, why)];
    }
    let mut findings = vec![reach(command, &path)];
    let marks = Marks::of(&path);
    if marks.go {
        findings.push(missed("go", "a Go program", Missed::RawCalls));
    }
    if marks.io_uring {
        findings.push(Finding::new(
            "io_uring",
            State::Note,
            "the program knows io_uring",
            "what it sends that way stays plain TCP; 'alcc top' says so within seconds",
        ));
    }
    findings
}

/// The system's error for starting a program that [`loader::found`] does not find.
fn refusal(command: &OsStr) -> io::Error {
    match Path::new(command).metadata() {
        Ok(it) if it.is_dir() || it.permissions().mode() & 0o111 == 0 => {
            io::ErrorKind::PermissionDenied.into()
        }
        _ => io::ErrorKind::NotFound.into(),
    }
}

fn reach(command: &OsStr, path: &Path) -> Finding {
    let found = if path.file_name() == Path::new(command).file_name() {
        path.display().to_string()
    } else {
        format!(
            "{}, a script for {}",
            command.to_string_lossy(),
            path.display()
        )
    };
    match loader::not_loaded(path) {
        Some(why) => missed("program", &found, why),
        None => Finding::new("program", State::Ok, found, "it loads the preload library"),
    }
}

fn missed(what: &'static str, found: &str, why: Missed) -> Finding {
    let by_kernel = cfg!(feature = "bpf") && Path::new("/sys/kernel/btf/vmlinux").exists();
    let by_kernel = by_kernel && nix::unistd::geteuid().is_root();
    let (other, command) = match by_kernel {
        true => (
            "the kernel controls it without a restart, by 'alcc attach' or a rule of 'alcc policy'",
            "alcc bpf load && alcc attach --port 443 --future",
        ),
        false => (
            "'alcc attach' (root) or a proxy in front of it controls it",
            "alcc proxy --listen :8443 --to 127.0.0.1:443",
        ),
    };
    let means = format!("{}: {other}", why.why());
    Finding::new(what, State::Note, found, means).helped_by(command)
}

/// Properties found in the bytes of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Marks {
    go: bool,
    io_uring: bool,
}

/// Go's linker writes this before the build information.
const GO: &[u8] = b"\xff Go buildinf:";
/// The name of a system call or of its library.
const IO_URING: [&[u8]; 2] = [b"io_uring_queue_init", b"liburing.so"];

impl Marks {
    fn of(path: &Path) -> Self {
        File::open(path).and_then(Self::read).unwrap_or_default()
    }

    /// Reads the program in pieces, which overlap by the longest mark, because programs have hundreds of
    /// megabytes.
    fn read(mut from: impl Read) -> io::Result<Self> {
        const KEEP: usize = 32;
        let (mut marks, mut piece, mut held) = (Self::default(), vec![0; KEEP + (1 << 20)], 0);
        loop {
            let n = from.read(&mut piece[held..])?;
            if n == 0 {
                return Ok(marks);
            }
            let end = held + n;
            let holds = |mark: &[u8]| piece[..end].windows(mark.len()).any(|w| w == mark);
            marks.go |= holds(GO);
            marks.io_uring |= IO_URING.iter().any(|mark| holds(mark));
            held = end.min(KEEP);
            piece.copy_within(end - held..end, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Gives a few bytes at a time.
    struct Drops<'a>(&'a [u8], usize);

    impl Read for Drops<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let n = self.1.min(into.len()).min(self.0.len());
            into[..n].copy_from_slice(&self.0[..n]);
            self.0 = &self.0[n..];
            Ok(n)
        }
    }

    #[test]
    fn marks_are_found_wherever_the_pieces_end() {
        let mut go = vec![7; 100];
        go.extend(GO);
        go.extend([7; 100]);
        let ring = [&[0; 3][..], b"liburing.so.2\0"].concat();
        for at_once in [1, 3, 13, 64, 5000] {
            let read = |bytes: &[u8]| Marks::read(Drops(bytes, at_once)).unwrap();
            assert_eq!(
                read(&go),
                Marks {
                    go: true,
                    io_uring: false
                },
                "{at_once}"
            );
            assert_eq!(
                read(&ring),
                Marks {
                    go: false,
                    io_uring: true
                },
                "{at_once}"
            );
            assert_eq!(read(&go[..105]), Marks::default());
        }
    }

    #[test]
    fn a_program_is_reached_or_the_way_round_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let manager = folder.path().join("systemctl");
        fs::copy("/bin/true", &manager).unwrap();
        let found = examine(&[manager.into_os_string()]);
        assert_eq!(found[0].state, State::Stops);
        assert!(found[0].means.contains("alcc attach --port"), "{found:?}");
        let shell = examine(&["sh".into()]);
        assert_eq!((shell[0].what, shell[0].state), ("program", State::Ok));
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str, mode| {
            let path = dir.path().join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            path.into_os_string()
        };
        for (command, means) in [
            ("nosuch-program".into(), "not found: install it"),
            (dir.path().into(), "it is a folder"),
            (file("plain", "text", 0o644), "no permission to run it"),
            (file("lost", "#!/nosuch\n", 0o755), "check its first line"),
        ] {
            let found = examine(std::slice::from_ref(&command));
            assert_eq!(
                (found.len(), found[0].state),
                (1, State::Stops),
                "{command:?}"
            );
            assert!(found[0].means.contains(means), "{found:?}");
        }
        let script = examine(&[file("script", "#!/bin/sh\n", 0o755)]);
        assert_eq!(script[0].state, State::Ok);
        assert!(
            script[0].found.ends_with("script, a script for /bin/sh"),
            "{script:?}"
        );
        let of_root = dir.path().join("of-root");
        fs::copy("/bin/true", &of_root).unwrap();
        fs::set_permissions(&of_root, fs::Permissions::from_mode(0o4755)).unwrap();
        let found = examine(&[of_root.clone().into_os_string()]);
        assert_eq!(found[0].state, State::Note);
        let command = found[0].command.as_deref().unwrap_or_default();
        let by_kernel = cfg!(feature = "bpf") && Path::new("/sys/kernel/btf/vmlinux").exists();
        let ways = match by_kernel && nix::unistd::geteuid().is_root() {
            true => "alcc bpf load && alcc attach --port 443",
            false => "alcc proxy",
        };
        assert!(command.starts_with(ways), "{command}");
    }
}
