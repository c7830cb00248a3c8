// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The readings of a trial on this machine's kernel. Its control is one of the kernel's own, Reno.
#![cfg(feature = "loader")]
#[path = "support/mod.rs"]
mod controls;
#[path = "../../cli/tests/support/starts.rs"]
mod starts;

use alcc_bpf::{BpfError, Selection, TransferEnd, Trial, all_cgroups, within};
use nix::sys::resource::{Resource, UsageWho, getrusage, setrlimit};
use nix::sys::time::TimeValLike;
use starts::first_right;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A trial of this port. `None`, and said: this machine cannot.
fn trial(port: u16) -> Option<Trial> {
    let selection = Selection {
        port: Some(port),
        share: Some("50%@1".parse().unwrap()),
        ..Selection::default()
    };
    let cgroup = all_cgroups().unwrap_or_default();
    match Trial::begin(&selection, &cgroup, &"reno".into()) {
        Err(why @ (BpfError::Forbidden { .. } | BpfError::NoBtf | BpfError::NoCgroup { .. })) => {
            println!("skipped: {why}");
            None
        }
        begun => Some(begun.unwrap()),
    }
}

fn listen(port: u16) -> TcpListener {
    TcpListener::bind(("127.0.0.1", port)).unwrap()
}

fn port_of(listener: &TcpListener) -> u16 {
    listener.local_addr().unwrap().port()
}

/// The ends of the client and of the server.
fn connect(listener: &TcpListener) -> (TcpStream, TcpStream) {
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (client, listener.accept().unwrap().0)
}

/// Writes until no buffer has room, so that bytes stay in flight.
fn fill(mut socket: &TcpStream) {
    socket.set_nonblocking(true).unwrap();
    while socket.write(&[7; 1 << 16]).is_ok() {}
}

/// The ends since the last call, up to the end of `closed` connections.
fn ends(trial: &Trial, closed: usize) -> Vec<TransferEnd> {
    let until = Instant::now() + Duration::from_secs(20);
    let mut ends = Vec::new();
    while ends.iter().filter(|end: &&TransferEnd| end.closed).count() < closed {
        assert!(Instant::now() < until, "{ends:?}");
        ends.extend(trial.ends());
    }
    ends
}

/// A process in another network namespace.
struct Elsewhere(Child);

impl Elsewhere {
    /// `None`, and said: this machine cannot.
    fn new() -> Option<Self> {
        let process = Command::new("unshare")
            .args(["-n", "sh", "-c"])
            .arg("ip link set lo up && echo && exec sleep 600")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut place = Self(process);
        let mut ready = place.0.stdout.take().unwrap();
        if ready.read(&mut [0]).unwrap() == 0 {
            println!("skipped: needs the right to create network namespaces");
            return None;
        }
        Some(place)
    }

    fn run<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        within(&[self.0.id()], act).unwrap()
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[test]
fn reads_every_network_namespace_and_counts_what_ends_between_readings() {
    let _alone = controls::controls_alone();
    let here = listen(0);
    let port = port_of(&here);
    let Some(place) = Elsewhere::new() else {
        return;
    };
    let there = place.run(|| listen(port));
    let Some(mut trial) = trial(port) else {
        return;
    };
    assert_eq!(trial.readings().unwrap(), []);

    let open = [connect(&here), place.run(|| connect(&there))];
    open.iter().for_each(|(_, server)| fill(server));
    let readings = trial.readings().unwrap();
    assert_eq!(readings.len(), 2, "{readings:?}");
    assert!(readings.iter().all(|reading| reading.in_flight > 0));
    let early = trial.ends();
    let counters = early.iter().map(|end| &end.counters).chain(&readings);
    let first = counters.filter(|counters| counters.is_first).count();
    assert_eq!(first, 2, "{early:?}, {readings:?}");
    let began = Instant::now();
    let again = trial.readings().unwrap();
    println!("two namespaces: read in {:?}", began.elapsed());
    assert_eq!(again.len(), 2, "{again:?}");
    assert!(again.iter().all(|reading| !reading.is_first));

    for connection in [connect(&here), place.run(|| connect(&there))] {
        let (mut client, mut server) = connection;
        server.write_all(&[7; 50_000]).unwrap();
        client.read_exact(&mut [0; 50_000]).unwrap();
        drop(server);
        drop(client);
        let ended = ends(&trial, 1).pop().unwrap().counters;
        // The end of the stream may count as a byte.
        assert!((50_000..=50_001).contains(&ended.acked), "{ended:?}");
        assert_eq!(ended.in_flight, 0);
    }

    drop(open);
    ends(&trial, 2);
    assert_eq!(trial.readings().unwrap(), []);
}

/// A reading visits every socket of the network namespace.
#[test]
fn reads_beside_ten_thousand_sockets_within_20_ms_of_cpu() {
    const CONNECTIONS: usize = 5_000;
    let _alone = controls::controls_alone();
    // Root may raise its own limit.
    let most = 2 * CONNECTIONS as u64 + 100;
    if setrlimit(Resource::RLIMIT_NOFILE, most, most).is_err() {
        println!("skipped: needs {most} descriptors");
        return;
    }
    let server = listen(0);
    let Some(mut trial) = trial(port_of(&server)) else {
        return;
    };
    let all: Vec<_> = (0..CONNECTIONS).map(|_| connect(&server)).collect();
    all.iter().take(10).for_each(|(_, server)| fill(server));
    let cpu = || {
        let used = getrusage(UsageWho::RUSAGE_THREAD).unwrap();
        let micros = used.user_time().num_microseconds() + used.system_time().num_microseconds();
        micros as f64 / 1e3
    };
    let measure = || {
        let (began, cpu_before) = (Instant::now(), cpu());
        let changed = trial.readings().unwrap().len();
        let (took, cpu_ms) = (began.elapsed(), cpu() - cpu_before);
        println!("{CONNECTIONS} connections, {changed} changed: {cpu_ms:.1} ms of CPU in {took:?}");
        // Their bytes stay in flight.
        assert!(changed >= 10, "{changed}");
        cpu_ms
    };
    first_right(5, measure, |ms| *ms < 20.0 || controls::slow_machine());
}
