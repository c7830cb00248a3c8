// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The policy on this machine's kernel. Its controls are the kernel's own, Reno and Cubic.
#[path = "support/mod.rs"]
mod controls;
#[path = "../../cli/tests/support/starts.rs"]
mod starts;

use alcc_bpf::{
    BpfError, Future, Place, Prefix, RULES, Rule, Seen, Selection, Whose, attach, cgroup_of,
    detach, end_futures, futures, policy,
};
use nix::sched::{CloneFlags, unshare};
use nix::sys::socket::{getsockopt, setsockopt, sockopt::TcpCongestion};
use starts::first_right;
use std::net::{Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

const FILE: &str = "/etc/alcc/policy.toml";

fn rule(control: Option<&str>) -> Rule {
    Rule {
        control: control.map(Into::into),
        algorithm: control.unwrap_or("off").to_owned(),
        line: 1,
        ..Rule::default()
    }
}

/// In the order in which they are tried. `None`, and said: this machine cannot.
fn apply(mut rules: Vec<Rule>) -> Option<Vec<Seen>> {
    rules.sort_by_key(Rule::narrowness);
    match policy::apply(&rules, Path::new(FILE)) {
        Err(why @ (BpfError::Forbidden { .. } | BpfError::NoBtf | BpfError::NoCgroup { .. })) => {
            println!("skipped: {why}");
            None
        }
        done => Some(done.unwrap().seen),
    }
}

fn control(socket: &TcpStream) -> String {
    let name = getsockopt(socket, TcpCongestion).unwrap();
    name.to_string_lossy().trim_end_matches('\0').to_owned()
}

/// The system's default, and a control that it is not.
fn two_controls() -> (String, &'static str) {
    let file = "/proc/sys/net/ipv4/tcp_congestion_control";
    let default = std::fs::read_to_string(file).unwrap().trim().to_owned();
    let other = if default == "reno" { "cubic" } else { "reno" };
    (default, other)
}

struct Server(TcpListener);

impl Server {
    fn new(address: &str) -> Self {
        Self(TcpListener::bind(address).unwrap())
    }

    fn address(&self) -> SocketAddr {
        self.0.local_addr().unwrap()
    }

    fn port(&self) -> Option<u16> {
        Some(self.address().port())
    }

    /// The ends of the client and of the server.
    fn connect(&self) -> (TcpStream, TcpStream) {
        let client = TcpStream::connect(self.address()).unwrap();
        (client, self.0.accept().unwrap().0)
    }
}

/// Those of this server that were changed.
fn changed<'a>(seen: &'a [Seen], server: &Server) -> Vec<&'a Seen> {
    let port = server.port();
    let is_of = |s: &&Seen| Some(s.port) == port && s.now.is_some();
    seen.iter().filter(is_of).collect()
}

#[test]
fn a_rule_by_port_takes_what_exists_and_what_comes_and_gives_it_back() {
    let _alone = controls::controls_alone();
    let (default, other) = two_controls();
    for address in ["127.0.0.1:0", "[::1]:0", "[::]:0"] {
        let server = Server::new(address);
        let (client, before) = server.connect();
        let rules = vec![Rule {
            port: server.port(),
            ..rule(Some(other))
        }];
        let Some(seen) = apply(rules.clone()) else {
            return;
        };
        assert_eq!(changed(&seen, &server).len(), 1, "{seen:?}");
        let (_client, after) = server.connect();
        assert_eq!((&*control(&before), &*control(&after)), (other, other));
        // The client's local port is another one, and the listening socket stays as it is.
        assert_eq!(control(&client), default);
        let name = getsockopt(&server.0, TcpCongestion).unwrap();
        assert!(name.to_string_lossy().starts_with(&default));
        let found = policy::in_force().unwrap().unwrap();
        assert_eq!(found.file, Path::new(FILE));
        assert_eq!(found.rules[0].control.as_deref(), Some(other));
        // A second time nothing changes.
        let again = apply(rules).unwrap();
        let ours = again.iter().filter(|s| s.whose == Whose::Policy).count();
        assert_eq!((ours, again.iter().any(|s| s.error.is_some())), (2, false));
        let back = policy::rollback().unwrap().unwrap().seen;
        assert_eq!(changed(&back, &server).len(), 2, "{back:?}");
        assert_eq!(
            (control(&before), control(&after)),
            (default.clone(), default.clone())
        );
        assert_eq!(control(&server.connect().1), default);
        assert_eq!(policy::rollback().unwrap(), None);
        assert_eq!(policy::in_force().unwrap(), None);
    }
}

#[test]
fn what_others_have_chosen_stays() {
    let _alone = controls::controls_alone();
    let (default, other) = two_controls();
    let third = if other == "reno" { "cubic" } else { "reno" };
    let third = if third == default { "bbr" } else { third };
    let server = Server::new("127.0.0.1:0");
    let (_own_client, own) = server.connect();
    if setsockopt(&own, TcpCongestion, &third.into()).is_err() {
        println!("skipped: this kernel has no third control");
        return;
    }
    let (_free_client, free) = server.connect();
    let policy = |control| {
        apply(vec![Rule {
            port: server.port(),
            ..rule(control)
        }])
    };
    let Some(seen) = policy(Some(other)) else {
        return;
    };
    assert_eq!((&*control(&own), &*control(&free)), (third, other));
    assert!(seen.iter().any(|s| s.whose == Whose::Own && s.was == third));
    // After the policy, too.
    let (_since_client, since) = server.connect();
    setsockopt(&since, TcpCongestion, &third.into()).unwrap();
    let seen = policy(Some(other)).unwrap();
    assert!(
        seen.iter()
            .any(|s| s.whose == Whose::Since && s.was == third)
    );
    // Where a new policy leaves alone what an old one took, that has again what it had.
    let seen = policy(None).unwrap();
    assert_eq!(changed(&seen, &server).len(), 1, "{seen:?}");
    assert_eq!(control(&free), default);
    // What was given back is the system's, and not the program's own choice.
    policy(Some(other)).unwrap();
    assert_eq!(control(&free), other);
    policy::rollback().unwrap();
    assert_eq!((&*control(&own), &*control(&since)), (third, third));
    assert_eq!(control(&free), default);
    // A program's choice after a rollback stays as well.
    setsockopt(&free, TcpCongestion, &third.into()).unwrap();
    policy(Some(other)).unwrap();
    assert_eq!(control(&free), third);
    policy::rollback().unwrap();
    assert_eq!(control(&free), third);
}

/// A locked control cannot be replaced, not even by root.
#[test]
fn the_control_of_a_route_stays() {
    const ROUTES: [(&str, &str); 3] = [("127.0.0.2", ""), ("::1", ""), ("127.0.0.3", "lock ")];
    let _alone = controls::controls_alone();
    let (default, other) = two_controls();
    if unshare(CloneFlags::CLONE_NEWNET).is_err() {
        println!("skipped: needs the right to make network namespaces");
        return;
    }
    let ip = |words: &str| {
        let ip = Command::new("ip").args(words.split(' ')).status();
        ip.is_ok_and(|status| status.success())
    };
    assert!(ip("link set lo up"));
    // Otherwise the kernel's own route there is the better one.
    ip("route del local ::1 dev lo table local");
    for (address, lock) in ROUTES {
        let route = format!("route replace local {address} dev lo congctl {lock}{default}");
        if !ip(&route) {
            println!("skipped: needs iproute2");
            return;
        }
    }
    let server = Server::new("[::]:0");
    let connect = |address: &str| {
        let client = TcpStream::connect((address, server.port().unwrap())).unwrap();
        (client, server.0.accept().unwrap().0)
    };
    let (_client, free) = connect("127.0.0.1");
    let before = ROUTES.map(|(address, _)| connect(address));
    let apply = || {
        apply(vec![Rule {
            port: server.port(),
            ..rule(Some(other))
        }])
    };
    if apply().is_none() {
        return;
    }
    let after = ROUTES.map(|(address, _)| connect(address));
    let all = || before.iter().chain(&after).map(|(_, served)| served);
    let stay = || all().for_each(|served| assert_eq!(control(served), default));
    assert_eq!(control(&free), other);
    stay();
    let seen = apply().unwrap();
    let by_route = seen
        .iter()
        .filter(|s| s.whose == Whose::Route && Some(s.port) == server.port());
    assert_eq!(
        by_route
            .filter(|s| s.was == default && s.now.is_none())
            .count(),
        6,
        "{seen:?}"
    );
    policy::rollback().unwrap();
    stay();
    // An administrator counts before a route, unless the route is locked.
    let found = attach(&selected(server.port()), other).unwrap();
    assert_eq!(
        found.iter().filter(|f| f.error.is_some()).count(),
        2,
        "{found:?}"
    );
    let switched = all().filter(|served| control(served) == other);
    assert_eq!(switched.count(), 4);
    detach(&selected(server.port())).unwrap();
    stay();
}

fn selected(port: Option<u16>) -> Selection {
    Selection {
        port,
        ..Selection::default()
    }
}

#[test]
fn attach_counts_before_the_policy_until_detach() {
    let _alone = controls::controls_alone();
    let (default, other) = two_controls();
    let third = ["cubic", "reno", "bbr"];
    let third = third.into_iter().find(|c| *c != default && *c != other);
    let third = third.unwrap();
    let Some(all) = alcc_bpf::all_cgroups() else {
        println!("skipped: needs cgroups of version 2");
        return;
    };
    let server = Server::new("127.0.0.1:0");
    let only = selected(server.port());
    let (_client, own) = server.connect();
    if setsockopt(&own, TcpCongestion, &third.into()).is_err() {
        println!("skipped: this kernel has no third control");
        return;
    }
    setsockopt(&own, TcpCongestion, &default.as_str().into()).unwrap();
    let (_client, before) = server.connect();
    let by_file = || {
        apply(vec![Rule {
            port: server.port(),
            ..rule(Some(other))
        }])
    };
    if by_file().is_none() {
        return;
    }
    let future = Future {
        selection: &only,
        cgroup: &all,
    };
    future.begin(third).unwrap();
    assert_eq!(attach(&only, third).unwrap().len(), 3);
    let (_client, after) = server.connect();
    let sockets = [&own, &before, &after];
    let are = |expected: [&str; 3]| assert_eq!(sockets.map(control), expected);
    are([third; 3]);
    // Another policy changes nothing of it, nor does the end of the policy.
    let seen = by_file().unwrap();
    let of_attach = |s: &&Seen| Some(s.port) == server.port() && s.whose == Whose::Attached;
    assert_eq!(seen.iter().filter(of_attach).count(), 3, "{seen:?}");
    assert!(changed(&seen, &server).is_empty(), "{seen:?}");
    policy::rollback().unwrap();
    are([third; 3]);
    assert_eq!(control(&server.connect().1), third);
    by_file();
    assert_eq!(
        (futures().len(), &*control(&server.connect().1)),
        (1, third)
    );
    // What the program had chosen is its own again; the rest is the policy's.
    assert_eq!(end_futures(|choice| choice.is_of(&only)).unwrap().len(), 1);
    assert_eq!(detach(&only).unwrap().len(), 4);
    are([&*default, other, other]);
    assert_eq!(control(&server.connect().1), other);
    by_file();
    are([&*default, other, other]);
    policy::rollback().unwrap();
    are([&*default; 3]);
    assert_eq!(detach(&only).unwrap(), []);
}

#[test]
fn attach_alone_leaves_future_connections() {
    let _alone = controls::controls_alone();
    let (default, other) = two_controls();
    let server = Server::new("[::1]:0");
    let (_client, before) = server.connect();
    // A listening socket has no peer.
    let clients = Selection {
        prefix: Some("::1".parse().unwrap()),
        pid: Some(std::process::id()),
        ..selected(server.port())
    };
    match attach(&clients, other) {
        Err(why @ (BpfError::Forbidden { .. } | BpfError::NoBtf)) => {
            println!("skipped: {why}");
            return;
        }
        found => assert_eq!(found.unwrap().len(), 1),
    }
    assert_eq!(control(&before), other);
    assert_eq!(
        (control(&server.connect().1), futures()),
        (default.clone(), vec![])
    );
    detach(&clients).unwrap();
    assert_eq!(control(&before), default);
}

#[test]
fn a_choice_for_a_cgroup_is_for_it_alone_and_the_newest_counts() {
    let _alone = controls::controls_alone();
    let (default, other) = two_controls();
    let (Some(all), Some(own)) = (alcc_bpf::all_cgroups(), cgroup_of(std::process::id())) else {
        println!("skipped: needs cgroups of version 2");
        return;
    };
    let outer = all.join("alcc-test.attached");
    let deep = outer.join("a/b/c/d/e/f/g/h/i/j");
    if std::fs::create_dir_all(&deep).is_err() {
        println!("skipped: needs the right to make cgroups");
        return;
    }
    let served_in = |cgroup: &Path| {
        let procs =
            |at: &Path| std::fs::write(at.join("cgroup.procs"), std::process::id().to_string());
        procs(cgroup).unwrap();
        let server = Server::new("127.0.0.1:0");
        procs(&own).unwrap();
        control(&server.connect().1)
    };
    let remove = || {
        let folders = deep
            .ancestors()
            .take_while(|folder| folder.starts_with(&outer));
        folders.for_each(|folder| std::fs::remove_dir(folder).unwrap());
    };
    let net = |text: &str| -> Option<Prefix> { Some(text.parse().unwrap()) };
    let clients = |prefix| Selection {
        prefix: net(prefix),
        ..Selection::default()
    };
    let begin = |selection: &Selection, cgroup: &Path, control: &str| {
        Future { selection, cgroup }.begin(control)
    };
    if let Err(why @ (BpfError::Forbidden { .. } | BpfError::NoBtf)) =
        begin(&clients("127.0.0.0/8"), &outer, other)
    {
        println!("skipped: {why}");
        return remove();
    }
    assert_eq!(served_in(&deep), other);
    assert_eq!(served_in(&own), default);
    assert_eq!(futures()[0].cgroup.as_ref(), Some(&outer));
    begin(&clients("127.0.0.1"), &all, &default).unwrap();
    assert_eq!(served_in(&deep), default);
    begin(&clients("127.0.0.0/8"), &outer, other).unwrap();
    assert_eq!((served_in(&deep), futures().len()), (other.to_owned(), 2));
    // One that is made again is another.
    remove();
    std::fs::create_dir_all(&deep).unwrap();
    assert_eq!((served_in(&deep), &futures()[0].cgroup), (default, &None));
    remove();
    for port in 1..RULES as u16 - 1 {
        begin(&selected(Some(port)), &all, other).unwrap();
    }
    // It takes the place of the one whose cgroup is gone.
    begin(&selected(Some(9998)), &all, other).unwrap();
    assert!(futures().iter().all(|choice| choice.cgroup.is_some()));
    let refused = begin(&selected(Some(9999)), &all, other).unwrap_err();
    assert!(
        refused.to_string().contains("64 such selections"),
        "{refused}"
    );
    assert_eq!(end_futures(|_| true).unwrap().len(), RULES);
    assert_eq!(futures(), []);
}

/// A listening socket keeps the kernel's mark that a control was chosen for it.
#[test]
fn what_attach_has_given_back_is_the_systems() {
    let _alone = controls::controls_alone();
    let (default, other) = two_controls();
    let server = Server::new("127.0.0.1:0");
    let only = Selection {
        port: server.port(),
        ..Selection::default()
    };
    let policy = || {
        apply(vec![Rule {
            port: server.port(),
            ..rule(Some(default.as_str()))
        }])
    };
    if policy().is_none() {
        return;
    }
    policy::rollback().unwrap();
    let (_client, before) = server.connect();
    attach(&only, other).unwrap();
    let (_client, after) = server.connect();
    policy().unwrap();
    // What attach has chosen stays.
    assert_eq!((&*control(&before), &*control(&after)), (other, other));
    detach(&only).unwrap();
    apply(vec![Rule {
        port: server.port(),
        ..rule(Some(other))
    }]);
    let (_client, new) = server.connect();
    for socket in [&before, &after, &new] {
        assert_eq!(control(socket), other);
    }
    policy::rollback().unwrap();
    for socket in [&before, &after, &new] {
        assert_eq!(control(socket), default);
    }
}

#[test]
fn the_narrowest_rule_wins() {
    let _alone = controls::controls_alone();
    let (default, other) = two_controls();
    let server = Server::new("127.0.0.1:0");
    let port = server.port();
    let net = |text: &str| Some(text.parse().unwrap());
    let takes = |rules: Vec<Rule>| {
        apply(rules)?;
        let (_client, served) = server.connect();
        Some(control(&served))
    };
    let by_port = Rule {
        port,
        ..rule(Some(other))
    };
    let off = |with: Rule| Rule {
        control: None,
        ..with
    };
    let near = off(Rule {
        peer: net("127.0.0.0/8"),
        ..by_port.clone()
    });
    let Some(narrow) = takes(vec![by_port.clone(), near]) else {
        return;
    };
    assert_eq!(narrow, default);
    let far = off(Rule {
        peer: net("10.0.0.0/8"),
        ..by_port.clone()
    });
    assert_eq!(takes(vec![by_port.clone(), far]).unwrap(), other);
    // A share of the clients, and the others.
    for (share, takes_it) in [("100%", true), ("0.1%", false)] {
        let canary = Rule {
            share: Some(share.parse().unwrap()),
            ..by_port.clone()
        };
        let has = canary
            .share
            .unwrap()
            .has(alcc_observe::client_of("127.0.0.1".parse().unwrap()));
        assert_eq!(has, takes_it);
        let expected = if has { other } else { &*default };
        assert_eq!(takes(vec![canary]).unwrap(), expected);
    }
    // The program that listens: one that did before the policy, and one that begins now.
    let name = std::fs::read_to_string("/proc/self/comm").unwrap();
    let by_program = Rule {
        program: Some(name.trim().to_owned()),
        ..rule(Some(other))
    };
    assert_eq!(takes(vec![by_program]).unwrap(), other);
    let late = Server::new("127.0.0.1:0");
    assert_eq!(control(&late.connect().1), other);
    let another = Rule {
        program: Some("nosuch".into()),
        ..rule(Some(other))
    };
    assert_eq!(takes(vec![another]).unwrap(), default);
    policy::rollback().unwrap();
}

#[test]
fn a_unit_is_followed_when_its_cgroup_is_made_again() {
    let _alone = controls::controls_alone();
    let (default, other) = two_controls();
    let (Some(all), Some(own)) = (alcc_bpf::all_cgroups(), cgroup_of(std::process::id())) else {
        println!("skipped: needs cgroups of version 2");
        return;
    };
    let outer = all.join("alcc-test.slice");
    let unit = outer.join("alcc-test.service");
    let inner = unit.join("worker");
    let server_in = |cgroup: &Path| {
        let procs =
            |at: &Path| std::fs::write(at.join("cgroup.procs"), std::process::id().to_string());
        procs(cgroup).unwrap();
        let server = Server::new("127.0.0.1:0");
        procs(&own).unwrap();
        server
    };
    let by = |place| {
        vec![Rule {
            place: Some(place),
            ..rule(Some(other))
        }]
    };
    if std::fs::create_dir_all(&inner).is_err() {
        println!("skipped: needs the right to make cgroups");
        return;
    }
    let take = |server: &Server| control(&server.connect().1);
    let places = [
        Place::Unit("alcc-test.service".into()),
        Place::Path("alcc-test.slice".into()),
        Place::Path("alcc-test.slice/alcc-test.service".into()),
    ];
    for place in places {
        if apply(by(place)).is_none() {
            return;
        }
        for _ in 0..2 {
            std::fs::create_dir_all(&inner).unwrap();
            assert_eq!(take(&server_in(&unit)), other);
            assert_eq!(take(&server_in(&inner)), other);
            assert_eq!(take(&Server::new("127.0.0.1:0")), default);
            let there = policy::in_force().unwrap().unwrap();
            assert_eq!(policy::without_cgroup(&there), Vec::<usize>::new());
            for folder in [&inner, &unit, &outer] {
                std::fs::remove_dir(folder).unwrap();
            }
            assert_eq!(policy::without_cgroup(&there), vec![0]);
        }
        std::fs::create_dir_all(&inner).unwrap();
    }
    apply(by(Place::Unit("alcc-test".into())));
    assert_eq!(take(&server_in(&unit)), default);
    policy::rollback().unwrap();
    for folder in [&inner, &unit, &outer] {
        std::fs::remove_dir(folder).unwrap();
    }
}

#[test]
fn five_thousand_connections_follow_within_half_a_second() {
    const ALL: usize = 5_000;
    let _alone = controls::controls_alone();
    let (default, other) = two_controls();
    // Root may raise its own limit.
    let most = 2 * ALL as u64 + 100;
    if nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE, most, most)
        .is_err()
    {
        println!("skipped: needs {most} descriptors");
        return;
    }
    let server = Server::new("127.0.0.1:0");
    let all: Vec<_> = (0..ALL).map(|_| server.connect()).collect();
    let rules = || {
        vec![Rule {
            port: server.port(),
            ..rule(Some(other))
        }]
    };
    let right = |name: &str| {
        let has = |pair: &&(TcpStream, TcpStream)| control(&pair.1) == name;
        all.iter().filter(has).count()
    };
    if apply(rules()).is_none() {
        return;
    }
    policy::rollback().unwrap();
    let measure = || {
        let began = Instant::now();
        let seen = apply(rules()).unwrap();
        let applied = began.elapsed();
        assert_eq!(right(other), ALL);
        assert!(changed(&seen, &server).iter().all(|s| s.error.is_none()));
        let began = Instant::now();
        policy::rollback().unwrap().unwrap();
        let given_back = began.elapsed();
        assert_eq!(right(&default), ALL);
        println!("{ALL} connections: applied in {applied:?}, given back in {given_back:?}");
        let slower = applied.max(given_back);
        let only = selected(server.port());
        let began = Instant::now();
        attach(&only, other).unwrap();
        let attached = began.elapsed();
        assert_eq!(right(other), ALL);
        let began = Instant::now();
        detach(&only).unwrap();
        let detached = began.elapsed();
        assert_eq!(right(&default), ALL);
        println!("{ALL} connections: attached in {attached:?}, detached in {detached:?}");
        slower.max(attached).max(detached).as_secs_f64()
    };
    // Others work on a machine, too.
    first_right(5, measure, |takes| *takes < 0.5 || controls::slow_machine());
}

#[test]
fn a_peer_of_ipv6_matches_its_network() {
    let _alone = controls::controls_alone();
    let (default, other) = two_controls();
    let server = Server::new("[::1]:0");
    for (net, expected) in [
        ("::1/128", other),
        ("::/1", other),
        ("2001:db8::/32", &*default),
        ("0.0.0.0/0", &*default),
    ] {
        let by_peer = Rule {
            port: server.port(),
            peer: Some(net.parse().unwrap()),
            ..rule(Some(other))
        };
        if apply(vec![by_peer]).is_none() {
            return;
        }
        let (_client, served) = server.connect();
        assert_eq!(served.peer_addr().unwrap().ip(), Ipv6Addr::LOCALHOST);
        assert_eq!(control(&served), expected, "{net}");
    }
    policy::rollback().unwrap();
}
