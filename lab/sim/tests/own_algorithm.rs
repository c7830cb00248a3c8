// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The example in docs/adding-an-algorithm.md is the tested example, and it works.
#[path = "../examples/own_algorithm/main.rs"]
mod example;

#[test]
fn the_algorithm_of_the_documentation_keeps_the_contract_and_sends() {
    example::main();
}

/// To the letter, with the imports: whoever pastes the blocks of the page into a file has one that
/// compiles.
#[test]
fn the_documentation_shows_the_whole_file() {
    let file = include_str!("../examples/own_algorithm/mine.rs");
    let page = include_str!("../../../docs/adding-an-algorithm.md");
    let blocks: Vec<&str> = (page.split("```rust\n").skip(1))
        .filter_map(|rest| rest.split("```").next())
        .filter(|block| !block.starts_with("algorithms!"))
        .collect();
    let pasted = format!(
        "// SPDX-License-Identifier: Apache-2.0 OR MIT\n{}",
        blocks.join("\n")
    );
    assert!(
        pasted == file,
        "the blocks of docs/adding-an-algorithm.md are not lab/sim/examples/own_algorithm/mine.rs:\n{pasted}"
    );
}
