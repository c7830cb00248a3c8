// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `alcc recv` and `alcc send`: the sender connects, and each end writes down when how many bytes were written or read.
use super::programs::{Ends, Programs, Stage, Way};
use crate::sampler::History;
use crate::scheme::Scheme;
use crate::tools::Tools;
use crate::{LabError, program::Program, route};
use alcc_results::Row;
use alcc_units::{Span, Time};
use serde::Deserialize;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// Where the receiver waits.
const PORT: u16 = 9700;
/// The receiver says this on standard error when it can be connected to.
const READY: &str = "listening on ";
/// Longer than any window; the sender is ended.
const ENDLESS: &str = "86400s";

pub(super) struct Bulk {
    scheme: Scheme,
    ends: Ends,
    tools: Tools,
    folder: PathBuf,
    receiver: Option<Program>,
    sender: Option<Program>,
    way: Option<Way>,
}

/// The part of the sender's JSON object that concerns us: its first row, or itself.
#[derive(Deserialize, Default)]
struct Said {
    #[serde(default)]
    flows: Vec<Row>,
}

impl Bulk {
    pub(super) fn start(scheme: &Scheme, stage: &Stage<'_>) -> Result<Self, LabError> {
        let mut bulk = Self {
            scheme: scheme.clone(),
            ends: stage.ends.clone(),
            tools: stage.tools.clone(),
            folder: stage.folder.to_owned(),
            receiver: None,
            sender: None,
            way: None,
        };
        let mut command = bulk.command("recv");
        command.args(["--bind", "0.0.0.0", "--port", &PORT.to_string()]);
        let receiver = bulk.receiver.insert(Program::start(
            &bulk.ends.receiver,
            command,
            &scheme.name,
            [
                &bulk.folder.join("recv.json"),
                &bulk.folder.join("recv.err"),
            ],
            &[],
        )?);
        let says = bulk.folder.join("recv.err");
        receiver.wait_until("alcc recv", || {
            Ok(fs::read_to_string(&says).is_ok_and(|text| text.contains(READY)))
        })?;
        Ok(bulk)
    }

    /// What both ends have in common.
    fn command(&self, verb: &str) -> Command {
        let mut command = Command::new(&self.tools.alcc);
        command.arg(verb);
        if let Some(transport) = self.scheme.transport {
            command.args(["--transport", transport.name]);
        }
        if let Some(carrier) = &self.scheme.carrier {
            command.args(["--carrier", carrier]);
        }
        // The namespaces are nobody else's.
        command.args(["--json", "--insecure", "--series"]);
        command.arg(self.folder.join(format!("{verb}.series")));
        command
    }

    fn kernel(&self) -> Option<&str> {
        Some(self.scheme.kernel.as_str()).filter(|kernel| !kernel.is_empty())
    }

    fn failed(&self, why: impl Into<String>) -> LabError {
        LabError::Run {
            scheme: self.scheme.name.clone(),
            why: why.into(),
        }
    }
}

impl Programs for Bulk {
    fn prepare(&mut self, way: Way) -> Result<(), LabError> {
        if let Some(kernel) = self.kernel() {
            let set = self
                .ends
                .sender
                .run(|| route::use_algorithm(way.from, way.to, kernel))?;
            set.map_err(LabError::os(format!(
                "{}: make the kernel use {kernel}",
                self.scheme.name
            )))?;
        }
        self.way = Some(way);
        Ok(())
    }

    fn come(&mut self) -> Result<(), LabError> {
        let Some(way) = self.way else { return Ok(()) };
        let mut command = self.command("send");
        if let Some(spec) = &self.scheme.controlled {
            command.args(["--cc", &spec.to_string()]);
        }
        for file in &self.tools.plugins {
            command.arg("--plugin").arg(file);
        }
        if let Some(kernel) = self.kernel() {
            command.args(["--under", kernel]);
        }
        command.args(["--duration", ENDLESS]);
        command.arg(format!("{}:{PORT}", way.to));
        self.sender = Some(Program::start(
            &self.ends.sender,
            command,
            &self.scheme.name,
            [
                &self.folder.join("send.json"),
                &self.folder.join("send.err"),
            ],
            &[],
        )?);
        Ok(())
    }

    fn go(&mut self) {
        if let Some(sender) = &mut self.sender {
            sender.end();
        }
    }

    fn look(&mut self, _: Time) {}

    fn check(&mut self, is_over: bool) -> Result<(), LabError> {
        for (program, who) in [
            (&mut self.sender, "alcc send"),
            (&mut self.receiver, "alcc recv"),
        ] {
            if let Some(program) = program
                && !program.is_alive()
                && !is_over
            {
                return Err(program.failure(&format!("{who} ended before the window did")));
            }
        }
        Ok(())
    }

    fn sender(&self) -> Option<u32> {
        self.sender.as_ref().map(Program::id)
    }

    fn address(&self) -> SocketAddrV4 {
        // Known to the sender alone; it is never one of several on a link.
        SocketAddrV4::new(self.way.map_or(Ipv4Addr::UNSPECIFIED, |way| way.from), 0)
    }

    fn end(&mut self) {
        self.go();
        if let Some(receiver) = &mut self.receiver {
            receiver.end();
        }
    }

    fn conclude(
        &mut self,
        [from, to]: [Time; 2],
        row: &mut Row,
        notes: &mut Vec<String>,
    ) -> Result<(), LabError> {
        let Some(way) = self.way else {
            return Err(self.failed("it never began"));
        };
        let series = |verb: &str| {
            let file = self.folder.join(format!("{verb}.series"));
            read_series(&file, way.origin).map_err(|e| {
                self.failed(format!(
                    "read what alcc {verb} wrote into {}: {e}",
                    file.display()
                ))
            })
        };
        let (writes, reads) = (series("send")?, series("recv")?);
        let by = |time: Time| {
            let n = reads.partition_point(|(at, _)| *at < time);
            n.checked_sub(1).map_or(0, |i| reads[i].1)
        };
        row.bytes = Some(by(to) - by(from));
        if let Some([median, p95]) = History::of_writes(writes).app_delay_ms(&reads, from, to) {
            row.app_delay_median_ms = Some(median);
            row.app_delay_p95_ms = Some(p95);
        }
        let said = fs::read_to_string(self.folder.join("send.json")).unwrap_or_default();
        let Some(said) = said_by_sender(&said) else {
            notes.push(format!(
                "{}: alcc send left no report: its feedback and enforcement are taken to be the transport's usual ones",
                self.scheme.name
            ));
            return Ok(());
        };
        row.feedback = said.feedback;
        row.enforcement = said.enforcement;
        row.rtt_mean_ms = said.rtt_mean_ms;
        row.rtt_p95_ms = said.rtt_p95_ms;
        row.retransmits = said.retransmits;
        row.timeouts = said.timeouts;
        row.rtx_burst = said.rtx_burst;
        Ok(())
    }
}

fn said_by_sender(text: &str) -> Option<Row> {
    let said: Said = serde_json::from_str(text).ok()?;
    let row = said.flows.into_iter().next()?;
    Some(row).filter(|row| !row.feedback.is_empty() && !row.enforcement.is_empty())
}

/// Lines `MONOTONIC_NS BYTES`: when, and how many by then. A last line without its end was never written whole.
fn read_series(file: &Path, origin: Instant) -> io::Result<Vec<(Time, u64)>> {
    let zero = monotonic(origin);
    let text = fs::read_to_string(file)?;
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let wrong = |line: &str| {
        let what = format!("'{line}': want MONOTONIC_NS BYTES, neither going back");
        io::Error::new(io::ErrorKind::InvalidData, what)
    };
    let mut all: Vec<(Time, u64)> = Vec::new();
    let mut last = (0, 0);
    for line in whole.lines() {
        let numbers = line
            .split_once(' ')
            .and_then(|(ns, bytes)| Some((ns.parse().ok()?, bytes.parse().ok()?)));
        let (ns, bytes): (u64, u64) = numbers.ok_or_else(|| wrong(line))?;
        if last.0 > ns || last.1 > bytes {
            return Err(wrong(line));
        }
        last = (ns, bytes);
        all.push((Time::from_nanos(ns.saturating_sub(zero)), bytes));
    }
    Ok(all)
}

/// What `CLOCK_MONOTONIC` said at `instant`, ns.
fn monotonic(instant: Instant) -> u64 {
    let ago = Span::from(instant.elapsed()).as_nanos();
    alcc_sys::now().as_nanos().saturating_sub(ago)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_is_read_on_the_links_clock() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("s");
        let origin = Instant::now();
        let zero = monotonic(origin);
        let line = |ms: u64, bytes: u64| format!("{} {bytes}\n", zero + ms * 1_000_000);
        // Before the link's beginning counts as its beginning; what is cut off does not count.
        let text = format!("{} 0\n{}{}123", zero - 5, line(10, 1_400), line(20, 2_800));
        fs::write(&file, text).unwrap();
        let read = read_series(&file, origin).unwrap();
        assert_eq!(
            read.iter().map(|r| r.1).collect::<Vec<_>>(),
            [0, 1_400, 2_800]
        );
        for (at, ms) in [(read[0].0, 0.0), (read[2].0, 20.0)] {
            let off = at.since(Time::ZERO).as_millis_f64() - ms;
            assert!(off.abs() < 5.0, "{off}");
        }
        for bad in ["1\n", "1 x\n", "5 5\n4 6\n", "5 5\n6 4\n"] {
            fs::write(&file, bad).unwrap();
            assert!(read_series(&file, origin).is_err(), "{bad}");
        }
        assert!(read_series(&folder.path().join("none"), origin).is_err());
    }

    #[test]
    fn the_senders_report_names_its_triple() {
        let row = Row {
            feedback: "udp".into(),
            enforcement: "native".into(),
            retransmits: Some(3),
            ..Row::default()
        };
        let text = serde_json::json!({"flows": [row], "more": 1}).to_string();
        assert_eq!(said_by_sender(&text).unwrap().retransmits, Some(3));
        for none in ["", "{}", "{\"flows\":[]}", "nonsense"] {
            assert!(said_by_sender(none).is_none(), "{none}");
        }
    }
}
