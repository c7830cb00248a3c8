// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pages are readable as text, in a terminal and in a diff: their lines are short.
use std::path::{Path, PathBuf};

/// Characters in a line.
const MAX_WIDTH: usize = 120;

/// Pages that a program or a test writes.
const GENERATED: &[&str] = &["behaviour.md", "over-tcp.md", "soak.md", "truth.md"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The pages that people write, decision records apart.
fn pages() -> Vec<PathBuf> {
    let mut found: Vec<_> = ["README.md", "CONTRIBUTING.md", "SECURITY.md"]
        .iter()
        .map(|name| root().join(name))
        .collect();
    for entry in std::fs::read_dir(root().join("docs")).expect("docs/ can be read") {
        let entry = entry.expect("an entry");
        let name = entry.file_name().into_string().expect("a plain name");
        if name.ends_with(".md") && !GENERATED.contains(&name.as_str()) {
            found.push(entry.path());
        }
    }
    found.sort();
    found
}

/// The numbers of the lines that are too long, with what they begin with. Tables, code blocks and
/// lines of one word, such as a link, cannot be shorter.
fn too_long(page: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut code = false;
    for (line, number) in page.lines().zip(1..) {
        let text = line.trim_start();
        if text.starts_with("```") {
            code = !code;
        }
        let words = text.trim_start_matches(['-', '*', ' ']);
        let breaks = words.contains(' ');
        if !code && !text.starts_with('|') && breaks && line.chars().count() > MAX_WIDTH {
            let begin: String = line.chars().take(60).collect();
            found.push(format!("{number}: {begin}..."));
        }
    }
    found
}

#[test]
fn lines_are_short() {
    let pages = pages();
    assert!(pages.len() > 20, "the search is broken: {pages:?}");
    let mut wrong = Vec::new();
    for page in pages {
        let text = std::fs::read_to_string(&page).expect("a page");
        let lines = too_long(&text).into_iter();
        wrong.extend(lines.map(|line| format!("{}:{line}", page.display())));
    }
    assert!(
        wrong.is_empty(),
        "over {MAX_WIDTH} characters:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn the_search_finds_long_lines_only_where_they_can_be_broken() {
    let long = "word ".repeat(30);
    let link = format!("- <https://example.org/{}>", "x".repeat(120));
    assert_eq!(too_long(&long).len(), 1);
    assert_eq!(too_long(&format!("short\n\n- {long}")).len(), 1);
    let free = format!("| {long} |\n\n{link}\n\n```\n{long}\n```\n");
    assert_eq!(too_long(&free), Vec::<String>::new());
}
