// What every kernel needs: number types, launch order, and reductions whose order never depends on the number of rows.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "abi.h"

#define THREADS 256
#define WARPS (THREADS / 32)

#define INFINITY __int_as_float(0x7f800000)

typedef unsigned short u16;
typedef unsigned char u8;
typedef signed char i8;

// Records when the first block of a launch began and when the last one ended, in nanoseconds of the device's clock.
// Without an address it costs one comparison with a constant. A record is the start and ENDS ends, of which the latest
// counts: a launch is over only when its records are written, and blocks that end together would contend for a single
// end.
#define ENDS 2047
// From sm_90 on, a kernel can begin while the previous one ends (`LaunchOrder` of src/device/kernel.rs). Before its
// turn it may read weights, and results of kernels before the previous one. It may write no device memory.
//
// NOW: waits for its turn at once, then lets the next kernel begin. LATER: the kernel calls `our_turn` itself. HELD:
// waits at once, and lets the next kernel begin only by `let_next_begin`, because the next kernel's blocks would take
// the places of its own remaining blocks.
enum Turn { NOW, LATER, HELD };
struct LaunchTurn {
    u64 *span;
    __device__ __forceinline__ explicit LaunchTurn(u64 address, Turn turn = NOW)
        : span(reinterpret_cast<u64 *>(address)) {
        if (turn == NOW) our_turn();
        if (turn == HELD) wait();
    }
    // Waits until the kernel before this one has ended, then lets the next one begin. Every thread calls it once.
    __device__ __forceinline__ void our_turn() {
        wait();
        let_next_begin();
    }
    __device__ __forceinline__ static void let_next_begin() {
#if __CUDA_ARCH__ >= 900
        asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
    }
    __device__ __forceinline__ void wait() {
#if __CUDA_ARCH__ >= 900
        asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
        if (threadIdx.x == 0 && block() == 0) {
            // Read before anything waits for the parameters: the kernel runs by then.
            u64 begin = now();
            if (span) atomicMin(span, begin);
        }
    }
    __device__ __forceinline__ ~LaunchTurn() {
        if (span && threadIdx.x % 32 == 0) atomicMax(span + 1 + block() % ENDS, now());
    }
    __device__ __forceinline__ static u32 block() {
        return blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    }
    __device__ __forceinline__ static u64 now() {
        u64 time;
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time)::"memory");
        return time;
    }
};

// The gate's factor of an MLP: x sigmoid(x), or the tanh approximation of GELU, x sigmoid(2 sqrt(2 / pi) (x + 0.044715
// x^3)).
__device__ __forceinline__ float activated(Activation activation, float x) {
    const float slope = activation == Activation::GeluTanh ? 1.5957691216f * (x + 0.044715f * x * x * x) : x;
    return x / (1.0f + expf(-slope));
}

// The same for the layers of vision towers, which have further functions.
__device__ __forceinline__ float activated_of_tower(Activation activation, float x) {
    if (activation == Activation::Identity) return x;
    if (activation == Activation::Gelu) return 0.5f * x * (1.0f + erff(x * 0.70710678118654752f));
    return activated(activation, x);
}

#define LOG2_E 1.4426950408889634f

__device__ __forceinline__ float power_of_two(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Real rows of a prompt.
__device__ __forceinline__ u32 real_rows(u64 count, u32 rows) {
    return count ? min(rows, *reinterpret_cast<const u32 *>(count)) : rows;
}

// Whether a row of a prompt only pads it to a recorded size.
__device__ __forceinline__ bool is_padding(u64 count, u32 row) {
    return count && row >= *reinterpret_cast<const u32 *>(count);
}

template <typename T> struct Pair;
template <> struct Pair<half> {
    typedef half2 type;
};
template <> struct Pair<__nv_bfloat16> {
    typedef __nv_bfloat162 type;
};

template <typename T> __device__ __forceinline__ T round_to(float value);
template <> __device__ __forceinline__ half round_to<half>(float value) { return __float2half_rn(value); }
template <> __device__ __forceinline__ __nv_bfloat16 round_to<__nv_bfloat16>(float value) {
    return __float2bfloat16_rn(value);
}
template <> __device__ __forceinline__ float round_to<float>(float value) { return value; }

__device__ __forceinline__ float widen(half value) { return __half2float(value); }
__device__ __forceinline__ float widen(__nv_bfloat16 value) { return __bfloat162float(value); }
__device__ __forceinline__ float widen(float value) { return value; }

// Shared memory has 32-bit addresses of its own.
__device__ __forceinline__ u32 in_shared(const void *pointer) { return (u32)__cvta_generic_to_shared(pointer); }
__device__ __forceinline__ const u8 *from_shared(u32 address) {
    return static_cast<const u8 *>(__cvta_shared_to_generic(address));
}
template <typename T> __device__ __forceinline__ T load_shared(u32 address) {
    return *reinterpret_cast<const T *>(from_shared(address));
}

template <typename T> __device__ __forceinline__ T *at(u64 address) { return reinterpret_cast<T *>(address); }

__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffu, value, offset);
    return value;
}

// The sum of all threads' values, returned to every thread of the block; the order is the same in every kernel.
__device__ __forceinline__ float block_sum(float value, float *scratch) {
    value = warp_sum(value);
    __syncthreads();
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
    __syncthreads();
    float sum = 0.0f;
#pragma unroll
    for (int warp = 0; warp < WARPS; ++warp) sum += scratch[warp];
    return sum;
}
