// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Links by name: `alcc-lab emulate --profile 5g-train`. A profile sets options; options of the
//! command line override it.
use alcc_units::SpecError;
use std::str::FromStr;

/// Contents of a profile. Links are synthetic scenarios with their radio links; names and values
/// are those of the options.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Profile {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) down: &'static str,
    pub(super) up: &'static str,
    /// One way, outside the radio link.
    pub(super) delay: &'static str,
    pub(super) queue: &'static str,
    pub(super) queue_up: &'static str,
    /// Towards CMD; empty: what belongs to the scenario.
    pub(super) radio: &'static [&'static str],
    /// Options of the direction from CMD.
    pub(super) radio_up: &'static [&'static str],
}

/// Which figures are published stands beside the scenarios (lab/trace) and the radio links
/// (lab/link/src/radio). Delays, queues, rates up and how often a train changes cells are
/// choices of this project.
pub(super) const PROFILES: &[Profile] = &[
    Profile {
        name: "5g-train",
        about: "5G NR, a train that changes cells every 15 s",
        down: "synth:nr",
        up: "synth:lte-driving",
        delay: "15ms",
        queue: "droptail:bytes=4000000",
        queue_up: "droptail:bytes=1000000",
        radio: &["harq", "rlc", "handover:every=15s"],
        radio_up: &["grant", "harq", "handover:every=15s"],
    },
    Profile {
        name: "wifi-cafe",
        about: "Wi-Fi that several share, over a cable of 25/5 Mbit/s",
        down: "25mbit",
        up: "5mbit",
        delay: "10ms",
        queue: "droptail:bytes=500000",
        queue_up: "droptail:bytes=250000",
        radio: &["aggregation"],
        radio_up: &["aggregation"],
    },
    Profile {
        name: "starlink",
        about: "satellites in low orbit, another one every 15 s",
        down: "synth:leo",
        up: "10mbit",
        delay: "12ms",
        queue: "droptail:bytes=2000000",
        queue_up: "droptail:bytes=500000",
        radio: &["leo"],
        radio_up: &["leo"],
    },
    Profile {
        name: "lte-edge",
        about: "LTE at the edge of a cell, driving, with outages",
        down: "synth:lte-driving",
        up: "2mbit",
        delay: "25ms",
        queue: "droptail:bytes=2000000",
        queue_up: "droptail:bytes=500000",
        radio: &["harq:errors=0.3", "rlc"],
        radio_up: &["grant", "harq:errors=0.3"],
    },
];

impl FromStr for &'static Profile {
    type Err = SpecError;

    fn from_str(name: &str) -> Result<Self, SpecError> {
        let named = |profile: &&'static Profile| profile.name == name;
        let names = PROFILES.iter().map(|profile| profile.name);
        let found = PROFILES.iter().find(named);
        found.ok_or_else(|| SpecError::unknown("profile", name, names))
    }
}

/// The short help of `--profile`.
pub(super) fn help() -> String {
    let all: Vec<_> = PROFILES.iter().map(|p| p.name).collect();
    format!("Link by name: {}", all.join(", "))
}

/// The long help of `--profile`.
pub(super) fn long_help() -> String {
    let all = PROFILES
        .iter()
        .map(|p| format!("- {}: {}", p.name, p.about));
    let all: Vec<_> = all.collect();
    format!(
        "Link by name; other options override it\n\n{}",
        all.join("\n")
    )
}
