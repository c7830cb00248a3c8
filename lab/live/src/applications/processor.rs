// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A download, and what it costs the sender's processor by every way to control it.
use super::{Application, Figures, How};
use crate::forms::{self, FORMS, NATIVE};
use crate::{LabError, Link, Scheme, Tools};
use alcc_units::Span;
use std::sync::atomic::AtomicBool;

pub(super) const PROCESSOR: Application = Application {
    name: "processor",
    programs: "nginx and 'alcc send', curl and 'alcc recv'",
    metrics: &[
        "plain_percent",
        "plain_to_native",
        "plain_wakeups_per_s",
        "native_percent",
        "native_wakeups_per_s",
        "inband_percent",
        "inband_to_native",
        "inband_wakeups_per_s",
        "gate_percent",
        "gate_to_native",
        "gate_wakeups_per_s",
        "window_percent",
        "window_to_native",
        "window_to_gate",
        "window_wakeups_per_s",
        "kernel_percent",
        "kernel_to_native",
        "kernel_wakeups_per_s",
    ],
    how: How::Beside(run),
};

/// The scheme's algorithm alone counts.
fn run(
    link: &Link,
    scheme: &Scheme,
    duration: Span,
    tools: &Tools,
    stop: &AtomicBool,
) -> Result<Figures, LabError> {
    let algorithm = scheme.controlled.as_ref().map(ToString::to_string);
    let algorithm = algorithm.filter(|name| !name.contains(':'));
    let Some(algorithm) = algorithm else {
        return Err(
            scheme.unfit("want an algorithm that has a form in the kernel, without options: copa")
        );
    };
    let (costs, notes) = forms::run(&algorithm, link, duration, 1, tools, stop)?;
    if let Some(note) = notes.into_iter().next() {
        return Err(LabError::Run {
            scheme: algorithm,
            why: note,
        });
    }
    let native = costs[NATIVE].percent;
    let mut figures = Figures::new();
    for (n, (form, cost)) in FORMS.iter().zip(&costs).enumerate() {
        let name = form.name;
        figures.insert(format!("{name}_percent"), cost.percent);
        figures.insert(format!("{name}_wakeups_per_s"), cost.wakeups_per_s);
        if n != NATIVE {
            figures.insert(format!("{name}_to_native"), cost.percent / native);
        }
    }
    let ratio = figures["window_percent"] / figures["gate_percent"];
    figures.insert("window_to_gate".to_owned(), ratio);
    Ok(figures)
}
