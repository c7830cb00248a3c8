// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A model of the kernel's stack around a control that leaves loss recovery to it: the callbacks of
//! `tcp_congestion_ops`, so that such a control is a controller here.
use alcc_cc::parts::{restart_window, rto, window_bytes, window_used};
use alcc_cc::{
    AckBatch, Allowance, Controller, Cx, Instance, LossBatch, Needs, Path, Pn, RecoveryEnd, Rto,
    RttView, Sent, Spurious, Tag,
};
use alcc_units::{Bytes, Span, Time};

unsafe extern "C" {
    fn alcc_host_growth_is_answer(ssthresh: u32) -> std::ffi::c_int;
    fn alcc_host_growth_mend(w: *mut Growth, prior: u32, left: u32);
}

/// `struct growth`: packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub(crate) struct Growth {
    pub(crate) cwnd: u32,
    pub(crate) ssthresh: u32,
}

/// An acknowledgement, as the kernel reports it.
#[derive(Clone, Copy)]
pub(crate) struct Ack {
    /// Microseconds, above 0.
    pub(crate) now: u64,
    /// Microseconds; 0: no sample.
    pub(crate) rtt: u32,
    pub(crate) segments: u32,
    /// All before this has arrived; the first that was not sent yet.
    pub(crate) ack: u32,
    pub(crate) next: u32,
    /// The window was what held the sender back.
    pub(crate) used: bool,
    /// Losses are being repaired.
    pub(crate) repairing: bool,
}

/// The callbacks.
pub(crate) trait Control: Clone + Send + 'static {
    /// The algorithm that it follows.
    const FOLLOWS: &'static str;
    fn new() -> Self;
    fn acked(&mut self, ack: &Ack);
    fn avoid(&mut self, w: Growth, ack: &Ack) -> Growth;
    fn ssthresh(&mut self, cwnd: u32) -> u32;
    /// Losses are repaired. The stack's own window is the threshold.
    fn repaired(&mut self, w: Growth, _next: u32) -> Growth {
        w
    }
    /// The window is one packet.
    fn timeout(&mut self, w: Growth, _next: u32) -> Growth {
        w
    }
    fn idle(&mut self, _next: u32) {}
}

#[derive(Clone)]
pub(crate) struct Stack<C> {
    control: C,
    w: Growth,
    recovering: bool,
    mss: Bytes,
    sent: Pn,
    rtt: RttView,
    undo: Option<Growth>,
    /// True if the kernel skips the next program.
    not_run: bool,
}

/// The value that the stack then takes for the answer: half of a kernel address, as observed on a
/// kernel that skipped a program.
const NOBODYS: u32 = 0x8110_4110;

/// `control` in the kernel's stack.
pub(crate) fn controller<C: Control>() -> Instance {
    Instance::new(stack::<C>())
}

fn stack<C: Control>() -> Stack<C> {
    Stack {
        control: C::new(),
        w: Growth {
            cwnd: 10,
            ssthresh: 0x7fff_ffff,
        },
        recovering: false,
        mss: Bytes::new(1448),
        sent: 0,
        rtt: RttView::default(),
        undo: None,
        not_run: false,
    }
}

fn is_answer(ssthresh: u32) -> bool {
    // SAFETY: it takes and returns a number.
    unsafe { alcc_host_growth_is_answer(ssthresh) != 0 }
}

pub(crate) fn micros(span: Span) -> u32 {
    u32::try_from(span.as_nanos() / 1000).unwrap_or(u32::MAX)
}

/// The kernel's clock, which is never 0.
pub(crate) fn clock(now: Time) -> u64 {
    now.as_nanos() / 1000 + 1
}

impl<C: Control> Stack<C> {
    fn next(&self) -> u32 {
        self.sent as u32 + 1
    }

    fn repaired(&mut self) {
        if std::mem::take(&mut self.recovering) {
            self.w = self.control.repaired(self.w, self.next());
        }
    }

    fn reduce(&mut self) {
        self.undo = Some(self.w);
        self.w.ssthresh = if std::mem::take(&mut self.not_run) {
            NOBODYS
        } else {
            self.control.ssthresh(self.w.cwnd)
        };
    }

    fn undone(&mut self) {
        let Some(before) = self.undo.take() else {
            return;
        };
        self.w.cwnd = if std::mem::take(&mut self.not_run) {
            NOBODYS
        } else {
            self.w.cwnd.max(before.cwnd)
        };
        self.w.ssthresh = before.ssthresh;
        self.recovering = false;
    }

    /// `MEND` of `stack.h`: with each acknowledgement, before anything else.
    fn mend(&mut self, prior: u32) {
        let answered = is_answer(self.w.ssthresh);
        if answered && self.w.cwnd <= 1 << 16 {
            return;
        }
        let left = if answered {
            0
        } else {
            self.control.ssthresh(prior)
        };
        // SAFETY: `Growth` is laid out as the C code's, and nobody else has it.
        unsafe { alcc_host_growth_mend(&mut self.w, prior, left) };
    }
}

impl<C: Control> Controller for Stack<C> {
    fn needs(&self) -> Needs {
        Needs {
            // No test of these marks.
            ecn: false,
            ..super::reference(C::FOLLOWS).needs()
        }
    }

    fn on_start(&mut self, _cx: &mut Cx<'_>, path: &Path) {
        self.mss = path.mss;
    }

    fn on_mtu(&mut self, _cx: &mut Cx<'_>, mss: Bytes) {
        self.mss = mss;
    }

    fn on_sent(&mut self, _cx: &mut Cx<'_>, sent: &Sent) -> Tag {
        self.sent = sent.pn;
        Tag::default()
    }

    fn on_ack(&mut self, cx: &mut Cx<'_>, ack: &AckBatch<'_>) {
        self.rtt = ack.rtt;
        if !ack.in_recovery {
            self.repaired();
        }
        let window = window_bytes(self.w.cwnd.into(), self.mss);
        let used = ack.advanced && window_used(ack, window);
        let Some(newest) = ack.acked.last() else {
            return;
        };
        // The kernel calls once for an acknowledgement, with the newest sample.
        let rtt = ack.acked.iter().rev().find_map(|p| p.rtt);
        let segments = ack
            .acked
            .iter()
            .map(|p| p.len.get().div_ceil(self.mss.get()));
        let told = Ack {
            now: clock(cx.now),
            rtt: micros(rtt.unwrap_or_default()),
            segments: segments.sum::<u64>() as u32,
            ack: newest.pn as u32 + 1,
            next: self.next(),
            used,
            repairing: ack.in_recovery,
        };
        self.control.acked(&told);
        if !self.recovering {
            self.w = self.control.avoid(self.w, &told);
        }
    }

    fn on_loss(&mut self, _cx: &mut Cx<'_>, loss: &LossBatch<'_>) {
        if loss.new_episode {
            self.reduce();
            self.w.cwnd = self.w.ssthresh;
            self.recovering = true;
        }
    }

    fn on_rto(&mut self, _cx: &mut Cx<'_>, rto: &Rto) {
        // Only the first timeout for the same data says something about the path.
        if rto.backoff <= 1 {
            self.reduce();
        }
        (self.w.cwnd, self.recovering) = (1, false);
        self.w = self.control.timeout(self.w, self.next());
    }

    fn on_spurious(&mut self, _cx: &mut Cx<'_>, _what: Spurious) {
        self.undone();
    }

    fn on_recovery_end(&mut self, _cx: &mut Cx<'_>, _end: &RecoveryEnd) {
        self.repaired();
    }

    fn on_idle_restart(&mut self, _cx: &mut Cx<'_>, idle: Span) {
        let timeout = rto(&self.rtt);
        if idle >= timeout {
            self.w.ssthresh = self.w.ssthresh.max(self.w.cwnd * 3 / 4);
            let left = restart_window(self.w.cwnd.into(), 10.0, idle, timeout);
            self.w.cwnd = left as u32;
        }
        self.control.idle(self.next());
    }

    fn allowance(&self) -> Allowance {
        Allowance::window(window_bytes(self.w.cwnd.into(), self.mss))
    }
}

/// 154 packets of window when losses are found, as in the run that showed it.
fn with_154<C: Control>() -> Stack<C> {
    let mut stack = stack::<C>();
    (stack.w.cwnd, stack.w.ssthresh) = (154, 100);
    stack
}

fn a_lost_answer_is_given_late<C: Control>() {
    let (mut asked, mut not_run) = (with_154::<C>(), with_154::<C>());
    not_run.not_run = true;
    for stack in [&mut asked, &mut not_run] {
        stack.reduce();
        stack.w.cwnd = stack.w.ssthresh;
        stack.mend(154);
    }
    assert_eq!(not_run.w, asked.w, "{}", C::FOLLOWS);
    // Reduced in steps (PRR) the window has a part of it: 151 of 154.
    not_run.w = Growth {
        cwnd: 2_123_144_412,
        ssthresh: NOBODYS,
    };
    not_run.mend(154);
    assert_eq!(not_run.w.ssthresh, asked.w.ssthresh, "{}", C::FOLLOWS);
    assert!(not_run.w.cwnd <= 154, "{}: {:?}", C::FOLLOWS, not_run.w);

    let (mut asked, mut not_run) = (with_154::<C>(), with_154::<C>());
    for stack in [&mut asked, &mut not_run] {
        stack.reduce();
    }
    not_run.not_run = true;
    for stack in [&mut asked, &mut not_run] {
        stack.undone();
        stack.mend(154);
    }
    assert_eq!(not_run.w, asked.w, "{}: undone", C::FOLLOWS);
}

#[test]
fn what_nobody_answered_the_stack_does_not_keep() {
    a_lost_answer_is_given_late::<super::bic::State>();
    a_lost_answer_is_given_late::<super::vegas::State>();
    a_lost_answer_is_given_late::<super::westwood::State>();
}

/// Valid answers of a control do not change, and there is no threshold before the first loss.
#[test]
fn what_a_control_answers_is_left_alone() {
    for ssthresh in [2, 3, 100, 1 << 16, 0x7fff_ffff] {
        assert!(is_answer(ssthresh), "{ssthresh}");
    }
    for ssthresh in [0, 1, (1 << 16) + 1, 0x7fff_fffe, NOBODYS, u32::MAX] {
        assert!(!is_answer(ssthresh), "{ssthresh}");
    }
}
