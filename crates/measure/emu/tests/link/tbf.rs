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
/// What may wait, in packets.
const ROOM: u64 = 30;
/// Sent at once: more than there is room for.
const TRAIN: u64 = 60;
/// The kernel counts the Ethernet header, too.
const FRAME: u64 = 1514;

/// When the packets of a train arrived, by number.
struct Out(Vec<(u64, Instant)>);

impl Out {
    /// From the second to the last: the first may have passed on tokens.
    fn spacing_ms(&self) -> f64 {
        let times = &self.0[1..];
        let whole = times[times.len() - 1].1 - times[0].1;
        whole.as_secs_f64() * 1e3 / (times.len() - 1) as f64
    }

    fn median_gap_ms(&self) -> f64 {
        let gaps = self.0[1..]
            .windows(2)
            .map(|w| (w[1].1 - w[0].1).as_secs_f64() * 1e3);
        let mut gaps: Vec<f64> = gaps.collect();
        gaps.sort_by(f64::total_cmp);
        gaps[gaps.len() / 2]
    }
}

/// Sends the train between two namespaces, or within one.
fn train(from: (&Namespace, IpAddr), to: (&Namespace, IpAddr)) -> Out {
    let bind = |(ns, addr): (&Namespace, IpAddr)| {
        let bound = ns.run(|| UdpSocket::bind(SocketAddr::new(addr, 0)));
        bound.unwrap().unwrap()
    };
    let (sender, receiver) = (bind(from), bind(to));
    receiver
        .set_read_timeout(Some(Duration::from_millis(500)))
        .unwrap();
    let target = receiver.local_addr().unwrap();
    let mut packet = [0; 1472];
    for id in 0..TRAIN {
        packet[..8].copy_from_slice(&id.to_be_bytes());
        sender.send_to(&packet, target).unwrap();
    }
    let mut seen = Vec::new();
    while receiver.recv(&mut packet).is_ok() {
        let id = u64::from_be_bytes(packet[..8].try_into().unwrap());
        seen.push((id, Instant::now()));
    }
    Out(seen)
}

/// What the kernel's filter lets through, on the loopback of a namespace; `None` where it is not to
/// be had.
fn kernel() -> Option<Out> {
    let ns = Namespace::new().unwrap();
    let run = |program: &str, args: String| {
        let mut command = Command::new(program);
        command.args(args.split(' ')).stderr(Stdio::null());
        // /sbin is on nobody's path
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
    Some(train((&ns, lo), (&ns, lo)))
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
    let ours = train(
        (&outside, link.outside_addr().into()),
        (&inside, link.inside_addr().into()),
    );
    let told = format!(
        "kernel {} packets, {:.3} ms apart; ours {}, {:.3} ms",
        kernel.0.len(),
        kernel.spacing_ms(),
        ours.0.len(),
        ours.spacing_ms()
    );
    println!("{told}");
    // One passes at once (tokens; the packet in service), 30 wait; one more for each 12 ms that the
    // sending takes. A busy machine may read the last one late by as much as two or three packets.
    for out in [&kernel, &ours] {
        assert!((31..=40).contains(&out.0.len()), "{told}");
        let ids: Vec<u64> = out.0.iter().map(|o| o.0).collect();
        assert_eq!(ids[..31], (0..31).collect::<Vec<_>>(), "{told}");
        assert!((out.spacing_ms() - 12.0).abs() < 1.0, "{told}");
        assert!((out.median_gap_ms() - 12.0).abs() < 1.0, "{told}");
    }
    assert!(kernel.0.len().abs_diff(ours.0.len()) <= 6, "{told}");
}
