// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Man pages: clap's output in the form that `mandoc -Tlint` requires.
use alcc_cli::program::Program;
use clap::Command;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

/// Longest line of a page, bytes (mandoc's limit).
const WIDTH: usize = 80;
/// Part of each page before its program's part on environment and files.
const TAIL: &str = ".SH EXIT STATUS
0 success, 1 a check or a transfer failed,
2 wrong usage or a missing requirement.
Commands that run a program return its exit status.
.SH ENVIRONMENT
.TP
";

/// Environment and files of `alcc`.
pub(crate) const PRODUCT: &str = "ALCC_PLUGIN
Shared objects with algorithms, as with \\-\\-plugin.
.TP
ALCC_PRELOAD
The preload library, if it is neither beside alcc nor in ../lib/alcc.
.TP
NO_COLOR
If set, output has no colours.
.TP
XDG_RUNTIME_DIR
Running commands keep their state in its folder alcc.
.SH FILES
.TP
/run/alcc, /run/user/UID/alcc, /tmp/alcc\\-UID
State of running commands: of root, of other users, and if these do not exist.
.TP
/run/alcc-bpf
BPF objects of 'alcc bpf load'.
.TP
\\&../lib/alcc/libalcc_preload.so
The preload library, relative to the folder of alcc.
";
/// Environment of `alcc-lab`.
pub(crate) const LABORATORY: &str = "ALCC_PLUGIN
Shared objects with algorithms, as with \\-\\-plugin.
.TP
ALCC_TRACES
The folder of the recorded traces.
.TP
NO_COLOR
If set, output has no colours.
";

/// Pages of `command` and of all its parts, in `folder`. `environment` is what they say of the
/// environment and of files, `date` is `2026-11-23`.
pub(crate) fn write(
    command: &Command,
    of: &Program,
    environment: &str,
    folder: &Path,
    date: &str,
) -> std::io::Result<()> {
    let mut command = command.clone().disable_help_subcommand(true);
    command.build();
    write_below(&command, of, environment, folder, date)
}

fn write_below(
    command: &Command,
    of: &Program,
    environment: &str,
    folder: &Path,
    date: &str,
) -> std::io::Result<()> {
    if command.is_hide_set() {
        return Ok(());
    }
    let name = command.get_display_name();
    let title = name.unwrap_or_else(|| command.get_name()).to_owned();
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    let usage = command.clone().render_usage().to_string();
    let text = finished(
        of,
        environment,
        &String::from_utf8_lossy(&page),
        &title,
        &usage,
        date,
    );
    alcc_sys::create(&folder.join(format!("{title}.1")))?.write_all(text.as_bytes())?;
    for below in command.get_subcommands() {
        write_below(below, of, environment, folder, date)?;
    }
    Ok(())
}

/// A page as clap writes it, with its examples as they are typed. Filled, an example would be
/// hyphenated, and could not be copied.
fn finished(
    of: &Program,
    environment: &str,
    page: &str,
    title: &str,
    usage: &str,
    date: &str,
) -> String {
    let (mut text, mut section, mut examples) = (String::new(), String::new(), String::new());
    for line in page.lines().map(str::trim_end) {
        if line.starts_with(".TH ") {
            let (name, version) = (title.to_uppercase(), env!("CARGO_PKG_VERSION"));
            let _ = writeln!(
                text,
                ".TH {name} 1 {date} \"alcc {version}\" \"alcc manual\""
            );
        } else if let Some(name) = line.strip_prefix(".SH ") {
            name.trim_matches('"').clone_into(&mut section);
            match section.as_str() {
                "EXTRA" | "VERSION" => {}
                "SYNOPSIS" => {
                    let usage = escaped(usage.trim().trim_start_matches("Usage: "));
                    let _ = writeln!(text, ".SH SYNOPSIS\n.nf\n{usage}\n.fi");
                }
                _ => {
                    let _ = writeln!(text, "{line}");
                }
            }
        } else {
            match section.as_str() {
                // The section's title says it already.
                "EXTRA" if examples.is_empty() && matches!(line, "Example:" | "Examples:") => {}
                "EXTRA" => {
                    let _ = writeln!(examples, "{line}");
                }
                "SYNOPSIS" | "VERSION" => {}
                // Beside vertical space a break does nothing.
                _ if line.is_empty() || line == ".br" => {}
                _ => folded(&mut text, line),
            }
        }
    }
    let mut tail = String::new();
    if !examples.trim().is_empty() {
        let _ = writeln!(tail, ".SH EXAMPLES\n.nf\n{}\n.fi", examples.trim_end());
    }
    let also = match title {
        "alcc" => "alcc\\-run",
        title if title == of.name => "alcc",
        _ => &escaped(of.name),
    };
    let text = text.trim_end();
    format!(
        "{text}\n{tail}{TAIL}{environment}.SH SEE ALSO\n.BR {also} (1)\n.PP\n\
         Pages of the name docs/NAME.md are in the source tree.\n"
    )
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-")
}

/// Lines of text are broken at spaces; requests, which begin with a point, cannot be.
fn folded(text: &mut String, line: &str) {
    if line.starts_with('.') {
        let _ = writeln!(text, "{line}");
        return;
    }
    let mut length = 0;
    for word in line.split(' ').filter(|word| !word.is_empty()) {
        if length > 0 && length + 1 + word.len() > WIDTH {
            text.push('\n');
            length = 0;
        }
        if length > 0 {
            text.push(' ');
            length += 1;
        } else if word.starts_with(['.', '\'']) {
            text.push_str("\\&");
            length += 2;
        }
        text.push_str(word);
        length += word.len();
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_in_mandocs_form() {
        let page = ".TH a 1  \"a \" \n.SH SYNOPSIS\nx\n.SH OPTIONS\nx\n.br\n\n\
                    .SH EXTRA\nExample:\n  alcc run \\-\\- nginx\n.SH VERSION\nv1\n";
        let found = finished(
            &alcc_cli::ALCC,
            PRODUCT,
            page,
            "alcc-run",
            "Usage: alcc run -- CMD",
            "2026-11-23",
        );
        let version = env!("CARGO_PKG_VERSION");
        assert!(
            found.starts_with(&format!(
                ".TH ALCC-RUN 1 2026-11-23 \"alcc {version}\" \"alcc manual\"\n\
                 .SH SYNOPSIS\n.nf\nalcc run \\-\\- CMD\n.fi\n.SH OPTIONS\nx\n\
                 .SH EXAMPLES\n.nf\n  alcc run \\-\\- nginx\n.fi\n.SH EXIT STATUS\n"
            )),
            "{found}"
        );
    }

    #[test]
    fn a_page_names_the_files_and_what_each_variable_does() {
        let page = finished(
            &alcc_cli::ALCC,
            PRODUCT,
            ".TH a 1\n",
            "alcc-run",
            "Usage: alcc run",
            "2026-11-23",
        );
        for part in [
            "\n.TP\nALCC_PRELOAD\nThe preload library",
            "\n.SH FILES\n.TP\n/run/alcc, /run/user/UID/alcc, /tmp/alcc\\-UID\n",
            "docs/NAME.md are in the source tree",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
    }

    #[test]
    fn a_long_line_is_broken_at_a_space() {
        let mut text = String::new();
        folded(&mut text, &format!("{} .rest", "x".repeat(79)));
        assert_eq!(text, format!("{}\n\\&.rest\n", "x".repeat(79)));
    }

    #[test]
    fn mandoc_has_nothing_to_say() {
        let folder = tempfile::tempdir().expect("a folder");
        for (command, of, environment) in [
            (alcc_cli::command(), &alcc_cli::ALCC, PRODUCT),
            (crate::command_line(), &crate::LAB, LABORATORY),
        ] {
            write(&command, of, environment, folder.path(), "2026-11-23").expect("pages");
        }
        let pages = std::fs::read_dir(folder.path()).expect("a folder");
        let pages: Vec<_> = pages.map(|page| page.expect("an entry").path()).collect();
        for name in [
            "alcc.1",
            "alcc-run.1",
            "alcc-lab.1",
            "alcc-lab-trace-synth.1",
        ] {
            assert!(pages.iter().any(|page| page.ends_with(name)), "{name}");
        }
        let mandoc = std::process::Command::new("mandoc")
            .arg("-Tlint")
            .args(pages)
            .output();
        let Ok(said) = mandoc else {
            return crate::output::note("skipped: needs mandoc");
        };
        let said = String::from_utf8_lossy(&said.stdout);
        assert!(said.is_empty(), "{said}");
    }
}
