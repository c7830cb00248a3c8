// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `alcc_window` in the machine's own kernel: a window that this process sets, samples that it
//! reads, and a socket that gives itself back.
#![cfg(feature = "loader")]
#[path = "support/sockets.rs"]
mod sockets;
#[path = "../../cli/tests/support/starts.rs"]
mod starts;
mod support;

use alcc_bpf::{WINDOW, attach, unload};
use alcc_sys::Steered;
use nix::libc;
use nix::mount::{MsFlags, mount};
use sockets::{Loaded, Sender, choose, control_of, steer_it, window};
use starts::first_right;
use std::io::{BufRead, BufReader, Read};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Set in the process that has no rights.
const UNPRIVILEGED: &str = "ALCC_TEST_UNPRIVILEGED";
/// Its value where the process may not set a window either.
const WITHOUT: &str = "without";
/// Its value where the process may not even select the control.
const REFUSED: &str = "refused";
const NOBODY: u32 = 65_534;
/// A group without a name.
const MEMBERS: u32 = 4242;

/// The control is selected, uses the requested windows, and reports its acknowledgements.
fn follows(sender: &mut Sender, steered: &Steered) {
    steer_it(&sender.socket);
    let samples = sender.reaches(steered, 5, 5);
    assert!(samples.acks > 0 && !samples.last.is_empty());
    assert!(samples.last.is_sorted_by_key(|s| s.at), "{samples:?}");
    assert!(samples.last.iter().any(|s| s.rtt.is_some()), "{samples:?}");
    sender.reaches(steered, 8, 8);
    sender.reaches(steered, 1, 2);
}

/// A user who must not set a window. While a group has that right, the user can select the control, to
/// no effect: it ends by itself.
fn as_nobody(may_select: bool) {
    let refused = Steered::open().unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::PermissionDenied);
    for name in ["knobs", "feed", "before"] {
        let why = open_map(name, READ_ONLY).unwrap_err();
        assert_eq!(why.raw_os_error(), Some(libc::EACCES), "{name}");
    }
    let mut sender = Sender::new("127.0.0.1:0");
    if !may_select {
        let refused = choose(&sender.socket, WINDOW.name).unwrap_err();
        assert_eq!(refused, nix::errno::Errno::EPERM);
        return;
    }
    steer_it(&sender.socket);
    let back = sender.until(|socket| control_of(socket) != WINDOW.name);
    assert!(back.is_some());
    assert_eq!(control_of(&sender.socket), "cubic");
}

fn as_a_member() {
    let steered = Steered::open().expect("the group may");
    let mut sender = Sender::new("127.0.0.1:0");
    assert!(
        steered.samples(sender.socket.as_raw_fd()).is_err(),
        "not chosen yet"
    );
    follows(&mut sender, &steered);
    // What is no socket, and what is no TCP socket.
    let file = std::fs::File::open("/dev/null").unwrap();
    assert!(steered.steer(file.as_raw_fd(), &window(5), 1).is_err());
    the_maps_are_nobodys_alone(sender.socket.as_raw_fd());
    sender.reaches(&steered, 6, 6);
}

// bpf(2): commands and a flag.
const UPDATE: i32 = 2;
const NEXT_KEY: i32 = 4;
const OBJECT_GET: i32 = 7;
const FREEZE: i32 = 22;
const READ_ONLY: u64 = 1 << 3;

/// The attributes are words: descriptors, and addresses of what outlives the call.
fn bpf(command: i32, attributes: &[u64]) -> std::io::Result<u64> {
    let bytes = size_of_val(attributes);
    // SAFETY: pointer and length are those of the attributes.
    let rc = unsafe { libc::syscall(libc::SYS_bpf, command, attributes.as_ptr(), bytes) };
    u64::try_from(rc).map_err(|_| std::io::Error::last_os_error())
}

fn open_map(name: &str, flags: u64) -> std::io::Result<u64> {
    let path = std::ffi::CString::new(format!("{}/{name}", alcc_bpf::PINS)).unwrap();
    // The second word: a descriptor that is not used here, and the flags.
    bpf(OBJECT_GET, &[path.as_ptr() as u64, flags << 32])
}

/// Operations on shared maps and on sockets of others that an unprivileged user must not perform.
fn the_maps_are_nobodys_alone(own: i32) {
    /// The kernel's own number for "not with this kind of map".
    const ENOTSUPP: i32 = 524;
    let why = |done: std::io::Result<u64>| done.unwrap_err().raw_os_error().unwrap();
    let knobs = open_map("knobs", 0).expect("the group may");
    let options = open_map("options", 0).expect("everybody may");
    let (mut key, value) = (0i32, [0u8; 1024]);
    for map in [knobs, options] {
        let frozen = why(bpf(FREEZE, &[map]));
        assert!([libc::EPERM, ENOTSUPP].contains(&frozen), "{frozen}");
        let next = [map, 0, (&raw mut key) as u64, 0];
        assert_eq!(why(bpf(NEXT_KEY, &next)), ENOTSUPP, "sockets can be listed");
    }
    // A number that is not a descriptor of this process names no socket.
    let other = 12_345i32;
    let update = |map: u64, key: &i32| {
        let words = [
            map,
            std::ptr::from_ref(key) as u64,
            value.as_ptr() as u64,
            0,
        ];
        bpf(UPDATE, &words)
    };
    assert_eq!(why(update(knobs, &other)), libc::EBADF);
    assert_eq!(why(update(options, &other)), libc::EBADF);
    // What is refused is refused for its own reason: the call itself is right.
    update(knobs, &own).expect("one's own socket");
    update(options, &own).expect("one's own socket");
    assert_eq!(why(open_map("feed", 0)), libc::EACCES, "reports are read");
    let feed = open_map("feed", READ_ONLY).expect("the group may");
    assert_eq!(why(update(feed, &own)), libc::EPERM, "a report was forged");
    assert_eq!(why(open_map("before", 0)), libc::EACCES, "it is root's");
    for name in ["knobs", "feed", "options"] {
        let path = std::path::Path::new(alcc_bpf::PINS).join(name);
        assert!(std::fs::remove_file(path).is_err(), "{name} was removed");
    }
    assert!(unload().is_err());
}

/// This test in a separate process. Its file is in a folder that other users cannot read, so it is passed
/// by its descriptor, which must stay open until the process has started.
fn again(test: &str) -> (std::fs::File, Command) {
    let me = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
    nix::fcntl::fcntl(
        &me,
        nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::empty()),
    )
    .unwrap();
    let mut command = Command::new(format!("/proc/self/fd/{}", me.as_raw_fd()));
    command.args(["--exact", test, "--nocapture"]);
    command.env(UNPRIVILEGED, "1");
    (me, command)
}

/// One test, because all of it shares the machine's one kernel.
#[test]
fn a_window_is_kept_and_given_back() {
    match std::env::var(UNPRIVILEGED) {
        Ok(right) if right == WITHOUT => return as_nobody(true),
        Ok(right) if right == REFUSED => return as_nobody(false),
        Ok(_) => return as_a_member(),
        Err(_) => {}
    }
    let Some(_loaded) = Loaded::new() else {
        return;
    };

    // Root alone, then a group, which has no more than it needs, and not all others.
    let run_as = |gid: u32, right: &str| {
        let (_me, mut command) = again("a_window_is_kept_and_given_back");
        command.env(UNPRIVILEGED, right).uid(NOBODY).gid(gid);
        let out = command.output().unwrap();
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "group {gid}: {said}");
    };
    assert_eq!(alcc_bpf::window_group(), None);
    run_as(MEMBERS, REFUSED);
    alcc_bpf::load(Some(MEMBERS)).unwrap();
    assert_eq!(alcc_bpf::window_group(), Some(MEMBERS));
    run_as(MEMBERS, "1");
    run_as(NOBODY, WITHOUT);
    alcc_bpf::load(Some(0)).unwrap();
    run_as(MEMBERS, REFUSED);

    let steered = Steered::open().unwrap();
    for address in ["127.0.0.1:0", "[::1]:0"] {
        // The earlier control is unknown: CUBIC.
        let mut sender = Sender::new(address);
        let given_back = || {
            steer_it(&sender.socket);
            sender.reaches(&steered, 10, 10);
            let after = sender.until(|socket| control_of(socket) != WINDOW.name);
            assert_eq!(control_of(&sender.socket), "cubic");
            after.expect("it was given back").as_secs_f64()
        };
        // A test that waits for a processor sees it late, or begins to wait late.
        let after = first_right(3, given_back, |after| (0.4..2.0).contains(after));
        println!("given back after {after} s");
        // The steering process may return.
        steer_it(&sender.socket);
        sender.reaches(&steered, 4, 4);
    }

    // Attached by root: what it had is known.
    for (address, had) in [("127.0.0.1:0", "reno"), ("[::1]:0", "bbr")] {
        let mut sender = Sender::new(address);
        if choose(&sender.socket, had).is_err() {
            println!("skipped: needs the kernel's {had}");
            continue;
        }
        sender.until(|_| true);
        attach(&sender.only(), WINDOW.name).unwrap();
        assert_eq!(control_of(&sender.socket), WINDOW.name);
        sender.reaches(&steered, 10, 10);
        let back = sender.until(|socket| control_of(socket) != WINDOW.name);
        assert!(back.is_some());
        assert_eq!(control_of(&sender.socket), had);
    }

    // A connection keeps it without its registration, but new ones cannot select it.
    let mut last = Sender::new("127.0.0.1:0");
    steer_it(&last.socket);
    unload().unwrap();
    assert_eq!(
        Steered::open().unwrap_err().kind(),
        std::io::ErrorKind::NotFound
    );
    last.reaches(&steered, 7, 7);
}

// The door's socket options: `door.bpf.c`.
const LEVEL: i32 = 0x414c_4343;
const STEER: i32 = 1;
const FEED: i32 = 2;
const VERSION: i32 = 3;

/// The error's number; 0: done.
fn set(socket: &impl AsRawFd, level: i32, name: i32, len: usize) -> i32 {
    let value = [0u8; 8192];
    let fd = socket.as_raw_fd();
    let len = len as u32;
    // SAFETY: the value is longer than it is said to be.
    let rc = unsafe { libc::setsockopt(fd, level, name, value.as_ptr().cast(), len) };
    errno(rc)
}

fn get(socket: &impl AsRawFd, level: i32, name: i32, len: usize) -> i32 {
    let mut value = [0u8; 8192];
    let fd = socket.as_raw_fd();
    let mut len = len as u32;
    // SAFETY: the value is longer than it is said to be.
    let rc = unsafe { libc::getsockopt(fd, level, name, value.as_mut_ptr().cast(), &raw mut len) };
    errno(rc)
}

fn errno(rc: i32) -> i32 {
    match rc {
        0 => 0,
        _ => std::io::Error::last_os_error().raw_os_error().unwrap(),
    }
}

/// True for the errors of kernels for unknown levels, which depend on the call and the address family.
fn is_unknown(errno: i32) -> bool {
    [libc::ENOPROTOOPT, libc::EOPNOTSUPP].contains(&errno)
}

fn nonsense(tcp: &impl AsRawFd) {
    const STEER_LEN: usize = 24;
    const FEED_LEN: usize = 784;
    for len in [0, 1, STEER_LEN - 1, STEER_LEN + 1, 4096, 8192] {
        assert_eq!(set(tcp, LEVEL, STEER, len), libc::EINVAL, "{len}");
    }
    for len in [0, 4, FEED_LEN - 1, FEED_LEN + 1, 8192] {
        assert_eq!(get(tcp, LEVEL, FEED, len), libc::EINVAL, "{len}");
    }
    assert_eq!(get(tcp, LEVEL, VERSION, 8), libc::EINVAL);
    assert_eq!(get(tcp, LEVEL, FEED, FEED_LEN), 0);
    for name in [-1, 0, FEED, VERSION, 99] {
        assert_eq!(
            set(tcp, LEVEL, name, STEER_LEN),
            libc::ENOPROTOOPT,
            "{name}"
        );
    }
    for name in [-1, 0, STEER, 99] {
        assert_eq!(get(tcp, LEVEL, name, 4), libc::ENOPROTOOPT, "{name}");
    }
    let fd = tcp.as_raw_fd();
    // SAFETY: the kernel is to find that there is nothing at this address.
    let rc = unsafe { libc::setsockopt(fd, LEVEL, STEER, std::ptr::null(), STEER_LEN as u32) };
    assert_eq!(errno(rc), libc::EFAULT);
    // The options of the kernel work as before, and so do unknown levels.
    assert_eq!(set(tcp, libc::IPPROTO_TCP, libc::TCP_NODELAY, 4), 0);
    assert!(is_unknown(set(tcp, LEVEL + 1, STEER, STEER_LEN)));
    assert!(is_unknown(get(tcp, LEVEL + 1, FEED, FEED_LEN)));
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    assert_eq!(set(&udp, LEVEL, STEER, STEER_LEN), libc::ENOPROTOOPT);
    assert_eq!(get(&udp, LEVEL, FEED, FEED_LEN), libc::ENOPROTOOPT);
    // A number that is not a descriptor of this process names no socket.
    assert_eq!(set(&12_345, LEVEL, STEER, STEER_LEN), libc::EBADF);
}

/// The container's part: it reports when its sockets are steered, and is notified of the unloading.
fn as_container() {
    assert!(open_map("knobs", 0).is_err(), "there is a file");
    let steered = Steered::open().expect("there is a door");
    assert!(steered.is_by_door());
    let mut last = None;
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let mut sender = Sender::new(address);
        let unknown = steered.samples(sender.socket.as_raw_fd()).unwrap_err();
        assert_eq!(unknown.kind(), std::io::ErrorKind::NotFound);
        follows(&mut sender, &steered);
        nonsense(&sender.socket);
        sender.reaches(&steered, 6, 6);
        last = Some(sender);
    }
    println!("steered");
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    // The door is closed; the connection continues and is given back.
    let mut sender = last.unwrap();
    let fd = sender.socket.as_raw_fd();
    let gone = |error: std::io::Error| error.raw_os_error().is_some_and(is_unknown);
    assert!(gone(steered.steer(fd, &window(5), 1).unwrap_err()));
    assert!(gone(steered.samples(fd).unwrap_err()));
    let back = sender.until(|socket| control_of(socket) != WINDOW.name);
    assert!(back.is_some());
    assert_eq!(
        Steered::open().unwrap_err().kind(),
        std::io::ErrorKind::NotFound
    );
}

/// A cgroup of its own.
struct Cgroup(PathBuf);

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn a_container_steers_its_sockets_through_the_door() {
    if std::env::var_os(UNPRIVILEGED).is_some() {
        return as_container();
    }
    let Some(_loaded) = Loaded::new() else {
        return;
    };
    let Some(root) = alcc_bpf::all_cgroups() else {
        println!("skipped: needs cgroup version 2");
        return;
    };
    let above = Cgroup(root.join(format!("alcc-test-{}", std::process::id())));
    std::fs::create_dir(&above.0).unwrap();
    let cgroup = Cgroup(above.0.join("container"));
    std::fs::create_dir(&cgroup.0).unwrap();
    assert!(alcc_bpf::open_door(&cgroup.0).unwrap());
    assert!(!alcc_bpf::open_door(&cgroup.0).unwrap(), "it is open");
    alcc_bpf::end_doors().unwrap();
    assert_eq!(alcc_bpf::doors(), [] as [PathBuf; 0]);
    // One above it does no harm.
    for cgroup in [&above, &cgroup] {
        assert!(alcc_bpf::open_door(&cgroup.0).unwrap());
    }
    assert_eq!(alcc_bpf::doors(), [above.0.clone(), cgroup.0.clone()]);

    // In the cgroup, in a mount namespace without our files, without rights.
    let (_me, mut command) = again("a_container_steers_its_sockets_through_the_door");
    let procs = cgroup.0.join("cgroup.procs");
    let procs = std::fs::File::options().write(true).open(procs).unwrap();
    // SAFETY: system calls alone between fork and exec.
    unsafe {
        command.pre_exec(move || {
            nix::unistd::write(&procs, b"0")?;
            nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNS)?;
            let none: Option<&str> = None;
            let (folder, kind) = ("/run/alcc-bpf", Some("tmpfs"));
            mount(Some("none"), folder, kind, MsFlags::empty(), none)?;
            nix::unistd::setgroups(&[])?;
            nix::unistd::setgid(NOBODY.into())?;
            nix::unistd::setuid(NOBODY.into())?;
            Ok(())
        });
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut container = command.spawn().unwrap();
    let mut said = BufReader::new(container.stdout.take().unwrap());
    let mut line = String::new();
    while !line.ends_with("steered\n") {
        let n = said.read_line(&mut line).unwrap();
        assert!(n > 0, "it has ended: {line}");
    }
    // Off for everybody else.
    let outside = Sender::new("127.0.0.1:0");
    assert!(is_unknown(set(&outside.socket, LEVEL, STEER, 24)));
    assert!(is_unknown(get(&outside.socket, LEVEL, VERSION, 4)));
    let cost = alcc_bpf::door_cost(&cgroup.0).expect("root may go there");
    println!("{cost:?}");
    assert!(cost.set_without.as_nanos() > 0 && cost.get_with.as_nanos() > 0);
    unload().unwrap();
    drop(container.stdin.take());
    said.read_to_string(&mut line).unwrap();
    assert!(container.wait().unwrap().success(), "{line}");
    assert_eq!(alcc_bpf::doors(), [] as [PathBuf; 0]);
}
