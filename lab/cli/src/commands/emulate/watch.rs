// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The process that ends what a link leaves if all others were killed at once.
//!
//! The kernel gives the orphans of a killed process to the nearest ancestor that adopts them. If that one was killed,
//! too, nobody is left who knows them. So a third process waits until the others have ended. Kills by name, by command
//! line, by process group or by terminal do not reach it, because it has its own. A PID namespace would leave it to the
//! kernel, but programs inside would see other process numbers than those outside (`alcc top`), and need a `/proc` of
//! their own, which containers do not permit.
use crate::failure::Failure;
use alcc_emu::Namespace;
use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::socket::{
    AddressFamily, ControlMessage, ControlMessageOwned, MsgFlags, SockFlag, SockType, recvmsg,
    sendmsg, socketpair,
};
use nix::unistd::{Pid, setsid};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

/// Name of the process.
const NAME: &std::ffi::CStr = c"link-guard";
/// Set for the programs of `--outside` to the id of CMD's network.
pub(super) const LINK: &str = "ALCC_EMULATE_LINK";
const TICK: Duration = Duration::from_millis(20);

/// The end of the processes that are watched, closed by the kernel with the last of them.
pub(super) struct Watched(OwnedFd);

/// The end of the process that watches.
pub(super) struct Watch(OwnedFd);

pub(super) fn pair() -> Result<(Watched, Watch), Failure> {
    let (kind, flags) = (SockType::Stream, SockFlag::SOCK_CLOEXEC);
    let (ours, its) = socketpair(AddressFamily::Unix, kind, None, flags)
        .map_err(|e| Failure::usage(format!("make a pair of sockets: {e}")))?;
    Ok((Watched(ours), Watch(its)))
}

impl Watched {
    /// Names the network of CMD. While it is held by the process that watches, no other has its id.
    pub(super) fn name(&self, inside: &Namespace) {
        let rights = [inside.as_fd().as_raw_fd()];
        let rights = [ControlMessage::ScmRights(&rights)];
        // Without it the link works as well.
        let _ = sendmsg::<()>(
            self.0.as_raw_fd(),
            &[IoSlice::new(b"!")],
            &rights,
            MsgFlags::empty(),
            None,
        );
    }
}

impl Watch {
    /// Becomes the process that watches, and returns when the others and all programs of the link have ended.
    pub(super) fn run(self, patience: Duration) {
        let _ = setsid();
        retitle();
        let _ = std::env::set_current_dir("/");
        // Its parent ends it so, as the last of its children.
        let mut term = SigSet::empty();
        term.add(Signal::SIGTERM);
        let _ = term.thread_unblock();
        let mut inside = None;
        while let Some(received) = receive(&self.0) {
            inside = received.or(inside);
        }
        if let Some(id) = inside.as_ref().and_then(id) {
            end(&id, patience);
        }
    }
}

/// The next message, with the network if it holds one. `None`: all others have ended.
fn receive(link: &OwnedFd) -> Option<Option<File>> {
    let mut byte = [0];
    let mut space = cmsg_space!(RawFd);
    loop {
        let mut parts = [IoSliceMut::new(&mut byte)];
        let flags = MsgFlags::MSG_CMSG_CLOEXEC;
        match recvmsg::<()>(link.as_raw_fd(), &mut parts, Some(&mut space), flags) {
            Err(Errno::EINTR) => {}
            Ok(message) if message.bytes > 0 => {
                let mut rights = message.cmsgs().ok()?.filter_map(|part| match part {
                    ControlMessageOwned::ScmRights(fds) => fds.first().copied(),
                    _ => None,
                });
                // SAFETY: the kernel has just made this descriptor for us.
                return Some(rights.next().map(|fd| unsafe { File::from_raw_fd(fd) }));
            }
            _ => return None,
        }
    }
}

fn id(namespace: &File) -> Option<String> {
    let about = namespace.metadata().ok()?;
    Some(format!("{}:{}", about.dev(), about.ino()))
}

/// Ends all programs of the link: by SIGTERM, then by SIGKILL.
fn end(id: &str, patience: Duration) {
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        let deadline = Instant::now() + patience;
        let mut told = std::collections::BTreeSet::new();
        loop {
            let remaining = programs(id);
            if remaining.is_empty() {
                return;
            }
            if Instant::now() > deadline {
                break;
            }
            for pid in remaining {
                if told.insert(pid) {
                    let _ = kill(pid, signal);
                }
            }
            std::thread::sleep(TICK);
        }
    }
}

/// The programs in the network with this id, or with the id in their environment.
fn programs(id: &str) -> Vec<Pid> {
    let marks = [format!("{LINK}={id}"), format!("ALCC_EMULATED={id}")];
    let is_of_it = |pid: &Pid| {
        // The guard of a nested link ends by itself, after its programs.
        if std::fs::read(format!("/proc/{pid}/comm"))
            .is_ok_and(|n| n.trim_ascii() == NAME.to_bytes())
        {
            return false;
        }
        let network = std::fs::metadata(format!("/proc/{pid}/ns/net"));
        if network.is_ok_and(|about| format!("{}:{}", about.dev(), about.ino()) == id) {
            return true;
        }
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let mut all = environment.split(|byte| *byte == 0);
        all.any(|one| {
            marks
                .iter()
                .any(|mark| OsStr::from_bytes(one) == mark.as_str())
        })
    };
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|e| e.file_name().to_str()?.parse().ok().map(Pid::from_raw));
    pids.filter(is_of_it).collect()
}

/// Changes the name and the command line that other processes see.
fn retitle() {
    let _ = nix::sys::prctl::set_name(NAME);
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Fields 48 and 49, counted from the state, which is the third.
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let mut words = rest
        .split_whitespace()
        .skip(45)
        .map_while(|word| word.parse().ok());
    let (Some(start), Some(end)) = (words.next(), words.next()) else {
        return;
    };
    let (start, end): (usize, usize) = (start, end);
    let len = NAME.to_bytes().len();
    if start == 0 || end < start + len {
        return;
    }
    // SAFETY: the kernel has put the arguments there, on the stack of this process, which has one thread and reads
    // them no more.
    unsafe {
        let at = std::ptr::with_exposed_provenance_mut::<u8>(start);
        at.write_bytes(0, end - start);
        at.copy_from_nonoverlapping(NAME.as_ptr().cast(), len);
    }
}
