// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Torture, as curl does it: each function that the program or our library calls fails once, with
//! each plausible errno, at its first call, its second, and so on. The program then behaves as over
//! plain TCP, or ends with an error of its own: it is never ended by a signal, never hangs, and
//! what arrives is the beginning of what was sent. Where only our library calls the function the
//! program must not notice at all.
//!
//! A few points run here; `make soak` runs them all: `cargo test --test torture -- --ignored
//! --nocapture`.
mod errors;
mod program;
#[path = "../support/lacks.rs"]
mod support;

use errors::ERRORS;
use program::{Ended, Injection, Program, Tortured};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of calls in a row up to which each one is tried; after that only the 2^k-th.
const EACH: u32 = 12;

const WAITS: [&str; 6] = [
    "poll",
    "ppoll",
    "select",
    "pselect",
    "epoll_wait",
    "epoll_pwait",
];

/// The fault of a run, if there is one.
fn verdict(plain: &BTreeMap<String, u32>, point: &Injection, ran: &Ended) -> Option<String> {
    let sane = ran.insane();
    // A program that never has to wait over loopback waits under control.
    let theirs = plain.contains_key(point.call) || WAITS.contains(&point.call);
    let noticed = !theirs && !ran.is_perfect();
    let why = match (sane, noticed) {
        (Some(why), _) => why,
        (None, true) => "the program itself never calls it, but noticed".to_owned(),
        (None, false) => return None,
    };
    Some(format!(
        "{} #{} with errno {}: {why}: {ran}\n    {}",
        point.call, point.n, point.errno, ran.command
    ))
}

/// All points of one program at which a call was made; how many, and what went wrong.
fn torture(program: &Program, tortured: &Tortured, most: Option<u32>) -> (usize, Vec<String>) {
    let plain = program.calls(tortured, false);
    let ours = program.calls(tortured, true);
    let lines: Vec<(&str, i32)> = ERRORS
        .iter()
        .filter(|(call, _)| ours.contains_key(*call))
        .flat_map(|(call, errors)| {
            let errors = if most.is_some() {
                &errors[..errors.len().min(2)]
            } else {
                *errors
            };
            errors.iter().map(move |errno| (*call, *errno))
        })
        .collect();
    let (next, points) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let wrong = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(&(call, errno)) = lines.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let mut n = 1;
                    while most.is_none_or(|most| n <= most) {
                        let point = Injection { call, n, errno };
                        let ran = program.run(tortured, Some(&point), true);
                        if !ran.fired && ran.insane().is_none() {
                            break;
                        }
                        points.fetch_add(1, Ordering::Relaxed);
                        wrong.lock().unwrap().extend(verdict(&plain, &point, &ran));
                        n = if n < EACH { n + 1 } else { n * 2 };
                    }
                }
            });
        }
    });
    let mut wrong = wrong.into_inner().unwrap();
    wrong.sort();
    (points.into_inner(), wrong)
}

fn run(which: &[&str], most: Option<u32>) {
    let Some(program) = program::built() else {
        return;
    };
    let only = std::env::var("ALCC_CASE").ok();
    let mut wrong = Vec::new();
    for tortured in program.all() {
        let chosen = only.as_ref().map_or_else(
            || which.contains(&tortured.name),
            |name| *name == tortured.name,
        );
        if chosen && !tortured.is_missing() {
            let (points, found) = torture(program, &tortured, most);
            println!(
                "soak: torture of {}: {points} points, {} wrong",
                tortured.name,
                found.len()
            );
            assert!(points > 0, "nothing was tried on {}", tortured.name);
            wrong.extend(found.iter().map(|why| format!("{}: {why}", tortured.name)));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} points:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn the_first_two_calls_of_each_function() {
    run(&["serve", "serve-in-epoll"], Some(2));
}

#[test]
#[ignore = "half an hour: make soak"]
fn every_call_with_every_error() {
    let all = [
        "serve",
        "serve-in-poll",
        "serve-in-epoll",
        "serve-in-threads",
        "http.server",
        "nginx",
    ];
    run(&all, None);
}

/// The gate cuts a blocking write into several calls, and each of them may fail.
#[test]
fn every_error_at_every_part_of_a_write() {
    let Some(program) = program::built() else {
        return;
    };
    let (said, status) = program.parts();
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("816 cases, 0 wrong"), "{said}");
}

/// The day's clock jumps by an hour at every reading: no code here may depend on it.
#[test]
fn a_clock_that_is_stepped() {
    let Some(program) = program::built() else {
        return;
    };
    for tortured in program.all().iter().filter(|t| t.name.starts_with("serve")) {
        let ran = program.stepped(tortured);
        assert!(
            ran.is_perfect(),
            "{}: {ran}\n    {}",
            tortured.name,
            ran.command
        );
    }
}
