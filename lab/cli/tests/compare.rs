// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The board in the simulator: what it prints, that it does not depend on the number of workers,
//! and that it survives `kill -9`.
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant, SystemTime};

#[path = "../../../alcc/cli/tests/support"]
mod support {
    pub(crate) mod lacks;
    pub(crate) mod root;
}

fn compare(arguments: &str, traces: &str, out: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_alcc-lab"));
    command
        .args(["compare", "--sim", "--traces"])
        .args(traces.split_whitespace())
        .args(arguments.split_whitespace())
        .arg("--out")
        .arg(out)
        .env_remove("ALCC_TRACES");
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn good(output: &Output) -> String {
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// Names and modification times of the finished runs.
fn kept(out: &Path) -> BTreeMap<String, SystemTime> {
    fs::read_dir(out.join("runs"))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let is_run = name.ends_with(".json");
            Some((name, entry.metadata().ok()?.modified().ok()?)).filter(|_| is_run)
        })
        .collect()
}

/// Users of `alcc-lab sim` know `--link`.
#[test]
fn a_trace_may_be_called_a_link() {
    let folder = tempfile::tempdir().unwrap();
    let by = |name: &str| {
        let arguments = ["--schemes", "cubic", "--duration", "1s", "--json"];
        let mut command = Command::new(env!("CARGO_BIN_EXE_alcc-lab"));
        command.args(["compare", "--sim", name, "12mbit"]);
        command.args(arguments).arg("--out").arg(folder.path());
        let results: Value = serde_json::from_str(&good(&command.output().unwrap())).unwrap();
        results["flows"].clone()
    };
    assert_eq!(by("--link"), by("--traces"));
}

/// The command in `about` can be pasted into a shell.
#[test]
fn the_command_is_quoted() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("a b");
    let done = compare("--schemes 2*cubic --duration 1s", "12mbit", &out).output();
    good(&done.unwrap());
    let results: Value =
        serde_json::from_slice(&fs::read(out.join("results.json")).unwrap()).unwrap();
    let command = results["about"]["command"].as_str().unwrap();
    assert!(
        command.contains("--schemes '2*cubic' --duration 1s"),
        "{command}"
    );
}

#[test]
fn one_worker_and_three_give_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let arguments =
        "--schemes cubic,verus:r=4,profile=paper,copa/over=cubic --runs 2 --duration 5s";
    let by = |jobs: &str| {
        let out = folder.path().join(jobs);
        let csv = out.with_extension("csv");
        let json = compare(arguments, "synth:lte 12mbit", &out)
            .args(["--jobs", jobs, "--json", "--csv"])
            .arg(&csv)
            .output()
            .unwrap();
        let files = ["report.html", "results.json", "flows.csv", "board.csv"];
        let files = files.map(|file| fs::read(out.join(file)).unwrap());
        (good(&json), fs::read(csv).unwrap(), files)
    };
    let (one, three) = (by("1"), by("3"));
    assert!(one == three, "results depend on the number of workers");
    // How the files came about, beside each table.
    let read =
        |file: PathBuf| -> Value { serde_json::from_slice(&fs::read(file).unwrap()).unwrap() };
    let about = read(folder.path().join("1.csv-metadata.json"))["notes"][0]["about"].clone();
    assert_eq!(about, read(folder.path().join("1/results.json"))["about"]);
    assert!(about["build"].as_str().unwrap().len() >= 16, "{about}");

    let results: Value = serde_json::from_str(&one.0).unwrap();
    let flows = results["flows"].as_array().unwrap();
    let order: Vec<String> = flows
        .iter()
        .map(|f| format!("{} {} {}", f["link"], f["scheme"], f["seed"]).replace('"', ""))
        .collect();
    let schemes = ["cubic", "verus:r=4,profile=paper", "alcc-copa"];
    let mut want = Vec::new();
    for link in ["synth:lte", "12mbit"] {
        for seed in ["1", "2"] {
            want.extend(schemes.map(|scheme| format!("{link} {scheme} {seed}")));
        }
    }
    assert_eq!(order, want);
    let copa = &flows[2];
    assert_eq!(
        (&copa["algorithm"], &copa["feedback"], &copa["enforcement"]),
        (&"copa".into(), &"tcp-info".into(), &"gate+pacing".into())
    );
    assert_eq!(flows[1]["options"], "r=4,profile=paper");
    // Another seed is another channel of the same kind.
    assert_ne!(flows[0]["throughput_mbps"], flows[3]["throughput_mbps"]);
    let summary = &results["summary"];
    assert_eq!(summary["groups"].as_array().unwrap().len(), 6);
    assert_eq!(summary["overall"].as_array().unwrap().len(), 3);
    // Endless data into a queue of 2 MB on 12 Mbit/s: nobody can have more than Cubic, so it is on
    // the front.
    let cubic = &summary["groups"][3];
    assert_eq!(cubic["link"], "12mbit");
    assert_eq!(cubic["front"], true, "{cubic}");
    assert!(cubic["fields"]["utilization"]["median"].as_f64().unwrap() > 0.95);
    let lines = one.1.iter().filter(|b| **b == b'\n').count();
    assert_eq!(lines, flows.len() + 1);
}

#[test]
fn forms_above_tcp_stand_beside_the_native_one() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = "--schemes copa/transport=udp,copa/over=cubic,cubic --runs 2 --duration 5s";
    let output = compare(arguments, "synth:lte", folder.path())
        .output()
        .unwrap();
    let table = good(&output);
    assert!(
        table.contains("beside it") && table.contains(" of 1 within"),
        "{table}"
    );
    let results = fs::read_to_string(folder.path().join("results.json")).unwrap();
    let results: Value = serde_json::from_str(&results).unwrap();
    let pairs = results["summary"]["pairs"].as_array().unwrap();
    assert_eq!(pairs.len(), 1);
    let pair = &pairs[0];
    assert_eq!(
        (&pair["native"], &pair["scheme"]),
        (&"copa-udp".into(), &"alcc-copa".into())
    );
    assert_eq!(pair["triples"][0], "copa / udp / native");
    assert_eq!(pair["runs"], 2);
    // The same algorithm on the same channel: far apart they cannot be.
    let difference = pair["throughput_difference"]["median"].as_f64().unwrap();
    assert!(difference.abs() < 30.0, "{pair}");
    let page = fs::read_to_string(folder.path().join("native.md")).unwrap();
    assert!(
        page.contains("| synth:lte | copa-udp (tuned) | alcc-copa (tuned) |"),
        "{page}"
    );
}

#[test]
fn a_killed_sweep_goes_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let [whole, broken] = ["whole", "broken"].map(|name| folder.path().join(name));
    let arguments = "--schemes cubic,verus/over=cubic --runs 40 --duration 10s --jobs 1";
    let traces = "12mbit";
    let expected = good(
        &compare(arguments, traces, &whole)
            .arg("--json")
            .output()
            .unwrap(),
    );

    let mut child = compare(arguments, traces, &broken)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while kept(&broken).len() < 3 {
        assert!(Instant::now() < deadline, "no run is ever finished");
        std::thread::sleep(Duration::from_millis(2));
    }
    // SIGKILL.
    child.kill().unwrap();
    child.wait().unwrap();
    let before = kept(&broken);
    assert!(before.len() < 80, "it was killed too late to say anything");

    // One file is damaged besides, and another holds only a half.
    let runs: Vec<&String> = before.keys().collect();
    let file = |n: usize| broken.join("runs").join(runs[n]);
    let half = fs::read(file(0)).unwrap();
    fs::write(file(0), &half[..half.len() / 2]).unwrap();
    let damaged = text(&fs::read(file(1)).unwrap()).replace("\"bytes\":", "\"bytes\":1");
    fs::write(file(1), damaged).unwrap();

    let continued = good(
        &compare(arguments, traces, &broken)
            .arg("--json")
            .output()
            .unwrap(),
    );
    assert!(
        continued == expected,
        "a continued sweep differs from a whole one"
    );
    let after = kept(&broken);
    assert_eq!(after.len(), 80);
    for name in &runs[2..] {
        assert_eq!(after[*name], before[*name], "{name} was done again");
    }

    // Another length is another result, and nothing of the old ones is taken for it.
    let arguments = arguments.replace("10s", "9s").replace("40", "2");
    let other = good(
        &compare(&arguments, traces, &broken)
            .arg("--json")
            .output()
            .unwrap(),
    );
    let other: Value = serde_json::from_str(&other).unwrap();
    let flows = other["flows"].as_array().unwrap();
    assert_eq!(flows.len(), 4);
    assert!(flows.iter().all(|f| f["duration_s"] == 9.0));
    assert_eq!(kept(&broken).len(), 84);
}

#[test]
fn a_figure_has_a_row_of_panels_for_each_link() {
    let folder = tempfile::tempdir().unwrap();
    let figure = folder.path().join("f.svg");
    let arguments = format!(
        "--schemes cubic,bbr --duration 2s --panels plane,series --figure {}",
        figure.display()
    );
    let out = compare(&arguments, "12mbit lte", folder.path());
    good(&{ out }.output().unwrap());
    let svg = fs::read_to_string(figure).unwrap();
    let texts: Vec<&str> = svg.lines().filter(|line| !line.contains('<')).collect();
    let count = |text| texts.iter().filter(|found| **found == text).count();
    for (text, times) in [
        ("12mbit", 1),
        ("synth:lte", 1),
        ("throughput, Mbit/s", 4),
        ("mean one-way delay, ms", 2),
        ("one-way delay, ms", 2),
        ("time, s", 4),
        ("packets, %", 0),
        // The legend and two planes.
        ("cubic", 3),
        ("bbr", 3),
    ] {
        assert_eq!(count(text), times, "{text}: {texts:?}");
    }
    // As everywhere.
    assert!(
        svg.contains("stroke=\"#c0392b\"") && svg.contains("stroke=\"#9a5b00\" stroke-dasharray")
    );
}

#[test]
fn what_is_no_trace_is_named_and_a_failed_run_is_a_row() {
    let folder = tempfile::tempdir().unwrap();
    let traces = folder.path().join("traces");
    fs::create_dir_all(traces.join("deep")).unwrap();
    fs::write(traces.join("deep/good"), "1\n2\n3\n").unwrap();
    // The first opportunity comes after the window.
    fs::write(traces.join("dead"), "600000\n").unwrap();
    fs::write(traces.join("README.md"), "Traces\n").unwrap();
    let out = folder.path().join("out");
    let arguments = "--schemes cubic,verus --duration 2s";
    let output = compare(arguments, traces.to_str().unwrap(), &out)
        .output()
        .unwrap();
    let (says, table) = (text(&output.stderr), text(&output.stdout));
    assert_eq!(output.status.code(), Some(1), "{says}");
    assert!(
        says.contains("README.md") && says.contains("line 1"),
        "{says}"
    );
    assert!(
        says.contains("2 of 4 runs failed; the first: cubic on dead, run 1"),
        "{says}"
    );
    assert!(
        table.contains("deep/good") && table.contains("1 failed"),
        "{table}"
    );
    assert!(!table.contains("skipped"), "told already: {table}");
    // What failed is tried again.
    assert_eq!(kept(&out).len(), 2);
    let flows = fs::read_to_string(out.join("flows.csv")).unwrap();
    let header = flows.lines().next().unwrap();
    assert!(header.split(',').any(|name| name == "error"), "{flows}");
}

/// With a drop-tail queue nothing is random on a recorded trace but where it begins.
#[test]
fn repetitions_on_a_recorded_trace_differ_and_say_by_what() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("walk");
    let synth = ["trace", "synth", "lte", "--length", "90s", "--output"];
    let made = Command::new(env!("CARGO_BIN_EXE_alcc-lab"))
        .args(synth)
        .arg(&trace)
        .status();
    assert!(made.unwrap().success());
    let rows = |out: &str| -> Vec<Value> {
        let out = folder.path().join(out);
        let trace = trace.to_str().unwrap();
        let output = compare("--schemes verus,cubic --runs 3 --json", trace, &out).output();
        let results: Value = serde_json::from_slice(&output.unwrap().stdout).unwrap();
        results["flows"].as_array().unwrap().clone()
    };
    let (first, again) = (rows("a"), rows("b"));
    assert_eq!(first, again, "and yet each is what it was");
    let of = |scheme: &str, field: &str| -> Vec<String> {
        let rows = first.iter().filter(|row| row["scheme"] == scheme);
        rows.map(|row| row[field].to_string()).collect()
    };
    for scheme in ["verus", "cubic"] {
        let mut rates = of(scheme, "throughput_mbps");
        rates.sort();
        rates.dedup();
        assert_eq!(rates.len(), 3, "{rates:?}");
        assert_eq!(of(scheme, "seed"), ["1", "2", "3"]);
        assert_eq!(of(scheme, "run"), ["1", "2", "3"]);
    }
    // The first one begins at the beginning, and all schemes of a repetition at one place.
    let starts = of("verus", "trace_start_s");
    assert_eq!(starts[0], "null");
    assert_ne!(starts[1], starts[2]);
    assert_eq!(starts, of("cubic", "trace_start_s"));
}

#[test]
fn wrong_arguments_are_one_line_and_status_2() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().to_str().unwrap();
    for (traces, arguments, part) in [
        ("synth:lte", "--schemes cubic,verus:r=x", "r=x"),
        ("synth:lte", "--schemes cubic,dctcp", "no algorithm 'dctcp'"),
        ("synth:lte", "--duration 0s", "--duration"),
        ("synth:nowhere", "", "no scenario has that name"),
        ("/no/such/trace", "", "/no/such/trace"),
        (
            "synth:lte",
            "--schemes cubic,alcc-verus:r=4",
            "--schemes: flow 'alcc-verus:r=4': this is now written verus:r=4/over=cubic",
        ),
        ("synth:lte", "--rtt 20ms,x", "--rtt: 'x'"),
        ("synth:lte", "--cross 2*cubik", "did you mean cubic?"),
        (empty, "", "there is no file in it"),
        ("synth:lte synth:lte", "", "two of that name"),
    ] {
        let out = folder.path().join("out");
        let output = compare(arguments, traces, &out).output().unwrap();
        let says = text(&output.stderr);
        assert_eq!(
            output.status.code(),
            Some(2),
            "{traces} {arguments}: {says}"
        );
        assert!(says.contains(part), "{traces} {arguments}: {says}");
        assert_eq!(says.trim_end().lines().count(), 1, "{says}");
        assert!(!out.exists(), "{traces} {arguments}");
    }
}

#[test]
fn a_failed_emulated_run_leaves_the_others_alone() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    // nginx may have been unpacked for us beside the build's output, and tests run in their crate's
    // folder.
    // A receiver behind a proxy is not possible, which shows only when it starts.
    let arguments = "compare --emu --traces 12mbit --schemes fixed/over=cubic/transport=in-band/carrier=connect:proxy=127.0.0.1:1,cubic --duration 2s --runs 1 --json --out";
    let output = Command::new(env!("CARGO_BIN_EXE_alcc-lab"))
        .args(arguments.split(' '))
        .arg(&out)
        .current_dir(support::root::root())
        .output()
        .unwrap();
    let says = text(&output.stderr);
    let known = ["find nginx", "find curl", "namespace", "device"];
    if output.status.code() == Some(2) && known.iter().any(|k| says.contains(k)) {
        support::lacks::lacks(says.trim());
        return;
    }
    assert_eq!(output.status.code(), Some(1), "{says}");
    assert!(
        says.contains("1 of 2 runs failed; the first: alcc-fixed-inband/carrier=connect:proxy=127.0.0.1:1 on 12mbit, run 1: "),
        "{says}"
    );
    let results: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    let flows = results["flows"].as_array().unwrap();
    assert!(flows[0]["error"].is_string() && flows[0]["throughput_mbps"].is_null());
    assert!(
        flows[1]["throughput_mbps"].as_f64().unwrap() > 1.0,
        "{}",
        flows[1]
    );
    assert_eq!(results["summary"]["groups"][0]["failed"], 1);
    // Emulated runs are kept only until the comparison is complete; the failed one is not kept at
    // all.
    assert!(kept(&out).is_empty());
}
