// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sender by hand: what leaves when, worked out from the RFCs and from Linux.
use alcc_cc::Kind;
use alcc_cc::conformance::Checked;
use alcc_flow::rules::{COPA, DATAGRAMS, LINUX, LINUX_2_6_24, LINUX_3_16, UDP, VERUS_PAPER};
use alcc_flow::{Ack, AckError, Arrival, Range, Rules, Sender, Transmit};
use alcc_units::{Bytes, Span, Time};

const MSS: u64 = 1448;

struct Bench {
    sender: Sender,
    now: u64,
}

fn at(ms: u64) -> Time {
    Time::from_millis(ms)
}

impl Bench {
    /// A flow that begins at 1 s after a handshake of 40 ms, with `segments` written.
    fn new(cc: &str, rules: &Rules, segments: u64) -> Self {
        let controller = alcc_zoo::registry().build(&cc.parse().unwrap()).unwrap();
        let controller = Checked::of(controller);
        let hint = rules.is_stream().then(|| Span::from_millis(40));
        let mut sender = Sender::new(controller, rules, at(1000), hint, 1);
        sender.start(at(1000));
        sender.write(Bytes::new(segments * rules.mss.get()));
        Self { sender, now: 1000 }
    }

    fn send(&mut self) -> Vec<Transmit> {
        let now = at(self.now);
        std::iter::from_fn(|| self.sender.poll_transmit(now)).collect()
    }

    /// Numbers of the segments that leave now.
    fn sent(&mut self) -> Vec<u64> {
        self.send().iter().map(|t| t.start / MSS).collect()
    }

    /// Runs until that millisecond, with all timers on the way.
    fn until(&mut self, ms: u64) -> Vec<(u64, Transmit)> {
        let mut sent = Vec::new();
        while let Some(next) = self.sender.next_timer().filter(|next| *next <= at(ms)) {
            self.now = next.as_nanos() / 1_000_000;
            self.sender.on_timer(next);
            let now = self.now;
            while let Some(t) = self.sender.poll_transmit(next) {
                sent.push((now, t));
            }
        }
        self.now = ms;
        sent
    }

    fn ack(&mut self, complete: u64, blocks: &[(u64, u64)], echo_ms: u64) -> Result<(), AckError> {
        let mut ack = Ack::default();
        ack.cumulative_ack = complete * MSS;
        ack.window = Bytes::new(1 << 20);
        ack.echo = at(echo_ms);
        for (start, end) in blocks {
            ack.push(Range::new(start * MSS, end * MSS));
        }
        self.sender.on_ack(at(self.now), &ack)
    }

    fn gauge(&self, name: &str) -> f64 {
        let mut value = f64::NAN;
        self.sender.controller().gauges(&mut |n, v| {
            if n == name {
                value = v;
            }
        });
        value
    }
}

#[test]
fn rack_waits_a_quarter_of_the_smallest_round_trip_for_reordering() {
    let mut b = Bench::new("reno", &LINUX, 100);
    assert_eq!(b.sent(), (0..10).collect::<Vec<_>>());
    b.until(1040);
    b.ack(0, &[(1, 2)], 0).unwrap();
    // Segment 0 was sent with segment 1 and is due one round trip and 10 ms after that.
    assert_eq!(b.sender.next_timer(), Some(at(1050)));
    // The window of 10 is open for the one that arrived.
    assert_eq!(b.sent(), [10]);
    let sent = b.until(1050);
    assert_eq!(sent.len(), 1);
    assert_eq!((sent[0].1.start, sent[0].1.kind), (0, Kind::Retransmit));
    assert_eq!(b.gauge("cwnd"), 5.0);
}

#[test]
fn rack_waits_no_longer_once_three_segments_have_overtaken() {
    let mut b = Bench::new("reno", &LINUX, 100);
    b.send();
    b.until(1040);
    b.ack(0, &[(1, 4)], 0).unwrap();
    assert_eq!(b.sent()[0], 0, "lost at once, and sent again first");
}

#[test]
fn a_lost_retransmission_is_found_by_what_was_sent_after_it() {
    let mut b = Bench::new("reno", &LINUX, 100);
    b.send();
    b.until(1040);
    b.ack(0, &[(1, 4)], 0).unwrap();
    // PRR from 10 to 5: ceil(3 * 5 / 10) for three that arrived, then ceil(5 * 5 / 10).
    assert_eq!(b.sent(), [0, 10]);
    b.until(1041);
    b.ack(0, &[(1, 6)], 0).unwrap();
    assert_eq!(b.sent(), [11]);
    // Segment 11 was sent a millisecond after the repetition of segment 0 and has arrived, so that one is lost, too.
    b.until(1081);
    b.ack(0, &[(11, 12), (1, 10)], 0).unwrap();
    assert_eq!(b.sent()[0], 0);
    assert_eq!(b.gauge("cwnd"), 5.0, "one reduction per episode");
}

#[test]
fn older_kernels_count_three_segments() {
    let mut b = Bench::new("reno", &LINUX_3_16, 100);
    b.send();
    b.until(1040);
    b.ack(0, &[(1, 3)], 0).unwrap();
    assert_eq!(b.sent(), [10, 11]);
    assert_eq!(b.gauge("cwnd"), 10.0);
    b.ack(0, &[(1, 4)], 0).unwrap();
    assert_eq!(b.sent()[0], 0);
    assert_eq!(b.gauge("cwnd"), 5.0);
}

#[test]
fn rate_halving_lets_every_second_acknowledgement_send() {
    // With a receiver whose window is not the limit.
    let rules = Rules {
        window: LINUX.window,
        ..LINUX_2_6_24
    };
    let mut b = Bench::new("reno", &rules, 100);
    b.send();
    b.until(1040);
    b.ack(0, &[(1, 4)], 0).unwrap();
    let mut sent = vec![b.sent().len()];
    for end in 5..10 {
        b.until(1036 + end);
        b.ack(0, &[(1, end)], 0).unwrap();
        sent.push(b.sent().len());
    }
    // Windows: 6 in flight and one more = 7, then 6, 6, 5 and 5 for good; in flight before sending:
    // 6, 6, 5, 5, 4, 4.
    assert_eq!(sent, [1, 0, 1, 0, 1, 1]);
}

#[test]
fn a_silent_tail_is_probed_after_two_round_trips_and_then_times_out() {
    let mut b = Bench::new("reno", &LINUX, 2);
    assert_eq!(b.sent(), [0, 1]);
    // 2 * 40 ms and a timer's grain.
    assert_eq!(b.sender.next_timer(), Some(at(1082)));
    let sent = b.until(1082);
    assert_eq!(sent.len(), 1);
    assert_eq!((sent[0].0, sent[0].1.start), (1082, MSS), "the last one");
    assert_eq!(b.gauge("cwnd"), 10.0);
    // 40 ms and 200 from the probe, doubled each time.
    let expiries: Vec<u64> = b.until(20_000).iter().map(|(ms, _)| *ms).collect();
    assert_eq!(expiries, [1322, 1802, 2762, 4682, 8522, 16202]);
    assert_eq!(b.sender.stats().timeouts, 6);
    assert_eq!((b.gauge("cwnd"), b.gauge("ssthresh")), (1.0, 5.0));
}

#[test]
fn a_lone_segment_gives_its_receiver_time_for_a_delayed_acknowledgement() {
    let mut b = Bench::new("reno", &LINUX, 1);
    b.send();
    // 2 * 40 + 200 would be 280; the retransmission timer comes first, at 40 + 200, and is a probe.
    assert_eq!(b.sender.next_timer(), Some(at(1240)));
    b.until(1240);
    assert_eq!(
        (b.sender.stats().tail_probes, b.sender.stats().timeouts),
        (1, 0)
    );
}

#[test]
fn a_probe_that_repaired_a_loss_costs_one_reduction_and_a_needless_one_none() {
    for duplicate in [false, true] {
        let mut b = Bench::new("reno", &LINUX, 10);
        b.send();
        b.until(1040);
        b.ack(8, &[], 1000).unwrap();
        assert!(b.send().is_empty());
        let probe = b.until(1130);
        assert_eq!((probe.len(), probe[0].1.start), (1, 9 * MSS));
        b.until(1170);
        let mut ack = Ack::default();
        ack.cumulative_ack = 10 * MSS;
        ack.window = Bytes::new(1 << 20);
        ack.echo = at(if duplicate { 1000 } else { 1122 });
        if duplicate {
            ack.push_duplicate(Range::new(9 * MSS, 10 * MSS));
        }
        b.sender.on_ack(at(1170), &ack).unwrap();
        let before = b.gauge("cwnd");
        // More data, acknowledged: the receiver has reported no duplicate.
        b.sender.write(Bytes::new(MSS));
        b.send();
        b.until(1210);
        b.ack(11, &[], 1170).unwrap();
        let halved = b.gauge("ssthresh") < before;
        assert_eq!(halved, !duplicate);
        assert!(!b.sender.is_recovering());
    }
}

#[test]
fn a_timeout_that_was_only_a_delay_is_taken_back() {
    let mut b = Bench::new("reno", &LINUX_3_16, 200);
    b.send();
    b.until(1040);
    b.ack(10, &[], 1000).unwrap();
    assert_eq!(b.sent().len(), 20);
    let sent = b.until(1500);
    assert!(b.sender.stats().timeouts >= 1, "{sent:?}");
    assert_eq!(b.gauge("cwnd"), 1.0);
    // Data sent before any repetition is acknowledged.
    b.ack(12, &[], 1040).unwrap();
    assert!(b.gauge("cwnd") >= 20.0, "{}", b.gauge("cwnd"));
    assert_eq!(b.sender.stats().spurious, 1);
    let repeated = b.send().iter().filter(|t| t.kind != Kind::New).count();
    assert_eq!(repeated, 0, "nothing is lost after all");
}

#[test]
fn a_timeout_that_was_right_stays() {
    let mut b = Bench::new("reno", &LINUX_3_16, 200);
    b.send();
    b.until(1040);
    b.ack(10, &[], 1000).unwrap();
    b.send();
    let sent = b.until(1500);
    let again = sent
        .iter()
        .rfind(|(_, t)| t.kind == Kind::Retransmit)
        .unwrap();
    let (sent_ms, start) = (again.0, again.1.start / MSS);
    assert_eq!(start, 10);
    b.ack(11, &[], sent_ms).unwrap();
    assert_eq!(b.sender.stats().spurious, 0);
    assert_eq!(b.gauge("cwnd"), 2.0, "slow start");
    assert_eq!(b.sent(), [11, 12]);
}

#[test]
fn losses_that_were_reordering_are_taken_back() {
    let mut b = Bench::new("reno", &LINUX, 100);
    b.send();
    b.until(1040);
    b.ack(0, &[(1, 4)], 1000).unwrap();
    assert_eq!(b.sent()[0], 0);
    assert_eq!(b.gauge("cwnd"), 5.0);
    // The segment itself arrives, before its repetition: the time stamp is that of its first
    // transmission.
    b.until(1042);
    b.ack(4, &[], 1000).unwrap();
    assert_eq!(b.gauge("cwnd"), 11.0, "as before, and slow start for it");
    assert!(!b.sender.is_recovering());
}

#[test]
fn a_receive_window_stops_the_sender_and_a_shut_one_is_probed() {
    let mut b = Bench::new("reno", &LINUX, 100);
    b.send();
    b.until(1040);
    let mut ack = Ack::default();
    ack.cumulative_ack = 10 * MSS;
    ack.window = Bytes::new(3 * MSS);
    ack.echo = at(1000);
    // A window once granted stays: 65,535 bytes from the beginning.
    b.sender.on_ack(at(1040), &ack).unwrap();
    assert_eq!(b.send().len(), 20);
    b.until(1080);
    ack.cumulative_ack = 30 * MSS;
    ack.window = Bytes::new(0);
    b.sender.on_ack(at(1080), &ack).unwrap();
    let most = 65_535 / MSS;
    assert_eq!(b.send().len() as u64, most - 30);
    b.until(1120);
    ack.cumulative_ack = most * MSS;
    b.sender.on_ack(at(1120), &ack).unwrap();
    // The remainder of the 65,535 bytes.
    let rest = b.send();
    assert_eq!(rest.len(), 1);
    ack.cumulative_ack = rest[0].end();
    b.until(1160);
    b.sender.on_ack(at(1160), &ack).unwrap();
    assert!(b.send().is_empty());
    let probes = b.until(3000);
    assert!(probes.len() >= 2 && probes.iter().all(|(_, t)| t.len == 0));
    let gaps: Vec<u64> = probes.windows(2).map(|w| w[1].0 - w[0].0).collect();
    assert!(gaps.windows(2).all(|g| g[1] >= 2 * g[0] - 2), "{gaps:?}");
    ack.window = Bytes::new(10 * MSS);
    b.sender.on_ack(at(3000), &ack).unwrap();
    assert_eq!(b.send().len(), 10);
}

#[test]
fn the_send_buffer_counts_what_a_segment_takes_and_grows_with_the_window() {
    let mut b = Bench::new("reno", &LINUX, 0);
    assert_eq!(b.sender.free(), Bytes::new(87_040));
    assert_eq!(b.sender.write(Bytes::new(1 << 20)), Bytes::new(87_040));
    assert_eq!(b.sender.write(Bytes::new(1)), Bytes::ZERO);
    b.send();
    b.until(1040);
    b.ack(10, &[], 1000).unwrap();
    // A window of 20 segments, twice, at 4352 bytes each.
    let written = 87_040 - 10 * MSS;
    assert_eq!(b.sender.free(), Bytes::new(20 * 2 * 4352 - written));
    b.send();
    assert_eq!(
        b.sender.free(),
        Bytes::new(20 * 2 * 4352 - written - 20 * 640)
    );
    assert!(b.sender.is_writable());
}

/// tcp(7): "the amount of unsent bytes in socket write queue"; the kernel wakes a program below half of it.
#[test]
fn the_unsent_data_decides_whether_the_program_may_write() {
    let limited = Rules {
        notsent_lowat: Some(Bytes::new(4 * MSS)),
        ..LINUX
    };
    let mut b = Bench::new("reno", &limited, 0);
    assert_eq!(b.sender.write(Bytes::new(100 * MSS)), Bytes::new(4 * MSS));
    assert!(!b.sender.is_writable());
    assert_eq!(b.send().len(), 4);
    assert!(b.sender.is_writable());
    // Six more leave at once, a window of ten; two of the next four wait.
    b.sender.write(Bytes::new(4 * MSS));
    b.send();
    b.sender.write(Bytes::new(4 * MSS));
    assert_eq!(b.send().len(), 2);
    assert_eq!(b.sender.free(), Bytes::new(2 * MSS));
    assert!(!b.sender.is_writable(), "half is not less than half");
    b.until(1040);
    b.ack(4, &[], 1000).unwrap();
    b.send();
    assert!(b.sender.is_writable());
}

#[test]
fn a_sender_starts_with_less_after_a_pause() {
    let mut b = Bench::new("reno", &LINUX, 30);
    b.send();
    b.until(1040);
    b.ack(10, &[], 1000).unwrap();
    b.send();
    b.until(1080);
    b.ack(30, &[], 1040).unwrap();
    assert_eq!(b.gauge("cwnd"), 40.0);
    // Two timeouts of 240 ms and a bit: 40, 20, 10.
    b.until(1600);
    b.sender.write(Bytes::new(100 * MSS));
    assert_eq!(b.send().len(), 10);
}

#[test]
fn what_was_never_sent_cannot_be_acknowledged() {
    let mut b = Bench::new("reno", &LINUX, 5);
    b.send();
    b.until(1040);
    let sent = 5 * MSS;
    let named = 6 * MSS;
    assert_eq!(
        b.ack(6, &[], 0),
        Err(AckError::NeverSent { named, sent }),
        "beyond the end"
    );
    assert_eq!(
        b.ack(0, &[(1, 2), (4, 6)], 0),
        Err(AckError::NeverSent { named, sent })
    );
    let backwards = Range::new(3 * MSS, MSS);
    assert_eq!(b.ack(0, &[(3, 1)], 0), Err(AckError::Backwards(backwards)));
    assert_eq!(
        b.sender.in_flight(),
        Bytes::new(sent),
        "nothing has changed"
    );
    b.ack(5, &[], 1000).unwrap();
    assert!(b.sender.is_done());
}

fn numbers(complete: u64, ranges: &[(u64, u64)]) -> Ack {
    let mut ack = Ack::default();
    ack.cumulative_ack = complete;
    ack.window = Bytes::new(1 << 30);
    for (start, end) in ranges {
        ack.push(Range::new(*start, *end));
    }
    ack
}

#[test]
fn datagrams_are_sent_again_under_a_new_number() {
    let mut b = Bench::new("fixed:window=10", &DATAGRAMS, 100);
    assert_eq!(b.send().len(), 10);
    b.until(1040);
    let ack = numbers(0, &[(1, 4)]);
    b.sender.on_ack(at(1040), &ack).unwrap();
    let sent = b.send();
    // Packet 0 is three behind; three arrived and one is lost.
    let what: Vec<_> = sent.iter().map(|t| (t.pn, t.start, t.kind)).collect();
    assert_eq!(what[0], (10, 0, Kind::Retransmit));
    assert_eq!(what.len(), 4);
    // It arrives after all, and so does the repetition: once is enough.
    let ack = numbers(0, &[(0, 1), (10, 11)]);
    b.sender.on_ack(at(1041), &ack).unwrap();
    assert_eq!(b.sender.stats().spurious, 1);
    assert!(b.sender.on_ack(at(1042), &numbers(0, &[(14, 15)])).is_err());
}

/// Two packets in flight, as one flow of many has on a short path: there are no three later ones to show a loss.
#[test]
fn datagrams_of_a_small_window_are_soon_sent_again() {
    let mut b = Bench::new("fixed:window=2", &DATAGRAMS, 100);
    assert_eq!(b.send().len(), 2);
    b.until(1040);
    b.sender.on_ack(at(1040), &numbers(0, &[(1, 2)])).unwrap();
    let sent = b.send();
    let third = 2 * DATAGRAMS.mss.get();
    assert_eq!((sent.len(), sent[0].start), (1, third));
    // A quarter of the RTT later the first one is lost. After a silence of an RTT and 200 ms the oldest is sent again.
    let sent = b.until(1290);
    let again: Vec<_> = sent.iter().map(|(at, t)| (*at, t.start, t.kind)).collect();
    let (first, oldest) = ((1050, 0), (1290, third));
    assert_eq!(
        again,
        [first, oldest].map(|(at, from)| (at, from, Kind::Retransmit))
    );
    // The algorithm is informed after a second, although the next probe would follow later.
    b.until(2039);
    assert_eq!(b.sender.stats().timeouts, 0);
    assert_eq!(b.until(2040).len(), 1);
    let stats = b.sender.stats();
    assert_eq!((stats.timeouts, stats.tail_probes), (1, 2));
}

/// On a long path the RTT varies little, so it is itself no bound for a probe.
#[test]
fn datagrams_of_a_long_path_wait_for_their_acknowledgements() {
    for rules in [&DATAGRAMS, &UDP] {
        let mut b = Bench::new("fixed:window=2", rules, 400);
        let mut sent = b.send();
        for trip in 1..60 {
            // Each fifth ACK comes 150 ms late.
            let late = if trip % 5 == 0 { 150 } else { 0 };
            let again = b.until(b.now + 500 + late);
            assert!(again.is_empty(), "{}: {trip}: {again:?}", rules.name);
            let (first, last) = (sent[0].pn, sent.last().unwrap().pn);
            let ack = numbers(0, &[(first, last + 1)]);
            b.sender.on_ack(at(b.now), &ack).unwrap();
            sent = b.send();
            assert_eq!(sent.len(), 2);
        }
        assert_eq!(b.sender.stats().retransmits, 0);
    }
}

#[test]
fn the_program_of_copa_takes_any_gap_for_a_loss_and_forgets_it() {
    let mut b = Bench::new("fixed:window=10", &COPA, 100);
    assert_eq!(b.send().len(), 10);
    b.until(1040);
    let ack = numbers(0, &[(1, 2)]);
    b.sender.on_ack(at(1040), &ack).unwrap();
    let sent = b.send();
    // In flight is what is above the newest that arrived: 8.
    assert_eq!(sent.len(), 2);
    assert!(sent.iter().all(|t| t.kind == Kind::New));
    // Two seconds of silence: all is forgotten.
    b.until(3039);
    assert_eq!(b.sender.stats().timeouts, 0);
    assert_eq!(b.until(3040).len(), 10);
}

/// By the text of Verus, a packet is lost three delays after its gap was found, however many others
/// arrive meanwhile. The epoch of 5 ms looks for it.
#[test]
fn a_timer_of_three_delays_finds_a_loss() {
    const LOST: u64 = 12;
    const DELAY: u64 = 40;
    let mut b = Bench::new("verus:profile=paper", &VERUS_PAPER, 10_000);
    let mut sent = Vec::new();
    let (mut gap, mut again) = (None, None);
    for ms in 1000..1600 {
        sent.extend(b.until(ms));
        let due = sent.iter().filter(|(at, _)| at + DELAY == ms);
        for pn in due.map(|(_, t)| t.pn).filter(|pn| *pn != LOST) {
            let ack = match pn {
                0..LOST => numbers(0, &[(0, pn + 1)]),
                _ => numbers(0, &[(0, LOST), (LOST + 1, pn + 1)]),
            };
            b.sender.on_ack(at(ms), &ack).unwrap();
            gap = gap.or_else(|| (pn > LOST).then_some(ms));
        }
        sent.extend(b.send().into_iter().map(|t| (ms, t)));
        let repeated = sent.iter().find(|(_, t)| t.kind == Kind::Retransmit);
        again = repeated.map(|(ms, _)| *ms);
        if again.is_some() {
            break;
        }
    }
    let waited = again.unwrap() - gap.unwrap();
    assert!((3 * DELAY..=3 * DELAY + 5).contains(&waited), "{waited} ms");
}

#[test]
fn memory_is_given_back() {
    let mut b = Bench::new("fixed:window=5000", &DATAGRAMS, 20_000);
    assert_eq!(b.send().len(), 5000);
    assert!(b.sender.remembered() >= 5000);
    b.until(1040);
    let ack = numbers(0, &[(0, 5000)]);
    b.sender.on_ack(at(1040), &ack).unwrap();
    assert_eq!(b.sender.remembered(), 0);
}

/// A time at which a packet arrived that was never sent is refused before anything is done, also
/// before the clock goes on.
#[test]
fn a_refused_arrival_changes_nothing() {
    let after = |refused: bool| {
        let mut b = Bench::new("copa", &UDP, 20_000);
        b.send();
        b.until(1040);
        let mut seen = Vec::new();
        for (now, pn) in [(1041, 0), (1100, 1), (1400, 2)] {
            let mut ack = Ack::default();
            ack.window = Bytes::new(1 << 24);
            ack.sent_at = at(now);
            ack.push(Range::new(pn, pn + 1));
            if refused {
                let never = [Arrival {
                    pn: 1 << 40,
                    at: at(now),
                }];
                let answer = b
                    .sender
                    .on_ack_arrivals(at(now - 1), &ack, ack.ranges(), &never);
                assert!(
                    matches!(answer, Err(AckError::NeverSent { .. })),
                    "{answer:?}"
                );
            }
            let arrived = [Arrival {
                pn,
                at: at(now - 20),
            }];
            (b.sender
                .on_ack_arrivals(at(now), &ack, ack.ranges(), &arrived))
            .unwrap();
            let mut gauges = Vec::new();
            b.sender
                .controller()
                .gauges(&mut |name, value| gauges.push((name, value.to_bits())));
            seen.push(format!(
                "{:?} {:?} {gauges:?} {:?}",
                b.sender.in_flight(),
                b.sender.stats(),
                b.sender.remembered()
            ));
            b.now = now;
            seen.push(format!("{}", b.send().len()));
        }
        seen
    };
    assert_eq!(after(true), after(false));
}

/// Packets in flight after each acknowledgement, at the end: the window is 20, a packet arrives each `gap` ms, and the
/// peer reports it when the last of `together` has been there for `held` ms.
fn in_flight_of_twenty(gap: u64, together: u64, held: u64) -> u64 {
    let mut b = Bench::new("fixed:window=20", &UDP, 20_000);
    b.send();
    for round in 0..200 {
        let since = 1000 + round * gap * together;
        b.until(since + gap * together + held);
        let mut ack = Ack::default();
        ack.window = Bytes::new(1 << 24);
        ack.sent_at = at(b.now);
        let first = round * together;
        ack.push(Range::new(first, first + together));
        let arrived = |n| Arrival {
            pn: first + n,
            at: at(since + gap * (n + 1)),
        };
        let arrivals: Vec<_> = (0..together).map(arrived).collect();
        let sender = &mut b.sender;
        (sender.on_ack_arrivals(at(b.now), &ack, ack.ranges(), &arrivals)).unwrap();
        b.send();
    }
    b.sender.in_flight().get() / b.sender.rules().mss.get()
}

#[test]
fn unreported_arrivals_are_not_in_flight() {
    assert_eq!(in_flight_of_twenty(1, 1, 0), 20, "told at once");
    // Told each 5 ms: of five packets the first has waited 4 ms, the last 0.
    assert_eq!(in_flight_of_twenty(1, 5, 0), 22);
    // Told 5 ms late and a packet each 13 ms: less than half of a packet is none.
    assert_eq!(in_flight_of_twenty(13, 1, 5), 20);
}
