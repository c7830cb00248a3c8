// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pages are readable as text, in a terminal and in a diff: their lines are short.
#[path = "../../../alcc/cli/tests/support/root.rs"]
mod root;

use root::root;
use std::path::{Path, PathBuf};

/// Characters in a line.
const MAX_WIDTH: usize = 120;

/// Pages that a program or a test writes.
const GENERATED: &[&str] = &[
    "applications.md",
    "behaviour.md",
    "board.md",
    "over-tcp.md",
    "soak.md",
    "truth.md",
];

fn read(name: &str) -> String {
    let path = root().join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("read {}: {e}", path.display()))
}

/// The pages that people write, decision records apart.
fn pages() -> Vec<PathBuf> {
    let mut found: Vec<_> = [
        "README.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "CODE_OF_CONDUCT.md",
    ]
    .iter()
    .map(|name| root().join(name))
    .collect();
    let folders = ["docs", "lab/notes"].map(|name| root().join(name));
    for entry in folders
        .iter()
        .flat_map(|folder| std::fs::read_dir(folder).expect("a folder of pages can be read"))
    {
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

/// Pages to look something up in; the others are read from their beginning.
const REFERENCES: &[&str] = &["budget.md", "formats.md"];

#[test]
fn a_page_begins_with_its_question_and_is_short() {
    let docs = root().join("docs");
    let mut wrong = Vec::new();
    for page in pages().iter().filter(|page| page.starts_with(&docs)) {
        let name = page.file_name().expect("a name").to_str().expect("text");
        let text = std::fs::read_to_string(page).expect("a page");
        let words = text.split_whitespace().count();
        if words > 2500 && !REFERENCES.contains(&name) {
            wrong.push(format!("{name}: {words} words"));
        }
        if !text
            .split("\n\n")
            .nth(1)
            .is_some_and(|first| first.contains('?'))
        {
            wrong.push(format!("{name}: its first paragraph has no question"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
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

/// Without a public repository, its address may lead to another project.
#[test]
fn no_page_names_a_repository_that_is_not_there() {
    let manifest = read("Cargo.toml");
    let address = manifest
        .split_once("repository = \"")
        .expect("an address")
        .1;
    let address = address.split('"').next().expect("a text");
    assert!(read("README.md").contains("no public repository"));
    let mut all = pages();
    all.push(root().join("CITATION.cff"));
    for group in ["alcc", "lab"] {
        let crates = std::fs::read_dir(root().join(group)).expect("a group");
        let readmes = crates.map(|one| one.expect("an entry").path().join("README.md"));
        all.extend(readmes.filter(|file| file.is_file()));
    }
    for page in all {
        let text = std::fs::read_to_string(&page).expect("a page");
        assert!(!text.contains(address), "{}: {address}", page.display());
    }
}

/// README's table: of each scheme the median of its runs, smallest and largest.
fn demo_table(results: &alcc_results::Results) -> String {
    let columns = [
        ("throughput Mbit/s", "throughput_mbps", 1),
        ("mean delay ms", "delay_mean_ms", 0),
        ("p95 ms", "delay_p95_ms", 0),
        ("app median ms", "app_delay_median_ms", 0),
        ("app p95 ms", "app_delay_p95_ms", 0),
        ("CPU s/Gbit", "cpu_s_per_gbit", 2),
    ];
    let heads: Vec<_> = columns.iter().map(|c| c.0).collect();
    let mut text = format!(
        "| scheme | {} |\n|---{}|\n",
        heads.join(" | "),
        "|---".repeat(6)
    );
    for group in &results.summary.groups {
        let cells = columns.map(|(_, field, digits)| {
            let s = &group.fields[field];
            format!(
                "{:.digits$} ({:.digits$}–{:.digits$})",
                s.median, s.min, s.max
            )
        });
        text += &format!("| {} | {} |\n", group.scheme, cells.join(" | "));
    }
    text
}

/// README's table and picture are those of the stored comparison, docs/img/demo.json.
/// `ALCC_BLESS=1` writes both from it.
#[test]
fn the_readme_shows_the_stored_comparison() {
    const BEGIN: &str = "<!-- demo:";
    const END: &str = "<!-- end of demo -->";
    let results: alcc_results::Results =
        serde_json::from_str(&read("docs/img/demo.json")).expect("a comparison");
    assert!(
        results.summary.groups.iter().all(|g| g.runs >= 5),
        "five runs"
    );
    let picture = alcc_live::picture::svg(&results).expect("it can be drawn");
    let readme = read("README.md");
    let (before, rest) = readme.split_once(BEGIN).expect("the table's begin");
    let (mark, rest) = rest.split_once('\n').expect("a line");
    let (_, after) = rest.split_once(END).expect("the table's end");
    let wanted = format!(
        "{before}{BEGIN}{mark}\n{}{END}{after}",
        demo_table(&results)
    );
    if std::env::var_os("ALCC_BLESS").is_some() {
        std::fs::write(root().join("README.md"), &wanted).expect("README.md is written");
        std::fs::write(root().join("docs/img/demo.svg"), &picture).expect("the picture is written");
        return;
    }
    let hint = "is not that of docs/img/demo.json: 'ALCC_BLESS=1 cargo test -p alcc-lab --test pages' writes it";
    assert!(readme == wanted, "README.md: the table {hint}");
    assert!(
        read("docs/img/demo.svg") == picture,
        "docs/img/demo.svg: the picture {hint}"
    );
}

/// The tests that the last cells of a table name, each with its place: "`a`, `b` (crate)". A test without one has "".
fn named_tests(table: &str) -> Vec<(&str, &str)> {
    let rows = table.lines().filter(|line| line.starts_with("| "));
    let mut found = Vec::new();
    for cell in rows.filter_map(|row| row.trim_end_matches([' ', '|']).rsplit('|').next()) {
        let mut without = found.len();
        for (n, part) in cell.split('`').enumerate() {
            if n % 2 == 1 {
                found.push((part, ""));
            } else if let Some((_, rest)) = part.split_once('(')
                && let Some((place, _)) = rest.split_once(')')
            {
                for test in &mut found[without..] {
                    test.1 = place;
                }
                without = found.len();
            }
        }
    }
    found
}

/// Every Rust source below a folder, with its text.
fn sources(folder: PathBuf, found: &mut Vec<(PathBuf, String)>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let entry = entry.expect("an entry");
        let path = entry.path();
        if entry.file_type().expect("its type").is_dir() {
            if !path.ends_with("target") {
                sources(path, found);
            }
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            let text = std::fs::read_to_string(&path).expect("a source");
            found.push((path, text));
        }
    }
}

/// The test functions of a source. A function counts that follows `#[test]`, with other attributes between them at most,
/// or that a macro makes a test of each of its words, as `groups! { write edge }`.
fn tests_in(text: &str) -> impl Iterator<Item = &str> {
    let mut test = false;
    let single = text.lines().map(str::trim).filter_map(move |line| {
        if line == "#[test]" {
            test = true;
            return None;
        }
        let rest = line.strip_prefix("fn ")?;
        std::mem::take(&mut test).then(|| rest.split('(').next())?
    });
    let made = text
        .split_once("\ngroups! {")
        .and_then(|(_, rest)| rest.split('}').next());
    single.chain(made.unwrap_or_default().split_whitespace())
}

/// True if the file is this crate or test program, or in it.
fn is_of(file: &Path, place: &str) -> bool {
    file.with_extension("").iter().any(|part| part == place)
}

#[test]
fn the_readme_counts_the_experiments() {
    let results = read("lab/notes/results.md");
    // All, reproduced, in part, cause shown, differ, not run.
    let counts = |what: &str| -> Vec<u32> {
        let (_, counts) = results.split_once(&format!("| {what} |")).expect("a row");
        let cells = counts.lines().next().unwrap_or_default().split('|');
        cells.filter_map(|cell| cell.trim().parse().ok()).collect()
    };
    let (all, published) = (
        counts("experiments"),
        counts("published figures and tables"),
    );
    let wanted = format!(
        "[{} experiments](lab/notes/results.md). Of these, {} repeat published figures and tables: {} are reproduced, \
         [{} in part](docs/reproducing.md#verdicts), {} differ, {} were not run; the other {} test why results differ, or whether \
         this project meets its aims.",
        all[0],
        published[0],
        published[1],
        published[2],
        published[3] + published[4],
        published[5],
        all[0] - published[0]
    );
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words(&read("README.md")).contains(&wanted), "{wanted}");
}

/// The words before a type's name in its definition, and its documentation.
fn definition<'a>(name: &str, text: &'a str) -> Option<(&'static str, Vec<&'a str>)> {
    ["pub trait ", "pub struct ", "pub enum "]
        .into_iter()
        .find_map(|kind| {
            let head = format!("\n{kind}{name}");
            let mut found = text.match_indices(&head);
            let (at, _) = found.find(|(at, _)| {
                let after = &text[at + head.len()..];
                !after.starts_with(|c: char| c.is_alphanumeric() || c == '_')
            })?;
            let before = text[..at].lines().rev();
            let doc = before.take_while(|line| line.starts_with("///") || line.starts_with("#["));
            Some((kind, doc.collect()))
        })
}

/// True if the type has a function that makes one.
fn is_constructed(name: &str, text: &str) -> bool {
    let blocks = text.split("\nimpl").skip(1).filter(|block| {
        let head = block.split('{').next().unwrap_or_default();
        let of = head.rsplit(' ').find(|word| !word.is_empty());
        of.is_some_and(|of| of.split('<').next() == Some(name)) && !head.contains(" for ")
    });
    blocks
        .filter_map(|block| block.split("\n}").next())
        .flat_map(|block| block.split("\n    pub ").skip(1))
        .filter(|item| item.starts_with("fn ") || item.starts_with("const fn "))
        .any(|item| {
            let head = item.split('{').next().unwrap_or_default();
            let (arguments, result) = head.split_once("->").unwrap_or((head, ""));
            !arguments.contains("self") && result.contains("Self")
        })
}

/// Types of the public crates that have a README of their own.
#[test]
fn types_that_users_construct_have_an_example() {
    let (mut seen, mut wrong) = (0, Vec::new());
    for group in ["alcc", "lab"] {
        for entry in std::fs::read_dir(root().join(group)).expect("a group") {
            let folder = entry.expect("an entry").path();
            let lib = std::fs::read_to_string(folder.join("src/lib.rs")).unwrap_or_default();
            if !folder.join("README.md").is_file() || lib.is_empty() {
                continue;
            }
            let mut found = Vec::new();
            sources(folder.join("src"), &mut found);
            let text: String = found.iter().flat_map(|(_, text)| ["\n", text]).collect();
            let exported = lib
                .split("\npub use ")
                .skip(1)
                .filter(|of| !of.starts_with("alcc_"));
            let exported = exported.filter_map(|of| of.split(';').next());
            let names =
                exported.flat_map(|of| of.split(|c: char| !c.is_alphanumeric() && c != '_'));
            for name in names.filter(|name| name.starts_with(|c: char| c.is_ascii_uppercase())) {
                let Some((kind, doc)) = definition(name, &text) else {
                    continue;
                };
                if (kind != "pub trait " && !is_constructed(name, &text)) || name.ends_with("Error")
                {
                    continue;
                }
                seen += 1;
                if !doc.iter().any(|line| line.starts_with("/// ```")) {
                    wrong.push(format!("{}: {name}", folder.display()));
                }
            }
        }
    }
    assert!(seen > 40, "only {seen} types: the search is broken");
    assert!(
        wrong.is_empty(),
        "no example in the documentation of:\n{}",
        wrong.join("\n")
    );
}

/// Code without spaces, comments, the marks of a doc comment, and its hidden lines.
fn bare(code: &str) -> String {
    let lines = code
        .lines()
        .map(|line| line.trim().trim_start_matches("//!").trim());
    let lines = lines
        .filter(|line| !line.starts_with("# "))
        .map(|line| line.split("//").next().unwrap().replace(' ', ""));
    lines.collect()
}

#[test]
fn rust_of_the_pages_is_part_of_a_program() {
    let programs = [
        ("library.md", "alcc/socket/src/own/mod.rs"),
        ("simulator.md", "lab/sim/examples/dumbbell.rs"),
        ("transfer.md", "lab/quic/examples/serve.rs"),
    ];
    let mut compared = 0;
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        let blocks = text.split("```rust\n").skip(1);
        let blocks = blocks.map(|rest| rest.split("```").next().unwrap());
        for block in blocks {
            // lab/sim/tests/own_algorithm.rs compares that page.
            if page.ends_with("adding-an-algorithm.md") {
                continue;
            }
            let program = programs.iter().find(|(name, _)| page.ends_with(name));
            let (_, program) = program.unwrap_or_else(|| panic!("{}: {block}", page.display()));
            let program = read(program);
            assert!(bare(&program).contains(&bare(block)), "{block}");
            compared += 1;
        }
    }
    assert_eq!(compared, programs.len());
}

#[test]
fn the_promises_of_security_name_tests_that_exist() {
    let page = read("SECURITY.md");
    let (_, table) = page
        .split_once("## What holds each promise")
        .expect("the section with the table");
    let rows = table.lines().filter(|line| line.starts_with("| ")).count();
    let names = named_tests(table);
    // The head of the table names none.
    assert!(rows > 10 && names.len() + 1 >= rows, "{rows}: {names:?}");
    let mut all = Vec::new();
    for group in ["alcc", "lab"] {
        sources(root().join(group), &mut all);
    }
    let is_there = |(name, place): &(&str, &str)| {
        let mut there = (all.iter())
            .filter(|(file, _)| is_of(file.strip_prefix(root()).unwrap_or(file), place));
        there.any(|(_, text)| tests_in(text).any(|other| other == *name))
    };
    let absent: Vec<_> = names.iter().filter(|one| !is_there(one)).collect();
    assert!(absent.is_empty(), "{absent:?}");
}

#[test]
fn a_test_is_found_only_in_its_place() {
    let text =
        "#[test]\nfn a() {}\nfn no_test() {}\n#[test]\n#[ignore]\nfn b() {}\ngroups! { c d }";
    assert!(tests_in(text).eq(["a", "b", "c", "d"]));
    let table = "| promise | `a`, `b` (x), `c` (y) |\n| other | `d` |\n";
    assert_eq!(
        named_tests(table),
        [("a", "x"), ("b", "x"), ("c", "y"), ("d", "")]
    );
    let file = Path::new("alcc/cli/tests/load.rs");
    assert!(is_of(file, "cli") && is_of(file, "load") && !is_of(file, "tes") && !is_of(file, ""));
}
