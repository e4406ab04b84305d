// How K and V lie in a page of the cache: as values of a type, or as integers of eight bits with a scale for each
// block.
#pragma once
#include "common.cuh"
#include "state.cuh"
#include "tile.cuh"

// An integer of a block. The scales of K or V in a page, f16, follow all its integers: (kv_heads, PAGE, head_dim /
// block).
struct Q8 {
    i8 quant;
};

// Passes the type of keys or of values to a function that takes either.
template <typename C> struct SideOf {
    typedef C Type;
};
template <typename A, typename B> struct IsSame {
    static constexpr bool value = false;
};
template <typename A> struct IsSame<A, A> {
    static constexpr bool value = true;
};

__device__ __forceinline__ u32 block_of(u32 head_dim) { return head_dim % 32 ? 16 : 32; }

// The place of a KV head's position, where `side` is the layer's K or V; and the place of its scales.
template <typename C>
__device__ __forceinline__ C *in_page(u64 page, u64 side, const Cache &c, u32 kv_head, u32 position) {
    return at<C>(page + side) + ((u64)kv_head * PAGE + position % PAGE) * c.head_dim;
}
__device__ __forceinline__ half *scales_in_page(u64 page, u64 side, const Cache &c, u32 kv_head, u32 position) {
    u32 positions = kv_head * PAGE + position % PAGE;
    return at<half>(page + side + (u64)c.kv_heads * PAGE * c.head_dim) +
           (u64)positions * (c.head_dim / block_of(c.head_dim));
}
__device__ __forceinline__ const u64 *table_of(const Cache &c, u32 slot) {
    return at<const u64>(c.places.tables) + (u64)slot * c.places.pages;
}

// Quantizes a head's values, by a warp. The scale is a block's greatest magnitude over 127, rounded to f16; values are
// divided by the rounded scale.
__device__ __forceinline__ void quantize(const float *values, u32 head_dim, u32 lane, Q8 *quants, half *scales) {
    u32 block = block_of(head_dim);
    for (u32 i = lane; i < (head_dim + 31) / 32 * 32; i += 32) {
        bool there = i < head_dim;
        // A NaN makes the scale of its block infinite, so that the whole block shows it.
        float value = there ? values[i] : 0.0f, most = isnan(value) ? INFINITY : fabsf(value);
        if (block == 32) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, 16));
#pragma unroll
        for (int offset = 8; offset > 0; offset /= 2) most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, offset));
        half scale = __float2half_rn(most / 127.0f);
        float by = __half2float(scale);
        int quant = by == 0.0f ? 0 : max(-127, min(127, __float2int_rn(value / by)));
        if (there) quants[i].quant = (i8)quant;
        if (there && i % block == 0) scales[i / block] = scale;
    }
}

// The lower or the higher two integers of a word, times their scale, rounded to T.
template <typename T> __device__ __forceinline__ u32 dequantized(u32 word, int higher, half scale);
template <> __device__ __forceinline__ u32 dequantized<half>(u32 word, int higher, half scale) {
    u32 integers = bytes_less_128<half>(word ^ 0x80808080u, higher);
    half2 pair = __hmul2_rn(*reinterpret_cast<half2 *>(&integers), __half2half2(scale));
    return *reinterpret_cast<u32 *>(&pair);
}
template <> __device__ __forceinline__ u32 dequantized<__nv_bfloat16>(u32 word, int higher, half scale) {
    // 0x4b000000 is 2^23, whose last place is 1.
    float low = __uint_as_float(__byte_perm(word ^ 0x80808080u, 0x4b000000u, higher ? 0x7442 : 0x7440)) - 8388736.0f;
    float high = __uint_as_float(__byte_perm(word ^ 0x80808080u, 0x4b000000u, higher ? 0x7443 : 0x7441)) - 8388736.0f;
    float by = __half2float(scale);
    return Mma<__nv_bfloat16>::pack(low * by, high * by);
}
