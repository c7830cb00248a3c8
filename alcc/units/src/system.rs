// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Descriptions of file errors in plain words.
use std::io::{self, ErrorKind, Read};

/// The reason why a file could not be used, with a fix where one is known.
pub fn reason(error: &io::Error) -> String {
    let known = match error.kind() {
        ErrorKind::InvalidData => "it is not UTF-8 text: name a text file",
        // Errors made by libraries have their own text.
        _ if error.raw_os_error().is_none() => return error.to_string(),
        ErrorKind::NotFound => "no such file or folder: check the name",
        ErrorKind::PermissionDenied => "no permission: choose another place, or another user",
        ErrorKind::IsADirectory => "it is a folder: name a file",
        ErrorKind::NotADirectory => "a part of the path is a file, not a folder: check the name",
        ErrorKind::AlreadyExists => "it already exists: choose another name",
        ErrorKind::StorageFull => "no space is left: free some, or choose another place",
        ErrorKind::QuotaExceeded => "the quota is used up: free some space",
        ErrorKind::ReadOnlyFilesystem => "the file system is read-only: choose another place",
        _ => return error.to_string(),
    };
    known.to_owned()
}

/// Reads a text file of at most `mib` MiB. The limit is for devices, which may have no end.
///
/// # Errors
/// The error of the reader; the content is not text, or it is longer.
pub fn read_bounded(from: impl Read, mib: u64) -> io::Result<String> {
    let mut text = String::new();
    from.take((mib << 20) + 1).read_to_string(&mut text)?;
    if text.len() as u64 > mib << 20 {
        let why = format!("it is longer than {mib} MiB: name another");
        return Err(io::Error::other(why));
    }
    Ok(text)
}
