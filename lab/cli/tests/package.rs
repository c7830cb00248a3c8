// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `scripts/dist`: what is packed is installed, runs, and is removed without a trace.
#[path = "../../../alcc/cli/tests/support/lacks.rs"]
mod lacks;
#[path = "../../../alcc/cli/tests/support/packed.rs"]
mod packed;

use packed::{built, done, files, packed, root};
use std::path::{Path, PathBuf};
use std::process::Command;

fn has(tool: &str) -> bool {
    Command::new(tool).arg("--version").output().is_ok()
}

/// The test cannot run here: says what it needs.
fn lacks<const N: usize>(tools: [&str; N]) -> bool {
    let missing = tools.into_iter().find(|tool| !has(tool));
    if let Some(tool) = missing {
        println!("skipped: needs {tool}");
    }
    missing.is_some()
}

#[test]
fn a_package_is_the_same_twice_is_installed_and_removed() {
    if lacks(["dpkg-deb", "strip", "objdump", "cc"]) {
        return;
    }
    let place = tempfile::tempdir().expect("a folder");
    let [from, first, second, system] = ["built", "first", "second", "system"].map(|name| {
        let folder = place.path().join(name);
        std::fs::create_dir(&folder).expect("a folder");
        folder
    });
    built(&from);
    let package = packed(&from, &first);
    for (one, other) in package.iter().zip(packed(&from, &second)) {
        let same = std::fs::read(one).expect("a file") == std::fs::read(other).expect("a file");
        assert!(
            same,
            "{} differs from one packing to the next",
            one.display()
        );
    }
    if has("lintian") {
        let mut lintian = Command::new("lintian");
        lintian.args(["--allow-root", "--fail-on", "error,warning"]);
        done(lintian.args(&package[..2]));
    } else {
        println!("skipped: needs lintian");
    }

    removal_gives_back_what_is_loaded(&package[0], place.path());

    // A system of its own, with an empty database. What the package depends on is this machine's.
    for folder in [
        "var/lib/dpkg/updates",
        "var/lib/dpkg/info",
        "var/lib/dpkg/triggers",
    ] {
        std::fs::create_dir_all(system.join(folder)).expect("a folder");
    }
    std::fs::write(system.join("var/lib/dpkg/status"), "").expect("a database");
    let dpkg = |what: &str, which: &Path| {
        let mut dpkg = Command::new("dpkg");
        dpkg.arg(format!("--root={}", system.display()))
            .args(["--force-depends", "--force-not-root", "--force-bad-path"])
            // It has no shell: its scripts are this machine's, which know that.
            .arg("--force-script-chrootless")
            .arg(what)
            .arg(which);
        done(&mut dpkg);
    };
    dpkg("--install", &package[0]);
    dpkg("--install", &package[1]);
    let alcc = system.join("usr/bin/alcc");
    let said = done(Command::new(&alcc).arg("--version")).stdout;
    assert!(said.starts_with(concat!("alcc ", env!("CARGO_PKG_VERSION")).as_bytes()));
    // It finds the library that was installed with it.
    let run = done(Command::new(&alcc).args(["run", "--", "true"]));
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(said.contains("controls accepted TCP connections"), "{said}");
    the_units_start_what_was_installed(&system);
    the_licences_of_others_are_there(&system);
    let said = done(Command::new(system.join("usr/bin/alcc-lab")).arg("--version")).stdout;
    assert!(said.starts_with(concat!("alcc-lab ", env!("CARGO_PKG_VERSION")).as_bytes()));
    dpkg("--purge", Path::new("alcc-lab"));
    // Removed with the package, as its configuration is.
    std::fs::write(system.join("etc/alcc/policy.toml"), "").expect("a policy");
    dpkg("--purge", Path::new("alcc"));
    assert_eq!(files(&system.join("usr")), Vec::<PathBuf>::new());
    assert!(!system.join("etc/alcc").exists());
}

/// Calls of the package's scripts to systemd and to the program, in this order.
fn removal_gives_back_what_is_loaded(package: &Path, place: &Path) {
    let [scripts, programs] = ["scripts", "programs"].map(|name| place.join(name));
    done(
        Command::new("dpkg-deb")
            .arg("--control")
            .arg(package)
            .arg(&scripts),
    );
    std::fs::create_dir(&programs).expect("a folder");
    let log = place.join("asked");
    for name in ["systemctl", "alcc", "umount"] {
        let program = programs.join(name);
        // One that fails does not keep the package from going.
        let text = format!(
            "#!/bin/sh\necho \"{name} $*\" >>{}\nexit 1\n",
            log.display()
        );
        std::fs::write(&program, text).expect("a program");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&program, mode).expect("its rights");
    }
    let path = format!("{}:/usr/bin:/bin", programs.display());
    let asked = |script: &str, what: &str| {
        let _ = std::fs::remove_file(&log);
        let mut script = Command::new(scripts.join(script));
        done(script.arg(what).env("PATH", &path).env_remove("DPKG_ROOT"));
        std::fs::read_to_string(&log).unwrap_or_default()
    };
    assert_eq!(asked("postinst", "configure"), "systemctl daemon-reload\n");
    assert_eq!(asked("prerm", "upgrade"), "");
    assert_eq!(
        asked("prerm", "remove"),
        "systemctl --now disable alcc.service alcc-bpf.service\nalcc policy rollback\nalcc detach\nalcc bpf unload\numount /run/alcc-bpf\n"
    );
    assert_eq!(asked("postrm", "remove"), "systemctl daemon-reload\n");
    assert_eq!(asked("postrm", "upgrade"), "");
}

/// The packages contain the licences of all linked libraries.
fn the_licences_of_others_are_there(system: &Path) {
    let file = system.join("usr/share/doc/alcc/third-party-licences.txt.gz");
    let text = done(Command::new("gzip").arg("-dc").arg(file)).stdout;
    let text = String::from_utf8_lossy(&text);
    for crate_of_others in ["clap", "libc", "ring", "serde_json"] {
        let named = text
            .lines()
            .any(|l| l.starts_with(&format!("{crate_of_others} ")));
        assert!(named, "{crate_of_others}");
    }
    // Sources in C that a crate brings with it.
    let bpf = std::env::var("ALCC_FEATURES").is_ok_and(|features| features.contains("bpf"));
    assert_eq!(text.contains("libbpf-sys "), bpf);
    assert!(text.contains("Permission is hereby granted") && text.contains("BoringSSL"));
}

/// The services, as systemd reads them.
fn the_units_start_what_was_installed(system: &Path) {
    for (name, command, exposure) in [
        ("alcc-bpf", "bpf load", "75"),
        ("alcc", "policy apply", "45"),
    ] {
        the_unit_starts(system, &format!("{name}.service"), command, exposure);
    }
}

/// `exposure`: the limit of systemd's score for it, in tenths.
fn the_unit_starts(system: &Path, name: &str, command: &str, exposure: &str) {
    let unit = system.join("usr/lib/systemd/system").join(name);
    let unit = std::fs::read_to_string(unit).expect("the unit is shipped");
    assert!(
        unit.contains(&format!("\nExecStart=/usr/bin/alcc {command}\n")),
        "{unit}"
    );
    // The program of that system, and no other.
    let here = unit.replace(
        "/usr/bin/alcc",
        &system.join("usr/bin/alcc").to_string_lossy(),
    );
    let copy = system.join(name);
    std::fs::write(&copy, here).expect("a copy");
    let analyze = |words: &[&str]| {
        let mut analyze = Command::new("systemd-analyze");
        analyze.args(words).arg(&copy).output()
    };
    match analyze(&["verify", "--man=no"]) {
        Ok(out) => assert!(
            out.status.success() && out.stderr.is_empty(),
            "{}",
            String::from_utf8_lossy(&out.stderr)
        ),
        Err(_) => println!("skipped: needs systemd-analyze"),
    }
    // Each version has weights of its own; the limits are those of Debian 12's.
    let known = analyze(&["--version"]);
    if known.is_ok_and(|out| out.stdout.starts_with(b"systemd 252")) {
        let threshold = format!("--threshold={exposure}");
        done(
            Command::new("systemd-analyze")
                .args(["security", "--offline=yes", &threshold])
                .arg(&copy),
        );
    } else {
        println!("skipped: needs systemd-analyze of systemd 252");
    }
    std::fs::remove_file(copy).expect("the copy");
}

/// The action: root makes the way to the internet and nothing else, and the job's user's commands stay
/// the user's.
#[test]
fn the_action_runs_commands_as_the_user() {
    let action = root().join("packaging/action/action.yml");
    let action = std::fs::read_to_string(action).expect("the action");
    let (_, script) = action.split_once("      run: |\n").expect("a script");
    let script: String = script
        .lines()
        .map(|l| format!("{}\n", l.trim_start()))
        .collect();
    let place = tempfile::tempdir().expect("a folder");
    for (name, does) in [
        ("id", "echo 1000"),
        ("sudo", "echo sudo; [ \"$1\" = -E ] && shift; exec \"$@\""),
        ("alcc-lab", "printf '%s\\n' \"$@\""),
    ] {
        let program = place.path().join(name);
        std::fs::write(&program, format!("#!/bin/sh\n{does}\n")).expect("a program");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&program, mode).expect("its rights");
    }
    let path = std::env::var("PATH").expect("a path");
    let path = format!("{}:{path}", place.path().display());
    let said = |internet: &str| {
        let mut bash = Command::new("bash");
        bash.args(["-ec", &script]).env("PATH", &path);
        for (name, value) in [
            ("RUN", "true"),
            ("OUTSIDE", "serve 'a b'"),
            ("INTERNET", internet),
            ("ALCC_LAB", "alcc-lab"),
            ("PROFILE", ""),
            ("OPTIONS", ""),
            ("REPORT", ""),
        ] {
            bash.env(name, value);
        }
        String::from_utf8(done(&mut bash).stdout).expect("text")
    };
    let plain = said("false");
    assert!(plain.ends_with("--\nsh\n-ec\ntrue\n"), "{plain}");
    assert!(
        !plain.contains("sudo") && !plain.contains("setpriv"),
        "{plain}"
    );
    let internet = said("true");
    let user = "setpriv\n--reuid=1000\n--regid=1000\n--init-groups\nsh\n-ec\ntrue\n";
    assert!(
        internet.starts_with("sudo\n") && internet.ends_with(user),
        "{internet}"
    );
    let outside = "exec setpriv --reuid=1000 --regid=1000 --init-groups sh -ec \"$OUTSIDE\"\n";
    assert!(internet.contains(outside), "{internet}");
}

/// Every series that an alert asks for is one that the metrics page has.
#[test]
fn alerts_ask_for_series_that_there_are() {
    let rules = root().join("packaging/prometheus-alerts.yml");
    let text = std::fs::read_to_string(&rules).expect("the rules");
    let page = root().join("alcc/cli/src/metrics.rs");
    let page = std::fs::read_to_string(page).expect("the page's source");
    let expressions = text.split("expr:").skip(1);
    let names = expressions.flat_map(|rest| {
        let end = rest.find("labels:").unwrap_or(rest.len());
        let word = |c: char| !c.is_ascii_alphanumeric() && c != '_';
        let words = rest[..end].split(word);
        words
            .filter(|word| word.starts_with("alcc_"))
            .collect::<Vec<_>>()
    });
    let names: Vec<_> = names.collect();
    assert!(names.len() >= 4, "{names:?}");
    for name in names {
        let series = name.trim_end_matches("_bucket");
        assert!(
            page.contains(&format!("\"{series}\"")),
            "no series {series}"
        );
    }
    match Command::new("promtool")
        .args(["check", "rules"])
        .arg(&rules)
        .output()
    {
        Ok(said) => assert!(
            said.status.success(),
            "{}",
            String::from_utf8_lossy(&said.stderr)
        ),
        Err(_) => {
            lacks::lacks("promtool (run scripts/setup test)");
        }
    }
}

/// The moments at which these alerts matter most: nothing is controlled, so there is no series of
/// controlled bytes; and the target is gone, so there is no series at all.
#[test]
fn alerts_fire_when_nothing_is_controlled_and_when_the_target_is_gone() {
    const TEST: &str = r#"
evaluation_interval: 1m
rule_files: [RULES]
tests:
  - interval: 1m
    input_series:
      - {series: 'alcc_build_info{instance="go",job="alcc",version="1"}', values: '1x120'}
      - {series: 'alcc_uncontrolled_bytes_total{instance="go",job="alcc",reason="raw-calls"}', values: '0+100000000x120'}
      - {series: 'alcc_build_info{instance="good",job="alcc",version="1"}', values: '1x120'}
      - {series: 'alcc_uncontrolled_bytes_total{instance="good",job="alcc",reason="loopback"}', values: '0+1000x120'}
      - {series: 'alcc_bytes_total{instance="good",job="alcc",port="443",algorithm="budget"}', values: '0+100000000x120'}
      - {series: 'alcc_build_info{instance="ended",job="alcc",version="1"}', values: '1x30 stale'}
      - {series: 'alcc_build_info{instance="newer",job="alcc",version="1"}', values: '1x30 stale'}
      - {series: 'alcc_build_info{instance="newer",job="alcc",version="2"}', values: '_x30 1x90'}
    alert_rule_test:
      - eval_time: 60m
        alertname: AlccUncontrolled
        exp_alerts: [{exp_labels: {severity: warning, instance: go}, exp_annotations: UNCONTROLLED}]
      - eval_time: 25m
        alertname: AlccGone
        exp_alerts: []
      - eval_time: 60m
        alertname: AlccGone
        exp_alerts: [{exp_labels: {severity: warning, instance: ended, job: alcc}, exp_annotations: GONE}]
    promql_expr_test:
      - {eval_time: 60m, expr: 'SHARE_go', exp_samples: [{value: 1}]}
      - {eval_time: 60m, expr: 'SHARE_ended', exp_samples: []}
"#;
    let rules = root().join("packaging/prometheus-alerts.yml");
    let text = std::fs::read_to_string(&rules).expect("the rules");
    let annotations = |alert: &str, instance: &str| {
        let rule = text.split("- alert: ").find(|rule| rule.starts_with(alert));
        let rule = rule.expect("the alert");
        let value = |key: &str| {
            let rest = rule.split_once(&format!("{key}: ")).expect(key).1;
            let line = rest.lines().next().expect("a line");
            line.replace("{{ $labels.instance }}", instance)
        };
        format!(
            "{{summary: {}, description: {}}}",
            value("summary"),
            value("description")
        )
    };
    let dir = tempfile::tempdir().expect("a folder");
    let test = dir.path().join("test.yml");
    let filled = TEST
        .replace("RULES", &rules.display().to_string())
        .replace("UNCONTROLLED", &annotations("AlccUncontrolled", "go"))
        .replace("GONE", &annotations("AlccGone", "ended"));
    // The dashboard's panel shows the share where nothing at all is controlled, too.
    let share = panel("Uncontrolled share").replace("$__rate_interval", "5m");
    let filled = ["go", "ended"].iter().fold(filled, |text, instance| {
        let of_it = share.replace("$instance", instance);
        text.replace(&format!("SHARE_{instance}"), &of_it)
    });
    std::fs::write(&test, filled).expect("the test");
    match Command::new("promtool")
        .args(["test", "rules"])
        .arg(&test)
        .output()
    {
        Ok(said) => assert!(
            said.status.success(),
            "{}{}",
            String::from_utf8_lossy(&said.stdout),
            String::from_utf8_lossy(&said.stderr)
        ),
        Err(_) => {
            lacks::lacks("promtool (run scripts/setup test)");
        }
    }
}

/// Metadata that crates.io and publishing crate by crate require. The manifests of the pure floor
/// and of the kernel's controls name no repository yet.
#[test]
fn every_crate_can_be_published() {
    let metadata = done(
        Command::new("cargo")
            .args(["metadata", "--no-deps", "--offline", "--format-version=1"])
            .current_dir(root()),
    );
    let metadata: serde_json::Value = serde_json::from_slice(&metadata.stdout).expect("JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    assert!(packages.len() > 25, "{}", packages.len());
    let mut wrong = Vec::new();
    for package in packages {
        let name = package["name"].as_str().expect("a name");
        let keywords = package["keywords"].as_array().expect("a list");
        let fit = |word: &serde_json::Value| word.as_str().is_some_and(|w| w.len() <= 20);
        if !(1..=5).contains(&keywords.len()) || !keywords.iter().all(fit) {
            wrong.push(format!("{name}: keywords"));
        }
        for field in ["description", "license", "repository", "readme"] {
            if package[field].as_str().is_none_or(str::is_empty) {
                wrong.push(format!("{name}: {field}"));
            }
        }
        // A path alone is useless to users who get the crate from a registry.
        for dependency in package["dependencies"].as_array().expect("a list") {
            let dev = dependency["kind"] == "dev";
            if dependency["path"].is_string() && dependency["req"] == "*" && !dev {
                wrong.push(format!("{name}: no version of {}", dependency["name"]));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn dashboard() -> serde_json::Value {
    let text = std::fs::read_to_string(root().join("packaging/grafana-dashboard.json"));
    serde_json::from_str(&text.expect("the dashboard")).expect("JSON")
}

/// The expression of a panel.
fn panel(title: &str) -> String {
    let board = dashboard();
    let mut panels = board["panels"].as_array().expect("panels").iter();
    let panel = panels.find(|panel| panel["title"] == title).expect(title);
    panel["targets"][0]["expr"]
        .as_str()
        .expect("text")
        .to_owned()
}

/// The dashboard has the fields that Grafana requires, and only series that exist.
#[test]
fn the_dashboard_is_one() {
    let board = dashboard();
    for (field, is) in [
        ("title", board["title"].is_string()),
        ("uid", board["uid"].is_string()),
    ] {
        assert!(is, "{field}");
    }
    assert!(
        board["schemaVersion"].as_u64() >= Some(36),
        "{}",
        board["schemaVersion"]
    );
    let variables = board["templating"]["list"].as_array().expect("variables");
    let variables: Vec<_> = variables
        .iter()
        .filter_map(|v| v["name"].as_str())
        .collect();
    let sources = ["metrics.rs", "trial/report.rs"].map(|file| {
        std::fs::read_to_string(root().join("alcc/cli/src").join(file)).expect("a source")
    });
    let panels = board["panels"].as_array().expect("panels");
    let mut taken: Vec<[u64; 4]> = Vec::new();
    for (n, panel) in panels.iter().enumerate() {
        let title = panel["title"].as_str().expect("a title");
        assert_eq!(panel["id"], n + 1, "{title}");
        assert!(
            panel["description"].is_string() && panel["type"].is_string(),
            "{title}"
        );
        let [x, y, w, h] = ["x", "y", "w", "h"].map(|k| panel["gridPos"][k].as_u64().expect(k));
        assert!(
            w > 0 && h > 0 && x + w <= 24,
            "{title} is not on the grid of 24 columns"
        );
        let apart = |&[x2, y2, w2, h2]: &[u64; 4]| {
            x + w <= x2 || x2 + w2 <= x || y + h <= y2 || y2 + h2 <= y
        };
        assert!(taken.iter().all(apart), "{title} lies on another panel");
        taken.push([x, y, w, h]);
        for target in panel["targets"].as_array().expect("targets") {
            let expression = target["expr"].as_str().expect("an expression");
            let of =
                |open, close| expression.matches(open).count() == expression.matches(close).count();
            assert!(of('(', ')') && of('{', '}') && of('[', ']'), "{expression}");
            let word = |c: char| !c.is_ascii_alphanumeric() && c != '_';
            for used in expression.split('$').skip(1) {
                let name = used.split(word).next().unwrap_or_default();
                assert!(
                    name == "__rate_interval" || variables.contains(&name),
                    "{name}"
                );
            }
            let series = expression.split(word).filter(|w| w.starts_with("alcc_"));
            for name in series {
                let name = name.trim_end_matches("_bucket");
                assert!(
                    sources.iter().any(|s| s.contains(&format!("\"{name}\""))),
                    "{name}"
                );
            }
        }
    }
}

#[test]
fn make_install_leaves_out_what_only_debuggers_need() {
    if lacks(["make", "strip", "objdump", "cc"]) {
        return;
    }
    let place = tempfile::tempdir().expect("a folder");
    let [target, staged] = ["target", "staged"].map(|name| place.path().join(name));
    std::fs::create_dir_all(target.join("release")).expect("a folder");
    built(&target.join("release"));
    let mut make = Command::new("make");
    make.args(["install", "PREFIX=/usr"])
        .arg(format!("DESTDIR={}", staged.display()))
        .env("CARGO_TARGET_DIR", &target)
        .current_dir(root());
    done(&mut make);
    let mut with_code = 0;
    for file in files(&staged) {
        // It fails for what is no code.
        let sections = Command::new("objdump").arg("-h").arg(&file).output();
        let sections = String::from_utf8(sections.expect("objdump is there").stdout);
        let sections = sections.expect("plain names");
        with_code += usize::from(sections.contains(".text") && !file.is_symlink());
        assert!(!sections.contains(".debug_line"), "{}", file.display());
    }
    assert_eq!(
        with_code, 5,
        "two programs, preload library, C library, plug-in"
    );
    let alcc = staged.join("usr/bin/alcc");
    let run = done(Command::new(&alcc).args(["run", "--", "true"]));
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(said.contains("controls accepted TCP connections"), "{said}");
}
