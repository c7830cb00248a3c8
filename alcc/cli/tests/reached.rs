// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `alcc attach` and a policy reach what no preloading does: Go, io_uring, a container. `attach.rs` has
//! the static program.
#[path = "../../bpf/tests/support/mod.rs"]
mod controls;
#[path = "support/go.rs"]
mod go;
#[allow(dead_code, reason = "nginx runs without alcc here")]
mod support;
#[path = "support/wait.rs"]
mod wait;

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;
use support::{World, lacks, link, nginx};
use wait::{listens, wait_for};

const PORT: u16 = 9000;
/// Some 2.7 s.
const BYTES: usize = 4_000_000;

/// Its output; the command must succeed.
fn done(args: &str) -> String {
    let out = Command::new(env!("CARGO_BIN_EXE_alcc"))
        .args(args.split(' '))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "alcc {args}: {said}");
    String::from_utf8(out.stdout).unwrap()
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join(name)
}

struct Place {
    world: World,
    sum: String,
    /// Last: what has used the controls has ended before.
    _alone: controls::Alone,
}

impl Place {
    fn new() -> Option<Self> {
        if support::impossible() {
            return None;
        }
        let alone = controls::controls_alone();
        let load = Command::new(env!("CARGO_BIN_EXE_alcc"))
            .args(["bpf", "load"])
            .output()
            .unwrap();
        if load.status.code() == Some(2) {
            let said = String::from_utf8_lossy(&load.stderr);
            println!("skipped: needs the right to load BPF programs: {said}");
            return None;
        }
        assert!(load.status.success());
        let world = World::new(link(12));
        let sum = world.file("data", BYTES);
        Some(Self {
            world,
            sum,
            _alone: alone,
        })
    }

    /// A program of the tests, which serves the file.
    fn start(&self, program: &Path) -> Server {
        let mut command = Command::new(program);
        command
            .arg(PORT.to_string())
            .arg(self.world.path("www/data"));
        Server(self.world.outside.spawn(command).unwrap())
    }

    /// The server is switched in the middle of a download; a later one begins with the control;
    /// then all is given back. `which` selects the server for 'alcc attach', `rule` that of a policy.
    fn reaches(self, which: &str, rule: Option<&str>, port: u16, path: &str, mut server: Server) {
        let take = || match rule {
            None => {
                let said = done(&format!("attach {which} --cc copa --future"));
                assert!(said.contains("connection switched to alcc_copa"), "{said}");
            }
            Some(rule) => {
                let file = self.world.path("policy.toml");
                std::fs::write(&file, format!("[[rule]]\n{rule}\ncc = \"copa\"\n")).unwrap();
                let said = done(&format!("policy apply {}", file.display()));
                assert!(said.contains("1 connection switched"), "{said}");
            }
        };
        let give_back = || match rule {
            None => {
                let said = done(&format!("detach {which}"));
                assert!(said.contains("given back (was alcc_copa)"), "{said}");
            }
            Some(_) => {
                let said = done("policy rollback");
                assert!(said.contains("1 connection switched"), "{said}");
            }
        };
        // curl would report a refusal, also if it tries again and is served.
        wait_for("the server", || server.ended_or_listens(port));
        let fetch = || {
            let url = format!("http://$S:{port}/{path}");
            assert_eq!(
                self.world.fetch(&url),
                self.sum,
                "the bytes arrive as they are"
            );
        };
        // What the connections run, without a change.
        let running = || {
            let found = done(&format!("attach {which} --cc cubic --dry-run --json"));
            let found: serde_json::Value = serde_json::from_str(&found).unwrap();
            let sockets = found["sockets"].as_array().unwrap().clone();
            let peers = sockets.iter().filter(|s| !s["peer"].is_null());
            let names = peers.map(|s| s["was"].as_str().unwrap().to_owned());
            names.collect::<Vec<_>>()
        };
        let during = |act: &dyn Fn()| {
            std::thread::scope(|threads| {
                let download = threads.spawn(fetch);
                wait_for("a connection", || running().len() == 1);
                act();
                download.join().unwrap();
            });
        };
        during(&|| {
            assert!(running().iter().all(|name| name != "alcc_copa"));
            take();
            assert_eq!(running(), ["alcc_copa"]);
        });
        during(&|| {
            assert_eq!(running(), ["alcc_copa"]);
            give_back();
            assert!(running().iter().all(|name| name != "alcc_copa"));
        });
        during(&|| assert!(running().iter().all(|name| name != "alcc_copa")));
        done("bpf unload");
        drop(server);
        self.world.end();
    }
}

/// A server that ends with its test, so that a failed test does not keep the controls' names in use.
struct Server(Child);

impl Server {
    fn ended_or_listens(&mut self, port: u16) -> bool {
        self.0.try_wait().unwrap().is_some() || listens(self.0.id(), port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_go_server() {
    let Some(place) = Place::new() else {
        return;
    };
    let program = place.world.path("server");
    if !go::server(&program) {
        return;
    }
    let server = place.start(&program);
    let which = format!("--pid {}", server.0.id());
    place.reaches(&which, None, PORT, "", server);
}

#[test]
fn a_server_of_io_uring() {
    let Some(place) = Place::new() else {
        return;
    };
    let program = place.world.path("server");
    let made = Command::new("cc")
        .args(["-O1", "-Wall", "-o"])
        .args([&program, &source("c/ring_server.c")])
        .status();
    if !made.is_ok_and(|status| status.success()) {
        lacks("cc and the kernel's headers");
        return;
    }
    let mut server = place.start(&program);
    wait_for("the server", || server.ended_or_listens(PORT));
    let ended = server.0.try_wait().unwrap();
    if ended.is_some_and(|s| s.code() == Some(2)) {
        println!("skipped: needs io_uring");
        return;
    }
    let which = format!("--pid {}", server.0.id());
    place.reaches(&which, None, PORT, "", server);
}

/// The folder of a container's processes.
struct Cgroup(PathBuf);

impl Cgroup {
    fn new() -> Option<Self> {
        let mine = alcc_bpf::cgroup_of(std::process::id())?;
        let folder = mine.join(format!("alcc-test-{}", std::process::id()));
        std::fs::create_dir(&folder).ok()?;
        Some(Self(folder))
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // It is empty a moment after its last process.
        for _ in 0..100 {
            if std::fs::remove_dir(&self.0).is_ok() {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// As container runtimes start it: namespaces of its own for users, processes, files and the
/// network, and a cgroup.
fn container(place: &Place) -> Option<(Cgroup, Server)> {
    let Some(cgroup) = Cgroup::new() else {
        println!("skipped: needs cgroup version 2");
        return None;
    };
    let world = &place.world;
    world.configure("daemon off;");
    let mut command = Command::new("sh");
    command
        .args([
            "-c",
            "echo $$ >\"$1\"/cgroup.procs && shift && exec \"$@\"",
            "sh",
        ])
        .arg(&cgroup.0)
        .args([
            "unshare",
            "--user",
            "--map-root-user",
            "--mount",
            "--pid",
            "--fork",
        ])
        .args(["--kill-child=KILL"])
        .arg(nginx().unwrap())
        .arg("-c")
        .arg(world.path("nginx.conf"))
        .arg("-e")
        .arg(world.path("error.log"));
    let server = Server(world.outside.spawn(command).unwrap());
    Some((cgroup, server))
}

#[test]
fn a_container() {
    let Some(place) = Place::new() else {
        return;
    };
    let Some((cgroup, server)) = container(&place) else {
        return;
    };
    let which = format!("--cgroup {}", cgroup.0.display());
    place.reaches(&which, None, 8080, "data", server);
}

#[test]
fn a_container_under_a_policy() {
    let Some(place) = Place::new() else {
        return;
    };
    let Some((cgroup, server)) = container(&place) else {
        return;
    };
    let which = format!("--cgroup {}", cgroup.0.display());
    let rule = format!("cgroup = \"{}\"", cgroup.0.display());
    place.reaches(&which, Some(&rule), 8080, "data", server);
}
