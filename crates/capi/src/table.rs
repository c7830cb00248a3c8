// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Descriptor to stream.
use alcc_socket::own::{Options, Stream};
use libc::c_int;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, RwLock};
use std::time::Duration;

/// What we know of a descriptor.
#[derive(Clone)]
pub(crate) struct Entry {
    /// The process that made it.
    pub(crate) pid: u32,
    pub(crate) what: What,
    /// Set for this descriptor alone.
    pub(crate) options: Options,
    pub(crate) patience: Option<Duration>,
}

#[derive(Clone)]
pub(crate) enum What {
    /// Being connected: a stream at its first write.
    Pending,
    Stream(Arc<Stream>),
}

const PAGE: usize = 1024;
const PAGES: usize = 1024;

type Slot = RwLock<Option<Entry>>;
type Page = [Slot; PAGE];

/// Pages are made when a descriptor in their range is first used, and stay.
static TABLE: [AtomicPtr<Page>; PAGES] = [const { AtomicPtr::new(std::ptr::null_mut()) }; PAGES];

fn slot(fd: c_int) -> Option<&'static Slot> {
    let fd = usize::try_from(fd).ok()?;
    // SAFETY: null or a page that was leaked by `make`.
    let page = unsafe { TABLE.get(fd / PAGE)?.load(Ordering::Acquire).as_ref() };
    page.map(|page| &page[fd % PAGE])
}

fn make(fd: c_int) -> Option<&'static Slot> {
    let page = TABLE.get(usize::try_from(fd).ok()? / PAGE)?;
    if page.load(Ordering::Acquire).is_null() {
        let fresh = Box::into_raw(Box::new([const { RwLock::new(None) }; PAGE]));
        let (none, done) = (std::ptr::null_mut(), Ordering::AcqRel);
        if page
            .compare_exchange(none, fresh, done, Ordering::Acquire)
            .is_err()
        {
            // SAFETY: nobody else has seen `fresh`.
            drop(unsafe { Box::from_raw(fresh) });
        }
    }
    slot(fd)
}

/// The entry of a descriptor. A slot that is being changed (the descriptor is being closed by another thread, or was when this
/// process was forked) counts as none.
pub(crate) fn find(fd: c_int) -> Option<Entry> {
    slot(fd)?.try_read().ok()?.clone()
}

/// Puts an entry behind a descriptor, or takes it away; gives back what was there. False where there is no place.
pub(crate) fn set(fd: c_int, entry: Option<Entry>) -> (bool, Option<Entry>) {
    let slot = if entry.is_some() { make(fd) } else { slot(fd) };
    match slot.and_then(|slot| slot.try_write().ok()) {
        Some(mut slot) => (true, std::mem::replace(&mut *slot, entry)),
        None => (entry.is_none(), None),
    }
}
