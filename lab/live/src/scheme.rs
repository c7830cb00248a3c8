// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A way to send, as typed: what comparisons compare, and what runs them asks.
mod name;

use crate::LabError;
use crate::link::Link;
use crate::list;
use alcc_cc::{Registry, Spec};
use alcc_pipe::About;
use alcc_results::Row;
use alcc_sim::{FlowSpec, Source, Timing};
use alcc_units::{Bytes, Span};
use std::str::FromStr;

/// Where a scheme runs. The same words mean the same on both sides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Real programs and the kernel's TCP on emulated links.
    Emulated,
    /// The simulator.
    Simulated,
}

/// A way to send. Plain TCP is `cubic`, `bbr`, `reno`; any TCP with little unsent is `bbr+lowat`,
/// `bbr/lowat=32kB`. One of this project's algorithms above TCP in an unmodified program is
/// `alcc-verus`, `alcc-verus:r=4`, `alcc-copa/over=reno`. Between two of its own programs it is
/// `alcc-verus-inband`, `alcc-verus-inband/carrier=tls`. Without TCP it is `verus-udp`,
/// `verus-quic`. In the simulator it may be alone: `verus`, `copa:profile=original`. Several of
/// them over one link are a scheme, too: `6*budget/stagger=103.3ms`, `budget+cubic@10s`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scheme {
    /// As typed: the row's name.
    pub name: String,
    /// Datagrams at a constant rate, without an algorithm.
    pub constant: Option<Constant>,
    /// Our algorithm, in an unmodified program or by a transport; `None` for one that is alone.
    pub controlled: Option<Spec>,
    /// What it goes by between two programs of this project. `None`: an unmodified program sends.
    pub transport: Option<About>,
    /// What the transport goes through: `tls`; `None`: its plainest.
    pub carrier: Option<String>,
    /// The kernel's algorithm, alone or underneath; empty where the kernel has none.
    pub kernel: String,
    /// How `alcc run` keeps the limit, where the scheme says so: `bpf`. `None`: as it would under a
    /// kernel's algorithm that is named.
    pub enforce: Option<String>,
    /// `tcp_notsent_lowat` of the sending host; `None`: the kernel's default.
    pub notsent_lowat: Option<Bytes>,
    /// The same as FLOWs of the simulator: `verus:r=4/over=cubic`; none where it has nothing like
    /// it.
    pub flows: Vec<String>,
    /// Several flows over one link. Then only the FLOWs say who sends.
    pub is_crowd: bool,
}

/// Datagrams at a constant rate: what `udp:...` is on the emulated side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Constant {
    /// When they leave.
    pub source: Source,
    /// IP bytes of each.
    pub packet: Bytes,
}

/// What runs under a controlled connection unless the scheme says otherwise: the kernel default
/// nearly everywhere.
const UNDER: &str = "cubic";

/// The end of a TCP scheme's name that limits what is unsent, as new users are told to
/// (lab/notes/measurements.md).
const LOWAT: &str = "+lowat";
const LOWAT_BYTES: u64 = 16_384;

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
    /// in-band over TCP and TLS. Another is above TCP with this algorithm of the kernel in an
    /// unmodified program.
    pub fn forms<'a>(algorithms: impl IntoIterator<Item = &'a str>, under: &str) -> String {
        let over = if under == UNDER {
            String::new()
        } else {
            format!("/over={under}")
        };
        let forms = |a: &str| {
            format!(
                "{a}-udp,alcc-{a}{over},alcc-{a}-inband{over},alcc-{a}-inband/carrier=tls{over}"
            )
        };
        let all: Vec<String> = algorithms.into_iter().map(forms).collect();
        all.join(",")
    }

    /// Reads one scheme for one side, with the algorithms of `registry`.
    ///
    /// # Errors
    /// [`LabError::Scheme`] with what would be right.
    pub fn parse(text: &str, registry: &Registry, side: Side) -> Result<Self, LabError> {
        // Before the plus of several flows.
        if let Some(one) = text.strip_suffix(LOWAT) {
            let mut scheme = Self::parse(&format!("{one}/lowat={LOWAT_BYTES}B"), registry, side)?;
            text.clone_into(&mut scheme.name);
            return Ok(scheme);
        }
        if let Some(parts) = crowd_of(text) {
            return Self::crowd(text, &parts, registry);
        }
        name::read(text, registry, side).map_err(|why| LabError::Scheme {
            scheme: text.to_owned(),
            why,
        })
    }

    /// Datagrams at a constant rate.
    pub(crate) fn constant(name: String, source: Source, packet: Bytes) -> Self {
        Self {
            name,
            constant: Some(Constant { source, packet }),
            controlled: None,
            transport: None,
            carrier: None,
            kernel: String::new(),
            enforce: None,
            notsent_lowat: None,
            flows: Vec::new(),
            is_crowd: false,
        }
    }

    /// Reads the parts of a scheme of several flows.
    fn crowd(text: &str, parts: &[&str], registry: &Registry) -> Result<Self, LabError> {
        let read = |part: &&str| {
            let wrong = |why: String| LabError::Scheme {
                scheme: text.to_owned(),
                why: format!("part '{part}': {why}"),
            };
            let flow = flow_of(part).map_err(wrong)?;
            FlowSpec::parse(&flow, registry, Timing::default())
                .map_err(|e| wrong(e.to_string()))?;
            Ok(flow)
        };
        Ok(Self {
            name: text.to_owned(),
            constant: None,
            controlled: None,
            transport: None,
            carrier: None,
            kernel: String::new(),
            enforce: None,
            notsent_lowat: None,
            flows: parts.iter().map(read).collect::<Result<_, LabError>>()?,
            is_crowd: true,
        })
    }

    /// Its flows in the simulator.
    ///
    /// # Errors
    /// [`LabError::Scheme`] if `registry` is not the one with which it was read.
    pub(crate) fn flow_specs(&self, registry: &Registry) -> Result<Vec<FlowSpec>, LabError> {
        let mut flows = Vec::new();
        for flow in &self.flows {
            let read = FlowSpec::parse(flow, registry, Timing::default());
            flows.extend(read.map_err(|e| self.unfit(e.to_string()))?);
        }
        Ok(flows)
    }

    /// It sends packets of its own, without TCP: what the forms above TCP of the same algorithm are
    /// measured against.
    pub fn is_native(&self) -> bool {
        self.transport.is_some_and(|t| !t.is_above_tcp())
    }

    /// The other is the same algorithm of this project with the same options, whatever carries it.
    pub fn same_algorithm(&self, other: &Self) -> bool {
        self.controlled.is_some() && self.controlled == other.controlled
    }

    /// Reads `cubic,alcc-verus:r=4,profile=paper,bbr` for all of `sides`. A comma ends a scheme
    /// unless what follows it is `option=value`. A part that has an `=` before any `:` or `/`
    /// continues the options before it. No scheme begins like that.
    ///
    /// # Errors
    /// [`LabError::Scheme`] for the first that is none, or if there is none at all or one twice.
    pub fn list(text: &str, registry: &Registry, sides: &[Side]) -> Result<Vec<Self>, LabError> {
        let mut parts: Vec<String> = Vec::new();
        let typed = list::parts(text, "scheme").map_err(|why| LabError::Scheme {
            scheme: text.to_owned(),
            why,
        })?;
        for part in typed {
            let continues = part
                .split_once('=')
                .is_some_and(|(key, _)| !key.contains([':', '/']));
            match parts.last_mut() {
                Some(last) if continues => {
                    last.push(',');
                    last.push_str(part);
                }
                _ => parts.push(part.to_owned()),
            }
        }
        for (i, part) in parts.iter().enumerate() {
            if parts[..i].contains(part) {
                return Err(LabError::Scheme {
                    scheme: part.clone(),
                    why: "is given twice; 'alcc-lab compare --runs N' repeats".to_owned(),
                });
            }
        }
        let read = |part: &String| {
            let mut read = sides.iter().map(|side| Self::parse(part, registry, *side));
            let first = read.next().unwrap_or_else(|| part.parse())?;
            // What the simulator has nothing like has no twin.
            if !first.flows.is_empty() {
                read.try_for_each(|other| other.map(drop))?;
            }
            Ok(first)
        };
        parts.iter().map(read).collect()
    }

    /// The kernel's congestion control, alone or below ours; `None` where it is not asked for one.
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

/// The parts of a scheme of several flows: `6*budget`, `budget+2*cubic@0s+30s`. `None` if it is one
/// flow. A plus begins a part where a name or a number of flows follows.
fn crowd_of(text: &str) -> Option<Vec<&str>> {
    let is_count = |text: &str| {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        digits > 0 && text[digits..].starts_with('*')
    };
    let mut parts = Vec::new();
    let mut from = 0;
    for (at, _) in text.match_indices('+') {
        let rest = &text[at + 1..];
        if rest.starts_with(|c: char| c.is_ascii_alphabetic()) || is_count(rest) {
            parts.push(&text[from..at]);
            from = at + 1;
        }
    }
    parts.push(&text[from..]);
    (parts.len() > 1 || is_count(text)).then_some(parts)
}

/// A part of a crowd as a FLOW: `2*alcc-verus:r=4/rtt=50ms@5s` is
/// `2*verus:r=4/rtt=50ms/over=cubic@5s`.
fn flow_of(part: &str) -> Result<String, String> {
    let (count, rest) = match part.split_once('*') {
        Some((count, rest)) => (format!("{count}*"), rest),
        None => (String::new(), part),
    };
    let Some(ours) = rest.strip_prefix("alcc-") else {
        return if rest.contains("/over=") {
            Err(format!(
                "what runs above TCP is called alcc-: write {count}alcc-{rest}"
            ))
        } else {
            Ok(part.to_owned())
        };
    };
    if ours.contains("/over=") {
        return Ok(format!("{count}{ours}"));
    }
    let (words, times) = match ours.split_once('@') {
        Some((words, times)) => (words, format!("@{times}")),
        None => (ours, String::new()),
    };
    Ok(format!("{count}{words}/over={UNDER}{times}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_lacks_is_named_with_what_helps() {
        let mut scheme =
            Scheme::parse("alcc-verus/over=bic", &alcc_zoo::registry(), Side::Emulated);
        let scheme = scheme.as_mut().unwrap();
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
        let read = |text: &str, side| Scheme::parse(text, &alcc_zoo::registry(), side);
        let real = |text: &str| read(text, Side::Emulated).unwrap();
        let spec = |s: &Scheme| s.controlled.as_ref().unwrap().to_string();
        let native = real("verus-udp:r=4");
        assert_eq!(spec(&native), "verus:r=4");
        assert_eq!((native.kernel.as_str(), native.is_native()), ("", true));
        let mut row = Row::default();
        native.describe(&mut row);
        let triple = [&row.algorithm, &row.feedback, &row.enforcement].map(String::as_str);
        assert_eq!((triple, row.under), (["verus", "udp", "native"], None));
        let tls = real("alcc-verus-inband:r=4/carrier=tls/over=reno");
        assert_eq!(tls.carrier.as_deref(), Some("tls"));
        assert_eq!((tls.kernel.as_str(), tls.is_native()), ("reno", false));
        assert_eq!(tls.transport.unwrap().name, "in-band");
        assert!(native.same_algorithm(&tls) && native.same_algorithm(&real("alcc-verus:r=4")));
        assert!(!native.same_algorithm(&real("alcc-verus")));
        assert!(!real("cubic").same_algorithm(&real("cubic")));
        assert_eq!(spec(&real("alcc-sprout-ewma-inband")), "sprout-ewma");
        let simulated = read("verus-udp:r=4", Side::Simulated).unwrap();
        assert!(simulated.flows[0].starts_with("verus:r=4"));
        for (text, side, part) in [
            ("verus-inband", Side::Emulated, "write alcc-verus-inband"),
            ("alcc-verus-udp", Side::Emulated, "write verus-udp"),
            ("verus-udp/over=cubic", Side::Emulated, "leave /over= out"),
            ("verus-udp/carrier=tls", Side::Emulated, "/carrier="),
            ("alcc-verus/carrier=tls", Side::Emulated, "/carrier="),
            ("alcc-verus-inband/over=", Side::Emulated, "with a value"),
            ("alcc-verus-inband/over=a/over=b", Side::Emulated, "once"),
            ("alcc-nonsense-inband", Side::Emulated, "nonsense"),
            ("nonsense-udp", Side::Emulated, "nonsense"),
            ("verus", Side::Emulated, "verus-udp"),
            ("alcc-verus-inband", Side::Simulated, "alcc-A"),
            ("verus-quic", Side::Simulated, "A-udp"),
        ] {
            let error = read(text, side).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn plain_and_controlled() {
        let plain: Scheme = "bbr".parse().unwrap();
        assert_eq!((plain.controlled, plain.kernel.as_str()), (None, "bbr"));
        let ours: Scheme = "alcc-fixed:window=20/over=reno".parse().unwrap();
        let mut row = Row::default();
        ours.describe(&mut row);
        assert_eq!(row.scheme, "alcc-fixed:window=20/over=reno");
        assert_eq!(
            (row.algorithm.as_str(), row.options.as_str()),
            ("fixed", "window=20")
        );
        assert_eq!(row.under.as_deref(), Some("reno"));
    }

    #[test]
    fn a_window_in_the_kernel() {
        let read = |text: &str, side| Scheme::parse(text, &alcc_zoo::registry(), side);
        let rung = read("alcc-copa/enforce=bpf", Side::Emulated).unwrap();
        assert_eq!(rung.enforce.as_deref(), Some("bpf"));
        assert!(rung.flows.is_empty());
        for (text, side, part) in [
            (
                "alcc-copa/enforce=gate",
                Side::Emulated,
                "/enforce=bpf is of",
            ),
            (
                "alcc-copa/enforce=bpf/over=reno",
                Side::Emulated,
                "without /over=",
            ),
            ("copa-udp/enforce=bpf", Side::Emulated, "/enforce=bpf is of"),
            ("alcc-copa/enforce=bpf", Side::Simulated, "copa alone"),
        ] {
            let error = read(text, side).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn a_tcp_with_little_unsent() {
        let read = |text: &str, side| Scheme::parse(text, &alcc_zoo::registry(), side);
        let real = read("bbr+lowat", Side::Emulated).unwrap();
        assert_eq!(
            (real.name.as_str(), real.kernel.as_str()),
            ("bbr+lowat", "bbr")
        );
        assert_eq!(real.notsent_lowat, Some(Bytes::new(16_384)));
        assert!(!real.is_crowd);
        let simulated = read("bbr+lowat", Side::Simulated).unwrap();
        assert_eq!(simulated.flows, ["bbr/lowat=16384B"]);
        let ours = read("alcc-verus:r=4/lowat=32kB/over=reno", Side::Simulated).unwrap();
        assert_eq!(ours.flows, ["verus:r=4/over=reno/lowat=32kB"]);
        assert_eq!(ours.notsent_lowat, Some(Bytes::new(32_000)));
        for (text, side, part) in [
            ("verus-udp+lowat", Side::Emulated, "a setting of TCP"),
            ("bbr/lowat=no", Side::Emulated, "/lowat=:"),
            ("bbr/lowat=9B", Side::Simulated, "4096 bytes"),
            ("verus+lowat", Side::Simulated, "only a TCP has it"),
        ] {
            let error = read(text, side).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn a_list_knows_options_from_schemes() {
        let list = Scheme::list(
            "cubic,alcc-fixed:window=20, alcc-fixed:window=random,every=1s/over=reno,bbr",
            &alcc_zoo::registry(),
            &[Side::Emulated, Side::Simulated],
        )
        .unwrap();
        let names: Vec<_> = list.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "cubic",
                "alcc-fixed:window=20",
                "alcc-fixed:window=random,every=1s/over=reno",
                "bbr"
            ]
        );
    }

    #[test]
    fn mistakes_are_named() {
        for (text, part) in [
            ("alcc-", "not a name"),
            ("alcc-nonsense", "no algorithm 'nonsense'"),
            ("alcc-fixed:windw=2", "windw"),
            ("cubic/over=reno", "alcc-cubic/over=reno"),
            ("", "it is empty: write a scheme"),
            ("cubic,", "after the last comma"),
            ("cubic,cubic", "twice"),
            ("$(reboot)", "cubic"),
            ("verus:r=4", "over the kernel's TCP it is alcc-verus:r=4"),
            ("cubic,cubic:profile=linux", "--sim"),
        ] {
            let error = Scheme::list(text, &alcc_zoo::registry(), &[Side::Emulated])
                .unwrap_err()
                .to_string();
            assert!(error.contains(part), "{text}: {error}");
            assert!(!error.contains('\n'));
        }
    }

    #[test]
    fn the_simulator_has_ours_alone_and_over_its_own_tcp() {
        let sides = [Side::Simulated];
        let flows = |text: &str| -> Result<Vec<String>, String> {
            Scheme::list(text, &alcc_zoo::registry(), &sides)
                .map(|all| all.into_iter().flat_map(|s| s.flows).collect())
                .map_err(|e| e.to_string())
        };
        assert_eq!(
            flows("verus:r=4,profile=paper,alcc-copa/over=reno,alcc-verus,cubic").unwrap(),
            [
                "verus:r=4,profile=paper",
                "copa/over=reno",
                "verus/over=cubic",
                "cubic"
            ]
        );
        assert_eq!(
            flows("cubic/host=linux-3.16,sprout/dir=both").unwrap(),
            ["cubic/host=linux-3.16", "sprout/dir=both"]
        );
        for (text, part) in [
            ("dctcp", "no algorithm 'dctcp'"),
            ("verus/over=cubic", "alcc-verus/over=cubic"),
            ("alcc-verus/over=nonsense", "nonsense"),
            ("verus/dir=left", "dir="),
            ("verus@5s", "verus@5s"),
        ] {
            let error = flows(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn several_flows_are_one_scheme() {
        let read = |text: &str| {
            let list = Scheme::list(text, &alcc_zoo::registry(), &[Side::Simulated]);
            list.map_err(|e| e.to_string())
        };
        let all = read(
            "6*budget/stagger=103.3ms,budget+cubic@0s+240s+2*alcc-verus:r=4,profile=paper/rtt=50ms@5s,copa/rtt=20ms+udp:rate=1mbit,on=1s,off=1s,cubic",
        )
        .unwrap();
        let flows: Vec<_> = all
            .iter()
            .map(|s| (s.flows.join(" "), s.is_crowd))
            .collect();
        assert_eq!(
            flows,
            [
                ("6*budget/stagger=103.3ms".to_owned(), true),
                (
                    "budget cubic@0s+240s 2*verus:r=4,profile=paper/rtt=50ms/over=cubic@5s"
                        .to_owned(),
                    true
                ),
                ("copa/rtt=20ms udp:rate=1mbit,on=1s,off=1s".to_owned(), true),
                ("cubic".to_owned(), false),
            ]
        );
        assert_eq!(all[1].kernel(), None);
        for (text, parts) in [
            ("budget+nonsense", ["part 'nonsense'", "no algorithm"]),
            (
                "2*budget/stager=1s+cubic",
                ["part '2*budget/stager=1s'", "stagger="],
            ),
            ("0*budget", ["part '0*budget'", "from 1 to 10000"]),
            (
                "cubic+budget/over=reno",
                ["part 'budget/over=reno'", "write alcc-budget/over=reno"],
            ),
            ("cubic+", ["cubic+", "cubic+"]),
            ("+cubic", ["part ''", ""]),
        ] {
            let error = read(text).unwrap_err();
            assert!(
                parts.iter().all(|part| error.contains(part)),
                "{text}: {error}"
            );
        }
    }
}
