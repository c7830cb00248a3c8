// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests that load the kernel's controls.

/// The machine is emulated (scripts/test-kernel): what takes how long in it means nothing.
#[allow(dead_code, reason = "not every test measures time")]
pub(crate) fn slow_machine() -> bool {
    std::env::var_os("ALCC_SLOW_MACHINE").is_some()
}

/// The kernel's controls are the whole machine's: one test at a time uses them. Their files are in
/// a folder that only this thread and what it starts can see, so that no other test finds the
/// controls loaded. Root only.
pub(crate) fn controls_alone() -> nix::fcntl::Flock<std::fs::File> {
    use nix::mount::{MsFlags, mount};
    let file = std::fs::File::create(std::env::temp_dir().join("alcc-bpf-tests.lock")).unwrap();
    let lock = nix::fcntl::Flock::lock(file, nix::fcntl::FlockArg::LockExclusive).unwrap();
    let none: Option<&str> = None;
    if nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNS).is_ok() {
        let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
        mount(none, "/", none, private, none).unwrap();
        // Another's files, if there are any, stay where they are for everybody else.
        let _ = nix::mount::umount2("/run/alcc/bpf", nix::mount::MntFlags::MNT_DETACH);
        std::fs::create_dir_all("/run/alcc").unwrap();
        let folder = Some("mode=0755");
        mount(
            Some("none"),
            "/run/alcc",
            Some("tmpfs"),
            MsFlags::empty(),
            folder,
        )
        .unwrap();
    }
    lock
}
