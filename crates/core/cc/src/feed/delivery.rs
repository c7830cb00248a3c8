// SPDX-License-Identifier: Apache-2.0 OR MIT
use crate::{Packet, Stamp};
use alcc_units::{Bytes, Rate, Time};

/// How much was delivered, and what each packet notes of it when it leaves (delivery-rate
/// estimation draft, section 3).
///
/// Whoever counts arrivals keeps one. Totals and stamps have the same origin, so that a difference
/// of the two is what was delivered in between.
#[derive(Clone, Copy, Debug)]
pub struct Delivery {
    total: Bytes,
    at: Time,
    first_sent_at: Time,
    app_limited_until: Bytes,
}

impl Delivery {
    /// Nothing was delivered yet.
    pub const fn new(now: Time) -> Self {
        Self {
            total: Bytes::ZERO,
            at: now,
            first_sent_at: now,
            app_limited_until: Bytes::ZERO,
        }
    }

    /// Delivered in total.
    pub const fn total(&self) -> Bytes {
        self.total
    }

    /// When that total was reached, or when a flight began after it.
    pub const fn at(&self) -> Time {
        self.at
    }

    /// A packet leaves while nothing is in flight: samples of the rate begin here, not before the
    /// pause.
    pub fn begin_flight(&mut self, now: Time) {
        (self.at, self.first_sent_at) = (now, now);
    }

    /// What a packet notes that leaves now; `in_flight` includes it.
    pub const fn stamp(&self, in_flight: Bytes, app_limited: bool) -> Stamp {
        Stamp {
            delivered: self.total,
            delivered_at: self.at,
            first_sent_at: self.first_sent_at,
            in_flight,
            app_limited,
        }
    }

    /// A packet arrived.
    pub fn arrived(&mut self, now: Time, packet: &Packet) {
        self.add(now, packet.len);
        self.first_sent_at = self.first_sent_at.max(packet.sent_at);
    }

    /// Bytes arrived.
    pub fn add(&mut self, now: Time, bytes: Bytes) {
        self.total += bytes;
        self.at = now;
    }

    /// The newest packet that has arrived left at `sent_at`.
    pub fn left_at(&mut self, sent_at: Time) {
        self.first_sent_at = sent_at;
    }

    /// The delivery rate over the flight of the newest of these packets, which have just arrived.
    pub fn rate(&self, arrived: &[Packet]) -> Option<Rate> {
        let newest = arrived.last()?;
        newest.stamp.rate(newest.sent_at, self.total, self.at)
    }

    /// The application has no more to send, with so much in flight.
    pub fn limit_by_app(&mut self, in_flight: Bytes) {
        self.app_limited_until = (self.total + in_flight).max(Bytes::new(1));
    }

    /// What leaves now says nothing about what the path could carry.
    pub fn is_app_limited(&self) -> bool {
        self.total < self.app_limited_until
    }
}
