//! Memory for what lives as long as a model: weights, cache, activations.
//!
//! Unified memory is allocated for the CPU, filled, and then attached to one stream: on an Orin the CPU may
//! touch memory that is attached to nothing only while no kernel runs at all. After that the CPU has it
//! only as a borrow of that stream proven idle.

use std::rc::Rc;

use cudarc::driver::sys::{self, CUmemAttach_flags, CUresult, CUstream};

use super::driver::{check, ignore};
use super::{Context, Error, Idle, Memory, Pinned, Plan, Region, Result, Stream};

/// What a plan asked for, allocated.
#[derive(Debug)]
pub struct Arena {
    memory: Memory,
    chunks: Vec<Chunk>,
    /// The one stream that may use unified memory, once it is attached.
    attached: Option<CUstream>,
    _context: Rc<Context>,
}

#[derive(Debug)]
struct Chunk {
    address: u64,
    bytes: usize,
}

/// The beginnings of rows that lie at equal distances from the start of a region on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    /// Bytes from one to the next.
    pub pitch: usize,
    /// Of each.
    pub bytes: usize,
    pub count: usize,
}

/// Through which the CPU fills device memory, piece by piece. Memory is pinned for it on its first use: unified
/// memory is filled in place, in pieces as large, and never needs it.
#[derive(Debug)]
pub struct Staging {
    context: Rc<Context>,
    bytes: usize,
    pinned: Option<Pinned>,
}

impl Staging {
    /// At most this many bytes: few, for a small device also holds them as they are read; enough to keep a disk
    /// and the bus busy.
    pub const BYTES: usize = 8 << 20;

    #[must_use]
    pub fn new(context: &Rc<Context>, bytes: usize) -> Self {
        Self {
            context: Rc::clone(context),
            bytes: bytes.min(Self::BYTES),
            pinned: None,
        }
    }

    fn pinned(&mut self) -> Result<&Pinned> {
        let pinned = match self.pinned.take() {
            Some(pinned) => pinned,
            None => Pinned::new(&self.context, self.bytes)?,
        };
        Ok(self.pinned.insert(pinned))
    }
}

impl Arena {
    /// Allocates all chunks of a plan, or none. Unified memory never exceeds what a discrete device has
    /// free: there it would be moved to and fro, or hang the device.
    ///
    /// # Errors
    /// If there is not enough memory.
    pub fn new(context: &Rc<Context>, memory: Memory, plan: &Plan) -> Result<Self> {
        let need = plan.bytes();
        if !context.properties().integrated {
            let free = context.free_memory()?;
            if need > free {
                return Err(Error::OutOfMemory { need, free });
            }
        }
        let mut arena = Self {
            memory,
            chunks: Vec::new(),
            attached: None,
            _context: Rc::clone(context),
        };
        for &bytes in plan.chunks() {
            let mut address = 0;
            let (call, result) = match memory {
                // SAFETY: the context is current on this thread; `Drop` gives the memory back.
                Memory::Device => ("cuMemAlloc", unsafe {
                    sys::cuMemAlloc_v2(&raw mut address, bytes)
                }),
                Memory::Unified => {
                    let flags = CUmemAttach_flags::CU_MEM_ATTACH_HOST as u32;
                    // SAFETY: as above; the CPU alone may use it until it is attached to a stream.
                    let result = unsafe { sys::cuMemAllocManaged(&raw mut address, bytes, flags) };
                    ("cuMemAllocManaged", result)
                }
            };
            if result == CUresult::CUDA_ERROR_OUT_OF_MEMORY {
                let free = context.free_memory()?;
                return Err(Error::OutOfMemory {
                    need: bytes as u64,
                    free,
                });
            }
            check(call, result)?;
            arena.chunks.push(Chunk { address, bytes });
        }
        Ok(arena)
    }

    #[must_use]
    pub fn memory(&self) -> Memory {
        self.memory
    }

    /// Bytes allocated.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.chunks.iter().map(|chunk| chunk.bytes as u64).sum()
    }

    /// Where a region of this arena's plan lies.
    ///
    /// # Errors
    /// If it is not of this arena's plan.
    pub fn address(&self, region: Region) -> Result<u64> {
        self.chunks
            .get(region.chunk)
            .filter(|chunk| region.offset + region.bytes <= chunk.bytes)
            .map(|chunk| chunk.address + region.offset as u64)
            .ok_or(Error::Bounds {
                bytes: region.bytes,
            })
    }

    /// Gives unified memory over to a stream, once, before any capture of it. No effect on device memory.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn attach(&mut self, stream: &mut Stream) -> Result<()> {
        if self.memory == Memory::Unified && self.attached.is_none() {
            for chunk in &self.chunks {
                let flags = CUmemAttach_flags::CU_MEM_ATTACH_SINGLE as u32;
                // SAFETY: the chunk is managed memory of ours; length 0 stands for all of it.
                let result = unsafe {
                    sys::cuStreamAttachMemAsync(stream.handle(), chunk.address, 0, flags)
                };
                check("cuStreamAttachMemAsync", result)?;
            }
            stream.synchronize()?;
            self.attached = Some(stream.handle());
        }
        Ok(())
    }

    /// A region of unified memory as the CPU sees it, while the stream that may use it is idle.
    ///
    /// # Errors
    /// If the memory is the device's, or is attached to another stream.
    pub fn host<'a>(&'a mut self, region: Region, idle: &'a Idle<'_>) -> Result<&'a mut [u8]> {
        if self.memory == Memory::Device {
            return Err(Error::NotReachable("it is the device's own"));
        }
        if self.attached.is_some_and(|stream| stream != idle.handle()) {
            return Err(Error::NotReachable("it is attached to another stream"));
        }
        let address = self.address(region)?;
        // SAFETY: managed memory has one address on both sides and `address` checked the bounds. No kernel
        // touches it: only the idle stream's may, and `idle` is held. `&mut self` keeps out other slices.
        Ok(unsafe { std::slice::from_raw_parts_mut(address as *mut u8, region.bytes) })
    }

    /// Has `write(offset, piece)` fill a region in pieces, each a multiple of `unit` bytes but for the
    /// last: in place where the memory is unified, else through the staging buffer.
    ///
    /// # Errors
    /// If `write` or the driver fails, or a unit is larger than the staging buffer.
    pub fn fill<E: From<Error>>(
        &mut self,
        region: Region,
        unit: usize,
        (staging, stream): (&mut Staging, &mut Stream),
        mut write: impl FnMut(usize, &mut [u8]) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let piece = staging.bytes / unit.max(1) * unit;
        if piece == 0 {
            return Err(Error::Bounds { bytes: unit }.into());
        }
        let starts = (0..region.bytes).step_by(piece);
        if self.memory == Memory::Unified {
            let idle = stream.idle()?;
            let pieces = self.host(region, &idle)?.chunks_mut(piece);
            return starts
                .zip(pieces)
                .try_for_each(|(at, piece)| write(at, piece));
        }
        let buffer = staging.pinned()?.host();
        for at in starts {
            let bytes = piece.min(region.bytes - at);
            // SAFETY: no larger than the staging buffer, which is borrowed mutably and, since each copy
            // out of it is waited for below, not being read.
            let out = unsafe { std::slice::from_raw_parts_mut(buffer.as_ptr(), bytes) };
            write(at, out)?;
            self.copy_in(region, at, out, stream)?;
        }
        Ok(())
    }

    /// Copies `bytes` to the start of a region.
    ///
    /// # Errors
    /// If they are more than the region, or the driver fails.
    pub fn write(&mut self, region: Region, bytes: &[u8], stream: &mut Stream) -> Result<()> {
        if self.memory == Memory::Unified && self.attached.is_none() {
            let idle = stream.idle()?;
            let host = self.host(region, &idle)?.get_mut(..bytes.len());
            host.ok_or(Error::Bounds { bytes: bytes.len() })?
                .copy_from_slice(bytes);
            return Ok(());
        }
        self.copy_in(region, 0, bytes, stream)
    }

    fn copy_in(&self, region: Region, at: usize, bytes: &[u8], stream: &mut Stream) -> Result<()> {
        if at + bytes.len() > region.bytes {
            return Err(Error::Bounds { bytes: bytes.len() });
        }
        let address = self.address(region)? + at as u64;
        // SAFETY: both sides hold `bytes.len()` bytes, and the copy has ended when this returns.
        let result = unsafe {
            sys::cuMemcpyHtoDAsync_v2(address, bytes.as_ptr().cast(), bytes.len(), stream.handle())
        };
        check("cuMemcpyHtoDAsync", result)?;
        stream.synchronize()
    }

    /// Queues that the start of pinned memory is copied to the start of a region; whoever writes there next waits for the
    /// copy first.
    ///
    /// # Errors
    /// If `bytes` are more than either holds, or the driver refuses.
    pub(super) fn copy_pinned(
        &mut self,
        region: Region,
        pinned: &Pinned,
        bytes: usize,
        stream: &mut Stream,
    ) -> Result<()> {
        if bytes > region.bytes || bytes > pinned.bytes() {
            return Err(Error::Bounds { bytes });
        }
        let address = self.address(region)?;
        // SAFETY: both sides hold `bytes` bytes and are freed by calls that wait for the copy; the mailbox that owns the
        // pinned memory does not write to it before the copy has ended.
        let result = unsafe {
            sys::cuMemcpyHtoDAsync_v2(
                address,
                pinned.host().as_ptr().cast(),
                bytes,
                stream.handle(),
            )
        };
        check("cuMemcpyHtoDAsync", result)
    }

    /// Copies the start of a region to `out`, after all that the stream holds; unified memory must have been
    /// attached.
    ///
    /// # Errors
    /// If `out` is more than the region, or anything queued has failed.
    pub fn read(&self, region: Region, out: &mut [u8], stream: &mut Stream) -> Result<()> {
        if out.len() > region.bytes {
            return Err(Error::Bounds { bytes: out.len() });
        }
        let address = self.address(region)?;
        // SAFETY: both sides hold `out.len()` bytes, and the copy has ended when this returns.
        let result = unsafe {
            sys::cuMemcpyDtoHAsync_v2(out.as_mut_ptr().cast(), address, out.len(), stream.handle())
        };
        check("cuMemcpyDtoHAsync", result)?;
        stream.synchronize()
    }

    /// Queues that the beginnings of a region's rows are copied to another region; unified memory must have been
    /// attached.
    ///
    /// # Errors
    /// If they do not lie in both regions, or the driver refuses.
    pub fn copy(
        &mut self,
        from: Region,
        to: Region,
        rows: Rows,
        stream: &mut Stream,
    ) -> Result<()> {
        let Rows {
            pitch,
            bytes,
            count,
        } = rows;
        let all = pitch * count;
        if bytes > pitch || all > from.bytes || all > to.bytes {
            return Err(Error::Bounds { bytes: all });
        }
        let device = sys::CUmemorytype::CU_MEMORYTYPE_DEVICE;
        let copy = sys::CUDA_MEMCPY2D {
            srcXInBytes: 0,
            srcY: 0,
            srcMemoryType: device,
            srcHost: std::ptr::null(),
            srcDevice: self.address(from)?,
            srcArray: std::ptr::null_mut(),
            srcPitch: pitch,
            dstXInBytes: 0,
            dstY: 0,
            dstMemoryType: device,
            dstHost: std::ptr::null_mut(),
            dstDevice: self.address(to)?,
            dstArray: std::ptr::null_mut(),
            dstPitch: pitch,
            WidthInBytes: bytes,
            Height: count,
        };
        // SAFETY: the bounds of both sides were checked, and the driver copies the description.
        let result = unsafe { sys::cuMemcpy2DAsync_v2(&raw const copy, stream.handle()) };
        check("cuMemcpy2DAsync", result)
    }

    /// Queues that every byte of a region becomes `value`; unified memory must have been attached.
    ///
    /// # Errors
    /// If the driver refuses.
    pub fn set(&mut self, region: Region, value: u8, stream: &mut Stream) -> Result<()> {
        let address = self.address(region)?;
        // SAFETY: `address` checked the bounds.
        let result = unsafe { sys::cuMemsetD8Async(address, value, region.bytes, stream.handle()) };
        check("cuMemsetD8Async", result)
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        for chunk in &self.chunks {
            // SAFETY: it came from the driver, which waits for the work that uses it.
            ignore(unsafe { sys::cuMemFree_v2(chunk.address) });
        }
    }
}
