// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs that glibc's loader does not load, or that have a library of their own to come first:
//! under `alcc run` they do what they do without it, started by it or by a program that it started.
#[path = "../../bpf/tests/support/mod.rs"]
mod controls;
#[path = "support/kernel.rs"]
mod kernel;
#[path = "support/lacks.rs"]
mod lacks;

use lacks::lacks;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const HELLO: &str = r#"
#include <stdio.h>
#include <unistd.h>
int main(int count, char **arguments) {
    puts("hello");
    fflush(stdout);
    if (count > 1) execv(arguments[1], arguments + 1);
    return 7;
}
"#;

/// Writes half a megabyte on a connection with itself.
const SENDS: &str = r#"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof at;
    int from = socket(AF_INET, SOCK_STREAM, 0), to = socket(AF_INET, SOCK_STREAM, 0), status;
    if (bind(from, (void *)&at, len) || listen(from, 1) || getsockname(from, (void *)&at, &len)) return 1;
    if (connect(to, (void *)&at, len)) return 2;
    int fd = accept(from, NULL, NULL);
    size_t size = 500000, got = 0;
    char *data = malloc(size);
    memset(data, 'a', size);
    pid_t reader = fork();
    if (reader == 0) {
        close(fd);
        for (ssize_t n; (n = read(to, data, size)) > 0;) got += n;
        _exit(got != size);
    }
    if (write(fd, data, size) != (ssize_t)size || close(fd)) return 3;
    free(data);
    if (waitpid(reader, &status, 0) != reader || status != 0) return 4;
    puts("sent");
    return 0;
}
"#;

/// Libraries that shift a program's time (libfaketime) do it so: the monotonic clock follows the wall
/// clock.
const SHIFTS: &str = r#"
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec *at) {
    int done = syscall(SYS_clock_gettime, clock == CLOCK_MONOTONIC ? CLOCK_REALTIME : clock, at);
    at->tv_sec += OFFSET;
    long long now = FACTOR * (at->tv_sec % 1000000 * 1000000000LL + at->tv_nsec);
    at->tv_sec = at->tv_sec / 1000000 * 1000000 + now / 1000000000;
    at->tv_nsec = now % 1000000000;
    return done;
}
"#;

/// Loads a library into a separate linker namespace, which has a separate C library, or so that it finds its own C
/// library before ours (RTLD_DEEPBIND), and sends half a megabyte. Letters say which of the program (h) and the library (p) registers the connection, modifies
/// the registration and waits. The last one is level-triggered (l) or not (e).
const TWO_NAMESPACES: &str = r#"
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
static int registers_here(int ep, int how, int fd, unsigned events) {
    struct epoll_event e = {.events = events, .data.fd = fd};
    return epoll_ctl(ep, how, fd, &e);
}
static int waits_here(int ep, struct epoll_event *e) { return epoll_wait(ep, e, 1, 5000); }
int main(int count, char **arguments) {
    if (count < 4) return 9;
    int deep = arguments[3][0] == 'd';
    void *library = deep ? dlopen(arguments[1], RTLD_NOW | RTLD_DEEPBIND) : dlmopen(LM_ID_NEWLM, arguments[1], RTLD_NOW);
    if (!library) return 9;
    const char *who = arguments[2];
    int (*there)(int, int, int, unsigned) = dlsym(library, "registers");
    int (*add)(int, int, int, unsigned) = who[0] == 'p' ? there : registers_here;
    int (*modify)(int, int, int, unsigned) = who[1] == 'p' ? there : registers_here;
    int (*waits)(int, struct epoll_event *) = who[2] == 'p' ? dlsym(library, "waits") : waits_here;
    unsigned events = EPOLLIN | EPOLLOUT | (who[3] == 'e' ? EPOLLET : 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof at;
    int from = socket(AF_INET, SOCK_STREAM, 0), to = socket(AF_INET, SOCK_STREAM, 0), status;
    if (bind(from, (void *)&at, len) || listen(from, 1) || getsockname(from, (void *)&at, &len)) return 1;
    if (connect(to, (void *)&at, len)) return 2;
    int fd = accept(from, NULL, NULL), epfd = epoll_create1(0);
    size_t size = 500000, got = 0;
    char *data = calloc(1, size);
    pid_t reader = fork();
    if (reader == 0) {
        close(fd);
        for (ssize_t n; (n = read(to, data, size)) > 0;) got += n;
        _exit(got != size);
    }
    if (fcntl(fd, F_SETFL, O_NONBLOCK) || add(epfd, EPOLL_CTL_ADD, fd, who[1] == '-' ? events : EPOLLIN)) return 5;
    if (who[1] != '-' && modify(epfd, EPOLL_CTL_MOD, fd, events)) return 6;
    for (size_t sent = 0; sent < size;) {
        struct epoll_event event;
        ssize_t n = send(fd, data + sent, size - sent, 0);
        if (n > 0) sent += n;
        else if (waits(epfd, &event) != 1) return 7;
    }
    if (close(fd) || waitpid(reader, &status, 0) != reader || status != 0) return 4;
    puts("sent");
    return 0;
}
"#;

const IN_THE_OTHER: &str = r#"
#include <sys/epoll.h>
int registers(int ep, int how, int fd, unsigned events) {
    struct epoll_event e = {.events = events, .data.fd = fd};
    return epoll_ctl(ep, how, fd, &e);
}
int waits(int ep, struct epoll_event *e) { return epoll_wait(ep, e, 1, 5000); }
"#;

fn compiled(dir: &Path, name: &str, text: &str, compiler: &mut Command) -> Option<PathBuf> {
    let (source, program) = (dir.join(format!("{name}.c")), dir.join(name));
    std::fs::write(&source, text).unwrap();
    let made = compiler.arg(&source).arg("-o").arg(&program).output();
    made.is_ok_and(|made| made.status.success())
        .then_some(program)
}

/// By the system's musl, or by the one that `scripts/setup test` has unpacked.
fn with_musl(dir: &Path) -> Option<PathBuf> {
    if let Some(program) = compiled(dir, "musl", HELLO, &mut Command::new("musl-gcc")) {
        return Some(program);
    }
    let deps = std::env::var_os("ALCC_DEPS_BIN").map(PathBuf::from);
    let deps =
        deps.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/deps/bin"));
    let root = deps.parent()?.join("root").canonicalize().ok()?;
    let triple = format!("{}-linux-musl", std::env::consts::ARCH);
    let (include, lib) = (
        root.join("usr/include").join(&triple),
        root.join("usr/lib").join(&triple),
    );
    let libc = root.join("lib").join(&triple).join("libc.so");
    // As musl-gcc does it, and with musl's loader where it was unpacked; the loader is known by its
    // name.
    let loader = dir.join(format!("ld-musl-{}.so.1", std::env::consts::ARCH));
    std::os::unix::fs::symlink(&libc, &loader).ok()?;
    let mut compiler = Command::new("cc");
    compiler
        .args(["-nostdinc", "-nostdlib", "-no-pie", "-isystem"])
        .arg(include)
        .args(["crt1.o", "crti.o", "crtn.o"].map(|part| lib.join(part)))
        .arg(libc)
        .arg(format!("-Wl,-dynamic-linker,{}", loader.display()));
    compiled(dir, "musl", HELLO, &mut compiler)
}

fn run(options: &[&str], program: &[&Path]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_alcc"))
        .args(["run", "--loopback", "--outbound", "--cc", "fixed:window=2"])
        .args(if options.contains(&"--enforce") {
            &[][..]
        } else {
            &["--enforce", "gate+pacing"]
        })
        .args(options)
        .arg("--")
        .args(program)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_musl_program_runs_and_is_said_not_to_be_controlled() {
    let dir = tempfile::tempdir().unwrap();
    let Some(musl) = with_musl(dir.path()) else {
        lacks("musl");
        return;
    };
    let out = run(&[], &[&musl]);
    let said = text(&out.stderr);
    assert_eq!(text(&out.stdout), "hello\n", "{said}");
    assert_eq!(out.status.code(), Some(7), "{said}");
    let of_musl = said.lines().find(|line| line.contains("musl)"));
    let first = of_musl.unwrap_or_default();
    assert!(
        first.contains("musl") && first.contains("alcc proxy"),
        "{said}"
    );

    // A child of a program that is controlled, and one whose child is controlled.
    let glibc = compiled(dir.path(), "glibc", HELLO, &mut Command::new("cc")).unwrap();
    for chain in [[&*glibc, &musl], [&musl, &glibc]] {
        let out = run(&["--quiet"], &chain);
        assert_eq!(text(&out.stderr), "");
        assert_eq!(text(&out.stdout), "hello\nhello\n");
        assert_eq!(out.status.code(), Some(7));
    }
    let controlled = text(&run(&[], &[&musl, &glibc]).stderr);
    assert!(!controlled.contains("was controlled"), "{controlled}");
}

#[test]
fn a_program_under_address_sanitizer_runs_and_is_controlled() {
    let dir = tempfile::tempdir().unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-fsanitize=address", "-g"]);
    let Some(program) = compiled(dir.path(), "asan", SENDS, &mut compiler) else {
        lacks("AddressSanitizer");
        return;
    };
    let report = dir.path().join("report.json");
    let out = run(
        &["--quiet", &format!("--json={}", report.display())],
        &[&program],
    );
    assert_eq!(text(&out.stderr), "");
    assert_eq!(text(&out.stdout), "sent\n");
    assert!(out.status.success(), "{}", out.status);
    let report: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(report).unwrap()).unwrap();
    assert_eq!(report["connections"], 1, "{report}");
    assert!(report["gate_closed"].as_u64().unwrap() > 0, "{report}");

    // What AddressSanitizer is there for, it still does.
    let wrong = SENDS.replace("free(data);", "free(data); data[1] = 0;");
    let mut compiler = Command::new("cc");
    compiler.args(["-fsanitize=address", "-g"]);
    let program = compiled(dir.path(), "wrong", &wrong, &mut compiler).unwrap();
    let said = text(&run(&["--quiet"], &[&program]).stderr);
    assert!(said.contains("heap-use-after-free"), "{said}");
}

/// LD_PRELOAD has no way to write them.
#[test]
fn a_path_with_a_space_or_a_colon_is_refused_in_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let beside = Path::new(env!("CARGO_BIN_EXE_alcc")).with_file_name("libalcc_preload.so");
    for name in ["my dir", "co:lon"] {
        let folder = dir.path().join(name);
        std::fs::create_dir(&folder).unwrap();
        let library = folder.join("lib.so");
        if std::fs::copy(&beside, &library).is_err() {
            lacks("the preload library, which 'make build' makes");
            return;
        }
        let alcc = |command: &[&str]| {
            let mut alcc = Command::new(env!("CARGO_BIN_EXE_alcc"));
            alcc.args(command).env("ALCC_PRELOAD", &library);
            alcc.output().unwrap()
        };
        let out = alcc(&["run", "true"]);
        let said = text(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.contains("a space or a colon"), "{said}");
        let doctor = text(&alcc(&["doctor"]).stdout);
        assert!(doctor.contains("a space or a colon"), "{doctor}");
    }
}

/// The library sleeps by the kernel's clock.
#[test]
fn under_a_shifted_clock_an_epoll_server_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let waits = r"
    int epfd = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLOUT | EPOLLET};
    if (fcntl(fd, F_SETFL, O_NONBLOCK) || epoll_ctl(epfd, EPOLL_CTL_ADD, fd, &event)) return 5;
    for (size_t at = 0; at < size;) {
        ssize_t n = write(fd, data + at, size - at < 20000 ? size - at : 20000);
        if (n > 0) at += n, usleep(10000);
        else if (epoll_wait(epfd, &event, 1, 20000) != 1) return 6;
    }
    if (close(fd)) return 3;";
    let text_of_program = SENDS
        .replace("#include <stdio.h>", "#include <fcntl.h>\n#include <stdio.h>\n#include <sys/epoll.h>")
        .replace("    if (connect(", "    int small = 65536;\n    setsockopt(to, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);\n    if (connect(")
        .replace("        close(fd);\n", "        close(fd);\n        usleep(300000);\n")
        .replace("    if (write(fd, data, size) != (ssize_t)size || close(fd)) return 3;", waits);
    let made = compiled(
        dir.path(),
        "program",
        &text_of_program,
        &mut Command::new("cc"),
    );
    let Some(program) = made else {
        lacks("a C compiler");
        return;
    };
    let loaded = kernel::loaded();
    // By the wall clock, ten days ago, and five times as fast.
    for (name, offset, factor, enforce) in [
        ("wall", 0, 1, "gate+pacing"),
        ("ago", -864_000, 1, "gate+pacing"),
        ("fast", 0, 5, "gate+pacing"),
        ("ago", -864_000, 1, "bpf"),
        ("fast", 0, 5, "bpf"),
    ] {
        if enforce == "bpf" && loaded.is_none() {
            continue;
        }
        let mut shared = Command::new("cc");
        shared.args(["-shared", "-fPIC"]);
        shared.args([format!("-DOFFSET={offset}"), format!("-DFACTOR={factor}")]);
        let shifts = compiled(dir.path(), name, SHIFTS, &mut shared).unwrap();
        let script = format!(
            "LD_PRELOAD=\"$LD_PRELOAD:{}\" exec \"$0\"",
            shifts.display()
        );
        let report = dir.path().join("report.json");
        let out = run(
            &[
                "--quiet",
                "--enforce",
                enforce,
                &format!("--json={}", report.display()),
            ],
            &[
                Path::new("sh"),
                Path::new("-c"),
                Path::new(&script),
                &program,
            ],
        );
        assert_eq!(text(&out.stderr), "", "{name}");
        assert_eq!(text(&out.stdout), "sent\n", "{name}: {}", out.status);
        let report: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(report).unwrap()).unwrap();
        assert_eq!(report["enforcement"], enforce, "{name}: {report}");
        // The kernel holds data back without the gate.
        let active = if enforce == "bpf" {
            "readings"
        } else {
            "gate_closed"
        };
        assert!(report[active].as_u64().unwrap() > 0, "{name}: {report}");
        assert_eq!(report["bytes"], 500_000, "{name}: {report}");
        for passed in ["uncontrolled", "not_controlled"] {
            assert_eq!(report[passed], serde_json::json!([]), "{name}: {report}");
        }
    }
}

/// Delays each call that sets TCP_CORK, and meanwhile another thread makes a call that needs the same connection.
const BESIDE: &str = r#"
#define _GNU_SOURCE
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
static int fd_;
static volatile int asked;
static void *ask(void *none) {
    long rate;
    socklen_t len = sizeof rate;
    getsockopt(fd_, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, &len);
    asked = 1;
    return none;
}
int setsockopt(int fd, int level, int name, const void *value, socklen_t len) {
    pthread_t thread;
    if (level == IPPROTO_TCP && name == TCP_CORK) {
        fd_ = fd;
        pthread_create(&thread, NULL, ask, NULL);
        usleep(200000);
        puts(asked ? "beside" : "alone");
    }
    return syscall(SYS_setsockopt, fd, level, name, value, len);
}
"#;

/// The library reads the cork and later sets it again: it must not undo a change that the program makes in between.
#[test]
fn a_cork_is_set_by_one_thread_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let corks = "int on = 1;\n    if (write(fd, data, size) != (ssize_t)size) return 3;\n    \
        if (setsockopt(fd, IPPROTO_TCP, TCP_CORK, &on, sizeof on) || close(fd)) return 3;";
    let text_of_program = SENDS
        .replace(
            "#include <netinet/in.h>",
            "#include <netinet/in.h>\n#include <netinet/tcp.h>",
        )
        .replace(
            "if (write(fd, data, size) != (ssize_t)size || close(fd)) return 3;",
            corks,
        );
    let mut cc = Command::new("cc");
    let Some(program) = compiled(dir.path(), "program", &text_of_program, &mut cc) else {
        lacks("a C compiler");
        return;
    };
    let mut shared = Command::new("cc");
    shared.args(["-shared", "-fPIC", "-pthread"]);
    let beside = compiled(dir.path(), "beside", BESIDE, &mut shared).unwrap();
    let script = format!(
        "LD_PRELOAD=\"$LD_PRELOAD:{}\" exec \"$0\"",
        beside.display()
    );
    let out = run(
        &["--quiet"],
        &[
            Path::new("sh"),
            Path::new("-c"),
            Path::new(&script),
            &program,
        ],
    );
    let said = text(&out.stderr);
    assert_eq!(text(&out.stdout), "alone\nsent\n", "{}: {said}", out.status);
}

/// Such a program is in a container or a sandbox. The library reads nothing there that it cannot do without.
#[test]
fn a_program_without_proc_is_controlled() {
    let dir = tempfile::tempdir().unwrap();
    let unshares = Command::new("unshare").args(["-m", "true"]).status();
    if !unshares.is_ok_and(|status| status.success()) {
        println!("skipped: needs the right to make a mount namespace");
        return;
    }
    let Some(program) = compiled(dir.path(), "program", SENDS, &mut Command::new("cc")) else {
        lacks("a C compiler");
        return;
    };
    let report = dir.path().join("report.json");
    let script = "mount -t tmpfs none /proc && test ! -e /proc/self && exec \"$0\"";
    let out = run(
        &["--quiet", &format!("--json={}", report.display())],
        &[
            Path::new("unshare"),
            Path::new("-m"),
            Path::new("sh"),
            Path::new("-c"),
            Path::new(script),
            &program,
        ],
    );
    assert_eq!(text(&out.stderr), "");
    assert_eq!(text(&out.stdout), "sent\n", "{}", out.status);
    let report: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(report).unwrap()).unwrap();
    assert_eq!(report["connections"], 1, "{report}");
    assert!(report["gate_closed"].as_u64().unwrap() > 0, "{report}");
}

/// Calls in another linker namespace (dlmopen), and of a library that is bound to its own C library first, do not pass
/// through the library. A registration that it
/// has not seen holds back nothing, and the bytes are counted.
#[test]
fn registrations_of_another_linker_namespace_hold_nobody_back() {
    let dir = tempfile::tempdir().unwrap();
    let mut shared = Command::new("cc");
    shared.args(["-shared", "-fPIC"]);
    let (Some(program), Some(library)) = (
        compiled(
            dir.path(),
            "program",
            TWO_NAMESPACES,
            &mut Command::new("cc"),
        ),
        compiled(dir.path(), "library.so", IN_THE_OTHER, &mut shared),
    ) else {
        lacks("a C compiler");
        return;
    };
    // Whether the library saw the call that waits for room.
    let cases = [
        ("h-hl", true),
        ("h-pl", true),
        ("h-pe", true),
        ("phhl", true),
        ("phhe", true),
        ("p-hl", false),
        ("p-he", false),
        ("p-pl", false),
        ("p-pe", false),
        ("hphl", false),
        ("hphe", false),
        ("hppe", false),
    ];
    let all = ["apart", "deep"].map(|how| cases.map(|(who, is_seen)| (how, who, is_seen)));
    for (how, who, is_seen) in all.into_iter().flatten() {
        let report = dir.path().join("report.json");
        let out = run(
            &["--quiet", &format!("--json={}", report.display())],
            &[&program, &library, Path::new(who), Path::new(how)],
        );
        assert_eq!(text(&out.stdout), "sent\n", "{how} {who}: {}", out.status);
        let report: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(report).unwrap()).unwrap();
        let closed = report["gate_closed"].as_u64().unwrap();
        let bytes = report["bytes"].as_u64().unwrap();
        let uncontrolled = report["uncontrolled"].as_array().unwrap();
        assert!(
            uncontrolled.iter().all(|one| one["reason"] == "no-wakeup"),
            "{who}: {report}"
        );
        let passed = uncontrolled
            .iter()
            .map(|one| one["bytes"].as_u64().unwrap());
        let passed: u64 = passed.sum();
        assert_eq!(bytes + passed, 500_000, "{who}: {report}");
        assert_eq!(
            (closed > 0, passed == 0),
            (is_seen, is_seen),
            "{who}: {report}"
        );
    }
}

/// A deployment replaces a program's folder, and the old process starts itself again.
#[test]
fn a_program_whose_folder_was_removed_is_controlled() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("old");
    std::fs::create_dir(&folder).unwrap();
    let Some(program) = compiled(&folder, "program", SENDS, &mut Command::new("cc")) else {
        lacks("a C compiler");
        return;
    };
    let script = "exec 5< \"$0\"; rm -r \"${0%/*}\"; exec /proc/self/fd/5";
    let report = dir.path().join("report.json");
    let out = Command::new(env!("CARGO_BIN_EXE_alcc"))
        .args(["run", "--quiet", "--loopback", "--cc", "fixed:window=2"])
        .args(["--enforce", "gate+pacing"])
        .arg(format!("--json={}", report.display()))
        .args(["--", "sh", "-c", script])
        .arg(&program)
        .output()
        .unwrap();
    assert_eq!(text(&out.stderr), "");
    assert_eq!(text(&out.stdout), "sent\n");
    let report: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(report).unwrap()).unwrap();
    assert_eq!(report["connections"], 1, "{report}");
}

/// A static program removes the library while it runs: that it is static is not what the user has to know first.
#[test]
fn a_library_that_has_gone_is_said_to_be_missing() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let beside = Path::new(env!("CARGO_BIN_EXE_alcc")).with_file_name("libalcc_preload.so");
    let library = at("gone.so");
    if std::fs::copy(beside, &library).is_err() {
        lacks("the preload library, which 'make build' makes");
        return;
    }
    let text = "#include <unistd.h>\nint main(int n, char **names) { return unlink(names[1]); }\n";
    let mut compiler = Command::new("cc");
    let Some(program) = compiled(dir.path(), "removes", text, compiler.arg("-static")) else {
        lacks("a static C library");
        return;
    };
    let ended = Command::new(env!("CARGO_BIN_EXE_alcc"))
        .args(["run", "--json-out"])
        .args([&at("report"), &program, &library])
        .env("ALCC_PRELOAD", &library)
        .output()
        .unwrap();
    let said = self::text(&ended.stderr);
    assert!(ended.status.success(), "{said}");
    let report = std::fs::read_to_string(at("report")).unwrap();
    assert!(report.contains("\"processes\":0"), "{report}");
    let line = said
        .lines()
        .find(|line| line.contains("removes was controlled"));
    let line = line.unwrap_or_else(|| panic!("{said}"));
    assert!(
        line.contains("gone.so") && line.contains("cannot open"),
        "{line}"
    );
    assert!(!line.contains("static"), "{line}");
}
