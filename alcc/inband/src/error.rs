// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors of a connection.
use std::fmt;

/// The reason why a connection ended, or was not established. Each is one line.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The peer does not speak this format; contains its first bytes.
    Foreign(Vec<u8>),
    /// The peer speaks another version.
    Version(u8),
    /// The peer sent nothing within the deadline, in milliseconds.
    Silent(u64),
    /// The peer broke a rule of the format.
    Protocol(&'static str),
    /// The peer acknowledged a position beyond everything sent.
    NeverSent {
        /// The acknowledged position.
        named: u64,
        /// End of the sent data.
        sent: u64,
    },
    /// The peer's algorithm needs a receiver module that does not exist here, or ours one that does
    /// not exist there.
    Algorithm(String),
    /// The peer ended the connection.
    Closed {
        /// One of the reasons of [`crate::frame::reason`].
        reason: u8,
        /// The peer's message.
        text: String,
    },
    /// The connection was aborted at this end.
    Aborted,
    /// The stream below ended before the peer had ended the connection.
    Truncated,
    /// Nothing arrived from the peer for this many milliseconds although an answer was due.
    Vanished(u64),
    /// The stream below failed.
    Io(std::io::ErrorKind, String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign(first) => write!(
                f,
                "the peer does not use the in-band protocol: it sent {}; is another service on that port, or does the other end use another --transport?",
                who(first)
            ),
            Self::Version(v) => write!(
                f,
                "the peer uses version {v} of the in-band format, this program version {}: update the older one",
                crate::preface::VERSION
            ),
            Self::Silent(ms) => write!(
                f,
                "the peer did not start the in-band protocol within {ms} ms: is it `alcc recv --transport in-band`?"
            ),
            Self::Protocol(what) => write!(f, "the peer broke the in-band protocol: {what}"),
            Self::NeverSent { named, sent } => write!(
                f,
                "the peer broke the in-band protocol: it acknowledges {named}, but only {sent} was sent"
            ),
            // It contains text of the peer.
            Self::Algorithm(why) => write!(
                f,
                "the algorithm's receiver half: {}",
                why.replace(char::is_control, " ")
            ),
            Self::Closed { reason, text } => write!(
                f,
                "the peer ended the connection: {}{}{}",
                crate::frame::reason::name(*reason),
                if text.is_empty() { "" } else { ": " },
                text.replace(char::is_control, " ")
            ),
            Self::Aborted => f.write_str("given up here"),
            Self::Truncated => f.write_str("the connection ended in the middle of the stream"),
            Self::Vanished(ms) => write!(f, "nothing received from the peer for {ms} ms"),
            Self::Io(_, why) => write!(f, "the stream below failed: {why}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error.kind(), error.to_string())
    }
}

impl From<Error> for std::io::Error {
    fn from(error: Error) -> Self {
        use std::io::ErrorKind as Kind;
        let kind = match &error {
            Error::Foreign(_)
            | Error::Version(_)
            | Error::Protocol(_)
            | Error::NeverSent { .. } => Kind::InvalidData,
            Error::Algorithm(_) => Kind::Unsupported,
            Error::Silent(_) | Error::Vanished(_) => Kind::TimedOut,
            Error::Closed { .. } | Error::Aborted => Kind::ConnectionAborted,
            Error::Truncated => Kind::UnexpectedEof,
            Error::Io(kind, _) => *kind,
        };
        Self::new(kind, error)
    }
}

/// A guess at the protocol of a foreign peer.
fn who(first: &[u8]) -> String {
    let begins = |what: &[u8]| first.starts_with(what);
    let shown = first.escape_ascii();
    if begins(b"HTTP/") {
        format!("\"{shown}\", an HTTP answer")
    } else if begins(b"SSH-") {
        format!("\"{shown}\", an SSH banner")
    } else if begins(&[0x16, 3]) || begins(&[0x15, 3]) {
        "a TLS record (try --carrier tls)".to_owned()
    } else {
        format!("\"{shown}\"")
    }
}
