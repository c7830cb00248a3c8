// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A network device in one namespace whose packets this process reads and writes.
use crate::netlink::Netlink;
use crate::store::MTU;
use crate::{EmuError, Namespace, Subnet};
use netlink_packet_route::link::LinkAttribute;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

/// How many packets the kernel may keep for us while the relay does not run: 10,000 full packets are 120 ms at 1 Gbit/s.
const READER_QUEUE: u32 = 10_000;

pub(crate) struct Device {
    tun: File,
    netlink: Netlink,
    name: String,
    index: u32,
}

impl Device {
    /// A device in each namespace.
    pub(crate) fn pair(outside: &Namespace, inside: &Namespace) -> Result<(Self, Self), EmuError> {
        let tun = |ns| Self::tun(ns).map_err(EmuError::os("make a TUN device"));
        Ok((tun(outside)?, tun(inside)?))
    }

    /// A TUN device in `namespace`; it disappears with this value.
    pub(crate) fn tun(namespace: &Namespace) -> io::Result<Self> {
        let made = namespace.run(|| -> io::Result<_> {
            let (tun, name) = open_tun()?;
            silence_ipv6(&name);
            Ok((tun, name, Netlink::here()?))
        });
        let (tun, name, netlink) = made.map_err(io::Error::other)??;
        let index = netlink.link(&name)?.index;
        netlink.up(
            index,
            false,
            vec![
                LinkAttribute::Mtu(MTU as u32),
                LinkAttribute::TxQueueLen(READER_QUEUE),
            ],
        )?;
        Ok(Self {
            tun,
            netlink,
            name,
            index,
        })
    }

    fn os<'a>(&'a self, what: &'a str) -> impl FnOnce(io::Error) -> EmuError + 'a {
        move |e| EmuError::os(format!("{what} of {}", self.name))(e)
    }

    /// Addresses and routes of the outer end. The route to the whole range reserves it: the kernel admits it once.
    pub(crate) fn configure_outside(&self, net: Subnet) -> Result<(), EmuError> {
        let (to, prefix) = net.downlink();
        match self.netlink.add_route(to, prefix, self.index) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                return Err(EmuError::SubnetTaken {
                    range: net.to_string(),
                });
            }
            other => other.map_err(self.os("set a route"))?,
        }
        self.netlink
            .add_address(self.index, net.outside(), net.inside())
            .map_err(self.os("set the address"))
    }

    /// Addresses and routes of the inner end: upper levels and everything unknown are reached through this device.
    pub(crate) fn configure_inside(&self, net: Subnet) -> Result<(), EmuError> {
        self.netlink
            .add_address(self.index, net.inside(), net.outside())
            .map_err(self.os("set the address"))?;
        for (upper, prefix) in net.uplinks() {
            self.netlink
                .add_route(upper, prefix, self.index)
                .map_err(self.os("set a route"))?;
        }
        match self.netlink.add_route(Ipv4Addr::UNSPECIFIED, 0, self.index) {
            // The second link into one namespace: the first stays the way to the unknown.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            other => other.map_err(self.os("set the default route")),
        }
    }

    /// Reads one packet; `WouldBlock` when there is none.
    pub(crate) fn recv(&self, into: &mut [u8]) -> io::Result<usize> {
        (&self.tun).read(into)
    }

    pub(crate) fn send(&self, packet: &[u8]) -> io::Result<()> {
        (&self.tun).write(packet).map(|_| ())
    }

    /// What kind of device it is.
    pub(crate) const fn kind(&self) -> &'static str {
        "tun"
    }

    /// Packets that the kernel dropped because the relay did not read them in time.
    pub(crate) fn kernel_drops(&self) -> io::Result<u64> {
        self.netlink.link(&self.name).map(|l| l.tx_dropped)
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.tun.as_fd()
    }
}

fn open_tun() -> io::Result<(File, String)> {
    let tun = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open("/dev/net/tun")?;
    // SAFETY: ifreq is plain data; all zeroes is a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The kernel puts a number in the place of %d.
    for (to, from) in request.ifr_name.iter_mut().zip(b"alcc%d") {
        *to = *from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: TUNSETIFF reads and writes one ifreq.
    if unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let name: Vec<u8> = request
        .ifr_name
        .iter()
        .take_while(|c| **c != 0)
        .map(|c| *c as u8)
        .collect();
    Ok((tun, String::from_utf8_lossy(&name).into_owned()))
}

/// Keeps the kernel's own IPv6 chatter (router solicitations, multicast reports) off the link, where it would take delivery
/// opportunities. Without IPv6 in the kernel there is no such file.
fn silence_ipv6(name: &str) {
    let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1");
}
