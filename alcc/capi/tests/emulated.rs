// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The library over an emulated link.
#[path = "../../cli/tests/support/early.rs"]
mod early;
#[path = "../../cli/tests/support/starts.rs"]
mod starts;
mod support;
use alcc_emu::{Emulator, Namespace, PathSpec, Silent, Subnet};
use alcc_link::{DirectionSpec, RateSpec};
use alcc_units::{Rate, Span};
use starts::first_right;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Stdio};
use std::time::Duration;
use support::{command, finish, lacks, no_compiler, program};

/// A server behind a link of 12 Mbit/s.
struct World {
    inside: Namespace,
    server: Child,
    said: BufReader<ChildStdout>,
    link: Emulator,
    bytes: u64,
}

impl World {
    fn new(cc: &str, one_way_ms: u64, bytes: u64) -> Option<Self> {
        if no_compiler() {
            return None;
        }
        if let Err(why) = alcc_emu::available() {
            lacks(&format!("namespaces ({why})"));
            return None;
        }
        alcc_emu::prepare().unwrap();
        let (outside, inside) = (Namespace::new().unwrap(), Namespace::new().unwrap());
        let direction = DirectionSpec {
            rate: RateSpec::Fixed(Rate::mbps(12)),
            delay: Span::from_millis(one_way_ms),
            ..DirectionSpec::default()
        };
        let spec = PathSpec {
            down: direction.clone(),
            up: direction,
            seed: 1,
        };
        let link =
            Emulator::start(&outside, &inside, Subnet::default(), spec, Box::new(Silent)).unwrap();
        let mut serve = command(&program("transfer"));
        serve
            .args(["serve", &bytes.to_string()])
            .env("ALCC_CC", cc)
            .stdout(Stdio::piped());
        let mut server = outside.spawn(serve).unwrap();
        let said = BufReader::new(server.stdout.take().unwrap());
        Some(Self {
            inside,
            server,
            said,
            link,
            bytes,
        })
    }

    /// Fetches once: goodput in Mbit/s, and the server's statistics of the connection.
    fn fetch(&mut self) -> (f64, String) {
        let mut fetch = command(&program("transfer"));
        fetch
            .arg("fetch")
            .arg(self.link.outside_addr().to_string())
            .arg(self.bytes.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let out = finish(self.inside.spawn(fetch).unwrap(), Duration::from_secs(60));
        assert!(
            out.status.success(),
            "{}",
            String::from_utf8_lossy(&out.stderr)
        );
        let seconds: f64 = String::from_utf8(out.stdout)
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        (self.bytes as f64 * 8.0 / 1e6 / seconds, line)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn value(line: &str, name: &str) -> f64 {
    let mut words = line.split_whitespace();
    words.find(|word| *word == name).unwrap();
    words.next().unwrap().parse().unwrap()
}

/// Every byte is compared by the program that fetches.
fn transfer(cc: &str, bytes: u64) {
    let Some(mut world) = World::new(cc, 10, bytes) else {
        return;
    };
    let (mbps, said) = world.fetch();
    println!("{cc}: {mbps:.2} Mbit/s; {}", said.trim());
    assert!(
        said.starts_with("timestamps ") && value(&said, "plain") == 0.0,
        "{said}"
    );
    assert!(value(&said, "closed") > 0.0, "never held back: {said}");
    // The link takes 10 ms each way, and no sample can be shorter.
    assert!(value(&said, "min") >= 20_000.0, "{said}");
}

#[test]
fn verus_sends_the_same_bytes() {
    transfer("verus", 4_000_000);
}

#[test]
fn copa_sends_the_same_bytes() {
    transfer("copa", 4_000_000);
}

#[test]
fn a_window_of_one_sends_the_same_bytes() {
    transfer("fixed:window=1", 150_000);
}

#[test]
fn a_window_of_two_sends_the_same_bytes() {
    transfer("fixed:window=2", 300_000);
}

#[test]
fn a_fixed_window_gives_the_smaller_of_link_and_window() {
    // 20 packets of 1448 bytes each RTT of 60 ms: 3.86 Mbit/s, a third of the link. 60 packets each
    // RTT of 20 ms would be 34.8 Mbit/s: the link's 12 Mbit/s carry 1448 of 1500 bytes.
    for (cc, one_way_ms, expected) in [
        ("fixed:window=20", 30, 20.0 * 1448.0 * 8.0 / 60e3),
        ("fixed:window=60", 10, 12.0 * 1448.0 / 1500.0),
    ] {
        let Some(mut world) = World::new(cc, one_way_ms, 2_000_000) else {
            return;
        };
        // The first window comes before the clock starts: 2 MB are some seventy windows.
        let fetch = || world.fetch().0;
        let fast = first_right(8, fetch, |mbps| *mbps > expected * 0.5);
        println!("{cc}: {fast:.2} Mbit/s of {expected:.2}");
        assert!(fast < expected * 1.04, "{fast} of {expected}");
    }
}
