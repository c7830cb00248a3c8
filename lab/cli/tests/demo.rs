// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The main job, short: real nginx, real curl, the kernel's TCP, ours above it, on emulated links.
//!
//! Figures on a busy machine say little, so only what must hold anyway is checked.
#[path = "../../../alcc/bpf/tests/support/mod.rs"]
mod controls;
#[path = "../../../alcc/cli/tests/support/real.rs"]
mod real;

use serde_json::Value;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn plain_and_controlled_beside_each_other() {
    let out = tempfile::tempdir().unwrap();
    let folder = out.path().to_str().unwrap();
    let schemes = "cubic,fixed:window=20/over=cubic";
    let mut command = real::alcc(&[
        "demo",
        "--duration",
        "4s",
        "--schemes",
        schemes,
        "--out",
        folder,
        "--json",
    ]);
    let Some(output) = real::done(&mut command, real::PROGRAMS) else {
        return;
    };
    let results: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    let flows = results["flows"].as_array().unwrap();
    let names: Vec<_> = flows
        .iter()
        .map(|f| f["scheme"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["cubic", "alcc-fixed:window=20"]);
    for flow in flows {
        assert!(flow["bytes"].as_u64().unwrap() > 100_000, "{flow}");
        let utilization = flow["utilization"].as_f64().unwrap();
        assert!((0.0..=1.01).contains(&utilization), "{flow}");
        assert!(flow["delay_median_ms"].as_f64().unwrap() >= 20.0, "{flow}");
        assert!(
            flow["app_delay_median_ms"].as_f64().unwrap() >= 10.0,
            "write to read takes at least the propagation, but a busy machine sees writes late: {flow}"
        );
        assert!(
            flow["goodput_mbps"].as_f64().unwrap()
                <= flow["throughput_mbps"].as_f64().unwrap() * 1.05,
            "{flow}"
        );
    }
    let (plain, ours) = (&flows[0], &flows[1]);
    assert_eq!(
        (&plain["feedback"], &plain["enforcement"]),
        (&"kernel".into(), &"kernel".into())
    );
    assert_eq!(
        (&ours["algorithm"], &ours["options"], &ours["under"]),
        (&"fixed".into(), &"window=20".into(), &"cubic".into())
    );
    assert_ne!(ours["feedback"], "kernel");
    // 20 packets of 1500 bytes are never more than 30 kB at the bottleneck, whatever the machine
    // does: less than Cubic leaves there.
    let p95 = |flow: &Value| flow["queue_delay_p95_ms"].as_f64().unwrap();
    assert!(p95(ours) < p95(plain), "{} {}", p95(ours), p95(plain));
    for file in ["report.html", "results.json", "flows.csv"] {
        assert!(
            out.path().join(file).metadata().unwrap().len() > 100,
            "{file}"
        );
    }
}

#[test]
fn root_gets_a_row_of_the_kernel_and_nothing_stays_loaded() {
    let _alone = controls::controls_alone();
    let out = tempfile::tempdir().unwrap();
    let folder = out.path().to_str().unwrap();
    let mut command = real::alcc(&["demo", "--duration", "2s", "--out", folder, "--json"]);
    let Some(output) = real::done(&mut command, real::PROGRAMS) else {
        return;
    };
    let said = text(&output.stderr);
    let results: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    let flows = results["flows"].as_array().unwrap();
    let names: Vec<_> = flows
        .iter()
        .map(|f| f["scheme"].as_str().unwrap())
        .collect();
    if said.contains("without budget in the kernel: ") {
        println!("skipped: needs the right to load BPF programs: {said}");
        assert!(!names.contains(&"alcc_budget/lowat=16384B"), "{names:?}");
        return;
    }
    assert_eq!(names[..2], ["alcc_budget/lowat=16384B", "cubic"]);
    let resident = &flows[0];
    assert!(resident["bytes"].as_u64().unwrap() > 100_000, "{resident}");
    assert_eq!(
        (&resident["feedback"], &resident["enforcement"]),
        (&"kernel".into(), &"kernel".into())
    );
    // A row that names an algorithm over TCP keeps its meaning beside the same algorithm in the kernel.
    for flow in flows.iter().filter(|flow| flow["under"] == "cubic") {
        assert_ne!(flow["enforcement"], "kernel", "{flow}");
    }
    assert!(flows.iter().any(|flow| flow["under"] == "cubic"));
    // The parent process unloads before it ends; the kernel ends some registrations a moment later.
    let deadline = Instant::now() + Duration::from_secs(20);
    while !controls::registered().is_empty() {
        assert!(Instant::now() < deadline, "{:?}", controls::registered());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Name, state and parent of a process.
fn about(pid: u32) -> Option<(String, char, u32)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (name, rest) = stat.split_once('(')?.1.rsplit_once(") ")?;
    let mut words = rest.split(' ');
    let state = words.next()?.chars().next()?;
    Some((name.to_owned(), state, words.next()?.parse().ok()?))
}

/// The processes that descend from this one, its child first.
fn below(pid: u32) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let parents: Vec<_> = pids.filter_map(|pid| Some((pid, about(pid)?.2))).collect();
    let mut found = vec![pid];
    let mut at = 0;
    while let Some(pid) = found.get(at).copied() {
        found.extend(
            parents
                .iter()
                .filter(|(_, of)| *of == pid)
                .map(|(pid, _)| pid),
        );
        at += 1;
    }
    found.split_off(1)
}

/// Whichever of its two processes is killed.
#[test]
fn sigkill_leaves_no_program() {
    for inner in [false, true] {
        let out = tempfile::tempdir().unwrap();
        let folder = out.path().to_str().unwrap();
        let demo = |span| {
            real::alcc(&[
                "demo",
                "--duration",
                span,
                "--schemes",
                "cubic",
                "--out",
                folder,
            ])
        };
        let mut running = demo("100s");
        running.stdout(Stdio::null()).stderr(Stdio::null());
        let mut running = running.spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        let all = loop {
            let all = below(running.id());
            let is_there = |name| {
                all.iter()
                    .any(|pid| about(*pid).is_some_and(|a| a.0 == name))
            };
            if is_there("nginx") && is_there("curl") {
                break all;
            }
            if running.try_wait().unwrap().is_some() {
                assert!(real::done(&mut demo("1s"), real::PROGRAMS).is_none());
                return;
            }
            assert!(Instant::now() < deadline, "neither nginx nor curl");
            std::thread::sleep(Duration::from_millis(20));
        };
        let killed = if inner { all[0] } else { running.id() };
        let pid = nix::unistd::Pid::from_raw(killed.cast_signed());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
        running.wait().unwrap();
        let deadline = Instant::now() + Duration::from_secs(30);
        while all
            .iter()
            .any(|pid| about(*pid).is_some_and(|a| a.1 != 'Z'))
        {
            assert!(Instant::now() < deadline, "inner: {inner}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Runs alcc-lab from a folder where alcc only says that it was started.
fn beside_a_witness(
    arguments: &[&str],
    change: impl FnOnce(&mut Command),
) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    let lab = folder.path().join("alcc-lab");
    let built = env!("CARGO_BIN_EXE_alcc-lab");
    if std::fs::hard_link(built, &lab).is_err() {
        std::fs::copy(built, &lab).unwrap();
    }
    let witness = folder.path().join("alcc");
    std::fs::write(&witness, "#!/bin/sh\ntouch \"$0.started\"\nexit 1\n").unwrap();
    std::fs::set_permissions(&witness, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new(lab);
    command.args(arguments);
    command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    change(&mut command);
    let output = command.output().unwrap();
    let started = folder.path().join("alcc.started").exists();
    assert!(!started, "{arguments:?}: alcc was started, perhaps to load");
    (output.status.code(), text(&output.stderr))
}

#[test]
fn what_is_wrong_is_said_in_one_line_with_status_2() {
    let bad = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(bad.path(), "1\nnonsense\n").unwrap();
    let out = tempfile::tempdir().unwrap();
    let out = out.path().to_str().unwrap();
    // Where they are loaded already, nothing would be loaded.
    let _alone = controls::controls_alone();
    for (arguments, part) in [
        (vec!["demo", "--schemes", "alcc-nonsense"], "nonsense"),
        (vec!["demo", "--trace", "/no/such/trace"], "/no/such/trace"),
        (
            vec!["demo", "--trace", bad.path().to_str().unwrap()],
            "line 2",
        ),
        (vec!["demo", "--duration", "0s"], "--duration"),
        (vec!["demo", "--out", "/proc/none"], "/proc/none"),
        (
            vec!["demo", "--out", out, "--log", "/proc/none"],
            "/proc/none",
        ),
    ] {
        let (status, says) = beside_a_witness(&arguments, |demo| {
            demo.env("ALCC_NGINX", "/bin/true");
        });
        if says.contains("curl") {
            println!("skipped: needs curl");
            return;
        }
        assert_eq!(status, Some(2), "{arguments:?}: {says}");
        assert!(says.contains(part), "{arguments:?}: {says}");
        assert_eq!(says.trim_end().lines().count(), 1, "{says}");
    }
}

#[test]
fn a_missing_server_is_named_with_what_would_fix_it() {
    let _alone = controls::controls_alone();
    let missing = |part: &str, change: &dyn Fn(&mut Command)| {
        let (status, says) = beside_a_witness(&["demo", "--duration", "1s"], change);
        assert_eq!(status, Some(2), "{says}");
        assert!(says.contains(part), "{says}");
    };
    missing("ALCC_NGINX names /no/such/nginx", &|demo| {
        demo.env("ALCC_NGINX", "/no/such/nginx");
    });
    // Beside those of the path, it looks into these.
    let folders = ["/usr/sbin", "/usr/local/sbin", "/sbin"];
    if !folders
        .iter()
        .any(|folder| Path::new(folder).join("nginx").exists())
    {
        missing("install it (apt install nginx", &|demo| {
            demo.env_remove("ALCC_NGINX")
                .env("PATH", "")
                .current_dir("/");
        });
    } else {
        println!("skipped: needs a machine without nginx");
    }
}
