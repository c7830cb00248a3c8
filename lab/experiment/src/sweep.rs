// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sweeps: experiments from options, without expectations. Cells, starts, storage, figures and
//! tables are the same as for other experiments.
use crate::definition::{Axis, Choice, Definition, Report, Subject};
use crate::run::Run;
use alcc_results::scenario::{ScenarioOptions, Value, parts};
use std::collections::BTreeMap;

/// Maximum number of values of one axis.
const MAX_VALUES: usize = 1000;
/// Steps of a range that names none: ten values.
const EVENLY: f64 = 9.0;
const USAGE: &str = "write KEY=VALUE,VALUE,... (or with ; between values that have commas) or KEY=FROM..TO, FROM..TO/STEP or FROM..TO*FACTOR";

/// The experiment that varies `vary` of `scenario`. Each is `KEY=VALUES`. The values replace
/// `{KEY}` in the scenario, or become the scenario's key of that name.
///
/// # Errors
/// One line: the axis, what was found, what would be right.
pub fn definition(
    mut scenario: ScenarioOptions,
    vary: &[String],
    runs: u32,
    report: Report,
) -> Result<Definition, String> {
    let mut sweep = lists(&mut scenario)?;
    for text in vary {
        let axis = axis(text).map_err(|e| format!("--vary '{text}': {e}"))?;
        if sweep.iter().any(|other| other.key == axis.key) {
            return Err(format!("--vary '{text}': {} is varied twice", axis.key));
        }
        insert_placeholder(&mut scenario, &axis.key)?;
        sweep.push(axis);
    }
    if sweep.is_empty() {
        return Err(
            "nothing varies: give --vary KEY=VALUES, or a list such as --rtt 20ms,80ms".to_owned(),
        );
    }
    let names: Vec<&str> = sweep.iter().map(|axis| axis.key.as_str()).collect();
    let definition = Definition {
        title: format!("Sweep over {}", names.join(", ")),
        source: String::new(),
        statement: String::new(),
        in_part: None,
        explained_by: None,
        needs: None,
        starts: runs,
        subject: Subject::Flows,
        scenario,
        sweep,
        report,
        expect: Vec::new(),
    };
    definition
        .check()
        .map_err(|(path, why)| match path.last() {
            Some(key) if ["x", "y"].contains(&key.as_str()) => {
                format!("--{key}: {}", why.trim_start_matches("report: "))
            }
            _ => why,
        })?;
    Ok(definition)
}

/// Names the choices for tables and legends: those that are flows of this project's own form of an
/// algorithm get ` (tuned)`, see [`alcc_results::Row::label`]. Files of rows keep the values.
pub fn label(definition: &mut Definition, runs: &mut [Run]) {
    for (i, axis) in definition.sweep.iter_mut().enumerate() {
        for choice in &mut axis.choices {
            let mut own: Vec<&mut Run> = runs
                .iter_mut()
                .filter(|run| run.cell.get(i) == Some(&choice.name))
                .collect();
            let name = Some(choice.name.as_str());
            let is_tuned = own.iter().flat_map(|run| &run.flows).any(|row| {
                let names = [row.flow.as_deref(), Some(&row.scheme), Some(&row.algorithm)];
                names.contains(&name) && row.label() != row.scheme
            });
            if is_tuned {
                choice.name += " (tuned)";
                for run in &mut own {
                    run.cell[i].clone_from(&choice.name);
                }
            }
        }
    }
}

/// The axes that the scenario's own lists are, such as `20ms,80ms`. A placeholder takes the place of
/// each.
fn lists(scenario: &mut ScenarioOptions) -> Result<Vec<Axis>, String> {
    let mut found: Vec<Result<Axis, String>> = Vec::new();
    scenario.for_each(&mut |key, value| {
        let names = parts(&value.text, key).unwrap_or_default();
        if names.len() > 1 {
            found.push(listed(key, names).map_err(|e| value.error(e)));
            value.text = format!("{{{key}}}");
        }
    });
    let axes = found.into_iter().collect::<Result<Vec<Axis>, _>>()?;
    for (n, axis) in axes.iter().enumerate() {
        if axes[..n].iter().any(|other| other.key == axis.key) {
            let key = &axis.key;
            return Err(format!(
                "--{key}: two lists: write one as {{NAME}}, and --vary NAME=VALUES"
            ));
        }
    }
    Ok(axes)
}

/// Adds the placeholder `{key}` to the scenario, unless it is there.
fn insert_placeholder(scenario: &mut ScenarioOptions, key: &str) -> Result<(), String> {
    let placeholder = format!("{{{key}}}");
    let (mut used, mut values) = (false, 0);
    scenario.for_each(&mut |name, value| {
        used |= value.text.contains(&placeholder);
        values += usize::from(name == key);
    });
    if used {
        return Ok(());
    }
    if values > 0 {
        return Err(format!(
            "--vary {key}: the scenario has a {key} already: write {placeholder} into it where the values belong"
        ));
    }
    scenario.add(key, Value::option(&format!("vary {key}"), placeholder))
}

fn axis(text: &str) -> Result<Axis, String> {
    let (key, values) = text.split_once('=').ok_or(USAGE)?;
    let names = match range(values)? {
        Some(names) => names,
        None => {
            if values.contains(';') {
                values.split(';').map(|v| v.trim().to_owned()).collect()
            } else {
                parts(values, "value").map_err(|_| USAGE)?
            }
        }
    };
    listed(key, names)
}

fn listed(key: &str, names: Vec<String>) -> Result<Axis, String> {
    let mut choices: Vec<Choice> = Vec::new();
    for name in names {
        if name.is_empty() || key.is_empty() {
            return Err(USAGE.to_owned());
        }
        if choices.iter().any(|choice| choice.name == name) {
            return Err(format!("'{name}' is given twice: leave one out"));
        }
        choices.push(Choice {
            set: BTreeMap::from([(key.to_owned(), name.clone())]),
            name,
        });
    }
    let key = key.to_owned();
    Ok(Axis { key, choices })
}

/// A number and its unit.
fn split_unit(text: &str) -> Option<(f64, &str)> {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let number = text[..end].parse::<f64>().ok()?;
    Some((number, &text[end..]))
}

/// Expands `10ms..100ms/10ms` or `1mbit..64mbit*2`. `None` if it is not a range.
fn range(text: &str) -> Result<Option<Vec<String>>, String> {
    if text.contains([',', ';', '=']) {
        return Ok(None);
    }
    // What does not begin with a number is a value, such as ../lte.trace.
    let Some((from, rest)) = text
        .split_once("..")
        .filter(|(from, _)| split_unit(from).is_some())
    else {
        return Ok(None);
    };
    let evenly;
    let rest = match (
        rest.contains(['/', '*']),
        split_unit(from),
        split_unit(rest),
    ) {
        (false, Some((low, unit)), Some((high, _))) if low < high => {
            let step = (high - low) / EVENLY;
            evenly = format!("{rest}/{step}{unit}");
            &evenly
        }
        (false, Some((low, _)), Some((high, _))) if low >= high => {
            return Err(format!(
                "'{text}' does not lead upwards: write the smaller value first"
            ));
        }
        _ => rest,
    };
    let (to, step, times) = match (rest.split_once('/'), rest.split_once('*')) {
        (Some((to, step)), None) => (to, step, false),
        (None, Some((to, step))) => (to, step, true),
        _ => return Err(USAGE.to_owned()),
    };
    let read = || Some((split_unit(from)?, split_unit(to)?, split_unit(step)?));
    let ((low, unit), (high, unit_of_high), (step, unit_of_step)) = read().ok_or(USAGE)?;
    // Zero is the same in every unit.
    let unit = if low == 0.0 && unit.is_empty() {
        unit_of_high
    } else {
        unit
    };
    let step_unit = if times { "" } else { unit };
    if unit != unit_of_high || unit_of_step != step_unit {
        return Err(format!(
            "'{text}': write one unit throughout, such as 10ms..100ms/10ms, and a factor without one"
        ));
    }
    let grows = if times {
        step > 1.0 && low > 0.0
    } else {
        step > 0.0
    };
    if !grows || high < low {
        return Err(format!(
            "'{text}' has no values: write a step or factor that leads upwards"
        ));
    }
    let mut values = Vec::new();
    // A tolerance, so that rounding does not lose the last value.
    let slack = if times { high * 1e-9 } else { step * 1e-6 };
    for n in 0..=MAX_VALUES {
        let n = n as f64;
        let value = if times {
            low * step.powf(n)
        } else {
            low + step * n
        };
        if value > high + slack {
            return Ok(Some(values));
        }
        let rounded = (value * 1e6).round() / 1e6;
        values.push(format!("{rounded}{unit}"));
    }
    Err(format!("'{text}' has more than {MAX_VALUES} values"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Plan;

    fn values(text: &str) -> Vec<String> {
        let axis = axis(text).unwrap();
        axis.choices.into_iter().map(|choice| choice.name).collect()
    }

    #[test]
    fn values_are_listed_stepped_or_multiplied() {
        assert_eq!(values("rtt=20ms,40ms"), ["20ms", "40ms"]);
        assert_eq!(
            values("flow=verus:r=2,epoch=5ms,copa"),
            ["verus:r=2,epoch=5ms", "copa"]
        );
        assert_eq!(values("mbps=1;2,5"), ["1", "2,5"]);
        assert_eq!(
            values("d=10ms..40ms/10ms"),
            ["10ms", "20ms", "30ms", "40ms"]
        );
        assert!(axis("p=0.1..0.3%/0.1%").is_err());
    }

    #[test]
    fn ranges_without_a_step_have_ten_values() {
        let ten = values("d=10ms..100ms");
        assert_eq!((ten.len(), &ten[0][..], &ten[9][..]), (10, "10ms", "100ms"));
        assert_eq!(values("rtt=0ms..1ms")[1], "0.111111ms");
        assert!(axis("d=9ms..1ms").is_err() && axis("d=1ms..2s").is_err());
        assert_eq!(values("link=../lte.trace"), ["../lte.trace"]);
    }

    #[test]
    fn ranges_reach_their_end() {
        for range in ["p=0%..0.3%/0.1%", "p=0..0.3%/0.1%"] {
            assert_eq!(values(range), ["0%", "0.1%", "0.2%", "0.3%"]);
        }
        assert_eq!(
            values("rate=1mbit..8mbit*2"),
            ["1mbit", "2mbit", "4mbit", "8mbit"]
        );
    }

    #[test]
    fn values_take_the_place_of_a_placeholder_or_of_a_key() {
        let mut scenario = ScenarioOptions::default();
        scenario
            .add("flow", Value::option("flow", "budget:delay={delay}"))
            .unwrap();
        let vary = ["delay=10ms,20ms".to_owned(), "rtt=40ms,80ms".to_owned()];
        let swept = definition(scenario.clone(), &vary, 1, Report::default()).unwrap();
        let plan = Plan::new(&swept).unwrap();
        let commands: Vec<&str> = plan.runs.iter().map(|run| run.command.as_str()).collect();
        assert_eq!(
            commands[1],
            "alcc-lab sim --rtt 80ms --flow budget:delay=10ms --seed 1"
        );
        assert_eq!(commands.len(), 4);
        let mut listed = ScenarioOptions::default();
        for (key, text) in [("rtt", "20ms,40ms"), ("step", "5s:rate=9mbit,loss=1%")] {
            listed.add(key, Value::option(key, text)).unwrap();
        }
        let flows = ["flow=copa,copa/over=cubic".to_owned()];
        let swept = definition(listed, &flows, 1, Report::default()).unwrap();
        let keys: Vec<&str> = swept.sweep.iter().map(|axis| axis.key.as_str()).collect();
        assert_eq!(keys, ["rtt", "flow"]);
        for (vary, why) in [
            ("delay", "write KEY="),
            ("delay=", "write KEY="),
            ("delay=1ms,1ms", "'1ms' is given twice"),
            ("delay=9ms..1ms", "write the smaller value first"),
            ("delya=1ms", "no key 'delya' (did you mean delay?)"),
            ("flow=copa,cubic", "write {flow} into it"),
            ("delay=9ms..1ms/1ms", "leads upwards"),
            ("delay=1ms..9s/1ms", "one unit throughout"),
            ("delay=1ms..9000ms/1ms", "more than 1000 values"),
        ] {
            let wrong = definition(scenario.clone(), &[vary.to_owned()], 1, Report::default());
            let wrong = wrong.unwrap_err();
            assert!(wrong.contains(why) && !wrong.contains('\n'), "{wrong}");
        }
    }

    #[test]
    fn a_value_is_idle_if_it_is_in_every_cell() {
        let idle = |vary: &str| {
            let mut scenario = ScenarioOptions::default();
            let jitter = Value::option("jitter", "1ms");
            scenario.add("jitter", jitter).unwrap();
            let swept = definition(scenario, &[vary.to_owned()], 2, Report::default());
            let plan = Plan::new(&swept.unwrap()).unwrap();
            plan.idle(&alcc_zoo::registry(), &())
        };
        let both = idle("flow=copa;cubic");
        assert!(
            both.len() == 1 && both[0].starts_with("--jitter: "),
            "{both:?}"
        );
        assert_eq!(idle("flow=copa;copa/over=cubic"), [""; 0]);
    }
}
