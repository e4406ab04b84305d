// What the prompt's products ask of the compiler's register allocation. Every choice here was measured per format; none
// changes a result.
#pragma once
#include "tile.cuh"

// Where the outputs' sums of two neighbouring tokens lie. Registers with even numbers are in one bank, registers with
// odd numbers in the other, and an instruction that reads three registers of one bank stalls. mma puts a block's sums
// into aligned groups of four, so the outputs' sums of two neighbours are swapped into the other bank. Formats with
// blocks of 16 columns have no registers left to express that.
template <int F> constexpr int SWAP = Layout<F>::scaled && Layout<F>::block != 16;

// Addresses that stay in registers throughout the loop over columns. The compiler recomputes such values in each round;
// `keep` hides their origin from it, so that it cannot.
template <int F, typename T> struct Registers {
    static constexpr bool all = F == Q4_1 || F == Q5_0 || F == IQ4_NL;
    static constexpr bool inputs = all || F == Q2_K || F == Q6_K;
#if __CUDA_ARCH__ >= 900
    static constexpr bool q6_k = F == Q6_K;
#else
    // One more register of Q6_K spills 24 more bytes.
    static constexpr bool q6_k = false;
#endif
    static constexpr bool weights = all || q6_k;
    // Q6_K with f16 activations, from sm_90 on, has a loop body of its own: both halves of a unit are unrolled, and a
    // lane's addresses are offsets from the start of shared memory. An access then adds only the stage, which is in a
    // uniform register, and a constant. With any other format or type this spills.
    static constexpr bool unrolls_q6_k = q6_k && Mma<T>::template holds<F16>();

    template <bool KEPT> static __device__ __forceinline__ u32 keep(u32 value) {
        if constexpr (!KEPT) return value;
        u32 same;
        asm volatile("shfl.sync.idx.b32 %0, %1, %2, 0x1f, 0xffffffff;"
                     : "=r"(same)
                     : "r"(value), "r"(threadIdx.x % 32));
        return same;
    }
};
