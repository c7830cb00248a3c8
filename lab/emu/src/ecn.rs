// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The ECN field of IP packets (RFC 3168): read for the model, and set when a queue has marked the
//! packet.
use alcc_link::Ecn;

/// The ECN field of a packet; Not-ECT for packets that are not IP.
pub(crate) fn of(packet: &[u8]) -> Ecn {
    match *packet {
        [first, second, ..] if first >> 4 == 4 => Ecn::of_bits(second),
        [first, second, ..] if first >> 4 == 6 => Ecn::of_bits(second >> 4),
        _ => Ecn::NotEct,
    }
}

/// Sets "congestion experienced" in the header, with the checksum of IPv4 (RFC 1624: only the
/// difference counts).
pub(crate) fn mark(packet: &mut [u8]) {
    match packet {
        [first, class, ..] if *first >> 4 == 6 => *class |= 0x30,
        [first, class, _, _, _, _, _, _, _, _, high, low, ..] if *first >> 4 == 4 => {
            let before = u16::from(*class);
            *class |= 3;
            let sum = u32::from(!u16::from_be_bytes([*high, *low]))
                + u32::from(!before)
                + u32::from(*class);
            let sum = (sum & 0xffff) + (sum >> 16);
            let sum = (sum & 0xffff) + (sum >> 16);
            [*high, *low] = (!(sum as u16)).to_be_bytes();
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 1071: the sum of all words of a header that is whole is 0xffff.
    fn is_whole(header: &[u8]) -> bool {
        let words = header
            .chunks(2)
            .map(|w| u32::from(w[0]) << 8 | u32::from(w[1]));
        let sum: u32 = words.sum();
        (sum & 0xffff) + (sum >> 16) == 0xffff
    }

    #[test]
    fn a_mark_is_set_and_the_checksum_stays_right() {
        for ecn in [1, 2, 3] {
            for dscp in [0, 0x28, 0xfc] {
                for length in 0..=u16::MAX {
                    let [a, b] = length.to_be_bytes();
                    let header = [0x45, dscp | ecn, a, b, 0, 1, 0x40, 0, 64, 17, 0, 0];
                    let mut header = [&header[..], &[10, 0, 0, 1, 10, 0, 0, 2]].concat();
                    let sum: u32 = header
                        .chunks(2)
                        .map(|w| u32::from(w[0]) << 8 | u32::from(w[1]))
                        .sum();
                    let sum = (sum & 0xffff) + (sum >> 16);
                    let sum = !(((sum & 0xffff) + (sum >> 16)) as u16);
                    header[10..12].copy_from_slice(&sum.to_be_bytes());
                    assert!(is_whole(&header));
                    mark(&mut header);
                    assert_eq!((of(&header), header[1] & 0xfc), (Ecn::Ce, dscp));
                    assert!(is_whole(&header), "length {length}, class {}", dscp | ecn);
                }
            }
        }
    }

    #[test]
    fn both_versions_of_ip_are_read_and_nothing_else() {
        assert_eq!(of(&[0x45, 0x02]), Ecn::Ect0);
        assert_eq!(of(&[0x45, 0xfd]), Ecn::Ect1);
        assert_eq!(of(&[0x45, 0xb8]), Ecn::NotEct);
        let mut six = [0x6b, 0x2f, 0xff, 0xff];
        assert_eq!(of(&six), Ecn::Ect0);
        mark(&mut six);
        assert_eq!((of(&six), six), (Ecn::Ce, [0x6b, 0x3f, 0xff, 0xff]));
        for none in [&[][..], &[0x45], &[0x15, 3]] {
            assert_eq!(of(none), Ecn::NotEct);
            mark(&mut none.to_vec());
        }
    }
}
