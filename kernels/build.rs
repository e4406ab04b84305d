//! Compiles every kernels/*.cu ahead of time to cubins for `sm_87` and `sm_90`, and to PTX for what is later.
//! A kernel that spills registers fails the build. What the compiler makes is kept in target/kernels under
//! a hash of all that went into it, so that builds of every profile and target share it.

mod nvrtc;

use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::{env, fs, io, process, thread};

use nvrtc::Nvrtc;

const KEPT: &str = "target/kernels";
const OPTIONS: &str = "--std=c++17 -default-device -Ikernels --ptxas-options=-v \
    --ptxas-options=--warn-on-spills --ptxas-options=-Werror";

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn main() {
    for on in [
        "changed=kernels",
        "env-changed=GANGLION_NVRTC",
        "env-changed=CUDA_HOME",
    ] {
        println!("cargo::rerun-if-{on}");
    }
    let out = env::var_os("OUT_DIR")
        .map(PathBuf::from)
        .unwrap_or_default();
    if env::var_os("CARGO_FEATURE_CUDA").is_some()
        && let Err(failure) = build(&out)
    {
        for line in failure.to_string().lines() {
            println!("cargo::error={line}");
        }
    }
}

fn build(out: &Path) -> Result<()> {
    // A macro reads the parameters' header itself, its comments as documentation.
    let header = fs::read_to_string("kernels/abi.h")?.replace("//", "///");
    fs::write(out.join("abi.rs"), format!("parameters! {{\n{header}\n}}"))?;

    let nvrtc = &Nvrtc::find()?;
    let sources = &listed("kernels", |name| {
        name.split_once('.').is_some_and(|(_, kind)| kind == "cu")
    });
    thread::scope(|scope| {
        let all = |arch| (sources.iter()).try_for_each(|path| compile(nvrtc, path, arch, out));
        let threads = ["sm_87", "sm_90"].map(|arch| scope.spawn(move || all(arch)));
        let joined = threads.map(|thread| thread.join().expect("it does not panic"));
        joined.into_iter().collect::<Result<()>>()
    })?;

    let (mut images, mut resources) = (String::new(), String::new());
    for name in sources.iter().filter_map(|path| path.file_stem()?.to_str()) {
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
            write!(images, ", {field}: include_bytes!(\"{name}.{kind}\")")?;
        }
        images += " },\n";
    }
    fs::write(
        out.join("images.rs"),
        format!("static IMAGES: &[Image] = &[\n{images}];\n"),
    )?;
    Ok(fs::write(out.join("resources.txt"), resources)?)
}

/// Puts a source's cubin, PTX and log for one architecture into `out`, compiling it only if it is not kept.
fn compile(nvrtc: &Nvrtc, source: &Path, architecture: &str, out: &Path) -> Result<()> {
    let mut options: Vec<_> = OPTIONS.split_whitespace().map(String::from).collect();
    options.push(format!("--gpu-architecture={architecture}"));
    options.push(format!("-I{}", nvrtc.headers.display()));
    let mut hasher = DefaultHasher::new();
    (&options, nvrtc.version()?).hash(&mut hasher);
    digest(source, &mut hasher)?;
    let name = format!(
        "{}.{architecture}",
        source.file_stem().unwrap_or_default().display()
    );
    let kept = format!("{name}.{:016x}.", hasher.finish());

    // The log is written last: where it is, all are.
    if !Path::new(KEPT).join(format!("{kept}log")).exists() {
        fs::create_dir_all(KEPT)?;
        for stale in listed(KEPT, |file| file.starts_with(&format!("{name}."))) {
            fs::remove_file(stale)?;
        }
        let text = fs::read_to_string(source)?;
        let made = nvrtc.compile(source, &text, &options)?;
        for (kind, bytes) in [("cubin", made.cubin), ("ptx", made.ptx), ("log", made.log)] {
            let part = format!("{KEPT}/{kept}{kind}.{}", process::id());
            fs::write(&part, bytes)?;
            fs::rename(&part, format!("{KEPT}/{kept}{kind}"))?;
        }
    }
    for kind in ["cubin", "ptx", "log"] {
        fs::copy(
            format!("{KEPT}/{kept}{kind}"),
            out.join(format!("{name}.{kind}")),
        )?;
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
