// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A carrier as it is typed, and what is made of it.
use crate::Error;
use crate::registry::{Base, Bound, Kind, Layer, Options, rows};
use crate::tls::{Identity, Trust};
use crate::wait::Deadline;
use alcc_inband::carrier::Carrier;
use alcc_pipe::Target;
use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// How long connecting and all handshakes may take together.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(20);
/// More layers than anybody needs.
const MAX_LAYERS: usize = 8;

/// What the connecting end brings.
#[derive(Clone, Debug)]
pub struct Client {
    /// Whose certificates TLS accepts.
    pub trust: Trust,
    /// For connecting and all handshakes together.
    pub patience: Duration,
    /// The kernel's congestion control for the TCP connection below; none: the system's.
    pub under: Option<String>,
}

impl Default for Client {
    fn default() -> Self {
        Self {
            trust: Trust::System,
            patience: DEFAULT_TIMEOUT,
            under: None,
        }
    }
}

/// What the listening end brings.
#[derive(Clone, Debug)]
pub struct Server {
    /// The certificate of TLS; without one there is no TLS.
    pub identity: Option<Identity>,
    /// For all handshakes of a connection together.
    pub patience: Duration,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            identity: None,
            patience: DEFAULT_TIMEOUT,
        }
    }
}

struct Part<T: 'static + ?Sized> {
    name: &'static str,
    options: Options,
    is: &'static T,
}

impl<T: ?Sized> Clone for Part<T> {
    fn clone(&self) -> Self {
        Self {
            name: self.name,
            options: self.options.clone(),
            is: self.is,
        }
    }
}

/// Layers, topmost first, over a base: `websocket+tls+connect:proxy=HOST:PORT`,
/// `unix:/run/alcc.sock`.
#[derive(Clone)]
pub struct CarrierSpec {
    layers: Vec<Part<dyn Layer>>,
    base: Part<dyn Base>,
}

impl Default for CarrierSpec {
    /// TCP.
    fn default() -> Self {
        Self {
            layers: Vec::new(),
            base: Part {
                name: "tcp",
                options: Options::default(),
                is: &crate::tcp::Tcp,
            },
        }
    }
}

impl FromStr for CarrierSpec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let mut carrier = Self::default();
        let mut rest = Some(text);
        while let Some(now) = rest {
            // A path may contain anything: what has one is last.
            let (part, after) = match now.split_once('+') {
                Some((part, after)) if !part.starts_with("unix:") => (part, Some(after)),
                _ => (now, None),
            };
            rest = after;
            let (name, options) = part.split_once(':').unwrap_or((part, ""));
            carrier.add(name, Options::new(options), rest.is_none())?;
        }
        Ok(carrier)
    }
}

impl fmt::Display for CarrierSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let layers = self.layers.iter().map(|part| (part.name, &part.options));
        // What stands there unless something else is said.
        let said = self.layers.is_empty() || self.base.name != "tcp";
        let base = said.then_some((self.base.name, &self.base.options));
        for (n, (name, options)) in layers.chain(base).enumerate() {
            let plus = if n > 0 { "+" } else { "" };
            let colon = if options.text().is_empty() { "" } else { ":" };
            write!(f, "{plus}{name}{colon}{}", options.text())?;
        }
        Ok(())
    }
}

impl fmt::Debug for CarrierSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CarrierSpec({self})")
    }
}

impl CarrierSpec {
    fn add(&mut self, name: &str, options: Options, last: bool) -> Result<(), Error> {
        let row = rows().iter().find(|row| row.name == name).ok_or_else(|| {
            let known: Vec<&str> = rows().iter().map(|row| row.name).collect();
            Error::Usage(format!(
                "no carrier '{name}': there are {}, joined by '+', topmost first",
                known.join(", ")
            ))
        })?;
        let name = row.name;
        match row.kind {
            Kind::Base(is) => {
                if row.options.is_empty() && !options.text().is_empty() {
                    return Err(Error::Usage(format!("carrier {name} has no options")));
                }
                if !row.options.is_empty() && options.text().is_empty() {
                    return Err(Error::Usage(format!(
                        "carrier {name} needs one: {name}:{}",
                        row.options
                    )));
                }
                if !last {
                    return Err(Error::Usage(format!(
                        "carrier {name} is a socket, nothing goes below it: name it last"
                    )));
                }
                self.base = Part { name, options, is };
            }
            Kind::Layer(is) => {
                let known = is.options();
                if let Some((wrong, _)) = options.all().find(|(n, _)| !known.contains(n)) {
                    let known = if known.is_empty() {
                        "none".to_owned()
                    } else {
                        known.join(", ")
                    };
                    return Err(Error::Usage(format!(
                        "carrier {name} has no option '{wrong}': it has {known}"
                    )));
                }
                is.check(&options)?;
                if self.layers.len() == MAX_LAYERS {
                    return Err(Error::Usage(format!(
                        "a carrier of more than {MAX_LAYERS} layers"
                    )));
                }
                self.layers.push(Part { name, options, is });
            }
        }
        Ok(())
    }

    /// There is TLS in it: the listening end needs a certificate, the other one somebody to trust.
    pub fn has_tls(&self) -> bool {
        self.layers.iter().any(|part| part.name == "tls")
    }

    /// The base is a path of this machine: there is no host and no port.
    pub fn is_local(&self) -> bool {
        self.base.name == "unix"
    }

    /// Where the TCP connection at the bottom leads if the topmost layer is to lead to `target`.
    /// None if the base is a path.
    ///
    /// # Errors
    /// A target that is no host.
    pub fn base(&self, target: &Target) -> Result<Option<Target>, Error> {
        let (lowest, _) = self.targets(target)?;
        Ok((!self.is_local()).then_some(lowest))
    }

    /// Connects, and does every handshake.
    ///
    /// # Errors
    /// One line about what did not work.
    pub fn connect(&self, target: &Target, client: &Client) -> Result<Box<dyn Carrier>, Error> {
        let deadline = Deadline::after(client.patience);
        let (lowest, targets) = self.targets(target)?;
        let base = &self.base;
        let stream = base.is.dial(&base.options, &lowest, client, deadline)?;
        self.stack(stream, &targets, client, deadline)
    }

    /// As [`Self::connect`], over a stream that leads to the target already, or to the proxy that
    /// the lowest layer names. The base is not used.
    ///
    /// # Errors
    /// One line about what did not work.
    pub fn connect_over(
        &self,
        below: Box<dyn Carrier>,
        target: &Target,
        client: &Client,
    ) -> Result<Box<dyn Carrier>, Error> {
        let (_, targets) = self.targets(target)?;
        self.stack(below, &targets, client, Deadline::after(client.patience))
    }

    /// As [`Accepted::handshake`], over a stream that came from `peer`. The base is not used.
    ///
    /// # Errors
    /// One line about what the peer is instead.
    pub fn accept_over(
        &self,
        below: Box<dyn Carrier>,
        peer: &str,
        server: &Server,
    ) -> Result<Box<dyn Carrier>, Error> {
        let deadline = Deadline::after(server.patience);
        let mut stream = below;
        for part in self.layers.iter().rev() {
            let options = &part.options;
            stream = part.is.accept(stream, options, peer, server, deadline)?;
        }
        Ok(stream)
    }

    /// Where the base leads, and each layer.
    fn targets(&self, target: &Target) -> Result<(Target, Vec<Target>), Error> {
        if !target.is_sound() {
            return Err(Error::Usage(format!(
                "'{}' is not the name of a host",
                target.host
            )));
        }
        let mut lowest = target.clone();
        let mut targets = Vec::new();
        for part in &self.layers {
            let below = part.is.below(&part.options, &lowest)?;
            targets.push(std::mem::replace(&mut lowest, below));
        }
        Ok((lowest, targets))
    }

    fn stack(
        &self,
        mut stream: Box<dyn Carrier>,
        targets: &[Target],
        client: &Client,
        deadline: Deadline,
    ) -> Result<Box<dyn Carrier>, Error> {
        for (part, target) in self.layers.iter().zip(targets).rev() {
            let options = &part.options;
            stream = part.is.connect(stream, options, target, client, deadline)?;
        }
        Ok(stream)
    }

    /// Every layer can be the listening end.
    ///
    /// # Errors
    /// Which cannot, and why.
    pub fn can_listen(&self) -> Result<(), Error> {
        for part in &self.layers {
            if let Some(why) = part.is.only_connects() {
                return Err(Error::Usage(format!(
                    "listen with carrier {}: {why}",
                    part.name
                )));
            }
        }
        Ok(())
    }

    /// Listens at `ADDRESS:PORT` or `:PORT`; a base that is a path ignores it.
    ///
    /// # Errors
    /// What is in the way; a carrier that only connects; TLS without a certificate.
    pub fn listen(&self, at: &str, server: Server) -> Result<Listener, Error> {
        self.can_listen()?;
        if self.has_tls() && server.identity.is_none() {
            return Err(Error::Usage(
                "listen with carrier tls: there is no certificate".to_owned(),
            ));
        }
        Ok(Listener {
            bound: self.base.is.bind(&self.base.options, at)?,
            carrier: Arc::new(self.clone()),
            server: Arc::new(server),
        })
    }
}

/// A socket that listens.
pub struct Listener {
    bound: Box<dyn Bound>,
    carrier: Arc<CarrierSpec>,
    server: Arc<Server>,
}

impl Listener {
    /// Takes a connection, or `WouldBlock`: wait for [`Self::fd`]. No handshake is done yet: a peer
    /// that says nothing holds nobody up.
    ///
    /// # Errors
    /// As accept(2).
    pub fn accept(&self) -> io::Result<Accepted> {
        let (stream, peer) = self.bound.accept()?;
        Ok(Accepted {
            stream,
            peer,
            carrier: Arc::clone(&self.carrier),
            server: Arc::clone(&self.server),
        })
    }

    /// Where it listens: an address with its port, or a path.
    pub fn local(&self) -> String {
        self.bound.local()
    }

    /// Readable while somebody waits to be accepted.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.bound.fd()
    }
}

/// A connection whose handshakes are still to be done.
pub struct Accepted {
    stream: Box<dyn Carrier>,
    peer: String,
    carrier: Arc<CarrierSpec>,
    server: Arc<Server>,
}

impl Accepted {
    /// The stream before any handshake, and who it is: for [`CarrierSpec::accept_over`].
    pub fn into_parts(self) -> (Box<dyn Carrier>, String) {
        (self.stream, self.peer)
    }

    /// Who it is.
    pub fn peer(&self) -> &str {
        &self.peer
    }

    /// Does every handshake. It may take [`Server::patience`]: call it in a thread of the
    /// connection's own.
    ///
    /// # Errors
    /// One line about what the peer is instead.
    pub fn handshake(self) -> Result<Box<dyn Carrier>, Error> {
        self.carrier
            .accept_over(self.stream, &self.peer, &self.server)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn carriers_are_read_and_print_as_typed() {
        for text in [
            "tcp",
            "tls",
            "unix:/run/a+b,c",
            "tls+unix:/run/alcc",
            "connect:proxy=proxy:3128",
            "websocket:path=/x,host=a.example+tls+connect:proxy=[::1]:8080",
        ] {
            let carrier: CarrierSpec = text.parse().unwrap();
            assert_eq!(carrier.to_string(), text);
            assert_eq!(carrier.has_tls(), text.contains("tls"));
            assert_eq!(carrier.is_local(), text.contains("unix"));
        }
        assert_eq!("tls+tcp".parse::<CarrierSpec>().unwrap().to_string(), "tls");
    }

    #[test]
    fn nonsense_is_told_in_a_line() {
        for (text, said) in [
            ("", "no carrier ''"),
            ("tsl", "no carrier 'tsl': there are tcp, unix, tls"),
            ("tcp:x", "tcp has no options"),
            ("tcp+tls", "name it last"),
            ("unix", "unix:PATH"),
            ("tls:pin=1", "carrier tls has no option 'pin': it has none"),
            ("connect", "through which proxy?"),
            ("connect:proxy=a", "'a' is not HOST:PORT"),
            ("connect:proxy=::1:80", "'::1:80' is not HOST:PORT"),
            ("connect:proxy=a:99999", "is not HOST:PORT"),
            ("websocket:path=x", "begins with '/'"),
            ("tls+tls+tls+tls+tls+tls+tls+tls+tls", "more than 8 layers"),
        ] {
            let why = text.parse::<CarrierSpec>().unwrap_err();
            assert!(why.is_usage(), "{why}");
            let why = why.to_string();
            assert!(why.contains(said) && !why.contains('\n'), "{text}: {why}");
        }
        for host in ["a\r\nX: y", "", "a b"] {
            let target = Target {
                host: host.to_owned(),
                port: 80,
            };
            let made = CarrierSpec::default().connect(&target, &Client::default());
            assert!(made.is_err_and(|why| why.is_usage()), "{host:?}");
        }
    }
}
