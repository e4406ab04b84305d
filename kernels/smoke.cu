// Kernels that tests/gpu/smoke.rs tests the device layer with. No model runs them.
#include "state.cuh"

// data[i] = factor data[i] + i
extern "C" __global__ void smoke_scale(const __grid_constant__ SmokeArgs a) {
    u32 *data = reinterpret_cast<u32 *>(a.data);
    for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < a.count; i += gridDim.x * blockDim.x)
        data[i] = a.factor * data[i] + i;
}

// A step in the shape of a model's: applies its command, advances the state, sends the token.
extern "C" __global__ void smoke_step(const __grid_constant__ SmokeArgs a) {
    // Token, position, sequence.
    u32 *state = reinterpret_cast<u32 *>(a.state), sequence = state[2] + 1;
    const volatile Command *command =
        reinterpret_cast<const volatile Command *>(a.step_mailbox) + sequence % COMMANDS * STEP_ROWS;
    if (command->row.sequence == sequence) {
        __threadfence_system();
        state[0] = command->row.token;
        state[1] = command->row.position;
    }
    state[0] = a.factor * state[0] + state[1];
    state[1] += 1;
    state[2] = sequence;
    __threadfence_system();
    reinterpret_cast<volatile u64 *>(a.token_mailbox)[sequence % MAILBOX_STEPS * STEP_ROWS] =
        (u64)sequence << 32 | state[0];
}

// Keeps the stream busy for `count` microseconds.
extern "C" __global__ void smoke_wait(const __grid_constant__ SmokeArgs a) {
    u64 start, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    while (now - start < 1000ull * a.count);
}
