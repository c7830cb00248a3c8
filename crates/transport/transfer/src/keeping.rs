// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where a file goes while it comes, and how it gets its name.
use crate::receiving::Output;
use alcc_results::scenario::reason;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A file that is being received: it has its name only when it is complete.
pub(crate) struct PartialFile {
    file: File,
    part: Option<PathBuf>,
}

impl PartialFile {
    pub(crate) fn begin(out: &Output) -> Result<Option<Self>, String> {
        static NUMBER: AtomicU64 = AtomicU64::new(1);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let unique = format!("{}-{number}", std::process::id());
        let part = match out {
            Output::Discard => return Ok(None),
            Output::Stdout => {
                use std::os::fd::AsFd;
                let file = io::stdout().as_fd().try_clone_to_owned();
                let file = file.map_err(|e| format!("write to standard output: {e}"))?;
                return Ok(Some(Self {
                    file: file.into(),
                    part: None,
                }));
            }
            Output::File(path) => {
                let mut name = path.as_os_str().to_owned();
                name.push(format!(".part-{unique}"));
                PathBuf::from(name)
            }
            Output::Folder(folder) => folder.join(format!(".received.part-{unique}")),
        };
        let file = OpenOptions::new().write(true).create_new(true).open(&part);
        let file = file.map_err(|e| format!("create {}: {}", part.display(), reason(&e)))?;
        Ok(Some(Self {
            file,
            part: Some(part),
        }))
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.file
            .write_all(bytes)
            .map_err(|e| format!("keep what came: {e}"))
    }

    /// Gives it its name; which.
    pub(crate) fn finish(
        mut self,
        out: &Output,
        overwrite: bool,
    ) -> Result<Option<PathBuf>, String> {
        let Some(part) = self.part.take() else {
            return Ok(None);
        };
        let done = match out {
            Output::File(path) => name(&part, path, overwrite).map(|()| path.clone()),
            Output::Folder(folder) => free_name(&part, folder),
            Output::Discard | Output::Stdout => return Ok(None),
        };
        let done = done.map_err(|e| {
            let _ = std::fs::remove_file(&part);
            format!("give the file its name: {e}: --overwrite replaces one that is there")
        });
        done.map(Some)
    }
}

impl Drop for PartialFile {
    fn drop(&mut self) {
        if let Some(part) = &self.part {
            let _ = std::fs::remove_file(part);
        }
    }
}

/// The number of names that are tried.
const MAX_NAMES: u32 = 1_000_000;

fn free_name(part: &Path, folder: &Path) -> io::Result<PathBuf> {
    for number in 1..MAX_NAMES {
        let path = folder.join(format!("received-{number}"));
        match name(part, &path, false) {
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {}
            other => return other.map(|()| path),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

fn name(part: &Path, path: &Path, overwrite: bool) -> io::Result<()> {
    if overwrite {
        return std::fs::rename(part, path);
    }
    // A second name cannot replace what is there, a rename can.
    match std::fs::hard_link(part, path) {
        Ok(()) => std::fs::remove_file(part),
        Err(why) if why.kind() == io::ErrorKind::AlreadyExists => Err(why),
        Err(_) => {
            // A file system without second names.
            OpenOptions::new().write(true).create_new(true).open(path)?;
            std::fs::rename(part, path)
        }
    }
}
