// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An algorithm of one's own, checked by the conformance kit and run in the simulator: `cargo run -p alcc-sim --example
//! own_algorithm`. docs/adding-an-algorithm.md explains it line by line.
use alcc_cc::parts::window_bytes;
use alcc_cc::{
    AckBatch, Algorithm, Allowance, Controller, Cx, LossBatch, OptionDoc, Options, Path, Registry,
    SpecError, conformance,
};
use alcc_link::{QueueSpec, RateSpec};
use alcc_sim::{FlowSpec, Scenario, Timing, run};
use alcc_units::{Bytes, Rate, Span};

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "mine",
    summary: "one packet more per round trip while the queue is short, an eighth less when it is not",
    profiles: &[],
    options: &[OptionDoc {
        name: "queue",
        default: "20ms",
        help: "queueing delay above which the window shrinks, 1ms to 1s",
    }],
    build,
};

fn build(options: &Options<'_>) -> Result<Box<dyn Controller>, SpecError> {
    let (default, least, most) = (20, Span::from_millis(1), Span::from_secs(1));
    Ok(Box::new(Mine {
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

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
}

#[allow(clippy::disallowed_macros, reason = "a program, not the library")]
pub(crate) fn main() {
    conformance::check(&ALGORITHM);
    let registry = Registry::builtin().with(ALGORITHM);
    for flow in ["mine", "mine:queue=5ms", "mine/over=cubic", "cubic"] {
        let flows = FlowSpec::parse(flow, &registry, Timing::default());
        let link = RateSpec::Fixed(Rate::mbps(12));
        let mut scenario = Scenario::dumbbell(link, Span::from_millis(40), QueueSpec::default());
        scenario.duration = Span::from_secs(30);
        scenario.flows = flows.unwrap_or_else(|error| panic!("{error}"));
        let report = run(&scenario).unwrap_or_else(|error| panic!("{error}"));
        let row = &report.flows[0];
        println!(
            "{flow:<16} {:>6.2} Mbit/s, mean delay {:>4.0} ms",
            row.throughput.as_mbps_f64(),
            row.delay.mean.as_millis_f64()
        );
    }
}
