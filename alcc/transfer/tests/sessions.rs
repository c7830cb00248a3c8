// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files over connections that are cut, in memory: the vectors' sessions, a sender against a
//! receiver, and both against hostile peers.
use alcc_pipe::{Dialer, Failure, Incoming, Outgoing, Stats, Target};
use alcc_transfer::receiving::{Activity, Disk, Output, Received, Rules, flow};
use alcc_transfer::resuming::Told;
use alcc_transfer::sending::{Job, Sent};
use alcc_transfer::{ANSWER, Answer, Header, Kind, Sessions, Verdict, Writer, resuming};
use serde_json::Value;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const HOUR: Duration = Duration::from_secs(3600);

fn rules(folder: &Path, sessions: Option<Sessions>) -> Rules {
    Rules {
        out: Output::Folder(folder.to_owned()),
        overwrite: false,
        max_size: 1 << 20,
        disk: Arc::new(Disk::new(u64::MAX)),
        stall: Duration::from_secs(5),
        resume: sessions,
        closed: AtomicBool::new(false),
        stop: Arc::default(),
        passed: Box::new(|_, _| {}),
    }
}

fn keeping(folder: &Path) -> Rules {
    rules(folder, Some(Sessions::new(HOUR, 4, 1 << 20)))
}

/// The bytes of one connection, and its end.
struct Bytes {
    bytes: VecDeque<u8>,
    cut: bool,
    answer: Vec<u8>,
}

impl Read for Bytes {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.bytes.is_empty() && self.cut {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        self.bytes.read(into)
    }
}

impl Incoming for Bytes {
    fn peer(&self) -> String {
        "a test".to_owned()
    }

    fn answer(&mut self, bytes: &[u8]) -> io::Result<bool> {
        self.answer = bytes.to_vec();
        Ok(true)
    }
}

fn receive(rules: &Rules, bytes: &[u8], cut: bool) -> (Received, Option<Answer>) {
    let mut pipe = Bytes {
        bytes: bytes.iter().copied().collect(),
        cut,
        answer: Vec::new(),
    };
    let received = flow(&mut pipe, rules, &Activity::default(), |_| {});
    let answer = <[u8; ANSWER]>::try_from(pipe.answer).ok();
    (received, answer.and_then(|bytes| Answer::decode(&bytes)))
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let name = |e: io::Result<std::fs::DirEntry>| e.unwrap().file_name().into_string().unwrap();
    entries.map(name).collect()
}

#[test]
fn sessions_of_the_vectors() {
    let text = include_str!("../../../alcc/transfer/tests/transfer-format-vectors.json");
    let all: Value = serde_json::from_str(text).unwrap();
    let hex = |v: &Value| -> Vec<u8> {
        let hex = v.as_str().unwrap();
        let octet = |i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap();
        (0..hex.len()).step_by(2).map(octet).collect()
    };
    let sessions = all["sessions"].as_array().unwrap();
    assert!(sessions.len() >= 9);
    for session in sessions {
        let folder = tempfile::tempdir().unwrap();
        let rules = keeping(folder.path());
        let name = &session["name"];
        for (i, one) in session["connections"]
            .as_array()
            .unwrap()
            .iter()
            .enumerate()
        {
            let (_, answer) = receive(&rules, &hex(&one["hex"]), one["cut"] == true);
            let verdict = answer.as_ref().map(|a| match a.verdict {
                Verdict::Good => "good",
                Verdict::Damaged => "damaged",
                Verdict::NotKept => "not-kept",
                Verdict::Part => "part",
            });
            assert_eq!(verdict, one["verdict"].as_str(), "{name}, {i}");
            assert_eq!(
                answer.map(|a| a.bytes),
                one["bytes"].as_u64(),
                "{name}, {i}"
            );
        }
        let kept = names(folder.path());
        if session["content"].is_null() {
            assert_eq!(kept, [""; 0], "{name}");
        } else {
            assert_eq!(kept, ["received-1"], "{name}");
            let kept = std::fs::read(folder.path().join("received-1")).unwrap();
            assert_eq!(kept, hex(&session["content"]), "{name}");
        }
    }
}

fn header(session: u8, size: u64, offset: u64) -> Header {
    Header {
        kind: Kind::File,
        flow: 0,
        flows: 1,
        size: Some(size),
        session: [session; 16],
        clock: [0; 16],
        offset: Some(offset),
    }
}

/// Header and blocks of a file that is cut after `bytes` bytes.
fn beginning(session: u8, bytes: usize) -> Vec<u8> {
    let mut all = header(session, 1 << 20, 0).encode().to_vec();
    for block in vec![session; bytes].chunks(60_000) {
        all.extend((block.len() as u32).to_be_bytes());
        all.extend([0; 8]);
        all.extend(block);
    }
    all
}

fn have(rules: &Rules, session: u8) -> u64 {
    let question = Header {
        kind: Kind::Ask,
        ..header(session, 1 << 20, 0)
    };
    let (received, answer) = receive(rules, &question.encode(), false);
    assert_eq!(received.failure, None);
    answer.unwrap().bytes
}

#[test]
fn what_waits_is_bounded_in_number_and_bytes_and_the_shortest_goes() {
    let folder = tempfile::tempdir().unwrap();
    let rules = rules(folder.path(), Some(Sessions::new(HOUR, 3, 250_000)));
    let cut = |session, bytes| receive(&rules, &beginning(session, bytes), true).0;
    assert!(cut(1, 100_000).waits);
    for endless in 10..=255 {
        let waits = cut(endless, 10).waits;
        assert!(names(folder.path()).len() <= 3, "{endless}, {waits}");
    }
    assert_eq!(have(&rules, 1), 100_000, "short ones do not drive it out");
    assert!(cut(2, 100_000).waits);
    assert!(
        !cut(3, 90_000).waits,
        "the shortest of more bytes than are kept"
    );
    assert!(cut(4, 120_000).waits);
    let kept = [1, 2, 3, 4].map(|session| have(&rules, session));
    assert_eq!(
        kept.iter().filter(|bytes| **bytes > 0).count(),
        2,
        "{kept:?}"
    );
    assert_eq!(kept[3], 120_000);
    assert!(!cut(5, 0).waits, "nothing is not kept");
    assert_eq!(names(folder.path()).len(), 2);
    drop(rules);
    assert_eq!(names(folder.path()), [""; 0], "nothing is left behind");
}

#[test]
fn what_waits_too_long_is_forgotten_and_counted() {
    const WAITS: Duration = Duration::from_millis(300);
    let folder = tempfile::tempdir().unwrap();
    let rules = rules(folder.path(), Some(Sessions::new(WAITS, 3, 1 << 20)));
    let began = Instant::now();
    assert!(receive(&rules, &beginning(1, 100), true).0.waits);
    let sessions = rules.resume.as_ref().unwrap();
    let early = sessions.sweep(false);
    assert!(early == 0 || began.elapsed() >= WAITS, "too early");
    std::thread::sleep(WAITS + Duration::from_millis(10));
    assert_eq!(
        (early + sessions.sweep(false), sessions.sweep(false)),
        (1, 0)
    );
    assert_eq!(names(folder.path()), [""; 0]);
    assert_eq!(have(&rules, 1), 0);
}

#[test]
fn a_receiver_that_does_not_resume_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let rules = rules(folder.path(), None);
    let (received, answer) = receive(&rules, &beginning(1, 100), false);
    assert_eq!(answer.unwrap().verdict, Verdict::NotKept);
    assert!(received.failure.unwrap().contains("--resume"));
    assert_eq!(names(folder.path()), [""; 0]);
}

#[test]
fn a_closed_receiver_takes_only_what_it_knows() {
    let folder = tempfile::tempdir().unwrap();
    let rules = keeping(folder.path());
    assert!(receive(&rules, &beginning(1, 100), true).0.waits);
    rules.closed.store(true, Ordering::Relaxed);
    assert_eq!(have(&rules, 1), 100);
    let (_, answer) = receive(&rules, &beginning(2, 100), false);
    assert_eq!(answer.unwrap().verdict, Verdict::NotKept);
}

/// Connections to a receiver, or to a peer with a constant answer.
struct Cutting {
    rules: Arc<Rules>,
    /// Number of bytes after which each connection in turn is cut; after these, none.
    cuts: Mutex<VecDeque<usize>>,
    /// An answer that replaces the receiver's.
    says: Option<Answer>,
    connections: AtomicUsize,
    /// Number of connections after which none is accepted.
    most: usize,
}

struct End {
    rules: Arc<Rules>,
    cut: Option<usize>,
    bytes: Vec<u8>,
    says: Option<Answer>,
    answer: Option<VecDeque<u8>>,
}

impl Dialer for Cutting {
    fn connect(&self, _: &Target, _: u32) -> Result<Box<dyn Outgoing>, Failure> {
        if self.connections.fetch_add(1, Ordering::Relaxed) >= self.most {
            return Err(Failure::failed("nobody answers"));
        }
        Ok(Box::new(End {
            rules: Arc::clone(&self.rules),
            cut: self.cuts.lock().unwrap().pop_front(),
            bytes: Vec::new(),
            says: self.says.clone(),
            answer: None,
        }))
    }
}

impl End {
    /// The receiver gets what was written.
    fn deliver(&mut self, cut: bool) {
        let heard = receive(&self.rules, &self.bytes, cut).1;
        let answer = self.says.take().or(heard);
        let answer = answer.filter(|_| !cut).map(|a| a.encode().to_vec());
        self.answer = Some(answer.unwrap_or_default().into());
    }
}

impl Write for End {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = self.cut.map_or(bytes.len(), |cut| cut - self.bytes.len());
        if room == 0 {
            if self.answer.is_none() {
                self.deliver(true);
            }
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let n = bytes.len().min(room);
        self.bytes.extend(&bytes[..n]);
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Outgoing for End {
    fn room(&mut self) -> io::Result<usize> {
        Ok(7_000)
    }

    fn finish(&mut self) -> io::Result<bool> {
        if self.answer.is_none() {
            self.deliver(false);
        }
        Ok(true)
    }

    fn answer(&mut self, into: &mut [u8]) -> Option<io::Result<usize>> {
        Some(self.answer.as_mut().map_or(Ok(0), |bytes| bytes.read(into)))
    }

    fn stats(&mut self) -> Stats {
        Stats::default()
    }
}

/// Sends a file of `bytes` bytes. Returns the result, the number of connections, and whether the
/// file was kept.
fn send(cutting: &Cutting, folder: &Path, bytes: usize) -> (Sent, usize, Option<bool>) {
    let content: Vec<u8> = (0..bytes).map(|i| (i * i / 7) as u8).collect();
    let path = folder.join("sent");
    std::fs::write(&path, &content).unwrap();
    let file = File::open(&path).unwrap();
    let to = Target {
        host: "test".to_owned(),
        port: 1,
    };
    let at = AtomicU64::new(0);
    let job = Job {
        dialer: cutting,
        to: &to,
        rate: None,
        stall: Duration::from_secs(5),
        stop: &AtomicBool::new(false),
        passed: &|more, _| {
            at.fetch_add(more, Ordering::Relaxed);
        },
    };
    let patience = Duration::from_millis(600);
    let header = header(9, bytes as u64, 0);
    let tell = &mut |told: Told<'_>| {
        if let Told::From(there) = told {
            at.store(there, Ordering::Relaxed);
        }
    };
    let sent = resuming::flow(&job, &header, &file, false, patience, tell);
    // Data lost by a cut is not counted twice.
    let at = at.into_inner();
    assert!(at <= bytes as u64, "{at} of {bytes} bytes");
    std::fs::remove_file(path).unwrap();
    let kept = std::fs::read(folder.join("received-1")).ok();
    let kept = kept.map(|kept| kept == content);
    (sent, cutting.connections.load(Ordering::Relaxed), kept)
}

fn cutting(rules: Rules, cuts: &[usize]) -> Cutting {
    Cutting {
        rules: Arc::new(rules),
        cuts: Mutex::new(cuts.iter().copied().collect()),
        says: None,
        connections: AtomicUsize::new(0),
        most: usize::MAX,
    }
}

/// A whole file without a session, of `size` bytes.
fn file_of(size: usize) -> Vec<u8> {
    let header = Header {
        offset: None,
        size: Some(size as u64),
        ..header(0, 0, 0)
    };
    let mut writer = Writer::new(&header);
    let mut all = header.encode().to_vec();
    writer.space()[..size].fill(7);
    all.extend_from_slice(writer.file(size, 0));
    all.extend_from_slice(&writer.trailer(0).0);
    all
}

/// All files together have a limit, whoever sends them, and a file that is not kept uses none of
/// it.
#[test]
fn the_space_of_all_files_is_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let rules = Rules {
        disk: Arc::new(Disk::new(10_000)),
        ..rules(folder.path(), None)
    };
    for _ in 0..3 {
        let (received, _) = receive(&rules, &file_of(20_000), false);
        let why = received.failure.unwrap();
        assert!(why.contains("--max-total"), "{why}");
        assert_eq!(names(folder.path()), [""; 0]);
    }
    for number in 1..=2 {
        let (received, _) = receive(&rules, &file_of(5_000), false);
        assert_eq!(received.failure, None, "{number}");
    }
    let (received, answer) = receive(&rules, &file_of(1), false);
    assert!(received.failure.is_some());
    assert_eq!(answer.unwrap().verdict, Verdict::NotKept);
    let mut kept = names(folder.path());
    kept.sort();
    assert_eq!(kept, ["received-1", "received-2"]);
}

/// A number that was given is not tried again, and no name of a part can be taken in advance.
#[test]
fn names_are_found_at_once_and_cannot_be_foreseen() {
    let folder = tempfile::tempdir().unwrap();
    let rules = rules(folder.path(), None);
    for number in 1..=3 {
        std::fs::write(
            folder
                .path()
                .join(format!(".received.part-{}-{number}", std::process::id())),
            "",
        )
        .unwrap();
    }
    let keep = || receive(&rules, &file_of(100), false).0.kept.unwrap();
    let at = |number: u32| folder.path().join(format!("received-{number}"));
    std::fs::write(at(1), "").unwrap();
    assert_eq!(keep(), at(2));
    std::fs::remove_file(at(1)).unwrap();
    assert_eq!((keep(), keep()), (at(3), at(4)));
}

#[test]
fn a_file_survives_cuts_wherever_they_are() {
    for cuts in [
        &[][..],
        &[1],
        &[64],
        &[70],
        &[64 + 12 + 3],
        &[20_000, 30, 64, 30_000, 64, 100, 100],
        // All but the last byte of the trailer, and the answer lost.
        &[100_000 + 64 + 15 * 12 + 51],
    ] {
        let folder = tempfile::tempdir().unwrap();
        let cutting = cutting(keeping(folder.path()), cuts);
        let (sent, _, kept) = send(&cutting, folder.path(), 100_000);
        assert!(sent.failure.is_none(), "{cuts:?}: {:?}", sent.failure);
        assert_eq!((sent.bytes, kept), (100_000, Some(true)), "{cuts:?}");
        assert_eq!(sent.answer.unwrap().verdict, Verdict::Good);
        assert_eq!(names(folder.path()), ["received-1"], "{cuts:?}");
    }
}

#[test]
fn an_answer_that_was_lost_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let whole = 1_000 + 64 + 12 + 52;
    let cutting = cutting(keeping(folder.path()), &[whole]);
    // Cut after the last byte: the receiver has everything, and cannot report that.
    let (sent, connections, kept) = send(&cutting, folder.path(), 1_000);
    assert!(
        sent.failure.is_none() && kept == Some(true),
        "{:?}",
        sent.failure
    );
    assert!(connections <= 2);
    assert_eq!(names(folder.path()), ["received-1"], "not a second time");
}

#[test]
fn a_sender_gives_up_in_time_and_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let began = Instant::now();
    let mut first = cutting(keeping(folder.path()), &[]);
    first.most = 0;
    let (sent, connections, _) = send(&first, folder.path(), 1_000);
    assert_eq!(
        (connections, sent.failure.is_some()),
        (1, true),
        "never reached"
    );
    let mut gone = cutting(keeping(folder.path()), &[500]);
    gone.most = 1;
    let (sent, connections, _) = send(&gone, folder.path(), 1_000);
    let why = sent.failure.unwrap().to_string();
    assert!(
        (2..6).contains(&connections) && why.contains("nobody answers"),
        "{why}"
    );
    assert!(began.elapsed() < Duration::from_secs(5));
    let refuses = cutting(rules(folder.path(), None), &[]);
    let (sent, connections, _) = send(&refuses, folder.path(), 1_000);
    assert_eq!(connections, 1, "refused is refused");
    assert!(
        sent.failure
            .unwrap()
            .to_string()
            .contains("could not store")
    );
}

#[test]
fn a_receiver_that_lies_is_no_endless_loop() {
    let answer = |verdict, bytes| Answer {
        resumes: true,
        verdict,
        bytes,
        took: 0,
        end: None,
        delay_median: None,
        delay_p95: None,
        hash: [0; 32],
    };
    for (says, word) in [
        (answer(Verdict::Part, 0), "only 0"),
        (answer(Verdict::Part, 999), "only 999"),
        (answer(Verdict::Part, u64::MAX), "18446744073709551615"),
        (answer(Verdict::Good, 1_000), "SHA-256"),
        (answer(Verdict::Good, 5), "5 of 1000"),
        (answer(Verdict::Damaged, 1_000), "damaged"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let began = Instant::now();
        let mut lies = cutting(keeping(folder.path()), &[500]);
        lies.says = Some(says);
        let (sent, connections, _) = send(&lies, folder.path(), 1_000);
        let why = sent.failure.unwrap().to_string();
        assert!(why.contains(word), "{why}");
        assert!(
            connections < 12 && began.elapsed() < Duration::from_secs(10),
            "{why}"
        );
    }
}
