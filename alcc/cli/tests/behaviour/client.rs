// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The other end: plain sockets of the test itself.
#[path = "../support/reset.rs"]
mod reset;

use crate::case::Client;
use reset::reset;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// The data and the end of one connection.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct End {
    pub(crate) bytes: usize,
    hash: u64,
    /// "end", "reset", or an error.
    how: String,
    /// It was the beginning of the stream that every case sends.
    pub(crate) prefix: bool,
}

/// As the program's `data`.
fn stream() -> impl Iterator<Item = u8> {
    std::iter::successors(Some(12345u32), |x| {
        Some(x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223))
    })
    .skip(1)
    .map(|x| (x >> 24) as u8)
}

fn wait(gone: &Receiver<()>) {
    // The program's end is the end of the channel.
    let _ = gone.recv();
}

/// Does what `client` is to do; `gone` ends when the program has.
pub(crate) fn attend(client: Client, mut stream: TcpStream, gone: &Receiver<()>) -> End {
    stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    let late = Duration::from_millis(1200);
    match client {
        Client::Drain | Client::Lines | Client::Bag | Client::Sink | Client::Both => {}
        Client::Late | Client::LateAndAny => std::thread::sleep(late),
        Client::Ask => drop(stream.write_all(b"GET me\n")),
        Client::Answer => {
            let end = drain(client, &mut stream);
            let _ = writeln!(stream, "{} bytes", end.bytes);
            return end;
        }
        Client::Hold => {
            wait(gone);
            return End::default();
        }
        Client::HoldAndTalk => {
            std::thread::sleep(late);
            let _ = stream.write_all(b"hello");
            wait(gone);
            return End::default();
        }
        Client::HoldAndReset => {
            std::thread::sleep(late);
            reset(stream);
            return End::default();
        }
        Client::Reset => {
            let mut some = [0; 50_000];
            let _ = stream.read(&mut some);
            reset(stream);
            return End::default();
        }
    }
    drain(client, &mut stream)
}

fn drain(client: Client, from: &mut TcpStream) -> End {
    let mut got = Vec::new();
    let how = match from.read_to_end(&mut got) {
        Ok(_) => "end".to_owned(),
        Err(e) if e.kind() == ErrorKind::ConnectionReset => "reset".to_owned(),
        Err(e) => e.to_string(),
    };
    let prefix = got.iter().copied().eq(stream().take(got.len()));
    let bytes = got.len();
    let mut hasher = DefaultHasher::new();
    match client {
        Client::Lines => {
            let mut lines: Vec<_> = got.split(|&b| b == b'\n').collect();
            lines.sort_unstable();
            lines.hash(&mut hasher);
        }
        Client::Bag => {
            got.sort_unstable();
            got.hash(&mut hasher);
        }
        _ => got.hash(&mut hasher),
    }
    End {
        bytes,
        hash: hasher.finish(),
        how,
        prefix,
    }
}
