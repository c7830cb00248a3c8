// SPDX-License-Identifier: Apache-2.0 OR MIT
use crate::events;
use crate::failure::Failure;
use crate::output::{Product, Reader, note};
use crate::progress::stop_flag;
use crate::running::Running;
use crate::runs::Which;
use alcc_observe::{TraceEntry, Traced};
use alcc_socket::now;
use alcc_units::{Bytes, Rate, Span, Time, positive};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Log the state of every connection of a running 'alcc run' over time, as CSV
///
/// Prints a line for each reading of a connection, that is, each time its TCP_INFO is read (about
/// every 5 ms while something is in flight): the algorithm's window and the kernel's, bytes in flight,
/// RTT, slow-start threshold, rates. The algorithms' events (end of slow start, modes, reductions) go
/// to standard error in between; --events prints only these. The processes publish readings in shared
/// memory while this command runs. 'alcc run --log DIR' logs from the start of each process.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  alcc log > readings.csv\n  alcc log --events\n  alcc log --run 4711 --duration 10s --out readings.csv"
)]
pub(crate) struct Args {
    #[command(flatten)]
    which: Which,
    /// Write to FILE instead of standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Stop after this time [default: when 'alcc run' ends, or at Ctrl-C]
    #[arg(long, value_name = "TIME", value_parser = positive::<Span>)]
    duration: Option<Span>,
    /// Print only the algorithms' events, one per line
    ///
    /// Such as '12.031 s 10.0.0.1:80 > 10.0.0.2:41234 copa slow start ended by ...'
    #[arg(long)]
    events: bool,
    /// Print each event as a JSON object
    #[arg(long, requires = "events")]
    json: bool,
}

/// Interval at which the ring is emptied. It holds 65536 readings.
const PERIOD: Duration = Duration::from_millis(20);
/// Columns of the CSV file.
const HEAD: &str = "time_ms,pid,connection,peer,acked_bytes,in_flight_bytes,unsent_bytes,window_bytes,cwnd_segments,ssthresh_segments,mss_bytes,rtt_ms,min_rtt_ms,pacing_mbps,delivery_mbps";

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let stop = stop_flag()?;
    let run = args.which.one()?;
    let mut out = Product::open(args.out.as_deref())?;
    let no_room = |what: &str, e| {
        Failure::usage(format!(
            "allocate memory for the {what} of run {}: {e}",
            run.id
        ))
    };
    let mut readings = (!args.events)
        .then(|| run.segment.trace())
        .transpose()
        .map_err(|e| no_room("readings", e))?;
    let mut events = run.segment.events().map_err(|e| no_room("events", e))?;
    let origin = now();
    let end = args.duration.map(|d| origin + d);
    let mut peers = Peers::default();
    let mut written = match &readings {
        Some(_) => out.add(|to| writeln!(to, "{HEAD}")),
        None => Ok(Reader::There),
    };
    while let Ok(Reader::There) = written {
        let at = now();
        let over = stop.load(Ordering::Relaxed) || end.is_some_and(|end| end <= at) || !run.lives();
        if !over {
            events.renew(at);
            readings.iter().for_each(|ring| ring.renew(at));
        }
        written = out.add(|to| {
            let mut result = Ok(());
            let mut and = |write: &mut dyn FnMut() -> std::io::Result<()>| {
                if result.is_ok() {
                    result = write();
                }
            };
            if let Some(readings) = &mut readings {
                readings.read(|traced| {
                    if let Traced::Reading(p) = traced {
                        and(&mut || line(to, origin, p, peers.of(&run, p)));
                    }
                });
                events.read(|e| note(events::sentence(origin, e)));
            } else if args.json {
                events.read(|e| and(&mut || writeln!(to, "{}", events::object(origin, e))));
            } else {
                events.read(|e| and(&mut || writeln!(to, "{}", events::sentence(origin, e))));
            }
            result
        });
        if over {
            break;
        }
        std::thread::sleep(PERIOD);
    }
    events.end();
    say_lost("events", events.lost());
    if let Some(readings) = readings {
        readings.end();
        say_lost("readings", readings.lost());
    }
    written.map(|_| ExitCode::SUCCESS)
}

/// Lost readings are reported once, at the end.
fn say_lost(what: &str, lost: u64) {
    if lost > 0 {
        note(format_args!(
            "alcc: {lost} {what} lost: they came faster than they could be written"
        ));
    }
}

fn line(out: &mut dyn Write, origin: Time, p: &TraceEntry, peer: &str) -> std::io::Result<()> {
    let bytes = |b: Option<Bytes>| b.map(|b| b.get().to_string()).unwrap_or_default();
    let rate = |r: Option<Rate>| {
        r.map(|r| format!("{:.3}", r.as_mbps_f64()))
            .unwrap_or_default()
    };
    let ssthresh = p.ssthresh.map(|n| n.to_string()).unwrap_or_default();
    writeln!(
        out,
        "{:.3},{},{},{peer},{},{},{},{},{},{ssthresh},{},{:.3},{:.3},{},{:.3}",
        p.at.since(origin).as_millis_f64(),
        p.pid,
        p.id,
        p.acked,
        p.in_flight.get(),
        p.unsent.get(),
        bytes(p.window),
        p.cwnd,
        p.mss.get(),
        p.rtt.as_millis_f64(),
        p.min_rtt.as_millis_f64(),
        rate(p.pacing),
        p.delivery.as_mbps_f64(),
    )
}

/// Peer addresses of connections; each is looked up once.
#[derive(Default)]
struct Peers(BTreeMap<(u32, u64), String>);

impl Peers {
    fn of(&mut self, run: &Running, p: &TraceEntry) -> &str {
        let key = (p.pid, p.id);
        if !self.0.contains_key(&key) {
            if self.0.len() > 100_000 {
                self.0.clear();
            }
            for c in run.segment.connections() {
                self.0.insert(
                    (c.who.pid, c.who.id & 0xFFFF_FFFF),
                    c.who.remote.to_string(),
                );
            }
            // It has ended already, or it is not shown.
            self.0.entry(key).or_default();
        }
        &self.0[&key]
    }
}
