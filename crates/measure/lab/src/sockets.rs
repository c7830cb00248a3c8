// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The TCP sockets of a network namespace that listen or may be written to, by the kernel's socket
//! diagnosis: a few hundred nanoseconds each, so that a look at ten thousand of them is some
//! milliseconds. Layouts are those of linux/inet_diag.h and linux/tcp.h.
use netlink_sys::protocols::NETLINK_SOCK_DIAG;
use netlink_sys::{Socket, SocketAddr as NetlinkAddr};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// One TCP socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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
        let mut found = Vec::new();
        for family in [libc_family::INET, libc_family::INET6] {
            self.socket.send(&request(family), 0)?;
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

mod libc_family {
    pub(super) const INET: u8 = 2;
    pub(super) const INET6: u8 = 10;
}

fn request(family: u8) -> [u8; 72] {
    let mut bytes = [0; 72];
    bytes[0..4].copy_from_slice(&72u32.to_ne_bytes());
    bytes[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes[6..8].copy_from_slice(&FLAGS.to_ne_bytes());
    // struct inet_diag_req_v2: family, protocol TCP, extensions, states; every address, every
    // cookie.
    (bytes[16], bytes[17], bytes[18]) = (family, 6, 1 << (INET_DIAG_INFO - 1));
    bytes[20..24].copy_from_slice(&STATES.to_ne_bytes());
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
    };
    let mut attributes = body.get(72..)?;
    while let (Some(length), Some(kind)) = (u16_at(attributes, 0), u16_at(attributes, 2)) {
        let length = usize::from(length);
        if kind == INET_DIAG_INFO
            && let Some(info) = attributes.get(4..length)
        {
            let sent = u64_at(info, 200).unwrap_or_default();
            found.sent = sent.saturating_sub(u64_at(info, 208).unwrap_or_default());
            found.mss = u32_at(info, 16).unwrap_or_default();
        }
        attributes = attributes
            .get(length.max(4).next_multiple_of(4)..)
            .unwrap_or_default();
    }
    Some(found)
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
            let link = format!("/proc/self/fd/{}", server.as_raw_fd());
            assert_eq!(
                std::fs::read_link(link).unwrap().to_str().unwrap(),
                format!("socket:[{}]", ours.inode)
            );
        }
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
