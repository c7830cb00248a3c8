// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A row ([`alcc_units::row`]), and the scenario's parameters in it.
pub use alcc_units::row::{EMULATED, Kind, PhaseSummary, Row, SIMULATED, Value, csv, csv_cell};

/// Parameters of a scenario that rows contain, besides link, queue and flow.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Configured {
    /// [`Row::axis_loss`] and [`Row::loss_up`].
    pub loss: [Option<f64>; 2],
    /// [`Row::up`].
    pub up: Option<String>,
    /// [`Row::radio`] and [`Row::radio_up`].
    pub radio: [Option<String>; 2],
    /// [`Row::steps`].
    pub steps: Option<String>,
    /// [`Row::wake`].
    pub wake: Option<String>,
}

impl Configured {
    /// Fills in the fields of a row.
    pub fn fill(&self, row: &mut Row) {
        [row.axis_loss, row.loss_up] = self.loss;
        row.up.clone_from(&self.up);
        row.radio.clone_from(&self.radio[0]);
        row.radio_up.clone_from(&self.radio[1]);
        row.steps.clone_from(&self.steps);
        row.wake.clone_from(&self.wake);
    }
}

/// The profile of an algorithm that is built in: as `options` say, else its default.
pub fn profile(algorithm: &str, options: &str) -> String {
    alcc_zoo::registry().profile(algorithm, options)
}

/// A row for tests, with only the main fields of the score table.
#[cfg(test)]
pub(crate) fn sample(link: &str, scheme: &str, mbps: f64, ms: f64) -> Row {
    Row {
        link: link.to_owned(),
        scheme: scheme.to_owned(),
        throughput_mbps: Some(mbps),
        delay_mean_ms: Some(ms),
        ..Row::default()
    }
}

/// A row for tests, of a run that failed.
#[cfg(test)]
pub(crate) fn failed(link: &str, scheme: &str) -> Row {
    Row {
        error: Some("it broke".to_owned()),
        throughput_mbps: None,
        delay_mean_ms: None,
        ..sample(link, scheme, 0.0, 0.0)
    }
}
