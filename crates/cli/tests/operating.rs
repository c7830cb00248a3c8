// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Operating `alcc run`: options where people put them, runs of others and runs that were killed, a
//! library that cannot be loaded, what is said at the start.
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);

fn alcc(runtime: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_alcc"));
    command.env("XDG_RUNTIME_DIR", runtime).stdin(Stdio::null());
    command
}

fn output(runtime: &Path, args: &[&str]) -> Output {
    alcc(runtime).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn json(out: &Output) -> Value {
    assert!(out.status.success(), "{}", text(&out.stderr));
    serde_json::from_slice(&out.stdout).unwrap()
}

/// A program under `alcc run` that waits; killed with it.
struct Running {
    alcc: Child,
    sleeper: i32,
}

impl Running {
    fn start(command: &mut Command) -> Self {
        let mut alcc = command
            .args([
                "run",
                "--quiet",
                "--",
                "sh",
                "-c",
                "echo $$; exec sleep 100",
            ])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut out = BufReader::new(alcc.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        let sleeper: i32 = line.trim().parse().unwrap();
        // From here on it is the program that stays.
        let deadline = Instant::now() + PATIENCE;
        while std::fs::read_to_string(format!("/proc/{sleeper}/comm")).unwrap() != "sleep\n" {
            assert!(Instant::now() < deadline, "no sleep");
            std::thread::sleep(Duration::from_millis(5));
        }
        Self { alcc, sleeper }
    }

    fn id(&self) -> String {
        self.alcc.id().to_string()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let sleeper = nix::unistd::Pid::from_raw(self.sleeper);
        let _ = nix::sys::signal::kill(sleeper, nix::sys::signal::SIGKILL);
        drop(self.alcc.kill());
        drop(self.alcc.wait());
    }
}

#[test]
fn options_are_taken_before_and_after_the_order() {
    let dir = tempfile::tempdir().unwrap();
    let running = Running::start(&mut alcc(dir.path()));
    let id = running.id();
    for args in [
        &["ctl", "--run", &id, "--json", "off"][..],
        &["ctl", "off", "--run", &id, "--json"],
        &["ctl", "--json", "cc", "copa", "--run", &id],
    ] {
        let told = json(&output(dir.path(), args));
        assert_eq!(told["run"].to_string(), id, "{args:?}");
    }
    let said = text(&output(dir.path(), &["ctl", "on", "--run", &id]).stdout);
    assert!(said.contains("0 connections switched"), "{said}");
}

#[test]
fn a_program_needs_no_dashes_before_it() {
    let dir = tempfile::tempdir().unwrap();
    for args in [
        &["run", "--quiet", "sh", "-c", "echo $0 $1", "a", "--json"][..],
        &[
            "run",
            "--quiet",
            "--",
            "sh",
            "-c",
            "echo $0 $1",
            "a",
            "--json",
        ],
    ] {
        let out = output(dir.path(), args);
        assert_eq!(text(&out.stdout), "a --json\n", "{args:?}");
    }
    let wrong = output(dir.path(), &["run", "--nosuch", "true"]);
    assert_eq!(wrong.status.code(), Some(2));
}

#[test]
fn a_run_whose_alcc_was_killed_can_still_be_seen_and_switched_off() {
    let dir = tempfile::tempdir().unwrap();
    let mut running = Running::start(&mut alcc(dir.path()));
    let (id, sleeper) = (running.id(), running.sleeper.to_string());
    running.alcc.kill().unwrap();
    running.alcc.wait().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    // By its folder, by the old id, and where nobody looks by a process of the server.
    for (at, args) in [
        (dir.path(), &["top", "--once", "--json"][..]),
        (dir.path(), &["top", "--once", "--json", "--run", &id]),
        (dir.path(), &["top", "--once", "--json", "--run", &sleeper]),
        (
            elsewhere.path(),
            &["top", "--once", "--json", "--run", &sleeper],
        ),
    ] {
        let shown = json(&output(at, args));
        let runs = shown["runs"].as_array().unwrap();
        let run = runs.iter().find(|r| r["run"] == running.alcc.id());
        assert_eq!(run.expect("the run")["killed"], true, "{args:?} {shown}");
    }
    let table = text(&output(dir.path(), &["top", "--once", "--run", &id]).stdout);
    assert!(
        table.contains(&format!("run {id} (killed) sh -c")),
        "{table}"
    );
    for at in [dir.path(), elsewhere.path()] {
        let told = json(&output(at, &["ctl", "off", "--json", "--run", &sleeper]));
        assert_eq!(told["run"].to_string(), id);
    }
    // When the last of its processes has gone, so has its folder.
    drop(running);
    let gone = output(dir.path(), &["top", "--once", "--run", &id]);
    assert_eq!(gone.status.code(), Some(1), "{}", text(&gone.stdout));
    let left: Vec<_> = std::fs::read_dir(dir.path().join("alcc"))
        .unwrap()
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn root_finds_the_runs_of_others() {
    const NOBODY: u32 = 65_534;
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: needs root");
        return;
    }
    let (theirs, ours) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    // As under a unit of its own user: programs and folder where that user may look.
    let place = |name: &str| theirs.path().join(name);
    for file in ["alcc", "libalcc_preload.so"] {
        let from = Path::new(env!("CARGO_BIN_EXE_alcc")).with_file_name(file);
        std::fs::copy(from, place(file)).unwrap();
    }
    std::fs::create_dir(place("runtime")).unwrap();
    std::os::unix::fs::chown(place("runtime"), Some(NOBODY), Some(NOBODY)).unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(theirs.path(), open).unwrap();
    let mut command = Command::new(place("alcc"));
    command
        .env("XDG_RUNTIME_DIR", place("runtime"))
        .uid(NOBODY)
        .gid(NOBODY)
        .current_dir("/");
    let running = Running::start(&mut command);
    let id = running.id();
    for args in [
        &["top", "--once", "--json"][..],
        &[
            "top",
            "--once",
            "--json",
            "--run",
            &running.sleeper.to_string(),
        ],
    ] {
        let shown = json(&output(ours.path(), args));
        let runs = shown["runs"].as_array().unwrap();
        let run = runs.iter().find(|r| r["run"] == running.alcc.id());
        assert_eq!(run.expect("the run")["killed"], false, "{args:?} {shown}");
        assert_eq!(run.unwrap()["processes"], 2, "{shown}");
    }
    let told = json(&output(
        ours.path(),
        &["ctl", "off", "--run", &id, "--json"],
    ));
    assert_eq!(told["run"].to_string(), id);
}

#[test]
fn a_library_that_cannot_be_loaded_is_found_before_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let whole = Path::new(env!("CARGO_BIN_EXE_alcc")).with_file_name("libalcc_preload.so");
    let library = dir.path().join("libalcc_preload.so");
    let whole = std::fs::read(whole).unwrap();
    for content in [&whole[..5000], b"", b"no library at all"] {
        std::fs::write(&library, content).unwrap();
        let out = alcc(dir.path())
            .env("ALCC_PRELOAD", &library)
            .args(["run", "--", "echo", "started"])
            .output()
            .unwrap();
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{said}");
        assert!(out.stdout.is_empty());
        assert!(said.starts_with("alcc: load "), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

#[test]
fn the_start_says_what_is_controlled_and_what_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let first = |options: &[&str]| {
        let args = [&["run"], options, &["--", "true"]].concat();
        let said = text(&output(dir.path(), &args).stderr);
        said.lines().next().unwrap_or_default().to_owned()
    };
    let plain = first(&[]);
    assert!(
        plain.starts_with("alcc: budget controls accepted TCP"),
        "{plain}"
    );
    assert!(
        plain.contains("not those from this machine (--loopback)"),
        "{plain}"
    );
    assert!(plain.contains("alcc top"), "{plain}");
    let wide = first(&["--loopback", "--outbound", "--cc", "copa"]);
    assert!(wide.contains("copa controls accepted and opened"), "{wide}");
    assert!(wide.contains("loopback included"), "{wide}");
    assert_eq!(first(&["--quiet"]), "");
}
