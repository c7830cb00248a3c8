// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel's algorithms on the vectors of `alcc/flow/tests/controller_vectors/vectors.json`. The form of `cc`
//! receives the same input: the file contains everything that an answer depends on.
use super::beside::packets;
use super::ours;
use super::replay::{Case, Replay, RoundTrips, cases};
use alcc_cc::Instance;
use alcc_units::Bytes;

const FILE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../alcc/flow/tests/controller_vectors/vectors.json"
);

fn read() -> Vec<Case> {
    cases(
        &std::fs::read_to_string(FILE)
            .expect("alcc/flow/tests/controller_vectors/vectors.json is there"),
    )
}

/// Passes all events to all forms, and calls `look` after each event with an answer.
fn replay(
    case: &Case,
    controllers: Vec<Instance>,
    hear: RoundTrips,
    mut look: impl FnMut(usize, &[i64], &[Replay]),
) {
    let told = controllers
        .into_iter()
        .map(|cc| Replay::new(cc, case, hear));
    let mut replays: Vec<Replay> = told.collect();
    let mut want: Option<&[i64]> = None;
    for (place, told) in case.told.iter().enumerate() {
        if told.name == "is" {
            want = Some(&told.values);
            continue;
        }
        if let Some(want) = want {
            look(place, want, &replays);
        }
        replays.iter_mut().for_each(|replay| replay.tell(told));
    }
    look(case.told.len(), want.expect("an answer"), &replays);
}

/// The form that the file is of.
fn reference(case: &Case) -> Instance {
    let spec = case.algorithm.parse().unwrap();
    alcc_zoo::registry().build(&spec).unwrap()
}

#[test]
fn the_file_says_all_that_an_answer_depends_on() {
    for (number, case) in read().iter().enumerate() {
        let what = &case.algorithm;
        let one = vec![reference(case)];
        replay(case, one, RoundTrips::All, |place, want, replays| {
            let found = replays[0].answer();
            assert_eq!(want, found, "case {number}, {what}, before event {place}");
        });
    }
}

/// True if a form in the kernel receives the same input. Its clocks have no RTT error. In the kernel, Copa takes one
/// step for an acknowledgement, here one for each segment.
fn is_the_same_there(case: &Case) -> bool {
    let segment = case.told[0].values[1];
    let mut acks = case.told.iter().filter(|told| told.name == "ack");
    acks.all(|ack| {
        let mut packets = ack.values[5..].chunks(if case.numbered { 4 } else { 3 });
        let short = packets.all(|packet| packet[0] <= segment);
        ack.values[4] == 0 && (short || case.algorithm != "copa")
    })
}

/// Verus uses the largest RTT of an epoch, but for each acknowledgement the kernel reports only the newest sample. With
/// all samples, the form of `cc` differs by 40 % in case 12, instead of 11 %.
fn heard(algorithm: &str) -> RoundTrips {
    match algorithm {
        "verus" => RoundTrips::Newest,
        _ => RoundTrips::All,
    }
}

/// Compares the windows, which may differ by this many packets, and on the average by this share.
fn together(algorithm: &str, packets: f64, share: f64) -> bool {
    match algorithm {
        // A jump of the RTT puts off a drain. Where an acknowledgement was delayed, the first of its packets has the
        // longer RTT: `cc` sees a jump from the packet before to it, but the kernel reports only one of them. So in
        // case 10 one form drains at 3 s and the other does not.
        "copa" => packets <= 3.0 || packets <= 9.0 && share <= 0.08,
        "verus" => share <= 0.4,
        // The quantile of service falls from 234 to 208 packets per second at event 817 of case 11, in the kernel later.
        "budget" => packets <= 1.0 || packets <= 2.5 && share <= 0.002,
        _ => packets <= 1.0,
    }
}

#[test]
fn what_runs_in_the_kernel_answers_nearly_the_same() {
    let cases = read();
    for (name, algorithm) in ours() {
        let ported = algorithm.name.parse().unwrap();
        let registry = alcc_zoo::registry().with(algorithm);
        let mut replayed = 0;
        for (number, case) in cases.iter().enumerate() {
            if case.algorithm != name || !is_the_same_there(case) {
                continue;
            }
            replayed += 1;
            let mss = Bytes::new(case.told[0].values[1] as u64);
            let (mut most, mut at) = (0.0, 0);
            let (mut shares, mut looked) = (0.0, 0.0);
            let both = vec![reference(case), registry.build(&ported).unwrap()];
            replay(case, both, heard(name), |place, _, replays| {
                let [want, found] = [0, 1].map(|i| packets(replays[i].controller(), mss));
                let apart = (want - found).abs();
                shares += apart / want.max(1.0);
                looked += 1.0;
                if apart > most {
                    (most, at) = (apart, place);
                }
            });
            let share = shares / looked;
            let line = format!(
                "{name}, case {number}: {most:.2} packets before event {at}, on the average {share:.3}"
            );
            println!("{line}");
            assert!(together(name, most, share), "{line}");
        }
        assert!(replayed > 0, "{name}");
    }
}
