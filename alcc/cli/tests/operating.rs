// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Operating `alcc run`: options where people put them, runs of others and runs that were killed, a
//! library that cannot be loaded, what is said at the start.
#[path = "support/lacks.rs"]
mod lacks;

use lacks::lacks;
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
    // The salt of trials is not this machine's.
    command.env("XDG_STATE_HOME", runtime);
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
    // By its folder, by the old id, and in a folder that is not searched by a process of the server.
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
    let remaining: Vec<_> = std::fs::read_dir(dir.path().join("alcc"))
        .unwrap()
        .collect();
    assert!(remaining.is_empty(), "{remaining:?}");
}

/// In a mail, a log or an editor there is no terminal with a width.
#[test]
fn a_table_without_a_terminal_fits_80_columns_unless_more_are_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let running = Running::start(&mut alcc(dir.path()));
    let widest = |columns: Option<&str>| {
        let mut top = alcc(dir.path());
        top.args(["top", "--once", "--run", &running.id()]);
        top.env_remove("COLUMNS");
        top.envs(columns.map(|n| ("COLUMNS", n)));
        let table = text(&top.output().unwrap().stdout);
        assert!(table.contains(", because"), "{table}");
        let widths = table.lines().map(|line| line.chars().count());
        (widths.max().unwrap(), table.contains("GATES"))
    };
    for columns in [None, Some("80"), Some("none"), Some("0")] {
        let (wide, has_all) = widest(columns);
        assert!(wide <= 80 && !has_all, "{columns:?}: {wide}");
    }
    assert_eq!(widest(Some("133")), (133, true));
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
    // Whose server that is stands in the answer: without --run it would have been taken, too.
    let told = output(ours.path(), &["ctl", "on", "--run", &id]);
    let told = text(&told.stdout);
    assert!(
        told.starts_with(&format!("run {id} of nobody: * on: ")),
        "{told}"
    );
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

/// An installed program has no sources to build, so the hint depends on its folder.
#[test]
fn a_program_without_its_library_says_what_to_do_where_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let built = Path::new(env!("CARGO_BIN_EXE_alcc"));
    for (place, remedy) in [("bin", "install alcc again"), ("release", "'make build'")] {
        let folder = dir.path().join(place);
        std::fs::create_dir(&folder).unwrap();
        let program = folder.join("alcc");
        if std::fs::hard_link(built, &program).is_err() {
            std::fs::copy(built, &program).unwrap();
        }
        let run = Command::new(&program).args(["run", "true"]).output();
        let run = run.unwrap();
        let said = text(&run.stderr);
        assert_eq!(run.status.code(), Some(2), "{said}");
        assert!(said.contains(remedy), "{said}");
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

#[test]
fn the_start_says_who_shares() {
    let dir = tempfile::tempdir().unwrap();
    let said = |options: &[&str]| {
        let args = [&["run"], options, &["--", "true"]].concat();
        text(&output(dir.path(), &args).stderr)
    };
    let limit = "share one window, across all processes";
    assert!(said(&["--share", "host"]).contains(limit));
    assert!(!said(&[]).contains(limit));
}

fn http(address: &str, path: &str, headers: &str) -> (String, String) {
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\n{headers}\r\n");
    std::io::Write::write_all(&mut stream, request.as_bytes()).unwrap();
    let mut answer = String::new();
    std::io::Read::read_to_string(&mut stream, &mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

#[test]
fn a_browser_sees_what_top_prints() {
    let dir = tempfile::tempdir().unwrap();
    let running = Running::start(&mut alcc(dir.path()));
    let id = running.id();
    let printed = json(&output(
        dir.path(),
        &["top", "--once", "--json", "--run", &id],
    ));
    let top = alcc(dir.path())
        .args(["top", "--web", "127.0.0.1:0", "--interval", "100ms"])
        .args(["--run", &id])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut top = Killed(top);
    let mut line = String::new();
    let said = top.0.stderr.as_mut().unwrap();
    BufReader::new(said).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("alcc top: http://").unwrap();
    let (address, root) = address.trim_end_matches('/').split_once('/').unwrap();
    let at = |path: &str| format!("/{root}{path}");
    let (head, page) = http(address, &at("/"), "");
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</html>"));
    // It is whole: the only address is the name of the SVG language.
    let elsewhere = page.replace("http://www.w3.org/2000/svg", "");
    assert!(!elsewhere.contains("http://") && !elsewhere.contains("https://"));
    let deadline = Instant::now() + PATIENCE;
    let data = loop {
        let (_, data) = http(address, &at("/data"), "");
        let data: Value = serde_json::from_str(&data).unwrap();
        if data["runs"][0]["run"].is_number() {
            break data;
        }
        assert!(Instant::now() < deadline, "{data}");
    };
    let fields = |all: &Value| {
        let run = all["runs"][0].as_object().unwrap();
        run.keys().cloned().collect::<Vec<_>>()
    };
    assert_eq!(fields(&data), fields(&printed));
    assert_eq!(data["runs"][0]["command"], printed["runs"][0]["command"]);
    assert_eq!(data["runs"][0]["run"].to_string(), id);
    for (path, headers, status) in [
        (&*at("/nosuch"), "", "404"),
        (&at("/data"), "Host: evil.example\r\n", "403"),
        (&at("/data"), "Origin: http://evil.example\r\n", "403"),
        // Every user of the machine reaches the port.
        ("/data", "", "403"),
        ("/", "", "403"),
    ] {
        let (head, _) = http(address, path, headers);
        assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{head}");
    }
}

/// Killed with its test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// A proxy takes the file of `alcc run`: what it selects, and its sections.
#[test]
fn the_proxy_has_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let free = || {
        let probe = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        probe.local_addr().unwrap()
    };
    let (first, second) = (free(), free());
    let file = dir.path().join("alcc.toml");
    std::fs::write(
        &file,
        format!(
            "cc = \"reno\"\nloopback = true\n[[port]]\nport = {}\ncc = \"fixed:window=7\"\n",
            second.port()
        ),
    )
    .unwrap();
    let proxy = alcc(dir.path())
        .args(["proxy", "--quiet", "--config", file.to_str().unwrap()])
        .args(["--listen", &first.to_string()])
        .args(["--listen", &second.to_string()])
        .args(["--to", &server.local_addr().unwrap().to_string()])
        .spawn()
        .unwrap();
    let mut proxy = Killed(proxy);
    let deadline = Instant::now() + PATIENCE;
    let mut clients = Vec::new();
    for address in [first, second] {
        let client = loop {
            match std::net::TcpStream::connect(address) {
                Ok(client) => break client,
                Err(e) => assert!(Instant::now() < deadline, "{address}: {e}"),
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        clients.push((client, server.accept().unwrap()));
    }
    let run = proxy.0.id().to_string();
    // A new connection takes its orders with the first bytes.
    for (client, (server, _)) in &mut clients {
        std::io::Write::write_all(server, b"hello").unwrap();
        std::io::Read::read_exact(client, &mut [0; 5]).unwrap();
    }
    let shown = loop {
        let all = json(&output(
            dir.path(),
            &["top", "--once", "--json", "--run", &run],
        ));
        let all = all["connections"].as_array().unwrap().clone();
        if all.len() == 2 {
            break all;
        }
        assert!(Instant::now() < deadline, "{all:?}");
    };
    for (address, name) in [(first, "reno"), (second, "fixed:window=7")] {
        let of = |c: &&Value| c["local"] == address.to_string();
        let found = shown.iter().find(of).unwrap();
        assert_eq!(found["algorithm"], name, "{shown:#?}");
    }
    let pid = nix::unistd::Pid::from_raw(proxy.0.id().cast_signed());
    nix::sys::signal::kill(pid, nix::sys::signal::SIGTERM).unwrap();
    drop(clients);
    assert!(proxy.0.wait().unwrap().success());
}

/// Each has a memory of its own; a server does not need the one that watches it.
#[test]
fn two_trials_at_once_and_one_whose_alcc_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), vec![b'x'; 300_000]).unwrap();
    let start = || {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let server =
            format!("echo $$; exec python3 -m http.server {port} --bind 127.0.0.1 >/dev/null 2>&1");
        let mut alcc = alcc(dir.path());
        alcc.args([
            "trial",
            "--share",
            "50%",
            "--loopback",
            "--quiet",
            "--",
            "sh",
            "-c",
            &server,
        ])
        .current_dir(dir.path())
        .stdout(Stdio::piped());
        let mut alcc = alcc.spawn().unwrap();
        let mut line = String::new();
        let mut out = BufReader::new(alcc.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        let sleeper = line.trim().parse().unwrap();
        (Running { alcc, sleeper }, format!("127.0.0.1:{port}"))
    };
    let trials = [start(), start()];
    let served = |address: &str| {
        let deadline = Instant::now() + PATIENCE;
        while std::net::TcpStream::connect(address).is_err() {
            assert!(Instant::now() < deadline, "{address} does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        http(address, "/file", "").1.len()
    };
    let of = |run: &Running| {
        let args = ["top", "--once", "--json", "--run", &run.id()];
        json(&output(dir.path(), &args))["runs"][0]["connections"].clone()
    };
    for (_, address) in &trials {
        assert_eq!(served(address), 300_000);
    }
    let (first, second) = (&trials[0], &trials[1]);
    assert!(of(&first.0).as_u64() >= Some(1) && of(&second.0).as_u64() >= Some(1));
    let killed = nix::unistd::Pid::from_raw(first.0.alcc.id().cast_signed());
    nix::sys::signal::kill(killed, nix::sys::signal::SIGKILL).unwrap();
    for _ in 0..3 {
        for (_, address) in &trials {
            assert_eq!(served(address), 300_000);
        }
    }
}

/// In namespaces of its own, so that root sees no other runs, with /run and /tmp of its own.
fn alone(script: &str) -> Option<Output> {
    let unshare = |command: &mut Command| {
        let done = command.output();
        done.ok()
            .filter(|done| !text(&done.stderr).contains("unshare"))
    };
    let has_python = Command::new("python3").arg("--version").output().is_ok();
    let mut inside = Command::new("unshare");
    inside.args([
        "-m",
        "-p",
        "-f",
        "-n",
        "--kill-child",
        "--mount-proc",
        "sh",
        "-c",
    ]);
    inside.arg(
        "ip link set lo up; mount -t tmpfs none /run && mount -t tmpfs none /tmp && \
         chmod 1777 /tmp && exec timeout -s KILL 100 python3 -c \"$SCRIPT\"",
    );
    inside
        .env("SCRIPT", script)
        .env("ALCC", env!("CARGO_BIN_EXE_alcc"));
    inside.env_remove("XDG_RUNTIME_DIR");
    let root = nix::unistd::geteuid().is_root();
    let done = (root && has_python).then(|| unshare(&mut inside)).flatten();
    if done.is_none() {
        println!("skipped: needs root, namespaces and python3");
    }
    done
}

/// Common part of both scripts.
const TOOLS: &str = r#"
import ctypes, fcntl, mmap, os, shutil, signal, stat, subprocess, sys, tempfile, time
ALCC = os.environ["ALCC"]
def alcc(*args, **how):
    began = time.monotonic()
    done = subprocess.run([ALCC, *args], capture_output=True, text=True, timeout=60, **how)
    return done.returncode, done.stdout, done.stderr, time.monotonic() - began
def until(wanted):
    for _ in range(2000):
        if wanted():
            return
        time.sleep(0.01)
    raise SystemExit("never came")
def server(*args):
    process = subprocess.Popen([ALCC, *args], stderr=subprocess.PIPE, text=True, start_new_session=True)
    return process
"#;

/// Another user pretends to run alcc, with shared memory that is cut off, leased, locked, full of
/// nonsense, replaced by a FIFO or one of thousands. Root's commands take at most 0.5 s longer.
const PRETENDERS: &str = r#"
def pretend(kind):
    child = os.fork()
    if child:
        return child
    os.setgid(4242)
    os.setuid(4242)
    place = f"/tmp/{kind}/{os.getpid()}"
    os.makedirs(place)
    path = place + "/report"
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    def fill():
        os.ftruncate(file, 64 << 20)
        os.pwrite(file, magic, 0)
        os.pwrite(file, (5).to_bytes(8, "little"), 8)
        os.pwrite(file, "run\nnginx \u202eevil\x1b[2J".encode(), 128 * 8)
    fill()
    memory = mmap.mmap(file, 64 << 20)
    ctypes.CDLL(None).prctl(15, b"alcc-pretends", 0, 0, 0)
    if kind == "lease":
        signal.signal(signal.SIGIO, signal.SIG_IGN)
        while True:
            try:
                fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
            except OSError:
                pass
            time.sleep(0.01)
    if kind == "flock":
        fcntl.flock(file, fcntl.LOCK_EX)
    if kind == "fifo":
        os.unlink(path)
        os.mkfifo(path)
    if kind == "crowd":
        for n in range(3000):
            os.mkdir(f"/tmp/{kind}/{n}.0")
    while kind == "cut":
        os.ftruncate(file, 0)
        time.sleep(0.002)
        fill()
        time.sleep(0.002)
    while True:
        time.sleep(1)
run = server("run", "--quiet", "--", "sleep", "100")
until(lambda: os.path.exists(f"/run/alcc/{run.pid}/report"))
until(lambda: '"processes": 1' in alcc("top", "--once", "--json", "--run", str(run.pid))[1].replace(":1", ": 1"))
magic = open(f"/run/alcc/{run.pid}/report", "rb").read(8)
orders = [["ctl", "off"], ["ctl", "on"]]
looks = [["top", "--once"], ["log", "--duration", "50ms"], ["ctl", "off", "--run", str(run.pid)]]
def median(times):
    return sorted(times)[len(times) // 2]
def times():
    took = {" ".join(args): [] for args in orders + looks}
    for turn in range(8):
        for args in orders + looks:
            status, out, err, seconds = alcc(*args)
            assert status == 0, (args, status, out, err)
            if args in orders:
                assert out.startswith(f"run {run.pid}: * {args[1]}: ") and out.count("\n") == 1, (out, err)
            assert "\u202e" not in out + err and "\x1b" not in out + err, (args, out, err)
            took[" ".join(args)].append(seconds)
    return {args: median(all) for args, all in took.items()}
alone = times()
kinds = ["odd", "cut", "cut", "lease", "lease", "flock", "flock", "flock", "fifo", "crowd"]
pretenders = [pretend(kind) for kind in kinds]
until(lambda: all(open(f"/proc/{p}/comm").read().startswith("alcc") for p in pretenders))
until(lambda: os.path.exists("/tmp/crowd/2999.0"))
until(lambda: "evil" in alcc("top", "--once")[1])
beside = times()
# A median: two busy cores may hold one command up, a lease or a lock holds up each.
assert all(beside[args] < alone[args] + 0.5 for args in alone), (alone, beside)
print("held", alone, beside)
print("held")
"#;

#[test]
fn what_other_users_pretend_to_run_does_not_disturb_root() {
    if let Some(done) = alone(&format!("{TOOLS}{PRETENDERS}")) {
        let said = format!("{}{}", text(&done.stdout), text(&done.stderr));
        assert!(done.status.success() && said.contains("held"), "{said}");
        println!("{said}");
    }
}

/// At the name of its shared memory a process shows root another file: a device, or one of another
/// file system with the same inode number. The second command has no right to follow the kernel's own
/// link to the mapped file, as in a container; a lease makes that link refuse an open.
const SUBSTITUTES: &str = r#"
libc = ctypes.CDLL(None, use_errno=True)
def stand_in(kind):
    ready, told = os.pipe()
    child = os.fork()
    if child:
        os.read(ready, 1)
        return child
    path = f"/tmp/{kind}/{os.getpid()}/report"
    os.makedirs(os.path.dirname(path))
    shutil.copy(report, path)
    file = os.open(path, os.O_RDWR)
    memory = mmap.mmap(file, 0)
    if kind == "inode":
        os.mkdir("/tmp/other")
        subprocess.run(["mount", "-t", "tmpfs", "none", "/tmp/other"], check=True)
        instead = None
        while instead is None or os.stat(instead).st_ino < os.fstat(file).st_ino:
            instead = tempfile.mkstemp(dir="/tmp/other")[1]
        shutil.copy(report, instead)
        with open(instead, "r+b") as changed:
            changed.seek(128 * 8)
            changed.write(b"run\nfalse-name\0")
        assert os.stat(instead).st_ino == os.fstat(file).st_ino
    else:
        instead = f"/tmp/{kind}/device"
        os.mknod(instead, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    for each in [path, instead]:
        os.chown(each, 4242, 4242)
    opens = libc.inotify_init1(os.O_NONBLOCK)
    assert libc.inotify_add_watch(opens, instead.encode(), 0x20) >= 0
    assert libc.unshare(0x20000) == 0
    assert libc.mount(instead.encode(), path.encode(), None, 4096, None) == 0
    os.setgid(4242)
    os.setuid(4242)
    libc.prctl(4, 1)
    libc.prctl(15, b"alcc-stands-in", 0, 0, 0)
    signal.signal(signal.SIGIO, signal.SIG_IGN)
    os.write(told, b".")
    while True:
        try:
            if kind == "lease":
                fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        except OSError:
            pass
        try:
            os.read(opens, 4096)
            open(f"/tmp/{kind}/opened", "w").close()
        except BlockingIOError:
            time.sleep(0.01)
run = server("run", "--quiet", "--", "sleep", "100")
report = f"/run/alcc/{run.pid}/report"
until(lambda: os.path.exists(report))
os.umask(0)
for kind in ["lease", "device", "inode"]:
    os.mkdir(f"/tmp/{kind}")
    process = stand_in(kind)
    few = ["setpriv", "--bounding-set=-sys_admin,-checkpoint_restore"]
    for rights in [[], few]:
        for args in [["top", "--once"], ["top", "--once", "--run", str(process)]]:
            done = subprocess.run([*rights, ALCC, *args], capture_output=True, text=True, timeout=60)
            assert "false-name" not in done.stdout + done.stderr, (kind, rights, args, done)
        assert f"run {run.pid} " in alcc("top", "--once")[1]
    time.sleep(0.1)
    # A regular file may be opened, before it is known to be another one.
    assert kind == "inode" or not os.path.exists(f"/tmp/{kind}/opened"), kind
    os.kill(process, signal.SIGKILL)
print("held")
"#;

#[test]
fn what_stands_at_the_name_of_shared_memory_is_not_opened_for_it() {
    if let Some(done) = alone(&format!("{TOOLS}{SUBSTITUTES}")) {
        let said = format!("{}{}", text(&done.stdout), text(&done.stderr));
        assert!(done.status.success() && said.contains("held"), "{said}");
    }
}

/// Root's variable names a folder below another user's, who could rename its content, even if root owns
/// the last part.
const FOREIGN: &str = r#"
os.makedirs("/tmp/theirs/roots/alcc", 0o700)
os.chown("/tmp/theirs", 4242, 4242)
os.makedirs("/tmp/all", 0o700)
os.chown("/tmp/all", 4242, 4242)
os.symlink("/tmp/theirs/roots", "/tmp/link")
for place in ["/tmp/theirs/roots", "/tmp/all", "/tmp/link"]:
    os.environ["XDG_RUNTIME_DIR"] = place
    run = server("run", "--quiet", "--", "sleep", "100")
    until(lambda: os.path.exists(f"/run/alcc/{run.pid}/report"))
    until(lambda: '"processes": 1' in alcc("top", "--once", "--json", "--run", str(run.pid))[1].replace(":1", ": 1"))
    assert os.stat(f"/run/alcc/{run.pid}/report").st_mode & 0o77 == 0
    assert os.stat("/run/alcc").st_mode & 0o77 == 0
    status, out, err, took = alcc("ctl", "off")
    assert status == 0 and out.startswith(f"run {run.pid}: "), (place, status, out, err)
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
assert os.listdir("/tmp/theirs/roots/alcc") == [] and os.listdir("/tmp/all") == []
print("held")
"#;

#[test]
fn roots_runs_are_not_kept_below_another_users_folder() {
    if let Some(done) = alone(&format!("{TOOLS}{FOREIGN}")) {
        let said = format!("{}{}", text(&done.stdout), text(&done.stderr));
        assert!(done.status.success() && said.contains("held"), "{said}");
    }
}

/// Others have every name that the shared memory could have; nothing can be written; a link leads
/// elsewhere.
const NO_PLACE: &str = r#"
def taken():
    for place in ["/run/alcc", "/tmp/alcc-0"]:
        os.mkdir(place)
        os.chown(place, 4242, 4242)
def linked():
    os.mkdir("/tmp/elsewhere")
    for place in ["/run/alcc", "/tmp/alcc-0"]:
        os.symlink("/tmp/elsewhere", place)
def read_only():
    for place in ["/run", "/tmp"]:
        subprocess.run(["mount", "-o", "remount,ro", place], check=True)
def full():
    for place in ["/run", "/tmp"]:
        subprocess.run(["mount", "-o", "remount,size=16k", place], check=True)
        subprocess.run(f"head -c 1M /dev/zero >{place}/filler", shell=True, stderr=subprocess.DEVNULL)
def hung():
    # Nobody answers for this file system.
    answers.append(os.open("/dev/fuse", os.O_RDWR))
    options = f"fd={answers[0]},rootmode=40000,user_id=0,group_id=0".encode()
    assert ctypes.CDLL(None).mount(b"none", b"/tmp", b"fuse", 0, options) == 0
    os.environ["XDG_RUNTIME_DIR"] = "/tmp/runtime"
answers = []
def free():
    os.environ.pop("XDG_RUNTIME_DIR", None)
    while answers:
        os.close(answers.pop())
    for place in ["/run", "/tmp"]:
        subprocess.run(["umount", place], check=True)
        subprocess.run(["mount", "-t", "tmpfs", "none", place], check=True)
        os.chmod(place, 0o1777 if place == "/tmp" else 0o755)
for case in [taken, linked, read_only, full, hung]:
    case()
    os.environ["XDG_STATE_HOME"] = "/tmp/state" if case == hung else "/dev/shm/state"
    for args in [["run"], ["trial"]]:
        status, out, err, seconds = alcc(*args, "--", "sh", "-c", "echo started; exit 7")
        assert (status, out) == (7, "started\n"), (case, args, status, out, err)
        assert seconds < 3, (case, args, seconds)
        assert ("store the salt" in err) == (case == hung and args == ["trial"]), (case, args, err)
        warned = [line for line in err.splitlines() if "create the shared memory" in line]
        assert len(warned) == 1, (case, args, err)
    if case in [read_only, full, hung]:
        status, out, err, _ = alcc("run", "--log", "/tmp/log/here", "--", "sh", "-c", "echo started; exit 7")
        assert (status, out) == (7, "started\n"), (case, status, out, err)
        assert "continuing without" in err or case == full, err
    proxy = server("proxy", "--listen", "127.0.0.1:0", "--to", "127.0.0.1:1")
    lines = [proxy.stderr.readline(), proxy.stderr.readline()]
    assert "relaying" in lines[1], (case, lines)
    proxy.kill()
    # Root finds it all the same, and steers it.
    run = server("run", "--quiet", "--", "sleep", "100")
    until(lambda: alcc("ctl", "off")[0] == 0)
    shown = alcc("top", "--once")[1]
    assert f"run {run.pid} " in shown, (case, shown)
    os.killpg(run.pid, signal.SIGKILL)
    if case == linked:
        assert os.listdir("/tmp/elsewhere") == []
    free()
# With a place of its own it takes that one, and says nothing.
status, out, err, _ = alcc("run", "--", "sh", "-c", "ls /run/alcc")
assert status == 0 and out.strip().isdigit() and "shared memory" not in err, (out, err)
print("held")
"#;

#[test]
fn a_server_starts_wherever_the_shared_memory_cannot_be() {
    if let Some(done) = alone(&format!("{TOOLS}{NO_PLACE}")) {
        let said = format!("{}{}", text(&done.stdout), text(&done.stderr));
        assert!(done.status.success() && said.contains("held"), "{said}");
    }
}

/// If alcc cannot start its control for any reason, the server still starts as its child, and its status counts.
#[test]
fn or_plain_starts_the_server_whatever_alcc_lacks() {
    let dir = tempfile::tempdir().unwrap();
    let bad = dir.path().join("bad.toml");
    std::fs::write(&bad, "cc = \"nonsense\"\n").unwrap();
    let (bad, missing) = (bad.display().to_string(), "/nosuch/alcc.toml");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    // A server that goes into the background: alcc stays until it has ended.
    let server = ["--", "sh", "-c", "(sleep 0.2; echo served) & exit 7"];
    let start = |options: &[&str], preload: Option<&str>| {
        let mut command = alcc(dir.path());
        command.arg("run").args(options).args(server);
        preload.map(|library| command.env("ALCC_PRELOAD", library));
        command.output().unwrap()
    };
    for (options, preload, why, then) in [
        (
            &["--config", &bad][..],
            None,
            "bad.toml:1",
            "runs without control",
        ),
        (
            &["--config", missing],
            None,
            "read /nosuch/alcc.toml",
            "runs without control",
        ),
        (
            &[],
            Some("/nosuch/library.so"),
            "ALCC_PRELOAD",
            "runs without control",
        ),
        (
            &["--metrics", &taken],
            None,
            "in use",
            "there are no metrics",
        ),
    ] {
        let strict = start(&[&["--quiet"], options].concat(), preload);
        assert_eq!(strict.status.code(), Some(2), "{options:?}");
        assert_eq!(text(&strict.stdout), "", "{options:?}");
        let done = start(&[&["--quiet", "--or-plain"], options].concat(), preload);
        let said = text(&done.stderr);
        assert_eq!(done.status.code(), Some(7), "{options:?}: {said}");
        assert_eq!(text(&done.stdout), "served\n", "{options:?}");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.contains(why) && said.contains(then), "{said}");
    }
    // Nothing to warn of.
    let done = start(&["--quiet", "--or-plain"], None);
    assert_eq!(
        (done.status.code(), text(&done.stderr)),
        (Some(7), String::new())
    );
}

/// Another user who can write such a file controls what root runs.
#[test]
fn root_is_warned_of_a_file_that_others_may_write() {
    use std::os::unix::fs::PermissionsExt;
    if !nix::unistd::geteuid().is_root() {
        lacks("root");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "cc = \"budget\"\n").unwrap();
    for (option, works) in [("--config", true), ("--plugin", false)] {
        for (mode, is_warned) in [(0o644, false), (0o666, true)] {
            std::fs::set_permissions(&file, PermissionsExt::from_mode(mode)).unwrap();
            let out = output(
                dir.path(),
                &["run", option, file.to_str().unwrap(), "--", "true"],
            );
            let said = text(&out.stderr);
            assert_eq!(out.status.success(), works, "{option}: {said}");
            let warned = said.contains("as root: it may be written by other users");
            assert_eq!(warned, is_warned, "{option} {mode:o}: {said}");
        }
    }
}

/// Nothing of ours would be in the server, and status 0 would hide that.
#[test]
fn a_command_whose_program_another_process_starts_is_answered_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    for (name, parts) in [
        (
            "systemctl",
            [
                "the service manager starts the server",
                "alcc attach --port",
            ],
        ),
        (
            "service",
            [
                "the service manager starts the server",
                "alcc attach --port",
            ],
        ),
        (
            "docker",
            [
                "a daemon (of podman: conmon) starts the processes",
                "policy for the container's cgroup",
            ],
        ),
        (
            "podman",
            [
                "a daemon (of podman: conmon) starts the processes",
                "alcc attach --pid",
            ],
        ),
        (
            "machinectl",
            ["starts the processes of the container", "alcc attach --pid"],
        ),
        (
            "systemd-run",
            [
                "the service manager starts the program",
                "systemd-run alcc run -- CMD",
            ],
        ),
        ("at", ["atd starts the job", "put 'alcc run' into the job"]),
        ("sudo", ["it removes LD_PRELOAD", "sudo alcc run -- CMD"]),
    ] {
        let manager = dir.path().join(name);
        std::fs::copy("/bin/true", &manager).unwrap();
        let manager = manager.display().to_string();
        let direct = [&*manager, "start", "nginx"];
        let within = ["env", "LANG=C", &manager, "start", "nginx"];
        for (command, words) in [("run", &direct[..]), ("run", &within), ("trial", &direct)] {
            let done = output(dir.path(), &[&[command, "--"], words].concat());
            let said = text(&done.stderr);
            assert_eq!(done.status.code(), Some(2), "{said}");
            assert_eq!(said.lines().count(), 1, "{said}");
            for part in parts {
                assert!(said.contains(part), "{said}");
            }
        }
    }
}

/// A server with one connection, and its open files at the end.
const SENDER: &str = r#"
import os, socket, time
listener = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(listener.getsockname())
server = listener.accept()[0]
for _ in range(50):
    server.sendall(b"a secret of the server " * 100)
    client.recv(1 << 20)
    time.sleep(0.01)
links = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
kinds = [os.readlink(link).split("[")[0] for link in links if os.path.exists(link)]
print(sorted(kind for kind in kinds if not kind.endswith(".csv")))
"#;

#[test]
fn the_library_keeps_no_descriptor_and_no_payload() {
    let dir = tempfile::tempdir().unwrap();
    let server = ["python3", "-c", SENDER];
    let plain = Command::new(server[0]).args(&server[1..]).output();
    let Ok(plain) = plain else {
        lacks("python3");
        return;
    };
    let log = dir.path().join("log");
    let options = [
        "run",
        "--quiet",
        "--loopback",
        "--log",
        log.to_str().unwrap(),
        "--",
    ];
    let done = output(dir.path(), &[&options[..], &server].concat());
    let (ours, theirs) = (text(&done.stdout), text(&plain.stdout));
    assert!(ours.contains("socket"), "{}", text(&done.stderr));
    assert_eq!(ours, theirs);
    let files = std::fs::read_dir(log).unwrap().flatten();
    let written: Vec<u8> = files
        .flat_map(|file| std::fs::read(file.path()).unwrap())
        .collect();
    assert!(text(&written).contains("time_ms"), "{}", text(&written));
    assert!(!text(&written).contains("secret"));
}

/// The loader ignores LD_PRELOAD there, but a program may be linked with the library.
#[test]
fn a_set_user_id_program_with_the_library_does_not_follow_its_caller() {
    if !nix::unistd::geteuid().is_root() && lacks("root, to make a set-user-ID program") {
        return;
    }
    let built = Path::new(env!("CARGO_BIN_EXE_alcc"));
    // Unlike /tmp it is never mounted without set-user-ID programs.
    let dir = tempfile::tempdir_in(built.parent().unwrap()).unwrap();
    let mode = |path: &Path, mode| {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(path, mode).unwrap();
    };
    mode(dir.path(), 0o755);
    let [library, source, plain, raised] =
        ["libalcc_preload.so", "main.c", "plain", "raised"].map(|name| dir.path().join(name));
    std::fs::copy(built.with_file_name("libalcc_preload.so"), &library).unwrap();
    std::fs::write(&source, "int main(void) { return 0; }\n").unwrap();
    let mut cc = Command::new("cc");
    cc.arg("-o").arg(&plain).arg(&source);
    cc.arg("-Wl,--no-as-needed").arg(&library);
    if !cc.status().is_ok_and(|status| status.success()) {
        lacks("a C compiler (cc)");
        return;
    }
    std::fs::copy(&plain, &raised).unwrap();
    mode(&raised, 0o4755);
    let says = |program: &Path| {
        let mut caller = Command::new(program);
        let done = caller.uid(4242).gid(4242).env("ALCC_CC", "nonsense");
        let done = done.output().unwrap();
        assert!(done.status.success(), "{}", text(&done.stderr));
        text(&done.stderr)
    };
    assert!(says(&plain).contains("nonsense"));
    assert_eq!(says(&raised), "");
}

/// The name of a process, and the path of its program, are another user's words.
#[test]
fn names_on_standard_output_do_not_steer_the_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("s\x1b[2Jp");
    std::fs::copy("/bin/sleep", &program).unwrap();
    let mut sleeper = Command::new(&program).arg("100").spawn().unwrap();
    let pid = sleeper.id().to_string();
    let done = output(dir.path(), &["doctor", "--pid", &pid]);
    drop(sleeper.kill());
    drop(sleeper.wait());
    let (out, said) = (text(&done.stdout), text(&done.stderr));
    assert!(out.contains("s\\u001b[2Jp"), "{out}{said}");
    assert!(!(out + &said).contains('\x1b'));
}

#[test]
fn ports_are_given_with_commas_or_one_by_one() {
    let dir = tempfile::tempdir().unwrap();
    for option in ["--only", "--except"] {
        for ports in [&["80,443"][..], &["80", "443"]] {
            let ports = ports.iter().flat_map(|ports| [option, ports]);
            let options: Vec<_> = ["run", "--quiet"].into_iter().chain(ports).collect();
            let done = output(dir.path(), &[&options[..], &["--", "true"]].concat());
            assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
        }
        let done = output(dir.path(), &["run", option, "80,x", "--", "true"]);
        assert_eq!(done.status.code(), Some(2));
    }
}
