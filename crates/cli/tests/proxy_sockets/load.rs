// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Many connections, stalled clients, too few descriptors: memory and CPU stay bounded.
use super::*;

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
