// x = table[token], one block a row. In a step it first takes the mailbox, the only kernel that does.
#include "state.cuh"
#include "tile.cuh"

extern "C" __global__ void __launch_bounds__(THREADS) embed(const __grid_constant__ EmbedArgs a) {
    Stopwatch stopwatch(a.stamp);
    if (is_padding(a.count, blockIdx.x)) return;
    State *state = at<State>(a.state);
    __shared__ u32 token;
    if (threadIdx.x == 0) {
        if (a.source == 1) {
            const volatile StepMailbox *mailbox = at<const volatile StepMailbox>(a.mailbox);
            u32 generation = mailbox->generation;
            if (generation != state->generation) {
                // The host wrote the generation after the rest.
                __threadfence_system();
                state->token = mailbox->token;
                state->position = mailbox->position;
                state->generation = generation;
            }
        }
        if (a.source) {
            token = state->token;
        } else {
            token = at<const u32>(a.tokens)[blockIdx.x];
        }
    }
    __syncthreads();
    if (token - a.first >= a.table.rows) return;
    float *x = at<float>(a.x) + (u64)blockIdx.x * a.hidden;
    const u8 *table = at<const u8>(a.table.data);
#define CASE(F) case F: for (u32 i = threadIdx.x; i < a.hidden; i += THREADS) x[i] = element<F>(table, a.table.columns, token - a.first, i); break;
    switch (a.table.format) {
        CASE(F32) CASE(F16) CASE(BF16) CASE(Q8_0) CASE(Q4_0) CASE(Q4_1) CASE(Q5_0) CASE(Q5_1) CASE(Q4_K) CASE(Q5_K) CASE(Q6_K) CASE(SCALED_F16)
    }
#undef CASE
}
