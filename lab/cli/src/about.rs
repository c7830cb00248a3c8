// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Metadata of the results of this command.
use alcc_experiment::plan::shell_word;
use alcc_results::About;
use std::path::PathBuf;

/// `side` with program, build and the input files. Names of other things, such as rates and
/// synthetic traces, are left out of `files`.
pub(crate) fn about(
    command: String,
    side: About,
    files: impl IntoIterator<Item = PathBuf>,
) -> About {
    let files = files.into_iter().filter(|path| path.is_file());
    About {
        program: concat!("alcc ", env!("CARGO_PKG_VERSION")).to_owned(),
        build: alcc_live::build(),
        command,
        files: alcc_live::input_files(files),
        ..side
    }
}

/// The whole command line. Commands whose results do not depend on options for parallelism and
/// output leave these out.
pub(crate) fn whole_command() -> String {
    let words = std::env::args_os().skip(1);
    let words: Vec<String> = words.map(|w| shell_word(&w.to_string_lossy())).collect();
    format!("alcc-lab {}", words.join(" "))
}
