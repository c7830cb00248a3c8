// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A share of the packets arrives otherwise than it was sent.
use super::{Landing, Radio};
use alcc_units::{Options, Rng, SpecError};

#[derive(Clone, Debug)]
struct Landings {
    rng: Rng,
    p: f64,
    otherwise: Landing,
}

/// `p` of the packets arrive like that, the others as they were sent.
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
