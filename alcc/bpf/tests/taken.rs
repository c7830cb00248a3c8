// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Connections that are switched while something else happens to them: another has the name, a new
//! version is loaded, they come and go, they close, they are MPTCP or kernel TLS.
#![cfg(feature = "loader")]
#[path = "support/sockets.rs"]
mod sockets;
mod support;

use alcc_bpf::{BpfError, RESIDENT, Rule, Selection, WINDOW, attach, detach, load, policy, unload};
use alcc_sys::Steered;
use nix::libc;
use nix::sys::socket::{Backlog, SockaddrStorage, bind, connect, listen};
use sockets::{Loaded, Pair, Sender, at_port, choose, control_of, steer_it};
use std::collections::BTreeSet;
use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

const COPA: &str = "alcc_copa";

#[test]
fn a_name_that_another_has_is_left_to_it() {
    let Some(_loaded) = Loaded::new() else {
        return;
    };
    {
        // Another folder hides what is loaded, as another machine's container would.
        let _hidden = support::Hidden::new();
        let refused = load(None);
        assert!(
            matches!(refused, Err(BpfError::NameTaken { control: COPA })),
            "{refused:?}"
        );
        assert_eq!(alcc_bpf::loaded().len(), 0);
    }
    let mut pair = Pair::new("127.0.0.1:0");
    choose(&pair.server, COPA).unwrap();
    pair.carries(100_000);
    assert_eq!(
        unload().unwrap().controls.len(),
        alcc_bpf::controls().count()
    );
}

#[test]
fn a_new_version_is_loaded_under_traffic() {
    let Some(_loaded) = Loaded::new() else {
        return;
    };
    let mut old = Pair::new("127.0.0.1:0");
    choose(&old.server, COPA).unwrap();
    let mut steered_old = Sender::new("127.0.0.1:0");
    steer_it(&steered_old.socket);
    let before = Steered::open().unwrap();
    std::thread::scope(|threads| {
        let transfer = threads.spawn(|| old.carries(20_000_000));
        for address in ["127.0.0.1:0", "[::1]:0", "127.0.0.1:0"] {
            steered_old.reaches(&before, 5, 5);
            unload().unwrap();
            let mut between = Pair::new(address);
            assert!(choose(&between.server, COPA).is_err());
            between.carries(1000);
            assert!(load(None).unwrap().iter().all(|l| l.new));
            steered_old.reaches(&before, 6, 6);
            let mut new = Sender::new(address);
            steer_it(&new.socket);
            let now = Steered::open().unwrap();
            new.reaches(&now, 7, 7);
            let mut new = Pair::new(address);
            choose(&new.server, COPA).unwrap();
            new.carries(100_000);
        }
        transfer.join().unwrap();
    });
    assert_eq!(control_of(&old.server), COPA);
    old.carries(100_000);
}

#[test]
fn a_connection_of_bbr_is_taken_and_given_back() {
    let Some(_loaded) = Loaded::new() else {
        return;
    };
    for (n, resident) in RESIDENT.iter().enumerate() {
        let mut pair = Pair::new(["127.0.0.1:0", "[::1]:0"][n % 2]);
        if choose(&pair.server, "bbr").is_err() {
            println!("skipped: needs the kernel's bbr");
            return;
        }
        pair.carries(1_000_000);
        let found = attach(&pair.only(), resident.control.name).unwrap();
        assert!(found.iter().any(|f| f.control == "bbr"), "{found:?}");
        pair.carries(3_000_000);
        detach(&pair.only()).unwrap();
        assert_eq!(control_of(&pair.server), "bbr");
        pair.carries(1_000_000);
    }
}

#[test]
fn connections_that_come_and_go_are_switched_once_and_all_given_back() {
    const STAY: usize = 200;
    let Some(_loaded) = Loaded::new() else {
        return;
    };
    let listener = TcpListener::bind("[::1]:0").unwrap();
    let address = listener.local_addr().unwrap();
    let only = Selection {
        prefix: Some("::1".parse().unwrap()),
        ..at_port(address.port())
    };
    let open = || {
        let client = TcpStream::connect(address).unwrap();
        (listener.accept().unwrap().0, client)
    };
    let stay: Vec<_> = (0..STAY).map(|_| open()).collect();
    let plain = control_of(&stay[0].0);
    let go_on = AtomicBool::new(true);
    std::thread::scope(|threads| {
        let coming = threads.spawn(|| {
            while go_on.load(Ordering::Relaxed) {
                drop(open());
            }
        });
        for _ in 0..5 {
            let found = attach(&only, COPA).unwrap();
            let refused = found.iter().find(|f| f.error.is_some());
            assert_eq!(refused, None);
            assert!(stay.iter().all(|(server, _)| control_of(server) == COPA));
        }
        go_on.store(false, Ordering::Relaxed);
        coming.join().unwrap();
    });
    let back = detach(&only).unwrap();
    let peers: BTreeSet<_> = back.iter().filter_map(|f| f.peer).collect();
    assert!(peers.len() >= STAY, "{}", peers.len());
    assert!(stay.iter().all(|(server, _)| control_of(server) == plain));
    assert_eq!(detach(&only).unwrap(), []);
}

#[test]
fn who_closes_first_is_seen_to_close_at_once() {
    let Some(_loaded) = Loaded::new() else {
        return;
    };
    for address in ["127.0.0.1:0", "[::1]:0"] {
        is_seen_to_close_at_once(address);
    }
}

fn is_seen_to_close_at_once(address: &str) {
    let listener = TcpListener::bind(address).unwrap();
    let only = at_port(listener.local_addr().unwrap().port());
    let go_on = AtomicBool::new(true);
    let times = AtomicU32::new(0);
    let began = Instant::now();
    let mut took = Vec::new();
    std::thread::scope(|threads| {
        let switching = threads.spawn(|| {
            while go_on.load(Ordering::Relaxed) {
                attach(&only, COPA).unwrap();
                detach(&only).unwrap();
                times.fetch_add(1, Ordering::Relaxed);
            }
        });
        // At least ten during changes as well, on a busy machine as far as time permits.
        let enough = || times.load(Ordering::Relaxed) >= 10;
        for n in 0.. {
            if n >= 300 && (enough() || began.elapsed() > Duration::from_secs(10)) {
                break;
            }
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (server, _) = listener.accept().unwrap();
            let closed = Instant::now();
            drop(server);
            assert_eq!(client.read(&mut [0; 10]).unwrap(), 0);
            took.push(closed.elapsed());
            std::thread::sleep(Duration::from_millis(1));
        }
        go_on.store(false, Ordering::Relaxed);
        switching.join().unwrap();
        let times = times.load(Ordering::Relaxed);
        assert!(times > 0, "switched {times} times");
    });
    // A round trip here takes some microseconds. A descriptor that is never closed would delay the end for
    // ever; one that is held for a while shows in many closes. A busy machine is late in a few.
    took.sort();
    let (most, longest) = (took[took.len() * 95 / 100], took[took.len() - 1]);
    println!("end of file after {most:?} at most in 95 of 100 closes, {longest:?} in all");
    assert!(most < Duration::from_millis(50) || support::slow_machine());
    assert!(longest < Duration::from_secs(2) || support::slow_machine());
}

#[test]
fn mptcp_connections_carry_on() {
    let Some(_loaded) = Loaded::new() else {
        return;
    };
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let Some(pair) = mptcp_pair(address.parse().unwrap()) else {
            println!("skipped: needs MPTCP");
            return;
        };
        mptcp_carries_on(pair);
    }
}

fn mptcp_carries_on(mut pair: Pair) {
    pair.carries(100_000);
    let found = attach(&pair.only(), COPA).unwrap();
    // The one that listens, and the connection of the one path.
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found.iter().all(|f| f.error.is_none()), "{found:?}");
    pair.carries(3_000_000);
    let back = detach(&pair.only()).unwrap();
    assert_eq!(back.len(), 2, "{back:?}");
    assert!(
        back.iter().all(|f| f.control == COPA && f.error.is_none()),
        "{back:?}"
    );
    pair.carries(3_000_000);
}

/// `None`: this kernel has no MPTCP.
fn mptcp_pair(address: SocketAddr) -> Option<Pair> {
    let family = if address.is_ipv4() {
        libc::AF_INET
    } else {
        libc::AF_INET6
    };
    let socket = || {
        // SAFETY: no pointers.
        let fd = unsafe { libc::socket(family, libc::SOCK_STREAM, libc::IPPROTO_MPTCP) };
        // SAFETY: the kernel has made this descriptor for us.
        (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })
    };
    let listener = socket()?;
    bind(listener.as_raw_fd(), &SockaddrStorage::from(address)).unwrap();
    listen(&listener, Backlog::new(9).unwrap()).unwrap();
    let listener = TcpListener::from(listener);
    let client = socket().unwrap();
    let to = SockaddrStorage::from(listener.local_addr().unwrap());
    connect(client.as_raw_fd(), &to).unwrap();
    Some(Pair::of(listener, client.into()))
}

/// `struct tls12_crypto_info_aes_gcm_128` of linux/tls.h: TLS 1.2, the cipher, then keys.
fn tls_keys() -> [u8; 40] {
    let mut keys = [7; 40];
    keys[..2].copy_from_slice(&0x0303u16.to_ne_bytes());
    keys[2..4].copy_from_slice(&51u16.to_ne_bytes());
    keys
}

fn option(socket: &impl AsRawFd, level: i32, name: i32, value: &[u8]) -> std::io::Result<()> {
    let len = value.len() as u32;
    let fd = socket.as_raw_fd();
    // SAFETY: pointer and length are those of `value`.
    let rc = unsafe { libc::setsockopt(fd, level, name, value.as_ptr().cast(), len) };
    if rc == 0 {
        return Ok(());
    }
    Err(std::io::Error::last_os_error())
}

/// A connection whose server sends by the kernel's TLS. `None`, and said: it has none.
fn tls_pair(address: &str) -> Option<Pair> {
    let pair = Pair::new(address);
    if let Err(error) = begin_tls(&pair) {
        println!("skipped: needs the kernel's TLS: {error}");
        return None;
    }
    Some(pair)
}

fn begin_tls(pair: &Pair) -> std::io::Result<()> {
    const TLS_TX: i32 = 1;
    const TLS_RX: i32 = 2;
    for (socket, way) in [(&pair.server, TLS_TX), (&pair.client, TLS_RX)] {
        option(socket, libc::IPPROTO_TCP, libc::TCP_ULP, b"tls")?;
        option(socket, libc::SOL_TLS, way, &tls_keys())?;
    }
    Ok(())
}

/// Linux 6.1 lets BPF change no option of a socket with kernel TLS.
fn refuses_tls() -> bool {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    kernel.starts_with("6.1.")
}

#[test]
fn connections_of_kernel_tls_carry_on() {
    let Some(_loaded) = Loaded::new() else {
        return;
    };
    let Some(mut pair) = tls_pair("[::1]:0") else {
        return;
    };
    pair.carries(100_000);
    let plain = control_of(&pair.server);
    let found = attach(&pair.only(), COPA).unwrap();
    // The connection stays as it was.
    let refuses = refuses_tls();
    for socket in found.iter().filter(|f| f.peer.is_some()) {
        assert_eq!(socket.error.is_some(), refuses, "{found:?}");
    }
    let now = if refuses { &*plain } else { COPA };
    assert_eq!(control_of(&pair.server), now);
    pair.carries(3_000_000);
    detach(&pair.only()).unwrap();
    assert_eq!(control_of(&pair.server), plain);
    assert_eq!(alcc_sys::unsent_limit(pair.server.as_raw_fd()), Some(0));
    pair.carries(100_000);
}

/// Under a policy, too: what it had chosen before the kernel's TLS began, and what exists then.
#[test]
fn a_policy_controls_connections_of_kernel_tls() {
    let Some(_loaded) = Loaded::new() else {
        return;
    };
    let Some(mut before) = tls_pair("[::1]:0") else {
        return;
    };
    let plain = control_of(&before.server);
    let rule = |port| Rule {
        port: Some(port),
        control: Some(COPA.into()),
        algorithm: "copa".to_owned(),
        line: 1,
        ..Rule::default()
    };
    let after = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = after.local_addr().unwrap();
    let rules = [rule(before.port()), rule(to.port())];
    let walk = policy::apply(&rules, Path::new("/etc/alcc/policy.toml")).unwrap();
    let refuses = refuses_tls();
    let errors = walk.seen.iter().filter(|seen| seen.error.is_some()).count();
    assert_eq!(errors, usize::from(refuses), "{walk:?}");
    let now = if refuses { &*plain } else { COPA };
    assert_eq!(control_of(&before.server), now);
    before.carries(1_000_000);
    let client = TcpStream::connect(to).unwrap();
    let mut after = Pair::of(after, client);
    after.carries(100_000);
    begin_tls(&after).unwrap();
    after.carries(1_000_000);
    assert_eq!(control_of(&after.server), COPA);
    // Linux 6.1 does not tell BPF the control either: the connection keeps it.
    let walk = policy::rollback().unwrap().unwrap();
    assert!(
        walk.seen.iter().all(|seen| seen.error.is_none()),
        "{walk:?}"
    );
    assert_eq!(control_of(&before.server), plain);
    let now = if refuses { COPA } else { &*plain };
    assert_eq!(control_of(&after.server), now);
    for pair in [&mut before, &mut after] {
        pair.carries(1_000_000);
    }
}

/// The window that a program sets takes effect. After half a second of acknowledgements without the
/// program, the kernel takes the socket back if it can; otherwise the window stays, and the connection
/// continues until a program steers it again or selects another control.
#[test]
fn a_window_under_kernel_tls_is_set_and_then_left_alone() {
    let Some(_loaded) = Loaded::new() else {
        return;
    };
    let addresses: &[&str] = match support::slow_machine() {
        true => &["[::1]:0"],
        false => &["127.0.0.1:0", "[::1]:0"],
    };
    for address in addresses {
        let Some(mut pair) = tls_pair(address) else {
            return;
        };
        choose(&pair.server, "reno").unwrap();
        let steered = Steered::open().unwrap();
        let mut beat = 0;
        // The second time it is selected again.
        for window in [9, 12] {
            steer_it(&pair.server);
            let fd = pair.server.as_raw_fd();
            let began = Instant::now();
            while steered.samples(fd).unwrap().cwnd != window {
                assert!(began.elapsed() < Duration::from_secs(60), "{window}");
                beat += 1;
                steered.steer(fd, &sockets::window(window), beat).unwrap();
                pair.carries(20_000);
            }
            let began = Instant::now();
            let mut carried = 0;
            // More than the kernel's patience, and of traffic enough for that.
            while began.elapsed() < Duration::from_secs(2) {
                pair.carries(100_000);
                carried += 1;
            }
            let after = if refuses_tls() { WINDOW.name } else { "cubic" };
            assert_eq!(control_of(&pair.server), after, "{carried}");
            if refuses_tls() {
                assert_eq!(steered.samples(fd).unwrap().cwnd, window);
            }
        }
        // Its program can.
        choose(&pair.server, "reno").unwrap();
        assert_eq!(control_of(&pair.server), "reno");
        pair.carries(100_000);
    }
}
