// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A simulated run as qlog: the sequential JSON form of draft-ietf-quic-qlog-main-schema-07. It has
//! the events of draft-ietf-quic-qlog-quic-events-07 that concern congestion control. qvis and
//! others read these.
//!
//! Events are seen from the sender, but for `packet_lost`. Its time is when a link drops the
//! packet, which the sender learns later. Times are milliseconds since the start; flows are told
//! apart by `group_id`.
//!
//! What algorithms say of themselves stands in a namespace of its own, `alcc:`.
//! `recovery:congestion_state_updated` has the states of one machine, and theirs are several.
use crate::capture::finish;
use crate::logged::LoggedEvent;
use alcc_results::events;
use alcc_sim::{FlowState, PacketContent, PacketEvent, PacketStep, Probe};
use alcc_units::{Bytes, Span, Time};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Ends every record of the sequence with a line feed and begins it with this (RFC 7464).
const RECORD: u8 = 0x1e;

/// Writes a qlog as a run goes.
#[derive(Debug)]
pub struct Qlog<W> {
    to: W,
    flows: Vec<Flow>,
    failed: Option<io::Error>,
}

#[derive(Debug, Default)]
struct Flow {
    /// By position in the stream, or by number where there is none: what is under way.
    unacked: BTreeMap<u64, Sent>,
    min_rtt: Option<Span>,
    smoothed: Option<f64>,
    latest: Option<Span>,
    /// The metrics that were written last.
    logged: Map<String, Value>,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    pn: u64,
    end: u64,
    at: Time,
    /// Sent before: its answer may be that to the first time.
    again: bool,
}

impl<W: Write> Qlog<W> {
    /// Begins with the header.
    ///
    /// # Errors
    /// What the writer says.
    pub fn new(mut to: W, title: &str) -> io::Result<Self> {
        let header = json!({
            "qlog_version": "0.3",
            "qlog_format": "JSON-SEQ",
            "title": title,
            "trace": {
                "common_fields": {"time_format": "relative", "reference_time": 0},
                "vantage_point": {"name": "sender", "type": "server"},
            },
        });
        record(&mut to, &header)?;
        Ok(Self {
            to,
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
            "name": name,
            "group_id": flow.to_string(),
            "data": data,
        });
        if self.failed.is_none() {
            self.failed = record(&mut self.to, &event).err();
        }
    }

    /// Something that an algorithm said. What was said first comes first, before the packets that
    /// follow from it.
    pub fn logged(&mut self, logged: &LoggedEvent) {
        let data = Value::Object(events::values(&logged.event, &logged.rtt));
        let name = format!("alcc:{}", logged.event.name());
        self.event(logged.at, logged.flow, &name, data);
    }

    fn packet_step(&mut self, event: &PacketEvent) {
        match (event.what, event.content) {
            (
                PacketStep::Sent,
                PacketContent::Data {
                    pn,
                    start,
                    len,
                    stream,
                    ..
                },
            ) => {
                let (key, end) = if stream {
                    (start, start + len)
                } else {
                    (pn, pn + 1)
                };
                let flow = self.flow(event.flow);
                let again = flow.unacked.contains_key(&key);
                let at = event.at;
                flow.unacked.insert(key, Sent { pn, end, at, again });
                let mut data = json!({
                    "header": {"packet_type": "1RTT", "packet_number": pn},
                    "raw": {"length": event.len.get(), "payload_length": len},
                });
                if again {
                    data["trigger"] = json!("retransmit_reordered");
                }
                self.event(at, event.flow, "transport:packet_sent", data);
            }
            (PacketStep::Dropped(_, why), PacketContent::Data { pn, .. }) => {
                let data = json!({
                    "header": {"packet_type": "1RTT", "packet_number": pn},
                    "trigger": format!("{why:?}").to_lowercase(),
                });
                self.event(event.at, event.flow, "recovery:packet_lost", data);
            }
            (PacketStep::Received, PacketContent::Ack { stream, ack }) => {
                let complete = if stream { ack.cumulative_ack } else { 0 };
                let ranges: Vec<_> = ack.ranges().iter().map(|r| (r.start, r.end)).collect();
                let numbers = self.flow(event.flow).acked(event.at, complete, &ranges);
                if !numbers.is_empty() {
                    let data = json!({"packet_number_space": "application_data", "packet_numbers": numbers});
                    self.event(event.at, event.flow, "transport:packets_acked", data);
                }
            }
            _ => {}
        }
    }
}

impl Flow {
    /// What an acknowledgement has news of, by number; the newest one gives a round-trip time.
    fn acked(&mut self, now: Time, complete: u64, ranges: &[(u64, u64)]) -> Vec<u64> {
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
        if let Some(newest) = gone.iter().filter(|s| !s.again).max_by_key(|s| s.pn) {
            let rtt = now.since(newest.at);
            self.latest = Some(rtt);
            self.min_rtt = Some(self.min_rtt.map_or(rtt, |min| min.min(rtt)));
            let ms = rtt.as_millis_f64();
            // RFC 6298, section 2
            self.smoothed = Some(self.smoothed.map_or(ms, |old| old + (ms - old) / 8.0));
        }
        let mut numbers: Vec<u64> = gone.iter().map(|s| s.pn).collect();
        numbers.sort_unstable();
        numbers
    }
}

impl<W: Write> Probe for Qlog<W> {
    fn packet(&mut self, event: &PacketEvent) {
        self.packet_step(event);
    }

    fn flow(&mut self, state: &FlowState<'_>) {
        let mut now = Map::new();
        now.insert("bytes_in_flight".to_owned(), json!(state.in_flight.get()));
        if let Some(segments) = state.kernel_cwnd {
            let window = Bytes::new((segments * 1448.0) as u64).get();
            now.insert("congestion_window".to_owned(), json!(window));
        }
        (state.gauges)(&mut |name, value| {
            // What the algorithm calls its own values: beyond the schema, which allows it.
            if value.is_finite() {
                now.insert(name.to_owned(), json!(value));
            }
        });
        let flow = self.flow(state.flow);
        for (name, rtt) in [("latest_rtt", flow.latest), ("min_rtt", flow.min_rtt)] {
            if let Some(rtt) = rtt {
                now.insert(name.to_owned(), json!(rtt.as_millis_f64()));
            }
        }
        if let Some(smoothed) = flow.smoothed {
            now.insert("smoothed_rtt".to_owned(), json!(smoothed));
        }
        // Only what is different.
        let logged = &flow.logged;
        let news: Map<String, Value> = (now.iter().filter(|(k, v)| logged.get(*k) != Some(v)))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        flow.logged = now;
        if !news.is_empty() {
            self.event(
                state.at,
                state.flow,
                "recovery:metrics_updated",
                Value::Object(news),
            );
        }
    }
}

fn record(to: &mut impl Write, value: &Value) -> io::Result<()> {
    to.write_all(&[RECORD])?;
    serde_json::to_writer(&mut *to, value)?;
    to.write_all(b"\n")
}
