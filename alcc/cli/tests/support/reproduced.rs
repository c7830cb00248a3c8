// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An application by `alcc-lab reproduce --emu`, for some seconds over a link of 12 Mbit/s and 40 ms.
#[path = "built.rs"]
pub(crate) mod built;
#[path = "root.rs"]
mod root;
#[path = "starts.rs"]
mod starts;

use crate::lacks::lacks;
use root::root;
use serde_json::Value;
use starts::first_answer;
use std::collections::BTreeMap;
use std::process::{Command, Output};

/// Figures by scheme.
pub(crate) type Figures = BTreeMap<String, BTreeMap<String, f64>>;

/// Runs an application for 3 s with each of these flows, which have names; `metric` is one of its
/// figures. `None`, and said, if this machine has not what it needs.
pub(crate) fn figures(application: &str, flows: &[(&str, &str)], metric: &str) -> Option<Figures> {
    let value = |(name, flow): &(&str, &str)| format!("{{ name = \"{name}\", flow = \"{flow}\" }}");
    let values: Vec<String> = flows.iter().map(value).collect();
    let values = values.join(", ");
    let text = format!(
        r#"title = "t"
source = "this test"
statement = "It runs."
application = "{application}"
runs = 1
[scenario]
link = "12mbit"
rtt = "40ms"
flow = "{{flow}}"
duration = "3s"
[[sweep]]
key = "scheme"
values = [{values}]
[[expect]]
says = "it is measured"
metric = "{metric}"
at-least = 0
"#
    );
    let folder = tempfile::tempdir().unwrap();
    // The experiment is called as its folder.
    let place = folder.path().join(application);
    std::fs::create_dir(&place).unwrap();
    let file = place.join("experiment.toml");
    std::fs::write(&file, text).unwrap();
    let run = || {
        let output = Command::new(built::built("alcc-lab"))
            .args(["reproduce", "--emu", "--json", "--jobs", "1", "--out"])
            .arg(folder.path())
            .arg(&file)
            .current_dir(root())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output, said)
    };
    // It gives no figures of programs that had to wait for a processor.
    let was_full = |(_, said): &(Output, String)| said.contains("are not to be trusted");
    let (output, said) = first_answer(3, run, |ran| !was_full(ran), was_full)?;
    let environment = ["find nginx", "find curl", "namespace", "device"];
    if output.status.code() == Some(2) && environment.iter().any(|what| said.contains(what)) {
        lacks(said.trim());
        return None;
    }
    if output.status.code() == Some(2) && said.contains("not run: needs find ") {
        if said.contains("chromium") {
            // No part of what scripts/setup fetches.
            println!("skipped: {said}");
        } else {
            lacks(said.trim());
        }
        return None;
    }
    assert!(output.status.success(), "{said}");
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let judged = &json["experiments"][0];
    assert_eq!(judged["verdict"], "short", "{judged}");
    let csv = folder.path().join(format!("{application}.csv"));
    let csv = std::fs::read_to_string(csv).unwrap();
    let mut lines = csv.lines();
    let names: Vec<&str> = lines.next().unwrap().split(',').collect();
    let scheme = names.iter().position(|n| *n == "axis_scheme").unwrap();
    let figures = lines.map(|line| {
        let cells: Vec<&str> = line.split(',').collect();
        let figures = names.iter().zip(&cells).skip(scheme + 1);
        let numbers = figures.map(|(name, cell)| ((*name).to_owned(), cell.parse().unwrap()));
        (cells[scheme].to_owned(), numbers.collect())
    });
    let figures: Figures = figures.collect();
    assert_eq!(figures.len(), flows.len(), "{csv}");
    Some(figures)
}
