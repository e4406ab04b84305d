// RMS norm of a prompt's rows (Zhang and Sennrich 2019), rounded to the activations' type: one block a row. Steps
// normalize inside their products (step/product.cuh). Without weights, rows of either are only rounded.
#include "sums.cuh"

// With `sums`, also leaves the sums of 32 columns each of the stored values, for weights with a minimum.
template <typename T> __device__ __forceinline__ void norm_row(const NormArgs &a, u32 row) {
    __shared__ float scratch[WARPS];
    const float *x = at<const float>(a.x) + (u64)row * a.hidden, *weight = at<const float>(a.weight);
    T *out = at<T>(a.out) + (u64)row * a.stride;
    // A thread takes eight columns at a time. The columns of most models stay in registers, so that memory is waited
    // for once.
    constexpr u32 EACH = 8 * THREADS, KEPT = 2;
    bool aligned = a.hidden % 4 == 0;
    auto read = [&](const float *from, u32 column, float (&eight)[8]) {
        if (aligned && column + 8 <= a.hidden) {
            float4 low = *reinterpret_cast<const float4 *>(from + column),
                   high = *reinterpret_cast<const float4 *>(from + column + 4);
            eight[0] = low.x, eight[1] = low.y, eight[2] = low.z, eight[3] = low.w, eight[4] = high.x,
            eight[5] = high.y, eight[6] = high.z, eight[7] = high.w;
            return;
        }
#pragma unroll
        for (u32 i = 0; i < 8; ++i) eight[i] = column + i < a.hidden ? from[column + i] : 0.0f;
    };
    auto put = [&](u32 column, float scale, const float (&eight)[8], const float (&by)[8]) {
        u32 pairs[4];
        float sum = 0.0f;
#pragma unroll
        for (u32 i = 0; i < 4; ++i) {
            T low = round_to<T>(eight[2 * i] * scale * by[2 * i]),
              high = round_to<T>(eight[2 * i + 1] * scale * by[2 * i + 1]);
            sum += widen(low) + widen(high);
            pairs[i] = *reinterpret_cast<u16 *>(&low) | (u32) * reinterpret_cast<u16 *>(&high) << 16;
        }
        if (column < a.stride)
            *reinterpret_cast<uint4 *>(out + column) = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
        if (a.sums) leave_sums(a.sums, a.rows, row, column, a.stride, sum);
    };
    auto read_weights = [&](u32 column, float (&eight)[8]) {
        if (weight) return read(weight, column, eight);
#pragma unroll
        for (u32 i = 0; i < 8; ++i) eight[i] = 1.0f;
    };
    float kept[KEPT][8], weights[KEPT][8], sum = 0.0f;
#pragma unroll
    for (u32 c = 0; c < KEPT; ++c) read_weights(c * EACH + 8 * threadIdx.x, weights[c]);
#pragma unroll
    for (u32 c = 0; c < KEPT; ++c) read(x, c * EACH + 8 * threadIdx.x, kept[c]);
    auto square = [&](const float (&eight)[8]) {
#pragma unroll
        for (u32 i = 0; i < 8; ++i) sum = fmaf(eight[i], eight[i], sum);
    };
#pragma unroll
    for (u32 c = 0; c < KEPT; ++c) square(kept[c]);
    for (u32 first = KEPT * EACH; first < a.hidden; first += EACH) {
        float eight[8];
        read(x, first + 8 * threadIdx.x, eight);
        square(eight);
    }
    float scale = 1.0f / sqrtf(block_sum(sum, scratch) / (float)a.hidden + a.epsilon);
    if (!weight) scale = 1.0f;
#pragma unroll
    for (u32 c = 0; c < KEPT; ++c) put(c * EACH + 8 * threadIdx.x, scale, kept[c], weights[c]);
    for (u32 first = KEPT * EACH; first < a.stride; first += EACH) {
        float eight[8], by[8];
        read(x, first + 8 * threadIdx.x, eight);
        read_weights(first + 8 * threadIdx.x, by);
        put(first + 8 * threadIdx.x, scale, eight, by);
    }
}

// In f32, into some columns of wider rows.
extern "C" __global__ void __launch_bounds__(THREADS) norm_columns(const __grid_constant__ NormArgs a) {
    LaunchTurn launch_turn(a.stamp);
    if (is_padding(a.count, blockIdx.x)) return;
    __shared__ float scratch[WARPS];
    const float *x = at<const float>(a.x) + (u64)blockIdx.x * a.hidden, *weight = at<const float>(a.weight);
    float *out = at<float>(a.out) + (u64)blockIdx.x * a.stride, sum = 0.0f;
    for (u32 i = threadIdx.x; i < a.hidden; i += THREADS) sum = fmaf(x[i], x[i], sum);
    const float scale = 1.0f / sqrtf(block_sum(sum, scratch) / (float)a.hidden + a.epsilon);
    for (u32 i = threadIdx.x; i < a.hidden; i += THREADS) out[i] = x[i] * scale * weight[i];
}

template <typename T> __device__ __forceinline__ void norm(const NormArgs &a) {
    LaunchTurn launch_turn(a.stamp);
    if (!is_padding(a.count, blockIdx.x)) norm_row<T>(a, blockIdx.x);
}

extern "C" __global__ void __launch_bounds__(THREADS) norm_f16(const __grid_constant__ NormArgs a) { norm<half>(a); }
extern "C" __global__ void __launch_bounds__(THREADS) norm_bf16(const __grid_constant__ NormArgs a) {
    norm<__nv_bfloat16>(a);
}
