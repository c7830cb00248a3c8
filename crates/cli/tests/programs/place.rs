// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where a program runs: two namespaces with a link between them, and a folder.
use crate::recipes::Recipe;
use alcc_emu::{Emulator, Namespace, PathSpec, Silent, Subnet};
use alcc_link::{DirectionSpec, RateSpec};
use alcc_units::{Rate, Span};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Round trip of the link.
pub(crate) const RTT: Duration = Duration::from_millis(20);
/// Every program listens here.
pub(crate) const PORT: u16 = 8080;
const PATIENCE: Duration = Duration::from_secs(60);

/// Says "skipped" and is true where something is missing; where nothing may be missing (CI) it fails instead.
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

/// A program or, with a slash in its name, a file of its package: unpacked by scripts/setup, or installed.
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
    outside: Namespace,
    inside: Namespace,
    dir: tempfile::TempDir,
    _link: Emulator,
    /// The server's address.
    pub(crate) server: Ipv4Addr,
    /// The client's address.
    pub(crate) client: Ipv4Addr,
}

/// What a run of a program came to.
#[derive(Debug)]
pub(crate) struct Run {
    /// What the client printed, hashes included.
    pub(crate) fetched: String,
    /// The same with its errors and exit status, without numbers and hashes.
    pub(crate) client: String,
    /// The time of the transfer.
    pub(crate) took: Duration,
    /// What the server said, without numbers, sorted.
    pub(crate) said: Vec<String>,
    /// Its exit status as a shell would say it.
    pub(crate) status: i32,
    /// The report of `alcc run`; null without.
    pub(crate) report: serde_json::Value,
    /// What `alcc run` said.
    #[expect(dead_code, reason = "shown when a check fails")]
    ours: Vec<String>,
}

impl Place {
    pub(crate) fn new() -> Self {
        alcc_emu::prepare().unwrap();
        let (outside, inside) = (Namespace::new().unwrap(), Namespace::new().unwrap());
        let direction = |mbps| DirectionSpec {
            delay: Span::from(RTT / 2),
            rate: RateSpec::Fixed(Rate::mbps(mbps)),
            ..DirectionSpec::default()
        };
        let path = PathSpec {
            down: direction(30),
            up: direction(30),
            seed: 1,
        };
        let link =
            Emulator::start(&outside, &inside, Subnet::default(), path, Box::new(Silent)).unwrap();
        let dir = tempfile::tempdir().unwrap();
        // Servers become another user.
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(dir.path().join("www")).unwrap();
        Self {
            outside,
            inside,
            server: link.outside_addr(),
            client: link.inside_addr(),
            _link: link,
            dir,
        }
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
        let mut rng = alcc_units::Rng::new(bytes as u64);
        let content: Vec<u8> = (0..bytes.div_ceil(8))
            .flat_map(|_| rng.next_u64().to_le_bytes())
            .take(bytes)
            .collect();
        fs::write(self.path("www").join(name), content).unwrap();
        let sum = self.shell(&format!("sha256sum www/{name}"), name);
        sum.0.split_whitespace().next().unwrap().to_owned()
    }

    /// Starts the program, fetches the file `name` from it, ends it.
    pub(crate) fn run(&self, recipe: &Recipe, cc: Option<&str>, name: &str) -> Run {
        let _helpers: Vec<Process> = (recipe.helpers)(self)
            .into_iter()
            .map(|(inside, command, port)| {
                let space = if inside { &self.inside } else { &self.outside };
                let helper = Process::start(space, command, &self.path("helper"));
                helper.wait_for(space, port);
                helper
            })
            .collect();
        let program = (recipe.program)(self, name);
        let report = self.path("report.json");
        drop(fs::remove_file(&report));
        let mut command = match cc {
            None => plain(&program),
            Some(cc) => {
                let mut command = Command::new(env!("CARGO_BIN_EXE_alcc"));
                command.args(["run", "--cc", cc]).args(recipe.options);
                command
                    .arg(format!("--json={}", report.display()))
                    .arg("--");
                command.arg(program.get_program()).args(program.get_args());
                inherit(&program, &mut command);
                command
            }
        };
        if let Some(private) = recipe.mounts {
            command = self.privately(&private(self), &command);
        }
        let said = self.path("said");
        let mut server = Process::start(&self.outside, command, &said);
        let began = Instant::now();
        let ((fetched, client), ended) = match recipe.fetch {
            Some(fetch) => {
                server.wait_for(&self.outside, PORT);
                let began = Instant::now();
                let got = self.shell(fetch, name);
                let took = began.elapsed();
                ((got, took), server.end())
            }
            // The program itself transfers, and ends when it has.
            None => {
                let status = server.wait();
                let took = began.elapsed();
                ((self.shell("sha256sum got; rm got", name), took), status)
            }
        };
        let said = fs::read_to_string(&said).unwrap_or_default();
        let (ours, theirs): (Vec<&str>, Vec<&str>) =
            said.lines().partition(|line| line.starts_with("alcc: "));
        let mut theirs: Vec<String> = theirs
            .iter()
            .map(|line| without_numbers(&line.replace(name, "FILE")))
            .collect();
        theirs.sort();
        let took = client;
        Run {
            client: without_numbers(&format!("{}\n{}", fetched.0, fetched.1).replace(name, "FILE")),
            fetched: fetched.0,
            took,
            said: theirs,
            status: ended
                .code()
                .unwrap_or_else(|| 128 + ended.signal().unwrap_or(0)),
            report: fs::read_to_string(&report)
                .ok()
                .and_then(|text| serde_json::from_str(&text).ok())
                .unwrap_or_default(),
            ours: ours.into_iter().map(str::to_owned).collect(),
        }
    }

    /// Runs a script at the client's side: what it printed, and its errors with its status. `$S` is the server's address, `$D` its folder,
    /// `$F` the name of the file.
    fn shell(&self, script: &str, name: &str) -> (String, String) {
        let mut command = Command::new("timeout");
        command
            .args([&PATIENCE.as_secs().to_string(), "sh", "-c", script])
            .env("S", self.server.to_string())
            .env("D", self.dir.path())
            .env("F", name)
            .env("PATH", path_with_deps())
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let out = self
            .inside
            .spawn(command)
            .unwrap()
            .wait_with_output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (
            text(&out.stdout),
            format!("{}{}", text(&out.stderr), out.status),
        )
    }

    /// Below a shell that first changes what only this program sees of the file system.
    fn privately(&self, script: &str, command: &Command) -> Command {
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
}

fn plain(program: &Command) -> Command {
    let mut command = Command::new(program.get_program());
    command.args(program.get_args());
    inherit(program, &mut command);
    command
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

/// Times, process numbers, ports and rates differ from run to run; so do hashes, which are compared elsewhere.
fn without_numbers(text: &str) -> String {
    let mut out = String::new();
    // The unit that suits the number.
    let text = text.replace("KByte", "MByte");
    for word in text.split_inclusive(|c: char| !c.is_ascii_alphanumeric() && c != '.') {
        let (word, end) = match word.char_indices().next_back() {
            Some((at, c)) if !c.is_ascii_alphanumeric() && c != '.' => word.split_at(at),
            _ => (word, ""),
        };
        let hash = word.len() == 64 && word.bytes().all(|b| b.is_ascii_hexdigit());
        let month = [
            "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
        ];
        let day = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
        if hash {
            out.push_str("HASH");
        } else if word.starts_with(|c: char| c.is_ascii_digit()) {
            out.push('0');
        } else if month.contains(&word) || day.contains(&word) {
            out.push_str("DATE");
        } else {
            out.push_str(word);
        }
        // Columns are filled with blanks to the width of the numbers.
        if !(end == " " && out.ends_with(' ')) {
            out.push_str(end);
        }
    }
    out
}

/// A process in a group of its own (Apache signals its whole group), ended when dropped.
struct Process {
    child: Child,
    said: PathBuf,
}

impl Process {
    fn start(space: &Namespace, mut command: Command, said: &Path) -> Self {
        let file = File::create(said).unwrap();
        command
            .stdin(Stdio::null())
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .process_group(0);
        let name = command.get_program().to_string_lossy().into_owned();
        let child = space
            .spawn(command)
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        Self {
            child,
            said: said.to_owned(),
        }
    }

    /// Until somebody in the namespace listens on the port. To connect would be noticed: iperf3 takes it for a client.
    fn wait_for(&self, space: &Namespace, port: u16) {
        let listening = || {
            ["tcp", "tcp6"].iter().any(|table| {
                let text = fs::read_to_string(format!("/proc/thread-self/net/{table}"));
                text.unwrap_or_default().lines().any(|line| {
                    let mut words = line.split_whitespace().skip(1);
                    let local = words.next().unwrap_or_default();
                    local.ends_with(&format!(":{port:04X}")) && words.nth(1) == Some("0A")
                })
            })
        };
        let deadline = Instant::now() + Duration::from_secs(30);
        while !space.run(listening).unwrap() {
            assert!(
                Instant::now() < deadline,
                "nobody listens on {port}: {}",
                fs::read_to_string(&self.said).unwrap_or_default()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Asks it to stop, as an init system would.
    fn end(&mut self) -> ExitStatus {
        self.signal(Signal::SIGTERM);
        self.wait()
    }

    fn wait(&mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(
                Instant::now() < deadline,
                "it does not end: {}",
                fs::read_to_string(&self.said).unwrap_or_default()
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn signal(&self, signal: Signal) {
        let _ = kill(Pid::from_raw(self.child.id().cast_signed()), signal);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            self.signal(Signal::SIGTERM);
            let deadline = Instant::now() + Duration::from_secs(5);
            while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(5));
            }
            // Its whole group, which is ours alone.
            let _ = kill(
                Pid::from_raw(-self.child.id().cast_signed()),
                Signal::SIGKILL,
            );
            drop(self.child.wait());
        }
    }
}
