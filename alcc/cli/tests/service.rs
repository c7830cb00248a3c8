// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Neither a server nor its parent process may notice `alcc run` in between: signals, exit and stop,
//! inherited state, socket activation. Each is compared with the same program without it.
#[path = "support/lacks.rs"]
mod lacks;
#[path = "support/root.rs"]
mod root;

use lacks::lacks;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::{BufRead, BufReader, Read};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

const ALCC: &str = env!("CARGO_BIN_EXE_alcc");
const PATIENCE: Duration = Duration::from_secs(20);

/// The witness, compiled once; `None` (and said) if this machine cannot.
fn witness() -> Option<&'static Path> {
    static WITNESS: OnceLock<Option<PathBuf>> = OnceLock::new();
    WITNESS
        .get_or_init(|| {
            let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/witness.c");
            let to = Path::new(env!("CARGO_TARGET_TMPDIR")).join("witness");
            let made = Command::new("cc")
                .args(["-O1", "-Wall", "-o"])
                .args([&to, &source])
                .status();
            match made {
                Ok(status) => assert!(status.success(), "cc {}", source.display()),
                Err(_) => {
                    lacks("cc");
                    return None;
                }
            }
            Some(to)
        })
        .as_deref()
}

/// Each check runs the program alone and under `alcc run`.
const BOTH: [bool; 2] = [false, true];

fn command(program: &Path, under: bool, args: &[&str]) -> Command {
    let mut command = Command::new(if under { Path::new(ALCC) } else { program });
    if under {
        command.args(["run", "--quiet", "--"]).arg(program);
    }
    command.args(args);
    command
}

/// A witness that said "ready" and its process id.
struct Ready {
    child: Child,
    out: BufReader<ChildStdout>,
    witness: i32,
}

impl Ready {
    fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let witness = line.trim().strip_prefix("ready ").expect("ready");
        let witness = witness.parse().unwrap();
        Self {
            child,
            out,
            witness,
        }
    }

    fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// The next line; empty if none comes.
    fn line(&mut self) -> String {
        let mut line = String::new();
        let wait = PollTimeout::try_from(PATIENCE).unwrap();
        let out = self.out.get_ref().as_fd();
        if self.out.buffer().is_empty()
            && poll(&mut [PollFd::new(out, PollFlags::POLLIN)], wait) != Ok(1)
        {
            return line;
        }
        self.out.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
}

impl Drop for Ready {
    fn drop(&mut self) {
        // SAFETY: numbers only; the process is ours, or its child.
        unsafe { libc::kill(self.witness, libc::SIGKILL) };
        drop(self.child.wait());
    }
}

/// Every number that can be sent and caught. 32 and 33 are the C library's own, SIGCHLD says that a
/// child has changed.
fn signals() -> impl Iterator<Item = i32> {
    let others = [libc::SIGKILL, libc::SIGSTOP, libc::SIGCHLD, 32, 33];
    (1..=libc::SIGRTMAX()).filter(move |signal| !others.contains(signal))
}

#[test]
fn every_signal_arrives() {
    let Some(program) = witness() else { return };
    assert!(signals().count() >= 59);
    for under in BOTH {
        let mut ready = Ready::start(command(program, under, &["signals"]));
        for signal in signals() {
            // SAFETY: numbers only; the process is our child.
            assert_eq!(unsafe { libc::kill(ready.pid(), signal) }, 0);
            assert_eq!(ready.line(), format!("{signal} 0"), "under: {under}");
        }
        // Queued ones keep their value.
        let value = libc::sigval {
            sival_ptr: 4711 as *mut libc::c_void,
        };
        let last = libc::SIGRTMAX();
        // SAFETY: as above.
        assert_eq!(unsafe { libc::sigqueue(ready.pid(), last, value) }, 0);
        assert_eq!(ready.line(), format!("{last} 4711"), "under: {under}");
    }
}

/// Without a handler it ends by the signal, and so says its exit status; real-time signals too.
#[test]
fn an_end_by_each_signal_is_passed_on() {
    let Some(program) = witness() else { return };
    let ends = signals().filter(|s| {
        ![
            libc::SIGCONT,
            libc::SIGURG,
            libc::SIGWINCH,
            libc::SIGTSTP,
            libc::SIGTTIN,
            libc::SIGTTOU,
        ]
        .contains(s)
    });
    for signal in ends {
        let mut command = command(program, true, &["end-by", &signal.to_string()]);
        // SAFETY: async-signal-safe calls: no core files; a caller like nohup ignores some signals.
        unsafe {
            command.pre_exec(move || {
                libc::signal(signal, libc::SIG_DFL);
                let none = libc::rlimit {
                    rlim_cur: 0,
                    rlim_max: 0,
                };
                libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
                Ok(())
            });
        }
        let status = command.status().unwrap();
        assert_eq!(status.code(), Some(128 + signal), "{status:?}");
    }
}

#[test]
fn it_starts_with_what_it_would_start_with_plainly() {
    let Some(program) = witness() else { return };
    for how in [
        "exec \"$@\"",
        "trap '' PIPE HUP USR1; exec \"$@\"",
        "exec \"$@\" <&-",
        "exec \"$@\" <&- >&-",
    ] {
        let said = BOTH.map(|under| {
            let plain = command(program, under, &["started"]);
            let out = Command::new("sh")
                .args(["-c", how, "sh"])
                .arg(plain.get_program())
                .args(plain.get_args())
                .output()
                .unwrap();
            assert!(out.status.success(), "{how}: {out:?}");
            String::from_utf8(out.stderr).unwrap()
        });
        assert!(said[0].contains("SigIgn"), "{how}: {}", said[0]);
        assert_eq!(said[0], said[1], "{how}");
    }
    // Blocked when we were started.
    let said = BOTH.map(|under| {
        let mut command = command(program, under, &["started"]);
        // SAFETY: async-signal-safe calls.
        unsafe {
            command.pre_exec(|| {
                let mut set: libc::sigset_t = std::mem::zeroed();
                libc::sigaddset(&raw mut set, libc::SIGUSR2);
                libc::sigaddset(&raw mut set, libc::SIGTERM);
                libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
                Ok(())
            });
        }
        String::from_utf8(command.output().unwrap().stderr).unwrap()
    });
    assert!(said[0].contains("SigBlk:4800"), "{}", said[0]);
    assert_eq!(said[0], said[1]);
}

/// Socket activation as systemd does it: descriptor 3 listens, the variables name the process that
/// was made.
#[test]
fn a_listening_descriptor_and_a_watchdog_reach_the_program() {
    let Some(program) = witness() else { return };
    let said = BOTH.map(|under| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let plain = command(program, under, &["activated"]);
        // The shell becomes the program, with the id that it has put into the variables.
        let script = "exec 3<&0 </dev/null; LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_PIDFDID=77 WATCHDOG_PID=$$ WATCHDOG_USEC=9000000 WITNESS=here exec \"$@\"";
        let mut command = Command::new("sh");
        command
            .args(["-c", script, "sh"])
            .arg(plain.get_program())
            .args(plain.get_args())
            .stdin(OwnedFd::from(listener))
            .stdout(Stdio::piped());
        let child = command.spawn().unwrap();
        drop(command);
        let mut greeting = String::new();
        TcpStream::connect(at)
            .unwrap()
            .read_to_string(&mut greeting)
            .unwrap();
        assert_eq!(greeting, "hello");
        let out = child.wait_with_output().unwrap();
        assert!(out.status.success());
        String::from_utf8(out.stdout).unwrap()
    });
    assert_eq!(said[0], "listen 1\nwatchdog 1\npidfd named\nother here\n");
    // The number of its pidfd is unknown before its start, and optional.
    assert_eq!(said[1], said[0].replace("pidfd named", "pidfd not named"));
    // Meant for another process: it does not change.
    let out = Command::new(ALCC)
        .args(["run", "--quiet", "--", "sh", "-c", "echo $LISTEN_PID"])
        .env("LISTEN_PID", "1")
        .output()
        .unwrap();
    assert_eq!(out.stdout, b"1\n");
    // And a program that cannot be started is said to be that.
    let out = Command::new("sh")
        .args([
            "-c",
            "LISTEN_PID=$$ exec \"$@\"",
            "sh",
            ALCC,
            "run",
            "--",
            "/nosuch",
        ])
        .output()
        .unwrap();
    assert_eq!(out.status.code(), Some(2));
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(said.contains("start /nosuch: not found"), "{said}");
}

/// Waits until a process's state in /proc is one of these.
fn becomes(pid: i32, states: &str) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let state = stat.rsplit_once(") ").unwrap().1.chars().next().unwrap();
        if states.contains(state) {
            return;
        }
        assert!(Instant::now() < deadline, "{pid} is {state}, not {states}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The status from `waitpid` for a child that stops or ends within 20 s.
fn stopped(ready: &Ready) -> Option<libc::c_int> {
    let began = Instant::now();
    let flags = libc::WUNTRACED | libc::WNOHANG;
    let mut status = 0;
    while began.elapsed() < Duration::from_secs(20) {
        // SAFETY: a valid out pointer; the process is our child.
        if unsafe { libc::waitpid(ready.pid(), &raw mut status, flags) } == ready.pid() {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    None
}

/// A shell that waits for its job sees that it has stopped, and continues it: as with the program
/// alone.
#[test]
fn a_program_that_stops_stops_us_and_both_go_on() {
    let Some(program) = witness() else { return };
    for signal in [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU] {
        for under in BOTH {
            let mut command = command(program, under, &["pause"]);
            // A group of its own, as a shell gives each job; we, in another one of the session, are
            // its shell. The parent of the whole suite may ignore these signals, and so would a
            // program that inherits that.
            command.process_group(0);
            // SAFETY: signal(2) may be called between fork and exec.
            unsafe {
                command.pre_exec(move || {
                    libc::signal(signal, libc::SIG_DFL);
                    Ok(())
                });
            }
            let ready = Ready::start(command);
            // SAFETY: numbers; the processes are our child and its child.
            unsafe { libc::kill(ready.pid(), signal) };
            let status = stopped(&ready).unwrap_or_else(|| {
                let of = |pid: i32| std::fs::read_to_string(format!("/proc/{pid}/status"));
                let ours = std::process::id().cast_signed();
                let all = [ready.pid(), ready.witness, ours].map(of);
                panic!("{signal}, under: {under}: {all:#?}");
            });
            assert!(libc::WIFSTOPPED(status), "{status:x}");
            assert_eq!(libc::WSTOPSIG(status), signal, "under: {under}");
            becomes(ready.witness, "T");
            // SAFETY: as above.
            unsafe { libc::kill(ready.pid(), libc::SIGCONT) };
            becomes(ready.witness, "S");
            becomes(ready.pid(), "S");
            // And ends as it should.
            // SAFETY: as above.
            unsafe { libc::kill(ready.pid(), libc::SIGTERM) };
            let mut ready = ready;
            let ended = ready.child.wait().unwrap();
            let code = ended
                .signal()
                .map_or_else(|| ended.code(), |s| Some(128 + s));
            assert_eq!(code, Some(128 + libc::SIGTERM), "under: {under}");
        }
    }
}

/// If only the program is stopped, it is also continued alone, while alcc keeps running.
#[test]
fn a_program_stopped_by_itself_does_not_stop_us() {
    let Some(program) = witness() else { return };
    let ready = Ready::start(command(program, true, &["pause"]));
    // SAFETY: numbers only; the process is our child's.
    unsafe { libc::kill(ready.witness, libc::SIGSTOP) };
    becomes(ready.witness, "T");
    std::thread::sleep(Duration::from_millis(200));
    becomes(ready.pid(), "S");
    // SAFETY: as above.
    unsafe { libc::kill(ready.witness, libc::SIGCONT) };
    becomes(ready.witness, "S");
}

/// The block of settings of a page that has this word.
fn block(page: &str, word: &str) -> String {
    let page = std::fs::read_to_string(root::root().join(page)).expect("the page");
    let blocks = page.split("```ini\n").skip(1);
    let mut blocks = blocks.map(|rest| rest.split("```").next().expect("its end"));
    let block = blocks.find(|block| block.contains(word)).expect(word);
    block
        .replace("/usr/sbin/", "/run/bin/")
        .replace("/etc/alcc.toml", "/run/alcc.toml")
}

/// The drop-ins of docs/operating.md for nginx (with the page's hardening) and HAProxy (with Debian's
/// unit) start, reload and stop under a real systemd, also with a mistake in the file and without
/// alcc.
#[test]
fn the_drop_ins_of_the_pages_work_under_systemd() {
    let unpacked = root::root().join("target/deps/root");
    let here = |path: &str| unpacked.join(path);
    let needed = [
        PathBuf::from("/lib/systemd/systemd"),
        here("usr/sbin/nginx"),
        here("usr/sbin/haproxy"),
    ];
    if let Some(missing) = needed.iter().find(|path| !path.exists()) {
        lacks(&missing.display().to_string());
        return;
    }
    if !nix::unistd::geteuid().is_root() {
        lacks("root");
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(&path, text).expect("a file");
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .expect("permissions");
    };
    let for_test = |unit: &str| {
        format!(
            "[Unit]\nDefaultDependencies=no\n[Service]\nStandardOutput=file:/run/{unit}.log\n\
             StandardError=file:/run/{unit}.log\nEnvironment=PATH=/run/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"
        )
    };
    write("units/alcc-test.target", "[Unit]\nDefaultDependencies=no\n");
    // As in Debian's nginx-common, which is not unpacked.
    write(
        "units/nginx.service",
        "[Service]\nType=forking\nPIDFile=/run/nginx.pid\nExecStart=/run/bin/nginx\n\
         ExecReload=/run/bin/nginx -s reload\nTimeoutStopSec=5\nKillMode=mixed\n",
    );
    let haproxy = std::fs::read_to_string(here("lib/systemd/system/haproxy.service"));
    let haproxy = (haproxy.expect("the unit"))
        .replace("/etc/haproxy/", "/run/")
        .replace("/usr/sbin/", "/run/bin/");
    // There is no /dev/log here.
    let haproxy = haproxy.replace("BindReadOnlyPaths=", "BindReadOnlyPaths=-");
    write("units/haproxy.service", &haproxy);
    let operating = "docs/operating.md";
    for (unit, name) in [
        ("nginx", "nginx.service.d"),
        ("haproxy", "haproxy.service.d"),
    ] {
        write(&format!("units/{name}/alcc.conf"), &block(operating, name));
        write(&format!("units/{name}/test.conf"), &for_test(unit));
    }
    let hardening = block(operating, "NoNewPrivileges");
    write("units/nginx.service.d/hardening.conf", &hardening);
    let libraries = here("usr/lib/x86_64-linux-gnu").display().to_string();
    for (name, options) in [("nginx", "-c /run/nginx.conf"), ("haproxy", "")] {
        let program = here("usr/sbin").join(name).display().to_string();
        let script = format!(
            "#!/bin/sh\nexport LD_LIBRARY_PATH={libraries}\nexec {program} {options} \"$@\"\n"
        );
        write(&format!("bin/{name}"), &script);
    }
    write("bin/alcc", &format!("#!/bin/sh\nexec {ALCC} \"$@\"\n"));
    write("conf/alcc.toml", "cc = \"budget\"\n");
    let folders = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let folders = folders.map(|name| format!("{name}_temp_path /var/lib/nginx/{name};\n"));
    write(
        "conf/nginx.conf",
        &format!(
            "pid /run/nginx.pid;\nuser root;\nerror_log /var/log/nginx/error.log;\nevents {{}}\n\
             http {{\naccess_log /var/log/nginx/access.log;\n{}\
             server {{ listen 8081; location / {{ return 200 hello; }} }}\n}}\n",
            folders.concat()
        ),
    );
    write(
        "conf/haproxy.cfg",
        "defaults\n mode http\n timeout connect 5s\n timeout client 5s\n timeout server 5s\n\
         frontend f\n bind :443\n http-request return status 200 content-type text/plain string hello\n",
    );
    let script = root::root().join("alcc/cli/tests/systemd/outside");
    let done = Command::new("bash").arg(script).arg(dir.path()).output();
    let done = done.expect("bash");
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    let error = String::from_utf8_lossy(&done.stderr).into_owned();
    if done.status.code() == Some(2) {
        lacks(&format!("a systemd in namespaces: {error}"));
        return;
    }
    let expected = [
        ("nginx", "alcc"),
        ("haproxy", "alcc"),
        ("mistake", "alcc"),
        ("removed", "nginx"),
        ("removed", "haproxy"),
    ];
    for (name, main) in expected {
        for line in [
            format!("{name} start: hello active success {main}"),
            format!("{name} reload: 0 hello active success {main}"),
            format!("{name} stop: 0 inactive success none"),
        ] {
            assert!(said.lines().any(|l| l == line), "{line}\n{said}\n{error}");
        }
    }
    for log in ["/run/nginx.log:", "/run/haproxy.log:"] {
        let mut lines = said.lines().filter(|line| line.starts_with(log));
        assert!(
            lines.any(|line| line.contains("2 connections controlled by budget")),
            "{log} {said}"
        );
    }
    assert!(
        said.contains("nonsense") && said.contains("runs without control"),
        "{said}"
    );
}
