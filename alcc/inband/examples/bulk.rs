// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bulk transfer for measuring, without the rest of `alcc`:
//!
//! ```text
//! bulk recv 0.0.0.0:9700                          # one connection after the other, either form
//! bulk send 192.0.2.1:9700 verus 10               # in-band, seconds
//! bulk send 192.0.2.1:9700 plain 10               # plain TCP in writes of 64 KiB
//! ```
use alcc_cc::Registry;
use alcc_inband::{Settings, Stream, carrier::Tcp};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

type Failure = Box<dyn std::error::Error>;

fn cpu() -> f64 {
    // SAFETY: zero is a valid rusage, and it is only written to.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

fn report(what: &str, bytes: u64, took: Duration, cpu: f64) {
    let gbit = bytes as f64 * 8.0 / 1e9;
    println!(
        "{what}: {:.2} Mbit/s, CPU {:.4} s/Gbit, {:.2} % of a core",
        gbit * 1e3 / took.as_secs_f64(),
        cpu / gbit,
        100.0 * cpu / took.as_secs_f64()
    );
}

fn receive(at: &str) -> Result<(), Failure> {
    let listener = TcpListener::bind(at)?;
    let registry = Arc::new(Registry::builtin());
    let mut buffer = vec![0; 256 * 1024];
    loop {
        let (socket, _) = listener.accept()?;
        let mut first = [0; 4];
        socket.peek(&mut first)?;
        let mut stream: Box<dyn Read> = if first == *b"ALCC" {
            let settings = Settings::new("cubic".parse()?);
            Box::new(Stream::accept(Tcp::new(socket)?, &registry, settings)?)
        } else {
            Box::new(socket)
        };
        let (began, before, mut bytes) = (Instant::now(), cpu(), 0);
        loop {
            match stream.read(&mut buffer) {
                Ok(0) => break,
                Ok(n) => bytes += n as u64,
                Err(why) => {
                    println!("{why}");
                    break;
                }
            }
        }
        report("received", bytes, began.elapsed(), cpu() - before);
    }
}

fn send(to: &str, cc: &str, seconds: u64) -> Result<(), Failure> {
    let socket = TcpStream::connect(to)?;
    let piece = vec![7; 64 * 1024];
    let (began, before, mut bytes) = (Instant::now(), cpu(), 0u64);
    let patience = Duration::from_secs(seconds);
    if cc == "plain" {
        while began.elapsed() < patience {
            bytes += (&socket).write(&piece)? as u64;
        }
        report("plain", bytes, began.elapsed(), cpu() - before);
        return Ok(());
    }
    let registry = Arc::new(Registry::builtin());
    let mut stream = Stream::connect(Tcp::new(socket)?, &registry, Settings::new(cc.parse()?))?;
    while began.elapsed() < patience {
        bytes += stream.write(&piece)? as u64;
    }
    report(cc, bytes, began.elapsed(), cpu() - before);
    while !stream.finish(Duration::from_secs(10))? {}
    println!("{:?}", stream.info());
    Ok(())
}

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["recv", at] => receive(at),
        ["send", to, cc, seconds] => send(to, cc, seconds.parse()?),
        _ => Err("bulk recv ADDRESS, or bulk send ADDRESS (plain|ALGORITHM) SECONDS".into()),
    }
}
