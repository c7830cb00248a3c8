// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Compiles the pure parts of the BPF programs for the host, so that tests can call them: only with
//! the feature `host`, which only the tests of this crate ask for.
fn main() {
    println!("cargo::rerun-if-changed=bpf");
    #[cfg(feature = "host")]
    cc::Build::new()
        .file("bpf/host.c")
        .flag("-Wno-unknown-pragmas")
        .compile("alcc_bpf_host");
}
