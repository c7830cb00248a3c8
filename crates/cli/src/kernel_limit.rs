// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether this machine's kernel can keep an algorithm's window and rate by itself.
use alcc_sys::{Steered, WINDOW_CONTROL};
use std::io::ErrorKind;

/// # Errors
/// Why not, and what would help.
pub(crate) fn available(under: Option<&str>) -> Result<(), String> {
    if let Some(under) = under {
        return Err(format!(
            "'bpf' of --feedback or --enforce selects the kernel's congestion control {WINDOW_CONTROL}, and --under {under} another: leave one of them out"
        ));
    }
    let Err(why) = Steered::open() else {
        return Ok(());
    };
    let why = match why.kind() {
        ErrorKind::NotFound => {
            "nobody has loaded; load it once as root: alcc bpf load".to_owned()
        }
        ErrorKind::PermissionDenied => {
            "this user may not use; see kernel.unprivileged_bpf_disabled and the rights of its files: alcc bpf status"
                .to_owned()
        }
        _ => format!("cannot be used ({why})"),
    };
    Err(format!(
        "'bpf' of --feedback or --enforce needs the congestion control {WINDOW_CONTROL}, which {why}, or leave the option out"
    ))
}
