// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One name per algorithm, as in `alcc-cc`: a file `algorithms/NAME.rs` (or a folder) with a
//! constant `ALGORITHM`, and its name here. A hyphen in the name is an underscore here.

macro_rules! algorithms {
    ($($name:ident),* $(,)?) => {
        $(pub(crate) mod $name;)*
        pub(crate) const ALGORITHMS: &[alcc_cc::Algorithm] = &[$($name::ALGORITHM),*];
    };
}

algorithms! {
    vegas,
    westwood,
    bbr3,
    ledbat,
    mdi,
    sprout_ewma,
    vivace,
    c4,
    scream,
    prague,
    roccet,
}
