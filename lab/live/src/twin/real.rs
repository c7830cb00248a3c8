// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A simulated scenario with real programs: the checks whether they support it, and the runs of
//! both sides.
use crate::LabError;
use crate::applications::{self, Application, Shown};
use crate::link::Link;
use crate::live::{self, Experiment, Measured, Times};
use crate::scheme::{Scheme, cannot};
use crate::tools::Tools;
use alcc_cc::Registry;
use alcc_emu::PathSpec;
use alcc_results::scenario::Phase;
use alcc_results::simulated;
use alcc_results::{EMULATED, Results, Row, SIMULATED, summary, twins};
use alcc_sim::{FlowSpec, FlowText, Scenario};
use alcc_units::{Span, Time};
use std::sync::atomic::AtomicBool;

/// A scenario as real programs run it.
#[derive(Clone, Debug)]
pub struct Real {
    link: Link,
    /// One for each flow.
    pub(crate) schemes: Vec<Scheme>,
    /// Lifetime of each flow.
    pub(crate) times: Vec<Times>,
    duration: Span,
}

impl Real {
    /// Translates a scenario on the link called `name`.
    ///
    /// # Errors
    /// [`LabError::Twin`] with the first thing that the emulator or the kernel cannot do.
    pub fn of(name: &str, scenario: &Scenario, registry: &Registry) -> Result<Self, LabError> {
        let [link] = &scenario.links[..] else {
            return Err(LabError::Twin {
                what: format!("a chain of {} links", scenario.links.len()),
                instead: "the emulator has one: give one --link".to_owned(),
            });
        };
        let mut schemes: Vec<Scheme> = Vec::new();
        let mut times = Vec::new();
        for flow in &scenario.flows {
            let far = scenario.min_rtt(flow) > link.down.delay + link.up.delay;
            let scheme = scheme(flow, far, registry)?;
            let is_tcp = |scheme: &&Scheme| scheme.constant.is_none();
            if is_tcp(&&scheme)
                && schemes
                    .iter()
                    .filter(is_tcp)
                    .any(|other| other.notsent_lowat != scheme.notsent_lowat)
            {
                return Err(LabError::Twin {
                    what: "lowat= of some of the flows".to_owned(),
                    instead: "it is a setting of the host: give it to all of them".to_owned(),
                });
            }
            schemes.push(scheme);
            times.push(Times {
                start: flow.start.since(Time::ZERO),
                stop: flow.stop.map(|stop| stop.since(Time::ZERO)),
            });
        }
        if schemes.len() > MAX_FLOWS {
            return Err(LabError::Twin {
                what: format!("{} flows", schemes.len()),
                instead: format!("each is a server and a client here: at most {MAX_FLOWS}"),
            });
        }
        Ok(Self {
            link: Link::of(
                name,
                PathSpec {
                    down: link.down.clone(),
                    up: link.up.clone(),
                    seed: scenario.seed,
                },
            ),
            schemes,
            times,
            duration: scenario.duration,
        })
    }

    /// Translates a scheme of several flows.
    ///
    /// # Errors
    /// As [`Real::of`].
    pub(crate) fn crowd(
        link: &Link,
        scheme: &Scheme,
        duration: Span,
        registry: &Registry,
    ) -> Result<Self, LabError> {
        let scenario = scheme.scenario(link, duration, registry)?;
        Self::of(&link.name, &scenario, registry)
    }

    /// Runs both sides. [`alcc_emu::prepare`] must have succeeded before. The simulated flows begin
    /// so much later that both windows begin at the same moment of the link.
    ///
    /// # Errors
    /// As [`live::run`], and [`LabError::Run`] if the simulator gives up.
    pub fn run(
        &self,
        mut scenario: Scenario,
        tools: &Tools,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Results, LabError> {
        let measured = self.measure(tools, stop, progress)?;
        let mut rows = measured.rows;
        let began = rows.iter().find_map(|row| row.started_s);
        let mut model = simulate(&self.link.name, &scenario)?;
        if let (Some(real), Some(started)) = (began, model.first().and_then(|r| r.started_s)) {
            let later = Span::from_secs_f64(real - started);
            for flow in &mut scenario.flows {
                flow.start += later;
                flow.stop = flow.stop.map(|stop| stop + later);
            }
            model = simulate(&self.link.name, &scenario)?;
        }
        for row in &mut rows {
            row.side = Some(EMULATED.to_owned());
        }
        for (row, scheme) in model.iter_mut().zip(&self.schemes) {
            scheme.describe(row);
            row.side = Some(SIMULATED.to_owned());
        }
        rows.extend(model);
        let mut notes = measured.notes;
        notes.extend(twins::mismatches(&rows));
        Ok(Results {
            summary: summary(&rows),
            flows: rows,
            notes,
            ..Results::default()
        })
    }
}

impl Real {
    /// Runs the real programs alone: a row and a series for each flow.
    fn measure(
        &self,
        tools: &Tools,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(f64),
    ) -> Result<Measured, LabError> {
        (self.schemes.iter()).try_for_each(|scheme| tools.check(scheme))?;
        let experiment = Experiment {
            link: &self.link,
            shared: Some(&self.times),
            crowd: None,
            schemes: &self.schemes,
            duration: self.duration,
            run: 1,
            tools,
            log: None,
        };
        live::run(&experiment, stop, progress)
    }

    /// Runs `application` over the link; its server uses the congestion control of the scenario's
    /// only flow. The duration is how long the link is watched. [`alcc_emu::prepare`] must have
    /// succeeded before.
    ///
    /// # Errors
    /// As [`applications::run`], and [`LabError::Twin`] for more than one flow.
    pub fn apply(
        &self,
        application: &Application,
        tools: &Tools,
        stop: &AtomicBool,
    ) -> Result<Shown, LabError> {
        let [scheme] = &self.schemes[..] else {
            return Err(LabError::Twin {
                what: format!("{} with {} flows", application.name, self.schemes.len()),
                instead: "its server sends in one way: give one flow".to_owned(),
            });
        };
        applications::run(application, &self.link, scheme, self.duration, tools, stop)
    }

    /// Runs the real programs alone. [`alcc_emu::prepare`] must have succeeded before. Returns a
    /// row for each flow, the summary of all of them, and notes. Single seconds count from `settle`
    /// on.
    ///
    /// # Errors
    /// As [`live::run`], and [`LabError::Run`] for the first flow that failed.
    pub fn emulate(
        &self,
        settle: Span,
        phases: &[Phase],
        tools: &Tools,
        stop: &AtomicBool,
    ) -> Result<(Vec<Row>, simulated::Summary, Vec<String>), LabError> {
        let Measured {
            rows,
            series,
            notes,
            ..
        } = self.measure(tools, stop, &mut |_| {})?;
        let failed = rows.iter().find(|row| row.error.is_some());
        if let Some((row, why)) = failed.and_then(|row| Some((row, row.error.clone()?))) {
            return Err(LabError::Run {
                scheme: row.scheme.clone(),
                why,
            });
        }
        let seconds: Vec<Vec<u64>> = series.iter().map(live::seconds).collect();
        let shares = live::shares(&rows, &seconds, &self.times, self.duration);
        let summary = simulated::Summary::of_rows(&rows, &shares, self.duration, settle, phases);
        Ok((rows, summary, notes))
    }
}

/// Maximum number of servers and clients: more would measure the machine.
const MAX_FLOWS: usize = 64;

fn simulate(link: &str, scenario: &Scenario) -> Result<Vec<Row>, LabError> {
    let report = alcc_sim::run(scenario).map_err(|e| LabError::Run {
        scheme: SIMULATED.to_owned(),
        why: e.to_string(),
    })?;
    Ok(simulated::rows(link, scenario, &report))
}

/// The flow as a scheme of real programs; `far` if its round trip is longer than its link's.
fn scheme(flow: &FlowSpec, far: bool, registry: &Registry) -> Result<Scheme, LabError> {
    // Its text is one flow.
    let text = FlowText::all(&flow.text)?.swap_remove(0);
    let mut scheme = Scheme::real(&text, registry)?;
    if far {
        let instead = "all flows of an emulated link have that of the link: give --rtt";
        return Err(cannot(&text, "a round trip of its own", instead));
    }
    // Debian's kernels have a module for BIC; others have only what BPF adds.
    if !scheme.kernel.is_empty() {
        scheme.kernel = alcc_pipe::own_or_loaded(&scheme.kernel);
    }
    scheme.name = flow.scheme();
    Ok(scheme)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alcc_link::{QueueSpec, RateSpec};
    use alcc_units::Rate;

    fn scenario(flows: &str) -> Scenario {
        let rate = RateSpec::Fixed(Rate::mbps(12));
        let mut scenario = Scenario::dumbbell(rate, Span::from_millis(40), QueueSpec::default());
        for flow in flows.split_whitespace() {
            scenario = scenario.with(flow).unwrap();
        }
        scenario
    }

    fn real(flows: &str) -> Result<Real, String> {
        Real::of("l", &scenario(flows), &alcc_zoo::registry()).map_err(|e| e.to_string())
    }

    #[test]
    fn what_real_programs_can_do() {
        let real = real("2*cubic verus:r=4/over=reno@2s-5s 2*copa:delta=0.1").unwrap();
        let names: Vec<&str> = real.schemes.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names, ["cubic", "cubic", "alcc-verus", "copa", "copa"]);
        assert!(real.schemes[3].is_native());
        assert_eq!(real.schemes[2].kernel, "reno");
        assert_eq!(
            real.schemes[2].controlled.as_ref().unwrap().to_string(),
            "verus:r=4"
        );
        let times = Times {
            start: Span::from_secs(2),
            stop: Some(Span::from_secs(5)),
        };
        assert_eq!(real.times[..3], [Times::default(), Times::default(), times]);
    }

    #[test]
    fn what_they_cannot_is_refused_by_name() {
        for (flows, part) in [
            ("cubic/dir=up", "dir=up"),
            ("cubic/dir=both", "dir=both"),
            ("cubic/rtt=80ms", "--rtt"),
            ("cubic/size=1MB", "size="),
            ("udp:rate=1mbit/dir=up", "dir=up"),
            ("cubic/host=linux-3.16", "host="),
            ("verus/host=linux", "transport=udp"),
            ("65*cubic", "65 flows"),
        ] {
            let error = real(flows).unwrap_err();
            assert!(error.starts_with("emulate "), "{flows}: {error}");
            assert!(error.contains(part), "{flows}: {error}");
        }
        let mut chain = scenario("cubic");
        chain.links.push(chain.links[0].clone());
        let error = Real::of("l", &chain, &alcc_zoo::registry()).unwrap_err();
        assert!(error.to_string().contains("chain of 2 links"), "{error}");
    }
}
