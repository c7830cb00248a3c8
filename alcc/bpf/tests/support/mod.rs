// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests that load the kernel's controls.

/// True if the machine is emulated (scripts/test-kernel), so that times are not meaningful.
#[allow(dead_code, reason = "not every test measures time")]
pub(crate) fn slow_machine() -> bool {
    std::env::var_os("ALCC_SLOW_MACHINE").is_some()
}

/// Unloads the controls of an earlier run or measurement, because their names would make every test
/// here fail. It does so only on a machine for tests (CI); elsewhere one line says how to do it.
pub(crate) fn give_back_leftovers(may: bool) -> Result<(), String> {
    use std::time::{Duration, Instant};
    const LIST: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let list = std::fs::read_to_string(LIST).unwrap_or_default();
        let ours = |name: &&str| alcc_bpf::controls().any(|c| c.name == *name);
        let names: Vec<_> = list.split_whitespace().filter(ours).collect();
        let names = names.join(", ");
        let here = !alcc_bpf::loaded().is_empty() || !alcc_bpf::futures().is_empty();
        match (here, may) {
            (true, false) => {
                return Err(format!(
                    "an earlier run has left loaded: {names}: give it back: alcc detach; alcc bpf unload"
                ));
            }
            (true, true) => {
                let ended = alcc_bpf::unload().map(drop);
                ended.map_err(|e| format!("give back what an earlier run has left: {e}"))?;
            }
            (false, _) if names.is_empty() => return Ok(()),
            // The kernel ends some registrations a moment after their files, an emulated one later.
            (false, _) if Instant::now() < until => std::thread::sleep(Duration::from_millis(20)),
            (false, _) => {
                let whose = who_sees_the_files();
                return Err(format!(
                    "{names} loaded where this test cannot see it, as these processes can: end them: {whose:?}"
                ));
            }
        }
    }
}

/// Processes, such as a server that a failed test has left, in whose view of the files the controls
/// are pinned.
fn who_sees_the_files() -> Vec<String> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let sees = entries.filter(|entry| {
        let pins = entry.path().join("root/run/alcc-bpf");
        std::fs::read_dir(pins).is_ok_and(|mut pins| pins.next().is_some())
    });
    let names = sees.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.parse::<u32>().is_ok()).collect()
}

/// Exclusive use of the kernel's controls. When it is dropped, nothing stays loaded: otherwise a
/// failed test would make all later ones fail.
pub(crate) struct Alone {
    _lock: nix::fcntl::Flock<std::fs::File>,
}

impl Drop for Alone {
    fn drop(&mut self) {
        let ended = alcc_bpf::unload().map(drop);
        if let Err(error) = ended
            && !alcc_bpf::loaded().is_empty()
        {
            println!("what this test has loaded stays: {error}");
        }
    }
}

/// Names of alcc's controls that the kernel has, whoever loaded them.
#[allow(dead_code, reason = "not every test asks")]
pub(crate) fn registered() -> Vec<String> {
    let list = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    let list = list.unwrap_or_default();
    let ours = list
        .split_whitespace()
        .filter(|name| name.starts_with("alcc_"));
    ours.map(str::to_owned).collect()
}

/// Until it is dropped no other test loads controls.
pub(crate) fn lock() -> nix::fcntl::Flock<std::fs::File> {
    let path = std::env::temp_dir().join("alcc-bpf-tests.lock");
    // It may be another user's.
    let file = std::fs::File::open(&path).or_else(|_| std::fs::File::create(&path));
    let file = file.unwrap();
    nix::fcntl::Flock::lock(file, nix::fcntl::FlockArg::LockExclusive).unwrap()
}

/// The kernel's controls are the whole machine's: one test at a time uses them. Their files are in
/// a folder that only this thread and what it starts can see, so that no other test finds the
/// controls loaded. Root only.
pub(crate) fn controls_alone() -> Alone {
    use nix::mount::{MsFlags, mount};
    let lock = lock();
    let may = std::env::var_os("CI").is_some();
    if let Err(line) = give_back_leftovers(may) {
        panic!("{line}");
    }
    let none: Option<&str> = None;
    if nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNS).is_ok() {
        let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
        mount(none, "/", none, private, none).unwrap();
        // Another's files, if there are any, stay where they are for everybody else.
        let _ = nix::mount::umount2("/run/alcc-bpf", nix::mount::MntFlags::MNT_DETACH);
        std::fs::create_dir_all("/run/alcc-bpf").unwrap();
        let folder = Some("mode=0755");
        mount(
            Some("none"),
            "/run/alcc-bpf",
            Some("tmpfs"),
            MsFlags::empty(),
            folder,
        )
        .unwrap();
    }
    Alone { _lock: lock }
}

/// Hides everything that is loaded from this thread and its children until it is dropped. It must be
/// dropped before [`Alone`], also in a failing test, because hidden controls cannot be unloaded.
#[allow(dead_code, reason = "not every test hides it")]
pub(crate) struct Hidden {
    /// Number of earlier mounts there.
    mounts: usize,
}

#[allow(dead_code, reason = "not every test hides it")]
impl Hidden {
    pub(crate) fn new() -> Self {
        use nix::mount::{MsFlags, mount};
        let mounts = mounts();
        let (kind, mode) = (Some("tmpfs"), Some("mode=0755"));
        mount(Some("none"), "/run/alcc-bpf", kind, MsFlags::empty(), mode).unwrap();
        Self { mounts }
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        // A process that loads meanwhile mounts a separate one.
        for _ in self.mounts..mounts() {
            let _ = nix::mount::umount2("/run/alcc-bpf", nix::mount::MntFlags::MNT_DETACH);
        }
    }
}

#[allow(dead_code, reason = "not every test hides it")]
fn mounts() -> usize {
    let all = std::fs::read_to_string("/proc/thread-self/mountinfo").unwrap_or_default();
    all.lines()
        .filter(|line| line.contains(" /run/alcc-bpf "))
        .count()
}
