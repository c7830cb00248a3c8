// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The duties of every host towards an algorithm, in one place.
//!
//! A *host* runs an algorithm above a sender: a TCP socket, datagrams, a QUIC stack or a simulated kernel. It calls the
//! algorithm only through a [`Feed`], so that all hosts keep one contract:
//!
//! | duty | kept by |
//! |---|---|
//! | time never runs backwards | [`Feed::advance`] |
//! | events of one instant come in the order of [`Controller`] | the host, by step 3 below |
//! | batches are never empty; the host sorts them | [`Feed::lost`], [`Feed::acked`] |
//! | totals and stamps have one origin | [`Delivery`] |
//! | rounds are timed by packets | [`Feed::acked`] |
//! | limits of the sender are reported once | [`Feed::limited`] |
//! | marks are reported once, with the next batch | [`Feed::marked`] |
//! | an episode ends after the ACK, or before the next one begins | [`Feed::repaired`] |
//! | a pause is reported once, with nothing in flight | [`Feed::resume`] |
//! | the receiver module gets an acknowledgement first | [`Feed::notify_local_receiver`] |
//! | timers are never early | [`Feed::run_timer`] |
//!
//! Only a host knows which packets were sent, arrived or were lost, how much is in flight, and the round-trip times. It
//! also reports when an episode of losses begins and ends. To add a host:
//!
//! 1. Call [`Feed::advance`] first in every entry point, and use the time that it returns.
//! 2. Give every transmission a new number, and keep the [`Tag`] and the stamp
//!    ([`Delivery::stamp`]) with it.
//! 3. For an acknowledgement call those of the following that apply, in this order: [`Feed::notify_local_receiver`] or
//!    [`Feed::feedback`], [`Feed::spurious`], [`Feed::expired`], [`Feed::repaired`], [`Feed::lost`], [`Feed::acked`],
//!    [`Feed::run_timer`]. Then send.
//! 4. Before a packet leaves with nothing in flight, call [`Feed::resume`].
//! 5. Test it: [`conformance::check_host`](crate::conformance::check_host) drives it and compares
//!    with the reference host.
mod delivery;
mod local;

pub use delivery::Delivery;

use crate::{
    AckBatch, Allowance, Controller, Cx, Discard, Event, EventSink, Header, Instance, LimitedBy,
    LossBatch, Needs, Packet, Path, RecoveryEnd, Rto, RttView, Sending, Sent, Source, Spurious,
    Tag,
};
use alcc_units::{Bytes, Rate, Span, Time};
use local::LocalReceiver;
use std::cell::Cell;

/// Receives the events of an algorithm, with the round-trip times known to its host at that time.
pub type Log = Box<dyn FnMut(Time, Event, RttView) + Send>;

/// Adds the RTT to the events of the algorithm.
struct Completed<'a> {
    log: &'a mut Log,
    rtt: RttView,
}

impl EventSink for Completed<'_> {
    fn event(&mut self, now: Time, event: Event) {
        (self.log)(now, event, self.rtt);
    }
}

/// The order of events at one instant. [`Feed::allowance`] starts it again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Begin,
    Feedback,
    Loss,
    Ack,
    Timer,
}

/// An algorithm with the state that its host must keep for it, and the calls of the host.
///
/// ```
/// use alcc_cc::{Acked, Delivery, Feed, Packet, Path, Registry, RttView, Sent, Source};
/// use alcc_units::{Bytes, Span, Time};
///
/// let (len, rtt) = (Bytes::new(1448), Span::from_millis(40));
/// let mut feed = Feed::new(Registry::builtin().build(&"reno".parse()?)?, Time::ZERO);
/// feed.start(&Path { mss: len, ..Path::default() });
/// let mut delivery = Delivery::new(Time::ZERO);
/// let before = feed.allowance().window;
///
/// let tag = feed.sent(&Sent { len, ..Sent::default() });
/// let packet = Packet { len, tag, stamp: delivery.stamp(len, false), rtt: Some(rtt), ..Packet::default() };
///
/// let now = feed.advance(Time::ZERO + rtt);
/// delivery.arrived(now, &packet);
/// feed.acked(&Acked {
///     packets: &[packet],
///     in_flight_before: len,
///     in_flight: Bytes::ZERO,
///     delivery: &delivery,
///     rtt: RttView { latest: rtt, smoothed: rtt, variance: rtt / 2, min: rtt },
///     rate: delivery.rate(&[packet]),
///     in_recovery: false,
///     advanced: true,
///     source: Source::Wire,
///     rtt_error: Span::ZERO,
/// });
/// assert_eq!(feed.allowance().window, before); // most of the window was unused
/// # Ok::<(), alcc_cc::SpecError>(())
/// ```
pub struct Feed {
    cc: Instance,
    log: Option<Log>,
    /// Round-trip times of the last batch.
    rtt: RttView,
    now: Time,
    /// The step that this instant has reached.
    step: Cell<Step>,
    started: bool,
    local: Option<LocalReceiver>,
    /// A round trip ends when a packet is acknowledged that was sent after this total had been delivered.
    round_ends: Bytes,
    limited: LimitedBy,
    /// Marked bytes not yet reported.
    marked: Bytes,
    /// True if a recovery episode was reported to the algorithm.
    episode: bool,
    /// End of the episode, not yet reported.
    repaired: Option<RecoveryEnd>,
    sent_at: Option<Time>,
}

/// The result of an acknowledgement.
#[derive(Clone, Copy, Debug)]
pub struct Acked<'a> {
    /// The acknowledged packets, ascending.
    pub packets: &'a [Packet],
    /// Bytes in flight before the acknowledgement.
    pub in_flight_before: Bytes,
    /// Bytes in flight after the acknowledgement.
    pub in_flight: Bytes,
    /// Total delivered, including these packets.
    pub delivery: &'a Delivery,
    /// RTT estimate.
    pub rtt: RttView,
    /// Delivery rate over the flight of the newest packet: [`Delivery::rate`], unless the host has a better value.
    pub rate: Option<Rate>,
    /// True if the host is in loss recovery.
    pub in_recovery: bool,
    /// [`AckBatch::advanced`].
    pub advanced: bool,
    /// The source of the acknowledgement.
    pub source: Source,
    /// Bound on the error of the RTT samples.
    pub rtt_error: Span,
}

impl Feed {
    /// An algorithm that has not started.
    pub fn new(cc: Instance, now: Time) -> Self {
        Self {
            cc,
            log: None,
            rtt: RttView::default(),
            now,
            step: Cell::new(Step::Begin),
            started: false,
            local: None,
            round_ends: Bytes::ZERO,
            limited: LimitedBy::default(),
            marked: Bytes::ZERO,
            episode: false,
            repaired: None,
            sent_at: None,
        }
    }

    /// Sets the sink for the algorithm's events. Until then they are discarded: for the events of
    /// the start, call this before [`Feed::start`].
    pub fn set_log(&mut self, log: Log) {
        self.log = Some(log);
    }

    /// Runs the algorithm's receiver module here, if it has one. The peer does not know the
    /// algorithm, and acknowledgements stand for arrivals.
    pub fn use_local_receiver(&mut self) {
        self.local = LocalReceiver::of(&self.cc);
    }

    /// Starts the algorithm.
    pub fn start(&mut self, path: &Path) {
        self.started = true;
        self.call(|cc, cx| cc.on_start(cx, path));
    }

    /// True after [`Feed::start`].
    #[inline]
    pub fn is_started(&self) -> bool {
        self.started
    }

    /// Advances the clock to `now`, or leaves it if it is ahead. Returns the time in force.
    #[inline]
    pub fn advance(&mut self, now: Time) -> Time {
        if now > self.now {
            self.settle();
            self.now = now;
            self.step.set(Step::Begin);
        }
        self.now
    }

    /// Moves the order to `step`. If the order is past it, a new instant begins: a timer may overtake kernel time
    /// stamps, and one datagram may carry events from before the last one.
    #[inline]
    fn at(&mut self, step: Step) {
        if self.step.get() > step {
            self.advance(self.now + Span::from_nanos(1));
        }
        self.step.set(step);
    }

    /// The time of the last event.
    #[inline]
    pub fn now(&self) -> Time {
        self.now
    }

    fn call<R>(&mut self, event: impl FnOnce(&mut Instance, &mut Cx<'_>) -> R) -> R {
        let (now, rtt) = (self.now, self.rtt);
        let mut completed;
        let log: &mut dyn EventSink = match &mut self.log {
            None => &mut Discard,
            Some(log) => {
                completed = Completed { log, rtt };
                &mut completed
            }
        };
        event(&mut self.cc, &mut Cx { now, log })
    }

    /// Sending restarts with nothing in flight; the last ACK was at `heard_at`. Reports an idle time above the smoothed
    /// RTT, once. Returns true if it did.
    #[inline]
    pub fn resume(&mut self, heard_at: Time, smoothed: Span) -> bool {
        let Some(sent_at) = self.sent_at else {
            return false;
        };
        let idle = self.now.since(sent_at.max(heard_at));
        if idle <= smoothed {
            return false;
        }
        self.sent_at = None;
        self.pause(idle);
        true
    }

    #[cold]
    pub(crate) fn pause(&mut self, idle: Span) {
        self.call(|cc, cx| cc.on_idle_restart(cx, idle));
    }

    /// A packet is sent.
    #[inline(always)]
    pub fn sent(&mut self, sent: &Sent) -> Tag {
        self.settle();
        self.sent_at = Some(self.now);
        self.call(|cc, cx| cc.on_sent(cx, sent))
    }

    /// The length of headers; zero if the algorithm has no receiver module.
    pub fn header_len(&self) -> u8 {
        self.cc.header_len()
    }

    /// The header of the last packet, for the receiver module.
    pub fn header(&mut self, sending: Sending) -> Header {
        let header = self.call(|cc, cx| cc.header(cx, &sending));
        let Some(local) = &mut self.local else {
            return header;
        };
        local.sent(sending.pn, header);
        Header::EMPTY
    }

    /// True if [`Feed::use_local_receiver`] found a receiver module, which needs the header of each packet.
    pub fn has_local_receiver(&self) -> bool {
        self.local.is_some()
    }

    /// Passes a report of the peer's receiver module to the algorithm. Its bytes are untrusted.
    pub fn feedback(&mut self, report: &[u8]) {
        self.at(Step::Feedback);
        self.call(|cc, cx| cc.on_feedback(cx, report));
    }

    /// Passes arrivals to the local receiver module, in order, runs its timer, and delivers its
    /// report.
    pub fn notify_local_receiver(&mut self, arrived: &[Packet]) {
        let now = self.now;
        let Some(local) = &mut self.local else { return };
        local.acknowledged(now, arrived);
        if let Some(report) = local.report(now) {
            self.feedback(&report);
        }
    }

    /// Reports that a reduction was spurious.
    pub fn spurious(&mut self, what: Spurious) {
        self.call(|cc, cx| cc.on_spurious(cx, what));
    }

    /// Reports that the retransmission timer expired.
    pub fn expired(&mut self, rto: &Rto) {
        self.settle();
        self.call(|cc, cx| cc.on_rto(cx, rto));
    }

    /// Notes the end of an episode. It is reported when due: before the losses of a new episode, otherwise after the
    /// ACK.
    pub fn repaired(&mut self, in_flight: Bytes, rtt: RttView) {
        self.repaired = Some(RecoveryEnd { in_flight, rtt });
    }

    /// Reports the end of an episode, if due.
    #[inline]
    pub fn settle(&mut self) {
        if self.repaired.is_some() {
            self.end_episode();
        }
    }

    #[cold]
    fn end_episode(&mut self) {
        if let Some(end) = self.repaired.take() {
            self.episode = false;
            self.call(|cc, cx| cc.on_recovery_end(cx, &end));
        }
    }

    /// Reports lost packets, ascending.
    pub fn lost(&mut self, lost: &[Packet], new_episode: bool, in_flight: Bytes, rtt: RttView) {
        if lost.is_empty() {
            return;
        }
        self.at(Step::Loss);
        self.rtt = rtt;
        if new_episode {
            if self.episode && self.repaired.is_none() {
                self.repaired(in_flight, rtt);
            }
            self.settle();
            self.episode = true;
        }
        let loss = LossBatch {
            lost,
            new_episode,
            in_flight,
            rtt,
        };
        self.call(|cc, cx| cc.on_loss(cx, &loss));
    }

    /// The limits of the sender, collected until the next batch.
    #[inline]
    pub fn limited(&mut self) -> &mut LimitedBy {
        &mut self.limited
    }

    /// Adds bytes with a CE mark, which are reported with the next batch.
    #[inline]
    pub fn marked(&mut self, bytes: Bytes) {
        self.marked += bytes;
    }

    /// Reports acknowledged packets. True if a round trip begins with them.
    #[inline(always)]
    pub fn acked(&mut self, acked: &Acked<'_>) -> bool {
        let Some(newest) = acked.packets.last() else {
            return false;
        };
        self.at(Step::Ack);
        self.rtt = acked.rtt;
        let delivered = acked.delivery.total();
        let round_start = newest.stamp.delivered >= self.round_ends;
        if round_start {
            self.round_ends = delivered;
        }
        let batch = AckBatch {
            acked: acked.packets,
            in_flight_before: acked.in_flight_before,
            in_flight: acked.in_flight,
            delivered,
            rtt: acked.rtt,
            rate: acked.rate,
            round_start,
            limited: std::mem::take(&mut self.limited),
            in_recovery: acked.in_recovery,
            advanced: acked.advanced,
            source: acked.source,
            rtt_error: acked.rtt_error,
            marked: std::mem::take(&mut self.marked),
        };
        self.call(|cc, cx| cc.on_ack(cx, &batch));
        self.settle();
        round_start
    }

    /// Reports a new packet size.
    pub fn mtu(&mut self, mss: Bytes) {
        self.call(|cc, cx| cc.on_mtu(cx, mss));
    }

    /// Frees memory while nothing is in flight and no data waits to be sent.
    pub fn release_memory(&mut self) {
        self.cc.release_memory();
        if let Some(local) = &mut self.local {
            local.release_memory();
        }
    }

    /// True if the algorithm's timer is due.
    #[inline]
    pub fn is_due(&self) -> bool {
        self.next_timer().is_some_and(|due| due <= self.now)
    }

    /// Ends the processing of an instant: runs the algorithm's timer if it is due.
    #[inline]
    pub fn run_timer(&mut self) {
        self.settle();
        if self.is_due() {
            self.at(Step::Timer);
            self.call(|cc, cx| cc.on_timer(cx));
        }
    }

    /// Time at which [`Feed::run_timer`] is due. A timer at [`Time::MAX`], the saturated end of sums of times, is never
    /// due.
    #[inline]
    pub fn next_timer(&self) -> Option<Time> {
        self.cc
            .next_timer()
            .filter(|at| self.started && *at < Time::MAX)
    }

    /// Time at which [`Feed::notify_local_receiver`] is due without arrivals.
    pub fn next_report(&self) -> Option<Time> {
        self.local.as_ref()?.next_timer()
    }

    /// The algorithm's allowance.
    #[inline]
    pub fn allowance(&self) -> Allowance {
        self.step.set(Step::Begin);
        self.cc.allowance()
    }

    /// The algorithm's requirements to its host.
    pub fn needs(&self) -> Needs {
        self.cc.needs()
    }

    /// The algorithm, for reading its state.
    #[inline]
    pub fn controller(&self) -> &dyn Controller {
        &*self.cc
    }

    /// A complete snapshot. Its events are discarded.
    #[must_use]
    pub fn fork(&self) -> Self {
        Self {
            cc: self.cc.clone(),
            log: None,
            local: self.local.clone(),
            step: self.step.clone(),
            ..*self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::Checked;
    use alcc_units::Spec;

    #[test]
    fn what_a_timer_overtook_comes_after_it() {
        let sprout: Spec = "sprout".parse().expect("a name");
        let sprout = Checked::registry(&crate::Registry::builtin())
            .build(&sprout)
            .expect("builtin");
        let mut feed = Feed::new(sprout, Time::ZERO);
        feed.start(&Path {
            mss: Bytes::new(1448),
            seed: 1,
            rtt_hint: None,
        });
        let due = feed.next_timer().expect("Sprout ticks");
        feed.advance(due);
        feed.run_timer();
        feed.advance(Time::ZERO + due.since(Time::ZERO) / 2);
        feed.feedback(&[]);
        assert!(feed.now() > due, "another instant");
    }

    #[derive(Clone)]
    struct TimerAt(Time);

    impl Controller for TimerAt {
        fn on_ack(&mut self, _cx: &mut Cx<'_>, _ack: &AckBatch<'_>) {}

        fn on_timer(&mut self, cx: &mut Cx<'_>) {
            self.0 = cx.now + Span::MAX / 2;
        }

        fn next_timer(&self) -> Option<Time> {
            Some(self.0)
        }

        fn allowance(&self) -> Allowance {
            Allowance::window(Bytes::new(1448))
        }
    }

    #[test]
    fn a_timer_at_the_end_of_the_clock_is_never_due() {
        let last = Time::from_nanos(u64::MAX - 1);
        let mut feed = Feed::new(Instance::new(TimerAt(last)), Time::ZERO);
        feed.start(&Path {
            mss: Bytes::new(1448),
            seed: 1,
            rtt_hint: None,
        });
        assert_eq!(feed.next_timer(), Some(last));
        feed.advance(last);
        feed.run_timer();
        assert_eq!(feed.next_timer(), None);
        feed.advance(Time::MAX);
        assert!(!feed.is_due(), "of a plan that saturated");
    }
}
