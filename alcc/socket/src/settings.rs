// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Settings that `alcc run` passes to the processes it starts, through the environment.
use crate::triple::RESIDENT;
use crate::{Deployment, Enforcement, Feedback, Kernel, Rule, Selection, Triple};
use alcc_cc::{Registry, Spec};
use alcc_observe::Pattern;
use alcc_units::want_number;
use std::ffi::OsString;
use std::path::PathBuf;

/// The settings of a process for its connections.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The algorithm.
    pub cc: Spec,
    /// The source of acknowledgements.
    pub feedback: Feedback,
    /// The enforcement of the limit.
    pub enforcement: Enforcement,
    /// The kernel's congestion control to select below; `None`: the socket's own stays.
    pub under: Option<String>,
    /// True if connections to one address share one allowance.
    pub share: bool,
    /// The connections to be controlled.
    pub selection: Selection,
    /// The shared file of the status.
    pub report: Option<PathBuf>,
    /// Folder for one CSV file per process, with a line for each reading of each connection.
    pub log: Option<PathBuf>,
    /// Seed of the controllers' random numbers.
    pub seed: u64,
    /// For tests: let the runtime fail after this many readings.
    pub fault: Option<u64>,
}

/// Error for an environment variable that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{variable}: {why}")]
pub struct SettingsError {
    variable: &'static str,
    why: String,
}

const CC: &str = "ALCC_CC";
const FEEDBACK: &str = "ALCC_FEEDBACK";
const ENFORCE: &str = "ALCC_ENFORCE";
const UNDER: &str = "ALCC_UNDER";
const SHARE: &str = "ALCC_SHARE";
const LOOPBACK: &str = "ALCC_LOOPBACK";
const OUTBOUND: &str = "ALCC_OUTBOUND";
const ONLY: &str = "ALCC_ONLY";
const EXCEPT: &str = "ALCC_EXCEPT";
const RULES: &str = "ALCC_RULES";
const REPORT: &str = "ALCC_REPORT";
const LOG: &str = "ALCC_LOG";
const SEED: &str = "ALCC_SEED";
const FAULT: &str = "ALCC_FAULT";

/// The only kind of sharing: with the connections of this process to the same address.
pub(crate) const SHARE_HOST: &str = "host";

/// Parses the text of `ALCC_SHARE`: true if connections share.
pub(crate) fn shares(text: Option<&str>) -> Result<bool, String> {
    match text {
        None => Ok(false),
        Some(SHARE_HOST) => Ok(true),
        Some(other) => Err(format!("'{other}': write {SHARE_HOST}, or omit it")),
    }
}

impl Settings {
    /// Algorithm, feedback and enforcement.
    pub fn triple(&self) -> Triple {
        Triple {
            algorithm: self.cc.to_string(),
            feedback: self.feedback,
            enforcement: self.enforcement,
        }
    }

    /// The settings as environment variables; `None` for those that must be unset.
    pub fn to_env(&self) -> Vec<(&'static str, Option<OsString>)> {
        let list = |patterns: &[Pattern]| {
            (!patterns.is_empty()).then(|| {
                patterns
                    .iter()
                    .map(Pattern::to_string)
                    .collect::<Vec<_>>()
                    .join(",")
                    .into()
            })
        };
        let rules: Vec<_> = self.selection.rules.iter().map(Rule::to_string).collect();
        let rules = (!rules.is_empty()).then(|| rules.join(";").into());
        let flag = |on: bool| on.then(|| "1".into());
        vec![
            (CC, Some(self.cc.to_string().into())),
            (FEEDBACK, Some(self.feedback.name.into())),
            (ENFORCE, Some(self.enforcement.name.into())),
            (UNDER, self.under.as_ref().map(Into::into)),
            (SHARE, self.share.then(|| SHARE_HOST.into())),
            (LOOPBACK, flag(self.selection.loopback)),
            (OUTBOUND, flag(self.selection.outbound)),
            (ONLY, list(&self.selection.only)),
            (EXCEPT, list(&self.selection.except)),
            (RULES, rules),
            (REPORT, self.report.as_ref().map(Into::into)),
            (LOG, self.log.as_ref().map(Into::into)),
            (SEED, Some(self.seed.to_string().into())),
            (FAULT, self.fault.map(|n| n.to_string().into())),
        ]
    }

    /// Reads environment variables and checks them against `registry`; `None` if there is no
    /// `ALCC_CC`.
    ///
    /// # Errors
    /// The variable and its error.
    pub fn from_env(
        registry: &Registry,
        var: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Option<Self>, SettingsError> {
        let text = |variable: &'static str| {
            var(variable)
                .map(|v| {
                    v.into_string().map_err(|v| SettingsError {
                        variable,
                        why: format!("{v:?} is not text"),
                    })
                })
                .transpose()
        };
        fn bad<E: ToString>(variable: &'static str) -> impl Fn(E) -> SettingsError {
            move |why| SettingsError {
                variable,
                why: why.to_string(),
            }
        }
        let Some(cc) = text(CC)? else { return Ok(None) };
        let cc: Spec = cc.parse().map_err(bad(CC))?;
        registry.build(&cc).map_err(bad(CC))?;
        let auto = |value: Option<String>| value.unwrap_or_else(|| "auto".to_owned());
        let (feedback, enforcement) = (auto(text(FEEDBACK)?), auto(text(ENFORCE)?));
        // The writer of the variables has checked this. A connection that cannot have it gets the
        // next best.
        let choose = |feedback: &str, enforcement: &str| {
            let pair = (feedback, enforcement);
            let named = [feedback, enforcement].contains(&RESIDENT);
            let kernel = Kernel {
                algorithm: named.then_some(()).ok_or_else(String::new),
                window: Ok(()),
            };
            Triple::choose(Deployment::Preloaded, cc.to_string(), pair, kernel)
        };
        choose(&feedback, "auto").map_err(bad(FEEDBACK))?;
        let triple = choose(&feedback, &enforcement).map_err(bad(ENFORCE))?;
        let patterns = |variable: &'static str| -> Result<Vec<Pattern>, SettingsError> {
            let list = text(variable)?.unwrap_or_default();
            list.split(',')
                .filter(|p| !p.is_empty())
                .map(|p| p.parse().map_err(bad(variable)))
                .collect()
        };
        let number = |variable: &'static str| -> Result<Option<u64>, SettingsError> {
            text(variable)?
                .map(|n| {
                    n.parse().map_err(|why: std::num::ParseIntError| {
                        let why = want_number(&why.to_string());
                        bad(variable)(format!("'{n}': {why}"))
                    })
                })
                .transpose()
        };
        let rules = text(RULES)?.unwrap_or_default();
        let rules = rules.split(';').filter(|rule| !rule.is_empty());
        let rules: Vec<Rule> = rules
            .map(|rule| rule.parse().map_err(bad(RULES)))
            .collect::<Result<_, _>>()?;
        for cc in rules.iter().filter_map(|rule| rule.cc.as_ref()) {
            registry.build(cc).map_err(bad(RULES))?;
        }
        Ok(Some(Self {
            cc,
            feedback: triple.feedback,
            enforcement: triple.enforcement,
            under: text(UNDER)?,
            share: shares(text(SHARE)?.as_deref()).map_err(bad(SHARE))?,
            selection: Selection {
                loopback: var(LOOPBACK).is_some(),
                outbound: var(OUTBOUND).is_some(),
                only: patterns(ONLY)?,
                except: patterns(EXCEPT)?,
                rules,
            },
            report: var(REPORT).map(PathBuf::from),
            log: var(LOG).map(PathBuf::from),
            seed: number(SEED)?.unwrap_or(0),
            fault: number(FAULT)?,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn settings() -> Settings {
        Settings {
            cc: "fixed:window=7".parse().unwrap(),
            feedback: *Feedback::ALL.iter().find(|f| f.name == "tcp-info").unwrap(),
            enforcement: Enforcement::choose(Deployment::Preloaded, "gate").unwrap(),
            under: Some("reno".to_owned()),
            share: true,
            selection: Selection {
                loopback: true,
                only: vec!["443".parse().unwrap(), "10.0.0.0/8".parse().unwrap()],
                rules: vec![
                    "443 cc=fixed:window=3 under=bbr".parse().unwrap(),
                    "::/0 under=reno".parse().unwrap(),
                ],
                ..Selection::default()
            },
            report: Some("/tmp/r".into()),
            log: None,
            seed: 9,
            fault: None,
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let env: BTreeMap<_, _> = settings()
            .to_env()
            .into_iter()
            .filter_map(|(k, v)| v.map(|v| (k, v)))
            .collect();
        let read = Settings::from_env(&Registry::builtin(), |k| env.get(k).cloned());
        assert_eq!(read, Ok(Some(settings())));
    }

    #[test]
    fn nothing_set_is_nothing_to_do_and_nonsense_is_named() {
        let registry = Registry::builtin();
        assert_eq!(Settings::from_env(&registry, |_| None), Ok(None));
        let wrong = Settings::from_env(&registry, |k| (k == CC).then(|| "vrus".into()))
            .unwrap_err()
            .to_string();
        assert!(wrong.starts_with("ALCC_CC: no algorithm 'vrus'"), "{wrong}");
        for (variable, value, said) in [
            (FEEDBACK, "nope", "ALCC_FEEDBACK: feedback 'nope'"),
            (ENFORCE, "nope", "ALCC_ENFORCE: enforcement 'nope'"),
            (SEED, "x", "ALCC_SEED: 'x': expected a whole number"),
            (RULES, "garbage", "ALCC_RULES: 'garbage'"),
        ] {
            let env = |name: &str| match name {
                CC => Some("copa".into()),
                name => (name == variable).then(|| value.into()),
            };
            let wrong = Settings::from_env(&registry, env).unwrap_err().to_string();
            assert!(wrong.starts_with(said), "{wrong}");
        }
    }
}
