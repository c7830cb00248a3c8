// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The other half of an algorithm that needs to know how packets *arrive* (Sprout), and what travels between the halves.
//!
//! ```text
//! Controller::on_sent, then ::header ──── Header, with the packet ───▶ Receiver::on_packet, ::on_timer
//!            ::on_feedback ◀──────────── Report, alone or on an ACK ── Receiver::report
//! ```
//!
//! The receiving program makes its half from the same spec (`Registry::build(&spec)?.receiver()`). A host above plain TCP, whose
//! peer knows nothing of this, keeps the half beside the controller and feeds it with what is acknowledged (`alcc_flow::OverTcp` does).
use crate::Pn;
use alcc_units::{Bytes, Time};
use std::ops::Deref;

/// Up to `N` bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Octets<const N: usize> {
    bytes: [u8; N],
    len: u8,
}

/// What a packet carries from the controller to the receiver half.
pub type Header = Octets<16>;

/// What the receiver half tells the controller.
pub type Report = Octets<64>;

impl<const N: usize> Octets<N> {
    /// Nothing.
    pub const EMPTY: Self = Self {
        bytes: [0; N],
        len: 0,
    };

    /// The first `N` of these bytes.
    pub fn new(from: &[u8]) -> Self {
        let mut octets = Self::EMPTY;
        let len = from.len().min(N).min(usize::from(u8::MAX));
        octets.bytes[..len].copy_from_slice(&from[..len]);
        octets.len = len as u8;
        octets
    }
}

impl<const N: usize> Default for Octets<N> {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl<const N: usize> Deref for Octets<N> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// The receiver half of an algorithm, for one flow.
///
/// Contract, checked by the conformance suite for whoever has one:
///
/// * everything a packet brings is untrusted: any bytes, numbers and lengths, in any order, neither panic nor let memory grow;
/// * `now` never decreases; calls may be late. After [`Receiver::on_timer`] at `now`, [`Receiver::next_timer`] is `None` or later
///   than `now`;
/// * the same calls give the same reports, bit for bit, on every platform.
pub trait Receiver: Send {
    /// A packet arrived: its transmission number, its length without headers (zero for a probe without data), and what the
    /// controller gave it to carry. Duplicates are not passed on.
    fn on_packet(&mut self, now: Time, pn: Pn, len: Bytes, header: &[u8]);

    /// When [`Receiver::on_timer`] wants to be called; `None`: not before the next packet.
    fn next_timer(&self) -> Option<Time> {
        None
    }

    /// [`Receiver::next_timer`] is due.
    fn on_timer(&mut self, _now: Time) {}

    /// What the controller should hear now; asked after every packet and timer, `Some` once for each new report. It goes to
    /// [`crate::Controller::on_feedback`], at once if possible, and may be lost: only the newest counts.
    fn report(&mut self, now: Time) -> Option<Report>;

    /// A complete snapshot.
    fn clone_box(&self) -> Box<dyn Receiver>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_cut_off() {
        assert_eq!(&*Header::new(&[7; 3]), &[7; 3]);
        assert_eq!(Header::new(&[7; 300]).len(), 16);
        assert!(Report::EMPTY.is_empty());
    }
}
