// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rows that are stored beside the documentation. Rows of experiments that are not run again stay,
//! each with the build that made it.
use crate::by_number::by_number;
use std::collections::BTreeMap;

/// The stored row of one experiment.
pub trait Stored {
    /// Name of the experiment.
    fn id(&self) -> &str;

    /// The build that it is of, see [`build`]; `None`: unknown.
    fn by(&self) -> Option<&str>;

    /// True if it could be run.
    fn has_run(&self) -> bool;
}

/// Name and version of the program, and the first twelve digits of its SHA-256: two builds of one
/// version differ.
pub fn build(by: &str, sha256: &str) -> String {
    format!("{by} ({})", &sha256[..sha256.len().min(12)])
}

/// Takes in rows of experiments that have none here, or that could not be run now. In the order of
/// their numbers in the papers.
pub fn keep<T: Stored>(rows: &mut Vec<T>, before: Vec<T>) {
    let ran_before = |row: &T| (before.iter()).any(|old| old.id() == row.id() && old.has_run());
    rows.retain(|row| row.has_run() || !ran_before(row));
    let new: Vec<T> = (before.into_iter())
        .filter(|old| !rows.iter().any(|row| row.id() == old.id()))
        .collect();
    rows.extend(new);
    rows.sort_by_cached_key(|row| by_number(row.id()));
}

/// A list of the builds of the rows.
pub(crate) fn builds<T: Stored>(rows: &[T]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for row in rows {
        *counts.entry(row.by().unwrap_or("unknown")).or_default() += 1;
    }
    let counts = counts
        .iter()
        .map(|(by, count)| format!("\n- {by}: {count}"));
    let counts: String = counts.collect();
    format!("Rows of each build, with the first digits of the program's SHA-256:\n{counts}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(PartialEq, Debug)]
    struct Row(&'static str, Option<&'static str>, bool);

    impl Stored for Row {
        fn id(&self) -> &str {
            self.0
        }

        fn by(&self) -> Option<&str> {
            self.1
        }

        fn has_run(&self) -> bool {
            self.2
        }
    }

    const fn row(id: &'static str, by: Option<&'static str>) -> Row {
        Row(id, by, true)
    }

    /// Two runs of different experiments both stay; of the same experiment the newer one counts.
    #[test]
    fn what_was_not_asked_for_stays_with_its_build() {
        let mut rows = vec![row("c", Some("new")), row("b", Some("new"))];
        keep(&mut rows, vec![row("b", Some("old")), row("a", None)]);
        let found = [row("a", None), row("b", Some("new")), row("c", Some("new"))];
        assert_eq!(rows, found);
        assert!(builds(&rows).ends_with("SHA-256:\n\n- new: 2\n- unknown: 1"));
    }

    /// A requirement that the machine lacks today does not remove stored results.
    #[test]
    fn what_cannot_be_run_now_keeps_its_row() {
        let not_run = |id| Row(id, Some("new"), false);
        let mut rows = vec![not_run("a"), not_run("b"), not_run("c")];
        keep(&mut rows, vec![row("a", Some("old")), not_run("b")]);
        assert_eq!(rows, [row("a", Some("old")), not_run("b"), not_run("c")]);
    }

    #[test]
    fn figures_follow_their_numbers() {
        let mut rows = vec![row("alcc-fig5", None), row("verus-fig1", None)];
        keep(&mut rows, vec![row("alcc-fig10", None)]);
        let order: Vec<_> = rows.iter().map(Stored::id).collect();
        assert_eq!(order, ["alcc-fig5", "alcc-fig10", "verus-fig1"]);
    }

    #[test]
    fn two_builds_of_one_version_differ() {
        let sum = "0123456789abcdef";
        assert_eq!(build("alcc 1.0.0", sum), "alcc 1.0.0 (0123456789ab)");
        assert_eq!(build("alcc 1.0.0", "01"), "alcc 1.0.0 (01)");
    }
}
