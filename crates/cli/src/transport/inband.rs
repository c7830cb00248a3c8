// SPDX-License-Identifier: Apache-2.0 OR MIT
//! In-band: frames of our own with acknowledgements, inside a stream of bytes; both ends speak them.
use super::tcp::{Acceptor, connected, listening, system};
use super::{
    Incoming, Listening, Options, Outgoing, PIECE, Plan, Stats, TURN, Target, Transport, described,
};
use crate::commands::run::check_under;
use crate::failure::Failure;
use alcc_cc::Registry;
use alcc_inband::carrier::Tcp;
use alcc_inband::{Settings, Stream};
use alcc_lab::Distribution;
use alcc_socket::tcp_counters;
use alcc_units::Span;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub(super) struct InBand;

/// How often the round-trip time is noted.
const LOOK: Duration = Duration::from_millis(10);

impl Transport for InBand {
    fn name(&self) -> &'static str {
        "in-band"
    }

    fn summary(&self) -> &'static str {
        "frames with acknowledgements of our own inside a TCP connection or another stream (--carrier)"
    }

    fn plan(&self, options: &Options) -> Result<Plan, Failure> {
        let spec = options.cc.as_ref().ok_or_else(|| {
            Failure::usage("--transport in-band: which algorithm? Add --cc verus".to_owned())
        })?;
        for (option, value, ours) in [
            ("--feedback", &options.feedback, "in-band"),
            ("--enforce", &options.enforce, "queue"),
        ] {
            if value != "auto" && value != ours {
                return Err(Failure::usage(format!(
                    "{option} {value}: --transport in-band has {ours} and nothing else"
                )));
            }
        }
        carried(options)?;
        if let Some(under) = &options.under {
            check_under(under)?;
        }
        Ok(Plan {
            feedback: "in-band".to_owned(),
            enforcement: "queue".to_owned(),
            under: Some(options.under.clone().unwrap_or_else(system)),
            ..described(format!("alcc-{}-inband", spec.name), spec)
        })
    }

    fn connect(
        &self,
        to: &Target,
        options: &Options,
        flow: u32,
    ) -> Result<Box<dyn Outgoing>, Failure> {
        carried(options)?;
        let spec = options
            .cc
            .clone()
            .ok_or_else(|| Failure::usage("no algorithm"))?;
        let socket = connected(to, options)?;
        let failed =
            |e: io::Error| Failure::usage(format!("take over the connection to {to}: {e}"));
        let below = socket.try_clone().map_err(failed)?;
        let carrier = Tcp::new(socket).map_err(failed)?;
        let mut settings = Settings::new(spec);
        settings.seed = options.seed ^ u64::from(flow);
        settings.handshake = span(options.patience);
        let registry = Arc::new(options.registry.clone());
        let mut stream = Stream::connect(carrier, &registry, settings)
            .map_err(|why| Failure::failed(format!("speak in-band with {to}: {why}")))?;
        stream.set_patience(Some(TURN));
        Ok(Box::new(Sending {
            stream,
            below,
            looked: None,
            rtt: Distribution::new(),
        }))
    }

    fn listen(&self, at: SocketAddr, options: &Options) -> Result<Box<dyn Listening>, Failure> {
        carried(options)?;
        Ok(Box::new(Waiting {
            acceptor: listening(at)?,
            registry: Arc::new(options.registry.clone()),
            handshake: span(options.patience),
        }))
    }
}

fn span(time: Duration) -> Span {
    Span::from_nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

fn carried(options: &Options) -> Result<(), Failure> {
    match options.carrier.as_deref() {
        None | Some("tcp") => Ok(()),
        Some(other) => Err(Failure::usage(format!("--carrier {other}: there is tcp"))),
    }
}

struct Sending {
    stream: Stream,
    /// The TCP socket below, for its counters.
    below: TcpStream,
    looked: Option<Instant>,
    rtt: Distribution,
}

impl Outgoing for Sending {
    fn room(&mut self) -> io::Result<usize> {
        let now = Instant::now();
        if self.looked.is_none_or(|at| now - at >= LOOK) {
            self.looked = Some(now);
            let rtt = self.stream.info().rtt.latest;
            if !rtt.is_zero() {
                self.rtt.add(rtt, 1);
            }
        }
        // What the program puts before its content goes with it.
        let room = self.stream.room(TURN)?;
        Ok(room.saturating_sub(alcc_transfer::BEFORE).min(PIECE))
    }

    fn finish(&mut self) -> io::Result<bool> {
        self.stream.finish(TURN)
    }

    fn answer(&mut self, into: &mut [u8]) -> Option<io::Result<usize>> {
        Some(self.stream.read(into))
    }

    fn stats(&mut self) -> Stats {
        let counters = tcp_counters(self.below.as_raw_fd());
        Stats {
            rtt_mean_ms: self.rtt.mean_ms(),
            rtt_p95_ms: self.rtt.quantile_ms(0.95),
            retransmits: counters.map(|c| c.retransmits),
            timeouts: counters.and_then(|c| c.timeouts),
            ..Stats::default()
        }
    }
}

impl Write for Sending {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Waiting {
    acceptor: Acceptor,
    registry: Arc<Registry>,
    handshake: Span,
}

impl Listening for Waiting {
    fn address(&self) -> String {
        self.acceptor.address()
    }

    fn accept(&mut self) -> io::Result<Option<Box<dyn Incoming>>> {
        let Some((socket, from)) = self.acceptor.next()? else {
            return Ok(None);
        };
        // What the receiver sends is its answer: hardly anything, so any algorithm does.
        let mut settings = Settings::new("cubic".parse().map_err(io::Error::other)?);
        settings.handshake = self.handshake;
        let mut stream = Stream::begin(Tcp::new(socket)?, &self.registry, settings, false)?;
        stream.set_patience(Some(TURN));
        Ok(Some(Box::new(Receiving { stream, from })))
    }
}

struct Receiving {
    stream: Stream,
    from: SocketAddr,
}

impl Read for Receiving {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.stream.read(into)
    }
}

impl Incoming for Receiving {
    fn peer(&self) -> String {
        SocketAddr::new(self.from.ip().to_canonical(), self.from.port()).to_string()
    }

    fn answer(&mut self, bytes: &[u8]) -> io::Result<bool> {
        self.stream.write_all(bytes)?;
        let until = Instant::now() + 5 * TURN;
        while !self.stream.finish(TURN)? {
            if Instant::now() >= until {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
        Ok(true)
    }
}
