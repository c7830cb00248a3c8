// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CPU cost of a thread that waits for data for a thread that writes to the same in-band stream.
//! `cargo bench -p alcc-live --bench inband_reader`: a veth pair without delay, sender and receiver
//! each pinned to a core; the writer alone and beside a reader, in turns, at full speed and at 1
//! Gbit/s. The peer sends only acknowledgements.
//!
//! `ALCC_BENCH_PAIRS`: number of pairs; `ALCC_BENCH_SECONDS`: length of each, s; `ALCC_BENCH_CC`:
//! the algorithm.
#[allow(dead_code, reason = "only pinned to here")]
#[path = "support/core.rs"]
mod core;
#[path = "support/median.rs"]
mod median;
#[path = "support/number.rs"]
mod number;

use crate::core::pin;
use alcc_emu::{Namespace, Subnet, veth};
use alcc_inband::carrier::Tcp;
use alcc_inband::{Settings, Stream};
use median::median;
use nix::time::{ClockId, clock_gettime};
use number::number;
use std::error::Error;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const SENDER_CORE: usize = 0;
const RECEIVER_CORE: usize = 1;
/// A window that never binds but keeps what is in flight below any receiver's buffer.
const CC: &str = "fixed:window=700";
const PIECE: usize = 64 * 1024;
/// Bit/s; none: as fast as it goes.
const RATES: [Option<f64>; 2] = [None, Some(1e9)];
const READERS: [&str; 2] = ["alone", "read"];

fn open(socket: TcpStream, initiator: bool, cc: &str) -> Result<Stream> {
    let (registry, settings) = (Arc::new(alcc_zoo::registry()), Settings::new(cc.parse()?));
    let carrier = Tcp::new(socket)?;
    Ok(if initiator {
        Stream::connect(carrier, &registry, settings)?
    } else {
        Stream::accept(carrier, &registry, settings)?
    })
}

fn cpu() -> Result<f64> {
    let t = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)?;
    Ok(t.tv_sec() as f64 + t.tv_nsec() as f64 / 1e9)
}

/// The sending process; prints its bytes, CPU seconds and seconds.
fn send(words: &[String]) -> Result<()> {
    let [reader, to, cc, seconds, bps] = words else {
        return Err(format!("send {words:?}").into());
    };
    let (seconds, bps): (f64, f64) = (seconds.parse()?, bps.parse()?);
    let mut stream = open(TcpStream::connect(to)?, true, cc)?;
    if reader == READERS[1] {
        let mut stream = stream.clone();
        std::thread::spawn(move || stream.read(&mut [0; 1024]).is_ok());
    }
    let piece = vec![7; PIECE];
    let (began, before, mut bytes) = (Instant::now(), cpu()?, 0.0);
    while began.elapsed().as_secs_f64() < seconds {
        let due = Duration::from_secs_f64(bytes * 8.0 / bps);
        if let Some(early) = due.checked_sub(began.elapsed()) {
            std::thread::sleep(early);
        }
        stream.write_all(&piece)?;
        bytes += PIECE as f64;
    }
    let took = began.elapsed().as_secs_f64();
    println!("{bytes} {} {took}", cpu()? - before);
    stream.abort();
    Ok(())
}

/// CPU seconds of the sender for each Gbit, and the Gbit/s.
fn one(reader: &str, rate: Option<f64>, cc: &str, seconds: u64) -> Result<[f64; 2]> {
    let (outside, inside) = (Namespace::new()?, Namespace::new()?);
    let net = Subnet::default();
    veth(&outside, &inside, net)?;
    let listener = inside.run(|| TcpListener::bind(SocketAddr::from((net.inside(), 0))))??;
    let bps = rate.unwrap_or(f64::INFINITY);
    pin(SENDER_CORE)?;
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(["send", reader, &listener.local_addr()?.to_string(), cc])
        .args([seconds.to_string(), bps.to_string()])
        .stdout(Stdio::piped());
    let child = outside.spawn(command)?;
    pin(RECEIVER_CORE)?;
    let mut stream = open(listener.accept()?.0, false, cc)?;
    let mut buffer = vec![0; 1 << 18];
    // It ends by an error: the sender does not wait.
    while stream.read(&mut buffer).is_ok_and(|n| n > 0) {}
    let said = String::from_utf8(child.wait_with_output()?.stdout)?;
    let numbers: Vec<f64> = said.split_whitespace().flat_map(str::parse).collect();
    let [bytes, cpu, took] = numbers[..] else {
        return Err(format!("the sender says: {said}").into());
    };
    let gbit = bytes * 8e-9;
    Ok([cpu / gbit, gbit / took])
}

fn main() -> Result<()> {
    // cargo adds --bench.
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|w| w != "--bench")
        .collect();
    if words.first().is_some_and(|w| w == "send") {
        return send(&words[1..]);
    }
    alcc_emu::prepare()?;
    let pairs = number("ALCC_BENCH_PAIRS", 5)?;
    let seconds = number("ALCC_BENCH_SECONDS", 3)?;
    let cc = std::env::var("ALCC_BENCH_CC").unwrap_or_else(|_| CC.to_owned());
    println!(
        "inband_reader: {cc}, sender on CPU {SENDER_CORE}, veth; {pairs} pairs of 2 x {seconds} s"
    );
    for rate in RATES {
        let asked = rate.map_or_else(
            || "full speed".to_owned(),
            |bps| format!("{} Gbit/s", bps * 1e-9),
        );
        println!(
            "  {asked}: pair   alone, s/Gbit (Gbit/s)   with a reader   ratios of CPU, of goodput"
        );
        let mut ratios = [Vec::new(), Vec::new()];
        for pair in 1..=pairs {
            let mut got = [[0.0; 2]; 2];
            // Whoever goes first goes second next time: what drifts cancels out.
            for i in [pair as usize % 2, (pair as usize + 1) % 2] {
                got[i] = one(READERS[i], rate, &cc, seconds)?;
            }
            let [alone, read] = got;
            let pair_ratios = [read[0] / alone[0], read[1] / alone[1]];
            println!(
                "  {pair:4}   {:.4} ({:.3})   {:.4} ({:.3})   {:.2} {:.3}",
                alone[0], alone[1], read[0], read[1], pair_ratios[0], pair_ratios[1]
            );
            for (all, ratio) in ratios.iter_mut().zip(pair_ratios) {
                all.push(ratio);
            }
        }
        println!(
            "  median ratio: CPU {:.2}, goodput {:.3} (asked: as fast as alone)",
            median(&ratios[0]),
            median(&ratios[1])
        );
    }
    Ok(())
}
