// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks that all names in messages and help texts exist: commands, options, pages, scripts and
//! targets of make.
use clap::Command;
use std::path::{Path, PathBuf};

/// Folders and files, and the commands that print their messages. An option that such
/// a message names is one of each of them. The longest name counts.
const PRINTED_BY: &[(&str, &[&str])] = &[
    ("lab/cli/src/changes_arg.rs", &["emulate"]),
    ("alcc/cli/src/chosen.rs", &["run", "proxy"]),
    ("alcc/cli/src/certificate.rs", &["send"]),
    ("alcc/cli/src/commands/attach/", &["attach"]),
    ("lab/cli/src/commands/emulate/", &["emulate"]),
    ("alcc/cli/src/commands/list.rs", ANY),
    ("lab/cli/src/commands/list.rs", ANY),
    ("lab/cli/src/main.rs", &["send"]),
    ("alcc/cli/src/lib.rs", &["top"]),
    ("lab/cli/src/commands/mdi/train.rs", &["mdi train"]),
    ("lab/cli/src/commands/mdi/validate.rs", &["mdi validate"]),
    ("lab/cli/src/commands/reproduce/", &["reproduce"]),
    ("alcc/cli/src/commands/top/", &["top"]),
    (
        "lab/cli/src/commands/trace/calibrate.rs",
        &["trace calibrate"],
    ),
    ("lab/cli/src/commands/trace/combine.rs", &["trace combine"]),
    ("lab/cli/src/commands/trace/convert.rs", &["trace convert"]),
    ("lab/cli/src/commands/trace/plot", &["trace plot"]),
    ("lab/cli/src/commands/trace/record", &["trace record"]),
    ("lab/cli/src/commands/trace/stats.rs", &["trace stats"]),
    ("lab/cli/src/commands/trace/synth.rs", &["trace synth"]),
    (
        "alcc/cli/src/commands/ctl.rs",
        &["ctl off", "ctl on", "ctl cc"],
    ),
    ("alcc/cli/src/doctor/machine.rs", &["run"]),
    ("alcc/cli/src/doctor/running.rs", &["attach"]),
    ("alcc/cli/src/kernel_limit.rs", &["run", "proxy"]),
    (
        "alcc/cli/src/output.rs",
        &["compare", "reproduce", "sweep", "demo"],
    ),
    ("alcc/cli/src/runs.rs", &["ctl off", "top", "log"]),
    ("alcc/cli/src/summary.rs", &["run"]),
    (
        "lab/cli/src/trace_arg.rs",
        &["trace calibrate", "reproduce"],
    ),
    ("alcc/cli/src/transport.rs", &["send", "recv"]),
    ("alcc/cli/src/trial/", &["trial"]),
    ("alcc/cli/src/wording.rs", &["run", "send"]),
    ("alcc/cc/src/conformance/path.rs", &["sim"]),
    ("alcc/cc/src/registry.rs", &["run"]),
    ("lab/link/", &["sim", "sweep", "emulate"]),
    ("lab/trace/", &["trace convert"]),
    ("lab/experiment/src/sweep.rs", &["sweep"]),
    ("lab/experiment/", &["reproduce"]),
    ("lab/live/src/error.rs", &["reproduce"]),
    ("lab/live/src/scheme", &["compare", "sim"]),
    ("lab/live/src/twin/", &["sim"]),
    ("lab/record/", &["trace record"]),
    ("alcc/observe/src/entry.rs", &["top"]),
    ("alcc/carrier/src/own_tcp.rs", &["send"]),
    ("alcc/carrier/", &["send", "recv"]),
    ("alcc/inband/", &["send", "recv"]),
    ("alcc/pipe/src/lib.rs", &["send"]),
    ("alcc/pipe/src/table.rs", &["send"]),
    ("alcc/pipe/src/tcp.rs", &["send"]),
    ("alcc/pipe/src/tls/trust.rs", &["send"]),
    ("alcc/pipe/", &["send", "recv"]),
    ("lab/quic/src/transport.rs", &["send"]),
    ("lab/quic/", &["send", "recv"]),
    ("alcc/transfer/src/keeping.rs", &["recv"]),
    ("alcc/transfer/src/receiving.rs", &["recv"]),
    ("alcc/transfer/", &["send"]),
    ("lab/udp/src/transport.rs", &["send"]),
    ("lab/udp/", &["send", "recv"]),
];
/// Names options of many commands.
const ANY: &[&str] = &[];

/// Options of other programs.
const FOREIGN: &[&str] = &["--privileged", "--no-install-recommends"];

/// Words after `alcc` in prose that are not commands.
const NO_COMMAND: &[&str] = &[
    "again", "already", "and", "at", "by", "can", "cannot", "has", "in-band", "is", "itself",
    "left", "manual", "nor", "or", "packet", "report", "says", "starts", "stays", "was", "when",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The sources without tests: Rust, and Java and Python of the bindings.
fn sources() -> Vec<(String, String)> {
    let mut found = Vec::new();
    let folders = ["alcc", "lab", "bindings/java", "bindings/python"];
    let mut folders: Vec<_> = folders.iter().map(|name| root().join(name)).collect();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder can be read") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().and_then(|n| n.to_str()).expect("a name");
            if path.is_dir() {
                if !["test", "tests", "bench", "benches", "target", "examples"].contains(&name) {
                    folders.push(path);
                }
            } else if [".rs", ".java", ".py"]
                .iter()
                .any(|end| name.ends_with(end))
                && !name.ends_with("tests.rs")
            {
                let text = std::fs::read_to_string(&path).expect("a source can be read");
                let text = text.split("#[cfg(test)]\nmod tests {").next();
                let short = path.strip_prefix(root()).expect("below the root");
                let short = short.to_str().expect("a name").to_owned();
                found.push((short, text.expect("a part").to_owned()));
            }
        }
    }
    found.sort();
    found
}

/// The texts of a source, as they are printed.
fn texts(source: &str) -> Vec<String> {
    let mut texts = Vec::new();
    let mut rest = source;
    while let Some(at) = rest.find(['"', '/', '\'']) {
        let here = &rest[at..];
        if here.starts_with("//") {
            rest = here.find('\n').map_or("", |end| &here[end..]);
        } else if here.starts_with("'\"'") || here.starts_with("'\\\"'") {
            rest = here[2..].split_once('\'').map_or("", |(_, rest)| rest);
        } else if let Some(inside) = here.strip_prefix('"') {
            let before = &rest[..at];
            let hashes = before.len() - before.trim_end_matches('#').len();
            let is_raw = before[..before.len() - hashes].ends_with('r');
            let mut text = String::new();
            let mut inside = inside.chars();
            let end = format!("\"{}", "#".repeat(hashes));
            while let Some(c) = inside.next() {
                match c {
                    '"' if !is_raw || format!("\"{}", inside.as_str()).starts_with(&end) => break,
                    '\\' if !is_raw => match inside.next() {
                        Some('n') => text.push('\n'),
                        Some('\n') => {
                            let next = inside.as_str().trim_start();
                            inside = next.chars();
                        }
                        Some(c) => text.push(c),
                        None => {}
                    },
                    c => text.push(c),
                }
            }
            texts.push(text);
            rest = inside.as_str();
        } else {
            rest = &here[1..];
        }
    }
    texts
}

/// The product and the laboratory.
type Programs = [Command; 2];

fn programs() -> Programs {
    let mut programs = [alcc_cli::command(), crate::command_line()];
    programs.iter_mut().for_each(Command::build);
    programs
}

fn find<'a>(programs: &'a Programs, path: &str) -> Option<&'a Command> {
    let below = |command: &'a Command, name| command.find_subcommand(name);
    let mut programs = programs.iter();
    programs.find_map(|program| path.split(' ').try_fold(program, below))
}

fn command<'a>(programs: &'a Programs, path: &str) -> &'a Command {
    find(programs, path).unwrap_or_else(|| panic!("no command '{path}'"))
}

fn has(command: &Command, option: &str) -> bool {
    let name = option.trim_start_matches('-');
    let is_it = |arg: &clap::Arg| {
        let names = arg.get_long_and_visible_aliases();
        names.is_some_and(|names| names.contains(&name))
    };
    command.get_arguments().any(is_it) || ["help", "version"].contains(&name)
}

/// The options in a word.
fn options(word: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (at, _) in word.match_indices("--") {
        let joined = word[..at].ends_with(|c: char| c.is_alphanumeric() || c == '-');
        let name = &word[at + 2..];
        let end = name.find(|c: char| !c.is_ascii_lowercase() && !c.is_ascii_digit() && c != '-');
        let name = name[..end.unwrap_or(name.len())].trim_end_matches('-');
        if !joined && name.starts_with(|c: char| c.is_ascii_lowercase()) {
            found.push(&word[at..at + 2 + name.len()]);
        }
    }
    found
}

/// Names in a text of these commands that do not exist.
fn missing(programs: &Programs, text: &str, printed_by: &[&str]) -> Vec<String> {
    let mut wrong = Vec::new();
    let is_quote = |c: char| "'\"`()[],;:.|".contains(c);
    for line in text.lines() {
        let mut words = line.split_whitespace().peekable();
        // The command that is being named, until its clause ends.
        let mut named: Option<&Command> = None;
        // Words of another program, behind "--", and of a command that is put together elsewhere.
        let mut is_foreign = false;
        while let Some(word) = words.next() {
            let bare = word.trim_matches(is_quote);
            let which = match bare {
                "alcc" => Some(&programs[0]),
                "alcc-lab" => Some(&programs[1]),
                _ => bare.ends_with("}alcc").then_some(&programs[0]),
            };
            if let Some(program) = which.filter(|_| !word.ends_with(is_quote)) {
                let mut found = program;
                while let Some(next) = words.peek()
                    && let Some(below) = found.find_subcommand(next.trim_matches(is_quote))
                {
                    found = below;
                    if words.next().is_some_and(|word| word.ends_with(is_quote)) {
                        break;
                    }
                }
                let next = words.peek().map_or("", |next| *next);
                let is_prose = NO_COMMAND.contains(&next.trim_matches(is_quote));
                let is_word = next.starts_with(|c: char| c.is_ascii_lowercase());
                if std::ptr::eq(found, program) && is_word && !is_prose && next.len() > 1 {
                    wrong.push(format!("no command '{bare} {next}'"));
                }
                (named, is_foreign) = (Some(found), false);
                continue;
            }
            is_foreign |= ["--", "{command}"].contains(&word);
            for option in options(word) {
                let there = match named {
                    _ if is_foreign || FOREIGN.contains(&option) => true,
                    Some(command) => has(command, option),
                    None => printed_by
                        .iter()
                        .all(|name| has(command(programs, name), option)),
                };
                if !there {
                    let of =
                        named.map_or_else(|| printed_by.join(", "), |c| c.get_name().to_owned());
                    wrong.push(format!("no {option} of {of}"));
                }
            }
            if word.ends_with(['\'', '`', ')', ';', ':', ',', '.']) || word == "|" || word == "&&" {
                (named, is_foreign) = (None, false);
            }
        }
    }
    for (at, make) in text.match_indices("'make ") {
        let target = text[at + make.len()..].split(['\'', ' ']).next();
        let target = format!("\n{}:", target.unwrap_or_default());
        if !include_str!("../../../Makefile").contains(&target) {
            wrong.push(format!("no target{target}"));
        }
    }
    for (folder, end) in [("docs/", ".md"), ("scripts/", "")] {
        for (at, _) in text.match_indices(folder) {
            let name = &text[at..];
            let name = name.split(|c: char| !c.is_alphanumeric() && !"/-._".contains(c));
            let name = (name.into_iter().next()).map_or("", |name| name.trim_end_matches('.'));
            if name.ends_with(end)
                && name != folder
                && !name.contains("NAME")
                && !root().join(name).exists()
            {
                wrong.push(format!("no file {name}"));
            }
        }
    }
    wrong
}

#[test]
fn what_messages_name_exists() {
    let programs = programs();
    let mut wrong = Vec::new();
    let mut seen = 0;
    for (file, source) in sources() {
        let table = PRINTED_BY.iter().filter(|(name, _)| file.starts_with(name));
        let mut printed_by = table
            .max_by_key(|(name, _)| name.len())
            .map(|(_, by)| by.to_vec());
        let mut folders = ["alcc/cli/src/commands/", "lab/cli/src/commands/"].iter();
        let own = folders.find_map(|folder| file.strip_prefix(folder));
        let own = own.and_then(|name| name.strip_suffix(".rs"));
        if let (None, Some(own)) = (&printed_by, own.filter(|own| !own.contains('/'))) {
            printed_by = find(&programs, own).map(|_| vec![own]);
        }
        let is_table = file.starts_with("lab/cli/src/mistakes");
        let texts = texts(&source);
        for text in &texts {
            // A table of commands and what is wrong with an option of theirs.
            if is_table && find(&programs, text).is_some() && !text.is_empty() {
                printed_by = Some(vec![text]);
            }
            // An argument of a program, or a style.
            if !text.contains(' ') || text.contains("var(--") || text.contains("{{--") {
                continue;
            }
            let named = options(text);
            seen += named.len();
            if named.iter().any(|name| !FOREIGN.contains(name)) && printed_by.is_none() {
                // Without any the text names a command with them.
                printed_by = Some(vec!["doctor"]);
            }
            let by = printed_by.clone().unwrap_or_default();
            for what in missing(&programs, text, &by) {
                wrong.push(format!("{file}: {what}: {text:.200}"));
            }
        }
    }
    assert!(
        seen > 300,
        "only {seen} options found: the search is broken"
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_help_texts_name_exists() {
    fn visit(programs: &Programs, command: &Command, path: &str, wrong: &mut Vec<String>) {
        let texts = command.get_arguments().flat_map(|arg| {
            let help = arg.get_long_help().or_else(|| arg.get_help());
            if help.is_none() && !arg.is_hide_set() {
                wrong.push(format!("{path}: {}: no help", arg.get_id()));
            }
            help.map(ToString::to_string)
        });
        let texts: Vec<_> = texts.collect();
        let about = [
            command.get_long_about().or_else(|| command.get_about()),
            command
                .get_after_long_help()
                .or_else(|| command.get_after_help()),
        ];
        let about = about.into_iter().flatten().map(ToString::to_string);
        for text in texts.into_iter().chain(about) {
            let own: &[&str] = if path.is_empty() { &[] } else { &[path] };
            let found = missing(programs, &text.replace("\\\n", " "), own);
            wrong.extend(found.iter().map(|what| format!("{path}: {what}: {text}")));
        }
        for below in command.get_subcommands().filter(|c| c.get_name() != "help") {
            let path = format!("{path} {}", below.get_name());
            visit(programs, below, path.trim_start(), wrong);
        }
    }
    let programs = programs();
    let mut wrong = Vec::new();
    for program in &programs {
        visit(&programs, program, "", &mut wrong);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_walk_finds_what_is_wrong() {
    let programs = programs();
    let of = |text| missing(&programs, text, &["trace convert"]);
    assert!(of("choose one (--column), or 'alcc-lab trace combine --length 5s'").is_empty());
    assert_eq!(of("take less (--length)"), ["no --length of trace convert"]);
    assert_eq!(of("run 'alcc convert'"), ["no command 'alcc convert''"]);
    assert_eq!(of("run 'alcc sim'"), ["no command 'alcc sim''"]);
    assert_eq!(of("'alcc-lab sim --colunm'"), ["no --colunm of sim"]);
    assert!(of("alcc run -- nginx --colunm").is_empty());
    assert_eq!(of("run 'make nothing'"), ["no target\nnothing:"]);
    assert_eq!(of("see docs/nowhere.md"), ["no file docs/nowhere.md"]);
    let source = "// \"no\"\nlet c = '\"'; f(\"a \\\n   b\", r#\"c \"d\"\"#);";
    assert_eq!(texts(source), ["a b", "c \"d\""]);
    for end in ["main.rs", "Recorder.java", "gym.py"] {
        assert!(
            sources().iter().any(|(file, _)| file.ends_with(end)),
            "{end}"
        );
    }
}
