//! Compiles every kernels/*.cu ahead of time to cubins for `sm_87` and `sm_90`, and to PTX for what is later.
//! A kernel that spills more than a few registers fails the build. What the compiler makes is kept in target/kernels under
//! a hash of all that went into it, so that builds of every profile and target share it.
//!
//! Without a compiler for them the program is built all the same, and says that it has no kernels when it is to use a GPU.
//! Whoever needs them sets `$GANGLION_NVRTC`, as cross/cargo.sh does: then it is an error. `$GANGLION_ARCHITECTURES` may name some of the
//! architectures, where a binary is for no others; a later one's device then takes the PTX.

mod nvrtc;

use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::{env, fs, io, process, thread};

use flate2::{Compression, write::ZlibEncoder};
use nvrtc::Nvrtc;

const KEPT: &str = "target/kernels";
/// What is kept of each source and architecture.
const KINDS: [&str; 3] = ["cubin", "ptx", "log"];
/// PTX of the first is for all that are later; that of the others would be deflated for nobody, and is kept empty.
const ARCHITECTURES: [&str; 2] = ["sm_87", "sm_90"];
const OPTIONS: &str = "--std=c++17 -default-device -Ikernels --ptxas-options=-v";
/// A value that is spilled once, outside a loop, costs nothing; a loop that spills costs more than this.
const SPILLED_BYTES: usize = 32;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn main() {
    for on in [
        "changed=kernels",
        "env-changed=GANGLION_NVRTC",
        "env-changed=CUDA_HOME",
        "env-changed=GANGLION_ARCHITECTURES",
    ] {
        println!("cargo::rerun-if-{on}");
    }
    let out = env::var_os("OUT_DIR")
        .map(PathBuf::from)
        .unwrap_or_default();
    find_bus();
    if env::var_os("CARGO_FEATURE_CUDA").is_some()
        && let Err(failure) = build(&out)
    {
        for line in failure.to_string().lines() {
            println!("cargo::error={line}");
        }
    }
}

/// Whether the tests that need a message bus are built.
fn find_bus() {
    println!("cargo::rustc-check-cfg=cfg(dbus_daemon)");
    let path = env::var_os("PATH").unwrap_or_default();
    let mut found = env::split_paths(&path).map(|folder| folder.join("dbus-daemon"));
    if found.any(|program| program.exists()) {
        println!("cargo::rustc-cfg=dbus_daemon");
    } else {
        // Where Debian puts it.
        println!("cargo::rerun-if-changed=/usr/bin");
    }
}

fn build(out: &Path) -> Result<()> {
    // A macro reads the parameters' header itself, its comments as documentation.
    let header = fs::read_to_string("kernels/abi.h")?.replace("//", "///");
    fs::write(out.join("abi.rs"), format!("parameters! {{\n{header}\n}}"))?;

    let Some(nvrtc) = &Nvrtc::find()? else {
        println!(
            "cargo::warning=no kernels for a GPU: NVRTC, which compiles them, is neither in $GANGLION_NVRTC nor in a \
             CUDA toolkit nor in target/venv; `make deps` brings it"
        );
        // A path that is not there has this run again each time, until it is.
        for place in ["/usr/local/cuda", "target/venv/lib"] {
            println!("cargo::rerun-if-changed={place}");
        }
        return write_images(out, "", "", 0);
    };
    let kind = |name: &str| name.split_once('.').is_some_and(|(_, kind)| kind == "cu");
    let of = |folder| listed(folder, kind);
    let folders = [
        "kernels",
        "kernels/format",
        "kernels/prompt",
        "kernels/step",
    ];
    let sources: Vec<_> = folders.into_iter().flat_map(of).collect();
    // What was made of sources that are gone is nobody's.
    let image = |name: &str| matches!(name.rsplit_once('.'), Some((_, "cubin" | "ptx")));
    for stale in listed(out, image) {
        fs::remove_file(stale)?;
    }
    let architectures = architectures()?;
    let jobs: Vec<_> = architectures
        .iter()
        .flat_map(|arch| sources.iter().map(move |path| (path, *arch)))
        .collect();
    let next = AtomicUsize::new(0);
    let work = || -> Result<()> {
        while let Some((path, arch)) = jobs.get(next.fetch_add(1, Relaxed)) {
            compile(nvrtc, path, arch, out)?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let mut joined = threads.into_iter().map(thread::ScopedJoinHandle::join);
        joined.try_for_each(|done| done.expect("it does not panic"))
    })?;

    let (mut images, mut resources) = (String::new(), String::new());
    let mut made = DefaultHasher::new();
    for name in &sources {
        let name = name_of(name);
        let log = fs::read_to_string(out.join(format!("{name}.sm_87.log")))?;
        let kernels = log.split("Compiling entry function '").skip(1);
        let kernels: Vec<_> = kernels.filter_map(|rest| rest.split('\'').next()).collect();
        write!(images, "    Image {{ name: {name:?}, kernels: &{kernels:?}")?;
        resources += &log;
        for (field, kind) in [
            ("sm_87", "sm_87.cubin"),
            ("sm_90", "sm_90.cubin"),
            ("ptx_87", "sm_87.ptx"),
        ] {
            let left_out = !architectures.iter().any(|arch| kind.starts_with(arch));
            if left_out {
                write!(images, ", {field}: &[]")?;
                continue;
            }
            write!(images, ", {field}: include_bytes!(\"{name}.{kind}\")")?;
            fs::read(out.join(format!("{name}.{kind}")))?.hash(&mut made);
        }
        images += " },\n";
    }
    write_images(out, &images, &resources, made.finish())
}

/// All, or those that are named and the first, whose PTX serves others.
fn architectures() -> Result<Vec<&'static str>> {
    let named = env::var("GANGLION_ARCHITECTURES").unwrap_or_default();
    if let Some(unknown) = named
        .split_whitespace()
        .find(|name| !ARCHITECTURES.contains(name))
    {
        let all = ARCHITECTURES.join(" ");
        return Err(
            format!("$GANGLION_ARCHITECTURES has {unknown}, which is not one of {all}").into(),
        );
    }
    let wanted = |name: &&str| named.trim().is_empty() || named.contains(*name);
    let others = ARCHITECTURES[1..].iter().copied().filter(wanted);
    Ok([ARCHITECTURES[0]].into_iter().chain(others).collect())
}

/// The table of what was compiled with a hash of it, and what the compiler said of each kernel.
fn write_images(out: &Path, images: &str, resources: &str, hash: u64) -> Result<()> {
    let hash = hash.to_be_bytes();
    let images = format!(
        "static IMAGES: &[Image] = &[\n{images}];\n\
         const IMAGES_HASH: u64 = u64::from_be_bytes({hash:?});\n"
    );
    fs::write(out.join("images.rs"), images)?;
    Ok(fs::write(out.join("resources.txt"), resources)?)
}

/// Three images of each kernel would else be most of the binaries.
fn deflated(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    encoder.finish()
}

fn refuse_spills(log: &str, name: &str) -> Result<()> {
    for kernel in log.split("Compiling entry function '").skip(1) {
        let entry = kernel.split('\'').next().unwrap_or_default();
        let spilled = kernel
            .split_once(" bytes spill stores")
            .and_then(|(before, _)| before.rsplit(' ').next()?.parse::<usize>().ok());
        match spilled {
            Some(bytes) if bytes <= SPILLED_BYTES => {}
            Some(bytes) => {
                return Err(format!(
                    "{name}: {entry} spills {bytes} bytes of registers, more than {SPILLED_BYTES}"
                )
                .into());
            }
            None => {
                return Err(
                    format!("{name}: the compiler does not say what {entry} spills").into(),
                );
            }
        }
    }
    Ok(())
}

/// Of a source in a folder: the folder's, then its own.
fn name_of(source: &Path) -> String {
    let path = source.strip_prefix("kernels").unwrap_or(source);
    path.with_extension("").to_string_lossy().replace('/', "_")
}

/// Puts a source's cubin, PTX and log for one architecture into `out`, compiling it only if it is not kept.
fn compile(nvrtc: &Nvrtc, source: &Path, architecture: &str, out: &Path) -> Result<()> {
    let mut options: Vec<_> = OPTIONS.split_whitespace().map(String::from).collect();
    options.push(format!("--gpu-architecture={architecture}"));
    options.push(format!("-I{}", nvrtc.headers.display()));
    let mut hasher = DefaultHasher::new();
    (&options, "zlib", nvrtc.version()?).hash(&mut hasher);
    digest(source, &mut hasher)?;
    let name = format!("{}.{architecture}", name_of(source));
    let kept = format!("{name}.{:016x}.", hasher.finish());

    // Builds of other checkouts may share the folder, and take away what they call stale.
    let exists = |kind: &str| Path::new(KEPT).join(format!("{kept}{kind}")).exists();
    if !KINDS.into_iter().all(exists) {
        fs::create_dir_all(KEPT)?;
        // Builds for two architectures run side by side: what one of them compiles the other waits for.
        let lock = fs::File::create(format!("{KEPT}/lock.{name}"))?;
        lock.lock()?;
        if !KINDS.into_iter().all(exists) {
            for stale in listed(KEPT, |file| file.starts_with(&format!("{name}."))) {
                fs::remove_file(stale)?;
            }
            keep(nvrtc, source, &options, (&name, &kept))?;
        }
    }
    for kind in KINDS {
        let to = out.join(format!("{name}.{kind}"));
        fs::copy(format!("{KEPT}/{kept}{kind}"), to)?;
    }
    Ok(())
}

/// Compiles a source, and keeps what comes of it.
fn keep(
    nvrtc: &Nvrtc,
    source: &Path,
    options: &[String],
    (name, kept): (&str, &str),
) -> Result<()> {
    let text = fs::read_to_string(source)?;
    let made = nvrtc.compile(source, &text, options)?;
    refuse_spills(&String::from_utf8_lossy(&made.log), name)?;
    let for_later = name.ends_with(ARCHITECTURES[0]);
    let ptx = if for_later { &made.ptx[..] } else { &[] };
    let images = [deflated(&made.cubin)?, deflated(ptx)?, made.log];
    for (kind, bytes) in KINDS.into_iter().zip(images) {
        let part = format!("{KEPT}/{kept}{kind}.{}", process::id());
        fs::write(&part, bytes)?;
        fs::rename(&part, format!("{KEPT}/{kept}{kind}"))?;
    }
    Ok(())
}

/// Hashes a source and all that it includes of kernels/.
fn digest(path: &Path, hasher: &mut DefaultHasher) -> io::Result<()> {
    let text = fs::read_to_string(path)?;
    text.hash(hasher);
    let mut included = text
        .lines()
        .filter_map(|line| line.strip_prefix("#include \"")?.strip_suffix('"'));
    included.try_for_each(|name| digest(&Path::new("kernels").join(name), hasher))
}

/// The files of a folder whose names are wanted, sorted; none where there is no folder.
fn listed(folder: impl AsRef<Path>, wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let wanted = |entry: &fs::DirEntry| entry.file_name().to_str().is_some_and(&wanted);
    let mut paths: Vec<_> = entries.filter(wanted).map(|entry| entry.path()).collect();
    paths.sort();
    paths
}
