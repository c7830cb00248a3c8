// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use alcc_cc::conformance::Checked;
use alcc_cc::{AckBatch, Controller, Cx, Instance, LossBatch, Spec};
use proptest::prelude::*;
use std::sync::{Arc, Mutex};

const MSS: u64 = 1000;

fn connection(spec: &str) -> OverTcp {
    let spec: Spec = spec.parse().unwrap();
    let cc = Checked::registry(&alcc_zoo::registry())
        .build(&spec)
        .unwrap();
    let progress = TcpProgress {
        mss: Bytes::new(MSS),
        ..TcpProgress::default()
    };
    OverTcp::new(cc, Time::ZERO, &progress, 1)
}

fn at(ms: u64) -> Time {
    Time::from_millis(ms)
}

fn read(acked: u64, written: u64) -> TcpProgress {
    TcpProgress {
        acked,
        written,
        mss: Bytes::new(MSS),
        min_rtt: Span::from_millis(40),
        ..TcpProgress::default()
    }
}

#[test]
fn a_window_of_five_lets_five_segments_out_and_opens_as_they_arrive() {
    let mut c = connection("fixed:window=5");
    assert_eq!(c.deadline(), None, "an idle connection wants no wake-up");
    assert_eq!(
        c.room(at(0), Bytes::new(9_000), Bytes::ZERO, Bytes::ZERO),
        Bytes::new(5_000)
    );
    c.wrote(at(0), Bytes::new(5_000));
    assert!(c.is_blocked() && !c.is_writable(Bytes::new(5_000), Bytes::ZERO));
    assert!(c.deadline().unwrap() <= at(5));
    c.progress(at(42), &read(2_000, 5_000));
    assert!(c.is_writable(Bytes::new(3_000), Bytes::ZERO));
    c.unblock();
    assert_eq!(
        c.room(at(42), Bytes::new(1_500), Bytes::new(3_000), Bytes::ZERO),
        Bytes::new(1_500),
        "it fits: the gate stays open"
    );
    assert!(!c.is_blocked());
    assert_eq!(c.counters().gate_closed, 1);
}

/// Forty segments in flight under a window of Reno's that nothing has tested yet.
fn in_flight(spec: &str) -> OverTcp {
    let mut c = connection(spec);
    let all = Bytes::new(100_000);
    let (mut acked, mut written) = (0, 0);
    for round in 0..3 {
        let queued = Bytes::new(written - acked);
        let room = c.room(at(40 * round), all, queued, Bytes::ZERO);
        c.wrote(at(40 * round), room);
        written += room.get();
        if written < 40_000 {
            acked = written;
        }
        c.progress(at(40 * round + 39), &read(acked, written));
    }
    assert!(c.in_flight() >= Bytes::new(30_000), "{}", c.in_flight());
    c
}

#[test]
fn a_loss_that_the_kernel_repairs_reduces_the_window_once() {
    let mut c = in_flight("reno");
    let forty = Bytes::new(40_000);
    assert_eq!((c.in_flight(), c.allowance().window), (forty, forty));
    let repairing = TcpProgress {
        sacked: 3,
        lost: 1,
        repair: Repair::Losses,
        ..read(30_000, 70_000)
    };
    c.progress(at(130), &repairing);
    assert_eq!(c.allowance().window, Bytes::new(20_000));
    // Two more of the same flight, and the first is sent again: the same episode.
    let more = TcpProgress {
        sacked: 8,
        lost: 3,
        retransmits: 1,
        ..repairing
    };
    c.progress(at(135), &more);
    assert_eq!(c.allowance().window, Bytes::new(20_000));
    // 40 in flight, of which 8 have arrived and 2 wait to be sent again: 30 are under way, and the
    // gate counts those.
    assert_eq!(c.not_in_flight(Bytes::new(40_000)), Bytes::new(10_000));
    // Data acknowledged since then is no longer in the queue, so it is not subtracted.
    assert_eq!(c.not_in_flight(Bytes::new(33_000)), Bytes::new(3_000));
    // A loss of the next flight is another episode.
    c.progress(
        at(170),
        &TcpProgress {
            lost: 3,
            retransmits: 3,
            ..read(70_000, 70_000)
        },
    );
    let room = c.room(at(170), Bytes::new(90_000), Bytes::ZERO, Bytes::ZERO);
    c.wrote(at(170), room);
    let written = 70_000 + room.get();
    let again = TcpProgress {
        sacked: 3,
        lost: 4,
        retransmits: 3,
        ..repairing
    };
    c.progress(
        at(210),
        &TcpProgress {
            acked: 70_000,
            written,
            ..again
        },
    );
    assert_eq!(c.allowance().window.get(), room.get() / 2);
}

#[test]
fn a_timeout_leaves_a_segment_and_a_mistake_is_taken_back() {
    let mut c = in_flight("reno");
    let silence = TcpProgress {
        lost: 40,
        retransmits: 1,
        repair: Repair::Timeout,
        backoff: 1,
        ssthresh: 20,
        ..read(30_000, 70_000)
    };
    c.progress(at(400), &silence);
    assert_eq!(c.allowance().window, Bytes::new(1_000));
    assert!(c.in_flight() > Bytes::ZERO, "lost is not arrived");
    // The kernel's threshold rises again: all had arrived after all.
    let back = TcpProgress {
        repair: Repair::None,
        ssthresh: 80,
        retransmits: 1,
        lost: 1,
        ..read(70_000, 70_000)
    };
    c.progress(at(420), &back);
    assert!(c.allowance().window >= Bytes::new(40_000));
    assert_eq!(c.in_flight(), Bytes::ZERO);
}

#[test]
fn a_short_silence_is_nothing_to_an_algorithm_for_datagrams() {
    // Its own host waits for a second, and then sends a probe.
    let mut c = in_flight("copa:profile=paper");
    let window = c.allowance().window;
    let silence = TcpProgress {
        lost: 40,
        retransmits: 1,
        repair: Repair::Timeout,
        backoff: 1,
        ..read(c.written() - c.in_flight().get(), c.written())
    };
    c.progress(at(400), &silence);
    assert_eq!(c.allowance().window, window);
    c.progress(at(1_500), &silence);
    assert!(c.allowance().window < window);
}

#[test]
fn a_paced_connection_writes_three_readings_ahead() {
    let mut c = connection("bbr");
    // 10 segments in a millisecond, 2.887 times faster: the window of ten is less than 15 ms of
    // that.
    let all = Bytes::new(90_000);
    assert_eq!(
        c.room(at(0), all, Bytes::ZERO, Bytes::ZERO),
        Bytes::new(10_000)
    );
    c.wrote(at(0), Bytes::new(10_000));
    c.progress(at(40), &read(10_000, 10_000));
    let rate = c.pacing_rate().unwrap();
    let most = rate.bytes_in(Span::from_millis(15)).get() / MSS * MSS;
    assert!(Bytes::new(most) < c.allowance().window, "{rate}");
    assert_eq!(
        c.room(at(40), all, Bytes::ZERO, Bytes::ZERO),
        Bytes::new(most)
    );
    // Data that waits for its departure time is neither held back by the kernel's window nor in
    // flight.
    c.wrote(at(40), Bytes::new(most));
    let waits = TcpProgress {
        unsent: Bytes::new(2 * MSS),
        ..read(11_000, 10_000 + most)
    };
    assert!(!c.is_writable(Bytes::new(most), Bytes::new(most)));
    c.progress(at(81), &waits);
    assert!(c.is_paced());
}

#[test]
fn stamps_give_the_smoothed_rtt_what_the_reading_would_blur() {
    // Sent at 0, acknowledged at 41 and 42 ms, read at 49 ms after a reading at 40 ms.
    let written = |c: &mut OverTcp| {
        c.room(at(0), Bytes::new(2_000), Bytes::ZERO, Bytes::ZERO);
        c.wrote(at(0), Bytes::new(2_000));
        c.progress(at(40), &read(0, 2_000));
    };
    let stamp = |acked, ms| AckStamp { acked, at: at(ms) };
    let mut exact_min_rtt = connection("fixed:window=5");
    written(&mut exact_min_rtt);
    exact_min_rtt.progress_stamped(
        at(49),
        &read(2_000, 2_000),
        &[stamp(1_000, 41), stamp(2_000, 42)],
    );
    assert_eq!(exact_min_rtt.rtt().latest, Span::from_millis(42));
    assert_eq!(exact_min_rtt.rtt().min, Span::from_millis(41));
    let mut blurred = connection("fixed:window=5");
    written(&mut blurred);
    blurred.progress(at(49), &read(2_000, 2_000));
    assert_eq!(blurred.rtt().latest, Span::from_millis(49));
}

#[test]
fn everything_acknowledged_and_no_waiting_writer_is_idle() {
    let mut c = connection("fixed:window=5");
    assert_eq!(
        c.room(at(0), Bytes::new(3_000), Bytes::ZERO, Bytes::ZERO),
        Bytes::new(3_000)
    );
    c.wrote(at(0), Bytes::new(3_000));
    assert!(c.deadline().is_some());
    c.progress(at(40), &read(3_000, 3_000));
    assert!(c.is_idle() && c.deadline().is_none());
}

#[test]
fn less_than_a_segment_in_the_kernel_is_never_refused() {
    // A conversation: acknowledgements are delayed by 40 ms, which looks like a queue, and each few
    // bytes are a packet.
    let mut c = connection("verus:profile=original");
    let few = Bytes::new(20);
    for i in 0..200 {
        let (now, acked) = (at(2 * i), 20 * i.saturating_sub(20));
        let room = c.room(now, few, Bytes::new(20 * i - acked), Bytes::ZERO);
        assert_eq!(room, few, "write {i}");
        c.wrote(now, few);
        c.progress(at(2 * i + 1), &read(acked, 20 * (i + 1)));
    }
    assert_eq!(c.counters().gate_closed, 0);
    // More than a segment is the algorithm's again.
    assert!(c.allows(Bytes::new(1 << 30), Bytes::new(400), Bytes::ZERO) < Bytes::new(1 << 30));
}

#[test]
fn among_many_a_connection_is_read_less_often_but_twice_in_a_round_trip() {
    let mut c = connection("fixed:window=5");
    let five = Bytes::new(5_000);
    c.room(at(0), five, Bytes::ZERO, Bytes::ZERO);
    c.wrote(at(0), five);
    c.progress(at(90), &read(1_000, 5_000));
    // Every 5 ms, as 'fixed' requests; a sixteenth of 64 is four times that; half of the RTT of 90
    // ms at most.
    for (active_flows, next) in [(1, 95), (16, 95), (64, 110), (10_000, 135), (32, 100)] {
        c.set_active_flows(active_flows);
        assert_eq!(c.deadline(), Some(at(next)), "{active_flows}");
    }
}

#[test]
fn a_silent_peer_is_watched_less_and_less_closely() {
    let mut c = connection("fixed:window=5");
    c.room(at(0), Bytes::new(9_000), Bytes::ZERO, Bytes::ZERO);
    c.wrote(at(0), Bytes::new(5_000));
    c.progress(at(40), &read(0, 5_000));
    assert!(c.deadline().unwrap() <= at(45));
    c.progress(at(960), &read(0, 5_000));
    assert_eq!(c.deadline(), Some(at(975)));
    c.progress(at(9_000), &read(0, 5_000));
    assert_eq!(c.deadline(), Some(at(9_020)));
    c.progress(at(100_000), &read(0, 5_000));
    let (min, max) = (at(101_000), at(101_250));
    assert!((min..max).contains(&c.deadline().unwrap()));
}

#[test]
fn a_peer_that_has_stopped_reading_costs_few_readings() {
    let mut c = connection("fixed:window=5");
    c.room(at(0), Bytes::new(9_000), Bytes::ZERO, Bytes::ZERO);
    c.wrote(at(0), Bytes::new(5_000));
    // The peer's window is shut: nothing is in flight, and all of it waits.
    let stopped = TcpProgress {
        unsent: Bytes::new(4_000),
        ..read(1_000, 5_000)
    };
    c.progress(at(40), &stopped);
    let (mut readings, mut now) = (0, at(40));
    while now < at(10_000) {
        now = c.deadline().unwrap();
        c.progress(now, &stopped);
        readings += 1;
    }
    assert!((10..100).contains(&readings), "{readings} readings in 10 s");
    // It reads again.
    c.progress(now, &read(5_000, 5_000));
    c.room(now, Bytes::new(9_000), Bytes::ZERO, Bytes::ZERO);
    assert!(c.deadline().unwrap() <= now + Span::from_millis(5));
}

#[test]
fn what_an_algorithm_says_at_its_start_is_heard() {
    use std::sync::mpsc;
    let (to, told) = mpsc::channel();
    let cc = Checked::registry(&alcc_zoo::registry())
        .build(&"bbr3".parse().unwrap())
        .unwrap();
    let mut flow = OverTcp::waiting(cc, at(3), &read(0, 0));
    flow.set_log(Box::new(move |at, event, _| to.send((at, event)).unwrap()));
    flow.start(&read(0, 0), 1);
    let startup = alcc_cc::Event::Mode { to: "startup" };
    assert_eq!(told.try_recv(), Ok((at(3), startup)));
}

/// The events of an algorithm, in packets and records.
#[derive(Clone, Copy, Default)]
struct Heard {
    sent: u64,
    sent_records: u64,
    acked: u64,
    acked_records: u64,
    lost: u64,
    in_flight: Bytes,
}

#[derive(Clone, Default)]
struct Listener(Arc<Mutex<Heard>>);

impl Controller for Listener {
    fn on_sent(&mut self, _cx: &mut Cx<'_>, sent: &Sent) -> Tag {
        let mut heard = self.0.lock().expect("one thread");
        heard.sent += sent.len.get() / 1448;
        heard.sent_records += 1;
        Tag::default()
    }

    fn on_ack(&mut self, _cx: &mut Cx<'_>, ack: &AckBatch<'_>) {
        let mut heard = self.0.lock().expect("one thread");
        heard.acked += ack.acked.iter().map(|p| p.len.get()).sum::<u64>() / 1448;
        heard.acked_records += ack.acked.len() as u64;
        heard.in_flight = ack.in_flight;
    }

    fn on_loss(&mut self, _cx: &mut Cx<'_>, loss: &LossBatch<'_>) {
        let lost: u64 = loss.lost.iter().map(|p| p.len.get()).sum();
        self.0.lock().expect("one thread").lost += lost / 1448;
    }

    fn allowance(&self) -> Allowance {
        Allowance::UNLIMITED
    }
}

/// Readings every 5 ms of a kernel that sends and delivers `burst` packets per acknowledgement,
/// and remembers the last 32 acknowledgements. One packet in a thousand is lost.
fn readings_of(burst: u32, acks: u32) -> Heard {
    let mss = Bytes::new(1448);
    let mut sample = AckSample {
        at: at(0),
        rtt: None,
        delivered: 0,
        lost: 0,
        in_flight: 0,
    };
    let mut tcp = TcpProgress {
        mss,
        ..TcpProgress::default()
    };
    let listener = Listener::default();
    let mut flow = OverTcp::new(Instance::new(listener.clone()), at(0), &tcp, 1);
    flow.use_samples(&sample);
    for reading in 1..=20 {
        let mut samples = Vec::new();
        for ack in 1..=acks {
            sample.at =
                at(5 * reading - 5) + Span::from_millis(5) / u64::from(acks) * u64::from(ack);
            sample.rtt = Some(Span::from_micros(100));
            sample.delivered += burst - burst / 1000;
            sample.lost += burst / 1000;
            sample.in_flight = burst;
            samples.push(sample);
        }
        tcp.in_flight = burst;
        tcp.acked = u64::from(sample.delivered) * 1448;
        tcp.written = tcp.acked + 1448 * u64::from(burst);
        tcp.unsent = mss;
        let known = samples.len().saturating_sub(32);
        flow.progress_sampled(at(5 * reading), &tcp, &samples[known..]);
    }
    let heard = *listener.0.lock().expect("one thread");
    assert_eq!(heard.acked, u64::from(sample.delivered));
    assert_eq!(heard.lost, u64::from(sample.lost));
    assert_eq!(heard.sent, heard.acked + heard.lost + u64::from(burst));
    assert_eq!(heard.in_flight, mss * u64::from(burst));
    heard
}

#[test]
fn each_packet_of_an_ordinary_path_has_its_own_record() {
    // 1.1 Gbit/s.
    let heard = readings_of(2, 240);
    assert_eq!(heard.sent_records, heard.sent);
    assert_eq!(heard.acked_records, heard.acked);
}

#[test]
fn a_reading_of_a_fast_path_costs_few_records_and_loses_no_packet() {
    // 70 and 81 Gbit/s: as many acknowledgements as segments of 64 kB, and bunches of them.
    for (burst, acks) in [(45, 670), (7000, 5)] {
        let heard = readings_of(burst, acks);
        assert!(heard.sent > 20 * 30_000, "{} packets", heard.sent);
        // And one each for an acknowledgement's beginning, its end and the packet it measured.
        let most = 20 * (64 + 3 * 33);
        assert!(heard.sent_records <= most, "{} records", heard.sent_records);
        assert!(
            heard.acked_records <= most,
            "{} records",
            heard.acked_records
        );
    }
}

/// Budget measures what a path delivers only while the application has more to send.
#[test]
fn a_writer_with_reported_room_that_has_not_returned_is_not_app_limited() {
    let mut c = connection("budget");
    let (all, mut written, mut acked, mut ms) = (Bytes::new(1 << 20), 0, 0, 0);
    // A packet each millisecond, all of which waited in a queue. The program is always late: it
    // comes back after the next acknowledgement.
    for _ in 0..2000 {
        ms += 1;
        let queued = Bytes::new(written - acked);
        let room = c.room(at(ms), all, queued, Bytes::ZERO);
        c.wrote(at(ms), room);
        written += room.get();
        c.unblock();
        acked = written.min(acked + MSS);
        c.progress(at(ms), &read(acked, written));
    }
    let mut rate = 0.0;
    c.gauges(&mut |name, value| {
        if name == "rate_mean_mbps" {
            rate = value;
        }
    });
    assert!((7.0..9.0).contains(&rate), "{rate} Mbit/s of 8");
}

/// Allows the same at all times.
#[derive(Clone)]
struct Allows(Allowance);

impl Controller for Allows {
    fn on_ack(&mut self, _cx: &mut Cx<'_>, _ack: &AckBatch<'_>) {}

    fn allowance(&self) -> Allowance {
        self.0
    }
}

proptest! {
    /// The room equals that of the whole rule. If `unsent` is not queried, no value of it would
    /// change the room.
    #[test]
    fn the_kernel_is_queried_only_for_what_the_room_depends_on(
        window in 0u64..30_000,
        quota in prop::option::of(0u64..20_000),
        mbps in prop::option::of(0u64..20),
        ping in any::<bool>(),
        wanted in 0u64..40_000,
        (queued, unsent) in (0u64..30_000).prop_flat_map(|queued| (Just(queued), 0..=queued)),
    ) {
        let allowance = Allowance {
            window: Bytes::new(window),
            quota: quota.map_or(Bytes::MAX, Bytes::new),
            rate: mbps.map(Rate::mbps),
            ping,
            ..Allowance::UNLIMITED
        };
        let mut c = OverTcp::new(Instance::new(Allows(allowance)), at(0), &read(0, 0), 1);
        let [wanted, queued, unsent] = [wanted, queued, unsent].map(Bytes::new);
        let most = c.max_write_ahead(&allowance);
        let ping = ping && queued == Bytes::ZERO;
        let whole_rule = |unsent| {
            let within = room(&Allowance { ping, ..allowance }, queued, unsent, Bytes::new(MSS));
            let some = within.min(c.flow.write_ahead(most, unsent)).min(wanted);
            if queued + wanted <= Bytes::new(MSS) { wanted } else { some }
        };
        let expected = whole_rule(unsent);
        let extremes = [Bytes::ZERO, unsent, queued].map(whole_rule);
        let mut called = (0, 0);
        let got = c.begin_write(
            at(0),
            wanted,
            || {
                called.0 += 1;
                queued
            },
            || {
                called.1 += 1;
                unsent
            },
        );
        prop_assert_eq!(got.bytes, expected);
        prop_assert_eq!(got.limited != LimitedBy::default(), got.bytes < wanted);
        prop_assert_eq!(called.0, 1);
        prop_assert!(called.1 == 1 || extremes == [expected; 3], "{:?}", extremes);
    }
}
