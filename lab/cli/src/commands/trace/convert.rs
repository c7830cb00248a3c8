// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `alcc-lab trace convert`: formats of traces.
use super::output::Output;
use crate::failure::{Failure, reason};
use crate::numbers::whole_milliseconds;
use crate::trace_arg::load_link_trace;
use alcc_results::scenario::why_not_read;
use alcc_trace::{OPPORTUNITY, RatesForm, Trace};
use alcc_units::{Bytes, Span};
use std::fs::File;
use std::path::PathBuf;
use std::process::ExitCode;

/// A form of input or output.
#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum Form {
    /// One line per 1500-byte opportunity: milliseconds since the start
    Mahimahi,
    /// Throughput over time: seconds,mbps, or a form listed below
    Rates,
    /// Packet arrivals: time or time,bytes in the unit of --unit
    Packets,
}

/// Maximum number of lines of `rates`, some 80 MB: a trace of two lines may be seven weeks long.
const MAX_RATES: u64 = 1 << 22;

/// Convert between Mahimahi traces, throughput over time, and packet arrivals
#[derive(clap::Args)]
#[command(
    after_help = "Examples:
  alcc-lab trace convert rates.csv --from rates --output link.trace
  alcc-lab trace convert city-driving --to rates --bin 500ms",
    after_long_help = "Columns of rates are recognized by their names and units (time_ms,rate_kbps). If they are ambiguous,
--column, --unit or --every is needed. Without a header they are seconds and Mbit/s. Other formats
that are recognized: JSON of iperf3 and of sabre, iperf's '0.57,Mbits/sec' (NYU-METS), G-NetTrack's
CSV (Irish 5G), and logs of cake-autorate. A rate lasts until the time of the next row, the last one
as long as the one before it. Lines of packets are time[,bytes]; a header and # comments are skipped.

Examples:
  alcc-lab trace convert capture.txt --from packets --unit s --output link.trace
  alcc-lab trace convert rates.csv --from rates --output link.trace
  alcc-lab trace convert log.csv --from rates --column Timestamp,UL_bitrate --unit kbit --output up.trace
  alcc-lab trace convert city-driving --to rates --bin 500ms"
)]
pub(crate) struct Args {
    /// File to convert, or (from mahimahi) any TRACE
    #[arg(value_name = "INPUT")]
    input: PathBuf,
    /// Format of the input
    #[arg(long, value_enum, default_value_t = Form::Mahimahi, value_name = "FORM")]
    from: Form,
    /// Format of the output
    #[arg(long, value_enum, default_value_t = Form::Mahimahi, value_name = "FORM")]
    to: Form,
    /// Unit of times (packets) or rates (rates)
    ///
    /// Times: ns, us, ms or s [default: ns]. Rates: kbit, Mbit, MB/s, or bytes (per row).
    #[arg(long, value_name = "UNIT")]
    unit: Option<String>,
    /// Columns of rates, by name or number
    ///
    /// The column of the rate, or those of time and rate.
    #[arg(long, value_name = "[TIME,]RATE")]
    column: Option<String>,
    /// Interval of the rows of rates, if they have no time
    #[arg(long, value_name = "TIME", value_parser = alcc_units::positive::<Span>)]
    every: Option<Span>,
    /// Size of packets without one of their own
    #[arg(long, default_value_t = OPPORTUNITY.get(), value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..))]
    size: u64,
    /// Interval of the rates that are written, whole milliseconds
    #[arg(long, default_value = "100ms", value_name = "TIME", value_parser = whole_milliseconds)]
    bin: Span,
    #[command(flatten)]
    output: Output,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let trace = read(args)?;
    match args.to {
        Form::Mahimahi => args.output.write(|to| trace.write(to))?,
        Form::Rates if args.bin > trace.period() => {
            return Err(Failure::usage(format!(
                "convert to rates: --bin {} is longer than the trace, {}: take a shorter one",
                args.bin,
                trace.period()
            )));
        }
        Form::Rates if trace.complete_windows(args.bin) > MAX_RATES => {
            return Err(Failure::usage(format!(
                "convert to rates: {} lines, and at most {MAX_RATES} are written: take a longer --bin",
                trace.complete_windows(args.bin)
            )));
        }
        Form::Rates => args.output.write(|to| trace.write_rates(args.bin, to))?,
        Form::Packets => {
            return Err(Failure::usage(
                "convert to packets: not possible, a trace holds opportunities: use --to mahimahi, which is their times in ms",
            ));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn read(args: &Args) -> Result<Trace, Failure> {
    if args.from == Form::Mahimahi {
        return Ok(load_link_trace(&args.input, 1)?.trace);
    }
    let name = args.input.display();
    let file = File::open(&args.input)
        .map_err(|e| Failure::usage(format!("open {name}: {}", reason(&e))))?;
    let trace = if args.from == Form::Rates {
        let form = RatesForm {
            column: args.column.clone(),
            unit: args.unit.clone(),
            every: args.every,
        };
        Trace::read_rates(file, &form)
    } else {
        let unit = match args.unit.as_deref() {
            None | Some("ns") => Span::from_nanos(1),
            Some("us") => Span::from_micros(1),
            Some("ms") => Span::from_millis(1),
            Some("s") => Span::from_secs(1),
            Some(unit) => {
                return Err(Failure::usage(format!(
                    "convert from packets: --unit {unit} is not a unit of time: use ns, us, ms or s"
                )));
            }
        };
        Trace::read_packets(file, unit, Bytes::new(args.size))
    };
    trace.map_err(|e| Failure::usage(format!("read {name}: {}", why_not_read(&e))))
}
