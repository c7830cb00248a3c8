// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A program under `alcc run` behaves as it does over plain TCP: every way to write, wait,
//! duplicate, pass, fork and close.
//!
//! The program is `alcc/preload/tests/c`; a plain run of each case is the oracle.
//! What hands a connection over runs also with the limits that the kernel keeps, if root can load them.
//!
//! `ALCC_CASE=NAME` runs one case, `ALCC_ORACLE=1` compares two plain runs instead, to see whether
//! the oracle itself is steady.
mod case;
mod client;
#[path = "../../../bpf/tests/support/mod.rs"]
mod controls;
#[path = "../support/kernel.rs"]
mod kernel;
mod program;
#[path = "../support/lacks.rs"]
mod support;

use alcc_cc::Registry;
use case::Case;
use program::{How, Program};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A window of two segments shuts at nearly every write; the recommended algorithm is what users
/// run.
const ALGORITHMS: [&str; 2] = ["fixed:window=2", "verus"];
/// For what no algorithm may change: those that differ most in when they call and what they keep.
const MORE: [&str; 4] = ["fixed:window=2", "verus", "budget", "sprout"];

/// Control of a case: algorithm and enforcement.
type Pair<'a> = (&'a str, &'a str);

fn gated<'a>(algorithms: impl IntoIterator<Item = &'a str>) -> Vec<Pair<'a>> {
    algorithms
        .into_iter()
        .map(|cc| (cc, "gate+pacing"))
        .collect()
}

/// Differences between the plain run of the case and the controlled ones. Every second run uses the
/// hardened program.
fn differences(program: &Program, case: &Case, pairs: &[Pair<'_>]) -> Vec<String> {
    let plain = program.run(case, &How::Plain { hardened: false });
    let mut wrong = Vec::new();
    if let Some(why) = plain.broken(case) {
        return vec![format!("plainly (so the test is wrong): {why}")];
    }
    if std::env::var_os("ALCC_ORACLE").is_some() {
        let again = program.run(case, &How::Plain { hardened: true });
        return again.unlike(&plain, case);
    }
    for (&(cc, enforce), hardened) in pairs.iter().zip([false, true].into_iter().cycle()) {
        let how = How::Under {
            cc,
            enforce,
            hardened,
        };
        let under = program.run(case, &how);
        wrong.extend(
            under
                .unlike(&plain, case)
                .into_iter()
                .chain(under.uncontrolled(case, cc))
                .map(|why| format!("{why}\n    {}", under.command)),
        );
    }
    wrong
}

fn group(name: &str) {
    let built = if name == "streams" {
        program::built_with_streams()
    } else {
        program::built()
    };
    let Some(program) = built else {
        return;
    };
    let algorithms: &[&'static str] = match name {
        "stdio" | "streams" => &MORE,
        _ => &ALGORITHMS,
    };
    let cases = cases(program, name);
    compare(program, &cases, |case| {
        let all = algorithms.iter().copied();
        gated(all.chain(case.algorithm.as_deref()))
    });
}

fn cases(program: &Program, group: &str) -> Vec<Case> {
    let only = std::env::var("ALCC_CASE").ok();
    let mut cases = program.cases();
    cases.retain(|case| case.group == group);
    cases.retain(|case| only.as_ref().is_none_or(|one| *one == case.name));
    assert!(only.is_some() || !cases.is_empty(), "no group {group}");
    cases
}

fn compare<'a>(
    program: &Program,
    cases: &'a [Case],
    pairs: impl Fn(&'a Case) -> Vec<Pair<'a>> + Sync,
) {
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    for why in differences(program, case, &pairs(case)) {
                        wrong
                            .lock()
                            .unwrap()
                            .push(format!("{} / {}: {why}", case.group, case.name));
                    }
                }
            });
        }
    });
    let mut wrong = wrong.into_inner().unwrap();
    wrong.sort();
    assert!(
        wrong.is_empty(),
        "{} differences:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

macro_rules! groups {
    ($($name:ident)*) => { $(#[test] fn $name() { group(stringify!($name).trim_end_matches('_')); })* };
}

groups! { write edge wait epoll block descriptor close process exec thread connect limit serve spawn alone error stdio streams }

/// A limit that the kernel keeps must not go with the connection to another process.
#[test]
fn limits_in_the_kernel() {
    let Some(program) = program::built() else {
        return;
    };
    let Some(_alone) = kernel::loaded() else {
        return;
    };
    let mut cases: Vec<_> = ["descriptor", "exec"]
        .into_iter()
        .flat_map(|group| cases(program, group))
        .collect();
    // A control that is selected below leaves no place for these.
    cases.retain(|case| case.under.is_none());
    for case in &mut cases {
        case.gated = false;
    }
    compare(program, &cases, |_| {
        vec![("copa", "bpf"), ("copa", "kernel")]
    });
}

/// An algorithm is created on the stack of the first thread that writes.
#[test]
fn every_algorithm_on_a_small_stack() {
    let Some(program) = program::built() else {
        return;
    };
    let registry = Registry::builtin();
    let all: Vec<_> = registry.iter().map(|algorithm| algorithm.name).collect();
    let mut cases = program.cases();
    cases.retain(|case| ["smallest-stack", "painted-stack"].contains(&&*case.name));
    assert_eq!(cases.len(), 2);
    for mut case in cases {
        case.gated = false;
        let wrong = differences(program, &case, &gated(all.iter().copied()));
        assert!(wrong.is_empty(), "{}: {}", case.name, wrong.join("\n"));
    }
}
