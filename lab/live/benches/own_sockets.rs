// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CPU cost and pacing accuracy of own sockets (the C library, the proxy). `cargo bench -p
//! alcc-live --bench own_sockets -- PART...`, parts:
//!
//! * `cpu`: 1 Gbit/s over a veth pair, `queue+pacing` against blocking writes of 64 KiB that the
//!   kernel paces at the same rate
//! * `pacing`: achieved against asked rate in windows of 100 ms, RTT 40 ms
//! * `many`: 10,000 open connections, 100 of them sending over a shared link, against the same over
//!   plain sockets
//!
//! `ALCC_BENCH_PAIRS`, `ALCC_BENCH_SECONDS`, `ALCC_BENCH_CONNECTIONS`: how often, how long, how
//! many. The sender is a process of its own: what it used is what the kernel charged it for.
#[allow(dead_code, reason = "only one core is pinned to here")]
#[path = "support/core.rs"]
mod core;
#[path = "support/median.rs"]
mod median;
#[path = "support/number.rs"]
mod number;
#[path = "own_sockets/sender.rs"]
mod sender;

use crate::core::pin;
use alcc_emu::{Emulator, Namespace, PathSpec, Silent, Subnet, veth};
use alcc_link::{DirectionSpec, RateSpec};
use alcc_units::{Rate, Span};
use median::median;
use number::number;
use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const SENDER_CORE: usize = 0;
const RECEIVER_CORE: usize = 1;
const ASKED_CPU_RATIO: f64 = 1.3;
const ASKED_BYTES: f64 = 4096.0;
const ASKED_CORE_PERCENT: f64 = 10.0;

/// A process of this program that sends to `to`, in `place`, on its core.
fn sender(place: &Namespace, words: &[&str], to: SocketAddr) -> Result<Child> {
    pin(SENDER_CORE)?;
    let mut command = Command::new(std::env::current_exe()?);
    command
        .arg("send")
        .args(words)
        .arg(to.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let child = place.spawn(command)?;
    pin(RECEIVER_CORE)?;
    Ok(child)
}

/// The next line that a sender prints, as numbers.
fn line(from: &mut impl BufRead) -> Result<Vec<f64>> {
    let mut line = String::new();
    from.read_line(&mut line)?;
    let numbers: std::result::Result<Vec<f64>, _> =
        line.split_whitespace().map(str::parse).collect();
    numbers.map_err(|_| format!("the sender says: {line}").into())
}

fn listen(place: &Namespace, at: Ipv4Addr) -> Result<(TcpListener, SocketAddr)> {
    let listener = place.run(|| TcpListener::bind((at, 0)))??;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

/// A link of this many Mbit/s and 20 ms in both directions.
fn link(mbps: u64, outside: &Namespace, inside: &Namespace) -> Result<Emulator> {
    let direction = DirectionSpec {
        rate: RateSpec::Fixed(Rate::mbps(mbps)),
        delay: Span::from_millis(20),
        ..DirectionSpec::default()
    };
    let spec = PathSpec {
        down: direction.clone(),
        up: direction,
        seed: 1,
    };
    let net = Subnet::default();
    Ok(Emulator::start(
        outside,
        inside,
        net,
        spec,
        Box::new(Silent),
    )?)
}

/// CPU seconds of the sender for each Gbit, and the Gbit/s.
fn one(mode: &str, seconds: u64) -> Result<(f64, f64)> {
    let (outside, inside) = (Namespace::new()?, Namespace::new()?);
    let net = Subnet::default();
    veth(&outside, &inside, net)?;
    let (listener, to) = listen(&inside, net.inside())?;
    let mut child = sender(&outside, &[mode, "1000", &seconds.to_string()], to)?;
    let (mut stream, _) = listener.accept()?;
    let reader = std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 20];
        while stream.read(&mut buffer).is_ok_and(|n| n > 0) {}
    });
    let mut out = BufReader::new(child.stdout.take().ok_or("no output")?);
    let said = line(&mut out)?;
    child.wait()?;
    reader.join().map_err(|_| "the reader failed")?;
    let [bytes, cpu, took] = said[..] else {
        return Err(format!("the sender says: {said:?}").into());
    };
    let gbit = bytes * 8e-9;
    Ok((cpu / gbit, gbit / took))
}

fn cpu() -> Result<()> {
    let pairs = number("ALCC_BENCH_PAIRS", 5)?;
    let seconds = number("ALCC_BENCH_SECONDS", 3)?;
    println!(
        "cpu: sender on CPU {SENDER_CORE}, veth, paced at 1 Gbit/s, Reno below; {pairs} pairs of 2 x {seconds} s"
    );
    println!(
        "  pair   64 KiB writes, s/Gbit (Gbit/s)   queue+pacing, timestamps   queue+pacing, tcp-info   ratios"
    );
    let (mut stamped, mut counted) = (Vec::new(), Vec::new());
    for pair in 1..=pairs {
        let mut order = ["plain", "timestamps", "tcp-info"];
        order.rotate_left(pair as usize % 3);
        let mut got = [(0.0, 0.0); 3];
        for mode in order {
            let place = ["plain", "timestamps", "tcp-info"]
                .iter()
                .position(|m| *m == mode);
            got[place.unwrap_or(0)] = one(mode, seconds)?;
        }
        let [plain, a, b] = got;
        let ratios = (a.0 / plain.0, b.0 / plain.0);
        println!(
            "  {pair:4}   {:18.4} ({:.3})   {:18.4} ({:.3})   {:16.4} ({:.3})   {:.2} {:.2}",
            plain.0, plain.1, a.0, a.1, b.0, b.1, ratios.0, ratios.1
        );
        stamped.push(ratios.0);
        counted.push(ratios.1);
    }
    println!(
        "  median ratio: timestamps {:.2}, tcp-info {:.2} (asked: at most {ASKED_CPU_RATIO})",
        median(&stamped),
        median(&counted)
    );
    Ok(())
}

fn pacing() -> Result<()> {
    let seconds = number("ALCC_BENCH_SECONDS", 10)?;
    println!(
        "pacing: RTT 40 ms, link of 400 Mbit/s, {seconds} s each; payload that arrived in windows of 100 ms against the rate asked"
    );
    println!("  asked Mbit/s   mean   p5   p95   largest error   mean error");
    for asked in [1u64, 10, 100] {
        let (outside, inside) = (Namespace::new()?, Namespace::new()?);
        let link = link(400, &outside, &inside)?;
        let (listener, to) = listen(&inside, link.inside_addr())?;
        let words = ["timestamps", &asked.to_string(), &(seconds + 1).to_string()];
        let mut child = sender(&outside, &words, to)?;
        let (mut stream, _) = listener.accept()?;
        let mut windows = vec![0u64; seconds as usize * 10];
        let mut buffer = vec![0; 1 << 18];
        // The first second is the start.
        let began = Instant::now() + Duration::from_secs(1);
        loop {
            let n = stream.read(&mut buffer)?;
            let at = Instant::now().checked_duration_since(began);
            let index = at.map(|at| at.as_millis() as usize / 100);
            match index {
                None if n > 0 => {}
                Some(i) if n > 0 && i < windows.len() => windows[i] += n as u64,
                _ => break,
            }
        }
        drop(stream);
        child.kill()?;
        child.wait()?;
        let mut ratios: Vec<f64> = windows
            .iter()
            .map(|bytes| *bytes as f64 * 80.0 / (asked as f64 * 1e6))
            .collect();
        ratios.sort_by(f64::total_cmp);
        let at = |share: f64| ratios[((ratios.len() - 1) as f64 * share).round() as usize];
        let errors: Vec<f64> = ratios.iter().map(|r| (r - 1.0).abs()).collect();
        let count = ratios.len() as f64;
        println!(
            "  {asked:12}   {:.3}   {:.3}   {:.3}   {:10.1} %   {:9.1} %",
            ratios.iter().sum::<f64>() / count,
            at(0.05),
            at(0.95),
            errors.iter().fold(0.0f64, |a, b| a.max(*b)) * 100.0,
            errors.iter().sum::<f64>() / count * 100.0
        );
        drop(link);
    }
    Ok(())
}

/// One way to have many connections: bytes of memory for each, CPU share of the sender, and what
/// each sender got.
struct Many {
    memory: f64,
    percent: f64,
    shares: Vec<u64>,
}

fn crowd(mode: &str, connections: usize, seconds: u64) -> Result<Many> {
    let (outside, inside) = (Namespace::new()?, Namespace::new()?);
    let link = link(100, &outside, &inside)?;
    let (listener, to) = listen(&inside, link.inside_addr())?;
    let words = [mode, &connections.to_string(), &seconds.to_string()];
    let mut child = sender(&outside, &words, to)?;
    let mut input = child.stdin.take().ok_or("no input")?;
    let mut out = BufReader::new(child.stdout.take().ok_or("no output")?);
    let mut peers = Vec::new();
    for _ in 0..connections {
        peers.push(listener.accept()?.0);
    }
    let memory = line(&mut out)?;
    // The first hundred send: each has a reader here.
    let over = Arc::new(AtomicBool::new(false));
    let counts: Vec<Arc<AtomicU64>> = (0..SENDING).map(|_| Arc::default()).collect();
    for (peer, count) in peers.iter().zip(&counts) {
        let (mut peer, count, over): (TcpStream, _, _) =
            (peer.try_clone()?, Arc::clone(count), Arc::clone(&over));
        std::thread::Builder::new()
            .stack_size(128 * 1024)
            .spawn(move || {
                let mut buffer = vec![0; 32 * 1024];
                while let Ok(n @ 1..) = peer.read(&mut buffer) {
                    if over.load(Ordering::Relaxed) {
                        break;
                    }
                    count.fetch_add(n as u64, Ordering::Relaxed);
                }
            })?;
    }
    let read = || {
        counts
            .iter()
            .map(|c| c.load(Ordering::Relaxed))
            .collect::<Vec<_>>()
    };
    writeln!(input, "go")?;
    // The sender measures from two seconds after the start.
    line(&mut out)?;
    let before = read();
    let said = line(&mut out)?;
    let after = read();
    over.store(true, Ordering::Relaxed);
    child.kill()?;
    child.wait()?;
    let ([memory], [cpu, took]) = (&memory[..], &said[..]) else {
        return Err(format!("the sender says: {memory:?} {said:?}").into());
    };
    drop(link);
    Ok(Many {
        memory: *memory,
        percent: cpu / took * 100.0,
        shares: after.iter().zip(&before).map(|(a, b)| a - b).collect(),
    })
}

const SENDING: usize = 100;

fn many() -> Result<()> {
    let connections = number("ALCC_BENCH_CONNECTIONS", 10_000)? as usize;
    let seconds = number("ALCC_BENCH_SECONDS", 10)?;
    println!(
        "many: {connections} connections, {SENDING} of them send over a shared link of 100 Mbit/s, RTT 40 ms, {seconds} s"
    );
    println!(
        "  scheme            memory each   sender's CPU   Mbit/s in all   smallest / mean share"
    );
    let mut plain = None;
    for mode in ["crowd-plain", "crowd-verus", "crowd-copa"] {
        let got = crowd(mode, connections, seconds)?;
        let all: u64 = got.shares.iter().sum();
        let mean = all as f64 / SENDING as f64;
        let least = got.shares.iter().min().copied().unwrap_or(0) as f64;
        println!(
            "  {:<14} {:9.0} bytes   {:9.2} %   {:13.1}   {:.2}",
            mode.trim_start_matches("crowd-"),
            got.memory,
            got.percent,
            all as f64 * 8e-6 / seconds as f64,
            least / mean
        );
        match plain {
            None => plain = Some((got.memory, got.percent)),
            Some((memory, percent)) => println!(
                "  beyond plain: {:.0} bytes each (asked: at most {ASKED_BYTES}), {:.2} % of a core (asked: at most {ASKED_CORE_PERCENT} %)",
                got.memory - memory,
                got.percent - percent
            ),
        }
    }
    Ok(())
}

fn main() -> Result<()> {
    // cargo adds --bench.
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|w| w != "--bench")
        .collect();
    if words.first().is_some_and(|w| w == "send") {
        return sender::run(&words[1..]);
    }
    alcc_emu::prepare()?;
    sender::descriptors();
    let wanted = |part: &str| words.is_empty() || words.iter().any(|w| w == part);
    for (part, run) in [
        ("cpu", cpu as fn() -> Result<()>),
        ("pacing", pacing),
        ("many", many),
    ] {
        if wanted(part) {
            run()?;
        }
    }
    Ok(())
}
