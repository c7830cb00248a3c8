// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compiles the part in C.
fn main() {
    println!("cargo::rerun-if-changed=src/stdio.c");
    cc::Build::new().file("src/stdio.c").compile("alcc_stdio");
}
