// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compiles the pure parts of the BPF programs for the host, so that tests can call them.
fn main() {
    println!("cargo::rerun-if-changed=bpf");
    cc::Build::new()
        .file("bpf/host.c")
        .flag("-Wno-unknown-pragmas")
        .compile("alcc_bpf_host");
}
