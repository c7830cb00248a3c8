// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--carrier`: the in-band form over everything it runs over, inside a real tunnel, over an
//! emulated link; and every wrong peer.
#[path = "transfer/place.rs"]
#[allow(dead_code, reason = "others use the rest of it")]
mod place;
#[allow(dead_code, reason = "others use the rest of it")]
mod support;
#[path = "support/wait.rs"]
mod wait;

use alcc_emu::Namespace;
use place::{Ended, Going, Place};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::lacks;
use wait::wait_for;

const INBAND: [&str; 2] = ["--transport", "in-band"];
const SIZE: usize = 300_001;

/// A program that others wrote.
struct Other(Child);

impl Other {
    fn start(program: PathBuf, args: &[&str], log: &str, namespace: &Namespace) -> Self {
        let log = std::fs::File::create(log).unwrap();
        let mut command = Command::new(program);
        command
            .args(args)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        Self(namespace.spawn(command).unwrap())
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let pid = nix::unistd::Pid::from_raw(self.0.id().cast_signed());
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
        drop(self.0.wait());
    }
}

/// Something listens at this port.
fn answers(namespace: &Namespace, at: &str) -> bool {
    namespace
        .run(|| std::net::TcpStream::connect(at).is_ok())
        .unwrap()
}

fn found(program: &str) -> Option<PathBuf> {
    let found = support::find(program);
    if found.is_none() {
        lacks(&format!("{program} (run scripts/setup test)"));
    }
    found
}

fn recv(place: &Place, args: &[&str]) -> Going {
    let going = place.start(&place.inside, &[&["recv"], &INBAND[..], args].concat());
    going.says("listening on ");
    going
}

fn sending(place: &Place, args: &[&str]) -> Going {
    let all = [&["send", "--cc", "copa"], &INBAND[..], args].concat();
    place.start(&place.outside, &all)
}

/// A file from one end to the other.
fn brings(place: &Place, listening: &[&str], connecting: &[&str]) -> (Ended, Ended) {
    let sent = place.file("sent", SIZE);
    let got = place.path("got");
    let keep = ["--out", &got, "--overwrite", "--json"];
    let receiver = recv(place, &[&keep[..], listening].concat());
    let file = place.path("sent");
    let sender = sending(place, &[&["--file", &file, "--json"], connecting].concat()).end();
    let row = &sender.json()["flows"][0];
    assert_eq!(
        (&row["feedback"], &row["enforcement"]),
        (&"in-band".into(), &"queue".into())
    );
    assert_eq!(row["bytes"], SIZE);
    let receiver = receiver.end();
    assert_eq!(receiver.json()["flows"][0]["bytes"], SIZE);
    assert!(std::fs::read(&got).unwrap() == sent, "{connecting:?}");
    (receiver, sender)
}

/// A certificate for an address, by OpenSSL: PEM files, and its fingerprint.
fn certificate(place: &Place, name: &str, address: &str) -> (String, String, String) {
    let at = |end: &str| place.path(&format!("{name}.{end}"));
    let (crt, key) = (at("crt"), at("key"));
    let address = format!("subjectAltName=IP:{address}");
    let is = [
        "-addext",
        &address,
        "-addext",
        "basicConstraints=critical,CA:FALSE",
    ];
    support::certificate(crt.as_ref(), key.as_ref(), name, &is);
    let print = Command::new("openssl")
        .args(["x509", "-noout", "-fingerprint", "-sha256", "-in", &crt])
        .output()
        .unwrap();
    let print = String::from_utf8(print.stdout).unwrap();
    let (_, print) = print.trim().split_once('=').unwrap();
    (crt, key, print.to_owned())
}

#[test]
fn plain_tcp_brings_files() {
    let Some(place) = Place::new() else { return };
    let to = place.receiver().to_string();
    let carried = ["--carrier", "tcp"];
    brings(&place, &carried, &[&carried[..], &[&to]].concat());
}

#[test]
fn tls_brings_files_to_whom_the_sender_believes() {
    let Some(place) = Place::new() else { return };
    if found("openssl").is_none() {
        return;
    }
    let to = place.receiver().to_string();
    let (crt, key, print) = certificate(&place, "ours", &to);
    let (other, _, wrong) = certificate(&place, "other", &to);
    let carried = ["--carrier", "tls"];
    let shown = [&carried[..], &["--cert", &crt, "--key", &key]].concat();
    for believed in [&["--pin", &print][..], &["--ca", &crt], &["--insecure"]] {
        brings(&place, &shown, &[&carried[..], believed, &[&to]].concat());
    }
    // The fingerprint of a new certificate is printed, and pinned.
    let receiver = recv(&place, &["--carrier", "tls", "--once"]);
    receiver.says(" HOST\n");
    let said = receiver.said();
    let pin = said
        .split("--pin ")
        .nth(1)
        .and_then(|rest| rest.split_whitespace().next())
        .unwrap_or_else(|| panic!("{said}"))
        .to_owned();
    // Those whom the sender does not believe leave the receiver waiting for others.
    for (believed, why) in [
        (
            &[][..],
            "not signed by an authority that this system trusts",
        ),
        (&["--pin", &wrong], "not the one that --pin names"),
        (&["--ca", &other], "not signed by the authority in"),
    ] {
        let all = [&["--carrier", "tls", "--size", "10k"], believed, &[&to]].concat();
        let ended = sending(&place, &all).end();
        ended.fails(1, why);
        assert!(
            ended.err.contains(&format!("give --pin {pin}")),
            "{ended:?}"
        );
    }
    let all = ["--carrier", "tls", "--size", "10k", "--pin", &pin, &to];
    assert_eq!(sending(&place, &all).end().code, Some(0));
    assert_eq!(receiver.end().code, Some(0));
}

#[test]
fn beside_wrong_peers() {
    let Some(place) = Place::new() else { return };
    if found("openssl").is_none() {
        return;
    }
    let Some(nginx) = support::nginx() else {
        lacks("nginx (run scripts/setup)");
        return;
    };
    let to = place.receiver().to_string();
    let (crt, key, _) = certificate(&place, "front", &to);
    let dir = place.path("");
    let dir = dir.trim_end_matches('/');
    let temp: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|n| format!("{n}_temp_path {dir}/{n};\n"))
        .collect();
    let config = place.path("nginx.conf");
    std::fs::write(
        &config,
        format!(
            "daemon off; user root; worker_processes 1; pid {dir}/nginx.pid; error_log {dir}/error.log;
             events {{ worker_connections 64; }}
             http {{ access_log off; {temp}
               server {{ listen 8080; listen 8443 ssl; ssl_certificate {crt}; ssl_certificate_key {key}; ssl_protocols TLSv1.2 TLSv1.3;
                 location / {{ return 404; }} }}
               server {{ listen 8444 ssl; ssl_certificate {crt}; ssl_certificate_key {key}; ssl_protocols TLSv1.2; }} }}"
        ),
    )
    .unwrap();
    let (log, error) = (place.path("nginx.log"), place.path("error.log"));
    let _nginx = Other::start(nginx, &["-c", &config, "-e", &error], &log, &place.inside);
    wait_for("nginx", || answers(&place.inside, "127.0.0.1:8080"));
    let at = |port: u16| format!("{to}:{port}");
    for (args, port, why) in [
        (&["--carrier", "tls"][..], 8080, "it does not speak TLS"),
        (
            &["--carrier", "tls", "--insecure"],
            8444,
            "it does not speak TLS 1.3",
        ),
        (
            &["--carrier", "tls"],
            8443,
            "its certificate is not signed by",
        ),
        // In-band to a web server: over TCP, and over TLS.
        (
            &["--carrier", "tcp"],
            8080,
            "does not use the in-band protocol",
        ),
        (
            &["--carrier", "tls", "--ca", &crt],
            8443,
            "does not use the in-band protocol",
        ),
    ] {
        let to = at(port);
        let all = [args, &["--size", "1k", &to]].concat();
        sending(&place, &all).end().fails(1, why);
    }
}

#[test]
fn inside_a_real_openvpn_over_tcp() {
    let Some(place) = Place::new() else { return };
    let Some(openvpn) = found("openvpn") else {
        return;
    };
    if found("openssl").is_none() {
        return;
    }
    let to = place.receiver().to_string();
    let (server, server_key, server_print) = certificate(&place, "server", &to);
    let (client, client_key, client_print) = certificate(&place, "client", "192.0.2.1");
    let log = |name: &str| place.path(&format!("openvpn-{name}.log"));
    let common = ["--dev", "tun", "--verb", "1", "--proto"];
    let _server = Other::start(
        openvpn.clone(),
        &[
            &common[..],
            &[
                "tcp-server",
                "--local",
                &to,
                "--port",
                "1194",
                "--ifconfig",
                "10.99.0.1",
                "10.99.0.2",
            ],
            &[
                "--tls-server",
                "--dh",
                "none",
                "--cert",
                &server,
                "--key",
                &server_key,
            ],
            &["--peer-fingerprint", &client_print],
        ]
        .concat(),
        &log("server"),
        &place.inside,
    );
    let _client = Other::start(
        openvpn,
        &[
            &common[..],
            &[
                "tcp-client",
                "--remote",
                &to,
                "1194",
                "--connect-retry",
                "1",
            ],
            &[
                "--ifconfig",
                "10.99.0.2",
                "10.99.0.1",
                "--tls-client",
                "--cert",
                &client,
            ],
            &["--key", &client_key, "--peer-fingerprint", &server_print],
        ]
        .concat(),
        &log("client"),
        &place.outside,
    );
    for end in ["server", "client"] {
        let mut said = String::new();
        let begun = Instant::now();
        while !said.contains("Initialization Sequence Completed") {
            said = std::fs::read_to_string(log(end)).unwrap();
            assert!(begun.elapsed() < Duration::from_secs(40), "{end}: {said}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    brings(&place, &["--bind", "10.99.0.1"], &["10.99.0.1"]);
}

#[test]
fn what_is_asked_wrongly_is_one_line_and_status_2() {
    let Some(place) = Place::new() else { return };
    let to = place.receiver().to_string();
    for (args, why) in [
        (
            &["--carrier", "tsl"][..],
            "no carrier 'tsl': there are tcp and tls",
        ),
        (
            &["--carrier", "tls+connect:proxy=a:1"],
            "carrier connect was removed: there are tcp and tls",
        ),
        (
            &["--carrier", "tls", "--pin", "abc"],
            "is not a SHA-256 fingerprint",
        ),
        (
            &["--carrier", "tls", "--ca", "/nonexistent"],
            "read the certificate /nonexistent",
        ),
    ] {
        let all = [args, &["--size", "1k", &to]].concat();
        sending(&place, &all).end().fails(2, why);
    }
    for (args, why) in [
        (
            &[
                "--carrier",
                "tls",
                "--cert",
                "/nonexistent",
                "--key",
                "/nonexistent",
            ][..],
            "/nonexistent",
        ),
        (
            &["--carrier", "unix:/nonexistent/socket"],
            "carrier unix was removed",
        ),
    ] {
        let all = [&["recv"], &INBAND[..], args].concat();
        place.start(&place.inside, &all).end().fails(2, why);
    }
}
