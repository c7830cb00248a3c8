// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Figures that a busy machine makes only worse: the best of a few starts counts.
#![allow(dead_code, reason = "each test file uses its part")]
use std::fmt::Debug;
use std::time::{Duration, Instant};

/// Maximum wait for a processor before the next start, while other tests and builds end.
const PATIENCE: Duration = Duration::from_secs(60);

/// Starts up to `most` times, until `is_right`; that start. If none is, it says what each was.
pub(crate) fn first_right<T: Debug>(
    most: usize,
    mut start: impl FnMut() -> T,
    mut is_right: impl FnMut(&T) -> bool,
) -> T {
    let mut wrong = Vec::new();
    while wrong.len() < most {
        let seen = start();
        if is_right(&seen) {
            return seen;
        }
        println!("start {} of {most}: {seen:?}", wrong.len() + 1);
        wrong.push(seen);
    }
    panic!("none of {most} starts is right: {wrong:?}");
}

/// The same of what a full machine makes better as well as worse. A wrong start fails at once, unless
/// the machine `was_full`. `None`, and said, if that was so in each of them.
pub(crate) fn first_answer<T: Debug>(
    most: usize,
    mut start: impl FnMut() -> T,
    is_right: impl Fn(&T) -> bool,
    was_full: impl Fn(&T) -> bool,
) -> Option<T> {
    for n in 0..most {
        if n > 0 {
            wait_for_a_processor();
        }
        let seen = start();
        if is_right(&seen) {
            return Some(seen);
        }
        assert!(was_full(&seen), "{seen:?}");
        println!("on a full machine: {seen:?}");
    }
    println!("skipped: needs a processor, and had to wait for one in each of {most} starts");
    None
}

/// Until a thread that sleeps is woken in time, over and over for a second. What has to wait for a
/// processor now would only be another start on a full machine.
fn wait_for_a_processor() {
    const NAP: Duration = Duration::from_millis(5);
    const LATE: Duration = Duration::from_millis(2);
    let until = Instant::now() + PATIENCE;
    let in_time = || {
        let began = Instant::now();
        std::thread::sleep(NAP);
        began.elapsed() < NAP + LATE
    };
    while Instant::now() < until && !(0..200).all(|_| in_time()) {}
}
