// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Frozen forms of the product's algorithms: they exist for reproducing published figures. Each is
//! changed only if it differs from its source.
pub(crate) mod copa;
pub(crate) mod cubic;
pub(crate) mod sprout;
pub(crate) mod verus;

use alcc_cc::Form;

/// The forms, with the names of their algorithms.
pub(crate) const FORMS: &[(&str, Form)] = &[
    ("cubic", cubic::RFC9438),
    ("verus", verus::ORIGINAL),
    ("copa", copa::ORIGINAL),
    ("copa", copa::MVFST),
    ("sprout", sprout::ORIGINAL),
];
