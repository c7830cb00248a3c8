// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Operations with a connection's lock held.
use super::{Conn, Inner, Waker};
use crate::controlled::Controlled;
use crate::kernel;
use crate::runtime::Runtime;
use alcc_units::{Bytes, Time};
use std::os::fd::RawFd;

impl Inner {
    /// A descriptor of the connection that is still valid.
    pub(super) fn fd<W: Waker>(&mut self, conn: &Conn<W>) -> Option<RawFd> {
        while let Some(&fd) = self.fds.first() {
            if conn.is_same_socket(fd) {
                return Some(fd);
            }
            self.fds.remove(0);
            conn.waker().on_close(fd);
        }
        None
    }

    /// True if writes are not limited.
    pub(super) fn is_bypassed(&self) -> bool {
        let control = &self.control;
        self.fds.is_empty() || !control.is_in_charge() || !control.enforcement().gate
    }

    /// True if the algorithm runs in the kernel and goes on there after our last descriptor is gone: it limits what is
    /// still to be sent. Not if another process may hold the socket, which would have it for good.
    pub(super) fn stays_in_the_kernel(&self) -> bool {
        self.control.is_resident() && !self.control.is_elsewhere()
    }

    /// Does something that may open the gate, and wakes the program if it did.
    pub(super) fn with_unblock<W: Waker>(
        &mut self,
        conn: &Conn<W>,
        f: impl FnOnce(&mut Controlled),
    ) {
        let was_blocked = self.control.flow.is_blocked();
        f(&mut self.control);
        if was_blocked && !self.control.flow.is_blocked() {
            conn.waker().on_writable(&self.fds);
        }
    }

    /// Executes new commands of `alcc ctl`. Not during a write, whose bytes could not be
    /// attributed; the next write or reading comes soon.
    pub(super) fn apply_commands<W: Waker>(&mut self, conn: &Conn<W>) {
        let commands = self.control.commands();
        if let Some(commands) = commands.filter(|_| !self.writers.are_in_calls()) {
            let fd = self.fd(conn);
            self.with_unblock(conn, |control| control.apply_commands(&commands, fd));
        }
    }

    /// True while a write of a segment would be refused.
    pub(super) fn is_full<W: Waker>(&mut self, conn: &Conn<W>) -> bool {
        let Some(fd) = self.fd(conn).filter(|_| self.control.is_in_charge()) else {
            return false;
        };
        let flow = &self.control.flow;
        let (queued, unsent) = (kernel::queued(fd), kernel::unsent(fd));
        if flow.is_blocked() {
            return !flow.is_writable(queued, unsent);
        }
        let one = Bytes::new(1);
        flow.allows(one, queued, unsent) < one
    }

    pub(super) fn read<W: Waker>(&mut self, runtime: &Runtime<W>, now: Time, conn: &Conn<W>) {
        self.cut = false;
        let first = self.fds.first().copied();
        let report = first.and_then(|fd| self.control.look(fd));
        // Samples may show which socket the descriptor is, so that no further call is needed.
        let fd = match &report {
            Some(report) if report.is_same => Some(report.fd),
            _ => self.fd(conn),
        };
        if let Some(fd) = fd {
            let within = self.writers.are_in_calls();
            self.with_unblock(conn, |control| control.read(fd, now, within, report));
        }
        if fd.is_none() || !self.control.is_in_charge() {
            self.end(runtime, conn);
        }
    }

    /// Ends control: the connection is closed.
    pub(super) fn end<W: Waker>(&mut self, runtime: &Runtime<W>, conn: &Conn<W>) {
        self.fds.clear();
        self.control.end();
        runtime.forget(conn, conn.cookie);
    }
}
