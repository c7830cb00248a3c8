// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Time that `alcc attach` takes for a server with thousands of connections, from its start to its
//! end: the BPF programs are loaded in that time. `cargo bench -p alcc-live --bench attach`, as root,
//! after `alcc bpf load`. The connections are in a network namespace of their own, over loopback,
//! and some of them send all the time. Afterwards the kernel's list of sockets (what `ss` shows)
//! says whether one was missed.
//!
//! `ALCC_BENCH_CONNECTIONS`, `ALCC_BENCH_SENDERS`, `ALCC_BENCH_ROUNDS`: how many, how often;
//! `ALCC_BENCH_CC`: which algorithm of the kernel.
#[path = "support/descriptors.rs"]
mod descriptors;
#[path = "support/median.rs"]
mod median;
mod support;

use alcc_emu::Namespace;
use alcc_sys::{Sockets, TcpSocket};
use median::median;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use nix::unistd::geteuid;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use support::{Result, World, number};

const ASKED_S: f64 = 0.3;

/// Both ends of each connection, the server's first.
type Connections = Vec<(TcpStream, TcpStream)>;

fn connect(place: &Namespace, count: usize) -> Result<(u16, Connections)> {
    let connected = place.run(|| -> std::io::Result<_> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let pairs = (0..count).map(|_| {
            let client = TcpStream::connect(address)?;
            Ok((listener.accept()?.0, client))
        });
        Ok((address.port(), pairs.collect::<std::io::Result<_>>()?))
    })?;
    Ok(connected?)
}

/// Keeps a connection busy until `stop`: half a millisecond between two writes.
fn keep_busy((mut server, mut client): (TcpStream, TcpStream), stop: &AtomicBool) {
    let mut buffer = [0; 1448];
    while !stop.load(Ordering::Relaxed) {
        if server.write_all(&buffer).is_err() || client.read_exact(&mut buffer).is_err() {
            return;
        }
        std::thread::sleep(Duration::from_micros(500));
    }
}

/// Number of connections of the server with this control, by the kernel's own list.
fn with_control(place: &Namespace, port: u16, control: &str) -> Result<usize> {
    let sockets = place.run(|| Sockets::open()?.dump())??;
    let ours =
        |s: &&TcpSocket| !s.listens && s.local.port() == port && s.control.as_str() == control;
    Ok(sockets.iter().filter(ours).count())
}

/// Seconds from start to end, and how many of them it had a processor: on a busy machine it waits for
/// one the rest of the time.
#[derive(Default)]
struct Took {
    all: Vec<f64>,
    cpu: Vec<f64>,
}

impl Took {
    /// Runs `alcc` to its end.
    fn time(&mut self, world: &World, place: &Namespace, arguments: &[&str]) -> Result<()> {
        let mut command = Command::new(&world.tools().alcc);
        command.args(arguments);
        place.enter_before(&mut command);
        let (began, cpu_before) = (Instant::now(), children()?);
        let out = command.output()?;
        let (all, cpu) = (began.elapsed().as_secs_f64(), children()? - cpu_before);
        if !out.status.success() {
            let said = String::from_utf8_lossy(&out.stderr);
            return Err(format!("alcc {}: {}", arguments.join(" "), said.trim()).into());
        }
        self.all.push(all);
        self.cpu.push(cpu);
        Ok(())
    }

    fn show(&self, what: &str, asked: &str) {
        let least = self.all.iter().copied().fold(f64::INFINITY, f64::min);
        let most = self.all.iter().copied().fold(0.0, f64::max);
        println!(
            "  {what}: median {:.3} s (min {least:.3}, max {most:.3}); CPU {:.3} s{asked}",
            median(&self.all),
            median(&self.cpu)
        );
    }
}

/// CPU time of the programs that have ended, seconds.
fn children() -> Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let time = usage.user_time() + usage.system_time();
    Ok(time.num_microseconds() as f64 * 1e-6)
}

fn main() -> Result<()> {
    let connections = usize::try_from(number("ALCC_BENCH_CONNECTIONS", 5000)?)?;
    let senders = usize::try_from(number("ALCC_BENCH_SENDERS", 10)?)?.min(connections);
    let rounds = number("ALCC_BENCH_ROUNDS", 10)?;
    let algorithm = std::env::var("ALCC_BENCH_CC").unwrap_or_else(|_| "copa".to_owned());
    let control = format!("alcc_{algorithm}");
    let loaded = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control")?;
    if !geteuid().is_root() || !loaded.split_whitespace().any(|one| one == control) {
        println!("attach: skipped: needs root, and {control} by 'alcc bpf load'");
        return Ok(());
    }
    let world = World::new(1)?;
    descriptors::allow(2 * connections as u64 + 1000)?;
    let place = Namespace::new()?;
    let (port, pairs) = connect(&place, connections)?;
    let stop = Arc::new(AtomicBool::new(false));
    let (busy, idle): (Vec<_>, Vec<_>) =
        (pairs.into_iter().enumerate()).partition(|(i, _)| *i < senders);
    let threads: Vec<_> = (busy.into_iter())
        .map(|(_, pair)| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || keep_busy(pair, &stop))
        })
        .collect();
    println!(
        "attach: {connections} connections, {senders} of them sending; 'alcc attach --port {port} --cc {algorithm}', {rounds} rounds"
    );
    let port_text = port.to_string();
    let (mut attached, mut given_back, mut missed) = (Took::default(), Took::default(), 0);
    for _ in 0..rounds {
        let attach = ["attach", "--port", &port_text, "--cc", &algorithm, "--json"];
        attached.time(&world, &place, &attach)?;
        missed += connections - with_control(&place, port, &control)?;
        given_back.time(&world, &place, &["detach", "--port", &port_text, "--json"])?;
    }
    stop.store(true, Ordering::Relaxed);
    for thread in threads {
        thread.join().map_err(|_| "a sender failed")?;
    }
    drop(idle);
    attached.show("attach", &format!("; asked: at most {ASKED_S} s"));
    given_back.show("detach", "");
    println!("  missed: {missed}; asked: 0");
    Ok(())
}
