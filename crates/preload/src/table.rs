// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Descriptor to connection. A look-up of a descriptor that is nothing to us costs two loads.
use crate::epoll::Epoll;
use alcc_socket::Conn;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, RwLock};

const PAGE: usize = 1024;
const PAGES: usize = 1024;

type Slot = RwLock<Option<Arc<Conn<Epoll>>>>;
type Page = [Slot; PAGE];

/// Pages are made when a descriptor in their range is first controlled, and stay.
static TABLE: [AtomicPtr<Page>; PAGES] = [const { AtomicPtr::new(std::ptr::null_mut()) }; PAGES];

fn page(fd: RawFd) -> Option<(&'static AtomicPtr<Page>, usize)> {
    let fd = usize::try_from(fd).ok()?;
    Some((TABLE.get(fd / PAGE)?, fd % PAGE))
}

fn slot(fd: RawFd) -> Option<&'static Slot> {
    let (page, index) = page(fd)?;
    // SAFETY: null or a page that was leaked by `make`.
    unsafe { page.load(Ordering::Acquire).as_ref() }.map(|page| &page[index])
}

fn make(fd: RawFd) -> Option<&'static Slot> {
    let (page, _) = page(fd)?;
    if page.load(Ordering::Acquire).is_null() {
        let fresh = Box::into_raw(Box::new([const { RwLock::new(None) }; PAGE]));
        if page
            .compare_exchange(
                std::ptr::null_mut(),
                fresh,
                Ordering::AcqRel,
                Ordering::Acquire,
            )
            .is_err()
        {
            // SAFETY: nobody else has seen `fresh`.
            drop(unsafe { Box::from_raw(fresh) });
        }
    }
    slot(fd)
}

/// The connection behind a descriptor. A slot that is being changed (the descriptor is being closed or accepted by another
/// thread, or was when this process was forked) counts as none.
pub(crate) fn find(fd: RawFd) -> Option<Arc<Conn<Epoll>>> {
    slot(fd)?.try_read().ok()?.clone()
}

/// Puts a connection behind a descriptor, or takes it away.
pub(crate) fn set(fd: RawFd, conn: Option<Arc<Conn<Epoll>>>) {
    let slot = if conn.is_some() { make(fd) } else { slot(fd) };
    if let Some(mut slot) = slot.and_then(|slot| slot.try_write().ok()) {
        *slot = conn;
    }
}
