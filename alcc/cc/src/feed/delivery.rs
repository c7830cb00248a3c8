// SPDX-License-Identifier: Apache-2.0 OR MIT
use crate::{Packet, Stamp};
use alcc_units::{Bytes, Rate, Time};

/// Total of delivered bytes, and the stamps of packets (delivery-rate estimation draft, section 3).
///
/// Each host that counts arrivals keeps one. Totals and stamps have the same origin, so that their
/// difference is the amount delivered in between.
///
/// ```
/// use alcc_cc::Delivery;
/// use alcc_units::{Bytes, Rate, Time};
///
/// let mut delivery = Delivery::new(Time::ZERO);
/// let stamp = delivery.stamp(Bytes::new(1500), false); // of a packet sent now
/// delivery.add(Time::from_millis(1), Bytes::new(1500));
/// let rate = stamp.rate(Time::ZERO, delivery.total(), delivery.at());
/// assert_eq!(rate, Some(Rate::mbps(12)));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Delivery {
    total: Bytes,
    at: Time,
    first_sent_at: Time,
    app_limited_until: Bytes,
}

impl Delivery {
    /// A total of zero at `now`.
    pub const fn new(now: Time) -> Self {
        Self {
            total: Bytes::ZERO,
            at: now,
            first_sent_at: now,
            app_limited_until: Bytes::ZERO,
        }
    }

    /// Total of delivered bytes.
    #[inline]
    pub const fn total(&self) -> Bytes {
        self.total
    }

    /// Time at which that total was reached, or at which a later flight began.
    #[inline]
    pub const fn at(&self) -> Time {
        self.at
    }

    /// A packet is sent with nothing in flight: rate samples begin here, not before the idle
    /// period.
    #[inline]
    pub fn begin_flight(&mut self, now: Time) {
        (self.at, self.first_sent_at) = (now, now);
    }

    /// The stamp of a packet sent now; `in_flight` includes it.
    #[inline]
    pub const fn stamp(&self, in_flight: Bytes, app_limited: bool) -> Stamp {
        Stamp {
            delivered: self.total,
            delivered_at: self.at,
            first_sent_at: self.first_sent_at,
            in_flight,
            app_limited,
        }
    }

    /// Counts a packet that arrived.
    #[inline]
    pub fn arrived(&mut self, now: Time, packet: &Packet) {
        self.add(now, packet.len);
        self.first_sent_at = self.first_sent_at.max(packet.sent_at);
    }

    /// Counts bytes that arrived.
    #[inline]
    pub fn add(&mut self, now: Time, bytes: Bytes) {
        self.total += bytes;
        self.at = now;
    }

    /// Notes that the newest packet that has arrived was sent at `sent_at`.
    pub fn newest_sent_at(&mut self, sent_at: Time) {
        self.first_sent_at = sent_at;
    }

    /// Delivery rate over the flight of the newest of these packets, which have just arrived.
    #[inline]
    pub fn rate(&self, arrived: &[Packet]) -> Option<Rate> {
        let newest = arrived.last()?;
        newest.stamp.rate(newest.sent_at, self.total, self.at)
    }

    /// Notes that the application has no more data, with `in_flight` bytes in flight.
    pub fn limit_by_app(&mut self, in_flight: Bytes) {
        self.app_limited_until = (self.total + in_flight).max(Bytes::new(1));
    }

    /// True while packets say nothing about the capacity of the path.
    #[inline]
    pub fn is_app_limited(&self) -> bool {
        self.total < self.app_limited_until
    }
}
