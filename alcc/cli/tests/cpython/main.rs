// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CPython's own tests of its network modules as the oracle: under `alcc run --loopback --outbound` each
//! test must end as it ends without. Every connection in them is then controlled at both ends, in ways
//! that our own tests do not cover.
//!
//! `cargo test -p alcc-cli --test cpython -- test_ssl` runs one module; other modules of CPython's
//! suite can be named too.
#[path = "../support/lacks.rs"]
mod lacks;
mod suite;

use lacks::lacks;
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::Mutex;
use suite::{Form, Outcomes, Python};

/// The longest first.
const MODULES: [&str; 7] = [
    "test_asyncio",
    "test_ssl",
    "test_socket",
    "test_selectors",
    "test_ftplib",
    "test_httpservers",
    "test_socketserver",
];

/// The default algorithm, and a window that is nearly always full.
const FORMS: [Form; 3] = [None, Some("default"), Some("fixed:window=2")];

/// Parallel runs on each core. The tests wait most of the time.
const RUNS_PER_CORE: usize = 3;

/// Number of repetitions, alone and plainly, of a test that ended differently: if it differs from itself it
/// says nothing about us.
const AGAIN: usize = 5;

/// Tests whose own server decodes each piece that it reads by itself: a character of two bytes that
/// TCP brings in two pieces becomes two. Under control they get a second try.
const BY_PIECES: &[&str] = &["test_storlines"];

fn main() {
    if let Err(why) = alcc_emu::available().and_then(|()| alcc_emu::prepare().map(|_| ())) {
        lacks(&format!("namespaces ({why})"));
        return;
    }
    let Some(python) = Python::find() else {
        lacks("CPython's test suite (run scripts/setup test)");
        return;
    };
    let named: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| !a.starts_with('-'))
        .collect();
    let modules: Vec<&str> = if named.is_empty() {
        MODULES.to_vec()
    } else {
        named.iter().map(String::as_str).collect()
    };
    let mut runs = run_all(&python, &modules);
    let mut failed = 0;
    for module in &modules {
        let plain = runs.remove(0);
        for form in FORMS.iter().flatten() {
            let controlled = runs.remove(0);
            let wrong = compare(&python, module, form, [&plain, &controlled]);
            failed += usize::from(!wrong.is_empty());
            let verdict = if wrong.is_empty() { "ok" } else { "FAILED" };
            println!("test {module} {form} ... {verdict}\n{wrong}");
            TOTALS.lock().unwrap().push((form, controlled.report));
        }
    }
    if named.is_empty() {
        failed += usize::from(!really_controlled());
    }
    let passed = modules.len() * (FORMS.len() - 1) + usize::from(named.is_empty()) - failed;
    let word = if failed == 0 { "ok" } else { "FAILED" };
    println!("test result: {word}. {passed} passed; {failed} failed; 0 ignored");
    std::process::exit(i32::from(failed > 0));
}

static TOTALS: Mutex<Vec<(&str, serde_json::Value)>> = Mutex::new(Vec::new());

/// Every module in every form, in this order; several at a time.
fn run_all(python: &Python, modules: &[&str]) -> Vec<Outcomes> {
    let jobs: Vec<(&str, Form)> = modules
        .iter()
        .flat_map(|module| FORMS.map(|form| (*module, form)))
        .collect();
    let waiting = Mutex::new((0..jobs.len()).collect::<VecDeque<_>>());
    let done = Mutex::new(Vec::new());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores * RUNS_PER_CORE {
            scope.spawn(|| {
                loop {
                    let Some(job) = waiting.lock().unwrap().pop_front() else {
                        break;
                    };
                    let (module, form) = jobs[job];
                    let outcomes = python.run(module, form, &[]);
                    println!(
                        "{module:18} {:15} {}",
                        form.unwrap_or("plain"),
                        summary(&outcomes)
                    );
                    done.lock().unwrap().push((job, outcomes));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap();
    done.sort_by_key(|(job, _)| *job);
    done.into_iter().map(|(_, outcomes)| outcomes).collect()
}

fn summary(run: &Outcomes) -> String {
    let count = |what: &str| run.tests.values().filter(|t| t.0 == what).count();
    let (ok, skipped) = (count("ok"), count("skipped"));
    let other = run.tests.len() - ok - skipped;
    let mut line = format!(
        "{ok:5} ok {skipped:4} skipped {other:3} not ok, {:5.1} s",
        run.took.as_secs_f64()
    );
    if !run.report.is_null() {
        let number = |field: &str| run.report[field].as_u64().unwrap_or(0);
        let _ = write!(
            line,
            ", {} connections, gate closed {} times, {} left alone",
            number("connections"),
            number("gate_closed"),
            number("left_alone")
        );
    }
    line
}

/// Differences under control; empty: none.
fn compare(python: &Python, module: &str, form: &'static str, both: [&Outcomes; 2]) -> String {
    let [plain, controlled] = both;
    let mut wrong = String::new();
    for (run, what) in [(plain, "plain"), (controlled, "controlled")] {
        if run.tests.is_empty() {
            let _ = writeln!(
                wrong,
                "the {what} run of {module} did not get to its end ({}):\n{}",
                run.status, run.tail
            );
        }
    }
    if !wrong.is_empty() {
        return wrong;
    }
    let nothing = (String::from("not run"), String::new());
    let mut names: Vec<&String> = plain.tests.keys().chain(controlled.tests.keys()).collect();
    names.sort();
    names.dedup();
    let mut flaky = false;
    for name in names {
        let outcome = |run: &Outcomes| run.tests.get(name).unwrap_or(&nothing).clone();
        let (before, now) = (outcome(plain), outcome(controlled));
        if before.0 == now.0 {
            continue;
        }
        let line = format!("{name}: plain {}, controlled {}", before.0, now.0);
        let by_pieces = BY_PIECES.iter().any(|test| name.ends_with(test));
        let again = || python.run(module, Some(form), &[name]);
        if by_pieces && again().tests.get(name).is_some_and(|t| t.0 == before.0) {
            println!("not counted, as it depends on where TCP divides: {line}");
            flaky = true;
            continue;
        }
        if let Some(other) = varies(python, module, name, &before.0) {
            println!("not counted, as it varies without us ({other}): {line}");
            flaky = true;
            continue;
        }
        let _ = writeln!(wrong, "{line}\n{}\n{}", before.1, now.1);
    }
    if wrong.is_empty() && !flaky && plain.status != controlled.status {
        let _ = writeln!(
            wrong,
            "{module}: plain {}, controlled {}:\n{}",
            plain.status, controlled.status, controlled.tail
        );
    }
    wrong
}

/// The other outcome of a test that does not always end alike without us.
fn varies(python: &Python, module: &str, test: &str, outcome: &str) -> Option<String> {
    (0..AGAIN).find_map(|_| {
        let again = python.run(module, None, &[test]);
        let got = again.tests.get(test).map_or("hangs", |t| &t.0);
        (got != outcome).then(|| got.to_owned())
    })
}

/// Equal results prove nothing if the library did nothing.
fn really_controlled() -> bool {
    let totals = TOTALS.lock().unwrap();
    let mut all = true;
    for form in FORMS.iter().flatten() {
        let sum = |field: &str| -> u64 {
            let of_form = totals.iter().filter(|(f, _)| f == form);
            of_form.map(|(_, r)| r[field].as_u64().unwrap_or(0)).sum()
        };
        let (connections, closed, failures) =
            (sum("connections"), sum("gate_closed"), sum("failures"));
        let good = connections > 0 && closed > 0 && failures == 0;
        let verdict = if good { "ok" } else { "FAILED" };
        println!(
            "test controlled by {form} ... {verdict}: {connections} connections, gate closed {closed} times, {failures} failures of the runtime"
        );
        all &= good;
    }
    all
}
