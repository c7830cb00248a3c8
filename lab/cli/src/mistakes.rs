// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Mistakes with options that are known, and what to do instead.
use alcc_cli::usage::{Hint, Idle};

/// An option that another command has, or half of what belongs together.
pub(crate) const HINTS: &[Hint] = &[
    ("sim", "--cc", "a flow names its algorithm: --flow budget"),
    (
        "sweep",
        "--cc",
        "a flow names its algorithm: --flow budget, or several by --vary 'flow=budget;copa'",
    ),
    ("compare", "--cc", "give --schemes cubic,alcc-budget"),
    ("demo", "--cc", "give --schemes cubic,alcc-budget"),
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
        "it is a part of the board: give --board DIR --live FILE",
    ),
];

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
