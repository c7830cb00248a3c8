// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Records the events and the allowances of an algorithm.
use super::START;
use alcc_cc::{
    AckBatch, Allowance, Controller, Cx, Instance, LossBatch, Needs, Packet, Path, RecoveryEnd,
    Rto, RttView, Sent, Spec, Spurious, Tag,
};
use alcc_units::{Bytes, Rate, Span, Time};
use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One event, and what holds after it.
pub(super) struct Told {
    at: Time,
    name: &'static str,
    /// Packets that were sent at one moment and are alike.
    count: u64,
    length: u64,
    /// Bytes in flight before the first of them.
    before: u64,
    values: String,
    answer: String,
}

/// The host below the algorithm.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Host {
    /// A flow above TCP.
    Stream,
    /// It sends its packets itself, and numbers them.
    Packets,
}

impl Host {
    pub(super) fn named(name: &str) -> Self {
        let hosts = [Self::Stream, Self::Packets].into_iter();
        hosts
            .into_iter()
            .find(|host| host.name() == name)
            .expect("a host")
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Stream => "stream",
            Self::Packets => "packets",
        }
    }
}

/// Algorithms that use the host's measurements. The others measure themselves.
const ASK: [&str; 5] = ["bic", "copa", "vegas", "verus", "westwood"];

/// Passes everything on and writes it down.
#[derive(Clone)]
pub(super) struct Recorder {
    inner: Instance,
    host: Host,
    asks: bool,
    /// Packets so far.
    sent: u64,
    /// The host's measurements as they were last written.
    measured: (RttView, Option<Rate>),
    story: Arc<Mutex<Vec<Told>>>,
}

fn limit(bytes: Bytes) -> i64 {
    if bytes == Bytes::MAX {
        -1
    } else {
        bytes.get() as i64
    }
}

impl Recorder {
    /// Around an algorithm of the registry.
    pub(super) fn new(spec: &str, host: Host) -> (Self, Arc<Mutex<Vec<Told>>>) {
        let spec: Spec = spec.parse().expect("a name");
        let inner = alcc_zoo::registry().build(&spec).expect("builtin");
        let asks = host == Host::Packets && ASK.contains(&spec.name.as_str());
        let story = Arc::default();
        let kept = Arc::clone(&story);
        let recorder = Self {
            inner,
            host,
            asks,
            sent: 0,
            measured: Default::default(),
            story,
        };
        (recorder, kept)
    }

    /// A packet: its bytes, its age, a third value, and its number where packets have one.
    fn packet(&self, now: Time, packet: &Packet, third: u64) -> String {
        let (len, age) = (packet.len.get(), now.since(packet.sent_at).as_nanos());
        match self.host {
            Host::Stream => format!(",{len},{age},{third}"),
            Host::Packets => format!(",{len},{age},{third},{}", packet.pn),
        }
    }

    /// Only where something depends on it.
    fn note_measured(&mut self, at: Time, rtt: RttView, rate: Option<Rate>) {
        let measured = (rtt, rate);
        if !self.asks || measured == self.measured {
            return;
        }
        self.measured = measured;
        let spans = [rtt.latest, rtt.smoothed, rtt.variance, rtt.min];
        let [latest, smoothed, variance, min] = spans.map(Span::as_nanos);
        let rate = rate.map_or(0, Rate::as_bps);
        let values = format!(",{latest},{smoothed},{variance},{min},{rate}");
        self.note(at, "host", values);
    }

    fn answer(&self) -> String {
        let allowance = self.inner.allowance();
        let timer = self.inner.next_timer();
        format!(
            "{},{},{},{},{}",
            limit(allowance.window),
            limit(allowance.quota),
            allowance.rate.map_or(0, |rate| rate.as_bps()),
            allowance.burst.get(),
            timer.map_or(-1, |at| at.since(START).as_nanos() as i64),
        )
    }

    fn story(&self) -> MutexGuard<'_, Vec<Told>> {
        self.story.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, at: Time, name: &'static str, values: String) {
        self.story().push(Told {
            at,
            name,
            count: 1,
            length: 0,
            before: 0,
            values,
            answer: self.answer(),
        });
    }

    fn note_sent(&mut self, at: Time, sent: &Sent, tag: Tag) {
        let (len, before) = (sent.len.get(), sent.in_flight_before.get());
        let mut values = format!(",{}", tag.0);
        if self.host == Host::Packets {
            assert_eq!(sent.pn, self.sent, "numbers say how many were sent before");
            write!(values, ",{}", u32::from(sent.app_limited)).expect("a string takes all");
        }
        self.sent += 1;
        let answer = self.answer();
        let mut story = self.story();
        let alike = |last: &&mut Told| {
            let follows = last.length == len && last.before + last.count * len == before;
            follows && last.name == "sent" && last.at == at && last.values == values
        };
        if let Some(last) = story.last_mut().filter(alike) {
            last.count += 1;
            last.answer = answer;
            return;
        }
        story.push(Told {
            at,
            name: "sent",
            count: 1,
            length: len,
            before,
            values,
            answer,
        });
    }
}

impl Controller for Recorder {
    fn needs(&self) -> Needs {
        self.inner.needs()
    }

    fn on_start(&mut self, cx: &mut Cx<'_>, path: &Path) {
        self.inner.on_start(cx, path);
        self.note(
            cx.now,
            "start",
            format!(",{},{}", path.mss.get(), path.seed),
        );
    }

    fn on_sent(&mut self, cx: &mut Cx<'_>, sent: &Sent) -> Tag {
        let tag = self.inner.on_sent(cx, sent);
        self.note_sent(cx.now, sent, tag);
        tag
    }

    fn on_ack(&mut self, cx: &mut Cx<'_>, ack: &AckBatch<'_>) {
        self.note_measured(cx.now, ack.rtt, ack.rate);
        self.inner.on_ack(cx, ack);
        let by = ack.limited;
        let advanced = ack.advanced && self.host == Host::Packets;
        let flags = [
            by.window,
            by.quota,
            by.pacer,
            by.app,
            ack.in_recovery,
            advanced,
        ];
        let flags: u32 = (flags.iter().enumerate())
            .map(|(i, set)| u32::from(*set) << i)
            .sum();
        let mut event = format!(
            ",{},{},{flags},{}",
            ack.in_flight_before.get(),
            ack.in_flight.get(),
            ack.rtt_error.as_nanos()
        );
        for packet in ack.acked {
            let rtt = packet.rtt.unwrap_or_default();
            event += &self.packet(cx.now, packet, rtt.as_nanos());
        }
        self.note(cx.now, "ack", event);
    }

    fn on_loss(&mut self, cx: &mut Cx<'_>, loss: &LossBatch<'_>) {
        self.note_measured(cx.now, loss.rtt, self.measured.1);
        self.inner.on_loss(cx, loss);
        let (after, first) = (loss.in_flight.get(), u32::from(loss.new_episode));
        let lost = (loss.lost.iter()).map(|packet| self.packet(cx.now, packet, packet.tag.0));
        let lost: String = lost.collect();
        self.note(cx.now, "loss", format!(",{after},{first}{lost}"));
    }

    fn on_rto(&mut self, cx: &mut Cx<'_>, rto: &Rto) {
        self.inner.on_rto(cx, rto);
        let event = format!(
            ",{},{},{}{}",
            rto.backoff,
            rto.in_flight.get(),
            rto.silence.as_nanos(),
            self.packet(cx.now, &rto.oldest, rto.oldest.tag.0)
        );
        self.note(cx.now, "rto", event);
    }

    fn on_recovery_end(&mut self, cx: &mut Cx<'_>, end: &RecoveryEnd) {
        self.inner.on_recovery_end(cx, end);
        self.note(cx.now, "recovered", format!(",{}", end.in_flight.get()));
    }

    fn on_spurious(&mut self, _cx: &mut Cx<'_>, _what: Spurious) {
        unreachable!("nothing overtakes anything here")
    }

    fn on_idle_restart(&mut self, cx: &mut Cx<'_>, idle: Span) {
        self.inner.on_idle_restart(cx, idle);
        self.note(cx.now, "idle", format!(",{}", idle.as_nanos()));
    }

    fn on_timer(&mut self, cx: &mut Cx<'_>) {
        self.inner.on_timer(cx);
        self.note(cx.now, "timer", String::new());
    }

    fn allowance(&self) -> Allowance {
        self.inner.allowance()
    }

    fn next_timer(&self) -> Option<Time> {
        self.inner.next_timer()
    }
}

/// Times as nanoseconds since the event before; answers where they change.
pub(super) fn lines(story: Arc<Mutex<Vec<Told>>>) -> Vec<String> {
    let story = Arc::into_inner(story).expect("the flow is gone");
    let story = story.into_inner().unwrap_or_else(PoisonError::into_inner);
    let (mut lines, mut before, mut answer) = (Vec::new(), START, "");
    for told in &story {
        let (name, after) = (told.name, told.at.since(before).as_nanos());
        let run = if name == "sent" {
            format!(",{},{},{}", told.count, told.length, told.before)
        } else {
            String::new()
        };
        lines.push(format!("[\"{name}\",{after}{run}{}]", told.values));
        if told.answer != answer {
            lines.push(format!("[\"is\",{}]", told.answer));
        }
        (before, answer) = (told.at, &told.answer);
    }
    lines
}
