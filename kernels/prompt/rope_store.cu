// Rotation of heads of up to 256 elements.
#include "prompt/rope_store.cuh"

ROPE_STORES(rope_store, half, f16)
ROPE_STORES(rope_store, __nv_bfloat16, bf16)
