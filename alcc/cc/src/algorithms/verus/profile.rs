// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The delay profile's points: one delay per window, learned packet by packet (paper, section 4;
//! program: 40 000 slots).
//!
//! Differs from both sources: memory is allocated in pages of 32 windows, at the first packet sent
//! under one of them. Known weakness, shared with the original: a window that is not visited keeps
//! its old delay.

use crate::Packet;

/// Largest window that has a slot.
pub const LARGEST: u32 = 39_999;
const PAGE: usize = 32;
/// Value of a slot without a sample; real delays are positive.
const UNSET: f64 = -1.0;

/// A point of a learned delay profile, or of the curve through the points.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ProfilePoint {
    /// The window, in packets.
    pub window: u32,
    /// The delay that this window causes, in ms.
    pub delay_ms: f64,
    /// True if the point is on the curve, false if it was measured.
    pub fitted: bool,
}

/// The label of a window: its whole packets. Its packets are recorded under it.
pub fn label(window: f64) -> u32 {
    window.clamp(1.0, f64::from(LARGEST)) as u32
}

/// The label that a packet was sent under.
pub fn label_of(packet: &Packet) -> u32 {
    (packet.tag.0.min(u64::from(LARGEST)) as u32).max(1)
}

/// Delay in ms by window in packets.
#[derive(Clone, Default, Debug)]
pub struct Points {
    pages: Vec<Option<Box<[f64; PAGE]>>>,
    set: u32,
    largest: u32,
}

impl Points {
    /// Takes the delay of one packet sent under window `w`.
    pub fn update(&mut self, w: u32, delay: f64, old_weight: f64) {
        let w = w.clamp(1, LARGEST);
        let (page, slot) = (w as usize / PAGE, w as usize % PAGE);
        if self.pages.len() <= page {
            self.pages.resize(page + 1, None);
        }
        let value = &mut self.pages[page].get_or_insert_with(|| Box::new([UNSET; PAGE]))[slot];
        if *value < 0.0 {
            *value = delay;
            self.set += 1;
            self.largest = self.largest.max(w);
        } else {
            *value = old_weight * *value + (1.0 - old_weight) * delay;
        }
    }

    /// The delay recorded for exactly this window.
    pub fn at(&self, w: u32) -> Option<f64> {
        let page = self.pages.get(w as usize / PAGE)?.as_ref()?;
        Some(page[w as usize % PAGE]).filter(|d| *d >= 0.0)
    }

    /// The number of windows with a delay.
    pub fn count(&self) -> u32 {
        self.set
    }

    /// The largest window with a delay; 0 if there is none.
    pub fn largest(&self) -> u32 {
        self.largest
    }

    /// `(window, delay)` in ascending order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (u32, f64)> + '_ {
        self.pages
            .iter()
            .enumerate()
            .filter_map(|(p, page)| page.as_ref().map(|page| (p, page)))
            .flat_map(|(p, page)| {
                page.iter()
                    .enumerate()
                    .filter(|(_, d)| **d >= 0.0)
                    .map(move |(s, d)| ((p * PAGE + s) as u32, *d))
            })
    }

    /// Reports all points.
    pub fn show(&self, put: &mut dyn FnMut(ProfilePoint)) {
        for (window, delay_ms) in self.iter() {
            put(ProfilePoint {
                window,
                delay_ms,
                fitted: false,
            });
        }
    }

    /// Forgets all windows from `w` on.
    pub fn forget_from(&mut self, w: u32) {
        for (p, page) in self.pages.iter_mut().enumerate() {
            for (s, d) in page.iter_mut().flat_map(|page| page.iter_mut()).enumerate() {
                if p * PAGE + s >= w as usize && *d >= 0.0 {
                    *d = UNSET;
                    self.set -= 1;
                }
            }
        }
        let last = self.iter().next_back();
        self.largest = last.map_or(0, |(w, _)| w);
    }

    /// Forgets everything, but keeps the memory.
    pub fn clear(&mut self) {
        self.forget_from(0);
    }

    /// The window before the first curve: the one before the first window, from 2 up, whose delay
    /// exceeds `d`. If none does, the program tries `d - 2`, `d - 4`, ...; for an empty table the
    /// result is 1.
    pub fn window_for(&self, d: f64) -> u32 {
        let mut longest = f64::NEG_INFINITY;
        for (w, delay) in self.iter().filter(|(w, _)| *w >= 2) {
            if delay > d {
                return w - 1;
            }
            longest = longest.max(delay);
        }
        if longest < 0.0 {
            return 1;
        }
        // The result of the repeated subtraction: the first d - 2k below the longest delay.
        let d = d - 2.0 * (((d - longest) / 2.0).floor() + 1.0);
        self.iter()
            .find(|(w, delay)| *w >= 2 && *delay > d)
            .map_or(1, |(w, _)| w - 1)
    }

    /// The delay of the nearest window at or below `w` that has one.
    pub fn delay_at(&self, w: u32) -> Option<f64> {
        self.iter().rev().find(|(x, _)| *x <= w).map(|(_, d)| d)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(of: &[(u32, f64)]) -> Points {
        let mut points = Points::default();
        for (w, d) in of {
            points.update(*w, *d, 0.875);
        }
        points
    }

    #[test]
    fn a_point_is_its_first_sample_and_then_an_average() {
        let mut p = points(&[(7, 80.0)]);
        assert_eq!(p.at(7), Some(80.0));
        p.update(7, 40.0, 0.875);
        assert_eq!(
            (p.at(7), p.at(8), p.count(), p.largest()),
            (Some(75.0), None, 1, 7)
        );
    }

    #[test]
    fn the_first_crossing_from_the_left_counts() {
        let p = points(&[(1, 50.0), (2, 60.0), (3, 55.0), (4, 80.0)]);
        assert_eq!((p.window_for(58.0), p.window_for(65.0)), (1, 3));
    }

    #[test]
    fn a_delay_beyond_all_points_is_lowered_by_two_until_it_maps() {
        let p = points(&[(10, 100.0), (20, 200.0)]);
        assert_eq!((p.window_for(150.0), p.window_for(250.0)), (19, 19));
        assert_eq!((p.window_for(200.0), p.window_for(198.0)), (19, 19));
        assert_eq!(Points::default().window_for(3.0), 1);
        assert_eq!(points(&[(1, 9.0)]).window_for(3.0), 1);
    }

    #[test]
    fn forgetting_keeps_the_count_and_the_largest() {
        let mut p = points(&[(1, 5.0), (300, 6.0), (99_999, 7.0)]);
        assert_eq!((p.count(), p.largest()), (3, LARGEST));
        p.forget_from(300);
        assert_eq!((p.count(), p.largest(), p.delay_at(299)), (1, 1, Some(5.0)));
        p.clear();
        assert_eq!((p.count(), p.largest(), p.delay_at(9)), (0, 0, None));
    }
}
