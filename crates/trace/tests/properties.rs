// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What must hold for every trace.
use alcc_trace::Trace;
use alcc_units::Time;
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
}
