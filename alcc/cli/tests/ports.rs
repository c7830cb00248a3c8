// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two programs of the distribution, ported to the library as the ALCC paper did it: by changing
//! their accept, send and close calls. The patches are in alcc/capi/tests/ports; the
//! sources come from scripts/setup. Each program runs unpatched and patched behind the same
//! emulated link.
#[path = "support/built.rs"]
mod built;
#[path = "support/early.rs"]
mod early;
#[path = "support/lacks.rs"]
mod lacks;
#[path = "support/root.rs"]
mod root;
#[path = "support/starts.rs"]
mod starts;

use alcc_emu::Namespace;
use lacks::lacks;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use root::root;
use starts::first_right;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// About five seconds of the link, and twice its queue.
const BYTES: usize = 4_000_000;
/// Two round trips of the empty link: a mean delay in a queue that was filled.
const FULL_MS: f64 = 80.0;

struct Program {
    /// Name of the source package.
    package: &'static str,
    /// So that it can be compiled at all, with the library and without.
    fixes: &'static [&'static str],
    port: &'static str,
    /// A shell command that builds it.
    make: &'static str,
    /// A shell command that serves the folder `$WWW`.
    serve: &'static str,
    url: &'static str,
}

const WEB: Program = Program {
    package: "mini-httpd",
    fixes: &[],
    port: "mini-httpd.patch",
    // Its own flags say 1990.
    make: "make CFLAGS='-O2 -w -D_GNU_SOURCE -DHAVE_INT64T' mini_httpd",
    serve: "exec ./mini_httpd -D -p 8080 -d $WWW -u $(id -un) -l /dev/null",
    url: "http://$ALCC_OUTSIDE:8080",
};

const FTP: Program = Program {
    package: "linux-ftpd-ssl",
    fixes: &["linux-ftpd-build.patch"],
    port: "linux-ftpd.patch",
    make: "./configure && make",
    serve: "exec ftpd/ftpd -D",
    url: "ftp://$ALCC_OUTSIDE",
};

/// The tarball that scripts/setup fetched.
fn tarball(package: &str) -> Option<PathBuf> {
    let entries = std::fs::read_dir(root().join("target/deps/src")).ok()?;
    entries.flatten().map(|e| e.path()).find(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(&format!("{package}_")) && name.contains(".orig.tar.")
    })
}

fn impossible(program: &Program) -> bool {
    if let Err(why) = alcc_emu::available() {
        return lacks(&format!("namespaces ({why})"));
    }
    let there = |tool: &&str| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|folder| folder.join(tool).is_file())
    };
    let tools = ["cc", "make", "pkg-config", "patch", "yacc", "tar", "curl"];
    if let Some(tool) = tools.iter().find(|tool| !there(tool)) {
        return lacks(&format!("{tool} (run scripts/setup test)"));
    }
    tarball(program.package).is_none()
        && lacks(&format!(
            "the source of {} (run scripts/setup test)",
            program.package
        ))
}

/// Runs a shell command in `folder`.
fn sh(script: &str, folder: &Path, pkg_config: &Path) {
    let out = Command::new("sh")
        .args(["-c", script])
        .current_dir(folder)
        .env("PKG_CONFIG_PATH", pkg_config)
        // What this test was built with is not theirs.
        .env_remove("CFLAGS")
        .env_remove("MAKEFLAGS")
        .output()
        .unwrap();
    assert!(
        out.status.success(),
        "{script}: {}{}",
        String::from_utf8_lossy(&out.stdout),
        String::from_utf8_lossy(&out.stderr)
    );
}

/// The library, its header and its pkg-config file, as `make install` lays them out below `prefix`.
fn install_library(prefix: &Path) {
    let target = Path::new(env!("CARGO_BIN_EXE_alcc")).parent().unwrap();
    // Not a dependency: it may be there from an earlier build, or not at all.
    if std::env::var_os("ALCC_BUILT").is_none() {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--locked", "-p", "alcc-capi"]);
        if target.ends_with("release") {
            cargo.arg("--release");
        }
        assert!(cargo.current_dir(root()).status().unwrap().success());
    }
    for folder in ["include", "lib/pkgconfig"] {
        std::fs::create_dir_all(prefix.join(folder)).unwrap();
    }
    let header = root().join("alcc/capi/include/alcc.h");
    std::fs::copy(header, prefix.join("include/alcc.h")).unwrap();
    // Linked here: other tests may be linking theirs.
    let lib = prefix.join("lib");
    std::os::unix::fs::symlink(target.join("libalcc.a"), lib.join("libalcc.a")).unwrap();
    let mut link = Command::new(root().join("scripts/libalcc"));
    let link = link.arg(&lib).output().unwrap();
    assert!(
        link.status.success(),
        "{}",
        String::from_utf8_lossy(&link.stderr)
    );
    let template = std::fs::read_to_string(root().join("alcc/capi/alcc.pc.in")).unwrap();
    let text = template
        .replace("@PREFIX@", prefix.to_str().unwrap())
        .replace("@VERSION@", env!("CARGO_PKG_VERSION"));
    std::fs::write(prefix.join("lib/pkgconfig/alcc.pc"), text).unwrap();
}

/// The program with these patches, built in `folder`.
fn build(program: &Program, patches: &[&str], folder: &Path, prefix: &Path) {
    std::fs::create_dir(folder).unwrap();
    let pkg_config = prefix.join("lib/pkgconfig");
    let tarball = tarball(program.package).unwrap();
    sh(
        &format!("tar xf '{}' --strip-components=1", tarball.display()),
        folder,
        &pkg_config,
    );
    for patch in patches {
        let patch = root().join("alcc/capi/tests/ports").join(patch);
        sh(
            &format!("patch -s -p1 <'{}'", patch.display()),
            folder,
            &pkg_config,
        );
    }
    sh(program.make, folder, &pkg_config);
}

/// One download over the link, by the program in `folder`.
#[derive(Debug)]
struct Download {
    hash: String,
    /// In the bottleneck's queue.
    mean_delay_ms: f64,
    mbps: f64,
}

fn download(program: &Program, folder: &Path, world: &Path) -> Download {
    let outside = Namespace::new().unwrap();
    // Without control a loss-based algorithm fills the queue, regardless of this machine's default.
    let setting = "/proc/sys/net/ipv4/tcp_congestion_control";
    outside
        .run(|| std::fs::write(setting, "reno"))
        .unwrap()
        .unwrap();
    let json = folder.join("link.json");
    let mut command = Command::new(built::built("alcc-lab"));
    command
        .args(["emulate", "--quiet", "--delay", "20ms", "--down", "6mbit", "--up", "20mbit"])
        .arg(format!("--json={}", json.display()))
        .args(["--outside", program.serve, "--", "sh", "-c"])
        .arg(format!(
            "curl -sS --fail --max-time 60 --retry 20 --retry-connrefused --retry-delay 1 {}/f | sha256sum",
            program.url
        ))
        .current_dir(folder)
        .env("WWW", world.join("www"))
        .env("LD_LIBRARY_PATH", world.join("prefix/lib"))
        .env("ALCC_CC", "copa")
        // The FTP server has changed its root by then, the web server has not.
        .env("ALCC_LOG", if program.package == WEB.package { world.join("www/log") } else { "/log".into() })
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let users = world.join("passwd");
    // SAFETY: between fork and exec only system calls are made.
    unsafe {
        command.pre_exec(move || {
            // A user "ftp" whose home is our folder, for this process and its children alone.
            unshare(CloneFlags::CLONE_NEWNS)?;
            let none = None::<&str>;
            mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
            mount(Some(&users), "/etc/passwd", none, MsFlags::MS_BIND, none)?;
            Ok(())
        });
    }
    let out = outside.spawn(command).unwrap().wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{}: {said}", program.package);
    let report: serde_json::Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    let down = |field: &str| report["down"][field].as_f64().unwrap();
    Download {
        hash: String::from_utf8_lossy(&out.stdout)[..64].to_owned(),
        mean_delay_ms: down("queue_delay_mean_ms"),
        mbps: down("throughput_mbps"),
    }
}

/// Readings of the library's log, and in how many of them the window was what limited.
fn readings(log: &Path) -> (usize, usize) {
    let (mut all, mut full) = (0, 0);
    for file in std::fs::read_dir(log).unwrap().flatten() {
        let text = std::fs::read_to_string(file.path()).unwrap();
        // The process ended without writing its last lines: the very last may be half of one.
        for line in text.lines().skip(1) {
            let field = |n: usize| line.split(',').nth(n).and_then(|f| f.parse::<u64>().ok());
            if let (Some(in_flight), Some(window)) = (field(3), field(5)) {
                all += 1;
                full += usize::from(in_flight * 10 >= window * 8);
            }
        }
    }
    (all, full)
}

fn ported(program: &Program) {
    if impossible(program) {
        return;
    }
    alcc_emu::prepare().unwrap();
    let world = tempfile::tempdir().unwrap();
    let path = |name: &str| world.path().join(name);
    for folder in ["www", "www/log"] {
        std::fs::create_dir(path(folder)).unwrap();
    }
    let content = alcc_units::Rng::new(7).bytes(BYTES);
    std::fs::write(path("www/f"), &content).unwrap();
    let hash = Command::new("sha256sum")
        .arg(path("www/f"))
        .output()
        .unwrap();
    let hash = String::from_utf8_lossy(&hash.stdout)[..64].to_owned();
    let (uid, gid) = (nix::unistd::getuid(), nix::unistd::getgid());
    let me = nix::unistd::User::from_uid(uid)
        .unwrap()
        .map_or_else(|| "root".to_owned(), |user| user.name);
    let users = format!(
        "{me}:x:{uid}:{gid}::/:/bin/sh\nftp:x:{uid}:{gid}::{}:/bin/sh\n",
        path("www").display()
    );
    std::fs::write(path("passwd"), users).unwrap();

    install_library(&path("prefix"));
    build(program, program.fixes, &path("plain"), &path("prefix"));
    build(
        program,
        &[program.fixes, &[program.port]].concat(),
        &path("ported"),
        &path("prefix"),
    );

    // A timeout of a sender that had to wait for a processor ends Reno's slow start: it then fills
    // no queue, and is nothing to compare with.
    let plain = first_right(
        5,
        || download(program, &path("plain"), world.path()),
        |plain| plain.mean_delay_ms > FULL_MS,
    );
    assert_eq!(plain.hash, hash);
    assert_eq!(
        readings(&path("www/log")),
        (0, 0),
        "the unpatched program does not know us"
    );
    let ported = first_right(
        3,
        || download(program, &path("ported"), world.path()),
        |ported| ported.mbps > plain.mbps / 2.0 && ported.mean_delay_ms < plain.mean_delay_ms / 2.0,
    );
    assert_eq!(ported.hash, hash);
    let (all, full) = readings(&path("www/log"));
    println!(
        "{}: mean delay in the queue {:.1} ms unpatched, {:.1} ms ported; {:.2} and {:.2} Mbit/s; the window limited in {full} of {all} readings",
        program.package, plain.mean_delay_ms, ported.mean_delay_ms, plain.mbps, ported.mbps
    );
    assert!(
        all > 100 && full * 2 > all,
        "{full} of {all} readings with a full window"
    );
}

#[test]
fn a_web_server_ported_by_its_calls() {
    ported(&WEB);
}

#[test]
fn an_ftp_server_ported_by_its_calls() {
    ported(&FTP);
}
