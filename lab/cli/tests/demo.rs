// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The main job, short: real nginx, real curl, the kernel's TCP, ours above it, on emulated links.
//!
//! Figures on a busy machine say little, so only what must hold anyway is checked.
#[path = "../../../alcc/cli/tests/support/real.rs"]
mod real;

use serde_json::Value;
use std::process::Command;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn plain_and_controlled_beside_each_other() {
    let out = tempfile::tempdir().unwrap();
    let folder = out.path().to_str().unwrap();
    let schemes = "cubic,fixed:window=20/over=cubic";
    let mut command = real::alcc(&[
        "demo",
        "--duration",
        "4s",
        "--schemes",
        schemes,
        "--out",
        folder,
        "--json",
    ]);
    let Some(output) = real::done(&mut command, real::PROGRAMS) else {
        return;
    };
    let results: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    let flows = results["flows"].as_array().unwrap();
    let names: Vec<_> = flows
        .iter()
        .map(|f| f["scheme"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["cubic", "alcc-fixed:window=20"]);
    for flow in flows {
        assert!(flow["bytes"].as_u64().unwrap() > 100_000, "{flow}");
        let utilization = flow["utilization"].as_f64().unwrap();
        assert!((0.0..=1.01).contains(&utilization), "{flow}");
        assert!(flow["delay_median_ms"].as_f64().unwrap() >= 20.0, "{flow}");
        assert!(
            flow["app_delay_median_ms"].as_f64().unwrap() >= 10.0,
            "write to read takes at least the propagation, but a busy machine sees writes late: {flow}"
        );
        assert!(
            flow["goodput_mbps"].as_f64().unwrap()
                <= flow["throughput_mbps"].as_f64().unwrap() * 1.05,
            "{flow}"
        );
    }
    let (plain, ours) = (&flows[0], &flows[1]);
    assert_eq!(
        (&plain["feedback"], &plain["enforcement"]),
        (&"kernel".into(), &"kernel".into())
    );
    assert_eq!(
        (&ours["algorithm"], &ours["options"], &ours["under"]),
        (&"fixed".into(), &"window=20".into(), &"cubic".into())
    );
    assert_ne!(ours["feedback"], "kernel");
    // 20 packets of 1500 bytes are never more than 30 kB at the bottleneck, whatever the machine
    // does: less than Cubic leaves there.
    let p95 = |flow: &Value| flow["queue_delay_p95_ms"].as_f64().unwrap();
    assert!(p95(ours) < p95(plain), "{} {}", p95(ours), p95(plain));
    for file in ["report.html", "results.json", "flows.csv"] {
        assert!(
            out.path().join(file).metadata().unwrap().len() > 100,
            "{file}"
        );
    }
}

#[test]
fn what_is_wrong_is_said_in_one_line_with_status_2() {
    let bad = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(bad.path(), "1\nnonsense\n").unwrap();
    for (arguments, part) in [
        (vec!["demo", "--schemes", "alcc-nonsense"], "nonsense"),
        (vec!["demo", "--trace", "/no/such/trace"], "/no/such/trace"),
        (
            vec!["demo", "--trace", bad.path().to_str().unwrap()],
            "line 2",
        ),
        (vec!["demo", "--duration", "0s"], "--duration"),
    ] {
        let output = real::alcc(&arguments).output().unwrap();
        let says = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {says}");
        assert!(says.contains(part), "{arguments:?}: {says}");
        assert_eq!(says.trim_end().lines().count(), 1, "{says}");
    }
}

#[test]
fn a_missing_server_is_named_with_what_would_fix_it() {
    let output = Command::new(env!("CARGO_BIN_EXE_alcc-lab"))
        .args(["demo", "--duration", "1s"])
        .env("ALCC_NGINX", "/no/such/nginx")
        .output()
        .unwrap();
    let says = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{says}");
    assert!(
        says.contains("nginx") && says.contains("ALCC_NGINX"),
        "{says}"
    );
}
