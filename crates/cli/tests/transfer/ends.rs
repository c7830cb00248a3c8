// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The end of a transfer on a path that loses packets, also the last ones: what the receiver says it has, the sender says too.
use crate::place::{Going, Place, link};
use alcc_emu::PathSpec;
use alcc_link::DirectionSpec;
use std::time::Instant;

/// A tenth is lost, in each direction.
fn with_loss() -> PathSpec {
    let with = |spec: DirectionSpec| DirectionSpec { loss: 0.1, ..spec };
    let PathSpec { down, up, seed } = link();
    PathSpec {
        down: with(down),
        up: with(up),
        seed,
    }
}

#[test]
fn both_ends_agree_on_the_end_although_last_packets_are_lost() {
    let Some(place) = Place::over(with_loss()) else {
        return;
    };
    // The datagram transports twice: their ends are made here, those of streams by the kernel.
    let ways: [&[&str]; 8] = [
        &["--transport", "tcp"],
        &["--transport", "udp"],
        &["--transport", "udp"],
        &["--transport", "quic"],
        &["--transport", "quic"],
        &["--transport", "in-band"],
        &["--transport", "in-band", "--carrier", "tls"],
        &["--transport", "in-band", "--carrier", "websocket+tls"],
    ];
    for round in 0..6 {
        let began = Instant::now();
        let flows: Vec<(Going, Going)> = ways
            .iter()
            .enumerate()
            .map(|(i, way)| {
                let port = (9700 + i).to_string();
                let common = [way, &["--port", &port][..]].concat();
                let recv = place.recv(&[&common[..], &["--once"]].concat());
                let size = (9_000 + 1_000 * round).to_string();
                let more = ["--cc", "cubic", "--size", &size, "--connect-timeout", "20s"];
                (recv, place.sending(&[&common[..], &more].concat()))
            })
            .collect();
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
