// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One module of CPython's test suite, run once.
use alcc_emu::Namespace;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A module that has not ended after this time hangs: Python prints where all its threads are, and
/// gives up. Longer than what the longest, test_asyncio, takes on a busy machine.
fn patience(module: &str) -> Duration {
    Duration::from_secs(if module == "test_asyncio" { 1800 } else { 600 })
}
/// Time after which it is killed if it does not give up.
const GRACE: Duration = Duration::from_secs(20);

/// CPython's network tests except those that need another machine. `network` does not stand for the
/// Internet alone: all of test_socketserver wants it; tests that miss the Internet skip themselves.
const OPTIONS: [&str; 6] = [
    "-v",
    "--fail-env-changed",
    "-u",
    "network",
    // Not TCP; on a virtual machine they wait for the host.
    "-i",
    "*VSOCK*",
];

/// Plain, or under this algorithm.
pub(crate) type Form = Option<&'static str>;

pub(crate) struct Python(PathBuf);

/// The outcomes of one run.
pub(crate) struct Outcomes {
    /// Test to outcome (`ok`, `skipped`, `failure`, `error`) and the traceback or reason.
    pub(crate) tests: BTreeMap<String, (String, String)>,
    pub(crate) status: ExitStatus,
    pub(crate) took: Duration,
    /// The report of `alcc run`; null in the plain run.
    pub(crate) report: serde_json::Value,
    /// The end of what was printed.
    pub(crate) tail: String,
}

impl Python {
    /// The distribution's Python with its test suite, as scripts/setup found or unpacked it.
    pub(crate) fn find() -> Option<Self> {
        let named = std::env::var_os("ALCC_CPYTHON").map(PathBuf::from);
        let system = PathBuf::from("/usr/bin/python3");
        named.into_iter().chain([system]).find_map(|program| {
            let probe = Command::new(&program)
                .args(["-c", "import test.test_socket"])
                .stderr(Stdio::null())
                .status();
            probe.is_ok_and(|s| s.success()).then_some(Self(program))
        })
    }

    /// Runs a module in a network of its own; with `only`, those tests of it.
    pub(crate) fn run(&self, module: &str, form: Form, only: &[&str]) -> Outcomes {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let mut command = self.under(form, &path("report.json"));
        command.args(["-m", "test"]).args(OPTIONS);
        command
            .arg("--timeout")
            .arg(patience(module).as_secs().to_string());
        command.arg("--junit-xml").arg(path("tests.xml"));
        command.arg("--tempdir").arg(dir.path());
        for test in only {
            command.args(["-m", test]);
        }
        command
            .arg(module)
            .current_dir(dir.path())
            .env("TMPDIR", dir.path());
        let said = File::create(path("said")).unwrap();
        command
            .stdin(Stdio::null())
            .stdout(said.try_clone().unwrap())
            .stderr(said)
            .process_group(0);
        let began = Instant::now();
        let status = within(patience(module) + GRACE, command);
        let said = std::fs::read(path("said")).unwrap();
        let said = String::from_utf8_lossy(&said).into_owned();
        let report = std::fs::read(path("report.json"))
            .ok()
            .and_then(|text| serde_json::from_slice(&text).ok());
        Outcomes {
            tests: self.outcomes(&path("tests.xml"), &path("said")),
            status,
            took: began.elapsed(),
            report: report.unwrap_or_default(),
            tail: last_lines(&said, 60),
        }
    }

    fn under(&self, form: Form, report: &Path) -> Command {
        let Some(cc) = form else {
            return Command::new(&self.0);
        };
        let mut command = Command::new(env!("CARGO_BIN_EXE_alcc"));
        command
            .args(["run", "--loopback", "--outbound"])
            .arg(format!("--json={}", report.display()));
        if cc != "default" {
            command.args(["--cc", cc]);
        }
        command.arg("--").arg(&self.0);
        command
    }

    /// Empty if there is no file: the run did not get to its end.
    fn outcomes(&self, xml: &Path, said: &Path) -> BTreeMap<String, (String, String)> {
        if !xml.exists() {
            return BTreeMap::new();
        }
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cpython/outcomes.py");
        let out = Command::new(&self.0)
            .arg(script)
            .args([xml, said])
            .output()
            .unwrap();
        let list: Vec<(String, String, String)> = serde_json::from_slice(&out.stdout)
            .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&out.stderr)));
        list.into_iter()
            .map(|(test, outcome, text)| (test, (outcome, text)))
            .collect()
    }
}

/// Runs to the end, or to the deadline: then everything it started in its process group is killed.
fn within(deadline: Duration, command: Command) -> ExitStatus {
    let mut child = Namespace::new().unwrap().spawn(command).unwrap();
    let until = Instant::now() + deadline;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if Instant::now() > until {
            let group = nix::unistd::Pid::from_raw(child.id().cast_signed());
            let _ = nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGKILL);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn last_lines(text: &str, n: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(n)..].join("\n")
}
