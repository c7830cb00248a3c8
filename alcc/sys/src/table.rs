// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A table of the descriptors of a process. A look-up of an unknown descriptor costs three loads.
use crate::reentrancy::ReentrancyGuard;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{PoisonError, RwLock, TryLockError, TryLockResult};

const PAGE: usize = 1024;
const PAGES: usize = 1024;

/// Number of attempts in a signal handler. Another thread releases the lock within this time; the
/// interrupted thread never would.
const MAX_TRIES: usize = 1000;

type Page<T> = [RwLock<T>; PAGE];

/// A page is allocated when a descriptor in its range is first used, and never freed, nor is the
/// table. The table belongs to one process: a child has a copy that some thread may have been
/// changing, so it makes its own.
///
/// Allocated on the heap directly, because a call may come from a signal handler on a stack of 16
/// KiB without a guard page (Python's), which arrays of this size overflowed on their way to the
/// heap.
pub struct Table<T>(Box<[AtomicPtr<Page<T>>]>);

fn page_and_index(fd: RawFd) -> Option<(usize, usize)> {
    let fd = usize::try_from(fd).ok()?;
    (fd < PAGE * PAGES).then_some((fd / PAGE, fd % PAGE))
}

/// Takes a lock. It is held only for the time of a look-up, but a signal handler that has
/// interrupted its holder would wait forever. So the number of attempts is limited, and the result
/// is `None`, as for an unknown descriptor.
fn locked<G>(
    wait: impl FnOnce() -> G,
    mut attempt: impl FnMut() -> TryLockResult<G>,
) -> Option<(G, Option<ReentrancyGuard>)> {
    // A handler that interrupts this thread from here on finds the guard held.
    let reentrancy = ReentrancyGuard::enter();
    if reentrancy.is_some() {
        return Some((wait(), reentrancy));
    }
    (0..MAX_TRIES).find_map(|_| match attempt() {
        Ok(guard) => Some((guard, None)),
        Err(TryLockError::Poisoned(guard)) => Some((guard.into_inner(), None)),
        Err(TryLockError::WouldBlock) => {
            std::hint::spin_loop();
            None
        }
    })
}

impl<T: Default> Table<T> {
    /// An empty table.
    #[expect(clippy::new_without_default, reason = "8 KiB are nobody's default")]
    pub fn new() -> Self {
        Self((0..PAGES).map(|_| AtomicPtr::default()).collect())
    }

    fn slot(&self, fd: RawFd) -> Option<&RwLock<T>> {
        let (page, index) = page_and_index(fd)?;
        // SAFETY: null or a page that was leaked by `make`.
        unsafe { self.0[page].load(Ordering::Acquire).as_ref() }.map(|page| &page[index])
    }

    fn make(&self, fd: RawFd) -> Option<&RwLock<T>> {
        let page = &self.0[page_and_index(fd)?.0];
        if page.load(Ordering::Acquire).is_null() {
            let slots: Box<[_]> = (0..PAGE).map(|_| RwLock::new(T::default())).collect();
            let fresh = Box::into_raw(slots).cast::<Page<T>>();
            let (old, ok) = (std::ptr::null_mut(), Ordering::AcqRel);
            if page
                .compare_exchange(old, fresh, ok, Ordering::Acquire)
                .is_err()
            {
                // SAFETY: no other thread has seen `fresh`.
                drop(unsafe { Box::from_raw(fresh) });
            }
        }
        self.slot(fd)
    }

    /// Looks a descriptor up; `None` if it was never set. `f` must do nothing but look, because the
    /// slot is locked.
    pub fn get<R>(&self, fd: RawFd, f: impl FnOnce(&T) -> R) -> Option<R> {
        let slot = self.slot(fd)?;
        let wait = || slot.read().unwrap_or_else(PoisonError::into_inner);
        let (known, _inside) = locked(wait, || slot.try_read())?;
        Some(f(&known))
    }

    /// Looks a descriptor up in a child's copy of its parent's table. A slot that a thread was
    /// changing at the fork stays locked forever.
    pub fn get_in_child<R>(&self, fd: RawFd, f: impl FnOnce(&T) -> R) -> Option<R> {
        self.slot(fd)?.try_read().ok().map(|known| f(&known))
    }

    /// Changes an entry; `None` beyond the size of the table. `f` must do nothing else, because the
    /// slot is locked.
    pub fn update<R>(&self, fd: RawFd, f: impl FnOnce(&mut T) -> R) -> Option<R> {
        let slot = self.make(fd)?;
        let wait = || slot.write().unwrap_or_else(PoisonError::into_inner);
        let (mut known, _inside) = locked(wait, || slot.try_write())?;
        Some(f(&mut known))
    }

    /// Sets an entry and returns the earlier one; `None` beyond the size of the table.
    pub fn set(&self, fd: RawFd, known: T) -> Option<T> {
        self.update(fd, |slot| std::mem::replace(slot, known))
    }

    /// Resets an entry and returns the earlier one.
    pub fn clear(&self, fd: RawFd) -> T {
        // This must not allocate a page.
        let some = self.slot(fd).and_then(|_| self.set(fd, T::default()));
        some.unwrap_or_default()
    }

    /// Every descriptor that may have an entry.
    pub fn all(&self) -> impl Iterator<Item = RawFd> + '_ {
        (0..PAGES).flat_map(move |page| {
            let made = !self.0[page].load(Ordering::Acquire).is_null();
            (0..if made { PAGE } else { 0 }).map(move |index| (page * PAGE + index) as RawFd)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::time::{Duration, Instant};

    #[test]
    fn nothing_is_lost_where_threads_meet() {
        let table = Table::<Vec<u64>>::new();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let table = &table;
                scope.spawn(move || {
                    for i in 0..20_000 {
                        let added = table.update(7, |all| all.push(thread * 20_000 + i));
                        assert!(added.is_some() && table.get(7, Vec::is_empty) == Some(false));
                    }
                });
            }
        });
        let mut all = table.clear(7);
        all.sort_unstable();
        assert!(all.into_iter().eq(0..80_000));
        assert_eq!(table.get(7, Vec::len), Some(0));
        // Elsewhere nothing was made.
        assert_eq!(table.get(5000, Vec::len), None);
        assert!(table.clear(5000).is_empty() && table.all().count() == PAGE);
        assert!(table.set(-1, vec![1]).is_none() && table.set(1 << 20, vec![1]).is_none());
    }

    #[test]
    fn a_handler_that_interrupts_the_holder_does_not_wait() {
        let table = Table::<u32>::new();
        let inner = table.update(3, |slot| {
            *slot = 1;
            // As from a signal handler: on the same thread, in the middle.
            (
                table.get(3, |known| *known),
                table.update(4, |other| *other = 9),
            )
        });
        assert_eq!(inner, Some((None, Some(()))));
        assert_eq!(table.get(4, |known| *known), Some(9));
    }

    #[test]
    fn a_handler_waits_a_little_for_another_thread() {
        let (table, held) = (Table::<u32>::new(), AtomicBool::new(false));
        table.set(3, 5);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..200_000 {
                    table.update(3, |_| held.store(true, Ordering::Relaxed));
                }
            });
            while !held.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
            let _inside = ReentrancyGuard::enter().unwrap();
            // A holder that has lost its core holds for long: then a look gives up, and the next
            // one succeeds.
            let until = Instant::now() + Duration::from_secs(10);
            let mut seen = 0;
            while seen < 1000 {
                assert!(Instant::now() < until, "{seen} looks succeeded");
                seen += u32::from(table.get(3, |known| *known).is_some());
            }
        });
    }
}
