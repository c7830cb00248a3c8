// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `alcc bpf` and `alcc attach` on a statically linked server in a network of its own: what no
//! preloading reaches.
#[path = "../../runtime/bpf/tests/support/mod.rs"]
mod controls;
#[allow(dead_code, reason = "this server is no nginx")]
mod support;

use alcc_link::{DirectionSpec, QueueSpec, RateSpec};
use alcc_units::{Rate, Span};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
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

/// Loads the kernel's controls; false, and says so, where this user may not.
fn loaded() -> bool {
    let load = alcc("bpf load");
    let said = String::from_utf8_lossy(&load.stderr);
    if load.status.code() == Some(2) {
        println!("skipped: needs the right to load BPF programs: {said}");
        return false;
    }
    assert!(load.status.success(), "{said}");
    true
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
    if !loaded() {
        return;
    }
    let world = World::new(lossy());
    let sum = world.file("data", bytes());
    let Some(program) = static_server(&world.path("")) else {
        support::lacks("cc and a static C library");
        return;
    };
    let mut command = Command::new(program);
    command.args([PORT.to_string()]).arg(world.path("www/data"));
    let mut server = Program(world.outside.spawn(command).unwrap());
    let pid = server.0.id();
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

    // In the middle of a download, there and back. A child has the connection.
    done(&format!("detach --pid {pid}"));
    let cgroup =
        alcc_bpf::cgroup_of(pid).map(|c| format!("--cgroup {} --port {PORT}", c.display()));
    let Some(which) = cgroup else {
        println!("skipped: needs cgroup version 2");
        return;
    };
    std::thread::scope(|threads| {
        let download = threads.spawn(fetch);
        std::thread::sleep(Duration::from_millis(700));
        let found = done(&format!("attach {which} --cc copa --json"));
        assert!(found.contains("\"error\":null"), "{found}");
        std::thread::sleep(Duration::from_millis(300));
        if !controls::slow_machine() {
            shown(&|c| c["algorithm"] == "alcc_copa" && c["before"].is_string());
        }
        let back = done(&format!("detach {which}"));
        assert!(back.contains("given back (was alcc_copa)"), "{back}");
        download.join().unwrap();
    });
    done("bpf unload");
    let without = alcc(&format!("attach --pid {pid} --cc copa"));
    assert_eq!(without.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&without.stderr).contains("alcc bpf load"));
    server.0.kill().unwrap();
    server.0.wait().unwrap();
    world.end();
}

/// From outside the server's network namespace.
fn shown(is_it: &dyn Fn(&serde_json::Value) -> bool) -> serde_json::Value {
    let text = done("top --once --json");
    let top: serde_json::Value = serde_json::from_str(&text).unwrap();
    let mut all = top["connections"].as_array().unwrap().iter();
    let found = all.find(|c| is_it(c));
    let found = found.unwrap_or_else(|| panic!("not shown: {top}")).clone();
    assert!(found["cwnd_segments"].as_u64() > Some(0), "{found}");
    assert!(found["rtt_ms"].as_f64() > Some(30.0), "{found}");
    assert!(found["rate_mbps"].as_f64() > Some(0.0), "{found}");
    assert!(
        found["local"].as_str().unwrap().ends_with(":9000"),
        "{found}"
    );
    found
}

/// A program that stays; ended with the test.
struct Program(Child);

impl Program {
    /// `alcc attach`, when it has said what it steers.
    fn start(args: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_alcc"));
        command.args(args.split(' '));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut said = String::new();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        while !said.contains("until Ctrl-C") {
            let before = said.len();
            stderr.read_line(&mut said).unwrap();
            assert!(said.len() > before, "{args}: {said}");
        }
        child.stderr = Some(stderr.into_inner());
        Self(child)
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.0.id().cast_signed()), signal).unwrap();
    }

    /// Its end, within some seconds.
    fn end(mut self) -> (ExitStatus, String) {
        let until = Instant::now() + Duration::from_secs(20);
        let status = loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < until, "it does not end");
            std::thread::sleep(Duration::from_millis(20));
        };
        let mut said = String::new();
        self.0
            .stdout
            .take()
            .unwrap()
            .read_to_string(&mut said)
            .unwrap();
        self.0
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut said)
            .unwrap();
        (status, said)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn an_algorithm_of_user_space_steers_and_its_death_is_harmless() {
    if controls::slow_machine() {
        println!("skipped: needs a machine that is not emulated");
        return;
    }
    if support::impossible() {
        return;
    }
    let _alone = controls::controls_alone();
    if !loaded() {
        return;
    }
    let Some(cgroup) = alcc_bpf::cgroup_of(std::process::id()) else {
        println!("skipped: needs cgroup version 2");
        return;
    };
    let world = World::new(lossy());
    // It must not end before it was killed and given back.
    let bytes = 2 * bytes();
    let sum = world.file("data", bytes);
    let Some(program) = static_server(&world.path("")) else {
        support::lacks("cc and a static C library");
        return;
    };
    let mut command = Command::new(program);
    command.args([PORT.to_string()]).arg(world.path("www/data"));
    let mut server = Program(world.outside.spawn(command).unwrap());
    let fetch = || {
        let began = Instant::now();
        let got = world.fetch(&format!("--retry 5 --retry-connrefused http://$S:{PORT}/"));
        assert_eq!(got, sum, "the bytes arrive as they are");
        began.elapsed()
    };
    std::thread::sleep(Duration::from_millis(200));
    let which = format!("--cgroup {} --port {PORT}", cgroup.display());
    done(&format!("attach {which} --cc cubic"));
    // The control of the one connection.
    let runs = || {
        let found = done(&format!("attach {which} --cc cubic --dry-run --json"));
        let found: serde_json::Value = serde_json::from_str(&found).unwrap();
        let sockets = found["sockets"].as_array().unwrap();
        let peers = sockets.iter().find(|s| !s["peer"].is_null());
        peers.map(|s| s["was"].as_str().unwrap().to_owned())
    };
    let becomes = |name: &str| {
        let began = Instant::now();
        while runs().as_deref() != Some(name) {
            assert!(began.elapsed() < Duration::from_secs(10), "{:?}", runs());
            std::thread::sleep(Duration::from_millis(50));
        }
        began.elapsed()
    };
    let cc = "sprout";
    let during = |act: &dyn Fn()| {
        std::thread::scope(|threads| {
            let download = threads.spawn(fetch);
            std::thread::sleep(Duration::from_millis(900));
            act();
            download.join().unwrap()
        })
    };
    // Killed: within half a second of acknowledgements the kernel takes over.
    during(&|| {
        let steering = Program::start(&format!("attach {which} --cc {cc}"));
        assert_eq!(runs().as_deref(), Some("alcc_window"));
        steering.signal(Signal::SIGKILL);
        println!("{cc} was killed; cubic again after {:?}", becomes("cubic"));
    });
    // It ends with what it steers, or gives back when it is asked to end.
    let steering = std::sync::Mutex::new(None);
    let took = during(&|| {
        let other = Program::start(&format!("attach {which} --cc {cc}"));
        other.signal(Signal::SIGTERM);
        let (status, said) = other.end();
        assert!(
            status.success() && said.contains("1 connection given back"),
            "{said}"
        );
        assert_eq!(runs().as_deref(), Some("cubic"));
        *steering.lock().unwrap() = Some(Program::start(&format!("attach {which} --cc {cc}")));
        std::thread::sleep(Duration::from_millis(500));
        let top = shown(&|c| c["algorithm"] == cc);
        assert_eq!(
            (&top["feedback"], &top["enforcement"]),
            (&"bpf".into(), &"bpf".into())
        );
        let second = alcc(&format!("attach {which} --cc {cc}"));
        let said = String::from_utf8_lossy(&second.stderr);
        assert_eq!(second.status.code(), Some(1), "{said}");
        assert!(said.contains("another program steers it"), "{said}");
    });
    let (status, said) = steering.into_inner().unwrap().unwrap().end();
    assert!(
        status.success() && said.contains("1 connection steered by"),
        "{said}"
    );
    println!("{bytes} bytes, most of them by {cc}: {took:?}");
    // Those to come, too.
    let steering = Program::start(&format!("attach {which} --cc {cc} --future"));
    let took = during(&|| assert_eq!(runs().as_deref(), Some("alcc_window")));
    println!("{bytes} bytes by {cc}: {took:?}");
    steering.signal(Signal::SIGTERM);
    assert!(steering.end().0.success());
    server.0.kill().unwrap();
    done("bpf unload");
    for (args, word) in [
        (format!("--cc {cc}"), "alcc bpf load"),
        ("--cc sprout:nosuch=1".to_owned(), "nosuch"),
        (format!("--cc {cc} --trial 10%"), "in the kernel"),
    ] {
        let refused = alcc(&format!("attach {which} {args}"));
        let said = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{said}");
        assert!(said.lines().count() == 1 && said.contains(word), "{said}");
    }
    world.end();
}

/// Who closes a socket that is steered by another process is seen to close at once.
#[test]
fn a_steered_servers_close_is_seen_at_once() {
    if controls::slow_machine() {
        println!("skipped: needs a machine that is not emulated");
        return;
    }
    if support::impossible() {
        return;
    }
    let _alone = controls::controls_alone();
    if !loaded() {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let pid = std::process::id();
    let port = address.port();
    let connect = || {
        let client = TcpStream::connect(address).unwrap();
        (client, listener.accept().unwrap().0)
    };
    let stays = connect();
    let steering = Program::start(&format!(
        "attach --pid {pid} --port {port} --cc fixed:window=20 --future"
    ));
    let mut longest = Duration::ZERO;
    for n in 0..60 {
        let (mut client, mut server) = connect();
        server.write_all(&[7; 20_000]).unwrap();
        client.read_exact(&mut [0; 20_000]).unwrap();
        // Some of them are steered by then.
        std::thread::sleep(Duration::from_millis(n * 3));
        server.write_all(&[7; 20_000]).unwrap();
        client.read_exact(&mut [0; 20_000]).unwrap();
        let began = Instant::now();
        drop(server);
        assert_eq!(client.read(&mut [0; 10]).unwrap(), 0);
        longest = longest.max(began.elapsed());
    }
    println!("end of file after {longest:?} at most");
    assert!(longest < Duration::from_millis(200));
    steering.signal(Signal::SIGINT);
    let (status, said) = steering.end();
    assert!(status.success(), "{said}");
    drop(stays);
    done("bpf unload");
}

#[test]
fn the_list_says_what_lives_in_the_kernel() {
    assert!(done("list").contains("alcc_copa, as copa:"));
    let list: serde_json::Value = serde_json::from_str(&done("list --json")).unwrap();
    assert_eq!(list["resident"][0]["control"], "alcc_copa");
}
