// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Data that a program writes ahead if the kernel enforces the window: it is little, and the program
//! behaves as without control, in whatever way it writes.
use super::starts::first_right;
use super::wait::{listens, wait_for};
use super::{Running, alcc, c_programs, controls, lossy, support};
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use support::World;

const PORT: &str = "9000";

/// The kernel's controls, loaded, a link without losses, and a program of `tests/c`.
struct Ready {
    _dir: tempfile::TempDir,
    world: World,
    program: PathBuf,
    /// Last: what has used the controls has ended before.
    _alone: controls::Alone,
}

impl Ready {
    /// `None`, and said: something is missing.
    fn new(program: &str) -> Option<Self> {
        if support::impossible() {
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let program = c_programs::plain(program, dir.path())?;
        let alone = controls::controls_alone();
        if alcc("bpf load").status.code() == Some(2) {
            println!("skipped: needs the right to load BPF programs");
            return None;
        }
        let world = World::new(lossy(0.0, 0.0));
        Some(Self {
            _dir: dir,
            world,
            program,
            _alone: alone,
        })
    }

    fn end(self) {
        assert!(alcc("bpf unload").status.success());
        self.world.end();
    }

    /// Lines of numbers that the program prints, by itself or under `alcc run OPTIONS`, and the data that the
    /// client got. `before` receives the process id before the first request.
    fn served<const N: usize>(
        &self,
        options: Option<&[&str]>,
        args: &[&str],
        before: impl FnOnce(u32),
    ) -> (Vec<[u64; N]>, Vec<u8>) {
        let mut command = Command::new(&self.program);
        if let Some(options) = options {
            command = Command::new(env!("CARGO_BIN_EXE_alcc"));
            command
                .arg("run")
                .args(options)
                .arg("--")
                .arg(&self.program);
        }
        command.arg(PORT).args(args).stdout(Stdio::piped());
        let mut server = Running(self.world.outside.spawn(command).unwrap());
        let port = PORT.parse().unwrap();
        wait_for("it listens", || listens(server.0.id(), port));
        let mut client = self.world.connect(port);
        before(server.0.id());
        client.write_all(b"go").unwrap();
        let reader = std::thread::spawn(move || {
            let mut all = Vec::new();
            client.read_to_end(&mut all).unwrap();
            all
        });
        let mut said = String::new();
        let mut stdout = server.0.stdout.take().unwrap();
        stdout.read_to_string(&mut said).unwrap();
        let status = server.0.wait().unwrap();
        assert!(status.success(), "{options:?} {args:?}: {status} {said}");
        println!("{options:?} {args:?}: {said}");
        let numbers = |line: &str| {
            let numbers: Vec<u64> = line.split(' ').map(|n| n.parse().unwrap()).collect();
            numbers.try_into().unwrap()
        };
        let numbers = said.lines().map(numbers).collect();
        (numbers, reader.join().unwrap())
    }

    /// The output of `ahead.c`: for each part the most bytes that waited unsent, the option as the program
    /// sees it, and the kernel's value. `before` is called at each start, and its result is kept. A start
    /// does not count if the steering process was not scheduled for half a second, because it then loses
    /// the connection.
    fn ahead<T>(
        &self,
        options: Option<&[&str]>,
        what: &str,
        mut before: impl FnMut(u32) -> T,
    ) -> Vec<[u64; 3]> {
        let start = || {
            let mut kept = None;
            let known = |pid| kept = Some(before(pid));
            self.served::<4>(options, &[what], known).0
        };
        let kept_its_limit = |parts: &Vec<[u64; 4]>| what != "own" || parts[0][3] == 0;
        let parts = first_right(5, start, kept_its_limit);
        parts
            .into_iter()
            .map(|[most, seen, kernel, _]| [most, seen, kernel])
            .collect()
    }
}

/// No write is refused for a window that the kernel keeps: what a program writes ahead is
/// bounded all the same, unless it says itself how much, and the program sees nothing of that.
#[test]
fn what_a_program_writes_ahead_is_bounded() {
    let Some(ready) = Ready::new("ahead") else {
        return;
    };
    let options = ["--cc", "fixed:window=100", "--enforce", "bpf"];
    let parts = ready.ahead(Some(&options), "own", |_| ());
    let [ours, own, again] = parts[..] else {
        panic!("{parts:?}");
    };
    // A segment of 64 kB is taken whole.
    assert!((1..=2 * 65_536).contains(&ours[0]), "{parts:?}");
    assert!(own[0] > 2 * ours[0], "{parts:?}");
    assert!(ours[1] == 0 && ours[2] > 16_384, "{parts:?}");
    assert_eq!(own[1..], [1 << 20, 1 << 20], "{parts:?}");
    assert_eq!(again[1], 0, "{parts:?}");
    // The runtime ends in mid-transfer.
    let given = [
        "--cc",
        "fixed:window=40",
        "--enforce",
        "bpf",
        "--fault",
        "20",
    ];
    let parts = ready.ahead(Some(&given), "given-back", |_| ());
    assert_eq!(parts[0][1..], [0, 0], "{parts:?}");
    ready.end();
}

/// The same of a program that runs already, which sees the limit as it is.
#[test]
fn what_an_attached_program_writes_ahead_is_bounded() {
    let Some(ready) = Ready::new("ahead") else {
        return;
    };
    let are_right = |parts: &[[u64; 3]]| {
        let [ours, own, again] = parts[..] else {
            panic!("{parts:?}");
        };
        assert!((1..=2 * 65_536).contains(&ours[0]), "{parts:?}");
        assert!(own[0] > ours[0], "{parts:?}");
        assert!(ours[1] > 16_384 && ours[1] == ours[2], "{parts:?}");
        assert_eq!(own[1..], [1 << 20, 1 << 20], "{parts:?}");
        again
    };
    let which = |pid: u32| format!("attach --pid {pid} --port {PORT} --cc");
    let runs = |pid: u32, control: Option<&str>| {
        let began = Instant::now();
        loop {
            let found = alcc(&format!("{} cubic --dry-run --json", which(pid))).stdout;
            let found: serde_json::Value = serde_json::from_slice(&found).unwrap_or_default();
            let mut sockets = found["sockets"].as_array().into_iter().flatten();
            let it = sockets.find(|s| !s["peer"].is_null());
            if it.is_some_and(|s| control.is_none_or(|c| s["was"] == c)) {
                return;
            }
            assert!(began.elapsed() < Duration::from_secs(60), "{found}");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    // In the kernel. A socket whose limit is removed has none.
    let parts = ready.ahead(None, "own", |pid| {
        runs(pid, None);
        assert!(alcc(&format!("{} budget", which(pid))).status.success());
    });
    assert_eq!(are_right(&parts)[1..], [0, 0], "{parts:?}");
    // In user space.
    let steer = |pid: u32| {
        runs(pid, None);
        let args = format!("{} fixed:window=100", which(pid));
        let mut command = Command::new(env!("CARGO_BIN_EXE_alcc"));
        let steering = Running(command.args(args.split(' ')).spawn().unwrap());
        runs(pid, Some("alcc_window"));
        steering
    };
    let parts = ready.ahead(None, "own", steer);
    are_right(&parts);
    // It is killed in mid-transfer, and with the control the kernel gives the limit back.
    std::thread::scope(|threads| {
        let parts = ready.ahead(None, "given-back", |pid| {
            let steering = steer(pid);
            threads.spawn(move || {
                std::thread::sleep(Duration::from_millis(500));
                drop(steering);
            });
        });
        assert_eq!(parts[0][1..], [0, 0], "{parts:?}");
    });
    ready.end();
}

/// Each way to write and to wait for room behaves as without control, under a limit of alcc.
#[test]
fn every_way_of_writing_goes_on() {
    const BYTES: usize = 1_500_000;
    let Some(ready) = Ready::new("ways") else {
        return;
    };
    let expected: Vec<u8> = (0..BYTES)
        .map(|i| i % (256 * 1024))
        .map(|i| (i * 7 + i / 251) as u8)
        .collect();
    let bytes = BYTES.to_string();
    let steered = ["--cc", "fixed:window=100", "--enforce", "bpf"];
    for way in [
        "block",
        "edge",
        "sendfile",
        "sendfile-edge",
        "splice",
        "zerocopy",
        "reselect",
    ] {
        let served = |options| {
            let (said, got) = ready.served::<4>(options, &[way, &bytes], |_| ());
            assert!(got == expected, "{way}: {} bytes, or others", got.len());
            let [[sent, refused, part, limit]] = said[..] else {
                panic!("{way}: {said:?}");
            };
            assert_eq!(sent, BYTES as u64);
            (refused, part, limit)
        };
        let (plain_refused, plain_part, none) = served(None);
        let (refused, part, limit) = served(Some(&steered));
        assert!(none == 0 && limit > 16_384, "{way}: {none}, {limit}");
        // A call that waits takes all, and one that does not is refused now and then.
        assert_eq!(refused > 0, plain_refused > 0, "{way}");
        assert_eq!(part > 0, plain_part > 0, "{way}");
    }
    ready.end();
}
