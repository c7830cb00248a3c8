// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every algorithm's file opens as `docs/adding-an-algorithm.md` says: where it comes from, its
//! constants with their sources, in what it differs, what it does badly.
use std::path::Path;

#[test]
fn every_algorithm_says_where_it_comes_from_and_what_it_does_badly() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders =
        ["src/algorithms", "../../lab/zoo/src/algorithms"].map(|folder| here.join(folder));
    let mut missing = Vec::new();
    for algorithm in alcc_zoo::registry().iter() {
        let name = algorithm.name.replace('-', "_");
        let text = folders
            .iter()
            .flat_map(|folder| {
                [format!("{name}.rs"), format!("{name}/mod.rs")].map(|f| folder.join(f))
            })
            .find_map(|place| std::fs::read_to_string(place).ok())
            .unwrap_or_else(|| panic!("{name}: no file of that name in {folders:?}"));
        let header: String = text
            .lines()
            .filter(|line| line.starts_with("//!"))
            .map(|line| line.to_lowercase() + "\n")
            .collect();
        // Examples and variations refer to their original.
        let derived = ["fixed", "sprout_ewma"].contains(&name.as_str());
        let parts = [
            ("its constants", "//! |---", "settings.rs"),
            ("what it differs in", "differs from", "our own"),
            ("its weakness", "known weakness", "known weaknesses"),
        ];
        for (what, one, other) in parts {
            let table = what == "its constants" && text.contains("\nconstants! {");
            if !derived && !table && !header.contains(one) && !header.contains(other) {
                missing.push(format!("{name}: {what}"));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}
