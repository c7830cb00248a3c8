// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs the commands of a page in order, in one shell, in network, process and mount namespaces of their own: /etc is a
//! copy that is written to memory, /run is empty, and the documentation's addresses are this machine's.
use super::console::{Shown, commands};
use super::root::root;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A reason for which some commands of the pages run in no test.
#[allow(dead_code, reason = "the test that runs commands does not count them")]
pub(crate) struct Exception {
    pub(crate) why: &'static str,
    /// Commands with one of these words in them.
    words: &'static [&'static str],
    /// The largest number of such commands in all pages.
    pub(crate) most: usize,
}

/// All of them. The first one that applies counts.
pub(crate) const EXCEPTIONS: &[Exception] = &[
    Exception {
        why: "builds or installs: scripts/setup, scripts/test and lab/cli/tests/package.rs do",
        words: &[
            "make ",
            "cargo ",
            "docker ",
            "mvn ",
            "maturin ",
            "pip install",
            "pkg-config ",
        ],
        most: 21,
    },
    Exception {
        why: "uses what an excepted command would have built: alcc/capi/tests/library.rs does",
        words: &["./server 8080", "curl -o copy"],
        most: 2,
    },
    Exception {
        why: "needs systemd: lab/cli/tests/installed.rs has one",
        words: &["systemctl "],
        most: 4,
    },
    Exception {
        why: "needs the internet, a desktop, or a cgroup of virtual machines",
        words: &["--internet", "machine.slice", "front.example"],
        most: 4,
    },
    Exception {
        why: "needs recordings that cannot be distributed, or takes hours",
        words: &[
            "--traces DIR",
            "--traces recordings",
            "--full",
            "reproduce --emu",
        ],
        most: 8,
    },
];

/// Commands that end by Ctrl-C alone, which they get at the end of their section.
const UNTIL_CTRL_C: &[&str] = &[
    "alcc attach --pid",
    "alcc attach --port 443 --cc copa --trial",
    "alcc attach --port 443 --cc sprout",
    "alcc log --events",
    "alcc proxy ",
    "alcc recv ",
    "alcc run --loopback ",
    "alcc top ",
    "alcc-lab recv ",
    "alcc-lab trace record --listen",
];

/// Replacements: less time, and names of the page for what the test has.
const INSTEAD: &[(&str, &str)] = &[
    // The whole demonstration loads programs (lab/cli/tests/demo.rs has that).
    (
        "alcc-lab demo --duration 3s",
        "alcc-lab demo --duration 3s --schemes cubic",
    ),
    ("--duration 60s", "--duration 3s"),
    ("--duration 30s", "--duration 3s"),
    ("--duration 20s", "--duration 3s"),
    ("--duration 10s", "--duration 2s"),
    ("--runs 5", "--runs 1"),
    ("--runs 3", "--runs 1"),
    ("alcc-lab sweep ", "alcc-lab sweep --duration 3s "),
    ("worst 0..499", "worst 0..1"),
    ("worst 0..199", "worst 0..1"),
    (
        "record server.example",
        "record server.example --duration 2s --warm-up 1s",
    ),
    (
        "record $ALCC_OUTSIDE:9701",
        "record $ALCC_OUTSIDE:9701 --duration 2s --warm-up 1s",
    ),
    ("--together 3 --count 3", "--together 1 --count 1"),
    ("count=500", "count=20"),
    (
        "combine phone1 phone2 phone3",
        "combine lte.trace city-driving",
    ),
    ("--link FILE", "--link link.trace"),
    ("-- CMD", "-- true"),
    ("FINGERPRINT", "$(pin)"),
    ("5b8c...", "$(pin)"),
    (" HOST", " 192.0.2.7"),
    ("attach --pid 4711", "attach --pid $server"),
    ("4711", "$run"),
    (
        "quic --once --out video.mp4",
        "quic --once --out another.mp4",
    ),
    (
        "alcc-lab compare --emu --traces synth:lte,60mbit",
        "alcc bpf load && alcc-lab compare --emu --traces synth:lte,60mbit",
    ),
    ("-- nginx", "-- web"),
    ("node server.js", "web"),
    ("-- ./server", "-- web"),
];

/// Durations of commands that name none.
const DURATIONS: &[(&str, &str)] = &[
    ("alcc-lab compare ", "3s"),
    ("alcc-lab demo", "3s"),
    ("alcc-lab sim ", "5s"),
    ("alcc send ", "1s"),
    ("alcc-lab send ", "1s"),
];

/// Receivers that a page leaves to the reader, by what the sender's command begins with.
const RECEIVERS: &[(&str, &str)] = &[
    ("alcc send --under", "alcc recv --once"),
    ("tar c photos ", "alcc recv --once --out photos.tar"),
];

/// Files that the pages speak of, and programs in the place of others'.
const BEFORE: &str = r#"
set -m # what runs in the background has a process group, which gets Ctrl-C as from a terminal
exec 3>>"$HOME/done" </dev/null
mount -t tmpfs tmpfs /mnt && mkdir /mnt/upper /mnt/work &&
    mount -t overlay overlay -o lowerdir=/etc,upperdir=/mnt/upper,workdir=/mnt/work /etc &&
    mount -t tmpfs -o mode=755 tmpfs /run && ip link set lo up && ip address add 192.0.2.7/32 dev lo || exit 77
echo 192.0.2.7 server.example >>/etc/hosts
mkdir -p /etc/alcc
printf '[[rule]]\nport = 443\ncc = "budget"\n' >/etc/alcc/policy.toml
printf 'cc = "budget"\n[[port]]\nport = 9000\noff = true\n' >/etc/alcc.toml

mkdir bin target phone2 phone3 sender sender/photos log
ln -s "$BUILT" target/release
ln -s "$ROOT"/alcc "$ROOT"/lab .
cp target/release/libalcc_lab.so sender
cat >bin/sudo <<'EOF'
#!/bin/sh
[ "$1" != -u ] || shift 2
exec "$@"
EOF
# A server that has one client of its own, and ends.
cat >bin/web <<'EOF'
#!/usr/bin/env python3
import socket, threading
listener = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(listener.getsockname())
threading.Thread(target=lambda: all(iter(lambda: client.recv(65536), b""))).start()
server, _ = listener.accept()
server.sendall(bytes(300_000))
server.close()
EOF
cat >server <<'EOF'
#!/bin/sh
exec python3 -m http.server 8000
EOF
cat >tests.sh <<'EOF'
#!/bin/sh
sleep 0.5
exec curl -s -o /dev/null "http://$ALCC_OUTSIDE:8000/"
EOF
printf '#!/bin/sh\ncurl -s "http://$ALCC_OUTSIDE:8000/" || true # refused: a packet each way\n' >client
chmod +x bin/* server tests.sh client
for name in haproxy openvpn vsftpd; do ln -s web bin/$name; done
ln -s ../tests.sh bin/pytest

PATH=$PWD/bin:$PWD/target/release:$PATH
[ -z "${ALCC_NGINX:-}" ] || PATH=$PATH:$(dirname "$ALCC_NGINX")
alcc-lab trace synth lte --length 20s --output lte.trace
alcc-lab trace synth city-driving --length 20s --output city.trace
truncate -s 500M big
cp lte.trace link.trace
cp lte.trace walk.down
cp lte.trace phone2/down.trace
cp lte.trace phone3/down.trace
printf '0.001,1500\n0.1,1500\n' >capture.txt
printf 'seconds,mbps\n0,5\n1,8\n' >rates.csv
printf 'seconds,mbps\n1,5\n2,8\n' >steps.csv
printf 'traces = ["walk.down", "12mbit"]\nschemes = ["cubic", "budget/over=cubic"]\nduration = "2s"\n' >study.toml
for name in video.mp4 backup.tar photos/one; do head -c 100000 /dev/urandom >sender/$name; done

number= serving= run= server=
# The fingerprint that the last server has printed.
pin() { grep -ohE '[0-9a-f]{64}' $(ls -tr "$HOME"/../log/*) | tail -n 1; }
# Waits until something listens on this port (status 0), or nothing does (status 1).
listens() {
    for _ in $(seq 200); do
        grep -qi "$(printf ':%04x .* 0a ' $1)" /proc/net/tcp /proc/net/tcp6
        [ $? != $2 ] || break
        sleep 0.05
    done
}
# Starts a receiver, once an earlier one has gone.
receiver() {
    listens 9700 1
    "$@" >/dev/null 2>&1 &
    listens 9700 0
}
# The time until a server has said something.
serves() {
    serving="$serving $!:$number"
    for _ in $(seq 30); do
        ! [ -s log/$number.err ] && ! [ -s log/$number.out ] || break
        sleep 0.05
    done
    sleep 0.2
}
end_section() {
    for one in $serving; do
        kill -INT -- -${one%:*} 2>/dev/null && interrupted=yes || interrupted=no
        wait ${one%:*}
        echo "${one#*:} $? $interrupted" >&3
    done
    serving=
    # The next section is another terminal, whose first job is %1. 'jobs' forgets those that have ended.
    for job in $(jobs -p); do
        [ "$job" = "$run" ] || [ "$job" = "$server" ] || { kill -KILL -- -$job; wait $job; } 2>/dev/null
    done
    jobs >/dev/null
}
"#;

/// The commands of a page that run, each with what it is replaced by: those of sections that load programs into the
/// kernel, or of the others.
fn runs(page: &str, loading: bool) -> Vec<(Shown, String)> {
    let mut shown = commands(page);
    shown.retain(|shown| exception(&shown.text).is_none());
    let load: Vec<_> = (shown.iter().filter(|shown| loads(&shown.text)))
        .map(|shown| shown.section)
        .collect();
    shown.retain(|shown| load.contains(&shown.section) == loading);
    let runs = shown.into_iter();
    runs.map(|shown| {
        let mut text = shown.text.clone();
        for (name, duration) in DURATIONS {
            if text.starts_with(name) && !text.contains("--duration") && !text.contains("--file") {
                text.insert_str(name.trim_end().len(), &format!(" --duration {duration}"));
            }
        }
        for (from, to) in INSTEAD {
            text = text.replace(from, to);
        }
        (shown, text)
    })
    .collect()
}

pub(crate) fn exception(command: &str) -> Option<&'static Exception> {
    let applies = |e: &&Exception| e.words.iter().any(|word| command.contains(word));
    EXCEPTIONS.iter().find(applies)
}

/// True, with a message, if something that the commands need is not there.
pub(crate) fn impossible() -> bool {
    if !nix::unistd::geteuid().is_root() || alcc_emu::available().is_err() {
        println!("skipped: needs root and namespaces");
        return true;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |name: &&str| std::env::split_paths(&path).any(|at| at.join(name).exists());
    let nginx = if std::env::var_os("ALCC_NGINX").is_some() {
        "sh"
    } else {
        "nginx"
    };
    let mut needed = ["cc", "curl", "ip", "python3", "unshare", nginx].into_iter();
    needed
        .find(|name| !is_there(name))
        .is_some_and(super::lacks::lacks)
}

/// True if it changes the kernel for all programs of the machine.
fn loads(command: &str) -> bool {
    ["alcc bpf ", "alcc attach", "alcc policy ", "alcc_budget"]
        .iter()
        .any(|word| command.contains(word))
}

/// README.md and the pages of docs/.
pub(crate) fn pages() -> Vec<PathBuf> {
    let docs = std::fs::read_dir(root().join("docs")).unwrap();
    let mut pages: Vec<_> = docs.map(|entry| entry.unwrap().path()).collect();
    pages.push(root().join("README.md"));
    pages.retain(|page| page.extension().is_some_and(|e| e == "md"));
    // The longest first.
    pages.sort_by_cached_key(|page| {
        let shown = commands(&std::fs::read_to_string(page).unwrap());
        std::cmp::Reverse(shown.len())
    });
    pages
}

fn script(runs: &[(Shown, String)], own_server: bool) -> String {
    let mut script = BEFORE.to_owned();
    if own_server {
        // For 'alcc top' and 'alcc ctl', whose pages speak of a server that runs.
        script += "python3 -m http.server 8001 >/dev/null 2>&1 &\nserver=$!\n";
        script += "alcc run --loopback -- python3 -m http.server 8000 >/dev/null 2>&1 &\nrun=$!\n";
        script += "for _ in $(seq 400); do alcc top --once --run $run >/dev/null 2>&1 && break; sleep 0.05; done\n";
    }
    let mut section = 0;
    for (number, (shown, text)) in runs.iter().enumerate() {
        if shown.section != section {
            script += "end_section\n";
            section = shown.section;
        }
        let plain = text.strip_prefix("sudo ").unwrap_or(text);
        if let Some((_, receiver)) = RECEIVERS.iter().find(|(begin, _)| plain.starts_with(begin)) {
            let _ = writeln!(script, "receiver {receiver}");
        }
        // The sender is another host, with files of its own.
        let text = match plain.contains("send ") && !plain.contains("emulate ") {
            true => format!("(cd sender\n{text}\n)"),
            false => text.clone(),
        };
        let _ = write!(
            script,
            "number={number}\necho {number} >&3\n{{\n{text}\n}} >log/{number}.out 2>log/{number}.err"
        );
        let until_ctrl_c = UNTIL_CTRL_C
            .iter()
            .any(|begin| format!("{plain} ").starts_with(begin));
        script += match until_ctrl_c && !plain.starts_with("alcc top --once") {
            true if text.contains("http.server 8000") => " &\nserves\nlistens 8000 0\n",
            true => " &\nserves\n",
            false => "\necho \"$number $? ended\" >&3\n",
        };
    }
    script + "end_section\n"
}

/// Commands that ran, and the failures.
fn run(page: &Path, loading: bool) -> (usize, Vec<String>) {
    let name = page.strip_prefix(root()).unwrap().display().to_string();
    let runs = runs(&std::fs::read_to_string(page).unwrap(), loading);
    if runs.is_empty() {
        return (0, Vec::new());
    }
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    std::fs::create_dir(&home).unwrap();
    let has =
        |words: &[&str]| (runs.iter()).any(|(_, text)| words.iter().any(|w| text.contains(w)));
    let own_server = has(&["alcc ctl ", "alcc top", "alcc log", "$run", "$server"])
        && !has(&["alcc run --loopback"]);
    std::fs::write(home.join("script"), script(&runs, own_server)).unwrap();
    let built = super::built::built("alcc");
    let mut command = Command::new("unshare");
    // Tests in the background of a shell ignore Ctrl-C, and so would the commands that wait for it.
    command
        .args(
            "--net --mount --pid --fork --mount-proc --kill-child env --default-signal=INT bash"
                .split(' '),
        )
        .arg(home.join("script"))
        .current_dir(folder.path())
        .env("HOME", &home)
        .env("XDG_RUNTIME_DIR", &home)
        .env("STATE_DIRECTORY", &home)
        .env("ROOT", root().canonicalize().unwrap())
        .env("BUILT", built.parent().unwrap())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(home.join("said")).unwrap());
    let begin = Instant::now();
    let mut child = command.spawn().unwrap();
    let limit = Duration::from_secs(600);
    let ended = loop {
        match child.try_wait().unwrap() {
            Some(status) => break Some(status),
            None if begin.elapsed() > limit => break None,
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    let _ = child.kill();
    let _ = child.wait();
    let read = |path: PathBuf| std::fs::read_to_string(path).unwrap_or_default();
    let done = read(home.join("done"));
    let mut wrong = Vec::new();
    for (number, (shown, text)) in runs.iter().enumerate() {
        let begun = done.lines().any(|line| line == number.to_string());
        let prefix = format!("{number} ");
        let status = done.lines().find_map(|line| line.strip_prefix(&prefix));
        // Ctrl-C: a program may say that it was ended by a signal.
        if status.is_some_and(|s| s.starts_with("0 ") || s == "130 yes") {
            continue;
        }
        let what = match (begun, status) {
            (_, Some(status)) => format!("status {status}"),
            (true, None) => "did not end".to_owned(),
            (false, None) => "was not reached".to_owned(),
        };
        let log = folder.path().join("log");
        wrong.push(format!(
            "{name}:{}: {}\n  ran as: {text}\n  {what}: {}{}",
            shown.line,
            shown.text,
            read(log.join(format!("{number}.err"))),
            read(log.join(format!("{number}.out")))
                .lines()
                .take(5)
                .collect::<Vec<_>>()
                .join("\n"),
        ));
    }
    if ended.is_none_or(|status| !status.success()) && wrong.is_empty() {
        wrong.push(format!("{name}: {ended:?}: {}", read(home.join("said"))));
    }
    println!(
        "{name}: {} commands in {:.1} s",
        runs.len(),
        begin.elapsed().as_secs_f64()
    );
    (runs.len(), wrong)
}

/// Waits until the kernel has ended the registrations whose pins have gone with a page.
fn wait_for_names() {
    let list = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    let end = Instant::now() + Duration::from_secs(20);
    while std::fs::read_to_string(list).is_ok_and(|names| names.contains("alcc_"))
        && Instant::now() < end
    {
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Runs the sections of all pages that load programs into the kernel, one after the other, because a second page would be
/// refused the names of what the first has loaded. Or the others, some at once, because most commands wait.
pub(crate) fn run_all(loading: bool) -> usize {
    let at_once = if loading { 1 } else { 3 };
    let pages = pages();
    let queue = std::sync::Mutex::new(pages.iter());
    let done = std::sync::Mutex::new((0, Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().unwrap().next();
                    let Some(page) = next else { break };
                    let (ran, wrong) = run(page, loading);
                    if ran > 0 && loading {
                        wait_for_names();
                    }
                    let mut done = done.lock().unwrap();
                    done.0 += ran;
                    done.1.extend(wrong);
                }
            });
        }
    });
    let (ran, wrong) = done.into_inner().unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    ran
}
