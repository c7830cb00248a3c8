// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A world for tests with real programs: the distribution's nginx on one side of an emulated link,
//! curl on the other.
mod certificate;
mod early;
pub(crate) mod lacks;

use alcc_emu::{Emulator, Namespace, PathSpec, Silent, Subnet};
use alcc_link::{DirectionSpec, RateSpec};
use alcc_units::{Rate, Span};
pub(crate) use certificate::certificate;
pub(crate) use lacks::lacks;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// True, and said, if this machine cannot run the world.
pub(crate) fn impossible() -> bool {
    if let Err(why) = alcc_emu::available() {
        return lacks(&format!("namespaces ({why})"));
    }
    if nginx().is_none() {
        return lacks("nginx (run scripts/setup)");
    }
    ["curl", "openssl", "sha256sum"]
        .iter()
        .any(|tool| find(tool).is_none() && lacks(tool))
}

/// The distribution's nginx, where scripts/setup put it or on the PATH.
pub(crate) fn nginx() -> Option<PathBuf> {
    std::env::var_os("ALCC_NGINX")
        .map(PathBuf::from)
        .filter(|p| p.is_file())
        .or_else(|| find("nginx"))
}

pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let sbin = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path)
        .chain(sbin)
        .map(|dir| dir.join(program))
        .find(|p| p.is_file())
}

/// 10 ms each way, `mbps` to the client and 50 Mbit/s back.
pub(crate) fn link(mbps: u64) -> PathSpec {
    let way = |mbps| DirectionSpec {
        delay: Span::from_millis(10),
        rate: RateSpec::Fixed(Rate::mbps(mbps)),
        ..DirectionSpec::default()
    };
    PathSpec {
        down: way(mbps),
        up: way(50),
        seed: 1,
    }
}

/// Two namespaces, a link between them, and a folder.
pub(crate) struct World {
    pub(crate) outside: Namespace,
    inside: Namespace,
    dir: tempfile::TempDir,
    link: Emulator,
    address: Ipv4Addr,
}

impl World {
    pub(crate) fn new(link: PathSpec) -> Self {
        alcc_emu::prepare().unwrap();
        let (outside, inside) = (Namespace::new().unwrap(), Namespace::new().unwrap());
        let emulator =
            Emulator::start(&outside, &inside, Subnet::default(), link, Box::new(Silent)).unwrap();
        let world = Self {
            outside,
            inside,
            dir: tempfile::tempdir().unwrap(),
            address: emulator.outside_addr(),
            link: emulator,
        };
        std::fs::create_dir(world.path("www")).unwrap();
        // nginx's workers may run as another user.
        let readable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(world.dir.path(), readable).unwrap();
        world
    }

    /// Ends the link; what passed over it.
    #[allow(dead_code, reason = "not every test asks")]
    pub(crate) fn end(self) -> alcc_emu::EmuReport {
        self.link.stop().unwrap()
    }

    /// A connection from the client's side to this port of the server.
    #[allow(dead_code, reason = "most tests fetch by curl")]
    pub(crate) fn connect(&self, port: u16) -> std::net::TcpStream {
        let to = (self.address, port);
        let connect = || std::net::TcpStream::connect(to);
        self.inside.run(connect).unwrap().unwrap()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Puts a file of pseudo-random bytes on the server.
    pub(crate) fn file(&self, name: &str, bytes: usize) -> String {
        let content = alcc_units::Rng::new(bytes as u64).bytes(bytes);
        let path = self.path("www").join(name);
        std::fs::write(&path, content).unwrap();
        sha256(&path)
    }

    /// Starts nginx under `alcc run OPTIONS`, or plainly.
    pub(crate) fn serve(&self, options: Option<&[&str]>) -> Server {
        self.serve_as("daemon off;", options)
    }

    /// The same for tests of the gate: it requests the form that is the best one while nothing is loaded
    /// into the kernel (`alcc bpf load`).
    #[allow(dead_code, reason = "not every test asks")]
    pub(crate) fn gated(&self, options: &[&str]) -> Server {
        self.serve(Some(&[options, &["--enforce", "gate+pacing"]].concat()))
    }

    /// Starts nginx with these lines at the top of its configuration.
    pub(crate) fn serve_as(&self, main: &str, options: Option<&[&str]>) -> Server {
        self.configure(main);
        let nginx = nginx().unwrap();
        let mut command = Command::new(if options.is_some() {
            Path::new(env!("CARGO_BIN_EXE_alcc"))
        } else {
            &nginx
        });
        if let Some(options) = options {
            command
                .arg("run")
                .args(options)
                .arg(format!("--json={}", self.path("report.json").display()))
                .arg("--")
                .arg(&nginx);
        }
        command
            .args(["-c", self.path("nginx.conf").to_str().unwrap()])
            .arg("-e")
            .arg(self.path("error.log"));
        command
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(self.path("stderr")).unwrap());
        let server = Server {
            child: self.outside.spawn(command).unwrap(),
            report: self.path("report.json"),
            stderr: self.path("stderr"),
        };
        let deadline = Instant::now() + Duration::from_secs(60);
        while !self.path("nginx.pid").exists() {
            assert!(
                Instant::now() < deadline,
                "nginx did not start: {}",
                std::fs::read_to_string(self.path("error.log")).unwrap_or_default()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        server
    }

    /// Writes nginx's configuration, with these lines at its top.
    pub(crate) fn configure(&self, main: &str) {
        if !self.path("key.pem").exists() {
            let (crt, key) = (self.path("cert.pem"), self.path("key.pem"));
            certificate(&crt, &key, "test", &[]);
        }
        let dir = self.dir.path().display();
        let temp: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .iter()
            .map(|n| format!("{n}_temp_path {dir}/{n};\n"))
            .collect();
        let config = format!(
            "{main} user root; worker_processes 2; pid {dir}/nginx.pid; error_log {dir}/error.log;
             events {{ worker_connections 256; }}
             http {{ access_log off; sendfile on; tcp_nopush on; root {dir}/www; {temp}
               server {{ listen 8080; }}
               server {{ listen 8081; sendfile off; }}
               server {{ listen 8443 ssl http2; ssl_certificate {dir}/cert.pem; ssl_certificate_key {dir}/key.pem; }} }}"
        );
        std::fs::write(self.path("nginx.conf"), config).unwrap();
    }

    /// Runs a shell command at the client's side; `$S` is the server's address.
    pub(crate) fn client(&self, script: &str) -> Output {
        let mut command = Command::new("sh");
        command
            .args(["-c", script])
            .env("S", self.address.to_string())
            .current_dir(self.dir.path());
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        self.inside
            .spawn(command)
            .unwrap()
            .wait_with_output()
            .unwrap()
    }

    /// The hash of what curl fetches, which takes long on an emulated machine.
    pub(crate) fn fetch(&self, curl: &str) -> String {
        let out = self.client(&format!(
            "curl -sS --fail --max-time 300 {curl} | sha256sum"
        ));
        assert!(
            out.stderr.is_empty(),
            "{curl}: {}",
            String::from_utf8_lossy(&out.stderr)
        );
        first_word(out.stdout)
    }
}

fn first_word(said: Vec<u8>) -> String {
    let said = String::from_utf8(said).unwrap();
    said.split_whitespace().next().unwrap().to_owned()
}

fn sha256(path: &Path) -> String {
    let out = Command::new("sha256sum").arg(path).output().unwrap();
    first_word(out.stdout)
}

/// nginx, under `alcc run` or not.
pub(crate) struct Server {
    child: Child,
    report: PathBuf,
    stderr: PathBuf,
}

impl Server {
    /// The process id of `alcc run`, or of nginx itself.
    #[allow(dead_code, reason = "not every test file looks at a running server")]
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Stops it by the signal of an init system. Returns the report of `alcc run` (null without) and its
    /// standard error.
    pub(crate) fn stop(mut self) -> (serde_json::Value, String) {
        self.terminate();
        let report = std::fs::read_to_string(&self.report)
            .ok()
            .and_then(|text| serde_json::from_str(&text).ok());
        (
            report.unwrap_or_default(),
            std::fs::read_to_string(&self.stderr).unwrap(),
        )
    }

    fn terminate(&mut self) {
        let pid = nix::unistd::Pid::from_raw(self.child.id().cast_signed());
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
        drop(self.child.wait());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.terminate();
    }
}
