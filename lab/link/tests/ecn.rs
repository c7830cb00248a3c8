// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Marks instead of drops, for packets whose sender understands them (RFC 3168).
use alcc_link::queue::Enqueue;
use alcc_link::{DropReason, Ecn, Packet, Queue, QueueSpec};
use alcc_units::{Bytes, Rng, Time};

fn queue(text: &str) -> Box<dyn Queue> {
    text.parse::<QueueSpec>().unwrap().queue()
}

fn packet(id: u64, ecn: Ecn) -> Packet {
    Packet {
        id,
        flow: 0,
        len: Bytes::new(1500),
        ecn,
    }
}

/// The actions at one moment: packets marked, and dropped.
type Deed = (u64, u64);

/// Twenty packets that have waited since 0; what a look at each of these times does.
fn heads(spec: &str, ecn: Ecn, times: &[u64]) -> Vec<Deed> {
    let mut queue = queue(spec);
    for id in 0..20 {
        let answer = queue.enqueue(
            Time::ZERO,
            packet(id, ecn),
            &mut Rng::new(1),
            &mut Vec::new(),
        );
        assert_eq!(answer, Enqueue::Taken);
    }
    let look = |ms: &u64| {
        let mut drops = Vec::new();
        let departed = queue.dequeue(Time::from_millis(*ms), &mut drops).unwrap();
        (
            u64::from(departed.packet.ecn == Ecn::Ce),
            drops.len() as u64,
        )
    };
    times.iter().map(look).collect()
}

/// The first mark an interval after the first packet above target, the next ones 100 ms / sqrt(n)
/// apart: 205, 275.7, 333.4.
#[test]
fn codel_marks_at_the_times_at_which_it_would_drop() {
    let times = [5, 104, 105, 204, 205, 275, 276, 333, 334];
    let acts = [0, 0, 1, 0, 1, 0, 1, 0, 1];
    for spec in ["codel", "fq_codel"] {
        for ecn in [Ecn::Ect0, Ecn::Ect1] {
            assert_eq!(heads(spec, ecn, &times), acts.map(|n| (n, 0)), "{spec}");
        }
        assert_eq!(
            heads(spec, Ecn::NotEct, &times),
            acts.map(|n| (0, n)),
            "{spec}"
        );
        let off = format!("{spec}:ecn=no");
        assert_eq!(
            heads(&off, Ecn::Ect0, &times),
            acts.map(|n| (0, n)),
            "{off}"
        );
    }
}

/// The results of arriving packets: marked, dropped by management, let through. A packet departs
/// after every other arrival.
fn arrivals(spec: &str, ecn: Ecn, n: u64) -> [u64; 3] {
    let (mut queue, mut rng) = (queue(spec), Rng::new(7));
    let mut seen = [0; 3];
    let mut marked = 0;
    for id in 0..n {
        let now = Time::from_millis(id);
        match queue.enqueue(now, packet(id, ecn), &mut rng, &mut Vec::new()) {
            Enqueue::Refused(why) => {
                assert_eq!(why, DropReason::Aqm);
                seen[1] += 1;
            }
            Enqueue::Taken => seen[2] += 1,
        }
        let departed = (id % 2 == 0).then(|| queue.dequeue(now, &mut Vec::new()));
        marked += u64::from(departed.flatten().is_some_and(|q| q.packet.ecn == Ecn::Ce));
    }
    while let Some(departed) = queue.dequeue(Time::from_millis(n), &mut Vec::new()) {
        marked += u64::from(departed.packet.ecn == Ecn::Ce);
    }
    seen[0] = marked;
    seen[2] -= marked;
    seen
}

/// The average is the queue itself here: 200 arrivals, of which a half stay, bring it to 150 kB,
/// between the thresholds.
#[test]
fn red_marks_between_its_thresholds_and_drops_above() {
    let between = "red:min=15000,max=300000,weight=1,p=0.5";
    let [marked, dropped, _] = arrivals(between, Ecn::Ect0, 200);
    assert!(
        marked > 5 && dropped == 0,
        "{marked} marked, {dropped} dropped"
    );
    let [marked, dropped, _] = arrivals(between, Ecn::NotEct, 200);
    assert!(
        marked == 0 && dropped > 5,
        "{marked} marked, {dropped} dropped"
    );
    let [marked, dropped, _] = arrivals(&format!("{between},ecn=no"), Ecn::Ect0, 200);
    assert!(
        marked == 0 && dropped > 5,
        "{marked} marked, {dropped} dropped"
    );
    let above = "red:min=1500,max=30000,weight=1,p=0.0001";
    let [marked, dropped, _] = arrivals(above, Ecn::Ect0, 400);
    assert!(
        marked == 0 && dropped > 100,
        "{marked} marked, {dropped} dropped"
    );
}

/// Arrivals at twice the rate of departures: the probability passes 10 %, and from then on even
/// packets that may be marked are dropped.
#[test]
fn pie_marks_up_to_ten_per_cent_and_drops_from_there() {
    let early = (1..100).map(|n| arrivals("pie", Ecn::Ect0, n * 10));
    let first = early
        .into_iter()
        .find(|[marked, dropped, _]| marked + dropped > 0);
    assert!(
        first.is_some_and(|[marked, dropped, _]| marked > 0 && dropped == 0),
        "{first:?}"
    );
    let [marked, dropped, _] = arrivals("pie", Ecn::Ect0, 5_000);
    assert!(
        marked > 0 && dropped > 100,
        "{marked} marked, {dropped} dropped"
    );
    for spec in [("pie", Ecn::NotEct), ("pie:ecn=no", Ecn::Ect0)] {
        let [marked, dropped, _] = arrivals(spec.0, spec.1, 5_000);
        assert!(
            marked == 0 && dropped > 100,
            "{marked} marked, {dropped} dropped"
        );
    }
}
