// SPDX-License-Identifier: Apache-2.0 OR MIT
use crate::certificate::Trusting;
use crate::failure::{Failure, reason};
use crate::output::{Reader, print};
use crate::plugin_arg::Plugins;
use crate::program::Program;
use crate::progress::{Bar, stop_flag};
use crate::transfer::{Series, table};
use crate::transport;
use alcc_carrier::TRANSPORTS;
use alcc_cc::{Registry, Spec};
use alcc_pipe::{DEFAULT_PORT, Options, Plan, Target};
use alcc_transfer::resuming::Told;
use alcc_transfer::sending::{Content, Job, Sent, flow};
use alcc_transfer::{Header, Kind, clock_digest, hex, new_session, resuming};
use alcc_units::row::Row;
use alcc_units::{Bytes, Rate, Span, positive};
use std::fs::File;
use std::net::IpAddr;
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Send a file or generated data to 'alcc recv' on another host
///
/// The transport and the congestion control can be chosen. At the end, the command prints goodput,
/// delay between the applications, RTT and CPU time, as measured at both ends. The SHA-256 of a
/// file is verified.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  alcc send --cc verus 192.0.2.7\n  alcc send --file video.mp4 --resume 192.0.2.7\n\nOn the other host:\n  alcc recv --once",
    after_long_help = "Examples:\n  alcc send --cc verus 192.0.2.7\n  alcc send --under bbr --duration 30s receiver.example\n  alcc send --file video.mp4 --resume --json 192.0.2.7:9700\n  alcc send --rate 4mbit --size 10MB --cc copa [2001:db8::7]\n  alcc send --transport in-band --carrier tls --pin FINGERPRINT --cc verus 192.0.2.7\n\nOn the other host, with the same --transport:\n  alcc recv --once"
)]
pub struct Args {
    /// Address of 'alcc recv': HOST or HOST:PORT
    #[arg(value_name = "HOST", value_parser = transport::receiver)]
    to: Target,
    #[command(flatten)]
    pub(super) how: How,
    #[command(flatten)]
    trusting: Trusting,
    /// Send generated data for this time [default: 10s]
    #[arg(long, value_name = "TIME", conflicts_with_all = ["size", "file"], value_parser = positive::<Span>)]
    duration: Option<Span>,
    /// Send this much generated data in each flow
    #[arg(long, value_name = "BYTES", conflicts_with = "file")]
    size: Option<Bytes>,
    /// Send this file; - is standard input
    #[arg(long, value_name = "PATH")]
    file: Option<PathBuf>,
    /// Reconnect and continue if the connection breaks; recv needs --resume, too
    ///
    /// Gives up when the receiver has received nothing new for TIME [default with --resume: 60min].
    #[arg(long, value_name = "TIME", requires = "file", num_args = 0..=1, require_equals = true, default_missing_value = "60min", value_parser = positive::<Span>)]
    resume: Option<Span>,
    /// Continue the transfer of an earlier 'alcc send --resume'
    ///
    /// SESSION is what that command printed. The file must be the same.
    #[arg(long, hide_short_help = true, value_name = "SESSION", requires = "resume", value_parser = session)]
    session: Option<[u8; 16]>,
    /// Send at most at this rate [default: unlimited]
    ///
    /// The data is written at this rate, as by an application that produces it, such as a video
    /// encoder.
    #[arg(long, value_name = "RATE", value_parser = positive::<Rate>)]
    rate: Option<Rate>,
    /// Number of parallel connections
    #[arg(long, value_name = "N", default_value = "1")]
    flows: NonZeroU16,
    /// Time limit for connecting
    #[arg(long, hide_short_help = true, value_name = "TIME", default_value = "5s", value_parser = positive::<Span>)]
    connect_timeout: Span,
    /// Algorithm with its options, see 'alcc list' [default: none]
    ///
    /// Without one, the kernel's congestion control decides alone. The transport in-band requires
    /// one.
    #[arg(long, value_name = "A")]
    cc: Option<Spec>,
    #[command(flatten)]
    plugins: Plugins,
    /// Kernel congestion control, such as cubic or bbr [default: the system's]
    ///
    /// It decides alone, or together with --cc: then the smaller window counts.
    #[arg(long, value_name = "TCPCC")]
    under: Option<String>,
    /// Source of acknowledgements, see 'alcc list'
    #[arg(long, hide_short_help = true, value_name = "F", default_value = "auto")]
    feedback: String,
    /// Enforcement of the window, see 'alcc list'
    #[arg(long, hide_short_help = true, value_name = "E", default_value = "auto")]
    enforce: String,
    /// Seed of the algorithm's random numbers
    #[arg(long, hide_short_help = true, value_name = "N", default_value_t = 1)]
    seed: u64,
}

pub use crate::transport::{default_name, names};

/// Options of both ends.
#[derive(clap::Args)]
pub struct How {
    /// Transport, the same at both ends
    #[arg(long, value_name = "NAME", default_value = transport::default_name(&TRANSPORTS), value_parser = transport::names(&TRANSPORTS))]
    pub transport: String,
    /// Port of the receiver
    #[arg(long, value_name = "PORT", default_value_t = DEFAULT_PORT, value_parser = clap::value_parser!(u16).range(1..))]
    pub port: u16,
    /// Local address
    #[arg(long, value_name = "ADDRESS")]
    pub bind: Option<IpAddr>,
    /// With TLS: accept any certificate of the receiver
    #[arg(long, hide_short_help = true)]
    pub insecure: bool,
    /// With --transport in-band: what the stream runs over, tcp or tls [default: tcp]
    #[arg(long, value_name = "CARRIER")]
    pub carrier: Option<String>,
    /// Give up after this time without progress
    #[arg(long, hide_short_help = true, value_name = "TIME", default_value = "120s", value_parser = positive::<Span>)]
    pub stall: Span,
    /// Write progress to FILE, in lines 'NANOSECONDS BYTES'
    ///
    /// Times are those of CLOCK_MONOTONIC.
    #[arg(long, hide_short_help = true, value_name = "FILE")]
    pub series: Option<PathBuf>,
    /// Print a JSON object at the end
    #[arg(long)]
    pub json: bool,
}

impl How {
    pub fn stall(&self) -> Duration {
        Duration::from_nanos(self.stall.as_nanos())
    }

    /// True if unencrypted data can leave this machine.
    pub fn cleartext(&self, program: &Program) -> bool {
        self.insecure || (program.is_emulated)()
    }

    pub(crate) fn series(&self) -> Result<Option<Series>, Failure> {
        self.series.as_deref().map(Series::create).transpose()
    }
}

pub fn run(args: &Args, program: &Program) -> Result<ExitCode, Failure> {
    let transport = program.transports.find(&args.how.transport)?;
    let options = options(args, program)?;
    let plan = program.transports.plan(transport, &options)?;
    let (mut headers, contents) = flows(args)?;
    let session = args.session.map_or_else(new_session, Ok)?;
    if args.resume.is_some() {
        let digits = hex(&session);
        program.note(format_args!(
            "to continue after this program has ended, repeat the command with --session {digits}"
        ));
    }
    for header in &mut headers {
        (header.session, header.clock) = (session, clock_digest(&session));
    }
    let series = args.how.series()?;
    let stop = stop_flag()?;
    // All that was written, and how much of the content is there: after a cut some goes again.
    let (sent, there) = (AtomicU64::new(0), AtomicU64::new(0));
    let mut to = args.to.clone();
    if to.port == 0 {
        to.port = args.how.port;
    }
    let passed = |bytes, now| {
        sent.fetch_add(bytes, Ordering::Relaxed);
        there.fetch_add(bytes, Ordering::Relaxed);
        if let Some(series) = &series {
            series.add(bytes, now);
        }
    };
    let dialer = transport.dialer(&options)?;
    transport::note_cleartext(program, &transport.about());
    let job = Job {
        dialer: &*dialer,
        to: &to,
        rate: args.rate,
        stall: args.how.stall(),
        stop: &stop,
        passed: &passed,
    };
    let began = Instant::now();
    let (before, mut ended) = (alcc_sys::process_cpu(), Vec::new());
    std::thread::scope(|scope| {
        let (tell, told) = mpsc::channel();
        for (header, content) in headers.iter().zip(contents) {
            let (tell, job, there) = (tell.clone(), &job, &there);
            scope.spawn(move || {
                let sent = match (args.resume, content) {
                    (Some(patience), Content::File(file)) => {
                        let patience = Duration::from_nanos(patience.as_nanos());
                        let happens = &mut |told: Told<'_>| match told {
                            Told::Cut(why) => program.note(format_args!("{why}; reconnecting")),
                            Told::From(bytes) => there.store(bytes, Ordering::Relaxed),
                        };
                        let begun = args.session.is_some();
                        resuming::flow(job, header, &file, begun, patience, happens)
                    }
                    (_, content) => flow(job, header, content),
                };
                drop(tell.send((header.flow, sent)));
            });
        }
        drop(tell);
        let mut shown = Shown::new(args, headers.len());
        loop {
            match told.recv_timeout(Duration::from_millis(500)) {
                Ok(one) => ended.push(one),
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    shown.show(sent.load(Ordering::Relaxed), there.load(Ordering::Relaxed));
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
            }
        }
    });
    drop(dialer);
    ended.sort_by_key(|(flow, _)| *flow);
    let ended: Vec<Sent> = ended.into_iter().map(|(_, sent)| sent).collect();
    let cpu = alcc_sys::process_cpu() - before;
    conclude(
        args,
        &to,
        &plan,
        &options.registry,
        &ended,
        cpu,
        began.elapsed(),
    )
}

/// 32 hexadecimal digits.
fn session(text: &str) -> Result<[u8; 16], String> {
    let digits = text.len() == 32 && text.bytes().all(|c| c.is_ascii_hexdigit());
    let number = u128::from_str_radix(text, 16).ok().filter(|_| digits);
    let number =
        number.ok_or("a session is 32 hexadecimal digits, as 'alcc send --resume' prints it")?;
    Ok(number.to_be_bytes())
}

fn options(args: &Args, program: &Program) -> Result<Options, Failure> {
    let registry = args.plugins.registry((program.algorithms)())?;
    if let Some(spec) = &args.cc {
        registry.build(spec).map_err(Failure::usage)?;
    }
    Ok(Options {
        cc: args.cc.clone(),
        registry,
        feedback: args.feedback.clone(),
        enforce: args.enforce.clone(),
        under: args.under.clone(),
        seed: args.seed,
        bind: args.how.bind,
        cleartext: args.how.cleartext(program),
        trust: args.trusting.trust(args.how.insecure)?,
        certificate: None,
        carrier: args.how.carrier.clone(),
        connect_timeout: Duration::from_nanos(args.connect_timeout.as_nanos()),
    })
}

/// Header and content of each flow.
fn flows(args: &Args) -> Result<(Vec<Header>, Vec<Content>), Failure> {
    let header = |flow, kind, size| Header {
        kind,
        flow,
        flows: args.flows.get(),
        size,
        session: [0; 16],
        clock: [0; 16],
        offset: None,
    };
    if let Some(path) = &args.file {
        if args.flows.get() > 1 {
            return Err(Failure::usage(
                "--file with --flows: a file is sent over one connection; omit --flows",
            ));
        }
        let (file, size) = open(path)?;
        if args.resume.is_some() && size.is_none() {
            return Err(Failure::usage(format!(
                "--resume --file {}: only a regular file can be resumed",
                path.display()
            )));
        }
        return Ok((vec![header(0, Kind::File, size)], vec![Content::File(file)]));
    }
    let duration = match (args.size, args.duration) {
        (Some(_), _) => None,
        (None, duration) => Some(duration.unwrap_or(Span::from_secs(10))),
    };
    let size = args.size.map(Bytes::get);
    let duration = duration.map(|span| Duration::from_nanos(span.as_nanos()));
    Ok((0..args.flows.get())
        .map(|flow| (header(flow, Kind::MadeUp, size), Content::MadeUp(duration)))
        .unzip())
}

fn open(path: &Path) -> Result<(File, Option<u64>), Failure> {
    use std::os::fd::AsFd;
    let failed =
        |e: std::io::Error| Failure::usage(format!("read {}: {}", path.display(), reason(&e)));
    let file: File = if path == Path::new("-") {
        let stdin = std::io::stdin().as_fd().try_clone_to_owned();
        stdin.map_err(failed)?.into()
    } else {
        File::open(path).map_err(failed)?
    };
    let about = file.metadata().map_err(failed)?;
    if about.is_dir() {
        return Err(Failure::usage(format!(
            "read {}: it is a folder: send one file, or 'tar c FOLDER | alcc send --file - HOST'",
            path.display()
        )));
    }
    // The position in standard input is not known.
    let size = (about.is_file() && path != Path::new("-")).then_some(about.len());
    Ok((file, size))
}

/// A transfer shorter than this needs no progress bar.
const QUIET: Duration = Duration::from_millis(800);

/// The progress bar; shown only if the transfer takes longer.
struct Shown<'a> {
    bar: Option<Bar>,
    args: &'a Args,
    flows: u64,
    began: Instant,
}

impl<'a> Shown<'a> {
    fn new(args: &'a Args, flows: usize) -> Self {
        Self {
            bar: None,
            args,
            flows: flows as u64,
            began: Instant::now(),
        }
    }

    /// `sent` determines the rate, `there` the position.
    fn show(&mut self, sent: u64, there: u64) {
        let took = self.began.elapsed();
        if took < QUIET {
            return;
        }
        let took = took.as_secs_f64();
        let file = self.args.file.as_deref();
        let size = self.args.size.map(|size| size.get() * self.flows);
        let size = size.or_else(|| {
            file?
                .metadata()
                .ok()
                .filter(|m| m.is_file())
                .map(|m| m.len())
        });
        let duration = self.args.duration.unwrap_or(Span::from_secs(10));
        let part = match size {
            Some(size) => there as f64 / size.max(1) as f64,
            None if file.is_some() => 0.0,
            None => took / duration.as_secs_f64().max(1e-3),
        };
        let what = format!(
            "{:.1} MB, {:.2} Mbit/s",
            there as f64 / 1e6,
            sent as f64 * 8e-6 / took
        );
        self.bar
            .get_or_insert_with(|| Bar::since(self.began))
            .show(part.min(1.0), &what);
    }
}

/// Bytes per ns in Mbit/s.
fn mbps(bytes: u64, ns: u64) -> Option<f64> {
    (ns > 0).then(|| bytes as f64 * 8e3 / ns as f64)
}

fn row(
    args: &Args,
    plan: &Plan,
    algorithms: &Registry,
    sent: &Sent,
    cpu_s_per_gbit: Option<f64>,
) -> Row {
    let bytes = sent.answer.as_ref().map_or(sent.bytes, |a| a.bytes);
    let ms = |ns: Option<u64>| ns.map(|ns| ns as f64 / 1e6);
    let answer = sent.answer.as_ref();
    let is_finite = args.size.is_some() || args.file.is_some();
    Row {
        scheme: plan.scheme.clone(),
        algorithm: plan.algorithm.clone(),
        options: plan.options.clone(),
        feedback: plan.feedback.clone(),
        enforcement: plan.enforcement.clone(),
        under: plan.under.clone(),
        profile: Some(match plan.feedback.as_str() {
            "kernel" => "kernel".to_owned(),
            _ => algorithms.profile(&plan.algorithm, &plan.options),
        }),
        duration_s: sent.took as f64 / 1e9,
        seed: args.seed,
        run: 1,
        goodput_mbps: match answer {
            Some(answer) => mbps(answer.bytes, answer.took),
            None => mbps(sent.bytes, sent.complete.unwrap_or(sent.took)),
        },
        bytes: Some(bytes),
        app_delay_median_ms: answer.and_then(|a| ms(a.delay_median)),
        app_delay_p95_ms: answer.and_then(|a| ms(a.delay_p95)),
        rtt_mean_ms: sent.stats.rtt_mean_ms,
        rtt_p95_ms: sent.stats.rtt_p95_ms,
        retransmits: sent.stats.retransmits,
        timeouts: sent.stats.timeouts,
        rtx_burst: sent.stats.rtx_burst,
        fct_ms: ms(sent.complete).filter(|_| is_finite && sent.failure.is_none()),
        cpu_s_per_gbit,
        lateness_p99_ms: sent.stats.lateness_p99_ms,
        error: sent.failure.as_ref().map(ToString::to_string),
        ..Row::default()
    }
}

fn conclude(
    args: &Args,
    to: &Target,
    plan: &Plan,
    algorithms: &Registry,
    ended: &[Sent],
    cpu: Span,
    took: Duration,
) -> Result<ExitCode, Failure> {
    let bytes: u64 = ended.iter().map(|sent| sent.bytes).sum();
    let cpu_s = cpu.as_secs_f64();
    let per_gbit = (bytes > 0).then(|| cpu_s / (bytes as f64 * 8e-9));
    let rows: Vec<Row> = ended
        .iter()
        .map(|sent| row(args, plan, algorithms, sent, per_gbit))
        .collect();
    let failed = rows.iter().filter(|row| row.error.is_some()).count();
    let told = if args.how.json {
        let summary = serde_json::json!({
            "transport": args.how.transport,
            "to": to.to_string(),
            "flows": rows.len(),
            "failed": failed,
            "bytes": bytes,
            "seconds": took.as_secs_f64(),
            "goodput_mbps": alcc_units::sum(rows.iter().filter_map(|r| r.goodput_mbps)),
            "cpu_s": cpu_s,
        });
        let json = serde_json::json!({"flows": rows, "summary": summary});
        print(format_args!("{json}\n"))
    } else if failed < rows.len() {
        print(table(&rows))
    } else {
        Ok(Reader::There)
    };
    // One is enough: all flows have the same destination.
    match ended.iter().find_map(|sent| sent.failure.as_ref()) {
        None => told.map(|_| ExitCode::SUCCESS),
        Some(Failure::Usage(why)) => Err(Failure::usage(why)),
        Some(Failure::Failed(why)) if failed < ended.len() => Err(Failure::failed(format!(
            "{failed} of {} flows failed, the first: {why}",
            ended.len()
        ))),
        Some(Failure::Failed(why)) => Err(Failure::failed(why)),
    }
}
