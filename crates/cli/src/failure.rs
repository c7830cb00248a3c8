// SPDX-License-Identifier: Apache-2.0 OR MIT
use std::fmt;
use std::io::{self, ErrorKind};
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

/// Why a file could not be used, and what would help where that is known.
pub(crate) fn reason(error: &io::Error) -> String {
    let known = match error.kind() {
        ErrorKind::NotFound => "there is no such file or folder: check the name",
        ErrorKind::PermissionDenied => "no permission: this user may not",
        ErrorKind::IsADirectory => "it is a folder: name a file",
        ErrorKind::NotADirectory => "a part of the path is a file, not a folder: check the name",
        ErrorKind::StorageFull => "no space is left: free some, or choose another place",
        ErrorKind::QuotaExceeded => "the quota is used up: free some space",
        ErrorKind::ReadOnlyFilesystem => "the file system is read-only: choose another place",
        ErrorKind::InvalidData => "it is no text (UTF-8)",
        _ => return error.to_string(),
    };
    known.to_owned()
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(why) | Self::Failed(why) => f.write_str(why),
        }
    }
}
