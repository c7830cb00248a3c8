// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The events of the algorithms of a run, as lines of text or as JSON objects.
use crate::failure::Failure;
use crate::http::spawn;
use crate::output::{Product, Reader, note};
use alcc_observe::{EventEntry, EventReader, Segment};
use alcc_results::events;
use alcc_socket::now;
use alcc_units::Time;
use serde_json::{Map, Value, json};
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

/// Beside the CSV files of `--log`.
const FILE: &str = "events.jsonl";
/// Interval at which the ring is emptied. It holds 8192 events.
const PERIOD: Duration = Duration::from_millis(50);

/// `12.031 s  10.0.0.1:80 > 10.0.0.2:41234  copa  slow start ended by delay (...)`.
pub(crate) fn sentence(origin: Time, e: &EventEntry) -> String {
    format!(
        "{:.3} s  {} > {}  {}  {}",
        e.at.since(origin).as_secs_f64(),
        e.local,
        e.remote,
        e.algorithm,
        events::sentence(&e.event, &e.rtt)
    )
}

/// One line: the connection, the event, and its values.
pub(crate) fn object(origin: Time, e: &EventEntry) -> Value {
    let who = json!({
        "time_ms": e.at.since(origin).as_millis_f64(), "pid": e.pid, "connection": e.id,
        "local": e.local.to_string(), "peer": e.remote.to_string(), "algorithm": e.algorithm,
        "event": e.event.name(),
    });
    let all = [who, Value::Object(events::values(&e.event, &e.rtt))];
    let all = all.into_iter().filter_map(|part| match part {
        Value::Object(map) => Some(map),
        _ => None,
    });
    Value::Object(all.flatten().collect::<Map<_, _>>())
}

/// Writes the events of a run into a file. If the file cannot be written, the run goes on without
/// it.
pub(crate) struct Follower {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Follower {
    /// Starts, if a folder is named. Records processes that start from now on.
    pub(crate) fn start(
        segment: &Arc<Segment>,
        folder: Option<&Path>,
    ) -> Result<Option<Self>, Failure> {
        let Some(folder) = folder else {
            return Ok(None);
        };
        let out = Product::open(Some(&folder.join(FILE)))?;
        let stop = Arc::new(AtomicBool::new(false));
        let (segment, stopped) = (Arc::clone(segment), Arc::clone(&stop));
        let (tell, ready) = mpsc::channel();
        let thread = spawn("alcc-events", move || {
            let events = match segment.events() {
                Ok(events) => events,
                Err(e) => return drop(tell.send(Err(e))),
            };
            events.renew(now());
            // No process starts before this.
            drop(tell.send(Ok(())));
            if let Err(why) = follow(events, out, &stopped) {
                note(format_args!("alcc: {why}"));
            }
        });
        let wrong = |e| Failure::usage(format!("follow the events of the algorithms: {e}"));
        let thread = thread.map_err(wrong)?;
        let ready = ready.recv().map_err(io::Error::other);
        ready.and_then(|ready| ready).map_err(wrong)?;
        Ok(Some(Self {
            stop,
            thread: Some(thread),
        }))
    }

    /// Writes the remaining events, and ends.
    pub(crate) fn finish(mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            drop(thread.join());
        }
    }
}

fn follow(
    mut ring: EventReader<'_>,
    mut out: Product,
    stopped: &AtomicBool,
) -> Result<(), Failure> {
    let (origin, mut lost) = (now(), 0);
    loop {
        let over = stopped.load(Ordering::Acquire);
        ring.renew(now());
        let mut lines = Vec::new();
        ring.read(|e| lines.push(object(origin, e)));
        if ring.lost() > lost {
            lines.push(json!({"dropped": ring.lost() - lost}));
            lost = ring.lost();
        }
        let write = |to: &mut dyn Write| lines.iter().try_for_each(|line| writeln!(to, "{line}"));
        if !lines.is_empty() && out.add(write)? == Reader::Gone || over {
            ring.end();
            return Ok(());
        }
        std::thread::park_timeout(PERIOD);
    }
}
