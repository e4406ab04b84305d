// Attention over positions in splits (Flash-Decoding, Dao et al. 2023): each block leaves its parts, and the last block
// of a row and its heads to arrive merges them, in a fixed order.
#pragma once
#include "attention.cuh"

// Splits of a row, at most.
#define MOST_SPLITS 64
// A number below any score.
#define LEAST -1e30f

// The current row, read before this kernel's turn: bypasses the first cache, which may have an older one.
__device__ __forceinline__ Row row_now(const Row *row) {
    const uint4 *halves = reinterpret_cast<const uint4 *>(row);
    uint4 first = __ldcg(halves), second = __ldcg(halves + 1);
    u32 turned = __ldcg(&row->turned);
    return Row{first.x, first.y, first.z, first.w, second.x, second.y, second.z, second.w, turned};
}

// Adjacent columns, read at once.
template <int N> struct Columns;
template <> struct Columns<2> {
    float2 all;
    __device__ __forceinline__ void read(const float *from) { all = *reinterpret_cast<const float2 *>(from); }
    __device__ __forceinline__ void read_now(const float *from) {
        all = __ldcg(reinterpret_cast<const float2 *>(from));
    }
    __device__ __forceinline__ float of(int n) const { return n ? all.y : all.x; }
};
template <> struct Columns<4> {
    float4 all;
    __device__ __forceinline__ void read(const float *from) { all = *reinterpret_cast<const float4 *>(from); }
    __device__ __forceinline__ void read_now(const float *from) {
        all = __ldcg(reinterpret_cast<const float4 *>(from));
    }
    __device__ __forceinline__ float of(int n) const {
        return n == 0 ? all.x : n == 1 ? all.y : n == 2 ? all.z : all.w;
    }
};

// Floats that a split leaves of a head: its columns, the greatest score, the sum of weights, and padding to 16 bytes.
__device__ __forceinline__ constexpr u32 part_of(u32 head_dim) { return head_dim + 4; }

// Softmax over some positions: the greatest score, the sum of weights, and the weighted sums of N columns.
template <int N> struct Merged {
    float greatest = LEAST, sum = 0.0f, columns[N] = {};

    // Adds several parts at once, in order, so that memory is waited for once.
    template <int PARTS>
    __device__ __forceinline__ void add(const float (&greatests)[PARTS], const float (&sums)[PARTS],
                                        const Columns<N> (&of)[PARTS]) {
        float most = greatest;
#pragma unroll
        for (int n = 0; n < PARTS; ++n) most = fmaxf(most, greatests[n]);
        float before = power_of_two(greatest - most);
        greatest = most, sum *= before;
#pragma unroll
        for (int c = 0; c < N; ++c) columns[c] *= before;
#pragma unroll
        for (int n = 0; n < PARTS; ++n) {
            float weight = power_of_two(greatests[n] - most);
            sum = fmaf(sums[n], weight, sum);
#pragma unroll
            for (int c = 0; c < N; ++c) columns[c] = fmaf(of[n].of(c), weight, columns[c]);
        }
    }

    template <typename T> __device__ __forceinline__ void put(T *to, const float *sink) const {
        float share = 1.0f / (sum + (sink ? power_of_two(*sink * LOG2_E - greatest) : 0.0f));
#pragma unroll
        for (int c = 0; c < N; ++c) to[c] = round_to<T>(columns[c] * share);
    }

    // Leaves this as a part. `head`: where the head's part begins. `column`: the first of its columns.
    __device__ __forceinline__ void leave(float *head, u32 column, u32 head_dim) const {
        if constexpr (N == 2) *reinterpret_cast<float2 *>(head + column) = make_float2(columns[0], columns[1]);
        else *reinterpret_cast<float4 *>(head + column) = make_float4(columns[0], columns[1], columns[2], columns[3]);
        if (column == 0) *reinterpret_cast<float2 *>(head + head_dim) = make_float2(greatest, sum);
    }
};

// Merges the parts of `splits` splits of some heads, AT_ONCE at a time, by a block of BLOCK threads. `parts`: (split,
// group, part_of(head_dim)).
template <typename T, u32 BLOCK, int AT_ONCE, int N>
__device__ __forceinline__ void merge(const float *parts, u32 splits, u32 group, u32 heads, u32 head_dim,
                                      const float *sinks, T *out) {
    u32 part = part_of(head_dim), apart = group * part;
    for (u32 i = N * threadIdx.x; i < heads * head_dim; i += N * BLOCK) {
        u32 h = i / head_dim, sums_of = h * part + head_dim, columns_of = h * part + i % head_dim;
        Merged<N> merged;
        for (u32 first = 0; first < splits; first += AT_ONCE) {
            float greatests[AT_ONCE], sums[AT_ONCE];
            Columns<N> columns[AT_ONCE] = {};
#pragma unroll
            for (int n = 0; n < AT_ONCE; ++n) {
                float2 both = make_float2(LEAST, 0.0f);
                if (first + n < splits) {
                    const float *from = parts + (first + n) * apart;
                    both = __ldcg(reinterpret_cast<const float2 *>(from + sums_of)),
                    columns[n].read_now(from + columns_of);
                }
                greatests[n] = both.x, sums[n] = both.y;
            }
            merged.add(greatests, sums, columns);
        }
        merged.put(out + i, sinks ? sinks + h : nullptr);
    }
}
