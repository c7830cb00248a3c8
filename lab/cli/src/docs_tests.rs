// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commands in the documentation are valid for the programs.
use std::path::{Path, PathBuf};

#[path = "../tests/console/mod.rs"]
mod console;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("read {}: {e}", path.display()))
}

/// README.md, CONTRIBUTING.md and everything below docs/ and lab/notes/.
fn pages() -> Vec<PathBuf> {
    let mut found: Vec<_> = ["README.md", "CONTRIBUTING.md", "SECURITY.md"]
        .iter()
        .map(|name| root().join(name))
        .collect();
    let mut folders = vec![root().join("docs"), root().join("lab/notes")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder of pages can be read") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "md") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Words as a shell splits them, and the separators `|`, `&&` and `;` as words of their own.
/// Comments are left out.
fn words(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in command.chars() {
        match (quote, c) {
            (Some(q), _) if c == q => quote = None,
            (Some(_), _) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, '|' | ';' | '&' | '(' | ')') => {
                words.extend(word.take());
                words.push(c.to_string());
            }
            (None, _) if c.is_whitespace() => words.extend(word.take()),
            (None, _) => word.get_or_insert_default().push(c),
        }
    }
    assert!(quote.is_none(), "an open quote in: {command}");
    words.extend(word);
    words
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase() || c == '_')
    })
}

/// Checks one command line; `Err` is the error.
fn check(command: &str) -> Result<(), String> {
    let words = words(command);
    for simple in words.split(|w| ["|", ";", "&", "(", ")"].contains(&w.as_str())) {
        let mut simple = simple
            .iter()
            .skip_while(|w| *w == "sudo" || is_assignment(w))
            .peekable();
        let Some(program) = simple.peek().copied() else {
            continue;
        };
        let rest: Vec<&String> = simple.take_while(|w| !w.starts_with('>')).collect();
        let name = program.rsplit('/').next().unwrap_or_default();
        if name == "alcc" || name == "alcc-lab" {
            parses(name == "alcc-lab", &rest)?;
        } else if program == "make" {
            let makefile = read("Makefile");
            for target in rest[1..].iter().filter(|w| !w.contains('=')) {
                if !makefile
                    .lines()
                    .any(|l| l.starts_with(&format!("{target}:")))
                {
                    return Err(format!("no make target '{target}'"));
                }
            }
        } else if program.contains('/')
            && !program.starts_with(['/', '~'])
            // A program that the reader has just built.
            && !program.starts_with("./")
            && !root().join(program).exists()
        {
            return Err(format!("{program} does not exist"));
        }
    }
    Ok(())
}

/// Checks that a program accepts this line, and that the algorithms in it exist.
fn parses(is_lab: bool, line: &[&String]) -> Result<(), String> {
    let (program, algorithms) = if is_lab {
        (crate::command_line(), crate::algorithms())
    } else {
        (alcc_cli::command(), alcc_cc::Registry::builtin())
    };
    if let Err(e) = program.try_get_matches_from(line)
        && !matches!(
            e.kind(),
            clap::error::ErrorKind::DisplayHelp | clap::error::ErrorKind::DisplayVersion
        )
    {
        return Err(e.to_string());
    }
    // What a plug-in brings is known when it is there: tests/commands.rs runs those lines.
    if line.iter().any(|word| *word == "--plugin") {
        return Ok(());
    }
    for pair in line.windows(2).take_while(|pair| *pair[0] != "--") {
        if *pair[0] == "--cc" {
            let spec: alcc_cc::Spec = pair[1].parse().map_err(|e| format!("{e}"))?;
            algorithms.build(&spec).map_err(|e| e.to_string())?;
        }
    }
    Ok(())
}

#[test]
fn commands_in_the_documentation_are_taken() {
    let mut seen = 0;
    let mut wrong = Vec::new();
    for page in pages() {
        let mut built = Vec::new();
        for command in console::commands(&read(&page)) {
            let command = command.text;
            seen += 1;
            let words = words(&command);
            built.extend(
                words
                    .windows(2)
                    .filter(|w| w[0] == "-o")
                    .map(|w| format!("./{}", w[1])),
            );
            // A file that the reader has just compiled is not in this folder.
            if words.iter().any(|w| built.contains(w)) {
                continue;
            }
            if let Err(why) = check(&command) {
                wrong.push(format!("{}: {command}\n    {why}", page.display()));
            }
        }
    }
    assert!(
        seen >= 5,
        "only {seen} commands found: the search is broken"
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_check_finds_what_is_wrong() {
    assert!(check("alcc list --json | head").is_ok());
    assert!(check("alcc list --jsn").is_err());
    assert!(check("alcc sim").is_err() && check("alcc-lab sim").is_ok());
    assert!(check("X=1 sudo target/release/alcc nosuch").is_err());
    assert!(check("make demo").is_ok());
    assert!(check("make ARGS=x nosuch").is_err());
    assert!(check("scripts/nosuch").is_err());
    assert_eq!(words("a 'b c' \"d\"|e # f"), ["a", "b c", "d", "|", "e"]);
    let shown = console::commands("```console\n$ a \\\n  b\nout\n```\n$ c\n");
    assert_eq!((shown.len(), shown[0].text.as_str()), (1, "a b"));
}

/// Every command's help ends with an example, and the example is taken.
#[test]
fn every_command_shows_an_example_that_works() {
    fn visit(command: &clap::Command, wrong: &mut Vec<String>) {
        let name = command.get_name();
        if command.get_subcommands().next().is_none() {
            // The short help has some of the examples, or its own.
            let parts = [command.get_after_help(), command.get_after_long_help()];
            let parts = parts.into_iter().flatten().map(ToString::to_string);
            let help = parts.collect::<Vec<_>>().join("\n");
            if !help.contains("Example") {
                wrong.push(format!("{name}: no example in after_help"));
            }
            for line in help.replace("\\\n", " ").lines() {
                let line = line.trim_start().trim_start_matches("$ ");
                if (line.starts_with("alcc ") || line.starts_with("alcc-lab "))
                    && let Err(why) = check(line)
                {
                    wrong.push(format!("{name}: {line}\n    {why}"));
                }
            }
        }
        for sub in command.get_subcommands().filter(|s| s.get_name() != "help") {
            visit(sub, wrong);
        }
    }
    let mut wrong = Vec::new();
    visit(&alcc_cli::command(), &mut wrong);
    visit(&crate::command_line(), &mut wrong);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// `-h` fits on one screen; `--help` has the rest.
#[test]
fn short_help_fits_on_a_screen() {
    /// Lines of a screen.
    const SCREEN: usize = 40;
    fn visit(command: &clap::Command, path: &str, wrong: &mut Vec<String>) {
        let lines = command.clone().render_help().to_string().lines().count();
        if lines > SCREEN {
            wrong.push(format!("{path} -h: {lines} lines"));
        }
        for sub in command.get_subcommands().filter(|s| s.get_name() != "help") {
            visit(sub, &format!("{path} {}", sub.get_name()), wrong);
        }
    }
    let mut wrong = Vec::new();
    for mut program in [alcc_cli::command(), crate::command_line()] {
        program.build();
        visit(&program, program.get_name(), &mut wrong);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Each program knows the commands and transports of the other one that it does not have.
#[test]
fn each_program_knows_what_the_other_has() {
    let names = |program: &clap::Command| -> Vec<String> {
        let shown = program.get_subcommands().filter(|c| !c.is_hide_set());
        let mut names: Vec<_> = shown.map(|c| c.get_name().to_owned()).collect();
        names.sort();
        names
    };
    let programs = [alcc_cli::command(), crate::command_line()].map(|program| names(&program));
    let known = [&alcc_cli::ALCC, &crate::LAB];
    for (n, program) in known.into_iter().enumerate() {
        let (own, other) = (&programs[n], &programs[1 - n]);
        let missing: Vec<_> = other.iter().filter(|name| !own.contains(name)).collect();
        assert_eq!(missing, program.elsewhere.iter().collect::<Vec<_>>());
        let has = |of: &alcc_cli::program::Program, name| of.transports.find(name).is_ok();
        for name in program.other_transports {
            assert!(!has(program, name) && has(known[1 - n], name), "{name}");
        }
    }
}

#[test]
fn clap_finds_no_contradiction_in_the_arguments() {
    alcc_cli::command().debug_assert();
    crate::command_line().debug_assert();
}

#[test]
fn the_readme_keeps_to_its_facts() {
    let readme = read("README.md");
    let lines = readme.lines().count();
    assert!(lines <= 100, "README.md has {lines} lines: at most 100");
    let manifest = read("Cargo.toml");
    let msrv = manifest
        .lines()
        .find_map(|l| l.strip_prefix("rust-version = "))
        .expect("rust-version in Cargo.toml")
        .trim_matches('"');
    assert!(
        readme.contains(&format!("Rust {msrv}")),
        "README.md does not say 'Rust {msrv}', which Cargo.toml asks for"
    );
    let members = manifest
        .lines()
        .find_map(|l| l.strip_prefix("members = "))
        .expect("members in Cargo.toml");
    let members: Vec<String> = members
        .split('"')
        .filter(|m| m.starts_with("alcc/") || m.starts_with("lab/"))
        .flat_map(|m| match m.strip_suffix("/*") {
            None => vec![m.to_owned()],
            Some(floor) => std::fs::read_dir(root().join(floor))
                .expect("a floor can be read")
                .map(|e| e.expect("an entry").file_name())
                .map(|n| format!("{floor}/{}", n.to_str().expect("a plain name")))
                .collect(),
        })
        .collect();
    assert!(members.len() >= 20, "members of the workspace: {members:?}");
    let contributing = read("CONTRIBUTING.md");
    for member in members {
        assert!(
            contributing.contains(&format!("]({member})")),
            "CONTRIBUTING.md does not list {member}"
        );
    }
}

#[test]
fn every_page_is_in_the_index() {
    let index = read("docs/README.md");
    for page in pages() {
        let name = page.file_name().expect("a name").to_str().expect("text");
        let mine = page.parent().expect("a folder") == root().join("docs");
        if mine && name != "README.md" {
            assert!(
                index.contains(&format!("]({name})")),
                "docs/README.md does not list {name}"
            );
        }
    }
}

#[test]
fn every_decision_is_listed() {
    let index = read("docs/decisions/README.md");
    let mut numbers = Vec::new();
    for entry in
        std::fs::read_dir(root().join("docs/decisions")).expect("docs/decisions can be read")
    {
        let name = entry
            .expect("an entry")
            .file_name()
            .into_string()
            .expect("a plain name");
        if name == "README.md" {
            continue;
        }
        assert!(
            index.contains(&format!("]({name})")),
            "docs/decisions/README.md does not list {name}"
        );
        let number = name.split('-').next().expect("a number").to_owned();
        assert!(
            number.len() == 4 && number.parse::<u16>().is_ok(),
            "{name} is not NNNN-title.md"
        );
        assert!(
            !numbers.contains(&number),
            "two decisions have the number {number}"
        );
        numbers.push(number);
    }
    assert!(
        !index.contains("## Not assigned"),
        "a decision does not say its part in the third line (CONTRIBUTING.md)"
    );
}

/// The numbers of records that a text names, as "decision 0045" or by the file.
fn records(text: &str) -> Vec<&str> {
    ["ecision ", "ecisions/"]
        .iter()
        .flat_map(|word| text.split(word).skip(1))
        .filter_map(|rest| rest.get(..4))
        .filter(|number| number.bytes().all(|b| b.is_ascii_digit()))
        .collect()
}

/// Sources, experiments and pages name only records that are there: a reader who looks up the
/// reason must find it.
#[test]
fn named_decisions_exist() {
    assert_eq!(
        records("see decision 0045, docs/decisions/0002-a.md"),
        ["0045", "0002"]
    );
    let there: Vec<String> = std::fs::read_dir(root().join("docs/decisions"))
        .expect("docs/decisions can be read")
        .filter_map(|entry| entry.expect("an entry").file_name().into_string().ok())
        .collect();
    let mut wrong = Vec::new();
    let mut folders: Vec<PathBuf> = ["alcc", "docs", "lab", "scripts", "bindings/java"]
        .iter()
        .map(|name| root().join(name))
        .collect();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder can be read") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                if !path.ends_with("target") && !path.ends_with("objects") {
                    folders.push(path);
                }
            } else if let Ok(text) = std::fs::read_to_string(&path) {
                for number in records(&text) {
                    if !there.iter().any(|name| name.starts_with(number)) {
                        wrong.push(format!("{}: {number}", path.display()));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "no such record:\n{}", wrong.join("\n"));
}

/// The anchors of a page, as GitHub makes them from its headings.
fn anchors(page: &str) -> Vec<String> {
    let (mut code, mut found) = (false, Vec::<String>::new());
    for line in page.lines() {
        code ^= line.trim_start().starts_with("```");
        let Some(heading) = line.strip_prefix('#').filter(|_| !code) else {
            continue;
        };
        // Of a link in a heading the text counts.
        let heading = heading.trim_start_matches('#').trim().split("](");
        let heading: String = heading
            .enumerate()
            .map(|(n, part)| match n {
                0 => part,
                _ => part.split_once(')').map_or("", |(_, rest)| rest),
            })
            .collect();
        let anchor: String = heading
            .to_lowercase()
            .chars()
            .filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c))
            .map(|c| if c == ' ' { '-' } else { c })
            .collect();
        let again = found.iter().filter(|other| **other == anchor).count();
        found.push(match again {
            0 => anchor,
            _ => format!("{anchor}-{again}"),
        });
    }
    found
}

/// Links between our own pages and to our own files lead somewhere, those to a section to a heading.
#[test]
fn links_lead_somewhere() {
    let text = "# `a b`: c\n```\n# d\n```\n## [E](f.md) g\n## [E](h.md) g\n";
    assert_eq!(anchors(text), ["a-b-c", "e-g", "e-g-1"]);
    let mut wrong = Vec::new();
    let mut seen = 0;
    let mut pages = pages();
    for folder in ["alcc", "lab", "lab/experiments", "bindings"] {
        let entries = std::fs::read_dir(root().join(folder)).expect("a folder can be read");
        let readmes = entries.map(|entry| entry.expect("an entry").path().join("README.md"));
        pages.extend(readmes.filter(|readme| readme.is_file()));
    }
    for page in pages {
        let text = read(&page);
        for link in text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next())
        {
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            if file.contains("://") || file.starts_with("mailto:") {
                continue;
            }
            let target = match file {
                "" => page.clone(),
                _ => page.parent().expect("a folder").join(file),
            };
            let to_section = !anchor.is_empty() && target.extension().is_some_and(|e| e == "md");
            seen += usize::from(to_section);
            if !target.exists()
                || to_section && !anchors(&read(&target)).iter().any(|a| a == anchor)
            {
                wrong.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(
        seen > 50,
        "only {seen} links to sections: the search is broken"
    );
    assert!(wrong.is_empty(), "links to nothing:\n{}", wrong.join("\n"));
}

/// Every source file names its licence.
#[test]
fn source_files_name_their_licence() {
    let mut folders = vec![
        root().join("alcc"),
        root().join("lab"),
        root().join("fuzz/src"),
        root().join("fuzz/fuzz_targets"),
    ];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else {
            continue;
        };
        for entry in entries {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let text = read(&path);
                assert!(
                    text.lines()
                        .take(2)
                        .any(|l| l.contains("SPDX-License-Identifier: Apache-2.0 OR MIT")),
                    "{}: no SPDX line",
                    path.display()
                );
            }
        }
    }
}
