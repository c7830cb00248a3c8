// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `alcc run --metrics`: the counters of a run in Prometheus' text format.
use crate::failure::Failure;
use crate::http::{Answer, Handler, Place, Request, Server};
use alcc_observe::{BOUNDS_US, Group, Histogram, Missed, Segment, Totals, Uncontrolled};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use Samples::{Groups, Histograms, Now, One, Reasons};

/// Writes more metrics.
pub(crate) type More = Arc<dyn Fn(&mut Page) + Send + Sync>;

/// The page of metrics and its server.
pub(crate) struct Metrics {
    _server: Server,
}

impl Metrics {
    /// Serves the counters until the program ends. `more` writes metrics after those of the segment.
    pub(crate) fn start(
        place: &Place,
        segment: Arc<Segment>,
        more: Option<More>,
    ) -> Result<Self, Failure> {
        let source = Source { segment, more };
        let handler: Handler = Arc::new(move |request| answer(request, &source));
        let _server = Server::start(place, "--metrics", handler)?;
        Ok(Self { _server })
    }
}

fn answer(request: &Request, source: &Source) -> Answer {
    const KIND: &str = "text/plain; version=0.0.4; charset=utf-8";
    match (request.method.as_str(), request.path.as_str()) {
        ("GET", "/" | "/metrics") => Answer::new("200 OK", KIND, source.page()),
        ("GET", _) => Answer::wrong("404 Not Found", "see /metrics"),
        _ => Answer::wrong("405 Method Not Allowed", "only GET"),
    }
}

/// The source of the figures.
struct Source {
    segment: Arc<Segment>,
    more: Option<More>,
}

impl Source {
    fn page(&self) -> String {
        let mut page = page(&self.segment);
        if let Some(more) = &self.more {
            more(&mut page);
        }
        page.0
    }
}

/// A metric: name, type, help text, and how its samples are computed.
struct Metric(&'static str, &'static str, &'static str, Samples);

enum Samples {
    /// A single sample, with these labels.
    One(&'static str, fn(&View) -> f64),
    /// By the reason why traffic is not controlled.
    Reasons(fn(&View) -> Vec<(&'static str, u64)>),
    /// By port and algorithm.
    Groups(fn(&Group) -> u64),
    /// Distributions by port and algorithm.
    Histograms(fn(&Group) -> &Histogram),
    /// A sum over the connections open now, by port, algorithm and state.
    Now(fn(&Open) -> u64),
}

const VERSION: &str = concat!("version=\"", env!("CARGO_PKG_VERSION"), "\"");

/// All metrics, in the order of the page; one line adds one. Names and units as Prometheus
/// recommends: base units, `_total` for counters.
#[rustfmt::skip]
const METRICS: &[Metric] = &[
    Metric("alcc_processes_total", "counter", "Processes that loaded the library.", One("", |v| v.totals.processes as f64)),
    Metric("alcc_runtime_failures_total", "counter", "Processes whose runtime failed.", One("", |v| v.totals.failures as f64)),
    Metric("alcc_runtime_cpu_seconds_total", "counter", "CPU time of the runtime's threads.", One("", |v| v.totals.runtime_cpu_ns as f64 / 1e9)),
    Metric("alcc_wakeups_total", "counter", "Wake-ups of the runtime's threads at a planned time.", One("", |v| v.totals.wakeups as f64)),
    Metric("alcc_late_wakeups_total", "counter", "Wake-ups more than 3 ms late, because the thread waited for a CPU.", One("", |v| v.totals.late_wakeups as f64)),
    Metric("alcc_connections_not_shown_total", "counter", "Connections for which the table had no room.", One("", |v| v.not_shown as f64)),
    Metric("alcc_build_info", "gauge", "Always 1; the label is the version of alcc.", One(VERSION, |_| 1.0)),
    Metric("alcc_enabled", "gauge", "0 after 'alcc ctl off' for all connections, else 1.", One("", |v| f64::from(u8::from(v.is_enabled)))),
    Metric("alcc_left_alone_total", "counter", "TCP connections excluded by the selection, by reason.", Reasons(left_alone)),
    Metric("alcc_uncontrolled_connections_total", "counter", "TCP connections that were not controlled, or only in part.", Reasons(|v| v.uncontrolled.iter().map(|one| (one.reason, one.connections)).collect())),
    Metric("alcc_uncontrolled_bytes_total", "counter", "Bytes sent without control, a lower bound, without those of excluded connections.", Reasons(|v| v.uncontrolled.iter().filter_map(|one| Some((one.reason, one.bytes?))).collect())),
    Metric("alcc_connections_total", "counter", "Connections taken under control.", Groups(|g| g.totals.connections)),
    Metric("alcc_bytes_total", "counter", "Bytes sent under control.", Groups(|g| g.totals.bytes)),
    Metric("alcc_gate_closed_total", "counter", "Writes refused or cut short by the algorithm.", Groups(|g| g.totals.gate_closed)),
    Metric("alcc_retransmits_total", "counter", "Segments retransmitted.", Groups(|g| g.totals.retransmits)),
    Metric("alcc_readings_total", "counter", "Readings of the kernel's counters.", Groups(|g| g.totals.readings)),
    Metric("alcc_rtt_seconds", "histogram", "RTT, one sample per reading of a connection, not per byte.", Histograms(|g| &g.rtt)),
    Metric("alcc_queueing_delay_seconds", "histogram", "RTT above the connection's minimum, one sample per reading of a connection, not per byte.", Histograms(|g| &g.queueing)),
    Metric("alcc_connections", "gauge", "Open connections.", Now(|n| n.connections)),
    Metric("alcc_in_flight_bytes", "gauge", "Bytes in flight.", Now(|n| n.in_flight)),
];

/// The input of the metrics: a snapshot of the segment.
struct View {
    totals: Totals,
    not_shown: u64,
    is_enabled: bool,
    uncontrolled: Vec<Uncontrolled>,
    groups: Vec<Group>,
    /// By port, algorithm and state.
    open: BTreeMap<(u16, String, &'static str), Open>,
}

/// Open connections of one state.
#[derive(Default)]
struct Open {
    connections: u64,
    in_flight: u64,
}

impl View {
    fn of(segment: &Segment) -> Self {
        let mut open = BTreeMap::<_, Open>::new();
        for c in segment.connections() {
            let port = if c.who.outbound {
                c.who.remote.port()
            } else {
                c.who.local.port()
            };
            let state = c.now.word();
            let sum = open.entry((port, c.who.algorithm, state)).or_default();
            sum.connections += 1;
            sum.in_flight = sum.in_flight.saturating_add(c.now.in_flight.get());
        }
        Self {
            totals: segment.totals(),
            not_shown: segment.not_shown(),
            is_enabled: !segment.commands().unwrap_or_default().all_off(),
            uncontrolled: segment.uncontrolled().collect(),
            groups: segment.groups(),
            open,
        }
    }
}

fn left_alone(view: &View) -> Vec<(&'static str, u64)> {
    let chosen = Missed::ALL.into_iter().filter(|why| why.is_chosen());
    let found = |why: Missed| {
        view.uncontrolled
            .iter()
            .find(|one| one.reason == why.name())
    };
    chosen
        .map(|why| (why.name(), found(why).map_or(0, |one| one.connections)))
        .collect()
}

fn page(segment: &Segment) -> Page {
    let view = View::of(segment);
    let mut page = Page(String::new());
    for Metric(name, kind, help, samples) in METRICS {
        let groups = view
            .groups
            .iter()
            .map(|g| (labels(g.port, &g.algorithm), g));
        match samples {
            One(labels, get) => page.metric(name, kind, help, [((*labels).to_owned(), get(&view))]),
            Reasons(get) => {
                let all = get(&view).into_iter();
                let labelled = |(reason, n)| (format!("reason=\"{reason}\""), n as f64);
                page.metric(name, kind, help, all.map(labelled));
            }
            Groups(get) => {
                page.metric(
                    name,
                    kind,
                    help,
                    groups.map(|(labels, g)| (labels, get(g) as f64)),
                );
            }
            Histograms(get) => {
                page.metric(name, kind, help, []);
                groups.for_each(|(labels, g)| page.histogram(name, &labels, get(g)));
            }
            Now(get) => {
                let labelled = |((port, algorithm, state), n): (&(u16, String, &str), &Open)| {
                    let labels = labels(*port, algorithm);
                    (format!("{labels},state=\"{state}\""), get(n) as f64)
                };
                page.metric(name, kind, help, view.open.iter().map(labelled));
            }
        }
    }
    page
}

fn labels(port: u16, algorithm: &str) -> String {
    let escaped = algorithm
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n");
    format!("port=\"{port}\",algorithm=\"{escaped}\"")
}

/// The text so far.
pub(crate) struct Page(String);

impl Page {
    /// Adds a metric with its samples: labels and value.
    pub(crate) fn metric(
        &mut self,
        name: &str,
        kind: &str,
        help: &str,
        samples: impl IntoIterator<Item = (String, f64)>,
    ) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (labels, value) in samples {
            self.sample(name, &labels, value);
        }
    }

    fn sample(&mut self, name: &str, labels: &str, value: f64) {
        let _ = if labels.is_empty() {
            writeln!(self.0, "{name} {value}")
        } else {
            writeln!(self.0, "{name}{{{labels}}} {value}")
        };
    }

    fn histogram(&mut self, name: &str, labels: &str, h: &Histogram) {
        let mut sum = 0u64;
        let bounds = BOUNDS_US.iter().map(|us| (*us as f64 / 1e6).to_string());
        for (n, bound) in h.buckets.iter().zip(bounds.chain(["+Inf".to_owned()])) {
            sum = sum.saturating_add(*n);
            self.sample(
                &format!("{name}_bucket"),
                &format!("{labels},le=\"{bound}\""),
                sum as f64,
            );
        }
        self.sample(&format!("{name}_sum"), labels, h.sum_us as f64 / 1e6);
        self.sample(&format!("{name}_count"), labels, sum as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::MAX_READERS;
    use alcc_observe::Event;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    fn segment() -> (tempfile::TempDir, Arc<Segment>) {
        let dir = tempfile::tempdir().unwrap();
        let segment = Segment::create(&dir.path().join("report")).unwrap();
        (dir, Arc::new(segment))
    }

    fn get(at: &std::path::Path, request: &str) -> String {
        let mut stream = UnixStream::connect(at).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn what_is_left_alone_has_its_reason() {
        let (_dir, segment) = segment();
        segment.count(&Event::left_alone(Missed::Loopback));
        segment.count(&Event::left_alone(Missed::Loopback));
        let page = page(&segment).0;
        for (reason, n) in [("loopback", 2), ("outbound", 0), ("excluded", 0)] {
            let line = format!("alcc_left_alone_total{{reason=\"{reason}\"}} {n}\n");
            assert!(page.contains(&line), "{page}");
        }
    }

    #[test]
    fn a_port_alone_is_every_address() {
        let (_dir, segment) = segment();
        // A free port. If another program takes it meanwhile, the next one is used.
        let port = (0..20)
            .find_map(|_| {
                let free = TcpListener::bind("[::]:0").ok()?.local_addr().ok()?.port();
                let place = format!(":{free}").parse().unwrap();
                let metrics = Metrics::start(&place, Arc::clone(&segment), None).ok()?;
                std::mem::forget(metrics);
                Some(free)
            })
            .expect("a free port");
        for host in ["127.0.0.1", "::1"] {
            let mut stream = match TcpStream::connect((host, port)) {
                Ok(stream) => stream,
                Err(_) if host == "::1" && TcpListener::bind("[::1]:0").is_err() => continue,
                Err(e) => panic!("{host}: {e}"),
            };
            stream.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
            let mut text = String::new();
            stream.read_to_string(&mut text).unwrap();
            assert!(text.starts_with("HTTP/1.1 200"), "{host}: {text}");
        }
    }

    #[test]
    fn slow_and_hostile_clients_do_not_keep_others_out() {
        let (dir, segment) = segment();
        let at = dir.path().join("metrics.sock");
        let metrics = Metrics::start(&Place::Path(at.clone()), segment, None).unwrap();
        // As many clients as are served at a time, none of which sends a request; one that never stops
        // sending, and one that leaves at once.
        let mut silent: Vec<_> = (0..MAX_READERS)
            .map(|_| UnixStream::connect(&at).unwrap())
            .collect();
        silent[0].write_all(b"GET /").unwrap();
        drop(UnixStream::connect(&at).unwrap());
        // The oldest of them makes place.
        let page = get(&at, "GET /metrics HTTP/1.1\r\n\r\n");
        assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{page}");
        assert!(get(&at, "GET /other HTTP/1.0\r\n\r\n").starts_with("HTTP/1.1 404"));
        assert!(get(&at, "POST / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
        let mut endless = UnixStream::connect(&at).unwrap();
        endless
            .set_write_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        let taken = (0..1_000)
            .take_while(|_| endless.write_all(&[b'x'; 4096]).is_ok())
            .count();
        assert!(taken < 1_000, "a request without end is cut off");
        drop(metrics);
        assert!(!at.exists());
    }
}
