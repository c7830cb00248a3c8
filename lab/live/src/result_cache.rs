// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Finished runs on disk, which an interrupted sweep does not repeat.
//!
//! One file per run, named by a hash of everything that determines its result. All of that is also
//! in the file, and is compared. A second line has the result and its hash. A file is written under
//! another name and renamed, so a half-written one is never found. A damaged one is ignored.
use crate::LabError;
use alcc_emu::PathSpec;
use alcc_results::InputFile;
use alcc_transfer::hex;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Prefix of the names of files that are being written.
const TEMPORARY_PREFIX: &str = ".alcc-";

/// Age of a temporary file after which its writer is regarded as dead.
const MAX_TEMPORARY_AGE: Duration = Duration::from_secs(3_600);

/// A folder of finished runs.
#[derive(Debug)]
pub(crate) struct ResultCache {
    folder: PathBuf,
    /// Hash of this program, on which every run depends.
    program: String,
}

#[derive(Serialize, Deserialize)]
struct Header {
    program: String,
    key: String,
    result: String,
}

impl ResultCache {
    /// Opens `folder`, which is made if missing. `program` is what every key contains.
    pub(crate) fn open(folder: PathBuf, program: String) -> Result<Self, LabError> {
        alcc_sys::create_folders(&folder).map_err(LabError::os(format!(
            "make the folder {}",
            folder.display()
        )))?;
        Ok(Self { folder, program })
    }

    fn file(&self, key: &str) -> PathBuf {
        let name = hash_of_text(&format!("{}\n{key}", self.program));
        self.folder.join(format!("{}.json", &name[..32]))
    }

    /// The result of the run that `key` describes; `None` if it has not been kept or its file is
    /// damaged.
    pub(crate) fn find<R: DeserializeOwned>(&self, key: &str) -> Option<R> {
        let text = read_kept(&self.file(key)).ok()?;
        let (head, result) = text.strip_suffix('\n')?.split_once('\n')?;
        let head: Header = serde_json::from_str(head).ok()?;
        let same = head.key == key && head.program == self.program;
        let whole = same && head.result == hash_of_text(result);
        serde_json::from_str(result).ok().filter(|_| whole)
    }

    /// Keeps a result.
    pub(crate) fn put(&self, key: &str, result: &impl Serialize) -> Result<(), LabError> {
        let file = self.file(key);
        let failed = |e: io::Error| LabError::os(format!("write {}", file.display()))(e);
        let result = serde_json::to_string(result).map_err(|e| failed(e.into()))?;
        let head = Header {
            program: self.program.clone(),
            key: key.to_owned(),
            result: hash_of_text(&result),
        };
        let head = serde_json::to_string(&head).map_err(|e| failed(e.into()))?;
        write_whole(&file, format!("{head}\n{result}\n").as_bytes()).map_err(failed)
    }

    /// Forgets a result.
    pub(crate) fn forget(&self, key: &str) {
        // Not there is what we want.
        let _ = fs::remove_file(self.file(key));
    }

    /// Removes what another build of the program left: it can never be used again.
    pub(crate) fn remove_stale(&self) {
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let text = read_kept(&entry.path()).unwrap_or_default();
            // A file whose writer was killed has no name that counts.
            let old = entry.metadata().and_then(|m| m.modified());
            let old = old.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > MAX_TEMPORARY_AGE));
            if old
                && entry
                    .file_name()
                    .to_string_lossy()
                    .starts_with(TEMPORARY_PREFIX)
            {
                let _ = fs::remove_file(entry.path());
            }
            let head = text.lines().next().map(serde_json::from_str::<Header>);
            if let Some(Ok(head)) = head
                && head.program != self.program
            {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

/// Others may have put a FIFO or a link into the folder.
fn read_kept(file: &Path) -> io::Result<String> {
    let mut options = fs::OpenOptions::new();
    options.custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK);
    alcc_units::read_bounded(options.read(true).open(file)?, 64)
}

/// Writes a file atomically: readers see the old one, none, or all of the new one. A symbolic link
/// stays, and what it leads to is written.
pub(crate) fn write_whole(file: &Path, content: &[u8]) -> io::Result<()> {
    let place = alcc_sys::Folder::behind(file)?;
    if place.is_open_file() {
        return alcc_sys::create(file)?.write_all(content);
    }
    let (folder, name) = place.path();
    let mut beside = tempfile::Builder::new()
        .prefix(TEMPORARY_PREFIX)
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
        .tempfile_in(&folder)?;
    // Not through the wrapper: its errors name the temporary file, which means nothing to anybody.
    beside.as_file_mut().write_all(content)?;
    beside
        .persist(folder.join(name))
        .map(drop)
        .map_err(|e| e.error)
}

/// SHA-256 of a text, in hexadecimal.
pub fn hash_of_text(text: &str) -> String {
    hash(text.as_bytes())
}

/// These files with the SHA-256 of each, once and in order.
pub fn input_files(files: impl IntoIterator<Item = PathBuf>) -> Vec<InputFile> {
    let files = files.into_iter().map(|file| InputFile {
        sha256: fs::read(&file).map_or_else(|_| String::new(), |bytes| hash(&bytes)),
        path: file.display().to_string(),
    });
    let mut files: Vec<InputFile> = files.collect();
    files.sort();
    files.dedup();
    files
}

/// Hash of the contents of these files, in hexadecimal; unreadable files are noted as such.
pub fn hash_of_files<'a>(files: impl IntoIterator<Item = &'a Path>) -> String {
    let mut all = Sha256::new();
    for file in files {
        let read = fs::read(file);
        all.update(read.as_deref().unwrap_or_default());
        all.update(format!("{:?}", read.map(|r| r.len())));
    }
    hex(&all.finalize())
}

/// Hash of both directions of a path, in hexadecimal: every field is part of its debug text.
pub(crate) fn hash_of_path(path: &PathSpec) -> String {
    hash_of_text(&format!("{path:?}"))
}

/// SHA-256 in hexadecimal.
fn hash(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::Measured;
    use alcc_link::{RateSpec, Step};
    use alcc_results::Row;
    use alcc_units::{Rate, Span};

    fn measured(mbps: f64) -> Measured {
        Measured {
            rows: vec![Row {
                throughput_mbps: Some(mbps),
                ..Row::default()
            }],
            ..Measured::default()
        }
    }

    #[test]
    fn what_was_kept_comes_back_to_the_last_bit() {
        let folder = tempfile::tempdir().unwrap();
        let keep = ResultCache::open(folder.path().join("runs"), "p".into()).unwrap();
        assert_eq!(keep.find::<Measured>("a"), None);
        // A number that a careless reader of decimals gets wrong in the last place.
        let odd = measured(0.1 + 0.2 + 51.24817837550540_4);
        keep.put("a", &odd).unwrap();
        assert_eq!(keep.find("a"), Some(odd.clone()));
        assert_eq!(keep.find::<Measured>("b"), None);
        let other = ResultCache::open(folder.path().join("runs"), "q".into()).unwrap();
        assert_eq!(other.find::<Measured>("a"), None);
        other.remove_stale();
        assert_eq!(keep.find::<Measured>("a"), None);
        keep.put("a", &odd).unwrap();
        keep.remove_stale();
        assert!(keep.find::<Measured>("a").is_some());
        keep.forget("a");
        assert_eq!(keep.find::<Measured>("a"), None);
    }

    #[test]
    fn what_a_link_leads_to_is_written_and_the_link_stays() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("real"), "old").unwrap();
        std::os::unix::fs::symlink("real", at("link")).unwrap();
        write_whole(&at("link"), b"new").unwrap();
        assert_eq!(fs::read_link(at("link")).unwrap(), Path::new("real"));
        assert_eq!(fs::read(at("real")).unwrap(), b"new");
        // As /dev/stdout, if that is a file.
        let open = fs::File::create(at("open")).unwrap();
        let fd = std::os::fd::AsRawFd::as_raw_fd(&open);
        write_whole(Path::new(&format!("/proc/self/fd/{fd}")), b"whole").unwrap();
        assert_eq!(fs::read(at("open")).unwrap(), b"whole");
    }

    #[test]
    fn whatever_a_path_does_differently_is_another_hash() {
        let hash = |change: &dyn Fn(&mut PathSpec)| {
            let mut path = crate::Link::synthetic(1).path;
            change(&mut path);
            hash_of_path(&path)
        };
        let trace = |ms| alcc_trace::Trace::new(vec![1, ms]).unwrap();
        let step = |step: &str| step.parse::<Step>().unwrap();
        let all = [
            hash(&|_| {}),
            hash(&|p| p.seed = 2),
            hash(&|p| std::mem::swap(&mut p.down, &mut p.up)),
            hash(&|p| p.up.rate = RateSpec::Unlimited),
            hash(&|p| p.up.rate = RateSpec::Fixed(Rate::mbps(3))),
            hash(&|p| p.down.rate = RateSpec::Trace(trace(2))),
            hash(&|p| p.down.rate = RateSpec::Trace(trace(3))),
            hash(&|p| p.down.queue = "codel".parse().unwrap()),
            hash(&|p| p.up.delay = Span::from_millis(21)),
            hash(&|p| p.down.loss = 0.01),
            hash(&|p| p.down.changes.reorder = true),
            hash(&|p| p.down.radio = vec!["harq".parse().unwrap()]),
            hash(&|p| p.down.changes.repeat = Some(Span::from_secs(1))),
            hash(&|p| p.down.changes.steps = vec![step("5s:loss=1%")]),
            hash(&|p| p.down.changes.steps = vec![step("5s:loss-up=1%")]),
            hash(&|p| p.down.changes.steps = vec![step("5s:delay=1ms")]),
            hash(&|p| p.down.changes.steps = vec![step("6s:delay=1ms")]),
        ];
        let mut known = all.to_vec();
        known.sort();
        known.dedup();
        assert_eq!(known.len(), all.len());
        assert_eq!(all[0], hash(&|_| {}));
    }

    #[test]
    fn a_damaged_file_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let keep = ResultCache::open(folder.path().to_owned(), "p".into()).unwrap();
        keep.put("a", &measured(12.5)).unwrap();
        let file = keep.file("a");
        let whole = fs::read(&file).unwrap();
        for cut in [0, 1, 40, whole.len() / 2, whole.len() - 2, whole.len() - 1] {
            fs::write(&file, &whole[..cut]).unwrap();
            assert_eq!(keep.find::<Measured>("a"), None, "cut after {cut}");
        }
        // One digit of the result.
        let text = String::from_utf8(whole).unwrap();
        fs::write(&file, text.replace("12.5", "12.6")).unwrap();
        assert_eq!(keep.find::<Measured>("a"), None);
        // Another run's file under this one's name.
        fs::write(&file, text.replace("\"key\":\"a\"", "\"key\":\"b\"")).unwrap();
        assert_eq!(keep.find::<Measured>("a"), None);
        fs::write(&file, text).unwrap();
        assert_eq!(keep.find("a"), Some(measured(12.5)));
    }
}
