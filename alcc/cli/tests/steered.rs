// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `alcc run` where the kernel keeps the algorithm's window and rate: nginx behind a link that
//! loses packets.
#[path = "steered/attack.rs"]
mod attack;
#[path = "support/c_programs.rs"]
mod c_programs;
#[path = "../../bpf/tests/support/mod.rs"]
mod controls;
#[path = "support/kernel.rs"]
mod kernel;
#[path = "support/starts.rs"]
mod starts;
mod support;
#[path = "support/wait.rs"]
mod wait;
#[path = "steered/written_ahead.rs"]
mod written_ahead;

use alcc_units::Span;
use controls::controls_alone;
use kernel::{alcc, bytes};
use starts::first_right;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use support::World;
use wait::{listens, serves, wait_for};

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
    let kept = || fetch(&["--cc", "copa"], "bpf / bpf");
    let is_short = |kept: &f64| *kept < 0.7 * gate || controls::slow_machine();
    let kept = first_right(3, kept, is_short);
    println!("copa: {kept:.1} s, with the gate over reno {gate:.1} s");
    // Sprout's arithmetic alone takes longer than its time there.
    let others: &[&str] = match controls::slow_machine() {
        true => &["verus"],
        false => &["verus", "budget", "sprout", "cubic"],
    };
    for cc in others {
        fetch(&["--cc", cc], "bpf / bpf");
    }
    // The algorithm itself in the kernel: nginx's bytes are counted when it closes.
    for cc in ["budget", "verus", "copa:delta=0.5"] {
        fetch(&["--cc", cc, "--enforce", "kernel"], "kernel / kernel");
    }
    // The runtime ends in mid-transfer: plain TCP from then on. A busy machine visits a connection seldom.
    let server = world.serve(Some(&["--cc", "fixed:window=40", "--fault", "20"]));
    assert_eq!(world.fetch("http://$S:8080/f"), sum);
    assert_eq!(server.stop().0["failures"], 1);

    // What is under way stays as it is when the control is unloaded; what comes later is gated.
    let server = world.serve(Some(&["--cc", "copa"]));
    std::thread::scope(|threads| {
        let download = threads.spawn(|| world.fetch("http://$S:8080/f"));
        wait_for("the download", || serves(server.pid(), 8080));
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
    assert!(why.contains("/sys/fs/cgroup"), "what helps: {why}");
    // A folder, but no cgroup.
    let nowhere = alcc("bpf load --door /tmp");
    let why = String::from_utf8_lossy(&nowhere.stderr);
    assert_eq!(nowhere.status.code(), Some(2), "{why}");
    assert!(
        why.contains("/tmp") && why.contains("/sys/fs/cgroup") && why.lines().count() == 1,
        "{why}"
    );

    let world = World::new(lossy(0.01, 0.01));
    let sum = world.file("f", bytes());
    {
        let _within = Within::new(cgroup);
        // What is loaded cannot be seen from here, but through the door.
        let _hidden = controls::Hidden::new();
        let server = world.serve(Some(&["--cc", "copa", "--enforce", "bpf"]));
        assert_eq!(world.fetch("http://$S:8080/f"), sum);
        let (report, said) = server.stop();
        assert!(said.contains("bpf / bpf"), "{said}");
        assert_eq!(report["failures"], 0, "{said}");
    }
    let unloaded = alcc("bpf unload");
    assert!(unloaded.status.success(), "{unloaded:?}");
    assert!(!said(&alcc("bpf status")).contains("door in"));
    world.end();
}

const NOBODY: u32 = 65_534;

/// A cgroup with a door, whose processes have no other access.
struct Container(std::path::PathBuf);

impl Container {
    /// `None`, and said: this process may not.
    fn new() -> Option<Self> {
        let Some(root) = alcc_bpf::all_cgroups() else {
            println!("skipped: needs cgroup version 2");
            return None;
        };
        let cgroup = Self(root.join(format!("alcc-test-door-{}", std::process::id())));
        std::fs::create_dir(&cgroup.0).unwrap();
        let load = alcc(&format!("bpf load --door {}", cgroup.0.display()));
        let said = String::from_utf8_lossy(&load.stderr);
        if load.status.code() == Some(2) {
            println!("skipped: needs the right to load BPF programs: {said}");
            return None;
        }
        assert!(load.status.success(), "{said}");
        Some(cgroup)
    }

    /// In the cgroup, in a mount namespace without our files, without rights.
    fn start(&self, mut command: Command) -> Running {
        let procs = self.0.join("cgroup.procs");
        let procs = std::fs::File::options().write(true).open(procs).unwrap();
        // SAFETY: system calls alone between fork and exec.
        unsafe {
            command.pre_exec(move || {
                nix::unistd::write(&procs, b"0")?;
                nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNS)?;
                let (none, folder, kind) = (None::<&str>, "/run/alcc-bpf", Some("tmpfs"));
                let flags = nix::mount::MsFlags::empty();
                nix::mount::mount(Some("none"), folder, kind, flags, none)?;
                nix::unistd::setgroups(&[])?;
                nix::unistd::setgid(NOBODY.into())?;
                nix::unistd::setuid(NOBODY.into())?;
                Ok(())
            });
        }
        Running(command.spawn().unwrap())
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let _ = alcc_bpf::unload();
        // It is empty a moment after its last process.
        for _ in 0..100 {
            if std::fs::remove_dir(&self.0).is_ok() {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Ended with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A folder that every user may read.
fn folder_for_everybody() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(dir.path(), mode).unwrap();
    dir
}

/// Checks that the connections at this port have the window of a program, and keep it. A connection that
/// no program steers is given back after half a second.
fn is_steered(port: u16) {
    let controls = || {
        let found = alcc(&format!("attach --port {port} --cc cubic --dry-run --json"));
        let found: serde_json::Value = serde_json::from_slice(&found.stdout).ok()?;
        let sockets = found["sockets"].as_array()?.clone();
        let peers = sockets.iter().filter(|s| !s["peer"].is_null());
        let was = peers.map(|s| s["was"].as_str().unwrap().to_owned());
        Some(was.collect::<Vec<_>>())
    };
    let runs = || {
        wait_for("the window of a program", || {
            controls().is_some_and(|c| c == ["alcc_window"])
        });
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(2) {
            if controls().is_none_or(|c| c != ["alcc_window"]) {
                return began.elapsed();
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Duration::MAX
    };
    // A steering process that is not scheduled for half a second takes it again soon.
    first_right(5, runs, |kept| *kept == Duration::MAX);
}

/// Reads all the time, but not faster than the machine can.
fn read_slowly(mut from: TcpStream) {
    std::thread::spawn(move || {
        let mut block = [0; 16_384];
        while from.read(&mut block).is_ok_and(|n| n > 0) {
            std::thread::sleep(Duration::from_millis(2));
        }
    });
}

#[test]
fn a_proxy_in_a_container_steers_through_the_door() {
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: needs root");
        return;
    }
    let _alone = controls_alone();
    let Some(container) = Container::new() else {
        return;
    };
    let dir = folder_for_everybody();
    let program = dir.path().join("alcc");
    std::fs::copy(env!("CARGO_BIN_EXE_alcc"), &program).unwrap();
    for loopback in ["127.0.0.1", "[::1]"] {
        let server = TcpListener::bind(format!("{loopback}:0")).unwrap();
        let free = TcpListener::bind(format!("{loopback}:0")).unwrap();
        let at = free.local_addr().unwrap();
        drop(free);
        let mut proxy = Command::new(&program);
        proxy.args(["proxy", "--loopback", "--cc", "fixed:window=8"]);
        proxy.args(["--enforce", "bpf", "--listen", &at.to_string()]);
        proxy.args(["--to", &server.local_addr().unwrap().to_string()]);
        let _proxy = container.start(proxy);
        wait_for("the proxy", || listens(std::process::id(), at.port()));
        let client = TcpStream::connect(at).unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = server.accept().unwrap();
            while stream.write_all(&[0; 16_384]).is_ok() {}
        });
        read_slowly(client);
        is_steered(at.port());
    }
}

#[test]
fn the_c_library_in_a_container_steers_through_the_door() {
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: needs root");
        return;
    }
    let dir = folder_for_everybody();
    let Some(program) = c_programs::with_the_library("own_socket", dir.path()) else {
        return;
    };
    let _alone = controls_alone();
    let Some(container) = Container::new() else {
        return;
    };
    let mut command = Command::new(program);
    command.env("ALCC_CC", "fixed:window=8");
    command.env("ALCC_ENFORCE", "bpf");
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut running = container.start(command);
    let mut said = String::new();
    let stdout = running.0.stdout.take().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut said).unwrap();
    is_steered(said.trim().parse().unwrap());
    drop(running.0.stdin.take());
    assert!(running.0.wait().unwrap().success());
}
