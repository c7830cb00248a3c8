// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The algorithms of the laboratory, and the frozen forms of the product's.
//!
//! [`registry`] has them beside those of `alcc-cc`. They are pure state machines, too: the
//! simulator, the emulator's programs and the fuzzers run them. The plug-in `libalcc_lab.so`
//! (`lab/plugin`) adds them to the product.
//!
//! * an algorithm: a file `algorithms/NAME.rs`, and a line in `algorithms.rs`;
//! * a form of a product's algorithm that is changed only if it differs from its source: a file in
//!   `forms/`, and a line in [`forms`].
#![forbid(unsafe_code)]

mod algorithms;
mod forms;
#[cfg(test)]
#[allow(dead_code, reason = "algorithms of the product use the rest")]
#[path = "../../../alcc/cc/src/testing.rs"]
mod testing;

use alcc_cc::{Algorithm, Form, Registry, Spec};

/// Transition matrices of `mdi`: read, learned, written.
pub mod model_driven {
    pub use crate::algorithms::mdi::{
        Axis, Bounds, Counting, Counts, Epoch, Grid, Levels, Matrix, MatrixError, Shape, change,
    };
}

/// The constants of algorithms that are also written in C for the kernel or in Java, for `make constants`.
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

/// The algorithms of this crate, without the product's.
pub fn algorithms() -> impl Iterator<Item = &'static Algorithm> {
    algorithms::ALGORITHMS
        .iter()
        .map(|(_, algorithm)| algorithm)
}

/// The profiles (as [`Form`]) that this crate adds to algorithms of the product, each with the algorithm's name.
pub fn forms() -> &'static [(&'static str, Form)] {
    forms::FORMS
}

/// True if the product needs this crate's plug-in for `spec`.
pub fn brings(spec: &Spec) -> bool {
    let typed = |form: &Form| {
        let mut options = spec.options.iter();
        options.any(|(name, value)| name == "profile" && value == form.profile)
    };
    algorithms().any(|a| a.name == spec.name)
        || (forms().iter()).any(|(name, form)| spec.name == *name && typed(form))
}

/// The product's algorithms with all forms, and those of this crate.
pub fn registry() -> Registry {
    let all = algorithms::ALGORITHMS.iter().cloned();
    let registry = all.fold(Registry::builtin(), |registry, (before, algorithm)| {
        registry.with_after(before, algorithm)
    });
    let forms = forms().iter().cloned();
    forms
        .fold(registry, |registry, (name, form)| {
            registry.with_form(name, form)
        })
        .complete()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stands_behind_the_one_that_its_line_names() {
        let names: Vec<_> = registry().iter().map(|a| a.name).collect();
        let place = |name: &str| names.iter().position(|known| *known == name);
        for (before, algorithm) in algorithms::ALGORITHMS {
            let before = place(before).expect("an algorithm");
            assert!(Some(before) < place(algorithm.name), "{}", algorithm.name);
        }
    }

    #[test]
    fn the_product_needs_the_plug_in_for_what_is_here() {
        let needed = |spec: &str| brings(&spec.parse().expect("a spec"));
        assert!(needed("c4") && needed("verus:r=4,profile=original"));
        assert!(!needed("verus") && !needed("copa:profile=paper"));
    }
}
