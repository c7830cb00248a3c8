// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The secret that determines, with a client's address, the group of the client. If it were known, clients
//! could compute which of their addresses are under the algorithm.
//!
//! It is kept in a file, so that clients stay in their group when the server starts again.
use crate::output::note;
use alcc_observe::{MAX_FILE_WAIT, Share};
use alcc_sys::{Sticky, create_owned, path_of, within};
use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

const FILE: &str = "trial-salt";

/// The same share of the clients, chosen with this machine's secret.
pub(super) fn secret(share: Share) -> io::Result<Share> {
    let salt = match kept() {
        Ok(salt) => salt,
        Err(why) => {
            note(format_args!(
                "alcc: store the salt of trials: {why}: clients change their groups when alcc starts again"
            ));
            random()?
        }
    };
    Ok(share.salted(salt))
}

/// Its folder: systemd's StateDirectory=, or the user's state directory.
fn folder() -> Option<PathBuf> {
    let named = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let below = |base: PathBuf| base.join("alcc");
    // Several are separated by colons.
    let first = |all: std::ffi::OsString| {
        let all = all.into_string().ok()?;
        all.split(':').next().map(PathBuf::from)
    };
    let home = || named("HOME").map(|home| PathBuf::from(home).join(".local/state/alcc"));
    named("STATE_DIRECTORY")
        .and_then(first)
        .or_else(|| named("XDG_STATE_HOME").map(PathBuf::from).map(below))
        .or_else(|| {
            let is_root = nix::unistd::geteuid().is_root();
            is_root.then(|| below(PathBuf::from("/var/lib")))
        })
        .or_else(home)
}

/// The secret in the file, which is created if it does not exist.
fn kept() -> Result<u64, String> {
    let folder = folder().ok_or("HOME is not set")?;
    let file = folder.join(FILE);
    let salt = within(MAX_FILE_WAIT, move || kept_in(&folder));
    let salt = salt.unwrap_or_else(|| Err(io::Error::other("the file system does not answer")));
    salt.map_err(|e| format!("{}: {e}", file.display()))
}

fn kept_in(folder: &Path) -> io::Result<u64> {
    let dir = create_owned(folder, 0o700, Sticky::Allowed)?;
    let path = path_of(&dir).join(FILE);
    let mut options = OpenOptions::new();
    // A link may lead elsewhere; a FIFO would wait.
    options.custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK);
    let found = match options.clone().read(true).open(&path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            match options.mode(0o600).write(true).create_new(true).open(&path) {
                // Another trial was faster.
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => fs::File::open(&path)?,
                made => {
                    let salt = random()?;
                    made?.write_all(format!("{salt}\n").as_bytes())?;
                    return Ok(salt);
                }
            }
        }
        found => found?,
    };
    let mut text = String::new();
    found.take(64).read_to_string(&mut text)?;
    let salt = text.trim().parse();
    salt.map_err(|_| io::Error::other("it is not a number: remove it"))
}

fn random() -> io::Result<u64> {
    alcc_sys::random().map(u64::from_ne_bytes)
}
