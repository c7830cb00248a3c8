// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes to a full disk: the error is one line, the status is 1, and a program that runs under
//! alcc keeps its own status.
use super::built::program;
use nix::libc;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};

/// Command, with FULL for a folder on the full disk, and its exit status.
const CASES: &[(&str, i32)] = &[
    ("sim --duration 5s --link rapid --series FULL/series.csv", 1),
    ("sim --duration 5s --link 50mbit --pcap FULL/a.pcap", 1),
    ("sim --duration 5s --link 50mbit --qlog FULL/a.qlog", 1),
    (
        "compare --sim --traces 12mbit --schemes cubic --duration 5s --out FULL/board",
        2,
    ),
    (
        "sweep --link 1mbit --duration 1s --vary flow=cubic,reno --runs 1 --out FULL/swept",
        2,
    ),
    ("trace synth rapid --output FULL/rapid", 1),
    ("trace plot rapid --output FULL/plot.html", 1),
    (
        "trace convert rapid --to rates --bin 1ms --output FULL/rates",
        1,
    ),
    ("generate --out FULL/pages", 2),
    ("run --json-out FULL/run.json -- sh -c 'exit 7'", 7),
    ("run --log FULL -- sh -c 'exit 7'", 7),
    ("trial --json-out FULL/trial.json -- sh -c 'exit 7'", 7),
    ("trial --html FULL/trial.html -- sh -c 'exit 7'", 7),
    ("emulate --json-out FULL/link.json -- sh -c 'exit 7'", 7),
    (
        "emulate --log FULL/packets -- sh -c 'curl -s -m 1 $ALCC_OUTSIDE:9; exit 7'",
        7,
    ),
];

#[test]
fn a_full_disk_is_said_in_one_line() {
    // A private disk, filled to the last page.
    let disk = "mount -t tmpfs -o size=16k none $DISK && mkdir $DISK/full \
                && { head -c 1M /dev/zero > $DISK/full/filler; cd /; } 2>/dev/null && ";
    let dir = tempfile::tempdir().unwrap();
    let on_disk = |line: &str| {
        let line = line.replace("FULL", &dir.path().join("full").display().to_string());
        Command::new("unshare")
            .args(["-m", "sh", "-c", &format!("{disk} {line}")])
            .env("DISK", dir.path())
            .env("XDG_RUNTIME_DIR", dir.path().parent().unwrap())
            .env("XDG_STATE_HOME", dir.path())
            .output()
            .unwrap()
    };
    let probe = on_disk("true");
    if !probe.status.success() {
        println!(
            "skipped: needs a mount namespace: {}",
            String::from_utf8_lossy(&probe.stderr)
        );
        return;
    }
    let namespaces = alcc_emu::available().is_ok();
    let mut wrong = Vec::new();
    for (line, status) in CASES {
        if line.starts_with("emulate") && !namespaces {
            println!("skipped: {line}: needs namespaces");
            continue;
        }
        let done = on_disk(&format!("exec {} {line}", of(line)));
        let said = String::from_utf8_lossy(&done.stderr);
        let failures: Vec<_> = said
            .lines()
            .filter(|line| line.contains("no space is left"))
            .collect();
        let fault = said.contains("panicked") || said.contains("internal error");
        // Of a log that a server's processes write they say nothing: their standard error is not
        // ours.
        let told = failures.len() == 1 || line.contains("--log FULL --");
        if done.status.code() != Some(*status) || fault || !told {
            wrong.push(format!(
                "alcc {line}: {}, not {status}: {said}",
                done.status
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Status of a command, what it said, and its largest resident memory in kB.
#[expect(clippy::zombie_processes, reason = "wait4 takes it")]
fn measured(command: &mut Command) -> (ExitStatus, String, u64) {
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    let mut stderr = child.stderr.take().unwrap();
    stderr.read_to_string(&mut said).unwrap();
    let mut status = 0;
    // SAFETY: zero is a valid rusage; a child of ours, and room for both results.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::wait4(child.id().cast_signed(), &raw mut status, 0, &raw mut usage);
        usage
    };
    let kb = usage.ru_maxrss.cast_unsigned();
    (ExitStatus::from_raw(status), said, kb)
}

/// A trace of a few bytes may be seven weeks long: nothing takes memory, or space on the disk, for
/// all of that time. Nor does a scenario of zeros.
#[test]
fn a_short_file_costs_little_whatever_its_times() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("long"), "1\n4294967295\n").unwrap();
    let huge = std::fs::File::create(dir.path().join("huge.toml")).unwrap();
    huge.set_len(300 << 20).unwrap();
    for (name, content) in [
        ("fast", "0,1000000\n0.4,0\n"),
        ("full", "0,1380\n100,0\n"),
        ("large", "0,4294967295\n".repeat(100).as_str()),
    ] {
        std::fs::write(dir.path().join(name), content).unwrap();
    }
    // In pieces: the memory of this process counts for those that it starts.
    let mut log = std::fs::File::create(dir.path().join("log")).unwrap();
    let head = "# alcc packet log 1\n1.000 - 1500 0.500 0 1\n";
    log.write_all(head.as_bytes()).unwrap();
    for _ in 0..3000 {
        log.write_all("2.000 # 1500\n".repeat(1000).as_bytes())
            .unwrap();
    }
    // Silence costs nothing however many rows it has.
    std::fs::write(dir.path().join("silent"), "0\n".repeat(4_000_000) + "12\n").unwrap();
    for (line, status) in [
        ("sim huge.toml", 2),
        ("trace stats long --predict", 0),
        ("trace stats long --json", 0),
        ("trace plot long", 0),
        ("trace plot long --predict", 0),
        ("trace plot log", 0),
        ("trace plot long --bin 1ms", 2),
        ("trace convert long --to rates", 2),
        ("trace convert long --to rates --bin 1h", 0),
        (
            "trace convert silent --from rates --every 1ms --to rates --bin 1h",
            0,
        ),
        ("sim --link 12mbit --steps huge.toml", 2),
        ("trace convert fast --from rates", 2),
        ("trace convert full --from rates", 0),
        ("trace convert large --from packets", 2),
        ("reproduce huge.toml", 2),
        ("compare --sim --reference huge.toml", 2),
    ] {
        let mut words = line.split(' ');
        let file = words.find_map(|word| std::fs::metadata(dir.path().join(word)).ok());
        // Of the huge one the beginning is read.
        let size = file.unwrap().len().min(16 << 20);
        let mut command = Command::new("sh");
        command.args(["-c", &format!("exec {} {line}", of(line))]);
        let (done, said, kb) = measured(command.current_dir(dir.path()));
        assert_eq!(done.code(), Some(status), "{line}: {said}");
        assert!(
            kb * 1024 < 64_000_000 + 4 * size,
            "{line}: {kb} kB of memory for {size} bytes"
        );
    }
}

/// Otherwise a server would not start, or a command not end.
#[test]
fn an_output_that_is_a_fifo_without_a_reader_is_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    nix::unistd::mkfifo(&dir.path().join("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    for line in [
        "run --json-out fifo -- true",
        "trial --json-out fifo -- true",
        "sim --link 12mbit --duration 1s --flow cubic --pcap fifo",
        "trace synth lte --output fifo",
        "trace plot lte --output fifo",
        "emulate --json-out fifo -- true",
        "emulate --log fifo --down 12mbit -- true",
    ] {
        if line.starts_with("emulate --log") {
            nix::unistd::mkfifo(&dir.path().join("fifo.down"), nix::sys::stat::Mode::S_IRWXU)
                .unwrap();
        }
        let mut command = Command::new("sh");
        command.args(["-c", &format!("exec timeout 20 {} {line}", of(line))]);
        let done = command.current_dir(dir.path()).output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        println!("{line}: {:?}: {said}", done.status.code());
        assert_eq!(done.status.code(), Some(2), "{line}: {said}");
        assert!(said.contains("no program reads"), "{line}: {said}");
    }
}

/// A twentieth of the disk stays free for others, also of a small one.
#[test]
fn the_receiver_leaves_a_reserve_of_the_disk() {
    let dir = tempfile::tempdir().unwrap();
    let alcc = of("send");
    let script = format!(
        "mkdir $DISK && mount -t tmpfs -o size=40m none $DISK && ip link set lo up || exit 77
         head -c 36000000 /dev/zero > $DISK/filler && mkdir $DISK/in || exit 77
         {alcc} recv --bind 127.0.0.1 --out $DISK/in --count 2 2>$DISK/said &
         for bytes in 4000000 1000000; do
             head -c $bytes /dev/zero > $DISK.file
             until {alcc} send 127.0.0.1 --file $DISK.file 2>$DISK.sent; do
                 grep -qi 'connection refused' $DISK.sent || break
             done
             cat $DISK.sent
         done
         wait
         cat $DISK/said
         stat -c %s $DISK/in/*"
    );
    let done = Command::new("timeout")
        .args(["60", "unshare", "-mn", "sh", "-c", &script])
        .env("DISK", dir.path().join("disk"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stdout) + String::from_utf8_lossy(&done.stderr);
    if done.status.code() == Some(77) || said.contains("unshare") {
        println!("skipped: needs a mount namespace: {said}");
        return;
    }
    assert!(said.contains("the reserve of 2 MB"), "{said}");
    assert_eq!(said.lines().last(), Some("1000000"), "{said}");
}

/// The program of a command line, as a shell takes it.
fn of(line: &str) -> String {
    let command = line.split(' ').next().unwrap();
    program(command).display().to_string()
}

/// A table has the names of files.
#[test]
fn names_of_traces_do_not_steer_the_terminal() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["a\x1b[2J", "b\u{202e}"] {
        std::fs::write(dir.path().join(name), "1\n2\n3\n").unwrap();
        let mut stats = Command::new(program("trace"));
        stats.args(["trace", "stats", name]).current_dir(dir.path());
        let done = stats.output().unwrap();
        assert!(done.status.success(), "{done:?}");
        let out = String::from_utf8(done.stdout).unwrap();
        assert!(out.contains("\\u") && !out.contains(&name[1..]), "{out:?}");
    }
}
