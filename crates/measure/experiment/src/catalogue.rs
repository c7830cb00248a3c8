// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The experiments that the program carries: those of the folder `experiments`.
use crate::Definition;
use crate::definition::no_such;

/// An experiment of the catalogue.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its name: that of its folder.
    pub id: &'static str,
    /// `experiment.toml`.
    pub toml: &'static str,
    /// `README.md`: the question, what the paper says, what we see, why it differs.
    pub readme: &'static str,
}

const LIST: &[(&str, &str, &str)] = include!(concat!(env!("OUT_DIR"), "/list.rs"));

/// All of them, by name.
pub fn all() -> impl Iterator<Item = Entry> + Clone {
    LIST.iter()
        .map(|&(id, toml, readme)| Entry { id, toml, readme })
}

/// The one with this name.
///
/// # Errors
/// The nearest name, and all.
pub fn find(id: &str) -> Result<Entry, String> {
    all()
        .find(|entry| entry.id == id)
        .ok_or_else(|| no_such("experiment", id, all().map(|entry| entry.id)))
}

impl Entry {
    /// What it says.
    ///
    /// # Errors
    /// See [`Definition::from_toml`].
    pub fn definition(&self) -> Result<Definition, String> {
        let name = format!("experiments/{}/experiment.toml", self.id);
        Definition::from_toml(self.toml, &name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Plan;

    /// Every experiment can be planned, has a README that says why, and names only others that are there.
    #[test]
    fn every_experiment_is_whole() {
        for entry in all() {
            let definition = entry.definition().unwrap();
            Plan::new(&definition).unwrap();
            assert!(
                definition.needs.is_some() || !definition.expect.is_empty(),
                "{}: expects nothing",
                entry.id
            );
            if let Some(other) = &definition.explained_by {
                find(other).unwrap();
            }
            let first = entry.readme.lines().next().unwrap_or_default();
            assert!(
                first.starts_with(&format!("# {}", entry.id)),
                "{}: {first}",
                entry.id
            );
        }
        assert!(all().count() > 0);
    }
}
