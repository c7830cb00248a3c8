// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `alcc bpf` and `alcc attach` on a statically linked server in a network of its own: what no
//! preloading reaches.
#[path = "../../runtime/bpf/tests/support/mod.rs"]
mod controls;
#[allow(dead_code, reason = "this server is no nginx")]
mod support;

use alcc_link::{DirectionSpec, QueueSpec, RateSpec};
use alcc_units::{Rate, Span};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};
use support::World;

const PORT: u16 = 9000;

/// Less where it takes long anyway.
fn bytes() -> usize {
    if controls::slow_machine() {
        2_000_000
    } else {
        4_000_000
    }
}

fn alcc(args: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_alcc"))
        .args(args.split(' '))
        .output()
        .unwrap()
}

/// What it printed; it must have worked.
fn done(args: &str) -> String {
    let out = alcc(args);
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "alcc {args}: {said}");
    String::from_utf8(out.stdout).unwrap()
}

/// 12 Mbit/s, 40 ms, a queue of 100 packets, 1 % of the data lost.
fn lossy() -> alcc_emu::PathSpec {
    let way = |mbps, loss| DirectionSpec {
        delay: Span::from_millis(20),
        rate: RateSpec::Fixed(Rate::mbps(mbps)),
        queue: "droptail:packets=100".parse::<QueueSpec>().unwrap(),
        loss,
        ..DirectionSpec::default()
    };
    alcc_emu::PathSpec {
        down: way(12, 0.01),
        up: way(50, 0.0),
        seed: 1,
    }
}

/// Compiled here, or where there is no compiler (scripts/test-kernel) before.
fn static_server(dir: &Path) -> Option<PathBuf> {
    if let Some(built) = std::env::var_os("ALCC_STATIC_SERVER") {
        return Some(built.into());
    }
    let program = dir.join("static-server");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/static_server.c");
    let out = Command::new("cc")
        .args(["-O1", "-static", "-o"])
        .args([&program, &source])
        .output()
        .ok()?;
    out.status.success().then_some(program)
}

#[test]
fn a_static_server_behind_a_lossy_link_is_switched_while_it_runs() {
    if support::impossible() {
        return;
    }
    let _alone = controls::controls_alone();
    let load = alcc("bpf load");
    if load.status.code() == Some(2) {
        println!(
            "skipped: needs the right to load BPF programs: {}",
            String::from_utf8_lossy(&load.stderr)
        );
        return;
    }
    assert!(load.status.success());
    let world = World::new(lossy());
    let sum = world.file("data", bytes());
    let Some(program) = static_server(&world.path("")) else {
        support::lacks("cc and a static C library");
        return;
    };
    let mut command = Command::new(program);
    command.args([PORT.to_string()]).arg(world.path("www/data"));
    let mut server = world.outside.spawn(command).unwrap();
    let pid = server.id();
    let fetch = || {
        let began = Instant::now();
        let got = world.fetch(&format!("--retry 5 --retry-connrefused http://$S:{PORT}/"));
        assert_eq!(got, sum, "the bytes arrive as they are");
        began.elapsed().as_secs_f64()
    };
    // The listener alone matches, and hands its control to what it accepts.
    let switched = |to: &str| done(&format!("attach --pid {pid} --port {PORT} --cc {to}"));
    std::thread::sleep(Duration::from_millis(200));
    assert!(switched("cubic").contains("1 listening socket switched to cubic"));
    let cubic = fetch();
    assert!(switched("copa").contains("switched to alcc_copa (was cubic)"));
    let copa = fetch();
    println!(
        "{} bytes at 1 % loss: cubic {cubic:.1} s, copa in the kernel {copa:.1} s",
        bytes()
    );
    assert!(
        copa < 0.7 * cubic || controls::slow_machine(),
        "copa {copa:.1} s, cubic {cubic:.1} s"
    );

    let status = done("bpf status");
    assert!(
        status.contains("alcc_copa: loaded, 0 connections here use it"),
        "{status}"
    );

    // In the middle of a download, there and back.
    done(&format!("detach --pid {pid}"));
    std::thread::scope(|threads| {
        let download = threads.spawn(fetch);
        std::thread::sleep(Duration::from_millis(700));
        let found = done(&format!("attach --pid {pid} --cc copa --json"));
        assert!(found.contains("\"error\":null"), "{found}");
        std::thread::sleep(Duration::from_millis(300));
        let back = done(&format!("detach --pid {pid}"));
        assert!(back.contains("given back (was alcc_copa)"), "{back}");
        download.join().unwrap();
    });
    done("bpf unload");
    let without = alcc(&format!("attach --pid {pid} --cc copa"));
    assert_eq!(without.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&without.stderr).contains("alcc bpf load"));
    server.kill().unwrap();
    server.wait().unwrap();
    world.end();
}

#[test]
fn the_list_says_what_lives_in_the_kernel() {
    assert!(done("list").contains("alcc_copa, as copa:"));
    let list: serde_json::Value = serde_json::from_str(&done("list --json")).unwrap();
    assert_eq!(list["resident"][0]["control"], "alcc_copa");
}
