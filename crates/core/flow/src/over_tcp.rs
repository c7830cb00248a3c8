// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An algorithm above a TCP connection, or another stream of bytes.
mod reading;

use crate::{Ledger, RttEstimator, Rules, room};
use alcc_cc::{Allowance, Controller, Feed, Header, Kind, Log, Path, RttView, Sending, Sent};
use alcc_units::{Bytes, Rate, Span, Time};

/// What the kernel says of a connection at one instant (`TCP_INFO`; all fields of one reading belong together).
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
    /// Segments found lost in total: sent again, or about to be.
    pub lost: u64,
    /// Segments that have arrived beyond a hole.
    pub sacked: u64,
    /// What the kernel is repairing.
    pub repair: Repair,
    /// How often the retransmission timer has expired for the same data.
    pub backoff: u32,
    /// How often the kernel has taken back a reduction that was a mistake; zero if it does not say.
    pub undone: u64,
    /// Its slow start threshold in segments, zero if unknown: one that rises during a repair was taken back, too.
    pub threshold: u64,
    /// The kernel's sample of the delivery rate: its newest, or a larger one if that was limited by the application.
    pub delivery_rate: Option<Rate>,
    /// The kernel's own congestion window is full.
    pub window_full: bool,
    /// Smallest RTT the kernel has seen; zero if none.
    pub min_rtt: Span,
    /// The kernel's smoothed RTT, and how many samples went into it, about: acknowledgements that arrived. Zero if unknown.
    pub smoothed_rtt: Span,
    /// The latter.
    pub acks: u64,
    /// Segments delivered with a mark in total (`tcpi_delivered_ce`): the kernel's connection uses ECN.
    pub marked: u64,
    /// Current segment size.
    pub mss: Bytes,
}

/// What the kernel is repairing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Repair {
    /// Nothing.
    #[default]
    None,
    /// Losses that acknowledgements disclosed.
    Losses,
    /// What was in flight when the retransmission timer expired.
    Timeout,
}

/// What a connection did, for reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// How often a write was refused or cut short by the algorithm's limit.
    pub gate_closed: u64,
    /// Bytes that passed.
    pub bytes: u64,
}

/// One algorithm in charge of one TCP connection, without I/O.
///
/// The host calls [`OverTcp::room`] before each write of the program and [`OverTcp::wrote`] after it; reads the kernel's
/// counters when [`OverTcp::deadline`] says so and hands them to [`OverTcp::progress`]. TCP keeps retransmitting, ordering and
/// its own window; the algorithm decides when bytes are handed to it, so at any time the smaller of both windows holds.
pub struct OverTcp {
    feed: Feed,
    /// The peer acknowledges by frames of our own: it has the receiver half, and its times hold.
    frames: bool,
    /// Smallest RTT of a packet whose arrival had a time of its own: others are spread, but never below.
    exact: Option<Span>,
    ledger: Ledger,
    rtt: RttEstimator,
    mss: Bytes,
    read_at: Time,
    last_write: Time,
    /// The counters as of the last reading.
    seen: TcpProgress,
    /// The algorithm was made for datagrams: its own host has a timer of a second, and answers its expiry by a probe.
    datagrams: bool,
    repair: Option<Episode>,
    /// A write was refused or cut short: the program waits for room.
    shut: bool,
    last_shut: Option<Time>,
    period: Span,
    /// How many connections are served beside each other, this one included.
    company: u32,
    counters: Counters,
}

/// Losses of one flight, from the first to the repair.
#[derive(Clone, Copy, Debug)]
struct Episode {
    /// Over when the stream is acknowledged up to here, or a packet from here on.
    until: u64,
    pn: alcc_cc::Pn,
    timeout: bool,
    /// How many timeouts the algorithm was told of.
    told: u32,
}

/// What a paced connection may hold in the kernel beyond what has left: enough for so many readings, of which some come late.
const READINGS_AHEAD: u64 = 3;
/// And at least so many segments.
const SEGMENTS_AHEAD: u64 = 3;

/// So many connections are each read as often as their algorithm asks; more share the readings of so many.
const SERVED: u32 = 16;
/// But each is read so often in a round trip.
const READINGS_PER_RTT: u64 = 2;

impl OverTcp {
    /// Takes charge of a connection on which `progress` was read at `now`. `seed` feeds the controller's generator.
    pub fn new(cc: Box<dyn Controller>, now: Time, progress: &TcpProgress, seed: u64) -> Self {
        let mut new = Self::without_receiver(cc, now, progress, seed);
        new.feed.receive_here();
        new
    }

    fn without_receiver(
        cc: Box<dyn Controller>,
        now: Time,
        progress: &TcpProgress,
        seed: u64,
    ) -> Self {
        let mss = progress.mss.max(Bytes::new(1));
        let rtt_hint = (!progress.min_rtt.is_zero()).then_some(progress.min_rtt);
        let mut feed = Feed::new(cc, now);
        feed.start(&Path {
            mss,
            rtt_hint,
            seed,
        });
        let needs = feed.needs();
        let datagrams = !Rules::of(needs.stack).is_stream();
        let period = needs.feedback_period.max(Span::from_micros(100));
        Self {
            feed,
            frames: false,
            exact: None,
            ledger: Ledger::new(now, progress.written, progress.acked),
            rtt: RttEstimator::default(),
            mss,
            read_at: now,
            last_write: now,
            seen: *progress,
            datagrams,
            repair: None,
            shut: false,
            last_shut: None,
            period,
            company: 1,
            counters: Counters::default(),
        }
    }

    /// As [`OverTcp::new`], when the peer acknowledges by frames of our own inside the stream: their times are the whole truth
    /// ([`OverTcp::progress_stamped`]), and the algorithm's receiver half is at the peer ([`OverTcp::feedback`]).
    pub fn in_band(cc: Box<dyn Controller>, now: Time, progress: &TcpProgress, seed: u64) -> Self {
        Self {
            frames: true,
            ..Self::without_receiver(cc, now, progress, seed)
        }
    }

    /// Where the algorithm's events go from now on. At first they are thrown away.
    pub fn set_log(&mut self, log: Log) {
        self.feed.set_log(log);
    }

    /// How many of `wanted` bytes may be written now, with `queued` bytes in the kernel (written and not acknowledged), of
    /// them `unsent` not yet sent. Less than `wanted` shuts the gate: the program waits until [`OverTcp::opens`].
    pub fn room(&mut self, now: Time, wanted: Bytes, queued: Bytes, unsent: Bytes) -> Bytes {
        let now = self.feed.advance(now);
        if self.is_idle() {
            // The first write after a pause: what was due in between counts once, and readings start afresh.
            (self.feed).resume(self.ledger.acked_at(), self.rtt.view().smoothed);
            self.read_at = now;
            self.feed.run_timer();
        }
        let allowance = self.feed.allowance();
        let (room, ahead) = self.under(&allowance, wanted, queued, unsent);
        if room.min(ahead) >= wanted {
            return wanted;
        }
        self.shut(now, &allowance, queued, ahead < room);
        room.min(ahead)
    }

    /// Less was written than the algorithm allows because its pacing rate was not up to it yet.
    pub fn paced(&mut self, now: Time) {
        self.last_shut = Some(now);
        self.feed.limited().pacer = true;
    }

    /// The kernel's segment size.
    pub fn mss(&self) -> Bytes {
        self.mss
    }

    /// What [`OverTcp::room`] would say, without consequences.
    pub fn allows(&self, wanted: Bytes, queued: Bytes, unsent: Bytes) -> Bytes {
        let (room, ahead) = self.under(&self.feed.allowance(), wanted, queued, unsent);
        room.min(ahead).min(wanted)
    }

    /// What the window and the quota leave, and how much a paced connection may write ahead.
    ///
    /// TCP itself never goes below one segment in flight, and whoever writes a few bytes now and then does not expect to be
    /// refused: programs exist that then wait for something else first (the FTP server of CPython's tests).
    fn under(
        &self,
        allowance: &Allowance,
        wanted: Bytes,
        queued: Bytes,
        unsent: Bytes,
    ) -> (Bytes, Bytes) {
        if queued + wanted <= self.mss {
            return (wanted, wanted);
        }
        // TCP itself probes with what is under way, for as long as it takes.
        let ping = allowance.ping && queued == Bytes::ZERO;
        let in_flight = queued.saturating_sub(self.beyond(queued));
        let room = room(
            &Allowance { ping, ..*allowance },
            in_flight,
            unsent,
            self.mss,
        );
        (room, self.ahead(allowance, unsent))
    }

    /// Of what is queued in the kernel, what is not under way: it has arrived beyond a hole, or is lost and not sent again. As of the
    /// last reading, less what was acknowledged since.
    fn beyond(&self, queued: Bytes) -> Bytes {
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

    /// A paced connection writes ahead what leaves until the next readings: what waits longer in the kernel would leave at the rate
    /// of then, but count as in flight, and as sent, now.
    fn ahead(&self, allowance: &Allowance, unsent: Bytes) -> Bytes {
        let mss = self.mss.get();
        self.most_ahead(allowance).map_or(Bytes::MAX, |most| {
            Bytes::new(most.saturating_sub(unsent).get() / mss * mss)
        })
    }

    fn most_ahead(&self, allowance: &Allowance) -> Option<Bytes> {
        let rate = self.pacing_by(allowance).filter(|_| !self.frames)?;
        let span = self.period.max(self.shared()) * READINGS_AHEAD;
        Some(rate.bytes_in(span).max(self.mss * SEGMENTS_AHEAD))
    }

    fn shut(&mut self, now: Time, allowance: &Allowance, queued: Bytes, paced: bool) {
        self.counters.gate_closed += 1;
        self.shut = true;
        self.last_shut = Some(now);
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
        self.framed(now, len, false);
    }

    /// `len` bytes were written, and `more` follow at once. Returns what goes with them to the peer's receiver half; a
    /// frame for one that wants to know of each packet is no longer than a segment.
    pub fn framed(&mut self, now: Time, len: Bytes, more: bool) -> Header {
        let now = self.feed.advance(now);
        self.last_write = now;
        self.counters.bytes += len.get();
        // Limited by the application: the gate has not been reached for a round trip.
        let patience = self.rtt.view().smoothed.max(Span::from_millis(100));
        let app_limited = !self.shut && self.last_shut.is_none_or(|at| now.since(at) > patience);
        let feed = &mut self.feed;
        let headed = feed.receives_here() || self.frames && feed.needs().header > 0;
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

    /// The peer's receiver half has reported. Untrusted bytes.
    pub fn feedback(&mut self, now: Time, report: &[u8]) {
        self.feed.advance(now);
        self.feed.feedback(report);
    }

    /// Does what is due of the algorithm's own timer.
    pub fn on_timer(&mut self, now: Time) {
        self.feed.advance(now);
        self.feed.run_timer();
    }

    /// When the algorithm's own timer is due; `None` while idle.
    pub fn next_timer(&self) -> Option<Time> {
        self.feed.next_timer().filter(|_| !self.is_idle())
    }

    /// Nothing in flight and nobody waiting: no reading, no timer, no wake-up.
    pub fn is_idle(&self) -> bool {
        !self.shut && self.ledger.in_flight() == Bytes::ZERO
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
        // A peer that has fallen silent (outage, a client that stopped reading) is watched less closely the longer it lasts.
        let silence = self
            .read_at
            .since(self.ledger.acked_at().max(self.last_write));
        let patience = (silence / 64).min(Span::from_millis(20)).max(self.shared());
        Some(due.max(self.read_at + patience))
    }

    /// How many connections the host serves at the moment, this one included: among many each is read, and decided about, less often.
    /// Then a reading finds several segments acknowledged, and one write fills the room.
    pub fn among(&mut self, company: usize) {
        self.company = u32::try_from(company).unwrap_or(u32::MAX);
    }

    /// The least time between readings that the others leave; zero among few.
    fn shared(&self) -> Span {
        if self.company <= SERVED {
            return Span::ZERO;
        }
        self.period
            .mul_f64(f64::from(self.company) / f64::from(SERVED))
            .min(self.rtt.view().smoothed / READINGS_PER_RTT)
    }

    /// The program waits and there is room for a worthwhile write. The caller wakes the program and calls
    /// [`OverTcp::opened`].
    pub fn opens(&self, queued: Bytes, unsent: Bytes) -> bool {
        if !self.shut {
            return false;
        }
        let allowance = self.feed.allowance();
        let allowance = Allowance {
            ping: allowance.ping && queued == Bytes::ZERO,
            ..allowance
        };
        // Every opening costs the program a turn and a write: among many it has to bring more.
        let parts = if self.company <= SERVED { 16 } else { 4 };
        let segments = (allowance.window.get() / self.mss.get() / parts)
            .clamp(1, 4)
            .min((allowance.quota.get() / self.mss.get()).max(1));
        // A third of what may be written ahead: that much leaves from one reading to the next.
        let ahead = self.most_ahead(&allowance).unwrap_or(Bytes::MAX);
        let segments = segments.min((ahead.get() / READINGS_AHEAD / self.mss.get()).max(1));
        let in_flight = queued.saturating_sub(self.beyond(queued));
        room(&allowance, in_flight, Bytes::ZERO, self.mss).min(self.ahead(&allowance, unsent))
            >= self.mss * segments
    }

    /// The program has been told to write again.
    pub fn opened(&mut self) {
        self.shut = false;
    }

    /// True while the program waits for room.
    pub fn is_shut(&self) -> bool {
        self.shut
    }

    /// Pacing rate wanted, never below one segment per 20 ms: the departure of the next segment is fixed when the rate is
    /// set, so a lower rate would stall the connection long after it was raised again.
    ///
    /// For the same reason there is none beside a quota: the rate that spreads a tick's quota is another one every tick, and
    /// segments that leave by the rate of a poor tick hold up those of the rich one after it.
    pub fn pacing_rate(&self) -> Option<Rate> {
        self.pacing_by(&self.feed.allowance())
    }

    fn pacing_by(&self, allowance: &Allowance) -> Option<Rate> {
        let floor = Rate::of(self.mss, Span::from_millis(20));
        let rate = allowance.rate.filter(|_| allowance.quota == Bytes::MAX);
        rate.map(|rate| rate.max(floor))
    }

    /// The kernel paces at [`OverTcp::pacing_rate`]: what is written and not sent waits for its time.
    pub fn is_paced(&self) -> bool {
        !self.frames && self.pacing_rate().is_some()
    }

    /// Stream position up to which we know what was written.
    pub fn written(&self) -> u64 {
        self.ledger.written()
    }

    /// In flight as of the last reading.
    pub fn in_flight(&self) -> Bytes {
        self.ledger.in_flight()
    }

    /// Round-trip times as of the last reading.
    pub fn rtt(&self) -> RttView {
        self.rtt.view()
    }

    /// What the algorithm allows now.
    pub fn allowance(&self) -> Allowance {
        self.feed.allowance()
    }

    /// What happened so far.
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
}

#[cfg(test)]
mod tests;
