// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A simulated run as qlog: the sequential form of draft-ietf-quic-qlog-main-schema-14 (QlogFileSeq),
//! with those events of draft-ietf-quic-qlog-quic-events-13 that concern congestion control. qvis loads
//! nothing newer than version 0.3 (drafts 02 of both), so the same events can be written with its header
//! and names.
//!
//! Events are seen from the sender: a packet is acknowledged or lost when the sender learns it. A
//! segment stands for a packet in the 1-RTT space. Times are milliseconds since the start; flows are
//! distinguished by `group_id`.
//!
//! The algorithms' own events are in a namespace of their own, `alcc:`.
//! `quic:congestion_state_updated` has the states of one machine, and theirs are several.
use crate::capture::finish;
use alcc_cc::events;
use alcc_results::About;
use alcc_sim::{
    AlgorithmEvent, FlowState, FoundLost, LossSign, PacketContent, PacketEvent, PacketStep, Probe,
};
use alcc_units::Time;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// The schemas of the events: the drafts add their number. Ours is not registered.
const SCHEMAS: [&str; 2] = [
    "urn:ietf:params:qlog:events:quic-13",
    "https://github.com/alcc/alcc/112026/qlog/alcc",
];

/// Ends every record of the sequence with a line feed and begins it with this (RFC 7464).
const RECORD: u8 = 0x1e;

/// Version of a qlog.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Version {
    /// draft-ietf-quic-qlog-main-schema-14 and -quic-events-13.
    #[default]
    Draft14,
    /// 0.3, the newest that qvis loads.
    V0_3,
}

impl std::str::FromStr for Version {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        match text {
            "draft-14" => Ok(Self::Draft14),
            "0.3" => Ok(Self::V0_3),
            _ => Err("want draft-14 or 0.3"),
        }
    }
}

/// Names of the draft beside those of version 0.3, where events have categories.
const NAMES: [(&str, &str); 3] = [
    ("quic:packet_sent", "transport:packet_sent"),
    ("quic:packet_lost", "recovery:packet_lost"),
    ("quic:recovery_metrics_updated", "recovery:metrics_updated"),
];

impl Version {
    fn name(self, name: &str) -> &str {
        let old = NAMES.iter().find(|n| self == Self::V0_3 && n.0 == name);
        old.map_or(name, |n| n.1)
    }

    fn header(self, title: &str, about: &About) -> Value {
        let about = json!(about).to_string();
        let vantage_point = json!({"name": "sender", "type": "server"});
        match self {
            Self::Draft14 => json!({
                "file_schema": "urn:ietf:params:qlog:file:sequential",
                "serialization_format": "application/qlog+json-seq",
                "title": title,
                "description": about,
                "trace": {
                    "common_fields": {
                        "time_format": "relative_to_epoch",
                        "reference_time": {"clock_type": "monotonic", "epoch": "unknown"},
                    },
                    "vantage_point": vantage_point,
                    "event_schemas": SCHEMAS,
                },
            }),
            // qvis wants version and format among the first 1,024 characters: the description is long.
            Self::V0_3 => json!({
                "qlog_version": "0.3",
                "qlog_format": "JSON-SEQ",
                "title": title,
                "description": about,
                "trace": {
                    "title": title,
                    "common_fields": {"time_format": "relative", "reference_time": 0.0},
                    "vantage_point": vantage_point,
                },
            }),
        }
    }
}

/// Writes a qlog as a run goes.
#[derive(Debug)]
pub struct Qlog<W> {
    to: W,
    version: Version,
    flows: Vec<Flow>,
    failed: Option<io::Error>,
}

#[derive(Debug, Default)]
struct Flow {
    /// By position in the stream, or by number where there is none: what is under way.
    unacked: BTreeMap<u64, Sent>,
    /// The place in `unacked` of a packet.
    places: BTreeMap<u64, u64>,
    /// Acknowledgements that have come; they have no numbers of their own.
    acks: u64,
    metrics: Written,
    values: Written,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    pn: u64,
    end: u64,
    /// Rule by which the sender found it lost.
    lost: Option<LossSign>,
}

/// Values as they were written last.
#[derive(Debug, Default)]
struct Written(Map<String, Value>);

impl Written {
    /// Those of `now` that are different.
    fn news(&mut self, now: Map<String, Value>) -> Map<String, Value> {
        let news = now.iter().filter(|(k, v)| self.0.get(*k) != Some(v));
        let news = news.map(|(k, v)| (k.clone(), v.clone())).collect();
        self.0 = now;
        news
    }
}

impl<W: Write> Qlog<W> {
    /// Begins with the header.
    ///
    /// # Errors
    /// The error of the writer.
    pub fn new(mut to: W, version: Version, title: &str, about: &About) -> io::Result<Self> {
        record(&mut to, &version.header(title, about))?;
        Ok(Self {
            to,
            version,
            flows: Vec::new(),
            failed: None,
        })
    }

    /// Ends it.
    ///
    /// # Errors
    /// The first thing that could not be written.
    pub fn finish(self) -> io::Result<W> {
        finish(self.to, self.failed)
    }

    fn flow(&mut self, number: usize) -> &mut Flow {
        if self.flows.len() <= number {
            self.flows.resize_with(number + 1, Flow::default);
        }
        &mut self.flows[number]
    }

    fn event(&mut self, at: Time, flow: usize, name: &str, data: Value) {
        let event = json!({
            "time": at.as_millis_f64(),
            "name": self.version.name(name),
            "group_id": flow.to_string(),
            "data": data,
        });
        if self.failed.is_none() {
            self.failed = record(&mut self.to, &event).err();
        }
    }

    fn packet_step(&mut self, event: &PacketEvent) {
        match (event.what, event.content) {
            (
                PacketStep::Sent,
                PacketContent::Data {
                    pn,
                    start,
                    len,
                    udp,
                    stream,
                    ..
                },
            ) => {
                let (key, end) = if stream {
                    (start, start + len)
                } else {
                    (pn, pn + 1)
                };
                let mut data = json!({
                    "header": header(pn),
                    "raw": {"length": event.len.get(), "payload_length": len},
                });
                // Datagrams of a constant-rate sender are not acknowledged.
                if !udp && let Some(trigger) = self.flow(event.flow).sent(key, pn, end) {
                    data["trigger"] = json!(trigger);
                }
                self.event(event.at, event.flow, "quic:packet_sent", data);
            }
            (PacketStep::Received, PacketContent::Ack { stream, ack }) => {
                let complete = if stream { ack.cumulative_ack } else { 0 };
                let ranges: Vec<_> = ack.ranges().iter().map(|r| (r.start, r.end)).collect();
                let flow = self.flow(event.flow);
                let numbers = flow.acked(complete, &ranges);
                let number = flow.acks;
                flow.acks += 1;
                let (name, data) = match self.version {
                    Version::Draft14 if numbers.is_empty() => return,
                    Version::Draft14 => (
                        "quic:packets_acked",
                        json!({"packet_number_space": "application_data", "packet_numbers": numbers}),
                    ),
                    // qvis takes them from the frames of packets.
                    Version::V0_3 => (
                        "transport:packet_received",
                        json!({
                            "header": header(number),
                            "raw": {"length": event.len.get()},
                            "frames": ack_frames(&numbers),
                        }),
                    ),
                };
                self.event(event.at, event.flow, name, data);
            }
            _ => {}
        }
    }
}

fn header(pn: u64) -> Value {
    json!({"packet_type": "1RTT", "packet_number": pn})
}

/// The frames of a packet that acknowledges these for the first time.
fn ack_frames(numbers: &[u64]) -> Vec<Value> {
    let runs = numbers.chunk_by(|a, b| a + 1 == *b);
    let ranges: Vec<_> = runs.map(|run| [run[0], run[run.len() - 1]]).collect();
    match ranges.is_empty() {
        true => Vec::new(),
        false => vec![json!({"frame_type": "ack", "acked_ranges": ranges})],
    }
}

/// The name in the schema.
const fn trigger(by: LossSign) -> &'static str {
    match by {
        LossSign::Reordering => "reordering_threshold",
        LossSign::Overdue => "time_threshold",
        LossSign::Timeout => "pto_expired",
    }
}

impl Flow {
    /// A packet leaves. Returns why, if its data had left before.
    fn sent(&mut self, key: u64, pn: u64, end: u64) -> Option<&'static str> {
        let lost = None;
        self.places.insert(pn, key);
        let before = self.unacked.insert(key, Sent { pn, end, lost })?;
        self.places.remove(&before.pn);
        Some(match before.lost {
            Some(LossSign::Reordering) => "retransmit_reordered",
            Some(LossSign::Overdue) => "retransmit_timeout",
            Some(LossSign::Timeout) | None => "pto_probe",
        })
    }

    fn lost(&mut self, packet: &FoundLost) {
        let place = self.places.get(&packet.pn);
        if let Some(sent) = place.and_then(|key| self.unacked.get_mut(key)) {
            sent.lost = Some(packet.by);
        }
    }

    /// Packets that an acknowledgement reports for the first time, by number.
    fn acked(&mut self, complete: u64, ranges: &[(u64, u64)]) -> Vec<u64> {
        let mut gone = Vec::new();
        while let Some(first) = self.unacked.first_entry()
            && first.get().end <= complete
        {
            gone.push(first.remove());
        }
        for (start, end) in ranges {
            let inside = self.unacked.range(*start..(*end).max(*start));
            let keys: Vec<u64> = (inside.filter(|(_, s)| s.end <= *end))
                .map(|(key, _)| *key)
                .collect();
            gone.extend(keys.iter().filter_map(|key| self.unacked.remove(key)));
        }
        let mut numbers: Vec<u64> = gone.iter().map(|s| s.pn).collect();
        numbers.sort_unstable();
        for number in &numbers {
            self.places.remove(number);
        }
        numbers
    }
}

impl<W: Write> Probe for Qlog<W> {
    fn wants_algorithms(&self) -> bool {
        true
    }

    fn algorithm(&mut self, reported: &AlgorithmEvent) {
        let data = Value::Object(events::values(&reported.event, &reported.rtt));
        let name = format!("alcc:{}", reported.event.name());
        self.event(reported.at, reported.flow, &name, data);
    }

    fn packet(&mut self, event: &PacketEvent) {
        self.packet_step(event);
    }

    fn lost(&mut self, at: Time, flow: usize, packets: &[FoundLost]) {
        for packet in packets {
            self.flow(flow).lost(packet);
            let data = json!({"header": header(packet.pn), "trigger": trigger(packet.by)});
            self.event(at, flow, "quic:packet_lost", data);
        }
    }

    fn flow(&mut self, state: &FlowState<'_>) {
        let (mut values, mut packets) = (Map::new(), None);
        let mut put = |name: &'static str, value: f64| {
            if value.is_finite() {
                values.insert(name.to_owned(), json!(value));
                if name == "window" {
                    packets = Some(value);
                }
            }
        };
        if let Some(cc) = state.controller {
            cc.gauges(&mut put);
        }
        let mut metrics = Map::new();
        let mut put = |name: &str, value: Value| metrics.insert(name.to_owned(), value);
        put("bytes_in_flight", json!(state.in_flight.get()));
        // The limit of Verus is a quota. Its target window is one of its values, in packets.
        let target = || packets.map(|n| state.mss.mul_f64(n));
        if let Some(bytes) = state.window.or_else(target) {
            put("congestion_window", json!(bytes.get()));
        }
        if !state.rtt.latest.is_zero() {
            put("latest_rtt", json!(state.rtt.latest.as_millis_f64()));
            put("min_rtt", json!(state.rtt.min.as_millis_f64()));
            put("smoothed_rtt", json!(state.rtt.smoothed.as_millis_f64()));
            put("rtt_variance", json!(state.rtt.variance.as_millis_f64()));
        }
        let flow = self.flow(state.flow);
        let (metrics, values) = (flow.metrics.news(metrics), flow.values.news(values));
        for (name, news) in [
            ("quic:recovery_metrics_updated", metrics),
            ("alcc:values_updated", values),
        ] {
            if !news.is_empty() {
                self.event(state.at, state.flow, name, Value::Object(news));
            }
        }
    }
}

fn record(to: &mut impl Write, value: &Value) -> io::Result<()> {
    to.write_all(&[RECORD])?;
    serde_json::to_writer(&mut *to, value)?;
    to.write_all(b"\n")
}
