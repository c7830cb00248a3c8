// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The TCP sockets of a network namespace that listen or may be written to, by the kernel's socket
//! diagnosis. Each takes a few hundred nanoseconds. So a look at ten thousand of them is some
//! milliseconds. Layouts are those of linux/inet_diag.h and linux/tcp.h.
use alcc_sys::Reading;
use netlink_sys::protocols::NETLINK_SOCK_DIAG;
use netlink_sys::{Socket, SocketAddr as NetlinkAddr};
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::RawFd;

/// One TCP socket.
#[derive(Clone, Copy, Debug)]
pub struct TcpSocket {
    /// It waits for connections; then only `local` means something.
    pub listens: bool,
    /// Our end.
    pub local: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
    /// The kernel's number of the socket (`SO_COOKIE`).
    pub cookie: u64,
    /// What `/proc/PID/fd` shows; 0: no process has it any more.
    pub inode: u32,
    /// Payload bytes sent, those sent again not counted.
    pub sent: u64,
    /// Segment size.
    pub mss: u32,
    /// The kernel's congestion control.
    pub control: Name,
    /// What a map of the kernel has of it: its former congestion control. See
    /// [`Sockets::dump_noted`].
    pub before: Name,
    /// All counters; `None` before Linux 4.19, and of a socket that listens.
    pub reading: Option<Reading>,
}

/// The name of a congestion control; empty if unknown.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Name([u8; 16]);

impl Name {
    fn of(bytes: &[u8]) -> Self {
        let mut name = Self::default();
        let text = bytes.iter().take_while(|b| **b != 0);
        for (to, byte) in name.0.iter_mut().zip(text) {
            *to = *byte;
        }
        name
    }

    /// It as text.
    pub fn as_str(&self) -> &str {
        let len = self.0.iter().position(|b| *b == 0).unwrap_or(self.0.len());
        std::str::from_utf8(&self.0[..len]).unwrap_or_default()
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

impl TcpSocket {
    /// The other end; `None`: it listens.
    pub fn peer(&self) -> Option<SocketAddr> {
        (!self.listens).then_some(self.remote)
    }
}

/// A look at all TCP sockets of the network namespace in which it was opened.
pub struct Sockets {
    socket: Socket,
    buffer: Vec<u8>,
}

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// NLM_F_REQUEST, NLM_F_ROOT and NLM_F_MATCH.
const FLAGS: u16 = 0x301;
const INET_DIAG_INFO: u16 = 2;
const INET_DIAG_CONG: u16 = 4;
/// What maps have of a socket: in the request, and in the answer.
const INET_DIAG_REQ_SK_BPF_STORAGES: u16 = 2;
const SK_DIAG_BPF_STORAGE_REQ_MAP_FD: u16 = 1;
const INET_DIAG_SK_BPF_STORAGES: u16 = 20;
const SK_DIAG_BPF_STORAGE: u16 = 1;
const SK_DIAG_BPF_STORAGE_MAP_VALUE: u16 = 3;
const LISTEN: u8 = 10;
/// LISTEN, and the states in which a program may still write: ESTABLISHED and CLOSE_WAIT.
const STATES: u32 = 1 << 1 | 1 << 8 | 1 << LISTEN;

impl Sockets {
    /// Opens one in the network namespace of the calling thread.
    ///
    /// # Errors
    /// What the kernel says: it was built without INET_DIAG, or no descriptor is left.
    pub fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_SOCK_DIAG)?;
        socket.bind_auto()?;
        socket.connect(&NetlinkAddr::new(0, 0))?;
        Ok(Self {
            socket,
            buffer: vec![0; 64 * 1024],
        })
    }

    /// All that listen or may still be written to.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn dump(&mut self) -> io::Result<Vec<TcpSocket>> {
        self.dump_with(None)
    }

    /// Also asks for what this map of the kernel (socket storage with a name in it) has of them. Root
    /// only.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn dump_noted(&mut self, map: RawFd) -> io::Result<Vec<TcpSocket>> {
        self.dump_with(Some(map))
    }

    fn dump_with(&mut self, map: Option<RawFd>) -> io::Result<Vec<TcpSocket>> {
        let mut found = Vec::new();
        for family in [libc_family::INET, libc_family::INET6] {
            self.socket.send(&request(family, map), 0)?;
            loop {
                let size = self.socket.recv(&mut &mut self.buffer[..], 0)?;
                if !take(self.buffer.get(..size).unwrap_or_default(), &mut found)? {
                    break;
                }
            }
        }
        Ok(found)
    }
}

/// The TCP connections of a network namespace at their end, also those that are too short for a look
/// at all.
pub struct Ended {
    socket: Socket,
    buffer: Vec<u8>,
}

/// SKNLGRP_INET_TCP_DESTROY and SKNLGRP_INET6_TCP_DESTROY.
const ENDS: [u32; 2] = [1, 3];
/// The kernel's answer after it has dropped some.
const ENOBUFS: i32 = 105;

impl Ended {
    /// Begins, in the network namespace of the calling thread.
    ///
    /// # Errors
    /// What the kernel says: it was built without INET_DIAG, or no descriptor is left.
    pub fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_SOCK_DIAG)?;
        socket.bind_auto()?;
        for group in ENDS {
            socket.add_membership(group)?;
        }
        socket.set_non_blocking(true)?;
        Ok(Self {
            socket,
            buffer: vec![0; 8 * 1024],
        })
    }

    /// Those that have ended since the last call, with their last counters. No process has them.
    /// True if the kernel has dropped some, because they were too many.
    pub fn take(&mut self) -> (Vec<TcpSocket>, bool) {
        let (mut found, mut dropped) = (Vec::new(), false);
        loop {
            match self.socket.recv(&mut &mut self.buffer[..], 0) {
                Ok(size) => {
                    // Nonsense is none of them.
                    let _ = take(self.buffer.get(..size).unwrap_or_default(), &mut found);
                }
                Err(e) if e.raw_os_error() == Some(ENOBUFS) && !dropped => dropped = true,
                Err(_) => return (found, dropped),
            }
        }
    }
}

mod libc_family {
    pub(super) const INET: u8 = 2;
    pub(super) const INET6: u8 = 10;
}

fn request(family: u8, map: Option<RawFd>) -> Vec<u8> {
    let mut bytes = vec![0; if map.is_some() { 84 } else { 72 }];
    let len = bytes.len() as u32;
    bytes[0..4].copy_from_slice(&len.to_ne_bytes());
    bytes[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes[6..8].copy_from_slice(&FLAGS.to_ne_bytes());
    // struct inet_diag_req_v2: family, protocol TCP, extensions, states; every address, every
    // cookie.
    let extensions = 1 << (INET_DIAG_INFO - 1) | 1 << (INET_DIAG_CONG - 1);
    (bytes[16], bytes[17], bytes[18]) = (family, 6, extensions);
    bytes[20..24].copy_from_slice(&STATES.to_ne_bytes());
    if let Some(map) = map {
        let nested = [
            12,
            INET_DIAG_REQ_SK_BPF_STORAGES,
            8,
            SK_DIAG_BPF_STORAGE_REQ_MAP_FD,
        ];
        for (to, half) in bytes[72..80].chunks_exact_mut(2).zip(nested) {
            to.copy_from_slice(&half.to_ne_bytes());
        }
        bytes[80..84].copy_from_slice(&map.to_ne_bytes());
    }
    bytes
}

fn u16_at(b: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(b.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(b: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(b.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(b: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(b.get(at..at + 8)?.try_into().ok()?))
}

/// The messages of one datagram. False: that was the last.
fn take(mut datagram: &[u8], found: &mut Vec<TcpSocket>) -> io::Result<bool> {
    let nonsense = || io::Error::new(io::ErrorKind::InvalidData, "socket diagnosis cut short");
    while !datagram.is_empty() {
        let length = u32_at(datagram, 0).ok_or_else(nonsense)? as usize;
        let kind = u16_at(datagram, 4).ok_or_else(nonsense)?;
        let body = datagram.get(16..length).ok_or_else(nonsense)?;
        match kind {
            NLMSG_DONE => return Ok(false),
            NLMSG_ERROR => {
                let errno = u32_at(body, 0).ok_or_else(nonsense)?.cast_signed();
                return Err(io::Error::from_raw_os_error(errno.saturating_neg()));
            }
            SOCK_DIAG_BY_FAMILY => found.extend(socket(body)),
            _ => {}
        }
        datagram = datagram
            .get(length.next_multiple_of(4)..)
            .unwrap_or_default();
    }
    Ok(true)
}

/// `struct inet_diag_msg` and its attributes.
fn socket(body: &[u8]) -> Option<TcpSocket> {
    let (family, state) = (*body.first()?, *body.get(1)?);
    let end = |port: usize, at: usize| {
        let port = u16::from_be_bytes(body.get(port..port + 2)?.try_into().ok()?);
        let bytes: [u8; 16] = body.get(at..at + 16)?.try_into().ok()?;
        let ip = if family == libc_family::INET {
            IpAddr::V4(Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]))
        } else {
            IpAddr::V6(Ipv6Addr::from(bytes)).to_canonical()
        };
        Some(SocketAddr::new(ip, port))
    };
    let mut found = TcpSocket {
        listens: state == LISTEN,
        local: end(4, 8)?,
        remote: end(6, 24)?,
        cookie: u64_at(body, 44)?,
        inode: u32_at(body, 68)?,
        sent: 0,
        mss: 0,
        control: Name::default(),
        before: Name::default(),
        reading: None,
    };
    for (kind, value) in attributes(body.get(72..)?) {
        match kind {
            INET_DIAG_INFO => {
                let sent = u64_at(value, 200).unwrap_or_default();
                found.sent = sent.saturating_sub(u64_at(value, 208).unwrap_or_default());
                found.mss = u32_at(value, 16).unwrap_or_default();
                found.reading = Reading::of(value).filter(|_| !found.listens);
            }
            INET_DIAG_CONG => found.control = Name::of(value),
            INET_DIAG_SK_BPF_STORAGES => {
                let one = |wanted: u16| move |(kind, _): &(u16, &[u8])| *kind == wanted;
                let storage = attributes(value).find(one(SK_DIAG_BPF_STORAGE));
                let value = storage.and_then(|(_, storage)| {
                    attributes(storage).find(one(SK_DIAG_BPF_STORAGE_MAP_VALUE))
                });
                found.before = value.map(|(_, name)| Name::of(name)).unwrap_or_default();
            }
            _ => {}
        }
    }
    Some(found)
}

/// Netlink's attributes: kind and value.
fn attributes(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    /// The kind; above it are flags.
    const KIND: u16 = 0x3FFF;
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(rest, 0)?);
        let kind = u16_at(rest, 2)? & KIND;
        let value = rest.get(4..length)?;
        rest = (rest.get(length.next_multiple_of(4)..)).unwrap_or_default();
        Some((kind, value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    /// The kernel itself: what we have open is what it shows, with the inode that /proc shows.
    #[test]
    fn our_own_connections_are_shown() {
        let Ok(mut sockets) = Sockets::open() else {
            eprintln!("skipped: needs the kernel's socket diagnosis (INET_DIAG)");
            return;
        };
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else {
                continue;
            };
            let at = listener.local_addr().unwrap();
            let mut client = TcpStream::connect(at).unwrap();
            let (mut server, from) = listener.accept().unwrap();
            server.write_all(&[7; 50_000]).unwrap();
            client.read_exact(&mut vec![0; 50_000]).unwrap();
            let Ok(all) = sockets.dump() else {
                eprintln!("skipped: needs the kernel's socket diagnosis (INET_DIAG)");
                return;
            };
            assert!(all.iter().any(|s| s.listens && s.local == at), "{all:?}");
            let ours = all
                .iter()
                .find(|s| s.local == at && s.remote == from)
                .unwrap();
            assert_eq!((ours.sent, ours.listens), (50_000, false));
            assert!(ours.mss > 500 && ours.cookie != 0);
            assert!(!ours.control.as_str().is_empty() && ours.before == Name::default());
            assert_eq!(ours.reading.unwrap().progress.written, 50_000);
            let link = format!("/proc/self/fd/{}", server.as_raw_fd());
            assert_eq!(
                std::fs::read_link(link).unwrap().to_str().unwrap(),
                format!("socket:[{}]", ours.inode)
            );
        }
    }

    /// However short it was.
    #[test]
    fn a_connection_is_shown_at_its_end() {
        let Ok(mut ended) = Ended::open() else {
            eprintln!("skipped: needs the kernel's socket diagnosis (INET_DIAG)");
            return;
        };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let mut client = TcpStream::connect(at).unwrap();
        let (mut server, from) = listener.accept().unwrap();
        server.write_all(&[7; 50_000]).unwrap();
        drop(server);
        client.read_to_end(&mut Vec::new()).unwrap();
        drop(client);
        let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
        let is_it = |s: &TcpSocket| s.local == at && s.remote == from;
        let seen = loop {
            if let Some(seen) = ended.take().0.into_iter().find(is_it) {
                break seen;
            }
            assert!(std::time::Instant::now() < until);
        };
        assert_eq!((seen.sent, seen.inode), (50_000, 0));
        assert!(seen.mss > 500 && seen.cookie != 0);
    }

    #[test]
    fn nonsense_is_an_error_or_nothing() {
        let mut rng = alcc_units::Rng::new(5);
        for _ in 0..20_000 {
            let mut bytes: Vec<u8> = (0..rng.below(200)).map(|_| rng.next_u64() as u8).collect();
            let length = bytes.len() as u32;
            if bytes.len() > 20 && rng.chance(0.8) {
                bytes[0..4].copy_from_slice(&length.to_ne_bytes());
                bytes[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
            }
            let _ = take(&bytes, &mut Vec::new());
        }
    }
}
