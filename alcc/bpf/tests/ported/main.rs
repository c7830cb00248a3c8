// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Comparison of the kernel's algorithms with those of `cc` that they follow: the same source that runs
//! in the kernel, compiled for the host, as ordinary controllers.
mod beside;
mod bic;
mod budget;
mod copa;
mod paced;
mod replay;
mod siblings;
mod stack;
mod vectors;
mod vegas;
mod verus;
mod westwood;

use alcc_bpf::RESIDENT;
use alcc_cc::{Algorithm, Build, Instance, Spec, conformance};
use std::borrow::Cow;

/// The form of `cc` that a resident algorithm follows.
fn follows(algorithm: &str) -> &'static str {
    let resident = RESIDENT.iter().find(|r| r.algorithm == algorithm);
    resident.unwrap().follows
}

/// The same, built; `algorithm` may have options of its own.
fn reference(algorithm: &str) -> Instance {
    let (name, options) = algorithm.split_once(':').unwrap_or((algorithm, ""));
    let mut spec: Spec = follows(name).parse().unwrap();
    let typed: Spec = format!("{name}:{options}")
        .trim_end_matches(':')
        .parse()
        .unwrap();
    spec.options.extend(typed.options);
    alcc_zoo::registry().build(&spec).unwrap()
}

/// An entry of [`ours`].
macro_rules! ported {
    ($algorithm:literal, $around:ident, $module:ident) => {
        (
            $algorithm,
            Algorithm {
                name: concat!($algorithm, "-in-integers"),
                summary: "As it runs in the kernel",
                profiles: Cow::Borrowed(&[]),
                options: &[],
                build: Build::Function(|_| Ok($around::controller::<$module::State>())),
            },
        )
    };
}

/// The kernel's algorithms as ordinary ones, each with the name of the form that it follows.
fn ours() -> Vec<(&'static str, Algorithm)> {
    vec![
        ported!("copa", paced, copa),
        ported!("verus", paced, verus),
        ported!("budget", paced, budget),
        ported!("vegas", stack, vegas),
        ported!("bic", stack, bic),
        ported!("westwood", stack, westwood),
    ]
}

#[test]
fn all_that_live_in_the_kernel_are_here() {
    let there: Vec<&str> = RESIDENT.iter().map(|r| r.algorithm).collect();
    let here: Vec<&str> = ours().iter().map(|(name, _)| *name).collect();
    assert_eq!(here, there);
    // Programs find them without the loader.
    for r in RESIDENT {
        let chosen = alcc_bpf::Chosen::of(&r.follows.parse().unwrap()).unwrap();
        assert_eq!(chosen, r.control.name.into());
    }
}

#[test]
fn options_that_anybody_may_write_are_bounded() {
    unsafe extern "C" {
        fn alcc_host_bounded(value: u32, least: u32, most: u32, otherwise: u32) -> u32;
    }
    // SAFETY: numbers only.
    let bounded = |value| unsafe { alcc_host_bounded(value, 66, 65_536, 11_796) };
    for (value, taken) in [
        (0, 11_796),
        (1, 66),
        (66, 66),
        (20_000, 20_000),
        (65_537, 65_536),
        (u32::MAX, 65_536),
    ] {
        assert_eq!(bounded(value), taken, "{value}");
    }
}

#[test]
fn they_keep_the_contract_of_every_algorithm() {
    for (name, algorithm) in ours() {
        println!("{name}");
        conformance::check(&algorithm);
    }
}
