// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `alcc doctor` looks at. Nothing here changes the machine or starts the program.
pub(crate) mod machine;
pub(crate) mod program;
pub(crate) mod running;

use serde::Serialize;

/// How good a finding is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    /// All is well.
    Ok,
    /// It works, but something is missing or can be better.
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

/// One thing that was looked at.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Finding {
    /// Its name, which does not change.
    pub(crate) what: &'static str,
    pub(crate) state: State,
    /// What was found.
    pub(crate) found: String,
    /// What that means for alcc.
    pub(crate) means: String,
    /// The command that helps.
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
