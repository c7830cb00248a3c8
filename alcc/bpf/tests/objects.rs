// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The committed objects are what the sources give.
use std::path::Path;
use std::process::Command;

#[test]
fn compiled_again_the_objects_are_the_same_bytes() {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let there = |program: &str| {
        let found = Command::new(program).arg("--version").output();
        found.is_ok_and(|out| out.status.success())
    };
    let headers = Path::new("/usr/include/bpf/bpf_helpers.h").exists();
    if !there("clang") || !there("llvm-strip") || !headers {
        println!("skipped: needs clang, llvm and libbpf-dev (run scripts/setup test)");
        return;
    }
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bpf-objects");
    let build = Command::new(crate_dir.join("../../scripts/bpf"))
        .arg(&out)
        .output()
        .unwrap();
    assert!(
        build.status.success(),
        "{}",
        String::from_utf8_lossy(&build.stderr)
    );
    for object in std::fs::read_dir(crate_dir.join("objects")).unwrap() {
        let object = object.unwrap();
        let committed = std::fs::read(object.path()).unwrap();
        let compiled = std::fs::read(out.join(object.file_name())).unwrap();
        assert!(
            committed == compiled,
            "{}: run 'make bpf' and commit it",
            object.path().display()
        );
    }
}
