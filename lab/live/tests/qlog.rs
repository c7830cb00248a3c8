// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The qlog of a simulated run, against what draft-ietf-quic-qlog-main-schema-14 and
//! draft-ietf-quic-qlog-quic-events-13, or the drafts 02 of both, say in CDDL: fields, types and words, and
//! nothing beside them. Version 0.3 also against what qvis looks at.
use alcc_live::qlog::{Qlog, Version};
use alcc_results::About;
use alcc_results::scenario::ScenarioOptions;
use alcc_sim::{AlgorithmEvent, FlowState, FoundLost, PacketEvent, PacketStep, Probe, Report};
use alcc_units::Time;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Type of a field.
enum Type {
    Text,
    Unsigned,
    Float,
    /// One of these words.
    Word(&'static [&'static str]),
    Fields(&'static [Field]),
    /// At least one.
    Array(&'static Self),
    /// Or none.
    Any(&'static Self),
}

/// Name, whether it is required, and what it holds.
type Field = (&'static str, bool, Type);

use Type::{Any, Array, Fields, Float, Text, Unsigned, Word};

const FILE: &[Field] = &[
    (
        "file_schema",
        true,
        Word(&["urn:ietf:params:qlog:file:sequential"]),
    ),
    (
        "serialization_format",
        true,
        Word(&["application/qlog+json-seq"]),
    ),
    ("title", false, Text),
    ("description", false, Text),
    ("trace", true, Fields(TRACE)),
];
const TRACE: &[Field] = &[
    ("title", false, Text),
    ("description", false, Text),
    ("common_fields", false, Fields(COMMON)),
    ("vantage_point", false, Fields(VANTAGE_POINT)),
    ("event_schemas", true, Array(&Text)),
];
const TIME_FORMATS: Type = Word(&["relative_to_epoch", "relative_to_previous_event"]);
const COMMON: &[Field] = &[
    ("tuple", false, Text),
    ("time_format", false, TIME_FORMATS),
    ("reference_time", false, Fields(REFERENCE)),
    ("group_id", false, Text),
];
const REFERENCE: &[Field] = &[
    ("clock_type", true, Word(&["system", "monotonic"])),
    // Of a monotonic clock it must be unknown.
    ("epoch", true, Word(&["unknown"])),
    ("wall_clock_time", false, Text),
];
/// Version 0.3.
const OLD_FILE: &[Field] = &[
    ("qlog_version", true, Word(&["0.3"])),
    ("qlog_format", true, Word(&["JSON-SEQ"])),
    ("title", false, Text),
    ("description", false, Text),
    ("trace", true, Fields(OLD_TRACE)),
];
const OLD_TRACE: &[Field] = &[
    ("title", false, Text),
    ("description", false, Text),
    ("common_fields", false, Fields(OLD_COMMON)),
    ("vantage_point", false, Fields(VANTAGE_POINT)),
];
const OLD_COMMON: &[Field] = &[
    (
        "time_format",
        false,
        Word(&["absolute", "delta", "relative"]),
    ),
    ("reference_time", false, Float),
    ("protocol_type", false, Array(&Text)),
    ("group_id", false, Text),
];
const VANTAGE_POINTS: Type = Word(&["client", "server", "network", "unknown"]);
const VANTAGE_POINT: &[Field] = &[
    ("name", false, Text),
    ("type", true, VANTAGE_POINTS),
    ("flow", false, VANTAGE_POINTS),
];
const PACKET_SENT: &[Field] = &[
    ("header", true, Fields(HEADER)),
    ("raw", false, Fields(RAW)),
    ("datagram_id", false, Unsigned),
    (
        "trigger",
        false,
        Word(&[
            "retransmit_reordered",
            "retransmit_timeout",
            "pto_probe",
            "retransmit_crypto",
            "cc_bandwidth_probe",
        ]),
    ),
];
/// In the 1-RTT space.
const HEADER: &[Field] = &[
    ("packet_type", true, Word(&["1RTT"])),
    ("packet_number", false, Unsigned),
];
const RAW: &[Field] = &[
    ("length", false, Unsigned),
    ("payload_length", false, Unsigned),
    ("data", false, Text),
];
const SPACES: Type = Word(&["initial", "handshake", "application_data"]);
const PACKETS_ACKED: &[Field] = &[
    ("packet_number_space", false, SPACES),
    ("packet_numbers", false, Array(&Unsigned)),
];
/// Version 0.3 only.
const PACKET_RECEIVED: &[Field] = &[
    ("header", true, Fields(HEADER)),
    ("frames", false, Any(&Fields(ACK_FRAME))),
    ("raw", false, Fields(RAW)),
];
const ACK_FRAME: &[Field] = &[
    ("frame_type", true, Word(&["ack"])),
    ("ack_delay", false, Float),
    ("acked_ranges", false, Array(&Array(&Unsigned))),
];
const PACKET_LOST: &[Field] = &[
    ("header", false, Fields(HEADER)),
    (
        "trigger",
        false,
        Word(&["reordering_threshold", "time_threshold", "pto_expired"]),
    ),
];
const METRICS: &[Field] = &[
    ("min_rtt", false, Float),
    ("smoothed_rtt", false, Float),
    ("latest_rtt", false, Float),
    ("rtt_variance", false, Float),
    ("pto_count", false, Unsigned),
    ("congestion_window", false, Unsigned),
    ("bytes_in_flight", false, Unsigned),
    ("ssthresh", false, Unsigned),
    ("packets_in_flight", false, Unsigned),
    ("pacing_rate", false, Unsigned),
];

impl Type {
    fn check(&self, at: &str, value: &Value) -> Result<(), String> {
        let right = match self {
            Text => value.is_string(),
            Unsigned => value.is_u64(),
            Float => value.as_f64().is_some_and(|n| n.is_finite() && n >= 0.0),
            Word(words) => value.as_str().is_some_and(|text| words.contains(&text)),
            Fields(fields) => return check(at, fields, value),
            Array(each) => {
                let items = value.as_array().filter(|items| !items.is_empty());
                let items = items.ok_or_else(|| format!("{at}: {value}"))?;
                return items.iter().try_for_each(|item| each.check(at, item));
            }
            Any(_) if value == &json!([]) => true,
            Any(each) => return Array(each).check(at, value),
        };
        right.then_some(()).ok_or_else(|| format!("{at}: {value}"))
    }
}

/// An object with these fields and no others.
fn check(at: &str, fields: &[Field], value: &Value) -> Result<(), String> {
    let object = value.as_object().ok_or_else(|| format!("{at}: {value}"))?;
    if let Some(unknown) = object.keys().find(|k| !fields.iter().any(|f| f.0 == *k)) {
        return Err(format!("{at}: no field '{unknown}' in the schema"));
    }
    fields
        .iter()
        .try_for_each(|(name, required, kind)| match object.get(*name) {
            Some(value) => kind.check(&format!("{at}.{name}"), value),
            None if *required => Err(format!("{at}: '{name}' is missing")),
            None => Ok(()),
        })
}

fn check_event(event: &Value) -> Result<(), String> {
    check_event_of(Version::Draft14, event)
}

fn check_event_of(version: Version, event: &Value) -> Result<(), String> {
    let name = event["name"].as_str().ok_or("no name")?;
    let data = match (version, name) {
        (Version::Draft14, "quic:packet_sent") => PACKET_SENT,
        (Version::Draft14, "quic:packets_acked") => PACKETS_ACKED,
        (Version::Draft14, "quic:packet_lost") => PACKET_LOST,
        (Version::Draft14, "quic:recovery_metrics_updated") => METRICS,
        (Version::V0_3, "transport:packet_sent") => PACKET_SENT,
        (Version::V0_3, "transport:packet_received") => PACKET_RECEIVED,
        (Version::V0_3, "recovery:packet_lost") => PACKET_LOST,
        (Version::V0_3, "recovery:metrics_updated") => METRICS,
        // The second schema of the trace.
        (_, own) if own.starts_with("alcc:") => return Ok(()),
        (_, other) => return Err(format!("no event '{other}' in the schema")),
    };
    let envelope = event.as_object().ok_or("no object")?;
    let mut envelope = envelope.clone();
    let body = envelope.remove("data").unwrap_or_default();
    let fields: [Field; 4] = [
        ("time", true, Float),
        ("name", true, Text),
        ("group_id", false, Text),
        ("time_format", false, TIME_FORMATS),
    ];
    check(name, &fields, &Value::Object(envelope))?;
    if name.ends_with("metrics_updated") && body == json!({}) {
        return Err("there must be at least one metric".to_owned());
    }
    check(name, data, &body)
}

/// As `alcc-lab sim` does it, with the drops beside.
struct Watched {
    qlog: Qlog<Vec<u8>>,
    dropped: Vec<(Time, usize, u64)>,
}

impl Probe for Watched {
    fn packet(&mut self, event: &PacketEvent) {
        if let (PacketStep::Dropped(..), alcc_sim::PacketContent::Data { pn, .. }) =
            (event.what, event.content)
        {
            self.dropped.push((event.at, event.flow, pn));
        }
        self.qlog.packet(event);
    }

    fn lost(&mut self, at: Time, flow: usize, packets: &[FoundLost]) {
        self.qlog.lost(at, flow, packets);
    }

    fn flow(&mut self, state: &FlowState<'_>) {
        self.qlog.flow(state);
    }

    fn wants_algorithms(&self) -> bool {
        true
    }

    fn algorithm(&mut self, event: &AlgorithmEvent) {
        self.qlog.algorithm(event);
    }
}

type Drops = Vec<(Time, usize, u64)>;

/// The records of a run of some seconds over 12 Mbit/s and 40 ms, its report, and what was dropped.
fn run(options: &str, flows: &[&str]) -> (Vec<Value>, Report, Drops) {
    run_as(Version::Draft14, options, flows)
}

fn run_as(version: Version, options: &str, flows: &[&str]) -> (Vec<Value>, Report, Drops) {
    let text = format!(
        "link = '12mbit'\nqueue = 'droptail:packets=20'\nduration = '3s'\n{options}\nflow = {flows:?}"
    );
    let options = ScenarioOptions::from_toml(&text, "qlog").unwrap();
    let scenario = options
        .resolve(&alcc_zoo::registry(), &())
        .unwrap()
        .scenario;
    let mut watched = Watched {
        qlog: Qlog::new(Vec::new(), version, "test", &About::default()).unwrap(),
        dropped: Vec::new(),
    };
    let report = alcc_sim::run_with(&scenario, &mut watched).unwrap();
    let text = String::from_utf8(watched.qlog.finish().unwrap()).unwrap();
    // RFC 7464
    let mut records = text.split('\x1e');
    assert_eq!(records.next(), Some(""));
    let records = records.map(|record| {
        assert!(record.ends_with('\n'));
        serde_json::from_str(record).unwrap()
    });
    (records.collect(), report, watched.dropped)
}

/// Runs with all events that there are.
const RUNS: [(&str, &[&str]); 6] = [
    ("", &["cubic", "udp:rate=2mbit"]),
    ("", &["verus/over=reno", "budget/over=cubic"]),
    (
        "loss = '2%'",
        &[
            "bbr",
            "bbr3",
            "verus",
            "sprout",
            "fixed:window=9/host=linux",
        ],
    ),
    ("loss = '2%'", &["reno/host=datagrams", "copa", "vivace"]),
    ("step = ['1s:rate=0bit']", &["cubic"]),
    ("loss-up = '100%'", &["reno/host=datagrams"]),
];

#[test]
fn every_record_is_as_the_schema_says() {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut triggers = BTreeSet::new();
    for (options, flows) in RUNS {
        let (records, _, _) = run(options, flows);
        check("file", FILE, &records[0]).unwrap();
        let mut last = 0.0;
        for event in &records[1..] {
            check_event(event).unwrap_or_else(|e| panic!("{flows:?}: {e}: {event}"));
            let at = event["time"].as_f64().unwrap();
            assert!(at >= last, "{event}");
            last = at;
            let name = event["name"].as_str().unwrap();
            *seen.entry(name.to_owned()).or_default() += 1;
            if let Some(trigger) = event["data"]["trigger"].as_str() {
                triggers.insert(trigger.to_owned());
            }
        }
    }
    for name in [
        "quic:packet_sent",
        "quic:packets_acked",
        "quic:packet_lost",
        "quic:recovery_metrics_updated",
        "alcc:window_reduced",
        "alcc:values_updated",
    ] {
        assert!(seen.contains_key(name), "{name} {seen:?}");
    }
    for trigger in [
        "time_threshold",
        "pto_expired",
        "retransmit_timeout",
        "pto_probe",
    ] {
        assert!(triggers.contains(trigger), "{trigger} {triggers:?}");
    }
}

#[test]
fn the_checker_refuses_what_the_schema_does_not_have() {
    let event = |name: &str, data: Value| json!({"time": 1.5, "name": name, "data": data});
    let header = json!({"packet_type": "1RTT", "packet_number": 3});
    let good = event(
        "quic:packet_lost",
        json!({"header": header, "trigger": "time_threshold"}),
    );
    check_event(&good).unwrap();
    for bad in [
        event("recovery:packet_lost", json!({"header": header})),
        event("quic:packet_lost", json!({"trigger": "loss"})),
        event("quic:recovery_metrics_updated", json!({"cwnd": 10})),
        event("quic:recovery_metrics_updated", json!({})),
        event(
            "quic:recovery_metrics_updated",
            json!({"congestion_window": 10.5}),
        ),
        event("quic:packets_acked", json!({"packet_numbers": []})),
        event(
            "quic:packet_sent",
            json!({"raw": {"length": 1, "payload_length": 1}}),
        ),
        json!({"name": "quic:packet_lost", "data": {}}),
    ] {
        assert!(check_event(&bad).is_err(), "{bad}");
    }
    let old = json!({"qlog_version": "0.3", "qlog_format": "JSON-SEQ", "trace": {}});
    assert!(check("file", FILE, &old).is_err());
}

/// The round trip is 40 ms: a sender cannot know of a drop at the bottleneck, which is 20 ms before
/// the receiver, in less than 40 ms.
#[test]
fn a_loss_stands_where_the_sender_learns_it() {
    let (records, report, dropped) = run("", &["cubic", "reno", "bbr"]);
    let (mut sent, mut acked, mut lost) = (BTreeSet::new(), BTreeSet::new(), BTreeMap::new());
    let mut min_rtt = f64::MAX;
    for event in &records[1..] {
        let (at, data) = (event["time"].as_f64().unwrap(), &event["data"]);
        let flow: usize = event["group_id"].as_str().unwrap().parse().unwrap();
        let number = || (flow, data["header"]["packet_number"].as_u64().unwrap());
        match event["name"].as_str().unwrap() {
            "quic:packet_sent" => assert!(sent.insert(number())),
            "quic:packet_lost" => {
                assert!(sent.contains(&number()));
                assert_eq!(lost.insert(number(), at), None);
            }
            "quic:packets_acked" => {
                for number in data["packet_numbers"].as_array().unwrap() {
                    let number = (flow, number.as_u64().unwrap());
                    assert!(sent.contains(&number) && acked.insert(number), "{number:?}");
                }
            }
            "quic:recovery_metrics_updated" => {
                min_rtt = data["min_rtt"].as_f64().unwrap_or(min_rtt);
            }
            _ => {}
        }
    }
    let all: u64 = report.flows.iter().map(|flow| flow.sent).sum();
    assert_eq!(sent.len() as u64, all);
    assert!(dropped.len() > 10);
    // What is dropped is found lost, but for the last round trip of the run; nothing else is.
    let end = records.last().unwrap()["time"].as_f64().unwrap();
    for (at, flow, pn) in dropped {
        let (at, packet) = (at.as_millis_f64(), (flow, pn));
        match lost.remove(&packet) {
            Some(learnt) => assert!(learnt >= at + 40.0 && learnt < at + 300.0, "{at} {learnt}"),
            None => assert!(end < at + 150.0, "{packet:?} dropped at {at} ms"),
        }
        assert!(!acked.contains(&packet));
    }
    assert!(lost.is_empty(), "{lost:?}");
    // the path, and a packet's own 1 ms on it
    assert!((min_rtt - 41.0).abs() < 2.0, "{min_rtt}");
}

#[test]
fn windows_are_bytes() {
    let last = |flow: &str| {
        let (records, _, _) = run("", &[flow]);
        let metrics = records
            .iter()
            .filter(|r| r["name"] == "quic:recovery_metrics_updated");
        let mut all = Map::new();
        for event in metrics {
            all.extend(event["data"].as_object().unwrap().clone());
        }
        all
    };
    let fixed = last("fixed:window=9/host=linux");
    assert_eq!(fixed["congestion_window"], 9 * 1448);
    assert_eq!(fixed["bytes_in_flight"], 9 * 1448);
    // The window of the TCP underneath is what limits its packets.
    let over = last("fixed:window=9/over=reno")["congestion_window"].as_u64();
    assert!(
        over.is_some_and(|n| n % 1448 == 0 && n > 9 * 1448),
        "{over:?}"
    );
    // A quota: its target window in bytes.
    assert!(last("verus")["congestion_window"].as_u64() > Some(1448));
}

/// The parts of one flow that qvis draws.
#[derive(Debug, Default, PartialEq)]
struct Drawn {
    sent: BTreeSet<u64>,
    acked: BTreeSet<u64>,
    lost: BTreeSet<u64>,
    /// By name of the line.
    metrics: BTreeMap<String, Vec<f64>>,
}

/// The same from both versions, by flow.
fn drawn(records: &[Value]) -> BTreeMap<String, Drawn> {
    let mut flows: BTreeMap<String, Drawn> = BTreeMap::new();
    for event in &records[1..] {
        let group = event["group_id"].as_str().expect("a group in each event");
        let flow = flows.entry(group.to_owned()).or_default();
        let data = &event["data"];
        let number = || data["header"]["packet_number"].as_u64().unwrap();
        let (_, name) = event["name"].as_str().unwrap().split_once(':').unwrap();
        match name {
            "packet_sent" => {
                assert!(data["raw"]["length"].as_u64() > Some(0), "{event}");
                assert!(flow.sent.insert(number()), "{event}");
            }
            "packet_lost" => {
                flow.lost.insert(number());
            }
            "packets_acked" => {
                let numbers = data["packet_numbers"].as_array().unwrap();
                flow.acked
                    .extend(numbers.iter().map(|n| n.as_u64().unwrap()));
            }
            "packet_received" => {
                assert!(data["raw"]["length"].as_u64() > Some(0), "{event}");
                number();
                for frame in data["frames"].as_array().unwrap() {
                    for range in frame["acked_ranges"].as_array().unwrap() {
                        // Both are included.
                        let [from, to] = [&range[0], &range[1]].map(|n| n.as_u64().unwrap());
                        flow.acked.extend(from..=to);
                    }
                }
            }
            "recovery_metrics_updated" | "metrics_updated" => {
                for (name, value) in data.as_object().unwrap() {
                    let line = flow.metrics.entry(name.clone()).or_default();
                    line.push(value.as_f64().unwrap());
                }
            }
            _ => {}
        }
    }
    flows
}

/// Its reader of JSON sequences, its loader, and its congestion graph (its commits 531a8a51 and 6c383e23).
#[test]
fn qvis_loads_version_0_3_and_draws_the_same() {
    for (options, flows) in RUNS {
        let (draft, _, _) = run(options, flows);
        let (records, _, _) = run_as(Version::V0_3, options, flows);
        check("file", OLD_FILE, &records[0]).unwrap();
        let (mut last, mut packets) = (BTreeMap::new(), BTreeSet::new());
        for event in &records[1..] {
            check_event_of(Version::V0_3, event).unwrap_or_else(|e| panic!("{e}: {event}"));
            // Events out of order are sorted with a warning, flow by flow.
            let (at, group) = (event["time"].as_f64().unwrap(), &event["group_id"]);
            let before = last.insert(group.to_string(), at);
            assert!(before.is_none_or(|before| before <= at), "{event}");
            // The sequence diagram joins both sides by the numbers.
            let number = &event["data"]["header"]["packet_number"];
            let packet = format!("{group} {} {number}", event["name"]);
            assert!(number.is_null() || packets.insert(packet), "{event}");
        }
        let here = drawn(&records);
        assert_eq!(here, drawn(&draft), "{flows:?}");
        assert_eq!(here.len(), flows.len());
        for (group, flow) in here {
            let flow_text = flows[group.parse::<usize>().unwrap()];
            assert!(!flow.sent.is_empty(), "{flow_text}");
            assert!(
                flow.acked.is_subset(&flow.sent) && flow.lost.is_subset(&flow.sent),
                "{flow_text}"
            );
            // Nothing comes back of datagrams, or through a path that loses all of it.
            if !flow_text.starts_with("udp") && !options.contains("loss-up") {
                assert!(!flow.acked.is_empty(), "{flow_text}");
                for line in ["bytes_in_flight", "smoothed_rtt", "latest_rtt", "min_rtt"] {
                    assert!(flow.metrics.contains_key(line), "{flow_text}: {line}");
                }
            }
        }
    }
}

/// A file that is not called .sqlog is known by its first 1,024 characters.
#[test]
fn qvis_finds_version_and_form_at_the_beginning() {
    let about = About {
        command: "alcc-lab sim ".repeat(200),
        ..About::default()
    };
    let qlog = Qlog::new(Vec::new(), Version::V0_3, "test", &about).unwrap();
    let text = String::from_utf8(qlog.finish().unwrap()).unwrap();
    let beginning: String = text.chars().take(1024).collect();
    for word in ["qlog_version", "qlog_format", "JSON-SEQ"] {
        assert!(beginning.contains(word), "{beginning}");
    }
    assert!(!beginning.contains("NDJSON"));
}
