// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `alcc-lab trace record`: the two ends of a measurement.
mod args;
mod folder;

use crate::about::{about, whole_command};
use crate::failure::Failure;
use crate::output::{note, print};
use crate::progress::{Bar, stop_flag};
use alcc_link::Dir;
use alcc_live::board::emulated_now;
use alcc_record::session::{Phase, Session};
use alcc_record::{Event, Limits, Listener, Mode, RecordError, Recording, Request};
use alcc_results::About;
use alcc_units::{Bytes, Span, Time};
pub(crate) use args::Args;
use folder::Folder;
use serde_json::{Value, json};
use std::io::ErrorKind;
use std::num::NonZeroU64;
use std::process::ExitCode;

/// A sender that was held up for longer may have let the queue run empty.
const HELD_UP: Span = Span::from_millis(300);

pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    match &args.host {
        Some(host) => record(args, host),
        None => listen(args),
    }
}

fn failure(e: RecordError) -> Failure {
    match &e {
        RecordError::Socket { source, .. } if source.kind() == ErrorKind::AddrInUse => {
            let help = "stop the program that listens there, or choose another port";
            Failure::usage(format_args!("{e}: {help}"))
        }
        e if e.is_usage() => Failure::usage(e),
        e => Failure::failed(e),
    }
}

/// Metadata of a recording with `peer` that begins now.
fn metadata(peer: String) -> Value {
    let side = About {
        mode: "recorded".to_owned(),
        link: peer,
        ..emulated_now()
    };
    json!(about(whole_command(), side, []))
}

fn record(args: &Args, host: &str) -> Result<ExitCode, Failure> {
    let to = args.target(host)?;
    let folder = Folder::of(args.out.as_deref(), "recording");
    folder.must_be_free()?;
    let request = Request {
        to,
        from: args.bind,
        plan: args.plan(to)?,
        label: args.label(),
        patience: args.patience,
    };
    let stop = stop_flag()?;
    let about = metadata(to.to_string());
    let mut bar = Bar::new();
    let recording = alcc_record::record(&request, &stop, &mut |session, now| {
        bar.show(session.progress(now), &said(session, now));
    })
    .map_err(failure)?;
    drop(bar);
    let (folder, _) = folder.write(&recording, u64::MAX, &about)?;
    tell(args, &recording, &about, &folder)?;
    if recording.is_complete() {
        return Ok(ExitCode::SUCCESS);
    }
    Err(Failure::failed(format!(
        "record with {to}: {}; data received until then is in {}",
        broken(&recording),
        folder.display()
    )))
}

fn listen(args: &Args) -> Result<ExitCode, Failure> {
    let at = args.listen_address()?;
    let parent = Folder::of(args.out.as_deref(), "recordings");
    let limits = Limits {
        sessions: args.sessions.get(),
        duration: args.max_duration,
        rate: args.limit,
        together: args.together.get(),
    };
    let stop = stop_flag()?;
    let mut listener = Listener::bind(at, limits).map_err(failure)?;
    let at = listener.address().map_err(failure)?;
    note(format_args!(
        "alcc-lab trace record: listening on {at}; Ctrl-C ends it"
    ));
    let mut bar = Bar::new();
    let mut first = None;
    // Made here, because it reads the whole program, and other recordings go on later.
    let own = metadata(String::new());
    let mut remaining = args.max_total.map_or(u64::MAX, Bytes::get);
    listener
        .run(
            args.count.map(NonZeroU64::get),
            &stop,
            &mut |event| match event {
                Event::Opened { peer, label, plan } => {
                    note(format_args!(
                        "{label} ({peer}): {} for {}",
                        plan.mode, plan.duration
                    ));
                }
                Event::Refused { peer, why } => note(format_args!("{peer}: refused: {why}")),
                Event::Progress {
                    label,
                    session,
                    now,
                } => bar.show(
                    session.progress(now),
                    &format!("{label}: {}", said(session, now)),
                ),
                Event::Closed(recording) => {
                    let mut about = own.clone();
                    about["link"] = json!(recording.peer);
                    about["date"] = json!(emulated_now().date);
                    let result = parent
                        .inside(&recording.label)
                        .write(&recording, remaining, &about);
                    let told = result.and_then(|(folder, bytes)| {
                        remaining = remaining.saturating_sub(bytes);
                        if !recording.is_complete() {
                            note(format_args!(
                                "{} ({}): {}; data received until then is in {}",
                                recording.label,
                                recording.peer,
                                broken(&recording),
                                folder.display()
                            ));
                        }
                        tell(args, &recording, &about, &folder)
                    });
                    if let Err(e) = told {
                        note(format_args!("alcc-lab trace record: {e}"));
                        first.get_or_insert(e);
                    }
                }
            },
        )
        .map_err(failure)?;
    drop(bar);
    first.map_or(Ok(ExitCode::SUCCESS), Err)
}

/// The phase of the recording, for the progress bar.
fn said(session: &Session, now: Time) -> String {
    let rate = session.arrivals().map_or(0, |a| a.report().rate);
    match session.phase() {
        Phase::Sync if session.is_waiting() => "waiting for others".to_owned(),
        Phase::Sync => "comparing clocks".to_owned(),
        Phase::Recording if now.since(session.last_received()) > Span::from_secs(1) => {
            format!(
                "no data for {:.0} s",
                now.since(session.last_received()).as_secs_f64()
            )
        }
        Phase::Recording => format!("receiving {:.2} Mbit/s", rate as f64 / 1e6),
        Phase::Draining => "draining queues".to_owned(),
        Phase::Fetching => "fetching the other end's part".to_owned(),
        Phase::Done(_) => "done".to_owned(),
    }
}

/// Reason why a recording is not complete.
fn broken(recording: &Recording) -> String {
    use alcc_record::session::End;
    let reached = format!("after {:.1} s", recording.reached().as_secs_f64());
    match recording.end {
        End::Silent(_) => format!("the other end stopped responding {reached}"),
        End::Left => format!("the other end left {reached}"),
        End::Stopped => format!("stopped {reached}"),
        End::Complete => "the other end's part is unreadable".to_owned(),
    }
}

fn tell(
    args: &Args,
    recording: &Recording,
    about: &Value,
    folder: &std::path::Path,
) -> Result<(), Failure> {
    let mut json = recording.to_json(about);
    json["folder"] = folder.display().to_string().into();
    if args.json {
        print(format!("{json}\n"))?;
        return Ok(());
    }
    let mut text = String::new();
    for dir in Dir::BOTH {
        let found = &json[dir.name()];
        if found.is_null() {
            continue;
        }
        let number = |name: &str| found[name].as_f64().unwrap_or(f64::NAN);
        text += &format!(
            "{} {:<4} {:.2} Mbit/s, {} packets, delay median {:.1} p95 {:.1} ms, longest gap {} ms{}\n",
            recording.label,
            dir.name(),
            number("mbps"),
            found["packets"],
            number("delay_median_ms"),
            number("delay_p95_ms"),
            found["longest_gap_ms"],
            // Only the sender knows this.
            found["send_late_p99_ms"]
                .as_f64()
                .map_or_else(String::new, |ms| format!(
                    ", sent up to {ms:.2} ms late (p99)"
                )),
        );
    }
    if recording.missed() > 0 {
        text += &format!(
            "{} NOT FAITHFUL: {} packets arrived and were lost in the receiving host: is it overloaded?\n",
            recording.label,
            recording.missed()
        );
    }
    if recording.plan.mode == Mode::Saturate && recording.held_up() > HELD_UP {
        text += &format!(
            "{} a sender was delayed by {:.0} ms: a queue may have been empty, and the capacity may be higher: is a host overloaded?\n",
            recording.label,
            recording.held_up().as_millis_f64()
        );
    }
    if let Some(clock) = json["clock"].as_object() {
        let number = |name: &str| clock[name].as_f64().unwrap_or(f64::NAN);
        text += &format!(
            "{} clock offset {:.3} ms, wrong by at most {:.3} ms (half the shortest round trip); skew {:.1} ppm\n",
            recording.label,
            number("offset_ms"),
            number("offset_error_ms"),
            number("skew_ppm"),
        );
    }
    text += &format!("{} written to {}\n", recording.label, folder.display());
    print(text)?;
    Ok(())
}
