// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `alcc-lab emulate` as people call it. Needs namespaces: says "skipped" where they are not permitted.
use alcc_link::log::Line;
use nix::libc;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

const ALCC: &str = env!("CARGO_BIN_EXE_alcc-lab");

macro_rules! needs_namespaces {
    () => {
        if let Err(why) = alcc_emu::available() {
            // Not by eprintln: the runner would swallow it.
            let _ = writeln!(std::io::stderr(), "skipped: {why}");
            return;
        }
    };
}

fn emulate(args: &[&str]) -> Output {
    Command::new(ALCC)
        .arg("emulate")
        .args(args)
        .output()
        .expect("alcc starts")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The program inside is this test's own executable, asked to run the test `inside` with this
/// instruction.
fn me(instruction: &str) -> [String; 5] {
    let exe = std::env::current_exe().unwrap();
    [
        "env".to_owned(),
        format!("EMULATE_TEST={instruction}"),
        exe.display().to_string(),
        "--exact".to_owned(),
        "inside".to_owned(),
    ]
}

/// Not a test by itself: the program that runs behind the link.
#[test]
fn inside() {
    let Ok(instruction) = std::env::var("EMULATE_TEST") else {
        return;
    };
    let outside: Ipv4Addr = std::env::var("ALCC_OUTSIDE").unwrap().parse().unwrap();
    let mut words = instruction.split(' ');
    let (what, port) = (words.next().unwrap(), words.next().unwrap());
    let server = (outside, port.parse::<u16>().unwrap());
    match what {
        "echo" => {
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
            socket
                .set_read_timeout(Some(Duration::from_secs(20)))
                .unwrap();
            let round_trip = || {
                let start = Instant::now();
                socket.send_to(b"?", server).unwrap();
                socket.recv_from(&mut [0; 8]).unwrap();
                start.elapsed()
            };
            // Whatever a busy machine does makes a round trip longer: until one is short enough.
            let enough = Duration::from_millis(words.next().unwrap().parse().unwrap());
            let mut best = round_trip();
            for _ in 0..200 {
                if best < enough {
                    break;
                }
                best = best.min(round_trip());
            }
            std::fs::write(
                std::env::var("EMULATE_OUT").unwrap(),
                best.as_micros().to_string(),
            )
            .unwrap();
        }
        "download" => {
            let mut all = Vec::new();
            TcpStream::connect(server)
                .unwrap()
                .read_to_end(&mut all)
                .unwrap();
            std::fs::write(std::env::var("EMULATE_OUT").unwrap(), all).unwrap();
        }
        other => panic!("{other}"),
    }
}

/// Round trip in ms as a program behind these links sees it to a server in this test's namespace: the
/// best of many, or the first below `enough` ms.
fn round_trip(links: &[&[&str]], enough: u32, out: &std::path::Path) -> f64 {
    let server = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    let port = server.local_addr().unwrap().port();
    server
        .set_read_timeout(Some(Duration::from_millis(100)))
        .unwrap();
    let mut command: Vec<String> = Vec::new();
    for link in links {
        command.extend([ALCC, "emulate", "--quiet"].map(str::to_owned));
        command.extend(link.iter().map(|&a| a.to_owned()));
        command.push("--".to_owned());
    }
    command.extend(me(&format!("echo {port} {enough}")));
    let mut child = Command::new(&command[0])
        .args(&command[1..])
        .env("EMULATE_OUT", out)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let status = loop {
        if let Ok((len, from)) = server.recv_from(&mut [0; 8]) {
            server.send_to(&[0; 8][..len], from).unwrap();
        }
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
    };
    assert!(status.success(), "{status}");
    let text = std::fs::read_to_string(out).unwrap();
    text.parse::<f64>().unwrap() / 1000.0
}

/// The outer end is our own namespace only with privileges.
macro_rules! needs_root {
    () => {
        needs_namespaces!();
        if !nix::unistd::geteuid().is_root() {
            let why = "needs root: the servers of this test are outside the link";
            let _ = writeln!(std::io::stderr(), "skipped: {why}");
            return;
        }
    };
}

#[test]
fn six_nested_links_add_up() {
    needs_root!();
    let dir = tempfile::tempdir().unwrap();
    let link: &[&str] = &["--delay", "10ms"];
    let ms = round_trip(&[link; 6], 139, &dir.path().join("out"));
    // Six round trips of 20 ms; relays on a busy machine may each add some.
    assert!((120.0..139.0).contains(&ms), "{ms} ms");
}

#[test]
fn a_delay_that_changes_is_felt() {
    needs_root!();
    let dir = tempfile::tempdir().unwrap();
    let link: &[&str] = &["--delay", "10ms", "--step", "1ms:delay=30ms"];
    let ms = round_trip(&[link], 75, &dir.path().join("out"));
    assert!((60.0..75.0).contains(&ms), "{ms} ms");
}

#[test]
fn links_beside_each_other_inside_a_shared_one() {
    needs_root!();
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (dir.path().join("a"), dir.path().join("b"));
    let server = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    let port = server.local_addr().unwrap().port();
    server
        .set_read_timeout(Some(Duration::from_millis(100)))
        .unwrap();
    let client = |delay: &str, enough: u32, out: &std::path::Path| {
        let own = me(&format!("echo {port} {enough}")).map(|w| format!("'{w}'"));
        let own = own.join(" ");
        format!(
            "EMULATE_OUT={} {ALCC} emulate --quiet --delay {delay} -- {own} & p=\"$p $!\"",
            out.display()
        )
    };
    let script = format!(
        "{}\n{}\nfor x in $p; do wait $x || exit 1; done",
        client("10ms", 38, &a),
        client("30ms", 78, &b)
    );
    let mut child = Command::new(ALCC)
        .args([
            "emulate", "--quiet", "--delay", "5ms", "--", "sh", "-c", &script,
        ])
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    while child.try_wait().unwrap().is_none() {
        if let Ok((len, from)) = server.recv_from(&mut [0; 8]) {
            server.send_to(&[0; 8][..len], from).unwrap();
        }
    }
    assert!(child.wait().unwrap().success());
    let ms = |path| {
        std::fs::read_to_string(path)
            .unwrap()
            .parse::<f64>()
            .unwrap()
            / 1000.0
    };
    let (a, b) = (ms(&a), ms(&b));
    assert!(
        (30.0..38.0).contains(&a) && (70.0..78.0).contains(&b),
        "{a} {b}"
    );
}

#[test]
fn a_download_arrives_whole_at_the_links_rate_and_the_reports_agree() {
    needs_root!();
    download("tun");
}

/// The way without /dev/net/tun: with offloads left on, checksums would be wrong or packets too
/// long, and nothing arrive.
#[test]
fn the_same_over_veth_and_packet_sockets() {
    needs_root!();
    download("veth");
}

fn download(device: &str) {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let contents: Vec<u8> = (0..2_000_000u32)
        .map(|i| (i.wrapping_mul(i) >> 7) as u8)
        .collect();
    let server = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    let port = server.local_addr().unwrap().port();
    let sent = contents.clone();
    let thread = std::thread::spawn(move || server.accept().unwrap().0.write_all(&sent).unwrap());
    let json = format!("--json={}", path("json"));
    let mut args = vec![
        "--delay",
        "10ms",
        "--down",
        "12mbit",
        "--queue",
        "droptail:bytes=60000",
    ];
    let log = path("log");
    let theirs = path("theirs");
    args.extend(["--log", &log, "--mahimahi-log", &theirs]);
    args.extend([json.as_str(), "--"]);
    let own = me(&format!("download {port}"));
    args.extend(own.iter().map(String::as_str));
    let output = Command::new(ALCC)
        .arg("emulate")
        .args(&args)
        .env("EMULATE_OUT", path("out"))
        .env("ALCC_EMULATE_DEVICE", device)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    thread.join().unwrap();
    assert!(
        std::fs::read(path("out")).unwrap() == contents,
        "the file changed on the way"
    );
    let said = stderr(&output);
    // A busy machine has a third line.
    let lines = said.lines().filter(|line| !line.contains(": note: "));
    assert_eq!(lines.count(), 2, "{said}");
    assert!(said.starts_with("alcc-lab emulate: down "), "{said}");
    let report: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(path("json")).unwrap()).unwrap();
    let down = &report["down"];
    let mbps = down["throughput_mbps"].as_f64().unwrap();
    // Never more; how much of it a transfer uses is the machine's, and the log says the rate.
    assert!((1.0..=12.01).contains(&mbps), "{mbps}");
    assert!(down["bytes"].as_u64().unwrap() > 2_000_000);
    assert_eq!(report["exit"]["status"], 0);
    assert_eq!(report["device"], device);
    for counter in ["kernel_dropped", "store_full", "write_failed"] {
        assert_eq!(
            (&down[counter], &report["up"][counter]),
            (&0.into(), &0.into()),
            "{counter}"
        );
    }

    let text = std::fs::read_to_string(format!("{log}.down")).unwrap();
    let (header, lines) = alcc_link::log::parse(&text).unwrap();
    assert_eq!(
        (header.link.as_str(), header.direction.as_str()),
        ("12mbit", "down")
    );
    assert_eq!(header.delay, alcc_units::Span::from_millis(10));
    // What waited leaves at the rate: a millisecond for each packet of 1500 bytes.
    let sent = lines.iter().filter_map(|l| match l {
        Line::Departure { at, packet, .. } if packet.len.get() == 1500 => Some(at.as_nanos()),
        _ => None,
    });
    let sent: Vec<u64> = sent.collect();
    let gaps = sent.windows(2).map(|w| w[1] - w[0]);
    let at_rate = gaps.filter(|gap| gap.abs_diff(1_000_000) < 10_000).count();
    assert!(
        at_rate > sent.len() / 4 && at_rate > 200,
        "{at_rate} of {}",
        sent.len()
    );
    let count = |want: fn(&Line) -> bool| lines.iter().filter(|l| want(l)).count() as u64;
    assert_eq!(
        down["packets"],
        count(|l| matches!(l, Line::Departure { .. }))
    );
    assert_eq!(
        down["overflowed"],
        count(|l| matches!(l, Line::Drop { .. }))
    );
    let mut again = String::new();
    alcc_link::log::write_header(&mut again, &header).unwrap();
    for line in &lines {
        alcc_link::log::format_line(&mut again, line).unwrap();
    }
    assert!(again == text, "the log does not read back as written");
    assert!(
        std::fs::read_to_string(format!("{log}.up"))
            .unwrap()
            .contains("# direction: up")
    );
    let packets = down["packets"].as_u64().unwrap();
    as_mahimahis_scripts_read_it(
        &std::fs::read_to_string(format!("{theirs}.down")).unwrap(),
        packets,
    );

    let page = path("page.html");
    let files = ["down", "up"].map(|end| format!("{log}.{end}"));
    let drawn = Command::new(ALCC)
        .args(["trace", "plot", &files[0], &files[1], "--output", &page])
        .output()
        .unwrap();
    assert!(drawn.status.success(), "{}", stderr(&drawn));
    let drawn = std::fs::read_to_string(page).unwrap();
    for name in ["log.down: ", "log.up: "] {
        assert!(drawn.contains(name), "{name}");
    }
    // Two logs, over time wide and narrow, and the distributions.
    assert!(drawn.matches("<polyline").count() >= 10, "curves");
}

/// Checks the parts of a log that `mm-throughput-graph` and `mm-delay-graph` require, and the
/// values that they compute.
fn as_mahimahis_scripts_read_it(text: &str, packets: u64) {
    let bases = text
        .lines()
        .filter(|l| l.starts_with("# base timestamp: "))
        .count();
    assert_eq!(bases, 1, "the base timestamp stands there once");
    let (mut capacity, mut departed, mut last) = (0, 0, 0);
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |n: usize| -> u64 {
            let word = words.get(n).unwrap_or_else(|| panic!("{line}: too short"));
            word.parse()
                .unwrap_or_else(|_| panic!("{line}: no whole number"))
        };
        last = last.max(number(0));
        match words[1] {
            "+" => assert!(number(2) > 0, "{line}"),
            "#" => capacity += number(2),
            "-" => {
                assert!(number(3) <= number(0), "{line}: arrived before the start");
                departed += 1;
            }
            event => panic!("{line}: they do not know {event}"),
        }
    }
    assert_eq!(departed, packets);
    let mbps = capacity as f64 * 8e-3 / last as f64;
    assert!((11.9..12.1).contains(&mbps), "{mbps} Mbit/s of capacity");
}

#[test]
fn the_exit_status_is_that_of_the_command() {
    needs_namespaces!();
    assert_eq!(
        emulate(&["--", "sh", "-c", "exit 7"]).status.code(),
        Some(7)
    );
    let killed = emulate(&["--", "sh", "-c", "kill -TERM $$"]);
    assert_eq!(killed.status.code(), Some(128 + 15));
    let output = emulate(&["--quiet", "--", "echo", "mine"]);
    assert_eq!(output.stdout, b"mine\n");
}

#[test]
fn every_signal_reaches_the_command() {
    needs_namespaces!();
    // 32 and 33 are the C library's own, SIGCHLD says that a child has changed; the shell's KILL
    // and STOP have no trap.
    let others = [libc::SIGKILL, libc::SIGSTOP, libc::SIGCHLD, 32, 33];
    let all: Vec<i32> = (1..=libc::SIGRTMAX())
        .filter(|signal| !others.contains(signal))
        .collect();
    assert!(all.len() >= 59);
    let numbers: Vec<_> = all.iter().map(ToString::to_string).collect();
    let script = format!(
        "for s in {}; do trap \"echo $s\" $s; done; trap 'exit 9' TERM; echo ready; while :; do sleep 0.01; done",
        numbers.join(" ")
    );
    let mut command = Command::new(ALCC);
    command
        .args(["emulate", "--quiet", "--", "sh", "-c", &script])
        .stdout(std::process::Stdio::piped());
    // A shell traps nothing that it was started to ignore, as a background job is SIGINT and
    // SIGQUIT.
    let defaults = all.clone();
    // SAFETY: async-signal-safe calls.
    unsafe {
        command.pre_exec(move || {
            for signal in &defaults {
                libc::signal(*signal, libc::SIG_DFL);
            }
            Ok(())
        });
    }
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || lines.next().unwrap().unwrap();
    assert_eq!(next(), "ready");
    let send = |signal| {
        // SAFETY: numbers only; the process is our child.
        assert_eq!(unsafe { libc::kill(child.id().cast_signed(), signal) }, 0);
    };
    for signal in all.iter().filter(|signal| **signal != libc::SIGTERM) {
        send(*signal);
        assert_eq!(next(), signal.to_string());
    }
    send(libc::SIGTERM);
    assert_eq!(child.wait().unwrap().code(), Some(9));
}

/// A shell command that listens on a port.
const LISTENS: &str =
    "exec python3 -c 'import socket,time\ns=socket.create_server((\"\",0))\ntime.sleep(1000)'";

#[test]
fn what_either_side_leaves_behind_is_ended() {
    needs_namespaces!();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("pids").display().to_string();
    // A server that leaves its process group, a background process of CMD, and one that ignores
    // SIGTERM.
    let outside = format!("setsid sleep 1000 & echo $! >> {file}; {LISTENS}");
    let inside = format!(
        "sleep 1000 & echo $! >> {file}; sh -c 'trap \"\" TERM; echo $$ >> {file}; sleep 1000' & \
         for n in $(seq 1000); do [ $(wc -l < {file}) != 3 ] || break; sleep 0.02; done"
    );
    let output = emulate(&["--outside", &outside, "--", "sh", "-c", &inside]);
    assert!(output.status.success(), "{}", stderr(&output));
    let pids = std::fs::read_to_string(&file).unwrap();
    assert_eq!(pids.lines().count(), 3, "{pids}");
    for pid in pids.lines() {
        let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        assert!(
            !["sleep\n", "sh\n"].contains(&name.as_str()),
            "{pid} {name}"
        );
    }
}

/// Without it CMD's "connection refused" is all there is to see.
#[test]
fn a_failed_server_outside_is_told() {
    needs_namespaces!();
    let says = |outside: &str, inside: &str, status| {
        let output = emulate(&["--quiet", "--outside", outside, "--", "sh", "-c", inside]);
        assert_eq!(output.status.code(), Some(status), "{}", stderr(&output));
        let told = stderr(&output);
        // On a busy machine a server may take more than two seconds.
        let told = told
            .lines()
            .filter(|line| line.contains("--outside") && !line.contains(": waiting until "));
        told.map(str::to_owned).collect::<Vec<_>>()
    };
    // CMD does not start then.
    let at_once = says("exit 3", "exit 4", 1);
    assert!(
        at_once[..].join("|").contains("ended with status 3"),
        "{at_once:?}"
    );
    let dir = tempfile::tempdir().unwrap();
    let pid = dir.path().join("pid").display().to_string();
    let inside = format!(
        "kill -9 $(cat {pid}); \
         while grep -q '^State:[^Z]*$' /proc/$(cat {pid})/status 2>/dev/null; do sleep 0.02; done; exit 4"
    );
    let later = says(&format!("echo $$ > {pid}; {LISTENS}"), &inside, 4);
    assert!(later.join("|").contains("ended by signal 9"), "{later:?}");
    assert_eq!(
        (at_once.len(), later.len()),
        (1, 1),
        "{at_once:?} {later:?}"
    );
    // A command that ends well, and one that we end.
    for well in ["true", LISTENS] {
        assert_eq!(says(well, "exit 4", 4), Vec::<String>::new());
    }
}

/// As another user: CMD has no capabilities there, without which bwrap does not start, but a nested
/// emulator has.
#[test]
fn a_sandbox_starts_in_a_link_without_root() {
    needs_root!();
    if !std::path::Path::new("/usr/bin/bwrap").exists() {
        eprintln!("skipped: needs bwrap (bubblewrap)");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    // Below a folder that the other user reaches.
    let alcc = dir.path().join("alcc-lab");
    std::fs::copy(ALCC, &alcc).unwrap();
    let open = |path: &std::path::Path| {
        let all = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(path, all).unwrap();
    };
    open(dir.path());
    open(&alcc);
    let says = |words: &[&str]| {
        let output = Command::new("setpriv")
            .args(["--reuid=4242", "--regid=4242", "--clear-groups"])
            .arg(&alcc)
            .args(["emulate", "--quiet", "--"])
            .args(words)
            .output()
            .unwrap();
        let text = [output.stdout, output.stderr].concat();
        (
            output.status.success(),
            String::from_utf8_lossy(&text).into_owned(),
        )
    };
    let (started, text) = says(&[
        "bwrap",
        "--ro-bind",
        "/",
        "/",
        "--unshare-pid",
        "echo",
        "here",
    ]);
    assert!(started && text.trim() == "here", "{text}");
    let nested = alcc.display().to_string();
    let level = ["emulate", "--quiet", "--", "printenv", "ALCC_EMULATE_LEVEL"];
    let (started, text) = says(&[&[nested.as_str()], &level[..]].concat());
    assert!(started && text.trim() == "2", "{text}");
}

/// A request and its answer in IPv6, through a link of 20 ms and one nested in it.
#[test]
fn the_link_carries_ipv6() {
    needs_namespaces!();
    if !std::path::Path::new("/proc/sys/net/ipv6").exists() {
        eprintln!("skipped: needs IPv6 in the kernel");
        return;
    }
    let server = "exec python3 -c 'import socket\ns=socket.create_server((\"::\",18126),family=socket.AF_INET6)\nwhile 1: c=s.accept()[0]; c.sendall(b\"here\"); c.close()'";
    let fetch = "import socket,os,time;t=time.monotonic();c=socket.create_connection((os.environ['ALCC_OUTSIDE6'],18126));print(c.recv(4),time.monotonic()-t>MIN)";
    let output = |min: &str, nested: &[&str]| {
        let fetch = fetch.replace("MIN", min);
        let all = [
            "--outside",
            server,
            "--delay",
            "10ms",
            "--json-out",
            "/dev/null",
            "--",
        ];
        let output = emulate(&[&all, nested, &["python3", "-c", &fetch]].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    // The handshake and the answer take a round trip each.
    assert_eq!(output("0.04", &[]), "b'here' True\n");
    let nested = [ALCC, "emulate", "--delay", "10ms", "--"];
    assert_eq!(output("0.08", &nested), "b'here' True\n");
}

/// A server that takes more than two seconds: CMD has to find it, and the user reads why nothing happens.
#[test]
fn cmd_waits_until_the_server_outside_listens() {
    needs_namespaces!();
    let server = "sleep 2.5; exec python3 -c 'import socket\ns=socket.create_server((\"\",18123))\nc=s.accept()[0]\nc.sendall(b\"here\")\nc.close()'";
    let fetch = "import socket,os;print(socket.create_connection((os.environ['ALCC_OUTSIDE'],18123)).recv(4))";
    let output = emulate(&["--outside", server, "--", "python3", "-c", fetch]);
    let told = stderr(&output);
    assert!(output.status.success(), "{told}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "b'here'\n");
    let waits = "alcc-lab emulate: waiting until the command of --outside listens on a TCP or UDP port, 30 s at most\n";
    assert_eq!(told.matches(waits).count(), 1, "{told}");
}

#[test]
fn cmd_does_not_wait_longer_for_a_server_of_udp() {
    needs_namespaces!();
    let server = "exec python3 -c 'import socket\ns=socket.socket(type=socket.SOCK_DGRAM)\ns.bind((\"\",18124))\nwhile 1: s.sendto(b\"here\",s.recvfrom(9)[1])'";
    let fetch = "import socket,os;s=socket.socket(type=socket.SOCK_DGRAM);s.settimeout(9);s.sendto(b'?',(os.environ['ALCC_OUTSIDE'],18124));print(s.recv(9))";
    let output = emulate(&["--outside", server, "--", "python3", "-c", fetch]);
    let told = stderr(&output);
    assert!(output.status.success(), "{told}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "b'here'\n");
    assert!(!told.contains("does not listen"), "{told}");
}

#[test]
fn mistakes_are_one_line_and_status_2() {
    let dir = tempfile::tempdir().unwrap();
    let bad = dir.path().join("bad.trace");
    std::fs::write(&bad, "5\n3\n").unwrap();
    let bad = bad.display().to_string();
    let cases: [(&[&str], &str); 7] = [
        (&["--down", "12", "--", "true"], "'12' is not a rate"),
        (&["--down", "no/such", "--", "true"], "open trace no/such"),
        (&["--up", &bad, "--", "true"], "line 2"),
        (&["--loss", "200%", "--", "true"], "is not a probability"),
        (&["--step", "5s:rate", "--", "true"], "expected AT:rate=R"),
        (
            &["--step", "5s:rate=1mbit", "--", "true"],
            "no bottleneck to change",
        ),
        (
            &["--steps", &bad, "--", "true"],
            "line 1: '5': expected a first line of column names",
        ),
    ];
    for (args, want) in cases {
        let output = emulate(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(
            stderr(&output).contains(want),
            "{args:?}: {}",
            stderr(&output)
        );
    }
    needs_namespaces!();
    let output = Command::new(ALCC)
        .args(["emulate", "--", "no-such-program-here"])
        // A folder of PATH that may not be read is another story.
        .env("PATH", "/usr/bin:/bin")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        stderr(&output).lines().last().unwrap(),
        "alcc-lab: start no-such-program-here: not found: install it, or give its full path"
    );
}

/// The network namespaces of all processes.
fn networks() -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter_map(|entry| std::fs::read_link(entry.path().join("ns/net")).ok())
        .collect()
}

/// Neither of its two processes can be killed so that something stays, nor all that have its name
/// together with CMD: not even a program in a session of its own that ignores SIGTERM.
#[test]
fn sigkill_leaves_no_process_and_no_network() {
    needs_namespaces!();
    let dir = tempfile::tempdir().unwrap();
    let beside = dir.path().join("beside");
    let outside = format!(
        "setsid sleep 300 & echo $! > {}; {LISTENS}",
        beside.display()
    );
    for killed in ["outer", "inner", "all"] {
        // Its command line is like no other.
        let seed = (0x5eed_0000 + u64::from(std::process::id())).to_string();
        let script = "trap '' TERM; setsid sleep 300 & echo $! $$; wait";
        let mut child = Command::new(ALCC)
            .args(["emulate", "--quiet", "--seed", &seed, "--outside", &outside])
            .args(["--", "sh", "-c", script])
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let said = child.stdout.take().unwrap();
        BufReader::new(said).read_line(&mut line).unwrap();
        let (sleeps, command) = line.trim().split_once(' ').unwrap();
        let network = std::fs::read_link(format!("/proc/{sleeps}/ns/net")).unwrap();
        assert!(networks().contains(&network));
        let outer = child.id().to_string();
        let list = std::fs::read_to_string(format!("/proc/{outer}/task/{outer}/children"));
        let first = list.unwrap_or_default();
        let victims = match (killed, first.split_whitespace().next()) {
            ("all", _) => [named(&seed), vec![command.to_owned()]].concat(),
            ("inner", Some(pid)) => vec![pid.to_owned()],
            _ => vec![outer],
        };
        assert!(victims.len() == 1 || victims.len() >= 3, "{victims:?}");
        let mut kill = Command::new("kill");
        assert!(kill.arg("-9").args(victims).status().unwrap().success());
        child.wait().unwrap();
        let remaining = [sleeps, std::fs::read_to_string(&beside).unwrap().trim()]
            .map(|pid| std::path::PathBuf::from(format!("/proc/{pid}")));
        let deadline = Instant::now() + Duration::from_secs(20);
        // A process that was killed has no network any more, and is there until it is reaped.
        while networks().contains(&network) || remaining.iter().any(|process| process.exists()) {
            assert!(Instant::now() < deadline, "killed: {killed}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// The processes with this word in their command line.
fn named(word: &str) -> Vec<String> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let names = entries.filter(|entry| {
        let line = std::fs::read_to_string(entry.path().join("cmdline"));
        line.is_ok_and(|line| line.split('\0').any(|one| one == word))
    });
    names
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect()
}
