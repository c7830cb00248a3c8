// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Effects on a share of the packets at the end of the direction.
use super::{Landing, Radio};
use alcc_units::{Options, Rng, SpecError};

#[derive(Clone, Debug)]
struct Landings {
    rng: Rng,
    p: f64,
    otherwise: Landing,
}

/// An effect with which the share `p` of the packets arrives in this state, and the others
/// unchanged.
pub(super) fn build(
    options: &Options<'_>,
    otherwise: Landing,
) -> Result<Box<dyn Radio>, SpecError> {
    Ok(Box::new(Landings {
        rng: Rng::new(0),
        p: options.share("p", 0.01, 0.0..=0.9)?,
        otherwise,
    }))
}

impl Radio for Landings {
    fn seed(&mut self, seed: u64) {
        self.rng = Rng::new(seed);
    }

    fn is_last(&self) -> bool {
        true
    }

    fn lands(&mut self) -> Landing {
        match self.rng.chance(self.p) {
            true => self.otherwise,
            false => Landing::Whole,
        }
    }

    fn duplicate(&self) -> Box<dyn Radio> {
        Box::new(self.clone())
    }
}
