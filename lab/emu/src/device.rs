// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A network device in one namespace whose packets this process reads and writes.
use crate::netlink::Netlink;
use crate::offload::HEADER;
use crate::packet_socket::PacketSocket;
use crate::store::MTU;
use crate::{EmuError, Namespace, Subnet};
use netlink_packet_route::link::LinkAttribute;
use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice, Read, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

/// Maximum number of packets that the kernel queues while the relay does not run. 10,000 full packets are 120 ms at 1
/// Gbit/s.
const READER_QUEUE: u32 = 10_000;

enum Wire {
    Tun(File),
    Veth(PacketSocket),
}

pub(crate) struct Device {
    wire: Wire,
    netlink: Netlink,
    name: String,
    index: u32,
    /// True if it may carry IPv6.
    has_ipv6: bool,
}

impl Device {
    /// A device in each namespace: TUN, or veth if TUN devices cannot be made. `ALCC_EMULATE_DEVICE=tun|veth` overrides
    /// this.
    pub(crate) fn pair(outside: &Namespace, inside: &Namespace) -> Result<(Self, Self), EmuError> {
        let asked = std::env::var("ALCC_EMULATE_DEVICE").ok();
        let asked = asked.as_deref();
        let tun = match asked {
            Some("veth") => Err(io::Error::other("not requested")),
            _ => Self::tun(outside).and_then(|a| Ok((a, Self::tun(inside)?))),
        };
        let tun = match tun {
            Ok(pair) => return Ok(pair),
            Err(e) => e,
        };
        let veth = match asked {
            Some("tun") => Err(io::Error::other("not requested")),
            _ => Self::veth_pair(outside, inside),
        };
        veth.map_err(|veth| {
            let fix = match OpenOptions::new()
                .read(true)
                .write(true)
                .open("/dev/net/tun")
            {
                Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                    "run it as root, or let everyone make TUN devices: chmod 0666 /dev/net/tun"
                }
                Err(_) => "load the kernel module tun: modprobe tun",
                Ok(_) => "run it as root",
            };
            EmuError::NoDevice {
                tun: format!("TUN: {tun}"),
                packet: format!("veth: {veth}"),
                fix: fix.to_owned(),
            }
        })
    }

    fn veth_pair(outside: &Namespace, inside: &Namespace) -> io::Result<(Self, Self)> {
        let hidden = Namespace::new().map_err(io::Error::other)?;
        Ok((
            Self::veth(outside, &hidden, "outer")?,
            Self::veth(inside, &hidden, "inner")?,
        ))
    }

    fn veth(namespace: &Namespace, hidden: &Namespace, far_name: &str) -> io::Result<Self> {
        let mut number = 0;
        loop {
            let name = format!("alcc{number}");
            match PacketSocket::pair(namespace, &name, hidden, far_name) {
                Ok((socket, netlink, index)) => {
                    return Ok(Self {
                        wire: Wire::Veth(socket),
                        netlink,
                        name,
                        index,
                        has_ipv6: false,
                    });
                }
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists && number < 1000 => number += 1,
                Err(e) => return Err(e),
            }
        }
    }

    /// A TUN device in `namespace`; it disappears with this value.
    fn tun(namespace: &Namespace) -> io::Result<Self> {
        let made = namespace.run(|| -> io::Result<_> {
            let (tun, name) = open_tun()?;
            let has_ipv6 = quieten_ipv6(&name);
            Ok((tun, name, Netlink::here()?, has_ipv6))
        });
        let (tun, name, netlink, has_ipv6) = made.map_err(io::Error::other)??;
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
            wire: Wire::Tun(tun),
            netlink,
            name,
            index,
            has_ipv6,
        })
    }

    fn os<'a>(&'a self, what: &'a str) -> impl FnOnce(io::Error) -> EmuError + 'a {
        move |e| EmuError::os(format!("{what} of {}", self.name))(e)
    }

    /// Addresses and routes of the outer end. The route to the whole range reserves it: the kernel
    /// admits it once.
    pub(crate) fn configure_outside(&self, net: Subnet) -> Result<(), EmuError> {
        let (to, prefix) = net.downlink();
        match self.netlink.add_route(to.into(), prefix, self.index) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                return Err(EmuError::SubnetTaken {
                    range: net.to_string(),
                });
            }
            other => other.map_err(self.os("set a route"))?,
        }
        self.netlink
            .add_address(self.index, net.outside().into(), net.inside().into())
            .map_err(self.os("set the address"))?;
        self.configure_ipv6(
            net.outside6().into(),
            net.inside6().into(),
            [net.downlink6()],
        )
    }

    /// The same in IPv6, if the device carries it.
    fn configure_ipv6(
        &self,
        own: IpAddr,
        peer: IpAddr,
        routes: impl IntoIterator<Item = (IpAddr, u8)>,
    ) -> Result<(), EmuError> {
        if !self.has_ipv6 {
            return Ok(());
        }
        self.netlink
            .add_address(self.index, own, peer)
            .map_err(self.os("set the IPv6 address"))?;
        for (to, prefix) in routes {
            self.netlink
                .add_route(to, prefix, self.index)
                .map_err(self.os("set an IPv6 route"))?;
        }
        Ok(())
    }

    /// Addresses and routes of the inner end: upper levels and all other destinations are reached through this device.
    pub(crate) fn configure_inside(&self, net: Subnet) -> Result<(), EmuError> {
        self.netlink
            .add_address(self.index, net.inside().into(), net.outside().into())
            .map_err(self.os("set the address"))?;
        // There is no default route, because no host beyond the links answers in IPv6.
        self.configure_ipv6(net.inside6().into(), net.outside6().into(), net.uplinks6())?;
        for (upper, prefix) in net.uplinks() {
            self.netlink
                .add_route(upper.into(), prefix, self.index)
                .map_err(self.os("set a route"))?;
        }
        let anywhere = Ipv4Addr::UNSPECIFIED.into();
        match self.netlink.add_route(anywhere, 0, self.index) {
            // This is the second link into one namespace: the default route stays with the first.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            other => other.map_err(self.os("set the default route")),
        }
    }

    /// Reads one frame, a header with one or more packets; `WouldBlock` if there is none.
    pub(crate) fn recv(&self, into: &mut [u8]) -> io::Result<usize> {
        match &self.wire {
            Wire::Tun(tun) => (&*tun).read(into),
            Wire::Veth(socket) => {
                let Some((header, packet)) = into.split_at_mut_checked(HEADER) else {
                    return Ok(0);
                };
                header.fill(0);
                let len = packet.len().min(MTU);
                Ok(HEADER + socket.recv(&mut packet[..len])?)
            }
        }
    }

    /// Writes one frame, whose first part begins with the header.
    pub(crate) fn send(&self, frame: &[IoSlice<'_>]) -> io::Result<()> {
        match &self.wire {
            Wire::Tun(tun) => (&*tun).write_vectored(frame).map(|_| ()),
            // Frames of this device are single packets.
            Wire::Veth(socket) => {
                let packet = frame.first().and_then(|part| part.get(HEADER..));
                socket.send(packet.unwrap_or_default())
            }
        }
    }

    /// The kind of the device: `tun` or `veth`.
    pub(crate) const fn kind(&self) -> &'static str {
        match self.wire {
            Wire::Tun(_) => "tun",
            Wire::Veth(_) => "veth",
        }
    }

    /// Packets that the kernel dropped because the relay did not read them in time.
    pub(crate) fn unread(&self) -> u64 {
        let device = self.netlink.link(&self.name).map_or(0, |l| l.tx_dropped);
        match &self.wire {
            Wire::Tun(_) => device,
            Wire::Veth(socket) => device + socket.dropped(),
        }
    }

    /// Packets that the kernel dropped after the relay had written them.
    pub(crate) fn undelivered(&self) -> u64 {
        match &self.wire {
            Wire::Tun(_) => 0,
            Wire::Veth(socket) => socket.undelivered(),
        }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // A TUN device disappears with its descriptor. The pair would disappear with the hidden namespace, but some
        // time later.
        if matches!(self.wire, Wire::Veth(_)) {
            let _ = self.netlink.delete_link(self.index);
        }
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.wire {
            Wire::Tun(tun) => tun.as_fd(),
            Wire::Veth(socket) => socket.as_fd(),
        }
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
    // The kernel replaces %d by a number.
    for (to, from) in request.ifr_name.iter_mut().zip(b"alcc%d") {
        *to = *from as libc::c_char;
    }
    let flags = libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
    request.ifr_ifru.ifru_flags = flags as libc::c_short;
    // SAFETY: TUNSETIFF reads and writes one ifreq.
    if unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // With this, one call transfers many packets of a connection. Without it, each needs its own call.
    let offload = libc::c_ulong::from(libc::TUN_F_CSUM | libc::TUN_F_TSO4);
    // SAFETY: TUNSETOFFLOAD takes a number.
    unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETOFFLOAD as _, offload) };
    let name: Vec<u8> = request
        .ifr_name
        .iter()
        .take_while(|c| **c != 0)
        .map(|c| *c as u8)
        .collect();
    Ok((tun, String::from_utf8_lossy(&name).into_owned()))
}

/// Prevents the kernel's own IPv6 packets on a TUN device, where they would use delivery opportunities: without a
/// link-local address it solicits no routers, and a device without ARP reports no groups. False if the kernel has no
/// IPv6 or the namespace has it switched off.
fn quieten_ipv6(name: &str) -> bool {
    let conf = format!("/proc/sys/net/ipv6/conf/{name}");
    let is_on = fs::read_to_string(format!("{conf}/disable_ipv6")).is_ok_and(|s| s.trim() == "0");
    let quiet = fs::write(format!("{conf}/addr_gen_mode"), "1").is_ok();
    if !quiet {
        silence_ipv6(name);
    }
    is_on && quiet
}

/// Switches IPv6 off on a device on which the kernel would send its own packets.
pub(crate) fn silence_ipv6(name: &str) {
    let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1");
}
