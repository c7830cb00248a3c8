// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Folder and files of a recording.
use crate::failure::{Failure, reason};
use alcc_record::Recording;
use serde_json::Value;
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The folder of a recording. No recording is ever overwritten.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn of(out: Option<&Path>, default: &str) -> Self {
        Self(out.map_or_else(|| default.into(), Path::to_owned))
    }

    /// The folder of one client. Its name comes from the network.
    pub(super) fn inside(&self, label: &str) -> Self {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let name: String = label
            .chars()
            .take(60)
            .map(|c| if plain(c) { c } else { '_' })
            .collect();
        let name = name.trim_start_matches('.');
        let name = if name.is_empty() { "client" } else { name };
        let path = |number: u64| match number {
            1 => self.0.join(name),
            number => self.0.join(format!("{name}-{number}")),
        };
        // A number that is free, in few steps: to try each takes longer with each recording.
        let (mut taken, mut free) = (0, 1);
        while path(free).exists() {
            (taken, free) = (free, 2 * free);
        }
        while free - taken > 1 {
            let middle = taken.midpoint(free);
            match path(middle).exists() {
                true => taken = middle,
                false => free = middle,
            }
        }
        Self(path(free))
    }

    pub(super) fn must_be_free(&self) -> Result<(), Failure> {
        if self.0.join("summary.json").exists() {
            return Err(Failure::usage(format!(
                "record into {}: it already contains a recording: choose another --out",
                self.0.display()
            )));
        }
        Ok(())
    }

    /// Writes a recording, at most `most` bytes, and leaves a reserve of the disk to others. Returns
    /// the folder, and the bytes.
    pub(super) fn write(
        self,
        recording: &Recording,
        most: u64,
        about: &Value,
    ) -> Result<(PathBuf, u64), Failure> {
        let failed = |path: &Path, why: &dyn std::fmt::Display| {
            Failure::failed(format!("write the recording to {}: {why}", path.display()))
        };
        alcc_sys::create_folders(&self.0).map_err(|e| failed(&self.0, &reason(&e)))?;
        let opened = File::open(&self.0).map_err(|e| failed(&self.0, &reason(&e)))?;
        let room = alcc_transfer::room(&opened).map_err(|why| {
            let _ = std::fs::remove_dir(&self.0);
            failed(&self.0, &why)
        })?;
        let written = recording.write(&self.0, room.min(most), about);
        let bytes = written.map_err(|(path, e)| match e.kind() {
            ErrorKind::StorageFull if most < room => {
                let why = format!("{most} bytes of --max-total are left: raise it, or remove recordings and start again");
                failed(&path, &why)
            }
            _ => failed(&path, &reason(&e)),
        })?;
        Ok((self.0, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_from_the_network_stays_below_the_folder() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder(dir.path().to_owned());
        for (label, name) in [
            ("phone1", "phone1"),
            ("../../etc/passwd", "_.._etc_passwd"),
            ("..", "client"),
            ("a b/ü", "a_b__"),
        ] {
            assert_eq!(folder.inside(label).0, dir.path().join(name));
        }
        let mut made = vec![dir.path().join("phone1")];
        for number in 2..50 {
            std::fs::create_dir(made.last().unwrap()).unwrap();
            made.push(dir.path().join(format!("phone1-{number}")));
            assert_eq!(folder.inside("phone1").0, *made.last().unwrap());
        }
    }
}
