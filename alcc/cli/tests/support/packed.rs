// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The packages of `scripts/dist`, of this build.
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub(crate) fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the clone")
}

pub(crate) fn done(command: &mut Command) -> Output {
    let output = command.output().expect("the program is there");
    assert!(
        output.status.success(),
        "{command:?}: {} {}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// The files that 'make build' leaves, of this build, in a folder of the test's own.
pub(crate) fn built(folder: &Path) {
    let ours = Path::new(env!("CARGO_BIN_EXE_alcc-lab"))
        .parent()
        .expect("a folder");
    for name in [
        "alcc",
        "alcc-lab",
        "libalcc_preload.so",
        "libalcc_lab.so",
        "libalcc.a",
    ] {
        let file = ours.join(name);
        std::os::unix::fs::symlink(&file, folder.join(name)).expect("a link");
    }
    done(Command::new(root().join("scripts/libalcc")).arg(folder));
}

pub(crate) fn packed(built: &Path, out: &Path) -> [PathBuf; 3] {
    let mut dist = Command::new(root().join("scripts/dist"));
    // The bound is that of a release, which is a sixth smaller than what tests build.
    dist.env("ALCC_DIST_LIMIT", "45000");
    dist.env("ALCC_DIST_LEVEL", "1");
    done(
        dist.args([built, out])
            .env("SOURCE_DATE_EPOCH", "1700000000"),
    );
    [
        ("alcc_", ".deb"),
        ("alcc-lab_", ".deb"),
        ("alcc-", ".tar.gz"),
    ]
    .map(|(begin, end)| {
        let is_it = |file: &PathBuf| {
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with(begin) && name.ends_with(end)
        };
        let found = files(out).into_iter().find(is_it);
        found.unwrap_or_else(|| panic!("no {begin}...{end} in {}", out.display()))
    })
}

/// Files and links, not folders, below `folder`.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.file_type().expect("a type").is_dir() {
                true => open.push(entry.path()),
                false => found.push(entry.path()),
            }
        }
    }
    found
}

/// The sum that `sha256sum` gives.
#[allow(dead_code, reason = "not every test asks")]
pub(crate) fn sha256(file: &Path) -> String {
    let said = String::from_utf8(done(Command::new("sha256sum").arg(file)).stdout);
    let said = said.expect("text");
    said.split(' ').next().expect("a sum").to_owned()
}
