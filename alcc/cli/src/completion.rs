// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Completions for shells. To what clap knows they add the names that `alcc list` shows, and in
//! bash, after `--`, the commands of the machine.
use alcc_link::{QueueKind, RadioKind};
use alcc_socket::{Deployment, pairs};
use alcc_trace::SCENARIOS;
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
pub(crate) fn write(shell: Shell, command: &Command, folder: &Path) -> std::io::Result<()> {
    let mut command = with_names(command.clone());
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command, "alcc", &mut text);
    let text = finished(shell, &String::from_utf8_lossy(&text));
    let path = folder.join(shell.file_name("alcc"));
    alcc_sys::create(&path)?.write_all(text.as_bytes())
}

/// The names for an option, known by what its help calls the value.
fn names(value: &str) -> Option<Vec<String>> {
    let of = |feedback: bool| -> Vec<String> {
        let pairs = Deployment::ALL.into_iter().flat_map(pairs);
        let names = pairs.map(|(f, e)| if feedback { f.name } else { e.name });
        let all: BTreeSet<_> = names.chain(["auto"]).map(str::to_owned).collect();
        all.into_iter().collect()
    };
    let registry = alcc_cc::Registry::builtin();
    Some(match value {
        "A" => registry.iter().map(|a| a.name.to_string()).collect(),
        "TCPCC" => KERNEL_CONTROLS.map(str::to_owned).to_vec(),
        "Q" => QueueKind::all().map(|q| q.name.to_owned()).collect(),
        "RADIO" => RadioKind::all().map(|r| r.name.to_owned()).collect(),
        "CARRIER" => alcc_carrier::rows()
            .iter()
            .map(|c| c.name.to_owned())
            .collect(),
        "F" => of(true),
        "E" => of(false),
        "ID|EXPERIMENT.toml" => {
            let all = alcc_experiment::catalogue::all();
            all.map(|e| e.id.to_string()).collect()
        }
        _ if is_link(value) => links(),
        _ => return None,
    })
}

/// Values that may be a file as well as a name.
fn is_link(value: &str) -> bool {
    value == "SCENARIO" || value.split('|').any(|word| word == "TRACE")
}

fn links() -> Vec<String> {
    SCENARIOS.iter().map(|s| s.name.to_owned()).collect()
}

fn with_names(command: Command) -> Command {
    let offered = |arg: Arg| {
        let value = arg.get_value_names().and_then(|names| names.first());
        match value.and_then(|value| names(value)) {
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
    command.mut_args(offered).mut_subcommands(with_names)
}

fn finished(shell: Shell, text: &str) -> String {
    let list = links().join(" ");
    match shell {
        Shell::Bash => text
            .replace(
                &format!("compgen -W \"{list}\""),
                &format!("compgen -f -W \"{list}\""),
            )
            .replacen("_alcc() {\n", &format!("_alcc() {{{BASH_COMMAND}"), 1),
        Shell::Zsh => text.replace(
            &format!(":({list})"),
            &format!(":{{compadd -- {list}; _files}}"),
        ),
        Shell::Fish => {
            let first = links().into_iter().next().unwrap_or_default();
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
        let command = <crate::Cli as clap::CommandFactory>::command();
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            write(shell, &command, folder.path()).expect("completions");
        }
        folder
    }

    #[test]
    fn every_shell_is_offered_algorithms_queues_and_links() {
        let folder = completions();
        for file in ["alcc.bash", "_alcc", "alcc.fish"] {
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
            let script = format!(
                "source ./alcc.bash; COMP_WORDS=({words}); COMP_CWORD={last}; \
                 _alcc alcc \"${{COMP_WORDS[{last}]}}\" \"${{COMP_WORDS[{last} - 1]}}\"; \
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
            ("alcc emulate --queue cod", "codel"),
            ("alcc emulate --down city-drivi", "city-driving"),
            ("alcc emulate --down alcc.b", "alcc.bash"),
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
