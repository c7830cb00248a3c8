// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Events of the algorithms of a running program, by `alcc run --log` and `alcc log`, over loopback.
#[path = "support/lacks.rs"]
mod lacks;
#[path = "support/wait.rs"]
mod wait;

use lacks::lacks;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use wait::wait_for;

/// A program that listens, prints its port, and sends a given number of bytes to one client.
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
    let options = ["--cc", "bbr", "--log", log.to_str().unwrap()];
    let mut server = serve(&program, 3_000_000, &options);
    // A busy machine takes its first readings late: the connection stays until there are some.
    let mut got = vec![0; 100_000];
    server.client.read_exact(&mut got).unwrap();
    wait_for("readings", || {
        let files = std::fs::read_dir(&log).into_iter().flatten().flatten();
        files
            .map(|f| f.path())
            .any(|path| path.extension().is_some_and(|e| e == "csv"))
    });
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
        assert_eq!(event["algorithm"], "bbr", "{text}");
        assert_eq!(event["local"], server.ends.0.to_string(), "{text}");
        assert_eq!(event["peer"], server.ends.1.to_string(), "{text}");
        let csv = log.join(format!("{}.csv", event["pid"]));
        assert!(csv.exists(), "{text}");
    }
    let times = events.iter().map(|e| e["time_ms"].as_f64().unwrap());
    assert!(times.is_sorted(), "{text}");
}

/// The server starts, and one line names the missing part.
fn starts_without(log: &Path, what: &str) {
    let done = alcc(&[
        "run",
        "--quiet",
        "--log",
        log.to_str().unwrap(),
        "--",
        "sh",
        "-c",
        "exit 7",
    ]);
    let said = String::from_utf8(done.stderr).unwrap();
    assert_eq!(done.status.code(), Some(7), "{said}");
    assert!(said.trim_end().ends_with(what), "{said}");
    let notes = said
        .lines()
        .filter(|line| line.contains("continuing without"));
    assert_eq!(notes.count(), 1, "{said}");
}

/// A FIFO in the place of a process's file waits for a reader for ever, and a link may lead to
/// anything: the first holds no connection, and nothing is written by the second.
#[test]
fn what_lies_in_the_place_of_a_log_neither_holds_a_server_nor_is_changed() {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = sender(dir.path()) else {
        return;
    };
    let log = dir.path().join("log");
    let precious = dir.path().join("precious");
    std::fs::write(&precious, "content").unwrap();
    for place in ["mkfifo", "ln -s ../precious"] {
        let shell = dir.path().join("start");
        let lines = format!(
            "#!/bin/sh\n{place} {}/$$.csv\nexec {} \"$@\"\n",
            log.display(),
            program.display()
        );
        std::fs::write(&shell, lines).unwrap();
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&shell, open).unwrap();
        let bytes = 3_000_000;
        let options = ["--cc", "fixed:window=10", "--log", log.to_str().unwrap()];
        let mut server = serve(&shell, bytes, &options);
        let patience = Some(Duration::from_secs(20));
        server.client.set_read_timeout(patience).unwrap();
        let mut got = Vec::new();
        server.client.read_to_end(&mut got).unwrap();
        assert_eq!(got.len() as u64, bytes, "{place}");
        assert!(server.alcc.wait().unwrap().success());
        assert_eq!(std::fs::read_to_string(&precious).unwrap(), "content");
    }
    let events = log.join("events.jsonl");
    for place in [
        "ln -s ../precious",
        "ln -s ../nothing",
        "ln ../precious",
        "mkfifo",
        "mkdir",
    ] {
        drop(std::fs::remove_file(&events));
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("{place} events.jsonl")]);
        assert!(shell.current_dir(&log).status().unwrap().success());
        starts_without(&log, "without the events");
    }
    // The folder may be another user's, and so what is in the place of the log itself.
    if std::os::unix::fs::chown(dir.path(), Some(4242), None).is_ok() {
        std::os::unix::fs::symlink("log", dir.path().join("link")).unwrap();
        std::os::unix::fs::lchown(dir.path().join("link"), Some(4242), None).unwrap();
        for there in ["link", "precious"] {
            starts_without(&dir.path().join(there), "without a log");
        }
    }
    assert_eq!(std::fs::read_to_string(&precious).unwrap(), "content");
    assert!(!dir.path().join("nothing").exists());
}

#[test]
fn a_log_has_the_readings_of_a_program_that_waits_in_its_writes() {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = sender(dir.path()) else {
        return;
    };
    let (log, out) = (dir.path().join("log"), dir.path().join("run.json"));
    let [log_name, out_name] = [&log, &out].map(|path| path.to_str().unwrap());
    let options = [
        "--cc",
        "fixed:window=4",
        "--log",
        log_name,
        "--json-out",
        out_name,
    ];
    // A client that reads slowly, so that the program waits most of the time.
    let mut server = serve(&program, 24_000_000, &options);
    let (mut got, mut piece) = (0, [0; 65_536]);
    loop {
        let read = server.client.read(&mut piece).unwrap();
        if read == 0 {
            break;
        }
        got += read;
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(got, 24_000_000);
    assert!(server.alcc.wait().unwrap().success());
    let run: Value = serde_json::from_slice(&std::fs::read(out).unwrap()).unwrap();
    let readings = run["readings"].as_u64().unwrap();
    let files = std::fs::read_dir(&log).unwrap().flatten().map(|f| f.path());
    let tables = files.filter(|path| path.extension().is_some_and(|e| e == "csv"));
    let lines: usize = tables
        .map(|path| std::fs::read_to_string(path).unwrap().lines().count() - 1)
        .sum();
    // Those before the runtime's thread has opened the log are missing.
    let missing = readings.saturating_sub(lines as u64);
    assert!(readings > 100, "{readings}");
    assert!(
        missing <= 20 + readings / 10,
        "{lines} lines of {readings} readings"
    );
}

/// Says at its end that all is over.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Each order of `alcc ctl` begins an algorithm afresh, which says so.
#[test]
fn the_log_of_a_running_program_shows_events() {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = sender(dir.path()) else {
        return;
    };
    let server = serve(&program, 1 << 40, &["--cc", "copa"]);
    let (mut alcc_run, mut client) = (server.alcc, server.client);
    let run = alcc_run.id().to_string();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Also for a test that fails: the scope waits for both threads.
        let _ends = Ends(&over);
        scope.spawn(|| {
            let mut bytes = [0; 65_536];
            while !over.load(Ordering::Relaxed) && client.read(&mut bytes).is_ok_and(|n| n > 0) {
                std::thread::sleep(Duration::from_millis(1));
            }
            drop(client);
        });
        scope.spawn(|| {
            for cc in ["bbr", "copa"].iter().cycle() {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                alcc(&["ctl", "--run", &run, "cc", cc]);
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        let ends = format!(" s  {} > {}  ", server.ends.0, server.ends.1);
        let startup = |line: &str| line.contains(&ends) && line.contains("  bbr  mode startup");
        let is_startup = |line: &str| {
            let event: Value = serde_json::from_str(line).unwrap();
            event["mode"] == "startup" && event["algorithm"] == "bbr"
        };
        // On a busy machine three seconds may be too short for any event, so this repeats until it has shown
        // one. Returns its output and its notes.
        let log = |more: &[&str], shows: &dyn Fn(&str, &str) -> bool| {
            for _ in 0..10 {
                let out = alcc(&[&["log", "--run", &run, "--duration", "3s"], more].concat());
                let text = |bytes| String::from_utf8(bytes).unwrap();
                assert!(out.status.success(), "{out:?}");
                let (output, notes) = (text(out.stdout), text(out.stderr));
                if shows(&output, &notes) {
                    return (output, notes);
                }
                println!("{more:?}, nothing yet: {output}\n{notes}");
            }
            panic!("{more:?}: no start of bbr in ten times three seconds");
        };
        let (csv, _) = log(&[], &|csv, said| {
            csv.lines().count() > 10 && said.lines().any(startup)
        });
        let (_, nothing) = log(&["--events"], &|events, _| events.lines().any(startup));
        log(&["--events", "--json"], &|objects, _| {
            objects.lines().any(is_startup)
        });
        assert_eq!(nothing, "");
        let columns = |line: &str| line.split(',').count();
        let head = csv.lines().next().unwrap();
        assert!(head.starts_with("time_ms,"), "{csv}");
        assert!(
            csv.lines().all(|line| columns(line) == columns(head)),
            "{csv}"
        );
    });
    drop(alcc_run.kill());
    drop(alcc_run.wait());
}
