// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CPU cost of each transport: the sender pinned to one core, the receiver to another, over a veth
//! pair without rate or delay, every transport in turn with plain 64 KiB writes to a TCP socket.
//! `ALCC_BENCH_PAIRS`: number of pairs; `ALCC_BENCH_SECONDS`: length of each, s; `ALCC_BENCH_CC`:
//! the algorithm; arguments choose transports.
#[path = "../../live/benches/support/number.rs"]
mod number;

use alcc_emu::{Namespace, Subnet, veth};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use number::number;
use serde_json::Value;
use std::error::Error;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const SENDER_CORE: usize = 0;
const RECEIVER_CORE: usize = 1;
/// In-band beside plain writes, at 1 Gbit/s.
const ASKED: f64 = 1.5;
/// A part of a core, at 10 Mbit/s.
const ASKED_SHARE: f64 = 0.01;
const PLAIN: &str = "plain";
/// Says that this program is an end of a plain connection: `send ADDRESS BITS SECONDS` or `recv
/// ADDRESS`.
const ROLE: &str = "ALCC_BENCH_ROLE";
const PIECE: usize = 64 * 1024;
const PORT: u16 = 9700;

/// A window that never binds but keeps what is in flight below any receiver's buffer.
const CC: &str = "fixed:window=700";

struct Rate {
    text: &'static str,
    bps: f64,
}

const RATES: [Rate; 2] = [
    Rate {
        text: "1gbit",
        bps: 1e9,
    },
    Rate {
        text: "10mbit",
        bps: 1e7,
    },
];

fn pin(core: usize) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(core)?;
    sched_setaffinity(Pid::from_raw(0), &set)
        .map_err(|e| format!("pin to CPU {core} (two are needed): {e}").into())
}

fn cpu() -> Result<f64> {
    let t = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)?;
    Ok(t.tv_sec() as f64 + t.tv_nsec() as f64 / 1e9)
}

/// Report of one end, printed when it ends.
#[derive(Clone, Copy, Default)]
struct End {
    cpu: f64,
    bytes: f64,
    seconds: f64,
}

/// One run of one transport.
#[derive(Clone, Copy)]
struct Measured {
    sender: End,
    receiver: End,
}

impl Measured {
    fn per_gbit(&self) -> f64 {
        self.sender.cpu / (self.sender.bytes * 8e-9)
    }

    fn mbps(&self) -> f64 {
        self.sender.bytes * 8e-6 / self.sender.seconds
    }

    /// Parts of a core of both ends, by the time of the sender.
    fn shares(&self) -> [f64; 2] {
        [self.sender.cpu, self.receiver.cpu].map(|cpu| cpu / self.sender.seconds)
    }
}

/// The reference: what anybody would write. Says what it did as one JSON object.
fn plain(role: &str) -> Result<()> {
    let words: Vec<&str> = role.split(' ').collect();
    let mut buffer = vec![0x5a; PIECE];
    let mut bytes = 0.0;
    let (began, before) = match words[..] {
        ["send", to, bps, seconds] => {
            let (bps, seconds): (f64, f64) = (bps.parse()?, seconds.parse()?);
            let mut stream = TcpStream::connect(to)?;
            stream.set_nodelay(true)?;
            let (began, before) = (Instant::now(), cpu()?);
            // Like the others: some 10 ms at once, and 64 KiB at most.
            let piece = ((bps * 0.010 / 8.0) as usize).clamp(1400, PIECE);
            while began.elapsed().as_secs_f64() < seconds {
                let due = Duration::from_secs_f64(bytes * 8.0 / bps);
                if let Some(early) = due.checked_sub(began.elapsed()) {
                    std::thread::sleep(early);
                }
                stream.write_all(&buffer[..piece])?;
                bytes += piece as f64;
            }
            (began, before)
        }
        ["recv", at] => {
            let listener = TcpListener::bind(at)?;
            eprintln!("listening on {at}");
            let (mut stream, _) = listener.accept()?;
            let (began, before) = (Instant::now(), cpu()?);
            buffer.resize(2 * PIECE, 0);
            loop {
                match stream.read(&mut buffer)? {
                    0 => break,
                    n => bytes += n as f64,
                }
            }
            (began, before)
        }
        _ => return Err(format!("{ROLE}={role}").into()),
    };
    let end = serde_json::json!({"summary": {
        "cpu_s": cpu()? - before, "bytes": bytes, "seconds": began.elapsed().as_secs_f64(),
    }});
    println!("{end}");
    Ok(())
}

struct Lane {
    sender: Namespace,
    receiver: Namespace,
    alcc: PathBuf,
    scratch: tempfile::TempDir,
    cc: String,
}

/// A program, and where its output goes.
struct Going {
    child: Child,
    out: PathBuf,
    err: PathBuf,
}

impl Drop for Going {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Lane {
    fn start(
        &self,
        command: &mut Command,
        at: &Namespace,
        core: usize,
        name: &str,
    ) -> Result<Going> {
        let file = |kind| self.scratch.path().join(format!("{name}.{kind}"));
        let (out, err) = (file("out"), file("err"));
        command
            .stdin(Stdio::null())
            .stdout(File::create(&out)?)
            .stderr(File::create(&err)?);
        // A program inherits it.
        pin(core)?;
        let command = std::mem::replace(command, Command::new(""));
        let child = at.spawn(command)?;
        Ok(Going { child, out, err })
    }

    fn run(&self, transport: &str, rate: &Rate, seconds: u64) -> Result<Measured> {
        let net = Subnet::default();
        let at = SocketAddr::from((net.inside(), PORT));
        let us = std::env::current_exe()?;
        let (mut recv, mut send);
        if transport == PLAIN {
            (recv, send) = (Command::new(&us), Command::new(&us));
            recv.env(ROLE, format!("recv {at}"));
            send.env(ROLE, format!("send {at} {} {seconds}", rate.bps));
        } else {
            (recv, send) = (Command::new(&self.alcc), Command::new(&self.alcc));
            recv.args(["recv", "--once", "--json", "--insecure"])
                .args(["--transport", transport]);
            send.args(["send", "--json", "--insecure", "--rate", rate.text])
                .args(["--duration", &format!("{seconds}s")])
                .args(["--transport", transport, "--cc", &self.cc])
                .arg(at.to_string());
        }
        let recv = self.start(&mut recv, &self.receiver, RECEIVER_CORE, "recv")?;
        let until = Instant::now() + Duration::from_secs(10);
        while !std::fs::read_to_string(&recv.err)?.contains("listening on") {
            if Instant::now() > until {
                return Err(format!("{transport}: the receiver does not begin").into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let send = self.start(&mut send, &self.sender, SENDER_CORE, "send")?;
        let patience = Duration::from_secs(seconds + 30);
        Ok(Measured {
            sender: end(send, transport, patience)?,
            receiver: end(recv, transport, Duration::from_secs(30))?,
        })
    }
}

fn end(mut going: Going, transport: &str, patience: Duration) -> Result<End> {
    let until = Instant::now() + patience;
    let status = loop {
        if let Some(status) = going.child.try_wait()? {
            break status;
        }
        if Instant::now() > until {
            return Err(format!("{transport}: it does not end").into());
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let said = std::fs::read_to_string(&going.err)?;
    if !status.success() {
        return Err(format!("{transport}: {}", said.trim()).into());
    }
    let told: Value = serde_json::from_str(&std::fs::read_to_string(&going.out)?)?;
    let field = |name: &str| {
        let value = told["summary"][name].as_f64();
        value.ok_or_else(|| format!("{transport}: no {name} in its summary"))
    };
    Ok(End {
        cpu: field("cpu_s")?,
        bytes: field("bytes")?,
        seconds: field("seconds")?,
    })
}

/// Those that the program has, or those that were asked for.
fn transports(alcc: &Path) -> Result<Vec<String>> {
    let asked: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| !a.starts_with('-'))
        .collect();
    let list = Command::new(alcc).args(["list", "--json"]).output()?;
    let list: Value = serde_json::from_slice(&list.stdout)?;
    let known = list["transports"].as_array().ok_or("no transports")?;
    let known = known.iter().filter_map(|t| t["name"].as_str());
    Ok(std::iter::once(PLAIN)
        .chain(known)
        .filter(|name| *name == PLAIN || asked.is_empty() || asked.iter().any(|a| a == name))
        .map(str::to_owned)
        .collect())
}

struct Spread {
    min: f64,
    median: f64,
    max: f64,
}

fn spread(values: impl Iterator<Item = f64>) -> Spread {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    let at = |i: usize| sorted.get(i).copied().unwrap_or(f64::NAN);
    let n = sorted.len();
    Spread {
        min: at(0),
        median: f64::midpoint(at(n.saturating_sub(1) / 2), at(n / 2)),
        max: at(n.saturating_sub(1)),
    }
}

fn show(s: &Spread, scale: f64, digits: usize) -> String {
    let number = |v: f64| format!("{:.digits$}", v * scale);
    format!(
        "{} ({} to {})",
        number(s.median),
        number(s.min),
        number(s.max)
    )
}

fn main() -> Result<()> {
    if let Ok(role) = std::env::var(ROLE) {
        return plain(&role);
    }
    alcc_emu::prepare()?;
    let pairs = number("ALCC_BENCH_PAIRS", 5)? as usize;
    let seconds = number("ALCC_BENCH_SECONDS", 5)?;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let alcc =
        std::env::var_os("ALCC_BIN").map_or_else(|| target.join("release/alcc-lab"), PathBuf::from);
    if !alcc.is_file() {
        return Err(format!(
            "{} is not there: run 'make build' first, or name the program in ALCC_BIN",
            alcc.display()
        )
        .into());
    }
    let transports = transports(&alcc)?;
    let (sender, receiver) = (Namespace::new()?, Namespace::new()?);
    veth(&sender, &receiver, Subnet::default())?;
    let lane = Lane {
        sender,
        receiver,
        alcc,
        scratch: tempfile::tempdir()?,
        cc: std::env::var("ALCC_BENCH_CC").unwrap_or_else(|_| CC.to_owned()),
    };
    println!(
        "transports: sender on CPU {SENDER_CORE}, receiver on CPU {RECEIVER_CORE}, veth, {} with {}; plain: 64 KiB writes to a TCP socket; {pairs} rounds of {seconds} s each",
        transports[1..].join(", "),
        lane.cc
    );
    let mut failed = Vec::new();
    for rate in &RATES {
        let mut all: Vec<Vec<Measured>> = vec![Vec::new(); transports.len()];
        for round in 0..pairs {
            // Whoever goes first goes later next time: what drifts cancels out.
            for i in 0..transports.len() {
                let which = (i + round) % transports.len();
                match lane.run(&transports[which], rate, seconds) {
                    Ok(measured) => all[which].push(measured),
                    Err(why) => failed.push(format!("{}: {why}", rate.text)),
                }
            }
        }
        println!("  {}: median (least to most)", rate.text);
        println!(
            "  {:10} {:>10}  {:24} {:22} {:26} {:26}",
            "",
            "Mbit/s",
            "sender CPU s/Gbit",
            "ratio to plain",
            "sender % of a core",
            "receiver % of a core"
        );
        for (name, runs) in transports.iter().zip(&all) {
            let ratios = runs
                .iter()
                .zip(&all[0])
                .map(|(r, p)| r.per_gbit() / p.per_gbit());
            let ratio = spread(ratios);
            let shares = [0, 1].map(|i| spread(runs.iter().map(|r| r.shares()[i])));
            println!(
                "  {name:10} {:10.1}  {:24} {:22} {:26} {:26}",
                spread(runs.iter().map(Measured::mbps)).median,
                show(&spread(runs.iter().map(Measured::per_gbit)), 1.0, 4),
                show(&ratio, 1.0, 2),
                show(&shares[0], 100.0, 2),
                show(&shares[1], 100.0, 2),
            );
        }
    }
    println!(
        "  asked: in-band at most {ASKED} x plain at {}; each at most {} % of a core at {}",
        RATES[0].text,
        ASKED_SHARE * 100.0,
        RATES[1].text
    );
    for why in &failed {
        println!("  failed: {why}");
    }
    Ok(())
}
