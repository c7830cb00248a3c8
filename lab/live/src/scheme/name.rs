// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads a scheme of one flow: `alcc-verus-inband:r=4/carrier=tls/over=reno`. Who sends comes first,
//! then the parts that both sides know.
use super::{IN_KERNEL, Scheme, Side, UNDER};
use crate::transports::TRANSPORTS;
use alcc_cc::{Registry, Spec};
use alcc_pipe::About;
use alcc_sim::{FlowSpec, Timing};
use alcc_units::Bytes;

/// The parts at the end of a scheme, as typed.
struct Parts<'a> {
    head: &'a str,
    over: Option<&'a str>,
    carrier: Option<&'a str>,
    lowat: Option<&'a str>,
    enforce: Option<&'a str>,
}

impl<'a> Parts<'a> {
    fn of(text: &'a str) -> Result<Self, String> {
        let mut parts = Self {
            head: text,
            over: None,
            carrier: None,
            lowat: None,
            enforce: None,
        };
        // From the end: what stands before may have slashes of its own.
        while let Some((head, last)) = parts.head.rsplit_once('/') {
            let (slot, value) = if let Some(value) = last.strip_prefix("over=") {
                (&mut parts.over, value)
            } else if let Some(value) = last.strip_prefix("carrier=") {
                (&mut parts.carrier, value)
            } else if let Some(value) = last.strip_prefix("lowat=") {
                (&mut parts.lowat, value)
            } else if let Some(value) = last.strip_prefix("enforce=") {
                (&mut parts.enforce, value)
            } else {
                break;
            };
            if value.is_empty() || slot.replace(value).is_some() {
                return Err(format!("'/{last}': write it once and with a value"));
            }
            parts.head = head;
        }
        Ok(parts)
    }
}

/// What a scheme's name says, as far as it can be said without the algorithms' options.
struct Name<'a> {
    text: &'a str,
    parts: Parts<'a>,
    /// It begins with `alcc-`.
    is_ours: bool,
    /// The algorithm with its options, without `alcc-`; and these apart.
    words: &'a str,
    algorithm: &'a str,
    options: &'a str,
    /// The registry has the algorithm under just this name.
    is_known: bool,
    /// The transport that the name ends with, and the name without it.
    by: Option<(&'a str, About)>,
}

impl<'a> Name<'a> {
    fn of(text: &'a str, registry: &Registry) -> Result<Self, String> {
        let parts = Parts::of(text)?;
        let ours = parts.head.strip_prefix("alcc-");
        let words = ours.unwrap_or(parts.head);
        let (algorithm, options) = words.split_once(':').unwrap_or((words, ""));
        let is_known = registry.iter().any(|a| a.name == algorithm);
        Ok(Self {
            text,
            is_ours: ours.is_some(),
            words,
            algorithm,
            options,
            is_known,
            by: TRANSPORTS.of_scheme(algorithm).filter(|_| !is_known),
            parts,
        })
    }

    fn transport(&self) -> Option<About> {
        self.by.map(|(_, transport)| transport)
    }

    fn is_above_tcp(&self) -> bool {
        self.transport()
            .map_or(self.is_ours, |transport| transport.is_above_tcp())
    }

    /// The kernel's algorithm, alone or underneath; empty where the kernel has none.
    fn kernel(&self) -> &'a str {
        match self.transport() {
            _ if self.is_above_tcp() => self.parts.over.unwrap_or(UNDER),
            Some(_) => "",
            None => self.parts.head,
        }
    }

    /// Parts that do not go with who sends, and what would be right.
    fn check_parts(&self, side: Side) -> Result<(), String> {
        let (text, transport) = (self.text, self.transport());
        if let Some((bare, transport)) = self.by
            && transport.is_above_tcp() != self.is_ours
        {
            return Err(if transport.is_above_tcp() {
                format!("what runs above TCP is called alcc-: write alcc-{text}")
            } else {
                format!(
                    "it does not run above TCP: write {bare}{}",
                    transport.suffix
                )
            });
        }
        if self.parts.carrier.is_some() && transport.is_none_or(|t| t.takes.carrier.is_err()) {
            return Err(
                "/carrier= is what in-band goes through: write alcc-A-inband/carrier=tls"
                    .to_owned(),
            );
        }
        if !self.is_above_tcp() && self.parts.over.is_some() {
            return Err(match transport {
                None => format!("what runs above TCP is called alcc-: write alcc-{text}"),
                Some(_) => "it does not run above TCP: leave /over= out".to_owned(),
            });
        }
        if let Some(how) = self.parts.enforce {
            let by_run = self.is_ours && transport.is_none();
            if how != "bpf" || !by_run || self.parts.over.is_some() {
                return Err(
                    "/enforce=bpf is of alcc-A without /over=: a window that 'alcc bpf load' keeps"
                        .to_owned(),
                );
            }
            if side == Side::Simulated {
                let words = self.words;
                return Err(format!(
                    "the simulator has no window that a program sets: its like is {words} alone"
                ));
            }
        }
        if self.parts.lowat.is_some() && self.kernel().is_empty() {
            return Err("/lowat= is a setting of TCP: leave it out".to_owned());
        }
        Ok(())
    }

    fn notsent_lowat(&self) -> Result<Option<Bytes>, String> {
        let lowat = self.parts.lowat.map(str::parse).transpose();
        lowat.map_err(|e: alcc_units::UnitError| format!("/lowat=: {e}"))
    }

    /// Our algorithm, built once so that wrong options are found; `None` for one that is alone.
    fn controlled(&self, registry: &Registry, side: Side) -> Result<Option<Spec>, String> {
        let build = |words: &str| -> Result<Spec, String> {
            let spec: Spec = words
                .parse()
                .map_err(|e: alcc_cc::SpecError| e.to_string())?;
            registry.build(&spec).map_err(|e| e.to_string())?;
            Ok(spec)
        };
        let head = self.parts.head;
        match (self.by, side) {
            (Some((bare, _)), _) => build(&self.words.replacen(self.algorithm, bare, 1)).map(Some),
            (None, _) if self.is_ours => build(self.words).map(Some),
            (None, Side::Simulated) => {
                // What follows a `/` (host=linux-3.16, dir=both) is the simulator's to read.
                build(head.split('/').next().unwrap_or(head)).map(|_| None)
            }
            (None, Side::Emulated) => {
                let is_kernels = IN_KERNEL.contains(&self.algorithm);
                if self.is_known && (!self.options.is_empty() || !is_kernels) {
                    let (name, options) = head.split_at(self.algorithm.len());
                    return Err(format!(
                        "alone it runs in the simulator (alcc-lab compare --sim); over the kernel's TCP it is alcc-{head}, over datagrams {name}-udp{options}"
                    ));
                }
                Ok(None)
            }
        }
    }

    fn check_kernel(&self, side: Side) -> Result<(), String> {
        let kernel = self.kernel();
        let is_word =
            |w: &str| !w.is_empty() && w.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let by_kernel = self.is_above_tcp() || (self.by.is_none() && side == Side::Emulated);
        if !by_kernel || is_word(kernel) {
            return Ok(());
        }
        Err(if self.is_ours {
            format!("'{kernel}' is not a congestion control of the kernel")
        } else {
            "write a congestion control of the kernel (cubic), alcc-A (alcc-verus:r=4, alcc-copa/over=reno), alcc-A-inband, alcc-A-tcp, A-udp or A-quic".to_owned()
        })
    }

    /// The same as a FLOW of the simulator; `None` where it has nothing like it.
    fn flow(&self, controlled: Option<&Spec>, side: Side) -> Result<Option<String>, String> {
        let simulated = self.transport().map(|t| t.simulated);
        let flow = match (controlled, simulated) {
            (Some(spec), Some(Ok(parts))) => format!("{spec}{parts}"),
            (_, Some(Err(why))) if side == Side::Simulated => {
                return Err(format!("the simulator cannot do that: {why}"));
            }
            (_, Some(_)) => return Ok(None),
            (Some(_), None) if self.parts.enforce.is_some() => return Ok(None),
            (Some(spec), None) => format!("{spec}/over={}", self.kernel()),
            (None, None) => self.parts.head.to_owned(),
        };
        Ok(Some(match self.parts.lowat {
            Some(lowat) => format!("{flow}/lowat={lowat}"),
            None => flow,
        }))
    }
}

/// Reads one scheme of one flow for one side; otherwise what would be right.
pub(super) fn read(text: &str, registry: &Registry, side: Side) -> Result<Scheme, String> {
    let name = Name::of(text, registry)?;
    name.check_parts(side)?;
    let notsent_lowat = name.notsent_lowat()?;
    let controlled = name.controlled(registry, side)?;
    name.check_kernel(side)?;
    let flow = name.flow(controlled.as_ref(), side)?;
    if side == Side::Simulated {
        let flow = flow.as_deref().unwrap_or_default();
        FlowSpec::parse(flow, registry, Timing::default()).map_err(|e| e.to_string())?;
    }
    Ok(Scheme {
        name: text.to_owned(),
        constant: None,
        controlled,
        transport: name.transport(),
        carrier: name.parts.carrier.map(str::to_owned),
        kernel: name.kernel().to_owned(),
        enforce: name.parts.enforce.map(str::to_owned),
        notsent_lowat,
        flows: flow.into_iter().collect(),
        is_crowd: false,
    })
}
