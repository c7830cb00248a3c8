// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel's congestion control per destination: what `ip route replace ADDRESS dev DEVICE
//! congctl NAME` does.
//!
//! A route reaches the sockets of an unmodified server. Unlike the sysctl of a namespace, it takes
//! every algorithm that the kernel has.
use netlink_packet_core::{NLM_F_ACK, NLM_F_CREATE, NLM_F_REPLACE, NLM_F_REQUEST};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};
use std::io;
use std::net::Ipv4Addr;

// linux/rtnetlink.h
const RTM_NEWROUTE: u16 = 24;
const NLMSG_ERROR: u16 = 2;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_PREFSRC: u16 = 7;
const RTA_METRICS: u16 = 8;
const RTAX_CC_ALGO: u16 = 16;
const RT_TABLE_MAIN: u8 = 254;
const RTPROT_KERNEL: u8 = 2;
const RT_SCOPE_LINK: u8 = 253;
const RTN_UNICAST: u8 = 1;
const AF_INET: u8 = 2;

/// Connections of the calling thread's namespace with `peer` use the kernel's algorithm `name` from
/// now on.
///
/// # Errors
/// The kernel's error: no such algorithm, no permission; or that no device leads there.
pub fn use_algorithm(local: Ipv4Addr, peer: Ipv4Addr, name: &str) -> io::Result<()> {
    let table = std::fs::read_to_string("/proc/thread-self/net/route")?;
    let device = device_to(&table, peer)
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("no route to {peer}")))?;
    let index = nix::net::if_::if_nametoindex(device.as_str())?;
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    socket.send(&request(local, peer, index, name), 0)?;
    let mut answer = [0; 4096];
    let size = socket.recv(&mut &mut answer[..], 0)?;
    match (answer.get(4..6), answer.get(16..20)) {
        (Some(kind), Some(code)) if size >= 20 && kind == NLMSG_ERROR.to_ne_bytes() => {
            match i32::from_ne_bytes([code[0], code[1], code[2], code[3]]) {
                0 => Ok(()),
                errno => Err(io::Error::from_raw_os_error(-errno)),
            }
        }
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// The device of the most specific route to `peer` in the text of /proc/net/route.
fn device_to(table: &str, peer: Ipv4Addr) -> Option<String> {
    table
        .lines()
        .skip(1)
        .filter_map(|line| {
            let columns: Vec<&str> = line.split_whitespace().collect();
            // The kernel prints addresses in the machine's byte order.
            let address = |i: usize| u32::from_str_radix(columns.get(i)?, 16).ok();
            let (destination, mask) = (address(1)?, address(7)?);
            let peer = u32::from_ne_bytes(peer.octets());
            (peer & mask == destination).then(|| (mask.count_ones(), columns[0].to_owned()))
        })
        .max_by_key(|(bits, _)| *bits)
        .map(|(_, device)| device)
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(((4 + value.len()) as u16).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn request(local: Ipv4Addr, peer: Ipv4Addr, index: u32, name: &str) -> Vec<u8> {
    // struct rtmsg: family, prefix lengths of destination and source, tos, table, protocol, scope,
    // type, flags.
    let mut body = vec![
        AF_INET,
        32,
        0,
        0,
        RT_TABLE_MAIN,
        RTPROT_KERNEL,
        RT_SCOPE_LINK,
        RTN_UNICAST,
        0,
        0,
        0,
        0,
    ];
    body.extend(attribute(RTA_DST, &peer.octets()));
    body.extend(attribute(RTA_OIF, &index.to_ne_bytes()));
    body.extend(attribute(RTA_PREFSRC, &local.octets()));
    let mut text = name.as_bytes().to_vec();
    text.push(0);
    body.extend(attribute(RTA_METRICS, &attribute(RTAX_CC_ALGO, &text)));
    let flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE;
    let mut message = Vec::new();
    message.extend(((16 + body.len()) as u32).to_ne_bytes());
    message.extend(RTM_NEWROUTE.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    message.extend([0; 8]);
    message.extend(body);
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_specific_route_wins() {
        let hex = |a: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(a));
        let line = |device: &str, to, mask| {
            format!(
                "{device}\t{}\t00000000\t0001\t0\t0\t0\t{}\t0\t0\t0\n",
                hex(to),
                hex(mask)
            )
        };
        let table = String::from(
            "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n",
        ) + &line("wide", [100, 64, 0, 0], [255, 255, 0, 0])
            + &line("host", [100, 64, 1, 2], [255, 255, 255, 255])
            + &line("all", [0, 0, 0, 0], [0, 0, 0, 0]);
        let to = |a| device_to(&table, a);
        assert_eq!(to(Ipv4Addr::new(100, 64, 1, 2)).as_deref(), Some("host"));
        assert_eq!(to(Ipv4Addr::new(100, 64, 9, 9)).as_deref(), Some("wide"));
        assert_eq!(to(Ipv4Addr::new(8, 8, 8, 8)).as_deref(), Some("all"));
        assert_eq!(device_to("", Ipv4Addr::LOCALHOST), None);
    }
}
