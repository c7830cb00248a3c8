// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fuzz targets for scenario files.
use super::one_line;
use alcc_results::scenario::{Files, ScenarioOptions};
use alcc_sim::Simulation;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Every file is a trace of constant 12 Mbit/s: no name reaches the machine's own files.
struct Twelve;

impl Files for Twelve {
    fn find(&self, name: &str) -> Option<PathBuf> {
        Some(name.into())
    }

    fn open(&self, _: &Path) -> io::Result<Box<dyn Read>> {
        Ok(Box::new("1\n".as_bytes()))
    }
}

/// Any text is a scenario that the simulator takes, or an error of one line.
pub(super) fn scenario(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    // To draw a synthetic channel takes longer than a thousand other inputs.
    if text.contains("synth") {
        return;
    }
    let resolved = ScenarioOptions::from_toml(text, "fuzzed.toml")
        .and_then(|options| options.resolve(&alcc_zoo::registry(), &Twelve));
    let resolved = match resolved {
        Ok(resolved) => resolved,
        Err(e) => {
            assert!(!e.contains('\n'), "a message of several lines: {e}");
            return one_line(e);
        }
    };
    match Simulation::new(&resolved.scenario) {
        Ok(simulation) => assert!(!simulation.is_over()),
        Err(e) => {
            assert!(!e.to_string().contains('\n'), "several lines: {e}");
            one_line(e);
        }
    }
}
