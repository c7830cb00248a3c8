// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sessions in virtual time: over a pipe that delays and cuts, and against peers that break rules.
mod both_ends;
mod late;
mod memory;
mod peers;

use alcc_cc::Registry;
use alcc_cc::conformance::Checked;
use alcc_inband::frame::{self, Ack, reason};
use alcc_inband::preface::{MAGIC, Preface};
use alcc_inband::{Error, Output, Session, Settings, When};
use alcc_units::{Rng, Span, Time};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::sync::Arc;

fn registry() -> Arc<Registry> {
    Arc::new(Checked::registry(&alcc_zoo::registry()))
}

fn settings(cc: &str) -> Settings {
    Settings::new(cc.parse().unwrap())
}

fn at(ms: u64) -> Time {
    Time::from_millis(ms)
}

/// The output of a session.
fn drain(session: &mut Session, now: Time, direct: &[u8]) -> (Vec<u8>, usize) {
    let (mut wire, mut taken) = (Vec::new(), 0);
    loop {
        let mut out = Output::default();
        let remaining = &direct[taken..];
        let n = session.output(now, remaining, false, u64::MAX, &mut out);
        if out.is_empty() {
            return (wire, taken);
        }
        out.copy_unwritten(remaining, 0, &mut wire);
        taken += n;
    }
}

/// Two ends that have exchanged their prefaces.
fn pair(cc: &str) -> [Session; 2] {
    let registry = registry();
    let mut a = Session::connect(at(0), &registry, settings(cc)).unwrap();
    let mut b = Session::accept(at(0), &registry, settings("cubic")).unwrap();
    let (wire, _) = drain(&mut a, at(0), &[]);
    b.on_bytes(When::exactly(at(1)), &wire, &mut []);
    let (wire, _) = drain(&mut b, at(1), &[]);
    a.on_bytes(When::exactly(at(2)), &wire, &mut []);
    assert!(a.is_open() && b.is_open());
    [a, b]
}
