// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Consistency checks of a [`Definition`].
use super::{Definition, Expectation, Form, MAX_RUNS, Subject};
use crate::seconds::{SECOND_METRICS, THROUGHPUT};
use alcc_units::nearest;

/// The path to a mistake in the file, and what is wrong.
pub(crate) type Wrong = (Vec<String>, String);

pub(super) fn path<const N: usize>(keys: [&str; N]) -> Vec<String> {
    keys.map(str::to_owned).to_vec()
}

impl Definition {
    /// Checks that the parts are consistent.
    pub(crate) fn check(&self) -> Result<(), Wrong> {
        if self.starts == 0 {
            let why = "runs: 0 repetitions measure nothing: say at least 1";
            return Err((path(["runs"]), why.to_owned()));
        }
        let cells = self
            .sweep
            .iter()
            .try_fold(1_usize, |cells, axis| cells.checked_mul(axis.choices.len()));
        let runs = cells.and_then(|cells| cells.checked_mul(self.starts as usize));
        if runs.is_none_or(|runs| runs > MAX_RUNS) {
            let why = format!("the sweep has more than {MAX_RUNS} runs: vary less");
            return Err((path(["sweep"]), why));
        }
        self.check_report()
            .map_err(|(key, why)| (path(["report", key]), format!("report: {why}")))?;
        for (number, expectation) in self.expect.iter().enumerate() {
            self.check_expectation(expectation).map_err(|(keys, why)| {
                let here = path(["expect", &number.to_string()]);
                let why = format!("expectation {}: {why}", number + 1);
                ([here, keys].concat(), why)
            })?;
        }
        Ok(())
    }

    /// The key with a mistake, and what is wrong.
    fn check_report(&self) -> Result<(), (&'static str, String)> {
        let report = &self.report;
        let metrics = crate::judge::metrics(self.subject);
        let known = |key, metric: &String, of: &[&str]| match of.contains(&metric.as_str()) {
            true => Ok(()),
            false => Err((key, unknown_name("metric", metric, of.iter().copied()))),
        };
        for (key, metric) in (report.x.iter().map(|metric| ("x", metric)))
            .chain(report.columns.iter().map(|metric| ("columns", metric)))
        {
            known(key, metric, &metrics)?;
        }
        let (what, y) = match report.has_seconds() {
            true => (" of single seconds", &SECOND_METRICS[..]),
            false => ("", &metrics[..]),
        };
        for metric in &report.y {
            known("y", metric, y).map_err(|_| {
                let what = format!("metric{what}");
                ("y", unknown_name(&what, metric, y.iter().copied()))
            })?;
        }
        if report.has_seconds() {
            if self.subject != Subject::Flows {
                let why = "only flows of [scenario] are known second by second: leave out form";
                return Err(("form", why.to_owned()));
            }
            if !report.form.iter().all(|form| form.has_seconds()) {
                let why = "form: only series, density and population go together";
                return Err(("form", why.to_owned()));
            }
            if report.x.is_some() {
                let why = "x: this form has its own horizontal axis: leave out x";
                return Err(("x", why.to_owned()));
            }
        }
        if report.form.contains(&Form::Cells) && !self.expect.iter().any(|e| e.each) {
            let why = "form: cells: of which expectation? say each = true there";
            return Err(("form", why.to_owned()));
        }
        let standard = [THROUGHPUT.to_owned()];
        let drawn: Vec<&str> = match report.y.as_slice() {
            [] => &standard,
            some => some,
        }
        .iter()
        .map(String::as_str)
        .collect();
        let log_y = report.log_y.iter().map(|metric| ("log-y", metric));
        for (key, metric) in log_y.chain(report.reach.keys().map(|metric| ("reach", metric))) {
            if !report.form.contains(&Form::Series) {
                let why = format!("{key}: only form = \"series\" has it");
                return Err((key, why));
            }
            known(key, metric, &drawn)?;
        }
        if let Some(value) = report
            .reach
            .values()
            .find(|value| !value.is_finite() || **value <= 0.0)
        {
            return Err((
                "reach",
                format!("reach: {value} is not an end of an axis: say more than 0"),
            ));
        }
        Ok(())
    }

    fn check_expectation(&self, expectation: &Expectation) -> Result<(), Wrong> {
        let e = expectation;
        let wrong = |key: &str, why: &str| Err((path([key]), why.to_owned()));
        if e.within.is_none() && e.at_least.is_none() && e.at_most.is_none() && !e.spans {
            let why = "it has no bound: say within, at-least, at-most or spans";
            return Err((Vec::new(), why.to_owned()));
        }
        if e.within
            .is_some_and(|within| within.is_nan() || within < 0.0)
        {
            return wrong("within", "no value is so near: say 0 or more, such as 0.1");
        }
        for (key, bound) in [("at-least", e.at_least), ("at-most", e.at_most)] {
            if bound.is_some_and(f64::is_nan) {
                return wrong(key, "it must be a number");
            }
        }
        if e.at_least
            .zip(e.at_most)
            .is_some_and(|(least, most)| least > most)
        {
            return wrong("at-most", "no value is between at-least and at-most");
        }
        if e.flow == Some(0) {
            return wrong("flow", "flow 0: flows are numbered from 1");
        }
        let metrics = crate::judge::metrics(self.subject);
        if !metrics.contains(&e.metric.as_str()) {
            let why = unknown_name("metric", &e.metric, metrics.into_iter());
            return Err((path(["metric"]), why));
        }
        if (e.within.is_some() || e.spans) && e.published.is_none() {
            let bound = if e.spans { "spans" } else { "within" };
            return wrong(bound, &format!("{bound}: of what? say published"));
        }
        if let Some(phase) = &e.phase {
            let phases = self.scenario.phase.iter().map(|phase| phase.text.as_str());
            if !phases.clone().any(|known| known == phase) {
                return Err((path(["phase"]), unknown_name("phase", phase, phases)));
            }
            if !crate::judge::PHASE_METRICS.contains(&e.metric.as_str()) {
                let known = crate::judge::PHASE_METRICS.iter().copied();
                let why = unknown_name("metric of a phase", &e.metric, known);
                return Err((path(["metric"]), why));
            }
        }
        let of = e.of.iter().map(|cell| ("of", cell));
        for (table, (key, choice)) in of.chain(e.over.iter().flatten().map(|c| ("over", c))) {
            let axis = self.sweep.iter().find(|axis| axis.key == *key);
            let keys = self.sweep.iter().map(|axis| axis.key.as_str());
            let wrong = |why| (path([table, key]), why);
            let axis = axis.ok_or_else(|| wrong(unknown_name("axis", key, keys)))?;
            let names = axis.choices.iter().map(|choice| choice.name.as_str());
            if !names.clone().any(|name| name == choice) {
                return Err(wrong(unknown_name(key, choice, names)));
            }
        }
        Ok(())
    }
}

/// The error for an unknown name, with the nearest name and all names.
pub(crate) fn unknown_name<'a>(
    what: &str,
    found: &str,
    known: impl Iterator<Item = &'a str> + Clone,
) -> String {
    let near = nearest(found, known.clone());
    let near = near.map_or_else(String::new, |near| format!(" (did you mean {near}?)"));
    let all: Vec<&str> = known.collect();
    format!("no {what} '{found}'{near}: there are {}", all.join(", "))
}
