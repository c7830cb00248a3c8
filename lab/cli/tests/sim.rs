// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `alcc-lab sim` from the command line: every algorithm, the examples, equal bytes for equal
//! arguments, mistakes.
#[path = "../../../alcc/cli/tests/support/root.rs"]
mod root;

use root::root;
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output};

fn alcc(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_alcc-lab"))
        .args(arguments)
        .current_dir(root())
        .output()
        .unwrap()
}

fn said(out: &Output) -> String {
    String::from_utf8_lossy(&out.stderr).into_owned()
}

fn simulated(arguments: &[&str]) -> Value {
    let out = alcc(&[&["sim", "--json"], arguments].concat());
    assert!(out.status.success(), "{arguments:?}: {}", said(&out));
    serde_json::from_slice(&out.stdout).unwrap()
}

fn listed() -> Vec<String> {
    let out = alcc(&["list", "--json"]);
    let list: Value = serde_json::from_slice(&out.stdout).unwrap();
    let algorithms = list["algorithms"].as_array().unwrap();
    let name = |a: &Value| a["name"].as_str().unwrap().to_owned();
    algorithms.iter().map(name).collect()
}

/// Every field of a row, whatever its value.
const FIELDS: &str = "scheme algorithm options feedback enforcement under link queue min_rtt_ms duration_s seed run started_s \
    throughput_mbps goodput_mbps bytes utilization delay_mean_ms delay_median_ms delay_p95_ms queue_delay_mean_ms \
    queue_delay_median_ms queue_delay_p95_ms signal_delay_p95_ms app_delay_median_ms app_delay_p95_ms rtt_mean_ms rtt_p95_ms \
    loss retransmits timeouts rtx_burst fct_ms cpu_s_per_gbit lateness_p99_ms";

#[test]
fn every_algorithm_sends_by_itself_and_above_tcp() {
    let algorithms = listed();
    assert!(algorithms.len() >= 12, "{algorithms:?}");
    for algorithm in &algorithms {
        for over in ["", "/over=cubic"] {
            let flow = format!("{algorithm}{over}");
            let result = simulated(&["--link", "lte", "--flow", &flow, "--duration", "4s"]);
            let row = &result["flows"][0];
            for field in FIELDS.split_whitespace() {
                assert!(row.get(field).is_some(), "{flow}: no {field}");
            }
            assert!(row["profile"].is_string(), "{flow}: {row}");
            let mbps = row["throughput_mbps"].as_f64().unwrap();
            assert!(mbps > 0.3, "{flow}: {mbps} Mbit/s");
            let utilization = row["utilization"].as_f64().unwrap();
            assert!((0.0..=1.0).contains(&utilization), "{flow}: {utilization}");
            assert!(row["delay_mean_ms"].as_f64().unwrap() >= 20.0, "{flow}");
        }
    }
}

#[test]
fn every_algorithm_on_a_recorded_channel() {
    let folder = std::env::var_os("ALCC_TRACES")
        .map_or_else(|| root().join("../shared/traces"), PathBuf::from);
    let trace = folder.join("alcc/CampusWalk");
    if !trace.is_file() {
        println!("skipped: no recorded traces");
        return;
    }
    let trace = trace.to_str().unwrap();
    for algorithm in listed() {
        let command = [
            "--link",
            trace,
            "--rtt",
            "40ms",
            "--duration",
            "3s",
            "--flow",
        ];
        let result = simulated(&[&command[..], &[&algorithm]].concat());
        assert!(
            result["flows"][0]["bytes"].as_u64().unwrap() > 0,
            "{algorithm}"
        );
    }
}

#[test]
fn the_examples_run_and_one_is_a_red_dumbbell_in_ten_lines() {
    let mut names = Vec::new();
    for file in std::fs::read_dir(root().join("lab/examples")).unwrap() {
        let file = file.unwrap().path();
        if file.extension().is_none_or(|e| e != "toml") {
            continue;
        }
        let name = file.to_str().unwrap();
        let result = simulated(&[name, "--duration", "12s"]);
        let flows = result["flows"].as_array().unwrap();
        assert!(flows.len() >= 2, "{name}");
        for flow in flows.iter().filter(|f| f["scheme"] != "reno") {
            assert!(flow["bytes"].as_u64().unwrap() > 0, "{name}: {flow}");
        }
        names.push(file.file_stem().unwrap().to_str().unwrap().to_owned());
    }
    names.sort();
    assert_eq!(names, ["contention", "mixed-rtt", "on-off", "starvation"]);
    let text = std::fs::read_to_string(root().join("lab/examples/contention.toml")).unwrap();
    let lines = text
        .lines()
        .filter(|l| !l.is_empty() && !l.starts_with('#'));
    assert!(lines.count() <= 10);
    assert!(text.contains("10*") && text.contains("red:"));
}

#[test]
fn equal_arguments_give_equal_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let run = |seed: &str, name: &str| {
        let csv = folder.path().join(name);
        let out = alcc(&[
            "sim",
            "--json",
            "--link",
            "city-driving",
            "--up",
            "2mbit",
            "--loss",
            "1%",
            "--queue",
            "red",
            "--flow",
            "2*cubic/stagger=1s",
            "--flow",
            "verus/over=cubic",
            "--flow",
            "copa/rtt=90ms@1s-5s",
            "--flow",
            "udp:rate=1mbit,on=300ms,off=500ms",
            "--flow",
            "reno/dir=up",
            "--duration",
            "8s",
            "--seed",
            seed,
            "--series",
            csv.to_str().unwrap(),
        ]);
        assert!(out.status.success(), "{}", said(&out));
        (out.stdout, std::fs::read(csv).unwrap())
    };
    let first = run("3", "a.csv");
    assert!(first.1.len() > 10_000);
    assert_eq!(first, run("3", "b.csv"));
    assert_ne!(first, run("4", "c.csv"));
}

#[test]
fn a_transfer_says_how_long_it_took() {
    let result = simulated(&[
        "--flow",
        "fixed:window=1000/size=147200@1s",
        "--duration",
        "5s",
    ]);
    // 100 segments at 12 Mbit/s: 1 ms each, and 20 ms of propagation.
    assert_eq!(result["flows"][0]["fct_ms"], 120.0);
    assert_eq!(result["flows"][0]["bytes"], 147_200);
    let result = simulated(&[
        "--flow",
        "2*fixed:window=60",
        "--duration",
        "4s",
        "--settle",
        "1s",
    ]);
    let summary = &result["summary"];
    assert!(summary["jain"].as_f64().unwrap() > 0.99);
    assert!(summary["jain_1s"].as_f64().unwrap() > 0.99);
    assert_eq!(summary["links"][0]["down"]["dropped"], 0);
}

#[test]
fn mistakes_are_one_line_and_exit_2() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("s.toml");
    std::fs::write(&file, "link = \"12mbit\"\n\nflow = \"cubik\"\n").unwrap();
    let file = file.to_str().unwrap();
    let place = format!("{file}:3: flow");
    let write = |name: &str, text: &str| {
        let file = folder.path().join(name);
        std::fs::write(&file, text).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let wrong_key = write("key.toml", "queu = \"codel\"\n");
    let strange_key = write("strange.toml", "colour = \"red\"\n");
    let (wrong_key, strange_key) = (wrong_key.as_str(), strange_key.as_str());
    for (arguments, parts) in [
        (&[file][..], [place.as_str(), "did you mean cubic?"]),
        (&["no/such.toml"], ["no/such.toml", "no such file"]),
        (&["--rtt", "40"], ["--rtt", "such as 20ms"]),
        (&["--link", "12mbits"], ["--link", "such as 12mbit"]),
        (&["--link", "nowhere"], ["--link", "scenarios are"]),
        (&["--queue", "fifo"], ["--queue", "droptail"]),
        (&["--loss", "200%"], ["--loss", "0% to 100%"]),
        (&["--flow", "reno/size=ten"], ["--flow", "number of bytes"]),
        (&["--flow", "reno/links=3"], ["--flow", "of 1"]),
        (&["--duration", "0s"], ["--duration", "above 0"]),
        (&["--link", "0mbit"], ["--link", "above 0"]),
        (&["--up", "0kbit"], ["--up", "above 0"]),
        (&["--repeat", "0s"], ["--repeat", "above 0"]),
        (&["--rtt=-40ms"], ["--rtt", "such as 20ms"]),
        (&["--flow", "verus:R=2"], ["--flow", "did you mean r?"]),
        (
            &["--flow", "cubic/stager=1s"],
            ["--flow", "did you mean stagger=?"],
        ),
        (
            &["--start", "5s"],
            ["--start", "no link follows a recorded trace"],
        ),
        (
            &[wrong_key],
            ["key.toml:1", "no key 'queu' (did you mean queue?)"],
        ),
        (
            &[strange_key],
            ["strange.toml:1", "no key 'colour': there are link,"],
        ),
    ] {
        let out = alcc(&[&["sim"], arguments].concat());
        let said = said(&out);
        assert_eq!(out.status.code(), Some(2), "{arguments:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        for part in parts {
            assert!(said.contains(part), "{arguments:?}: {said}");
        }
        assert!(out.stdout.is_empty());
    }
    let endless = alcc(&["sim", "--flow", "reno", "--max-events", "1000"]);
    assert_eq!(endless.status.code(), Some(1));
    assert!(
        said(&endless).contains("stopped after 1001 events"),
        "{}",
        said(&endless)
    );
}

#[test]
fn files_are_opened_before_anything_is_simulated() {
    for option in ["--series", "--pcap", "--qlog"] {
        // It would be given up at once, with status 1.
        let run = |file| alcc(&["sim", option, file, "--max-events", "10"]);
        let nowhere = run("no/such/folder/file");
        assert_eq!(nowhere.status.code(), Some(2), "{}", said(&nowhere));
        assert!(said(&nowhere).contains("no/such/folder/file"));
        let dash = run("-");
        assert_eq!(dash.status.code(), Some(2), "{}", said(&dash));
        assert!(said(&dash).contains("name a file"), "{}", said(&dash));
        assert!(!root().join("-").exists());
    }
}

#[test]
fn flows_of_one_algorithm_can_be_told_apart() {
    let arguments = [
        "--flow",
        "2*cubic/rtt=20ms",
        "--flow",
        "cubic/rtt=100ms/name=far@2s-3s",
        "--flow",
        "cubic/dir=up/links=1",
        "--duration",
        "4s",
    ];
    let out = alcc(&[&["sim"], &arguments[..]].concat());
    let table = String::from_utf8(out.stdout).unwrap();
    let lines: Vec<Vec<&str>> = table
        .lines()
        .map(|l| l.split_whitespace().collect())
        .collect();
    assert_eq!(
        lines[0][..6],
        ["flow", "base", "rtt", "start", "stop", "scheme"]
    );
    assert_eq!(lines[1][..5], ["0", "20ms", "0s", "-", "cubic"]);
    assert_eq!(lines[3][..5], ["2", "100ms", "2s", "3s", "far"]);
    // One second after settling is none: said, not left out.
    assert!(
        table.contains("of single seconds: no whole second after settle=20s"),
        "{table}"
    );
    let result = simulated(&arguments);
    let row = |n: usize| &result["flows"][n];
    assert_eq!(row(0)["flow"], "2*cubic/rtt=20ms");
    assert_eq!(
        (&row(2)["name"], &row(2)["host"]),
        (&"far".into(), &"linux".into())
    );
    assert_eq!(
        (&row(3)["dir"], &row(3)["links"]),
        (&"up".into(), &"1-1".into())
    );
    // Its phase is the seed's, less than 20 ms.
    let start = row(2)["start_s"].as_f64().unwrap();
    assert!((2.0..2.02).contains(&start), "{start}");
    assert_eq!(row(2)["started_s"], row(2)["start_s"]);
    assert!((row(2)["stop_s"].as_f64().unwrap() - start - 1.0).abs() < 1e-6);
    assert!(result["summary"]["jain_1s"].is_null());
    let note = result["summary"]["jain_1s_note"].as_str().unwrap();
    assert!(note.contains("a shorter settle"), "{note}");
}

#[test]
fn a_recorded_trace_begins_elsewhere_with_another_seed() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("recorded");
    let trace = trace.to_str().unwrap();
    let synth = alcc(&[
        "trace", "synth", "lte", "--length", "60s", "--output", trace,
    ]);
    assert!(synth.status.success(), "{}", said(&synth));
    let run = |more: &[&str]| {
        let arguments = ["--link", trace, "--flow", "verus", "--duration", "5s"];
        let result = simulated(&[&arguments[..], more].concat());
        let row = &result["flows"][0];
        (
            row["throughput_mbps"].clone(),
            row["trace_start_s"].as_f64(),
        )
    };
    let first = run(&[]);
    assert_eq!(first.1, Some(0.0));
    let second = run(&["--seed", "2"]);
    assert_ne!(first.0, second.0, "nothing else is random");
    assert!(second.1 > Some(0.0));
    assert_eq!(run(&["--seed", "2", "--start", "0s"]), first);
    let at = format!("{}s", second.1.unwrap());
    assert_eq!(run(&["--start", &at]), second);
}

#[test]
fn the_series_has_the_applications_window_by_one_name() {
    let folder = tempfile::tempdir().unwrap();
    let csv = folder.path().join("s.csv");
    for (flow, window) in [
        ("fixed:window=20", 20 * 1472),
        ("fixed:window=20/over=cubic", 20 * 1448),
    ] {
        let file = csv.to_str().unwrap();
        simulated(&["--flow", flow, "--duration", "2s", "--series", file]);
        let text = std::fs::read_to_string(&csv).unwrap();
        let names: Vec<&str> = text.lines().next().unwrap().split(',').collect();
        let at = names.iter().position(|n| *n == "window_bytes").unwrap();
        let last: Vec<&str> = text.lines().last().unwrap().split(',').collect();
        assert_eq!(last[at], window.to_string(), "{flow}");
    }
}

#[test]
fn help_shows_how() {
    let out = alcc(&["sim", "--help"]);
    let help = String::from_utf8(out.stdout).unwrap();
    for part in [
        "Examples:",
        "stagger=1s",
        "udp:rate=5mbit",
        "SCENARIO.toml",
        "dir=up",
    ] {
        assert!(help.contains(part), "{part}");
    }
}

/// Acknowledgements never come. RFC 6298: the first timeout is a second after the first packet, the
/// next one two seconds later. The packet is at the bottleneck, and the window begins, after 20 ms.
#[test]
fn what_algorithms_say_stands_in_the_qlog_and_in_the_series() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (csv, qlog) = (file("s.csv"), file("q.sqlog"));
    simulated(&[
        "--link",
        "12mbit",
        "--loss-up",
        "100%",
        "--flow",
        "reno/host=datagrams",
        "--flow",
        "bbr3/over=cubic/phase=0s@2s",
        "--duration",
        "4s",
        "--series",
        &csv,
        "--qlog",
        &qlog,
    ]);
    let qlog = std::fs::read_to_string(qlog).unwrap();
    let said = |r: &&str| r.contains("\"alcc:") && !r.contains("values_updated");
    let events: Vec<Value> = (qlog.split('\x1e').filter(said))
        .map(|r| serde_json::from_str(r).unwrap())
        .collect();
    let reduced = |ms: f64, from: f64| {
        serde_json::json!({"time": ms, "name": "alcc:window_reduced", "group_id": "0",
            "data": {"why": "timeout", "cwnd_before_packets": from, "cwnd_packets": 1.0}})
    };
    let of_reno: Vec<_> = events.iter().filter(|e| e["group_id"] == "0").collect();
    assert_eq!(of_reno.len(), 4, "{events:?}");
    assert_eq!(*of_reno[0], reduced(1000.0, 10.0));
    assert_eq!(of_reno[1]["name"], "alcc:slow_start_restarted");
    assert_eq!(*of_reno[2], reduced(3000.0, 1.0));
    // Above TCP, too, and from the start on.
    let first = events.iter().find(|e| e["group_id"] == "1").unwrap();
    assert_eq!(
        (&first["name"], &first["data"]["mode"], &first["time"]),
        (
            &"alcc:mode_changed".into(),
            &"startup".into(),
            &2000.0.into()
        )
    );
    let series = std::fs::read_to_string(csv).unwrap();
    let mut lines = series.lines();
    assert!(lines.next().unwrap().ends_with(",events"));
    let told: Vec<(&str, &str)> = lines
        .map(|l| (l.split(',').next().unwrap(), l.rsplit(',').next().unwrap()))
        .filter(|(_, events)| !events.is_empty())
        .collect();
    let timeout = "0.980000 window_reduced why=timeout cwnd_before_packets=10.0 cwnd_packets=1.0; \
                   0.980000 slow_start_restarted why=timeout";
    assert_eq!(told[0], ("0.980", timeout));
    assert_eq!(told[2], ("1.980", "1.980000 mode_changed mode=startup"));
}

/// Half of 12 Mbit/s: lost before the bottleneck in both directions, so it delivers the other half.
/// Behind it, throughput counts what goodput does not, and the table has both.
#[test]
fn loss_means_the_same_in_both_directions() {
    let run = |arguments: &[&str]| {
        let all = ["--link", "100mbit", "--up", "100mbit", "--duration", "10s"];
        let row = simulated(&[&all, arguments].concat())["flows"][0].clone();
        let of = |field: &str| row[field].as_f64().unwrap();
        (of("throughput_mbps"), of("goodput_mbps"), of("loss"))
    };
    let close = |(mbps, goodput, loss): (f64, f64, f64), want: f64| {
        assert!((mbps - want).abs() < 0.15, "{mbps} Mbit/s");
        assert!((goodput - 5.88).abs() < 0.15, "{goodput} Mbit/s of payload");
        assert!((loss - 0.5).abs() < 0.015, "{loss}");
    };
    close(run(&["--loss", "50%", "--flow", "udp:rate=12mbit"]), 6.0);
    close(
        run(&["--loss-up", "50%", "--flow", "udp:rate=12mbit/dir=up"]),
        6.0,
    );
    for flow in ["udp:rate=12mbit", "udp:rate=12mbit/dir=up"] {
        close(run(&["--radio", "loss:p=0.5", "--flow", flow]), 12.0);
    }
    let table = |arguments: &[&str]| {
        let out = alcc(&[&["sim", "--link", "12mbit", "--duration", "2s"], arguments].concat());
        String::from_utf8(out.stdout).unwrap()
    };
    assert!(table(&["--radio", "loss:p=0.01"]).contains(" goodput "));
    assert!(!table(&["--loss", "1%"]).contains(" goodput "));
}

#[test]
fn a_trace_that_begins_after_the_run_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("late.trace").display().to_string();
    std::fs::write(&file, "500000\n").unwrap();
    let out = alcc(&[
        "sim",
        "--link",
        &file,
        "--flow",
        "cubic",
        "--duration",
        "2s",
    ]);
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(
        text.contains("first packet pass at 500s, after the end"),
        "{text}"
    );
}

/// A path of 5 MB and more: Linux' largest send buffer, 4 MiB with its overhead, holds a Cubic flow
/// below it, and a buffer of 20 MB does not.
#[test]
fn a_flow_that_its_send_buffer_holds_is_named() {
    let says = |flow: &str| {
        let arguments = ["--link", "500mbit", "--rtt", "80ms", "--duration", "10s"];
        let queue = ["--queue", "droptail:bytes=5000000", "--flow", flow];
        let all = [&arguments[..], &queue].concat();
        let table = String::from_utf8(alcc(&[&["sim"], &all[..]].concat()).stdout).unwrap();
        let is_noted = table.contains("send buffer was the limit");
        let notes = simulated(&all)["notes"].to_string();
        assert_eq!(notes.contains("send buffer was the limit"), is_noted);
        is_noted
    };
    assert!(says("cubic") && !says("cubic/sndbuf=20MB") && !says("copa"));
}

#[test]
fn a_row_and_the_table_say_which_form_of_an_algorithm_ran() {
    let flows = ["copa", "copa:profile=paper", "cubic", "budget"];
    let mut arguments = vec!["--duration", "2s"];
    arguments.extend(flows.iter().flat_map(|flow| ["--flow", flow]));
    let result = simulated(&arguments);
    let of = |field: &str| -> Vec<String> {
        let rows = result["flows"].as_array().unwrap();
        let text = |row: &Value| row[field].as_str().unwrap().to_owned();
        rows.iter().map(text).collect()
    };
    assert_eq!(of("profile"), ["tuned", "paper", "linux", "default"]);
    assert_eq!(of("scheme")[0], "copa", "the scheme keeps its meaning");
    let out = alcc(&[&["sim"], &arguments[..]].concat());
    let table = String::from_utf8(out.stdout).unwrap();
    assert_eq!(table.matches("(tuned)").count(), 1, "{table}");
    assert!(table.contains("copa (tuned) "), "{table}");
}

#[test]
fn the_object_says_how_it_came_about() {
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("mine.trace");
    std::fs::write(&link, "1\n2\n").unwrap();
    let link = link.to_str().unwrap();
    let about = simulated(&["--link", link, "--duration", "1s", "--seed", "7"])["about"].clone();
    let version = format!("alcc {}", env!("CARGO_PKG_VERSION"));
    assert_eq!(about["program"], version);
    assert_eq!(about["seed"], 7);
    assert!(about["build"].as_str().unwrap().len() >= 16, "{about}");
    assert_eq!(
        about["command"],
        format!("alcc-lab sim --link {link} --duration 1s --seed 7")
    );
    assert_eq!(about["files"][0]["path"], link);
    assert_eq!(
        about["files"][0]["sha256"],
        // printf '1\n2\n' | sha256sum
        "a6e2b7a040683432de03a18fd8a1939a2fdf82585b364bfc874bdd4095c4cae1"
    );
}

#[test]
fn what_begins_after_the_end_is_said() {
    let arguments = ["sim", "--duration", "2s", "--flow", "cubic"];
    for (more, words) in [
        (
            ["--step", "5s:rate=1mbit"],
            "--step: '5s:rate=1mbit' comes after the end of the run, at 2",
        ),
        (
            ["--flow", "2*reno/stagger=3s"],
            "--flow: a flow begins at 3s, after the end of the run, at 2",
        ),
        (["--step", "1s:rate=1mbit"], ""),
    ] {
        let out = alcc(&[&arguments[..], &more].concat());
        assert!(out.status.success(), "{}", said(&out));
        let said = said(&out);
        assert!(said.contains(words), "{said}");
        assert_eq!(
            said.lines().count(),
            usize::from(!words.is_empty()),
            "{said}"
        );
    }
}

#[test]
fn the_version_names_the_build() {
    let said = String::from_utf8(alcc(&["--version"]).stdout).unwrap();
    let build = said
        .strip_prefix(concat!("alcc-lab ", env!("CARGO_PKG_VERSION"), " (build "))
        .and_then(|said| said.strip_suffix(")\n"));
    let is_build = |id: &str| id.len() == 12 && id.bytes().all(|b| b.is_ascii_hexdigit());
    assert!(build.is_some_and(is_build), "{said}");
}

#[test]
fn a_figure_names_its_axes_units_and_flows() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.svg");
    let name = file.to_str().unwrap();
    let run = ["sim", "--link", "lte", "--duration", "5s"];
    let flows = ["--flow", "cubic", "--flow", "reno@1s"];
    let plain = alcc(&[&run[..], &flows].concat());
    let out = alcc(&[&run[..], &flows, &["--figure", name]].concat());
    assert!(out.status.success(), "{}", said(&out));
    assert_eq!(out.stdout, plain.stdout, "a figure changes no figures");
    let svg = std::fs::read_to_string(&file).unwrap();
    let texts: Vec<&str> = svg.lines().filter(|line| !line.contains('<')).collect();
    for want in [
        "mean one-way delay, ms",
        "throughput, Mbit/s",
        "one-way delay, ms",
        "packets, %",
        "time, s",
        "0 cubic",
        "1 reno",
    ] {
        assert!(texts.contains(&want), "{want}: {texts:?}");
    }
    // A line in the legend, of the distribution, of throughput and of delay.
    let curves = svg.lines().filter(|line| {
        line.starts_with("<polyline") && line.contains("#9c2f8f") && line.contains("dasharray")
    });
    assert!(curves.count() >= 4, "{svg}");
    assert!(svg.starts_with("<svg xmlns=") && svg.trim_end().ends_with("</svg>"));
    let pdf = dir.path().join("a.pdf");
    let out = alcc(&[&run[..], &flows, &["--figure", pdf.to_str().unwrap()]].concat());
    assert!(out.status.success(), "{}", said(&out));
    let pdf = std::fs::read_to_string(pdf).unwrap();
    assert!(pdf.starts_with("%PDF-1.4\n") && pdf.ends_with("%%EOF\n"));
    for text in &texts {
        let hex: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
        assert!(pdf.contains(&format!("<{hex}> Tj ET")), "{text}");
    }
    for (more, words) in [
        (["--figure", "a"], "name a file that ends in .svg or .pdf"),
        (["--figure", "nowhere/a.svg"], "no such file or folder"),
        (["--panels", "plane"], "--figure <FILE>"),
        (["--figure=a.svg", "--emu"], "cannot be used with"),
    ] {
        let out = alcc(&[&run[..], &flows, &more].concat());
        assert_eq!(out.status.code(), Some(2), "{more:?}");
        assert!(said(&out).contains(words), "{more:?}: {}", said(&out));
    }
}

#[test]
fn rates_of_other_programs_become_a_link_or_are_refused_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let made = |more: &[&str]| alcc(&[&["trace", "convert", "--from", "rates"], more].concat());
    let kbit = file("kbit.csv", b"seconds,kbps\n0,12000\n1,6000\n");
    let out = made(&[&kbit, "--to", "rates", "--bin", "500ms"]);
    let text = String::from_utf8(out.stdout).unwrap();
    let rates: Vec<f64> = (text.lines().skip(1))
        .map(|line| line.split_once(',').unwrap().1.parse().unwrap())
        .collect();
    assert_eq!(rates.len(), 4, "{text}");
    for (rate, want) in rates.iter().zip([12.0, 12.0, 6.0, 6.0]) {
        assert!((rate - want).abs() < 0.1, "{text}");
    }
    let speed = file("speed.csv", b"when,speed\na,1500\nb,750\n");
    let form = [
        "--column", "speed", "--unit", "kB/s", "--every", "1s", "--to", "rates",
    ];
    let out = made(&[&[speed.as_str()], &form[..], &["--bin", "500ms"]].concat());
    assert_eq!(String::from_utf8(out.stdout).unwrap(), text);
    let kept = file("kept", b"kept");
    let packed = file("packed.gz", &[0x1f, 0x8b, 8, 0]);
    let capture = file("a.pcap", &[0xd4, 0xc3, 0xb2, 0xa1, 2, 0]);
    for (input, words) in [
        (&speed, "(--column)"),
        (&packed, "it is compressed by gzip: unpack it"),
        (&capture, "it is a capture: write its times"),
        (&file("binary", &[0xff, 0xfe, 0, 0]), "it is not UTF-8 text"),
        (&file("empty", b""), "no row with a time and a rate"),
    ] {
        let out = made(&[input, "--output", &kept]);
        assert_eq!(std::fs::read(&kept).unwrap(), b"kept");
        assert_eq!(out.status.code(), Some(2), "{input}: {}", said(&out));
        assert!(said(&out).contains(words), "{input}: {}", said(&out));
        assert_eq!(said(&out).lines().count(), 1, "{}", said(&out));
        assert!(out.stdout.is_empty());
    }
    // A remedy that a message names is an option of the program.
    let help = alcc(&["trace", "convert", "--help"]);
    let help = String::from_utf8(help.stdout).unwrap();
    for option in ["--column", "--unit", "--every", "--from"] {
        assert!(help.contains(option), "{option}");
    }
    // As a link: the message says what reads such a file.
    let out = alcc(&["sim", "--link", &kbit]);
    assert!(
        said(&out).contains("alcc-lab trace convert"),
        "{}",
        said(&out)
    );
}
