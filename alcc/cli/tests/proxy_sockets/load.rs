// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Many connections, stalled clients, too few descriptors: memory and CPU stay bounded.
use super::*;

/// Raises the limit of descriptors to `wanted`, because both ends of all connections are in this process.
fn descriptors(wanted: u64) -> bool {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    if hard < wanted {
        println!("skipped: needs {wanted} descriptors, the hard limit is {hard}");
        return false;
    }
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
    true
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
                _ => reset(stream),
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
            1 => reset(client),
            _ => drop(client),
        }
    };
    (0..300).for_each(one);
    wait_for("the first are gone", || descriptors() < 40);
    let (before, (mut memory, _)) = (descriptors(), resources(relay.pid()));
    let (mut count, mut grown) = (300, Vec::new());
    // The allocator takes more pages while many are there at once, but not again and again.
    while grown.last().is_none_or(|bytes| *bytes >= 100) && grown.len() < 3 {
        (count..count + COUNT).for_each(one);
        count += COUNT;
        wait_for("all are gone", || descriptors() <= before);
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
    // Written in rounds, until no more is accepted.
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
        // The limit of one address is not the matter here.
        &[
            "--listen",
            "127.0.0.1:0",
            "--to",
            &to,
            "--threads",
            "1",
            "--per-client",
            "1000",
        ],
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
    // Before those that are served have been silent for a second.
    let short = Some(Duration::from_millis(20));
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
    assert!(!served.is_empty());
    let (_, cpu) = resources(relay.pid());
    std::thread::sleep(Duration::from_secs(1));
    let (_, now) = resources(relay.pid());
    assert!(
        now - cpu <= 10,
        "{} ticks of 10 ms while waiting",
        now - cpu
    );
    // As clients leave or have been silent for longest, the others have their turn.
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

/// A relay with 80 places, and its server, which greets everybody.
fn of_eighty_places(options: &[&str]) -> Relay {
    let (server, at) = listener();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = server.accept() {
            drop(stream.write_all(b"hello"));
            std::thread::spawn(move || {
                let mut byte = [0];
                while matches!(stream.read(&mut byte), Ok(1)) {
                    drop(stream.write_all(&byte));
                }
            });
        }
    });
    let to = at.to_string();
    let mut all = vec!["--listen", "127.0.0.1:0", "--to", &to, "--threads", "1"];
    all.extend(options);
    Relay::start(&all, |command| {
        let mut limited = Command::new("sh");
        limited
            .args(["-c", "ulimit -n 196; exec \"$0\" \"$@\""])
            .arg(command.get_program())
            .args(command.get_args())
            .stderr(std::process::Stdio::piped());
        limited.spawn()
    })
}

/// A client with an address of its own.
fn client_of(host: u8, at: SocketAddr) -> TcpStream {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let from = SocketAddr::from(([127, 0, 7, host], 0));
    socket.bind(&from.into()).unwrap();
    socket.connect(&at.into()).unwrap();
    patient(socket.into())
}

/// 150 silent connections of one address: they hold half of the places, and none that others need.
#[test]
fn one_client_does_not_keep_the_others_out() {
    let relay = of_eighty_places(&[]);
    let silent: Vec<_> = (0..150).map(|_| client_of(1, relay.at[0])).collect();
    let others: Vec<_> = (2..30).map(|host| client_of(host, relay.at[0])).collect();
    assert!(others.iter().all(greeted));
    // The newest of the first client are served, too: its oldest made room.
    assert!(greeted(&silent[149]) && was_reset_after_greeting(&silent[0]));
    drop((silent, others));
    let (_, report, said) = relay.stop();
    // In a burst, those that still wait for their loop count: then a new one is refused instead.
    let closed = number(&report, "silent") + number(&report, "turned_away");
    assert!(closed >= 110, "{closed}: {said}");
    assert!(number(&report, "peak") <= 80, "{said}");
}

fn was_reset_after_greeting(client: &TcpStream) -> bool {
    let mut stream = client;
    let mut all = [0; 16];
    loop {
        match stream.read(&mut all) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(e) => return e.kind() == ErrorKind::ConnectionReset,
        }
    }
}

/// Many addresses fill all places. The client that is silent longest is closed, and active ones stay.
#[test]
fn when_all_places_are_taken_the_longest_silent_goes() {
    let relay = of_eighty_places(&[]);
    let mut speaks = client_of(1, relay.at[0]);
    assert!(greeted(&speaks));
    let many: Vec<_> = (2..90).map(|host| client_of(host, relay.at[0])).collect();
    // The last of them wait in the backlog until others have been silent for a second.
    for client in &many[70..] {
        speaks.write_all(b"x").unwrap();
        speaks.read_exact(&mut [0]).unwrap();
        assert!(greeted(client));
    }
    speaks.write_all(b"x").unwrap();
    speaks.read_exact(&mut [0]).unwrap();
    assert!(was_reset_after_greeting(&many[0]));
    drop((many, speaks));
    let (_, report, said) = relay.stop();
    assert!(number(&report, "silent") > 0, "{said}");
}

#[test]
fn silence_ends_after_the_time_allowed() {
    let relay = of_eighty_places(&["--idle", "1s"]);
    let client = client_of(1, relay.at[0]);
    assert!(greeted(&client));
    assert!(was_reset_after_greeting(&client));
    let (_, report, said) = relay.stop();
    assert_eq!(number(&report, "silent"), 1, "{said}");
}
