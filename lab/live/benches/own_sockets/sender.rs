// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The process that sends: `send MODE RATE|CONNECTIONS SECONDS ADDRESS`. Prints numbers only.
use crate::Result;
use crate::SENDING;
use alcc_cc::{
    AckBatch, Algorithm, Allowance, Build, Built, Controller, Cx, Instance, OptionDoc, Options,
};
use alcc_socket::own::{self, Runtime, Settings, Stream, Wait};
use alcc_socket::{Deployment, Feedback};
use alcc_units::{Bytes, Rate};
use nix::libc;
use nix::sys::socket::{setsockopt, sockopt};
use std::borrow::Cow;
use std::io::{BufRead, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A rate, and a window that is never the limit.
const PACED: Algorithm = Algorithm {
    name: "paced",
    summary: "for benchmarks",
    profiles: Cow::Borrowed(&[]),
    options: &[OptionDoc {
        name: "mbps",
        default: "1000",
        help: "Mbit/s",
    }],
    build: Build::Function(paced),
};

fn paced(options: &Options<'_>) -> Built {
    Ok(Instance::new(Paced(Rate::mbps(options.whole(
        "mbps",
        1000,
        1..=10_000,
    )?))))
}

#[derive(Clone)]
struct Paced(Rate);

impl Controller for Paced {
    fn on_ack(&mut self, _cx: &mut Cx<'_>, _ack: &AckBatch<'_>) {}

    fn allowance(&self) -> Allowance {
        Allowance {
            rate: Some(self.0),
            ..Allowance::window(Bytes::new(2_000_000))
        }
    }
}

/// CPU seconds of this process.
fn used() -> f64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: a valid out pointer; this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// As many descriptors as this process may have.
pub(crate) fn descriptors() -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: valid pointers to a structure of integers.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        limit.rlim_cur = limit.rlim_max;
        libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
    }
    limit.rlim_max
}

pub(crate) fn run(words: &[String]) -> Result<()> {
    let [mode, amount, seconds, to] = words else {
        return Err("send MODE RATE|CONNECTIONS SECONDS ADDRESS".into());
    };
    let (amount, seconds, to) = (amount.parse()?, seconds.parse()?, to.parse()?);
    match mode.strip_prefix("crowd-") {
        Some(cc) => crowd(cc, amount as usize, seconds, to),
        None => single(mode, amount, seconds, to),
    }
}

/// The same kernel algorithm everywhere, one that every process may choose.
fn connect(to: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect(to)?;
    setsockopt(&stream, sockopt::TcpCongestion, &"reno".into())?;
    Ok(stream)
}

/// One connection as fast as `mbps`; half a second is not counted.
fn single(mode: &str, mbps: u64, seconds: u64, to: SocketAddr) -> Result<()> {
    let socket = connect(to)?;
    let block = vec![0x5au8; 64 * 1024];
    let mut send: Box<dyn FnMut() -> Result<usize>> = if mode == "plain" {
        pace(&socket, mbps * 125_000)?;
        let mut socket = socket;
        Box::new(move || {
            socket.write_all(&block)?;
            Ok(block.len())
        })
    } else {
        let mut settings = Settings::new(format!("paced:mbps={mbps}").parse()?);
        settings.feedback = Feedback::choose(Deployment::Own, mode)?;
        let runtime = Runtime::new(settings, alcc_zoo::registry().with(PACED));
        let stream = Stream::new(&runtime, socket.into(), &own::Options::default())?;
        Box::new(move || Ok(stream.send(&block, Wait::Yes(None))?))
    };
    let mut measure = |time: Duration| -> Result<(u64, f64, f64)> {
        let (began, cpu, mut bytes) = (Instant::now(), used(), 0);
        while began.elapsed() < time {
            bytes += send()? as u64;
        }
        Ok((bytes, used() - cpu, began.elapsed().as_secs_f64()))
    };
    measure(Duration::from_millis(500))?;
    let (bytes, cpu, took) = measure(Duration::from_secs(seconds))?;
    println!("{bytes} {cpu} {took}");
    // Not drained: the other end has seen enough.
    std::process::exit(0)
}

/// `SO_MAX_PACING_RATE`, bytes per second.
fn pace(socket: &TcpStream, rate: u64) -> Result<()> {
    // SAFETY: the value outlives the call.
    let rc = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MAX_PACING_RATE,
            (&raw const rate).cast(),
            8,
        )
    };
    if rc == 0 {
        Ok(())
    } else {
        Err(std::io::Error::last_os_error().into())
    }
}

/// Resident memory of this process, bytes.
fn resident() -> Result<f64> {
    let text = std::fs::read_to_string("/proc/self/statm")?;
    let pages: f64 = text.split(' ').nth(1).ok_or("no such field")?.parse()?;
    Ok(pages * 4096.0)
}

/// Queue of the connections that can be written.
#[derive(Default)]
struct Ready {
    list: Mutex<Vec<usize>>,
    bell: Condvar,
}

/// Many connections; the first hundred send from the word "go" on.
fn crowd(cc: &str, connections: usize, seconds: u64, to: SocketAddr) -> Result<()> {
    let most = descriptors();
    if most < connections as u64 + 200 {
        return Err(format!("{connections} connections need as many descriptors, there are {most}: raise the limit (ulimit -n)").into());
    }
    let open = |n: usize| -> std::result::Result<Vec<OwnedFd>, String> {
        let one = || -> Result<OwnedFd> {
            let mut socket = connect(to)?;
            // Each has been used: what is made at the first write is there.
            socket.write_all(b"hello")?;
            Ok(socket.into())
        };
        (0..n).map(|_| one().map_err(|e| e.to_string())).collect()
    };
    // Those that send come first, in the order in which the other end accepts them; the rest in
    // parallel, a round trip each.
    let mut sockets = open(SENDING.min(connections))?;
    let rest = connections - sockets.len();
    let threads: Vec<_> = std::thread::scope(|scope| {
        let each = rest.div_ceil(SENDING);
        let sizes = (0..SENDING).map(|i| each.min(rest.saturating_sub(i * each)));
        let started: Vec<_> = sizes.map(|n| scope.spawn(move || open(n))).collect();
        started.into_iter().map(|t| t.join()).collect()
    });
    for made in threads {
        sockets.extend(made.map_err(|_| "a thread failed")??);
    }
    if cc == "plain" {
        println!("0");
        return plain(sockets, seconds);
    }
    let runtime = Runtime::new(Settings::new(cc.parse()?), alcc_zoo::registry());
    let before = resident()?;
    let mut streams = Vec::new();
    for socket in sockets {
        let stream = Stream::new(&runtime, socket, &own::Options::default())?;
        stream.send(b"hello", Wait::No)?;
        streams.push(stream);
    }
    std::thread::sleep(Duration::from_secs(1));
    println!("{}", (resident()? - before) / connections as f64);
    let ready = Arc::new(Ready::default());
    for (i, stream) in streams.iter().enumerate().take(SENDING) {
        let ready = Arc::clone(&ready);
        stream.on_notice(move || {
            ready
                .list
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(i);
            ready.bell.notify_one();
        });
    }
    wait_for_go()?;
    let block = vec![0x5au8; 64 * 1024];
    let mut list: Vec<usize> = (0..SENDING).collect();
    measured(seconds, || {
        for i in list.drain(..) {
            while streams[i]
                .send(&block, Wait::No)
                .is_ok_and(|n| n == block.len())
            {}
        }
        let waiting = ready.list.lock().unwrap_or_else(PoisonError::into_inner);
        let mut waiting = ready
            .bell
            .wait_timeout_while(waiting, Duration::from_millis(100), |list| list.is_empty())
            .map_or_else(|e| e.into_inner().0, |(list, _)| list);
        std::mem::swap(&mut list, &mut waiting);
        Ok(())
    })
}

/// The peer: what a program does with non-blocking sockets and poll.
fn plain(sockets: Vec<OwnedFd>, seconds: u64) -> Result<()> {
    use nix::poll::{PollFd, PollFlags, poll};
    use std::os::fd::AsFd;
    wait_for_go()?;
    let block = vec![0x5au8; 64 * 1024];
    measured(seconds, || {
        let mut wait: Vec<PollFd<'_>> = sockets
            .iter()
            .take(SENDING)
            .map(|s| PollFd::new(s.as_fd(), PollFlags::POLLOUT))
            .collect();
        poll(&mut wait, 100u16)?;
        for (socket, polled) in sockets.iter().zip(&wait) {
            if polled.any() == Some(true) {
                use nix::sys::socket::{MsgFlags, send};
                while send(socket.as_raw_fd(), &block, MsgFlags::MSG_DONTWAIT).is_ok() {}
            }
        }
        Ok(())
    })
}

fn wait_for_go() -> Result<()> {
    std::io::stdin().lock().read_line(&mut String::new())?;
    Ok(())
}

/// Turns for two seconds, says so, and then measures.
fn measured(seconds: u64, mut turn: impl FnMut() -> Result<()>) -> Result<()> {
    let mut turns = |time: Duration| -> Result<(f64, f64)> {
        let (began, cpu) = (Instant::now(), used());
        while began.elapsed() < time {
            turn()?;
        }
        Ok((used() - cpu, began.elapsed().as_secs_f64()))
    };
    turns(Duration::from_secs(2))?;
    println!("0");
    let (cpu, took) = turns(Duration::from_secs(seconds))?;
    println!("{cpu} {took}");
    std::thread::sleep(Duration::from_secs(60));
    Ok(())
}
