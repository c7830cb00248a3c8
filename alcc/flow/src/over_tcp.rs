// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An algorithm above a TCP connection, or another stream of bytes.
mod in_band;
mod reading;
mod sampled;

pub use sampled::Limit;

use self::in_band::InBand;
use crate::late::Lateness;
use crate::transmissions::Transmissions;
use crate::{Ledger, RttEstimator, Rules, room};
use alcc_cc::{
    Allowance, Controller, Feed, Header, Kind, Log, Path, ProfilePoint, RttView, Sending, Sent,
};
use alcc_units::{Bytes, Rate, Span, Time};

/// The kernel's state of a connection at one instant. All fields come from one `TCP_INFO`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TcpProgress {
    /// Bytes of the stream acknowledged in total.
    pub acked: u64,
    /// Bytes of the stream written in total.
    pub written: u64,
    /// Written and not yet sent.
    pub unsent: Bytes,
    /// Segments retransmitted in total.
    pub retransmits: u64,
    /// Segments found lost in total, whether retransmitted yet or not.
    pub lost: u64,
    /// Segments received above a hole (SACKed).
    pub sacked: u64,
    /// Whether the kernel is in loss recovery.
    pub repair: Repair,
    /// Consecutive timeouts for the same data.
    pub backoff: u32,
    /// Reductions that the kernel has undone as spurious; zero if it does not report them.
    pub undone: u64,
    /// Slow start threshold in segments, zero if unknown. If it rises during recovery, that shows
    /// an undo, too.
    pub ssthresh: u64,
    /// The kernel's delivery rate sample: its newest, or a larger application-limited one.
    pub delivery_rate: Option<Rate>,
    /// Segments in flight.
    pub in_flight: u32,
    /// The kernel's own congestion window is full.
    pub window_full: bool,
    /// Smallest RTT the kernel has seen; zero if none.
    pub min_rtt: Span,
    /// The kernel's smoothed RTT; zero if unknown.
    pub smoothed_rtt: Span,
    /// Number of samples in it, about: received ACKs.
    pub acks: u64,
    /// Segments delivered with a CE mark in total (`tcpi_delivered_ce`).
    pub marked: u64,
    /// Current segment size.
    pub mss: Bytes,
}

impl TcpProgress {
    /// Written and not acknowledged, whether sent or not.
    pub fn in_buffer(&self) -> Bytes {
        Bytes::new(self.written.saturating_sub(self.acked))
    }
}

/// The kernel's loss recovery.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Repair {
    /// None.
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

/// One algorithm in control of one TCP connection, without I/O.
///
/// The host calls [`OverTcp::room`] before each write of the program, and [`OverTcp::wrote`] after
/// it. When [`OverTcp::deadline`] is due it reads the kernel's counters and passes them to
/// [`OverTcp::progress`]. TCP keeps its retransmission, ordering and window. The algorithm decides
/// when bytes are handed to TCP, so the smaller of both windows holds.
pub struct OverTcp {
    feed: Feed,
    /// The peer acknowledges by in-band frames: it has the receiver module, and its times are
    /// exact. So it is known how late they are heard of.
    in_band: Option<Box<InBand>>,
    ledger: Ledger,
    /// Replaces the ledger where the kernel keeps the limit and reports each acknowledgement.
    transmissions: Option<Box<Transmissions>>,
    /// Something was written since the last reading.
    unread: bool,
    rtt: RttEstimator,
    mss: Bytes,
    read_at: Time,
    last_write: Time,
    /// The counters of the last reading.
    seen: TcpProgress,
    /// The algorithm expects datagrams: an RTO of a second, and a probe when it expires.
    datagrams: bool,
    repair: Option<Episode>,
    /// A write was refused or cut short: the program waits for room.
    blocked: bool,
    last_blocked: Option<Time>,
    /// The program was told then that there is room, and has not come back; `Time::MAX`: it has. An
    /// option would take twice the memory.
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

/// A paced connection may hold unsent data in the kernel for this many readings, because some
/// readings come late.
const READINGS_AHEAD: u64 = 3;
/// And at least this many segments.
const SEGMENTS_AHEAD: u64 = 3;

/// The readings of a peer that is silent for so long that this lies between them fall together with
/// those of others.
const MIN_GRID: Span = Span::from_millis(20);
/// Shorter outages are usual on radio links, and their end is to be seen at once.
const LONG_OUTAGE: Span = Span::from_secs(10);
/// Longest time between two readings of a silent peer, before they fall together.
const MAX_PATIENCE: Span = Span::from_secs(1);
/// The same where the kernel keeps the limit and waits for our answers.
const MAX_PATIENCE_STEERED: Span = Span::from_millis(300);

/// Up to this many connections are each read as often as their algorithm asks. More connections
/// share the readings of this many.
const FULL_SERVICE: u32 = 16;
/// But each is read at least this often per RTT.
const READINGS_PER_RTT: u64 = 2;

impl OverTcp {
    /// Takes control of a connection with the state `progress` at `now`. `seed` is for the
    /// controller's random numbers.
    pub fn new(cc: Box<dyn Controller>, now: Time, progress: &TcpProgress, seed: u64) -> Self {
        let mut new = Self::waiting(cc, now, progress);
        new.start(progress, seed);
        new
    }

    /// As [`OverTcp::new`], for a peer that acknowledges by in-band frames.
    /// [`OverTcp::progress_stamped`] gets exact times. The receiver module is at the peer
    /// ([`OverTcp::feedback`]).
    pub fn in_band(cc: Box<dyn Controller>, now: Time, progress: &TcpProgress, seed: u64) -> Self {
        let mut new = Self::waiting(cc, now, progress);
        new.in_band = Some(Box::new(InBand::new(now)));
        new.start(progress, seed);
        new
    }

    /// As [`OverTcp::new`], but the algorithm has not started: call [`OverTcp::start`] before
    /// anything else. A host on a small stack can start it elsewhere.
    pub fn waiting(cc: Box<dyn Controller>, now: Time, progress: &TcpProgress) -> Self {
        Self {
            feed: Feed::new(cc, now),
            in_band: None,
            ledger: Ledger::new(now, progress.written, progress.acked),
            transmissions: None,
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

    /// Sends the algorithm's events to `log`. For events of its start, call this before it.
    pub fn set_log(&mut self, log: Log) {
        self.feed.set_log(log);
    }

    /// Starts the algorithm of [`OverTcp::waiting`], with the same `progress`.
    pub fn start(&mut self, progress: &TcpProgress, seed: u64) {
        self.feed.start(&Path {
            mss: self.mss,
            rtt_hint: (!progress.min_rtt.is_zero()).then_some(progress.min_rtt),
            seed,
        });
        if self.in_band.is_none() {
            self.feed.use_local_receiver();
        }
        let needs = self.feed.needs();
        self.datagrams = !Rules::of(needs.stack).is_stream();
        self.period = needs.feedback_period.max(Span::from_micros(100));
    }

    /// How many of `wanted` bytes may be written now. The kernel holds `queued` unacknowledged
    /// bytes, of which `unsent` are not sent yet. If the answer is less than `wanted`, the
    /// connection is blocked until [`OverTcp::is_writable`].
    pub fn room(&mut self, now: Time, wanted: Bytes, queued: Bytes, unsent: Bytes) -> Bytes {
        let now = self.feed.advance(now);
        self.woken_at = Time::MAX;
        if self.is_idle() && self.transmissions.is_none() {
            // The first write after idle: what was due meanwhile counts once, and readings start
            // again.
            (self.feed).resume(self.ledger.acked_at(), self.rtt.view().smoothed);
            self.read_at = now;
            self.feed.run_timer();
        }
        let allowance = self.feed.allowance();
        let (room, ahead) = self.limits(&allowance, wanted, queued, unsent);
        if room.min(ahead) >= wanted {
            return wanted;
        }
        self.block(now, &allowance, queued, ahead < room);
        room.min(ahead)
    }

    /// The pacing rate allowed less than the window.
    pub fn paced(&mut self, now: Time) {
        self.last_blocked = Some(now);
        self.feed.limited().pacer = true;
    }

    /// The kernel's segment size.
    pub fn mss(&self) -> Bytes {
        self.mss
    }

    /// What [`OverTcp::room`] would return, without side effects.
    pub fn allows(&self, wanted: Bytes, queued: Bytes, unsent: Bytes) -> Bytes {
        let (room, ahead) = self.limits(&self.feed.allowance(), wanted, queued, unsent);
        room.min(ahead).min(wanted)
    }

    /// The limit by window and quota, and the limit by writing ahead of the pacer.
    ///
    /// TCP never goes below one segment in flight. Programs do not expect that a write of a few
    /// bytes is refused. Some then wait for something else first, as the FTP server in CPython's
    /// tests does.
    fn limits(
        &self,
        allowance: &Allowance,
        wanted: Bytes,
        queued: Bytes,
        unsent: Bytes,
    ) -> (Bytes, Bytes) {
        let kept_elsewhere = self.transmissions.is_some() || self.late.is_open();
        if kept_elsewhere || queued + wanted <= self.mss {
            return (wanted, wanted);
        }
        // TCP itself probes with what is in flight.
        let ping = allowance.ping && queued == Bytes::ZERO;
        let in_flight = queued.saturating_sub(self.not_in_flight(queued));
        let room = room(
            &Allowance { ping, ..*allowance },
            in_flight,
            unsent,
            self.mss,
        );
        (room, self.write_ahead(allowance, unsent))
    }

    /// The part of the queued bytes that is not in flight: SACKed, or lost and not retransmitted.
    /// As of the last reading, less the bytes acknowledged since. In-band: arrived but not yet
    /// reported.
    fn not_in_flight(&self, queued: Bytes) -> Bytes {
        if let Some(in_band) = &self.in_band {
            return in_band.unheard.bytes();
        }
        let hidden = self
            .ledger
            .in_flight()
            .saturating_sub(self.ledger.under_way());
        if hidden == Bytes::ZERO {
            return hidden;
        }
        let since = self.ledger.in_flight().saturating_sub(queued);
        hidden.saturating_sub(since)
    }

    /// A paced connection writes ahead what the pacer releases until the next readings. Further
    /// data would leave at a later rate, but count as in flight now.
    fn write_ahead(&self, allowance: &Allowance, unsent: Bytes) -> Bytes {
        let mss = self.mss.get();
        self.max_write_ahead(allowance).map_or(Bytes::MAX, |most| {
            Bytes::new(most.saturating_sub(unsent).get() / mss * mss)
        })
    }

    fn max_write_ahead(&self, allowance: &Allowance) -> Option<Bytes> {
        let rate = self
            .pacing_by(allowance)
            .filter(|_| self.in_band.is_none())?;
        let span = self.period.max(self.shared_interval()) * READINGS_AHEAD;
        Some(rate.bytes_in(span).max(self.mss * SEGMENTS_AHEAD))
    }

    fn block(&mut self, now: Time, allowance: &Allowance, queued: Bytes, paced: bool) {
        self.counters.gate_closed += 1;
        self.blocked = true;
        self.last_blocked = Some(now);
        if paced {
            self.feed.limited().pacer = true;
            return;
        }
        let window_full = allowance.window.saturating_sub(queued) < allowance.quota;
        self.feed.limited().window |= window_full;
        self.feed.limited().quota |= !window_full;
    }

    /// `len` bytes were written.
    pub fn wrote(&mut self, now: Time, len: Bytes) {
        self.wrote_framed(now, len, false);
    }

    /// `len` bytes were written, and `more` follow at once. Returns the header for the peer's
    /// receiver module. If the module wants every packet, a frame is at most one segment.
    pub fn wrote_framed(&mut self, now: Time, len: Bytes, more: bool) -> Header {
        self.counters.bytes += len.get();
        if self.transmissions.is_some() {
            // When it leaves, the samples say, which are older than this moment.
            (self.last_write, self.unread) = (now, true);
            return Header::EMPTY;
        }
        let now = self.feed.advance(now);
        self.last_write = now;
        // Application-limited: not blocked within the last round trip.
        let patience = self.patience();
        let app_limited =
            !self.blocked && self.last_blocked.is_none_or(|at| now.since(at) > patience);
        if let Some(in_band) = &mut self.in_band
            && self.ledger.in_flight() == Bytes::ZERO
        {
            in_band.unheard.begin(now);
        }
        let feed = &mut self.feed;
        let headed = feed.has_local_receiver() || self.in_band.is_some() && feed.needs().header > 0;
        let mut header = Header::EMPTY;
        let mut left = len;
        self.ledger.wrote(
            now,
            len,
            self.mss,
            app_limited,
            |pn, len, in_flight_before| {
                let sent = Sent {
                    pn,
                    len,
                    in_flight_before,
                    kind: Kind::New,
                    app_limited,
                };
                left = left.saturating_sub(len);
                let tag = feed.sent(&sent);
                let more = more || left > Bytes::ZERO;
                if headed {
                    header = feed.header(Sending { pn, more });
                }
                tag
            },
        );
        header
    }

    /// A report of the peer's receiver module. Untrusted.
    pub fn feedback(&mut self, now: Time, report: &[u8]) {
        self.feed.advance(now);
        self.feed.feedback(report);
    }

    /// Runs the algorithm's timer if it is due.
    pub fn on_timer(&mut self, now: Time) {
        self.feed.advance(now);
        self.feed.run_timer();
    }

    /// When the algorithm's own timer is due; `None` while idle.
    pub fn next_timer(&self) -> Option<Time> {
        self.feed.next_timer().filter(|_| !self.is_idle())
    }

    /// Nothing is in flight and nobody waits: no reading, no timer, no wake-up.
    pub fn is_idle(&self) -> bool {
        !self.blocked && !self.unread_in_kernel() && self.in_flight() == Bytes::ZERO
    }

    /// The kernel may have more than we know of.
    fn unread_in_kernel(&self) -> bool {
        self.transmissions.is_some() && (self.unread || self.seen.unsent > Bytes::ZERO)
    }

    /// When something was acknowledged last.
    fn acked_at(&self) -> Time {
        let sampled = self.transmissions.as_ref().map(|t| t.last().at);
        sampled.unwrap_or_else(|| self.ledger.acked_at())
    }

    /// When the counters should be read next; `None` while idle.
    pub fn deadline(&self) -> Option<Time> {
        if self.is_idle() {
            return None;
        }
        let reading = self.read_at + self.period;
        let timers = self.feed.next_timer().into_iter();
        let timers = timers.chain(self.feed.next_report());
        let due = timers.fold(reading, Time::min);
        let patience = self.silence_patience();
        let due = due.max(self.read_at + patience.max(self.shared_interval()));
        if patience <= MIN_GRID {
            return Some(due);
        }
        // All silent connections are due at the same times, a quarter of the patience apart: one
        // wake-up serves many.
        let step = 1u64 << (patience.as_nanos() / 4).ilog2();
        Some(Time::from_nanos(due.as_nanos().next_multiple_of(step)))
    }

    /// The time until the next reading of a silent peer: the longer the silence, the less often. In
    /// an outage the kernel itself retransmits at intervals that double. A peer that has stopped
    /// reading (bytes wait, and all that were sent are acknowledged) says nothing until it reads
    /// again.
    ///
    /// The kernel that keeps the limit gives a socket back after 0.5 s without an answer.
    fn silence_patience(&self) -> Span {
        let silence = self.read_at.since(self.acked_at().max(self.last_write));
        let unsent = self.seen.unsent;
        let stopped = unsent > Bytes::ZERO && unsent == self.seen.in_buffer();
        let most = if self.transmissions.is_some() {
            MAX_PATIENCE_STEERED
        } else {
            MAX_PATIENCE
        };
        match silence {
            _ if stopped => (silence / 8).min(most),
            _ if silence < LONG_OUTAGE => (silence / 64).min(Span::from_millis(20)),
            _ => (silence / 64).min(most),
        }
    }

    /// Sets the number of active connections of the host, including this one. Among many, each is
    /// read less often. A reading then finds several segments acknowledged, and one write fills the
    /// room.
    pub fn set_active_flows(&mut self, active_flows: usize) {
        self.active_flows = u32::try_from(active_flows).unwrap_or(u32::MAX);
    }

    /// The minimum time between readings among many connections; zero among few.
    fn shared_interval(&self) -> Span {
        if self.active_flows <= FULL_SERVICE {
            return Span::ZERO;
        }
        self.period
            .mul_f64(f64::from(self.active_flows) / f64::from(FULL_SERVICE))
            .min(self.rtt.view().smoothed / READINGS_PER_RTT)
    }

    /// The program waits, and there is room for a worthwhile write. The caller wakes the program
    /// and calls [`OverTcp::unblock`].
    pub fn is_writable(&self, queued: Bytes, unsent: Bytes) -> bool {
        if !self.blocked || self.late.is_open() {
            return self.blocked;
        }
        let allowance = self.feed.allowance();
        let allowance = Allowance {
            ping: allowance.ping && queued == Bytes::ZERO,
            ..allowance
        };
        // Each wake-up costs the program an iteration and a write: among many it has to bring more.
        let parts = if self.active_flows <= FULL_SERVICE {
            16
        } else {
            4
        };
        let segments = (allowance.window.get() / self.mss.get() / parts)
            .clamp(1, 4)
            .min((allowance.quota.get() / self.mss.get()).max(1));
        // A third of the limit: that much leaves between two readings.
        let ahead = self.max_write_ahead(&allowance).unwrap_or(Bytes::MAX);
        let segments = segments.min((ahead.get() / READINGS_AHEAD / self.mss.get()).max(1));
        let in_flight = queued.saturating_sub(self.not_in_flight(queued));
        room(&allowance, in_flight, Bytes::ZERO, self.mss).min(self.write_ahead(&allowance, unsent))
            >= self.mss * segments
    }

    /// The program was told that it may write again.
    pub fn unblock(&mut self) {
        if std::mem::take(&mut self.blocked) {
            self.woken_at = self.feed.now();
        }
    }

    /// The program waits for room, or was told of room recently and waits for a processor. Then it
    /// has more to send.
    fn waits(&self) -> bool {
        let waited = self.feed.now().since(self.woken_at);
        self.blocked || self.woken_at != Time::MAX && waited <= self.patience()
    }

    /// A program that was blocked within this time does not limit the connection.
    fn patience(&self) -> Span {
        self.rtt.view().smoothed.max(Span::from_millis(100))
    }

    /// True while the program waits for room.
    pub fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// The pacing rate, at least one segment per 20 ms. The kernel fixes the departure of the next
    /// segment when the rate is set. So a lower rate would stall the connection after it rises
    /// again.
    ///
    /// With a quota there is no pacing rate, for the same reason. The rate that spreads a quota
    /// changes every tick. Segments of a slow tick would delay those of a fast one.
    pub fn pacing_rate(&self) -> Option<Rate> {
        self.pacing_by(&self.feed.allowance())
    }

    fn pacing_by(&self, allowance: &Allowance) -> Option<Rate> {
        let floor = Rate::of(self.mss, Span::from_millis(20));
        let spread = allowance.quota == Bytes::MAX && !self.late.is_open();
        let rate = allowance.rate.filter(|_| spread);
        rate.map(|rate| rate.max(floor))
    }

    /// The kernel paces at [`OverTcp::pacing_rate`], and unsent data waits for its departure time.
    pub fn is_paced(&self) -> bool {
        self.in_band.is_none() && self.pacing_rate().is_some()
    }

    /// Stream position up to which all writes are known.
    pub fn written(&self) -> u64 {
        self.ledger.written()
    }

    /// In flight as of the last reading.
    pub fn in_flight(&self) -> Bytes {
        match self.transmissions {
            Some(_) => self.bytes_under_way(),
            None => self.ledger.in_flight(),
        }
    }

    /// RTT as of the last reading.
    pub fn rtt(&self) -> RttView {
        self.rtt.view()
    }

    /// The algorithm's current allowance.
    pub fn allowance(&self) -> Allowance {
        self.feed.allowance()
    }

    /// Totals.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// The algorithm's window; [`Bytes::MAX`] if it has none.
    pub fn window(&self) -> Bytes {
        self.feed.allowance().window
    }

    /// The algorithm's internal values.
    pub fn gauges(&self, put: &mut dyn FnMut(&'static str, f64)) {
        self.feed.controller().gauges(put);
    }

    /// The algorithm's delay profile.
    pub fn profile(&self, put: &mut dyn FnMut(ProfilePoint)) {
        self.feed.controller().profile(put);
    }
}

#[cfg(test)]
mod tests;
