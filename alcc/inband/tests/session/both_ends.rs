// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Both ends over a pipe that delays, in virtual time.
use super::*;

/// One direction of a stream below: bytes with the time at which they come out, at a rate and after
/// a delay.
struct Pipe {
    delay: Span,
    per_byte: Span,
    free_at: Time,
    bytes: VecDeque<(Time, Vec<u8>)>,
}

impl Pipe {
    fn new(delay_ms: u64, mbps: u64) -> Self {
        Self {
            delay: Span::from_millis(delay_ms),
            per_byte: Span::from_nanos(8000 / mbps),
            free_at: Time::ZERO,
            bytes: VecDeque::new(),
        }
    }

    fn put(&mut self, now: Time, wire: &[u8]) {
        for segment in wire.chunks(1448) {
            self.free_at = self.free_at.max(now) + self.per_byte * segment.len() as u64;
            self.bytes
                .push_back((self.free_at + self.delay, segment.to_vec()));
        }
    }

    fn next(&self) -> Option<Time> {
        self.bytes.front().map(|(at, _)| *at)
    }

    fn take(&mut self, now: Time) -> Option<Vec<u8>> {
        (self.next()? <= now).then(|| self.bytes.pop_front().unwrap().1)
    }
}

struct End {
    session: Session,
    to_write: Vec<u8>,
    written: usize,
    /// Reads only from then on.
    reads_from: Time,
    got: Vec<u8>,
}

struct Run {
    ends: [End; 2],
    took: Span,
    most_in_flight: u64,
    queue: Span,
}

/// Both ends write what they have to, and read, until both have finished.
fn run(ccs: [&str; 2], write: [usize; 2], reads_from: [u64; 2], mbps: u64, seed: u64) -> Run {
    let mut rng = Rng::new(seed);
    let registry = registry();
    let end = |i: usize| End {
        session: if i == 0 {
            Session::connect(Time::ZERO, &registry, settings(ccs[i]))
        } else {
            Session::accept(Time::ZERO, &registry, settings(ccs[i]))
        }
        .unwrap(),
        to_write: (0..write[i])
            .map(|n| (n * 31 + n / 253 + i) as u8)
            .collect(),
        written: 0,
        reads_from: at(reads_from[i]),
        got: Vec::new(),
    };
    let mut ends = [end(0), end(1)];
    let mut pipes = [Pipe::new(20, mbps), Pipe::new(20, mbps)];
    let (mut now, mut most_in_flight, mut queue) = (Time::ZERO, 0, Span::ZERO);
    loop {
        for i in 0..2 {
            let end = &mut ends[i];
            while let Some(wire) = pipes[1 - i].take(now) {
                let mut remaining = &wire[..];
                while !remaining.is_empty() {
                    let n = 1 + rng.below(remaining.len() as u64) as usize;
                    let mut sink = [0; 100];
                    let reads = now >= end.reads_from;
                    let sink = if reads { &mut sink[..] } else { &mut [] };
                    let filled = end
                        .session
                        .on_bytes(When::exactly(now), &remaining[..n], sink);
                    end.got.extend_from_slice(&sink[..filled]);
                    end.session.taken(now);
                    remaining = &remaining[n..];
                }
            }
            assert_eq!(end.session.error(), None, "end {i} at {now:?}");
            end.session.on_timer(now);
            if now >= end.reads_from {
                let mut buffer = [0; 10_000];
                let n = end.session.read(now, &mut buffer);
                end.got.extend_from_slice(&buffer[..n]);
            }
            let (wire, taken) = drain(&mut end.session, now, &end.to_write[end.written..]);
            end.written += taken;
            if end.written == end.to_write.len() && end.session.is_open() {
                end.session.close();
            }
            let (last, _) = drain(&mut end.session, now, &[]);
            pipes[i].put(now, &wire);
            pipes[i].put(now, &last);
            queue = queue.max(pipes[i].free_at.since(now));
            if let Some(flow) = end.session.flow() {
                most_in_flight = most_in_flight.max(flow.in_flight().get());
            }
        }
        if ends
            .iter()
            .all(|e| e.session.is_done() && e.session.is_at_end())
        {
            break;
        }
        let next = [
            pipes[0].next(),
            pipes[1].next(),
            ends[0].session.next_timer(),
            ends[1].session.next_timer(),
            Some(ends[0].reads_from).filter(|t| *t > now),
            Some(ends[1].reads_from).filter(|t| *t > now),
            // Somebody reads ten thousand bytes at a time.
            ends.iter()
                .any(|e| e.session.unread() > 0 && now >= e.reads_from)
                .then(|| now + Span::from_micros(100)),
        ];
        let next = next.into_iter().flatten().min().expect("something is due");
        now = next.max(now + Span::from_micros(1));
        assert!(now < at(600_000), "stuck at {now:?}");
    }
    Run {
        ends,
        took: now.since(Time::ZERO),
        most_in_flight,
        queue,
    }
}

fn check(run: &Run) {
    assert!(run.ends[0].got == run.ends[1].to_write);
    assert!(run.ends[1].got == run.ends[0].to_write);
}

fn algorithm() -> impl Strategy<Value = &'static str> {
    let all: Vec<_> = alcc_zoo::registry().iter().map(|a| a.name).collect();
    prop::sample::select(all)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// With any algorithms, amounts and cuts everything arrives in order, both ends finish, and
    /// there is no error.
    #[test]
    fn both_directions_at_once(
        a in algorithm(), b in algorithm(), x in 0usize..300_000, y in 0usize..300_000,
        late in 0u64..1500, mbps in 1u64..40, seed in any::<u64>(),
    ) {
        check(&run([a, b], [x, y], [late, 0], mbps, seed));
    }
}

/// Verus' epochs are shorter than its pace of a segment here.
#[test]
fn a_segment_that_takes_longer_than_a_timer_leaves() {
    check(&run(
        ["vegas", "verus"],
        [109_293, 68_405],
        [0, 0],
        1,
        1_179_681,
    ));
}

#[test]
fn a_window_bounds_what_is_framed_and_not_acknowledged() {
    let done = run(
        ["fixed:window=10", "fixed:window=10"],
        [2_000_000, 0],
        [0, 0],
        20,
        1,
    );
    check(&done);
    // Ten segments of 1400 bytes; a partial one in flight does not count, and the 13 bytes of CLOSE
    // need no room. Beyond the window there is data that has arrived but is not acknowledged: some
    // 5 ms of it.
    let most = done.most_in_flight;
    assert!((14_000..14_000 + 2 * 1400 + 13).contains(&most), "{most}");
    // 14,000 bytes per 40 ms, their serialisation at 20 Mbit/s and an acknowledgement that waits up
    // to 5 ms: 14,000 * 8 / 50.6 ms at least.
    let rate = 2_000_000.0 * 8.0 / done.took.as_secs_f64() / 1e6;
    assert!((2.2..=2.8).contains(&rate), "{rate} Mbit/s");
}

#[test]
fn an_application_that_reads_late_holds_up_its_own_data_only() {
    // End 1 reads nothing for 5 s while 6 MB wait for it; what it writes itself goes on: its
    // acknowledgements are not behind the unread data.
    let done = run(
        ["cubic", "cubic"],
        [6_000_000, 1_000_000],
        [0, 5_000],
        50,
        3,
    );
    check(&done);
    let unread = settings("cubic").receive_buffer;
    assert!(done.took > Span::from_secs(5) && done.most_in_flight < 2 * unread as u64);
    // And the same with the roles of the ends exchanged.
    check(&run(
        ["cubic", "cubic"],
        [1_000_000, 6_000_000],
        [5_000, 0],
        50,
        4,
    ));
}

#[test]
fn delay_based_algorithms_keep_the_queue_short() {
    for cc in ["verus", "copa", "sprout"] {
        let done = run([cc, "cubic"], [6_000_000, 0], [0, 0], 12, 5);
        check(&done);
        let rate = 6_000_000.0 * 8.0 / done.took.as_secs_f64() / 1e6;
        println!(
            "{cc}: {rate:.2} of 12 Mbit/s, longest queue {:?}",
            done.queue
        );
        assert!(rate > 8.5, "{cc}: {rate} of 12 Mbit/s");
        assert!(
            done.queue < Span::from_millis(700),
            "{cc}: {:?}",
            done.queue
        );
    }
}

#[test]
fn overhead_is_below_one_and_a_half_percent_in_both_directions() {
    for (cc, mbps) in [
        ("verus", 10),
        ("sprout", 10),
        ("fixed:window=20", 1),
        ("fixed:window=1000", 100),
    ] {
        let done = run([cc, "cubic"], [3_000_000, 0], [0, 0], mbps, 6);
        let (out, back) = (done.ends[0].session.stats(), done.ends[1].session.stats());
        let forward = (out.bytes_out - out.sent) as f64 / out.sent as f64;
        let backward = back.bytes_out as f64 / out.bytes_out as f64;
        println!(
            "{cc} at {mbps} Mbit/s: {:.3} % forward, {:.3} % back",
            100.0 * forward,
            100.0 * backward
        );
        assert!(forward < 0.015, "{cc}: {forward}");
        assert!(backward < 0.015, "{cc}: {backward}");
    }
}

#[test]
fn a_credit_of_less_than_a_segment_is_used() {
    let registry = registry();
    let mut small = settings("fixed:window=10");
    small.receive_buffer = 1024;
    let mut a = Session::connect(at(0), &registry, settings("fixed:window=10")).unwrap();
    let mut b = Session::accept(at(0), &registry, small).unwrap();
    let data = vec![7; 10_000];
    let (mut sent, mut got) = (0, 0);
    for ms in 0..2000 {
        a.on_timer(at(ms));
        b.on_timer(at(ms));
        let (wire, taken) = drain(&mut a, at(ms), &data[sent..]);
        sent += taken;
        b.on_bytes(When::exactly(at(ms)), &wire, &mut []);
        let mut buffer = [0; 4096];
        got += b.read(at(ms), &mut buffer);
        let (wire, _) = drain(&mut b, at(ms), &[]);
        a.on_bytes(When::exactly(at(ms)), &wire, &mut []);
    }
    assert_eq!(
        got,
        data.len(),
        "the writer has more than a segment, the credit never holds one"
    );
}
