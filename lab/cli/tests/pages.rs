// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pages are readable as text, in a terminal and in a diff: their lines are short.
#[path = "../../../alcc/cli/tests/support/root.rs"]
mod root;

use root::root;
use std::path::PathBuf;

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

/// The names in back quotes in the last cells of a table's rows.
fn named_tests(table: &str) -> Vec<&str> {
    let rows = table.lines().filter(|line| line.starts_with("| "));
    let cells = rows.filter_map(|row| row.trim_end_matches([' ', '|']).rsplit('|').next());
    cells
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .collect()
}

/// All that is written in Rust below a folder, with a line break before each piece.
fn sources(folder: PathBuf, text: &mut String) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let entry = entry.expect("an entry");
        let path = entry.path();
        if entry.file_type().expect("its type").is_dir() {
            if !path.ends_with("target") {
                sources(path, text);
            }
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            text.push('\n');
            text.push_str(&std::fs::read_to_string(&path).expect("a source"));
        }
    }
}

/// Those of the names that no test function has: a function counts that follows `#[test]`, with
/// other attributes between them at most.
fn missing<'a>(names: &[&'a str], text: &str) -> Vec<&'a str> {
    let mut found = std::collections::BTreeSet::new();
    let mut test = false;
    for line in text.lines().map(str::trim) {
        if line == "#[test]" {
            test = true;
        } else if let Some(rest) = line.strip_prefix("fn ") {
            if test {
                found.extend(rest.split('(').next());
            }
            test = false;
        }
    }
    let absent = names.iter().filter(|name| !found.contains(*name));
    absent.copied().collect()
}

#[test]
fn the_readme_counts_the_experiments() {
    let results = read("lab/notes/results.md");
    let (_, counts) = results.split_once("\nOf ").expect("the counts");
    let all = counts.split(' ').next().expect("their number");
    let wanted = format!("[{all} experiments](lab/notes/results.md)");
    assert!(read("README.md").contains(&wanted), "{wanted}");
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
    let mut text = String::new();
    sources(root().join("alcc"), &mut text);
    sources(root().join("lab"), &mut text);
    assert_eq!(missing(&names, &text), Vec::<&str>::new());
    let renamed = "#[test]\nfn another() {}\nfn no_test() {}";
    assert_eq!(missing(&["no_test", "another"], renamed), ["no_test"]);
}
