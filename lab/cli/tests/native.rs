// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of native forms and those above TCP, very short: `alcc send` and `alcc recv` on
//! emulated links. Figures on a busy machine say little, so only what must hold anyway is checked.
#[path = "../../../alcc/cli/tests/support/real.rs"]
mod real;

use serde_json::Value;
use std::fs;

#[test]
fn forms_of_one_algorithm_run_beside_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = "compare --emu --traces 12mbit --schemes copa/transport=udp,copa/over=cubic/transport=in-band --duration 2s --runs 2 --json --out";
    let mut command = real::alcc(&arguments.split(' ').collect::<Vec<_>>());
    command.arg(folder.path());
    // Nothing here needs a web server.
    command.env("ALCC_NGINX", "/no/such/nginx");
    let Some(output) = real::done(&mut command, &["namespace", "device"]) else {
        return;
    };
    let results: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    let flows = results["flows"].as_array().unwrap();
    let order: Vec<String> = flows
        .iter()
        .map(|f| format!("{} {}", f["run"], f["scheme"].as_str().unwrap()))
        .collect();
    // The second repetition has the reverse order.
    assert_eq!(
        order,
        [
            "1 copa-udp",
            "1 alcc-copa-inband",
            "2 alcc-copa-inband",
            "2 copa-udp"
        ]
    );
    for flow in flows {
        let native = flow["scheme"] == "copa-udp";
        let triple = ["feedback", "enforcement", "under"].map(|f| flow[f].as_str());
        let expected = if native {
            [Some("udp"), Some("native"), None]
        } else {
            [Some("in-band"), Some("queue"), Some("cubic")]
        };
        assert_eq!(triple, expected);
        let number = |field: &str| {
            flow[field]
                .as_f64()
                .unwrap_or_else(|| panic!("{field}: {flow}"))
        };
        assert!(number("throughput_mbps") > 0.3, "{flow}");
        assert!(
            number("goodput_mbps") < 1.05 * number("throughput_mbps"),
            "{flow}"
        );
        assert!(
            number("goodput_mbps") > 0.5 * number("throughput_mbps"),
            "{flow}"
        );
        // From write to read takes at least the propagation of 20 ms, to the accuracy of write times:
        // a busy machine sees them late.
        assert!(number("app_delay_median_ms") >= 10.0, "{flow}");
        assert!(number("app_delay_p95_ms") < 1000.0, "{flow}");
    }
    let pairs = results["summary"]["pairs"].as_array().unwrap();
    assert_eq!(pairs.len(), 1);
    assert_eq!(pairs[0]["runs"], 2);
    assert_eq!(pairs[0]["triples"][1], "copa / in-band / queue over cubic");
    let page = fs::read_to_string(folder.path().join("native.md")).unwrap();
    assert!(
        page.contains("| 12mbit | copa-udp (tuned) | alcc-copa-inband (tuned) |"),
        "{page}"
    );
}
