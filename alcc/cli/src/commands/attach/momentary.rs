// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `alcc attach` without BPF: a brief descriptor of each socket, by pidfd_getfd(2).
//!
//! It works for existing sockets of processes that this user can trace. Their earlier control is not
//! recorded.
use super::matching::{Matching, found};
use alcc_bpf::{BpfError, Found, Selection};
use alcc_sys::Process;
use alcc_sys::TcpSocket;
use std::io;
use std::os::fd::AsRawFd;

/// True if BPF is not available for this reason, but a descriptor may work.
pub(super) fn is_worth_a_try(why: &BpfError) -> bool {
    matches!(
        why,
        BpfError::NotBuilt | BpfError::Forbidden { .. } | BpfError::NoBtf | BpfError::NoJit
    )
}

/// Selects `control` for the matching sockets; `None` only returns them.
pub(super) fn attach(selection: &Selection, control: Option<&str>) -> Result<Vec<Found>, BpfError> {
    let look = Matching::new(selection).look()?;
    let holders = look.holders(&look.sockets);
    let one = |socket: &TcpSocket| {
        let holders = holders.get(&u64::from(socket.inode));
        if holders.is_none() && !look.is_of_any_process() {
            return None;
        }
        let Some(control) = control else {
            return Some(found(socket, None));
        };
        let Some(holders) = holders else {
            let why = io::Error::from_raw_os_error(nix::libc::EPERM);
            return Some(found(socket, Some(why.to_string())));
        };
        // `None`: it was closed meanwhile.
        holders.iter().find_map(|holder| {
            match switch(holder.pid, holder.fd, socket.cookie, control) {
                Ok(()) => Some(found(socket, None)),
                Err(e) if is_gone(&e) => None,
                Err(e) => Some(found(socket, Some(e.to_string()))),
            }
        })
    };
    Ok(look.sockets.iter().filter_map(one).collect())
}

/// True if the process no longer holds the socket.
fn is_gone(why: &io::Error) -> bool {
    matches!(
        why.raw_os_error(),
        Some(nix::libc::EBADF | nix::libc::ESRCH)
    )
}

fn switch(pid: u32, fd: i32, cookie: u64, control: &str) -> io::Result<()> {
    let socket = Process::open(pid)?.descriptor(fd)?;
    if alcc_sys::cookie(socket.as_raw_fd()) != Some(cookie) {
        return Err(io::Error::from_raw_os_error(nix::libc::EBADF));
    }
    alcc_sys::set_under(socket.as_raw_fd(), control).map_err(io::Error::from_raw_os_error)
}
