// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Datagrams of our own: the native reference, for measuring. Not encrypted.
use super::{
    Incoming, Listening, Options, Outgoing, Plan, Stats, TURN, Target, Transport, certificate,
    described,
};
use crate::cleartext;
use crate::failure::Failure;
use crate::output::note;
use alcc_cc::{Registry, Spec};
use alcc_udp::{Arrived, Client, Limits, Server, Setup, Stream, unguessable};
use alcc_units::Span;
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, Once, PoisonError};

pub(super) struct Udp;

/// What senders may make a receiver hold that its application has not read.
const UNREAD: usize = 256 << 20;

/// Silence of a peer that should say something, after which it is taken for dead: longer than an outage of a minute, and than the pause
/// between the last two questions in it.
const SILENCE: Span = Span::from_secs(150);

impl Transport for Udp {
    fn name(&self) -> &'static str {
        "udp"
    }

    fn summary(&self) -> &'static str {
        "datagrams of our own, for measuring: the algorithm's native form; not encrypted"
    }

    fn plan(&self, options: &Options) -> Result<Plan, Failure> {
        certificate::unused(self.name(), options)?;
        if let Some(carrier) = &options.carrier {
            return Err(Failure::usage(format!(
                "--carrier {carrier}: datagrams are carried by nothing; --transport in-band has carriers"
            )));
        }
        if let Some(under) = &options.under {
            return Err(Failure::usage(format!(
                "--under {under}: there is no kernel's algorithm below datagrams"
            )));
        }
        for (option, value, own) in [
            ("--feedback", &options.feedback, "udp"),
            ("--enforce", &options.enforce, "native"),
        ] {
            if value != "auto" && value != own {
                return Err(Failure::usage(format!(
                    "{option} {value}: with datagrams it is always {own}"
                )));
            }
        }
        let spec = algorithm(options)?;
        if spec.to_string().len() > 255 {
            return Err(Failure::usage(
                "--cc: with datagrams an algorithm's options have to fit into 255 characters",
            ));
        }
        Ok(Plan {
            feedback: "udp".to_owned(),
            enforcement: "native".to_owned(),
            ..described(scheme(spec), spec)
        })
    }

    fn connect(
        &self,
        to: &Target,
        options: &Options,
        flow: u32,
    ) -> Result<Box<dyn Outgoing>, Failure> {
        let spec = algorithm(options)?;
        let mut last = None;
        for address in to.resolve(options.bind)? {
            permitted(address.ip(), options, "127.0.0.1 as HOST")?;
            clear();
            let build = || options.registry.build(spec);
            let cc = build().map_err(|e| Failure::usage(e.to_string()))?;
            let client = client(address, options)?;
            let id = unguessable()
                .map_err(|e| Failure::usage(format!("get random numbers for a new flow: {e}")))?;
            let setup = Setup {
                cc,
                spec: spec.to_string(),
                id,
                seed: options.seed ^ u64::from(flow),
                patience: options.patience.into(),
                silence: SILENCE,
            };
            let stream = client.connect(address, setup);
            // The stream's own patience is the shorter one, and its error says more.
            match stream.wait_open(Span::from(options.patience) + Span::from_secs(5)) {
                Ok(true) => {
                    return Ok(Box::new(Sending {
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

    fn listen(&self, at: SocketAddr, options: &Options) -> Result<Box<dyn Listening>, Failure> {
        certificate::unused(self.name(), options)?;
        permitted(at.ip(), options, "--bind 127.0.0.1")?;
        clear();
        let failed = |e: io::Error| Failure::usage(format!("receive at {at}: {e}"));
        let socket = UdpSocket::bind(at).map_err(failed)?;
        let registry = options.registry.clone();
        let halves = Box::new(move |spec: &str| half(&registry, spec));
        let limits = Limits {
            silence: SILENCE,
            unread: UNREAD,
            ..Limits::default()
        };
        let server = Server::new(socket, halves, limits).map_err(failed)?;
        Ok(Box::new(Receiving { server }))
    }
}

/// The algorithm's half for the receiver. Options of a stranger name no files, and reach no plug-in.
fn half(registry: &Registry, spec: &str) -> Result<Option<Box<dyn alcc_cc::Receiver>>, ()> {
    let spec: Spec = spec.parse().map_err(drop)?;
    let known = registry.iter().any(|a| a.name == spec.name);
    if !known {
        return Err(());
    }
    // An option that only its sender can follow (a file, a plug-in's) stands in the way of those without a receiver half only.
    Ok(registry
        .for_peers()
        .build(&spec)
        .ok()
        .and_then(|cc| cc.receiver()))
}

fn algorithm(options: &Options) -> Result<&Spec, Failure> {
    options.cc.as_ref().ok_or_else(|| {
        Failure::usage("--transport udp needs an algorithm that sends: add --cc verus")
    })
}

/// `verus-udp`, `verus-udp:r=4`.
fn scheme(spec: &Spec) -> String {
    let options = spec.options_text();
    let colon = if options.is_empty() { "" } else { ":" };
    format!("{}-udp{colon}{options}", spec.name)
}

fn permitted(address: IpAddr, options: &Options, local: &str) -> Result<(), Failure> {
    if options.insecure {
        return Ok(());
    }
    cleartext::permit(address, local)
        .map_err(|why| Failure::usage(format!("--transport udp: {why}")))
}

/// Says once that nobody should take it for more than it is.
fn clear() {
    static SAID: Once = Once::new();
    SAID.call_once(|| {
        note(format_args!(
            "alcc: --transport udp is for measuring: nothing of it is encrypted"
        ));
    });
}

/// All flows of a process from one address share a socket and a loop.
fn client(to: SocketAddr, options: &Options) -> Result<Arc<Client>, Failure> {
    static CLIENTS: Mutex<Option<HashMap<IpAddr, std::sync::Weak<Client>>>> = Mutex::new(None);
    let from = options.bind.unwrap_or_else(|| match to {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    });
    let mut clients = CLIENTS.lock().unwrap_or_else(PoisonError::into_inner);
    let clients = clients.get_or_insert_default();
    if let Some(client) = clients.get(&from).and_then(std::sync::Weak::upgrade) {
        return Ok(client);
    }
    let socket = UdpSocket::bind((from, 0))
        .map_err(|e| Failure::usage(format!("send from {from}: {e}: check --bind")))?;
    let made = Client::new(socket)
        .map_err(|e| Failure::usage(format!("make a socket for datagrams: {e}")))?;
    let made = Arc::new(made);
    clients.insert(from, Arc::downgrade(&made));
    Ok(made)
}

struct Sending {
    stream: Stream,
    _client: Arc<Client>,
}

impl Outgoing for Sending {
    fn room(&mut self) -> io::Result<usize> {
        self.stream.room(TURN.into())
    }

    fn finish(&mut self) -> io::Result<bool> {
        self.stream.finish(TURN.into())
    }

    fn answer(&mut self, into: &mut [u8]) -> Option<io::Result<usize>> {
        Some(match self.stream.answer(TURN.into()) {
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

impl Write for Sending {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        match self.stream.write(bytes)? {
            0 => {
                self.stream.room(TURN.into())?;
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

struct Receiving {
    server: Server,
}

impl Listening for Receiving {
    fn address(&self) -> String {
        self.server.address().to_string()
    }

    fn accept(&mut self) -> io::Result<Option<Box<dyn Incoming>>> {
        let arrived = self.server.accept(TURN.into());
        Ok(arrived.map(|arrived| Box::new(Reading { arrived }) as Box<dyn Incoming>))
    }
}

struct Reading {
    arrived: Arrived,
}

impl Incoming for Reading {
    fn peer(&self) -> String {
        self.arrived.peer().to_string()
    }

    fn answer(&mut self, bytes: &[u8]) -> io::Result<bool> {
        if bytes.len() > alcc_udp::wire::ANSWER {
            return Ok(false);
        }
        self.arrived.answer(bytes);
        Ok(true)
    }
}

impl Read for Reading {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.arrived.read(into, TURN.into())? {
            Some(n) => Ok(n),
            None => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}
