// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `alcc send` and `alcc recv` over an emulated link, with every transport that there is.
#[path = "../support/early.rs"]
mod early;
mod ends;
#[path = "../support/lacks.rs"]
mod lacks;
mod place;
mod quic;
mod resume;
#[path = "../support/starts.rs"]
mod starts;
#[path = "../support/wait.rs"]
mod wait;

use nix::sys::signal::Signal;
use place::Place;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::{Duration, Instant};
use wait::wait_for;

/// Every transport, and plain TCP.
fn ways() -> Vec<Vec<String>> {
    // It has those of the product, too.
    let list = Command::new(place::built::built("alcc-lab"))
        .args(["list", "--json"])
        .output()
        .unwrap();
    let list: Value = serde_json::from_slice(&list.stdout).unwrap();
    let names = list["transports"].as_array().unwrap().iter();
    let controlled = names.map(|t| {
        ["--transport", t["name"].as_str().unwrap(), "--cc", "verus"]
            .map(str::to_owned)
            .to_vec()
    });
    let mut ways: Vec<_> = controlled.collect();
    ways.push(
        ["--transport", "tcp", "--under", "cubic"]
            .map(str::to_owned)
            .to_vec(),
    );
    ways
}

fn words(way: &[String]) -> Vec<&str> {
    way.iter().map(String::as_str).collect()
}

#[test]
fn every_transport_brings_files_and_streams() {
    let Some(place) = Place::new() else { return };
    let content = place.file("sent", 600_001);
    for way in ways() {
        let way = words(&way);
        let got = place.path(&format!("got-{}", way.join("")));
        let recv = place.recv(&[&way[..2], &["--out", &got, "--json"]].concat());
        let sent = place.send(&[&way[..], &["--file", &place.path("sent"), "--json"]].concat());
        let (sent, received) = (sent.json(), recv.end().json());
        assert!(std::fs::read(&got).unwrap() == content, "{way:?}");
        let row = &sent["flows"][0];
        println!("{way:?}: {row}");
        let number = |row: &Value, name: &str| row[name].as_f64();
        assert_eq!(row["bytes"], 600_001);
        assert_eq!(received["flows"][0]["bytes"], 600_001);
        // 4.8 Mbit over 20 Mbit/s, and the connection's own round trips.
        assert!(number(row, "fct_ms").unwrap() > 240.0, "{row}");
        let goodput = number(row, "goodput_mbps").unwrap();
        assert!((0.2..20.0).contains(&goodput), "{row}");
        // The receiver has the same clock, by itself.
        let delay = number(&received["flows"][0], "app_delay_median_ms").unwrap();
        assert!((10.0..20_000.0).contains(&delay), "{received}");
        if let Some(rtt) = number(row, "rtt_mean_ms") {
            assert!((20.0..20_000.0).contains(&rtt), "{row}");
        }
        if way.contains(&"--cc") {
            assert_eq!(row["algorithm"], "verus");
            assert_ne!(row["scheme"], "verus", "that is the simulator's");
        } else {
            assert_eq!(
                (&row["algorithm"], &row["feedback"]),
                (&"cubic".into(), &"kernel".into())
            );
        }

        let recv = place.recv(&[&way[..2], &["--once", "--json"]].concat());
        let stream = ["--duration", "700ms", "--flows", "2", "--json"];
        let sent = place.send(&[&way[..], &stream].concat()).json();
        let received = recv.end().json();
        assert_eq!(received["summary"]["transfers"], 1);
        assert_eq!(received["flows"].as_array().unwrap().len(), 2);
        assert_eq!(
            sent["summary"]["bytes"], received["summary"]["bytes"],
            "{way:?}"
        );
        for row in sent["flows"].as_array().unwrap() {
            assert!(
                number(row, "bytes").unwrap() > 0.0 && row["fct_ms"].is_null(),
                "{row}"
            );
        }
    }
}

#[test]
fn rows_have_the_published_fields() {
    let Some(place) = Place::new() else { return };
    let recv = place.recv(&["--once", "--json"]);
    let sent = place.send(&["--size", "20k", "--json"]).json();
    let row = serde_json::to_value(alcc_live::Row {
        profile: Some(String::new()),
        ..alcc_live::Row::default()
    });
    let row = row.unwrap();
    // The receiver does not know the sender's algorithm.
    let received = recv.end().json();
    assert_eq!(received["flows"][0]["profile"], "unknown");
    assert_eq!(sent["flows"][0]["profile"], "kernel");
    for rows in [&sent, &received] {
        let fields = |v: &Value| v.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(fields(&rows["flows"][0]), fields(&row));
        assert!(rows["flows"][0]["utilization"].is_null());
    }
}

#[test]
fn a_receiver_that_is_killed_ends_the_sender_and_another_takes_its_place() {
    let Some(place) = Place::new() else { return };
    for way in ways() {
        let way = words(&way);
        let recv = place.recv(&way[..2]);
        let sending = place.sending(&[&way[..], &["--duration", "50s", "--stall", "2s"]].concat());
        std::thread::sleep(Duration::from_millis(500));
        recv.signal(Signal::SIGKILL);
        recv.end();
        let began = Instant::now();
        sending.end().fails(1, "send to ");
        println!("{way:?}: noticed after {:?}", began.elapsed());
        let again = place.recv(&[&way[..2], &["--once"]].concat());
        let sent = place.send(&[&way[..], &["--size", "50k"]].concat());
        assert_eq!(sent.code, Some(0), "{sent:?}");
        assert_eq!(again.end().code, Some(0));
    }
}

#[test]
fn nobody_there_is_said_within_seconds() {
    let Some(place) = Place::new() else { return };
    for way in ways() {
        let began = Instant::now();
        let options = ["--connect-timeout", "1s", "--stall", "2s"];
        place
            .send(&[&words(&way)[..], &options].concat())
            .fails(1, "");
        assert!(began.elapsed() < Duration::from_secs(20), "{way:?}");
    }
}

/// The sum of no flow's goodput was -0.
#[test]
fn a_failed_transfer_has_no_negative_zero() {
    let Some(place) = Place::new() else { return };
    let ended = place.send(&["--json", "--connect-timeout", "1s"]);
    assert_eq!(ended.code, Some(1), "{}", ended.err);
    let summary = &ended.any_json()["summary"];
    let goodput = summary["goodput_mbps"].as_f64().unwrap();
    assert!(goodput == 0.0 && goodput.is_sign_positive(), "{summary}");
}

#[test]
fn wrong_usage_is_two_and_says_what_would_be_right() {
    let Some(place) = Place::new() else { return };
    place.file("there", 10);
    let (there, none) = (place.path("there"), place.path("none"));
    for (args, part) in [
        (&["send", "--file", &none, "::1"][..], "no such file"),
        (&["send", "--file", "/", "::1"], "tar c FOLDER"),
        (
            &["send", "--file", &there, "--flows", "2", "::1"],
            "omit --flows",
        ),
        (&["send", "--cc", "vrus", "::1"], "verus"),
        (&["send", "--feedback", "tcp-info", "::1"], "add --cc"),
        (
            &["send", "--cc", "verus", "--feedback", "bpf", "::1"],
            "tcp-info",
        ),
        (&["send", "--under", "nosuch", "::1"], "this kernel has"),
        (&["send", "--carrier", "tls", "::1"], "in-band"),
        (&["send", "nosuch.invalid"], "check the name"),
        (&["send", "--bind", "127.0.0.1", "::1"], "--bind"),
        (&["recv", "--out", &there], "--overwrite"),
        (&["recv", "--out", &format!("{none}/")], "first"),
        (&["recv", "--out", "/proc/1/none"], "/proc/1/none"),
        (
            &["recv", "--out", &there, "--overwrite", "--count", "2"],
            "folder",
        ),
        (&["recv", "--out", "-", "--json"], "standard output"),
        (&["send", "--ca", &there, "::1"], "tcp has no TLS"),
        (
            &[
                "recv",
                "--transport",
                "udp",
                "--cert",
                &there,
                "--key",
                &there,
            ],
            "udp has no TLS",
        ),
        (&["recv", "--bind", "192.0.2.1"], "address of this machine"),
    ] {
        place.start(&place.outside, args).end().fails(2, part);
    }
    for args in [
        &["send", "--transport", "pigeon", "::1"][..],
        &["send", "--rate", "0mbit", "::1"],
        &["send", "a b"],
        &["send", "--size", "1k", "--duration", "1s", "::1"],
        &["recv", "--port", "0"],
        &["recv", "--overwrite"],
    ] {
        let ended = place.start(&place.outside, args).end();
        assert_eq!(ended.code, Some(2), "{ended:?}");
    }
}

#[test]
fn the_summary_names_the_port_and_another_transport_is_asked_about() {
    let Some(place) = Place::new() else { return };
    let to = place.receiver().to_string();
    let recv = place.recv(&["--port", "9733", "--once"]);
    let sent = place.send(&["--port", "9733", "--size", "9k", "--json"]);
    assert_eq!(sent.json()["summary"]["to"], format!("{to}:9733"));
    assert_eq!(recv.end().code, Some(0));
    let recv = place.recv(&[]);
    recv.says("the sender's command: alcc send --transport tcp --");
    let inband = ["--transport", "in-band", "--cc", "cubic", "--size", "9k"];
    let hint = "does 'alcc recv' there have --transport in-band and the same --carrier?";
    place.send(&inband).fails(1, hint);
    recv.says("do both ends have the same --transport?");
    drop(recv);
}

/// Other namespaces than those that our emulator makes are real networks: a VPN's, a service's, a
/// container's.
#[test]
fn what_is_not_encrypted_stays_on_loopback_and_in_our_own_namespaces() {
    let Some(place) = Place::new() else { return };
    let to = place.receiver().to_string();
    let lab = place::built::built("alcc-lab");
    let lab = lab.to_str().unwrap();
    let udp = ["--transport", "udp", "--once"];
    let recv = place.start(&place.inside, &[&["recv"], &udp[..]].concat());
    recv.says("listening on ");
    let send = [
        "send",
        "--transport",
        "udp",
        "--cc",
        "cubic",
        "--size",
        "9k",
    ];
    let inside = place.start(&place.outside, &[&send[..], &[&to]].concat());
    let (sent, received) = (inside.end(), recv.end());
    assert_eq!((sent.code, received.code), (Some(0), Some(0)), "{sent:?}");
    // The mark of our namespace is there, the namespace is another one.
    if Command::new("unshare").arg("--version").output().is_err() {
        lacks::lacks("unshare");
        return;
    }
    let elsewhere = |args: &[&str]| {
        let words = [&["--net", lab], args].concat();
        place.run(&place.inside, "unshare", &words).end()
    };
    elsewhere(&["recv", "--transport", "udp"])
        .fails(2, "use --bind 127.0.0.1 to test on this machine");
    elsewhere(&[&send[..], &["192.0.2.1"]].concat()).fails(2, "use 127.0.0.1 as HOST to test");
}

#[test]
fn files_go_where_the_receiver_says_and_replace_nothing() {
    let Some(place) = Place::new() else { return };
    let content = place.file("sent", 30_000);
    let (sent, folder) = (place.path("sent"), place.path("in"));
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(format!("{folder}/received-1"), "mine").unwrap();
    let recv = place.recv(&["--out", &folder, "--count", "2", "--max-size", "100k"]);
    for _ in 0..2 {
        let sent = place.send(&["--file", &sent]);
        assert_eq!(sent.code, Some(0), "{sent:?}");
    }
    assert_eq!(recv.end().code, Some(0));
    let read = |n| std::fs::read(format!("{folder}/received-{n}")).unwrap();
    assert_eq!(read(1), b"mine");
    assert!(read(2) == content && read(3) == content);

    // Too large is refused, and an end before the end leaves nothing behind.
    place.file("large", 200_000);
    let large = place.path("large");
    let recv = place.recv(&["--out", &folder, "--count", "2", "--max-size", "100k"]);
    assert_eq!(place.send(&["--file", &large]).code, Some(1));
    let slow = place.sending(&["--file", &sent, "--rate", "50kbit"]);
    wait_for("a part of it", || {
        std::fs::read_dir(&folder).unwrap().count() == 4
    });
    slow.signal(Signal::SIGINT);
    slow.end().fails(1, "interrupted");
    let ended = recv.end();
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains("2 of 2 transfers failed"), "{ended:?}");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 3);

    // It replaces a file if requested, and the sender gets an error if data cannot be stored.
    let got = place.path("got");
    std::fs::write(&got, "old").unwrap();
    let recv = place.recv(&["--out", &got, "--overwrite"]);
    assert_eq!(place.send(&["--file", &sent]).code, Some(0));
    assert_eq!(recv.end().code, Some(0));
    assert!(std::fs::read(&got).unwrap() == content);
    let gone = place.path("gone");
    std::fs::create_dir(&gone).unwrap();
    let recv = place.recv(&["--out", &format!("{gone}/got")]);
    std::fs::remove_dir_all(&gone).unwrap();
    place.send(&["--file", &sent]).fails(1, "send to");
    assert_eq!(recv.end().code, Some(1));
    let mode = std::fs::metadata(&got).unwrap().permissions().mode();
    assert_eq!(mode & 0o111, 0, "nothing from a peer is a program");
}

#[test]
fn strangers_cost_little_and_keep_nobody_out() {
    let Some(place) = Place::new() else { return };
    let recv = place.recv(&["--once", "--connections", "4", "--json"]);
    let at = (place.receiver(), 9700);
    let connect = || {
        let stream = place
            .outside
            .run(|| TcpStream::connect(at).unwrap())
            .unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        stream
    };
    let ends = |mut stream: TcpStream| {
        let mut said = Vec::new();
        // An orderly end or a reset, and not a word.
        let _ = stream.read_to_end(&mut said);
        assert!(said.is_empty());
    };
    for said in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        &[0xff; 4000],
        b"alccsend\x02",
        b"alccsend\x01\x09",
    ] {
        let mut stream = connect();
        let _ = stream.write_all(&[said, &[0; 64]].concat());
        ends(stream);
    }
    drop(connect());
    // All places are taken by peers that say nothing: one more is turned away, until one of them
    // leaves.
    let mut silent: Vec<_> = (0..4).map(|_| connect()).collect();
    ends(connect());
    drop(silent.pop());
    // The time at which the receiver notices it depends on the machine.
    wait_for("the place of the one that left", || {
        place.send(&["--size", "100k"]).code == Some(0)
    });
    let received = recv.end();
    let summary = &received.json()["summary"];
    assert_eq!(summary["transfers"], 1);
    assert!(summary["turned_away"].as_u64().unwrap() >= 1, "{summary}");
    assert!(summary["strangers"].as_u64().unwrap() >= 5, "{summary}");
}

#[test]
fn a_signal_ends_both_with_what_is_known() {
    let Some(place) = Place::new() else { return };
    let series = [place.path("series-s"), place.path("series-r")];
    let recv = place.recv(&["--json", "--series", &series[1]]);
    let options = [
        "--duration",
        "50s",
        "--cc",
        "copa",
        "--json",
        "--series",
        &series[0],
    ];
    let sending = place.sending(&options);
    for file in &series {
        wait_for("a series", || {
            let text = std::fs::read_to_string(file).unwrap_or_default();
            text.lines().count() > 6
        });
    }
    sending.signal(Signal::SIGTERM);
    let sent = sending.end();
    sent.fails(1, "interrupted");
    assert!(sent.any_json()["flows"][0]["bytes"].as_u64().unwrap() > 0);
    recv.signal(Signal::SIGTERM);
    assert_eq!(recv.end().any_json()["summary"]["failed"], 1);
    for file in series {
        let text = std::fs::read_to_string(file).unwrap();
        let lines: Vec<(u64, u64)> = text
            .lines()
            .map(|l| l.split_once(' ').unwrap())
            .map(|(at, bytes)| (at.parse().unwrap(), bytes.parse().unwrap()))
            .collect();
        assert!(lines.len() > 5, "{lines:?}");
        assert!(lines.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 < w[1].1));
    }
    // Nothing was sent, so nothing has failed.
    let recv = place.recv(&[]);
    recv.signal(Signal::SIGINT);
    assert_eq!(recv.end().code, Some(0));
}

#[test]
fn an_application_that_writes_at_a_rate_has_little_delay() {
    let Some(place) = Place::new() else { return };
    let recv = place.recv(&["--once"]);
    let sent = place
        .send(&["--rate", "2mbit", "--duration", "1s", "--json"])
        .json();
    assert_eq!(recv.end().code, Some(0));
    let row = &sent["flows"][0];
    let number = |name: &str| row[name].as_f64().unwrap();
    // 2 Mbit/s for the whole duration, below the rate of the link. A busy machine notices the end late.
    let mbps = number("bytes") * 8.0 / 1e6 / number("duration_s");
    assert!((1.2..=2.1).contains(&mbps), "{row}");
}
