// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Actions of one end on its connection reach the other end.
use super::*;

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
    // Whether the window ever closed depends on scheduling, because loopback acknowledges at once.
    assert_eq!(number(&report, "controlled_bytes"), 2_000_000);
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
fn urgent_data_arrives_in_its_place() {
    use nix::sys::socket::{MsgFlags, send};
    use std::os::fd::AsRawFd;
    let (server, at) = listener();
    let relay = Relay::local(at, &[]);
    let serve = once(server, |stream| rest(&stream));
    let client = connect(relay.at[0]);
    for (bytes, flags) in [("abc", 0), ("!", libc::MSG_OOB), ("def", 0)] {
        let flags = MsgFlags::from_bits_retain(flags);
        send(client.as_raw_fd(), bytes.as_bytes(), flags).unwrap();
    }
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(serve.join().unwrap(), b"abc!def");
    relay.stop();
}

#[test]
fn a_reset_of_the_client_reaches_the_server() {
    let (server, at) = listener();
    let relay = Relay::local(at, &[]);
    let (tell, told) = std::sync::mpsc::channel();
    let serve = once(server, move |mut stream| {
        let mut hello = [0; 5];
        stream.read_exact(&mut hello).unwrap();
        tell.send(()).unwrap();
        was_reset(&stream)
    });
    let mut client = connect(relay.at[0]);
    client.write_all(b"hello").unwrap();
    // The server must have read it: a reset may overtake what is not read.
    told.recv_timeout(PATIENCE).unwrap();
    reset(client);
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
        wait_for("the acknowledgement of all", || {
            unacknowledged(&stream) == 0
        });
        reset(stream);
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
        // Until no more is accepted.
        stream
            .set_write_timeout(Some(Duration::from_millis(500)))
            .unwrap();
        while stream.write(&pattern(100_000)).is_ok() {}
        reset(stream);
    });
    let client = connect(relay.at[0]);
    serve.join().unwrap();
    let start = Instant::now();
    let (status, report, _) = relay.stop();
    assert!(status.success() && start.elapsed() < Duration::from_secs(20));
    assert_eq!(number(&report, "resets"), 1);
    drop(client);
}

/// As root it runs in a network namespace whose only ephemeral port is the server's: the kernel then connects the relay's
/// socket to itself.
#[test]
fn a_server_that_is_down_resets_the_client_and_serves_the_next_one_when_it_is_up() {
    let alone = nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).is_ok();
    let ports = |from, to| {
        let range = format!("{from} {to}");
        alone.then(|| std::fs::write("/proc/sys/net/ipv4/ip_local_port_range", range).unwrap());
    };
    if alone {
        let up = Command::new("ip")
            .args(["link", "set", "lo", "up"])
            .status();
        assert!(up.unwrap().success());
    }
    let (server, at) = listener();
    drop(server);
    let relay = Relay::local(at, &[]);
    ports(at.port(), at.port());
    assert!(was_reset(&connect(relay.at[0])));
    ports(32_768, 60_999);
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
    // A full backlog does not answer.
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
    wait_for("the server is stopped", || {
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
