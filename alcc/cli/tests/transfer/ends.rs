// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The end of a transfer on a path that loses packets, also the last ones: what the receiver says
//! it has, the sender says too.
use crate::place::{Going, Place, link};
use alcc_emu::PathSpec;
use alcc_link::{Changes, DirectionSpec, RateSpec, Step};
use alcc_units::{Rate, Time};
use std::time::Instant;

/// A link that loses a sixth of the packets in each direction, from five seconds on, so that a busy
/// machine can complete all handshakes first.
fn with_loss() -> PathSpec {
    let with = |spec: DirectionSpec| DirectionSpec {
        changes: Changes {
            steps: vec![Step {
                at: Time::from_millis(5000),
                loss: Some(1.0 / 6.0),
                ..Step::default()
            }],
            ..Changes::default()
        },
        ..spec
    };
    let PathSpec { down, up, seed } = link();
    PathSpec {
        down: with(down),
        up: with(up),
        seed,
    }
}

#[test]
fn both_ends_agree_on_the_end_although_last_packets_are_lost() {
    // The datagram transports twice: their ends are made here, those of streams by the kernel.
    let ways: [&[&str]; 7] = [
        &["--transport", "tcp"],
        &["--transport", "udp"],
        &["--transport", "udp"],
        &["--transport", "quic"],
        &["--transport", "quic"],
        &["--transport", "in-band"],
        &["--transport", "in-band", "--carrier", "tls"],
    ];
    for _ in 0..3 {
        let Some(place) = Place::over(with_loss()) else {
            return;
        };
        let began = Instant::now();
        let ports: Vec<String> = (9700..).take(ways.len()).map(|p| p.to_string()).collect();
        let common = |i: usize| [ways[i], &["--port", &ports[i]]].concat();
        // All at once, and longer than the path is whole.
        let receivers: Vec<Going> = (0..ways.len())
            .map(|i| {
                let args = [&["recv", "--insecure", "--once"], &common(i)[..]].concat();
                place.start(&place.inside, &args)
            })
            .collect();
        receivers.iter().for_each(|r| r.says("listening on "));
        let flows: Vec<(Going, Going)> = receivers
            .into_iter()
            .enumerate()
            .map(|(i, recv)| {
                let more = ["--cc", "cubic", "--size", "170k", "--rate", "200kbit"];
                (recv, place.sending(&[&common(i)[..], &more].concat()))
            })
            .collect();
        println!("all started after {:?}", began.elapsed());
        for ((recv, sending), way) in flows.into_iter().zip(ways) {
            let (sent, received) = (sending.end(), recv.end());
            println!("{way:?}: {:?}", began.elapsed());
            assert_eq!(
                (sent.code, received.code),
                (Some(0), Some(0)),
                "{way:?}: {sent:?} {received:?}"
            );
        }
    }
}

/// Data may stay in the kernel's send buffer for longer than `--stall` while the transfer makes
/// progress.
#[test]
fn a_slow_link_is_no_stall() {
    let mut slow = link();
    slow.down.rate = RateSpec::Fixed(Rate::bps(96_000));
    let Some(place) = Place::over(slow) else {
        return;
    };
    let recv = place.recv(&["--once"]);
    // Four seconds, of which the program writes for less than one.
    let sent = place.send(&["--size", "48k", "--stall", "2s", "--under", "cubic"]);
    assert_eq!((sent.code, recv.end().code), (Some(0), Some(0)), "{sent:?}");
}
