// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fuzz targets for the datagrams of `alcc-udp`: their decoder, handshakes, and connections that
//! receive arbitrary packets.
use alcc_cc::Spec;
use alcc_cc::conformance::Checked;
use alcc_udp::wire::{AckBody, COOKIE, Datagram, seal};
use alcc_udp::{Limits, Listener, Outgoing, Setup};
use alcc_units::{Rng, Span, Time};
use std::net::SocketAddr;

/// The decoder: what is read is written as the same bytes.
pub fn datagram(bytes: &[u8]) {
    let mut bytes = bytes.to_vec();
    let as_it_is = Datagram::read(&bytes).is_ok();
    seal(&mut bytes, 0);
    let Ok(datagram) = Datagram::read(&bytes) else {
        assert!(!as_it_is);
        return;
    };
    let mut written = Vec::new();
    datagram.write(&mut written);
    match datagram {
        Datagram::Ack { body, .. } => {
            let (mut ack, mut again) = (AckBody::default(), AckBody::default());
            if ack.read(body).is_ok() {
                written.clear();
                ack.write(&mut written);
                // Arrivals are written newest first, so twice is as it was.
                assert_eq!(again.read(&written), Ok(()));
                again.arrivals.reverse();
                assert_eq!(again, ack);
            }
        }
        _ => assert_eq!(written, bytes),
    }
}

fn listener(now: Time) -> Listener {
    let mut rng = Rng::new(7);
    let entropy = Box::new(move |bytes: &mut [u8]| bytes.fill_with(|| rng.next_u64() as u8));
    let halves = Box::new(|spec: &str| {
        let spec: Spec = spec.parse().map_err(drop)?;
        let cc = alcc_zoo::registry().build(&spec).map_err(drop)?;
        Ok(Checked::of(cc).receiver())
    });
    let limits = Limits {
        connections: 20,
        ..Limits::default()
    };
    Listener::new(now, entropy, halves, limits)
}

/// Cuts what the fuzzer made into pieces of up to 255 bytes, each with a byte before it that says
/// what to do.
fn pieces(bytes: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (&[what, len], tail) = rest.split_first_chunk()?;
        let (piece, tail) = tail.split_at(tail.len().min(len.into()));
        rest = tail;
        Some((what, piece))
    })
}

/// Handshakes of strangers, with cookies from the listener or from nowhere: answers are never
/// longer than what they answer, and nothing is remembered of who shows none.
pub fn handshake(bytes: &[u8]) {
    let mut now = Time::from_millis(1000);
    let mut listener = listener(now);
    let mut cookie = [0; COOKIE];
    let mut opened = 0;
    for (what, piece) in pieces(bytes) {
        now += Span::from_millis(u64::from(what >> 4) * 100);
        let from: SocketAddr = ([192, 0, 2, what & 3], 4000).into();
        let id = u64::from(what & 1);
        let mut hello = Vec::new();
        match what & 0xc {
            0 => hello.extend_from_slice(piece),
            4 => Datagram::Hello {
                id,
                cookie: [0; COOKIE],
                spec: "verus",
            }
            .write(&mut hello),
            8 => Datagram::Hello {
                id,
                cookie,
                spec: std::str::from_utf8(piece).unwrap_or("sprout"),
            }
            .write(&mut hello),
            _ => {
                let n = piece.len().min(COOKIE);
                cookie[..n].copy_from_slice(&piece[..n]);
                continue;
            }
        }
        listener.on_datagram(now, now, from, &hello, &mut |to, answer| {
            assert_eq!(to, from);
            assert!(answer.len() <= hello.len());
            match Datagram::read(answer) {
                Ok(Datagram::Retry { cookie: baked, .. }) => cookie = baked,
                Ok(Datagram::Accept { .. }) => opened += 1,
                Ok(_) => {}
                Err(why) => panic!("{why}"),
            }
        });
        listener.poll(now, &mut |_, _| {});
        assert!(listener.len() <= opened.min(20));
    }
    assert!(opened > 0 || listener.remembered() == 0);
}

/// Two ends of which each hears what the other sends, what the fuzzer makes of that, and what it
/// invents.
pub fn connection(bytes: &[u8]) {
    let mut now = Time::from_millis(1000);
    let from: SocketAddr = ([192, 0, 2, 1], 4000).into();
    let mut listener = listener(now);
    let algorithm =
        ["verus", "sprout", "copa", "cubic"][usize::from(bytes.first().copied().unwrap_or(0) & 3)];
    let spec: Spec = algorithm.parse().expect("a name");
    let mut outgoing = Outgoing::new(
        now,
        Setup {
            cc: Checked::of(alcc_zoo::registry().build(&spec).expect("an algorithm")),
            spec: algorithm.to_owned(),
            id: 1,
            seed: 1,
            patience: Span::from_secs(10),
            silence: Span::from_secs(60),
        },
    );
    let mut receiver = 0;
    let mut accepted = None;
    for (what, piece) in pieces(bytes) {
        now += Span::from_millis(u64::from(what & 0x3f));
        outgoing.on_timer(now);
        let room = outgoing.room().min(piece.len() * 20);
        outgoing.write(&vec![7; room]);
        let mut there = Vec::new();
        let mut out = Vec::new();
        while outgoing.poll(now, &mut out) {
            assert!(out.len() <= 1400);
            there.push(std::mem::take(&mut out));
        }
        let mut back = Vec::new();
        for (i, datagram) in there.iter_mut().enumerate() {
            damage(datagram, piece, what, i);
            listener.on_datagram(now, now, from, datagram, &mut |_, b| back.push(b.to_vec()));
        }
        let mut invented = piece.to_vec();
        if invented.len() >= 14 && what & 0x40 != 0 {
            // One that gets through.
            invented[0] = 1;
            invented[6..14].copy_from_slice(&u64::to_be_bytes(if what & 1 == 0 {
                1
            } else {
                receiver
            }));
            seal(&mut invented, 0);
        }
        listener.on_datagram(now, now, from, &invented, &mut |_, b| back.push(b.to_vec()));
        listener.poll(now, &mut |_, b| back.push(b.to_vec()));
        if let Some((id, _)) = listener.accept() {
            accepted.get_or_insert(id);
        }
        if let Some(id) = accepted {
            listener.read(now, id, &mut [0; 3000]);
        }
        back.push(invented);
        for (i, mut datagram) in back.into_iter().enumerate() {
            damage(&mut datagram, piece, what, i + 1);
            if let Ok(datagram) = Datagram::read(&datagram) {
                if let Datagram::Accept { peer, .. } = datagram {
                    receiver = peer;
                }
                outgoing.on_datagram(now, &datagram);
            }
        }
        assert!(listener.remembered() < (16 << 20) + (1 << 20));
        // At most one thing for each packet that it ever sent.
        assert!(outgoing.remembered() < 1 << 20);
    }
}

/// Flips a bit of some, and puts the sum right of some of these.
fn damage(datagram: &mut [u8], piece: &[u8], what: u8, i: usize) {
    let Some(&byte) = piece.get(i) else { return };
    if what & 0x80 == 0 || byte >= 64 || datagram.len() < 14 {
        return;
    }
    let at = 14 + usize::from(byte) % (datagram.len() - 13);
    if let Some(hit) = datagram.get_mut(at) {
        *hit ^= 1 << (i % 8);
    }
    if byte % 2 == 0 {
        seal(datagram, 0);
    }
}
