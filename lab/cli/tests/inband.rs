// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The in-band form between two namespaces: real programs, a real TCP, an emulated link. Figures on
//! a busy machine say little, so only what must hold anyway is checked; `make native` shows how far
//! it is from the native forms.
#[path = "../../../alcc/cli/tests/support/real.rs"]
mod real;

use serde_json::Value;

#[test]
fn sprout_and_verus_over_tcp_keep_the_queue_short_and_the_link_busy() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = "compare --emu --traces 12mbit --schemes sprout/over=cubic/transport=in-band,verus/over=cubic/transport=in-band --duration 6s --runs 1 --json --out";
    let mut command = real::alcc(&arguments.split(' ').collect::<Vec<_>>());
    command.arg(folder.path().join("out"));
    let Some(output) = real::done(&mut command, real::PROGRAMS) else {
        return;
    };
    let results: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    let flows = results["flows"].as_array().unwrap();
    assert_eq!(flows.len(), 2, "{results}");
    for flow in flows {
        let number = |name: &str| {
            flow[name]
                .as_f64()
                .unwrap_or_else(|| panic!("{name}: {flow}"))
        };
        assert_eq!(
            (&flow["feedback"], &flow["enforcement"]),
            (&"in-band".into(), &"queue".into())
        );
        // Cubic alone fills the queue of 2,000,000 bytes: 1.3 s.
        assert!(number("queue_delay_mean_ms") < 400.0, "{flow}");
        assert!(number("throughput_mbps") > 3.0, "{flow}");
        assert!(number("app_delay_median_ms") < 800.0, "{flow}");
        assert_eq!(number("loss"), 0.0, "{flow}");
    }
}
