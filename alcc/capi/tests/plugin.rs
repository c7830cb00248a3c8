// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An algorithm written in C, for the connections of a program that uses the library.
mod support;
use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{command, lacks, no_compiler, program, root, run};

/// The example of docs/writing-an-algorithm-in-c.md.
fn example(folder: &Path) -> PathBuf {
    let file = folder.join("aimd.so");
    let built = Command::new("cc")
        .args(["-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-I"])
        .arg(root().join("alcc/capi/include"))
        .arg("-o")
        .arg(&file)
        .arg(root().join("alcc/plugin/examples/aimd.c"))
        .status()
        .unwrap();
    assert!(built.success());
    file
}

#[test]
fn loaded_by_the_program_or_by_the_environment() {
    if no_compiler() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = example(folder.path());
    let test = program("plugin");
    run(command(&test).arg(&file).arg("aimd:beta=0.7"));
    run(command(&test).args(["-", "aimd"]).env("ALCC_PLUGIN", &file));
}

/// Gives a program a file capability (setcap(8) may not be installed): CAP_NET_BIND_SERVICE,
/// effective.
fn give_capability(program: &Path) -> bool {
    let words: [u32; 5] = [0x0200_0001, 1 << 10, 0, 0, 0];
    let value: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let path = std::ffi::CString::new(program.to_str().unwrap()).unwrap();
    let name = c"security.capability".as_ptr();
    // SAFETY: two texts that end with a zero byte, and the bytes of the value.
    unsafe { libc::setxattr(path.as_ptr(), name, value.as_ptr().cast(), value.len(), 0) == 0 }
}

#[test]
fn the_environment_has_no_effect_in_a_program_with_more_rights_than_its_caller() {
    // SAFETY: no arguments.
    let root = unsafe { libc::geteuid() } == 0;
    if no_compiler() || !root && lacks("root, to make a set-user-ID program") {
        return;
    }
    let folder = tempfile::tempdir_in(support::library()).unwrap();
    let open = |path: &Path, mode| {
        std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    };
    open(folder.path(), 0o755);
    let file = example(folder.path());
    let callers = folder.path().join("callers");
    std::fs::create_dir(&callers).unwrap();
    chown(&callers, Some(4242), Some(4242)).unwrap();
    let copy = |name: &str, mode| {
        let path = folder.path().join(name);
        std::fs::copy(program("secure"), &path).unwrap();
        open(&path, mode);
        path
    };
    let plain = copy("plain", 0o755);
    let raised = copy("raised", 0o4755);
    let capable = copy("capable", 0o755);
    let as_caller = |program: &Path| {
        let mut caller = command(program);
        caller.uid(4242).gid(4242);
        caller.env("ALCC_PLUGIN", &file).env("ALCC_CC", "reno");
        run(caller.env("XDG_RUNTIME_DIR", &callers))
    };
    let made = || std::fs::read_dir(&callers).unwrap().count();
    let untouched = format!("1 {} none\n", alcc_cc::DEFAULT);
    assert_eq!(as_caller(&raised), untouched);
    if give_capability(&capable) || !lacks("a file system with capabilities") {
        assert_eq!(as_caller(&capable), untouched);
    }
    assert_eq!(made(), 0, "files where the caller's variable says");
    // The same program without rights of its own uses all of them.
    assert_eq!(as_caller(&plain), "0 reno aimd\n");
    assert_eq!(made(), 1);
}
