// SPDX-License-Identifier: Apache-2.0 OR MIT
//! C4, Christian's Congestion Control Code. Its state is a nominal rate, and a nominal largest RTT
//! that includes the jitter of the path. Source: draft-huitema-ccwg-c4-spec, the text of 2026 with
//! its reaction to ECN.
//!
//! It sends at the nominal rate, with as much in flight as that rate delivers within the nominal
//! largest RTT. Every four round trips it sends faster for one (pushing), then slower for one, in
//! which it checks whether more was delivered. Rates rise only by measurement; congestion at the
//! nominal rate reduces them. Flows with a high rate react to congestion sooner than flows with a
//! low one, so that their rates converge.
//!
//! | constant | value | source |
//! |---|---|---|
//! | factors of the rate: initial, recovery, cruising | 2, 15/16, 1 | section "Setting pacing rate" |
//! | pushing, after a push that failed; that succeeded | 17/16; 5/4 less with marks | section "Pushing state" |
//! | cruising lasts; initial ends after | 4 eras; 3 eras without a higher rate | sections "Cruising state", "Initial state" |
//! | back to initial after | 3 pushes in a row that succeeded | section "Recovery state" |
//! | and once if the smallest RTT is below | 2/5 of the nominal largest RTT | section "Restarting Initial" |
//! | largest RTT beyond the smallest | 250 ms | MAX_JITTER |
//! | sensitivity | 0 to 50 kB/s, 0.92 at 1 MB/s, 1 from 10 MB/s | section "Variable Sensitivity" |
//! | delay threshold | 1/16 to 1/4 of the largest RTT, at most 25 ms | section "Detecting Excessive Delays" |
//! | loss threshold; memory | 0.02 to 0.52; 16 packets | section "Detecting Excessive Losses" |
//! | threshold of marks; memory | 3/32 to 6/32; 16 acknowledgements, none from one half on | section "Detecting Excessive CE Marks" |
//! | decrease at most | 1/4 | section "Rate Reduction on Congestion" |
//! | send quantum | 4 ms of the rate, 2 packets to 64 kB | section "Setting pacing rate" |
//!
//! **Differs from the draft**: three of its formulas are read as their text says. The nominal rate
//! rises if the estimate is *above* it. The decrease by delay is the excess over the sum of RTT and
//! threshold, divided by the threshold. The push after one that succeeded is 17/16 + 3/16 (1 -
//! marks / threshold), which is its 5/4. Until something arrives after a timeout, two packets may
//! be in flight. QUIC sends this number of probes, while the host here gives up all the others. The
//! rate of the outgoing interface is not known, so the first window is not paced.
//!
//! **Known weakness**: its largest RTT includes its own queue, up to 250 ms. When the rate of a
//! cellular link halves within a second, C4 keeps its rate until that queue has built up, and
//! longer.
use alcc_cc::parts::{MAX_PACING_RATE, MIN_PACING_RATE, segments, window_bytes};
use alcc_cc::{
    AckBatch, Algorithm, Allowance, Build, Built, Controller, Cx, Event, Instance, LossBatch,
    Needs, Options, Path, Pn, Rto, Sent, Tag,
};
use alcc_units::{Bytes, Rate, Span, Time};
use std::borrow::Cow;

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "c4",
    summary: "C4: a nominal rate and a nominal largest RTT, jitter included",
    profiles: Cow::Borrowed(&[]),
    options: &[],
    build: Build::Function(build),
};

const INITIAL: f64 = 10.0;
const MIN_WINDOW: f64 = 2.0;
const MAX_JITTER: f64 = 0.250;
const MAX_BETA: f64 = 0.25;
const CRUISING_ERAS: u32 = 4;
const FULL_ERAS: u32 = 3;
const PUSHES: u32 = 3;
const CAUTIOUS: f64 = 17.0 / 16.0;
const BOLD: f64 = 3.0 / 16.0;
const QUANTUM: Span = Span::from_millis(4);
/// Minimum number of packets before losses end the initial state.
const FIRST_PACKETS: u64 = 20;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Initial,
    Recovery,
    Cruising,
    Pushing,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Signal {
    /// An RTT of this many seconds.
    Delay(f64),
    Loss,
    Marks,
}

/// One round trip, which ends when a packet sent in it is acknowledged.
#[derive(Clone, Copy)]
struct Era {
    /// Its first packet.
    first: Pn,
    /// Factors of the rate in this era and in the one before.
    alpha: f64,
    alpha_before: f64,
    /// The largest RTT, seconds.
    max_rtt: f64,
    min_rtt: f64,
    app_limited: bool,
    /// The nominal rate at its start, bytes per second.
    rate: f64,
}

#[derive(Clone)]
struct C4 {
    mss: Bytes,
    state: State,
    /// Number of eras in the current state.
    eras: u32,
    era: Era,
    /// The nominal rate, bytes per second; zero: not known.
    rate: f64,
    /// The nominal largest RTT, seconds; zero: not known.
    max_rtt: f64,
    running_min_rtt: f64,
    /// Number of consecutive eras of the initial state without a higher rate.
    flat: u32,
    /// Number of consecutive successful pushes.
    pushes: u32,
    /// The factor of the push that this recovery evaluates.
    pushed: Option<f64>,
    /// The nominal rate at the end of the previous recovery.
    settled: f64,
    /// True if recovery began with congestion, or detected it.
    congested: bool,
    /// True if the initial state was entered again because of jitter.
    restarted: bool,
    loss_rate: f64,
    marks: f64,
    received: u64,
    next: Pn,
    /// Time of a timeout: losses at this time were reported by the timer.
    timed_out: Option<Time>,
    /// True if nothing has arrived since a timeout.
    silent: bool,
}

fn build(_: &Options<'_>) -> Built {
    Ok(Instance::new(C4::new()))
}

/// The sensitivity (0 to 1) of a rate in bytes per second.
fn sensitivity(rate: f64) -> f64 {
    let between = |x: f64, low: f64, high: f64| ((x - low) / (high - low)).clamp(0.0, 1.0);
    0.92 * between(rate, 50e3, 1e6) + 0.08 * between(rate, 1e6, 10e6)
}

/// The delay threshold, seconds.
fn delay_threshold(rate: f64, max_rtt: f64) -> f64 {
    let fraction = 1.0 / 16.0 + (1.0 - sensitivity(rate)) * 3.0 / 16.0;
    (fraction * max_rtt).min(0.025)
}

fn loss_threshold(rate: f64) -> f64 {
    0.02 + 0.5 * (1.0 - sensitivity(rate))
}

fn mark_threshold(rate: f64) -> f64 {
    (2.0 - sensitivity(rate)) * 3.0 / 32.0
}

impl C4 {
    fn new() -> Self {
        Self {
            mss: Bytes::new(1448),
            state: State::Initial,
            eras: 0,
            era: Era {
                first: 0,
                alpha: 2.0,
                alpha_before: 2.0,
                max_rtt: 0.0,
                min_rtt: f64::INFINITY,
                app_limited: false,
                rate: 0.0,
            },
            rate: 0.0,
            max_rtt: 0.0,
            running_min_rtt: f64::INFINITY,
            flat: 0,
            pushes: 0,
            pushed: None,
            settled: 0.0,
            congested: false,
            restarted: false,
            loss_rate: 0.0,
            marks: 0.0,
            received: 0,
            next: 0,
            timed_out: None,
            silent: false,
        }
    }

    fn alpha(&self) -> f64 {
        match self.state {
            State::Initial => 2.0,
            State::Recovery => 15.0 / 16.0,
            State::Cruising => 1.0,
            State::Pushing if self.pushes == 0 => CAUTIOUS,
            State::Pushing => {
                CAUTIOUS + BOLD * (1.0 - self.marks / mark_threshold(self.rate)).max(0.0)
            }
        }
    }

    fn enter(&mut self, cx: &mut Cx<'_>, state: State) {
        (self.state, self.eras) = (state, 0);
        let to = match state {
            State::Initial => "initial",
            State::Recovery => "recovery",
            State::Cruising => "cruising",
            State::Pushing => "pushing",
        };
        cx.log.event(cx.now, Event::Mode { to });
        self.begin_era();
    }

    fn begin_era(&mut self) {
        self.era = Era {
            first: self.next,
            alpha: self.alpha(),
            alpha_before: self.era.alpha,
            max_rtt: 0.0,
            min_rtt: f64::INFINITY,
            app_limited: false,
            rate: self.rate,
        };
    }

    /// Updates the largest RTT of packets sent no faster than the nominal rate.
    fn update_rtts(&mut self) {
        let (least, most) = (self.era.min_rtt, self.era.max_rtt);
        if self.era.alpha_before > 1.0 || self.state == State::Initial || most <= 0.0 {
            return;
        }
        self.running_min_rtt = if least < self.running_min_rtt {
            least
        } else {
            (7.0 * self.running_min_rtt + least) / 8.0
        };
        let most = most.min(self.running_min_rtt + MAX_JITTER);
        self.max_rtt = if most > self.max_rtt {
            most
        } else {
            (7.0 * self.max_rtt + most) / 8.0
        };
    }

    fn end_era(&mut self, cx: &mut Cx<'_>) {
        self.update_rtts();
        self.eras += 1;
        match self.state {
            State::Initial => {
                if self.rate > self.era.rate {
                    self.flat = 0;
                } else if !self.era.app_limited {
                    self.flat += 1;
                }
                if self.flat >= FULL_ERAS {
                    self.end_initial(cx, "rate");
                    return;
                }
            }
            State::Recovery => {
                self.end_recovery(cx);
                return;
            }
            State::Cruising if self.eras >= CRUISING_ERAS && !self.era.app_limited => {
                self.enter(cx, State::Pushing);
                return;
            }
            State::Cruising => {}
            State::Pushing => {
                self.recover(cx, false);
                return;
            }
        }
        self.begin_era();
    }

    fn end_initial(&mut self, cx: &mut Cx<'_>, why: &'static str) {
        let window = self.window();
        cx.log.event(cx.now, Event::SlowStartExit { why, window });
        self.recover(cx, why != "rate");
    }

    fn recover(&mut self, cx: &mut Cx<'_>, congested: bool) {
        self.pushed = (self.state == State::Pushing).then_some(self.era.alpha);
        self.congested = congested;
        self.enter(cx, State::Recovery);
    }

    fn end_recovery(&mut self, cx: &mut Cx<'_>) {
        if let Some(alpha) = self.pushed.take() {
            let least = if alpha <= CAUTIOUS {
                self.settled
            } else {
                self.settled * (1.0 + (alpha - 1.0) / 4.0)
            };
            let more = self.rate > self.settled && self.rate >= least;
            self.pushes = if more && !self.congested {
                self.pushes + 1
            } else {
                0
            };
        }
        self.settled = self.rate;
        self.marks = 0.0;
        let jitter = !self.restarted && self.running_min_rtt < self.max_rtt * 0.4;
        self.restarted |= jitter;
        self.congested = false;
        if jitter || self.pushes >= PUSHES {
            (self.pushes, self.flat) = (0, 0);
            let why = if jitter { "jitter" } else { "rate" };
            cx.log.event(cx.now, Event::SlowStartRestart { why });
            self.enter(cx, State::Initial);
        } else {
            self.enter(cx, State::Cruising);
        }
    }

    /// The reduction of the rate by a signal, as a factor.
    fn beta(&self, signal: Signal) -> f64 {
        let beta = match signal {
            Signal::Loss => MAX_BETA,
            Signal::Delay(rtt) => {
                let threshold = delay_threshold(self.rate, self.max_rtt).max(1e-6);
                (rtt - self.max_rtt - threshold) / threshold
            }
            Signal::Marks => {
                let threshold = mark_threshold(self.rate);
                (self.marks - threshold) / threshold
            }
        };
        beta.clamp(0.0, MAX_BETA)
    }

    fn congestion(&mut self, cx: &mut Cx<'_>, signal: Signal) {
        let why = match signal {
            Signal::Delay(_) => "delay",
            Signal::Loss => "loss",
            Signal::Marks => "mark",
        };
        match self.state {
            State::Initial => {
                let ends = match signal {
                    Signal::Delay(_) => self.flat >= 2,
                    Signal::Loss => self.received > FIRST_PACKETS,
                    Signal::Marks => true,
                };
                if ends && self.rate > 0.0 {
                    self.end_initial(cx, why);
                }
            }
            State::Recovery => self.congested = true,
            State::Pushing => self.recover(cx, true),
            State::Cruising => {
                let from = self.window();
                self.rate *= 1.0 - self.beta(signal);
                let to = self.window();
                cx.log.event(cx.now, Event::Decrease { why, from, to });
                self.recover(cx, true);
            }
        }
    }

    fn estimate(&mut self, now: Time, ack: &AckBatch<'_>) {
        let Some(newest) = ack.acked.last() else {
            return;
        };
        let stamp = newest.stamp;
        let sending = newest.sent_at.since(stamp.first_sent_at);
        let delay = now.since(newest.sent_at).max(sending);
        let bytes = ack.delivered.saturating_sub(stamp.delivered);
        let recovers = self.congested && self.state == State::Recovery;
        if !delay.is_zero() && !recovers {
            let rate = bytes.get() as f64 / delay.as_secs_f64();
            self.rate = self
                .rate
                .max(rate.min(MAX_PACING_RATE.as_bps() as f64 / 8.0));
        }
        self.era.app_limited |= stamp.app_limited;
    }

    fn sample(&mut self, rtt: Span) {
        let rtt = rtt.as_secs_f64();
        if self.max_rtt <= 0.0 {
            self.max_rtt = rtt;
        }
        self.era.max_rtt = self.era.max_rtt.max(rtt);
        self.era.min_rtt = self.era.min_rtt.min(rtt);
    }

    /// The window, in packets.
    fn window(&self) -> f64 {
        if self.silent {
            return MIN_WINDOW;
        }
        if self.rate <= 0.0 || self.max_rtt <= 0.0 {
            return INITIAL;
        }
        let bytes = self.era.alpha * self.rate * self.max_rtt;
        (bytes / self.mss.get().max(1) as f64).max(MIN_WINDOW)
    }
}

impl Controller for C4 {
    fn needs(&self) -> Needs {
        Needs {
            paced: true,
            ecn: true,
            ..Needs::default()
        }
    }

    fn on_start(&mut self, _cx: &mut Cx<'_>, path: &Path) {
        self.mss = path.mss;
    }

    fn on_mtu(&mut self, _cx: &mut Cx<'_>, mss: Bytes) {
        self.mss = mss;
    }

    fn on_sent(&mut self, _cx: &mut Cx<'_>, sent: &Sent) -> Tag {
        self.next = sent.pn + 1;
        Tag::default()
    }

    fn on_ack(&mut self, cx: &mut Cx<'_>, ack: &AckBatch<'_>) {
        self.silent = false;
        for packet in ack.acked {
            let n = segments(packet.len, self.mss);
            self.received += n;
            for _ in 0..n {
                self.loss_rate *= 15.0 / 16.0;
            }
            if let Some(rtt) = packet.rtt {
                self.sample(rtt);
            }
        }
        self.estimate(cx.now, ack);
        let bytes: u64 = ack.acked.iter().map(|p| p.len.get()).sum();
        let marked = ack.marked.get() as f64 / bytes.max(1) as f64;
        let marked = marked.min(1.0);
        if marked >= 0.5 {
            self.marks = marked;
        } else {
            self.marks += (marked - self.marks) / 16.0;
        }
        if self.marks > mark_threshold(self.rate) {
            self.congestion(cx, Signal::Marks);
        }
        let newest = ack.acked.last();
        if let Some(rtt) = newest.and_then(|p| p.rtt) {
            let rtt = rtt.as_secs_f64();
            if rtt > self.max_rtt + delay_threshold(self.rate, self.max_rtt) {
                self.congestion(cx, Signal::Delay(rtt));
            }
        }
        if newest.is_some_and(|p| p.pn >= self.era.first) {
            self.end_era(cx);
        }
    }

    fn on_loss(&mut self, cx: &mut Cx<'_>, loss: &LossBatch<'_>) {
        if self.timed_out == Some(cx.now) {
            return;
        }
        let n: u64 = loss.lost.iter().map(|p| segments(p.len, self.mss)).sum();
        for _ in 0..n {
            self.loss_rate = (1.0 + 15.0 * self.loss_rate) / 16.0;
        }
        if self.loss_rate > loss_threshold(self.rate) {
            self.congestion(cx, Signal::Loss);
        }
    }

    fn on_rto(&mut self, cx: &mut Cx<'_>, _rto: &Rto) {
        self.timed_out = Some(cx.now);
        self.silent = true;
    }

    fn allowance(&self) -> Allowance {
        let window = Allowance::window(window_bytes(self.window(), self.mss));
        if self.rate <= 0.0 || self.max_rtt <= 0.0 {
            return window;
        }
        let rate = Rate::bps_f64(self.era.alpha * self.rate * 8.0);
        let rate = rate.clamp(MIN_PACING_RATE, MAX_PACING_RATE);
        let quantum = rate.bytes_in(QUANTUM).min(Bytes::new(64 << 10));
        Allowance {
            rate: Some(rate),
            burst: quantum.max(self.mss * 2),
            ..window
        }
    }

    fn gauges(&self, put: &mut dyn FnMut(&'static str, f64)) {
        put("cwnd", self.window());
        put("rate_mbps", self.rate * 8.0 / 1e6);
        put("max_rtt_ms", self.max_rtt * 1e3);
        put("alpha", self.era.alpha);
        put("loss_rate", self.loss_rate);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alcc_cc::Discard;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }

    #[test]
    fn fast_flows_are_more_sensitive() {
        for (rate, expected) in [
            (10e3, 0.0),
            (50e3, 0.0),
            (525e3, 0.46), // Half of the way from 50 kB/s to 1 MB/s.
            (1e6, 0.92),
            (5.5e6, 0.96),
            (10e6, 1.0),
            (50e6, 1.0),
        ] {
            assert!(close(sensitivity(rate), expected), "{rate}");
        }
        // 1/16 of 100 ms for a fast flow; a quarter for a slow one, but 25 ms at most.
        assert!(close(delay_threshold(10e6, 0.1), 0.00625));
        assert!(close(delay_threshold(10e3, 0.08), 0.02));
        assert!(close(delay_threshold(10e3, 0.2), 0.025));
        assert!(close(loss_threshold(10e6), 0.02) && close(loss_threshold(10e3), 0.52));
        assert!(close(mark_threshold(10e6), 3.0 / 32.0) && close(mark_threshold(0.0), 6.0 / 32.0));
    }

    /// Cruising at 10 MB/s with a largest RTT of 80 ms.
    fn cruising() -> C4 {
        let mut c = C4::new();
        (c.state, c.rate, c.max_rtt, c.running_min_rtt) = (State::Cruising, 10e6, 0.08, 0.04);
        c.begin_era();
        c
    }

    fn with<T>(c: &mut C4, act: impl FnOnce(&mut C4, &mut Cx<'_>) -> T) -> T {
        let (now, log) = (Time::from_millis(1000), &mut Discard);
        act(c, &mut Cx { now, log })
    }

    #[test]
    fn congestion_takes_a_cruising_flow_down_by_its_measure() {
        // Threshold 80/16 = 5 ms. An RTT of 86 ms is 1 ms beyond 85: a fifth.
        let mut c = cruising();
        with(&mut c, |c, cx| c.congestion(cx, Signal::Delay(0.086)));
        assert!((c.rate - 8e6).abs() < 1.0, "{}", c.rate);
        assert_eq!((c.state, c.congested), (State::Recovery, true));
        assert!(close(c.era.alpha, 15.0 / 16.0));
        // Far beyond, and for losses, a quarter.
        for signal in [Signal::Delay(0.2), Signal::Loss] {
            let mut c = cruising();
            with(&mut c, |c, cx| c.congestion(cx, signal));
            assert_eq!(c.rate, 7.5e6);
        }
        // While it recovers, and while it pushes, the rate stays.
        let mut c = cruising();
        with(&mut c, |c, cx| c.enter(cx, State::Pushing));
        with(&mut c, |c, cx| c.congestion(cx, Signal::Loss));
        with(&mut c, |c, cx| c.congestion(cx, Signal::Loss));
        assert_eq!((c.rate, c.state), (10e6, State::Recovery));
    }

    #[test]
    fn the_largest_rtt_rises_at_once_and_falls_by_eighths() {
        let mut c = cruising();
        (c.era.alpha_before, c.era.min_rtt, c.era.max_rtt) = (1.0, 0.05, 0.1);
        c.update_rtts();
        assert!(close(c.max_rtt, 0.1));
        // 40 ms was the smallest: (7 * 40 + 50) / 8.
        assert!(close(c.running_min_rtt, 0.04125));
        (c.era.min_rtt, c.era.max_rtt) = (0.05, 0.06);
        c.update_rtts();
        assert!(close(c.max_rtt, 0.095));
        // No more than 250 ms beyond the smallest.
        (c.era.min_rtt, c.era.max_rtt) = (0.03, 1.0);
        c.update_rtts();
        assert!(close(c.max_rtt, 0.28));
        // The queue of a push does not count.
        (c.era.alpha_before, c.era.max_rtt) = (1.25, 2.0);
        c.update_rtts();
        assert!(close(c.max_rtt, 0.28));
    }

    #[test]
    fn three_pushes_that_succeed_start_again() {
        let mut c = cruising();
        c.settled = 10e6;
        let push = |c: &mut C4, factor: f64| {
            with(c, |c, cx| c.enter(cx, State::Pushing));
            let alpha = c.era.alpha;
            with(c, |c, cx| c.recover(cx, false));
            c.rate *= factor;
            with(c, |c, cx| c.end_recovery(cx));
            (alpha, c.state)
        };
        // At first carefully: any increase will do. Then boldly: a quarter of what was hoped for.
        assert_eq!(push(&mut c, 1.001), (CAUTIOUS, State::Cruising));
        assert_eq!(push(&mut c, 1.07), (1.25, State::Cruising));
        assert_eq!(push(&mut c, 1.05), (1.25, State::Cruising));
        assert_eq!(push(&mut c, 1.001), (CAUTIOUS, State::Cruising));
        assert_eq!(push(&mut c, 1.07), (1.25, State::Cruising));
        assert_eq!(push(&mut c, 1.07), (1.25, State::Initial));
        assert_eq!(c.era.alpha, 2.0);
    }

    #[test]
    fn the_window_is_the_rate_times_the_largest_rtt() {
        let mut c = cruising();
        c.mss = Bytes::new(1000);
        assert!(close(c.window(), 800.0));
        let a = c.allowance();
        assert_eq!(
            (a.rate, a.burst),
            (Some(Rate::mbps(80)), Bytes::new(40_000))
        );
        with(&mut c, |c, cx| c.enter(cx, State::Pushing));
        assert!(close(c.window(), 850.0));
        // Marks at half of the threshold take half of the boldness away.
        (c.pushes, c.marks) = (1, 3.0 / 64.0);
        c.begin_era();
        assert!(close(c.era.alpha, 17.0 / 16.0 + 3.0 / 32.0));
    }
}
