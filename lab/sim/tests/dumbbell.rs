// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The shortest program that simulates a dumbbell works, and is short.
#[path = "../examples/dumbbell.rs"]
mod example;

#[test]
fn a_dumbbell_in_fifteen_lines() {
    example::main().unwrap();
    let lines = include_str!("../examples/dumbbell.rs").lines();
    let code = lines.filter(|line| !line.starts_with("//") && !line.trim().is_empty());
    let code = code.filter(|line| !line.starts_with("#!["));
    assert!(code.count() <= 15);
}
