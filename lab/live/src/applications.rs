// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Applications with real programs, other than one download, and the values that their users
//! notice.
//!
//! An application is one file and one line of [`APPLICATIONS`]. Its server stands at one end of an
//! emulated link, plainly or below `alcc run`, its client at the other. Both are unmodified.
mod ftp;
mod page;
mod processor;
mod stage;
mod upload;
mod video;
mod vpn;

use crate::link::Link;
use crate::live::programs::Namespaces;
use crate::live::wire::Wire;
use crate::program::scratch_folder;
use crate::scheme::Scheme;
use crate::tools::Tools;
use crate::{LabError, route};
use alcc_units::Span;
use stage::Stage;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Results of an application, by name.
pub type Figures = BTreeMap<String, f64>;

/// Results of an application, with notes.
#[derive(Clone, Debug, Default)]
pub struct Shown {
    /// Its figures.
    pub figures: Figures,
    /// Notes on the results, one line each, as in a comparison.
    pub notes: Vec<String>,
}

/// An application.
#[derive(Debug)]
pub struct Application {
    /// Its name in an experiment.
    pub name: &'static str,
    /// The programs, server first.
    pub programs: &'static str,
    /// Its figures besides [`OF_THE_LINK`].
    pub metrics: &'static [&'static str],
    how: How,
}

/// Function that runs an application.
#[derive(Debug)]
enum How {
    /// At both ends of one link.
    Staged {
        /// Preparation that takes long and needs no link; called before the link's time begins.
        prepare: fn(&Stage<'_>) -> Result<(), LabError>,
        run: fn(&Stage<'_>) -> Result<Figures, LabError>,
    },
    /// Several forms beside each other, each on its own link. None of the metrics of
    /// [`OF_THE_LINK`].
    Beside(fn(&Link, &Scheme, Span, &Tools, &AtomicBool) -> Result<Figures, LabError>),
}

/// All applications.
pub static APPLICATIONS: &[Application] = &[
    ftp::FTP,
    page::PAGE,
    processor::PROCESSOR,
    upload::UPLOAD,
    video::VIDEO,
    vpn::VPN,
    vpn::VPN_SHORT,
];

/// Figures of every application at one link, in the watched time. These are the queue before the
/// bottleneck of the downlink, ms, and the share of packets that were lost there.
pub const OF_THE_LINK: [&str; 3] = ["queue_delay_mean_ms", "queue_delay_p95_ms", "loss"];

/// The round trip of the path with the mean queue of the link, ms. It is for applications whose
/// acknowledgements meet no queue.
const ROUND_TRIP: &str = "rtt_mean_ms";

/// The application of this name.
pub fn find(name: &str) -> Option<&'static Application> {
    APPLICATIONS.iter().find(|known| known.name == name)
}

/// Runs it. The link is watched for `duration` from its first full-size packet on.
///
/// [`alcc_emu::prepare`] must have succeeded before.
///
/// # Errors
/// [`LabError::Missing`] for a program that is not here; [`LabError`]. Whatever had been started is
/// ended and removed, then and on success.
pub fn run(
    application: &Application,
    link: &Link,
    scheme: &Scheme,
    duration: Span,
    tools: &Tools,
    stop: &AtomicBool,
) -> Result<Shown, LabError> {
    let (prepare, act) = match &application.how {
        How::Beside(run) => {
            let figures = run(link, scheme, duration, tools, stop)?;
            let notes = Vec::new();
            return Ok(Shown { figures, notes });
        }
        How::Staged { prepare, run } => (prepare, run),
    };
    if scheme.transport.is_some() {
        return Err(scheme.unfit(format!(
            "{} is an unmodified program: want plain TCP (cubic) or an algorithm above it (budget/over=cubic)",
            application.name
        )));
    }
    let scratch = scratch_folder()?;
    // Servers give up root before they read.
    fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o755))
        .map_err(LabError::os("open the temporary folder to servers"))?;
    let ends = Namespaces::new()?;
    let mut stage = Stage {
        scheme,
        tools,
        ends: &ends,
        folder: scratch.path(),
        from: Ipv4Addr::UNSPECIFIED,
        to: Ipv4Addr::UNSPECIFIED,
        origin: Instant::now(),
        duration: duration.into(),
        stop,
        notes: RefCell::default(),
    };
    prepare(&stage)?;
    let wire = Wire::start(&ends, link, duration, false)?;
    stage.origin = wire.emulator.started();
    let (from, to) = (wire.emulator.outside_addr(), wire.emulator.inside_addr());
    let kernel = &scheme.kernel;
    let chosen = ends.sender.run(|| route::use_algorithm(from, to, kernel))?;
    chosen.map_err(LabError::os(format!("make the kernel use {kernel}")))?;
    (stage.from, stage.to) = (from, to);
    let mut figures = act(&stage)?;
    figures.extend(of_the_link(application, link, &stage, wire)?);
    let notes = stage.notes.take().into_iter();
    let notes = notes.map(|note| format!("{}: {note}", scheme.name));
    Ok(Shown {
        figures,
        notes: notes.collect(),
    })
}

/// Ends the link. Its figures are [`OF_THE_LINK`], and [`ROUND_TRIP`] if the application has it.
fn of_the_link(
    application: &Application,
    link: &Link,
    stage: &Stage<'_>,
    wire: Wire,
) -> Result<Figures, LabError> {
    let hidden = wire.emulator.stop()?.hidden_drops();
    if hidden > 0 {
        return Err(stage.failed(format!(
            "{hidden} packets were lost outside the model: this machine could not keep up"
        )));
    }
    let seen = alcc_sys::lock(&wire.meters)
        .total()
        .and_then(|meter| link.observed(meter))
        .ok_or_else(|| stage.failed("no data came to the link"))?;
    let [mean, _, p95] = seen.queue_delay_ms.map_or([None; 3], |ms| ms.map(Some));
    let wants_round_trip = application.metrics.contains(&ROUND_TRIP);
    let round_trip = mean
        .filter(|_| wants_round_trip)
        .map(|mean| mean + link.min_rtt().as_millis_f64());
    let values = [mean, p95, seen.loss, round_trip];
    let named = OF_THE_LINK.into_iter().chain([ROUND_TRIP]).zip(values);
    Ok(named
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found() {
        for application in APPLICATIONS {
            let found = find(application.name).expect("it is there");
            assert_eq!(found.programs, application.programs);
            for metric in application.metrics {
                assert!(!OF_THE_LINK.contains(metric), "{metric}");
            }
        }
        assert!(find("gopher").is_none());
    }
}
