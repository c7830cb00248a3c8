// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Description of a simulation: links in a row, and flows over them.
use crate::flow_spec::FlowError;
use crate::{FlowSpec, Source, Timing};
use alcc_link::{Dir, DirectionSpec, QueueSpec, RateSpec};
use alcc_units::{Span, Time};

/// Links in a row, and the flows over them.
///
/// ```
/// use alcc_link::{QueueSpec, RateSpec};
/// use alcc_sim::{Scenario, run};
/// use alcc_units::{Rate, Span};
///
/// let link = RateSpec::Fixed(Rate::mbps(12));
/// let mut scenario = Scenario::dumbbell(link, Span::from_millis(40), QueueSpec::default())
///     .with("cubic")?
///     .with("copa/rtt=80ms@2s")?;
/// scenario.duration = Span::from_secs(5);
/// assert_eq!(run(&scenario)?.flows.len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Scenario {
    /// From the senders' side to the receivers': data go down through them in this order,
    /// acknowledgements come up.
    pub links: Vec<LinkSpec>,
    /// The flows.
    pub flows: Vec<FlowSpec>,
    /// Length of the measured window. It begins with the first full-size packet at a bottleneck.
    pub duration: Span,
    /// Seed of everything random: loss, queues, algorithms, lateness.
    pub seed: u64,
    /// The interval of the time series; `None`: no series.
    pub series: Option<Span>,
    /// The run fails after this many events.
    pub max_events: u64,
}

/// A link: its two directions.
#[derive(Clone, Debug, Default)]
pub struct LinkSpec {
    /// The direction towards the receivers.
    pub down: DirectionSpec,
    /// The direction towards the senders.
    pub up: DirectionSpec,
}

/// Error in a scenario that cannot be simulated.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    /// There is no link.
    #[error("simulate: the scenario has no link: it needs one or more")]
    NoLink,
    /// Fewer than one or more than 10,000 flows.
    #[error("simulate {found} flows: there may be 1 to 10000")]
    Flows {
        /// Their number.
        found: usize,
    },
    /// The window has no length.
    #[error("simulate: the window is 0 s long: the duration must be longer")]
    NoWindow,
    /// A flow over links that do not exist.
    #[error(
        "simulate flow {flow}: it goes over links {from} to {to} of {links}: give two that exist, the smaller first"
    )]
    Route {
        /// Its number, from 1.
        flow: usize,
        /// First link of the flow, from 1.
        from: usize,
        /// Last link of the flow, from 1.
        to: usize,
        /// The number of links.
        links: usize,
    },
    /// A flow whose RTT is below that of the links.
    #[error(
        "simulate flow {flow}: its rtt of {rtt} is less than the {links} of its links: raise it, or lower the links' delays"
    )]
    Rtt {
        /// Its number, from 1.
        flow: usize,
        /// The requested RTT.
        rtt: Span,
        /// The RTT of its links.
        links: Span,
    },
    /// A flow inside another flow, which is not possible here.
    #[error("simulate flow {flow}: tunnel={name}: {why}")]
    Tunnel {
        /// Its number, from 1.
        flow: usize,
        /// Name of the flow that should carry it.
        name: String,
        /// A value that would be valid.
        why: &'static str,
    },
    /// A flow that stops before it starts.
    #[error("simulate flow {flow}: it starts at {start} and stops at {stop}: it must stop later")]
    Stop {
        /// Its number, from 1.
        flow: usize,
        /// Its start.
        start: Span,
        /// Its stop.
        stop: Span,
    },
    /// Too many events.
    #[error(
        "simulate: stopped after {events} events at {at} of simulated time: make it shorter or smaller, or raise max-events"
    )]
    Events {
        /// The number of events.
        events: u64,
        /// The simulated time that was reached.
        at: Time,
    },
    /// Time stands still.
    #[error(
        "simulate: {events} events at one instant, {at}: a link of unlimited rate without delay loops endlessly: give it a rate or a delay"
    )]
    Standstill {
        /// The number of events.
        events: u64,
        /// Time of the event.
        at: Time,
    },
    /// The probe stopped the run.
    #[error("simulate: stopped at {at} of simulated time")]
    Stopped {
        /// Time of the event.
        at: Time,
    },
}

/// Upper bound for the events of a run: some ten thousand seconds of work.
const MAX_EVENTS: u64 = 10_000_000_000;

impl Scenario {
    /// One link and no flows yet; 60 s, seed 1.
    pub fn one_link(down: DirectionSpec, up: DirectionSpec) -> Self {
        Self {
            links: vec![LinkSpec { down, up }],
            flows: Vec::new(),
            duration: Span::from_secs(60),
            seed: 1,
            series: None,
            max_events: MAX_EVENTS,
        }
    }

    /// One bottleneck of this rate behind this queue, with half of `rtt` in each direction. The
    /// reverse direction has no other limit. There are no flows yet; 60 s, seed 1.
    pub fn dumbbell(rate: RateSpec, rtt: Span, queue: QueueSpec) -> Self {
        let down = DirectionSpec {
            rate,
            queue,
            delay: rtt / 2,
            ..DirectionSpec::default()
        };
        let up = DirectionSpec {
            delay: rtt - rtt / 2,
            ..DirectionSpec::default()
        };
        Self::one_link(down, up)
    }

    /// The scenario with these additional flows, as people type them: `10*cubic/rtt=80ms@5s`.
    ///
    /// # Errors
    /// [`FlowError`] with what would be right.
    pub fn with(mut self, flows: &str) -> Result<Self, FlowError> {
        let flows = FlowSpec::parse(flows, &alcc_zoo::registry(), Timing::default())?;
        self.flows.extend(flows);
        Ok(self)
    }

    /// Checks whether the scenario can be run.
    ///
    /// # Errors
    /// [`SimError`] with what would be right.
    pub fn check(&self) -> Result<(), SimError> {
        if self.links.is_empty() {
            return Err(SimError::NoLink);
        }
        if !(1..=10_000).contains(&self.flows.len()) {
            return Err(SimError::Flows {
                found: self.flows.len(),
            });
        }
        if self.duration.is_zero() {
            return Err(SimError::NoWindow);
        }
        for (flow, spec) in (1..).zip(&self.flows) {
            let links = self.links.len();
            if let Some((from, to)) = spec.links
                && !(1 <= from && from <= to && to <= links)
            {
                return Err(SimError::Route {
                    flow,
                    from,
                    to,
                    links,
                });
            }
            if let Some(name) = &spec.tunnel
                && let Err(why) = self.check_tunnel(spec)
            {
                let name = name.clone();
                return Err(SimError::Tunnel { flow, name, why });
            }
            let links = self.propagation(spec);
            if let Some(rtt) = spec.rtt
                && rtt < links
            {
                return Err(SimError::Rtt { flow, rtt, links });
            }
            if let Some(stop) = spec.stop
                && stop <= spec.start
            {
                return Err(SimError::Stop {
                    flow,
                    start: spec.start.since(Time::ZERO),
                    stop: stop.since(Time::ZERO),
                });
            }
        }
        Ok(())
    }

    /// Numbers of the links of a flow, from 0. Empty if there are no such links.
    pub(crate) fn route(&self, flow: &FlowSpec) -> std::ops::Range<usize> {
        let (from, to) = flow.links.unwrap_or((1, self.links.len()));
        from.saturating_sub(1)..to.min(self.links.len())
    }

    /// The flows whose streams carry this one: its data, its acknowledgements. `None`: the links
    /// carry it directly.
    pub(crate) fn carriers(&self, flow: &FlowSpec) -> [Option<usize>; 2] {
        if flow.tunnel.is_none() {
            return [None, None];
        }
        [flow.dir, flow.dir.back()].map(|dir| {
            let mut flows = self.flows.iter();
            flows.position(|other| carries(other, flow) && other.dir == dir)
        })
    }

    pub(crate) fn is_carrier(&self, flow: &FlowSpec) -> bool {
        flow.name.is_some() && self.flows.iter().any(|inner| carries(flow, inner))
    }

    /// Checks that a flow exists that can carry this one.
    fn check_tunnel(&self, flow: &FlowSpec) -> Result<(), &'static str> {
        if self.carriers(flow)[0].is_none() {
            return Err(
                "no flow with that name carries data this way: give one, such as cubic/name=vpn or cubic/dir=both/name=vpn",
            );
        }
        let mut carriers = self.flows.iter().filter(|other| carries(other, flow));
        if carriers.clone().any(|carrier| !carrier.is_tcp()) {
            return Err(
                "only the stream of a TCP carries others, such as cubic or budget/over=cubic",
            );
        }
        let own =
            |carrier: &FlowSpec| carrier.source != Source::default() || carrier.stop.is_some();
        if carriers.any(own) {
            return Err("a tunnel sends only what it carries: omit its size=, app=, on= and end");
        }
        Ok(())
    }

    /// The round trip of a flow's links alone, without queueing; for a flow inside another, that of
    /// the other.
    fn propagation(&self, flow: &FlowSpec) -> Span {
        if let [Some(carrier), _] = self.carriers(flow) {
            return self.min_rtt(&self.flows[carrier]);
        }
        let links = self.links.get(self.route(flow)).unwrap_or_default();
        let both = |link: &LinkSpec| link.down.delay + link.up.delay;
        links.iter().map(both).fold(Span::ZERO, |a, b| a + b)
    }

    /// The round trip of a flow without queueing.
    pub fn min_rtt(&self, flow: &FlowSpec) -> Span {
        let links = self.propagation(flow);
        flow.rtt.map_or(links, |rtt| rtt.max(links))
    }

    /// The part of a flow's round trip beyond its links. It is before the first and after the last
    /// of them, half each way.
    pub(crate) fn access(&self, flow: &FlowSpec) -> Span {
        self.min_rtt(flow).saturating_sub(self.propagation(flow))
    }

    /// The direction with this number.
    pub(crate) fn direction(&self, index: usize) -> &DirectionSpec {
        let link = &self.links[index / 2];
        if index.is_multiple_of(2) {
            &link.down
        } else {
            &link.up
        }
    }

    /// The direction of each link that a flow's data pass, in order: `link * 2`, and 1 more for up.
    pub(crate) fn data_route(&self, flow: &FlowSpec) -> Vec<usize> {
        let route = self.route(flow);
        match flow.dir {
            Dir::Down => route.map(|link| 2 * link).collect(),
            Dir::Up => route.rev().map(|link| 2 * link + 1).collect(),
        }
    }
}

/// Checks that one flow can carry the other. A tunnel cannot contain a tunnel.
fn carries(outer: &FlowSpec, inner: &FlowSpec) -> bool {
    inner.tunnel.is_some() && outer.tunnel.is_none() && outer.name == inner.tunnel
}
