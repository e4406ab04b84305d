//! Compiles the CUDA kernels (`kernels/**/*.cu`) ahead of time: cubins for `sm_87` and `sm_90`. The PTX of `sm_87` serves
//! other GPUs of compute capability 8.7 and higher.
//!
//! The default is one architecture: that of this machine's first GPU, or `sm_87` if there is none or no cubin for it.
//! `$GANGLION_ARCHITECTURES` lists one or both. A kernel that spills more than 32 bytes of registers fails the build.
//!
//! Without NVRTC the build prints a warning, and the binary reports missing kernels when it is to use a GPU. With
//! `$GANGLION_NVRTC` set, a missing NVRTC is an error.

mod build_cache;
mod nvrtc;

use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::{env, fs, io, thread};

use build_cache::BuildCache;
use flate2::{Compression, write::ZlibEncoder};
use nvrtc::Nvrtc;

/// The outputs for each source and architecture. Images are deflated.
const KINDS: [&str; 3] = ["cubin", "ptx", "log"];
/// The PTX of the first serves other GPUs; that of `sm_90` is left empty.
const ARCHITECTURES: [&str; 2] = ["sm_87", "sm_90"];
const OPTIONS: &str = "--std=c++17 -default-device -Ikernels --ptxas-options=-v";
/// The most bytes that a kernel may spill. A single spill outside a loop is cheap; a loop that spills needs more bytes.
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

/// Sets `dbus_daemon`, with which the tests that need a message bus are built.
fn find_bus() {
    println!("cargo::rustc-check-cfg=cfg(dbus_daemon)");
    let path = env::var_os("PATH").unwrap_or_default();
    let mut found = env::split_paths(&path).map(|folder| folder.join("dbus-daemon"));
    if found.any(|program| program.exists()) {
        println!("cargo::rustc-cfg=dbus_daemon");
    } else {
        // Debian installs it there.
        println!("cargo::rerun-if-changed=/usr/bin");
    }
}

fn build(out: &Path) -> Result<()> {
    // The header of the parameters becomes the input of a macro, its comments become documentation.
    let header = fs::read_to_string("kernels/abi.h")?.replace("//", "///");
    fs::write(out.join("abi.rs"), format!("parameters! {{\n{header}\n}}"))?;

    let Some(nvrtc) = &Nvrtc::find()? else {
        println!(
            "cargo::warning=no kernels for a GPU: NVRTC, which compiles them, is neither in $GANGLION_NVRTC nor in a \
             CUDA toolkit nor in target/venv; `make deps` installs it"
        );
        // Cargo runs the build script each time as long as one of these is missing.
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
        "kernels/recurrent",
        "kernels/step",
        "kernels/vision",
    ];
    let sources: Vec<_> = folders.into_iter().flat_map(of).collect();
    // Images of deleted sources.
    let image = |name: &str| matches!(name.rsplit_once('.'), Some((_, "cubin" | "ptx")));
    for stale in listed(out, image) {
        fs::remove_file(stale)?;
    }
    let architectures = architectures()?;
    let cache = BuildCache::open();
    let jobs: Vec<_> = architectures
        .iter()
        .flat_map(|arch| sources.iter().map(move |path| (path, *arch)))
        .collect();
    let next = AtomicUsize::new(0);
    let work = || -> Result<()> {
        while let Some((path, arch)) = jobs.get(next.fetch_add(1, Relaxed)) {
            compile(nvrtc, &cache, path, arch, out)?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let mut joined = threads.into_iter().map(thread::ScopedJoinHandle::join);
        joined.try_for_each(|done| done.expect("it does not panic"))
    })?;
    cache.trim();

    let (mut images, mut resources) = (String::new(), String::new());
    let mut made = DefaultHasher::new();
    for name in &sources {
        let name = name_of(name);
        let log = fs::read_to_string(out.join(format!("{name}.{}.log", architectures[0])))?;
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

/// Returns the architectures of `$GANGLION_ARCHITECTURES`, or that of this machine.
fn architectures() -> Result<Vec<&'static str>> {
    let named = env::var("GANGLION_ARCHITECTURES").unwrap_or_default();
    let mut named: Vec<_> = named.split_whitespace().collect();
    if named.is_empty() {
        named.push(own_architecture());
    }
    if let Some(unknown) = named.iter().find(|name| !ARCHITECTURES.contains(name)) {
        let all = ARCHITECTURES.join(" ");
        return Err(
            format!("$GANGLION_ARCHITECTURES has {unknown}, which is not one of {all}").into(),
        );
    }
    let known = ARCHITECTURES.into_iter();
    Ok(known.filter(|name| named.contains(name)).collect())
}

/// Returns the architecture of this machine's first GPU; `sm_87`, whose PTX suits others, if it has none of these.
fn own_architecture() -> &'static str {
    let query = ["--query-gpu=compute_cap", "--format=csv,noheader"];
    let reported = Command::new("nvidia-smi").args(query).output();
    let reported = reported.map(|output| output.stdout).unwrap_or_default();
    let reported = String::from_utf8_lossy(&reported);
    // A line for each GPU.
    let capability = reported.lines().next().unwrap_or_default();
    let capability = capability.trim().replace('.', "");
    let is_own = |name: &&str| name.strip_prefix("sm_") == Some(&capability);
    let own = ARCHITECTURES.into_iter().find(is_own);
    own.unwrap_or(ARCHITECTURES[0])
}

/// Writes the table of images, a hash of all images, and the compiler's report on each kernel.
fn write_images(out: &Path, images: &str, resources: &str, hash: u64) -> Result<()> {
    let hash = hash.to_be_bytes();
    let images = format!(
        "static IMAGES: &[Image] = &[\n{images}];\n\
         const IMAGES_HASH: u64 = u64::from_be_bytes({hash:?});\n"
    );
    fs::write(out.join("images.rs"), images)?;
    Ok(fs::write(out.join("resources.txt"), resources)?)
}

/// Deflates an image: three of each kernel would otherwise be most of the binaries.
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
                    format!("{name}: the compiler does not report what {entry} spills").into(),
                );
            }
        }
    }
    Ok(())
}

/// Returns the name of a source's images: its path with underscores.
fn name_of(source: &Path) -> String {
    let path = source.strip_prefix("kernels").unwrap_or(source);
    path.with_extension("").to_string_lossy().replace('/', "_")
}

/// Writes a source's cubin, PTX and log for one architecture to `out`, from the cache or from the compiler.
fn compile(
    nvrtc: &Nvrtc,
    cache: &BuildCache,
    source: &Path,
    architecture: &str,
    out: &Path,
) -> Result<()> {
    let mut options: Vec<_> = OPTIONS.split_whitespace().map(String::from).collect();
    options.push(format!("--gpu-architecture={architecture}"));
    options.push(format!("-I{}", nvrtc.headers.display()));
    let mut hasher = DefaultHasher::new();
    (&options, "zlib", nvrtc.version()?, nvrtc.library_bytes).hash(&mut hasher);
    digest(source, &mut hasher)?;
    let name = format!("{}.{architecture}", name_of(source));
    let keys = KINDS.map(|kind| format!("{name}.{:016x}.{kind}", hasher.finish()));

    let cached: Option<Vec<_>> = keys.iter().map(|key| cache.get(key)).collect();
    let outputs = if let Some(cached) = cached {
        cached
    } else {
        let text = fs::read_to_string(source)?;
        let made = nvrtc.compile(source, &text, &options)?;
        refuse_spills(&String::from_utf8_lossy(&made.log), &name)?;
        let for_later = architecture == ARCHITECTURES[0];
        let ptx = if for_later { &made.ptx[..] } else { &[] };
        let outputs = vec![deflated(&made.cubin)?, deflated(ptx)?, made.log];
        for (key, bytes) in keys.iter().zip(&outputs) {
            cache.put(key, bytes);
        }
        outputs
    };
    for (kind, bytes) in KINDS.into_iter().zip(outputs) {
        fs::write(out.join(format!("{name}.{kind}")), bytes)?;
    }
    Ok(())
}

/// Hashes a source and its includes in kernels/.
fn digest(path: &Path, hasher: &mut DefaultHasher) -> io::Result<()> {
    let text = fs::read_to_string(path)?;
    text.hash(hasher);
    let mut included = text
        .lines()
        .filter_map(|line| line.strip_prefix("#include \"")?.strip_suffix('"'));
    included.try_for_each(|name| digest(&Path::new("kernels").join(name), hasher))
}

/// Returns the files of a folder whose names are wanted, sorted. A missing folder has none.
fn listed(folder: impl AsRef<Path>, wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let wanted = |entry: &fs::DirEntry| entry.file_name().to_str().is_some_and(&wanted);
    let mut paths: Vec<_> = entries.filter(wanted).map(|entry| entry.path()).collect();
    paths.sort();
    paths
}
