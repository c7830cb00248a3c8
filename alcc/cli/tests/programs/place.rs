// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The place where a program runs: two namespaces with a link between them, and a folder.
use crate::process::{LISTEN, PATIENCE, Process, TIME_WAIT, sockets};
use crate::recipes::Recipe;
use alcc_emu::{Emulator, Namespace, Observer, PathSpec, Silent, Subnet};
use alcc_link::{DirectionSpec, RateSpec};
use alcc_units::{Rate, Span};
use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Round trip of the link.
pub(crate) const RTT: Duration = Duration::from_millis(20);
/// Every program listens here.
pub(crate) const PORT: u16 = 8080;

/// Says "skipped" and is true where something is missing; where nothing may be missing (CI) it
/// fails instead.
pub(crate) fn lacking(recipe: &Recipe) -> bool {
    let lacks = |what: &str| {
        println!("skipped: needs {what}");
        assert!(std::env::var_os("CI").is_none(), "CI must have {what}");
        true
    };
    if let Err(why) = alcc_emu::available() {
        return lacks(&format!("namespaces ({why})"));
    }
    if recipe.root && !nix::unistd::geteuid().is_root() {
        // No package provides that, so it may be missing anywhere.
        println!("skipped: needs root");
        return true;
    }
    recipe.needs.iter().any(|program| {
        find(program).is_none() && lacks(&format!("{program} (run scripts/setup test)"))
    })
}

/// The folder in which scripts/setup has put what the machine lacked.
pub(crate) fn deps() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/deps")
}

/// A program or, with a slash in its name, a file of its package: unpacked by scripts/setup, or
/// installed.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let unpacked = if name.contains('/') {
        vec![deps().join("root").join(name), Path::new("/").join(name)]
    } else {
        // The distribution's own before what a version manager puts in front of it.
        let mut places: Vec<PathBuf> = ["/usr/bin", "/usr/sbin"].map(PathBuf::from).into();
        places.push(deps().join("bin"));
        places.extend(std::env::split_paths(
            &std::env::var_os("PATH").unwrap_or_default(),
        ));
        places.iter().map(|dir| dir.join(name)).collect()
    };
    unpacked.into_iter().find(|p| p.exists()).map(|p| {
        fs::canonicalize(p.parent().unwrap_or(&p))
            .unwrap_or_default()
            .join(p.file_name().unwrap_or_default())
    })
}

/// As [`find`], after [`lacking`] has said that it is there.
pub(crate) fn the(name: &str) -> PathBuf {
    find(name).unwrap_or_else(|| panic!("{name} is not among the recipe's needs"))
}

pub(crate) struct Place {
    pub(crate) outside: Namespace,
    pub(crate) inside: Namespace,
    dir: tempfile::TempDir,
    pub(crate) link: Emulator,
}

impl Place {
    /// A link fast enough for a test and slow enough to fill.
    pub(crate) fn new() -> Self {
        let direction = DirectionSpec {
            delay: Span::from(RTT / 2),
            rate: RateSpec::Fixed(Rate::mbps(30)),
            ..DirectionSpec::default()
        };
        let path = PathSpec {
            down: direction.clone(),
            up: direction,
            seed: 1,
        };
        Self::over(path, Box::new(Silent))
    }

    /// As `alcc-lab emulate --down lte --delay 20ms`.
    pub(crate) fn lte() -> Self {
        let lte = alcc_trace::scenario("lte").expect("a scenario of this name");
        let direction = |rate| DirectionSpec {
            delay: Span::from_millis(20),
            rate,
            ..DirectionSpec::default()
        };
        let trace = lte.generate(1, Span::from_secs(60));
        let path = PathSpec {
            down: direction(RateSpec::Trace(trace)),
            up: direction(RateSpec::Fixed(Rate::mbps(10))),
            seed: 1,
        };
        Self::over(path, Box::new(Silent))
    }

    pub(crate) fn over(path: PathSpec, observer: Box<dyn Observer + Send>) -> Self {
        alcc_emu::prepare().unwrap();
        let (outside, inside) = (Namespace::new().unwrap(), Namespace::new().unwrap());
        let link = Emulator::start(&outside, &inside, Subnet::default(), path, observer).unwrap();
        let dir = tempfile::tempdir().unwrap();
        // Servers become another user.
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(dir.path().join("www")).unwrap();
        Self {
            outside,
            inside,
            link,
            dir,
        }
    }

    /// The server's address.
    pub(crate) fn server(&self) -> Ipv4Addr {
        self.link.outside_addr()
    }

    /// The client's address.
    pub(crate) fn client(&self) -> Ipv4Addr {
        self.link.inside_addr()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The folder as text, for configurations.
    pub(crate) fn folder(&self) -> String {
        self.dir.path().display().to_string()
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        fs::write(self.path(name), text).unwrap();
        self.path(name)
    }

    /// Puts a file of pseudo-random bytes on the server; its hash.
    pub(crate) fn file(&self, name: &str, bytes: usize) -> String {
        let content = alcc_units::Rng::new(bytes as u64).bytes(bytes);
        fs::write(self.path("www").join(name), content).unwrap();
        let sum = self.shell(&format!("sha256sum www/{name}"), name);
        sum.0.split_whitespace().next().unwrap().to_owned()
    }

    /// Starts what has to run beside the program.
    pub(crate) fn help(&self, recipe: &Recipe) -> Vec<Process> {
        (recipe.helpers)(self)
            .into_iter()
            .map(|(inside, command, port)| {
                let space = if inside { &self.inside } else { &self.outside };
                let helper = Process::start(space, command, &self.path("helper"));
                helper.wait_for(space, port);
                helper
            })
            .collect()
    }

    /// Starts the program with the file `name`, under `alcc run` with these options or plainly, and
    /// waits until it listens. What it says goes into the file `said`, the report into
    /// `report.json`.
    pub(crate) fn start(&self, recipe: &Recipe, options: Option<&[&str]>, name: &str) -> Process {
        let program = (recipe.program)(self, name);
        drop(fs::remove_file(self.path("report.json")));
        let mut command = match options {
            None => Command::new(program.get_program()),
            Some(options) => {
                let mut command = Command::new(env!("CARGO_BIN_EXE_alcc"));
                command.arg("run").args(options).args(recipe.options);
                command.arg(format!("--json={}", self.path("report.json").display()));
                command.arg("--").arg(program.get_program());
                command
            }
        };
        command.args(program.get_args());
        inherit(&program, &mut command);
        if let Some(mounts) = recipe.mounts.filter(|_| nix::unistd::geteuid().is_root()) {
            command = privately(&mounts(self), &command);
        }
        let server = Process::start(&self.outside, command, &self.path("said"));
        if recipe.fetch.is_some() {
            server.wait_for(&self.outside, PORT);
        }
        server
    }

    /// The report of `alcc run`; null without one.
    pub(crate) fn report(&self) -> serde_json::Value {
        fs::read_to_string(self.path("report.json"))
            .ok()
            .and_then(|text| serde_json::from_str(&text).ok())
            .unwrap_or_default()
    }

    /// A script at the client's side, where `$S` is the server's address, `$D` its folder and `$F`
    /// the name of the file; after `patience` it is ended. `$T` is the duration for iperf3.
    pub(crate) fn script(&self, script: &str, name: &str, patience: Duration) -> Command {
        let seconds = |t: Duration| t.as_secs().to_string();
        let mut command = Command::new("timeout");
        command
            .args([&seconds(patience), "sh", "-c", script])
            .env("S", self.server().to_string())
            .env("D", self.dir.path())
            .env("F", name)
            .env("T", seconds(patience / 12))
            .env("PATH", path_with_deps())
            .current_dir(self.dir.path());
        command
    }

    /// Runs a script at the client's side to its end: what it printed, and its errors with its
    /// status.
    pub(crate) fn shell(&self, script: &str, name: &str) -> (String, String) {
        let mut command = self.script(script, name, PATIENCE);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let client = self.inside.spawn(command).unwrap();
        let out = client.wait_with_output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (
            text(&out.stdout),
            format!("{}{}", text(&out.stderr), out.status),
        )
    }

    /// Until the last connection to the program is gone: how a program ends may depend on whether
    /// it still has one.
    pub(crate) fn settle(&self) {
        let deadline = Instant::now() + Duration::from_secs(5);
        let open = || {
            sockets(PORT)
                .iter()
                .any(|state| state != LISTEN && state != TIME_WAIT)
        };
        while self.outside.run(open).unwrap() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Below a shell that first changes what only this program sees of the file system.
fn privately(script: &str, command: &Command) -> Command {
    let mut outer = Command::new("unshare");
    outer.args([
        "-m",
        "sh",
        "-c",
        &format!("set -e; {script}; exec \"$@\""),
        "sh",
    ]);
    outer.arg(command.get_program()).args(command.get_args());
    inherit(command, &mut outer);
    outer
}

fn inherit(from: &Command, to: &mut Command) {
    for (name, value) in from.get_envs() {
        if let Some(value) = value {
            to.env(name, value);
        }
    }
}

fn path_with_deps() -> std::ffi::OsString {
    let mut path = std::env::var_os("PATH").unwrap_or_default();
    path.push(":/usr/sbin:/sbin:");
    path.push(deps().join("bin"));
    path
}
