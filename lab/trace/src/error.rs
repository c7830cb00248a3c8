// SPDX-License-Identifier: Apache-2.0 OR MIT
use crate::MAX_OPPORTUNITIES;
use crate::convert::MAX_OF_TEXT;
use alcc_units::Span;

/// Error of a trace that could not be read or made. Lines count from 1.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// A line is not a whole number of milliseconds in `0..=u32::MAX`.
    #[error(
        "line {line}: '{found}' is not a time: each line holds one whole number of milliseconds since the start, at most 4294967295; other forms: alcc-lab trace convert"
    )]
    NotANumber {
        /// Number of the line.
        line: u64,
        /// The line's text, shortened.
        found: String,
    },
    /// A line before the last opportunity is empty.
    #[error("line {line}: the line is empty: each line holds one whole number of milliseconds")]
    EmptyLine {
        /// Number of the line.
        line: u64,
    },
    /// A time is below that of the line before.
    #[error(
        "line {line}: time goes back from {before} ms to {found} ms: each line is a time since the start; if these are such times, sort the file (sort -n)"
    )]
    GoesBack {
        /// Number of the line.
        line: u64,
        /// The time on the line before, ms.
        before: u32,
        /// The time on this line, ms.
        found: u32,
    },
    /// There is no opportunity at all.
    #[error("it holds no delivery opportunity: write one time in milliseconds per line")]
    Empty,
    /// All opportunities are at 0 ms, so that the trace would have no length.
    #[error(
        "line {line}: the last time is 0 ms, so the trace has no length: it must end later than it starts"
    )]
    NoLength {
        /// Number of the last line.
        line: u64,
    },
    /// There are more opportunities than are kept in memory.
    #[error(
        "line {line}: more than {MAX_OPPORTUNITIES} opportunities: cut the trace into shorter ones"
    )]
    TooLong {
        /// Number of the line.
        line: u64,
    },
    /// A field of another format than a Mahimahi trace is invalid.
    #[error("line {line}: '{found}' is not {want}")]
    BadField {
        /// Number of the line.
        line: u64,
        /// The field, shortened.
        found: String,
        /// The valid form.
        want: &'static str,
    },
    /// A cell of a table is invalid.
    #[error("line {line}, column {column}: '{found}' is not {want}")]
    BadCell {
        /// Number of the line.
        line: u64,
        /// The column's name, or its number from 1.
        column: String,
        /// The cell, shortened.
        found: String,
        /// The valid form, with the remedy.
        want: &'static str,
    },
    /// The format of a file is unknown.
    #[error("{what}")]
    Form {
        /// The finding, with the remedy.
        what: String,
    },
    /// A trace made from others or from another format would be too long or too large.
    #[error(
        "make trace: more than {MAX_OPPORTUNITIES} opportunities (of a short text {MAX_OF_TEXT}) or longer than 2^32 ms: take a shorter piece or a lower rate"
    )]
    TooManyMade,
    /// A cut contains no opportunity.
    #[error("cut trace: no opportunity within {length} after {from}: take a longer piece")]
    NothingLeft {
        /// Start of the cut.
        from: Span,
        /// Length of the cut.
        length: Span,
    },
    /// A rate factor gives no valid trace.
    #[error(
        "scale trace: factor {factor:?} is not possible: it must be above 0 and leave at most {MAX_OPPORTUNITIES} opportunities"
    )]
    BadFactor {
        /// The factor.
        factor: f64,
    },
    /// The reader failed.
    #[error("line {line}: {source}")]
    Read {
        /// Number of the line that was being read.
        line: u64,
        /// The error of the reader.
        source: std::io::Error,
    },
}
