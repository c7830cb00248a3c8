// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An algorithm in C, from the command line: in the simulator, and under an unmodified nginx.
#[path = "support/built.rs"]
mod programs;
#[path = "support/root.rs"]
mod root;
mod support;

use root::root;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// `source` as a shared object in `folder`.
fn built(folder: &Path, source: &Path) -> PathBuf {
    let file = folder.join("plugin.so");
    let out = Command::new("cc")
        .args([
            "-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC",
        ])
        .arg("-I")
        .arg(root().join("alcc/capi/include"))
        .arg("-o")
        .arg(&file)
        .arg(source)
        .output()
        .expect("cc, with which Rust links");
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    file
}

fn example(folder: &Path) -> PathBuf {
    built(folder, &root().join("alcc/plugin/examples/aimd.c"))
}

fn alcc(arguments: &[&str], plugin: &Path) -> Output {
    Command::new(programs::program(arguments[0]))
        .args(arguments)
        .arg("--plugin")
        .arg(plugin)
        .output()
        .unwrap()
}

fn simulated(flow: &str, plugin: &Path, duration: &str) -> (Value, Vec<u8>) {
    let arguments = [
        "sim",
        "--json",
        "--duration",
        duration,
        "--queue",
        "droptail:bytes=100000",
    ];
    let out = alcc(&[&arguments[..], &["--flow", flow]].concat(), plugin);
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    let result: Value = serde_json::from_slice(&out.stdout).unwrap();
    (result["flows"][0].clone(), out.stdout)
}

#[test]
fn it_is_listed_with_its_options() {
    let folder = tempfile::tempdir().unwrap();
    let out = alcc(&["list", "--json"], &example(folder.path()));
    let list: Value = serde_json::from_slice(&out.stdout).unwrap();
    let algorithms = list["algorithms"].as_array().unwrap();
    let aimd = algorithms.iter().find(|a| a["name"] == "aimd").unwrap();
    assert_eq!(aimd["options"][1]["name"], "beta");
    assert_eq!(aimd["options"][1]["default"], "0.5");
}

#[test]
fn the_simulator_gives_the_same_bytes_twice_and_what_reno_gives() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = example(folder.path());
    for over in ["", "/over=cubic"] {
        let ours = simulated(&format!("aimd{over}"), &plugin, "30s");
        assert_eq!(ours.1, simulated(&format!("aimd{over}"), &plugin, "30s").1);
        // The same rule in the same window: reno halves, beta=0.5 halves.
        let reno = simulated(&format!("reno{over}"), &plugin, "30s").0;
        let mbps = |row: &Value| row["throughput_mbps"].as_f64().unwrap();
        let ratio = mbps(&ours.0) / mbps(&reno);
        assert!(
            (0.85..1.15).contains(&ratio),
            "{over}: {} and {reno}",
            ours.0
        );
        assert_eq!(ours.0["algorithm"], "aimd");
    }
    // An option changes something: a loss that leaves more keeps the queue fuller.
    let delay = |flow| {
        simulated(flow, &plugin, "30s").0["delay_mean_ms"]
            .as_f64()
            .unwrap()
    };
    assert!(delay("aimd:beta=0.9") > delay("aimd:beta=0.3"));
}

#[test]
fn a_careless_algorithm_does_not_stop_the_simulator() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = built(folder.path(), &root().join("alcc/plugin/tests/careless.c"));
    for fault in [
        "no-window",
        "not-a-number",
        "huge",
        "no-rate",
        "quota-never-spent",
        "no-quota",
        "ping",
        "timer-in-the-past",
        "never-look",
        "no-memory",
    ] {
        for over in ["", "/over=cubic"] {
            let flow = format!("careless:fault={fault}{over}");
            let row = simulated(&flow, &plugin, "4s").0;
            // The slowest pacing rate is 8 kbit/s: 4000 bytes.
            assert!(row["bytes"].as_u64().unwrap() > 3_000, "{flow}: {row}");
        }
    }
}

#[test]
fn what_is_wrong_is_said_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = example(folder.path());
    let says = |arguments: &[&str], plugin: &Path| {
        let out = alcc(arguments, plugin);
        assert_eq!(out.status.code(), Some(2), "{arguments:?}");
        let text = String::from_utf8(out.stderr).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        text
    };
    let text = says(&["sim", "--flow", "aimd:beta=2"], &plugin);
    assert!(
        text.contains("algorithm aimd: beta=2: expected a number from 0.1 to 0.9"),
        "{text}"
    );
    let text = says(&["sim", "--flow", "aimd:gamma=2"], &plugin);
    assert!(
        text.contains("algorithm aimd has no option 'gamma': it has alpha, beta"),
        "{text}"
    );
    let text = says(&["list"], &folder.path().join("nothing.so"));
    assert!(
        text.contains("nothing.so") && text.contains("give the path of a shared object"),
        "{text}"
    );
    let text = says(&["list"], &root().join("README.md"));
    assert!(
        text.contains("README.md") && text.contains("cc -shared -fPIC"),
        "{text}"
    );
}

#[test]
fn nginx_under_an_algorithm_in_c() {
    if support::impossible() {
        return;
    }
    let world = support::World::new(support::link(20));
    let hash = world.file("f", 3_000_000);
    let plugin = example(&world.path(""));
    let server = world.gated(&[
        "--plugin",
        plugin.to_str().unwrap(),
        "--cc",
        "aimd:beta=0.7",
    ]);
    for how in ["http://$S:8080/f", "-k --http2 https://$S:8443/f"] {
        assert_eq!(world.fetch(how), hash, "{how}");
    }
    let (report, said) = server.stop();
    let number = |field: &str| report[field].as_u64().unwrap();
    assert_eq!(
        (number("connections"), number("failures")),
        (2, 0),
        "{said}"
    );
    assert!(number("gate_closed") > 0, "{said}");
    assert!(said.contains("controlled by aimd:beta=0.7"), "{said}");
}

/// All that the laboratory brings serves above TCP: its algorithms, and its forms of the product's.
#[test]
fn nginx_under_each_algorithm_of_the_laboratory() {
    if support::impossible() {
        return;
    }
    let world = support::World::new(support::link(20));
    let hash = world.file("f", 500_000);
    let plugin = programs::built("libalcc_lab.so");
    let known = alcc_cc::Registry::builtin();
    let brought = alcc_plugin::load_all(&plugin).unwrap();
    let specs = brought.iter().flat_map(|algorithm| {
        let form = |profile: &&str| format!("{}:profile={profile}", algorithm.name);
        match known.iter().any(|a| a.name == algorithm.name) {
            true => algorithm.profiles.iter().map(form).collect(),
            false => vec![algorithm.name.to_owned()],
        }
    });
    for cc in specs {
        let server = world.gated(&["--plugin", plugin.to_str().unwrap(), "--cc", &cc]);
        assert_eq!(world.fetch("http://$S:8080/f"), hash, "{cc}");
        let (report, said) = server.stop();
        let number = |field: &str| report[field].as_u64().unwrap();
        assert_eq!(
            (number("connections"), number("failures")),
            (1, 0),
            "{cc}: {said}"
        );
        assert!(said.contains(&format!("controlled by {cc}")), "{said}");
    }
}
