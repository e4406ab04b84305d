//! The compiled kernels in this binary, and the selection of those for a device.

use std::cell::OnceCell;
use std::ffi::CString;
use std::io::Read as _;
use std::rc::Rc;

use flate2::read::ZlibDecoder;

use super::context::Context;
use super::error::Error;
use super::kernel::{Kernel, LaunchOrder};
use super::module::Module;
use super::{Parameters, Result};

/// One compiled source of kernels. The images are deflated (zlib). A binary may have no images for sm_90.
struct Image {
    name: &'static str,
    kernels: &'static [&'static str],
    sm_87: &'static [u8],
    sm_90: &'static [u8],
    ptx_87: &'static [u8],
}

impl Image {
    fn of(&self, kind: Kind) -> &'static [u8] {
        match kind {
            Kind::Sm87 => self.sm_87,
            Kind::Sm90 => self.sm_90,
            Kind::Ptx87 => self.ptx_87,
        }
    }
}

include!(concat!(env!("OUT_DIR"), "/images.rs"));

/// The value `ptx` selects the PTX, which is the Orin's code path, on every device that supports it.
const CHOICE: &str = "GANGLION_CUDA_IMAGE";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Sm87,
    Sm90,
    Ptx87,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Sm87, Self::Sm90, Self::Ptx87];

    /// Chooses among the kinds that were built. The PTX serves a device without a cubin of its own.
    fn of((major, minor): (i32, i32), choice: Option<&str>, built: &[Self]) -> Result<Self> {
        let has = |kind| built.contains(&kind);
        match ((major, minor), choice) {
            (_, Some(value)) if !["ptx", "cubin"].contains(&value) => {
                let value = value.into();
                Err(Error::ImageChoice { value })
            }
            ((8, 7), None | Some("cubin")) if has(Self::Sm87) => Ok(Self::Sm87),
            ((9, 0), None | Some("cubin")) if has(Self::Sm90) => Ok(Self::Sm90),
            (capability, None | Some("ptx")) if capability >= (8, 7) && has(Self::Ptx87) => {
                Ok(Self::Ptx87)
            }
            _ => {
                let names: Vec<_> = built.iter().map(|kind| kind.name()).collect();
                let built = names.join(", ");
                Err(Error::NoImage {
                    major,
                    minor,
                    built,
                })
            }
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Sm87 => "sm_87 cubin",
            Self::Sm90 => "sm_90 cubin",
            Self::Ptx87 => "compute_87 PTX",
        }
    }
}

/// All kernels for one device. A module is loaded when its first kernel is needed.
#[derive(Debug)]
pub struct Modules {
    kind: Kind,
    context: Rc<Context>,
    loaded: Vec<OnceCell<Rc<Module>>>,
}

impl Modules {
    /// Selects images for the device, or by `GANGLION_CUDA_IMAGE`.
    ///
    /// # Errors
    /// If no image fits the device, or if there are none.
    pub fn load(context: &Rc<Context>) -> Result<Self> {
        if IMAGES.is_empty() {
            return Err(Error::NoKernels);
        }
        let choice = std::env::var_os(CHOICE).map(|value| value.to_string_lossy().into_owned());
        let is_built = |kind: &Kind| IMAGES.iter().all(|image| !image.of(*kind).is_empty());
        let built: Vec<_> = Kind::ALL.into_iter().filter(is_built).collect();
        Ok(Self {
            kind: Kind::of(context.properties().capability, choice.as_deref(), &built)?,
            context: Rc::clone(context),
            loaded: IMAGES.iter().map(|_| OnceCell::new()).collect(),
        })
    }

    fn module(&self, at: usize) -> Result<&Rc<Module>> {
        if let Some(module) = self.loaded[at].get() {
            return Ok(module);
        }
        let image = &IMAGES[at];
        let bytes = image.of(self.kind);
        tracing::debug!(
            image = image.name,
            kind = self.kind.name(),
            deflated_bytes = bytes.len(),
            "loading kernels"
        );
        let inflated = inflate(bytes).map_err(|_| Error::DamagedImage { name: image.name })?;
        let module = Module::load(&self.context, &inflated)?;
        Ok(self.loaded[at].get_or_init(|| Rc::new(module)))
    }

    /// A hash of all images. Other kernels may compute other last bits.
    #[must_use]
    pub const fn hash() -> u64 {
        IMAGES_HASH
    }

    /// Whether the driver compiles the images at each start.
    #[must_use]
    pub fn is_ptx(&self) -> bool {
        self.kind == Kind::Ptx87
    }

    /// The name of the loaded image, for people.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        self.kind.name()
    }

    /// Looks up a kernel with a parameter `A`, and allows it `shared` bytes of dynamic shared memory.
    ///
    /// # Errors
    /// If there is no such kernel, if its parameter has another size, if it exceeds the limits of an Orin, or if the
    /// driver refuses it.
    pub fn kernel<A: Parameters>(
        &self,
        name: &str,
        shared: usize,
        order: LaunchOrder,
    ) -> Result<Kernel<A>> {
        let missing = || Error::NoKernel {
            kernel: name.into(),
        };
        let symbol = CString::new(name).map_err(|_| missing())?;
        // Only the module with the kernel is searched, because tools that watch the driver report a failed search as an
        // error.
        let has = |image: &Image| image.kernels.contains(&name);
        let at = IMAGES.iter().position(has).ok_or_else(missing)?;
        let module = self.module(at)?;
        let function = module.function(&symbol)?;
        Kernel::new(function, name, (shared, order), module)
    }
}

fn inflate(deflated: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    ZlibDecoder::new(deflated).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_selected_for_each_device() {
        for (capability, choice, kind) in [
            ((8, 7), None, Some(Kind::Sm87)),
            ((9, 0), None, Some(Kind::Sm90)),
            ((9, 0), Some("cubin"), Some(Kind::Sm90)),
            ((9, 0), Some("ptx"), Some(Kind::Ptx87)),
            ((8, 7), Some("ptx"), Some(Kind::Ptx87)),
            ((8, 9), None, Some(Kind::Ptx87)),
            ((12, 0), None, Some(Kind::Ptx87)),
            ((12, 0), Some("cubin"), None),
            ((8, 6), None, None),
            ((7, 2), Some("ptx"), None),
            ((9, 0), Some("sass"), None),
        ] {
            assert_eq!(
                Kind::of(capability, choice, &Kind::ALL).ok(),
                kind,
                "{capability:?} {choice:?}"
            );
        }
        let orin = |choice| Kind::of((9, 0), choice, &[Kind::Sm87, Kind::Ptx87]).ok();
        assert_eq!(orin(None), Some(Kind::Ptx87));
        assert_eq!(orin(Some("cubin")), None);
        assert_eq!(Kind::of((8, 7), None, &[Kind::Sm90]).ok(), None);
    }

    #[test]
    fn images_match_their_names_and_kernels_have_one_parameter() {
        // A build without a compiler has no images, and reports that.
        for image in IMAGES {
            let made = |cubin: &&[u8]| !cubin.is_empty();
            for cubin in [image.sm_87, image.sm_90].into_iter().filter(made) {
                let cubin = inflate(cubin).expect(image.name);
                assert!(cubin.starts_with(b"\x7fELF"), "{}", image.name);
            }
            if image.ptx_87.is_empty() {
                continue;
            }
            let ptx = inflate(image.ptx_87).expect(image.name);
            let ptx = std::str::from_utf8(&ptx).expect("PTX is text");
            assert!(
                ptx.contains(".target sm_87") && ptx.ends_with('\0'),
                "{}",
                image.name
            );
            let entries: Vec<_> = ptx.split(".entry ").skip(1).collect();
            assert_eq!(entries.len(), image.kernels.len(), "{}", image.name);
            for entry in entries {
                let (name, rest) = entry.split_once('(').expect("a parameter list");
                let list = rest.split(')').next().expect("its end");
                assert!(image.kernels.contains(&name), "{name}");
                assert_eq!(list.matches(".param").count(), 1, "{name} takes {list}");
            }
        }
    }
}
