// SPDX-License-Identifier: Apache-2.0 OR MIT
use alcc_emu::{Dir, EmuReport, Emulator, Namespace, Observer, PathSpec, Subnet};
use alcc_link::{Direction, DropReason, Outcome, Packet};
use alcc_units::Time;
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

pub(crate) fn link(
    spec: PathSpec,
    observer: Box<dyn Observer + Send>,
) -> (Namespace, Namespace, Emulator) {
    let (outside, inside) = (Namespace::new().unwrap(), Namespace::new().unwrap());
    let link = Emulator::start(&outside, &inside, Subnet::default(), spec, observer).unwrap();
    (outside, inside, link)
}

/// Every packet that was read is accounted for.
pub(crate) fn accounted(report: &EmuReport) {
    for d in [&report.down, &report.up] {
        assert_eq!(
            d.read,
            d.delivered
                + d.lost
                + d.overflowed
                + d.aqm_dropped
                + d.store_full
                + d.write_failed
                + d.inside,
            "{d:?}"
        );
    }
}

pub(crate) fn socket(ns: &Namespace, addr: impl Into<std::net::IpAddr>) -> UdpSocket {
    let addr = SocketAddr::new(addr.into(), 0);
    let socket = ns.run(|| UdpSocket::bind(addr)).unwrap().unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(5)))
        .unwrap();
    socket
}

/// The shortest round trip of a small datagram from the inside, and the number of datagrams: repeated until one is
/// shorter than `enough`. Any other delay of a packet than the link's only adds to it.
pub(crate) fn best_round_trip(
    outside: &Namespace,
    inside: &Namespace,
    link: &Emulator,
    enough: Duration,
) -> (Duration, u64) {
    let (mut best, mut tried) = (Duration::MAX, 0);
    let (server, client) = (
        socket(outside, link.outside_addr()),
        socket(inside, link.inside_addr()),
    );
    let to = server.local_addr().unwrap();
    while best >= enough && tried < 300 {
        let start = Instant::now();
        client.send_to(b"?", to).unwrap();
        let mut buf = [0; 64];
        let (len, from) = server.recv_from(&mut buf).unwrap();
        server.send_to(&buf[..len], from).unwrap();
        client.recv_from(&mut buf).unwrap();
        best = best.min(start.elapsed());
        tried += 1;
    }
    (best, tried)
}

/// Sends datagrams of 1500 IP bytes from the inside, at about 24 Mbit/s for `span`, and some after them. Returns their
/// number when the last has arrived.
pub(crate) fn flood_up(
    outside: &Namespace,
    inside: &Namespace,
    link: &Emulator,
    duration: Duration,
) -> u64 {
    send(
        outside,
        inside,
        link,
        2_000,
        duration.as_millis() as u64 * 2,
    )
}

/// `n` datagrams from the inside, and some after them; returns how many, when the last has arrived.
pub(crate) fn send_up(outside: &Namespace, inside: &Namespace, link: &Emulator, n: u64) -> u64 {
    send(outside, inside, link, 10_000, n)
}

fn send(outside: &Namespace, inside: &Namespace, link: &Emulator, per_s: u64, n: u64) -> u64 {
    let (server, client) = (
        socket(outside, link.outside_addr()),
        socket(inside, link.inside_addr()),
    );
    let to = server.local_addr().unwrap();
    let start = Instant::now();
    for i in 0..n {
        let due = Duration::from_micros(i * 1_000_000 / per_s);
        if let Some(wait) = due.checked_sub(start.elapsed()) {
            std::thread::sleep(wait);
        }
        client.send_to(&[0; 1472], to).unwrap();
    }
    // Packets that arrive now come after all those, which have been read. Some of them may be lost, but one arrival
    // suffices.
    server.set_nonblocking(true).unwrap();
    let give_up = Instant::now() + Duration::from_secs(60);
    let (mut sent, mut comes) = (n, false);
    loop {
        assert!(Instant::now() < give_up, "nothing comes through");
        let mut packet = [0; 1472];
        packet[..8].copy_from_slice(&sent.to_be_bytes());
        client.send_to(&packet, to).unwrap();
        sent += 1;
        let patience = Duration::from_millis(if comes { 1000 } else { 20 });
        let (began, mut got) = (Instant::now(), [0; 1472]);
        while began.elapsed() < patience {
            match server.recv(&mut got) {
                Ok(_) if got == packet => return sent,
                Ok(_) => comes |= got[..8] != [0; 8],
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }
}

/// Keeps all events.
#[derive(Clone, Default)]
pub(crate) struct Events(Arc<Mutex<Vec<(Dir, Outcome)>>>);

impl Observer for Events {
    fn event(&mut self, dir: Dir, outcome: &Outcome, _: Time) {
        self.0.lock().unwrap().push((dir, *outcome));
    }
}

pub(crate) fn recorded(events: &Events, dir: Dir) -> Vec<Outcome> {
    let all = events.0.lock().unwrap();
    all.iter().filter(|(d, _)| *d == dir).map(|e| e.1).collect()
}

/// The outcomes of a model of the uplink for the packets of `seen`, each at its time, and then for a second. Those that
/// are lost at random never reach the bottleneck.
pub(crate) fn replay(mut model: Direction, seen: &[Outcome]) -> Vec<Outcome> {
    let arrivals = seen.iter().filter_map(|o| match *o {
        Outcome::Arrived { at, packet }
        | Outcome::Dropped {
            at,
            packet,
            why: DropReason::Loss,
        } => Some((at, packet)),
        _ => None,
    });
    let mut out = Vec::new();
    let mut last = Time::ZERO;
    for (at, packet) in arrivals {
        let packet: Packet = packet;
        model.push(at, packet, &mut out);
        last = at;
    }
    model.advance(last + alcc_units::Span::from_secs(1), &mut out);
    out
}

pub(crate) fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
}

pub(crate) fn devices(ns: &Namespace) -> String {
    ns.run(|| std::fs::read_to_string("/proc/thread-self/net/dev").unwrap())
        .unwrap()
}
