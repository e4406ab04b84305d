// Depthwise causal convolutions, by blocks of THREADS channels of one row. Earlier inputs of the conversation are other
// rows of this launch, or lie in a ring by position: a step adds its rows to the ring of its state, and a prompt leaves
// the last ones in that of the spare state.
#include "recurrent/update.cuh"

// An input of the convolution; of a gated one, the product b x of [b | c | x].
template <bool GATED> __device__ __forceinline__ float input_at(const ConvolveArgs &a, u32 row, u32 channel) {
    const u32 channels = a.state.channels;
    const float *input = at<const float>(a.input) + (u64)row * channels * (GATED ? 3 : 1) + channel;
    return GATED ? input[0] * input[2 * channels] : input[0];
}

template <typename T, bool GATED> __device__ __forceinline__ void convolve(const ConvolveArgs &a) {
    LaunchTurn launch_turn(a.stamp);
    const State &state = a.state;
    const u32 channel = blockIdx.x * THREADS + threadIdx.x, row = blockIdx.y, history = state.taps - 1;
    const u32 leader = state.places.step ? at<const Row>(state.places.rows)[row].first : 0;
    const Rows rows = rows_from(state.places, state.places.step ? min(leader, row) : 0, a.rows);
    if (channel >= state.channels || (!state.places.step && row >= rows.count)) return;
    T *out = at<T>(a.out) + (u64)row * a.stride + channel;
    if (rows.slot == NO_SLOT) {
        *out = round_to<T>(0.0f);
        return;
    }
    u8 *const layer = layer_of_slot(state, rows.slot);
    const u32 place = row - rows.first, position = rows.position + place;
    const float *kernel = at<const float>(a.kernel) + (u64)channel * state.taps;
    float sum = a.bias ? at<const float>(a.bias)[channel] : 0.0f;
    for (u32 back = min(history, position); back > 0; --back) {
        const float value =
            back <= place ? input_at<GATED>(a, row - back, channel) : column(state, layer, position - back)[channel];
        sum = fmaf(kernel[history - back], value, sum);
    }
    const float own = input_at<GATED>(a, row, channel);
    sum = fmaf(kernel[history], own, sum);
    if (a.silu) sum = sum / (1.0f + expf(-sum));
    if (GATED) sum *= at<const float>(a.input)[(u64)row * 3 * state.channels + state.channels + channel];
    *out = round_to<T>(sum);
    if (state.places.step) {
        column(state, layer, position)[channel] = own;
        return;
    }
    const u32 end = rows.position + rows.count;
    if (position + history < end) return;
    u8 *const spare = layer_of(state, at<const Row>(state.places.rows)->spare);
    column(state, spare, position)[channel] = own;
    if (place != 0) return;
    // A short prompt: its successors need inputs before it, too.
    for (u32 earlier = end > history ? end - history : 0; earlier < rows.position; ++earlier)
        column(state, spare, earlier)[channel] = column(state, layer, earlier)[channel];
}

// out = the input of the position before; the conversation's first row has zeros. The inputs stay in the ring.
extern "C" __global__ void __launch_bounds__(THREADS) shift(const __grid_constant__ ConvolveArgs a) {
    LaunchTurn launch_turn(a.stamp);
    const State &state = a.state;
    const u32 channel = blockIdx.x * THREADS + threadIdx.x, row = blockIdx.y;
    const u32 leader = state.places.step ? at<const Row>(state.places.rows)[row].first : 0;
    const Rows rows = rows_from(state.places, state.places.step ? min(leader, row) : 0, a.rows);
    if (channel >= state.channels || (!state.places.step && row >= rows.count)) return;
    float *out = at<float>(a.out) + (u64)row * a.stride + channel;
    if (rows.slot == NO_SLOT) {
        *out = 0.0f;
        return;
    }
    u8 *const layer = layer_of_slot(state, rows.slot);
    const u32 place = row - rows.first, position = rows.position + place;
    const float *input = at<const float>(a.input) + (u64)row * state.channels + channel;
    if (place > 0) *out = *(input - state.channels);
    else *out = position > 0 ? column(state, layer, position - 1)[channel] : 0.0f;
    if (state.places.step) column(state, layer, position)[channel] = *input;
    else if (place + 1 == rows.count)
        column(state, layer_of(state, at<const Row>(state.places.rows)->spare), position)[channel] = *input;
}

extern "C" __global__ void __launch_bounds__(THREADS) convolve(const __grid_constant__ ConvolveArgs a) {
    convolve<float, false>(a);
}
extern "C" __global__ void __launch_bounds__(THREADS) short_conv_f16(const __grid_constant__ ConvolveArgs a) {
    convolve<half, true>(a);
}
extern "C" __global__ void __launch_bounds__(THREADS) short_conv_bf16(const __grid_constant__ ConvolveArgs a) {
    convolve<__nv_bfloat16, true>(a);
}
