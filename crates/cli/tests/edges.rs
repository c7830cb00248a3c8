// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The crates meet as the architecture says, or this fails: a new edge is a decision, not an
//! accident.
#[path = "support/root.rs"]
mod root;

use root::root;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A crate, and what it uses on its floor.
type Room = (&'static str, &'static [&'static str]);

/// The floors of the house, which are the folders of `crates/`: a floor uses only those before it
/// in this list. Beside each crate stands what it uses on its own floor, in its tests too.
const FLOORS: &[(&str, &[Room])] = &[
    (
        "core",
        &[
            ("units", &[]),
            ("cc", &["units"]),
            ("trace", &["units"]),
            ("link", &["units", "trace"]),
            ("flow", &["units", "cc"]),
            ("sim", &["units", "cc", "flow", "link", "trace"]),
            ("results", &["units", "cc", "trace", "link", "sim"]),
        ],
    ),
    ("os", &[("files", &[]), ("sys", &[]), ("driver", &["sys"])]),
    (
        "transport",
        &[
            ("pipe", &[]),
            ("transfer", &["pipe"]),
            ("inband", &[]),
            ("carrier", &["pipe", "transfer", "inband"]),
            // And transports that need no row, see OPEN_FLOOR: udp, quic.
        ],
    ),
    (
        "runtime",
        &[
            ("plugin", &[]),
            ("observe", &[]),
            ("socket", &["observe"]),
            ("preload", &["observe", "socket", "plugin"]),
            ("capi", &["observe", "socket", "plugin"]),
            ("bpf", &["observe"]),
            ("proxy", &["observe", "socket"]),
            ("transports", &["socket"]),
        ],
    ),
    (
        "measure",
        &[
            ("emu", &[]),
            ("record", &[]),
            ("lab", &["emu"]),
            ("experiment", &["lab"]),
        ],
    ),
    ("cli", &[("cli", &[])]),
];

/// The floor whose crates need no row: one that is not listed uses `pipe` beside it and no more. So
/// a transport is a crate here, and a row of the table of transports.
const OPEN_FLOOR: (&str, &[&str]) = ("transport", &["pipe"]);

/// What goes against the order of the floors, and why.
const EXCEPTIONS: &[(&str, &str, &str)] = &[(
    "capi",
    "emu",
    "its tests run the C library on an emulated link",
)];

/// The place of a crate: its floor, and what it uses there.
fn place(name: &str) -> (usize, &'static [&'static str]) {
    FLOORS
        .iter()
        .enumerate()
        .find_map(|(floor, (_, rooms))| {
            let (_, uses) = rooms.iter().find(|(room, _)| *room == name)?;
            Some((floor, *uses))
        })
        .or_else(|| {
            let (open, uses) = OPEN_FLOOR;
            let lies_there = root().join("crates").join(open).join(name).exists();
            let floor = FLOORS.iter().position(|(floor, _)| *floor == open)?;
            lies_there.then_some((floor, uses))
        })
        .unwrap_or_else(|| {
            panic!("crate {name} is on no floor: add it to FLOORS with a decision record")
        })
}

/// What a pure crate may use from outside this workspace. `proptest` and the like are for its tests
/// and not counted.
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

#[test]
fn no_edge_outside_the_picture() {
    let packages = packages();
    assert!(packages.len() >= 5, "cargo metadata lists the workspace");
    for p in &packages {
        let name = short(&p.name).expect("every crate is called alcc-NAME");
        let (floor, beside) = place(name);
        let folder = FLOORS[floor].0;
        assert!(
            p.dir.ends_with(Path::new("crates").join(folder).join(name))
                || name == "cli" && p.dir.ends_with("crates/cli"),
            "{name} is on the floor '{folder}' but lies in {}",
            p.dir.display()
        );
        for used in p.tests_use.iter().filter_map(|d| short(d)) {
            assert!(
                used == name
                    || place(used).0 < floor
                    || beside.contains(&used)
                    || EXCEPTIONS.iter().any(|(a, b, _)| *a == name && *b == used),
                "{name} uses {used}: it is on no floor below and not listed beside it (crates/cli/tests/edges.rs). Move the \
                 code, or change the picture with a decision record"
            );
        }
    }
}

/// What is true only in an experiment: simulator, link models, traces, emulator, comparisons, UDP
/// and QUIC.
const LABORATORY: &[&str] = &[
    "trace",
    "link",
    "sim",
    "results",
    "files",
    "udp",
    "quic",
    "emu",
    "record",
    "lab",
    "experiment",
];
/// Those that put both together.
const BOTH: &[&str] = &["transports", "cli"];

/// What controls connections on a machine needs nothing of what measures them. Tests may.
#[test]
fn the_product_uses_nothing_of_the_laboratory() {
    for p in packages() {
        let name = short(&p.name).expect("every crate is called alcc-NAME");
        if LABORATORY.contains(&name) || BOTH.contains(&name) {
            continue;
        }
        for used in p.uses.iter().filter_map(|d| short(d)) {
            assert!(
                !LABORATORY.contains(&used) && !BOTH.contains(&used),
                "{name} is of the product and uses {used} of the laboratory: move what it needs"
            );
        }
    }
}

#[test]
fn the_picture_has_no_cycle() {
    // A crate stands after everything that it uses on its floor; then there is no way back.
    for (floor, rooms) in FLOORS {
        for (i, (name, uses)) in rooms.iter().enumerate() {
            for used in *uses {
                assert!(
                    rooms[..i].iter().any(|(room, _)| room == used),
                    "{floor}: {name} uses {used}, which does not stand before it"
                );
            }
        }
    }
}

#[test]
fn pure_crates_stay_pure() {
    let lints = std::fs::read_to_string(root().join("crates/core/units/clippy.toml"))
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
            "crates/core/units/clippy.toml no longer disallows {needle}"
        );
    }
    for p in packages() {
        let name = short(&p.name).expect("every crate is called alcc-NAME");
        // The first floor: no clock, no I/O, no threads, no unsafe.
        if place(name).0 != 0 {
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

/// What bindings may use beside the pure floor: they run on machines that are not Linux.
const BINDINGS_BESIDE_CORE: &[&str] = &["files"];

#[test]
fn bindings_use_the_pure_floor() {
    let manifest = root().join("bindings/python/Cargo.toml");
    let text = std::fs::read_to_string(manifest).expect("Cargo.toml of the bindings");
    let manifest: toml::Table = text.parse().expect("TOML");
    let dependencies = manifest["dependencies"].as_table().expect("a table");
    let used: Vec<&str> = dependencies.keys().filter_map(|name| short(name)).collect();
    assert!(used.contains(&"results"), "{used:?}");
    for name in used {
        assert!(
            place(name).0 == 0 || BINDINGS_BESIDE_CORE.contains(&name),
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
const INCLUDES: &[(&str, &str)] = &[("cli", "fuzz/src")];

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
