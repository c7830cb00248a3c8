// SPDX-License-Identifier: Apache-2.0 OR MIT
mod attached;
mod keys;
mod web;

use crate::doctor::machine;
use crate::failure::Failure;
use crate::http::Loopback;
use crate::output::{self, Reader, print, print_screen};
use crate::progress::stop_flag;
use crate::running::Running;
use crate::runs::Which;
use crate::summary::{uncontrolled, uncontrolled_line};
use crate::wording::count;
use alcc_observe::StatusRecord;
use alcc_socket::now;
use alcc_units::{Rate, Span, Time, positive};
use attached::{Attached, One};
use keys::Keys;
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Show all connections under the control of alcc, live
///
/// One line per connection: the algorithm's window and the kernel's (cwnd), bytes in flight, RTT
/// and its queueing part, the rate (Mbit/s), and how often a write was held back. On a terminal the
/// table is redrawn every second, and q ends it; otherwise one table follows the other. It fits 80
/// columns; a terminal of 133 columns, or COLUMNS=133, shows more of them. Connections under a
/// congestion control in the kernel ('alcc attach', 'alcc policy') are shown with the kernel's figures;
/// root also sees what has chosen it. Root sees those of all containers, other users only those of
/// their own network namespace.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  alcc top\n  alcc top --once --json\n  alcc top --sort delay --interval 2s\n  alcc top --web 127.0.0.1:9103"
)]
pub(crate) struct Args {
    #[command(flatten)]
    which: Which,
    /// Print one table and exit
    #[arg(long)]
    once: bool,
    /// Print JSON, one object for each table
    #[arg(long)]
    json: bool,
    /// Column to sort by, largest first; 'gates': how often the gate of 'alcc run' closed
    #[arg(long, value_name = "KEY", default_value = "rate")]
    sort: Key,
    /// Interval between tables
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = positive::<Span>)]
    interval: Span,
    /// Show the table in a browser instead, on this loopback address, such as 127.0.0.1:9103
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["once", "json", "sort"])]
    web: Option<Loopback>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Key {
    Rate,
    Bytes,
    Window,
    Inflight,
    Rtt,
    Delay,
    /// Number of times that the gate closed
    Gates,
    Peer,
}

/// A connection and its rate.
struct Row {
    /// The run. `None`: the kernel controls the connection.
    run: Option<u32>,
    record: StatusRecord,
    rate: Rate,
    /// The control before 'alcc attach', if known.
    before: Option<String>,
    /// The reason why the kernel controls the connection, if known.
    because: Option<String>,
}

/// Bytes at the last scan, by run, process and connection.
type Before = BTreeMap<(Option<u32>, u32, u64), (Time, u64)>;

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let stop = stop_flag()?;
    let interval = Duration::from_nanos(args.interval.as_nanos().max(100_000_000));
    let draw = std::io::stdout().is_terminal() && !args.once && !args.json;
    let keys = Keys::of_terminal(draw);
    let mut before = Before::new();
    let shown = args.web.map(web::Shown::serve).transpose()?;
    let mut attached = Attached::new();
    let mut is_first = true;
    loop {
        let runs = args.which.some();
        let known = runs.as_deref().unwrap_or_default();
        // With --run that one alone.
        let mut rows = look(known, &mut attached, args.which.is_all(), &mut before);
        let runs = match runs {
            Err(Failure::Failed(_)) if !rows.is_empty() => Vec::new(),
            // All have ended meanwhile.
            Err(Failure::Failed(_)) if !is_first && !args.once => return Ok(ExitCode::SUCCESS),
            Err(Failure::Failed(why)) if args.which.is_all() && can_attach() => {
                return Err(Failure::failed(format!(
                    "{why}; or control a server that runs already: 'alcc attach --port 443', or a policy ('alcc policy apply')"
                )));
            }
            runs => runs?,
        };
        if std::mem::take(&mut is_first) {
            // A rate needs two scans.
            if nap(interval.min(Duration::from_millis(300)), &stop, &keys) {
                return Ok(ExitCode::SUCCESS);
            }
            continue;
        }
        sort(&mut rows, args.sort);
        if let Some(shown) = &shown {
            shown.set(as_json(&runs, &rows));
            if nap(interval, &stop, &keys) {
                return Ok(ExitCode::SUCCESS);
            }
            continue;
        }
        let text = if args.json {
            format!("{}\n", as_json(&runs, &rows))
        } else {
            table(&runs, &rows, Screen::of_output(draw))
        };
        let reader = if draw {
            // Cursor home, the text, and clear what is below.
            let lines = output::shown(&text).replace('\n', "\x1b[K\n");
            print_screen(format_args!("\x1b[H{lines}\x1b[J"))?
        } else {
            print(text)?
        };
        if args.once || reader == Reader::Gone || nap(interval, &stop, &keys) {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

/// True if this user can select controls of the kernel for connections of all programs.
fn can_attach() -> bool {
    cfg!(feature = "bpf") && nix::unistd::geteuid().is_root() && machine::has_btf()
}

/// Sleeps. True if the program should end.
fn nap(time: Duration, stop: &std::sync::atomic::AtomicBool, keys: &Keys) -> bool {
    let until = std::time::Instant::now() + time;
    while let Some(remaining) = until.checked_duration_since(std::time::Instant::now()) {
        if stop.load(Ordering::Relaxed) || keys.end_within(remaining.min(Duration::from_millis(50)))
        {
            return true;
        }
    }
    stop.load(Ordering::Relaxed)
}

fn look(runs: &[Running], attached: &mut Attached, is_all: bool, before: &mut Before) -> Vec<Row> {
    let mut after = Before::new();
    let mut row = |run: Option<u32>, record: StatusRecord, at: Time| {
        let key = (run, record.who.pid, record.who.id);
        let bytes = record.now.bytes;
        let (since, had) = before.get(&key).copied().unwrap_or((record.who.started, 0));
        after.insert(key, (at, bytes));
        let passed = alcc_units::Bytes::new(bytes.saturating_sub(had));
        let time = at.since(since);
        Row {
            run,
            rate: if time.is_zero() {
                Rate::ZERO
            } else {
                Rate::of(passed, time)
            },
            record,
            before: None,
            because: None,
        }
    };
    let mut rows = Vec::new();
    let in_the_kernel = |record: &StatusRecord| record.who.enforcement == attached::KERNEL;
    let records = |run: &Running| {
        run.tidy();
        run.segment.connections()
    };
    let shown: Vec<_> = runs.iter().map(|run| (run.id, records(run))).collect();
    let read = |(_, records): &(u32, Vec<StatusRecord>)| records.iter().any(in_the_kernel);
    let mut kernels: BTreeMap<u64, One> = BTreeMap::new();
    if is_all || shown.iter().any(read) {
        let found = attached.look().into_iter();
        kernels = found.map(|one| (one.record.who.cookie, one)).collect();
    }
    for (run, records) in shown {
        for mut record in records {
            // The program does not read its counters.
            if let Some(one) = kernels.remove(&record.who.cookie)
                && in_the_kernel(&record)
            {
                record.who.algorithm = one.record.who.algorithm;
                record.now = one.record.now;
            }
            rows.push(row(Some(run), record, now()));
        }
    }
    for (_, one) in kernels.into_iter().filter(|_| is_all) {
        let One {
            record,
            before,
            because,
        } = one;
        // What passed before it was seen first has no rate: then both times are the same.
        let at = record.now.updated;
        let before = Some(before).filter(|before| !before.is_empty());
        rows.push(Row {
            before,
            because,
            ..row(None, record, at)
        });
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

/// The size of a table, in characters.
#[derive(Clone, Copy)]
struct Screen {
    /// Lines of the terminal, if each table replaces the last one.
    rows: Option<usize>,
    columns: usize,
}

impl Screen {
    /// As wide as the terminal, or else as `COLUMNS` says.
    fn of_output(draw: bool) -> Self {
        // SAFETY: zero is a valid winsize; the request stores one.
        let size = unsafe {
            let mut size: nix::libc::winsize = std::mem::zeroed();
            nix::libc::ioctl(1, nix::libc::TIOCGWINSZ, &raw mut size);
            size
        };
        let or = |found: u16, default| if found == 0 { default } else { found.into() };
        let asked = std::env::var("COLUMNS").ok().and_then(|n| n.parse().ok());
        Self {
            rows: draw.then(|| or(size.ws_row, 24)),
            columns: or(size.ws_col, asked.filter(|n| *n > 0).unwrap_or(80)),
        }
    }
}

/// The columns of the table: heading, width (below 0: aligned to the left), and the text of a row.
type Column = (&'static str, isize, fn(&Row) -> String);

fn kilobytes(bytes: u64) -> String {
    format!("{:.0}", bytes as f64 / 1000.0)
}

fn window(row: &Row, show: fn(u64) -> String) -> String {
    let window = row.record.now.window;
    window.map_or_else(|| "-".to_owned(), |w| show(w.get()))
}

/// A time in ms, or `-` for a connection whose counters have not been read yet.
fn measured(row: &Row, time: Span) -> String {
    if row.record.now.rtt == Span::ZERO {
        return "-".to_owned();
    }
    format!("{:.1}", time.as_millis_f64())
}

const PEER: fn(&Row) -> String = |row| row.record.who.remote.to_string();
const PORT: fn(&Row) -> String = |row| row.record.who.local.port().to_string();
const CC: fn(&Row) -> String = |row| row.record.who.algorithm.clone();
const STATE: fn(&Row) -> String = |row| row.record.now.word().to_owned();
const RTT: fn(&Row) -> String = |row| measured(row, row.record.now.rtt);
const DELAY: fn(&Row) -> String = |row| measured(row, row.record.now.queueing());
const RATE: fn(&Row) -> String = |row| format!("{:.2}", row.rate.as_mbps_f64());

/// All columns.
const WIDE: &[Column] = &[
    ("PEER", -28, PEER),
    ("PORT", 5, PORT),
    ("CC", -16, CC),
    ("STATE", -10, STATE),
    ("WINDOW", 9, |row| window(row, |w| w.to_string())),
    ("CWND", 5, |row| row.record.now.cwnd.to_string()),
    ("INFLIGHT", 9, |row| {
        row.record.now.in_flight.get().to_string()
    }),
    ("RTT ms", 8, RTT),
    ("DELAY ms", 8, DELAY),
    ("MBIT/S", 8, RATE),
    ("MB", 9, |row| {
        format!("{:.2}", row.record.now.bytes as f64 / 1e6)
    }),
    ("GATES", 7, |row| row.record.now.gate_closed.to_string()),
];

/// Columns that fit into 80 characters.
const NARROW: &[Column] = &[
    ("PEER", -21, PEER),
    ("PORT", 5, PORT),
    ("CC", -16, CC),
    ("STATE", -7, STATE),
    ("WIN kB", 6, |row| window(row, kilobytes)),
    ("RTT ms", 6, RTT),
    ("DELAY", 5, DELAY),
    ("MBIT/S", 6, RATE),
];

/// Columns that fit into 60 characters.
const NARROWEST: &[Column] = &[
    ("PEER", -21, PEER),
    ("CC", -13, CC),
    ("RTT ms", 6, RTT),
    ("DELAY", 5, DELAY),
    ("MBIT/S", 6, RATE),
];

/// A cell as wide as its column. Text is shortened with a mark; numbers are never shortened.
fn cell(text: String, width: isize) -> String {
    let wide = width.unsigned_abs();
    match width {
        0.. => format!("{text:>wide$}"),
        _ => format!("{:<wide$}", cut(&text, wide)),
    }
}

/// A text of at most `wide` characters. A mark shows that it was longer.
fn cut(text: &str, wide: usize) -> String {
    if text.chars().count() <= wide {
        return text.to_owned();
    }
    let kept: String = text.chars().take(wide.saturating_sub(1)).collect();
    format!("{kept}+")
}

/// A line of a run. To fit `columns`, the program's text is shortened, but not the figures.
fn run_line(who: &str, program: &str, figures: &str, columns: usize) -> String {
    /// Minimum number of characters of the program.
    const LEAST: usize = 12;
    let others = who.chars().count() + figures.chars().count() + 3;
    let room = columns.saturating_sub(others).max(LEAST);
    format!("{who} {}: {figures}", cut(program, room))
}

/// A text in lines of at most `columns` characters, unless a word is longer. All are indented.
fn folded(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![" ".to_owned()];
    for word in text.split(' ') {
        let last = lines.last_mut().expect("one at least");
        if last.chars().count() + 1 + word.chars().count() > columns && !last.trim().is_empty() {
            lines.push(format!("   {word}"));
        } else {
            last.push(' ');
            last.push_str(word);
        }
    }
    lines
}

fn line_of(columns: &[Column], text: impl Fn(&Column) -> String) -> String {
    let cells: Vec<_> = columns.iter().map(|c| cell(text(c), c.1)).collect();
    cells.join(" ")
}

/// As wide as the columns are, one space between them.
fn width(columns: &[Column]) -> usize {
    let cells: usize = columns.iter().map(|c| c.1.unsigned_abs()).sum();
    cells + columns.len() - 1
}

fn total<'a>(rows: impl Iterator<Item = &'a Row>) -> Rate {
    Rate::bps(rows.map(|row| row.rate.as_bps()).sum())
}

fn table(runs: &[Running], rows: &[Row], screen: Screen) -> String {
    let fits = |columns: &&&[Column]| width(columns) <= screen.columns;
    let columns = [WIDE, NARROW].iter().find(fits).unwrap_or(&NARROWEST);
    let mut text = String::new();
    // Lines of the screen: one that is too long for it wraps.
    let mut used = 0;
    let mut line = |out: String| {
        let length = out.chars().count().max(1);
        used += length.div_ceil(screen.columns);
        let _ = writeln!(text, "{out}");
    };
    for run in runs {
        let totals = run.segment.totals();
        let mine = rows.iter().filter(|row| row.run == Some(run.id));
        let rate = total(mine.clone());
        let not_shown = match run.segment.not_shown() {
            0 => String::new(),
            n => format!(", {n} not shown"),
        };
        let killed = if run.is_killed() { " (killed)" } else { "" };
        let figures = format!(
            "{} now, {} so far{not_shown}; {:.2} Mbit/s",
            count(mine.count() as u64, "connection"),
            totals.connections,
            rate.as_mbps_f64()
        );
        line(run_line(
            &format!("{} {}{killed}", run.kind, run.id),
            &run.what,
            &figures,
            screen.columns,
        ));
        if let Some((form, why)) = &run.form {
            for part in folded(&format!("{form}, because {why}"), screen.columns) {
                line(part);
            }
        }
        for one in run.segment.uncontrolled() {
            line(format!("  {}", uncontrolled_line(&one)));
        }
    }
    let kernel = rows.iter().filter(|row| row.run.is_none());
    if kernel.clone().next().is_some() {
        line(format!(
            "kernel: {}; {:.2} Mbit/s",
            count(kernel.clone().count() as u64, "connection"),
            total(kernel.clone()).as_mbps_f64()
        ));
        let mut reasons: BTreeMap<&str, u64> = BTreeMap::new();
        for because in kernel.filter_map(|row| row.because.as_deref()) {
            *reasons.entry(because).or_default() += 1;
        }
        for (because, n) in reasons {
            for part in folded(&format!("{n}, because {because}"), screen.columns) {
                line(part);
            }
        }
    }
    if screen.rows.is_some() {
        line("q ends; --sort and --once: 'alcc top --help'".to_owned());
    }
    line(line_of(columns, |c| c.0.to_owned()));
    let room = screen.rows.map(|rows| rows.saturating_sub(used + 1).max(1));
    let room = room.unwrap_or(usize::MAX);
    for row in rows.iter().take(room) {
        let _ = writeln!(text, "{}", line_of(columns, |c| c.2(row)));
    }
    if rows.len() > room {
        let _ = writeln!(text, "... and {} more", rows.len() - room);
    }
    text
}

fn as_json(runs: &[Running], rows: &[Row]) -> serde_json::Value {
    let now = now();
    let connections = rows.iter().map(|row| {
        let (who, c) = (&row.record.who, &row.record.now);
        json!({
            "run": row.run, "pid": row.run.map(|_| who.pid), "before": row.before, "because": row.because, "connection": who.id, "cookie": who.cookie,
            "local": who.local.to_string(), "peer": who.remote.to_string(), "outbound": who.outbound,
            "algorithm": who.algorithm, "feedback": who.feedback, "enforcement": who.enforcement, "state": row.record.now.word(),
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
            "form": run.form.as_ref().map(|(form, _)| form), "because": run.form.as_ref().map(|(_, why)| why),
        })
    });
    json!({"runs": runs.collect::<Vec<_>>(), "connections": connections})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_narrow_table_fits_a_terminal_of_80_columns() {
        assert!(width(NARROW) <= 80, "{}", width(NARROW));
        let head = line_of(NARROW, |c| c.0.to_owned());
        assert_eq!(head.chars().count(), width(NARROW));
        for column in WIDE.iter().chain(NARROW) {
            assert!(column.0.len() <= column.1.unsigned_abs(), "{}", column.0);
        }
    }

    #[test]
    fn text_is_cut_and_numbers_are_not() {
        assert_eq!(cell("budget".into(), -9), "budget   ");
        assert_eq!(cell("budget:delay=40ms".into(), -9), "budget:d+");
        assert_eq!(cell("1234567".into(), 5), "1234567");
    }

    #[test]
    fn a_reason_is_folded_and_whole() {
        let text = "kernel / kernel, because /etc/alcc/policy.toml:2: port 443: budget";
        assert_eq!(folded(text, 80), [format!("  {text}")]);
        let lines = folded(text, 40);
        assert!(
            lines.iter().all(|line| line.chars().count() <= 40),
            "{lines:?}"
        );
        let words: Vec<_> = lines.iter().flat_map(|l| l.split_whitespace()).collect();
        assert_eq!(words.join(" "), text);
    }

    #[test]
    fn every_screen_has_a_table_that_fits() {
        assert!(width(NARROW) <= 80 && width(NARROWEST) <= 60);
        for columns in [NARROW, NARROWEST] {
            let cc = columns.iter().find(|c| c.0 == "CC").unwrap();
            assert!(cc.1.unsigned_abs() >= "alcc_westwood".len());
        }
    }

    #[test]
    fn a_screen_has_less_of_a_long_program() {
        let figures = "1 connection now, 1 so far; 5.08 Mbit/s";
        let program = "/usr/sbin/nginx -p /tmp/somewhere/deep -c /tmp/somewhere/deep/nginx.conf";
        let line = run_line("run 5697", program, figures, 80);
        assert_eq!(line.chars().count(), 80);
        assert!(line.contains("/usr/sbin/nginx") && line.ends_with(figures));
        let whole = format!("run 5697 {program}: {figures}");
        assert_eq!(run_line("run 5697", program, figures, 200), whole);
        assert_eq!(
            run_line("run 5697", "nginx", figures, 20).find("nginx"),
            Some(9)
        );
    }
}
