// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A scenario with published figures: a line of the reference file.
use super::Traces;
use crate::{LabError, Link, PathDefaults, Scheme, Side};
use alcc_cc::Registry;
use alcc_link::QueueSpec;
use alcc_results::{Row, Tolerance};
use alcc_units::Span;

/// A scenario with published figures.
#[derive(Clone, Debug)]
pub struct Reference {
    /// Source of the figures; decides bounds and the kind of delay.
    pub set: String,
    /// Name of the trace's file, or a rate.
    pub link: String,
    /// Length of the part of the trace that is used; `None`: all of it.
    pub cut: Option<Span>,
    /// The way back: a trace, a rate or `same`.
    pub up: String,
    /// Queue in both directions.
    pub queue: QueueSpec,
    /// Round-trip time without queueing.
    pub rtt: Span,
    /// Length of the window.
    pub duration: Span,
    /// Start times of the flow, one run each.
    pub starts: Vec<Span>,
    /// The flow, as `alcc-lab sim --flow` reads it.
    pub flow: String,
    /// Their runs, at least one. Delays are those that are compared.
    pub runs: Vec<Row>,
}

/// Maximum distance of our results from the published ones.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Bounds {
    /// Bound of the utilization in points, or of the throughput.
    pub share: Tolerance,
    /// Bound of the mean delay.
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
        let (mean, p95) = (
            perhaps("delay_mean_ms", delay)?,
            perhaps("delay_p95_ms", p95)?,
        );
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
            runs: vec![Row {
                throughput_mbps: Some(number("throughput_mbps", throughput)?),
                utilization: Some(number("utilization", utilization)?),
                delay_mean_ms: mean,
                queue_delay_mean_ms: mean,
                delay_p95_ms: p95,
                queue_delay_p95_ms: p95,
                loss: perhaps("loss", loss)?,
                ..Row::default()
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

    /// Its share of the link in one run: throughput in Mbit/s, or utilization in per cent.
    pub(super) fn share(&self, row: &Row) -> Option<f64> {
        match self.is_of_throughput() {
            true => row.throughput_mbps,
            false => row.utilization.map(|utilization| 100.0 * utilization),
        }
    }

    /// Mean and 95th percentile of the delay in one run, ms.
    pub(super) fn delays(&self, row: &Row) -> [Option<f64>; 2] {
        match self.is_of_throughput() {
            true => [row.queue_delay_mean_ms, row.queue_delay_p95_ms],
            false => [row.delay_mean_ms, row.delay_p95_ms],
        }
    }

    /// Its link and its flow.
    ///
    /// # Errors
    /// [`LabError::Traces`] if there is no such trace, and as [`Scheme::parse`].
    pub(super) fn open(
        &self,
        traces: &Traces,
        registry: &Registry,
    ) -> Result<(Link, Scheme), LabError> {
        let down = traces.rate(&self.link, self.cut)?;
        let up = match &*self.up {
            "same" => down.clone(),
            other => traces.rate(other, None)?,
        };
        let around = PathDefaults {
            rtt: self.rtt,
            queue: self.queue.clone(),
            ..PathDefaults::default()
        };
        let link = Link::defaults(self.link.clone(), down, up, &around);
        Ok((link, Scheme::parse(&self.flow, registry, Side::Simulated)?))
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
        assert_eq!(found[0].runs[1].utilization, Some(0.95));
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
        let opened = found[0].open(&traces, &alcc_zoo::registry());
        let Err(LabError::Traces { list, why }) = opened else {
            panic!("{opened:?}");
        };
        assert_eq!(list, "Nowhere");
        assert!(
            why.starts_with("there is none of this name below "),
            "{why}"
        );
    }
}
