// The additional inputs of layers (Gemma 4): a row of a table, and a norm of what is there, one block for each layer of
// a row.
#include "state.cuh"
#include "tile.cuh"

extern "C" __global__ void __launch_bounds__(THREADS) layer_inputs(const __grid_constant__ LayerInputsArgs a) {
    LaunchTurn launch_turn(a.stamp);
    const Row *rows = at<const Row>(a.places.rows);
    const u32 row = blockIdx.y, begin = blockIdx.x * a.width;
    if (!a.places.step && row >= rows->count) return;
    u32 token = a.places.step ? rows[row].slot == NO_SLOT ? NO_TOKEN : rows[row].token : at<const u32>(a.tokens)[row];
    // Another part of the table has the token.
    if (token - a.first >= a.table.rows) return;
    __shared__ float scratch[WARPS];
    float *inputs = at<float>(a.inputs) + (u64)row * a.columns + begin, sum = 0.0f;
    const float *norm = at<const float>(a.norm);
    for (u32 i = threadIdx.x; i < a.width; i += THREADS) sum = fmaf(inputs[i], inputs[i], sum);
    const float scale = 1.0f / sqrtf(block_sum(sum, scratch) / (float)a.width + a.epsilon), half_root = 0.70710678f;
    const u8 *table = at<const u8>(a.table.data);
#define CASE(F, ...) \
    case F: \
        for (u32 i = threadIdx.x; i < a.width; i += THREADS) { \
            float of_token = a.scale * element<F>(table, a.table.columns, token - a.first, begin + i); \
            inputs[i] = (of_token + inputs[i] * scale * norm[i]) * half_root; \
        } \
        break;
    switch (a.table.format) { FORMATS(CASE) }
#undef CASE
}
