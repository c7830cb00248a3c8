// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `alcc policy` and `alcc off` on this machine's kernel.
#[path = "../../bpf/tests/support/mod.rs"]
mod controls;
#[path = "support/kernel.rs"]
mod kernel;
#[path = "support/lacks.rs"]
mod lacks;
#[path = "support/root.rs"]
mod root;

use alcc_bpf::policy;
use kernel::{command as alcc, done};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::socket::{getsockopt, setsockopt, sockopt::TcpCongestion};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, FromRawFd};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const NOBODY: u32 = 65_534;
/// The last line after a policy has ended whose rules have named algorithms of alcc.
const REGISTERED: &str =
    "alcc: its congestion controls stay registered with the kernel: 'alcc bpf unload' removes them";

/// Root and the kernel's part, or it is said what is missing.
fn possible() -> bool {
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: needs root");
        return false;
    }
    if alcc_bpf::all_cgroups().is_none() || !Path::new("/sys/kernel/btf/vmlinux").exists() {
        println!("skipped: needs BTF and cgroups of version 2");
        return false;
    }
    true
}

/// A folder for a policy, and its path as it is on the command line.
struct File(tempfile::TempDir);

impl File {
    fn new(text: &str) -> Self {
        let file = Self(tempfile::tempdir().unwrap());
        file.write(text);
        file
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("policy.toml")
    }

    fn write(&self, text: &str) {
        std::fs::write(self.path(), text).unwrap();
        std::fs::set_permissions(self.path(), PermissionsExt::from_mode(0o644)).unwrap();
    }

    /// Its output on both streams.
    fn apply(&self, text: &str) -> String {
        self.write(text);
        let out = alcc(&format!("policy apply {}", self.path().display()))
            .output()
            .unwrap();
        assert!(out.status.success(), "{out:?}");
        String::from_utf8(out.stderr).unwrap() + &String::from_utf8(out.stdout).unwrap()
    }

    /// The error of applying it.
    fn refused(&self, text: &str) -> String {
        self.write(text);
        refused(&mut alcc(&format!(
            "policy apply {}",
            self.path().display()
        )))
    }
}

/// 'alcc off' in a view of the machine without other processes: those of other tests stay on.
fn off() -> String {
    const ALONE: &str = "for place in /tmp/alcc-0 /run/alcc; do \
        [ ! -d $place ] || mount -t tmpfs tmpfs $place || exit; done; exec \"$0\" off";
    let mut command = Command::new("unshare");
    command.args([
        "--mount",
        "--pid",
        "--fork",
        "--mount-proc",
        "sh",
        "-c",
        ALONE,
    ]);
    let nowhere = tempfile::tempdir().unwrap();
    command.env("XDG_RUNTIME_DIR", nowhere.path());
    let out = command.arg(env!("CARGO_BIN_EXE_alcc")).output().unwrap();
    assert!(out.status.success(), "{out:?}");
    String::from_utf8(out.stdout).unwrap() + &String::from_utf8(out.stderr).unwrap()
}

/// The one line of the error, which is one of usage or of the machine.
fn refused(command: &mut Command) -> String {
    let out = command.output().unwrap();
    let said = String::from_utf8(out.stderr.clone()).unwrap();
    assert_eq!(out.status.code(), Some(2), "{out:?}");
    assert_eq!(said.lines().count(), 1, "{out:?}");
    said
}

fn control(socket: &impl AsFd) -> String {
    let name = getsockopt(&socket.as_fd(), TcpCongestion).unwrap();
    name.to_string_lossy().trim_end_matches('\0').to_owned()
}

/// The system's default, and a control that it is not.
fn two_controls() -> (String, &'static str) {
    let file = "/proc/sys/net/ipv4/tcp_congestion_control";
    let default = std::fs::read_to_string(file).unwrap().trim().to_owned();
    let other = if default == "reno" { "cubic" } else { "reno" };
    (default, other)
}

fn connect(server: &TcpListener) -> (TcpStream, TcpStream) {
    let client = TcpStream::connect(server.local_addr().unwrap()).unwrap();
    (client, server.accept().unwrap().0)
}

fn server() -> (TcpListener, u16) {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    (server, port)
}

fn port_rule(port: u16, cc: &str) -> String {
    format!("[[rule]]\nport = {port}\ncc = \"{cc}\"\n")
}

#[test]
fn a_policy_is_checked_applied_shown_and_rolled_back() {
    if !possible() {
        return;
    }
    let _alone = controls::controls_alone();
    let (default, _) = two_controls();
    let (server, port) = server();
    let (_client, before) = connect(&server);
    let file = File::new("");
    let text =
        port_rule(port, "budget") + "[[rule]]\nunit = \"alcc-nosuch.service\"\ncc = \"copa\"\n";
    // It loads what its rules name.
    let said = file.apply(&text);
    assert!(
        said.contains("2 rules in force; 1 connection switched"),
        "{said}"
    );
    assert!(
        said.contains(&format!("new rule: port {port}: budget")),
        "{said}"
    );
    assert!(
        said.contains(&format!("1 connection from {default} to alcc_budget")),
        "{said}"
    );
    let (_client, after) = connect(&server);
    assert_eq!(
        (control(&before), control(&after)),
        ("alcc_budget".into(), "alcc_budget".into())
    );
    let checked = done(&format!("policy check {}", file.path().display()));
    assert!(
        checked.contains(&format!("line 1: port {port}: budget")),
        "{checked}"
    );
    let shown = done("policy show");
    assert!(
        shown.contains(&format!("line 1: port {port}: budget (2 connections)")),
        "{shown}"
    );
    assert!(
        shown.contains("unit alcc-nosuch.service: copa (no such cgroup now)"),
        "{shown}"
    );
    assert!(
        shown.contains(&format!(
            "new connections to port {port}: alcc_budget (line 1)"
        )),
        "{shown}"
    );
    assert!(
        shown.contains(&format!("everything else: {default}")),
        "{shown}"
    );
    let json: serde_json::Value = serde_json::from_str(&done("policy show --json")).unwrap();
    assert_eq!(json["rules"][0]["connections"], 2);
    assert_eq!(json["not_yet"], 0);
    // Who has chosen is seen beside the figures.
    let because = format!("{}:1: port {port}: budget", file.path().display());
    let top: serde_json::Value = serde_json::from_str(&done("top --once --json")).unwrap();
    let connections = top["connections"].as_array().unwrap().iter();
    let ours = connections.filter(|c| c["local"] == format!("127.0.0.1:{port}"));
    let reasons: Vec<_> = ours.map(|c| c["because"].as_str().unwrap()).collect();
    assert_eq!(reasons, [&*because; 2], "{top}");
    let table = done("top --once").replace("\n   ", " ");
    assert!(table.contains(&format!("2, because {because}")), "{table}");
    // The program chooses for itself, and that is said.
    setsockopt(&after, TcpCongestion, &"reno".into()).unwrap();
    let said = file.apply(&text);
    assert!(
        said.contains("1 connection left alone at reno: chosen after the policy"),
        "{said}"
    );
    assert!(done("policy show").contains("left alone: 1 connection with reno"));
    // Another rule in its place.
    let said = file.apply(&port_rule(port, "copa"));
    assert!(
        said.contains("no longer a rule: port") && said.contains("to alcc_copa"),
        "{said}"
    );
    let out = alcc("policy rollback").output().unwrap();
    let said = String::from_utf8(out.stderr).unwrap();
    assert!(
        said.contains(&format!(
            "1 connection from alcc_copa to {default}: given back"
        )),
        "{said}"
    );
    assert!(said.lines().any(|line| line == REGISTERED), "{said}");
    assert_eq!((control(&before), &*control(&after)), (default, "reno"));
    assert!(done("policy show").starts_with("no policy is in force\n"));
    assert_eq!(done("policy rollback"), "no policy was in force\n");
}

#[test]
fn the_choice_of_a_route_is_kept_and_named() {
    if !possible() {
        return;
    }
    let _alone = controls::controls_alone();
    unshare(CloneFlags::CLONE_NEWNET).unwrap();
    let ip = |words: &str| {
        let ip = Command::new("ip").args(words.split(' ')).status();
        ip.is_ok_and(|status| status.success())
    };
    if !ip("link set lo up") || !ip("route replace local 127.0.0.1 dev lo congctl reno") {
        lacks::lacks("iproute2");
        return;
    }
    let (server, port) = server();
    let (_client, served) = connect(&server);
    let file = File::new("");
    let why = "chosen by a route (ip route ... congctl)";
    let said = file.apply(&port_rule(port, "budget"));
    assert!(
        said.contains(&format!(
            "alcc policy: 1 connection left alone at reno: {why}"
        )),
        "{said}"
    );
    // Both ends: the client's is under no rule.
    let shown = done("policy show");
    assert!(
        shown.contains(&format!("left alone: 2 connections with reno: {why}")),
        "{shown}"
    );
    let json = done(&format!("policy apply --json {}", file.path().display()));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (&json["left"]["route"], &json["switched"]),
        (&1.into(), &0.into())
    );
    done("policy rollback");
    assert_eq!(control(&served), "reno");
}

#[test]
fn a_rule_has_options_and_each_socket_its_own() {
    if !possible() {
        return;
    }
    let _alone = controls::controls_alone();
    let (default, _) = two_controls();
    let (server, port) = server();
    let (attached, to) = self::server();
    let (_client, served) = connect(&server);
    let (_other, plain) = connect(&attached);
    let is = || {
        let found = done(&format!("attach --port {port} --cc reno --dry-run --json"));
        let found: serde_json::Value = serde_json::from_str(&found).unwrap();
        let sockets = found["sockets"].as_array().unwrap();
        let of_peer = sockets.iter().filter(|s| !s["peer"].is_null());
        let names = of_peer.map(|s| s["was"].as_str().unwrap().to_owned());
        names.collect::<Vec<_>>()
    };
    let file = File::new("");
    let rules =
        |delay: &str| port_rule(port, &format!("budget:delay={delay}")) + &port_rule(to, "budget");
    file.apply(&rules("20ms"));
    assert_eq!(is(), ["alcc_budget:delay=20ms"]);
    let (_client, new) = connect(&server);
    assert_eq!(is(), ["alcc_budget:delay=20ms"; 2]);
    let shown = done("policy show");
    assert!(
        shown.contains(&format!("port {port}: budget:delay=20ms (2 connections)")),
        "{shown}"
    );
    let said = file.apply(&rules("80ms"));
    assert!(
        said.contains("2 connections from alcc_budget to other options"),
        "{said}"
    );
    assert!(said.contains("2 connections switched"), "{said}");
    assert_eq!(is(), ["alcc_budget:delay=80ms"; 2]);
    assert!(
        file.apply(&rules("80ms"))
            .contains("0 connections switched")
    );
    // The program sets its own. That is no interrupted change.
    let own = alcc_sys::Options {
        delay: 30_000,
        ..alcc_sys::Options::default()
    };
    let options = alcc_sys::OptionsMap::open().unwrap();
    options.set(served.as_raw_fd(), own).unwrap();
    let shown = done("policy show");
    assert!(
        shown.contains("1 connection with options that their program or an administrator has set"),
        "{shown}"
    );
    assert!(!shown.contains("interrupted"), "{shown}");
    let json: serde_json::Value = serde_json::from_str(&done("policy show --json")).unwrap();
    assert_eq!(
        (&json["own_options"], &json["not_yet"]),
        (&1.into(), &0.into())
    );
    assert!(file.apply(&rules("80ms")).contains("1 connection switched"));
    assert_eq!(is(), ["alcc_budget:delay=80ms"; 2]);
    done("policy rollback");
    for socket in [&served, &new, &plain] {
        assert_eq!(control(socket), default);
    }
    assert_eq!(is(), [&*default; 2]);
}

#[test]
fn with_a_mistake_the_old_policy_stays_in_force() {
    if !possible() {
        return;
    }
    let _alone = controls::controls_alone();
    let (_, other) = two_controls();
    let (server, port) = server();
    let file = File::new("");
    file.apply(&port_rule(port, other));
    let before = policy::in_force().unwrap();
    for (wrong, words) in [
        (
            "[[rule]]\nprot = 443\ncc = \"budget\"\n",
            ":2: no key 'prot' (did you mean port?)",
        ),
        (
            "[[rule]]\nport = 443\ncc = \"budgt\"\n",
            ":3: cc: 'budgt' is not a congestion control in the kernel (did you mean budget?)",
        ),
        (
            "[[rule]]\ncgroup = \"/nosuch\"\noff = true\n",
            ":2: cgroup: '/nosuch' is not a folder below",
        ),
        (
            "[[rule]]\nport = 1\noff = true\n[[rule]]\nport = 1\noff = true\n",
            ":4: [[rule]]: it matches the same connections as that of line 1",
        ),
        ("[[rule]\n", ":1: "),
    ] {
        let said = file.refused(wrong);
        assert!(said.contains(words), "{said}");
        assert!(said.contains(&file.path().display().to_string()), "{said}");
    }
    let missing = refused(&mut alcc("policy apply /nosuch/policy.toml"));
    assert!(missing.contains("read /nosuch/policy.toml"), "{missing}");
    assert_eq!(policy::in_force().unwrap(), before);
    assert_eq!(control(&connect(&server).1), other);
    done("policy rollback");
}

#[test]
fn a_file_that_another_user_may_change_is_refused() {
    if !possible() {
        return;
    }
    let _alone = controls::controls_alone();
    let file = File::new(&port_rule(1, "reno"));
    let path = file.path();
    let apply = |path: &Path| refused(&mut alcc(&format!("policy apply {}", path.display())));
    chown(&path, Some(4242), None).unwrap();
    assert!(apply(&path).contains("belongs to user 4242"));
    chown(&path, Some(0), None).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o666)).unwrap();
    assert!(apply(&path).contains("may be written by other users"));
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
    let link = file.0.path().join("link.toml");
    symlink(&path, &link).unwrap();
    assert!(apply(&link).contains("is a symbolic link"));
    let folder = file.0.path().join("folder");
    symlink(file.0.path(), &folder).unwrap();
    assert!(apply(&folder.join("policy.toml")).contains("symbolic link"));
    std::fs::set_permissions(file.0.path(), PermissionsExt::from_mode(0o777)).unwrap();
    assert!(apply(&path).contains("may be written by other users"));
    std::fs::set_permissions(file.0.path(), PermissionsExt::from_mode(0o755)).unwrap();
    // The folder of the pins is another user's, or a link to one.
    let pins = Path::new(alcc_bpf::PINS);
    chown(pins, Some(4242), None).unwrap();
    assert!(apply(&path).contains("belongs to user 4242"));
    chown(pins, Some(0), None).unwrap();
    nix::mount::umount2(pins, nix::mount::MntFlags::MNT_DETACH).unwrap();
    let (kind, none) = (Some("tmpfs"), None::<&str>);
    mount(none, "/run", kind, MsFlags::empty(), Some("mode=0755")).unwrap();
    symlink(file.0.path(), pins).unwrap();
    assert!(apply(&path).contains("symbolic link"));
    nix::mount::umount2("/run", nix::mount::MntFlags::MNT_DETACH).unwrap();
    assert_eq!(policy::in_force().unwrap(), None);
}

#[test]
fn without_rights_or_types_one_line_says_what_is_missing() {
    if !possible() {
        return;
    }
    let _alone = controls::controls_alone();
    let file = File::new("[[rule]]\nport = 1\ncc = \"reno\"\n");
    let dir = file.0.path();
    std::fs::set_permissions(dir, PermissionsExt::from_mode(0o755)).unwrap();
    let program = dir.join("alcc");
    std::fs::copy(env!("CARGO_BIN_EXE_alcc"), &program).unwrap();
    let nobody = |words: &[&str]| {
        let mut command = Command::new(&program);
        command.args(words).uid(NOBODY).gid(NOBODY);
        command
    };
    let path = file.path();
    let path = path.to_str().unwrap();
    for words in [&["policy", "apply", path][..], &["policy", "show"]] {
        let said = refused(&mut nobody(words));
        assert!(said.contains("run it as root"), "{words:?}: {said}");
    }
    assert!(
        nobody(&["policy", "check", path])
            .status()
            .unwrap()
            .success()
    );
    file.apply("[[rule]]\nport = 1\ncc = \"reno\"\n");
    assert!(refused(&mut nobody(&["policy", "rollback"])).contains("run it as root"));
    assert!(policy::in_force().unwrap().is_some());
    done("policy rollback");
    let (kind, mode) = (Some("tmpfs"), Some("mode=0755"));
    mount(
        Some("none"),
        "/sys/kernel/btf",
        kind,
        MsFlags::empty(),
        mode,
    )
    .unwrap();
    for words in [&format!("policy apply {path}"), "policy show"] {
        let said = refused(&mut alcc(words));
        assert!(said.contains("CONFIG_DEBUG_INFO_BTF"), "{words}: {said}");
    }
    off();
}

/// At random moments, of which a policy of two rules is in force as a whole, or the one before.
#[test]
fn whoever_is_killed_leaves_one_policy_or_the_other() {
    const TURNS: u32 = 50;
    if !possible() {
        return;
    }
    let _alone = controls::controls_alone();
    let (default, other) = two_controls();
    let third = ["cubic", "reno", "bbr"]
        .into_iter()
        .find(|name| *name != default && *name != other);
    let third = third.unwrap();
    let servers = [server(), server()];
    let kept: Vec<_> = (0..200).map(|n| connect(&servers[n % 2].0)).collect();
    if setsockopt(&kept[0].0, TcpCongestion, &third.into()).is_err() {
        println!("skipped: this kernel has no third control");
        return;
    }
    let rules = |cc: &str| {
        servers
            .iter()
            .map(|s| port_rule(s.1, cc))
            .collect::<String>()
    };
    let all_have = |cc: &str| kept.iter().all(|(_, served)| control(served) == cc);
    let file = File::new("");
    let (mut was_old, mut was_new) = (0, 0);
    let began = Instant::now();
    file.apply(&rules(third));
    let takes = began.elapsed();
    let seed = u64::from(std::process::id());
    println!("seed {seed}");
    let mut random = alcc_units::Rng::new(seed);
    let turns = if controls::slow_machine() { 10 } else { TURNS };
    for turn in 0..turns {
        file.apply(&rules(other));
        file.write(&rules(third));
        // From before the first map until after the last socket.
        let verb = if turn % 3 == 2 {
            "rollback".to_owned()
        } else {
            format!("apply {}", file.path().display())
        };
        let mut child = alcc(&format!("policy {verb}"));
        let mut child = child
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(takes.mul_f64(1.5 * random.unit()));
        child.kill().unwrap();
        child.wait().unwrap();
        let gets = servers
            .each_ref()
            .map(|(server, _)| control(&connect(server).1));
        let said = policy::in_force().unwrap();
        let said = said.map(|policy| policy.rules.into_iter().map(|rule| rule.control));
        let said = said.map_or_else(
            || vec![default.clone(); 2],
            |rules| rules.map(Option::unwrap).collect(),
        );
        assert_eq!(said, gets, "turn {turn}");
        assert_eq!(gets[0], gets[1], "turn {turn}");
        match gets[0] == other {
            true => was_old += 1,
            false => was_new += 1,
        }
        // The next call completes it.
        if turn % 2 == 0 {
            file.apply(&rules(third));
            assert!(all_have(third), "turn {turn}");
        }
        done("policy rollback");
        assert!(all_have(&default), "turn {turn}");
    }
    println!("killed before the change {was_old} times, after it {was_new} times");
    assert!(was_old > 0 && was_new > 0);
}

#[test]
fn a_policy_of_another_version_is_named_and_replaced() {
    if !possible() {
        return;
    }
    let _alone = controls::controls_alone();
    let (default, other) = two_controls();
    let (server, port) = server();
    let file = File::new("");
    file.apply(&port_rule(port, other));
    let pin = |version: u32, name: &str| {
        Path::new(alcc_bpf::PINS).join(format!("policy-{version}-{name}"))
    };
    let make_old = || {
        for name in ["link", "policies", "placed"] {
            std::fs::rename(pin(2, name), pin(1, name)).unwrap();
        }
    };
    make_old();
    let shown = done("policy show");
    assert!(
        shown.contains("another version of alcc is in force") && shown.contains("policy-1-link"),
        "{shown}"
    );
    assert_eq!(control(&connect(&server).1), other);
    file.apply("[[rule]]\nport = 1\noff = true\n");
    assert!(!pin(1, "link").exists() && !pin(1, "placed").exists());
    assert_eq!(control(&connect(&server).1), default);
    file.apply(&port_rule(port, other));
    let (_client, served) = connect(&server);
    make_old();
    done("policy rollback");
    assert_eq!(
        (control(&served), control(&connect(&server).1)),
        (default.clone(), default)
    );
}

/// A server with one connection to itself in a separate network namespace. Prints its control on
/// request.
struct Elsewhere(Child);

const ELSEWHERE: &str = "ALCC_TEST_ELSEWHERE";

impl Elsewhere {
    fn start(port: u16) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "in_another_network_namespace", "--nocapture"]);
        command.env(ELSEWHERE, port.to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        // SAFETY: a system call alone between fork and exec.
        unsafe {
            command.pre_exec(|| unshare(CloneFlags::CLONE_NEWNET).map_err(Into::into));
        }
        Self(command.spawn().unwrap())
    }

    fn controls(&mut self) -> String {
        self.0.stdin.as_mut().unwrap().write_all(b"?\n").unwrap();
        let lines = BufReader::new(self.0.stdout.as_mut().unwrap()).lines();
        let told = |line: &String| line.starts_with("controls ");
        lines.map_while(Result::ok).find(told).unwrap()
    }
}

#[test]
fn in_another_network_namespace() {
    let Ok(port) = std::env::var(ELSEWHERE) else {
        return;
    };
    let up = Command::new("ip")
        .args(["link", "set", "lo", "up"])
        .status();
    assert!(up.unwrap().success());
    let server = TcpListener::bind(format!("127.0.0.1:{port}")).unwrap();
    let (_client, first) = connect(&server);
    for line in std::io::stdin().lines() {
        line.unwrap();
        let (_client, new) = connect(&server);
        println!("\ncontrols {} {}", control(&first), control(&new));
    }
}

#[test]
fn other_network_namespaces_are_reached() {
    if !possible() {
        return;
    }
    let _alone = controls::controls_alone();
    let (default, other) = two_controls();
    let port = 40_443;
    let mut there = Elsewhere::start(port);
    assert_eq!(there.controls(), format!("controls {default} {default}"));
    let file = File::new("");
    file.apply(&port_rule(port, other));
    assert_eq!(there.controls(), format!("controls {other} {other}"));
    done("policy rollback");
    assert_eq!(there.controls(), format!("controls {default} {default}"));
    drop(there.0.stdin.take());
    there.0.wait().unwrap();
}

/// The unit that the package ships has no more than 'alcc policy' needs, and no less.
#[test]
fn with_the_rights_of_the_unit() {
    const NUMBERS: [(&str, nix::libc::c_ulong); 2] =
        [("CAP_SYS_ADMIN", 21), ("CAP_SYS_PTRACE", 19)];
    if !possible() {
        return;
    }
    let _alone = controls::controls_alone();
    let (default, other) = two_controls();
    let unit = include_str!("../../../packaging/alcc.service");
    let mut lines = unit.lines();
    let set = lines.find_map(|l| l.strip_prefix("CapabilityBoundingSet="));
    let number = |name| NUMBERS.iter().find(|n| n.0 == name).expect("a number").1;
    let given: Vec<_> = set.unwrap().split(' ').map(number).collect();
    let port = 40_444;
    let mut there = Elsewhere::start(port);
    let file = File::new(&port_rule(port, other));
    // The first needs the right to mount.
    for missing in given.iter().map(Some).chain([None]) {
        let mut apply = alcc(&format!("policy apply {}", file.path().display()));
        let is_kept = |number: &&nix::libc::c_ulong| Some(*number) != missing;
        let kept: Vec<_> = given.iter().filter(is_kept).copied().collect();
        // SAFETY: system calls alone between fork and exec.
        unsafe {
            apply.pre_exec(move || {
                for number in (0..64).filter(|n| !kept.contains(n)) {
                    nix::libc::prctl(nix::libc::PR_CAPBSET_DROP, number);
                }
                Ok(())
            });
        }
        let out = apply.output().unwrap();
        let all = there.controls();
        let expected =
            match missing.map(|number| NUMBERS.iter().find(|n| n.1 == *number).unwrap().0) {
                Some("CAP_SYS_ADMIN") => [&*default; 2],
                // Only what comes.
                Some(_) => [&*default, other],
                None => [other; 2],
            };
        assert_eq!(
            all,
            format!("controls {} {}", expected[0], expected[1]),
            "{missing:?}: {out:?}"
        );
        done("policy rollback");
    }
    drop(there.0.stdin.take());
    there.0.wait().unwrap();
}

#[test]
fn a_connection_of_multipath_tcp_is_left_alone() {
    if !possible() {
        return;
    }
    let _alone = controls::controls_alone();
    let (default, other) = two_controls();
    let socket = || {
        // SAFETY: a call with numbers, and a descriptor that nobody else has.
        unsafe {
            let fd = nix::libc::socket(
                nix::libc::AF_INET,
                nix::libc::SOCK_STREAM,
                nix::libc::IPPROTO_MPTCP,
            );
            (fd >= 0).then(|| std::os::fd::OwnedFd::from_raw_fd(fd))
        }
    };
    let (Some(listener), Some(client)) = (socket(), socket()) else {
        println!("skipped: needs a kernel with Multipath TCP");
        return;
    };
    use nix::sys::socket::{Backlog, SockaddrIn, bind, connect, getsockname, listen};
    bind(listener.as_raw_fd(), &SockaddrIn::new(127, 0, 0, 1, 0)).unwrap();
    listen(&listener, Backlog::new(1).unwrap()).unwrap();
    let address: SockaddrIn = getsockname(listener.as_raw_fd()).unwrap();
    let file = File::new("");
    file.apply(&port_rule(address.port(), other));
    connect(client.as_raw_fd(), &address).unwrap();
    let server = TcpListener::from(listener);
    let served = server.accept().unwrap().0;
    assert_eq!(control(&served), default);
    let said = file.apply(&port_rule(address.port(), other));
    assert!(
        said.contains("part of a Multipath TCP connection"),
        "{said}"
    );
    assert_eq!(control(&served), default);
    done("policy rollback");
}

/// The bytes of a transfer arrive as they are, while its control changes all the time.
#[test]
fn applied_and_rolled_back_under_traffic() {
    const ALL: usize = 64 << 20;
    if !possible() {
        return;
    }
    let _alone = controls::controls_alone();
    let (server, port) = server();
    let (mut client, mut served) = connect(&server);
    let sender = std::thread::spawn(move || {
        let block: Vec<u8> = (0..65_536_u32).map(|i| (i % 251) as u8).collect();
        let mut sent = 0;
        while sent < ALL {
            served.write_all(&block).unwrap();
            sent += block.len();
            std::thread::sleep(Duration::from_millis(2));
        }
    });
    let reader = std::thread::spawn(move || {
        let (mut block, mut all) = (vec![0; 65_536], 0);
        loop {
            let n = client.read(&mut block).unwrap();
            if n == 0 {
                return all;
            }
            let right = block[..n]
                .iter()
                .zip(all..)
                .all(|(b, i)| usize::from(*b) == i % 65_536 % 251);
            assert!(right, "after {all} bytes they are others");
            all += n;
        }
    });
    let file = File::new("");
    let mut turns = 0;
    while !sender.is_finished() {
        for cc in ["budget", "copa", "reno"] {
            file.apply(&port_rule(port, cc));
        }
        done("policy rollback");
        turns += 1;
    }
    sender.join().unwrap();
    assert_eq!(reader.join().unwrap(), ALL);
    println!("{turns} times there and back");
    assert!(turns > 0);
}

/// A systemd of its own, with nginx and all of the unit's hardening.
struct Systemd {
    dir: tempfile::TempDir,
    _alone: controls::Alone,
}

impl Systemd {
    fn new() -> Option<Self> {
        let deps = root::root().join("target/deps/root");
        let nginx = deps.join("usr/sbin/nginx");
        for needed in [Path::new("/lib/systemd/systemd"), &nginx] {
            if !needed.exists() {
                lacks::lacks(&needed.display().to_string());
                return None;
            }
        }
        if !possible() {
            return None;
        }
        let system = Self {
            dir: tempfile::tempdir().unwrap(),
            _alone: controls::controls_alone(),
        };
        system.write("units/alcc-test.target", "[Unit]\nDefaultDependencies=no\n");
        system.write(
            "units/nginx.service",
            "[Unit]\nDefaultDependencies=no\n[Service]\nExecStart=/run/bin/nginx\nTimeoutStopSec=5\nKillMode=mixed\n",
        );
        let unit = include_str!("../../../packaging/alcc.service")
            .replace("/etc/alcc/policy.toml", "/run/policy.toml")
            .replace("policy apply", "policy apply /run/policy.toml")
            .replace("@BIN@", "/run/bin");
        system.write("units/alcc.service", &unit);
        system.write(
            "units/alcc.service.d/test.conf",
            "[Unit]\nDefaultDependencies=no\n[Service]\nStandardOutput=append:/run/alcc.log\nStandardError=append:/run/alcc.log\n",
        );
        let libraries = deps.join("usr/lib/x86_64-linux-gnu");
        system.write(
            "bin/nginx",
            &format!(
                "#!/bin/sh\nexport LD_LIBRARY_PATH={}\nexec {} -c /run/nginx.conf -g 'daemon off;'\n",
                libraries.display(),
                nginx.display()
            ),
        );
        let program = env!("CARGO_BIN_EXE_alcc");
        system.write("bin/alcc", &format!("#!/bin/sh\nexec {program} \"$@\"\n"));
        let folders = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
        let folders = folders.map(|name| format!("{name}_temp_path /var/lib/nginx/{name};\n"));
        system.write(
            "conf/nginx.conf",
            &format!(
                "pid /run/nginx.pid;\nuser root;\nerror_log /var/log/nginx/error.log;\nevents {{}}\n\
                 http {{\naccess_log off;\n{}server {{ listen 8081; }}\n}}\n",
                folders.concat()
            ),
        );
        system.write(
            "conf/policy.toml",
            "[[rule]]\nunit = \"nginx.service\"\ncc = \"budget\"\n",
        );
        Some(system)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        let mode = if name.starts_with("bin/") {
            0o755
        } else {
            0o644
        };
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    }

    /// Starts it, and a script of `tests/systemd` in it, which must print these lines. Returns all that it printed.
    fn prints(&self, script: &str, lines: &[String]) -> String {
        let outside = root::root().join("alcc/cli/tests/systemd/outside");
        let mut bash = Command::new("bash");
        let done = bash.arg(outside).arg(self.dir.path()).arg(script).output();
        let done = done.unwrap();
        let said = String::from_utf8_lossy(&done.stdout).into_owned();
        if done.status.code() == Some(2) {
            lacks::lacks("a systemd in namespaces");
            return String::new();
        }
        let errors = String::from_utf8_lossy(&done.stderr);
        for line in lines {
            assert!(said.lines().any(|l| l == line), "{line}\n{said}\n{errors}");
        }
        said
    }
}

#[test]
fn the_service_follows_a_unit_and_keeps_the_old_policy_after_a_mistake() {
    let Some(system) = Systemd::new() else {
        return;
    };
    let (default, _) = two_controls();
    let rule = |cc: &str, n: &str| format!("active success, 1: unit nginx.service: {cc} ({n})");
    let said = system.prints("policy", &[
        format!("start: 0 {}", rule("budget", "1 connection")),
        format!("connected: 0 {}", rule("budget", "2 connections")),
        // Those of before have ended.
        format!("restarted: 0 {}", rule("budget", "1 connection")),
        format!("mistake: 1 {}", rule("budget", "1 connection")),
        format!("reload: 0 {}", rule("copa", "1 connection")),
        "stop: 0 inactive success, no policy is in force".to_owned(),
        format!(
            "alcc policy: 1 connection from {default} to alcc_budget: /run/policy.toml:1: unit nginx.service: budget"
        ),
        format!(
            "alcc policy: 1 connection from alcc_copa to {default}: given back at the end of the policy"
        ),
    ]);
    assert!(
        said.is_empty() || said.contains("/run/policy.toml:2: no key 'unti' (did you mean unit?)"),
        "{said}"
    );
}

/// Only the links of `systemctl enable` start it.
#[test]
fn an_enabled_service_puts_the_policy_in_force_when_the_machine_starts() {
    let Some(system) = Systemd::new() else {
        return;
    };
    let unit = include_str!("../../../packaging/alcc.service");
    assert!(unit.ends_with("\n[Install]\nWantedBy=multi-user.target\n"));
    // The target of the test stands for that one.
    system.write(
        "units/alcc-test.target",
        "[Unit]\nDefaultDependencies=no\nAfter=alcc.service nginx.service own.socket\n",
    );
    // Sockets of systemd have the control that their unit names.
    system.write(
        "units/own.socket",
        "[Unit]\nDefaultDependencies=no\n[Socket]\nListenStream=8082\nTCPCongestion=reno\n",
    );
    system.write("units/own.service", "[Service]\nExecStart=/bin/true\n");
    let wanted = system.dir.path().join("units/alcc-test.target.wants");
    std::fs::create_dir(&wanted).unwrap();
    for unit in ["alcc.service", "nginx.service", "own.socket"] {
        symlink(Path::new("..").join(unit), wanted.join(unit)).unwrap();
    }
    system.write(
        "conf/policy.toml",
        "[[rule]]\nport = [8081, 8082]\ncc = \"budget\"\n",
    );
    system.prints("reboot", &[
        "started: active, line 1: port 8081: budget (1 connection)".to_owned(),
        "started: active, new connections to port 8082: reno (chosen by the program, or by TCPCongestion= of its socket unit)".to_owned(),
    ]);
}

#[test]
fn off_ends_the_policy_and_what_attach_has_chosen() {
    if !possible() {
        return;
    }
    let _alone = controls::controls_alone();
    let (default, other) = two_controls();
    let (server, port) = server();
    let (attached, to) = self::server();
    let (_client, first) = connect(&server);
    let (_other_client, second) = connect(&attached);
    let file = File::new("");
    file.apply(&port_rule(port, other));
    let cgroups = alcc_bpf::all_cgroups().unwrap();
    done(&format!(
        "attach --port {to} --cc {other} --future --cgroup {}",
        cgroups.display()
    ));
    assert_eq!((&*control(&first), &*control(&second)), (other, other));
    assert!(done("bpf status").contains("a policy of 1 rule"));
    assert!(done(&format!("detach --port {port}")).contains("the policy stays in force"));
    let said = file.apply(&port_rule(port, other));
    let choice = format!("port {to}, {}: {other}", cgroups.display());
    assert!(
        said.contains(&format!("before these rules, by 'alcc attach': {choice}")),
        "{said}"
    );
    let shown = done("policy show");
    for line in [
        format!("by 'alcc attach', for future connections: {choice}"),
        format!("new connections to port {to}: {other} ('alcc attach')"),
        format!("left alone: 1 connection with {other}: chosen by 'alcc attach'"),
    ] {
        assert!(shown.contains(&line), "{line}: {shown}");
    }
    let said = off();
    assert!(said.contains("the policy has ended"), "{said}");
    assert!(
        said.contains(&format!("ended for future connections: port {to}")),
        "{said}"
    );
    for socket in [&first, &second, &connect(&server).1, &connect(&attached).1] {
        assert_eq!(control(socket), default);
    }
    assert_eq!(off(), "");
    done("bpf load");
    assert_eq!(off(), format!("{REGISTERED}\n"));
}
