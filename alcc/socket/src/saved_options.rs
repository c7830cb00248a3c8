// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The two options of the program's socket that control changes: the pacing rate, and the
//! congestion control below. The program's own values apply beside ours, and are restored at the
//! end.
use crate::kernel;
use alcc_units::Rate;
use libc::c_int;
use std::os::fd::RawFd;

/// The kernel's value for no limit.
const NONE: u64 = u64::MAX;
/// Significant bits of a rate of alcc: exact to 0.8 %. The bits below are [`MARK`]'s and identify
/// it as ours, so that the next process with the socket (a child, or a program that it starts) does
/// not take it for the program's own. The mark is odd, unlike rates that people choose.
const EXACT_BITS: u32 = 8;
const MARK: u64 = 0xA5A5_A5A5_A5A5_A5A5;

fn mark(rate: u64) -> u64 {
    let low = (1u64 << (u64::BITS - rate.leading_zeros()).saturating_sub(EXACT_BITS)) - 1;
    rate & !low | MARK & low
}

/// Rates of alcc are never so low that they have no room for the mark: see `OverTcp::pacing_rate`.
fn is_marked(rate: u64) -> bool {
    rate != NONE && rate >> (EXACT_BITS + 4) > 0 && rate == mark(rate)
}

/// The options of a socket when control began, and now. Rates in bytes per second.
pub(crate) struct SavedOptions {
    /// The program's own limit.
    own: u64,
    /// The rate that is set in the kernel.
    set: u64,
    /// The congestion control below: the earlier one, and the one that we selected.
    under: Option<(String, String)>,
}

impl SavedOptions {
    /// State for a socket on which the pacing rate `found` is set. `before`: the program's own
    /// limit, if an earlier runtime knew it.
    pub(crate) fn new(found: u64, before: Option<u64>) -> Self {
        let own = if is_marked(found) {
            before.unwrap_or(NONE)
        } else {
            found
        };
        Self {
            own,
            set: found,
            under: None,
        }
    }

    /// The program's own pacing rate.
    pub(crate) fn own(&self) -> u64 {
        self.own
    }

    /// Takes the rate found by a reading: if it is not the last one that we set, the program has
    /// set it.
    pub(crate) fn found(&mut self, rate: u64) {
        if rate != self.set && !is_marked(rate) {
            (self.own, self.set) = (rate, rate);
        }
    }

    /// Sets the algorithm's rate, limited by the program's. Changes smaller than any intended one
    /// (Vivace tries 5 % more and less) are not worth a system call.
    pub(crate) fn set_pacing(&mut self, fd: RawFd, wanted: Option<Rate>) {
        let ours = wanted.map_or(NONE, |rate| mark(rate.as_bps() / 8));
        let rate = ours.min(self.own);
        if rate.abs_diff(self.set) > self.set / 32 || self.set > self.own {
            self.set(fd, rate);
        }
    }

    /// Sets the program's own pacing rate alone.
    pub(crate) fn clear_pacing(&mut self, fd: RawFd) {
        if self.set != self.own {
            self.set(fd, self.own);
        }
    }

    fn set(&mut self, fd: RawFd, rate: u64) {
        kernel::set_pacing(fd, rate);
        self.set = rate;
    }

    /// Selects the congestion control below; errno on refusal.
    pub(crate) fn select_under(&mut self, fd: RawFd, name: &str) -> Result<(), c_int> {
        let before = kernel::under(fd);
        if before.as_deref() == Some(name) {
            return Ok(());
        }
        kernel::set_under(fd, name)?;
        let before = match self.under.take() {
            Some((first, ours)) if ours.is_empty() => Some(first),
            _ => before,
        };
        self.under = before.map(|before| (before, name.to_owned()));
        Ok(())
    }

    /// Notes that the kernel has taken our control away. The earlier one is still known.
    pub(crate) fn forget_under(&mut self) {
        if let Some((_, ours)) = &mut self.under {
            ours.clear();
        }
    }

    /// Notes that the program has selected another control, so that the earlier one need not be
    /// restored.
    pub(crate) fn drop_under(&mut self) {
        self.under = None;
    }

    /// Restores the options at the end of control. A congestion control that the program has
    /// selected meanwhile stays.
    pub(crate) fn restore(&mut self, fd: RawFd) {
        self.clear_pacing(fd);
        if let Some((before, ours)) = self.under.take()
            && kernel::under(fd).as_deref() == Some(ours.as_str())
        {
            // If that is refused (the control is not allowed to all users), ours stays.
            let _ = kernel::set_under(fd, &before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_of_ours_is_known_again_and_a_programs_is_not() {
        for rate in [
            26_800,
            72_400,
            1_000_000,
            12_345_678,
            1_250_000_000,
            1 << 40,
        ] {
            let ours = mark(rate);
            assert!(is_marked(ours), "{rate}");
            assert!(ours.abs_diff(rate) <= rate / 128, "{rate} {ours}");
            assert_eq!(mark(ours), ours);
        }
        let odd = (1..1_000_000).filter(|kilobits| is_marked(kilobits * 125));
        assert!(odd.count() < 200, "rates in kbit/s");
        for n in 1..1_000_000 {
            let rates = [n * 1000, n * 1024, n * 1250];
            assert!(!rates.into_iter().any(is_marked), "{n}");
        }
        assert!(!is_marked(NONE) && !is_marked(0) && !is_marked(u64::from(u32::MAX)));
    }

    #[test]
    fn what_vivace_tries_reaches_the_kernel_and_small_changes_do_not() {
        let (_one, other) = std::os::unix::net::UnixStream::pair().unwrap();
        let fd = std::os::fd::AsRawFd::as_raw_fd(&other);
        for mbps in [1.0, 12.0, 100.0, 10_000.0] {
            let by = |part: f64| Rate::bps_f64(mbps * 1e6 * part);
            let mut socket = SavedOptions::new(NONE, None);
            socket.set_pacing(fd, Some(by(1.0)));
            let before = socket.set;
            for near in [0.99, 1.01, 1.02] {
                socket.set_pacing(fd, Some(by(near)));
                assert_eq!(socket.set, before, "{mbps} {near}");
            }
            for tried in [1.05, 1.0, 0.95] {
                let before = socket.set;
                socket.set_pacing(fd, Some(by(tried)));
                assert_ne!(socket.set, before, "{mbps} {tried}");
            }
        }
    }

    #[test]
    fn what_a_runtime_before_has_set_is_not_the_programs() {
        let ours = mark(5_000_000);
        assert_eq!(SavedOptions::new(ours, None).own(), NONE);
        assert_eq!(SavedOptions::new(ours, Some(1_000_000)).own(), 1_000_000);
        assert_eq!(
            SavedOptions::new(2_000_000, Some(1_000_000)).own(),
            2_000_000
        );
        let mut socket = SavedOptions::new(NONE, None);
        socket.found(ours);
        assert_eq!(socket.own(), NONE);
        socket.found(3_000_000);
        assert_eq!(socket.own(), 3_000_000);
    }
}
