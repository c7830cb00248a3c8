// SPDX-License-Identifier: Apache-2.0 OR MIT
use crate::netlink::Netlink;
use crate::{EmuError, Namespace, Subnet, device};

/// Names of the two devices, each in its own namespace.
const DEVICES: [&str; 2] = ["veth-out", "veth-in"];

/// Joins two namespaces by a veth pair without a model: as fast as the machine. `outside` gets
/// [`Subnet::outside`], `inside` gets [`Subnet::inside`]. The pair exists as long as both
/// namespaces.
///
/// It is for measurements of a program's maximum. A link with a rate or a delay is an
/// [`crate::Emulator`].
///
/// # Errors
/// [`EmuError::Os`] if the kernel has no veth devices or the two namespaces are joined already.
pub fn veth(outside: &Namespace, inside: &Namespace, net: Subnet) -> Result<(), EmuError> {
    let join = || -> std::io::Result<()> {
        let near = outside
            .run(Netlink::here)
            .map_err(std::io::Error::other)??;
        let far = inside.run(Netlink::here).map_err(std::io::Error::other)??;
        near.add_veth(DEVICES[0], DEVICES[1], inside)?;
        let ends = [
            (outside, near, DEVICES[0], net.outside(), net.inside()),
            (inside, far, DEVICES[1], net.inside(), net.outside()),
        ];
        for (namespace, netlink, name, own, peer) in ends {
            namespace
                .run(|| device::silence_ipv6(name))
                .map_err(std::io::Error::other)?;
            let index = netlink.link(name)?.index;
            netlink.up(index, false, Vec::new())?;
            netlink.add_address(index, own.into(), peer.into())?;
        }
        Ok(())
    };
    join().map_err(EmuError::os("join two namespaces by a veth pair"))
}
