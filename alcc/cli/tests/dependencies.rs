// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The checks of `cargo deny check licenses bans sources` for the product, from the same `deny.toml`.
//! The tool takes minutes to build, so not every machine has it.
#[path = "support/root.rs"]
mod root;

use root::root;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;

/// The folders of the workspaces that people get something of, each with a `deny.toml`.
const WORKSPACES: [&str; 2] = ["", "bindings/python"];

fn folder(workspace: &str) -> PathBuf {
    root().join(workspace)
}

/// The lists of `deny.toml`: licences, and the older versions that are let through.
fn allowed(workspace: &str) -> (Vec<String>, BTreeSet<String>) {
    let text = std::fs::read_to_string(folder(workspace).join("deny.toml")).expect("deny.toml");
    let deny: toml::Table = text.parse().expect("TOML");
    let list = |part: &str, key: &str| deny[part][key].as_array().expect("a list").clone();
    let text = |value: &toml::Value| value.as_str().expect("a string").to_owned();
    (
        list("licenses", "allow").iter().map(text).collect(),
        list("bans", "skip")
            .iter()
            .map(|skip| text(&skip["crate"]))
            .collect(),
    )
}

/// `(name, version, licence)` of the crates that are built into the product, and the crates that are not
/// from crates.io.
fn dependencies(workspace: &str) -> (BTreeSet<[String; 3]>, Vec<String>) {
    let out = Command::new(env!("CARGO"))
        .args("tree --locked --workspace --all-features --edges normal,build".split(' '))
        .args(["--prefix", "none", "--no-dedupe", "--format", "{p}|{l}"])
        .current_dir(folder(workspace))
        .output()
        .expect("cargo tree runs");
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{said}");
    let (mut found, mut elsewhere) = (BTreeSet::new(), Vec::new());
    for line in String::from_utf8(out.stdout).expect("text").lines() {
        let Some((package, licence)) = line.split_once('|') else {
            continue;
        };
        // "serde v1.0.2", "derive v1.0.1 (proc-macro)", "alcc-cc v0.1.0 (/folder)"
        let mut words = package.replace(" (proc-macro)", "");
        words = words.replacen(" v", " ", 1);
        match words.split(' ').collect::<Vec<_>>()[..] {
            [name, version] => {
                found.insert([name, version, licence].map(ToOwned::to_owned));
            }
            [name, ..] if name.starts_with("alcc-") => {}
            _ => elsewhere.push(package.to_owned()),
        }
    }
    (found, elsewhere)
}

/// True if the allowed licences satisfy an expression: `AND` needs all, `OR` and `/` one.
fn suffices(expression: &str, allowed: &[String]) -> bool {
    let expression = expression.replace('/', " OR ");
    let all_of = |part: &str| {
        part.split(" OR ")
            .map(|one| one.trim_matches([' ', '(', ')']))
            .any(|one| allowed.iter().any(|licence| licence == one))
    };
    // Parentheses stand around an `OR` only; without them `AND` binds first.
    if expression.contains('(') {
        expression.split(" AND ").all(all_of)
    } else {
        expression
            .split(" OR ")
            .any(|part| part.split(" AND ").all(all_of))
    }
}

#[test]
fn licences_are_allowed_and_sources_known() {
    for workspace in WORKSPACES {
        let (allowed, _) = allowed(workspace);
        let (found, elsewhere) = dependencies(workspace);
        assert!(found.len() > 30, "the search is broken: {found:?}");
        let wrong: Vec<_> = found
            .iter()
            .filter(|[.., licence]| !suffices(licence, &allowed))
            .collect();
        assert!(
            wrong.is_empty(),
            "{workspace}: not allowed by deny.toml: {wrong:?}"
        );
        assert!(
            elsewhere.is_empty(),
            "{workspace}: not from crates.io: {elsewhere:?}"
        );
    }
}

#[test]
fn nothing_is_built_in_two_versions_but_what_is_listed() {
    for workspace in WORKSPACES {
        doubles_are_listed(workspace);
    }
}

fn doubles_are_listed(workspace: &str) {
    let (_, skipped) = allowed(workspace);
    let mut versions: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for [name, version, _] in dependencies(workspace).0 {
        versions.entry(name).or_default().push(version);
    }
    // In the order of text, which is not always that of versions, so the newest is not required.
    let found: BTreeSet<_> = versions
        .iter()
        .flat_map(|(name, all)| {
            let older = &all[..all.len() - 1];
            older.iter().map(move |version| (name, version))
        })
        .collect();
    let listed = |name: &str, version: &str| {
        skipped.iter().any(|skip| {
            let (skip, prefix) = skip.split_once('@').expect("NAME@VERSION");
            skip == name && format!("{version}.").starts_with(&format!("{prefix}."))
        })
    };
    let new: Vec<_> = found
        .iter()
        .filter(|(name, version)| !listed(name, version))
        .collect();
    assert!(
        new.is_empty(),
        "{workspace}: in several versions: {new:?}. Choose versions that agree, or add it to deny.toml with the reason"
    );
    assert_eq!(
        found.len(),
        skipped.len(),
        "{workspace}: deny.toml skips what is gone"
    );
}

#[test]
fn expressions_are_read_as_spdx_says() {
    let allowed = ["MIT", "ISC"].map(ToOwned::to_owned);
    for good in ["MIT", "GPL-3.0 OR MIT", "X/MIT", "(MIT OR X) AND ISC"] {
        assert!(suffices(good, &allowed), "{good}");
    }
    for bad in ["", "X", "MIT AND X", "(MIT OR ISC) AND X", "X OR MIT AND Y"] {
        assert!(!suffices(bad, &allowed), "{bad}");
    }
}
