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

/// Acknowledgement interval of an algorithm that uses reports.
const ACK_INTERVAL_WITH_REPORTS: Span = Span::from_millis(20);

/// Counters of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Payload sent in frames, bytes.
    pub sent: u64,
    /// Bytes of frames and preface in the output.
    pub bytes_out: u64,
    /// Payload received, bytes.
    pub received: u64,
    /// Bytes of frames and preface received.
    pub bytes_in: u64,
    /// Acknowledgements sent.
    pub acks_out: u64,
    /// Acknowledgements received.
    pub acks_in: u64,
    /// Bytes of counted frames (DATA and CLOSE) that the peer has acknowledged.
    pub acked: u64,
    /// Number of times that the algorithm held back data.
    pub gate_closed: u64,
}

/// State of the sending direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ending {
    Open,
    /// CLOSE follows the data in the queue.
    Wanted,
    /// CLOSE was sent. Data ends at the first position; the second includes CLOSE.
    Sent(u64, u64),
}

/// One end of a connection, without I/O.
///
/// The host passes received bytes ([`Session::on_bytes`], [`Session::on_end`]), calls [`Session::on_timer`] when
/// [`Session::next_timer`] is due, and writes the bytes of [`Session::output`]. All messages of the peer are checked;
/// memory is bounded by [`Settings`].
///
/// ```
/// use alcc_inband::{Output, Session, Settings, When};
/// use alcc_units::{Span, Time};
///
/// /// What `from` writes arrives at once. Returns the payload.
/// fn pass(from: &mut Session, to: &mut Session, now: Time) -> Vec<u8> {
///     if from.next_timer().is_some_and(|due| due <= now) {
///         from.on_timer(now);
///     }
///     let (mut out, mut bytes, mut payload) = (Output::default(), Vec::new(), vec![0; 1000]);
///     from.output(now, &[], false, u64::MAX, &mut out);
///     out.copy_unwritten(&[], 0, &mut bytes);
///     let n = to.on_bytes(When::exactly(now), &bytes, &mut payload);
///     payload.truncate(n);
///     payload
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let registry = std::sync::Arc::new(alcc_cc::Registry::builtin());
/// let settings = Settings::new("copa".parse()?);
/// let mut now = Time::ZERO;
/// let mut here = Session::connect(now, &registry, settings.clone())?;
/// let mut there = Session::accept(now, &registry, settings)?;
/// here.write(now, b"hello")?;
/// here.close();
///
/// let mut got = Vec::new();
/// while !here.is_finished() {
///     now += Span::from_millis(1);
///     got.extend(pass(&mut here, &mut there, now));
///     pass(&mut there, &mut here, now);
/// }
/// assert_eq!(got, b"hello");
/// # Ok(())
/// # }
/// ```
pub struct Session {
    registry: Arc<Registry>,
    settings: Settings,
    error: Option<Error>,
    /// The reason of a CLOSE that is not sent yet.
    pending_close: Option<u8>,
    began: Time,
    initiator: bool,
    preface_sent: bool,
    /// The received part of the peer's preface.
    preface: Vec<u8>,
    /// Time of the last bytes from the peer; `None`: its preface has not arrived.
    last_received: Option<Time>,
    /// Time at which data was sent with nothing in flight.
    busy_since: Time,
    /// True if the stream below has ended in good order.
    carrier_closed: bool,
    cc: Option<Instance>,
    receiver_algorithm: String,
    header_len: Option<u8>,
    flow: Option<OverTcp>,
    mss: u64,
    credit: u64,
    queue: VecDeque<u8>,
    queue_due: Option<Time>,
    /// True if the queue need not wait for a whole segment.
    flush_due: bool,
    pacer: Pacer,
    paced_until: Option<Time>,
    /// Time of the last output that left data waiting.
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
    /// The connecting end, which sends its preface first.
    ///
    /// # Errors
    /// [`Error::Algorithm`] if there is no such algorithm, or if its name is too long for the preface.
    pub fn connect(now: Time, registry: &Arc<Registry>, settings: Settings) -> Result<Self, Error> {
        Self::new(now, registry, settings, true)
    }

    /// The accepting end, which sends nothing before it has received the magic.
    ///
    /// # Errors
    /// The errors of [`Session::connect`].
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

    /// True if the peer's preface has arrived, so that data may be sent.
    pub fn is_open(&self) -> bool {
        self.last_received.is_some() && self.error.is_none()
    }

    /// The error that ended the session.
    pub fn error(&self) -> Option<&Error> {
        self.error.as_ref()
    }

    /// The counters of the session.
    pub fn stats(&self) -> Stats {
        let flow = self.flow.as_ref();
        Stats {
            acked: flow.map_or(0, |f| f.written() - f.in_flight().get()),
            gate_closed: flow.map_or(0, |f| f.counters().gate_closed),
            ..self.stats
        }
    }

    /// The algorithm and its state; `None` before the peer's preface.
    pub fn flow(&self) -> Option<&OverTcp> {
        self.flow.as_ref()
    }

    /// Size of a full segment, bytes.
    pub fn segment(&self) -> u64 {
        self.mss
    }

    /// True if all written data and the CLOSE are acknowledged.
    pub fn is_finished(&self) -> bool {
        // A peer that ended in good order has acknowledged everything. It is no longer there to acknowledge our CLOSE.
        if self.carrier_closed && self.ending != Ending::Open {
            return true;
        }
        match (self.ending, &self.flow) {
            (Ending::Sent(_, end), Some(flow)) => flow.written() - flow.in_flight().get() >= end,
            _ => false,
        }
    }

    /// True if both directions have ended and nothing remains to be sent.
    pub fn is_done(&self) -> bool {
        let told = self.carrier_closed || self.ack_due.is_none() && self.arrivals.unacked() == 0;
        self.is_finished() && self.peer_ended && told
    }

    /// True if data is in flight or about to be, so that timers matter.
    pub fn is_busy(&self) -> bool {
        self.error.is_none()
            && (self.last_received.is_none()
                || self.ack_due.is_some()
                || !self.queue.is_empty()
                || self.flow.as_ref().is_some_and(|f| !f.is_idle()))
    }

    /// Prepares the last output, before the carrier is closed: the end and the acknowledgement of all that was read, or
    /// an abort if data would be lost. Without that acknowledgement the peer, whose data was read, would report a loss.
    pub fn leave(&mut self, now: Time) {
        if !self.may_leave() {
            return self.abort();
        }
        self.close();
        if self.arrivals.unacked() > 0 && self.unread() == 0 {
            self.ack_due = Some(now);
        }
    }

    /// True if the application may exit without loss: all written data is acknowledged, and the peer has ended or our
    /// CLOSE was sent.
    fn may_leave(&self) -> bool {
        let quiet = self.queue.is_empty()
            && self
                .flow
                .as_ref()
                .is_some_and(|f| f.in_flight() == Bytes::ZERO);
        self.error.is_none() && quiet && (self.peer_ended || self.is_finished())
    }

    /// Aborts the session: the next output sends the reason to the peer, and every later call returns the error.
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

    /// Notes that the stream below has ended.
    pub fn on_end(&mut self) {
        if self.last_received.is_some() && self.is_peer_done() {
            self.carrier_closed = true;
            self.ack_due = None;
        } else {
            // An incomplete preface may be one of ours, because other protocols are recognised by the first differing
            // byte.
            self.fail(Error::Truncated);
        }
    }

    /// True if the peer has sent its end and has acknowledged all data. So it may close, although our CLOSE may not
    /// have reached it.
    fn is_peer_done(&self) -> bool {
        let acked = |flow: &OverTcp| flow.written() - flow.in_flight().get();
        let all = self.flow.as_ref().is_none_or(|flow| match self.ending {
            Ending::Sent(data, _) => acked(flow) >= data,
            _ => flow.in_flight() == Bytes::ZERO,
        });
        self.peer_ended && self.queue.is_empty() && all
    }

    /// Notes that the stream below has failed. A reset by a peer that needed nothing more counts as an end: only our
    /// CLOSE was unread.
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

    /// Time at which a silent peer counts as gone, from its last bytes or from the time at which data was sent.
    fn idle_deadline(&self, last_received: Time) -> Option<Time> {
        let flow = self.flow.as_ref()?;
        let waits = flow.in_flight() > Bytes::ZERO || flow.is_blocked();
        waits.then_some(last_received.max(self.busy_since) + self.settings.silence)
    }

    /// Time of the next call of [`Session::on_timer`], followed by [`Session::output`].
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

    /// Appends the bytes to write now to `out`. `direct` are bytes of the caller that follow the queue; returns the
    /// number of them that were taken. The output counts as sent. `more`: other bytes will follow soon, so a partial
    /// segment is held back. `max`: the most bytes that this call may append.
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
            // With reports, acknowledgements can be rarer.
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

    /// Sends the error to the peer, once.
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
            // The reason needs no text.
            Error::Aborted => String::new(),
            error => error.to_string(),
        };
        frame::encode_close(&mut out.bytes, sequence, reason, &words);
    }

    fn refuses_version(&self) -> bool {
        matches!(self.error, Some(Error::Version(_)))
    }

    /// Handles the peer's complete preface.
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
        // The spec comes from the peer, so its options must not open files.
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
