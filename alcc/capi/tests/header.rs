// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The header matches the code, and the map of versions names every function of the header.
use std::path::Path;

#[test]
fn the_header_is_generated_from_the_code() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).unwrap();
    let mut text = Vec::new();
    cbindgen::Builder::new()
        .with_src(root.join("src/calls.rs"))
        .with_src(root.join("src/inband.rs"))
        .with_src(root.join("src/session.rs"))
        .with_src(root.join("../plugin/src/abi.rs"))
        .with_config(config)
        .generate()
        .unwrap()
        .write(&mut text);
    let header = root.join("include/alcc.h");
    if std::env::var_os("ALCC_WRITE_HEADER").is_some() {
        std::fs::write(&header, &text).unwrap();
    }
    let there = std::fs::read(&header).unwrap_or_default();
    assert!(
        there == text,
        "{} is not what the code says: ALCC_WRITE_HEADER=1 cargo test -p alcc-capi --test header",
        header.display()
    );
}

fn read(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("read {}: {e}", path.display()))
}

/// The functions that the header declares.
fn functions(header: &str) -> Vec<&str> {
    header
        .lines()
        .filter(|line| !line.trim_start().starts_with("//") && line.contains('('))
        .filter_map(|line| line.split('(').next()?.rsplit([' ', '*']).next())
        .filter(|name| name.starts_with("alcc_"))
        .collect()
}

/// The table of names says what each function, and each method of an algorithm, is in other languages.
#[test]
fn the_names_in_four_languages_are_complete() {
    let page = read("../../docs/library.md");
    let (_, names) = page.split_once("## Names in four languages").unwrap();
    let (header, controller) = (read("include/alcc.h"), read("../cc/src/controller.rs"));
    let (_, methods) = controller.split_once("pub trait Controller").unwrap();
    let methods = methods
        .lines()
        .filter_map(|line| line.strip_prefix("    fn "));
    let methods = methods.filter_map(|line| line.split('(').next());
    let missing = |name: &&str| {
        let named = |end| names.contains(&format!("`{name}{end}"));
        !named('`') && !named('(')
    };
    let wanted = functions(&header).into_iter().chain(methods);
    assert_eq!(
        wanted.filter(missing).collect::<Vec<_>>(),
        Vec::<&str>::new()
    );
}

#[test]
fn every_function_of_the_header_has_a_version() {
    let (header, map) = (read("include/alcc.h"), read("alcc.map"));
    let mut declared = functions(&header);
    let mut versioned: Vec<&str> = map
        .lines()
        .filter_map(|line| line.trim().strip_suffix(';'))
        .filter(|name| name.starts_with("alcc_"))
        .collect();
    declared.sort_unstable();
    versioned.sort_unstable();
    assert!(declared.len() > 10);
    assert_eq!(declared, versioned);
}
