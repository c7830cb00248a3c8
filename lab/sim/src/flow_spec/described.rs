// SPDX-License-Identifier: Apache-2.0 OR MIT
//! FLOW as typed, on its way to a [`FlowSpec`].
use super::options::FlowOptions;
use super::{FlowError, FlowSpec, Under, idle, rules, udp};
use crate::{Kernel, Source, Timing};
use alcc_cc::{Instance, Registry, Spec, SpecError};
use alcc_flow::Share;
use alcc_flow::rules::LINUX;

/// FLOW in its parts.
pub(super) struct Described<'a> {
    text: &'a str,
    spec: Spec,
    pub(super) options: FlowOptions,
    registry: &'a Registry,
    timing: Timing,
}

impl<'a> Described<'a> {
    /// The parts, and how many such flows there are.
    pub(super) fn read(
        text: &'a str,
        registry: &'a Registry,
        timing: Timing,
    ) -> Result<(u64, Self), FlowError> {
        let (count, rest) = match text.split_once('*') {
            None => (1, text),
            Some((number, rest)) => {
                let count = number.parse().ok().filter(|n| (1..=10_000).contains(n));
                let count = count.ok_or_else(|| FlowError::Count {
                    flow: text.to_owned(),
                    found: number.to_owned(),
                })?;
                (count, rest)
            }
        };
        let (rest, times) = match rest.split_once('@') {
            None => (rest, None),
            Some((rest, times)) => (rest, Some(times)),
        };
        let (head, parts) = parts_of(rest);
        let mut described = Self {
            text,
            spec: head.parse().map_err(|why| unbuilt(text, why))?,
            options: FlowOptions::default(),
            registry,
            timing,
        };
        for part in parts {
            let read = described.options.part(part);
            read.map_err(|want| described.wrong(part, want))?;
        }
        if let Some(times) = times {
            let read = described.options.times(times);
            read.map_err(|want| described.wrong(&format!("@{times}"), want))?;
        }
        Ok((count, described))
    }

    fn wrong(&self, found: &str, want: impl Into<String>) -> FlowError {
        FlowError::Part {
            flow: self.text.to_owned(),
            found: found.to_owned(),
            want: want.into(),
        }
    }

    /// Sees that the parts go together; `one` is one of the flows.
    pub(super) fn check(&self, one: &FlowSpec) -> Result<(), FlowError> {
        let options = &self.options;
        let has_stack = options.over.is_some() || options.host.is_some();
        if has_stack && matches!(one.under, Under::Udp { .. }) {
            let part = if options.over.is_some() {
                "over="
            } else {
                "host="
            };
            return Err(self.wrong(
                part,
                "datagrams of a constant rate have no TCP: leave it out",
            ));
        }
        if let Some(part) = options.buffer_part()
            && !one.is_tcp()
        {
            let want = "only a TCP has it: give over= or host=linux, or leave it out";
            return Err(self.wrong(part, want));
        }
        if options.tunnel.is_some() && options.links.is_some() {
            let want = "in a tunnel it passes the links of the outer flow: leave it out";
            return Err(self.wrong("links=", want));
        }
        if options.ecn && !one.understands_marks() {
            let want = format!("{} does not react to marks: leave it out", one.sender());
            return Err(self.wrong("ecn=on", want));
        }
        if options.share.is_some()
            && (!Share::suits(&one.controller) || matches!(one.under, Under::Udp { .. }))
        {
            let want = format!(
                "{} cannot share: an algorithm with a window, such as budget, copa or cubic, can",
                one.algorithm
            );
            return Err(self.wrong("share=", want));
        }
        Ok(())
    }

    /// The flow with this number, or the one back from it.
    pub(super) fn flow(&self, number: u64, back: bool) -> Result<FlowSpec, FlowError> {
        let options = &self.options;
        let mut source = options.source;
        let (controller, under) = self
            .sender(&mut source)
            .map_err(|why| unbuilt(self.text, why))?;
        Ok(FlowSpec {
            algorithm: self.spec.name.clone(),
            options: self.spec.options_text(),
            text: self.text.to_owned(),
            name: options.name.clone(),
            controller,
            under,
            source,
            rtt: options.rtt,
            dir: if back {
                options.dir.back()
            } else {
                options.dir
            },
            share: options.share.clone(),
            tunnel: options.tunnel.clone(),
            txqueuelen: options.txqueuelen,
            paired: back,
            links: options.links,
            start: options.start + options.stagger * number,
            phase: options.phase,
            stop: options.stop_of(number),
            ecn: options.ecn,
        })
    }

    fn sender(&self, source: &mut Source) -> Result<(Instance, Under), SpecError> {
        if self.spec.name == "udp" {
            return Ok((idle(self.registry)?, udp(&self.spec, source)?));
        }
        let controller = self.registry.build(&self.spec)?;
        let under = match &self.options.over {
            None => {
                let rules = rules(&self.spec, &controller.needs(), self.options.host);
                Under::Native(self.options.buffers(rules))
            }
            Some(below) => Under::Tcp(self.kernel(below)?),
        };
        Ok((controller, under))
    }

    fn kernel(&self, below: &Spec) -> Result<Kernel, SpecError> {
        let controller = self.registry.build(below)?;
        let rules = rules(below, &controller.needs(), self.options.host);
        let rules = if rules.is_stream() { rules } else { LINUX };
        let rules = self.options.buffers(rules);
        Ok(Kernel {
            name: below.name.clone(),
            controller,
            rules,
            timing: self.timing,
        })
    }
}

fn unbuilt(flow: &str, why: SpecError) -> FlowError {
    FlowError::Algorithm {
        flow: flow.to_owned(),
        source: Box::new(why),
    }
}

/// The algorithm with its options, of which the last may be a path. Also the parts after it: these
/// are `key=value`.
pub(super) fn parts_of(text: &str) -> (&str, impl Iterator<Item = &str>) {
    let mut end = text.find('/').unwrap_or(text.len());
    while let Some(next) = text[end..].strip_prefix('/') {
        let part = next.split('/').next().unwrap_or_default();
        if !text[..end].contains('=') || part.contains('=') {
            break;
        }
        end += 1 + part.len();
    }
    (&text[..end], text[end..].split('/').skip(1))
}
