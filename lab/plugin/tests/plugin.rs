// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The product with the plug-in has what the laboratory's registry has, and each of it answers as
//! it does there.
use alcc_cc::conformance::{self, Scenario};
use alcc_cc::{
    AckBatch, Algorithm, Allowance, Controller, Cx, Header, Instance, LossBatch, Needs, Path, Pn,
    Receiver, RecoveryEnd, Registry, Report, Rto, Sending, Sent, Spec, Spurious, Tag, WithReceiver,
};
use alcc_sim::{FlowSpec, Timing};
use alcc_units::{Bytes, Rate, Span, Time};
use std::path::PathBuf;

/// The largest window of a plug-in.
const MAX_WINDOW: Bytes = Bytes::new(1 << 30);
/// A plug-in's timer comes no earlier than this after the last one.
const MIN_TIMER: Span = Span::from_micros(100);

/// Cargo puts the library beside the program of its test.
fn file() -> PathBuf {
    let test = std::env::current_exe().expect("the program of this test");
    test.with_file_name("libalcc_lab.so")
}

fn loaded() -> Registry {
    alcc_plugin::with_files(Registry::builtin(), [file()]).unwrap_or_else(|error| panic!("{error}"))
}

/// The specs of all that the plug-in brings: algorithms of the laboratory, and forms.
fn specs() -> Vec<Spec> {
    let with = |name: &str, profile: &str| Spec {
        options: vec![("profile".to_owned(), profile.to_owned())],
        ..Spec::named(name)
    };
    let mut specs: Vec<Spec> = Vec::new();
    for algorithm in alcc_zoo::algorithms() {
        specs.push(Spec::named(algorithm.name));
        specs.extend(algorithm.profiles.iter().map(|p| with(algorithm.name, p)));
    }
    specs.extend(
        alcc_zoo::forms()
            .iter()
            .map(|(name, form)| with(name, form.profile)),
    );
    specs
}

#[test]
fn the_product_with_the_plug_in_has_all_that_the_laboratory_has() {
    let list = |registry: &Registry| {
        let mut list: Vec<String> = (registry.iter())
            .map(|a| format!("{} {:?} {:?}", a.name, a.profiles, a.summary))
            .collect();
        list.sort();
        list
    };
    let loaded = loaded();
    assert_eq!(list(&loaded), list(&alcc_zoo::registry()));
    // Twice is as once.
    let again = alcc_plugin::with_files(loaded.clone(), [file()]).unwrap();
    assert_eq!(list(&again), list(&loaded));
    for algorithm in loaded.iter() {
        let zoo = alcc_zoo::registry();
        let native = zoo.iter().find(|a| a.name == algorithm.name).unwrap();
        for profile in algorithm.profiles.iter().chain([&""]) {
            let names = |a: &Algorithm| -> Vec<[&str; 3]> {
                let options = a.options_of(profile).iter();
                options.map(|o| [o.name, o.default, o.help]).collect()
            };
            assert_eq!(
                names(algorithm),
                names(native),
                "{}:{profile}",
                algorithm.name
            );
        }
    }
}

#[test]
fn what_is_wrong_is_said_as_it_is_without_the_plug_in() {
    let wrong = |registry: &Registry, spec: &str| match registry.build(&spec.parse().unwrap()) {
        Ok(_) => panic!("{spec} was taken"),
        Err(error) => error.to_string(),
    };
    let loaded = loaded().complete();
    for spec in [
        "verus:profile=orignal",
        "c4:profile=paper",
        "vivace:profile=nothing",
        "verus:profile=original,r=99",
        "copa:profile=mvfst,floor=1ms",
        "copa:profile=original,mode=both",
        "mdi:matrix=/does/not/exist",
        "sprout-ewma:delay=0s",
    ] {
        let zoo = alcc_zoo::registry().reading(alcc_plugin::read_text);
        assert_eq!(wrong(&loaded, spec), wrong(&zoo, spec));
    }
    let why = wrong(&loaded, "verus:profile=orignal");
    assert!(why.contains("profile=orignal: expected"), "{why}");
    // Native code takes nothing from a peer.
    let peers = loaded.for_peers();
    assert!(wrong(&peers, "verus:profile=original").contains("profile=original: expected"));
    assert!(wrong(&peers, "c4").contains("no algorithm 'c4'"));
}

#[test]
fn an_algorithm_without_a_profile_stays_the_products() {
    let window = |registry: &Registry, spec: &str| {
        let scenario =
            Scenario::constant(Rate::mbps(12), Span::from_millis(40), Span::from_secs(5));
        let cc = registry.build(&spec.parse().unwrap()).unwrap();
        conformance::run(&scenario, vec![cc])[0].packets(Time::ZERO)
    };
    for spec in ["verus", "verus:profile=paper", "copa", "sprout", "cubic"] {
        let found = loaded();
        assert_eq!(
            window(&found, spec),
            window(&Registry::builtin(), spec),
            "{spec}"
        );
        let name = spec.split(':').next().unwrap();
        let known = |registry: &Registry| {
            let found = registry.iter().find(|a| a.name == name).unwrap();
            found.profiles[0]
        };
        assert_eq!(known(&found), known(&Registry::builtin()));
    }
}

/// Compares an algorithm with its form in the plug-in: the same inputs must give the same outputs.
#[derive(Clone)]
struct Twin {
    native: Instance,
    plugged: Instance,
    mss: Bytes,
    /// Time of the last call of `on_timer`.
    timer: Option<Time>,
}

impl Twin {
    fn of(spec: &Spec, plugged: &Registry) -> Instance {
        let plugged = plugged.build(spec).unwrap();
        let native = alcc_zoo::registry().build(spec).unwrap();
        assert_eq!(plugged.has_receiver(), native.has_receiver());
        native.wrapped(|native| Self {
            native,
            plugged,
            mss: Bytes::new(1),
            timer: None,
        })
    }

    fn tell(&mut self, cx: &mut Cx<'_>, event: impl Fn(&mut Instance, &mut Cx<'_>)) {
        event(&mut self.native, cx);
        event(&mut self.plugged, cx);
    }
}

impl Controller for Twin {
    fn needs(&self) -> Needs {
        let needs = self.native.needs();
        assert_eq!(self.plugged.needs(), needs);
        needs
    }
    fn on_start(&mut self, cx: &mut Cx<'_>, path: &Path) {
        self.mss = path.mss;
        self.tell(cx, |cc, cx| cc.on_start(cx, path));
    }
    fn on_sent(&mut self, cx: &mut Cx<'_>, sent: &Sent) -> Tag {
        let tag = self.native.on_sent(cx, sent);
        assert_eq!(self.plugged.on_sent(cx, sent), tag);
        tag
    }
    fn on_ack(&mut self, cx: &mut Cx<'_>, ack: &AckBatch<'_>) {
        self.tell(cx, |cc, cx| cc.on_ack(cx, ack));
    }
    fn on_loss(&mut self, cx: &mut Cx<'_>, loss: &LossBatch<'_>) {
        self.tell(cx, |cc, cx| cc.on_loss(cx, loss));
    }
    fn on_rto(&mut self, cx: &mut Cx<'_>, rto: &Rto) {
        self.tell(cx, |cc, cx| cc.on_rto(cx, rto));
    }
    fn on_spurious(&mut self, cx: &mut Cx<'_>, what: Spurious) {
        self.tell(cx, |cc, cx| cc.on_spurious(cx, what));
    }
    fn on_recovery_end(&mut self, cx: &mut Cx<'_>, end: &RecoveryEnd) {
        self.tell(cx, |cc, cx| cc.on_recovery_end(cx, end));
    }
    fn on_idle_restart(&mut self, cx: &mut Cx<'_>, idle: Span) {
        self.tell(cx, |cc, cx| cc.on_idle_restart(cx, idle));
    }
    fn release_memory(&mut self) {
        self.native.release_memory();
        self.plugged.release_memory();
    }
    fn on_mtu(&mut self, cx: &mut Cx<'_>, mss: Bytes) {
        self.mss = mss;
        self.tell(cx, |cc, cx| cc.on_mtu(cx, mss));
    }
    fn on_timer(&mut self, cx: &mut Cx<'_>) {
        self.timer = Some(cx.now);
        self.tell(cx, |cc, cx| cc.on_timer(cx));
    }
    fn allowance(&self) -> Allowance {
        let native = self.native.allowance();
        let bounded = Allowance {
            window: native.window.min(MAX_WINDOW).max(self.mss),
            burst: native.burst.min(MAX_WINDOW),
            ..native
        };
        assert_eq!(self.plugged.allowance(), bounded);
        bounded
    }
    fn next_timer(&self) -> Option<Time> {
        let at = self.native.next_timer();
        let earliest = self.timer.map_or(Time::ZERO, |last| last + MIN_TIMER);
        assert_eq!(self.plugged.next_timer(), at.map(|at| at.max(earliest)));
        at
    }
    fn gauges(&self, put: &mut dyn FnMut(&'static str, f64)) {
        let list = |cc: &Instance| {
            let mut list = Vec::new();
            cc.gauges(&mut |name, value| list.push((name, value)));
            list.retain(|(_, value)| value.is_finite());
            list.sort_by_key(|(name, _)| *name);
            list
        };
        let shown = list(&self.native);
        assert_eq!(list(&self.plugged), shown);
        shown.into_iter().for_each(|(name, value)| put(name, value));
    }
}

impl WithReceiver for Twin {
    fn header(&mut self, cx: &mut Cx<'_>, sending: &Sending) -> Header {
        let header = self.native.header(cx, sending);
        assert_eq!(self.plugged.header(cx, sending), header);
        header
    }
    fn receiver(&self) -> Box<dyn Receiver> {
        let halves = self.native.receiver().zip(self.plugged.receiver());
        let (native, plugged) = halves.expect("both have one");
        Box::new(TwinHalf(native, plugged, None))
    }
    fn header_len(&self) -> u8 {
        assert_eq!(self.plugged.header_len(), self.native.header_len());
        self.native.header_len()
    }
    fn on_feedback(&mut self, cx: &mut Cx<'_>, report: &[u8]) {
        self.tell(cx, |cc, cx| cc.on_feedback(cx, report));
    }
}

/// Pairs of receiver modules, and the time of the last `on_timer`.
#[derive(Clone)]
struct TwinHalf(Box<dyn Receiver>, Box<dyn Receiver>, Option<Time>);

impl Receiver for TwinHalf {
    fn on_packet(&mut self, now: Time, pn: Pn, len: Bytes, header: &[u8]) {
        self.0.on_packet(now, pn, len, header);
        self.1.on_packet(now, pn, len, header);
    }
    fn next_timer(&self) -> Option<Time> {
        let at = self.0.next_timer();
        let earliest = self.2.map_or(Time::ZERO, |last| last + MIN_TIMER);
        assert_eq!(self.1.next_timer(), at.map(|at| at.max(earliest)));
        at
    }
    fn on_timer(&mut self, now: Time) {
        self.2 = Some(now);
        self.0.on_timer(now);
        self.1.on_timer(now);
    }
    fn report(&mut self, now: Time) -> Option<Report> {
        let report = self.0.report(now);
        assert_eq!(self.1.report(now), report);
        report
    }
}

/// With losses, an outage and jitter; and with everything else that can happen to a connection.
#[test]
fn each_answers_as_it_does_in_the_laboratory() {
    let plugged = loaded();
    let mut scenario =
        Scenario::constant(Rate::mbps(12), Span::from_millis(40), Span::from_secs(20));
    scenario.queue = 60;
    scenario.outage = Some((Time::from_millis(8_000), Time::from_millis(11_000)));
    for spec in specs() {
        let told = conformance::run(&scenario, vec![Twin::of(&spec, &plugged)]);
        assert!(told[0].packets(Time::ZERO) > 500, "{spec}");
        let algorithm = twins(&spec);
        let named = Spec::named(algorithm.name);
        (0..20).for_each(|seed| conformance::run_seed(&algorithm, &named, seed));
    }
}

/// Pairs of a spec's algorithm and its form in the plug-in.
fn twins(spec: &Spec) -> Algorithm {
    let (spec, plugged) = (spec.clone(), loaded());
    Algorithm {
        name: "twins",
        summary: "for a test",
        profiles: std::borrow::Cow::Borrowed(&[]),
        options: &[],
        build: alcc_cc::Build::Loaded {
            file: "a test".into(),
            build: std::sync::Arc::new(move |_| Ok(Twin::of(&spec, &plugged))),
        },
    }
}

/// As `alcc run` does it: above a kernel's window, acknowledgements from counters, the receiver
/// module beside the algorithm.
#[test]
fn each_runs_above_tcp_as_it_does_in_the_laboratory() {
    let plugged = loaded();
    for spec in specs() {
        let delivered = |registry: &Registry| {
            let flow = format!("{spec}/over=cubic");
            let link = alcc_link::RateSpec::Fixed(Rate::mbps(12));
            let queue = alcc_link::QueueSpec::default();
            let mut scenario = alcc_sim::Scenario::dumbbell(link, Span::from_millis(40), queue);
            scenario.duration = Span::from_secs(20);
            scenario.flows = FlowSpec::parse(&flow, registry, Timing::default()).unwrap();
            let report = alcc_sim::run(&scenario).unwrap();
            format!("{:?}", report.flows)
        };
        assert_eq!(
            delivered(&plugged),
            delivered(&alcc_zoo::registry()),
            "{spec}"
        );
    }
}
