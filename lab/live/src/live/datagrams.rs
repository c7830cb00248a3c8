// SPDX-License-Identifier: Apache-2.0 OR MIT
//! UDP packets at a constant rate without congestion control: two threads of this process, each in
//! the namespace of its end.
use super::programs::{Addresses, Namespaces, Programs, RunContext};
use crate::LabError;
use crate::cpu::Work;
use crate::scheme::{Constant, Scheme};
use crate::server::PORT;
use alcc_emu::FlowKey;
use alcc_results::Row;
use alcc_units::{Span, Time};
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// IPv4 and UDP.
const HEADER: u64 = 28;
/// Maximum interval at which a thread checks whether to end.
const TICK: Duration = Duration::from_millis(50);
/// Time resolution of the count of received bytes.
const GRAIN: Span = Span::from_millis(1);

pub(super) struct Datagrams {
    scheme: Scheme,
    constant: Constant,
    ends: Namespaces,
    port: u16,
    addresses: Option<Addresses>,
    stop_sender: Arc<AtomicBool>,
    stop_receiver: Arc<AtomicBool>,
    sender: Option<JoinHandle<()>>,
    receiver: Option<JoinHandle<Vec<(Time, u64)>>>,
    /// Times and counts of received payload bytes.
    received: Vec<(Time, u64)>,
}

impl Datagrams {
    pub(super) fn start(scheme: &Scheme, constant: Constant, context: &RunContext<'_>) -> Self {
        Self {
            scheme: scheme.clone(),
            constant,
            ends: context.ends.clone(),
            port: PORT + context.number,
            addresses: None,
            stop_sender: Arc::default(),
            stop_receiver: Arc::default(),
            sender: None,
            receiver: None,
            received: Vec::new(),
        }
    }

    fn thread<T: Send + 'static>(
        name: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<JoinHandle<T>, LabError> {
        let thread = std::thread::Builder::new().name(name.to_owned());
        thread
            .spawn(work)
            .map_err(LabError::os(format!("start the thread {name}")))
    }
}

fn send(socket: &UdpSocket, constant: &Constant, stop: &AtomicBool) {
    let payload = vec![0; constant.packet.get().saturating_sub(HEADER) as usize];
    let began = Instant::now();
    let mut n = 0;
    while !stop.load(Ordering::Relaxed) {
        let due = Duration::from(constant.source.packet_at(n));
        let wait = due.saturating_sub(began.elapsed());
        if wait.is_zero() {
            // Whoever is not there yet, or has no room, does not get it.
            let _ = socket.send(&payload);
            n += 1;
        } else {
            std::thread::sleep(wait.min(TICK));
        }
    }
}

fn receive(socket: &UdpSocket, origin: Instant, stop: &AtomicBool) -> Vec<(Time, u64)> {
    let mut received: Vec<(Time, u64)> = vec![(Time::ZERO, 0)];
    let mut buffer = [0; 2048];
    while !stop.load(Ordering::Relaxed) {
        let Ok(bytes) = socket.recv(&mut buffer) else {
            continue;
        };
        let now = Time::ZERO + Span::from(origin.elapsed());
        match received.last_mut() {
            Some((at, all)) if now.since(*at) < GRAIN => *all += bytes as u64,
            last => {
                let before = last.map_or(0, |(_, all)| *all);
                received.push((now, before + bytes as u64));
            }
        }
    }
    received
}

impl Programs for Datagrams {
    fn prepare(&mut self, addresses: Addresses) -> Result<(), LabError> {
        let at = (addresses.to, self.port);
        let bound = self.ends.receiver.run(|| UdpSocket::bind(at))?;
        let socket = bound
            .and_then(|socket| socket.set_read_timeout(Some(TICK)).map(|()| socket))
            .map_err(LabError::os(format!("listen on UDP port {}", self.port)))?;
        let stop = Arc::clone(&self.stop_receiver);
        self.receiver = Some(Self::thread("alcc-udp-in", move || {
            receive(&socket, addresses.origin, &stop)
        })?);
        self.addresses = Some(addresses);
        Ok(())
    }

    fn start_client(&mut self) -> Result<(), LabError> {
        let Some(addresses) = self.addresses else {
            return Ok(());
        };
        let to = (addresses.to, self.port);
        let opened = self.ends.sender.run(|| {
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
            socket.connect(to).map(|()| socket)
        })?;
        let socket = opened.map_err(LabError::os("open a UDP socket"))?;
        let (constant, stop) = (self.constant, Arc::clone(&self.stop_sender));
        self.sender = Some(Self::thread("alcc-udp-out", move || {
            send(&socket, &constant, &stop);
        })?);
        Ok(())
    }

    fn stop_client(&mut self) {
        self.stop_sender.store(true, Ordering::Relaxed);
        if let Some(sender) = self.sender.take() {
            let _ = sender.join();
        }
    }

    fn observe(&mut self, _now: Time) {}

    fn check(&mut self, _is_over: bool) -> Result<(), LabError> {
        Ok(())
    }

    fn work(&self) -> Option<Work> {
        None
    }

    fn owns(&self, flow: &FlowKey) -> bool {
        flow.inside.1 == self.port
    }

    fn end(&mut self) {
        self.stop_client();
        self.stop_receiver.store(true, Ordering::Relaxed);
        if let Some(receiver) = self.receiver.take() {
            self.received = receiver.join().unwrap_or_default();
        }
    }

    fn results(
        &mut self,
        [from, to]: [Time; 2],
        row: &mut Row,
        _notes: &mut Vec<String>,
    ) -> Result<(), LabError> {
        let by = |time: Time| {
            let n = self.received.partition_point(|(at, _)| *at < time);
            n.checked_sub(1).map_or(0, |i| self.received[i].1)
        };
        match by(to) - by(from) {
            0 => Err(self.scheme.failed("no datagram arrived")),
            bytes => {
                row.bytes = Some(bytes);
                Ok(())
            }
        }
    }
}

impl Drop for Datagrams {
    fn drop(&mut self) {
        self.end();
    }
}
