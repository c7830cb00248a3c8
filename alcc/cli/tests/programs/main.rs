// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Real programs under `alcc run`, over an emulated link: the data arrives unchanged, the connections are
//! controlled, and output and exit status are as without control. A plain run of the same program is the
//! oracle.
#[path = "../../../bpf/tests/support/mod.rs"]
mod controls;
#[path = "../support/early.rs"]
mod early;
#[path = "../support/kernel.rs"]
mod kernel;
mod place;
mod process;
mod recipes;
mod run;
mod smol_server;
#[path = "../support/starts.rs"]
mod starts;

use place::Place;
use recipes::Recipe;
use run::Run;
use starts::first_right;
use std::time::Duration;

/// Enough for every algorithm to fill the link and shut the gate.
const LARGE: usize = 3_000_000;
/// For a window of two segments, which is slow.
const SMALL: usize = 300_000;
const WINDOW: f64 = 2.0 * 1448.0;

fn check(recipe: &Recipe) {
    if place::lacking(recipe) {
        return;
    }
    let place = Place::new();
    let (large, small) = (place.file("large", LARGE), place.file("small", SMALL));

    let plain = Run::of(&place, recipe, None, "large");
    plain.assert_arrived(&large, recipe.copies);

    let verus = Run::of(&place, recipe, Some("verus"), "large");
    verus.assert_arrived(&large, recipe.copies);
    verus.assert_controlled(LARGE * recipe.copies);
    verus.assert_like(&plain);

    let fixed = Run::of(&place, recipe, Some("fixed:window=2"), "small");
    fixed.assert_arrived(&small, recipe.copies);
    fixed.assert_controlled(SMALL * recipe.copies);
    fixed.assert_like(&plain);
    println!(
        "{} kB with a window of two segments took {:.2} s; {} kB could not be refused",
        SMALL * recipe.copies / 1000,
        fixed.took.as_secs_f64(),
        fixed.unrefused() / 1000
    );
    // Plain TCP would be done in a tenth of this. A busy machine makes it longer, never shorter.
    let controlled = (SMALL * recipe.copies) as u64 - fixed.unrefused();
    let least = place::RTT.mul_f64(controlled as f64 / WINDOW);
    assert!(
        fixed.took > least.mul_f64(0.75),
        "two segments per round trip take {least:?}, and it took {:?}",
        fixed.took
    );
}

macro_rules! programs {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            check(&recipes::$name());
        })*

        #[test]
        fn every_recipe_is_tested() {
            let tested = [$(stringify!($name)),*];
            for (name, _) in recipes::ALL {
                assert!(tested.contains(name), "{name}");
            }
        }
    };
}

programs! {
    nginx
    lighttpd
    haproxy
    python_http_server
    python_asyncio
    gunicorn
    gunicorn_threads
    node
    node_with_io_uring
    apache_event
    apache_prefork
    haproxy_splicing
    vsftpd
    rsync_daemon
    sshd
    sshd_for_a_user
    iperf3
    curl_upload
    h2o
    gunicorn_gevent
    gunicorn_eventlet
}

impl Run {
    fn assert_arrived(&self, hash: &str, copies: usize) {
        let found = self.fetched.matches(hash).count();
        assert_eq!(found, copies, "whole copies of the file: {self:#?}");
    }

    fn assert_controlled(&self, bytes: usize) {
        let number = |field: &str| self.report[field].as_u64().unwrap_or(0);
        assert!(number("connections") > 0, "connections: {self:#?}");
        assert!(number("gate_closed") > 0, "gate closures: {self:#?}");
        let unrefused = self.unrefused();
        assert!(
            number("bytes") + unrefused >= bytes as u64,
            "bytes: {self:#?}"
        );
        assert!(unrefused < bytes as u64, "bytes: {self:#?}");
        assert_eq!(number("failures"), 0, "failures: {self:#?}");
        // No bytes are reported as uncontrolled if none were.
        let missed = self.report["not_controlled"].as_array().map_or(0, Vec::len);
        assert_eq!(missed, 0, "not controlled: {self:#?}");
    }

    /// Before a server has waited for room on any connection, none of its writes can be refused.
    /// Its bytes are counted apart.
    fn unrefused(&self) -> u64 {
        let rows = self.report["uncontrolled"].as_array().into_iter().flatten();
        rows.filter(|row| row["reason"] == "no-wakeup")
            .filter_map(|row| row["bytes"].as_u64())
            .sum()
    }

    fn assert_like(&self, plain: &Self) {
        assert_eq!(self.client, plain.client, "{self:#?} {plain:#?}");
        assert_eq!(self.said, plain.said, "{self:#?} {plain:#?}");
        assert_eq!(self.status, plain.status, "{self:#?} {plain:#?}");
        assert!(self.took < Duration::from_secs(60), "{self:#?}");
    }
}

/// Several connections in every process and thread at once, beside each other on a link.
fn check_together(names: &[&str]) {
    for (name, recipe) in recipes::ALL.iter().filter(|(name, _)| names.contains(name)) {
        let recipe = recipe().for_clients(8);
        if place::lacking(&recipe) {
            continue;
        }
        let place = Place::new();
        let hash = place.file("medium", 500_000);
        let run = Run::of(&place, &recipe, Some("verus"), "medium");
        println!("{name}");
        run.assert_arrived(&hash, recipe.copies);
        run.assert_controlled(500_000 * recipe.copies);
    }
}

#[test]
fn eight_clients_at_once_of_servers_with_threads_or_processes() {
    check_together(&[
        "nginx",
        "apache_event",
        "apache_prefork",
        "haproxy",
        "haproxy_splicing",
        "vsftpd",
    ]);
}

#[test]
fn eight_clients_at_once_of_others() {
    check_together(&[
        "lighttpd",
        "python_http_server",
        "python_asyncio",
        "gunicorn",
        "gunicorn_threads",
        "node",
    ]);
}

/// Coroutines register only after EAGAIN. Once one connection of the process has done so, the later ones are held from
/// their first write, and so are ones that are written whole.
#[test]
fn after_one_connection_coroutines_are_held_from_their_first_write() {
    const BYTES: usize = 80_000;
    for (name, mut recipe) in [
        ("gevent", recipes::gunicorn_gevent()),
        ("eventlet", recipes::gunicorn_eventlet()),
    ] {
        if place::lacking(&recipe) {
            continue;
        }
        // The first request comes late, so the server waits for it, which shows that it is woken only after EAGAIN.
        let first = r#"bash -c 'exec 3<>/dev/tcp/$0/8080; sleep 1; printf "GET /first HTTP/1.0\r\n\r\n" >&3; exec cat <&3' $S >/dev/null"#;
        let later = "curl -sS --fail http://$S:8080/$F | sha256sum";
        recipe.fetch = Some(format!("{first}; for i in 1 2 3 4; do {later}; done").into());
        recipe.copies = 4;
        let place = Place::new();
        place.file("first", SMALL);
        let hash = place.file("small", BYTES);
        let run = Run::of(&place, &recipe, Some("fixed:window=2"), "small");
        run.assert_arrived(&hash, recipe.copies);
        let rows = run.report["uncontrolled"].as_array().into_iter().flatten();
        let rows = rows.filter(|row| row["reason"] == "no-wakeup");
        let passed: u64 = rows.filter_map(|row| row["connections"].as_u64()).sum();
        assert!(passed <= 1, "{name}: {run:#?}");
        run.assert_held(BYTES * recipe.copies);
    }
}

/// gpsd writes reports of some kilobytes at once, never waits for room, and takes a short write for
/// the end. On a slow link with a long way, and on LTE, the algorithm's window is smaller than its
/// reports.
#[test]
fn gpsd_keeps_its_clients() {
    let recipe = recipes::gpsd();
    if place::lacking(&recipe) {
        return;
    }
    let place = Place::new();
    for cc in [None, Some("fixed:window=2"), Some("budget")] {
        let run = Run::of(&place, &recipe, cc, "nothing");
        assert!(run.fetched.contains("kept, reports whole"), "{run:#?}");
        if cc == Some("fixed:window=2") {
            assert!(run.unrefused() > 0, "{run:#?}");
        }
    }
    // Two segments per round trip carry less than it writes: its rate must not hold either.
    let place = Place::lte();
    for cc in [None, Some("budget"), Some("fixed:window=2")] {
        let run = Run::of(&place, &recipe, cc, "nothing");
        assert!(run.fetched.contains("kept, reports whole"), "{run:#?}");
    }
}

/// The library refuses nothing there, but the kernel keeps the window, and what waits for it is
/// bounded. What the default algorithm gives carries the reports.
#[test]
fn gpsd_keeps_its_clients_if_the_kernel_keeps_the_limit() {
    let recipe = recipes::gpsd();
    if place::lacking(&recipe) {
        return;
    }
    let _alone = controls::controls_alone();
    if kernel::alcc("bpf load").status.code() == Some(2) {
        println!("skipped: needs the right to load BPF programs");
        return;
    }
    let options = ["--cc", "budget", "--enforce", "bpf"];
    for place in [Place::new(), Place::lte()] {
        // A library that a busy machine wakes late allows less than the link carries.
        let run = first_right(
            3,
            || Run::with(&place, &recipe, Some(&options), "nothing"),
            |run| run.fetched.contains("kept, reports whole"),
        );
        assert_eq!(run.unrefused(), 0, "{run:#?}");
    }
    assert!(kernel::alcc("bpf unload").status.success());
}

impl Run {
    /// Two segments per round trip and no more, on every one of its connections.
    fn assert_held(&self, bytes: usize) {
        let least = place::RTT.mul_f64(bytes as f64 / WINDOW);
        assert!(self.took > least.mul_f64(0.75), "{least:?}: {self:#?}");
        assert_eq!(self.report["failures"], 0, "{self:#?}");
    }
}

/// Such a connection writes before it is established.
#[test]
fn a_connection_by_fast_open_is_held_as_any_other() {
    let recipe = recipes::fast_open();
    if place::lacking(&recipe) {
        return;
    }
    let place = Place::new();
    let hash = place.file("small", SMALL);
    let held = |enforcement: &str| {
        let options = ["--cc", "fixed:window=2", "--enforce", enforcement];
        let run = Run::with(&place, &recipe, Some(&options), "small");
        run.assert_arrived(&hash, recipe.copies);
        run.assert_held(SMALL * recipe.copies);
        let opened = std::fs::read_to_string(place.path("opened")).unwrap();
        assert!(opened.ends_with("1\n"), "no Fast Open: {opened:?}");
    };
    held("gate+pacing");
    let _alone = controls::controls_alone();
    if kernel::alcc("bpf load").status.code() != Some(2) {
        held("bpf");
        // No algorithm in the kernel has a fixed window, so the account alone shows that it is controlled.
        let options = ["--cc", "copa", "--enforce", "kernel"];
        let run = Run::with(&place, &recipe, Some(&options), "small");
        run.assert_arrived(&hash, recipe.copies);
        let bytes = run.report["bytes"].as_u64();
        assert!(bytes >= Some((SMALL * recipe.copies) as u64), "{run:#?}");
        for missed in ["uncontrolled", "not_controlled"] {
            assert_eq!(run.report[missed], serde_json::json!([]), "{run:#?}");
        }
        assert!(kernel::alcc("bpf unload").status.success());
    }
}

/// The kernel's half compares times with the process's half, whose clocks are others.
#[test]
fn the_kernel_keeps_the_limit_in_a_time_namespace() {
    let recipe = recipes::in_a_time_namespace();
    if place::lacking(&recipe) {
        return;
    }
    let _alone = controls::controls_alone();
    if kernel::alcc("bpf load").status.code() == Some(2) {
        println!("skipped: needs the right to load BPF programs");
        return;
    }
    let place = Place::new();
    let hash = place.file("small", SMALL);
    let options = ["--cc", "fixed:window=2", "--enforce", "bpf"];
    let run = Run::with(&place, &recipe, Some(&options), "small");
    run.assert_arrived(&hash, recipe.copies);
    run.assert_held(SMALL);
    assert!(kernel::alcc("bpf unload").status.success());
}

/// The library does not see how smol waits, so it holds nothing back, and reports that. With a gate such
/// a program would stall, or retry in a loop, because nothing would wake it.
#[test]
fn smol_stays_at_plain_tcp() {
    let recipe = smol_server::recipe();
    if place::lacking(&recipe) {
        return;
    }
    let place = Place::new();
    let hash = place.file("large", LARGE);
    let plain = Run::of(&place, &recipe, None, "large");
    plain.assert_arrived(&hash, recipe.copies);
    for cc in ["fixed:window=2", "budget"] {
        let run = Run::of(&place, &recipe, Some(cc), "large");
        run.assert_arrived(&hash, recipe.copies);
        run.assert_like(&plain);
        // By two segments per round trip it would take 21 s.
        assert!(run.took < plain.took + Duration::from_secs(5), "{run:#?}");
        let number = |field: &str| run.report[field].as_u64().unwrap_or(0);
        assert!(number("gate_closed") < 100, "{run:#?}");
        assert!(
            number("bytes") + run.unrefused() >= LARGE as u64,
            "{run:#?}"
        );
        assert!(run.unrefused() > LARGE as u64 / 2, "{run:#?}");
    }
}

#[test]
fn libuv_is_told_to_do_without_io_uring() {
    let said = |theirs: Option<&str>| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_alcc"));
        command.args(["run", "--quiet", "--", "sh", "-c", "echo $UV_USE_IO_URING"]);
        match theirs {
            Some(value) => command.env("UV_USE_IO_URING", value),
            None => command.env_remove("UV_USE_IO_URING"),
        };
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    assert_eq!(said(None), "0\n");
    // What the user says stays.
    assert_eq!(said(Some("1")), "1\n");
}
