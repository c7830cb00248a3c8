// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sockets of other processes, and the processes that hold them.
use alcc_sys::{Sockets, TcpSocket};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::RawFd;

/// A descriptor of a process.
#[derive(Clone, Copy)]
pub(crate) struct Holder {
    pub(crate) pid: u32,
    pub(crate) fd: RawFd,
}

/// The descriptors of a process and their targets.
pub(crate) fn links(pid: u32) -> impl Iterator<Item = (RawFd, String)> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd"));
    entries.into_iter().flatten().flatten().filter_map(|entry| {
        let fd = entry.file_name().to_str()?.parse().ok()?;
        let link = std::fs::read_link(entry.path()).ok()?;
        Some((fd, link.to_str()?.to_owned()))
    })
}

/// All of these processes that hold these sockets, by inode. A process that steers a socket may hold
/// it only briefly.
pub(crate) fn holders<T>(
    wanted: &BTreeMap<u64, T>,
    pids: impl IntoIterator<Item = u32>,
) -> BTreeMap<u64, Vec<Holder>> {
    let mut found: BTreeMap<u64, Vec<Holder>> = BTreeMap::new();
    for pid in pids {
        for (fd, link) in links(pid) {
            let inode = link
                .strip_prefix("socket:[")
                .and_then(|rest| rest.strip_suffix(']')?.parse().ok());
            if let Some(inode) = inode.filter(|inode| wanted.contains_key(inode)) {
                found.entry(inode).or_default().push(Holder { pid, fd });
            }
        }
    }
    found
}

/// All processes that this user can see.
pub(crate) fn processes() -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The TCP sockets of network namespaces. Each namespace is opened once. An open one stays alive, so
/// call [`Namespaces::keep`] regularly.
#[derive(Default)]
pub(crate) struct Namespaces(BTreeMap<u64, Sockets>);

impl Namespaces {
    /// The sockets in the namespace with this number, to which these processes belong. `noted`: maps of
    /// their earlier control and their options.
    pub(crate) fn sockets(
        &mut self,
        number: u64,
        pids: &[u32],
        noted: &[RawFd],
    ) -> Result<Vec<TcpSocket>, alcc_bpf::BpfError> {
        let failed = |e: io::Error| alcc_bpf::BpfError::Kernel {
            attempt: "list the TCP sockets".into(),
            error: e.to_string(),
        };
        let open = match self.0.entry(number) {
            std::collections::btree_map::Entry::Occupied(open) => open.into_mut(),
            std::collections::btree_map::Entry::Vacant(free) => {
                let opened = alcc_bpf::within(pids, Sockets::open)?;
                free.insert(opened.map_err(failed)?)
            }
        };
        // A kernel that does not report socket storage reports everything else.
        open.dump_noted(noted)
            .or_else(|_| open.dump())
            .map_err(failed)
    }

    /// Keeps these namespaces and closes all others.
    pub(crate) fn keep(&mut self, there: &BTreeSet<u64>) {
        self.0.retain(|number, _| there.contains(number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::MetadataExt;

    /// A process that holds a socket briefly does not hide one that holds it for longer.
    #[test]
    fn all_who_have_a_socket_are_found() {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let copy = socket.try_clone().unwrap();
        let place = format!("/proc/self/fd/{}", socket.as_raw_fd());
        let inode = std::fs::metadata(place).unwrap().ino();
        let found = holders(&BTreeMap::from([(inode, ())]), [std::process::id()]);
        let mut fds: Vec<_> = found[&inode].iter().map(|holder| holder.fd).collect();
        fds.sort_unstable();
        let mut both = [socket.as_raw_fd(), copy.as_raw_fd()];
        both.sort_unstable();
        assert_eq!(fds, both);
    }
}
