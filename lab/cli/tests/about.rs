// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every file of results says what it came about by: version, build, command, seed, and the hashes of
//! the traces and plug-ins that were read.
#[path = "../../../alcc/cli/tests/support"]
mod support {
    pub(crate) mod lacks;
    pub(crate) mod root;
}

use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};
use support::lacks::lacks;
use support::root::root;

const SEED: &str = "20261130";

/// A folder with a trace and a plug-in, and their hashes.
struct Folder {
    dir: tempfile::TempDir,
    hashes: [String; 2],
}

impl Folder {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let trace: String = (1..=3_000).map(|ms| format!("{ms}\n")).collect();
        fs::write(dir.path().join("walk.down"), trace).unwrap();
        let built = Command::new("cc")
            .args(["-std=c99", "-shared", "-fPIC", "-o", "plugin.so", "-I"])
            .args([
                root().join("alcc/capi/include"),
                root().join("alcc/plugin/examples/aimd.c"),
            ])
            .current_dir(dir.path())
            .status();
        assert!(built.expect("cc, with which Rust links").success());
        let hash = |name: &str| {
            let files = alcc_live::input_files([dir.path().join(name)]);
            files[0].sha256.clone()
        };
        let hashes = ["walk.down", "plugin.so"].map(hash);
        Self { dir, hashes }
    }

    fn lab(&self, line: &str) -> Output {
        Command::new(env!("CARGO_BIN_EXE_alcc-lab"))
            .args(line.split_whitespace())
            .current_dir(self.dir.path())
            .env_remove("ALCC_TRACES")
            .output()
            .unwrap()
    }

    fn done(&self, line: &str) -> String {
        let output = self.lab(line);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn file(&self, name: &str) -> String {
        let bytes = fs::read(self.dir.path().join(name));
        String::from_utf8_lossy(&bytes.unwrap_or_else(|e| panic!("{name}: {e}"))).into_owned()
    }

    /// `text` has all of it, whatever its form; `hashes` are those of the files that were read.
    fn says(&self, what: &str, text: &str, command: &str, hashes: &[String]) {
        let version = concat!("alcc ", env!("CARGO_PKG_VERSION"));
        for part in [version, command, SEED] {
            assert!(text.contains(part), "{what}: no {part}");
        }
        for hash in hashes {
            assert!(text.contains(hash.as_str()), "{what}: no hash {hash}");
        }
        // Of a JSON text within JSON or XML the quotation marks are escaped.
        let build = text.split("build").skip(1).find(|rest| {
            let id = rest.trim_start_matches(|c: char| !c.is_ascii_hexdigit());
            let length = id.find(|c: char| !c.is_ascii_hexdigit());
            length.is_some_and(|n| n >= 16)
        });
        assert!(build.is_some(), "{what}: no build");
    }
}

#[test]
fn files_of_the_simulator_say_how_they_were_made() {
    let folder = Folder::new();
    let outputs = "--series s.csv --profile p.csv --figure f.svg --qlog q.sqlog";
    let options = format!("--plugin ./plugin.so --seed {SEED} --duration 2s --json");
    let json = folder.done(&format!(
        "sim --link walk.down --flow verus --flow aimd {options} {outputs}"
    ));
    let command = "alcc-lab sim --link walk.down";
    folder.says("--json", &json, command, &folder.hashes);
    for file in [
        "s.csv-metadata.json",
        "p.csv-metadata.json",
        "f.svg",
        "q.sqlog",
    ] {
        folder.says(file, &folder.file(file), command, &folder.hashes);
    }
    let json = folder.done(&format!(
        "sweep --link walk.down --flow aimd --rtt 20ms,40ms --runs 1 {options}"
    ));
    let command = "alcc-lab sweep --link walk.down";
    folder.says("sweep --json", &json, command, &folder.hashes);
    for file in ["swept/sweep.csv-metadata.json", "swept/sweep.parquet"] {
        folder.says(file, &folder.file(file), command, &folder.hashes);
    }
    let json = folder.done(&format!(
        "compare --sim --traces walk.down --schemes aimd,cubic --runs 1 {options} --csv c.csv"
    ));
    let command = "alcc-lab compare --sim";
    folder.says("compare --json", &json, command, &folder.hashes);
    let json = folder.done(&format!(
        "worst 1 --cc aimd --plugin ./plugin.so --seed {SEED} --json"
    ));
    folder.says("worst", &json, "alcc-lab worst 1", &folder.hashes[1..]);
}

/// The hashes are those of `sha256sum`.
#[test]
fn a_scenario_file_is_known_by_its_content() {
    let folder = Folder::new();
    let scenario = "link = \"12mbit\"\nflow = \"cubic\"\nduration = \"2s\"\n";
    let run = |content: &str| -> Value {
        fs::write(folder.dir.path().join("s.toml"), content).unwrap();
        serde_json::from_str(&folder.done("sim s.toml --json")).unwrap()
    };
    let first = run(scenario);
    let hash = "1ceddfc527ed68bccd480989f26200e1ac6cd0e9ae6de6b3ed9f309c8e400c87";
    assert_eq!(
        first["about"]["files"],
        json!([{"path": "s.toml", "sha256": hash}])
    );
    // A comment changes the content, not the run.
    let second = run(&format!("# again\n{scenario}"));
    let hash = "e8cd8ee0a8788bcc2dc8a5eb74adb32030f345e40540fcdbf5070f10a8bc5532";
    assert_eq!(
        second["about"]["files"],
        json!([{"path": "s.toml", "sha256": hash}])
    );
    assert_eq!(first["flows"], second["flows"]);
}

#[test]
fn files_of_the_emulator_say_how_they_were_made() {
    let folder = Folder::new();
    let line = format!(
        "emulate --down walk.down --seed {SEED} --json-out e.json --log own --mahimahi-log their -- true"
    );
    let output = folder.lab(&line);
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(2) && ["namespace", "device"].iter().any(|w| said.contains(w)) {
        lacks(said.trim());
        return;
    }
    assert!(output.status.success(), "{said}");
    let command = "alcc-lab emulate --down walk.down";
    for file in ["e.json", "own.down", "own.up", "their.down"] {
        folder.says(file, &folder.file(file), command, &folder.hashes[..1]);
    }
    let (header, _) = alcc_link::log::parse(&folder.file("own.down")).unwrap();
    let about: Value = serde_json::from_str(&header.about).unwrap();
    let report: Value = serde_json::from_str(&folder.file("e.json")).unwrap();
    assert_eq!(about, report["about"]);
    assert_eq!(about["link"], "down walk.down, up unlimited");
}

#[test]
fn both_ends_of_a_recording_say_how_it_was_made() {
    let folder = Folder::new();
    let mut listener = Command::new(env!("CARGO_BIN_EXE_alcc-lab"))
        .args(["trace", "record", "--listen", "127.0.0.1:0"])
        .args(["--count", "1", "--out", "there"])
        .current_dir(folder.dir.path())
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(listener.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    let at = line.split_once("listening on ").unwrap().1;
    let at = at.split(';').next().unwrap();
    folder.done(&format!(
        "trace record {at} --mode constant --down 1mbit --up 1mbit --duration 1s --warm-up 200ms --label phone --out here"
    ));
    assert!(listener.wait().unwrap().success());
    for file in ["here/summary.json", "there/phone/summary.json"] {
        let summary: Value = serde_json::from_str(&folder.file(file)).unwrap();
        let about = &summary["about"];
        assert_eq!(about["mode"], "recorded", "{file}: {about}");
        let command = about["command"].as_str().unwrap();
        assert!(command.starts_with("alcc-lab trace record "), "{about}");
        for known in ["program", "build", "date", "kernel", "link"] {
            let text = about[known].as_str();
            assert!(text.is_some_and(|text| !text.is_empty()), "{file}: {about}");
        }
    }
}
