// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `alcc proxy` in front of an unmodified nginx, over emulated links.
#[path = "support/relay.rs"]
#[allow(dead_code, reason = "not every test uses all of it")]
mod relay;
#[allow(dead_code, reason = "others use the rest of it")]
mod support;

use alcc_emu::{Emulator, Namespace, Silent, Subnet};
use relay::{Relay, number};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::{World, impossible, link};

/// A server behind the proxy: it listens on loopback only.
struct Nginx(Child);

impl Nginx {
    /// 8080 plainly, 8090 with a PROXY header; takes uploads to /put/.
    fn start(world: &World) -> Self {
        let dir = world.path("").display().to_string();
        let dir = dir.trim_end_matches('/');
        let temp: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .iter()
            .map(|n| format!("{n}_temp_path {dir}/{n};\n"))
            .collect();
        let config = format!(
            "daemon off; user root; worker_processes 1; pid {dir}/nginx.pid; error_log {dir}/error.log;
             events {{ worker_connections 1024; }}
             http {{ access_log off; root {dir}/www; client_max_body_size 0; {temp}
               server {{ listen 127.0.0.1:8080; location /put/ {{ dav_methods PUT; create_full_put_path on; }} }}
               server {{ listen 127.0.0.1:8090 proxy_protocol;
                 location /who {{ return 200 \"$proxy_protocol_addr $proxy_protocol_port $proxy_protocol_server_addr $proxy_protocol_server_port\"; }} }} }}"
        );
        std::fs::write(world.path("nginx.conf"), config).unwrap();
        let mut command = Command::new(support::nginx().unwrap());
        command
            .args(["-c", world.path("nginx.conf").to_str().unwrap()])
            .arg("-e")
            .arg(world.path("error.log"))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let nginx = Self(world.outside.spawn(command).unwrap());
        let deadline = Instant::now() + Duration::from_secs(20);
        while !world.path("nginx.pid").exists() {
            let log = std::fs::read_to_string(world.path("error.log")).unwrap_or_default();
            assert!(Instant::now() < deadline, "nginx did not start: {log}");
            std::thread::sleep(Duration::from_millis(20));
        }
        nginx
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let pid = nix::unistd::Pid::from_raw(self.0.id().cast_signed());
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
        drop(self.0.wait());
    }
}

fn relay(world: &World, to: &str, options: &[&str]) -> Relay {
    let mut all = vec!["--listen", ":8443", "--to", to];
    all.extend(options);
    Relay::start(&all, |command| world.outside.spawn(command))
}

#[test]
fn nginx_learns_the_clients_address_from_either_header() {
    if impossible() {
        return;
    }
    let world = World::new(link(50));
    let _nginx = Nginx::start(&world);
    for version in ["v1", "v2"] {
        let relay = relay(&world, "127.0.0.1:8090", &["--proxy-protocol", version]);
        let out = world.client(
            "curl -sS --max-time 20 -w '\n%{local_ip} %{local_port} %{remote_ip} %{remote_port}' http://$S:8443/who",
        );
        let said = String::from_utf8(out.stdout).unwrap();
        let (seen, true_one) = said.split_once('\n').unwrap();
        assert_eq!(seen, true_one, "{version}");
        assert!(
            true_one.ends_with(" 8443") && !true_one.starts_with("127."),
            "{true_one}"
        );
        let (_, report, said) = relay.stop();
        assert_eq!(number(&report, "controlled"), 1, "{said}");
    }
}

/// Another server that reads the header: HAProxy takes it and answers with what it says.
#[test]
fn haproxy_learns_it_too() {
    if impossible() {
        return;
    }
    let Some(haproxy) = support::find("haproxy") else {
        support::lacks("haproxy (run scripts/setup test)");
        return;
    };
    let world = World::new(link(50));
    std::fs::write(
        world.path("haproxy.cfg"),
        "defaults\n mode http\n timeout connect 5s\n timeout client 20s\n timeout server 20s\n\
         frontend f\n bind 127.0.0.1:8444 accept-proxy\n \
         http-request return status 200 content-type text/plain lf-string \"%[src] %[src_port] %[dst] %[dst_port]\"\n",
    )
    .unwrap();
    let mut command = Command::new(haproxy);
    command.arg("-db").arg("-f").arg(world.path("haproxy.cfg"));
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let _server = Nginx(world.outside.spawn(command).unwrap());
    for version in ["v1", "v2"] {
        let relay = relay(&world, "127.0.0.1:8444", &["--proxy-protocol", version]);
        // It may not listen yet.
        let out = world.client(
            "curl -sS --max-time 20 --retry 50 --retry-delay 1 --retry-all-errors -w '\n%{local_ip} %{local_port} %{remote_ip} %{remote_port}' http://$S:8443/",
        );
        let said = String::from_utf8(out.stdout).unwrap();
        let (seen, true_one) = said.split_once('\n').unwrap();
        assert_eq!(seen, true_one, "{version}");
        drop(relay.stop());
    }
}

#[test]
fn downloads_and_uploads_arrive_whole_and_downloads_are_controlled() {
    if impossible() {
        return;
    }
    let world = World::new(link(50));
    let hash = world.file("f", 3_000_000);
    let _nginx = Nginx::start(&world);
    for options in [
        &["--cc", "verus"][..],
        &["--cc", "copa", "--feedback", "timestamps"],
        &["--cc", "fixed:window=8", "--enforce", "queue"],
        &["--cc", "cubic", "--outbound", "--loopback"],
    ] {
        let relay = relay(&world, "127.0.0.1:8080", options);
        assert_eq!(world.fetch("http://$S:8443/f"), hash, "{options:?}");
        let put = world.client("curl -sS --fail --max-time 60 -T www/f http://$S:8443/put/f");
        assert!(put.status.success(), "{options:?}: {put:?}");
        assert_eq!(world.fetch("http://$S:8443/put/f"), hash, "{options:?}");
        let (status, report, said) = relay.stop();
        assert!(status.success(), "{said}");
        let outbound = options.contains(&"--outbound");
        assert_eq!(
            number(&report, "controlled"),
            if outbound { 6 } else { 3 },
            "{said}"
        );
        assert!(number(&report, "gate_closed") > 0, "{said}");
        assert!(number(&report, "bytes_down") >= 6_000_000, "{said}");
        assert!(number(&report, "bytes_up") >= 3_000_000, "{said}");
        assert_eq!(number(&report, "failures"), 0, "{said}");
        assert!(said.contains("queue"), "{said}");
    }
}

#[test]
fn many_clients_of_several_loops() {
    if impossible() {
        return;
    }
    let world = World::new(link(50));
    let hash = world.file("f", 300_000);
    let _nginx = Nginx::start(&world);
    let relay = relay(&world, "127.0.0.1:8080", &["--threads", "3"]);
    let out = world.client(
        "for i in $(seq 24); do (curl -sS --max-time 60 http://$S:8443/f | sha256sum) & done; wait",
    );
    let hashes = String::from_utf8(out.stdout).unwrap();
    let whole = hashes
        .lines()
        .filter(|line| line.starts_with(&hash))
        .count();
    assert_eq!(whole, 24, "{hashes}");
    let (_, report, said) = relay.stop();
    assert_eq!(number(&report, "controlled"), 24, "{said}");
    assert_eq!(number(&report, "resets"), 0, "{said}");
}

#[test]
fn what_only_and_except_leave_out_is_relayed_plainly() {
    if impossible() {
        return;
    }
    let world = World::new(link(50));
    let hash = world.file("f", 100_000);
    let _nginx = Nginx::start(&world);
    for (options, controlled) in [
        (&["--only", "8443"][..], 1),
        (&["--only", "443"], 0),
        (&["--except", "0.0.0.0/0"], 0),
        (&["--only", "192.0.2.0/24"], 0),
    ] {
        let relay = relay(&world, "127.0.0.1:8080", options);
        assert_eq!(world.fetch("http://$S:8443/f"), hash);
        let (_, report, _) = relay.stop();
        assert_eq!(
            (number(&report, "controlled"), number(&report, "left_alone")),
            (controlled, 1 - controlled),
            "{options:?}"
        );
    }
}

#[test]
fn the_queue_at_the_bottleneck_is_shorter_than_behind_a_plain_relay() {
    if impossible() {
        return;
    }
    let mean = |cc: &str| {
        let world = World::new(link(12));
        let hash = world.file("f", 6_000_000);
        let _nginx = Nginx::start(&world);
        let relay = relay(&world, "127.0.0.1:8080", &["--cc", cc, "--under", "reno"]);
        assert_eq!(world.fetch("http://$S:8443/f"), hash);
        let (_, report, said) = relay.stop();
        let report = (number(&report, "gate_closed"), world.end(), said);
        println!(
            "{cc}: {:?} mean queueing delay",
            report.1.down.queue_delay_mean
        );
        (report.0, report.1.down.queue_delay_mean.unwrap())
    };
    // A window that is never full leaves everything to the kernel's Reno, whose slow start fills
    // the queue.
    let (_, plain) = mean("fixed:window=100000");
    let (closed, controlled) = mean("copa");
    assert!(closed > 0);
    assert!(controlled * 3 < plain, "{controlled} and {plain}");
}

#[test]
fn a_client_that_vanishes_holds_nothing_up() {
    if impossible() {
        return;
    }
    let (outside, inside) = (Namespace::new().unwrap(), Namespace::new().unwrap());
    let link = Emulator::start(
        &outside,
        &inside,
        Subnet::default(),
        link(20),
        Box::new(Silent),
    )
    .unwrap();
    let at = link.outside_addr();
    let server = outside
        .run(|| std::net::TcpListener::bind("127.0.0.1:0").unwrap())
        .unwrap();
    let to = server.local_addr().unwrap().to_string();
    let relay = Relay::start(
        &["--listen", ":8443", "--to", &to, "--grace", "500ms"],
        |command| outside.spawn(command),
    );
    let client = inside
        .run(|| std::net::TcpStream::connect((at, 8443)).unwrap())
        .unwrap();
    let (mut stream, _) = server.accept().unwrap();
    stream
        .set_write_timeout(Some(Duration::from_millis(300)))
        .unwrap();
    use std::io::{Read, Write};
    stream.write_all(&[7; 100_000]).unwrap();
    // Not a word more from the client, not even a reset.
    drop(link.stop().unwrap());
    while stream.write(&[7; 100_000]).is_ok() {}
    // Others are served meanwhile: one on the server's own side.
    let near = outside
        .run(|| std::net::TcpStream::connect("127.0.0.1:8443").unwrap())
        .unwrap();
    let (mut second, _) = server.accept().unwrap();
    second.write_all(b"hello").unwrap();
    drop(second);
    near.set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let mut heard = String::new();
    (&near).read_to_string(&mut heard).unwrap();
    assert_eq!(heard, "hello");
    drop(near);
    let (status, report, said) = relay.stop();
    assert!(status.success(), "{said}");
    assert_eq!(
        (number(&report, "connections"), number(&report, "resets")),
        (2, 1)
    );
    drop(client);
}
