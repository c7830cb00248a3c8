// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Equation 5: the release of an epoch, `max(0, W + (2 - n)/(n - 1) × in flight)` with n epochs in
//! a round trip.
//!
//! Differs from the paper: n = 1 would divide by zero. n = 2 releases a whole window per epoch, so
//! that twice the window is in flight. `release_whole`, for `original`, guards only n = 1, as the
//! program does.
//!
//! Known weakness: with few epochs in a round trip, more than W is in flight: 1.2 W for n = 3, 1.01
//! W for n = 10.
use super::MIN_DELAY;
use alcc_units::Bytes;

/// Equation 5 in whole packets, as the program computes it. The in-flight term is truncated. In a
/// round trip of at most one epoch it releases the packets missing from the window.
pub fn release_whole(window: u64, in_flight: u64, epochs: u64) -> u64 {
    let keep = if epochs <= 1 {
        in_flight
    } else {
        (u128::from(in_flight) * u128::from(epochs - 2) / u128::from(epochs - 1)) as u64
    };
    window.saturating_sub(keep)
}

/// Equation 5 with its fraction. In a round trip of at most two epochs it releases the packets
/// missing from the window, because the formula would release a whole window each time.
pub fn release_exact(window: f64, in_flight: f64, epochs: u64) -> f64 {
    let share = if epochs <= 2 {
        1.0
    } else {
        (epochs - 2) as f64 / (epochs - 1) as f64
    };
    (window - in_flight * share).max(0.0)
}

/// The whole packets of `exact`. `credit` keeps the fraction for the next time.
pub fn whole_packets(exact: f64, credit: &mut f64) -> f64 {
    let exact = exact + *credit;
    let whole = libm::floor(exact);
    *credit = (exact - whole).clamp(0.0, 1.0);
    whole
}

/// In slow start: the whole packets that a window lacks.
pub fn lacking(window: f64, in_flight: Bytes, mss: Bytes) -> Bytes {
    let lacking = window - in_flight.packets(mss);
    mss.mul_f64(lacking.max(0.0).floor())
}

/// The number of packets in these bytes, the last one perhaps short.
pub fn packets(bytes: Bytes, mss: Bytes) -> u64 {
    bytes.get().div_ceil(mss.get().max(1))
}

/// Epochs in a round trip, rounded up, at least 1.
pub fn epochs_in(rtt_ms: f64, epoch_ms: f64) -> u64 {
    ((rtt_ms / epoch_ms.max(MIN_DELAY)).ceil() as u64).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: f64, want: f64) {
        assert!((found - want).abs() < 1e-4, "{found} is not {want}");
    }

    #[test]
    fn equation_5_in_whole_packets() {
        // (W, in flight, RTT ms) -> packets
        for ((w, in_flight, rtt), want) in [
            ((10, 10, 4.0), 0),
            ((10, 10, 5.0), 0),
            ((10, 10, 5.01), 10),
            ((10, 10, 10.0), 10),
            ((10, 10, 12.0), 5),
            ((20, 20, 20.0), 7),
            ((20, 19, 20.0), 8),
            ((50, 50, 100.0), 3),
            ((55, 50, 100.0), 8),
            ((40, 50, 100.0), 0),
            ((100, 0, 100.0), 100),
        ] {
            assert_eq!(
                release_whole(w, in_flight, epochs_in(rtt, 5.0)),
                want,
                "{w} {in_flight} {rtt}"
            );
        }
        close(release_exact(50.0, 50.0, 20), 2.6316);
        close(release_exact(10.0, 10.0, 2), 0.0);
        assert_eq!(release_whole(u64::MAX, u64::MAX, u64::MAX), 2);
    }

    #[test]
    fn equation_5_settles_slightly_above_the_window() {
        for n in [3_u64, 4, 10, 20] {
            // An n-th of what is in flight comes home per epoch.
            let mut in_flight = 0.0;
            for _ in 0..2000 {
                in_flight += release_exact(1000.0, in_flight, n) - in_flight / n as f64;
            }
            let n = n as f64;
            close(in_flight / 1000.0, n * (n - 1.0) / (n * (n - 1.0) - 1.0));
        }
    }
}
