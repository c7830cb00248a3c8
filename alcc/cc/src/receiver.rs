// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Algorithms that need the arrival times of packets (Sprout): a controller, and a receiver module
//! at the other end.
//!
//! ```text
//! WithReceiver::header ─────────── Header, with the packet ───▶ Receiver::on_packet, ::on_timer
//!             ::on_feedback ◀───── Report, alone or on an ACK ── Receiver::report
//! ```
//!
//! The receiving program builds it from the same spec (`Registry::build(&spec)?.receiver()`). Above
//! plain TCP the peer does not support it, so the host runs it beside the controller and feeds it
//! with acknowledgements, as `alcc_flow::OverTcp` does.
use crate::{CloneReceiver, CloneWithReceiver, Controller, Cx, Pn};
use alcc_units::{Bytes, Time};
use std::ops::Deref;

/// Up to `N` bytes.
///
/// ```
/// use alcc_cc::Header;
///
/// let header = Header::new(&[1, 2, 3]);
/// assert_eq!(header[..], [1, 2, 3]);
/// assert!(Header::EMPTY.is_empty());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Octets<const N: usize> {
    bytes: [u8; N],
    len: u8,
}

/// The header of a packet, from the controller to the receiver module.
pub type Header = Octets<16>;

/// A message of the receiver module to the controller.
pub type Report = Octets<64>;

impl<const N: usize> Octets<N> {
    /// No bytes.
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

/// The packet of the last [`Controller::on_sent`], which is about to get its header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sending {
    /// Its packet number.
    pub pn: Pn,
    /// True if another packet follows at once: data, allowance and pacer permit it.
    pub more: bool,
}

/// A controller that depends on the reports of its receiver module. It cannot send without them.
///
/// ```
/// use alcc_cc::{Cx, Discard, Path, Registry, Sending, Sent};
/// use alcc_units::{Bytes, Time};
///
/// let mut sprout = Registry::builtin().build(&"sprout".parse()?)?;
/// let mut there = sprout.receiver().expect("Sprout has a receiver module");
/// let (len, now) = (Bytes::new(1448), Time::from_millis(20));
/// let mut cx = Cx { now, log: &mut Discard };
/// sprout.on_start(&mut cx, &Path { mss: len, ..Path::default() });
///
/// sprout.on_sent(&mut cx, &Sent { len, ..Sent::default() });
/// let header = sprout.header(&mut cx, &Sending { pn: 0, more: false });
/// assert_eq!(header.len(), usize::from(sprout.header_len()));
/// there.on_packet(now, 0, len, &header);
/// if let Some(report) = there.report(now) {
///     sprout.on_feedback(&mut cx, &report);
/// }
/// # Ok::<(), alcc_cc::SpecError>(())
/// ```
pub trait WithReceiver: Controller + CloneWithReceiver {
    /// A new receiver module, for the end at which packets arrive.
    fn receiver(&self) -> Box<dyn Receiver>;

    /// The length of headers, for which the host reserves space in each packet: at most 16 bytes.
    fn header_len(&self) -> u8;

    /// The header of the packet of the last [`Controller::on_sent`], for the receiver module.
    fn header(&mut self, cx: &mut Cx<'_>, sending: &Sending) -> Header;

    /// Takes a report of the receiver module. The bytes are untrusted.
    fn on_feedback(&mut self, cx: &mut Cx<'_>, report: &[u8]);
}

/// The receiver module of an algorithm, for one flow.
///
/// Contract, checked by the conformance suite:
///
/// * everything in a packet is untrusted. No bytes, numbers or lengths, in any order, cause a panic
///   or let memory grow;
/// * `now` never decreases; calls may be late. After [`Receiver::on_timer`] at `now`,
///   [`Receiver::next_timer`] is `None` or later than `now`;
/// * the same calls give the same reports, bit for bit, on every platform.
///
/// ```
/// use alcc_cc::{Pn, Receiver, Report};
/// use alcc_units::{Bytes, Time};
///
/// /// Reports how many packets have arrived.
/// #[derive(Clone, Default)]
/// struct Counter {
///     packets: u32,
///     reported: u32,
/// }
///
/// impl Receiver for Counter {
///     fn on_packet(&mut self, _: Time, _: Pn, _: Bytes, _: &[u8]) {
///         self.packets = self.packets.saturating_add(1);
///     }
///
///     fn report(&mut self, _: Time) -> Option<Report> {
///         let before = std::mem::replace(&mut self.reported, self.packets);
///         (before < self.packets).then(|| Report::new(&self.packets.to_be_bytes()))
///     }
/// }
///
/// let mut counter = Counter::default();
/// counter.on_packet(Time::ZERO, 0, Bytes::new(1448), &[]);
/// assert_eq!(counter.report(Time::ZERO), Some(Report::new(&[0, 0, 0, 1])));
/// assert_eq!(counter.report(Time::ZERO), None);
/// ```
pub trait Receiver: CloneReceiver + Send {
    /// A packet arrived. The arguments are its packet number, its length without headers, and its
    /// header from the controller. The length is zero for an empty probe. Duplicates are not passed
    /// on.
    fn on_packet(&mut self, now: Time, pn: Pn, len: Bytes, header: &[u8]);

    /// The time of the next call of [`Receiver::on_timer`]; `None`: not before the next packet.
    fn next_timer(&self) -> Option<Time> {
        None
    }

    /// [`Receiver::next_timer`] is due.
    fn on_timer(&mut self, _now: Time) {}

    /// Returns a report for the controller, each at most once. Called after every packet and timer.
    /// The report goes to [`WithReceiver::on_feedback`] as soon as possible, and may be lost: only
    /// the newest counts.
    fn report(&mut self, now: Time) -> Option<Report>;
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
