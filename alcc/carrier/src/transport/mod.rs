// SPDX-License-Identifier: Apache-2.0 OR MIT
//! In-band as a transport of `alcc send`: frames with acknowledgements inside a byte stream. Both
//! ends must use it.
mod carried;

use crate::CarrierSpec;
use alcc_cc::Registry;
use alcc_inband::{Settings, Stream};
use alcc_pipe::tcp::Watch;
use alcc_pipe::tls::Fingerprint;
use alcc_pipe::{
    ANSWER_TIMEOUT, About, Dialer, Failure, Incoming, Listening, MAX_WAIT, MAX_WRITE, Options,
    Outgoing, Plan, Stats, Takes, Target, Tls, Transport, Under, default_under,
};
use carried::{CarrierListener, PendingConnection};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

/// In-band as a transport.
pub struct InBand;

impl Transport for InBand {
    fn about(&self) -> About {
        About {
            name: "in-band",
            summary: "frames with their own acknowledgements inside a TCP connection, or TLS over it (--carrier)",
            suffix: "-inband",
            feedback: "in-band",
            enforcement: "queue",
            takes: Takes {
                needs_cc: true,
                other_feedback: false,
                under: Under::Kernel,
                carrier: Ok(()),
                tls: Tls::Carrier("tls"),
            },
        }
    }

    fn plan(&self, options: &Options) -> Result<Plan, Failure> {
        let spec = options.algorithm()?;
        let carrier = carried::spec(options)?;
        let mut scheme = format!("alcc-{}-inband", spec.name);
        if carrier != CarrierSpec::Tcp {
            scheme += &format!("/carrier={carrier}");
        }
        Ok(Plan {
            under: Some(options.under.clone().unwrap_or_else(default_under)),
            ..Plan::new(scheme, spec, &self.about())
        })
    }

    fn dialer<'a>(&self, options: &'a Options) -> Result<Box<dyn Dialer + 'a>, Failure> {
        Ok(Box::new(InBandDialer {
            options,
            carrier: carried::spec(options)?,
            registry: Arc::new(options.registry.clone()),
        }))
    }

    fn listen(&self, at: SocketAddr, options: &Options) -> Result<Box<dyn Listening>, Failure> {
        Ok(Box::new(InBandListener {
            listener: CarrierListener::open(carried::spec(options)?, at, options)?,
            registry: Arc::new(options.registry.clone()),
            handshake: options.connect_timeout.into(),
        }))
    }
}

struct InBandDialer<'a> {
    options: &'a Options,
    carrier: CarrierSpec,
    registry: Arc<Registry>,
}

impl Dialer for InBandDialer<'_> {
    fn connect(&self, to: &Target, flow: u32) -> Result<Box<dyn Outgoing>, Failure> {
        let options = self.options;
        let carrier = carried::connect(self.carrier, to, options)?;
        let below = carrier.tcp().and_then(|fd| fd.try_clone_to_owned().ok());
        let mut settings = Settings::new(options.algorithm()?.clone());
        settings.seed = options.seed ^ u64::from(flow);
        settings.handshake = options.connect_timeout.into();
        let mut stream = Stream::connect(carrier, &self.registry, settings).map_err(|why| {
            // A peer with another protocol already has its own error; one that closes the
            // connection may be 'alcc recv' with another transport.
            let hint = match why {
                alcc_inband::Error::Truncated | alcc_inband::Error::Io(..) => {
                    ": does 'alcc recv' there have --transport in-band and the same --carrier?"
                }
                _ => "",
            };
            Failure::failed(format!("start the in-band protocol with {to}: {why}{hint}"))
        })?;
        stream.set_patience(Some(MAX_WAIT));
        Ok(Box::new(InBandSender {
            stream,
            below,
            watch: Watch::default(),
        }))
    }
}

struct InBandSender {
    stream: Stream,
    /// The TCP socket below, for its counters.
    below: Option<OwnedFd>,
    watch: Watch,
}

impl Outgoing for InBandSender {
    fn room(&mut self) -> io::Result<usize> {
        if self.watch.is_due() {
            self.watch.sample(self.stream.info().rtt.latest);
        }
        // The program's header goes into the same write as its content.
        let room = self.stream.room(MAX_WAIT)?;
        Ok(room
            .saturating_sub(alcc_transfer::BLOCK_PREFIX)
            .min(MAX_WRITE))
    }

    fn finish(&mut self) -> io::Result<bool> {
        self.stream.finish(MAX_WAIT)
    }

    fn answer(&mut self, into: &mut [u8]) -> Option<io::Result<usize>> {
        Some(self.stream.read(into))
    }

    fn acknowledged(&self) -> Option<u64> {
        // TCP's counter would not do, because it includes our answers to a peer's PINGs.
        Some(self.stream.info().stats.acked)
    }

    fn stats(&mut self) -> Stats {
        self.watch.stats(self.below.as_ref())
    }
}

impl Write for InBandSender {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct InBandListener {
    listener: CarrierListener,
    registry: Arc<Registry>,
    handshake: alcc_units::Span,
}

impl Listening for InBandListener {
    fn address(&self) -> String {
        self.listener.address()
    }

    fn fingerprint(&self) -> Option<Fingerprint> {
        self.listener.fingerprint()
    }

    fn accept(&mut self) -> io::Result<Option<Box<dyn Incoming>>> {
        let Some(pending) = self.listener.next()? else {
            return Ok(None);
        };
        // The receiver sends only its short answer, so any algorithm will do.
        let mut settings = Settings::new("cubic".parse().map_err(io::Error::other)?);
        settings.handshake = self.handshake;
        Ok(Some(Box::new(InBandReceiver {
            pending,
            start: Some((Arc::clone(&self.registry), settings)),
            stream: None,
        })))
    }
}

struct InBandReceiver {
    pending: PendingConnection,
    /// For the first call: handshakes block, so the thread that reads does them.
    start: Option<(Arc<Registry>, Settings)>,
    stream: Option<Stream>,
}

impl InBandReceiver {
    fn stream(&mut self) -> io::Result<&mut Stream> {
        if let Some((registry, settings)) = self.start.take() {
            let carrier = self.pending.handshake()?;
            let mut stream = Stream::begin(carrier, &registry, settings, false)?;
            stream.set_patience(Some(MAX_WAIT));
            self.stream = Some(stream);
        }
        self.stream
            .as_mut()
            .ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl Read for InBandReceiver {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.stream()?.read(into)
    }
}

impl Incoming for InBandReceiver {
    fn peer(&self) -> String {
        self.pending.peer.clone()
    }

    fn answer(&mut self, bytes: &[u8]) -> io::Result<bool> {
        let stream = self.stream()?;
        stream.write_all(bytes)?;
        let until = Instant::now() + ANSWER_TIMEOUT;
        while !stream.finish(MAX_WAIT)? {
            if Instant::now() >= until {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
        Ok(true)
    }
}
