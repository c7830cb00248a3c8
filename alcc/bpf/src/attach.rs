// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Selecting a congestion control for the sockets of running programs.
use crate::control;
use crate::error::BpfError;
use crate::options;
use crate::pins;
use crate::policy;
use crate::rule::{Place, Rule, Seen};
use crate::selection::{Attached, Found, Future, Selection, open_cgroup};
use crate::sockets::{self, Act, EXISTING, Wanted};
use alcc_sys::Chosen;

/// Selects the control for existing sockets, whatever has chosen their control until now.
///
/// Looks in the network namespace of the selected process, or if none is selected, in the
/// caller's.
pub fn attach(selection: &Selection, control: impl Into<Chosen>) -> Result<Attached, BpfError> {
    let control = control.into();
    control::able()?;
    options::check(&control)?;
    pins::prepare()?;
    let _alone = policy::alone()?;
    act(Act::Attach, selection, selection.rule(Some(control)))
}

/// Gives the sockets that [`attach`] or a [`Future`] took the control that they had before. If a policy
/// is in force, its rule counts instead, unless the program had chosen that control. An empty selection
/// means all sockets, in every network namespace.
pub fn detach(selection: &Selection) -> Result<Attached, BpfError> {
    control::able()?;
    if *selection == Selection::default() {
        return everywhere(&Wanted::all(Act::Detach));
    }
    act(Act::Detach, selection, selection.rule(None))
}

/// Gives listening sockets their earlier control back. Returns the control that each had until now.
pub(crate) fn detach_listening() -> Result<Attached, BpfError> {
    everywhere(&Wanted {
        listening: true,
        ..Wanted::all(Act::Detach)
    })
}

/// The controls of all sockets.
pub(crate) fn survey_everywhere() -> Result<Attached, BpfError> {
    everywhere(&Wanted::all(Act::Look))
}

/// The matching sockets and their controls. Changes nothing.
pub fn survey(selection: &Selection) -> Result<Attached, BpfError> {
    control::able()?;
    act(Act::Look, selection, selection.rule(None))
}

fn everywhere(wanted: &Wanted<'_>) -> Result<Attached, BpfError> {
    let walk = sockets::everywhere(&wanted.load(&[EXISTING])?)?;
    Ok(walk.seen.into_iter().map(Found::from).collect())
}

fn act(act: Act, selection: &Selection, rule: Rule) -> Result<Attached, BpfError> {
    let namespaces = selection.sockets()?;
    let wanted = Wanted {
        rule,
        sockets: namespaces.as_deref(),
        ..Wanted::all(act)
    };
    let object = wanted.load(&[EXISTING])?;
    let seen = match &namespaces {
        None => sockets::here(&object),
        // The processes of a cgroup may have ended, and their sockets with them.
        Some(all) => {
            sockets::within_each(&object, all, |why| why.is_gone() && selection.pid.is_none())
        }
    };
    Ok(seen?.into_iter().map(Found::from).collect())
}

impl From<Seen> for Found {
    fn from(seen: Seen) -> Self {
        Self {
            port: seen.port,
            peer: seen.peer,
            control: seen.was,
            options: seen.had,
            error: seen.error,
        }
    }
}

impl Future<'_> {
    /// Selects the control for future connections until [`crate::end_futures`], [`crate::unload`] or a
    /// restart of the machine. It counts before the rules of a policy, and the newest counts first.
    ///
    /// # Errors
    /// There is no such cgroup, there are [`crate::RULES`] such choices, or the kernel refuses.
    pub fn begin(&self, control: impl Into<Chosen>) -> Result<(), BpfError> {
        control::able()?;
        let (_, number) = open_cgroup(self.cgroup)?;
        policy::add(&Rule {
            place: Some(Place::Number(number)),
            ..self.selection.rule(Some(control.into()))
        })
    }
}
