// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Unmodified nginx under `alcc run`, over emulated links: the data arrives unchanged, connections are
//! controlled, and the server continues after every fault.
mod support;

use alcc_emu::PathSpec;
use alcc_link::RateSpec;
use alcc_trace::Trace;
use nix::sys::signal::Signal;
use std::path::Path;
use std::time::{Duration, Instant};
use support::{World, impossible, link};

fn number(report: &serde_json::Value, field: &str) -> u64 {
    report[field]
        .as_u64()
        .unwrap_or_else(|| panic!("{field} in {report}"))
}

#[test]
fn every_way_nginx_writes_arrives_whole_and_is_controlled() {
    if impossible() {
        return;
    }
    let world = World::new(link(50));
    // A fixed window is slow.
    let (many, few) = (3_000_000, 1_000_000);
    let hashes = [many, few].map(|bytes| world.file(&format!("f{bytes}"), bytes as usize));
    for (cc, bytes) in [
        ("verus", many),
        ("copa", many),
        ("cubic", many),
        ("reno", many),
        ("fixed:window=8", few),
        ("fixed:window=random,every=50ms", few),
        ("verus:profile=paper", many),
    ] {
        let hash = &hashes[usize::from(bytes == few)];
        let server = world.gated(&["--cc", cc]);
        for how in [
            "http://$S:8080",
            "http://$S:8081",
            "-k --http1.1 https://$S:8443",
            "-k --http2 https://$S:8443",
        ] {
            assert_eq!(world.fetch(&format!("{how}/f{bytes}")), *hash, "{cc} {how}");
        }
        let (report, said) = server.stop();
        assert_eq!(number(&report, "connections"), 4, "{cc}: {said}");
        assert!(number(&report, "gate_closed") > 0, "{cc}: {said}");
        assert!(number(&report, "bytes") >= 4 * bytes, "{cc}: {said}");
        assert_eq!(number(&report, "failures"), 0, "{cc}: {said}");
        assert!(
            said.contains("4 connections controlled by") && said.contains("tcp-info / gate+pacing"),
            "{said}"
        );
    }
}

/// The binary is replaced while it serves, with the lines that docs/operating.md gives for it.
#[test]
fn an_upgrade_of_the_binary_stays_under_control() {
    if impossible() {
        return;
    }
    let lines: Vec<&str> = include_str!("../../../docs/operating.md")
        .lines()
        .filter(|line| line.starts_with("env "))
        .collect();
    assert!(lines.concat().contains("LD_PRELOAD"), "{lines:?}");
    let world = World::new(link(50));
    let hash = world.file("f", 300_000);
    let server = world.serve_as(&lines.concat(), Some(&["--cc", "fixed:window=8"]));
    let master = || std::fs::read_to_string(world.path("nginx.pid")).unwrap_or_default();
    let signal = |signal| {
        let pid = nix::unistd::Pid::from_raw(server.pid().cast_signed());
        nix::sys::signal::kill(pid, signal).unwrap();
    };
    let wait = |what: &dyn Fn() -> bool| {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !what() {
            assert!(Instant::now() < deadline, "too late");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    // In the background: the process that was started has ended, and `alcc run` passes signals to
    // the master.
    wait(&|| !master().is_empty());
    assert_eq!(world.fetch("http://$S:8080/f"), hash);
    let old = master();
    signal(Signal::SIGUSR2);
    wait(&|| !master().is_empty() && master() != old);
    signal(Signal::SIGQUIT);
    wait(&|| !Path::new(&format!("/proc/{}", old.trim())).exists());
    assert_eq!(world.fetch("http://$S:8080/f"), hash);
    let (report, said) = server.stop();
    assert_eq!(number(&report, "processes"), 2, "{said}");
    assert_eq!(number(&report, "connections"), 2, "{said}");
    assert_eq!(report["not_controlled"], serde_json::json!([]), "{said}");
}

#[test]
fn a_window_of_one_segment_gets_through_corked_writes_and_tls() {
    if impossible() {
        return;
    }
    let world = World::new(PathSpec::default());
    let hash = world.file("f", 200_000);
    let server = world.gated(&["--cc", "fixed:window=1"]);
    for how in ["http://$S:8080/f", "-k --http2 https://$S:8443/f"] {
        assert_eq!(world.fetch(how), hash, "{how}");
    }
    assert!(number(&server.stop().0, "gate_closed") > 50);
}

#[test]
fn many_connections_of_several_workers() {
    if impossible() {
        return;
    }
    let world = World::new(link(50));
    let hash = world.file("f", 500_000);
    let server = world.serve(Some(&["--cc", "verus"]));
    let out = world.client("for i in 1 2 3 4 5 6 7 8 9 10 11 12; do (curl -sS --max-time 60 http://$S:8080/f | sha256sum) & done; wait");
    let hashes = String::from_utf8(out.stdout).unwrap();
    assert_eq!(
        hashes
            .lines()
            .filter(|line| line.starts_with(&hash))
            .count(),
        12,
        "{hashes}"
    );
    assert_eq!(number(&server.stop().0, "connections"), 12);
}

#[test]
fn two_percent_loss() {
    if impossible() {
        return;
    }
    let mut lossy = link(20);
    lossy.down.loss = 0.02;
    let world = World::new(lossy);
    let hash = world.file("f", 2_000_000);
    for cc in ["verus", "copa"] {
        let server = world.gated(&["--cc", cc]);
        assert_eq!(world.fetch("http://$S:8080/f"), hash, "{cc}");
        assert!(number(&server.stop().0, "gate_closed") > 0, "{cc}");
    }
}

#[test]
fn outages_of_four_seconds() {
    if impossible() {
        return;
    }
    // One second of 12 Mbit/s, then nothing for four, again and again.
    let text: String = (1..=1000)
        .map(|ms| format!("{ms}\n"))
        .chain(["5000\n".to_owned()])
        .collect();
    let trace = Trace::parse(text.as_bytes()).unwrap();
    let mut link = link(50);
    link.down.rate = RateSpec::Trace(trace);
    let world = World::new(link);
    let hash = world.file("f", 2_500_000);
    let server = world.serve(Some(&["--cc", "verus"]));
    assert_eq!(world.fetch("http://$S:8080/f"), hash);
    let (report, said) = server.stop();
    assert_eq!(number(&report, "failures"), 0);
    // An outage is no reason to pass the gate.
    assert!(number(&report, "bytes") >= 2_500_000, "{said}");
    assert_eq!(report["uncontrolled"], serde_json::json!([]), "{said}");
}

#[test]
fn a_client_that_resets_and_one_that_stops_reading() {
    if impossible() {
        return;
    }
    let world = World::new(link(50));
    let hash = world.file("f", 6_000_000);
    let server = world.serve(Some(&["--cc", "verus"]));
    // Killed in the middle with data unread: the kernel answers with a reset.
    world.client(
        "curl -s --limit-rate 300k http://$S:8080/f >/dev/null & sleep 1; kill -9 $!; wait",
    );
    let out =
        world.client("curl -sS http://$S:8080/f | (head -c 100000; sleep 10; cat) | sha256sum");
    assert!(
        String::from_utf8(out.stdout).unwrap().starts_with(&hash),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    let (report, said) = server.stop();
    assert_eq!(
        (number(&report, "connections"), number(&report, "failures")),
        (2, 0),
        "{said}"
    );
}

#[test]
fn when_the_runtime_fails_the_server_goes_on_with_plain_tcp_and_says_so_once() {
    if impossible() {
        return;
    }
    let world = World::new(link(50));
    let hash = world.file("f", 3_000_000);
    // The thread's panic after 20 readings stands for any failure inside the runtime.
    let server = world.serve(Some(&["--cc", "fixed:window=4", "--fault", "20"]));
    for how in ["http://$S:8080/f", "-k --http2 https://$S:8443/f"] {
        assert_eq!(world.fetch(how), hash, "{how}");
    }
    let (report, said) = server.stop();
    let failures = number(&report, "failures");
    assert!(failures >= 1, "{said}");
    assert!(said.contains("continued as plain TCP"), "{said}");
    // nginx points its standard error at its log.
    let log = std::fs::read_to_string(world.path("error.log")).unwrap();
    let told = log.matches("continue as plain TCP").count() as u64;
    assert_eq!(told, failures, "once per process: {log}");
}

#[test]
fn loopback_is_left_alone_unless_asked_for() {
    if impossible() {
        return;
    }
    let world = World::new(PathSpec::default());
    world.file("f", 10_000);
    for (options, controlled) in [
        (&["--cc", "fixed"][..], 0),
        (&["--cc", "fixed", "--loopback"], 1),
        (&["--cc", "fixed", "--loopback", "--except", "8080"], 0),
    ] {
        let server = world.serve(Some(options));
        let mut curl = std::process::Command::new("curl");
        curl.args(["-sS", "-o", "/dev/null", "http://127.0.0.1:8080/f"]);
        assert!(world.outside.spawn(curl).unwrap().wait().unwrap().success());
        let (report, said) = server.stop();
        assert_eq!(
            (
                number(&report, "connections"),
                number(&report, "left_alone")
            ),
            (controlled, 1 - controlled),
            "{options:?}: {said}"
        );
    }
}
