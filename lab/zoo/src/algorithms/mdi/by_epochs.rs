// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The release of packets by epochs, with equation 5 of Verus. The form computes the window.
use super::{DECREASE, EPOCH, MAX_WINDOW};
use alcc_cc::parts::verus::Epochs;
use alcc_cc::parts::verus::{epochs_in, release_exact, whole_packets};
use alcc_cc::{Sent, Tag};
use alcc_units::{Bytes, Time};

#[derive(Clone)]
pub(super) struct ByEpochs {
    mss: Bytes,
    epochs: Epochs,
    /// Bytes that may be sent before the next release.
    quota: Bytes,
    /// The fraction of a packet that equation 5 has released.
    credit: f64,
    pub(super) in_flight: Bytes,
}

impl ByEpochs {
    pub(super) fn new() -> Self {
        Self {
            mss: Bytes::new(1448),
            epochs: Epochs::new(EPOCH),
            quota: Bytes::ZERO,
            credit: 0.0,
            in_flight: Bytes::ZERO,
        }
    }

    pub(super) fn start(&mut self, now: Time) {
        self.epochs.start(now);
    }

    pub(super) fn mss(&self) -> Bytes {
        self.mss
    }

    pub(super) fn set_mss(&mut self, mss: Bytes) {
        self.mss = mss.max(Bytes::new(1));
    }

    pub(super) fn sent(&mut self, now: Time, sent: &Sent) {
        self.epochs.on_sent(now, sent);
        self.in_flight = sent.in_flight_before + sent.len;
        self.quota = self.quota.saturating_sub(sent.len);
    }

    /// An acknowledgement, or a timeout, which also ends the silence.
    pub(super) fn heard(&mut self, now: Time, in_flight: Bytes) {
        self.in_flight = in_flight;
        self.epochs.on_ack(now);
    }

    /// The flow continues after an idle period.
    pub(super) fn resume(&mut self, now: Time) {
        self.epochs.resume(now);
        self.in_flight = Bytes::ZERO;
    }

    /// True if the epoch has ended; the next one begins then.
    pub(super) fn end(&mut self, now: Time) -> bool {
        self.epochs.end(now)
    }

    /// The delay of an epoch, ms: its largest sample. Without a sample it is the last delay, or the
    /// silence if that is longer.
    pub(super) fn delay(&self, now: Time, largest: Option<f64>, last: f64) -> f64 {
        largest.unwrap_or_else(|| last.max(self.epochs.silence(now)))
    }

    /// Equation 5 of Verus, for a window in packets and an RTT in ms.
    pub(super) fn release(&mut self, window: f64, rtt: f64) {
        let in_flight = self.in_flight.get() as f64 / self.mss.get().max(1) as f64;
        let exact = release_exact(window, in_flight, epochs_in(rtt, EPOCH.as_millis_f64()));
        self.quota = self.mss.mul_f64(whole_packets(exact, &mut self.credit));
    }

    /// Stops sending until the next release.
    pub(super) fn stop(&mut self) {
        self.quota = Bytes::ZERO;
    }

    pub(super) fn quota(&self) -> Bytes {
        self.quota
    }

    pub(super) fn timer(&self) -> Option<Time> {
        self.epochs.timer(self.in_flight, self.quota, self.mss)
    }
}

/// The window after a loss, from the window under which the lost packet was sent.
pub(super) fn reduced(window: f64, label: Tag) -> f64 {
    let sent_under = label.0.clamp(1, MAX_WINDOW as u64) as f64;
    (DECREASE * sent_under).min(window).max(1.0)
}
