// SPDX-License-Identifier: Apache-2.0 OR MIT
use alcc_pipe::Failure;
use std::io;

/// Why there is no stream. It is one line that says what was attempted, on what, what was found and
/// what would fix it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// What was asked for makes no sense, or this machine cannot do it.
    #[error("{0}")]
    Usage(String),
    /// Nobody there, or the way is blocked.
    #[error("{what}: {source}")]
    Io {
        /// What was attempted, on what.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// The other end is there and is not what it should be.
    #[error("{what}: {found}")]
    Refused {
        /// What was attempted, on what.
        what: String,
        /// What was found, and what would fix it.
        found: String,
    },
}

impl From<Failure> for Error {
    fn from(why: Failure) -> Self {
        Self::Usage(why.to_string())
    }
}

impl Error {
    /// Bad usage or a machine that cannot do it, rather than a run that failed.
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
