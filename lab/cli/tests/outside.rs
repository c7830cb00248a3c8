// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `alcc-lab emulate --internet` and `--control`: what is behind a link reaches a world, which here is
//! another namespace, and a test changes the link while it works.
#[path = "../../../alcc/cli/tests/support/lacks.rs"]
mod lacks;

use alcc_emu::{Namespace, Subnet, veth};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const ALCC: &str = env!("CARGO_BIN_EXE_alcc-lab");
const PATIENCE: Duration = Duration::from_secs(20);

/// Servers at addresses of the range for documentation, which no host has.
const WORLD: &str = r#"
import socket, struct, sys, threading
names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
names.bind(("192.0.2.53", 53))
web = socket.create_server(("192.0.2.10", 80))
def answer():
    while True:
        query, client = names.recvfrom(512)
        question = query[12:]
        end = question.index(b"\0") + 5
        is_a = question[end - 4:end - 2] == b"\0\1"
        head = query[:2] + struct.pack(">HHHHH", 0x8180, 1, int(is_a), 0, 0)
        found = b"\xc0\x0c\0\1\0\1\0\0\0\1\0\4" + socket.inet_aton("192.0.2.10")
        names.sendto(head + question[:end] + (found if is_a else b""), client)
threading.Thread(target=answer, daemon=True).start()
print("ready", flush=True)
while True:
    client, address = web.accept()
    client.sendall(address[0].encode())
    client.close()
"#;

/// A world, and this machine with a default route to it.
struct World {
    machine: Namespace,
    world: Child,
}

impl Drop for World {
    fn drop(&mut self) {
        drop(self.world.kill());
        drop(self.world.wait());
    }
}

fn run_in(place: &Namespace, line: &str) -> String {
    let mut shell = Command::new("sh");
    shell
        .args(["-ec", line])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let done = place.spawn(shell).unwrap().wait_with_output().unwrap();
    assert!(done.status.success(), "{line}: {done:?}");
    String::from_utf8(done.stdout).unwrap()
}

impl World {
    fn new() -> Self {
        let (outer, machine) = (Namespace::new().unwrap(), Namespace::new().unwrap());
        // Not a range that the link would take.
        let net = Subnet::new(63, 200).unwrap();
        veth(&outer, &machine, net).unwrap();
        run_in(
            &outer,
            "ip addr add 192.0.2.10/32 dev lo; ip addr add 192.0.2.53/32 dev lo",
        );
        run_in(
            &machine,
            &format!(
                "ip route add default via {} dev veth-in; echo 0 >/proc/sys/net/ipv4/ip_forward",
                net.outside()
            ),
        );
        let mut python = Command::new("python3");
        python.args(["-c", WORLD]).stdout(Stdio::piped());
        let mut world = outer.spawn(python).unwrap();
        let mut ready = [0; 5];
        std::io::Read::read_exact(world.stdout.as_mut().unwrap(), &mut ready).unwrap();
        Self { machine, world }
    }

    fn emulate(&self, arguments: &[&str], temporary: &Path) -> Child {
        let mut alcc = Command::new(ALCC);
        alcc.arg("emulate")
            .args(arguments)
            .env("TMPDIR", temporary)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        self.machine.spawn(alcc).unwrap()
    }

    fn tables(&self) -> String {
        run_in(&self.machine, "PATH=$PATH:/usr/sbin:/sbin nft list tables")
    }
}

fn said(done: &Output) -> String {
    String::from_utf8_lossy(&done.stderr).into_owned()
}

/// False, and said so, where this machine cannot.
fn possible() -> bool {
    if let Err(why) = alcc_emu::available() {
        lacks::lacks(&format!("namespaces: {why}"));
        return false;
    }
    if !nix::unistd::geteuid().is_root() {
        lacks::lacks("root");
        return false;
    }
    let places = ["/usr/sbin/nft", "/sbin/nft", "/usr/bin/nft"];
    if !places.iter().any(|place| Path::new(place).exists()) {
        lacks::lacks("nft (run scripts/setup test)");
        return false;
    }
    true
}

#[test]
fn behind_the_link_is_the_world_with_its_names() {
    if !possible() {
        return;
    }
    let world = World::new();
    const CLIENT: &str = "
import socket, time
begin = time.monotonic()
server = socket.create_connection(('server.test', 80), 10)
print(server.recv(100).decode(), time.monotonic() - begin)
";
    let options = ["--quiet", "--internet", "--dns", "192.0.2.53"];
    let link = ["--delay", "30ms", "--", "python3", "-c", CLIENT];
    let done = world.emulate(&[&options[..], &link].concat(), &std::env::temp_dir());
    let done = done.wait_with_output().unwrap();
    assert!(done.status.success(), "{}", said(&done));
    let text = String::from_utf8(done.stdout.clone()).unwrap();
    let (address, seconds) = text.trim().split_once(' ').unwrap();
    // The machine's own address towards the world.
    assert_eq!(address, "100.127.200.2");
    // Three round trips at least: the name, the connection, the answer is half of one.
    assert!(seconds.parse::<f64>().unwrap() > 0.12, "{text}");
    // Nothing stays.
    assert_eq!(world.tables(), "");
    let forwarding = "cat /proc/sys/net/ipv4/conf/veth-in/forwarding";
    assert_eq!(run_in(&world.machine, forwarding), "0\n");
}

/// True if a process has this folder for its temporary files.
fn lives(folder: &Path) -> bool {
    let folder = folder.as_os_str().as_encoded_bytes();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let mut environments = processes.flat_map(|at| std::fs::read(at.path().join("environ")));
    environments.any(|all| all.windows(folder.len()).any(|part| part == folder))
}

/// Whichever of its two processes is killed.
#[test]
fn the_way_out_ends_with_a_link_that_is_killed() {
    if !possible() {
        return;
    }
    let world = World::new();
    let names = tempfile::tempdir().unwrap();
    let forwarding = "cat /proc/sys/net/ipv4/conf/veth-in/forwarding";
    let script = "echo $PPID; exec sleep 60";
    let command = [
        "--internet",
        "--dns",
        "192.0.2.53",
        "--",
        "sh",
        "-c",
        script,
    ];
    for inner in [false, true] {
        let mut link = world.emulate(&command, names.path());
        let mut line = String::new();
        let mut out = BufReader::new(link.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        assert!(world.tables().contains("alcc_"));
        assert_eq!(run_in(&world.machine, forwarding), "1\n");
        let begin = Instant::now();
        let ended = || {
            let remaining = std::fs::read_dir(names.path()).unwrap().count();
            let is_open = run_in(&world.machine, forwarding) == "1\n";
            // More than one of its processes sets the machine back: a late one would hurt the next link.
            !is_open && remaining == 0 && !world.tables().contains("alcc_") && !lives(names.path())
        };
        if inner {
            let working = nix::unistd::Pid::from_raw(line.trim().parse().unwrap());
            nix::sys::signal::kill(working, nix::sys::signal::Signal::SIGKILL).unwrap();
        } else {
            link.kill().unwrap();
        }
        link.wait().unwrap();
        while !ended() {
            assert!(begin.elapsed() < PATIENCE, "inner: {inner}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn without_a_way_out_or_a_name_server_there_is_one_line() {
    if !possible() {
        return;
    }
    let lonely = Namespace::new().unwrap();
    let mut alcc = Command::new(ALCC);
    alcc.args(["emulate", "--internet", "--", "true"])
        .stderr(Stdio::piped());
    let done = lonely.spawn(alcc).unwrap().wait_with_output().unwrap();
    assert_eq!(done.status.code(), Some(2));
    assert_eq!(said(&done).lines().count(), 1);
    assert!(said(&done).contains("no default route"), "{}", said(&done));
}

/// A test behind the link, which changes it and measures.
const CONTROL: &str = r#"
import json, os, socket, time, urllib.error, urllib.request
url = os.environ["ALCC_CONTROL"]
def ask(path="/", body=None, headers={}):
    data = None if body is None else json.dumps(body).encode()
    method = "GET" if body is None else "PUT"
    request = urllib.request.Request(url + path, data, headers, method=method)
    try:
        return json.load(urllib.request.urlopen(request, timeout=10))
    except urllib.error.HTTPError as wrong:
        return wrong.code, wrong.read().decode()
server = (os.environ["ALCC_OUTSIDE"], int(os.environ["PORT"]))
def round_trip():
    begin = time.monotonic()
    socket.create_connection(server, 10).close()
    return time.monotonic() - begin
def megabit():
    begin = time.monotonic()
    stream = socket.create_connection(server, 10)
    stream.sendall(b"GET /file HTTP/1.0\r\n\r\n")
    size = 0
    while piece := stream.recv(1 << 16):
        size += len(piece)
    return size * 8 / (time.monotonic() - begin) / 1e6
try:
    urllib.request.urlopen(url.rsplit("/", 1)[0] + "/", timeout=10)
    assert False, "answered without the secret"
except urllib.error.HTTPError as wrong:
    assert wrong.code == 403, wrong
shown = ask()
assert shown["down"]["rate"] == "50mbit" and shown["up"]["rate"] == "unlimited", shown
until = time.monotonic() + 60
while True:
    try:
        round_trip()
        break
    except ConnectionRefusedError:
        assert time.monotonic() < until, "the server does not come up"
        time.sleep(0.02)
first = min(round_trip() for _ in range(20))
fast = 0
for _ in range(5):
    fast = max(fast, megabit())
    if fast > 9:
        break
shown = ask("/", {"delay": "60ms"})
assert shown["down"]["delay"] == shown["up"]["delay"] == "60ms", shown
slow = min(round_trip() for _ in range(10))
assert slow - first > 0.09, (first, slow)
ask("/", {"delay": "5ms"})
shown = ask("/down", {"rate": "4mbit", "queue": "codel"})
assert shown["down"]["rate"] == "4mbit" and shown["down"]["queue"].startswith("codel"), shown
narrow = megabit()
assert fast > 2 * narrow and 2 < narrow < 4.1, (fast, narrow)
before = ask()
for body, why in [({"rate": "0mbit"}, "above 0"), ({"speed": 1}, "unknown field"), ([], "JSON object")]:
    code, said = ask("/", body)
    assert code == 400 and why in said and said.count("\n") == 1, (code, said)
assert ask("/sideways", {"delay": "1ms"})[0] == 404
assert ask("/", {"delay": "1ms"}, {"Origin": "http://evil.example"})[0] == 403
assert ask() == before, "a mistake has changed the link"
ask("/down", {"loss": 1})
try:
    socket.create_connection(server, 0.5)
    raise AssertionError("nothing comes in")
except TimeoutError:
    pass
"#;

#[test]
fn a_test_behind_the_link_changes_it() {
    if let Err(why) = alcc_emu::available() {
        lacks::lacks(&format!("namespaces: {why}"));
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), vec![b'x'; 2_000_000]).unwrap();
    let free = std::net::TcpListener::bind(("0.0.0.0", 0)).unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let done = Command::new(ALCC)
        .args(["emulate", "--quiet", "--control", "127.0.0.1:0"])
        .args(["--delay", "5ms", "--down", "50mbit"])
        .args(["--outside", &format!("exec python3 -m http.server {port}")])
        .args(["--", "python3", "-c", CONTROL])
        .env("PORT", port.to_string())
        .current_dir(dir.path())
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", said(&done));
}
