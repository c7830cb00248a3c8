// SPDX-License-Identifier: Apache-2.0 OR MIT
use crate::failure::Failure;
use crate::trace_arg::{LinkTrace, TRACE_HELP, load_link_trace};
use alcc_lab::report::plotting_script;
use alcc_trace::OPPORTUNITY;
use alcc_units::Span;
use plotly::color::NamedColor;
use plotly::common::{ExponentFormat, Mode, Title};
use plotly::layout::{Axis, AxisType, Margin};
use plotly::{Layout, Plot, Scatter};
use std::path::PathBuf;
use std::process::ExitCode;

/// Draw capacity over time and the distribution of gaps as one self-contained HTML page
#[derive(clap::Args)]
#[command(after_help = format!("{TRACE_HELP}.

Example:
  alcc trace plot city-driving rapid --output traces.html"))]
pub(crate) struct Args {
    /// Traces to draw above each other
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<String>,
    /// Interval over which capacity is averaged; whole milliseconds
    #[arg(long, default_value = "100ms", value_name = "TIME")]
    bin: Span,
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
    std::fs::write(&args.output, page(&loaded, args.bin))
        .map_err(|e| Failure::usage(format!("write {}: {e}", args.output.display())))?;
    eprintln!("written to {}", args.output.display());
    Ok(ExitCode::SUCCESS)
}

/// The page, about 5 MB, nearly all of it plotly.js; it loads nothing from anywhere.
fn page(traces: &[LinkTrace], bin: Span) -> String {
    // "</script>" inside a name would end the element.
    let figure = figure(traces, bin).to_json().replace('<', "\\u003c");
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Traces</title>\n\
         <script>{}</script></head>\n<body style=\"margin:0\"><div id=\"plot\" style=\"height:100vh\"></div>\n\
         <script>const figure = {figure};\n\
         Plotly.newPlot('plot', figure.data, figure.layout, {{responsive: true, displaylogo: false}});</script>\n\
         </body></html>\n",
        plotting_script()
    )
}

fn figure(traces: &[LinkTrace], bin: Span) -> Plot {
    // Told apart also by those who see no red and green (Okabe and Ito).
    const COLOURS: [&str; 6] = [
        "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9",
    ];
    let mut plot = Plot::new();
    for (LinkTrace { name, trace }, colour) in traces.iter().zip(COLOURS.iter().cycle()) {
        let line = || plotly::common::Line::new().color(*colour).width(1.5);
        let width = Span::from_millis((bin.as_nanos() / 1_000_000).max(1));
        let mbit = (OPPORTUNITY.get() * 8) as f64 / 1e6 / width.as_secs_f64();
        let (seconds, rates): (Vec<f64>, Vec<f64>) = trace
            .windows(width)
            .enumerate()
            .map(|(n, count)| (n as f64 * width.as_secs_f64(), f64::from(count) * mbit))
            .unzip();
        let capacity = Scatter::new(seconds, rates)
            .name(name)
            .legend_group(name)
            .mode(Mode::Lines)
            .line(line());
        let (gaps, shares) = longer_gaps(trace.opportunities());
        let distribution = Scatter::new(gaps, shares)
            .name(name)
            .legend_group(name)
            .show_legend(false)
            .mode(Mode::Lines)
            .line(line().shape(plotly::common::LineShape::Vh))
            .x_axis("x2")
            .y_axis("y2");
        plot.add_trace(capacity);
        plot.add_trace(distribution);
    }
    let axis = |title: &str| {
        Axis::new()
            .title(Title::with_text(title))
            .grid_color(NamedColor::Gainsboro)
    };
    plot.set_layout(
        Layout::new()
            .title(Title::with_text(format!(
                "Capacity in intervals of {bin}, and gaps"
            )))
            .margin(Margin::new().top(60))
            .plot_background_color(NamedColor::White)
            .x_axis(axis("time, s").anchor("y"))
            .y_axis(axis("capacity, Mbit/s").domain(&[0.48, 1.0]))
            .x_axis2(
                axis("gap between delivery opportunities, ms")
                    .type_(AxisType::Log)
                    .anchor("y2"),
            )
            .y_axis2(
                axis("share of gaps at least as long")
                    .type_(AxisType::Log)
                    .exponent_format(ExponentFormat::Power)
                    .domain(&[0.0, 0.36]),
            ),
    );
    plot
}

/// For each length of gap in ms that occurs: the share of gaps that are at least as long.
fn longer_gaps(opportunities: &[u32]) -> (Vec<u32>, Vec<f64>) {
    let pairs = opportunities.windows(2).map(|pair| pair[1] - pair[0]);
    let mut gaps: Vec<u32> = pairs.filter(|&gap| gap > 0).collect();
    gaps.sort_unstable();
    let total = gaps.len() as f64;
    let (mut lengths, mut shares) = (Vec::new(), Vec::new());
    for (n, &gap) in gaps.iter().enumerate() {
        if lengths.last() != Some(&gap) {
            lengths.push(gap);
            shares.push((total - n as f64) / total);
        }
    }
    (lengths, shares)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_longer_gaps_by_hand() {
        // gaps 1 1 5 10
        let (lengths, shares) = longer_gaps(&[0, 1, 2, 2, 7, 17]);
        assert_eq!(lengths, [1, 5, 10]);
        assert_eq!(shares, [1.0, 0.5, 0.25]);
    }

    #[test]
    fn the_page_loads_nothing_and_survives_odd_names() {
        let mut odd = load_link_trace("rapid", 1).unwrap();
        odd.name = "</script><b>".to_owned();
        let page = page(&[odd], Span::from_secs(1)).replace(&plotting_script(), "");
        assert!(!page.contains("http"), "an address outside plotly.js");
        assert_eq!(page.matches("</script>").count(), 2);
    }
}
