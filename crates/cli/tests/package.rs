// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `scripts/dist`: what is packed is installed, runs, and is removed without a trace.
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the clone")
}

fn has(tool: &str) -> bool {
    Command::new(tool).arg("--version").output().is_ok()
}

fn done(command: &mut Command) -> Output {
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
fn built(folder: &Path) {
    let ours = Path::new(env!("CARGO_BIN_EXE_alcc"))
        .parent()
        .expect("a folder");
    for name in ["alcc", "libalcc_preload.so", "libalcc.a"] {
        let file = ours.join(name);
        std::os::unix::fs::symlink(&file, folder.join(name)).expect("a link");
    }
    done(Command::new(root().join("scripts/libalcc")).arg(folder));
}

fn packed(built: &Path, out: &Path) -> [PathBuf; 2] {
    let mut dist = Command::new(root().join("scripts/dist"));
    done(
        dist.args([built, out])
            .env("SOURCE_DATE_EPOCH", "1700000000"),
    );
    let one = |end: &str| {
        let files = std::fs::read_dir(out).expect("a folder");
        let mut files = files.map(|file| file.expect("an entry").path());
        let file = files.find(|file| file.to_string_lossy().ends_with(end));
        file.unwrap_or_else(|| panic!("no {end} in {}", out.display()))
    };
    [one(".deb"), one(".tar.gz")]
}

/// Files and links, not folders, below `folder`.
fn files(folder: &Path) -> Vec<PathBuf> {
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

#[test]
fn a_package_is_the_same_twice_is_installed_and_removed() {
    for tool in ["dpkg-deb", "strip", "objdump", "cc"] {
        if !has(tool) {
            println!("skipped: needs {tool}");
            return;
        }
    }
    let place = tempfile::tempdir().expect("a folder");
    let [from, first, second, system] = ["built", "first", "second", "system"].map(|name| {
        let folder = place.path().join(name);
        std::fs::create_dir(&folder).expect("a folder");
        folder
    });
    built(&from);
    let package = packed(&from, &first);
    for (one, other) in package.iter().zip(packed(&from, &second)) {
        let same = std::fs::read(one).expect("a file") == std::fs::read(other).expect("a file");
        assert!(
            same,
            "{} differs from one packing to the next",
            one.display()
        );
    }
    if has("lintian") {
        let mut lintian = Command::new("lintian");
        lintian.args(["--allow-root", "--fail-on", "error,warning"]);
        done(lintian.arg(&package[0]));
    } else {
        println!("skipped: needs lintian");
    }

    // A system of its own, with an empty database. What the package depends on is this machine's.
    for folder in [
        "var/lib/dpkg/updates",
        "var/lib/dpkg/info",
        "var/lib/dpkg/triggers",
    ] {
        std::fs::create_dir_all(system.join(folder)).expect("a folder");
    }
    std::fs::write(system.join("var/lib/dpkg/status"), "").expect("a database");
    let dpkg = |what: &str, which: &Path| {
        let mut dpkg = Command::new("dpkg");
        dpkg.arg(format!("--root={}", system.display()))
            .args(["--force-depends", "--force-not-root", "--force-bad-path"])
            .arg(what)
            .arg(which);
        done(&mut dpkg);
    };
    dpkg("--install", &package[0]);
    let alcc = system.join("usr/bin/alcc");
    let said = done(Command::new(&alcc).arg("--version")).stdout;
    assert_eq!(
        said,
        concat!("alcc ", env!("CARGO_PKG_VERSION"), "\n").as_bytes()
    );
    // It finds the library that was installed with it.
    let run = done(Command::new(&alcc).args(["run", "--", "true"]));
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(said.contains("controls accepted TCP connections"), "{said}");
    the_unit_starts_what_was_installed(&system);
    dpkg("--purge", Path::new("alcc"));
    assert_eq!(files(&system.join("usr")), Vec::<PathBuf>::new());
}

/// The service that loads the kernel's part, as systemd reads it.
fn the_unit_starts_what_was_installed(system: &Path) {
    let unit = system.join("usr/lib/systemd/system/alcc-bpf.service");
    let unit = std::fs::read_to_string(unit).expect("the unit is shipped");
    assert!(
        unit.contains("\nExecStart=/usr/bin/alcc bpf load\n"),
        "{unit}"
    );
    // The program of that system, and no other.
    let here = unit.replace(
        "/usr/bin/alcc",
        &system.join("usr/bin/alcc").to_string_lossy(),
    );
    let copy = system.join("alcc-bpf.service");
    std::fs::write(&copy, here).expect("a copy");
    let verify = Command::new("systemd-analyze")
        .args(["verify", "--man=no"])
        .arg(&copy)
        .output();
    std::fs::remove_file(copy).expect("the copy");
    match verify {
        Ok(out) => assert!(
            out.status.success() && out.stderr.is_empty(),
            "{}",
            String::from_utf8_lossy(&out.stderr)
        ),
        Err(_) => println!("skipped: needs systemd-analyze"),
    }
}

/// Every series that an alert asks for is one that the metrics page has.
#[test]
fn alerts_ask_for_series_that_there_are() {
    let rules = root().join("packaging/prometheus-alerts.yml");
    let text = std::fs::read_to_string(&rules).expect("the rules");
    let page = root().join("crates/cli/src/metrics.rs");
    let page = std::fs::read_to_string(page).expect("the page's source");
    let expressions = text.split("expr:").skip(1);
    let names = expressions.flat_map(|rest| {
        let end = rest.find("labels:").unwrap_or(rest.len());
        let word = |c: char| !c.is_ascii_alphanumeric() && c != '_';
        let words = rest[..end].split(word);
        words
            .filter(|word| word.starts_with("alcc_"))
            .collect::<Vec<_>>()
    });
    let names: Vec<_> = names.collect();
    assert!(names.len() >= 4, "{names:?}");
    for name in names {
        let series = name.trim_end_matches("_bucket");
        assert!(
            page.contains(&format!("\"{series}\"")),
            "no series {series}"
        );
    }
    match Command::new("promtool")
        .args(["check", "rules"])
        .arg(&rules)
        .output()
    {
        Ok(said) => assert!(
            said.status.success(),
            "{}",
            String::from_utf8_lossy(&said.stderr)
        ),
        Err(_) => println!("skipped: needs promtool"),
    }
}
