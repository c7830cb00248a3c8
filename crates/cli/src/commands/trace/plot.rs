// SPDX-License-Identifier: Apache-2.0 OR MIT
mod predict;

use crate::failure::Failure;
use crate::numbers::whole_milliseconds;
use crate::output::{Product, note};
use crate::trace_arg::{LinkTrace, TRACE_HELP, load_link_trace};
use alcc_lab::report::{plotting_script, style};
use alcc_trace::OPPORTUNITY;
use alcc_units::Span;
use plotly::color::NamedColor;
use plotly::common::{ExponentFormat, Line, LineShape, Mode, Title};
use plotly::layout::{Axis, AxisType, Margin};
use plotly::{Layout, Plot, Scatter};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

/// Draw capacity over time and the distributions of gaps and bursts, or predictions, as one
/// self-contained HTML page
#[derive(clap::Args)]
#[command(after_help = format!("{TRACE_HELP}.

gap: from one millisecond with a delivery opportunity to the next; burst: opportunities in the same or adjacent milliseconds.
--predict: the first trace in windows of 100 and of 20 ms with what the straight line through ten windows and the best linear rule from the newest one predict, and the error of all predictors over the time ahead for all traces.

Examples:
  alcc trace plot city-driving rapid --output traces.html
  alcc trace plot city-driving lte --predict --output predictions.html"))]
pub(crate) struct Args {
    /// Traces to draw above each other
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<OsString>,
    /// Draw what predictors say of the capacity, and how far off they are
    #[arg(long)]
    predict: bool,
    /// Interval over which capacity is averaged; whole milliseconds [default: 100 ms, longer where
    /// a trace is longer than 90 s]
    #[arg(long, value_name = "TIME", value_parser = whole_milliseconds)]
    bin: Option<Span>,
    /// Seed of synthetic traces
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Page to write
    #[arg(short, long, default_value = "trace.html", value_name = "FILE")]
    output: PathBuf,
}

pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let mut loaded = Vec::new();
    for arg in &args.traces {
        loaded.push(load_link_trace(arg, args.seed)?);
    }
    let figure = if args.predict {
        for LinkTrace { name, trace, .. } in &loaded {
            if trace.predictions(Span::from_millis(100), 1).is_none() {
                return Err(Failure::usage(format!(
                    "predict {name}: it is too short: two windows of 100 ms after the first ten are needed"
                )));
            }
        }
        predict::figure(&loaded)
    } else {
        figure(&loaded, args.bin.unwrap_or_else(|| interval(&loaded)))
    };
    let page = page(&figure, &sentence(&loaded));
    Product::open(Some(&args.output))?.fill(|to| to.write_all(page.as_bytes()))?;
    note(format_args!("written to {}", args.output.display()));
    Ok(ExitCode::SUCCESS)
}

/// Colours that colour-blind readers can tell apart (Okabe and Ito).
const COLOURS: [&str; 6] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9",
];
const PAPER: NamedColor = NamedColor::White;

fn line(colour: &'static str) -> Line {
    Line::new().color(colour).width(1.5)
}

fn axis(title: &str) -> Axis {
    Axis::new()
        .title(Title::with_text(title))
        .grid_color(NamedColor::Gainsboro)
}

/// More points than that are a solid block.
const MAX_POINTS: u64 = 900;

/// 100 ms, and for long traces so many of them that their course can be seen.
fn interval(traces: &[LinkTrace]) -> Span {
    let bin = Span::from_millis(100);
    let longest = traces.iter().map(|t| t.trace.period()).max();
    let points = longest.unwrap_or_default().as_nanos() / bin.as_nanos();
    bin * points.div_ceil(MAX_POINTS).max(1)
}

/// What the eye should take from the page.
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

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

/// The page, about 5 MB, nearly all of it plotly.js; it loads nothing from anywhere.
fn page(figure: &Plot, sentence: &str) -> String {
    let sentence = escape(sentence);
    // "</script>" inside a name would end the element.
    let figure = figure.to_json().replace('<', "\\u003c");
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><link rel=\"icon\" href=\"data:,\">\
         <title>alcc: {sentence}</title>\n<style>{}</style>\n<script>{}</script></head>\n\
         <body><main><p id=\"title\">Traces</p><h1 id=\"sentence\">{sentence}</h1>\n\
         <section class=\"panel\"><div id=\"plot\" class=\"plot\" style=\"height:80vh\" role=\"img\" \
         aria-label=\"{sentence}\"></div></section></main>\n\
         <script>const figure = {figure};\n\
         Plotly.newPlot('plot', figure.data, figure.layout, {{responsive: true, displaylogo: false, displayModeBar: 'hover'}});</script>\n\
         </body></html>\n",
        style(),
        plotting_script()
    )
}

fn figure(traces: &[LinkTrace], bin: Span) -> Plot {
    let mut plot = Plot::new();
    for (LinkTrace { name, trace, .. }, colour) in traces.iter().zip(COLOURS.iter().cycle()) {
        let mbit = (OPPORTUNITY.get() * 8) as f64 / 1e6 / bin.as_secs_f64();
        let (seconds, rates): (Vec<f64>, Vec<f64>) = trace
            .windows(bin)
            .enumerate()
            .map(|(n, count)| (n as f64 * bin.as_secs_f64(), f64::from(count) * mbit))
            .unzip();
        let capacity = Scatter::new(seconds, rates)
            .name(name)
            .legend_group(name)
            .mode(Mode::Lines)
            .line(line(colour));
        plot.add_trace(capacity);
        let bursts = trace.bursts();
        let below = [
            (bursts.gaps, "x2", "y2"),
            (bursts.sizes, "x3", "y3"),
            (bursts.between, "x4", "y4"),
        ];
        for (numbers, x, y) in below {
            let (values, shares) = at_least(numbers);
            let distribution = Scatter::new(values, shares)
                .name(name)
                .legend_group(name)
                .show_legend(false)
                .mode(Mode::Lines)
                .line(line(colour).shape(LineShape::Vh))
                .x_axis(x)
                .y_axis(y);
            plot.add_trace(distribution);
        }
    }
    let log = |title: &str| axis(title).type_(AxisType::Log);
    let along = |title: &str, y: &str, n: usize| {
        let left = n as f64 * 0.35;
        log(title).anchor(y).domain(&[left, left + 0.3])
    };
    let share = |title: &str, x: &str| {
        log(title)
            .exponent_format(ExponentFormat::Power)
            .anchor(x)
            .domain(&[0.0, 0.36])
    };
    plot.set_layout(
        Layout::new()
            .title(Title::with_text(format!(
                "Capacity in intervals of {bin}, gaps and bursts"
            )))
            .margin(Margin::new().top(60))
            .plot_background_color(PAPER)
            .x_axis(axis("time, s").anchor("y"))
            .y_axis(axis("capacity, Mbit/s").domain(&[0.48, 1.0]))
            .x_axis2(along("gap between opportunities, ms", "y2", 0))
            .y_axis2(share("share this long or longer", "x2"))
            .x_axis3(along("burst, packets", "y3", 1))
            .y_axis3(share("share this large or larger", "x3"))
            .x_axis4(along("from burst to burst, ms", "y4", 2))
            .y_axis4(share("", "x4")),
    );
    plot
}

/// The complementary distribution: for each value, the share of values at least as large.
fn at_least(mut numbers: Vec<u32>) -> (Vec<u32>, Vec<f64>) {
    numbers.sort_unstable();
    let total = numbers.len() as f64;
    let (mut values, mut shares) = (Vec::new(), Vec::new());
    for (n, &number) in numbers.iter().enumerate() {
        if values.last() != Some(&number) {
            values.push(number);
            shares.push((total - n as f64) / total);
        }
    }
    (values, shares)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_what_is_at_least_as_large_by_hand() {
        let (values, shares) = at_least(vec![1, 10, 1, 5]);
        assert_eq!(values, [1, 5, 10]);
        assert_eq!(shares, [1.0, 0.5, 0.25]);
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
        let page = page(&figure(&rapid, bin), &said);
        assert!(page.contains(&format!("<h1 id=\"sentence\">{said}</h1>")));
    }

    #[test]
    fn the_pages_load_nothing_and_survive_odd_names() {
        let mut odd = load_link_trace("rapid", 1).unwrap();
        odd.name = "</script><b>".to_owned();
        let odd = [odd];
        for figure in [figure(&odd, Span::from_secs(1)), predict::figure(&odd)] {
            let page = page(&figure, &sentence(&odd)).replace(&plotting_script(), "");
            assert!(!page.contains("http"), "an address outside plotly.js");
            assert_eq!(page.matches("</script>").count(), 2);
        }
    }
}
