// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parser for choices as people type them, `name:option=value,...`: algorithms (`verus:r=4`) and
//! queues (`codel:target=5ms`).
use crate::{Bytes, Span, one_line};
use std::fmt;
use std::ops::RangeInclusive;
use std::panic::RefUnwindSafe;
use std::str::FromStr;

/// One option of something chosen by name.
#[derive(Clone, Copy, Debug)]
pub struct OptionDoc {
    /// The name.
    pub name: &'static str,
    /// The default, as a user would type it.
    pub default: &'static str,
    /// Meaning, unit, range.
    pub help: &'static str,
}

/// A choice by name: the name and its options, as typed.
///
/// ```
/// use alcc_units::Spec;
///
/// let spec: Spec = "verus:r=4,profile=paper".parse()?;
/// assert_eq!(spec.name, "verus");
/// assert_eq!(spec.options_text(), "r=4,profile=paper");
/// # Ok::<(), alcc_units::SpecError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Spec {
    /// The name.
    pub name: String,
    /// Options in the order typed.
    pub options: Vec<(String, String)>,
}

impl Spec {
    /// A name without options.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            options: Vec::new(),
        }
    }

    /// The options as text, without the name: `r=4,profile=paper`.
    pub fn options_text(&self) -> String {
        self.options
            .iter()
            .map(|(k, v)| format!("{k}={v}"))
            .collect::<Vec<_>>()
            .join(",")
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if !self.options.is_empty() {
            write!(f, ":{}", self.options_text())?;
        }
        Ok(())
    }
}

/// Error for an invalid choice, with the valid ones.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// Not of the form `name:option=value,...`.
    #[error(
        "'{}' is not a name with options: write name or name:option=value,option=value",
        one_line(.0)
    )]
    Syntax(String),
    /// No such name.
    #[error("no {kind} '{name}'{}: there are {known}", near(.nearest))]
    Unknown {
        /// The kind of thing: `algorithm`, `queue`.
        kind: &'static str,
        /// The name that was requested.
        name: String,
        /// The most similar name.
        nearest: Option<String>,
        /// All known names.
        known: String,
    },
    /// The name exists, but only in another part of the project.
    #[error("{source}; {how}")]
    Elsewhere {
        /// The error without the hint.
        source: Box<Self>,
        /// The way to get the other part.
        how: &'static str,
    },
    /// No such option.
    #[error("{kind} {name} has no option '{option}'{}: it has {known}", near(.nearest))]
    UnknownOption {
        /// The kind of thing: `algorithm`, `queue`.
        kind: &'static str,
        /// Its name.
        name: String,
        /// The option that was requested.
        option: String,
        /// The most similar option.
        nearest: Option<String>,
        /// All options.
        known: String,
    },
    /// The same option twice.
    #[error("option '{0}' is given twice")]
    Twice(String),
    /// A value out of range or of the wrong kind.
    #[error("{kind} {name}: {option}={}: expected {want}", one_line(.found))]
    Value {
        /// The kind of thing: `algorithm`, `queue`.
        kind: &'static str,
        /// Its name.
        name: String,
        /// The option.
        option: String,
        /// The given value.
        found: String,
        /// The valid values.
        want: String,
    },
    /// The algorithm or queue itself refuses its options.
    #[error("{kind} {name}: {}", one_line(.why))]
    Refused {
        /// The kind of thing: `algorithm`, `queue`.
        kind: &'static str,
        /// Its name.
        name: String,
        /// Its reason.
        why: String,
    },
}

impl SpecError {
    /// [`SpecError::Unknown`] with the most similar of the `known` names.
    pub fn unknown<'a>(
        kind: &'static str,
        name: &str,
        known: impl Iterator<Item = &'a str> + Clone,
    ) -> Self {
        Self::Unknown {
            kind,
            name: name.to_owned(),
            nearest: nearest(name, known.clone()),
            known: known.collect::<Vec<_>>().join(", "),
        }
    }

    /// Adds a hint on where an unknown name may exist instead.
    #[must_use]
    pub fn or_elsewhere(self, how: &'static str) -> Self {
        Self::Elsewhere {
            source: Box::new(self),
            how,
        }
    }
}

fn near(nearest: &Option<String>) -> String {
    nearest
        .as_ref()
        .map(|n| format!(" (did you mean {n}?)"))
        .unwrap_or_default()
}

impl FromStr for Spec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let syntax = || SpecError::Syntax(text.to_owned());
        let is_word = |w: &str| {
            !w.is_empty()
                && w.chars()
                    .all(|c| c.is_ascii_alphanumeric() || "-_".contains(c))
        };
        let (name, rest) = text
            .split_once(':')
            .map_or((text, None), |(name, rest)| (name, Some(rest)));
        if !is_word(name) {
            return Err(syntax());
        }
        let mut options: Vec<(String, String)> = Vec::new();
        for part in rest.into_iter().flat_map(|rest| rest.split(',')) {
            let (key, value) = part.split_once('=').ok_or_else(syntax)?;
            if !is_word(key) || value.is_empty() {
                return Err(syntax());
            }
            if options.iter().any(|(k, _)| k == key) {
                return Err(SpecError::Twice(key.to_owned()));
            }
            options.push((key.to_owned(), value.to_owned()));
        }
        Ok(Self {
            name: name.to_owned(),
            options,
        })
    }
}

/// Function that reads the text of a file that an option names; an error is one line.
pub type Reader = dyn Fn(&str) -> Result<String, String> + Send + Sync + RefUnwindSafe;

/// The options of one [`Spec`], read by type.
///
/// ```
/// use alcc_units::{OptionDoc, Options, Span, Spec};
///
/// const KNOWN: &[OptionDoc] = &[OptionDoc { name: "target", default: "5ms", help: "delay" }];
/// let spec: Spec = "codel:target=8ms".parse()?;
/// let options = Options::new("queue", &spec, KNOWN, &[])?;
/// let range = Span::from_millis(1)..=Span::from_secs(1);
/// assert_eq!(options.span("target", Span::from_millis(5), range)?, Span::from_millis(8));
///
/// let spec: Spec = "codel:tagret=8ms".parse()?;
/// let why = Options::new("queue", &spec, KNOWN, &[]).err().expect("no such option");
/// assert!(why.to_string().contains("did you mean target?"));
/// # Ok::<(), alcc_units::SpecError>(())
/// ```
pub struct Options<'a> {
    kind: &'static str,
    spec: &'a Spec,
    declared: &'a [OptionDoc],
    profiles: &'a [&'static str],
    read: Option<&'a Reader>,
}

impl<'a> Options<'a> {
    /// Checks the options of `spec`, which chooses a `kind` (`algorithm`, `queue`). Valid are the
    /// `declared` options, and `profile=` if there are `profiles` (the default first).
    ///
    /// # Errors
    /// [`SpecError`] for an option that is not declared and for a profile that does not exist.
    pub fn new(
        kind: &'static str,
        spec: &'a Spec,
        declared: &'a [OptionDoc],
        profiles: &'a [&'static str],
    ) -> Result<Self, SpecError> {
        let profile = (!profiles.is_empty()).then_some("profile");
        let known = || declared.iter().map(|o| o.name).chain(profile);
        for (option, _) in &spec.options {
            if !known().any(|name| name == option) {
                return Err(SpecError::UnknownOption {
                    kind,
                    name: spec.name.clone(),
                    option: option.clone(),
                    nearest: nearest(option, known()),
                    known: known().collect::<Vec<_>>().join(", "),
                });
            }
        }
        let options = Self {
            kind,
            spec,
            declared,
            profiles,
            read: None,
        };
        if !profiles.is_empty() {
            options.choice("profile", profiles)?;
        }
        Ok(options)
    }

    /// Sets the function that reads files.
    #[must_use]
    pub const fn reading(mut self, read: Option<&'a Reader>) -> Self {
        self.read = read;
        self
    }

    /// The text of the file that an option names; `None` if the option is not given.
    ///
    /// # Errors
    /// [`SpecError::Refused`] if the file cannot be read.
    pub fn file(&self, name: &str) -> Result<Option<String>, SpecError> {
        let Some(path) = self.text(name) else {
            return Ok(None);
        };
        let read = self
            .read
            .unwrap_or(&|_| Err("files cannot be read here".to_owned()));
        let text =
            read(path).map_err(|why| self.refused(format!("{}: {why}", self.shown(name))))?;
        Ok(Some(text))
    }

    /// An option as typed, with its name: `matrix=FILE`.
    pub fn shown(&self, name: &str) -> String {
        format!("{name}={}", self.text(name).unwrap_or_default())
    }

    /// An error for options that the algorithm or queue refuses, with the reason.
    pub fn refused(&self, why: String) -> SpecError {
        SpecError::Refused {
            kind: self.kind,
            name: self.spec.name.clone(),
            why,
        }
    }

    /// The name that was chosen.
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// An option as typed.
    pub fn text(&self, name: &str) -> Option<&str> {
        debug_assert!(
            name == "profile" || self.declared.iter().any(|o| o.name == name),
            "{name} is not declared"
        );
        self.spec
            .options
            .iter()
            .find(|(k, _)| k == name)
            .map(|(_, v)| v.as_str())
    }

    /// The chosen profile; the first if none was.
    pub fn profile(&self) -> &str {
        self.text("profile")
            .or_else(|| self.profiles.first().copied())
            .unwrap_or_default()
    }

    /// An error for a wrong value of option `name`; `want` describes the valid ones.
    pub fn wrong(&self, name: &str, want: impl Into<String>) -> SpecError {
        SpecError::Value {
            kind: self.kind,
            name: self.spec.name.clone(),
            option: name.to_owned(),
            found: self.text(name).unwrap_or_default().to_owned(),
            want: want.into(),
        }
    }

    /// An option read as `T` and checked.
    fn read<T: FromStr>(
        &self,
        name: &str,
        default: T,
        want: impl Fn() -> String,
        ok: impl Fn(&T) -> bool,
    ) -> Result<T, SpecError> {
        let Some(found) = self.text(name) else {
            return Ok(default);
        };
        found
            .parse()
            .ok()
            .filter(ok)
            .ok_or_else(|| self.wrong(name, want()))
    }

    /// A whole number.
    ///
    /// # Errors
    /// [`SpecError::Value`] if it is not a number or out of range; the same holds for the methods
    /// below.
    pub fn whole(
        &self,
        name: &str,
        default: u64,
        range: RangeInclusive<u64>,
    ) -> Result<u64, SpecError> {
        let want = || format!("a whole number from {} to {}", range.start(), range.end());
        self.read(name, default, want, |n| range.contains(n))
    }

    /// A real number.
    pub fn real(
        &self,
        name: &str,
        default: f64,
        range: RangeInclusive<f64>,
    ) -> Result<f64, SpecError> {
        let want = || format!("a number from {} to {}", range.start(), range.end());
        self.read(name, default, want, |x: &f64| range.contains(x))
    }

    /// A probability or a share: 5% or 0.05.
    pub fn share(
        &self,
        name: &str,
        default: f64,
        range: RangeInclusive<f64>,
    ) -> Result<f64, SpecError> {
        let Some(found) = self.text(name) else {
            return Ok(default);
        };
        let read = match found.strip_suffix('%') {
            Some(percent) => percent.parse::<f64>().map(|number| number / 100.0),
            None => found.parse(),
        };
        let (least, most) = (range.start(), range.end());
        read.ok()
            .filter(|share| range.contains(share))
            .ok_or_else(|| {
                let want = format!(
                    "a number from {least} to {most}, or {}% to {}%",
                    least * 100.0,
                    most * 100.0
                );
                self.wrong(name, want)
            })
    }

    /// A length of time.
    pub fn span(
        &self,
        name: &str,
        default: Span,
        range: RangeInclusive<Span>,
    ) -> Result<Span, SpecError> {
        let want = || format!("a length of time from {} to {}", range.start(), range.end());
        self.read(name, default, want, |s| range.contains(s))
    }

    /// Reads option `name` as a number of bytes within `range`; `default` if it is not given.
    pub fn bytes(
        &self,
        name: &str,
        default: Bytes,
        range: RangeInclusive<Bytes>,
    ) -> Result<Bytes, SpecError> {
        let want = || match *range.end() {
            Bytes::MAX => format!("a number of bytes, {} or more", range.start().get()),
            end => format!(
                "a number of bytes from {} to {}",
                range.start().get(),
                end.get()
            ),
        };
        self.read(name, default, want, |b| range.contains(b))
    }

    /// One of several words; the first is the default.
    pub fn choice<'w>(&self, name: &str, words: &[&'w str]) -> Result<&'w str, SpecError> {
        let Some(found) = self.text(name) else {
            return Ok(words.first().copied().unwrap_or_default());
        };
        words
            .iter()
            .copied()
            .find(|w| *w == found)
            .ok_or_else(|| self.wrong(name, words.join(" or ")))
    }
}

/// The most similar known word, if at most a third of the letters differ: one in `copa`, two in
/// `westwood`. Case is ignored.
pub fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    let word = word.to_ascii_lowercase();
    // Comparisons write a scheme with this prefix.
    let word = word.strip_prefix("alcc-").unwrap_or(&word);
    let longer = |k: &str| word.chars().count().max(k.chars().count());
    known
        .map(|k| (edits(word, &k.to_ascii_lowercase()), k))
        .filter(|(distance, k)| *distance <= (longer(k) / 3).clamp(1, 2) && *distance < k.len())
        .min()
        .map(|(_, k)| k.to_owned())
}

/// Edit distance (Damerau-Levenshtein): the number of letters to insert, delete, replace, or
/// exchange with the next one, so that `a` becomes `b`.
fn edits(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().take(64).collect();
    let b: Vec<char> = b.chars().collect();
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = replaced.min(row[j - 1] + 1).min(rows[i - 1][j] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_near_is_suggested() {
        let known = || ["cubic", "copa", "verus", "bbr", "westwood", "r"].into_iter();
        for (word, near) in [
            ("cubci", Some("cubic")),
            ("cubik", Some("cubic")),
            ("copq", Some("copa")),
            ("vrus", Some("verus")),
            ("bbr3", Some("bbr")),
            ("bb", Some("bbr")),
            ("wetswod", Some("westwood")),
            ("nope", None),
            ("foo", None),
            ("x", None),
            ("quic", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, known()).as_deref(), near, "{word}");
        }
    }

    #[test]
    fn a_spec_prints_as_typed() {
        for text in ["fixed", "fixed:window=random,every=1s", "a-b_2:x=."] {
            assert_eq!(text.parse::<Spec>().unwrap().to_string(), text);
        }
        assert_eq!("a:b=1".parse::<Spec>().unwrap().options_text(), "b=1");
    }

    #[test]
    fn an_invalid_spec_is_refused() {
        for bad in ["", ":", "fixed:", "fixed:window", "fixed:window=", "a b"] {
            let error = bad.parse::<Spec>().unwrap_err();
            assert_eq!(error, SpecError::Syntax(bad.to_owned()), "{bad}");
        }
        assert_eq!(
            "a:b=1,b=2".parse::<Spec>(),
            Err(SpecError::Twice("b".to_owned()))
        );
    }

    #[test]
    fn options_are_read_by_type_and_range() {
        const DECLARED: &[OptionDoc] = &[OptionDoc {
            name: "bytes",
            default: "none",
            help: "",
        }];
        let read = |text: &str| {
            let spec: Spec = text.parse().unwrap();
            Options::new("queue", &spec, DECLARED, &[])?.bytes(
                "bytes",
                Bytes::MAX,
                Bytes::new(1)..=Bytes::MAX,
            )
        };
        assert_eq!(read("q"), Ok(Bytes::MAX));
        assert_eq!(read("q:bytes=2M"), Ok(Bytes::new(2_000_000)));
        assert_eq!(
            read("q:bytes=0").unwrap_err().to_string(),
            "queue q: bytes=0: expected a number of bytes, 1 or more"
        );
        assert_eq!(
            read("q:byte=0").unwrap_err().to_string(),
            "queue q has no option 'byte' (did you mean bytes?): it has bytes"
        );
        let upper = read("q:BYTES=1").unwrap_err().to_string();
        assert!(upper.contains("(did you mean bytes?)"), "{upper}");
    }

    #[test]
    fn a_share_is_a_number_or_percent() {
        const DECLARED: &[OptionDoc] = &[OptionDoc {
            name: "p",
            default: "0.01",
            help: "",
        }];
        let read = |text: &str| {
            let spec: Spec = text.parse().unwrap();
            Options::new("radio", &spec, DECLARED, &[])?.share("p", 0.01, 0.0..=0.9)
        };
        assert_eq!(read("loss"), Ok(0.01));
        assert_eq!(read("loss:p=0.05"), Ok(0.05));
        assert_eq!(read("loss:p=5%"), Ok(0.05));
        assert_eq!(
            read("loss:p=95%").unwrap_err().to_string(),
            "radio loss: p=95%: expected a number from 0 to 0.9, or 0% to 90%"
        );
    }

    #[test]
    fn similar_means_at_most_two_edits() {
        let known = || ["codel", "droptail", "red"].into_iter();
        assert_eq!(nearest("codle", known()), Some("codel".to_owned()));
        assert_eq!(nearest("drop-tail", known()), Some("droptail".to_owned()));
        assert_eq!(nearest("fifo", known()), None);
        // not "red": three edits would make any word of three letters similar
        assert_eq!(nearest("xyz", known()), None);
    }
}
