// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The clock of an algorithm that releases packets by epochs: Verus, and MDI. Epochs end on a grid
//! that begins with the connection.
use crate::Sent;
use alcc_units::{Bytes, Span, Time};

/// The end of the epoch, and the time of the last acknowledgement.
#[derive(Clone, Copy)]
pub struct Epochs {
    length: Span,
    /// Start of the grid.
    origin: Time,
    next: Time,
    last_ack: Time,
}

impl Epochs {
    /// Epochs of this length.
    pub fn new(length: Span) -> Self {
        Self {
            length: length.max(Span::from_nanos(1)),
            origin: Time::ZERO,
            next: Time::ZERO,
            last_ack: Time::ZERO,
        }
    }

    /// Starts the grid with the connection.
    pub fn start(&mut self, now: Time) {
        self.origin = now;
        self.resume(now);
    }

    /// Continues after an idle period.
    pub fn resume(&mut self, now: Time) {
        self.last_ack = now;
        self.next = self.next_on_grid(now);
    }

    /// A packet is sent. The timer of an idle connection was off.
    pub fn on_sent(&mut self, now: Time, sent: &Sent) {
        if sent.in_flight_before == Bytes::ZERO {
            // Silence is counted from here, because no acknowledgement was expected before.
            self.last_ack = now;
        }
        if self.next <= now {
            self.next = self.next_on_grid(now);
        }
    }

    /// An acknowledgement arrived, or silence is counted from here for another reason.
    pub fn on_ack(&mut self, now: Time) {
        self.last_ack = now;
    }

    /// Time since the last acknowledgement, ms.
    pub fn silence(&self, now: Time) -> f64 {
        now.since(self.last_ack).as_millis_f64()
    }

    /// True if the epoch has ended; the next one begins then.
    pub fn end(&mut self, now: Time) -> bool {
        let ended = now >= self.next;
        if ended {
            self.next = self.next_on_grid(now);
        }
        ended
    }

    /// The timer for the end of the epoch. `None` while nothing is in flight and a packet may be
    /// sent: [`Epochs::on_sent`] sets it again.
    pub fn timer(&self, in_flight: Bytes, quota: Bytes, mss: Bytes) -> Option<Time> {
        let idle = in_flight == Bytes::ZERO && quota >= mss;
        (!idle).then_some(self.next)
    }

    fn next_on_grid(&self, now: Time) -> Time {
        let passed = now.since(self.origin).as_nanos() / self.length.as_nanos();
        self.origin + self.length * (passed + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Span = Span::from_millis(1);

    fn at(ms: u64) -> Time {
        Time::ZERO + MS * ms
    }

    #[test]
    fn epochs_end_on_the_grid_of_the_connection() {
        let mut epochs = Epochs::new(MS * 5);
        epochs.start(at(3));
        let timer = |epochs: &Epochs| epochs.timer(Bytes::new(1), Bytes::ZERO, Bytes::new(1));
        assert_eq!(timer(&epochs), Some(at(8)));
        assert!(!epochs.end(at(7)));
        // A late end does not move the grid.
        assert!(epochs.end(at(9)));
        assert_eq!(timer(&epochs), Some(at(13)));
        assert!(!epochs.end(at(12)));
        epochs.resume(at(24));
        assert_eq!(timer(&epochs), Some(at(28)));
        assert!((epochs.silence(at(26)) - 2.0).abs() < 1e-9);
        // Idle: what may leave needs no timer.
        assert_eq!(
            epochs.timer(Bytes::ZERO, Bytes::new(1), Bytes::new(1)),
            None
        );
    }
}
