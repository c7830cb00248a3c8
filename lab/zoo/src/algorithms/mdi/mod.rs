// SPDX-License-Identifier: Apache-2.0 OR MIT
//! MDI: a random walk that was learned from another algorithm. Khan et al., ACM CCR 51(1), 2021,
//! and the authors' program (repository comnetsAD/MDI).
//!
//! Every 5 ms the largest RTT of the epoch is compared with the last. Its relative change chooses a distribution in a
//! table, with the last changes of delay and window. The next change of the window is drawn from it. Packets are
//! released by equation 5 of Verus. The table determines the algorithm that is imitated: here Verus. `tuned` has a
//! table for each level of the delay, so that the walk is drawn back as its teacher is.
//!
//! | constant | `tuned` | source |
//! |---|---|---|
//! | epoch | 5 ms | gmcc2, verus_server |
//! | change | per cent of the old value, times log10 of it, of 1.01 at least | preprocess_verus; the least: ours |
//! | grid of the built-in table | window -20 to 20 by 4, delay -10 to 10 by 2 | train.py; the 4: ours |
//! | levels of the built-in table | last delay over the smallest: up to 1.5, 3, 4.5, 6, 7.5, above | ours |
//! | epoch without a sample | counts as the last one, as in training | ours |
//! | bin | the nearest, half away from zero | train |
//! | delay beyond the grid | the last bin | ours |
//! | state never seen | nearest window's change, any state with that delay, hold | ours |
//! | window x on loss | 0.7 of the window it was sent under, and the walk goes on from there | ours |
//! | start | 10 packets; one more per packet until the RTT is 1.25 times the smallest and 5 ms | ours |
//! | in flight at most | 1.25 windows | ours |
//! | largest window | 10,000 packets | ours |
//!
//! `original` is the authors' program, frozen in `original.rs` with its constants.
//!
//! `matrix=FILE` reads a table in the authors' format, or one with levels. The built-in ones are not the authors'. They
//! were learned from `verus:profile=original` in this project's simulator, on its synthetic channels. So they follow
//! this project's Verus. `alcc-lab mdi train` writes them again; see their first lines. `original` has one without
//! levels, on the grid of the authors' scripts. On the grid of the authors' published tables (by 5) these drift upward
//! to a second of queue. A window of 90 that falls by one packet stays in bin 0.
//!
//! **Differs from the program**: the generator is seeded. A timeout does not halve twice and resets nothing. The
//! release of an epoch replaces the remainder of the last one.
//!
//! **Known weakness**: the teacher's slow starts are not in the table. On links whose queue is shorter than Verus fills
//! it, the teacher falls back to them and delivers less than the walk. Without levels the walk drifts, because nothing
//! holds the window where the teacher would.
mod by_epochs;
mod counts;
mod levels;
mod matrix;
mod original;
#[cfg(test)]
mod tests;

use alcc_cc::parts::{segments, window_bytes, window_used};
use alcc_cc::{
    AckBatch, Algorithm, Allowance, Build, Built, Controller, Cx, Event, Instance, LossBatch,
    Needs, OptionDoc, Options, Path, Rto, Sent, SpecError, Tag,
};
use alcc_units::{Bytes, Rng, Span, Time};
use by_epochs::{ByEpochs, reduced};
pub use counts::{Counting, Counts, Epoch, Shape};
pub use levels::{Bounds, Levels};
pub use matrix::{Axis, Grid, Matrix, MatrixError, change};
use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "mdi",
    summary: "MDI: a random walk of the window, learned from Verus",
    profiles: Cow::Borrowed(&["tuned", "original"]),
    options: &[
        OptionDoc {
            name: "matrix",
            default: "the built-in table",
            help: "FILE: a transition matrix in the authors' form, bins,first,last,step twice, then a line per state; or what 'alcc-lab mdi train' writes",
        },
        OptionDoc {
            name: "above",
            default: "0.975 (original)",
            help: "of original: factor of the window when the delay rises beyond the grid, 0.1 to 1",
        },
        OptionDoc {
            name: "below",
            default: "21 (original)",
            help: "of original: packets that the window grows by when the delay falls beyond the grid, 0 to 100",
        },
    ],
    build: Build::Function(build),
};

alcc_cc::constants! { MDI:
    /// Time between two changes of the window.
    EPOCH: Span = Span::from_millis(5);
    /// First window, packets.
    START: f64 = 10.0;
    /// Delay before the first sample, ms.
    FIRST_DELAY: f64 = 20.0;
    /// Smallest value from which a change is computed.
    MIN_SCALE: f64 = 1.01;
    /// Largest window, packets.
    MAX_WINDOW: f64 = 10_000.0;
    /// Multiple of the smallest RTT at which slow start ends.
    EXIT: f64 = 1.25;
    /// RTT above the smallest at which slow start ends, ms.
    EXIT_MS: f64 = 5.0;
    /// Part of the window that remains after a loss.
    DECREASE: f64 = 0.7;
    /// Limit of bytes in flight, in windows.
    FLIGHT: f64 = 1.25;
    /// Weight of a sample in the smoothed RTT (Verus).
    SMOOTHING: f64 = 0.125;
}

pub(crate) const TABLES: &[&[alcc_cc::constants::Constant]] =
    &[TABLE, matrix::TABLE, levels::TABLE];

static LEVELLED: OnceLock<Arc<Levels>> = OnceLock::new();
static PUBLISHED_FORM: OnceLock<Arc<Matrix>> = OnceLock::new();

/// Reads a table of this program once.
fn builtin<T>(
    kept: &OnceLock<Arc<T>>,
    text: &str,
    of: impl FnOnce(Levels) -> Option<T>,
) -> Result<Arc<T>, SpecError> {
    if let Some(table) = kept.get() {
        return Ok(table.clone());
    }
    let refused = |why: String| SpecError::Refused {
        kind: "algorithm",
        name: "mdi".to_owned(),
        why: format!("built-in table: {why}"),
    };
    let table = Levels::expand(text).map_err(|why| refused(why.to_string()))?;
    let table = of(table).ok_or_else(|| refused("levels where none belong".to_owned()))?;
    Ok(kept.get_or_init(|| Arc::new(table)).clone())
}

fn levelled() -> Result<Arc<Levels>, SpecError> {
    builtin(&LEVELLED, include_str!("levels.txt"), Some)
}

fn without_levels() -> Result<Arc<Matrix>, SpecError> {
    builtin(&PUBLISHED_FORM, include_str!("builtin.txt"), Levels::only)
}

fn build(options: &Options<'_>) -> Built {
    let wrong = |why: &str| options.refused(format!("{}, {why}", options.shown("matrix")));
    let given = match options.file("matrix")? {
        None => None,
        Some(text) => Some(Levels::parse(&text).map_err(|why| wrong(&why.to_string()))?),
    };
    let above = options.real("above", original::ABOVE, 0.1..=1.0)?;
    let below = options.real("below", original::BELOW, 0.0..=100.0)?;
    if options.profile() == "original" {
        let matrix = match given {
            None => without_levels()?,
            Some(levels) => Arc::new(levels.only().ok_or_else(|| {
                wrong("levels: profile=original takes a table in the authors' form, without them")
            })?),
        };
        return Ok(Instance::new(original::Original::new(matrix, above, below)));
    }
    let constants = ["above", "below"];
    if let Some(name) = constants.iter().find(|name| options.text(name).is_some()) {
        return Err(options.wrong(name, "profile=original, whose constant it is"));
    }
    let levels = given.map_or_else(levelled, |levels| Ok(Arc::new(levels)))?;
    Ok(Instance::new(Mdi::new(levels)))
}

#[derive(Clone)]
struct Mdi {
    levels: Arc<Levels>,
    rng: Rng,
    /// Packets.
    window: f64,
    /// Windows of the last two epochs, the newest first, and delays in ms.
    windows: [f64; 2],
    delays: [f64; 2],
    slow_start: bool,
    /// The largest sample of this epoch, ms.
    largest: Option<f64>,
    smoothed: f64,
    min_rtt: f64,
    flow: ByEpochs,
    /// The application had too little for half of the window since the last epoch.
    unused: bool,
    recovering: bool,
}

impl Mdi {
    fn new(levels: Arc<Levels>) -> Self {
        Self {
            levels,
            rng: Rng::new(1),
            window: START,
            windows: [START; 2],
            delays: [FIRST_DELAY; 2],
            slow_start: true,
            largest: None,
            smoothed: 0.0,
            min_rtt: f64::MAX,
            flow: ByEpochs::new(),
            unused: false,
            recovering: false,
        }
    }

    fn sample(&mut self, rtt: f64) {
        let rtt = rtt.max(1e-3);
        self.largest = Some(self.largest.map_or(rtt, |largest| largest.max(rtt)));
        self.min_rtt = self.min_rtt.min(rtt);
        self.smoothed = if self.smoothed == 0.0 {
            rtt
        } else {
            self.smoothed + SMOOTHING * (rtt - self.smoothed)
        };
    }

    /// The next window of the walk.
    fn step(&mut self, delay: f64) -> f64 {
        let matrix = self.levels.at(self.delays[0] / self.min_rtt);
        let grid = matrix.grid();
        let [w1, w2] = self.windows;
        let last_delay = change(self.delays[0], self.delays[1], MIN_SCALE);
        let last_window = change(w1, w2, MIN_SCALE);
        let new_delay = change(delay, self.delays[0], MIN_SCALE);
        let delay_bin = grid.delay.nearest(last_delay);
        let state = grid.state(delay_bin, grid.window.nearest(last_window));
        let r = self.rng.unit();
        let bin = matrix.draw(state, grid.delay.nearest(new_delay), r);
        moved(w1, grid.window.value(bin))
    }

    fn epoch(&mut self, now: Time) {
        let delay = self.flow.delay(now, self.largest.take(), self.delays[0]);
        let held = self.slow_start || self.recovering;
        // An unused window says nothing about the path, so it does not walk upwards.
        let unused = std::mem::take(&mut self.unused);
        if !held {
            let next = self.step(delay);
            self.window = if unused { next.min(self.window) } else { next };
        }
        self.window = self.window.clamp(1.0, MAX_WINDOW);
        self.delays = [delay, self.delays[0]];
        self.windows = [self.window, self.windows[0]];
        self.release();
    }

    fn release(&mut self) {
        self.flow.release(self.window, self.smoothed);
    }

    fn reduce(&mut self, cx: &mut Cx<'_>, why: &'static str, label: Tag) {
        let from = self.window;
        self.window = reduced(self.window, label);
        // So that it lasts: the walk goes on from here.
        self.windows = [self.window; 2];
        self.slow_start = false;
        self.flow.stop();
        let to = self.window;
        cx.log.event(cx.now, Event::Decrease { why, from, to });
    }
}

/// The window after a change; the scale of small windows is that of two packets, or it would
/// explode.
fn moved(window: f64, change: f64) -> f64 {
    window * (100.0 + change / libm::log10(window.max(2.0)).max(1e-6)) / 100.0
}

impl Controller for Mdi {
    fn needs(&self) -> Needs {
        Needs {
            per_packet_ack: true,
            feedback_period: EPOCH,
            ..Needs::default()
        }
    }

    fn on_start(&mut self, cx: &mut Cx<'_>, path: &Path) {
        self.flow.set_mss(path.mss);
        self.rng = Rng::new(path.seed);
        self.flow.start(cx.now);
        self.release();
    }

    fn on_mtu(&mut self, _cx: &mut Cx<'_>, mss: Bytes) {
        self.flow.set_mss(mss);
    }

    fn on_sent(&mut self, cx: &mut Cx<'_>, sent: &Sent) -> Tag {
        self.flow.sent(cx.now, sent);
        Tag(self.window as u64)
    }

    fn on_ack(&mut self, cx: &mut Cx<'_>, ack: &AckBatch<'_>) {
        self.flow.heard(cx.now, ack.in_flight);
        let unused =
            ack.limited.app && !window_used(ack, window_bytes(self.window, self.flow.mss()));
        self.unused |= unused;
        if !ack.in_recovery {
            self.recovering = false;
        }
        for packet in ack.acked {
            if let Some(rtt) = packet.rtt {
                self.sample(rtt.as_millis_f64());
            }
            if self.slow_start {
                let n = segments(packet.len, self.flow.mss()) as f64;
                if !unused {
                    self.window = (self.window + n).min(MAX_WINDOW);
                }
                let rtt = packet.rtt.map_or(0.0, Span::as_millis_f64);
                if rtt > (EXIT * self.min_rtt).max(self.min_rtt + EXIT_MS) {
                    self.slow_start = false;
                    // The data in flight has caused the queue just measured: half of it was too much.
                    self.window = (self.window / 2.0).max(1.0);
                    self.windows = [self.window; 2];
                    let (why, window) = ("delay", self.window);
                    cx.log.event(cx.now, Event::SlowStartExit { why, window });
                }
            }
        }
        if self.slow_start {
            self.release();
        }
    }

    fn on_loss(&mut self, cx: &mut Cx<'_>, loss: &LossBatch<'_>) {
        self.flow.in_flight = loss.in_flight;
        if let Some(lost) = loss.lost.first().filter(|_| loss.new_episode) {
            self.recovering = true;
            self.reduce(cx, "loss", lost.tag);
        }
    }

    fn on_rto(&mut self, cx: &mut Cx<'_>, rto: &Rto) {
        self.flow.heard(cx.now, rto.in_flight);
        if rto.backoff <= 1 {
            self.reduce(cx, "timeout", rto.oldest.tag);
        }
    }

    fn on_idle_restart(&mut self, cx: &mut Cx<'_>, _idle: Span) {
        self.flow.resume(cx.now);
        self.largest = None;
        self.release();
    }

    fn on_timer(&mut self, cx: &mut Cx<'_>) {
        if self.flow.end(cx.now) {
            self.epoch(cx.now);
        }
    }

    fn allowance(&self) -> Allowance {
        let mss = self.flow.mss();
        let window = mss.mul_f64(self.window * FLIGHT).max(mss);
        Allowance {
            quota: self.flow.quota(),
            ..Allowance::window(window)
        }
    }

    fn next_timer(&self) -> Option<Time> {
        self.flow.timer()
    }

    fn gauges(&self, put: &mut dyn FnMut(&'static str, f64)) {
        put("window", self.window);
        put("quota", self.flow.quota().packets(self.flow.mss()));
        put("rtt_ms", self.smoothed);
    }
}
