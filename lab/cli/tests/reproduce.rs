// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `alcc-lab reproduce` as a user meets it: verdicts, pages, going on after an interruption, mistakes.
#[path = "../../../alcc/cli/tests/support"]
mod support {
    pub(crate) mod lacks;
}

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const EXPERIMENT: &str = r#"title = "A window that never grows"
source = "this test"
statement = "It builds no queue."
runs = 2

[scenario]
link = "12mbit"
flow = "{scheme}"
duration = "3s"

[[sweep]]
key = "scheme"
values = ["fixed:window=20", { name = "Cubic", scheme = "cubic" }]

[report]
x = "queue_delay_mean_ms"

[[expect]]
says = "its queue is a tenth of Cubic's or less"
metric = "queue_delay_mean_ms"
of = { scheme = "fixed:window=20" }
over = { scheme = "Cubic" }
published = 0
at-most = 0.1
"#;

struct Folder(tempfile::TempDir);

impl Folder {
    fn with(text: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("static")).unwrap();
        std::fs::write(dir.path().join("static/experiment.toml"), text).unwrap();
        std::fs::write(
            dir.path().join("static/README.md"),
            "# static\n\nWhy <so>?\n",
        )
        .unwrap();
        Self(dir)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn alcc(&self, words: &[&str]) -> Output {
        let words = match words {
            ["sweep" | "compare", ..] => words.to_vec(),
            _ => [&["reproduce"], words].concat(),
        };
        Command::new(env!("CARGO_BIN_EXE_alcc-lab"))
            .args(words)
            .env_remove("ALCC_TRACES")
            .current_dir(self.path())
            .output()
            .unwrap()
    }

    fn json(&self, words: &[&str]) -> Value {
        let output = self.alcc(words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// The files of stored runs.
    fn stored(&self, folder: &str) -> BTreeMap<PathBuf, String> {
        let files = std::fs::read_dir(self.path().join(folder)).unwrap();
        let files = files.map(|file| file.unwrap().path());
        let text = |file: &PathBuf| std::fs::read_to_string(file).unwrap();
        files.map(|file| (file.clone(), text(&file))).collect()
    }

    /// One line on standard error, and the exit status.
    fn refused(&self, words: &[&str]) -> (String, Option<i32>) {
        let output = self.alcc(words);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(said.trim_end().lines().count(), 1, "{said}");
        (said, output.status.code())
    }
}

const FILE: &str = "static/experiment.toml";

#[test]
fn an_experiment_has_a_verdict_and_a_page() {
    let folder = Folder::with(EXPERIMENT);
    let json = folder.json(&[FILE, "--json"]);
    let judged = &json["experiments"][0];
    assert_eq!(judged["id"], "static");
    assert_eq!(judged["verdict"], "reproduced", "{judged}");
    assert_eq!(judged["mode"], "sim");
    let page = std::fs::read_to_string(folder.path().join("reproduced/static.html")).unwrap();
    assert!(
        page.contains("<svg") && page.contains("Why &lt;so&gt;?"),
        "{page}"
    );
    assert!(page.len() < 1_000_000);
    // Nothing from elsewhere, but for the name of SVG's namespace.
    assert!(
        !page
            .replace("http://www.w3.org/2000/svg", "")
            .contains("http"),
        "{page}"
    );
    let index = std::fs::read_to_string(folder.path().join("reproduced/index.html")).unwrap();
    assert!(index.contains("1 reproduced"), "{index}");
    assert!(index.contains(" s, CPU "), "{index}");
    let csv = std::fs::read_to_string(folder.path().join("reproduced/static.csv")).unwrap();
    let lines: Vec<&str> = csv.lines().collect();
    assert!(
        lines[0].starts_with("case,axis_scheme,repetition,scheme,algorithm"),
        "{}",
        lines[0]
    );
    assert_eq!(lines.len(), 5);
    let flows = json["flows"].as_array().unwrap();
    assert_eq!(flows.len(), 4);
    for row in flows {
        let keys: Vec<&str> = row.as_object().unwrap().keys().map(|k| &k[..]).collect();
        assert_eq!(keys.join(","), format!("experiment,{}", lines[0]));
    }
    let varied = ["experiment", "case", "axis_scheme", "repetition"].map(|k| &flows[3][k]);
    assert_eq!(
        varied,
        [&json!("static"), &json!(1), &json!("Cubic"), &json!(2)]
    );
    assert!(
        lines[4].starts_with("1,Cubic,2,cubic,cubic"),
        "{}",
        lines[4]
    );
    // What is stored already took no time.
    let again = folder.alcc(&[FILE, "--results", "."]);
    let said = String::from_utf8_lossy(&again.stderr);
    assert!(again.status.success() && !said.contains("CPU"), "{said}");
    let stored = std::fs::read_to_string(folder.path().join("results.json")).unwrap();
    assert!(
        stored.contains("static") && !stored.contains("seconds"),
        "{stored}"
    );
}

#[test]
fn each_experiment_says_what_it_took() {
    let folder = Folder::with(EXPERIMENT);
    let output = folder.alcc(&[FILE, "--results", "."]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.lines()
            .any(|line| line.contains("static: ") && line.contains(" s, CPU ")),
        "{said}"
    );
    let file = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let (stored, page) = (file("results.json"), file("results.md"));
    assert!(stored.contains("\"took\":{\"seconds\":"), "{stored}");
    assert!(page.contains("The longest: static, "), "{page}");
    // A second command has stored runs: it keeps what they took.
    assert!(folder.alcc(&[FILE, "--results", "."]).status.success());
    assert_eq!(file("results.json"), stored);
}

#[test]
fn without_a_program_an_experiment_is_not_run_and_the_others_go_on() {
    let folder = Folder::with(EXPERIMENT);
    let channel = folder.path().join("channel.toml");
    let text = "title = 'c'\nsource = 's'\nstatement = 'x'\n[channel]\nlink = '{trace}'\n\
        [[sweep]]\nkey = 'trace'\nvalues = ['ms.trace']\n\
        [[expect]]\nsays = 'x'\nmetric = 'cv_100ms'\nof = {}\nat-least = 0\n";
    std::fs::write(&channel, text).unwrap();
    let trace: Vec<String> = (1..=2_000).map(|ms| ms.to_string()).collect();
    std::fs::write(folder.path().join("ms.trace"), trace.join("\n") + "\n").unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_alcc-lab"))
        .args(["reproduce", "--emu", FILE, "channel.toml", "--json"])
        .envs([("PATH", ""), ("ALCC_NGINX", "/no/such/nginx")])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let [real, channel] = [0, 1].map(|i| &json["experiments"][i]);
    let why = real["why"].as_str().unwrap();
    assert_eq!(real["verdict"], "not-run", "{json}");
    assert!(why.starts_with("needs real programs: "), "{why}");
    assert_ne!(channel["verdict"], "not-run", "{channel}");
}

#[test]
fn real_programs_run_the_same_experiment() {
    let text = EXPERIMENT.replace("\"cubic\" }", "\"cubic\" }, \"cubic/dir=up\"");
    let upload = "[[expect]]\nsays = 'it uploads'\nmetric = 'utilization'\n\
        of = { scheme = 'cubic/dir=up' }\nat-least = 0\n";
    let folder = Folder::with(&(text + upload));
    let output = folder.alcc(&["--emu", FILE, "--json"]);
    let said = String::from_utf8_lossy(&output.stderr);
    let known = ["find nginx", "find curl", "namespace", "device"];
    if output.status.code() == Some(2) && known.iter().any(|k| said.contains(k)) {
        support::lacks::lacks(said.trim());
        return;
    }
    assert!(output.status.success(), "{said}");
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let judged = &json["experiments"][0];
    assert_eq!(judged["mode"], "emu");
    // One start of two, so it judges nothing; but it has the figure.
    assert_eq!(judged["verdict"], "short", "{judged}");
    assert!(judged["ours"].as_f64().unwrap() < 0.5, "{judged}");
    let flows = json["flows"].as_array().unwrap();
    let feedback: Vec<&str> = flows
        .iter()
        .map(|f| f["feedback"].as_str().unwrap())
        .collect();
    assert_eq!(feedback, ["udp", "kernel"]);
    let stored = folder.stored("reproduced/static.runs");
    assert_eq!(stored.len(), 2);
    for text in stored.values() {
        assert!(text.contains("alcc-lab sim --emu --link 12mbit"), "{text}");
    }
    // What real programs cannot do fails alone, and says why.
    let why = judged["why"].as_str().unwrap();
    assert!(why.contains("emulate dir=up"), "{why}");
    // Simulated runs of the same experiment are others.
    let json = folder.json(&[FILE, "--json"]);
    assert_eq!(json["experiments"][0]["mode"], "sim");
    let (said, status) = folder.refused(&["--full", FILE]);
    assert!(said.contains("--emu"), "{said}");
    assert_eq!(status, Some(2));
}

#[test]
fn a_bound_that_does_not_hold_is_said() {
    let folder = Folder::with(&EXPERIMENT.replace("at-most", "at-least"));
    let json = folder.json(&[FILE, "--json"]);
    let judged = &json["experiments"][0];
    assert_eq!(judged["verdict"], "differs", "{judged}");
    assert!(
        judged["why"]
            .as_str()
            .unwrap()
            .contains("a tenth of Cubic's"),
        "{judged}"
    );
}

#[test]
fn an_interrupted_experiment_goes_on_where_it_was() {
    let folder = Folder::with(EXPERIMENT);
    let stored = || folder.stored("reproduced/static.runs");
    let whole = folder.json(&[FILE, "--json"]);
    let all = stored();
    assert_eq!(all.len(), 4);
    // Two are kept, one is cut off, one is not there.
    let mut files = all.iter();
    let ((cut, text), (gone, _)) = (files.next().unwrap(), files.next().unwrap());
    std::fs::write(cut, &text[..text.len() / 2]).unwrap();
    std::fs::remove_file(gone).unwrap();
    let again = folder.json(&[FILE, "--json"]);
    assert_eq!(again["experiments"], whole["experiments"]);
    assert_eq!(stored(), all);
}

/// The old form: all runs were lines of one file.
#[test]
fn stored_runs_of_the_old_form_are_refused_by_name() {
    let folder = Folder::with(EXPERIMENT);
    folder.json(&[FILE, "--json"]);
    std::fs::write(folder.path().join("reproduced/static.runs.jsonl"), "{}\n").unwrap();
    let (said, status) = folder.refused(&[FILE]);
    assert!(
        said.contains("static.runs.jsonl: stored runs of an earlier version"),
        "{said}"
    );
    assert_eq!((said.trim_end().lines().count(), status), (1, Some(2)));
}

/// New results would be merged with them.
#[test]
fn stored_results_of_another_version_are_refused_before_the_first_run() {
    let folder = Folder::with(EXPERIMENT);
    std::fs::create_dir(folder.path().join("into")).unwrap();
    for (name, words) in [
        ("results.json", &[FILE, "--results", "into"][..]),
        ("board.json", &["--board", "into"]),
    ] {
        let file = folder.path().join("into").join(name);
        for old in ["{\"entries\": []}", "x"] {
            std::fs::write(&file, old).unwrap();
            let (said, status) = folder.refused(words);
            let says = format!("into/{name}: stored results of another version (");
            assert!(said.contains(&says), "{said}");
            assert_eq!(status, Some(2));
            assert_eq!(std::fs::read_to_string(&file).unwrap(), old);
        }
    }
    assert!(!folder.path().join("reproduced/static.runs").exists());
}

#[test]
fn a_missing_trace_is_not_run_and_the_others_go_on() {
    let folder = Folder::with(EXPERIMENT);
    let json = folder.json(&["mdi-rapid", FILE, "--json"]);
    let judged = json["experiments"].as_array().unwrap();
    assert_eq!(judged[0]["verdict"], "not-run", "{json}");
    let why = judged[0]["why"].as_str().unwrap();
    assert!(
        why.contains("alcc/rapidGold") && why.contains("--traces"),
        "{why}"
    );
    assert_eq!(judged[1]["verdict"], "reproduced");
}

#[test]
fn a_trace_beside_the_experiment_is_found_from_anywhere() {
    let folder = Folder::with(&EXPERIMENT.replace("link = \"12mbit\"", "link = \"mine.down\""));
    std::fs::write(folder.path().join("static/mine.down"), "1\n2\n3\n").unwrap();
    let json = folder.json(&[FILE, "--json"]);
    assert_eq!(json["experiments"][0]["verdict"], "reproduced", "{json}");
}

/// A named experiment that did not run must change the exit status.
#[test]
fn what_is_named_and_cannot_run_is_no_success() {
    let folder = Folder::with(EXPERIMENT);
    let output = folder.alcc(&["mdi-rapid", "--json"]);
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["experiments"][0]["verdict"], "not-run", "{json}");
    // Beside what each experiment took there is one line.
    let why = |words: &[&str]| {
        let output = folder.alcc(words);
        let said = String::from_utf8(output.stderr).unwrap();
        let lines: Vec<&str> = said
            .lines()
            .filter(|l| l.starts_with("alcc-lab: "))
            .collect();
        assert_eq!(lines.len(), 1, "{said}");
        (lines[0].to_owned(), output.status.code())
    };
    let (said, status) = why(&["mdi-rapid"]);
    for word in [
        "mdi-rapid: not run: ",
        "alcc/rapidGold",
        "--traces",
        "docs/traces.md",
    ] {
        assert!(said.contains(word), "{word}: {said}");
    }
    assert_eq!((output.status.code(), status), (Some(2), Some(2)));
    assert!(folder.path().join("reproduced/mdi-rapid.html").exists());
    let (said, status) = why(&["mdi-rapid", "mdi-cellular"]);
    assert!(said.contains("none of the 2 experiments"), "{said}");
    assert_eq!(status, Some(2));
}

#[test]
fn mistakes_are_one_line_that_helps() {
    let folder = Folder::with(&EXPERIMENT.replace("duration", "durration"));
    let (said, status) = folder.refused(&[FILE]);
    assert!(
        said.contains("static/experiment.toml:9: no key 'durration' (did you mean duration?)"),
        "{said}"
    );
    assert_eq!(status, Some(2));
    let (said, status) = folder.refused(&["verus-fig-11a"]);
    assert!(
        said.contains("no experiment 'verus-fig-11a' (did you mean verus-fig11a?)"),
        "{said}"
    );
    assert_eq!(status, Some(2));
    let (said, status) = folder.refused(&["mdi-rapid", "--traces", "nowhere"]);
    assert!(said.contains("--traces nowhere: no such folder"), "{said}");
    assert_eq!(status, Some(2));
    // Beside one that is right.
    std::fs::create_dir(folder.path().join("right")).unwrap();
    std::fs::write(folder.path().join("right/experiment.toml"), EXPERIMENT).unwrap();
    let (said, status) = folder.refused(&["right/experiment.toml", FILE]);
    assert!(said.contains("no key 'durration'"), "{said}");
    assert_eq!(status, Some(2));
    // Before the run.
    std::fs::write(folder.path().join("taken"), "").unwrap();
    let (said, status) = folder.refused(&["mdi-rapid", "--out", "taken"]);
    assert!(said.contains("write into taken: it is a file"), "{said}");
    assert_eq!(status, Some(2));
    std::fs::create_dir_all(folder.path().join("out/mdi-rapid.html")).unwrap();
    let (said, status) = folder.refused(&["mdi-rapid", "--out", "out"]);
    assert!(
        said.contains("out/mdi-rapid.html: it is a folder"),
        "{said}"
    );
    assert_eq!(status, Some(2));
    // A scheme that does not exist is found in the file.
    let folder = Folder::with(&EXPERIMENT.replace("\"cubic\"", "\"cubik\""));
    let (said, status) = folder.refused(&[FILE]);
    assert!(
        said.contains("cubik") && said.contains("static/experiment.toml:8: flow"),
        "{said}"
    );
    assert_eq!(status, Some(2));
}

#[test]
fn one_command_at_a_time_writes_into_a_folder() {
    use nix::fcntl::{Flock, FlockArg};
    let folder = Folder::with(EXPERIMENT);
    let out = folder.path().join("out");
    std::fs::create_dir(&out).unwrap();
    let open = std::fs::File::open(&out).unwrap();
    let other = Flock::lock(open, FlockArg::LockExclusiveNonblock);
    let other = other.map_err(|(_, e)| e).unwrap();
    let sweep = [
        "sweep",
        "--link",
        "12mbit",
        "--vary",
        "flow=cubic",
        "--out",
        "out",
    ];
    let compare = [
        "compare",
        "--sim",
        "--traces",
        "12mbit",
        "--schemes",
        "cubic",
        "--out",
        "out",
    ];
    for words in [&[FILE, "--out", "out"][..], &sweep, &compare] {
        let (said, status) = folder.refused(words);
        assert!(said.contains("another command is writing there"), "{said}");
        assert_eq!(status, Some(2));
    }
    drop(other);
    folder.json(&[FILE, "--out", "out", "--json"]);
}

/// The cause of a file of one's own may be another such file.
#[test]
fn a_cause_may_be_another_file_of_the_same_command() {
    let text = EXPERIMENT.replace("at-most", "at-least");
    let folder = Folder::with(&format!("explained-by = \"cause\"\n{text}"));
    std::fs::create_dir(folder.path().join("cause")).unwrap();
    std::fs::write(folder.path().join("cause/experiment.toml"), EXPERIMENT).unwrap();
    let json = folder.json(&[FILE, "cause/experiment.toml", "--json"]);
    let verdicts = [0, 1].map(|i| json["experiments"][i]["verdict"].clone());
    assert_eq!(verdicts, ["differs-explained", "reproduced"], "{json}");
    let (said, status) = folder.refused(&[FILE]);
    assert!(
        said.contains("static: explained-by: no experiment 'cause'"),
        "{said}"
    );
    assert_eq!(status, Some(2));
}

/// Two files of one folder have pages of their own, and a name does not depend on where the command
/// is given.
#[test]
fn files_of_ones_own_are_told_apart() {
    let folder = Folder::with(EXPERIMENT);
    let other = EXPERIMENT.replace("at-most = 0.1", "at-most = 0.2");
    std::fs::write(folder.path().join("static/other.toml"), other).unwrap();
    let json = folder.json(&[FILE, "static/other.toml", FILE, "--out", "out", "--json"]);
    let page = std::fs::read_to_string(folder.path().join("out/other.html"));
    assert!(page.unwrap().contains("at-most = 0.2"), "its definition");
    let ids = [0, 1, 2].map(|i| json["experiments"][i]["id"].clone());
    assert_eq!(ids, [Value::from("static"), "other".into(), Value::Null]);
    let inside = Command::new(env!("CARGO_BIN_EXE_alcc-lab"))
        .args(["reproduce", "experiment.toml", "--json"])
        .current_dir(folder.path().join("static"))
        .output()
        .unwrap();
    let json: Value = serde_json::from_slice(&inside.stdout).unwrap();
    assert_eq!(json["experiments"][0]["id"], "static");
    let moved = folder.path().join("static/static.toml");
    std::fs::copy(folder.path().join("static/other.toml"), moved).unwrap();
    let (said, status) = folder.refused(&[FILE, "static/static.toml"]);
    assert!(
        said.contains("another experiment is called static"),
        "{said}"
    );
    assert_eq!(status, Some(2));
}

/// A median without its number and range says little.
#[test]
fn the_table_of_a_sweep_has_numbers_and_ranges() {
    let folder = Folder::with(EXPERIMENT);
    let words = ["sweep", "--link", "lte", "--duration", "2s", "--runs", "3"];
    let vary = ["--vary", "flow=cubic;fixed:window=1"];
    let output = folder.alcc(&[&words[..], &vary].concat());
    let said = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<Vec<&str>> = said
        .lines()
        .map(|l| l.split_whitespace().collect())
        .collect();
    assert_eq!(lines[0][..2], ["flow", "n"], "{said}");
    assert_eq!(lines[1][..2], ["cubic", "3"], "{said}");
    assert!(
        lines[1][3].starts_with('(') && lines[1][3].contains('-'),
        "{said}"
    );
    let output = folder.alcc(&[&words[..], &vary, &["--interval", "ci95"]].concat());
    let said = String::from_utf8(output.stdout).unwrap();
    let cubic = said.lines().nth(1).unwrap();
    assert!(cubic.contains(" ±") && !cubic.contains('('), "{said}");
    let output = folder.alcc(&[&words[..5], &["--runs", "1"], &vary].concat());
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(!said.contains('('), "{said}");
    // Nothing is drawn at random there: three equal copies are one run.
    let words = words.map(|word| if word == "lte" { "12mbit" } else { word });
    let output = folder.alcc(&[&words[..], &vary].concat());
    let said = String::from_utf8(output.stdout).unwrap();
    let cubic = said.lines().nth(1).unwrap().split_whitespace();
    assert_eq!(cubic.take(2).collect::<Vec<_>>(), ["cubic", "1"], "{said}");
}

/// Throughput counts packets that are lost behind the bottleneck; goodput does not.
#[test]
fn a_sweep_has_goodput_beside_throughput_where_a_radio_loses() {
    let folder = Folder::with(EXPERIMENT);
    let words = [
        "sweep",
        "--link",
        "12mbit",
        "--duration",
        "5s",
        "--runs",
        "1",
    ];
    let table = |more: &[&str]| {
        let output = folder.alcc(&[&words[..], more].concat());
        String::from_utf8(output.stdout).unwrap()
    };
    let lossy = table(&["--flow", "budget", "--vary", "radio=loss:p=0.05;loss:p=0.1"]);
    let mut lines = lossy.lines().map(|line| line.split_whitespace());
    let header = ["radio", "throughput_mbps", "goodput_mbps"];
    let found: Vec<&str> = lines.next().unwrap().take(3).collect();
    assert_eq!(found, header, "{lossy}");
    for (line, part) in lines.take(2).zip([0.95, 0.9]) {
        let figures: Vec<f64> = line.skip(1).take(2).map(|f| f.parse().unwrap()).collect();
        // Goodput has no headers, either.
        let received = figures[1] / figures[0];
        assert!(received < part && received > part - 0.05, "{lossy}");
    }
    let plain = table(&["--vary", "flow=budget;cubic"]);
    assert!(!plain.contains("goodput_mbps"), "{plain}");
}

/// A published algorithm in this project's own form is not called by the bare name.
#[test]
fn a_sweep_names_tuned_forms() {
    let folder = Folder::with(EXPERIMENT);
    let words = ["sweep", "--link", "12mbit", "--duration", "2s", "--vary"];
    let vary = ["flow=copa;copa:profile=paper;cubic", "--runs", "1"];
    let output = folder.alcc(&[&words[..], &vary].concat());
    let table = String::from_utf8(output.stdout).unwrap();
    let page = std::fs::read_to_string(folder.path().join("swept/sweep.html")).unwrap();
    assert_eq!(table.matches(" (tuned) ").count(), 1, "{table}");
    assert!(table.contains("\ncopa (tuned) "), "{table}");
    // A legend and a cell.
    assert!(page.matches("copa (tuned)<").count() >= 2, "{page}");
    assert!(
        !page.contains("paper (tuned)") && !page.contains(">copa<"),
        "{page}"
    );
    let csv = std::fs::read_to_string(folder.path().join("swept/sweep.csv")).unwrap();
    assert!(csv.contains("\n0,copa,1,copa,"), "{csv}");
}

#[test]
fn a_sweep_has_every_combination_and_goes_on_where_it_was() {
    let folder = Folder::with(EXPERIMENT);
    let vary = ["--vary", "window=10..20/5", "--vary", "rtt=20ms,40ms"];
    let words = [
        "sweep",
        "--link",
        "12mbit",
        "--duration",
        "2s",
        "--runs",
        "1",
    ];
    let words = [&words[..], &["--flow", "fixed:window={window}"], &vary].concat();
    let json = folder.json(&[&words[..], &["--json"]].concat());
    let runs = json["sweep"].as_array().unwrap();
    assert_eq!(runs.len(), 6);
    assert_eq!(runs[3]["cell"][0], "15");
    assert_eq!(runs[3]["cell"][1], "40ms");
    let flows = json["flows"].as_array().unwrap();
    let varied = ["case", "window", "rtt_ms", "repetition"].map(|k| &flows[3][k]);
    assert_eq!(varied, [&json!(3), &json!(15.0), &json!(40.0), &json!(1)]);
    // 15 packets of 1500 bytes in 40 ms are 4.5 Mbit/s; serialisation, delayed acknowledgements and
    // the first round trip take some of it.
    let mbps = runs[3]["flows"][0]["throughput_mbps"].as_f64().unwrap();
    assert!(mbps > 3.9 && mbps < 4.5, "{mbps}");
    let stored = || folder.stored("swept/sweep.runs").len();
    assert_eq!(stored(), 6);
    let more = words.iter().map(|word| word.replace("20/5", "25/5"));
    let more: Vec<String> = more.collect();
    let output = folder.alcc(&more.iter().map(String::as_str).collect::<Vec<_>>());
    let table = String::from_utf8(output.stdout).unwrap();
    assert_eq!(table.lines().count(), 1 + 8 + 1, "{table}");
    assert!(
        table.starts_with("window  rtt   throughput_mbps"),
        "{table}"
    );
    // Two that are new.
    assert_eq!(stored(), 8);
    let page = std::fs::read_to_string(folder.path().join("swept/sweep.html")).unwrap();
    // Two figures, each also as a phone shows it.
    assert_eq!(page.matches("<svg").count(), 4);
    // It can be pasted, and says the machine.
    let command = "--flow 'fixed:window={window}'";
    assert!(page.contains(command) && page.contains(" cores"), "{page}");
    let csv = std::fs::read_to_string(folder.path().join("swept/sweep.csv")).unwrap();
    let beside = std::fs::read(folder.path().join("swept/sweep.csv-metadata.json")).unwrap();
    let beside: Value = serde_json::from_slice(&beside).unwrap();
    let about = &beside["notes"][0]["about"];
    assert_eq!(beside["url"], "sweep.csv");
    assert!(about["build"].as_str().unwrap().len() >= 16, "{about}");
    let command = about["command"].as_str().unwrap();
    assert!(command.starts_with("alcc-lab sweep "), "{about}");
    assert!(csv.starts_with("case,window,rtt_ms,repetition,"), "{csv}");
    let keys = flows[0].as_object().unwrap().keys();
    let keys: Vec<&str> = keys.map(String::as_str).collect();
    assert_eq!(csv.lines().next(), Some(&keys.join(",")[..]));

    let (said, status) = folder.refused(&["sweep", "--vary", "rrt=20ms"]);
    assert!(said.contains("no key 'rrt' (did you mean rtt?)"), "{said}");
    let loss = [
        "sweep",
        "--link",
        "12mbit",
        "--flow",
        "cubic",
        "--vary",
        "loss=0%,101%",
    ];
    let (said, _) = folder.refused(&[&loss[..], &["--out", "lost"]].concat());
    assert!(said.contains("--vary loss: '101%'"), "{said}");
    // Before the first run.
    assert!(folder.stored("lost/sweep.runs").is_empty());
    let (said, _) = folder.refused(&["sweep", "--link", "no.trace", "--vary", "rtt=20ms"]);
    assert!(
        said.contains("open the trace no.trace: no such file"),
        "{said}"
    );
    assert_eq!(status, Some(2));
}
