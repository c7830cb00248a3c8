// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Wrong command lines: one line that names what is wrong and what would be right, and status 2.
use super::ALCC;
use super::streams::commands;
use std::ffi::OsStr;
use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// What is typed, and what the answer has to contain. In the folder are good.trace, bad.trace (a
/// word in line 2), empty.trace, random.bin, bad.toml, notes.txt and a folder `dir`.
const WRONG: &[(&str, &str)] = &[
    ("nosuch", "'nosuch'"),
    ("smi", "'smi'"),
    ("bpf", "load, status or unload"),
    ("ctl", "off, on, reload or cc"),
    ("ctl --json", "off, on, reload or cc"),
    ("trace", "stats, convert"),
    ("mdi", "train or validate"),
    ("sim --cc budget", "--flow budget"),
    ("sweep --cc budget --vary rtt=1ms,2ms", "--flow budget"),
    ("compare --sim --cc budget", "--schemes cubic,alcc-budget"),
    ("reproduce verus-fig11a --full", "--emu --full"),
    ("reproduce verus-fig11a --cells a=b", "--emu --cells"),
    ("reproduce --applications dir", "--emu --full"),
    ("reproduce --live x", "--board DIR"),
    ("sim --flwo verus", "'--flow'"),
    ("sim --seed -1", "'-1': want a whole number"),
    ("sim --seed x", "want a whole number"),
    ("sim --seed 99999999999999999999", "too large"),
    ("sim --duration -1s", "'-1s' is not a length of time"),
    ("sim --duration 10", "such as 20ms"),
    ("sim --duration 0s", "above 0"),
    ("sim --duration 1e99s", "'1e99s'"),
    ("sim --link -5mbit", "'-5mbit' is not a rate"),
    ("sim --link 0mbit", "above 0"),
    ("sim --link 5", "such as 12mbit"),
    ("sim --link nosuch.trace", "scenarios are"),
    (
        "sim --link bad.trace",
        "read trace bad.trace: line 2: 'x' is not a time",
    ),
    ("sim --link empty.trace", "holds no delivery opportunity"),
    ("sim --link dir", "it is a folder"),
    ("sim --link random.bin", "line 1"),
    ("sim --rtt -40ms", "'-40ms'"),
    ("sim --loss 2", "0% to 100%"),
    ("sim --loss -1%", "'-1%'"),
    ("sim --queue nope", "there are droptail"),
    ("sim --queue droptail:byte=1", "did you mean bytes?"),
    ("sim --queue droptail:bytes=x", "bytes=x"),
    ("sim --queue red:min=5,max=1", "min below max"),
    ("sim --flow nope", "no algorithm 'nope': there are"),
    ("sim --flow cubci", "did you mean cubic?"),
    ("sim --flow verus:r=0", "r=0: want"),
    ("sim --flow 0*cubic", "'0' flows"),
    ("sim --flow cubic/over=nope", "'nope'"),
    ("sim --flow cubic@5s-1s", "later than it starts"),
    ("sim --flow cubic/dir=sideways", "write dir=up"),
    ("sim --step 5s", "'5s'"),
    (
        "sim --steps nosuch.csv",
        "nosuch.csv: there is no such file",
    ),
    ("sim --repeat 0s", "above 0"),
    ("sim --jitter -5us", "'-5us'"),
    ("sim nosuch.toml", "nosuch.toml: there is no such file"),
    ("sim bad.toml", "bad.toml:1"),
    ("sim random.bin", "random.bin: it is no text"),
    ("sim dir", "dir: it is a folder"),
    ("sim a.toml b.toml", "'b.toml'"),
    ("sim --series /nosuch/x", "/nosuch/x: there is no such"),
    ("sim --series dir", "dir: it is a folder"),
    ("sim --pcap /nosuch/x", "/nosuch/x: there is no such"),
    ("sim --pcap x --pcap-at nowhere", "'nowhere'"),
    ("sim --qlog /nosuch/x", "/nosuch/x: there is no such"),
    ("sim --emu --series x", "'--series <FILE>'"),
    ("sim --plugin nosuch.so", "nosuch.so"),
    ("sim --plugin notes.txt", "notes.txt"),
    ("list extra", "'extra'"),
    ("list --plugin nosuch.so", "nosuch.so"),
    ("run", "<CMD>"),
    ("run --", "<CMD>"),
    ("run -- nosuch-program", "nosuch-program"),
    ("run -- ./good.trace", "no permission"),
    ("run --cc nope -- true", "no algorithm 'nope'"),
    ("run --cc verus:q=1 -- true", "'q'"),
    ("run --cc verus: -- true", "'verus:'"),
    ("run --under nope -- true", "this kernel has"),
    ("run --feedback nope -- true", "'nope'"),
    ("run --enforce nope -- true", "'nope'"),
    ("run --enforce pacing --cc cubic -- true", "gate+pacing"),
    ("run --share all -- true", "'all'"),
    ("run --share host --cc verus -- true", "verus cannot share"),
    (
        "proxy --listen :0 --to 127.0.0.1:1 --share host --cc sprout",
        "sprout cannot share",
    ),
    ("run --json-out /nosuch/x -- touch began", "/nosuch/x"),
    ("run --json-out dir -- touch began", "it is a folder"),
    ("run --json-out", "'--json-out <FILE>'"),
    ("run --log good.trace -- touch began", "name a folder"),
    ("run --metrics /nosuch/x -- touch began", "/nosuch/x"),
    ("run --metrics ./dir -- touch began", "is a folder"),
    (
        "run --only 99999 -- true",
        "99999 is no port: write 1 to 65535",
    ),
    ("run --only 0 -- true", "0 is no port"),
    ("run --only 10.0.0.0/40 -- true", "10.0.0.0/40"),
    ("run --except 0 -- true", "0 is no port"),
    ("run --config nosuch.toml -- true", "there is no such file"),
    ("run --config bad.toml -- true", "bad.toml:1"),
    ("run --config dir -- true", "it is a folder"),
    ("run --json x -- true", "'--json=<FILE>'"),
    (
        "run --json=/nosuch/x -- touch began",
        "/nosuch/x: there is no such",
    ),
    ("run --json=dir -- touch began", "it is a folder"),
    ("run --log good.trace -- touch began", "good.trace"),
    ("run --log good.trace/x -- touch began", "good.trace/x"),
    ("run --metrics x:y -- true", "127.0.0.1:9101"),
    ("run --metrics :99999 -- true", "':99999'"),
    ("run --metrics /nosuch/sock -- touch began", "/nosuch/sock"),
    ("run --seed -1 -- true", "want a whole number"),
    ("proxy", "--to <HOST:PORT>"),
    ("proxy --listen x --to y", "'x'"),
    ("proxy --listen :99999 --to 127.0.0.1:1", "':99999'"),
    ("proxy --listen 1.2.3.4:80 --to 127.0.0.1:1", "1.2.3.4:80"),
    ("proxy --listen :0 --to 127.0.0.1", "host:port"),
    ("proxy --listen :0 --to 127.0.0.1:0", "host:port"),
    ("proxy --listen :0 --to 127.0.0.1:1 --threads 0", "1..=1024"),
    (
        "proxy --listen :0 --to 127.0.0.1:1 --backlog 0",
        "0 is not in",
    ),
    (
        "proxy --listen :0 --to 127.0.0.1:1 --queue 0",
        "want at least 1",
    ),
    (
        "proxy --listen :0 --to 127.0.0.1:1 --json=/nosuch/x",
        "/nosuch/x",
    ),
    (
        "proxy --listen :0 --to 127.0.0.1:1 --proxy-protocol v3",
        "v1 or v2",
    ),
    (
        "proxy --listen :0 --to 127.0.0.1:1 --cc nope",
        "no algorithm 'nope'",
    ),
    ("proxy --listen :0 --to 127.0.0.1:1 --grace x", "'x'"),
    (
        "proxy --listen :0 --to 127.0.0.1:1 --connect-timeout 0s",
        "above 0",
    ),
    (
        "proxy --listen :0 --to 127.0.0.1:1 --only 0",
        "0 is no port",
    ),
    (
        "proxy --listen :0 --to 127.0.0.1:1 --html x",
        "--trial <SHARE>",
    ),
    (
        "proxy --listen :0 --to 127.0.0.1:1 --trial 10% --html /nosuch/x",
        "/nosuch/x",
    ),
    (
        "proxy --listen :0 --to 127.0.0.1:1 --threads 99999999999",
        "1..=1024",
    ),
    ("reproduce --jobs 0 alcc-fig5", "1..=1024"),
    ("sweep --jobs 0 --vary rtt=20ms,40ms", "1..=1024"),
    ("mdi train --jobs 100000", "1..=1024"),
    (
        "trace convert good.trace --to rates --bin 100h",
        "longer than the trace",
    ),
    ("run --plugin dir -- true", "dir: "),
    ("trial --share 10%@x -- true", "'10%@x'"),
    ("send --size 5parsec 127.0.0.1", "such as 2000000"),
    ("detach --pid 1 --cc copa", "'--cc'"),
    ("bpf load --door notes.txt", "notes.txt"),
    ("attach --port 0 --cc copa", "0 is not in"),
    ("attach --port 80 --cc nope", "nope"),
    ("attach --port 80 --cc sprout:nope=1", "no option 'nope'"),
    ("attach --port 80 --cc alcc_window", "no algorithm"),
    (
        "attach --port 80 --cc sprout --plugin nosuch.so",
        "nosuch.so",
    ),
    ("attach --port 80 --cc sprout --trial 10%", "in the kernel"),
    ("detach --port 0", "0 is not in"),
    ("ctl nope", "'nope'"),
    ("ctl cc", "<A>"),
    ("ctl cc nope", "no algorithm 'nope'"),
    ("ctl --run x off", "want a whole number"),
    ("ctl off --port 0", "0 is not in"),
    ("ctl off --peer 80", "--port"),
    ("ctl reload", "<FILE>"),
    ("ctl reload nosuch.toml", "there is no such file"),
    ("ctl reload bad.toml", "bad.toml:1"),
    ("ctl reload half.toml", "no 'cc' in it"),
    ("ctl on --peer 300%", "'300%'"),
    ("detach --pid x", "'x'"),
    ("attach --cc copa", "--port"),
    ("bpf nosuch", "'nosuch'"),
    ("bpf load extra", "'extra'"),
    ("bpf status extra", "'extra'"),
    ("bpf unload --port 1", "'--port'"),
    ("doctor --nosuch", "'--nosuch'"),
    ("doctor --json=x", "'x'"),
    ("trial", "<CMD>"),
    ("trial --share 101% -- true", "'101%'"),
    ("trial --worse 20 -- true", "write 20%"),
    ("trial --interval 0s -- true", "above 0"),
    ("trial --html /nosuch/x -- touch began", "/nosuch/x"),
    ("trial --html dir -- touch began", "it is a folder"),
    ("trial --json-out /nosuch/x -- touch began", "/nosuch/x"),
    ("trial --transfers /nosuch/x -- touch began", "/nosuch/x"),
    ("sweep --vary flow", "'flow'"),
    ("sweep --vary nosuch=1,2", "nosuch"),
    ("sweep --starts 0 --vary rtt=20ms,40ms", "at least 1"),
    (
        "sweep nosuch.toml --vary rtt=20ms,40ms",
        "there is no such file",
    ),
    ("reproduce nosuch", "nosuch"),
    ("reproduce --emu --cells x=1 alcc-fig5", "no axis 'x'"),
    (
        "reproduce --emu --cells trace alcc-fig5",
        "trace=highwayGold",
    ),
    ("reproduce --emu --results . alcc-fig5", "add --full"),
    ("reproduce --all extra", "'--all'"),
    ("reproduce nosuch.toml", "nosuch.toml"),
    ("trace calibrate --traces good.trace", "good.trace"),
    ("mdi train --grid 0", "2048 states"),
    ("mdi train --seeds 3..1", "'3..1'"),
    ("mdi train --cut 2", "'2'"),
    ("mdi train --add nowhere", "nowhere"),
    ("mdi validate --link nowhere", "nowhere"),
    ("mdi validate --teacher nobody", "'nobody'"),
    ("trace combine", "<TRACE>"),
    ("trace convert", "<INPUT>"),
    ("trace plot", "<TRACE>"),
    ("trace record --mode nosuch 127.0.0.1", "'nosuch'"),
    (
        "proxy --listen :0 --to 127.0.0.1:1 --config bad.toml",
        "bad.toml:1",
    ),
    (
        "proxy --listen :0 --to 127.0.0.1:1 --config under.toml",
        "the proxy takes one for all",
    ),
    ("top --interval 0s", "above 0"),
    ("top --interval -1s", "'-1s'"),
    ("top --web 0.0.0.0:9103", "127.0.0.1:9102"),
    ("top --web 127.0.0.1:0 --once", "'--once'"),
    ("top --sort nope", "rate, bytes"),
    ("log --duration 0s", "above 0"),
    ("emulate", "<CMD>"),
    ("emulate --delay -5ms -- true", "'-5ms'"),
    ("emulate --delay 20 -- true", "ms, s, min (or m) or h"),
    ("emulate --down -5mbit -- true", "'-5mbit' is not a rate"),
    ("emulate --down 0mbit -- true", "above 0"),
    ("emulate --down nosuch -- true", "scenarios are"),
    ("emulate --down bad.trace -- true", "line 2"),
    ("emulate --down 12 -- true", "such as 12mbit"),
    ("emulate --dns 192.0.2.53 -- true", "--internet"),
    ("emulate --internet --dns x -- true", "'x'"),
    ("emulate --control 0.0.0.0:1 -- true", "127.0.0.1:9102"),
    (
        "emulate --control 127.0.0.1:0 --step 1s:delay=1ms -- true",
        "'--step <STEP>'",
    ),
    ("emulate --queue nope -- true", "there are droptail"),
    ("emulate --loss -1% -- true", "'-1%'"),
    ("emulate --step x -- true", "'x'"),
    ("emulate --step 1s:rate=1mbit -- true", "no bottleneck"),
    ("emulate --json-out /nosuch/x -- touch began", "/nosuch/x"),
    ("emulate --json-out dir -- touch began", "it is a folder"),
    (
        "emulate --log /nosuch/x -- touch began",
        "/nosuch/x.down: there is no such file or folder",
    ),
    (
        "proxy --listen :0 --to 127.0.0.1:1 --json-out /nosuch/x",
        "/nosuch/x",
    ),
    (
        "proxy --listen :0 --to 127.0.0.1:1 --log good.trace",
        "name a folder",
    ),
    ("sim --series /nosuch/x", "/nosuch/x"),
    ("sim --pcap /nosuch/x", "/nosuch/x"),
    ("sim --qlog dir", "it is a folder"),
    ("demo --out good.trace", "name a folder"),
    ("mdi train --output /nosuch/x", "/nosuch/x"),
    ("reproduce alcc-fig5 --out good.trace", "name a folder"),
    (
        "sweep --vary rtt=20ms,40ms --out good.trace",
        "name a folder",
    ),
    ("send", "<HOST>"),
    ("send --size x 127.0.0.1", "'x'"),
    ("send --size -5 127.0.0.1", "'-5'"),
    (
        "send --size 1k --duration 1s 127.0.0.1",
        "'--duration <TIME>'",
    ),
    ("send --duration 0s 127.0.0.1", "above 0"),
    (
        "send --file nosuch 127.0.0.1",
        "nosuch: there is no such file",
    ),
    ("send --file dir 127.0.0.1", "it is a folder"),
    ("send --rate 0mbit 127.0.0.1", "above 0"),
    ("send --flows 0 127.0.0.1", "want at least 1"),
    ("send --flows 99999 127.0.0.1", "too large"),
    ("send --port 0 127.0.0.1", "0 is not in"),
    ("send 127.0.0.1:0", "'127.0.0.1:0'"),
    ("send --transport nope 127.0.0.1", "tcp, in-band"),
    ("send --cc nope 127.0.0.1", "no algorithm 'nope'"),
    ("send --under nope 127.0.0.1", "this kernel has"),
    ("send --transport udp 127.0.0.1", "--cc verus"),
    ("send --transport quic --pin x 127.0.0.1", "'x'"),
    (
        "send --series /nosuch/x 127.0.0.1",
        "/nosuch/x: there is no such",
    ),
    ("send --stall 0s 127.0.0.1", "above 0"),
    ("send --connect-timeout 0s 127.0.0.1", "above 0"),
    ("recv --port 99999", "99999 is not in"),
    ("recv --count 0", "want at least 1"),
    ("recv --connections 0", "want at least 1"),
    ("recv --once --count 2", "'--count <N>'"),
    ("recv --overwrite", "--out"),
    ("recv --out /nosuch/x", "/nosuch/x"),
    ("recv --out good.trace", "--overwrite"),
    ("recv --out - --json", "give a file"),
    ("recv --out x --count 2", "--count"),
    ("recv --bind x", "'x'"),
    ("recv --bind 1.2.3.4", "1.2.3.4"),
    ("recv --max-size 0", "above 0"),
    ("recv --stall 0s", "above 0"),
    ("recv --series /nosuch/x", "/nosuch/x"),
    ("recv --cert nosuch.pem", "--key"),
    ("compare --traces good.trace", "--sim|--emu"),
    (
        "compare --sim --traces nosuch",
        "nosuch: there is no such file",
    ),
    ("compare --sim --traces dir", "the folders hold none"),
    ("compare --sim --traces 0mbit", "above 0"),
    ("compare --sim --traces good.trace --schemes nope", "'nope'"),
    (
        "compare --sim --traces good.trace --duration 0s",
        "1s to 3600s",
    ),
    ("compare --sim --traces good.trace --runs 0", "0 is not in"),
    (
        "compare --sim --traces good.trace --out good.trace",
        "name a folder",
    ),
    (
        "compare --sim --traces good.trace --csv /nosuch/x",
        "/nosuch/x",
    ),
    (
        "compare --sim --traces good.trace --reference nosuch",
        "nosuch",
    ),
    ("demo --trace nosuch", "nosuch"),
    ("demo --duration 0s", "1s to 3600s"),
    ("trace nope", "'nope'"),
    ("trace stats", "<TRACE>"),
    ("trace stats nosuch", "scenarios are"),
    ("trace stats bad.trace", "read trace bad.trace: line 2"),
    ("trace stats dir", "it is a folder"),
    ("trace stats synth:nope", "'nope'"),
    ("trace synth rapid --length 0s", "above 0"),
    ("trace synth rapid --length 100min", "1ms to 3600s"),
    ("trace synth rapid --output /nosuch/x", "/nosuch/x"),
    ("trace convert nosuch --from rates", "there is no such file"),
    ("trace convert random.bin --from rates", "it is no text"),
    ("trace convert good.trace --to packets", "--to mahimahi"),
    ("trace convert good.trace --to rates --bin 0s", "above 0"),
    ("trace convert good.trace --unit h", "ns, us, ms, s"),
    ("trace combine good.trace --scale -1", "factor -1"),
    ("trace combine good.trace --scale x", "want a number"),
    (
        "trace combine good.trace --from 100s",
        "take a longer piece",
    ),
    ("trace calibrate --traces nosuch", "no such folder"),
    ("trace plot good.trace --bin 0s", "above 0"),
    ("trace plot good.trace --bin 1500us", "whole milliseconds"),
    ("trace record", "<HOST>"),
    ("generate", "--out <DIR>"),
    ("generate --out good.trace", "name a folder"),
];

/// The same, for what was right but did not succeed: status 1.
const FAILED: &[(&str, &str)] = &[
    ("sim --max-events 1000", "given up after 1001 events"),
    ("send --size 1k 127.0.0.1:1", "nobody listens there"),
    ("top --once --run 1", "'alcc run'"),
    ("log --run 1", "'alcc run'"),
    ("ctl --run 1 off", "'alcc run'"),
    ("trace plot rapid --output /dev/full", "no space is left"),
];

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
        ("notes.txt", b"nonsense"),
    ] {
        fs::write(dir.path().join(name), content).unwrap();
    }
    fs::create_dir(dir.path().join("dir")).unwrap();
    fs::create_dir(dir.path().join("runtime")).unwrap();
    dir
}

fn alcc<W: AsRef<OsStr>>(dir: &Path, words: impl IntoIterator<Item = W>) -> Output {
    Command::new("timeout")
        .args(["10", ALCC])
        .args(words)
        .current_dir(dir)
        .env("XDG_RUNTIME_DIR", dir.join("runtime"))
        .env_remove("ALCC_TRACES")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// What is wrong with the answer.
fn look(line: &str, output: &Output, status: i32, part: &str) -> Option<String> {
    let said = String::from_utf8_lossy(&output.stderr);
    let one_line = said.starts_with("alcc: ") && said.lines().count() == 1;
    let good = output.status.code() == Some(status)
        && one_line
        && said.contains(part)
        // A path that leads nowhere is explained, not numbered.
        && (!said.contains("(os error 2)") || line.contains("--plugin"))
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
    let all = WRONG.iter().map(|(line, part)| (line, part, 2));
    let all = all.chain(FAILED.iter().map(|(line, part)| (line, part, 1)));
    let wrong: Vec<String> = all
        .filter_map(|(line, part, status)| {
            let output = alcc(dir.path(), line.split_whitespace());
            look(line, &output, status, part)
        })
        .collect();
    assert!(wrong.is_empty(), "{}\n{}", wrong.len(), wrong.join("\n"));
    assert!(
        !dir.path().join("began").exists(),
        "CMD was started although its report cannot be written"
    );
    // No test that loads them runs beside this one.
    let controls = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    let controls = fs::read_to_string(controls).unwrap_or_default();
    assert!(!controls.contains("alcc_"), "left loaded: {controls}");
}

/// BUSY is an address where somebody listens, SOCKET a path where somebody does.
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
            let helps = "stop what listens there, or choose another";
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

/// What another library of LD_PRELOAD lacks is not ours.
#[test]
fn somebody_elses_library_that_is_missing_is_no_error_of_ours() {
    let dir = folder();
    let output = Command::new(ALCC)
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
