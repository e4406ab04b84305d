//! The comparison of two executors, CPU against CPU: equal executors pass, each kind of fault is caught, and the
//! reference is right.

mod faulty;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;

use ganglion::check::{Case, Report, World, images, self_test, towers, worlds};
use ganglion::kv::{KvType, KvTypes};
use ganglion::quant::Format;
use ganglion::tape::Op;

use self::faulty::{Fault, Faulty, faults};

/// All worlds of a CPU.
fn all() -> impl Iterator<Item = World> {
    worlds().chain(towers())
}

/// Every fifth case: it includes all operations in a short time.
#[test]
fn equals_are_equal_and_every_fault_is_caught() {
    let mut equal = Report::default();
    let mut caught = BTreeMap::new();
    let mut cases = 0;
    for world in all() {
        cases += world.cases.len();
        let mut reference = world.cpu(2).expect("threads start");
        let mut subject = Faulty::new(world.cpu(2).expect("threads start"));
        // Long prompts and far positions are slow on a CPU, and read the cache in the same way.
        let far = |rows| if rows < 16 { 4096 } else { 256 };
        let quick = |case: &&Case| case.position < far(case.tape.rows);
        for case in world.cases.iter().step_by(5).filter(quick) {
            subject.fault = None;
            world
                .diff_case(case, &mut reference, &mut subject, &mut equal)
                .expect("it runs");
            let faults = faults(case.op());
            let (count, _) = caught.entry(case.op().name()).or_insert((0, faults.len()));
            let fault = faults[*count % faults.len()];
            *count += 1;
            subject.fault = Some(fault);
            let mut report = Report::default();
            world
                .diff_case(case, &mut reference, &mut subject, &mut report)
                .expect("it runs");
            // A refused choice leaves no token to falsify.
            let refused = case.name.contains("NaN") || case.name.contains("inf");
            assert_eq!(
                report.failures().len(),
                usize::from(!refused),
                "{fault:?} in {}",
                case.name
            );
        }
    }
    assert!(equal.failures().is_empty(), "{equal}");
    // Each format has its own cases, and each pair of cache types has some.
    let most = 1050 + 416 + 244 + 47 * Format::ALL.len() + 8 * 12 * KvTypes::MIXED.len();
    assert!((600..=most).contains(&cases), "{cases} cases");
    let all = caught.values().all(|(count, faults)| count >= faults);
    assert!(
        caught.len() == 27 && all,
        "every operation, every fault: {caught:?}"
    );
}

/// Plain loops agree with the rotation, the stored values and the attention of each short case, with prompts that have
/// images, and with vision towers.
#[test]
fn the_reference_turns_and_attends_as_plain_loops_do() {
    let mut report = Report::default();
    let mut kinds = BTreeSet::new();
    for world in all().chain(images()) {
        let mut reference = world.cpu(2).expect("threads start");
        for case in &world.cases {
            let before = report.cases();
            world
                .diff_loops(case, &mut reference, &mut report)
                .expect("it runs");
            if report.cases() > before {
                let kind = case.name.split(", ").skip(4);
                kinds.extend(kind.filter_map(|kind| kind.split(' ').next().map(str::to_owned)));
            }
        }
    }
    assert!(report.failures().is_empty(), "{report}");
    assert!(report.cases() >= 200, "{report}");
    for kind in ["window", "softcap", "sinks", "scale", "queries"] {
        assert!(kinds.contains(kind), "{kind} among {kinds:?}");
    }
}

/// A quantized cache is compared with exact values, so that neither may be off by a step.
#[test]
fn a_quant_or_a_scale_that_is_off_is_caught() {
    let mut cases = 0;
    for world in worlds().filter(|world| world.kv.types.k == KvType::Q8_0) {
        let mut reference = world.cpu(2).expect("threads start");
        let mut subject = Faulty::new(world.cpu(2).expect("threads start"));
        let stores = |case: &&Case| matches!(case.op(), Op::RopeStore { kv: Some(_), .. });
        for case in world.cases.iter().filter(stores) {
            for fault in [Fault::Quant, Fault::Scale] {
                subject.fault = Some(fault);
                let mut report = Report::default();
                world
                    .diff_case(case, &mut reference, &mut subject, &mut report)
                    .expect("it runs");
                let failures = report.failures();
                let found = failures.first().is_some_and(|why| why.contains("cached k"));
                assert!(found, "{fault:?} in {}: {failures:?}", case.name);
                cases += 1;
            }
        }
    }
    assert!(cases >= 40, "{cases} cases");
}

#[test]
fn this_machine_computes_as_it_should() {
    let mut text = Vec::new();
    let right = self_test::run(NonZeroUsize::MIN, &mut text).expect("memory");
    assert!(right, "{}", String::from_utf8_lossy(&text));
}

/// An emulated machine, which has no time for all cases, still runs each operation and each format.
#[test]
fn every_eleventh_case_has_each_operation_and_each_format() {
    let cases = all().flat_map(|world| world.cases);
    let all: Vec<_> = cases.map(|case| (case.op().name(), case.name)).collect();
    let some: Vec<_> = all.iter().skip(10).step_by(11).collect();
    for (operation, _) in &all {
        assert!(some.iter().any(|(of, _)| of == operation), "{operation}");
    }
    for format in Format::ALL {
        let format = format!(" {format:?} ");
        assert!(
            some.iter().any(|(_, name)| name.contains(&format)),
            "{format}"
        );
    }
}
