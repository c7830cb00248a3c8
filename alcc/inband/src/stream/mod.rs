// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A session over a carrier, for programs that read and write.
mod background;
mod inner;
mod link;

use crate::carrier::Carrier;
use crate::session::Stats;
use crate::{Error, Settings};
use alcc_cc::{Registry, RttView};
use alcc_units::{Bytes, Rate, Span, Time};
use link::{Link, Until};
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::Duration;

/// The state of a connection and of its algorithm.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Info {
    /// The counters of the session.
    pub stats: Stats,
    /// Round-trip times, without the holding times of the peer.
    pub rtt: RttView,
    /// The congestion window; [`Bytes::MAX`]: none.
    pub window: Bytes,
    /// Pacing rate.
    pub rate: Option<Rate>,
    /// Bytes in flight.
    pub in_flight: Bytes,
    /// Bytes that the carrier has not taken yet.
    pub waiting: usize,
}

struct Handle {
    link: Arc<Link>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.link.detach();
    }
}

/// A stream whose bytes travel in frames, at the rate of the algorithm. Both ends of a connection
/// need one.
///
/// Clones are the same stream, for a thread that reads and another that writes. Dropping the last
/// one ends the connection at once, without waiting. Only [`Stream::finish`] confirms that the peer
/// has everything, the end included.
///
/// ```
/// use alcc_inband::{Settings, Stream, carrier::Unix};
/// use std::io::{Read, Write};
/// use std::{sync::Arc, time::Duration};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let registry = Arc::new(alcc_cc::Registry::builtin());
/// let (here, there) = std::os::unix::net::UnixStream::pair()?; // or any connected socket
/// let verus = Settings::new("verus".parse()?);
///
/// let other = (registry.clone(), verus.clone());
/// let receiver = std::thread::spawn(move || -> std::io::Result<String> {
///     let mut stream = Stream::accept(Unix::new(there)?, &other.0, other.1)?;
///     let mut text = String::new();
///     stream.read_to_string(&mut text)?; // until the sender's end
///     Ok(text)
/// });
///
/// let mut stream = Stream::connect(Unix::new(here)?, &registry, verus)?;
/// stream.write_all(b"hello")?;
/// while !stream.finish(Duration::from_secs(1))? {} // the peer has everything
/// assert_eq!(receiver.join().expect("no panic")?, "hello");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Stream {
    handle: Arc<Handle>,
    patience: Option<Span>,
}

impl Stream {
    /// The connecting end: sends its preface, and waits for the peer's.
    ///
    /// # Errors
    /// [`Error::Foreign`] or another error if the peer has another protocol; [`Error::Silent`] if
    /// it sends nothing in time.
    pub fn connect(
        carrier: impl Carrier + 'static,
        registry: &Arc<Registry>,
        settings: Settings,
    ) -> Result<Self, Error> {
        Self::new(Box::new(carrier), registry, settings, true)
    }

    /// The accepting end.
    ///
    /// # Errors
    /// The errors of [`Stream::connect`].
    pub fn accept(
        carrier: impl Carrier + 'static,
        registry: &Arc<Registry>,
        settings: Settings,
    ) -> Result<Self, Error> {
        Self::new(Box::new(carrier), registry, settings, false)
    }

    fn new(
        carrier: Box<dyn Carrier>,
        registry: &Arc<Registry>,
        settings: Settings,
        initiator: bool,
    ) -> Result<Self, Error> {
        let stream = Self::begin(carrier, registry, settings, initiator)?;
        stream
            .link()
            .wait(None, false, |i| i.session.is_open())
            .map_err(|why| stream.error().unwrap_or_else(|| Error::from(why)))?;
        Ok(stream)
    }

    /// Either end, without waiting for the peer's preface. Reads and writes wait for it, and return
    /// its errors.
    ///
    /// # Errors
    /// [`Error::Algorithm`] if the algorithm is unknown or its options are wrong.
    pub fn begin(
        carrier: impl Carrier + 'static,
        registry: &Arc<Registry>,
        settings: Settings,
        initiator: bool,
    ) -> Result<Self, Error> {
        let link = Link::new(Box::new(carrier), registry, settings, initiator)?;
        Ok(Self {
            handle: Arc::new(Handle {
                link: Arc::new(link),
            }),
            patience: None,
        })
    }

    fn link(&self) -> &Arc<Link> {
        &self.handle.link
    }

    /// Sets the time after which reads and writes through this handle return `WouldBlock`; `None`:
    /// never.
    pub fn set_patience(&mut self, patience: Option<Duration>) {
        self.patience =
            patience.map(|p| Span::from_nanos(u64::try_from(p.as_nanos()).unwrap_or(u64::MAX)));
    }

    fn until(&self) -> Option<Time> {
        self.patience.map(|span| alcc_sys::now() + span)
    }

    /// Waits, at most `patience`, until data may be written. Returns the number of bytes that would
    /// be sent at once; zero: none in time.
    ///
    /// # Errors
    /// The error that broke the stream.
    pub fn room(&self, patience: Duration) -> io::Result<usize> {
        let until = after(patience);
        let mut room = 0;
        let done = self.link().wait(Some(until), true, |inner| {
            room = inner.room();
            room > 0
        });
        match done {
            Ok(Until::Time) => Ok(0),
            Ok(Until::Ready) => Ok(room),
            Err(why) => Err(why),
        }
    }

    /// Ends writing. Waits, at most `patience`, until the peer has acknowledged everything, the end
    /// included. False: not in time, so call it again.
    ///
    /// # Errors
    /// The error that broke the stream.
    pub fn finish(&self, patience: Duration) -> io::Result<bool> {
        self.link().close();
        let until = after(patience);
        let done = self
            .link()
            .wait(Some(until), false, |inner| inner.session.is_finished())?;
        Ok(done == Until::Ready)
    }

    /// Aborts the connection in both directions, and informs the peer.
    pub fn abort(&self) {
        self.link().abort();
    }

    /// The error that broke the stream.
    pub fn error(&self) -> Option<Error> {
        self.link().lock().session.error().cloned()
    }

    /// The state of the connection and of its algorithm.
    pub fn info(&self) -> Info {
        self.link().lock().info()
    }

    /// The name of the carrier.
    pub fn carrier(&self) -> &'static str {
        self.link().carrier
    }
}

impl Read for &Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.link().read(into, self.until())
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        (&*self).read(into)
    }
}

impl Write for &Stream {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.link().write(from, self.until())
    }

    /// Makes less than a segment be sent, without waiting until it is.
    fn flush(&mut self) -> io::Result<()> {
        self.link().flush()
    }
}

impl Write for Stream {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        (&*self).write(from)
    }

    fn flush(&mut self) -> io::Result<()> {
        (&*self).flush()
    }
}

fn after(patience: Duration) -> Time {
    let nanos = u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX);
    Time::from_nanos(alcc_sys::now().as_nanos().saturating_add(nanos))
}
