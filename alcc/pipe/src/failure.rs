// SPDX-License-Identifier: Apache-2.0 OR MIT
use std::fmt;

/// An error of one line: what was attempted, on what, what was found and what would fix it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Failure {
    /// Bad usage, or the machine cannot do it: exit status 2.
    Usage(String),
    /// A check or a transfer failed: exit status 1.
    Failed(String),
}

impl Failure {
    /// Makes an error for bad usage or an unsuitable machine.
    pub fn usage(why: impl fmt::Display) -> Self {
        Self::Usage(why.to_string())
    }

    /// Makes an error for a failed run.
    pub fn failed(why: impl fmt::Display) -> Self {
        Self::Failed(why.to_string())
    }

    /// True for bad usage or an unsuitable machine, false for a failed run.
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Usage(_))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(why) | Self::Failed(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Failure {}
