// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Mine: the algorithm of docs/adding-an-algorithm.md, made up for it. A packet more per round trip
//! while the queue is short, an eighth less when it is not, half after a loss.
//!
//! | constant | value | source |
//! |---|---|---|
//! | queue | 20 ms | option `queue`; made up |
//! | decrease | 1/8 for a queue, 1/2 for a loss | made up |
//!
//! **Differs from the paper**: there is none.
//!
//! **Known weakness**: a path whose smallest round trip it has never seen.
use alcc_cc::parts::window_bytes;
use alcc_cc::{
    AckBatch, Algorithm, Allowance, Build, Built, Controller, Cx, Instance, LossBatch, OptionDoc,
    Options, Path,
};
use alcc_units::{Bytes, Span};
use std::borrow::Cow;

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "mine",
    summary: "one packet more per round trip while the queue is short, an eighth less when it is not",
    profiles: Cow::Borrowed(&[]),
    options: &[OptionDoc {
        name: "queue",
        default: "20ms",
        help: "queueing delay above which the window shrinks, 1ms to 1s",
    }],
    build: Build::Function(build),
};

fn build(options: &Options<'_>) -> Built {
    let (default, least, most) = (20, Span::from_millis(1), Span::from_secs(1));
    Ok(Instance::new(Mine {
        queue: options.span("queue", Span::from_millis(default), least..=most)?,
        window: 10.0,
        mss: Bytes::new(1),
    }))
}

#[derive(Clone)]
struct Mine {
    queue: Span,
    /// In packets.
    window: f64,
    mss: Bytes,
}

impl Controller for Mine {
    fn on_start(&mut self, _cx: &mut Cx<'_>, path: &Path) {
        self.mss = path.mss;
    }

    fn on_mtu(&mut self, _cx: &mut Cx<'_>, mss: Bytes) {
        self.mss = mss;
    }

    fn on_ack(&mut self, _cx: &mut Cx<'_>, ack: &AckBatch<'_>) {
        let queueing = ack.rtt.latest.saturating_sub(ack.rtt.min);
        if !ack.round_start {
            return;
        }
        if queueing > self.queue {
            self.window *= 7.0 / 8.0;
        } else if ack.limited.window {
            self.window += 1.0;
        }
    }

    fn on_loss(&mut self, _cx: &mut Cx<'_>, loss: &LossBatch<'_>) {
        if loss.new_episode {
            self.window /= 2.0;
        }
    }

    fn allowance(&self) -> Allowance {
        Allowance::window(window_bytes(self.window, self.mss))
    }
}
