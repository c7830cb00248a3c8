// SPDX-License-Identifier: Apache-2.0 OR MIT
use alcc_units::Span;
use std::io;
use std::net::SocketAddr;

/// Why there is no recording.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// No such recording is possible.
    #[error("record: {0}")]
    Impossible(String),
    /// The port is closed.
    #[error(
        "record with {to}: nobody listens there: start 'alcc-lab trace record --listen' on that host"
    )]
    NobodyListens {
        /// Where.
        to: SocketAddr,
    },
    /// Silence.
    #[error(
        "record with {to}: no answer to packets of {size} bytes within {patience}: is 'alcc-lab trace record --listen' running there, may UDP pass, does the path carry packets of this size (--size)?"
    )]
    NoAnswer {
        /// Where.
        to: SocketAddr,
        /// Payload.
        size: usize,
        /// How long.
        patience: Span,
    },
    /// Our own device takes no such packets.
    #[error(
        "record with {to}: packets of {size} bytes do not fit the path: choose a smaller --size"
    )]
    TooLarge {
        /// Where.
        to: SocketAddr,
        /// Payload.
        size: usize,
    },
    /// The listener does not want to.
    #[error("record with {to}: refused: {why}")]
    Refused {
        /// Where.
        to: SocketAddr,
        /// As it said it.
        why: String,
    },
    /// Before it began.
    #[error("record: stopped before it began")]
    Stopped,
    /// The system refuses something.
    #[error("record: {what}: {source}")]
    Socket {
        /// What was tried.
        what: String,
        /// What came of it.
        source: io::Error,
    },
}

impl RecordError {
    pub(crate) fn socket(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Socket { what, source }
    }

    /// True if the machine or the request is at fault rather than the other end.
    pub const fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::Impossible(_) | Self::Socket { .. } | Self::TooLarge { .. }
        )
    }
}
