// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CPU cost of relaying: `alcc proxy` beside plain relays, one download at a time at full speed.
//! The relay is pinned to one core, nginx and the client to another. `ALCC_BENCH_ROUNDS`: number of
//! rounds; `ALCC_BENCH_SECONDS`: length of each, s.
#[path = "support/core.rs"]
#[allow(dead_code, reason = "others look at the core itself")]
mod core;
#[path = "support/median.rs"]
mod median;
#[allow(dead_code, reason = "others control the server")]
mod support;

use crate::core::pin;
use alcc_emu::{Namespace, Subnet, veth};
use alcc_live::cpu;
use alcc_live::server::PORT;
use median::median;
use nix::sys::socket::{MsgFlags, recv};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::{Result, World, number, request_at, under};

const RELAY_CORE: usize = 0;
const OTHERS_CORE: usize = 1;
const FILE_SIZE: usize = 128 << 20;
const REQUESTS: usize = 100;
/// Set in the process that is the copying loop: where it listens.
const COPY_LOOP: &str = "ALCC_BENCH_COPY_LOOP";

/// The plainest relay there is: two threads per connection, each with 64 KiB, blocking.
fn copy_loop(port: u16) -> Result<()> {
    fn copy(mut from: TcpStream, mut to: TcpStream) -> std::io::Result<()> {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            match from.read(&mut buffer)? {
                0 => return to.shutdown(std::net::Shutdown::Write),
                n => to.write_all(&buffer[..n])?,
            }
        }
    }
    for client in TcpListener::bind(("0.0.0.0", port))?.incoming() {
        let client = client?;
        let server = TcpStream::connect(("127.0.0.1", PORT))?;
        let (a, b) = (client.try_clone()?, server.try_clone()?);
        std::thread::spawn(move || copy(a, b));
        std::thread::spawn(move || copy(server, client));
    }
    Ok(())
}

struct Relay {
    name: String,
    port: u16,
    child: Child,
    gbit_per_s: Vec<f64>,
    cpu_per_gbit: Vec<f64>,
}

impl Drop for Relay {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn haproxy() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .chain([PathBuf::from("/usr/sbin"), "target/deps/bin".into()])
        .map(|folder| folder.join("haproxy"))
        .find(|program| program.is_file())
}

/// The programs to compare, the peer first; each gets a port.
fn commands(world: &World) -> Result<Vec<(String, Command)>> {
    let (alcc, scratch) = world.alcc_and_scratch();
    let mut copy = Command::new(std::env::current_exe()?);
    copy.env(COPY_LOOP, "9100");
    let mut all = vec![("copying loop, 64 KiB".to_owned(), copy)];
    match haproxy() {
        None => println!("relay: no haproxy on the PATH, so it is not among the peers"),
        Some(program) => {
            let file = scratch.join("haproxy.cfg");
            std::fs::write(
                &file,
                format!(
                    "global\n nbthread 1\n maxconn 1000\ndefaults\n mode tcp\n timeout connect 5s\n timeout client 60s\n timeout server 60s\n\
                     frontend f\n bind :{}\n default_backend b\nbackend b\n server s 127.0.0.1:{PORT}\n",
                    9100 + all.len()
                ),
            )?;
            let mut command = Command::new(std::path::absolute(program)?);
            command.arg("-db").arg("-f").arg(&file);
            all.push(("haproxy, mode tcp".to_owned(), command));
        }
    }
    for (name, options) in [
        ("alcc proxy, uncontrolled", &["--except", "0.0.0.0/0"][..]),
        ("alcc proxy, never full", &["--cc", "fixed:window=1000000"]),
        ("alcc proxy, verus", &["--cc", "verus"]),
    ] {
        let mut command = Command::new(alcc);
        command
            .args(["proxy", "--threads", "1", "--quiet"])
            .args(["--to", &format!("127.0.0.1:{PORT}")])
            .args(["--listen", &format!(":{}", 9100 + all.len())])
            .args(options);
        all.push((name.to_owned(), command));
    }
    Ok(all)
}

fn start(world: &World, outside: &Namespace) -> Result<Vec<Relay>> {
    let mut relays = Vec::new();
    for (i, (name, mut command)) in commands(world)?.into_iter().enumerate() {
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let child = outside.spawn(command)?;
        let relay = Relay {
            name,
            port: 9100 + i as u16,
            child,
            gbit_per_s: Vec::new(),
            cpu_per_gbit: Vec::new(),
        };
        let deadline = Instant::now() + Duration::from_secs(5);
        while outside
            .run(|| TcpStream::connect(("127.0.0.1", relay.port)))?
            .is_err()
        {
            if Instant::now() > deadline {
                return Err(format!("{} does not listen", relay.name).into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        relays.push(relay);
    }
    Ok(relays)
}

/// Gbit received, and the relay's CPU seconds.
fn download(relay: &Relay, inside: &Namespace, time: Duration) -> Result<(f64, f64)> {
    let at = SocketAddr::from((Subnet::default().outside(), relay.port));
    let stream = request_at(inside, at, REQUESTS, FILE_SIZE)?;
    let mut buffer = vec![0; 1 << 20];
    let mut read = |time: Duration| -> Result<u64> {
        let (began, mut bytes) = (Instant::now(), 0);
        while began.elapsed() < time {
            // TCP discards what is received with MSG_TRUNC instead of copying it: the client must
            // not be the limit.
            match recv(stream.as_raw_fd(), &mut buffer, MsgFlags::MSG_TRUNC)? {
                0 => return Err(format!("{} ended the download", relay.name).into()),
                n => bytes += n as u64,
            }
        }
        Ok(bytes)
    };
    read(Duration::from_millis(300))?;
    let cpu = || cpu::of_tree(relay.child.id()).ok_or("no /proc/*/schedstat");
    let before = cpu()?;
    let gbit = read(time)? as f64 * 8e-9;
    Ok((gbit, cpu()?.saturating_sub(before).as_secs_f64()))
}

fn main() -> Result<()> {
    if let Ok(port) = std::env::var(COPY_LOOP) {
        return copy_loop(port.parse()?);
    }
    let rounds = number("ALCC_BENCH_ROUNDS", 5)?;
    let seconds = Duration::from_secs(number("ALCC_BENCH_SECONDS", 2)?);
    let mut world = World::new(FILE_SIZE)?;
    let (outside, inside) = (Namespace::new()?, Namespace::new()?);
    let net = Subnet::default();
    veth(&outside, &inside, net)?;
    under(&outside, net.outside(), net.inside(), "cubic")?;
    pin(OTHERS_CORE)?;
    let server = world.serve(&outside, "cubic")?;
    // Threads and programs inherit it.
    pin(RELAY_CORE)?;
    let mut relays = start(&world, &outside)?;
    pin(OTHERS_CORE)?;
    println!(
        "relay: relays on CPU {RELAY_CORE}, nginx and client on CPU {OTHERS_CORE}, veth; {rounds} rounds of {} s each",
        seconds.as_secs()
    );
    for _ in 0..rounds {
        for relay in &mut relays {
            let (gbit, cpu) = download(relay, &inside, seconds)?;
            relay.gbit_per_s.push(gbit / seconds.as_secs_f64());
            relay.cpu_per_gbit.push(cpu / gbit);
        }
    }
    println!(
        "  relay                       Gbit/s   CPU s/Gbit (min, max)      ratio of CPU to the first"
    );
    let first = median(&relays[0].cpu_per_gbit);
    for relay in &relays {
        let cpu = &relay.cpu_per_gbit;
        let (min, max) = cpu.iter().fold((f64::INFINITY, 0.0f64), |(lo, hi), c| {
            (lo.min(*c), hi.max(*c))
        });
        println!(
            "  {:25} {:8.2} {:12.4} ({min:.4}, {max:.4}) {:10.2}",
            relay.name,
            median(&relay.gbit_per_s),
            median(cpu),
            median(cpu) / first
        );
    }
    drop(server);
    Ok(())
}
