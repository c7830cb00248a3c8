// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `alcc trial`: who is in which group, what their connections tell, and when it ends.
//!
//! Plain connections are read by the same runtime as the others, under a window that nothing
//! reaches. So both groups are measured alike, and only one of them is held back.
mod report;

use crate::failure::Failure;
use crate::http::spawn;
use crate::metrics::More;
use crate::output::{Product, note};
use alcc_cc::Spec;
use alcc_observe::{Action, Command, Pattern, Segment, Share, TraceEntry};
use alcc_results::trial::{Effect, Reading, Tally, Transfers, effects, harm};
use alcc_socket::{Rule, now};
use alcc_units::{Span, Time};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// The window of the plain group: as large as there is, so it never closes the gate.
pub(crate) const PLAIN: &str = "fixed:window=1000000";
/// Interval at which the ring of readings is emptied. It holds 65536.
const PERIOD: Duration = Duration::from_millis(20);
/// The processes stop writing readings so long after this one has ended.
const LEASE: Span = Span::from_secs(2);
/// A connection that was not read for so long has ended, or its transfer has.
const FORGET: Span = Span::from_secs(600);

/// How it is tried.
pub(crate) struct Options {
    pub(crate) share: Share,
    /// The trial ends where the treated clients are worse by more: 0.2 is 20 %.
    pub(crate) worse: f64,
    pub(crate) interval: Span,
    pub(crate) html: Option<PathBuf>,
}

/// What is tried, and how.
pub(crate) struct Plan<'a> {
    cc: Spec,
    options: &'a Options,
}

impl fmt::Display for Plan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "trial of {} on {} of the clients, the others are measured as plain TCP",
            self.cc, self.options.share
        )
    }
}

impl<'a> Plan<'a> {
    /// The share under the algorithm, the others plain.
    pub(crate) fn divide(
        options: &'a Options,
        cc: &mut Spec,
        rules: &mut Vec<Rule>,
    ) -> Result<Self, Failure> {
        if !rules.is_empty() {
            return Err(Failure::usage(
                "a trial divides all clients: take 'cc' and 'under' out of the sections [[port]] and [[peer]] of the file",
            ));
        }
        let plain = PLAIN.parse().map_err(Failure::usage)?;
        let cc = std::mem::replace(cc, plain);
        *rules = vec![Rule {
            pattern: Pattern::Share(options.share),
            cc: Some(cc.clone()),
            under: None,
        }];
        Ok(Self { cc, options })
    }
}

/// What is known so far.
#[derive(Default)]
struct Known {
    plain: Tally,
    treated: Tally,
    /// For what it was ended.
    stopped: Option<Effect>,
    /// Readings that came too fast.
    lost: u64,
}

impl Known {
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

fn locked(known: &Mutex<Known>) -> MutexGuard<'_, Known> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watch {
    pub(crate) fn start(
        plan: &Plan<'_>,
        segment: &Arc<Segment>,
        quiet: bool,
    ) -> Result<Self, Failure> {
        let no_room = |e| Failure::usage(format!("make room for the readings of a trial: {e}"));
        // Memory for the ring, or an error now.
        let _trace = segment.trace().map_err(no_room)?;
        let (known, stop) = (Arc::default(), Arc::new(AtomicBool::new(false)));
        let thread = spawn("alcc-trial", {
            let follower = Follower {
                segment: Arc::clone(segment),
                known: Arc::clone(&known),
                connections: BTreeMap::new(),
                share: plan.options.share,
                worse: plan.options.worse,
                name: plan.cc.to_string(),
                quiet,
            };
            let (stop, interval) = (Arc::clone(&stop), plan.options.interval);
            move || follower.run(&stop, interval)
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
        Arc::new(move |page| report::metrics(&locked(&known), page))
    }

    /// Ends, says what was found, writes the page, and returns it as JSON.
    pub(crate) fn finish(self) -> serde_json::Value {
        self.stop.store(true, Ordering::Release);
        self.thread.thread().unpark();
        drop(self.thread.join());
        let known = locked(&self.known);
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
    segment: Arc<Segment>,
    known: Arc<Mutex<Known>>,
    connections: BTreeMap<(u32, u64), Transfers>,
    share: Share,
    worse: f64,
    name: String,
    quiet: bool,
}

impl Follower {
    fn run(mut self, stop: &AtomicBool, interval: Span) {
        let segment = Arc::clone(&self.segment);
        let Ok(mut trace) = segment.trace() else {
            return;
        };
        let (mut next, mut said) = (now() + interval, 0);
        loop {
            let over = stop.load(Ordering::Acquire);
            let at = now();
            trace.lease(at + LEASE);
            trace.read(|entry| self.reading(entry));
            locked(&self.known).lost = trace.lost();
            if over {
                return trace.end();
            }
            if next <= at {
                next = at + interval;
                self.judge();
                self.forget(at);
                let known = locked(&self.known);
                let transfers = known.plain.transfers() + known.treated.transfers();
                if !self.quiet && transfers != said {
                    said = transfers;
                    note(report::line(&self.name, &known));
                }
            }
            std::thread::park_timeout(PERIOD);
        }
    }

    fn reading(&mut self, entry: &TraceEntry) {
        let key = (entry.pid, entry.id);
        let ended = self.connections.entry(key).or_default().reading(&Reading {
            at: entry.at,
            acked: entry.acked,
            in_flight: entry.in_flight,
            rtt: entry.rtt,
            retransmits: entry.retransmits,
            mss: entry.mss,
        });
        let Some(transfer) = ended else { return };
        let mut known = locked(&self.known);
        if self.share.has(entry.client) {
            known.treated.add(entry.client, &transfer);
        } else {
            known.plain.add(entry.client, &transfer);
        }
    }

    /// Ends the trial if it does harm.
    fn judge(&self) {
        let mut known = locked(&self.known);
        if known.stopped.is_some() {
            return;
        }
        let Some(why) = harm(&known.plain, &known.treated, self.worse) else {
            return;
        };
        let off = Command {
            pattern: Some(Pattern::Share(self.share)),
            action: Action::Off,
        };
        // The lock of the orders is held for microseconds: at the next look it will be free.
        if self.segment.command(off).is_ok() {
            known.stopped = Some(why);
            note(format_args!(
                "alcc: the trial of {} has ended itself: {}; all clients have plain TCP now",
                self.name,
                report::effect(&why)
            ));
        }
    }

    fn forget(&mut self, at: Time) {
        let recent = |c: &Transfers| c.read_at().is_some_and(|read| at.since(read) < FORGET);
        self.connections.retain(|_, connection| recent(connection));
    }
}
