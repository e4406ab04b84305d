//! The power of the module's rails, from its INA3221 sensors.
//!
//! Orin NX and Orin Nano have a sensor of the module's input (VDD_IN). AGX Orin has none: there the three rails that the
//! input feeds make the sum. A fourth one, VDDQ_VDD2_1V8AO, is a part of VIN_SYS_5V0.

use std::path::PathBuf;

use super::files::Files;

const FOLDER: &str = "sys/class/hwmon";
const CHANNELS: std::ops::RangeInclusive<u32> = 1..=3;
const INPUT: &str = "VDD_IN";
const AGX_INPUT: [&str; 3] = ["VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0"];
/// Millivolts and milliamperes that a board can have.
const PLAUSIBLE: std::ops::RangeInclusive<f64> = -1000.0..=200_000.0;

/// The power of a rail.
#[derive(Clone, Debug, PartialEq)]
pub struct Rail {
    /// The kernel's name of it: "VDD_IN".
    pub name: String,
    pub watts: f64,
}

/// The files of a rail.
#[derive(Clone, Debug)]
pub(super) struct RailSensor {
    name: String,
    millivolts: PathBuf,
    milliamperes: PathBuf,
}

impl RailSensor {
    pub(super) fn find(files: &Files) -> Vec<Self> {
        let monitors = files.numbered(FOLDER, "hwmon").into_iter();
        let monitors = monitors.filter(|(_, path)| {
            let name = files.value(path.join("name"));
            name.is_some_and(|name| name == "ina3221")
        });
        let rails = monitors.flat_map(|(_, path)| {
            let rail = |channel| {
                let name = files.value(path.join(format!("in{channel}_label")))?;
                // A channel that is not connected.
                let is_used = !name.is_empty() && name != "NC";
                is_used.then(|| Self {
                    name,
                    millivolts: path.join(format!("in{channel}_input")),
                    milliamperes: path.join(format!("curr{channel}_input")),
                })
            };
            CHANNELS.filter_map(rail).collect::<Vec<_>>()
        });
        rails.collect()
    }

    pub(super) fn read(&self, files: &Files) -> Option<Rail> {
        let watts = self.watts(files)?;
        let name = self.name.clone();
        Some(Rail { name, watts })
    }

    fn watts(&self, files: &Files) -> Option<f64> {
        let read = |path| {
            let value: f64 = files.number(path)?;
            PLAUSIBLE.contains(&value).then(|| value.max(0.0))
        };
        Some(read(&self.millivolts)? * read(&self.milliamperes)? / 1e6)
    }

    /// Returns those whose sum is the power of the module's input; none if the board has no such sensors.
    pub(super) fn input(rails: &[Self]) -> Vec<Self> {
        let named = |name: &&str| rails.iter().find(|rail| rail.name == **name).cloned();
        if let Some(input) = named(&INPUT) {
            return vec![input];
        }
        let parts: Option<Vec<_>> = AGX_INPUT.iter().map(named).collect();
        parts.unwrap_or_default()
    }

    /// Returns the sum of the power of rails; `None` if there are none, or one of them cannot be read.
    pub(super) fn sum(rails: &[Self], files: &Files) -> Option<f64> {
        let watts = rails.iter().map(|rail| rail.watts(files));
        let watts: Option<Vec<f64>> = watts.collect();
        watts
            .filter(|all| !all.is_empty())
            .map(|all| all.iter().sum())
    }
}
