// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the runtime costs where the server's core is the limit: nginx pinned to one core, a veth pair without rate or delay, and
//! plain nginx against `alcc run` with a window that never binds. `ALCC_BENCH_PAIRS`, `ALCC_BENCH_SECONDS`: how often, how long.
#[path = "support/median.rs"]
mod median;
mod support;

use alcc_emu::{Namespace, Subnet, veth};
use alcc_lab::cpu;
use alcc_lab::server::Server;
use median::median;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::socket::{MsgFlags, recv};
use nix::unistd::Pid;
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};
use support::{Result, World, conclude, number, request};

/// A million segments: more than any kernel's send buffer holds.
const SCHEMES: [&str; 2] = ["cubic", "alcc-fixed:window=1000000"];
const ASKED: f64 = 0.90;
const SERVER_CORE: usize = 0;
const CLIENT_CORE: usize = 1;
const FILE_SIZE: usize = 128 << 20;
/// 12 GB per connection; older nginx ends a connection after 100 requests.
const REQUESTS: usize = 100;

fn pin(core: usize) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(core)?;
    sched_setaffinity(Pid::from_raw(0), &set)
        .map_err(|e| format!("pin to CPU {core} (two are needed): {e}").into())
}

/// Ticks of a core so far: all, and those in which it did nothing.
fn ticks(core: usize) -> Result<(u64, u64)> {
    let stat = std::fs::read_to_string("/proc/stat")?;
    let name = format!("cpu{core}");
    let line = stat
        .lines()
        .find(|l| l.split(' ').next() == Some(&name))
        .ok_or("no such core in /proc/stat")?;
    let fields: Vec<u64> = line
        .split_whitespace()
        .skip(1)
        .filter_map(|f| f.parse().ok())
        .collect();
    // user nice system idle iowait irq softirq steal; guest time is in user already
    let idle = fields.iter().skip(3).take(2).sum();
    Ok((fields.iter().take(8).sum(), idle))
}

struct Lane {
    server: Server,
    inside: Namespace,
    _outside: Namespace,
}

struct Measured {
    gbit_per_s: f64,
    core_busy: f64,
    server_share: f64,
}

impl Lane {
    /// Reads as fast as it can, first without measuring (slow start, page cache).
    fn download(&self, seconds: Duration) -> Result<Measured> {
        let mut stream = None;
        self.read(&mut stream, Duration::from_millis(500))?;
        let server = || cpu::of_tree(self.server.id()).ok_or("no /proc/*/schedstat");
        let (began, before, cpu_before) = (Instant::now(), ticks(SERVER_CORE)?, server()?);
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
            server_share: cpu_after.saturating_sub(cpu_before).as_secs_f64() / took,
        })
    }

    fn read(&self, stream: &mut Option<TcpStream>, time: Duration) -> Result<u64> {
        let mut buffer = vec![0; 1 << 20];
        let mut bytes = 0;
        let began = Instant::now();
        while began.elapsed() < time {
            let open = match stream.take() {
                Some(open) => open,
                None => request(
                    &self.inside,
                    Subnet::default().outside(),
                    REQUESTS,
                    FILE_SIZE,
                )?,
            };
            // TCP discards what is received with MSG_TRUNC instead of copying it: the client must not be the limit.
            let n = recv(open.as_raw_fd(), &mut buffer, MsgFlags::MSG_TRUNC)?;
            bytes += n as u64;
            if n > 0 {
                *stream = Some(open);
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
    for scheme in SCHEMES {
        let (outside, inside) = (Namespace::new()?, Namespace::new()?);
        veth(&outside, &inside, Subnet::default())?;
        let server = world.serve(&outside, scheme)?;
        lanes.push(Lane {
            server,
            inside,
            _outside: outside,
        });
    }
    pin(CLIENT_CORE)?;

    println!(
        "saturated: nginx on CPU {SERVER_CORE}, client on CPU {CLIENT_CORE}, veth; {} against {}; {pairs} pairs of 2 x {} s",
        SCHEMES[0],
        SCHEMES[1],
        seconds.as_secs()
    );
    println!(
        "  pair   plain Gbit/s (core busy, server's)     alcc Gbit/s (core busy, server's)   ratio"
    );
    let (mut ratios, mut least_busy) = (Vec::new(), f64::INFINITY);
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
        least_busy = least_busy.min(plain.core_busy).min(ours.core_busy);
    }
    let (min, max) = ratios.iter().fold((f64::INFINITY, 0.0f64), |(lo, hi), r| {
        (lo.min(*r), hi.max(*r))
    });
    println!(
        "  median ratio {:.3} (min {min:.3}, max {max:.3}); asked: at least {ASKED:.2}",
        median(&ratios)
    );
    if least_busy < 0.95 {
        println!(
            "  not to be trusted: the server's core was only {:.0} % busy, so it was not the limit",
            least_busy * 100.0
        );
    }
    let report = conclude(lanes.remove(1).server)?;
    println!(
        "  the gate closed {} times (0: the window never bound); {} readings; runtime {:.3} CPU s",
        report.gate_closed, report.readings, report.runtime_cpu_s
    );
    Ok(())
}
