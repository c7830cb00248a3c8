// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `websocket:path=/,host=NAME`: binary messages of a WebSocket (RFC 6455) as a byte stream. Where
//! one message ends and the next begins means nothing: a proxy may cut them otherwise.
use crate::Error;
use crate::Target;
use crate::error::quoted;
use crate::registry::{Layer, Options};
use crate::spec::{Client, Server};
use crate::wait::{Deadline, DeadlineCarrier};
use alcc_inband::carrier::{Arrived, Carrier};
use bytes::{Bytes, BytesMut};
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use tungstenite::handshake::HandshakeError;
use tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tungstenite::protocol::WebSocketConfig;
use tungstenite::{Message, WebSocket};

/// Taken by one `write` at most, and sent as one message.
const MAX_WRITE: usize = 64 * 1024;
/// Longest message that is taken; also as one frame.
const MAX_MESSAGE: usize = 256 * 1024;
/// Header of a frame that fits a segment (RFC 6455, 5.2): two bytes, length, mask.
const FRAME_OVERHEAD: usize = 2 + 2 + 4;

fn limits() -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(32 * 1024)
        // So that `write` only queues and `flush` alone says whether it went.
        .write_buffer_size(2 * MAX_WRITE)
        .max_write_buffer_size(4 * MAX_WRITE)
        .max_message_size(Some(MAX_MESSAGE))
        .max_frame_size(Some(MAX_MESSAGE))
}

pub(crate) struct Ws;

impl Layer for Ws {
    fn options(&self) -> &'static [&'static str] {
        &["path", "host"]
    }

    fn check(&self, options: &Options) -> Result<(), Error> {
        match options.get("path") {
            Some(path) if !path.starts_with('/') => Err(Error::Usage(format!(
                "carrier websocket: path '{path}': it begins with '/'"
            ))),
            _ => Ok(()),
        }
    }

    fn connect(
        &self,
        below: Box<dyn Carrier>,
        options: &Options,
        target: &Target,
        _: &Client,
        deadline: Deadline,
    ) -> Result<Box<dyn Carrier>, Error> {
        let path = options.get("path").unwrap_or("/");
        let host = options
            .get("host")
            .map_or_else(|| target.to_string(), str::to_owned);
        let what = format!("open a WebSocket at {target}{path}");
        let below = DeadlineCarrier::until(deadline, below);
        let made = tungstenite::client::client_with_config(
            format!("ws://{host}{path}"),
            below,
            Some(limits()),
        );
        match made {
            Ok((ws, _)) => Ok(stream(ws)),
            Err(HandshakeError::Interrupted(_)) => Err(Error::Io {
                what,
                source: io::ErrorKind::TimedOut.into(),
            }),
            Err(HandshakeError::Failure(why)) => {
                Err(failed(what, why, "is it a WebSocket server?"))
            }
        }
    }

    fn accept(
        &self,
        below: Box<dyn Carrier>,
        options: &Options,
        peer: &str,
        _: &Server,
        deadline: Deadline,
    ) -> Result<Box<dyn Carrier>, Error> {
        let what = format!("take a WebSocket from {peer}");
        let path = options.get("path");
        #[allow(
            clippy::result_large_err,
            reason = "the callback's type is tungstenite's"
        )]
        let ours = |request: &Request, response: Response| -> Result<Response, ErrorResponse> {
            if path.is_none_or(|path| path == request.uri().path()) {
                return Ok(response);
            }
            let mut no = ErrorResponse::new(None);
            *no.status_mut() = tungstenite::http::StatusCode::NOT_FOUND;
            Err(no)
        };
        let below = DeadlineCarrier::until(deadline, below);
        match tungstenite::accept_hdr_with_config(below, ours, Some(limits())) {
            Ok(ws) => Ok(stream(ws)),
            Err(HandshakeError::Interrupted(_)) => Err(Error::Io {
                what,
                source: io::ErrorKind::TimedOut.into(),
            }),
            Err(HandshakeError::Failure(tungstenite::Error::Http(_))) => Err(Error::refused(
                what,
                format!("it asks for another path than {}", path.unwrap_or("/")),
            )),
            Err(HandshakeError::Failure(why)) => Err(failed(what, why, "it asks for no WebSocket")),
        }
    }
}

fn stream(mut ws: WebSocket<DeadlineCarrier>) -> Box<dyn Carrier> {
    ws.get_mut().no_more();
    Box::new(WsStream {
        ws,
        message: Bytes::new(),
        unflushed: false,
        ended: false,
    })
}

fn failed(what: String, why: tungstenite::Error, doubt: &str) -> Error {
    use tungstenite::error::ProtocolError;
    match why {
        tungstenite::Error::Io(source) => Error::Io { what, source },
        tungstenite::Error::Http(answer) => {
            let said = answer.status().to_string();
            Error::refused(
                what,
                format!("it answers {}: no WebSocket there", quoted(said.as_bytes())),
            )
        }
        tungstenite::Error::Protocol(ProtocolError::HandshakeIncomplete) => {
            let found = format!("it closed the connection without an answer: {doubt}");
            Error::refused(what, found)
        }
        other => {
            let said = quoted(other.to_string().as_bytes());
            Error::refused(what, format!("{doubt} ({})", said.trim_matches('\'')))
        }
    }
}

struct WsStream {
    ws: WebSocket<DeadlineCarrier>,
    /// What is left of the message that came last.
    message: Bytes,
    unflushed: bool,
    /// The peer has said the end.
    ended: bool,
}

fn as_io(why: tungstenite::Error) -> io::Error {
    use tungstenite::error::ProtocolError;
    match why {
        tungstenite::Error::Io(why) => why,
        tungstenite::Error::ConnectionClosed | tungstenite::Error::AlreadyClosed => {
            io::ErrorKind::BrokenPipe.into()
        }
        tungstenite::Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => {
            io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the WebSocket ended without saying so",
            )
        }
        other => io::Error::new(io::ErrorKind::InvalidData, other.to_string()),
    }
}

impl WsStream {
    fn below(&self) -> &dyn Carrier {
        self.ws.get_ref().below()
    }

    fn drain(&mut self) -> io::Result<()> {
        let flushed = self.ws.flush();
        self.check(flushed)
    }

    /// After the end only the reply to it is left to go.
    fn check(&mut self, result: tungstenite::Result<()>) -> io::Result<()> {
        let result = match result {
            Ok(())
            | Err(tungstenite::Error::ConnectionClosed | tungstenite::Error::AlreadyClosed) => {
                Ok(())
            }
            Err(why) => Err(as_io(why)),
        };
        let blocked = |why: &io::Error| why.kind() == io::ErrorKind::WouldBlock;
        self.unflushed = result.as_ref().err().is_some_and(blocked);
        result
    }
}

impl Carrier for WsStream {
    fn fd(&self) -> BorrowedFd<'_> {
        self.below().fd()
    }

    fn read(&mut self, into: &mut [u8]) -> io::Result<Arrived> {
        while self.message.is_empty() && !into.is_empty() && !self.ended {
            match self.ws.read() {
                Ok(Message::Binary(bytes)) => self.message = bytes,
                Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_)) => {}
                Ok(Message::Close(_)) => {
                    self.ended = true;
                    // The reply; whether it still goes is the peer's affair.
                    drop(self.drain());
                }
                Ok(Message::Text(_)) => {
                    return Err(io::Error::new(
                        io::ErrorKind::InvalidData,
                        "a text message in the WebSocket: in-band messages are binary",
                    ));
                }
                Err(tungstenite::Error::ConnectionClosed | tungstenite::Error::AlreadyClosed) => {
                    self.ended = true;
                }
                Err(why) => return Err(as_io(why)),
            }
        }
        let len = self.message.len().min(into.len());
        into[..len].copy_from_slice(&self.message.split_to(len));
        Ok(Arrived {
            len,
            at: self.ws.get_ref().arrived.at,
            // There may be more messages in tungstenite's buffer.
            last: false,
        })
    }

    fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        if self.unflushed {
            self.drain()?;
        }
        // One message, not one for each piece.
        let mut all = BytesMut::with_capacity(MAX_WRITE.min(pieces.iter().map(|p| p.len()).sum()));
        for piece in pieces {
            all.extend_from_slice(&piece[..piece.len().min(MAX_WRITE - all.len())]);
        }
        if all.is_empty() {
            return Ok(0);
        }
        let len = all.len();
        self.ws
            .write(Message::Binary(all.freeze()))
            .map_err(as_io)?;
        match self.drain() {
            Err(why) if why.kind() != io::ErrorKind::WouldBlock => Err(why),
            _ => Ok(len),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.drain()
    }

    fn wants_write(&self) -> bool {
        self.unflushed || self.below().wants_write()
    }

    /// A WebSocket has one end for both directions.
    fn shutdown_write(&mut self) -> io::Result<()> {
        let closed = self.ws.close(None);
        self.check(closed)
    }

    fn tcp(&self) -> Option<BorrowedFd<'_>> {
        self.below().tcp()
    }

    /// A message of its own is the worst case.
    fn segment(&self) -> usize {
        self.below().segment().saturating_sub(FRAME_OVERHEAD)
    }

    fn name(&self) -> &'static str {
        "websocket"
    }
}
