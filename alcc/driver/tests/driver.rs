// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The loop visits what is due, and threads that wait for one engine wake each other.
use alcc_driver::{
    Activity, Background, BackgroundTask, Driver, Engine, LATE, Next, Shared, TimerSlack, Visit,
    next_id,
};
use alcc_sys::now;
use alcc_units::{Span, Time};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const SLACK: TimerSlack = TimerSlack {
    min: Span::from_micros(250),
    per_item: Span::from_micros(60),
    max: Span::from_millis(3),
};

struct Item {
    id: u64,
    visits: AtomicUsize,
    /// The item ends after this many visits.
    most: usize,
}

impl Visit for Item {
    type Host = Mutex<Vec<u64>>;

    fn id(&self) -> u64 {
        self.id
    }

    fn visit(&self, host: &Self::Host, active: usize) -> Next {
        assert!(active >= 1);
        host.lock().unwrap().push(self.id);
        let visits = self.visits.fetch_add(1, Ordering::Relaxed) + 1;
        (visits < self.most)
            .then(|| now() + Span::from_millis(2))
            .into()
    }
}

#[test]
fn items_are_visited_when_they_are_due_and_adopted_again() {
    let (driver, host) = (Driver::new(SLACK), Mutex::default());
    let item = |id, most| {
        let visits = AtomicUsize::new(0);
        Arc::new(Item { id, visits, most })
    };
    let (first, second) = (item(1, 3), item(2, 1));
    driver.adopt(Arc::clone(&first), Span::from_millis(1));
    driver.adopt(Arc::clone(&second), Span::ZERO);
    // Twice adopted before it is seen is adopted once.
    driver.adopt(Arc::clone(&second), Span::ZERO);
    assert!(!driver.is_idle());
    let until = Instant::now() + Duration::from_secs(10);
    while !driver.is_idle() && Instant::now() < until {
        let next = driver.run_once(&host, None);
        if next.is_some() {
            driver.sleep(next);
        }
    }
    assert_eq!(*host.lock().unwrap(), [2, 1, 1, 1]);
    driver.adopt(second, Span::ZERO);
    driver.run_once(&host, None);
    assert_eq!(host.lock().unwrap().len(), 5);
    assert!(driver.is_idle());
}

/// Counts bytes that come.
struct Bytes {
    from: UnixStream,
    count: usize,
    due: Option<Time>,
}

impl Engine for Bytes {
    /// The number of bytes to wait for; `None` waits forever.
    type Want = Option<usize>;

    fn may_have(&self, want: Self::Want) -> bool {
        want.is_some_and(|want| self.count >= want)
    }

    fn is_passive(want: Self::Want) -> bool {
        want.is_some()
    }

    fn interest(&self, _: Time) -> (i16, Option<Time>) {
        (libc::POLLIN, self.due)
    }

    fn on_wake(&mut self, _: Time, _: Option<Time>, ready: bool) {
        if ready {
            self.count += self.from.read(&mut [0; 16]).unwrap();
        }
    }
}

/// The writing end, and the engine that counts the bytes.
fn bytes() -> (UnixStream, Shared<Bytes>) {
    let (to, from) = UnixStream::pair().unwrap();
    let fd = from.as_raw_fd();
    let engine = Bytes {
        from,
        count: 0,
        due: None,
    };
    (to, Shared::new(engine, fd))
}

#[test]
fn one_thread_sleeps_for_all_and_is_woken_for_sooner_timers() {
    let (mut to, shared) = bytes();
    let shared = shared.with_waker().unwrap();
    let (woken, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for wanted in [1, 2, 3] {
            let (shared, woken, done) = (&shared, &woken, &done);
            scope.spawn(move || {
                let mut state = shared.lock();
                while state.count < wanted {
                    state = shared.sleep(state, Some(wanted), None);
                    woken.fetch_add(1, Ordering::Relaxed);
                }
                done.fetch_add(1, Ordering::Relaxed);
                shared.hand_over(&state);
            });
        }
        for n in 1..=3 {
            to.write_all(b"x").unwrap();
            let until = Instant::now() + Duration::from_secs(10);
            while done.load(Ordering::Relaxed) < n {
                assert!(Instant::now() < until, "{n} bytes have come");
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    });
    // A thread that sleeps without a limit still returns once for a timer.
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut state = shared.lock();
            while state.due.is_none_or(|due| due > now()) {
                state = shared.sleep(state, None, None);
            }
            ended.store(true, Ordering::Relaxed);
        });
        // Waits until the thread sleeps. A panic here would wait for that thread forever.
        let until = Instant::now() + Duration::from_secs(10);
        let mut state = shared.lock();
        while !state.has_leader(now()) && Instant::now() < until {
            drop(state);
            std::thread::sleep(Duration::from_millis(1));
            state = shared.lock();
        }
        assert!(!ended.load(Ordering::Relaxed));
        let slept = state.has_leader(now());
        state.due = Some(now() + Span::from_millis(5));
        assert!(slept, "it does not sleep");
        assert!(!state.has_leader(now()));
        assert!(state.wake_leader(now()) && state.has_leader(now()));
    });
    assert!(ended.load(Ordering::Relaxed));
}

/// A thread that calls often has the lead. One that waits for another event is not woken by what
/// comes for the first; it gets its own event during the calls and after them.
#[test]
fn a_waiting_thread_is_not_woken_for_another_thread() {
    const ENOUGH: usize = 1 << 30;
    let (mut to, shared) = bytes();
    let (woken, heard) = (AtomicUsize::new(0), AtomicUsize::new(0));
    // The results are checked after the other thread has ended, because the scope waits for it.
    let (made, then, during) = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut state = shared.lock();
            for n in [1, 2] {
                while state.count < n * ENOUGH {
                    state = shared.sleep(state, Some(n * ENOUGH), None);
                    woken.fetch_add(1, Ordering::Relaxed);
                }
                heard.store(n, Ordering::Relaxed);
            }
        });
        let hears = |n: usize| heard.load(Ordering::Relaxed) == n;
        let mut call = || {
            let mut state = shared.lock();
            state.on_active(now());
            to.write_all(b"x").unwrap();
            state = shared.sleep(state, None, Some(now() + Span::from_millis(5)));
            shared.hand_over(&state);
        };
        // Calls for at least this time, and longer on a busy machine, because few calls would prove
        // nothing.
        let mut calls = |most: Duration, n: usize| {
            let began = Instant::now();
            let done = |made| hears(n) || (began.elapsed() > most && made >= 50);
            (0..)
                .take_while(|made| !done(*made))
                .map(|_| call())
                .count()
        };
        let made = calls(Duration::from_secs(1), 1);
        let then = woken.load(Ordering::Relaxed);
        shared.lock().count += ENOUGH;
        calls(Duration::from_secs(10), 1);
        let during = hears(1);
        calls(Duration::from_secs(1), 2);
        shared.lock().count += ENOUGH;
        // Either thread may lead by now.
        to.write_all(b"x").unwrap();
        (made, then, during)
    });
    assert!(then * 2 < made, "woken {then} times by {made} calls");
    assert!(during, "it hears of it during the calls");
    assert_eq!(heard.into_inner(), 2);
}

static BACKGROUND: Background = Background::new("alcc-test");

struct Rests {
    id: u64,
    from: UnixStream,
    visits: AtomicUsize,
}

impl BackgroundTask for Rests {
    fn id(&self) -> u64 {
        self.id
    }

    fn visit(&self, _: Time) -> Next {
        self.visits.fetch_add(1, Ordering::Relaxed);
        Next {
            at: None,
            readable: Some(self.from.as_raw_fd()),
        }
    }

    fn is_gone(&self) -> bool {
        false
    }
}

#[test]
fn a_resting_item_is_visited_when_something_comes_and_not_before() {
    let (mut to, from) = UnixStream::pair().unwrap();
    let item = Arc::new(Rests {
        id: next_id(),
        from,
        visits: AtomicUsize::new(0),
    });
    assert!(BACKGROUND.add(Arc::<Rests>::clone(&item), Span::ZERO));
    let visits = |n: usize| {
        let until = Instant::now() + Duration::from_secs(10);
        while item.visits.load(Ordering::Relaxed) < n {
            assert!(Instant::now() < until, "visit {n}");
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    visits(1);
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(item.visits.load(Ordering::Relaxed), 1);
    to.write_all(b"x").unwrap();
    visits(2);
}

/// A loop that is late because its thread had no processor reports how often.
#[test]
fn late_wakeups_are_reported() {
    let (driver, host) = (Driver::new(SLACK), Mutex::default());
    let visits = AtomicUsize::new(0);
    let most = 2;
    driver.adopt(
        Arc::new(Item {
            id: 1,
            visits,
            most,
        }),
        Span::ZERO,
    );
    let reported = Mutex::new((0, 0));
    let report = |activity: Activity| {
        let mut reported = reported.lock().unwrap();
        reported.0 += activity.wakeups;
        reported.1 += activity.late_wakeups;
    };
    // The first call was not planned. The second comes late, as if the thread had waited.
    driver.run_once(&host, Some(&report));
    let late = Duration::from_nanos((SLACK.max + LATE + Span::from_millis(2)).as_nanos());
    std::thread::sleep(late);
    driver.run_once(&host, Some(&report));
    // Nothing was planned any more: no wake-up.
    driver.run_once(&host, Some(&report));
    driver.leave(&report);
    assert_eq!(*reported.lock().unwrap(), (1, 1));
}
