// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The synthetic traces that the project ships: names and parameters. The seven names of the Verus paper (Zaki et al.,
//! SIGCOMM 2015, section 5.3) come first. If a public recording of that scenario exists, `recording` names it. The
//! parameters were fitted to its statistics, and `alcc-lab trace calibrate` prints both sides. The others are plausible
//! variants: same network, less movement. No recorded data is contained here. The last three are of other radios:
//! plausible rates, with the published delays of their radio links on top.
use crate::model::{Gaps, Level, Model, Outages, Swing};
use crate::{BLOCK, Trace};
use alcc_units::Span;

/// A named synthetic link.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Scenario {
    /// The name as typed.
    pub name: &'static str,
    /// The channel that it represents.
    pub about: &'static str,
    /// The recording whose statistics it has: folder and file below the folder of recorded traces.
    pub recording: Option<&'static str>,
    /// Parameters of the generator.
    pub model: Model,
    /// The effects of the radio link in addition to the delivery opportunities, in the form of the option `--radio`:
    /// first towards the client, then from it. Recordings of opportunities do not contain them.
    pub radio: [&'static [&'static str]; 2],
}

impl Scenario {
    /// A trace of this length (whole milliseconds, 1 ms to [`MAX_LENGTH`](crate::MAX_LENGTH)); [`Scenario::LENGTH`] has
    /// the scenario's statistics exactly. The same seed and length give the same trace on every platform.
    pub fn generate(&self, seed: u64, length: Span) -> Trace {
        // The seed is combined with the name (FNV-1a), so that scenarios of one seed are not correlated.
        let salt = self
            .name
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
            });
        self.model.generate(seed ^ salt, length)
    }

    /// The default length.
    pub const LENGTH: Span = BLOCK;
}

/// The scenario of this name.
pub fn scenario(name: &str) -> Option<&'static Scenario> {
    SCENARIOS.iter().find(|s| s.name == name)
}

/// All scenarios.
#[rustfmt::skip]
pub static SCENARIOS: &[Scenario] = &[
    //   name                 stands for                                recording                                   Mbit/s  seconds: spread memory   fading: spread ms  bend  gaps: mean share long   uneven  outages: /min shortest excess
    row("campus-stationary",  "3G HSPA+, at rest on a campus",          None,                                       20.0,   wander(0.08, 6.0),       fade(0.20, 60),    4.0,  gaps(2.3, 0.08, 4.5),    0.60,   outages(0.0, 100, 20)),
    row("campus-pedestrian",  "3G HSPA+, walking on a campus",          Some("verus-paper/Campus_Pedestrian.down"), 18.4,   wander(0.144, 4.0),      fade(0.242, 73),   4.0,  gaps(2.4, 0.083, 5.05),  0.64,   outages(0.2, 53, 7)),
    row("city-stationary",    "3G HSPA+, at rest in a city",            None,                                       14.0,   wander(0.16, 8.0),       fade(0.16, 90),    4.0,  gaps(2.5, 0.08, 4.0),    0.68,   outages(0.2, 100, 40)),
    row("city-driving",       "3G HSPA+, driving slowly in a city",     Some("verus-paper/City_Driving.down"),      16.47,  wander(0.402, 12.0),     fade(0.095, 250),  4.0,  gaps(2.59, 0.075, 3.02), 0.71,   outages(0.4, 144, 146)),
    row("highway-driving",    "3G HSPA+, driving at 120 km/h",          Some("verus-paper/HighWay.down"),           16.06,  wander(0.434, 15.0),     fade(0.165, 112),  4.0,  gaps(1.59, 0.237, 5.95), 0.73,   outages(1.0, 101, 59)),
    row("shopping-mall",      "3G HSPA+, walking inside a mall",        None,                                       12.0,   wander(0.30, 5.0),       fade(0.26, 120),   4.0,  gaps(2.0, 0.20, 4.5),    0.75,   outages(0.8, 101, 60)),
    row("waterfront",         "3G HSPA+, walking along a beach",        Some("alcc/Corniche"),                      10.33,  wander(0.30, 5.0),       fade(0.103, 103),  4.0,  gaps(2.7, 0.165, 3.18),  0.31,   outages(0.8, 112, 40)),
    row("campus-walk",        "3G HSPA+, walking on a campus, one phone", Some("alcc/CampusWalk"),                    8.95,   wander(0.231, 5.0),      fade(0.325, 126),  4.0,  gaps(1.54, 0.231, 3.93), 0.80,   outages(0.2, 111, 22)),
    row("city-drive",         "3G HSPA+, driving in a city, one phone",   Some("alcc/CityDrive"),                     8.76,   wander(0.339, 12.0),     fade(0.14, 224),   4.0,  gaps(2.71, 0.112, 3.89), 0.61,   outages(0.4, 144, 139)),
    row("rapid",              "level jumps at random every 5 s",        Some("alcc/rapidGold"),                     9.98,   jump(5, 0.75, 1.9, 5.5), fade(0.038, 34),   4.0,  gaps(1.0, 0.0, 1.0),     0.10,   outages(1.4, 115, 290)),
    row("lte-driving",        "LTE, driving, deep fades and outages",   Some("mahimahi/ATT-LTE-driving-2016.down"), 4.56,   wander(1.60, 3.06),      fade(0.635, 144),  1.77, gaps(1.02, 0.142, 1.92), 1.20,   outages(16.4, 150, 153)),
    row("lte",                "LTE, fast with outages",                 Some("mahimahi/TMobile-LTE-short.down"),    16.7,   wander(0.695, 3.7),      fade(0.217, 282),  2.64, gaps(1.84, 0.093, 12.2), 0.44,   outages(13.4, 81, 185)),
    over([&["harq", "rlc"], &["grant", "harq"]],
    row("nr",                 "5G NR below 6 GHz, driving in a city",   None,                                       60.0,   wander(0.50, 4.0),       fade(0.20, 60),    4.0,  gaps(1.0, 0.0, 1.0),     0.40,   outages(0.5, 60, 60))),
    over([&["aggregation"], &["aggregation"]],
    row("wifi",               "Wi-Fi in a busy room",                   None,                                       40.0,   wander(0.30, 6.0),       fade(0.20, 90),    4.0,  gaps(1.0, 0.0, 1.0),     0.40,   outages(0.0, 100, 20))),
    over([&["leo"], &["leo"]],
    row("leo",                "satellites in low orbit",                None,                                       80.0,   wander(0.25, 15.0),      fade(0.10, 200),   4.0,  gaps(1.0, 0.0, 1.0),     0.20,   outages(0.2, 100, 100))),
];

#[expect(clippy::too_many_arguments, reason = "one row of the table above")]
const fn row(
    name: &'static str,
    about: &'static str,
    recording: Option<&'static str>,
    mean_mbps: f64,
    level: Level,
    fading: Swing,
    bend: f64,
    gaps: Gaps,
    unevenness: f64,
    outages: Outages,
) -> Scenario {
    Scenario {
        name,
        about,
        recording,
        radio: [&[]; 2],
        model: Model {
            mean_mbps,
            level,
            fading,
            bend,
            gaps,
            unevenness,
            outages,
        },
    }
}

/// The scenario over a radio link: first towards the client, then from it.
const fn over(radio: [&'static [&'static str]; 2], scenario: Scenario) -> Scenario {
    Scenario { radio, ..scenario }
}

const fn wander(spread: f64, memory_s: f64) -> Level {
    Level::Wander(Swing {
        spread,
        memory: Span::from_millis((memory_s * 1e3) as u64),
    })
}

const fn jump(hold_s: u64, reach: f64, surges_per_second: f64, surge: f64) -> Level {
    Level::Jump {
        hold: Span::from_secs(hold_s),
        reach,
        surges_per_second,
        surge,
    }
}

const fn fade(spread: f64, memory_ms: u64) -> Swing {
    Swing {
        spread,
        memory: Span::from_millis(memory_ms),
    }
}

const fn gaps(mean_ms: f64, long_share: f64, long_mean_ms: f64) -> Gaps {
    Gaps {
        mean_ms,
        long_share,
        long_mean_ms,
    }
}

const fn outages(per_minute: f64, shortest_ms: u64, mean_excess_ms: u64) -> Outages {
    Outages {
        per_minute,
        shortest: Span::from_millis(shortest_ms),
        mean_excess: Span::from_millis(mean_excess_ms),
    }
}
