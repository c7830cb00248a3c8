// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `alcc bpf` and `alcc attach` on a statically linked server in a network of its own: what no
//! preloading reaches.
#[path = "support/c_programs.rs"]
mod c_programs;
#[path = "../../bpf/tests/support/mod.rs"]
mod controls;
#[path = "support/kernel.rs"]
mod kernel;
#[path = "support/starts.rs"]
mod starts;
#[allow(dead_code, reason = "this server is not nginx")]
mod support;
#[path = "support/wait.rs"]
mod wait;

use alcc_link::{DirectionSpec, QueueSpec, RateSpec};
use alcc_units::{Rate, Span};
use kernel::{alcc, bytes, done};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{getsockopt, setsockopt, sockopt::TcpCongestion};
use nix::unistd::Pid;
use starts::first_right;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use support::World;
use wait::listens;

const PORT: u16 = 9000;
/// Time limit for every event, also on an emulated machine.
const PATIENCE: Duration = Duration::from_secs(100);

/// Waits until it is so, and returns what made it so.
fn wait_for<T>(what: &str, mut is_so: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(seen) = is_so() {
            return seen;
        }
        assert!(began.elapsed() < PATIENCE, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
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

/// The static server in a world of its own, whose listening socket can be found.
struct Served {
    server: Program,
    world: World,
}

impl Served {
    /// `None`, and said: the machine lacks something. `more`: the server's further arguments.
    fn start(content: usize, more: &[&str]) -> Option<(Self, String)> {
        Self::over(lossy(), content, more)
    }

    fn over(path: alcc_emu::PathSpec, content: usize, more: &[&str]) -> Option<(Self, String)> {
        let world = World::new(path);
        let sum = world.file("data", content);
        let program = c_programs::fixed("static_server", &world.path(""))?;
        let mut command = Command::new(program);
        command.args([PORT.to_string()]).arg(world.path("www/data"));
        command.args(more);
        let server = Program(world.outside.spawn(command).unwrap(), String::new());
        wait_for("the server listens", || {
            listens(server.0.id(), PORT).then_some(())
        });
        Some((Self { server, world }, sum))
    }

    fn end(mut self) {
        self.server.0.kill().unwrap();
        self.server.0.wait().unwrap();
        self.world.end();
    }
}

/// A download that lasts until the test has seen enough.
struct Download {
    enough: Arc<AtomicBool>,
    reader: JoinHandle<usize>,
}

impl Download {
    fn start(served: &Served) -> Self {
        let content = std::fs::read(served.world.path("www/data")).unwrap();
        let mut from = served.world.connect(PORT);
        let enough = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&enough);
        let reader = std::thread::spawn(move || {
            from.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
            let (mut block, mut all) = (vec![0; 65_536], 0);
            while !stop.load(Ordering::Relaxed) {
                let n = from.read(&mut block).unwrap();
                let right = (all..all + n).zip(&block);
                let right = right
                    .into_iter()
                    .all(|(i, b)| content[i % content.len()] == *b);
                assert!(n > 0 && right, "after {all} bytes they are others");
                all += n;
            }
            all
        });
        Self { enough, reader }
    }

    /// The bytes that came, all of them as they are.
    fn end(self) -> usize {
        self.enough.store(true, Ordering::Relaxed);
        self.reader.join().unwrap()
    }
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
    let Some((served, sum)) = Served::start(bytes(), &[]) else {
        return;
    };
    let pid = served.server.0.id();
    let fetch = || {
        let began = Instant::now();
        let got = served.world.fetch(&format!("http://$S:{PORT}/"));
        assert_eq!(got, sum, "the bytes arrive as they are");
        began.elapsed().as_secs_f64()
    };
    // The listener alone matches, and hands its control to what it accepts.
    let switched = |to: &str| done(&format!("attach --pid {pid} --port {PORT} --cc {to}"));
    // Cubic is most kernels' own default.
    let first = switched("cubic");
    let had = first.contains("1 listening socket had cubic already");
    assert!(
        had || first.contains("1 listening socket switched to cubic"),
        "{first}"
    );
    let cubic = fetch();
    assert!(switched("copa").contains("switched to alcc_copa (was cubic)"));
    let is_short = |copa: &f64| *copa < 0.7 * cubic || controls::slow_machine();
    let copa = first_right(3, fetch, is_short);
    println!(
        "{} bytes at 1 % loss: cubic {cubic:.1} s, copa in the kernel {copa:.1} s",
        bytes()
    );

    let status = done("bpf status");
    assert!(
        status.contains("alcc_copa: loaded, 0 connections here use it"),
        "{status}"
    );
    done(&format!("detach --pid {pid}"));
    served.end();
    done("bpf unload");
    let without = alcc(&format!("attach --pid {} --cc copa", std::process::id()));
    assert_eq!(without.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&without.stderr).contains("alcc bpf load"));
}

#[test]
fn a_download_is_switched_in_the_middle_there_and_back() {
    if support::impossible() {
        return;
    }
    let _alone = controls::controls_alone();
    if !loaded() {
        return;
    }
    let Some((served, _)) = Served::start(bytes(), &["for-ever"]) else {
        return;
    };
    // A child has the connection.
    let cgroup = alcc_bpf::cgroup_of(served.server.0.id());
    let Some(cgroup) = cgroup else {
        println!("skipped: needs cgroup version 2");
        return;
    };
    let which = format!("--cgroup {} --port {PORT}", cgroup.display());
    let download = Download::start(&served);
    wait_for("the server has accepted it", || runs(&which));
    let found = done(&format!("attach {which} --cc copa --json"));
    assert!(found.contains("\"error\":null"), "{found}");
    assert!(found.contains("\"peer\":\""), "{found}");
    shown(&|c| c["algorithm"] == "alcc_copa" && c["before"].is_string());
    let back = done(&format!("detach {which}"));
    assert!(
        back.contains("1 connection given back (was alcc_copa)"),
        "{back}"
    );
    println!("{} bytes", download.end());
    served.end();
    done("bpf unload");
}

/// A link with room for half a second of packets.
fn deep() -> alcc_emu::PathSpec {
    let mut path = lossy();
    path.down.loss = 0.0;
    path.down.queue = "droptail:packets=500".parse().unwrap();
    path
}

/// Its median over two seconds, ms, once it is among these: for some seconds it still has the queue of the control
/// before, and on a busy machine for longer.
fn round_trip(control: &str, settled: impl Fn(f64) -> bool) -> f64 {
    wait_for("a round-trip time that the options explain", || {
        let mut seen: Vec<f64> = (0..20)
            .map(|_| {
                std::thread::sleep(Duration::from_millis(100));
                let found = shown(&|c| c["algorithm"] == control);
                found["rtt_ms"].as_f64().unwrap()
            })
            .collect();
        seen.sort_by(f64::total_cmp);
        println!("{control}: {} ms", seen[10]);
        settled(seen[10]).then_some(seen[10])
    })
}

#[test]
fn an_algorithm_in_the_kernel_takes_its_options() {
    if support::impossible() {
        return;
    }
    let _alone = controls::controls_alone();
    if !loaded() {
        return;
    }
    let Some((served, _)) = Served::over(deep(), bytes(), &["for-ever"]) else {
        return;
    };
    let which = format!("--pid {} --port {PORT}", served.server.0.id());
    let cgroup = alcc_bpf::cgroup_of(served.server.0.id());
    let which = cgroup.map_or(which, |c| format!("--cgroup {} --port {PORT}", c.display()));
    let download = Download::start(&served);
    wait_for("the server has accepted it", || runs(&which));
    // It returns at once: no process of alcc stays.
    done(&format!("attach {which} --cc budget:delay=10ms"));
    let short = round_trip("alcc_budget:delay=10ms", |rtt| rtt < 80.0);
    let again = done(&format!("attach {which} --cc budget:delay=150ms"));
    assert!(
        again.contains(
            "1 connection switched to alcc_budget:delay=150ms (was alcc_budget:delay=10ms)"
        ),
        "{again}"
    );
    round_trip("alcc_budget:delay=150ms", |rtt| rtt > short + 60.0);
    let back = done(&format!("detach {which}"));
    assert!(back.contains("(was alcc_budget:delay=150ms)"), "{back}");
    println!("{} bytes", download.end());
    served.end();
    done("bpf unload");
}

/// A connection that this is true of, as soon as it carries something. From outside the server's
/// network namespace.
fn shown(is_it: &dyn Fn(&serde_json::Value) -> bool) -> serde_json::Value {
    let mut last = String::new();
    let found = wait_for("a connection in alcc top", || {
        let top = alcc("top --once --json");
        last = String::from_utf8(top.stdout).unwrap();
        // Nothing runs yet: it says so, and has no table.
        let top: serde_json::Value = serde_json::from_str(&last).ok()?;
        let found = top["connections"].as_array()?.iter().find(|c| is_it(c))?;
        let carries =
            found["rate_mbps"].as_f64() > Some(0.0) && found["rtt_ms"].as_f64() > Some(0.0);
        carries.then(|| found.clone())
    });
    assert!(found["cwnd_segments"].as_u64() > Some(0), "{found}");
    found
}

/// A program that stays; ended with the test.
/// And what it said at its start.
struct Program(Child, String);

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
        Self(child, said)
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.0.id().cast_signed()), signal).unwrap();
    }

    /// Its end, and what it said.
    fn end(mut self) -> (ExitStatus, String) {
        let status = wait_for("it ends", || self.0.try_wait().unwrap());
        let mut said = std::mem::take(&mut self.1);
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

/// The control of the one connection of a selection.
fn runs(which: &str) -> Option<String> {
    let found = done(&format!("attach {which} --cc cubic --dry-run --json"));
    let found: serde_json::Value = serde_json::from_str(&found).unwrap();
    let sockets = found["sockets"].as_array().unwrap();
    let peers = sockets.iter().find(|s| !s["peer"].is_null());
    peers.map(|s| s["was"].as_str().unwrap().to_owned())
}

fn becomes(which: &str, name: &str) -> Duration {
    let began = Instant::now();
    wait_for(&format!("{which} runs {name}"), || {
        (runs(which).as_deref() == Some(name)).then_some(())
    });
    began.elapsed()
}

#[test]
fn an_algorithm_of_user_space_steers_and_its_death_is_harmless() {
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
    let Some((served, _)) = Served::start(bytes(), &["for-ever"]) else {
        return;
    };
    let which = format!("--cgroup {} --port {PORT}", cgroup.display());
    done(&format!("attach {which} --cc cubic"));
    // Sprout's arithmetic alone takes longer than its time there.
    let cc = match controls::slow_machine() {
        true => "fixed:window=40",
        false => "sprout",
    };
    // Killed: within half a second of acknowledgements the kernel takes over.
    let download = Download::start(&served);
    becomes(&which, "cubic");
    let steering = Program::start(&format!("attach {which} --cc {cc}"));
    becomes(&which, "alcc_window");
    steering.signal(Signal::SIGKILL);
    println!(
        "{cc} was killed; cubic again after {:?}",
        becomes(&which, "cubic")
    );
    // It gives the connections back at a signal, and ends with the connections that it steers.
    let other = Program::start(&format!("attach {which} --cc {cc}"));
    other.signal(Signal::SIGTERM);
    let (status, said) = other.end();
    assert!(
        status.success() && said.contains("1 connection given back"),
        "{said}"
    );
    assert_eq!(runs(&which).as_deref(), Some("cubic"));
    let steering = Program::start(&format!("attach {which} --cc {cc}"));
    let top = shown(&|c| c["algorithm"] == cc);
    assert!(top["local"].as_str().unwrap().ends_with(":9000"), "{top}");
    assert!(top["rtt_ms"].as_f64() > Some(30.0), "{top}");
    assert_eq!(
        (&top["feedback"], &top["enforcement"]),
        (&"bpf".into(), &"bpf".into())
    );
    let second = alcc(&format!("attach {which} --cc {cc}"));
    let said = String::from_utf8_lossy(&second.stderr);
    assert_eq!(second.status.code(), Some(1), "{said}");
    assert!(said.contains("another program controls it"), "{said}");
    println!("{} bytes, most of them by {cc}", download.end());
    let (status, said) = steering.end();
    assert!(
        status.success() && said.contains("1 connection controlled by"),
        "{said}"
    );
    // Those to come, too.
    let steering = Program::start(&format!("attach {which} --cc {cc} --future"));
    let download = Download::start(&served);
    becomes(&which, "alcc_window");
    shown(&|c| c["algorithm"] == cc);
    println!("{} bytes by {cc}", download.end());
    steering.signal(Signal::SIGTERM);
    assert!(steering.end().0.success());
    served.end();
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
}

fn control_of(socket: &TcpStream) -> String {
    let name = getsockopt(socket, TcpCongestion).unwrap();
    name.to_string_lossy().trim_end_matches('\0').to_owned()
}

/// A client sees the end at once when its server closes a socket that another process steers.
#[test]
fn a_steered_servers_close_is_seen_at_once() {
    if support::impossible() {
        return;
    }
    let _alone = controls::controls_alone();
    if !loaded() {
        return;
    }
    // A descriptor that the steering process kept would be for ever.
    let most = Duration::from_millis(if controls::slow_machine() {
        10_000
    } else {
        200
    });
    let pid = std::process::id();
    for loopback in ["127.0.0.1:0", "[::1]:0"] {
        let listener = TcpListener::bind(loopback).unwrap();
        let address = listener.local_addr().unwrap();
        let connect = || {
            let client = TcpStream::connect(address).unwrap();
            (client, listener.accept().unwrap().0)
        };
        let stays = connect();
        let steering = Program::start(&format!(
            "attach --pid {pid} --port {} --cc fixed:window=20 --future",
            address.port()
        ));
        let longest = || {
            let mut longest = Duration::ZERO;
            for n in 0..30 {
                let (mut client, mut server) = connect();
                let mut carry = || {
                    server.write_all(&[7; 20_000]).unwrap();
                    client.read_exact(&mut [0; 20_000]).unwrap();
                };
                carry();
                match n % 3 {
                    // At any moment of being taken.
                    0 => std::thread::sleep(Duration::from_millis(n * 6)),
                    1 => {}
                    _ => wait_for("it is steered", || {
                        (control_of(&server) == "alcc_window").then_some(())
                    }),
                }
                server.write_all(&[7; 20_000]).unwrap();
                client.read_exact(&mut [0; 20_000]).unwrap();
                let began = Instant::now();
                drop(server);
                assert_eq!(client.read(&mut [0; 10]).unwrap(), 0);
                longest = longest.max(began.elapsed());
            }
            longest
        };
        let longest = first_right(3, longest, |longest| *longest < most);
        println!("{address}: end of file after {longest:?} at most");
        steering.signal(Signal::SIGINT);
        let (status, said) = steering.end();
        assert!(status.success(), "{said}");
        drop(stays);
    }
    done("bpf unload");
}

/// An epoll server that ends its registrations by close(2) alone: the number of connections that it
/// has closed, and of events it got for one of them. In a server that stores a pointer, each such
/// event is a use after free.
fn stale_events(listener: &TcpListener) -> (usize, usize) {
    const LIFE: Duration = Duration::from_millis(200);
    listener.set_nonblocking(true).unwrap();
    let epoll = Epoll::new(EpollCreateFlags::empty()).unwrap();
    let add = |socket: &dyn AsFd, number: usize, flags| {
        let event = EpollEvent::new(flags, number as u64);
        epoll.add(socket.as_fd(), event).unwrap();
    };
    // The number of a connection is never given again.
    add(listener, 0, EpollFlags::EPOLLIN);
    let mut open: Vec<Option<(TcpStream, Instant)>> = vec![None];
    let (mut closed, mut stale) = (0, 0);
    let until = Instant::now() + Duration::from_secs(5);
    while Instant::now() < until {
        let mut events = [EpollEvent::empty(); 64];
        let n = epoll.wait(&mut events, 100u16).unwrap_or(0);
        for event in &events[..n] {
            let number = event.data() as usize;
            if number == 0 {
                let Ok((socket, _)) = listener.accept() else {
                    continue;
                };
                socket.set_nonblocking(true).unwrap();
                let flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT | EpollFlags::EPOLLET;
                add(&socket, open.len(), flags);
                open.push(Some((socket, Instant::now())));
                continue;
            }
            let Some((socket, began)) = &mut open[number] else {
                stale += 1;
                continue;
            };
            let _ = socket.read(&mut [0; 100]);
            let _ = socket.write(&[0; 3000]);
            if began.elapsed() > LIFE {
                open[number] = None;
                closed += 1;
            }
        }
    }
    (closed, stale)
}

/// Clients that send a byte each 2 ms and reconnect when the server closes.
fn asks_until(over: &AtomicBool, server: SocketAddr) {
    let connect = || {
        let client = TcpStream::connect(server).unwrap();
        client.set_nonblocking(true).unwrap();
        client
    };
    let mut clients: Vec<_> = (0..20).map(|_| connect()).collect();
    let mut block = vec![0; 65_536];
    while !over.load(Ordering::Relaxed) {
        for client in &mut clients {
            let _ = client.write(b"x");
            let read = client.read(&mut block);
            if read.map_or_else(|e| e.kind() != ErrorKind::WouldBlock, |n| n == 0) {
                *client = connect();
            }
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// While an algorithm computes, for any time, only the server holds its sockets.
#[test]
fn a_steered_epoll_server_gets_no_event_of_a_closed_connection() {
    if support::impossible() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let Some(plugin) = c_programs::plugin("slow", dir.path()) else {
        return;
    };
    let _alone = controls::controls_alone();
    if !loaded() {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let steering = Program::start(&format!(
        "attach --port {} --plugin {} --cc slow:start=0,ack=3 --future",
        address.port(),
        plugin.display()
    ));
    let seen = || {
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| asks_until(&over, address));
            let seen = stale_events(&listener);
            over.store(true, Ordering::Relaxed);
            seen
        })
    };
    let (closed, _) = first_right(3, seen, |(_, stale)| *stale == 0);
    assert!(closed > 100, "{closed}");
    steering.signal(Signal::SIGINT);
    let (status, said) = steering.end();
    assert!(status.success(), "{said}");
    done("bpf unload");
}

/// The server closes first, 40 ms away. The client sees the end right after the last byte, under any
/// control.
#[test]
fn the_end_of_file_is_not_a_round_trip_late() {
    if support::impossible() {
        return;
    }
    let _alone = controls::controls_alone();
    if !loaded() {
        return;
    }
    let mut path = lossy();
    path.down.loss = 0.0;
    let Some((served, _)) = Served::over(path, 500_000, &[]) else {
        return;
    };
    let pid = served.server.0.id();
    let late = || {
        let mut from = served.world.connect(PORT);
        from.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
        let (mut block, mut all, mut last) = (vec![0; 65_536], 0, Instant::now());
        loop {
            match from.read(&mut block).unwrap() {
                0 => break,
                n => (all, last) = (all + n, Instant::now()),
            }
        }
        assert!(all >= 500_000, "{all} bytes");
        last.elapsed()
    };
    let shortest = |who: &str| {
        let in_time = |late: &_| *late < Duration::from_millis(40) || controls::slow_machine();
        let late = first_right(3, late, in_time);
        println!("{who}: the end is {late:?} after the last byte");
    };
    shortest("the system's own control");
    let which = format!("--pid {pid} --port {PORT}");
    done(&format!("attach {which} --cc copa"));
    shortest("alcc_copa");
    done(&format!("detach {which}"));
    let steering = Program::start(&format!("attach {which} --cc fixed:window=40 --future"));
    shortest("fixed, by alcc attach");
    steering.signal(Signal::SIGTERM);
    assert!(steering.end().0.success());
    served.end();
    done("bpf unload");
}

/// A socket that is forked, and then left to the child alone, stays steered; over IPv6 too.
#[test]
fn a_steered_socket_goes_to_another_process() {
    if support::impossible() {
        return;
    }
    let _alone = controls::controls_alone();
    if !loaded() {
        return;
    }
    for loopback in ["127.0.0.1:0", "[::1]:0"] {
        let listener = TcpListener::bind(loopback).unwrap();
        let address = listener.local_addr().unwrap();
        let mut client = TcpStream::connect(address).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        setsockopt(&server, TcpCongestion, &"cubic".into()).unwrap();
        let over = AtomicBool::new(false);
        std::thread::scope(|threads| {
            threads.spawn(|| {
                let mut block = vec![0; 65_536];
                // Some 10 MB/s: the machine has other things to do.
                while !over.load(Ordering::Relaxed) && client.read(&mut block).is_ok_and(|n| n > 0)
                {
                    std::thread::sleep(Duration::from_millis(5));
                }
            });
            server.write_all(&[0; 100_000]).unwrap();
            let which = format!("--port {}", address.port());
            let cc = "fixed:window=20";
            let steering = Program::start(&format!("attach {which} --cc {cc}"));
            becomes(&which, "alcc_window");
            // A child holds it, too; only the child writes, and it is the last to hold it.
            let mut child = Command::new("cat");
            let its = server.try_clone().unwrap();
            child
                .arg("/dev/zero")
                .stdout(std::os::fd::OwnedFd::from(its));
            let child = Program(child.spawn().unwrap(), String::new());
            let steered = || {
                let seen = shown(&|c| c["algorithm"] == cc && c["feedback"] == "bpf");
                seen["bytes"].as_u64().unwrap()
            };
            let forked = steered();
            drop(server);
            // Otherwise the kernel would take it back after half a second. The steering process counts its bytes.
            let count = |least: u64| {
                wait_for("its bytes are counted", || {
                    (steered() > least).then(&steered)
                })
            };
            count(count(forked));
            becomes(&which, "alcc_window");
            // It is given back in every case.
            steering.signal(Signal::SIGTERM);
            let (status, said) = steering.end();
            assert!(status.success(), "{said}");
            assert!(said.contains("1 connection given back"), "{said}");
            assert_eq!(runs(&which).as_deref(), Some("cubic"));
            over.store(true, Ordering::Relaxed);
            drop(child);
        });
    }
    done("bpf unload");
}

/// The kernel waits half a second of acknowledgements for an answer. An algorithm that needs longer
/// to start has its sockets nevertheless.
#[test]
fn an_algorithm_that_starts_slowly_keeps_its_sockets() {
    if support::impossible() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let Some(plugin) = c_programs::plugin("slow", dir.path()) else {
        return;
    };
    let _alone = controls::controls_alone();
    if !loaded() {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut client = TcpStream::connect(address).unwrap();
    let (server, _) = listener.accept().unwrap();
    setsockopt(&server, TcpCongestion, &"cubic".into()).unwrap();
    // Both last as long as the test, also one that fails.
    std::thread::spawn(move || {
        let mut block = vec![0; 65_536];
        while client.read(&mut block).is_ok_and(|n| n > 0) {
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    let mut writes = server.try_clone().unwrap();
    std::thread::spawn(move || while writes.write_all(&[0; 65_536]).is_ok() {});
    let steering = Program::start(&format!(
        "attach --port {} --plugin {} --cc slow",
        address.port(),
        plugin.display()
    ));
    // By its own window, which the kernel alone would not have.
    let top = shown(&|c| c["algorithm"] == "slow" && c["cwnd_segments"] == 8);
    assert_eq!(top["feedback"], "bpf");
    // It still does after twice the kernel's patience. A process that was not scheduled meanwhile takes it again.
    std::thread::sleep(Duration::from_secs(1));
    wait_for("it is steered", || {
        (control_of(&server) == "alcc_window").then_some(())
    });
    steering.signal(Signal::SIGTERM);
    let (status, said) = steering.end();
    assert!(status.success(), "{said}");
    assert!(said.contains("1 connection given back"), "{said}");
    assert_eq!(control_of(&server), "cubic");
    server.shutdown(std::net::Shutdown::Both).unwrap();
    done("bpf unload");
}

#[test]
fn the_list_says_what_lives_in_the_kernel() {
    assert!(done("list").contains("alcc_copa, as copa:"));
    let list: serde_json::Value = serde_json::from_str(&done("list --json")).unwrap();
    assert_eq!(list["resident"][0]["control"], "alcc_copa");
    // By the kernel's names, too.
    for (name, by) in [
        ("alcc_budget", "cc = \"budget\" in a policy"),
        ("alcc_window", "'alcc run'"),
    ] {
        let details = done(&format!("list {name}"));
        assert!(details.contains(by), "{details}");
        assert!(
            details.contains(&format!("{name} is")) && details.contains("'alcc bpf load'"),
            "{details}"
        );
        let one = done(&format!("list --json {name}"));
        let one: serde_json::Value = serde_json::from_str(&one).unwrap();
        assert_eq!(one["resident"].as_array().unwrap().len(), 1, "{one}");
    }
}

/// Both ports, by the default algorithm, and back.
#[test]
fn several_ports_are_attached_and_given_back_together() {
    let _alone = controls::controls_alone();
    if !loaded() {
        return;
    }
    let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let ports = listeners.each_ref().map(|l| l.local_addr().unwrap().port());
    let control = |listener: &TcpListener| {
        let name = getsockopt(listener, TcpCongestion).unwrap();
        name.to_string_lossy().trim_end_matches('\0').to_owned()
    };
    let before = control(&listeners[0]);
    for which in [
        format!("--port {},{}", ports[0], ports[1]),
        format!("--port {} --port {}", ports[0], ports[1]),
    ] {
        let said = done(&format!("attach {which} --future"));
        assert!(
            said.contains("2 listening sockets switched to alcc_budget"),
            "{said}"
        );
        assert_eq!(listeners.each_ref().map(control), ["alcc_budget"; 2]);
        let again = done(&format!("attach {which}"));
        assert_eq!(again, "2 listening sockets had alcc_budget already\n");
        done(&format!("detach {which}"));
        assert_eq!(listeners.each_ref().map(control), [before.as_str(); 2]);
    }
    // Nothing is there yet.
    let said = done("attach --port 1 --future");
    assert_eq!(said, "from now on: alcc_budget on port 1\n");
    done("detach --port 1");
    let one = alcc(&format!(
        "attach --port {},{} --cc sprout",
        ports[0], ports[1]
    ));
    let said = String::from_utf8_lossy(&one.stderr);
    assert_eq!(one.status.code(), Some(2), "{said}");
    assert!(said.contains("takes one --port"), "{said}");
    done("bpf unload");
}

/// docs/attach.md: the options of a socket of the program, before it chooses the control.
#[test]
fn a_program_sets_options_by_the_documented_call() {
    const SERVER: &str = r#"
#include <linux/bpf.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    BLOCK
    if (bind(fd, (struct sockaddr *)&at, len) != 0 || listen(fd, 1) != 0 ||
        getsockname(fd, (struct sockaddr *)&at, &len) != 0)
        return 1;
    printf("%d\n", ntohs(at.sin_port));
    fflush(stdout);
    return getchar() == EOF ? 0 : 2;
}
"#;
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/attach.md");
    let Ok(page) = std::fs::read_to_string(page) else {
        support::lacks("the pages");
        return;
    };
    let block = page
        .split_once("```c\n")
        .unwrap()
        .1
        .split_once("```")
        .unwrap()
        .0;
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = c_programs::of(&SERVER.replace("BLOCK", block), dir.path()) else {
        return;
    };
    let _alone = controls::controls_alone();
    if !loaded() {
        return;
    }
    let mut server = Command::new(program);
    let mut server = server
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut port = String::new();
    BufReader::new(server.stdout.take().unwrap())
        .read_line(&mut port)
        .unwrap();
    let port: u16 = port.trim().parse().unwrap();
    let _client = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let found = done(&format!("attach --port {port} --cc reno --dry-run --json"));
    let found: serde_json::Value = serde_json::from_str(&found).unwrap();
    let sockets = found["sockets"].as_array().unwrap().iter();
    let controls: Vec<_> = sockets.map(|s| s["was"].as_str().unwrap()).collect();
    assert_eq!(
        controls, ["alcc_budget:delay=20ms"; 2],
        "its own, and one that it accepts"
    );
    drop(server.stdin.take());
    assert!(server.wait().unwrap().success());
}

/// The kernel's form has one of the modes.
#[test]
fn an_option_that_the_kernel_lacks_runs_in_user_space_and_that_is_said() {
    let _alone = controls::controls_alone();
    if !loaded() {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    for (cc, says) in [
        (
            "copa:mode=auto",
            "alcc: alcc_copa has no such options, so copa:mode=auto runs in this",
        ),
        (
            "sprout",
            "alcc: sprout runs in this process until Ctrl-C; then",
        ),
    ] {
        let steering = Program::start(&format!("attach --port {port} --cc {cc} --future"));
        steering.signal(Signal::SIGTERM);
        let (status, said) = steering.end();
        assert!(status.success() && said.contains(says), "{said}");
    }
}
