//! What the sensors of each board show, and that unusable files are absent.

use std::fs;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use super::tree::{AGX_ORIN, ORIN_NANO, ORIN_NX, PC, tree, write};
use crate::board::{BoardState, Clock, PowerMode, Sensors, ThrottleCounts};

fn state(files: &str) -> BoardState {
    Sensors::find(tree(files).path()).read()
}

#[allow(clippy::unnecessary_wraps)] // as the state has it
fn mode(id: u32, name: &str) -> Option<PowerMode> {
    let name = name.to_owned();
    Some(PowerMode { id, name })
}

#[allow(clippy::unnecessary_wraps)] // as the state has it
fn clock(now: u64, cap: u64, highest: u64) -> Option<Clock> {
    let [now, cap, highest] = [now, cap, highest].map(|megahertz| megahertz * 100_000);
    Some(Clock {
        now: Some(now),
        cap,
        highest: Some(highest),
    })
}

#[track_caller]
fn assert_watts(state: &BoardState, watts: f64, rails: &[(&str, f64)]) {
    let near = |one: f64, other: f64| (one - other).abs() < 1e-9;
    assert!(
        state.watts.is_some_and(|shown| near(shown, watts)),
        "{state:?}"
    );
    assert_eq!(state.rails.len(), rails.len(), "{state:?}");
    for (rail, (name, watts)) in state.rails.iter().zip(rails) {
        assert!(rail.name == *name && near(rail.watts, *watts), "{rail:?}");
    }
}

#[test]
fn an_orin_nano_shows_all() {
    let state = state(ORIN_NANO);
    assert_eq!(state.power_mode, mode(0, "15W"));
    assert_eq!(state.gpu, clock(3060, 6120, 10200));
    assert_eq!(state.cpu, clock(11904, 14976, 17280));
    let rails = [
        ("VDD_IN", 7.524),
        ("VDD_CPU_GPU_CV", 3.0096),
        ("VDD_SOC", 1.5024),
    ];
    assert_watts(&state, 7.524, &rails);
    let counts = ThrottleCounts {
        peak_current: 27,
        ..ThrottleCounts::default()
    };
    assert_eq!(state.throttling, Some(counts));
    // Zones of devices that sleep are left out. The alert of a hot surface slows nothing down.
    assert_eq!(state.zones.len(), 6);
    assert_eq!(state.alerts, [""; 0]);
    let hottest = state.hottest().expect("a zone");
    assert_eq!((hottest.number, &*hottest.name), (8, "tj-thermal"));
    assert!((hottest.celsius - 52.25).abs() < 1e-9);
}

#[test]
fn an_orin_nx_has_the_default_mode_until_another_is_set() {
    let state = state(ORIN_NX);
    assert_eq!(state.power_mode, mode(3, "25W"));
    assert_eq!(state.gpu, clock(9180, 9180, 9180));
    assert_eq!(state.watts, Some(19.0));
}

#[test]
fn the_input_of_an_agx_orin_is_the_sum_of_what_it_feeds() {
    let state = state(AGX_ORIN);
    assert_eq!(state.power_mode, mode(0, "MAXN"));
    let rails = [
        ("VDD_GPU_SOC", 6.0),
        ("VDD_CPU_CV", 2.0),
        ("VIN_SYS_5V0", 4.968),
        ("VDDQ_VDD2_1V8AO", 0.9936),
    ];
    assert_watts(&state, 12.968, &rails);
}

#[test]
fn a_pc_shows_temperatures_and_cores() {
    let state = state(PC);
    assert_eq!(
        state.hottest().map(|zone| &*zone.name),
        Some("x86_pkg_temp")
    );
    assert_eq!(state.cpu, clock(8000, 47000, 47000));
    let others = BoardState {
        zones: Vec::new(),
        cpu: None,
        ..state
    };
    assert_eq!(others, BoardState::default());
}

#[test]
fn nothing_shows_nothing() {
    let root = tempfile::tempdir().expect("a folder");
    let nowhere = root.path().join("none");
    let sensors = Sensors::find(&nowhere);
    assert!(!sensors.show_power());
    assert_eq!(sensors.read(), BoardState::default());
}

/// Whatever stands in the place of a file, reading ends and returns nothing of it.
#[test]
fn unusable_files_are_absent() {
    let all = [ORIN_NANO, AGX_ORIN].concat();
    let paths = || all.lines().filter_map(|line| line.split_once(" = "));
    let huge = "7".repeat(1 << 20);
    let garbage = [
        "",
        "\0\0",
        "-",
        "NaN",
        "inf",
        "1e400",
        "nothing",
        "99999999999999999999",
        huge.as_str(),
    ];
    for text in garbage {
        let root = tree(ORIN_NANO);
        for (path, _) in paths() {
            // The names stay, so that the values are read.
            let is_name = ["type", "name"].iter().any(|end| path.ends_with(end));
            if !is_name && !path.ends_with("_label") {
                write(root.path(), path, text);
            }
        }
        let state = Sensors::find(root.path()).read();
        assert_eq!(state, BoardState::default(), "{text:.20}");
    }
    // Values that no board has, and bytes that are no text.
    let root = tree(ORIN_NANO);
    let rail = "sys/class/hwmon/hwmon1/in1_input";
    write(root.path(), rail, "900000000");
    write(
        root.path(),
        "sys/class/thermal/thermal_zone8/temp",
        "-256000000",
    );
    fs::write(root.path().join("etc/nvpmodel.conf"), [0xff; 999]).expect("it is written");
    let sensors = Sensors::find(root.path());
    let state = sensors.read();
    assert_eq!(
        (state.watts, state.rails.len(), state.zones.len()),
        (None, 2, 5)
    );
    assert_eq!(state.power_mode, mode(0, "unknown"));
    // A pipe, a folder, and a file that has gone.
    fs::remove_file(root.path().join(rail)).expect("it was there");
    mkfifo(&root.path().join(rail), Mode::S_IRWXU).expect("a pipe");
    let folder = root.path().join("sys/class/devfreq/17000000.gpu/max_freq");
    fs::remove_file(&folder).expect("it was there");
    fs::create_dir(&folder).expect("a folder");
    fs::remove_dir_all(root.path().join("sys/class/thermal")).expect("it was there");
    let state = sensors.read();
    assert_eq!(
        (state.watts, state.gpu, state.zones),
        (None, None, Vec::new())
    );
    assert_eq!(state.rails.len(), 2);
}
