// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parses the changes of a link: steps, outages, reordering.
use super::{LinkOptions, Resolver, Value, reason};
use alcc_link::Changes;
use alcc_trace::read_text;
use alcc_units::{Rate, Span, positive};

/// Random steps are generated for an hour and then repeat.
const RANDOM_PERIOD: Span = Span::from_secs(3600);

impl Resolver<'_> {
    /// The changes of a link. `rate` is that of its bottleneck, if it is constant.
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
                return Err(value.error(
                    "outages are of a link of constant rate: give it one such as 12mbit, and no step of its rate",
                ));
            };
            let drawn = Changes::outages(&value.text, rate, RANDOM_PERIOD, self.seed);
            changes
                .steps
                .extend(drawn.map_err(|e| value.error(e))?.steps);
        }
        if let Some(value) = &options.repeat {
            changes.repeat = Some(positive(&value.text).map_err(|e| value.error(e))?);
            if changes.steps.is_empty() {
                return Err(value.error("there is nothing to repeat: give step, steps or outages"));
            }
        }
        if let Some(value) = &options.reorder {
            changes.reorder = match value.text.as_str() {
                "yes" => true,
                "no" => false,
                found => return Err(value.error(format!("'{found}': expected yes or no"))),
            };
            if changes.reorder && !changes.steps.iter().any(|step| step.delay.is_some()) {
                return Err(
                    value.error("no step changes the delay: give one, such as step 5s:delay=50ms")
                );
            }
        }
        Ok(changes)
    }

    /// Steps from a file, or random ones.
    fn table(&self, value: &Value) -> Result<Changes, String> {
        if value.text.contains('=') {
            let drawn = Changes::random(&value.text, RANDOM_PERIOD, self.seed)
                .map_err(|e| value.error(e))?;
            return Ok(Changes {
                repeat: Some(RANDOM_PERIOD),
                ..drawn
            });
        }
        let file = self.files.find(&value.text);
        let file = file.unwrap_or_else(|| value.text.clone().into());
        let wrong = |why: String| {
            let name = file.display();
            value.error(format!("read steps from {name}: {why}"))
        };
        let open = self.files.open(&file).map_err(|e| wrong(reason(&e)))?;
        let text = read_text(open, Changes::MIB, Changes::COLUMNS)
            .map_err(|e| wrong(super::why_not_read(&e)))?;
        Changes::from_csv(&text).map_err(|e| value.error(format!("{}: {e}", file.display())))
    }
}
