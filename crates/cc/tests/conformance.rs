// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every algorithm of the registry, in every profile, keeps the contract.
use alcc_cc::{Registry, conformance};

/// All are run, so that one fault does not hide another.
#[test]
fn every_registered_algorithm() {
    let registry = Registry::builtin();
    let faulty: Vec<&str> = (registry.iter())
        .filter(|a| std::panic::catch_unwind(|| conformance::check(a)).is_err())
        .map(|a| a.name)
        .collect();
    assert!(faulty.is_empty(), "see above: {faulty:?}");
}
