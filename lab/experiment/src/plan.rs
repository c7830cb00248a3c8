// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The cells of the sweep, and the runs of each cell.
use crate::definition::{Choice, Definition, Subject};
use alcc_cc::Registry;
use alcc_results::scenario::{Files, ScenarioOptions, Value};
use alcc_units::{Rng, Span, Time};
use std::collections::BTreeMap;

/// Length of a shortened window from when its last flow starts.
const SHORT: Span = Span::from_secs(10);
const SIMULATED: &str = "alcc-lab sim";
const EMULATED: &str = "alcc-lab sim --emu";

/// All runs of an experiment, in order.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Names of the axes.
    pub axes: Vec<String>,
    /// A missing requirement of the experiment. If set, there are no runs.
    pub needs: Option<String>,
    /// The runs, ordered by cell, then by repetition.
    pub runs: Vec<PlannedRun>,
}

/// One run.
#[derive(Clone, Debug)]
pub struct PlannedRun {
    /// The names of the choices, one for each axis.
    pub cell: Vec<String>,
    /// Number of the repetition, from 1.
    pub repetition: u32,
    /// Subject of the measurement.
    pub subject: Subject,
    /// The scenario, without placeholders.
    pub scenario: ScenarioOptions,
    /// True if the flows are sampled over time.
    pub series: bool,
    /// True if single seconds are kept, to be drawn.
    pub seconds: bool,
    /// True if the flows' delay profiles are watched.
    pub profiles: bool,
    /// The command that runs the same; of an application its name and the options.
    pub command: String,
}

impl Plan {
    /// Fills in every placeholder.
    ///
    /// # Errors
    /// A placeholder that no axis sets: its location, and the known ones.
    pub fn new(definition: &Definition) -> Result<Self, String> {
        let axes = || definition.sweep.iter().map(|a| a.key.clone()).collect();
        if definition.needs.is_some() {
            let runs = Vec::new();
            return Ok(Self {
                axes: axes(),
                needs: definition.needs.clone(),
                runs,
            });
        }
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
            axes: axes(),
            needs: None,
            runs,
        })
    }
}

impl Plan {
    /// The same runs with real programs.
    #[must_use]
    pub fn emulated(mut self) -> Self {
        for run in &mut self.runs {
            run.command = emulated_command(run);
        }
        self
    }

    /// The first repetition of each cell alone, with shorter windows: 10 s from when the last
    /// flow starts. Phases that end later go. A scenario that cannot be read stays as it is; its run
    /// says why.
    #[must_use]
    pub fn shortened(mut self, registry: &Registry, files: &dyn Files) -> Self {
        self.runs.retain(|run| run.repetition == 1);
        for run in &mut self.runs {
            let Ok(resolved) = run.scenario.clone().resolve(registry, files) else {
                continue;
            };
            let starts = resolved.scenario.flows.iter().map(|flow| flow.start);
            let last = starts.max().unwrap_or_default().since(Time::ZERO);
            let window = resolved.scenario.duration.min(last + SHORT);
            run.scenario.duration = Some(Value::option("duration", window.to_string()));
            let mut phases = resolved.phases.iter();
            let ends = |end: u64| Span::from_secs(end) <= window;
            (run.scenario.phase).retain(|_| phases.next().is_some_and(|phase| ends(phase.to)));
            run.command = emulated_command(run);
        }
        self
    }

    /// Only the cells whose choice on the axis `key` is one of `names`. A plan without that axis
    /// stays as it is. False: it has the axis, and none of these choices.
    pub fn keep_cells(&mut self, key: &str, names: &[&str]) -> bool {
        let Some(axis) = self.axes.iter().position(|axis| axis == key) else {
            return true;
        };
        let wanted = |run: &PlannedRun| {
            run.cell
                .get(axis)
                .is_some_and(|c| names.contains(&c.as_str()))
        };
        self.runs.retain(wanted);
        !self.runs.is_empty() || self.needs.is_some()
    }

    /// The values that have no effect in any cell, as [`ScenarioOptions::idle`] says them. A
    /// scenario that cannot be read has none; its run says why.
    pub fn idle(&self, registry: &Registry, files: &dyn Files) -> Vec<String> {
        let of = |run: &PlannedRun| {
            let resolved = run.scenario.clone().resolve(registry, files);
            resolved.map_or_else(
                |_| Vec::new(),
                |resolved| run.scenario.idle(&resolved.scenario.flows),
            )
        };
        let mut cells = self.runs.iter().filter(|run| run.repetition == 1);
        let mut idle = cells.next().map_or_else(Vec::new, of);
        for run in cells {
            if idle.is_empty() {
                break;
            }
            let here = of(run);
            idle.retain(|value| here.contains(value));
        }
        idle
    }

    /// Real time of its runs, one after another. Scenarios that cannot be read take
    /// none.
    pub fn real_time(&self, registry: &Registry, files: &dyn Files) -> Span {
        let resolved = self
            .runs
            .iter()
            .filter_map(|run| run.scenario.clone().resolve(registry, files).ok());
        let durations = resolved.map(|run| run.scenario.duration);
        durations.fold(Span::ZERO, |all, one| all + one)
    }
}

/// Command for the same run with real programs.
fn emulated_command(run: &PlannedRun) -> String {
    let scenario = &mut run.scenario.clone();
    match run.subject {
        Subject::Application(name) => command(scenario, name),
        Subject::Flows | Subject::Channel => command(scenario, EMULATED),
    }
}

fn planned(
    definition: &Definition,
    cell: &[&Choice],
    repetition: u32,
) -> Result<PlannedRun, String> {
    let mut set: BTreeMap<&str, &str> = BTreeMap::new();
    for choice in cell {
        set.extend(choice.set.iter().map(|(k, v)| (k.as_str(), v.as_str())));
    }
    let number = repetition.to_string();
    set.insert("run", &number);
    let mut scenario = definition.scenario.clone();
    let mut wrong = None;
    scenario.for_each(&mut |key, value| match substitute(value, &set) {
        Ok(Same::InEveryRepetition) if key == "seed" => advance(value, repetition - 1),
        Ok(_) => {}
        Err(e) => drop(wrong.get_or_insert(e)),
    });
    if let Some(wrong) = wrong {
        return Err(wrong);
    }
    // A cell may have fewer flows than another.
    for list in [&mut scenario.flow, &mut scenario.defaults.radio] {
        list.retain(|value| !value.text.is_empty());
    }
    if scenario.seed.is_none() {
        scenario.seed = Some(Value::option("seed", number));
    }
    let command = match definition.subject {
        Subject::Flows => command(&mut scenario.clone(), SIMULATED),
        Subject::Application(name) => command(&mut scenario.clone(), name),
        Subject::Channel => {
            let links = scenario.link.iter().filter_map(|link| link.rate.as_ref());
            let names: Vec<&str> = links.map(|rate| rate.text.as_str()).collect();
            format!("alcc-lab trace stats --predict {}", names.join(" "))
        }
    };
    Ok(PlannedRun {
        cell: cell.iter().map(|choice| choice.name.clone()).collect(),
        repetition,
        command,
        subject: definition.subject,
        series: definition.wants_series(),
        seconds: definition.report.has_seconds_of(repetition),
        profiles: definition.wants_profiles(),
        scenario,
    })
}

/// The next seed for each further repetition: with one seed all runs of a cell would be the same. A
/// text that is not a seed stays as it is; its run reports the reason.
fn advance(seed: &mut Value, further: u32) {
    if let Ok(first) = seed.text.parse::<u64>() {
        seed.text = first.wrapping_add(u64::from(further)).to_string();
    }
}

/// Repetitions in which a value stays the same.
enum Same {
    InEveryRepetition,
    /// It names its repetition, or is drawn for it.
    InOneRepetition,
}

/// Replaces each `{placeholder}` by its value in `set`.
fn substitute(value: &mut Value, set: &BTreeMap<&str, &str>) -> Result<Same, String> {
    let mut same = Same::InEveryRepetition;
    // A value may contain a placeholder itself, such as the parameter of a scheme.
    for _ in 0..4 {
        let Some((before, rest)) = value.text.split_once('{') else {
            return Ok(same);
        };
        let Some((name, _)) = rest.split_once('}') else {
            return Err(format!("{}: '{before}{{' is not closed", value.location));
        };
        if name == "run" || name.starts_with("draw:") {
            same = Same::InOneRepetition;
        }
        if let Some(bounds) = name.strip_prefix("draw:") {
            let random_number = random_number(bounds, set.get("run").copied().unwrap_or_default());
            let random_number = random_number.map_err(|e| format!("{}: {e}", value.location))?;
            value.text = value
                .text
                .replacen(&format!("{{{name}}}"), &random_number, 1);
            continue;
        }
        let Some(with) = set.get(name) else {
            let known = set.keys().copied();
            let wrong = match name {
                // As earlier versions called it.
                "start" => "the placeholder '{start}' is now called '{run}'".to_owned(),
                _ => crate::definition::unknown_name("placeholder", name, known),
            };
            return Err(format!("{}: {wrong}", value.location));
        };
        let (placeholder, with) = (format!("{{{name}}}"), (*with).to_owned());
        value.text = value.text.replace(&placeholder, &with);
    }
    Ok(same)
}

/// A random whole number between the bounds. It depends on the repetition and the bounds alone, so
/// that all cells have the same.
fn random_number(bounds: &str, repetition: &str) -> Result<String, String> {
    let number = |text: &str| text.parse::<u64>().ok();
    let split = bounds.split_once("..");
    let found = split.and_then(|(low, high)| Some((number(low)?, number(high)?)));
    let Some((low, high)) = found.filter(|(low, high)| low <= high && *high < u64::MAX) else {
        return Err(format!(
            "'{{draw:{bounds}}}': want two whole numbers, the smaller first, such as {{draw:1300..1600}}"
        ));
    };
    let seed = bounds
        .bytes()
        .fold(number(repetition).unwrap_or(0), |seed, byte| {
            seed.wrapping_mul(0x100_0000_01b3) ^ u64::from(byte)
        });
    Ok((low + Rng::new(seed).below(high - low + 1)).to_string())
}

/// The command `alcc-lab sim` with the options of this scenario.
pub(crate) fn command(scenario: &mut ScenarioOptions, command: &str) -> String {
    let mut text = command.to_owned();
    scenario.for_each(&mut |key, value| {
        text += &format!(" --{key} {}", shell_word(&value.text));
    });
    text
}

/// A word as a shell takes it: a command on a page can be pasted.
pub fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=:,./%@+".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue;
    use std::io::{self, Read};
    use std::path::{Path, PathBuf};

    #[test]
    fn words_of_a_command_can_be_pasted() {
        assert_eq!(shell_word("verus:r=2/over=cubic"), "verus:r=2/over=cubic");
        assert_eq!(shell_word("2*cubic"), "'2*cubic'");
        assert_eq!(shell_word("flow=a;b"), "'flow=a;b'");
        assert_eq!(shell_word("it's"), r"'it'\''s'");
        assert_eq!(shell_word(""), "''");
    }

    /// Every trace is a steady one.
    struct AnyTrace;

    impl Files for AnyTrace {
        fn find(&self, name: &str) -> Option<PathBuf> {
            name.contains('/').then(|| name.into())
        }

        fn open(&self, _: &Path) -> io::Result<Box<dyn Read>> {
            let lines: String = (1..=1000).map(|ms| format!("{ms}\n")).collect();
            Ok(Box::new(io::Cursor::new(lines)))
        }
    }

    #[test]
    fn every_experiment_can_be_shortened() {
        let registry = alcc_zoo::registry();
        let mut read = 0;
        for entry in catalogue::all() {
            let plan = || Plan::new(&entry.definition().unwrap()).unwrap().emulated();
            let whole = plan().runs.into_iter().filter(|run| run.repetition == 1);
            let short = plan().shortened(&registry, &AnyTrace).runs;
            for (whole, short) in whole.zip(short) {
                if whole.scenario.resolve(&registry, &AnyTrace).is_ok() {
                    let short = short.scenario.resolve(&registry, &AnyTrace);
                    assert!(short.is_ok(), "{}: {:?}", entry.id, short.err());
                    read += 1;
                }
            }
        }
        assert!(read > 500, "{read} cells");
    }

    #[test]
    fn cells_are_kept_by_the_choice_on_an_axis() {
        let text = r#"title = "t"
source = "s"
statement = "x"
runs = 2
[scenario]
link = "{trace}"
flow = "cubic"
[[sweep]]
key = "trace"
values = [{ name = "a", trace = "12mbit" }, { name = "b", trace = "24mbit" }, { name = "c", trace = "6mbit" }]
"#;
        let plan = || Plan::new(&Definition::from_toml(text, "e.toml").unwrap()).unwrap();
        let mut kept = plan();
        assert!(kept.keep_cells("trace", &["a", "c"]));
        let cells: Vec<&str> = kept.runs.iter().map(|run| run.cell[0].as_str()).collect();
        assert_eq!(cells, ["a", "a", "c", "c"]);
        let mut other = plan();
        assert!(other.keep_cells("scheme", &["x"]));
        assert_eq!(other.runs.len(), 6);
        assert!(!plan().keep_cells("trace", &["nope"]));
    }

    #[test]
    fn every_cell_has_its_values_and_its_seeds() {
        let text = r#"title = "t"
source = "s"
statement = "x"
runs = 2
[scenario]
link = "{rate}"
flow = ["{scheme}", "cubic@{run}s", "{third}"]
[[sweep]]
key = "rate"
values = ["12mbit", "24mbit"]
[[sweep]]
key = "scheme"
values = [{ name = "Verus", scheme = "verus:r={r}", r = "4", third = "" }, { name = "copa", scheme = "copa", third = "reno" }]
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
            "alcc-lab sim --link 12mbit --flow verus:r=4 --flow cubic@2s --seed 2"
        );
        // An empty text is not a flow.
        let flows = |at: usize| plan.runs[at].scenario.flow.len();
        assert_eq!([flows(1), flows(2)], [2, 3]);
        for (name, says) in [
            ("{rat}", "no placeholder 'rat' (did you mean rate?)"),
            ("{start}", "the placeholder '{start}' is now called '{run}'"),
        ] {
            let unknown = text.replace("{rate}", name);
            let definition = Definition::from_toml(&unknown, "e.toml").unwrap();
            let wrong = Plan::new(&definition).unwrap_err();
            let says = format!("e.toml:6: link: {says}");
            assert!(wrong.starts_with(&says), "{wrong}");
        }
    }

    #[test]
    fn a_given_seed_is_that_of_the_first_repetition() {
        let seeds = |seed: &str| -> Vec<String> {
            let text = format!(
                "title = 't'\nsource = 's'\nstatement = 'x'\nruns = 3\n[scenario]\n{seed}\n\
                 [[sweep]]\nkey = 'first'\nvalues = [{{ name = 'a', first = '40', own = '5{{run}}' }}]\n"
            );
            let plan = Plan::new(&Definition::from_toml(&text, "e.toml").unwrap()).unwrap();
            let seed = |run: PlannedRun| run.scenario.seed.unwrap().text;
            plan.runs.into_iter().map(seed).collect()
        };
        assert_eq!(seeds(""), ["1", "2", "3"]);
        assert_eq!(seeds("seed = 7"), ["7", "8", "9"]);
        assert_eq!(seeds("seed = '{first}'"), ["40", "41", "42"]);
        assert_eq!(seeds("seed = '{own}'"), ["51", "52", "53"]);
        let last = u64::MAX.to_string();
        assert_eq!(seeds(&format!("seed = '{last}'")), [&last[..], "0", "1"]);
        assert_eq!(seeds("seed = 'x'"), ["x"; 3]);
        let drawn = seeds("seed = '{draw:1..1000000}'");
        assert!(drawn[0] != drawn[1] && drawn[1] != drawn[2], "{drawn:?}");
    }

    #[test]
    fn what_is_drawn_is_the_same_in_every_cell_of_a_repetition() {
        let text = r#"title = "t"
source = "s"
statement = "x"
runs = 20
[scenario]
link = "{draw:1300..1600}kbit"
flow = "{scheme}"
[[sweep]]
key = "scheme"
values = ["copa", "cubic"]
"#;
        let plan = Plan::new(&Definition::from_toml(text, "e.toml").unwrap()).unwrap();
        let link = |i: usize| plan.runs[i].scenario.link[0].rate.clone().unwrap().text;
        for i in 0..20 {
            let kbit: u64 = link(i).trim_end_matches("kbit").parse().unwrap();
            assert!((1300..=1600).contains(&kbit), "{kbit}");
            assert_eq!(link(i), link(20 + i));
        }
        let mut all: Vec<String> = (0..20).map(link).collect();
        all.sort_unstable();
        all.dedup();
        assert!(all.len() > 10, "{all:?}");
        let wrong = Definition::from_toml(&text.replace("1300..", "1700.."), "e.toml").unwrap();
        let wrong = Plan::new(&wrong).unwrap_err();
        assert!(wrong.contains("want two whole numbers"), "{wrong}");
    }
}
