// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The forms of two programs with Copa.
mod mvfst;
mod original;

use alcc_cc::parts::copa::{OPTIONS, asked};
use alcc_cc::{Build, Form, Instance};
use mvfst::Mvfst;
use original::Original;

pub(crate) const ORIGINAL: Form = Form {
    profile: "original",
    options: OPTIONS,
    build: Build::Function(|options| {
        let (delta, auto) = asked(options, Original::DELTA, Original::AUTO)?;
        Ok(Instance::new(Original::new(delta, auto)))
    }),
};

pub(crate) const MVFST: Form = Form {
    profile: "mvfst",
    options: OPTIONS,
    build: Build::Function(|options| {
        let (delta, auto) = asked(options, Mvfst::DELTA, Mvfst::AUTO)?;
        Ok(Instance::new(Mvfst::new(delta, auto)))
    }),
};
