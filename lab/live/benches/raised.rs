// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Time until a raised window acts. `cargo bench -p alcc-live --bench raised`, after `alcc bpf load`:
//! a sender with data waiting on an emulated path of 40 ms gets twice its window in the middle of a
//! round trip. Read is the time from that order to the first packet more, by the kernel's time
//! stamps of a capture beside the sender.
//!
//! Three ways: the window in the kernel with a kick, as the runtime does it; the same without, so
//! that it waits for an acknowledgement; and a gate, where the order wakes a program that writes.
//! `ALCC_BENCH_ROUNDS`: how often.
use alcc_emu::{Emulator, Namespace, PathSpec, Silent, Subnet};
use alcc_flow::Limit;
use alcc_link::{DirectionSpec, RateSpec};
use alcc_sys::{Steered, WINDOW_CONTROL};
use alcc_units::{Rate, Span};
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, MsgFlags, SockFlag, SockProtocol, SockType, recvmsg,
    setsockopt, socket, sockopt,
};
use nix::time::{ClockId, clock_gettime};
use std::io::{IoSliceMut, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const ASKED_MS: f64 = 0.5;
/// Each way, on a path that needs 30 of them.
const DELAY: Span = Span::from_millis(20);
const SMALL: u32 = 10;
const LARGE: u32 = 20;
/// Time without a packet after which the whole window is in flight.
const QUIET: Duration = Duration::from_millis(8);
/// The order fell into a burst after all, or no packet came.
const PATIENCE: Duration = Duration::from_millis(500);
/// Longer than a bare acknowledgement: IP's and TCP's headers with all options.
const HEADERS: usize = 120;

/// Mechanism that raises the window.
enum Way {
    /// The kernel, which gets the new window and a wake-up.
    Kicked(Steered),
    /// The kernel, which only gets the new window.
    Told(Steered),
    /// A program that waits to be woken.
    Gate(Sender<()>),
}

/// All packets of a namespace, with their times.
struct Packets(OwnedFd);

fn clock() -> Result<Duration> {
    Ok(clock_gettime(ClockId::CLOCK_REALTIME)?.into())
}

impl Packets {
    fn of(place: &Namespace) -> Result<Self> {
        let open = || -> nix::Result<OwnedFd> {
            let fd = socket(
                AddressFamily::Packet,
                SockType::Datagram,
                SockFlag::SOCK_NONBLOCK,
                SockProtocol::EthAll,
            )?;
            setsockopt(&fd, sockopt::ReceiveTimestampns, &true)?;
            Ok(fd)
        };
        Ok(Self(place.run(open)??))
    }

    /// Departure of the next packet with data, if one is there.
    fn next(&self) -> Result<Option<Duration>> {
        loop {
            let mut bytes = [0; 2048];
            let mut into = [IoSliceMut::new(&mut bytes)];
            let mut space = nix::cmsg_space!(nix::sys::time::TimeSpec);
            let fd = self.0.as_raw_fd();
            let got = recvmsg::<()>(fd, &mut into, Some(&mut space), MsgFlags::empty());
            let got = match got {
                Err(Errno::EAGAIN) => return Ok(None),
                got => got?,
            };
            let (len, mut about) = (got.bytes, got.cmsgs()?);
            let at = about.find_map(|about| match about {
                ControlMessageOwned::ScmTimestampns(at) => Some(Duration::from(at)),
                _ => None,
            });
            if len > HEADERS {
                return Ok(at);
            }
        }
    }

    /// Nothing with data has left for `time`.
    fn rest(&self, time: Duration) -> Result<()> {
        let mut last = Instant::now();
        while last.elapsed() < time {
            if self.next()?.is_some() {
                last = Instant::now();
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        Ok(())
    }
}

/// The order of this window. The gate has given leave for the small one already.
fn order(way: &Way, socket: &TcpStream, window: u32, beat: &mut u32) -> Result<()> {
    let limit = Limit {
        window,
        ..Limit::default()
    };
    *beat += 1;
    let fd = socket.as_raw_fd();
    match way {
        Way::Kicked(maps) => {
            maps.steer(fd, &limit, *beat)?;
            Steered::kick(fd);
        }
        Way::Told(maps) => maps.steer(fd, &limit, *beat)?,
        Way::Gate(wake) => {
            if window > SMALL {
                wake.send(())?;
            }
        }
    }
    Ok(())
}

/// Milliseconds from each order to the first packet more.
fn measure(name: &str, rounds: usize) -> Result<Vec<f64>> {
    let (outside, inside) = (Namespace::new()?, Namespace::new()?);
    let direction = DirectionSpec {
        rate: RateSpec::Fixed(Rate::mbps(100)),
        delay: DELAY,
        ..DirectionSpec::default()
    };
    let spec = PathSpec {
        down: direction.clone(),
        up: direction,
        seed: 1,
    };
    let link = Emulator::start(&outside, &inside, Subnet::default(), spec, Box::new(Silent))?;
    let listener = inside.run(|| TcpListener::bind((link.inside_addr(), 0)))??;
    let to = listener.local_addr()?;
    let socket = outside.run(|| TcpStream::connect(to))??;
    let (mut peer, _) = listener.accept()?;
    std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 18];
        while peer.read(&mut buffer).is_ok_and(|n| n > 0) {}
    });
    let mut program = socket.try_clone()?;
    let way = if name == "gate" {
        setsockopt(&socket, sockopt::TcpCongestion, &"cubic".into())?;
        let (wake, woken) = channel::<()>();
        std::thread::spawn(move || {
            let piece = vec![7; SMALL as usize * 1448];
            while woken.recv().is_ok() && program.write_all(&piece).is_ok() {}
        });
        Way::Gate(wake)
    } else {
        setsockopt(&socket, sockopt::TcpCongestion, &WINDOW_CONTROL.into())
            .map_err(|e| format!("choose {WINDOW_CONTROL}: {e}; 'alcc bpf load' loads it"))?;
        // More than waits at any time.
        std::thread::spawn(move || while program.write_all(&[7; 1 << 16]).is_ok() {});
        let maps = Steered::open()?;
        if name == "kicked" {
            Way::Kicked(maps)
        } else {
            Way::Told(maps)
        }
    };
    let packets = Packets::of(&outside)?;
    let mut beat = 0;
    let mut times = Vec::new();
    while times.len() < rounds {
        order(&way, &socket, SMALL, &mut beat)?;
        // Two round trips later the small window is in force, and its packets are under way.
        std::thread::sleep(Duration::from_millis(90));
        packets.rest(QUIET)?;
        let ordered = clock()?;
        order(&way, &socket, LARGE, &mut beat)?;
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            match packets.next()? {
                Some(at) if at >= ordered => {
                    times.push((at - ordered).as_secs_f64() * 1e3);
                    break;
                }
                Some(_) => {}
                None => std::thread::sleep(Duration::from_micros(100)),
            }
        }
    }
    drop(way);
    link.stop()?;
    times.sort_by(f64::total_cmp);
    Ok(times)
}

fn main() -> Result<()> {
    let rounds = match std::env::var("ALCC_BENCH_ROUNDS") {
        Err(_) => 300,
        Ok(text) => (text.parse())
            .map_err(|_| format!("ALCC_BENCH_ROUNDS={text}: a whole number is wanted"))?,
    };
    alcc_emu::prepare()?;
    println!(
        "raised: a window of {SMALL} packets becomes {LARGE} in the middle of a round trip of 40 ms; {rounds} times each"
    );
    println!("  way                           p50 ms      p99 ms      max ms");
    for (name, what) in [
        ("kicked", "window in the kernel, kicked"),
        ("gate", "gate: a program is woken"),
        ("told", "window in the kernel alone"),
    ] {
        let times = measure(name, rounds)?;
        let at = |share: f64| {
            let last = times.len().saturating_sub(1) as f64;
            times
                .get((share * last).round() as usize)
                .copied()
                .unwrap_or(f64::NAN)
        };
        println!(
            "  {what:28} {:8.3} {:11.3} {:11.3}",
            at(0.5),
            at(0.99),
            at(1.0)
        );
    }
    println!("  asked: p50 of the first at most {ASKED_MS} ms, p99 printed");
    Ok(())
}
