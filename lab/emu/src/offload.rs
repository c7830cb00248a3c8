// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TCP segmentation between the kernel and the relay. A TUN device passes up to 64 KiB of a connection at once. The
//! relay divides that into packets, which pass the models one by one. Packets that leave the models at one moment are
//! written to the kernel together.
//!
//! Each packet has the kernel's header of a frame before it (struct `virtio_net_hdr` of linux/virtio_net.h). It
//! contains the position at which the checksum is to be filled in.
use crate::store::MTU;

/// Length of the header before each packet, bytes.
pub(crate) const HEADER: usize = 10;
/// The largest frame: the header and an IP packet of 16 bits of length.
pub(crate) const FRAME: usize = HEADER + 65_535;

/// Maximum number of packets in a bundle: fewer than the parts of a write (IOV_MAX of limits.h is 1024).
const MOST_PARTS: usize = 1000;
/// VIRTIO_NET_HDR_F_NEEDS_CSUM.
const NEEDS_CHECKSUM: u8 = 1;
/// VIRTIO_NET_HDR_GSO_TCPV4.
const TCP_V4: u8 = 1;
/// Offsets of the flags and the checksum in a TCP header.
const FLAGS: usize = 13;
const CHECKSUM: usize = 16;
const FIN_PSH: u8 = 0x09;
const CWR: u8 = 0x80;

/// The division of a frame into packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cut {
    /// Length of the IP header, bytes.
    ip: usize,
    /// Length of the IP and the TCP header, bytes.
    head: usize,
    /// Payload of each packet but the last, bytes.
    size: usize,
    /// Payload in total, bytes.
    data: usize,
}

fn word(bytes: &[u8], at: usize) -> u16 {
    match bytes.get(at..at + 2) {
        Some([high, low]) => u16::from_be_bytes([*high, *low]),
        _ => 0,
    }
}

fn set(bytes: &mut [u8], at: usize, value: u16) {
    if let Some(place) = bytes.get_mut(at..at + 2) {
        place.copy_from_slice(&value.to_be_bytes());
    }
}

fn long(bytes: &[u8], at: usize) -> u32 {
    u32::from(word(bytes, at)) << 16 | u32::from(word(bytes, at + 2))
}

/// The sum of RFC 1071, folded.
fn sum(words: impl Iterator<Item = u16>) -> u16 {
    let mut sum: u32 = words.map(u32::from).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// The lengths of the headers of an IPv4 packet with TCP: of the IP header, and of both.
fn heads(packet: &[u8]) -> Option<(usize, usize)> {
    let first = *packet.first()?;
    let ip = usize::from(first & 15) * 4;
    let is_tcp = first >> 4 == 4 && ip >= 20 && *packet.get(9)? == 6;
    let head = ip + usize::from(packet.get(ip + 12)? >> 4) * 4;
    (is_tcp && head >= ip + 20 && head <= packet.len()).then_some((ip, head))
}

/// Sets lengths and checksums of headers before `data` bytes of payload. IP's checksum is complete. TCP's is that of
/// the pseudo-header, which the kernel completes.
fn close(head: &mut [u8], ip: usize, data: usize) {
    let tcp = head.len() - ip + data;
    set(head, 2, (ip + tcp) as u16);
    set(head, 10, 0);
    let whole = sum((0..ip).step_by(2).map(|at| word(head, at)));
    set(head, 10, !whole);
    let addresses = (12..20).step_by(2).map(|at| word(head, at));
    set(head, ip + CHECKSUM, sum(addresses.chain([6, tcp as u16])));
}

/// Inverts a bit of a packet, so that the receiver's checksum detects it. If the kernel's header marks the checksum as
/// missing or as valid, it is filled in before, and the mark is cleared.
pub(crate) fn corrupt(frame: &mut [u8]) {
    let Some((header, packet)) = frame.split_at_mut_checked(HEADER) else {
        return;
    };
    let at = |place: usize| usize::from(u16::from_ne_bytes([header[place], header[place + 1]]));
    let (from, place) = (at(6), at(6) + at(8));
    if header[0] & NEEDS_CHECKSUM != 0 && from < packet.len() {
        // The sum of the pseudo-header is in its place.
        let last = packet.len() - from;
        let odd = (last % 2 == 1).then(|| u16::from(packet[from + last - 1]) << 8);
        let words = (from..from + last / 2 * 2).step_by(2);
        let whole = sum(words.map(|at| word(packet, at)).chain(odd));
        // In UDP 0 means that there is no checksum.
        set(packet, place, if whole == 0xffff { 0xffff } else { !whole });
    }
    header.fill(0);
    if let Some(last) = packet.last_mut() {
        *last ^= 1;
    }
}

impl Cut {
    /// The division of a frame; `None` if it is one packet.
    pub(crate) fn of(frame: &[u8]) -> Option<Self> {
        let (header, packet) = frame.split_at_checked(HEADER)?;
        let size = usize::from(u16::from_ne_bytes([header[4], header[5]]));
        let (ip, head) = heads(packet).filter(|_| header[1] == TCP_V4 && size > 0)?;
        let data = packet.len() - head;
        (data > size && head + size <= MTU).then_some(Self {
            ip,
            head,
            size,
            data,
        })
    }

    /// Number of packets.
    pub(crate) const fn packets(self) -> usize {
        self.data.div_ceil(self.size)
    }

    /// Writes the packet with this number, and its header. Returns the length of both.
    pub(crate) fn write(self, frame: &[u8], n: usize, into: &mut [u8]) -> usize {
        let Self {
            ip,
            head,
            size,
            data,
        } = self;
        let from = n * size;
        let len = size.min(data.saturating_sub(from));
        let at = HEADER + head;
        let sources = (frame.get(HEADER..at), frame.get(at + from..at + from + len));
        let (Some(head_bytes), Some(bytes)) = sources else {
            return 0;
        };
        let Some((header, packet)) = into.split_at_mut_checked(HEADER) else {
            return 0;
        };
        let Some(packet) = packet.get_mut(..head + len) else {
            return 0;
        };
        header.copy_from_slice(&incomplete(ip));
        let (new_head, new_data) = packet.split_at_mut(head);
        new_data.copy_from_slice(bytes);
        new_head.copy_from_slice(head_bytes);
        set(new_head, 4, word(head_bytes, 4).wrapping_add(n as u16));
        let sequence = long(head_bytes, ip + 4).wrapping_add(from as u32);
        set(new_head, ip + 4, (sequence >> 16) as u16);
        set(new_head, ip + 6, sequence as u16);
        if let Some(flags) = new_head.get_mut(ip + FLAGS) {
            // As the kernel's own segmentation: the end belongs to the last, CWR to the first.
            if n + 1 < self.packets() {
                *flags &= !FIN_PSH;
            }
            if n > 0 {
                *flags &= !CWR;
            }
        }
        close(new_head, ip, len);
        HEADER + head + len
    }
}

/// The header of a packet whose TCP checksum is still to be filled in.
fn incomplete(ip: usize) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[0] = NEEDS_CHECKSUM;
    header[6..8].copy_from_slice(&(ip as u16).to_ne_bytes());
    header[8..10].copy_from_slice(&(CHECKSUM as u16).to_ne_bytes());
    header
}

/// Packets, each with its header, that are written to the kernel as one frame.
#[derive(Default)]
pub(crate) struct Bundle {
    /// The header, and the IP and TCP headers of all.
    head: Vec<u8>,
    ip: usize,
    /// Payload of the first packet, bytes.
    size: usize,
    data: usize,
    /// The sequence number after the last.
    next: u32,
    packets: usize,
    /// True if the bundle is complete: its last packet is shorter, or has the end of a write.
    is_whole: bool,
}

impl Bundle {
    /// The number of packets in it.
    pub(crate) const fn packets(&self) -> usize {
        self.packets
    }

    /// Length of a packet before its payload, including the header, bytes.
    pub(crate) const fn head_len(&self) -> usize {
        self.head.len()
    }

    /// Starts with this packet. A packet that is not a TCP segment with a missing checksum stays alone.
    pub(crate) fn begin(&mut self, packet: &[u8]) {
        self.packets = 1;
        self.is_whole = true;
        self.head.clear();
        let Some((header, bytes)) = packet.split_at_checked(HEADER) else {
            return;
        };
        let Some((ip, head)) = heads(bytes).filter(|(ip, _)| header == incomplete(*ip)) else {
            return;
        };
        self.head.extend_from_slice(&packet[..HEADER + head]);
        self.ip = ip;
        self.size = bytes.len() - head;
        self.data = self.size;
        self.next = long(bytes, ip + 4).wrapping_add(self.size as u32);
        self.is_whole = self.size == 0 || self.flags() & !0x10 != 0;
    }

    fn flags(&self) -> u8 {
        let flags = self.head.get(HEADER + self.ip + FLAGS);
        flags.copied().unwrap_or_default()
    }

    /// Adds the packet as the next one; true if it fits.
    pub(crate) fn add(&mut self, packet: &[u8]) -> bool {
        if self.is_whole || packet.len() <= self.head.len() {
            return false;
        }
        let (head, ip) = (&self.head, HEADER + self.ip);
        let data = packet.len() - head.len();
        // Compares everything except the fields that differ from packet to packet: length, number and checksum of IP;
        // sequence number, flags and checksum of TCP.
        let same = |from: usize, to: usize| head.get(from..to) == packet.get(from..to);
        let is_next = same(0, HEADER + 2)
            && same(HEADER + 6, HEADER + 10)
            && same(HEADER + 12, ip + 4)
            && same(ip + 8, ip + FLAGS)
            && same(ip + FLAGS + 1, ip + CHECKSUM)
            && same(ip + CHECKSUM + 2, head.len())
            && long(packet, ip + 4) == self.next
            && data <= self.size
            && self.packets < MOST_PARTS
            && self.head.len() - HEADER + self.data + data <= 65_535;
        let flags = packet.get(ip + FLAGS).copied().unwrap_or_default();
        // A segment with other flags than ACK, FIN and PSH stays alone.
        if !is_next || flags & !(0x10 | FIN_PSH) != 0 {
            return false;
        }
        if let Some(mine) = self.head.get_mut(ip + FLAGS) {
            *mine |= flags;
        }
        self.data += data;
        self.next = self.next.wrapping_add(data as u32);
        self.packets += 1;
        self.is_whole = data < self.size || flags & FIN_PSH != 0;
        true
    }

    /// The header and the head of the frame.
    pub(crate) fn head(&mut self) -> &[u8] {
        let ip = self.ip;
        if let Some((header, head)) = self.head.split_at_mut_checked(HEADER) {
            header[1] = TCP_V4;
            header[2..4].copy_from_slice(&(head.len() as u16).to_ne_bytes());
            header[4..6].copy_from_slice(&(self.size as u16).to_ne_bytes());
            close(head, ip, self.data);
        }
        &self.head
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame of a connection: 20 bytes of IP, 32 of TCP, and data.
    fn frame(size: u16, data: usize, flags: u8) -> Vec<u8> {
        let mut frame = incomplete(20).to_vec();
        frame[1] = TCP_V4;
        frame[4..6].copy_from_slice(&size.to_ne_bytes());
        let mut head = vec![0; 52];
        head[0] = 0x45;
        head[1] = 2;
        head[4..6].copy_from_slice(&0xfffe_u16.to_be_bytes());
        head[6] = 0x40;
        head[8..10].copy_from_slice(&[64, 6]);
        head[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        head[24..28].copy_from_slice(&0xffff_fff0_u32.to_be_bytes());
        head[32] = 8 << 4;
        head[33] = flags;
        close(&mut head, 20, data);
        frame.extend(head);
        frame.extend((0..data).map(|i| (i % 251) as u8));
        frame
    }

    fn packets(frame: &[u8]) -> Vec<Vec<u8>> {
        let cut = Cut::of(frame).unwrap();
        let one = |n| {
            let mut room = [0; HEADER + MTU];
            let len = cut.write(frame, n, &mut room);
            room[..len].to_vec()
        };
        (0..cut.packets()).map(one).collect()
    }

    /// RFC 1071: all words of a whole header sum up to 0xffff.
    fn ip_is_whole(packet: &[u8]) -> bool {
        sum((10..30).step_by(2).map(|at| word(packet, at))) == 0xffff
    }

    #[test]
    fn a_frame_is_cut_as_the_kernel_does_it() {
        let frame = frame(1448, 3000, 0x90 | FIN_PSH);
        let all = packets(&frame);
        let lengths: Vec<usize> = all.iter().map(|p| p.len() - HEADER).collect();
        assert_eq!(lengths, [1500, 1500, 52 + 104]);
        let sequences: Vec<u32> = all.iter().map(|p| long(p, HEADER + 24)).collect();
        assert_eq!(sequences, [0xffff_fff0, 1432, 2880], "it wraps");
        let numbers: Vec<u16> = all.iter().map(|p| word(p, HEADER + 4)).collect();
        assert_eq!(numbers, [0xfffe, 0xffff, 0]);
        let flags: Vec<u8> = all.iter().map(|p| p[HEADER + 33]).collect();
        assert_eq!(flags, [0x90, 0x10, 0x19], "CWR first, FIN and PSH last");
        let data: Vec<u8> = all
            .iter()
            .flat_map(|p| &p[HEADER + 52..])
            .copied()
            .collect();
        assert_eq!(data, frame[HEADER + 52..]);
        for packet in &all {
            assert!(ip_is_whole(packet));
            assert_eq!(usize::from(word(packet, HEADER + 2)), packet.len() - HEADER);
            assert_eq!(packet[..HEADER], incomplete(20));
            // The pseudo header by hand: 10.0.0.1, 10.0.0.2, 6, and the length of TCP.
            let tcp = (packet.len() - HEADER - 20) as u32;
            let expected = 0x0a00 + 1 + 0x0a00 + 2 + 6 + tcp;
            assert_eq!(u32::from(word(packet, HEADER + 36)), expected);
        }
    }

    #[test]
    fn what_belongs_together_becomes_the_frame_again() {
        let whole = frame(1448, 40_000, 0x10 | FIN_PSH);
        let all = packets(&whole);
        let mut bundle = Bundle::default();
        bundle.begin(&all[0]);
        for packet in &all[1..] {
            assert!(bundle.add(packet));
        }
        assert!(!bundle.add(&all[0]), "the last one was shorter");
        assert_eq!(bundle.packets(), 28);
        let mut again = bundle.head().to_vec();
        for packet in &all {
            again.extend_from_slice(&packet[bundle.head_len()..]);
        }
        // The kernel's frame has the length of its head, too.
        again[2..4].copy_from_slice(&[0, 0]);
        assert_eq!(again, whole);
    }

    #[test]
    fn what_does_not_belong_together_stays_apart() {
        let all = packets(&frame(1448, 6000, 0x10));
        let begun = |n: usize| {
            let mut bundle = Bundle::default();
            bundle.begin(&all[n]);
            bundle
        };
        assert!(!begun(0).add(&all[2]), "one is missing");
        let mut marked = all[1].clone();
        marked[HEADER + 1] = 3;
        assert!(!begun(0).add(&marked), "a mark");
        let mut acknowledges = all[1].clone();
        acknowledges[HEADER + 31] ^= 1;
        assert!(!begun(0).add(&acknowledges), "another acknowledgement");
        let mut other = all[1].clone();
        other[HEADER + 21] ^= 1;
        assert!(!begun(0).add(&other), "another port");
        let mut urgent = all[1].clone();
        urgent[HEADER + 33] |= 0x20;
        assert!(!begun(0).add(&urgent));
        let mut whole = all[0].clone();
        whole[0] = 0;
        let mut bundle = Bundle::default();
        bundle.begin(&whole);
        assert!(!bundle.add(&all[1]), "a checksum that is filled in");
        // The maximum length of an IP packet.
        let long = packets(&frame(1448, 65_000, 0x10));
        let mut bundle = begun(0);
        bundle.begin(&long[0]);
        let taken = (1..100).filter(|n| {
            let mut next = long[1].clone();
            set(&mut next, HEADER + 26, (0xfff0 + n * 1448) as u16);
            set(
                &mut next,
                HEADER + 24,
                0xffff_u16.wrapping_add(((0xfff0 + n * 1448) >> 16) as u16),
            );
            bundle.add(&next)
        });
        assert_eq!(taken.count(), (65_535 - 52) / 1448 - 1);
    }

    #[test]
    fn what_is_one_packet_or_nonsense_is_not_cut() {
        let whole = frame(1448, 3000, 0x10);
        for len in 0..whole.len().min(HEADER + 52) {
            assert_eq!(Cut::of(&whole[..len]), None, "{len} bytes");
        }
        assert_eq!(Cut::of(&frame(1448, 1448, 0x10)), None);
        assert_eq!(Cut::of(&frame(0, 3000, 0x10)), None);
        assert_eq!(
            Cut::of(&frame(9000, 30_000, 0x10)),
            None,
            "larger than the link's packets"
        );
        let mut udp = whole;
        udp[HEADER + 9] = 17;
        assert_eq!(Cut::of(&udp), None);
        let mut bundle = Bundle::default();
        bundle.begin(&[]);
        assert!(!bundle.add(&[0; 60]));
    }
}
