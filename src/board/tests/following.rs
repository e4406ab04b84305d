//! What slows decoding down, as states follow each other; and the energy between moments.

use std::time::{Duration, Instant};

use super::tree::{ORIN_NX, tree, write};
use crate::board::{Cause, Change, EnergyMeter, Processor, Rules, Sensors, Slowing};

const ZONE: &str = "sys/class/thermal/thermal_zone0/temp";
const RULES: Rules = Rules {
    celsius: Some(80),
    rows: 2,
};

/// A board whose files a test changes, and the time that it tells.
struct Board {
    root: tempfile::TempDir,
    slowing: Slowing,
    now: Instant,
}

impl Board {
    fn new() -> Self {
        Self {
            root: tree(ORIN_NX),
            slowing: Slowing::default(),
            now: Instant::now(),
        }
    }

    fn write(&self, path: &str, value: &str) {
        write(self.root.path(), path, value);
    }

    /// Follows the present state, `seconds` after the last one, and returns the changes by name.
    fn follow(&mut self, generated: bool, seconds: u64) -> Vec<String> {
        self.now += Duration::from_secs(seconds);
        let state = Sensors::find(self.root.path()).read();
        let changes = (self.slowing).follow(&state, RULES, Processor::Gpu, generated, self.now);
        let named = changes.into_iter().map(|change| match change {
            Change::Begins { cause, detail } => format!("{}: {detail}", cause.name()),
            Change::Ends { cause, after } => format!("{} ends: {after:?}", cause.name()),
        });
        named.collect()
    }
}

const NOTHING: [&str; 0] = [];

#[test]
fn a_hot_board_is_reported_once_and_cools_down_by_five_degrees() {
    let mut board = Board::new();
    let mut follow = |celsius: &str, generated| {
        board.write(ZONE, celsius);
        let changes = board.follow(generated, 1);
        (board.slowing.is_hot(), changes)
    };
    let cool = (false, Vec::<String>::new());
    assert_eq!(follow("79900", true), cool);
    // It is hot at once, and reported when it matters.
    assert_eq!(follow("80000", false), (true, Vec::new()));
    let reported =
        "heat.celsius: cpu-thermal is at 81 C, and heat.celsius is 80: a step has 2 rows at most";
    assert_eq!(follow("81000", true), (true, vec![reported.to_owned()]));
    for celsius in ["85000", "79000", "75100", "80500"] {
        assert_eq!(follow(celsius, true), (true, Vec::new()), "{celsius}");
    }
    let ends = "heat.celsius ends: 5s".to_owned();
    assert_eq!(follow("74900", false), (false, vec![ends]));
    assert_eq!(follow("79000", true), cool);
    assert_eq!(follow("80000", true).1.len(), 1, "it begins again");
}

#[test]
fn each_cause_is_reported_once_until_it_is_over() {
    const COUNT: &str = "sys/class/hwmon/hwmon4/oc3_event_cnt";
    const ALERT: &str = "sys/class/thermal/cooling_device4/cur_state";
    const CAP: &str = "sys/class/devfreq/17000000.gpu/max_freq";
    let mut board = Board::new();
    assert_eq!(board.follow(true, 1), NOTHING);
    // Another program's load is no concern of this daemon.
    board.write(COUNT, "5");
    assert_eq!(board.follow(false, 1), NOTHING);
    board.write(COUNT, "9");
    assert_eq!(
        board.follow(true, 1),
        ["supply: the supply is too weak (peak_current 4)"]
    );
    board.write(ALERT, "1");
    board.write(CAP, "612000000");
    assert_eq!(
        board.follow(true, 1),
        [
            "heat: the board is slowed down by heat (gpu-throttle-alert)",
            "clock: the clock of the GPU may reach 612 of 918 MHz, in power mode 25W"
        ]
    );
    assert_eq!(
        board.slowing.causes(),
        [Cause::Heat, Cause::Supply, Cause::Clock]
    );
    // Counts that rise every few seconds are one cause.
    for count in 10..20 {
        board.write(COUNT, &count.to_string());
        board.write(ALERT, if count % 2 == 0 { "0" } else { "1" });
        assert_eq!(board.follow(true, 20), NOTHING);
    }
    board.write(ALERT, "0");
    board.write(CAP, "918000000");
    assert_eq!(board.follow(false, 29), NOTHING);
    assert_eq!(
        board.follow(false, 1),
        ["heat ends: 230s", "supply ends: 231s", "clock ends: 230s"]
    );
    assert!(board.slowing.causes().is_empty());
}

#[test]
fn sensors_that_have_gone_end_what_they_showed() {
    let mut board = Board::new();
    board.write(ZONE, "90000");
    assert_eq!(board.follow(true, 1).len(), 1);
    let thermal = board.root.path().join("sys/class/thermal");
    std::fs::remove_dir_all(thermal).expect("it was there");
    assert_eq!(board.follow(true, 1), ["heat.celsius ends: 1s"]);
}

#[test]
fn energy_is_the_integral_of_the_power() {
    let meter = EnergyMeter::default();
    let begin = Instant::now();
    let at = |milliseconds| begin + Duration::from_millis(milliseconds);
    let near = |joules: Option<f64>, expected: f64| {
        assert!(
            joules.is_some_and(|joules| (joules - expected).abs() < 1e-9),
            "{joules:?} is not {expected}"
        );
    };
    let mut mark = meter.mark(at(0));
    assert_eq!(meter.since(&mut mark, at(40)), None, "no sensor");
    // The first power stands for the time before it.
    meter.sample(at(50), 10.0);
    near(meter.since(&mut mark, at(60)), 0.2);
    meter.sample(at(150), 20.0);
    meter.sample(at(250), 20.0);
    // From 60 ms on: a trapezoid of 1.5 J, of which 0.1 J were counted, and two times 2 J.
    near(meter.since(&mut mark, at(350)), 1.4 + 2.0 + 2.0);
    near(meter.total(), 3.5);
    // Nothing is known of the time without samples.
    assert_eq!(meter.since(&mut mark, at(9000)), None);
    meter.sample(at(9500), 5.0);
    near(meter.total(), 3.5);
    near(meter.since(&mut mark, at(9600)), 3.0);
}
