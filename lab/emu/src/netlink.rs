// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The requests to the kernel's routing socket that an emulated link needs.
use crate::Namespace;
use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressMessage, AddressScope};
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use std::io;
use std::net::IpAddr;

/// A routing socket. It stays with the namespace it was opened in, whichever thread uses it.
pub(crate) struct Netlink {
    socket: Socket,
}

/// The kernel's state of a device.
#[derive(Clone, Default, Debug)]
pub(crate) struct Interface {
    pub(crate) index: u32,
    pub(crate) mac: Vec<u8>,
    /// Packets that the kernel could not pass to the device's reader.
    pub(crate) tx_dropped: u64,
}

impl Netlink {
    /// Opens a routing socket in the calling thread's namespace.
    pub(crate) fn here() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Self { socket })
    }

    fn request(
        &self,
        message: RouteNetlinkMessage,
        flags: u16,
    ) -> io::Result<Option<RouteNetlinkMessage>> {
        let mut message = NetlinkMessage::from(message);
        message.header.flags = NLM_F_REQUEST | flags;
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.socket.send(&bytes, 0)?;
        let (answer, _) = self.socket.recv_from_full()?;
        let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&answer)
            .map_err(|e| io::Error::other(format!("unreadable answer of the kernel: {e}")))?;
        match answer.payload {
            NetlinkPayload::Error(e) if e.code.is_some() => Err(e.to_io()),
            NetlinkPayload::InnerMessage(inner) => Ok(Some(inner)),
            _ => Ok(None),
        }
    }

    pub(crate) fn link(&self, name: &str) -> io::Result<Interface> {
        let mut message = LinkMessage::default();
        message
            .attributes
            .push(LinkAttribute::IfName(name.to_owned()));
        let Some(RouteNetlinkMessage::NewLink(found)) =
            self.request(RouteNetlinkMessage::GetLink(message), 0)?
        else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let mut link = Interface {
            index: found.header.index,
            ..Interface::default()
        };
        for attribute in found.attributes {
            match attribute {
                LinkAttribute::Address(mac) => link.mac = mac,
                LinkAttribute::Stats64(stats) => link.tx_dropped = stats.tx_dropped,
                _ => {}
            }
        }
        Ok(link)
    }

    /// Sets attributes and switches the device on; `noarp` is for devices without answers to ARP.
    /// Without multicast the kernel reports no groups, such as that of all routers.
    pub(crate) fn up(
        &self,
        index: u32,
        noarp: bool,
        attributes: Vec<LinkAttribute>,
    ) -> io::Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        message.header.flags = LinkFlags::Up;
        if noarp {
            message.header.flags |= LinkFlags::Noarp;
        }
        message.header.change_mask = message.header.flags | LinkFlags::Multicast;
        message.attributes = attributes;
        self.request(RouteNetlinkMessage::SetLink(message), NLM_F_ACK)
            .map(|_| ())
    }

    /// A pair of veth devices: `name` here, `peer` in the other namespace.
    pub(crate) fn add_veth(&self, name: &str, peer: &str, peer_in: &Namespace) -> io::Result<()> {
        let mut far = LinkMessage::default();
        far.attributes = vec![
            LinkAttribute::IfName(peer.to_owned()),
            LinkAttribute::NetNsFd(peer_in.raw_fd()),
        ];
        let mut near = LinkMessage::default();
        near.attributes = vec![
            LinkAttribute::IfName(name.to_owned()),
            LinkAttribute::LinkInfo(vec![
                LinkInfo::Kind(InfoKind::Veth),
                LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(far))),
            ]),
        ];
        self.request(
            RouteNetlinkMessage::NewLink(near),
            NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL,
        )
        .map(|_| ())
    }

    pub(crate) fn delete_link(&self, index: u32) -> io::Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        self.request(RouteNetlinkMessage::DelLink(message), NLM_F_ACK)
            .map(|_| ())
    }

    /// A point-to-point address pair.
    pub(crate) fn add_address(&self, index: u32, own: IpAddr, peer: IpAddr) -> io::Result<()> {
        let mut message = AddressMessage::default();
        (message.header.family, message.header.prefix_len) = match own {
            IpAddr::V4(_) => (AddressFamily::Inet, 32),
            IpAddr::V6(_) => (AddressFamily::Inet6, 128),
        };
        message.header.scope = AddressScope::Universe;
        message.header.index = index;
        message.attributes = vec![
            AddressAttribute::Local(own),
            AddressAttribute::Address(peer),
        ];
        self.request(
            RouteNetlinkMessage::NewAddress(message),
            NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL,
        )
        .map(|_| ())
    }

    /// A route through a device; an error of kind `AlreadyExists` if there is one for the same
    /// destinations.
    pub(crate) fn add_route(&self, to: IpAddr, prefix: u8, index: u32) -> io::Result<()> {
        let (family, destination) = match to {
            IpAddr::V4(to) => (AddressFamily::Inet, RouteAddress::Inet(to)),
            IpAddr::V6(to) => (AddressFamily::Inet6, RouteAddress::Inet6(to)),
        };
        let mut message = RouteMessage::default();
        message.header = RouteHeader {
            address_family: family,
            destination_prefix_length: prefix,
            table: RouteHeader::RT_TABLE_MAIN,
            protocol: RouteProtocol::Boot,
            scope: RouteScope::Link,
            kind: RouteType::Unicast,
            ..RouteHeader::default()
        };
        message.attributes.push(RouteAttribute::Oif(index));
        if prefix > 0 {
            message
                .attributes
                .push(RouteAttribute::Destination(destination));
        }
        self.request(
            RouteNetlinkMessage::NewRoute(message),
            NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL,
        )
        .map(|_| ())
    }
}

/// Switches the loopback device of the calling thread's namespace on.
pub(crate) fn loopback_up() -> io::Result<()> {
    let netlink = Netlink::here()?;
    let index = netlink.link("lo")?.index;
    netlink.up(index, false, Vec::new())
}
