// SPDX-License-Identifier: Apache-2.0 OR MIT
use alcc_units::Span;
use std::io;
use std::net::SocketAddr;

/// Error of a recording that could not be made.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The requested recording is impossible.
    #[error("record: {0}")]
    Impossible(String),
    /// The port is closed.
    #[error(
        "record with {to}: connection refused: start 'alcc-lab trace record --listen' on that host"
    )]
    NobodyListens {
        /// The listener's address.
        to: SocketAddr,
    },
    /// There was no answer.
    #[error(
        "record with {to}: no answer to packets of {size} bytes within {patience}: is 'alcc-lab trace record --listen' running there, may UDP pass, does the path carry packets of this size (--size)?"
    )]
    NoAnswer {
        /// The listener's address.
        to: SocketAddr,
        /// Payload size, bytes.
        size: usize,
        /// Time waited.
        patience: Span,
    },
    /// Packets of this size do not fit our own device.
    #[error(
        "record with {to}: packets of {size} bytes do not fit the path: choose a smaller --size"
    )]
    TooLarge {
        /// The listener's address.
        to: SocketAddr,
        /// Payload size, bytes.
        size: usize,
    },
    /// The listener refuses.
    #[error("record with {to}: refused: {why}")]
    Refused {
        /// The listener's address.
        to: SocketAddr,
        /// Its reason, as received.
        why: String,
    },
    /// The recording was stopped before it began.
    #[error("record: stopped before it began")]
    Stopped,
    /// A call of the operating system failed.
    #[error("record: {what}: {source}")]
    Socket {
        /// The attempt.
        what: String,
        /// The error of the system.
        source: io::Error,
    },
}

impl RecordError {
    pub(crate) fn socket(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Socket { what, source }
    }

    /// True if the error is in the machine or the request, not at the other end.
    pub const fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::Impossible(_) | Self::Socket { .. } | Self::TooLarge { .. }
        )
    }
}
