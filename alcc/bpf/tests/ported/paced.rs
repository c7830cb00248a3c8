// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A model of the kernel's stack around a control that sets window and rate with each
//! acknowledgement, so that such a control is a controller here.
use super::stack::micros;
use alcc_cc::parts::window_used;
use alcc_cc::{
    AckBatch, Allowance, Controller, Cx, Instance, LossBatch, Needs, Path, Rto, Sent, Spurious, Tag,
};
use alcc_units::{Bytes, Rate, Time};

/// Packets of a window in units of 2^-20.
const ONE: f64 = 1_048_576.0;

/// An acknowledgement, as the kernel reports it. Times in microseconds.
#[derive(Clone, Copy)]
pub(crate) struct Ack {
    pub(crate) now: u64,
    pub(crate) sent_at: u64,
    /// 0: no sample.
    pub(crate) rtt: u32,
    pub(crate) segments: u32,
    /// Half of the window was in flight; it was what held the sender back; the application was.
    pub(crate) used: bool,
    pub(crate) full: bool,
    pub(crate) idle: bool,
    /// Packets per second, 2^-8; 0: not known.
    pub(crate) rate: u64,
    /// Packets in flight before it.
    pub(crate) in_flight: u32,
}

/// The callbacks.
pub(crate) trait Control: Clone + Send + 'static {
    /// The algorithm that it follows.
    const FOLLOWS: &'static str;
    fn new() -> Self;
    fn start(&mut self, _now: u64) {}
    fn acked(&mut self, ack: &Ack);
    /// An episode of losses begins.
    fn episode(&mut self) {}
    /// The last of them was sent at `sent_at`.
    fn lost(&mut self, now: u64, sent_at: u64, segments: u32);
    fn timeout(&mut self, now: u64);
    /// The last losses, or the last timeout, were none.
    fn undone(&mut self) {}
    /// Time passes: what the stack's own timers would call.
    fn timer(&mut self, _now: u64) {}
    fn next_timer(&self) -> Option<u64> {
        None
    }
    /// The value to compare if it is not the window in force. Packets in units of 2^-20.
    fn target(&self) -> Option<u64> {
        None
    }
    /// Packets in units of 2^-20.
    fn cwnd(&self) -> u64;
    /// The window of which the stack uses the whole packets. Packets in units of 2^-20.
    fn window(&self) -> u64 {
        self.cwnd()
    }
    /// Bytes per second; 0: not paced yet.
    fn pacing_rate(&self, mss: u32) -> u64;
}

#[derive(Clone)]
struct Paced<C> {
    control: C,
    mss: Bytes,
}

/// `control` in the kernel's stack.
pub(crate) fn controller<C: Control>() -> Instance {
    Instance::new(Paced {
        control: C::new(),
        mss: Bytes::new(1448),
    })
}

fn clock(now: Time) -> u64 {
    now.as_nanos() / 1000
}

impl<C: Control> Paced<C> {
    fn segments(&self, bytes: Bytes) -> u32 {
        bytes.get().div_ceil(self.mss.get()).max(1) as u32
    }
}

impl<C: Control> Controller for Paced<C> {
    fn needs(&self) -> Needs {
        super::reference(C::FOLLOWS).needs()
    }

    fn on_start(&mut self, cx: &mut Cx<'_>, path: &Path) {
        self.mss = path.mss;
        self.control.start(clock(cx.now));
    }

    fn on_mtu(&mut self, _cx: &mut Cx<'_>, mss: Bytes) {
        self.mss = mss;
    }

    fn on_sent(&mut self, _cx: &mut Cx<'_>, _sent: &Sent) -> Tag {
        Tag::default()
    }

    fn on_ack(&mut self, cx: &mut Cx<'_>, ack: &AckBatch<'_>) {
        let used = window_used(ack, self.allowance().window);
        let by = ack.limited;
        let in_flight = self.segments(ack.in_flight_before);
        let rate = ack
            .rate
            .map_or(0, |rate| rate.as_bps() * 32 / self.mss.get());
        // The kernel calls once for an acknowledgement, with the newest sample.
        let sampled = ack.acked.iter().rev().find(|p| p.rtt.is_some());
        let Some(packet) = sampled.or_else(|| ack.acked.last()) else {
            return;
        };
        self.control.acked(&Ack {
            now: clock(cx.now),
            sent_at: clock(packet.sent_at),
            rtt: micros(packet.rtt.unwrap_or_default()),
            segments: ack.acked.iter().map(|p| self.segments(p.len)).sum(),
            used,
            // This host sends packet by packet.
            full: f64::from(in_flight + 1) > self.control.cwnd() as f64 / ONE,
            idle: (by.app || by.peer) && !by.window,
            rate,
            in_flight,
        });
    }

    fn on_loss(&mut self, cx: &mut Cx<'_>, loss: &LossBatch<'_>) {
        if loss.new_episode {
            self.control.episode();
        }
        let lost = loss.lost.iter().map(|p| self.segments(p.len)).sum();
        let sent_at = loss.lost.last().map_or(cx.now, |p| p.sent_at);
        self.control.lost(clock(cx.now), clock(sent_at), lost);
    }

    fn on_rto(&mut self, cx: &mut Cx<'_>, _rto: &Rto) {
        self.control.timeout(clock(cx.now));
    }

    fn on_spurious(&mut self, _cx: &mut Cx<'_>, _what: Spurious) {
        self.control.undone();
    }

    fn on_timer(&mut self, cx: &mut Cx<'_>) {
        self.control.timer(clock(cx.now));
    }

    fn next_timer(&self) -> Option<Time> {
        let at = self.control.next_timer();
        at.map(|us| Time::from_nanos(us.saturating_mul(1000)))
    }

    fn allowance(&self) -> Allowance {
        let mss = u32::try_from(self.mss.get()).expect("a segment is small");
        let rate = self.control.pacing_rate(mss);
        let packets = self.control.window() as f64 / ONE;
        Allowance {
            window: Bytes::new((packets * self.mss.get() as f64) as u64).max(self.mss),
            rate: (rate > 0).then(|| {
                Rate::bps(rate.saturating_mul(8)).clamp(Rate::bps(8000), Rate::mbps(1_000_000))
            }),
            burst: self.mss,
            ..Allowance::UNLIMITED
        }
    }

    fn gauges(&self, put: &mut dyn FnMut(&'static str, f64)) {
        if let Some(target) = self.control.target() {
            put("window", target as f64 / ONE);
        }
    }
}
