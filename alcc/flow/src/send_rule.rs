// SPDX-License-Identifier: Apache-2.0 OR MIT
use alcc_cc::Allowance;
use alcc_units::Bytes;

/// Bytes that may be sent now under `allowance`, in whole segments of `mss`.
///
/// The window is counted in segments. The last segment in flight may be partial (Nagle, TCP_CORK,
/// the end of a response). Counting its bytes would leave room for less than one segment and stall
/// the flow. With nothing in flight a window always allows one segment. A quota does not: zero
/// means stop.
///
/// `unsent` is the data that the sender holds and has not sent (over TCP: in the kernel). The
/// result fills up its last segment. Otherwise a partial segment would remain for up to 200 ms, and
/// its ACK would look like queueing delay.
pub fn room(allowance: &Allowance, in_flight: Bytes, unsent: Bytes, mss: Bytes) -> Bytes {
    let mss = mss.get().max(1);
    let quota = allowance.quota.get() / mss;
    let window = (allowance.window.get() / mss).max(1);
    let segments = window.saturating_sub(in_flight.get() / mss).min(quota);
    let whole = segments.max(u64::from(allowance.ping)).saturating_mul(mss);
    Bytes::new(whole.saturating_sub(unsent.get() % mss))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(bytes: u64) -> Allowance {
        Allowance::window(Bytes::new(bytes))
    }

    fn leaves(allowance: &Allowance, in_flight: u64) -> u64 {
        room(
            allowance,
            Bytes::new(in_flight),
            Bytes::ZERO,
            Bytes::new(1500),
        )
        .get()
    }

    #[test]
    fn vectors_of_the_send_rule() {
        assert_eq!(leaves(&window(15_000), 15_000), 0);
        assert_eq!(leaves(&window(15_000), 13_500), 1_500);
        assert_eq!(
            leaves(&window(1_000), 0),
            1_500,
            "a window below one segment does not deadlock"
        );
        let quota = |bytes| Allowance {
            quota: Bytes::new(bytes),
            ..Allowance::UNLIMITED
        };
        assert_eq!(leaves(&quota(1_000), 0), 0, "a quota can stop the flow");
        assert_eq!(leaves(&quota(3_100), 1_000_000), 3_000);
        assert_eq!(
            leaves(
                &Allowance {
                    ping: true,
                    ..quota(0)
                },
                0
            ),
            1_500
        );
    }

    #[test]
    fn a_partial_segment_in_flight_does_not_stall() {
        // Half a segment is corked in the kernel and the window is one segment: without the rule
        // nothing could follow.
        assert_eq!(leaves(&window(1_500), 700), 1_500);
    }

    #[test]
    fn a_partial_segment_that_waits_is_filled_up() {
        // 248 bytes of header wait in the kernel: three segments are those and 2 * 1500 + 1252
        // bytes of the file.
        let room = |unsent| {
            room(
                &window(6_000),
                Bytes::new(1_748),
                Bytes::new(unsent),
                Bytes::new(1500),
            )
            .get()
        };
        assert_eq!(room(248), 3 * 1500 - 248);
        assert_eq!(room(1_748), 3 * 1500 - 248);
        assert_eq!(room(1_500), 3 * 1500);
    }

    #[test]
    fn no_limit_is_no_overflow() {
        assert!(leaves(&Allowance::UNLIMITED, u64::MAX / 2) > 1 << 40);
        assert_eq!(
            room(&Allowance::UNLIMITED, Bytes::ZERO, Bytes::ZERO, Bytes::ZERO),
            Bytes::MAX
        );
    }
}
