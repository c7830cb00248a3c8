// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One line per algorithm, as in `alcc-cc`: a file `algorithms/NAME.rs` (or a folder) with a
//! constant `ALGORITHM`, and its name here, with its place in lists. A hyphen in the name is an
//! underscore here.

macro_rules! algorithms {
    ($($name:ident after $before:literal),* $(,)?) => {
        $(pub(crate) mod $name;)*
        pub(crate) const ALGORITHMS: &[(&str, alcc_cc::Algorithm)] =
            &[$(($before, $name::ALGORITHM)),*];
    };
}

algorithms! {
    vegas after "copa",
    westwood after "bic",
    bbr3 after "bbr",
    ledbat after "budget",
    mdi after "ledbat",
    sprout_ewma after "sprout",
    vivace after "sprout-ewma",
    c4 after "vivace",
    scream after "c4",
    prague after "scream",
    roccet after "prague",
}
