// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An unmodified curl: its output is a pipe, and the arrival time of each byte is recorded.
use crate::LabError;
use crate::server::FILE;
use alcc_emu::Namespace;
use alcc_units::{Span, Time};
use std::io::Read;
use std::net::SocketAddrV4;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::Instant;

/// A download under way; ended when dropped.
pub(crate) struct Client {
    child: Child,
    reader: Option<JoinHandle<Reads>>,
}

/// Bytes that the downloading application received, including the header of the response.
#[derive(Debug, Default)]
pub(crate) struct Reads {
    /// Times of reads, and the bytes by then.
    pub(crate) at: Vec<(Time, u64)>,
    /// Beginning of the response.
    pub(crate) head: Vec<u8>,
}

/// Enough for the header of any response of a server that we configure.
const HEAD: usize = 4_096;

impl Client {
    pub(crate) fn start(
        namespace: &Namespace,
        curl: &Path,
        server: SocketAddrV4,
        origin: Instant,
    ) -> Result<Self, LabError> {
        let mut command = Command::new(curl);
        command
            .args([
                "--silent",
                "--show-error",
                "--no-buffer",
                "--include",
                "--http1.1",
                "--noproxy",
                "*",
            ])
            .arg(format!("http://{server}/{FILE}"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = namespace
            .spawn(command)
            .map_err(LabError::os(format!("start {}", curl.display())))?;
        let output = child.stdout.take();
        let reader = std::thread::Builder::new()
            .name("alcc-client".to_owned())
            .spawn(move || output.map_or_else(Reads::default, |output| read_all(output, origin)));
        let mut client = Self {
            child,
            reader: None,
        };
        // On an error the client is dropped, which ends curl.
        client.reader = Some(reader.map_err(LabError::os("start a thread"))?);
        Ok(client)
    }

    pub(crate) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Ends the download.
    pub(crate) fn stop(mut self) -> Reads {
        self.end();
        self.reader
            .take()
            .and_then(|reader| reader.join().ok())
            .unwrap_or_default()
    }

    fn end(&mut self) {
        // Fails only if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.end();
    }
}

fn read_all(mut from: impl Read, origin: Instant) -> Reads {
    let mut reads = Reads::default();
    let mut buffer = vec![0; 64 * 1024];
    let mut total = 0u64;
    while let Ok(n @ 1..) = from.read(&mut buffer) {
        let at = Time::ZERO + Span::from(origin.elapsed());
        total += n as u64;
        if reads.head.len() < HEAD {
            let missing = HEAD - reads.head.len();
            reads.head.extend(&buffer[..n.min(missing)]);
        }
        match reads.at.last_mut() {
            // One entry per 0.1 ms at most: memory depends on time, not on speed.
            Some((last, bytes)) if at.since(*last) < Span::from_micros(100) => *bytes = total,
            _ => reads.at.push((at, total)),
        }
    }
    reads
}

impl Reads {
    /// Length of the response's header; `None` before its end or if it is not a success.
    pub(crate) fn header(&self) -> Option<u64> {
        if !self.head.starts_with(b"HTTP/1.1 200") {
            return None;
        }
        let end = self.head.windows(4).position(|w| w == b"\r\n\r\n")?;
        Some(end as u64 + 4)
    }

    /// Payload bytes that came in `from..to`.
    pub(crate) fn payload(&self, from: Time, to: Time) -> Option<u64> {
        let header = self.header()?;
        let by = |time: Time| {
            let n = self.at.partition_point(|(at, _)| *at < time);
            n.checked_sub(1)
                .map_or(0, |i| self.at[i].1.saturating_sub(header))
        };
        Some(by(to) - by(from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payload_is_counted_without_the_header() {
        let head = b"HTTP/1.1 200 OK\r\nA: b\r\n\r\nbody".to_vec();
        let header = head.len() as u64 - 4;
        let ms = Time::from_millis;
        let reads = Reads {
            at: vec![
                (ms(10), header + 4),
                (ms(20), header + 1_000),
                (ms(30), header + 5_000),
            ],
            head,
        };
        assert_eq!(reads.header(), Some(header));
        assert_eq!(reads.payload(ms(0), ms(100)), Some(5_000));
        assert_eq!(reads.payload(ms(15), ms(30)), Some(996));
        let refused = Reads {
            head: b"HTTP/1.1 404 Not Found\r\n\r\n".to_vec(),
            ..Reads::default()
        };
        assert_eq!(refused.payload(ms(0), ms(100)), None);
    }

    #[test]
    fn everything_that_comes_is_noted() {
        let bytes = b"HTTP/1.1 200 OK\r\n\r\n"
            .iter()
            .chain([7; 200_000].iter())
            .copied()
            .collect::<Vec<u8>>();
        let reads = read_all(&bytes[..], Instant::now());
        assert_eq!(reads.at.last().map(|r| r.1), Some(bytes.len() as u64));
        assert_eq!(reads.head.len(), HEAD);
        assert_eq!(reads.header(), Some(19));
    }
}
