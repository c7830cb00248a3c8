// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The interposed calls, one file per use of descriptors. Each looks for the connection of the
//! descriptor and, if there is none, makes the real call.
mod descriptors;
mod open;
mod options;
pub(crate) mod processes;
mod read;
pub(crate) mod stdio;
mod wait;
mod write;

use crate::epoll::{Epoll, EpollFile};
use crate::process::{self, Process};
use crate::table::Known;
use alcc_socket::{
    Attached, Conn, Inherited, ReentrancyGuard, Runtime, Waker, errno, on_alternate_stack,
    set_errno,
};
use libc::{c_int, c_long, epoll_event};
use std::sync::Arc;

type Controlled = (Arc<Conn<Epoll>>, &'static Arc<Runtime<Epoll>>);

/// Runs `f` and restores the program's errno.
fn preserving_errno<T>(f: impl FnOnce() -> T) -> T {
    let before = errno();
    let result = f();
    set_errno(before);
    result
}

/// The state of a descriptor, found without side effects.
enum Lookup {
    Nothing,
    Other,
    Socket,
    Controlled(Arc<Conn<Epoll>>),
}

fn lookup(process: &Process, fd: c_int) -> Option<Lookup> {
    let known = process.table.get(fd, |known| match known {
        Known::Nothing | Known::Epoll(_) => Lookup::Nothing,
        Known::Other | Known::Taken { .. } => Lookup::Other,
        Known::Socket { .. } => Lookup::Socket,
        Known::Controlled(conn) => Lookup::Controlled(Arc::clone(conn)),
    });
    // A descriptor in a range that was never used has no slot yet. Making one takes memory, for
    // which a handler that has interrupted our allocator would wait forever.
    known.or_else(|| {
        let outside = !ReentrancyGuard::is_held();
        outside.then(|| process.table.update(fd, |_| Lookup::Nothing))?
    })
}

/// The connection of a descriptor, taken under control now if it should be.
fn controlled(fd: c_int) -> Option<Controlled> {
    let process = process::current()?;
    match lookup(process, fd)? {
        Lookup::Other => return None,
        Lookup::Controlled(conn) => {
            let runtime = process.running()?;
            // The kernel does all, and no call is worth one of ours.
            if conn.passes(runtime) {
                return None;
            }
            if conn.is_same_socket(fd) {
                return Some((conn, runtime));
            }
            // The descriptor was closed, and its number reused, unnoticed.
            process.table.clear(fd);
        }
        Lookup::Nothing | Lookup::Socket => {}
    }
    // A handler's alternate stack is too small for building a connection. The next write will do
    // it.
    if ReentrancyGuard::is_held() || on_alternate_stack() {
        return None;
    }
    attach(process, fd)
}

/// True if it is a TCP socket that is not connected, as far as was seen.
fn is_unconnected(fd: c_int) -> bool {
    let known = process::current().and_then(|process| lookup(process, fd));
    matches!(known, Some(Lookup::Socket))
}

/// The connection of a descriptor if it is already under control.
fn controlled_already(fd: c_int) -> Option<Controlled> {
    let process = process::current()?;
    match lookup(process, fd)? {
        Lookup::Controlled(conn) if conn.is_same_socket(fd) => {
            process.running().map(|runtime| (conn, runtime))
        }
        _ => None,
    }
}

/// The socket of a descriptor is about to be passed to another process.
fn lent(fd: c_int) {
    shared(fd, |conn, fd| conn.lend(fd, true));
}

/// The socket may have other holders from now on, for which `prepare` sets its options.
fn shared(fd: c_int, prepare: impl FnOnce(&Conn<Epoll>, c_int)) {
    preserving_errno(|| {
        if let Some((conn, runtime)) = controlled_already(fd) {
            runtime.shares();
            runtime.guarded(|| prepare(&conn, fd));
        }
    });
}

/// A child is about to be made. It may keep any of our sockets and exec another program.
pub(crate) fn lent_to_a_child() {
    if let Some(process) = process::current() {
        process.shares();
        if process.running().is_some() {
            let all = process.table.all();
            all.for_each(|fd| shared(fd, |conn, fd| conn.lend(fd, outlives_exec(fd))));
        }
    }
}

/// True if another program in this process's place has the descriptor, too.
fn outlives_exec(fd: c_int) -> bool {
    // SAFETY: numbers only.
    let flags = unsafe { libc::syscall(libc::SYS_fcntl, fd, libc::F_GETFD) };
    flags >= 0 && flags & c_long::from(libc::FD_CLOEXEC) == 0
}

/// This process is about to exec another program, perhaps without our library.
fn handed_over() {
    let Some(process) = process::current() else {
        return;
    };
    if process.running().is_some() {
        let kept = process.table.all().filter(|fd| outlives_exec(*fd));
        kept.for_each(|fd| shared(fd, Conn::hand_over));
    }
}

fn attach(process: &'static Process, fd: c_int) -> Option<Controlled> {
    preserving_errno(|| {
        let taken = Known::Taken {
            epoll: Epoll::default(),
        };
        let (before, epoll) = match process.table.set(fd, taken)? {
            Known::Socket { outbound, epoll } => {
                let pacing = None;
                (Inherited { outbound, pacing }, epoll)
            }
            Known::Taken { epoll } => (Inherited::default(), epoll),
            _ => {
                let inherited = process.parent.and_then(|parent| inherited(parent, fd));
                if inherited.is_some() {
                    process.shares();
                }
                let (before, registrations) = inherited.unwrap_or_default();
                (before, registered_before(process, registrations))
            }
        };
        let attached = match process.runtime() {
            Some(runtime) => runtime.attach(fd, before, epoll),
            None => Attached::LeftAlone,
        };
        match attached {
            Attached::Controlled(conn) => {
                let now = Known::Controlled(Arc::clone(&conn));
                let runtime = process.running()?;
                if let Some(Known::Taken { epoll }) = process.table.set(fd, now) {
                    runtime.guarded(|| conn.add_fd(fd, epoll).ok());
                }
                Some((conn, runtime))
            }
            Attached::NotConnected(epoll) => {
                let outbound = before.outbound;
                let now = Known::Socket { outbound, epoll };
                if let Some(Known::Taken { epoll: meanwhile }) = process.table.set(fd, now) {
                    process.table.update(fd, |known| {
                        if let Known::Socket { epoll, .. } = known {
                            epoll.merge(meanwhile);
                        }
                    });
                }
                None
            }
            Attached::LeftAlone => {
                process.table.set(fd, Known::Other);
                None
            }
        }
    })
}

/// Descriptors of an epoll instance, the descriptor registered there, and its event.
type Inheritable = (Vec<c_int>, c_int, epoll_event);

/// The parent's state of an inherited connection, with its registrations.
fn inherited(parent: &Process, fd: c_int) -> Option<(Inherited, Vec<Inheritable>)> {
    let known = parent.table.get_in_child(fd, |known| match known {
        Known::Socket { outbound, epoll } if outbound.is_some() || epoll.is_registered() => {
            let outbound = *outbound;
            let before = Inherited {
                outbound,
                pacing: None,
            };
            Some((before, epoll.in_child()))
        }
        Known::Controlled(conn) if conn.is_same_socket(fd) => Some(conn.inherited(Epoll::in_child)),
        _ => None,
    })?;
    known.or_else(|| parent.parent.and_then(|older| inherited(older, fd)))
}

/// The registrations that a child inherits from its parent.
fn registered_before(process: &Process, registrations: Vec<Inheritable>) -> Epoll {
    let mut epoll = Epoll::default();
    for (fds, fd, event) in registrations {
        let Some((&first, more)) = fds.split_first() else {
            continue;
        };
        let file = epoll_file(process, first);
        for &fd in more {
            file.add(fd);
        }
        epoll.record(&file, libc::EPOLL_CTL_ADD, fd, Some(event), false);
    }
    epoll
}

/// The epoll instance of a descriptor, if known, or else a new one.
fn epoll_file(process: &Process, epfd: c_int) -> Arc<EpollFile> {
    let known = process.table.get(epfd, |known| match known {
        Known::Epoll(file) => Some(Arc::clone(file)),
        _ => None,
    });
    known.flatten().unwrap_or_else(|| EpollFile::new(epfd))
}

/// Records that the kernel has accepted `epfd` for this epoll instance.
fn epoll_found(process: &Process, epfd: c_int, file: &Arc<EpollFile>) {
    let known = process
        .table
        .get(epfd, |known| matches!(known, Known::Epoll(_)));
    if known != Some(true) {
        preserving_errno(|| replace_known(process, epfd, Known::Epoll(Arc::clone(file))));
    }
}

/// A descriptor was created, so the earlier entry of its number is stale. `outbound` is `Some` for
/// a TCP socket, with true or false if it is known who opened the connection. `None` if it may be
/// any kind of descriptor.
fn fd_created(fd: c_int, outbound: Option<Option<bool>>) {
    if fd < 0 {
        return;
    }
    if let Some(process) = process::current() {
        preserving_errno(|| {
            let known = outbound.map_or(Known::Nothing, |outbound| Known::Socket {
                outbound,
                epoll: Epoll::default(),
            });
            replace_known(process, fd, known);
        });
    }
}

/// Replaces the entry of a number that now refers to another file.
fn replace_known(process: &Process, fd: c_int, now: Known) {
    let before = match now {
        Known::Nothing => process.table.clear(fd),
        now => process.table.set(fd, now).unwrap_or_default(),
    };
    match (before, process.running()) {
        (Known::Controlled(conn), Some(runtime)) => {
            runtime.guarded(|| conn.close(runtime, fd));
        }
        (Known::Epoll(file), _) => file.remove(fd),
        _ => {}
    }
}

/// Records a registration of a descriptor that is not controlled, or not yet. A socket may be
/// registered before it is connected, and an edge-triggered program registers it only once.
fn epoll_registered(
    process: &Process,
    file: &Arc<EpollFile>,
    op: c_int,
    fd: c_int,
    event: Option<epoll_event>,
) {
    let keeps = |known: &Known| match known {
        Known::Socket { .. } | Known::Taken { .. } => Some(None),
        Known::Controlled(conn) => Some(Some(Arc::clone(conn))),
        Known::Nothing | Known::Other | Known::Epoll(_) => None,
    };
    match process.table.get(fd, keeps).flatten() {
        None => {}
        Some(None) => {
            process.table.update(fd, |known| {
                if let Known::Socket { epoll, .. } | Known::Taken { epoll } = known {
                    epoll.record(file, op, fd, event, false);
                }
            });
        }
        // Another thread took it under control in the meantime.
        Some(Some(conn)) => {
            let Some(runtime) = process.running() else {
                return;
            };
            runtime.guarded(|| {
                conn.with_waker(|waker, shut| {
                    waker.record(file, op, fd, event, false);
                    if shut {
                        waker.on_blocked();
                    }
                });
            });
        }
    }
}
