// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every carrier: one line in [`ALL`].
use crate::Target;
use crate::spec::{Client, Server};
use crate::wait::Deadline;
use crate::{Error, connect, tcp, tls, unix, websocket};
use alcc_inband::carrier::Carrier;
use std::io;
use std::os::fd::BorrowedFd;

/// What a user can name.
#[rustfmt::skip]
static ALL: &[Row] = &[
    row("tcp", "", "a TCP connection; inside a VPN or a tunnel, too", Kind::Base(&tcp::Tcp)),
    row("unix", "PATH", "a UNIX socket", Kind::Base(&unix::Unix)),
    row("tls", "", "TLS 1.3", Kind::Layer(&tls::Tls)),
    row("connect", "proxy=HOST:PORT", "a tunnel through an HTTP proxy (CONNECT)", Kind::Layer(&connect::Connect)),
    row("websocket", "path=/,host=NAME", "binary messages of a WebSocket", Kind::Layer(&websocket::Ws)),
];

/// A carrier by its name.
pub struct Row {
    /// As typed.
    pub name: &'static str,
    /// Its options, as `alcc list` shows them; empty: none.
    pub options: &'static str,
    /// One line.
    pub summary: &'static str,
    pub(crate) kind: Kind,
}

const fn row(name: &'static str, options: &'static str, summary: &'static str, kind: Kind) -> Row {
    Row {
        name,
        options,
        summary,
        kind,
    }
}

/// All carriers, in the order in which they are shown.
pub fn rows() -> &'static [Row] {
    ALL
}

#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Base(&'static dyn Base),
    Layer(&'static dyn Layer),
}

/// What stands at the bottom: a socket.
pub(crate) trait Base: Sync {
    fn dial(
        &self,
        options: &Options,
        target: &Target,
        client: &Client,
        deadline: Deadline,
    ) -> Result<Box<dyn Carrier>, Error>;

    fn bind(&self, options: &Options, at: &str) -> Result<Box<dyn Bound>, Error>;
}

/// A socket that listens.
pub(crate) trait Bound: Send + Sync {
    /// A stream and who it is; `WouldBlock` if nobody is there.
    fn accept(&self) -> io::Result<(Box<dyn Carrier>, String)>;
    /// Where.
    fn local(&self) -> String;
    fn fd(&self) -> BorrowedFd<'_>;
}

/// What runs over a stream and is one.
pub(crate) trait Layer: Sync {
    /// Names of its options.
    fn options(&self) -> &'static [&'static str] {
        &[]
    }

    /// What can be said against the options before anything is tried.
    fn check(&self, _: &Options) -> Result<(), Error> {
        Ok(())
    }

    /// Where the stream below must lead so that this one leads to `target`.
    fn below(&self, _: &Options, target: &Target) -> Result<Target, Error> {
        Ok(target.clone())
    }

    fn connect(
        &self,
        below: Box<dyn Carrier>,
        options: &Options,
        target: &Target,
        client: &Client,
        deadline: Deadline,
    ) -> Result<Box<dyn Carrier>, Error>;

    /// Why there is no such thing at the listening end, if so.
    fn only_connects(&self) -> Option<&'static str> {
        None
    }

    fn accept(
        &self,
        below: Box<dyn Carrier>,
        options: &Options,
        peer: &str,
        server: &Server,
        deadline: Deadline,
    ) -> Result<Box<dyn Carrier>, Error>;
}

/// What stands behind the name and its colon.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options(String);

impl Options {
    pub(crate) fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// All of it.
    pub(crate) fn text(&self) -> &str {
        &self.0
    }

    /// The value of `name=value`.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.all().find(|(n, _)| *n == name).map(|(_, value)| value)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .split(',')
            .filter(|part| !part.is_empty())
            .map(|part| part.split_once('=').unwrap_or((part, "")))
    }
}
