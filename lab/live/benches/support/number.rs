// SPDX-License-Identifier: Apache-2.0 OR MIT
use std::error::Error;

/// The number in an environment variable, to make a benchmark shorter or longer.
pub(crate) fn number(variable: &str, default: u64) -> Result<u64, Box<dyn Error>> {
    match std::env::var(variable) {
        Err(_) => Ok(default),
        Ok(text) => match text.parse() {
            Ok(n) if n > 0 => Ok(n),
            _ => Err(format!("{variable}={text}: a whole number above 0 is wanted").into()),
        },
    }
}
