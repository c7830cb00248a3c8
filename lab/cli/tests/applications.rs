// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The real applications, each for some seconds over a link of 12 Mbit/s and 40 ms, plainly and
//! under `alcc run`.
#[path = "../../../alcc/cli/tests/support/lacks.rs"]
mod lacks;
#[path = "../../../alcc/cli/tests/support/reproduced.rs"]
mod reproduced;

use reproduced::Figures;
use serde_json::Value;
use std::process::Command;

/// Runs an application, plainly and under control.
fn figures(application: &str) -> Option<Figures> {
    const FLOWS: [(&str, &str); 2] = [("plain", "cubic"), ("controlled", "budget/over=cubic")];
    reproduced::figures(application, &FLOWS, "queue_delay_p95_ms")
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
    let output = Command::new(env!("CARGO_BIN_EXE_alcc-lab"))
        .args(["reproduce", "app-ftp", "--json", "--out"])
        .arg(folder.path())
        .output()
        .unwrap();
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let judged = &json["experiments"][0];
    assert_eq!(judged["verdict"], "not-run");
    let why = judged["why"].as_str().unwrap();
    assert!(why.contains("give --emu"), "{why}");
    assert_eq!(output.status.code(), Some(2));
}
