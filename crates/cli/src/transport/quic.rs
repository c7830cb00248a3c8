// SPDX-License-Identifier: Apache-2.0 OR MIT
//! QUIC: one of our algorithms as the congestion controller of a QUIC stack, or one of the stack's own (`--under`).
use super::certificate::identity;
use super::{
    FAREWELL, Incoming, Listening, Options, Outgoing, Plan, Stats, TURN, Target, Transport,
    described,
};
use crate::failure::Failure;
use alcc_carrier::tls::{Fingerprint, client_config, server_config};
use alcc_lab::Distribution;
use alcc_quic::blocking::{ALPN, Error, Listener, Receiver, Sender};
use alcc_quic::{Congestion, StackController};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

pub(super) struct Quic;

impl Transport for Quic {
    fn name(&self) -> &'static str {
        "quic"
    }

    fn summary(&self) -> &'static str {
        "QUIC (noq), encrypted: an algorithm as its congestion controller (--cc verus), or the stack's own (--under bbr3)"
    }

    fn plan(&self, options: &Options) -> Result<Plan, Failure> {
        if let Some(carrier) = &options.carrier {
            return Err(Failure::usage(format!(
                "--carrier {carrier}: QUIC runs over UDP alone; --transport in-band has carriers"
            )));
        }
        for (option, value, ours) in [
            ("--feedback", &options.feedback, "quic"),
            ("--enforce", &options.enforce, "native"),
        ] {
            if value != "auto" && value != ours {
                return Err(Failure::usage(format!(
                    "{option} {value}: over QUIC it is {ours}; leave it out"
                )));
            }
        }
        let plan = match (&options.cc, &options.under) {
            (Some(_), Some(under)) => {
                return Err(Failure::usage(format!(
                    "--cc with --under {under}: over QUIC nothing is below --cc; leave one of them out"
                )));
            }
            (Some(spec), None) => {
                // A connection has one controller; what does not do is found before it begins.
                congestion(options, 0)?;
                let options = spec.options_text();
                let colon = if options.is_empty() { "" } else { ":" };
                described(format!("{}-quic{colon}{options}", spec.name), spec)
            }
            (None, _) => {
                let own = stacks_own(options)?;
                Plan {
                    scheme: format!("{}-quic-plain", own.name()),
                    algorithm: own.name().to_owned(),
                    ..Plan::default()
                }
            }
        };
        Ok(Plan {
            feedback: "quic".to_owned(),
            enforcement: "native".to_owned(),
            ..plan
        })
    }

    fn connect(
        &self,
        to: &Target,
        options: &Options,
        flow: u32,
    ) -> Result<Box<dyn Outgoing>, Failure> {
        let tls = client_config(&options.trust, &[ALPN]).map_err(Failure::usage)?;
        let rtt = Arc::new(Mutex::new(Distribution::new()));
        let mut last = None;
        for at in to.resolve(options.bind)? {
            let tls = Arc::clone(&tls);
            let (from, patience) = (options.bind, options.patience);
            let connected = if options.cc.is_some() {
                let samples = Arc::clone(&rtt);
                let ours = congestion(options, flow)?.observed(move |rtt| {
                    let mut samples = samples.lock().unwrap_or_else(PoisonError::into_inner);
                    samples.add(rtt, 1);
                });
                Sender::connect(at, from, &to.host, tls, &Arc::new(ours), patience)
            } else {
                let own = stacks_own(options)?;
                Sender::connect_with(at, from, &to.host, tls, own, patience)
            };
            match connected {
                Ok(sender) => return Ok(Box::new(Out { sender, rtt })),
                Err(why) => last = Some(why),
            }
        }
        Err(match last {
            Some(why) => failure(&why),
            None => Failure::failed(format!("connect to {to}: it has no address")),
        })
    }

    fn listen(&self, at: SocketAddr, options: &Options) -> Result<Box<dyn Listening>, Failure> {
        let identity = identity(options)?;
        let tls = server_config(&identity, &[ALPN]).map_err(Failure::usage)?;
        let listener = Listener::bind(at, tls).map_err(|why| failure(&why))?;
        let address = listener.address().unwrap_or(at);
        Ok(Box::new(At {
            listener,
            address,
            fingerprint: identity.fingerprint(),
        }))
    }
}

fn failure(why: &Error) -> Failure {
    match why {
        Error::Local(..) => Failure::usage(why),
        Error::Remote(..) => Failure::failed(why),
    }
}

fn congestion(options: &Options, flow: u32) -> Result<Congestion, Failure> {
    let spec = options.cc.clone();
    let spec = spec.ok_or_else(|| Failure::usage("no algorithm"))?;
    let congestion = Congestion::new(options.registry.clone(), spec).map_err(Failure::usage)?;
    Ok(congestion.seed(options.seed ^ u64::from(flow)))
}

fn stacks_own(options: &Options) -> Result<StackController, Failure> {
    let name = options.under.as_deref().unwrap_or("cubic");
    StackController::named(name).ok_or_else(|| {
        Failure::usage(format!(
            "--under {name}: over QUIC it is one of the stack's own: {}",
            StackController::NAMES.join(", ")
        ))
    })
}

/// A sender.
struct Out {
    sender: Sender,
    rtt: Arc<Mutex<Distribution>>,
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.sender.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Outgoing for Out {
    fn room(&mut self) -> io::Result<usize> {
        self.sender.room(TURN)
    }

    fn finish(&mut self) -> io::Result<bool> {
        self.sender.finish(TURN)
    }

    fn answer(&mut self, into: &mut [u8]) -> Option<io::Result<usize>> {
        Some(self.sender.answer(into, TURN))
    }

    fn stats(&mut self) -> Stats {
        let stats = self.sender.stats();
        let rtt = self.rtt.lock().unwrap_or_else(PoisonError::into_inner);
        Stats {
            rtt_mean_ms: rtt.mean_ms(),
            rtt_p95_ms: rtt.quantile_ms(0.95),
            retransmits: Some(stats.lost),
            timeouts: stats.timeouts,
            ..Stats::default()
        }
    }
}

/// A receiver.
struct In(Receiver);

impl Read for In {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into, TURN)
    }
}

impl Incoming for In {
    fn peer(&self) -> String {
        self.0.peer().to_string()
    }

    fn answer(&mut self, bytes: &[u8]) -> io::Result<bool> {
        self.0.answer(bytes, FAREWELL).map(|()| true)
    }
}

/// A listener.
struct At {
    listener: Listener,
    address: SocketAddr,
    fingerprint: Fingerprint,
}

impl Listening for At {
    fn address(&self) -> String {
        self.address.to_string()
    }

    fn fingerprint(&self) -> Option<Fingerprint> {
        Some(self.fingerprint)
    }

    fn accept(&mut self) -> io::Result<Option<Box<dyn Incoming>>> {
        let receiver = self.listener.accept(TURN)?;
        Ok(receiver.map(|receiver| Box::new(In(receiver)) as _))
    }
}
