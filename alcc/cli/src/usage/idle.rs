// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Options that cannot have an effect with the others given. Whoever gives one expects something
//! of it, so it is a mistake. What depends on the values of a scenario is seen where it is read.
use super::{Typed, name};
use std::ffi::OsStr;

/// What was typed.
struct Given<'a>(&'a [Typed<'a>]);

impl Given<'_> {
    fn has(&self, option: &str) -> bool {
        self.0.iter().any(|(arg, _)| name(arg) == option)
    }

    fn is(&self, option: &str, value: &str) -> bool {
        let mut all = self.0.iter();
        all.any(|(arg, values)| name(arg) == option && values.contains(&OsStr::new(value)))
    }
}

struct Idle {
    /// Without `alcc`.
    command: &'static str,
    options: &'static [&'static str],
    if_given: fn(&Given<'_>) -> bool,
    /// What it is for, and what to do.
    what: &'static str,
}

/// What a file with scenarios says itself.
const OF_COMPARED_SCENARIOS: &[&str] = &[
    "--duration",
    "--runs",
    "--seed",
    "--rtt",
    "--queue",
    "--loss",
    "--loss-up",
    "--up",
    "--start",
    "--settle",
    "--out",
];

const IDLE: &[Idle] = &[
    Idle {
        command: "sim",
        options: &["--phase"],
        if_given: |given| !given.has("--json"),
        what: "the table has no phases: add --json",
    },
    Idle {
        command: "sim",
        options: &["--pcap-at"],
        if_given: |given| !given.has("--pcap"),
        what: "it is for a capture: add --pcap FILE",
    },
    Idle {
        command: "compare",
        options: OF_COMPARED_SCENARIOS,
        if_given: |given| given.has("--reference"),
        what: "the file of --reference says which scenarios, and nothing is kept: leave one of the two out",
    },
    Idle {
        command: "compare",
        options: OF_COMPARED_SCENARIOS,
        if_given: |given| given.has("--tuned"),
        what: "--tuned has scenarios of its own, and keeps nothing: leave one of the two out",
    },
    Idle {
        command: "top",
        options: &["--interval"],
        if_given: |given| given.has("--once"),
        what: "--once shows one table: leave one of the two out",
    },
    Idle {
        command: "trace convert",
        options: &["--size"],
        if_given: |given| !given.is("--from", "packets"),
        what: "it is for arrivals of packets: add --from packets",
    },
    Idle {
        command: "trace convert",
        options: &["--unit"],
        if_given: |given| !given.is("--from", "packets") && !given.is("--from", "rates"),
        what: "it is for arrivals of packets and for rates: add --from packets or --from rates",
    },
    Idle {
        command: "trace convert",
        options: &["--column", "--every"],
        if_given: |given| !given.is("--from", "rates"),
        what: "it is for rates that are read: add --from rates",
    },
    Idle {
        command: "trace convert",
        options: &["--bin"],
        if_given: |given| !given.is("--to", "rates"),
        what: "it is for rates: add --to rates",
    },
    Idle {
        command: "trace synth",
        options: &["--seed", "--length", "--output"],
        if_given: |given| !given.has("SCENARIO"),
        what: "it is for a trace: name a SCENARIO",
    },
    Idle {
        command: "trace record",
        options: &[
            "--mode",
            "--duration",
            "--warm-up",
            "--down",
            "--up",
            "--size",
            "--interval",
            "--label",
            "--bind",
            "--patience",
        ],
        if_given: |given| given.has("--listen"),
        what: "the host that names this one says how to measure: give it there",
    },
    Idle {
        command: "trace record",
        options: &["--together", "--count", "--sessions", "--max-duration"],
        if_given: |given| !given.has("--listen"),
        what: "it is for the host that waits: give it with --listen there",
    },
    Idle {
        command: "trace record",
        options: &["--interval"],
        if_given: |given| !given.is("--mode", "probe"),
        what: "it is for probing: add --mode probe",
    },
    Idle {
        command: "mdi train",
        options: &[
            "--teacher",
            "--rtt",
            "--jobs",
            "--seeds",
            "--duration",
            "--queue",
            "--counting",
            "--plugin",
        ],
        if_given: |given| given.has("--add") && !given.has("--link"),
        what: "--add alone simulates nothing: name a --link",
    },
    Idle {
        command: "mdi train",
        options: &["--cut", "--smoothing", "--least"],
        if_given: |given| given.is("--form", "counts"),
        what: "counts are kept as they are: give it where the table is written",
    },
];

/// The first option that has no effect, and what to do.
pub(super) fn idle(command: &str, typed: &[Typed<'_>]) -> Option<String> {
    let given = Given(typed);
    let here = IDLE.iter().filter(|idle| idle.command == command);
    let mut here = here.filter(|idle| (idle.if_given)(&given));
    here.find_map(|idle| {
        let option = idle.options.iter().find(|option| given.has(option))?;
        Some(format!("{option} has no effect here: {}", idle.what))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usage::typed;
    use clap::CommandFactory;

    fn found(line: &str) -> Option<String> {
        let program = crate::Cli::command();
        let matches = program.clone().try_get_matches_from(line.split(' '));
        let matches = matches.unwrap_or_else(|e| panic!("{line}: {e}"));
        let (command, _) = crate::usage::command(
            &program,
            &line.split(' ').map(Into::into).collect::<Vec<_>>(),
        );
        let command = command.strip_prefix("alcc ").unwrap();
        idle(command, &typed(&program, &matches))
    }

    #[test]
    fn what_has_no_effect_is_named_with_what_is_missing() {
        for (line, parts) in [
            ("alcc sim --phase 1s-2s", ["--phase ", "--json"]),
            ("alcc sim --pcap-at link", ["--pcap-at ", "--pcap FILE"]),
            (
                "alcc compare --sim --traces x --reference y --rtt 10ms",
                ["--rtt ", "--reference"],
            ),
            (
                "alcc compare --sim --traces x --tuned copa --loss-up 1%",
                ["--loss-up ", "--tuned"],
            ),
            ("alcc top --once --interval 2s", ["--interval ", "--once"]),
            (
                "alcc trace convert x --unit ms",
                ["--unit ", "--from packets"],
            ),
            (
                "alcc trace convert x --from rates --size 9",
                ["--size ", "packets"],
            ),
            ("alcc trace convert x --bin 9ms", ["--bin ", "--to rates"]),
            ("alcc trace synth --seed 3", ["--seed ", "SCENARIO"]),
            (
                "alcc trace record --listen :1 --mode probe",
                ["--mode ", "names this one"],
            ),
            ("alcc trace record host --count 2", ["--count ", "--listen"]),
            (
                "alcc trace record host --interval 1ms",
                ["--interval ", "probe"],
            ),
            (
                "alcc mdi train --add x --seeds 1..2",
                ["--seeds ", "--link"],
            ),
            (
                "alcc mdi train --form counts --cut 0.1",
                ["--cut ", "table"],
            ),
        ] {
            let said = found(line).unwrap_or_else(|| panic!("{line} was taken"));
            assert!(
                parts.iter().all(|part| said.contains(part)),
                "{line}: {said}"
            );
        }
    }

    #[test]
    fn what_has_an_effect_is_taken() {
        for line in [
            "alcc sim --phase 1s-2s --json",
            "alcc sim --pcap x --pcap-at link",
            "alcc compare --sim --traces x --rtt 10ms",
            "alcc top --interval 2s",
            "alcc trace convert x --from packets --unit ms --to rates --bin 9ms",
            "alcc trace synth lte --seed 3",
            "alcc trace record --listen :1 --count 2",
            "alcc trace record host --mode probe --interval 1ms",
            "alcc mdi train --add x --link lte --seeds 1..2",
            "alcc mdi train --form compact --cut 0.1",
        ] {
            assert_eq!(found(line), None, "{line}");
        }
    }

    /// A name that no option has would never be found.
    #[test]
    fn every_option_is_one_of_its_command() {
        let program = crate::Cli::command();
        for idle in IDLE {
            let mut at = &program;
            for word in idle.command.split(' ') {
                at = at.find_subcommand(word).unwrap();
            }
            let names: Vec<String> = at.get_arguments().map(name).collect();
            for option in idle.options {
                assert!(names.iter().any(|name| name == option), "{option}");
            }
        }
    }
}
