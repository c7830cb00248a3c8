// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Descriptions of flows, for programs and as text.
mod described;
mod options;

use crate::{Kernel, Source, Timing};
use alcc_cc::{Built, Instance, Needs, Registry, Spec, SpecError};
use alcc_flow::Rules;
use alcc_flow::rules::{COPA, DATAGRAMS, LINUX, VERUS, VERUS_PAPER};
use alcc_link::Dir;
use alcc_units::{Bytes, OptionDoc, Options, Rate, Span, Time, one_line};

pub use described::FlowText;
pub use options::{Parts, TRANSPORTS, Transport};

/// A flow: its algorithm, what carries it, what it sends, and in which direction.
///
/// ```
/// use alcc_cc::Registry;
/// use alcc_sim::{FlowSpec, Timing};
///
/// let flows = FlowSpec::parse("2*copa/over=cubic@5s", &Registry::builtin(), Timing::default())?;
/// assert_eq!(flows.len(), 2);
/// assert_eq!(flows[0].algorithm, "copa");
/// # Ok::<(), alcc_sim::FlowError>(())
/// ```
pub struct FlowSpec {
    /// The algorithm's name.
    pub algorithm: String,
    /// Its options as typed.
    pub options: String,
    /// The whole text as typed; for N equal flows, the same for each of them.
    pub text: String,
    /// The name that its writer gives it: `name=`.
    pub name: Option<String>,
    /// The controller, which has not started; the run uses a copy. A constant-rate flow does not
    /// use it.
    pub controller: Instance,
    /// Transport below the algorithm.
    pub under: Under,
    /// Data of the application.
    pub source: Source,
    /// Round trip without queueing; `None`: that of its links. The part beyond theirs is between
    /// the hosts and the links.
    pub rtt: Option<Span>,
    /// It shares one allowance with the flows that have the same name here ([`alcc_flow::Share`]).
    /// The first one's controller decides for all. With `NAME:PROCESS` it decides for those of its
    /// process, and hears from the others ([`alcc_flow::Elsewhere`]).
    pub share: Option<String>,
    /// It goes through the byte stream of the flow with this name, which is a TCP; `None`: over the
    /// links.
    pub tunnel: Option<String>,
    /// Packets that wait before it, if it carries others; `None`: 500.
    pub txqueuelen: Option<usize>,
    /// The direction of the data.
    pub dir: Dir,
    /// It goes back from where the previous flow arrives. Each carries the other's reports, at the
    /// head of a flight, not when they are made. (`sproutbt2`, Sprout's own bulk program, is such a
    /// pair.)
    pub paired: bool,
    /// The links that it passes, first and last, counted from 1; `None`: all.
    pub links: Option<(usize, usize)>,
    /// Start time, before its [`phase`](Self::phase).
    pub start: Time,
    /// It begins and stops this much later. `None`: drawn with the seed, zero for the first flow of
    /// a scenario. Otherwise the ticks of flows that begin at round times would always fall on the
    /// same nanosecond. Then the order in which a simulator handles them would decide the shares.
    pub phase: Option<Span>,
    /// Stop time of its application; packets in flight are still repaired.
    pub stop: Option<Time>,
    /// Its packets may be marked instead of dropped (ECT, RFC 3168).
    pub ecn: bool,
}

/// Transport below an algorithm.
pub enum Under {
    /// The algorithm sends packets itself, by these rules.
    Native(Rules),
    /// The algorithm decides what is written to a simulated TCP connection.
    Tcp(Kernel),
    /// No algorithm: UDP packets at the rate of the source, whatever happens to them.
    Udp {
        /// IP bytes of a packet, headers included.
        packet: Bytes,
    },
}

/// The syntax of FLOW, for help texts.
pub const FLOW_HELP: &str = "\
A FLOW is [N*]A[:OPTIONS][/PART]...[@START[-STOP]], such as 10*cubic/rtt=80ms@5s-30s: N flows
(1 to 10000) of algorithm A. With @START+LENGTH each of them stops LENGTH after its own start, as in
5*cubic/stagger=30s@0s+240s.
FLOW+FLOW are two kinds of flows over the same link, as in budget+2*cubic@10s. In a list, a comma
begins the next FLOW unless option=value follows it.
A alone sends its own packets: cubic, reno, bbr and so on are plain TCP; verus, copa and so on send
datagrams. A/over=CC is A over a TCP with the congestion control CC: the smaller of the two windows
counts. Rows call A/over=cubic alcc-A.
udp:rate=5mbit[,bytes=1500][,on=1s,off=1s] sends at a constant rate, without congestion control.
PARTs:
  over=CC         run over a TCP with this congestion control, such as over=cubic
  transport=NAME  transport of alcc send and recv: udp or quic (alone), tcp or in-band (with over=);
                  the simulator has only udp
  carrier=tls     with transport=in-band: inside TLS
  enforce=bpf     real programs, without over=: enforce the window in the kernel (alcc bpf load)
  host=RULES      packets, loss detection and timers as of linux (Linux 6), linux-3.16, linux-2.6.24,
                  windows7-newreno, datagrams, udp (alcc-lab send --transport udp), verus-paper,
                  verus-original, copa-original or sprout-original; default: the host for which the
                  algorithm or its profile was made; with over=, the host of the TCP
  sndbuf=100kB    TCP send buffer as set by an application: the kernel doubles it and keeps it fixed
  rwnd=64kB       fixed TCP receive window
  lowat=16384B    TCP accepts data while less than this is unsent (tcp_notsent_lowat)
  rtt=80ms        round-trip time without queueing
  dir=up          send in the reverse direction
  dir=both        a pair that sends in both directions, with reports in its data (for sprout)
  links=2-3       enter the chain at link 2 and leave it after link 3; links=2: only that link
  size=10MB       send this many bytes; the row then has fct_ms
  app=2mbit       the application writes at this rate, every 20 ms or app=2mbit,every=100ms
  on=1s,off=2s    the application sends for 1 s, pauses for 2 s, and so on
  stagger=1s      start each of the N flows this much after the one before
  phase=0s        shift START and STOP by this time; by default 0 for the first flow and a random
                  time up to 20 ms (or every=) for the others, so that they are not synchronized
  ecn=on          let queues mark packets instead of dropping them (ECT, RFC 3168); for algorithms
                  that react to marks, such as reno and cubic; with over=, for the TCP
  share=NAME      share one window with all flows of this NAME, under the algorithm of the first;
                  with NAME:PROCESS, each PROCESS has a copy of the algorithm
  tunnel=NAME     send inside the TCP flow with this name=, as in a VPN over TCP; if that flow has
                  dir=both, acknowledgements go through it, too
  txqueuelen=100  of a flow that is a tunnel: packets that may wait for it [default: 500]
  name=call       name in the table and the row";

const UDP: &[OptionDoc] = &[
    OptionDoc {
        name: "rate",
        default: "none",
        help: "IP bytes per time; must be given",
    },
    OptionDoc {
        name: "bytes",
        default: "1500",
        help: "IP bytes of a packet, 29 to 1500",
    },
    OptionDoc {
        name: "on",
        default: "always",
        help: "sends for so long, then pauses for `off`",
    },
    OptionDoc {
        name: "off",
        default: "always",
        help: "see `on`",
    },
];

/// Error in the description of a flow.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FlowError {
    /// A part after a `/` or the `@` that is unknown or has no meaning.
    #[error("flow '{}': '{}': {want}", one_line(.flow), one_line(.found))]
    Part {
        /// The flow as typed.
        flow: String,
        /// The wrong part.
        found: String,
        /// A part that would be valid.
        want: String,
    },
    /// The text before the `*` is not a number.
    #[error(
        "flow '{}': '{}' flows: write a number from 1 to 10000 before the '*'",
        one_line(.flow),
        one_line(.found)
    )]
    Count {
        /// The flow as typed.
        flow: String,
        /// The wrong part.
        found: String,
    },
    /// A spelling of an earlier version.
    #[error("flow '{}': this is now written {now}", one_line(.flow))]
    Renamed {
        /// The flow as typed.
        flow: String,
        /// The same flow today.
        now: String,
    },
    /// The algorithm.
    #[error("flow '{}': {source}", one_line(.flow))]
    Algorithm {
        /// The flow as typed.
        flow: String,
        /// The error of the algorithm's text.
        source: Box<SpecError>,
    },
}

impl FlowSpec {
    /// Reads [`FLOW_HELP`]'s FLOW or FLOW+FLOW, such as `2*verus:r=4/over=cubic@5s`: N equal flows
    /// for each.
    ///
    /// # Errors
    /// [`FlowError`] with what would be right.
    pub fn parse(text: &str, registry: &Registry, timing: Timing) -> Result<Vec<Self>, FlowError> {
        let mut flows = Vec::new();
        for flow in FlowText::all(text)? {
            flows.extend(flow.build(registry, timing)?);
        }
        Ok(flows)
    }

    /// The stack that sends its packets.
    fn sender(&self) -> &str {
        match &self.under {
            Under::Native(_) | Under::Udp { .. } => &self.algorithm,
            Under::Tcp(kernel) => &kernel.name,
        }
    }

    /// Limit of unsent data in its TCP (`tcp_notsent_lowat`); `None`: no limit, or no TCP.
    pub fn notsent_lowat(&self) -> Option<Bytes> {
        match &self.under {
            Under::Native(rules) => rules.notsent_lowat,
            Under::Tcp(kernel) => kernel.rules.notsent_lowat,
            Under::Udp { .. } => None,
        }
    }

    pub(crate) fn is_tcp(&self) -> bool {
        match &self.under {
            Under::Native(rules) => rules.is_stream(),
            Under::Tcp(_) => true,
            Under::Udp { .. } => false,
        }
    }

    fn understands_marks(&self) -> bool {
        match &self.under {
            Under::Native(_) => self.controller.needs().ecn,
            Under::Tcp(kernel) => kernel.controller.needs().ecn,
            Under::Udp { .. } => false,
        }
    }

    /// Its name in results: `verus`, and `alcc-verus` over TCP.
    pub fn scheme(&self) -> String {
        match self.under {
            Under::Native(_) | Under::Udp { .. } => self.algorithm.clone(),
            Under::Tcp(_) => format!("alcc-{}", self.algorithm),
        }
    }
}

/// Published forms that were made for datagrams of a program, with the rules of that program.
/// `profile=linux-3.16` and the like name their stack.
const PROGRAMS: &[(&str, &str, Rules)] = &[
    ("verus", "paper", VERUS_PAPER),
    ("verus", "original", VERUS),
    ("copa", "original", COPA),
];

/// The rules of its hosts: `host=`, else those of the stack for which the algorithm was made.
fn rules(spec: &Spec, needs: &Needs, asked: Option<&'static Rules>) -> Rules {
    let mut options = spec.options.iter();
    let profile = options.find(|(name, _)| name == "profile");
    let made_for = profile.and_then(|(_, profile)| {
        let mut programs = PROGRAMS.iter();
        let program = programs.find(|(name, form, _)| spec.name == *name && profile == form);
        program.map_or_else(|| Rules::named(profile), |(_, _, rules)| Some(rules))
    });
    *asked.or(made_for).unwrap_or(match needs.stream {
        true => &LINUX,
        false => &DATAGRAMS,
    })
}

/// The controller of a flow without an algorithm.
fn idle(registry: &Registry) -> Built {
    registry.build(&Spec::named("fixed"))
}

/// IP bytes of a packet of `udp:...`, whose other options concern the source.
fn udp(spec: &Spec, source: &mut Source) -> Result<Bytes, SpecError> {
    let options = Options::new("algorithm", spec, UDP, &[])?;
    let rate = options.text("rate").and_then(|text| text.parse().ok());
    let rate = rate.filter(|rate| *rate > Rate::ZERO);
    let rate =
        rate.ok_or_else(|| options.wrong("rate", "a rate of 1bit or more, such as rate=5mbit"))?;
    let packet = options.bytes("bytes", Bytes::new(1500), Bytes::new(29)..=Bytes::new(1500))?;
    source.rate = Some(rate);
    source.every = rate.time_for(packet);
    let phase = |name| options.span(name, Span::ZERO, Span::from_nanos(1)..=Span::MAX);
    let (on, off) = (phase("on")?, phase("off")?);
    if on.is_zero() != off.is_zero() {
        let missing = if on.is_zero() { "on" } else { "off" };
        return Err(options.wrong(missing, "a length of time: on and off go together"));
    }
    if !on.is_zero() {
        source.on_off = Some((on, off));
    }
    Ok(packet)
}

#[cfg(test)]
mod tests {
    use super::described::parts_of;
    use super::*;

    fn parse(text: &str) -> Result<Vec<FlowSpec>, String> {
        FlowSpec::parse(text, &alcc_zoo::registry(), Timing::default()).map_err(|e| e.to_string())
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
            &flows[0].under,
            Under::Tcp(kernel) if kernel.name == "cubic" && kernel.rules == LINUX
        ));
        let plain = &parse("fixed").unwrap()[0];
        assert!(matches!(plain.under, Under::Native(rules) if rules == DATAGRAMS));
        assert_eq!(
            (plain.start, plain.stop, plain.rtt),
            (Time::ZERO, None, None)
        );
        assert_eq!(plain.source, Source::default());
    }

    #[test]
    fn a_pair_goes_both_ways() {
        let flows = parse("2*fixed/dir=both").unwrap();
        let ways: Vec<_> = flows.iter().map(|f| (f.dir, f.paired)).collect();
        let pair = [(Dir::Down, false), (Dir::Up, true)];
        assert_eq!(ways, [pair, pair].concat());
    }

    #[test]
    fn every_part() {
        let ms = Span::from_millis;
        let flows = parse("3*fixed/rtt=80ms/dir=up/links=2-3/size=10MB/stagger=1s@2s-30s").unwrap();
        assert_eq!(flows.len(), 3);
        let last = &flows[2];
        assert_eq!((last.rtt, last.dir), (Some(ms(80)), Dir::Up));
        assert_eq!(last.links, Some((2, 3)));
        assert_eq!(last.source.size, Some(Bytes::new(10_000_000)));
        assert_eq!(last.start, Time::from_millis(4_000));
        assert_eq!(last.stop, Some(Time::from_millis(30_000)));
        let app = &parse("fixed/app=2mbit,every=100ms/on=1s,off=2s/links=4").unwrap()[0];
        assert_eq!(
            app.source,
            Source {
                size: None,
                rate: Some(Rate::mbps(2)),
                every: ms(100),
                on_off: Some((ms(1000), ms(2000))),
            }
        );
        assert_eq!(app.links, Some((4, 4)));
        let udp = &parse("udp:rate=5mbit,on=1s,off=3s,bytes=500").unwrap()[0];
        assert!(matches!(udp.under, Under::Udp { packet } if packet == Bytes::new(500)));
        assert_eq!(udp.source.rate, Some(Rate::mbps(5)));
        assert_eq!(udp.source.on_off, Some((ms(1000), ms(3000))));
    }

    #[test]
    fn each_of_several_lasts_as_long() {
        let flows = parse("3*fixed/stagger=30s@10s+240s").unwrap();
        let seconds = |time: Time| time.since(Time::ZERO).as_secs_f64();
        let times: Vec<_> = flows
            .iter()
            .map(|f| (seconds(f.start), f.stop.map(seconds)))
            .collect();
        let want = [(10.0, 250.0), (40.0, 280.0), (70.0, 310.0)];
        assert_eq!(times, want.map(|(start, stop)| (start, Some(stop))));
    }

    #[test]
    fn a_buffer_that_is_set_does_not_grow() {
        let rules = |text: &str| match &parse(text).unwrap()[0].under {
            Under::Native(rules) => *rules,
            Under::Tcp(kernel) => kernel.rules,
            Under::Udp { .. } => unreachable!(),
        };
        let kb = |n: u64| Bytes::new(n * 1000);
        let set = rules("cubic/sndbuf=100kB");
        assert_eq!(set.send_buffer, (kb(200), kb(200)));
        assert_eq!((set.window, set.name), (LINUX.window, "linux"));
        let set = rules("verus/over=cubic/rwnd=64kB");
        assert_eq!(set.window, (kb(64), kb(64)));
        assert_eq!(set.send_buffer, LINUX.send_buffer);
    }

    #[test]
    fn hosts_follow_the_algorithm_unless_told() {
        let rules = |text: &str| match &parse(text).unwrap()[0].under {
            Under::Native(rules) => rules.name,
            Under::Tcp(kernel) => kernel.rules.name,
            Under::Udp { .. } => "none",
        };
        for (text, name) in [
            ("cubic", "linux"),
            ("reno/host=linux-2.6.24", "linux-2.6.24"),
            ("verus", "datagrams"),
            ("fixed/host=linux", "linux"),
            ("fixed/over=bbr", "linux"),
            ("fixed/over=fixed:window=9", "linux"),
            ("fixed/over=reno/host=windows7-newreno", "windows7-newreno"),
        ] {
            assert_eq!(rules(text), name, "{text}");
        }
    }

    #[test]
    fn mistakes_are_named_with_what_would_be_right() {
        let error = |text| parse(text).err().unwrap();
        assert!(
            error("fixed/over=vegas2").starts_with(
                "flow 'fixed/over=vegas2': no algorithm 'vegas2' (did you mean vegas?)"
            )
        );
        assert_eq!(
            error("0*fixed"),
            "flow '0*fixed': '0' flows: write a number from 1 to 10000 before the '*'"
        );
        assert!(
            error("fixd").starts_with("flow 'fixd': no algorithm 'fixd' (did you mean fixed?)")
        );
        for (text, part) in [
            ("fixed/host=linux-9", "one of linux, linux-3.16,"),
            (
                "fixed/rtt=80",
                "write a number and ns, us, ms, s, min (or m) or h",
            ),
            ("fixed/rtt=0ms", "longer than 0"),
            ("fixed/dir=left", "dir=up, dir=down or dir=both"),
            ("fixed/links=0", "from 1"),
            ("fixed/size=0", "1 byte or more"),
            ("fixed/app=0mbit", "1 bit/s or more"),
            ("fixed/on=1s,of=2s", "on=1s,off=2s"),
            ("fixed/speed=3", "write over=, transport="),
            ("fixed/stager=3s", "did you mean stagger=?"),
            ("cubic/sndbuf=100", "4096 bytes to 1 GB"),
            ("verus/sndbuf=100kB", "'sndbuf=': only a TCP has it"),
            ("verus/host=udp/rwnd=100kB", "'rwnd=': only a TCP has it"),
            ("verus/lowat=16kB", "'lowat=': only a TCP has it"),
            ("fixed/name=a b", "letters, digits"),
            ("fixed/phase=-1ms", "such as 20ms"),
            ("udp:rate=1mbit/over=cubic", "'over=': datagrams"),
            ("udp:rate=1mbit/host=linux", "'host=': datagrams"),
            ("cubic/over=cubic/over=reno", "'over=' is given twice"),
            ("fixed/rtt=1ms/rtt=1ms", "'rtt=' is given twice"),
            ("fixed/app=1mbit,app=2mbit", "'app=' is given twice"),
            ("fixed/on=1s,off=1s/on=2s", "'on=' is given twice"),
            ("fixed@5", "'@5'"),
            ("fixed@5s-5s", "stop later than it starts"),
            ("fixed@5s+0s", "longer than 0"),
            ("fixed@5s+", "such as 20ms"),
            ("udp", "rate=5mbit"),
            ("udp:rate=0bit", "rate=5mbit"),
            ("udp:rate=1mbit,on=1s", "on and off go together"),
            ("10001*fixed", "1 to 10000"),
        ] {
            let error = error(text);
            assert!(error.contains(part), "{text}: {error}");
            assert!(!error.contains('\n'));
        }
    }

    #[test]
    fn a_plus_begins_a_flow() {
        let flows = parse("cubic@0s+9s+2*verus:r=4/over=reno@5s+udp:rate=1mbit").unwrap();
        let texts: Vec<_> = flows.iter().map(|flow| flow.text.as_str()).collect();
        let pair = "2*verus:r=4/over=reno@5s";
        assert_eq!(texts, ["cubic@0s+9s", pair, pair, "udp:rate=1mbit"]);
        for text in ["cubic+", "+cubic", "cubic+nonsense", "cubic++reno"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    /// Comparisons were typed as rows are called.
    #[test]
    fn an_earlier_spelling_is_refused_with_the_one_of_today() {
        for (label, now) in [
            ("alcc-verus", "verus/over=cubic"),
            (
                "2*alcc-copa:delta=0.1/rtt=9ms@5s",
                "2*copa:delta=0.1/over=cubic/rtt=9ms@5s",
            ),
            ("alcc-copa/over=reno", "copa/over=reno"),
            ("alcc-copa/enforce=bpf", "copa/enforce=bpf"),
            ("verus-udp:r=4", "verus:r=4/transport=udp"),
            ("verus-quic", "verus/transport=quic"),
            ("alcc-verus-tcp", "verus/over=cubic/transport=tcp"),
            (
                "alcc-sprout-ewma-inband/carrier=tls",
                "sprout-ewma/over=cubic/transport=in-band/carrier=tls",
            ),
        ] {
            let error = parse(label).err().unwrap();
            assert_eq!(error, format!("flow '{label}': this is now written {now}"));
            let [flow] = &FlowText::all(now).unwrap()[..] else {
                panic!("{now}");
            };
            assert_eq!(flow.label(), label);
        }
        let error = parse("bbr+lowat").err().unwrap();
        assert!(error.ends_with("now written bbr/lowat=16384B"), "{error}");
        let error = parse("2*bbr+lowat=32kB@5s+cubic").err().unwrap();
        let now = "now written 2*bbr/lowat=32kB@5s+cubic";
        assert!(error.ends_with(now), "{error}");
    }

    #[test]
    fn what_carries_a_flow_is_said_once() {
        for (text, part) in [
            ("verus/transport=pigeon", "one of udp, quic, tcp, in-band"),
            ("verus/transport=in-band", "add over="),
            ("verus/over=cubic/transport=udp", "leave over= out"),
            ("verus/transport=udp/host=linux", "'host='"),
            ("verus/over=cubic/carrier=tls", "transport=in-band"),
            ("verus/enforce=gate", "write enforce=bpf"),
            ("verus/over=reno/enforce=bpf", "leave over="),
            ("verus/enforce=bpf", "verus alone"),
            ("verus/transport=quic", "has no QUIC"),
            ("verus/over=cubic/transport=tcp", "leave it out"),
            ("udp:rate=1mbit/transport=udp", "'transport=': datagrams"),
        ] {
            let error = parse(text).err().unwrap();
            assert!(error.contains(part), "{text}: {error}");
        }
        let Under::Native(rules) = parse("verus/transport=udp").unwrap()[0].under else {
            panic!("datagrams");
        };
        assert_eq!(rules.name, "udp");
    }

    #[test]
    fn an_option_may_be_a_path() {
        let split = |text| {
            let (head, parts) = parts_of(text);
            (
                head.to_owned(),
                parts.map(str::to_owned).collect::<Vec<_>>(),
            )
        };
        let of = |head: &str, parts: &[&str]| {
            (
                head.to_owned(),
                parts.iter().map(|p| (*p).to_owned()).collect::<Vec<_>>(),
            )
        };
        assert_eq!(split("reno"), of("reno", &[]));
        assert_eq!(split("reno/over=cubic"), of("reno", &["over=cubic"]));
        assert_eq!(split("reno/foo"), of("reno", &["foo"]));
        let path = "mdi:matrix=/a/b.csv";
        assert_eq!(split(path), of(path, &[]));
        assert_eq!(
            split("mdi:matrix=../b.csv/over=cubic/rtt=1ms"),
            of("mdi:matrix=../b.csv", &["over=cubic", "rtt=1ms"])
        );
    }

    proptest::proptest! {
        /// Every accepted flow can be run, and every refusal is one line.
        #[test]
        fn any_parts_in_any_order(
            count in "(|[0-9]{1,2}\\*)",
            name in "(fixed|cubic|udp|udp:rate=1mbit|udp:rate=9mbit,on=1ms,off=2ms|verus:r=)",
            parts in proptest::collection::vec("/(over|rtt|dir|links|size|app|every|on|off|stagger|host)=(cubic|up|both|1|2-1|1-2|40ms|3kbit|1k|0s|5s,off=1s|linux|=|)", 0..4),
            times in "(|@[0-9]s|@[0-9]s-[0-9]s|@-|@1s-)",
        ) {
            let text = format!("{count}{name}{}{times}", parts.concat());
            match parse(&text) {
                Ok(flows) => {
                    let mut scenario = crate::Scenario::dumbbell(
                        alcc_link::RateSpec::Fixed(Rate::mbps(2)),
                        Span::from_millis(20),
                        alcc_link::QueueSpec::default(),
                    );
                    scenario.duration = Span::from_millis(40);
                    scenario.flows = flows;
                    if let Err(error) = crate::run(&scenario) {
                        proptest::prop_assert!(!error.to_string().contains('\n'));
                    }
                }
                Err(error) => proptest::prop_assert!(!error.contains('\n'), "{error}"),
            }
        }
    }
}
