// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Congestion control algorithms as pure state machines.
//!
//! An algorithm is a [`Controller`]. The host reports sent, acknowledged and lost packets, with the time of each event
//! as an argument. The algorithm returns an [`Allowance`] and the time of its next call. It reads no clock, does no I/O
//! and has no threads, so it runs unchanged in a simulator, over TCP and over UDP.
//!
//! * to write an algorithm: copy `algorithms/fixed.rs`, add its name to the line in `algorithms.rs`;
//! * to choose one by name: [`Registry::builtin`] and [`Spec`] (`verus:r=4,profile=paper`);
//! * to add one from another crate: [`Registry::with`], or a profile of one: [`Registry::with_form`];
//! * an algorithm that needs the arrival times of packets has a receiver module: [`WithReceiver`].
#![forbid(unsafe_code)]

// The files of algorithms then read the same inside and outside of this crate.
extern crate self as alcc_cc;

#[doc(hidden)]
#[macro_use]
pub mod constants;
mod algorithms;
pub mod conformance;
mod controller;
mod event;
#[cfg(feature = "events")]
pub mod events;
pub mod feed;
mod instance;
pub mod parts;
mod receiver;
mod registry;
mod snapshot;
#[cfg(test)]
mod testing;

pub use controller::{
    AckBatch, Allowance, Controller, Cx, Kind, LimitedBy, LossBatch, Needs, Packet, Path, Pn,
    Recovery, RecoveryEnd, Rto, RttView, Sent, Source, Spurious, Stamp, Tag,
};
pub use event::{Discard, Event, EventParts, EventSink};
pub use feed::{Acked, Delivery, Feed, Log};
pub use instance::Instance;
pub use receiver::{Header, Octets, Receiver, Report, Sending, WithReceiver};
pub use registry::{
    Algorithm, Build, Built, DEFAULT, Form, OWN_FORM, OptionDoc, Options, Reader, Registry, Spec,
    SpecError,
};
pub use snapshot::{CloneController, CloneReceiver, CloneWithReceiver};

/// The algorithms that the bench of unit tests builds.
#[cfg(test)]
fn registry() -> Registry {
    Registry::builtin()
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
