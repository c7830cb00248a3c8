// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The crates meet as the architecture says, or this fails: a new edge is a decision, not an
//! accident.
#[path = "support/root.rs"]
mod root;

use root::root;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The product: what controls TCP connections on this machine. A crate uses only those before it.
const ALCC: &[&str] = &[
    "units", "cc", "flow", "sys", "driver", "observe", "socket", "plugin", "preload", "bpf",
    "pipe", "inband", "transfer", "carrier", "capi", "proxy", "cli",
];
/// The laboratory: what is true only in an experiment. It uses all of the product, and of itself
/// what stands before.
const LAB: &[&str] = &[
    "zoo",
    "trace",
    "link",
    "sim",
    "lab-plugin",
    "results",
    "files",
    "emu",
    "udp",
    "quic",
    "record",
    "live",
    "experiment",
    "lab",
];
/// No clock, no I/O, no thread, no unsafe code.
const PURE: &[&str] = &[
    "units", "cc", "flow", "zoo", "trace", "link", "sim", "results",
];

/// Group and place of a crate.
fn place(name: &str) -> (&'static str, usize) {
    [("alcc", ALCC), ("lab", LAB)]
        .into_iter()
        .find_map(|(group, crates)| {
            let place = crates.iter().position(|room| *room == name)?;
            Some((group, place))
        })
        .unwrap_or_else(|| {
            panic!("crate {name} is in neither list: add it (alcc/cli/tests/edges.rs)")
        })
}

/// Dependencies of pure crates from outside this workspace. `proptest` and the like are for tests and
/// not counted.
const PURE_OUTSIDE: &[&str] = &[
    // Only the derived options of `results`, and only where the feature asks for them.
    "clap",
    // Only distributions, where the feature asks for them.
    "hdrhistogram",
    "libm",
    "serde",
    "serde_json",
    "thiserror",
    "toml",
];

struct Package {
    name: String,
    dir: PathBuf,
    lib: Option<PathBuf>,
    /// Without those for tests only.
    uses: Vec<String>,
    /// Also those for tests.
    tests_use: Vec<String>,
}

fn packages() -> Vec<Package> {
    let out = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--no-deps",
            "--offline",
            "--format-version",
            "1",
        ])
        .current_dir(root())
        .output()
        .expect("cargo metadata runs");
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    let metadata: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    let text = |v: &Value| v.as_str().expect("a string").to_owned();
    let list = |v: &Value| v.as_array().expect("a list").clone();
    list(&metadata["packages"])
        .iter()
        .map(|p| {
            let dependencies = |tests: bool| {
                list(&p["dependencies"])
                    .iter()
                    .filter(|d| tests || d["kind"] != "dev")
                    .map(|d| text(&d["name"]))
                    .collect()
            };
            Package {
                name: text(&p["name"]),
                dir: PathBuf::from(text(&p["manifest_path"]))
                    .parent()
                    .expect("a folder")
                    .to_owned(),
                lib: list(&p["targets"])
                    .iter()
                    .find(|t| list(&t["kind"]).iter().any(|k| k == "lib" || k == "cdylib"))
                    .map(|t| PathBuf::from(text(&t["src_path"]))),
                uses: dependencies(false),
                tests_use: dependencies(true),
            }
        })
        .collect()
}

fn short(name: &str) -> Option<&str> {
    name.strip_prefix("alcc-")
}

/// Nothing that root runs, or that is loaded into other people's programs, needs what measures it.
/// Tests may.
#[test]
fn the_product_uses_nothing_of_the_laboratory() {
    let packages = packages();
    assert_eq!(packages.len(), ALCC.len() + LAB.len());
    for p in &packages {
        let name = short(&p.name).expect("every crate is called alcc-NAME");
        let (group, mine) = place(name);
        // A crate of the laboratory whose name the product has too says so.
        let folder = match name {
            "lab" => "cli",
            name => name.strip_prefix("lab-").unwrap_or(name),
        };
        assert!(
            p.dir.ends_with(Path::new(group).join(folder)),
            "{name} is of '{group}' but lies in {}",
            p.dir.display()
        );
        for used in p.uses.iter().filter_map(|d| short(d)) {
            let (whose, theirs) = place(used);
            let stands_before = match whose == group {
                true => theirs < mine,
                false => whose == "alcc",
            };
            assert!(
                stands_before,
                "{name} ({group}) uses {used} ({whose}), which does not stand before it (alcc/cli/tests/edges.rs): \
                 move what it needs"
            );
        }
    }
}

#[test]
fn pure_crates_stay_pure() {
    let lints = std::fs::read_to_string(root().join("alcc/units/clippy.toml"))
        .expect("clippy.toml of units");
    for needle in [
        "Instant::now",
        "SystemTime::now",
        "thread::sleep",
        "HashMap",
        "fs::File",
        "std::println",
    ] {
        assert!(
            lints.contains(needle),
            "alcc/units/clippy.toml no longer disallows {needle}"
        );
    }
    for p in packages() {
        let name = short(&p.name).expect("every crate is called alcc-NAME");
        if !PURE.contains(&name) {
            continue;
        }
        let lib =
            std::fs::read_to_string(p.lib.expect("a pure crate is a library")).expect("lib.rs");
        assert!(
            lib.contains("#![forbid(unsafe_code)]"),
            "{name}: lib.rs lacks #![forbid(unsafe_code)]"
        );
        let own = std::fs::read_to_string(p.dir.join("clippy.toml")).unwrap_or_default();
        assert_eq!(
            own, lints,
            "{name}: clippy.toml is not that of units (clippy reads only the nearest one)"
        );
        for used in p.uses.iter().filter(|d| short(d).is_none()) {
            assert!(
                PURE_OUTSIDE.contains(&used.as_str()),
                "{name} uses {used}: pure crates use only {PURE_OUTSIDE:?} from outside"
            );
        }
    }
}

/// Crates that bindings can use in addition to pure ones: bindings also run on systems other than Linux.
const BINDINGS_BESIDE_PURE: &[&str] = &["files"];

#[test]
fn bindings_use_pure_crates() {
    let manifest = root().join("bindings/python/Cargo.toml");
    let text = std::fs::read_to_string(manifest).expect("Cargo.toml of the bindings");
    let manifest: toml::Table = text.parse().expect("TOML");
    let dependencies = manifest["dependencies"].as_table().expect("a table");
    let used: Vec<&str> = dependencies.keys().filter_map(|name| short(name)).collect();
    assert!(used.contains(&"results"), "{used:?}");
    for name in used {
        assert!(
            PURE.contains(&name) || BINDINGS_BESIDE_PURE.contains(&name),
            "bindings/python uses {name}, which is neither pure nor allowed"
        );
    }
}

#[test]
fn every_crate_takes_the_workspace_lints() {
    for p in packages() {
        let manifest = std::fs::read_to_string(p.dir.join("Cargo.toml")).expect("Cargo.toml");
        assert!(
            manifest.contains("[lints]\nworkspace = true"),
            "{}: no workspace lints",
            p.name
        );
    }
}

/// Sources outside its folder that a crate includes.
const INCLUDES: &[(&str, &str)] = &[("lab", "fuzz/src"), ("lab", "alcc/bpf/tests/support")];

#[test]
fn every_dependency_is_used() {
    for p in packages() {
        let name = short(&p.name).expect("every crate is called alcc-NAME");
        let mut sources = sources(&p.dir);
        for (_, folder) in INCLUDES.iter().filter(|(by, _)| *by == name) {
            sources.push_str(&self::sources(&root().join(folder)));
        }
        for used in &p.tests_use {
            let path = format!("{}::", used.replace('-', "_"));
            assert!(
                sources.contains(&path),
                "{name} names {used} in its Cargo.toml and never in its code: leave it out"
            );
        }
    }
}

/// All Rust code in a folder, as one text.
fn sources(folder: &Path) -> String {
    let mut all = String::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            all.push_str(&sources(&path));
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            all.push_str(&std::fs::read_to_string(&path).expect("a source"));
        }
    }
    all
}
