// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use alcc_cc::Spec;

const MSS: Bytes = Bytes::new(1000);

fn share(algorithm: &str) -> Share {
    let spec: Spec = algorithm.parse().unwrap();
    Share::new(alcc_zoo::registry().build(&spec).unwrap())
}

/// A member as its host has it.
fn member(share: &Share) -> Feed {
    let mut feed = Feed::new(share.join(), Time::ZERO);
    feed.start(&Path {
        mss: MSS,
        rtt_hint: None,
        seed: 1,
    });
    feed
}

fn send(feed: &mut Feed, pn: Pn, in_flight_before: Bytes, app_limited: bool) {
    feed.sent(&Sent {
        pn,
        len: MSS,
        in_flight_before,
        kind: alcc_cc::Kind::New,
        app_limited,
    });
}

#[test]
fn a_window_is_divided_among_members_with_data() {
    let share = share("fixed:window=12");
    let mut flows = [member(&share), member(&share), member(&share)];
    let more = MSS * ROUNDING;
    let alone = flows[0].allowance().window;
    for flow in &mut flows {
        send(flow, 1, Bytes::ZERO, false);
    }
    let third = Bytes::new(alone.get() / 3);
    assert_eq!(flows[0].allowance().window, third + more);
    // One has no more data: what it has in flight stays its own.
    send(&mut flows[2], 2, MSS, true);
    let rest = alone.saturating_sub(MSS * 2);
    let half = Bytes::new(rest.get() / 2);
    assert_eq!(flows[0].allowance().window, half + more);
    // One is gone.
    let [first, second, _] = flows;
    drop(second);
    assert_eq!(first.allowance().window, rest);
}

#[test]
fn members_together_never_exceed_the_window_but_for_a_segment_each() {
    let share = share("fixed:window=8");
    let mut flows: Vec<Feed> = (0..4).map(|_| member(&share)).collect();
    let all = flows[0].allowance().window;
    let mut sent = [Bytes::ZERO; 4];
    for pn in 1..100 {
        for (flow, sent) in flows.iter_mut().zip(&mut sent) {
            if *sent + MSS <= flow.allowance().window {
                send(flow, pn, *sent, false);
                *sent += MSS;
            }
        }
    }
    let total: Bytes = sent.iter().copied().sum();
    assert!(total <= all + MSS * 4, "{sent:?} of {all:?}");
    assert!(sent.iter().all(|sent| *sent > Bytes::ZERO), "{sent:?}");
}

/// A host counts acknowledged packets before it reports them, and sends as many again.
#[test]
fn members_above_the_window_together_replace_nothing() {
    let share = share("fixed:window=8");
    let mut flows: Vec<Feed> = (0..2).map(|_| member(&share)).collect();
    for pn in 1..=4 {
        let before = MSS * (pn - 1);
        flows
            .iter_mut()
            .for_each(|flow| send(flow, pn, before, false));
    }
    assert_eq!(flows[0].allowance().window, MSS * 4);
    // Two members with nothing in flight may send a first segment.
    let mut asking: Vec<Feed> = (0..2).map(|_| member(&share)).collect();
    for flow in &mut asking {
        assert_eq!(flow.allowance().window, MSS);
        send(flow, 1, Bytes::ZERO, false);
    }
    assert_eq!(flows[0].allowance().window, MSS * 2);
}

#[test]
fn a_member_that_joins_an_empty_group_starts_afresh() {
    let mut shares = Shares::new();
    let mut join = |key: u32| {
        let spec: Spec = "reno".parse().unwrap();
        let cc = alcc_zoo::registry().build(&spec).unwrap();
        let mut feed = Feed::new(shares.join(key, cc, || None), Time::ZERO);
        feed.start(&Path {
            mss: MSS,
            rtt_hint: None,
            seed: 1,
        });
        feed
    };
    let (mut a, b, other) = (join(1), join(1), join(2));
    let first = other.allowance().window;
    send(&mut a, 1, Bytes::ZERO, false);
    // A part of one, and all of another.
    assert!(b.allowance().window < first);
    drop((a, b));
    assert_eq!(join(1).allowance().window, first);
    // Former members are not kept.
    for key in 10..1_000 {
        drop(join(key));
    }
    assert!(shares.by_key.len() <= FEW, "{}", shares.by_key.len());
}

/// The first packet that a member has sent.
fn first() -> Packet {
    Packet {
        pn: 1,
        len: MSS,
        sent_at: Time::ZERO,
        tag: Tag::default(),
        stamp: alcc_cc::Stamp::default(),
        rtt: None,
        kind: alcc_cc::Kind::New,
    }
}

#[test]
fn losses_of_two_members_in_one_flight_are_one_reduction() {
    let share = share("reno");
    let (mut a, mut b) = (member(&share), member(&share));
    let both = a.allowance().window;
    let mut lost = Vec::new();
    for flow in [&mut a, &mut b] {
        send(flow, 1, Bytes::ZERO, false);
        lost.push(first());
    }
    let rtt = RttEstimator::default().view();
    a.advance(Time::ZERO + Span::from_millis(50));
    b.advance(Time::ZERO + Span::from_millis(50));
    a.lost(&lost[..1], true, Bytes::ZERO, rtt);
    b.lost(&lost[1..], true, Bytes::ZERO, rtt);
    drop(b);
    assert_eq!(a.allowance().window, Bytes::new(both.get() / 2));
}

/// The last reports of two processes.
#[derive(Clone, Default)]
struct Words(Arc<Mutex<[Option<Tally>; 2]>>);

struct Door(Words, usize);

impl Elsewhere for Door {
    fn tell(&mut self, own: &Tally) {
        self.0.0.lock().unwrap()[self.1] = Some(*own);
    }

    fn hear(&mut self, _: Time, put: &mut dyn FnMut(u64, Tally)) {
        let other = 1 - self.1;
        if let Some(tally) = self.0.0.lock().unwrap()[other] {
            put(other as u64, tally);
        }
    }
}

impl Words {
    fn share(&self, process: usize, algorithm: &str) -> Share {
        let spec: Spec = algorithm.parse().unwrap();
        let cc = alcc_zoo::registry().build(&spec).unwrap();
        Share::among(cc, Some(Box::new(Door(self.clone(), process))))
    }

    fn forget(&self, process: usize) {
        self.0.lock().unwrap()[process] = None;
    }
}

#[test]
fn a_window_is_divided_among_processes_until_one_is_silent() {
    let words = Words::default();
    let (here, there) = (
        words.share(0, "fixed:window=12"),
        words.share(1, "fixed:window=12"),
    );
    let (mut a, mut b, mut c) = (member(&here), member(&there), member(&there));
    let alone = a.allowance().window;
    for flow in [&mut b, &mut c, &mut a] {
        send(flow, 1, Bytes::ZERO, false);
    }
    let third = Bytes::new(alone.get() / 3) + MSS * ROUNDING;
    assert_eq!(a.allowance().window, third);
    // Its data in flight belongs to no member any more.
    words.forget(1);
    send(&mut a, 2, MSS, false);
    assert_eq!(a.allowance().window, alone);
}

#[test]
fn a_loss_in_another_process_is_ours() {
    let words = Words::default();
    let (here, there) = (words.share(0, "reno"), words.share(1, "reno"));
    let (mut a, mut b) = (member(&here), member(&there));
    let both = a.allowance().window;
    send(&mut b, 1, Bytes::ZERO, false);
    send(&mut a, 1, Bytes::ZERO, false);
    let rtt = RttEstimator::default().view();
    b.lost(&[first()], true, Bytes::ZERO, rtt);
    send(&mut a, 2, MSS, false);
    // So far the mean of both applied; now only our own allowance does.
    drop(b);
    words.forget(1);
    send(&mut a, 3, MSS * 2, false);
    assert_eq!(a.allowance().window, Bytes::new(both.get() / 2));
}

/// Another process may write anything.
#[test]
fn untrue_words_do_no_harm() {
    let words = Words::default();
    let here = words.share(0, "cubic");
    let mut a = member(&here);
    send(&mut a, 1, Bytes::ZERO, false);
    for (n, most) in [u64::MAX, 1, u64::MAX / 2, 0].into_iter().enumerate() {
        words.0.lock().unwrap()[1] = Some(Tally {
            at: Time::ZERO + Span::from_millis(most % 1_000_000),
            sent: most,
            acked: most / 3,
            lost: most / 5,
            abandoned: most,
            backlogged: most,
            rtt: Some(Span::from_nanos(most)),
            window: Bytes::new(most),
            rate: Some(Rate::bps(most)),
        });
        send(&mut a, 2 + n as Pn, MSS, false);
        assert!(a.allowance().window >= MSS);
    }
    words.forget(1);
    send(&mut a, 9, MSS, false);
    assert!(a.allowance().window >= MSS * 4);
}
