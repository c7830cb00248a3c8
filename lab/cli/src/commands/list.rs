// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `alcc-lab list`: names of algorithms, links, queues and experiments.
use crate::LAB;
use crate::failure::Failure;
use crate::product::list::{Args, Lists, algorithms_json, transports_json, with_options};
use alcc_link::{QueueKind, RadioKind};
use alcc_trace::SCENARIOS;
use serde_json::{Value, json};
use std::process::ExitCode;

pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let registry = args.registry(&LAB)?;
    let mut lists = Lists::default();
    lists.algorithms(&registry);
    lists.heading("Queues (--queue NAME:option=value,...)");
    for q in QueueKind::all() {
        lists.entry(q.name, q.summary);
        lists.options(q.options);
    }
    lists.heading("Radio links (--radio NAME:option=value,...)");
    for r in RadioKind::all() {
        lists.entry(r.name, r.summary);
        lists.options(r.options);
    }
    lists.heading("Synthetic links (--down, --link, --trace NAME)");
    for s in SCENARIOS {
        lists.entry(s.name, s.about);
    }
    lists.heading_of_names("Published experiments (alcc-lab reproduce NAME)");
    for e in alcc_experiment::catalogue::all() {
        let title = e.definition().map(|d| d.title).unwrap_or_default();
        lists.entry(e.id, title);
    }
    lists.transports(&LAB);
    let queues = QueueKind::all().map(|q| with_options(q.name, q.summary, q.options));
    let radio = RadioKind::all().map(|r| with_options(r.name, r.summary, r.options));
    let links = SCENARIOS
        .iter()
        .map(|s| json!({"name": s.name, "summary": s.about}));
    let experiments = alcc_experiment::catalogue::all().map(|e| json!({"name": e.id}));
    let json = json!({
        "algorithms": algorithms_json(&registry),
        "transports": transports_json(&LAB),
        "queues": queues.collect::<Vec<Value>>(),
        "radio": radio.collect::<Vec<Value>>(),
        "links": links.collect::<Vec<Value>>(),
        "experiments": experiments.collect::<Vec<Value>>(),
    });
    args.show(&LAB, &lists, json)
}

/// Names for completions.
pub(crate) fn offered(value: &str) -> Option<Vec<String>> {
    Some(match value {
        "Q" => QueueKind::all().map(|q| q.name.to_owned()).collect(),
        "RADIO" => RadioKind::all().map(|r| r.name.to_owned()).collect(),
        "ID|EXPERIMENT.toml" => {
            let all = alcc_experiment::catalogue::all();
            all.map(|e| e.id.to_string()).collect()
        }
        _ => return None,
    })
}

/// Names of synthetic links.
pub(crate) fn links() -> Vec<String> {
    SCENARIOS.iter().map(|s| s.name.to_owned()).collect()
}
