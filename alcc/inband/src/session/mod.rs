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
use alcc_cc::{Discard, Instance, Receiver, Registry, Report, Spec};
use alcc_flow::{OverTcp, Pacer};
use alcc_units::{Bytes, Span, Time};
use std::collections::VecDeque;
use std::sync::Arc;

use sending::Offer;

/// Acknowledgement interval of an algorithm that decides by reports.
const ACK_INTERVAL_WITH_REPORTS: Span = Span::from_millis(20);

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
    /// Acknowledgements received.
    pub acks_in: u64,
    /// Bytes of counted frames (DATA and CLOSE) that the peer has acknowledged.
    pub acked: u64,
    /// How often the algorithm held bytes back.
    pub gate_closed: u64,
}

/// State of our own direction.
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
    /// The reason of a CLOSE that has yet to leave.
    pending_close: Option<u8>,
    began: Time,
    initiator: bool,
    preface_sent: bool,
    /// What has come of the peer's preface.
    preface: Vec<u8>,
    /// When the peer last sent anything; `None`: its preface has not come.
    last_received: Option<Time>,
    /// When something left with nothing in flight.
    busy_since: Time,
    /// The stream below has ended in good order.
    carrier_closed: bool,
    cc: Option<Instance>,
    receiver_algorithm: String,
    header_len: Option<u8>,
    flow: Option<OverTcp>,
    mss: u64,
    credit: u64,
    queue: VecDeque<u8>,
    queue_due: Option<Time>,
    /// What is in the queue may leave as soon as the algorithm lets it.
    flush_due: bool,
    pacer: Pacer,
    paced_until: Option<Time>,
    /// The last output left data behind then.
    backlogged_at: Option<Time>,
    ending: Ending,
    ack_interval: Span,
    decoder: Decoder,
    arrivals: Arrivals,
    receiver_module: Option<Box<dyn Receiver>>,
    module_now: Time,
    frame: receiving::Frame,
    received: VecDeque<u8>,
    receive_edge: u64,
    advertised_edge: u64,
    peer_ended: bool,
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
        initiator: bool,
    ) -> Result<Self, Error> {
        let cc = registry
            .build(&settings.cc)
            .map_err(|why| Error::Algorithm(why.to_string()))?;
        let receiver_algorithm = if cc.has_receiver() {
            settings.cc.to_string()
        } else {
            String::new()
        };
        if receiver_algorithm.len() > MAX_NAME {
            return Err(Error::Algorithm(format!(
                "its name has {} bytes, {MAX_NAME} is the most",
                receiver_algorithm.len()
            )));
        }
        let mss = settings.segment.clamp(256, 65_535);
        Ok(Self {
            registry: Arc::clone(registry),
            error: None,
            pending_close: None,
            began: now,
            initiator,
            preface_sent: false,
            preface: Vec::new(),
            last_received: None,
            receiver_algorithm,
            header_len: (cc.header_len() > 0).then_some(cc.header_len().min(16)),
            cc: Some(cc),
            flow: None,
            mss: mss as u64,
            credit: 0,
            queue: VecDeque::new(),
            queue_due: None,
            flush_due: false,
            busy_since: now,
            carrier_closed: false,
            pacer: Pacer::new(now),
            paced_until: None,
            backlogged_at: None,
            ending: Ending::Open,
            ack_interval: settings.ack_delay,
            decoder: Decoder::default(),
            arrivals: Arrivals::new(),
            receiver_module: None,
            module_now: now,
            frame: receiving::Frame::default(),
            received: VecDeque::new(),
            receive_edge: settings.receive_buffer as u64,
            advertised_edge: settings.receive_buffer as u64,
            peer_ended: false,
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
        self.last_received.is_some() && self.error.is_none()
    }

    /// Why the session failed.
    pub fn error(&self) -> Option<&Error> {
        self.error.as_ref()
    }

    /// Counters.
    pub fn stats(&self) -> Stats {
        let flow = self.flow.as_ref();
        Stats {
            acked: flow.map_or(0, |f| f.written() - f.in_flight().get()),
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

    /// True when all that was written, and the end, is acknowledged.
    pub fn is_finished(&self) -> bool {
        // A peer that left in good order has acknowledged everything. Nobody is there to hear of
        // our end.
        if self.carrier_closed && self.ending != Ending::Open {
            return true;
        }
        match (self.ending, &self.flow) {
            (Ending::Sent(_, end), Some(flow)) => flow.written() - flow.in_flight().get() >= end,
            _ => false,
        }
    }

    /// Both directions have ended and nothing is left to say.
    pub fn is_done(&self) -> bool {
        let told = self.carrier_closed || self.ack_due.is_none() && self.arrivals.unacked() == 0;
        self.is_finished() && self.peer_ended && told
    }

    /// Something is in flight or about to be, so that timers matter.
    pub fn is_busy(&self) -> bool {
        self.error.is_none()
            && (self.last_received.is_none()
                || self.ack_due.is_some()
                || !self.queue.is_empty()
                || self.flow.as_ref().is_some_and(|f| !f.is_idle()))
    }

    /// The application may leave without loss. All that was written is acknowledged, and the peer's
    /// end has come or ours was told.
    pub fn may_leave(&self) -> bool {
        let quiet = self.queue.is_empty()
            && self
                .flow
                .as_ref()
                .is_some_and(|f| f.in_flight() == Bytes::ZERO);
        self.error.is_none() && quiet && (self.peer_ended || self.is_finished())
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
        self.pending_close = match &error {
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
        if self.last_received.is_some() && self.is_peer_done() {
            self.carrier_closed = true;
            self.ack_due = None;
        } else {
            // What there is of a preface may be one of ours: other protocols are known with the first other byte.
            self.fail(Error::Truncated);
        }
    }

    /// The peer has sent its end and has acknowledged all data. So it may leave, though it may not
    /// have heard of our end.
    fn is_peer_done(&self) -> bool {
        let acked = |flow: &OverTcp| flow.written() - flow.in_flight().get();
        let all = self.flow.as_ref().is_none_or(|flow| match self.ending {
            Ending::Sent(data, _) => acked(flow) >= data,
            _ => flow.in_flight() == Bytes::ZERO,
        });
        self.peer_ended && self.queue.is_empty() && all
    }

    /// The stream below has failed. A reset by a peer that needed nothing more is an end: what it
    /// had not read was our end.
    pub fn on_failure(&mut self, error: &std::io::Error) {
        use std::io::ErrorKind::{BrokenPipe, ConnectionReset};
        if self.is_peer_done() && matches!(error.kind(), BrokenPipe | ConnectionReset) {
            self.carrier_closed = true;
            self.ack_due = None;
        } else {
            self.fail(Error::Io(error.kind(), error.to_string()));
        }
    }

    /// Runs expired timers.
    pub fn on_timer(&mut self, now: Time) {
        if self.error.is_some() {
            return;
        }
        let Some(last_received) = self.last_received else {
            if now >= self.began + self.settings.handshake {
                let ms = self.settings.handshake.as_nanos() / 1_000_000;
                self.fail(Error::Silent(ms));
            }
            return;
        };
        if let Some(due) = self.idle_deadline(last_received)
            && due <= now
        {
            let ms = now.since(last_received.max(self.busy_since)).as_nanos() / 1_000_000;
            self.fail(Error::Vanished(ms));
            return;
        }
        if let Some(flow) = &mut self.flow {
            flow.on_timer(now);
            if flow.is_writable(flow.in_flight(), Bytes::ZERO) {
                flow.unblock();
            }
        }
        self.run_receiver_module(now);
        if self.paced_until.is_some_and(|at| at <= now) {
            self.paced_until = None;
        }
    }

    /// When a silent peer counts as gone: counted from its last bytes, or since data left.
    fn idle_deadline(&self, last_received: Time) -> Option<Time> {
        let flow = self.flow.as_ref()?;
        let waits = flow.in_flight() > Bytes::ZERO || flow.is_blocked();
        waits.then_some(last_received.max(self.busy_since) + self.settings.silence)
    }

    /// When [`Session::on_timer`] (and then [`Session::output`]) wants to be called.
    pub fn next_timer(&self) -> Option<Time> {
        if self.error.is_some() {
            return None;
        }
        let Some(last_received) = self.last_received else {
            return Some(self.began + self.settings.handshake);
        };
        [
            self.ack_due,
            self.queue_due,
            self.paced_until,
            self.receiver_module
                .as_ref()
                .and_then(|receiver_module| receiver_module.next_timer()),
            self.flow.as_ref().and_then(OverTcp::next_timer),
            self.idle_deadline(last_received),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Appends what is to be written now to `out`. `direct` are bytes of the caller that follow
    /// what is in the queue; returns how many of them were taken. What was given out counts as
    /// sent. `more`: others will follow soon, so less than a segment waits. `max`: no more data
    /// than this.
    pub fn output(
        &mut self,
        now: Time,
        direct: &[u8],
        more: bool,
        max: u64,
        out: &mut Output,
    ) -> usize {
        let before = out.len();
        if !self.preface_sent
            && (self.initiator || self.last_received.is_some() || self.refuses_version())
        {
            self.preface_sent = true;
            self.own_preface().encode(&mut out.bytes);
        }
        self.encode_close(out);
        let mut taken = 0;
        if self.is_open() && !self.carrier_closed {
            self.encode_answers(now, out);
            let offer = Offer { direct, more, max };
            taken = self.data(now, &offer, out);
        }
        self.stats.bytes_out += (out.len() - before) as u64;
        taken
    }

    fn own_preface(&self) -> Preface {
        Preface {
            credit: self.settings.receive_buffer as u64,
            // Reports decide then, and acknowledgements can be rarer.
            ack_delay: if self.header_len.is_some() {
                ACK_INTERVAL_WITH_REPORTS.max(self.settings.ack_delay)
            } else {
                self.settings.ack_delay
            }
            .as_micros() as u32,
            segment: self.mss as u16,
            algorithm: self.receiver_algorithm.clone(),
        }
    }

    /// Tells the peer of an error, once.
    fn encode_close(&mut self, out: &mut Output) {
        let (Some(reason), Some(error)) = (self.pending_close, &self.error) else {
            return;
        };
        self.pending_close = None;
        if !self.preface_sent {
            return;
        }
        let sequence = self.flow.as_ref().map_or(0, OverTcp::written) as u32;
        let words = match error {
            Error::Algorithm(why) => why.clone(),
            // The reason says it all.
            Error::Aborted => String::new(),
            error => error.to_string(),
        };
        frame::encode_close(&mut out.bytes, sequence, reason, &words);
    }

    fn refuses_version(&self) -> bool {
        matches!(self.error, Some(Error::Version(_)))
    }

    /// The peer's preface is complete.
    fn on_preface(&mut self, now: Time, peer: &Preface) -> Result<(), Error> {
        self.last_received = Some(now);
        self.credit = peer.credit.min(frame::MAX_U48);
        let delay = Span::from_micros(u64::from(peer.ack_delay));
        self.ack_interval = delay.clamp(Span::from_millis(1), Span::from_millis(25));
        if !peer.algorithm.is_empty() {
            self.receiver_module = Some(self.build_receiver_module(now, peer)?);
            self.module_now = now;
        }
        let cc = self.cc.take().ok_or(Error::Protocol("two prefaces"))?;
        let rtt = if self.initiator {
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

    fn build_receiver_module(&self, now: Time, peer: &Preface) -> Result<Box<dyn Receiver>, Error> {
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
