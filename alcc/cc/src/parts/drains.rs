// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::WindowedMin;
use alcc_units::{Span, Time};

constants! { DRAINS:
    /// Drains begin at multiples of this on the host's clock.
    PERIOD: Span = Span::from_secs(3);
    /// No drain begins if the path was seen empty in this part of a period before it.
    MISSED: u64 = 2;
    /// Age at which a smallest RTT may belong to an earlier path.
    /// 10 s as BBR's.
    MEMORY: Span = Span::from_secs(10);
    /// After a drain the smallest RTT is taken over this time.
    RECENT: Span = Span::from_secs(1);
    /// RTTs that differ by less than this count as equal.
    pub(crate) GRAIN: Span = Span::from_millis(1);
    /// A drain continues, or is due, if the smallest RTT fell by more than this part of it, and GRAIN.
    FELL: u64 = 20;
}

/// Result of an acknowledgement for the drains.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Drained {
    /// A drain begins.
    Begins,
    /// A drain continues from here, because the smallest RTT has fallen in it.
    Again,
    /// A drain is over.
    Ends,
}

/// The smallest RTT, and the times at which to send less than the path holds, so that it can be
/// measured.
///
/// Drains begin at multiples of three seconds of the host's clock. So the flows of one host drain
/// together, and all measure the empty path. A flow takes part unless its path was recently empty and
/// the smallest RTT is that of the last drain.
/// A drain ends when a packet sent in it is acknowledged; a fixed time would be wrong after an
/// outage. The smallest RTT rises only after a drain, so that a standing queue is not taken for a
/// longer path after some time.
#[derive(Clone, Debug, Default)]
pub struct Drains {
    base: Option<Span>,
    /// Time of the last RTT near the smallest one.
    base_at: Time,
    recent: WindowedMin<Span>,
    /// Time at which the path was last empty.
    empty_at: Time,
    /// True if the smallest RTT may include a queue.
    unsure: bool,
    /// Number of multiples of the period so far.
    turn: u64,
    /// Start of the current drain.
    draining: Option<Time>,
    /// The smallest RTT when the last drain began, or when it rose; zero before the first drain.
    was: Span,
    /// For the current drain: the smallest RTT of the second before it, and the smallest during that drain.
    recent_before: Span,
    lowest: Span,
    /// Queueing delay before the last drain, and after it.
    before: Span,
    residual: Span,
    /// True if the smallest RTT must not rise.
    held: bool,
}

impl Drains {
    /// Starts with the flow.
    pub fn start(&mut self, now: Time) {
        self.empty_at = now;
        self.base_at = now;
    }

    /// The smallest RTT; zero before the first sample.
    pub fn base(&self) -> Span {
        self.base.unwrap_or_default()
    }

    /// The smallest RTT of the last second.
    pub fn recent(&self) -> Option<Span> {
        self.recent.get()
    }

    /// True in a drain: less should be in flight than the path holds.
    pub fn draining(&self) -> bool {
        self.draining.is_some()
    }

    /// Queueing delay when the last drain began, from the smallest RTT of a second.
    pub fn before(&self) -> Span {
        self.before
    }

    /// Smallest queueing delay during the last drain, which is what the drain did not remove. Zero if the
    /// smallest RTT rose after that drain.
    pub fn residual(&self) -> Span {
        self.residual
    }

    /// While `held`, the smallest RTT does not rise, because other flows may keep the queue.
    pub fn hold(&mut self, held: bool) {
        self.held = held;
    }

    /// Makes the next multiple of the period begin a drain in any case, because the smallest RTT
    /// may include a queue.
    pub fn doubt(&mut self) {
        self.unsure = true;
    }

    /// Takes an RTT with an error of up to `error`. Returns its queueing delay. With queueing up to
    /// `same` the smallest RTT counts as measured again, up to `empty` the path counts as empty.
    pub fn sample(&mut self, now: Time, rtt: Span, error: Span, same: Span, empty: Span) -> Span {
        let base = self.base.map_or(rtt, |base| base.min(rtt));
        self.base = Some(base);
        self.recent.insert(now, rtt, RECENT);
        if self.draining() {
            self.lowest = self.lowest.min(rtt);
        }
        let queueing = rtt.saturating_sub(base);
        let above = queueing.saturating_sub(error);
        if above <= same {
            self.base_at = now;
        }
        if above <= empty {
            self.empty_at = now;
        }
        queueing
    }

    /// A packet sent at `sent_at` was acknowledged. A drain begins only if `may`, at every
    /// `every`-th multiple of the period; if `every` is 0, at once.
    pub fn step(&mut self, now: Time, sent_at: Time, may: bool, every: u64) -> Option<Drained> {
        let turn = now.as_nanos() / PERIOD.as_nanos();
        let passed = std::mem::replace(&mut self.turn, turn) != turn;
        let turned = passed && turn.is_multiple_of(every.max(1));
        let base = self.base();
        // The route is shorter, and what was in flight on the longer one is a queue that no empty path may show.
        let fell = base + base / FELL + GRAIN < self.was;
        let missed = self.unsure || fell || now.since(self.empty_at) > PERIOD / MISSED;
        match self.draining {
            None if may && (every == 0 || turned && missed) => {
                (self.draining, self.was) = (Some(now), base);
                self.recent_before = self.recent.get().unwrap_or(base);
                self.lowest = Span::MAX;
                Some(Drained::Begins)
            }
            Some(since) if sent_at >= since => {
                if fell {
                    (self.draining, self.was) = (Some(now), base);
                    return Some(Drained::Again);
                }
                self.draining = None;
                self.unsure = false;
                self.empty_at = now;
                self.before = self.recent_before.saturating_sub(base);
                self.residual = self.lowest.saturating_sub(base);
                if now.since(self.base_at) > MEMORY && !self.held {
                    self.rise(now);
                }
                Some(Drained::Ends)
            }
            _ => None,
        }
    }

    /// Sets the smallest RTT to that of the last second at once, because the drain that has just
    /// ended emptied a longer route.
    pub fn rise(&mut self, now: Time) {
        self.residual = Span::ZERO;
        self.base = self.recent.get();
        self.was = self.base();
        self.base_at = now;
    }

    /// Frees the memory. The next sample allocates it again.
    pub fn shrink(&mut self) {
        self.recent.shrink();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAME: Span = Span::from_millis(4);
    const EMPTY: Span = Span::from_millis(10);

    struct Path {
        drains: Drains,
        now: Time,
    }

    impl Path {
        /// A packet every 10 ms, each back after `rtt`, until `until` ms; what happened, with its
        /// ms.
        fn until(&mut self, until: u64, rtt: u64) -> Vec<(u64, Drained)> {
            let mut story = Vec::new();
            while self.now < Time::from_millis(until) {
                self.now += Span::from_millis(10);
                let rtt = Span::from_millis(rtt);
                let (now, sent) = (self.now, Time::ZERO + self.now.since(Time::ZERO + rtt));
                self.drains.sample(now, rtt, Span::ZERO, SAME, EMPTY);
                if let Some(what) = self.drains.step(now, sent, true, 1) {
                    story.push((now.as_nanos() / 1_000_000, what));
                }
            }
            story
        }
    }

    fn path() -> Path {
        let mut drains = Drains::default();
        drains.start(Time::ZERO);
        Path {
            drains,
            now: Time::ZERO,
        }
    }

    #[test]
    fn a_flow_that_sees_the_path_empty_drains_only_in_doubt() {
        let mut p = path();
        assert_eq!(p.until(5_900, 40), []);
        p.drains.doubt();
        let both = [(6_000, Drained::Begins), (6_040, Drained::Ends)];
        assert_eq!(p.until(8_900, 40), both);
    }

    #[test]
    fn a_queue_is_drained_at_multiples_of_three_seconds_until_a_packet_is_back() {
        let mut p = path();
        assert_eq!(p.until(100, 40), []);
        // The queue began at 100 ms.
        let story = p.until(6_500, 140);
        let want = [
            (3_000, Drained::Begins),
            (3_140, Drained::Ends),
            (6_000, Drained::Begins),
            (6_140, Drained::Ends),
        ];
        assert_eq!(story, want);
        assert_eq!(p.drains.base(), Span::from_millis(40));
    }

    #[test]
    fn a_drain_goes_on_while_the_smallest_rtt_falls() {
        let mut p = path();
        p.until(2_900, 140);
        p.drains.doubt();
        p.until(3_010, 140);
        assert!(p.drains.draining());
        let story = p.until(3_300, 60);
        assert_eq!(story, [(3_060, Drained::Again), (3_120, Drained::Ends)]);
    }

    #[test]
    fn a_smallest_rtt_that_fell_since_the_last_drain_makes_the_next_one_due() {
        let mut p = path();
        p.until(100, 340);
        p.until(3_500, 360);
        assert!(!p.drains.draining());
        // Both are samples of an empty path, but only the second shows a shorter route.
        for (until, rtt, story) in [(5_900, 336, 0), (8_900, 300, 2)] {
            p.until(until, rtt);
            assert_eq!(p.until(until + 700, rtt).len(), story, "{rtt} ms");
        }
    }

    #[test]
    fn the_smallest_rtt_rises_after_a_drain_if_it_was_not_seen_for_ten_seconds() {
        let mut p = path();
        p.until(100, 40);
        p.until(11_990, 90);
        assert_eq!(p.drains.base(), Span::from_millis(40));
        assert_eq!(p.drains.residual(), Span::from_millis(50));
        p.until(12_100, 90);
        assert_eq!(p.drains.base(), Span::from_millis(90));
        assert_eq!(p.drains.residual(), Span::ZERO);
    }

    #[test]
    fn the_smallest_rtt_does_not_rise_while_held() {
        let mut p = path();
        p.until(100, 40);
        p.drains.hold(true);
        p.until(12_100, 90);
        assert_eq!(p.drains.base(), Span::from_millis(40));
    }

    #[test]
    fn what_a_drain_began_with_and_left() {
        let mut p = path();
        p.until(100, 40);
        p.until(3_050, 140);
        p.until(3_500, 75);
        let ms = Span::from_millis;
        assert_eq!((p.drains.before(), p.drains.residual()), (ms(100), ms(35)));
    }
}
