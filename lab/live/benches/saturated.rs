// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CPU cost of the runtime if the server's core is the limit: nginx pinned to one core, a veth pair
//! without rate or delay, and plain nginx against `alcc run` with a window that never limits.
//! `ALCC_BENCH_SCHEMES` names others, the first being the baseline: `cubic,alcc_copa` after `alcc
//! bpf load`. `ALCC_BENCH_PAIRS`: number of pairs; `ALCC_BENCH_SECONDS`: length of each, s.
#[path = "support/core.rs"]
mod core;
#[path = "support/median.rs"]
mod median;
mod support;

use crate::core::{pin, ticks, waited};
use alcc_emu::{Namespace, Subnet, veth};
use alcc_live::cpu;
use alcc_live::server::Server;
use median::median;
use nix::sys::socket::{MsgFlags, recv};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};
use support::{Result, World, conclude, is_ours, number, request, schemes, under};

/// A million segments: more than any kernel's send buffer holds.
const SCHEMES: &str = "cubic,fixed:window=1000000/over=cubic";
const ASKED: f64 = 0.90;
const SERVER_CORE: usize = 0;
const CLIENT_CORE: usize = 1;
const FILE_SIZE: usize = 128 << 20;
/// 13 GB, then another connection; older nginx ends one after 100 requests itself.
const REQUESTS: usize = 100;

struct Lane {
    server: Server,
    inside: Namespace,
    _outside: Namespace,
}

struct Measured {
    gbit_per_s: f64,
    core_busy: f64,
    server_share: f64,
    /// Time during which the client was ready and others had its core: they are the limit then.
    client_waited: f64,
}

impl Lane {
    /// Reads as fast as it can, first without measuring (slow start, page cache).
    fn download(&self, seconds: Duration) -> Result<Measured> {
        let mut stream = None;
        self.read(&mut stream, Duration::from_millis(500))?;
        let server = || cpu::of_tree(self.server.id()).ok_or("no /proc/*/schedstat");
        let (before, cpu_before, waited_before) = (ticks(SERVER_CORE)?, server()?, waited()?);
        let began = Instant::now();
        let bytes = self.read(&mut stream, seconds)?;
        let (took, after, cpu_after) = (
            began.elapsed().as_secs_f64(),
            ticks(SERVER_CORE)?,
            server()?,
        );
        let (all, idle) = (after.0 - before.0, after.1 - before.1);
        Ok(Measured {
            gbit_per_s: bytes as f64 * 8e-9 / took,
            core_busy: 1.0 - idle as f64 / all as f64,
            client_waited: (waited()? - waited_before) as f64 * 1e-9 / took,
            server_share: cpu_after.saturating_sub(cpu_before).as_secs_f64() / took,
        })
    }

    fn read(&self, stream: &mut Option<(TcpStream, u64)>, time: Duration) -> Result<u64> {
        let mut buffer = vec![0; 1 << 20];
        let mut bytes = 0;
        let began = Instant::now();
        while began.elapsed() < time {
            let server = Subnet::default().outside();
            let (open, remaining) = match stream.take() {
                Some(open) => open,
                None => (
                    request(&self.inside, server, REQUESTS, FILE_SIZE)?,
                    (REQUESTS * FILE_SIZE) as u64,
                ),
            };
            // TCP discards what is received with MSG_TRUNC instead of copying it: the client must
            // not be the limit.
            let n = recv(open.as_raw_fd(), &mut buffer, MsgFlags::MSG_TRUNC)? as u64;
            bytes += n;
            if n > 0 && n < remaining {
                *stream = Some((open, remaining - n));
            }
        }
        Ok(bytes)
    }
}

fn main() -> Result<()> {
    let pairs = number("ALCC_BENCH_PAIRS", 10)?;
    let seconds = Duration::from_secs(number("ALCC_BENCH_SECONDS", 3)?);
    let mut world = World::new(FILE_SIZE)?;
    // Threads and programs inherit it: servers from here on, then the client.
    pin(SERVER_CORE)?;
    let mut lanes = Vec::new();
    let schemes = schemes(SCHEMES);
    for scheme in &schemes {
        let (outside, inside) = (Namespace::new()?, Namespace::new()?);
        let net = Subnet::default();
        veth(&outside, &inside, net)?;
        under(&outside, net.outside(), net.inside(), scheme)?;
        let server = world.serve(&outside, scheme)?;
        lanes.push(Lane {
            server,
            inside,
            _outside: outside,
        });
    }
    pin(CLIENT_CORE)?;

    for (scheme, lane) in schemes.iter().zip(&lanes).skip(1) {
        println!(
            "saturated: nginx on CPU {SERVER_CORE}, client on CPU {CLIENT_CORE}, veth; {} against {scheme}; {pairs} pairs of 2 x {} s",
            schemes[0],
            seconds.as_secs()
        );
        compare([&lanes[0], lane], pairs, seconds)?;
    }
    for (scheme, lane) in schemes
        .iter()
        .zip(lanes)
        .filter(|(scheme, _)| is_ours(scheme))
    {
        let report = conclude(lane.server)?;
        println!(
            "  {scheme}: the gate closed {} times (0: the window never bound); {} readings; runtime {:.3} CPU s",
            report.gate_closed, report.readings, report.runtime_cpu_s
        );
    }
    Ok(())
}

fn compare(lanes: [&Lane; 2], pairs: u64, seconds: Duration) -> Result<()> {
    println!(
        "  pair   plain Gbit/s (core busy, server's)     alcc Gbit/s (core busy, server's)   ratio"
    );
    let (mut ratios, mut work) = (Vec::new(), Vec::new());
    let (mut not_limit, mut disturbed) = (0, 0);
    for pair in 1..=pairs {
        // Whoever goes first goes second next time: what drifts cancels out.
        let (first, second) = if pair % 2 == 1 { (0, 1) } else { (1, 0) };
        let (a, b) = (
            lanes[first].download(seconds)?,
            lanes[second].download(seconds)?,
        );
        let (plain, ours) = if first == 0 { (a, b) } else { (b, a) };
        let ratio = ours.gbit_per_s / plain.gbit_per_s;
        let show = |m: &Measured| {
            format!(
                "{:12.2} ({:3.0} %, {:3.0} %)",
                m.gbit_per_s,
                m.core_busy * 100.0,
                m.server_share * 100.0
            )
        };
        println!(
            "  {pair:4}   {}   {}   {ratio:.3}",
            show(&plain),
            show(&ours)
        );
        ratios.push(ratio);
        work.push(ratio * plain.server_share / ours.server_share);
        let either = |is: fn(&Measured) -> bool| u32::from(is(&plain) || is(&ours));
        not_limit += either(|m| m.core_busy < 0.95);
        disturbed += either(|m| m.core_busy - m.server_share > 0.1 || m.client_waited > 0.05);
    }
    let (min, max) = ratios.iter().fold((f64::INFINITY, 0.0f64), |(lo, hi), r| {
        (lo.min(*r), hi.max(*r))
    });
    println!(
        "  median ratio {:.3} (min {min:.3}, max {max:.3}); asked: at least {ASKED:.2}",
        median(&ratios)
    );
    println!(
        "  the same per CPU second of the server (other programs matter less to it): median ratio {:.3}",
        median(&work)
    );
    if not_limit + disturbed > 0 {
        println!(
            "  goodput is not to be trusted: in {not_limit} pairs the server's core was not the limit (under 95 % busy), in {disturbed} other programs had a part of the cores"
        );
    }
    Ok(())
}
