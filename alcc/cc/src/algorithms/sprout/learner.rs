// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The receiver module's estimate of the link's rate from the arrivals per tick, and the forecast
//! from it.
use super::belief::Belief;
use super::model::{BINS, HORIZON, Model, Phi, rate};
use super::settings::{Inference, Settings};
use alcc_units::Bytes;

/// The unit doubles when the rate was near the end of its range in this many more ticks than not (a
/// second), and halves when it was far below for a second.
const TOO_FAST: u32 = 50;
const TOO_SLOW: u32 = 50;
const FAST: f64 = 0.9;
const SLOW: f64 = 0.2;
const MAX_DOUBLINGS: u32 = 12;

/// The arrivals of one tick.
#[derive(Clone, Copy, Default)]
pub struct Arrived {
    /// Bytes.
    pub bytes: u64,
    /// Packets.
    pub packets: u64,
}

/// The estimator of a form. The receiver module calls it once per tick.
pub trait Learner: Clone + Send + 'static {
    /// Bytes that a count stands for.
    fn unit(&self) -> u64;

    /// Ends a tick. Not `seen`: the sender had announced the silence, so that it says nothing about
    /// the link.
    fn tick(&mut self, arrived: Arrived, seen: bool);

    /// Forgets the last ticks.
    fn forget(&mut self);

    /// The counts of a forecast.
    fn counts(&mut self) -> [u32; HORIZON];
}

/// The rate, in counts per tick.
#[derive(Clone)]
pub enum Estimate {
    /// The Bayesian filter.
    Filter(Box<Belief>),
    /// The moving mean.
    Mean(f64),
}

impl Estimate {
    /// An estimate without knowledge.
    pub fn new(inference: Inference, phi: Phi) -> Self {
        match inference {
            Inference::Filter => Self::Filter(Box::new(Belief::new(Model::shared(phi)))),
            Inference::Mean => Self::Mean(0.0),
        }
    }

    /// Takes a tick with this count; `None`: the tick says nothing about the link.
    pub fn tick(&mut self, count: Option<f64>) {
        if let Self::Filter(belief) = self {
            belief.evolve();
        }
        let Some(count) = count else { return };
        match self {
            Self::Filter(belief) => belief.observe(count),
            Self::Mean(rate) => *rate += (count - *rate) / 8.0,
        }
    }

    /// Forgets the last ticks.
    pub fn forget(&mut self) {
        if let Self::Filter(belief) = self {
            belief.reset();
        }
    }

    /// The counts of a forecast that holds with this quantile.
    pub fn counts(&mut self, quantile: f64) -> [u32; HORIZON] {
        match self {
            Self::Filter(belief) => belief.forecast(quantile),
            Self::Mean(rate) => {
                std::array::from_fn(|i| (*rate * (i + 1) as f64).min(f64::from(u32::MAX)) as u32)
            }
        }
    }
}

/// The estimator of the current form. With `any_rate`, the unit of a count follows the rate.
#[derive(Clone)]
pub(super) struct Scaled {
    settings: Settings,
    mss: Bytes,
    estimate: Estimate,
    /// Number of doublings of the unit.
    doublings: u32,
    too_fast: u32,
    too_slow: u32,
}

impl Scaled {
    pub(super) fn new(settings: Settings, mss: Bytes) -> Self {
        Self {
            settings,
            mss: mss.max(Bytes::new(1)),
            estimate: Estimate::new(settings.asked.inference, Phi::Exact),
            doublings: 0,
            too_fast: 0,
            too_slow: 0,
        }
    }

    fn count(&self, arrived: Arrived) -> f64 {
        if arrived.packets == 0 {
            return 0.0;
        }
        let unit = self.unit() as f64;
        // A packet without data still shows that the link is up.
        (arrived.bytes as f64 / unit).max(self.mss.get() as f64 / unit)
    }

    /// Keeps the rate inside the range of the bins by adapting the unit of a count.
    fn scale(&mut self) {
        let Estimate::Filter(belief) = &mut self.estimate else {
            return;
        };
        let share = belief.mean() / rate(BINS - 1);
        self.too_fast = if share > FAST {
            self.too_fast + 1
        } else {
            self.too_fast.saturating_sub(1)
        };
        self.too_slow = if share < SLOW { self.too_slow + 1 } else { 0 };
        if self.too_fast >= TOO_FAST && self.doublings < MAX_DOUBLINGS {
            belief.fold();
            self.doublings += 1;
            self.too_fast = 0;
        } else if self.too_slow >= TOO_SLOW && self.doublings > 0 {
            belief.spread();
            self.doublings -= 1;
            self.too_slow = 0;
        }
    }
}

impl Learner for Scaled {
    fn unit(&self) -> u64 {
        self.mss.get().min(1 << 14) << self.doublings
    }

    fn tick(&mut self, arrived: Arrived, seen: bool) {
        let count = self.count(arrived);
        self.estimate.tick(seen.then_some(count));
        if self.settings.any_rate {
            self.scale();
        }
    }

    fn forget(&mut self) {
        self.estimate.forget();
    }

    fn counts(&mut self) -> [u32; HORIZON] {
        self.estimate.counts(self.settings.asked.quantile)
    }
}
