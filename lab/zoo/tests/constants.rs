// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Algorithms with forms in C, Java and Python take their constants from the Rust form: `make constants` writes them.
//!
//! A form gets each constant that its sources name.
use alcc_cc::constants::{Constant, Kernel, TABLES, Value};
use alcc_units::Span;
use alcc_zoo::CONSTANTS;
use std::fmt::Write;
use std::path::{Path, PathBuf};

const HEADER: &str = "alcc/bpf/bpf/constants.h";
const CLASS: &str = "bindings/java/src/main/java/org/alcc/cc/Constants.java";
const PAGE: &str = "docs/budget.md";

fn constants() -> impl Iterator<Item = &'static Constant> {
    let tables = TABLES.iter().chain(CONSTANTS);
    tables.flat_map(|part| part.iter().copied().flatten())
}

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(name)
}

fn read(name: &str) -> String {
    std::fs::read_to_string(path(name)).unwrap_or_else(|why| panic!("{name}: {why}"))
}

/// The words of all files beside `name`, except that file.
fn words_beside(name: &str) -> String {
    let folder = path(name).parent().unwrap().to_owned();
    let files = folder
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let others = files.filter(|file| !path(name).ends_with(file.file_name().unwrap()));
    others
        .map(|file| std::fs::read_to_string(file).unwrap())
        .collect()
}

fn names(text: &str, name: &str) -> bool {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .any(|word| word == name)
}

/// The first line of the comment.
fn meaning(constant: &Constant) -> &str {
    constant.meaning[0].trim()
}

/// A number of parts, and how far it may be from a whole one: some fractions have no short form in binary.
fn parts(constant: &Constant, of: u64) -> u64 {
    let value = match constant.value {
        Value::Number(value) => value,
        Value::Single(value) => f64::from((value * 1e6).round()) / 1e6,
        other => panic!("{}: {other:?} in parts of {of}", constant.name),
    };
    let parts = value * of as f64;
    assert!(
        of > 1024 || (parts - parts.round()).abs() < 1e-9,
        "{}: {value} is not a whole number of parts of {of}: name more parts",
        constant.name
    );
    parts.round() as u64
}

fn header() -> String {
    let sources = words_beside(HEADER);
    let mut text = "/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Constants of the Rust forms, which have the reasons. Written by 'make constants'. Times are in microseconds. A
 * fraction is stored as a number of parts, and NAME_OF parts make one.
 */
#pragma once

"
    .to_owned();
    for constant in constants() {
        let name = constant.name;
        let mut comment = meaning(constant).to_owned();
        let whole = match (constant.kernel, constant.value) {
            (Kernel::Of(of), _) => parts(constant, of),
            (Kernel::Instead(value, why), elsewhere) => {
                write!(comment, " {} elsewhere: {why}.", number(elsewhere)).unwrap();
                value
            }
            (Kernel::Same, Value::Span(span)) => span.as_micros(),
            (Kernel::Same, Value::Whole(value)) => value,
            (Kernel::Same, Value::Number(value)) if value.fract() == 0.0 => value as u64,
            (Kernel::Same, value) => {
                assert!(
                    !names(&sources, name),
                    "{name}: {value:?} has no form in the kernel"
                );
                continue;
            }
        };
        if names(&sources, name) {
            // As wide as it must be, so that it widens nothing else.
            let wide = if i32::try_from(whole).is_ok() {
                ""
            } else {
                "U"
            };
            writeln!(text, "/* {comment} */\n#define {name} {whole}{wide}").unwrap();
        }
        let of = format!("{name}_OF");
        if let (Kernel::Of(parts), true) = (constant.kernel, names(&sources, &of)) {
            writeln!(text, "#define {of} {parts}").unwrap();
        }
    }
    let memory = constants().find(|c| c.name == "LOSSES_MEMORY").unwrap();
    let Value::Number(memory) = memory.value else {
        panic!("{memory:?}")
    };
    text += "/* exp(-n / LOSSES_MEMORY) for n = 1, 2, 4, ..., 8192, of 2^31. */\n#define LOSS_RATE_POWERS { \\\n";
    for bit in 0..14 {
        let weight = (-f64::from(1 << bit) / memory).exp() * f64::from(1_u32 << 31);
        writeln!(text, "\t{weight:.0}U, \\").unwrap();
    }
    text + "}\n"
}

/// As Java and Python read it.
fn number(value: Value) -> String {
    match value {
        Value::Span(span) => span.as_nanos().to_string(),
        Value::Number(value) => format!("{value:?}"),
        Value::Single(value) => format!("{value:?}"),
        Value::Whole(value) => value.to_string(),
    }
}

fn class() -> String {
    let sources = words_beside(CLASS);
    let mut text = "// SPDX-License-Identifier: Apache-2.0 OR MIT
package org.alcc.cc;

/**
 * Constants of the Rust forms, which have the reasons. Written by {@code make constants}. Times are in nanoseconds.
 */
final class Constants {
    private Constants() { }

"
    .to_owned();
    for constant in constants().filter(|c| names(&sources, c.name)) {
        let value = number(constant.value);
        let value = match constant.value {
            Value::Span(_) => format!("long {} = {value}L", constant.name),
            Value::Whole(whole) if i32::try_from(whole).is_err() => {
                format!("long {} = {value}L", constant.name)
            }
            Value::Whole(_) => format!("int {} = {value}", constant.name),
            Value::Number(_) => format!("double {} = {value}", constant.name),
            Value::Single(_) => format!("float {} = {value}f", constant.name),
        };
        let meaning = meaning(constant);
        writeln!(text, "    /** {meaning} */\n    static final {value};").unwrap();
    }
    text + "}\n"
}

fn page() -> String {
    let page = read(PAGE);
    let (before, rest) = page.split_once("<!-- constants: ").unwrap();
    let (mark, rest) = rest.split_once('\n').unwrap();
    let (_, after) = rest.split_once("<!-- end of constants -->").unwrap();
    let code = after.split_once("```python").unwrap().1;
    let mut text = format!("{before}<!-- constants: {mark}\n```python\n");
    text +=
        "MS, S = 10**6, 10**9                # times are whole nanoseconds of the host's clock\n\n";
    for constant in constants().filter(|c| names(code, c.name)) {
        let value = match constant.value {
            Value::Span(span)
                if span >= Span::from_secs(1) && span.as_nanos() % 1_000_000_000 == 0 =>
            {
                format!("{} * S", span.as_nanos() / 1_000_000_000)
            }
            Value::Span(span) if span.as_nanos() % 1_000_000 == 0 => {
                format!("{} * MS", span.as_nanos() / 1_000_000)
            }
            Value::Number(value) => value.to_string(),
            other => number(other),
        };
        let line = format!("{} = {value}", constant.name);
        writeln!(text, "{line:35} # {}", meaning(constant)).unwrap();
    }
    text + "```\n<!-- end of constants -->" + after
}

#[test]
fn the_other_forms_have_the_constants_of_the_rust_forms() {
    let mut seen = std::collections::BTreeSet::new();
    assert!(
        constants().all(|c| seen.insert(c.name)),
        "two constants have one name: {seen:?}"
    );
    for (name, text) in [(HEADER, header()), (CLASS, class()), (PAGE, page())] {
        if std::env::var_os("ALCC_BLESS").is_some() {
            std::fs::write(path(name), text).unwrap();
        } else {
            assert!(
                std::fs::read_to_string(path(name)).is_ok_and(|found| found == text),
                "{name} has other constants than the Rust forms: run 'make constants', for C also 'make bpf'"
            );
        }
    }
}
