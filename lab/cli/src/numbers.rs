// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parsers of numbers that several commands share.
use alcc_units::{Span, positive};

/// Time windows of a trace, which counts in milliseconds.
pub(crate) fn whole_milliseconds(text: &str) -> Result<Span, String> {
    let span: Span = positive(text).map_err(|e| e.to_string())?;
    if !span.as_nanos().is_multiple_of(1_000_000) {
        return Err("expected whole milliseconds, 1ms or more".to_owned());
    }
    Ok(span)
}
