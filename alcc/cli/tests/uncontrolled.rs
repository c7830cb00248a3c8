// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `alcc run` says which connections it did not control and why: a static program, MPTCP, io_uring;
//! and nothing of those that it controlled. On loopback, with programs written for it.
#[path = "../../bpf/tests/support/mod.rs"]
mod controls;
#[path = "support/kernel.rs"]
mod kernel;
#[path = "support/lacks.rs"]
mod lacks;
#[path = "support/wait.rs"]
mod wait;

use lacks::lacks;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use wait::wait_for;

const BYTES: u64 = 12_000_000;

fn compile(dir: &Path, options: &[&str]) -> Option<PathBuf> {
    let program = dir.join(if options.is_empty() {
        "sender"
    } else {
        "sender-static"
    });
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/sender.c");
    let made = Command::new("cc")
        .args(["-O1", "-Wall", "-o"])
        .arg(&program)
        .args(options)
        .arg(source)
        .status();
    made.is_ok_and(|status| status.success()).then_some(program)
}

/// The port that a server prints in its first line.
fn told_port(server: &mut Child) -> Option<u16> {
    let mut first = String::new();
    BufReader::new(server.stdout.take().unwrap())
        .read_line(&mut first)
        .unwrap();
    first.trim().parse().ok()
}

/// A connection to a loopback port; only if both ends speak MPTCP does the server get an MPTCP
/// socket.
fn connect(port: u16, mptcp: bool) -> TcpStream {
    use nix::libc;
    use std::os::fd::FromRawFd;
    if !mptcp {
        return TcpStream::connect(("127.0.0.1", port)).unwrap();
    }
    let address = libc::sockaddr_in {
        sin_family: libc::AF_INET as _,
        sin_port: port.to_be(),
        sin_addr: libc::in_addr {
            s_addr: u32::from_ne_bytes([127, 0, 0, 1]),
        },
        sin_zero: [0; 8],
    };
    // SAFETY: a descriptor of our own, and an address that outlives the call.
    unsafe {
        let fd = libc::socket(libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_MPTCP);
        assert!(fd >= 0, "{}", std::io::Error::last_os_error());
        let at = (&raw const address).cast();
        assert_eq!(libc::connect(fd, at, size_of_val(&address) as _), 0);
        TcpStream::from_raw_fd(fd)
    }
}

/// Observations of a run.
struct Seen {
    report: Value,
    said: String,
    /// In the middle: what `alcc top` and the metrics showed.
    top: Value,
    page: String,
}

/// The display of a run during a transfer, as soon as it shows an uncontrolled connection; `None`: the run
/// ended before.
fn look(pid: u32, socket: &Path) -> Option<(Value, String)> {
    let top = Command::new(env!("CARGO_BIN_EXE_alcc"))
        .args(["top", "--once", "--json", "--run", &pid.to_string()])
        .output()
        .unwrap();
    let mut stream = UnixStream::connect(socket).ok()?;
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").ok()?;
    let mut page = String::new();
    stream.read_to_string(&mut page).ok()?;
    let top: Value = serde_json::from_slice(&top.stdout).ok()?;
    if top["runs"][0]["uncontrolled"][0].is_object() {
        return Some((top, page));
    }
    look(pid, socket)
}

/// Runs a sender under `alcc run` and reads what it sends, for three seconds or so, and longer until
/// something was seen that is `expected` to pass uncontrolled.
/// `None`: the kernel does not have what it needs.
fn run(dir: &Path, program: &Path, how: &str, options: &[&str], expected: bool) -> Option<Seen> {
    let socket = dir.join(format!("{how}.sock"));
    let ours = [
        "--cc",
        "fixed:window=20",
        "--metrics",
        socket.to_str().unwrap(),
    ];
    run_with(dir, program, how, &[&ours, options].concat(), expected)
}

/// The same with the algorithm among the options, and no metrics.
fn run_with(
    dir: &Path,
    program: &Path,
    how: &str,
    options: &[&str],
    expected: bool,
) -> Option<Seen> {
    let report = dir.join(format!("{how}.json"));
    let socket = dir.join(format!("{how}.sock"));
    let mut looking = None;
    let mut child = Command::new(env!("CARGO_BIN_EXE_alcc"))
        .args(["run", "--loopback"])
        .arg(format!("--json={}", report.display()))
        .args(options)
        .arg("--")
        .arg(program)
        .args([how, &BYTES.to_string()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut total = 0;
    if let Some(port) = told_port(&mut child) {
        let mut stream = connect(port, how == "mptcp");
        let pid = child.id();
        looking = Some(std::thread::spawn(move || look(pid, &socket)));
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        let mut buffer = vec![0; 150_000];
        loop {
            let mut taken = 0;
            while taken < buffer.len() {
                match stream.read(&mut buffer[taken..]).unwrap() {
                    0 => break,
                    n => taken += n,
                }
            }
            total += taken as u64;
            if taken < buffer.len() {
                break;
            }
            std::thread::sleep(Duration::from_millis(40));
            let looks = || looking.as_ref().is_some_and(|l| !l.is_finished());
            if expected && total > BYTES * 3 / 4 && looks() {
                wait_for("what passes uncontrolled", || !looks());
            }
        }
    }
    let out = child.wait_with_output().unwrap();
    if out.status.code() == Some(77) {
        return None;
    }
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(out.status.success(), "{how}: {said}");
    assert_eq!(total, BYTES, "{how}");
    let report = serde_json::from_str(&std::fs::read_to_string(report).unwrap()).unwrap();
    let shown = looking.and_then(|looking| looking.join().unwrap());
    let (top, page) = shown.unwrap_or_default();
    Some(Seen {
        report,
        said,
        top,
        page,
    })
}

/// Streams of the C library are not controlled, nor reported as controlled; data that passes by calls on
/// the same connection is.
#[test]
fn what_streams_write_is_reported_and_not_taken_for_controlled() {
    let dir = tempfile::tempdir().unwrap();
    let Some(sender) = compile(dir.path(), &[]) else {
        lacks("a C compiler");
        return;
    };
    let streams = |how: &str, why: &str, connections: u64| {
        let seen = run(dir.path(), &sender, how, &[], true).unwrap();
        let report = &seen.report;
        reported(&seen, "sender", why);
        assert_eq!(report["connections"], connections, "{how}: {report}");
        let missed = report["not_controlled"][0]["bytes"].as_u64().unwrap();
        let passed = report["bytes"].as_u64().unwrap();
        let expected = if how == "both" { BYTES / 2 } else { 0 };
        assert!(passed.abs_diff(expected) < 100_000, "{how}: {report}");
        assert!(missed <= BYTES - passed, "{how}: {report}");
        // There is no scan at the moment of the end, so bytes after the last scan are not in the number;
        // their time depends on the machine.
        assert!(missed > (BYTES - passed) / 10, "{how}: {report}");
    };
    std::thread::scope(|scope| {
        scope.spawn(|| streams("stdio", "stdio", 0));
        scope.spawn(|| streams("stdout", "stdio", 0));
        scope.spawn(|| streams("dprintf", "calls that the library cannot intercept", 0));
        scope.spawn(|| streams("aio", "calls that the library cannot intercept", 0));
        scope.spawn(|| streams("both", "stdio", 1));
        // What one process sent under control is not missed in another.
        scope.spawn(|| {
            let seen = run(dir.path(), &sender, "by-a-child", &[], false).unwrap();
            let (report, said) = (&seen.report, &seen.said);
            assert_eq!(report["not_controlled"], serde_json::json!([]), "{said}");
            assert_eq!(report["bytes"], BYTES, "{said}");
        });
    });
}

/// Checks that exactly one connection is reported, for this reason.
fn reported(seen: &Seen, program: &str, why: &str) {
    let (report, said) = (&seen.report, &seen.said);
    let list = report["not_controlled"].as_array().unwrap();
    assert_eq!(list.len(), 1, "{report} {said}");
    assert_eq!(list[0]["program"], program, "{report}");
    assert_eq!(list[0]["connections"], 1, "{report}");
    assert!(list[0]["bytes"].as_u64().unwrap() > 100_000, "{report}");
    assert!(
        list[0]["example"]
            .as_str()
            .unwrap()
            .starts_with("127.0.0.1:"),
        "{report}"
    );
    assert!(list[0]["why"].as_str().unwrap().contains(why), "{report}");
    assert!(
        said.contains(why) && said.contains("at least 1 connection of "),
        "{said}"
    );
    // While it happened, too: said once, with the cure, and shown by its reason.
    let now: Vec<_> = said
        .lines()
        .filter(|line| line.contains(" pass uncontrolled: "))
        .collect();
    assert_eq!(now.len(), 1, "{said}");
    assert!(now[0].contains(why), "{said}");
    let reason = list[0]["reason"].as_str().unwrap();
    assert!(
        reason == "failed" || now[0].contains("'alcc proxy'"),
        "{said}"
    );
    let shown = seen.top["runs"][0]["uncontrolled"].as_array().unwrap();
    assert_eq!(shown.len(), 1, "{}", seen.top);
    assert_eq!(shown[0]["reason"], reason);
    assert_eq!(shown[0]["connections"], 1);
    assert!(shown[0]["bytes"].as_u64().unwrap() > 0, "{}", seen.top);
    let sample = format!("alcc_uncontrolled_connections_total{{reason=\"{reason}\"}} 1\n");
    assert!(seen.page.contains(&sample), "{}", seen.page);
    let sample = format!("alcc_uncontrolled_bytes_total{{reason=\"{reason}\"}} ");
    assert!(seen.page.contains(&sample), "{}", seen.page);
}

#[test]
fn what_was_not_controlled_is_reported_with_the_reason_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let Some(sender) = compile(dir.path(), &[]) else {
        lacks("a C compiler");
        return;
    };
    let seen = run(dir.path(), &sender, "send", &[], false).unwrap();
    let (report, said) = (&seen.report, &seen.said);
    assert_eq!(report["not_controlled"], serde_json::json!([]), "{said}");
    assert_eq!(report["connections"], 1, "{said}");
    assert!(!said.contains("uncontrolled"), "{said}");

    match compile(dir.path(), &["-static"]) {
        Some(program) => {
            let seen = run(dir.path(), &program, "send", &[], true).unwrap();
            reported(&seen, "sender-static", "a static program");
            // What a program calls itself is not obeyed by a terminal.
            let odd = dir.path().join("s\x1b[2J\u{202e}\nx");
            std::fs::copy(&program, &odd).unwrap();
            let seen = run(dir.path(), &odd, "send", &[], true).unwrap();
            reported(&seen, "s\\u{1b}[2J\\u{202e}\\nx", "a static program");
            assert!(!seen.said.contains(['\x1b', '\u{202e}']), "{}", seen.said);
            // What the selection leaves alone is not missed.
            let out = run(
                dir.path(),
                &program,
                "send",
                &["--except", "127.0.0.0/8"],
                false,
            );
            assert_eq!(out.unwrap().report["not_controlled"], serde_json::json!([]));
        }
        None => drop(lacks("a static C library")),
    }
    let mptcp = std::fs::read_to_string("/proc/sys/net/mptcp/enabled");
    let mptcp = mptcp.is_ok_and(|on| on.trim() == "1");
    match mptcp
        .then(|| run(dir.path(), &sender, "mptcp", &[], true))
        .flatten()
    {
        Some(seen) => reported(&seen, "sender", "MPTCP"),
        // No package brings a kernel.
        None => println!("skipped: needs MPTCP in the kernel"),
    }
    match run(dir.path(), &sender, "uring", &[], true) {
        Some(seen) => reported(&seen, "sender", "io_uring"),
        None => println!("skipped: needs io_uring in the kernel"),
    }
    // The runtime gives up at its first reading: what follows is plain TCP, and said to be.
    let seen = run(dir.path(), &sender, "send", &["--fault", "0"], true).unwrap();
    reported(&seen, "sender", "the runtime failed");
}

/// The kernel counts calls with MSG_ZEROCOPY: one that waits passes whole, and the part of it that the
/// algorithm had not allowed is no byte under control.
#[test]
fn the_rest_of_a_call_without_copying_is_counted() {
    let dir = tempfile::tempdir().unwrap();
    let Some(sender) = compile(dir.path(), &[]) else {
        lacks("a C compiler");
        return;
    };
    let Some(seen) = run(dir.path(), &sender, "zerocopy", &[], false) else {
        println!("skipped: needs MSG_ZEROCOPY in the kernel");
        return;
    };
    let (report, said) = (&seen.report, &seen.said);
    let passed = &report["uncontrolled"][0];
    assert_eq!(passed["reason"], "zero-copy", "{report}");
    assert_eq!(passed["connections"], 1, "{report}");
    let passed = passed["bytes"].as_u64().unwrap();
    assert!(passed > 0, "{report}");
    assert_eq!(report["bytes"].as_u64(), Some(BYTES - passed), "{report}");
    assert_eq!(report["not_controlled"], serde_json::json!([]), "{said}");
    assert!(said.contains("MSG_ZEROCOPY"), "{said}");
}

/// A kernel that keeps the limit does so for calls with MSG_ZEROCOPY, too. What follows another control that the
/// program selects by a call past the library is no byte under control.
#[test]
fn accounts_in_the_kernel_are_true() {
    let dir = tempfile::tempdir().unwrap();
    let Some(sender) = compile(dir.path(), &[]) else {
        lacks("a C compiler");
        return;
    };
    let Some(_alone) = kernel::loaded() else {
        return;
    };
    for (enforcement, cc) in [("bpf", "fixed:window=20"), ("kernel", "copa")] {
        let options = ["--enforce", enforcement, "--cc", cc];
        let account = |how: &str| {
            let Seen { report, said, .. } = run_with(dir.path(), &sender, how, &options, false)?;
            println!("{enforcement}, {how}: {report}");
            assert_eq!(report["connections"], 1, "{said}");
            assert_eq!(report["not_controlled"], serde_json::json!([]), "{said}");
            let passed = report["uncontrolled"].as_array().unwrap().clone();
            Some((report["bytes"].as_u64().unwrap(), passed, said))
        };
        match account("zerocopy") {
            Some((bytes, passed, said)) => {
                assert!(bytes == BYTES && passed.is_empty(), "{enforcement}: {said}");
            }
            None => println!("skipped: needs MSG_ZEROCOPY in the kernel"),
        }
        let (bytes, passed, said) = account("replaced").unwrap();
        assert_eq!(passed.len(), 1, "{enforcement}: {said}");
        assert_eq!(passed[0]["reason"], "replaced", "{enforcement}");
        let after = passed[0]["bytes"].as_u64().unwrap();
        assert_eq!(bytes + after, BYTES, "{enforcement}: {said}");
        // The library finds it within a reading, or at the end.
        assert!(after > BYTES / 4, "{enforcement}: {after}");
        assert!(said.contains("another congestion control"), "{said}");
    }
}

/// The first attempts of most users, and the reason why they show no effect.
#[test]
fn connections_left_alone_are_counted_with_the_option_that_would_control_them() {
    let dir = tempfile::tempdir().unwrap();
    let Some(sender) = compile(dir.path(), &[]) else {
        lacks("a C compiler");
        return;
    };
    let report = dir.path().join("report.json");
    let mut child = Command::new(env!("CARGO_BIN_EXE_alcc"))
        .arg("run")
        .arg(format!("--json={}", report.display()))
        .arg(&sender)
        .args(["send", "500000"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut all = Vec::new();
    connect(told_port(&mut child).unwrap(), false)
        .read_to_end(&mut all)
        .unwrap();
    assert_eq!(all.len(), 500_000);
    let out = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    let end = said.lines().last().unwrap();
    assert!(end.contains("0 connections controlled by budget"), "{said}");
    assert!(end.contains("; 1 skipped: loopback (--loopback)"), "{said}");
    assert!(!said.contains("uncontrolled"), "{said}");
    let report: Value = serde_json::from_str(&std::fs::read_to_string(report).unwrap()).unwrap();
    assert_eq!(
        report["uncontrolled"],
        serde_json::json!([{"reason": "loopback", "connections": 1, "bytes": null}])
    );
    assert_eq!(report["not_controlled"], serde_json::json!([]));
}

/// By a ring, in a process that stays.
#[test]
fn short_connections_of_a_ring_are_counted() {
    const SIZE: usize = 300_000;
    let dir = tempfile::tempdir().unwrap();
    let [program, file, report] =
        ["ring_server", "file", "report.json"].map(|name| dir.path().join(name));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/ring_server.c");
    let made = Command::new("cc")
        .args([&source, Path::new("-o"), &program])
        .status();
    if !made.is_ok_and(|status| status.success()) {
        lacks("a C compiler");
        return;
    }
    std::fs::write(&file, vec![7; SIZE]).unwrap();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let mut child = Command::new(env!("CARGO_BIN_EXE_alcc"))
        .args(["run", "--quiet", "--loopback"])
        .arg(format!("--json={}", report.display()))
        .arg("--")
        .arg(&program)
        .args([&port.to_string(), file.to_str().unwrap()])
        .spawn()
        .unwrap();
    let mut client = None;
    wait_for("the server", || {
        client = TcpStream::connect(("127.0.0.1", port)).ok();
        client.is_some() || child.try_wait().unwrap().is_some()
    });
    if client.is_none() {
        println!("skipped: needs io_uring");
        return;
    }
    for _ in 0..3 {
        let mut stream = client.take().unwrap_or_else(|| connect(port, false));
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        assert!(all.len() > SIZE);
    }
    std::thread::sleep(Duration::from_millis(300));
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(child.id().cast_signed()),
        nix::sys::signal::Signal::SIGTERM,
    )
    .unwrap();
    child.wait().unwrap();
    let report: Value = serde_json::from_str(&std::fs::read_to_string(report).unwrap()).unwrap();
    let missed = &report["not_controlled"][0];
    assert_eq!(missed["connections"], 3, "{report}");
    // The other one if the machine was busy until the program had gone.
    let reason = missed["reason"].as_str().unwrap();
    assert!(["io_uring", "ended"].contains(&reason), "{report}");
}

/// As inetd: a process without the library sends, and lasts for some milliseconds.
const HANDS_OVER: &str = r#"
import socket, subprocess, sys
listener = socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen()
print(listener.getsockname()[1], flush=True)
for _ in range(5):
    client, _ = listener.accept()
    subprocess.check_call(["/bin/cat", sys.argv[1]], stdout=client, stdin=subprocess.DEVNULL, env={})
    client.close()
"#;

/// Each ends before the next scan, and the last of them with the program.
#[test]
fn short_connections_of_others_are_counted() {
    const SIZE: usize = 300_000;
    let dir = tempfile::tempdir().unwrap();
    let [script, file, report] =
        ["server.py", "file", "report.json"].map(|name| dir.path().join(name));
    std::fs::write(&script, HANDS_OVER).unwrap();
    std::fs::write(&file, vec![7; SIZE]).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_alcc"))
        .args(["run", "--quiet", "--loopback"])
        .arg(format!("--json={}", report.display()))
        .args(["--", "python3"])
        .args([&script, &file])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let port = told_port(&mut child).unwrap();
    for _ in 0..5 {
        std::thread::sleep(Duration::from_millis(300));
        let mut all = Vec::new();
        connect(port, false).read_to_end(&mut all).unwrap();
        assert_eq!(all.len(), SIZE);
    }
    assert!(child.wait().unwrap().success());
    let report: Value = serde_json::from_str(&std::fs::read_to_string(report).unwrap()).unwrap();
    let missed = report["not_controlled"].as_array().unwrap();
    let sum = |field: &str| -> u64 { missed.iter().map(|m| m[field].as_u64().unwrap()).sum() };
    assert_eq!(sum("connections"), 5, "{report}");
    assert_eq!(sum("bytes"), 5 * SIZE as u64, "{report}");
    assert!(
        missed.iter().all(|m| ["ended", "not-loaded"]
            .map(Value::from)
            .contains(&m["reason"])),
        "{report}"
    );
}

/// libuv would register by io_uring, which the library does not see, so it gets no ring and falls back;
/// other callers get one.
#[test]
fn libuv_inside_another_library_gets_no_ring_and_others_do() {
    let dir = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/ring.c");
    let made = |name: &str, options: &[&str]| {
        let to = dir.path().join(name);
        let made = Command::new("cc")
            .args(["-O1", "-w", "-o"])
            .arg(&to)
            .args(options)
            .arg(&source)
            .status();
        made.is_ok_and(|status| status.success()).then_some(to)
    };
    let library = ["-shared", "-fPIC"];
    let (Some(program), Some(plain), Some(libuv)) = (
        made("program", &["-DPROGRAM"]),
        made("plain.so", &library),
        made("libuv-inside.so", &[library[0], library[1], "-DLIBUV"]),
    ) else {
        lacks("a C compiler");
        return;
    };
    let said = |library: &Path| {
        let out = Command::new(env!("CARGO_BIN_EXE_alcc"))
            .args(["run", "--quiet", "--"])
            .args([&program, library])
            .output()
            .unwrap();
        String::from_utf8(out.stdout).unwrap()
    };
    let alone = Command::new(&program).arg(&plain).output().unwrap();
    assert_eq!(said(&plain).as_bytes(), alone.stdout);
    assert_eq!(said(&libuv), "ENOSYS\n");
    if alone.stdout != b"a ring\n" {
        println!("skipped: needs io_uring in the kernel");
    }
}
