//! NVIDIA's run-time compiler, opened by path at build time: nothing links to it.

use std::ffi::{CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::{env, ptr};

use libloading::Library;

use crate::{Result, listed};

/// NVRTC's library, and the folder of CUDA's headers.
pub(crate) struct Nvrtc {
    library: Library,
    /// The library's size, which differs between releases of one version.
    pub library_bytes: u64,
    pub headers: PathBuf,
}

/// The output of a compilation.
pub(crate) struct Compiled {
    pub cubin: Vec<u8>,
    /// Ends in a NUL, as the driver requires.
    pub ptx: Vec<u8>,
    /// The report of ptxas on each kernel's registers and memory.
    pub log: Vec<u8>,
}

impl Nvrtc {
    /// Looks for NVRTC in `$GANGLION_NVRTC` if that is set, or else in a CUDA toolkit, then in the Python wheels of
    /// target/venv. The compiler and the headers must have one root, as in cross/deps/nvrtc.sh.
    ///
    /// Returns `None` if it is not found, and an error if the folder of the variable lacks it.
    pub(crate) fn find() -> Result<Option<Self>> {
        let set = env::var_os("GANGLION_NVRTC").filter(|root| !root.is_empty());
        let roots: Vec<PathBuf> = if let Some(root) = &set {
            vec![root.into()]
        } else {
            let toolkit = env::var_os("CUDA_HOME").filter(|root| !root.is_empty());
            let toolkits = toolkit.map(PathBuf::from).into_iter();
            let wheels = listed("target/venv/lib", |_| true).into_iter();
            toolkits
                .chain(["/usr/local/cuda".into()])
                .chain(wheels.map(|python| python.join("site-packages/nvidia")))
                .collect()
        };
        for root in roots {
            let mut parts = listed(root.join("targets"), |_| true);
            parts.extend(["", "cuda_nvrtc", "cuda_runtime"].map(|part| root.join(part)));
            let folders = ["", "lib64", "lib", "include"]
                .map(|name| parts.iter().map(move |part| part.join(name)));
            let folders: Vec<_> = folders.into_iter().flatten().collect();
            let is_library = |name: &str| name.starts_with("libnvrtc.so");
            let library = folders
                .iter()
                .flat_map(|folder| listed(folder, is_library))
                .next();
            let headers = folders
                .iter()
                .find(|folder| folder.join("cuda_fp16.h").is_file());
            if let (Some(library), Some(headers)) = (library, headers) {
                let library_bytes = library.metadata()?.len();
                // SAFETY: NVRTC needs nothing of the process that opens it.
                let library = unsafe { Library::new(library) }?;
                return Ok(Some(Self {
                    library,
                    library_bytes,
                    headers: headers.clone(),
                }));
            }
        }
        if let Some(root) = set {
            let root = root.display();
            return Err(format!(
                "$GANGLION_NVRTC is {root}, which lacks libnvrtc.so or cuda_fp16.h"
            )
            .into());
        }
        Ok(None)
    }

    /// Returns the major and the minor version.
    pub(crate) fn version(&self) -> Result<(c_int, c_int)> {
        type Version = unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;
        let (mut major, mut minor) = (0, 0);
        // SAFETY: nvrtc.h declares it so.
        unsafe { self.symbol::<Version>("nvrtcVersion")?(&raw mut major, &raw mut minor) };
        Ok((major, minor))
    }

    /// Compiles a source; the error is the compiler's log.
    pub(crate) fn compile(
        &self,
        path: &Path,
        source: &str,
        options: &[String],
    ) -> Result<Compiled> {
        type Create = unsafe extern "C" fn(
            *mut *mut c_void,
            *const c_char,
            *const c_char,
            c_int,
            *const c_void,
            *const c_void,
        ) -> c_int;
        type Compile = unsafe extern "C" fn(*mut c_void, c_int, *const *const c_char) -> c_int;
        let name = CString::new(path.to_string_lossy().as_bytes())?;
        let source = CString::new(source)?;
        let options = options.iter().map(|option| CString::new(option.as_str()));
        let options = options.collect::<std::result::Result<Vec<_>, _>>()?;
        let pointers: Vec<_> = options.iter().map(|option| option.as_ptr()).collect();
        // The process ends soon, and frees it.
        let mut program = ptr::null_mut();
        // SAFETY: nvrtc.h declares it so; the strings outlive the call.
        let created = unsafe {
            self.symbol::<Create>("nvrtcCreateProgram")?(
                &raw mut program,
                source.as_ptr(),
                name.as_ptr(),
                0,
                ptr::null(),
                ptr::null(),
            )
        };
        if created != 0 {
            return Err(format!("nvrtcCreateProgram fails with {created}").into());
        }
        let count = c_int::try_from(pointers.len())?;
        // SAFETY: nvrtc.h declares it so; `options` outlives the call.
        let status = unsafe {
            self.symbol::<Compile>("nvrtcCompileProgram")?(program, count, pointers.as_ptr())
        };
        let log = self.text(program, "ProgramLog")?;
        if status != 0 {
            let log = String::from_utf8_lossy(&log);
            return Err(format!("{}:\n{log}", path.display()).into());
        }
        Ok(Compiled {
            cubin: self.text(program, "CUBIN")?,
            ptx: self.text(program, "PTX")?,
            log,
        })
    }

    /// Returns one of a program's outputs. NVRTC has a pair of functions for each.
    fn text(&self, program: *mut c_void, what: &str) -> Result<Vec<u8>> {
        type Size = unsafe extern "C" fn(*mut c_void, *mut usize) -> c_int;
        type Get = unsafe extern "C" fn(*mut c_void, *mut u8) -> c_int;
        let mut size = 0;
        // SAFETY: nvrtc.h declares it so, and `program` was made by it.
        let sized =
            unsafe { self.symbol::<Size>(&format!("nvrtcGet{what}Size"))?(program, &raw mut size) };
        let mut bytes = vec![0; size];
        // SAFETY: nvrtc.h declares it so, and it writes `size` bytes.
        let got =
            unsafe { self.symbol::<Get>(&format!("nvrtcGet{what}"))?(program, bytes.as_mut_ptr()) };
        if (sized, got) == (0, 0) {
            Ok(bytes)
        } else {
            Err(format!("nvrtcGet{what} fails with {got}").into())
        }
    }

    /// Returns a function. The caller gives it the type of nvrtc.h.
    fn symbol<F: Copy>(&self, name: &str) -> Result<F> {
        // SAFETY: `F` is the function's type, which each caller declares next to the call.
        Ok(*unsafe { self.library.get::<F>(name.as_bytes()) }?)
    }
}
