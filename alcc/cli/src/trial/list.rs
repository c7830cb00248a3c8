// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A file with one line for each transfer of a trial, for separate statistics.
use crate::failure::Failure;
use crate::failure::reason;
use crate::output::{create, note};
use alcc_observe::trial::{Rtt, Transfer};
use alcc_units::Span;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// The file. After an error nothing more is written, but the trial continues.
pub(super) struct List {
    path: PathBuf,
    file: Option<File>,
}

impl List {
    pub(super) fn create(path: &Path) -> Result<Self, Failure> {
        let failed =
            |e: io::Error| Failure::usage(format!("write {}: {}", path.display(), reason(&e)));
        let mut file = create(path)?;
        writeln!(
            file,
            "group,client,bytes,time_ms,rtt_median_ms,rtt_p95_ms,resent_bytes"
        )
        .map_err(failed)?;
        Ok(Self {
            path: path.to_owned(),
            file: Some(file),
        })
    }

    pub(super) fn add(&mut self, treated: bool, client: u64, transfer: &Transfer) {
        let Some(file) = &mut self.file else { return };
        let ms = |span: Span| format!("{:.3}", span.as_millis_f64());
        let rtt = |of: fn(Rtt) -> Span| transfer.rtt.map(of).map(ms).unwrap_or_default();
        // One write for each line, so that readers see complete lines.
        let line = format!(
            "{},{client},{},{},{},{},{}\n",
            if treated { "treated" } else { "plain" },
            transfer.bytes.get(),
            ms(transfer.time),
            rtt(|rtt| rtt.median),
            rtt(|rtt| rtt.p95),
            transfer.resent.get()
        );
        if let Err(e) = file.write_all(line.as_bytes()) {
            self.file = None;
            note(format_args!(
                "alcc: write the transfers to {}: {e}; the trial continues without them",
                self.path.display()
            ));
        }
    }
}
