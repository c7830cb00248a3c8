// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One of this project's transports between two threads of this process, each in the namespace of
//! its end. Each end records the times and sizes of its writes or reads.
use super::programs::{Addresses, Namespaces, Programs, RunContext};
use crate::cpu::Work;
use crate::sampler::History;
use crate::scheme::Scheme;
use crate::transports::TRANSPORTS;
use crate::{LabError, cpu, route};
use alcc_cc::Registry;
use alcc_emu::{EmuError, FlowKey, Namespace};
use alcc_pipe::tls::Trust;
use alcc_pipe::{DEFAULT_PORT, Failure, Options, Plan, Target, Transport};
use alcc_results::Row;
use alcc_transfer::receiving::{self, Activity, Disk, Output, Received, Rules};
use alcc_transfer::sending::{self, Content, Job, Sent};
use alcc_transfer::{Counter, Header, Kind, clock_digest, new_session};
use alcc_units::{Span, Time};
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A flow on which nothing moves for this long has failed.
const STALL: Duration = Duration::from_secs(120);
/// Time that a thread may take to end. One that still says goodbye to a peer that is gone is left
/// behind; it ends by its own timeouts.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// Background threads of all sockets of the process. They are in the namespace of the first one,
/// and nobody can say for whom they work.
const SHARED: [&str; 2] = ["alcc-udp", "alcc-inband"];

pub(super) struct Bulk {
    scheme: Scheme,
    transport: &'static dyn Transport,
    registry: Registry,
    ends: Namespaces,
    /// Port of the receiver.
    port: u16,
    receiver: Option<End<Received>>,
    sender: Option<End<Sent>>,
    /// Report of the sender, once it has ended.
    sent: Option<Sent>,
    plan: Plan,
    writes: Arc<Mutex<Samples>>,
    reads: Arc<Mutex<Samples>>,
    addresses: Option<Addresses>,
}

impl Bulk {
    pub(super) fn start(
        scheme: &Scheme,
        transport: &'static dyn Transport,
        context: &RunContext<'_>,
    ) -> Result<Self, LabError> {
        let mut bulk = Self {
            scheme: scheme.clone(),
            transport,
            registry: context.tools.registry.clone(),
            ends: context.ends.clone(),
            port: DEFAULT_PORT + context.number,
            receiver: None,
            sender: None,
            sent: None,
            plan: Plan::default(),
            writes: Arc::default(),
            reads: Arc::default(),
            addresses: None,
        };
        let (listens, listening) = mpsc::channel();
        let (options, reads) = (bulk.options(), Arc::clone(&bulk.reads));
        let at = SocketAddr::from((Ipv4Addr::UNSPECIFIED, bulk.port));
        let receiver = End::start(&bulk.ends.receiver, "alcc-receiver", move |stop| {
            receive(transport, at, &options, reads, stop, &listens)
        })?;
        bulk.receiver = Some(receiver);
        match listening.recv() {
            Ok(None) => Ok(bulk),
            Ok(Some(why)) => Err(bulk.scheme.failed(why.to_string())),
            Err(_) => Err(bulk
                .scheme
                .failed("the receiver's thread ended before it listened")),
        }
    }

    /// Options of both ends.
    fn options(&self) -> Options {
        Options {
            carrier: self.scheme.carrier.clone(),
            // No other run uses the namespaces.
            cleartext: true,
            trust: Trust::Anybody,
            ..Options::new(self.registry.clone())
        }
    }
}

/// Waits for one flow and reads it to its end. `listens`: it can be connected to, or why not.
fn receive(
    transport: &dyn Transport,
    at: SocketAddr,
    options: &Options,
    reads: Arc<Mutex<Samples>>,
    stop: Arc<AtomicBool>,
    listens: &mpsc::Sender<Option<Failure>>,
) -> Received {
    let listening = TRANSPORTS.listen(transport, at, options);
    let told = |why: Option<Failure>| drop(listens.send(why));
    let ended = |why: String| Received {
        failure: Some(why),
        ..Received::default()
    };
    let mut listening = match listening {
        Ok(listening) => listening,
        Err(why) => {
            let failure = why.to_string();
            told(Some(why));
            return ended(failure);
        }
    };
    told(None);
    while !stop.load(Ordering::Relaxed) {
        match listening.accept() {
            Ok(None) => {}
            Ok(Some(mut pipe)) => {
                let rules = Rules {
                    out: Output::Discard,
                    overwrite: false,
                    max_size: u64::MAX,
                    disk: Arc::new(Disk::new(u64::MAX)),
                    stall: STALL,
                    resume: None,
                    closed: AtomicBool::new(false),
                    stop,
                    passed: passed(reads),
                };
                return receiving::flow(&mut *pipe, &rules, &Activity::default(), |_| {});
            }
            Err(why) => return ended(format!("wait for the sender: {why}")),
        }
    }
    ended("nobody came".to_owned())
}

/// Sends without end.
fn send(
    transport: &dyn Transport,
    options: &Options,
    to: &Target,
    writes: Arc<Mutex<Samples>>,
    stop: &AtomicBool,
) -> Result<Sent, Failure> {
    let dialer = transport.dialer(options)?;
    let session = new_session()?;
    let header = Header {
        kind: Kind::MadeUp,
        flow: 0,
        flows: 1,
        size: None,
        session,
        clock: clock_digest(&session),
        offset: None,
    };
    let job = Job {
        dialer: &*dialer,
        to,
        rate: None,
        stall: STALL,
        stop,
        passed: &*passed(writes),
    };
    Ok(sending::flow(&job, &header, Content::MadeUp(None)))
}

fn passed(samples: Arc<Mutex<Samples>>) -> Box<dyn Fn(u64, u64) + Send + Sync> {
    Box::new(move |bytes, now| alcc_sys::lock(&samples).add(bytes, now))
}

impl Programs for Bulk {
    fn prepare(&mut self, addresses: Addresses) -> Result<(), LabError> {
        if let Some(kernel) = self.scheme.kernel() {
            let set = self
                .ends
                .sender
                .run(|| route::use_algorithm(addresses.from, addresses.to, kernel))?;
            set.map_err(LabError::os(format!(
                "{}: make the kernel use {kernel}",
                self.scheme.name
            )))?;
        }
        self.addresses = Some(addresses);
        Ok(())
    }

    fn start_client(&mut self) -> Result<(), LabError> {
        let Some(addresses) = self.addresses else {
            return Ok(());
        };
        let options = Options {
            cc: self.scheme.controlled.clone(),
            under: self.scheme.kernel().map(str::to_owned),
            ..self.options()
        };
        let plan = TRANSPORTS.plan(self.transport, &options);
        self.plan = plan.map_err(|why| self.scheme.failed(why.to_string()))?;
        let to = Target {
            host: addresses.to.to_string(),
            port: self.port,
        };
        let (transport, writes) = (self.transport, Arc::clone(&self.writes));
        let sender = End::start(&self.ends.sender, "alcc-sender", move |stop| {
            let sent = send(transport, &options, &to, writes, &stop);
            sent.unwrap_or_else(|why| Sent {
                failure: Some(why),
                ..Sent::default()
            })
        })?;
        self.sender = Some(sender);
        Ok(())
    }

    fn stop_client(&mut self) {
        if let Some(sender) = self.sender.take() {
            self.sent = sender.end().ok();
        }
    }

    fn observe(&mut self, _: Time) {}

    fn check(&mut self, is_over: bool) -> Result<(), LabError> {
        if is_over {
            return Ok(());
        }
        let why = if let Some(sender) = self.sender.take_if(|end| end.has_ended()) {
            let why = sender.end().map(|sent| sent.failure.map(|f| f.to_string()));
            ("sender", why)
        } else if let Some(receiver) = self.receiver.take_if(|end| end.has_ended()) {
            ("receiver", receiver.end().map(|received| received.failure))
        } else {
            return Ok(());
        };
        let (who, why) = (why.0, why.1.unwrap_or_else(Some).unwrap_or_default());
        Err(self
            .scheme
            .failed(format!("the {who} ended before the window did: {why}")))
    }

    fn work(&self) -> Option<Work> {
        let mut threads = self.ends.sender.threads();
        threads.retain(|thread| {
            let name = fs::read_to_string(format!("/proc/self/task/{thread}/comm"));
            name.is_ok_and(|name| !SHARED.contains(&name.trim_end()))
        });
        cpu::work_of_threads(&threads)
    }

    fn owns(&self, flow: &FlowKey) -> bool {
        flow.inside.1 == self.port
    }

    fn end(&mut self) {
        self.stop_client();
        if let Some(receiver) = self.receiver.take() {
            // What it says of a flow that was cut off is not asked for.
            let _ = receiver.end();
        }
    }

    fn results(
        &mut self,
        [from, to]: [Time; 2],
        row: &mut Row,
        _: &mut Vec<String>,
    ) -> Result<(), LabError> {
        let (Some(addresses), Some(sent)) = (self.addresses, self.sent.take()) else {
            return Err(self.scheme.failed("it left no report"));
        };
        let zero = monotonic(addresses.origin);
        let writes = alcc_sys::lock(&self.writes).since(zero);
        let reads = alcc_sys::lock(&self.reads).since(zero);
        let by = |time: Time| {
            let n = reads.partition_point(|(at, _)| *at < time);
            n.checked_sub(1).map_or(0, |i| reads[i].1)
        };
        row.bytes = Some(by(to) - by(from));
        if let Some([median, p95]) = History::of_writes(writes).app_delay_ms(&reads, from, to) {
            row.app_delay_median_ms = Some(median);
            row.app_delay_p95_ms = Some(p95);
        }
        row.feedback.clone_from(&self.plan.feedback);
        row.enforcement.clone_from(&self.plan.enforcement);
        row.rtt_mean_ms = sent.stats.rtt_mean_ms;
        row.rtt_p95_ms = sent.stats.rtt_p95_ms;
        row.retransmits = sent.stats.retransmits;
        row.timeouts = sent.stats.timeouts;
        row.rtx_burst = sent.stats.rtx_burst;
        Ok(())
    }
}

/// Times and byte counts at one end.
#[derive(Default)]
struct Samples {
    counter: Counter,
    /// Times on `CLOCK_MONOTONIC`, ns.
    readings: Vec<(u64, u64)>,
}

impl Samples {
    fn add(&mut self, bytes: u64, now: u64) {
        self.readings.extend(self.counter.add(bytes, now));
    }

    /// Converts times to the link's clock, which began at `zero`.
    fn since(&mut self, zero: u64) -> Vec<(Time, u64)> {
        self.readings.extend(self.counter.rest());
        let at = |ns: u64| Time::from_nanos(ns.saturating_sub(zero));
        let readings = self.readings.iter();
        readings.map(|(ns, bytes)| (at(*ns), *bytes)).collect()
    }
}

/// The thread of one end.
struct End<T> {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<T, EmuError>>>,
}

impl<T: Send + 'static> End<T> {
    fn start(
        at: &Namespace,
        name: &str,
        work: impl FnOnce(Arc<AtomicBool>) -> T + Send + 'static,
    ) -> Result<Self, EmuError> {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = at.spawn_thread(name, move || work(told))?;
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }

    fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Ends it and returns its report, or the reason why there is none.
    fn end(mut self) -> Result<T, String> {
        self.stop.store(true, Ordering::Relaxed);
        let until = Instant::now() + END_TIMEOUT;
        while !self.has_ended() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
        let thread = self.thread.take().filter(JoinHandle::is_finished);
        match thread.map(JoinHandle::join) {
            Some(Ok(done)) => done.map_err(|why| why.to_string()),
            Some(Err(_)) => Err("it panicked, and standard error says where".to_owned()),
            None => Err("it does not end".to_owned()),
        }
    }
}

impl Drop for Bulk {
    fn drop(&mut self) {
        self.end();
    }
}

/// `CLOCK_MONOTONIC` at `instant`, ns.
fn monotonic(instant: Instant) -> u64 {
    let ago = Span::from(instant.elapsed()).as_nanos();
    alcc_sys::now().as_nanos().saturating_sub(ago)
}
