// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Checks of the kernel, its settings, the C library and this user's rights.
use super::{Finding, State};
use crate::library;
use std::ffi::CStr;
use std::fs;

/// Reader of the kernel's files; tests supply their own content.
type Files<'a> = &'a dyn Fn(&str) -> Option<String>;

pub(crate) fn examine() -> Vec<Finding> {
    let read = |path: &str| Some(fs::read_to_string(path).ok()?.trim().to_owned());
    let mut findings = vec![kernel(&read), libc(), preload()];
    findings.extend([bpf(&read), btf(&read), controls(&read), qdisc(&read)]);
    findings.extend([
        notsent_lowat(&read),
        selinux(&read),
        apparmor(&read),
        seccomp(&read),
        http3(&read),
    ]);
    findings
}

/// Version and patch level of `6.1.0-13-amd64`.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn kernel(read: Files<'_>) -> Finding {
    let release = read("/proc/sys/kernel/osrelease").unwrap_or_default();
    let found = format!("Linux {release}");
    match version(&release) {
        Some(version) if version < (4, 19) => Finding::new(
            "kernel",
            State::Stops,
            found,
            "'alcc run' needs 4.19, whose TCP_INFO counts the bytes sent",
        ),
        Some(version) if version < (6, 1) => Finding::new(
            "kernel",
            State::Note,
            found,
            "new enough for 'alcc run'; 'alcc attach' with alcc's own controls needs 6.1",
        ),
        _ => Finding::new(
            "kernel",
            State::Ok,
            found,
            "new enough for 'alcc run' (4.19) and 'alcc attach' (6.1)",
        ),
    }
}

fn libc() -> Finding {
    // SAFETY: returns a constant text.
    let version = unsafe { CStr::from_ptr(nix::libc::gnu_get_libc_version()) };
    Finding::new(
        "glibc",
        State::Ok,
        version.to_string_lossy(),
        "programs of this C library load the preload library; those of musl do not",
    )
}

fn preload() -> Finding {
    match library::find().and_then(|path| library::check(&path).map(|()| path)) {
        Ok(path) => Finding::new(
            "library",
            State::Ok,
            path.display().to_string(),
            "the loader takes it",
        ),
        Err(why) => {
            let found = why.to_string();
            let finding = Finding::new("library", State::Stops, found, "'alcc run' needs it");
            match library::made_by() {
                Some(command) => finding.helped_by(command),
                None => finding,
            }
        }
    }
}

fn bpf(read: Files<'_>) -> Finding {
    const NEEDED: [u32; 3] = [12, 38, 39]; // CAP_NET_ADMIN, CAP_PERFMON, CAP_BPF
    if !cfg!(feature = "bpf") {
        return Finding::new(
            "bpf",
            State::Note,
            "this alcc was built without it",
            "'alcc attach --cc copa' does not work; 'alcc run' does not need it",
        )
        .helped_by("make build");
    }
    let loaded: Vec<_> = alcc_bpf::loaded().iter().map(|c| c.name).collect();
    if !loaded.is_empty() {
        let found = format!("{} loaded", loaded.join(", "));
        return Finding::new("bpf", State::Ok, found, "'alcc attach' can choose them");
    }
    let status = read("/proc/self/status").unwrap_or_default();
    let effective = field(&status, "CapEff:").and_then(|hex| u64::from_str_radix(hex, 16).ok());
    let may = effective.is_some_and(|caps| NEEDED.iter().all(|cap| caps >> cap & 1 == 1));
    let (found, command) = if may {
        ("nothing loaded, this user may", "alcc bpf load")
    } else {
        ("nothing loaded, this user may not", "sudo alcc bpf load")
    };
    let finding = Finding::new(
        "bpf",
        State::Note,
        found,
        "'alcc attach --cc copa' needs it, 'alcc run' does not",
    );
    if has_btf() {
        finding.helped_by(command)
    } else {
        finding
    }
}

/// True if the kernel has BTF, which loading BPF programs requires.
pub(crate) fn has_btf() -> bool {
    fs::exists("/sys/kernel/btf/vmlinux").unwrap_or(false)
}

fn btf(_read: Files<'_>) -> Finding {
    if has_btf() {
        return Finding::new("btf", State::Ok, "there", "BPF programs can be loaded");
    }
    Finding::new(
        "btf",
        State::Note,
        "/sys/kernel/btf/vmlinux is missing",
        "'alcc bpf load' needs a kernel with CONFIG_DEBUG_INFO_BTF, as the distributions build it",
    )
}

fn controls(read: Files<'_>) -> Finding {
    let setting = |name: &str| read(&format!("/proc/sys/net/ipv4/{name}")).unwrap_or_default();
    let all = setting("tcp_available_congestion_control");
    let found = format!("{} (default {})", all, setting("tcp_congestion_control"));
    if all.split_whitespace().any(|name| name == "bbr") {
        let means = "bbr is there: '--under bbr' helps on links with random loss";
        return Finding::new("controls", State::Ok, found, means);
    }
    Finding::new(
        "controls",
        State::Note,
        found,
        "bbr is not loaded: '--under bbr' is refused, which would help on links with random loss",
    )
    .helped_by("sudo modprobe tcp_bbr")
}

fn qdisc(read: Files<'_>) -> Finding {
    let found = read("/proc/sys/net/core/default_qdisc").unwrap_or_else(|| "unknown".to_owned());
    if found == "fq" {
        return Finding::new("qdisc", State::Ok, "default fq", "it paces exactly");
    }
    Finding::new(
        "qdisc",
        State::Note,
        format!("default {found}"),
        "TCP paces by timers of its own; fq does it with less CPU",
    )
    .helped_by("sudo sysctl -w net.core.default_qdisc=fq")
}

fn notsent_lowat(read: Files<'_>) -> Finding {
    let value = read("/proc/sys/net/ipv4/tcp_notsent_lowat").and_then(|v| v.parse::<u32>().ok());
    match value {
        Some(bytes) if bytes <= 256 * 1024 => Finding::new(
            "notsent_lowat",
            State::Ok,
            format!("{bytes} bytes"),
            "the kernel holds little that it has not sent, also for uncontrolled connections",
        ),
        _ => Finding::new(
            "notsent_lowat",
            State::Note,
            value
                .filter(|v| *v != u32::MAX)
                .map_or_else(|| "no limit".to_owned(), |v| format!("{v} bytes")),
            "uncontrolled connections may hold seconds of unsent data in the kernel",
        )
        .helped_by("sudo sysctl -w net.ipv4.tcp_notsent_lowat=16384"),
    }
}

fn selinux(read: Files<'_>) -> Finding {
    match read("/sys/fs/selinux/enforce").as_deref() {
        Some("1") => Finding::new(
            "selinux",
            State::Note,
            "enforcing",
            "where a service changes its domain, the loader ignores LD_PRELOAD: use 'alcc proxy' \
             or 'alcc attach' there",
        )
        .helped_by("sudo ausearch -m avc -c alcc"),
        Some(_) => Finding::new("selinux", State::Ok, "permissive", "it refuses nothing"),
        None => Finding::new("selinux", State::Ok, "not active", "it refuses nothing"),
    }
}

fn apparmor(read: Files<'_>) -> Finding {
    let enabled = read("/sys/module/apparmor/parameters/enabled");
    if enabled.as_deref() != Some("Y") {
        return Finding::new("apparmor", State::Ok, "not active", "it refuses nothing");
    }
    Finding::new(
        "apparmor",
        State::Note,
        "active",
        "a server with a profile needs 'mr' for the preload library and 'rw' for the report in \
         /run/alcc or /tmp/alcc-UID",
    )
    .helped_by("sudo aa-status")
}

fn seccomp(read: Files<'_>) -> Finding {
    let status = read("/proc/self/status").unwrap_or_default();
    match field(&status, "Seccomp:") {
        None | Some("0") => Finding::new(
            "seccomp",
            State::Ok,
            "no filter",
            "no system call is forbidden here",
        ),
        Some(mode) => Finding::new(
            "seccomp",
            State::Note,
            format!("a filter is on (mode {mode})"),
            "a container's default filter is fine; a stricter one may forbid namespaces and BPF",
        ),
    }
}

fn http3(read: Files<'_>) -> Finding {
    let tables = ["/proc/net/udp", "/proc/net/udp6"].map(|path| read(path).unwrap_or_default());
    if tables.iter().any(|table| is_open(table, 443)) {
        return Finding::new(
            "http3",
            State::Note,
            "a program here has UDP port 443 open",
            "HTTP/3 passes alcc by, and the kernel does not count it: compare the server's own log",
        );
    }
    Finding::new(
        "http3",
        State::Ok,
        "UDP port 443 is not open here",
        "no HTTP/3 passes alcc by",
    )
}

/// True if a local address of this table of the kernel has the port.
fn is_open(table: &str, port: u16) -> bool {
    let local = |line: &str| {
        Some(
            line.split_whitespace()
                .nth(1)?
                .rsplit_once(':')?
                .1
                .to_owned(),
        )
    };
    let ports = table.lines().skip(1).filter_map(local);
    let mut ports = ports.filter_map(|hex| u16::from_str_radix(&hex, 16).ok());
    ports.any(|found| found == port)
}

/// The value after a name in a file of lines such as `Seccomp:  2`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines()
        .find_map(|line| line.strip_prefix(name))
        .map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine on which each named file holds this, and no other file is there.
    fn on(files: &[(&str, &str)], look: fn(Files<'_>) -> Finding) -> Finding {
        let files: Vec<_> = files
            .iter()
            .map(|(p, t)| (p.to_string(), t.to_string()))
            .collect();
        look(&|path| {
            files
                .iter()
                .find(|(p, _)| p == path)
                .map(|(_, text)| text.clone())
        })
    }

    #[test]
    fn a_kernel_is_too_old_old_or_new_enough() {
        for (release, state) in [
            ("4.18.0-553.el8_10.x86_64", State::Stops),
            ("4.19.0", State::Note),
            ("5.15.0-130-generic", State::Note),
            ("6.1.0-13-amd64", State::Ok),
            ("6.18", State::Ok),
        ] {
            let found = on(&[("/proc/sys/kernel/osrelease", release)], kernel);
            assert_eq!(found.state, state, "{release}");
        }
    }

    #[test]
    fn settings_that_cost_delay_come_with_the_command_that_helps() {
        const LOWAT: &str = "/proc/sys/net/ipv4/tcp_notsent_lowat";
        let off = on(&[(LOWAT, "4294967295")], notsent_lowat);
        assert_eq!((off.state, off.found.as_str()), (State::Note, "no limit"));
        assert!(
            off.command
                .is_some_and(|c| c.contains("tcp_notsent_lowat=16384"))
        );
        let set = on(&[(LOWAT, "16384")], notsent_lowat);
        assert_eq!((set.state, set.command), (State::Ok, None));
        const ALL: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";
        assert_eq!(on(&[(ALL, "reno cubic")], controls).state, State::Note);
        assert_eq!(on(&[(ALL, "reno bbr cubic")], controls).state, State::Ok);
        const QDISC: &str = "/proc/sys/net/core/default_qdisc";
        assert_eq!(on(&[(QDISC, "fq")], qdisc).state, State::Ok);
        assert_eq!(on(&[(QDISC, "fq_codel")], qdisc).state, State::Note);
    }

    #[test]
    fn what_guards_the_machine_is_said_only_where_it_is_on() {
        let selinux_is = |mode: &str| on(&[("/sys/fs/selinux/enforce", mode)], selinux).state;
        assert_eq!(selinux_is("1"), State::Note);
        assert_eq!(selinux_is("0"), State::Ok);
        assert_eq!(on(&[], selinux).state, State::Ok);
        assert_eq!(on(&[], apparmor).state, State::Ok);
        let armed = [("/sys/module/apparmor/parameters/enabled", "Y")];
        assert_eq!(on(&armed, apparmor).state, State::Note);
        let filtered = [(
            "/proc/self/status",
            "Name:\talcc\nSeccomp:\t2\nSeccomp_filters:\t1",
        )];
        assert_eq!(on(&filtered, seccomp).state, State::Note);
    }

    #[test]
    fn an_open_udp_port_443_is_found() {
        let table = "  sl  local_address rem_address   st\n \
                     21: 00000000:01BB 00000000:0000 07 00000000:00000000\n";
        assert!(is_open(table, 443));
        assert!(!is_open(table, 80));
        assert_eq!(on(&[("/proc/net/udp6", table)], http3).state, State::Note);
        assert_eq!(on(&[], http3).state, State::Ok);
    }
}
