// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A peer that forges, replays, damages, floods or disappears gets nothing, or a defined end;
//! memory stays bounded.
mod support;

use alcc_flow::Range;
use alcc_udp::wire::{self, AckBody, COOKIE, Data, Datagram, Reason};
use alcc_udp::{End, Limits, Listener};
use alcc_units::{Rng, Span, Time};
use support::{
    Faults, RECEIVER, SENDER, World, address, entropy, id_of, listener, receiver_modules,
};

fn at(s: u64) -> Time {
    Time::ZERO + Span::from_secs(s)
}

fn bytes(datagram: &Datagram<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    datagram.write(&mut out);
    out
}

/// A transfer in the middle: half a second after its beginning.
fn under_way(algorithm: &str, seed: u64) -> World {
    let mut world = World::new(algorithm, 3_000_000, seed, Faults::default());
    assert_eq!(world.run(world.now + Span::from_millis(500)), None);
    assert!(world.outgoing.is_open() && !world.got.is_empty());
    world
}

#[test]
fn a_stranger_costs_no_memory_and_gets_no_more_than_it_sent() {
    let mut listener = listener(at(1), 1, Limits::default());
    let mut rng = Rng::new(1);
    for n in 0..5_000u64 {
        let from = format!("198.51.100.{}:{}", n % 200, 1024 + n);
        let mut cookie = [0; COOKIE];
        cookie.fill_with(|| rng.next_u64() as u8);
        if n % 2 == 0 {
            cookie.fill(0);
        }
        let id = rng.next_u64();
        let hello = bytes(&Datagram::Hello {
            id,
            cookie,
            spec: "verus",
        });
        let mut answers = Vec::new();
        let now = at(1) + Span::from_millis(n);
        listener.on_datagram(now, now, address(&from), &hello, &mut |to, b| {
            answers.push((to, b.to_vec()));
        });
        assert_eq!(answers.len(), 1);
        let (to, answer) = &answers[0];
        assert_eq!(*to, address(&from));
        assert!(answer.len() < hello.len());
        assert!(matches!(Datagram::read(answer), Ok(Datagram::Retry { .. })));
    }
    assert_eq!((listener.len(), listener.remembered()), (0, 0));
}

#[test]
fn a_cookie_shown_from_elsewhere_or_too_late_opens_nothing() {
    let mut listener = listener(at(1), 2, Limits::default());
    let hello = |cookie| {
        bytes(&Datagram::Hello {
            id: 7,
            cookie,
            spec: "sprout",
        })
    };
    let mut cookie = [0; COOKIE];
    let say = |listener: &mut Listener, now: Time, from: &str, b: &[u8]| {
        let mut got = None;
        listener.on_datagram(now, now, address(from), b, &mut |_, b| {
            got = Some(b.to_vec());
        });
        got.expect("an answer")
    };
    let retry = say(&mut listener, at(1), SENDER, &hello(cookie));
    match Datagram::read(&retry) {
        Ok(Datagram::Retry { cookie: baked, .. }) => cookie = baked,
        other => panic!("{other:?}"),
    }
    say(&mut listener, at(2), "192.0.2.1:4001", &hello(cookie));
    say(&mut listener, at(2), "192.0.2.2:4000", &hello(cookie));
    say(&mut listener, at(12), SENDER, &hello(cookie));
    assert_eq!(listener.len(), 0);
    // In time, from where it was baked; once more is the same connection.
    let first = say(&mut listener, at(3), SENDER, &hello(cookie));
    let again = say(&mut listener, at(3), SENDER, &hello(cookie));
    assert!(matches!(
        Datagram::read(&first),
        Ok(Datagram::Accept { id: 7, .. })
    ));
    assert_eq!(first, again);
    assert_eq!(listener.len(), 1);
}

#[test]
fn one_connection_too_many_and_an_unknown_algorithm_are_refused() {
    for (spec, limit, reason) in [
        ("cubic", 0, Reason::Full),
        ("nonsense", 9, Reason::Algorithm),
    ] {
        let mut world = World::new("cubic", 1000, 3, Faults::default());
        let limits = Limits {
            connections: limit,
            ..Limits::default()
        };
        world.listener = Listener::new(world.now, entropy(1), receiver_modules(), limits);
        world.respec(spec);
        assert_eq!(world.run(at(60)), Some(End::Closed(reason)));
    }
}

#[test]
fn what_was_replayed_changes_nothing() {
    let mut world = under_way("verus", 4);
    let old = world.seen.clone();
    let (before, len) = (world.got.clone(), world.listener.len());
    for datagram in &old {
        let now = world.now;
        world.deliver(now, true, datagram);
    }
    assert_eq!(world.got, before);
    assert_eq!(world.listener.len(), len);
    assert_eq!(world.run(at(120)), None);
    assert!(world.got == world.sent);
    // The handshake, after all is over.
    let id = world.accepted.expect("a connection");
    world.outgoing.close();
    for _ in 0..50 {
        world.step();
    }
    let now = world.now;
    world.listener.release(now, id);
    world.listener.poll(now, &mut |_, _| {});
    assert_eq!(world.listener.len(), 0);
    for datagram in old.iter().filter(|d| d[1] == 1) {
        world.deliver(now, true, datagram);
    }
    assert_eq!(
        world.listener.len(),
        0,
        "a replayed handshake opens nothing"
    );
}

#[test]
fn data_from_another_address_or_with_another_id_is_nobodys() {
    let mut world = under_way("cubic", 5);
    let (now, got) = (world.now, world.got.len());
    let id = id_of(world.seen.last().expect("data"));
    let forged = |id| {
        bytes(&Datagram::Data {
            id,
            data: Data {
                pn: 1_000_000,
                offset: got as u64,
                end: true,
                header: Default::default(),
                payload: b"evil",
            },
        })
    };
    let mut answers = Vec::new();
    let elsewhere = address("198.51.100.66:4000");
    world
        .listener
        .on_datagram(now, now, elsewhere, &forged(id), &mut |_, b| {
            answers.push(b.to_vec());
        });
    assert!(
        answers.is_empty(),
        "whoever knows the id but not the address hears nothing"
    );
    let close = bytes(&Datagram::Close {
        id,
        reason: Reason::Aborted,
    });
    world
        .listener
        .on_datagram(now, now, elsewhere, &close, &mut |_, _| panic!("silence"));
    world
        .listener
        .on_datagram(now, now, address(SENDER), &forged(id ^ 1), &mut |_, b| {
            answers.push(b.to_vec());
        });
    assert_eq!(answers, [bytes(&Datagram::Unknown { id: id ^ 1 })]);
    assert!(answers[0].len() < forged(id).len());
    assert_eq!(world.run(at(120)), None);
    assert!(world.got == world.sent);
}

#[test]
fn an_acknowledgement_of_what_was_never_sent_ends_the_connection() {
    for beyond in [1u64, 1000, 1 << 60] {
        let mut world = under_way("copa", 6);
        let sent = world.outgoing.sender().stats().transmissions;
        let body = AckBody {
            complete: 0,
            window: 1 << 24,
            ranges: vec![Range::new(0, sent + beyond).min_len()],
            ..AckBody::default()
        };
        let mut forged = bytes(&Datagram::Ack {
            id: world.outgoing.id(),
            body: &[],
        });
        body.write(&mut forged);
        wire::seal(&mut forged, 0);
        let now = world.now;
        world.deliver(now, false, &forged);
        match world.run(at(120)) {
            Some(End::Violation(why)) => assert!(why.contains("was sent"), "{why}"),
            other => panic!("{other:?}"),
        }
        // The receiver gets these.
        for _ in 0..5000 {
            world.step();
        }
        let id = world.accepted.expect("a connection");
        assert_eq!(
            world.listener.ended(id),
            Some(&End::Closed(Reason::Protocol))
        );
    }
}

/// The upper thousand numbers of a range: a count has four bytes.
trait MinLen {
    fn min_len(self) -> Self;
}

impl MinLen for Range {
    fn min_len(self) -> Self {
        Self::new(self.start.max(self.end.saturating_sub(1000)), self.end)
    }
}

#[test]
fn data_beyond_the_end_of_the_stream_ends_the_connection() {
    let mut world = World::new("cubic", 20_000, 7, Faults::default());
    assert_eq!(world.run(at(60)), None);
    let id = id_of(world.seen.last().expect("data"));
    let late = bytes(&Datagram::Data {
        id,
        data: Data {
            pn: 5000,
            offset: 30_000,
            end: false,
            header: Default::default(),
            payload: b"more",
        },
    });
    let now = world.now;
    world.deliver(now, true, &late);
    assert!(matches!(world.listener.ended(id), Some(End::Violation(_))));
    assert!(world.got == world.sent, "what had arrived stays");
}

/// Opens a connection: the listener's id of it, or why not.
fn opens(listener: &mut Listener, now: Time, from: &str, id: u64) -> Result<u64, Reason> {
    let mut cookie = [0; COOKIE];
    loop {
        let hello = Datagram::Hello {
            id,
            cookie,
            spec: "cubic",
        };
        let mut answer = Vec::new();
        listener.on_datagram(now, now, address(from), &bytes(&hello), &mut |_, b| {
            answer = b.to_vec();
        });
        match Datagram::read(&answer) {
            Ok(Datagram::Retry { cookie: baked, .. }) => cookie = baked,
            Ok(Datagram::Accept { peer, .. }) => return Ok(peer),
            Ok(Datagram::Close { reason, .. }) => return Err(reason),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn one_address_gets_a_bounded_number_of_connections_and_all_a_bounded_memory() {
    let limits = Limits {
        per_address: 20,
        unread: 40 << 20,
        ..Limits::default()
    };
    let mut listener = listener(at(1), 1, limits);
    let mut ids = Vec::new();
    for id in 0..20 {
        ids.push(opens(&mut listener, at(1), SENDER, id).expect("a connection"));
    }
    assert_eq!(opens(&mut listener, at(1), SENDER, 20), Err(Reason::Full));
    assert!(opens(&mut listener, at(1), "192.0.2.2:4000", 20).is_ok());
    let say = |listener: &mut Listener, id, pn, offset| {
        let data = Data {
            pn,
            offset,
            end: false,
            header: Default::default(),
            payload: b"x",
        };
        let datagram = bytes(&Datagram::Data { id, data });
        listener.on_datagram(at(2), at(2), address(SENDER), &datagram, &mut |_, _| {});
    };
    // A byte each at the end of the window.
    for id in &ids {
        say(&mut listener, *id, 0, (16 << 20) - 1);
    }
    let remembered = listener.remembered();
    assert!(remembered < 33 << 20, "{remembered}");
    // A sender in order is not stopped by that, and gets no less over time.
    for id in &ids {
        say(&mut listener, *id, 1, 0);
        let mut out = [0; 9];
        assert_eq!(listener.read(at(2), *id, &mut out), Some(1));
    }
    for id in ids {
        listener.release(at(3), id);
    }
    listener.poll(at(3), &mut |_, _| {});
    assert!(opens(&mut listener, at(3), SENDER, 21).is_ok());
}

#[test]
fn a_probe_takes_no_memory_wherever_it_says_that_it_lies() {
    let limits = Limits {
        unread: 1 << 20,
        ..Limits::default()
    };
    let mut listener = listener(at(1), 1, limits);
    let id = opens(&mut listener, at(1), SENDER, 1).expect("a connection");
    let say = |listener: &mut Listener, pn, offset, payload| {
        let data = Data {
            pn,
            offset,
            end: false,
            header: Default::default(),
            payload,
        };
        let datagram = bytes(&Datagram::Data { id, data });
        listener.on_datagram(at(2), at(2), address(SENDER), &datagram, &mut |_, _| {});
        let mut arrived = Vec::new();
        listener.poll(at(2), &mut |_, answer| {
            let Ok(Datagram::Ack { body, .. }) = Datagram::read(answer) else {
                panic!("no acknowledgement");
            };
            let mut ack = AckBody::default();
            assert_eq!(ack.read(body), Ok(()));
            arrived = ack.ranges;
        });
        arrived
    };
    // Within the share, within the limit, within the window, beyond it, and more than there is.
    let offsets = [1 << 10, 1 << 18, 1 << 23, 1 << 25, 1 << 40, (1 << 62) - 1];
    for (pn, offset) in (0..).zip(offsets) {
        assert_eq!(
            say(&mut listener, pn, offset, b""),
            [Range::new(0, pn + 1)],
            "it has arrived: {offset}"
        );
        let remembered = listener.remembered();
        assert!(remembered < 100, "{offset}: {remembered}");
    }
    // The stream goes on as if there had been none.
    say(&mut listener, 6, 0, b"data");
    let mut out = [0; 9];
    assert_eq!(listener.read(at(2), id, &mut out), Some(4));
    assert_eq!(&out[..4], b"data");
}

#[test]
fn a_window_that_opens_again_is_reported_at_once() {
    let mut listener = listener(at(1), 1, Limits::default());
    let id = opens(&mut listener, at(1), SENDER, 1).expect("a connection");
    let piece = vec![7; 1024];
    let mut now = at(2);
    for n in 0..16 << 10 {
        now += Span::from_micros(50);
        let data = Data {
            pn: n,
            offset: n * 1024,
            end: false,
            header: Default::default(),
            payload: &piece,
        };
        let datagram = bytes(&Datagram::Data { id, data });
        listener.on_datagram(now, now, address(SENDER), &datagram, &mut |_, _| {});
        listener.poll(now, &mut |_, _| {});
    }
    // All of the window has arrived unread, and that was reported.
    now += Span::from_secs(1);
    listener.poll(now, &mut |_, _| {});
    listener.poll(now, &mut |_, _| panic!("nothing to say"));
    let mut out = vec![0; 1 << 20];
    assert_eq!(listener.read(now, id, &mut out), Some(1 << 20));
    let mut window = 0;
    listener.poll(now, &mut |_, b| {
        if let Ok(Datagram::Ack { body, .. }) = Datagram::read(b) {
            let mut ack = AckBody::default();
            ack.read(body).expect("an acknowledgement");
            window = ack.window;
        }
    });
    assert_eq!(window, 1 << 20);
}

#[test]
fn a_peer_never_accepted_that_has_given_up_is_forgotten() {
    let mut listener = listener(at(1), 1, Limits::default());
    for (n, reason) in [(1, Reason::Aborted), (2, Reason::Done)] {
        let id = opens(&mut listener, at(1), SENDER, n).expect("a connection");
        let data = Data {
            pn: 0,
            offset: 0,
            end: reason == Reason::Done,
            header: Default::default(),
            payload: b"all.",
        };
        for datagram in [Datagram::Data { id, data }, Datagram::Close { id, reason }] {
            let datagram = bytes(&datagram);
            listener.on_datagram(at(2), at(2), address(SENDER), &datagram, &mut |_, _| {});
        }
        listener.poll(at(2), &mut |_, _| {});
        // A complete stream is kept, because its sender was informed of its arrival.
        assert_eq!(listener.len(), usize::from(reason == Reason::Done));
    }
    opens(&mut listener, at(3), SENDER, 3).expect("a connection");
    listener.refuse(at(3));
    listener.poll(at(3), &mut |_, _| {});
    assert_eq!((listener.len(), listener.accept()), (0, None));
    assert_eq!(opens(&mut listener, at(3), SENDER, 4), Err(Reason::Full));
}

#[test]
fn a_receiver_of_a_whole_stream_acknowledges_it_after_an_outage_at_the_end() {
    let mut world = World::new("cubic", 300_000, 9, Faults::default());
    while world.got.len() < world.sent.len() {
        assert!(world.step());
    }
    // No acknowledgement of the last packets passes, and the application has what it wanted.
    let now = world.now;
    let until = now + Span::from_secs(4);
    world.faults.outages = vec![(now, until)];
    world.lose();
    assert!(!world.outgoing.is_done());
    let id = world.accepted.expect("a connection");
    world.listener.release(now, id);
    assert_eq!(world.run(at(100)), None);
    assert!(world.outgoing.is_done() && world.now > until);
    // The sender confirms: that ends the connection.
    world.outgoing.close();
    for _ in 0..50 {
        world.step();
    }
    assert_eq!(world.listener.len(), 0);
}

/// A receiving end that gets these packets: number, offset, payload, true for the end.
fn hears(packets: &[(u64, u64, &[u8], bool)]) -> alcc_udp::Incoming {
    let mut incoming = alcc_udp::Incoming::new(at(1), 7, None, Span::from_secs(120));
    for &(pn, offset, payload, end) in packets {
        let header = Default::default();
        incoming.on_data(
            at(2),
            &Data {
                pn,
                offset,
                end,
                header,
                payload,
            },
        );
    }
    incoming
}

#[test]
fn what_counts_as_arrived_is_there_whatever_its_number() {
    // The same number with another offset.
    let mut incoming = hears(&[(0, 0, b"0123456789", false), (0, 10, b"end.", true)]);
    let mut out = [0; 99];
    assert!(incoming.is_complete());
    assert_eq!(incoming.read(at(3), &mut out), 13);
    assert_eq!(&out[..13], b"0123456789end");
    assert!(incoming.is_read());
    // The original of the missing packet arrives after its number was forgotten because of many
    // gaps.
    let mut packets: Vec<(u64, u64, &[u8], bool)> = Vec::new();
    for n in 1..1000 {
        packets.push((2 * n, 2 * n, b"xy", false));
    }
    packets.push((1, 0, b"ab", false));
    let mut incoming = hears(&packets);
    let mut out = vec![0; 2000];
    assert_eq!(incoming.read(at(3), &mut out), 2000);
    assert_eq!(&out[..4], b"abxy");
}

#[test]
fn a_receiver_that_is_started_anew_is_noticed_within_a_round_trip() {
    let mut world = under_way("verus", 8);
    let killed = world.now;
    world.listener = listener(killed, 99, Limits::default());
    assert_eq!(world.run(at(120)), Some(End::Forgotten));
    assert!(
        world.now.since(killed) < Span::from_secs(3),
        "{}",
        world.now
    );
}

#[test]
fn a_receiver_that_is_gone_for_good_is_given_up() {
    let mut world = under_way("sprout", 9);
    let killed = world.now;
    world.faults.outages = vec![(killed, at(100_000))];
    assert_eq!(world.run(at(1000)), Some(End::Silent(Span::from_secs(120))));
    assert!(
        world.now.since(killed) < Span::from_secs(125),
        "{}",
        world.now
    );
    // And the receiver gives up as well.
    let id = world.accepted.expect("a connection");
    while world.listener.ended(id).is_none() {
        assert!(world.step() && world.now < at(1000));
    }
    assert_eq!(
        world.listener.ended(id),
        Some(&End::Silent(Span::from_secs(120)))
    );
}

#[test]
fn outages_of_four_and_sixty_seconds_are_survived() {
    for (algorithm, outage) in [
        ("verus", 4),
        ("copa", 4),
        ("sprout", 4),
        ("cubic", 4),
        ("verus", 60),
        ("copa", 60),
        ("sprout", 60),
        ("cubic", 60),
    ] {
        let mut world = under_way(algorithm, 10);
        let (from, most) = (world.now, world.now + Span::from_secs(outage));
        world.faults.outages = vec![(from, most)];
        assert_eq!(world.run(at(400)), None, "{algorithm} {outage}");
        assert!(
            world.outgoing.is_done() && world.got == world.sent,
            "{algorithm} {outage}"
        );
        // Twice the outage: timers double.
        let over = world.now.since(from);
        assert!(
            over < Span::from_secs(outage) * 3 + Span::from_secs(20),
            "{algorithm}: {over}"
        );
    }
}

#[test]
fn any_datagrams_at_any_end_neither_panic_nor_fill_memory() {
    let mut world = under_way("sprout", 11);
    let mut rng = Rng::new(12);
    let seen = world.seen.clone();
    let receiver = id_of(seen.last().expect("data"));
    for n in 0..30_000u64 {
        let mut datagram = seen[rng.below(seen.len() as u64) as usize].clone();
        datagram[1] = rng.below(10) as u8;
        for _ in 0..rng.below(6) {
            let i = rng.below(datagram.len() as u64) as usize;
            datagram[i] = rng.next_u64() as u8;
        }
        datagram.truncate(rng.below(1401) as usize);
        if datagram.len() >= 14 {
            let id = if n % 2 == 0 {
                receiver
            } else {
                world.outgoing.id()
            };
            datagram[0] = 1;
            datagram[6..14].copy_from_slice(&id.to_be_bytes());
        }
        // The type closes or violates too often: those would end the test.
        if datagram.get(1) == Some(&6) {
            continue;
        }
        wire::seal(&mut datagram, 0);
        let now = world.now;
        world.deliver(now, n % 2 == 0, &datagram);
        if n % 64 == 0 {
            world.step();
        }
    }
    // 16 MiB of window, with what stands around it.
    assert!(world.most < (16 << 20) + (1 << 20), "{}", world.most);
    let _ = RECEIVER;
}
