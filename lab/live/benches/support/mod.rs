// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shared code of the benchmarks with real programs.
mod number;

use alcc_emu::Namespace;
use alcc_live::server::{FEW, FILE, PORT, RuntimeReport, Server};
use alcc_live::{Scheme, Tools, route};
use std::error::Error;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};

pub(crate) use number::number;

pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The servers, their files and the programs. Before the first thread: it may have to enter a user
/// namespace.
pub(crate) struct World {
    tools: Tools,
    scratch: tempfile::TempDir,
    servers: usize,
}

impl World {
    /// `size` is that of the file that is downloaded, in bytes of real content.
    pub(crate) fn new(size: usize) -> Result<Self> {
        alcc_emu::prepare()?;
        // cargo starts benchmarks in the folder of their crate; programs are looked for from the
        // project's.
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        std::env::set_current_dir(&root)?;
        let target =
            std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
        let alcc =
            std::env::var_os("ALCC_BIN").map_or_else(|| target.join("release/alcc"), PathBuf::from);
        if !alcc.is_file() {
            return Err(format!(
                "{} is not there: run 'make build' first, or name the program in ALCC_BIN",
                alcc.display()
            )
            .into());
        }
        let scratch = tempfile::Builder::new()
            .prefix("alcc-bench-")
            .tempdir_in(std::env::temp_dir())?;
        let tools = Tools::new(std::path::absolute(alcc)?);
        std::fs::create_dir(scratch.path().join("files"))?;
        std::fs::write(scratch.path().join("files").join(FILE), vec![0x5a; size])?;
        Ok(Self {
            tools,
            scratch,
            servers: 0,
        })
    }

    /// Our own program, and a folder for files.
    #[allow(dead_code, reason = "for those that start it themselves")]
    pub(crate) fn alcc_and_scratch(&self) -> (&Path, &Path) {
        (&self.tools.alcc, self.scratch.path())
    }

    /// The programs.
    #[allow(dead_code, reason = "for those that start none of them here")]
    pub(crate) fn tools(&self) -> &Tools {
        &self.tools
    }

    /// An nginx in `namespace`; `scheme` as in 'alcc-lab compare'. It inherits the CPU affinity of the
    /// caller.
    #[allow(dead_code, reason = "for those with few connections")]
    pub(crate) fn serve(&mut self, namespace: &Namespace, scheme: &str) -> Result<Server> {
        self.serve_many(namespace, scheme, FEW)
    }

    /// The same for `connections` connections at a time.
    pub(crate) fn serve_many(
        &mut self,
        namespace: &Namespace,
        scheme: &str,
        connections: usize,
    ) -> Result<Server> {
        self.servers += 1;
        let folder = self.scratch.path().join(self.servers.to_string());
        std::fs::create_dir(&folder)?;
        let scheme: Scheme = if in_kernel(scheme) { "cubic" } else { scheme }.parse()?;
        let files = self.scratch.path().join("files");
        Ok(Server::start(
            namespace,
            &scheme,
            &self.tools,
            &folder,
            &files,
            None,
            connections,
        )?)
    }
}

/// A connection from `namespace` with `requests` requests for the first `bytes` of the file already
/// made.
#[allow(dead_code, reason = "for those that need no more of the client")]
pub(crate) fn request(
    namespace: &Namespace,
    server: Ipv4Addr,
    requests: usize,
    bytes: usize,
) -> Result<TcpStream> {
    request_at(namespace, SocketAddr::from((server, PORT)), requests, bytes)
}

/// As [`request`], for a server at another port.
#[allow(dead_code, reason = "for those that need no more of the client")]
pub(crate) fn request_at(
    namespace: &Namespace,
    address: SocketAddr,
    requests: usize,
    bytes: usize,
) -> Result<TcpStream> {
    let last = bytes.saturating_sub(1);
    let mut stream = namespace.run(|| TcpStream::connect(address))??;
    stream.set_read_timeout(Some(std::time::Duration::from_secs(5)))?;
    let one = format!("GET /{FILE} HTTP/1.1\r\nHost: bench\r\nRange: bytes=0-{last}\r\n\r\n");
    stream.write_all(one.repeat(requests).as_bytes())?;
    Ok(stream)
}

/// True if `scheme` is a control that `alcc bpf load` has loaded, such as `alcc_copa`: plain nginx
/// under it.
pub(crate) fn in_kernel(scheme: &str) -> bool {
    scheme.starts_with("alcc_")
}

/// True if `scheme` runs under `alcc run`, which leaves a report.
#[allow(dead_code, reason = "for those that compare with anything")]
pub(crate) fn is_ours(scheme: &str) -> bool {
    scheme.contains("/over=")
}

/// Schemes to compare, the first with all others: `ALCC_BENCH_SCHEMES` or `default`.
#[allow(dead_code, reason = "for those that compare with anything")]
pub(crate) fn schemes(default: &str) -> Vec<String> {
    let named = std::env::var("ALCC_BENCH_SCHEMES").unwrap_or_else(|_| default.to_owned());
    named.split(',').map(str::to_owned).collect()
}

/// All sides of a comparison send with the kernel's Cubic, whatever the machine's default is, or
/// with the control that is named.
#[allow(dead_code, reason = "for those that compare controls")]
pub(crate) fn under(
    outside: &Namespace,
    local: Ipv4Addr,
    peer: Ipv4Addr,
    scheme: &str,
) -> Result<()> {
    let control = if in_kernel(scheme) { scheme } else { "cubic" };
    let used = outside.run(|| route::use_algorithm(local, peer, control))?;
    used.map_err(|e| format!("use {control}: {e}; 'alcc bpf load' loads ours").into())
}

/// Ends a controlled server; an error unless it really was controlled to the end.
#[allow(dead_code, reason = "for those that start servers here")]
pub(crate) fn conclude(server: Server) -> Result<RuntimeReport> {
    let report = server.stop().ok_or("alcc run left no report")?;
    if report.connections == 0 || report.failures > 0 {
        return Err(format!("not a controlled run: {report:?}").into());
    }
    Ok(report)
}
