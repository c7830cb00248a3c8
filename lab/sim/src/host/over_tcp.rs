// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The controller above a simulated TCP connection. A program writes as much as it may, with a gate
//! in front of its writes. Counters are read at the moments that [`OverTcp`] asks for, or a little
//! later.
use super::{Host, SenderStats, Writes, earlier};
use crate::network::Outbox;
use alcc_cc::{Controller, Instance, Log, RttView};
use alcc_flow::{Ack, Arrival, FoundLost, OverTcp, Rules, Sender};
use alcc_units::{Bytes, Rng, Span, Time};

/// Bytes that the program offers per write (nginx's `sendfile_max_chunk`).
const CHUNK: Bytes = Bytes::new(2 << 20);

/// Lateness of events on the sending machine.
///
/// ```
/// use alcc_sim::Timing;
/// use alcc_units::Span;
///
/// let busy = Timing { wake: Span::from_millis(5), ..Timing::default() };
/// assert!(busy.wake > Timing::default().wake);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timing {
    /// Smallest delay with which the counters are read.
    pub lateness: Span,
    /// Largest random addition to `lateness`, uniformly distributed.
    pub jitter: Span,
    /// Time until a program that may write again does so.
    pub wake: Span,
}

impl Default for Timing {
    /// A timer of an otherwise idle machine, and a program in `epoll_wait`.
    fn default() -> Self {
        Self {
            lateness: Span::from_micros(50),
            jitter: Span::from_micros(100),
            wake: Span::from_micros(200),
        }
    }
}

/// The simulated kernel connection below an algorithm.
pub struct Kernel {
    /// Its congestion control's name.
    pub name: String,
    /// A controller that has not started; the run uses a copy.
    pub controller: Instance,
    /// Rules for sending and acknowledging.
    pub rules: Rules,
    /// Lateness of events on its machine.
    pub timing: Timing,
}

pub(crate) struct OverTcpHost {
    over: Option<OverTcp>,
    idle: Option<Instance>,
    log: Option<Log>,
    tcp: Sender,
    writes: Writes,
    stats: SenderStats,
    timing: Timing,
    rng: Rng,
    seed: u64,
    write_at: Option<Time>,
    /// The program has the stream up to here.
    available: u64,
    /// The socket is full: the program waits until it is writable.
    full: bool,
    /// The next reading that `OverTcp` requested, and the time at which it will happen.
    reading: Option<(Time, Time)>,
}

impl OverTcpHost {
    pub(crate) fn new(
        cc: Instance,
        below: &Kernel,
        now: Time,
        handshake_rtt: Span,
        seed: u64,
    ) -> Self {
        Self {
            over: None,
            idle: Some(cc),
            log: None,
            tcp: Sender::new(
                below.controller.clone(),
                &below.rules,
                now,
                Some(handshake_rtt),
                seed ^ 0x0062_656c_6f77,
            ),
            writes: Writes::default(),
            stats: SenderStats::default(),
            timing: below.timing,
            rng: Rng::new(seed ^ 0x7469_6d69_6e67),
            seed,
            write_at: None,
            available: 0,
            full: false,
            reading: None,
        }
    }

    /// The program writes until the gate or the socket stops it.
    fn write(&mut self, now: Time) {
        let Some(over) = &mut self.over else { return };
        loop {
            let free = self.tcp.free();
            if free == Bytes::ZERO {
                self.full = true;
                break;
            }
            let offered = CHUNK.min(Bytes::new(self.available - self.tcp.written()));
            if offered == Bytes::ZERO {
                break;
            }
            let room = over.room(now, offered, self.tcp.queued(), self.tcp.unsent());
            let len = room.min(free);
            if len > Bytes::ZERO {
                self.tcp.write(len);
                self.writes.wrote(now, self.tcp.written());
                over.wrote(now, len);
            }
            if room < offered {
                break;
            }
        }
        self.tcp.set_max_pacing(over.pacing_rate());
    }

    /// The socket wakes a program that waits for it.
    fn wake(&mut self, now: Time) {
        if self.full && self.tcp.is_writable() {
            self.full = false;
            self.write_at = Some(now + self.timing.wake);
        }
    }

    fn read(&mut self, now: Time) {
        let Some(over) = &mut self.over else { return };
        self.reading = None;
        over.progress(now, &self.tcp.progress());
        self.tcp.set_max_pacing(over.pacing_rate());
        if over.is_writable(self.tcp.queued(), self.tcp.unsent()) {
            over.unblock();
            self.write_at = Some(now + self.timing.wake);
        }
    }

    fn schedule_reading(&mut self, now: Time) {
        let wanted = self.over.as_ref().and_then(OverTcp::deadline);
        if self.reading.map(|(wanted, _)| wanted) == wanted {
            return;
        }
        self.reading = wanted.map(|deadline| {
            let jitter = self.rng.below(self.timing.jitter.as_nanos() + 1);
            let late = self.timing.lateness + Span::from_nanos(jitter);
            (deadline, deadline.max(now) + late.max(Span::from_nanos(1)))
        });
    }
}

impl Host for OverTcpHost {
    fn rules(&self) -> &Rules {
        self.tcp.rules()
    }

    fn set_log(&mut self, log: Log) {
        self.log = Some(log);
    }

    fn on_start(&mut self, now: Time) {
        self.tcp.start(now);
        if let Some(cc) = self.idle.take() {
            let progress = self.tcp.progress();
            let mut over = OverTcp::waiting(cc, now, &progress);
            if let Some(log) = self.log.take() {
                over.set_log(log);
            }
            over.start(&progress, self.seed);
            self.over = Some(over);
        }
    }

    fn on_write(&mut self, now: Time, upto: u64) {
        self.available = upto.max(self.tcp.written());
        self.write_at = Some(now);
        self.on_timer(now);
    }

    fn on_ack(&mut self, now: Time, ack: &Ack, _arrivals: &[Arrival]) {
        let result = self.tcp.on_ack(now, ack);
        debug_assert!(result.is_ok(), "{result:?}");
        self.stats.record_rtt(&self.tcp);
        self.wake(now);
    }

    fn on_timer(&mut self, now: Time) {
        self.tcp.on_timer(now);
        if self.reading.is_some_and(|(_, at)| at <= now) {
            self.read(now);
        }
        if self.write_at.is_some_and(|at| at <= now) {
            self.write_at = None;
            self.write(now);
        }
        self.schedule_reading(now);
    }

    fn send(&mut self, now: Time, out: &mut Outbox<'_>) {
        while let Some(transmit) = self.tcp.poll_transmit(now) {
            out.push(transmit);
        }
        if self.rules().notsent_lowat.is_some() {
            self.wake(now);
        }
    }

    fn written_at(&mut self, position: u64) -> Time {
        self.writes.at(position)
    }

    fn next_timer(&self) -> Option<Time> {
        let reading = self.reading.map(|(_, at)| at);
        earlier(earlier(reading, self.write_at), self.tcp.next_timer())
    }

    fn written(&self) -> u64 {
        self.tcp.written()
    }

    fn in_flight(&self) -> Bytes {
        self.tcp.in_flight()
    }

    fn keep_lost(&mut self) {
        self.tcp.keep_lost();
    }

    fn take_lost(&mut self) -> Vec<FoundLost> {
        self.tcp.take_lost()
    }

    fn rtt(&self) -> RttView {
        self.tcp.rtt()
    }

    fn outcome(&self) -> (Bytes, u64) {
        self.tcp.outcome()
    }

    fn window(&self) -> Option<Bytes> {
        self.over.as_ref().map(OverTcp::window)
    }

    fn kernel_window(&self) -> Option<f64> {
        Some(self.tcp.window_packets() as f64)
    }

    fn controller(&self) -> Option<&dyn Controller> {
        self.over.as_ref().map(OverTcp::controller)
    }

    fn stats(&mut self) -> &mut SenderStats {
        self.stats.count(&self.tcp);
        self.stats.gate_closed = self.over.as_ref().map_or(0, |o| o.counters().gate_closed);
        &mut self.stats
    }
}
