// Hidden states that an assistant continues from, by blocks of THREADS columns of one row: `src/tape/hidden.rs`.
#include "common.cuh"
#include "state.cuh"

// `PLACES` of `src/tape/hidden.rs`: positions in the ring of a slot.
#define HIDDEN_PLACES 16

__device__ __forceinline__ float *place_of(const HiddenArgs &a, u32 slot, u32 position) {
    return at<float>(a.ring) + ((u64)slot * HIDDEN_PLACES + position % HIDDEN_PLACES) * a.hidden;
}

extern "C" __global__ void __launch_bounds__(THREADS) keep_hidden(const __grid_constant__ HiddenArgs a) {
    LaunchTurn launch_turn(a.stamp);
    const u32 column = blockIdx.x * THREADS + threadIdx.x;
    const Row *row = at<const Row>(a.places.rows) + (a.places.step ? blockIdx.y : 0);
    if (column >= a.hidden || row->slot == NO_SLOT) return;
    // A prompt stores its last real row.
    const u32 last = a.places.step ? blockIdx.y : row->count - 1;
    const u32 position = row->position + (a.places.step ? 0 : last);
    place_of(a, row->slot, position)[column] = at<const float>(a.states)[(u64)last * a.hidden + column];
}

extern "C" __global__ void __launch_bounds__(THREADS) join_hidden(const __grid_constant__ HiddenArgs a) {
    LaunchTurn launch_turn(a.stamp);
    const u32 column = blockIdx.x * THREADS + threadIdx.x, index = blockIdx.y;
    if (column >= a.hidden) return;
    const Row *row = at<const Row>(a.places.rows) + index;
    float *out = at<float>(a.out) + (u64)index * 2 * a.hidden + column;
    float state = 0.0f;
    if (row->slot != NO_SLOT)
        state = row->first == index ? place_of(a, row->slot, row->position)[column]
                                    : at<const float>(a.states)[(u64)(index - 1) * a.hidden + column];
    out[0] = at<const float>(a.x)[(u64)index * a.hidden + column];
    out[a.hidden] = state;
}
