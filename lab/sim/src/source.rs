// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Data of applications: amounts and times.
use alcc_units::{Bytes, Rate, Span, Time};

/// Data of an application: as much as the sender accepts, unless a field limits it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Source {
    /// Payload in total; `None`: endless.
    pub size: Option<Bytes>,
    /// Limited by the application: it writes this much per time (a constant-rate sender's packets:
    /// IP bytes).
    pub rate: Option<Rate>,
    /// The interval of such an application's writes; zero: 20 ms.
    pub every: Span,
    /// Data for the first span, a pause for the second, and so on.
    pub on_off: Option<(Span, Span)>,
}

/// Between writes, as of a video call with 50 frames a second.
const DEFAULT_INTERVAL: Span = Span::from_millis(20);

impl Source {
    /// Departure time of packet `n` (from 0) of a constant-rate sender, after its start.
    pub fn packet_at(&self, n: u64) -> Span {
        self.write_at(n, self.every)
    }

    /// Time of write number `n` (from 0), counted from the start.
    fn write_at(&self, n: u64, every: Span) -> Span {
        let Some((on, off)) = self.on_off else {
            return every * n;
        };
        let writes = on.as_nanos().div_ceil(every.as_nanos()).max(1);
        (on + off) * (n / writes) + every * (n % writes)
    }
}

/// The state of a [`Source`]: what the application has written so far.
#[derive(Clone, Debug)]
pub(crate) struct AppModel {
    source: Source,
    every: Span,
    start: Time,
    /// Writes, or changes between on and off, that have happened.
    steps: u64,
    stopped: bool,
}

/// The end of an endless stream.
pub(crate) const ENDLESS: u64 = u64::MAX;

impl AppModel {
    /// True if it always has more to send.
    pub(crate) fn is_endless(&self) -> bool {
        self.source == Source::default()
    }

    pub(crate) fn new(source: Source, start: Time) -> Self {
        let every = if source.every.is_zero() {
            DEFAULT_INTERVAL
        } else {
            source.every
        };
        Self {
            source,
            every,
            start,
            steps: 0,
            stopped: false,
        }
    }

    /// The size after which the transfer is complete.
    pub(crate) fn size(&self) -> Option<u64> {
        self.source.size.map(Bytes::get)
    }

    /// Time of the next change that `poll` reports.
    pub(crate) fn next(&self) -> Time {
        if self.stopped {
            return Time::MAX;
        }
        if let Some(rate) = self.source.rate {
            let written = rate.bytes_in(self.every * self.steps).get();
            return if self.source.size.is_some_and(|size| written >= size.get()) {
                Time::MAX
            } else {
                self.start + self.source.write_at(self.steps, self.every)
            };
        }
        match self.source.on_off {
            None if self.steps > 0 => Time::MAX,
            None => self.start,
            Some((on, off)) => self.start + (on + off) * (self.steps / 2) + on * (self.steps % 2),
        }
    }

    /// Runs what is due at `now`. Returns the position up to which the stream may be sent from now
    /// on. Sent data stays sent.
    pub(crate) fn poll(&mut self, now: Time) -> Option<u64> {
        if self.next() > now {
            return None;
        }
        while self.next() <= now {
            self.steps += 1;
        }
        let max = self.size().unwrap_or(ENDLESS);
        if let Some(rate) = self.source.rate {
            return Some(rate.bytes_in(self.every * self.steps).get().min(max));
        }
        Some(if self.steps % 2 == 1 { max } else { 0 })
    }

    /// Ends the application: it writes no more.
    pub(crate) fn stop(&mut self) {
        self.stopped = true;
    }

    /// Time at which the byte at `position` was written, by an application that writes at moments of its
    /// own.
    #[inline]
    pub(crate) fn written_at(&self, position: u64) -> Option<Time> {
        (self.source.rate).map(|rate| self.written_at_rate(rate, position))
    }

    #[cold]
    fn written_at_rate(&self, rate: Rate, position: u64) -> Time {
        let time = rate.time_for(Bytes::new(position.saturating_add(1)));
        let n = time.as_nanos().div_ceil(self.every.as_nanos()).max(1) - 1;
        self.start + self.source.write_at(n, self.every)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(source: Source, until_ms: u64) -> Vec<(u64, u64)> {
        let mut app = AppModel::new(source, Time::from_millis(100));
        let mut seen = Vec::new();
        while app.next() <= Time::from_millis(until_ms) {
            let now = app.next();
            seen.push((now.as_nanos() / 1_000_000, app.poll(now).unwrap()));
        }
        seen
    }

    #[test]
    fn without_limits_all_is_there_at_once() {
        assert_eq!(steps(Source::default(), 9_000), [(100, ENDLESS)]);
        let ten = Source {
            size: Some(Bytes::new(10)),
            ..Source::default()
        };
        assert_eq!(steps(ten, 9_000), [(100, 10)]);
    }

    #[test]
    fn an_application_of_two_megabits_writes_five_thousand_bytes_fifty_times_a_second() {
        let source = Source {
            rate: Some(Rate::mbps(2)),
            size: Some(Bytes::new(12_000)),
            ..Source::default()
        };
        assert_eq!(
            steps(source, 9_000),
            [(100, 5_000), (120, 10_000), (140, 12_000)]
        );
        let mut app = AppModel::new(source, Time::from_millis(100));
        app.poll(Time::from_millis(100));
        let at = |position| app.written_at(position).unwrap();
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
            steps(endless, 230),
            [(100, ENDLESS), (130, 0), (200, ENDLESS), (230, 0)]
        );
        let paced = Source {
            on_off: phases,
            rate: Some(Rate::mbps(2)),
            ..Source::default()
        };
        // Writes at the beginning of each phase and 20 ms into it.
        assert_eq!(
            steps(paced, 250),
            [(100, 5_000), (120, 10_000), (200, 15_000), (220, 20_000)]
        );
        let app = AppModel::new(paced, Time::ZERO);
        assert_eq!(app.written_at(10_000), Some(Time::from_millis(100)));
    }

    #[test]
    fn who_stops_has_nothing_more() {
        let mut app = AppModel::new(Source::default(), Time::ZERO);
        app.stop();
        assert_eq!(app.next(), Time::MAX);
        assert_eq!(app.poll(Time::from_millis(5)), None);
    }
}
