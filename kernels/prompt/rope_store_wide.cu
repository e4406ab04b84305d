// Rotation of heads of up to 512 elements (Gemma 4).
#define HELD_PAIRS 8
#include "prompt/rope_store.cuh"

ROPE_STORES(rope_store_wide, half, f16)
ROPE_STORES(rope_store_wide, __nv_bfloat16, bf16)
