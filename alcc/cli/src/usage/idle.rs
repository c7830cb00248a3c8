// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Options that have no effect with the other given ones. The user expects an effect, so such an option is
//! an error. Cases that depend on the values of a scenario are detected where it is read.
use super::{Typed, name};
use std::ffi::OsStr;

/// The typed command line.
pub struct Given<'a>(&'a [Typed<'a>]);

impl Given<'_> {
    /// An option by its name, `--once`, or a word by that of the help.
    pub fn has(&self, option: &str) -> bool {
        self.0.iter().any(|(arg, _)| name(arg) == option)
    }

    /// It has this value.
    pub fn is(&self, option: &str, value: &str) -> bool {
        let mut all = self.0.iter();
        all.any(|(arg, values)| name(arg) == option && values.contains(&OsStr::new(value)))
    }
}

/// Options of a command that have no effect in a case.
pub struct Idle {
    /// Without the program's name.
    pub command: &'static str,
    /// The options.
    pub options: &'static [&'static str],
    /// The case.
    pub if_given: fn(&Given<'_>) -> bool,
    /// Their purpose, and a hint.
    pub what: &'static str,
}

/// The first option that has no effect, and what to do.
pub(super) fn idle(table: &[Idle], command: &str, typed: &[Typed<'_>]) -> Option<String> {
    let given = Given(typed);
    let here = table.iter().filter(|idle| idle.command == command);
    let mut here = here.filter(|idle| (idle.if_given)(&given));
    here.find_map(|idle| {
        let option = idle.options.iter().find(|option| given.has(option))?;
        Some(format!("{option} has no effect here: {}", idle.what))
    })
}
