// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The cells of the sweep, and the runs of each cell.
use crate::definition::{Choice, Definition};
use alcc_results::scenario::{ScenarioOptions, Value};
use std::collections::BTreeMap;

/// All runs of an experiment, in order.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Names of the axes.
    pub axes: Vec<String>,
    /// Cells after each other, the repetitions of a cell together.
    pub runs: Vec<Planned>,
}

/// One run.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The names of the choices, one for each axis.
    pub cell: Vec<String>,
    /// Which repetition, from 1.
    pub repetition: u32,
    /// The scenario, without placeholders.
    pub scenario: ScenarioOptions,
    /// The same as a command.
    pub command: String,
}

impl Plan {
    /// Fills in every placeholder.
    ///
    /// # Errors
    /// A placeholder that no axis sets: its place, and what there is.
    pub fn new(definition: &Definition) -> Result<Self, String> {
        let mut cells: Vec<Vec<&Choice>> = vec![Vec::new()];
        for axis in &definition.sweep {
            let mut longer = Vec::new();
            for cell in &cells {
                let with = |choice| cell.iter().copied().chain([choice]).collect();
                longer.extend(axis.choices.iter().map(with).collect::<Vec<Vec<&Choice>>>());
            }
            cells = longer;
        }
        let mut runs = Vec::new();
        for cell in &cells {
            for repetition in 1..=definition.starts {
                runs.push(planned(definition, cell, repetition)?);
            }
        }
        Ok(Self {
            axes: definition.sweep.iter().map(|a| a.key.clone()).collect(),
            runs,
        })
    }
}

fn planned(definition: &Definition, cell: &[&Choice], repetition: u32) -> Result<Planned, String> {
    let mut set: BTreeMap<&str, &str> = BTreeMap::new();
    for choice in cell {
        set.extend(choice.set.iter().map(|(k, v)| (k.as_str(), v.as_str())));
    }
    let number = repetition.to_string();
    set.insert("start", &number);
    let mut scenario = definition.scenario.clone();
    let mut wrong = None;
    scenario.each(&mut |_, value| {
        if let Err(e) = fill(value, &set) {
            wrong.get_or_insert(e);
        }
    });
    if let Some(wrong) = wrong {
        return Err(wrong);
    }
    if scenario.seed.is_none() {
        scenario.seed = Some(Value::option("seed", number));
    }
    Ok(Planned {
        cell: cell.iter().map(|choice| choice.name.clone()).collect(),
        repetition,
        command: command(&mut scenario.clone()),
        scenario,
    })
}

/// Puts what `set` says in the place of each `{placeholder}`.
fn fill(value: &mut Value, set: &BTreeMap<&str, &str>) -> Result<(), String> {
    // A value may itself have a placeholder: a scheme in a flow, its parameter in the scheme.
    for _ in 0..4 {
        let Some((before, rest)) = value.text.split_once('{') else {
            return Ok(());
        };
        let Some((name, _)) = rest.split_once('}') else {
            return Err(format!("{}: '{before}{{' is not closed", value.place));
        };
        let Some(with) = set.get(name) else {
            let known = set.keys().copied();
            let wrong = crate::definition::no_such("placeholder", name, known);
            return Err(format!("{}: {wrong}", value.place));
        };
        let (placeholder, with) = (format!("{{{name}}}"), (*with).to_owned());
        value.text = value.text.replace(&placeholder, &with);
    }
    Ok(())
}

/// What gives the same on a command line.
fn command(scenario: &mut ScenarioOptions) -> String {
    let mut text = "alcc sim".to_owned();
    scenario.each(&mut |key, value| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_=:,./%@*+".contains(c);
        let quote = if value.text.chars().all(plain) {
            ""
        } else {
            "'"
        };
        text += &format!(" --{key} {quote}{}{quote}", value.text);
    });
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_has_its_values_and_its_seeds() {
        let text = r#"title = "t"
source = "s"
statement = "x"
starts = 2
[scenario]
link = "{rate}"
flow = ["{scheme}", "cubic@{start}s"]
[[sweep]]
key = "rate"
values = ["12mbit", "24mbit"]
[[sweep]]
key = "scheme"
values = [{ name = "Verus", scheme = "verus:r={r}", r = "4" }, "copa"]
"#;
        let definition = Definition::from_toml(text, "e.toml").unwrap();
        let plan = Plan::new(&definition).unwrap();
        assert_eq!(plan.axes, ["rate", "scheme"]);
        assert_eq!(plan.runs.len(), 8);
        let run = &plan.runs[1];
        assert_eq!(
            (run.cell.as_slice(), run.repetition),
            (&["12mbit".to_owned(), "Verus".to_owned()][..], 2)
        );
        assert_eq!(
            run.command,
            "alcc sim --link 12mbit --flow verus:r=4 --flow cubic@2s --seed 2"
        );
        let unknown = text.replace("{rate}", "{rat}");
        let definition = Definition::from_toml(&unknown, "e.toml").unwrap();
        let wrong = Plan::new(&definition).unwrap_err();
        assert!(
            wrong.starts_with("e.toml:6: link: no placeholder 'rat' (did you mean rate?)"),
            "{wrong}"
        );
    }
}
