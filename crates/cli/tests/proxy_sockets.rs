// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `alcc proxy` between sockets of ours on loopback: what one end does to its connection, the other end sees.
#[path = "support/relay.rs"]
#[allow(dead_code, reason = "not every test uses all of it")]
mod relay;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::socket::{Backlog, setsockopt, sockopt};
use relay::{Relay, number};
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);

fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    // A full backlog loses connections for which the client does not speak first, relay or not.
    nix::sys::socket::listen(&listener, Backlog::new(4096).unwrap()).unwrap();
    let at = listener.local_addr().unwrap();
    (listener, at)
}

fn patient(stream: TcpStream) -> TcpStream {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn connect(at: SocketAddr) -> TcpStream {
    patient(TcpStream::connect(at).unwrap())
}

/// A server that takes one connection.
fn once<R: Send + 'static>(
    listener: TcpListener,
    serve: impl FnOnce(TcpStream) -> R + Send + 'static,
) -> JoinHandle<R> {
    std::thread::spawn(move || serve(patient(listener.accept().unwrap().0)))
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i / 251 + i) as u8).collect()
}

fn rest(mut stream: &TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    stream.read_to_end(&mut all).unwrap();
    all
}

/// Closes with a reset.
fn slam(stream: TcpStream) {
    let linger = nix::libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    setsockopt(&stream, sockopt::Linger, &linger).unwrap();
}

fn was_reset(mut stream: &TcpStream) -> bool {
    let read = stream.read_exact(&mut [0; 1]);
    read.is_err_and(|e| e.kind() == ErrorKind::ConnectionReset)
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// From /proc: resident bytes, and CPU time in ticks of 10 ms.
fn resources(pid: u32) -> (u64, u64) {
    let read = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap();
    let pages: u64 = read("statm").split(' ').nth(1).unwrap().parse().unwrap();
    let stat = read("stat");
    let fields: Vec<_> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    let ticks = |i: usize| fields[i].parse::<u64>().unwrap();
    (pages * 4096, ticks(11) + ticks(12))
}

#[test]
fn a_client_that_has_sent_its_last_still_gets_everything() {
    let (server, at) = listener();
    let relay = Relay::local(at, &["--cc", "fixed:window=4"]);
    let serve = once(server, |mut stream| {
        let heard = rest(&stream);
        stream.write_all(&pattern(2_000_000)).unwrap();
        heard
    });
    let mut client = connect(relay.at[0]);
    client.write_all(&pattern(300_000)).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    assert!(rest(&client) == pattern(2_000_000));
    assert!(serve.join().unwrap() == pattern(300_000));
    let (status, report, said) = relay.stop();
    assert!(status.success(), "{said}");
    assert_eq!(number(&report, "bytes_up"), 300_000);
    assert_eq!(number(&report, "bytes_down"), 2_000_000);
    assert_eq!(number(&report, "resets"), 0);
    assert!(number(&report, "gate_closed") > 0, "{report}");
}

#[test]
fn a_server_that_has_sent_its_last_still_gets_everything() {
    let (server, at) = listener();
    let relay = Relay::local(at, &["--cc", "fixed:window=4"]);
    let serve = once(server, |mut stream| {
        stream.write_all(b"bye").unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        rest(&stream)
    });
    let mut client = connect(relay.at[0]);
    assert_eq!(rest(&client), b"bye");
    client.write_all(&pattern(2_000_000)).unwrap();
    drop(client);
    assert!(serve.join().unwrap() == pattern(2_000_000));
    let (_, report, _) = relay.stop();
    assert_eq!(number(&report, "resets"), 0);
}

#[test]
fn a_reset_of_the_client_reaches_the_server() {
    let (server, at) = listener();
    let relay = Relay::local(at, &[]);
    let serve = once(server, |mut stream| {
        let mut hello = [0; 5];
        stream.read_exact(&mut hello).unwrap();
        was_reset(&stream)
    });
    let mut client = connect(relay.at[0]);
    client.write_all(b"hello").unwrap();
    // The server must have read it: a reset may overtake what is not read.
    std::thread::sleep(Duration::from_millis(200));
    slam(client);
    assert!(serve.join().unwrap());
    assert_eq!(number(&relay.stop().1, "resets"), 1);
}

#[test]
fn a_reset_of_the_server_reaches_the_client_after_what_it_had_sent() {
    let (server, at) = listener();
    let relay = Relay::local(at, &[]);
    let serve = once(server, |mut stream| {
        stream.write_all(&pattern(400_000)).unwrap();
        // Its own reset would throw away what the relay has not acknowledged.
        std::thread::sleep(Duration::from_millis(500));
        slam(stream);
    });
    let mut client = connect(relay.at[0]);
    serve.join().unwrap();
    let mut all = vec![0; 400_000];
    client.read_exact(&mut all).unwrap();
    assert!(all == pattern(400_000));
    assert!(was_reset(&client));
    assert_eq!(number(&relay.stop().1, "resets"), 1);
}

#[test]
fn a_reset_waits_no_longer_than_it_must_for_a_client_that_does_not_read() {
    let (server, at) = listener();
    let relay = Relay::local(at, &[]);
    let serve = once(server, |mut stream| {
        // Until nobody takes any more.
        stream
            .set_write_timeout(Some(Duration::from_millis(500)))
            .unwrap();
        while stream.write(&pattern(100_000)).is_ok() {}
        slam(stream);
    });
    let client = connect(relay.at[0]);
    serve.join().unwrap();
    let start = Instant::now();
    let (status, report, _) = relay.stop();
    assert!(status.success() && start.elapsed() < Duration::from_secs(20));
    assert_eq!(number(&report, "resets"), 1);
    drop(client);
}

#[test]
fn a_server_that_is_down_resets_the_client_and_serves_the_next_one_when_it_is_up() {
    let (server, at) = listener();
    drop(server);
    let relay = Relay::local(at, &[]);
    assert!(was_reset(&connect(relay.at[0])));
    let server = TcpListener::bind(at).unwrap();
    let serve = once(server, |mut stream| stream.write_all(b"up").unwrap());
    assert_eq!(rest(&connect(relay.at[0])), b"up");
    serve.join().unwrap();
    let (_, report, said) = relay.stop();
    assert_eq!(number(&report, "connect_failed"), 1);
    assert!(said.contains("did not answer"), "{said}");
}

#[test]
fn a_server_that_does_not_answer_is_given_up_after_the_time_allowed() {
    let (server, at) = listener();
    // A full backlog answers nobody.
    nix::sys::socket::listen(&server, Backlog::new(0).unwrap()).unwrap();
    let filled: Vec<_> = (0..8)
        .filter_map(|_| TcpStream::connect_timeout(&at, Duration::from_millis(200)).ok())
        .collect();
    assert!(filled.len() < 8, "the backlog does not fill");
    let relay = Relay::local(at, &["--connect-timeout", "300ms"]);
    let start = Instant::now();
    assert!(was_reset(&connect(relay.at[0])));
    assert!(start.elapsed() >= Duration::from_millis(300));
    assert_eq!(number(&relay.stop().1, "connect_failed"), 1);
}

#[test]
fn a_client_that_reads_slowly_stops_the_server_and_gets_everything() {
    let (server, at) = listener();
    let relay = Relay::local(at, &[]);
    const ALL: usize = 100_000_000;
    let sent = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&sent);
    let serve = once(server, move |mut stream| {
        for chunk in pattern(ALL).chunks(100_000) {
            stream.write_all(chunk).unwrap();
            counter.fetch_add(chunk.len(), Ordering::Relaxed);
        }
    });
    let client = connect(relay.at[0]);
    let mut before = 0;
    eventually("the server is stopped", || {
        std::thread::sleep(Duration::from_millis(500));
        let now = sent.load(Ordering::Relaxed);
        std::mem::replace(&mut before, now) == now && now > 0
    });
    // What the kernel's four buffers hold, at most some 20 MB here.
    assert!(before < ALL / 2, "{before} bytes left the server");
    assert!(rest(&client) == pattern(ALL));
    serve.join().unwrap();
    assert_eq!(number(&relay.stop().1, "bytes_down"), ALL as u64);
}

#[test]
fn the_header_comes_before_anything_that_the_client_says() {
    for (version, ip) in [("v1", "127.0.0.1"), ("v2", "127.0.0.1"), ("v1", "[::1]")] {
        let (server, at) = listener();
        let listen = format!("{ip}:0");
        let to = at.to_string();
        let relay = Relay::start(
            &[
                "--listen",
                &listen,
                "--to",
                &to,
                "--proxy-protocol",
                version,
            ],
            |mut c| c.spawn(),
        );
        let serve = once(server, |stream| rest(&stream));
        let mut client = connect(relay.at[0]);
        client.write_all(b"hello").unwrap();
        let (from, to) = (client.local_addr().unwrap(), client.peer_addr().unwrap());
        drop(client);
        let expected = match (version, from.ip()) {
            ("v1", ip) => format!(
                "PROXY {} {ip} {ip} {} {}\r\nhello",
                if ip.is_ipv4() { "TCP4" } else { "TCP6" },
                from.port(),
                to.port()
            )
            .into_bytes(),
            (_, IpAddr::V4(ip)) => [
                &b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c"[..],
                &ip.octets(),
                &ip.octets(),
                &from.port().to_be_bytes(),
                &to.port().to_be_bytes(),
                b"hello",
            ]
            .concat(),
            other => panic!("{other:?}"),
        };
        assert_eq!(serve.join().unwrap(), expected, "{version} {ip}");
        // The header is not the client's.
        assert_eq!(number(&relay.stop().1, "bytes_up"), 5);
    }
}

/// Both ends of so many connections are in this process.
fn descriptors(wanted: u64) -> bool {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    if hard < wanted {
        println!("skipped: needs {wanted} descriptors, the hard limit is {hard}");
        return false;
    }
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
    true
}

/// Takes connections, greets each, and keeps it.
fn greeter(listener: TcpListener, count: usize) -> JoinHandle<Vec<TcpStream>> {
    std::thread::spawn(move || {
        (0..count)
            .map(|_| {
                let (mut stream, _) = listener.accept().unwrap();
                stream.write_all(b"hello").unwrap();
                stream
            })
            .collect()
    })
}

fn greeted(mut client: &TcpStream) -> bool {
    let mut hello = [0; 5];
    client.read_exact(&mut hello).is_ok() && &hello == b"hello"
}

#[test]
fn two_thousand_connections_at_a_time_take_little_memory_and_no_time_while_idle() {
    const COUNT: usize = 2000;
    if !descriptors(2 * COUNT as u64 + 100) {
        return;
    }
    for (options, controlled, bytes_each) in [
        (&["--except", "127.0.0.0/8"][..], 0, 1024),
        (&["--cc", "verus"], COUNT as u64, 4096),
        (&["--cc", "copa"], COUNT as u64, 4096),
    ] {
        let (server, at) = listener();
        let mut all = vec!["--threads", "2"];
        all.extend(options);
        let relay = Relay::local(at, &all);
        // The loops' own memory is not the connections'.
        let first = greeter(server.try_clone().unwrap(), 1);
        let warm = connect(relay.at[0]);
        assert!(greeted(&warm));
        let (before, _) = resources(relay.pid());
        let serve = greeter(server, COUNT - 1);
        let clients: Vec<_> = (1..COUNT).map(|_| connect(relay.at[0])).collect();
        assert!(clients.iter().all(greeted));
        let kept = (first.join().unwrap(), serve.join().unwrap());
        let (after, _) = resources(relay.pid());
        let each = after.saturating_sub(before) / (COUNT as u64 - 1);
        println!("{options:?}: {each} bytes per idle connection");
        assert!(each <= bytes_each, "{options:?}: {each} bytes each");
        std::thread::sleep(Duration::from_millis(500));
        let (_, cpu) = resources(relay.pid());
        std::thread::sleep(Duration::from_secs(1));
        let (_, now) = resources(relay.pid());
        assert!(
            now - cpu <= 5,
            "{options:?}: {} ticks of 10 ms in an idle second",
            now - cpu
        );
        drop((clients, warm, kept));
        let (_, report, said) = relay.stop();
        assert_eq!(number(&report, "peak"), COUNT as u64, "{said}");
        assert_eq!(number(&report, "controlled"), controlled, "{said}");
        assert_eq!(number(&report, "bytes_down"), 5 * COUNT as u64, "{said}");
    }
}

#[test]
fn short_connections_leave_nothing_behind() {
    const COUNT: usize = 2700;
    let (server, at) = listener();
    // Of three connections one ends in order, one by the client's reset, one by the server's.
    std::thread::spawn(move || {
        for (i, stream) in server.incoming().enumerate() {
            let mut stream = patient(stream.unwrap());
            drop(stream.write_all(b"hello"));
            match i % 3 {
                0 => drop(rest(&stream)),
                1 => drop(stream.read(&mut [0; 16])),
                _ => slam(stream),
            }
        }
    });
    let relay = Relay::local(at, &["--threads", "2"]);
    let descriptors = || {
        std::fs::read_dir(format!("/proc/{}/fd", relay.pid()))
            .unwrap()
            .count()
    };
    let one = |i: usize| {
        let mut client = connect(relay.at[0]);
        // A reset of the server may overtake its greeting.
        let greeted = greeted(&client);
        assert!(greeted || i % 3 == 2, "connection {i}");
        match i % 3 {
            0 => {
                client.write_all(b"bye").unwrap();
                drop(client);
            }
            1 => slam(client),
            _ => drop(client),
        }
    };
    (0..300).for_each(one);
    eventually("the first are gone", || descriptors() < 40);
    let (before, (mut memory, _)) = (descriptors(), resources(relay.pid()));
    let (mut count, mut grown) = (300, Vec::new());
    // The allocator takes more pages while many are there at once, but not again and again.
    while grown.last().is_none_or(|bytes| *bytes >= 100) && grown.len() < 3 {
        (count..count + COUNT).for_each(one);
        count += COUNT;
        eventually("all are gone", || descriptors() <= before);
        let (after, _) = resources(relay.pid());
        grown.push(after.saturating_sub(memory) / COUNT as u64);
        memory = after;
    }
    assert!(
        grown.last() < Some(&100),
        "{grown:?} bytes left behind by each connection"
    );
    let (status, report, said) = relay.stop();
    assert!(status.success(), "{said}");
    assert_eq!(number(&report, "connections"), count as u64);
    assert_eq!(number(&report, "open"), 0);
}

#[test]
fn two_hundred_clients_that_read_nothing_take_a_bounded_memory() {
    const COUNT: usize = 200;
    if !descriptors(2 * COUNT as u64 + 100) {
        return;
    }
    let (server, at) = listener();
    let relay = Relay::local(at, &["--threads", "2"]);
    let (before, _) = resources(relay.pid());
    let clients: Vec<_> = (0..COUNT).map(|_| connect(relay.at[0])).collect();
    let full: Vec<_> = (0..COUNT)
        .map(|_| {
            let (stream, _) = server.accept().unwrap();
            stream.set_nonblocking(true).unwrap();
            stream
        })
        .collect();
    // Written until nobody takes more, in rounds.
    let chunk = pattern(65_536);
    let mut quiet = 0;
    let deadline = Instant::now() + Duration::from_secs(60);
    while quiet < 5 {
        assert!(Instant::now() < deadline, "it never stops taking");
        let took = full
            .iter()
            .filter(|s| matches!((&mut &**s).write(&chunk), Ok(n) if n > 0))
            .count();
        quiet = if took == 0 { quiet + 1 } else { 0 };
        if took == 0 {
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    let (after, _) = resources(relay.pid());
    let each = after.saturating_sub(before) / COUNT as u64;
    println!("{each} bytes per stalled connection");
    // The queue's 128 KiB, a block of 64 KiB that is half empty, and the connection.
    assert!(each < 208 * 1024, "{each} bytes each");
    let (_, cpu) = resources(relay.pid());
    std::thread::sleep(Duration::from_secs(1));
    let (_, now) = resources(relay.pid());
    assert!(
        now - cpu <= 20,
        "{} ticks of 10 ms in a second without progress",
        now - cpu
    );
    drop((clients, full));
}

#[test]
fn when_descriptors_run_out_clients_wait_and_nothing_spins() {
    let (server, at) = listener();
    let to = at.to_string();
    let relay = Relay::start(
        &["--listen", "127.0.0.1:0", "--to", &to, "--threads", "1"],
        |command| {
            let mut limited = Command::new("sh");
            limited
                .args(["-c", "ulimit -n 64; exec \"$0\" \"$@\""])
                .arg(command.get_program())
                .args(command.get_args())
                .stderr(std::process::Stdio::piped());
            limited.spawn()
        },
    );
    const COUNT: usize = 40;
    let serve = std::thread::spawn(move || {
        for _ in 0..COUNT {
            let mut stream = patient(server.accept().unwrap().0);
            stream.write_all(b"hello").unwrap();
            // Closes when the client has.
            std::thread::spawn(move || rest(&stream));
        }
    });
    let clients: Vec<_> = (0..COUNT).map(|_| connect(relay.at[0])).collect();
    let short = Some(Duration::from_millis(300));
    let served: Vec<_> = clients
        .iter()
        .filter(|c| {
            c.set_read_timeout(short).unwrap();
            let yes = greeted(c);
            c.set_read_timeout(Some(PATIENCE)).unwrap();
            yes
        })
        .map(|c| c.local_addr().unwrap())
        .collect();
    assert!((1..32).contains(&served.len()), "{} served", served.len());
    let (_, cpu) = resources(relay.pid());
    std::thread::sleep(Duration::from_secs(1));
    let (_, now) = resources(relay.pid());
    assert!(
        now - cpu <= 10,
        "{} ticks of 10 ms while waiting",
        now - cpu
    );
    // As clients leave, the others have their turn.
    for client in clients {
        if !served.contains(&client.local_addr().unwrap()) {
            assert!(greeted(&client));
        }
    }
    serve.join().unwrap();
    let (status, report, said) = relay.stop();
    assert!(status.success(), "{said}");
    assert!(number(&report, "accept_pauses") > 0);
    assert_eq!(number(&report, "connections"), COUNT as u64);
}

#[test]
fn asked_to_stop_it_lets_connections_finish_and_takes_no_new_ones() {
    let (server, at) = listener();
    let relay = Relay::local(at, &[]);
    // For as long as the test lasts; what asks whether there is a listener may come first.
    std::thread::spawn(move || {
        for stream in server.incoming() {
            let mut stream = patient(stream.unwrap());
            std::thread::spawn(move || stream.write_all(&rest(&stream)));
        }
    });
    let mut client = connect(relay.at[0]);
    client.write_all(b"one").unwrap();
    relay.terminate();
    eventually("it refuses new connections", || {
        TcpStream::connect(relay.at[0]).is_err()
    });
    client.write_all(b" two").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(rest(&client), b"one two");
    let (status, _, said) = relay.stop();
    assert!(status.success(), "{said}");
}

#[test]
fn connections_that_do_not_finish_are_reset_after_the_grace() {
    let (server, at) = listener();
    let relay = Relay::local(at, &["--grace", "300ms"]);
    let serve = greeter(server, 1);
    let client = connect(relay.at[0]);
    assert!(greeted(&client));
    let kept = serve.join().unwrap();
    let (status, report, said) = relay.stop();
    assert!(status.success(), "{said}");
    assert_eq!(number(&report, "resets"), 1);
    assert!(said.contains("for 1 connection to finish"), "{said}");
    assert!(was_reset(&client) && was_reset(&kept[0]));
}

#[test]
fn several_listeners_of_both_families() {
    let (server, at) = listener();
    let port = at.to_string();
    let relay = Relay::start(
        &[
            "--listen",
            "127.0.0.1:0",
            "--listen",
            "[::1]:0",
            "--listen",
            ":0",
            "--to",
            &port,
        ],
        |mut c| c.spawn(),
    );
    let serve = greeter(server, 4);
    assert!(greeted(&connect(relay.at[0])));
    assert!(greeted(&connect(relay.at[1])));
    // Every address, either family.
    let any = relay.at[2].port();
    assert!(greeted(&connect((Ipv4Addr::LOCALHOST, any).into())));
    assert!(greeted(&connect(format!("[::1]:{any}").parse().unwrap())));
    drop(serve.join().unwrap());
    let (_, report, _) = relay.stop();
    // Loopback is left alone unless asked for, as under alcc run.
    assert_eq!(
        (number(&report, "controlled"), number(&report, "left_alone")),
        (0, 4)
    );
}

#[test]
fn a_name_is_tried_address_by_address() {
    let (server, at) = listener();
    // Usually ::1 comes first, where nobody listens.
    let to = format!("localhost:{}", at.port());
    let relay = Relay::start(&["--listen", "127.0.0.1:0", "--to", &to], |mut c| c.spawn());
    let serve = greeter(server, 3);
    for _ in 0..3 {
        assert!(greeted(&connect(relay.at[0])));
    }
    drop(serve.join().unwrap());
    assert_eq!(number(&relay.stop().1, "connect_failed"), 0);
}

#[test]
fn outbound_controls_uploads_too() {
    let (server, at) = listener();
    let relay = Relay::local(at, &["--outbound", "--cc", "fixed:window=2"]);
    let serve = once(server, |stream| rest(&stream));
    let mut client = connect(relay.at[0]);
    client.write_all(&pattern(3_000_000)).unwrap();
    drop(client);
    assert!(serve.join().unwrap() == pattern(3_000_000));
    let (_, report, _) = relay.stop();
    assert_eq!(number(&report, "controlled"), 2);
    assert_eq!(number(&report, "controlled_bytes"), 3_000_000);
    assert!(number(&report, "gate_closed") > 0, "{report}");
}

#[test]
fn top_shows_its_connections_and_ctl_gives_them_orders() {
    let place = tempfile::tempdir().unwrap();
    let (server, at) = listener();
    let to = at.to_string();
    let relay = Relay::start(
        &[
            "--listen",
            "127.0.0.1:0",
            "--to",
            &to,
            "--loopback",
            "--cc",
            "fixed:window=2",
        ],
        |mut c| c.env("XDG_RUNTIME_DIR", place.path()).spawn(),
    );
    // Sends until the client leaves, who reads slowly.
    let serve = once(
        server,
        |mut stream| while stream.write_all(&pattern(100_000)).is_ok() {},
    );
    let mut client = connect(relay.at[0]);
    let peer = client.local_addr().unwrap().to_string();
    let (done, ended) = (
        Arc::new(AtomicBool::new(false)),
        Instant::now() + 3 * PATIENCE,
    );
    let asked = Arc::clone(&done);
    let reader = std::thread::spawn(move || {
        let mut buffer = vec![0; 65_536];
        while !asked.load(Ordering::Relaxed) && Instant::now() < ended {
            client.read_exact(&mut buffer).unwrap();
            std::thread::sleep(Duration::from_millis(2));
        }
    });
    // Other tests have theirs running, which are looked for in /tmp too.
    let pid = relay.pid().to_string();
    let alcc = |arguments: &[&str]| {
        let out = Command::new(env!("CARGO_BIN_EXE_alcc"))
            .args([arguments[0], "--run", &pid])
            .args(&arguments[1..])
            .env("XDG_RUNTIME_DIR", place.path())
            .output()
            .unwrap();
        assert!(out.status.success(), "{arguments:?}: {out:?}");
        String::from_utf8(out.stdout).unwrap()
    };
    let shows = |what: &str| {
        let table = alcc(&["top", "--once", "--json"]);
        table.contains(&peer) && table.contains(what)
    };
    eventually("top shows it", || shows("fixed:window=2"));
    assert!(shows("queue+pacing"));
    alcc(&["ctl", "cc", "fixed:window=3"]);
    eventually("another algorithm", || shows("fixed:window=3"));
    alcc(&["ctl", "off"]);
    eventually("off", || shows("\"state\":\"off\""));
    alcc(&["ctl", "on"]);
    eventually("on again", || !shows("\"state\":\"off\""));
    done.store(true, Ordering::Relaxed);
    reader.join().unwrap();
    serve.join().unwrap();
    let (status, report, said) = relay.stop();
    assert!(status.success(), "{said}");
    assert_eq!(number(&report, "failures"), 0);
    assert!(
        std::fs::read_dir(place.path().join("alcc"))
            .unwrap()
            .next()
            .is_none()
    );
}

#[test]
fn when_the_runtime_fails_relaying_goes_on() {
    let (server, at) = listener();
    let relay = Relay::local(at, &["--cc", "fixed:window=2", "--fault", "20"]);
    let serve = once(server, |mut stream| {
        stream.write_all(&pattern(30_000_000)).unwrap();
    });
    assert!(rest(&connect(relay.at[0])) == pattern(30_000_000));
    serve.join().unwrap();
    let (status, report, said) = relay.stop();
    assert!(status.success(), "{said}");
    assert_eq!(number(&report, "failures"), 1, "{said}");
    assert!(said.contains("went on as plain TCP"), "{said}");
}

#[test]
fn wrong_usage_is_one_line_and_status_2() {
    let (taken, at) = listener();
    let taken_at = taken.local_addr().unwrap().to_string();
    let to = at.to_string();
    for (listen, to, says) in [
        ("8443", &*to, "write :8443"),
        (":1x", &to, "write :8443"),
        (&taken_at, &to, "choose another port"),
        ("192.0.2.77:0", &to, "no address of this machine"),
        ("127.0.0.1:0", "nowhere.invalid:80", "check the name"),
        ("127.0.0.1:0", "localhost", "write host:port"),
    ] {
        let out = Command::new(env!("CARGO_BIN_EXE_alcc"))
            .args(["proxy", "--listen", listen, "--to", to])
            .output()
            .unwrap();
        let said = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(2), "{listen} {to}: {said}");
        assert!(said.contains(says), "{listen} {to}: {said}");
        let line = said.lines().next().unwrap();
        assert!(line.contains(listen) || line.contains(to), "{said}");
    }
}
