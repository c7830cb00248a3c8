// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The default on paths that were unsteady: it comes back soon, and never floods the link. What the
//! other algorithms do is in docs/behaviour.md.
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

#[test]
fn budget_has_half_of_a_link_soon_after_it_stands_still() {
    let paths = paths::paths();
    let broken: Vec<String> = paths.iter().filter_map(|p| broken(p, "budget")).collect();
    assert!(broken.is_empty(), "{broken:#?}");
}

/// The bounds can be missed: a fixed window never has half of this link, a large one floods it.
#[test]
fn a_fixed_window_breaks_either_bound() {
    let paths = paths::paths();
    for flow in ["fixed:window=20", "fixed:window=5000"] {
        assert!(broken(&paths[0], flow).is_some(), "{flow}");
    }
}
