//! Models that are refused because memory is short. The error names a context that fits.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ganglion::engine::{ReplaceError, Replaced, State, channel, worker};
use ganglion::load::{
    self, Backend, ControlGroups, KvMemory, LoadError, MemoryRefusal, ServiceGroup, Settings,
    Target, admit,
};
use ganglion::model::Checkpoint;
use ganglion::runner::Runner;

use crate::support::daemon::LIMITS;
use crate::support::tiny_gguf;

/// With no memory limit in the configuration, free memory decides the cache's size: one to four conversations.
#[test]
fn free_memory_decides_the_number_of_pages() {
    let system = System::new();
    let load = |kilobytes: u64| {
        system.has(kilobytes);
        let settings = Settings {
            kv_memory: KvMemory::Auto,
            ..system.settings(512)
        };
        load::runner(&system.checkpoint, &settings, &mut |_, _| {})
    };
    let full = load(1 << 20).expect("there is plenty").memory();
    let others = full.weights + full.activations + (4 << 20);
    // Threads need a little memory of their own.
    let kilobytes = |kv: u64| (others + kv) / 1024 + 64;
    let half = load(kilobytes(full.kv / 2)).expect("for two").memory();
    assert!(
        half.kv > full.kv / 3 && half.kv < full.kv * 2 / 3,
        "{half:?}"
    );
    let one = load(kilobytes(full.kv / 4)).expect("for one").memory();
    assert!(one.kv >= full.kv / 4 && one.kv < full.kv / 3, "{one:?}");
    let Err(LoadError::Memory(MemoryRefusal::Memory { largest, .. })) =
        load(kilobytes(full.kv / 8))
    else {
        panic!("less than one conversation fits");
    };
    assert!((128..512).contains(&largest), "{largest}");
}

/// A simulated system with its own files.
struct System {
    folder: tempfile::TempDir,
    checkpoint: Checkpoint,
}

impl System {
    fn new() -> Self {
        let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/tiny-qwen3");
        Self {
            folder: tempfile::tempdir().expect("a temporary folder"),
            checkpoint: Checkpoint::open(&model).expect("the golden models open"),
        }
    }

    fn meminfo(&self) -> PathBuf {
        self.folder.path().join("meminfo")
    }

    /// Creates a machine without memory figures, until a test adds some.
    fn groups(&self) -> ControlGroups {
        ControlGroups {
            own: self.folder.path().join("cgroup"),
            mounted: self.folder.path().join("groups"),
            service: None,
        }
    }

    /// Puts the process into a control group, and writes files of that group or of a parent.
    fn is_in(&self, line: &str, files: &[(&str, &str)]) {
        let ControlGroups { own, mounted, .. } = self.groups();
        std::fs::write(own, line).expect("it is written");
        let _ = std::fs::remove_dir_all(&mounted);
        for (file, text) in files {
            let file = mounted.join(file);
            let folder = file.parent().expect("it is in a folder");
            std::fs::create_dir_all(folder).expect("it is made");
            std::fs::write(file, text).expect("it is written");
        }
    }

    /// Loads the model with `kilobytes` available, of which 4096 are reserved.
    fn load(&self, kilobytes: u64, context: usize) -> Result<Runner, LoadError> {
        self.has(kilobytes);
        self.load_as_it_is(context)
    }

    fn has(&self, kilobytes: u64) {
        let text = format!(
            "MemTotal:       99999999 kB\nMemFree:           0 kB\nMemAvailable:   {kilobytes} kB\n"
        );
        std::fs::write(self.meminfo(), text).expect("it is written");
    }

    fn load_as_it_is(&self, context: usize) -> Result<Runner, LoadError> {
        load::runner(&self.checkpoint, &self.settings(context), &mut |_, _| {})
    }

    /// Returns the refusal for a service in that group, on a machine with a gigabyte.
    fn refused_to(&self, service: &str, limits: Vec<(&'static str, u64)>) -> String {
        self.has(1 << 20);
        let service = ServiceGroup {
            path: service.into(),
            limits,
        };
        let groups = ControlGroups {
            own: "/proc/self/none".into(),
            service: Some(service),
            ..self.groups()
        };
        let settings = Settings {
            groups: Some(groups),
            ..self.settings(512)
        };
        let admitted = admit(&self.checkpoint, &settings, Target::Cpu);
        admitted.expect_err("it is refused").to_string()
    }

    fn settings(&self, context: usize) -> Settings {
        Settings {
            backend: Backend::Cpu,
            context,
            threads: 2,
            reserve: 4 << 20,
            meminfo: self.meminfo(),
            groups: Some(self.groups()),
            ..Settings::default()
        }
    }
}

#[test]
fn the_largest_context_that_a_refusal_names_is_the_largest_that_is_admitted() {
    let system = System::new();
    let all = system.checkpoint.shape.context;
    let mut refused = 0;
    for kilobytes in (4096..9000).step_by(97) {
        let Err(error) = system.load(kilobytes, all) else {
            continue;
        };
        let LoadError::Memory(MemoryRefusal::Memory {
            estimate, largest, ..
        }) = error
        else {
            panic!("{error}");
        };
        assert!(estimate.bytes() + (4 << 20) > kilobytes << 10);
        if largest > 0 {
            let runner = system.load(kilobytes, largest).expect("the largest fits");
            assert_eq!(runner.context(), largest);
            refused += 1;
        }
        let more = system.load(kilobytes, largest + 1);
        assert!(
            matches!(more, Err(LoadError::Memory(_))),
            "{kilobytes} kB: {largest} is not the largest"
        );
    }
    assert!(refused > 2, "the range covers contexts that fit in part");
}

#[test]
fn the_admitted_memory_is_the_memory_used() {
    let system = System::new();
    let Err(LoadError::Memory(MemoryRefusal::Memory { estimate, .. })) = system.load(4096, 100)
    else {
        panic!("nothing fits in nothing");
    };
    let taken = system.load(1 << 20, 100).expect("it fits").memory();
    assert_eq!((estimate.kv, estimate.states), (taken.kv, 0));
    assert!(estimate.weights >= taken.weights, "{estimate:?}");
    assert!(estimate.activations >= taken.activations, "{estimate:?}");
    let spared = estimate.activations - taken.activations;
    assert!(spared < 64 << 10, "only attention's scores come later");
}

#[test]
fn a_refusal_names_the_memory_and_the_remedy() {
    let system = System::new();
    let error = system.load(4096, 512).expect_err("it is the reserve alone");
    let text = error.to_string();
    let expected = format!(
        "reserve 4) and 4 MiB are available (MemAvailable of {}); no kv.context is small enough: use a smaller \
         quantization",
        system.meminfo().display()
    );
    assert!(text.contains(&expected), "{text}");

    std::fs::write(system.meminfo(), "MemTotal: 1 kB\n").expect("it is written");
    let error = system.load_as_it_is(512).expect_err("nothing is known");
    let text = error.to_string();
    assert!(
        text.contains("it has no MemAvailable; a service must not hide it"),
        "{text}"
    );
}

/// The machine has a gigabyte; the smallest limit of any parent group counts.
#[test]
fn a_control_group_limits_the_memory() {
    let system = System::new();
    let unit = "system.slice/gangliond.service";
    let v2 = format!("0::/{unit}\n");
    let v1 = format!("5:cpu,memory:/{unit}\n1:name=systemd:/{unit}\n");
    let (max, high) = (64 << 20, 9 << 20);
    let number = |bytes: u64| format!("{bytes}\n");
    let current = |taken: u64| (format!("{unit}/memory.current"), number(taken));
    let limit = |file: &str, bytes: u64| (format!("{unit}/{file}"), number(bytes));
    let stat = |text: &str| (format!("{unit}/memory.stat"), text.to_owned());
    let cache = |bytes: u64| stat(&format!("anon 5\ninactive_file {bytes}\n"));
    for (line, files, left, file) in [
        (
            &v2,
            vec![current(60 << 20), limit("memory.max", max)],
            4,
            "memory.max",
        ),
        // The group's page cache can be reclaimed.
        (
            &v2,
            vec![current(63 << 20), limit("memory.max", max), cache(2 << 20)],
            3,
            "memory.max",
        ),
        (
            &v2,
            vec![
                current(5 << 20),
                limit("memory.max", max),
                limit("memory.high", high),
            ],
            4,
            "memory.high",
        ),
        // A slice around the group.
        (
            &v2,
            vec![
                current(1 << 20),
                (format!("{unit}/memory.max"), "max\n".into()),
                ("system.slice/memory.max".into(), number(max)),
                ("system.slice/memory.current".into(), number(63 << 20)),
            ],
            1,
            "memory.max",
        ),
        (
            &v1,
            vec![
                (format!("memory/{unit}/memory.limit_in_bytes"), number(max)),
                (
                    format!("memory/{unit}/memory.usage_in_bytes"),
                    number(62 << 20),
                ),
            ],
            2,
            "memory.limit_in_bytes",
        ),
    ] {
        let files: Vec<_> = files
            .iter()
            .map(|(file, text)| (&**file, &**text))
            .collect();
        system.is_in(line, &files);
        let error = system
            .load(1 << 20, 512)
            .expect_err("it is the reserve alone");
        let text = error.to_string();
        assert_eq!(system.refused_to(unit, vec![]), text, "for every caller");
        let key = if file == "memory.high" {
            "MemoryHigh="
        } else {
            "MemoryMax="
        };
        let names = text.contains(&format!("{file}: raise {key} of that unit"));
        let has = text.contains(&format!(
            "and {left} MiB are left of what its control group"
        ));
        assert!(names && has, "{text}");
    }

    // Unlimited or unreadable values are no limit. If the machine has less memory, that counts.
    let unlimited = [
        (format!("{unit}/memory.max"), "max\n".to_owned()),
        current(1 << 30),
    ];
    let unlimited = unlimited.each_ref().map(|(file, text)| (&**file, &**text));
    for files in [&unlimited[..], &[]] {
        system.is_in(&v2, files);
        system.load(1 << 20, 512).expect("it fits the machine");
    }
    let wide = [limit("memory.max", 1 << 40), current(0)];
    system.is_in(&v2, &wide.each_ref().map(|(file, text)| (&**file, &**text)));
    let text = system
        .load(4096, 512)
        .expect_err("it is the reserve alone")
        .to_string();
    assert!(text.contains("MemAvailable of"), "{text}");
}

#[test]
fn a_stopped_service_has_its_limits() {
    let system = System::new();
    let unit = "system.slice/gangliond.service";
    let stopped = system.refused_to(
        unit,
        vec![("memory.max", 5 << 20), ("memory.high", 7 << 20)],
    );
    let expected = format!(
        "and 5 MiB are left of what its control group may take ({}",
        system.groups().mounted.join(unit).display()
    );
    assert!(stopped.contains(&expected), "{stopped}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_without_memory_for_two_models_says_whether_a_restart_helps() {
    let system = System::new();
    let model = system.folder.path().join("tiny.gguf");
    std::fs::write(&model, tiny_gguf::with_vocabulary().file()).expect("it is written");
    let settings = |context| worker::Settings {
        model: model.clone(),
        chat_template: None,
        runner: system.settings(context),
    };
    system.has(1 << 20);
    let (engine, inbox) = channel(LIMITS);
    let first = settings(512);
    std::thread::spawn(move || worker::run(&inbox, &first));
    let mut status = engine.status();
    let loaded = status.wait_for(|status| status.state == State::Ready).await;
    let held = loaded.expect("the engine lives").memory;
    let held = (held.weights + held.kv + held.activations) >> 10;

    // As large as the loaded model apart from its context: it would fit if the loaded model's memory were free.
    system.has((4 << 10) + held - 1);
    let refused = engine.replace(settings(511), Duration::ZERO).await;
    let Err(error @ ReplaceError::NeedsRestart { .. }) = refused else {
        panic!("{refused:?}");
    };
    let text = error.to_string();
    assert!(text.contains("A restart makes room for it"), "{text}");
    system.has(0);
    let refused = engine.replace(settings(511), Duration::ZERO).await;
    let Err(error @ ReplaceError::Memory(_)) = refused else {
        panic!("{refused:?}");
    };
    let text = error.to_string();
    assert!(text.contains("would not make room for it"), "{text}");
    assert_eq!(engine.status().borrow().model.context, 512);

    // The loaded model needs no further memory.
    let again = engine.replace(settings(512), Duration::ZERO).await;
    assert!(matches!(again, Ok(Replaced::Nothing)), "{again:?}");
    system.has(1 << 20);
    let replaced = engine.replace(settings(511), Duration::ZERO).await;
    assert!(matches!(replaced, Ok(Replaced::Model)), "{replaced:?}");
    assert_eq!(engine.status().borrow().model.context, 511);
    engine.close();
}
