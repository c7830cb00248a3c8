// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Processes of one host that share allowances. Each receives the others' reports at once.
use alcc_flow::{Elsewhere, Tally};
use alcc_units::Time;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The last report of each process, by the name of the share.
#[derive(Default)]
pub(crate) struct Processes(BTreeMap<String, Arc<Mutex<Vec<Tally>>>>);

impl Processes {
    /// Another process, if `share` says that there are several: `NAME:PROCESS`.
    pub(crate) fn join(&mut self, share: &str) -> Option<Box<dyn Elsewhere>> {
        let (name, _) = share.split_once(':')?;
        let told = Arc::clone(self.0.entry(name.to_owned()).or_default());
        let mut all = told.lock().unwrap_or_else(PoisonError::into_inner);
        let own = all.len();
        all.push(Tally::default());
        drop(all);
        Some(Box::new(Process { told, own }))
    }
}

struct Process {
    told: Arc<Mutex<Vec<Tally>>>,
    own: usize,
}

impl Elsewhere for Process {
    fn tell(&mut self, own: &Tally) {
        let mut all = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        all[self.own] = *own;
    }

    fn hear(&mut self, _: Time, put: &mut dyn FnMut(u64, Tally)) {
        let all = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        for (number, tally) in all.iter().enumerate() {
            if number != self.own {
                put(number as u64, *tally);
            }
        }
    }
}
