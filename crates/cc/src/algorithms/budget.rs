// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Budget: as much in flight as the path delivers in its smallest RTT and a delay budget that the user names. Our own;
//! what was tried and what it brought stands in docs/budget.md.
//!
//! The window is the delivery rate times (smallest RTT + budget), and two packets. The rate is the larger of two means: over a tenth of
//! a second, which follows a link that becomes faster, and over two seconds, which carries over the dips and outages of a radio
//! link, after which it is as fast as before. Whoever sends less than the link takes sees the RTT fall, so the window grows by itself, up to
//! twofold in a round trip. When the path has not been seen empty for a while, the window gives up the budget for a round trip, at a
//! multiple of three seconds of the host's clock: the flows of one host do so together, and all see the queue empty. A loss with a
//! queue takes the window back, for the sake of loss-based flows beside it; a loss without one says nothing.
//!
//! | constant | value | source |
//! |---|---|---|
//! | budget | 40 ms | option `delay` |
//! | means of the rate | 100 ms (at least an RTT) and 2 s | docs/budget.md: swept over eight recorded links |
//! | packets beyond the product | 2 | what shares are compared by: without it any division of a link would be stable |
//! | memory of the smallest RTT | 10 s | as BBR's |
//! | the path was empty | RTT within a tenth of the budget of the smallest | docs/budget.md |
//! | a drain | every 3 s, if it was not empty for half of that; half of the product for one RTT | docs/budget.md |
//! | a loss with a quarter of the budget in the queue | 0.7 of the window; back by a packet or 2 % per RTT | as CUBIC's |
//!
//! **Known weakness**: the mean delay is the budget only where the rate is steady; where it falls to a fraction, what is in flight waits
//! the longer. Beside a flow that fills the buffer it gets what its budget is of the buffer.
use crate::parts::{WindowedMin, window_bytes};
use crate::{
    AckBatch, Algorithm, Allowance, Controller, Cx, Event, LossBatch, Needs, OptionDoc, Options,
    Path, Rto, SpecError,
};
use alcc_units::{Bytes, Span, Time};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "budget",
    summary: "Budget: the delivery rate times the smallest RTT and a delay that the user names",
    profiles: &[],
    options: &[
        OptionDoc {
            name: "delay",
            default: "40ms",
            help: "queueing delay to aim at, 1ms to 10s",
        },
        OptionDoc {
            name: "fast",
            default: "100ms",
            help: "mean that follows a faster link, 10ms to 2s",
        },
        OptionDoc {
            name: "slow",
            default: "2s",
            help: "mean that carries over dips, 100ms to 10s",
        },
        OptionDoc {
            name: "packets",
            default: "2",
            help: "packets beyond the product, 0 to 100",
        },
        OptionDoc {
            name: "drain",
            default: "3s",
            help: "after so long without an empty path the queue is drained, 1s to 1000s",
        },
    ],
    build,
};

/// Resolution of the means.
const BUCKET: Span = Span::from_millis(10);
const RTT_MEMORY: Span = Span::from_secs(10);
const INITIAL: f64 = 10.0;
const SMALLEST: f64 = 4.0;
const LARGEST: f64 = 1e9;
const DRAINED: f64 = 0.5;
/// What a loss leaves of the window, if there was a queue, and how it returns: by a packet per round trip, or 2 %.
const BETA: f64 = 0.7;
const RETURN: f64 = 0.02;

#[derive(Clone, Copy)]
struct Settings {
    delay: Span,
    fast: usize,
    slow: usize,
    packets: f64,
    drain: Span,
}

/// Packets delivered per bucket of time.
#[derive(Clone)]
struct Deliveries {
    buckets: Box<[f32]>,
    /// The bucket under way, counted from the beginning.
    index: u64,
    begin: Option<Time>,
}

impl Deliveries {
    fn new(buckets: usize) -> Self {
        Self {
            buckets: vec![0.0; buckets].into_boxed_slice(),
            index: 0,
            begin: None,
        }
    }

    fn add(&mut self, now: Time, packets: f64) {
        let begin = *self.begin.get_or_insert(now);
        let index = now.since(begin).as_nanos() / BUCKET.as_nanos();
        let len = self.buckets.len() as u64;
        for empty in (self.index + 1..=index).rev().take(self.buckets.len()) {
            self.buckets[(empty % len) as usize] = 0.0;
        }
        self.index = index;
        self.buckets[(index % len) as usize] += packets as f32;
    }

    /// Packets per second over the last `buckets`, or what there is.
    fn mean(&self, now: Time, buckets: usize) -> f64 {
        let Some(begin) = self.begin else { return 0.0 };
        let len = self.buckets.len() as u64;
        let n = (buckets as u64).min(len - 1).min(self.index);
        let packets: f64 = (self.index - n..=self.index)
            .map(|i| f64::from(self.buckets[(i % len) as usize]))
            .sum();
        let from = begin + BUCKET * (self.index - n);
        packets / now.since(from).max(BUCKET).as_secs_f64()
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Mode {
    /// Doubling per round trip until a queue forms.
    Start,
    Hold,
    /// Without the budget until then.
    Drain(Time),
}

#[derive(Clone)]
struct Budget {
    settings: Settings,
    mss: Bytes,
    mode: Mode,
    /// Packets.
    window: f64,
    delivered: Deliveries,
    least: WindowedMin<Span>,
    /// When the path was last seen empty.
    empty_at: Time,
    queueing: Span,
    rate: f64,
    /// Multiples of the drain period so far.
    turn: u64,
    /// After a loss, packets.
    cap: f64,
}

fn build(options: &Options<'_>) -> Result<Box<dyn Controller>, SpecError> {
    let ms = Span::from_millis;
    let buckets = |span: Span| (span.as_nanos() / BUCKET.as_nanos()) as usize;
    let settings = Settings {
        delay: options.span("delay", ms(40), ms(1)..=ms(10_000))?,
        fast: buckets(options.span("fast", ms(100), ms(10)..=ms(2000))?),
        slow: buckets(options.span("slow", ms(2000), ms(100)..=ms(10_000))?),
        packets: options.real("packets", 2.0, 0.0..=100.0)?,
        drain: options.span("drain", ms(3000), ms(1000)..=ms(1_000_000))?,
    };
    Ok(Box::new(Budget {
        settings,
        mss: Bytes::new(1448),
        mode: Mode::Start,
        window: INITIAL,
        delivered: Deliveries::new(settings.slow.max(settings.fast) + 1),
        least: WindowedMin::new(),
        empty_at: Time::ZERO,
        queueing: Span::ZERO,
        rate: 0.0,
        turn: 0,
        cap: LARGEST,
    }))
}

impl Budget {
    fn base(&self) -> Span {
        self.least.get().unwrap_or_default()
    }

    fn look(&mut self, cx: &mut Cx<'_>, ack: &AckBatch<'_>) {
        for rtt in ack.acked.iter().filter_map(|p| p.rtt) {
            self.least.insert(cx.now, rtt, RTT_MEMORY);
            self.queueing = rtt.saturating_sub(self.base());
            if self.queueing <= self.settings.delay / 10 + ack.rtt_error {
                self.empty_at = cx.now;
            }
        }
    }

    fn measure(&mut self, now: Time, packets: f64) {
        self.delivered.add(now, packets);
        let rtt = (self.base() + self.queueing).as_nanos() / BUCKET.as_nanos();
        let fast = self.settings.fast.max(rtt as usize);
        let (fast, slow) = (
            self.delivered.mean(now, fast),
            self.delivered.mean(now, self.settings.slow),
        );
        self.rate = fast.max(slow);
    }

    /// A multiple of the period on the host's clock has passed: flows of one host drain together.
    fn turned(&mut self, now: Time) -> bool {
        let turn = now.as_nanos() / self.settings.drain.as_nanos();
        std::mem::replace(&mut self.turn, turn) != turn
    }

    fn step(&mut self, cx: &mut Cx<'_>) {
        let turned = self.turned(cx.now);
        match self.mode {
            Mode::Hold if turned && cx.now.since(self.empty_at) > self.settings.drain / 2 => {
                self.mode = Mode::Drain(cx.now + self.base() + self.queueing);
                cx.log.event(cx.now, Event::Mode { to: "drain" });
            }
            Mode::Drain(until) if cx.now >= until => {
                self.mode = Mode::Hold;
                self.empty_at = cx.now;
                cx.log.event(cx.now, Event::Mode { to: "hold" });
            }
            _ => {}
        }
    }
}

impl Controller for Budget {
    fn on_start(&mut self, cx: &mut Cx<'_>, path: &Path) {
        self.mss = path.mss;
        self.empty_at = cx.now;
    }

    fn on_path_change(&mut self, _cx: &mut Cx<'_>, path: &Path) {
        self.mss = path.mss;
    }

    fn on_ack(&mut self, cx: &mut Cx<'_>, ack: &AckBatch<'_>) {
        let packets = ack.acked.iter().map(|p| p.len.packets(self.mss)).sum();
        self.look(cx, ack);
        // What an application that had nothing to send did not send says nothing about the path.
        let by = ack.limited;
        if (by.app || by.peer) && !by.window && self.mode != Mode::Start {
            return;
        }
        self.measure(cx.now, packets);
        self.step(cx);
        let base = self.base().as_secs_f64();
        let delay = self.settings.delay.as_secs_f64();
        if self.mode == Mode::Start {
            self.window = (self.window + packets).min(LARGEST);
            if self.queueing <= self.settings.delay / 2 + ack.rtt_error {
                return;
            }
            self.mode = Mode::Hold;
            let (why, window) = ("delay", self.window);
            cx.log.event(cx.now, Event::SlowStartExit { why, window });
        }
        self.window = match self.mode {
            Mode::Drain(_) => self.rate * base * DRAINED,
            _ => self.rate * (base + delay) + self.settings.packets,
        }
        .min(self.cap)
        .clamp(SMALLEST, LARGEST);
        self.cap += packets / self.window * (self.cap * RETURN).max(1.0);
        self.cap = self.cap.min(LARGEST);
    }

    fn on_loss(&mut self, _cx: &mut Cx<'_>, loss: &LossBatch<'_>) {
        if loss.new_episode && self.queueing > self.settings.delay / 4 {
            self.cap = self.window.min(self.cap) * BETA;
            self.window = self.window.min(self.cap).max(SMALLEST);
        }
        if self.mode == Mode::Start {
            self.mode = Mode::Hold;
        }
    }

    fn on_rto(&mut self, cx: &mut Cx<'_>, _rto: &Rto) {
        if self.mode == Mode::Start {
            self.mode = Mode::Hold;
            self.empty_at = cx.now;
        }
    }

    fn allowance(&self) -> Allowance {
        Allowance::window(window_bytes(self.window, self.mss))
    }

    fn needs(&self) -> Needs {
        Needs::default()
    }

    fn gauges(&self, put: &mut dyn FnMut(&'static str, f64)) {
        put("cwnd", self.window);
        put("rate_mbps", self.rate * self.mss.get() as f64 * 8.0 / 1e6);
        put("rtt_min_ms", self.base().as_millis_f64());
        put("queue_ms", self.queueing.as_millis_f64());
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;

    #[test]
    fn means_of_what_was_delivered() {
        let mut d = Deliveries::new(201);
        // A packet per millisecond for 1.5 s, then nothing for half a second, then two per millisecond.
        for ms in 0..1500 {
            d.add(Time::from_millis(ms), 1.0);
        }
        let mean = |d: &Deliveries, ms, buckets| d.mean(Time::from_millis(ms), buckets);
        assert!((mean(&d, 1499, 10) - 1000.0).abs() < 20.0);
        assert!((mean(&d, 1499, 200) - 1000.0).abs() < 2.0);
        d.add(Time::from_millis(2000), 0.0);
        assert_eq!(mean(&d, 2000, 10), 0.0);
        assert!((mean(&d, 2000, 200) - 750.0).abs() < 2.0);
        for ms in 2001..2200 {
            d.add(Time::from_millis(ms), 2.0);
        }
        assert!((mean(&d, 2199, 10) - 2000.0).abs() < 40.0);
    }

    #[test]
    fn the_window_is_rate_times_rtt_and_budget() {
        let mut b = Bench::of("budget:delay=50ms,packets=0");
        // A packet every millisecond, and 100 ms of round trip: 1000 packets per second.
        let tick = |b: &mut Bench, rtt: u64| {
            b.wait(Span::from_millis(1));
            b.ack(Span::from_millis(rtt));
        };
        (0..100).for_each(|_| tick(&mut b, 100));
        assert_eq!(b.window(), 110.0, "start: a packet more for each");
        // A queue of more than 25 ms ends the start; then 1000/s * (100 + 50) ms.
        (0..1000).for_each(|_| tick(&mut b, 130));
        assert!((b.window() - 150.0).abs() < 3.0, "{}", b.window());
        assert_eq!(b.gauge("queue_ms"), 30.0);
        // At 3 s of the clock, 1.9 s after the path was last empty, half of the product alone.
        (0..1930).for_each(|_| tick(&mut b, 130));
        assert!((b.window() - 50.0).abs() < 3.0, "{}", b.window());
        (0..140).for_each(|_| tick(&mut b, 130));
        assert!((b.window() - 150.0).abs() < 3.0, "{}", b.window());
    }

    #[test]
    fn a_loss_counts_if_there_was_a_queue() {
        let mut b = Bench::of("budget");
        for _ in 0..500 {
            b.wait(Span::from_millis(1));
            b.ack(Span::from_millis(100));
        }
        b.ack(Span::from_millis(125));
        let window = b.window();
        b.ack(Span::from_millis(100));
        b.lose_one();
        assert!((b.window() - window).abs() < 2.0, "{window} {}", b.window());
        b.recovered();
        b.ack(Span::from_millis(120));
        let window = b.window();
        b.lose_one();
        assert!(
            (b.window() - 0.7 * window).abs() < 2.0,
            "{window} {}",
            b.window()
        );
    }
}
