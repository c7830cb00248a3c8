// SPDX-License-Identifier: Apache-2.0 OR MIT
use crate::wire::Reason;
use alcc_units::Span;

/// The end of a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum End {
    /// Everything has arrived, and the peer has confirmed it.
    Done,
    /// There was no answer to the first datagrams.
    NoAnswer(Span),
    /// The peer was silent for this time, although an answer was due.
    Silent(Span),
    /// The peer does not know the connection any more: it was restarted, or it had everything and
    /// stopped waiting for the last acknowledgement.
    Forgotten,
    /// The peer closed the connection.
    Closed(Reason),
    /// The peer violated the protocol.
    Violation(String),
    /// This application aborted.
    Aborted,
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Done => write!(f, "all has arrived"),
            Self::NoAnswer(span) => {
                write!(
                    f,
                    "no answer within {span}: does 'alcc-lab recv --transport udp' run there?"
                )
            }
            Self::Silent(span) => write!(f, "the peer has been silent for {span}"),
            Self::Forgotten => write!(
                f,
                "the peer does not know this connection any more: it was restarted, or it had received everything and has ended"
            ),
            Self::Closed(reason) => write!(f, "the peer closed the connection: {}", reason.words()),
            Self::Violation(what) => write!(f, "the peer violates the protocol: {what}"),
            Self::Aborted => write!(f, "given up"),
        }
    }
}

impl std::error::Error for End {}
