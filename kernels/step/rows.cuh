// The rows of a step's product in shared memory, and how threads share the work on them.
#pragma once
#include "common.cuh"
#include "step/fetch.cuh"
#include "step/unit.cuh"

// Columns that a block holds at once. If all do not fit, it takes them in phases, and the sums of its tiles wait in
// shared memory meanwhile. A phase is a whole number of rounds of the warps, so each warp takes its columns in the same
// order as without phases.
template <bool PHASED> struct Phases {
    // In units of 64 columns.
    u32 count = 1, units, all;

    __device__ __forceinline__ Phases(u32 count_, u32 columns) : units(columns / 64), all(columns / 64) {
        if constexpr (PHASED) count = count_, units = ((all + WARPS - 1) / WARPS + count - 1) / count * WARPS;
    }
    // Units of a phase.
    __device__ __forceinline__ u32 of(u32 phase) const {
        return PHASED ? min(units, all - min(all, phase * units)) : all;
    }
};

// Teams of a block of one row, at most. Formats with a table of codes have two (codes.cuh), so that a multiprocessor
// has one table.
template <int F> constexpr u32 TEAMS_OF_ONE = Layout<F>::codes ? 2 : 1;

// The threads that sum a tile together.
template <int F, u32 R> struct Team {
    // With one row, usually the whole block.
    static constexpr bool alone = R == 1 && TEAMS_OF_ONE<F> == 1;
    u32 index = alone ? 0 : threadIdx.x / THREADS, teams = alone ? 1 : blockDim.x / THREADS;

    __device__ __forceinline__ static u32 thread() { return alone ? threadIdx.x : threadIdx.x % THREADS; }
    // Warps of the whole block.
    __device__ __forceinline__ static u32 warps() { return alone ? WARPS : blockDim.x / 32; }
    __device__ __forceinline__ void wait() const {
        // Barrier 0 belongs to the whole block.
        if constexpr (alone) __syncthreads();
        else asm volatile("bar.sync %0, %1;" ::"r"(1 + index), "n"(THREADS) : "memory");
    }
};

// Sums of the input's columns of a block: two blocks for one row, two rows for several.
template <u32 R> struct BlockSums {
    typedef float2 type;
};
template <> struct BlockSums<1> {
    typedef float4 type;
};

// The rows in shared memory, in T. Several rows lie as they come. One row is permuted, so that a lane finds its
// operands side by side: lane 4 g + t takes the columns 2 t, 2 t + 1, 2 t + 8 and 2 t + 9 of 16, and of 32 columns that
// is 16 bytes. Behind the rows lie the corrections of each block's sums, the sums of the warps, and the warps' rings. R
// is 1, or the most rows that may come; the real number is then a power of two.
template <int F, typename T, u32 R> struct Rows {
    // Rows are padded by 16 bytes, so that the pieces of eight rows use all banks.
    static constexpr u32 APART = R == 1 ? 0 : 8;
    // Columns of a block, and `Sums` of a unit.
    static constexpr u32 BLOCK = Layout<F>::block ? Layout<F>::block : 32, UNIT = 64 / BLOCK;
    static constexpr u32 EACH = R == 1 ? 1 : R / 2, UNIT_SUMS = R == 1 ? UNIT / 2 : UNIT * EACH;
    T *values;
    u32 pitch, rows;
    // Corrections for formats with blocks: minus the sum of a row's columns of a block, times the excess of the
    // integers (`Excess`). mma starts from them. For several rows: (columns / BLOCK, EACH), two rows each, for the
    // weight rows g. For one row they follow the columns of their unit: two blocks each, for the weight rows g, then g
    // + 8.
    typedef typename BlockSums<R>::type Sums;
    Sums *excess;
    // Tiles that a team finishes together, with one row and scaled blocks.
    static constexpr u32 BATCH = R == 1 && Layout<F>::scaled ? 4 : 1;
    // (teams, WARPS, R, BATCH, 16) sums. One row has two of them in turns, so that its block waits once a batch. Before
    // there are any sums, this holds the squares of a norm: (slices of 256 columns, R).
    static constexpr u32 PARTS = (R == 1 ? 2 : 1) * BATCH * WARPS * R * 16;
    float *parts;
    // (teams, WARPS, Ring)
    u8 *rings;

    // `stride`: columns that are held at once.
    __device__ __forceinline__ Rows(u8 *memory, u32 stride, u32 rows_)
        : values(reinterpret_cast<T *>(memory)), pitch(stride + APART), rows(R == 1 ? 1 : rows_),
          excess(reinterpret_cast<Sums *>(memory + 2 * pitch * rows)),
          parts(reinterpret_cast<float *>(excess + (Layout<F>::scaled ? stride / 64 * UNIT_SUMS : 0))),
          rings(reinterpret_cast<u8 *>(parts + Team<F, R>().teams * PARTS)) {}

    // With one row: the columns of a unit, and behind them the corrections.
    static constexpr u32 COLUMNS_BYTES = 64 * sizeof(T),
                         UNIT_BYTES = COLUMNS_BYTES + (Layout<F>::scaled ? UNIT_SUMS * sizeof(Sums) : 0);
    __device__ __forceinline__ u8 *unit(u32 i) const { return reinterpret_cast<u8 *>(values) + i * UNIT_BYTES; }
    // Where this lane of a warp reads its first unit's columns and corrections, and the distance to those of its next
    // unit.
    static constexpr u32 COLUMNS_STEP = WARPS * (R == 1 ? UNIT_BYTES : COLUMNS_BYTES),
                         EXCESS_STEP = R == 1 ? COLUMNS_STEP : WARPS * UNIT_SUMS * sizeof(Sums);
    __device__ __forceinline__ u32 columns_at(u32 warp, u32 lane) const {
        return R == 1 ? in_shared(unit(warp)) + lane % 4 * 16 : in_shared(of(lane) + warp * 64);
    }
    __device__ __forceinline__ u32 excess_at(u32 warp, u32 lane) const {
        return R == 1 ? in_shared(unit(warp)) + COLUMNS_BYTES : in_shared(excess + warp * UNIT_SUMS + lane % 4);
    }

    // How many times as large the weight rows g + 8 come, compared with the rows g.
    static constexpr float HIGH = Excess<F, T>::high / Excess<F, T>::low;
    // Whether mma starts from the corrections. If it does not, they still multiply a minimum.
    static constexpr bool BEGINS = Excess<F, T>::zero > 0;
    static constexpr u32 TIMES = BEGINS ? Excess<F, T>::zero : Layout<F>::minimum ? 1 : 0;
    // Where row g comes with row g + 8 in it, its correction covers both. OF_UPPER is the share of the upper row.
    static constexpr bool OF_BOTH = Excess<F, T>::both && BEGINS;
    static constexpr float OF_UPPER = OF_BOTH ? HIGH / (1.0f + HIGH) : HIGH;

    // Puts a slice of 256 columns into a row, by a warp: eight adjacent columns a lane.
    __device__ __forceinline__ void put(u32 row, u32 begin, const uint4 &eight, u32 columns, u32 lane) const {
        u32 column = begin + 8 * lane;
        if constexpr (R == 1) {
            u32 *to = reinterpret_cast<u32 *>(unit(column / 64) + column / 32 % 2 * 64) + column % 32 / 8;
            if (column < columns) to[0] = eight.x, to[4] = eight.y, to[8] = eight.z, to[12] = eight.w;
            if constexpr (!Layout<F>::scaled) return;
            // The slice's pieces of 32 columns are mma's columns.
            __syncwarp();
            float sums[EACH_32][4];
            u32 off[4];
            off_all(off, 0);
            sum(off,
                column < columns ? read(in_shared(unit(column / 64)) + column % 64 * sizeof(T))
                                 : make_uint4(0, 0, 0, 0),
                sums);
            // Every lane has the sums: two of eight pieces each.
            u32 i = lane / 4 % 2, b = lane / 8 % EACH_32, block = (begin / 32 + lane % 4 * 2 + i) * EACH_32 + b;
            float of = i ? sums[0][1] : sums[0][0];
            if (b) of = i ? sums[EACH_32 - 1][1] : sums[EACH_32 - 1][0];
            float *pair =
                reinterpret_cast<float *>(unit(block / UNIT) + COLUMNS_BYTES + block % UNIT / 2 * sizeof(Sums)) +
                block % 2;
            if (lane < 8 * EACH_32 && block * BLOCK < columns) pair[0] = of, pair[2] = OF_UPPER * of;
        } else if (column < columns) {
            *reinterpret_cast<uint4 *>(values + row * pitch + column) = eight;
        }
    }

    // Sums the blocks of some units' columns, for several rows that are all here.
    __device__ __forceinline__ void sum_blocks(u32 first, u32 apart, u32 units, u32 lane) const {
        if constexpr (Layout<F>::scaled && R > 1) {
            const T *from = of(lane);
            Sums *to = excess + lane % EACH;
            u32 off[4];
            off_all(off, rows >> 16);
#pragma unroll 2
            for (u32 unit = first; unit < units; unit += apart) {
                // Both halves at once, so that neither waits for the other.
                float sums[2][EACH_32][4];
#pragma unroll
                for (u32 p = 0; p < 2; ++p) sum(off, read(in_shared(from + unit * 64 + p * 32)), sums[p]);
#pragma unroll
                for (u32 p = 0; p < 2; ++p)
#pragma unroll
                    for (u32 b = 0; b < EACH_32; ++b)
                        if (lane < EACH)
                            to[((2 * unit + p) * EACH_32 + b) * EACH] = make_float2(sums[p][b][0], sums[p][b][1]);
            }
        }
    }

    // Where this lane reads its part of the first 32 columns. Fewer than eight rows repeat.
    __device__ __forceinline__ const T *of(u32 lane) const {
        return values + (R == 1 ? lane % 4 * 8 : (lane % 8 & (rows - 1)) * pitch + lane / 8 * 8);
    }
    // A lane's part of 32 columns, as mma's operand.
    static __device__ __forceinline__ uint4 read(u32 from) {
        if constexpr (R == 1) return load_shared<uint4>(from);
        u32 part[4];
        matrices(part, from);
        return make_uint4(part[0], part[1], part[2], part[3]);
    }

  private:
    // Blocks of 32 columns.
    static constexpr u32 EACH_32 = 32 / BLOCK;

    // Products of 32 columns with the correction of each block.
    static __device__ __forceinline__ void sum(const u32 (&off)[4], const uint4 &part, float (&sums)[EACH_32][4]) {
#pragma unroll
        for (u32 b = 0; b < EACH_32; ++b)
#pragma unroll
            for (int i = 0; i < 4; ++i) sums[b][i] = 0.0f;
        Mma<T>::run(sums[0], off, part.x, part.y);
        Mma<T>::run(sums[EACH_32 - 1], off, part.z, part.w);
    }
    // The other operand. `zero` is 0, but the compiler does not know that; it would otherwise put constants into new
    // registers for each product of a loop.
    static __device__ __forceinline__ void off_all(u32 (&off)[4], u32 zero) {
        constexpr u32 OFF = minus<T, TIMES *(OF_BOTH ? 1 + (u32)HIGH : 1)>(Excess<F, T>::low < 1.0f);
#pragma unroll
        for (u32 i = 0; i < 4; ++i) off[i] = OFF + (zero >> i);
    }
};

// What a lane multiplies a unit by: its part of the rows' 64 columns, and the corrections of each block.
template <int F, typename T, u32 R> struct Columns {
    static constexpr u32 BLOCKS = Layout<F>::scaled ? Rows<F, T, R>::UNIT : 2, EACH = Rows<F, T, R>::EACH,
                         SUMS = R == 1 ? BLOCKS / 2 : BLOCKS;
    // Whether they are read while the weights are in flight. Blocks need the registers for other things.
    static constexpr bool early = R == 1 && !Layout<F>::scaled;
    // Whether mma starts from the corrections. If it does not, a lane of one row reads only those of its own output.
    static constexpr bool begins = Rows<F, T, R>::BEGINS;
    uint4 two_steps[2];
    typename Rows<F, T, R>::Sums excess[SUMS];

    __device__ __forceinline__ void read(u32 row, u32 of) {
        typedef typename Rows<F, T, R>::Sums Sums;
        two_steps[0] = Rows<F, T, R>::read(row), two_steps[1] = Rows<F, T, R>::read(row + 32 * sizeof(T));
        if constexpr (Layout<F>::scaled)
#pragma unroll
            for (u32 b = 0; b < SUMS; ++b) {
                if constexpr (R == 1 && !begins) {
                    float2 two = load_shared<float2>(of + b * sizeof(Sums));
                    excess[b].x = two.x, excess[b].y = two.y;
                } else {
                    excess[b] = load_shared<Sums>(of + b * EACH * sizeof(Sums));
                }
            }
    }
    // The operand of a quarter.
    __device__ __forceinline__ uint2 of(u32 s) const {
        const uint4 &two = two_steps[s / 2];
        return s % 2 ? make_uint2(two.z, two.w) : make_uint2(two.x, two.y);
    }
};
