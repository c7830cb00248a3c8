// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The site: an index with a verdict for each experiment, and a page for each of them. Pages load
//! nothing and need no script.
use crate::by_number::by_number;
use crate::definition::{Aggregate, Definition, Expectation};
use crate::judge::{Judgement, Outcome, Verdict, measured, number, value};
use crate::plan::shell_word;
use crate::run::Run;
use crate::{each, picture, profile_picture, signs};
use alcc_live::chart::{self, Chart};
use alcc_results::Spread;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The origin of the figures, for the foot of each page.
#[derive(Clone, Debug, Default)]
pub struct Provenance {
    /// Name and version of the program.
    pub by: String,
    /// The machine.
    pub on: String,
    /// The command.
    pub command: String,
    /// The folder of the traces: there the commands of single runs find them.
    pub folder: Option<String>,
}

/// Everything on the page of an experiment.
pub struct ExperimentView<'a> {
    /// The definition.
    pub definition: &'a Definition,
    /// `README.md` of its folder.
    pub readme: &'a str,
    /// Its definition as it is written.
    pub toml: &'a str,
    /// Its verdict.
    pub judged: &'a Judgement,
    /// Its runs; none if it could not be run.
    pub runs: &'a [Run],
    /// Time of the runs, if none of them was taken from an earlier command.
    pub took: Option<Took>,
}

/// The time that an experiment took. It depends on the machine, so it is on the index, and one line
/// beside the stored results.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Took {
    /// By the clock, seconds.
    pub seconds: f64,
    /// CPU time of this process, seconds.
    pub cpu_seconds: f64,
}

impl std::fmt::Display for Took {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.1} s, CPU {:.1} s", self.seconds, self.cpu_seconds)
    }
}

const STYLE: &str = "
:root { color-scheme: light dark; --text: currentColor; --grid: #8884; --area: #8884; --line: #8884; --soft: #8881; --in: #00805c26; --good: #00805c; --bad: #b43c00; --paper: #fff; --edge: #0005; }
body { background: var(--paper); color: #111; font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 62rem; padding: 1rem; }
@media (prefers-color-scheme: dark) { :root { --good: #00b383; --bad: #f0690f; --paper: #121212; --edge: #fff6; } body { color: #eee; } }
table { border-collapse: collapse; width: 100%; }
th, td { border-bottom: 1px solid var(--line); padding: .3rem .5rem; text-align: left; vertical-align: top; }
th.n, td.n { text-align: right; } td.n { font-variant-numeric: tabular-nums; white-space: nowrap; }
.wide, .plot { overflow-x: auto; background: linear-gradient(to right, var(--paper) 30%, transparent) left, linear-gradient(to left, var(--paper) 30%, transparent) right, linear-gradient(to right, var(--edge), transparent) left, linear-gradient(to left, var(--edge), transparent) right; background-size: 40px 100%, 40px 100%, 14px 100%, 14px 100%; background-repeat: no-repeat; background-attachment: local, local, scroll, scroll; }
.phone { display: none; }
@media (max-width: 40rem) {
  .desk { display: none; } .phone { display: block; } .phone svg { min-width: 0; }
  .stacked table, .stacked tbody, .stacked tr, .stacked td { display: block; } .stacked thead { display: none; }
  .stacked tr { border-bottom: 1px solid var(--line); padding: .5rem 0; } .stacked td, .stacked td.n { border: 0; padding: .1rem 0; text-align: left; white-space: normal; }
  .stacked td[data-is]::before { content: attr(data-is) ': '; opacity: .8; }
}
figure { margin: 1rem 0; } svg { display: block; width: 100%; min-width: 44rem; height: auto; }
.reproduced::before { content: '✔ '; color: var(--good); } .reproduced-in-part::before { content: '½ '; color: var(--good); } .differs::before { content: '✘ '; color: var(--bad); }
.differs-explained::before { content: '≈ '; color: var(--bad); } .not-run::before { content: '– '; }
.reproduced, .reproduced-in-part, .differs, .differs-explained, .not-run, .short, .name { white-space: nowrap; }
footer { overflow-wrap: anywhere; } pre, code { background: var(--soft); border-radius: 3px; } pre { overflow-x: auto; overflow-wrap: anywhere; padding: .5rem; white-space: pre-wrap; }
.matrix { width: auto; } .matrix th { font-weight: 400; white-space: nowrap; } .matrix th.n { white-space: normal; }
.matrix th, .matrix td { padding: .25rem .3rem; } .matrix td { background: var(--in); text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; } .matrix td.out { background: rgb(200 70 0 / var(--far)); } .matrix small { display: block; opacity: .8; font-size: .7rem; }
.legend { display: flex; flex-wrap: wrap; gap: 0 1rem; }
a { color: inherit; }
:focus-visible { outline: 3px solid currentColor; outline-offset: -3px; }
";

/// A wrapper for content that may be wider than a phone's screen: it scrolls separately from the
/// page, also with the keyboard.
pub(crate) fn wide(label: &str, content: &Markup) -> Markup {
    html! { div.wide role="region" aria-label=(label) tabindex="0" { (content) } }
}

fn command(label: &str, text: &str) -> Markup {
    html! { pre role="region" aria-label=(label) tabindex="0" { (text) } }
}

fn document(title: &str, body: &Markup, provenance: &Provenance) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(chart::STYLE)) (PreEscaped(STYLE)) (PreEscaped(signs::style())) }
            }
            body { main { (body) } (footer(provenance)) }
        }
    };
    page.into_string()
}

fn verdict(verdict: Verdict) -> Markup {
    html! { span class=(verdict.name()) { (verdict.name()) } }
}

/// `index.html`.
pub fn index(all: &[ExperimentView<'_>], provenance: &Provenance) -> String {
    let count = |of: Verdict| {
        all.iter()
            .filter(|shown| shown.judged.verdict == of)
            .count()
    };
    let mut in_order: Vec<&ExperimentView<'_>> = all.iter().collect();
    in_order.sort_by_cached_key(|shown| by_number(&shown.judged.id));
    document(
        "alcc-lab reproduce",
        &html! {
            h1 { "Published experiments, run again" }
            p {
                (all.len()) " experiments: " (count(Verdict::Reproduced)) " reproduced, "
                @if count(Verdict::ReproducedInPart) > 0 { (count(Verdict::ReproducedInPart)) " in part, " }
                (count(Verdict::DiffersExplained)) " differ and the cause is shown, "
                (count(Verdict::Differs)) " differ, " (count(Verdict::NotRun)) " not run"
                @if count(Verdict::Short) > 0 { ", " (count(Verdict::Short)) " too short to judge" } "."
            }
            div.stacked { (wide("All experiments", &html! {
                table {
                    thead { tr { th scope="col" { "Experiment" } th scope="col" { "Verdict" } th.n scope="col" { "Published" } th.n scope="col" { "Here" } th scope="col" { "Why" } th.n scope="col" { "Took" } } }
                    tbody {
                        @for shown in in_order {
                            tr {
                                td { a href={ (shown.judged.id) ".html" } { (shown.judged.id) } br; (shown.definition.title) }
                                td { (verdict(shown.judged.verdict)) }
                                td.n data-is="Published" { (optional(shown.judged.published)) }
                                td.n data-is="Here" { (optional(shown.judged.ours)) }
                                td data-is="Why" {
                                    (shown.judged.why)
                                    @if let Some(says) = figures_of(shown.judged) { br; "Figures of: " (says) }
                                }
                                td.n data-is="Took" { (shown.took.map_or_else(|| "–".to_owned(), |took| took.to_string())) }
                            }
                        }
                    }
                }
            })) }
        },
        provenance,
    )
}

/// The statement whose figures the index shows, unless the reason names it.
pub(crate) fn figures_of(judged: &Judgement) -> Option<&str> {
    let holds = matches!(
        judged.verdict,
        Verdict::Reproduced | Verdict::ReproducedInPart
    );
    let first = judged.outcomes.iter().find(|one| one.ours.is_some());
    first.filter(|_| holds).map(|one| one.says.as_str())
}

fn footer(provenance: &Provenance) -> Markup {
    html! {
        footer {
            p { "Made by " (provenance.by) " on " (provenance.on) " with" }
            (command("The command", &provenance.command))
        }
    }
}

fn optional(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), number)
}

/// The page of an experiment.
///
/// # Errors
/// The error of the drawing library.
pub fn experiment(shown: &ExperimentView<'_>, provenance: &Provenance) -> Result<String, String> {
    let ExperimentView {
        definition,
        judged,
        runs,
        ..
    } = shown;
    let title = format!("{}: {}", judged.id, definition.title);
    let body = html! {
        nav { a href="index.html" { "All experiments" } }
        h1 { (definition.title) }
        p { (verdict(judged.verdict)) ": " (judged.why) }
        table {
            tbody {
                tr { th scope="row" { "Source" } td { (source(&definition.source)) } }
                tr { th scope="row" { "It states" } td { (definition.statement) } }
            }
        }
        (figures(definition, runs)?)
        (profiles(definition, runs)?)
        (each::section(definition, runs))
        @if !judged.outcomes.is_empty() {
            h2 { "Expected and measured" }
            div.stacked { (wide("Expected and measured", &outcomes(&judged.outcomes, &definition.expect))) }
        }
        h2 { "What was asked, and what is seen" }
        @for paragraph in paragraphs(shown.readme) { p { (paragraph) } }
        (all_cells(definition, runs, &judged.id, provenance))
        h2 { "The experiment as a file" }
        details { summary { "Show experiment.toml" } pre { (shown.toml) } }
    };
    Ok(document(&title, &body, provenance))
}

/// Links to the papers that experiments name.
const PAPERS: [(&str, &str); 4] = [
    (
        "Zaki et al., SIGCOMM 2015",
        "https://doi.org/10.1145/2785956.2787498",
    ),
    (
        "Abbas et al., ALCC",
        "https://escholarship.org/uc/item/3989w2s4",
    ),
    (
        "De Cicco and Mascolo, TCP over HSDPA",
        "https://arxiv.org/abs/1212.1621",
    ),
    (
        "CS244 report on Verus, Stanford 2017",
        "https://reproducingnetworkresearch.wordpress.com/2017/06/05/cs244-17-adaptive-congestion-control-for-unpredictable-cellular-networks/",
    ),
];

/// True if it is a figure or a table that was published, not a question of our own. MDI's paper has
/// no address.
pub(crate) fn is_published(source: &str) -> bool {
    source.starts_with("MDI ") || PAPERS.iter().any(|(paper, _)| source.starts_with(paper))
}

/// The source of an experiment, with a link if it is in a paper that is known.
fn source(text: &str) -> Markup {
    let paper = PAPERS.iter().find(|(paper, _)| text.starts_with(paper));
    html! {
        @match paper {
            Some((paper, at)) => { a href=(at) { (paper) } (text[paper.len()..]) }
            None => (text),
        }
    }
}

/// The page of a sweep: nothing was published and nothing is judged.
///
/// # Errors
/// The error of the drawing library.
pub fn sweep(
    definition: &Definition,
    runs: &[Run],
    id: &str,
    provenance: &Provenance,
) -> Result<String, String> {
    let body = html! {
        h1 { (definition.title) }
        (figures(definition, runs)?)
        (all_cells(definition, runs, id, provenance))
    };
    Ok(document(&definition.title, &body, provenance))
}

fn figures(definition: &Definition, runs: &[Run]) -> Result<Markup, String> {
    let figures = picture::pictures(definition, runs);
    let names = picture::legend(definition).into_iter().enumerate();
    let legend = names.map(|(i, name)| {
        let (colour, sign) = signs::marker(i);
        (colour, sign.to_string(), name.to_owned())
    });
    let legend = legend.collect();
    Ok(html! {
        @for picture in &figures {
            figure {
                div.plot role="region" aria-label=(picture.label) tabindex="0" {
                    (drawn(&picture.chart, picture.narrow.as_ref())?)
                }
                figcaption.legend {
                    @for (colour, sign, name) in picture.legend.as_ref().unwrap_or(&legend) {
                        span { span aria-hidden="true" style={ "color:" (colour) } { (sign) } " " (name) }
                    }
                    @if !picture.caption.is_empty() { span { (picture.caption) } }
                }
            }
        }
    })
}

/// A chart, and the same for a phone.
fn drawn(chart: &Chart, narrow: Option<&Chart>) -> Result<Markup, String> {
    let wide = PreEscaped(chart.svg(picture::WIDE)?);
    Ok(match narrow {
        None => wide,
        Some(narrow) => html! {
            div.desk { (wide) }
            div.phone { (PreEscaped(narrow.svg(picture::NARROW)?)) }
        },
    })
}

fn profiles(definition: &Definition, runs: &[Run]) -> Result<Markup, String> {
    let pictures = profile_picture::pictures(definition, runs);
    Ok(html! {
        @if !pictures.is_empty() { h2 { "What was learned: delay over window" } }
        @for picture in &pictures {
            figure.profile {
                div.plot role="region" aria-label={ "Profiles of " (picture.cell) } tabindex="0" {
                    (drawn(&picture.chart, Some(&picture.chart))?)
                }
                figcaption.legend {
                    span { (picture.cell) }
                    @for (colour, sign, meaning) in &picture.legend {
                        span { span aria-hidden="true" style={ "color:" (colour) } { (sign) } " " (meaning) }
                    }
                }
            }
        }
    })
}

fn all_cells(definition: &Definition, runs: &[Run], id: &str, provenance: &Provenance) -> Markup {
    let folder = provenance.folder.as_deref();
    let there = folder.map_or_else(String::new, |at| format!("cd {} && ", shell_word(at)));
    html! {
        @if !runs.is_empty() {
            h2 { "All cells" }
            p { (starts(definition.starts)) ", mean over the flows. " "Every flow of every run: " a href={ (id) ".csv" } { "CSV" } ", " a href={ (id) ".parquet" } { "Parquet" } "." }
            @if runs.len() > MANY_RUNS {
                details { summary { "Show the table" } (wide("All cells", &cells(definition, runs))) }
            } @else { (wide("All cells", &cells(definition, runs))) }
            @if runs[0].command.starts_with("alcc-lab ") {
                h2 { "The first run as a command" }
                (command("The first run as a command", &format!("{there}{}", runs[0].command)))
            }
        }
    }
}

fn starts(starts: u32) -> String {
    match starts {
        1 => "One start".to_owned(),
        n => format!("Median of {n} starts"),
    }
}

fn outcomes(outcomes: &[Outcome], expect: &[Expectation]) -> Markup {
    html! {
        table {
            thead { tr { th scope="col" { "Statement" } th.n scope="col" { "Published" } th.n scope="col" { "Here: median (range)" } th scope="col" { "Bound" } th scope="col" { "Holds" } } }
            tbody {
                @for (outcome, expected) in outcomes.iter().zip(expect) {
                    tr {
                        td {
                            (outcome.says) br; code { (expected.metric) }
                            @if let Some(each) = outcome.each.as_ref().filter(|each| !each.outside.is_empty()) {
                                br; "Farthest outside: " (each.farthest())
                            }
                        }
                        td.n data-is="Published" { (optional(outcome.published)) }
                        td.n data-is="Here" { (measured(outcome).unwrap_or_else(|| "–".to_owned())) }
                        td data-is="Bound" { (outcome.bound) }
                        td data-is="Holds" { @if outcome.holds { "yes" } @else { "no" } }
                    }
                }
            }
        }
    }
}

/// A table of the cells of more runs is folded.
const MANY_RUNS: usize = 400;

/// Metrics of the table besides those of the report.
const COLUMNS: [&str; 6] = [
    "throughput_mbps",
    "queue_delay_mean_ms",
    "queue_delay_p95_ms",
    "rtt_mean_ms",
    "loss",
    "jain_1s",
];

fn cells(definition: &Definition, runs: &[Run]) -> Markup {
    let mut metrics: Vec<&str> = definition.report.y.iter().map(String::as_str).collect();
    metrics.extend(definition.report.x.as_deref());
    metrics.extend(definition.report.columns.iter().map(String::as_str));
    for column in COLUMNS {
        if !metrics.contains(&column) {
            metrics.push(column);
        }
    }
    let mut order: Vec<&[String]> = Vec::new();
    let mut by_cell: BTreeMap<&[String], Vec<&Run>> = BTreeMap::new();
    for run in runs {
        let cell = by_cell.entry(&run.cell).or_default();
        if cell.is_empty() {
            order.push(&run.cell);
        }
        cell.push(run);
    }
    let of = |cell: &[String], metric: &str| {
        let runs = by_cell.get(cell).into_iter().flatten();
        let values = runs.filter_map(|run| value(run, metric, None, Aggregate::Mean));
        Spread::of(&values.collect::<Vec<_>>()).map(|spread| spread.median)
    };
    metrics.retain(|metric| order.iter().any(|cell| of(cell, metric).is_some()));
    html! {
        table {
            thead {
                tr {
                    @for axis in &definition.sweep { th scope="col" { (axis.key) } }
                    @for metric in &metrics { th.n scope="col" { (metric) } }
                }
            }
            tbody {
                @for cell in &order {
                    tr {
                        @for name in *cell { td.name { (name) } }
                        @for metric in &metrics { td.n { (optional(of(cell, metric))) } }
                    }
                }
            }
        }
    }
}

/// The paragraphs of a README without its headings.
fn paragraphs(readme: &str) -> Vec<String> {
    let blocks = readme.split("\n\n").map(str::trim);
    let blocks = blocks.filter(|block| !block.is_empty() && !block.starts_with('#'));
    blocks
        .map(|block| block.replace('\n', " ").replace('`', ""))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::source;
    use crate::catalogue;

    #[test]
    fn a_published_source_has_a_link() {
        let known = source("Abbas et al., ALCC, figure <4>").into_string();
        let link = "<a href=\"https://escholarship.org/uc/item/3989w2s4\">Abbas et al., ALCC</a>";
        assert_eq!(known, format!("{link}, figure &lt;4&gt;"));
        assert_eq!(source("mine").into_string(), "mine");
        let without = ["the cause", "this project", "whether", "MDI"];
        for entry in catalogue::all() {
            let of = entry.definition().unwrap().source;
            let is_paper = !without.iter().any(|begin| of.starts_with(begin));
            let has_link = source(&of).into_string().starts_with("<a href=");
            assert_eq!(has_link, is_paper, "{}: {of}", entry.id);
        }
    }
}
