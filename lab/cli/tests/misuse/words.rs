// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Wrong command lines: one line that names what is wrong and what would be right, and status 2.
use super::built::{built, program};
use super::streams::commands;
use super::wrong::{FAILED, WRONG};
use std::ffi::OsStr;
use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let random: Vec<u8> = (0..100u8).map(|n| n.wrapping_mul(151) | 0x80).collect();
    for (name, content) in [
        ("good.trace", &b"1\n2\n3\n"[..]),
        ("bad.trace", b"1\nx\n"),
        ("empty.trace", b""),
        ("random.bin", &random),
        ("bad.toml", b"flow=3\n"),
        ("half.toml", b"only = [443]\n"),
        ("under.toml", b"[[port]]\nport = 443\nunder = \"cubic\"\n"),
        ("idle.toml", b"flow = \"copa\"\njitter = \"1ms\"\n"),
        ("empty.toml", b"# nothing\n"),
        ("notes.txt", b"nonsense"),
        ("steps.csv", b"seconds,mbps\n"),
        (
            "newer.down",
            b"# alcc packet log 2\n1.000 - 1500 0.500 0 1\n",
        ),
        ("mixed.csv", b"seconds,mbps\n0,5\n1,6 kbit\n"),
        ("back.csv", b"seconds,mbps\n0,5\n2,6\n1,7\n"),
        ("cut.csv", b"seconds,mbps\n0,5\n1"),
        ("nan.csv", b"seconds,mbps\n0,5\n1,nan\n"),
        ("silent.csv", b"seconds,mbps\n0,0\n1000000000,0\n"),
        ("cut.json", b"{\"intervals\": [{\"sum\": {\"sta"),
        ("packed.gz", &[0x1f, 0x8b, 8, 0]),
        ("script.sh", b"#!/nosuch/interpreter\n"),
    ] {
        fs::write(dir.path().join(name), content).unwrap();
    }
    let script = dir.path().join("script.sh");
    fs::set_permissions(script, fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(dir.path().join("dir")).unwrap();
    fs::create_dir(dir.path().join("runtime")).unwrap();
    dir
}

fn alcc<W: AsRef<OsStr>>(dir: &Path, words: impl IntoIterator<Item = W>) -> Output {
    let words: Vec<_> = words.into_iter().collect();
    let first = match &words[..] {
        [help, of, ..] if help.as_ref() == "help" => Some(of),
        words => words.first(),
    };
    let first = first.and_then(|word| word.as_ref().to_str());
    // Of the commands that both have, these transports are the laboratory's.
    let is_lab = words
        .iter()
        .any(|word| ["udp", "quic"].iter().any(|name| word.as_ref() == *name));
    let found = if is_lab {
        built("alcc-lab")
    } else {
        program(first.unwrap_or_default())
    };
    Command::new("timeout")
        .arg("10")
        .arg(found)
        .args(words)
        .current_dir(dir)
        .env("XDG_RUNTIME_DIR", dir.join("runtime"))
        .env_remove("ALCC_TRACES")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// Difference between the answer and the expected one, if any.
fn look(line: &str, output: &Output, status: i32, part: &str) -> Option<String> {
    let said = String::from_utf8_lossy(&output.stderr);
    let one_line = ["alcc: ", "alcc-lab: "]
        .iter()
        .any(|who| said.starts_with(who))
        && said.lines().count() == 1;
    let good = output.status.code() == Some(status)
        && one_line
        && said.contains(part)
        // A path that leads nowhere is explained, not numbered.
        && !["(os error 2)", "(os error 21)"].iter().any(|n| said.contains(n))
        && output.stdout.is_empty();
    (!good).then(|| {
        format!(
            "alcc {line}: {} (not {status}, '{part}'): {said}",
            output.status
        )
    })
}

#[test]
fn a_wrong_command_line_is_answered_in_one_line() {
    let dir = folder();
    let _alone = crate::controls::lock();
    // Whoever runs the tests may have loaded some: 'alcc bpf load'.
    let before = crate::controls::registered();
    let all = WRONG.iter().map(|(line, part)| (line, part, 2));
    let all = all.chain(FAILED.iter().map(|(line, part)| (line, part, 1)));
    let wrong: Vec<String> = all
        .filter_map(|(line, part, status)| {
            let words = line.split_whitespace();
            let words = words.map(|word| word.strip_suffix("EMPTY").unwrap_or(word));
            let output = alcc(dir.path(), words);
            look(line, &output, status, part)
        })
        .collect();
    assert!(wrong.is_empty(), "{}\n{}", wrong.len(), wrong.join("\n"));
    assert!(
        !dir.path().join("began").exists(),
        "CMD was started although its report cannot be written"
    );
    let trace = fs::read(dir.path().join("good.trace")).unwrap();
    assert_eq!(trace, b"1\n2\n3\n", "what was read was overwritten");
    let remaining: Vec<String> = crate::controls::registered()
        .into_iter()
        .filter(|c| !before.contains(c))
        .collect();
    assert!(remaining.is_empty(), "left loaded: {remaining:?}");
}

/// BUSY is an address in use by a listener, SOCKET a path in use by a listener.
const TAKEN: &[&str] = &[
    "run --metrics BUSY -- touch began",
    "run --metrics ./SOCKET -- touch began",
    "trial --metrics BUSY -- touch began",
    "proxy --listen BUSY --to 127.0.0.1:1",
    "proxy --listen :0 --to 127.0.0.1:1 --metrics BUSY",
    "top --web BUSY",
    "emulate --control BUSY -- touch began",
    "recv --bind 127.0.0.1 --port PORT",
    "recv --bind 127.0.0.1 --port PORT --transport in-band",
    "trace record --listen BUSY",
];

#[test]
fn a_port_that_is_taken_is_named_with_what_helps() {
    let dir = folder();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let busy = listener.local_addr().unwrap();
    let _recorder = UdpSocket::bind(busy).unwrap();
    let _socket = UnixListener::bind(dir.path().join("taken")).unwrap();
    let wrong: Vec<String> = TAKEN
        .iter()
        .filter_map(|line| {
            let line = line
                .replace("BUSY", &busy.to_string())
                .replace("PORT", &busy.port().to_string())
                .replace("SOCKET", "taken");
            let output = alcc(dir.path(), line.split_whitespace());
            let name = if line.contains("taken") {
                "taken".to_owned()
            } else {
                busy.to_string()
            };
            let helps = "stop the program that listens there, or choose another";
            look(&line, &output, 2, helps).or_else(|| look(&line, &output, 2, &name))
        })
        .collect();
    assert!(wrong.is_empty(), "{}\n{}", wrong.len(), wrong.join("\n"));
    assert!(!dir.path().join("began").exists());
    // The path is still theirs.
    assert!(UnixStream::connect(dir.path().join("taken")).is_ok());
}

#[test]
fn every_command_is_misused() {
    assert!(WRONG.len() >= 100, "{}", WRONG.len());
    let dir = folder();
    let forgotten: Vec<_> = commands(&dir.path().join("pages"))
        .into_iter()
        .filter(|command| {
            let begins = |line: &str| line == command || line.starts_with(&format!("{command} "));
            !WRONG.iter().any(|(line, _)| begins(line))
        })
        .collect();
    assert!(forgotten.is_empty(), "{forgotten:?}");
}

#[test]
fn a_file_need_not_have_a_name_in_utf_8() {
    let dir = folder();
    let odd = OsStr::from_bytes(b"caf\xe9.trace");
    fs::copy(dir.path().join("good.trace"), dir.path().join(odd)).unwrap();
    let word = OsStr::new;
    let lines: [&[&OsStr]; 5] = [
        &[word("trace"), word("stats"), odd],
        &[
            word("trace"),
            word("convert"),
            odd,
            word("--to"),
            word("rates"),
            word("--bin"),
            word("1ms"),
        ],
        &[
            word("trace"),
            word("combine"),
            odd,
            word("--output"),
            OsStr::from_bytes(b"\xff.trace"),
        ],
        &[
            word("trace"),
            word("plot"),
            odd,
            word("--output"),
            OsStr::from_bytes(b"\xff.html"),
        ],
        &[
            word("compare"),
            word("--sim"),
            word("--traces"),
            odd,
            word("--schemes"),
            word("cubic"),
            word("--duration"),
            word("1s"),
            word("--out"),
            OsStr::from_bytes(b"\xff"),
        ],
    ];
    for line in lines {
        let output = alcc(dir.path(), line);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{line:?}: {said}");
    }
    // Where only text will do, the word is named.
    let output = alcc(dir.path(), [word("sim"), word("--link"), odd]);
    assert_eq!(
        look("sim", &output, 2, "caf\u{fffd}.trace' is not UTF-8"),
        None
    );
}

/// A name may have a line break; an error still is one line.
#[test]
fn a_line_break_in_a_word_makes_no_second_line() {
    let dir = folder();
    for line in [
        &["run", "--", "no\nsuch"][..],
        &["sim", "--flow", "cubic\nreno"],
        &["sim", "--link", "a\nb"],
        &["run", "--config", "new\nline", "--", "true"],
    ] {
        let output = alcc(dir.path(), line);
        assert_eq!(look(&line.join(" "), &output, 2, "\\n"), None);
    }
}

/// A library in LD_PRELOAD that lacks a symbol is an error of that library, not of alcc.
#[test]
fn somebody_elses_library_that_is_missing_is_no_error_of_ours() {
    let dir = folder();
    let output = Command::new(built("alcc"))
        .args(["run", "--", "true"])
        .current_dir(dir.path())
        .env("XDG_RUNTIME_DIR", dir.path().join("runtime"))
        .env("LD_PRELOAD", "/no-such-library.so")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("alcc: budget controls"), "{said}");
}

#[test]
fn help_goes_to_standard_output() {
    let dir = folder();
    for line in [
        "--help",
        "help",
        "help --help",
        "help trace --help",
        "sim --help",
        "ctl off --help",
        "--version",
    ] {
        let output = alcc(dir.path(), line.split_whitespace());
        assert_eq!(output.status.code(), Some(0), "{line}");
        assert!(
            !output.stdout.is_empty() && output.stderr.is_empty(),
            "{line}"
        );
    }
}

/// Options that moved to the other program are answered with its name.
#[test]
fn names_of_the_other_program_are_answered_with_it() {
    let dir = folder();
    let elsewhere = alcc_cli::ALCC.elsewhere.iter();
    let mut cases: Vec<_> = elsewhere
        .map(|name| {
            (
                "alcc",
                (*name).to_owned(),
                format!("type 'alcc-lab {name}'"),
            )
        })
        .collect();
    for name in ["run", "attach", "bpf", "top", "doctor"] {
        let case = (
            "alcc-lab",
            format!("{name} --json"),
            format!("type 'alcc {name}'"),
        );
        cases.push(case);
    }
    for (line, part) in [
        ("send --transport udp 127.0.0.1", "type 'alcc-lab send'"),
        ("recv --transport=quic", "type 'alcc-lab recv'"),
        ("run --cc c4 -- true", "--plugin libalcc_lab.so"),
        (
            "run --cc verus:profile=original -- true",
            "--plugin libalcc_lab.so",
        ),
        ("help sim", "type 'alcc-lab sim'"),
    ] {
        cases.push(("alcc", line.to_owned(), part.to_owned()));
    }
    let wrong: Vec<_> = cases
        .iter()
        .filter_map(|(program, line, part)| {
            let mut command = Command::new(built(program));
            command.args(line.split(' ')).current_dir(dir.path());
            look(line, &command.output().unwrap(), 2, part)
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
