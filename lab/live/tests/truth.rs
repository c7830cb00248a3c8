// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The simulator still gives the values of lab/notes/truth.md: a few cells, measured again on the
//! recorded traces.
use alcc_live::LabError;
use alcc_live::truth::{Reference, Runner, Traces, Verdict};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// Cells that take little time: one each of the programs, the kernel and the report.
const CELLS: [(&str, &str); 4] = [
    ("CityDrive", "verus:profile=original"),
    ("CampusWalk", "copa:profile=original"),
    ("Corniche", "bbr"),
    ("Verizon-EVDO-driving.up", "verus:profile=original,r=6"),
];

fn docs(file: &str) -> String {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/notes");
    fs::read_to_string(docs.join(file)).unwrap()
}

/// The number before the parenthesis in a column of a cell's line.
fn ours(line: &str, column: usize) -> f64 {
    let field = line.split('|').nth(column).unwrap();
    field.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn the_document_and_the_simulator_agree() {
    let folder = std::env::var_os("ALCC_TRACES").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces"),
        PathBuf::from,
    );
    if !folder.is_dir() {
        println!("skipped: no recorded traces");
        return;
    }
    let traces = Traces::below(&folder).unwrap();
    let document = docs("truth.md");
    let references = Reference::read(&docs("truth.csv")).unwrap();
    for (link, flow) in CELLS {
        let found = references.iter().find(|r| r.link == link && r.flow == flow);
        let mut reference = found.unwrap().clone();
        let every = reference.starts.len().div_ceil(5);
        reference.starts = reference.starts.into_iter().step_by(every).collect();
        let runner = Runner {
            traces: &traces,
            registry: &alcc_zoo::registry(),
            workers: 2,
            stop: &AtomicBool::new(false),
            progress: &mut |_, _, _| {},
        };
        let cell = runner.measure(vec![reference]).unwrap().remove(0);
        if matches!(cell.ours, Err(LabError::Traces { .. })) {
            println!("skipped: {link} is not among the recorded traces");
            continue;
        }
        let begin = format!("| {link} | {flow} |");
        let line = document.lines().find(|l| l.starts_with(&begin)).unwrap();
        let (share, delay) = (cell.share().unwrap(), cell.delay().unwrap());
        // Fewer starts than the document has.
        let near = |found: f64, said: f64, part: f64| (found - said).abs() <= part * said;
        let both = format!("{}\n{line}", cell.line());
        assert!(near(share.ours.median, ours(line, 4), 0.04), "{both}");
        assert!(near(delay.ours.median, ours(line, 7), 0.15), "{both}");
        assert_eq!(cell.verdict(), Verdict::Ok, "{both}");
    }
}
