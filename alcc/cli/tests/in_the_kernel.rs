// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `alcc run` where the algorithm itself can run in the kernel: its connections, and its end.
#[path = "support/c_programs.rs"]
mod c_programs;
#[path = "../../bpf/tests/support/mod.rs"]
mod controls;
#[path = "support/kernel.rs"]
mod kernel;
#[path = "support/lacks.rs"]
mod lacks;
#[path = "support/wait.rs"]
mod wait;

/// Support of the tests with links.
mod support {
    pub(crate) use crate::lacks::lacks;
}

use controls::controls_alone;
use kernel::{alcc, command, done, loaded};
use nix::sys::socket::{getsockopt, sockopt::TcpCongestion};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::time::Duration;
use wait::wait_for;

/// A server and its client. For each word on standard input it writes, and says which control the
/// server's socket has; what the client has received is checked at the end.
const PROGRAM: &str = r#"
import os, socket, sys, threading
TCP_CONGESTION = 13
def control(s):
    return s.getsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, 16).rstrip(b"\0").decode()
def pair():
    client = socket.create_connection(listener.getsockname())
    return listener.accept()[0], client
def pour():
    global sent
    while pouring:
        server.sendall(bytes(200000)); sent += 200000
def drain(client):
    while n := len(client.recv(1 << 16)):
        received.append(n)
listener = socket.create_server(("127.0.0.1", 0))
received = []
server, client = pair()
thread = threading.Thread(target=drain, args=[client]); thread.start()
sent = 0
for line in sys.stdin:
    word = line.strip()
    if word == "write":
        server.sendall(bytes(20000)); sent += 20000
        print(control(server), flush=True)
    elif word == "pour":
        pouring = True
        source = threading.Thread(target=pour); source.start()
        print(control(server), flush=True)
    elif word == "sent":
        print(control(server), sent, flush=True)
    elif word == "stop":
        pouring = False
        source.join()
        print(control(server), flush=True)
    elif word == "new":
        other, _ = pair()
        other.sendall(b"x")
        print(control(other), flush=True)
    elif word == "own":
        server.setsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, b"reno")
        print(control(server), flush=True)
    elif word == "fork":
        if os.fork() == 0:
            server.sendall(bytes(1000))
            os._exit(0)
        os.wait(); sent += 1000
        print(control(server), flush=True)
    elif word in ["exec", "exec-preloaded"]:
        plain = {k: v for k, v in os.environ.items() if word != "exec" or k != "LD_PRELOAD"}
        for kept in server, client:
            os.set_inheritable(kept.fileno(), True)
        say = "import socket, sys; s = socket.socket(fileno=int(sys.argv[1])); s.sendall(b'x'); print(s.getsockopt(6, 13, 16).rstrip(b'\\0').decode(), flush=True)"
        os.execve(sys.executable, [sys.executable, "-c", say, str(server.fileno())], plain)
server.close()
thread.join()
print("all" if sum(received) == sent else f"{sum(received)} of {sent}", flush=True)
"#;

const NOBODY: u32 = 65_534;

struct Server {
    child: Child,
    words: ChildStdin,
    says: BufReader<ChildStdout>,
}

impl Server {
    fn start(options: &str) -> Self {
        Self::of(command(&format!("run --loopback{options} -- python3 -c")))
    }

    fn of(mut command: Command) -> Self {
        let mut child = command
            .arg(PROGRAM)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            words: child.stdin.take().unwrap(),
            says: BufReader::new(child.stdout.take().unwrap()),
            child,
        }
    }

    /// The control after this.
    fn does(&mut self, word: &str) -> String {
        let _ = writeln!(self.words, "{word}");
        let mut line = String::new();
        self.says.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    /// Its standard error, after everything has arrived.
    fn ends(mut self) -> String {
        drop(self.words);
        let mut line = String::new();
        self.says.read_line(&mut line).unwrap();
        let Output { stderr, status, .. } = self.child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&stderr).into_owned();
        assert!(status.success() && line == "all\n", "{line}{said}");
        said
    }
}

/// The control of the first write, and what was said.
fn first(options: &str) -> (String, String) {
    let mut server = Server::start(options);
    let control = server.does("write");
    (control, server.ends())
}

fn control(socket: &TcpStream) -> String {
    let name = getsockopt(socket, TcpCongestion).unwrap();
    name.to_string_lossy().trim_end_matches('\0').to_owned()
}

fn system_default() -> String {
    let name = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").unwrap();
    name.trim().to_owned()
}

#[test]
fn auto_takes_it_where_nothing_else_is_asked_for() {
    let alone = controls_alone();
    let plain = system_default();
    let (control, said) = first("");
    assert_eq!(control, plain, "{said}");
    let refused = alcc("run --enforce kernel -- true");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("alcc bpf load") && said.lines().count() == 1);
    drop(alone);

    let Some(_alone) = loaded() else { return };
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().display();
    let [metrics, log, json] = ["--metrics", "--log", "--json-out"]
        .map(|option| format!("{option} {place}/{}", option.trim_matches('-')));
    let (control, said) = first("");
    assert_eq!(control, "alcc_budget", "{said}");
    assert!(
        said.contains("connections, loopback included, in the kernel; see"),
        "{said}"
    );
    assert!(
        said.contains("1 connection controlled by budget / kernel / kernel, 0.0 MB"),
        "{said}"
    );
    for (options, expected, why) in [
        ("--cc verus:r=4", "alcc_verus", ""),
        ("--cc copa:delta=0.5", "alcc_copa", ""),
        (
            "--cc verus:epoch=5ms",
            "alcc_window",
            "the kernel has no form of verus:epoch=5ms",
        ),
        (
            "--cc sprout",
            "alcc_window",
            "window in the kernel, because the kernel has no form",
        ),
        (
            &*metrics,
            "alcc_window",
            "does not report what --metrics needs",
        ),
        (&*log, "alcc_window", "does not report what --log needs"),
        (
            &*json,
            "alcc_window",
            "does not report what --json-out needs",
        ),
        ("--enforce bpf", "alcc_window", ""),
        ("--enforce gate+pacing", &plain, ""),
        ("--feedback tcp-info", &plain, ""),
        ("--under reno", "reno", ""),
    ] {
        let (control, said) = first(&format!(" {options}"));
        assert_eq!(control, expected, "{options}: {said}");
        assert!(
            said.contains(why) && (!why.is_empty() || !said.contains("because")),
            "{options}: {said}"
        );
    }
    // Nearly all clients are in the share; which, a secret decides.
    let options = "trial --loopback --share 99.9% --json-out /dev/null -- python3 -c";
    let mut trial = Server::of(command(options));
    let control = trial.does("write");
    let said = trial.ends();
    assert!(said.contains("does not report what trial needs"), "{said}");
    assert!(
        ["alcc_window", &plain].contains(&&*control),
        "{control}: {said}"
    );
    if let Some(plugin) = c_programs::plugin("slow", dir.path()) {
        let (control, said) = first(&format!(" --plugin {}", plugin.display()));
        assert_eq!(control, "alcc_window", "{said}");
        assert!(
            said.contains("does not report what --plugin needs"),
            "{said}"
        );
    }
    for (options, why) in [
        (
            "--enforce kernel --cc sprout",
            "the kernel has no form of sprout",
        ),
        ("--enforce kernel --under reno", "leave one of them out"),
        (
            "--enforce kernel --share host",
            "does not report what --share needs",
        ),
        (
            "--enforce kernel --feedback tcp-info",
            "cannot be combined with enforcement 'kernel'",
        ),
    ] {
        let refused = alcc(&format!("run {options} -- true"));
        let said = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{said}");
        assert!(said.contains(why) && said.lines().count() == 1, "{said}");
    }
}

/// Orders of `alcc ctl`; after each the control of a socket, and the enforcement.
fn orders(plain: &str) -> [(&str, &str, &str); 10] {
    [
        ("enforce gate+pacing", plain, "gate+pacing"),
        ("enforce bpf", "alcc_window", "bpf"),
        ("enforce kernel", "alcc_budget", "kernel"),
        ("cc verus:r=4", "alcc_verus", "kernel"),
        ("cc sprout", "alcc_window", "bpf"),
        ("enforce gate", plain, "gate"),
        ("cc copa", plain, "gate"),
        ("enforce auto", "alcc_copa", "kernel"),
        ("off", plain, ""),
        ("on", "alcc_copa", "kernel"),
    ]
}

/// Each order comes while the server writes, and while its data waits for the client.
#[test]
fn it_is_switched_while_it_sends() {
    let Some(_alone) = loaded() else { return };
    let plain = system_default();
    let mut server = Server::start(" --cc budget");
    let run = server.child.id();
    server.does("write");
    server.does("pour");
    let sent = |server: &mut Server| -> (String, u64) {
        let said = server.does("sent");
        let (control, bytes) = said.split_once(' ').unwrap();
        (control.to_owned(), bytes.parse().unwrap())
    };
    for turn in 0..2 {
        for (order, expected, _) in orders(&plain) {
            done(&format!("ctl {order} --run {run}"));
            wait_for(order, || sent(&mut server).0 == expected);
            let (_, before) = sent(&mut server);
            wait_for("more data", || sent(&mut server).1 > before);
            assert_eq!(sent(&mut server).0, expected, "{order}, turn {turn}");
        }
        done(&format!("ctl cc budget --run {run}"));
    }
    server.does("stop");
    println!("{} bytes", sent(&mut server).1);
    let said = server.ends();
    assert!(
        !said.contains("failed") && !said.contains("not controlled"),
        "{said}"
    );
}

#[test]
fn it_is_shown_switched_shared_and_unloaded() {
    let Some(_alone) = loaded() else { return };
    let plain = system_default();
    let mut server = Server::start(" --cc budget:delay=20ms");
    // Other tests have runs, too.
    let run = server.child.id();
    assert_eq!(server.does("write"), "alcc_budget");
    let top = || -> serde_json::Value {
        serde_json::from_str(&done(&format!("top --once --json --run {run}"))).unwrap()
    };
    let shown = || top()["connections"][0].clone();
    let of_run = top()["runs"][0].clone();
    assert_eq!(of_run["form"], "kernel / kernel");
    let because = "alcc_budget is loaded, and this user may select it";
    assert_eq!(of_run["because"], because);
    let seen = shown();
    assert_eq!(
        (&seen["algorithm"], &seen["enforcement"]),
        (&"alcc_budget:delay=20ms".into(), &"kernel".into()),
        "{seen}"
    );
    assert!(
        seen["bytes"].as_u64() >= Some(20_000) && seen["cwnd_segments"].as_u64() > Some(1),
        "{seen}"
    );
    assert!(!seen["run"].is_null(), "{seen}");
    for (order, expected, enforcement) in orders(&plain) {
        done(&format!("ctl {order} --run {run}"));
        for _ in 0..2 {
            assert_eq!(server.does("write"), expected, "{order}");
        }
        let seen = shown();
        assert!(
            enforcement.is_empty() || seen["enforcement"] == enforcement,
            "{order}: {seen}"
        );
    }
    // A choice of the program's own is what the socket gets back.
    assert_eq!(server.does("own"), "alcc_copa");
    done(&format!("ctl off --run {run}"));
    assert_eq!(server.does("write"), "reno");
    done(&format!("ctl on --run {run}"));
    assert_eq!(server.does("write"), "alcc_copa");
    assert_eq!(server.does("fork"), "alcc_copa");
    assert_eq!(server.does("write"), "alcc_copa");
    // What is open keeps it when it is unloaded; what is new goes without.
    assert_eq!(server.does("new"), "alcc_copa");
    done("bpf unload");
    assert_eq!(server.does("write"), "alcc_copa");
    assert_eq!(server.does("new"), plain);
    let said = server.ends();
    assert!(
        !said.contains("failed") && !said.contains("not controlled"),
        "{said}"
    );
}

/// A program of the tests that sends all the time, from its own end of a connection.
struct Sends(Child);

impl Sends {
    /// The state of its connection in `alcc top`.
    fn state(&self) -> String {
        let of_run = format!("top --once --json --run {}", self.0.id());
        let top = serde_json::from_slice(&alcc(&of_run).stdout);
        let top: serde_json::Value = top.unwrap_or_default();
        let state = top["connections"][0]["state"].as_str();
        state.unwrap_or("none").to_owned()
    }
}

impl Drop for Sends {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// In a view of the machine without other processes, because 'alcc off' ends what all tests have.
#[test]
fn off_ends_every_form_beside_the_others() {
    const INSIDE: &str = "ALCC_TEST_OFF";
    const ALONE: &str = "for place in /tmp/alcc-0 /run/alcc; do \
        [ ! -d $place ] || mount -t tmpfs tmpfs $place || exit; done; \
        exec \"$0\" --exact off_ends_every_form_beside_the_others --nocapture";
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: needs root");
        return;
    }
    if std::env::var_os(INSIDE).is_none() {
        let nowhere = tempfile::tempdir().unwrap();
        let inside = Command::new("unshare")
            .args(["--mount", "--pid", "--fork", "--mount-proc", "--kill-child"])
            .args(["sh", "-c", ALONE])
            .arg(std::env::current_exe().unwrap())
            .env(INSIDE, "yes")
            .env("XDG_RUNTIME_DIR", nowhere.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&inside.stdout);
        println!("{said}{}", String::from_utf8_lossy(&inside.stderr));
        assert!(inside.status.success() && said.contains("1 passed"));
        return;
    }
    let Some(_alone) = loaded() else { return };
    let plain = system_default();
    let dir = tempfile::tempdir().unwrap();
    let mut runs = ["", " --enforce bpf", " --enforce gate+pacing"].map(Server::start);
    // Of another user, in another folder.
    let mut run = command("run --loopback -- python3 -c");
    run.uid(NOBODY).gid(NOBODY).env("XDG_RUNTIME_DIR", "/tmp");
    let mut of_another = Server::of(run);
    assert_eq!(of_another.does("write"), "alcc_budget");
    let controls = ["alcc_budget", "alcc_window", &*plain];
    let write = |runs: &mut [Server; 3]| runs.each_mut().map(|run| run.does("write"));
    assert_eq!(write(&mut runs), controls);
    // What the policy and `attach` have chosen.
    let [by_rule, attached, source] = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let [rule, attach] = [&by_rule, &attached].map(|l| l.local_addr().unwrap().port());
    let file = dir.path().join("policy.toml");
    let text = format!("[[rule]]\nport = {rule}\ncc = \"copa\"\n");
    std::fs::write(&file, text).unwrap();
    done(&format!("policy apply {}", file.display()));
    done(&format!("attach --port {attach} --cc verus --future"));
    let pair = |listener: &TcpListener| {
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0)
    };
    let served = [pair(&by_rule), pair(&attached)];
    let are = |pairs: &[(TcpStream, TcpStream); 2]| pairs.each_ref().map(|(_, s)| control(s));
    assert_eq!(are(&served), ["alcc_copa", "alcc_verus"]);
    // A proxy, and a program with the C library.
    let to = source.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut from = source.accept().unwrap().0;
        while from.write_all(&[0; 16_384]).is_ok() {}
    });
    let free = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let proxy = command(&format!(
        "proxy --loopback --quiet --listen {free} --to {to}"
    ))
    .spawn();
    let mut sends = vec![Sends(proxy.unwrap())];
    let mut client = None;
    wait_for("the proxy", || {
        client = TcpStream::connect(free).ok();
        client.is_some()
    });
    std::thread::spawn(move || {
        let (mut client, mut bytes) = (client.unwrap(), [0; 16_384]);
        while client.read(&mut bytes).is_ok_and(|n| n > 0) {
            std::thread::sleep(Duration::from_millis(2));
        }
    });
    if let Some(program) = c_programs::with_the_library("own_socket", dir.path()) {
        let mut program = Command::new(program);
        program.env("XDG_RUNTIME_DIR", dir.path());
        let program = program.stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
        sends.push(Sends(program.unwrap()));
    }
    for program in &sends {
        wait_for("it sends", || program.state() == "sending");
    }
    // All runs of this user, and none of another.
    done("ctl off");
    assert_eq!(write(&mut runs), [&*plain; 3]);
    assert_eq!(of_another.does("write"), "alcc_budget");
    done("ctl on");
    assert_eq!(write(&mut runs), controls);
    let said = done("off");
    println!("{said}");
    assert_eq!(write(&mut runs), [&*plain; 3]);
    let new = [pair(&by_rule), pair(&attached)];
    assert_eq!([are(&served), are(&new)].as_flattened(), [&*plain; 4]);
    for program in &mut sends {
        let (id, ended) = (program.0.id(), program.0.try_wait().unwrap());
        let runs = String::from_utf8(alcc("top --once --json").stdout).unwrap();
        let what = format!("process {id} to be off ({ended:?}): {said}{runs}");
        wait_for(&what, || program.state() == "off");
    }
    assert_eq!(of_another.does("write"), plain);
    for run in &mut runs {
        assert_eq!(run.does("new"), plain);
    }
    assert!(done("policy show").starts_with("no policy is in force\n"));
    // Runs can be switched on again.
    done("ctl on");
    assert_eq!(write(&mut runs), controls);
    for program in &sends {
        done(&format!("ctl on --run {}", program.0.id()));
        wait_for("it is on", || program.state() == "sending");
    }
    drop(sends);
    for run in runs.into_iter().chain([of_another]) {
        run.ends();
    }
}

/// A program without the library knows nothing of the control, and cannot give it back.
#[test]
fn another_program_in_its_place_gets_what_the_socket_had() {
    let Some(_alone) = loaded() else { return };
    let plain = system_default();
    for (word, expected) in [("exec", &*plain), ("exec-preloaded", "alcc_budget")] {
        let mut server = Server::start("");
        assert_eq!(server.does("write"), "alcc_budget");
        assert_eq!(server.does(word), expected, "{word}");
        drop(server.words);
        wait_for("its end", || server.child.try_wait().unwrap().is_some());
    }
}

/// Which controls users may choose, as it was before when this goes.
struct Allowed(String);

impl Allowed {
    const FILE: &str = "/proc/sys/net/ipv4/tcp_allowed_congestion_control";

    fn only(names: &str) -> Self {
        let before = std::fs::read_to_string(Self::FILE).unwrap();
        std::fs::write(Self::FILE, names).unwrap();
        Self(before)
    }
}

impl Drop for Allowed {
    fn drop(&mut self) {
        let _ = std::fs::write(Self::FILE, self.0.trim());
    }
}

#[test]
fn users_have_it_where_the_administrator_allows_it() {
    let Some(_alone) = loaded() else { return };
    let unprivileged = |options: &str| {
        let mut run = command(&format!("run --loopback{options} -- python3 -c"));
        run.uid(NOBODY).gid(NOBODY).env("XDG_RUNTIME_DIR", "/tmp");
        let mut server = Server::of(run);
        let control = server.does("write");
        (control, server.ends())
    };
    let (control, said) = unprivileged(" --cc budget:delay=20ms");
    assert_eq!(control, "alcc_budget", "{said}");
    let refused = || {
        let (control, said) = unprivileged("");
        assert_eq!(control, system_default(), "{said}");
        assert!(
            said.contains(
                "by gate+pacing, because alcc_budget is loaded, but not for this user: root permits all users by 'alcc bpf load --users all'"
            ),
            "{said}"
        );
    };
    let said = done("bpf load --users root");
    assert!(said.contains("root alone may choose them"), "{said}");
    assert!(done("bpf status").contains("alcc_budget: loaded for root alone"));
    refused();
    // A control that comes later, as with a newer alcc. Before Linux 6.4 there is no link to end.
    if std::fs::remove_file("/run/alcc-bpf/alcc_vegas-link").is_ok() {
        let said = done("bpf load");
        assert!(said.contains("alcc_vegas loaded"), "{said}");
        assert!(done("bpf status").contains("alcc_vegas: loaded for root alone"));
    }
    done("bpf load --users all");
    let (control, said) = unprivileged("");
    assert_eq!(control, "alcc_budget", "{said}");
    let _only = Allowed::only("reno cubic");
    refused();
}
