// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors of experiments.
use alcc_results::scenario::reason;
use std::path::PathBuf;

/// Error of an experiment.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// An invalid list of schemes, or one that cannot be run in this way.
    #[error("scheme '{scheme}': {why}")]
    Scheme {
        /// The text of the list.
        scheme: String,
        /// The error, and a value that would be valid.
        why: String,
    },
    /// An invalid flow.
    #[error(transparent)]
    Flow(#[from] alcc_sim::FlowError),
    /// A program that the experiment needs is not on this machine.
    #[error("find {program}: {looked}; {fix}")]
    Missing {
        /// Its name.
        program: &'static str,
        /// Places that were searched.
        looked: String,
        /// Instruction for installing it.
        fix: String,
    },
    /// The emulated link.
    #[error(transparent)]
    Emulator(#[from] alcc_emu::EmuError),
    /// A call of the operating system failed.
    #[error("{attempt}: {}", reason(source))]
    Os {
        /// The attempted operation and its object.
        attempt: String,
        /// The error of the system.
        source: std::io::Error,
    },
    /// A trace file cannot be read.
    #[error("read the trace {}: {why}", path.display())]
    Trace {
        /// The file.
        path: PathBuf,
        /// The line and what is wrong with it.
        why: String,
    },
    /// An invalid list of traces.
    #[error("traces '{list}': {why}")]
    Traces {
        /// The text of the list.
        list: String,
        /// The error, and a value that would be valid.
        why: String,
    },
    /// Part of a scenario that only the simulator has.
    #[error("emulate {what}: {instead}")]
    Twin {
        /// The requested feature.
        what: String,
        /// An alternative that works.
        instead: String,
    },
    /// A program of the experiment did not do its part.
    #[error("{scheme}: {why}")]
    Run {
        /// The scheme whose run it was.
        scheme: String,
        /// The failure, with the program's last words.
        why: String,
    },
    /// A requirement of an experiment.
    #[error("needs {0}")]
    Needs(String),
    /// The name of a recorded trace that an experiment needs.
    #[error(
        "needs the recorded trace {0}: not in the folder that --traces names, or none is named (docs/traces.md)"
    )]
    NoTrace(String),
    /// One line: what is wrong with an experiment.
    #[error("{0}")]
    Experiment(String),
    /// The user stopped it.
    #[error("stopped")]
    Stopped,
}

impl LabError {
    /// An operating system error with its attempt; for `map_err`.
    pub(crate) fn os<E: Into<std::io::Error>>(
        attempt: impl Into<String>,
    ) -> impl FnOnce(E) -> Self {
        let attempt = attempt.into();
        move |source| Self::Os {
            attempt,
            source: source.into(),
        }
    }

    /// True if the machine or the command line is the cause (exit status 2) and not the run itself
    /// (1).
    pub fn is_environment(&self) -> bool {
        !matches!(self, Self::Run { .. } | Self::Stopped)
    }
}
