// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every algorithm of the registry, in every profile, keeps the contract.
use alcc_cc::{AckBatch, Algorithm, Allowance, Build, Controller, Cx, Instance, conformance};
use alcc_units::{Bytes, Time};
use std::borrow::Cow;

/// All are run, so that one fault does not hide another.
#[test]
fn every_registered_algorithm() {
    let registry = alcc_zoo::registry();
    let faulty: Vec<&str> = (registry.iter())
        .filter(|a| std::panic::catch_unwind(|| conformance::check(a)).is_err())
        .map(|a| a.name)
        .collect();
    assert!(faulty.is_empty(), "see above: {faulty:?}");
}

/// These do not find out that the way has become longer: they go on comparing with the smallest RTT
/// of the shorter one, for minutes. `fixed` has the window that it was given.
const LOST_ON_A_LONGER_ROUTE: [&str; 4] = ["fixed", "vegas", "sprout", "scream"];

#[test]
fn a_longer_route_is_found_out_by_all_but_these() {
    let registry = alcc_zoo::registry();
    let lost: Vec<&str> = (registry.iter())
        .filter(|a| !conformance::uses_longer_route(a))
        .map(|a| a.name)
        .collect();
    assert_eq!(lost, LOST_ON_A_LONGER_ROUTE);
}

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    NoWindow,
    TimerInThePast,
    QuotaNeverSpent,
    QuotaNeverBack,
    ForgetfulClone,
    NoPatience,
    CountsBatches,
    /// The window grows with every acknowledgement, whether it was used or not.
    GrowsUnused,
}

/// A controller with one fault each.
struct Faulty(Fault, u64);

impl Clone for Faulty {
    fn clone(&self) -> Self {
        let acks = match self.0 {
            Fault::ForgetfulClone => 0,
            _ => self.1,
        };
        Self(self.0, acks)
    }
}

impl Controller for Faulty {
    fn on_ack(&mut self, _cx: &mut Cx<'_>, ack: &AckBatch<'_>) {
        let days = ack.rtt.latest.as_secs_f64() / 86_400.0;
        assert!(self.0 != Fault::NoPatience || days < 6.0);
        self.1 += match self.0 {
            Fault::CountsBatches => 10_000,
            _ => 1000,
        };
    }

    fn allowance(&self) -> Allowance {
        let window = Bytes::new(match self.0 {
            Fault::NoWindow => 1,
            _ => 100_000 + self.1,
        });
        let quota = match self.0 {
            Fault::QuotaNeverSpent => Bytes::new(10_000_000),
            Fault::QuotaNeverBack => Bytes::ZERO,
            _ => Bytes::MAX,
        };
        Allowance {
            quota,
            ..Allowance::window(window)
        }
    }

    fn next_timer(&self) -> Option<Time> {
        (self.0 == Fault::TimerInThePast).then_some(Time::ZERO)
    }
}

/// The error that the check of whole connections reports for this fault.
fn lives(fault: Fault) -> String {
    assert!(fault == Fault::GrowsUnused);
    let algorithm = Algorithm {
        name: "faulty",
        summary: "",
        profiles: Cow::Borrowed(&[]),
        options: &[],
        build: Build::Function(|_| Ok(Instance::new(Faulty(Fault::GrowsUnused, 0)))),
    };
    let run = || conformance::check_lives(&algorithm);
    let fault = std::panic::catch_unwind(run).expect_err("the fault was not found");
    fault.downcast_ref::<String>().cloned().unwrap_or_default()
}

fn says(algorithm: Algorithm) -> String {
    let spec = algorithm.name.parse().unwrap();
    let run = || {
        conformance::check_stories(&algorithm);
        (0..50).for_each(|seed| conformance::run_seed(&algorithm, &spec, seed));
    };
    let fault = std::panic::catch_unwind(run).expect_err("the fault was not found");
    fault.downcast_ref::<String>().cloned().unwrap_or_default()
}

/// The suite itself can fail: it finds each of these.
#[test]
fn faults_are_found() {
    macro_rules! faulty {
        ($fault:ident) => {
            says(Algorithm {
                name: "faulty",
                summary: "",
                profiles: Cow::Borrowed(&[]),
                options: &[],
                build: Build::Function(|_| Ok(Instance::new(Faulty(Fault::$fault, 0)))),
            })
        };
    }
    assert!(faulty!(NoWindow).contains("is less than a segment"));
    assert!(faulty!(TimerInThePast).contains("the next timer is at"));
    assert!(faulty!(QuotaNeverSpent).contains("after sending"));
    assert!(faulty!(QuotaNeverBack).contains("nothing may leave for 60 s"));
    assert!(faulty!(ForgetfulClone).contains("replayed"));
    assert!(faulty!(CountsBatches).contains("after [a] and [b]"));
    let life = lives(Fault::GrowsUnused);
    assert!(life.contains("times what was ever in flight"), "{life}");
    // The link, the seed, and how to see it again.
    for part in [
        "link 12mbit, round trip 40ms, queue of 1333 packets, seed 1",
        "alcc-lab sim --link 12mbit --rtt 40ms --queue droptail:packets=1333 --seed 1 --flow 'faulty/app=2mbit' --duration 60s",
    ] {
        assert!(life.contains(part), "{life}");
    }
    let seed = faulty!(CountsBatches);
    assert!(
        seed.contains("conformance::run_seed(&ALGORITHM, "),
        "{seed}"
    );
    assert!(faulty!(NoPatience).contains("story 'a round trip takes a week'"));
}
