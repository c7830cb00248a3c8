// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The distribution's nginx, unmodified, with a configuration of its own in a scratch folder.
use crate::LabError;
use crate::live::UNTRUSTED;
use crate::program::Program;
use crate::scheme::Scheme;
use crate::tools::Tools;
use alcc_emu::Namespace;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// Above the ports that need a privilege.
pub const PORT: u16 = 8080;
/// Connections that a server accepts by default.
pub const FEW: usize = 200;
/// The file that is downloaded.
pub const FILE: &str = "download";
/// A sparse file of this size is more than any window downloads: 1 Gbit/s for 9 minutes.
const DOWNLOAD: u64 = 64 << 30;

/// Makes `folder`, and [`FILE`] in it.
pub(crate) fn make_download(folder: &Path) -> Result<(), LabError> {
    fs::create_dir_all(folder)
        .and_then(|()| File::create(folder.join(FILE)))
        .and_then(|file| file.set_len(DOWNLOAD))
        .map_err(LabError::os(format!(
            "make the file to download in {}",
            folder.display()
        )))
}

/// Address of a server, and its number of connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Listen {
    /// The port.
    pub port: u16,
    /// Minimum number of connections that it accepts.
    pub connections: usize,
}

impl Default for Listen {
    fn default() -> Self {
        FEW.into()
    }
}

impl From<usize> for Listen {
    fn from(connections: usize) -> Self {
        Self {
            port: PORT,
            connections,
        }
    }
}

/// A running server; ended when dropped.
pub struct Server {
    program: Program,
    folder: PathBuf,
}

/// Report of `alcc run`, printed when it ends.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub struct RuntimeReport {
    /// Source of acknowledgements.
    pub feedback: String,
    /// Enforcement of the limit.
    pub enforcement: String,
    /// Connections controlled.
    pub connections: u64,
    /// Number of writes that were refused or cut short.
    pub gate_closed: u64,
    /// Readings of the kernel's counters.
    pub readings: u64,
    /// CPU time of the runtime's threads, s.
    pub runtime_cpu_s: f64,
    /// Wake-ups of the runtime's threads at a time that was planned.
    pub wakeups: u64,
    /// Those among them that came more than 3 ms late.
    pub late_wakeups: u64,
    /// Runtimes that failed.
    pub failures: u64,
}

impl Server {
    /// Starts nginx, below `alcc run` if the scheme is controlled, and waits until it answers.
    /// `folder` is the server's own and exists; `files` holds [`FILE`]. The runtime writes its
    /// readings into a folder in `log`. The server inherits the CPU affinity of the calling thread.
    /// Its connections may stay open for ten minutes if there are more than [`FEW`].
    ///
    /// # Errors
    /// [`LabError::Os`] if a file or the process cannot be made, [`LabError::Run`] with its last
    /// words if it does not answer.
    pub fn start(
        namespace: &Namespace,
        scheme: &Scheme,
        tools: &Tools,
        folder: &Path,
        files: &Path,
        log: Option<&Path>,
        listen: impl Into<Listen>,
    ) -> Result<Self, LabError> {
        let listen = listen.into();
        let configuration = folder.join("nginx.conf");
        fs::write(&configuration, nginx_configuration(folder, files, listen))
            .map_err(LabError::os(format!("write {}", configuration.display())))?;
        let report = folder.join("runtime.json");
        let mut command = tools.below(scheme, &tools.nginx()?, &report, log);
        command.arg("-p").arg(folder).arg("-c").arg(&configuration);
        let says = folder.join("says");
        let mut program = Program::start(
            namespace,
            command,
            &scheme.name,
            &says,
            folder.join("error.log"),
        )?;
        program.wait_for_port("the server", namespace, listen.port)?;
        Ok(Self {
            program,
            folder: folder.to_owned(),
        })
    }

    /// Returns an error with the last line of the server or the runtime, if it has ended.
    pub(crate) fn check(&mut self, why: &str) -> Result<(), LabError> {
        self.program.check(why)
    }

    /// The process that was started: nginx's master, or `alcc run` above it.
    pub fn id(&self) -> u32 {
        self.program.id()
    }

    /// Ends the server and all its processes, and reads the runtime's report if there is one.
    pub fn stop(mut self) -> Option<RuntimeReport> {
        self.program.end();
        RuntimeReport::read(&self.folder.join("runtime.json")).ok()
    }
}

/// Part of late wake-ups from which the machine is regarded as overloaded.
const MAX_LATE: f64 = 0.05;

impl RuntimeReport {
    /// Notes beside the results of a program under this runtime.
    ///
    /// # Errors
    /// The program was not controlled, so the results are those of plain TCP.
    pub(crate) fn notes(&self) -> Result<Vec<String>, String> {
        if self.connections == 0 {
            return Err("alcc run controlled no connection".to_owned());
        }
        if self.failures > 0 {
            return Err(format!(
                "the runtime failed ({} of its processes) and left the connections to plain TCP",
                self.failures
            ));
        }
        let mut notes = Vec::from_iter(self.lateness());
        if self.gate_closed == 0 && self.enforcement.contains("gate") {
            notes.push(
                "the gate never closed: the algorithm's window was never the limit".to_owned(),
            );
        }
        Ok(notes)
    }

    /// A note about a runtime that often waited for a processor, because an algorithm with late
    /// samples does not behave as designed.
    fn lateness(&self) -> Option<String> {
        let part = self.late_wakeups as f64 / self.wakeups.max(1) as f64;
        (part > MAX_LATE).then(|| {
            format!(
                "{:.0} % of the runtime's wake-ups came more than 3 ms late: this machine was full, the figures are {UNTRUSTED}",
                part * 100.0
            )
        })
    }

    /// Reads the report of `alcc run`.
    ///
    /// # Errors
    /// The report cannot be read.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let text = fs::read_to_string(path).ok();
        let report = text.and_then(|text| serde_json::from_str(&text).ok());
        report.ok_or_else(|| "alcc run left no report".to_owned())
    }
}

/// The configuration that a distribution ships, with every path in our folder; nothing is tuned for
/// the experiment.
pub(crate) fn nginx_configuration(folder: &Path, files: &Path, listen: Listen) -> String {
    let Listen { port, connections } = listen;
    let (folder, files) = (folder.display(), files.display());
    // Only root's nginx changes its user, and then it must be able to read our folder, which is
    // ours alone.
    let user = if nix::unistd::geteuid().is_root() {
        "user root;"
    } else {
        ""
    };
    // Any worker may get them all, and has other descriptors too.
    let most = connections.max(FEW) + 56;
    let (limit, keep) = if connections > FEW {
        (
            format!("worker_rlimit_nofile {};", most + 256),
            "keepalive_timeout 600s;",
        )
    } else {
        (String::new(), "")
    };
    format!(
        "daemon off;
{user}
{limit}
worker_processes 2;
pid \"{folder}/pid\";
error_log \"{folder}/error.log\" warn;
events {{ worker_connections {most}; }}
http {{
  access_log off;
  types {{ text/html html; text/css css; application/javascript js; image/bmp bmp; }}
  default_type application/octet-stream;
  sendfile on;
  tcp_nopush on;
  {keep}
  client_body_temp_path \"{folder}/t1\";
  proxy_temp_path \"{folder}/t2\";
  fastcgi_temp_path \"{folder}/t3\";
  uwsgi_temp_path \"{folder}/t4\";
  scgi_temp_path \"{folder}/t5\";
  server {{
    listen {port};
    root \"{files}\";
  }}
}}
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_figures_doubtful_is_said() {
        let fine = RuntimeReport {
            connections: 1,
            enforcement: "gate+pacing".to_owned(),
            gate_closed: 3,
            wakeups: 100,
            late_wakeups: 5,
            ..RuntimeReport::default()
        };
        assert_eq!(fine.notes(), Ok(Vec::new()));
        let doubtful = RuntimeReport {
            gate_closed: 0,
            late_wakeups: 6,
            ..fine
        };
        let notes = doubtful.notes().unwrap();
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert!(notes[0].starts_with("6 % of the runtime's wake-ups"));
        let failed = RuntimeReport {
            failures: 2,
            ..doubtful
        };
        let why = failed.notes().unwrap_err();
        assert!(why.contains("failed (2 of its processes)"), "{why}");
        assert!(RuntimeReport::default().notes().is_err());
    }
}
