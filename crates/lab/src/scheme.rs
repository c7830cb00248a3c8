// SPDX-License-Identifier: Apache-2.0 OR MIT
use crate::LabError;
use crate::row::Row;
use alcc_cc::{Registry, Spec};
use std::str::FromStr;

/// A way to send: plain kernel TCP (`cubic`, `bbr`, `reno`, whatever the kernel has) or ours above it (`alcc-verus`,
/// `alcc-verus:r=4`, `alcc-copa/over=reno`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scheme {
    /// As typed: the row's name.
    pub name: String,
    /// Our algorithm; `None` for plain TCP.
    pub controlled: Option<Spec>,
    /// The kernel's algorithm, alone or underneath.
    pub kernel: String,
}

/// What runs under a controlled connection unless the scheme says otherwise: the kernel default nearly everywhere.
const UNDER: &str = "cubic";

impl FromStr for Scheme {
    type Err = LabError;

    fn from_str(text: &str) -> Result<Self, LabError> {
        Self::parse(text, &Registry::builtin())
    }
}

impl Scheme {
    /// Reads one scheme, with the algorithms of `registry`.
    ///
    /// # Errors
    /// [`LabError::Scheme`] with what would be right.
    pub fn parse(text: &str, registry: &Registry) -> Result<Self, LabError> {
        let wrong = |why: String| LabError::Scheme {
            scheme: text.to_owned(),
            why,
        };
        let (head, over) = match text.split_once("/over=") {
            Some((head, over)) => (head, Some(over)),
            None => (text, None),
        };
        let is_word =
            |w: &str| !w.is_empty() && w.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let Some(ours) = head.strip_prefix("alcc-") else {
            if over.is_some() || !is_word(head) {
                return Err(wrong(
                    "write a congestion control of the kernel (cubic) or alcc- and an algorithm (alcc-verus:r=4, alcc-copa/over=reno)".to_owned(),
                ));
            }
            return Ok(Self {
                name: text.to_owned(),
                controlled: None,
                kernel: head.to_owned(),
            });
        };
        let kernel = over.unwrap_or(UNDER);
        if !is_word(kernel) {
            return Err(wrong(format!(
                "'{kernel}' is no congestion control of the kernel"
            )));
        }
        let spec: Spec = ours
            .parse()
            .map_err(|e: alcc_cc::SpecError| wrong(e.to_string()))?;
        registry.build(&spec).map_err(|e| wrong(e.to_string()))?;
        Ok(Self {
            name: text.to_owned(),
            controlled: Some(spec),
            kernel: kernel.to_owned(),
        })
    }

    /// Reads `cubic,alcc-verus:r=4,profile=paper,bbr`: a part with `=` before any `:` continues the options before it.
    ///
    /// # Errors
    /// [`LabError::Scheme`] for the first that is none, or if there is none at all or one twice.
    pub fn list(text: &str, registry: &Registry) -> Result<Vec<Self>, LabError> {
        let mut parts: Vec<String> = Vec::new();
        for part in text.split(',') {
            let continues = part
                .split_once('=')
                .is_some_and(|(key, _)| !key.contains([':', '/']));
            match parts.last_mut() {
                Some(last) if continues => {
                    last.push(',');
                    last.push_str(part);
                }
                _ => parts.push(part.trim().to_owned()),
            }
        }
        for (i, part) in parts.iter().enumerate() {
            if parts[..i].contains(part) {
                return Err(LabError::Scheme {
                    scheme: part.clone(),
                    why: "is given twice; for repetitions there is --runs".to_owned(),
                });
            }
        }
        parts.iter().map(|p| Self::parse(p, registry)).collect()
    }

    /// The row's fields that the scheme alone decides. For a controlled scheme feedback and enforcement come from the
    /// runtime's own report.
    pub(crate) fn describe(&self, row: &mut Row) {
        row.scheme.clone_from(&self.name);
        if let Some(spec) = &self.controlled {
            row.algorithm.clone_from(&spec.name);
            row.options = spec.options_text();
            row.under = Some(self.kernel.clone());
        } else {
            row.algorithm.clone_from(&self.kernel);
            row.feedback = "kernel".to_owned();
            row.enforcement = "kernel".to_owned();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_and_controlled() {
        let plain: Scheme = "bbr".parse().unwrap();
        assert_eq!((plain.controlled, plain.kernel.as_str()), (None, "bbr"));
        let ours: Scheme = "alcc-fixed:window=20/over=reno".parse().unwrap();
        let mut row = Row::default();
        ours.describe(&mut row);
        assert_eq!(row.scheme, "alcc-fixed:window=20/over=reno");
        assert_eq!(
            (row.algorithm.as_str(), row.options.as_str()),
            ("fixed", "window=20")
        );
        assert_eq!(row.under.as_deref(), Some("reno"));
    }

    #[test]
    fn a_list_knows_options_from_schemes() {
        let list = Scheme::list(
            "cubic,alcc-fixed:window=20,alcc-fixed:window=random,every=1s,bbr",
            &Registry::builtin(),
        )
        .unwrap();
        let names: Vec<_> = list.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "cubic",
                "alcc-fixed:window=20",
                "alcc-fixed:window=random,every=1s",
                "bbr"
            ]
        );
    }

    #[test]
    fn mistakes_are_named() {
        for (text, part) in [
            ("alcc-", "not a name"),
            ("alcc-nonsense", "no algorithm 'nonsense'"),
            ("alcc-fixed:windw=2", "windw"),
            ("cubic/over=reno", "alcc-verus"),
            ("", "cubic"),
            ("cubic,cubic", "twice"),
            ("$(reboot)", "cubic"),
        ] {
            let error = Scheme::list(text, &Registry::builtin())
                .unwrap_err()
                .to_string();
            assert!(error.contains(part), "{text}: {error}");
            assert!(!error.contains('\n'));
        }
    }
}
