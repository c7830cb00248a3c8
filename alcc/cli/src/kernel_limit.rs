// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether this machine's kernel can keep an algorithm's window and rate by itself.
use crate::output::note;
use alcc_sys::{Steered, WINDOW_CONTROL};
use std::io::ErrorKind;

const NOT_FOR_THIS_USER: &str = "is loaded, but not for this user";
const WHO: &str = "root permits a group of users by 'alcc bpf load --group'";

/// Says in one line that this user goes without what is there, if nobody asked for it by name.
pub(crate) fn note_if_refused(enforce: &str, under: Option<&str>) {
    let is_refused = || Steered::open().is_err_and(|e| e.kind() == ErrorKind::PermissionDenied);
    if enforce == "auto" && under.is_none() && is_refused() {
        note(format_args!(
            "alcc: {WINDOW_CONTROL} {NOT_FOR_THIS_USER}: the gate enforces the window instead ({WHO})"
        ));
    }
}

/// # Errors
/// Why not, and what would help.
pub(crate) fn available(under: Option<&str>) -> Result<(), String> {
    if let Some(under) = under {
        return Err(format!(
            "'bpf' of --feedback or --enforce selects the kernel's congestion control {WINDOW_CONTROL}, and --under {under} selects another: omit one of them"
        ));
    }
    let Err(why) = Steered::open() else {
        return Ok(());
    };
    let why = match why.kind() {
        ErrorKind::NotFound => "is not loaded: load it once as root: alcc bpf load".to_owned(),
        ErrorKind::PermissionDenied => format!("{NOT_FOR_THIS_USER}: {WHO}"),
        _ => format!("cannot be used ({why})"),
    };
    Err(format!(
        "'bpf' of --feedback or --enforce needs the congestion control {WINDOW_CONTROL}, which {why}, or leave the option out"
    ))
}
