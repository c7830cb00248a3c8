// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fuzz target for the bytes of a peer of an in-band session.
use super::{Input, one_line};
use alcc_cc::conformance;
use alcc_inband::{Output, Session, Settings, When, frame, preface};
use alcc_units::{Span, Time};

/// Frames of a peer: the same items however the bytes are cut, or the same error, and nothing is
/// made up.
pub(super) fn frames(bytes: &[u8]) {
    let Some((&cut, bytes)) = bytes.split_first() else {
        return;
    };
    let read = |piece: usize| {
        let mut decoder = frame::Decoder::default();
        let (mut items, mut payload) = (0usize, Vec::new());
        for mut piece in bytes.chunks(piece) {
            loop {
                match decoder.next(&mut piece) {
                    Ok(None) => break,
                    Ok(Some(frame::Item::Payload(p))) => payload.extend_from_slice(p),
                    Ok(Some(_)) => items += 1,
                    Err(e) => {
                        one_line(&e);
                        return (items, payload, Some(e));
                    }
                }
            }
        }
        (items, payload, None)
    };
    let whole = read(bytes.len().max(1));
    assert!(whole.1.len() <= bytes.len());
    assert_eq!(whole, read(usize::from(cut).max(1)));
    match preface::Preface::decode(bytes) {
        Ok(Some((preface, len))) => {
            let mut again = Vec::new();
            preface.encode(&mut again);
            assert_eq!(
                preface::Preface::decode(&again),
                Ok(Some((preface, again.len())))
            );
            assert!(len <= bytes.len());
        }
        Ok(None) => assert!(bytes.len() < preface::MAX_PREFACE),
        Err(e) => one_line(e),
    }
}

/// A session against any peer: it writes, reads and waits, and hears bytes and well-formed frames
/// of any content. Memory is bounded, what is sent stays within credit, an error is final.
pub(super) fn session(bytes: &[u8]) {
    let mut input = Input(bytes);
    let algorithms = ["cubic", "verus", "sprout", "copa", "fixed:window=3"];
    let cc = algorithms[input.byte() as usize % algorithms.len()];
    let settings = Settings {
        receive_buffer: 1 << 16,
        ..Settings::new(cc.parse().expect("an algorithm"))
    };
    let registry = std::sync::Arc::new(conformance::Checked::registry(&alcc_zoo::registry()));
    let mut now = Time::from_millis(1);
    let new = if input.byte() % 2 == 0 {
        Session::connect
    } else {
        Session::accept
    };
    let mut session = new(now, &registry, settings).expect("an algorithm");
    let mut out = Output::default();
    if input.byte() % 8 > 0 {
        let algorithm = ["", "sprout", "sprout-ewma", "verus"][input.byte() as usize % 4];
        let mut hello = Vec::new();
        preface::Preface {
            credit: input.number(1 << 12),
            ack_delay: 5000,
            segment: 1400,
            algorithm: algorithm.to_owned(),
        }
        .encode(&mut hello);
        session.on_bytes(When::exactly(now), &hello, &mut []);
    }
    let mut heard = 0u64;
    let mut steps = 0;
    while !input.0.is_empty() && steps < 2000 {
        steps += 1;
        now += Span::from_micros(input.number(1 << 10).min(1 << 31));
        let failed = session.error().cloned();
        let mut wire = Vec::new();
        let (sent, acked) = session
            .flow()
            .map_or((0, 0), |f| (f.written(), f.written() - f.in_flight().get()));
        match input.byte() % 10 {
            0 => wire.extend((0..input.byte()).map(|i| i.wrapping_mul(17) as u8)),
            1 | 2 => {
                let len = input.number(1 << 8).min(20_000) as usize;
                let tag = [7; 16];
                let tag = &tag[..input.byte() as usize % 17];
                frame::encode_data(&mut wire, heard as u32, tag, len);
                wire.resize(wire.len() + len, 1);
                heard += wire.len() as u64;
            }
            3 | 4 => {
                let mut ack = frame::Ack::default();
                ack.position = acked
                    + input
                        .number(64)
                        .min(sent - acked + u64::from(input.byte() == 9));
                ack.window = input.number(1).min(u64::from(frame::MAX_U24)) as u32;
                ack.hold = input.number(1 << 6).min(u64::from(frame::MAX_U24)) as u32;
                for _ in 0..input.byte() % 17 {
                    let mut some = || input.number(1 << 6).min(u64::from(frame::MAX_U24)) as u32;
                    ack.push(frame::Step {
                        bytes: some(),
                        micros: some(),
                    });
                }
                ack.encode(&mut wire);
            }
            5 => {
                let report = [input.byte() as u8; 48];
                let len = 1 + input.byte() as usize % 48;
                frame::encode_report(&mut wire, &report[..len]);
            }
            6 => frame::encode_close(&mut wire, heard as u32, (input.byte() % 3) as u8, "why"),
            7 => frame::encode_ping(&mut wire, false, [input.byte() as u8; 8]),
            8 => {
                let mut buffer = [0; 4096];
                session.read(now, &mut buffer);
            }
            _ => session.close(),
        }
        session.on_bytes(When::exactly(now), &wire, &mut [0; 100]);
        if input.byte() % 64 == 0 {
            session.on_end();
        }
        session.on_timer(now);
        let room = session.room(now);
        let direct = vec![3; (input.byte() as usize) << 6];
        out.clear();
        let taken = session.output(now, &direct, input.byte() % 2 == 0, u64::MAX, &mut out);
        assert!(taken <= direct.len() && room <= 1 << 20);
        assert!(out.len() < (1 << 18) + 4096, "{}", out.len());
        assert!(session.unread() <= 1 << 16);
        if let Some(why) = failed {
            assert_eq!(session.error(), Some(&why), "an error is final");
            assert_eq!(taken, 0);
        }
        if let Some(why) = session.error() {
            one_line(why);
            assert_eq!(session.next_timer(), None);
        }
    }
}
