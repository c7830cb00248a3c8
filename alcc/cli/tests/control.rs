// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Looking at and steering a server that runs: `alcc ctl`, `top` and `log`, per-port algorithms,
//! metrics.
#[path = "support/c_programs.rs"]
mod c_programs;
mod support;

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use support::{Server, World, impossible, link};

fn alcc(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_alcc"));
    command.args(args).stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn top(run: &str) -> Vec<Value> {
    let out = alcc(&["top", "--run", run, "--once", "--json"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let all: Value = serde_json::from_slice(&out.stdout).unwrap();
    all["connections"].as_array().unwrap().clone()
}

/// Runs `alcc top` until it shows the expected state.
fn until(run: &str, what: &str, wanted: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let now = top(run);
        if wanted(&now) {
            return now;
        }
        assert!(Instant::now() < deadline, "{what}: {now:#?}");
    }
}

fn ctl(run: &str, args: &[&str]) -> Value {
    let out = alcc(&[&["ctl", "--run", run, "--json"], args].concat());
    assert!(out.status.success(), "{args:?}: {}", text(&out.stderr));
    serde_json::from_slice(&out.stdout).unwrap()
}

/// A transfer in the background; the hash of what arrived.
fn fetching<'s>(
    scope: &'s std::thread::Scope<'s, '_>,
    world: &'s World,
    url: &'s str,
) -> std::thread::ScopedJoinHandle<'s, String> {
    scope.spawn(move || world.fetch(url))
}

fn run_of(server: &Server) -> String {
    server.pid().to_string()
}

#[test]
fn a_transfer_is_seen_switched_off_and_on_and_given_another_algorithm() {
    if impossible() {
        return;
    }
    let world = World::new(link(8));
    let hash = world.file("f", 8_000_000);
    // 30 segments in flight over 20 ms: at most 30 * 1448 * 8 / 0.02 = 17 Mbit/s, so the link is
    // the limit, and stays below what plain TCP puts in flight.
    let server = world.gated(&["--cc", "fixed:window=4"]);
    let run = run_of(&server);
    std::thread::scope(|scope| {
        let transfer = fetching(scope, &world, "http://$S:8080/f");
        let shown = until(&run, "the transfer is shown", |c| {
            c.len() == 1 && c[0]["state"] == "sending" && c[0]["bytes"].as_u64() > Some(50_000)
        });
        let c = &shown[0];
        assert_eq!(c["algorithm"], "fixed:window=4");
        assert_eq!(c["enforcement"], "gate+pacing");
        let mss = c["mss_bytes"].as_u64().unwrap();
        assert_eq!(c["window_bytes"].as_u64(), Some(4 * mss), "{c}");
        assert!(c["in_flight_bytes"].as_u64().unwrap() <= 5 * mss, "{c}");
        assert!(c["rtt_ms"].as_f64().unwrap() >= 20.0, "{c}");
        assert!(c["gate_closed"].as_u64().unwrap() > 0, "{c}");
        assert!(c["cwnd_segments"].as_u64().unwrap() > 0, "{c}");
        assert!(c["local"].as_str().unwrap().ends_with(":8080"), "{c}");

        // It may be idle for a moment, and then follows at its next write.
        let meant =
            |said: &Value| said["followed"].as_u64().unwrap() + said["idle"].as_u64().unwrap();
        assert_eq!(meant(&ctl(&run, &["off"])), 1);
        let off = until(&run, "it is off", |c| c[0]["state"] == "off");
        std::thread::sleep(Duration::from_millis(500));
        let later = top(&run);
        assert_eq!(
            later[0]["gate_closed"], off[0]["gate_closed"],
            "no gate while off"
        );

        // On again at its next write: plain TCP may have filled the kernel's buffer in between.
        ctl(&run, &["on"]);
        until(&run, "it is on again", |c| {
            c[0]["state"] == "sending"
                && c[0]["gate_closed"].as_u64() > off[0]["gate_closed"].as_u64()
        });
        assert_eq!(meant(&ctl(&run, &["cc", "fixed:window=9"])), 1);
        until(&run, "the window is another", |c| {
            c[0]["algorithm"] == "fixed:window=9" && c[0]["window_bytes"].as_u64() == Some(9 * mss)
        });
        // Another port's order is nothing to it, its peer's is.
        assert_eq!(meant(&ctl(&run, &["cc", "copa", "--port", "8081"])), 0);
        assert_eq!(top(&run)[0]["algorithm"], "fixed:window=9");
        ctl(&run, &["cc", "reno", "--peer", "0.0.0.0/0"]);
        until(&run, "reno", |c| c[0]["algorithm"] == "reno");
        ctl(&run, &["cc", "verus"]);
        assert_eq!(transfer.join().unwrap(), hash);
        // New ones are as ordered.
        let transfer = fetching(scope, &world, "http://$S:8081/f");
        let shown = until(&run, "a new one", |c| {
            c.iter()
                .any(|c| c["local"].as_str().unwrap().ends_with(":8081") && c["state"] == "sending")
        });
        assert!(
            shown.iter().all(|c| c["algorithm"] == "verus"),
            "{shown:#?}"
        );
        assert_eq!(transfer.join().unwrap(), hash);
    });
    until(&run, "closed connections are gone", <[Value]>::is_empty);
    let (report, said) = server.stop();
    assert_eq!(report["failures"], 0, "{said}");
    assert_eq!(report["connections"], 2, "{said}");
    // All that were in charge are named.
    let all = report["algorithms"].as_array().unwrap();
    for name in ["fixed:window=4", "fixed:window=9", "reno", "verus"] {
        assert!(all.contains(&name.into()), "{report}");
        assert!(said.lines().last().unwrap().contains(name), "{said}");
    }
}

#[test]
fn a_file_is_read_again_and_a_mistake_in_it_changes_nothing() {
    if impossible() {
        return;
    }
    let world = World::new(link(8));
    let hash = world.file("f", 6_000_000);
    let server = world.serve(Some(&["--cc", "fixed:window=4"]));
    let run = run_of(&server);
    let file = world.path("alcc.toml");
    let file = file.to_str().unwrap();
    let reload = |text: &str| {
        std::fs::write(file, text).unwrap();
        alcc(&["ctl", "--run", &run, "reload", file])
    };
    std::thread::scope(|scope| {
        let transfer = fetching(scope, &world, "http://$S:8080/f");
        let is = |c: &[Value], name: &str, state: &str| {
            c.len() == 1 && c[0]["algorithm"] == name && c[0]["state"] == state
        };
        until(&run, "it runs", |c| is(c, "fixed:window=4", "sending"));
        ctl(&run, &["cc", "copa", "--port", "8080"]);
        let good = "cc = \"reno\"\n[[port]]\nport = 8080\ncc = \"fixed:window=9\"\n";
        assert!(reload(good).status.success());
        until(&run, "the section counts", |c| {
            is(c, "fixed:window=9", "sending")
        });
        let bad = reload("cc = \"reno\"\n[[prot]]\n");
        assert_eq!(bad.status.code(), Some(2));
        assert!(text(&bad.stderr).contains("alcc.toml:2: unknown field"));
        until(&run, "the old one stays", |c| {
            is(c, "fixed:window=9", "sending")
        });
        assert!(reload("cc = \"fixed:window=5\"\n").status.success());
        until(&run, "the section has gone", |c| {
            is(c, "fixed:window=5", "sending")
        });
        assert!(reload("cc = \"reno\"\nexcept = [8080]\n").status.success());
        until(&run, "the port is excepted", |c| {
            c.len() == 1 && c[0]["state"] == "off"
        });
        assert_eq!(transfer.join().unwrap(), hash);
    });
    server.stop();
}

/// For example out of memory: the server continues under control, and can still be shown and switched
/// off.
#[test]
fn a_server_whose_alcc_was_killed_goes_on_and_still_obeys() {
    if impossible() {
        return;
    }
    let world = World::new(link(8));
    let hash = world.file("f", 6_000_000);
    let server = world.gated(&["--cc", "fixed:window=4"]);
    let run = run_of(&server);
    let signal = |pid: i32, signal| {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal).unwrap();
    };
    std::thread::scope(|scope| {
        let transfer = fetching(scope, &world, "http://$S:8080/f");
        let one = |c: &[Value], state: &str| c.len() == 1 && c[0]["state"] == state;
        until(&run, "it runs", |c| one(c, "sending"));
        signal(server.pid().cast_signed(), nix::sys::signal::SIGKILL);
        let shown = until(&run, "it is still shown", |c| one(c, "sending"));
        let closed = shown[0]["gate_closed"].as_u64();
        until(&run, "it is still controlled", |c| {
            one(c, "sending") && c[0]["gate_closed"].as_u64() > closed
        });
        let worker = shown[0]["pid"].to_string();
        ctl(&worker, &["off"]);
        until(&run, "it is off", |c| one(c, "off"));
        assert_eq!(transfer.join().unwrap(), hash);
        until(&run, "closed connections are gone", <[Value]>::is_empty);
    });
    let master = std::fs::read_to_string(world.path("nginx.pid")).unwrap();
    signal(master.trim().parse().unwrap(), nix::sys::signal::SIGTERM);
}

#[test]
fn switching_at_every_moment_loses_no_byte() {
    if impossible() {
        return;
    }
    let world = World::new(link(30));
    let hash = world.file("f", 6_000_000);
    let server = world.serve(Some(&["--cc", "copa"]));
    let run = run_of(&server);
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let transfers = [
            "http://$S:8080/f",
            "http://$S:8081/f",
            "-k --http2 https://$S:8443/f",
        ]
        .map(|url| fetching(scope, &world, url));
        let switching = scope.spawn(|| {
            for order in [
                &["off"][..],
                &["on"],
                &["cc", "verus"],
                &["cc", "fixed:window=3"],
                &["off", "--port", "8080"],
                &["cc", "copa", "--port", "8443"],
                &["on"],
                &["cc", "reno"],
            ]
            .iter()
            .cycle()
            .take_while(|_| !done.load(std::sync::atomic::Ordering::Relaxed))
            {
                ctl(&run, order);
            }
        });
        for transfer in transfers {
            assert_eq!(transfer.join().unwrap(), hash);
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        switching.join().unwrap();
    });
    let (report, said) = server.stop();
    assert_eq!(report["failures"], 0, "{said}");
}

#[test]
fn connections_of_a_killed_process_disappear_and_a_table_goes_into_a_pipe() {
    if impossible() {
        return;
    }
    let world = World::new(link(4));
    world.file("f", 20_000_000);
    let server = world.serve(Some(&["--cc", "verus"]));
    let run = run_of(&server);
    std::thread::scope(|scope| {
        scope.spawn(|| world.client("curl -sS --max-time 60 -o /dev/null http://$S:8080/f"));
        let shown = until(&run, "it runs", |c| {
            c.len() == 1 && c[0]["state"] == "sending"
        });
        let out = alcc(&["top", "--run", &run, "--once"]);
        let table = text(&out.stdout);
        assert!(
            table.contains("verus") && table.contains("sending"),
            "{table}"
        );
        assert!(!table.contains('\u{1b}'), "no escapes in a pipe: {table}");
        // By the worker's id just as well.
        let worker = shown[0]["pid"].as_i64().unwrap();
        assert_eq!(top(&worker.to_string()).len(), 1);
        let worker = nix::unistd::Pid::from_raw(i32::try_from(worker).unwrap());
        nix::sys::signal::kill(worker, nix::sys::signal::Signal::SIGKILL).unwrap();
        until(&run, "its connection is gone", <[Value]>::is_empty);
    });
    let (report, said) = server.stop();
    assert_eq!(report["not_controlled"], serde_json::json!([]), "{said}");
}

#[test]
fn a_table_on_a_terminal_fits_and_ends_by_q() {
    if impossible() {
        return;
    }
    let world = World::new(link(4));
    let server = world.serve(Some(&["--cc", "verus"]));
    // A terminal of its own, with no size: 80 columns are assumed.
    let top = format!(
        "{} top --run {}",
        env!("CARGO_BIN_EXE_alcc"),
        run_of(&server)
    );
    let mut terminal = Command::new("script")
        .args(["-qec", &top, "/dev/null"])
        .env("TERM", "xterm")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut shown = Vec::new();
    let mut output = terminal.stdout.take().unwrap();
    // What names the key stands above the table's head.
    while !text(&shown).contains("PEER") {
        let mut some = [0; 4096];
        let n = output.read(&mut some).unwrap();
        assert!(n > 0, "it ended: {}", text(&shown));
        shown.extend_from_slice(&some[..n]);
    }
    let shown = text(&shown).replace("\x1b[H", "").replace("\x1b[K", "");
    assert!(shown.contains("q ends"), "{shown}");
    for line in shown.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    terminal.stdin.as_ref().unwrap().write_all(b"xq").unwrap();
    assert!(terminal.wait().unwrap().success());
    server.stop();
}

/// A server can be switched off directly after its start, without an error that no process received the command.
#[test]
fn a_run_that_has_just_started_takes_orders() {
    let dir = tempfile::tempdir().unwrap();
    let Some(late) = c_programs::fixed("late", dir.path()) else {
        return;
    };
    let mut running = Command::new(env!("CARGO_BIN_EXE_alcc"))
        .args(["run", "--quiet", "--"])
        .arg(late)
        .args(["/bin/sleep", "60"])
        .spawn()
        .unwrap();
    let run = running.id().to_string();
    let deadline = Instant::now() + Duration::from_secs(30);
    while !alcc(&["top", "--run", &run, "--once"]).status.success() {
        assert!(Instant::now() < deadline);
    }
    let out = ctl(&run, &["off", "--port", "8080,8443", "--port", "80"]);
    assert_eq!(out["order"], "8080 off, 8443 off, 80 off");
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(running.id().cast_signed()),
        nix::sys::signal::Signal::SIGTERM,
    )
    .unwrap();
    running.wait().unwrap();
}

#[test]
fn mistakes_of_ctl_are_one_line() {
    let wrong = alcc(&["ctl", "cc", "vrus"]);
    assert_eq!(wrong.status.code(), Some(2));
    let said = text(&wrong.stderr);
    assert!(
        said.starts_with("alcc: no algorithm 'vrus' (did you mean verus?)"),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1, "{said}");
    let empty = tempfile::tempdir().unwrap();
    let nobody = Command::new(env!("CARGO_BIN_EXE_alcc"))
        .args(["ctl", "--run", "1", "off"])
        .env("XDG_RUNTIME_DIR", empty.path())
        .output()
        .unwrap();
    assert_eq!(nobody.status.code(), Some(1));
    assert_eq!(
        text(&nobody.stderr).lines().count(),
        1,
        "{}",
        text(&nobody.stderr)
    );
}

#[test]
fn the_log_of_a_running_server_has_both_windows() {
    if impossible() {
        return;
    }
    let world = World::new(link(8));
    let hash = world.file("f", 4_000_000);
    let server = world.serve(Some(&["--cc", "fixed:window=6"]));
    let run = run_of(&server);
    let csv = world.path("log.csv");
    std::thread::scope(|scope| {
        let transfer = fetching(scope, &world, "http://$S:8080/f");
        until(&run, "it runs", |c| {
            c.len() == 1 && c[0]["state"] == "sending"
        });
        let out = alcc(&[
            "log",
            "--run",
            &run,
            "--duration",
            "1s",
            "--out",
            csv.to_str().unwrap(),
        ]);
        assert!(out.status.success(), "{}", text(&out.stderr));
        assert_eq!(transfer.join().unwrap(), hash);
    });
    let log = std::fs::read_to_string(&csv).unwrap();
    let mut lines = log.lines();
    let header: Vec<_> = lines.next().unwrap().split(',').collect();
    let rows: Vec<Vec<&str>> = lines.map(|l| l.split(',').collect()).collect();
    let column = |name: &str| header.iter().position(|h| *h == name).unwrap();
    let number = |row: &[&str], name: &str| row[column(name)].parse::<f64>().unwrap();
    assert!(rows.len() > 10, "{log}");
    let mut before = 0.0;
    for row in &rows {
        assert_eq!(row.len(), header.len(), "{row:?}");
        assert_eq!(number(row, "window_bytes"), 6.0 * number(row, "mss_bytes"));
        assert!(
            number(row, "cwnd_segments") >= 1.0 && number(row, "rtt_ms") >= 20.0,
            "{row:?}"
        );
        assert!(number(row, "acked_bytes") >= before, "{row:?}");
        assert!(!row[column("peer")].is_empty());
        before = number(row, "acked_bytes");
    }
    // Without a reader nothing is written.
    let (report, said) = server.stop();
    assert_eq!(report["failures"], 0, "{said}");
}

#[test]
fn a_file_gives_each_port_its_algorithm_and_metrics_count_by_both() {
    if impossible() {
        return;
    }
    let world = World::new(link(20));
    let hash = world.file("f", 2_000_000);
    let config = world.path("alcc.toml");
    std::fs::write(
        &config,
        "cc = \"fixed:window=8\"\n[[port]]\nport = 8081\ncc = \"copa\"\nunder = \"reno\"\n[[port]]\nport = 8443\noff = true\n",
    )
    .unwrap();
    let socket = world.path("metrics.sock");
    let server = world.gated(&[
        "--config",
        config.to_str().unwrap(),
        "--metrics",
        socket.to_str().unwrap(),
    ]);
    for url in [
        "http://$S:8080/f",
        "http://$S:8081/f",
        "-k --http2 https://$S:8443/f",
    ] {
        assert_eq!(world.fetch(url), hash, "{url}");
    }
    let out = Command::new("curl")
        .args(["-sS", "--fail", "--max-time", "20", "--unix-socket"])
        .arg(&socket)
        .arg("http://localhost/metrics")
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", text(&out.stderr));
    let page = text(&out.stdout);
    let metrics = parse(&page);
    let get = |name: &str, labels: &str| {
        *metrics
            .get(&format!("{name}{{{labels}}}"))
            .unwrap_or_else(|| panic!("{name}{{{labels}}} in {page}"))
    };
    let fixed = "port=\"8080\",algorithm=\"fixed:window=8\"";
    let copa = "port=\"8081\",algorithm=\"copa\"";
    for labels in [fixed, copa] {
        assert_eq!(get("alcc_connections_total", labels), 1.0);
        assert!(get("alcc_bytes_total", labels) >= 2e6);
        assert!(get("alcc_gate_closed_total", labels) > 0.0);
        // 20 ms there and back, so no sample is below the bucket that ends at 10 ms.
        assert_eq!(
            get("alcc_rtt_seconds_bucket", &format!("{labels},le=\"0.01\"")),
            0.0
        );
        let count = get("alcc_rtt_seconds_count", labels);
        assert!(count > 10.0 && get("alcc_rtt_seconds_sum", labels) >= 0.02 * count);
        assert_eq!(
            get("alcc_rtt_seconds_bucket", &format!("{labels},le=\"+Inf\"")),
            count
        );
    }
    assert!(!page.contains("8443"), "{page}");
    let (report, said) = server.stop();
    assert_eq!(
        (&report["connections"], &report["left_alone"]),
        (&2.into(), &1.into()),
        "{said}"
    );
    assert_eq!(report["under_refused"], 0, "{said}");
    assert_eq!(report["not_controlled"], serde_json::json!([]), "{said}");
    assert!(!socket.exists());
}

fn metrics(socket: &Path) -> std::collections::BTreeMap<String, f64> {
    let out = Command::new("curl")
        .args(["-sS", "--fail", "--max-time", "20", "--unix-socket"])
        .arg(socket)
        .arg("http://localhost/metrics")
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", text(&out.stderr));
    parse(&text(&out.stdout))
}

/// A connection under `fixed:window=8` is seen, gets another algorithm, is switched off and on
/// again.
fn is_seen_and_steered(run: &str) {
    let sends = |c: &Value| c["bytes"].as_u64() > Some(0) && c["algorithm"] == "fixed:window=8";
    let seen = until(run, "seen", |all| all.len() == 1 && sends(&all[0]));
    assert_eq!(seen[0]["enforcement"], "queue+pacing", "{seen:#?}");
    ctl(run, &["cc", "copa"]);
    until(run, "copa", |all| all[0]["algorithm"] == "copa");
    ctl(run, &["off"]);
    until(run, "off", |all| all[0]["state"] == "off");
    ctl(run, &["on"]);
    until(run, "on", |all| all[0]["state"] != "off");
}

/// Ended with the test, however that ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn started(command: &mut Command) -> Child {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let said = BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line);
    assert!(said.unwrap() > 0, "it says its port");
    child
}

fn ended(mut child: Child) {
    drop(child.stdin.take());
    let status = child.wait().unwrap();
    assert!(status.success(), "{status}");
}

#[test]
fn a_program_with_the_c_library_is_seen_and_steered() {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = c_programs::with_the_library("own_socket", dir.path()) else {
        return;
    };
    let child = started(Command::new(program).env("ALCC_CC", "fixed:window=8"));
    let run = child.id().to_string();
    is_seen_and_steered(&run);
    ended(child);
    // Gone with the program.
    let out = alcc(&["top", "--run", &run, "--once", "--json"]);
    assert!(!out.status.success(), "{}", text(&out.stdout));
}

#[test]
fn the_c_library_below_alcc_run_is_controlled_once_and_told_in_the_metrics() {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = c_programs::with_the_library("own_socket", dir.path()) else {
        return;
    };
    let (socket, json) = (dir.path().join("metrics.sock"), dir.path().join("j.json"));
    let child = started(
        Command::new(env!("CARGO_BIN_EXE_alcc"))
            .args(["run", "--loopback", "--cc", "fixed:window=8", "--metrics"])
            .arg(&socket)
            .arg(format!("--json={}", json.display()))
            .arg("--")
            .arg(program),
    );
    is_seen_and_steered(&child.id().to_string());
    let page = metrics(&socket);
    let of = |algorithm: &str| {
        let label = format!("algorithm=\"{algorithm}\"}}");
        let mut all = page.iter();
        let found = all.find(|(k, _)| k.starts_with("alcc_bytes_total{") && k.ends_with(&label));
        found.map(|(_, n)| *n)
    };
    assert!(
        of("fixed:window=8") > Some(0.0) && of("copa").is_some(),
        "{page:#?}"
    );
    ended(child);
    let report: Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    assert_eq!(report["connections"], 1, "{report:#}");
    assert_eq!(report["not_controlled"], serde_json::json!([]));
}

#[test]
fn the_proxy_is_seen_steered_and_told_in_the_metrics() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("metrics.sock");
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let (to, at) = (server.local_addr().unwrap(), free.local_addr().unwrap());
    drop(free);
    let proxy = Command::new(env!("CARGO_BIN_EXE_alcc"))
        .args(["proxy", "--loopback", "--cc", "fixed:window=8", "--quiet"])
        .args(["--listen", &at.to_string(), "--to", &to.to_string()])
        .arg("--metrics")
        .arg(&socket)
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let proxy = Running(proxy);
    let deadline = Instant::now() + Duration::from_secs(20);
    let mut client = loop {
        match TcpStream::connect(at) {
            Ok(client) => break client,
            Err(e) => assert!(Instant::now() < deadline, "{e}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    std::thread::spawn(move || {
        let (mut stream, _) = server.accept().unwrap();
        while stream.write_all(&[0; 16384]).is_ok() {}
    });
    std::thread::spawn(move || {
        let mut bytes = [0; 16384];
        while client.read(&mut bytes).is_ok_and(|n| n > 0) {
            std::thread::sleep(Duration::from_millis(2));
        }
    });
    is_seen_and_steered(&proxy.0.id().to_string());
    let page = metrics(&socket);
    let label = format!(
        "alcc_bytes_total{{port=\"{}\",algorithm=\"fixed:window=8\"}}",
        at.port()
    );
    assert!(page.get(&label) > Some(&0.0), "{label}: {page:#?}");
}

/// Prometheus' text format, strictly: every sample belongs to a metric with HELP and TYPE, and
/// buckets do not decrease.
fn parse(page: &str) -> std::collections::BTreeMap<String, f64> {
    let mut metrics = std::collections::BTreeMap::new();
    let (mut name, mut kind, mut bucket) = (String::new(), String::new(), 0.0);
    for line in page.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            name = help.split_once(' ').unwrap().0.to_owned();
            kind.clear();
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (of, is) = rest.split_once(' ').unwrap();
            assert_eq!(of, name, "{line}");
            assert!(["counter", "gauge", "histogram"].contains(&is), "{line}");
            kind = is.to_owned();
        } else {
            let (sample, value) = line.rsplit_once(' ').unwrap();
            let value: f64 = value.parse().unwrap();
            let base = sample.split('{').next().unwrap();
            let suffix = base.strip_prefix(&name).unwrap_or_else(|| panic!("{line}"));
            let known: &[&str] = if kind == "histogram" {
                &["_bucket", "_sum", "_count"]
            } else {
                &[""]
            };
            assert!(known.contains(&suffix), "{line}");
            assert!(kind != "counter" || name.ends_with("_total"), "{line}");
            if suffix == "_bucket" {
                bucket = if sample.contains("le=\"0.001\"") {
                    0.0
                } else {
                    bucket
                };
                assert!(value >= bucket, "{line}");
                bucket = value;
            }
            assert!(
                metrics.insert(sample.to_owned(), value).is_none(),
                "twice: {line}"
            );
        }
    }
    metrics
}

#[test]
fn a_mistake_in_the_file_is_one_line_with_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("alcc.toml");
    std::fs::write(
        &file,
        "loopback = true\n\n[[port]]\nport = 443\ncc = \"vrus\"\n",
    )
    .unwrap();
    let out = alcc(&["run", "--config", file.to_str().unwrap(), "--", "true"]);
    assert_eq!(out.status.code(), Some(2));
    let said = text(&out.stderr);
    assert!(
        said.starts_with(&format!("alcc: {}:5: no algorithm 'vrus'", file.display())),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1, "{said}");
}
