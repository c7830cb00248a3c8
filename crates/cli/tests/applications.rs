// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The real applications, each for some seconds over a link of 12 Mbit/s and 40 ms, plainly and under
//! `alcc run`.
#[path = "support/lacks.rs"]
mod lacks;

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// Figures by scheme.
type Figures = BTreeMap<String, BTreeMap<String, f64>>;

/// Runs an application. `None`, and said, if this machine has not what it needs.
fn figures(application: &str) -> Option<Figures> {
    let text = format!(
        r#"title = "t"
source = "this test"
statement = "It runs."
application = "{application}"
starts = 1
[scenario]
link = "12mbit"
rtt = "40ms"
flow = "{{flow}}"
duration = "3s"
[[sweep]]
key = "scheme"
values = [{{ name = "plain", flow = "cubic" }}, {{ name = "controlled", flow = "budget/over=cubic" }}]
[[expect]]
says = "there is a queue"
metric = "queue_delay_p95_ms"
at-least = 0
"#
    );
    let folder = tempfile::tempdir().unwrap();
    // The experiment is called as its folder.
    let place = folder.path().join(application);
    std::fs::create_dir(&place).unwrap();
    let file = place.join("experiment.toml");
    std::fs::write(&file, text).unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let output = Command::new(env!("CARGO_BIN_EXE_alcc"))
        .args(["reproduce", "--emu", "--json", "--jobs", "1", "--out"])
        .arg(folder.path())
        .arg(&file)
        .current_dir(root)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let environment = ["find nginx", "find curl", "namespace", "device"];
    if output.status.code() == Some(2) && environment.iter().any(|what| said.contains(what)) {
        lacks::lacks(said.trim());
        return None;
    }
    assert!(output.status.success(), "{said}");
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let judged = &json["experiments"][0];
    let why = judged["why"].as_str().unwrap();
    if judged["verdict"] == "not-run" && why.starts_with("needs find ") {
        if why.contains("chromium") {
            // No part of what scripts/setup fetches.
            println!("skipped: {why}");
        } else {
            lacks::lacks(why);
        }
        return None;
    }
    assert_eq!(judged["verdict"], "short", "{judged}");
    let csv = folder.path().join(format!("{application}.csv"));
    let csv = std::fs::read_to_string(csv).unwrap();
    let mut lines = csv.lines();
    let names: Vec<&str> = lines.next().unwrap().split(',').collect();
    let figures = lines.map(|line| {
        let cells: Vec<&str> = line.split(',').collect();
        let numbers = names.iter().zip(&cells).skip(1);
        let numbers = numbers.map(|(name, cell)| ((*name).to_owned(), cell.parse().unwrap()));
        (cells[0].to_owned(), numbers.collect())
    });
    let figures: Figures = figures.collect();
    assert_eq!(figures.len(), 2, "{csv}");
    Some(figures)
}

fn between(figures: &Figures, metric: &str, bounds: std::ops::RangeInclusive<f64>) {
    for (scheme, values) in figures {
        let found = values[metric];
        assert!(
            bounds.contains(&found),
            "{metric} of {scheme}: {found}: {values:?}"
        );
    }
}

#[test]
fn files_by_ftp() {
    let Some(figures) = figures("ftp") else {
        return;
    };
    // 1.5 MB over 12 Mbit/s are a second, with its headers 1.04.
    between(&figures, "large_file_s", 1.04..=15.0);
    between(&figures, "large_file_mbps", 0.8..=11.6);
    // Ten files, each with a connection and some commands: three round trips at least.
    between(&figures, "small_files_s", 1.2..=30.0);
}

/// scp beside the Java library.
#[test]
fn an_upload() {
    let Some(figures) = figures("upload") else {
        return;
    };
    between(&figures, "throughput_mbps", 0.5..=12.0);
    between(&figures, "rtt_mean_ms", 40.0..=2_000.0);
}

#[test]
fn a_page_in_a_browser() {
    let Some(figures) = figures("page") else {
        return;
    };
    // 1.4 MB.
    between(&figures, "load_ms", 930.0..=30_000.0);
    // The request at least: the browser may have opened the connection before.
    between(&figures, "first_byte_ms", 40.0..=5_000.0);
}

#[test]
fn live_video() {
    let Some(figures) = figures("video") else {
        return;
    };
    // The way to the player is 20 ms.
    between(&figures, "frame_delay_median_ms", 20.0..=3_000.0);
    between(&figures, "frames_lost", 0.0..=0.2);
    between(&figures, "stalled_s", 0.0..=3.0);
}

#[test]
fn a_vpn_over_tcp() {
    let tun = std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/net/tun");
    if tun.is_err() {
        lacks::lacks("/dev/net/tun");
        return;
    }
    let Some(figures) = figures("vpn") else {
        return;
    };
    between(&figures, "tcp_mbps", 1.0..=11.6);
    between(&figures, "datagram_delay_median_ms", 20.0..=3_000.0);
    between(&figures, "datagram_loss", 0.0..=0.5);
}

/// The simulator has no programs, and says what would have them.
#[test]
fn the_simulator_has_none_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_alcc"))
        .args(["reproduce", "app-ftp", "--json", "--out"])
        .arg(folder.path())
        .output()
        .unwrap();
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let judged = &json["experiments"][0];
    assert_eq!(judged["verdict"], "not-run");
    let why = judged["why"].as_str().unwrap();
    assert!(why.contains("give --emu"), "{why}");
}
