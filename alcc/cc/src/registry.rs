// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Algorithms by name: `verus:r=4,profile=paper`.
use crate::{Controller, algorithms};
pub use alcc_units::{OptionDoc, Options, Reader, Spec, SpecError};
use std::panic::RefUnwindSafe;
use std::sync::Arc;

/// The default algorithm: fair among its own flows and under random loss, with short queues
/// (docs/budget.md).
pub const DEFAULT: &str = "budget";

/// The result of [`Build`]: a controller, or the wrong option.
pub type Built = Result<Box<dyn Controller>, SpecError>;

/// How to make a controller from options.
#[derive(Clone)]
pub enum Build {
    /// A function of this program.
    Function(fn(&Options<'_>) -> Built),
    /// Loaded code with a state of its own.
    Loaded {
        /// The file it came from.
        file: Arc<str>,
        /// Makes the controller.
        build: Arc<dyn Fn(&Options<'_>) -> Built + Send + Sync + RefUnwindSafe>,
    },
}

impl Build {
    pub(crate) fn build(&self, options: &Options<'_>) -> Built {
        match self {
            Self::Function(build) => build(options),
            Self::Loaded { build, .. } => build(options),
        }
    }
}

/// One algorithm that a user can name.
#[derive(Clone)]
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
    pub build: Build,
}

/// The algorithms of one build.
#[derive(Clone)]
pub struct Registry {
    algorithms: Vec<Algorithm>,
    /// Algorithm names that a peer may not ask for.
    local: Vec<&'static str>,
    read: Option<Arc<Reader>>,
}

impl Registry {
    /// The algorithms of this crate.
    pub fn builtin() -> Self {
        Self {
            algorithms: algorithms::BUILTIN.to_vec(),
            local: Vec::new(),
            read: None,
        }
    }

    /// Sets how files named in options are read. Without it such an option is refused.
    #[must_use]
    pub fn reading(
        mut self,
        read: impl Fn(&str) -> Result<String, String> + Send + Sync + RefUnwindSafe + 'static,
    ) -> Self {
        self.read = Some(Arc::new(read));
        self
    }

    /// Adds an algorithm from any crate. An existing name is replaced.
    #[must_use]
    pub fn with(mut self, algorithm: Algorithm) -> Self {
        self.algorithms.retain(|a| a.name != algorithm.name);
        self.local.retain(|name| *name != algorithm.name);
        self.algorithms.push(algorithm);
        self
    }

    /// As [`Registry::with`], but not for peers: native code whose options are not safe for
    /// untrusted bytes.
    #[must_use]
    pub fn with_local(self, algorithm: Algorithm) -> Self {
        let name = algorithm.name;
        let mut registry = self.with(algorithm);
        registry.local.push(name);
        registry
    }

    /// The registry for specs from a peer: options name no files, and local algorithms are missing.
    #[must_use]
    pub fn for_peers(&self) -> Self {
        let mut algorithms = self.algorithms.clone();
        algorithms.retain(|a| !self.local.contains(&a.name));
        Self {
            algorithms,
            local: Vec::new(),
            read: None,
        }
    }

    /// All algorithms, in registry order.
    pub fn iter(&self) -> impl Iterator<Item = &Algorithm> {
        self.algorithms.iter()
    }

    /// The profile of an algorithm: as `options` say, else its default.
    pub fn profile(&self, algorithm: &str, options: &str) -> String {
        let chosen = options.split(',').find_map(|o| o.strip_prefix("profile="));
        let usual = || {
            let mut known = self.algorithms.iter();
            let known = known.find(|known| known.name == algorithm);
            known.and_then(|known| known.profiles.first().copied())
        };
        chosen.or_else(usual).unwrap_or("default").to_owned()
    }

    /// A controller for `spec`.
    ///
    /// # Errors
    /// [`SpecError`] for an unknown name or option, and for an invalid value.
    pub fn build(&self, spec: &Spec) -> Built {
        let names = self.algorithms.iter().map(|a| a.name);
        let algorithm = self
            .algorithms
            .iter()
            .find(|a| a.name == spec.name)
            .ok_or_else(|| SpecError::unknown("algorithm", &spec.name, names))?;
        let options = Options::new("algorithm", spec, algorithm.options, algorithm.profiles)?;
        let options = options.reading(self.read.as_deref());
        algorithm.build.build(&options)
    }
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
    fn a_peer_names_no_files_and_nothing_local() {
        let local = Algorithm {
            name: "local",
            ..Registry::builtin().algorithms[0].clone()
        };
        let registry = Registry::builtin()
            .with_local(local)
            .reading(|_| panic!("a file was read"));
        assert!(registry.iter().any(|a| a.name == "local"));
        let peers = registry.for_peers();
        assert!(peers.iter().all(|a| a.name != "local"));
        let why = peers.build(&"mdi:matrix=m.csv".parse().unwrap()).err();
        let why = why.expect("refused").to_string();
        assert!(why.contains("nothing here reads files"), "{why}");
    }

    #[test]
    fn mistakes_are_named_with_what_would_be_right() {
        assert!(refused("fixd").contains("no algorithm 'fixd' (did you mean fixed?)"));
        assert!(refused("fixed:windw=3").contains("did you mean window?"));
        assert_eq!(
            refused("fixed:window=0"),
            "algorithm fixed: window=0: want a whole number from 1 to 1000000"
        );
        assert!(refused("fixed:window=3,window=4").contains("twice"));
        assert!(refused("fixed:window").contains("write name or name:option=value"));
    }
}
