// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Senders over a socket: any number of flows in one event loop.
use crate::end::End;
use crate::hub::{Engine, Hub};
use crate::outgoing::{Outgoing, Setup};
use crate::pacing::Pacing;
use crate::port::Port;
use crate::wire::Datagram;
use alcc_sys::now;
use alcc_units::{Bytes, Span, Time};
use hdrhistogram::Histogram;
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

/// Maximum time between two iterations, unless there is much to do, because a wake-up costs as much
/// as dozens of packets.
pub(crate) const MAX_PAUSE: Span = Span::from_millis(4);
/// Number of packets per iteration above which iterations become more frequent.
const PACKETS_PER_RUN: u64 = 48;
/// Time after which an application that has not returned is assumed to have no data.
const AWAY: Span = Span::from_millis(20);
/// Time for which a partial packet waits for more data.
const REST: Span = Span::from_millis(1);
const MIN_PAUSE: Span = Span::from_micros(250);

/// The pause between iterations, adapted to the load.
#[derive(Debug)]
pub(crate) struct Cadence {
    most: Span,
    pause: Span,
    at: Time,
}

impl Cadence {
    pub(crate) const fn new(most: Span) -> Self {
        Self {
            most,
            pause: most,
            at: Time::ZERO,
        }
    }

    pub(crate) fn pause(&self) -> Span {
        self.pause
    }

    /// An iteration at `now` processed this many packets.
    pub(crate) fn on_iteration(&mut self, now: Time, packets: u64) {
        let since = now.since(self.at).min(self.most * 4);
        self.at = now;
        if packets > 0 {
            let wanted = since * PACKETS_PER_RUN / packets;
            let wanted = wanted.max(MIN_PAUSE).min(self.most);
            // The pause shrinks at once and grows slowly.
            self.pause = wanted.min(self.pause + self.pause / 8 + Span::from_micros(50));
        }
    }
}

/// Statistics of a flow.
#[derive(Clone, Debug, Default)]
pub struct FlowStats {
    /// RTT samples without ACK delay: mean and 95th percentile, ms.
    pub rtt_ms: Option<(f64, f64)>,
    /// Packets sent.
    pub packets: u64,
    /// Retransmitted packets.
    pub retransmits: u64,
    /// Mean number of consecutive retransmissions.
    pub rtx_burst: Option<f64>,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Distance between departures and the pacer's departure times: mean, 95th and 99th percentile,
    /// ms; `None`: not paced.
    pub pacing_error_ms: Option<(f64, f64, f64)>,
    /// Lateness of the loop's timers, 99th percentile, ms.
    pub lateness_p99_ms: Option<f64>,
}

struct Flow {
    outgoing: Outgoing,
    to: SocketAddr,
    timer: Option<Time>,
    rtt: Histogram<u64>,
    pacing: Pacing,
    /// Runs of consecutive retransmissions: the number of runs, and of their packets.
    runs: (u64, u64),
    running: bool,
    resent: u64,
    /// True if the application waits in [`Stream::room`], or did until `returned_at`.
    waits: bool,
    returned_at: Time,
    /// True if its algorithm needs reports of the receiver module.
    needs_reports: bool,
    /// True if the handle was dropped.
    detached: bool,
}

struct Sending {
    port: Port,
    flows: HashMap<u64, Flow>,
    /// Open flows by address and id of their receivers.
    peers: HashMap<(SocketAddr, u64), u64>,
    timers: BTreeSet<(Time, u64)>,
    touched: Vec<u64>,
    out: Vec<u8>,
    cadence: Cadence,
    /// Number of flows whose algorithms need reports of the receiver module.
    needs_reports: usize,
    late: Histogram<u64>,
}

fn histogram() -> Histogram<u64> {
    // From a microsecond to more than an hour, with two digits.
    let mut made = Histogram::new_with_bounds(1, 1 << 32, 2);
    if made.is_err() {
        made = Histogram::new(2);
    }
    made.unwrap_or_else(|_| unreachable!("two digits are permitted"))
}

impl Sending {
    /// Sends what a flow may send and sets its timer. Returns the number of packets.
    fn pump(&mut self, now: Time, id: u64) -> u64 {
        let Some(flow) = self.flows.get_mut(&id) else {
            return 0;
        };
        let mut sender = self.port.sender();
        // An application that is away for too long has no more data for now, so a partial packet is
        // sent.
        let patience = if flow.outgoing.is_all_sent() {
            AWAY
        } else {
            REST
        };
        let away = !flow.waits && now.since(flow.returned_at) > patience;
        if away && flow.outgoing.has_partial_packet() {
            flow.outgoing.set_more(false);
        }
        flow.outgoing.set_poll_interval(self.cadence.pause());
        let mut count = 0;
        loop {
            self.out.clear();
            let due = flow.outgoing.sender().next_departure();
            if !flow.outgoing.poll(now, &mut self.out) {
                break;
            }
            flow.pacing.sent(now, due, &flow.outgoing);
            let resent = flow.outgoing.sender().stats().retransmits;
            let again = resent > flow.resent;
            flow.resent = resent;
            if again {
                flow.runs.0 += u64::from(!flow.running);
                flow.runs.1 += 1;
            }
            flow.running = again;
            sender.send_markable(flow.to, &self.out, flow.outgoing.is_markable());
            count += 1;
        }
        sender.flush();
        let ended = flow.outgoing.ended().is_some();
        if let Some(at) = flow.timer.take() {
            self.timers.remove(&(at, id));
        }
        if ended && flow.detached {
            self.needs_reports -= usize::from(flow.needs_reports);
            let peer = (flow.to, flow.outgoing.peer());
            if self.peers.get(&peer) == Some(&id) {
                self.peers.remove(&peer);
            }
            self.flows.remove(&id);
        } else if let Some(next) = flow.outgoing.next_timer() {
            let out = &flow.outgoing;
            let rest =
                !flow.waits && out.has_more() && out.has_partial_packet() && !out.is_all_sent();
            let next = if rest { next.min(now + REST * 2) } else { next };
            let next = next.max(now + Span::from_nanos(1));
            flow.timer = Some(next);
            self.timers.insert((next, id));
        }
        count
    }
}

impl Engine for Sending {
    fn run(&mut self, now: Time) -> bool {
        let (flows, peers, touched) = (&mut self.flows, &mut self.peers, &mut self.touched);
        let came = self.port.receive(&mut |_, came| {
            let (at, from) = (came.at, came.from);
            let Ok(datagram) = Datagram::read(came.bytes) else {
                return;
            };
            let id = match datagram {
                Datagram::Retry { id, .. }
                | Datagram::Accept { id, .. }
                | Datagram::Ack { id, .. }
                | Datagram::Close { id, .. }
                | Datagram::Answer { id, .. } => id,
                // The id in it is the receiver's.
                Datagram::Unknown { id } => match peers.get(&(from, id)) {
                    Some(id) => *id,
                    None => return,
                },
                Datagram::Hello { .. } | Datagram::Data { .. } => return,
            };
            let Some(flow) = flows.get_mut(&id).filter(|flow| flow.to == from) else {
                return;
            };
            if flow.outgoing.on_datagram(at, &datagram) {
                for packet in flow.outgoing.acked() {
                    if let Some(rtt) = packet.rtt {
                        flow.rtt.saturating_record(rtt.as_micros().max(1));
                    }
                }
            }
            if matches!(datagram, Datagram::Accept { .. }) && flow.outgoing.is_open() {
                peers.insert((from, flow.outgoing.peer()), id);
            }
            touched.push(id);
        });
        while let Some(&(at, id)) = self.timers.first()
            && at <= now
        {
            self.timers.pop_first();
            if let Some(flow) = self.flows.get_mut(&id) {
                flow.timer = None;
                flow.outgoing.on_timer(now);
                self.touched.push(id);
            }
        }
        let mut touched = std::mem::take(&mut self.touched);
        touched.sort_unstable();
        touched.dedup();
        let mut packets = came as u64;
        for id in touched.drain(..) {
            packets += self.pump(now, id);
        }
        let busy = packets > 0;
        self.touched = touched;
        self.cadence.on_iteration(now, packets);
        busy
    }

    fn next(&self) -> Option<Time> {
        self.timers.first().map(|(at, _)| *at)
    }

    fn pause(&self) -> Span {
        // Algorithms that use reports need them at once, because a pause would delay their control
        // loop.
        if self.needs_reports > 0 {
            return Span::ZERO;
        }
        self.cadence.pause()
    }

    fn is_punctual(&self) -> bool {
        false
    }

    fn late(&mut self, by: Span) {
        self.late.saturating_record(by.as_micros().max(1));
    }

    fn is_idle(&self) -> bool {
        self.flows.is_empty()
    }
}

/// A socket that sends flows.
pub struct Client {
    hub: Arc<Hub<Sending>>,
}

impl Client {
    /// A client that sends from this socket.
    ///
    /// # Errors
    /// The error of the system.
    pub fn new(socket: UdpSocket) -> io::Result<Self> {
        let fd = socket.try_clone()?.into();
        let engine = Sending {
            port: Port::new(socket)?,
            flows: HashMap::new(),
            peers: HashMap::new(),
            timers: BTreeSet::new(),
            touched: Vec::new(),
            out: Vec::new(),
            cadence: Cadence::new(MAX_PAUSE),
            needs_reports: 0,
            late: histogram(),
        };
        let hub = Hub::start(engine, fd)?;
        Ok(Self { hub })
    }

    /// Opens a flow to a receiver. It can be written to after [`Stream::wait_open`].
    pub fn connect(&self, to: SocketAddr, setup: Setup) -> Stream {
        let id = setup.id;
        let needs_reports = setup.cc.has_receiver();
        self.hub.with(|engine| {
            engine.needs_reports += usize::from(needs_reports);
            let now = now();
            let flow = Flow {
                outgoing: Outgoing::new(now, setup),
                to,
                timer: None,
                rtt: histogram(),
                pacing: Pacing::default(),
                runs: (0, 0),
                running: false,
                resent: 0,
                waits: false,
                returned_at: now,
                needs_reports,
                detached: false,
            };
            engine.flows.insert(id, flow);
            engine.pump(now, id);
        });
        Stream {
            hub: self.hub.clone(),
            id,
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.hub.close();
    }
}

/// The sending end of a flow. Dropping it ends the flow: cleanly if everything has arrived,
/// otherwise the receiver is informed of the abort.
pub struct Stream {
    hub: Arc<Hub<Sending>>,
    id: u64,
}

fn failed(end: &End) -> io::Error {
    let kind = match end {
        End::NoAnswer(_) | End::Silent(_) => io::ErrorKind::ConnectionAborted,
        End::Closed(_) | End::Forgotten => io::ErrorKind::ConnectionReset,
        End::Violation(_) => io::ErrorKind::InvalidData,
        End::Done | End::Aborted => io::ErrorKind::BrokenPipe,
    };
    io::Error::new(kind, end.clone())
}

impl Stream {
    /// Waits for an event of the flow; the end of the flow is an error.
    fn wait<R>(
        &self,
        most: Span,
        mut ready: impl FnMut(&mut Flow) -> Option<R>,
    ) -> io::Result<Option<R>> {
        let id = self.id;
        let waited = self.hub.wait(most, |engine| {
            let Some(flow) = engine.flows.get_mut(&id) else {
                return Some(Err(failed(&End::Aborted)));
            };
            if let Some(found) = ready(flow) {
                return Some(Ok(found));
            }
            flow.outgoing.ended().map(|end| Err(failed(end)))
        });
        waited.transpose()
    }

    /// Waits until the receiver has accepted the flow.
    ///
    /// # Errors
    /// The reason for which it was refused.
    pub fn wait_open(&self, most: Span) -> io::Result<bool> {
        let open = self.wait(most, |flow| flow.outgoing.is_open().then_some(()))?;
        Ok(open.is_some())
    }

    /// Waits, for at most `most`, until data can be written. Returns the recommended size of the next
    /// write, bytes; 0 if there was no room in that time.
    ///
    /// # Errors
    /// The reason why the flow has ended.
    pub fn room(&self, most: Span) -> io::Result<usize> {
        let room = self.wait(most, |flow| {
            flow.waits = true;
            flow.outgoing.set_more(true);
            let room = flow.outgoing.room();
            // Not for a few bytes, unless nothing else can be sent.
            let enough = flow.outgoing.has_partial_packet() || room >= 2 * 1400;
            (room > 0 && enough).then_some(room)
        });
        let id = self.id;
        self.hub.with(|engine| {
            if let Some(flow) = engine.flows.get_mut(&id) {
                flow.waits = false;
                flow.returned_at = now();
            }
        });
        Ok(room?.unwrap_or(0))
    }

    /// Writes the bytes for which there is room, and sends packets as allowed.
    ///
    /// # Errors
    /// The reason why the flow has ended.
    pub fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let id = self.id;
        self.hub.with(|engine| {
            let Some(flow) = engine.flows.get_mut(&id) else {
                return Err(failed(&End::Aborted));
            };
            if let Some(end) = flow.outgoing.ended() {
                return Err(failed(end));
            }
            let n = flow.outgoing.write(bytes);
            if n > 0 {
                flow.returned_at = now();
                engine.pump(now(), id);
            }
            Ok(n)
        })
    }

    /// Ends the stream. Waits until the receiver has everything; true if it has.
    ///
    /// # Errors
    /// The reason why the flow has ended.
    pub fn finish(&self, most: Span) -> io::Result<bool> {
        let id = self.id;
        self.hub.with(|engine| {
            if let Some(flow) = engine.flows.get_mut(&id) {
                flow.outgoing.finish();
                engine.pump(now(), id);
            }
        });
        let done = self.wait(most, |flow| flow.outgoing.is_done().then_some(()))?;
        Ok(done.is_some())
    }

    /// Waits for the receiving application's answer after the end.
    ///
    /// # Errors
    /// The reason why the flow has ended.
    pub fn answer(&self, most: Span) -> io::Result<Option<Vec<u8>>> {
        self.wait(most, |flow| flow.outgoing.answer().map(<[u8]>::to_vec))
    }

    /// The statistics so far.
    pub fn stats(&self) -> FlowStats {
        let id = self.id;
        self.hub.with(|engine| {
            let Some(flow) = engine.flows.get(&id) else {
                return FlowStats::default();
            };
            let stats = flow.outgoing.sender().stats();
            let ms = |us: u64| us as f64 / 1e3;
            FlowStats {
                rtt_ms: (!flow.rtt.is_empty())
                    .then(|| (flow.rtt.mean() / 1e3, ms(flow.rtt.value_at_quantile(0.95)))),
                packets: stats.transmissions,
                retransmits: stats.retransmits,
                rtx_burst: (flow.runs.0 > 0).then(|| flow.runs.1 as f64 / flow.runs.0 as f64),
                timeouts: stats.timeouts,
                pacing_error_ms: flow.pacing.error_ms(),
                lateness_p99_ms: (!engine.late.is_empty())
                    .then(|| ms(engine.late.value_at_quantile(0.99))),
            }
        })
    }

    /// The algorithm's internal values.
    pub fn gauges(&self, put: &mut dyn FnMut(&'static str, f64)) {
        let id = self.id;
        self.hub.with(|engine| {
            if let Some(flow) = engine.flows.get(&id) {
                flow.outgoing.sender().controller().gauges(put);
            }
        });
    }

    /// Payload in flight.
    pub fn in_flight(&self) -> Bytes {
        let id = self.id;
        self.hub.with(|engine| {
            let flow = engine.flows.get(&id);
            flow.map_or(Bytes::ZERO, |flow| flow.outgoing.sender().in_flight())
        })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let id = self.id;
        self.hub.with(|engine| {
            if let Some(flow) = engine.flows.get_mut(&id) {
                flow.detached = true;
                flow.outgoing.close();
                engine.pump(now(), id);
            }
        });
    }
}
