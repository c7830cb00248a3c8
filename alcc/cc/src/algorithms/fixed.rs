// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A fixed window: the example to copy. It is also the window of the ALCC paper's figures 1 and 2,
//! static or drawn at random at intervals.
//!
//! | constant | value | source |
//! |---|---|---|
//! | window | 20 packets | the base library of the ALCC artifact |
use crate::{
    AckBatch, Algorithm, Allowance, Build, Built, Controller, Cx, Instance, Needs, OptionDoc,
    Options, Path,
};
use alcc_units::{Bytes, Rng, Span, Time};
use std::borrow::Cow;

pub(crate) const ALGORITHM: Algorithm = Algorithm {
    name: "fixed",
    summary: "a window that never changes, or one drawn at random at intervals",
    profiles: Cow::Borrowed(&[]),
    options: &[
        OptionDoc {
            name: "window",
            default: "20",
            help: "packets in flight, 1 to 1000000; or 'random': drawn from 1 to 2*20",
        },
        OptionDoc {
            name: "every",
            default: "1s",
            help: "with window=random: interval of draws",
        },
    ],
    build: Build::Function(build),
};

const DEFAULT_WINDOW: u64 = 20;

#[derive(Clone)]
struct Fixed {
    packets: u64,
    mss: Bytes,
    draw: Option<Draw>,
}

#[derive(Clone)]
struct Draw {
    every: Span,
    next: Time,
    rng: Rng,
}

fn build(options: &Options<'_>) -> Built {
    let every = options.span(
        "every",
        Span::from_secs(1),
        Span::from_millis(1)..=Span::from_secs(3600),
    )?;
    let random = options.text("window") == Some("random");
    let packets = if random {
        DEFAULT_WINDOW
    } else {
        options.whole("window", DEFAULT_WINDOW, 1..=1_000_000)?
    };
    let draw = random.then(|| Draw {
        every,
        next: Time::ZERO,
        rng: Rng::new(0),
    });
    Ok(Instance::new(Fixed {
        packets,
        mss: Bytes::new(1),
        draw,
    }))
}

impl Controller for Fixed {
    fn needs(&self) -> Needs {
        Needs {
            strict: true,
            ..Needs::default()
        }
    }

    fn on_start(&mut self, cx: &mut Cx<'_>, path: &Path) {
        self.mss = path.mss;
        if let Some(draw) = &mut self.draw {
            draw.rng = Rng::new(path.seed);
            draw.next = cx.now + draw.every;
        }
    }

    fn on_mtu(&mut self, _cx: &mut Cx<'_>, mss: Bytes) {
        self.mss = mss;
    }

    fn on_ack(&mut self, _cx: &mut Cx<'_>, _ack: &AckBatch<'_>) {}

    fn on_timer(&mut self, cx: &mut Cx<'_>) {
        if let Some(draw) = self.draw.as_mut().filter(|draw| draw.next <= cx.now) {
            self.packets = 1 + draw.rng.below(2 * DEFAULT_WINDOW);
            draw.next = cx.now + draw.every;
        }
    }

    fn allowance(&self) -> Allowance {
        Allowance::window(self.mss * self.packets)
    }

    fn next_timer(&self) -> Option<Time> {
        self.draw.as_ref().map(|draw| draw.next)
    }

    fn gauges(&self, put: &mut dyn FnMut(&'static str, f64)) {
        put("cwnd", self.packets as f64);
    }
}

#[cfg(test)]
mod tests {
    use crate::{Cx, Discard, Path, Registry, Spec};
    use alcc_units::{Bytes, Time};

    #[test]
    fn random_windows_follow_the_seed() {
        let draws = |seed| {
            let spec: Spec = "fixed:window=random,every=1s".parse().unwrap();
            let mut cc = Registry::builtin().build(&spec).unwrap();
            let mut log = Discard;
            let path = Path {
                mss: Bytes::new(1000),
                rtt_hint: None,
                seed,
            };
            cc.on_start(
                &mut Cx {
                    now: Time::ZERO,
                    log: &mut log,
                },
                &path,
            );
            (1..=5)
                .map(|s| {
                    assert_eq!(cc.next_timer(), Some(Time::from_millis(s * 1000)));
                    cc.on_timer(&mut Cx {
                        now: Time::from_millis(s * 1000),
                        log: &mut log,
                    });
                    cc.allowance().window
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(draws(1), draws(1));
        assert_ne!(draws(1), draws(2));
        assert!(
            draws(3)
                .iter()
                .all(|w| (1..=40).contains(&(w.get() / 1000)))
        );
    }
}
