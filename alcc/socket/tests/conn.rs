// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Controlled connections of a program, over loopback, as the preload library makes them.
#[path = "../../cli/tests/support/wait.rs"]
mod wait;

use alcc_cc::{AckBatch, Algorithm, Allowance, Build, Controller, Cx, Instance, Registry};
use alcc_observe::{Command, Segment, State, Totals};
use alcc_socket::{Attached, Conn, Inherited, Runtime, Settings, Wait, Waker, Write};
use alcc_units::{Bytes, Rate};
use std::borrow::Cow;
use std::ffi::OsString;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;
use wait::wait_for;

/// True if the program would be woken.
struct NoWaker(bool);

impl Waker for NoWaker {
    fn can_wake(&self) -> bool {
        self.0
    }
    fn on_blocked(&mut self) {}
    fn on_writable(&mut self, _fds: &[RawFd]) {}
    fn merge(&mut self, _other: Self) {}
    fn on_close(&mut self, _fd: RawFd) {}
}

struct Run {
    runtime: Arc<Runtime<NoWaker>>,
    segment: Segment,
    file: PathBuf,
}

impl Run {
    fn new(name: &str, env: &[(&str, &str)], registry: Registry) -> Self {
        let file = std::env::temp_dir().join(format!("alcc-conn-{}-{name}", std::process::id()));
        let segment = Segment::create(&file).unwrap();
        let settings = Settings::from_env(&Registry::builtin(), |variable| {
            let asked = env.iter().find(|(name, _)| *name == variable);
            let given = asked.map(|(_, value)| OsString::from(value));
            given.or_else(|| (variable == "ALCC_LOOPBACK").then(|| "1".into()))
        });
        let shared = Arc::new(Segment::open(&file).unwrap());
        let runtime = Runtime::new(settings.unwrap().unwrap(), registry, Some(shared));
        Self {
            runtime: Arc::new(runtime),
            segment,
            file,
        }
    }

    fn attach(&self, fd: RawFd) -> Attached<NoWaker> {
        self.runtime.attach(fd, Inherited::default(), NoWaker(true))
    }

    fn control(&self, socket: &TcpStream) -> Arc<Conn<NoWaker>> {
        match self.attach(socket.as_raw_fd()) {
            Attached::Controlled(conn) => conn,
            Attached::LeftAlone | Attached::NotConnected(_) => panic!("not controlled"),
        }
    }

    fn command(&self, text: &str) {
        self.segment
            .command(text.parse::<Command>().unwrap())
            .unwrap();
    }

    fn states(&self) -> Vec<State> {
        let records = self.segment.connections();
        records.iter().map(|record| record.now.state).collect()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.file));
    }
}

/// A server's socket and its client's.
fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (listener.accept().unwrap().0, client)
}

fn write(run: &Run, conn: &Arc<Conn<NoWaker>>, socket: &TcpStream, bytes: &[u8]) -> isize {
    write_and(Wait::Yes(None), run, conn, socket, bytes)
}

fn write_and(
    wait: Wait,
    run: &Run,
    conn: &Arc<Conn<NoWaker>>,
    socket: &TcpStream,
    bytes: &[u8],
) -> isize {
    let fd = socket.as_raw_fd();
    conn.write(
        &run.runtime,
        &mut Write {
            fd,
            wanted: bytes.len(),
            done: 0,
            whole: false,
            wait: &|| wait,
            // SAFETY: within `bytes`.
            real: &mut |skip, limit| unsafe {
                libc::send(fd, bytes[skip..].as_ptr().cast(), limit, libc::MSG_NOSIGNAL)
            },
        },
    )
}

/// Bytes that the kernel has and the peer has not acknowledged.
fn queued(socket: &TcpStream) -> libc::c_int {
    let mut bytes = 0;
    // SAFETY: the call writes an int.
    let rc = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    assert_eq!(rc, 0);
    bytes
}

fn swallow(mut client: TcpStream) {
    std::thread::spawn(move || std::io::copy(&mut client, &mut std::io::sink()));
}

fn pacing(socket: &TcpStream) -> u64 {
    let mut rate = 0u64;
    let mut len = size_of::<u64>() as libc::socklen_t;
    let (level, name) = (libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE);
    // SAFETY: pointer and length describe `rate`.
    let rc = unsafe {
        let to = (&raw mut rate).cast();
        libc::getsockopt(socket.as_raw_fd(), level, name, to, &raw mut len)
    };
    assert_eq!(rc, 0);
    rate
}

fn pace(socket: &TcpStream, rate: u64) {
    let (level, name) = (libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE);
    let len = size_of::<u64>() as libc::socklen_t;
    // SAFETY: pointer and length describe `rate`.
    let rc = unsafe {
        let from = (&raw const rate).cast();
        libc::setsockopt(socket.as_raw_fd(), level, name, from, len)
    };
    assert_eq!(rc, 0);
}

fn under(socket: &TcpStream) -> String {
    let mut name = [0u8; 16];
    let mut len = 16;
    // SAFETY: pointer and length describe `name`.
    let rc = unsafe {
        let to = name.as_mut_ptr().cast();
        let fd = socket.as_raw_fd();
        libc::getsockopt(
            fd,
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            to,
            &raw mut len,
        )
    };
    assert_eq!(rc, 0);
    let end = name.iter().position(|b| *b == 0).unwrap_or(16);
    String::from_utf8(name[..end].to_vec()).unwrap()
}

/// Another congestion control than the one the kernel gives, that everybody may select.
fn other_under(socket: &TcpStream) -> Option<String> {
    let allowed = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_allowed_congestion_control");
    let now = under(socket);
    let allowed = allowed.ok()?;
    allowed
        .split_whitespace()
        .find(|name| **name != now)
        .map(str::to_owned)
}

#[test]
fn a_thread_that_is_cut_off_in_a_write_does_not_write_for_ever() {
    let run = Run::new(
        "cut",
        &[("ALCC_CC", "fixed:window=1000")],
        Registry::builtin(),
    );
    let (socket, client) = pair();
    swallow(client);
    let conn = run.control(&socket);
    let cut = catch_unwind(AssertUnwindSafe(|| {
        let mut write = Write {
            fd: socket.as_raw_fd(),
            wanted: 1000,
            done: 0,
            whole: false,
            wait: &|| Wait::Yes(None),
            real: &mut |_, _| std::panic::resume_unwind(Box::new(())),
        };
        conn.write(&run.runtime, &mut write)
    }));
    assert!(cut.is_err());
    run.command("* off");
    assert_eq!(write(&run, &conn, &socket, &[7; 1000]), 1000);
    assert_eq!(run.states(), [State::Off]);
}

#[test]
fn nothing_is_taken_between_a_short_write_and_the_wake_up() {
    let env = [("ALCC_CC", "fixed:window=2")];
    let run = Run::new("short", &env, Registry::builtin());
    // Readings come when they are asked for.
    run.runtime.go_inline();
    let (socket, client) = pair();
    swallow(client);
    let conn = run.control(&socket);
    let block = vec![7; 1_000_000];
    let write = || write_and(Wait::No, &run, &conn, &socket, &block);
    // By a wait for room, and by a reading.
    let wakes: [&dyn Fn() -> bool; 2] = [&|| conn.blocked_until(&run.runtime).is_none(), &|| {
        run.runtime.run_inline();
        write() > 0
    }];
    for wake in wakes {
        wait_for("a short write", || {
            assert!(write() < 1_000_000);
            conn.blocked_until(&run.runtime).is_none()
        });
        assert!((1..1_000_000).contains(&write()));
        // Over loopback all of it has arrived by now, so there would be room.
        wait_for("the acknowledgements", || queued(&socket) == 0);
        for _ in 0..3 {
            let rc = write();
            assert_eq!((rc, alcc_socket::errno()), (-1, libc::EAGAIN));
        }
        wait_for("the wake-up", wake);
    }
}

#[test]
fn two_descriptors_that_are_written_to_first_at_once_are_one_connection() {
    let run = Run::new("one", &[("ALCC_CC", "sprout")], Registry::builtin());
    let rounds = 200;
    for _ in 0..rounds {
        let (socket, _client) = pair();
        let other = socket.try_clone().unwrap();
        let both = Barrier::new(2);
        let first = |socket: &TcpStream| {
            both.wait();
            run.control(socket)
        };
        let (a, b) = std::thread::scope(|scope| {
            let a = scope.spawn(|| first(&socket));
            let b = scope.spawn(|| first(&other));
            (a.join().unwrap(), b.join().unwrap())
        });
        assert!(Arc::ptr_eq(&a, &b));
        a.close(&run.runtime, socket.as_raw_fd());
        assert_eq!(run.segment.connections().len(), 1);
        a.close(&run.runtime, other.as_raw_fd());
        assert_eq!(run.segment.connections().len(), 0);
    }
    let Totals { connections, .. } = run.segment.totals();
    assert_eq!(connections, rounds);
}

#[test]
fn the_smaller_pacing_rate_counts_and_the_programs_own_comes_back() {
    let run = Run::new("pacing", &[("ALCC_CC", "budget")], Registry::builtin());
    let (socket, client) = pair();
    swallow(client);
    pace(&socket, 3_000_000);
    let conn = run.control(&socket);
    let block = vec![7; 100_000];
    // Over loopback the algorithm would go much faster.
    for _ in 0..10 {
        assert_eq!(write(&run, &conn, &socket, &block), 100_000);
        assert!(pacing(&socket) <= 3_000_000, "{}", pacing(&socket));
    }
    // Past us, as another process or a raw call would: seen at the next reading.
    pace(&socket, 2_000_000);
    for _ in 0..10 {
        assert_eq!(write(&run, &conn, &socket, &block), 100_000);
        assert!(pacing(&socket) <= 2_000_000, "{}", pacing(&socket));
    }
    assert_eq!(conn.own_pacing(), 2_000_000);
    // By us.
    let set = conn.set_pacing(&run.runtime, socket.as_raw_fd(), || {
        pace(&socket, 30_000_000);
        0
    });
    assert_eq!((set, conn.own_pacing()), (0, 30_000_000));
    run.command("* off");
    write(&run, &conn, &socket, &block);
    assert_eq!(
        (run.states(), pacing(&socket)),
        (vec![State::Off], 30_000_000)
    );
    run.command("* on");
    write(&run, &conn, &socket, &block);
    run.command("* cc=fixed:window=10");
    write(&run, &conn, &socket, &block);
    wait_for("the readings end", || pacing(&socket) == 30_000_000);
    assert_eq!(conn.inherited(|_| ()).0.pacing, Some(30_000_000));
}

/// A small window and a rate, whatever is acknowledged.
#[derive(Clone)]
struct Paced;

impl Controller for Paced {
    fn on_ack(&mut self, _cx: &mut Cx<'_>, _ack: &AckBatch<'_>) {}

    fn allowance(&self) -> Allowance {
        Allowance {
            rate: Some(Rate::mbps(24)),
            ..Allowance::window(Bytes::new(100_000))
        }
    }
}

/// Its writes pass the gate, and the kernel's buffer must have the room that it has under plain TCP.
#[test]
fn a_program_that_no_event_would_wake_is_not_paced() {
    let paced = Algorithm {
        name: "fixed",
        summary: "",
        profiles: Cow::Borrowed(&[]),
        options: &[],
        build: Build::Function(|_| Ok(Instance::new(Paced))),
    };
    let registry = Registry::builtin().with(paced);
    let run = Run::new("unwoken", &[("ALCC_CC", "fixed")], registry);
    let (socket, client) = pair();
    swallow(client);
    pace(&socket, 1_000_000_000_000);
    let conn = run.control(&socket);
    let block = vec![7; 10_000_000];
    let is_paced = |wait| {
        write_and(wait, &run, &conn, &socket, &block);
        pacing(&socket) != 1_000_000_000_000
    };
    wait_for("a blocking writer is paced", || is_paced(Wait::Yes(None)));
    conn.with_waker(|waker, _| waker.0 = false);
    for _ in 0..20 {
        assert!(!is_paced(Wait::No), "{}", pacing(&socket));
        std::thread::sleep(Duration::from_millis(2));
    }
    conn.with_waker(|waker, _| waker.0 = true);
    wait_for("one that is woken again", || is_paced(Wait::No));
}

/// The thread that looks for a cork and opens one that is not there (`Steered::kick`) does so under the lock of the
/// connection: a program that sets one meanwhile waits, and keeps it.
#[test]
fn a_cork_of_the_program_is_kept_for_a_write_that_looks_for_it() {
    let run = Run::new("cork", &[("ALCC_CC", "budget")], Registry::builtin());
    let (socket, _client) = pair();
    let conn = run.control(&socket);
    let (looked, was_alone) = (AtomicBool::new(false), AtomicBool::new(false));
    let set = std::thread::scope(|threads| {
        conn.set_alone(&run.runtime, || {
            threads.spawn(|| {
                conn.own_pacing();
                looked.store(true, Ordering::SeqCst);
            });
            std::thread::sleep(Duration::from_millis(50));
            was_alone.store(!looked.load(Ordering::SeqCst), Ordering::SeqCst);
            7
        })
    });
    assert_eq!(set, 7);
    assert!(was_alone.into_inner() && looked.into_inner());
}

#[test]
fn a_child_takes_its_parents_rate_for_what_it_is() {
    let parent = Run::new("parent", &[("ALCC_CC", "bbr")], Registry::builtin());
    let child = Run::new("child", &[("ALCC_CC", "bbr")], Registry::builtin());
    for own in [u64::MAX, 50_000_000] {
        let (socket, client) = pair();
        swallow(client);
        if own != u64::MAX {
            pace(&socket, own);
        }
        let theirs = parent.control(&socket);
        wait_for("the parent paces", || {
            write(&parent, &theirs, &socket, &[7; 10_000]);
            pacing(&socket) != own
        });
        let Attached::Controlled(ours) = child.runtime.attach(
            socket.as_raw_fd(),
            theirs.inherited(|_| ()).0,
            NoWaker(true),
        ) else {
            panic!("not controlled")
        };
        assert_eq!(ours.own_pacing(), own);
        // A parent that has made others gives back what it borrowed.
        parent.runtime.shares();
        theirs.close(&parent.runtime, socket.as_raw_fd());
        assert_eq!(pacing(&socket), own);
    }
}

#[test]
fn the_congestion_control_below_comes_back() {
    let (socket, client) = pair();
    swallow(client);
    let Some(other) = other_under(&socket) else {
        println!("skipped: needs a second congestion control that everybody may select");
        return;
    };
    let before = under(&socket);
    let env = [("ALCC_CC", "fixed:window=10"), ("ALCC_UNDER", &*other)];
    // In a process that lacks the algorithm the socket stays as it is.
    let all = Registry::builtin();
    let fixed = all.iter().find(|a| a.name == "fixed").unwrap().clone();
    let without = all.with_local(fixed).for_peers();
    let none = Run::new("none", &env, without);
    assert!(matches!(
        none.attach(socket.as_raw_fd()),
        Attached::LeftAlone
    ));
    assert_eq!(under(&socket), before);
    let run = Run::new("under", &env, Registry::builtin());
    let conn = run.control(&socket);
    assert_eq!(under(&socket), other);
    write(&run, &conn, &socket, &[7; 1000]);
    run.command("* off");
    write(&run, &conn, &socket, &[7; 1000]);
    assert_eq!(under(&socket), before);
    run.command("* on");
    write(&run, &conn, &socket, &[7; 1000]);
    assert_eq!(under(&socket), other);
    // Another program was to take its place, and could not.
    conn.hand_over(socket.as_raw_fd());
    assert_eq!(under(&socket), before);
    write(&run, &conn, &socket, &[7; 1000]);
    assert_eq!(under(&socket), other);
    run.runtime.fail("asked for");
    assert_eq!(under(&socket), before);
}
