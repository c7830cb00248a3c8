// SPDX-License-Identifier: Apache-2.0 OR MIT
//! QUIC beyond what every transport can: algorithms behave as they are, and certificates are looked
//! at.
use crate::place::{Place, link};
use crate::starts::first_right;
use alcc_emu::PathSpec;
use alcc_link::{DirectionSpec, RateSpec};
use alcc_units::Span;

/// A synthetic LTE channel of which a smallest round trip takes 40 ms.
fn lte() -> PathSpec {
    let scenario = alcc_trace::scenario("lte").expect("a scenario");
    let direction = |rate| DirectionSpec {
        delay: Span::from_millis(20),
        rate,
        ..DirectionSpec::default()
    };
    PathSpec {
        down: direction(RateSpec::Trace(scenario.generate(1, Span::from_secs(20)))),
        up: direction(RateSpec::Unlimited),
        ..link()
    }
}

#[test]
fn verus_queues_less_than_cubic_as_controllers_of_quic() {
    let Some(place) = Place::over(lte()) else {
        return;
    };
    let run = |cc: &[&str]| {
        let recv = place.recv(&["--transport", "quic", "--once", "--json"]);
        let options = ["--transport", "quic", "--duration", "8s", "--json"];
        let sent = place.send(&[&options[..], cc].concat()).json();
        recv.end().json();
        let row = &sent["flows"][0];
        println!("{row}");
        let number = |name: &str| row[name].as_f64().unwrap();
        (number("bytes") * 8e-6 / 8.0, number("rtt_mean_ms"))
    };
    let (cubic, cubic_rtt) = run(&["--cc", "cubic"]);
    // Loose bounds, because machines are slow at times. Both use the link, and one of them fills its queue. A
    // sender that gets acknowledgements late takes that for a longer RTT.
    assert!(cubic > 1.0, "{cubic} Mbit/s");
    let verus = || run(&["--cc", "verus"]);
    first_right(3, verus, |(mbps, rtt)| *mbps > 1.0 && *rtt < cubic_rtt);
}

#[test]
fn a_certificate_that_nobody_vouches_for_is_refused_unless_it_is_pinned() {
    let Some(place) = Place::new() else { return };
    let recv = place.recv(&["--transport", "quic", "--once"]);
    let to = place.receiver().to_string();
    let send = |more: &[&str]| {
        let options = [
            "send",
            "--transport",
            "quic",
            "--cc",
            "verus",
            "--size",
            "20k",
        ];
        let all = [&options[..], more, &[to.as_str()]].concat();
        place.start(&place.outside, &all).end()
    };
    let refused = send(&[]);
    refused.fails(1, "fingerprint is ");
    let pin = |text: &str| {
        let (_, rest) = text.split_once("--pin ").expect("it says how to pin it");
        rest.chars().take(64).collect::<String>()
    };
    let pinned = pin(&refused.err);
    assert_eq!(send(&["--pin", &pinned]).code, Some(0));
    let other = "0".repeat(64);
    let ended = recv.end();
    assert_eq!(pin(&ended.err), pinned, "{ended:?}");
    let recv = place.recv(&["--transport", "quic", "--once"]);
    send(&["--pin", &other]).fails(1, "not the one that --pin names");
    drop(recv);
}
