// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A TLS connection as a non-blocking stream.
use crate::wait::DeadlineCarrier;
use alcc_inband::carrier::{Arrived, Carrier};
use rustls::Connection;
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::BorrowedFd;

/// Limit of one `write`. What the descriptor does not take is buffered here.
const MAX_WRITE: usize = 64 * 1024;
/// Header, content type and tag of a record of TLS 1.3 (RFC 8446, 5.2).
const RECORD_OVERHEAD: usize = 5 + 1 + 16;

struct TlsStream {
    connection: Connection,
    below: DeadlineCarrier,
    /// Number of decrypted bytes in `connection`.
    unread: usize,
    closing: bool,
}

/// Does the handshake, blocking in `below`; the stream does not block after that.
pub(super) fn handshake(
    mut connection: Connection,
    mut below: DeadlineCarrier,
) -> io::Result<Box<dyn Carrier>> {
    // `write` limits the buffer by `MAX_WRITE`; a record is encrypted as a whole.
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
        unread: 0,
        closing: false,
    }))
}

impl TlsStream {
    /// Writes the encrypted data to the descriptor.
    fn drain(&mut self) -> io::Result<()> {
        while self.connection.wants_write() {
            match self.connection.write_tls(&mut self.below) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                Err(why) => return Err(why),
            }
        }
        Ok(())
    }

    /// As `drain`, but `WouldBlock` is not an error.
    fn try_drain(&mut self) -> io::Result<()> {
        match self.drain() {
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => Ok(()),
            other => other,
        }
    }
}

impl Carrier for TlsStream {
    fn fd(&self) -> BorrowedFd<'_> {
        self.below.below().fd()
    }

    fn read(&mut self, into: &mut [u8]) -> io::Result<Arrived> {
        if into.is_empty() {
            return Ok(Arrived {
                len: 0,
                at: None,
                last: false,
            });
        }
        loop {
            match self.connection.reader().read(into) {
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => {}
                Err(why) => return Err(why),
                Ok(len) => {
                    self.unread = self.unread.saturating_sub(len);
                    return Ok(Arrived {
                        len,
                        at: self.below.arrived.at,
                        last: self.below.arrived.last && self.unread == 0,
                    });
                }
            }
            self.connection.read_tls(&mut self.below)?;
            match self.connection.process_new_packets() {
                Ok(state) => self.unread = state.plaintext_bytes_to_read(),
                Err(why) => {
                    // Tries to send the alert of the error; nothing more can be lost.
                    drop(self.try_drain());
                    return Err(io::Error::new(io::ErrorKind::InvalidData, why));
                }
            }
            self.try_drain()?;
        }
    }

    fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.drain()?;
        let mut sum = 0;
        let fit = pieces
            .iter()
            .take_while(|piece| {
                sum += piece.len();
                sum <= MAX_WRITE
            })
            .count();
        let n = if fit == 0 {
            let first = pieces.first().map_or(&[][..], |piece| piece);
            self.connection
                .writer()
                .write(&first[..first.len().min(MAX_WRITE)])?
        } else {
            self.connection.writer().write_vectored(&pieces[..fit])?
        };
        self.try_drain()?;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.drain()?;
        self.below.flush()
    }

    fn wants_write(&self) -> bool {
        self.connection.wants_write() || self.below.below().wants_write()
    }

    fn shutdown_write(&mut self) -> io::Result<()> {
        if !self.closing {
            self.closing = true;
            self.connection.send_close_notify();
        }
        self.drain()?;
        self.below.below_mut().shutdown_write()
    }

    fn tcp(&self) -> Option<BorrowedFd<'_>> {
        self.below.below().tcp()
    }

    /// The worst case: each write gets a record of its own.
    fn segment(&self) -> usize {
        self.below.below().segment().saturating_sub(RECORD_OVERHEAD)
    }

    fn name(&self) -> &'static str {
        "tls"
    }
}
