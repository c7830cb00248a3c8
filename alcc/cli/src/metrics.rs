// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `alcc run --metrics`: the counters of a run in Prometheus' text format.
use crate::failure::Failure;
use crate::http::{Answer, Handler, Place, Request, Server};
use alcc_observe::{BOUNDS_US, ByReason, Group, Histogram, Missed, Segment};
use std::fmt::Write as _;
use std::sync::Arc;

/// Writes more metrics.
pub(crate) type More = Arc<dyn Fn(&mut Page) + Send + Sync>;

/// Both the page and who serves it.
pub(crate) struct Metrics {
    _server: Server,
}

impl Metrics {
    /// Serves the counters until the program ends. `more` writes what follows the segment's own
    /// figures.
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

/// Where the figures come from.
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

/// The page. Names and units as Prometheus recommends: base units, `_total` for counters.
fn page(segment: &Segment) -> Page {
    let mut page = Page(String::new());
    processes(segment, &mut page);
    state(segment, &mut page);
    uncontrolled(segment, &mut page);
    groups(segment, &mut page);
    open_now(segment, &mut page);
    page
}

/// Counters of the run as a whole.
fn processes(segment: &Segment, page: &mut Page) {
    let t = segment.totals();
    for (name, help, value) in [
        (
            "alcc_processes_total",
            "Processes that loaded the library.",
            t.processes as f64,
        ),
        (
            "alcc_runtime_failures_total",
            "Processes whose runtime failed.",
            t.failures as f64,
        ),
        (
            "alcc_runtime_cpu_seconds_total",
            "CPU time of the runtime's threads.",
            t.runtime_cpu_ns as f64 / 1e9,
        ),
        (
            "alcc_wakeups_total",
            "Wake-ups of the runtime's threads at a planned time.",
            t.wakeups as f64,
        ),
        (
            "alcc_late_wakeups_total",
            "Those of them more than 3 ms late: the thread waited for a processor.",
            t.late_wakeups as f64,
        ),
        (
            "alcc_connections_not_shown_total",
            "Connections that found no place in the table.",
            segment.not_shown() as f64,
        ),
    ] {
        page.metric(name, "counter", help);
        page.sample(name, "", value);
    }
}

/// Which alcc it is, and whether it is on.
fn state(segment: &Segment, page: &mut Page) {
    page.metric(
        "alcc_build_info",
        "gauge",
        "Always 1; the label says which alcc.",
    );
    let version = concat!("version=\"", env!("CARGO_PKG_VERSION"), "\"");
    page.sample("alcc_build_info", version, 1.0);
    page.metric(
        "alcc_enabled",
        "gauge",
        "0 after 'alcc ctl off' for all connections, else 1.",
    );
    let orders = segment.commands().unwrap_or_default();
    page.sample("alcc_enabled", "", f64::from(u8::from(!orders.all_off())));
}

/// Counters and distributions by port and algorithm.
fn groups(segment: &Segment, page: &mut Page) {
    let groups = segment.groups();
    type Get = fn(&Group) -> u64;
    let counters: [(&str, &str, Get); 5] = [
        (
            "alcc_connections_total",
            "Connections taken under control.",
            |g| g.totals.connections,
        ),
        (
            "alcc_bytes_total",
            "Bytes that passed under control.",
            |g| g.totals.bytes,
        ),
        (
            "alcc_gate_closed_total",
            "Writes refused or cut short by the algorithm.",
            |g| g.totals.gate_closed,
        ),
        ("alcc_retransmits_total", "Segments sent again.", |g| {
            g.totals.retransmits
        }),
        (
            "alcc_readings_total",
            "Readings of the kernel's counters.",
            |g| g.totals.readings,
        ),
    ];
    for (name, help, get) in counters {
        page.metric(name, "counter", help);
        for g in &groups {
            page.sample(name, &labels(g.port, &g.algorithm), get(g) as f64);
        }
    }
    type HistogramOf = fn(&Group) -> &Histogram;
    let histograms: [(&str, &str, HistogramOf); 2] = [
        (
            "alcc_rtt_seconds",
            "RTT, one sample per reading of a connection, not per byte.",
            |g| &g.rtt,
        ),
        (
            "alcc_queueing_delay_seconds",
            "RTT above the connection's smallest, one sample per reading of a connection, not per byte.",
            |g| &g.queueing,
        ),
    ];
    for (name, help, get) in histograms {
        page.metric(name, "histogram", help);
        for g in &groups {
            page.histogram(name, &labels(g.port, &g.algorithm), get(g));
        }
    }
}

/// Uncontrolled traffic, by reason.
fn uncontrolled(segment: &Segment, page: &mut Page) {
    let totals = segment.totals();
    let missed: Vec<_> = segment.missed();
    let name = "alcc_left_alone_total";
    let help = "TCP connections left alone by the selection, by what leaves them out.";
    page.metric(name, "counter", help);
    for why in Missed::ALL.into_iter().filter(|why| why.is_chosen()) {
        let found = missed.iter().find(|(other, _)| *other == why);
        let n = found.map_or(0, |(_, n)| n.connections);
        page.sample(name, &format!("reason=\"{}\"", why.name()), n as f64);
    }
    let bypassed = |n: &ByReason| -> Vec<_> {
        let all = n.iter().filter(|(_, n)| *n > 0);
        all.map(|(why, n)| (why.name(), n)).collect()
    };
    let connections = missed.iter().map(|(why, n)| (why.name(), n.connections));
    // The bytes of connections that are left alone are not counted.
    let looked_at = missed.iter().filter(|(why, _)| !why.is_chosen());
    let bytes = looked_at.map(|(why, n)| (why.name(), n.bytes));
    for (name, help, samples) in [
        (
            "alcc_uncontrolled_connections_total",
            "TCP connections that were not, or not wholly, controlled.",
            connections
                .chain(bypassed(&totals.bypassed_connections))
                .collect::<Vec<_>>(),
        ),
        (
            "alcc_uncontrolled_bytes_total",
            "Bytes that passed uncontrolled, at least; of connections left alone they are not counted.",
            bytes.chain(bypassed(&totals.bypassed_bytes)).collect(),
        ),
    ] {
        page.metric(name, "counter", help);
        for (reason, n) in samples {
            page.sample(name, &format!("reason=\"{reason}\""), n as f64);
        }
    }
}

/// Gauges: what is open at this moment.
fn open_now(segment: &Segment, page: &mut Page) {
    let mut now = std::collections::BTreeMap::<(u16, String, &str), (u64, u64)>::new();
    for c in segment.connections() {
        let port = if c.who.outbound {
            c.who.remote.port()
        } else {
            c.who.local.port()
        };
        let state = c.now.word();
        let sum = now.entry((port, c.who.algorithm, state)).or_default();
        sum.0 += 1;
        sum.1 = sum.1.saturating_add(c.now.in_flight.get());
    }
    type Gauge = fn(&(u64, u64)) -> u64;
    let gauges: [(&str, &str, Gauge); 2] = [
        ("alcc_connections", "Connections open now.", |n| n.0),
        ("alcc_in_flight_bytes", "Bytes in flight now.", |n| n.1),
    ];
    for (name, help, get) in gauges {
        page.metric(name, "gauge", help);
        for ((port, algorithm, state), n) in &now {
            let labels = format!("{},state=\"{state}\"", labels(*port, algorithm));
            page.sample(name, &labels, get(n) as f64);
        }
    }
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
    pub(crate) fn metric(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    pub(crate) fn sample(&mut self, name: &str, labels: &str, value: f64) {
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
        segment.count(&alcc_observe::Event::left_alone(Missed::Loopback));
        segment.count(&alcc_observe::Event::left_alone(Missed::Loopback));
        let page = page(&segment).0;
        for (reason, n) in [("loopback", 2), ("outbound", 0), ("excluded", 0)] {
            let line = format!("alcc_left_alone_total{{reason=\"{reason}\"}} {n}\n");
            assert!(page.contains(&line), "{page}");
        }
    }

    #[test]
    fn a_port_alone_is_every_address() {
        let (_dir, segment) = segment();
        // A port that is free now; taken by somebody else in between the next one will do.
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
        // As many as are served at a time, none of which ever asks. One that talks without end, and
        // one that is gone at once.
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
