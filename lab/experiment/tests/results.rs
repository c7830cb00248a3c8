// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `lab/notes/results.md` equals the page of the stored results, and these belong to the current
//! definitions.
use alcc_experiment::applications::Applications;
use alcc_experiment::catalogue;
use alcc_experiment::results::Results;
use std::fs;
use std::path::PathBuf;

const REGENERATE: &str = "run: alcc-lab reproduce --all --traces DIR --results lab/notes";

fn doc(name: &str) -> String {
    let docs = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../lab/notes");
    fs::read_to_string(docs.join(name)).unwrap()
}

/// The page that a stored file says. `ALCC_BLESS=1` writes it, as a command that runs would.
fn same(name: &str, page: &str) -> bool {
    if std::env::var_os("ALCC_BLESS").is_some() {
        let docs = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../lab/notes");
        fs::write(docs.join(name), page).unwrap();
    }
    doc(name) == page
}

#[test]
fn the_page_says_what_the_stored_results_say() {
    let text = doc("results.json");
    let results = Results::from_json(&text).unwrap();
    assert!(
        same("results.md", &results.page()),
        "lab/notes/results.md is another page: {REGENERATE}"
    );
    assert!(
        results.to_json().unwrap() == text,
        "lab/notes/results.json was edited: {REGENERATE}"
    );
}

#[test]
fn the_page_of_the_emulated_ones_says_what_is_stored() {
    let docs = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../lab/notes");
    let (text, page) = (docs.join("emulated.json"), docs.join("emulated.md"));
    assert_eq!(
        text.exists(),
        page.exists(),
        "one of emulated.json and emulated.md is missing"
    );
    let Ok(text) = fs::read_to_string(text) else {
        return;
    };
    let again = "run: alcc-lab reproduce --emu --full ID... --traces DIR --results lab/notes";
    let results = Results::from_json(&text).unwrap();
    assert!(
        same("emulated.md", &results.page()),
        "lab/notes/emulated.md is another page: {again}"
    );
    assert!(
        results.to_json().unwrap() == text,
        "lab/notes/emulated.json was edited: {again}"
    );
}

#[test]
fn the_page_of_the_applications_says_what_is_stored() {
    let again = "run: alcc-lab reproduce --emu --full --jobs 1 --applications lab/notes";
    let text = doc("applications.json");
    let stored = Applications::from_json(&text).unwrap();
    assert!(
        stored.to_json().unwrap() == text,
        "applications.json was edited: {again}"
    );
    assert!(
        same("applications.md", &stored.page()),
        "applications.md is another page: {again}"
    );
    let found = stored
        .experiments
        .iter()
        .map(|e| (e.id.as_str(), e.definition.clone()));
    let here = catalogue::all().filter(|entry| entry.is_application());
    let here = here.map(|e| (e.id, alcc_live::hash_of_text(e.real())));
    let (found, here): (Vec<_>, Vec<_>) = (found.collect(), here.collect());
    assert_eq!(
        found, here,
        "other definitions than those of the figures: {again}"
    );
}

#[test]
fn the_stored_results_are_of_these_definitions() {
    let results = Results::from_json(&doc("results.json")).unwrap();
    let stored = results
        .experiments
        .iter()
        .map(|e| (e.judged.id.as_str(), e.definition.clone()));
    let simulated = catalogue::all().filter(|entry| !entry.is_application());
    let here = simulated.map(|e| (e.id, alcc_live::hash_of_text(e.toml)));
    let (stored, here): (Vec<_>, Vec<_>) = (stored.collect(), here.collect());
    let others: Vec<_> = here
        .iter()
        .filter(|one| !stored.contains(one))
        .map(|one| one.0)
        .collect();
    assert!(
        others.is_empty(),
        "another definition than that of the results: {others:?}: {REGENERATE}"
    );
    assert_eq!(
        stored.len(),
        here.len(),
        "results of experiments that are gone: {REGENERATE}"
    );
}

/// A minute on two cores: by CPU time, since the clock counts what else the machine did.
#[test]
fn no_simulated_experiment_took_longer_than_a_minute_on_two_cores() {
    let results = Results::from_json(&doc("results.json")).unwrap();
    for entry in &results.experiments {
        let took = entry.took.map_or(0.0, |took| took.cpu_seconds);
        let id = &entry.judged.id;
        assert!(took <= 120.0, "{id}: {took} s of CPU time; at most 120");
    }
}
