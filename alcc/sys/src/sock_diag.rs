// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TCP sockets of a network namespace, by the kernel's socket diagnosis (`sock_diag`). A dump costs
//! a few hundred nanoseconds per socket, and takes no reference on any. Layouts are those of
//! linux/inet_diag.h and linux/tcp.h.
use crate::error::errno;
use crate::resident::Options;
use crate::{Reading, TcpCounters, now, wait};
use alcc_units::{Span, Time};
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::mem::{size_of, zeroed};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// One TCP socket of the dump.
#[derive(Clone, Copy, Debug)]
pub struct TcpSocket {
    /// True if it listens; then of the addresses only `local` is set.
    pub listens: bool,
    /// State, by the kernel's numbers.
    state: u8,
    /// The local address.
    pub local: SocketAddr,
    /// The peer's address.
    pub remote: SocketAddr,
    /// The kernel's number of the socket (`SO_COOKIE`).
    pub cookie: u64,
    /// The inode that `/proc/PID/fd` shows; 0: no process has the socket any more.
    pub inode: u32,
    /// Bytes in the send queue: written and not acknowledged.
    pub queued: u32,
    /// Payload bytes sent, without retransmissions.
    pub sent: u64,
    /// Segment size.
    pub mss: u32,
    /// The kernel's congestion control.
    pub control: Name,
    /// Its earlier congestion control, from a map of the kernel. See [`Sockets::dump_noted`].
    pub before: Name,
    /// Options of an algorithm in the kernel, from another map.
    pub options: Options,
    /// All counters; `None` before Linux 4.19, and for a listening socket.
    pub reading: Option<Reading>,
    /// The counters for reports; `None` in the same cases.
    pub counters: Option<TcpCounters>,
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

    /// The name as text.
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
    /// The peer's address; `None`: it listens.
    pub fn peer(&self) -> Option<SocketAddr> {
        (!self.listens).then_some(self.remote)
    }

    fn remains(&self) -> Remains {
        match (self.state, self.reading) {
            (FIN_WAIT1 | CLOSING, Some(reading)) => Remains::Sends(Box::new(reading)),
            (LAST_ACK, Some(reading)) => Remains::SendsLast(Box::new(reading)),
            (FIN_WAIT2 | TIME_WAIT, _) => Remains::Acknowledged,
            _ => Remains::Unknown,
        }
    }
}

/// The state of a connection after its program has closed it.
#[derive(Clone, Debug)]
pub enum Remains {
    /// The kernel sends the remaining data.
    Sends(Box<Reading>),
    /// The same, but the peer has ended its side: the kernel removes the socket with the last acknowledgement.
    SendsLast(Box<Reading>),
    /// All data has been acknowledged.
    Acknowledged,
    /// The kernel does not know it: it was reset, or is in another network namespace. Or a program still has it open.
    Unknown,
}

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 1;
/// NLM_F_ROOT and NLM_F_MATCH.
const NLM_F_DUMP: u16 = 0x300;
const INET_DIAG_INFO: u16 = 2;
const INET_DIAG_CONG: u16 = 4;
/// Attribute type of map values of a socket, in the request and in the answer.
const INET_DIAG_REQ_SK_BPF_STORAGES: u16 = 2;
const SK_DIAG_BPF_STORAGE_REQ_MAP_FD: u16 = 1;
const INET_DIAG_SK_BPF_STORAGES: u16 = 20;
const SK_DIAG_BPF_STORAGE: u16 = 1;
const SK_DIAG_BPF_STORAGE_MAP_VALUE: u16 = 3;
const AF_INET: u8 = libc::AF_INET as u8;
const AF_INET6: u8 = libc::AF_INET6 as u8;
/// States of include/net/tcp_states.h.
const ESTABLISHED: u8 = 1;
const FIN_WAIT1: u8 = 4;
const FIN_WAIT2: u8 = 5;
const TIME_WAIT: u8 = 6;
const CLOSE_WAIT: u8 = 8;
const LAST_ACK: u8 = 9;
const LISTEN: u8 = 10;
const CLOSING: u8 = 11;
/// LISTEN, and the states in which a program may still write.
const OPEN: u32 = 1 << ESTABLISHED | 1 << CLOSE_WAIT | 1 << LISTEN;
/// The states in which the kernel sends for a program that has closed.
const CLOSED: u32 = 1 << FIN_WAIT1 | 1 << CLOSING | 1 << LAST_ACK;
/// Time in which other processors report ended connections, after this one has.
const OTHERS: Span = Span::from_millis(5);
/// SKNLGRP_INET_TCP_DESTROY and SKNLGRP_INET6_TCP_DESTROY.
const ENDS: [u32; 2] = [1, 3];

/// A netlink socket for socket diagnosis, in the network namespace in which it was opened.
struct Netlink {
    fd: OwnedFd,
    buffer: Vec<u8>,
}

impl Netlink {
    /// Opens it. With `groups` it receives these events, and no call waits.
    fn open(groups: &[u32], buffer: usize) -> io::Result<Self> {
        let waits = if groups.is_empty() {
            0
        } else {
            libc::SOCK_NONBLOCK
        };
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | waits;
        // SAFETY: no pointers.
        let fd = unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_SOCK_DIAG) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new descriptor from the kernel.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: integers only; the kernel chooses a port for 0.
        let mut address: libc::sockaddr_nl = unsafe { zeroed() };
        address.nl_family = libc::AF_NETLINK as libc::sa_family_t;
        let len = size_of::<libc::sockaddr_nl>() as libc::socklen_t;
        // SAFETY: pointer and length describe an address that outlives the call.
        if unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len) } != 0 {
            return Err(io::Error::last_os_error());
        }
        for group in groups {
            if !crate::set_option(
                fd.as_raw_fd(),
                libc::SOL_NETLINK,
                libc::NETLINK_ADD_MEMBERSHIP,
                group,
            ) {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(Self {
            fd,
            buffer: vec![0; buffer],
        })
    }

    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        // SAFETY: pointer and length describe `bytes`. An unconnected netlink socket sends to the kernel.
        let sent =
            unsafe { libc::send(self.fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), 0) };
        if sent < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        }
    }

    fn receive(&mut self) -> io::Result<&[u8]> {
        loop {
            let (to, len) = (self.buffer.as_mut_ptr().cast(), self.buffer.len());
            // SAFETY: pointer and length describe the buffer.
            let size = unsafe { libc::recv(self.fd.as_raw_fd(), to, len, 0) };
            match usize::try_from(size) {
                Ok(size) => return Ok(self.buffer.get(..size).unwrap_or_default()),
                Err(_) if errno() == libc::EINTR => {}
                Err(_) => return Err(io::Error::last_os_error()),
            }
        }
    }
}

/// The TCP sockets of the network namespace in which this was opened.
pub struct Sockets(Netlink);

impl Sockets {
    /// Opens the diagnosis in the network namespace of the calling thread.
    ///
    /// # Errors
    /// The kernel's error: it was built without INET_DIAG, or no descriptor is left.
    pub fn open() -> io::Result<Self> {
        Netlink::open(&[], 64 * 1024).map(Self)
    }

    /// All sockets that listen or may still be written to.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn dump(&mut self) -> io::Result<Vec<TcpSocket>> {
        self.dump_with(&[])
    }

    /// The same, with each socket's values of these maps of the kernel (socket storage with a name
    /// or with options). Root only.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn dump_noted(&mut self, maps: &[RawFd]) -> io::Result<Vec<TcpSocket>> {
        self.dump_with(maps)
    }

    fn dump_with(&mut self, maps: &[RawFd]) -> io::Result<Vec<TcpSocket>> {
        let mut found = Vec::new();
        for family in [AF_INET, AF_INET6] {
            let mut request = Request::all(family, OPEN);
            request.maps = maps.to_vec();
            self.ask(&request, |socket| found.push(socket))?;
        }
        Ok(found)
    }

    /// All IPv4 connections whose local port is `port`, and whose program may still write or has closed with unsent
    /// bytes.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn at_port(&mut self, port: u16) -> io::Result<Vec<TcpSocket>> {
        let states = 1 << ESTABLISHED | 1 << FIN_WAIT1 | 1 << CLOSE_WAIT;
        let mut request = Request::all(AF_INET, states);
        request.local.set_port(port);
        let mut found = Vec::new();
        self.ask(&request, |socket| {
            if socket.local.port() == port {
                found.push(socket);
            }
        })?;
        Ok(found)
    }

    /// All connections of a family that their programs have closed and for which the kernel still sends, by number
    /// (`SO_COOKIE`). It walks through the kernel's table once, for many connections.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn closed(&mut self, ipv4: bool) -> io::Result<HashMap<u64, Remains>> {
        let mut found = HashMap::new();
        let family = if ipv4 { AF_INET } else { AF_INET6 };
        self.ask(&Request::all(family, CLOSED), |socket| {
            found.insert(socket.cookie, socket.remains());
        })?;
        Ok(found)
    }

    /// The state of the closed connection between these addresses whose socket had this number (`SO_COOKIE`). It is a
    /// single look-up in a table.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn remains(
        &mut self,
        local: SocketAddr,
        remote: SocketAddr,
        cookie: u64,
    ) -> io::Result<Remains> {
        let request = Request {
            local,
            remote,
            cookie: Some(cookie),
            states: u32::MAX,
            maps: Vec::new(),
        };
        let mut found = Remains::Unknown;
        match self.ask(&request, |socket| found = socket.remains()) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Remains::Unknown),
            asked => asked.map(|()| found),
        }
    }

    fn ask(&mut self, request: &Request, mut each: impl FnMut(TcpSocket)) -> io::Result<()> {
        self.0.send(&request.bytes())?;
        // The answer about one socket is one message; a dump ends with a message of its own.
        while take(self.0.receive()?, &mut each)? && request.cookie.is_none() {}
        Ok(())
    }
}

/// The TCP connections of a network namespace at their end, including those too short for a dump.
pub struct Ended(Netlink);

impl Ended {
    /// Subscribes to them in the network namespace of the calling thread.
    ///
    /// # Errors
    /// The kernel's error: it was built without INET_DIAG, or no descriptor is left.
    pub fn open() -> io::Result<Self> {
        Netlink::open(&ENDS, 8 * 1024).map(Self)
    }

    /// The connections that have ended since the last call, with their last counters. No process has them. True if the
    /// kernel has dropped some because of their number.
    pub fn take(&mut self) -> (Vec<TcpSocket>, bool) {
        let (mut found, mut dropped) = (Vec::new(), false);
        loop {
            match self.0.receive() {
                Ok(datagram) => {
                    // Invalid messages are ignored.
                    let _ = take(datagram, &mut |socket| found.push(socket));
                }
                Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) && !dropped => dropped = true,
                Err(_) => return (found, dropped),
            }
        }
    }

    /// The same, including nearly all connections that ended just before this call. The kernel reports ends from a work queue, so
    /// this ends a socket of its own and waits until that one is reported, or until `until`.
    pub fn take_last(&mut self, until: Time) -> Vec<TcpSocket> {
        // SAFETY: no pointers.
        let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return self.take().0;
        }
        // SAFETY: a new descriptor from the kernel.
        let last = unsafe { OwnedFd::from_raw_fd(fd) };
        let cookie = crate::cookie(fd);
        drop(last);
        let mut found = Vec::new();
        loop {
            found.append(&mut self.take().0);
            let seen = found.iter().any(|socket| Some(socket.cookie) == cookie);
            if seen || now() >= until {
                // Another processor may report a little later.
                wait(
                    self.0.fd.as_raw_fd(),
                    libc::POLLIN,
                    None,
                    Some(until.min(now() + OTHERS)),
                );
                found.append(&mut self.take().0);
                return found;
            }
            wait(self.0.fd.as_raw_fd(), libc::POLLIN, None, Some(until));
        }
    }
}

/// A request for sockets.
struct Request {
    /// Selects the address family.
    local: SocketAddr,
    remote: SocketAddr,
    /// The number of a single socket; `None`: all.
    cookie: Option<u64>,
    /// A bit for each state.
    states: u32,
    /// Maps whose values are requested, too.
    maps: Vec<RawFd>,
}

impl Request {
    fn all(family: u8, states: u32) -> Self {
        let any: IpAddr = if family == AF_INET {
            Ipv4Addr::UNSPECIFIED.into()
        } else {
            Ipv6Addr::UNSPECIFIED.into()
        };
        Self {
            local: SocketAddr::new(any, 0),
            remote: SocketAddr::new(any, 0),
            cookie: None,
            states,
            maps: Vec::new(),
        }
    }

    /// Encodes the request: a netlink header, `struct inet_diag_req_v2`, and the maps as nested attributes.
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; 72];
        if !self.maps.is_empty() {
            let head = |len: u16, kind: u16| [len.to_ne_bytes(), kind.to_ne_bytes()].concat();
            let len = 4 + 8 * self.maps.len() as u16;
            bytes.extend(head(len, INET_DIAG_REQ_SK_BPF_STORAGES));
            for map in &self.maps {
                bytes.extend(head(8, SK_DIAG_BPF_STORAGE_REQ_MAP_FD));
                bytes.extend(map.to_ne_bytes());
            }
        }
        let len = bytes.len() as u32;
        let dump = if self.cookie.is_some() { 0 } else { NLM_F_DUMP };
        bytes[0..4].copy_from_slice(&len.to_ne_bytes());
        bytes[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
        bytes[6..8].copy_from_slice(&(NLM_F_REQUEST | dump).to_ne_bytes());
        let extensions = 1 << (INET_DIAG_INFO - 1) | 1 << (INET_DIAG_CONG - 1);
        let family = if self.local.is_ipv4() {
            AF_INET
        } else {
            AF_INET6
        };
        (bytes[16], bytes[17], bytes[18]) = (family, libc::IPPROTO_TCP as u8, extensions);
        bytes[20..24].copy_from_slice(&self.states.to_ne_bytes());
        for (port, at, end) in [(24, 28, self.local), (26, 44, self.remote)] {
            bytes[port..port + 2].copy_from_slice(&end.port().to_be_bytes());
            match end.ip() {
                IpAddr::V4(ip) => bytes[at..at + 4].copy_from_slice(&ip.octets()),
                IpAddr::V6(ip) => bytes[at..at + 16].copy_from_slice(&ip.octets()),
            }
        }
        bytes[64..72].copy_from_slice(&self.cookie.unwrap_or_default().to_ne_bytes());
        bytes
    }
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

/// Decodes the messages of one datagram. False: it was the last.
fn take(mut datagram: &[u8], each: &mut impl FnMut(TcpSocket)) -> io::Result<bool> {
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
            SOCK_DIAG_BY_FAMILY => socket(body).into_iter().for_each(&mut *each),
            _ => {}
        }
        datagram = datagram
            .get(length.next_multiple_of(4)..)
            .unwrap_or_default();
    }
    Ok(true)
}

/// Decodes `struct inet_diag_msg` and its attributes.
fn socket(body: &[u8]) -> Option<TcpSocket> {
    let (family, state) = (*body.first()?, *body.get(1)?);
    let end = |port: usize, at: usize| {
        let port = u16::from_be_bytes(body.get(port..port + 2)?.try_into().ok()?);
        let bytes: [u8; 16] = body.get(at..at + 16)?.try_into().ok()?;
        let ip = if family == AF_INET {
            IpAddr::V4(Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]))
        } else {
            IpAddr::V6(Ipv6Addr::from(bytes)).to_canonical()
        };
        Some(SocketAddr::new(ip, port))
    };
    let mut found = TcpSocket {
        listens: state == LISTEN,
        state,
        local: end(4, 8)?,
        remote: end(6, 24)?,
        cookie: u64_at(body, 44)?,
        inode: u32_at(body, 68)?,
        queued: u32_at(body, 60)?,
        sent: 0,
        mss: 0,
        control: Name::default(),
        before: Name::default(),
        options: Options::default(),
        reading: None,
        counters: None,
    };
    for (kind, value) in attributes(body.get(72..)?) {
        match kind {
            INET_DIAG_INFO => {
                let sent = u64_at(value, 200).unwrap_or_default();
                found.sent = sent.saturating_sub(u64_at(value, 208).unwrap_or_default());
                found.mss = u32_at(value, 16).unwrap_or_default();
                if !found.listens {
                    found.reading = Reading::of(value);
                    found.counters = TcpCounters::of(value);
                }
            }
            INET_DIAG_CONG => found.control = Name::of(value),
            INET_DIAG_SK_BPF_STORAGES => {
                let one = |wanted: u16| move |(kind, _): &(u16, &[u8])| *kind == wanted;
                for (_, storage) in attributes(value).filter(one(SK_DIAG_BPF_STORAGE)) {
                    let value = attributes(storage).find(one(SK_DIAG_BPF_STORAGE_MAP_VALUE));
                    match value.map(|(_, value)| (value, Options::of_value(value))) {
                        Some((_, Some(options))) => found.options = options,
                        Some((name, None)) => found.before = Name::of(name),
                        None => {}
                    }
                }
            }
            _ => {}
        }
    }
    Some(found)
}

/// Iterates over netlink attributes: type and value.
fn attributes(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    /// Mask of the type; the bits above are flags.
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
        let is_it = |s: &TcpSocket| s.local == at && s.remote == from;
        let began = now();
        let last = ended.take_last(began + Span::from_secs(10));
        // It does not wait for the limit.
        assert!(now().since(began) < Span::from_secs(5));
        let seen = last.into_iter().find(is_it).unwrap();
        assert_eq!((seen.sent, seen.inode), (50_000, 0));
        assert!(seen.mss > 500 && seen.cookie != 0);
    }

    /// A closed connection is seen by its number, in both ways, until its peer has all.
    #[test]
    fn a_closed_connection_is_seen_alone_and_among_all() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, remote) = listener.accept().unwrap();
        let local = server.local_addr().unwrap();
        let cookie = crate::cookie(server.as_raw_fd()).unwrap();
        server.set_nonblocking(true).unwrap();
        let (mut server, mut written) = (server, 0);
        while let Ok(n) = server.write(&[7; 65_536]) {
            written += n;
        }
        let Ok(mut diagnosis) = Sockets::open() else {
            eprintln!("skipped: needs the kernel's socket diagnosis (INET_DIAG)");
            return;
        };
        assert!(!diagnosis.closed(true).unwrap().contains_key(&cookie));
        drop(server);
        let all = diagnosis.closed(true).unwrap();
        let alone = diagnosis.remains(local, remote, cookie).unwrap();
        for seen in [all.get(&cookie), Some(&alone)] {
            let Some(Remains::Sends(reading)) = seen else {
                panic!("{seen:?}");
            };
            assert!(reading.progress.in_buffer().get() > 0, "{reading:?}");
        }
        io::copy(
            &mut Read::by_ref(&mut client).take(written as u64),
            &mut io::sink(),
        )
        .unwrap();
        while diagnosis.closed(true).unwrap().contains_key(&cookie) {
            std::thread::sleep(std::time::Duration::from_millis(1));
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
            let _ = take(&bytes, &mut |_| ());
        }
    }
}
