// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A panel of the picture: the schemes of one link, or of all.
use alcc_results::{Results, Row};

/// A scheme in a panel.
pub(super) struct Mark {
    pub(super) name: String,
    /// Its place in the list of looks.
    pub(super) number: usize,
    /// Delay in ms, and what is carried.
    pub(super) at: [f64; 2],
    pub(super) dots: Vec<[f64; 2]>,
    pub(super) front: bool,
}

pub(super) struct Panel<'a> {
    pub(super) title: String,
    /// Title of the vertical axis, with its unit.
    pub(super) carried: &'a str,
    pub(super) marks: Vec<Mark>,
    pub(super) ellipses: bool,
    pub(super) labels: bool,
}

pub(super) fn links(results: &Results) -> Vec<&str> {
    let mut links: Vec<&str> = Vec::new();
    for group in &results.summary.groups {
        if !links.contains(&group.link.as_str()) {
            links.push(&group.link);
        }
    }
    links
}

fn is_shown(side: Option<&str>) -> bool {
    side != Some(alcc_results::SIMULATED)
}

/// Number of a side of a scheme.
pub(super) type Numbers<'c> = dyn Fn(&str, Option<&str>) -> usize + 'c;

/// The panel over several links.
pub(super) fn over_all<'a>(
    results: &'a Results,
    links: &[&str],
    number: &Numbers<'_>,
) -> Option<Panel<'a>> {
    if links.len() < 2 {
        return None;
    }
    let everywhere = results
        .summary
        .overall
        .iter()
        .filter(|o| is_shown(o.side.as_deref()));
    let has = |field: &str| everywhere.clone().all(|o| o.fields.contains_key(field));
    let (field, carried, factor) = if has("utilization") {
        ("utilization", "utilization %", 100.0)
    } else {
        ("throughput_mbps", "Mbit/s", 1.0)
    };
    let marks = everywhere
        .filter_map(|all| {
            let of_link = |link: &&str| {
                let group =
                    results.summary.groups.iter().find(|g| {
                        g.link == *link && g.scheme == all.scheme && g.side == all.side
                    })?;
                Some([
                    group.median("delay_mean_ms")?,
                    factor * group.median(field)?,
                ])
            };
            Some(Mark {
                name: results.label(&all.scheme),
                number: number(&all.scheme, all.side.as_deref()),
                at: [
                    *all.fields.get("delay_mean_ms")?,
                    factor * all.fields.get(field)?,
                ],
                dots: links.iter().filter_map(of_link).collect(),
                front: all.front,
            })
        })
        .collect();
    Some(Panel {
        title: format!("all {} links: means (dots: links)", links.len()),
        carried,
        marks,
        ellipses: false,
        labels: true,
    })
}

/// The panel of one link.
pub(super) fn one<'a>(
    results: &'a Results,
    link: &str,
    labels: bool,
    number: &Numbers<'_>,
) -> Panel<'a> {
    let groups = results.summary.groups.iter();
    let marks = groups
        .filter(|g| g.link == link && is_shown(g.side.as_deref()))
        .filter_map(|group| {
            let of_run = |row: &Row| Some([row.delay_mean_ms?, row.throughput_mbps?]);
            let runs = results.flows.iter().filter(|row| {
                row.link == link && row.scheme == group.scheme && row.side == group.side
            });
            Some(Mark {
                name: results.label(&group.scheme),
                number: number(&group.scheme, group.side.as_deref()),
                at: [
                    group.median("delay_mean_ms")?,
                    group.median("throughput_mbps")?,
                ],
                dots: if group.runs > 1 {
                    runs.filter_map(of_run).collect()
                } else {
                    Vec::new()
                },
                front: group.front,
            })
        })
        .collect();
    Panel {
        title: link.to_owned(),
        carried: "Mbit/s",
        marks,
        ellipses: true,
        labels,
    }
}

impl Mark {
    /// Its figures.
    pub(super) fn says(&self, panel: &Panel<'_>) -> String {
        let [ms, carried] = self.at;
        format!("{} {carried:.1} {}, {ms:.0} ms", self.name, panel.carried)
    }
}
