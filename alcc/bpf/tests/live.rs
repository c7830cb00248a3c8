// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The machine's own kernel: load, choose, attach, give back, unload.
#![cfg(feature = "loader")]
#[path = "support/sockets.rs"]
mod sockets;
#[path = "../../cli/tests/support/starts.rs"]
mod starts;
mod support;

use alcc_bpf::{
    Chosen, Found, Future, Options, Selection, attach, controls, detach, load, survey, unload,
};
use alcc_sys::OptionsMap;
use sockets::{Loaded, Pair, choose, control_of};
use starts::first_right;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;

/// Initial limit of unsent bytes of a socket: 16 KiB, plus a mark that shows its origin.
const FIRST: u32 = 16_384 | 0x5A5;

/// One test, because all of it shares the machine's one kernel.
#[test]
fn a_control_is_loaded_chosen_attached_given_back_and_unloaded() {
    let Some(_loaded) = Loaded::new() else {
        return;
    };
    let again = load(None).unwrap();
    assert_eq!(again.len(), controls().count());
    assert!(
        again.iter().all(|l| !l.new),
        "a second load changes nothing"
    );

    for address in ["127.0.0.1:0", "[::1]:0"] {
        let mut pair = Pair::new(address);
        let plain = control_of(&pair.server);
        let only = Selection {
            port: Some(pair.port()),
            ..Selection::default()
        };
        assert!(survey(&only).unwrap().iter().all(|f| f.control == plain));
        assert_eq!(control_of(&pair.server), plain, "a look changes nothing");

        for round in 0..2 {
            // The listener and the accepted connection. The client's local port is another.
            let found = attach(&only, "alcc_copa").unwrap();
            assert_eq!(found.len(), 2, "{found:?}");
            assert!(found.iter().all(|f| f.error.is_none()), "{found:?}");
            assert_eq!(found.iter().filter(|f| f.peer.is_none()).count(), 1);
            assert_eq!(control_of(&pair.server), "alcc_copa", "round {round}");
            assert_eq!(control_of(&pair.client), plain);
        }
        pair.carries(3_000_000);

        // A listener hands its control to what it accepts, and what was before.
        let client = TcpStream::connect(pair.listener.local_addr().unwrap()).unwrap();
        let (later, _) = pair.listener.accept().unwrap();
        assert_eq!(control_of(&later), "alcc_copa");

        let back = detach(&only).unwrap();
        assert_eq!(back.len(), 3, "{back:?}");
        assert_eq!(control_of(&pair.server), plain);
        assert_eq!(control_of(&later), plain);
        assert_eq!(detach(&only).unwrap(), [], "nothing is given back twice");
        pair.carries(100_000);
        drop(client);
    }

    // By process, which finds the sockets of this one; and by a peer that does not exist.
    let pair = Pair::new("127.0.0.1:0");
    let mine = Selection {
        pid: Some(std::process::id()),
        port: Some(pair.port()),
        ..Selection::default()
    };
    assert_eq!(attach(&mine, "alcc_copa").unwrap().len(), 2);
    detach(&mine).unwrap();
    let nobody = Selection {
        prefix: Some("192.0.2.0/24".parse().unwrap()),
        ..mine.clone()
    };
    assert_eq!(attach(&nobody, "alcc_copa").unwrap(), []);
    let peers = Selection {
        prefix: Some("127.0.0.0/8".parse().unwrap()),
        ..mine
    };
    let found = attach(&peers, "alcc_copa").unwrap();
    assert_eq!(found.len(), 1, "a listener has no peer: {found:?}");

    // A control that the kernel does not have: the sockets stay as they are.
    let found = attach(&peers, "no_such").unwrap();
    assert!(found.iter().all(|f| f.error.is_some()), "{found:?}");
    assert_eq!(control_of(&pair.server), "alcc_copa");
    detach(&peers).unwrap();

    every_algorithm_takes_over_and_gives_back();
    options_belong_to_a_socket();
    more_than_the_kernels_list_holds_at_once();
    future_connections();
    what_is_written_ahead_is_bounded();

    // A connection that uses the control continues without its registration.
    let mut last = Pair::new("127.0.0.1:0");
    choose(&last.server, "alcc_copa").unwrap();
    let ended = unload().unwrap();
    assert_eq!(ended.controls.len(), controls().count());
    assert!(choose(&last.client, "alcc_copa").is_err());
    last.carries(3_000_000);
}

fn every_algorithm_takes_over_and_gives_back() {
    for resident in alcc_bpf::RESIDENT {
        let mut pair = Pair::new("127.0.0.1:0");
        pair.carries(100_000);
        let plain = control_of(&pair.server);
        let only = Selection {
            port: Some(pair.port()),
            ..Selection::default()
        };
        let name = resident.control.name;
        let found = attach(&only, name).unwrap();
        assert!(found.iter().all(|f| f.error.is_none()), "{found:?}");
        assert_eq!(control_of(&pair.server), name);
        pair.carries(3_000_000);
        detach(&only).unwrap();
        assert_eq!(control_of(&pair.server), plain, "{name} is given back");
        pair.carries(100_000);
    }
}

fn options_belong_to_a_socket() {
    let with = |text: &str| {
        let spec = text.parse().unwrap();
        Chosen {
            control: "alcc_budget".to_owned(),
            options: Options::of(&spec).unwrap(),
        }
    };
    let mut pair = Pair::new("127.0.0.1:0");
    let only = pair.only();
    let chosen = |found: Vec<Found>| -> Vec<String> {
        assert!(found.iter().all(|f| f.error.is_none()), "{found:?}");
        let mut all: Vec<_> = found.iter().map(|f| f.chosen().to_string()).collect();
        all.dedup();
        all
    };
    attach(&only, with("budget:delay=20ms")).unwrap();
    assert_eq!(chosen(survey(&only).unwrap()), ["alcc_budget:delay=20ms"]);
    // A listener hands them to what it accepts.
    let client = TcpStream::connect(pair.listener.local_addr().unwrap()).unwrap();
    let (later, _) = pair.listener.accept().unwrap();
    assert_eq!(chosen(survey(&only).unwrap()), ["alcc_budget:delay=20ms"]);
    // The same control with others, and with none.
    let was = attach(&only, with("budget:delay=1s")).unwrap();
    assert_eq!(chosen(was), ["alcc_budget:delay=20ms"]);
    assert_eq!(chosen(survey(&only).unwrap()), ["alcc_budget:delay=1s"]);
    pair.carries(1_000_000);
    attach(&only, "alcc_budget").unwrap();
    assert_eq!(chosen(survey(&only).unwrap()), ["alcc_budget"]);
    // Options of another control are ignored.
    attach(&only, with("budget:delay=20ms")).unwrap();
    attach(&only, "alcc_verus").unwrap();
    assert_eq!(chosen(survey(&only).unwrap()), ["alcc_verus"]);
    detach(&only).unwrap();
    drop((client, later));

    // A program sets the options of its own sockets before it selects the control, even invalid ones.
    let map = OptionsMap::open().unwrap();
    for (algorithm, word) in [("budget", 20_000), ("copa", u32::MAX), ("verus", 1)] {
        let mut pair = Pair::new("127.0.0.1:0");
        let options = Options {
            delay: word,
            delta: word,
            ratio: word,
        };
        map.set(pair.server.as_raw_fd(), options).unwrap();
        choose(&pair.server, &format!("alcc_{algorithm}")).unwrap();
        pair.carries(300_000);
        let found = survey(&pair.only()).unwrap();
        assert!(found.iter().any(|f| f.options == options), "{found:?}");
    }
    let no_socket = map.set(std::io::stdin().as_raw_fd(), Options::default());
    assert!(no_socket.is_err());
}

/// The kernel writes its list into 32 kB and repeats a socket that did not fit. Each is reported once,
/// with its earlier control.
fn more_than_the_kernels_list_holds_at_once() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    const MANY: usize = 6000;
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    if hard < 2 * MANY as u64 + 100 {
        println!("skipped: needs {} open files", 2 * MANY + 100);
        return;
    }
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let pairs: Vec<_> = (0..MANY)
        .map(|_| {
            let client = TcpStream::connect(address).unwrap();
            (listener.accept().unwrap().0, client)
        })
        .collect();
    let plain = control_of(&pairs[0].0);
    let only = Selection {
        port: Some(address.port()),
        ..Selection::default()
    };
    let count = |control: &str, found: Vec<Found>| {
        assert!(found.iter().all(|f| f.error.is_none()));
        let others = found.iter().filter(|f| f.control != control).count();
        assert_eq!((found.len(), others), (MANY + 1, 0), "{control}");
    };
    count(&plain, attach(&only, "alcc_copa").unwrap());
    assert!(
        pairs
            .iter()
            .all(|(server, _)| control_of(server) == "alcc_copa")
    );
    let found = attach(&only, "no_such").unwrap();
    assert_eq!(found.len(), MANY + 1);
    assert!(found.iter().all(|f| f.error.is_some()));
    count("alcc_copa", detach(&only).unwrap());
    assert!(pairs.iter().all(|(server, _)| control_of(server) == plain));
}

fn future_connections() {
    let Some(cgroup) = alcc_bpf::cgroup_of(std::process::id()) else {
        println!("skipped: needs cgroup version 2");
        return;
    };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let selection = Selection {
        port: Some(address.port()),
        ..Selection::default()
    };
    let future = Future {
        selection: &selection,
        cgroup: &cgroup,
    };
    let accepted = || {
        let client = TcpStream::connect(address).unwrap();
        let (server, _) = listener.accept().unwrap();
        (control_of(&server), server, client)
    };
    let (plain, ..) = accepted();
    future.begin("alcc_copa").unwrap();
    let (control, server, _client) = accepted();
    assert_eq!(control, "alcc_copa");
    assert_eq!(alcc_sys::unsent_limit(server.as_raw_fd()), Some(FIRST));
    future.begin("alcc_copa").unwrap();
    assert_eq!(
        alcc_bpf::futures().len(),
        1,
        "the second replaces the first"
    );
    let end =
        || alcc_bpf::end_futures(|choice| choice.is_of(&selection) && choice.is_in(future.cgroup));
    assert_eq!(end().unwrap().len(), 1);
    assert_eq!(end().unwrap(), []);
    assert_eq!(accepted().0, plain);
    // What was before is known of these, too.
    detach(&selection).unwrap();
    assert_eq!(control_of(&server), plain);
    assert_eq!(alcc_sys::unsent_limit(server.as_raw_fd()), Some(0));
}

/// By the controls of algorithms, on what exists and what comes, until they are given back or another
/// control is chosen. What the program has set itself stays.
fn what_is_written_ahead_is_bounded() {
    let slow = support::slow_machine();
    // An emulated machine takes its time, and has low rates.
    let (bytes, least) = if slow {
        (500_000, 0)
    } else {
        (3_000_000, 8 * FIRST)
    };
    let mut most = 0;
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let mut pair = Pair::new(address);
        let own = TcpStream::connect(pair.listener.local_addr().unwrap()).unwrap();
        let (of_its_own, _) = pair.listener.accept().unwrap();
        alcc_sys::set_unsent_limit(of_its_own.as_raw_fd(), 5000);
        let limit = |socket: &TcpStream| alcc_sys::unsent_limit(socket.as_raw_fd()).unwrap();
        for resident in alcc_bpf::RESIDENT {
            let name = resident.control.name;
            attach(&pair.only(), name).unwrap();
            assert_eq!(limit(&pair.server), FIRST, "{name}");
            // It follows the rate, which is low on a busy machine.
            let carried = || {
                pair.carries(bytes);
                limit(&pair.server)
            };
            most = most.max(first_right(5, carried, |now| *now > least));
            let client = TcpStream::connect(pair.listener.local_addr().unwrap()).unwrap();
            let (later, _) = pair.listener.accept().unwrap();
            assert!(limit(&later) >= FIRST, "{name}");
            detach(&pair.only()).unwrap();
            for given_back in [&pair.server, &later] {
                assert_eq!(limit(given_back), 0, "{name}");
            }
            assert_eq!(limit(&of_its_own), 5000, "{name}");
            drop(client);
        }
        attach(&pair.only(), "alcc_copa").unwrap();
        attach(&pair.only(), "reno").unwrap();
        assert_eq!(limit(&pair.server), 0, "nobody follows it");
        detach(&pair.only()).unwrap();
        own.shutdown(std::net::Shutdown::Both).unwrap();
    }
    assert!(most > FIRST, "{most}");
}
