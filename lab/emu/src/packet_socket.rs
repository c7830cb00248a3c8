// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The device without /dev/net/tun: a veth pair. Its far end is in a namespace with only a packet
//! socket.
use crate::Namespace;
use crate::netlink::Netlink;
use crate::store::MTU;
use alcc_sys::{get_option, set_option};
use netlink_packet_route::link::LinkAttribute;
use std::cell::Cell;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Memory for about 10,000 full packets, including the kernel's overhead.
const RECEIVE_BUFFER: libc::c_int = 32 << 20;

pub(crate) struct PacketSocket {
    fd: OwnedFd,
    /// The address of the other end of the pair, to which the program's packets are sent.
    to: libc::sockaddr_ll,
    /// Number of packets longer than the MTU: segmentation that could not be switched off.
    oversize: Cell<u64>,
    far: Netlink,
    far_name: String,
}

impl PacketSocket {
    /// Connects a device `name` in `near` to a socket in `hidden`. `far_name` is the name of the
    /// pair's other end there. The device is up, without addresses. Also returns its routing socket
    /// and index.
    pub(crate) fn pair(
        near: &Namespace,
        name: &str,
        hidden: &Namespace,
        far_name: &str,
    ) -> io::Result<(Self, Netlink, u32)> {
        let near_link = near.run(Netlink::here).map_err(io::Error::other)??;
        near_link.add_veth(name, far_name, hidden)?;
        near.run(|| {
            crate::device::silence_ipv6(name);
            switch_offloads_off(name)
        })
        .map_err(io::Error::other)??;
        let device = near_link.link(name)?;
        // There is no answer to ARP at the far end. The kernel then uses the device's own address
        // as destination, and the packet socket receives that frame like any other.
        near_link.up(
            device.index,
            true,
            vec![LinkAttribute::Mtu(MTU as u32), LinkAttribute::GsoMaxSegs(1)],
        )?;
        let made = hidden.run(|| -> io::Result<_> {
            crate::device::silence_ipv6(far_name);
            let far = Netlink::here()?;
            let link = far.link(far_name)?;
            far.up(link.index, true, vec![LinkAttribute::Mtu(MTU as u32)])?;
            Ok((open(link.index)?, far, link.index))
        });
        let (fd, far, far_index) = made.map_err(io::Error::other)??;
        let mut to = address(far_index);
        to.sll_halen = 6;
        for (byte, from) in to.sll_addr.iter_mut().zip(&device.mac) {
            *byte = *from;
        }
        let socket = Self {
            fd,
            to,
            oversize: Cell::new(0),
            far,
            far_name: far_name.to_owned(),
        };
        Ok((socket, near_link, device.index))
    }

    pub(crate) fn recv(&self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            // SAFETY: the pointer and length are those of `into`.
            let len = unsafe {
                libc::recv(
                    self.fd.as_raw_fd(),
                    into.as_mut_ptr().cast(),
                    into.len(),
                    libc::MSG_TRUNC,
                )
            };
            match usize::try_from(len) {
                Err(_) => return Err(io::Error::last_os_error()),
                Ok(len) if len > into.len() => self.oversize.set(self.oversize.get() + 1),
                Ok(len) => return Ok(len),
            }
        }
    }

    pub(crate) fn send(&self, packet: &[u8]) -> io::Result<()> {
        // SAFETY: pointers and lengths are those of the packet and of the address.
        let sent = unsafe {
            libc::sendto(
                self.fd.as_raw_fd(),
                packet.as_ptr().cast(),
                packet.len(),
                0,
                (&raw const self.to).cast(),
                size_of::<libc::sockaddr_ll>() as libc::socklen_t,
            )
        };
        if sent < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// Packets that found the receive buffer full or were too long. Reading the number resets it in
    /// the kernel.
    pub(crate) fn dropped(&self) -> u64 {
        let mut stats = [0u32; 2];
        // Two numbers: packets and drops.
        let fd = self.fd.as_raw_fd();
        let ok = get_option(fd, libc::SOL_PACKET, libc::PACKET_STATISTICS, &mut stats).is_some();
        self.oversize.get() + if ok { u64::from(stats[1]) } else { 0 }
    }

    /// Packets that the other end did not take after the relay had written them.
    pub(crate) fn undelivered(&self) -> u64 {
        self.far.link(&self.far_name).map_or(0, |l| l.tx_dropped)
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn address(index: u32) -> libc::sockaddr_ll {
    // SAFETY: plain data; all zeroes is a valid value.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_IP as u16).to_be();
    address.sll_ifindex = index.cast_signed();
    address
}

/// A socket for the IPv4 packets of one device. A socket bound to a protocol does not receive its
/// own packets.
fn open(index: u32) -> io::Result<OwnedFd> {
    let kind = libc::SOCK_DGRAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: no pointers. With protocol 0 nothing arrives before bind() sets the device.
    let fd = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor without another owner.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let size = RECEIVE_BUFFER;
    let set = |option| set_option(fd.as_raw_fd(), libc::SOL_SOCKET, option, &size);
    // Beyond the system's limit if permitted; drops are counted in any case.
    if !set(libc::SO_RCVBUFFORCE) {
        set(libc::SO_RCVBUF);
    }
    let address = address(index);
    // SAFETY: the address outlives the call.
    let bound = unsafe {
        libc::bind(
            fd.as_raw_fd(),
            (&raw const address).cast(),
            size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    };
    if bound != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(fd)
}

#[repr(C)]
struct EthtoolValue {
    command: u32,
    value: u32,
}

/// ETHTOOL_STXCSUM, _SSG, _STSO, _SGSO, _SGRO of linux/ethtool.h. With these offloads a packet on
/// the pair may have no checksum yet, or be 64 kB long.
const OFFLOADS: [u32; 5] = [0x17, 0x19, 0x1f, 0x24, 0x2c];

/// Switches them off for a device of the calling thread's namespace.
fn switch_offloads_off(name: &str) -> io::Result<()> {
    let socket = std::net::UdpSocket::bind((std::net::Ipv4Addr::UNSPECIFIED, 0))?;
    for command in OFFLOADS {
        let mut value = EthtoolValue { command, value: 0 };
        // SAFETY: plain data; all zeroes is a valid value.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_data = (&raw mut value).cast();
        // SAFETY: SIOCETHTOOL reads the ifreq and the value that it points to; both live.
        if unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) } != 0
        {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}
