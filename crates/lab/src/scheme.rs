// SPDX-License-Identifier: Apache-2.0 OR MIT
use crate::LabError;
use crate::row::Row;
use alcc_cc::{Registry, Spec};
use alcc_sim::{FlowSpec, Timing};
use std::str::FromStr;

/// Where a scheme runs. The same words mean the same on both sides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Real programs and the kernel's TCP on emulated links.
    Emulated,
    /// The simulator.
    Simulated,
}

/// A way to send: plain TCP (`cubic`, `bbr`, `reno`), ours above it (`alcc-verus`, `alcc-verus:r=4`, `alcc-copa/over=reno`),
/// and in the simulator ours alone (`verus`, `copa:profile=original`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Scheme {
    /// As typed: the row's name.
    pub name: String,
    /// Our algorithm above TCP; `None` for one that is alone.
    pub controlled: Option<Spec>,
    /// The kernel's algorithm, alone or underneath.
    pub kernel: String,
    /// The same for the simulator: `verus:r=4/over=cubic`.
    pub flow: String,
}

/// What runs under a controlled connection unless the scheme says otherwise: the kernel default nearly everywhere.
const UNDER: &str = "cubic";

/// Algorithms of ours that are also the kernel's: their bare names mean plain TCP.
pub(crate) const KERNEL_TOO: [&str; 6] = ["reno", "cubic", "bic", "westwood", "vegas", "bbr"];

impl FromStr for Scheme {
    type Err = LabError;

    fn from_str(text: &str) -> Result<Self, LabError> {
        Self::parse(text, &Registry::builtin(), Side::Emulated)
    }
}

impl Scheme {
    /// Reads one scheme for one side, with the algorithms of `registry`.
    ///
    /// # Errors
    /// [`LabError::Scheme`] with what would be right.
    pub fn parse(text: &str, registry: &Registry, side: Side) -> Result<Self, LabError> {
        let wrong = |why: String| LabError::Scheme {
            scheme: text.to_owned(),
            why,
        };
        let (head, over) = match text.split_once("/over=") {
            Some((head, over)) => (head, Some(over)),
            None => (text, None),
        };
        let ours = head.strip_prefix("alcc-");
        let kernel = match ours {
            Some(_) => over.unwrap_or(UNDER),
            None => head,
        };
        let is_word =
            |w: &str| !w.is_empty() && w.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let build = |words: &str| -> Result<Spec, LabError> {
            let spec: Spec = words
                .parse()
                .map_err(|e: alcc_cc::SpecError| wrong(e.to_string()))?;
            registry.build(&spec).map_err(|e| wrong(e.to_string()))?;
            Ok(spec)
        };
        if ours.is_none() && over.is_some() {
            return Err(wrong(format!(
                "what runs above TCP is called alcc-: write alcc-{text}"
            )));
        }
        let controlled = match (ours, side) {
            (Some(words), _) => Some(build(words)?),
            (None, Side::Simulated) => {
                // What follows a `/` (host=linux-3.16, dir=both) is the simulator's to read.
                build(head.split('/').next().unwrap_or(head))?;
                None
            }
            (None, Side::Emulated) => {
                let name = head.split(':').next().unwrap_or(head);
                let is_ours = registry.iter().any(|a| a.name == name);
                if is_ours && (head.contains(':') || !KERNEL_TOO.contains(&name)) {
                    return Err(wrong(format!(
                        "alone it runs in the simulator (--sim); over the kernel's TCP it is alcc-{head}"
                    )));
                }
                None
            }
        };
        if (ours.is_some() || side == Side::Emulated) && !is_word(kernel) {
            return Err(wrong(if ours.is_some() {
                format!("'{kernel}' is no congestion control of the kernel")
            } else {
                "write a congestion control of the kernel (cubic) or alcc- and an algorithm (alcc-verus:r=4, alcc-copa/over=reno)".to_owned()
            }));
        }
        let flow = match &controlled {
            Some(spec) => format!("{spec}/over={kernel}"),
            None => head.to_owned(),
        };
        if side == Side::Simulated {
            FlowSpec::parse(&flow, registry, Timing::default())
                .map_err(|e| wrong(e.to_string()))?;
        }
        Ok(Self {
            name: text.to_owned(),
            controlled,
            kernel: kernel.to_owned(),
            flow,
        })
    }

    /// Reads `cubic,alcc-verus:r=4,profile=paper,bbr` for all of `sides`. A comma ends a scheme unless what follows it is
    /// `option=value`: a part that has an `=` before any `:` or `/` continues the options before it. No scheme begins like that.
    ///
    /// # Errors
    /// [`LabError::Scheme`] for the first that is none, or if there is none at all or one twice.
    pub fn list(text: &str, registry: &Registry, sides: &[Side]) -> Result<Vec<Self>, LabError> {
        let mut parts: Vec<String> = Vec::new();
        for part in text.split(',') {
            let part = part.trim();
            let continues = part
                .split_once('=')
                .is_some_and(|(key, _)| !key.contains([':', '/']));
            match parts.last_mut() {
                Some(last) if continues => {
                    last.push(',');
                    last.push_str(part);
                }
                _ => parts.push(part.to_owned()),
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
        let read = |part: &String| {
            let mut read = sides.iter().map(|side| Self::parse(part, registry, *side));
            let first = read.next().unwrap_or_else(|| part.parse())?;
            read.try_for_each(|other| other.map(drop))?;
            Ok(first)
        };
        parts.iter().map(read).collect()
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
            "cubic,alcc-fixed:window=20, alcc-fixed:window=random,every=1s/over=reno,bbr",
            &Registry::builtin(),
            &[Side::Emulated, Side::Simulated],
        )
        .unwrap();
        let names: Vec<_> = list.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "cubic",
                "alcc-fixed:window=20",
                "alcc-fixed:window=random,every=1s/over=reno",
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
            ("cubic/over=reno", "alcc-cubic/over=reno"),
            ("", "cubic"),
            ("cubic,cubic", "twice"),
            ("$(reboot)", "cubic"),
            ("verus:r=4", "over the kernel's TCP it is alcc-verus:r=4"),
            ("cubic,cubic:profile=linux", "--sim"),
        ] {
            let error = Scheme::list(text, &Registry::builtin(), &[Side::Emulated])
                .unwrap_err()
                .to_string();
            assert!(error.contains(part), "{text}: {error}");
            assert!(!error.contains('\n'));
        }
    }

    #[test]
    fn the_simulator_has_ours_alone_and_over_its_own_tcp() {
        let sides = [Side::Simulated];
        let flows = |text: &str| -> Result<Vec<String>, String> {
            Scheme::list(text, &Registry::builtin(), &sides)
                .map(|all| all.into_iter().map(|s| s.flow).collect())
                .map_err(|e| e.to_string())
        };
        assert_eq!(
            flows("verus:r=4,profile=paper,alcc-copa/over=reno,alcc-verus,cubic").unwrap(),
            [
                "verus:r=4,profile=paper",
                "copa/over=reno",
                "verus/over=cubic",
                "cubic"
            ]
        );
        assert_eq!(
            flows("cubic/host=linux-3.16,sprout/dir=both").unwrap(),
            ["cubic/host=linux-3.16", "sprout/dir=both"]
        );
        for (text, part) in [
            ("dctcp", "no algorithm 'dctcp'"),
            ("verus/over=cubic", "alcc-verus/over=cubic"),
            ("alcc-verus/over=nonsense", "nonsense"),
            ("verus/dir=left", "dir="),
            ("2*verus", "2*verus"),
            ("verus@5s", "verus@5s"),
        ] {
            let error = flows(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
