// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The example of the documentation works as described.
#[path = "../examples/serve.rs"]
mod serve;

#[test]
fn the_example_serves() {
    serve::main().unwrap();
}
