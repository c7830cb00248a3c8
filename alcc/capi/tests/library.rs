// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of the shared object and of `make install` from the view of a C programmer.
mod support;
use std::path::Path;
use std::process::Command;
use support::{command, compile, lacks, library, no_compiler, root};

fn tool(name: &str, args: &[&str], file: &Path) -> Option<String> {
    let out = Command::new(name).args(args).arg(file).output().ok()?;
    assert!(out.status.success(), "{name}: {out:?}");
    Some(String::from_utf8(out.stdout).unwrap())
}

#[test]
fn only_versioned_functions_are_exported() {
    if no_compiler() {
        return;
    }
    let object = library().join("libalcc.so.0");
    let Some(symbols) = tool("readelf", &["--dyn-syms", "--wide"], &object) else {
        lacks("readelf (binutils)");
        return;
    };
    let mut exported = 0;
    for line in symbols.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [_, _, _, kind, "GLOBAL" | "WEAK", _, section, name] = fields[..] else {
            continue;
        };
        if section == "UND" || kind == "OBJECT" {
            continue;
        }
        assert!(
            name.starts_with("alcc_") && name.ends_with("@@ALCC_0.1"),
            "{name} is exported"
        );
        exported += 1;
    }
    assert!(exported > 10);
    let dynamic = tool("readelf", &["-d"], &object).unwrap();
    assert!(dynamic.contains("soname: [libalcc.so.0]"), "{dynamic}");
}

/// The program in docs/library.md.
fn example() -> String {
    let text = std::fs::read_to_string(root().join("docs/library.md")).unwrap();
    let (_, rest) = text.split_once("```c\n").expect("an example in C");
    rest.split_once("```").unwrap().0.to_owned()
}

#[test]
fn the_example_of_the_documentation_serves_a_file() {
    if no_compiler() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (source, server) = (dir.path().join("server.c"), dir.path().join("server"));
    std::fs::write(&source, example()).unwrap();
    compile(&source, &server);
    serve(&server, dir.path());
}

/// Starts the example on a free port and fetches a file.
fn serve(server: &Path, dir: &Path) {
    let content: Vec<u8> = (0..700_000u32).flat_map(u32::to_le_bytes).collect();
    let file = dir.join("file");
    std::fs::write(&file, &content).unwrap();
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .and_then(|l| l.local_addr())
        .unwrap()
        .port();
    let mut child = command(server)
        .arg(port.to_string())
        .arg(&file)
        .env("ALCC_CC", "fixed:window=4")
        .spawn()
        .unwrap();
    let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
    for _ in 0..2 {
        let mut connection = loop {
            match std::net::TcpStream::connect(("127.0.0.1", port)) {
                Ok(connection) => break connection,
                Err(why) => assert!(std::time::Instant::now() < end, "{why}"),
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        };
        // In two pieces, and with a word more than the server needs.
        for part in ["GET / HTTP/1.1\r\nHost: ", "x\r\n\r\n"] {
            std::io::Write::write_all(&mut connection, part.as_bytes()).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let mut got = Vec::new();
        std::io::Read::read_to_end(&mut connection, &mut got).unwrap();
        let head = got.windows(4).position(|w| w == b"\r\n\r\n").unwrap() + 4;
        assert!(got.starts_with(b"HTTP/1.1 200 OK\r\n"));
        assert!(got[head..] == content);
    }
    // The first thing that a user tries.
    let copy = dir.join("copy");
    let url = format!("http://127.0.0.1:{port}/");
    for _ in 0..10 {
        let curl = Command::new("curl")
            .args(["--silent", "--show-error", "--noproxy", "*", "--output"])
            .arg(&copy)
            .arg(&url)
            .output();
        let Ok(curl) = curl else {
            lacks("curl");
            break;
        };
        assert!(curl.status.success(), "{curl:?}");
        assert!(std::fs::read(&copy).unwrap() == content);
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn what_make_install_puts_there_is_found_by_pkg_config() {
    if no_compiler() {
        return;
    }
    let has = |tool: &str| Command::new(tool).arg("--version").output().is_ok();
    if ["make", "pkg-config"]
        .iter()
        .any(|tool| !has(tool) && lacks(tool))
    {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (target, prefix) = (dir.path().join("target"), dir.path().join("usr"));
    // `make install` installs the files of a release build, for which ours are used.
    let release = target.join("release");
    std::fs::create_dir_all(&release).unwrap();
    for name in ["libalcc.a", "libalcc.so.0"] {
        std::fs::copy(library().join(name), release.join(name)).unwrap();
    }
    // The installer runs this script instead of ldconfig, which would change the system's cache.
    let tools = dir.path().join("tools");
    let ran = dir.path().join("ldconfig-ran");
    std::fs::create_dir(&tools).unwrap();
    let ldconfig = tools.join("ldconfig");
    std::fs::write(&ldconfig, format!("#!/bin/sh\ntouch {}\n", ran.display())).unwrap();
    let may_run = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&ldconfig, may_run).unwrap();
    let path = format!("{}:{}", tools.display(), std::env::var("PATH").unwrap());
    let install = |staged: &str| {
        let out = Command::new("make")
            .args(["install-library", "install-static"])
            .arg(format!("PREFIX={}", prefix.display()))
            .arg(format!("DESTDIR={staged}"))
            .env("CARGO_TARGET_DIR", &target)
            .env("PATH", &path)
            .current_dir(root())
            .output()
            .unwrap();
        assert!(out.status.success(), "{out:?}");
    };
    install(&dir.path().join("staged").display().to_string());
    assert!(!ran.exists(), "a package's files are not this machine's");
    install("");
    let root_user = Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
    assert_eq!(ran.exists(), root_user);
    for name in ["libalcc.a", "libalcc.so.0"] {
        let mut objdump = Command::new("objdump");
        let sections = objdump.arg("-h").arg(prefix.join("lib").join(name));
        let sections = String::from_utf8(sections.output().unwrap().stdout).unwrap();
        let has = |name: &str| sections.contains(name);
        assert!(has(".text") && !has(".debug_line"), "{name}: for debuggers");
    }
    let config = |what: &str| {
        let out = Command::new("pkg-config")
            .args([what, "alcc"])
            .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"))
            .output()
            .unwrap();
        assert!(out.status.success(), "{out:?}");
        let text = String::from_utf8(out.stdout).unwrap();
        text.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let version = config("--modversion").concat();
    assert_eq!(version, env!("CARGO_PKG_VERSION"));
    let (source, program) = (dir.path().join("server.c"), dir.path().join("server"));
    std::fs::write(&source, example()).unwrap();
    // As a shared library, as a static one, and all static.
    for extra in ["-DSHARED", "-static-libgcc", "-static"] {
        let mut build = Command::new("cc");
        build.arg(extra).args(config("--cflags")).arg(&source);
        if extra == "-DSHARED" {
            build.args(config("--libs"));
        } else if extra == "-static" {
            let out = Command::new("pkg-config")
                .args(["--static", "--libs", "alcc"])
                .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"))
                .output()
                .unwrap();
            let flags = String::from_utf8(out.stdout).unwrap();
            build.args(flags.split_whitespace());
        } else {
            build.arg(prefix.join("lib/libalcc.a"));
            build.args(["-lutil", "-lrt", "-lpthread", "-lm", "-ldl"]);
        }
        // It finds the library without the loader's cache and without a variable.
        let out = build.arg("-o").arg(&program).output().unwrap();
        assert!(out.status.success(), "{out:?}");
        serve(&program, dir.path());
    }
}

/// Messages for errors without an errno stay valid, and those about an invalid environment are
/// printed on request.
#[test]
fn messages_stay_valid_and_are_printed_on_request() {
    if no_compiler() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (source, program) = (dir.path().join("words.c"), dir.path().join("words"));
    let text = r#"
#include <alcc.h>
#include <stdio.h>
#include <string.h>
int main(void) {
    const char *said = alcc_message();
    if (alcc_set_cc(ALCC_DEFAULTS, "nope") != -1 || said != alcc_message()) return 1;
    if (!strstr(said, "nope")) return 2;
    if (alcc_set_cc(ALCC_DEFAULTS, "another") != -1 || !strstr(said, "another")) return 3;
    char longer[5000];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    if (alcc_set_cc(ALCC_DEFAULTS, longer) != -1 || strlen(said) > 511) return 4;
    return 0;
}
"#;
    std::fs::write(&source, text).unwrap();
    compile(&source, &program);
    let run = |debug: &str| {
        let mut command = command(&program);
        command.env("ALCC_CC", "typo").env("ALCC_DEBUG", debug);
        let out = command.output().unwrap();
        assert!(out.status.success(), "{out:?}");
        String::from_utf8(out.stderr).unwrap()
    };
    assert_eq!(run(""), "");
    assert_eq!(run("0"), "");
    let said = run("1");
    assert!(
        said.contains("typo") && said.contains("no environment variable is used"),
        "{said}"
    );
    assert!(
        said.contains("libalcc: new streams begin under budget\n"),
        "{said}"
    );
}
