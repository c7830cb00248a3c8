// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;

impl Ledger {
    fn acknowledged(&mut self, since: Time, now: Time, acked: u64, floor: Span) -> &[Packet] {
        self.stamped(since, &[], now, acked, floor);
        &self.returned
    }

    fn delivered(&self) -> Bytes {
        self.delivery.total()
    }
}
use proptest::prelude::*;

const MSS: Bytes = Bytes::new(1448);

fn wrote(ledger: &mut Ledger, ms: u64, len: u64) {
    ledger.wrote(
        Time::from_millis(ms),
        Bytes::new(len),
        MSS,
        false,
        |pn, _, _| Tag(pn),
    );
}

#[test]
fn acknowledgements_cover_whole_packets_and_fractions_wait() {
    // Acknowledgements that do not fall on packet boundaries: the original loses the fraction.
    let mut ledger = Ledger::new(Time::ZERO, 1000, 1000);
    wrote(&mut ledger, 0, 1448);
    wrote(&mut ledger, 0, 1448);
    let ends = |packets: &[Packet]| packets.iter().map(|p| p.tag.0).collect::<Vec<_>>();
    let at = |ms| (Time::from_millis(ms - 5), Time::from_millis(ms));
    let (a, b) = at(40);
    assert_eq!(ends(ledger.acknowledged(a, b, 2448, Span::ZERO)), [0]);
    let (a, b) = at(45);
    assert_eq!(
        ends(ledger.acknowledged(a, b, 3000, Span::ZERO)),
        Vec::<u64>::new()
    );
    let (a, b) = at(50);
    assert_eq!(ends(ledger.acknowledged(a, b, 3896, Span::ZERO)), [1]);
    assert_eq!(ledger.in_flight(), Bytes::ZERO);
}

#[test]
fn small_writes_leave_nothing_in_flight() {
    // Twenty writes of 100 bytes: the original counts each as a packet of 1448 and leaks 19 of
    // them.
    let mut ledger = Ledger::new(Time::ZERO, 0, 0);
    (0..20).for_each(|_| wrote(&mut ledger, 0, 100));
    assert_eq!(
        ledger
            .acknowledged(Time::ZERO, Time::from_millis(40), 2000, Span::ZERO)
            .len(),
        20
    );
    assert_eq!(ledger.in_flight(), Bytes::ZERO);
}

#[test]
fn rtt_samples_are_spread_over_the_reading_interval() {
    let mut ledger = Ledger::new(Time::ZERO, 0, 0);
    wrote(&mut ledger, 10, 2 * 1448);
    let rtt = |p: &Packet| p.rtt.unwrap().as_millis_f64();
    let got = ledger.acknowledged(
        Time::from_millis(50),
        Time::from_millis(54),
        2 * 1448,
        Span::from_millis(40),
    );
    assert_eq!(got.iter().map(rtt).collect::<Vec<_>>(), [42.0, 44.0]);
}

#[test]
fn without_a_smallest_rtt_all_came_at_the_end_of_the_interval() {
    // The interval began before anything was sent: spread over it, the first sample would be 0.
    let mut ledger = Ledger::new(Time::ZERO, 0, 0);
    wrote(&mut ledger, 10, 2 * 1448);
    let rtt = |p: &Packet| p.rtt.unwrap().as_millis_f64();
    let (since, at) = (Time::ZERO, Time::from_millis(54));
    let got = ledger.acknowledged(since, at, 2 * 1448, Span::ZERO);
    assert_eq!(got.iter().map(rtt).collect::<Vec<_>>(), [44.0, 44.0]);
}

#[test]
fn a_sample_is_never_below_the_floor_and_repair_gives_none() {
    let mut ledger = Ledger::new(Time::ZERO, 0, 0);
    wrote(&mut ledger, 0, 1448);
    let got = ledger.acknowledged(
        Time::ZERO,
        Time::from_millis(40),
        1448,
        Span::from_millis(41),
    );
    assert_eq!(got[0].rtt, Some(Span::from_millis(41)));
    wrote(&mut ledger, 50, 1448);
    ledger.mark_ambiguous();
    wrote(&mut ledger, 60, 1448);
    let got = ledger.acknowledged(
        Time::from_millis(300),
        Time::from_millis(301),
        3 * 1448,
        Span::ZERO,
    );
    assert_eq!(
        got.iter().map(|p| p.rtt.is_some()).collect::<Vec<_>>(),
        [false, true]
    );
}

fn stamps(list: &[(u64, u64)]) -> Vec<AckStamp> {
    list.iter()
        .map(|&(acked, ms)| AckStamp {
            acked,
            at: Time::from_millis(ms),
        })
        .collect()
}

#[test]
fn a_packet_that_ends_at_a_stamp_has_its_time() {
    // Four packets sent at 10 ms; the reading at 60 ms brings the times of three positions, and the
    // counter covers all.
    let mut ledger = Ledger::new(Time::ZERO, 0, 0);
    wrote(&mut ledger, 10, 4 * 1448);
    let known = stamps(&[(1448, 51), (2896, 53), (4344, 58)]);
    let (since, now) = (Time::from_millis(50), Time::from_millis(60));
    let error = ledger.stamped(since, &known, now, 4344, Span::ZERO);
    let rtt = |p: &Packet| p.rtt.unwrap().as_millis_f64();
    assert_eq!(
        ledger.returned().iter().map(rtt).collect::<Vec<_>>(),
        [41.0, 43.0, 48.0]
    );
    assert_eq!(error, Span::ZERO);
    // The fourth is known by the counter alone: somewhere between two readings.
    let error = ledger.stamped(now, &[], Time::from_millis(64), 4 * 1448, Span::ZERO);
    assert_eq!(
        (rtt(&ledger.returned()[0]), error),
        (54.0, Span::from_millis(4))
    );
}

#[test]
fn a_lost_stamp_is_covered_by_the_next() {
    // Two packets behind one stamp: the first lies half way, which the bound includes.
    let mut ledger = Ledger::new(Time::ZERO, 0, 0);
    wrote(&mut ledger, 0, 2 * 1448);
    let error = ledger.stamped(
        Time::from_millis(40),
        &stamps(&[(2896, 44)]),
        Time::from_millis(50),
        2896,
        Span::from_millis(40),
    );
    let rtt = |p: &Packet| p.rtt.unwrap().as_millis_f64();
    assert_eq!(
        ledger.returned().iter().map(rtt).collect::<Vec<_>>(),
        [42.0, 44.0]
    );
    assert_eq!(error, Span::from_millis(4));
}

#[test]
fn stamps_from_outside_the_interval_or_out_of_order_travel_no_time() {
    let mut ledger = Ledger::new(Time::ZERO, 0, 0);
    wrote(&mut ledger, 30, 3 * 1448);
    // Before the last reading, after now, and one that goes back.
    let known = stamps(&[(1448, 5), (2896, 99), (1000, 45)]);
    let (since, now) = (Time::from_millis(50), Time::from_millis(60));
    ledger.stamped(since, &known, now, 3 * 1448, Span::ZERO);
    let rtt = |p: &Packet| p.rtt.unwrap().as_millis_f64();
    assert_eq!(
        ledger.returned().iter().map(rtt).collect::<Vec<_>>(),
        [20.0, 30.0, 30.0]
    );
    assert_eq!(ledger.in_flight(), Bytes::ZERO);
}

#[test]
fn bytes_that_went_past_us_are_adopted() {
    let mut ledger = Ledger::new(Time::ZERO, 500, 100);
    assert_eq!(ledger.in_flight(), Bytes::new(400));
    ledger.adopt(Time::from_millis(1), 900);
    assert_eq!(ledger.in_flight(), Bytes::new(800));
    let got = ledger.acknowledged(Time::ZERO, Time::from_millis(40), 900, Span::ZERO);
    assert!(got.iter().all(|p| p.rtt.is_none()) && got.len() == 2);
}

#[test]
fn nine_gigabytes_are_acknowledged_once_each() {
    let mut ledger = Ledger::new(Time::ZERO, 0, 0);
    let (mut sent, mut back) = (0u64, 0u64);
    while sent < 9 << 30 {
        wrote(&mut ledger, 0, 64 << 20);
        sent += 64 << 20;
        back += ledger
            .acknowledged(Time::ZERO, Time::from_millis(1), sent, Span::ZERO)
            .iter()
            .map(|p| p.len.get())
            .sum::<u64>();
    }
    assert_eq!((back, ledger.in_flight()), (sent, Bytes::ZERO));
}

#[test]
fn a_program_that_writes_byte_by_byte_does_not_fill_the_memory() {
    let mut ledger = Ledger::new(Time::ZERO, 0, 0);
    let (mut back, mut pn) = (0, 0);
    for round in 1..=3u64 {
        for i in 0..1_000_000 {
            wrote(&mut ledger, i / 1000, 1);
        }
        assert!(ledger.records.len() < 4 * MAX_RECORDS as usize);
        assert!(size_of::<Record>() <= 48);
        // A third stays in flight.
        let acked = round * 1_000_000 - 333_333;
        let at = Time::from_millis(1000 + round);
        for packet in ledger.acknowledged(Time::ZERO, at, acked, Span::ZERO) {
            assert_eq!((packet.pn, packet.tag), (pn, Tag(pn)));
            (back, pn) = (back + packet.len.get(), pn + 1);
        }
        assert!(back <= acked && back + 333_333 > acked, "{back} of {acked}");
    }
}

fn pns(packets: &[Packet]) -> Vec<Pn> {
    packets.iter().map(|p| p.pn).collect()
}

/// Ten packets of which the kernel has sent `sent`.
fn ten(sent: u64) -> Ledger {
    let mut ledger = Ledger::new(Time::ZERO, 0, 0);
    (0..10).for_each(|_| wrote(&mut ledger, 0, 1448));
    ledger.sent(Time::ZERO, Time::ZERO, sent * 1448, false);
    ledger
}

#[test]
fn a_hole_is_lost_and_what_lies_beyond_it_has_arrived() {
    let (mut ledger, ms) = (ten(10), Time::from_millis);
    ledger.acknowledged(ms(35), ms(40), 2 * 1448, Span::ZERO);
    // Of the remaining eight, three have arrived, and one is lost: the oldest.
    ledger.beyond(ms(35), ms(40), (3 * 1448, 1448), true, Span::ZERO);
    assert_eq!(
        (pns(ledger.lost()), pns(ledger.returned())),
        (vec![2], vec![0, 1, 3, 4, 5])
    );
    assert_eq!(ledger.under_way(), MSS * 4);
    assert_eq!(ledger.delivered(), MSS * 5);
    // It is sent again under a number of its own, and what is written then has the next.
    ledger.sent_again(ms(41), 1, MSS, |pn, _, before| {
        assert_eq!((pn, before), (10, MSS * 4));
        Tag(pn)
    });
    wrote(&mut ledger, 42, 1448);
    assert_eq!(ledger.under_way(), MSS * 6);
    // The repair acknowledges all that had arrived before it, too.
    let packets = ledger.acknowledged(ms(80), ms(85), 11 * 1448, Span::ZERO);
    assert_eq!(pns(packets), [10, 6, 7, 8, 9, 11]);
    assert_eq!((packets[0].kind, packets[0].rtt), (Kind::Retransmit, None));
    assert_eq!(
        (ledger.under_way(), ledger.delivered()),
        (Bytes::ZERO, MSS * 11)
    );
}

#[test]
fn a_retransmission_can_be_lost_again() {
    let (mut ledger, ms) = (ten(10), Time::from_millis);
    ledger.stamped(ms(35), &[], ms(40), 0, Span::ZERO);
    ledger.beyond(ms(35), ms(40), (0, 10 * 1448), true, Span::ZERO);
    assert_eq!((ledger.lost().len(), ledger.under_way()), (10, Bytes::ZERO));
    ledger.sent_again(ms(41), 2, MSS, |pn, _, _| Tag(pn));
    ledger.stamped(ms(40), &[], ms(45), 0, Span::ZERO);
    ledger.beyond(ms(40), ms(45), (0, 1448), false, Span::ZERO);
    assert_eq!((pns(ledger.lost()), ledger.under_way()), (vec![10], MSS));
}

#[test]
fn a_paced_packet_counts_as_sent_when_it_departs() {
    // Four packets written at once, two of them sent by 10 ms, the others by 20 ms.
    let mut ledger = Ledger::new(Time::ZERO, 0, 0);
    wrote(&mut ledger, 0, 4 * 1448);
    let ms = Time::from_millis;
    ledger.sent(ms(0), ms(10), 2 * 1448, true);
    ledger.sent(ms(10), ms(20), 4 * 1448, true);
    let packets = ledger.acknowledged(ms(60), ms(60), 4 * 1448, Span::ZERO);
    let sent: Vec<_> = packets.iter().map(|p| p.sent_at).collect();
    assert_eq!(sent, [ms(5), ms(10), ms(15), ms(20)]);
}

/// 7,240 of 7,241 bytes are acknowledged. Then the record of the last one is taken for lost; its
/// first 1,447 bytes have counted.
#[test]
fn what_has_arrived_of_a_lost_packet_counts_once() {
    let mut ledger = Ledger::new(Time::ZERO, 0, 0);
    let (then, now) = (Time::from_millis(5), Time::from_millis(10));
    ledger.wrote(then, Bytes::new(7_241), MSS, false, |pn, _, _| Tag(pn));
    ledger.sent(then, now, 7_241, true);
    ledger.stamped(then, &[], now, 7_240, Span::ZERO);
    assert_eq!(ledger.delivered(), Bytes::new(7_240));
    ledger.beyond(then, now, (0, 1_448), false, Span::ZERO);
    assert_eq!(ledger.lost().len(), 1);
    let later = Time::from_millis(15);
    ledger.acknowledged(now, later, 7_241, Span::ZERO);
    assert_eq!(ledger.delivered(), Bytes::new(7_241));
}

/// All but a byte of a packet that was sent again is acknowledged.
#[test]
fn no_more_is_under_way_than_is_in_flight() {
    let mut ledger = Ledger::new(Time::ZERO, 0, 0);
    let (then, now) = (Time::from_millis(5), Time::from_millis(10));
    ledger.wrote(then, Bytes::new(1_448), MSS, false, |pn, _, _| Tag(pn));
    ledger.sent(then, now, 1_448, true);
    ledger.beyond(then, now, (0, 1_448), true, Span::ZERO);
    ledger.sent_again(now, 1, MSS, |pn, _, _| Tag(pn));
    assert_eq!(ledger.under_way(), Bytes::new(1_448));
    ledger.acknowledged(now, Time::from_millis(15), 1_447, Span::ZERO);
    assert_eq!(ledger.under_way(), Bytes::new(1));
}

proptest! {
    /// A kernel loses, repairs and repeats at random. Every packet is returned once, as arrived or
    /// as lost. The total delivered never decreases, and ends at the full amount.
    #[test]
    fn losses_are_conserved(
        steps in prop::collection::vec((1u64..40_000, 0u64..8, 0u64..4, 0u64..8, 0u64..4), 1..120),
    ) {
        let mut ledger = Ledger::new(Time::ZERO, 0, 0);
        let (mut sent, mut back) = (Vec::new(), Vec::new());
        let (mut now, mut acked, mut written, mut delivered) = (Time::ZERO, 0u64, 0u64, Bytes::ZERO);
        for (write, sacked, lost, ack, again) in steps {
            let since = now;
            now += Span::from_millis(5);
            ledger.wrote(now, Bytes::new(write), MSS, false, |pn, _, _| { sent.push(pn); Tag(pn) });
            written += write;
            ledger.sent(since, now, written, true);
            acked = (acked + ack * 1448).min(written);
            ledger.stamped(since, &[], now, acked, Span::ZERO);
            ledger.beyond(since, now, (sacked * 1448, lost * 1448), lost > 1, Span::ZERO);
            prop_assert!(ledger.returned().is_sorted_by_key(|p| p.pn));
            prop_assert!(ledger.delivered() >= delivered);
            delivered = ledger.delivered();
            for packet in ledger.returned().iter().chain(ledger.lost()) {
                prop_assert_eq!(packet.tag, Tag(packet.pn));
                prop_assert!(packet.stamp.delivered <= delivered);
                back.push(packet.pn);
            }
            prop_assert!(ledger.under_way() <= ledger.in_flight());
            ledger.sent_again(now, again, MSS, |pn, _, _| { sent.push(pn); Tag(pn) });
        }
        for packet in ledger.acknowledged(now, now + Span::from_millis(5), written, Span::ZERO) {
            back.push(packet.pn);
        }
        back.sort_unstable();
        prop_assert_eq!(back, sent);
        prop_assert_eq!((ledger.under_way(), ledger.delivered()), (Bytes::ZERO, Bytes::new(written)));
    }

    /// Bytes are written and acknowledged in arbitrary steps. Every byte is returned at most once,
    /// in order, never before it was sent. The remaining bytes are in flight.
    #[test]
    fn bytes_are_conserved(steps in prop::collection::vec((0u64..200_000, 0u64..300_000, 0u64..50), 1..200)) {
        let mut ledger = Ledger::new(Time::ZERO, 0, 0);
        let (mut now, mut back, mut next_pn, mut acked) = (Time::ZERO, 0u64, 0, 0u64);
        for (write, ack, ms) in steps {
            let since = now;
            now += Span::from_millis(ms);
            ledger.wrote(now, Bytes::new(write), MSS, false, |pn, _, _| Tag(pn));
            acked += ack;
            for packet in ledger.acknowledged(since, now, acked, Span::ZERO) {
                prop_assert_eq!(packet.pn, next_pn);
                prop_assert_eq!(packet.tag, Tag(packet.pn));
                prop_assert!(packet.rtt.unwrap() <= now.since(packet.sent_at).max(Span::from_nanos(1)));
                next_pn += 1;
                back += packet.len.get();
            }
            acked = acked.min(ledger.written());
            prop_assert_eq!(ledger.acked(), acked);
            prop_assert!(back <= acked && acked - back < 200_000);
            prop_assert_eq!(ledger.in_flight().get(), ledger.written() - acked);
        }
    }
}
