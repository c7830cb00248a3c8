// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The head of an HTTP answer, from somebody whom we do not trust.
use crate::Error;
use crate::error::quoted;
use crate::wait::{Deadline, read};
use alcc_inband::carrier::{Arrived, Carrier};
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;

/// An answer to CONNECT has a few lines.
const MAX_HEAD: usize = 16 * 1024;
const MAX_HEADERS: usize = 64;

/// What an answer says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) reason: String,
    /// Bytes of the head.
    pub(crate) len: usize,
}

/// The head of an answer; none while it is not all there.
pub(crate) fn parse(bytes: &[u8]) -> Result<Option<Answer>, String> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut answer = httparse::Response::new(&mut headers);
    match answer.parse(bytes) {
        Ok(httparse::Status::Complete(len)) => Ok(Some(Answer {
            status: answer.code.unwrap_or(0),
            reason: answer.reason.unwrap_or("").to_owned(),
            len,
        })),
        Ok(httparse::Status::Partial) if bytes.len() < MAX_HEAD => Ok(None),
        Ok(httparse::Status::Partial) => Err(format!(
            "an answer whose headers do not end within {MAX_HEAD} bytes"
        )),
        Err(httparse::Error::TooManyHeaders) => {
            Err(format!("an answer with more than {MAX_HEADERS} headers"))
        }
        Err(_) => Err(format!("not HTTP: it says {}", quoted(bytes))),
    }
}

/// Reads the head of an answer, and perhaps some of what comes after it.
pub(crate) fn answer(
    below: &mut dyn Carrier,
    what: &str,
    deadline: Deadline,
) -> Result<(Answer, Vec<u8>), Error> {
    let mut bytes = Vec::new();
    let mut block = [0; 2048];
    loop {
        let room = (MAX_HEAD - bytes.len()).min(block.len());
        let arrived = read(below, &mut block[..room], deadline).map_err(Error::io(what))?;
        let n = arrived.len;
        if n == 0 {
            let found = if bytes.is_empty() {
                "it closed the connection without an answer".to_owned()
            } else {
                format!("it closed the connection after {}", quoted(&bytes))
            };
            return Err(Error::refused(what, found));
        }
        bytes.extend_from_slice(&block[..n]);
        match parse(&bytes) {
            Ok(Some(answer)) => {
                let rest = bytes.split_off(answer.len);
                return Ok((answer, rest));
            }
            Ok(None) => {}
            Err(found) => return Err(Error::refused(what, found)),
        }
    }
}

/// A stream of which a handshake has read more than was its own.
pub(crate) struct BufferedPrefix {
    bytes: Vec<u8>,
    given: usize,
    below: Box<dyn Carrier>,
}

impl BufferedPrefix {
    pub(crate) fn before(bytes: Vec<u8>, below: Box<dyn Carrier>) -> Box<dyn Carrier> {
        if bytes.is_empty() {
            return below;
        }
        Box::new(Self {
            bytes,
            given: 0,
            below,
        })
    }
}

impl Carrier for BufferedPrefix {
    fn fd(&self) -> BorrowedFd<'_> {
        self.below.fd()
    }

    fn read(&mut self, into: &mut [u8]) -> io::Result<Arrived> {
        let left = &self.bytes[self.given..];
        if left.is_empty() {
            return self.below.read(into);
        }
        let len = left.len().min(into.len());
        into[..len].copy_from_slice(&left[..len]);
        self.given += len;
        if self.given == self.bytes.len() {
            (self.bytes, self.given) = (Vec::new(), 0);
        }
        Ok(Arrived {
            len,
            at: None,
            last: false,
        })
    }

    fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.below.write(pieces)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.below.flush()
    }

    fn wants_write(&self) -> bool {
        self.below.wants_write()
    }

    fn shutdown_write(&mut self) -> io::Result<()> {
        self.below.shutdown_write()
    }

    fn tcp(&self) -> Option<BorrowedFd<'_>> {
        self.below.tcp()
    }

    fn segment(&self) -> usize {
        self.below.segment()
    }

    fn name(&self) -> &'static str {
        self.below.name()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_in_pieces_is_an_answer_when_it_is_all_there() {
        let text = b"HTTP/1.1 200 Connection established\r\nVia: 1.1 p\r\n\r\nrest";
        let head = text.len() - 4;
        for n in 0..head {
            assert_eq!(parse(&text[..n]), Ok(None), "{n}");
        }
        let answer = parse(text).unwrap().unwrap();
        assert_eq!((answer.status, answer.len), (200, head));
        assert_eq!(answer.reason, "Connection established");
    }

    #[test]
    fn what_is_no_answer_is_one_line() {
        let many = format!(
            "HTTP/1.1 200 OK\r\n{}\r\n",
            "A: b\r\n".repeat(MAX_HEADERS + 1)
        );
        let long = format!("HTTP/1.1 200 OK\r\nA: {}", "b".repeat(MAX_HEAD));
        for (bytes, said) in [
            (
                &b"SSH-2.0-OpenSSH_9.2\r\n"[..],
                "not HTTP: it says 'SSH-2.0-OpenSSH_9.2'",
            ),
            (b"\x15\x03\x01\0\x02\x02\x46\xff", "not HTTP"),
            (many.as_bytes(), "more than 64 headers"),
            (long.as_bytes(), "within 16384 bytes"),
        ] {
            let why = parse(bytes).unwrap_err();
            assert!(why.contains(said) && !why.contains('\n'), "{why}");
        }
    }
}
