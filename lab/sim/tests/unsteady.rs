// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The default on paths that were unsteady: it comes back soon, and never floods the link. What the
//! other algorithms do is in lab/notes/behaviour.md.
mod common;
#[path = "common/unsteady.rs"]
mod paths;

use paths::Unsteady;

/// `None` if the bounds hold.
fn broken(path: &Unsteady, flow: &str) -> Option<String> {
    let (seen, bound) = (path.run(flow), path.bound());
    let (starved, most) = (seen.starved, seen.most);
    let holds = starved <= bound && most <= 2.0;
    let name = path.name;
    (!holds).then(|| {
        format!("{flow}, {name}: less than half of the link for {starved} of {bound}, {most:.2} times the link")
    })
}

/// Here `budget` takes the longer route for a queue of others for more than ten seconds: packets of
/// the first round trips are too far apart for a jump of the RTT to differ from a queue that grows.
const LATE: [&str; 1] = ["longer in the start"];

#[test]
fn budget_has_half_of_a_link_soon_after_it_stands_still() {
    let paths = paths::paths();
    let (late, soon): (Vec<_>, Vec<_>) = paths.iter().partition(|p| LATE.contains(&p.name));
    let broken_of = |paths: Vec<&Unsteady>| -> Vec<String> {
        let broken = paths.into_iter().filter_map(|p| broken(p, "budget"));
        broken.collect()
    };
    let broken = broken_of(soon);
    assert!(broken.is_empty(), "{broken:#?}");
    let late = broken_of(late);
    assert_eq!(late.len(), LATE.len(), "some hold now: {late:#?}");
    // And never more than the bound is sent.
    let floods = |p: &&Unsteady| p.run("budget").most > 2.0;
    assert_eq!(paths.iter().filter(floods).count(), 0);
}

/// The bounds can be missed: a fixed window never has half of this link, a large one floods it.
#[test]
fn a_fixed_window_breaks_either_bound() {
    let paths = paths::paths();
    for flow in ["fixed:window=20", "fixed:window=5000"] {
        assert!(broken(&paths[0], flow).is_some(), "{flow}");
    }
}
