// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The experiments that are built into the program: those of the folder `experiments`.
use crate::Definition;
use alcc_units::nearest;

/// An experiment of the catalogue.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Name of the experiment and of its folder.
    pub id: &'static str,
    /// Text of `experiment.toml`.
    pub toml: &'static str,
    /// Text of `emulated.toml`: the definition that replaces it for real programs on emulated
    /// links.
    pub emulated: Option<&'static str>,
    /// Text of `README.md`: the question, the paper's statement, our result, and the cause of
    /// differences.
    pub readme: &'static str,
}

const EXPERIMENTS: &[(&str, &str, Option<&str>, &str)] =
    include!(concat!(env!("OUT_DIR"), "/list.rs"));

/// All experiments, by name.
pub fn all() -> impl Iterator<Item = Entry> + Clone {
    EXPERIMENTS
        .iter()
        .map(|&(id, toml, emulated, readme)| Entry {
            id,
            toml,
            emulated,
            readme,
        })
}

/// Finds an experiment by name.
///
/// # Errors
/// One line with the nearest name.
pub fn find(id: &str) -> Result<Entry, String> {
    all().find(|entry| entry.id == id).ok_or_else(|| {
        let near = nearest(id, all().map(|entry| entry.id));
        let near = near.map_or_else(String::new, |near| format!(" (did you mean {near}?)"));
        format!(
            "no experiment '{id}'{near}: 'alcc-lab list' shows them; your own file must end in .toml"
        )
    })
}

impl Entry {
    /// Parses the definition.
    ///
    /// # Errors
    /// See [`Definition::from_toml`].
    pub fn definition(&self) -> Result<Definition, String> {
        let name = format!("experiments/{}/experiment.toml", self.id);
        Definition::from_toml(self.toml, &name)
    }

    /// Text of its form with real programs, which is mostly the one of the simulator.
    pub fn real(&self) -> &'static str {
        self.emulated.unwrap_or(self.toml)
    }

    /// Parses its form with real programs.
    ///
    /// # Errors
    /// See [`Definition::from_toml`].
    pub fn real_definition(&self) -> Result<Definition, String> {
        match self.emulated {
            None => self.definition(),
            Some(text) => {
                let name = format!("experiments/{}/emulated.toml", self.id);
                Definition::from_toml(text, &name)
            }
        }
    }

    /// See [`Definition::is_own_application`].
    pub fn is_application(&self) -> bool {
        self.definition().is_ok_and(|d| d.is_own_application())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Plan;

    /// Every experiment can be planned and has a README. Experiments that it names exist.
    #[test]
    fn every_experiment_is_whole() {
        for entry in all() {
            for definition in [
                entry.definition().unwrap(),
                entry.real_definition().unwrap(),
            ] {
                Plan::new(&definition).unwrap();
                assert!(
                    definition.needs.is_some() || !definition.expect.is_empty(),
                    "{}: expects nothing",
                    entry.id
                );
                if let Some(other) = &definition.explained_by {
                    find(other).unwrap();
                }
            }
            if let Some(first) = entry.readme.lines().next() {
                let title = format!("# {}", entry.id);
                assert!(first.starts_with(&title), "{title}: {first}");
            }
        }
        assert!(all().count() > 0);
    }
}
