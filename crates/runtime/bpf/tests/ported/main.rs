// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The algorithms that live in the kernel, beside those of `cc` that they follow: the same source
//! that runs in the kernel, compiled for the host, as controllers among the others.
mod beside;
mod bic;
mod budget;
mod copa;
mod paced;
mod stack;
mod vegas;
mod westwood;

use alcc_bpf::RESIDENT;
use alcc_cc::{Controller, Registry, Spec};

/// The algorithm of `cc` that a resident one follows.
fn reference(algorithm: &str) -> Box<dyn Controller> {
    let resident = RESIDENT.iter().find(|r| r.algorithm == algorithm).unwrap();
    let spec: Spec = resident.follows.parse().unwrap();
    Registry::builtin().build(&spec).unwrap()
}
