// SPDX-License-Identifier: Apache-2.0 OR MIT
//! C programs over the in-band part of the library: `tests/c/inband.c` describes the checks of
//! each.
mod support;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use support::{
    command, compile, compile_with, finish, lacks, library, no_compiler, program, root, run,
};

macro_rules! scenarios {
    ($($name:ident: $scenario:literal;)*) => {$(
        #[test]
        fn $name() {
            if !no_compiler() {
                run(command(&program("inband")).arg($scenario));
            }
        }
    )*};
}

scenarios! {
    a_tcp_connection_is_wrapped_at_both_ends: "tcp";
    a_unix_socket_is_wrapped_at_both_ends: "unix";
    a_silent_and_a_foreign_peer_are_told_apart: "limits";
    time_limits_and_a_peer_that_goes: "waits";
    sessions_without_a_socket_carry_everything: "memory";
    nonsense_is_an_errno_and_a_line: "nonsense";
}

/// Folder of OpenSSL's headers: that of the system, or the one where scripts/setup unpacked them.
fn openssl() -> Option<Vec<String>> {
    let probe = |flags: &[String]| {
        let mut cc = Command::new("cc");
        cc.args(flags).args(["-E", "-x", "c", "-"]);
        cc.stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut child = cc.spawn().ok()?;
        let text = b"#include <openssl/ssl.h>\n";
        std::io::Write::write_all(&mut child.stdin.take()?, text).ok()?;
        child.wait().ok()?.success().then_some(())
    };
    if probe(&[]).is_some() {
        return Some(Vec::new());
    }
    let deps: PathBuf = std::env::var_os("ALCC_DEPS_BIN")?.into();
    let usr = deps.parent()?.join("root/usr");
    let triplet = format!("{}-linux-gnu", std::env::consts::ARCH);
    let at = |what: &str| usr.join(what).display().to_string();
    let lib = at(&format!("lib/{triplet}"));
    let flags = vec![
        format!("-I{}", at("include")),
        format!("-I{}", at(&format!("include/{triplet}"))),
        format!("-L{lib}"),
        format!("-Wl,-rpath,{lib}"),
    ];
    probe(&flags).map(|()| flags)
}

#[test]
fn it_runs_above_openssl() {
    if no_compiler() {
        return;
    }
    let Some(mut flags) = openssl() else {
        lacks("OpenSSL's headers (libssl-dev; run scripts/setup test)");
        return;
    };
    flags.extend(["-lssl".to_owned(), "-lcrypto".to_owned()]);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/inband_openssl.c");
    let to = library().join("inband_openssl");
    compile_with(&source, &to, &flags);
    let said = run(&mut command(&to));
    assert!(said.starts_with("TLSv1.3 "), "{said}");
}

/// The second program in docs/library.md.
#[test]
fn the_example_of_the_documentation_sends_a_file_in_band() {
    if no_compiler() {
        return;
    }
    let text = std::fs::read_to_string(root().join("docs/library.md")).unwrap();
    let example = text.split("```c\n").nth(2).expect("a second example in C");
    let example = example.split("```").next().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    std::fs::write(at("inband.c"), example).unwrap();
    compile(&at("inband.c"), &at("inband"));
    let content: Vec<u8> = (0..500_000u32).flat_map(u32::to_le_bytes).collect();
    std::fs::write(at("file"), &content).unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .and_then(|l| l.local_addr())
        .unwrap()
        .port()
        .to_string();
    let mut take = command(&at("inband"));
    take.args(["recv", &port]);
    take.stdout(std::fs::File::create(at("copy")).unwrap())
        .stderr(Stdio::piped());
    let take = take.spawn().unwrap();
    let end = std::time::Instant::now() + Duration::from_secs(20);
    loop {
        let mut send = command(&at("inband"));
        send.args(["send", &port]);
        send.stdin(std::fs::File::open(at("file")).unwrap());
        send.stdout(Stdio::piped()).stderr(Stdio::piped());
        let out = finish(send.spawn().unwrap(), Duration::from_secs(30));
        if out.status.success() {
            break;
        }
        // It may not listen yet.
        assert!(std::time::Instant::now() < end, "{out:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
    let out = finish(take, Duration::from_secs(20));
    assert!(out.status.success(), "{out:?}");
    assert!(std::fs::read(at("copy")).unwrap() == content);
}
