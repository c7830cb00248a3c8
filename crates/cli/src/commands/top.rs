// SPDX-License-Identifier: Apache-2.0 OR MIT
use crate::failure::Failure;
use crate::output::{Reader, print};
use crate::progress::stop_flag;
use crate::runs::{Running, Which};
use crate::summary::{uncontrolled, uncontrolled_lines};
use crate::wording::count;
use alcc_observe::{State, StatusRecord};
use alcc_socket::now;
use alcc_units::{Rate, Span, Time, positive};
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Show the connections of running 'alcc run', live
///
/// One line per connection: the algorithm's window and the kernel's (cwnd), bytes in flight, RTT
/// and what of it is queueing, the rate at which bytes pass, and how often the gate closed. On a
/// terminal the table is drawn anew every second; otherwise one table follows the other.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  alcc top\n  alcc top --once --json\n  alcc top --sort delay --interval 2s"
)]
pub(crate) struct Args {
    #[command(flatten)]
    which: Which,
    /// One table, then end
    #[arg(long)]
    once: bool,
    /// Print JSON, one object for each table
    #[arg(long)]
    json: bool,
    /// What the table is sorted by, largest first
    #[arg(long, value_name = "KEY", default_value = "rate")]
    sort: Key,
    /// Time from table to table
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = positive::<Span>)]
    interval: Span,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Key {
    Rate,
    Bytes,
    Window,
    Inflight,
    Rtt,
    Delay,
    Gates,
    Peer,
}

/// A connection and its rate.
struct Row {
    run: u32,
    record: StatusRecord,
    rate: Rate,
}

/// Bytes at the last scan, by run, process and connection.
type Before = BTreeMap<(u32, u32, u64), (Time, u64)>;

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let stop = stop_flag()?;
    let interval = Duration::from_nanos(args.interval.as_nanos().max(100_000_000));
    let draw = std::io::stdout().is_terminal() && !args.once && !args.json;
    let mut before = Before::new();
    look(&args.which.some()?, &mut before);
    // A rate needs two scans.
    nap(interval.min(Duration::from_millis(300)), &stop);
    loop {
        let runs = match args.which.some() {
            // All have ended meanwhile.
            Err(Failure::Failed(_)) if !args.once => return Ok(ExitCode::SUCCESS),
            runs => runs?,
        };
        let mut rows = look(&runs, &mut before);
        sort(&mut rows, args.sort);
        let text = if args.json {
            format!("{}\n", as_json(&runs, &rows))
        } else {
            table(&runs, &rows, if draw { height() } else { usize::MAX })
        };
        // Cursor home, the text, and clear what is below.
        let text = if draw {
            format!("\x1b[H{}\x1b[J", text.replace('\n', "\x1b[K\n"))
        } else {
            text
        };
        let reader = print(text)?;
        if args.once || reader == Reader::Gone || nap(interval, &stop) {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

/// Sleeps. True if the program should end.
fn nap(time: Duration, stop: &std::sync::atomic::AtomicBool) -> bool {
    let until = std::time::Instant::now() + time;
    while let Some(left) = until.checked_duration_since(std::time::Instant::now()) {
        if stop.load(Ordering::Relaxed) {
            return true;
        }
        std::thread::sleep(left.min(Duration::from_millis(50)));
    }
    stop.load(Ordering::Relaxed)
}

fn look(runs: &[Running], before: &mut Before) -> Vec<Row> {
    let mut after = Before::new();
    let mut rows = Vec::new();
    for run in runs {
        run.tidy();
        for record in run.segment.connections() {
            let key = (run.id, record.who.pid, record.who.id);
            let at = now();
            let bytes = record.now.bytes;
            let (since, had) = before.get(&key).copied().unwrap_or((record.who.started, 0));
            after.insert(key, (at, bytes));
            let passed = alcc_units::Bytes::new(bytes.saturating_sub(had));
            let time = at.since(since);
            rows.push(Row {
                run: run.id,
                rate: if time.is_zero() {
                    Rate::ZERO
                } else {
                    Rate::of(passed, time)
                },
                record,
            });
        }
    }
    *before = after;
    rows
}

fn sort(rows: &mut [Row], key: Key) {
    rows.sort_by_key(|row| (row.run, row.record.who.pid, row.record.who.id));
    let now = |row: &Row| row.record.now;
    match key {
        Key::Peer => rows.sort_by_key(|row| row.record.who.remote),
        Key::Rate => rows.sort_by_key(|row| std::cmp::Reverse(row.rate)),
        Key::Bytes => rows.sort_by_key(|row| std::cmp::Reverse(now(row).bytes)),
        Key::Window => rows.sort_by_key(|row| std::cmp::Reverse(now(row).window)),
        Key::Inflight => rows.sort_by_key(|row| std::cmp::Reverse(now(row).in_flight)),
        Key::Rtt => rows.sort_by_key(|row| std::cmp::Reverse(now(row).rtt)),
        Key::Delay => rows.sort_by_key(|row| std::cmp::Reverse(now(row).queueing())),
        Key::Gates => rows.sort_by_key(|row| std::cmp::Reverse(now(row).gate_closed)),
    }
}

/// Lines of the terminal.
fn height() -> usize {
    // SAFETY: zero is a valid winsize; the request stores one.
    let size = unsafe {
        let mut size: nix::libc::winsize = std::mem::zeroed();
        nix::libc::ioctl(1, nix::libc::TIOCGWINSZ, &raw mut size);
        size
    };
    if size.ws_row == 0 {
        24
    } else {
        size.ws_row.into()
    }
}

fn table(runs: &[Running], rows: &[Row], height: usize) -> String {
    let mut text = String::new();
    let mut line = |out: std::fmt::Arguments<'_>| {
        let _ = writeln!(text, "{out}");
    };
    let mut heads = 1;
    for run in runs {
        let totals = run.segment.totals();
        let mine = rows.iter().filter(|row| row.run == run.id);
        let rate: u64 = mine.clone().map(|row| row.rate.as_bps()).sum();
        let not_shown = match run.segment.not_shown() {
            0 => String::new(),
            n => format!(", {n} not shown"),
        };
        line(format_args!(
            "{} {}{} {}: {} now, {} so far{not_shown}; {:.2} Mbit/s",
            run.kind,
            run.id,
            if run.is_killed() { " (killed)" } else { "" },
            run.what,
            count(mine.count() as u64, "connection"),
            totals.connections,
            rate as f64 / 1e6
        ));
        heads += 1;
        for missed in uncontrolled_lines(&run.segment) {
            line(format_args!("  {missed}"));
            heads += 1;
        }
    }
    line(format_args!(
        "{:<28} {:>5} {:<16} {:<10} {:>9} {:>5} {:>9} {:>8} {:>8} {:>8} {:>9} {:>7}",
        "PEER",
        "PORT",
        "CC",
        "STATE",
        "WINDOW",
        "CWND",
        "INFLIGHT",
        "RTT ms",
        "DELAY ms",
        "MBIT/S",
        "MB",
        "GATES"
    ));
    let room = height.saturating_sub(heads + 1).max(1);
    for row in rows.iter().take(room) {
        let (who, c) = (&row.record.who, &row.record.now);
        let algorithm: String = who.algorithm.chars().take(16).collect();
        let window = c
            .window
            .map_or_else(|| "-".to_owned(), |w| w.get().to_string());
        line(format_args!(
            "{:<28} {:>5} {algorithm:<16} {:<10} {window:>9} {:>5} {:>9} {:>8.1} {:>8.1} {:>8.2} {:>9.2} {:>7}",
            who.remote.to_string(),
            who.local.port(),
            state(row),
            c.cwnd,
            c.in_flight.get(),
            c.rtt.as_millis_f64(),
            c.queueing().as_millis_f64(),
            row.rate.as_mbps_f64(),
            c.bytes as f64 / 1e6,
            c.gate_closed
        ));
    }
    if rows.len() > room {
        line(format_args!("... and {} more", rows.len() - room));
    }
    text
}

fn state(row: &Row) -> &'static str {
    match (row.record.now.state, row.record.now.resting) {
        (State::Off, _) => "off",
        (State::Failed, _) => "failed",
        (State::Controlled, true) => "idle",
        (State::Controlled, false) => "sending",
    }
}

fn as_json(runs: &[Running], rows: &[Row]) -> serde_json::Value {
    let now = now();
    let connections = rows.iter().map(|row| {
        let (who, c) = (&row.record.who, &row.record.now);
        json!({
            "run": row.run, "pid": who.pid, "connection": who.id, "cookie": who.cookie,
            "local": who.local.to_string(), "peer": who.remote.to_string(), "outbound": who.outbound,
            "algorithm": who.algorithm, "feedback": who.feedback, "enforcement": who.enforcement, "state": state(row),
            "window_bytes": c.window.map(|w| w.get()), "in_flight_bytes": c.in_flight.get(),
            "cwnd_segments": c.cwnd, "ssthresh_segments": c.ssthresh, "mss_bytes": c.mss.get(),
            "rtt_ms": c.rtt.as_millis_f64(), "smoothed_rtt_ms": c.smoothed.as_millis_f64(),
            "min_rtt_ms": c.min_rtt.as_millis_f64(), "queue_delay_ms": c.queueing().as_millis_f64(),
            "rate_mbps": row.rate.as_mbps_f64(), "pacing_mbps": c.pacing.map(Rate::as_mbps_f64),
            "delivery_mbps": c.delivery.as_mbps_f64(), "bytes": c.bytes, "gate_closed": c.gate_closed,
            "retransmits": c.retransmits, "age_s": now.since(who.started).as_secs_f64(),
        })
    });
    let connections: Vec<_> = connections.collect();
    let runs = runs.iter().map(|run| {
        let t = run.segment.totals();
        json!({
            "run": run.id, "kind": run.kind, "command": run.what, "processes": t.processes, "connections": t.connections,
            "left_alone": t.left_alone, "not_shown": run.segment.not_shown(), "failures": t.failures,
            "killed": run.is_killed(), "uncontrolled": uncontrolled(&run.segment),
        })
    });
    json!({"runs": runs.collect::<Vec<_>>(), "connections": connections})
}
