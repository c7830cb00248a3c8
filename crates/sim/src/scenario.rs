// SPDX-License-Identifier: Apache-2.0 OR MIT
use crate::{TcpCc, Timing};
use alcc_cc::{Controller, Registry, Spec, SpecError};
use alcc_link::DirectionSpec;
use alcc_units::{Span, Time};

/// A path, and the flows on it.
pub struct Scenario {
    /// Towards the receivers: data.
    pub down: DirectionSpec,
    /// Back: acknowledgements.
    pub up: DirectionSpec,
    /// Length of the measured window. It begins with the first full-size packet at the bottleneck.
    pub duration: Span,
    /// Of everything random: loss, queues, algorithms, lateness.
    pub seed: u64,
    /// Who sends.
    pub flows: Vec<FlowSpec>,
    /// How far apart the samples of the time series are; `None`: no series.
    pub series: Option<Span>,
}

/// A flow: an algorithm and what it stands on.
pub struct FlowSpec {
    /// The algorithm's name.
    pub algorithm: String,
    /// Its options as typed.
    pub options: String,
    /// A controller that has not started; the run uses a copy.
    pub controller: Box<dyn Controller>,
    /// What carries it.
    pub under: Under,
    /// When it begins.
    pub start: Time,
}

/// What carries an algorithm's packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Under {
    /// It sends packets itself.
    Native,
    /// It decides what is written to a simulated TCP connection.
    Tcp {
        /// What that connection's kernel runs.
        cc: TcpCc,
        /// How late things happen on its machine.
        timing: Timing,
    },
}

/// What is wrong with the description of a flow.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FlowError {
    /// Something after the `/` that is not known.
    #[error("flow '{flow}': '{found}' is not known after '/': write /over=reno or /over=cubic")]
    Part {
        /// The flow as typed.
        flow: String,
        /// What was found.
        found: String,
    },
    /// The number before the `*` is none.
    #[error("flow '{flow}': '{found}' flows: write a number from 1 to 1000 before the '*'")]
    Count {
        /// The flow as typed.
        flow: String,
        /// What was found.
        found: String,
    },
    /// The algorithm.
    #[error("flow '{flow}': {source}")]
    Algorithm {
        /// The flow as typed.
        flow: String,
        /// What is wrong with it.
        source: Box<SpecError>,
    },
}

impl FlowSpec {
    /// Reads `[N*]A[/over=reno|cubic]`, such as `2*verus:r=4/over=cubic`: N equal flows.
    ///
    /// # Errors
    /// [`FlowError`] with what would be right.
    pub fn parse(text: &str, registry: &Registry, timing: Timing) -> Result<Vec<Self>, FlowError> {
        let flow = || text.to_owned();
        let (count, rest) = match text.split_once('*') {
            None => (1, text),
            Some((number, rest)) => {
                let count = number.parse().ok().filter(|n| (1..=1000).contains(n));
                let count = count.ok_or_else(|| FlowError::Count {
                    flow: flow(),
                    found: number.to_owned(),
                })?;
                (count, rest)
            }
        };
        let mut parts = rest.split('/');
        let name = parts.next().unwrap_or_default();
        let mut under = Under::Native;
        for part in parts {
            let cc = match part {
                "over=reno" => TcpCc::Reno,
                "over=cubic" => TcpCc::Cubic,
                found => {
                    return Err(FlowError::Part {
                        flow: flow(),
                        found: found.to_owned(),
                    });
                }
            };
            under = Under::Tcp { cc, timing };
        }
        let algorithm = |source| FlowError::Algorithm {
            flow: flow(),
            source: Box::new(source),
        };
        let spec: Spec = name.parse().map_err(algorithm)?;
        let controller = registry.build(&spec).map_err(algorithm)?;
        Ok((0..count)
            .map(|_| Self {
                algorithm: spec.name.clone(),
                options: spec.options_text(),
                controller: controller.clone_box(),
                under,
                start: Time::ZERO,
            })
            .collect())
    }

    /// What a reader calls it: `verus`, and `alcc-verus` above TCP.
    pub fn scheme(&self) -> String {
        match self.under {
            Under::Native => self.algorithm.clone(),
            Under::Tcp { .. } => format!("alcc-{}", self.algorithm),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Vec<FlowSpec>, String> {
        FlowSpec::parse(text, &Registry::builtin(), Timing::default()).map_err(|e| e.to_string())
    }

    #[test]
    fn flows_as_people_type_them() {
        let flows = parse("2*fixed:window=7/over=cubic").unwrap();
        assert_eq!(flows.len(), 2);
        assert_eq!(
            (flows[1].scheme(), flows[1].options.as_str()),
            ("alcc-fixed".to_owned(), "window=7")
        );
        assert!(matches!(
            flows[0].under,
            Under::Tcp {
                cc: TcpCc::Cubic,
                ..
            }
        ));
        assert_eq!(parse("fixed").unwrap()[0].under, Under::Native);
    }

    #[test]
    fn mistakes_are_named_with_what_would_be_right() {
        let error = |text| parse(text).err().unwrap();
        assert_eq!(
            error("fixed/over=bbr"),
            "flow 'fixed/over=bbr': 'over=bbr' is not known after '/': write /over=reno or /over=cubic"
        );
        assert_eq!(
            error("0*fixed"),
            "flow '0*fixed': '0' flows: write a number from 1 to 1000 before the '*'"
        );
        assert!(
            error("fixd").starts_with("flow 'fixd': no algorithm 'fixd' (did you mean fixed?)")
        );
    }
}
