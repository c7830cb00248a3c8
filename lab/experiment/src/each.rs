// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Expectations about each cell: which cells are outside the bound, and all of them as a table.
use crate::bounds::{describe_bound, distance, is_within};
use crate::definition::{Axis, Definition, Expectation};
use crate::judge::{range, rounded};
use crate::page::wide;
use crate::picture::words;
use crate::run::Run;
use alcc_results::Spread;
use maud::{Markup, html};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Number of cells outside the bound that are named.
const NAMED: usize = 3;
/// Opacity of the colour of a cell just outside the bound, and what the distance adds.
const OPACITY: (f64, f64) = (0.15, 0.45);

/// Cells by the names of their choices, each with its value over the starts.
type Values<'a> = Vec<(&'a [String], Spread)>;

/// Result of an expectation about each cell.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Each {
    /// Number of judged cells.
    pub cells: usize,
    /// Those outside the bound, the farthest first.
    pub outside: Vec<OneCell>,
}

/// A cell, and its value over the starts.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct OneCell {
    /// The names of its choices, except on the axes that the expectation names.
    pub cell: String,
    /// Its value.
    pub value: Spread,
}

impl Each {
    /// Number of cells that hold, as text.
    pub fn count(&self) -> String {
        format!(
            "{} of {} cells",
            self.cells - self.outside.len(),
            self.cells
        )
    }

    /// The cells that are farthest outside the bound.
    pub fn farthest(&self) -> String {
        let named = self.outside.iter().take(NAMED);
        let named = named.map(|one| format!("{}: {}", one.cell, range(&one.value)));
        named.collect::<Vec<_>>().join("; ")
    }
}

impl Definition {
    /// The medians of the cells that `e` selects, and which are outside the bound. None: there are
    /// no cells, or one has no value.
    pub(crate) fn each(&self, e: &Expectation, runs: &[Run]) -> Option<(Spread, Each)> {
        self.judge_each(e, self.values_of(e, runs)?)
    }

    fn judge_each(&self, e: &Expectation, values: Values<'_>) -> Option<(Spread, Each)> {
        let mut outside = Vec::new();
        let medians: Vec<f64> = values.iter().map(|(_, value)| value.median).collect();
        for (cell, value) in values {
            if !is_within(e, &value) {
                let of_others = (self.sweep.iter().zip(cell))
                    .filter(|(axis, _)| !e.of.contains_key(&axis.key))
                    .map(|(_, name)| name.as_str());
                outside.push(OneCell {
                    cell: of_others.collect::<Vec<_>>().join(", "),
                    value,
                });
            }
        }
        let far = |one: &OneCell| distance(e, &one.value);
        outside.sort_by(|a, b| far(b).total_cmp(&far(a)));
        let cells = medians.len();
        Some((Spread::of(&medians)?, Each { cells, outside }))
    }

    /// The cells that `e` selects, in the order of the runs.
    fn cells_of<'a>(&self, e: &Expectation, runs: &'a [Run]) -> Vec<&'a [String]> {
        let is_named = |cell: &[String]| {
            let mut cell = self.sweep.iter().zip(cell);
            cell.all(|(axis, name)| e.of.get(&axis.key).is_none_or(|named| named == name))
        };
        let mut cells: Vec<&[String]> = Vec::new();
        for run in runs {
            if cells.last() != Some(&run.cell.as_slice()) && is_named(&run.cell) {
                cells.push(&run.cell);
            }
        }
        cells
    }

    /// The cells that `e` selects, with their values. None: one has no value.
    fn values_of<'a>(&self, e: &Expectation, runs: &'a [Run]) -> Option<Values<'a>> {
        let value = |cell: &'a [String]| {
            let keys = self.sweep.iter().map(|axis| axis.key.clone());
            let of: BTreeMap<String, String> = keys.zip(cell.iter().cloned()).collect();
            Some((cell, self.spread_over_starts(e, &of, runs)?))
        };
        self.cells_of(e, runs).into_iter().map(value).collect()
    }
}

/// The tables of all expectations about each cell, for the page.
pub(crate) fn section(definition: &Definition, runs: &[Run]) -> Markup {
    let expected = definition.expect.iter().filter(|e| e.each);
    let tables = expected.filter_map(|e| table(definition, e, runs));
    let tables: Vec<(String, Markup)> = tables.collect();
    html! {
        @if !tables.is_empty() {
            h2 { "Each cell" }
            p { "Median of the starts. Below it are the smallest and the largest of them. ✘ and a colour mark what is outside the bound. The stronger the colour, the farther." }
            @for (title, table) in &tables { h3 { (title) } (wide(title, table)) }
        }
    }
}

/// A table of the cells of an expectation about each of them, and its title. The columns are the
/// last axis that the expectation does not name, the rows all others. None: there is nothing to
/// show.
fn table(definition: &Definition, e: &Expectation, runs: &[Run]) -> Option<(String, Markup)> {
    let values = definition.values_of(e, runs)?;
    let axes = definition.sweep.iter().enumerate();
    let mut of_rows: Vec<(usize, &Axis)> =
        (axes.filter(|(_, axis)| !e.of.contains_key(&axis.key))).collect();
    let (column, across) = of_rows.pop()?;
    let mut rows: Vec<(Vec<&str>, BTreeMap<&str, Spread>)> = Vec::new();
    for (cell, value) in &values {
        let row: Vec<&str> = of_rows.iter().map(|(i, _)| cell[*i].as_str()).collect();
        let at = rows.iter().position(|(known, _)| *known == row);
        let at = at.unwrap_or_else(|| {
            rows.push((row, BTreeMap::new()));
            rows.len() - 1
        });
        rows[at].1.insert(&cell[column], *value);
    }
    let (_, each) = definition.judge_each(e, values)?;
    let choices = || across.choices.iter().map(|choice| choice.name.as_str());
    let title = format!("{}: {} in {}", e.says, describe_bound(e), each.count());
    let table = html! {
        table.matrix {
            thead {
                tr {
                    @for (_, axis) in &of_rows { th scope="col" rowspan="2" { (words(&axis.key)) } }
                    th scope="colgroup" colspan=(across.choices.len()) { (words(&across.key)) }
                }
                tr { @for name in choices() { th.n scope="col" { (name) } } }
            }
            tbody {
                @for (row, values) in &rows {
                    tr {
                        @for name in row { th scope="row" { (name) } }
                        @for name in choices() { (value_cell(e, values.get(name))) }
                    }
                }
            }
        }
    };
    Some((title, table))
}

/// A value of the table: outside the bound it has a sign and a colour, the stronger the farther.
fn value_cell(e: &Expectation, value: Option<&Spread>) -> Markup {
    let Some(value) = value else {
        return html! { td { "–" } };
    };
    let median = rounded(value.median, 4);
    let starts = [value.min, value.max].map(|v| rounded(v, 3)).join("–");
    if is_within(e, value) {
        return html! { td { (median) small { (starts) } } };
    }
    let opacity = OPACITY.0 + OPACITY.1 * distance(e, value).min(1.0);
    html! {
        td.out style={ "--far:" (format!("{opacity:.2}")) } { "✘ " (median) small { (starts) } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::{Mode, Verdict};
    use alcc_results::{Row, simulated::Summary};

    fn definition(bound: &str) -> Definition {
        let text = format!(
            "title = 't'\nsource = 's'\nstatement = 'x'\nruns = 3\n[scenario]\nlink = '{{link}}'\nflow = '{{flows}}*{{scheme}}'\n\
             [[sweep]]\nkey = 'scheme'\nvalues = ['copa', 'cubic']\n\
             [[sweep]]\nkey = 'flows'\nvalues = [2, 6]\n\
             [[sweep]]\nkey = 'link'\nvalues = ['12mbit', '20mbit']\n\
             [report]\nform = 'cells'\n\
             [[expect]]\nsays = 'copa <fills>'\nmetric = 'utilization'\nof = {{ scheme = 'copa' }}\neach = true\n{bound}\n"
        );
        Definition::from_toml(&text, "e.toml").unwrap()
    }

    /// The runs of a cell, a value for each start.
    fn cell(names: [&str; 3], utilization: [f64; 3]) -> Vec<Run> {
        let run = |(repetition, utilization): (u32, f64)| Run {
            cell: names.map(str::to_owned).to_vec(),
            repetition,
            flows: vec![Row {
                utilization: Some(utilization),
                ..Row::default()
            }],
            summary: Some(Summary::default()),
            ..Run::default()
        };
        (1..).zip(utilization).map(run).collect()
    }

    fn runs() -> Vec<Run> {
        [
            cell(["copa", "2", "12mbit"], [0.97, 0.7, 0.99]),
            cell(["copa", "2", "20mbit"], [0.8, 0.5, 0.85]),
            cell(["copa", "6", "12mbit"], [1.0, 1.0, 1.0]),
            cell(["copa", "6", "20mbit"], [0.4, 0.3, 0.5]),
            cell(["cubic", "2", "12mbit"], [0.1, 0.1, 0.1]),
        ]
        .concat()
    }

    /// The medians are 0.97, 0.8, 1 and 0.4, and their mean is 0.79.
    #[test]
    fn each_cell_is_judged_by_its_median() {
        let definition = definition("at-least = 0.9");
        let judged = definition.judge("id", Mode::Simulated, Ok(&runs()), |_| false);
        assert_eq!(judged.verdict, Verdict::Differs);
        assert_eq!(judged.why, "does not hold: copa <fills> (2 of 4 cells)");
        let outcome = &judged.outcomes[0];
        let ours = outcome.ours.unwrap();
        let about = |value: f64, wanted: f64| assert!((value - wanted).abs() < 1e-9, "{value}");
        about(ours.min, 0.4);
        about(ours.median, 0.885);
        about(ours.max, 1.0);
        let each = outcome.each.as_ref().unwrap();
        assert_eq!(
            each.farthest(),
            "6, 20mbit: 0.4 (0.3 to 0.5); 2, 20mbit: 0.8 (0.5 to 0.85)"
        );
        assert_eq!(
            serde_json::from_str::<Each>(&serde_json::to_string(each).unwrap()).unwrap(),
            *each
        );
    }

    #[test]
    fn a_mean_that_holds_is_not_enough_and_all_cells_are() {
        let verdict = |bound: &str| {
            let judged = definition(bound).judge("id", Mode::Simulated, Ok(&runs()), |_| false);
            judged.verdict
        };
        assert_eq!(verdict("at-least = 0.7"), Verdict::Differs);
        assert_eq!(verdict("at-most = 0.9"), Verdict::Differs);
        assert_eq!(verdict("at-least = 0.4"), Verdict::Reproduced);
    }

    #[test]
    fn a_run_without_the_value_is_no_cell_that_holds() {
        let mut runs = runs();
        runs[4].flows.clear();
        let judged =
            definition("at-least = 0.1").judge("id", Mode::Simulated, Ok(&runs), |_| false);
        assert_eq!(judged.verdict, Verdict::Differs);
        let why = "a run failed or has no such value: copa <fills>";
        assert_eq!(judged.why, why);
    }

    #[test]
    fn the_table_has_a_sign_where_a_cell_is_outside() {
        let definition = definition("at-least = 0.9");
        let html = section(&definition, &runs()).into_string();
        let title = "<h3>copa &lt;fills&gt;: at least 0.9 in 2 of 4 cells</h3>";
        assert!(html.contains(title), "{html}");
        let html = html.split("<table").nth(1).unwrap();
        let texts: Vec<&str> = (html.split(['<', '>']).skip(1).step_by(2))
            .filter(|text| !text.is_empty())
            .collect();
        let cells = [
            "flows",
            "link",
            "12mbit",
            "20mbit",
            "2",
            "0.97",
            "0.7–0.99",
            "✘ 0.8",
            "0.5–0.85",
            "6",
            "1",
            "1–1",
            "✘ 0.4",
            "0.3–0.5",
        ];
        assert_eq!(texts, cells, "{html}");
        // 0.15 and 0.45 times 1 / 9, and times 5 / 9.
        assert!(
            html.contains("--far:0.20") && html.contains("--far:0.40"),
            "{html}"
        );
    }
}
