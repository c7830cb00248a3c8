// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `alcc-lab sim`: one simulation, or one emulated run of a scenario.
use crate::about::about;
use crate::commands::compare;
use crate::commands::emulate::processes::Processes;
use crate::failure::{Failure, reason};
use crate::figure_arg::Figure;
use crate::output::{Product, not_made, note, print};
use crate::plugin_arg::Plugins;
use crate::progress::{Bar, stop_flag};
use crate::trace_arg::TRACE_HELP;
use alcc_cc::events;
use alcc_files::ScenarioFolder;
use alcc_live::capture::{Capture, CapturePoint};
use alcc_live::flows::Waits;
use alcc_live::qlog::{Qlog, Version};
use alcc_live::{Tools, board, twin};
use alcc_results::row::{SIMULATED, Value};
use alcc_results::scenario::{Files, Resolved, ScenarioOptions};
use alcc_results::simulated::{self, Simulated};
use alcc_results::{About, Profiles, samples};
use alcc_sim::{
    AlgorithmEvent, FLOW_HELP, FlowState, FoundLost, PacketEvent, Probe, Report, Scenario,
};
use alcc_units::{Rate, Span, Time};
use std::cell::RefCell;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Interval of the samples of `--series`.
const SAMPLE: Span = Span::from_millis(20);

const SHORT: &str = "Examples:
  alcc-lab sim --link city-driving --flow copa --flow verus/over=cubic
  alcc-lab sim --link 6mbit --rtt 80ms --flow 2*cubic --json
  alcc-lab sim SCENARIO.toml --seed 2

See --help for all options and the syntax of FLOW and SCENARIO.toml.";

const EXAMPLES: &str = "Examples:
  alcc-lab sim --flow verus
  alcc-lab sim --link city-driving --flow copa --flow verus/over=cubic
  alcc-lab sim --link 6mbit --rtt 80ms --flow 2*verus:r=4/over=cubic --json
  alcc-lab sim --link 60mbit --flow verus/rtt=20ms --flow verus/rtt=50ms --flow verus/rtt=100ms --duration 60s
  alcc-lab sim --link 100mbit --up 10mbit --queue droptail:packets=333 --flow 10*cubic/stagger=1s --flow reno/dir=up --flow udp:rate=5mbit,on=1s,off=1s
  alcc-lab sim --link 20mbit --link 8mbit --flow cubic --flow cubic/links=2@10s-20s      # a chain of two links
  alcc-lab sim --link 10mbit --steps every=5s,rate=10mbit..100mbit,delay=5ms..50ms,loss=0..1% --flow verus --flow cubic
  alcc-lab sim --flow cubic --duration 5s --pcap cubic.pcap --qlog cubic.sqlog --qlog-version 0.3      # for Wireshark and for qvis
  alcc-lab sim --link lte --flow cubic --flow verus@10s --figure lte.svg      # for a paper
  alcc-lab sim lab/examples/contention.toml --seed 2      # a scenario file
  alcc-lab sim --link lte --up 12mbit --flow cubic --flow verus/over=cubic@5s --duration 30s --emu      # the same with real programs

The keys of a SCENARIO.toml are the names of the options. Several links are [[link]] tables with rate,
up, delay, queue, queue-up, loss, loss-up, step, steps, repeat and reorder:
  link = \"12mbit\"
  queue = \"red:min=375000,max=1125000\"
  flow = [\"9*cubic/stagger=1s\", \"verus@5s-30s\"]
";

/// Simulate flows over one link or a chain of links
///
/// The same arguments give the same result, on every machine.
#[derive(clap::Args)]
#[command(after_help = SHORT, after_long_help = format!("{EXAMPLES}\n{FLOW_HELP}\n\n{TRACE_HELP}."))]
pub(crate) struct Args {
    /// Scenario file; command-line options override it
    #[arg(value_name = "SCENARIO.toml")]
    scenario: Option<PathBuf>,
    #[command(flatten)]
    options: ScenarioOptions,
    #[command(flatten)]
    plugins: Plugins,
    /// Also run it with real programs and the kernel's TCP on an emulated link
    ///
    /// Prints the rows of both sides and their differences.
    #[arg(long, conflicts_with_all = ["series", "figure"])]
    emu: bool,
    /// Write a CSV file with one line per flow every 20 ms
    ///
    /// Its columns are throughput, delay, window, the algorithm's values and events.
    #[arg(long, value_name = "FILE", value_parser = a_file)]
    series: Option<PathBuf>,
    /// Write each flow's delay profile once a second, as CSV (Verus)
    ///
    /// It has the points and the curve through them.
    #[arg(long, hide_short_help = true, value_name = "FILE", conflicts_with = "emu", value_parser = a_file)]
    profile: Option<PathBuf>,
    /// Write a packet capture for Wireshark or tcpdump, headers only
    #[arg(long, value_name = "FILE", conflicts_with = "emu", value_parser = a_file)]
    pcap: Option<PathBuf>,
    /// Place of the capture: sender, receiver, or link (behind the first bottleneck)
    #[arg(
        long,
        hide_short_help = true,
        value_name = "PLACE",
        default_value = "sender"
    )]
    pcap_at: CapturePoint,
    /// Write qlog (JSON-SEQ)
    ///
    /// It has packets sent, acknowledged and lost, windows, round-trip times and the algorithms'
    /// events.
    #[arg(long, value_name = "FILE", conflicts_with = "emu", value_parser = a_file)]
    qlog: Option<PathBuf>,
    /// Version of the qlog: draft-14, or 0.3 for qvis
    #[arg(
        long,
        hide_short_help = true,
        value_name = "VERSION",
        default_value = "draft-14"
    )]
    qlog_version: Version,
    #[command(flatten)]
    figure: Figure,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

/// Parses the name of a file; standard output is not permitted, because it has the table.
fn a_file(text: &str) -> Result<PathBuf, String> {
    match text {
        "-" => {
            Err("standard output is used for the table or the JSON object: name a file".to_owned())
        }
        file => Ok(file.into()),
    }
}

impl Args {
    /// The scenario that file and options describe.
    fn resolved(&self) -> Result<(ScenarioOptions, Resolved, Vec<PathBuf>), Failure> {
        let (file, folder) = match &self.scenario {
            None => Default::default(),
            Some(path) => alcc_files::read(path).map_err(Failure::usage)?,
        };
        let files = Recorded {
            folder,
            opened: RefCell::default(),
        };
        let options = file.overridden_by(self.options.clone());
        let registry = self.plugins.registry(crate::algorithms())?;
        let resolved = options.resolve(&registry, &files).map_err(Failure::usage)?;
        match options.idle(&resolved.scenario.flows).into_iter().next() {
            Some(idle) => Err(Failure::usage(idle)),
            None => {
                let given = self.scenario.iter().cloned().chain(self.plugins.files());
                let mut read = files.opened.into_inner();
                read.extend(given);
                Ok((options, resolved, read))
            }
        }
    }

    /// Metadata, without anything that differs between two runs of the same command.
    fn about(&self, resolved: &Resolved, read: Vec<PathBuf>) -> About {
        let side = About {
            mode: SIMULATED.to_owned(),
            link: resolved.link.clone(),
            seed: resolved.scenario.seed,
            ..About::default()
        };
        about(compare::command_line(), side, read)
    }
}

/// Remembers which files a scenario has opened.
struct Recorded {
    folder: ScenarioFolder,
    opened: RefCell<Vec<PathBuf>>,
}

impl Files for Recorded {
    fn find(&self, name: &str) -> Option<PathBuf> {
        self.folder.find(name)
    }

    fn open(&self, path: &Path) -> std::io::Result<Box<dyn Read>> {
        self.opened.borrow_mut().push(path.to_owned());
        self.folder.open(path)
    }
}

/// The object of `--json`.
#[derive(serde::Serialize)]
struct Printed {
    about: About,
    #[serde(flatten)]
    simulated: Simulated,
}

/// Shows the progress of long runs, and writes packet events if requested.
struct Shown {
    bar: Bar,
    pcap: Option<Capture<BufWriter<File>>>,
    qlog: Option<Qlog<BufWriter<File>>>,
    /// Events of the algorithms, for the series.
    reported: Option<Vec<AlgorithmEvent>>,
    /// Delay profiles, if requested.
    profiles: Option<Profiles>,
    /// Delays for a figure, if requested.
    waits: Option<Waits>,
}

impl Shown {
    fn new(args: &Args, flows: usize, about: &About) -> Result<Self, Failure> {
        let wrong =
            |path: &Path, e| Failure::usage(format!("write to {}: {}", path.display(), reason(&e)));
        let create = |path: &Path| {
            let file = alcc_sys::create(path).map_err(|e| not_made(path, e));
            file.map(BufWriter::new)
        };
        let pcap = args.pcap.as_ref().map(|path| {
            let pcap = create(path).and_then(|file| Capture::new(file, args.pcap_at));
            pcap.map_err(|e| wrong(path, e))
        });
        let qlog = args.qlog.as_ref().map(|path| {
            let qlog = create(path)
                .and_then(|file| Qlog::new(file, args.qlog_version, "alcc-lab sim", about));
            qlog.map_err(|e| wrong(path, e))
        });
        Ok(Self {
            bar: Bar::new(),
            pcap: pcap.transpose()?,
            qlog: qlog.transpose()?,
            reported: args.series.is_some().then(Vec::new),
            profiles: args.profile.is_some().then(Profiles::default),
            waits: args.figure.is_wanted().then(|| Waits::new(flows)),
        })
    }

    /// Closes the files of `args`. Returns the events of the algorithms.
    fn finish(self, args: &Args) -> Result<Vec<AlgorithmEvent>, Failure> {
        let pcap = self.pcap.map_or(Ok(()), |pcap| pcap.finish().map(drop));
        let qlog = self.qlog.map_or(Ok(()), |qlog| qlog.finish().map(drop));
        for (written, file) in [(pcap, &args.pcap), (qlog, &args.qlog)] {
            if let (Err(e), Some(file)) = (written, file) {
                let why = format!("write {}: {}", file.display(), reason(&e));
                return Err(Failure::failed(why));
            }
        }
        Ok(self.reported.unwrap_or_default())
    }
}

impl Probe for Shown {
    fn is_enabled(&self) -> bool {
        self.pcap.is_some()
            || self.qlog.is_some()
            || self.profiles.is_some()
            || self.waits.is_some()
    }

    fn packet(&mut self, event: &PacketEvent) {
        if let Some(pcap) = &mut self.pcap {
            pcap.packet(event);
        }
        if let Some(qlog) = &mut self.qlog {
            qlog.packet(event);
        }
        if let Some(waits) = &mut self.waits {
            waits.packet(event);
        }
    }

    fn lost(&mut self, at: Time, flow: usize, packets: &[FoundLost]) {
        if let Some(qlog) = &mut self.qlog {
            qlog.lost(at, flow, packets);
        }
    }

    fn flow(&mut self, state: &FlowState<'_>) {
        if let Some(qlog) = &mut self.qlog {
            qlog.flow(state);
        }
        if let Some(profiles) = &mut self.profiles {
            profiles.look(state);
        }
    }

    fn wants_algorithms(&self) -> bool {
        self.qlog.is_some() || self.reported.is_some()
    }

    fn algorithm(&mut self, event: &AlgorithmEvent) {
        if let Some(qlog) = &mut self.qlog {
            qlog.algorithm(event);
        }
        if let Some(reported) = &mut self.reported {
            reported.push(*event);
        }
    }

    fn progress(&mut self, now: Time, end: Time) -> bool {
        self.bar
            .show(now.as_secs_f64() / end.as_secs_f64(), "simulating");
        true
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let (options, mut resolved, read) = args.resolved()?;
    args.figure.check()?;
    if args.emu {
        return both_sides(args, resolved);
    }
    let files = [&args.series, &args.profile, &args.qlog];
    let is_told = args.json || args.figure.is_wanted() || files.iter().any(|file| file.is_some());
    // The sums of large traces take a while.
    let about = is_told.then(|| args.about(&resolved, read));
    let about = about.unwrap_or_default();
    let scenario = &mut resolved.scenario;
    let has_samples = args.series.is_some() || args.figure.is_wanted();
    scenario.series = has_samples.then_some(SAMPLE);
    let mut shown = Shown::new(args, scenario.flows.len(), &about)?;
    args.series.as_deref().map_or(Ok(()), names_a_file)?;
    let series = Product::named(args.series.as_deref())?;
    let profile = Product::named(args.profile.as_deref())?;
    let report = alcc_sim::run_with(scenario, &mut shown).map_err(Failure::failed)?;
    for late in options.late(scenario, report.started + report.duration) {
        note(format_args!("alcc-lab: {late}"));
    }
    if let (Some(file), Some(profiles)) = (profile, shown.profiles.take()) {
        file.fill(|to| profiles.write_csv(to, &report))?;
    }
    if let Some(waits) = shown.waits.take() {
        let mut results = waits.results(&resolved.link, &resolved.scenario, &report);
        results.about = about.clone();
        args.figure.write(&results)?;
    }
    let reported = shown.finish(args)?;
    if let Some(series) = series {
        series.fill(|to| write_series(to, &report, &reported))?;
    }
    for csv in [&args.series, &args.profile].into_iter().flatten() {
        board::write_about(csv, &about).map_err(Failure::failed)?;
    }
    if args.json {
        let printed = Printed {
            about,
            simulated: Simulated::of(&resolved, &report),
        };
        let json = serde_json::to_string(&printed).map_err(Failure::failed)?;
        print(format_args!("{json}\n"))?;
    } else {
        let mut text = table(&resolved.scenario, &report);
        if report.flows.len() > 1 {
            let _ = writeln!(text, "{}", together(&report, resolved.settle));
        }
        for note in simulated::notes(&resolved.scenario, &report) {
            let _ = writeln!(text, "note: {note}");
        }
        print(text)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The scenario with real programs, and its simulated counterpart.
fn both_sides(args: &Args, resolved: Resolved) -> Result<ExitCode, Failure> {
    if let Some(exit) = Processes::guard()? {
        return Ok(exit);
    }
    let registry = args.plugins.registry(crate::algorithms())?;
    let real =
        twin::Real::of(&resolved.link, &resolved.scenario, &registry).map_err(Failure::usage)?;
    let tools = Tools {
        plugins: args.plugins.files(),
        ..compare::tools()?
    };
    alcc_emu::prepare().map_err(Failure::usage)?;
    let stop = stop_flag()?;
    let mut bar = Bar::new();
    let results = real
        .run(resolved.scenario, &tools, &stop, &mut |part| {
            bar.show(part, "emulating");
        })
        .map_err(compare::failure)?;
    drop(bar);
    if args.json {
        let json = serde_json::to_string(&results).map_err(Failure::failed)?;
        print(format_args!("{json}\n"))?;
    } else {
        let twins = twin::table(&results);
        let mut text = format!(
            "{}\n{twins}",
            board::table(&results, board::Interval::Range)
        );
        for note in &results.notes {
            let _ = writeln!(text, "note: {note}");
        }
        print(text)?;
    }
    compare::failed_runs(&results)
}

/// One line about all flows.
fn together(report: &Report, settle: Span) -> String {
    let mbps: f64 = report
        .flows
        .iter()
        .map(|f| f.throughput.as_mbps_f64())
        .sum();
    let fair = report
        .jain()
        .map_or_else(String::new, |j| format!(", Jain index {j:.3}"));
    let seconds = report
        .jain_of_seconds(settle)
        .map_or_else(String::new, |j| {
            format!(" (of single seconds after {settle}: {j:.3})")
        });
    let note = simulated::why_no_jain_of_seconds(report, settle)
        .map_or_else(String::new, |why| format!(" (of single seconds: {why})"));
    format!("all: {mbps:.3} Mbit/s{fair}{seconds}{note}")
}

/// Python's argument `series=` is the interval of the samples.
fn names_a_file(series: &Path) -> Result<(), Failure> {
    let word = series.to_string_lossy();
    if word.parse::<Span>().is_err() {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "--series {word}: it is the file to write, with a line every 20 ms: name one, such as series.csv or ./{word}"
    )))
}

/// Labels that distinguish flows: the number as in the series, RTT and start if they differ.
fn label_columns(scenario: &Scenario, report: &Report) -> Vec<Vec<String>> {
    let flows = &scenario.flows;
    if flows.len() < 2 {
        return Vec::new();
    }
    let column = |head: &str, cell: &dyn Fn(usize) -> String| {
        let cells: Vec<String> = (0..flows.len()).map(cell).collect();
        let width = cells.iter().map(String::len).max().unwrap_or(0);
        let width = width.max(head.len());
        let cells = std::iter::once(head.to_owned()).chain(cells);
        cells.map(|c| format!("{c:>width$} ")).collect::<Vec<_>>()
    };
    let mut columns = vec![column("flow", &|n| n.to_string())];
    let rtt = |n: usize| scenario.min_rtt(&flows[n]);
    if (1..flows.len()).any(|n| rtt(n) != rtt(0)) {
        columns.push(column("base rtt", &|n| rtt(n).to_string()));
    }
    // As typed, without the random phase of its timers.
    if flows.iter().any(|flow| flow.start != flows[0].start) {
        columns.push(column("start", &|n| {
            flows[n].start.since(Time::ZERO).to_string()
        }));
    }
    if report.flows.iter().any(|flow| flow.active.1.is_some()) {
        columns.push(column("stop", &|n| {
            let stop = flows[n].stop.map(|stop| stop.since(Time::ZERO).to_string());
            stop.unwrap_or_else(|| "-".to_owned())
        }));
    }
    columns
}

fn table(scenario: &Scenario, report: &Report) -> String {
    let mut text = String::new();
    let transfers = report.flows.iter().any(|f| f.completion.is_some());
    // Where packets are lost behind the bottleneck, what it delivered is not what was received.
    let behind = report.flows.iter().any(|f| f.lost_behind > 0);
    let columns = label_columns(scenario, report);
    // As in the rows of --json.
    let names: Vec<String> = simulated::rows("", scenario, report)
        .into_iter()
        .map(|row| row.name.clone().unwrap_or_else(|| row.label()))
        .collect();
    let width = names.iter().map(String::len).max().unwrap_or(0).max(16);
    let label = |line: usize| columns.iter().map(|c| c[line].as_str()).collect::<String>();
    let _ = writeln!(
        text,
        "{}{:<width$} {:>9}{} {:>6} {:>13} {:>9} {:>9} {:>11} {:>13} {:>7} {:>8}{}",
        label(0),
        "scheme",
        "Mbit/s",
        if behind { " goodput" } else { "" },
        "util %",
        "delay mean ms",
        "median ms",
        "p95 ms",
        "RTT mean ms",
        "app median ms",
        "loss %",
        "timeouts",
        if transfers { "    fct ms" } else { "" }
    );
    // A delay of which there is no sample is not 0.
    let ms = |span: Span, samples: u64| match samples {
        0 => "-".to_owned(),
        _ => format!("{:.1}", span.as_millis_f64()),
    };
    for (number, flow) in report.flows.iter().enumerate() {
        let _ = writeln!(
            text,
            "{}{:<width$} {:>9.3}{} {:>6} {:>13} {:>9} {:>9} {:>11} {:>13} {:>7.2} {:>8}{}",
            label(number + 1),
            names[number],
            flow.throughput.as_mbps_f64(),
            if behind {
                let goodput = Rate::of(flow.goodput_bytes, report.duration);
                format!(" {:>7.3}", goodput.as_mbps_f64())
            } else {
                String::new()
            },
            flow.utilization
                .map_or_else(|| "-".to_owned(), |u| format!("{:.1}", u * 100.0)),
            ms(flow.delay.mean, flow.packets),
            ms(flow.delay.median, flow.packets),
            ms(flow.delay.p95, flow.packets),
            ms(flow.rtt.mean, flow.rtt.count),
            ms(flow.app_delay.median, flow.app_delay.count),
            flow.loss() * 100.0,
            flow.timeouts,
            flow.completion
                .map_or_else(String::new, |t| format!(" {:>9.1}", t.as_millis_f64())),
        );
    }
    text
}

/// One line per flow and sample. Gauges of all algorithms are columns; missing ones are empty. The
/// last column has the algorithm's events since the line before, each with its time. The last line
/// includes the events after it.
fn write_series(
    out: &mut dyn Write,
    report: &Report,
    reported: &[AlgorithmEvent],
) -> std::io::Result<()> {
    let names = samples::gauges(report);
    let columns = samples::COLUMNS.iter().map(|(name, _)| *name);
    let columns: Vec<&str> = columns.chain(names.iter().copied()).collect();
    write!(out, "{}", columns.join(","))?;
    writeln!(out, ",events")?;
    let since = |event: &AlgorithmEvent| event.at.since(report.started);
    for (number, flow) in report.flows.iter().enumerate() {
        let of_flow = reported.iter().filter(|event| event.flow == number);
        let mut of_flow = of_flow.peekable();
        for (place, sample) in flow.series.iter().enumerate() {
            let last = place + 1 == flow.series.len();
            let values = samples::values(number, flow, sample).map(cell);
            write!(out, "{}", values.join(","))?;
            for name in &names {
                let gauge = samples::gauge(sample, name).map_or(Value::Unknown, Value::Float);
                write!(out, ",{}", cell(gauge))?;
            }
            let mut cells = Vec::new();
            while let Some(e) = of_flow.next_if(|event| last || since(event) <= sample.at) {
                cells.push(events::cell(since(e), &e.event, &e.rtt));
            }
            writeln!(out, ",{}", cells.join("; "))?;
        }
    }
    Ok(())
}

/// A value in the series: three decimals are enough there.
fn cell(value: Value<'_>) -> String {
    match value {
        Value::Unknown => String::new(),
        Value::Text(text) => text.to_owned(),
        Value::Integer(n) => n.to_string(),
        Value::Float(n) => format!("{n:.3}"),
    }
}
