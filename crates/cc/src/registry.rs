// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Algorithms by name: `verus:r=4,profile=paper`.
use crate::{Controller, algorithms};
use alcc_units::Span;
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// One algorithm that a user can name.
#[derive(Clone, Copy)]
pub struct Algorithm {
    /// The name: lower case.
    pub name: &'static str,
    /// One line for `alcc list`.
    pub summary: &'static str,
    /// Values of `profile=`, the default first; empty if there is no such choice.
    pub profiles: &'static [&'static str],
    /// The options besides `profile`.
    pub options: &'static [OptionDoc],
    /// Makes a controller, or says which option is wrong.
    pub build: fn(&Options<'_>) -> Result<Box<dyn Controller>, SpecError>,
}

/// One option of an algorithm.
#[derive(Clone, Copy, Debug)]
pub struct OptionDoc {
    /// The name.
    pub name: &'static str,
    /// The default, as one would type it.
    pub default: &'static str,
    /// Meaning, unit, range.
    pub help: &'static str,
}

/// What a user typed: a name and options.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Spec {
    /// The algorithm's name.
    pub name: String,
    /// Options in the order typed.
    pub options: Vec<(String, String)>,
}

impl Spec {
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

/// What is wrong with the naming of an algorithm, and what would be right.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// Not `name:option=value,...`.
    #[error("'{0}' is not an algorithm: write a name and options, such as verus:r=4")]
    Syntax(String),
    /// No such algorithm.
    #[error("no algorithm '{name}'{}: there are {known}", near(.nearest))]
    Unknown {
        /// What was asked for.
        name: String,
        /// The most similar name.
        nearest: Option<String>,
        /// All names.
        known: String,
    },
    /// No such option.
    #[error("algorithm {algorithm} has no option '{option}'{}: it has {known}", near(.nearest))]
    UnknownOption {
        /// The algorithm.
        algorithm: String,
        /// What was asked for.
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
    #[error("algorithm {algorithm}: {option}={found}: want {want}")]
    Value {
        /// The algorithm.
        algorithm: String,
        /// The option.
        option: String,
        /// What was given.
        found: String,
        /// What would do.
        want: String,
    },
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

/// The options of one [`Spec`], read by type.
pub struct Options<'a> {
    algorithm: &'a Algorithm,
    spec: &'a Spec,
}

impl Options<'_> {
    /// An option as typed.
    pub fn text(&self, name: &str) -> Option<&str> {
        debug_assert!(
            name == "profile" || self.algorithm.options.iter().any(|o| o.name == name),
            "{name} is not declared"
        );
        self.spec
            .options
            .iter()
            .find(|(k, _)| k == name)
            .map(|(_, v)| v.as_str())
    }

    /// The chosen profile; the algorithm's first if none was.
    pub fn profile(&self) -> &str {
        self.text("profile")
            .or_else(|| self.algorithm.profiles.first().copied())
            .unwrap_or_default()
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
            .ok_or_else(|| SpecError::Value {
                algorithm: self.spec.name.clone(),
                option: name.to_owned(),
                found: found.to_owned(),
                want: want(),
            })
    }

    /// A whole number.
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

    /// One of several words; the first is the default.
    pub fn choice<'w>(&self, name: &str, words: &[&'w str]) -> Result<&'w str, SpecError> {
        let Some(found) = self.text(name) else {
            return Ok(words.first().copied().unwrap_or_default());
        };
        words
            .iter()
            .copied()
            .find(|w| *w == found)
            .ok_or_else(|| SpecError::Value {
                algorithm: self.spec.name.clone(),
                option: name.to_owned(),
                found: found.to_owned(),
                want: words.join(" or "),
            })
    }
}

/// The algorithms one build knows.
#[derive(Clone)]
pub struct Registry {
    algorithms: Vec<Algorithm>,
}

impl Registry {
    /// Those of this crate.
    pub fn builtin() -> Self {
        Self {
            algorithms: algorithms::BUILTIN.to_vec(),
        }
    }

    /// And one more, from any crate. A name that is there already is replaced.
    #[must_use]
    pub fn with(mut self, algorithm: Algorithm) -> Self {
        self.algorithms.retain(|a| a.name != algorithm.name);
        self.algorithms.push(algorithm);
        self
    }

    /// All algorithms, in registry order.
    pub fn iter(&self) -> impl Iterator<Item = &Algorithm> {
        self.algorithms.iter()
    }

    /// A controller as asked for.
    ///
    /// # Errors
    /// [`SpecError`] for an unknown name or option and for a value that does not do.
    pub fn build(&self, spec: &Spec) -> Result<Box<dyn Controller>, SpecError> {
        let algorithm = self
            .algorithms
            .iter()
            .find(|a| a.name == spec.name)
            .ok_or_else(|| SpecError::Unknown {
                name: spec.name.clone(),
                nearest: nearest(&spec.name, self.algorithms.iter().map(|a| a.name)),
                known: self
                    .algorithms
                    .iter()
                    .map(|a| a.name)
                    .collect::<Vec<_>>()
                    .join(", "),
            })?;
        let profile = (!algorithm.profiles.is_empty()).then_some("profile");
        let known = || algorithm.options.iter().map(|o| o.name).chain(profile);
        for (option, _) in &spec.options {
            if !known().any(|name| name == option) {
                return Err(SpecError::UnknownOption {
                    algorithm: spec.name.clone(),
                    option: option.clone(),
                    nearest: nearest(option, known()),
                    known: known().collect::<Vec<_>>().join(", "),
                });
            }
        }
        let options = Options { algorithm, spec };
        if !algorithm.profiles.is_empty() {
            options.choice("profile", algorithm.profiles)?;
        }
        (algorithm.build)(&options)
    }
}

/// The most similar known word, if one is at most two edits away.
fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    known
        .map(|k| (edits(word, k), k))
        .filter(|(distance, k)| *distance <= 2 && *distance < k.len())
        .min()
        .map(|(_, k)| k.to_owned())
}

/// Levenshtein distance.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().take(64).enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        match text
            .parse::<Spec>()
            .and_then(|spec| Registry::builtin().build(&spec).map(drop))
        {
            Ok(()) => panic!("{text} was taken"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn mistakes_are_named_with_what_would_be_right() {
        assert!(refused("fixd").contains("did you mean fixed?"));
        assert!(refused("fixed:windw=3").contains("did you mean window?"));
        assert_eq!(
            refused("fixed:window=0"),
            "algorithm fixed: window=0: want a whole number from 1 to 1000000"
        );
        assert!(refused("fixed:window=3,window=4").contains("twice"));
        for bad in ["", ":", "fixed:", "fixed:window", "fixed:window=", "a b"] {
            assert!(refused(bad).contains("is not an algorithm"), "{bad}");
        }
    }

    #[test]
    fn a_spec_prints_as_typed() {
        for text in ["fixed", "fixed:window=random,every=1s"] {
            assert_eq!(text.parse::<Spec>().unwrap().to_string(), text);
        }
    }
}
