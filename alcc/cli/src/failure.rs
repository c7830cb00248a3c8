// SPDX-License-Identifier: Apache-2.0 OR MIT
pub use alcc_pipe::Failure;
pub use alcc_units::reason;
use std::process::ExitCode;

/// Exit status: 2 for wrong usage or a missing requirement, 1 for a failed run.
pub fn exit_code(failure: &Failure) -> ExitCode {
    match failure {
        Failure::Usage(_) => ExitCode::from(2),
        Failure::Failed(_) => ExitCode::FAILURE,
    }
}
