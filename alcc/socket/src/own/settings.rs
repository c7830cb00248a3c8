// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Settings of a process for its own sockets.
use crate::triple::{Deployment, Enforcement, Feedback};
use alcc_cc::{Registry, Spec};
use std::ffi::OsString;
use std::path::PathBuf;

/// Default capacity of a stream's queue, bytes: half a second at 16 Mbit/s.
pub(super) const QUEUE: usize = 1 << 20;

/// The settings of all streams of a [`Runtime`](super::Runtime), unless their
/// [`Options`](super::Options) differ.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The algorithm.
    pub cc: Spec,
    /// The source of acknowledgements; `None`: the best that suits the socket.
    pub feedback: Option<Feedback>,
    /// The enforcement of the limit. If the kernel cannot provide it, the next best is used.
    pub enforcement: Enforcement,
    /// The kernel's congestion control to select below; `None`: the socket's own stays.
    pub under: Option<String>,
    /// True if streams to one address share one allowance.
    pub share: bool,
    /// Capacity of a stream's queue, bytes.
    pub queue: usize,
    /// Seed of the controllers' random numbers.
    pub seed: u64,
    /// Folder for one CSV file per process, with a line for each reading of each connection.
    pub log: Option<PathBuf>,
    /// For tests: let the visit of a stream panic after this many readings.
    pub fault: Option<u64>,
}

impl Settings {
    /// Settings with this algorithm, and defaults otherwise.
    pub fn new(cc: Spec) -> Self {
        Self {
            cc,
            feedback: None,
            enforcement: *Enforcement::of(Deployment::Own)
                .next()
                .unwrap_or(&Enforcement::ALL[0]),
            under: None,
            share: false,
            queue: QUEUE,
            seed: 0,
            log: None,
            fault: None,
        }
    }

    /// Reads environment variables (`ALCC_CC`, `ALCC_FEEDBACK`, `ALCC_ENFORCE`, `ALCC_UNDER`,
    /// `ALCC_SHARE`, `ALCC_QUEUE`, `ALCC_SEED`, `ALCC_LOG`) and checks them against `registry`; the
    /// others are taken from `default`.
    ///
    /// # Errors
    /// The variable and its error.
    pub fn from_env(
        default: Self,
        registry: &Registry,
        var: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self, String> {
        let text = |name: &str| {
            var(name)
                .map(|v| {
                    v.into_string()
                        .map_err(|v| format!("{name}: {v:?} is not text"))
                })
                .transpose()
        };
        let mut settings = default;
        if let Some(cc) = text("ALCC_CC")? {
            let cc: Spec = cc.parse().map_err(|e| format!("ALCC_CC: {e}"))?;
            registry.build(&cc).map_err(|e| format!("ALCC_CC: {e}"))?;
            settings.cc = cc;
        }
        if let Some(name) = text("ALCC_FEEDBACK")? {
            settings.feedback = Feedback::choose(Deployment::Own, &name)
                .map_err(|e| format!("ALCC_FEEDBACK: {e}"))?;
        }
        if let Some(name) = text("ALCC_ENFORCE")?.filter(|name| name != "auto") {
            settings.enforcement = Enforcement::choose(Deployment::Own, &name)
                .map_err(|e| format!("ALCC_ENFORCE: {e}"))?;
        }
        if let Some(under) = text("ALCC_UNDER")? {
            settings.under = Some(under);
        }
        if let Some(share) = text("ALCC_SHARE")? {
            let share = crate::settings::shares(Some(&share));
            settings.share = share.map_err(|e| format!("ALCC_SHARE: {e}"))?;
        }
        let number = |name: &str| {
            text(name)?
                .map(|n| {
                    n.parse::<u64>()
                        .map_err(|_| format!("{name}: '{n}' is not a number"))
                })
                .transpose()
        };
        if let Some(queue) = number("ALCC_QUEUE")? {
            settings.queue = usize::try_from(queue).unwrap_or(usize::MAX).max(1);
        }
        if let Some(seed) = number("ALCC_SEED")? {
            settings.seed = seed;
        }
        settings.log = var("ALCC_LOG").map(PathBuf::from).or(settings.log);
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Settings, String> {
        let default = Settings::new("verus".parse().unwrap());
        Settings::from_env(default, &Registry::builtin(), |name| {
            pairs
                .iter()
                .find(|(k, _)| *k == name)
                .map(|(_, v)| v.into())
        })
    }

    #[test]
    fn the_environment_overrides_and_nonsense_is_named() {
        let plain = read(&[]).unwrap();
        assert_eq!(
            (plain.enforcement.name, plain.feedback, plain.queue),
            ("bpf", None, 1 << 20)
        );
        let set = read(&[
            ("ALCC_CC", "fixed:window=7"),
            ("ALCC_FEEDBACK", "tcp-info"),
            ("ALCC_ENFORCE", "queue"),
            ("ALCC_QUEUE", "4096"),
            ("ALCC_SHARE", "host"),
        ])
        .unwrap();
        assert!(set.share && !plain.share);
        assert_eq!(set.cc.to_string(), "fixed:window=7");
        assert_eq!(set.feedback.map(|f| f.name), Some("tcp-info"));
        assert!(!set.enforcement.pacing);
        assert_eq!(set.queue, 4096);
        for (bad, why) in [
            (("ALCC_CC", "vrus"), "ALCC_CC: no algorithm 'vrus'"),
            (("ALCC_ENFORCE", "gate"), "ALCC_ENFORCE: enforcement 'gate'"),
            (("ALCC_SHARE", "all"), "ALCC_SHARE: 'all': write host"),
            (("ALCC_QUEUE", "much"), "ALCC_QUEUE: 'much'"),
        ] {
            let error = read(&[bad]).unwrap_err();
            assert!(error.starts_with(why), "{error}");
        }
    }
}
