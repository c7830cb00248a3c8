// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The stochastic model behind the synthetic traces.
//!
//! Time runs in milliseconds (the transmission interval of LTE; half of HSPA's). Four layers, from
//! slow to fast:
//!
//! 1. **Level.** An Ornstein-Uhlenbeck process of seconds (shadowing, cell load), or levels held
//!    for a fixed time.
//! 2. **Fading.** A second Ornstein-Uhlenbeck process of tens to hundreds of milliseconds. Rate is
//!    `softplus(1 + level + fading)`: nearly linear above the mean, where modulation saturates,
//!    exponential in deep fades, never negative. With a sharp `bend` rates are spread evenly around
//!    the mean, with a soft one they have a long upper tail.
//! 3. **Scheduler.** The user is served at random moments; gaps between these are geometric, with a
//!    share of longer ones. A service delivers rate × mean gap × a log-normal factor; less than a
//!    packet is carried over to the next.
//! 4. **Outages.** They are spread over the time with jitter; their length is the shortest plus an
//!    exponential excess.
//!
//! The slow layers are drawn in blocks of [`BLOCK`]. Each block is normalised to the model's mean
//! and spread, so that every seed gives the same statistics with another course. For any length, a
//! trace is a prefix of the longer trace of the same seed. Only the last opportunity differs,
//! because it marks the end.
use crate::{MAX_OPPORTUNITIES, OPPORTUNITY, Trace};
use alcc_units::{Rng, Span};

/// The length over which a synthetic trace has the statistics of its model.
pub const BLOCK: Span = Span::from_secs(BLOCK_MS as u64 / 1000);
const BLOCK_MS: u32 = 300_000;
/// Interval at which the rate is redrawn.
const STEP_MS: u32 = 5;
const STEPS: usize = (BLOCK_MS / STEP_MS) as usize;
/// The longest trace that is generated.
pub const MAX_LENGTH: Span = Span::from_secs(3600);

/// A stationary Gaussian process with exponentially decaying memory, in units of the mean rate.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Swing {
    /// Standard deviation, relative to the mean rate.
    pub spread: f64,
    /// Time after which the correlation has fallen to 1/e.
    pub memory: Span,
}

/// The variation of the rate over seconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Level {
    /// A random walk (Ornstein-Uhlenbeck).
    Wander(Swing),
    /// Jumps to an independent level, uniform in `1 - reach ..= 1 + reach` of the mean, after each
    /// `hold`. At random moments there is a surge of 10 ms, as from a shaper that releases its
    /// tokens at once.
    Jump {
        /// Duration of a level.
        hold: Span,
        /// Half of the range, relative to the mean; 0 to 1.
        reach: f64,
        /// Mean number of surges per second.
        surges_per_second: f64,
        /// Height of a surge above the level, relative to the mean.
        surge: f64,
    },
}

/// The scheduler's service times of the user: gaps in ms, at least 1.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Gaps {
    /// Mean of the ordinary gaps.
    pub mean_ms: f64,
    /// Share of longer gaps, 0 to 1.
    pub long_share: f64,
    /// Mean of the longer gaps.
    pub long_mean_ms: f64,
}

/// Outages: times without any service.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Outages {
    /// Mean number per minute.
    pub per_minute: f64,
    /// The shortest length.
    pub shortest: Span,
    /// Mean length beyond the shortest.
    pub mean_excess: Span,
}

/// Parameters of the generator; the module describes their interaction.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Model {
    /// Mean rate in Mbit/s of 1500-byte packets.
    pub mean_mbps: f64,
    /// The rate over seconds.
    pub level: Level,
    /// The rate over tens to hundreds of milliseconds.
    pub fading: Swing,
    /// Sharpness of the transition from exponential to linear, above 0. 4 is sharp: a fade by one
    /// mean leaves 17 %. 1 is soft.
    pub bend: f64,
    /// Service times of the user.
    pub gaps: Gaps,
    /// Variation of services: standard deviation of the logarithm of the amount that one delivers.
    pub unevenness: f64,
    /// Times without any service.
    pub outages: Outages,
}

/// Independent generators for the layers of a block, so that the random numbers of one layer do not
/// affect another.
#[derive(Clone, Copy)]
enum Layer {
    Level = 1,
    Fading,
    Scheduler,
    Outages,
}

fn rng(seed: u64, block: u64, layer: Layer) -> Rng {
    let mut mix = Rng::new(seed);
    let mut mix = Rng::new(mix.next_u64() ^ block);
    let mut mix = Rng::new(mix.next_u64() ^ layer as u64);
    Rng::new(mix.next_u64())
}

/// Standard normal (Box-Muller), from `libm` so that every platform gives the same bits.
fn normal(rng: &mut Rng) -> f64 {
    let radius = (-2.0 * libm::log(1.0 - rng.unit())).sqrt();
    radius * libm::cos(core::f64::consts::TAU * rng.unit())
}

/// Geometric on 1, 2, ... with this mean.
fn geometric(rng: &mut Rng, mean: f64) -> f64 {
    if mean <= 1.0 {
        return 1.0;
    }
    let stay = 1.0 - 1.0 / mean;
    1.0 + libm::floor(libm::log(1.0 - rng.unit()) / libm::log(stay))
}

/// `ln(1 + exp(bend * x)) / bend`, nearly `x` where that is large.
fn softplus(x: f64, bend: f64) -> f64 {
    let y = bend * x;
    if y > 40.0 {
        return x;
    }
    libm::log1p(libm::exp(y)) / bend
}

impl Swing {
    fn path(self, rng: &mut Rng) -> Vec<f64> {
        let memory_ms = self.memory.as_millis_f64().max(1e-3);
        let keep = libm::exp(-f64::from(STEP_MS) / memory_ms);
        let fresh = (1.0 - keep * keep).sqrt();
        let mut x = normal(rng);
        (0..STEPS)
            .map(|_| {
                let now = x;
                x = keep * x + fresh * normal(rng);
                now * self.spread
            })
            .collect()
    }
}

impl Level {
    fn path(self, rng: &mut Rng) -> Vec<f64> {
        match self {
            Self::Wander(swing) => {
                let mut path = swing.path(rng);
                let mean = path.iter().sum::<f64>() / STEPS as f64;
                let power = path.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>();
                let spread = (power / STEPS as f64).sqrt();
                let scale = if spread > 0.0 {
                    swing.spread / spread
                } else {
                    0.0
                };
                for x in &mut path {
                    *x = (*x - mean) * scale;
                }
                path
            }
            Self::Jump {
                hold,
                reach,
                surges_per_second,
                surge,
            } => {
                let steps = (hold.as_nanos() / 1_000_000 / u64::from(STEP_MS)).max(1) as usize;
                let levels = STEPS.div_ceil(steps);
                let mut drawn: Vec<f64> = (0..levels)
                    .map(|n| reach * (2.0 * (n as f64 + rng.unit()) / levels as f64 - 1.0))
                    .collect();
                for n in (1..levels).rev() {
                    drawn.swap(n, rng.below(n as u64 + 1) as usize);
                }
                let mut path: Vec<f64> = (0..STEPS).map(|n| drawn[n / steps]).collect();
                let likely = surges_per_second * f64::from(STEP_MS) / 1e3;
                for n in 1..STEPS {
                    if rng.chance(likely) {
                        path[n - 1] += surge;
                        path[n] += surge;
                    }
                }
                path
            }
        }
    }
}

impl Gaps {
    fn draw(self, rng: &mut Rng) -> u32 {
        let long = rng.chance(self.long_share);
        let mean = if long {
            self.long_mean_ms
        } else {
            self.mean_ms
        };
        geometric(rng, mean).min(f64::from(BLOCK_MS)) as u32
    }

    fn mean(self) -> f64 {
        self.long_share * self.long_mean_ms.max(1.0)
            + (1.0 - self.long_share) * self.mean_ms.max(1.0)
    }
}

impl Outages {
    /// Start and end of the outages within a block, ms, in order. Their number is fixed, and they
    /// are stratified in position and length, because a few random ones in a block would change the
    /// statistics with the seed.
    fn place(self, rng: &mut Rng) -> Vec<(u32, u32)> {
        let blocks_per_minute = 60_000.0 / f64::from(BLOCK_MS);
        let count = libm::round(self.per_minute / blocks_per_minute).clamp(0.0, 3000.0) as usize;
        let mut lengths: Vec<f64> = (0..count)
            .map(|n| {
                let rank = (n as f64 + 0.25 + 0.5 * rng.unit()) / count as f64;
                self.shortest.as_millis_f64()
                    - self.mean_excess.as_millis_f64() * libm::log1p(-rank)
            })
            .collect();
        for n in (1..count).rev() {
            lengths.swap(n, rng.below(n as u64 + 1) as usize);
        }
        let slot = f64::from(BLOCK_MS) / count.max(1) as f64;
        lengths
            .into_iter()
            .enumerate()
            .map(|(n, length)| {
                let length = length.min(slot);
                let start = n as f64 * slot + rng.unit() * (slot - length);
                (start as u32, (start + length) as u32)
            })
            .collect()
    }
}

impl Model {
    /// A trace of this length, rounded to whole milliseconds, at least 1 ms and at most
    /// [`MAX_LENGTH`]. The same seed and length give the same trace on every platform.
    pub fn generate(&self, seed: u64, length: Span) -> Trace {
        let length_ms =
            (length.as_nanos() / 1_000_000).clamp(1, MAX_LENGTH.as_nanos() / 1_000_000) as u32;
        let mut out = Vec::new();
        for block in 0..length_ms.div_ceil(BLOCK_MS) {
            self.block(seed, block, length_ms, &mut out);
        }
        // The last opportunity is the period, so there is one exactly at the end.
        out.truncate(MAX_OPPORTUNITIES - 1);
        out.push(length_ms);
        Trace::new(out).expect("times are drawn in order and the last is after 0")
    }

    fn block(&self, seed: u64, block: u32, length_ms: u32, out: &mut Vec<u32>) {
        let rng = |layer| rng(seed, u64::from(block), layer);
        let outages = self.outages.place(&mut rng(Layer::Outages));
        let rate = self.rates(&outages, &mut rng(Layer::Level), &mut rng(Layer::Fading));
        let origin = block * BLOCK_MS;
        let scheduler = &mut rng(Layer::Scheduler);
        let mean_gap = self.gaps.mean();
        // Keeps the mean of the log-normal factor at 1.
        let centre = -self.unevenness * self.unevenness / 2.0;
        let mut outages = outages.into_iter().peekable();
        let (mut at, mut credit) = (self.gaps.draw(scheduler) - 1, 0.0);
        while at < BLOCK_MS && origin + at < length_ms {
            while outages.next_if(|&(_, end)| end <= at).is_some() {}
            if let Some(&(start, end)) = outages.peek()
                && start <= at
            {
                at = end;
                continue;
            }
            let factor = libm::exp(centre + self.unevenness * normal(scheduler));
            credit += rate[(at / STEP_MS) as usize] * mean_gap * factor;
            let packets = libm::floor(credit).min(1e6);
            credit -= packets;
            for _ in 0..packets as u32 {
                if out.len() < MAX_OPPORTUNITIES {
                    out.push(origin + at);
                }
            }
            at += self.gaps.draw(scheduler);
        }
    }

    /// Packets per ms in each step of a block. The mean over the block, with outages as zero, is
    /// the model's.
    fn rates(&self, outages: &[(u32, u32)], level: &mut Rng, fading: &mut Rng) -> Vec<f64> {
        let fading = self.fading.path(fading);
        let mut rate: Vec<f64> = self.level.path(level);
        for (x, fade) in rate.iter_mut().zip(fading) {
            *x = softplus(1.0 + *x + fade, self.bend);
        }
        let served: f64 = rate.iter().sum();
        let lost: f64 = outages
            .iter()
            .flat_map(|&(start, end)| start..end)
            .map(|ms| rate[((ms / STEP_MS) as usize).min(STEPS - 1)] / f64::from(STEP_MS))
            .sum();
        let packets_per_ms = self.mean_mbps * 1e3 / (OPPORTUNITY.get() * 8) as f64;
        let scale = packets_per_ms * STEPS as f64 / (served - lost).max(served * 0.01);
        for x in &mut rate {
            *x *= scale;
        }
        rate
    }
}
