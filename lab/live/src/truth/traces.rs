// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The links of a reference: trace files by name, and rates.
use crate::LabError;
use crate::link::{recording, walk};
use alcc_link::RateSpec;
use alcc_trace::Trace;
use alcc_units::{Rate, Span};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The trace files below a folder, by name.
pub struct Traces {
    folder: PathBuf,
    pub(super) files: BTreeMap<String, PathBuf>,
}

impl Traces {
    /// Looks for them; of two with the same name the first in alphabetical order counts.
    ///
    /// # Errors
    /// [`LabError::Os`] if the folder cannot be read.
    pub fn below(folder: &Path) -> Result<Self, LabError> {
        let mut all = Vec::new();
        walk(folder, 4, &mut all)?;
        let mut files = BTreeMap::new();
        for file in all {
            if let Some(name) = file.file_name() {
                files
                    .entry(name.to_string_lossy().into_owned())
                    .or_insert(file);
            }
        }
        Ok(Self {
            folder: folder.to_owned(),
            files,
        })
    }

    /// A rate is a trace of constant opportunities, too: the emulators of the references have
    /// nothing else.
    pub(super) fn rate(&self, name: &str, cut: Option<Span>) -> Result<RateSpec, LabError> {
        if let Ok(rate) = name.parse::<Rate>() {
            return Ok(Trace::constant(rate).map_or(RateSpec::Fixed(rate), RateSpec::Trace));
        }
        let file = self.files.get(name).ok_or_else(|| LabError::Traces {
            list: name.to_owned(),
            why: format!("there is none of this name below {}", self.folder.display()),
        })?;
        let trace = recording(file)?;
        let cut = cut.map(|length| trace.cut(Span::ZERO, length));
        let cut = cut.transpose().map_err(|e| LabError::Trace {
            path: file.clone(),
            why: e.to_string(),
        })?;
        Ok(RateSpec::Trace(cut.unwrap_or(trace)))
    }
}
