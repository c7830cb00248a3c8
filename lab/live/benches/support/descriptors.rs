// SPDX-License-Identifier: Apache-2.0 OR MIT
use crate::support::Result;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Raises the limit of open files of this process and its children to `wanted`.
pub(crate) fn allow(wanted: u64) -> Result<()> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if soft < wanted {
        setrlimit(Resource::RLIMIT_NOFILE, wanted, hard.max(wanted)).map_err(|e| {
            format!("{wanted} descriptors are needed and {hard} allowed (ulimit -n): {e}")
        })?;
    }
    Ok(())
}
