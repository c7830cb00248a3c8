// SPDX-License-Identifier: Apache-2.0 OR MIT
//! In-band: frames of our own with acknowledgements, inside a stream of bytes; both ends speak them.
use super::carried::{self, Door, Guest};
use super::tcp::{acknowledged, system};
use super::{
    FAREWELL, Incoming, Listening, Options, Outgoing, PIECE, Plan, Stats, TURN, Target, Transport,
    described,
};
use crate::commands::run::check_under;
use crate::failure::Failure;
use alcc_carrier::tls::Fingerprint;
use alcc_cc::Registry;
use alcc_inband::{Settings, Stream};
use alcc_lab::Distribution;
use alcc_socket::tcp_counters;
use alcc_units::Span;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
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
        let carrier = carried::spec(options)?;
        if let Some(under) = &options.under {
            check_under(under)?;
        }
        let mut scheme = format!("alcc-{}-inband", spec.name);
        if carrier.to_string() != "tcp" {
            scheme += &format!("/carrier={carrier}");
        }
        Ok(Plan {
            feedback: "in-band".to_owned(),
            enforcement: "queue".to_owned(),
            under: (!carrier.is_local()).then(|| options.under.clone().unwrap_or_else(system)),
            ..described(scheme, spec)
        })
    }

    fn connect(
        &self,
        to: &Target,
        options: &Options,
        flow: u32,
    ) -> Result<Box<dyn Outgoing>, Failure> {
        let spec = options
            .cc
            .clone()
            .ok_or_else(|| Failure::usage("no algorithm"))?;
        let carrier = carried::connect(&carried::spec(options)?, to, options)?;
        let below = carrier.tcp().and_then(|fd| fd.try_clone_to_owned().ok());
        let mut settings = Settings::new(spec);
        settings.seed = options.seed ^ u64::from(flow);
        settings.handshake = span(options.patience);
        let registry = Arc::new(options.registry.clone());
        let mut stream = Stream::connect(carrier, &registry, settings).map_err(|why| {
            // Who speaks something else has been named; who only hangs up may be 'alcc recv' with another transport.
            let hint = match why {
                alcc_inband::Error::Truncated | alcc_inband::Error::Io(..) => {
                    ": does 'alcc recv' there have --transport in-band and the same --carrier?"
                }
                _ => "",
            };
            Failure::failed(format!("speak in-band with {to}: {why}{hint}"))
        })?;
        stream.set_patience(Some(TURN));
        Ok(Box::new(Sending {
            stream,
            below,
            looked: None,
            rtt: Distribution::new(),
        }))
    }

    fn listen(&self, at: SocketAddr, options: &Options) -> Result<Box<dyn Listening>, Failure> {
        Ok(Box::new(Waiting {
            door: Door::open(carried::spec(options)?, at, options)?,
            registry: Arc::new(options.registry.clone()),
            handshake: span(options.patience),
        }))
    }
}

fn span(time: Duration) -> Span {
    Span::from_nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

struct Sending {
    stream: Stream,
    /// The TCP socket below, for its counters; a UNIX socket has none.
    below: Option<OwnedFd>,
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

    fn acknowledged(&self) -> Option<u64> {
        self.below.as_ref().and_then(acknowledged)
    }

    fn stats(&mut self) -> Stats {
        let below = self.below.as_ref();
        let counters = below.and_then(|fd| tcp_counters(fd.as_raw_fd()));
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
    door: Door,
    registry: Arc<Registry>,
    handshake: Span,
}

impl Listening for Waiting {
    fn address(&self) -> String {
        self.door.address()
    }

    fn fingerprint(&self) -> Option<Fingerprint> {
        self.door.fingerprint()
    }

    fn accept(&mut self) -> io::Result<Option<Box<dyn Incoming>>> {
        let Some(guest) = self.door.next()? else {
            return Ok(None);
        };
        // What the receiver sends is its answer: hardly anything, so any algorithm does.
        let mut settings = Settings::new("cubic".parse().map_err(io::Error::other)?);
        settings.handshake = self.handshake;
        Ok(Some(Box::new(Receiving {
            guest,
            start: Some((Arc::clone(&self.registry), settings)),
            stream: None,
        })))
    }
}

struct Receiving {
    guest: Guest,
    /// For the first call: handshakes wait, so they are the business of the thread that reads.
    start: Option<(Arc<Registry>, Settings)>,
    stream: Option<Stream>,
}

impl Receiving {
    fn stream(&mut self) -> io::Result<&mut Stream> {
        if let Some((registry, settings)) = self.start.take() {
            let carrier = self.guest.handshake()?;
            let mut stream = Stream::begin(carrier, &registry, settings, false)?;
            stream.set_patience(Some(TURN));
            self.stream = Some(stream);
        }
        self.stream
            .as_mut()
            .ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl Read for Receiving {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.stream()?.read(into)
    }
}

impl Incoming for Receiving {
    fn peer(&self) -> String {
        self.guest.peer.clone()
    }

    fn answer(&mut self, bytes: &[u8]) -> io::Result<bool> {
        let stream = self.stream()?;
        stream.write_all(bytes)?;
        let until = Instant::now() + FAREWELL;
        while !stream.finish(TURN)? {
            if Instant::now() >= until {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
        Ok(true)
    }
}
