// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files of a simulated run for other programs: read back here byte by byte, and by tcpdump.
#[path = "../../../alcc/cli/tests/support/lacks.rs"]
mod lacks;

use alcc_live::capture::{Capture, CapturePoint};
use alcc_results::scenario::ScenarioOptions;
use alcc_sim::{Report, Scenario};
use std::process::Command;

/// Three seconds over 12 Mbit/s and 40 ms with room for 20 packets, so that some are lost.
fn scenario(flows: &[&str]) -> Scenario {
    let text = format!(
        "link = '12mbit'\nqueue = 'droptail:packets=20'\nduration = '3s'\nflow = {flows:?}"
    );
    let options = ScenarioOptions::from_toml(&text, "captures").unwrap();
    options
        .resolve(&alcc_zoo::registry(), &())
        .unwrap()
        .scenario
}

fn captured(place: CapturePoint, flows: &[&str]) -> (Report, Vec<u8>) {
    let mut capture = Capture::new(Vec::new(), place).unwrap();
    let report = alcc_sim::run_with(&scenario(flows), &mut capture).unwrap();
    (report, capture.finish().unwrap())
}

struct Packet {
    ns: u64,
    /// Its length on the wire; what is in the file is the headers.
    whole: usize,
    bytes: Vec<u8>,
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn net(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(bytes[at..at + 2].try_into().unwrap())
}

/// The form as its description has it, not as our writer does.
fn read(file: &[u8]) -> Vec<Packet> {
    assert_eq!(word(file, 0), 0xa1b2_3c4d, "nanoseconds, little endian");
    assert_eq!(word(file, 20), 101, "raw IP");
    let mut packets = Vec::new();
    let mut at = 24;
    while at < file.len() {
        let kept = word(file, at + 8) as usize;
        packets.push(Packet {
            ns: u64::from(word(file, at)) * 1_000_000_000 + u64::from(word(file, at + 4)),
            whole: word(file, at + 12) as usize,
            bytes: file[at + 16..at + 16 + kept].to_vec(),
        });
        at += 16 + kept;
    }
    packets
}

impl Packet {
    fn is_data(&self) -> bool {
        half(&self.bytes, 20) == 443
    }

    /// The blocks of a selective acknowledgement.
    fn blocks(&self) -> Vec<(u32, u32)> {
        let (mut at, end) = (40, 20 + usize::from(self.bytes[32] >> 4) * 4);
        while at < end {
            match self.bytes[at] {
                0 => break,
                1 => at += 1,
                5 => {
                    let blocks = self.bytes[at + 2..at + usize::from(self.bytes[at + 1])].chunks(8);
                    return blocks.map(|b| (net(b, 0), net(b, 4))).collect();
                }
                _ => at += usize::from(self.bytes[at + 1]),
            }
        }
        Vec::new()
    }
}

#[test]
fn a_capture_is_a_consistent_tcp_connection() {
    let (_, file) = captured(CapturePoint::Sender, &["cubic"]);
    let packets = read(&file);
    assert!(packets.is_sorted_by_key(|p| p.ns));
    // the opening: SYN, SYN and ACK, ACK
    let flags: Vec<u8> = packets[..3].iter().map(|p| p.bytes[33] & 0x12).collect();
    assert_eq!(flags, [0x02, 0x12, 0x10]);
    let (mut next, mut acked, mut again, mut selective) = (1_u32, 1_u32, 0, 0);
    for packet in &packets[3..] {
        assert_eq!(usize::from(half(&packet.bytes, 2)), packet.whole);
        let headers = 20 + usize::from(packet.bytes[32] >> 4) * 4;
        assert_eq!(packet.bytes.len(), headers);
        let (seq, ack) = (net(&packet.bytes, 24), net(&packet.bytes, 28));
        let payload = (packet.whole - headers) as u32;
        if packet.is_data() {
            assert_eq!((payload, ack), (1448, 1));
            // never beyond what was next, never what has been acknowledged
            assert!(seq <= next && seq >= acked, "{seq} {next} {acked}");
            again += u32::from(seq < next);
            next = next.max(seq + payload);
        } else {
            assert_eq!((payload, seq), (0, 1));
            assert!(ack >= acked && ack <= next, "{ack}");
            acked = ack;
            for (start, end) in packet.blocks() {
                assert!(start < end && end <= next);
                selective += 1;
            }
        }
    }
    assert!(again > 0 && selective > 0, "{again} {selective}");
}

#[test]
fn places_differ_by_what_is_lost_on_the_way() {
    let data = |place| {
        let (report, file) = captured(place, &["cubic"]);
        let data = read(&file).iter().filter(|p| p.whole == 1500).count() as u64;
        (data, report.links[0].down)
    };
    let (sent, passed) = data(CapturePoint::Sender);
    let (behind, _) = data(CapturePoint::Link);
    let (received, _) = data(CapturePoint::Receiver);
    assert!(passed.dropped > 0);
    assert_eq!(behind, passed.departed);
    // what is under way at the end: at most room, service and 20 ms each before and after the link
    assert!(sent - passed.dropped >= behind && sent - passed.dropped - behind <= 62);
    assert!(behind >= received && behind - received <= 41);
}

#[test]
fn tcpdump_reads_it() {
    let (_, file) = captured(CapturePoint::Sender, &["cubic", "verus", "udp:rate=1mbit"]);
    let count = read(&file).len();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.pcap");
    std::fs::write(&path, &file).unwrap();
    let output = Command::new("tcpdump").args(["-nnvr"]).arg(&path).output();
    let Ok(output) = output else {
        lacks::lacks("tcpdump (run scripts/setup test)");
        return;
    };
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    // a line for IP and one for what is in it
    assert_eq!(text.lines().filter(|l| l.contains("proto ")).count(), count);
    for wanted in [
        "Flags [S], cksum",
        "wscale 10",
        "sackOK",
        "TS val",
        "sack ",
        "length 1448",
        "proto UDP (17), length 1500",
    ] {
        assert!(text.contains(wanted), "no '{wanted}'");
    }
    for bad in ["bad cksum", "incorrect", "invalid", "malformed"] {
        let found = text.lines().find(|l| l.contains(bad));
        assert_eq!(found, None, "{bad}");
    }
}
