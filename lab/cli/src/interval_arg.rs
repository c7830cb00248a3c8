// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The option of printed tables with several repetitions: `--interval`.

#[derive(clap::Args)]
pub(crate) struct Interval {
    /// Statistics of several repetitions: range or ci95
    ///
    /// range is the median with the smallest and largest value, ci95 the mean with its 95 %
    /// confidence interval.
    #[arg(
        long,
        hide_short_help = true,
        value_name = "WHAT",
        default_value = "range",
        conflicts_with = "json"
    )]
    pub(crate) interval: alcc_live::board::Interval,
}
