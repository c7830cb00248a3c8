// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The options of a link that changes on the way: `--step`, `--steps`, `--repeat`, `--reorder`.
use crate::failure::{Failure, reason};
use alcc_link::{Changes, Step};
use alcc_results::scenario::why_not_read;
use alcc_trace::read_text;
use alcc_units::{Span, positive};
use std::fs::File;
use std::path::Path;

/// Random steps are generated for an hour and then repeat.
const DRAWN: Span = Span::from_secs(3600);

#[derive(clap::Args)]
pub(crate) struct ChangesArg {
    /// Change of the link, such as 5s:rate=20mbit,delay=50ms; may be repeated
    ///
    /// Values that are not named stay. loss= applies to both directions; loss-up= overrides it for
    /// the direction from CMD.
    #[arg(long, value_name = "STEP")]
    step: Vec<Step>,
    /// Changes from a CSV file, or drawn at random
    ///
    /// The columns of the file are seconds,mbps,delay_ms,loss,loss_up. Random changes, drawn with
    /// the seed, are written every=5s,rate=10mbit..100mbit,delay=5ms..50ms,loss=0..1%.
    #[arg(long, hide_short_help = true, value_name = "FILE|DRAW")]
    steps: Option<String>,
    /// Restart the schedule of changes after this time
    #[arg(long, hide_short_help = true, value_name = "T", value_parser = positive::<Span>)]
    repeat: Option<Span>,
    /// Let packets overtake others when the delay becomes shorter
    #[arg(long, hide_short_help = true)]
    reorder: bool,
}

impl ChangesArg {
    /// The file of `--steps`, which may be a draw instead.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.steps.as_deref().map(Path::new)
    }

    /// The changes that the options describe. Reads a file.
    pub(crate) fn changes(&self, seed: u64) -> Result<Changes, Failure> {
        let mut changes = match self.steps.as_deref() {
            None => Changes::default(),
            Some(draw) if draw.contains('=') => Changes {
                repeat: Some(DRAWN),
                ..Changes::random(draw, DRAWN, seed)
                    .map_err(|e| Failure::usage(format!("--steps: {e}")))?
            },
            Some(file) => {
                let wrong = |why: String| Failure::usage(format!("read steps from {file}: {why}"));
                let open = File::open(file).map_err(|e| wrong(reason(&e)))?;
                let text = read_text(open, Changes::MIB, Changes::COLUMNS)
                    .map_err(|e| wrong(why_not_read(&e)))?;
                Changes::from_csv(&text)
                    .map_err(|e| Failure::usage(format!("steps of {file}: {e}")))?
            }
        };
        changes.steps.extend(&self.step);
        if self.repeat.is_some() && changes.steps.is_empty() {
            return Err(Failure::usage(
                "--repeat: there is no step to repeat: give --step or --steps",
            ));
        }
        changes.repeat = self.repeat.or(changes.repeat);
        changes.reorder = self.reorder;
        Ok(changes)
    }

    /// Refuses `--reorder` if no delay ever changes.
    pub(crate) fn check_reorder(&self, changes: &Changes) -> Result<(), Failure> {
        if self.reorder && !changes.steps.iter().any(|step| step.delay.is_some()) {
            return Err(Failure::usage(
                "--reorder: no step changes the delay: give one, such as --step 5s:delay=50ms",
            ));
        }
        Ok(())
    }
}
