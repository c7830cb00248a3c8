// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which feedback and enforcement go together, for a preloaded program. One line per value; `alcc list` prints these tables.
use std::fmt;

/// How the runtime learns what arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Feedback {
    /// The name that a user types.
    pub name: &'static str,
    /// What it is.
    pub summary: &'static str,
}

/// How the limit is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Enforcement {
    /// The name that a user types.
    pub name: &'static str,
    /// What it is.
    pub summary: &'static str,
    /// Writes pass only as far as the algorithm allows.
    pub gate: bool,
    /// `SO_MAX_PACING_RATE` follows the algorithm's rate.
    pub pacing: bool,
}

impl Feedback {
    /// All that a preloaded program can have, best first.
    pub const ALL: &'static [Self] = &[Self {
        name: "tcp-info",
        summary: "TCP_INFO counters read at a tick, no privileges",
    }];
}

impl Enforcement {
    /// All that a preloaded program can have, best first.
    pub const ALL: &'static [Self] = &[
        Self {
            name: "gate+pacing",
            summary: "a write passes only what the window allows, and the kernel paces",
            gate: true,
            pacing: true,
        },
        Self {
            name: "gate",
            summary: "a write passes only what the window allows",
            gate: true,
            pacing: false,
        },
        Self {
            name: "pacing",
            summary: "the kernel paces at the algorithm's rate; for algorithms that have one",
            gate: false,
            pacing: true,
        },
    ];
}

/// Algorithm, feedback and enforcement: every result carries all three names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Triple {
    /// The algorithm as typed.
    pub algorithm: String,
    /// Where acknowledgements are learned from.
    pub feedback: Feedback,
    /// How the limit is kept.
    pub enforcement: Enforcement,
}

/// A feedback or enforcement that this program cannot have.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{kind} '{name}' does not exist for a preloaded program: there are auto, {known}")]
pub struct TripleError {
    kind: &'static str,
    name: String,
    known: String,
}

impl Triple {
    /// The triple asked for; `auto` takes the best there is.
    ///
    /// # Errors
    /// A name that is not in the table.
    pub fn choose(
        algorithm: String,
        feedback: &str,
        enforcement: &str,
    ) -> Result<Self, TripleError> {
        Ok(Self {
            algorithm,
            feedback: pick("feedback", feedback, Feedback::ALL, |f| f.name)?,
            enforcement: pick("enforcement", enforcement, Enforcement::ALL, |e| e.name)?,
        })
    }
}

fn pick<T: Copy>(
    kind: &'static str,
    name: &str,
    all: &[T],
    name_of: impl Fn(&T) -> &'static str,
) -> Result<T, TripleError> {
    all.iter()
        .find(|t| name == "auto" || name_of(t) == name)
        .copied()
        .ok_or_else(|| TripleError {
            kind,
            name: name.to_owned(),
            known: all.iter().map(&name_of).collect::<Vec<_>>().join(", "),
        })
}

impl fmt::Display for Triple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} / {} / {}",
            self.algorithm, self.feedback.name, self.enforcement.name
        )
    }
}
