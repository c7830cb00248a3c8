// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Known mistakes with options, and the remedies.
use alcc_cli::usage::{Hint, Idle};

/// An option that another command has, or half of what belongs together.
pub(crate) const HINTS: &[Hint] = &[
    ("sim", "--cc", "a flow names its algorithm: --flow budget"),
    (
        "sweep",
        "--cc",
        "a flow names its algorithm: --flow budget, or several: --flow budget,copa",
    ),
    (
        "compare",
        "--seeds",
        "repetitions are called runs: give --runs",
    ),
    (
        "sweep",
        "--starts",
        "repetitions are called runs: give --runs",
    ),
    (
        "compare",
        "--starts",
        "repetitions are called runs: give --runs",
    ),
    (
        "sweep",
        "--seeds",
        "repetitions are called runs: give --runs",
    ),
    ("compare", "--cc", "give --schemes cubic,budget/over=cubic"),
    ("demo", "--cc", "give --schemes cubic,budget/over=cubic"),
    (
        "emulate",
        "--cc",
        "the emulator has no algorithm: give it to the program, as in 'alcc-lab emulate -- alcc send --cc budget'",
    ),
    (
        "reproduce",
        "--full",
        "it is for real programs: give --emu --full",
    ),
    (
        "reproduce",
        "--cells",
        "it is for real programs: give --emu --cells AXIS=NAME",
    ),
    (
        "reproduce",
        "--applications",
        "it is for whole runs of real programs: give --emu --full --applications DIR",
    ),
    (
        "reproduce",
        "--live",
        "it belongs to the board: give --board DIR --live FILE",
    ),
];

/// Options that a file of scenarios replaces.
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

/// Options that have no effect with others.
pub(crate) const IDLE: &[Idle] = &[
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
        command: "sim",
        options: &["--qlog-version"],
        if_given: |given| !given.has("--qlog"),
        what: "it is for a qlog: add --qlog FILE",
    },
    Idle {
        command: "compare",
        options: OF_COMPARED_SCENARIOS,
        if_given: |given| given.has("--reference"),
        what: "--reference takes the scenarios from its file and stores nothing: omit one of the two",
    },
    Idle {
        command: "compare",
        options: OF_COMPARED_SCENARIOS,
        if_given: |given| given.has("--tuned"),
        what: "--tuned has scenarios of its own and stores nothing: omit one of the two",
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
        what: "the other host selects how to measure: give it there",
    },
    Idle {
        command: "trace record",
        options: &["--together", "--count", "--sessions", "--max-duration"],
        if_given: |given| !given.has("--listen"),
        what: "it is for the listening host: give it there, with --listen",
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

#[cfg(test)]
mod tests {
    use super::*;
    use alcc_cli::usage::matches;

    fn found(line: &str) -> Option<String> {
        let (of, program) = if line.starts_with("alcc-lab ") {
            (&crate::LAB, crate::command_line())
        } else {
            (&alcc_cli::ALCC, alcc_cli::command())
        };
        let words = line.split(' ').map(Into::into).collect();
        match matches(of, program, words) {
            Ok(_) => None,
            Err(said) => Some(said.expect_err("a mistake").to_string()),
        }
    }

    #[test]
    fn what_has_no_effect_is_named_with_what_is_missing() {
        for (line, parts) in [
            ("alcc-lab sim --phase 1s-2s", ["--phase ", "--json"]),
            ("alcc-lab sim --pcap-at link", ["--pcap-at ", "--pcap FILE"]),
            (
                "alcc-lab compare --sim --traces x --reference y --rtt 10ms",
                ["--rtt ", "--reference"],
            ),
            (
                "alcc-lab compare --sim --traces x --tuned copa --loss-up 1%",
                ["--loss-up ", "--tuned"],
            ),
            ("alcc top --once --interval 2s", ["--interval ", "--once"]),
            (
                "alcc-lab trace convert x --unit ms",
                ["--unit ", "--from packets"],
            ),
            (
                "alcc-lab trace convert x --from rates --size 9",
                ["--size ", "packets"],
            ),
            (
                "alcc-lab trace convert x --bin 9ms",
                ["--bin ", "--to rates"],
            ),
            ("alcc-lab trace synth --seed 3", ["--seed ", "SCENARIO"]),
            (
                "alcc-lab trace record --listen :1 --mode probe",
                ["--mode ", "other host"],
            ),
            (
                "alcc-lab trace record host --count 2",
                ["--count ", "--listen"],
            ),
            (
                "alcc-lab trace record host --interval 1ms",
                ["--interval ", "probe"],
            ),
            (
                "alcc-lab mdi train --add x --seeds 1..2",
                ["--seeds ", "--link"],
            ),
            (
                "alcc-lab mdi train --form counts --cut 0.1",
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
            "alcc-lab sim --phase 1s-2s --json",
            "alcc-lab sim --pcap x --pcap-at link",
            "alcc-lab compare --sim --traces x --rtt 10ms",
            "alcc top --interval 2s",
            "alcc-lab trace convert x --from packets --unit ms --to rates --bin 9ms",
            "alcc-lab trace synth lte --seed 3",
            "alcc-lab trace record --listen :1 --count 2",
            "alcc-lab trace record host --mode probe --interval 1ms",
            "alcc-lab mdi train --add x --link lte --seeds 1..2",
            "alcc-lab mdi train --form compact --cut 0.1",
        ] {
            assert_eq!(found(line), None, "{line}");
        }
    }

    /// A name that no option has would never be found.
    #[test]
    fn every_option_is_one_of_its_command() {
        let programs = [
            (alcc_cli::ALCC.idle, alcc_cli::command()),
            (IDLE, crate::command_line()),
        ];
        for (table, program) in &programs {
            for idle in *table {
                let mut at = program;
                for word in idle.command.split(' ') {
                    at = at.find_subcommand(word).unwrap();
                }
                for option in idle.options {
                    let name = option.strip_prefix("--").unwrap_or(option);
                    let mut all = at.get_arguments();
                    assert!(all.any(|arg| arg.get_long() == Some(name)), "{option}");
                }
            }
        }
    }
}
