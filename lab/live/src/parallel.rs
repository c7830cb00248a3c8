// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Independent pieces of work on several threads.
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// Interval at which [`each_watched`] polls while nothing is ready.
const INTERVAL: Duration = Duration::from_millis(200);

/// Number of processors, the workers if nothing else is said.
pub fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Does `work` with each of `items` on `workers` threads. Gives each result to `done` on the
/// calling thread, in the order in which they are ready. The first error of `done` ends it: what is
/// under way is finished, nothing more is begun.
///
/// # Errors
/// The error of `done`.
pub fn each<T: Sync, R: Send, E>(
    items: &[T],
    workers: usize,
    work: impl Fn(&T) -> R + Sync,
    mut done: impl FnMut(&T, R) -> Result<(), E>,
) -> Result<(), E> {
    each_watched(items, workers, work, |ready| {
        ready.map_or(Ok(()), |(item, result)| done(item, result))
    })
}

/// [`each`], which also calls `done` with nothing now and then while nothing is ready. So it can
/// show how far the work is.
///
/// # Errors
/// The error of `done`.
pub fn each_watched<T: Sync, R: Send, E>(
    items: &[T],
    workers: usize,
    work: impl Fn(&T) -> R + Sync,
    mut done: impl FnMut(Option<(&T, R)>) -> Result<(), E>,
) -> Result<(), E> {
    let (next, ended) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (send, receive) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..workers.clamp(1, items.len().max(1)) {
            let send = send.clone();
            let (next, ended, work) = (&next, &ended, &work);
            scope.spawn(move || {
                while !ended.load(Ordering::Relaxed) {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(i) else { return };
                    // After an error the receiver is gone.
                    if send.send((i, work(item))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(send);
        let result = loop {
            let ready = match receive.recv_timeout(INTERVAL) {
                Ok((i, result)) => Some((&items[i], result)),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => break Ok(()),
            };
            if let Err(e) = done(ready) {
                break Err(e);
            }
        };
        ended.store(true, Ordering::Relaxed);
        result
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_item_is_done_once_whatever_the_number_of_workers() {
        let items: Vec<u64> = (0..100).collect();
        for workers in [0, 1, 3, 200] {
            let mut results = vec![0; items.len()];
            let done = |i: &u64, square| {
                results[*i as usize] += square;
                Ok::<(), ()>(())
            };
            each(&items, workers, |n| n * n, done).unwrap();
            let want: Vec<u64> = items.iter().map(|n| n * n).collect();
            assert_eq!(results, want);
        }
        let none: [u64; 0] = [];
        assert_eq!(each(&none, 3, |n| *n, |_, _| Err("called")), Ok(()));
    }

    /// The work continues until it has been polled twice.
    #[test]
    fn work_that_takes_long_is_asked_about() {
        let asked = AtomicUsize::new(0);
        let work = |_: &()| {
            while asked.load(Ordering::Relaxed) < 2 {
                std::thread::yield_now();
            }
        };
        let mut finished = 0;
        let done = |ready: Option<(&(), ())>| {
            match ready {
                Some(_) => finished += 1,
                None => drop(asked.fetch_add(1, Ordering::Relaxed)),
            }
            Ok::<(), ()>(())
        };
        each_watched(&[(); 3], 2, work, done).unwrap();
        assert_eq!(finished, 3);
    }

    #[test]
    fn an_error_ends_it_early() {
        let items: Vec<u64> = (0..100_000).collect();
        let begun = AtomicUsize::new(0);
        let work = |n: &u64| {
            begun.fetch_add(1, Ordering::Relaxed);
            std::thread::yield_now();
            *n
        };
        let ended = each(
            &items,
            2,
            work,
            |n, _| if *n >= 10 { Err("ten") } else { Ok(()) },
        );
        assert_eq!(ended, Err("ten"));
        assert!(begun.into_inner() < items.len());
    }
}
