// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--resume` through a relay on loopback that cuts connections, or lets one end hang.
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const ALCC: &str = env!("CARGO_BIN_EXE_alcc");
const SIZE: usize = 3_000_001;

#[derive(Clone, Copy)]
enum How {
    /// Both ends are notified.
    Cut,
    /// The receiver is not notified, as after a change of network.
    Hang,
}

/// Relays the planned number of bytes of each connection in turn, then everything.
fn relay(to: u16, plan: &[(usize, How)]) -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut plan: VecDeque<_> = plan.iter().copied().collect();
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    std::thread::spawn(move || {
        let hung = Arc::new(Mutex::new(Vec::new()));
        for client in listener.incoming() {
            let (Ok(client), Ok(server)) = (client, TcpStream::connect(("127.0.0.1", to))) else {
                continue;
            };
            counted.fetch_add(1, Ordering::Relaxed);
            let step = plan.pop_front();
            let back = (server.try_clone().unwrap(), client.try_clone().unwrap());
            std::thread::spawn(move || copy(back.0, &back.1, usize::MAX));
            let hung = Arc::clone(&hung);
            std::thread::spawn(move || {
                let most = step.map_or(usize::MAX, |step| step.0);
                let ended = copy(client.try_clone().unwrap(), &server, most);
                if let (Some((_, how)), false) = (step, ended) {
                    let _ = client.shutdown(Shutdown::Both);
                    match how {
                        How::Cut => drop(server.shutdown(Shutdown::Both)),
                        How::Hang => hung.lock().unwrap().push(server),
                    }
                }
            });
        }
    });
    (port, count)
}

/// Copies until the end (then true) or at most `most` bytes.
fn copy(mut from: TcpStream, mut to: &TcpStream, most: usize) -> bool {
    let (mut buffer, mut remaining) = ([0; 16_384], most);
    while remaining > 0 {
        let most = remaining.min(buffer.len());
        match from.read(&mut buffer[..most]) {
            Ok(n) if n > 0 && to.write_all(&buffer[..n]).is_ok() => remaining -= n,
            _ => {
                let _ = to.shutdown(Shutdown::Write);
                return true;
            }
        }
    }
    false
}

/// A receiver, and its port.
fn recv(folder: &tempfile::TempDir, args: &[&str]) -> (Child, u16) {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let err = folder.path().join("err");
    let child = Command::new(ALCC)
        .args(["recv", "--bind", "127.0.0.1", "--port", &port.to_string()])
        .args(args)
        .stdout(Stdio::piped())
        .stderr(std::fs::File::create(&err).unwrap())
        .spawn()
        .unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    while !std::fs::read_to_string(&err).unwrap().contains("listening") {
        assert!(Instant::now() < until);
        std::thread::sleep(Duration::from_millis(10));
    }
    (child, port)
}

fn send(port: u16, args: &[&str]) -> Output {
    let to = format!("127.0.0.1:{port}");
    let mut command = Command::new(ALCC);
    command.arg("send").args(args).arg(to).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A folder with a file to be sent.
fn file() -> (tempfile::TempDir, Vec<u8>, String) {
    let folder = tempfile::tempdir().unwrap();
    let content: Vec<u8> = (0..SIZE).map(|i| (i * i / 11) as u8).collect();
    let sent = folder.path().join("sent");
    std::fs::write(&sent, &content).unwrap();
    let sent = sent.display().to_string();
    (folder, content, sent)
}

#[test]
fn a_file_survives_cuts_and_ends_that_hang() {
    use How::{Cut, Hang};
    let plans: [&[(usize, How)]; 3] = [
        &[
            (1_000_000, Cut),
            (50, Cut),
            (5_000_000, Cut),
            (700_000, Cut),
            (30, Cut),
        ],
        &[(1_000_000, Hang), (5_000_000, Hang), (400_000, Hang)],
        &[],
    ];
    for way in [
        &["--transport", "tcp"][..],
        &["--transport", "in-band", "--cc", "fixed:window=100"],
    ] {
        for plan in plans {
            let (folder, content, sent) = file();
            let got = folder.path().join("got").display().to_string();
            let args = [&way[..2], &["--once", "--resume", "--json", "--out", &got]].concat();
            let (recv, port) = recv(&folder, &args);
            let (port, connections) = relay(port, plan);
            let args = [way, &["--file", &sent, "--resume=20s", "--json"]].concat();
            let out = send(port, &args);
            let heard = text(&std::fs::read(folder.path().join("err")).unwrap());
            assert!(
                out.status.success(),
                "{way:?}: {} {heard}",
                text(&out.stderr)
            );
            let received = recv.wait_with_output().unwrap();
            let heard = text(&std::fs::read(folder.path().join("err")).unwrap());
            assert!(received.status.success(), "{heard}");
            assert!(std::fs::read(&got).unwrap() == content, "{way:?}");
            let json: serde_json::Value = serde_json::from_slice(&received.stdout).unwrap();
            assert_eq!(json["summary"]["transfers"], 1, "{heard}");
            assert_eq!(json["flows"][0]["bytes"], SIZE, "{heard}");
            let cuts = text(&out.stderr).matches("reconnecting").count();
            assert_eq!(cuts > 0, !plan.is_empty(), "{}", text(&out.stderr));
            println!(
                "{way:?}: {} connections",
                connections.load(Ordering::Relaxed)
            );
            let remaining = std::fs::read_dir(folder.path()).unwrap().count();
            assert_eq!(remaining, 3, "sent, got and err; no part of a file");
        }
    }
}

/// A folder for what is received, and its name as `--out` takes it.
fn into(folder: &tempfile::TempDir) -> (std::path::PathBuf, String) {
    let into = folder.path().join("into");
    std::fs::create_dir(&into).unwrap();
    let out = format!("{}/", into.display());
    (into, out)
}

#[test]
fn a_receiver_ended_by_hand_leaves_no_part_behind() {
    let (folder, _, sent) = file();
    let (into, out) = into(&folder);
    let (recv, port) = recv(&folder, &["--transport", "tcp", "--resume", "--out", &out]);
    let (port, _) = relay(port, &[(1_000_000, How::Cut); 40]);
    let sender = send(port, &["--transport", "tcp", "--file", &sent]);
    assert_eq!(sender.status.code(), Some(1), "without --resume it fails");
    let sender = send(
        port,
        &["--transport", "tcp", "--file", &sent, "--resume=1s"],
    );
    assert_eq!(
        sender.status.code(),
        Some(0),
        "1 MB each time: {}",
        text(&sender.stderr)
    );
    assert_eq!(std::fs::read(into.join("received-1")).unwrap().len(), SIZE);
    let pid = nix::unistd::Pid::from_raw(recv.id() as i32);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    let ended = recv.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(1), "one of two failed");
    assert_eq!(std::fs::read_dir(&into).unwrap().count(), 1);
}

#[test]
fn what_cannot_resume_is_refused_in_words() {
    let (folder, _, sent) = file();
    for (args, words) in [
        (&["--resume"][..], "--file"),
        (&["--resume", "--file", "-"], "regular file"),
        (&["--resume=0s", "--file", &sent], "--resume"),
    ] {
        let out = send(9, args);
        assert_eq!(out.status.code(), Some(2), "{args:?}");
        assert!(text(&out.stderr).contains(words), "{}", text(&out.stderr));
    }
    let out = Command::new(ALCC)
        .args(["recv", "--resume", "--out", "-"])
        .output()
        .unwrap();
    assert_eq!(out.status.code(), Some(2));
    assert!(
        text(&out.stderr).contains("--out -"),
        "{}",
        text(&out.stderr)
    );
    // A receiver without it.
    let (mut recv, port) = recv(&folder, &["--transport", "tcp"]);
    let out = send(port, &["--transport", "tcp", "--file", &sent, "--resume"]);
    assert_eq!(out.status.code(), Some(1));
    assert!(
        text(&out.stderr).contains("could not store"),
        "{}",
        text(&out.stderr)
    );
    let heard = || text(&std::fs::read(folder.path().join("err")).unwrap());
    let until = Instant::now() + Duration::from_secs(10);
    while !heard().contains("add --resume") {
        assert!(Instant::now() < until, "{}", heard());
        std::thread::sleep(Duration::from_millis(20));
    }
    recv.kill().unwrap();
    recv.wait().unwrap();
}

/// Waits for a partial file of at least `least` bytes.
fn comes(into: &std::path::Path, least: u64) {
    let until = Instant::now() + Duration::from_secs(60);
    let len = |part: std::io::Result<std::fs::DirEntry>| part.unwrap().metadata().unwrap().len();
    while std::fs::read_dir(into).unwrap().map(len).max() < Some(least) {
        assert!(Instant::now() < until, "nothing came");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A sender in the background.
fn spawn(port: u16, args: &[&str]) -> Child {
    Command::new(ALCC)
        .arg("send")
        .args(args)
        .arg(format!("127.0.0.1:{port}"))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn a_sender_that_was_killed_goes_on_when_it_is_started_again() {
    let (folder, content, sent) = file();
    let (into, out) = into(&folder);
    let (mut recv, port) = recv(&folder, &["--transport", "tcp", "--resume", "--out", &out]);
    let args = ["--transport", "tcp", "--file", &sent, "--resume=30s"];
    let mut first = spawn(port, &[&args[..], &["--rate", "8mbit"]].concat());
    comes(&into, 500_000);
    first.kill().unwrap();
    let said = text(&first.wait_with_output().unwrap().stderr);
    let session = said.lines().find_map(|line| line.split_once("--session "));
    let session = session.expect(&said).1;
    // A transfer that restarted would be cut here.
    let (port, _) = relay(port, &[(10_000, How::Cut), (SIZE - 200_000, How::Cut)]);
    let second = send(port, &[&args[..], &["--session", session]].concat());
    let said = text(&second.stderr);
    assert!(second.status.success(), "{said}");
    assert!(!said.contains("reconnecting"), "{said}");
    assert!(std::fs::read(into.join("received-1")).unwrap() == content);
    assert_eq!(std::fs::read_dir(&into).unwrap().count(), 1);
    recv.kill().unwrap();
    recv.wait().unwrap();
}

/// A receiver keeps nothing after its own end, so all of it comes again.
#[test]
fn a_receiver_that_was_killed_and_started_again_gets_the_file() {
    let (folder, content, sent) = file();
    let (into, out) = into(&folder);
    let how = ["--transport", "tcp", "--resume", "--out", &out];
    let (mut killed, port) = recv(&folder, &how);
    let args = ["--transport", "tcp", "--file", &sent, "--resume=60s"];
    let sender = spawn(port, &[&args[..], &["--rate", "8mbit"]].concat());
    comes(&into, 500_000);
    killed.kill().unwrap();
    killed.wait().unwrap();
    let again = ["recv", "--bind", "127.0.0.1", "--port", &port.to_string()];
    let mut again = Command::new(ALCC).args(again).args(how).spawn().unwrap();
    let ended = sender.wait_with_output().unwrap();
    assert!(ended.status.success(), "{}", text(&ended.stderr));
    assert!(std::fs::read(into.join("received-1")).unwrap() == content);
    again.kill().unwrap();
    again.wait().unwrap();
}

/// A receiver that speaks something else, and holds the connection.
#[test]
fn a_receiver_that_is_none_is_known_by_its_first_word() {
    let (_folder, _, sent) = file();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n");
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
        std::thread::sleep(Duration::from_secs(60));
    });
    let began = Instant::now();
    let args = ["--transport", "tcp", "--file", &sent, "--stall", "30s"];
    let out = send(port, &args);
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(said.contains("not 'alcc recv'"), "{said}");
    assert!(began.elapsed() < Duration::from_secs(20), "{said}");
}

/// It comes with one read, so there is no time to divide by.
#[test]
fn a_file_of_one_read_has_no_rate() {
    let (folder, _, _) = file();
    let (recv, port) = recv(&folder, &["--transport", "tcp", "--once"]);
    let mut flow = b"alccsend\x01\x01\0\0\0\x01\0\0".to_vec();
    flow.extend(0_u64.to_be_bytes());
    flow.extend([0; 16 + 16 + 8]);
    // The trailer of nothing, and the SHA-256 of it.
    flow.extend([0; 4 + 8 + 8]);
    flow.extend([
        0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9,
        0x24, 0x27, 0xae, 0x41, 0xe4, 0x64, 0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52,
        0xb8, 0x55,
    ]);
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(&flow).unwrap();
    let ended = recv.wait_with_output().unwrap();
    let said = text(&ended.stdout);
    assert_eq!(ended.status.code(), Some(0), "{said}");
    assert!(said.contains("SHA-256 e3b0c442"), "{said}");
    assert!(!said.contains("Mbit/s"), "{said}");
}
