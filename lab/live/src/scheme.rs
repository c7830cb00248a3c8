// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A scheme of a comparison: a form of sending. FLOW ([`alcc_sim::FLOW_HELP`]) describes it; this
//! module chooses the real programs for it.
use crate::LabError;
use crate::link::Link;
use crate::transports::TRANSPORTS;
use alcc_cc::{Registry, Spec};
use alcc_pipe::About;
use alcc_results::Row;
use alcc_results::scenario::parts;
use alcc_sim::{FlowError, FlowSpec, FlowText, Scenario, Source, Timing};
use alcc_units::{Bytes, Span, Time};
use std::path::PathBuf;
use std::str::FromStr;

/// The side on which a scheme runs. The same words mean the same on both sides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Real programs and the kernel's TCP on emulated links.
    Emulated,
    /// The simulator.
    Simulated,
}

/// A way to send: `cubic`, `verus:r=4/over=cubic`, `verus/transport=udp`. Several flows over one
/// link are a scheme, too: `6*budget/stagger=103.3ms`, `budget+cubic@10s`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scheme {
    /// The row's name: [`FlowText::label`].
    pub name: String,
    /// Datagrams at a constant rate, without an algorithm.
    pub constant: Option<Constant>,
    /// Our algorithm, in an unmodified program or by a transport; `None` for the kernel's alone.
    pub controlled: Option<Spec>,
    /// Transport between two programs of this project. `None`: an unmodified program sends.
    pub transport: Option<About>,
    /// Carrier of the transport: `tls`; `None`: its default.
    pub carrier: Option<String>,
    /// The kernel's algorithm, alone or underneath; empty where the kernel has none.
    pub kernel: String,
    /// Enforcement that the scheme asks of `alcc run`: `bpf`. `None`: as it would be under a
    /// kernel's algorithm that is named.
    pub enforce: Option<String>,
    /// `tcp_notsent_lowat` of the sending host; `None`: the kernel's default.
    pub notsent_lowat: Option<Bytes>,
    /// The flows as text, for the simulator; empty if it has no counterpart.
    pub flows: Vec<String>,
    /// True for several flows over one link; the FLOWs then define the senders.
    pub is_crowd: bool,
    /// The files that options of its algorithms name.
    pub files: Vec<PathBuf>,
}

/// Datagrams at a constant rate: what `udp:...` is on the emulated side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Constant {
    /// Sending times of the datagrams.
    pub source: Source,
    /// IP bytes of each.
    pub packet: Bytes,
}

/// The window that `alcc bpf load` keeps replaces this one: the kernel default nearly everywhere.
const UNDER: &str = "cubic";

const ONLY_LINUX: &str = "the real kernel is today's Linux: leave host= and options out";

/// Algorithms of this project that are also the kernel's. Their bare names mean plain TCP.
pub(crate) const IN_KERNEL: [&str; 6] = ["reno", "cubic", "bic", "westwood", "vegas", "bbr"];

impl FromStr for Scheme {
    type Err = LabError;

    fn from_str(text: &str) -> Result<Self, LabError> {
        Self::parse(text, &alcc_zoo::registry(), Side::Emulated)
    }
}

impl Scheme {
    /// The forms of these algorithms that belong beside each other. They are over datagrams, and
    /// in-band over TCP and TLS. Another is over TCP with this algorithm of the kernel in an
    /// unmodified program.
    pub fn forms<'a>(algorithms: impl IntoIterator<Item = &'a str>, under: &str) -> String {
        let forms = |a: &str| {
            let tcp = format!("{a}/over={under}");
            let inband = format!("{tcp}/transport=in-band");
            format!("{a}/transport=udp,{tcp},{inband},{inband}/carrier=tls")
        };
        let all: Vec<String> = algorithms.into_iter().map(forms).collect();
        all.join(",")
    }

    /// Reads FLOW or FLOW+FLOW for one side, with the algorithms of `registry`.
    ///
    /// # Errors
    /// [`LabError::Flow`] with what would be right; [`LabError::Twin`] for what this side cannot do.
    pub fn parse(text: &str, registry: &Registry, side: Side) -> Result<Self, LabError> {
        let flows = FlowText::all(text)?;
        let is_crowd = flows.len() > 1 || text.contains('*');
        if is_crowd || side == Side::Simulated {
            for flow in &flows {
                flow.build(registry, Timing::default())?;
            }
        }
        let [flow] = &flows[..] else {
            return Ok(Self::named(&flows, true));
        };
        let parts = &flow.parts;
        if is_crowd || side == Side::Simulated {
            let is_ours = !is_crowd && (parts.over.is_some() || parts.transport.is_some());
            return Ok(Self {
                controlled: is_ours.then(|| flow.algorithm.clone()),
                transport: about(flow).filter(|_| is_ours),
                ..Self::named(&flows, is_crowd)
            });
        }
        if parts.rtt.is_some() {
            return Err(cannot(
                flow,
                "a round trip of its own",
                "give --rtt instead",
            ));
        }
        if parts.start > Time::ZERO || parts.stop.is_some() || parts.length.is_some() {
            let instead = "it has the whole window: leave the times out, or add another flow";
            return Err(cannot(
                flow,
                "a single flow for a part of the time",
                instead,
            ));
        }
        Self::real(flow, registry)
    }

    /// The real programs of one flow.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub(crate) fn real(flow: &FlowText, registry: &Registry) -> Result<Self, LabError> {
        let (parts, algorithm) = (&flow.parts, &flow.algorithm);
        for (is_given, what, instead) in [
            (parts.both, "dir=both", "real downloads go down"),
            (
                parts.dir != Default::default(),
                "dir=up",
                "real downloads go down",
            ),
            (
                parts.share.is_some(),
                "share=",
                "real programs do not share an allowance yet: leave it out",
            ),
            (
                parts.tunnel.is_some(),
                "tunnel=",
                "real programs have no tunnel here: leave it out, or see the experiment app-vpn",
            ),
        ] {
            if is_given {
                return Err(cannot(flow, what, instead));
            }
        }
        let named = Self::named(std::slice::from_ref(flow), false);
        if let Some((source, packet)) = flow.constant()? {
            let constant = Some(Constant { source, packet });
            return Ok(Self { constant, ..named });
        }
        if parts.source != Source::default() {
            let instead = "a real download is without end: leave it out";
            return Err(cannot(flow, "size=, app= or on=", instead));
        }
        let is_known = registry.iter().any(|known| known.name == algorithm.name);
        let is_ours = parts.over.is_some() || parts.transport.is_some() || parts.in_kernel;
        let is_kernels = IN_KERNEL.contains(&algorithm.name.as_str()) || !is_known;
        let kernels = |spec: &Spec| {
            let is_linux = parts.host.is_none_or(|host| host.name == "linux");
            let is_plain = ["", "profile=linux"].contains(&spec.options_text().as_str());
            match is_linux && is_plain {
                true => Ok(spec.name.clone()),
                false => Err(cannot(flow, "another kernel than this one's", ONLY_LINUX)),
            }
        };
        if !is_ours && is_kernels {
            if let (false, Some(now)) = (is_known, flow.renamed()) {
                let flow = flow.text.clone();
                return Err(FlowError::Renamed { flow, now }.into());
            }
            let kernel = kernels(algorithm)?;
            return Ok(Self { kernel, ..named });
        }
        let controller = registry.build(algorithm).map_err(|why| flow.unbuilt(why))?;
        let mut transport = about(flow);
        let kernel = match &parts.over {
            Some(over) => kernels(over)?,
            None if parts.in_kernel => UNDER.to_owned(),
            None => String::new(),
        };
        if !is_ours {
            if flow.rules(algorithm, &controller.needs()).is_stream() {
                let instead = "over datagrams it is /transport=udp, over TCP /over=cubic";
                return Err(cannot(flow, "a TCP without a kernel", instead));
            }
            transport = TRANSPORTS.rows().next();
        }
        if kernel.is_empty() && parts.notsent_lowat.is_some() {
            return Err(cannot(
                flow,
                "lowat=",
                "it is a setting of TCP: leave it out",
            ));
        }
        Ok(Self {
            controlled: Some(algorithm.clone()),
            transport,
            kernel,
            ..named
        })
    }

    /// The parts of a scheme that its text alone determines.
    fn named(flows: &[FlowText], is_crowd: bool) -> Self {
        let names: Vec<String> = flows.iter().map(FlowText::label).collect();
        let has_twin = |flow: &&FlowText| {
            let by = flow.parts.transport;
            by.is_none_or(|by| by.simulated.is_ok()) && !flow.parts.in_kernel
        };
        let simulated = flows.iter().filter(has_twin);
        let one = flows.first().filter(|_| !is_crowd).map(|flow| &flow.parts);
        Self {
            name: names.join("+"),
            constant: None,
            controlled: None,
            transport: None,
            carrier: one.and_then(|parts| parts.carrier.clone()),
            kernel: String::new(),
            enforce: one.and_then(|parts| parts.in_kernel.then(|| "bpf".to_owned())),
            notsent_lowat: one.and_then(|parts| parts.notsent_lowat),
            flows: simulated.map(|flow| flow.text.clone()).collect(),
            is_crowd,
            files: named_files(flows),
        }
    }

    /// Its flows over a link in the simulator.
    ///
    /// # Errors
    /// [`LabError::Flow`] if `registry` is not the one with which it was read.
    pub(crate) fn scenario(
        &self,
        link: &Link,
        duration: Span,
        registry: &Registry,
    ) -> Result<Scenario, LabError> {
        let path = link.path.clone();
        Ok(Scenario {
            flows: FlowSpec::parse(&self.flows.join("+"), registry, Timing::default())?,
            duration,
            seed: path.seed,
            ..Scenario::one_link(path.down, path.up)
        })
    }

    /// It sends packets of its own, without TCP: what the forms over TCP of the same algorithm are
    /// measured against.
    pub fn is_native(&self) -> bool {
        self.transport.is_some_and(|t| !t.is_above_tcp())
    }

    /// The other is the same algorithm of this project with the same options, whatever carries it.
    pub fn same_algorithm(&self, other: &Self) -> bool {
        self.controlled.is_some() && self.controlled == other.controlled
    }

    /// Reads `cubic,verus:r=4,profile=paper/over=cubic,bbr` for all of `sides`.
    ///
    /// # Errors
    /// As [`parse`](Self::parse) for the first that is wrong; [`LabError::Scheme`] if there is none
    /// at all or one twice.
    pub fn list(text: &str, registry: &Registry, sides: &[Side]) -> Result<Vec<Self>, LabError> {
        let mut all: Vec<Self> = Vec::new();
        let typed = parts(text, "scheme").map_err(|why| LabError::Scheme {
            scheme: text.to_owned(),
            why,
        })?;
        for part in typed {
            let mut read = sides.iter().map(|side| Self::parse(&part, registry, *side));
            let first = read.next().unwrap_or_else(|| part.parse())?;
            // Schemes without a form in the simulator have no simulated counterpart.
            if !first.flows.is_empty() {
                read.try_for_each(|other| other.map(drop))?;
            }
            all.push(first);
        }
        Self::differ(&all)?;
        Ok(all)
    }

    /// Checks that all names differ.
    ///
    /// # Errors
    /// [`LabError::Scheme`] for one that is there twice.
    pub fn differ(all: &[Self]) -> Result<(), LabError> {
        let twice =
            |(n, one): &(usize, &Self)| all[..*n].iter().any(|other| other.name == one.name);
        match all.iter().enumerate().find(twice) {
            None => Ok(()),
            Some((_, one)) => Err(one.unfit("is given twice; 'alcc-lab compare --runs N' repeats")),
        }
    }

    /// The kernel's congestion control, alone or below ours; `None` if none is given.
    pub fn kernel(&self) -> Option<&str> {
        Some(self.kernel.as_str()).filter(|kernel| !kernel.is_empty())
    }

    /// Checks that this kernel has the congestion control.
    ///
    /// # Errors
    /// [`LabError::Run`] with what helps.
    pub(crate) fn check_kernel(&self) -> Result<(), LabError> {
        let Some(kernel) = self.kernel() else {
            return Ok(());
        };
        alcc_pipe::check_under(kernel).map_err(|_| self.failed(format!(
            "the kernel has no {kernel}: load its module (modprobe tcp_{kernel}), or boot a kernel built with CONFIG_TCP_CONG_{}; 'alcc bpf load' adds some of them",
            kernel.to_uppercase()
        )))
    }

    /// The error of a run of this scheme.
    pub(crate) fn failed(&self, why: impl Into<String>) -> LabError {
        LabError::Run {
            scheme: self.name.clone(),
            why: why.into(),
        }
    }

    /// The error for a scheme that cannot do what is asked of it.
    pub(crate) fn unfit(&self, why: impl Into<String>) -> LabError {
        LabError::Scheme {
            scheme: self.name.clone(),
            why: why.into(),
        }
    }

    /// The row of a run that failed.
    pub(crate) fn failed_row(&self, link: &Link, duration: Span, run: u32, why: String) -> Row {
        let mut row = link.row(duration, run);
        self.describe(&mut row);
        row.error = Some(why);
        row
    }

    /// Fills in the row's fields that the scheme alone decides. In a preloaded program, feedback
    /// and enforcement come from the runtime's own report. A transport may use others than its
    /// usual ones.
    pub(crate) fn describe(&self, row: &mut Row) {
        row.scheme.clone_from(&self.name);
        if self.constant.is_some() {
            "udp".clone_into(&mut row.algorithm);
            row.profile = Some("default".to_owned());
            "none".clone_into(&mut row.feedback);
            "none".clone_into(&mut row.enforcement);
        } else if let Some(spec) = &self.controlled {
            row.algorithm.clone_from(&spec.name);
            row.options = spec.options_text();
            row.profile = Some(alcc_results::row::profile(&row.algorithm, &row.options));
            row.under = self.kernel().map(str::to_owned);
            if let Some(transport) = self.transport {
                transport.feedback.clone_into(&mut row.feedback);
                transport.enforcement.clone_into(&mut row.enforcement);
            }
        } else {
            row.algorithm.clone_from(&self.kernel);
            row.profile = Some("kernel".to_owned());
            row.feedback = "kernel".to_owned();
            row.enforcement = "kernel".to_owned();
        }
    }
}

/// The files that options of these flows' algorithms name. Only an algorithm knows which of its
/// options do, and one of a plug-in reads them itself: any value that is a file counts.
pub fn named_files(flows: &[FlowText]) -> Vec<PathBuf> {
    let values = flows.iter().flat_map(FlowText::values).map(PathBuf::from);
    values.filter(|path| path.is_file()).collect()
}

/// The transport of the flow, if it is given.
fn about(flow: &FlowText) -> Option<About> {
    let by = flow.parts.transport?;
    TRANSPORTS.rows().find(|row| row.name == by.name)
}

/// The error for what real programs cannot do.
pub(crate) fn cannot(flow: &FlowText, what: &str, instead: &str) -> LabError {
    LabError::Twin {
        what: format!("{what} (flow {})", flow.text),
        instead: instead.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, side: Side) -> Result<Scheme, String> {
        Scheme::parse(text, &alcc_zoo::registry(), side).map_err(|e| e.to_string())
    }

    fn real(text: &str) -> Scheme {
        read(text, Side::Emulated).unwrap()
    }

    #[test]
    fn what_the_kernel_lacks_is_named_with_what_helps() {
        let mut scheme = real("verus/over=bic");
        scheme.kernel = "nosuch".to_owned();
        let error = scheme.check_kernel().unwrap_err().to_string();
        assert!(
            error.ends_with("the kernel has no nosuch: load its module (modprobe tcp_nosuch), or boot a kernel built with CONFIG_TCP_CONG_NOSUCH; 'alcc bpf load' adds some of them"),
            "{error}"
        );
        scheme.kernel = "reno".to_owned();
        scheme.check_kernel().unwrap();
    }

    #[test]
    fn between_two_programs_of_ours() {
        let spec = |s: &Scheme| s.controlled.as_ref().unwrap().to_string();
        let native = real("verus:r=4/transport=udp");
        assert_eq!(spec(&native), "verus:r=4");
        assert_eq!((native.kernel.as_str(), native.is_native()), ("", true));
        let mut row = Row::default();
        native.describe(&mut row);
        let triple = [&row.algorithm, &row.feedback, &row.enforcement].map(String::as_str);
        assert_eq!((triple, row.under), (["verus", "udp", "native"], None));
        assert_eq!(row.scheme, "verus-udp:r=4");
        let tls = real("verus:r=4/over=reno/transport=in-band/carrier=tls");
        assert_eq!(tls.carrier.as_deref(), Some("tls"));
        assert_eq!((tls.kernel.as_str(), tls.is_native()), ("reno", false));
        assert_eq!(tls.transport.unwrap().name, "in-band");
        assert!(native.same_algorithm(&tls));
        assert!(native.same_algorithm(&real("verus:r=4/over=cubic")));
        assert!(!native.same_algorithm(&real("verus/over=cubic")));
        assert!(!real("cubic").same_algorithm(&real("cubic")));
        // Alone it sends datagrams, as in the simulator.
        assert_eq!(real("verus:r=4").transport, native.transport);
        for (text, side, part) in [
            ("nonsense/transport=udp", Side::Emulated, "nonsense"),
            ("verus/host=linux", Side::Emulated, "/transport=udp"),
            ("verus/lowat=16kB", Side::Emulated, "a setting of TCP"),
            ("verus@5s", Side::Emulated, "add another flow"),
            ("verus/rtt=80ms", Side::Emulated, "--rtt"),
            ("cubic/dir=up", Side::Emulated, "dir=up"),
            ("cubic:profile=linux-3.16", Side::Emulated, "today's Linux"),
            ("verus/over=reno:gain=2", Side::Emulated, "today's Linux"),
            ("verus/transport=quic", Side::Simulated, "transport=udp is"),
        ] {
            let error = read(text, side).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn plain_and_controlled() {
        let plain = real("bbr/lowat=32kB");
        assert_eq!((plain.controlled, plain.kernel.as_str()), (None, "bbr"));
        assert_eq!(plain.notsent_lowat, Some(Bytes::new(32_000)));
        assert_eq!(real("nosuch").kernel, "nosuch", "perhaps it has it");
        let mut row = Row::default();
        real("fixed:window=20/over=reno").describe(&mut row);
        assert_eq!(row.scheme, "alcc-fixed:window=20/over=reno");
        assert_eq!(
            (row.algorithm.as_str(), row.options.as_str()),
            ("fixed", "window=20")
        );
        assert_eq!(row.under.as_deref(), Some("reno"));
        let window = real("copa/enforce=bpf");
        assert_eq!(window.enforce.as_deref(), Some("bpf"));
        assert!(window.flows.is_empty());
    }

    #[test]
    fn a_list_knows_options_from_schemes() {
        let both = [Side::Emulated, Side::Simulated];
        let list = |text: &str, sides: &[Side]| {
            let all = Scheme::list(text, &alcc_zoo::registry(), sides);
            all.map_err(|e| e.to_string())
        };
        let text = "cubic,fixed:window=20/over=cubic, fixed:window=random,every=1s/over=reno,bbr";
        let read = list(text, &both).unwrap();
        let names: Vec<_> = read.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "cubic",
                "alcc-fixed:window=20",
                "alcc-fixed:window=random,every=1s/over=reno",
                "bbr"
            ]
        );
        for (text, part) in [
            ("fixed:windw=2/over=cubic", "windw"),
            ("", "it is empty: write a scheme"),
            ("cubic,", "after the last comma"),
            ("cubic,cubic", "twice"),
            ("$(reboot)", "$(reboot)"),
            ("cubic,alcc-verus:r=4", "now written verus:r=4/over=cubic"),
            ("budget+nonsense", "flow 'nonsense': no algorithm"),
        ] {
            let error = list(text, &both).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
            assert!(!error.contains('\n'));
        }
    }

    #[test]
    fn several_flows_are_one_scheme() {
        let text = "budget+cubic@0s+240s+2*verus:r=4,profile=paper/rtt=50ms/over=cubic@5s";
        let crowd = read(text, Side::Simulated).unwrap();
        assert!(crowd.is_crowd);
        assert_eq!(crowd.kernel(), None);
        assert_eq!(crowd.flows.join("+"), text);
        assert_eq!(
            crowd.name,
            "budget+cubic@0s+240s+2*alcc-verus:r=4,profile=paper/rtt=50ms@5s"
        );
        assert!(read("6*budget", Side::Simulated).unwrap().is_crowd);
        assert!(!read("sprout/dir=both", Side::Simulated).unwrap().is_crowd);
    }
}
