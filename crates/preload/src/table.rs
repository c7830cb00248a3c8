// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Descriptor to connection. A look-up of a descriptor that is nothing to us costs three loads.
use crate::epoll::Epoll;
use alcc_socket::Conn;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, RwLock};

/// What we know of a descriptor.
#[derive(Default)]
pub(crate) enum Known {
    /// Nothing.
    #[default]
    Nothing,
    /// Not to be controlled, whatever it is.
    Other,
    /// A socket, perhaps not yet connected, and nothing was written so far.
    Socket {
        /// Connected by this program and not accepted; `None`: it was handed to us.
        outbound: Option<bool>,
        /// Registrations made so far.
        epoll: Epoll,
    },
    /// A controlled connection.
    Controlled(Arc<Conn<Epoll>>),
}

const PAGE: usize = 1024;
const PAGES: usize = 1024;

type Page = [RwLock<Known>; PAGE];

/// Pages are made when a descriptor in their range is first of interest, and stay.
///
/// Made on the heap: a call of ours may come from a signal handler on a stack of 16 KiB without a guard below it (Python's), and
/// arrays of this size on the way to the heap overwrote what lies there.
pub(crate) struct Table(Box<[AtomicPtr<Page>]>);

fn place(fd: RawFd) -> Option<(usize, usize)> {
    let fd = usize::try_from(fd).ok()?;
    (fd < PAGE * PAGES).then_some((fd / PAGE, fd % PAGE))
}

impl Table {
    pub(crate) fn new() -> Self {
        Self((0..PAGES).map(|_| AtomicPtr::default()).collect())
    }

    fn slot(&self, fd: RawFd) -> Option<&RwLock<Known>> {
        let (page, index) = place(fd)?;
        // SAFETY: null or a page that was leaked by `make`.
        unsafe { self.0[page].load(Ordering::Acquire).as_ref() }.map(|page| &page[index])
    }

    fn make(&self, fd: RawFd) -> Option<&RwLock<Known>> {
        let page = &self.0[place(fd)?.0];
        if page.load(Ordering::Acquire).is_null() {
            let slots: Box<[_]> = (0..PAGE).map(|_| RwLock::new(Known::Nothing)).collect();
            let fresh = Box::into_raw(slots).cast::<Page>();
            let (old, ok) = (std::ptr::null_mut(), Ordering::AcqRel);
            if page
                .compare_exchange(old, fresh, ok, Ordering::Acquire)
                .is_err()
            {
                // SAFETY: nobody else has seen `fresh`.
                drop(unsafe { Box::from_raw(fresh) });
            }
        }
        self.slot(fd)
    }

    /// Looks. A slot that is just being changed (closed or accepted by another thread, or we are a signal handler) has
    /// nothing to say: `None`.
    pub(crate) fn look<T>(&self, fd: RawFd, f: impl FnOnce(&Known) -> T) -> Option<T> {
        self.slot(fd)?.try_read().ok().map(|known| f(&known))
    }

    /// Changes. `None` as above.
    pub(crate) fn change<T>(&self, fd: RawFd, f: impl FnOnce(&mut Known) -> T) -> Option<T> {
        self.make(fd)?
            .try_write()
            .ok()
            .map(|mut known| f(&mut known))
    }

    /// Sets, and returns what was known before.
    pub(crate) fn set(&self, fd: RawFd, known: Known) -> Known {
        let slot = if matches!(known, Known::Nothing) {
            self.slot(fd)
        } else {
            self.make(fd)
        };
        slot.and_then(|slot| slot.try_write().ok())
            .map(|mut slot| std::mem::replace(&mut *slot, known))
            .unwrap_or_default()
    }

    /// Every descriptor about which something is known.
    pub(crate) fn all(&self) -> impl Iterator<Item = RawFd> + '_ {
        (0..PAGES).flat_map(move |page| {
            let made = !self.0[page].load(Ordering::Acquire).is_null();
            (0..if made { PAGE } else { 0 }).map(move |index| (page * PAGE + index) as RawFd)
        })
    }
}
