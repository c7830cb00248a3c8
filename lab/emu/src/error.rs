// SPDX-License-Identifier: Apache-2.0 OR MIT
use std::io;

/// Why an emulated link could not be made or run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmuError {
    /// Neither the privilege to make namespaces nor the permission to get it.
    #[error("make a network namespace without root: {found}; {fix}")]
    NotPermitted {
        /// What the kernel or its settings say.
        found: String,
        /// What the user or administrator can do.
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
        /// The range that was asked for.
        range: String,
    },
    /// No device joins a namespace to the relay.
    #[error("make the emulated link's devices: {tun}; without it: {packet}; {fix}")]
    NoDevice {
        /// Why not a TUN device.
        tun: String,
        /// Why not a veth pair with packet sockets.
        packet: String,
        /// What would help.
        fix: String,
    },
    /// The description of the link cannot be run.
    #[error("{0}")]
    Spec(String),
    /// A call of the operating system failed.
    #[error("{attempt}: {source}")]
    Os {
        /// What was attempted, on what.
        attempt: String,
        /// What the kernel answered.
        source: io::Error,
    },
}

impl EmuError {
    /// An operating system error with its attempt; for `map_err`.
    pub(crate) fn os<E: Into<io::Error>>(attempt: impl Into<String>) -> impl FnOnce(E) -> Self {
        let attempt = attempt.into();
        move |source| Self::Os {
            attempt,
            source: source.into(),
        }
    }
}
