// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One end of a connection, without I/O: bytes in, bytes out, time as an argument.
mod receiving;
pub use receiving::When;
mod sending;

use crate::arrivals::Arrivals;
use crate::frame::{self, Decoder, reason};
use crate::output::Output;
use crate::preface::{MAX_NAME, Preface};
use crate::{Error, Settings};
use alcc_cc::{Controller, Discard, Receiver, Registry, Report, Spec};
use alcc_flow::{OverTcp, Pacer};
use alcc_units::{Bytes, Span, Time};
use std::collections::VecDeque;
use std::sync::Arc;

/// Acknowledgements are wanted so often by an algorithm that decides by reports.
const REPORTED: Span = Span::from_millis(20);

/// What a session did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Payload that was framed.
    pub sent: u64,
    /// Bytes of frames and preface in all that were given out.
    pub bytes_out: u64,
    /// Payload that arrived.
    pub received: u64,
    /// Bytes of frames and preface in all that came in.
    pub bytes_in: u64,
    /// Acknowledgements sent.
    pub acks_out: u64,
    /// Acknowledgements heard.
    pub acks_in: u64,
    /// How often the algorithm held bytes back.
    pub gate_closed: u64,
}

/// How far our own direction is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ending {
    Open,
    /// CLOSE follows what is in the queue.
    Wanted,
    /// It has left; data ended at the first position, and the second acknowledges CLOSE, too.
    Sent(u64, u64),
}

/// One end of a connection.
///
/// The host brings what has come ([`Session::on_bytes`], [`Session::on_end`]), calls
/// [`Session::on_timer`] when [`Session::next_timer`] is due, and carries away what
/// [`Session::output`] gives. What the peer says is checked; memory is bounded by [`Settings`].
pub struct Session {
    registry: Arc<Registry>,
    settings: Settings,
    error: Option<Error>,
    /// The peer has to be told why.
    farewell: Option<u8>,
    began: Time,
    opener: bool,
    said: bool,
    /// What has come of the peer's preface.
    preface: Vec<u8>,
    /// When it was heard last; `None`: its preface has not come.
    heard: Option<Time>,
    /// When something left with nothing under way.
    asked: Time,
    /// The stream below has ended in good order.
    gone: bool,
    cc: Option<Box<dyn Controller>>,
    needed: String,
    headed: Option<u8>,
    flow: Option<OverTcp>,
    mss: u64,
    credit: u64,
    queue: VecDeque<u8>,
    queue_due: Option<Time>,
    /// What is in the queue may leave as soon as the algorithm lets it.
    queue_ripe: bool,
    pacer: Pacer,
    paced_until: Option<Time>,
    ending: Ending,
    ack_interval: Span,
    decoder: Decoder,
    arrivals: Arrivals,
    half: Option<Box<dyn Receiver>>,
    half_now: Time,
    frame: receiving::Frame,
    received: VecDeque<u8>,
    edge: u64,
    told_edge: u64,
    ended: bool,
    ack_due: Option<Time>,
    acked_at: Time,
    report: Option<Report>,
    pong: Option<[u8; 8]>,
    stats: Stats,
}

impl Session {
    /// The end that opened the connection: it speaks first.
    ///
    /// # Errors
    /// [`Error::Algorithm`] if there is no such algorithm or its name is too long for the preface.
    pub fn connect(now: Time, registry: &Arc<Registry>, settings: Settings) -> Result<Self, Error> {
        Self::new(now, registry, settings, true)
    }

    /// The end that accepted it: it is silent until the other has said the magic words.
    ///
    /// # Errors
    /// As [`Session::connect`].
    pub fn accept(now: Time, registry: &Arc<Registry>, settings: Settings) -> Result<Self, Error> {
        Self::new(now, registry, settings, false)
    }

    fn new(
        now: Time,
        registry: &Arc<Registry>,
        settings: Settings,
        opener: bool,
    ) -> Result<Self, Error> {
        let cc = registry
            .build(&settings.cc)
            .map_err(|why| Error::Algorithm(why.to_string()))?;
        let needs = cc.needs();
        let needed = if needs.receiver {
            settings.cc.to_string()
        } else {
            String::new()
        };
        if needed.len() > MAX_NAME {
            return Err(Error::Algorithm(format!(
                "its name has {} bytes, {MAX_NAME} is the most",
                needed.len()
            )));
        }
        let mss = settings.segment.clamp(256, 65_535);
        Ok(Self {
            registry: Arc::clone(registry),
            error: None,
            farewell: None,
            began: now,
            opener,
            said: false,
            preface: Vec::new(),
            heard: None,
            cc: Some(cc),
            needed,
            headed: (needs.header > 0).then_some(needs.header.min(16)),
            flow: None,
            mss: mss as u64,
            credit: 0,
            queue: VecDeque::new(),
            queue_due: None,
            queue_ripe: false,
            asked: now,
            gone: false,
            pacer: Pacer::new(now),
            paced_until: None,
            ending: Ending::Open,
            ack_interval: settings.ack_delay,
            decoder: Decoder::default(),
            arrivals: Arrivals::new(),
            half: None,
            half_now: now,
            frame: receiving::Frame::default(),
            received: VecDeque::new(),
            edge: settings.receive_buffer as u64,
            told_edge: settings.receive_buffer as u64,
            ended: false,
            ack_due: None,
            acked_at: Time::ZERO,
            report: None,
            pong: None,
            stats: Stats::default(),
            settings,
        })
    }

    /// The peer's preface has come: data may flow.
    pub fn is_open(&self) -> bool {
        self.heard.is_some() && self.error.is_none()
    }

    /// What ended it.
    pub fn error(&self) -> Option<&Error> {
        self.error.as_ref()
    }

    /// Counters.
    pub fn stats(&self) -> Stats {
        let flow = self.flow.as_ref();
        Stats {
            gate_closed: flow.map_or(0, |f| f.counters().gate_closed),
            ..self.stats
        }
    }

    /// The algorithm and what it knows; `None` before the peer's preface.
    pub fn flow(&self) -> Option<&OverTcp> {
        self.flow.as_ref()
    }

    /// Bytes of a full segment.
    pub fn segment(&self) -> u64 {
        self.mss
    }

    /// Has a peer of ours been heard, all that was written been acknowledged, and the end too?
    pub fn is_finished(&self) -> bool {
        // A peer that left in good order has acknowledged all there was, and nobody is there to
        // hear of our end.
        if self.gone && self.ending != Ending::Open {
            return true;
        }
        match (self.ending, &self.flow) {
            (Ending::Sent(_, end), Some(flow)) => flow.written() - flow.in_flight().get() >= end,
            _ => false,
        }
    }

    /// Both directions have ended and nothing is left to say.
    pub fn is_done(&self) -> bool {
        let told = self.gone || self.ack_due.is_none() && self.arrivals.news() == 0;
        self.is_finished() && self.ended && told
    }

    /// Something is under way or about to be, so that timers matter.
    pub fn is_busy(&self) -> bool {
        self.error.is_none()
            && (self.heard.is_none()
                || self.ack_due.is_some()
                || !self.queue.is_empty()
                || self.flow.as_ref().is_some_and(|f| !f.is_idle()))
    }

    /// The application may go without loss: all that was written is acknowledged, and the peer's
    /// end has come or ours was told.
    pub fn may_leave(&self) -> bool {
        let quiet = self.queue.is_empty()
            && self
                .flow
                .as_ref()
                .is_some_and(|f| f.in_flight() == Bytes::ZERO);
        self.error.is_none() && quiet && (self.ended || self.is_finished())
    }

    /// Ends it: the peer is told the reason with the next output, and every later call returns the
    /// error.
    pub fn abort(&mut self) {
        if self.error.is_none() {
            self.fail(Error::Aborted);
        }
    }

    fn fail(&mut self, error: Error) {
        if self.error.is_some() {
            return;
        }
        self.farewell = match &error {
            Error::Protocol(_) | Error::NeverSent { .. } => Some(reason::PROTOCOL),
            Error::Algorithm(_) => Some(reason::ALGORITHM),
            Error::Vanished(_) => Some(reason::TIMEOUT),
            Error::Aborted => Some(reason::ABORTED),
            _ => None,
        };
        self.queue.clear();
        self.ack_due = None;
        self.error = Some(error);
    }

    fn check(&self) -> Result<(), Error> {
        self.error.clone().map_or(Ok(()), Err)
    }

    /// The stream below has ended.
    pub fn on_end(&mut self) {
        if self.heard.is_none() {
            let first = std::mem::take(&mut self.preface);
            self.fail(if first.is_empty() {
                Error::Truncated
            } else {
                Error::Foreign(first)
            });
        } else if self.has_served() {
            self.gone = true;
            self.ack_due = None;
        } else {
            self.fail(Error::Truncated);
        }
    }

    /// The peer has said its end and has acknowledged all data: nothing keeps it, though it may not
    /// have heard of our end.
    fn has_served(&self) -> bool {
        let acked = |flow: &OverTcp| flow.written() - flow.in_flight().get();
        let all = self.flow.as_ref().is_none_or(|flow| match self.ending {
            Ending::Sent(data, _) => acked(flow) >= data,
            _ => flow.in_flight() == Bytes::ZERO,
        });
        self.ended && self.queue.is_empty() && all
    }

    /// The stream below has failed. A reset by a peer that needed nothing more is an end: what it
    /// had not read was our end.
    pub fn on_failure(&mut self, error: &std::io::Error) {
        use std::io::ErrorKind::{BrokenPipe, ConnectionReset};
        if self.has_served() && matches!(error.kind(), BrokenPipe | ConnectionReset) {
            self.gone = true;
            self.ack_due = None;
        } else {
            self.fail(Error::Io(error.kind(), error.to_string()));
        }
    }

    /// Does what is due.
    pub fn on_timer(&mut self, now: Time) {
        if self.error.is_some() {
            return;
        }
        let Some(heard) = self.heard else {
            if now >= self.began + self.settings.handshake {
                let ms = self.settings.handshake.as_nanos() / 1_000_000;
                self.fail(Error::Silent(ms));
            }
            return;
        };
        if let Some(due) = self.vanishes_at(heard)
            && due <= now
        {
            let ms = now.since(heard.max(self.asked)).as_nanos() / 1_000_000;
            self.fail(Error::Vanished(ms));
            return;
        }
        if let Some(flow) = &mut self.flow {
            flow.on_timer(now);
            if flow.is_writable(flow.in_flight(), Bytes::ZERO) {
                flow.unblock();
            }
        }
        self.run_half(now);
        if self.paced_until.is_some_and(|at| at <= now) {
            self.paced_until = None;
        }
    }

    /// An answer is due since the peer was last heard, or since data left.
    fn vanishes_at(&self, heard: Time) -> Option<Time> {
        let flow = self.flow.as_ref()?;
        let waits = flow.in_flight() > Bytes::ZERO || flow.is_blocked();
        waits.then_some(heard.max(self.asked) + self.settings.silence)
    }

    /// When [`Session::on_timer`] (and then [`Session::output`]) wants to be called.
    pub fn next_timer(&self) -> Option<Time> {
        if self.error.is_some() {
            return None;
        }
        let Some(heard) = self.heard else {
            return Some(self.began + self.settings.handshake);
        };
        [
            self.ack_due,
            self.queue_due,
            self.paced_until,
            self.half.as_ref().and_then(|half| half.next_timer()),
            self.flow.as_ref().and_then(OverTcp::next_timer),
            self.vanishes_at(heard),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Appends what is to be written now to `out`; `direct`: bytes of the caller's that follow what
    /// is in the queue. Returns how many of those were taken. What was given out counts as sent.
    /// `more`: others will follow soon, so what is less than a segment is left. `most`: no more
    /// data than this.
    pub fn output(
        &mut self,
        now: Time,
        direct: &[u8],
        more: bool,
        most: u64,
        out: &mut Output,
    ) -> usize {
        let before = out.len();
        if !self.said && (self.opener || self.heard.is_some() || self.refuses_version()) {
            self.said = true;
            Preface {
                credit: self.settings.receive_buffer as u64,
                // Reports decide then, and acknowledgements can be rarer.
                ack_delay: if self.headed.is_some() {
                    REPORTED.max(self.settings.ack_delay)
                } else {
                    self.settings.ack_delay
                }
                .as_micros() as u32,
                segment: self.mss as u16,
                algorithm: self.needed.clone(),
            }
            .encode(&mut out.bytes);
        }
        if let (Some(reason), Some(error)) = (self.farewell, &self.error) {
            self.farewell = None;
            if self.said {
                let sequence = self.flow.as_ref().map_or(0, OverTcp::written) as u32;
                let words = match error {
                    Error::Algorithm(why) => why.clone(),
                    // The reason says it all.
                    Error::Aborted => String::new(),
                    error => error.to_string(),
                };
                frame::encode_close(&mut out.bytes, sequence, reason, &words);
            }
        }
        let mut taken = 0;
        if self.is_open() && !self.gone {
            self.answers(now, out);
            taken = self.data(now, direct, more, most, out);
        }
        self.stats.bytes_out += (out.len() - before) as u64;
        taken
    }

    fn refuses_version(&self) -> bool {
        matches!(self.error, Some(Error::Version(_)))
    }

    /// The peer's preface is complete.
    fn opened(&mut self, now: Time, peer: &Preface) -> Result<(), Error> {
        self.heard = Some(now);
        self.credit = peer.credit.min(frame::MOST_48);
        let delay = Span::from_micros(u64::from(peer.ack_delay));
        self.ack_interval = delay.clamp(Span::from_millis(1), Span::from_millis(25));
        if !peer.algorithm.is_empty() {
            self.half = Some(self.half_of(now, peer)?);
            self.half_now = now;
        }
        let cc = self.cc.take().ok_or(Error::Protocol("two prefaces"))?;
        let rtt = if self.opener {
            now.since(self.began)
        } else {
            Span::ZERO
        };
        let progress = alcc_flow::TcpProgress {
            mss: Bytes::new(self.mss),
            min_rtt: rtt,
            ..alcc_flow::TcpProgress::default()
        };
        self.flow = Some(OverTcp::in_band(cc, now, &progress, self.settings.seed));
        Ok(())
    }

    fn half_of(&self, now: Time, peer: &Preface) -> Result<Box<dyn Receiver>, Error> {
        let name = &peer.algorithm;
        let spec: Spec = name
            .parse()
            .map_err(|why| Error::Algorithm(format!("{name}: {why}")))?;
        // A stranger's words: they open no files.
        let mut cc = self
            .registry
            .for_peers()
            .build(&spec)
            .map_err(|why| Error::Algorithm(why.to_string()))?;
        let path = alcc_cc::Path {
            mss: Bytes::new(peer.segment.into()),
            rtt_hint: None,
            seed: 0,
        };
        let log = &mut Discard;
        cc.on_start(&mut alcc_cc::Cx { now, log }, &path);
        cc.receiver()
            .ok_or_else(|| Error::Algorithm(format!("{name} has none")))
    }
}
