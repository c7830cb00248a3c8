// SPDX-License-Identifier: Apache-2.0 OR MIT
//! QUIC as a transport of `alcc send`. The congestion controller of the QUIC stack is one of this
//! project's algorithms, or one of the stack's own (`--under`).
use crate::blocking::{ALPN, Error, Listener, Receiver, Sender, Stack};
use crate::{Congestion, StackController};
use alcc_pipe::tls::{Fingerprint, client_config, server_config};
use alcc_pipe::{
    ANSWER_TIMEOUT, About, Dialer, Failure, Incoming, Listening, MAX_WAIT, Options, Outgoing, Plan,
    Stats, Takes, Target, Tls, Transport, Under,
};
use alcc_units::Distribution;
use noq::rustls::ClientConfig;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

/// QUIC as a transport.
pub struct Quic;

impl Transport for Quic {
    fn about(&self) -> About {
        About {
            name: "quic",
            summary: "QUIC (noq), encrypted: an algorithm as its congestion controller (--cc verus), or the stack's own (--under bbr3)",
            suffix: "-quic",
            feedback: "quic",
            enforcement: "native",
            takes: Takes {
                needs_cc: false,
                other_feedback: false,
                under: Under::Stack {
                    over: "over QUIC",
                    names: StackController::NAMES,
                },
                carrier: Err("QUIC runs over UDP alone"),
                tls: Tls::Always,
            },
        }
    }

    fn plan(&self, options: &Options) -> Result<Plan, Failure> {
        let about = self.about();
        if let Some(spec) = &options.cc {
            // A connection has one controller; an invalid spec is found before it begins.
            congestion(options, 0)?;
            return Ok(Plan::native(spec, &about));
        }
        let own = stack_controller(options)?;
        Ok(Plan {
            scheme: format!("{}-quic-plain", own.name()),
            algorithm: own.name().to_owned(),
            feedback: about.feedback.to_owned(),
            enforcement: about.enforcement.to_owned(),
            ..Plan::default()
        })
    }

    fn dialer<'a>(&self, options: &'a Options) -> Result<Box<dyn Dialer + 'a>, Failure> {
        Ok(Box::new(QuicDialer {
            options,
            stack: Stack::start()
                .map_err(|e| Failure::usage(format!("start a thread for QUIC: {e}")))?,
            tls: client_config(&options.trust, &[ALPN])?,
        }))
    }

    fn listen(&self, at: SocketAddr, options: &Options) -> Result<Box<dyn Listening>, Failure> {
        let identity = options.identity()?;
        let tls = server_config(&identity, &[ALPN])?;
        let listener = Listener::bind(at, tls).map_err(|why| failure(&why))?;
        let address = listener.address().unwrap_or(at);
        Ok(Box::new(QuicListener {
            listener,
            address,
            fingerprint: identity.fingerprint(),
        }))
    }
}

struct QuicDialer<'a> {
    options: &'a Options,
    /// Runs all flows.
    stack: Stack,
    tls: Arc<ClientConfig>,
}

impl Dialer for QuicDialer<'_> {
    fn connect(&self, to: &Target, flow: u32) -> Result<Box<dyn Outgoing>, Failure> {
        let options = self.options;
        let rtt = Arc::new(Mutex::new(Distribution::new()));
        let mut last = None;
        for at in alcc_pipe::resolve(to, options.bind)? {
            let tls = Arc::clone(&self.tls);
            let (from, timeout) = (options.bind, options.connect_timeout);
            let connected = if options.cc.is_some() {
                let samples = Arc::clone(&rtt);
                let ours = congestion(options, flow)?.observed(move |rtt| {
                    let mut samples = alcc_sys::lock(&samples);
                    samples.add(rtt, 1);
                });
                Sender::connect(
                    &self.stack,
                    at,
                    from,
                    &to.host,
                    tls,
                    &Arc::new(ours),
                    timeout,
                )
            } else {
                let own = stack_controller(options)?;
                Sender::connect_with(&self.stack, at, from, &to.host, tls, own, timeout)
            };
            match connected {
                Ok(sender) => return Ok(Box::new(QuicSender { sender, rtt })),
                Err(why) => last = Some(why),
            }
        }
        Err(match last {
            Some(why) => failure(&why),
            None => Failure::failed(format!("connect to {to}: it has no address")),
        })
    }
}

fn failure(why: &Error) -> Failure {
    match why {
        Error::Local(..) => Failure::usage(why),
        Error::Remote(..) => Failure::failed(why),
    }
}

fn congestion(options: &Options, flow: u32) -> Result<Congestion, Failure> {
    let spec = options.algorithm()?.clone();
    let congestion = Congestion::new(options.registry.clone(), spec).map_err(Failure::usage)?;
    Ok(congestion.seed(options.seed ^ u64::from(flow)))
}

/// The requested controller of the stack; the table has refused invalid names.
fn stack_controller(options: &Options) -> Result<StackController, Failure> {
    let name = options.under.as_deref().unwrap_or("cubic");
    StackController::named(name).ok_or_else(|| {
        Failure::usage(format!(
            "--under {name}: not an algorithm of the QUIC stack"
        ))
    })
}

struct QuicSender {
    sender: Sender,
    rtt: Arc<Mutex<Distribution>>,
}

impl Write for QuicSender {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.sender.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Outgoing for QuicSender {
    fn room(&mut self) -> io::Result<usize> {
        self.sender.room(MAX_WAIT)
    }

    fn finish(&mut self) -> io::Result<bool> {
        self.sender.finish(MAX_WAIT)
    }

    fn answer(&mut self, into: &mut [u8]) -> Option<io::Result<usize>> {
        Some(self.sender.answer(into, MAX_WAIT))
    }

    fn stats(&mut self) -> Stats {
        let stats = self.sender.stats();
        let rtt = alcc_sys::lock(&self.rtt);
        Stats {
            rtt_mean_ms: rtt.mean_ms(),
            rtt_p95_ms: rtt.quantile_ms(0.95),
            retransmits: Some(stats.lost),
            timeouts: stats.timeouts,
            ..Stats::default()
        }
    }
}

struct QuicReceiver(Receiver);

impl Read for QuicReceiver {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into, MAX_WAIT)
    }
}

impl Incoming for QuicReceiver {
    fn peer(&self) -> String {
        self.0.peer().to_string()
    }

    fn answer(&mut self, bytes: &[u8]) -> io::Result<bool> {
        self.0.answer(bytes, ANSWER_TIMEOUT).map(|()| true)
    }
}

struct QuicListener {
    listener: Listener,
    address: SocketAddr,
    fingerprint: Fingerprint,
}

impl Listening for QuicListener {
    fn address(&self) -> String {
        self.address.to_string()
    }

    fn fingerprint(&self) -> Option<Fingerprint> {
        Some(self.fingerprint)
    }

    fn accept(&mut self) -> io::Result<Option<Box<dyn Incoming>>> {
        let receiver = self.listener.accept(MAX_WAIT)?;
        Ok(receiver.map(|receiver| Box::new(QuicReceiver(receiver)) as _))
    }
}
