// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The pinned map of options.
#[cfg(feature = "loader")]
use crate::{BpfError, PINS, pins};
#[cfg(feature = "loader")]
use alcc_sys::{Chosen, Options};

/// Its name, and who may use it: any user may set the options of a socket of their own.
pub(crate) const MAP: (&str, u32) = ("options", 0o666);

/// Do the controls that are loaded take options? Those of an older version do not.
#[cfg(feature = "loader")]
pub(crate) fn are_taken() -> bool {
    pins::is_pin(&pins::pin(MAP.0))
}

/// Controls that take no options would ignore them.
#[cfg(feature = "loader")]
pub(crate) fn check(chosen: &Chosen) -> Result<(), BpfError> {
    match chosen.options == Options::default() || are_taken() {
        true => Ok(()),
        false => Err(BpfError::Older { path: PINS.into() }),
    }
}
