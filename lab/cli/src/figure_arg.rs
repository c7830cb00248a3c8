// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The options of a figure for a paper: `--figure`, `--panels`.
use crate::failure::Failure;
use crate::output::will_be_written;
use alcc_live::report::{Part, figure, pdf};
use alcc_live::{Results, board};
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub(crate) struct Figure {
    /// Draw a figure for a paper: FILE.svg or FILE.pdf
    ///
    /// It shows throughput against delay, the distribution of delay, and both over time. It has no
    /// title.
    #[arg(long, value_name = "FILE", value_parser = a_figure)]
    figure: Option<PathBuf>,
    /// Panels of --figure
    #[arg(
        long,
        hide_short_help = true,
        value_name = "A,B",
        value_delimiter = ',',
        default_value = "plane,distribution,series",
        requires = "figure"
    )]
    panels: Vec<Part>,
}

fn a_figure(text: &str) -> Result<PathBuf, String> {
    let file = PathBuf::from(text);
    if ends_in(&file, "svg") || ends_in(&file, "pdf") {
        Ok(file)
    } else {
        Err("name a file that ends in .svg or .pdf".to_owned())
    }
}

fn ends_in(file: &Path, wanted: &str) -> bool {
    file.extension()
        .is_some_and(|end| end.eq_ignore_ascii_case(wanted))
}

impl Figure {
    pub(crate) fn is_wanted(&self) -> bool {
        self.figure.is_some()
    }

    pub(crate) fn file(&self) -> Option<&Path> {
        self.figure.as_deref()
    }

    /// Refuses a file that cannot be written, before anything is measured.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        self.figure.as_deref().map_or(Ok(()), will_be_written)
    }

    /// Draws and writes it, if it is wanted.
    pub(crate) fn write(&self, results: &Results) -> Result<(), Failure> {
        let Some(file) = &self.figure else {
            return Ok(());
        };
        let failed = |why: String| Failure::failed(format!("draw {}: {why}", file.display()));
        let mut drawn = figure(results, &self.panels).map_err(failed)?;
        if ends_in(file, "pdf") {
            let about = serde_json::to_string(&results.about).unwrap_or_default();
            drawn = pdf(&drawn, &about).map_err(failed)?;
        }
        board::write_file(file, &drawn).map_err(Failure::failed)
    }
}
