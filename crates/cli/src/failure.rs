// SPDX-License-Identifier: Apache-2.0 OR MIT
pub(crate) use alcc_lab::reason;
use std::fmt;
use std::process::ExitCode;

/// Why a command did not do its work: one line that says what was attempted, what was found and what would fix it.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Bad usage, or the machine cannot do it: exit status 2.
    Usage(String),
    /// A check or a transfer failed: exit status 1.
    Failed(String),
}

impl Failure {
    /// Bad usage or a machine that cannot do it.
    pub(crate) fn usage(why: impl fmt::Display) -> Self {
        Self::Usage(why.to_string())
    }

    /// A failed run.
    pub(crate) fn failed(why: impl fmt::Display) -> Self {
        Self::Failed(why.to_string())
    }

    /// 2 or 1.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Usage(_) => ExitCode::from(2),
            Self::Failed(_) => ExitCode::FAILURE,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(why) | Self::Failed(why) => f.write_str(why),
        }
    }
}
