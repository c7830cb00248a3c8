// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `alcc-lab trace plot`: pages of traces and packet logs.
mod logs;
mod predict;

use crate::failure::Failure;
use crate::numbers::whole_milliseconds;
use crate::output::{Product, note};
use crate::trace_arg::{LinkTrace, TRACE_HELP, load_link_trace};
use alcc_live::axis::Axis;
use alcc_live::chart::{Chart, Curve, Shape};
use alcc_live::report::{Panel, page};
use alcc_trace::OPPORTUNITY;
use alcc_units::Span;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

/// Draw traces or packet logs as a self-contained HTML page
///
/// For traces, the page shows the capacity over time and the distributions of gaps and bursts, or
/// with --predict the predictions. For packet logs, it shows the throughput and the queueing delay.
/// A packet log is FILE.down or FILE.up of 'alcc-lab emulate --log FILE'; it cannot be mixed with
/// traces.
#[derive(clap::Args)]
#[command(after_help = "Example:
  alcc-lab trace plot city-driving rapid --output traces.html", after_long_help = format!("{TRACE_HELP}.

gap: time between milliseconds with a delivery opportunity; burst: opportunities in the same or adjacent milliseconds.
--predict draws the first trace in windows of 100 and of 20 ms with two predictions, the straight line through ten windows and the best linear rule from the newest one, and for all traces the error of all predictors over the time ahead.

Examples:
  alcc-lab trace plot city-driving rapid --output traces.html
  alcc-lab trace plot city-driving lte --predict --output predictions.html
  alcc-lab trace plot log.down log.up --output run.html"))]
pub(crate) struct Args {
    /// Traces or packet logs, drawn one below the other
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<OsString>,
    /// Draw predictions of the capacity and their errors
    #[arg(long)]
    predict: bool,
    /// Interval over which capacity is averaged [default: 100ms]
    ///
    /// In whole milliseconds. The default is longer for traces longer than 90 s.
    #[arg(long, value_name = "TIME", value_parser = whole_milliseconds)]
    bin: Option<Span>,
    /// Seed of synthetic traces
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// HTML page to write
    #[arg(short, long, default_value = "trace.html", value_name = "FILE")]
    output: PathBuf,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let logs = (args.traces.iter())
        .map(|file| logs::read(file))
        .collect::<Result<Vec<_>, _>>()?;
    let logs: Vec<_> = logs.into_iter().flatten().collect();
    if !logs.is_empty() {
        if logs.len() < args.traces.len() || args.predict {
            let found = if args.predict { "--predict" } else { "traces" };
            return Err(Failure::usage(format!(
                "draw packet logs: they cannot be combined with {found}: draw them alone"
            )));
        }
        return write(args, &logs::logs_page(&logs, args.bin)?);
    }
    let mut loaded = Vec::new();
    for arg in &args.traces {
        loaded.push(load_link_trace(arg, args.seed)?);
    }
    let longest = loaded.iter().map(|t| t.trace.period()).max();
    if let Some(bin) = args.bin.filter(|bin| Some(*bin) > longest) {
        return Err(Failure::usage(format!(
            "draw capacity: --bin {bin} is longer than every trace: take a shorter one"
        )));
    }
    let points = |t: &LinkTrace| args.bin.map_or(0, |bin| t.trace.complete_windows(bin));
    if let Some(many) = loaded.iter().map(points).max().filter(|n| *n > MAX_BINS) {
        return Err(Failure::usage(format!(
            "draw capacity: {many} points, and at most {MAX_BINS} are drawn: take a longer --bin"
        )));
    }
    let figure = if args.predict {
        for LinkTrace { name, trace, .. } in &loaded {
            if trace.predictions(Span::from_millis(100), 1, 1).is_none() {
                return Err(Failure::usage(format!(
                    "predict {name}: it is too short: two windows of 100 ms after the first ten are needed"
                )));
            }
        }
        predict::page(&loaded, &sentence(&loaded))
    } else {
        traces_page(&loaded, args.bin.unwrap_or_else(|| interval(&loaded)))
    };
    write(args, &figure.map_err(Failure::failed)?)
}

fn write(args: &Args, page: &str) -> Result<ExitCode, Failure> {
    Product::open(Some(&args.output))?.fill(|to| to.write_all(page.as_bytes()))?;
    note(format_args!("written to {}", args.output.display()));
    Ok(ExitCode::SUCCESS)
}

/// Colours that colour-blind readers can tell apart (Okabe and Ito).
const COLOURS: [&str; 6] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9",
];

fn line(class: usize, points: Vec<(f64, f64)>) -> Curve {
    Curve {
        class,
        shape: Shape::Line,
        points,
    }
}

/// An axis from zero that holds all y of the curves.
fn from_zero(curves: &[Curve]) -> Axis {
    let values = curves.iter().flat_map(|c| &c.points).map(|p| p.1);
    Axis::linear(values.filter(|v| v.is_finite()).chain([0.0]), 0.0, 1.0)
}

/// End of the curves' points.
fn time_axis(curves: &[Curve]) -> Axis {
    let times = || curves.iter().flat_map(|c| &c.points).map(|p| p.0);
    let from = times()
        .fold(f64::INFINITY, f64::min)
        .min(times().fold(0.0, f64::max));
    Axis::exactly(from, times().fold(from + 1e-3, f64::max))
}

/// Maximum number of points of a curve with `--bin`: a short file may be seven weeks long.
const MAX_BINS: u64 = 500_000;
/// Maximum number of points: more would be a solid area.
const MAX_POINTS: u64 = 900;

/// Interval of a point: 100 ms, and a multiple of it for long traces, so that their shape stays
/// visible.
fn interval(traces: &[LinkTrace]) -> Span {
    let longest = traces.iter().map(|t| t.trace.period()).max();
    wide_enough(longest.unwrap_or_default())
}

/// The interval for a course of this length.
fn wide_enough(length: Span) -> Span {
    let bin = Span::from_millis(100);
    bin * (length.as_nanos() / bin.as_nanos())
        .div_ceil(MAX_POINTS)
        .max(1)
}

/// Summary sentence of the page.
fn sentence(traces: &[LinkTrace]) -> String {
    let one = |t: &LinkTrace| {
        let (rate, gaps) = (t.trace.mean_rate().as_mbps_f64(), t.trace.bursts().gaps);
        format!(
            "{}: {rate:.1} Mbit/s on the average over {:.0} s, longest gap {} ms",
            t.name,
            t.trace.period().as_secs_f64(),
            gaps.iter().max().unwrap_or(&0)
        )
    };
    traces.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// Capacity over time, and the distributions of gaps and bursts.
fn traces_page(traces: &[LinkTrace], bin: Span) -> Result<String, String> {
    let mbit = (OPPORTUNITY.get() * 8) as f64 / 1e6 / bin.as_secs_f64();
    let capacity = |(class, LinkTrace { trace, .. }): (usize, &LinkTrace)| {
        let windows = trace.windows(bin).enumerate();
        let points =
            windows.map(|(n, count)| (n as f64 * bin.as_secs_f64(), f64::from(count) * mbit));
        line(class, points.collect())
    };
    let curves: Vec<Curve> = traces.iter().enumerate().map(capacity).collect();
    let mut panels = vec![Panel {
        title: format!("Capacity in intervals of {bin}"),
        chart: Chart {
            label: format!("Capacity over time. {}", sentence(traces)),
            x_title: "s".into(),
            y_title: "Mbit/s".into(),
            x: time_axis(&curves),
            y: from_zero(&curves),
            curves,
        },
        is_half: false,
    }];
    let bursts: Vec<_> = traces.iter().map(|t| t.trace.bursts()).collect();
    let distributions = [
        (
            "Gaps between opportunities",
            "ms",
            "length",
            bursts.iter().map(|b| &b.gaps).collect::<Vec<_>>(),
        ),
        (
            "Bursts",
            "packets",
            "size",
            bursts.iter().map(|b| &b.sizes).collect(),
        ),
        (
            "From burst to burst",
            "ms",
            "length",
            bursts.iter().map(|b| &b.between).collect(),
        ),
    ];
    for (title, unit, size, of_traces) in distributions {
        let curve = |(class, numbers): (usize, &&Vec<u32>)| Curve {
            class,
            shape: Shape::Steps,
            points: at_least((*numbers).clone()),
        };
        let curves: Vec<Curve> = of_traces.iter().enumerate().map(curve).collect();
        let points = || curves.iter().flat_map(|c| &c.points);
        panels.push(Panel {
            title: format!("{title}: share of at least this {size}"),
            chart: Chart {
                label: format!("{title}: percentage of at least this {size}"),
                x_title: unit.into(),
                y_title: "%".into(),
                x: Axis::log(points().map(|p| p.0), 0.0, 1.0),
                y: Axis::log(points().map(|p| p.1), 0.0, 1.0),
                curves,
            },
            is_half: true,
        });
    }
    let legend = traces.iter().zip(COLOURS.iter().cycle());
    let legend: Vec<_> = legend
        .map(|(t, colour)| (t.name.clone(), *colour, ""))
        .collect();
    page("Traces", &sentence(traces), &legend, &panels)
}

/// The complementary distribution: for each value, how many per cent are at least as large.
fn at_least(mut numbers: Vec<u32>) -> Vec<(f64, f64)> {
    numbers.sort_unstable();
    let total = numbers.len() as f64;
    let mut points: Vec<(f64, f64)> = Vec::new();
    for (n, number) in numbers.into_iter().map(f64::from).enumerate() {
        if points.last().is_none_or(|last| last.0 < number) {
            points.push((number, 100.0 * (total - n as f64) / total));
        }
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_what_is_at_least_as_large_by_hand() {
        let shares = at_least(vec![1, 10, 1, 5]);
        assert_eq!(shares, [(1.0, 100.0), (5.0, 50.0), (10.0, 25.0)]);
    }

    #[test]
    fn a_long_trace_is_no_solid_block_and_the_page_says_what_it_shows() {
        let rapid = [load_link_trace("rapid", 1).unwrap()];
        let bin = interval(&rapid);
        let points = rapid[0].trace.period().as_nanos() / bin.as_nanos();
        assert!((1..=MAX_POINTS).contains(&points), "{bin}: {points}");
        assert_eq!(bin.as_nanos() % 100_000_000, 0);
        let said = sentence(&rapid);
        assert!(
            said.starts_with("synth:rapid: ") && said.contains("Mbit/s on the average over"),
            "{said}"
        );
        let page = traces_page(&rapid, bin).unwrap();
        assert!(page.contains(&format!("<h1 id=\"sentence\">{said}</h1>")));
        for class in ["plot wide", "plot narrow"] {
            let count = page.matches(&format!("<div class=\"{class}\"")).count();
            assert_eq!(count, 1, "the course over time, {class}");
        }
    }

    #[test]
    fn silence_at_the_beginning_is_a_gap() {
        let late = LinkTrace {
            trace: alcc_trace::Trace::new(vec![120_000, 120_001]).unwrap(),
            ..load_link_trace("rapid", 1).unwrap()
        };
        let said = sentence(&[late]);
        assert!(said.ends_with("longest gap 120000 ms"), "{said}");
    }

    #[test]
    fn the_pages_load_nothing_and_survive_odd_names() {
        let mut odd = load_link_trace("rapid", 1).unwrap();
        odd.name = "</script><b>".to_owned();
        let odd = [odd];
        let said = sentence(&odd);
        for page in [
            traces_page(&odd, Span::from_secs(1)),
            predict::page(&odd, &said),
        ] {
            let page = page.unwrap();
            assert!(!page.contains("http"), "an address");
            assert_eq!(page.matches("</script>").count(), 1);
            assert!(page.matches("<polyline").count() > 4 && page.len() < 1_000_000);
        }
    }
}
