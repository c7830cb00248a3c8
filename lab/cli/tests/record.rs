// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `alcc-lab trace record` between two namespaces with an emulated link between them, and on loopback.
#[path = "../../../alcc/cli/tests/hostile/middle.rs"]
#[allow(dead_code, reason = "streams are another test's")]
mod middle;
#[path = "../../../alcc/cli/tests/support/wait.rs"]
mod wait;

use alcc_emu::{EmuReport, Emulator, Namespace, PathSpec, Silent, Subnet};
use alcc_link::{DirectionSpec, QueueSpec, RateSpec};
use alcc_trace::{Trace, scenario};
use alcc_units::{Span, Time};
use middle::{Middle, Way};
use nix::time::{ClockId, clock_gettime};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use wait::wait_for;

const ALCC: &str = env!("CARGO_BIN_EXE_alcc-lab");

/// Says "skipped" where something is missing; where nothing may be skipped (CI) it fails instead.
fn impossible() -> bool {
    let Err(why) = alcc_emu::available() else {
        return false;
    };
    println!("skipped: needs namespaces ({why})");
    assert!(std::env::var_os("CI").is_none(), "CI must have namespaces");
    true
}

fn alcc(args: &[&str]) -> Command {
    let mut command = Command::new(ALCC);
    command
        .args(["trace", "record"])
        .args(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// A listener, once it listens; it is killed on drop.
struct Listener {
    child: Child,
    port: u16,
}

impl Listener {
    fn start(place: Option<&Namespace>, args: &[&str]) -> Self {
        // In a namespace of our own nothing has to be insisted on.
        let at = if place.is_some() {
            "0.0.0.0"
        } else {
            "127.0.0.1"
        };
        let mut command = alcc(&["--listen", &format!("{at}:0"), "--json"]);
        command.args(args);
        let mut child = match place {
            Some(place) => place.spawn(command).unwrap(),
            None => command.spawn().unwrap(),
        };
        let mut line = String::new();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        said.read_line(&mut line).unwrap();
        let port = line.split(&format!("listening on {at}:")).nth(1);
        let port = port.and_then(|p| p.split(';').next()?.parse().ok());
        // What it says later nobody reads, but it must be able to say it.
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        Self {
            child,
            port: port.unwrap_or_else(|| panic!("{line}")),
        }
    }

    fn end(mut self) -> Vec<Value> {
        let mut all = String::new();
        std::io::Read::read_to_string(&mut self.child.stdout.take().unwrap(), &mut all).unwrap();
        assert!(self.child.wait().unwrap().success());
        let lines = all.lines();
        lines.map(|l| serde_json::from_str(l).unwrap()).collect()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", said(output));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn trace(path: &Path) -> Trace {
    Trace::parse(&std::fs::read(path).unwrap()).unwrap()
}

fn link(trace: &Trace) -> DirectionSpec {
    DirectionSpec {
        rate: RateSpec::Trace(trace.clone()),
        queue: "droptail:bytes=2000000".parse::<QueueSpec>().unwrap(),
        delay: Span::from_millis(20),
        ..DirectionSpec::default()
    }
}

/// A trace came through a link: what the link could carry in each second, at least and at most
/// since its relay was late now and then, and what was recorded.
fn seconds(
    original: &Trace,
    zero: Span,
    late: Span,
    recorded: &Trace,
    count: u64,
) -> Vec<(u64, u64, u64)> {
    let cursor = original.cursor();
    let before = |at: Span| cursor.count_before(Time::ZERO + at);
    let got = recorded.opportunities();
    let got = |ms: u64| got.partition_point(|&o| u64::from(o) < ms) as u64;
    (0..count)
        .map(|n| {
            let from = zero + Span::from_secs(n);
            let to = from + Span::from_secs(1);
            let least = before(to.saturating_sub(late)).saturating_sub(before(from));
            let most = before(to) - before(from.saturating_sub(late));
            (least, most, got(n * 1000 + 1000) - got(n * 1000))
        })
        .collect()
}

struct Run {
    /// Folder of the files that the client wrote.
    dir: tempfile::TempDir,
    client: Value,
    listener: Value,
    /// The link's start by the clock of the recordings, ns.
    started: u64,
    report: EmuReport,
}

impl Run {
    fn over(traces: [&Trace; 2], duration: &str, warm_up: &str) -> Self {
        alcc_emu::prepare().unwrap();
        let (outside, inside) = (Namespace::new().unwrap(), Namespace::new().unwrap());
        let spec = PathSpec {
            down: link(traces[0]),
            up: link(traces[1]),
            seed: 1,
        };
        let emulator =
            Emulator::start(&outside, &inside, Subnet::default(), spec, Box::new(Silent)).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).display().to_string();
        let listener = Listener::start(Some(&outside), &["--count", "1", "--out", &path("there")]);
        let host = format!("{}:{}", emulator.outside_addr(), listener.port);
        let command = alcc(&[
            &host,
            "--json",
            "--duration",
            duration,
            "--warm-up",
            warm_up,
            "--out",
            &path("here"),
            "--label",
            "phone",
        ]);
        let client = json(&inside.spawn(command).unwrap().wait_with_output().unwrap());
        let listener = listener.end().remove(0);
        let now = clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap();
        let now = now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64;
        let started = now - emulator.started().elapsed().as_nanos() as u64;
        Self {
            client,
            listener,
            started,
            report: emulator.stop().unwrap(),
            dir,
        }
    }

    /// Capacity of the link in each second (at least, at most) and the recorded value.
    fn seconds(&self, way: &str, original: &Trace) -> Vec<(u64, u64, u64)> {
        // Up is recorded by the listener's clock, and after the propagation delay: 20 ms behind its
        // bottleneck.
        let (end, later) = match way {
            "down" => (&self.client, 0),
            _ => (&self.listener, 20_000_000),
        };
        let zero = end["zero_monotonic_ns"].as_u64().unwrap() - self.started - later;
        let late = self.report.lateness_max.unwrap_or(Span::ZERO) + Span::from_millis(2);
        let count = self.client["duration_s"].as_f64().unwrap() as u64;
        let recorded = trace(&self.dir.path().join(format!("here/{way}.trace")));
        seconds(original, Span::from_nanos(zero), late, &recorded, count)
    }
}

/// Directions and seconds in which more than 2 % is missing or too much.
fn beyond(run: &Run, traces: [&Trace; 2]) -> Vec<(&'static str, usize, (u64, u64, u64))> {
    let mut found = Vec::new();
    for (way, original) in [("down", traces[0]), ("up", traces[1])] {
        for (n, second) in run.seconds(way, original).into_iter().enumerate() {
            let (least, most, got) = second;
            if !(0.98 * least as f64..=1.02 * most as f64).contains(&(got as f64)) {
                found.push((way, n, second));
            }
        }
    }
    found
}

#[test]
fn the_saturator_gives_an_emulated_trace_back() {
    if impossible() {
        return;
    }
    let down = scenario("city-driving")
        .unwrap()
        .generate(5, Span::from_secs(40));
    let up = scenario("lte")
        .unwrap()
        .generate(6, Span::from_secs(40))
        .scale(0.3)
        .unwrap();
    // A sender that another test starves of the processor cannot keep a queue full: the third time
    // it is no accident.
    let mut wrong = Vec::new();
    let run = (0..3).find_map(|_| {
        let run = Run::over([&down, &up], "4s", "3s");
        let here = beyond(&run, [&down, &up]);
        if here.is_empty() {
            return Some(run);
        }
        wrong.push(format!("{here:?}; {} {:?}", run.client, run.report));
        None
    });
    let run = run.unwrap_or_else(|| panic!("{}", wrong.join("\n")));
    assert_eq!(run.client["complete"], true);
    assert_eq!(run.listener["complete"], true);
    // Both clocks are one: the estimate is wrong by what it says at most.
    let clock = &run.client["clock"];
    let number = |name: &str| clock[name].as_f64().unwrap();
    assert!(
        number("offset_ms").abs() <= number("offset_error_ms"),
        "{clock}"
    );
    assert!(number("min_rtt_ms") >= 40.0, "{clock}");
    // The listener wrote the same of up as the client got.
    let files = ["there/phone/up.trace", "here/up.trace"];
    let [there, here] = files.map(|f| std::fs::read(run.dir.path().join(f)).unwrap());
    assert_eq!(there, here);
    let delays = std::fs::read_to_string(run.dir.path().join("here/delays.csv")).unwrap();
    let packets = ["down", "up"].map(|way| run.client[way]["packets"].as_u64().unwrap());
    assert_eq!(delays.lines().count() as u64, 1 + packets[0] + packets[1]);
}

/// The same with recorded channels for a minute, printed: `ALCC_TRACES=DIR cargo test -p alcc-cli
/// --test record -- --ignored --nocapture`.
#[test]
#[ignore = "takes recorded traces and minutes"]
fn recorded_channels() {
    let dir = std::env::var_os("ALCC_TRACES").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces"),
        PathBuf::from,
    );
    for (down, up) in [
        ("alcc/highwayGold", "alcc/highwayGold"),
        ("alcc/rapidGold", "alcc/rapidGold"),
        ("alcc/CampusWalk", "alcc/CampusWalk"),
        (
            "verus-paper/Campus_Pedestrian.down",
            "verus-paper/Campus_Pedestrian.up",
        ),
    ] {
        let [first, second] = [down, up].map(|name| trace(&dir.join(name)));
        let run = Run::over([&first, &second], "60s", "10s");
        for (way, name, original) in [("down", down, &first), ("up", up, &second)] {
            let off = run
                .seconds(way, original)
                .into_iter()
                .map(|(least, most, got)| {
                    // How far it is outside of what the link can have given.
                    let off = got.saturating_sub(most).max(least.saturating_sub(got));
                    100.0 * off as f64 / most.max(1) as f64
                });
            let off: Vec<f64> = off.collect();
            let worst = off.iter().copied().fold(0.0, f64::max);
            println!(
                "{way:4} {name:36} capacity per second: worst {worst:.2} % mean {:.3} % off, {} of {} seconds beyond 2 %; relay late at most {:?}, sender {} ms",
                off.iter().sum::<f64>() / off.len() as f64,
                off.iter().filter(|o| **o > 2.0).count(),
                off.len(),
                run.report.lateness_max,
                run.client[way]["send_late_max_ms"]
            );
        }
    }
}

#[test]
fn three_receivers_begin_together_and_are_combined() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let listener = Listener::start(
        None,
        &["--together", "3", "--count", "3", "--out", &path("there")],
    );
    let host = format!("127.0.0.1:{}", listener.port);
    let clients: Vec<Child> = (1..=3)
        .map(|n| {
            let out = path(&format!("phone{n}"));
            alcc(&[
                &host,
                "--mode",
                "constant",
                "--down",
                "3mbit",
                "--up",
                "1mbit",
                "--duration",
                "1500ms",
                "--warm-up",
                "200ms",
                "--out",
                &out,
                "--json",
            ])
            .spawn()
            .unwrap()
        })
        .collect();
    let clients: Vec<Value> = clients
        .into_iter()
        .map(|child| json(&child.wait_with_output().unwrap()))
        .collect();
    let there = listener.end();
    assert_eq!(there.len(), 3);
    // The time that counts begins at one moment: exactly at the listener, within the clocks' error
    // at the clients.
    let zero = |v: &Value| v["zero_monotonic_ns"].as_u64().unwrap();
    assert!(there.iter().all(|v| zero(v) == zero(&there[0])));
    for client in &clients {
        let error = client["clock"]["offset_error_ms"].as_f64().unwrap() * 1e6;
        let off = zero(client).abs_diff(zero(&there[0])) as f64;
        assert!(off <= error + 1e6, "{off} ns off, {client}");
        assert_eq!(client["complete"], true);
    }
    let files = [1, 2, 3].map(|n| path(&format!("phone{n}/down.trace")));
    let sum = path("sum.trace");
    let combined = Command::new(ALCC)
        .args(["trace", "combine"])
        .args(&files)
        .args(["--output", &sum])
        .status();
    assert!(combined.unwrap().success());
    let parts: usize = files.iter().map(|f| trace(Path::new(f)).len()).sum();
    let sum = trace(Path::new(&sum));
    assert_eq!(sum.len(), parts);
    // 9 Mbit/s offered, in packets of 1428 bytes; a host that sleeps leaves some out.
    let offered = 9e6 * 1.5 / 12e3;
    assert!(
        (0.5 * offered..1.02 * offered).contains(&(sum.len() as f64)),
        "{}",
        sum.len()
    );
}

/// A relay in front of a listener that counts the full packets of each way: a recording is broken
/// off when it has gone so far, however long that takes.
fn counted(listener: &Listener) -> (Middle, Arc<[AtomicU64; 2]>) {
    let passed = Arc::<[AtomicU64; 2]>::default();
    let count = Arc::clone(&passed);
    let to = SocketAddr::from(([127, 0, 0, 1], listener.port));
    let middle = Middle::udp(to, move |way, datagram| {
        if datagram.len() > 1000 {
            count[usize::from(way == Way::Back)].fetch_add(1, Ordering::Relaxed);
        }
        vec![datagram]
    });
    (middle, passed)
}

/// A client that would send for long, through such a relay, when packets have gone both ways.
fn under_way(listener: &Listener, more: &[&str]) -> (Middle, Child) {
    let (middle, passed) = counted(listener);
    let host = middle.at.to_string();
    let steady = [host.as_str(), "--mode", "constant", "--duration", "30s"];
    let args = [&steady[..], &["--warm-up", "0s"], more].concat();
    let client = alcc(&args).spawn().unwrap();
    wait_for("packets both ways", || {
        passed.iter().all(|way| way.load(Ordering::Relaxed) > 500)
    });
    (middle, client)
}

#[test]
fn a_listener_that_is_killed_leaves_what_had_come() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let mut listener = Listener::start(
        None,
        &["--out", &dir.path().join("there").display().to_string()],
    );
    let to = out.display().to_string();
    let (_middle, client) = under_way(&listener, &["--out", &to]);
    listener.child.kill().unwrap();
    let output = client.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let why = said(&output);
    assert!(
        why.contains("stopped responding after") && why.contains("data received until then is in"),
        "{why}"
    );
    let summary: Value =
        serde_json::from_slice(&std::fs::read(out.join("summary.json")).unwrap()).unwrap();
    assert_eq!(summary["complete"], false);
    assert_eq!(summary["up"], Value::Null);
    assert!(trace(&out.join("down.trace")).len() > 100);
    assert!(!out.join("up.trace").exists());
}

#[test]
fn a_client_that_is_interrupted_keeps_its_part_and_the_listener_the_other() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let limits = ["--sessions", "1", "--count", "1"];
    let listener = Listener::start(None, &[&limits[..], &["--out", &path("there")]].concat());
    let (_middle, client) = under_way(&listener, &["--label", "x", "--out", &path("here")]);
    // No other has a place meanwhile.
    let there = format!("127.0.0.1:{}", listener.port);
    let refused = alcc(&[&there, "--out", &path("none")]).output();
    let refused = said(&refused.unwrap());
    assert!(
        refused.contains("1 of 1 recordings run already"),
        "{refused}"
    );
    let pid = nix::unistd::Pid::from_raw(client.id().cast_signed());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    let output = client.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("stopped after"), "{}", said(&output));
    assert_eq!(listener.end()[0]["end"], "left");
    assert!(trace(&dir.path().join("here/down.trace")).len() > 100);
    assert!(trace(&dir.path().join("there/x/up.trace")).len() > 50);
}

/// The second recording does not fit beside the first, and the third is short enough.
#[test]
fn the_space_of_all_recordings_is_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let limits = [
        "--max-total",
        "30kB",
        "--count",
        "3",
        "--out",
        &path("there"),
    ];
    let mut listener = Listener::start(None, &limits);
    let host = format!("127.0.0.1:{}", listener.port);
    for (label, duration) in [("a", "500ms"), ("b", "2s"), ("c", "100ms")] {
        let out = path(label);
        let steady = [
            &host, "--mode", "constant", "--down", "5mbit", "--up", "5mbit",
        ];
        let more = [
            "--warm-up",
            "0s",
            "--duration",
            duration,
            "--label",
            label,
            "--out",
            &out,
        ];
        let done = alcc(&[&steady[..], &more].concat()).output().unwrap();
        assert!(done.status.success(), "{}", said(&done));
    }
    assert_eq!(listener.child.wait().unwrap().code(), Some(1));
    let there = dir.path().join("there");
    assert!(there.join("a/up.trace").exists() && there.join("c/up.trace").exists());
    assert!(!there.join("b").exists());
}

#[test]
fn what_cannot_be_is_said_in_one_line() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("summary.json"), "{}").unwrap();
    let taken = dir.path().display().to_string();
    // A port that was free a moment ago, and one where somebody is who says nothing.
    let closed = UdpSocket::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let mute = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (closed, mute) = (closed.to_string(), mute.local_addr().unwrap().to_string());
    let listener = Listener::start(None, &["--max-duration", "2s"]);
    let strict = format!("127.0.0.1:{}", listener.port);
    let free = dir.path().join("free").display().to_string();
    let cases: &[(&[&str], i32, &str)] = &[
        (
            &[&closed, "--out", &free, "--patience", "600ms"],
            1,
            "connection refused",
        ),
        (
            &[&mute, "--out", &free, "--patience", "600ms"],
            1,
            "no answer to packets of 1472 bytes",
        ),
        (
            &[&strict, "--out", &free, "--duration", "10s"],
            1,
            "--max-duration",
        ),
        (
            &[&closed, "--out", &taken],
            2,
            "it already contains a recording",
        ),
        (&["192.0.2.1", "--out", &free], 2, "--insecure"),
        (&["--listen"], 2, "127.0.0.1:9701 to test"),
        (&["--listen", "nonsense"], 2, "not an address"),
        (&["127.0.0.1", "--size", "20"], 2, "128 to 8972"),
        (&["127.0.0.1", "--duration", "5"], 2, "--duration"),
        (
            &["127.0.0.1", "--mode", "constant", "--down", "5"],
            2,
            "--down",
        ),
        (
            &[
                "127.0.0.1",
                "--mode",
                "constant",
                "--down",
                "0bit",
                "--up",
                "0bit",
            ],
            2,
            "nothing to send",
        ),
        (&["127.0.0.1", "--down", "5mbit"], 2, "--mode constant"),
        (
            &["127.0.0.1", "--mode", "other"],
            2,
            "saturate, constant, probe",
        ),
        (&[], 2, "HOST"),
    ];
    for (args, status, needle) in cases {
        let output = alcc(args).output().unwrap();
        assert_eq!(
            output.status.code(),
            Some(*status),
            "{args:?}: {}",
            said(&output)
        );
        assert!(
            said(&output).contains(needle),
            "{args:?}: {}",
            said(&output)
        );
    }
    assert!(
        !dir.path().join("free").exists(),
        "nothing was recorded, nothing is written"
    );
}

/// A client that does not prove its address gets less than it sent, and nothing for an unknown
/// packet.
#[test]
fn strangers_get_no_more_than_they_send() {
    let listener = Listener::start(None, &[]);
    let to = ("127.0.0.1", listener.port);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket
        .set_read_timeout(Some(Duration::from_millis(300)))
        .unwrap();
    let mut answer = [0; 2000];
    for junk in [
        &b"hello"[..],
        &[0; 1472],
        b"ALRC\x01\x01",
        b"ALRC\x02\x01\0\0\0\0\0\0\0\x07",
    ] {
        socket.send_to(junk, to).unwrap();
        assert!(socket.recv(&mut answer).is_err(), "an answer to {junk:?}");
    }
    // A hello that is shorter than the challenge gets none; one that is long enough gets one that
    // is shorter.
    let hello = b"ALRC\x01\x01\0\0\0\0\0\0\0\x07";
    socket.send_to(hello, to).unwrap();
    assert!(socket.recv(&mut answer).is_err(), "more than was sent");
    let mut long = hello.to_vec();
    long.resize(1472, 0);
    socket.send_to(&long, to).unwrap();
    let len = socket.recv(&mut answer).unwrap();
    assert!(len <= 64, "{len}");
    // A start with a cookie that was made up gets nothing.
    let mut start = b"ALRC\x01\x03\0\0\0\0\0\0\0\x07".to_vec();
    start.resize(1472, 0x55);
    socket.send_to(&start, to).unwrap();
    assert!(
        socket.recv(&mut answer).is_err(),
        "an answer to a forged cookie"
    );
}
