//! Memory that lives as long as a model: weights, cache, activations.
//!
//! Unified memory is allocated for the CPU, filled, and then attached to one stream. On an Orin the CPU may access
//! unattached managed memory only while no kernel runs at all. After attachment the CPU gets it only with a proof that
//! the stream is idle.

use std::ops::Range;
use std::rc::Rc;

use cudarc::driver::sys::{self, CUmemAttach_flags, CUresult, CUstream};

use super::Result;
use super::context::Context;
use super::driver::{check, ignore};
use super::error::Error;
use super::pinned::Pinned;
use super::plan::{MemoryKind, Plan, Region};
use super::stream::{Idle, Stream};

/// The allocated memory of a plan.
#[derive(Debug)]
pub struct Arena {
    memory: MemoryKind,
    chunks: Vec<Chunk>,
    /// The only stream that may use unified memory, after it was attached.
    attached: Option<CUstream>,
    context: Rc<Context>,
}

#[derive(Debug)]
struct Chunk {
    /// `None` after release.
    address: Option<u64>,
    bytes: usize,
}

/// The beginnings of rows at equal distances, from the start of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowSpans {
    /// Bytes from one row to the next.
    pub pitch: usize,
    /// Bytes of each beginning.
    pub bytes: usize,
    pub count: usize,
}

impl Arena {
    /// Allocates all chunks of a plan, or none. Unified memory never exceeds the free memory of a discrete device,
    /// which would otherwise move it repeatedly, or hang.
    pub fn new(context: &Rc<Context>, memory: MemoryKind, plan: &Plan) -> Result<Self> {
        ensure_free(context, plan.bytes())?;
        let mut arena = Self {
            memory,
            chunks: Vec::new(),
            attached: None,
            context: Rc::clone(context),
        };
        for &bytes in plan.chunks() {
            let address = Some(allocate(context, memory, bytes)?);
            arena.chunks.push(Chunk { address, bytes });
        }
        Ok(arena)
    }

    /// Releases the chunk of a region. Its regions have no address until `allocate`, and no recording may contain one
    /// of their addresses.
    ///
    /// # Errors
    /// If the stream is not the one that uses the memory, or the driver fails.
    pub fn release(&mut self, region: Region, idle: &Idle<'_>) -> Result<()> {
        if self.attached.is_some_and(|stream| stream != idle.handle()) {
            return Err(Error::NotReachable("it is attached to another stream"));
        }
        let chunk = self.chunks.get_mut(region.chunk);
        let address = chunk.and_then(|chunk| chunk.address.take());
        let Some(address) = address else {
            return Ok(());
        };
        // Launched work does not use it, because the stream is idle. Later launches cannot, because `address` returns
        // an error for it.
        check("cuMemFree", free(address))
    }

    /// Allocates the chunk of a region again, if it was released.
    pub fn allocate(&mut self, region: Region, stream: &mut Stream) -> Result<()> {
        let Some(chunk) = self.chunks.get_mut(region.chunk) else {
            return Err(Error::Bounds {
                bytes: region.bytes,
            });
        };
        if chunk.address.is_some() {
            return Ok(());
        }
        ensure_free(&self.context, chunk.bytes as u64)?;
        let address = allocate(&self.context, self.memory, chunk.bytes)?;
        let attached = match self.attached {
            Some(_) => attach(address, stream).and_then(|()| stream.synchronize()),
            None => Ok(()),
        };
        match attached {
            Ok(()) => chunk.address = Some(address),
            Err(_) => ignore(free(address)),
        }
        attached
    }

    #[must_use]
    pub fn memory(&self) -> MemoryKind {
        self.memory
    }

    /// Bytes of all chunks, including released ones.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.chunks.iter().map(|chunk| chunk.bytes as u64).sum()
    }

    /// The address of a region.
    ///
    /// # Errors
    /// If it does not belong to this arena's plan, or was released.
    pub fn address(&self, region: Region) -> Result<u64> {
        self.chunks
            .get(region.chunk)
            .filter(|chunk| region.offset + region.bytes <= chunk.bytes)
            .and_then(|chunk| Some(chunk.address? + region.offset as u64))
            .ok_or(Error::Bounds {
                bytes: region.bytes,
            })
    }

    /// Attaches unified memory to a stream, once, before any capture of the stream. It has no effect on device memory.
    pub fn attach(&mut self, stream: &mut Stream) -> Result<()> {
        if self.memory == MemoryKind::Unified && self.attached.is_none() {
            for address in self.chunks.iter().filter_map(|chunk| chunk.address) {
                attach(address, stream)?;
            }
            stream.synchronize()?;
            self.attached = Some(stream.handle());
        }
        Ok(())
    }

    /// A region of unified memory for the CPU, while the stream that may use it is idle.
    ///
    /// # Errors
    /// If the memory is the device's, or is attached to another stream.
    pub fn host<'a>(&'a mut self, region: Region, idle: &'a Idle<'_>) -> Result<&'a mut [u8]> {
        self.reachable(idle)?;
        let address = self.address(region)?;
        // SAFETY: managed memory has one address on both sides and `address` checked the bounds. No kernel accesses it:
        // only the idle stream's may, and `idle` is held. `&mut self` excludes other slices.
        Ok(unsafe { std::slice::from_raw_parts_mut(address as *mut u8, region.bytes) })
    }

    /// Several regions of unified memory for the CPU, in the order of their plan, so that threads can share them.
    ///
    /// # Errors
    /// As `host`, or if a region does not follow the one before it.
    pub fn hosts<'a>(
        &'a mut self,
        regions: &[Region],
        idle: &'a Idle<'_>,
    ) -> Result<Vec<&'a mut [u8]>> {
        self.reachable(idle)?;
        let mut behind = (0, 0);
        let mut hosts = Vec::with_capacity(regions.len());
        for region in regions {
            if (region.chunk, region.offset) < behind {
                let bytes = region.bytes;
                return Err(Error::Bounds { bytes });
            }
            behind = (region.chunk, region.offset + region.bytes);
            let address = self.address(*region)?;
            // SAFETY: as in `host`. The slices do not overlap, because each begins after the end of those before it.
            hosts.push(unsafe { std::slice::from_raw_parts_mut(address as *mut u8, region.bytes) });
        }
        Ok(hosts)
    }

    /// Whether the CPU may access unified memory: it is attached to no stream but the idle one.
    fn reachable(&self, idle: &Idle<'_>) -> Result<()> {
        if self.memory == MemoryKind::Device {
            return Err(Error::NotReachable("it is the device's own"));
        }
        if self.attached.is_some_and(|stream| stream != idle.handle()) {
            return Err(Error::NotReachable("it is attached to another stream"));
        }
        Ok(())
    }

    /// Copies `bytes` to the start of a region.
    ///
    /// # Errors
    /// If they exceed the region, or the driver fails.
    pub fn write(&mut self, region: Region, bytes: &[u8], stream: &mut Stream) -> Result<()> {
        if self.memory == MemoryKind::Unified && self.attached.is_none() {
            let idle = stream.idle()?;
            let host = self.host(region, &idle)?.get_mut(..bytes.len());
            host.ok_or(Error::Bounds { bytes: bytes.len() })?
                .copy_from_slice(bytes);
            return Ok(());
        }
        self.write_at(region, 0, bytes, stream)
    }

    /// Copies `bytes` into a region at offset `at`, and waits for the copy. Unified memory must have been attached.
    ///
    /// # Errors
    /// If they exceed the region, or the driver fails.
    pub fn write_at(
        &mut self,
        region: Region,
        at: usize,
        bytes: &[u8],
        stream: &mut Stream,
    ) -> Result<()> {
        if at + bytes.len() > region.bytes {
            return Err(Error::Bounds { bytes: bytes.len() });
        }
        let address = self.address(region)? + at as u64;
        if bytes.is_empty() {
            return Ok(());
        }
        // SAFETY: both sides have `bytes.len()` bytes, and the copy has ended when the call returns.
        let result = unsafe {
            sys::cuMemcpyHtoDAsync_v2(address, bytes.as_ptr().cast(), bytes.len(), stream.handle())
        };
        check("cuMemcpyHtoDAsync", result)?;
        stream.synchronize()
    }

    /// Queues a copy from pinned memory to the same offsets of a region. The next writer of the pinned memory has to
    /// wait for the copy.
    ///
    /// # Errors
    /// If the range exceeds either side, or the driver refuses.
    pub(super) fn copy_pinned(
        &mut self,
        region: Region,
        pinned: &Pinned,
        bytes: Range<usize>,
        stream: &mut Stream,
    ) -> Result<()> {
        if bytes.end > region.bytes || bytes.end > pinned.bytes() {
            return Err(Error::Bounds { bytes: bytes.end });
        }
        let (at, bytes) = (bytes.start, bytes.len());
        let address = self.address(region)? + at as u64;
        // SAFETY: `at` is within the memory, as checked above.
        let from = unsafe { pinned.host().as_ptr().add(at) };
        // SAFETY: both sides have `bytes` bytes from `at` on and are freed by calls that wait for the copy. The mailbox
        // that owns the pinned memory does not write to it before the copy has ended.
        let result =
            unsafe { sys::cuMemcpyHtoDAsync_v2(address, from.cast(), bytes, stream.handle()) };
        check("cuMemcpyHtoDAsync", result)
    }

    /// Queues a copy of a region to pinned memory at offset `at`. The content is valid after the copy has ended.
    ///
    /// # Errors
    /// If the region exceeds `most` bytes or the memory, or the driver refuses.
    pub(super) fn copy_to_pinned(
        &self,
        region: Region,
        (pinned, at): (&mut Pinned, usize),
        most: usize,
        stream: &mut Stream,
    ) -> Result<()> {
        let (address, host) = self.endpoints(region, (pinned, at), most)?;
        // SAFETY: both sides have this many bytes and are freed by calls that wait for the copy. The ring that owns the
        // pinned memory does not access them before the copy has ended.
        let result = unsafe {
            sys::cuMemcpyDtoHAsync_v2(host.cast(), address, region.bytes, stream.handle())
        };
        check("cuMemcpyDtoHAsync", result)
    }

    /// Queues a copy from pinned memory at offset `at` to a region. The pinned memory must not be written before the
    /// copy has ended.
    pub(super) fn copy_from_pinned(
        &mut self,
        region: Region,
        (pinned, at): (&Pinned, usize),
        most: usize,
        stream: &mut Stream,
    ) -> Result<()> {
        let (address, host) = self.endpoints(region, (pinned, at), most)?;
        // SAFETY: as in `copy_to_pinned`.
        let result = unsafe {
            sys::cuMemcpyHtoDAsync_v2(address, host.cast(), region.bytes, stream.handle())
        };
        check("cuMemcpyHtoDAsync", result)
    }

    /// Queues a copy of rows, which follow one another in pinned memory from `begin` on, into a region at offset `at`.
    /// The pinned memory must not be written before the copy has ended.
    ///
    /// # Errors
    /// If the rows exceed either side, or the driver refuses.
    pub(super) fn copy_rows(
        &mut self,
        (region, at): (Region, usize),
        (pinned, begin): (&Pinned, usize),
        rows: RowSpans,
        stream: &mut Stream,
    ) -> Result<()> {
        let RowSpans {
            pitch,
            bytes,
            count,
        } = rows;
        let end = at + pitch * count.saturating_sub(1) + bytes;
        if bytes > pitch || end > region.bytes || begin + bytes * count > pinned.bytes() {
            return Err(Error::Bounds { bytes: end });
        }
        // SAFETY: the rows begin within the memory, as checked above.
        let from = unsafe { pinned.host().as_ptr().add(begin) };
        let copy = sys::CUDA_MEMCPY2D {
            srcXInBytes: 0,
            srcY: 0,
            srcMemoryType: sys::CUmemorytype::CU_MEMORYTYPE_HOST,
            srcHost: from.cast(),
            srcDevice: 0,
            srcArray: std::ptr::null_mut(),
            srcPitch: bytes,
            dstXInBytes: 0,
            dstY: 0,
            dstMemoryType: sys::CUmemorytype::CU_MEMORYTYPE_DEVICE,
            dstHost: std::ptr::null_mut(),
            dstDevice: self.address(region)? + at as u64,
            dstArray: std::ptr::null_mut(),
            dstPitch: pitch,
            WidthInBytes: bytes,
            Height: count,
        };
        // SAFETY: the bounds of both sides were checked, and the driver copies the description. The rows stay as they
        // are until the copy has ended, and are freed by a call that waits for it.
        let result = unsafe { sys::cuMemcpy2DAsync_v2(&raw const copy, stream.handle()) };
        check("cuMemcpy2DAsync", result)
    }

    /// The address of a region, and that of pinned memory with as many bytes.
    fn endpoints(
        &self,
        region: Region,
        (pinned, at): (&Pinned, usize),
        most: usize,
    ) -> Result<(u64, *mut u8)> {
        let bytes = region.bytes;
        if bytes > most || at + bytes > pinned.bytes() {
            return Err(Error::Bounds { bytes });
        }
        // SAFETY: `at` is within the memory, as checked above.
        let host = unsafe { pinned.host().as_ptr().add(at) };
        Ok((self.address(region)?, host))
    }

    /// Copies the start of a region to `out`, after all work on the stream. Unified memory must have been attached.
    ///
    /// # Errors
    /// If `out` exceeds the region, or queued work has failed.
    pub fn read(&self, region: Region, out: &mut [u8], stream: &mut Stream) -> Result<()> {
        if out.len() > region.bytes {
            return Err(Error::Bounds { bytes: out.len() });
        }
        let address = self.address(region)?;
        // SAFETY: both sides have `out.len()` bytes, and the copy has ended when the call returns.
        let result = unsafe {
            sys::cuMemcpyDtoHAsync_v2(out.as_mut_ptr().cast(), address, out.len(), stream.handle())
        };
        check("cuMemcpyDtoHAsync", result)?;
        stream.synchronize()
    }

    /// Queues a copy of the beginnings of rows between regions. Unified memory must have been attached.
    ///
    /// # Errors
    /// If the rows exceed either region, or the driver refuses.
    pub fn copy(
        &mut self,
        from: Region,
        to: Region,
        rows: RowSpans,
        stream: &mut Stream,
    ) -> Result<()> {
        let RowSpans {
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

    /// Queues setting every byte of a region to `value`. Unified memory must have been attached.
    pub fn set(&mut self, region: Region, value: u8, stream: &mut Stream) -> Result<()> {
        let address = self.address(region)?;
        if region.bytes == 0 {
            return Ok(());
        }
        // SAFETY: `address` checked the bounds.
        let result = unsafe { sys::cuMemsetD8Async(address, value, region.bytes, stream.handle()) };
        check("cuMemsetD8Async", result)
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        for address in self.chunks.iter().filter_map(|chunk| chunk.address) {
            ignore(free(address));
        }
    }
}

/// Checks that a discrete device has enough free memory. Unified memory could exceed it: see `Arena::new`.
fn ensure_free(context: &Context, need: u64) -> Result<()> {
    if !context.properties().integrated {
        let free = context.free_memory()?;
        if need > free {
            return Err(Error::OutOfMemory { need, free });
        }
    }
    Ok(())
}

/// Allocates a chunk, which the caller frees. Only the CPU may use unified memory before it is attached to a stream.
fn allocate(context: &Context, memory: MemoryKind, bytes: usize) -> Result<u64> {
    let mut address = 0;
    let (call, result) = match memory {
        // SAFETY: the context is current on this thread, and the driver writes the address.
        MemoryKind::Device => ("cuMemAlloc", unsafe {
            sys::cuMemAlloc_v2(&raw mut address, bytes)
        }),
        MemoryKind::Unified => {
            let flags = CUmemAttach_flags::CU_MEM_ATTACH_HOST as u32;
            // SAFETY: as above.
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
    Ok(address)
}

/// Frees a chunk whose addresses are no longer used.
fn free(address: u64) -> CUresult {
    // SAFETY: it came from `allocate`, and its owner has given it up. The driver waits for the work that uses it.
    unsafe { sys::cuMemFree_v2(address) }
}

/// Queues the attachment of managed memory to a stream.
fn attach(address: u64, stream: &mut Stream) -> Result<()> {
    let flags = CUmemAttach_flags::CU_MEM_ATTACH_SINGLE as u32;
    // SAFETY: it is the start of an allocation, and length 0 means all of it.
    let result = unsafe { sys::cuStreamAttachMemAsync(stream.handle(), address, 0, flags) };
    check("cuStreamAttachMemAsync", result)
}
