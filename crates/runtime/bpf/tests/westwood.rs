// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Westwood+ in integers beside Westwood+ of `cc`, on the same acknowledgements, losses and
//! timeouts. The reference is in charge.
use alcc_bpf::RESIDENT;
use alcc_cc::conformance::{Scenario, run};
use alcc_cc::parts::window_used;
use alcc_cc::{
    AckBatch, Allowance, Controller, Cx, LossBatch, Needs, Path, RecoveryEnd, Registry, Rto, Sent,
    Spec, Tag,
};
use alcc_units::{Bytes, Rate, Span, Time};
use std::sync::{Arc, Mutex};

unsafe extern "C" {
    fn alcc_host_westwood_measure(w: *mut State, now: u64, rtt: u32, acked: u32);
    fn alcc_host_westwood_grow(w: *mut State, cwnd: u32, ssthresh: u32, acked: u32) -> u32;
    fn alcc_host_westwood_ssthresh(w: *mut State, cwnd: u32) -> u32;
    fn alcc_host_westwood_bdp(w: *const State) -> u32;
    fn alcc_host_westwood_timeout(w: *mut State) -> u32;
}

/// `struct westwood`, which `host.c` asserts to fit.
#[derive(Clone)]
#[repr(C, align(8))]
struct State([u64; 13]);

/// What was compared.
#[derive(Default)]
struct Seen {
    /// The farthest apart, packets.
    apart: f64,
    /// Acknowledgements.
    acks: u64,
    /// Losses that reduced the window.
    losses: u64,
    /// Retransmission timeouts.
    timeouts: u64,
}

struct Beside {
    reference: Box<dyn Controller>,
    state: State,
    cwnd: u32,
    ssthresh: u32,
    recovering: bool,
    mss: Bytes,
    seen: Arc<Mutex<Seen>>,
}

impl Beside {
    fn compare(&self) {
        let theirs = self.reference.allowance().window.get() as f64 / self.mss.get() as f64;
        let mut seen = self.seen.lock().unwrap();
        seen.apart = seen
            .apart
            .max((f64::from(self.cwnd) - theirs.floor()).abs());
    }

    fn repaired(&mut self) {
        if std::mem::take(&mut self.recovering) {
            // SAFETY: the state is as large as the C code's, and nobody else has it.
            self.cwnd = unsafe { alcc_host_westwood_bdp(&self.state) };
            self.ssthresh = self.cwnd;
        }
    }
}

impl Controller for Beside {
    fn needs(&self) -> Needs {
        self.reference.needs()
    }

    fn on_start(&mut self, cx: &mut Cx<'_>, path: &Path) {
        self.mss = path.mss;
        self.reference.on_start(cx, path);
    }

    fn on_sent(&mut self, cx: &mut Cx<'_>, sent: &Sent) -> Tag {
        self.reference.on_sent(cx, sent)
    }

    fn on_ack(&mut self, cx: &mut Cx<'_>, ack: &AckBatch<'_>) {
        if !ack.in_recovery {
            self.repaired();
        }
        let window = Bytes::new(u64::from(self.cwnd) * self.mss.get());
        let used = ack.advanced && window_used(ack, window);
        let now = cx.now.since(Time::ZERO).as_nanos() / 1000 + 1;
        let us = |span: Span| u32::try_from(span.as_nanos() / 1000).unwrap();
        for packet in ack.acked {
            let n = u32::try_from(packet.len.get().div_ceil(self.mss.get())).unwrap();
            let rtt = us(packet.rtt.unwrap_or_default());
            // SAFETY: as in `repaired`.
            unsafe {
                alcc_host_westwood_measure(&mut self.state, now, rtt, n);
                if used && !self.recovering {
                    self.cwnd =
                        alcc_host_westwood_grow(&mut self.state, self.cwnd, self.ssthresh, n);
                }
            }
        }
        self.reference.on_ack(cx, ack);
        self.seen.lock().unwrap().acks += 1;
        self.compare();
    }

    fn on_loss(&mut self, cx: &mut Cx<'_>, loss: &LossBatch<'_>) {
        if loss.new_episode {
            // SAFETY: as in `repaired`.
            self.ssthresh = unsafe { alcc_host_westwood_ssthresh(&mut self.state, self.cwnd) };
            self.cwnd = self.ssthresh;
            self.recovering = true;
            self.seen.lock().unwrap().losses += 1;
        }
        self.reference.on_loss(cx, loss);
        self.compare();
    }

    fn on_rto(&mut self, cx: &mut Cx<'_>, rto: &Rto) {
        // SAFETY: as in `repaired`.
        unsafe {
            alcc_host_westwood_ssthresh(&mut self.state, self.cwnd);
            self.ssthresh = alcc_host_westwood_timeout(&mut self.state);
        }
        (self.cwnd, self.recovering) = (1, false);
        self.seen.lock().unwrap().timeouts += 1;
        self.reference.on_rto(cx, rto);
        self.compare();
    }

    fn on_recovery_end(&mut self, cx: &mut Cx<'_>, end: &RecoveryEnd) {
        self.repaired();
        self.reference.on_recovery_end(cx, end);
        self.compare();
    }

    fn allowance(&self) -> Allowance {
        self.reference.allowance()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        unreachable!("no path of these tests takes a snapshot")
    }
}

#[test]
fn on_the_same_acknowledgements_the_windows_stay_within_a_packet() {
    let resident = RESIDENT.iter().find(|r| r.algorithm == "westwood").unwrap();
    let spec: Spec = resident.follows.parse().unwrap();
    let link = |rate, rtt| {
        let rtt = Span::from_millis(rtt);
        Scenario::constant(Rate::mbps(rate), rtt, Span::from_secs(30))
    };
    let mut shallow = link(12, 50);
    shallow.queue = 20;
    let mut broken = link(12, 50);
    broken.queue = 20;
    broken.outage = Some((Time::from_millis(9000), Time::from_millis(12_000)));
    // The last two: losses, and timeouts at least, that the replay must have met.
    for (name, link, losses, timeouts) in [
        ("12 Mbit/s, 50 ms", link(12, 50), 0, 0),
        ("48 Mbit/s, 20 ms", link(48, 20), 0, 0),
        ("1 Mbit/s, 40 ms", link(1, 40), 0, 0),
        ("queue of 20 packets", shallow, 5, 0),
        ("3 s without service", broken, 5, 1),
    ] {
        let seen = Arc::<Mutex<Seen>>::default();
        let beside = Beside {
            reference: Registry::builtin().build(&spec).unwrap(),
            state: State([0; 13]),
            cwnd: 10,
            ssthresh: 1_000_000_000,
            recovering: false,
            mss: Bytes::new(1448),
            seen: Arc::clone(&seen),
        };
        run(&link, vec![Box::new(beside)]);
        let seen = seen.lock().unwrap();
        let (lost, late) = (seen.losses, seen.timeouts);
        println!(
            "{name}: {:.1} apart, {lost} losses, {late} timeouts",
            seen.apart
        );
        assert!(lost >= losses, "{name}: {lost} losses");
        assert!(late >= timeouts, "{name}: {late} timeouts");
        assert!(seen.acks > 1000, "{name}: {} acknowledgements", seen.acks);
        assert!(seen.apart <= 1.0, "{name}: {:.1} packets apart", seen.apart);
    }
}
