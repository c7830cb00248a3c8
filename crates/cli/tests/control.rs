// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Looking at and steering a server that runs: `alcc ctl`, `top` and `log`, per-port algorithms, metrics.
mod support;

use alcc_emu::PathSpec;
use alcc_link::{DirectionSpec, RateSpec};
use alcc_units::{Rate, Span};
use serde_json::Value;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use support::{Server, World, impossible};

fn link(mbps: u64) -> PathSpec {
    let direction = |mbps| DirectionSpec {
        delay: Span::from_millis(10),
        rate: RateSpec::Fixed(Rate::mbps(mbps)),
        ..DirectionSpec::default()
    };
    PathSpec {
        down: direction(mbps),
        up: direction(50),
        seed: 1,
    }
}

fn alcc(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_alcc"));
    command.args(args).stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn top(run: &str) -> Vec<Value> {
    let out = alcc(&["top", "--run", run, "--once", "--json"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let all: Value = serde_json::from_slice(&out.stdout).unwrap();
    all["connections"].as_array().unwrap().clone()
}

/// Asks `alcc top` until what it shows is as wanted.
fn until(run: &str, what: &str, wanted: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let now = top(run);
        if wanted(&now) {
            return now;
        }
        assert!(Instant::now() < deadline, "{what}: {now:#?}");
    }
}

fn ctl(run: &str, args: &[&str]) -> Value {
    let out = alcc(&[&["ctl", "--run", run, "--json"], args].concat());
    assert!(out.status.success(), "{args:?}: {}", text(&out.stderr));
    serde_json::from_slice(&out.stdout).unwrap()
}

/// A transfer in the background; the hash of what arrived.
fn fetching<'s>(
    scope: &'s std::thread::Scope<'s, '_>,
    world: &'s World,
    url: &'s str,
) -> std::thread::ScopedJoinHandle<'s, String> {
    scope.spawn(move || world.fetch(url))
}

fn run_of(server: &Server) -> String {
    server.pid().to_string()
}

#[test]
fn a_transfer_is_seen_switched_off_and_on_and_given_another_algorithm() {
    if impossible() {
        return;
    }
    let world = World::new(link(8));
    let hash = world.file("f", 8_000_000);
    // 30 segments in flight over 20 ms: at most 30 * 1448 * 8 / 0.02 = 17 Mbit/s, so the link is the limit, and stays below
    // what plain TCP puts in flight.
    let server = world.serve(Some(&["--cc", "fixed:window=4"]));
    let run = run_of(&server);
    std::thread::scope(|scope| {
        let transfer = fetching(scope, &world, "http://$S:8080/f");
        let shown = until(&run, "the transfer is shown", |c| {
            c.len() == 1 && c[0]["state"] == "sending" && c[0]["bytes"].as_u64() > Some(50_000)
        });
        let c = &shown[0];
        assert_eq!(c["algorithm"], "fixed:window=4");
        assert_eq!(c["enforcement"], "gate+pacing");
        let mss = c["mss_bytes"].as_u64().unwrap();
        assert_eq!(c["window_bytes"].as_u64(), Some(4 * mss), "{c}");
        assert!(c["in_flight_bytes"].as_u64().unwrap() <= 5 * mss, "{c}");
        assert!(c["rtt_ms"].as_f64().unwrap() >= 20.0, "{c}");
        assert!(c["gate_closed"].as_u64().unwrap() > 0, "{c}");
        assert!(c["cwnd_segments"].as_u64().unwrap() > 0, "{c}");
        assert!(c["local"].as_str().unwrap().ends_with(":8080"), "{c}");

        assert_eq!(ctl(&run, &["off"])["followed"], 1);
        let off = until(&run, "it is off", |c| c[0]["state"] == "off");
        std::thread::sleep(Duration::from_millis(500));
        let later = top(&run);
        assert_eq!(
            later[0]["gate_closed"], off[0]["gate_closed"],
            "no gate while off"
        );

        // On again at its next write: plain TCP may have filled the kernel's buffer in between.
        ctl(&run, &["on"]);
        until(&run, "it is on again", |c| {
            c[0]["state"] == "sending"
                && c[0]["gate_closed"].as_u64() > off[0]["gate_closed"].as_u64()
        });
        assert_eq!(ctl(&run, &["cc", "fixed:window=9"])["followed"], 1);
        until(&run, "the window is another", |c| {
            c[0]["algorithm"] == "fixed:window=9" && c[0]["window_bytes"].as_u64() == Some(9 * mss)
        });
        // Another port's order is nothing to it, its peer's is.
        assert_eq!(ctl(&run, &["cc", "copa", "--port", "8081"])["followed"], 0);
        assert_eq!(top(&run)[0]["algorithm"], "fixed:window=9");
        ctl(&run, &["cc", "reno", "--peer", "0.0.0.0/0"]);
        until(&run, "reno", |c| c[0]["algorithm"] == "reno");
        ctl(&run, &["cc", "verus"]);
        assert_eq!(transfer.join().unwrap(), hash);
        // New ones are as ordered.
        let transfer = fetching(scope, &world, "http://$S:8081/f");
        let shown = until(&run, "a new one", |c| {
            c.iter()
                .any(|c| c["local"].as_str().unwrap().ends_with(":8081") && c["state"] == "sending")
        });
        assert!(
            shown.iter().all(|c| c["algorithm"] == "verus"),
            "{shown:#?}"
        );
        assert_eq!(transfer.join().unwrap(), hash);
    });
    until(&run, "closed connections are gone", <[Value]>::is_empty);
    let (report, said) = server.stop();
    assert_eq!(report["failures"], 0, "{said}");
    assert_eq!(report["connections"], 2, "{said}");
}

#[test]
fn switching_at_every_moment_loses_no_byte() {
    if impossible() {
        return;
    }
    let world = World::new(link(30));
    let hash = world.file("f", 6_000_000);
    let server = world.serve(Some(&["--cc", "copa"]));
    let run = run_of(&server);
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let transfers = [
            "http://$S:8080/f",
            "http://$S:8081/f",
            "-k --http2 https://$S:8443/f",
        ]
        .map(|url| fetching(scope, &world, url));
        let switching = scope.spawn(|| {
            for order in [
                &["off"][..],
                &["on"],
                &["cc", "verus"],
                &["cc", "fixed:window=3"],
                &["off", "--port", "8080"],
                &["cc", "copa", "--port", "8443"],
                &["on"],
                &["cc", "reno"],
            ]
            .iter()
            .cycle()
            .take_while(|_| !done.load(std::sync::atomic::Ordering::Relaxed))
            {
                ctl(&run, order);
            }
        });
        for transfer in transfers {
            assert_eq!(transfer.join().unwrap(), hash);
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        switching.join().unwrap();
    });
    let (report, said) = server.stop();
    assert_eq!(report["failures"], 0, "{said}");
}

#[test]
fn mistakes_of_ctl_are_one_line() {
    let wrong = alcc(&["ctl", "cc", "vrus"]);
    assert_eq!(wrong.status.code(), Some(2));
    let said = text(&wrong.stderr);
    assert!(
        said.starts_with("alcc: no algorithm 'vrus' (did you mean verus?)"),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1, "{said}");
    let empty = tempfile::tempdir().unwrap();
    let nobody = Command::new(env!("CARGO_BIN_EXE_alcc"))
        .args(["ctl", "--run", "1", "off"])
        .env("XDG_RUNTIME_DIR", empty.path())
        .output()
        .unwrap();
    assert_eq!(nobody.status.code(), Some(1));
    assert_eq!(
        text(&nobody.stderr).lines().count(),
        1,
        "{}",
        text(&nobody.stderr)
    );
}

#[test]
fn the_log_of_a_running_server_has_both_windows() {
    if impossible() {
        return;
    }
    let world = World::new(link(8));
    let hash = world.file("f", 4_000_000);
    let server = world.serve(Some(&["--cc", "fixed:window=6"]));
    let run = run_of(&server);
    let csv = world.path("log.csv");
    std::thread::scope(|scope| {
        let transfer = fetching(scope, &world, "http://$S:8080/f");
        until(&run, "it runs", |c| {
            c.len() == 1 && c[0]["state"] == "sending"
        });
        let out = alcc(&[
            "log",
            "--run",
            &run,
            "--duration",
            "1s",
            "--out",
            csv.to_str().unwrap(),
        ]);
        assert!(out.status.success(), "{}", text(&out.stderr));
        assert_eq!(transfer.join().unwrap(), hash);
    });
    let log = std::fs::read_to_string(&csv).unwrap();
    let mut lines = log.lines();
    let header: Vec<_> = lines.next().unwrap().split(',').collect();
    let rows: Vec<Vec<&str>> = lines.map(|l| l.split(',').collect()).collect();
    let column = |name: &str| header.iter().position(|h| *h == name).unwrap();
    let number = |row: &[&str], name: &str| row[column(name)].parse::<f64>().unwrap();
    assert!(rows.len() > 10, "{log}");
    let mut before = 0.0;
    for row in &rows {
        assert_eq!(row.len(), header.len(), "{row:?}");
        assert_eq!(number(row, "window_bytes"), 6.0 * number(row, "mss_bytes"));
        assert!(
            number(row, "cwnd_segments") >= 1.0 && number(row, "rtt_ms") >= 20.0,
            "{row:?}"
        );
        assert!(number(row, "acked_bytes") >= before, "{row:?}");
        assert!(!row[column("peer")].is_empty());
        before = number(row, "acked_bytes");
    }
    // Nobody reads any more: nothing is written.
    let (report, said) = server.stop();
    assert_eq!(report["failures"], 0, "{said}");
}
