// SPDX-License-Identifier: Apache-2.0 OR MIT
use alcc_pipe::Failure;
use std::io;

/// Error of a connection that could not be set up: one line with what was attempted, on what, what
/// was found and what would fix it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The request makes no sense, or this machine cannot do it.
    #[error("{0}")]
    Usage(String),
    /// The peer does not answer, or the network refuses.
    #[error("{what}: {source}")]
    Io {
        /// The attempt, and its object.
        what: String,
        /// The error of the system.
        source: io::Error,
    },
    /// The peer answered, but does not speak the expected protocol.
    #[error("{what}: {found}")]
    Refused {
        /// The attempt, and its object.
        what: String,
        /// The finding, and the remedy.
        found: String,
    },
}

impl From<Failure> for Error {
    fn from(why: Failure) -> Self {
        Self::Usage(why.to_string())
    }
}

impl Error {
    /// True for bad usage or an unsuitable machine, false for a run that failed.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Usage(_))
    }

    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }

    pub(crate) fn refused(what: impl Into<String>, found: impl Into<String>) -> Self {
        Self::Refused {
            what: what.into(),
            found: found.into(),
        }
    }
}
