// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The registry: one name per algorithm. Add a file `algorithms/NAME.rs` (or a folder) with a
//! constant `ALGORITHM`, and its name here. A hyphen in the name is an underscore here. The command
//! line, the simulator, the runtime, the conformance suite and the documentation take it from here.
//!
//! This crate has the default and the algorithms that the papers run over TCP. The others are in
//! `lab/zoo`.

macro_rules! algorithms {
    ($($name:ident),* $(,)?) => {
        $(pub(crate) mod $name;)*
        pub(crate) const BUILTIN: &[crate::Algorithm] = &[$($name::ALGORITHM),*];
    };
}

algorithms! {
    fixed,
    reno,
    cubic,
    verus,
    copa,
    bic,
    bbr,
    budget,
    sprout,
}
