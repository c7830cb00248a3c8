// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Operations that make traces from traces.
use crate::{MAX_OPPORTUNITIES, Trace, TraceError};
use alcc_units::{Rate, Span, Time};

impl Trace {
    /// Combines the opportunities of several traces: the sum of receivers that were recorded at the
    /// same time. No trace is repeated, so beyond the end of a shorter trace only the longer ones
    /// contribute.
    ///
    /// # Errors
    /// There is no trace, or there are more than [`MAX_OPPORTUNITIES`] together.
    pub fn combine(traces: &[Self]) -> Result<Self, TraceError> {
        let total: usize = traces.iter().map(Self::len).sum();
        if total > MAX_OPPORTUNITIES {
            return Err(TraceError::TooManyMade);
        }
        let mut all = Vec::with_capacity(total);
        for trace in traces {
            all.extend_from_slice(trace.opportunities());
        }
        all.sort_unstable();
        Self::new(all)
    }

    /// The opportunities after `from` up to and including `from + length`, both rounded down to
    /// milliseconds, so that neighbouring cuts share none. They become a trace that begins at 0 and
    /// repeats after `length`. The source is repeated as needed.
    ///
    /// A trace ends with its last opportunity, so silence at the end of the cut would shorten it.
    /// There the last opportunity moves to the end, which keeps length and capacity.
    ///
    /// # Errors
    /// There is no opportunity in that time, or there are more than [`MAX_OPPORTUNITIES`].
    pub fn cut(&self, from: Span, length: Span) -> Result<Self, TraceError> {
        let ms = |span: Span| span.as_nanos() / 1_000_000;
        let (start, end) = (ms(from), ms(from).saturating_add(ms(length)));
        let mut cursor = self.cursor();
        let until = |ms: u64| cursor.count_before(Time::from_millis(ms.saturating_add(1)));
        let (first, count) = (until(start), until(end) - until(start));
        if count > MAX_OPPORTUNITIES as u64 || ms(length) > u64::from(u32::MAX) {
            return Err(TraceError::TooManyMade);
        }
        cursor.seek(first);
        let mut times: Vec<u32> = cursor
            .take(count as usize)
            .map(|at| (ms(at.since(Time::ZERO)) - start) as u32)
            .collect();
        let Some(last) = times.last_mut() else {
            return Err(TraceError::NothingLeft { from, length });
        };
        *last = ms(length) as u32;
        Self::new(times)
    }

    /// The same trace, rotated to begin at the first opportunity at or after `at`. The earlier part
    /// follows at the end, and the period is unchanged.
    #[must_use]
    pub fn begun_at(&self, at: Span) -> Self {
        let all = self.opportunities();
        let (period, at) = (self.period(), at.as_nanos());
        let wanted = (at % period.as_nanos()).div_ceil(1_000_000) as u32;
        let Some(&begin) = all.get(all.partition_point(|t| *t < wanted)) else {
            return self.clone();
        };
        let period = self.period_ms();
        if begin % period == 0 {
            return self.clone();
        }
        let (before, after) = all.split_at(all.partition_point(|t| *t <= begin));
        let later = after.iter().map(|t| t - begin);
        let rest = before.iter().map(|t| t + (period - begin));
        // It has the length and order of the trace, so it is valid.
        Self::new(later.chain(rest).collect()).unwrap_or_else(|_| self.clone())
    }

    /// The trace at `factor` times the rate: opportunities are removed or repeated evenly. The last
    /// one stays, and so does the period.
    ///
    /// # Errors
    /// The result would have more than [`MAX_OPPORTUNITIES`], or the factor is not a positive
    /// number.
    pub fn scale(&self, factor: f64) -> Result<Self, TraceError> {
        let len = self.len() as f64;
        if !(factor > 0.0 && factor * len <= MAX_OPPORTUNITIES as f64) {
            return Err(TraceError::BadFactor { factor });
        }
        // Counted from the end, the n-th opportunity brings the total to ceil((n + 1) * factor): at
        // least one at once.
        let mut times = Vec::with_capacity((factor * len) as usize + 1);
        let mut made = 0u64;
        for (n, &at) in self.opportunities().iter().rev().enumerate() {
            let due = ((n as f64 + 1.0) * factor).ceil() as u64;
            times.extend((made..due).map(|_| at));
            made = due;
        }
        times.reverse();
        Self::new(times)
    }

    /// The trace scaled to this mean rate, as in [`Trace::scale`].
    ///
    /// # Errors
    /// The errors of [`Trace::scale`].
    pub fn scale_to(&self, mean: Rate) -> Result<Self, TraceError> {
        self.scale(mean.as_bps() as f64 / self.mean_rate().as_bps().max(1) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(times: &[u32]) -> Trace {
        Trace::new(times.to_vec()).unwrap()
    }

    #[test]
    fn combining_merges_in_order() {
        let both = Trace::combine(&[trace(&[0, 4, 9]), trace(&[4, 5])]).unwrap();
        assert_eq!(both.opportunities(), [0, 4, 4, 5, 9]);
        assert!(matches!(Trace::combine(&[]), Err(TraceError::Empty)));
    }

    #[test]
    fn a_cut_keeps_length_and_rate() {
        let t = trace(&[0, 3, 3, 10]);
        let cut = |from, length| t.cut(Span::from_millis(from), Span::from_millis(length));
        // 2 packets in 7 ms, as between 3 and 10.
        assert_eq!(cut(3, 7).unwrap().opportunities(), [7, 7]);
        assert_eq!(cut(0, 10).unwrap().opportunities(), [3, 3, 10, 10]);
        // 10, 10, 13, 13 and the silence behind 20, 20.
        assert_eq!(cut(4, 9).unwrap().opportunities(), [6, 6, 9, 9]);
        assert_eq!(cut(4, 18).unwrap().opportunities(), [6, 6, 9, 9, 16, 18]);
        assert_eq!(cut(0, 5).unwrap().opportunities(), [3, 5]);
        for (from, length) in [(4, 5), (10, 2), (0, 0)] {
            let none = cut(from, length);
            assert!(matches!(none, Err(TraceError::NothingLeft { .. })));
        }
        assert!(matches!(
            t.cut(Span::ZERO, Span::MAX),
            Err(TraceError::TooManyMade)
        ));
    }

    #[test]
    fn a_trace_begun_elsewhere_is_the_same_for_ever() {
        let t = trace(&[0, 3, 3, 10]);
        let begun = |at| t.begun_at(Span::from_millis(at)).opportunities().to_vec();
        assert_eq!(begun(0), [0, 3, 3, 10]);
        // After those at 3: 10, then the next period's 0 + 10, 3 + 10 and 3 + 10.
        assert_eq!(begun(1), [7, 7, 10, 10]);
        assert_eq!(begun(3), [7, 7, 10, 10]);
        assert_eq!(begun(13), [7, 7, 10, 10]);
        // The last one is the first of the next period.
        assert_eq!(begun(4), [0, 3, 3, 10]);
        for at in 0..40 {
            let begun = t.begun_at(Span::from_millis(at));
            assert_eq!((begun.period(), begun.len()), (t.period(), t.len()));
        }
    }

    #[test]
    fn scaling_keeps_the_period() {
        let t = trace(&[1, 2, 3, 4]);
        assert_eq!(t.scale(0.5).unwrap().opportunities(), [2, 4]);
        assert_eq!(t.scale(2.0).unwrap().len(), 8);
        assert_eq!(t.scale(1e-9).unwrap().opportunities(), [4]);
        assert_eq!(t.scale_to(Rate::mbps(6)).unwrap().len(), 2);
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(matches!(t.scale(bad), Err(TraceError::BadFactor { .. })));
        }
    }
}
