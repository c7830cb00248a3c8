// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The command line. clap's errors of several lines become one line, as all other errors.
use crate::failure::Failure;
use crate::output::{note, print};
use alcc_units::want_number;
use clap::error::ErrorKind;
use clap::{Command, Parser};
use std::ffi::OsString;
use std::io::IsTerminal;
use std::process::ExitCode;

/// Reads the words of the command line. Help and version are printed here: then, and after a
/// mistake, there is nothing to run.
pub(crate) fn parse<T: Parser>() -> Result<T, Result<ExitCode, Failure>> {
    let words = joined(std::env::args_os().collect());
    T::try_parse_from(&words).map_err(|error| answer(&error, &words, &T::command()))
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

fn answer(error: &clap::Error, words: &[OsString], program: &Command) -> Result<ExitCode, Failure> {
    let text = error.render();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            let plain = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty())
                || std::env::var_os("TERM").is_none_or(|t| t == "dumb");
            if std::io::stdout().is_terminal() && !plain {
                print(text.ansi())?;
            } else {
                print(text)?;
            }
            Ok(ExitCode::SUCCESS)
        }
        // Without arguments: the help.
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            note(text.to_string().trim_end());
            Ok(ExitCode::from(2))
        }
        ErrorKind::InvalidUtf8 => {
            let odd = words.iter().find(|word| word.to_str().is_none());
            let odd = odd.map_or_else(String::new, |word| word.to_string_lossy().into_owned());
            Err(Failure::usage(format!(
                "'{odd}' is not UTF-8: give the file a name that is"
            )))
        }
        _ => Err(Failure::usage(format!(
            "{}; see '{} --help'",
            one_line(&text.to_string()),
            command(program, words)
        ))),
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
    want_number(&line)
}

/// The intended command, as far as it is known: `alcc trace stats`.
fn command(program: &Command, words: &[OsString]) -> String {
    let (mut name, mut at) = (program.get_name().to_owned(), program);
    for word in words.iter().skip(1).filter_map(|word| word.to_str()) {
        let Some(below) = at.find_subcommand(word) else {
            // Options may come before it.
            if word.starts_with('-') {
                continue;
            }
            break;
        };
        at = below;
        name = format!("{name} {word}");
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_is_one_line() {
        for (text, line) in [
            (
                "error: unexpected argument '--flwo' found\n\n  tip: a similar argument exists: '--flow'\n\nUsage: alcc sim --flow <FLOW> [SCENARIO.toml]\n\nFor more information, try '--help'.\n",
                "unexpected argument '--flwo' found; a similar argument exists: '--flow'",
            ),
            (
                "error: the following required arguments were not provided:\n  --listen <ADDRESS>\n  --to <HOST:PORT>\n\nUsage: alcc proxy --listen <ADDRESS> --to <HOST:PORT>\n\nFor more information, try '--help'.\n",
                "the following required arguments were not provided: --listen <ADDRESS>, --to <HOST:PORT>",
            ),
            (
                "error: invalid value 'x' for '--seed <N>': invalid digit found in string\n\nFor more information, try '--help'.\n",
                "invalid value 'x' for '--seed <N>': want a whole number",
            ),
        ] {
            assert_eq!(one_line(text), line);
        }
    }

    #[test]
    fn a_negative_number_is_the_value_of_the_option_before_it() {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        for (typed, read) in [
            ("alcc sim --seed -1", "alcc sim --seed=-1"),
            (
                "alcc sim --link -5mbit --json",
                "alcc sim --link=-5mbit --json",
            ),
            (
                "alcc run --cc x -- nice --adjustment -5",
                "alcc run --cc x -- nice --adjustment -5",
            ),
            ("alcc run --json=x -- -1", "alcc run --json=x -- -1"),
            ("alcc trace stats -5", "alcc trace stats -5"),
        ] {
            assert_eq!(joined(words(typed)), words(read), "{typed}");
        }
    }
}
