// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Listeners, targets, `alcc top` and `alcc ctl`, failures, and the end of the program.
use super::*;

#[test]
fn asked_to_stop_it_lets_connections_finish_and_takes_no_new_ones() {
    let (server, at) = listener();
    let relay = Relay::local(at, &[]);
    // For as long as the test lasts; the check for a listener may come first.
    std::thread::spawn(move || {
        for stream in server.incoming() {
            let mut stream = patient(stream.unwrap());
            std::thread::spawn(move || stream.write_all(&rest(&stream)));
        }
    });
    let mut client = connect(relay.at[0]);
    client.write_all(b"one").unwrap();
    relay.terminate();
    wait_for("it refuses new connections", || {
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
    // Loopback is not controlled unless requested, as under alcc run.
    assert_eq!(
        (number(&report, "controlled"), number(&report, "left_alone")),
        (0, 4)
    );
}

#[test]
fn a_name_is_tried_address_by_address() {
    let (server, at) = listener();
    // Usually ::1 comes first, which has no listener.
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
    // Sends until the client, which reads slowly, leaves.
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
    wait_for("top shows it", || shows("fixed:window=2"));
    assert!(shows("queue+pacing"));
    alcc(&["ctl", "cc", "fixed:window=3"]);
    wait_for("another algorithm", || shows("fixed:window=3"));
    alcc(&["ctl", "off"]);
    wait_for("off", || shows("\"state\":\"off\""));
    alcc(&["ctl", "on"]);
    wait_for("on again", || !shows("\"state\":\"off\""));
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
    assert!(said.contains("continued as plain TCP"), "{said}");
    // A reader of the proxy's messages that is late must not stop it by a full pipe.
    assert_eq!(said.matches("internal error").count(), 1, "{said}");
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
        ("192.0.2.77:0", &to, "not an address of this machine"),
        ("127.0.0.1:0", "nowhere.invalid:80", "check the name"),
        (
            "127.0.0.1:0",
            "localhost",
            "is not HOST:PORT: write example.net:443",
        ),
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
