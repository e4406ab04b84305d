// What the attention of steps and of prompts share: which block merges the parts of several blocks.
#pragma once
#include "rope.cuh"

// Whether this block, which leaves `done` of `parts` parts, is the last to arrive. The last block sees the parts of all
// others.
__device__ __forceinline__ bool arrives_last(u64 address, u32 done, u32 parts) {
    __shared__ bool last;
    __syncthreads();
    if (threadIdx.x == 0) {
        u32 *arrivals = at<u32>(address), before;
        asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;"
                     : "=r"(before)
                     : "l"(arrivals), "r"(done)
                     : "memory");
        last = before + done == parts;
        if (last) *arrivals = 0;
    }
    __syncthreads();
    return last;
}
