// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CPU cost of the runtime on a server that is not busy: one download at 12 Mbit/s, and one open
//! connection without traffic. `ALCC_BENCH_ROUNDS`: number of rounds; `ALCC_BENCH_BUSY_SECONDS`,
//! `ALCC_BENCH_IDLE_SECONDS`: their length, s.
mod support;
#[path = "support/threads.rs"]
mod threads;

use alcc_emu::{Emulator, Namespace, PathSpec, Silent, Subnet};
use alcc_link::{DirectionSpec, RateSpec};
use alcc_live::cpu;
use alcc_live::server::Server;
use alcc_units::{Rate, Span};
use std::io::Read;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use support::{Result, World, conclude, is_ours, number, request, schemes, under};

/// The first is the peer. `ALCC_BENCH_SCHEMES` names others.
const SCHEMES: &str = "cubic,verus/over=cubic,copa/over=cubic";
const FILE_SIZE: usize = 64 << 20;
/// About a second of the link: a connection that has been used.
const BEFORE_IDLE: usize = 1_500_000;
const ASKED_PERCENT: f64 = 1.0;

fn link() -> PathSpec {
    let direction = DirectionSpec {
        rate: RateSpec::Fixed(Rate::mbps(12)),
        delay: Span::from_millis(20),
        ..DirectionSpec::default()
    };
    PathSpec {
        down: direction.clone(),
        up: direction,
        seed: 1,
    }
}

/// A server behind a link of its own. Fields are dropped in their order: programs before the link
/// they use.
struct Lane {
    server: Server,
    inside: Namespace,
    link: Emulator,
}

impl Lane {
    fn new(world: &mut World, scheme: &str) -> Result<Self> {
        let (outside, inside) = (Namespace::new()?, Namespace::new()?);
        let server = world.serve(&outside, scheme)?;
        let net = Subnet::default();
        let link = Emulator::start(&outside, &inside, net, link(), Box::new(Silent))?;
        under(&outside, link.outside_addr(), link.inside_addr(), scheme)?;
        Ok(Self {
            server,
            inside,
            link,
        })
    }

    fn request(&self, bytes: usize) -> Result<TcpStream> {
        request(&self.inside, self.link.outside_addr(), 1, bytes)
    }
}

/// Two downloads beside each other; what the servers used of a core, and the goodput of both in
/// Mbit/s.
fn beside_each_other(lanes: [&Lane; 2], seconds: Duration) -> Result<[(f64, f64); 2]> {
    let streams = [lanes[0].request(FILE_SIZE)?, lanes[1].request(FILE_SIZE)?];
    let (bytes, over) = (
        [AtomicU64::new(0), AtomicU64::new(0)],
        AtomicBool::new(false),
    );
    std::thread::scope(|scope| {
        for (mut stream, bytes) in streams.into_iter().zip(&bytes) {
            let over = &over;
            scope.spawn(move || {
                let mut buffer = vec![0; 64 * 1024];
                while let Ok(n @ 1..) = stream.read(&mut buffer) {
                    bytes.fetch_add(n as u64, Ordering::Relaxed);
                    if over.load(Ordering::Relaxed) {
                        break;
                    }
                }
            });
        }
        let now =
            || lanes.map(|lane| cpu::of_tree(lane.server.id()).map_or(f64::NAN, Span::as_secs_f64));
        let came = || bytes.each_ref().map(|b| b.load(Ordering::Relaxed));
        // The start of the connection is not what is asked for.
        std::thread::sleep(Duration::from_secs(1));
        let (began, cpu, read) = (Instant::now(), now(), came());
        std::thread::sleep(seconds);
        let (took, cpu_after, read_after) = (began.elapsed().as_secs_f64(), now(), came());
        over.store(true, Ordering::Relaxed);
        Ok([0, 1].map(|i| {
            (
                (cpu_after[i] - cpu[i]) / took,
                (read_after[i] - read[i]) as f64 * 8e-6 / took,
            )
        }))
    })
}

fn busy(
    world: &mut World,
    [peer, scheme]: [&str; 2],
    rounds: u64,
    seconds: Duration,
) -> Result<()> {
    for round in 1..=rounds {
        // Whoever is started first is started second next time.
        let (plain, ours);
        if round % 2 == 1 {
            plain = Lane::new(world, peer)?;
            ours = Lane::new(world, scheme)?;
        } else {
            ours = Lane::new(world, scheme)?;
            plain = Lane::new(world, peer)?;
        }
        let began = Instant::now();
        let [(plain_cpu, plain_rate), (cpu, rate)] = beside_each_other([&plain, &ours], seconds)?;
        let lasted = began.elapsed().as_secs_f64();
        print!(
            "  {scheme:11} {rate:5.2} Mbit/s (plain {plain_rate:5.2}): server {:.2} % of a core, plain {:.2} %, extra {:.2} % (asked: at most {ASKED_PERCENT} %)",
            cpu * 100.0,
            plain_cpu * 100.0,
            (cpu - plain_cpu) * 100.0,
        );
        if is_ours(scheme) {
            let report = conclude(ours.server)?;
            print!(
                "; runtime's thread {:.2} %, {:.0} readings/s",
                report.runtime_cpu_s / lasted * 100.0,
                report.readings as f64 / lasted
            );
        }
        println!();
    }
    Ok(())
}

fn idle(world: &mut World, scheme: &str, seconds: Duration) -> Result<()> {
    let lane = Lane::new(world, scheme)?;
    let mut stream = lane.request(BEFORE_IDLE)?;
    let mut remaining = BEFORE_IDLE;
    let mut buffer = vec![0; 64 * 1024];
    while remaining > 0 {
        match stream.read(&mut buffer)? {
            0 => return Err("the server closed the connection".into()),
            n => remaining = remaining.saturating_sub(n),
        }
    }
    std::thread::sleep(Duration::from_secs(2));
    let count = || {
        let (runtime, _) = threads::did(lane.server.id());
        runtime
            .map(|did| did.sleeps)
            .ok_or("no thread of the runtime was found")
    };
    let before = count()?;
    std::thread::sleep(seconds);
    let woken = count()? - before;
    println!(
        "  {scheme:11} open and idle for {} s: {woken} wake-ups of the runtime (asked: 0), after {before} while busy",
        seconds.as_secs()
    );
    drop(stream);
    conclude(lane.server)?;
    Ok(())
}

fn main() -> Result<()> {
    let rounds = number("ALCC_BENCH_ROUNDS", 2)?;
    let seconds = Duration::from_secs(number("ALCC_BENCH_BUSY_SECONDS", 20)?);
    let quiet = Duration::from_secs(number("ALCC_BENCH_IDLE_SECONDS", 10)?);
    let mut world = World::new(FILE_SIZE)?;
    println!(
        "busy_and_idle: one download over 12 Mbit/s, RTT 40 ms, beside plain nginx on a link of its own; {rounds} rounds of {} s",
        seconds.as_secs()
    );
    let schemes = schemes(SCHEMES);
    for scheme in &schemes[1..] {
        busy(&mut world, [&schemes[0], scheme], rounds, seconds)?;
        if is_ours(scheme) {
            idle(&mut world, scheme, quiet)?;
        }
    }
    Ok(())
}
