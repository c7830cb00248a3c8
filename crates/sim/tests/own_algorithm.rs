// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What docs/adding-an-algorithm.md shows is the example, and the example works.
#[path = "../examples/own_algorithm.rs"]
mod example;

#[test]
fn the_algorithm_of_the_documentation_keeps_the_contract_and_sends() {
    example::main();
}

#[test]
fn the_documentation_shows_the_example() {
    let example = include_str!("../examples/own_algorithm.rs");
    let page = include_str!("../../../docs/adding-an-algorithm.md");
    let blocks: Vec<&str> = (page.split("```rust\n").skip(1))
        .filter_map(|rest| rest.split("```").next())
        .filter(|block| !block.starts_with("algorithms!"))
        .collect();
    assert_eq!(blocks.len(), 2);
    for block in blocks {
        assert!(
            example.contains(block),
            "docs/adding-an-algorithm.md shows code that is not in crates/sim/examples/own_algorithm.rs:\n{block}"
        );
    }
}
