// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Connections that are switched while something else happens to them: another has the name, a new
//! version is loaded, they come and go, they close, they are MPTCP or kernel TLS.
#![cfg(feature = "loader")]
#[path = "support/sockets.rs"]
mod sockets;
mod support;

use alcc_bpf::{BpfError, RESIDENT, Selection, attach, detach, load, unload};
use alcc_sys::Steered;
use nix::libc;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use sockets::{Loaded, Pair, Sender, at_port, choose, control_of, steer_it};
use std::collections::BTreeSet;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, FromRawFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

const COPA: &str = "alcc_copa";

#[test]
fn a_name_that_another_has_is_left_to_it() {
    let Some(_loaded) = Loaded::new() else {
        return;
    };
    let none: Option<&str> = None;
    // Another folder hides what is loaded, as another machine's container would.
    mount(
        Some("none"),
        "/run/alcc",
        Some("tmpfs"),
        MsFlags::empty(),
        none,
    )
    .unwrap();
    let refused = load();
    assert!(
        matches!(refused, Err(BpfError::NameTaken { control: COPA })),
        "{refused:?}"
    );
    assert_eq!(alcc_bpf::loaded().len(), 0);
    umount2("/run/alcc", MntFlags::MNT_DETACH).unwrap();
    let mut pair = Pair::new("127.0.0.1:0");
    choose(&pair.server, COPA).unwrap();
    pair.carries(100_000);
    assert_eq!(unload().unwrap().len(), alcc_bpf::controls().count());
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
            assert!(load().unwrap().iter().all(|l| l.new));
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
    let mut longest = Duration::ZERO;
    std::thread::scope(|threads| {
        let switching = threads.spawn(|| {
            while go_on.load(Ordering::Relaxed) {
                attach(&only, COPA).unwrap();
                detach(&only).unwrap();
                times.fetch_add(1, Ordering::Relaxed);
            }
        });
        // So many during changes as well, on a busy machine as far as there is time.
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
            longest = longest.max(closed.elapsed());
            std::thread::sleep(Duration::from_millis(1));
        }
        go_on.store(false, Ordering::Relaxed);
        switching.join().unwrap();
        let times = times.load(Ordering::Relaxed);
        println!("end of file after {longest:?} at most, switched {times} times");
        assert!(times > 0);
    });
    // A round trip here is some microseconds; a descriptor that somebody holds would be for ever.
    assert!(longest < Duration::from_millis(200) || support::slow_machine());
}

#[test]
fn mptcp_connections_carry_on() {
    let Some(_loaded) = Loaded::new() else {
        return;
    };
    let Some(listener) = mptcp() else {
        println!("skipped: needs MPTCP");
        return;
    };
    let any = libc::sockaddr_in {
        sin_family: libc::AF_INET as _,
        sin_port: 0,
        sin_addr: libc::in_addr {
            s_addr: u32::from_ne_bytes([127, 0, 0, 1]),
        },
        sin_zero: [0; 8],
    };
    let len = size_of_val(&any) as u32;
    // SAFETY: an address that outlives the call.
    let bound = unsafe { libc::bind(listener.as_raw_fd(), (&raw const any).cast(), len) };
    assert_eq!(bound, 0);
    nix::sys::socket::listen(&listener, nix::sys::socket::Backlog::new(9).unwrap()).unwrap();
    let address = TcpListener::from(listener.as_fd().try_clone_to_owned().unwrap());
    let port = address.local_addr().unwrap().port();
    let to = libc::sockaddr_in {
        sin_port: port.to_be(),
        ..any
    };
    let client = mptcp().unwrap();
    // SAFETY: as above.
    let done = unsafe { libc::connect(client.as_raw_fd(), (&raw const to).cast(), len) };
    assert_eq!(done, 0);
    let mut pair = Pair::of(address, client.into());
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

fn mptcp() -> Option<std::os::fd::OwnedFd> {
    // SAFETY: no pointers.
    let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_MPTCP) };
    // SAFETY: the kernel has made this descriptor for us.
    (fd >= 0).then(|| unsafe { std::os::fd::OwnedFd::from_raw_fd(fd) })
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

#[test]
fn connections_of_kernel_tls_carry_on() {
    const TLS_TX: i32 = 1;
    const TLS_RX: i32 = 2;
    let Some(_loaded) = Loaded::new() else {
        return;
    };
    let mut pair = Pair::new("[::1]:0");
    for (socket, way) in [(&pair.server, TLS_TX), (&pair.client, TLS_RX)] {
        let done = option(socket, libc::IPPROTO_TCP, libc::TCP_ULP, b"tls")
            .and_then(|()| option(socket, libc::SOL_TLS, way, &tls_keys()));
        if let Err(error) = done {
            println!("skipped: needs the kernel's TLS: {error}");
            return;
        }
    }
    pair.carries(100_000);
    let plain = control_of(&pair.server);
    let found = attach(&pair.only(), COPA).unwrap();
    // Linux 6.1 lets BPF change nothing of such a socket. It stays as it was.
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let refuses = kernel.starts_with("6.1.");
    for socket in found.iter().filter(|f| f.peer.is_some()) {
        assert_eq!(socket.error.is_some(), refuses, "{found:?}");
    }
    let now = if refuses { &*plain } else { COPA };
    assert_eq!(control_of(&pair.server), now);
    pair.carries(3_000_000);
    detach(&pair.only()).unwrap();
    assert_eq!(control_of(&pair.server), plain);
    pair.carries(100_000);
    if refuses {
        return;
    }
    // One whose window a program would set, and does not: after half a second of acknowledgements
    // it has what it had.
    attach(&pair.only(), alcc_bpf::WINDOW.name).unwrap();
    assert_eq!(control_of(&pair.server), alcc_bpf::WINDOW.name);
    let began = Instant::now();
    while control_of(&pair.server) != plain {
        assert!(began.elapsed() < Duration::from_secs(60), "not given back");
        pair.carries(100_000);
    }
}
