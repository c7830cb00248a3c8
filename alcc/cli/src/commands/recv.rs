// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::send::How;
use crate::certificate::Showing;
use crate::failure::{Failure, reason};
use crate::output::{folder, note, print, will_be_written};
use crate::program::Program;
use crate::progress::stop_flag;
use crate::transport;
use alcc_cc::DEFAULT;
use alcc_pipe::tls::Fingerprint;
use alcc_pipe::{DEFAULT_PORT, Incoming, MAX_WAIT, Options};
use alcc_sys::client_of;
use alcc_transfer::receiving::{Activity, Disk, Output, Received, Rules, flow};
use alcc_transfer::{Header, Kind, Sessions, hex};
use alcc_units::row::Row;
use alcc_units::{Bytes, Span, positive};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// Receive transfers from 'alcc send'
///
/// Runs until Ctrl-C, --once or --count. Verifies the data and prints the rate and the delay of
/// each transfer. Without --out nothing is stored. Anyone who can reach the port can send: restrict
/// access with a firewall.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  alcc recv --once --out video.mp4\n  alcc recv --out incoming/ --resume",
    after_long_help = "Examples:\n  alcc recv\n  alcc recv --once --out video.mp4\n  alcc recv --out incoming/ --resume\n  alcc recv --bind 192.0.2.7 --port 5000 --out incoming/ --json\n  alcc recv --transport in-band --carrier tls\n\nOn the other host:\n  alcc send --file video.mp4 192.0.2.7"
)]
pub struct Args {
    #[command(flatten)]
    how: How,
    #[command(flatten)]
    showing: Showing,
    /// Store files under this name, or in this folder; - is standard output
    ///
    /// In a folder they are called received-1, received-2, ... With a file name or - only one
    /// transfer is accepted.
    #[arg(long, value_name = "FILE|DIR")]
    out: Option<PathBuf>,
    /// Let --out FILE replace an existing file
    #[arg(long, requires = "out")]
    overwrite: bool,
    /// Exit after one transfer, when all its flows have ended
    #[arg(long, conflicts_with = "count")]
    once: bool,
    /// Exit after N transfers
    #[arg(long, value_name = "N")]
    count: Option<NonZeroU32>,
    /// Maximum number of connections
    ///
    /// One address may have half of them, or 16 if that is more. When all are in use, the newest
    /// connection that delivered less than 1 kB within 2 s is closed in favour of a new one. If
    /// there is none, the new one is refused.
    #[arg(long, hide_short_help = true, value_name = "N", default_value = "64")]
    connections: NonZeroU32,
    /// Keep interrupted files for the sender's --resume
    ///
    /// They are kept for TIME [default with --resume: 60min]. All of them together have at most
    /// --max-size bytes.
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true, default_missing_value = "60min", value_parser = positive::<Span>)]
    resume: Option<Span>,
    /// Maximum number of interrupted files; the shortest is deleted first
    #[arg(
        long,
        hide_short_help = true,
        value_name = "N",
        default_value = "16",
        requires = "resume"
    )]
    resume_files: NonZeroU32,
    /// Refuse transfers larger than this
    #[arg(long, value_name = "BYTES", default_value = "100GB", value_parser = positive::<Bytes>)]
    max_size: Bytes,
    /// Maximum size of all stored files [default: unlimited]
    ///
    /// Interrupted files are included. In any case 5 % of the file system, at most 1 GiB, are left
    /// free.
    #[arg(long, hide_short_help = true, value_name = "BYTES", value_parser = positive::<Bytes>, requires = "out")]
    max_total: Option<Bytes>,
}

/// Time after which a transfer ends if its other flows do not arrive.
const MAX_WAIT_FOR_FLOWS: Duration = Duration::from_secs(5);
/// Number of connections that every address can have, for the flows of one sender.
const MIN_PER_ADDRESS: usize = 16;
/// Minimum interval between notes about unexpected clients.
const MIN_NOTE_INTERVAL: Duration = Duration::from_secs(1);
/// Rows that are kept for `--json`.
const MAX_ROWS: usize = 10_000;
/// The stack of the thread of a connection.
const STACK: usize = 256 * 1024;

pub fn run(args: &Args, program: &Program) -> Result<ExitCode, Failure> {
    let transport = program.transports.find(&args.how.transport)?;
    let out = out(args)?;
    let wanted = match (&out, args.once, args.count) {
        (Output::File(_) | Output::Stdout, _, Some(n)) if n.get() > 1 => {
            return Err(Failure::usage(
                "--out FILE stores one transfer: give a folder for several, or omit --count",
            ));
        }
        (Output::File(_) | Output::Stdout, ..) | (_, true, _) => Some(1),
        (.., count) => count.map(NonZeroU32::get),
    };
    if args.resume.is_some() && out == Output::Stdout {
        return Err(Failure::usage(
            "--resume with --out -: written data cannot be taken back; give a file",
        ));
    }
    let sessions = |keep: Span| {
        let keep = Duration::from_nanos(keep.as_nanos());
        Sessions::new(keep, args.resume_files.get() as usize, args.max_size.get())
    };
    let rules = Arc::new(Rules {
        out,
        overwrite: args.overwrite,
        max_size: args.max_size.get(),
        disk: Arc::new(Disk::new(args.max_total.map_or(u64::MAX, Bytes::get))),
        stall: args.how.stall(),
        resume: args.resume.map(sessions),
        closed: AtomicBool::new(false),
        stop: Arc::default(),
        passed: match args.how.series()? {
            Some(series) => Box::new(move |bytes, now| series.add(bytes, now)),
            None => Box::new(|_, _| {}),
        },
    });
    let options = options(args, program);
    let everywhere = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
    let at = SocketAddr::new(args.how.bind.unwrap_or(everywhere), args.how.port);
    let stop = stop_flag()?;
    let mut listening = program.transports.listen(transport, at, &options)?;
    transport::note_cleartext(program, &transport.about());
    let fingerprint = listening.fingerprint();
    program.note(format_args!(
        "listening on {} ({})",
        listening.address(),
        transport.about().name
    ));
    note(invitation(args, program, fingerprint.as_ref()));
    let mut server = Server::new(program, args, Arc::clone(&rules), wanted);
    let mut result = Ok(());
    while !stop.load(Ordering::Relaxed) && !server.is_done() {
        let has_all = server.has_all();
        rules.closed.store(has_all, Ordering::Relaxed);
        // What is cut comes over another connection.
        if has_all && rules.resume.is_none() {
            // Waiting for more would cost some transports wake-ups.
            server.listen_to_threads(MAX_WAIT);
            continue;
        }
        match listening.accept() {
            Ok(Some(pipe)) => server.take(pipe),
            Ok(None) => {}
            Err(why) => {
                result = Err(Failure::failed(format!(
                    "wait for senders on {}: {why}",
                    listening.address()
                )));
                break;
            }
        }
        server.listen_to_threads(Duration::ZERO);
    }
    server.end();
    drop(listening);
    server.report();
    result?;
    server.verdict()
}

/// The sender's command for this receiver, to copy.
fn invitation(args: &Args, program: &Program, fingerprint: Option<&Fingerprint>) -> String {
    let mut command = format!("{} send --transport {}", program.name, args.how.transport);
    if let Some(carrier) = &args.how.carrier {
        command += &format!(" --carrier {carrier}");
    }
    if args.how.port != DEFAULT_PORT {
        command += &format!(" --port {}", args.how.port);
    }
    let Some(fingerprint) = fingerprint else {
        return format!(
            "{}: the sender's command: {command} --cc {DEFAULT} HOST",
            program.name
        );
    };
    let whose = match args.showing.files() {
        Some(_) => "the one of --cert",
        None => "new at each start",
    };
    format!("certificate ({whose}): {command} --cc {DEFAULT} --pin {fingerprint} HOST")
}

fn options(args: &Args, program: &Program) -> Options {
    Options {
        bind: args.how.bind,
        cleartext: args.how.cleartext(program),
        certificate: args.showing.files(),
        carrier: args.how.carrier.clone(),
        ..Options::new((program.algorithms)())
    }
}

fn out(args: &Args) -> Result<Output, Failure> {
    let Some(path) = &args.out else {
        return Ok(Output::Discard);
    };
    if path == Path::new("-") {
        return if args.how.json {
            Err(Failure::usage(
                "--out - with --json: both would go to standard output; give a file",
            ))
        } else {
            Ok(Output::Stdout)
        };
    }
    let ends_like_a_folder = path.as_os_str().as_encoded_bytes().ends_with(b"/");
    match std::fs::metadata(path) {
        Ok(about) if about.is_dir() => {
            folder(path)?;
            Ok(Output::Folder(path.clone()))
        }
        Ok(about) if !about.is_file() => Err(Failure::usage(format!(
            "--out {}: it is not a regular file: name a file or a folder, or '-'",
            path.display()
        ))),
        Ok(_) if args.overwrite => {
            will_be_written(path)?;
            Ok(Output::File(path.clone()))
        }
        Ok(_) => Err(Failure::usage(format!(
            "--out {}: it exists: add --overwrite, or choose another name",
            path.display()
        ))),
        Err(why) if why.kind() == ErrorKind::NotFound && !ends_like_a_folder => {
            let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
            if folder.is_some_and(|folder| !folder.is_dir()) {
                return Err(Failure::usage(format!(
                    "--out {}: its folder does not exist: create it first",
                    path.display()
                )));
            }
            will_be_written(path)?;
            Ok(Output::File(path.clone()))
        }
        Err(why) if why.kind() == ErrorKind::NotFound => Err(Failure::usage(format!(
            "--out {}: no such folder: create it first",
            path.display()
        ))),
        Err(why) => Err(Failure::usage(format!(
            "--out {}: {}",
            path.display(),
            reason(&why)
        ))),
    }
}

enum FlowMessage {
    /// A flow reports its transfer.
    Begun(Header),
    /// The flow of this number.
    Ended(u64, Box<Received>),
}

/// A flow with a place.
struct Open {
    number: u64,
    /// Its address, or the name of its kind if it has none.
    from: String,
    activity: Arc<Activity>,
}

/// The flows of one transfer.
#[derive(Default)]
struct Together {
    open: u32,
    ended: u32,
    flows: u32,
    failed: bool,
    last: Option<Instant>,
}

/// The state of the receiver.
struct Server<'a> {
    program: &'a Program,
    args: &'a Args,
    rules: Arc<Rules>,
    wanted: Option<u32>,
    tell: mpsc::Sender<FlowMessage>,
    told: mpsc::Receiver<FlowMessage>,
    /// In the order of arrival.
    open: Vec<Open>,
    came: u64,
    /// Threads that have not ended, also those that have lost their place to a newer sender.
    running: u64,
    going: BTreeMap<[u8; 16], Together>,
    transfers: u32,
    failed: u32,
    strangers: u64,
    turned_away: u64,
    bytes: u64,
    spoke: Option<Instant>,
    rows: Vec<Row>,
    /// Why standard output could not be written.
    unsaid: Option<Failure>,
    began: Instant,
    /// CPU time before the first of them.
    cpu_before: Span,
}

impl<'a> Server<'a> {
    fn new(program: &'a Program, args: &'a Args, rules: Arc<Rules>, wanted: Option<u32>) -> Self {
        let (tell, told) = mpsc::channel();
        Self {
            program,
            args,
            rules,
            wanted,
            tell,
            told,
            open: Vec::new(),
            came: 0,
            running: 0,
            going: BTreeMap::new(),
            transfers: 0,
            failed: 0,
            strangers: 0,
            turned_away: 0,
            bytes: 0,
            spoke: None,
            rows: Vec::new(),
            unsaid: None,
            began: Instant::now(),
            cpu_before: alcc_sys::process_cpu(),
        }
    }

    fn is_done(&self) -> bool {
        self.wanted.is_some_and(|wanted| self.transfers >= wanted)
    }

    /// True if all expected flows have arrived.
    fn has_all(&self) -> bool {
        let begun = self.going.values();
        let whole = begun.filter(|t| t.open + t.ended >= t.flows).count();
        let whole = u32::try_from(whole).unwrap_or(u32::MAX);
        self.wanted
            .is_some_and(|wanted| self.transfers.saturating_add(whole) >= wanted)
    }

    fn take(&mut self, mut pipe: Box<dyn Incoming>) {
        let peer = pipe.peer();
        let from = match peer.parse::<SocketAddr>() {
            Ok(address) => client_of(address.ip()).to_string(),
            Err(_) => peer.clone(),
        };
        let most = self.args.connections.get() as usize;
        let same = self.open.iter().filter(|open| open.from == from).count();
        if same >= most.min((most / 2).max(MIN_PER_ADDRESS)) && !self.make_room(Some(&from))
            || self.open.len() >= most && !self.make_room(None)
        {
            self.turned_away += 1;
            let why = "refused: the maximum number of --connections is open";
            self.seldom(&peer, why);
            return;
        }
        self.came += 1;
        let number = self.came;
        let activity = Arc::<Activity>::default();
        let watched = Arc::clone(&activity);
        let (tell, rules) = (self.tell.clone(), Arc::clone(&self.rules));
        let thread = std::thread::Builder::new().stack_size(STACK);
        let spawned = thread.spawn(move || {
            let ended = flow(&mut *pipe, &rules, &watched, |header| {
                drop(tell.send(FlowMessage::Begun(header.clone())));
            });
            // It may wait until the answer has arrived: the program does not end before that.
            drop(pipe);
            // This fails only after the end of the command.
            drop(tell.send(FlowMessage::Ended(number, Box::new(ended))));
        });
        match spawned {
            Ok(_) => {
                self.running += 1;
                self.open.push(Open {
                    number,
                    from,
                    activity,
                });
            }
            Err(why) => self.seldom("a sender", &format!("refused: {why}")),
        }
    }

    /// Ends the newest silent flow, of this address or of all. The newest one, because a sender that
    /// delivered data before it fell silent is worth more than one that only connected.
    fn make_room(&mut self, from: Option<&str>) -> bool {
        let of = |open: &Open| from.is_none_or(|from| open.from == from);
        let mut newest = self.open.iter().rev();
        let Some(found) = newest.find(|open| of(open) && open.activity.is_silent()) else {
            return false;
        };
        let number = found.number;
        found.activity.make_room();
        // Its thread ends on its own; the place is free at once.
        self.open.retain(|open| open.number != number);
        true
    }

    /// Fails files whose remainder has not arrived in time.
    fn forget(&mut self, all: bool) {
        let resume = self.rules.resume.as_ref();
        let forgotten = resume.map_or(0, |sessions| sessions.sweep(all));
        self.transfers += forgotten;
        self.failed += forgotten;
        if forgotten > 0 {
            let said = format_args!("{forgotten} interrupted: not resumed in time");
            self.program.note(said);
        }
    }

    /// Handles the reports of the flows. Waits at most `patience` for the first.
    fn listen_to_threads(&mut self, patience: Duration) {
        let mut next = if patience.is_zero() {
            self.told.try_recv().ok()
        } else {
            self.told.recv_timeout(patience).ok()
        };
        while let Some(told) = next {
            match told {
                FlowMessage::Begun(header) => {
                    let together = self.going.entry(header.session).or_default();
                    together.open += 1;
                    together.flows = together.flows.max(header.flows.into());
                    together.last = Some(Instant::now());
                }
                FlowMessage::Ended(number, received) => {
                    self.running -= 1;
                    self.open.retain(|open| open.number != number);
                    self.ended(&received);
                }
            }
            next = self.told.try_recv().ok();
        }
        self.forget(false);
        self.settle(false);
    }

    fn ended(&mut self, received: &Received) {
        self.bytes += received.bytes;
        let Some(header) = &received.header else {
            self.strangers += 1;
            let why = received.failure.as_deref().unwrap_or("sent nothing");
            self.seldom(&received.peer, why);
            return;
        };
        if header.kind == Kind::Ask && received.failure.is_none() {
            return;
        }
        if received.waits {
            // The connection that continues it may have begun already.
            if let Some(together) = self.going.get_mut(&header.session) {
                together.open = together.open.saturating_sub(1);
            }
            self.going
                .retain(|_, together| together.open + together.ended > 0);
            self.program.note(format_args!(
                "{}: waiting for the sender to resume",
                line(received, header)
            ));
            return;
        }
        if let Some(together) = self.going.get_mut(&header.session) {
            together.open = together.open.saturating_sub(1);
            together.ended += 1;
            together.failed |= received.failure.is_some();
            together.last = Some(Instant::now());
        }
        let line = line(received, header);
        if received.failure.is_some() || self.args.how.json || self.rules.out == Output::Stdout {
            self.program.note(line);
        } else {
            self.say(&format!("{line}\n"));
        }
        if self.rows.len() < MAX_ROWS {
            self.rows.push(self.row(received));
        }
    }

    /// Counts the finished transfers; `all`: even if their other flows have not arrived.
    fn settle(&mut self, all: bool) {
        let (transfers, failed) = (&mut self.transfers, &mut self.failed);
        self.going.retain(|_, together| {
            let alone = together
                .last
                .is_some_and(|at| at.elapsed() > MAX_WAIT_FOR_FLOWS);
            let over = together.open == 0 && (together.ended >= together.flows || alone || all);
            if over {
                *transfers += 1;
                *failed += u32::from(together.failed || together.ended < together.flows);
            }
            !over
        });
    }

    /// Ends the remaining flows.
    fn end(&mut self) {
        self.rules.stop.store(true, Ordering::Relaxed);
        // What they have begun goes with them, however busy the machine is.
        let until = Instant::now() + Duration::from_secs(10);
        while self.running > 0 && Instant::now() < until {
            self.listen_to_threads(Duration::from_millis(100));
        }
        self.forget(true);
        self.settle(true);
    }

    /// Prints a note on standard error, at limited intervals.
    fn seldom(&mut self, who: &str, what: &str) {
        if self
            .spoke
            .is_none_or(|at| at.elapsed() >= MIN_NOTE_INTERVAL)
        {
            self.spoke = Some(Instant::now());
            self.program.note(format_args!("{who}: {what}"));
        }
    }

    /// Prints on standard output. Transfers continue if it cannot be written.
    fn say(&mut self, text: &str) {
        if let Err(why) = print(text) {
            self.unsaid.get_or_insert(why);
        }
    }

    fn row(&self, received: &Received) -> Row {
        Row {
            scheme: self.args.how.transport.clone(),
            // The sender's algorithm is not in the transfer.
            profile: Some("unknown".to_owned()),
            duration_s: received.took as f64 / 1e9,
            run: 1,
            goodput_mbps: (received.took > 0)
                .then(|| received.bytes as f64 * 8e3 / received.took as f64),
            bytes: Some(received.bytes),
            app_delay_median_ms: received.delay_ms.map(|d| d[0]),
            app_delay_p95_ms: received.delay_ms.map(|d| d[1]),
            error: received.failure.clone(),
            ..Row::default()
        }
    }

    fn report(&mut self) {
        if !self.args.how.json {
            return;
        }
        let cpu_s = (alcc_sys::process_cpu() - self.cpu_before).as_secs_f64();
        let per_gbit = (self.bytes > 0).then(|| cpu_s / (self.bytes as f64 * 8e-9));
        for row in &mut self.rows {
            row.cpu_s_per_gbit = per_gbit;
        }
        let summary = serde_json::json!({
            "transport": self.args.how.transport,
            "transfers": self.transfers,
            "failed": self.failed,
            "strangers": self.strangers,
            "turned_away": self.turned_away,
            "bytes": self.bytes,
            "seconds": self.began.elapsed().as_secs_f64(),
            "cpu_s": cpu_s,
        });
        let text = serde_json::json!({"flows": self.rows, "summary": summary});
        self.say(&format!("{text}\n"));
    }

    fn verdict(self) -> Result<ExitCode, Failure> {
        if self.failed > 0 {
            return Err(Failure::failed(format!(
                "{} of {} transfers failed",
                self.failed, self.transfers
            )));
        }
        match self.wanted {
            Some(wanted) if self.transfers < wanted => Err(Failure::failed(format!(
                "interrupted after {} of {wanted} transfers",
                self.transfers
            ))),
            _ => self.unsaid.map_or(Ok(ExitCode::SUCCESS), Err),
        }
    }
}

/// The result as text for people.
fn line(received: &Received, header: &Header) -> String {
    let seconds = received.took as f64 / 1e9;
    let mut text = format!(
        "{}: {:.2} MB in {seconds:.2} s",
        received.peer,
        received.bytes as f64 / 1e6
    );
    if let Some(why) = &received.failure {
        return format!("{text}, then failed: {why}");
    }
    // What came with one read took no time that is known.
    if received.took > 0 {
        text.push_str(&format!(
            ", {:.2} Mbit/s",
            received.bytes as f64 * 8e-6 / seconds
        ));
    }
    if let Some([median, p95]) = received.delay_ms {
        text.push_str(&format!(
            ", from write to read {median:.1} ms (p95 {p95:.1})"
        ));
    }
    if header.kind == Kind::File {
        text.push_str(&format!(", SHA-256 {}", hex(&received.hash)));
    }
    if let Some(path) = &received.kept {
        text.push_str(&format!(", kept as {}", path.display()));
    }
    text
}
