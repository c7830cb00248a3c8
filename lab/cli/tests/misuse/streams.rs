// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every command with standard output and standard error closed, full, and with a reader that has
//! gone.
use super::built::{built, program};
use super::port::free_port;
use super::wait::{listens, wait_for};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Target of a standard stream.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Stream {
    /// Somewhere, and it is read.
    Good,
    Closed,
    /// As on a full disk.
    Full,
    /// A pipe whose reader has gone.
    Broken,
}
use Stream::{Broken, Closed, Full, Good};

/// Standard output and standard error.
const STREAMS: [[Stream; 2]; 9] = [
    [Good, Good],
    [Closed, Good],
    [Full, Good],
    [Broken, Good],
    [Good, Closed],
    [Good, Full],
    [Good, Broken],
    [Full, Full],
    [Broken, Broken],
];

/// Expected output of a command that succeeds, and whether standard output has its product.
struct Case {
    command: &'static str,
    arguments: &'static str,
    status: i32,
    prints: bool,
    with: With,
}

impl Case {
    /// It looks at a run.
    fn looks(&self) -> bool {
        let names = ["ctl", "top", "log"];
        names.iter().any(|name| self.command.starts_with(name))
    }
}

/// Requirements of a case.
#[derive(Clone, Copy, PartialEq)]
enum With {
    Nothing,
    Namespaces,
    /// The command does not end by itself.
    Signal,
    /// `alcc recv`, at the port PORT.
    Receiver,
    /// `alcc send`, to the port PORT.
    Sender,
}

const fn case(
    command: &'static str,
    arguments: &'static str,
    status: i32,
    prints: bool,
    with: With,
) -> Case {
    Case {
        command,
        arguments,
        status,
        prints,
        with,
    }
}

/// Every command. DIR is a folder, PORT a free port. An `alcc proxy` runs for those that ask for a
/// run.
const CASES: &[Case] = &[
    case("demo", "--trace nosuch", 2, false, With::Nothing),
    case("run", "-- sh -c 'exit 7'", 7, false, With::Nothing),
    case(
        "run",
        "--json=DIR/run.json -- sh -c 'exit 7'",
        7,
        false,
        With::Nothing,
    ),
    case(
        "run",
        "--json=/dev/full -- sh -c 'exit 7'",
        7,
        false,
        With::Nothing,
    ),
    case("run", "-- sh -c 'kill -9 $$'", 137, false, With::Nothing),
    case("trial", "-- sh -c 'exit 7'", 7, false, With::Nothing),
    case(
        "trial",
        "--html DIR/trial.html --json=/dev/full -- sh -c 'exit 7'",
        7,
        false,
        With::Nothing,
    ),
    case(
        "proxy",
        "--listen 127.0.0.1:0 --to 127.0.0.1:1",
        0,
        false,
        With::Signal,
    ),
    case(
        "proxy",
        "--listen 127.0.0.1:0 --to 127.0.0.1:1 --json=/dev/full",
        0,
        false,
        With::Signal,
    ),
    case("ctl on", "", 0, true, With::Nothing),
    case("ctl off", "--port 1", 0, true, With::Nothing),
    case("ctl reload", "DIR/alcc.toml", 2, false, With::Nothing),
    case("ctl cc", "--port 1 copa", 0, true, With::Nothing),
    case("ctl enforce", "--port 1 gate", 0, true, With::Nothing),
    case("top", "--once", 0, true, With::Nothing),
    case("top", "--once --json", 0, true, With::Nothing),
    case("log", "--duration 100ms", 0, true, With::Nothing),
    case("emulate", "-- sh -c 'exit 7'", 7, false, With::Namespaces),
    case(
        "emulate",
        "--down 12mbit --json=/dev/full -- sh -c 'exit 7'",
        7,
        false,
        With::Namespaces,
    ),
    case(
        "emulate",
        "--log DIR/packets -- sh -c 'kill -9 $$'",
        137,
        false,
        With::Namespaces,
    ),
    case("sim", "--duration 1s", 0, true, With::Nothing),
    case("sim", "--duration 1s --json", 0, true, With::Nothing),
    case(
        "sim",
        "--duration 1s --series /dev/stdout",
        0,
        true,
        With::Nothing,
    ),
    case("send", "--size 10k 127.0.0.1:PORT", 0, true, With::Receiver),
    case(
        "send",
        "--size 10k --json 127.0.0.1:PORT",
        0,
        true,
        With::Receiver,
    ),
    case(
        "recv",
        "--once --bind 127.0.0.1 --port PORT",
        0,
        true,
        With::Sender,
    ),
    case(
        "recv",
        "--once --bind 127.0.0.1 --port PORT --json",
        0,
        true,
        With::Sender,
    ),
    case("trace stats", "rapid --predict", 0, true, With::Nothing),
    case("trace convert", "rapid --to rates", 0, true, With::Nothing),
    case(
        "trace combine",
        "rapid lte --rate 5mbit",
        0,
        true,
        With::Nothing,
    ),
    case("trace synth", "", 0, true, With::Nothing),
    case("trace synth", "rapid", 0, true, With::Nothing),
    case("trace calibrate", "--traces DIR", 2, false, With::Nothing),
    case(
        "mdi train",
        "--link 12mbit --seeds 1 --duration 2s --least 1",
        0,
        true,
        With::Nothing,
    ),
    case(
        "mdi validate",
        "--link 12mbit --seeds 1 --duration 2s --within 1000,1000",
        0,
        true,
        With::Nothing,
    ),
    case(
        "trace plot",
        "rapid --output DIR/plot.html",
        0,
        false,
        With::Nothing,
    ),
    case(
        "trace plot",
        "rapid --output /dev/full",
        1,
        false,
        With::Nothing,
    ),
    case(
        "trace record",
        "127.0.0.1:1 --patience 200ms",
        1,
        false,
        With::Nothing,
    ),
    case(
        "compare",
        "--sim --traces 12mbit --schemes cubic --duration 1s --out DIR/board",
        0,
        true,
        With::Nothing,
    ),
    case(
        "compare",
        "--sim --traces 12mbit --schemes cubic --duration 1s --out DIR/board --json",
        0,
        true,
        With::Nothing,
    ),
    case(
        "compare",
        "--sim --traces 12mbit --schemes cubic --duration 1s --out DIR/board --csv /dev/full",
        1,
        false,
        With::Nothing,
    ),
    case(
        "bundle",
        "DIR/study.toml --out DIR/x.tar",
        2,
        false,
        With::Nothing,
    ),
    case(
        "reproduce",
        "alcc-fig2 --out DIR/site",
        0,
        true,
        With::Nothing,
    ),
    case(
        "sweep",
        "--link 1mbit --duration 1s --vary flow=cubic,reno --runs 1 --out DIR/swept",
        0,
        true,
        With::Nothing,
    ),
    case("worst", "2 --out DIR/searched", 0, true, With::Nothing),
    case("list", "", 0, true, With::Nothing),
    case("list", "--json", 0, true, With::Nothing),
    case("doctor", "", 0, true, With::Nothing),
    case("doctor", "--json -- sh", 0, true, With::Nothing),
    // What these do depends on the machine, and changes it for the other tests.
    case("attach", "--port 0 --cc copa", 2, false, With::Nothing),
    case("detach", "--port 0", 2, false, With::Nothing),
    case("off", "--no-such-option", 2, false, With::Nothing),
    case("policy apply", "--no-such-option", 2, false, With::Nothing),
    case("policy check", "/dev/null", 2, false, With::Nothing),
    case(
        "policy rollback",
        "--no-such-option",
        2,
        false,
        With::Nothing,
    ),
    case("policy show", "--no-such-option", 2, false, With::Nothing),
    case("bpf load", "--no-such-option", 2, false, With::Nothing),
    case("bpf status", "--no-such-option", 2, false, With::Nothing),
    case("bpf unload", "--no-such-option", 2, false, With::Nothing),
    case("generate", "--out DIR/pages", 0, false, With::Nothing),
    case("", "--help", 0, true, With::Nothing),
    case("", "--version", 0, true, With::Nothing),
    case("", "", 2, false, With::Nothing),
    case("", "--no-such-option", 2, false, With::Nothing),
    case("run", "-- /nosuch/program", 2, false, With::Nothing),
];

/// As clap knows them: there is a manual page of each.
pub(super) fn commands(dir: &Path) -> BTreeSet<String> {
    let made = Command::new(built("alcc-lab"))
        .args(["generate", "--out"])
        .arg(dir)
        .output()
        .unwrap();
    assert!(made.status.success());
    let pages: BTreeSet<String> = fs::read_dir(dir)
        .unwrap()
        .filter_map(|entry| {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let page = name.strip_suffix(".1")?;
            let of_lab = page.strip_prefix("alcc-lab");
            let command = of_lab.or_else(|| page.strip_prefix("alcc"))?;
            Some(command.strip_prefix('-')?.replace('-', " "))
        })
        .collect();
    // Those that only lead to others.
    let leads = |page: &String| {
        pages
            .iter()
            .any(|other| other.starts_with(&format!("{page} ")))
    };
    pages.iter().filter(|page| !leads(page)).cloned().collect()
}

/// A command whose standard streams lead there.
fn with_streams(arguments: &[String], [out, err]: [Stream; 2]) -> Command {
    let mut command = Command::new(program(arguments.first().map_or("", String::as_str)));
    command.args(arguments).stdin(Stdio::null());
    let lead = |stream| match stream {
        Good | Closed => Stdio::piped(),
        Full => File::options()
            .write(true)
            .open("/dev/full")
            .unwrap()
            .into(),
        Broken => std::io::pipe().unwrap().1.into(),
    };
    command.stdout(lead(out)).stderr(lead(err));
    // SAFETY: close is allowed between fork and exec.
    unsafe {
        command.pre_exec(move || {
            for (stream, fd) in [(out, 1), (err, 2)] {
                if stream == Closed {
                    nix::libc::close(fd);
                }
            }
            Ok(())
        });
    }
    command
}

/// Words as a shell would split them, with what stands for a place.
fn words(case: &Case, dir: &Path, port: u16, run: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (n, part) in format!("{} {}", case.command, case.arguments)
        .split('\'')
        .enumerate()
    {
        if n % 2 == 1 {
            words.push(part.to_owned());
        } else {
            words.extend(part.split_whitespace().map(str::to_owned));
        }
    }
    let dir = dir.display().to_string();
    if case.looks() {
        words.splice(1..1, ["--run".to_owned(), run.to_owned()]);
    }
    words
        .iter()
        .map(|word| word.replace("DIR", &dir).replace("PORT", &port.to_string()))
        .collect()
}

/// It blocks SIGTERM, because it waits for it.
fn awaits_sigterm(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:"));
    let blocked = u64::from_str_radix(blocked.unwrap_or("0").trim(), 16).unwrap();
    blocked & (1 << (Signal::SIGTERM as i32 - 1)) != 0
}

fn terminate(child: &Child) {
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM).unwrap();
}

/// Runs one command; what is wrong with how it ended.
fn check(case: &Case, streams: [Stream; 2], runtime: &Path, run: &str) -> Option<String> {
    let dir = tempfile::tempdir().unwrap();
    let port = free_port();
    let arguments = words(case, dir.path(), port, run);
    let plain = |arguments: &[&str]| {
        Command::new(built("alcc"))
            .args(arguments)
            .args(["--port", &port.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    };
    let mut other = None;
    if case.with == With::Receiver {
        other = Some(plain(&["recv", "--bind", "127.0.0.1"]));
        wait_for("alcc recv", || listens(std::process::id(), port));
    }
    let mut command = with_streams(&arguments, streams);
    command.env("XDG_RUNTIME_DIR", runtime);
    command.env("XDG_STATE_HOME", runtime);
    let child = command.spawn().unwrap();
    // Ours lead nowhere any more.
    drop(command);
    match case.with {
        With::Signal => {
            wait_for("SIGTERM's block", || awaits_sigterm(child.id()));
            // It has begun when it can be found.
            std::thread::sleep(Duration::from_millis(100));
            terminate(&child);
        }
        With::Sender => {
            wait_for("alcc recv", || listens(std::process::id(), port));
            other = Some(plain(&["send", "--size", "10k", "127.0.0.1"]));
        }
        _ => {}
    }
    let output = child.wait_with_output().unwrap();
    if let Some(mut other) = other {
        if case.with == With::Receiver {
            terminate(&other);
        }
        other.wait().unwrap();
    }
    let expected = match streams[0] {
        Full if case.prints => 1,
        _ => case.status,
    };
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let fault = said.contains("panicked") || said.contains("internal error");
    let silent = streams == [Full, Good] && case.prints && !said.contains("no space is left");
    (output.status.code() != Some(expected) || fault || silent).then(|| {
        format!(
            "alcc {} {}, {streams:?}: {}, not {expected}; it said: {said}",
            case.command, case.arguments, output.status
        )
    })
}

#[test]
fn no_command_minds_what_its_streams_lead_to() {
    let dir = tempfile::tempdir().unwrap();
    let known: BTreeSet<String> = CASES.iter().map(|c| c.command.to_owned()).collect();
    let forgotten: Vec<_> = commands(&dir.path().join("pages")).into_iter().collect();
    let forgotten: Vec<_> = forgotten.iter().filter(|c| !known.contains(*c)).collect();
    assert!(
        forgotten.is_empty(),
        "commands without a case: {forgotten:?}"
    );

    let runtime = dir.path().join("runtime");
    fs::create_dir(&runtime).unwrap();
    let mut proxy = Command::new(built("alcc"))
        .args([
            "proxy",
            "--quiet",
            "--listen",
            "127.0.0.1:0",
            "--to",
            "127.0.0.1:1",
        ])
        .env("XDG_RUNTIME_DIR", &runtime)
        .spawn()
        .unwrap();
    wait_for("the proxy", || {
        runtime.join("alcc").join(proxy.id().to_string()).exists()
    });

    let run = proxy.id().to_string();
    let namespaces = alcc_emu::available();
    if let Err(why) = &namespaces {
        println!("skipped: emulate: needs namespaces ({why})");
    }
    let cases = CASES
        .iter()
        .filter(|case| case.with != With::Namespaces || namespaces.is_ok());
    // Of those that look for a run, each sees but this one.
    let elsewhere = dir.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let all: Vec<_> = cases
        .flat_map(|case| STREAMS.map(|streams| (case, streams)))
        .collect();
    let next = std::sync::atomic::AtomicUsize::new(0);
    let wrong = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while let Some((case, streams)) =
                    all.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
                {
                    let runtime = if case.looks() { &runtime } else { &elsewhere };
                    wrong
                        .lock()
                        .unwrap()
                        .extend(check(case, *streams, runtime, &run));
                }
            });
        }
    });
    terminate(&proxy);
    proxy.wait().unwrap();
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{}\n{}", wrong.len(), wrong.join("\n"));
}

/// A host program starts as without us: what it gets from its caller it gets through us.
#[test]
fn a_caller_that_ignores_sigchld_gets_the_status() {
    for command in ["run", "emulate"] {
        if command == "emulate" && alcc_emu::available().is_err() {
            println!("skipped: emulate: needs namespaces");
            continue;
        }
        let run = |arguments: &[&str]| {
            let mut asked = Command::new(program(command));
            asked.args([command, "--quiet", "--"]).args(arguments);
            // SAFETY: signal is allowed between fork and exec.
            unsafe {
                asked.pre_exec(|| {
                    nix::libc::signal(nix::libc::SIGCHLD, nix::libc::SIG_IGN);
                    nix::libc::signal(nix::libc::SIGPIPE, nix::libc::SIG_IGN);
                    Ok(())
                });
            }
            let mut child = asked.stdout(Stdio::piped()).spawn().unwrap();
            wait_for("the end", || child.try_wait().unwrap().is_some());
            child.wait_with_output().unwrap()
        };
        assert_eq!(
            run(&["sh", "-c", "exit 7"]).status.code(),
            Some(7),
            "{command}"
        );
        let text = String::from_utf8(run(&["grep", "SigIgn", "/proc/self/status"]).stdout).unwrap();
        let ignored = text.split_whitespace().nth(1).unwrap();
        let ignored = u64::from_str_radix(ignored, 16).unwrap();
        for signal in [Signal::SIGCHLD, Signal::SIGPIPE] {
            assert!(
                ignored & (1 << (signal as i32 - 1)) != 0,
                "{command}: {signal}"
            );
        }
    }
}
