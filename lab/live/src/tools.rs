// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs that an experiment starts, and their paths.
use crate::LabError;
use crate::scheme::Scheme;
use alcc_cc::Registry;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The plug-in with the laboratory's algorithms.
const PLUGIN: &str = "libalcc_lab.so";

/// The programs of an experiment: the distribution's, unmodified, and our own.
#[derive(Clone)]
pub struct Tools {
    /// Our program, for `alcc run`.
    pub alcc: PathBuf,
    /// Plug-ins with algorithms, for `alcc run`.
    pub plugins: Vec<PathBuf>,
    /// The same and our own, for transports.
    pub registry: Registry,
}

impl Tools {
    /// Uses our own program `alcc` and our own algorithms. Other programs are searched for when a
    /// scheme needs them.
    pub fn new(alcc: PathBuf) -> Self {
        Self {
            alcc,
            plugins: Vec::new(),
            registry: alcc_zoo::registry(),
        }
    }

    /// The server. `ALCC_NGINX` names it. Otherwise it is in the search path, or in the sbin
    /// folders, which are often not in a user's path. Or it is in `target/deps/bin`, where `make
    /// setup` puts it.
    ///
    /// # Errors
    /// [`LabError::Missing`] with what would fix it.
    pub fn nginx(&self) -> Result<PathBuf, LabError> {
        match std::env::var_os("ALCC_NGINX").map(PathBuf::from) {
            Some(named) if is_program(&named) => Ok(named),
            Some(named) => Err(LabError::Missing {
                program: "nginx",
                looked: format!("ALCC_NGINX names {}, which is not a program", named.display()),
                fix: "name another or unset it".to_owned(),
            }),
            None => search("nginx").ok_or_else(|| LabError::Missing {
                program: "nginx",
                looked: "not in PATH, /usr/sbin, /usr/local/sbin or target/deps/bin".to_owned(),
                fix: "install it (apt install nginx; it need not run) or set ALCC_NGINX; in a source tree 'make setup' unpacks it".to_owned(),
            }),
        }
    }

    /// The client.
    ///
    /// # Errors
    /// [`LabError::Missing`] with what would fix it.
    pub fn curl(&self) -> Result<PathBuf, LabError> {
        search("curl").ok_or_else(|| LabError::Missing {
            program: "curl",
            looked: "not in PATH".to_owned(),
            fix: "install it (apt install curl); in a source tree 'make setup' unpacks it"
                .to_owned(),
        })
    }

    /// Checks that the programs of this scheme are installed. A transport needs none.
    ///
    /// # Errors
    /// [`LabError::Missing`] with what would fix it.
    pub fn check(&self, scheme: &Scheme) -> Result<(), LabError> {
        if scheme.transport.is_none() && scheme.constant.is_none() {
            self.nginx()?;
            self.curl()?;
            self.plugin(scheme)?;
        }
        Ok(())
    }

    /// The laboratory's plug-in, if `alcc run` needs it for this scheme: beside this program, or
    /// where it is installed.
    fn plugin(&self, scheme: &Scheme) -> Result<Option<PathBuf>, LabError> {
        if !scheme.controlled.as_ref().is_some_and(alcc_zoo::brings) {
            return Ok(None);
        }
        let found = alcc_sys::installed(Path::new(PLUGIN));
        found.map(Some).ok_or_else(|| LabError::Missing {
            program: PLUGIN,
            looked: "neither beside alcc-lab nor in ../lib/alcc".to_owned(),
            fix: "run 'make build', or install alcc-lab again".to_owned(),
        })
    }
}

impl Tools {
    /// The command of a server: alone, or below `alcc run` if the scheme is controlled. The runtime
    /// writes its `report` at its end, and its readings into a folder in `log`.
    pub(crate) fn below(
        &self,
        scheme: &Scheme,
        program: &Path,
        report: &Path,
        log: Option<&Path>,
    ) -> Command {
        let Some(spec) = &scheme.controlled else {
            return Command::new(program);
        };
        let mut command = Command::new(&self.alcc);
        command
            .args(["run", "--cc", &spec.to_string()])
            .args(match &scheme.enforce {
                Some(how) => ["--enforce", how],
                // Whoever names an algorithm below wants that one's window.
                None => ["--under", &scheme.kernel],
            })
            .arg(format!("--json={}", report.display()));
        let laboratory = self.plugin(scheme).ok().flatten();
        for file in laboratory.iter().chain(&self.plugins) {
            command.arg("--plugin").arg(file);
        }
        if let Some(log) = log {
            command.arg("--log").arg(log.join(&scheme.name));
        }
        command.arg("--").arg(program);
        command
    }

    /// All files that have a part in a result.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let beside = self.alcc.with_file_name("libalcc_preload.so");
        let installed = self
            .alcc
            .parent()
            .map(|p| p.join("../lib/alcc/libalcc_preload.so"));
        let named = std::env::var_os("ALCC_PRELOAD").map(PathBuf::from);
        [
            Some(self.alcc.clone()),
            self.nginx().ok(),
            self.curl().ok(),
            Some(beside),
            installed,
            named,
        ]
        .into_iter()
        .flatten()
        .chain(self.plugins.iter().cloned())
        .collect()
    }
}

pub(crate) fn search(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let more = ["/usr/sbin", "/usr/local/sbin", "/sbin", "target/deps/bin"].map(PathBuf::from);
    std::env::split_paths(&path)
        .chain(more)
        .map(|folder| folder.join(name))
        .find(|file| is_program(file))
        .and_then(|file| std::path::absolute(file).ok())
}

fn is_program(file: &Path) -> bool {
    file.metadata()
        .is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_and_files_are_not() {
        assert!(search("sh").is_some_and(|sh| sh.is_absolute()));
        assert_eq!(search("no-such-program-anywhere"), None);
        assert!(!is_program(Path::new("/etc/passwd")));
        assert!(!is_program(Path::new("/usr")));
    }
}
