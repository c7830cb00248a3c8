// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `alcc run` where the kernel keeps the algorithm's window and rate: nginx behind a link that
//! loses packets.
#[path = "../../runtime/bpf/tests/support/mod.rs"]
mod controls;
mod support;

use alcc_units::Span;
use controls::controls_alone;
use std::process::{Command, Output};
use std::time::{Duration, Instant};
use support::World;

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

/// 12 Mbit/s, 40 ms, a queue of 100 packets.
fn lossy(data: f64, acks: f64) -> alcc_emu::PathSpec {
    let mut path = support::link(12);
    for (way, loss) in [(&mut path.down, data), (&mut path.up, acks)] {
        way.delay = Span::from_millis(20);
        way.queue = "droptail:packets=100".parse().unwrap();
        way.loss = loss;
    }
    path
}

/// One test, because all of it shares the machine's one kernel.
#[test]
fn the_kernel_keeps_the_limit_through_losses() {
    if support::impossible() {
        return;
    }
    let _alone = controls_alone();
    let missing = alcc("run --enforce bpf -- true");
    let said = String::from_utf8_lossy(&missing.stderr);
    assert_eq!(missing.status.code(), Some(2), "{said}");
    assert!(
        said.contains("alcc bpf load") && said.lines().count() == 1,
        "{said}"
    );
    let load = alcc("bpf load");
    let said = String::from_utf8_lossy(&load.stderr);
    if load.status.code() == Some(2) {
        println!("skipped: needs the right to load BPF programs: {said}");
        return;
    }
    assert!(load.status.success(), "{said}");
    let both = alcc("run --enforce bpf --under reno -- true");
    assert_eq!(both.status.code(), Some(2));

    let world = World::new(lossy(0.01, 0.01));
    let sum = world.file("f", bytes());
    let fetch = |options: &[&str], expected: &str| {
        let server = world.serve(Some(options));
        let began = Instant::now();
        assert_eq!(world.fetch("http://$S:8080/f"), sum, "{options:?}");
        let took = began.elapsed().as_secs_f64();
        let (report, said) = server.stop();
        assert!(said.contains(expected), "{said}");
        assert_eq!(report["failures"], 0, "{said}");
        assert!(report["bytes"].as_u64() >= Some(bytes() as u64), "{said}");
        println!("{options:?}: {took:.1} s");
        took
    };
    // Reno's own window falls with each loss, and there is none beside the one named below.
    let gate = fetch(
        &["--cc", "copa", "--under", "reno"],
        "tcp-info / gate+pacing",
    );
    let kept = fetch(&["--cc", "copa"], "bpf / bpf");
    // Sprout's arithmetic alone takes longer than its time there.
    let others: &[&str] = match controls::slow_machine() {
        true => &["verus"],
        false => &["verus", "budget", "sprout", "cubic"],
    };
    for cc in others {
        fetch(&["--cc", cc], "bpf / bpf");
    }
    assert!(
        kept < 0.7 * gate || controls::slow_machine(),
        "copa: {kept:.1} s, with the gate over reno {gate:.1} s"
    );
    // The runtime ends in mid-transfer: plain TCP from then on.
    let server = world.serve(Some(&["--cc", "fixed:window=40", "--fault", "200"]));
    assert_eq!(world.fetch("http://$S:8080/f"), sum);
    assert_eq!(server.stop().0["failures"], 1);

    // What is under way stays as it is when the control is unloaded; what comes later is gated.
    let server = world.serve(Some(&["--cc", "copa"]));
    std::thread::scope(|threads| {
        let download = threads.spawn(|| world.fetch("http://$S:8080/f"));
        std::thread::sleep(Duration::from_millis(700));
        assert!(alcc("bpf unload").status.success());
        assert_eq!(download.join().unwrap(), sum);
    });
    assert_eq!(world.fetch("http://$S:8080/f"), sum);
    let (report, said) = server.stop();
    assert_eq!(report["failures"], 0, "{said}");
    world.end();
}

/// A process of this cgroup; this one is again where it was when this goes.
struct Within {
    own: std::path::PathBuf,
    cgroup: std::path::PathBuf,
}

impl Within {
    fn new(cgroup: std::path::PathBuf) -> Self {
        let own = alcc_bpf::cgroup_of(std::process::id()).unwrap();
        std::fs::write(cgroup.join("cgroup.procs"), "0").unwrap();
        Self { own, cgroup }
    }
}

impl Drop for Within {
    fn drop(&mut self) {
        let _ = std::fs::write(self.own.join("cgroup.procs"), "0");
        let _ = std::fs::remove_dir(&self.cgroup);
    }
}

/// A program that is preloaded in a container: none of our files, and the kernel keeps the limit.
#[test]
fn through_the_door_of_a_container() {
    if support::impossible() {
        return;
    }
    let _alone = controls_alone();
    let Some(root) = alcc_bpf::all_cgroups() else {
        println!("skipped: needs cgroup version 2");
        return;
    };
    let cgroup = root.join(format!("alcc-test-run-{}", std::process::id()));
    std::fs::create_dir(&cgroup).unwrap();
    let door = format!("bpf load --door {}", cgroup.display());
    let load = alcc(&door);
    if load.status.code() == Some(2) {
        let said = String::from_utf8_lossy(&load.stderr);
        println!("skipped: needs the right to load BPF programs: {said}");
        std::fs::remove_dir(&cgroup).unwrap();
        return;
    }
    let said = |out: &Output| String::from_utf8(out.stdout.clone()).unwrap();
    let line = format!("door in {}", cgroup.display());
    assert!(
        said(&load).contains(&format!("{line} opened\n")),
        "{load:?}"
    );
    let again = said(&alcc(&door));
    assert!(
        again.contains(&format!("{line} is open already\n")),
        "{again}"
    );
    let status = said(&alcc("bpf status"));
    assert!(
        status.contains(&format!("{line}: a setsockopt there takes ")),
        "{status}"
    );
    let status: serde_json::Value =
        serde_json::from_str(&said(&alcc("bpf status --json"))).unwrap();
    assert!(
        status["doors"][0]["setsockopt_ns"].as_u64() > Some(0),
        "{status}"
    );
    let nowhere = alcc("bpf load --door /sys/fs/cgroup/no-such-cgroup");
    let why = String::from_utf8_lossy(&nowhere.stderr);
    assert_eq!(nowhere.status.code(), Some(2), "{why}");
    assert!(
        why.contains("no-such-cgroup") && why.lines().count() == 1,
        "{why}"
    );

    let world = World::new(lossy(0.01, 0.01));
    let sum = world.file("f", bytes());
    {
        let _within = Within::new(cgroup);
        // What is loaded cannot be seen from here, but through the door.
        let hidden = nix::mount::MsFlags::empty();
        let (none, kind) = (None::<&str>, Some("tmpfs"));
        nix::mount::mount(Some("none"), "/run/alcc", kind, hidden, none).unwrap();
        let server = world.serve(Some(&["--cc", "copa", "--enforce", "bpf"]));
        assert_eq!(world.fetch("http://$S:8080/f"), sum);
        let (report, said) = server.stop();
        assert!(said.contains("bpf / bpf"), "{said}");
        assert_eq!(report["failures"], 0, "{said}");
        nix::mount::umount("/run/alcc").unwrap();
    }
    let unloaded = alcc("bpf unload");
    assert!(unloaded.status.success(), "{unloaded:?}");
    assert!(!said(&alcc("bpf status")).contains("door in"));
    world.end();
}
