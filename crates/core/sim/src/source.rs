// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What applications have to send, and when.
use alcc_units::{Bytes, Rate, Span, Time};

/// What an application gives its sender: as much as it takes, unless something below says less.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Source {
    /// So much payload in all; `None`: without end.
    pub size: Option<Bytes>,
    /// Limited by the application: it writes this much per time (a constant-rate sender's packets: IP bytes).
    pub rate: Option<Rate>,
    /// How far apart the writes of such an application are; zero: 20 ms.
    pub every: Span,
    /// On for the first span, off for the second, and so on.
    pub on_off: Option<(Span, Span)>,
}

/// As of a video call with 50 frames a second.
const EVERY: Span = Span::from_millis(20);

impl Source {
    /// What is written in one go, beginning at `at` after the start: number `n` of all, counted from 0.
    fn write_at(&self, n: u64, every: Span) -> Span {
        let Some((on, off)) = self.on_off else {
            return every * n;
        };
        let writes = on.as_nanos().div_ceil(every.as_nanos()).max(1);
        (on + off) * (n / writes) + every * (n % writes)
    }
}

/// A source at work.
#[derive(Clone, Debug)]
pub(crate) struct Supply {
    source: Source,
    every: Span,
    start: Time,
    /// Writes, or changes between on and off, that have happened.
    turns: u64,
    stopped: bool,
}

/// The stream ends nowhere.
pub(crate) const ENDLESS: u64 = u64::MAX;

impl Supply {
    pub(crate) fn new(source: Source, start: Time) -> Self {
        let every = if source.every.is_zero() {
            EVERY
        } else {
            source.every
        };
        Self {
            source,
            every,
            start,
            turns: 0,
            stopped: false,
        }
    }

    /// The size after which the transfer is complete.
    pub(crate) fn size(&self) -> Option<u64> {
        self.source.size.map(Bytes::get)
    }

    /// When `turn` has something to say.
    pub(crate) fn next(&self) -> Time {
        if self.stopped {
            return Time::MAX;
        }
        if let Some(rate) = self.source.rate {
            let written = rate.bytes_in(self.every * self.turns).get();
            return if self.source.size.is_some_and(|size| written >= size.get()) {
                Time::MAX
            } else {
                self.start + self.source.write_at(self.turns, self.every)
            };
        }
        match self.source.on_off {
            None if self.turns > 0 => Time::MAX,
            None => self.start,
            Some((on, off)) => self.start + (on + off) * (self.turns / 2) + on * (self.turns % 2),
        }
    }

    /// What is due at `now` happens: up to where the stream may be sent from now on. What is sent already stays sent.
    pub(crate) fn turn(&mut self, now: Time) -> Option<u64> {
        if self.next() > now {
            return None;
        }
        while self.next() <= now {
            self.turns += 1;
        }
        let most = self.size().unwrap_or(ENDLESS);
        if let Some(rate) = self.source.rate {
            return Some(rate.bytes_in(self.every * self.turns).get().min(most));
        }
        Some(if self.turns % 2 == 1 { most } else { 0 })
    }

    /// The application is gone.
    pub(crate) fn stop(&mut self) {
        self.stopped = true;
    }

    /// When the byte at `position` was written, by an application that writes at moments of its own.
    pub(crate) fn written_at(&self, position: u64) -> Option<Time> {
        let rate = self.source.rate?;
        let time = rate.time_for(Bytes::new(position.saturating_add(1)));
        let n = time.as_nanos().div_ceil(self.every.as_nanos()).max(1) - 1;
        Some(self.start + self.source.write_at(n, self.every))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(source: Source, until_ms: u64) -> Vec<(u64, u64)> {
        let mut supply = Supply::new(source, Time::from_millis(100));
        let mut seen = Vec::new();
        while supply.next() <= Time::from_millis(until_ms) {
            let now = supply.next();
            seen.push((now.as_nanos() / 1_000_000, supply.turn(now).unwrap()));
        }
        seen
    }

    #[test]
    fn without_limits_all_is_there_at_once() {
        assert_eq!(turns(Source::default(), 9_000), [(100, ENDLESS)]);
        let ten = Source {
            size: Some(Bytes::new(10)),
            ..Source::default()
        };
        assert_eq!(turns(ten, 9_000), [(100, 10)]);
    }

    #[test]
    fn an_application_of_two_megabits_writes_five_thousand_bytes_fifty_times_a_second() {
        let source = Source {
            rate: Some(Rate::mbps(2)),
            size: Some(Bytes::new(12_000)),
            ..Source::default()
        };
        assert_eq!(
            turns(source, 9_000),
            [(100, 5_000), (120, 10_000), (140, 12_000)]
        );
        let mut supply = Supply::new(source, Time::from_millis(100));
        supply.turn(Time::from_millis(100));
        let at = |position| supply.written_at(position).unwrap();
        assert_eq!(at(0), Time::from_millis(100));
        assert_eq!(at(4_999), Time::from_millis(100));
        assert_eq!(at(5_000), Time::from_millis(120));
    }

    #[test]
    fn on_and_off() {
        let phases = Some((Span::from_millis(30), Span::from_millis(70)));
        let endless = Source {
            on_off: phases,
            ..Source::default()
        };
        assert_eq!(
            turns(endless, 230),
            [(100, ENDLESS), (130, 0), (200, ENDLESS), (230, 0)]
        );
        let paced = Source {
            on_off: phases,
            rate: Some(Rate::mbps(2)),
            ..Source::default()
        };
        // Writes at the beginning of each phase and 20 ms into it.
        assert_eq!(
            turns(paced, 250),
            [(100, 5_000), (120, 10_000), (200, 15_000), (220, 20_000)]
        );
        let supply = Supply::new(paced, Time::ZERO);
        assert_eq!(supply.written_at(10_000), Some(Time::from_millis(100)));
    }

    #[test]
    fn who_stops_has_nothing_more() {
        let mut supply = Supply::new(Source::default(), Time::ZERO);
        supply.stop();
        assert_eq!(supply.next(), Time::MAX);
        assert_eq!(supply.turn(Time::from_millis(5)), None);
    }
}
