// SPDX-License-Identifier: Apache-2.0 OR MIT
pub(crate) use alcc_pipe::Failure;
pub(crate) use alcc_results::scenario::reason;
use std::process::ExitCode;

/// 2 for bad usage or a machine that cannot do it, 1 for a failed run.
pub(crate) fn exit_code(failure: &Failure) -> ExitCode {
    match failure {
        Failure::Usage(_) => ExitCode::from(2),
        Failure::Failed(_) => ExitCode::FAILURE,
    }
}
