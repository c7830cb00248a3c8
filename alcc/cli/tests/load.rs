// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `alcc bpf` and `alcc attach` where something is missing or taken: one line that says what to do,
//! and the status.
#[path = "../../bpf/tests/support/mod.rs"]
mod controls;
#[path = "support/kernel.rs"]
mod kernel;

use kernel::{command as alcc, done};
use nix::libc;
use nix::mount::{MsFlags, mount};
use nix::sys::socket::{getsockopt, sockopt::TcpCongestion};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const NOBODY: u32 = 65_534;

fn root() -> bool {
    let root = nix::unistd::geteuid().is_root();
    if !root {
        println!("skipped: needs root");
    }
    root
}

/// The status, and the one line of the error.
fn refused(command: &mut Command) -> (Option<i32>, String) {
    let out = command.output().unwrap();
    let said = String::from_utf8(out.stderr.clone()).unwrap();
    assert_eq!(said.lines().count(), 1, "{command:?}: {out:?}");
    (out.status.code(), said)
}

fn hide(folder: &str) {
    let (kind, mode) = (Some("tmpfs"), Some("mode=0755"));
    mount(Some("none"), folder, kind, MsFlags::empty(), mode).unwrap();
}

#[test]
fn without_the_kernels_types() {
    if !root() {
        return;
    }
    let _alone = controls::controls_alone();
    hide("/sys/kernel/btf");
    let (status, said) = refused(&mut alcc("bpf load"));
    assert_eq!(status, Some(2), "{said}");
    assert!(said.contains("CONFIG_DEBUG_INFO_BTF"), "{said}");
    let (status, said) = refused(&mut alcc("attach --port 1 --cc cubic"));
    assert_eq!(status, Some(2), "{said}");
    assert!(said.contains("CONFIG_DEBUG_INFO_BTF"), "{said}");
    // What cannot work is not proposed.
    let doctor = alcc("doctor --json").output().unwrap();
    let findings: serde_json::Value = serde_json::from_slice(&doctor.stdout).unwrap();
    let text = findings.to_string();
    assert!(text.contains("CONFIG_DEBUG_INFO_BTF"), "{text}");
    assert!(
        !text.contains("\"alcc bpf load\"") && !text.contains("sudo alcc bpf load"),
        "{text}"
    );
}

#[test]
fn without_the_compiler_in_the_kernel() {
    const SWITCH: &str = "/proc/sys/net/core/bpf_jit_enable";
    if !root() {
        return;
    }
    /// On again, however the test ends: the other tests need it.
    struct Off(String);
    impl Drop for Off {
        fn drop(&mut self) {
            let _ = std::fs::write(SWITCH, self.0.trim());
        }
    }
    let _alone = controls::controls_alone();
    let off = Off(std::fs::read_to_string(SWITCH).unwrap());
    if std::fs::write(SWITCH, "0").is_err() {
        println!("skipped: needs a kernel whose BPF compiler can be switched off");
        return;
    }
    let (status, said) = refused(&mut alcc("bpf load"));
    drop(off);
    assert_eq!(status, Some(2), "{said}");
    assert!(said.contains("net.core.bpf_jit_enable=1"), "{said}");
    done("bpf load");
    done("bpf unload");
}

/// The program, where every user may read it.
fn for_everybody(dir: &Path) -> PathBuf {
    std::fs::set_permissions(dir, PermissionsExt::from_mode(0o755)).unwrap();
    let program = dir.join("alcc");
    std::fs::copy(env!("CARGO_BIN_EXE_alcc"), &program).unwrap();
    program
}

#[test]
fn without_the_rights() {
    if !root() {
        return;
    }
    let _alone = controls::controls_alone();
    let dir = tempfile::tempdir().unwrap();
    let program = for_everybody(dir.path());
    let nobody = |args: &str| {
        let mut command = Command::new(&program);
        command.args(args.split(' ')).uid(NOBODY).gid(NOBODY);
        let (status, said) = refused(&mut command);
        assert_eq!(status, Some(2), "{args}: {said}");
        assert!(said.contains("run it as root"), "{args}: {said}");
    };
    // Before anything was loaded, and after.
    nobody("bpf load");
    nobody("attach --port 1 --cc cubic");
    done("bpf load");
    // Loading again needs no privilege: a line says that nothing was done.
    let mut load = Command::new(&program);
    let load = load.args(["bpf", "load"]).uid(NOBODY).gid(NOBODY).output();
    let load = load.unwrap();
    let said = String::from_utf8_lossy(&load.stdout);
    assert!(load.status.success(), "{load:?}");
    assert!(
        said.contains("nothing to do") && said.contains("sudo alcc attach"),
        "{said}"
    );
    for args in [
        "bpf unload",
        "bpf status",
        "attach --port 1 --cc copa",
        "attach --port 1 --cc copa --future",
        "detach --port 1",
    ] {
        nobody(args);
    }
    assert_eq!(
        done("bpf status").matches(": loaded").count(),
        alcc_bpf::controls().count()
    );
    done("bpf unload");
    // Root without the capabilities is unprivileged, too.
    let mut command = alcc("bpf load");
    // SAFETY: system calls alone between fork and exec.
    unsafe {
        command.pre_exec(|| {
            for capability in [libc::c_ulong::from(38u8), 39] {
                libc::prctl(libc::PR_CAPBSET_DROP, capability);
            }
            libc::prctl(libc::PR_CAPBSET_DROP, 21);
            Ok(())
        });
    }
    let (status, said) = refused(&mut command);
    assert_eq!(status, Some(2), "{said}");
    assert!(said.contains("CAP_BPF"), "{said}");
}

/// The unit that the package ships has no more than `alcc bpf load` needs, and no less.
#[test]
fn with_the_rights_of_the_unit() {
    const NUMBERS: [(&str, libc::c_ulong); 2] = [("CAP_SYS_ADMIN", 21), ("CAP_CHOWN", 0)];
    if !root() {
        return;
    }
    let unit = include_str!("../../../packaging/alcc-bpf.service");
    let set = unit
        .lines()
        .find_map(|l| l.strip_prefix("CapabilityBoundingSet="));
    let number = |name| NUMBERS.iter().find(|n| n.0 == name).expect("a number").1;
    let given: Vec<_> = set.unwrap().split(' ').map(number).collect();
    for missing in given.iter().map(Some).chain([None]) {
        let _alone = controls::controls_alone();
        // A group that root is not in.
        let mut load = alcc("bpf load --group nogroup");
        let kept: Vec<_> = given
            .iter()
            .filter(|n| Some(*n) != missing)
            .copied()
            .collect();
        // SAFETY: system calls alone between fork and exec.
        unsafe {
            load.pre_exec(move || {
                for number in (0..64).filter(|n| !kept.contains(n)) {
                    libc::prctl(libc::PR_CAPBSET_DROP, number);
                }
                Ok(())
            });
        }
        let out = load.output().unwrap();
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(
            out.status.success(),
            missing.is_none(),
            "without {missing:?}: {said}"
        );
        done("bpf unload");
    }
}

#[test]
fn what_is_there_already() {
    if !root() {
        return;
    }
    let _alone = controls::controls_alone();
    let first = done("bpf load");
    assert!(
        first.contains("alcc_copa loaded") && !first.contains("nothing to do"),
        "{first}"
    );
    assert!(done("bpf load").contains("alcc_copa is loaded already"));
    std::thread::scope(|threads| {
        let other = threads.spawn(|| {
            nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNS).unwrap();
            hide("/run/alcc-bpf");
            let (status, said) = refused(&mut alcc("bpf load"));
            assert_eq!(status, Some(1), "{said}");
            assert!(
                said.contains("alcc_copa") && said.contains("alcc bpf unload"),
                "{said}"
            );
        });
        other.join().unwrap();
    });
    // A file system of the kind is there, what was in it is gone.
    assert!(done("bpf unload").contains("alcc_copa"));
    assert_eq!(done("bpf unload"), "nothing was loaded\n");
    // Two at once: one loads, the other finds it done, and takes nothing of it away.
    let mut both = [(); 2].map(|()| {
        let mut load = alcc("bpf load");
        load.stdout(Stdio::piped()).spawn().unwrap()
    });
    assert!(both.each_mut().map(|one| one.wait().unwrap().success()) == [true; 2]);
    assert_eq!(alcc_bpf::loaded().len(), alcc_bpf::controls().count());
    let said = both.map(|one| {
        let mut text = String::new();
        one.stdout.unwrap().read_to_string(&mut text).unwrap();
        text.contains("alcc_copa is loaded already")
    });
    assert!(said.contains(&true) && said.contains(&false), "{said:?}");
    done("bpf unload");
}

/// The tests themselves: one that loads begins on a machine where nothing is loaded.
#[test]
fn what_an_earlier_run_has_left() {
    if !root() {
        return;
    }
    let _alone = controls::controls_alone();
    let cgroup = alcc_bpf::all_cgroups();
    done("bpf load");
    if let Some(cgroup) = &cgroup {
        let cgroup = cgroup.display();
        done(&format!(
            "attach --port 1 --cc copa --future --cgroup {cgroup}"
        ));
        assert_eq!(alcc_bpf::futures().len(), 1);
    }
    let line = controls::give_back_leftovers(false).unwrap_err();
    assert!(
        line.contains("alcc_copa") && line.contains("alcc bpf unload"),
        "{line}"
    );
    assert_eq!(alcc_bpf::loaded().len(), alcc_bpf::controls().count());
    controls::give_back_leftovers(true).unwrap();
    assert_eq!(
        (alcc_bpf::loaded().len(), alcc_bpf::futures().len()),
        (0, 0)
    );
    assert_eq!(done("bpf unload"), "nothing was loaded\n");
}

/// Existing connections of processes that may be traced, and controls of the kernel.
#[test]
fn without_bpf_a_descriptor_of_each_socket_does() {
    if !root() {
        return;
    }
    let _alone = controls::controls_alone();
    hide("/sys/kernel/btf");
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let listener = TcpListener::bind(address).unwrap();
        let port = listener.local_addr().unwrap().port();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let (status, said) = refused(&mut alcc(&format!(
            "attach --port {port} --cc reno --future"
        )));
        assert_eq!(status, Some(2), "{said}");
        let had = control_of(&server);
        let look = done(&format!("attach --port {port} --cc reno --dry-run"));
        assert!(look.contains("1 connection would become reno"), "{look}");
        assert_eq!(control_of(&server), had);
        let out = alcc(&format!("attach --port {port} --cc reno"))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{said}");
        assert!(
            said.lines().count() == 1 && said.contains("without BPF"),
            "{said}"
        );
        let text = String::from_utf8_lossy(&out.stdout);
        assert!(
            text.contains(&format!("1 connection switched to reno (was {had})")),
            "{text}"
        );
        assert!(
            text.contains("1 listening socket switched to reno"),
            "{text}"
        );
        assert_eq!(
            (control_of(&server).as_str(), control_of(&client)),
            ("reno", had)
        );
        // An unrecorded control cannot be restored.
        let (status, said) = refused(&mut alcc(&format!("detach --port {port}")));
        assert_eq!(status, Some(2), "{said}");
        // No other process holds the socket.
        server.write_all(b"end").unwrap();
        drop(server);
        let mut got = Vec::new();
        client.read_to_end(&mut got).unwrap();
        assert_eq!(got, b"end");
    }
}

fn control_of(socket: &impl AsFd) -> String {
    let name = getsockopt(socket, TcpCongestion).unwrap();
    name.to_string_lossy().trim_end_matches('\0').to_owned()
}

#[test]
fn who_is_not_there() {
    if !root() {
        return;
    }
    let _alone = controls::controls_alone();
    done("bpf load");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let _client = TcpStream::connect(("127.0.0.1", port)).unwrap();
    // The same port in another network namespace is another.
    let elsewhere = std::thread::spawn(move || {
        nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
        refused(&mut alcc(&format!("attach --port {port} --cc copa")))
    });
    // That thread sees the files that this one does.
    let (status, said) = elsewhere.join().unwrap();
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("--pid"), "{said}");
    let (status, said) = refused(&mut alcc("attach --pid 4194304 --cc copa"));
    assert_eq!(status, Some(2), "{said}");
    assert!(said.contains("/proc/4194304"), "{said}");
    let (status, said) = refused(&mut alcc("attach --cgroup /no/such --cc copa"));
    assert_eq!(status, Some(2), "{said}");
    // The folder in which cgroups can be chosen; on a hybrid machine it is not /sys/fs/cgroup.
    let all = alcc_bpf::all_cgroups().map_or_else(
        || "/sys/fs/cgroup".to_owned(),
        |all| all.display().to_string(),
    );
    assert!(said.contains("/no/such") && said.contains(&all), "{said}");
    let (status, said) = refused(&mut alcc(&format!("attach --port {port} --cc nosuch")));
    assert_ne!(status, Some(0), "{said}");
    done(&format!("attach --port {port} --cc copa"));
    done("bpf unload");
}

fn mounts() -> String {
    std::fs::read_to_string("/proc/thread-self/mountinfo").unwrap()
}

/// A survey creates nothing, and loading creates nothing that another user could replace.
#[test]
fn the_folder_is_roots_alone() {
    if !root() {
        return;
    }
    let _alone = controls::controls_alone();
    // A `/run` of this thread and of what it starts.
    hide("/run");
    let pins = Path::new(alcc_bpf::PINS);
    let look = || {
        assert!(done("bpf status").contains("alcc_window: not loaded"));
        let (status, said) = refused(&mut alcc("attach --port 1 --cc cubic --dry-run"));
        assert_eq!(status, Some(1), "{said}");
        assert_eq!(done("detach"), "0 sockets\n");
        assert_eq!(done("bpf unload"), "nothing was loaded\n");
        // These look, too; what they find is not the matter here.
        for survey in ["doctor", "doctor --json", "policy show", "policy check"] {
            alcc(survey).output().unwrap();
        }
    };
    let before = mounts();
    look();
    assert_eq!(std::fs::read_dir("/run").unwrap().count(), 0);
    // Another's folder, and one that leads elsewhere.
    let elsewhere = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), pins).unwrap();
    look();
    let (status, said) = refused(&mut alcc("bpf load"));
    assert_eq!(status, Some(2), "{said}");
    assert!(said.contains("symbolic link"), "{said}");
    std::fs::remove_file(pins).unwrap();
    std::fs::create_dir(pins).unwrap();
    std::os::unix::fs::chown(pins, Some(NOBODY), None).unwrap();
    look();
    let (status, said) = refused(&mut alcc("bpf load"));
    assert_eq!(status, Some(2), "{said}");
    assert!(said.contains("belongs to user 65534"), "{said}");
    assert_eq!(mounts(), before);
    assert_eq!(std::fs::read_dir(elsewhere.path()).unwrap().count(), 0);
    // A file of the name is no pin.
    std::os::unix::fs::chown(pins, Some(0), None).unwrap();
    std::fs::write(pins.join("alcc_window-link"), "").unwrap();
    look();
    assert!(pins.join("alcc_window-link").exists());
    assert!(done("bpf load").contains("alcc_window loaded"));
    done("bpf unload");
}

/// The controls of an older version are found, and ended by one command.
#[test]
fn what_an_older_version_has_loaded() {
    const OLD: &str = "/run/alcc/bpf";
    if !root() {
        return;
    }
    let _alone = controls::controls_alone();
    hide("/run");
    done("bpf load");
    std::fs::create_dir_all(OLD).unwrap();
    let none: Option<&str> = None;
    mount(Some(alcc_bpf::PINS), OLD, none, MsFlags::MS_MOVE, none).unwrap();
    assert!(done("bpf status").contains(OLD));
    let (status, said) = refused(&mut alcc("bpf load"));
    assert_eq!(status, Some(2), "{said}");
    assert!(
        said.contains(OLD) && said.contains("alcc bpf unload"),
        "{said}"
    );
    assert!(done("bpf unload").contains("alcc_window ended"));
    assert!(!mounts().contains(OLD));
    // The kernel ends some registrations a moment after their files.
    let loads = || alcc("bpf load").output().unwrap().status.success();
    assert!((0..200).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(50));
        loads()
    }));
    done("bpf unload");
}

/// The control of the next connection of a listener.
fn accepted(listener: &TcpListener) -> String {
    let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    control_of(&server)
}

#[test]
fn unload_and_detach_give_back_what_listens_and_what_was_to_come() {
    if !root() {
        return;
    }
    let _alone = controls::controls_alone();
    let Some(all) = alcc_bpf::all_cgroups() else {
        println!("skipped: needs cgroup version 2");
        return;
    };
    done("bpf load");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let plain = accepted(&listener);
    done(&format!("attach --port {port} --cc copa"));
    let again = done(&format!("attach --port {port} --cc copa"));
    assert!(
        again.contains("1 listening socket had alcc_copa already"),
        "{again}"
    );
    assert_eq!(accepted(&listener), "alcc_copa");
    let said = done("bpf unload");
    assert!(said.contains("1 listening socket given back"), "{said}");
    assert_eq!(accepted(&listener), plain);

    // One that chose it by itself is named.
    done("bpf load");
    let own = TcpListener::bind("127.0.0.1:0").unwrap();
    nix::sys::socket::setsockopt(&own, TcpCongestion, &"alcc_copa".into()).unwrap();
    let said = done("bpf unload");
    assert!(
        said.contains("1 listening socket here keeps handing out alcc_copa"),
        "{said}"
    );
    drop(own);

    // So is the system's default, which the kernel keeps; here a network namespace's.
    done("bpf load");
    let elsewhere = std::thread::spawn(|| {
        nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
        std::fs::write("/proc/sys/net/ipv4/tcp_congestion_control", "alcc_copa").unwrap();
        let said = done("bpf unload");
        (said, control_of(&TcpListener::bind("0.0.0.0:0").unwrap()))
    });
    let (said, new) = elsewhere.join().unwrap();
    assert_eq!(new, "alcc_copa");
    assert!(
        said.contains("new connections here still get alcc_copa: set"),
        "{said}"
    );

    // What was to come does not come again with the next load.
    let which = format!("--port {port} --cgroup {}", all.display());
    let attach = || done(&format!("attach {which} --cc copa --future"));
    done("bpf load");
    let said = attach();
    assert!(
        said.contains(&format!("from now on: alcc_copa on port {port}")),
        "{said}"
    );
    let choice = format!("port {port}, {}", all.display());
    let status = done("bpf status");
    assert!(
        status.contains(&format!("for future connections: {choice}")),
        "{status}"
    );
    let said = done("bpf unload");
    assert!(
        said.contains(&format!("ended for future connections: {choice}")),
        "{said}"
    );
    done("bpf load");
    assert_eq!(accepted(&listener), plain);

    // The port alone is enough to find it.
    attach();
    let wide = format!(
        "attach --prefix 127.0.0.0/8 --cc copa --future --cgroup {}",
        all.display()
    );
    done(&wide);
    let said = done(&format!("detach --port {port}"));
    assert!(
        said.contains(&format!("ended for future connections: {choice}")),
        "{said}"
    );
    assert!(
        said.contains("still for future connections: any port, peers 127.0.0.0/8"),
        "{said}"
    );
    done("detach");
    assert_eq!(accepted(&listener), plain);

    // A cgroup that is gone, and one that will be.
    within_units_it_is_refused(&all, port);
    let cgroup = all.join(format!("alcc-test-{port}"));
    std::fs::create_dir(&cgroup).unwrap();
    done(&format!(
        "attach --port {port} --cc copa --future --cgroup {}",
        cgroup.display()
    ));
    std::fs::remove_dir(&cgroup).unwrap();
    let gone = format!("port {port}, of a cgroup that is gone");
    let status = done("bpf status");
    assert!(status.contains(&gone), "{status}");
    let said = done(&format!(
        "detach --port {port} --cgroup {}",
        cgroup.display()
    ));
    assert!(
        said.contains(&format!("ended for future connections: {gone}")),
        "{said}"
    );
    done("bpf unload");
}

/// For a service, a part of one and a container, with every control.
fn within_units_it_is_refused(all: &Path, port: u16) {
    for unit in ["service", "scope"] {
        let unit = all.join(format!("alcc-test-{port}.{unit}"));
        let part = unit.join("part");
        std::fs::create_dir_all(&part).unwrap();
        let mut server = Command::new("sleep").arg("60").spawn().unwrap();
        std::fs::write(part.join("cgroup.procs"), server.id().to_string()).unwrap();
        let pid = format!("--pid {}", server.id());
        let named = |folder: &Path| format!("--port {port} --cgroup {}", folder.display());
        let answers: Vec<_> = [pid.clone(), named(&part), named(&unit)]
            .into_iter()
            .flat_map(|which| {
                [
                    "--cc copa --future",
                    "--cc sprout --future",
                    "--cc copa --trial 10%",
                ]
                .map(|what| refused(&mut alcc(&format!("attach {which} {what}"))))
            })
            .collect();
        // What is proposed instead is accepted.
        let proposed = alcc(&format!("doctor {pid}")).output().unwrap();
        server.kill().unwrap();
        server.wait().unwrap();
        std::fs::remove_dir(&part).unwrap();
        std::fs::remove_dir(&unit).unwrap();
        for (status, said) in answers {
            assert_eq!(status, Some(2), "{said}");
            let above = format!("--cgroup {}\n", all.display());
            assert!(
                said.contains("ExecStartPost") && said.ends_with(&above),
                "{said}"
            );
        }
        let proposed = String::from_utf8_lossy(&proposed.stdout);
        assert!(
            proposed.contains(&format!("alcc attach {pid}")),
            "{proposed}"
        );
        // By port it holds in all cgroups, so it may be proposed; for this unit it may not.
        let mut of_it = proposed.lines().filter(|line| line.contains("--pid"));
        assert!(of_it.all(|line| !line.contains("--future")), "{proposed}");
    }
}

/// A container's server has a network namespace of its own.
#[test]
fn unload_and_detach_reach_other_network_namespaces() {
    if !root() {
        return;
    }
    let _alone = controls::controls_alone();
    let elsewhere = std::thread::spawn(|| {
        nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
        let listener = TcpListener::bind("0.0.0.0:0").unwrap();
        let mut holder = Command::new("sleep");
        holder
            .arg("60")
            .stdin(OwnedFd::from(listener.try_clone().unwrap()));
        (listener, holder.spawn().unwrap())
    });
    let (listener, mut holder) = elsewhere.join().unwrap();
    let plain = control_of(&listener);
    for end in ["bpf unload", "detach"] {
        done("bpf load");
        done(&format!("attach --pid {} --cc copa", holder.id()));
        assert_eq!(control_of(&listener), "alcc_copa");
        let said = done(end);
        assert_eq!(control_of(&listener), plain, "{end}: {said}");
    }
    holder.kill().unwrap();
    holder.wait().unwrap();
    done("bpf unload");
}
