// Copies a page of a checkpoint from or to a state, by words. Checkpoints of the CPU have the same layout.
#include "recurrent/update.cuh"

// Words of the position in front of a checkpoint.
#define HEAD 2
#define NOWHERE 0xffffffffu

template <bool LOADS> __device__ __forceinline__ void copy_state(const CopyStateArgs &a) {
    LaunchTurn launch_turn(0);
    const State &state = a.state;
    const u32 history = state.taps - 1;
    const u64 heads = (u64)state.heads * state.value_dim * state.key_dim, each = heads + (u64)history * state.channels;
    u32 position = LOADS ? *at<const u32>(a.first_page) : a.position;
    // The state is elsewhere: no row continues a checkpoint at NOWHERE.
    const u32 *own = reinterpret_cast<const u32 *>(at<const u8>(a.address) + state.positions);
    if (!LOADS && state.heads > 0 && position > 0 && *own != position) position = NOWHERE;
    for (u64 i = (u64)blockIdx.x * THREADS + threadIdx.x; i < a.words; i += (u64)gridDim.x * THREADS) {
        u32 *const word = at<u32>(a.page) + i;
        const u64 index = a.before + i;
        if (index >= HEAD + a.layers * each + a.hidden) {
            // Another conversation may have left bytes there.
            if (!LOADS) *word = 0;
            continue;
        }
        if (index < HEAD) {
            if (!LOADS) *word = index == 0 ? position : 0;
            continue;
        }
        if (index >= HEAD + a.layers * each) {
            // The hidden state of the last position. Rows of the ring are as many as those of two taps.
            if (position == 0) {
                if (!LOADS) *word = 0;
                continue;
            }
            u32 *const ring = reinterpret_cast<u32 *>(at<u8>(a.address) + a.layers * a.layer_bytes);
            const u64 column = index - HEAD - a.layers * each;
            u32 *const last = ring + (u64)((position - 1) % (1 + COLUMNS)) * a.hidden + column;
            if (LOADS) *last = *word;
            else *word = *last;
            continue;
        }
        const u64 within = (index - HEAD) % each;
        u8 *const layer = at<u8>(a.address) + (index - HEAD) / each * a.layer_bytes;
        u32 *held = reinterpret_cast<u32 *>(layer) + within;
        if (within >= heads) {
            const u32 back = history - (u32)((within - heads) / state.channels);
            const u32 channel = (u32)((within - heads) % state.channels);
            if (back > position) {
                if (!LOADS) *word = 0;
                continue;
            }
            held = reinterpret_cast<u32 *>(column(state, layer, position - back)) + channel;
        }
        if (LOADS) *held = *word;
        else *word = *held;
    }
    if (!LOADS || a.before > 0 || blockIdx.x > 0 || state.heads == 0) return;
    const u32 parts = state.heads * ((state.value_dim + PART - 1) / PART);
    for (u32 i = threadIdx.x; i < parts * a.layers; i += THREADS) {
        u8 *const layer = at<u8>(a.address) + (u64)(i / parts) * a.layer_bytes;
        reinterpret_cast<u32 *>(layer + state.positions)[i % parts] = position;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) store_state(const __grid_constant__ CopyStateArgs a) {
    copy_state<false>(a);
}
extern "C" __global__ void __launch_bounds__(THREADS) load_state(const __grid_constant__ CopyStateArgs a) {
    copy_state<true>(a);
}
