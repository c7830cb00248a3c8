// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An algorithm whose packets are released by its timer alone, and which comes from elsewhere.
mod support;

use alcc_cc::{AckBatch, Algorithm, Allowance, Build, Controller, Cx, Instance, Path, Sent, Tag};
use alcc_quic::Congestion;
use alcc_quic::blocking::Listener;
use alcc_units::{Bytes, Span, Time};
use std::borrow::Cow;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use support::{connected, tls};

const EPOCH: Span = Span::from_millis(5);
const DEADLINE: Duration = Duration::from_secs(15);
static EPOCHS: AtomicU64 = AtomicU64::new(0);

/// A packet per epoch.
#[derive(Clone)]
struct Drip {
    at: Time,
    quota: Bytes,
    mss: Bytes,
}

impl Controller for Drip {
    fn on_start(&mut self, cx: &mut Cx<'_>, path: &Path) {
        self.at = cx.now + EPOCH;
        self.mss = path.mss;
        // For the handshake.
        self.quota = path.mss * 12;
    }

    fn on_mtu(&mut self, _cx: &mut Cx<'_>, mss: Bytes) {
        self.mss = mss;
    }

    fn on_sent(&mut self, _cx: &mut Cx<'_>, sent: &Sent) -> Tag {
        self.quota = self.quota.saturating_sub(sent.len);
        Tag::default()
    }

    fn on_ack(&mut self, _cx: &mut Cx<'_>, _ack: &AckBatch<'_>) {}

    fn on_timer(&mut self, cx: &mut Cx<'_>) {
        EPOCHS.fetch_add(1, Ordering::Relaxed);
        self.at = cx.now + EPOCH;
        self.quota = self.mss;
    }

    fn next_timer(&self) -> Option<Time> {
        Some(self.at)
    }

    fn allowance(&self) -> Allowance {
        Allowance {
            quota: self.quota,
            ..Allowance::UNLIMITED
        }
    }
}

const DRIP: Algorithm = Algorithm {
    name: "drip",
    summary: "a packet per epoch",
    profiles: Cow::Borrowed(&[]),
    options: &[],
    build: Build::Function(|_| {
        Ok(Instance::new(Drip {
            at: Time::ZERO,
            quota: Bytes::ZERO,
            mss: Bytes::new(1200),
        }))
    }),
};

#[test]
fn packets_leave_when_the_algorithms_timer_says_so() {
    let (server, client) = tls();
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let mut listener = Listener::bind(any, server).unwrap();
    let to = listener.address().unwrap();
    let receiver = std::thread::spawn(move || {
        let mut receiver = listener.accept(DEADLINE).unwrap().unwrap();
        let (mut sum, mut piece) = (0, [0; 4096]);
        loop {
            match receiver.read(&mut piece, DEADLINE).unwrap() {
                0 => return sum,
                n => sum += n,
            }
        }
    });
    let registry = alcc_zoo::registry().with(DRIP);
    let drip = Congestion::new(registry, "drip".parse().unwrap()).unwrap();
    let mut sender = connected(to, client, &Arc::new(drip), DEADLINE);
    let (began, before) = (Instant::now(), EPOCHS.load(Ordering::Relaxed));
    let data = vec![7; 72_600];
    let mut remaining = &data[..];
    while !remaining.is_empty() {
        assert!(began.elapsed() < DEADLINE, "{} left", remaining.len());
        let room = sender.room(Duration::from_millis(100)).unwrap();
        if room > 0 {
            let n = sender
                .write(&remaining[..room.min(remaining.len())])
                .unwrap();
            remaining = &remaining[n..];
        }
    }
    while !sender.finish(Duration::from_millis(100)).unwrap() {
        assert!(began.elapsed() < DEADLINE);
    }
    // At least 50 packets of at most 1452 bytes, some of which come from the quota of the
    // handshake.
    let epochs = EPOCHS.load(Ordering::Relaxed) - before;
    let took = began.elapsed();
    assert!(epochs >= 35, "{epochs} epochs in {took:?}");
    assert!(took >= Duration::from_millis(35 * 5), "{took:?}");
    assert_eq!(receiver.join().unwrap(), data.len());
    println!("{epochs} epochs in {took:?}");
}
