// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Queues that separate flows or drop at random: sequences worked out by hand from the RFCs, and
//! frequencies from the formula.
mod support;

use alcc_link::queue::Enqueue;
use alcc_link::{Direction, DropReason, Ecn, Outcome, Packet, Queue, QueueSpec, RateSpec};
use alcc_units::{Bytes, Rate, Rng, Time};
use support::{link, trace};

fn queue(text: &str) -> Box<dyn Queue> {
    text.parse::<QueueSpec>().unwrap().queue()
}

fn packet(id: u64, flow: u32, len: u64) -> Packet {
    Packet {
        id,
        flow,
        len: Bytes::new(len),
        ecn: Ecn::NotEct,
    }
}

/// Puts packets of `len` of a flow into a queue; the numbers of those that gave way.
fn fill(queue: &mut dyn Queue, flow: u32, len: u64, ids: std::ops::Range<u64>) -> Vec<u64> {
    let mut drops = Vec::new();
    for id in ids {
        let answer = queue.enqueue(
            Time::ZERO,
            packet(id, flow, len),
            &mut Rng::new(1),
            &mut drops,
        );
        assert_eq!(answer, Enqueue::Taken);
    }
    drops.iter().map(|p| p.id).collect()
}

/// The flows of the next `n` packets.
fn flows(queue: &mut dyn Queue, n: usize) -> Vec<u32> {
    (0..n)
        .map_while(|_| queue.dequeue(Time::ZERO, &mut Vec::new()))
        .map(|q| q.packet.flow)
        .collect()
}

fn run(link: &mut Direction, pushes: impl IntoIterator<Item = (u64, Packet)>) -> Vec<Outcome> {
    let mut out = Vec::new();
    for (us, packet) in pushes {
        link.push(Time::from_nanos(us * 1000), packet, &mut out);
    }
    while let Some(at) = link.next_event() {
        link.advance(at, &mut out);
    }
    out
}

/// Whole milliseconds of the departures of a flow.
fn departures(out: &[Outcome], flow: u32) -> Vec<u64> {
    out.iter()
        .filter_map(|o| match o {
            Outcome::Departed { at, packet, .. } if packet.flow == flow => {
                Some(at.as_nanos() / 1_000_000)
            }
            _ => None,
        })
        .collect()
}

/// Queueing delays of a flow's packets that departed in a window of seconds, in ms.
fn delays(out: &[Outcome], flow: u32, from: u64, to: u64) -> Vec<f64> {
    let window = Time::from_millis(from * 1000)..Time::from_millis(to * 1000);
    out.iter()
        .filter_map(|o| match o {
            Outcome::Departed {
                at,
                packet,
                arrived,
            } if packet.flow == flow && window.contains(at) => {
                Some(at.since(*arrived).as_millis_f64())
            }
            _ => None,
        })
        .collect()
}

fn largest(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

// ---- FQ-CoDel (RFC 8290, section 4.2) ----

#[test]
fn fq_codel_shares_by_bytes() {
    // Both are new with 1500 to spend. Flow 1: one full packet. Flow 2: three of 500. Both go to
    // the old list with 1500 more. Flow 1: a full one; its next turn comes after that of flow 2,
    // which has one packet left.
    let q = &mut *queue("fq_codel");
    fill(q, 1, 1500, 0..3);
    fill(q, 2, 500, 3..7);
    assert_eq!(flows(q, 9), [1, 2, 2, 2, 1, 2, 1]);
    assert!(q.is_empty());
}

#[test]
fn fq_codel_lets_a_new_flow_go_first_but_not_again_at_once() {
    let q = &mut *queue("fq_codel");
    for flow in [1, 2, 4] {
        fill(q, flow, 1500, 0..4);
    }
    // each has had its turn as a new one, 1 its first as an old one
    assert_eq!(flows(q, 4), [1, 2, 4, 1]);
    fill(q, 3, 100, 0..1);
    assert_eq!(flows(q, 1), [3]);
    // 3 is found empty: it goes behind 4, not out, and what comes now waits there
    assert_eq!(flows(q, 1), [2]);
    fill(q, 3, 100, 1..2);
    assert_eq!(flows(q, 3), [4, 3, 1]);
    // in the old list it is found empty again, and is new once more
    fill(q, 3, 100, 2..3);
    assert_eq!(flows(q, 2), [3, 2]);
}

#[test]
fn fq_codel_when_full_drops_half_of_the_longest_from_its_head() {
    let q = &mut *queue("fq_codel:packets=4");
    assert!(fill(q, 1, 1500, 0..3).is_empty());
    assert!(fill(q, 2, 500, 3..4).is_empty());
    // a fifth: 1 has 4500 of 5500 bytes. Half is 2250: two packets.
    assert_eq!(fill(q, 2, 500, 4..5), [0, 1]);
    assert_eq!((q.len(), q.bytes()), (3, Bytes::new(2500)));
    // at most 64 at a time: 200 packets fill it, the 201st makes room for 64
    let q = &mut *queue("fq_codel:packets=200");
    assert!(fill(q, 1, 1500, 0..200).is_empty());
    assert_eq!(fill(q, 2, 40, 200..201), (0..64).collect::<Vec<_>>());
    // the packet discarded may be the one that arrives
    let q = &mut *queue("fq_codel:bytes=1000");
    assert_eq!(fill(q, 1, 1500, 0..1), [0]);
    assert!(q.is_empty());
    // and the link calls it an overflow
    let mut link = link(trace(&[100]), "fq_codel:packets=2");
    let out = run(&mut link, (0..3).map(|id| (10, packet(id, 1, 1500))));
    let dropped: Vec<_> = out
        .iter()
        .filter_map(|o| match o {
            Outcome::Dropped { packet, why, .. } => Some((packet.id, *why)),
            _ => None,
        })
        .collect();
    assert_eq!(
        dropped,
        [(0, DropReason::Overflow), (1, DropReason::Overflow)]
    );
}

#[test]
fn fq_codel_with_one_flow_is_codel_and_spares_the_others() {
    // The drops of codel's vector: 105, 205, 276, ... (vectors.rs)
    let mut alone = link(trace(&[1]), "fq_codel");
    let out = run(&mut alone, (1..=1000).map(|id| (0, packet(id, 7, 1500))));
    let at: Vec<_> = out
        .iter()
        .filter_map(|o| match o {
            Outcome::Dropped { at, .. } => Some(at.as_nanos() / 1_000_000),
            _ => None,
        })
        .collect();
    assert_eq!(at[..7], [105, 205, 276, 334, 384, 429, 469]);
    // Beside 1500 packets of flow 7 one of flow 8 each 10 ms: always new, so it takes the next
    // opportunity.
    let mut beside = link(trace(&[1]), "fq_codel");
    let mut pushes: Vec<_> = (0..1500).map(|id| (0, packet(id, 7, 1500))).collect();
    pushes.extend((1..100).map(|n| (n * 10_000 + 500, packet(2000 + n, 8, 1500))));
    let out = run(&mut beside, pushes);
    let waits = delays(&out, 8, 0, 10);
    assert_eq!(waits.len(), 99);
    assert!(waits.iter().all(|ms| *ms == 0.5), "{waits:?}");
}

// ---- users behind a scheduler ----

#[test]
fn users_have_the_channel_slot_by_slot() {
    // Two opportunities in each ms. User 0 has three packets, user 1 five: slots 0, 1, 0; in its
    // second slot user 0 has no more data, and user 1 gets the rest.
    let mut cell = link(trace(&[1, 1]), "users");
    let pushes = (0..8).map(|id| (10, packet(id, u32::from(id >= 3), 1500)));
    let out = run(&mut cell, pushes);
    assert_eq!(departures(&out, 0), [1, 1, 3]);
    assert_eq!(departures(&out, 1), [2, 2, 3, 4, 4]);
    // slots of 2 ms begin at even ones: 0 has ms 1 and 4, 5; 1 has 2, 3 and 6, 7
    let mut cell = link(trace(&[1]), "users:slot=2ms");
    let pushes = (0..7).map(|id| (10, packet(id, (id % 2) as u32, 1500)));
    let out = run(&mut cell, pushes);
    assert_eq!(departures(&out, 0), [1, 4, 5, 7]);
    assert_eq!(departures(&out, 1), [2, 3, 6]);
}

#[test]
fn a_user_fills_only_his_own_queue() {
    let mut cell = link(trace(&[100]), "users:user-packets=2,packets=5");
    let pushes = (0..9).map(|id| (10, packet(id, (id / 3) as u32, 1500)));
    let out = run(&mut cell, pushes);
    let dropped: Vec<_> = out
        .iter()
        .filter_map(|o| match o {
            Outcome::Dropped { packet, .. } => Some(packet.id),
            _ => None,
        })
        .collect();
    // the third of each; of the last user only one fits into what all may have
    assert_eq!(dropped, [2, 5, 7, 8]);
}

#[test]
fn proportional_fair_prefers_the_user_that_was_silent() {
    // One opportunity each ms, window 100 ms: averages fade by q = e^-0.01 each slot. 0 has been
    // served alone for a second: S = 1 / (1 - q). Then 1 has plenty. In the n-th slot S q^n stands
    // against (q - q^n) / (1 - q): 0 is chosen again when q^n < q / 2, n > 1 + 69.3: in slot 71.
    let mut cell = link(trace(&[1]), "users:scheduler=pf,window=100ms");
    let mut pushes: Vec<_> = (0..2000).map(|id| (10, packet(id, 0, 1500))).collect();
    pushes.extend((0..500).map(|id| (1_000_500, packet(5000 + id, 1, 1500))));
    let out = run(&mut cell, pushes);
    let second = departures(&out, 1);
    assert_eq!(second[..70], (1001..=1070).collect::<Vec<_>>());
    assert_eq!(second[70..75], [1072, 1074, 1076, 1078, 1080]);
}

#[test]
fn another_user_costs_capacity_and_nothing_else() {
    // 12 Mbit/s; user 0 sends 5, user 1 sends 10 in the seconds 2 to 4. Shared, first in, first
    // out: 15 Mbit/s into 12, so that a packet that departs at 4 s arrived at 3.6, 400 ms before.
    // A cell: user 0 has half, 6 Mbit/s, when user 1 is there: it waits for the other's slot and
    // the packet in service, 2 ms, and for a slot in which 2 of its packets were due.
    let sources = || {
        let mut pushes = Vec::new();
        pushes.extend((0..2500).map(|n| (n * 2400, packet(n, 0, 1500))));
        pushes.extend((0..1666).map(|n| (2_000_000 + n * 1200, packet(10_000 + n, 1, 1500))));
        pushes.sort_by_key(|p: &(u64, Packet)| p.0);
        pushes
    };
    let worst = |queue: &str| {
        let mut link = link(RateSpec::Fixed(Rate::mbps(12)), queue);
        let out = run(&mut link, sources());
        [(0, 2), (2, 4)].map(|(from, to)| largest(&delays(&out, 0, from, to)))
    };
    let shared = worst("droptail");
    assert!(
        shared[0] <= 1.0 && (shared[1] - 400.0).abs() < 3.0,
        "{shared:?}"
    );
    // Proportional fair: when user 1 comes, user 0 has been served 5 Mbit/s for long. User 1 goes
    // first until 12 (1 - q) = 5 q, q = e^(-t / 100 ms): for 35 ms.
    for (queue, most) in [("users", 3.1), ("users:scheduler=pf", 36.0)] {
        let cell = worst(queue);
        assert!(cell[0] <= 1.0, "{cell:?}");
        assert!(cell[1] > 0.5 * most && cell[1] < most, "{queue}: {cell:?}");
    }
}

// ---- RED's curve ----

const DRAWS: u32 = 200_000;

/// Number of packets out of `DRAWS` of length `len` that RED drops, with `waiting` such packets in
/// the queue. With a weight of 1 the average equals the queue.
fn red_drops(options: &str, waiting: usize, len: u64) -> f64 {
    let mut q = queue(&format!("red:weight=1{options}"));
    let mut rng = Rng::new(waiting as u64 + len);
    let mut none = Vec::new();
    for _ in 0..10 * waiting {
        if q.len() < waiting {
            q.enqueue(Time::ZERO, packet(0, 0, len), &mut rng, &mut none);
        }
    }
    assert_eq!(q.len(), waiting);
    let mut dropped = 0;
    for _ in 0..DRAWS {
        match q.enqueue(Time::ZERO, packet(1, 0, len), &mut rng, &mut none) {
            Enqueue::Refused(why) => {
                assert_eq!(why, DropReason::Aqm);
                dropped += 1;
            }
            Enqueue::Taken => assert!(q.dequeue(Time::ZERO, &mut none).is_some()),
        }
    }
    f64::from(dropped)
}

#[test]
fn red_drops_as_often_as_its_formula_says() {
    // The papers' queue: 0 at 375,000 bytes, 10 % at 1,125,000, for 1500 bytes; half of it for 750.
    // Each draw by itself: binomial, and four standard deviations are allowed.
    let n = f64::from(DRAWS);
    for (packets, len) in [
        (300, 1500),
        (400, 1500),
        (700, 1500),
        (749, 1500),
        (600, 750),
        (1400, 750),
    ] {
        let average = (packets as u64 * len) as f64;
        let p = 0.1 * (average - 375_000.0) / 750_000.0 * len as f64 / 1500.0;
        let drops = red_drops(",spacing=no", packets, len);
        let sd = (n * p * (1.0 - p)).sqrt();
        assert!(
            (drops - n * p).abs() < 4.0 * sd,
            "{packets} x {len}: {drops} for {}",
            n * p
        );
    }
    // Spread evenly: the gap is uniform on 1..=1/p, with mean (1 + 1/p) / 2. 2 % at 525,000 bytes,
    // 5 % at 750,000.
    for (packets, steps) in [(350, 50.0), (500, 20.0)] {
        let gap = (1.0 + steps) / 2.0;
        let sd = ((steps * steps - 1.0) / 12.0_f64).sqrt() / gap * (n / gap).sqrt();
        let drops = red_drops("", packets, 1500);
        assert!(
            (drops - n / gap).abs() < 4.0 * sd,
            "{packets}: {drops} for {}",
            n / gap
        );
    }
    // nothing below the lower threshold, everything from the upper one on
    assert_eq!(red_drops("", 249, 1500), 0.0);
    assert_eq!(red_drops("", 750, 1500), n);
}

#[test]
fn red_of_the_cs244_report_differs_in_two_things() {
    // Drops are not spread: at 5 % half of the gaps are below 14, and some beyond the 20 that
    // spacing would allow.
    let n = f64::from(DRAWS);
    let drops = red_drops(",profile=cs244", 500, 1500);
    assert!(
        (drops - n * 0.05).abs() < 4.0 * (n * 0.05 * 0.95).sqrt(),
        "{drops}"
    );
    // And an empty queue forgets: 1 ms is 800 steps of 0.998, e^-1.6 = 0.2. Weight 1/2 shows it: 10
    // ms are 8000 halvings, where the paper's has 10 of them, and a queue that was at 100 packets
    // would still be at 0.1.
    for (profile, remembers) in [("paper", true), ("cs244", false)] {
        let mut q = queue(&format!(
            "red:min=10,max=20,weight=0.5,p=1,profile={profile}"
        ));
        let (mut rng, mut none) = (Rng::new(1), Vec::new());
        let mut at = |ms, q: &mut dyn Queue| {
            q.enqueue(
                Time::from_millis(ms),
                packet(0, 0, 1500),
                &mut rng,
                &mut none,
            )
        };
        // the first finds nothing, the second an average of 750: everything is dropped
        assert_eq!(at(0, &mut *q), Enqueue::Taken);
        assert_eq!(at(0, &mut *q), Enqueue::Refused(DropReason::Aqm));
        q.dequeue(Time::ZERO, &mut Vec::new());
        // 750 / 2^5 = 23 is above max, 750 / 2^4000 is nothing
        let refused = at(5, &mut *q) != Enqueue::Taken;
        assert_eq!(refused, remembers, "{profile}");
    }
}

// ---- PIE at work ----

#[test]
fn pie_holds_its_target_against_too_much() {
    // 12 Mbit/s, and a packet every 0.9 ms, which is 13.3 Mbit/s: a tenth has to be dropped, and
    // the delay settles at the target of 15 ms.
    let mut link = link(RateSpec::Fixed(Rate::mbps(12)), "pie");
    let out = run(
        &mut link,
        (0..30_000).map(|id| (id * 900, packet(id, 0, 1500))),
    );
    let late: Vec<_> = delays(&out, 0, 10, 27);
    assert!((mean(&late) - 15.0).abs() < 1.5, "{}", mean(&late));
    let lost = out
        .iter()
        .filter(|o| matches!(o, Outcome::Dropped { at, .. } if *at >= Time::from_millis(10_000)));
    let share = lost.count() as f64 / (17_000.0 / 0.9);
    assert!((share - 0.1).abs() < 0.005, "{share}");
}

// ---- the shaper ----

#[test]
fn a_shaper_lets_a_burst_pass_and_the_rest_wait() {
    // Six packets at once, a burst of two, 1500 B every 12 ms, without a rate and at 12 Mbit/s.
    for (rate, on_the_link) in [
        (RateSpec::Unlimited, 0),
        (RateSpec::Fixed(Rate::mbps(12)), 1),
    ] {
        let mut link = link(rate, "shaper:rate=1mbit,burst=3000");
        let out = run(&mut link, (0..6).map(|id| (0, packet(id, 0, 1500))));
        let departed = delays(&out, 0, 0, 1);
        let first = on_the_link as f64;
        let expected = [
            first,
            2.0 * first,
            12.0 + first,
            24.0 + first,
            36.0 + first,
            48.0 + first,
        ];
        assert_eq!(departed.len(), expected.len());
        for (found, expected) in departed.iter().zip(expected) {
            assert!((found - expected).abs() < 1e-6, "{departed:?}");
        }
    }
}

#[test]
fn a_shapers_rate_has_a_unit_or_none_and_bounds() {
    let error = |text: &str| text.parse::<QueueSpec>().unwrap_err().to_string();
    for text in ["shaper:rate=1000000", "policer:rate=1gbit"] {
        assert_eq!(text.parse::<QueueSpec>().unwrap().to_string(), text);
    }
    for text in ["shaper:rate=10bit", "shaper:rate=fast", "shaper:rate=1"] {
        assert!(
            error(text).ends_with("expected a rate from 1kbit to 1000gbit, such as 10mbit"),
            "{text}"
        );
    }
}

#[test]
fn a_packet_larger_than_the_burst_passes_a_shaper() {
    let mut link = link(RateSpec::Unlimited, "shaper:rate=1000000,burst=1500");
    let out = run(
        &mut link,
        [(0, packet(0, 0, 9000)), (0, packet(1, 0, 1500))],
    );
    assert_eq!(delays(&out, 0, 0, 1), [0.0, 12.0]);
}
