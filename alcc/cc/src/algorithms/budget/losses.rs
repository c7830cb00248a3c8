// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The limit that losses set: separates the losses of the path from those of congestion.
use super::{LARGEST, PACKETS};
use crate::parts::LossRate;
use alcc_units::{Span, Time};

constants! { LOSSES:
    /// Share of losses above which a test starts, subject to TOLERATED.
    SHARE: f64 = 0.004, of 1000;
    /// A test starts only above this multiple of the share that belongs to the path.
    TOLERATED: f64 = 1.5, of 2;
    /// Largest share of losses that is attributed to the path.
    /// Beyond what it then tolerates, the flow backs off. RFC 8083: 10 % of a link at 10 %.
    MOST: f64 = 0.05, of 100;
    /// Packets over which the share is averaged.
    pub(crate) MEMORY: f64 = 512.0;
    /// Packets over which the path's share falls to a lower one.
    FORGET: f64 = 8192.0;
    /// A test lasts until this number of losses would be expected.
    EXPECTED: f64 = 8.0;
    /// A test lasts for at least this number of packets.
    LEAST: f64 = 64.0;
    /// With at most this number of the expected losses, sending less reduces loss.
    /// Of independent losses 1.4 % of the tests say so (Poisson).
    FEW: f64 = 2.0;
    /// A test reduces the limit to at most this part.
    BETA: f64 = 0.85, of 100;
    /// Longest duration of a test; then its result so far counts.
    PATIENCE: Span = Span::from_secs(3);
    /// A shorter queue cannot be distinguished from none.
    GRAIN: Span = Span::from_micros(250);
    /// A queue counts as short, full or unchanged from this part of that queue on.
    HALF: u64 = 2;
    /// Growth of the limit per RTT, at least one packet.
    RETURN: f64 = 0.02, of 50;
    /// Others may share the full queue while this part of it stands.
    STANDS: u64 = 4;
    /// While others may share the queue, the limit grows by a packet in this time, or per RTT if that is longer.
    /// Otherwise a TCP that grows by a packet per RTT would never fill the queue before this flow.
    SLOW: Span = Span::from_millis(100);
    /// The smallest limit, packets.
    SMALLEST: f64 = 2.0;
}

/// Result of a test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Found {
    /// Sending less loses less, or the queue of others stays full: congestion.
    OfCongestion,
    /// The losses go on while the queue is empty: they come from the path.
    OfPath,
}

/// Judges losses. A packet that is lost while the queue is as long as at earlier congestion losses reduces the limit to
/// what is delivered in the smallest RTT. Other losses are averaged as a share. A share above the path's starts a test,
/// in which less is sent for a while. If losses go on with an empty queue, they come from the path.
#[derive(Clone)]
pub(super) struct Losses {
    rate: LossRate,
    /// The share of packets that the path loses, 0 to 1.
    of_path: f64,
    /// The limit in packets; `before`: the limit before the last episode of losses.
    limit: f64,
    before: f64,
    /// The longest queueing delay at congestion losses. Zero: not known.
    full: Span,
    cut_at: Time,
    not_before: Time,
    test: Option<Test>,
}

#[derive(Clone, Copy)]
struct Test {
    /// Only packets sent since then count in the test.
    since: Time,
    /// Packets of the whole test, and those remaining.
    all: f64,
    remaining: f64,
    /// With more losses than this at a short queue, the losses come from the path.
    few: f64,
    of_path: f64,
    /// A queue counts as short up to this.
    short: Span,
    /// State when the test began: the share, the queueing delay, the limit, packets delivered in the smallest RTT.
    share: f64,
    queueing: Span,
    limit: f64,
    product: f64,
}

impl Default for Losses {
    fn default() -> Self {
        Self {
            rate: LossRate::over(MEMORY),
            of_path: 0.0,
            limit: LARGEST,
            before: LARGEST,
            full: Span::ZERO,
            cut_at: Time::ZERO,
            not_before: Time::ZERO,
            test: None,
        }
    }
}

impl Losses {
    /// Forgets the losses so far, and sets no limit before `until`.
    pub(super) fn forget(&mut self, until: Time) {
        self.not_before = self.not_before.max(until);
        self.rate = LossRate::over(MEMORY);
        self.test = None;
    }

    /// The route is longer: the queueing delay at losses was in fact path delay. Sets no limit before `until`.
    pub(super) fn reroute(&mut self, until: Time) {
        self.forget(until);
        (self.limit, self.full) = (LARGEST, Span::ZERO);
    }

    /// Saves the state at the start of an episode of losses.
    pub(super) fn mark(&mut self) {
        self.before = self.limit;
    }

    /// Restores the state before the last episode, because its losses were spurious.
    pub(super) fn undo(&mut self) {
        self.rate = LossRate::over(MEMORY);
        self.test = None;
        self.limit = self.limit.max(self.before);
    }

    /// Limit of packets in flight.
    pub(super) fn limit(&self) -> f64 {
        self.limit
    }

    pub(super) fn is_due(&self, now: Time) -> bool {
        let most = SHARE + TOLERATED * self.of_path;
        self.test.is_none() && now >= self.not_before && self.rate.get() > most
    }

    /// Begins a test. `product`: packets delivered in the smallest RTT. Queueing of up to `none` counts as none.
    pub(super) fn begin(&mut self, now: Time, queueing: Span, product: f64, none: Span) {
        let share = self.rate.get();
        let packets = (EXPECTED / share).max(LEAST);
        self.test = Some(Test {
            since: now,
            all: packets,
            remaining: packets,
            few: (LEAST * share / EXPECTED).max(1.0) * FEW,
            of_path: 0.0,
            // Behind an active queue management others' packets keep a queue that is only shorter.
            short: (queueing / HALF).min(none).max(GRAIN),
            share,
            queueing,
            limit: self.limit,
            product,
        });
        // With a queue the plain product measures less than the path delivers, and the next test still less. Without
        // one, a policer would drop what is beyond it.
        let more = if queueing > none { PACKETS } else { 0.0 };
        self.limit = (self.limit * BETA).min(product + more).max(SMALLEST);
    }

    /// Counts delivered packets.
    pub(super) fn delivered(
        &mut self,
        now: Time,
        sent_at: Time,
        packets: f64,
        queueing: Span,
    ) -> Option<Found> {
        self.rate.delivered(packets);
        // Nothing was lost after a longer wait, so the buffer is longer than assumed.
        if self.full > Span::ZERO {
            self.full = self.full.max(queueing);
        }
        let above = (self.of_path - self.rate.get()).max(0.0);
        self.of_path -= above * (packets / FORGET).min(1.0);
        self.count(now, sent_at, packets, 0.0, queueing)
    }

    /// Counts lost packets. With a full queue, `keep` packets may stay in flight, in a test only its product: others
    /// do not yield.
    pub(super) fn lost(
        &mut self,
        now: Time,
        sent_at: Time,
        packets: f64,
        queueing: Span,
        keep: f64,
    ) -> Option<Found> {
        let (full, keep) = match &self.test {
            None => (self.full, keep),
            Some(test) if sent_at >= test.since => (test.queueing, test.product),
            Some(_) => (Span::ZERO, keep),
        };
        if full > GRAIN && queueing * HALF >= full {
            if sent_at >= self.cut_at && now >= self.not_before {
                self.cut_at = now;
                self.limit = self.limit.min(keep).max(SMALLEST);
            }
            if self.test.is_none() {
                self.full = full.max(queueing);
                return None;
            }
        }
        self.rate.lost(packets);
        self.count(now, sent_at, packets, packets, queueing)
    }

    /// `packets` of `window` were acknowledged after `rtt`, of which `queueing` is queueing delay: the limit grows, but
    /// not in a test.
    pub(super) fn grow(&mut self, packets: f64, window: f64, rtt: Span, queueing: Span) {
        if self.test.is_some() {
            return;
        }
        let stands = queueing > (self.full / STANDS).max(GRAIN);
        let each = if stands {
            rtt.as_secs_f64() / rtt.max(SLOW).as_secs_f64()
        } else {
            (self.limit * RETURN).max(1.0)
        };
        self.limit += each * packets / window;
        self.limit = self.limit.min(LARGEST);
    }

    fn count(
        &mut self,
        now: Time,
        sent_at: Time,
        packets: f64,
        lost: f64,
        queueing: Span,
    ) -> Option<Found> {
        let test = self.test.as_mut().filter(|test| sent_at >= test.since)?;
        test.remaining -= packets;
        if queueing <= test.short {
            test.of_path += lost;
        }
        let late = now.since(test.since) > PATIENCE;
        let seen = (1.0 - test.remaining / test.all).min(1.0);
        let few = test.few * if late { seen } else { 1.0 };
        let goes_on = test.of_path > few;
        if !goes_on && !late && test.remaining > 0.0 {
            return None;
        }
        let test = self.test.take()?;
        if goes_on && test.share > SHARE + TOLERATED * MOST {
            // The share is not reset, so the next test follows at once while the path loses as much.
            self.of_path = MOST;
            return Some(Found::OfCongestion);
        }
        self.rate = LossRate::over(MEMORY);
        if goes_on {
            self.of_path = test.share.min(MOST);
            self.limit = test.limit;
            return Some(Found::OfPath);
        }
        self.full = test.queueing;
        Some(Found::OfCongestion)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Span = Span::from_millis(20);
    const ROUND: Span = Span::from_millis(50);
    const NONE: Span = Span::from_millis(4);

    /// Packets are lost at a queue of 20 ms, and none when less is sent.
    fn congested() -> (Losses, Time) {
        let mut losses = Losses::default();
        let mut now = Time::from_millis(1000);
        losses.lost(now, now, 12.0, SHORT, 100.0);
        assert!(losses.is_due(now));
        losses.begin(now, SHORT, 100.0, NONE);
        assert_eq!(losses.limit(), 102.0);
        let mut found = None;
        while found.is_none() && now < Time::from_millis(9000) {
            now += ROUND;
            found = losses.delivered(now, now, 20.0, Span::ZERO);
        }
        assert_eq!(found, Some(Found::OfCongestion));
        (losses, now)
    }

    #[test]
    fn what_a_test_has_explained_is_not_tested_again() {
        let mut losses = Losses::default();
        let mut now = Time::from_millis(1000);
        losses.lost(now, now, 12.0, SHORT, 100.0);
        losses.begin(now, SHORT, 100.0, NONE);
        // Others keep the queue full, and a tenth is lost as before.
        let mut found = None;
        while found.is_none() && now < Time::from_millis(9000) {
            now += ROUND;
            let delivered = losses.delivered(now, now, 9.0, SHORT);
            found = delivered.or_else(|| losses.lost(now, now, 1.0, SHORT, 100.0));
        }
        assert_eq!(found, Some(Found::OfCongestion));
        assert!(!losses.is_due(now));
    }

    #[test]
    fn a_longer_wait_without_a_loss_shows_a_longer_buffer() {
        let (mut losses, now) = congested();
        let later = now + ROUND;
        losses.lost(later, later, 1.0, SHORT / 2, 50.0);
        assert_eq!(losses.limit(), 50.0);
        let (mut losses, now) = congested();
        let later = now + ROUND;
        losses.delivered(later, later, 1.0, SHORT * 3);
        losses.lost(later, later, 1.0, SHORT, 50.0);
        assert_eq!(losses.limit(), 102.0);
    }

    /// A test that began with a queue of 20 ms, at its first loss with a queue of `queueing`.
    fn lost_in_a_test(queueing: Span) -> (Losses, Option<Found>) {
        let mut losses = Losses::default();
        let mut now = Time::from_millis(1000);
        losses.lost(now, now, 12.0, SHORT, 100.0);
        losses.begin(now, SHORT, 100.0, NONE);
        let mut found = None;
        while found.is_none() && now < Time::from_millis(9000) {
            now += ROUND;
            let delivered = losses.delivered(now, now, 9.0, queueing);
            found = delivered.or_else(|| losses.lost(now, now, 1.0, queueing, 200.0));
        }
        (losses, found)
    }

    #[test]
    fn in_a_test_only_losses_with_an_empty_queue_are_of_the_path() {
        // Half of the queue when the test began is 10 ms, but others may keep it.
        for queueing in [5, 9] {
            let (losses, found) = lost_in_a_test(Span::from_millis(queueing));
            assert_eq!(found, Some(Found::OfCongestion), "{queueing} ms");
            assert_eq!(losses.limit(), 102.0);
        }
        // Its share, 2.3 %, is tolerated from then on.
        let (losses, found) = lost_in_a_test(Span::from_millis(4));
        assert_eq!((found, losses.limit()), (Some(Found::OfPath), LARGEST));
    }

    #[test]
    fn in_a_test_a_full_queue_leaves_the_product() {
        let (losses, found) = lost_in_a_test(SHORT / 2);
        assert_eq!((found, losses.limit()), (Some(Found::OfCongestion), 100.0));
    }

    #[test]
    fn a_path_that_loses_too_much_is_tested_again_at_once() {
        let mut losses = Losses::default();
        let mut now = Time::from_millis(1000);
        let mut limits = vec![];
        for _ in 0..3 {
            while !losses.is_due(now) || limits.is_empty() && losses.rate.get() < 0.1 {
                losses.lost(now, now, 1.0, Span::ZERO, 100.0);
            }
            losses.begin(now, Span::ZERO, 100.0, NONE);
            limits.push(losses.limit());
            let mut found = None;
            while found.is_none() {
                now += ROUND;
                let delivered = losses.delivered(now, now, 8.0, Span::ZERO);
                found = delivered.or_else(|| losses.lost(now, now, 1.0, Span::ZERO, 100.0));
            }
            assert_eq!(found, Some(Found::OfCongestion));
            assert!(losses.is_due(now));
        }
        // 100, times 0.85 each time.
        assert_eq!(limits[0], 100.0);
        assert!((limits[2] - 100.0 * 0.85 * 0.85).abs() < 1e-9, "{limits:?}");
    }

    #[test]
    fn beside_a_standing_queue_the_limit_grows_by_time() {
        let (losses, _) = congested();
        // A window is back: 2 % of 102 packets. Beside a queue a packet in 100 ms, with an RTT of 50 ms.
        for (queueing, to) in [(Span::ZERO, 104.04), (SHORT, 102.5)] {
            let mut losses = losses.clone();
            losses.grow(102.0, 102.0, ROUND, queueing);
            assert!((losses.limit() - to).abs() < 1e-9, "{}", losses.limit());
        }
    }
}
