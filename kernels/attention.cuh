// What attention of steps and of prompts share: who of several blocks merges what all have left.
#pragma once
#include "rope.cuh"

// Whether a block that has left `done` parts of so many is the last to arrive, and so sees what the others have left.
__device__ __forceinline__ bool arrives_last(u64 address, u32 done, u32 parts) {
    __shared__ bool last;
    __syncthreads();
    if (threadIdx.x == 0) {
        u32 *arrivals = at<u32>(address), before;
        asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;" : "=r"(before) : "l"(arrivals), "r"(done) : "memory");
        last = before + done == parts;
        if (last) *arrivals = 0;
    }
    __syncthreads();
    return last;
}
