// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Algorithms by name: `verus:r=4,profile=paper`.
use crate::{Instance, algorithms};
pub use alcc_units::{OptionDoc, Options, Reader, Spec, SpecError};
use std::borrow::Cow;
use std::panic::RefUnwindSafe;
use std::sync::Arc;

/// The default algorithm: fair among its own flows and under random loss, with short queues
/// (docs/budget.md).
pub const DEFAULT: &str = "budget";

/// Hint on other algorithms and profiles, for users of this crate's registry.
const MORE: &str =
    "the laboratory's come with alcc-lab, or with --plugin libalcc_lab.so (ALCC_PLUGIN)";

/// The result of [`Build`]: the algorithm for one flow, or the wrong option.
pub type Built = Result<Instance, SpecError>;

/// Constructor of a controller from options.
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
    /// An algorithm with [`Form`]s from elsewhere.
    Forms {
        /// Makes all profiles but those of the forms.
        own: Box<Self>,
        /// The forms from other crates.
        forms: Vec<Form>,
    },
}

impl Build {
    pub(crate) fn build(&self, options: &Options<'_>) -> Built {
        match self {
            Self::Function(build) => build(options),
            Self::Loaded { build, .. } => build(options),
            Self::Forms { own, .. } => self.form(options.profile()).unwrap_or(own).build(options),
        }
    }

    /// The constructor of this profile, if a form provides it.
    fn form(&self, profile: &str) -> Option<&Self> {
        self.forms()
            .iter()
            .find(|f| f.profile == profile)
            .map(|f| &f.build)
    }

    /// The forms from other crates.
    pub fn forms(&self) -> &[Form] {
        match self {
            Self::Forms { forms, .. } => forms,
            Self::Function(_) | Self::Loaded { .. } => &[],
        }
    }
}

/// One more profile of an algorithm, from another crate: `verus:profile=original`.
#[derive(Clone)]
pub struct Form {
    /// The name of the form, the value of `profile=`.
    pub profile: &'static str,
    /// The options of this profile, besides `profile`.
    pub options: &'static [OptionDoc],
    /// Makes a controller, or reports a wrong option.
    pub build: Build,
}

/// The name of an algorithm's own form, if it has no profiles and gets a [`Form`].
pub const OWN_FORM: &str = "default";

/// One algorithm that a user can name.
#[derive(Clone)]
pub struct Algorithm {
    /// The name: lower case.
    pub name: &'static str,
    /// One line for `alcc list`.
    pub summary: &'static str,
    /// Values of `profile=`, the default first; empty if there is no such choice.
    pub profiles: Cow<'static, [&'static str]>,
    /// The options besides `profile`, of its own profiles.
    pub options: &'static [OptionDoc],
    /// Makes a controller, or reports a wrong option.
    pub build: Build,
}

impl Algorithm {
    /// The algorithm with one more profile, at the end of its list. An existing one of that name is
    /// replaced in place. The default stays the default.
    #[must_use]
    pub fn with_form(mut self, form: Form) -> Self {
        if self.profiles.is_empty() {
            self.profiles = Cow::Borrowed(&[OWN_FORM]);
        }
        if !self.profiles.contains(&form.profile) {
            self.profiles.to_mut().push(form.profile);
        }
        let (own, mut forms) = match self.build {
            Build::Forms { own, forms } => (own, forms),
            own => (Box::new(own), Vec::new()),
        };
        forms.retain(|known| known.profile != form.profile);
        forms.push(form);
        self.build = Build::Forms { own, forms };
        self
    }

    /// Removes a form, and its profile from the list.
    fn without_form(&mut self, profile: &str) {
        if let Build::Forms { forms, .. } = &mut self.build {
            forms.retain(|form| form.profile != profile);
            self.profiles.to_mut().retain(|known| *known != profile);
        }
    }

    /// The options besides `profile` that go with this profile.
    pub fn options_of(&self, profile: &str) -> &'static [OptionDoc] {
        let mut forms = self.build.forms().iter();
        forms
            .find(|form| form.profile == profile)
            .map_or(self.options, |form| form.options)
    }
}

/// The algorithms of one build.
///
/// ```
/// use alcc_cc::{Algorithm, Build, Registry};
/// use std::borrow::Cow;
///
/// let registry = Registry::builtin().with(Algorithm {
///     name: "three",
///     summary: "three packets",
///     profiles: Cow::Borrowed(&[]),
///     options: &[],
///     build: Build::Function(|_| Registry::builtin().build(&"fixed:window=3".parse()?)),
/// });
/// let three = registry.build(&"three".parse()?)?;
/// let why = registry.build(&"thre".parse()?).err().expect("no such algorithm");
/// assert!(why.to_string().contains("did you mean three?"));
/// # drop(three);
/// # Ok::<(), alcc_cc::SpecError>(())
/// ```
#[derive(Clone)]
pub struct Registry {
    algorithms: Vec<Algorithm>,
    /// Names of algorithms that a peer may not request.
    local: Vec<&'static str>,
    /// Names of algorithms and of their forms that a peer may not request.
    local_forms: Vec<(&'static str, &'static str)>,
    read: Option<Arc<Reader>>,
    /// Hint on other places, for the message about an unknown name.
    more: Option<&'static str>,
}

impl Registry {
    /// The algorithms of this crate.
    pub fn builtin() -> Self {
        Self {
            algorithms: algorithms::BUILTIN.to_vec(),
            local: Vec::new(),
            local_forms: Vec::new(),
            read: None,
            more: Some(MORE),
        }
    }

    /// The registry of a program with all algorithms of the project: messages about unknown names
    /// give no hint.
    #[must_use]
    pub fn complete(mut self) -> Self {
        self.more = None;
        self
    }

    /// Sets the function that reads files named in options. Without it such an option is refused.
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
        self.local_forms.retain(|(name, _)| *name != algorithm.name);
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

    /// Adds a profile to the algorithm `name`; see [`Algorithm::with_form`].
    ///
    /// # Panics
    /// If there is no algorithm of that name.
    #[must_use]
    pub fn with_form(mut self, name: &str, form: Form) -> Self {
        let known = self.algorithms.iter_mut().find(|a| a.name == name);
        let algorithm = known.unwrap_or_else(|| panic!("no algorithm '{name}' to add a form to"));
        *algorithm = algorithm.clone().with_form(form);
        self
    }

    /// As [`Registry::with_form`], but not for peers; see [`Registry::with_local`].
    ///
    /// # Panics
    /// If there is no algorithm of that name.
    #[must_use]
    pub fn with_local_form(self, name: &'static str, form: Form) -> Self {
        let profile = form.profile;
        let mut registry = self.with_form(name, form);
        registry.local_forms.push((name, profile));
        registry
    }

    /// As [`Registry::with`], listed after the algorithm `before`.
    #[must_use]
    pub fn with_after(self, before: &str, algorithm: Algorithm) -> Self {
        let mut registry = self.with(algorithm);
        let place = registry.algorithms.iter().position(|a| a.name == before);
        if let Some(place) = place {
            registry.algorithms[place + 1..].rotate_right(1);
        }
        registry
    }

    /// The registry for specs from a peer: options name no files, and local algorithms are missing.
    #[must_use]
    pub fn for_peers(&self) -> Self {
        let mut algorithms = self.algorithms.clone();
        algorithms.retain(|a| !self.local.contains(&a.name));
        for (name, profile) in &self.local_forms {
            if let Some(algorithm) = algorithms.iter_mut().find(|a| a.name == *name) {
                algorithm.without_form(profile);
            }
        }
        Self {
            algorithms,
            local: Vec::new(),
            local_forms: Vec::new(),
            read: None,
            more: None,
        }
    }

    /// All algorithms, in registry order.
    pub fn iter(&self) -> impl Iterator<Item = &Algorithm> {
        self.algorithms.iter()
    }

    /// The profile of an algorithm according to `options`, else its default.
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
        let hinted = |why: SpecError| match self.more {
            Some(how) => why.or_elsewhere(how),
            None => why,
        };
        let mut algorithms = self.algorithms.iter();
        let algorithm = algorithms
            .find(|a| a.name == spec.name)
            .ok_or_else(|| hinted(SpecError::unknown("algorithm", &spec.name, names)))?;
        let mut typed = spec.options.iter();
        let profile = typed.find(|(option, _)| option == "profile");
        let declared = algorithm.options_of(profile.map_or("", |(_, value)| value));
        let options = Options::new("algorithm", spec, declared, &algorithm.profiles);
        let options = options.map_err(|why| match &why {
            SpecError::Value { option, .. } if option == "profile" => hinted(why),
            _ => why,
        })?;
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
            options: &[OptionDoc {
                name: "table",
                default: "none",
                help: "a file",
            }],
            build: Build::Function(|options| {
                let _ = options.file("table")?;
                Registry::builtin().build(&Spec::named("fixed"))
            }),
            ..Registry::builtin().algorithms[0].clone()
        };
        let open = Algorithm {
            name: "open",
            ..local.clone()
        };
        let registry = Registry::builtin()
            .with_local(local)
            .with(open)
            .with_local_form("copa", fixed("still", &[]))
            .reading(|_| panic!("a file was read"));
        assert!(registry.iter().any(|a| a.name == "local"));
        let built = registry.build(&"copa:profile=still".parse().unwrap());
        assert!(built.is_ok());
        let peers = registry.for_peers();
        assert!(peers.iter().all(|a| a.name != "local"));
        for (spec, part) in [
            ("open:table=m.csv", "files cannot be read here"),
            ("copa:profile=still", "profile=still: expected"),
        ] {
            let why = peers.build(&spec.parse().unwrap()).err();
            let why = why.expect("refused").to_string();
            assert!(why.contains(part), "{why}");
        }
    }

    /// A form that is a fixed window of three packets.
    fn fixed(profile: &'static str, options: &'static [OptionDoc]) -> Form {
        Form {
            profile,
            options,
            build: Build::Function(|_| {
                Registry::builtin().build(&"fixed:window=3".parse().unwrap())
            }),
        }
    }

    #[test]
    fn a_form_adds_a_profile_with_options_of_its_own() {
        const OPTIONS: &[OptionDoc] = &[OptionDoc {
            name: "height",
            default: "1",
            help: "of nothing",
        }];
        let profiles = |registry: &Registry, name: &str| {
            let found = registry.iter().find(|a| a.name == name);
            found.unwrap().profiles.to_vec()
        };
        let registry = Registry::builtin()
            .with_form("copa", fixed("still", OPTIONS))
            .with_form("bbr", fixed("still", OPTIONS));
        assert_eq!(profiles(&registry, "copa"), ["tuned", "paper", "still"]);
        assert_eq!(profiles(&registry, "bbr"), [OWN_FORM, "still"]);
        let window = |registry: &Registry, spec: &str| {
            let cc = registry.build(&spec.parse().unwrap());
            cc.map(|cc| cc.allowance().window.get())
        };
        let three = window(&registry, "fixed:window=3");
        for spec in ["copa:profile=still,height=2", "bbr:profile=still"] {
            assert_eq!(window(&registry, spec), three, "{spec}");
        }
        assert_ne!(window(&registry, "copa"), three);
        let why = window(&registry, "copa:profile=still,delta=0.5").unwrap_err();
        assert!(why.to_string().contains("no option 'delta'"), "{why}");
        let why = window(&registry, "copa:height=2").unwrap_err();
        assert!(why.to_string().contains("no option 'height'"), "{why}");
        let replaced = registry.with_form("copa", fixed("paper", &[]));
        assert_eq!(profiles(&replaced, "copa"), ["tuned", "paper", "still"]);
        assert_eq!(window(&replaced, "copa:profile=paper"), three);
    }

    #[test]
    fn mistakes_are_named_with_what_would_be_right() {
        assert!(refused("fixd").contains("no algorithm 'fixd' (did you mean fixed?)"));
        assert!(refused("fixed:windw=3").contains("did you mean window?"));
        for elsewhere in ["c4", "verus:r=4,profile=original"] {
            assert!(refused(elsewhere).contains("--plugin libalcc_lab.so"));
        }
        assert_eq!(
            refused("fixed:window=0"),
            "algorithm fixed: window=0: expected a whole number from 1 to 1000000"
        );
        assert!(refused("fixed:window=3,window=4").contains("twice"));
        assert!(refused("fixed:window").contains("write name or name:option=value"));
    }
}
