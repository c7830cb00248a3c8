// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A scenario with published figures: a line of the reference file, and a run of it.
use super::{Figures, Traces};
use alcc_cc::Registry;
use alcc_link::{DirectionSpec, QueueSpec};
use alcc_results::{Tolerance, simulated};
use alcc_sim::{FlowSpec, Scenario, Timing};
use alcc_units::{Span, Time};

/// A scenario with the figures that somebody else found in it.
#[derive(Clone, Debug)]
pub struct Reference {
    /// Whose figures they are; decides bounds and the kind of delay.
    pub set: String,
    /// Name of the trace's file, or a rate.
    pub link: String,
    /// Only so much of the trace.
    pub cut: Option<Span>,
    /// The way back: a trace, a rate or `same`.
    pub up: String,
    /// In both directions.
    pub queue: QueueSpec,
    /// Without queueing.
    pub rtt: Span,
    /// Of the window.
    pub duration: Span,
    /// When the flow begins, one run each.
    pub starts: Vec<Span>,
    /// As `alcc-lab sim --flow` reads it.
    pub flow: String,
    /// Their runs, at least one.
    pub runs: Vec<Figures>,
}

/// How far our figures may be from theirs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Bounds {
    /// Of utilization in points, or of throughput.
    pub share: Tolerance,
    /// Of the mean delay.
    pub delay: Tolerance,
}

const HEADING: &str = "set,link,cut_s,up,queue,rtt_ms,duration_s,starts,run,throughput_mbps,utilization,delay_mean_ms,\
delay_p95_ms,loss,flow";

impl Reference {
    /// Those of a reference file; lines of the same scenario are runs of one. `#` begins a comment.
    ///
    /// # Errors
    /// The line, what was found and what was expected.
    pub fn read(text: &str) -> Result<Vec<Self>, String> {
        let mut lines = (1..).zip(text.lines()).filter(|(_, l)| !l.starts_with('#'));
        match lines.next() {
            Some((_, heading)) if heading == HEADING => {}
            other => {
                let found = other.map_or("nothing", |o| o.1);
                return Err(format!("the heading is '{found}': it must be '{HEADING}'"));
            }
        }
        let mut found: Vec<Self> = Vec::new();
        for (number, line) in lines.filter(|(_, l)| !l.is_empty()) {
            let one = Self::line(line).map_err(|why| format!("line {number}: {why}"))?;
            let same = |r: &&mut Self| {
                (&r.set, &r.link, &r.flow, &r.starts)
                    == (&one.set, &one.link, &one.flow, &one.starts)
            };
            match found.iter_mut().find(same) {
                Some(known) => known.runs.extend(one.runs),
                None => found.push(one),
            }
        }
        Ok(found)
    }

    pub(super) fn line(line: &str) -> Result<Self, String> {
        let fields: Vec<&str> = line.splitn(15, ',').collect();
        let &[
            set,
            link,
            cut,
            up,
            queue,
            rtt,
            duration,
            starts,
            _,
            throughput,
            utilization,
            delay,
            p95,
            loss,
            flow,
        ] = &fields[..]
        else {
            return Err(format!("{} fields: there must be 15", fields.len()));
        };
        let number = |what: &str, text: &str| {
            let value = text.parse::<f64>().ok().filter(|v| (0.0..1e9).contains(v));
            value.ok_or_else(|| format!("{what} is '{text}': it must be a number, 0 or more"))
        };
        let perhaps = |what: &str, text: &str| match text {
            "" => Ok(None),
            text => number(what, text).map(Some),
        };
        let ms = |value: f64| Span::from_secs_f64(value / 1e3);
        Ok(Self {
            set: set.to_owned(),
            link: link.to_owned(),
            cut: perhaps("cut_s", cut)?.map(Span::from_secs_f64),
            up: up.to_owned(),
            queue: queue.parse().map_err(|e| format!("{e}"))?,
            rtt: ms(number("rtt_ms", rtt)?),
            duration: Span::from_secs_f64(number("duration_s", duration)?),
            starts: several(starts).ok_or_else(|| {
                format!(
                    "starts is '{starts}': it must be FIRST+STEP*COUNT in ms, 1 to 1000 of them"
                )
            })?,
            flow: flow.to_owned(),
            runs: vec![Figures {
                throughput: number("throughput_mbps", throughput)?,
                utilization: number("utilization", utilization)?,
                delay: perhaps("delay_mean_ms", delay)?,
                p95: perhaps("delay_p95_ms", p95)?,
                loss: perhaps("loss", loss)?,
            }],
        })
    }

    /// The bounds of its set.
    pub fn bounds(&self) -> Bounds {
        let (share, delay) = match &*self.flow {
            _ if self.is_of_throughput() => (Tolerance::percent(5.0), 15.0),
            "cubic" | "reno" | "bbr" => (Tolerance::absolute(2.0), 15.0),
            _ => (Tolerance::absolute(5.0), 20.0),
        };
        Bounds {
            share,
            delay: Tolerance::percent(delay),
        }
    }

    /// Its share is a throughput and its delay queueing; otherwise utilization and one-way delay.
    pub fn is_of_throughput(&self) -> bool {
        self.set == "cs244"
    }

    /// Runs it once from each start.
    ///
    /// # Errors
    /// What kept it from running, one line.
    pub fn run(&self, traces: &Traces, registry: &Registry) -> Result<Vec<Figures>, String> {
        let down = traces.rate(&self.link, self.cut)?;
        let up = match &*self.up {
            "same" => down.clone(),
            other => traces.rate(other, None)?,
        };
        let direction = |rate, delay| DirectionSpec {
            rate,
            queue: self.queue.clone(),
            delay,
            ..DirectionSpec::default()
        };
        let there = self.rtt / 2;
        let (down, up) = (direction(down, there), direction(up, self.rtt - there));
        let once = |start: &Span| {
            let mut flows = FlowSpec::parse(&self.flow, registry, Timing::default())
                .map_err(|e| e.to_string())?;
            for flow in &mut flows {
                flow.start = Time::ZERO + *start;
            }
            let scenario = Scenario {
                flows,
                duration: self.duration,
                ..Scenario::one_link(down.clone(), up.clone())
            };
            let report = alcc_sim::run(&scenario).map_err(|e| e.to_string())?;
            let rows = simulated::rows(&self.link, &scenario, &report);
            let row = rows.first().ok_or("there is no flow")?;
            let (delay, p95) = if self.is_of_throughput() {
                (row.queue_delay_mean_ms, row.queue_delay_p95_ms)
            } else {
                (row.delay_mean_ms, row.delay_p95_ms)
            };
            Ok(Figures {
                throughput: row.throughput_mbps.unwrap_or_default(),
                utilization: row.utilization.unwrap_or_default(),
                delay,
                p95,
                loss: row.loss,
            })
        };
        self.starts.iter().map(once).collect()
    }
}

/// `FIRST+STEP*COUNT`, or one number.
fn several(text: &str) -> Option<Vec<Span>> {
    let ms = |text: &str| text.parse::<u64>().ok().map(Span::from_millis);
    let Some((first, rest)) = text.split_once('+') else {
        return Some(vec![ms(text)?]);
    };
    let (step, count) = rest.split_once('*')?;
    let (first, step) = (ms(first)?, ms(step)?);
    let count: u64 = count.parse().ok().filter(|n| (1..=1000).contains(n))?;
    Some((0..count).map(|n| first + step * n).collect())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) const LINE: &str = "prototypes,12mbit,,12mbit,droptail:bytes=2000000,40,2,0+5*2,1,10.8,0.90,40,80,0,fixed:window=20";

    pub(in super::super) fn read(lines: &str) -> Result<Vec<Reference>, String> {
        Reference::read(&format!("# comment\n{HEADING}\n{lines}\n"))
    }

    #[test]
    fn lines_of_one_scenario_are_its_runs() {
        let second = LINE.replace(",1,10.8,0.90", ",2,11.4,0.95");
        let found = read(&format!("{LINE}\n{second}\n{}", LINE.replace("=20", "=21"))).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].runs.len(), found[0].starts.len()), (2, 2));
        assert_eq!(found[0].runs[1].utilization, 0.95);
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (from, to, want) in [
            (
                ",40,2,",
                ",forty,2,",
                "line 3: rtt_ms is 'forty': it must be a number, 0 or more",
            ),
            ("0+5*2", "0+5*0", "line 3: starts is '0+5*0'"),
            ("droptail:bytes=2000000", "tail", "line 3: "),
            (
                ",fixed:window=20",
                "",
                "line 3: 14 fields: there must be 15",
            ),
        ] {
            let error = read(&LINE.replace(from, to)).unwrap_err();
            assert!(error.starts_with(want), "{error}");
        }
        assert!(
            Reference::read("set,link\n")
                .unwrap_err()
                .contains("heading")
        );
    }

    #[test]
    fn a_missing_trace_is_not_run() {
        let found = read(&LINE.replace("12mbit,,", "Nowhere,,")).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let traces = Traces::below(folder.path()).unwrap();
        let error = found[0].run(&traces, &alcc_zoo::registry()).unwrap_err();
        assert!(error.starts_with("no trace 'Nowhere' below "), "{error}");
    }
}
