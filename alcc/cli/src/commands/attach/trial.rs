// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `alcc attach --trial`: a trial with a share of the clients of a running server.
use super::{Args, what};
use crate::commands::bpf::failure;
use crate::failure::Failure;
use crate::metrics::Metrics;
use crate::output::{note, print};
use crate::runs::enter;
use crate::trial::{Options, Plan, Source, Watch};
use alcc_bpf::{Chosen, Selection, Trial};
use alcc_units::Span;
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use std::process::ExitCode;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// Interval at which the end of the trial is checked.
const LOOK: Duration = Duration::from_millis(200);

pub(super) fn run(args: &Args, control: &Chosen, options: &Options) -> Result<ExitCode, Failure> {
    let selection = Selection {
        share: Some(options.share),
        ..args.which.selection("--trial")?
    };
    let plan = Plan::in_the_kernel(options, args.algorithm.clone())?;
    let cgroup = args.which.cgroup()?;
    // Before the first thread: all of them leave these signals to us.
    let signals = SigSet::from_iter([Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP]);
    signals
        .thread_swap_mask(SigmaskHow::SIG_BLOCK)
        .map_err(|e| Failure::usage(format!("block signals: {e}")))?;
    let (_entry, segment) = enter(
        "attach",
        &what(args, &format!("trial of {}", args.algorithm)),
    )?;
    let trial = Trial::begin(&selection, &cgroup, control).map_err(failure)?;
    note(format_args!("alcc: {plan}; connections from now on count"));
    if alcc_bpf::policy::in_force().is_ok_and(|policy| policy.is_some()) {
        note(format_args!(
            "alcc: a policy is in force: connections of both groups may have its controls; see 'alcc policy show'"
        ));
    }
    if !alcc_bpf::futures().is_empty() {
        note(format_args!(
            "alcc: 'alcc attach --future' is in force: connections of both groups may have its controls; see 'alcc bpf status'"
        ));
    }
    let watch = Watch::start(&plan, Source::Kernel(Box::new(trial)), false)?;
    let metrics = args.metrics.as_ref();
    let _metrics = metrics
        .map(|place| Metrics::start(place, Arc::new(segment), Some(watch.metrics())))
        .transpose()?;
    wait(&watch, signals, args.duration);
    let stopped = watch.has_stopped();
    let found = watch.finish();
    if args.json {
        print(format_args!("{found}\n"))?;
    }
    Ok(ExitCode::from(u8::from(stopped)))
}

/// Waits for a signal, the end of `duration`, or the end of the trial.
fn wait(watch: &Watch, signals: SigSet, duration: Option<Span>) {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        while signals.wait().is_err() {}
        tell.send(())
    });
    let end = duration.map(|span| Instant::now() + Duration::from_nanos(span.as_nanos()));
    while !watch.has_stopped() && end.is_none_or(|end| Instant::now() < end) {
        let remaining = end.map_or(LOOK, |end| end.saturating_duration_since(Instant::now()));
        if told.recv_timeout(remaining.min(LOOK)).is_ok() {
            return;
        }
    }
}
