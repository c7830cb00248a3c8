// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reading and writing of the Mahimahi format. The parser accepts more than Mahimahi in three respects: white space
//! around a number, so that CRLF files can be read; empty lines at the very end; a byte order mark and lines that begin
//! with `#`.
use crate::{MAX_OPPORTUNITIES, Trace, TraceError};
use std::io::{BufRead, Read, Write};

/// Maximum length of a line. No number needs more; longer lines are refused before they fill memory.
const MAX_LINE: usize = 64;

impl Trace {
    /// Reads a trace from memory.
    ///
    /// # Errors
    /// An error with line and reason for every invalid text; it never panics.
    pub fn parse(text: &[u8]) -> Result<Self, TraceError> {
        Self::read(text)
    }

    /// Reads a trace from a reader, to its end. Memory is bounded by [`MAX_OPPORTUNITIES`],
    /// whatever the input.
    ///
    /// # Errors
    /// The errors of [`Trace::parse`] and of the reader.
    pub fn read(mut reader: impl BufRead) -> Result<Self, TraceError> {
        let mut opportunities: Vec<u32> = Vec::new();
        let mut text = Vec::with_capacity(MAX_LINE + 1);
        let (mut line, mut empty_since) = (0u64, None);
        loop {
            line += 1;
            text.clear();
            let mut limited = (&mut reader).take(MAX_LINE as u64 + 1);
            let got = limited
                .read_until(b'\n', &mut text)
                .map_err(|source| TraceError::Read { line, source })?;
            if got == 0 {
                break;
            }
            let mut number = text.trim_ascii();
            if line == 1 {
                if let Some(what) = other_form(number) {
                    return Err(TraceError::Form { what: what.into() });
                }
                number = number.strip_prefix(b"\xef\xbb\xbf").unwrap_or(number);
            }
            if number.starts_with(b"#") && got <= MAX_LINE {
                continue;
            }
            if number.is_empty() && got <= MAX_LINE {
                empty_since.get_or_insert(line);
                continue;
            }
            let Some(found) = milliseconds(number).filter(|_| got <= MAX_LINE) else {
                return Err(TraceError::NotANumber {
                    line,
                    found: excerpt(number),
                });
            };
            if let Some(line) = empty_since {
                return Err(TraceError::EmptyLine { line });
            }
            if let Some(&before) = opportunities.last()
                && found < before
            {
                return Err(TraceError::GoesBack {
                    line,
                    before,
                    found,
                });
            }
            if opportunities.len() == MAX_OPPORTUNITIES {
                return Err(TraceError::TooLong { line });
            }
            opportunities.push(found);
        }
        Self::new(opportunities)
    }

    /// Writes the trace in the format of [`Trace::read`]. Wrap a file in a `BufWriter`.
    ///
    /// # Errors
    /// The errors of the writer.
    pub fn write(&self, mut to: impl Write) -> std::io::Result<()> {
        for ms in self.opportunities() {
            writeln!(to, "{ms}")?;
        }
        to.flush()
    }
}

/// Reads everything from a reader, as the text of a table of `columns`.
///
/// # Errors
/// The error of the reader; more than `mib` MiB; a compressed file, or another one that is not text.
pub fn read_text(reader: impl Read, mib: u64, columns: &str) -> Result<String, TraceError> {
    let largest = mib << 20;
    let mut bytes = Vec::new();
    (reader.take(largest + 1).read_to_end(&mut bytes))
        .map_err(|source| TraceError::Read { line: 1, source })?;
    let refused = |what: String| Err(TraceError::Form { what });
    if bytes.len() as u64 > largest {
        return refused(format!(
            "it is larger than {mib} MiB: cut it into shorter ones"
        ));
    }
    if let Some(what) = other_form(&bytes) {
        return refused(what.to_owned());
    }
    String::from_utf8(bytes)
        .or_else(|_| refused(format!("it is not UTF-8 text: write lines of {columns}")))
        .map(|text| match text.strip_prefix('\u{feff}') {
            Some(text) => text.to_owned(),
            None => text,
        })
}

/// The kind of a file by its first bytes, with the way to convert it to text.
fn other_form(start: &[u8]) -> Option<&'static str> {
    Some(match start {
        [0x1f, 0x8b, ..] => "it is compressed by gzip: unpack it (gunzip)",
        [0x28, 0xb5, 0x2f, 0xfd, ..] => "it is compressed by zstd: unpack it (zstd -d)",
        [0xfd, b'7', b'z', ..] => "it is compressed by xz: unpack it (unxz)",
        [b'P', b'K', 3, 4, ..] => "it is a zip archive: unpack it (unzip)",
        [0xd4, 0xc3, 0xb2, 0xa1, ..]
        | [0xa1, 0xb2, 0xc3, 0xd4, ..]
        | [0x4d, 0x3c, 0xb2, 0xa1, ..]
        | [0x0a, 0x0d, 0x0d, 0x0a, ..] => {
            "it is a capture: write its times and lengths (tshark -T fields -e frame.time_epoch -e frame.len), and convert those (alcc-lab trace convert --from packets --unit s)"
        }
        _ => return None,
    })
}

/// Digits only: no sign, no fraction.
fn milliseconds(text: &[u8]) -> Option<u32> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u32, |n, &c| {
        let digit = c.is_ascii_digit().then(|| u32::from(c - b'0'))?;
        n.checked_mul(10)?.checked_add(digit)
    })
}

/// The start of a line, in a form for a message of one line.
pub(crate) fn excerpt(text: &[u8]) -> String {
    const SHOWN: usize = 24;
    let mut shown: String = text
        .iter()
        .take(SHOWN)
        .map(|&c| match c {
            b' '..=b'~' => char::from(c),
            _ => '?',
        })
        .collect();
    if text.len() > SHOWN {
        shown.push_str("...");
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        Trace::parse(text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn reads_what_mahimahi_reads_and_crlf() {
        for text in [
            "0\n5\n5\n9\n",
            "0\n5\n5\n9",
            "0\r\n5\r\n5 \r\n9\r\n\r\n",
            " 0\n5\n5\n9\n\n \n",
            "\u{feff}0\n5\n5\n9\n",
            "\u{feff}# recorded on a walk\n0\n5\n# a tunnel\n5\n9\n",
        ] {
            let trace = Trace::parse(text.as_bytes()).unwrap();
            assert_eq!(trace.opportunities(), [0, 5, 5, 9], "{text:?}");
        }
    }

    #[test]
    fn an_error_names_line_and_reason() {
        assert_eq!(
            error("1\n2\n12a\n"),
            "line 3: '12a' is not a time: each line holds one whole number of milliseconds since the start, at most 4294967295; other forms: alcc-lab trace convert"
        );
        assert_eq!(
            error("1\n7\n3\n"),
            "line 3: time goes back from 7 ms to 3 ms: each line is a time since the start; if these are such times, sort the file (sort -n)"
        );
        assert_eq!(
            error("1\n\n3\n"),
            "line 2: the line is empty: each line holds one whole number of milliseconds"
        );
        assert_eq!(
            error("0\n0\n"),
            "line 2: the last time is 0 ms, so the trace has no length: it must end later than it starts"
        );
        for none in ["", "\n", "\r\n \n"] {
            assert_eq!(
                error(none),
                "it holds no delivery opportunity: write one time in milliseconds per line"
            );
        }
        for bad in ["-1\n", "1.5\n", "4294967296\n", "+3\n", "1 2\n", "\u{fffd}"] {
            assert!(error(bad).starts_with("line 1: '"), "{bad}");
        }
    }

    #[test]
    fn a_compressed_trace_is_named() {
        let packed = Trace::parse(&[0x1f, 0x8b, 8, 0, 0, b'\n', 1]);
        assert_eq!(
            packed.unwrap_err().to_string(),
            "it is compressed by gzip: unpack it (gunzip)"
        );
    }

    #[test]
    fn a_line_without_end_is_refused_early() {
        // a reader that never ends: only a bound on the line lets this return
        let endless = std::io::BufReader::new(std::io::repeat(b' '));
        assert!(matches!(
            Trace::read(endless),
            Err(TraceError::NotANumber { line: 1, .. })
        ));
        let endless = std::io::BufReader::new(std::io::repeat(b'0'));
        let error = Trace::read(endless).unwrap_err().to_string();
        assert!(error.len() < 200, "{error}");
    }
}
