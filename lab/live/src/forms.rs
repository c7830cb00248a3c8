// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CPU cost of a download for the sender, for every form of control: figure 14 of the ALCC paper.
//! All forms run at the same time, each on its own emulated link.
use crate::live::{self, Experiment};
use crate::{LabError, Link, Scheme, Tools};
use alcc_units::Span;
use std::sync::atomic::AtomicBool;

/// A form of sending with an algorithm.
#[derive(Debug)]
pub struct Form {
    /// Its name in figures.
    pub name: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// FLOW, with `{}` for the algorithm's name.
    scheme: &'static str,
    /// The paper's value, relative to the native form.
    pub published: &'static str,
}

/// Plain TCP, the native form that the others are compared with, and what controls over TCP.
pub const FORMS: [Form; 6] = [
    Form {
        name: "plain",
        title: "plain Cubic",
        scheme: "cubic",
        published: "-",
    },
    Form {
        name: "native",
        title: "native, datagrams",
        scheme: "{}/transport=udp",
        published: "1",
    },
    Form {
        name: "inband",
        title: "in-band",
        scheme: "{}/over=cubic/transport=in-band",
        published: "1.11",
    },
    Form {
        name: "gate",
        title: "gate",
        scheme: "{}/over=cubic",
        published: "1.5 to 2",
    },
    Form {
        name: "window",
        title: "window in the kernel",
        scheme: "{}/enforce=bpf",
        published: "-",
    },
    Form {
        name: "kernel",
        title: "all in the kernel",
        scheme: "alcc_{}",
        published: "-",
    },
];

/// The form with which the others are compared.
pub const NATIVE: usize = 1;

impl Form {
    /// The scheme of `alcc-lab compare`.
    fn scheme(&self, algorithm: &str) -> String {
        self.scheme.replace("{}", algorithm)
    }
}

/// CPU time of one form: the sender's processes and threads, user and system.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Cost {
    /// Per cent of a core.
    pub percent: f64,
    /// Wake-ups of its threads per second.
    pub wakeups_per_s: f64,
    /// Throughput of the link, Mbit/s.
    pub mbps: f64,
}

/// One for each of [`FORMS`], and what a reader should know of the run.
pub type Costs = ([Cost; FORMS.len()], Vec<String>);

/// Runs all forms of an algorithm for `duration`. [`alcc_emu::prepare`] must have succeeded before.
///
/// # Errors
/// [`LabError::Missing`] where the kernel has not the form of it that lives there;
/// [`LabError::Run`] for the first form that failed.
pub fn run(
    algorithm: &str,
    link: &Link,
    duration: Span,
    run: u32,
    tools: &Tools,
    stop: &AtomicBool,
) -> Result<Costs, LabError> {
    let there =
        alcc_pipe::Controls::available().map_err(LabError::os("list the kernel's controls"))?;
    let resident = format!("alcc_{algorithm}");
    for needed in [alcc_sys::WINDOW_CONTROL, &resident] {
        if !there.has(needed) {
            return Err(LabError::Missing {
                program: "the forms in the kernel",
                looked: format!("{needed} is not among its congestion controls"),
                fix: "load them once as root: alcc bpf load".to_owned(),
            });
        }
    }
    let schemes: Vec<Scheme> = (FORMS.iter())
        .map(|form| form.scheme(algorithm).parse())
        .collect::<Result<_, _>>()?;
    let experiment = Experiment {
        link,
        shared: None,
        crowd: None,
        schemes: &schemes,
        duration,
        run,
        tools,
        log: None,
    };
    let measured = live::run(&experiment, stop, &mut |_| {})?;
    let mut costs = [Cost {
        percent: 0.0,
        wakeups_per_s: 0.0,
        mbps: 0.0,
    }; FORMS.len()];
    for ((cost, scheme), row) in costs.iter_mut().zip(&schemes).zip(&measured.rows) {
        if let Some(why) = &row.error {
            return Err(scheme.failed(why));
        }
        let known = (row.throughput_mbps.zip(row.cpu_s_per_gbit))
            .zip(measured.wakeups_per_s.get(&scheme.name));
        let ((mbps, per_gbit), wakeups) = known.ok_or_else(|| {
            scheme.failed("the kernel does not tell what it cost (/proc/*/schedstat)")
        })?;
        *cost = Cost {
            // CPU seconds per Gbit, times Gbit per second.
            percent: per_gbit * mbps / 10.0,
            wakeups_per_s: *wakeups,
            mbps,
        };
    }
    Ok((costs, measured.notes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_a_scheme() {
        for form in &FORMS {
            let scheme: Scheme = form.scheme("copa").parse().unwrap();
            assert_eq!(scheme.controlled.is_some(), form.scheme.contains("{}/"));
        }
        assert_eq!(FORMS[NATIVE].scheme("copa"), "copa/transport=udp");
    }
}
