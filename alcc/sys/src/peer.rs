// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The two ends of a connection.
use crate::socket::get_option;
use crate::tcp_info::read;
use libc::{c_int, socklen_t};
use std::cmp::Ordering;
use std::mem::{size_of, zeroed};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::RawFd;

/// The two ends of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peer {
    /// The peer's address.
    pub remote: SocketAddr,
    /// Our port.
    pub local_port: u16,
    /// True if we opened the connection, false if we accepted it.
    pub outbound: bool,
}

/// The kind of a descriptor.
pub enum Socket {
    /// Not a TCP socket, and never will be.
    Other,
    /// A TCP socket without a peer: it listens, or is not yet connected.
    Unconnected,
    /// A connected TCP socket.
    Connected(Peer),
}

/// The client that an address counts for in limits: an IPv6 host has a whole /64.
pub fn client_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(a) => Ipv6Addr::from_bits(a.to_bits() & !u128::from(u64::MAX)).into(),
        v4 => v4,
    }
}

/// Classifies a descriptor. `outbound`: true or false if it is known who opened the connection.
pub fn classify(fd: RawFd, outbound: Option<bool>) -> Socket {
    let mut protocol: c_int = 0;
    let tcp = get_option(fd, libc::SOL_SOCKET, libc::SO_PROTOCOL, &mut protocol).is_some()
        && protocol == libc::IPPROTO_TCP;
    if !tcp {
        return Socket::Other;
    }
    peer_of(fd, outbound).map_or(Socket::Unconnected, Socket::Connected)
}

/// The local address of a connection.
pub fn local_of(fd: RawFd) -> Option<SocketAddr> {
    address(|addr, len| {
        // SAFETY: `address` passes a buffer and its length.
        unsafe { libc::getsockname(fd, addr, len) }
    })
}

fn peer_of(fd: RawFd, outbound: Option<bool>) -> Option<Peer> {
    let remote = address(|addr, len| {
        // SAFETY: `address` passes a buffer and its length.
        unsafe { libc::getpeername(fd, addr, len) }
    })?;
    let local = local_of(fd)?;
    Some(Peer {
        remote,
        local_port: local.port(),
        outbound: outbound.unwrap_or_else(|| is_initiator(fd, local.port(), remote.port())),
    })
}

/// First port that Linux assigns to connecting sockets (net.ipv4.ip_local_port_range).
const EPHEMERAL: u16 = 32_768;

/// True if our side opened a connection that was handed to us. The side that connects counts its
/// SYN among the acknowledged bytes. While data is in flight that cannot be seen, and the ports are
/// compared instead.
fn is_initiator(fd: RawFd, local: u16, remote: u16) -> bool {
    let Some(reading) = read(fd) else {
        return false;
    };
    match reading.acked.cmp(&reading.sent) {
        Ordering::Greater => true,
        Ordering::Equal => false,
        Ordering::Less => local >= EPHEMERAL && remote < EPHEMERAL,
    }
}

fn address(get: impl FnOnce(*mut libc::sockaddr, *mut socklen_t) -> c_int) -> Option<SocketAddr> {
    // SAFETY: zero is a valid sockaddr_storage.
    let mut storage: libc::sockaddr_storage = unsafe { zeroed() };
    let mut len = size_of::<libc::sockaddr_storage>() as socklen_t;
    let at = &raw mut storage;
    if get(at.cast(), &raw mut len) != 0 {
        return None;
    }
    match c_int::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: for this family a sockaddr_in was stored, and the storage is large and
            // aligned enough.
            let a = unsafe { &*at.cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from_bits(u32::from_be(a.sin_addr.s_addr));
            Some(SocketAddr::new(IpAddr::V4(ip), u16::from_be(a.sin_port)))
        }
        libc::AF_INET6 => {
            // SAFETY: as above, for sockaddr_in6.
            let a = unsafe { &*at.cast::<libc::sockaddr_in6>() };
            Some(SocketAddr::new(
                IpAddr::V6(Ipv6Addr::from(a.sin6_addr.s6_addr)),
                u16::from_be(a.sin6_port),
            ))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::client_of;

    #[test]
    fn a_host_is_one_client_whatever_address_of_its_network_it_uses() {
        let of = |text: &str| client_of(text.parse().unwrap()).to_string();
        assert_eq!(of("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(of("::ffff:192.0.2.1"), "192.0.2.1");
        assert_eq!(of("192.0.2.1"), "192.0.2.1");
    }
}
