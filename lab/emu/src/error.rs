// SPDX-License-Identifier: Apache-2.0 OR MIT
use std::io;

/// Error of an emulated link that could not be made or run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmuError {
    /// Neither the privilege to make namespaces nor the permission to get it.
    #[error("make a network namespace without root: {found}; {fix}")]
    NotPermitted {
        /// The error of the kernel, or the setting.
        found: String,
        /// The remedy for the user or administrator.
        fix: String,
    },
    /// [`crate::prepare`] was called too late.
    #[error(
        "enter a user namespace: the process already has several threads; call prepare() before starting any"
    )]
    Threads,
    /// The address range is in use at the other end.
    #[error(
        "use the addresses {range} for the emulated link: a route for them exists; choose another Subnet"
    )]
    SubnetTaken {
        /// The range that was requested.
        range: String,
    },
    /// A namespace cannot be joined to the relay by any device.
    #[error("make the emulated link's devices: {tun}; without it: {packet}; {fix}")]
    NoDevice {
        /// The error of a TUN device.
        tun: String,
        /// The error of a veth pair with packet sockets.
        packet: String,
        /// The remedy.
        fix: String,
    },
    /// The description of the link cannot be run.
    #[error("{0}")]
    Spec(String),
    /// A call of the operating system failed.
    #[error("{attempt}: {source}")]
    Os {
        /// The attempt, and its object.
        attempt: String,
        /// The error of the kernel.
        source: io::Error,
    },
}

impl EmuError {
    /// Makes an operating system error with its attempt; for `map_err`.
    pub(crate) fn os<E: Into<io::Error>>(attempt: impl Into<String>) -> impl FnOnce(E) -> Self {
        let attempt = attempt.into();
        move |source| Self::Os {
            attempt,
            source: source.into(),
        }
    }
}
