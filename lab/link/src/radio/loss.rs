// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Random loss after the bottleneck, independent or in bursts: the model of Gilbert (1960) and
//! Elliott (1963). In the good state no packet is lost, in the bad state each with probability
//! `bad`. The state changes from packet to packet.
//!
//! | option | default | source |
//! |---|---|---|
//! | `p` | 1 % of all packets | this project |
//! | `burst` | independent losses | mean stay in the bad state, packets |
//! | `bad` | all packets | Gilbert's model |
use super::{Radio, RadioKind};
use alcc_units::{OptionDoc, Options, Rng, SpecError, Time};

pub(super) const RADIO: RadioKind = RadioKind {
    name: "loss",
    summary: "random loss behind the bottleneck, independent or in bursts (Gilbert-Elliott)",
    options: &[
        OptionDoc {
            name: "p",
            default: "0.01",
            help: "share of all packets that is lost, 0 to 0.9",
        },
        OptionDoc {
            name: "burst",
            default: "0",
            help: "mean length of the bad state in packets, 1 to 10000; 0: losses are independent",
        },
        OptionDoc {
            name: "bad",
            default: "1",
            help: "with burst: share of packets that the bad state loses, 0.01 to 1; more than p",
        },
    ],
    build,
};

#[derive(Clone, Debug)]
struct Loss {
    rng: Rng,
    /// Probability of loss in the bad state; of all packets if there is only one state.
    lost: f64,
    /// Probabilities of entering the bad state and of leaving it; `None`: one state.
    turns: Option<(f64, f64)>,
    is_bad: bool,
}

fn build(options: &Options<'_>) -> Result<Box<dyn Radio>, SpecError> {
    let p = options.share("p", 0.01, 0.0..=0.9)?;
    let burst = options.whole("burst", 0, 0..=10_000)?;
    let bad = options.share("bad", 1.0, 0.01..=1.0)?;
    if burst > 0 && bad <= p {
        return Err(options.wrong("bad", "more than p, because the good state loses nothing"));
    }
    // Stationary share of the bad state: p / bad = enter / (enter + leave).
    let leave = 1.0 / burst.max(1) as f64;
    let turns = (burst > 0).then(|| ((leave * p / (bad - p)).min(1.0), leave));
    Ok(Box::new(Loss {
        rng: Rng::new(0),
        lost: if burst > 0 { bad } else { p },
        turns,
        is_bad: false,
    }))
}

impl Radio for Loss {
    fn seed(&mut self, seed: u64) {
        self.rng = Rng::new(seed);
    }

    fn loses(&mut self, _at: Time) -> bool {
        if let Some((enter, leave)) = self.turns {
            let turn = if self.is_bad { leave } else { enter };
            self.is_bad ^= self.rng.chance(turn);
        }
        (self.is_bad || self.turns.is_none()) && self.rng.chance(self.lost)
    }

    fn duplicate(&self) -> Box<dyn Radio> {
        Box::new(self.clone())
    }
}
