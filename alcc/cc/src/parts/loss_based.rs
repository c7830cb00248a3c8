// SPDX-License-Identifier: Apache-2.0 OR MIT
use crate::{AckBatch, RttView};
use alcc_units::{Bytes, Span};

/// True if the window limited the sender. Growth is allowed only then, because an unused window
/// says nothing about the path. With half of it unused the result is false, whatever the host
/// reports (RFC 9002, section 7.8; RFC 2861).
pub fn window_used(ack: &AckBatch<'_>, window: Bytes) -> bool {
    let by = ack.limited;
    let held_elsewhere = (by.app || by.peer || by.quota) && !by.window;
    !held_elsewhere && ack.in_flight_before * 2 >= window
}

/// RTO as in Linux: smoothed RTT plus four deviations, which count at least 200 ms; 1 s without a
/// sample.
pub fn rto(rtt: &RttView) -> Span {
    if rtt.smoothed.is_zero() {
        return Span::from_secs(1);
    }
    rtt.smoothed + (rtt.variance * 4).max(Span::from_millis(200))
}

/// The window after `idle`, in packets: halved for every RTO that passed, down to `initial` (RFC
/// 2861 as in Linux).
pub fn restart_window(window: f64, initial: f64, idle: Span, rto: Span) -> f64 {
    let periods = idle.as_nanos() / rto.as_nanos().max(1);
    (0..periods.min(64)).fold(window, |w, _| {
        if w > initial {
            (w / 2.0).max(initial)
        } else {
            w
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeout_vectors() {
        let ms = Span::from_millis;
        let view = |s, v| RttView {
            smoothed: s,
            variance: v,
            ..RttView::default()
        };
        assert_eq!(rto(&RttView::default()), Span::from_secs(1));
        assert_eq!(rto(&view(ms(100), ms(50))), ms(300));
        assert_eq!(rto(&view(ms(100), ms(5))), ms(300));
        assert_eq!(rto(&view(ms(100), ms(75))), ms(400));
    }

    #[test]
    fn a_restart_halves_down_to_the_initial_window() {
        let ms = Span::from_millis;
        let after = |idle| restart_window(100.0, 10.0, ms(idle), ms(300));
        assert_eq!(
            [after(299), after(300), after(900), after(9000)],
            [100.0, 50.0, 12.5, 10.0]
        );
        assert_eq!(restart_window(4.0, 10.0, ms(9000), ms(300)), 4.0);
    }
}
