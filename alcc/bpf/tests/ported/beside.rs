// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two controllers on the same acknowledgements, losses and timeouts. The reference is in charge.
use alcc_cc::conformance::{Scenario, Service, run};
use alcc_cc::{
    AckBatch, Allowance, Controller, Cx, Instance, LossBatch, Needs, Packet, Path, RecoveryEnd,
    Registry, Rto, Sent, Spurious, Tag,
};
use alcc_units::{Bytes, Rate, Span, Time};
use std::sync::{Arc, Mutex};

/// The result of a comparison.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Seen {
    /// The farthest apart, packets; and all, as shares of the reference's window.
    pub(crate) apart: f64,
    shares: f64,
    compared: u64,
    /// Acknowledgements.
    pub(crate) acks: u64,
    /// Losses that begin an episode.
    pub(crate) losses: u64,
    /// Retransmission timeouts.
    pub(crate) timeouts: u64,
}

impl Seen {
    /// Mean difference, as a share of the reference's window.
    pub(crate) fn mean_share(&self) -> f64 {
        self.shares / self.compared.max(1) as f64
    }
}

#[derive(Clone)]
struct Beside {
    reference: Instance,
    ours: Instance,
    mss: Bytes,
    /// Our form receives only one in this number of acknowledgements.
    every: u64,
    seen: Arc<Mutex<Seen>>,
}

/// The kernel's clock has microseconds.
fn whole(time: Time) -> Time {
    Time::from_nanos(time.as_nanos() / 1000 * 1000)
}

fn rounded(packets: &[Packet]) -> Vec<Packet> {
    let round = |p: &Packet| Packet {
        sent_at: whole(p.sent_at),
        rtt: p
            .rtt
            .map(|rtt| whole(p.sent_at + rtt).since(whole(p.sent_at))),
        ..*p
    };
    packets.iter().map(round).collect()
}

/// The window; of those that release packets by epochs, the target.
pub(crate) fn packets(controller: &dyn Controller, mss: Bytes) -> f64 {
    let mut window = (controller.allowance().window.get() / mss.get()) as f64;
    controller.gauges(&mut |name, value| {
        if name == "window" {
            window = value.floor();
        }
    });
    window
}

impl Beside {
    fn compare(&self) {
        let theirs = packets(&*self.reference, self.mss);
        let apart = (packets(&*self.ours, self.mss) - theirs).abs();
        let mut seen = self.seen.lock().unwrap();
        seen.apart = seen.apart.max(apart);
        seen.shares += apart / theirs.max(1.0);
        seen.compared += 1;
    }

    fn both(&mut self, cx: &mut Cx<'_>, tell: impl Fn(&mut dyn Controller, &mut Cx<'_>)) {
        let now = whole(cx.now);
        for controller in [&mut self.reference, &mut self.ours] {
            let log = &mut *cx.log;
            tell(&mut **controller, &mut Cx { now, log });
        }
        self.compare();
    }
}

impl Controller for Beside {
    fn needs(&self) -> Needs {
        self.reference.needs()
    }

    fn on_start(&mut self, cx: &mut Cx<'_>, path: &Path) {
        self.mss = path.mss;
        self.both(cx, |c, cx| c.on_start(cx, path));
    }

    fn on_sent(&mut self, cx: &mut Cx<'_>, sent: &Sent) -> Tag {
        let now = whole(cx.now);
        let log = &mut *cx.log;
        self.ours.on_sent(&mut Cx { now, log }, sent);
        self.reference.on_sent(&mut Cx { now, log }, sent)
    }

    fn on_ack(&mut self, cx: &mut Cx<'_>, ack: &AckBatch<'_>) {
        let packets = rounded(ack.acked);
        let mut ack = *ack;
        ack.acked = &packets;
        let seen = self.seen.clone();
        seen.lock().unwrap().acks += 1;
        if !seen.lock().unwrap().acks.is_multiple_of(self.every) {
            let now = whole(cx.now);
            let log = &mut *cx.log;
            self.reference.on_ack(&mut Cx { now, log }, &ack);
            return;
        }
        self.both(cx, |c, cx| c.on_ack(cx, &ack));
    }

    fn on_loss(&mut self, cx: &mut Cx<'_>, loss: &LossBatch<'_>) {
        let packets = rounded(loss.lost);
        let mut loss = *loss;
        loss.lost = &packets;
        self.seen.lock().unwrap().losses += u64::from(loss.new_episode);
        self.both(cx, |c, cx| c.on_loss(cx, &loss));
    }

    fn on_rto(&mut self, cx: &mut Cx<'_>, rto: &Rto) {
        self.seen.lock().unwrap().timeouts += 1;
        self.both(cx, |c, cx| c.on_rto(cx, rto));
    }

    fn on_recovery_end(&mut self, cx: &mut Cx<'_>, end: &RecoveryEnd) {
        self.both(cx, |c, cx| c.on_recovery_end(cx, end));
    }

    fn on_spurious(&mut self, cx: &mut Cx<'_>, what: Spurious) {
        self.both(cx, |c, cx| c.on_spurious(cx, what));
    }

    fn on_idle_restart(&mut self, cx: &mut Cx<'_>, idle: Span) {
        self.both(cx, |c, cx| c.on_idle_restart(cx, idle));
    }

    fn on_timer(&mut self, cx: &mut Cx<'_>) {
        self.both(cx, |c, cx| c.on_timer(cx));
    }

    fn next_timer(&self) -> Option<Time> {
        self.reference.next_timer()
    }

    fn allowance(&self) -> Allowance {
        self.reference.allowance()
    }
}

/// A link, and how many losses and timeouts a replay on it must meet at least.
pub(crate) struct Link {
    pub(crate) name: &'static str,
    pub(crate) scenario: Scenario,
    losses: u64,
    timeouts: u64,
}

/// Links of all kinds; the last ones lose.
pub(crate) fn links() -> Vec<Link> {
    let link = |name, rate, rtt| {
        let rtt = Span::from_millis(rtt);
        Link {
            name,
            scenario: Scenario::constant(Rate::mbps(rate), rtt, Span::from_secs(30)),
            losses: 0,
            timeouts: 0,
        }
    };
    // Two thousand opportunities, then as many at a third of the rate, and so on.
    let mut at = 0;
    let uneven = (0..30_000u64)
        .map(|i| {
            at += if (i / 2000) % 2 == 0 { 1 } else { 3 };
            at
        })
        .collect();
    let mut turns = link("12 and 4 Mbit/s in turns, 40 ms", 12, 40);
    turns.scenario.service = Service::Opportunities(uneven);
    let mut shallow = link("queue of 20 packets", 12, 50);
    shallow.scenario.queue = 20;
    shallow.losses = 1;
    let mut broken = link("3 s without service", 12, 50);
    broken.scenario.queue = 20;
    broken.scenario.outage = Some((Time::from_millis(9000), Time::from_millis(12_000)));
    (broken.losses, broken.timeouts) = (1, 1);
    vec![
        link("12 Mbit/s, 50 ms", 12, 50),
        link("48 Mbit/s, 20 ms", 48, 20),
        link("100 Mbit/s, 100 ms", 100, 100),
        link("1 Mbit/s, 40 ms", 1, 40),
        turns,
        shallow,
        broken,
    ]
}

fn replay(link: &Link, pair: [Instance; 2], every: u64) -> Seen {
    replay_beside(link, pair, every, Vec::new())
}

fn replay_beside(link: &Link, pair: [Instance; 2], every: u64, others: Vec<Instance>) -> Seen {
    let seen = Arc::<Mutex<Seen>>::default();
    let [reference, ours] = pair;
    let beside = Beside {
        reference,
        ours,
        mss: Bytes::new(1448),
        every,
        seen: Arc::clone(&seen),
    };
    let mut flows: Vec<Instance> = vec![Instance::new(beside)];
    flows.extend(others);
    run(&link.scenario, flows);
    let seen = *seen.lock().unwrap();
    println!(
        "{}: {seen:?}, mean share {:.3}",
        link.name,
        seen.mean_share()
    );
    seen
}

/// Replays every link, and checks that the windows stay together.
///
/// The comparison can fail: it does for a control that receives only every second acknowledgement.
pub(crate) fn stay_together(
    algorithm: &str,
    ours: impl Fn() -> Instance,
    together: impl Fn(&Link, &Seen) -> bool,
) {
    let pair = || [super::reference(algorithm), ours()];
    let mut wrong: Vec<&str> = Vec::new();
    for link in links() {
        let name = format!("{algorithm}, {}", link.name);
        let seen = replay(&link, pair(), 1);
        let lossy = seen.losses >= link.losses && seen.timeouts >= link.timeouts;
        assert!(lossy, "{name}: {seen:?}");
        assert!(seen.acks > 1000, "{name}: {seen:?}");
        if !together(&link, &seen) {
            wrong.push(link.name);
        }
    }
    assert!(wrong.is_empty(), "{algorithm}: {wrong:?}");
    let link = &links()[0];
    let deaf = replay(link, pair(), 2);
    assert!(!together(link, &deaf), "{algorithm}: what is planted shows");
}

/// The same beside a flow of Cubic that fills two products of buffer. A form that grows where half of the window is in
/// flight was up to 5 packets off, one that grows by a packet per round trip only 17 % on the average.
pub(crate) fn stays_together_beside_cubic(algorithm: &str, ours: Instance) {
    let rtt = Span::from_millis(40);
    let mut scenario = Scenario::constant(Rate::mbps(100), rtt, Span::from_secs(60));
    scenario.queue = 666;
    let link = Link {
        name: "beside Cubic",
        scenario,
        losses: 3,
        timeouts: 0,
    };
    let pair = [super::reference(algorithm), ours];
    let cubic = Registry::builtin().build(&"cubic".parse().unwrap());
    let seen = replay_beside(&link, pair, 1, vec![cubic.unwrap()]);
    assert!(seen.losses >= link.losses, "{algorithm}: {seen:?}");
    assert!(within_a_packet(&link, &seen), "{algorithm}: {seen:?}");
}

/// At every step within a packet.
pub(crate) fn within_a_packet(_link: &Link, seen: &Seen) -> bool {
    seen.apart <= 1.0
}

/// Alone on each link it reaches the reference's throughput to `share`, and its mean queueing to 2 ms
/// or to `queue`, a share.
pub(crate) fn reaches_the_same(
    algorithm: &str,
    ours: impl Fn() -> Instance,
    share: f64,
    queue: f64,
) {
    let mut wrong: Vec<&str> = Vec::new();
    for Link { name, scenario, .. } in links() {
        let from = Time::from_millis(5000);
        let of = |controller| {
            let result = run(&scenario, vec![controller]).remove(0);
            (result.packets(from) as f64, result.mean_wait_ms(from))
        };
        let ((a, c), (b, d)) = (of(super::reference(algorithm)), of(ours()));
        println!("{algorithm}, {name}: {b} packets, not {a}; {d:.1} ms, not {c:.1}");
        if (b / a - 1.0).abs() >= share || (d - c).abs() >= f64::max(2.0, queue * c) {
            wrong.push(name);
        }
    }
    assert!(wrong.is_empty(), "{algorithm}: {wrong:?}");
}
