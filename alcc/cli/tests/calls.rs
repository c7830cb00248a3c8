// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The system calls of a write that passes the gate: those that the decision uses, and no other
//! (the table at `Conn::room` of `alcc-socket`). `strace` counts them.
#[path = "../../bpf/tests/support/mod.rs"]
mod controls;
#[path = "support/lacks.rs"]
mod support;

use std::process::{Command, Stdio};
use support::lacks;

/// Writes without waiting, a mark before each and after the last. On loopback a segment would be
/// 64 KB, and less than one in flight is never refused. The client never reads, so it acknowledges no more than its
/// small buffer.
const PROGRAM: &str = r#"
import os, socket, sys
listener = socket.create_server(("127.0.0.1", 0))
client = socket.socket()
client.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 1400)
client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
client.connect(listener.getsockname())
server, _ = listener.accept()
server.setblocking(False)
os.write(server.fileno(), bytes(2000))
for size in sys.argv[1:]:
    os.write(1, b"mark")
    os.write(server.fileno(), bytes(int(size)))
os.write(1, b"mark")
os.write(2, server.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16))
"#;

/// The call, and its option or command.
fn name(line: &str) -> &str {
    let (call, arguments) = line.split_once('(').unwrap();
    let place = match call {
        "getsockopt" | "setsockopt" => 2,
        "ioctl" | "fcntl" => 1,
        _ => return call,
    };
    let argument = arguments.split([',', ')']).nth(place);
    argument.unwrap().trim()
}

/// The system calls of each write after the first one, which takes the connection under control.
fn calls(cc: &str, enforce: &str, sizes: &[&str]) -> Vec<Vec<String>> {
    let dir = tempfile::tempdir().unwrap();
    let seen = dir.path().join("strace");
    let out = Command::new(env!("CARGO_BIN_EXE_alcc"))
        .args(["run", "--quiet", "--loopback", "--cc", cc])
        .args(["--enforce", enforce, "--", "strace", "-f", "-o"])
        .arg(&seen)
        .args([
            "-e",
            "trace=getsockopt,setsockopt,ioctl,fcntl,poll,ppoll,write",
        ])
        .args(["python3", "-c", PROGRAM])
        .args(sizes)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    let resident = said.starts_with("alcc_");
    assert!(
        out.status.success() && resident == (enforce == "kernel"),
        "{said}"
    );
    let seen = std::fs::read_to_string(seen).unwrap();
    let lines: Vec<_> = seen.lines().filter_map(|l| l.split_once(' ')).collect();
    let is_mark = |line: &str| line.trim().starts_with("write(1, \"mark\"");
    let program = lines.iter().find(|(_, line)| is_mark(line)).unwrap().0;
    let mut writes: Vec<Vec<String>> = Vec::new();
    // Calls of the library's own thread are between them.
    for (_, line) in lines.iter().filter(|(thread, _)| *thread == program) {
        let line = line.trim();
        if is_mark(line) {
            writes.push(Vec::new());
        } else if line.contains('(')
            && !line.starts_with('<')
            && let Some(write) = writes.last_mut()
        {
            write.push(name(line).to_owned());
        }
    }
    // What follows the last mark is the end of the program.
    writes.pop();
    writes
}

/// True if the tools are there, and may be used.
fn traces() -> bool {
    for (tool, version) in [("strace", "-V"), ("python3", "-V")] {
        let there = Command::new(tool)
            .arg(version)
            .stdout(Stdio::null())
            .status();
        if !there.is_ok_and(|status| status.success()) {
            lacks(tool);
            return false;
        }
    }
    let traces = Command::new("strace")
        .args(["-qq", "-o", "/dev/null", "true"])
        .output();
    if !traces.unwrap().status.success() {
        lacks("ptrace(2)");
        return false;
    }
    true
}

#[test]
fn a_write_of_an_algorithm_in_the_kernel_is_one_system_call() {
    let _alone = controls::controls_alone();
    let load = Command::new(env!("CARGO_BIN_EXE_alcc"))
        .args(["bpf", "load"])
        .output()
        .unwrap();
    if load.status.code() == Some(2) || !traces() {
        println!("skipped: {}", String::from_utf8_lossy(&load.stderr));
        return;
    }
    assert_eq!(
        calls("budget", "kernel", &["2000"; 10]),
        vec![["write"]; 10]
    );
}

#[test]
fn a_write_makes_the_system_calls_that_its_decision_uses() {
    if !traces() {
        return;
    }
    // The window is far from full: what is unsent changes nothing.
    for write in calls("fixed:window=1000", "gate+pacing", &["2000"; 10]) {
        assert_eq!(write, ["SO_COOKIE", "TIOCOUTQ", "write"]);
    }
    // The first is cut where a segment ends, so it depends on the unsent bytes. Nothing would wake the
    // program, so it passes whole. There is never room for the second.
    let [cut, refused] = &calls("fixed:window=4", "gate+pacing", &["300000", "300000"])[..] else {
        panic!("two writes");
    };
    let (ask, leave) = (["SO_COOKIE", "TIOCOUTQ"], ["F_GETFL", "write"]);
    assert_eq!(*cut, [&ask[..], &["SIOCOUTQNSD"], &leave].concat());
    assert_eq!(*refused, [ask, leave].concat());
}
