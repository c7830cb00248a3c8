// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A study in a file: what it says is what the options say, its mistakes have a line and a key, and
//! its archive gives the same rows again.
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

const STUDY: &str = r#"traces = ["walk.down", "12mbit"]
schemes = ["cubic", "verus:r=4,epoch=5ms/over=cubic"]
rtt = ["20ms", "80ms"]
queue = ["droptail:packets=100", "codel"]
cross = "reno@1s"
up = "walk.up"
duration = "4s"
runs = 2
settle = "2s"
"#;

fn lab(folder: &Path, words: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_alcc-lab"));
    command.args(words.split_whitespace()).current_dir(folder);
    command.env_remove("ALCC_TRACES").output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn good(output: &Output) -> String {
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// A folder `s` with the study and its traces.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("s");
    fs::create_dir(&inside).unwrap();
    fs::write(inside.join("study.toml"), STUDY).unwrap();
    for (seed, name) in [(1, "walk.down"), (2, "walk.up")] {
        let words = format!("trace synth lte --length 20s --seed {seed} --output s/{name}");
        good(&lab(folder.path(), &words));
    }
    folder
}

fn rows(output: &Output) -> Vec<Value> {
    let results: Value = serde_json::from_str(&good(output)).unwrap();
    results["flows"].as_array().unwrap().clone()
}

#[test]
fn a_file_says_what_options_say() {
    let folder = folder();
    let file = rows(&lab(folder.path(), "compare s/study.toml --json --out a"));
    let options = "compare --sim --traces s/walk.down 12mbit --rtt 20ms,80ms --queue droptail:packets=100,codel --cross reno@1s --up s/walk.up --duration 4s --runs 2 --settle 2s --json --out b --schemes cubic,verus:r=4,epoch=5ms/over=cubic";
    assert_eq!(file, rows(&lab(folder.path(), options)));
    // Traces, round trips, queues, runs, schemes.
    assert_eq!(file.len(), 2 * 2 * 2 * 2 * 2);
    let first = &file[0];
    assert_eq!(
        first["link"],
        "walk.down rtt=20ms queue=droptail:packets=100"
    );
    assert_eq!(first["scheme"], "cubic+reno@1s");
    assert_eq!(file[1]["scheme"], "alcc-verus:r=4,epoch=5ms+reno@1s");
    let of = |row: &Value| (row["min_rtt_ms"].clone(), row["queue"].clone());
    assert_eq!(of(first), (20.0.into(), "droptail:packets=100".into()));
    assert_eq!(of(&file[31]), (80.0.into(), "codel".into()));
    let fewer = "compare s/study.toml --rtt 20ms --queue codel --runs 1 --json --out c";
    let fewer = rows(&lab(folder.path(), fewer));
    assert_eq!(fewer.len(), 4, "options override the file");
    assert_eq!(fewer[0]["link"], "walk.down");
}

#[test]
fn mistakes_have_a_line_and_a_key() {
    let folder = folder();
    for (from, to, part) in [
        (
            "rtt =",
            "rt =",
            "study.toml:3: no key 'rt' (did you mean rtt?)",
        ),
        (
            "80ms",
            "80",
            "study.toml:3: rtt: '80' is not a length of time",
        ),
        ("codel", "codle", "study.toml:4: queue: "),
        ("walk.down", "wlak.down", "study.toml:1: traces: "),
        ("cubic\",", "cubik\",", "did you mean cubic?"),
        (
            "verus:r=4,epoch=5ms/over=cubic",
            "alcc-verus",
            "now written verus/over=cubic",
        ),
        ("reno@1s", "reno@1", "study.toml:5: cross: flow 'reno@1'"),
        (
            "runs = 2",
            "runs = 0",
            "study.toml:8: runs: '0': want 1 to 1000",
        ),
        (
            "\"4s\"",
            "true",
            "study.toml:7: duration: found a value of type boolean",
        ),
        (
            "\"verus:r=4,epoch=5ms/over=cubic\"",
            "\"cubic\"",
            "is given twice",
        ),
        ("80ms", "0.02s", "study.toml:3: rtt: '0.02s' is given twice"),
        (
            "codel",
            "droptail:packets=100",
            "study.toml:4: queue: 'droptail:packets=100' is given twice",
        ),
        (
            "reno@1s",
            "rino@1s",
            "study.toml:5: cross: flow 'rino@1s': no algorithm 'rino'",
        ),
        ("walk.up", "wlak.up", "study.toml:6: up: "),
        (
            "\"cubic\", \"v",
            "\"bbr+lowat=8kB\", \"v",
            "this is now written bbr/lowat=8kB",
        ),
        (
            "\"2s\"",
            "\"3500ms\"",
            "study.toml:9: settle: '3500ms': no whole second follows in a window of 4s",
        ),
        (
            "traces = [\"walk.down\", \"12mbit\"]",
            "",
            "it has no traces",
        ),
    ] {
        let wrong = STUDY.replacen(from, to, 1);
        assert_ne!(wrong, STUDY, "{from}");
        fs::write(folder.path().join("s/study.toml"), wrong).unwrap();
        let output = lab(folder.path(), "compare s/study.toml --out a");
        let says = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{to}: {says}");
        assert!(says.contains(part), "{to}: {says}");
        assert_eq!(says.trim_end().lines().count(), 1, "{says}");
    }
}

/// A table that an algorithm reads is an input like a trace.
#[test]
fn what_an_option_names_is_read_again_and_in_no_archive() {
    let folder = folder();
    let table = |state: &str| {
        let text = format!("3,-2,2,2,3,-2,2,2\n{}", format!("{state}\n").repeat(9));
        fs::write(folder.path().join("table.csv"), text).unwrap();
    };
    let run =
        "compare --sim --traces 12mbit --schemes mdi:matrix=table.csv --duration 2s --json --out a";
    let results = || -> Value { serde_json::from_str(&good(&lab(folder.path(), run))).unwrap() };
    table("1,0,0,0,0,0,0,0,0");
    let before = results();
    table("0,0,0,0,0,0,0,0,1");
    let after = results();
    assert_ne!(before["flows"], after["flows"]);
    let hash = |of: &Value| of["about"]["files"][0]["sha256"].clone();
    assert_ne!(hash(&before), hash(&after));
    assert_eq!(after["about"]["files"][0]["path"], "table.csv");
    table("1,0,0,0,0,0,0,0,0");
    assert_eq!(results()["flows"], before["flows"]);
    let study = STUDY.replacen("\"cubic\"", "\"mdi:matrix=table.csv\"", 1);
    fs::write(folder.path().join("s/study.toml"), study).unwrap();
    let output = lab(folder.path(), "bundle s/study.toml --out x.tar");
    let says = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{says}");
    let part = "matrix=table.csv: an archive carries no file of an algorithm";
    assert!(
        says.contains("study.toml:2: schemes: ") && says.contains(part),
        "{says}"
    );
    assert_eq!(says.trim_end().lines().count(), 1, "{says}");
}

#[test]
fn an_archive_gives_the_same_rows_or_says_which_differ() {
    let folder = folder();
    let at = folder.path();
    let made = good(&lab(at, "bundle s/study.toml --out x.tar"));
    assert!(made.contains("x.tar: 32 rows, build "), "{made}");
    // Nothing outside is needed.
    fs::remove_dir_all(at.join("s")).unwrap();
    assert_eq!(good(&lab(at, "bundle --check x.tar")), "equal: 32 rows\n");
    let tar = |words: &[&str]| {
        let done = Command::new("tar").args(words).current_dir(at).status();
        assert!(done.unwrap().success());
    };
    fs::create_dir(at.join("y")).unwrap();
    tar(&["-xf", "x.tar", "-C", "y"]);
    for name in [
        "study.toml",
        "traces/0/walk.down",
        "up/walk.up",
        "results/report.html",
    ] {
        assert!(at.join("y").join(name).is_file(), "{name}");
    }
    let change = |name: &str, from: &str, to: &str| {
        let file = at.join("y").join(name);
        let before = fs::read_to_string(&file).unwrap();
        let after = before.replacen(from, to, 1);
        assert_ne!(before, after, "{name}");
        fs::write(file, after).unwrap();
        tar(&["-cf", "y.tar", "-C", "y", "."]);
    };
    change("results/results.json", "\"loss\":", "\"loss\":1");
    let output = lab(at, "bundle --check y.tar");
    let (table, says) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{says}");
    assert!(says.contains("1 of 32 rows differ"), "{says}");
    let line = "walk.down rtt=20ms queue=droptail:packets=100, cubic+reno@1s, run 1: loss 1";
    assert!(
        table.starts_with(line) && table.lines().count() == 1,
        "{table}"
    );
    change("traces/0/walk.down", "1\n", "1\n1\n");
    let output = lab(at, "bundle --check y.tar");
    let says = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{says}");
    assert!(
        says.contains("traces/0/walk.down: it is not the file"),
        "{says}"
    );
    for words in [
        "bundle s/study.toml --out x.tar",
        "bundle --check nosuch.tar",
    ] {
        let output = lab(at, words);
        let says = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words}: {says}");
        assert_eq!(says.trim_end().lines().count(), 1, "{says}");
    }
}

/// Each is refused in one line that names it, or says which rows differ.
#[test]
fn archives_of_another_version_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let study = "traces = \"12mbit\"\nschemes = \"cubic\"\nduration = \"1s\"\n";
    fs::write(at.join("study.toml"), study).unwrap();
    good(&lab(at, "bundle study.toml --out x.tar"));
    let sum =
        "s#\\(study.toml\",\"sha256\":\"\\)[0-9a-f]*#\\1'$(sha256sum <y/study.toml | cut -c1-64)'#";
    for (script, says) in [
        (
            "sed -i 's/\"flows\":/\"rows\":/' y/results/results.json",
            "y.tar: results/results.json in it: it has another form than this version reads",
        ),
        (
            "echo 'seeds = 2' >>y/study.toml",
            "y.tar: study.toml:4: no key 'seeds'",
        ),
        (
            "sed -i 's/cubic/alcc-verus/' y/study.toml",
            "y.tar: study.toml:2: schemes: flow 'alcc-verus': this is now written verus/over=cubic",
        ),
    ] {
        let script = format!(
            "rm -rf y; mkdir y; tar -xf x.tar -C y; {script}; sed -i '{sum}' y/results/results.json; tar -cf y.tar -C y ."
        );
        let mut shell = Command::new("sh");
        assert!(
            shell
                .args(["-ec", &script])
                .current_dir(at)
                .status()
                .unwrap()
                .success()
        );
        let output = lab(at, "bundle --check y.tar");
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{script}: {error}");
        assert!(error.contains(says), "{script}: {error}");
        assert_eq!(error.trim_end().lines().count(), 1, "{error}");
    }
}

/// An archive is untrusted: nothing outside of it is read for it.
#[test]
fn what_leads_out_of_an_archive_is_refused() {
    let folder = folder();
    let at = folder.path();
    good(&lab(at, "bundle s/study.toml --out x.tar"));
    fs::create_dir(at.join("y")).unwrap();
    let shell = |script: &str| {
        let done = Command::new("sh")
            .args(["-ec", script])
            .current_dir(at)
            .status();
        assert!(done.unwrap().success(), "{script}");
    };
    let trace = at.join("s/walk.down").display().to_string();
    let absolute = format!("sed -i 's#traces/0/walk.down#{trace}#' y/study.toml");
    let unnamed = "sed -i 's#\"study.toml\"#\"other\"#' y/results/results.json";
    for (script, says) in [
        (
            &*format!("ln -sf {trace} y/traces/0/walk.down"),
            "neither a file nor a folder",
        ),
        (
            "rm y/traces/0/walk.down; mkfifo y/traces/0/walk.down",
            "neither a file nor a folder",
        ),
        ("rm y/traces/0/walk.down", "traces/0/walk.down is not in it"),
        (&absolute, "study.toml"),
        (unnamed, "does not say with which study.toml"),
    ] {
        shell(&format!(
            "rm -rf y; mkdir y; tar -xf x.tar -C y; {script}; tar -cf y.tar -C y ."
        ));
        let output = lab(at, "bundle --check y.tar");
        let error = text(&output.stderr);
        assert!(!output.status.success(), "{script}");
        assert!(error.contains(says), "{script}: {error}");
        assert_eq!(error.trim_end().lines().count(), 1, "{error}");
    }
    // A bomb, or a name that leads out: nothing of it is written.
    for (script, says) in [
        (
            "truncate -s 500M zeros; tar -czf",
            "it is not a whole, uncompressed tar archive",
        ),
        (
            "truncate -s 1T zeros; tar -cSf",
            "zeros in it is neither a file nor a folder",
        ),
        (
            "tar -P --transform 's#study#../study#' -cf",
            "../study.toml in it is not below its folder",
        ),
        (
            "tar -P --transform 's#study#/study#' -cf",
            "/study.toml in it is not below its folder",
        ),
        (
            "tar --transform 's#up/walk.up#study.toml#' -cf",
            "study.toml in it is there twice",
        ),
    ] {
        shell(&format!(
            "rm -rf y; mkdir y; tar -xf x.tar -C y; cd y; {script} ../y.tar $(find * -type f)"
        ));
        let output = lab(at, "bundle --check y.tar");
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{script}: {error}");
        assert!(error.contains(says), "{script}: {error}");
        assert_eq!(error.trim_end().lines().count(), 1, "{error}");
    }
    shell("mkfifo waits");
    let output = lab(at, "bundle --check waits");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("it is not a regular file"));
    shell("head -c 3000 x.tar >y.tar");
    let output = lab(at, "bundle --check y.tar");
    let error = text(&output.stderr);
    assert!(
        error.contains("is cut off") || error.contains("not a whole"),
        "{error}"
    );
    // A name with a colon is not a host.
    shell("cp x.tar 12:10.tar");
    assert_eq!(
        good(&lab(at, "bundle --check 12:10.tar")),
        "equal: 32 rows\n"
    );
}

/// A study without --sim is read as with it.
#[test]
fn a_study_is_simulated_as_with_the_option() {
    let folder = folder();
    let study = folder.path().join("s/study.toml");
    let text = fs::read_to_string(&study).unwrap();
    fs::write(&study, text.replace("\"cubic\"", "\"bbr3\"")).unwrap();
    let rows = rows(&lab(folder.path(), "compare s/study.toml --json --out a"));
    let schemes: Vec<_> = rows
        .iter()
        .filter_map(|row| row["scheme"].as_str())
        .collect();
    assert!(
        schemes.iter().any(|name| name.starts_with("bbr3")),
        "{schemes:?}"
    );
}
