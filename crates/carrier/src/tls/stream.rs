// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A TLS connection as a stream that never blocks.
use crate::Stream;
use crate::wait::Waits;
use rustls::Connection;
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::BorrowedFd;

/// Taken by one `write` at most: what the descriptor does not take then is held here.
const MOST: usize = 64 * 1024;
/// Header, content type and tag of a record of TLS 1.3 (RFC 8446, 5.2), and what it holds at most (5.1).
const RECORD: usize = 5 + 1 + 16;
const RECORD_PAYLOAD: usize = 16 * 1024;

struct TlsStream {
    connection: Connection,
    below: Waits,
    /// About so many encrypted bytes wait in `connection`.
    held: usize,
    closing: bool,
}

/// Does the handshake, waiting in `below`; from then on nothing waits.
pub(super) fn handshake(
    mut connection: Connection,
    mut below: Waits,
) -> io::Result<Box<dyn Stream>> {
    // Bounded by `MOST` in `write`; a record is encrypted as a whole.
    connection.set_buffer_limit(None);
    while connection.is_handshaking() {
        connection.complete_io(&mut below)?;
    }
    while connection.wants_write() {
        connection.write_tls(&mut below)?;
    }
    below.flush()?;
    below.no_more();
    Ok(Box::new(TlsStream {
        connection,
        below,
        held: 0,
        closing: false,
    }))
}

impl TlsStream {
    /// What is encrypted goes down.
    fn drain(&mut self) -> io::Result<()> {
        while self.connection.wants_write() {
            match self.connection.write_tls(&mut self.below) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => self.held = self.held.saturating_sub(n),
                Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                Err(why) => return Err(why),
            }
        }
        self.held = 0;
        Ok(())
    }

    /// As `drain`; that the descriptor takes nothing now is no error.
    fn try_drain(&mut self) -> io::Result<()> {
        match self.drain() {
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => Ok(()),
            other => other,
        }
    }

    fn took(&mut self, n: usize) -> io::Result<usize> {
        self.held += n + RECORD * n.div_ceil(RECORD_PAYLOAD);
        self.try_drain()?;
        Ok(n)
    }
}

impl Read for TlsStream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if buf.is_empty() {
            return Ok(0);
        }
        loop {
            match self.connection.reader().read(buf) {
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
            self.connection.read_tls(&mut self.below)?;
            if let Err(why) = self.connection.process_new_packets() {
                // The alert that says so; there is nothing left to lose.
                drop(self.try_drain());
                return Err(io::Error::new(io::ErrorKind::InvalidData, why));
            }
            self.try_drain()?;
        }
    }
}

impl Write for TlsStream {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.drain()?;
        let n = self
            .connection
            .writer()
            .write(&buf[..buf.len().min(MOST)])?;
        self.took(n)
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.drain()?;
        let mut sum = 0;
        let fit = bufs
            .iter()
            .take_while(|buf| {
                sum += buf.len();
                sum <= MOST
            })
            .count();
        let n = if fit == 0 {
            let first = bufs.first().map_or(&[][..], |buf| buf);
            self.connection
                .writer()
                .write(&first[..first.len().min(MOST)])?
        } else {
            self.connection.writer().write_vectored(&bufs[..fit])?
        };
        self.took(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.drain()?;
        self.below.flush()
    }
}

impl Stream for TlsStream {
    fn fd(&self) -> BorrowedFd<'_> {
        self.below.fd()
    }

    fn wants_write(&self) -> bool {
        self.connection.wants_write() || self.below.wants_write()
    }

    fn held(&self) -> usize {
        self.held + self.below.held()
    }

    fn shutdown_write(&mut self) -> io::Result<()> {
        if !self.closing {
            self.closing = true;
            self.connection.send_close_notify();
        }
        self.drain()?;
        self.below.shutdown_write()
    }
}
