// x = table[token], one block a row. The first part of the table takes commands before: of a step each row its own, of
// a prompt its only one.
#include "state.cuh"
#include "tile.cuh"

// Whoever a command is of goes on as it says; by a whole block.
__device__ __forceinline__ void obey(const EmbedArgs &a, const volatile Command *command, u32 says, u32 entry) {
    Conversation *conversation = at<Conversation>(a.places.conversations) + entry;
    if (threadIdx.x == 0) {
        if (says & SAYS_TOKEN) conversation->token = command->row.token;
        if (says & SAYS_POSITION) conversation->position = command->row.position;
        if (says & SAYS_GUIDE) conversation->guide = command->guide;
    }
    if (says & SAYS_SAMPLER) {
        const volatile u32 *from = reinterpret_cast<const volatile u32 *>(&command->sampler);
        u32 *to = reinterpret_cast<u32 *>(&conversation->sampler);
        for (u32 i = threadIdx.x; i < sizeof(Sampler) / 4; i += THREADS) to[i] = from[i];
    }
    if (says & SAYS_PAGES) {
        u64 skip = (u64)entry * a.places.pages;
        u32 first = command->first_page, end = first + command->pages;
        for (u32 i = first + threadIdx.x; i < end; i += THREADS) at<u64>(a.places.tables)[skip + i] = at<const volatile u64>(a.host_tables)[skip + i];
    }
    __syncthreads();
}

__device__ __forceinline__ u32 take(const EmbedArgs &a) {
    u32 index = a.places.step ? blockIdx.x : 0, sequence = *at<const u32>(a.sequence) + 1;
    Row *row = at<Row>(a.places.rows) + index;
    const volatile Command *command = at<const volatile Command>(a.commands) + (a.places.step ? sequence % COMMANDS * STEP_ROWS + index : 0);
    if (!a.places.step) {
        // It lies in device memory, its row is the prompt's. What other blocks need of it is their token.
        if (blockIdx.x == 0) obey(a, command, command->says, command->row.entry);
        return at<const u32>(a.tokens)[blockIdx.x];
    }
    // One thread asks, for each question crosses the bus.
    __shared__ Row mine;
    __shared__ u32 says;
    if (threadIdx.x == 0) {
        mine = *row, says = 0;
        // The host wrote the sequence after the rest.
        if (command->row.sequence == sequence) {
            __threadfence_system();
            mine.entry = command->row.entry, mine.first = command->row.first, mine.advances = command->row.advances;
            mine.token = command->row.token, mine.position = command->row.position;
            says = command->says;
        }
    }
    __syncthreads();
    if (mine.entry != NOBODY && says) obey(a, command, says, mine.entry);
    // Where the conversation stands is for its first row to read; the host says it to the others in every step.
    u32 token = mine.token;
    if (mine.entry == NOBODY) token = NOBODY;
    else if (index == mine.first) token = at<const Conversation>(a.places.conversations)[mine.entry].token;
    if (threadIdx.x == 0) {
        Row left = mine;
        if (mine.entry != NOBODY && index == mine.first) left.position = at<const Conversation>(a.places.conversations)[mine.entry].position;
        left.token = token, left.sequence = sequence;
        *row = left;
    }
    return token;
}

extern "C" __global__ void __launch_bounds__(THREADS) embed(const __grid_constant__ EmbedArgs a) {
    Stopwatch stopwatch(a.stamp);
    const Row *rows = at<const Row>(a.places.rows);
    if (!a.places.step && blockIdx.x >= rows->count) return;
    u32 token;
    if (a.first == 0) token = take(a);
    else token = a.places.step ? rows[blockIdx.x].entry == NOBODY ? NOBODY : rows[blockIdx.x].token : at<const u32>(a.tokens)[blockIdx.x];
    float *x = at<float>(a.x) + (u64)blockIdx.x * a.hidden;
    const u8 *table = at<const u8>(a.table.data);
    if (token == NOBODY && a.first == 0)
        for (u32 i = threadIdx.x; i < a.hidden; i += THREADS) x[i] = 0.0f;
    if (token - a.first >= a.table.rows) return;
#define CASE(F, ...) case F: for (u32 i = threadIdx.x; i < a.hidden; i += THREADS) x[i] = element<F>(table, a.table.columns, token - a.first, i); break;
    switch (a.table.format) {
        FORMATS(CASE)
    }
#undef CASE
}
