// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fuzz targets for packets of `alcc-lab trace record`.
use alcc_record::results::Recorded;
use alcc_record::{Load, Mode, Plan, session, wire};
use alcc_units::{Rate, Span, Time};

/// Packets of a recording: any bytes are a packet that is written back as the same packet, or none;
/// any packets, in pieces that the bytes cut, leave both ends of a session alive; any bytes are
/// another end's part of a recording, or none.
pub(crate) fn record(bytes: &[u8]) {
    if let Some(recorded) = Recorded::decode(bytes) {
        assert_eq!(Recorded::decode(&recorded.encode()), Some(recorded));
    }
    let plan = Plan {
        mode: Mode::Saturate,
        duration: Span::from_millis(200),
        warm_up: Span::from_millis(100),
        size: 200,
        overhead: 28,
        down: Load::Saturate,
        up: Load::Every(Span::from_millis(5)),
        limit: Rate::mbps(10),
    };
    let mut now = Time::from_millis(5);
    let mut ends = [session::Role::Client, session::Role::Listener]
        .map(|role| session::Session::new(role, 0, plan.clone(), now));
    let mut rest = bytes;
    let mut out = Vec::new();
    while let Some((&len, more)) = rest.split_first() {
        let (piece, more) = more.split_at(usize::from(len).min(more.len()));
        rest = more;
        if let Some(packet) = wire::Packet::decode(piece) {
            let mut written = Vec::new();
            packet.encode(&mut written, 0);
            assert_eq!(wire::Packet::decode(&written), Some(packet.clone()));
            if let wire::Packet::Session(mut inside) = packet {
                inside.session = 0;
                for end in &mut ends {
                    end.handle(now, inside.clone());
                }
            }
        }
        for end in &mut ends {
            if end.is_waiting() {
                end.start(now, now);
            }
            for _ in 0..50 {
                out.clear();
                if !end.poll(now, &mut out) {
                    break;
                }
                assert!(
                    wire::Packet::decode(&out).is_some(),
                    "what we write we read"
                );
            }
        }
        now += Span::from_millis(10);
    }
    for end in &ends {
        let _ = end.clock();
        assert_eq!(
            Recorded::decode(&end.recorded().encode()),
            Some(end.recorded())
        );
    }
}
