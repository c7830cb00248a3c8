// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Datagrams as a transport of `alcc send`: the native reference, for measurements. Not encrypted.
use crate::{Arrived, Client, Limits, Server, Setup, Stream, unguessable};
use alcc_cc::{Registry, Spec};
use alcc_pipe::{
    About, Dialer, Failure, Incoming, Listening, MAX_WAIT, Options, Outgoing, Plan, Stats, Takes,
    Target, Tls, Transport, Under, cleartext,
};
use alcc_units::Span;
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex};

/// Datagrams as a transport.
pub struct Udp;

/// Limit of unread bytes that senders may make a receiver hold.
const MAX_UNREAD: usize = 256 << 20;

/// Time of silence after which a peer that should send counts as dead. It is longer than an outage
/// of a minute, and than the interval between the last two probes in it.
const SILENCE: Span = Span::from_secs(150);

/// Maximum of the length field of a first datagram.
const MAX_SPEC: usize = 255;

impl Transport for Udp {
    fn about(&self) -> About {
        About {
            name: "udp",
            summary: "plain datagrams for measurements, the algorithm's native form; not encrypted",
            suffix: "-udp",
            feedback: "udp",
            enforcement: "native",
            takes: Takes {
                needs_cc: true,
                other_feedback: false,
                under: Under::None("datagrams have no kernel congestion control below"),
                carrier: Err("datagrams have no carrier"),
                tls: Tls::Never,
            },
        }
    }

    fn plan(&self, options: &Options) -> Result<Plan, Failure> {
        let spec = options.algorithm()?;
        if spec.to_string().len() > MAX_SPEC {
            return Err(Failure::usage(format!(
                "--cc: with datagrams an algorithm's options have to fit into {MAX_SPEC} characters",
            )));
        }
        Ok(Plan::native(spec, &self.about()))
    }

    fn dialer<'a>(&self, options: &'a Options) -> Result<Box<dyn Dialer + 'a>, Failure> {
        Ok(Box::new(UdpDialer {
            options,
            spec: options.algorithm()?,
            clients: Mutex::default(),
        }))
    }

    fn listen(&self, at: SocketAddr, options: &Options) -> Result<Box<dyn Listening>, Failure> {
        permit(at.ip(), options, "--bind 127.0.0.1")?;
        let failed = |e: io::Error| Failure::usage(format!("receive at {at}: {e}"));
        let socket = UdpSocket::bind(at).map_err(failed)?;
        let registry = options.registry.clone();
        let receiver_modules = Box::new(move |spec: &str| receiver_module(&registry, spec));
        let limits = Limits {
            silence: SILENCE,
            unread: MAX_UNREAD,
            ..Limits::default()
        };
        let server = Server::new(socket, receiver_modules, limits).map_err(failed)?;
        Ok(Box::new(UdpListener { server }))
    }
}

fn permit(address: IpAddr, options: &Options, local: &str) -> Result<(), Failure> {
    cleartext::permit(address, options.cleartext, "--transport udp", local)
}

/// The algorithm's receiver module. A peer's options must not name files, and not reach plug-ins.
fn receiver_module(
    registry: &Registry,
    spec: &str,
) -> Result<Option<Box<dyn alcc_cc::Receiver>>, ()> {
    let spec: Spec = spec.parse().map_err(drop)?;
    let known = registry.iter().any(|a| a.name == spec.name);
    if !known {
        return Err(());
    }
    // An option for the sender only (a file, a plug-in's) must not disable algorithms without a
    // receiver module.
    Ok(registry
        .for_peers()
        .build(&spec)
        .ok()
        .and_then(|cc| cc.receiver()))
}

struct UdpDialer<'a> {
    options: &'a Options,
    spec: &'a Spec,
    /// The clients: all flows from one address share a socket and a loop.
    clients: Mutex<BTreeMap<IpAddr, Arc<Client>>>,
}

impl UdpDialer<'_> {
    fn client(&self, to: SocketAddr) -> Result<Arc<Client>, Failure> {
        let from = self.options.bind.unwrap_or_else(|| match to {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        });
        let mut clients = alcc_sys::lock(&self.clients);
        if let Some(client) = clients.get(&from) {
            return Ok(Arc::clone(client));
        }
        let socket = UdpSocket::bind((from, 0))
            .map_err(|e| Failure::usage(format!("send from {from}: {e}: check --bind")))?;
        let made =
            Client::new(socket).map_err(|e| Failure::usage(format!("create a UDP socket: {e}")))?;
        let made = Arc::new(made);
        clients.insert(from, Arc::clone(&made));
        Ok(made)
    }
}

impl Dialer for UdpDialer<'_> {
    fn connect(&self, to: &Target, flow: u32) -> Result<Box<dyn Outgoing>, Failure> {
        let Self { options, spec, .. } = self;
        let mut last = None;
        for address in alcc_pipe::resolve(to, options.bind)? {
            permit(address.ip(), options, "127.0.0.1 as HOST")?;
            let cc = options.registry.build(spec).map_err(Failure::usage)?;
            let client = self.client(address)?;
            let id = unguessable()
                .map_err(|e| Failure::usage(format!("get random numbers for a new flow: {e}")))?;
            let setup = Setup {
                cc,
                spec: spec.to_string(),
                id,
                seed: options.seed ^ u64::from(flow),
                patience: options.connect_timeout.into(),
                silence: SILENCE,
            };
            let stream = client.connect(address, setup);
            // The stream's own timeout is shorter, and its error has more information.
            let limit = Span::from(options.connect_timeout) + Span::from_secs(5);
            match stream.wait_open(limit) {
                Ok(true) => {
                    return Ok(Box::new(UdpSender {
                        stream,
                        _client: client,
                    }));
                }
                Ok(false) => last = Some((address, "no answer".to_owned())),
                Err(why) => last = Some((address, why.to_string())),
            }
        }
        let why = last.map_or_else(
            || format!("{to}: it has no address"),
            |(address, why)| format!("{address}: {why}"),
        );
        Err(Failure::failed(format!("connect to {why}")))
    }
}

struct UdpSender {
    stream: Stream,
    _client: Arc<Client>,
}

impl Outgoing for UdpSender {
    fn room(&mut self) -> io::Result<usize> {
        self.stream.room(MAX_WAIT.into())
    }

    fn finish(&mut self) -> io::Result<bool> {
        self.stream.finish(MAX_WAIT.into())
    }

    fn answer(&mut self, into: &mut [u8]) -> Option<io::Result<usize>> {
        Some(match self.stream.answer(MAX_WAIT.into()) {
            Ok(Some(answer)) => {
                let n = answer.len().min(into.len());
                into[..n].copy_from_slice(&answer[..n]);
                Ok(n)
            }
            Ok(None) => Err(io::ErrorKind::WouldBlock.into()),
            Err(why) => Err(why),
        })
    }

    fn stats(&mut self) -> Stats {
        let stats = self.stream.stats();
        Stats {
            rtt_mean_ms: stats.rtt_ms.map(|(mean, _)| mean),
            rtt_p95_ms: stats.rtt_ms.map(|(_, p95)| p95),
            retransmits: Some(stats.retransmits),
            timeouts: Some(stats.timeouts),
            rtx_burst: stats.rtx_burst,
            lateness_p99_ms: stats.lateness_p99_ms,
        }
    }
}

impl Write for UdpSender {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        match self.stream.write(bytes)? {
            0 => {
                self.stream.room(MAX_WAIT.into())?;
                match self.stream.write(bytes)? {
                    0 => Err(io::ErrorKind::WouldBlock.into()),
                    n => Ok(n),
                }
            }
            n => Ok(n),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct UdpListener {
    server: Server,
}

impl Listening for UdpListener {
    fn address(&self) -> String {
        self.server.address().to_string()
    }

    fn accept(&mut self) -> io::Result<Option<Box<dyn Incoming>>> {
        let arrived = self.server.accept(MAX_WAIT.into());
        Ok(arrived.map(|arrived| Box::new(UdpReceiver { arrived }) as Box<dyn Incoming>))
    }
}

struct UdpReceiver {
    arrived: Arrived,
}

impl Incoming for UdpReceiver {
    fn peer(&self) -> String {
        self.arrived.peer().to_string()
    }

    fn answer(&mut self, bytes: &[u8]) -> io::Result<bool> {
        if bytes.len() > crate::wire::ANSWER {
            return Ok(false);
        }
        self.arrived.answer(bytes);
        Ok(true)
    }
}

impl Read for UdpReceiver {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.arrived.read(into, MAX_WAIT.into())? {
            Some(n) => Ok(n),
            None => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}
