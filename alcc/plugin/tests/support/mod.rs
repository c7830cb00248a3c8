// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Plug-ins for tests: the example, and variants of it with one thing changed.
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The example as a shared object. Built by the compiler that Rust links with.
pub(crate) fn example() -> PathBuf {
    let source = root().join("examples/aimd.c");
    built("aimd", &std::fs::read_to_string(source).unwrap(), &[])
}

/// The example under another name, with `code` before its table and `fields` in place of those of
/// the same names.
pub(crate) fn wrapped(name: &str, code: &str, fields: &str) -> PathBuf {
    let text = std::fs::read_to_string(root().join("examples/aimd.c")).unwrap();
    let table = "const struct alcc_algorithm alcc_algorithm_v3 = {";
    let (head, rest) = text.split_once(table).expect("a table in the example");
    let rest = rest.replace(".name = \"aimd\"", &format!(".name = \"{name}\""));
    let rest = rest.replace("};", &format!("{fields}\n}};"));
    // Of two initialisers the later one counts.
    built(
        name,
        &format!("{head}{code}\n{table}{rest}"),
        &[
            "-Wno-override-init",
            "-Wno-initializer-overrides",
            "-Wno-unused-function",
        ],
    )
}

/// `text` compiled to a shared object.
pub(crate) fn built(name: &str, text: &str, flags: &[&str]) -> PathBuf {
    // Tests run beside each other: each build has a folder of its own.
    static BUILDS: AtomicUsize = AtomicUsize::new(0);
    let number = BUILDS.fetch_add(1, Ordering::Relaxed);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("plugins-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let source = folder.join(format!("{name}.c"));
    let file = folder.join(format!("{name}.so"));
    std::fs::write(&source, text).unwrap();
    let out = Command::new("cc")
        .args([
            "-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC",
        ])
        .args(flags)
        .arg("-I")
        .arg(root().join("../capi/include"))
        .arg("-o")
        .arg(&file)
        .arg(&source)
        .output()
        .expect("cc, with which Rust links");
    assert!(
        out.status.success(),
        "{name}: {}",
        String::from_utf8_lossy(&out.stderr)
    );
    file
}
