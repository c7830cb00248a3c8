// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The flows of a simulated run as the schemes of a comparison, for a figure of them.
use crate::meter::FULL_SIZE;
use alcc_results::simulated::rows;
use alcc_results::{Distribution, Results, SIMULATED, Series, quantiles, summary};
use alcc_sim::{FlowReport, PacketContent, PacketEvent, PacketStep, Report, Sample, Scenario};
use alcc_units::{Span, Time};
use std::collections::HashMap;

/// Width of a bin of the series: finer ones show single packets.
const BIN: Span = Span::from_millis(200);

/// Queueing times of each flow's packets, from the first full-size one on.
pub struct Waits {
    of_flows: Vec<Distribution>,
    has_begun: bool,
    /// Arrival of a packet at the queue that it is in, and its wait before that, by flow
    /// and number.
    on_the_way: HashMap<(usize, u64), (Time, Span)>,
}

impl Waits {
    /// Waits of `flows` flows.
    pub fn new(flows: usize) -> Self {
        Self {
            of_flows: (0..flows).map(|_| Distribution::new()).collect(),
            has_begun: false,
            on_the_way: HashMap::new(),
        }
    }

    /// Something happened to a packet.
    pub fn packet(&mut self, event: &PacketEvent) {
        let PacketContent::Data { pn, .. } = event.content else {
            return;
        };
        let key = (event.flow, pn);
        match event.what {
            PacketStep::Sent => {}
            PacketStep::Arrived(_) => {
                self.has_begun |= event.len >= FULL_SIZE;
                if self.has_begun {
                    self.on_the_way
                        .entry(key)
                        .or_insert((event.at, Span::ZERO))
                        .0 = event.at;
                }
            }
            PacketStep::Departed(_) => {
                if let Some((arrived, waited)) = self.on_the_way.get_mut(&key) {
                    *waited += event.at.since(*arrived);
                }
            }
            PacketStep::Dropped(..) => {
                self.on_the_way.remove(&key);
            }
            PacketStep::Received => {
                if let Some((_, waited)) = self.on_the_way.remove(&key) {
                    self.of_flows[event.flow].add(waited, 1);
                }
            }
        }
    }

    /// Rows and series of a run that has samples. Several flows have their numbers
    /// before their names, and none is better than the others: they are not alternatives.
    pub fn results(&self, link: &str, scenario: &Scenario, report: &Report) -> Results {
        let mut flows = rows(link, scenario, report);
        let several = flows.len() > 1;
        for (number, row) in flows.iter_mut().enumerate() {
            let name = row.name.clone().unwrap_or_else(|| row.scheme.clone());
            row.scheme = if several {
                format!("{number} {name}")
            } else {
                name
            };
        }
        let series = flows.iter().zip(&report.flows).zip(&self.of_flows);
        let series = series.map(|((row, flow), waits)| Series {
            scheme: row.scheme.clone(),
            link: link.to_owned(),
            run: row.run,
            ..series_of(flow, waits, report.duration)
        });
        let mut results = Results {
            series: series.collect(),
            summary: summary(&flows),
            flows,
            ..Results::default()
        };
        results.about.mode = SIMULATED.to_owned();
        for group in results.summary.groups.iter_mut().filter(|_| several) {
            group.front = false;
        }
        results
    }
}

/// Means of the samples of each bin. A bin before the flow's start has none.
fn series_of(flow: &FlowReport, waits: &Distribution, duration: Span) -> Series {
    let propagation = flow.delay.mean.saturating_sub(flow.queue_delay.mean);
    let propagation = propagation.as_millis_f64();
    let count = duration.as_nanos().div_ceil(BIN.as_nanos());
    let mut bins = vec![Vec::new(); usize::try_from(count).unwrap_or(0)];
    for sample in &flow.series {
        // A sample is of the time before it.
        let at = sample.at.as_nanos().saturating_sub(1) / BIN.as_nanos();
        if let Some(bin) = usize::try_from(at).ok().and_then(|at| bins.get_mut(at)) {
            bin.push(sample);
        }
    }
    let each = |value: &dyn Fn(&Sample) -> Option<f64>| {
        let mean = |bin: &Vec<&Sample>| {
            let values: Vec<f64> = bin.iter().filter_map(|sample| value(sample)).collect();
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        };
        bins.iter().map(mean).collect::<Vec<_>>()
    };
    let known = |values: Vec<Option<f64>>| values.into_iter().map(|v| v.unwrap_or(f64::NAN));
    let delay = |s: &Sample| Some(s.queue_delay?.as_millis_f64() + propagation);
    let quantiles = quantiles().into_iter();
    Series {
        bin_s: BIN.as_secs_f64(),
        throughput_mbps: known(each(&|s| Some(s.throughput.as_mbps_f64()))).collect(),
        capacity_mbps: known(each(&|s| Some(s.capacity.as_mbps_f64()))).collect(),
        delay_ms: each(&delay),
        delay_quantiles_ms: quantiles
            .filter_map(|q| Some(waits.quantile_ms(q)? + propagation))
            .collect(),
        ..Series::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Part, figure};
    use crate::scheme::Side;
    use crate::simulated::{Simulation, scenario};
    use crate::{Link, Scheme};
    use alcc_sim::Probe;
    use std::path::Path;

    impl Probe for Waits {
        fn packet(&mut self, event: &PacketEvent) {
            Self::packet(self, event);
        }
    }

    fn results(flows: &str) -> Results {
        let registry = alcc_zoo::registry();
        let simulation = Simulation {
            link: &Link::open(Path::new("synth:lte"), 1).unwrap(),
            scheme: &Scheme::parse(flows, &registry, Side::Simulated).unwrap(),
            registry: &registry,
            duration: Span::from_secs(10),
            start: Span::ZERO,
            settle: Span::from_secs(1),
            run: 1,
        };
        let mut scenario = scenario(&simulation).unwrap();
        scenario.series = Some(Span::from_millis(20));
        let mut waits = Waits::new(scenario.flows.len());
        let report = alcc_sim::run_with(&scenario, &mut waits).unwrap();
        waits.results("a<b", &scenario, &report)
    }

    #[test]
    fn series_and_distribution_agree_with_the_rows() {
        let results = results("cubic+copa@4s");
        assert_eq!(results.flows[0].scheme, "0 cubic");
        assert_eq!(results.flows[1].label(), "1 copa (tuned)");
        for (row, series) in results.flows.iter().zip(&results.series) {
            let known = series.throughput_mbps.iter().filter(|v| v.is_finite());
            let mbps = known.sum::<f64>() * series.bin_s / 10.0;
            let want = row.throughput_mbps.unwrap();
            assert!((mbps / want - 1.0).abs() < 0.02, "{mbps} {want}");
            for (q, want) in [(0.5, row.delay_median_ms), (0.95, row.delay_p95_ms)] {
                let at = quantiles()
                    .iter()
                    .position(|known| (known - q).abs() < 1e-9);
                let (found, want) = (series.delay_quantiles_ms[at.unwrap()], want.unwrap());
                assert!((found / want - 1.0).abs() < 0.02, "{q}: {found} {want}");
            }
        }
        let late = &results.series[1];
        assert!(late.throughput_mbps[..19].iter().all(|v| v.is_nan()));
        assert!(late.throughput_mbps[25].is_finite());
    }

    /// The first flow begins later, or goes the other way.
    #[test]
    fn the_capacity_does_not_depend_on_the_order_of_the_flows() {
        let results = results("cubic+copa@4s");
        let mut other = results.clone();
        other.flows.reverse();
        other.series.reverse();
        let area = |results: &Results| {
            let svg = figure(results, &[Part::Series]).unwrap();
            let area = svg.lines().find(|line| line.contains("#e4e9ee"));
            area.unwrap().to_owned()
        };
        assert_eq!(area(&results), area(&other));
    }

    #[test]
    fn a_figure_has_the_panels_that_are_asked_for() {
        let results = results("cubic+copa@4s");
        let svg = figure(&results, &Part::ALL).unwrap();
        for (text, times) in [
            ("throughput, Mbit/s", 2),
            ("mean one-way delay, ms", 1),
            ("packets, %", 1),
            ("time, s", 2),
            // In the legend, and beside its mark.
            ("0 cubic\n", 2),
            ("1 copa (tuned)\n", 2),
        ] {
            assert_eq!(svg.matches(text).count(), times, "{text}");
        }
        assert!(svg.contains("a&lt;b") && !svg.contains("a<b"));
        assert!(!svg.contains("#0100") && !svg.contains("class=") && !svg.contains("<style"));
        let plane = figure(&results, &[Part::Plane]).unwrap();
        assert!(plane.contains("mean one-way delay") && !plane.contains("time, s"));
        assert!(figure(&Results::default(), &Part::ALL).is_err());
    }
}
