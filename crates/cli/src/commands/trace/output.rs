// SPDX-License-Identifier: Apache-2.0 OR MIT
use crate::failure::Failure;
use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::PathBuf;

/// Where a command writes what it makes.
#[derive(clap::Args)]
pub(super) struct Output {
    /// File to write; standard output if not given
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Output {
    /// Opens the file, or standard output, and lets `write` fill it. A reader that goes away early is no failure.
    pub(super) fn write(
        &self,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), Failure> {
        let (name, result) = match &self.output {
            None => {
                let mut to = BufWriter::new(io::stdout().lock());
                let result = write(&mut to).and_then(|()| to.flush());
                ("standard output".to_owned(), result)
            }
            Some(path) => {
                let result = File::create(path).and_then(|file| {
                    let mut to = BufWriter::new(file);
                    write(&mut to)?;
                    to.flush()
                });
                (path.display().to_string(), result)
            }
        };
        match result {
            Err(e) if self.output.is_some() || e.kind() != ErrorKind::BrokenPipe => {
                Err(Failure::usage(format!("write {name}: {e}")))
            }
            _ => Ok(()),
        }
    }
}

/// Prints text on standard output; a reader that goes away early is no failure.
pub(super) fn print(text: &str) -> Result<(), Failure> {
    Output { output: None }.write(|to| to.write_all(text.as_bytes()))
}
