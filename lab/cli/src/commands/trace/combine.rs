// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `alcc-lab trace combine`: sums, parts and multiples of traces.
use super::output::Output;
use crate::failure::Failure;
use crate::output::note;
use crate::trace_arg::{TRACE_HELP, load_link_trace};
use alcc_trace::Trace;
use alcc_units::{Rate, Span, positive};
use std::ffi::OsString;
use std::process::ExitCode;

/// Add traces, cut out a part, or change the rate
///
/// First each trace is cut, then they are added, then the rate is changed. A cut beyond the end of
/// a trace continues at its start, as links do.
#[derive(clap::Args)]
#[command(after_help = format!("{TRACE_HELP}.

Examples:
  alcc-lab trace combine phone1 phone2 phone3 --output sum.trace
  alcc-lab trace combine city-driving --from 10s --length 60s --rate 20mbit --output piece.trace"))]
pub(crate) struct Args {
    /// Traces to add, such as those of several receivers recorded together
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<OsString>,
    /// Start of the part
    #[arg(long, default_value = "0s", value_name = "TIME")]
    from: Span,
    /// Length of the part [default: the length of each trace]
    #[arg(long, value_name = "TIME", value_parser = positive::<Span>)]
    length: Option<Span>,
    /// Multiply the rate by this
    #[arg(long, value_name = "FACTOR", conflicts_with = "rate")]
    scale: Option<f64>,
    /// Scale to this mean rate
    #[arg(long, value_name = "RATE", value_parser = positive::<Rate>)]
    rate: Option<Rate>,
    /// Seed of synthetic traces
    ///
    /// Each further trace has the next seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    output: Output,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let mut pieces = Vec::new();
    for (arg, n) in args.traces.iter().zip(0u64..) {
        let loaded = load_link_trace(arg, args.seed.wrapping_add(n))?;
        let mut trace = loaded.trace;
        if args.length.is_some() || !args.from.is_zero() {
            let length = args
                .length
                .unwrap_or_else(|| trace.period().saturating_sub(args.from));
            trace = trace
                .cut(args.from, length)
                .map_err(|e| Failure::usage(format!("{}: {e}", loaded.name)))?;
        }
        pieces.push(trace);
    }
    let periods = || pieces.iter().map(Trace::period);
    let (shortest, longest) = (periods().min(), periods().max());
    if let (Some(shortest), Some(longest)) = (shortest, longest)
        && shortest.as_secs_f64() < 0.99 * longest.as_secs_f64()
    {
        note(format_args!(
            "alcc-lab: the traces last {shortest} to {longest}: after the end of a shorter one, only the others are added (--length cuts all of them)"
        ));
    }
    let mut trace = Trace::combine(&pieces).map_err(Failure::usage)?;
    if let Some(factor) = args.scale {
        trace = trace.scale(factor).map_err(Failure::usage)?;
    }
    if let Some(rate) = args.rate {
        trace = trace.scale_to(rate).map_err(Failure::usage)?;
    }
    args.output.write(|to| trace.write(to))?;
    Ok(ExitCode::SUCCESS)
}
