// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An algorithm over a TCP connection, or another stream of bytes that repairs its own losses.
//!
//! The fate of written bytes is learned from one of three sources ([`Feedback`]). Two of them use a [`Ledger`] of
//! bytes, the third [`Transmissions`] of packets. The algorithm gets the same events from both, in the order of
//! [`Feed`].
use crate::late::Lateness;
use crate::ledger::Ledger;
use crate::transmissions::{AckSample, Transmissions};
use crate::unreported::Unreported;
use crate::{AckStamp, RttEstimator, room};
use alcc_cc::{
    Acked, Allowance, Controller, Feed, Header, Instance, Kind, LimitedBy, Log, Path, Rto, RttView,
    Sending, Sent, Source, Spurious, Tag,
};
use alcc_units::{Bytes, Rate, Span, Time};

/// The kernel's state of a connection at one instant. All fields come from one `TCP_INFO`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TcpProgress {
    /// Bytes of the stream acknowledged in total.
    pub acked: u64,
    /// Bytes of the stream written in total.
    pub written: u64,
    /// Bytes written and not yet sent.
    pub unsent: Bytes,
    /// Segments retransmitted in total.
    pub retransmits: u64,
    /// Segments found lost in total, retransmitted or not.
    pub lost: u64,
    /// Segments received above a hole (SACKed).
    pub sacked: u64,
    /// State of the kernel's loss recovery.
    pub repair: Repair,
    /// Consecutive timeouts for the same data.
    pub backoff: u32,
    /// Reductions that the kernel has undone as spurious; zero if it does not report them.
    pub undone: u64,
    /// Slow start threshold in segments, zero if unknown. A rise during recovery is also evidence of an undo.
    pub ssthresh: u64,
    /// The kernel's delivery rate sample: the newest, or a larger application-limited one.
    pub delivery_rate: Option<Rate>,
    /// Segments in flight.
    pub in_flight: u32,
    /// True if the kernel's own congestion window is full.
    pub window_full: bool,
    /// Smallest RTT measured by the kernel; zero if none.
    pub min_rtt: Span,
    /// The kernel's smoothed RTT; zero if unknown.
    pub smoothed_rtt: Span,
    /// Approximate number of samples in it: received ACKs.
    pub acks: u64,
    /// Segments delivered with a CE mark in total (`tcpi_delivered_ce`).
    pub marked: u64,
    /// Current segment size.
    pub mss: Bytes,
}

impl TcpProgress {
    /// Bytes written and not acknowledged, whether sent or not.
    pub fn in_buffer(&self) -> Bytes {
        Bytes::new(self.written.saturating_sub(self.acked))
    }
}

/// State of the kernel's loss recovery.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Repair {
    /// No recovery.
    #[default]
    None,
    /// Fast recovery: ACKs revealed losses.
    Losses,
    /// Recovery after a timeout.
    Timeout,
}

/// Totals of a connection, for reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Writes that the algorithm's limit refused or cut short.
    pub gate_closed: u64,
    /// Bytes written.
    pub bytes: u64,
}

/// A limit for the kernel, in force until the next one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Limit {
    /// Packets in flight.
    pub window: u32,
    /// Upper bound for the total number of transmissions, as [`AckSample`] counts them; wraps.
    pub until: Option<u32>,
    /// Pacing rate.
    pub rate: Option<Rate>,
}

/// The part of a write that may be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room {
    /// Number of bytes, at most those that were wanted.
    pub bytes: Bytes,
    /// The causes that allow no more; none if all wanted bytes may be sent.
    limited: LimitedBy,
}

/// An algorithm in control of one byte stream, without I/O.
///
/// The host calls [`OverTcp::room`] before each write of the program, and [`OverTcp::wrote`] after
/// it. When [`OverTcp::deadline`] is due it reads the kernel's counters and passes them to
/// [`OverTcp::progress`]. TCP keeps its retransmission, ordering and window. The algorithm decides
/// when bytes are handed to TCP, so the smaller of both windows holds.
pub struct OverTcp {
    feedback: Feedback,
    flow: Flow,
}

/// The source of feedback on the written bytes, with its records.
enum Feedback {
    /// The kernel's counters (`TCP_INFO`), perhaps with time stamps of acknowledgements. Events between two readings
    /// are interpolated.
    Counters(Ledger),
    /// In-band frames of the peer, which has the receiver module. Their times are exact.
    Frames(Ledger, Box<Frames>),
    /// The kernel's record of each acknowledgement. The kernel enforces the limit, too.
    Samples(Transmissions),
}

/// State for a peer that acknowledges by in-band frames.
struct Frames {
    /// The smallest RTT of a packet with an exact time. Interpolated samples are never below it.
    exact_min_rtt: Option<Span>,
    unreported: Unreported,
}

/// State of a connection that is independent of the kind of feedback.
struct Flow {
    feed: Feed,
    /// True if data was written since the last reading.
    unread: bool,
    rtt: RttEstimator,
    mss: Bytes,
    read_at: Time,
    last_write: Time,
    /// The counters of the last reading.
    seen: TcpProgress,
    /// The algorithm expects datagrams: a timeout is reported after a second of silence, and marks nothing as lost.
    datagrams: bool,
    repair: Option<Episode>,
    /// True if a write was refused or cut short, so that the program waits for room.
    blocked: bool,
    last_blocked: Option<Time>,
    /// Time at which the program was last woken because there is room, if it has not called since; otherwise
    /// `Time::MAX`. An `Option` would take twice the memory.
    woken_at: Time,
    late: Lateness,
    period: Span,
    /// Active connections of the host, including this one.
    active_flows: u32,
    counters: Counters,
}

/// A recovery episode: the losses of one flight.
#[derive(Clone, Copy, Debug)]
struct Episode {
    /// The episode ends when the cumulative ACK reaches this, or packet `pn` or a later one is
    /// acknowledged.
    recovery_point: u64,
    pn: alcc_cc::Pn,
    timeout: bool,
    /// Timeouts reported to the algorithm.
    reported: u32,
}

/// Number of readings for which a paced connection may hold unsent data in the kernel, because some readings come late.
const READINGS_AHEAD: u64 = 3;
/// Minimum number of segments for the same.
const SEGMENTS_AHEAD: u64 = 3;

/// For a peer so silent that the interval between its readings is longer than this, readings coincide with those of
/// other connections.
const MIN_GRID: Span = Span::from_millis(20);
/// Shorter outages are usual on radio links, and their end should be noticed at once.
const LONG_OUTAGE: Span = Span::from_secs(10);
/// Longest time between two readings of a silent peer, before alignment.
const MAX_PATIENCE: Span = Span::from_secs(1);
/// The same if the kernel enforces the limit and expects our updates.
const MAX_PATIENCE_STEERED: Span = Span::from_millis(300);

/// Number of connections that are each read at their algorithm's interval. More connections share the readings of this
/// many.
const FULL_SERVICE: u32 = 16;
/// Minimum number of readings of a connection per RTT.
const READINGS_PER_RTT: u64 = 2;

/// Weight of the old smoothed RTT in Linux.
const KEPT: f64 = 7.0 / 8.0;
/// Silence after which hosts for datagrams tell the algorithm of a timeout: a shorter one is an outage of a radio link.
const DATAGRAM_TIMEOUT: Span = Span::from_secs(1);

impl OverTcp {
    /// Takes control of a connection with the state `progress` at `now`. `seed` is for the
    /// controller's random numbers.
    pub fn new(cc: Instance, now: Time, progress: &TcpProgress, seed: u64) -> Self {
        let mut new = Self::waiting(cc, now, progress);
        new.start(progress, seed);
        new
    }

    /// The same as [`OverTcp::new`], for a peer that acknowledges by in-band frames. [`OverTcp::progress_stamped`] gets
    /// exact times. The receiver module is at the peer ([`OverTcp::on_report`]).
    pub fn in_band(cc: Instance, now: Time, progress: &TcpProgress, seed: u64) -> Self {
        let frames = Frames {
            exact_min_rtt: None,
            unreported: Unreported::new(now),
        };
        let ledger = Ledger::new(now, progress.written, progress.acked);
        let feedback = Feedback::Frames(ledger, Box::new(frames));
        let flow = Flow::new(cc, now, progress);
        let mut new = Self { feedback, flow };
        new.start(progress, seed);
        new
    }

    /// The same as [`OverTcp::new`], but the algorithm has not started: call [`OverTcp::start`] before anything else. A
    /// host on a small stack can start it elsewhere.
    pub fn waiting(cc: Instance, now: Time, progress: &TcpProgress) -> Self {
        let ledger = Ledger::new(now, progress.written, progress.acked);
        Self {
            feedback: Feedback::Counters(ledger),
            flow: Flow::new(cc, now, progress),
        }
    }

    /// Sends the algorithm's events to `log`. For events of its start, call this before it.
    pub fn set_log(&mut self, log: Log) {
        self.flow.feed.set_log(log);
    }

    /// Starts the algorithm of [`OverTcp::waiting`], with the same `progress`.
    pub fn start(&mut self, progress: &TcpProgress, seed: u64) {
        let flow = &mut self.flow;
        flow.feed.start(&Path {
            mss: flow.mss,
            rtt_hint: (!progress.min_rtt.is_zero()).then_some(progress.min_rtt),
            seed,
        });
        if !matches!(self.feedback, Feedback::Frames(..)) {
            flow.feed.use_local_receiver();
        }
        let needs = flow.feed.needs();
        flow.datagrams = !needs.stream;
        flow.period = needs.feedback_period.max(Span::from_micros(100));
    }

    /// Switches to a kernel that enforces [`OverTcp::limit`] itself and reports each acknowledgement. No write is
    /// refused here, and readings go to [`OverTcp::progress_sampled`]. `first` is the kernel's last sample. Call this
    /// right after [`OverTcp::start`].
    pub fn use_samples(&mut self, first: &AckSample) {
        let now = self.flow.feed.now();
        let mut transmissions = Transmissions::new(now, first);
        self.flow.expect(&mut transmissions, first.in_flight);
        self.flow.sent(&mut transmissions, first.in_flight, now);
        self.feedback = Feedback::Samples(transmissions);
    }

    /// The number of `wanted` bytes that may be written now. The kernel holds `queued` unacknowledged bytes, of which
    /// `unsent` are not sent yet. If the result is less than `wanted`, the connection is blocked until
    /// [`OverTcp::is_writable`].
    pub fn room(&mut self, now: Time, wanted: Bytes, queued: Bytes, unsent: Bytes) -> Bytes {
        let room = self.begin_write(now, wanted, || queued, || unsent);
        self.block(&room);
        room.bytes
    }

    /// The same as [`OverTcp::room`], but the connection is blocked only if [`OverTcp::block`] follows, so that a host
    /// can first check whether this write may be refused at all.
    ///
    /// `queued` and `unsent` cost a system call each, so each is called at most once, and only if the result depends on
    /// it.
    pub fn begin_write(
        &mut self,
        now: Time,
        wanted: Bytes,
        queued: impl FnOnce() -> Bytes,
        unsent: impl FnOnce() -> Bytes,
    ) -> Room {
        let now = self.flow.feed.advance(now);
        self.flow.woken_at = Time::MAX;
        if self.is_idle()
            && let Some(ledger) = self.feedback.ledger()
        {
            // The first write after idle: a timer that was due meanwhile counts once, and readings start again.
            let flow = &mut self.flow;
            (flow.feed).resume(ledger.acked_at(), flow.rtt.view().smoothed);
            flow.read_at = now;
            flow.feed.run_timer();
        }
        self.room_for(wanted, queued, unsent)
    }

    /// The result of [`OverTcp::room`], without side effects.
    pub fn allows(&self, wanted: Bytes, queued: Bytes, unsent: Bytes) -> Bytes {
        self.room_for(wanted, || queued, || unsent).bytes
    }

    /// The smaller of two limits: one by window and quota, one for writing ahead of the pacer.
    ///
    /// One segment in flight is always allowed, because programs do not expect that a write of a few bytes is refused.
    /// Some then wait for another event first, as the FTP server in CPython's tests does.
    fn room_for(
        &self,
        wanted: Bytes,
        queued: impl FnOnce() -> Bytes,
        unsent: impl FnOnce() -> Bytes,
    ) -> Room {
        let all = Room {
            bytes: wanted,
            limited: LimitedBy::default(),
        };
        let (flow, mss) = (&self.flow, self.flow.mss);
        let allowance = flow.feed.allowance();
        // The kernel enforces the limit, or decides alone while readings come late.
        if matches!(self.feedback, Feedback::Samples(_)) || flow.late.is_open() {
            return all;
        }
        let queued = queued();
        if queued + wanted <= mss {
            return all;
        }
        // TCP itself probes with its data in flight.
        let ping = allowance.ping && queued == Bytes::ZERO;
        let allowance = Allowance { ping, ..allowance };
        let in_flight = queued.saturating_sub(self.not_in_flight(queued));
        let most_ahead = self.max_write_ahead(&allowance);
        let whole = room(&allowance, in_flight, Bytes::ZERO, mss);
        // The case that all of the queue is unsent, or all but one byte of a segment that waits for more data.
        let partial = queued.min(mss.saturating_sub(Bytes::new(1)));
        let least = whole.saturating_sub(partial);
        if least.min(flow.write_ahead(most_ahead, queued)) >= wanted {
            return all;
        }
        let unsent = if whole == Bytes::ZERO {
            whole
        } else {
            unsent()
        };
        let room = room(&allowance, in_flight, unsent, mss);
        let ahead = flow.write_ahead(most_ahead, unsent);
        if room.min(ahead) >= wanted {
            return all;
        }
        let pacer = ahead < room;
        let window = !pacer && allowance.window.saturating_sub(queued) < allowance.quota;
        let limited = LimitedBy {
            window,
            quota: !pacer && !window,
            pacer,
            ..LimitedBy::default()
        };
        let bytes = room.min(ahead);
        Room { bytes, limited }
    }

    /// The part of the queued bytes that is not in flight: SACKed, or lost and not retransmitted. It is as of the last
    /// reading, without the bytes acknowledged since. In-band: arrived but not yet reported.
    fn not_in_flight(&self, queued: Bytes) -> Bytes {
        let ledger = match &self.feedback {
            Feedback::Counters(ledger) => ledger,
            Feedback::Frames(_, frames) => return frames.unreported.bytes(),
            Feedback::Samples(_) => return Bytes::ZERO,
        };
        let hidden = ledger.in_flight().saturating_sub(ledger.under_way());
        if hidden == Bytes::ZERO {
            return hidden;
        }
        let since = ledger.in_flight().saturating_sub(queued);
        hidden.saturating_sub(since)
    }

    /// Limit of writing ahead on a paced connection: the data that the pacer releases until the next readings. Further
    /// data would be sent at a later rate, but count as in flight now.
    fn max_write_ahead(&self, allowance: &Allowance) -> Option<Bytes> {
        let flow = &self.flow;
        let rate = (flow.pacing_by(allowance))
            .filter(|_| !matches!(self.feedback, Feedback::Frames(..)))?;
        let span = flow.period.max(flow.shared_interval()) * READINGS_AHEAD;
        Some(rate.bytes_in(span).max(flow.mss * SEGMENTS_AHEAD))
    }

    /// Notes that the rest of a write is refused, so that the program waits for room.
    pub fn block(&mut self, room: &Room) {
        if room.limited == LimitedBy::default() {
            return;
        }
        let flow = &mut self.flow;
        flow.counters.gate_closed += 1;
        flow.blocked = true;
        flow.last_blocked = Some(flow.feed.now());
        let limited = flow.feed.limited();
        limited.window |= room.limited.window;
        limited.quota |= room.limited.quota;
        limited.pacer |= room.limited.pacer;
    }

    /// Notes that the pacing rate allowed less than the window.
    pub fn paced(&mut self, now: Time) {
        self.flow.last_blocked = Some(now);
        self.flow.feed.limited().pacer = true;
    }

    /// The kernel's segment size, bytes.
    pub fn mss(&self) -> Bytes {
        self.flow.mss
    }

    /// Notes that `len` bytes were written.
    pub fn wrote(&mut self, now: Time, len: Bytes) {
        self.wrote_framed(now, len, false);
    }

    /// Notes that `len` bytes were written. `more`: others follow at once. Returns the header for the peer's receiver
    /// module. If the module wants every packet, a frame is at most one segment.
    pub fn wrote_framed(&mut self, now: Time, len: Bytes, more: bool) -> Header {
        let flow = &mut self.flow;
        flow.counters.bytes += len.get();
        let (ledger, frames) = match &mut self.feedback {
            Feedback::Counters(ledger) => (ledger, None),
            Feedback::Frames(ledger, frames) => (ledger, Some(frames)),
            Feedback::Samples(_) => {
                // The samples will show when it was sent.
                (flow.last_write, flow.unread) = (now, true);
                return Header::EMPTY;
            }
        };
        let now = flow.feed.advance(now);
        flow.last_write = now;
        // Application-limited: not blocked within the last round trip.
        let patience = flow.patience();
        let app_limited =
            !flow.blocked && flow.last_blocked.is_none_or(|at| now.since(at) > patience);
        let (feed, mss) = (&mut flow.feed, flow.mss);
        let mut headed = feed.has_local_receiver();
        if let Some(frames) = frames {
            headed |= feed.header_len() > 0;
            if ledger.in_flight() == Bytes::ZERO {
                frames.unreported.begin(now);
            }
        }
        let mut header = Header::EMPTY;
        let mut remaining = len;
        ledger.wrote(now, len, mss, app_limited, |pn, len, in_flight_before| {
            let sent = Sent {
                pn,
                len,
                in_flight_before,
                kind: Kind::New,
                app_limited,
            };
            remaining = remaining.saturating_sub(len);
            let tag = feed.sent(&sent);
            let more = more || remaining > Bytes::ZERO;
            if headed {
                header = feed.header(Sending { pn, more });
            }
            tag
        });
        header
    }

    /// Takes a report of the peer's receiver module. It is untrusted.
    pub fn on_report(&mut self, now: Time, report: &[u8]) {
        self.flow.feed.advance(now);
        self.flow.feed.feedback(report);
    }

    /// Runs the algorithm's timer if it is due.
    pub fn on_timer(&mut self, now: Time) {
        self.flow.feed.advance(now);
        self.flow.feed.run_timer();
    }

    /// Time at which the algorithm's own timer is due; `None` while idle.
    pub fn next_timer(&self) -> Option<Time> {
        self.flow.feed.next_timer().filter(|_| !self.is_idle())
    }

    /// True if nothing is in flight and no write waits: no reading, timer or wake-up is needed.
    pub fn is_idle(&self) -> bool {
        let flow = &self.flow;
        // Samples do not show data that the kernel has not sent.
        let unsent = matches!(self.feedback, Feedback::Samples(_))
            && (flow.unread || flow.seen.unsent > Bytes::ZERO);
        !flow.blocked && !unsent && self.in_flight() == Bytes::ZERO
    }

    /// Time of the next reading of the counters; `None` while idle.
    pub fn deadline(&self) -> Option<Time> {
        if self.is_idle() {
            return None;
        }
        let flow = &self.flow;
        let reading = flow.read_at + flow.period;
        let timers = flow.feed.next_timer().into_iter();
        let timers = timers.chain(flow.feed.next_report());
        let due = timers.fold(reading, Time::min);
        let patience = self.silence_patience();
        let due = due.max(flow.read_at + patience.max(flow.shared_interval()));
        if patience <= MIN_GRID {
            return Some(due);
        }
        // All silent connections are read at the same times, a quarter of the interval apart, so that one wake-up
        // serves many.
        let step = 1u64 << (patience.as_nanos() / 4).ilog2();
        Some(Time::from_nanos(due.as_nanos().next_multiple_of(step)))
    }

    /// The time until the next reading of a silent peer, which grows with the silence. In an outage the kernel itself
    /// retransmits at intervals that double. A peer that has stopped reading (bytes wait, and all that were sent are
    /// acknowledged) sends nothing until it reads again.
    ///
    /// A kernel that enforces the limit takes the socket back after 0.5 s without an update.
    fn silence_patience(&self) -> Span {
        let flow = &self.flow;
        let (acked_at, most) = match &self.feedback {
            Feedback::Counters(ledger) | Feedback::Frames(ledger, _) => {
                (ledger.acked_at(), MAX_PATIENCE)
            }
            Feedback::Samples(transmissions) => (transmissions.last().at, MAX_PATIENCE_STEERED),
        };
        let silence = flow.read_at.since(acked_at.max(flow.last_write));
        let unsent = flow.seen.unsent;
        let stopped = unsent > Bytes::ZERO && unsent == flow.seen.in_buffer();
        match silence {
            _ if stopped => (silence / 8).min(most),
            _ if silence < LONG_OUTAGE => (silence / 64).min(Span::from_millis(20)),
            _ => (silence / 64).min(most),
        }
    }

    /// Sets the number of active connections of the host, including this one. With many, each is read less often, so
    /// that a reading finds several segments acknowledged, and one write fills the room.
    pub fn set_active_flows(&mut self, active_flows: usize) {
        self.flow.active_flows = u32::try_from(active_flows).unwrap_or(u32::MAX);
    }

    /// True if the program waits, and there is room for a worthwhile write. The caller wakes the program and calls
    /// [`OverTcp::unblock`].
    pub fn is_writable(&self, queued: Bytes, unsent: Bytes) -> bool {
        let flow = &self.flow;
        if !flow.blocked || flow.late.is_open() {
            return flow.blocked;
        }
        let mss = flow.mss;
        let allowance = flow.feed.allowance();
        let allowance = Allowance {
            ping: allowance.ping && queued == Bytes::ZERO,
            ..allowance
        };
        // Each wake-up costs the program an iteration and a write. With many connections it has to allow more data.
        let parts = if flow.active_flows <= FULL_SERVICE {
            16
        } else {
            4
        };
        let segments = (allowance.window.get() / mss.get() / parts)
            .clamp(1, 4)
            .min((allowance.quota.get() / mss.get()).max(1));
        // A third of the limit, the amount sent between two readings.
        let ahead = self.max_write_ahead(&allowance);
        let most = ahead.unwrap_or(Bytes::MAX);
        let segments = segments.min((most.get() / READINGS_AHEAD / mss.get()).max(1));
        let in_flight = queued.saturating_sub(self.not_in_flight(queued));
        room(&allowance, in_flight, Bytes::ZERO, mss).min(flow.write_ahead(ahead, unsent))
            >= mss * segments
    }

    /// Notes that the program was woken to write again.
    pub fn unblock(&mut self) {
        if std::mem::take(&mut self.flow.blocked) {
            self.flow.woken_at = self.flow.feed.now();
        }
    }

    /// True while the program waits for room.
    pub fn is_blocked(&self) -> bool {
        self.flow.blocked
    }

    /// The current limit for a kernel that enforces it; `None` for other kernels.
    pub fn limit(&self) -> Option<Limit> {
        let Feedback::Samples(transmissions) = &self.feedback else {
            return None;
        };
        let sent = transmissions.total();
        let allowance = self.flow.feed.allowance();
        let packets = |bytes: Bytes| {
            let n = bytes.get() / self.flow.mss.get().max(1);
            u32::try_from(n).unwrap_or(u32::MAX)
        };
        let quota = (allowance.quota != Bytes::MAX)
            .then(|| packets(allowance.quota).max(allowance.ping.into()));
        Some(Limit {
            window: packets(allowance.window).max(1),
            // Of the wrapping numbers, half count as past.
            until: quota.map(|n| sent.wrapping_add(n.min(u32::MAX / 4))),
            rate: self.flow.pacing_by(&allowance),
        })
    }

    /// The pacing rate, at least one segment per 20 ms. The kernel fixes the departure of the next segment when the
    /// rate is set, so a lower rate would stall the connection even after it rises again.
    ///
    /// With a quota there is no pacing rate, for the same reason: the rate that spreads a quota changes every tick, and
    /// segments of a slow tick would delay those of a fast one.
    pub fn pacing_rate(&self) -> Option<Rate> {
        self.flow.pacing_rate()
    }

    /// True if the kernel paces at [`OverTcp::pacing_rate`], so that unsent data waits for its departure time.
    pub fn is_paced(&self) -> bool {
        !matches!(self.feedback, Feedback::Frames(..)) && self.pacing_rate().is_some()
    }

    /// Position up to which all writes are recorded.
    pub fn written(&self) -> u64 {
        (self.feedback.ledger()).map_or(self.flow.seen.written, Ledger::written)
    }

    /// Bytes in flight as of the last reading.
    pub fn in_flight(&self) -> Bytes {
        match &self.feedback {
            Feedback::Counters(ledger) | Feedback::Frames(ledger, _) => ledger.in_flight(),
            Feedback::Samples(transmissions) => self.flow.under_way(transmissions),
        }
    }

    /// RTT estimate as of the last reading.
    pub fn rtt(&self) -> RttView {
        self.flow.rtt.view()
    }

    /// The algorithm's current allowance.
    pub fn allowance(&self) -> Allowance {
        self.flow.feed.allowance()
    }

    /// The totals of the connection.
    pub fn counters(&self) -> Counters {
        self.flow.counters
    }

    /// The algorithm's window; [`Bytes::MAX`] if it has none.
    pub fn window(&self) -> Bytes {
        self.flow.feed.allowance().window
    }

    /// The algorithm's internal values.
    pub fn gauges(&self, put: &mut dyn FnMut(&'static str, f64)) {
        self.flow.feed.controller().gauges(put);
    }

    /// The algorithm, for reading its state.
    pub fn controller(&self) -> &dyn Controller {
        self.flow.feed.controller()
    }

    /// True if more is acknowledged than at the last reading.
    pub fn has_advanced(&self, tcp: &TcpProgress) -> bool {
        tcp.acked > self.flow.seen.acked
    }

    /// Takes the kernel's counters, read at `now`.
    pub fn progress(&mut self, now: Time, tcp: &TcpProgress) {
        self.progress_stamped(now, tcp, &[]);
    }

    /// The same as [`OverTcp::progress`], with the exact times at which stream positions were acknowledged, ascending.
    /// Other RTT samples are interpolated since the last reading.
    pub fn progress_stamped(&mut self, now: Time, tcp: &TcpProgress, stamps: &[AckStamp]) {
        let now = self.flow.feed.advance(now);
        self.take_late_reading(now, tcp.min_rtt);
        let (ledger, frames) = match &mut self.feedback {
            Feedback::Counters(ledger) => (ledger, None),
            Feedback::Frames(ledger, frames) => (ledger, Some(frames.as_mut())),
            Feedback::Samples(_) => return self.progress_sampled(now, tcp, &[]),
        };
        self.flow.take_mss(tcp.mss);
        ledger.adopt(now, tcp.written);
        self.flow.acknowledge(ledger, frames, now, tcp, stamps);
        self.end_reading(now, tcp);
    }

    /// Takes the acknowledgements since the last reading, and the kernel's counters, which were read after them.
    pub fn progress_sampled(&mut self, now: Time, tcp: &TcpProgress, samples: &[AckSample]) {
        let Feedback::Samples(transmissions) = &mut self.feedback else {
            return self.progress(now, tcp);
        };
        let flow = &mut self.flow;
        flow.take_mss(tcp.mss);
        flow.report_timeout(transmissions, now, tcp);
        let newest = samples.last().unwrap_or_else(|| transmissions.last());
        let newest = AckSample {
            in_flight: tcp.in_flight,
            ..*newest
        };
        let count = transmissions.sent_before(&newest);
        flow.expect(transmissions, count);
        for sample in samples {
            flow.take_sample(transmissions, now, sample, tcp);
        }
        let now = flow.feed.advance(now);
        // The counters are newer than the last sample: the excess was sent since.
        let more = tcp.in_flight.saturating_sub(transmissions.len());
        let sent_at = transmissions.last().at.max(flow.last_departure());
        flow.sent(transmissions, more, sent_at.min(now));
        self.end_reading(now, tcp);
    }

    /// Ends a reading. An idle connection is not read again, perhaps for a long time, so its memory is freed.
    fn end_reading(&mut self, now: Time, tcp: &TcpProgress) {
        let flow = &mut self.flow;
        let drained = tcp.acked >= tcp.written && tcp.acked == flow.seen.acked;
        flow.seen = *tcp;
        flow.read_at = now;
        flow.unread = false;
        flow.feed.run_timer();
        let idle = self.is_idle();
        match &mut self.feedback {
            Feedback::Counters(ledger) | Feedback::Frames(ledger, _) if idle => {
                ledger.release_memory();
            }
            Feedback::Samples(transmissions) if idle || drained => transmissions.clear(),
            _ => return,
        }
        self.flow.feed.release_memory();
    }

    /// Checks whether this reading was late. Frames have more information, see [`Frames::read`].
    #[inline]
    fn take_late_reading(&mut self, now: Time, rtt: Span) {
        let gap = now.since(self.flow.read_at);
        if matches!(self.feedback, Feedback::Counters(_))
            && self.flow.late.concerns(gap)
            && !self.flow.feed.needs().strict
            && let Some(due) = self.deadline()
        {
            let late = now.since(due.max(self.flow.read_at));
            self.flow.late.read(gap, late, rtt);
        }
    }
}

impl Feedback {
    /// The ledger, if the feedback uses one.
    fn ledger(&self) -> Option<&Ledger> {
        match self {
            Self::Counters(ledger) | Self::Frames(ledger, _) => Some(ledger),
            Self::Samples(_) => None,
        }
    }
}

impl Frames {
    /// Measures the delay between the events in these stamps and this reading. Data up to `acked` was acknowledged
    /// earlier, by the time `since`.
    fn read(&mut self, mut acked: u64, mut since: Time, now: Time, stamps: &[AckStamp]) {
        for stamp in stamps {
            let at = stamp.at.max(since).min(now);
            // They are assumed to have arrived evenly between the two times.
            let late = now.since(at) + at.since(since) / 2;
            let len = Bytes::new(stamp.acked.saturating_sub(acked));
            self.unreported.arrived(len, late);
            (since, acked) = (at, acked.max(stamp.acked));
        }
        self.unreported.reported(now);
    }
}

impl Flow {
    fn new(cc: Instance, now: Time, progress: &TcpProgress) -> Self {
        Self {
            feed: Feed::new(cc, now),
            unread: false,
            rtt: RttEstimator::default(),
            mss: progress.mss.max(Bytes::new(1)),
            read_at: now,
            last_write: now,
            seen: *progress,
            datagrams: false,
            repair: None,
            blocked: false,
            last_blocked: None,
            woken_at: Time::MAX,
            late: Lateness::default(),
            period: Span::ZERO,
            active_flows: 1,
            counters: Counters::default(),
        }
    }

    /// The minimum interval of readings with many connections; zero with few.
    fn shared_interval(&self) -> Span {
        if self.active_flows <= FULL_SERVICE {
            return Span::ZERO;
        }
        self.period
            .mul_f64(f64::from(self.active_flows) / f64::from(FULL_SERVICE))
            .min(self.rtt.view().smoothed / READINGS_PER_RTT)
    }

    /// True if the program waits for room, or was woken recently and waits for a processor, so that it has more to
    /// send.
    fn waits(&self) -> bool {
        let waited = self.feed.now().since(self.woken_at);
        self.blocked || self.woken_at != Time::MAX && waited <= self.patience()
    }

    /// Time for which a program counts as blocked, and so not as the limit of the connection.
    fn patience(&self) -> Span {
        self.rtt.view().smoothed.max(Span::from_millis(100))
    }

    fn pacing_rate(&self) -> Option<Rate> {
        self.pacing_by(&self.feed.allowance())
    }

    fn pacing_by(&self, allowance: &Allowance) -> Option<Rate> {
        let floor = Rate::of(self.mss, Span::from_millis(20));
        let spread = allowance.quota == Bytes::MAX && !self.late.is_open();
        let rate = allowance.rate.filter(|_| spread);
        rate.map(|rate| rate.max(floor))
    }

    /// The whole segments that may be written while `unsent` bytes wait for the pacer; at most `most`.
    fn write_ahead(&self, most: Option<Bytes>, unsent: Bytes) -> Bytes {
        let mss = self.mss.get();
        most.map_or(Bytes::MAX, |most| {
            Bytes::new(most.saturating_sub(unsent).get() / mss * mss)
        })
    }

    fn take_mss(&mut self, mss: Bytes) {
        if mss != self.mss && mss > Bytes::ZERO {
            self.mss = mss;
            self.feed.mtu(mss);
        }
    }
}

/// Events from a reading of counters.
impl Flow {
    fn acknowledge(
        &mut self,
        ledger: &mut Ledger,
        mut frames: Option<&mut Frames>,
        now: Time,
        tcp: &TcpProgress,
        stamps: &[AckStamp],
    ) {
        let (since, source) = if frames.is_some() {
            (ledger.delivery().at(), Source::Wire)
        } else {
            // Nothing more had arrived at the last reading. A frame has its own time.
            (self.read_at, Source::TcpInfo)
        };
        let paced = frames.is_none() && self.pacing_rate().is_some() && !tcp.window_full;
        let sent = tcp.written.saturating_sub(tcp.unsent.get());
        ledger.sent(since, now, sent, paced);
        // Data that the pacer holds back is not in flight.
        let waits = if paced { tcp.unsent } else { Bytes::ZERO };
        let in_flight_before = ledger.under_way().saturating_sub(waits);
        let exact = frames.as_ref().and_then(|frames| frames.exact_min_rtt);
        let floor = tcp.min_rtt.max(exact.unwrap_or_default());
        let found = self.found_lost(ledger, tcp);
        if let Some(frames) = &mut frames {
            frames.read(ledger.acked(), since, now, stamps);
        }
        let rtt_error = ledger.stamped(since, stamps, now, tcp.acked, floor);
        let over = self.is_repaired(ledger, tcp);
        let begins = found > 0 && (self.repair.is_none() || over);
        let sacked = tcp.sacked.saturating_mul(self.mss.get());
        let lost = found.saturating_mul(self.mss.get());
        ledger.beyond(since, now, (sacked, lost), begins, floor);
        if let Some(frames) = frames
            && let (Some(newest), Some(last)) = (ledger.returned().last(), stamps.last())
            && ledger.ends_here(last.acked)
        {
            let rtt = last.at.since(newest.sent_at);
            frames.exact_min_rtt = Some(frames.exact_min_rtt.map_or(rtt, |min| min.min(rtt)));
        }
        self.feed.notify_local_receiver(ledger.returned());
        // On a path whose RTT is shorter than the interval of readings, that interval is the effective round trip, for
        // which the window has to last.
        let seldom = now.since(since) * READINGS_PER_RTT > tcp.min_rtt;
        if (tcp.unsent == Bytes::ZERO || paced) && !seldom {
            self.correct_rtt(ledger, since, now, tcp, floor);
        }
        for rtt in ledger.returned().iter().filter_map(|p| p.rtt) {
            self.rtt.sample(rtt);
        }
        self.report_losses(ledger, now, tcp, waits, over);
        self.report_arrivals(ledger, tcp, in_flight_before, waits, rtt_error, source);
        self.report_retransmissions(ledger, now, tcp);
    }

    /// Shifts the samples of this reading to the mean that the kernel measured. Its smoothed RTT is
    /// a moving average of exact samples. Two of its values and the number of samples between them
    /// give their mean.
    fn correct_rtt(
        &self,
        ledger: &mut Ledger,
        since: Time,
        now: Time,
        tcp: &TcpProgress,
        floor: Span,
    ) {
        let (before, after) = (self.seen.smoothed_rtt, tcp.smoothed_rtt);
        let samples = tcp.acks.saturating_sub(self.seen.acks);
        if before.is_zero() || after.is_zero() || samples == 0 {
            return;
        }
        let kept = KEPT.powi(i32::try_from(samples).unwrap_or(i32::MAX));
        let mean = (after.as_secs_f64() - kept * before.as_secs_f64()) / (1.0 - kept);
        ledger.shift_rtt(mean, since, now, floor);
    }

    /// Number of segments that the kernel has found lost since the last reading.
    fn found_lost(&self, ledger: &mut Ledger, tcp: &TcpProgress) -> u64 {
        let found = tcp.lost.saturating_sub(self.seen.lost);
        let counts = match tcp.repair {
            // A tail loss probe was not for a loss, or the kernel would be in recovery.
            Repair::None => false,
            Repair::Losses => true,
            // With datagrams a timeout marks nothing as lost.
            Repair::Timeout => !self.datagrams,
        };
        let repeated = tcp.retransmits > self.seen.retransmits;
        if !counts && (repeated || tcp.repair == Repair::Timeout) {
            ledger.mark_ambiguous();
        }
        if counts { found } else { 0 }
    }

    /// True if the recovery episode is over. Called after the ACKs are processed.
    fn is_repaired(&self, ledger: &Ledger, tcp: &TcpProgress) -> bool {
        self.repair.is_some_and(|episode| {
            if self.datagrams {
                let newest = ledger.returned().iter().map(|p| p.pn).max();
                newest >= Some(episode.pn) || tcp.acked >= episode.recovery_point
            } else {
                tcp.repair == Repair::None || tcp.acked >= episode.recovery_point
            }
        })
    }

    /// Reports timeouts, losses and spurious reductions.
    fn report_losses(
        &mut self,
        ledger: &Ledger,
        now: Time,
        tcp: &TcpProgress,
        waits: Bytes,
        over: bool,
    ) {
        let in_flight = ledger.under_way().saturating_sub(waits);
        let rtt = self.rtt.view();
        let raised = self.seen.ssthresh > 0 && tcp.ssthresh > self.seen.ssthresh;
        let taken_back = raised || tcp.undone > self.seen.undone;
        let before = if over || taken_back {
            self.repair.take()
        } else {
            None
        };
        if taken_back && let Some(episode) = before {
            let what = if episode.timeout {
                Spurious::Rto
            } else {
                Spurious::Loss
            };
            self.feed.spurious(what);
        }
        if before.is_some() {
            self.feed.repaired(in_flight, rtt);
        }
        let fresh = Episode {
            recovery_point: ledger.written(),
            pn: ledger.next_pn(),
            timeout: false,
            reported: 0,
        };
        if let Some(backoff) = self.expired(ledger, now, tcp)
            && let Some(oldest) = ledger.oldest()
        {
            let rto = Rto {
                backoff,
                oldest,
                in_flight,
                silence: now.since(ledger.acked_at().max(oldest.sent_at)),
            };
            self.feed.expired(&rto);
            let reported = self.repair.map_or(0, |e| e.reported) + 1;
            self.repair = Some(Episode {
                timeout: true,
                reported,
                ..self.repair.unwrap_or(fresh)
            });
        }
        let lost = ledger.lost();
        let Some(newest) = lost.last() else {
            return;
        };
        let new_episode = match self.repair {
            None => true,
            Some(episode) => self.datagrams && newest.pn >= episode.pn,
        };
        self.feed.lost(lost, new_episode, in_flight, rtt);
        if new_episode {
            self.repair = Some(fresh);
        }
    }

    /// The number of consecutive timeouts, if the retransmission timer has expired again.
    fn expired(&self, ledger: &Ledger, now: Time, tcp: &TcpProgress) -> Option<u32> {
        if tcp.repair != Repair::Timeout {
            return None;
        }
        let reported = self.repair.filter(|e| e.timeout).map_or(0, |e| e.reported);
        if self.datagrams {
            let rtt = self.rtt.view();
            let timeout = (rtt.smoothed + rtt.variance * 4).max(DATAGRAM_TIMEOUT);
            let silence = now.since(ledger.acked_at().max(self.last_write));
            return (silence >= timeout * (1 << reported.min(16))).then_some(reported + 1);
        }
        // The algorithm has already reacted to this.
        let repairing = u32::from(self.seen.repair == Repair::Losses);
        (self.has_backed_off(tcp)).then(|| tcp.backoff.max(1) + repairing)
    }

    /// True if the kernel's retransmission timer has expired since the last reading.
    fn has_backed_off(&self, tcp: &TcpProgress) -> bool {
        let anew = self.seen.repair != Repair::Timeout || tcp.backoff > self.seen.backoff;
        tcp.repair == Repair::Timeout && anew
    }

    /// Reports packets that have arrived.
    fn report_arrivals(
        &mut self,
        ledger: &Ledger,
        tcp: &TcpProgress,
        in_flight_before: Bytes,
        waits: Bytes,
        rtt_error: Span,
        source: Source,
    ) {
        let free = !self.waits() && *self.feed.limited() == LimitedBy::default();
        // Unsent data below a segment waits for more data of the program, not for the kernel's window; and paced data
        // waits for its departure time.
        let blocked = tcp.unsent >= self.mss && (tcp.window_full || self.pacing_rate().is_none());
        let packets = ledger.returned();
        if !packets.is_empty() {
            (self.feed.limited().app, self.feed.limited().peer) = (free, blocked);
        }
        // One arrival more or less in a reading changes the rate by some per cent, and an algorithm that keeps the
        // largest of many samples would keep the largest error. The kernel's sample is exact, and never below the true
        // rate.
        let rate = ledger.delivery().rate(packets);
        let rate = rate.map(|rate| tcp.delivery_rate.map_or(rate, |most| rate.min(most)));
        let marked = tcp.marked.saturating_sub(self.seen.marked);
        self.feed.marked(self.mss * marked);
        self.feed.acked(&Acked {
            packets,
            in_flight_before,
            in_flight: ledger.under_way().saturating_sub(waits),
            delivery: ledger.delivery(),
            rtt: self.rtt.view(),
            rate,
            in_recovery: self.repair.is_some(),
            advanced: self.datagrams || tcp.acked > self.seen.acked,
            source,
            rtt_error,
        });
    }

    /// Reports the retransmissions of the kernel since the last reading.
    fn report_retransmissions(&mut self, ledger: &mut Ledger, now: Time, tcp: &TcpProgress) {
        let segments = tcp.retransmits.saturating_sub(self.seen.retransmits);
        if segments == 0 {
            return;
        }
        ledger.sent_again(now, segments, self.mss, |pn, len, in_flight_before| {
            let sent = Sent {
                pn,
                len,
                in_flight_before,
                kind: Kind::Retransmit,
                app_limited: false,
            };
            report_sent(&mut self.feed, &sent)
        });
    }
}

/// Reports a transmission to the algorithm and to the local receiver module. Returns the algorithm's tag.
fn report_sent(feed: &mut Feed, sent: &Sent) -> Tag {
    let tag = feed.sent(sent);
    if feed.has_local_receiver() {
        feed.header(Sending {
            pn: sent.pn,
            more: true,
        });
    }
    tag
}

/// Events from a reading of samples.
impl Flow {
    fn under_way(&self, transmissions: &Transmissions) -> Bytes {
        self.mss * u64::from(transmissions.len())
    }

    /// Announces the number of packets that this reading will report as sent. A receiver module needs each of them.
    fn expect(&self, transmissions: &mut Transmissions, count: u32) {
        transmissions.begin_reading(count, self.feed.has_local_receiver());
    }

    /// Reports `count` packets sent at `at`.
    fn sent(&mut self, transmissions: &mut Transmissions, mut count: u32, at: Time) {
        let app_limited = is_app_limited(&self.seen);
        while count > 0 {
            let in_flight_before = self.under_way(transmissions);
            if in_flight_before == Bytes::ZERO {
                let heard_at = transmissions.last().at;
                self.feed.resume(heard_at, self.rtt.view().smoothed);
            }
            let packets = count.min(transmissions.longest());
            count -= packets;
            let sent = Sent {
                pn: transmissions.next_pn() + u64::from(packets - 1),
                len: self.mss * u64::from(packets),
                in_flight_before,
                kind: Kind::New,
                app_limited,
            };
            let tag = report_sent(&mut self.feed, &sent);
            transmissions.sent(at, (packets, self.mss), app_limited, tag);
        }
    }

    /// Takes one acknowledgement.
    fn take_sample(
        &mut self,
        transmissions: &mut Transmissions,
        now: Time,
        sample: &AckSample,
        tcp: &TcpProgress,
    ) {
        let count = transmissions.sent_before(sample);
        let sent_at = match sample.rtt {
            // After a pause the last acknowledgement is no evidence.
            Some(rtt) if transmissions.len() == 0 => Time::ZERO + sample.at.since(Time::ZERO + rtt),
            _ => transmissions.last().at.max(self.last_departure()),
        };
        let sent_at = sent_at.min(sample.at);
        self.feed.advance(sent_at);
        self.sent(transmissions, count, sent_at);
        let in_flight_before = self.under_way(transmissions);
        self.feed.advance(sample.at.min(now));
        transmissions.sampled(sample);
        self.feed.notify_local_receiver(transmissions.returned());
        if let Some(rtt) = transmissions.returned().last().and(sample.rtt) {
            self.rtt.sample(rtt);
        }
        self.report_sampled_losses(transmissions);
        self.report_sampled_arrivals(transmissions, in_flight_before, tcp);
    }

    /// The earliest time at which an unreported packet can have been sent: all before the last reading are known.
    fn last_departure(&self) -> Time {
        if self.unread {
            self.read_at.max(self.last_write)
        } else {
            self.read_at
        }
    }

    /// Reports losses. An episode is the losses of one flight. It ends with a packet sent in the
    /// episode.
    fn report_sampled_losses(&mut self, transmissions: &Transmissions) {
        let in_flight = self.under_way(transmissions);
        let rtt = self.rtt.view();
        let ends = |packet: &alcc_cc::Packet| self.repair.is_some_and(|e| packet.pn >= e.pn);
        if transmissions.returned().last().is_some_and(ends)
            || transmissions.lost().last().is_some_and(ends)
        {
            self.repair = None;
            self.feed.repaired(in_flight, rtt);
        }
        let new_episode = self.repair.is_none();
        (self.feed).lost(transmissions.lost(), new_episode, in_flight, rtt);
        if new_episode && !transmissions.lost().is_empty() {
            self.repair = Some(Episode {
                recovery_point: 0,
                pn: transmissions.next_pn(),
                timeout: false,
                reported: 0,
            });
        }
    }

    /// Reports packets that have arrived.
    fn report_sampled_arrivals(
        &mut self,
        transmissions: &Transmissions,
        in_flight_before: Bytes,
        tcp: &TcpProgress,
    ) {
        let packets = transmissions.returned();
        if !packets.is_empty() {
            *self.feed.limited() = LimitedBy {
                app: is_app_limited(tcp),
                window: tcp.window_full,
                ..LimitedBy::default()
            };
            let marked = tcp.marked.saturating_sub(self.seen.marked);
            self.feed.marked(self.mss * marked);
            self.seen.marked = tcp.marked;
        }
        self.feed.acked(&Acked {
            packets,
            in_flight_before,
            in_flight: self.under_way(transmissions),
            delivery: transmissions.delivery(),
            rtt: self.rtt.view(),
            rate: transmissions.delivery().rate(packets),
            in_recovery: self.repair.is_some(),
            advanced: true,
            source: Source::Wire,
            rtt_error: Span::ZERO,
        });
    }

    /// Reports that the retransmission timer has expired since the last reading.
    fn report_timeout(&mut self, transmissions: &Transmissions, now: Time, tcp: &TcpProgress) {
        if !self.has_backed_off(tcp) {
            return;
        }
        let Some(oldest) = transmissions.oldest().copied() else {
            return;
        };
        let rto = Rto {
            backoff: tcp.backoff.max(1),
            oldest,
            in_flight: self.under_way(transmissions),
            silence: now.since(transmissions.last().at.max(oldest.sent_at)),
        };
        self.feed
            .advance(now.min(self.read_at.max(self.feed.now())));
        self.feed.expired(&rto);
    }
}

/// True if the program had no more data, and the window was open.
fn is_app_limited(tcp: &TcpProgress) -> bool {
    tcp.unsent == Bytes::ZERO && !tcp.window_full
}

#[cfg(test)]
mod tests;
