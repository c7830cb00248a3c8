// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Limits of the kernel for a program that wants the whole link: it gets no more than with BBR, which
//! any user can select.
use super::starts::first_right;
use super::support::{self, World};
use super::{alcc, controls};
use alcc_flow::Limit;
use alcc_sys::{Steered, WINDOW_CONTROL};
use alcc_units::Span;
use nix::sys::socket::{
    setsockopt,
    sockopt::{Linger, TcpCongestion},
};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const MBPS: u64 = 20;
const TEST: Duration = Duration::from_secs(15);

/// The rate of a connection, and the number of its retransmitted segments.
#[derive(Clone, Copy, Debug)]
struct Got {
    mbps: f64,
    again: u64,
}

/// A flow that takes the link from its neighbour.
#[derive(Clone, Copy, Debug)]
enum Taker {
    /// The kernel's own, for comparison.
    Control(&'static str),
    /// A window that no path has, over and over.
    Window,
    /// The same, and a control without memory of it in between.
    Turns,
}

/// 20 Mbit/s, 40 ms, 100 kB of queue.
fn link() -> alcc_emu::PathSpec {
    let mut path = support::link(MBPS);
    path.down.queue = "droptail:bytes=100kB".parse().unwrap();
    for way in [&mut path.down, &mut path.up] {
        way.delay = Span::from_millis(20);
    }
    path
}

fn steer(socket: &TcpStream, taker: Taker, done: &AtomicBool) {
    let choose = |name: &str| setsockopt(socket, TcpCongestion, &name.into()).unwrap();
    if let Taker::Control(name) = taker {
        return choose(name);
    }
    choose(WINDOW_CONTROL);
    let steered = Steered::open().unwrap();
    let wish = Limit {
        window: 65_536,
        ..Limit::default()
    };
    let mut beat = 0;
    while !done.load(Ordering::Relaxed) {
        beat += 1;
        if matches!(taker, Taker::Turns) && beat % 10 == 0 {
            choose("reno");
            choose(WINDOW_CONTROL);
        }
        steered.steer(socket.as_raw_fd(), &wish, beat).unwrap();
        Steered::kick(socket.as_raw_fd());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// CUBIC and the other, which comes `late`, through one queue: what each got.
fn side_by_side(taker: Taker, late: Duration) -> [Got; 2] {
    let world = World::new(link());
    let listen = || TcpListener::bind("0.0.0.0:9000").unwrap();
    let listener = world.outside.run(listen).unwrap();
    let done = AtomicBool::new(false);
    let got = std::thread::scope(|threads| {
        let start = |taker| {
            let mut client = world.connect(9000);
            let (server, _) = listener.accept().unwrap();
            let (mut writes, steers) = (server.try_clone().unwrap(), server.try_clone().unwrap());
            let done = &done;
            threads.spawn(move || steer(&steers, taker, done));
            threads.spawn(move || while writes.write_all(&[7; 16_384]).is_ok() {});
            threads.spawn(move || {
                let mut block = [0; 65_536];
                while client.read(&mut block).is_ok_and(|n| n > 0) {}
            });
            server
        };
        let cubic = start(Taker::Control("cubic"));
        std::thread::sleep(late);
        let flows = [cubic, start(taker)];
        std::thread::sleep(TEST);
        let got = flows.each_ref().map(|server| {
            let counters = alcc_sys::tcp_counters(server.as_raw_fd()).unwrap();
            Got {
                mbps: counters.acked as f64 * 8e-6 / TEST.as_secs_f64(),
                again: counters.retransmits,
            }
        });
        done.store(true, Ordering::Relaxed);
        for server in flows {
            let now = nix::libc::linger {
                l_onoff: 1,
                l_linger: 0,
            };
            setsockopt(&server, Linger, &now).unwrap();
            server.shutdown(Shutdown::Both).unwrap();
        }
        got
    });
    world.end();
    got
}

/// The controls, loaded.
fn loaded() -> Option<controls::Alone> {
    if support::impossible() {
        return None;
    }
    let alone = controls::controls_alone();
    if alcc("bpf load").status.code() == Some(2) {
        println!("skipped: needs the right to load BPF programs");
        return None;
    }
    Some(alone)
}

#[test]
fn a_window_takes_no_more_of_a_link_than_bbr() {
    // Shares of a link are not meaningful on an emulated processor.
    if std::env::var_os("ALCC_SLOW_MACHINE").is_some() {
        println!("skipped: needs a machine that keeps up with 20 Mbit/s six times");
        return;
    }
    let Some(_alone) = loaded() else {
        return;
    };
    let controls = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    if !controls
        .unwrap()
        .split_whitespace()
        .any(|name| name == "bbr")
    {
        println!("skipped: needs the kernel's bbr");
        return;
    }
    // All at once, so that what the machine does meanwhile it does to all of them.
    let takers = [Taker::Control("bbr"), Taker::Window, Taker::Turns];
    let late = [Duration::ZERO, Duration::from_secs(3)];
    let all = || {
        std::thread::scope(|threads| {
            let start = |taker, late| threads.spawn(move || side_by_side(taker, late));
            let runs = late.map(|late| takers.map(|taker| start(taker, late)));
            runs.map(|runs| runs.map(|run| run.join().unwrap()))
        })
    };
    let is_bounded = |of: &[[[Got; 2]; 3]; 2]| {
        of.iter().all(|[[beside_bbr, bbr], ours @ ..]| {
            let bounded = |[beside, taker]: &[Got; 2]| {
                beside.mbps >= beside_bbr.mbps && taker.again <= 2 * bbr.again
            };
            ours.iter().all(bounded)
        })
    };
    let seen = first_right(3, all, is_bounded);
    for (late, seen) in late.iter().zip(seen) {
        for (taker, [cubic, other]) in takers.iter().zip(seen) {
            println!("{taker:?} after {late:?}: {cubic:?} beside {other:?}");
        }
    }
}

/// The share of a link with 1 % random loss that `copa` above the kernel's window gets.
fn through_random_losses() -> f64 {
    let mut path = link();
    path.down.loss = 0.01;
    let world = World::new(path);
    let file = std::fs::File::create(world.path("www/f")).unwrap();
    file.set_len(1 << 30).unwrap();
    let server = world.serve(Some(&["--cc", "copa", "--enforce", "bpf"]));
    let seconds = TEST.as_secs();
    let out = world.client(&format!(
        "curl -s -o /dev/null --max-time {seconds} -w '%{{size_download}}' http://$S:8080/f"
    ));
    let (_, said) = server.stop();
    assert!(said.contains("bpf / bpf"), "{said}");
    world.end();
    let bytes: f64 = String::from_utf8(out.stdout).unwrap().parse().unwrap();
    bytes * 8e-6 / TEST.as_secs_f64() / MBPS as f64
}

/// The bound leaves the algorithm above it what it is for.
#[test]
fn random_losses_do_not_bound_the_window() {
    let Some(_alone) = loaded() else {
        return;
    };
    let is_full = |share: &f64| *share >= 0.85 || controls::slow_machine();
    let share = first_right(3, through_random_losses, is_full);
    println!("{:.0} % of the link", share * 100.0);
}
