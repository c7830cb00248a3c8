// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `alcc-lab mdi`: from a teacher to a table that the simulator takes.
use std::path::Path;
use std::process::{Command, Output};

fn alcc(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_alcc-lab"));
    command.current_dir(folder).args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const SHORT: [&str; 7] = [
    "mdi",
    "train",
    "--duration",
    "10s",
    "--link",
    "lte",
    "--seeds",
];

#[test]
fn a_table_is_learned_added_up_and_tried() {
    let folder = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| {
        let out = alcc(folder.path(), args);
        assert!(out.status.success(), "{args:?}: {}", text(&out.stderr));
        out
    };
    let train = |more: &[&str]| run(&[&SHORT[..], more].concat());
    train(&["1..2", "--output", "whole.csv", "--page", "page.html"]);
    train(&["1", "--form", "counts", "--output", "a"]);
    train(&["2", "--form", "counts", "--jobs", "1", "--output", "b"]);
    run(&[
        "mdi", "train", "--add", "b", "--add", "a", "--output", "sum.csv",
    ]);
    let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    assert!(read("whole.csv") == read("sum.csv"), "counts add up");
    let head = "levels,1.5,3,4.5,6,7.5\n11,-20,20,4,11,-10,10,2\n";
    assert!(read("whole.csv").starts_with(head));
    train(&["1", "--levels", "none", "--output", "authors.csv"]);
    assert!(read("authors.csv").starts_with("21,-20,20,2,11,-10,10,2\n"));
    assert!(read("page.html").contains("% beyond"));
    let counts = read("b");
    let head = counts.lines().take(3).collect::<Vec<_>>().join("\n");
    assert!(
        head.contains("alcc-lab mdi train --duration 10s --link lte --seeds 2 --form counts\n")
    );
    assert!(head.contains("SHA-256"), "{head}");
    // A truncated copy, also at the end of a line, is not a smaller table.
    let half = &counts[..counts.len() / 2];
    for cut in [half, &half[..=half.rfind('\n').unwrap()]] {
        std::fs::write(folder.path().join("cut"), cut).unwrap();
        let out = alcc(folder.path(), &["mdi", "train", "--add", "cut"]);
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{said}");
        assert!(said.contains("--add cut: SHA-256"), "{said}");
    }
    let out = run(&[
        "mdi",
        "validate",
        "--walk",
        "mdi:matrix=sum.csv",
        "--link",
        "lte",
        "--seeds",
        "9",
        "--duration",
        "10s",
        "--within",
        "900,900",
        "--json",
    ]);
    let json: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(json["links"][0]["link"], "lte");
    assert_eq!(json["summary"]["off"], serde_json::json!([]));
    assert!(json["summary"]["mean"]["walk_mbps"].as_f64().unwrap() > 0.0);
}

#[test]
fn what_is_wrong_is_said_in_a_line() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("bad"),
        "21,-20,20,2,11,-10,10,2\n0 999 1\n",
    )
    .unwrap();
    for (args, code, words) in [
        (
            &["train", "--grid", "21,-20,20,3,11,-10,10,2"][..],
            2,
            "last = first",
        ),
        (&["train", "--cut", "1"], 2, "less than 1"),
        (&["train", "--levels", "3,2"], 2, "ascending"),
        (
            &[
                "train",
                "--levels",
                "2,3,4,5,6,7,8,9,10",
                "--grid",
                "21,-20,20,2,11,-10,10,2",
            ],
            2,
            "2048 together",
        ),
        (&["train", "--seeds", "3..1"], 2, "FIRST..LAST"),
        (
            &["train", "--teacher", "nothing", "--link", "lte"],
            2,
            "nothing",
        ),
        (&["train", "--link", "no-such-trace"], 2, "no-such-trace"),
        (&["train", "--add", "bad"], 2, "line 2"),
        (&["train", "--add", "missing"], 2, "missing"),
        (
            &[
                "train",
                "--link",
                "lte",
                "--seeds",
                "1",
                "--duration",
                "1ms",
            ],
            1,
            "no pair",
        ),
        (
            &["validate", "--walk", "mdi:matrix=missing", "--link", "lte"],
            2,
            "missing",
        ),
        (&["validate", "--within", "5"], 2, "5,20"),
        (
            &[
                "validate",
                "--walk",
                "fixed:window=1",
                "--link",
                "lte",
                "--seeds",
                "1",
                "--duration",
                "5s",
            ],
            1,
            "on 2 of 2 links and means: lte, mean",
        ),
    ] {
        let out = alcc(folder.path(), &[&["mdi"], args].concat());
        let said = text(&out.stderr);
        assert!(
            out.status.code() == Some(code) && said.contains(words),
            "{args:?}: {said}"
        );
    }
}
