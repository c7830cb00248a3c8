// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `alcc trial`: the assignment of clients to groups, the comparison, and its end.
//!
//! Plain connections are read by the same runtime as the others, under a window that no connection
//! reaches. So both groups are measured in the same way, and only one of them is limited.
mod left;
mod list;
mod report;
mod salt;
mod seen;
mod source;

pub(crate) use source::Source;

use crate::failure::Failure;
use crate::http::spawn;
use crate::metrics::More;
use crate::output::{Product, note, will_be_written};
use alcc_cc::Spec;
use alcc_observe::trial::{Effect, MAX_MISSING, Tally, Transfers, effects, harm};
use alcc_observe::{Pattern, Share};
use alcc_socket::{Rule, now};
use alcc_sys::lock;
use alcc_units::{Span, Time, positive};
use list::List;
use report::About;
use seen::Seen;
use source::{Kernel, Readings, Ring};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// The window of the plain group, so large that it never closes the gate.
pub(crate) const PLAIN: &str = "fixed:window=1000000";
/// Interval between readings of a connection.
const PERIOD: Span = Span::from_millis(5);
/// The pause after readings is at least this multiple of their duration.
const REST: u64 = 4;
/// After this time without a reading a connection has ended, or its transfer has.
const FORGET: Span = Span::from_secs(600);

/// Options of a trial.
pub(crate) struct Options {
    pub(crate) share: Share,
    /// Largest deterioration of the treated clients before the trial ends: 0.2 is 20 %.
    pub(crate) worse: f64,
    pub(crate) interval: Span,
    pub(crate) html: Option<PathBuf>,
    /// File for one line per transfer.
    pub(crate) transfers: Option<PathBuf>,
}

/// A trial as options of a command that has other uses.
#[derive(clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// Control only this share of clients and compare, see docs/trial.md
    ///
    /// SHARE is such as 10%.
    #[arg(long, value_name = "SHARE")]
    trial: Option<Share>,
    /// With --trial: end it if these clients are worse off by more than this
    #[arg(long, hide_short_help = true, value_name = "PERCENT", default_value = "20%", requires = "trial", value_parser = percent)]
    worse: f64,
    /// With --trial: interval of the checks and of their reports on standard error
    #[arg(long, hide_short_help = true, value_name = "TIME", default_value = "10s", requires = "trial", value_parser = positive::<Span>)]
    interval: Span,
    /// With --trial: write the comparison to FILE at the end, as an HTML page
    #[arg(long, hide_short_help = true, value_name = "FILE", requires = "trial")]
    html: Option<PathBuf>,
    /// With --trial: write one line for each transfer to FILE, as CSV
    #[arg(long, hide_short_help = true, value_name = "FILE", requires = "trial")]
    transfers: Option<PathBuf>,
}

impl Args {
    /// The options of the trial, if there is one. The page's path is checked now, not at the end.
    pub(crate) fn options(&self) -> Result<Option<Options>, Failure> {
        if let Some(path) = &self.html {
            will_be_written(path)?;
        }
        let options = self.trial.map(|share| {
            Ok(Options {
                share: secret(share)?,
                worse: self.worse,
                interval: self.interval,
                html: self.html.clone(),
                transfers: self.transfers.clone(),
            })
        });
        options.transpose()
    }
}

/// The same share of the clients, selected by a secret, so that others cannot predict it.
pub(crate) fn secret(share: Share) -> Result<Share, Failure> {
    salt::secret(share).map_err(|e| Failure::usage(format!("read /dev/urandom: {e}")))
}

/// Interval until the next readings, after some that took this long.
fn period_after(took: Span) -> Span {
    PERIOD.max(Span::from_nanos(took.as_nanos().saturating_mul(REST)))
}

/// `20%` as 0.2.
pub(crate) fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').and_then(|n| n.parse::<f64>().ok());
    match number {
        Some(n) if n > 0.0 && n <= 1000.0 => Ok(n / 100.0),
        _ => Err(format!("'{text}' is not a percentage above 0: write 20%")),
    }
}

/// The algorithm of a trial and its options.
pub(crate) struct Plan<'a> {
    cc: Spec,
    options: &'a Options,
    /// Description of the plain group.
    plain: String,
}

impl fmt::Display for Plan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "trial of {} on {}% of the clients, the others are measured as plain TCP",
            self.cc,
            self.options.share.percent()
        )
    }
}

impl<'a> Plan<'a> {
    /// The rules that put the share under the algorithm and leave the others plain.
    pub(crate) fn divide(
        options: &'a Options,
        cc: &mut Spec,
        under: Option<&str>,
        rules: &mut Vec<Rule>,
    ) -> Result<Self, Failure> {
        check_share(options.share)?;
        if !rules.is_empty() {
            return Err(Failure::usage(
                "a trial divides all clients: remove 'cc' and 'under' from the sections [[port]] and [[peer]] of the file",
            ));
        }
        let plain = PLAIN.parse().map_err(Failure::usage)?;
        let cc = std::mem::replace(cc, plain);
        *rules = vec![Rule {
            pattern: Pattern::Share(options.share),
            cc: Some(cc.clone()),
            under: None,
        }];
        let plain = plain_control(under);
        Ok(Self { cc, options, plain })
    }

    /// Plans a trial with the share under a control of the kernel; other clients do not change.
    pub(crate) fn in_the_kernel(options: &'a Options, cc: Spec) -> Result<Self, Failure> {
        check_share(options.share)?;
        let plain = plain_control(None);
        Ok(Self { cc, options, plain })
    }
}

/// Description of the plain group's control: `under`, or the system's default.
fn plain_control(under: Option<&str>) -> String {
    under.map_or_else(
        || {
            let default = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control");
            let default = default.unwrap_or_default();
            format!("{}, the system's default", default.trim())
        },
        str::to_owned,
    )
}

/// Refuses a share of all clients, because it leaves no group for comparison.
fn check_share(share: Share) -> Result<(), Failure> {
    if share.per_mille() < 1000 {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "a trial on {}% of the clients leaves none to compare with: write 0.1% to 99.9%, such as 50%",
        share.percent()
    )))
}

/// The results so far.
#[derive(Default)]
struct Known {
    plain: Tally,
    treated: Tally,
    /// The reason why the trial ended itself.
    stopped: Option<Effect>,
    /// Number of readings that were lost because they came too fast.
    lost: u64,
    /// Connections that were closed with bytes in flight and not seen to their end.
    unseen: u64,
    /// Connections that were closed with bytes in flight while too many others were followed.
    beyond: u64,
    /// Transfers that began and were not seen to their end: of the plain group, of the treated.
    unended: [u64; 2],
    about: About,
}

impl Known {
    /// The share of the transfers of each group that were not seen to their end.
    fn unended_shares(&self) -> [f64; 2] {
        let ended = [&self.plain, &self.treated].map(Tally::transfers);
        std::array::from_fn(|n| {
            let all = ended[n] + self.unended[n];
            self.unended[n] as f64 / all.max(1) as f64
        })
    }

    /// False if too much is missing for a comparison of both groups.
    fn is_whole(&self) -> bool {
        self.unended_shares()
            .iter()
            .all(|share| *share <= MAX_MISSING)
    }

    fn effects(&self) -> Vec<Effect> {
        effects(&self.plain, &self.treated)
    }
}

/// Follows the readings, in a thread of its own.
pub(crate) struct Watch {
    known: Arc<Mutex<Known>>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
    name: String,
    html: Option<PathBuf>,
    quiet: bool,
}

impl Watch {
    pub(crate) fn start(plan: &Plan<'_>, source: Source, quiet: bool) -> Result<Self, Failure> {
        if let Source::Ring(segment) = &source {
            let no_room =
                |e| Failure::usage(format!("allocate memory for the readings of a trial: {e}"));
            // Memory for the ring, or an error now.
            let _trace = segment.trace().map_err(no_room)?;
        }
        let list = plan.options.transfers.as_deref().map(List::create);
        let list = list.transpose()?;
        let known = Arc::new(Mutex::new(Known {
            about: About::now(&plan.plain),
            ..Known::default()
        }));
        let stop = Arc::new(AtomicBool::new(false));
        let thread = spawn("alcc-trial", {
            let follower = Follower {
                known: Arc::clone(&known),
                connections: BTreeMap::new(),
                share: plan.options.share,
                worse: plan.options.worse,
                name: plan.cc.to_string(),
                quiet,
                list,
            };
            let (stop, interval) = (Arc::clone(&stop), plan.options.interval);
            move || follower.follow(source, &stop, interval)
        });
        let failed = |e| Failure::usage(format!("start a thread for the trial: {e}"));
        Ok(Self {
            known,
            stop,
            thread: thread.map_err(failed)?,
            name: plan.cc.to_string(),
            html: plan.options.html.clone(),
            quiet,
        })
    }

    /// Both groups, for Prometheus.
    pub(crate) fn metrics(&self) -> More {
        let known = Arc::clone(&self.known);
        Arc::new(move |page| report::metrics(&lock(&known), page))
    }

    /// True if the trial has ended itself.
    pub(crate) fn has_stopped(&self) -> bool {
        lock(&self.known).stopped.is_some()
    }

    /// Ends the trial, reports the result, writes the page, and returns the result as JSON.
    pub(crate) fn finish(self) -> serde_json::Value {
        self.stop.store(true, Ordering::Release);
        self.thread.thread().unpark();
        drop(self.thread.join());
        let known = lock(&self.known);
        if !self.quiet {
            note(report::table(&self.name, &known));
        }
        match Product::named(self.html.as_deref()) {
            Ok(Some(file)) => file.report(report::html(&self.name, &known)),
            Ok(None) => {}
            Err(why) => note(format_args!("alcc: {why}")),
        }
        report::json(&self.name, &known)
    }
}

struct Follower {
    known: Arc<Mutex<Known>>,
    /// With the client of each.
    connections: BTreeMap<(u32, u64), (u64, Transfers)>,
    share: Share,
    worse: f64,
    name: String,
    quiet: bool,
    list: Option<List>,
}

impl Follower {
    fn follow(self, source: Source, stop: &AtomicBool, interval: Span) {
        match source {
            Source::Ring(segment) => {
                if let Ok(mut ring) = Ring::new(&segment) {
                    self.run(&mut ring, stop, interval);
                }
            }
            Source::Kernel(trial) => self.run(&mut Kernel::new(trial), stop, interval),
        }
    }

    fn run(mut self, source: &mut dyn Readings, stop: &AtomicBool, interval: Span) {
        let (mut next, mut said) = (now() + interval, 0);
        loop {
            let over = stop.load(Ordering::Acquire);
            let at = now();
            source.take(at, &mut |seen| self.reading(seen));
            {
                let mut known = lock(&self.known);
                (known.lost, known.unseen) = (source.lost(), source.unseen());
                known.beyond = source.beyond();
            }
            if over {
                let all = std::mem::take(&mut self.connections);
                (all.into_values()).for_each(|connection| self.gone(connection));
                return source.end();
            }
            if next <= at {
                next = at + interval;
                self.judge(source);
                self.forget(at);
                let known = lock(&self.known);
                let transfers = known.plain.transfers() + known.treated.transfers();
                if !self.quiet && transfers != said {
                    said = transfers;
                    note(report::line(&self.name, &known));
                }
            }
            source.wait();
        }
    }

    fn reading(&mut self, seen: &Seen) {
        let connection = self.connections.entry(seen.connection).or_default();
        connection.0 = seen.client;
        let ended = connection.1.reading(&seen.reading);
        if seen.is_last
            && let Some(connection) = self.connections.remove(&seen.connection)
        {
            self.gone(connection);
        }
        let Some(transfer) = ended else { return };
        let treated = self.share.has(seen.client);
        if let Some(list) = &mut self.list {
            list.add(treated, seen.client, &transfer);
        }
        let mut known = lock(&self.known);
        if treated {
            known.treated.add(seen.client, &transfer);
        } else {
            known.plain.add(seen.client, &transfer);
        }
    }

    /// Counts a connection that ended in the middle of a transfer.
    fn gone(&self, (client, transfers): (u64, Transfers)) {
        if transfers.is_pending() {
            let group = usize::from(self.share.has(client));
            lock(&self.known).unended[group] += 1;
        }
    }

    /// Ends the trial if it does harm.
    fn judge(&self, source: &mut dyn Readings) {
        let mut known = lock(&self.known);
        if known.stopped.is_some() {
            return;
        }
        let Some(why) = harm(&known.plain, &known.treated, self.worse) else {
            return;
        };
        if source.give_back(self.share) {
            known.stopped = Some(why);
            // A guard that errs does no harm, and one that waits for whole figures may.
            let doubt = if known.is_whole() {
                ""
            } else {
                " as far as was seen (over 10 % of a group's transfers did not end)"
            };
            note(format_args!(
                "alcc: the trial of {} has ended itself: {}{doubt}; all clients have plain TCP now",
                self.name,
                report::effect(&why)
            ));
        }
    }

    fn forget(&mut self, at: Time) {
        let recent = |c: &Transfers| c.read_at().is_some_and(|read| at.since(read) < FORGET);
        let mut gone = Vec::new();
        self.connections.retain(|_, connection| {
            let stays = recent(&connection.1);
            if !stays {
                gone.push(std::mem::take(connection));
            }
            stays
        });
        for connection in gone {
            self.gone(connection);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_a_percentage() {
        assert_eq!(percent("20%"), Ok(0.2));
        for bad in ["20", "0%", "-5%", "x%", "nan%"] {
            assert!(percent(bad).is_err(), "{bad}");
        }
    }
}
