// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel's algorithms on connections of the machine's own kernel, over links that lose, delay and
//! reorder packets: their reaction to losses, timeouts and spurious losses that the stack reports.
#[path = "../../bpf/tests/support/mod.rs"]
mod controls;
#[path = "support/early.rs"]
mod early;
#[path = "support/starts.rs"]
mod starts;

use alcc_bpf::{BpfError, RESIDENT, Resident};
use alcc_emu::{EmuReport, Emulator, Namespace, PathSpec, Silent, Subnet};
use alcc_link::{Changes, DirectionSpec, RateSpec, Step};
use alcc_sys::{read, tcp_counters};
use alcc_trace::Trace;
use alcc_units::{Rate, Span, Time};
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::{SndBuf, TcpCongestion};
use starts::first_right;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// 40 ms, a queue of 100 packets.
fn path(rate: RateSpec, loss: f64) -> PathSpec {
    let way = |rate, loss| DirectionSpec {
        delay: Span::from_millis(20),
        rate,
        queue: "droptail:packets=100".parse().unwrap(),
        loss,
        ..DirectionSpec::default()
    };
    PathSpec {
        down: way(rate, loss),
        up: way(RateSpec::Fixed(Rate::mbps(50)), 0.0),
        seed: 1,
    }
}

/// A route of 60 ms one way that is one of 10 ms every other half of a second: what is in flight then is overtaken.
fn overtaken() -> PathSpec {
    let mut path = path(RateSpec::Fixed(Rate::mbps(12)), 0.0);
    path.down.delay = Span::from_millis(60);
    path.down.changes = Changes {
        steps: vec![Step {
            at: Time::from_millis(500),
            delay: Some(Span::from_millis(10)),
            ..Step::default()
        }],
        repeat: Some(Span::from_secs(1)),
        reorder: true,
    };
    path
}

/// Number of losses that the stack has found to be spurious, in the namespace of this thread.
fn undone() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/net/netstat").unwrap();
    let mut lines = text.lines().filter(|line| line.starts_with("TcpExt:"));
    let [names, values] = [(); 2].map(|()| lines.next().unwrap().split_whitespace());
    let of_undos = |name: &str| name.starts_with("TCP") && name.ends_with("Undo");
    let undos = names.zip(values).filter(|(name, _)| of_undos(name));
    undos.map(|(_, value)| value.parse::<u64>().unwrap()).sum()
}

/// Measurements of a transfer.
#[derive(Debug)]
struct Seen {
    mbps: f64,
    retransmits: u64,
    timeouts: Option<u64>,
    undone: u64,
    /// Smallest and largest window, and the largest threshold in the second half. Segments.
    least: u64,
    most: u64,
    ssthresh: u64,
    report: EmuReport,
}

/// Byte `i` of a transfer.
fn byte(i: usize) -> u8 {
    (i * 7 + i / 251) as u8
}

/// Sends through `path` for `seconds` with this control, and checks every byte.
fn transfer(control: &str, path: PathSpec, seconds: u64) -> Seen {
    let (outside, inside) = (Namespace::new().unwrap(), Namespace::new().unwrap());
    let link =
        Emulator::start(&outside, &inside, Subnet::default(), path, Box::new(Silent)).unwrap();
    let at = (link.outside_addr(), 9000);
    let listener = outside.run(|| TcpListener::bind(at)).unwrap().unwrap();
    setsockopt(&listener, TcpCongestion, &control.into()).unwrap();
    let mut client = inside.run(|| TcpStream::connect(at)).unwrap().unwrap();
    let (mut server, _) = listener.accept().unwrap();
    // Little more than the link holds, so that the end comes soon.
    setsockopt(&server, SndBuf, &400_000).unwrap();
    let fd = server.as_raw_fd();
    let over = AtomicBool::new(false);
    let (mut least, mut most, mut ssthresh) = (u64::MAX, 0, 0);
    let span = Duration::from_secs(seconds);
    let got = std::thread::scope(|threads| {
        threads.spawn(|| {
            let mut sent = 0;
            while !over.load(Ordering::Relaxed) {
                let block: Vec<u8> = (sent..sent + 20_000).map(byte).collect();
                sent += server.write(&block).unwrap();
            }
            server.shutdown(std::net::Shutdown::Write).unwrap();
        });
        let reader = threads.spawn(|| {
            let mut block = vec![0; 65_536];
            let (mut all, mut within) = (0, 0);
            let began = Instant::now();
            loop {
                let n = client.read(&mut block).unwrap();
                if n == 0 {
                    return within;
                }
                let right = (all..all + n).zip(&block).all(|(i, b)| byte(i) == *b);
                assert!(right, "{control}: the bytes arrive as they were sent");
                all += n;
                if began.elapsed() < span {
                    within = all;
                }
            }
        });
        let began = Instant::now();
        while began.elapsed() < span {
            std::thread::sleep(Duration::from_millis(5));
            let Some(reading) = read(fd) else { continue };
            least = least.min(reading.cwnd);
            most = most.max(reading.cwnd);
            if began.elapsed() > span / 2 {
                ssthresh = ssthresh.max(reading.ssthresh.unwrap_or(0));
            }
        }
        over.store(true, Ordering::Relaxed);
        reader.join().unwrap()
    });
    let counters = tcp_counters(fd).unwrap();
    drop((server, client));
    let seen = Seen {
        mbps: got as f64 * 8.0 / 1e6 / seconds as f64,
        retransmits: counters.retransmits,
        timeouts: counters.timeouts,
        undone: outside.run(undone).unwrap(),
        least,
        most,
        ssthresh,
        report: link.stop().unwrap(),
    };
    let wait = seen.report.down.queue_delay_mean.unwrap_or_default();
    println!(
        "{control}: {:.2} Mbit/s, {:.1} ms of queue, {} retransmits, {:?} timeouts, {} undone, window {} to {}, threshold {}",
        seen.mbps,
        wait.as_millis_f64(),
        seen.retransmits,
        seen.timeouts,
        seen.undone,
        least,
        most,
        ssthresh
    );
    seen
}

/// At least this much of 12 Mbit/s at 1 % loss. Those that halve for a loss have few.
fn least_mbps(algorithm: &str) -> f64 {
    match algorithm {
        "vegas" => 1.5,
        "bic" | "westwood" => 2.5,
        _ => 8.0,
    }
}

/// One test, because all of it shares the machine's one kernel.
#[test]
fn losses_and_timeouts_reach_every_algorithm_in_the_kernel() {
    if let Err(why) = alcc_emu::available() {
        println!("skipped: needs namespaces ({why})");
        return;
    }
    let _alone = controls::controls_alone();
    match alcc_bpf::load(None) {
        Ok(_) => {}
        Err(error @ (BpfError::Forbidden { .. } | BpfError::NoBtf)) => {
            println!("skipped: needs the right to load BPF programs: {error}");
            return;
        }
        Err(error) => panic!("{error}"),
    }
    // A packet per millisecond for three seconds, and two of silence.
    let mut opportunities: Vec<u32> = (1..=3000).collect();
    opportunities.push(5000);
    let trace = Trace::new(opportunities).unwrap();
    // They wait for their links: some at once.
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while let Some(resident) = RESIDENT.get(next.fetch_add(1, Ordering::Relaxed)) {
                    is_reached(resident, &trace);
                }
            });
        }
    });
    alcc_bpf::unload().unwrap();
}

/// Losses are repaired, and timeouts are seen.
fn is_reached(resident: &Resident, trace: &Trace) {
    let (name, control) = (resident.algorithm, resident.control.name);
    let lossy = || transfer(control, path(RateSpec::Fixed(Rate::mbps(12)), 0.01), 6);
    let lossy = first_right(3, lossy, |lossy| lossy.mbps >= least_mbps(name));
    assert!(lossy.retransmits >= 5, "{name}: losses are repaired");
    // 12 Mbit/s for five seconds of seven.
    let broken = || transfer(control, path(RateSpec::Trace(trace.clone()), 0.0), 7);
    let broken = first_right(3, broken, |broken| broken.mbps > 3.5);
    assert!(broken.timeouts.is_none_or(|n| n > 0), "{name}: no timeout");
    assert!(
        broken.least <= 4 && broken.most > 20,
        "{name}: after a timeout"
    );
    if name == "verus" {
        let seen = first_right(3, || transfer(control, overtaken(), 6), |s| s.mbps >= 6.0);
        assert!(seen.undone > 0, "{name}: {seen:?}");
    }
    if name == "westwood" {
        // What the empty path holds, as far as it was used: up to 40 packets. Deaf to the
        // stack's events it would be half of the window, 15 on the one link and 72 on the
        // other.
        for seen in [&lossy, &broken] {
            // At least this number of the packets that passed in 40 ms.
            let used = seen.mbps * 1e6 / 8.0 * 0.04 / 1500.0;
            let least = (0.8 * used).min(20.0) as u64;
            assert!(
                (least..=60).contains(&seen.ssthresh),
                "{name}: threshold {} of {used:.1}",
                seen.ssthresh
            );
        }
    }
}
