// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One scenario on both sides: real programs on an emulated link, and the simulator. Figures on a
//! busy machine say little, so only what must hold anyway is checked; `alcc-lab compare --sim --emu`
//! shows how far the sides are apart.
#[path = "../../../alcc/cli/tests/support/real.rs"]
mod real;
#[path = "../../../alcc/cli/tests/support/starts.rs"]
mod starts;

use serde_json::Value;
use starts::first_right;
use std::process::Command;

fn alcc(arguments: &str) -> Command {
    real::alcc(&arguments.split_whitespace().collect::<Vec<_>>())
}

/// Each server has its own control, and datagrams go beside them at their rate.
#[test]
fn controls_of_the_kernel_and_datagrams_share_one_link() {
    let arguments = "sim --emu --link 12mbit --up 12mbit --flow cubic --flow reno --flow udp:rate=2mbit --duration 3s --json";
    let Some(output) = real::done(&mut alcc(arguments), real::PROGRAMS) else {
        return;
    };
    let results: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    let flows = results["flows"].as_array().unwrap();
    let of = |n: usize, field: &str| flows[n][field].clone();
    // A connection with another control than its row says would be the row's error.
    for (n, algorithm) in ["cubic", "reno", "udp"].iter().enumerate() {
        assert_eq!(of(n, "algorithm"), *algorithm, "{results:#}");
        assert_eq!(of(n, "error"), Value::Null, "{results:#}");
        assert!(of(n, "bytes").as_u64() > Some(100_000), "{results:#}");
    }
    let mbps = of(2, "throughput_mbps").as_f64().unwrap();
    assert!((0.5..2.1).contains(&mbps), "{mbps}");
}

/// A scheme of flows with unlike controls of the kernel, and one beside datagrams.
#[test]
fn schemes_mix_controls_of_the_kernel_and_datagrams() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = "compare --emu --traces 12mbit --schemes bbr+cubic,cubic+udp:rate=2mbit,cubic --duration 3s --settle 1s --runs 1 --json --out";
    let words = arguments.split_whitespace().chain(folder.path().to_str());
    let mut command = real::alcc(&words.collect::<Vec<_>>());
    let missing = [real::PROGRAMS, &["the kernel has no bbr"]].concat();
    let Some(output) = real::done(&mut command, &missing) else {
        return;
    };
    let results: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    let flows = results["flows"].as_array().unwrap();
    let of = |field: &str| {
        flows
            .iter()
            .map(|row| row[field].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(of("scheme"), ["bbr+cubic", "cubic+udp:rate=2mbit", "cubic"]);
    assert_eq!(of("profile"), ["kernel", "kernel+default", "kernel"]);
    assert_eq!(
        of("number_of_flows"),
        [Value::from(2), 2.into(), Value::Null]
    );
    for row in flows {
        assert_eq!(row["error"], Value::Null, "{row:#}");
        assert!(row["bytes"].as_u64() > Some(500_000), "{row:#}");
    }
}

#[test]
fn two_flows_on_one_link_have_twins() {
    let arguments = "sim --emu --link 12mbit --up 12mbit --flow fixed:window=20/over=cubic --flow fixed:window=10/over=cubic@1s --duration 4s --json";
    // A busy machine starts the second client late, and gives the first less.
    let run = || {
        let output = real::done(&mut alcc(arguments), real::PROGRAMS)?;
        let results: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
        Some(results)
    };
    let is_right = |results: &Option<Value>| {
        let flow = |n: usize, field: &str| {
            let results = results.as_ref()?;
            results["flows"][n][field].as_f64()
        };
        let apart = |n: usize| Some((flow(n, "started_s")? - flow(n + 2, "started_s")?).abs());
        results.is_none()
            || (apart(1) < Some(0.3) && flow(0, "bytes") > flow(1, "bytes").map(|b| 1.3 * b))
    };
    let Some(results) = first_right(3, run, is_right) else {
        return;
    };
    let flows = results["flows"].as_array().unwrap();
    let sides: Vec<&str> = flows.iter().map(|f| f["side"].as_str().unwrap()).collect();
    assert_eq!(sides, ["emulated", "emulated", "simulated", "simulated"]);
    for (real, model) in flows[..2].iter().zip(&flows[2..]) {
        for field in [
            "scheme",
            "algorithm",
            "options",
            "feedback",
            "enforcement",
            "under",
            "link",
            "queue",
        ] {
            assert_eq!(real[field], model[field], "{field}");
        }
        assert!(real["throughput_mbps"].as_f64().unwrap() > 0.2, "{real}");
    }
    // The first begins with the window.
    let [began, model_began] = [0, 2].map(|n| flows[n]["started_s"].as_f64().unwrap());
    assert!((began - model_began).abs() < 0.002, "{began} {model_began}");
    // Each flow is measured by itself: twice the window, about twice the share; the second comes
    // later.
    let bytes = |n: usize| flows[n]["bytes"].as_f64().unwrap();
    assert!(bytes(2) > 1.3 * bytes(3), "{} {}", bytes(2), bytes(3));
    let twins = results["summary"]["twins"].as_array().unwrap();
    assert_eq!(
        twins[0]["triple"],
        "fixed:window=20 / tcp-info / gate+pacing over cubic"
    );
}

#[test]
fn what_real_programs_cannot_do_is_refused_by_name() {
    for (arguments, part) in [
        ("--flow verus/host=linux", "/over=cubic"),
        (
            "--link 12mbit --link 8mbit --flow cubic",
            "a chain of 2 links",
        ),
        ("--flow cubic/rtt=80ms", "--rtt"),
        ("--flow udp:rate=5mbit/dir=up", "dir=up"),
    ] {
        let output = alcc(&format!("sim --emu {arguments}")).output().unwrap();
        let says = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments}: {says}");
        assert!(says.contains(part), "{arguments}: {says}");
        assert_eq!(says.trim_end().lines().count(), 1, "{says}");
    }
}
