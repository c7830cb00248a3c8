// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page of the score table: `lab/notes/board.md`.
use super::{Board, CONTENDERS, Cell, Kind, PARTS, above_tcp, median};
use alcc_results::Spread;
use serde::Deserialize;
use std::fmt::Write as _;

const EXPLAINED: &str = include_str!("../../board/explained.toml");

/// A cause of rows below a plain Cubic or BBR.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cause {
    /// The schemes.
    schemes: Vec<String>,
    /// The part of the score table.
    kind: Kind,
    /// The situations; none: all of the part.
    #[serde(default)]
    situations: Vec<String>,
    /// The cause.
    why: String,
}

#[derive(Deserialize)]
struct Causes {
    cause: Vec<Cause>,
}

fn causes() -> Result<Vec<Cause>, String> {
    let read: Result<Causes, _> = toml::from_str(EXPLAINED);
    read.map(|causes| causes.cause)
        .map_err(|e| format!("board/explained.toml: {}", e.message()))
}

impl Cause {
    fn is_of(&self, cell: &Cell) -> bool {
        self.kind == cell.kind
            && self.schemes.contains(&cell.scheme)
            && (self.situations.is_empty() || self.situations.contains(&cell.situation))
    }
}

const RULE: &str = "\
## The rule

A scheme *holds* in a situation if its medians over the starts do this:

- one flow, on a channel or a path, or live: at least the utilization of plain `bbr` less one point, with no more mean
  queueing;
- flows of one kind: Jain's index of single seconds is 0.90 or more, and no flow has less than a third of its share over
  10 s. Both count from 10 s on;
- beside Cubic or BBR: 25 to 75 % of what both have.

The default of `alcc run` is the contender over Cubic with the largest score. The score is the mean of the parts of the
situations held, each column of the table below counting the same; mixes of round trips are crowds. Of equal ones, it is
the one with the least mean queueing over the channels. The bounds are older than the first figures. The columns are
older than the figures of this page and any live one (decision 0231).
";

const FRONT: &str = "\
*On the front* means: nobody has at least its utilization with no more mean queueing. Behind each name stand its
utilization in per cent and its mean queueing in ms, medians of the starts. The least queueing comes first.
";

const LIVE: &str = "\
Kernel TCP in the emulator: 40 ms, drop-tail of 2 MB, all schemes of a link at the same time, each on a link of its own.
A cell is utilization in per cent and mean queueing in ms, medians of the runs. `bbr` is the kernel's. Bold type: the
rule holds. This part takes half an hour of a quiet machine, so a board without `--live` keeps it: it may be older
than the rest.

```
alcc-lab compare --emu --traces DIR --schemes bbr,verus/over=cubic,copa/over=cubic,budget/over=cubic,sprout/over=cubic --runs 3 --duration 60s
```
";

const BELOW: &str = "\
Rows of the project's own algorithms that are below a plain Cubic or BBR in the same situation. Below means: the other
has at least its utilization with no more mean queueing, and is better by more than a point, or by more than a tenth of
the queueing and 1 ms. Beside others it means: it has less than 25 % of what both have, and the other has more in its
place. The figures are those of the tables above.
";

impl Board {
    /// The page.
    ///
    /// # Errors
    /// The error in the list of causes.
    pub fn page(&self) -> Result<String, String> {
        let default = self.default_algorithm().unwrap_or("none");
        let mut text = format!(
            "# The board\n\n\
             Every algorithm alone on every channel, on harder paths, with flows of its own kind and with others. Generated from\n\
             `board.json` beside it, which has all figures and their spread. Do not edit: a test compares the two. The\n\
             command is\n\n\
             ```\nalcc-lab reproduce --board lab/notes --traces DIR --live LIVE/results.json\n```\n\n\
             Simulated by {} on {}, {} starts of each cell: another seed, other phases of the flows,\n\
             and on a recorded trace another start. `/over=cubic` is above a simulated TCP with Cubic, as `alcc run` does\n\
             it. Everything else sends by itself. What is run stands in `lab/experiment/board`.\n\n\
             For Budget, Verus and Copa, [more crowds, round trips and buffers](../../docs/reproducing.md#the-experiments) than here are run\n\
             by `alcc-lab reproduce share-crowds-budget share-crowds-others share-rtts share-neighbours --traces DIR`.\n\n\
             **The default that follows: `{default}`.** Where `alcc run` takes another one,\n\
             [decision 0231](../../docs/decisions/0231-choose-the-default-by-a-fixed-rule.md) says why.\n\n",
            self.by, self.on, self.starts
        );
        text += RULE;
        self.standing(&mut text);
        for kind in Kind::SIMULATED {
            self.part(kind, &mut text);
        }
        self.live(&mut text);
        self.rows_below(&mut text)?;
        text += "\n## Inputs\n\nSHA-256, the first 16 digits.\n\n| input | checksum |\n|---|---|\n";
        for (name, sum) in self.definitions.iter().chain(&self.traces) {
            let _ = writeln!(text, "| {name} | `{}` |", &sum[..sum.len().min(16)]);
        }
        Ok(text)
    }

    /// Every scheme with what it holds, and its means over the channels.
    fn standing(&self, text: &mut String) {
        text.push_str(
            "\n## Who holds where\n\nSituations held of those there are. The means are over all channels, of the medians.\n\n\
             | scheme | channels | paths | crowds | neighbours | live | score | mean utilization % | mean queueing ms | mean p95 ms | mean app ms |\n\
             |---|---|---|---|---|---|---|---|---|---|---|\n",
        );
        let contenders = CONTENDERS.map(above_tcp);
        for scheme in self.schemes() {
            let held = PARTS.map(|(_, kinds)| match self.held(kinds, scheme) {
                [_, 0] => "-".to_owned(),
                [held, of] => format!("{held}/{of}"),
            });
            let mean = |value: fn(&Cell) -> Option<Spread>, factor: f64, digits| {
                let mean = self.mean(scheme, |cell| median(value(cell)));
                mean.map_or_else(|| "-".to_owned(), |v| format!("{:.*}", digits, v * factor))
            };
            let is_contender = contenders.iter().any(|c| c == scheme);
            let bold = if is_contender { "**" } else { "" };
            let _ = writeln!(
                text,
                "| {bold}`{scheme}`{bold} | {} | {:.2} | {} | {} | {} | {} |",
                held.join(" | "),
                self.score(scheme),
                mean(|cell| cell.utilization, 100.0, 1),
                mean(|cell| cell.queue_ms, 1.0, 0),
                mean(|cell| cell.queue_p95_ms, 1.0, 0),
                mean(|cell| cell.app_ms, 1.0, 0),
            );
        }
        text.push_str("\nContenders are in bold type. The score is over the columns in which a scheme has a figure. *App* is the median delay\n\
             from an application's write to the other's read, the sender's buffer included: what `tcp_notsent_lowat` takes away\n\
             (`bbr/lowat=16384B`). What sends by itself has no such buffer.\n");
    }

    /// The tables of a part.
    fn part(&self, kind: Kind, text: &mut String) {
        let (title, says) = match kind {
            Kind::Channels => ("One flow on a channel (40 ms, drop-tail of 2 MB, 30 s)", ""),
            Kind::Paths => (
                "One flow on a path (12 Mbit/s, 40 ms, drop-tail of 2 MB, 20 s)",
                "A name says what is otherwise. A cell is utilization in per cent and mean queueing in ms.",
            ),
            Kind::Crowds => (
                "Flows of one kind (20 Mbit/s, 40 ms, drop-tail of 2 MB, 40 s)",
                SHARED,
            ),
            Kind::Mixes => ("Round trips of 20, 50 and 100 ms (60 Mbit/s, 30 s)", SHARED),
            Kind::Live => return,
            Kind::Neighbours => (
                "Beside Cubic and BBR (20 Mbit/s, 40 ms, 40 s)",
                "A cell is the part of what both have in per cent, with the smallest and largest of the starts. The mean queueing\n\
                 of both in ms follows.",
            ),
        };
        let _ = write!(text, "\n## {title}\n\n");
        let situations = self.situations(kind);
        if kind != Kind::Neighbours {
            let _ = writeln!(text, "{FRONT}\n| situation | on the front |\n|---|---|");
            for situation in &situations {
                let one = |cell: &&Cell| {
                    let [used, ms] = cell.point().unwrap_or_default();
                    format!("`{}` {:.0}/{ms:.0}", cell.scheme, 100.0 * used)
                };
                let front: Vec<String> = self.front(kind, situation).iter().map(one).collect();
                let _ = writeln!(text, "| {situation} | {} |", front.join(", "));
            }
            text.push('\n');
        }
        if kind == Kind::Channels {
            text.truncate(text.trim_end().len());
            text.push('\n');
            return;
        }
        let _ = writeln!(
            text,
            "{says} Bold type: the rule holds.\n\n| scheme | {} |\n|---{}|",
            situations.join(" | "),
            "|---".repeat(situations.len())
        );
        for scheme in self.schemes() {
            let own = self.of(kind).filter(|cell| cell.scheme == scheme);
            let cells: Vec<String> = own.map(|cell| self.bold(cell)).collect();
            if !cells.is_empty() {
                let _ = writeln!(text, "| `{scheme}` | {} |", cells.join(" | "));
            }
        }
    }

    /// The table of kernel TCP in the emulator: a line is a link.
    fn live(&self, text: &mut String) {
        let situations = self.situations(Kind::Live);
        if situations.is_empty() {
            return;
        }
        let mut schemes: Vec<&str> = Vec::new();
        for cell in self.of(Kind::Live) {
            if !schemes.contains(&cell.scheme.as_str()) {
                schemes.push(&cell.scheme);
            }
        }
        let names: Vec<String> = schemes.iter().map(|name| format!("`{name}`")).collect();
        let _ = writeln!(
            text,
            "\n## Live\n\n{LIVE}\n| link | {} |\n|---{}|",
            names.join(" | "),
            "|---".repeat(names.len())
        );
        for situation in situations {
            let here = |scheme: &&str| {
                let mut all = self.of(Kind::Live);
                let cell = all.find(|c| c.situation == situation && c.scheme == *scheme);
                cell.map_or_else(|| "-".to_owned(), |cell| self.bold(cell))
            };
            let cells: Vec<String> = schemes.iter().map(here).collect();
            let _ = writeln!(text, "| {situation} | {} |", cells.join(" | "));
        }
    }

    /// The figures of a cell; in bold type if the rule holds.
    fn bold(&self, cell: &Cell) -> String {
        let bold = if self.holds(cell) { "**" } else { "" };
        format!("{bold}{}{bold}", figures(cell))
    }

    fn rows_below(&self, text: &mut String) -> Result<(), String> {
        let causes = causes()?;
        let below = self.below();
        let why = |cell: &Cell| causes.iter().find(|cause| cause.is_of(cell));
        let explained = below.iter().filter(|(cell, _)| why(cell).is_some()).count();
        let _ = writeln!(
            text,
            "\n## Below Cubic or BBR\n\n{BELOW}\n{} rows, of which {explained} are explained.\n\n\
             | part | situation | scheme | it | above it | why |\n|---|---|---|---|---|---|",
            below.len()
        );
        for (cell, above) in below {
            let other = |plain: &&str| {
                let other = self.cell(cell, plain)?;
                Some(format!("`{plain}` {}", figures(other)))
            };
            let others: Vec<String> = above.iter().filter_map(other).collect();
            let _ = writeln!(
                text,
                "| {} | {} | `{}` | {} | {} | {} |",
                cell.kind.name(),
                cell.situation,
                cell.scheme,
                figures(cell),
                others.join(", "),
                why(cell).map_or("not explained", |cause| cause.why.as_str())
            );
        }
        Ok(())
    }
}

const SHARED: &str = "\
A name says what is otherwise. A cell has five figures:

- Jain's index of single seconds (smallest to largest of the starts);
- the worst share over 10 s;
- how long the slowest flow took to 80 % of an equal share, or its whole stay if it never had it;
- the utilization of all in per cent;
- the mean queueing of all in ms.

Each is the median of the starts.";

/// The figures of a cell as its table has them.
fn figures(cell: &Cell) -> String {
    if let Some(error) = &cell.error {
        return format!("failed: {}", error.replace('|', "\\|"));
    }
    let show = |value: f64, factor: f64, digits: usize| format!("{:.*}", digits, value * factor);
    let mid = |spread: Option<Spread>, factor, digits| {
        spread.map_or_else(|| "-".to_owned(), |s| show(s.median, factor, digits))
    };
    let range = |spread: Option<Spread>, factor, digits| {
        let range = |s: Spread| s.text(|value| show(value, factor, digits));
        spread.map_or_else(|| "-".to_owned(), range)
    };
    let carried = format!(
        "{}/{}",
        mid(cell.utilization, 100.0, 0),
        mid(cell.queue_ms, 1.0, 0)
    );
    match cell.kind {
        Kind::Channels | Kind::Paths | Kind::Live => carried,
        Kind::Crowds | Kind::Mixes => format!(
            "{}, {} %, {} s, {carried}",
            range(cell.jain_1s, 1.0, 2),
            mid(cell.worst_share, 100.0, 0),
            mid(cell.fair_after_s, 1.0, 0)
        ),
        Kind::Neighbours => format!(
            "{} % {} ms",
            range(cell.share, 100.0, 0),
            mid(cell.queue_ms, 1.0, 0)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alcc_results::Row;

    fn spread(value: f64) -> Option<Spread> {
        Spread::of(&[value])
    }

    fn cell(kind: Kind, scheme: &str, used: f64, ms: f64) -> Cell {
        Cell {
            kind,
            situation: "here".to_owned(),
            scheme: scheme.to_owned(),
            utilization: spread(used),
            queue_ms: spread(ms),
            queue_p95_ms: spread(2.0 * ms),
            app_ms: None,
            jain_1s: None,
            worst_share: None,
            fair_after_s: None,
            share: None,
            error: None,
        }
    }

    fn board() -> Board {
        let mut cells = vec![
            cell(Kind::Channels, "cubic", 0.99, 500.0),
            cell(Kind::Channels, "bbr", 0.95, 50.0),
            // Half a point less than BBR's, and less queueing.
            cell(Kind::Channels, "budget/over=cubic", 0.945, 40.0),
            // Less than that, and as much queueing.
            cell(Kind::Channels, "verus/over=cubic", 0.90, 50.0),
            // Less of both.
            cell(Kind::Channels, "copa/over=cubic", 0.70, 5.0),
        ];
        let shared = |scheme: &str, jain, worst| Cell {
            jain_1s: spread(jain),
            worst_share: spread(worst),
            ..cell(Kind::Crowds, scheme, 1.0, 10.0)
        };
        cells.push(shared("budget/over=cubic", 0.95, 0.5));
        cells.push(shared("copa/over=cubic", 0.95, 0.2));
        let beside = |scheme: &str, share| Cell {
            share: spread(share),
            ..cell(Kind::Neighbours, scheme, 1.0, 10.0)
        };
        cells.push(beside("cubic", 0.5));
        cells.push(beside("budget/over=cubic", 0.2));
        cells.push(beside("copa/over=cubic", 0.3));
        Board {
            cells,
            ..Board::default()
        }
    }

    #[test]
    fn the_rule_says_who_holds_and_who_becomes_the_default() {
        let board = board();
        let held = |kind, scheme| board.held(&[kind], scheme);
        assert_eq!(held(Kind::Channels, "budget/over=cubic"), [1, 1]);
        assert_eq!(held(Kind::Channels, "verus/over=cubic"), [0, 1]);
        assert_eq!(held(Kind::Channels, "copa/over=cubic"), [0, 1]);
        assert_eq!(held(Kind::Channels, "cubic"), [0, 1], "more queueing");
        assert_eq!(held(Kind::Crowds, "copa/over=cubic"), [0, 1], "one starves");
        assert_eq!(held(Kind::Neighbours, "budget/over=cubic"), [0, 1]);
        // Two of three parts against one.
        assert_eq!(board.default_algorithm(), Some("budget"));
        assert_eq!(Board::default().default_algorithm(), None);
    }

    #[test]
    fn rows_below_cubic_or_bbr_are_named_with_who_is_above() {
        let board = board();
        let below = board.below().into_iter();
        let below: Vec<_> = below
            .map(|(cell, above)| (cell.kind, cell.scheme.as_str(), above))
            .collect();
        assert_eq!(
            below,
            [
                (Kind::Channels, "verus/over=cubic", vec!["bbr"]),
                (Kind::Neighbours, "budget/over=cubic", vec!["cubic"]),
            ]
        );
        let front = board.front(Kind::Channels, "here").into_iter();
        let front: Vec<&str> = front.map(|cell| cell.scheme.as_str()).collect();
        assert_eq!(
            front,
            ["copa/over=cubic", "budget/over=cubic", "bbr", "cubic"]
        );
    }

    #[test]
    fn rows_of_a_comparison_are_the_live_part() {
        let row = |algorithm: &str, under: Option<&str>, used, ms| Row {
            algorithm: algorithm.to_owned(),
            under: under.map(str::to_owned),
            link: "here".to_owned(),
            utilization: Some(used),
            queue_delay_mean_ms: Some(ms),
            ..Row::default()
        };
        let mut rows = Vec::new();
        for run in 0..3 {
            rows.push(row("bbr", None, 0.95, 50.0));
            rows.push(row(
                "budget",
                Some("cubic"),
                0.93 + 0.01 * f64::from(run),
                40.0,
            ));
            rows.push(row("copa", Some("cubic"), 0.90, 20.0));
        }
        let mut board = board();
        board.cells.extend(super::super::live(&rows));
        assert_eq!(board.held(&[Kind::Live], "bbr"), [1, 1]);
        let median = "its median is just enough";
        assert_eq!(
            board.held(&[Kind::Live], "budget/over=cubic"),
            [1, 1],
            "{median}"
        );
        assert_eq!(board.held(&[Kind::Live], "copa/over=cubic"), [0, 1]);
        // Three of four parts.
        assert!((board.score("budget/over=cubic") - 0.75).abs() < 1e-9);
        let page = board.page().unwrap();
        assert!(
            page.contains("| here | **95/50** | **94/40** | 90/20 |"),
            "{page}"
        );
    }

    #[test]
    fn mixes_of_round_trips_are_crowds_among_the_others() {
        let mut board = board();
        let crowd = |situation: &str, kind, jain| Cell {
            situation: situation.to_owned(),
            jain_1s: spread(jain),
            worst_share: spread(0.5),
            ..cell(kind, "budget/over=cubic", 1.0, 10.0)
        };
        board.cells.push(crowd("two", Kind::Crowds, 0.95));
        board.cells.push(crowd("mix", Kind::Mixes, 0.5));
        // Channels all, crowds two of three, neighbours none.
        let want = (1.0 + 2.0 / 3.0) / 3.0;
        assert!((board.score("budget/over=cubic") - want).abs() < 1e-9);
    }

    #[test]
    fn the_file_and_the_causes_can_be_read() {
        let board = board();
        let text = board.to_json().unwrap();
        assert_eq!(Board::from_json(&text).unwrap(), board);
        let lines = text.lines().filter(|line| line.contains("\"situation\""));
        assert_eq!(lines.count(), board.cells.len());
        for cause in causes().unwrap() {
            for situation in &cause.situations {
                let named = format!("\"{situation}\"");
                let known = cause.kind.toml().is_none_or(|toml| toml.contains(&named));
                assert!(known, "no such situation: {named}");
            }
        }
        assert!(board.page().unwrap().contains("follows: `budget`"));
    }
}
