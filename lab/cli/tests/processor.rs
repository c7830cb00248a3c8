// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CPU cost of a download for the sender, for every form of control: the application of the
//! experiment alcc-fig14.
#[path = "../../../alcc/bpf/tests/support/mod.rs"]
mod controls;
#[path = "../../../alcc/cli/tests/support/lacks.rs"]
mod lacks;
#[path = "../../../alcc/cli/tests/support/reproduced.rs"]
mod reproduced;

use std::process::Command;

fn alcc(args: &[&str]) -> std::process::Output {
    let mut command = Command::new(reproduced::built::program(args[0]));
    command.args(args).output().unwrap()
}

#[test]
fn every_way_has_its_cost() {
    let _alone = controls::controls_alone();
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let missing = alcc(&["reproduce", "--emu", "--json", "--out", out, "alcc-fig14"]);
    if missing.status.code() == Some(2) && !missing.stdout.is_empty() {
        // Nothing is loaded.
        let json: serde_json::Value = serde_json::from_slice(&missing.stdout).unwrap();
        let judged = &json["experiments"][0];
        assert_eq!(judged["verdict"], "not-run", "{judged}");
        assert!(
            judged["why"].as_str().unwrap().contains("alcc bpf load"),
            "{judged}"
        );
    }
    let flows = [("copa", "copa")];
    let load = alcc(&["bpf", "load"]);
    if load.status.code() == Some(2) {
        let said = String::from_utf8_lossy(&load.stderr);
        println!("skipped: needs the right to load BPF programs: {said}");
        return;
    }
    let Some(figures) = reproduced::figures("processor", &flows, "gate_to_native") else {
        return;
    };
    let copa = &figures["copa"];
    println!("{copa:?}");
    for form in ["plain", "native", "inband", "gate", "window", "kernel"] {
        let percent = copa[&format!("{form}_percent")];
        assert!((0.0..200.0).contains(&percent), "{form}: {percent} %");
        if form != "native" {
            let ratio = copa[&format!("{form}_to_native")];
            let native = copa["native_percent"];
            assert!((ratio * native - percent).abs() < 1e-6, "{form}: {copa:?}");
        }
    }
    // An algorithm of user space wakes for each reading, one in the kernel never.
    for form in ["native", "gate", "window"] {
        let (user, kernel) = (
            &copa[&format!("{form}_wakeups_per_s")],
            &copa["kernel_wakeups_per_s"],
        );
        assert!(user > kernel, "{form}: {copa:?}");
    }
    assert!(alcc(&["bpf", "unload"]).status.success());
}
