// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The command line. clap's errors of several lines become one line, as all other errors are.
mod idle;

pub use self::idle::{Given, Idle};
use crate::failure::Failure;
use crate::output::{note, print, print_screen};
use crate::program::Program;
use alcc_units::want_number;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command, FromArgMatches};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::IsTerminal;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::process::ExitCode;

/// Parses the command line. Help and version are printed here; then, and after an error, there is no
/// command to run.
pub fn parse<T: FromArgMatches>(
    of: &Program,
    program: Command,
) -> Result<T, Result<ExitCode, Failure>> {
    let matches = matches(of, program, std::env::args_os().collect())?;
    T::from_arg_matches(&matches).map_err(|error| Err(Failure::usage(error)))
}

/// The same, of these words, for tests.
///
/// # Errors
/// Help, the version, or an error, to print instead of running a command.
pub fn matches(
    of: &Program,
    mut program: Command,
    words: Vec<OsString>,
) -> Result<ArgMatches, Result<ExitCode, Failure>> {
    let mut words = joined(words);
    // The help of the help is the help.
    if words.get(1).is_some_and(|word| word == "help") {
        words.retain(|word| word != "--help" && word != "-h");
    }
    if let Some(what) = elsewhere(of, &words) {
        return Err(Err(Failure::usage(what)));
    }
    let matches = program.try_get_matches_from_mut(&words);
    let wrong = |error: clap::Error| answer(&error, &words, &program, of);
    let matches = matches.map_err(wrong)?;
    let typed = typed(&program, &matches);
    let (name, _) = command(&program, &words);
    let known = name.split_once(' ').map_or("", |(_, command)| command);
    let wrong_word = empty(&typed).or_else(|| overwritten(&typed));
    if let Some(what) = wrong_word.or_else(|| idle::idle(of.idle, known, &typed)) {
        let what = format!("{what}; see '{name} --help'");
        return Err(Err(Failure::usage(what)));
    }
    Ok(matches)
}

/// A command of the other program, also by its name from the time of a single program.
fn elsewhere(of: &Program, words: &[OsString]) -> Option<String> {
    let word = words.get(1)?.to_str()?;
    let asks = words.get(2).filter(|_| word == "help");
    let word = asks.and_then(|asks| asks.to_str()).unwrap_or(word);
    of.elsewhere.contains(&word).then(|| {
        format!(
            "'{} {word}' is a command of {other}: type '{other} {word}'",
            of.name,
            other = of.other
        )
    })
}

/// An option or argument of the command, and its typed values. Only the name of CMD is included, because
/// its arguments are passed to it.
type Typed<'a> = (&'a Arg, Vec<&'a OsStr>);

fn typed<'a>(program: &'a Command, matches: &'a ArgMatches) -> Vec<Typed<'a>> {
    if let Some((name, below)) = matches.subcommand() {
        let command = program.find_subcommand(name);
        return command.map_or_else(Vec::new, |command| typed(command, below));
    }
    let of = |arg: &'a Arg| {
        let id = arg.get_id().as_str();
        if matches.value_source(id) != Some(ValueSource::CommandLine) {
            return None;
        }
        let of_cmd = arg.is_trailing_var_arg_set() || arg.is_last_set();
        let ours = if of_cmd { 1 } else { usize::MAX };
        Some((arg, matches.get_raw(id)?.take(ours).collect()))
    };
    program.get_arguments().filter_map(of).collect()
}

fn name(arg: &Arg) -> String {
    match arg.get_long() {
        Some(option) => format!("--{option}"),
        None => {
            let name = arg.get_value_names().and_then(<[_]>::first);
            name.map_or_else(|| arg.get_id().as_str().to_uppercase(), ToString::to_string)
        }
    }
}

/// Error for an empty value. A shell substitutes one for an unset variable, and no option accepts it.
fn empty(typed: &[Typed<'_>]) -> Option<String> {
    let is_empty = |(_, values): &&Typed<'_>| values.iter().any(|value| value.is_empty());
    let (arg, _) = typed.iter().find(is_empty)?;
    Some(format!(
        "'{}' is empty: give a value (is a shell variable not set?)",
        name(arg)
    ))
}

/// The options that name an output file.
const OUTPUTS: &[&str] = &[
    "csv",
    "figure",
    "html",
    "json",
    "json-out",
    "out",
    "output",
    "pcap",
    "profile",
    "qlog",
    "series",
    "transfers",
];

/// Error for an output file that another option also names, as output or input: its content would be
/// lost.
fn overwritten(typed: &[Typed<'_>]) -> Option<String> {
    let is_output = |arg: &Arg| {
        let mut names = arg.get_value_names().unwrap_or_default().iter();
        arg.get_long().is_some_and(|long| OUTPUTS.contains(&long))
            && names.any(|name| name.contains("FILE"))
    };
    let outputs = typed.iter().filter(|(arg, _)| is_output(arg));
    let mut outputs = outputs.flat_map(|(arg, files)| files.iter().map(move |file| (arg, *file)));
    outputs.find_map(|(output, file)| {
        let mut others = typed
            .iter()
            .filter(|(arg, _)| arg.get_id() != output.get_id());
        let (other, _) = others.find(|(other, values)| {
            let is_it = |value: &&OsStr| match (fs::metadata(file), fs::metadata(value)) {
                (Ok(a), Ok(b)) => a.is_file() && (a.dev(), a.ino()) == (b.dev(), b.ino()),
                // Two files that do not exist yet are compared by name.
                (Err(_), Err(_)) => is_output(other) && file == *value,
                _ => false,
            };
            values.iter().any(is_it)
        })?;
        Some(format!(
            "{} {}: it is the file of {}, which would be overwritten: choose another name",
            name(output),
            file.to_string_lossy(),
            name(other)
        ))
    })
}

/// `--seed -1` as `--seed=-1`: no option is a digit, so that the option can say what is wrong with
/// its value.
fn joined(words: Vec<OsString>) -> Vec<OsString> {
    let is_negative = |word: &OsString| {
        let bytes = word.as_encoded_bytes();
        matches!(bytes, [b'-', b'0'..=b'9' | b'.', ..])
    };
    let is_option = |word: &OsString| {
        let bytes = word.as_encoded_bytes();
        bytes.len() > 2 && bytes.starts_with(b"--") && !bytes.contains(&b'=')
    };
    let ours = words.iter().position(|word| word == "--");
    let ours = ours.unwrap_or(words.len());
    let mut all: Vec<OsString> = Vec::with_capacity(words.len());
    for (n, word) in words.into_iter().enumerate() {
        match all.last_mut() {
            Some(option) if n < ours && is_negative(&word) && is_option(option) => {
                option.push("=");
                option.push(word);
            }
            _ => all.push(word),
        }
    }
    all
}

fn answer(
    error: &clap::Error,
    words: &[OsString],
    program: &Command,
    of: &Program,
) -> Result<ExitCode, Failure> {
    let text = error.render();
    match error.kind() {
        ErrorKind::DisplayVersion => {
            print(version(&text.to_string()))?;
            Ok(ExitCode::SUCCESS)
        }
        ErrorKind::DisplayHelp => {
            let plain = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty())
                || std::env::var_os("TERM").is_none_or(|t| t == "dumb");
            if std::io::stdout().is_terminal() && !plain {
                print_screen(text.ansi())?;
            } else {
                print(text)?;
            }
            Ok(ExitCode::SUCCESS)
        }
        // The program's name alone: the help.
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand if words.len() < 2 => {
            note(text.to_string().trim_end());
            Ok(ExitCode::from(2))
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand => {
            Err(Failure::usage(unfinished(program, words)))
        }
        ErrorKind::InvalidUtf8 => {
            let odd = words.iter().find(|word| word.to_str().is_none());
            let odd = odd.map_or_else(String::new, |word| word.to_string_lossy().into_owned());
            Err(Failure::usage(format!(
                "'{odd}' is not UTF-8: write it in UTF-8, or give the file another name"
            )))
        }
        _ => {
            let (name, _) = command(program, words);
            if let Some(ContextValue::String(value)) = error.get(ContextKind::InvalidValue)
                && of.other_transports.contains(&value.as_str())
            {
                let command = name.replacen(of.name, of.other, 1);
                let what = format!("{value} is a transport of {}: type '{command}'", of.other);
                return Err(Failure::usage(what));
            }
            let what = match hint(error, &name, words, of.hints) {
                Some((word, what)) => format!("{word}: {what}"),
                None => one_line(&text.to_string()),
            };
            Err(Failure::usage(format!("{what}; see '{name} --help'")))
        }
    }
}

/// The version and, if the program has one, the beginning of the build ID, which distinguishes programs
/// of the same version.
fn version(name_and_version: &str) -> String {
    let named = name_and_version.trim_end();
    let own = std::env::current_exe().ok();
    let own = own.and_then(|own| fs::File::open(own).ok());
    match own.and_then(|own| alcc_units::build_id(|into, at| own.read_exact_at(into, at))) {
        Some(id) => format!("{named} (build {})\n", id.get(..12).unwrap_or(&id)),
        None => format!("{named}\n"),
    }
}

/// Clap's text: `error: WHAT`, more of it indented, `tip: ...`, `Usage: alcc COMMAND ...`, where
/// there is help.
fn one_line(text: &str) -> String {
    let (mut what, mut more, mut tips) = (String::new(), Vec::new(), Vec::new());
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if line.starts_with("Usage: ") {
            break;
        } else if let Some(said) = line.strip_prefix("error: ") {
            said.clone_into(&mut what);
        } else if let Some(tip) = line.strip_prefix("tip: ") {
            // That the word could follow "--" is never what was meant.
            tips.extend((!tip.starts_with("to pass ")).then_some(tip));
        } else if !line.starts_with("For more information") {
            more.push(line);
        }
    }
    let mut line = what;
    if !more.is_empty() {
        line = format!("{line} {}", more.join(", "));
    }
    for tip in tips {
        line = format!("{line}; {tip}");
    }
    in_words(want_number(&line))
}

/// A range of clap, `0 is not in 1..=1024`, in words.
fn in_words(line: String) -> String {
    match line.split_once(" is not in ") {
        Some((before, range)) if range.contains("..=") => {
            // The value has been said.
            let said = before.rsplit_once(": ").map_or(before, |(said, _)| said);
            format!("{said}: expected {}", range.replacen("..=", " to ", 1))
        }
        _ => line,
    }
}

/// Hints for options of another command, and for incomplete combinations: command, option, hint. clap only
/// reports that the option is unexpected, or that others are missing.
pub type Hint = (&'static str, &'static str, &'static str);

/// Hint for a known mistake: an option that the command does not have, or one without the options that it
/// needs.
fn hint(
    error: &clap::Error,
    name: &str,
    words: &[OsString],
    hints: &[Hint],
) -> Option<(&'static str, &'static str)> {
    let ours = words.iter().take_while(|word| *word != "--");
    let given = |option: &str| {
        let mut words = ours.clone().filter_map(|word| word.to_str());
        words.any(|word| word.split('=').next() == Some(option))
    };
    let meant = |option: &str, what: &str| match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(unknown)) => unknown == option,
        Some(ContextValue::Strings(missing)) => {
            let mut missing = missing.iter().filter_map(|m| m.split(' ').next());
            given(option) && missing.any(|missing| what.contains(missing))
        }
        _ => false,
    };
    let command = name.rsplit(' ').next()?;
    let mut hints = hints.iter();
    let (_, option, what) =
        hints.find(|(of, option, what)| *of == command && meant(option, what))?;
    Some((option, what))
}

/// Error for a command without its subcommand.
fn unfinished(program: &Command, words: &[OsString]) -> String {
    let (name, at) = command(program, words);
    let below = at.get_subcommands().map(Command::get_name);
    let below: Vec<_> = below.filter(|name| *name != "help").collect();
    let (last, others) = below.split_last().unwrap_or((&"a command", &[]));
    let others = others.join(", ");
    let list = match others.as_str() {
        "" => (*last).to_owned(),
        others => format!("{others} or {last}"),
    };
    format!("'{name}' needs a command: {list}; see '{name} --help'")
}

/// The intended command, as far as it is known: `alcc-lab trace stats`.
fn command<'a>(program: &'a Command, words: &[OsString]) -> (String, &'a Command) {
    let (mut name, mut at) = (program.get_name().to_owned(), program);
    for word in words.iter().skip(1).filter_map(|word| word.to_str()) {
        // Options may come before it, and "help" before all.
        if word.starts_with('-') || word == "help" {
            continue;
        }
        let Some(below) = at.find_subcommand(word) else {
            break;
        };
        at = below;
        name = format!("{name} {word}");
    }
    (name, at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_word_is_found_where_it_is_ours() {
        let program = crate::command();
        let found = |line: &str| {
            let words = line.split(' ');
            let matches = program.clone().try_get_matches_from(words).unwrap();
            empty(&typed(&program, &matches))
        };
        for (line, part) in [
            ("alcc send host --under ", "'--under' is empty"),
            ("alcc send host --carrier=", "'--carrier' is empty"),
            ("alcc send host --feedback ", "'--feedback' is empty"),
            ("alcc run --cc budget -- ", "is empty"),
        ] {
            assert!(found(line).unwrap().contains(part), "{line}");
        }
        // Arguments after the program's name are passed to it.
        for line in [
            "alcc run -- sh -c ",
            "alcc run sh -c ",
            "alcc run sh -c x -- ",
            "alcc list --json",
        ] {
            assert_eq!(found(line), None, "{line}");
        }
    }

    #[test]
    fn a_mistake_is_one_line() {
        for (text, line) in [
            (
                "error: unexpected argument '--flwo' found\n\n  tip: a similar argument exists: '--flow'\n\nUsage: alcc-lab sim --flow <FLOW> [SCENARIO.toml]\n\nFor more information, try '--help'.\n",
                "unexpected argument '--flwo' found; a similar argument exists: '--flow'",
            ),
            (
                "error: the following required arguments were not provided:\n  --listen <ADDRESS>\n  --to <HOST:PORT>\n\nUsage: alcc proxy --listen <ADDRESS> --to <HOST:PORT>\n\nFor more information, try '--help'.\n",
                "the following required arguments were not provided: --listen <ADDRESS>, --to <HOST:PORT>",
            ),
            (
                "error: invalid value 'x' for '--seed <N>': invalid digit found in string\n\nFor more information, try '--help'.\n",
                "invalid value 'x' for '--seed <N>': expected a whole number",
            ),
            (
                "error: invalid value '0' for '--runs <N>': 0 is not in 1..=1000\n\nFor more information, try '--help'.\n",
                "invalid value '0' for '--runs <N>': expected 1 to 1000",
            ),
        ] {
            assert_eq!(one_line(text), line);
        }
    }

    #[test]
    fn a_family_alone_is_told_its_commands() {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        let program = Command::new("alcc").subcommand(
            Command::new("bpf")
                .subcommand(Command::new("load"))
                .subcommand(Command::new("status"))
                .subcommand(Command::new("unload")),
        );
        assert_eq!(
            unfinished(&program, &words("alcc bpf")),
            "'alcc bpf' needs a command: load, status or unload; see 'alcc bpf --help'"
        );
    }

    #[test]
    fn a_negative_number_is_the_value_of_the_option_before_it() {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        for (typed, read) in [
            ("alcc-lab sim --seed -1", "alcc-lab sim --seed=-1"),
            (
                "alcc-lab sim --link -5mbit --json",
                "alcc-lab sim --link=-5mbit --json",
            ),
            (
                "alcc run --cc x -- nice --adjustment -5",
                "alcc run --cc x -- nice --adjustment -5",
            ),
            ("alcc run --json=x -- -1", "alcc run --json=x -- -1"),
            ("alcc-lab trace stats -5", "alcc-lab trace stats -5"),
        ] {
            assert_eq!(joined(words(typed)), words(read), "{typed}");
        }
    }
}
