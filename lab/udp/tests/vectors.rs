// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The bytes of each datagram, written out by hand. The sums were computed with zlib's crc32.
use alcc_cc::{Header, Report};
use alcc_flow::Range;
use alcc_udp::wire::{AckBody, DATAGRAM, Data, Datagram, Reason, WireError, seal};
use alcc_units::Span;

const ID: u64 = 0x0102_0304_0506_0708;

fn hex(text: &str) -> Vec<u8> {
    let digits: String = text.split_whitespace().collect();
    (0..digits.len())
        .step_by(2)
        .map(|i| u8::from_str_radix(&digits[i..i + 2], 16).expect("hex"))
        .collect()
}

/// Writing gives these bytes, and reading them gives the datagram; the sum is put in.
fn is(datagram: &Datagram<'_>, text: &str) {
    let mut expected = hex(text);
    seal(&mut expected, 0);
    let mut written = Vec::new();
    datagram.write(&mut written);
    assert_eq!(written, expected);
    assert_eq!(Datagram::read(&expected).as_ref(), Ok(datagram));
    // Not one byte less or more, and no bit wrong.
    for n in 0..expected.len().min(40) {
        assert!(Datagram::read(&expected[..n]).is_err(), "{n} bytes");
        for bit in 0..8 {
            let mut damaged = expected.clone();
            damaged[n] ^= 1 << bit;
            assert!(Datagram::read(&damaged).is_err(), "byte {n}");
        }
    }
    if !matches!(datagram, Datagram::Ack { .. }) {
        let mut longer = expected;
        longer.push(0);
        seal(&mut longer, 0);
        assert_eq!(Datagram::read(&longer), Err(WireError::Length));
    }
}

#[test]
fn the_sum_is_that_of_zlib_over_all_but_itself() {
    // crc32(01 06 | 01 02 03 04 05 06 07 08 00) = 782d19ff
    let mut close = hex("01 06 00000000 0102030405060708 00");
    seal(&mut close, 0);
    assert_eq!(close[2..6], CLOSE_SUM.to_be_bytes());
}

const CLOSE_SUM: u32 = 0x782d_19ff;

#[test]
fn handshake_and_end() {
    let mut cookie = [0; 24];
    cookie[0] = 0xaa;
    cookie[23] = 0xbb;
    let baked = "aa 00000000000000 0000000000000000 00000000000000 bb";
    let zeros = "00".repeat(DATAGRAM - 14 - 24 - 1 - 5);
    let hello = Datagram::Hello {
        id: ID,
        cookie,
        spec: "verus",
    };
    // "verus" is 76 65 72 75 73.
    is(
        &hello,
        &format!("01 01 00000000 0102030405060708 {baked} 05 7665727573 {zeros}"),
    );
    is(
        &Datagram::Retry { id: ID, cookie },
        &format!("01 02 00000000 0102030405060708 {baked}"),
    );
    is(
        &Datagram::Accept { id: ID, peer: 255 },
        "01 03 00000000 0102030405060708 00000000000000ff",
    );
    for (reason, code) in [
        (Reason::Done, "00"),
        (Reason::Aborted, "01"),
        (Reason::Protocol, "02"),
        (Reason::Full, "03"),
        (Reason::Algorithm, "04"),
    ] {
        is(
            &Datagram::Close { id: ID, reason },
            &format!("01 06 00000000 0102030405060708 {code}"),
        );
    }
    is(
        &Datagram::Unknown { id: ID },
        "01 07 00000000 0102030405060708",
    );
    is(
        &Datagram::Answer {
            id: ID,
            bytes: b"ok",
        },
        "01 08 00000000 0102030405060708 02 6f6b",
    );
}

#[test]
fn data_with_and_without_header_and_end() {
    let data = Data {
        pn: 258,
        offset: 1 << 32,
        end: false,
        header: Header::new(&[9, 8, 7]),
        payload: b"abcd",
    };
    is(
        &Datagram::Data { id: ID, data },
        "01 04 00000000 0102030405060708 0000000000000102 0000000100000000 0004 03 090807 61626364",
    );
    let end = Data {
        pn: 3,
        offset: 10,
        end: true,
        header: Header::EMPTY,
        payload: &[0],
    };
    is(
        &Datagram::Data { id: ID, data: end },
        "01 04 00000000 0102030405060708 0000000000000003 000000000000000a 0001 80 00",
    );
}

#[test]
fn data_that_cannot_be() {
    for (text, why) in [
        // An end without a byte.
        (
            "0000000000000003 000000000000000a 0000 80",
            WireError::Value("end"),
        ),
        // A header of 17 bytes; undefined bits.
        (
            "0000000000000003 000000000000000a 0000 11 0000000000000000000000000000000000",
            WireError::Value("header length"),
        ),
        (
            "0000000000000003 000000000000000a 0000 20",
            WireError::Value("header length"),
        ),
        // Numbers that no sender reaches.
        (
            "4000000000000000 000000000000000a 0000 00",
            WireError::Value("number"),
        ),
        (
            "0000000000000003 4000000000000000 0000 00",
            WireError::Value("number"),
        ),
        (
            "0000000000000003 000000000000000a 0002 00 61",
            WireError::Length,
        ),
    ] {
        let mut bytes = hex(&format!("01 04 00000000 0102030405060708 {text}"));
        seal(&mut bytes, 0);
        assert_eq!(Datagram::read(&bytes), Err(why), "{text}");
    }
    let mut other = hex("02 07 00000000 0102030405060708");
    seal(&mut other, 0);
    assert_eq!(Datagram::read(&other), Err(WireError::Version(2)));
    let mut other = hex("01 09 00000000 0102030405060708");
    seal(&mut other, 0);
    assert_eq!(Datagram::read(&other), Err(WireError::Type(9)));
}

#[test]
fn an_acknowledgement_of_three_ranges_and_two_arrivals() {
    // Arrived: 90 to 99, 80 to 84 and 0 to 9; number 99 was held for 1 ms, number 84 for 4.096 ms.
    let body = AckBody {
        complete: 0x1000,
        window: 0x2000,
        ranges: vec![Range::new(90, 100), Range::new(80, 85), Range::new(0, 10)],
        arrivals: vec![(84, Span::from_micros(4096)), (99, Span::from_micros(1000))],
        report: Report::new(&[0xee, 0xff]),
        marked: 0,
    };
    let text = "0000000000001000 0000000000002000 03 02 02
                0000000000000064 0000000a  00000005 00000005  00000046 0000000a
                0000 000003e8  000f 00001000  eeff";
    let mut written = Vec::new();
    body.write(&mut written);
    assert_eq!(written, hex(text));
    let mut read = AckBody::default();
    assert_eq!(read.read(&written), Ok(()));
    // Arrivals come newest first.
    let turned = AckBody {
        arrivals: vec![(99, Span::from_micros(1000)), (84, Span::from_micros(4096))],
        ..body
    };
    assert_eq!(read, turned);
    for n in 0..written.len() {
        assert!(read.read(&written[..n]).is_err(), "{n} bytes");
    }
}

/// After the report, and only if there are any: the receiver of an earlier version never sends it,
/// nor does it see any.
#[test]
fn an_acknowledgement_with_marks() {
    let body = AckBody {
        complete: 0x1000,
        window: 0x2000,
        report: Report::new(&[0xee, 0xff]),
        marked: 1367,
        ..AckBody::default()
    };
    let text = "0000000000001000 0000000000002000 00 00 82 eeff 0000000000000557";
    let mut written = Vec::new();
    body.write(&mut written);
    assert_eq!(written, hex(text));
    let mut read = AckBody::default();
    assert_eq!(read.read(&written), Ok(()));
    assert_eq!(read, body);
    for n in 0..written.len() {
        assert!(read.read(&written[..n]).is_err(), "{n} bytes");
    }
}

#[test]
fn acknowledgements_that_cannot_be() {
    let head = "0000000000001000 0000000000002000";
    for (text, why) in [
        // More than there is place for.
        ("21 00 00", WireError::Value("count")),
        ("00 a1 00", WireError::Value("count")),
        ("00 00 41", WireError::Value("count")),
        // Before the first number; of no number; no gap between two; below zero.
        (
            "01 00 00 0000000000000005 00000006",
            WireError::Value("range"),
        ),
        (
            "01 00 00 0000000000000005 00000000",
            WireError::Value("range"),
        ),
        (
            "02 00 00 0000000000000064 0000000a 00000000 00000001",
            WireError::Value("range"),
        ),
        (
            "02 00 00 0000000000000064 0000000a 0000005b 00000001",
            WireError::Value("range"),
        ),
        // Arrivals without ranges, and below the first number.
        ("00 01 00 0000 00000000", WireError::Value("arrival")),
        (
            "01 01 00 0000000000000005 00000005 0005 00000000",
            WireError::Value("arrival"),
        ),
        ("01 00 00 0000000000000005 00000005 00", WireError::Length),
    ] {
        let body = hex(&format!("{head} {text}"));
        assert_eq!(AckBody::default().read(&body), Err(why), "{text}");
    }
}
