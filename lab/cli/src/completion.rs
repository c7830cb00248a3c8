// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shell completions. They add to clap's completions the names that `alcc list` shows and, in bash,
//! after `--`, the commands of the machine.
use crate::commands::list::{links, offered};
use alcc_cli::program::Program;
use alcc_socket::{Deployment, pairs};
use clap::builder::{OsStr, PossibleValuesParser, Resettable};
use clap::{Arg, Command};
use clap_complete::{Generator as _, Shell};
use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;

/// Kernels have others too, but all that are common know these.
const KERNEL_CONTROLS: [&str; 3] = ["bbr", "cubic", "reno"];
/// In bash, what stands after `--` is a command of its own. Without the package bash-completion
/// its name alone is offered.
const BASH_COMMAND: &str = "
    local at
    for ((at = 1; at < COMP_CWORD; at++)); do
        if [[ ${COMP_WORDS[at]} == -- ]]; then
            if declare -F _command_offset >/dev/null; then
                _command_offset $((at + 1))
            else
                COMPREPLY=($(compgen -c -- \"${COMP_WORDS[COMP_CWORD]}\"))
            fi
            return 0
        fi
    done
";

/// Writes the completions for `shell` into `folder`.
pub(crate) fn write(
    shell: Shell,
    command: &Command,
    of: &Program,
    folder: &Path,
) -> std::io::Result<()> {
    let mut command = with_names(of, command.clone());
    let mut text = Vec::new();
    if shell == Shell::Bash {
        // clap_complete 4.6 takes the hyphen of a program's name for that before a command.
        let name = function(of.name);
        command = command.name(&*name.clone().leak());
        clap_complete::generate(shell, &mut command, name, &mut text);
    } else {
        clap_complete::generate(shell, &mut command, of.name, &mut text);
    }
    let text = finished(shell, of, &String::from_utf8_lossy(&text));
    let path = folder.join(shell.file_name(of.name));
    alcc_sys::create(&path)?.write_all(text.as_bytes())
}

/// Name of a program's function in bash, after the underscore.
fn function(program: &str) -> String {
    program.replace('-', "")
}

/// The names for an option, known by what its help calls the value.
fn names(program: &Program, value: &str) -> Option<Vec<String>> {
    let of = |feedback: bool| -> Vec<String> {
        let pairs = Deployment::ALL.into_iter().flat_map(pairs);
        let names = pairs.map(|(f, e)| if feedback { f.name } else { e.name });
        let all: BTreeSet<_> = names.chain(["auto"]).map(str::to_owned).collect();
        all.into_iter().collect()
    };
    let registry = (program.algorithms)();
    Some(match value {
        "A" => registry.iter().map(|a| a.name.to_string()).collect(),
        "TCPCC" => KERNEL_CONTROLS.map(str::to_owned).to_vec(),
        "CARRIER" => alcc_carrier::rows()
            .iter()
            .map(|c| c.name.to_owned())
            .collect(),
        "F" => of(true),
        "E" => of(false),
        _ if is_link(value) => links(),
        _ => return offered(value),
    })
}

/// Values that may be a file as well as a name.
fn is_link(value: &str) -> bool {
    value == "SCENARIO" || value.split('|').any(|word| word == "TRACE")
}

fn with_names(program: &Program, command: Command) -> Command {
    let offered = |arg: Arg| {
        let value = arg.get_value_names().and_then(|names| names.first());
        match value.and_then(|value| names(program, value)) {
            // A default with options is none of the names. What clap keeps has to stay for as long
            // as the program, which ends after this.
            Some(names) => arg
                .value_parser(PossibleValuesParser::new(
                    names.into_iter().map(|name| &*name.leak()),
                ))
                .default_value(Resettable::<OsStr>::Reset),
            None => arg,
        }
    };
    command
        .mut_args(offered)
        .mut_subcommands(|below| with_names(program, below))
}

fn finished(shell: Shell, of: &Program, text: &str) -> String {
    let links = links();
    let function = function(of.name);
    let list = links.join(" ");

    match shell {
        Shell::Bash => text
            .replace(
                &format!("compgen -W \"{list}\""),
                &format!("compgen -f -W \"{list}\""),
            )
            .replacen(
                &format!("_{function}() {{\n"),
                &format!("_{function}() {{{BASH_COMMAND}"),
                1,
            )
            .replace(
                &format!(" default {function}\n"),
                &format!(" default {}\n", of.name),
            ),
        Shell::Zsh => text.replace(
            &format!(":({list})"),
            &format!(":{{compadd -- {list}; _files}}"),
        ),
        Shell::Fish => {
            let first = links.into_iter().next().unwrap_or_default();
            text.replace(
                &format!("-r -f -a \"{first}\\t"),
                &format!("-r -a \"{first}\\t"),
            )
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completions() -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        for (command, of) in [
            (alcc_cli::command(), &alcc_cli::ALCC),
            (crate::command_line(), &crate::LAB),
        ] {
            for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
                write(shell, &command, of, folder.path()).expect("completions");
            }
        }
        folder
    }

    #[test]
    fn every_shell_is_offered_algorithms_queues_and_links() {
        let folder = completions();
        for file in ["alcc-lab.bash", "_alcc-lab", "alcc-lab.fish"] {
            let text = std::fs::read_to_string(folder.path().join(file)).expect("a file");
            for name in ["budget", "codel", "city-driving", "harq", "bbr"] {
                assert!(text.contains(name), "{name} is not in {file}");
            }
        }
    }

    #[test]
    fn bash_completes_as_it_is_typed() {
        let folder = completions();
        let complete = |words: &str| {
            let last = words.split(' ').count() - 1;
            let program = words.split(' ').next().unwrap_or_default();
            let function = function(program);
            let script = format!(
                "source ./{program}.bash; COMP_WORDS=({words}); COMP_CWORD={last}; \
                 _{function} {program} \"${{COMP_WORDS[{last}]}}\" \"${{COMP_WORDS[{last} - 1]}}\"; \
                 echo \"${{COMPREPLY[@]}}\""
            );
            let done = std::process::Command::new("bash")
                .args(["--norc", "-c", &script])
                .current_dir(folder.path())
                .output();
            done.ok()
                .map(|done| String::from_utf8_lossy(&done.stdout).trim().to_owned())
        };
        for (typed, wanted) in [
            ("alcc run --cc bud", "budget"),
            ("alcc-lab emulate --queue cod", "codel"),
            ("alcc-lab emulate --down city-drivi", "city-driving"),
            ("alcc-lab emulate --down alcc-lab.b", "alcc-lab.bash"),
        ] {
            let Some(found) = complete(typed) else {
                return crate::output::note("skipped: needs bash");
            };
            assert_eq!(found, wanted, "{typed}");
        }
        let found = complete("alcc run -- ech").unwrap_or_default();
        assert!(found.split(' ').any(|word| word == "echo"), "{found}");
    }
}
