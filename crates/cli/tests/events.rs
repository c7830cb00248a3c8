// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What algorithms say of themselves comes out of a running program: `alcc run --log` and `alcc
//! log`. On loopback.
#[path = "support/lacks.rs"]
mod lacks;

use lacks::lacks;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A program that listens, says where, and sends so many bytes to one client.
fn sender(dir: &Path) -> Option<PathBuf> {
    let program = dir.join("sender");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/sender.c");
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-Wall", "-o"]).arg(&program).arg(source);
    let made = cc.status();
    if made.is_ok_and(|status| status.success()) {
        return Some(program);
    }
    lacks("a C compiler (cc)");
    None
}

struct Server {
    alcc: Child,
    client: TcpStream,
    /// Both ends, as the server sees them.
    ends: (SocketAddr, SocketAddr),
}

fn serve(program: &Path, bytes: u64, options: &[&str]) -> Server {
    let mut alcc = Command::new(env!("CARGO_BIN_EXE_alcc"))
        .args(["run", "--quiet", "--loopback"])
        .args(options)
        .arg("--")
        .arg(program)
        .args(["send", &bytes.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    BufReader::new(alcc.stdout.take().unwrap())
        .read_line(&mut first)
        .unwrap();
    let port: u16 = first.trim().parse().unwrap();
    let client = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let ends = (client.peer_addr().unwrap(), client.local_addr().unwrap());
    Server { alcc, client, ends }
}

fn alcc(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_alcc"));
    command.args(args).output().unwrap()
}

#[test]
fn a_run_with_a_log_has_the_events_of_each_connection() {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = sender(dir.path()) else {
        return;
    };
    let log = dir.path().join("log");
    let options = ["--cc", "bbr3", "--log", log.to_str().unwrap()];
    let mut server = serve(&program, 3_000_000, &options);
    let mut got = Vec::new();
    server.client.read_to_end(&mut got).unwrap();
    assert_eq!(got.len(), 3_000_000);
    assert!(server.alcc.wait().unwrap().success());
    let text = std::fs::read_to_string(log.join("events.jsonl")).unwrap();
    let events: Vec<Value> = (text.lines())
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    // From the very start of the connection, before it has sent anything.
    let first = &events[0];
    assert_eq!(first["event"], "mode_changed", "{text}");
    assert_eq!(first["mode"], "startup", "{text}");
    for event in &events {
        assert_eq!(event["algorithm"], "bbr3", "{text}");
        assert_eq!(event["local"], server.ends.0.to_string(), "{text}");
        assert_eq!(event["peer"], server.ends.1.to_string(), "{text}");
        let csv = log.join(format!("{}.csv", event["pid"]));
        assert!(csv.exists(), "{text}");
    }
    let times = events.iter().map(|e| e["time_ms"].as_f64().unwrap());
    assert!(times.is_sorted(), "{text}");
}

/// Each order of `alcc ctl` begins an algorithm afresh, which says so.
#[test]
fn the_log_of_a_running_program_shows_events() {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = sender(dir.path()) else {
        return;
    };
    let server = serve(&program, 1 << 40, &["--cc", "bbr3"]);
    let (mut alcc_run, mut client) = (server.alcc, server.client);
    let run = alcc_run.id().to_string();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut bytes = [0; 65_536];
            while !over.load(Ordering::Relaxed) && client.read(&mut bytes).is_ok_and(|n| n > 0) {
                std::thread::sleep(Duration::from_millis(1));
            }
            drop(client);
        });
        scope.spawn(|| {
            for cc in ["bbr", "bbr3"].iter().cycle() {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                alcc(&["ctl", "--run", &run, "cc", cc]);
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        let log = |more: &[&str]| {
            let out = alcc(&[&["log", "--run", &run, "--duration", "3s"], more].concat());
            let text = |bytes| String::from_utf8(bytes).unwrap();
            assert!(out.status.success(), "{out:?}");
            (text(out.stdout), text(out.stderr))
        };
        let (csv, said) = log(&[]);
        let (events, nothing) = log(&["--events"]);
        let (objects, _) = log(&["--events", "--json"]);
        over.store(true, Ordering::Relaxed);
        let ends = format!(" s  {} > {}  ", server.ends.0, server.ends.1);
        let startup = |line: &str| line.contains(&ends) && line.contains("  bbr  mode startup");
        assert!(said.lines().any(startup), "{said}");
        assert!(events.lines().any(startup), "{events}");
        assert_eq!(nothing, "");
        let columns = |line: &str| line.split(',').count();
        let head = csv.lines().next().unwrap();
        assert!(
            head.starts_with("time_ms,") && csv.lines().count() > 10,
            "{csv}"
        );
        assert!(
            csv.lines().all(|line| columns(line) == columns(head)),
            "{csv}"
        );
        let is_startup = |line: &str| {
            let event: Value = serde_json::from_str(line).unwrap();
            event["mode"] == "startup" && event["algorithm"] == "bbr"
        };
        assert!(objects.lines().any(is_startup), "{objects}");
    });
    drop(alcc_run.kill());
    drop(alcc_run.wait());
}
