// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Emulated links against sockets of the kernel. Needs namespaces: prints "skipped" where they are not permitted.
mod marks;
#[path = "../../../../alcc/cli/tests/support/starts.rs"]
mod starts;
mod support;
mod tbf;

use alcc_emu::{Dir, Namespace, PathSpec, Silent};
use alcc_link::{DirectionSpec, DropReason, Outcome, QueueSpec, RateSpec};
use alcc_units::{Bytes, Rate, Span};
use std::time::{Duration, Instant};
use support::{Events, accounted, link, recorded};

/// Without root only a process with one thread can get the privileges, and the usual test runner
/// has several: so these tests run one after the other on the first thread. An argument chooses
/// those that contain it.
fn main() {
    if let Err(why) = alcc_emu::available().and_then(|()| alcc_emu::prepare().map(|_| ())) {
        println!("skipped: {why}");
        return;
    }
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| !a.starts_with('-'))
        .collect();
    let tests: [(&str, fn()); 12] = [
        (
            "a_thread_and_those_that_it_starts_are_inside",
            a_thread_and_those_that_it_starts_are_inside,
        ),
        (
            "round_trip_is_the_sum_of_both_delays",
            round_trip_is_the_sum_of_both_delays,
        ),
        (
            "a_flood_gets_the_rate_and_the_rest_is_dropped_and_counted",
            a_flood_gets_the_rate_and_the_rest_is_dropped_and_counted,
        ),
        (
            "packets_arrive_corrupt_and_twice",
            packets_arrive_corrupt_and_twice,
        ),
        (
            "loss_has_the_asked_probability",
            loss_has_the_asked_probability,
        ),
        (
            "the_pure_model_fed_with_the_recorded_arrivals_gives_the_same_departures",
            the_pure_model_fed_with_the_recorded_arrivals_gives_the_same_departures,
        ),
        (
            "links_run_beside_each_other_and_leave_nothing",
            links_run_beside_each_other_and_leave_nothing,
        ),
        (
            "a_program_runs_inside_and_its_status_comes_back",
            a_program_runs_inside_and_its_status_comes_back,
        ),
        (
            "a_fixed_rate_is_that_of_the_kernels_token_bucket",
            tbf::a_fixed_rate_is_that_of_the_kernels_token_bucket,
        ),
        (
            "a_sender_that_reacts_to_marks_loses_nothing",
            marks::a_sender_that_reacts_to_marks_loses_nothing,
        ),
        (
            "a_sender_that_does_not_is_not_marked",
            marks::a_sender_that_does_not_is_not_marked,
        ),
        (
            "the_same_range_twice_is_refused",
            the_same_range_twice_is_refused,
        ),
    ];
    for (name, test) in tests {
        if wanted.is_empty() || wanted.iter().any(|w| name.contains(w)) {
            println!("test {name}");
            test();
        }
    }
}

/// So near has the best of many round trips to be.
const NEAR: Duration = Duration::from_millis(6);

fn delay(ms: u64) -> DirectionSpec {
    DirectionSpec {
        delay: Span::from_millis(ms),
        ..DirectionSpec::default()
    }
}

fn fixed(rate: Rate, bytes: u64) -> DirectionSpec {
    DirectionSpec {
        rate: RateSpec::Fixed(rate),
        queue: QueueSpec::droptail(Bytes::new(bytes)),
        ..DirectionSpec::default()
    }
}

fn round_trip_is_the_sum_of_both_delays() {
    let spec = PathSpec {
        down: delay(25),
        up: delay(15),
        seed: 1,
    };
    let (outside, inside, link) = link(spec, Box::new(Silent));
    // Never shorter; a busy machine is late, but not each time.
    let sum = Duration::from_millis(40);
    let (best, tried) = support::best_round_trip(&outside, &inside, &link, sum + NEAR);
    assert!(best >= sum && best < sum + NEAR, "{best:?} of {tried}");
    let report = link.stop().unwrap();
    assert_eq!((report.down.delivered, report.up.delivered), (tried, tried));
    accounted(&report);
    assert_eq!(report.hidden_drops(), 0);
}

fn a_flood_gets_the_rate_and_the_rest_is_dropped_and_counted() {
    // 800 ms: as long the machine may do something else, and the link still has something to send.
    let spec = PathSpec {
        up: fixed(Rate::mbps(12), 1_200_000),
        ..PathSpec::default()
    };
    let (outside, inside, link) = link(spec, Box::new(Silent));
    let offered = support::flood_up(&outside, &inside, &link, Duration::from_secs(3));
    let report = link.stop().unwrap();
    accounted(&report);
    let up = &report.up;
    assert!(
        up.overflowed > 0,
        "the packets did not fill the queue: {up:?}"
    );
    assert_eq!(up.read + up.kernel_dropped, offered);
    let mbps = up.throughput.unwrap().as_mbps_f64();
    assert!((11.76..=12.01).contains(&mbps), "{mbps} Mbit/s");
    assert!((0.98..=1.0005).contains(&up.utilization.unwrap()), "{up:?}");
    // The full queue, and one packet more is being carried.
    let p95 = up.queue_delay_p95.unwrap().as_millis_f64();
    assert!((600.0..802.0).contains(&p95), "{p95} ms");
}

fn loss_has_the_asked_probability() {
    let spec = PathSpec {
        up: DirectionSpec {
            loss: 0.1,
            ..delay(1)
        },
        ..PathSpec::default()
    };
    let (outside, inside, link) = link(spec, Box::new(Silent));
    let sent = support::send_up(&outside, &inside, &link, 5_000);
    let report = link.stop().unwrap();
    accounted(&report);
    assert_eq!(report.up.read + report.up.kernel_dropped, sent);
    // As many draws at 0.1 as were read, which a busy machine makes fewer: five standard deviations.
    let draws = report.up.read as f64;
    let off = (report.up.lost as f64 - 0.1 * draws).abs();
    assert!(
        draws > 1000.0 && off < 5.0 * (0.09 * draws).sqrt(),
        "{:?}",
        report.up
    );
}

/// The receiving kernel discards what is corrupt by its checksum, and hands out a copy as well.
fn packets_arrive_corrupt_and_twice() {
    let spec = PathSpec {
        up: DirectionSpec {
            radio: vec![
                "corrupt:p=0.2".parse().unwrap(),
                "duplicate:p=0.2".parse().unwrap(),
            ],
            ..delay(1)
        },
        ..PathSpec::default()
    };
    let (outside, inside, link) = link(spec, Box::new(Silent));
    let server = support::socket(&outside, link.outside_addr());
    let client = support::socket(&inside, link.inside_addr());
    let to = server.local_addr().unwrap();
    let errors = || {
        let text = outside
            .run(|| std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap())
            .unwrap();
        let line = text.lines().filter(|l| l.starts_with("Udp: ")).nth(1);
        let field = line.unwrap().split_whitespace().nth(7).unwrap();
        field.parse::<u64>().unwrap()
    };
    let mut arrived = [0_u64; 1_000];
    server.set_nonblocking(true).unwrap();
    for n in 0..1_000_u16 {
        let mut bytes = [7; 64];
        bytes[..2].copy_from_slice(&n.to_ne_bytes());
        client.send_to(&bytes, to).unwrap();
        std::thread::sleep(Duration::from_micros(300));
        let mut got = [0; 100];
        while let Ok(len) = server.recv(&mut got) {
            assert_eq!(
                (len, &got[2..len]),
                (64, &[7; 62][..]),
                "a wrong bit came through"
            );
            arrived[usize::from(u16::from_ne_bytes([got[0], got[1]]))] += 1;
        }
    }
    std::thread::sleep(Duration::from_millis(300));
    let mut got = [0; 100];
    while server.recv(&mut got).is_ok() {
        arrived[usize::from(u16::from_ne_bytes([got[0], got[1]]))] += 1;
    }
    let discarded = errors();
    let report = link.stop().unwrap();
    accounted(&report);
    let of = |times: u64| arrived.iter().filter(|n| **n == times).count();
    // Five standard deviations: of 1000 draws at 0.2, 63; twice: of the 800 that are whole.
    assert!(
        of(0).abs_diff(200) < 64 && of(2).abs_diff(160) < 64,
        "{} {}",
        of(0),
        of(2)
    );
    assert!(
        discarded > 100 && discarded == report.up.lost,
        "{discarded} {}",
        report.up.lost
    );
}

fn the_pure_model_fed_with_the_recorded_arrivals_gives_the_same_departures() {
    let spec = PathSpec {
        up: DirectionSpec {
            delay: Span::from_millis(7),
            loss: 0.02,
            ..fixed(Rate::mbps(6), 20_000)
        },
        seed: 42,
        ..PathSpec::default()
    };
    let events = Events::default();
    let (outside, inside, link) = link(spec.clone(), Box::new(events.clone()));
    // Until there is something to compare: a busy machine reads less.
    let enough = |all: &[Outcome]| {
        let count = |is: &dyn Fn(&Outcome) -> bool| all.iter().filter(|o| is(o)).count();
        let gone = |o: &Outcome, for_it: DropReason| matches!(o, Outcome::Dropped { why, .. } if *why == for_it);
        count(&|o| gone(o, DropReason::Loss)) > 0
            && count(&|o| gone(o, DropReason::Overflow)) > 0
            && count(&|o| matches!(o, Outcome::Delivered { .. })) > 100
    };
    for _ in 0..10 {
        support::flood_up(&outside, &inside, &link, Duration::from_millis(700));
        if enough(&recorded(&events, Dir::Up)) {
            break;
        }
    }
    link.stop().unwrap();
    let seen = recorded(&events, Dir::Up);
    assert!(enough(&seen), "{} events", seen.len());
    let model = support::replay(spec.model(Dir::Up), &seen);
    // The model runs on after the last event of the live link, which was stopped with packets
    // inside.
    assert_eq!(model[..seen.len()], seen[..]);
}

fn links_run_beside_each_other_and_leave_nothing() {
    let before = support::threads();
    let links: Vec<_> = (1..=4)
        .map(|n| {
            link(
                PathSpec {
                    down: delay(n * 10),
                    ..PathSpec::default()
                },
                Box::new(Silent),
            )
        })
        .collect();
    for (n, (outside, inside, link)) in links.iter().enumerate() {
        let want = Duration::from_millis(10 * (n as u64 + 1));
        let (best, _) = support::best_round_trip(outside, inside, link, want + NEAR);
        assert!(best >= want && best < want + NEAR, "{n}: {best:?}");
    }
    let inside = links[0].1.clone();
    assert!(support::devices(&inside).contains("alcc0"));
    drop(links);
    assert!(
        !support::devices(&inside).contains("alcc0"),
        "the device stayed"
    );
    let deadline = Instant::now() + Duration::from_secs(5);
    while support::threads() > before && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn a_program_runs_inside_and_its_status_comes_back() {
    let inside = Namespace::new().unwrap();
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "test $(wc -l < /proc/net/dev) = 3 && exit 7"]);
    assert_eq!(
        inside.spawn(command).unwrap().wait().unwrap().code(),
        Some(7)
    );
    let missing = inside.spawn(std::process::Command::new("/usr/bin/no-such-program-here"));
    assert_eq!(missing.unwrap_err().kind(), std::io::ErrorKind::NotFound);
}

fn a_thread_and_those_that_it_starts_are_inside() {
    let inside = Namespace::new().unwrap();
    assert!(inside.threads().is_empty());
    let seen = inside.clone();
    let here = move || {
        let here = Namespace::current().unwrap().is_same(&seen);
        (here, seen.threads().len())
    };
    let work = move || (here(), std::thread::spawn(here).join().unwrap());
    let thread = inside.spawn_thread("inside", work).unwrap();
    let (own, child) = thread.join().unwrap().unwrap();
    assert_eq!((own, child), ((true, 1), (true, 2)));
    let outside = Namespace::current().unwrap();
    assert!(!outside.is_same(&inside) && outside.threads().contains(&std::process::id()));
}

fn the_same_range_twice_is_refused() {
    let (outside, _inside, link) = link(PathSpec::default(), Box::new(Silent));
    let other = Namespace::new().unwrap();
    let second = |net| {
        alcc_emu::Emulator::start(&outside, &other, net, PathSpec::default(), Box::new(Silent))
    };
    let refused = second(alcc_emu::Subnet::default()).unwrap_err();
    assert!(
        matches!(refused, alcc_emu::EmuError::SubnetTaken { .. }),
        "{refused}"
    );
    assert!(second(alcc_emu::Subnet::new(1, 1).unwrap()).is_ok());
    drop(link);
}
