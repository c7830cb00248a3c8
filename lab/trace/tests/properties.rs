// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Properties of every trace.
use alcc_trace::{RatesForm, Trace};
use alcc_units::{Bytes, Span, Time};
use proptest::prelude::*;

fn any_trace() -> impl Strategy<Value = Trace> {
    (
        proptest::collection::vec(0u32..50, 1..200),
        1u32..1_000_000_000,
    )
        .prop_map(|(gaps, last)| {
            let mut at = 0;
            let mut times: Vec<u32> = gaps
                .into_iter()
                .map(|gap| {
                    at += gap;
                    at
                })
                .collect();
            times.push(at + last);
            Trace::new(times).expect("sorted, not empty, ends after 0")
        })
}

proptest! {
    #[test]
    fn writing_and_reading_changes_nothing(trace in any_trace()) {
        let mut text = Vec::new();
        trace.write(&mut text).expect("memory takes it");
        prop_assert_eq!(Trace::parse(&text).expect("our own form"), trace);
    }

    #[test]
    fn no_input_makes_the_parser_panic(text in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = Trace::parse(&text);
    }

    #[test]
    fn nearly_right_input_is_read_or_refused_with_one_line(text in "[0-9]{0,12}(\r?\n[ 0-9x]{0,11}){0,20}") {
        if let Err(error) = Trace::parse(text.as_bytes()) {
            prop_assert!(!error.to_string().contains('\n'));
        }
    }

    #[test]
    fn the_cursor_never_goes_back_and_agrees_with_random_access(trace in any_trace(), rounds in 1u64..4) {
        let steps = trace.len() as u64 * rounds + 3;
        let cursor = trace.cursor();
        let mut before = Time::ZERO;
        for (n, time) in trace.cursor().take(steps as usize).enumerate() {
            prop_assert!(time >= before);
            prop_assert_eq!(cursor.time_of(n as u64), time);
            before = time;
        }
    }

    #[test]
    fn counting_is_the_inverse_of_stepping(trace in any_trace(), n in 0u64..1000) {
        let cursor = trace.cursor();
        let time = cursor.time_of(n);
        let first = cursor.count_before(time);
        prop_assert!(first <= n);
        prop_assert_eq!(cursor.time_of(first), time);
        prop_assert!(first == 0 || cursor.time_of(first - 1) < time);
        let mut sought = trace.cursor();
        sought.seek(n);
        prop_assert_eq!(sought.position(), n);
        prop_assert_eq!(sought.next(), Some(time));
    }

    #[test]
    fn combining_conserves_opportunities(traces in proptest::collection::vec(any_trace(), 1..5)) {
        let sum = Trace::combine(&traces).expect("few");
        prop_assert_eq!(sum.len(), traces.iter().map(Trace::len).sum::<usize>());
        prop_assert_eq!(Some(sum.period()), traces.iter().map(Trace::period).max());
        let mut all: Vec<u32> = traces.iter().flat_map(|t| t.opportunities().to_vec()).collect();
        all.sort_unstable();
        prop_assert_eq!(sum.opportunities(), &all[..]);
    }

    #[test]
    fn neighbouring_cuts_of_a_period_have_its_opportunities(
        trace in any_trace(),
        from in 0u64..5_000,
        split in 1u64..5_000,
    ) {
        let ms = Span::from_millis;
        let period = trace.period().as_nanos() / 1_000_000;
        let whole = trace.cut(ms(from), trace.period()).expect("a period has opportunities");
        prop_assert_eq!((whole.len(), whole.period()), (trace.len(), trace.period()));
        let at = split.min(period);
        let pieces = [(from, at), (from + at, period - at)];
        let cuts = pieces.map(|(from, length)| (trace.cut(ms(from), ms(length)).ok(), ms(length)));
        for (cut, length) in &cuts {
            prop_assert!(cut.as_ref().is_none_or(|cut| cut.period() == *length));
        }
        let total: usize = cuts.iter().flat_map(|(cut, _)| cut).map(Trace::len).sum();
        prop_assert_eq!(total, trace.len());
    }

    #[test]
    fn scaling_gives_the_factor(trace in any_trace(), factor in 0.01f64..8.0) {
        let scaled = trace.scale(factor).expect("small");
        prop_assert_eq!(scaled.period(), trace.period());
        let want = trace.len() as f64 * factor;
        prop_assert!((scaled.len() as f64 - want).abs() <= 1.0, "{} {want}", scaled.len());
    }

    #[test]
    fn packets_of_a_trace_give_the_trace(trace in any_trace()) {
        let first = trace.opportunities()[0];
        let text: String = trace.opportunities().iter().map(|t| format!("{t}.25, 1500\n")).collect();
        match Trace::from_packets(&text, Span::from_millis(1), Bytes::new(40)) {
            Ok(read) => {
                let shifted: Vec<u32> = trace.opportunities().iter().map(|t| t - first).collect();
                prop_assert_eq!(read.opportunities(), &shifted[..]);
            }
            Err(_) => prop_assert_eq!(trace.len(), 1),
        }
    }

    #[test]
    fn throughput_of_a_trace_carries_as_much(gaps in proptest::collection::vec(0u32..30, 50..400)) {
        let mut at = 0;
        let times: Vec<u32> = gaps.iter().map(|gap| { at += gap; at }).collect();
        prop_assume!(at > 40);
        let trace = Trace::new(times).expect("sorted");
        let bin = Span::from_millis(20);
        let mut text = Vec::new();
        trace.write_rates(bin, &mut text).expect("memory takes it");
        let inside: u32 = trace.windows(bin).sum();
        match Trace::from_rates(std::str::from_utf8(&text).expect("text"), &RatesForm::default()) {
            Ok(read) => prop_assert_eq!(read.len() as u32, inside),
            Err(_) => prop_assert_eq!(inside, 0),
        }
    }

    #[test]
    fn no_text_makes_the_converters_panic(text in "([0-9.e#a,; -]{0,24}\n?){0,12}") {
        let _ = Trace::from_packets(&text, Span::from_secs(1), Bytes::new(1500));
        let _ = Trace::from_rates(&text, &RatesForm::default());
    }
}
