//! Each operation of the CUDA executor against the CPU executor, on random inputs.

use std::error::Error;
use std::process::ExitCode;
use std::time::Instant;

use ganglion::check::{Report, World, images, large, towers, worlds};
use ganglion::cuda::Device;

/// Runs the cases whose names have all of `wanted`, and prints the worst result of each operation. After `--sms N` they
/// run on a partition with that many multiprocessors, which may select other kernels.
pub(crate) fn run(arguments: &[String]) -> ExitCode {
    let (part, wanted) = match arguments {
        [flag, part, wanted @ ..] if flag == "--sms" => {
            let Ok(part) = part.parse() else {
                println!("--sms {part}: it must be a number");
                return ExitCode::from(2);
            };
            (Some(part), wanted)
        }
        wanted => (None, wanted),
    };
    if let Err(error) = Device::open_part(false, part) {
        return super::not_run(&error);
    }
    let start = Instant::now();
    let mut report = Report::default();
    let all = worlds().chain(towers()).chain(images());
    let all = all.chain(std::iter::once_with(large).flatten());
    for mut world in all {
        world
            .cases
            .retain(|case| wanted.iter().all(|part| case.name.contains(part)));
        if world.cases.is_empty() {
            continue;
        }
        if let Err(error) = compare(&world, part, &mut report) {
            println!("{report}FAILED {error}");
            return ExitCode::FAILURE;
        }
    }
    println!(
        "{report}{} cases in {:.1} s",
        report.cases(),
        start.elapsed().as_secs_f64()
    );
    super::verdict(report.failures().is_empty() && report.cases() > 0)
}

fn compare(world: &World, part: Option<u32>, report: &mut Report) -> Result<(), Box<dyn Error>> {
    let (mut cpu, mut cuda) = (world.cpu(0)?, world.cuda(Device::open_part(false, part)?)?);
    Ok(world.diff(&mut cpu, &mut cuda, report)?)
}
