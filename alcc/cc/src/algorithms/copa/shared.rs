// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Code that the paper's form and all programs share: the arithmetic of section 2, and genericCC's rule for heavy loss.
use super::velocity::Way;
use crate::parts::{WindowedMax, WindowedMin, pacing_rate, segments, window_bytes};
use crate::{Allowance, Cx, Event, LossBatch, Needs};
use alcc_units::{Bytes, Span, Time};

constants! { COPA:
    /// First window, packets.
    pub INITIAL: f64 = 10.0;
    /// Smallest window, packets.
    pub MIN_WINDOW: f64 = 2.0;
    /// Largest window, packets.
    pub MAX_WINDOW: f64 = 1e9;
    /// Weight of a sample in the smoothed RTT (genericCC).
    SMOOTHING: f64 = 0.0625, of 16;
    /// Longest time over which the smallest RTT is taken.
    pub MIN_RTT_OVER: Span = Span::from_secs(10);
    /// After this silence, earlier measurements are discarded.
    pub SILENCE: Span = Span::from_secs(2);
    /// A larger share lost counts as heavy loss (genericCC).
    HEAVY_LOSS: f64 = 0.3, of 10;
    /// Losses are judged over more packets than this.
    JUDGED: u64 = 20;
    /// Part of the window that remains after heavy loss.
    BETA: f64 = 0.7, of 10;
    /// Pacing rate, in windows per standing RTT (section 2.1).
    PACING_GAIN: f64 = 2.0;
}
/// Round trips over which a competitor's queue must persist (section 2.2).
const COMPETITOR_RTTS: u64 = 4;

/// RTTs of a flow: smallest, standing, smoothed.
#[derive(Clone, Default)]
pub struct Rtts {
    /// The smallest RTT over the window of the form.
    pub minimum: WindowedMin<Span>,
    /// The standing RTT: the smallest of the last half smoothed RTT.
    pub standing: WindowedMin<Span>,
    /// The newest sample.
    pub latest: Span,
    /// The smoothed RTT in seconds; zero before the first sample.
    pub smoothed: f64,
    /// Queueing delay up to this counts as zero.
    pub floor: Span,
}

impl Rtts {
    /// The smallest RTT; zero before the first sample.
    pub fn minimum(&self) -> Span {
        self.minimum.get().unwrap_or_default()
    }

    /// The standing RTT; zero before the first sample.
    pub fn standing(&self) -> Span {
        self.standing.get().unwrap_or_default()
    }

    /// The smoothed RTT.
    pub fn smoothed(&self) -> Span {
        Span::from_secs_f64(self.smoothed)
    }

    /// Updates the latest and the smoothed RTT.
    pub fn smooth(&mut self, rtt: Span) {
        let r = rtt.as_secs_f64();
        self.smoothed = if self.smoothed == 0.0 {
            r
        } else {
            self.smoothed + (r - self.smoothed) * SMOOTHING
        };
        self.latest = rtt;
    }

    /// The queueing delay if the RTT is `now`. From the floor to twice the floor it rises from zero to its full value,
    /// so that flows in this range still differ by their windows.
    fn queueing(&self, now: Span) -> Span {
        let whole = now - self.minimum();
        whole.min((whole - self.floor) * 2)
    }

    /// True if without the floor more than `1/delta` packets of the window would be in the queue.
    pub fn is_below_floor(&self, window: f64, delta: f64) -> bool {
        let standing = self.standing();
        let whole = (standing - self.minimum()).as_secs_f64();
        let wanted = standing.as_secs_f64() / delta;
        whole <= self.floor.as_secs_f64() && window * whole > wanted
    }

    /// Packets of a window in the queue, if the RTT is `now`: window * queueing delay / standing RTT.
    pub fn queue(&self, window: f64, now: Span) -> f64 {
        let standing = self.standing().as_secs_f64();
        if standing <= 0.0 {
            return 0.0;
        }
        window * self.queueing(now).as_secs_f64() / standing
    }

    /// The window that gives the target queue, in packets.
    pub fn target_window(&self, delta: f64) -> f64 {
        let queueing = self.queueing(self.standing()).as_secs_f64();
        if queueing <= 0.0 {
            MAX_WINDOW
        } else {
            self.standing().as_secs_f64() / (delta * queueing)
        }
    }
}

impl Rtts {
    /// Forgets the RTTs of the old route, which do not apply to the new one.
    pub fn forget_delays(&mut self) {
        self.minimum.clear();
        self.standing.clear();
    }

    /// Frees unused memory.
    pub fn shrink(&mut self) {
        self.minimum.shrink();
        self.standing.shrink();
    }

    /// Reports a form's state and its RTTs.
    pub fn gauges(&self, state: &Gauges, put: &mut dyn FnMut(&'static str, f64)) {
        put("cwnd", state.window);
        put("delta", state.delta);
        put("velocity", state.velocity);
        put("rtt_min_ms", self.minimum().as_millis_f64());
        put("rtt_standing_ms", self.standing().as_millis_f64());
        put("queue", state.queue);
        put("slow_start", f64::from(u8::from(state.slow_start)));
    }

    /// RTTs with these known values, in ms, for test vectors of a form.
    pub fn known(minimum: u64, standing: u64) -> Self {
        let [minimum, latest] = [minimum, standing].map(Span::from_millis);
        let mut rtts = Self {
            latest,
            smoothed: latest.as_secs_f64(),
            ..Self::default()
        };
        rtts.minimum.insert(Time::ZERO, minimum, Span::MAX);
        rtts.standing.insert(Time::ZERO, latest, Span::MAX);
        rtts
    }
}

/// State that a form reports: packets, and 1/packets for delta.
pub struct Gauges {
    /// The window.
    pub window: f64,
    /// Delta.
    pub delta: f64,
    /// The velocity.
    pub velocity: f64,
    /// Packets in the queue.
    pub queue: f64,
    /// True while slow start lasts.
    pub slow_start: bool,
}

/// The needs of every form.
pub fn needs() -> Needs {
    Needs {
        per_packet_ack: true,
        paced: true,
        feedback_period: Span::from_millis(6),
        ..Needs::default()
    }
}

/// A window, paced at twice its rate over an RTT of `rtt` seconds. It is not paced before an ACK has `set` the window,
/// and without an RTT.
pub fn allowance(window: f64, rtt: f64, set: bool, mss: Bytes) -> Allowance {
    Allowance {
        window: window_bytes(window, mss),
        rate: (set && rtt > 0.0).then(|| pacing_rate(PACING_GAIN * window / rtt, mss)),
        burst: mss,
        ..Allowance::UNLIMITED
    }
}

/// The direction for a queue of `queue` packets. `slack` keeps rounding from deciding at the target itself.
pub fn verdict(queue: f64, delta: f64, slack: f64) -> Way {
    let wanted = 1.0 / delta;
    if queue <= wanted + slack * wanted {
        Way::Up
    } else {
        Way::Down
    }
}

/// Section 2.2: detects another flow that fills the buffer, and then keeps more packets in the queue, as Reno would.
#[derive(Clone)]
pub struct Mode {
    /// Detection of competitors is enabled.
    auto: bool,
    default_delta: f64,
    min_delta: f64,
    /// Delta, 1/packets.
    pub delta: f64,
    /// True while another flow fills the buffer.
    pub competitive: bool,
    /// The smallest RTT of four round trips.
    pub low: WindowedMin<Span>,
    /// The largest RTT of four smoothed RTTs.
    pub high: WindowedMax<Span>,
    changed: Time,
    /// Time of the last halving; `None`: never.
    halved: Option<Time>,
    /// True if a loss was seen since delta was last set.
    pub lossy: bool,
}

impl Mode {
    /// Starts in default mode. `auto` enables the detection of competitors.
    pub fn new(auto: bool, delta: f64, max_queue: f64) -> Self {
        Self {
            auto,
            default_delta: delta,
            min_delta: 1.0 / max_queue,
            delta,
            competitive: false,
            low: WindowedMin::new(),
            high: WindowedMax::new(),
            changed: Time::ZERO,
            halved: None,
            lossy: false,
        }
    }

    /// Takes a sample of the RTT.
    pub fn sample(&mut self, now: Time, rtt: Span, rtts: &Rtts, at_most: Span) {
        let memory = (rtts.smoothed() * COMPETITOR_RTTS).min(at_most);
        self.low.insert(now, rtt, memory);
        self.high.insert(now, rtt, memory);
    }

    /// Notes a loss, which counts once per standing RTT.
    pub fn loss(&mut self, now: Time, standing: Span) {
        if self.halved.is_none_or(|at| now.since(at) >= standing) {
            self.lossy = true;
        }
    }

    /// Forgets the delays of another path.
    pub fn forget_delays(&mut self) {
        self.low.clear();
        self.high.clear();
    }

    /// Frees unused memory.
    pub fn shrink(&mut self) {
        self.low.shrink();
        self.high.shrink();
    }

    /// Adapts delta; called after each sample. Returns an event if the mode changed.
    pub fn adapt(&mut self, now: Time, rtts: &Rtts) -> Option<Event> {
        let (Some(low), Some(high), true) = (self.low.get(), self.high.get(), self.auto) else {
            return None;
        };
        let minimum = rtts.minimum();
        let nearly_empty = minimum + (high - minimum).mul_f64(0.1);
        let competitive = low >= nearly_empty && low > minimum;
        let changed = competitive != self.competitive;
        self.competitive = competitive;
        let round_passed = now.since(self.changed) >= rtts.standing();
        if !competitive {
            self.delta = self.default_delta;
        } else if self.lossy {
            self.delta = (self.delta * 2.0).min(self.default_delta);
            (self.changed, self.halved) = (now, Some(now));
        } else if round_passed {
            self.delta = (1.0 / (1.0 / self.delta + 1.0)).max(self.min_delta);
            self.changed = now;
        }
        self.lossy = false;
        let to = if competitive {
            "competitive"
        } else {
            "default"
        };
        changed.then_some(Event::Mode { to })
    }
}

/// Detection of heavy loss: more than 30 % is not accidental (genericCC).
#[derive(Clone, Default)]
pub struct HeavyLoss {
    /// Segments lost since the last check.
    pub lost: u64,
    /// Segments lost or acknowledged since the last check.
    pub seen: u64,
    /// Time of the last check.
    pub checked: Time,
    /// The lost share at the last check.
    before: f64,
}

impl HeavyLoss {
    /// Counts segments that arrived.
    pub fn arrived(&mut self, segments: u64) {
        self.seen += segments;
    }

    /// Counts lost segments.
    pub fn lost(&mut self, loss: &LossBatch<'_>, mss: Bytes) {
        let n: u64 = loss.lost.iter().map(|p| segments(p.len, mss)).sum();
        self.lost += n;
        self.seen += n;
    }

    /// Checks at most once per `every`, and returns the window after it. A share above `persistent` in two checks in a
    /// row is also heavy; a single overflow of a short queue is not.
    pub fn weigh(&mut self, cx: &mut Cx<'_>, every: Span, window: f64, persistent: f64) -> f64 {
        if self.seen <= JUDGED || cx.now.since(self.checked) <= every {
            return window;
        }
        let share = self.lost as f64 / self.seen as f64;
        let again = share.min(std::mem::replace(&mut self.before, share)) > persistent;
        let heavy = again || self.lost as f64 > HEAVY_LOSS * self.seen as f64;
        (self.lost, self.seen, self.checked) = (0, 0, cx.now);
        if !heavy {
            return window;
        }
        let (why, from) = ("heavy loss", window);
        let to = (window * BETA).max(MIN_WINDOW);
        cx.log.event(cx.now, Event::Decrease { why, from, to });
        to
    }
}
