// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sockets of a selection, without BPF: from the kernel's list, with the processes that hold them.
use crate::holders::{Holder, Namespaces, holders, processes};
use alcc_bpf::{BpfError, Found, Selection};
use alcc_sys::TcpSocket;
use std::collections::{BTreeMap, BTreeSet};

/// A repeated search for them.
pub(super) struct Matching<'a> {
    selection: &'a Selection,
    namespaces: Namespaces,
}

/// The result of one search.
#[derive(Default)]
pub(super) struct Look {
    /// All sockets there, matching or not, by cookie.
    pub(super) there: BTreeSet<u64>,
    /// The matching sockets, if one of the selection's processes holds them.
    pub(super) sockets: Vec<TcpSocket>,
    /// Processes that can hold them; `None`: any.
    pids: Option<Vec<u32>>,
}

impl<'a> Matching<'a> {
    pub(super) fn new(selection: &'a Selection) -> Self {
        Self {
            selection,
            namespaces: Namespaces::default(),
        }
    }

    pub(super) fn look(&mut self) -> Result<Look, BpfError> {
        let mut look = Look::default();
        let mut add = |all: Vec<TcpSocket>| {
            look.there.extend(all.iter().map(|s| s.cookie));
            let fits = |s: &TcpSocket| s.inode != 0 && self.selection.has(s.local.port(), s.peer());
            look.sockets.extend(all.into_iter().filter(fits));
        };
        let Some(processes) = self.selection.processes()? else {
            let this = std::process::id();
            let number = alcc_bpf::namespace_of(this)?;
            add(self.namespaces.sockets(number, &[this], &[])?);
            return Ok(look);
        };
        let mut numbers = BTreeSet::new();
        let mut pids = Vec::new();
        for sockets in &processes {
            let number = sockets.namespace;
            match self.namespaces.sockets(number, &sockets.pids, &[]) {
                // Its processes have ended, and their sockets with them.
                Err(gone) if gone.is_gone() && self.selection.pid.is_none() => continue,
                all => add(all?),
            }
            numbers.insert(number);
            pids.extend(&sockets.pids);
        }
        self.namespaces.keep(&numbers);
        look.pids = Some(pids);
        Ok(look)
    }
}

impl Look {
    /// A socket without a known holder belongs to a process that cannot be inspected.
    pub(super) fn is_of_any_process(&self) -> bool {
        self.pids.is_none()
    }

    /// The processes that hold these sockets, without those that this user cannot inspect.
    pub(super) fn holders(&self, of: &[TcpSocket]) -> BTreeMap<u64, Vec<Holder>> {
        let wanted = of.iter().map(|s| (u64::from(s.inode), ())).collect();
        match &self.pids {
            Some(pids) => holders(&wanted, pids.iter().copied()),
            None => holders(&wanted, processes()),
        }
    }
}

/// In the form of the kernel's iterator.
pub(super) fn found(socket: &TcpSocket, error: Option<String>) -> Found {
    Found {
        port: socket.local.port(),
        peer: socket.peer(),
        control: socket.control.as_str().to_owned(),
        options: alcc_bpf::Options::default(),
        error,
    }
}
