// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The events of the algorithms of a run, as lines of text or as JSON objects.
use crate::failure::{Failure, reason};
use crate::http::spawn;
use crate::output::{Product, Reader, can_hold_files, not_a_folder, note};
use alcc_cc::events;
use alcc_observe::{EventEntry, EventReader, MAX_FILE_WAIT, Segment};
use alcc_socket::now;
use alcc_sys::{Sticky, open_owned, overwrite_own, within};
use alcc_units::Time;
use serde_json::{Map, Value, json};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

/// Name of the file, in the folder of the CSV files of `--log`.
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

/// [`MAX_FILE_WAIT`] as a duration of the standard library.
const MAX_WAIT: Duration = Duration::from_nanos(MAX_FILE_WAIT.as_nanos());

/// Checks that a server can write its log into this folder, which is created. If the machine refuses
/// (a full or read-only disk, a file system that does not respond), or another user may have blocked
/// the path, a warning is printed and the server starts without a log.
///
/// # Errors
/// [`Failure::Usage`] if the caller has to name another folder.
pub(crate) fn log_folder(path: Option<&Path>) -> Result<Option<PathBuf>, Failure> {
    let Some(path) = path.map(Path::to_owned) else {
        return Ok(None);
    };
    let tried = path.clone();
    let can = within(MAX_FILE_WAIT, move || {
        can_hold_files(&tried).map_err(|e| (is_callers(&tried, &e), e))
    });
    let said = match can {
        Some(Ok(())) => return Ok(Some(path)),
        Some(Err((true, e))) => return Err(not_a_folder(&path, e)),
        Some(Err((false, e))) => reason(&e),
        None => "the file system does not answer".to_owned(),
    };
    note(format_args!(
        "alcc: write into {}: {said}: continuing without a log",
        path.display()
    ));
    Ok(None)
}

/// True if only the caller can have caused the error, because no other user can write above the folder.
fn is_callers(folder: &Path, error: &io::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    let kinds = [ReadOnlyFilesystem, StorageFull, QuotaExceeded];
    if kinds.contains(&error.kind()) || error.raw_os_error() == Some(nix::libc::EIO) {
        return false;
    }
    let above = folder.ancestors().skip(1).find(|above| above.is_dir());
    let above = std::fs::canonicalize(above.unwrap_or_else(|| Path::new(".")));
    above.is_ok_and(|above| open_owned(&above, Sticky::Allowed).is_ok())
}

/// Writes the events of a run into a file. If the file cannot be written, the run continues without
/// it.
pub(crate) struct Follower {
    stop: Arc<AtomicBool>,
    done: mpsc::Receiver<()>,
    thread: JoinHandle<()>,
}

impl Follower {
    /// Starts if a folder is named. Records processes that start from now on. The owner of the
    /// folder may have put something else in the place of the file: the server starts nevertheless.
    pub(crate) fn start(segment: &Arc<Segment>, folder: Option<&Path>) -> Option<Self> {
        let folder = folder?;
        let path = folder.join(FILE);
        let (end, done) = mpsc::channel();
        let stop = Arc::new(AtomicBool::new(false));
        let (segment, stopped) = (Arc::clone(segment), Arc::clone(&stop));
        let (tell, ready) = mpsc::channel();
        let thread = spawn("alcc-events", move || {
            let _end = end;
            let out = match overwrite_own(&path) {
                Ok(file) => Product::of(file, &path),
                Err(e) => return drop(tell.send(Err(e))),
            };
            let events = match segment.events() {
                Ok(events) => events,
                Err(e) => return drop(tell.send(Err(e))),
            };
            events.renew(now());
            // No process has started before this.
            drop(tell.send(Ok(())));
            if let Err(why) = follow(events, out, &stopped) {
                note(format_args!("alcc: {why}"));
            }
        });
        let file = folder.join(FILE);
        let said = match thread.map(|thread| (ready.recv_timeout(MAX_WAIT), thread)) {
            Ok((Ok(Ok(())), thread)) => return Some(Self { stop, done, thread }),
            Ok((Ok(Err(e)), _)) | Err(e) => reason(&e),
            Ok((Err(_), _)) => "the file system does not answer".to_owned(),
        };
        note(format_args!(
            "alcc: write {}: {said}: continuing without the events",
            file.display()
        ));
        None
    }

    /// Writes the remaining events, and ends.
    pub(crate) fn finish(self) {
        self.stop.store(true, Ordering::Release);
        self.thread.thread().unpark();
        if self.done.recv_timeout(MAX_WAIT) == Err(mpsc::RecvTimeoutError::Timeout) {
            note("alcc: write the last events: the file system does not answer");
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
