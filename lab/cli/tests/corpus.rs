// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kept inputs of the fuzzer, replayed with the stable compiler and without the fuzzer.
#[path = "../../../fuzz/src/lib.rs"]
#[expect(
    unreachable_pub,
    reason = "a library when the fuzzer builds it, a module here"
)]
mod fuzz;

use std::path::Path;

#[test]
fn kept_inputs_are_handled() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for (name, target) in fuzz::TARGETS {
        let mut inputs: Vec<_> = std::fs::read_dir(corpus.join(name))
            .unwrap_or_else(|e| panic!("fuzz/corpus/{name}: {e}"))
            .map(|entry| entry.expect("an entry").path())
            .collect();
        inputs.sort();
        assert!(inputs.len() >= 3, "fuzz/corpus/{name} has hardly any input");
        for input in inputs {
            let bytes = std::fs::read(&input).expect("the input can be read");
            if std::panic::catch_unwind(|| target(&bytes)).is_err() {
                panic!("target {name} fails on {}", input.display());
            }
        }
    }
}

#[test]
fn every_corpus_and_every_program_has_a_target() {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    for folder in ["corpus", "fuzz_targets"] {
        for entry in std::fs::read_dir(fuzz.join(folder)).expect("the folder can be read") {
            let path = entry.expect("an entry").path();
            let name = path
                .file_stem()
                .and_then(|n| n.to_str())
                .expect("a plain name");
            assert!(
                fuzz::target(name).is_some(),
                "{} has no target",
                path.display()
            );
        }
    }
}
