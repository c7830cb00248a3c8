// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `websocket:path=/,host=NAME`: binary messages of a WebSocket (RFC 6455) as a byte stream. Where one message ends and the next begins
//! means nothing: a proxy may cut them otherwise.
use crate::error::quoted;
use crate::registry::{Layer, Options};
use crate::spec::{Client, Server, Target};
use crate::wait::{Deadline, Waits};
use crate::{Error, Stream};
use std::io::{self, Read, Write};
use std::os::fd::BorrowedFd;
use tungstenite::handshake::HandshakeError;
use tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tungstenite::protocol::WebSocketConfig;
use tungstenite::{Bytes, Message, WebSocket};

/// Taken by one `write` at most, and sent as one message.
const MOST: usize = 64 * 1024;
/// Longest message that is taken; also as one frame.
const LONGEST: usize = 256 * 1024;
/// Header of a frame (RFC 6455, 5.2): two bytes, length, mask.
const FRAME: usize = 2 + 8 + 4;

fn limits() -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(32 * 1024)
        // So that `write` only queues and `flush` alone says whether it went.
        .write_buffer_size(2 * MOST)
        .max_write_buffer_size(4 * MOST)
        .max_message_size(Some(LONGEST))
        .max_frame_size(Some(LONGEST))
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
        below: Box<dyn Stream>,
        options: &Options,
        target: &Target,
        _: &Client,
        deadline: Deadline,
    ) -> Result<Box<dyn Stream>, Error> {
        let path = options.get("path").unwrap_or("/");
        let host = options
            .get("host")
            .map_or_else(|| target.to_string(), str::to_owned);
        let what = format!("open a WebSocket at {target}{path}");
        let below = Waits::until(deadline, below);
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
        below: Box<dyn Stream>,
        options: &Options,
        peer: &str,
        _: &Server,
        deadline: Deadline,
    ) -> Result<Box<dyn Stream>, Error> {
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
        let below = Waits::until(deadline, below);
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

fn stream(mut ws: WebSocket<Waits>) -> Box<dyn Stream> {
    ws.get_mut().no_more();
    Box::new(WsStream {
        ws,
        message: Bytes::new(),
        held: 0,
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
    ws: WebSocket<Waits>,
    /// What is left of the message that came last.
    message: Bytes,
    /// Bytes of the message that was written last, while it waits.
    held: usize,
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
    fn drain(&mut self) -> io::Result<()> {
        match self.ws.flush() {
            // After the end only the reply to it is left to go.
            Ok(())
            | Err(tungstenite::Error::ConnectionClosed | tungstenite::Error::AlreadyClosed) => {
                (self.held, self.unflushed) = (0, false);
                Ok(())
            }
            Err(why) => {
                let why = as_io(why);
                self.unflushed = why.kind() == io::ErrorKind::WouldBlock;
                Err(why)
            }
        }
    }
}

impl Read for WsStream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        while self.message.is_empty() && !buf.is_empty() {
            if self.ended {
                return Ok(0);
            }
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
                        "a text message in the WebSocket: ours are binary",
                    ));
                }
                Err(tungstenite::Error::ConnectionClosed | tungstenite::Error::AlreadyClosed) => {
                    self.ended = true;
                }
                Err(why) => return Err(as_io(why)),
            }
        }
        let n = self.message.len().min(buf.len());
        buf[..n].copy_from_slice(&self.message.split_to(n));
        Ok(n)
    }
}

impl Write for WsStream {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        if self.unflushed {
            self.drain()?;
        }
        let buf = &buf[..buf.len().min(MOST)];
        if buf.is_empty() {
            return Ok(0);
        }
        self.ws
            .write(Message::Binary(Bytes::copy_from_slice(buf)))
            .map_err(as_io)?;
        self.held = buf.len() + FRAME;
        match self.drain() {
            Err(why) if why.kind() != io::ErrorKind::WouldBlock => Err(why),
            _ => Ok(buf.len()),
        }
    }

    fn write_vectored(&mut self, bufs: &[io::IoSlice<'_>]) -> io::Result<usize> {
        match bufs {
            [one] => self.write(one),
            // One message, not one for each piece.
            many => {
                let mut all = Vec::with_capacity(MOST.min(many.iter().map(|b| b.len()).sum()));
                for buf in many {
                    all.extend_from_slice(&buf[..buf.len().min(MOST - all.len())]);
                }
                self.write(&all)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.drain()
    }
}

impl Stream for WsStream {
    fn fd(&self) -> BorrowedFd<'_> {
        self.ws.get_ref().fd()
    }

    fn wants_write(&self) -> bool {
        self.unflushed || self.ws.get_ref().wants_write()
    }

    fn held(&self) -> usize {
        self.held + self.ws.get_ref().held()
    }

    /// A WebSocket has one end for both directions.
    fn shutdown_write(&mut self) -> io::Result<()> {
        match self.ws.close(None) {
            Ok(())
            | Err(tungstenite::Error::ConnectionClosed | tungstenite::Error::AlreadyClosed) => {
                (self.held, self.unflushed) = (0, false);
                Ok(())
            }
            Err(why) => {
                let why = as_io(why);
                self.unflushed = why.kind() == io::ErrorKind::WouldBlock;
                Err(why)
            }
        }
    }
}
