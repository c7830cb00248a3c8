// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The pinned map of the controls' options.
#[cfg(feature = "loader")]
use crate::{BpfError, PINS, pins};
#[cfg(feature = "loader")]
use alcc_sys::{Chosen, Options};

/// Its name and mode: any user can set the options of their own sockets.
pub(crate) const MAP: (&str, u32) = ("options", 0o666);

/// True if the loaded controls take options. Those of an older version do not.
#[cfg(feature = "loader")]
pub(crate) fn are_taken() -> bool {
    pins::is_pin(&pins::pin(MAP.0))
}

/// Refuses options for controls without options, which would ignore them.
#[cfg(feature = "loader")]
pub(crate) fn check(chosen: &Chosen) -> Result<(), BpfError> {
    match chosen.options == Options::default() || are_taken() {
        true => Ok(()),
        false => Err(BpfError::Older { path: PINS.into() }),
    }
}
