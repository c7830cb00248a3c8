// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `alcc-lab worst`: what the default does on a fixed set of random scenarios, and that every finding
//! can be repeated.
#[path = "../../../alcc/cli/tests/support/root.rs"]
mod root;

use root::root;
use serde_json::Value;
use std::process::{Command, Output};

fn alcc(line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_alcc-lab"));
    command.args(line.split_whitespace()).current_dir(root());
    command.output().unwrap()
}

fn searched(line: &str) -> Value {
    let out = alcc(&format!("worst --json {line}"));
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{line}: {said}");
    serde_json::from_slice(&out.stdout).unwrap()
}

/// The entry of the algorithm that was judged.
fn first(searched: &Value) -> &Value {
    &searched["algorithms"][0]
}

/// The bounds are what the default reached when they were set, so that no change makes it worse
/// unseen. Lower them when it becomes better.
#[test]
fn the_default_is_worse_than_bbr_and_cubic_in_few_scenarios() {
    for (line, bounds) in [
        (
            "0..59",
            &[
                ("goodput", 3),
                ("delay", 0),
                ("loss", 1),
                ("harm", 0),
                ("completion", 1),
            ][..],
        ),
        (
            "0..14 --crowd",
            &[
                ("goodput", 0),
                ("delay", 0),
                ("loss", 0),
                ("jain", 3),
                ("least", 2),
            ],
        ),
    ] {
        let searched = searched(line);
        let judged = first(&searched);
        assert_eq!(judged["algorithm"], "budget");
        assert_eq!(judged["counts"]["error"], 0, "{line}: {}", judged["found"]);
        for (fault, most) in bounds {
            let count = judged["counts"][fault].as_u64().unwrap();
            assert!(
                count <= *most,
                "{line}: {fault} {count}: 'alcc-lab worst {line}' lists them"
            );
        }
    }
}

#[test]
fn the_command_of_a_finding_repeats_its_figures() {
    // A window of two packets is worse than everybody.
    let found = searched("2..4 --cc fixed:window=2");
    let finding = &first(&found)["found"][0];
    assert_eq!(finding["fault"], "goodput");
    let command = finding["command"].as_str().unwrap();
    let options = command.strip_prefix("alcc-lab sim ").unwrap();
    let out = alcc(&format!("sim --json {options}"));
    let run: Value = serde_json::from_slice(&out.stdout).unwrap();
    let goodput = |flow: &Value| flow["goodput_mbps"].as_f64().unwrap();
    let total: f64 = run["flows"].as_array().unwrap().iter().map(goodput).sum();
    let judged = finding["figures"]["fixed:window=2"].as_f64().unwrap();
    assert!((total - judged).abs() < 1e-9, "{total} {judged}");
}

#[test]
fn a_finding_is_reduced_to_the_parts_that_show_it() {
    let found = searched("2 --cc fixed:window=2 --shrink 1");
    let shrunk = found["shrunk"].as_array().unwrap();
    let goodput = shrunk.iter().find(|one| one["fault"] == "goodput").unwrap();
    let command = goodput["command"].as_str().unwrap();
    // Number 2 has a slow way back, a change of delay and a Cubic flow; none is needed.
    for part in ["--up", "--step", "--flow cubic"] {
        assert!(!command.contains(part), "{command}");
    }
    assert!(command.contains("--flow fixed:window=2"), "{command}");
}

#[test]
fn references_are_kept_and_the_answer_stays() {
    let folder = tempfile::tempdir().unwrap();
    let line = format!("3..4 --out {}", folder.path().display());
    let before = searched(&line);
    let kept = || {
        let files = std::fs::read_dir(folder.path().join("references.runs")).unwrap();
        let files = files.map(|file| file.unwrap());
        let mut all: Vec<_> = files
            .map(|file| (file.path(), file.metadata().unwrap().modified().unwrap()))
            .collect();
        all.sort();
        all
    };
    let references = kept();
    assert_eq!(references.len(), 6);
    assert_eq!(searched(&line), before);
    assert_eq!(kept(), references);
}

#[test]
fn a_grid_names_the_scenarios_that_miss_their_bound() {
    let table = searched("--table persistent --cc fixed:window=500");
    let cells = table["table"].as_array().unwrap();
    // 500 packets in flight do not yield to any loss.
    assert_eq!(cells.len(), 4);
    for cell in cells {
        assert_eq!(cell["checks"][0]["holds"], false, "{cell}");
        assert!(
            cell["command"]
                .as_str()
                .unwrap()
                .contains("--step 10s:loss="),
            "{cell}"
        );
    }
    let missing = alcc("worst");
    assert_eq!(missing.status.code(), Some(2));
}
