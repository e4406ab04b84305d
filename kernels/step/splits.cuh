// Attention over positions in splits (Flash-Decoding, Dao et al. 2023): a block leaves its parts, and the last of a row and its
// heads to arrive merges them, in one order.
#pragma once
#include "attention.cuh"

// Splits of a row, at most.
#define MOST_SPLITS 64
// Less than any score, and a number.
#define LEAST -1e30f

// A row as it is, also before it is this kernel's turn: not as the first cache may have kept it.
__device__ __forceinline__ Row row_now(const Row *row) {
    const uint4 *halves = reinterpret_cast<const uint4 *>(row);
    uint4 first = __ldcg(halves), second = __ldcg(halves + 1);
    return Row{first.x, first.y, first.z, first.w, second.x, second.y, second.z, second.w};
}

// Softmax over some positions: the greatest score, the sum of weights, and what they add up to, of two columns.
struct Merged {
    float greatest = LEAST, sum = 0.0f, first = 0.0f, second = 0.0f;

    // N parts at once, in their order: whatever is waited for is waited for once.
    template <int N> __device__ __forceinline__ void add(const float (&greatests)[N], const float (&sums)[N], const float2 (&columns)[N]) {
        float most = greatest;
#pragma unroll
        for (int n = 0; n < N; ++n) most = fmaxf(most, greatests[n]);
        float before = power_of_two(greatest - most);
        greatest = most, sum *= before, first *= before, second *= before;
#pragma unroll
        for (int n = 0; n < N; ++n) {
            float weight = power_of_two(greatests[n] - most);
            sum = fmaf(sums[n], weight, sum), first = fmaf(columns[n].x, weight, first), second = fmaf(columns[n].y, weight, second);
        }
    }

    template <typename T> __device__ __forceinline__ void put(T *to, const float *sink) const {
        float share = 1.0f / (sum + (sink ? power_of_two(*sink * LOG2_E - greatest) : 0.0f));
        to[0] = round_to<T>(first * share), to[1] = round_to<T>(second * share);
    }
};

// Merges, by a block of so many threads, the parts of `splits` splits of some heads, so many at once: (split, group, head_dim + 2): its columns, maximum, sum.
template <typename T, u32 BLOCK, int AT_ONCE> __device__ __forceinline__ void merge(const float *parts, u32 splits, u32 group, u32 heads, u32 head_dim, const float *sinks, T *out) {
    u32 part = head_dim + 2, apart = group * part;
    for (u32 i = 2 * threadIdx.x; i < heads * head_dim; i += 2 * BLOCK) {
        u32 h = i / head_dim, sums_of = h * part + head_dim, columns_of = h * part + i % head_dim;
        Merged merged;
        for (u32 first = 0; first < splits; first += AT_ONCE) {
            float greatests[AT_ONCE], sums[AT_ONCE];
            float2 columns[AT_ONCE];
#pragma unroll
            for (int n = 0; n < AT_ONCE; ++n) {
                float2 both = make_float2(LEAST, 0.0f);
                columns[n] = make_float2(0.0f, 0.0f);
                if (first + n < splits) {
                    const float *from = parts + (first + n) * apart;
                    both = __ldcg(reinterpret_cast<const float2 *>(from + sums_of)), columns[n] = __ldcg(reinterpret_cast<const float2 *>(from + columns_of));
                }
                greatests[n] = both.x, sums[n] = both.y;
            }
            merged.add(greatests, sums, columns);
        }
        merged.put(out + i, sinks ? sinks + h : nullptr);
    }
}
