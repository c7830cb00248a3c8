// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `lab/notes/board.md` is what the stored board says, and that is of the definitions that are here.
use alcc_experiment::board::{Board, Kind};
use std::fs;
use std::path::PathBuf;

const AGAIN: &str = "run: alcc-lab reproduce --board lab/notes --traces DIR";

fn doc(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../lab/notes")
        .join(name)
}

fn stored() -> (String, Board) {
    let text = fs::read_to_string(doc("board.json")).unwrap();
    let board = Board::from_json(&text).unwrap();
    (text, board)
}

#[test]
fn the_page_says_what_the_stored_board_says() {
    let (text, board) = stored();
    let page = board.page().unwrap();
    // The causes of rows below others may be written without another run.
    if std::env::var_os("ALCC_BLESS").is_some() {
        fs::write(doc("board.md"), &page).unwrap();
    }
    assert!(
        fs::read_to_string(doc("board.md")).unwrap() == page,
        "lab/notes/board.md is another page: ALCC_BLESS=1 writes it; for other figures {AGAIN}"
    );
    assert!(
        board.to_json().unwrap() == text,
        "lab/notes/board.json was edited: {AGAIN}"
    );
}

#[test]
fn the_stored_board_is_of_these_definitions() {
    let (_, board) = stored();
    for kind in Kind::SIMULATED {
        assert_eq!(
            board.definitions.get(kind.name()),
            kind.toml().map(alcc_live::hash_of_text).as_ref(),
            "another definition of {} than that of the results: {AGAIN}",
            kind.name()
        );
    }
}

/// Nobody reads a default that the rule does not give without a word about it.
#[test]
fn another_default_than_the_boards_is_explained() {
    let (_, board) = stored();
    let run = include_str!("../../../alcc/cli/src/chosen.rs");
    let decision =
        include_str!("../../../docs/decisions/0231-choose-the-default-by-a-fixed-rule.md");
    let named = board.default_algorithm().unwrap();
    assert!(
        run.contains(&format!("[default: {named}]"))
            || decision.contains(&format!("The rule names `{named}`")),
        "the board names {named}: make it the default, or say in decision 0231 why not"
    );
}
