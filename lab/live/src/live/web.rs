// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An unmodified nginx, alone or below `alcc run`, and an unmodified curl. Both are observed from
//! the outside.
use super::programs::{Addresses, Programs, RunContext};
use crate::client::{Client, Reads};
use crate::cpu::Work;
use crate::sampler::{self, History};
use crate::scheme::Scheme;
use crate::server::{self, Listen, RuntimeReport, Server};
use crate::{LabError, cpu, route};
use alcc_emu::{FlowKey, Namespace};
use alcc_results::Row;
use alcc_sys::Process;
use alcc_sys::Sockets;
use alcc_units::Time;
use std::io;
use std::net::{SocketAddrV4, TcpListener};
use std::os::fd::{AsRawFd, RawFd};
use std::path::PathBuf;

pub(super) struct Web {
    scheme: Scheme,
    sender: Namespace,
    receiver: Namespace,
    curl: PathBuf,
    port: u16,
    /// True if other schemes share the link: a route would apply to all of them.
    is_shared: bool,
    server: Option<Server>,
    client: Option<Client>,
    addresses: Option<Addresses>,
    diagnosis: Option<Sockets>,
    reads: Reads,
    history: History,
    runtime: Option<RuntimeReport>,
}

impl Web {
    pub(super) fn start(scheme: &Scheme, context: &RunContext<'_>) -> Result<Self, LabError> {
        let listen = Listen {
            port: server::PORT + context.number,
            ..Listen::default()
        };
        let server = Server::start(
            &context.ends.sender,
            scheme,
            context.tools,
            context.folder,
            context.files,
            context.log,
            listen,
        )?;
        Ok(Self {
            scheme: scheme.clone(),
            sender: context.ends.sender.clone(),
            receiver: context.ends.receiver.clone(),
            curl: context.tools.curl()?,
            port: listen.port,
            is_shared: context.is_shared,
            server: Some(server),
            client: None,
            addresses: None,
            diagnosis: None,
            reads: Reads::default(),
            history: History::default(),
            runtime: None,
        })
    }
}

/// Connections to this port of the process use the kernel's algorithm `name` from now on: they have
/// their listening socket's TCP_CONGESTION.
fn use_algorithm(pid: u32, port: u16, name: &str) -> io::Result<()> {
    let gone = || {
        io::Error::new(
            io::ErrorKind::NotFound,
            format!("nothing listens on {port}"),
        )
    };
    let process = Process::open(pid)?;
    let fds = std::fs::read_dir(format!("/proc/{pid}/fd"))?.flatten();
    let numbers = fds.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut listeners = numbers.filter_map(|fd: RawFd| {
        let socket = TcpListener::from(process.descriptor(fd).ok()?);
        let at = socket.local_addr().ok()?;
        (at.port() == port).then_some(socket)
    });
    let listener = listeners.next().ok_or_else(gone)?;
    alcc_sys::set_under(listener.as_raw_fd(), name).map_err(io::Error::from_raw_os_error)
}

impl Programs for Web {
    fn prepare(&mut self, addresses: Addresses) -> Result<(), LabError> {
        let kernel = &self.scheme.kernel;
        let plain = self.scheme.controlled.is_none();
        let opened = self.sender.run(|| {
            if !self.is_shared {
                route::use_algorithm(addresses.from, addresses.to, kernel)?;
            } else if let Some(server) = self.server.as_ref().filter(|_| plain) {
                use_algorithm(server.id(), self.port, kernel)?;
            }
            Sockets::open()
        })?;
        self.diagnosis = Some(opened.map_err(LabError::os(format!(
            "{}: make the kernel use {kernel}",
            self.scheme.name
        )))?);
        self.addresses = Some(addresses);
        Ok(())
    }

    fn start_client(&mut self) -> Result<(), LabError> {
        let Some(addresses) = self.addresses else {
            return Ok(());
        };
        let server = SocketAddrV4::new(addresses.from, self.port);
        let started = Client::start(&self.receiver, &self.curl, server, addresses.origin)?;
        self.client = Some(started);
        Ok(())
    }

    fn stop_client(&mut self) {
        if let Some(client) = self.client.take() {
            self.reads = client.stop();
        }
    }

    fn observe(&mut self, now: Time) {
        // A sample that fails is missing, and the rest carries on. The fields stay null if all are
        // missing.
        if let Some(diagnosis) = &mut self.diagnosis
            && let Ok(connections) = sampler::connections(diagnosis, self.port)
        {
            self.history.add(now, connections);
        }
    }

    fn check(&mut self, is_over: bool) -> Result<(), LabError> {
        if let Some(server) = &mut self.server {
            server.check("the server ended during the run")?;
        }
        if !is_over && self.client.as_mut().is_some_and(|c| !c.is_alive()) {
            return Err(self.scheme.failed("curl ended before the window did"));
        }
        Ok(())
    }

    fn work(&self) -> Option<Work> {
        cpu::work_of_tree(self.server.as_ref()?.id())
    }

    fn owns(&self, flow: &FlowKey) -> bool {
        flow.outside.1 == self.port
    }

    fn end(&mut self) {
        self.stop_client();
        if let Some(server) = self.server.take() {
            self.runtime = server.stop();
        }
    }

    fn results(
        &mut self,
        [from, to]: [Time; 2],
        row: &mut Row,
        notes: &mut Vec<String>,
    ) -> Result<(), LabError> {
        let payload = self
            .reads
            .payload(from, to)
            .ok_or_else(|| self.scheme.failed("the server's answer was no success"))?;
        row.bytes = Some(payload);
        if let Some([median, p95]) = self.history.app_delay_ms(&self.reads.at, from, to) {
            row.app_delay_median_ms = Some(median);
            row.app_delay_p95_ms = Some(p95);
        }
        if let Some([mean, p95]) = self.history.rtt_ms(from, to) {
            row.rtt_mean_ms = Some(mean);
            row.rtt_p95_ms = Some(p95);
        }
        let last = self.history.last();
        if last.written > 0 {
            row.retransmits = Some(last.counters.retransmits);
            row.timeouts = last.counters.timeouts;
            let wanted = match self.scheme.enforce {
                Some(_) => alcc_sys::WINDOW_CONTROL,
                None => &self.scheme.kernel,
            };
            if last.congestion != wanted {
                return Err(self.scheme.failed(format!(
                    "asked the kernel for {wanted}, and the connection used {}",
                    last.congestion
                )));
            }
        }
        if self.scheme.controlled.is_none() {
            let held = self.history.held_by_buffer();
            notes.extend(held.map(|percent| {
                format!(
                    "{}: its send buffer was the limit in {percent} % of the time in which it sent (net.ipv4.tcp_wmem): take a slower link or a shorter round trip",
                    self.scheme.name
                )
            }));
            return Ok(());
        }
        let runtime = self
            .runtime
            .take()
            .ok_or_else(|| self.scheme.failed("alcc run left no report"))?;
        let says = runtime.notes().map_err(|why| self.scheme.failed(why))?;
        notes.extend(
            says.iter()
                .map(|note| format!("{}: {note}", self.scheme.name)),
        );
        row.feedback = runtime.feedback;
        row.enforcement = runtime.enforcement;
        Ok(())
    }
}
