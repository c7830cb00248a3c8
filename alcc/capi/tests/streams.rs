// SPDX-License-Identifier: Apache-2.0 OR MIT
//! C programs over the library, on loopback: `tests/c/scenarios.c` describes the checks of each.
mod support;
use support::{command, no_compiler, program, run};

fn scenario(name: &str, env: &[(&str, &str)]) -> String {
    if no_compiler() {
        return String::new();
    }
    run(command(&program("scenarios"))
        .arg(name)
        .envs(env.iter().copied()))
}

macro_rules! scenarios {
    ($($name:ident: $scenario:literal $env:expr;)*) => {$(
        #[test]
        fn $name() {
            scenario($scenario, &$env);
        }
    )*};
}

const ONE: [(&str, &str); 1] = [("ALCC_CC", "fixed:window=1")];
const TWO: [(&str, &str); 1] = [("ALCC_CC", "fixed:window=2")];
const TEN: [(&str, &str); 1] = [("ALCC_CC", "fixed:window=10")];

scenarios! {
    a_hundred_connections_at_once_do_not_mix: "crosstalk" [];
    a_full_queue_gives_all_bytes_back: "capacity" ONE;
    a_reset_in_the_middle_is_told_and_kept: "reset" TWO;
    half_close_drains_and_reading_goes_on: "half_close" TWO;
    close_has_a_deadline: "deadline" TEN;
    abort_is_a_reset: "abort" TEN;
    poll_waits_for_room: "poll_level" TWO;
    level_triggered_epoll_waits_for_room: "epoll_level" TWO;
    edge_triggered_epoll_waits_for_room: "epoll_edge" TWO;
    small_writes_leave_nothing_in_flight: "small" [];
    signals_and_time_limits_end_a_blocking_send: "signals" TEN;
    ipv6_is_the_same: "ipv6" TWO;
    connections_that_we_open: "connects" [];
    what_is_no_stream_is_its_namesakes: "unknown" [];
    a_child_of_fork_takes_a_stream_over: "forks" [];
    exit_waits_for_what_was_closed: "exits" [];
    algorithms_are_set_and_changed: "algorithms" [];
    threads_share_a_stream: "threads" TWO;
    settings_of_a_stream_that_sends_keep_its_order: "deadlines" [];
    two_first_sends_make_one_stream: "first_sends" [];
}

#[test]
fn the_environment_sets_defaults_and_nonsense_is_refused_in_words() {
    if no_compiler() {
        return;
    }
    let set = [
        ("ALCC_CC", "copa:profile=paper"),
        ("ALCC_FEEDBACK", "tcp-info"),
        ("ALCC_ENFORCE", "queue"),
        ("ALCC_QUEUE", "4096"),
    ];
    assert_eq!(
        scenario("environment", &set),
        "copa:profile=paper tcp-info queue 4096\n\n"
    );
    let said = scenario("environment", &[("ALCC_CC", "vrus")]);
    assert!(
        said.starts_with("budget timestamps queue+pacing 1048576\nALCC_CC: no algorithm 'vrus'"),
        "{said}"
    );
}
