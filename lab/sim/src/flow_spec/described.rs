// SPDX-License-Identifier: Apache-2.0 OR MIT
//! FLOW as typed, on its way to a [`FlowSpec`] or to real programs.
use super::options::{Parts, TRANSPORTS};
use super::{FlowError, FlowSpec, Under, idle, rules, udp};
use crate::{Kernel, Source, Timing};
use alcc_cc::{Instance, Needs, Registry, Spec, SpecError};
use alcc_flow::Share;
use alcc_flow::rules::{LINUX, Rules};
use alcc_units::Bytes;

/// A FLOW as typed: N equal flows, of which nothing is built yet.
///
/// ```
/// use alcc_sim::FlowText;
///
/// let flows = FlowText::all("6*cubic/stagger=100ms+verus:r=4@10s")?;
/// assert_eq!((flows[0].count, flows[1].algorithm.to_string()), (6, "verus:r=4".to_owned()));
/// # Ok::<(), alcc_sim::FlowError>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct FlowText {
    /// Text of the flow.
    pub text: String,
    /// N.
    pub count: u64,
    /// The algorithm with its options.
    pub algorithm: Spec,
    /// The parts and times.
    pub parts: Parts,
}

/// A FLOW cut where its parts begin.
struct Words<'a> {
    /// `N*`, or nothing.
    count: &'a str,
    head: &'a str,
    parts: Vec<&'a str>,
    /// The text from the `@` on, or nothing.
    times: &'a str,
}

impl<'a> Words<'a> {
    fn of(text: &'a str) -> Self {
        let (count, rest) = text.split_at(text.find('*').map_or(0, |at| at + 1));
        let (rest, times) = rest.split_at(rest.find('@').unwrap_or(rest.len()));
        let (head, parts) = parts_of(rest);
        Self {
            count,
            head,
            parts: parts.collect(),
            times,
        }
    }

    /// The same flow with another head, and only some of its parts.
    fn with(&self, head: &str, keep: impl Fn(&str) -> bool) -> String {
        let parts = self.parts.iter().filter(|part| keep(part));
        let parts: String = parts.map(|part| format!("/{part}")).collect();
        format!("{}{head}{parts}{}", self.count, self.times)
    }
}

impl FlowText {
    /// Reads FLOW+FLOW: a plus begins a flow where a name or `N*` follows.
    ///
    /// # Errors
    /// [`FlowError`] with what would be right.
    pub fn all(text: &str) -> Result<Vec<Self>, FlowError> {
        let is_count = |text: &str| {
            let digits = text.bytes().take_while(u8::is_ascii_digit).count();
            digits > 0 && text[digits..].starts_with('*')
        };
        let mut flows = Vec::new();
        let mut from = 0;
        for (at, _) in text.match_indices('+') {
            let rest = &text[at + 1..];
            if let Some(value) = rest.strip_prefix("lowat")
                && (value.is_empty() || value.starts_with(['=', '+', '@']))
            {
                let usual = if value.starts_with('=') {
                    ""
                } else {
                    "=16384B"
                };
                return Err(FlowError::Renamed {
                    flow: text.to_owned(),
                    now: format!("{}/lowat{usual}{value}", &text[..at]),
                });
            }
            if rest.starts_with(|c: char| c.is_ascii_alphabetic()) || is_count(rest) {
                flows.push(&text[from..at]);
                from = at + 1;
            }
        }
        flows.push(&text[from..]);
        flows.into_iter().map(Self::read).collect()
    }

    fn read(text: &str) -> Result<Self, FlowError> {
        let words = Words::of(text);
        let count = match words.count.strip_suffix('*') {
            None => 1,
            Some(number) => {
                let count = number.parse().ok().filter(|n| (1..=10_000).contains(n));
                count.ok_or_else(|| FlowError::Count {
                    flow: text.to_owned(),
                    found: number.to_owned(),
                })?
            }
        };
        let algorithm = words.head.parse().map_err(|source| FlowError::Algorithm {
            flow: text.to_owned(),
            source: Box::new(source),
        })?;
        let mut flow = Self {
            text: text.to_owned(),
            count,
            algorithm,
            parts: Parts::default(),
        };
        for part in words.parts {
            let read = flow.parts.part(part);
            read.map_err(|want| flow.wrong(part, want))?;
        }
        if let Some(times) = words.times.strip_prefix('@') {
            let read = flow.parts.times(times);
            read.map_err(|want| flow.wrong(words.times, want))?;
        }
        flow.check_ways()?;
        Ok(flow)
    }

    /// Checks that the transport is given only once, and that the parts match it.
    fn check_ways(&self) -> Result<(), FlowError> {
        let parts = &self.parts;
        if let Some(by) = parts.transport {
            let part = format!("transport={}", by.name);
            if by.is_above_tcp && parts.over.is_none() {
                return Err(self.wrong(&part, "it runs over TCP: add over=, such as over=cubic"));
            }
            if !by.is_above_tcp && parts.over.is_some() {
                return Err(self.wrong(&part, "it does not run over TCP: leave over= out"));
            }
            if parts.host.is_some() {
                return Err(self.wrong("host=", "the transport has its own rules: leave it out"));
            }
        }
        if parts.carrier.is_some() && parts.transport.is_none_or(|by| by.name != "in-band") {
            let want = "it is of transport=in-band: give that, or leave it out";
            // An earlier spelling is answered as a whole.
            return match self.renamed() {
                Some(_) => Ok(()),
                None => Err(self.wrong("carrier=", want)),
            };
        }
        if parts.in_kernel && (parts.over.is_some() || parts.transport.is_some()) {
            let want = "the kernel keeps the window itself: leave over= and transport= out";
            return Err(self.wrong("enforce=bpf", want));
        }
        Ok(())
    }

    pub(super) fn wrong(&self, found: &str, want: impl Into<String>) -> FlowError {
        FlowError::Part {
            flow: self.text.clone(),
            found: found.to_owned(),
            want: want.into(),
        }
    }

    /// The values of its algorithms' options: some of them name files.
    pub fn values(&self) -> impl Iterator<Item = &str> {
        let all = self.algorithm.options.iter();
        let below = self.parts.over.iter().flat_map(|spec| &spec.options);
        all.chain(below).map(|(_, value)| value.as_str())
    }

    /// Number of flows: a pair is two.
    pub fn flows(&self) -> u64 {
        self.count * if self.parts.both { 2 } else { 1 }
    }

    /// Name in rows: `alcc-verus:r=4` for `verus:r=4/over=cubic`.
    pub fn label(&self) -> String {
        let Parts {
            over,
            transport,
            in_kernel,
            ..
        } = &self.parts;
        let above = if over.is_some() || *in_kernel {
            "alcc-"
        } else {
            ""
        };
        let mut head = self.algorithm.clone();
        let suffix = transport.map_or("", |by| by.suffix);
        head.name = format!("{above}{}{suffix}", head.name);
        Words::of(&self.text).with(&head.to_string(), |part| {
            part != "over=cubic" && !part.starts_with("transport=")
        })
    }

    /// The same in today's words, if it is written as [`label`](Self::label) says it: so
    /// comparisons were typed once.
    pub fn renamed(&self) -> Option<String> {
        let name = &self.algorithm.name;
        let ours = name.strip_prefix("alcc-");
        let bare = ours.unwrap_or(name);
        let by = (TRANSPORTS.iter()).find_map(|by| Some((bare.strip_suffix(by.suffix)?, by)));
        ours.or_else(|| by.map(|by| by.0))?;
        let mut head = self.algorithm.clone();
        by.map_or(bare, |by| by.0).clone_into(&mut head.name);
        let mut head = head.to_string();
        let above = by.map_or_else(|| ours.is_some(), |by| by.1.is_above_tcp);
        if above && self.parts.over.is_none() && !self.parts.in_kernel {
            head += "/over=cubic";
        }
        if let Some((_, by)) = by {
            head += &format!("/transport={}", by.name);
        }
        Some(Words::of(&self.text).with(&head, |_| true))
    }

    /// The error for an algorithm that cannot be built.
    pub fn unbuilt(&self, why: SpecError) -> FlowError {
        let flow = self.text.clone();
        match self.renamed() {
            Some(now) => FlowError::Renamed { flow, now },
            None => FlowError::Algorithm {
                flow,
                source: Box::new(why),
            },
        }
    }

    /// Sending times and IP bytes of datagrams at a constant rate.
    ///
    /// # Errors
    /// [`FlowError`] with what would be right.
    pub fn constant(&self) -> Result<Option<(Source, Bytes)>, FlowError> {
        if self.algorithm.name != "udp" {
            return Ok(None);
        }
        let mut source = self.parts.source;
        let packet = udp(&self.algorithm, &mut source).map_err(|why| self.unbuilt(why))?;
        Ok(Some((source, packet)))
    }

    /// The rules of its hosts: those asked for, or those of the stack that the algorithm was made
    /// for.
    pub fn rules(&self, spec: &Spec, needs: &Needs) -> Rules {
        let by = self.parts.transport.and_then(|by| by.simulated.ok());
        let asked = self.parts.host.or_else(|| Rules::named(by?));
        rules(spec, needs, asked)
    }

    /// The flows for the simulator.
    ///
    /// # Errors
    /// [`FlowError`] with what would be right, also for what only real programs have.
    pub fn build(&self, registry: &Registry, timing: Timing) -> Result<Vec<FlowSpec>, FlowError> {
        let backs: &[bool] = if self.parts.both {
            &[false, true]
        } else {
            &[false]
        };
        let flows = (0..self.count)
            .flat_map(|number| backs.iter().map(move |back| (number, *back)))
            .map(|(number, back)| self.flow(number, back, registry, timing))
            .collect::<Result<Vec<_>, _>>()?;
        // All are alike.
        flows.first().map_or(Ok(()), |one| self.check(one))?;
        Ok(flows)
    }

    /// Sees that the parts go together; `one` is one of the flows.
    fn check(&self, one: &FlowSpec) -> Result<(), FlowError> {
        let options = &self.parts;
        if let Some(by) = options.transport
            && let Err(why) = by.simulated
        {
            return Err(self.wrong(&format!("transport={}", by.name), why));
        }
        if options.in_kernel {
            let want = format!(
                "the simulator has no window set by a program: its counterpart is {} alone",
                self.algorithm
            );
            return Err(self.wrong("enforce=bpf", want));
        }
        let stack = [
            (options.over.is_some(), "over="),
            (options.host.is_some(), "host="),
            (options.transport.is_some(), "transport="),
        ];
        if matches!(one.under, Under::Udp { .. })
            && let Some((_, part)) = stack.into_iter().find(|(is_given, _)| *is_given)
        {
            let want = "datagrams of a constant rate have no TCP: leave it out";
            return Err(self.wrong(part, want));
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
    fn flow(
        &self,
        number: u64,
        back: bool,
        registry: &Registry,
        timing: Timing,
    ) -> Result<FlowSpec, FlowError> {
        let options = &self.parts;
        let (controller, under, source) = match self.constant()? {
            Some((source, packet)) => {
                let idle = idle(registry).map_err(|why| self.unbuilt(why))?;
                (idle, Under::Udp { packet }, source)
            }
            None => {
                let (controller, under) = self
                    .sender(registry, timing)
                    .map_err(|why| self.unbuilt(why))?;
                (controller, under, options.source)
            }
        };
        Ok(FlowSpec {
            algorithm: self.algorithm.name.clone(),
            options: self.algorithm.options_text(),
            text: self.text.clone(),
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

    fn sender(&self, registry: &Registry, timing: Timing) -> Result<(Instance, Under), SpecError> {
        let controller = registry.build(&self.algorithm)?;
        let under = match &self.parts.over {
            None => Under::Native(
                self.parts
                    .buffers(self.rules(&self.algorithm, &controller.needs())),
            ),
            Some(below) => {
                let below_it = registry.build(below)?;
                let rules = self.rules(below, &below_it.needs());
                let rules = if rules.is_stream() { rules } else { LINUX };
                Under::Tcp(Kernel {
                    name: below.name.clone(),
                    controller: below_it,
                    rules: self.parts.buffers(rules),
                    timing,
                })
            }
        };
        Ok((controller, under))
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
