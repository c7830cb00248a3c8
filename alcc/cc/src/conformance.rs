// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks of the contract that every algorithm must keep. One line in a test of another crate
//! checks that crate's algorithm:
//!
//! ```
//! # let registry = alcc_cc::Registry::builtin();
//! # let algorithm = registry.iter().next().unwrap();
//! alcc_cc::conformance::check(algorithm);
//! ```
//!
//! * **Operations**: random sequences of everything that can happen, against a reference host. After each, the contract
//!   of [`Controller`](crate::Controller) is checked. The checks cover ranges, quotas, timers, progress, replay and
//!   snapshot bit for bit, and split batches.
//! * **Receiver half**, if there is one: arbitrary bytes, replay and snapshot.
//! * **Stories**: fixed sequences for cases that random ones rarely reach, with the same checks. A clock stands still,
//!   RTTs are zero or a week, windows have a million packets, timers fire without anything sent, and an outage lasts a
//!   week.
//! * **An application with little to send**: the window does not grow beyond twice its earlier use.
//! * **Paths**: a constant link with late timers, outages of 2 s and 60 s.
//! * **Whole connections**: beside another flow of the same algorithm; with jitter of the acknowledgements; taken over
//!   while it is established, behind a queue of other flows; on a path that becomes slower; and under an application
//!   that needs a fifth of the link for a minute. The packets in flight must not exceed twice their earlier maximum.
//!   [`uses_longer_route`] checks whether a longer route is detected.
//!
//! [`Checked`] checks the other side of the contract: wrapped around any algorithm, it checks the calls of the host.
//! [`check_host`] drives one list of operations through any host and compares its calls with those of the reference
//! host.
//!
//! The functions of this module panic with the property that was violated, the path and the seed, and with the command
//! that repeats the run.
mod checked;
mod host;
mod life;
mod model;
mod operation;
mod path;
mod receiver;
mod sender;
mod story;

pub use checked::Checked;
pub use host::{HostUnderTest, START, check_host};
pub use path::{FlowResult, PACKET, Scenario, Service, capacity, run};

use crate::{Algorithm, Instance, Registry, Spec};
use alcc_units::{Rate, Rng, Span, Time};
use model::Model;
use operation::Operation;

/// Number of operation sequences per profile.
const SEQUENCES: u64 = 150;
/// Number of call sequences to a receiver module, per profile.
const HALF_SEQUENCES: u64 = 30;
/// Bytes per sequence: about 150 operations.
const LENGTH: usize = 400;
/// Operations between checks of the costly properties.
const LOOK_EVERY: usize = 16;

/// The specs of an algorithm: the default, and each of its profiles.
fn specs(algorithm: &Algorithm) -> Vec<Spec> {
    let spec = |options| Spec {
        name: algorithm.name.to_owned(),
        options,
    };
    let profile = |p: &&str| spec(vec![("profile".to_owned(), (*p).to_owned())]);
    if algorithm.profiles.is_empty() {
        return vec![spec(Vec::new())];
    }
    algorithm.profiles.iter().map(profile).collect()
}

fn build(algorithm: &Algorithm, spec: &Spec) -> Instance {
    match Registry::builtin().with(algorithm.clone()).build(spec) {
        Ok(cc) => cc,
        Err(error) => panic!("{spec}: {error}"),
    }
}

/// Runs all checks of this module for every profile of `algorithm`.
///
/// # Panics
/// If a property does not hold; the message names profile, property, and for operations the seed
/// for [`run_seed`].
pub fn check(algorithm: &Algorithm) {
    check_contract(algorithm);
    check_lives(algorithm);
}

/// Checks the contract on which a host relies, for every profile of `algorithm`: everything but [`check_lives`].
///
/// # Panics
/// As [`check`].
pub fn check_contract(algorithm: &Algorithm) {
    for spec in specs(algorithm) {
        for seed in 0..SEQUENCES {
            run_seed(algorithm, &spec, seed);
        }
        check_halves(algorithm, &spec);
    }
    check_stories(algorithm);
    check_unused(algorithm);
    check_paths(algorithm);
}

/// True for a published form, which need not pass our requirements beyond the contract.
fn is_published(spec: &Spec) -> bool {
    let mut options = spec.options.iter();
    options.any(|(_, value)| value == "paper" || value == "original")
}

/// Checks whole connections, for every profile of `algorithm`.
///
/// # Panics
/// In these cases: of two equal flows one gets less than 15 % of both. Jitter of half of the RTT reduces the throughput
/// below 35 %. A flow that begins behind a full queue gets less than 90 % of what another gets. Less than half of a
/// path that has become slower is used. An application of 2 Mbit/s does not get that rate, or the window afterwards
/// allows more than twice the earlier maximum in flight, 3.2 times if it is paced. Published forms need only 5 % beside
/// an equal flow, and their windows are not checked.
pub fn check_lives(algorithm: &Algorithm) {
    for spec in specs(algorithm) {
        let build = || build(algorithm, &spec);
        if let Err(why) = life::check(&build, &spec, is_published(&spec)) {
            panic!("{spec}: {why}");
        }
    }
}

/// True if at least half of a path is used after its RTT has silently doubled. Algorithms that compare with the
/// smallest RTT of minutes take the longer path for a queue.
pub fn uses_longer_route(algorithm: &Algorithm) -> bool {
    let uses = |spec: &Spec| life::longer_route(&|| build(algorithm, spec)) >= 0.5;
    specs(algorithm).iter().all(uses)
}

/// Number of round trips of an application that never has more than two packets.
const UNUSED_ROUNDS: u32 = 2_500;

/// Checks that an unused window does not grow: after an hour of small answers, no large burst may be sent. Published
/// forms (`profile=paper`, `original`) are exempt: the windows of Verus and MDI grow with every epoch.
///
/// # Panics
/// If a burst of more than twice the larger of the first window and the earlier maximum in flight may be sent.
pub fn check_unused(algorithm: &Algorithm) {
    for spec in specs(algorithm)
        .into_iter()
        .filter(|spec| !is_published(spec))
    {
        let mut model = Model::new(build(algorithm, &spec), Span::ZERO, 1);
        let free = |model: &Model| {
            let allowance = model.allowance();
            allowance.window.min(allowance.quota)
        };
        let mut most = free(&model);
        let mut apply = |operation| {
            if let Err(why) = model.apply(&operation) {
                panic!("{spec}: {operation:?}: {why}");
            }
            model.sender.in_flight
        };
        for _ in 0..UNUSED_ROUNDS {
            most = most.max(apply(Operation::Send { n: 2, segments: 1 }));
            apply(Operation::NextTimer);
            apply(Operation::Limited(1 << 3));
            apply(Operation::Ack {
                share: 255,
                skip: 0,
                delay: Span::from_millis(40),
                ambiguous: false,
            });
        }
        let after = free(&model);
        assert!(
            after <= most * 2,
            "{spec}: {after} may leave after {UNUSED_ROUNDS} round trips of two packets, {most} at most were used or allowed at first"
        );
    }
}

/// Checks the receiver module of an algorithm that has one.
fn check_halves(algorithm: &Algorithm, spec: &Spec) {
    if !build(algorithm, spec).has_receiver() {
        return;
    }
    for seed in 0..HALF_SEQUENCES {
        if let Err(why) = receiver::check(&|| build(algorithm, spec), seed) {
            panic!("{spec}, seed {seed}: {why}");
        }
    }
}

/// Runs one random sequence of operations.
///
/// # Panics
/// If a property does not hold.
pub fn run_seed(algorithm: &Algorithm, spec: &Spec, seed: u64) {
    let mut rng = Rng::new(seed);
    let bytes: Vec<u8> = (0..LENGTH).map(|_| rng.next_u64() as u8).collect();
    let outcome = std::panic::catch_unwind(|| operations(algorithm, spec, &bytes));
    let why = match outcome {
        Ok(Ok(())) => return,
        Ok(Err(why)) => why,
        Err(_) => "the controller panicked".to_owned(),
    };
    panic!(
        "{spec}, seed {seed}: {why}; again: conformance::run_seed(&ALGORITHM, &\"{spec}\".parse().unwrap(), {seed})"
    );
}

/// Runs the sequence of operations that `bytes` encode; the first byte chooses the profile. For fuzz targets.
///
/// # Panics
/// If a property does not hold.
pub fn run_bytes(algorithm: &Algorithm, bytes: &[u8]) {
    let specs = specs(algorithm);
    let Some((first, rest)) = bytes.split_first() else {
        return;
    };
    let spec = &specs[usize::from(*first) % specs.len()];
    if let Err(why) = operations(algorithm, spec, rest) {
        panic!("{spec}: {why}");
    }
}

fn operations(algorithm: &Algorithm, spec: &Spec, bytes: &[u8]) -> Result<(), String> {
    let mut bytes = bytes.iter().copied();
    let first = bytes.next().unwrap_or(0);
    let tick = Span::from_millis(u64::from(first % 3));
    let list: Vec<Operation> = std::iter::from_fn(|| Operation::decode(&mut bytes)).collect();
    let fresh = || Model::new(build(algorithm, spec), tick, u64::from(first));
    let mut model = fresh();
    let mut story = Vec::with_capacity(list.len());
    for (i, operation) in list.iter().enumerate() {
        let explain = |why| format!("operation {i}, {operation:?}: {why}");
        model.apply(operation).map_err(explain)?;
        story.push(model.allowance());
        if i % LOOK_EVERY == 0 || i + 1 == list.len() {
            model.not_stuck().map_err(explain)?;
            model.split().map_err(explain)?;
        }
    }
    let mut again = fresh();
    let snapshot_at = usize::from(first) % list.len().max(1);
    for (i, (operation, allowance)) in list.iter().zip(&story).enumerate() {
        again.apply(operation)?;
        if i == snapshot_at {
            again.sender.feed = again.sender.feed.fork();
        }
        if again.allowance() != *allowance {
            return Err(format!(
                "operation {i} replayed: {:?} instead of {allowance:?}",
                again.allowance()
            ));
        }
    }
    Ok(())
}

/// Runs the named stories, for every profile of `algorithm`.
///
/// # Panics
/// If a property does not hold; the message names the story and the operation.
pub fn check_stories(algorithm: &Algorithm) {
    for spec in specs(algorithm) {
        for (name, story) in story::STORIES {
            let run_story = || {
                let mut model = Model::new(build(algorithm, &spec), Span::ZERO, 1);
                for (i, operation) in story().iter().enumerate() {
                    let explain = |why| format!("operation {i}, {operation:?}: {why}");
                    model.apply(operation).map_err(explain)?;
                }
                model.not_stuck()
            };
            match std::panic::catch_unwind(run_story) {
                Ok(Ok(())) => {}
                Ok(Err(why)) => panic!("{spec}, story '{name}': {why}"),
                Err(_) => panic!("{spec}, story '{name}': the controller panicked"),
            }
        }
    }
}

/// Checks late timers and outages on a constant link, for every profile of `algorithm`.
///
/// # Panics
/// If timers up to 20 ms late change the throughput by 5 % or more, or if less than half of the former throughput
/// returns after an outage.
pub fn check_paths(algorithm: &Algorithm) {
    for spec in specs(algorithm) {
        let mut plain =
            Scenario::constant(Rate::mbps(12), Span::from_millis(40), Span::from_secs(25));
        let delivered = |scenario: &Scenario, from: u64, to: u64| {
            let r = run(scenario, vec![build(algorithm, &spec)]).remove(0);
            r.packets(Time::from_millis(from * 1000)) - r.packets(Time::from_millis(to * 1000))
        };
        let punctual = delivered(&plain, 5, 25);
        assert!(punctual > 0, "{spec}: nothing delivered");
        plain.lateness = Span::from_millis(20);
        let late = delivered(&plain, 5, 25);
        let ratio = late as f64 / punctual as f64;
        assert!(
            (0.95..1.05).contains(&ratio),
            "{spec}: timers up to 20 ms late change the throughput by {ratio:.3}; {}",
            plain.describe(&spec, 1)
        );
        for outage in [2, 60] {
            let (from, to) = (10, 10 + outage);
            let mut scenario = Scenario::constant(
                Rate::mbps(12),
                Span::from_millis(40),
                Span::from_secs(to + 40),
            );
            scenario.outage = Some((Time::from_millis(from * 1000), Time::from_millis(to * 1000)));
            let before = delivered(&scenario, 5, 10) as f64 / 5.0;
            let after = delivered(&scenario, to + 30, to + 40) as f64 / 10.0;
            assert!(
                after >= 0.5 * before,
                "{spec}: {before} packets/s before {outage} s of outage, {after} after; {}",
                scenario.describe(&spec, 1)
            );
        }
    }
}
