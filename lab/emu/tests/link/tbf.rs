// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel's token bucket filter beside our link of a fixed rate: the same packets, what comes
//! out and when.
use crate::support;
use alcc_emu::{Namespace, PathSpec};
use alcc_link::{DirectionSpec, RateSpec};
use alcc_units::{Bytes, Rate};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// 12 ms for each packet of 1500 IP bytes.
const RATE: Rate = Rate::mbps(1);
/// Size of the queue, packets.
const ROOM: u64 = 30;
/// Sent at once: more than there is room for.
const TRAIN: u64 = 60;
/// The kernel counts the Ethernet header, too.
const FRAME: u64 = 1514;

/// Maximum number of trains: the earliest arrival of each packet counts, because a busy machine can only delay it.
const TRAINS: usize = 15;

/// Arrival times of the packets of a train after the sending of its first, by number.
struct Out {
    seen: Vec<(u64, Duration)>,
    /// Time for sending all of them.
    sending: Duration,
}

impl Out {
    /// One passes at once (tokens; the packet in service), 30 wait; one more for each 12 ms that the
    /// sending takes.
    fn is_right(&self) -> bool {
        let room = ROOM + 1;
        let more = (self.sending.as_secs_f64() / GAP).ceil() as u64 + 2;
        let ids = self.seen.iter().map(|o| o.0);
        (room..=room + more).contains(&(self.seen.len() as u64))
            && ids.take(room as usize).eq(0..room)
    }
}

/// s.
const GAP: f64 = 0.012;

/// The earliest arrivals of some trains, s.
struct Earliest(Vec<f64>);

impl Earliest {
    fn add(&mut self, train: &Out) {
        let mut at = train.seen.iter().map(|o| o.1.as_secs_f64());
        for earliest in &mut self.0 {
            *earliest = earliest.min(at.next().unwrap());
        }
    }

    /// From the second to the last: the first may have passed on tokens.
    fn spacing_ms(&self) -> f64 {
        let times = &self.0[1..];
        (times[times.len() - 1] - times[0]) * 1e3 / (times.len() - 1) as f64
    }

    fn median_gap_ms(&self) -> f64 {
        let mut gaps: Vec<f64> = self.0[1..]
            .windows(2)
            .map(|w| (w[1] - w[0]) * 1e3)
            .collect();
        gaps.sort_by(f64::total_cmp);
        gaps[gaps.len() / 2]
    }

    fn is_right(&self) -> bool {
        [self.spacing_ms(), self.median_gap_ms()]
            .iter()
            .all(|ms| (ms - GAP * 1e3).abs() < 1.0)
    }
}

/// Sends trains until their earliest arrivals are sufficient.
fn trains(from: (&Namespace, IpAddr), to: (&Namespace, IpAddr)) -> Earliest {
    let mut earliest = Earliest(vec![f64::MAX; ROOM as usize + 1]);
    for n in 1..=TRAINS {
        let out = train(from, to);
        assert!(out.is_right(), "train {n}: {:?}", out.seen);
        earliest.add(&out);
        if earliest.is_right() {
            break;
        }
        println!("train {n}: {:.3} ms apart", earliest.spacing_ms());
    }
    earliest
}

/// Sends the train between two namespaces, or within one.
fn train(from: (&Namespace, IpAddr), to: (&Namespace, IpAddr)) -> Out {
    let bind = |(ns, addr): (&Namespace, IpAddr)| {
        let bound = ns.run(|| UdpSocket::bind(SocketAddr::new(addr, 0)));
        bound.unwrap().unwrap()
    };
    let (sender, receiver) = (bind(from), bind(to));
    receiver
        .set_read_timeout(Some(Duration::from_secs(1)))
        .unwrap();
    let target = receiver.local_addr().unwrap();
    let mut packet = [0; 1472];
    let began = Instant::now();
    for id in 0..TRAIN {
        packet[..8].copy_from_slice(&id.to_be_bytes());
        sender.send_to(&packet, target).unwrap();
    }
    let sending = began.elapsed();
    let mut seen = Vec::new();
    while receiver.recv(&mut packet).is_ok() {
        let id = u64::from_be_bytes(packet[..8].try_into().unwrap());
        seen.push((id, began.elapsed()));
    }
    Out { seen, sending }
}

/// The arrival times with the kernel's filter, on the loopback of a namespace; `None` if it is not available.
fn kernel() -> Option<Earliest> {
    let ns = Namespace::new().unwrap();
    let run = |program: &str, args: String| {
        let mut command = Command::new(program);
        command.args(args.split(' ')).stderr(Stdio::null());
        // /sbin is not on the path of an ordinary user
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
        ns.spawn(command)
            .is_ok_and(|mut c| c.wait().unwrap().success())
    };
    let bits = RATE.as_bps() * FRAME / 1500;
    let room = ROOM * FRAME;
    let tbf = format!("qdisc add dev lo root tbf rate {bits}bit burst 1600 limit {room}");
    if !run("ip", "link set lo up".to_owned()) || !run("tc", tbf) {
        return None;
    }
    let lo = IpAddr::V4(Ipv4Addr::LOCALHOST);
    Some(trains((&ns, lo), (&ns, lo)))
}

pub(crate) fn a_fixed_rate_is_that_of_the_kernels_token_bucket() {
    let Some(kernel) = kernel() else {
        println!("skipped: needs tc (iproute2) and the kernel's tbf");
        assert!(std::env::var_os("CI").is_none(), "CI must have tc");
        return;
    };
    let down = DirectionSpec {
        rate: RateSpec::Fixed(RATE),
        queue: alcc_link::QueueSpec::droptail(Bytes::new(ROOM * 1500)),
        ..DirectionSpec::default()
    };
    let spec = PathSpec {
        down,
        ..PathSpec::default()
    };
    let (outside, inside, link) = support::link(spec, Box::new(alcc_emu::Silent));
    let ours = trains(
        (&outside, link.outside_addr().into()),
        (&inside, link.inside_addr().into()),
    );
    let told = format!(
        "kernel {:.3} ms apart, ours {:.3} ms",
        kernel.spacing_ms(),
        ours.spacing_ms()
    );
    println!("{told}");
    assert!(kernel.is_right() && ours.is_right(), "{told}");
}
