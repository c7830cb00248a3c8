// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How a link changes on the way, as people write it.
use super::{LinkOptions, Resolver, Value, reason};
use alcc_link::Changes;
use alcc_units::{Rate, Span, positive};
use std::io::Read;

/// What is drawn holds for an hour and then comes again.
const DRAWN: Span = Span::from_secs(3600);

impl Resolver<'_> {
    /// What changes on a link whose bottleneck has this rate, if it has a constant one.
    pub(super) fn changes(
        &self,
        options: &LinkOptions,
        rate: Option<Rate>,
    ) -> Result<Changes, String> {
        let mut changes = Changes::default();
        if let Some(value) = &options.steps {
            changes = self.table(value)?;
        }
        for value in &options.step {
            changes.steps.push(value.parse()?);
        }
        if let Some(value) = &options.outages {
            let moves = changes.steps.iter().any(|step| step.rate.is_some());
            let Some(rate) = rate.filter(|_| !moves) else {
                return Err(value.wrong(
                    "outages are of a link of constant rate: give it one such as 12mbit, and no step of its rate",
                ));
            };
            let drawn = Changes::outages(&value.text, rate, DRAWN, self.seed);
            changes
                .steps
                .extend(drawn.map_err(|e| value.wrong(e))?.steps);
        }
        if let Some(value) = &options.repeat {
            changes.repeat = Some(positive(&value.text).map_err(|e| value.wrong(e))?);
        }
        if let Some(value) = &options.reorder {
            changes.reorder = match value.text.as_str() {
                "yes" => true,
                "no" => false,
                found => return Err(value.wrong(format!("'{found}': want yes or no"))),
            };
        }
        Ok(changes)
    }

    /// Steps from a file, or drawn.
    fn table(&self, value: &Value) -> Result<Changes, String> {
        if value.text.contains('=') {
            let drawn =
                Changes::random(&value.text, DRAWN, self.seed).map_err(|e| value.wrong(e))?;
            return Ok(Changes {
                repeat: Some(DRAWN),
                ..drawn
            });
        }
        let file = self.files.find(&value.text);
        let file = file.unwrap_or_else(|| value.text.clone().into());
        let mut text = String::new();
        self.files
            .open(&file)
            .and_then(|mut open| open.read_to_string(&mut text))
            .map_err(|e| {
                let name = file.display();
                value.wrong(format!("read steps from {name}: {}", reason(&e)))
            })?;
        Changes::from_csv(&text).map_err(|e| value.wrong(format!("{}: {e}", file.display())))
    }
}
