// SPDX-License-Identifier: Apache-2.0 OR MIT
//! M1 to M19: vectors worked out by hand from the authors' formulas.
use super::*;
use alcc_cc::{Discard, Registry};

fn near(found: f64, want: f64) {
    assert!((found - want).abs() < 5e-4, "{found} instead of {want}");
}

/// Epochs of delays and windows; the smallest delay is 40 ms.
fn run(epochs: &[(f64, f64)]) -> Vec<Epoch> {
    let epoch = |&(delay, window): &(f64, f64)| Epoch {
        delay,
        smallest: 40.0,
        window,
    };
    epochs.iter().map(epoch).collect()
}

const FINE: Axis = Axis {
    min: -10,
    step: 2,
    bins: 11,
};

#[test]
fn changes_in_per_cent_times_the_decimal_logarithm() {
    // M1 to M4.
    near(change(101.0, 100.0, 1.01), 2.0);
    near(change(11.0, 10.0, 1.01), 10.0);
    near(change(90.0, 100.0, 1.01), -20.0);
    near(change(50.0, 50.0, 1.01), 0.0);
    // Below a millisecond the sign would turn.
    assert!(change(0.2, 0.1, 0.0) < 0.0 && change(0.2, 0.1, 1.01) > 0.0);
}

#[test]
fn bins_are_the_nearest_and_half_goes_away_from_zero() {
    let values = |of: &dyn Fn(f64) -> usize, list: &[f64]| -> Vec<f64> {
        list.iter().map(|v| FINE.value(of(*v))).collect()
    };
    // M5, M6.
    let nearest = |v| FINE.nearest(v);
    assert_eq!(
        values(&nearest, &[2.9, 3.0, 3.1, 1.0, -1.0]),
        [2.0, 4.0, 4.0, 2.0, -2.0]
    );
    let below = |v| FINE.below(v);
    assert_eq!(values(&below, &[2.9, 3.0, 3.1, 1.0]), [2.0, 2.0, 2.0, 0.0]);
    assert_eq!([FINE.below(2.9), FINE.below(3.1)], [6, 6]);
    assert_eq!(
        values(&nearest, &[-99.0, 99.0, f64::NAN]),
        [-10.0, 10.0, -10.0]
    );
    assert_eq!((FINE.within(10.9), FINE.within(11.0)), (Some(10), None));
    // M7.
    let grid = Grid::PUBLISHED;
    let (a, b) = (grid.delay.nearest(0.0), grid.window.nearest(0.0));
    assert_eq!((a, b, grid.state(a, b), grid.states()), (5, 12, 137, 225));
}

#[test]
fn windows_after_a_change() {
    // M8 to M11.
    near(original::moved(10.0, 5.0), 10.5);
    near(original::moved(100.0, 5.0), 102.5);
    near(original::moved(1.0, 5.0), 1.16610);
    near(moved(1.0, 5.0), 1.16610);
    near(original::moved(1000.0, -60.0), 800.0);
    // The program's explosion near one packet, and ours.
    near(original::moved(1.05, 5.0), 3.5277);
    assert!(moved(1.05, 5.0) < 1.3);
}

/// One block of the published table, and nothing else.
fn published_block() -> String {
    let n = Grid::PUBLISHED.states();
    let mut text = "25,-60,60,5,9,-25,15,5\n".to_owned();
    let cells = [
        (1, 0.000_245_519_273_263),
        (10, 0.002_455_192_732_63),
        (11, 0.017_186_349_128_4),
        (12, 0.960_471_397_005),
        (13, 0.015_222_194_942_3),
        (14, 0.003_437_269_825_68),
        (15, 0.000_491_038_546_526),
        (16, 0.000_491_038_546_526),
    ];
    for state in 0..n {
        let mut row = vec!["0.0".to_owned(); n];
        if state == 137 {
            for (bin, p) in cells {
                row[8 * 25 + bin] = p.to_string();
            }
        }
        text += &(row.join(",") + "\n");
    }
    text
}

#[test]
fn draws_in_the_order_of_the_bins() {
    let matrix = Matrix::parse(&published_block()).unwrap();
    let value = |r| matrix.grid().window.value(matrix.draw(137, 8, r));
    // M12, M13.
    assert_eq!(
        [0.0001, 0.01, 0.5, 0.985, 0.9999].map(value),
        [-55.0, -5.0, 0.0, 5.0, 20.0]
    );
    // Never seen: the window's change nearest to it that was; with another change of delay nothing
    // was seen anywhere: hold.
    assert_eq!(matrix.draw(140, 8, 0.5), 12);
    assert_eq!(matrix.draw(137, 0, 0.5), 12);
    // Another last change of delay: what was seen with that new one anywhere.
    assert_eq!(matrix.draw(0, 8, 0.01), 11);
    // The program walks down, and may find nothing.
    assert_eq!(
        (matrix.search(150, 8, 0.5), matrix.search(136, 8, 0.5)),
        (Some(12), None)
    );
}

#[test]
fn beyond_the_grid_the_program_has_rules_of_its_own() {
    let matrix = Arc::new(Matrix::parse(&published_block()).unwrap());
    let mut m = original::Original::new(matrix, original::ABOVE, original::BELOW);
    (m.window, m.windows, m.delays) = (40.0, [40.0; 2], [100.0; 2]);
    // M15: changes of +16 and -26 at 100 ms are 8 and 13 per cent.
    near(m.step(108.0), 39.0);
    near(m.step(87.0), 61.0);
}

#[test]
fn counting_and_leaving_out_what_is_rare() {
    let distribution = |pairs: [u64; 3]| {
        let grid = Grid {
            window: Axis {
                min: -1,
                step: 1,
                bins: 3,
            },
            delay: Axis {
                min: 0,
                step: 1,
                bins: 1,
            },
        };
        let mut counts = Counts::new(grid, Bounds::default());
        counts.pairs_mut()[..3].copy_from_slice(&pairs);
        let (cut, least) = (0.02, 0);
        let text = counts.published(Shape {
            cut,
            least,
            ..Shape::default()
        });
        let row: Vec<f64> = text
            .lines()
            .nth(1)
            .unwrap()
            .split(',')
            .map(|p| p.parse().unwrap())
            .collect();
        row
    };
    // M16, M17: two per cent stay, less does not.
    assert_eq!(distribution([1, 48, 1]), [0.02, 0.96, 0.02]);
    assert_eq!(distribution([1, 98, 1]), [0.0, 1.0, 0.0]);
}

#[test]
fn what_leaves_the_grid_is_not_learned() {
    // M18: changes of (0,0), (2,0), (12,0), (0,2) in delay and window: only the first pair is
    // inside, -10 to 10 by 2.
    let mut counts = Counts::new(Grid::TRAINING, Bounds::default());
    let at = |d: f64, change: f64| d * (1.0 + change / 100.0 / libm::log10(d));
    let (d0, w0) = (100.0, 100.0);
    let d2 = at(d0, 2.0);
    let d3 = at(d2, 12.0);
    let w4 = at(w0, 2.0);
    counts.learn(
        &run(&[(d0, w0), (d0, w0), (d2, w0), (d3, w0), (d3, w4)]),
        Counting::Nearest,
    );
    assert_eq!(counts.total(), 1);
    let grid = Grid::TRAINING;
    let state = |d, w| grid.state(grid.delay.nearest(d), grid.window.nearest(w));
    assert_eq!(
        counts.pairs_mut()[state(0.0, 0.0) * grid.states() + state(2.0, 0.0)],
        1000
    );
    // M19: 60 ms, 20 packets; then nothing for 8 ms and 22 packets: the delay holds, the window has
    // changed by 13.
    near(change(22.0, 20.0, 1.01), 13.0103);
    assert_eq!(grid.window.value(grid.window.nearest(13.01)), 14.0);
}

#[test]
fn a_table_comes_back_as_it_was_written() {
    let mut counts = Counts::new(Grid::TRAINING, Bounds::default());
    let epochs: Vec<(f64, f64)> = (0..2000)
        .map(|i| (100.0 + f64::from(i % 3), 50.0 + f64::from(i % 2)))
        .collect();
    counts.learn(&run(&epochs), Counting::Nearest);
    let published = Matrix::parse(&counts.published(Shape::default())).unwrap();
    let compact = Levels::expand(&counts.compact(Shape::default())).unwrap();
    let compact = compact.only().unwrap();
    for (state, next) in [(115, 5), (116, 6), (0, 0)] {
        for r in [0.1, 0.5, 0.9] {
            assert_eq!(published.draw(state, next, r), compact.draw(state, next, r));
        }
    }
}

#[test]
fn a_change_between_two_bins_counts_in_both_and_keeps_its_mean() {
    // At 100 packets the scale is 2: half a packet is a change of 1, between the bins 0 and 2;
    // 40 packets are 80, beyond the grid.
    let grid = Grid::TRAINING;
    let state = |d, w| grid.state(grid.delay.nearest(d), grid.window.nearest(w));
    for (to, want) in [
        (100.5, vec![(0.0, 500), (2.0, 500)]),
        (99.9, vec![(-2.0, 100), (0.0, 900)]),
        (140.0, vec![(20.0, 1000)]),
    ] {
        let mut counts = Counts::new(grid, Bounds::default());
        let epochs = run(&[(50.0, 100.0), (50.0, 100.0), (50.0, to)]);
        counts.learn(&epochs, Counting::MeanPreserving);
        let row = state(0.0, 0.0) * grid.states();
        for (window, share) in want {
            assert_eq!(counts.pairs_mut()[row + state(0.0, window)], share, "{to}");
        }
        assert_eq!(counts.total(), 1);
        assert_eq!(Counts::parse(&counts.text()).unwrap(), counts);
    }
    let wrong = |text: &str| Counts::parse(text).unwrap_err().to_string();
    let head = Counts::new(grid, Bounds::default()).text();
    assert!(wrong("5 6").contains("eight whole numbers"));
    assert!(
        wrong(&(head.clone() + "0 231 5\n"))
            .starts_with("line 2: '0 231 5': expected FROM TO COUNT")
    );
    assert!(wrong(&(head + "# ours\n1 1 1\n1 x 1\n")).starts_with("line 4"));
}

#[test]
fn each_level_has_a_table_of_its_own() {
    // The smallest delay is 40 ms. At 80 the window rises by 2 of 100, above 80 it falls.
    let bounds = Bounds::parse("1.5,2").unwrap();
    assert_eq!(
        [1.0, 1.5, 1.6, 2.0, 2.1, 99.0].map(|r| bounds.level(r)),
        [0, 0, 1, 1, 2, 2]
    );
    let mut counts = Counts::new(Grid::TRAINING, bounds.clone());
    for _ in 0..50 {
        for (delay, window) in [(80.0, 102.0), (80.5, 98.0)] {
            let epochs = [(delay, 100.0), (delay, 100.0), (delay, window)];
            counts.learn(&run(&epochs), Counting::MeanPreserving);
        }
    }
    assert_eq!(counts.total(), 100);
    assert_eq!(Counts::parse(&counts.text()).unwrap(), counts);
    let published = counts.published(Shape::default());
    assert!(published.starts_with("levels,1.5,2\n21,-20,20,2,11,-10,10,2\n"));
    let published = Levels::parse(&published).unwrap();
    let compact = Levels::expand(&counts.compact(Shape::default())).unwrap();
    assert_eq!(published, compact);
    let state = Grid::TRAINING.state(5, 10);
    let change = |ratio: f64| {
        let bin = published.at(ratio).draw(state, 5, 0.5);
        Grid::TRAINING.window.value(bin)
    };
    // In the lowest level nothing was seen: hold.
    assert_eq!([1.2, 1.9, 2.0, 2.1].map(change), [0.0, 4.0, 4.0, -4.0]);
    assert_eq!(published.only(), None);
    let other = Counts::new(Grid::TRAINING, Bounds::default());
    let why = counts.add(&other).unwrap_err();
    assert!(
        why.ends_with("cannot be added to levels,1.5,2 and 21,-20,20,2,11,-10,10,2"),
        "{why}"
    );
}

#[test]
fn wrong_levels_are_refused_with_their_line() {
    let refused = |text: &str| Levels::parse(text).unwrap_err().to_string();
    for bad in ["", "1", "2,2", "3,2", "x", "2,", "NaN", "inf", "0.5,2"] {
        let why = refused(&format!("levels,{bad}\n1,0,0,1,1,0,0,1\n1\n1\n"));
        let start = format!("line 1: '{bad}': expected at most 16 ascending multiples");
        assert!(why.starts_with(&start), "{why}");
    }
    let head = "levels,2\n1,0,0,1,1,0,0,1\n";
    assert!(refused("levels,2\n").starts_with("line 1: '': expected bins"));
    assert_eq!(
        refused(&format!("{head}1\n")),
        "line 4: the end after 0 states: expected 1 lines of states"
    );
    assert_eq!(
        refused(&format!("{head}1\n1\n1\n")),
        "line 5: one more line: expected 2 lines of states"
    );
    assert_eq!(
        refused(&format!("{head}1\n0.5\n")),
        "line 4: 1 probabilities that sum up to 0.5: expected 1, or all 0"
    );
    let much = refused("levels,2,3\n1000,0,999,1,1,0,0,1\n");
    assert_eq!(
        much,
        "line 2: 3 levels of 1000 states: expected at most 2048 together"
    );
}

#[test]
fn a_walk_that_stands_too_high_is_drawn_back() {
    // After any draws the built-in walk falls at eight times the smallest delay and rises at twice.
    let walk = |delay: f64| {
        let mut mdi = Mdi::new(levelled().unwrap());
        mdi.min_rtt = 40.0;
        (mdi.window, mdi.windows, mdi.delays) = (100.0, [100.0; 2], [delay; 2]);
        for _ in 0..100 {
            let next = mdi.step(delay);
            mdi.windows = [next.clamp(1.0, MAX_WINDOW), mdi.windows[0]];
        }
        mdi.windows[0]
    };
    assert!(
        walk(320.0) < 80.0 && walk(80.0) > 120.0,
        "{} {}",
        walk(320.0),
        walk(80.0)
    );
}

#[test]
fn a_wrong_table_is_refused_with_its_line() {
    let refused = |text: &str| Matrix::parse(text).unwrap_err().to_string();
    assert!(refused("").starts_with("line 1: '': expected bins,first,last,step"));
    assert!(refused("25,-60,60,5\n").contains("eight whole numbers"));
    assert!(refused("25,-60,55,5,9,-25,15,5").contains("last = first + step * (bins - 1)"));
    assert!(
        refused("3,-1,1,1,1,0,0,1\n0,1,0\n")
            .starts_with("line 3: the end after 1 states: expected 3 lines")
    );
    assert_eq!(
        refused("3,-1,1,1,1,0,0,1\n0,1\n"),
        "line 2: 2 numbers: expected 3, one for each state"
    );
    assert_eq!(
        refused("3,-1,1,1,1,0,0,1\n0,x,0\n"),
        "line 2: 'x': expected a probability from 0 to 1"
    );
    assert_eq!(
        refused("3,-1,1,1,1,0,0,1\n0,0.5,0\n"),
        "line 2: 3 probabilities that sum up to 0.5: expected 1, or all 0"
    );
    assert!(
        refused("3,-1,1,1,1,0,0,1\n0,1,0\n0,1,0\n0,1,0\n0,1,0\n")
            .starts_with("line 5: one more line")
    );
    for huge in [
        "2000000000,0,1999999999,1,2,0,1,1",
        "3,-1,1,1,-1,0,0,1",
        "3,-1,1,0,1,0,0,1",
    ] {
        assert!(refused(huge).contains("last = first"), "{huge}");
    }
}

#[test]
fn files_are_read_only_with_a_reader() {
    let build = |registry: Registry, text: &str| {
        registry
            .build(&text.parse().unwrap())
            .map(drop)
            .map_err(|e| e.to_string())
    };
    let none = crate::registry();
    assert_eq!(build(none.clone(), "mdi"), Ok(()));
    assert_eq!(
        build(none.clone(), "mdi:matrix=m.csv").unwrap_err(),
        "algorithm mdi: matrix=m.csv: files cannot be read here"
    );
    let reading = none.reading(|path| match path {
        "good" => Ok("1,0,0,1,1,0,0,1\n1\n".to_owned()),
        "levels" => Ok("levels,2\n1,0,0,1,1,0,0,1\n1\n1\n".to_owned()),
        "bad" => Ok("1,0,0,1,1,0,0,1\n2\n".to_owned()),
        _ => Err("no such file".to_owned()),
    });
    assert_eq!(
        build(reading.clone(), "mdi:matrix=good,profile=original"),
        Ok(())
    );
    assert_eq!(build(reading.clone(), "mdi:matrix=levels"), Ok(()));
    assert_eq!(
        build(reading.clone(), "mdi:matrix=levels,profile=original").unwrap_err(),
        "algorithm mdi: matrix=levels, levels: profile=original takes a table in the authors' form, without them"
    );
    assert_eq!(
        build(reading.clone(), "mdi:matrix=bad").unwrap_err(),
        "algorithm mdi: matrix=bad, line 2: '2': expected a probability from 0 to 1"
    );
    assert_eq!(
        build(reading, "mdi:matrix=x").unwrap_err(),
        "algorithm mdi: matrix=x: no such file"
    );
}

#[test]
fn a_loss_lasts_in_ours_and_not_in_the_programs() {
    let now = Time::from_millis(1);
    let mut cx = Cx {
        now,
        log: &mut Discard,
    };
    let mut ours = Mdi::new(levelled().unwrap());
    (ours.window, ours.windows) = (100.0, [100.0; 2]);
    ours.reduce(&mut cx, "loss", Tag(100));
    assert_eq!((ours.window, ours.windows[0]), (70.0, 70.0));
    let mut theirs =
        original::Original::new(without_levels().unwrap(), original::ABOVE, original::BELOW);
    (theirs.window, theirs.windows) = (100.0, [100.0; 2]);
    theirs.reduce(&mut cx, "loss", Tag(100));
    assert_eq!((theirs.window, theirs.windows[0]), (70.0, 100.0));
}
