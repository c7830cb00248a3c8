// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The commands that the pages show do what the reader expects: they end with status 0.
#[path = "../../../alcc/cli/tests/support/built.rs"]
mod built;
mod console;
#[path = "../../../alcc/cli/tests/support/lacks.rs"]
mod lacks;
#[path = "console/page.rs"]
mod page;
#[path = "../../../alcc/cli/tests/support/root.rs"]
mod root;

/// Exceptions do not grow unseen: whoever adds one states the new number here.
#[test]
fn most_commands_run_and_each_exception_has_its_reason() {
    let texts = page::pages()
        .into_iter()
        .map(|page| std::fs::read_to_string(page).unwrap());
    let shown: Vec<_> = texts.flat_map(|text| console::commands(&text)).collect();
    let mut excepted = 0;
    for exception in page::EXCEPTIONS {
        let is_it = |c: &&console::Shown| {
            page::exception(&c.text).is_some_and(|found| found.why == exception.why)
        };
        let number = shown.iter().filter(is_it).count();
        println!("{number} of {}: {}", shown.len(), exception.why);
        assert!(number > 0, "applies to no command: {}", exception.why);
        assert!(
            number <= exception.most,
            "{number} commands, more than {}: {}",
            exception.most,
            exception.why
        );
        excepted += number;
    }
    assert!(excepted * 4 < shown.len(), "{excepted} of {}", shown.len());
}

#[test]
fn the_commands_of_the_pages_work() {
    if page::impossible() {
        return;
    }
    let ran = page::run_all(false);
    println!("{ran} commands ran");
    assert!(ran >= 110, "only {ran} commands ran");
}
