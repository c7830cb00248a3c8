// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Builds the library and C programs against it, once per test process.
#![allow(dead_code, reason = "each test file uses its part")]
#[path = "../../../cli/tests/support/lacks.rs"]
mod lacks;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

pub(crate) use lacks::lacks;

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn done(command: &mut Command) {
    let out = command.output().expect("the program starts");
    assert!(
        out.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&out.stderr)
    );
}

/// True, with a message, if there is no C compiler.
pub(crate) fn no_compiler() -> bool {
    let cc = Command::new("cc").arg("--version").output();
    !cc.is_ok_and(|out| out.status.success()) && lacks("a C compiler (cc)")
}

/// The folder with libalcc.so.0 and libalcc.a.
pub(crate) fn library() -> &'static Path {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| {
        let exe = std::env::current_exe().unwrap();
        let dir = exe.ancestors().nth(2).unwrap().to_owned();
        // Alone it has other features, so that much is compiled again: not if it is there already.
        if std::env::var_os("ALCC_BUILT").is_none() {
            let mut build = Command::new(env!("CARGO"));
            build
                .args(["build", "-q", "--locked", "-p", "alcc-capi"])
                .current_dir(root());
            if dir.ends_with("release") {
                build.arg("--release");
            }
            done(&mut build);
        }
        // Two tests that link at once must not disturb each other: each links into a folder of its
        // own.
        let own = dir.join(format!(
            "capi-{}",
            exe.file_stem().unwrap().to_str().unwrap()
        ));
        std::fs::create_dir_all(&own).unwrap();
        std::fs::copy(dir.join("libalcc.a"), own.join("libalcc.a")).unwrap();
        done(Command::new(root().join("scripts/libalcc")).arg(&own));
        own
    })
}

/// Compiles a C program against the header and the shared object.
pub(crate) fn compile(source: &Path, to: &Path) {
    compile_with(source, to, &[]);
}

/// The same with what else it needs.
pub(crate) fn compile_with(source: &Path, to: &Path, flags: &[String]) {
    done(
        Command::new("cc")
            .args([
                "-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread",
            ])
            .arg("-I")
            .arg(root().join("alcc/capi/include"))
            .arg(source)
            .arg("-o")
            .arg(to)
            .arg("-L")
            .arg(library())
            .arg("-lalcc")
            .arg(format!("-Wl,-rpath,{}", library().display()))
            .args(flags),
    );
}

/// One of the programs of `tests/c`.
pub(crate) fn program(name: &str) -> PathBuf {
    static BUILT: std::sync::Mutex<Vec<String>> = std::sync::Mutex::new(Vec::new());
    let to = library().join(name);
    let mut built = BUILT.lock().unwrap();
    if !built.iter().any(|known| known == name) {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/c/{name}.c"));
        compile(&source, &to);
        built.push(name.to_owned());
    }
    to
}

/// A command without settings from outside.
pub(crate) fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    // cargo's: it would find another libalcc.so.0 first.
    command.env_remove("LD_LIBRARY_PATH");
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("ALCC_")) {
            command.env_remove(name);
        }
    }
    command
}

/// Waits for a child, with a time limit.
pub(crate) fn finish(mut child: Child, patience: Duration) -> Output {
    let end = Instant::now() + patience;
    while child.try_wait().unwrap().is_none() {
        if Instant::now() >= end {
            child.kill().unwrap();
            let out = child.wait_with_output().unwrap();
            panic!(
                "not finished in time: {}",
                String::from_utf8_lossy(&out.stderr)
            );
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().unwrap()
}

/// Runs a command to its end; what it printed.
pub(crate) fn run(command: &mut Command) -> String {
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let out = finish(child, Duration::from_secs(60));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        out.status.success(),
        "{command:?}: {} {}",
        out.status,
        text(&out.stderr)
    );
    assert_eq!(text(&out.stderr), "", "the library prints nothing");
    text(&out.stdout)
}
