// SPDX-License-Identifier: Apache-2.0 OR MIT
use alcc_units::{Bytes, Rate, Span, Time};

/// A token-bucket pacer. Tokens accrue at the current rate with each call, so that a raised rate
/// helps a waiting packet.
#[derive(Clone, Debug)]
pub struct Pacer {
    credit: f64,
    at: Time,
}

impl Pacer {
    /// A pacer whose first burst is free.
    pub const fn new(now: Time) -> Self {
        Self {
            credit: f64::MAX,
            at: now,
        }
    }

    /// Time at which a packet of `len` may be sent; `None` means now.
    pub fn wait(&mut self, now: Time, rate: Rate, burst: Bytes, len: Bytes) -> Option<Time> {
        let per_ns = rate.as_bps() as f64 / 8e9;
        let most = burst.max(len).get() as f64;
        self.credit = (self.credit + now.since(self.at).as_nanos() as f64 * per_ns).min(most);
        self.at = now;
        let missing = len.get() as f64 - self.credit;
        // A thousandth of a byte, for the rounding error between two calls.
        if missing <= 1e-3 {
            return None;
        }
        Some(now + Span::from_nanos((missing / per_ns.max(1e-9)) as u64 + 1))
    }

    /// Bytes that may be sent now, at most `burst`.
    pub fn credit(&mut self, now: Time, rate: Rate, burst: Bytes) -> Bytes {
        let _ = self.wait(now, rate, burst, Bytes::ZERO);
        Bytes::new(self.credit.max(0.0) as u64)
    }

    /// Takes `len` bytes out of the bucket.
    pub fn spend(&mut self, len: Bytes) {
        self.credit -= len.get() as f64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twelve_megabits_are_one_packet_per_millisecond_after_the_burst() {
        let (rate, len) = (Rate::mbps(12), Bytes::new(1500));
        let mut pacer = Pacer::new(Time::ZERO);
        let mut now = Time::ZERO;
        let mut sent = Vec::new();
        while sent.len() < 6 {
            if let Some(at) = pacer.wait(now, rate, len * 3, len) {
                assert!(at > now);
                now = at;
            } else {
                pacer.spend(len);
                sent.push(now.as_nanos().div_euclid(1_000_000));
            }
        }
        assert_eq!(sent, [0, 0, 0, 1, 2, 3]);
    }

    #[test]
    fn a_raised_rate_helps_what_waits() {
        let len = Bytes::new(1500);
        let mut pacer = Pacer::new(Time::ZERO);
        assert_eq!(pacer.wait(Time::ZERO, Rate::bps(12_000), len, len), None);
        pacer.spend(len);
        let slow = pacer.wait(Time::ZERO, Rate::bps(12_000), len, len).unwrap();
        assert!(slow >= Time::from_millis(1000));
        let fast = pacer.wait(Time::ZERO, Rate::mbps(12), len, len).unwrap();
        assert!(fast < Time::from_millis(2));
    }
}
