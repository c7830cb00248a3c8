// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parser for units as people type them: `20ms`, `12mbit`, `2000000`, `64k`, `1%`.
use crate::{Bytes, Rate, Span, one_line};
use std::str::FromStr;

/// Error for a quantity that could not be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnitError {
    why: Why,
    what: &'static str,
    found: String,
    want: &'static str,
    too_much: &'static str,
}

/// The reasons for which a text is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Why {
    /// The text is not a number with a unit.
    Unread,
    /// The quantity is zero, where it must not be.
    Zero,
    /// The quantity is larger than the type can hold.
    TooMuch,
}

/// A quantity that people type with a unit.
///
/// ```
/// use alcc_units::{Rate, Span, positive};
///
/// assert_eq!(positive::<Rate>("12mbit")?, Rate::mbps(12));
/// assert!(positive::<Span>("0ms").is_err());
/// # Ok::<(), alcc_units::UnitError>(())
/// ```
pub trait Quantity: FromStr<Err = UnitError> + Default + PartialEq {
    /// Its name, for messages.
    const WHAT: &'static str;
    /// An example of how to write it, for messages.
    const WANT: &'static str;
    /// The message for a value that is too large.
    const TOO_MUCH: &'static str;
}

/// The largest value that can be written, in ns, bit/s or bytes: a round number that 64 bits hold.
const MOST: f64 = 1.8e19;

impl Quantity for Span {
    const WHAT: &'static str = "length of time";
    const WANT: &'static str = "a number and ns, us, ms, s, min (or m) or h, such as 20ms";
    const TOO_MUCH: &'static str = "too long: at most 5000000h";
}

impl Quantity for Rate {
    const WHAT: &'static str = "rate";
    const WANT: &'static str = "a number and bit, kbit, mbit or gbit, such as 12mbit";
    const TOO_MUCH: &'static str = "too high: at most 18000000000gbit";
}

impl Quantity for Bytes {
    const WHAT: &'static str = "number of bytes";
    const WANT: &'static str =
        "a number, optionally with k, M, G, KiB, MiB or GiB, such as 2000000 or 64k";
    const TOO_MUCH: &'static str = "too many bytes: at most 18000000000G";
}

impl UnitError {
    fn of<T: Quantity>(found: &str, why: Why) -> Self {
        Self {
            why,
            what: T::WHAT,
            found: found.to_owned(),
            want: T::WANT,
            too_much: T::TOO_MUCH,
        }
    }
}

impl std::fmt::Display for UnitError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { what, want, .. } = self;
        let found = one_line(&self.found);
        match self.why {
            Why::Unread => write!(f, "'{found}' is not a {what}: write {want}"),
            Why::Zero => write!(f, "'{found}' is not a {what} above 0: write {want}"),
            Why::TooMuch => write!(f, "'{found}' is {}", self.too_much),
        }
    }
}

impl std::error::Error for UnitError {}

/// Messages of the standard library about numbers and addresses, each with the advice that replaces
/// it.
const NUMBERS: [(&str, &str); 6] = [
    ("invalid digit found in string", "expected a whole number"),
    (
        "cannot parse integer from empty string",
        "expected a whole number",
    ),
    (
        "number too large to fit in target type",
        "the number is too large",
    ),
    (
        "number would be zero for non-zero type",
        "expected at least 1",
    ),
    ("invalid float literal", "expected a number"),
    (
        "invalid IP address syntax",
        "expected an address such as 192.0.2.1 or 2001:db8::1",
    ),
];

/// Replaces the standard library's messages about numbers by advice on what to write.
pub fn want_number(text: &str) -> String {
    let text = text.to_owned();
    NUMBERS
        .iter()
        .fold(text, |text, (theirs, ours)| text.replace(theirs, ours))
}

/// A number and its unit, scaled and rounded.
fn scaled<T: Quantity>(text: &str, units: &[(&str, f64)]) -> Result<u64, UnitError> {
    let wrong = |why| UnitError::of::<T>(text, why);
    let split = text
        .find(|c: char| c.is_ascii_alphabetic())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let factor = units.iter().find(|(name, _)| *name == unit);
    let number = number.parse::<f64>().ok().filter(|n| *n >= 0.0);
    let value = factor.zip(number).map(|((_, factor), n)| n * factor);
    match value.ok_or_else(|| wrong(Why::Unread))? {
        value if value > MOST => Err(wrong(Why::TooMuch)),
        value => Ok(value.round() as u64),
    }
}

impl FromStr for Span {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        scaled::<Self>(
            text,
            &[
                ("ns", 1.0),
                ("us", 1e3),
                ("ms", 1e6),
                ("s", 1e9),
                ("min", 60e9),
                ("m", 60e9),
                ("h", 3600e9),
            ],
        )
        .map(Self::from_nanos)
    }
}

impl FromStr for Rate {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        scaled::<Self>(
            text,
            &[("bit", 1.0), ("kbit", 1e3), ("mbit", 1e6), ("gbit", 1e9)],
        )
        .map(Self::bps)
    }
}

impl FromStr for Bytes {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        scaled::<Self>(
            text,
            &[
                ("", 1.0),
                ("B", 1.0),
                ("k", 1e3),
                ("K", 1e3),
                ("kB", 1e3),
                ("M", 1e6),
                ("MB", 1e6),
                ("G", 1e9),
                ("GB", 1e9),
                ("KiB", 1024.0),
                ("MiB", 1048576.0),
                ("GiB", 1073741824.0),
            ],
        )
        .map(Self::new)
    }
}

/// Parses a quantity that must be above 0: a link without a rate or a window without a length is a
/// typing error.
///
/// # Errors
/// [`UnitError`] if the text is not a quantity, or if it is zero.
pub fn positive<T: Quantity>(text: &str) -> Result<T, UnitError> {
    match text.parse() {
        Ok(value) if value == T::default() => Err(UnitError::of::<T>(text, Why::Zero)),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_as_people_type_them() {
        assert_eq!("20ms".parse(), Ok(Span::from_millis(20)));
        assert_eq!("1.5s".parse(), Ok(Span::from_millis(1500)));
        assert_eq!("12mbit".parse(), Ok(Rate::mbps(12)));
        assert_eq!("1gbit".parse(), Ok(Rate::mbps(1000)));
        assert_eq!("2000000".parse(), Ok(Bytes::new(2_000_000)));
        assert_eq!("64k".parse(), Ok(Bytes::new(64_000)));
        for (long, seconds) in [("2min", 120), ("2m", 120), ("2h", 7200)] {
            assert_eq!(long.parse(), Ok(Span::from_secs(seconds)), "{long}");
        }
    }

    #[test]
    fn a_bad_quantity_says_what_to_write() {
        let error = "20".parse::<Span>().unwrap_err().to_string();
        assert_eq!(
            error,
            "'20' is not a length of time: write a number and ns, us, ms, s, min (or m) or h, such as 20ms"
        );
        for bad in ["", "-1ms", "ms", "1e999s", "NaNms", "infs", "10 ms"] {
            assert!(bad.parse::<Span>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_quantity_too_large_names_the_limit() {
        fn said<T: Quantity + std::fmt::Debug>(text: &str) -> String {
            text.parse::<T>().unwrap_err().to_string()
        }
        let long = said::<Span>("99999999999999h");
        assert_eq!(long, "'99999999999999h' is too long: at most 5000000h");
        assert!(said::<Rate>("1e0gbit").contains("is not a rate"));
        assert!(said::<Rate>("18000000001gbit").ends_with("too high: at most 18000000000gbit"));
        assert!(said::<Bytes>("18000000001G").ends_with("too many bytes: at most 18000000000G"));
        // As much may be.
        assert_eq!("5000000h".parse(), Ok(Span::from_secs(5_000_000 * 3600)));
        assert_eq!("18000000000gbit".parse(), Ok(Rate::bps(MOST as u64)));
        assert_eq!("18000000000G".parse(), Ok(Bytes::new(MOST as u64)));
    }

    #[test]
    fn nothing_is_refused_where_it_makes_no_sense() {
        assert_eq!(positive("20ms"), Ok(Span::from_millis(20)));
        for (error, want) in [
            (positive::<Rate>("0mbit").unwrap_err(), "rate above 0"),
            (
                positive::<Span>("0s").unwrap_err(),
                "length of time above 0",
            ),
            (
                positive::<Bytes>("0").unwrap_err(),
                "number of bytes above 0",
            ),
            (positive::<Rate>("-1mbit").unwrap_err(), "rate: write"),
        ] {
            assert!(error.to_string().contains(want), "{error}");
        }
    }

    #[test]
    fn a_bad_number_says_what_to_write() {
        let of = |e: &dyn ToString| want_number(&e.to_string());
        for bad in ["", "x", "-1", "1.5"] {
            let error = bad.parse::<u64>().unwrap_err();
            assert_eq!(of(&error), "expected a whole number", "{bad}");
        }
        let large = "99999".parse::<u16>().unwrap_err();
        assert_eq!(of(&large), "the number is too large");
        let zero = "0".parse::<std::num::NonZeroU16>().unwrap_err();
        assert_eq!(of(&zero), "expected at least 1");
        assert_eq!(of(&"x".parse::<f64>().unwrap_err()), "expected a number");
        let name = "localhost".parse::<std::net::IpAddr>().unwrap_err();
        assert!(of(&name).starts_with("expected an address such as 192"));
    }

    #[test]
    fn display_reads_back() {
        for span in [
            Span::ZERO,
            Span::from_millis(20),
            Span::from_secs(3),
            Span::from_nanos(7),
        ] {
            assert_eq!(span.to_string().parse(), Ok(span));
        }
        for rate in [Rate::ZERO, Rate::mbps(12), Rate::bps(1234)] {
            assert_eq!(rate.to_string().parse(), Ok(rate));
        }
    }
}
