// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::LossRate;
use alcc_units::Time;

/// Number of packets over which the loss rate is averaged.
const MEMORY: f64 = 512.0;
/// Length of a test: a test lasts until this many losses are expected at the earlier rate, and for
/// at least `LEAST` packets.
const EXPECTED: f64 = 8.0;
const LEAST: f64 = 64.0;
/// With at most this many losses, the test concludes that sending less loses less. With independent
/// losses the test is wrong in 1.4 % of the cases (Poisson).
const FEW: f64 = 2.0;
/// Rate during a test, as a share of the delivered rate. It is lower after each test in a row that
/// attributed the losses to the path.
const PARTS: [f64; 3] = [1.0, 0.9, 0.8];
/// Pause after a test that attributed the losses to the path, as a multiple of the test's length.
/// It doubles with each in a row.
const PAUSE: u64 = 8;
const LONGEST: u64 = 128;
/// Result of a test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Losses {
    /// Sending less loses less: a full buffer, or a policer.
    OfCongestion,
    /// The losses go on as before: they come from the path.
    OfPath,
}

/// A test whether sending less loses less. Its user limits the rate to the delivered rate during a
/// test.
#[derive(Clone, Debug)]
pub struct LossTest {
    rate: LossRate,
    /// A test is due from this share of lost packets on.
    share: f64,
    not_before: Time,
    pause: u64,
    /// Index into `PARTS`.
    part: usize,
    running: Option<Running>,
}

#[derive(Clone, Copy, Debug)]
struct Running {
    /// Only packets sent since then count in the test.
    since: Time,
    /// Packets remaining in the test.
    remaining: f64,
    /// With more losses than this, they go on as before.
    few: f64,
    lost: f64,
}

impl LossTest {
    /// A tester: a test is due from this share of lost packets on.
    pub fn beyond(share: f64) -> Self {
        Self {
            rate: LossRate::over(MEMORY),
            share,
            not_before: Time::ZERO,
            pause: PAUSE,
            part: 0,
            running: None,
        }
    }

    /// Counts packets that arrived. Returns the result of the current test if it is over.
    pub fn delivered(&mut self, now: Time, sent_at: Time, packets: f64) -> Option<Losses> {
        self.rate.delivered(packets);
        self.count(now, sent_at, packets, 0.0)
    }

    /// Counts packets that were lost. Returns the result of the current test if it is over.
    pub fn lost(&mut self, now: Time, sent_at: Time, packets: f64) -> Option<Losses> {
        self.rate.lost(packets);
        self.count(now, sent_at, packets, packets)
    }

    /// True if enough packets were lost to start a test.
    pub fn is_due(&self, now: Time) -> bool {
        self.running.is_none() && now >= self.not_before && self.rate.get() > self.share
    }

    /// True during a test.
    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// The rate during the test, as a share of the delivered rate.
    pub fn part(&self) -> f64 {
        PARTS[self.part]
    }

    /// Begins a test: from now on less is sent.
    pub fn begin(&mut self, now: Time) {
        let share = self.rate.get().max(self.share);
        let packets = (EXPECTED / share).max(LEAST);
        self.running = Some(Running {
            since: now,
            remaining: packets,
            few: (LEAST * share / EXPECTED).max(1.0) * FEW,
            lost: 0.0,
        });
    }

    fn count(&mut self, now: Time, sent_at: Time, packets: f64, lost: f64) -> Option<Losses> {
        let test = self.running.as_mut().filter(|test| sent_at >= test.since)?;
        test.remaining -= packets;
        test.lost += lost;
        let found = if test.lost > test.few {
            self.not_before = now + now.since(test.since) * self.pause;
            self.pause = (self.pause * 2).min(LONGEST);
            self.part = (self.part + 1) % PARTS.len();
            Losses::OfPath
        } else if test.remaining <= 0.0 {
            self.pause = PAUSE;
            Losses::OfCongestion
        } else {
            return None;
        };
        self.running = None;
        self.rate = LossRate::over(MEMORY);
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alcc_units::Rng;

    const MS: fn(u64) -> Time = Time::from_millis;

    /// Sends a packet per ms; `lost` decides which are lost. Returns what the test finds, and after
    /// how many packets.
    fn run(test: &mut LossTest, from: u64, mut lost: impl FnMut() -> bool) -> (Losses, u64) {
        for ms in from.. {
            let found = if lost() {
                test.lost(MS(ms), MS(ms), 1.0)
            } else {
                test.delivered(MS(ms), MS(ms), 1.0)
            };
            if let Some(found) = found {
                return (found, ms - from);
            }
            if test.is_due(MS(ms)) {
                test.begin(MS(ms));
            }
        }
        unreachable!()
    }

    #[test]
    fn one_lost_packet_is_no_reason_and_three_are() {
        let mut test = LossTest::beyond(0.004);
        for lost in 1..=3 {
            test.lost(MS(lost), MS(lost), 1.0);
            assert_eq!(test.is_due(MS(lost)), lost == 3);
        }
    }

    #[test]
    fn what_was_sent_before_does_not_count() {
        let mut test = LossTest::beyond(0.004);
        (0..10).for_each(|_| {
            test.lost(MS(1), MS(1), 1.0);
        });
        test.begin(MS(50));
        for _ in 0..100 {
            assert_eq!(test.lost(MS(60), MS(49), 1.0), None);
        }
        assert!(test.is_running());
    }

    #[test]
    fn losses_that_end_are_of_congestion() {
        let mut test = LossTest::beyond(0.004);
        (0..10).for_each(|_| {
            test.lost(MS(1), MS(1), 1.0);
        });
        test.begin(MS(2));
        // 10 losses over 512 packets: 1.9 %, and 8 losses are expected of 414 packets.
        let (found, after) = run(&mut test, 3, || false);
        assert_eq!((found, after), (Losses::OfCongestion, 413));
        assert!(!test.is_due(MS(1000)));
    }

    #[test]
    fn two_losses_are_few_whatever_the_share() {
        for lost in 3..60 {
            let mut test = LossTest::beyond(0.004);
            (0..lost).for_each(|_| {
                test.lost(MS(1), MS(1), 1.0);
            });
            test.begin(MS(2));
            let mut again = 2;
            let (found, _) = run(&mut test, 3, || {
                let lost = again > 0;
                again -= i32::from(lost);
                lost
            });
            assert_eq!(found, Losses::OfCongestion, "after {lost}");
        }
    }

    #[test]
    fn losses_that_go_on_are_of_the_path_and_asked_about_ever_less() {
        for (percent, seed) in [(1, 1), (3, 2), (10, 4)] {
            let mut rng = Rng::new(seed);
            let mut test = LossTest::beyond(0.004);
            let (mut at, mut of_path, mut pauses) = (0, 0, Vec::new());
            for _ in 0..12 {
                let (found, after) = run(&mut test, at, || rng.below(100) < percent);
                of_path += u32::from(found == Losses::OfPath);
                at += after + 1;
                pauses.push(after);
            }
            assert!(of_path >= 11, "{percent} %: {of_path} of 12");
            let early: u64 = pauses[..3].iter().sum();
            let late: u64 = pauses[9..].iter().sum();
            assert!(late > 2 * early, "{percent} %: {pauses:?}");
        }
    }
}
