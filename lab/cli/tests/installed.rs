// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From the package to a controlled server and back, by the commands of a reader of docs/policy.md.
#[path = "../../../alcc/bpf/tests/support/mod.rs"]
mod controls;
#[path = "../../../alcc/cli/tests/support/go.rs"]
mod go;
#[path = "../../../alcc/cli/tests/support/lacks.rs"]
mod lacks;
#[path = "../../../alcc/cli/tests/support/packed.rs"]
mod packed;

use lacks::lacks;
use std::path::Path;
use std::process::Command;

/// Debian's own apt, dpkg and systemd; the machine's files in a copy that is written to memory.
#[test]
fn the_package_controls_a_static_server_and_is_purged_without_a_trace() {
    for needed in ["/lib/systemd/systemd", "/usr/bin/apt-get", "/usr/bin/ss"] {
        if !Path::new(needed).exists() {
            lacks(needed);
            return;
        }
    }
    if !nix::unistd::geteuid().is_root() || !Path::new("/sys/kernel/btf/vmlinux").exists() {
        println!("skipped: needs root and BTF");
        return;
    }
    let _alone = controls::controls_alone();
    let dir = tempfile::tempdir().unwrap();
    let [units, bin, conf, _layer, out, built] = ["units", "bin", "conf", "layer", "out", "built"]
        .map(|name| {
            let folder = dir.path().join(name);
            std::fs::create_dir(&folder).unwrap();
            folder
        });
    if !go::server(&bin.join("server")) {
        return;
    }
    packed::built(&built);
    let [package, ..] = packed::packed(&built, &out);
    std::fs::rename(package, conf.join("alcc.deb")).unwrap();
    let data = alcc_units::Rng::new(1).bytes(1_000_000);
    std::fs::write(conf.join("data"), &data).unwrap();
    let plain = "[Unit]\nDefaultDependencies=no\n";
    for target in ["alcc-test.target", "sysinit.target"] {
        std::fs::write(units.join(target), plain).unwrap();
    }
    let server = format!("{plain}[Service]\nExecStart=/run/bin/server 8081 /run/data\n");
    std::fs::write(units.join("go.service"), server).unwrap();
    let script = packed::root().join("alcc/cli/tests/systemd/outside");
    let done = Command::new("bash")
        .arg(script)
        .args([dir.path(), Path::new("package")])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    let error = String::from_utf8_lossy(&done.stderr).into_owned();
    if done.status.code() == Some(2) {
        lacks(&format!("a systemd in namespaces: {error}"));
        return;
    }
    let default = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").unwrap();
    let default = default.trim();
    let label = "1: port 8081, unit go.service: budget";
    let mut expected = vec![
        format!("installed: 0 inactive, 1 {default}"),
        "programs: 1".to_owned(),
        format!("rollback: 0 active, 2 {default}"),
        "rollback shows: no policy is in force".to_owned(),
        format!("purged: 0 inactive, 3 {default}"),
        format!("answer: {}", packed::sha256(&conf.join("data"))),
        "no file of it is left".to_owned(),
        "left: 0 programs, 0 mounts, 0 folders, no controls".to_owned(),
    ];
    for (step, connections) in [
        ("enabled", 1),
        ("connected", 2),
        ("reload", 2),
        ("reinstalled", 2),
        ("upgraded to 99-1", 3),
        ("reload of 99-1", 3),
    ] {
        let s = if connections == 1 { "" } else { "s" };
        expected.extend([
            format!("{step}: 0 active, {connections} alcc_budget"),
            format!("{step} shows: {label} ({connections} connection{s})"),
            format!("{step} top: {connections} \"algorithm\":\"alcc_budget\""),
        ]);
    }
    for line in expected {
        assert!(said.lines().any(|l| l == line), "{line}\n{said}\n{error}");
    }
}
