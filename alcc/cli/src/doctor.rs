// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The checks of `alcc doctor`. They do not change the machine or start the program.
pub(crate) mod machine;
pub(crate) mod program;
pub(crate) mod running;

use serde::Serialize;

/// Severity of a finding.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    /// No problem.
    Ok,
    /// It works, but something is missing or can be improved.
    Note,
    /// `alcc run` does not work.
    Stops,
}

impl State {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Stops => "STOPS",
        }
    }
}

/// The result of one check.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Finding {
    /// The name of the check, which is stable.
    pub(crate) what: &'static str,
    pub(crate) state: State,
    /// The finding.
    pub(crate) found: String,
    /// Its effect on alcc.
    pub(crate) means: String,
    /// The command that fixes it.
    pub(crate) command: Option<String>,
}

impl Finding {
    pub(crate) fn new(
        what: &'static str,
        state: State,
        found: impl Into<String>,
        means: impl Into<String>,
    ) -> Self {
        Self {
            what,
            state,
            found: found.into(),
            means: means.into(),
            command: None,
        }
    }

    pub(crate) fn helped_by(self, command: impl Into<String>) -> Self {
        Self {
            command: Some(command.into()),
            ..self
        }
    }
}
