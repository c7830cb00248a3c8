// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The algorithms of the laboratory, and the frozen forms of the product's.
//!
//! [`registry`] has them beside those of `alcc-cc`. They are pure state machines like those: the
//! simulator, the emulator's programs and the fuzzers run them. The plug-in `libalcc_lab.so`
//! (`lab/plugin`) brings them to the product.
//!
//! * an algorithm: a file `algorithms/NAME.rs`, and its name in `algorithms.rs`;
//! * a form of a product's algorithm that only changes when it differs from its source: a file in
//!   `forms/`, and a line in [`forms`].
#![forbid(unsafe_code)]

mod algorithms;
mod forms;
#[cfg(test)]
#[allow(dead_code, reason = "algorithms of the product use the rest")]
#[path = "../../../alcc/cc/src/testing.rs"]
mod testing;

use alcc_cc::{Algorithm, Form, Registry};

/// Transition matrices of `mdi`: read, learned, written.
pub mod model_driven {
    pub use crate::algorithms::mdi::{
        Axis, Bounds, Counting, Counts, Epoch, Grid, Levels, Matrix, MatrixError, Shape, change,
    };
}

/// The constants of algorithms that have other forms.
#[doc(hidden)]
pub const CONSTANTS: &[&[&[alcc_cc::constants::Constant]]] = &[
    &[algorithms::vegas::TABLE, algorithms::westwood::TABLE],
    algorithms::mdi::TABLES,
];

/// The delay profile of Verus.
pub mod delay_profile {
    use crate::forms::verus::Original;
    use alcc_cc::Controller;
    pub use alcc_cc::parts::verus::ProfilePoint;
    use alcc_cc::parts::verus::Verus;
    use std::any::Any;

    /// The points that `cc` has learned, then the curve through them; nothing if it is not a Verus.
    pub fn read(cc: &dyn Controller, put: &mut dyn FnMut(ProfilePoint)) {
        let cc: &dyn Any = cc;
        if let Some(verus) = cc.downcast_ref::<Verus>() {
            verus.profile(put);
        } else if let Some(original) = cc.downcast_ref::<Original>() {
            original.profile(put);
        }
    }
}

/// The order in which lists show algorithms.
const ORDER: &[&str] = &[
    "fixed",
    "reno",
    "cubic",
    "verus",
    "copa",
    "vegas",
    "bic",
    "westwood",
    "bbr",
    "bbr3",
    "budget",
    "ledbat",
    "mdi",
    "sprout",
    "sprout-ewma",
    "vivace",
    "c4",
    "scream",
    "prague",
    "roccet",
];

/// The algorithms of this crate, without the product's.
pub fn algorithms() -> &'static [Algorithm] {
    algorithms::ALGORITHMS
}

/// The profiles that this crate adds to algorithms of the product, each with the algorithm's name.
pub fn forms() -> &'static [(&'static str, Form)] {
    forms::FORMS
}

/// The product's algorithms with all forms, and those of this crate.
pub fn registry() -> Registry {
    let all = algorithms().iter().cloned();
    let registry = all.fold(Registry::builtin(), Registry::with);
    let forms = forms().iter().cloned();
    forms
        .fold(registry, |registry, (name, form)| {
            registry.with_form(name, form)
        })
        .in_order(ORDER)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By these lists the product says where an algorithm is that it does not have.
    #[test]
    fn the_product_knows_what_is_here() {
        let mut names: Vec<_> = algorithms().iter().map(|a| a.name).collect();
        names.sort_unstable();
        assert_eq!(names, alcc_cc::LABORATORY);
        let mut forms: Vec<_> = forms()
            .iter()
            .map(|(name, form)| (*name, form.profile))
            .collect();
        forms.sort_unstable();
        assert_eq!(forms, alcc_cc::LABORATORY_FORMS);
    }
}
