// The products of a layer's matrices in two formats by the same rows, as one kernel: the rows are prepared once, and
// neither product waits for the other's end. Other pairs of formats take two launches.
#include "step/product.cuh"

template <int F, int G, typename T, u32 R> __device__ __forceinline__ void step_products(const MixedStepArgs &a) {
    if (blockIdx.x < a.blocks) step_product<F, T, R, false>(a.first, blockIdx.x, a.blocks);
    else step_product<G, T, R, false>(a.second, blockIdx.x - a.blocks, gridDim.x - a.blocks);
}

#define MIXED_KERNEL(F, G, NAME, R, T, OF, BLOCK, BLOCKS) \
    extern "C" __global__ void __launch_bounds__(BLOCK, BLOCKS) \
        step_product_##OF##_##NAME##_x##R(const __grid_constant__ MixedStepArgs a) { \
        step_products<F, G, T, R>(a); \
    }
#define MIXED_KERNELS_OF(F, G, NAME, T, OF) \
    MIXED_KERNEL(F, G, NAME, 1, T, OF, THREADS, 2) \
    MIXED_KERNEL(F, G, NAME, 8, T, OF, (TEAMS * THREADS), 1)
#define MIXED_KERNELS(F, G, NAME) \
    MIXED_KERNELS_OF(F, G, NAME, half, f16) \
    MIXED_KERNELS_OF(F, G, NAME, __nv_bfloat16, bf16)

// `MIXED` of src/cuda/kernels.rs has the same pairs.
MIXED_KERNELS(Q4_K, Q6_K, q4_k_q6_k)
MIXED_KERNELS(Q5_K, Q6_K, q5_k_q6_k)
