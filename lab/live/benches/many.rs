// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Many open connections of which few send: 10,000 that have fetched a small object each and stay
//! open, 100 of them downloading over one link of 100 Mbit/s, from plain nginx and under `alcc run`
//! in turns. `ALCC_BENCH_CONNECTIONS`, `ALCC_BENCH_SENDERS`, `ALCC_BENCH_MANY_SECONDS`,
//! `ALCC_BENCH_MANY_ROUNDS`: how many, how long, how often.
#[path = "support/descriptors.rs"]
mod descriptors;
#[path = "support/median.rs"]
mod median;
mod support;
#[path = "support/threads.rs"]
mod threads;

use alcc_emu::{Emulator, Namespace, PathSpec, Silent, Subnet};
use alcc_link::{DirectionSpec, RateSpec};
use alcc_live::cpu;
use alcc_live::server::{FILE, PORT, Server};
use alcc_units::{Rate, Span};
use median::median;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::socket::{MsgFlags, recv};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};
use support::{Result, World, conclude, is_ours, number, schemes, under};

/// The first is the peer. `ALCC_BENCH_SCHEMES` names others.
const SCHEMES: &str = "cubic,verus/over=cubic,copa/over=cubic";
const MBPS: u64 = 100;
/// More than one connection gets over the whole link in the time of a benchmark.
const FILE_SIZE: usize = 64 << 20;
const SMALL: usize = 1024;
/// Number of threads that open connections.
const OPENERS: usize = 100;
const ASKED_PERCENT: f64 = 10.0;
const ASKED_BYTES: f64 = 4096.0;
const ASKED_SHARE: f64 = 0.5;

fn link() -> PathSpec {
    let direction = DirectionSpec {
        rate: RateSpec::Fixed(Rate::mbps(MBPS)),
        delay: Span::from_millis(20),
        ..DirectionSpec::default()
    };
    PathSpec {
        down: direction.clone(),
        up: direction,
        seed: 1,
    }
}

struct Plan {
    connections: usize,
    senders: usize,
    seconds: Duration,
}

#[derive(Default)]
struct Measured {
    /// Resident memory of the server per open connection, bytes.
    memory: f64,
    /// Shares of a core: the whole server, and of that the runtime's threads.
    cpu: f64,
    runtime: f64,
    wakes: f64,
    server_wakes: f64,
    goodput: f64,
    /// The smallest sender's goodput over the fair share.
    share: f64,
    largest: f64,
    jain: f64,
    queue_ms: f64,
}

/// Resident memory of a process and its children, bytes.
fn resident(root: u32) -> f64 {
    let of = |process| {
        let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"))?;
        line.split_whitespace().next()?.parse::<f64>().ok()
    };
    cpu::tree(root).into_iter().filter_map(of).sum::<f64>() * 1024.0
}

/// Opens connections that have each fetched a small object.
fn open(inside: &Namespace, server: SocketAddr, count: usize) -> Result<Vec<TcpStream>> {
    let one = |buffer: &mut Vec<u8>| -> std::io::Result<TcpStream> {
        let mut stream = TcpStream::connect(server)?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        let last = SMALL - 1;
        let request =
            format!("GET /{FILE} HTTP/1.1\r\nHost: bench\r\nRange: bytes=0-{last}\r\n\r\n");
        stream.write_all(request.as_bytes())?;
        let mut got = 0;
        let whole = |bytes: &[u8]| {
            let end = bytes.windows(4).position(|w| w == b"\r\n\r\n");
            end.is_some_and(|end| bytes.len() >= end + 4 + SMALL)
        };
        buffer.resize(SMALL + 4096, 0);
        while !whole(&buffer[..got]) {
            match stream.read(&mut buffer[got..])? {
                0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
                n => got += n,
            }
        }
        Ok(stream)
    };
    let opened = inside.run(|| {
        std::thread::scope(|scope| {
            let openers: Vec<_> = (0..OPENERS)
                .map(|i| {
                    let share = (i..count).step_by(OPENERS);
                    scope.spawn(move || {
                        let mut buffer = Vec::new();
                        share.map(|_| one(&mut buffer)).collect::<Vec<_>>()
                    })
                })
                .collect();
            openers
                .into_iter()
                .flat_map(|opener| opener.join().unwrap_or_default())
                .collect::<std::io::Result<Vec<_>>>()
        })
    })?;
    opened.map_err(|e| format!("open {count} connections: {e}").into())
}

/// Reads from all connections that have data, for `time`. Returns the bytes of each sender.
fn read(epoll: &Epoll, senders: &[TcpStream], bytes: &mut [u64], time: Duration) -> Result<()> {
    let began = Instant::now();
    let mut buffer = vec![0; 256 * 1024];
    let mut events = vec![EpollEvent::empty(); 256];
    while began.elapsed() < time {
        let n = epoll.wait(&mut events, EpollTimeout::from(10u8))?;
        for event in &events[..n] {
            let index = usize::try_from(event.data())?;
            let sender = senders
                .get(index)
                .ok_or("an idle connection says something")?;
            // TCP discards what is received with MSG_TRUNC instead of copying it.
            match recv(sender.as_raw_fd(), &mut buffer, MsgFlags::MSG_TRUNC)? {
                0 => return Err("the server closed a connection".into()),
                n => bytes[index] += n as u64,
            }
        }
    }
    Ok(())
}

fn run(world: &mut World, scheme: &str, plan: &Plan) -> Result<Measured> {
    let (outside, inside) = (Namespace::new()?, Namespace::new()?);
    let server = world.serve_many(&outside, scheme, plan.connections)?;
    let link = Emulator::start(
        &outside,
        &inside,
        Subnet::default(),
        link(),
        Box::new(Silent),
    )?;
    under(&outside, link.outside_addr(), link.inside_addr(), scheme)?;
    let result = load(&server, &inside, &link, plan, scheme);
    if is_ours(scheme) {
        let report = conclude(server)?;
        if report.connections < plan.connections as u64 {
            return Err(format!("only {} connections were controlled", report.connections).into());
        }
    }
    let mut measured = result?;
    let report = link.stop()?;
    measured.queue_ms = report
        .down
        .queue_delay_mean
        .map_or(f64::NAN, Span::as_millis_f64);
    if report.down.hidden_drops() > 0 {
        println!(
            "  the emulator lost {} packets itself: the machine is too slow or too busy",
            report.down.hidden_drops()
        );
    }
    Ok(measured)
}

fn load(
    server: &Server,
    inside: &Namespace,
    link: &Emulator,
    plan: &Plan,
    scheme: &str,
) -> Result<Measured> {
    let address = SocketAddr::from((link.outside_addr(), PORT));
    // What every worker has once it has served somebody is not the connections'.
    drop(open(inside, address, 4 * OPENERS)?);
    std::thread::sleep(Duration::from_millis(300));
    let empty = resident(server.id());
    let mut senders = open(inside, address, plan.connections)?;
    // The last of them come to rest.
    std::thread::sleep(Duration::from_millis(1000));
    let memory = (resident(server.id()) - empty) / plan.connections as f64;

    let idle = senders.split_off(plan.senders.min(senders.len()));
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
    for (i, stream) in senders.iter().chain(&idle).enumerate() {
        epoll.add(stream, EpollEvent::new(EpollFlags::EPOLLIN, i as u64))?;
    }
    for sender in &mut senders {
        sender.write_all(format!("GET /{FILE} HTTP/1.1\r\nHost: bench\r\n\r\n").as_bytes())?;
    }
    let mut bytes = vec![0; senders.len()];
    // The start of all at once is not what is asked for.
    read(&epoll, &senders, &mut bytes, Duration::from_secs(3))?;
    bytes.fill(0);
    let (began, cpu, before) = (
        Instant::now(),
        cpu::of_tree(server.id()),
        threads::did(server.id()),
    );
    read(&epoll, &senders, &mut bytes, plan.seconds)?;
    let took = began.elapsed().as_secs_f64();
    let after = threads::did(server.id());
    let cpu = cpu::of_tree(server.id())
        .zip(cpu)
        .map(|(after, before)| (after - before).as_secs_f64());
    let runtime = after.0.zip(before.0);
    if std::env::var_os("ALCC_BENCH_VERBOSE").is_some() {
        let mut sorted = bytes.clone();
        sorted.sort_unstable();
        println!(
            "  {scheme}: kbit/s by sender: {:?}",
            sorted
                .iter()
                .map(|b| b * 8 / 1000 / plan.seconds.as_secs())
                .collect::<Vec<_>>()
        );
    }
    let rates: Vec<f64> = bytes.iter().map(|b| *b as f64 * 8e-6 / took).collect();
    let (sum, squares) = (
        rates.iter().sum::<f64>(),
        rates.iter().map(|r| r * r).sum::<f64>(),
    );
    let mean = sum / rates.len() as f64;
    Ok(Measured {
        memory,
        cpu: cpu.map_or(f64::NAN, |s| s / took * 100.0),
        runtime: runtime.map_or(0.0, |(a, b)| (a.cpu - b.cpu) / took * 100.0),
        wakes: runtime.map_or(0.0, |(a, b)| (a.sleeps - b.sleeps) as f64 / took),
        server_wakes: (after.1.sleeps - before.1.sleeps) as f64 / took,
        goodput: sum,
        share: rates.iter().copied().fold(f64::INFINITY, f64::min) / mean,
        largest: rates.iter().copied().fold(0.0, f64::max) / mean,
        jain: sum * sum / (squares * rates.len() as f64),
        queue_ms: f64::NAN,
    })
}

fn main() -> Result<()> {
    let plan = Plan {
        connections: usize::try_from(number("ALCC_BENCH_CONNECTIONS", 10_000)?)?,
        senders: usize::try_from(number("ALCC_BENCH_SENDERS", 100)?)?,
        seconds: Duration::from_secs(number("ALCC_BENCH_MANY_SECONDS", 10)?),
    };
    let rounds = number("ALCC_BENCH_MANY_ROUNDS", 2)?;
    let mut world = World::new(FILE_SIZE)?;
    descriptors::allow(plan.connections as u64 + 1000)?;
    println!(
        "many: {} open connections, {} of them downloading over one link of {MBPS} Mbit/s, RTT 40 ms, for {} s; {rounds} rounds",
        plan.connections,
        plan.senders,
        plan.seconds.as_secs()
    );
    println!(
        "  scheme       memory per  server's CPU  (runtime's)  wake-ups/s of   goodput  smallest and largest  Jain    queue"
    );
    println!(
        "               connection     % of core               runtime server   Mbit/s  over fair share      index       ms"
    );
    let schemes = schemes(SCHEMES);
    let mut all: Vec<Vec<Measured>> = schemes.iter().map(|_| Vec::new()).collect();
    for round in 1..=rounds {
        let mut order: Vec<usize> = (0..schemes.len()).collect();
        // Whoever goes first goes last next time: what drifts cancels out.
        if round % 2 == 0 {
            order.reverse();
        }
        for i in order {
            let m = run(&mut world, &schemes[i], &plan)?;
            println!(
                "  {:11} {:8.0} B {:13.2} {:12.2} {:9.0} {:6.0} {:8.1} {:10.2} {:9.2} {:6.3} {:8.1}",
                schemes[i],
                m.memory,
                m.cpu,
                m.runtime,
                m.wakes,
                m.server_wakes,
                m.goodput,
                m.share,
                m.largest,
                m.jain,
                m.queue_ms
            );
            all[i].push(m);
        }
    }
    let of = |i: usize, f: fn(&Measured) -> f64| median(&all[i].iter().map(f).collect::<Vec<_>>());
    for (i, scheme) in schemes.iter().enumerate().skip(1) {
        println!(
            "  {scheme:11} beyond plain: {:.2} % of a core (asked: at most {ASKED_PERCENT}), {:.0} bytes of memory per connection (asked: at most {ASKED_BYTES}); \
             smallest sender {:.2} of its fair share (asked: at least {ASKED_SHARE}, plain {:.2}); goodput {:.3} of plain",
            of(i, |m| m.cpu) - of(0, |m| m.cpu),
            of(i, |m| m.memory) - of(0, |m| m.memory),
            of(i, |m| m.share),
            of(0, |m| m.share),
            of(i, |m| m.goodput) / of(0, |m| m.goodput)
        );
    }
    Ok(())
}
