// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The header says what the code does.
use std::path::Path;

#[test]
fn the_header_is_generated_from_the_code() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).unwrap();
    let mut text = Vec::new();
    cbindgen::Builder::new()
        .with_src(root.join("src/abi.rs"))
        .with_config(config)
        .generate()
        .unwrap()
        .write(&mut text);
    let header = root.join("include/alcc_plugin.h");
    if std::env::var_os("ALCC_WRITE_HEADER").is_some() {
        std::fs::write(&header, &text).unwrap();
    }
    let there = std::fs::read(&header).unwrap_or_default();
    assert!(
        there == text,
        "{} is not what the code says: ALCC_WRITE_HEADER=1 cargo test -p alcc-plugin --test header",
        header.display()
    );
}
