// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The crates meet as the architecture says, or this fails: a new edge is a decision, not an accident.
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What may be used by what, written out. `lab` and `cli` may use everything below them.
const EDGES: &[(&str, &[&str])] = &[
    ("units", &[]),
    ("cc", &["units"]),
    ("plugin", &["units", "cc"]),
    ("trace", &["units"]),
    ("link", &["units", "trace"]),
    ("flow", &["units", "cc"]),
    ("sim", &["units", "cc", "flow", "link", "trace"]),
    ("emu", &["units", "link", "trace"]),
    ("socket", &["units", "cc", "flow"]),
    ("preload", &["units", "cc", "flow", "socket", "plugin"]),
    ("udp", &["units", "cc", "flow"]),
    ("quic", &["units", "cc", "flow"]),
    ("inband", &["units", "cc", "flow"]),
    // `cc` and `units` for its tests.
    ("carrier", &["units", "cc", "inband"]),
    // `link` for its tests.
    ("record", &["units", "trace", "link", "udp"]),
    ("transfer", &["units"]),
    // `emu` and `link` for its tests.
    (
        "capi",
        &["units", "cc", "socket", "plugin", "inband", "emu", "link"],
    ),
    // `cc` and `units` for its tests.
    ("bpf", &["units", "cc"]),
    ("proxy", &["cc", "socket"]),
    (
        "lab",
        &[
            "units", "cc", "trace", "link", "flow", "sim", "emu", "socket",
        ],
    ),
    (
        "cli",
        &[
            "units", "cc", "trace", "link", "flow", "sim", "emu", "socket", "plugin", "proxy",
            "udp", "quic", "inband", "carrier", "record", "transfer", "lab", "bpf",
        ],
    ),
];

/// No clock, no I/O, no threads, no unsafe.
const PURE: &[&str] = &["units", "cc", "trace", "link", "flow", "sim"];

/// What a pure crate may use from outside this workspace. `proptest` and the like are for its tests and not counted.
const PURE_OUTSIDE: &[&str] = &["libm", "thiserror", "serde", "toml"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

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

#[test]
fn no_edge_outside_the_picture() {
    let packages = packages();
    assert!(packages.len() >= 5, "cargo metadata lists the workspace");
    for p in &packages {
        let name = short(&p.name).expect("every crate is called alcc-NAME");
        let (_, allowed) = EDGES.iter().find(|(n, _)| *n == name).unwrap_or_else(|| {
            panic!("crate {name} is in no picture: add it to EDGES with a decision record")
        });
        for used in p.tests_use.iter().filter_map(|d| short(d)) {
            assert!(
                allowed.contains(&used) || used == name,
                "{name} uses {used}: not an edge of the picture (crates/cli/tests/edges.rs). Move the code, or change the \
                 picture with a decision record"
            );
        }
    }
}

#[test]
fn the_picture_has_no_cycle() {
    // A crate stands after everything that it uses; then there is no way back.
    for (i, (name, uses)) in EDGES.iter().enumerate() {
        for used in *uses {
            assert!(
                EDGES[..i].iter().any(|(n, _)| n == used),
                "{name} uses {used}, which stands below it"
            );
        }
    }
}

#[test]
fn pure_crates_stay_pure() {
    let lints = std::fs::read_to_string(root().join("crates/units/clippy.toml"))
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
            "crates/units/clippy.toml no longer disallows {needle}"
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
