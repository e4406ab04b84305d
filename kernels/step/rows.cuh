// The rows of a step's product in shared memory, and who shares the work on them.
#pragma once
#include "common.cuh"
#include "step/fetch.cuh"
#include "step/unit.cuh"

// Columns of rows that a block has at once: where there is no room for all, it takes one part of them after the other, and what each of
// its tiles has summed waits meanwhile. Whole rounds of the warps, so that each goes through its columns as without.
template <bool PHASED> struct Phases {
    // Of columns there are 64 in a unit.
    u32 count = 1, units, all;

    __device__ __forceinline__ Phases(u32 count_, u32 columns) : units(columns / 64), all(columns / 64) {
        if constexpr (PHASED) count = count_, units = ((all + WARPS - 1) / WARPS + count - 1) / count * WARPS;
    }
    // Units of a phase.
    __device__ __forceinline__ u32 of(u32 phase) const { return PHASED ? min(units, all - min(all, phase * units)) : all; }
};

// Teams of a block of one row, at most: of formats with a table of codes (codes.cuh) two, so that a multiprocessor has it once.
template <int F> constexpr u32 TEAMS_OF_ONE = Layout<F>::codes ? 2 : 1;

// The threads that sum a tile together.
template <int F, u32 R> struct Team {
    // Of one row mostly the whole block.
    static constexpr bool alone = R == 1 && TEAMS_OF_ONE<F> == 1;
    u32 index = alone ? 0 : threadIdx.x / THREADS, teams = alone ? 1 : blockDim.x / THREADS;

    __device__ __forceinline__ static u32 thread() { return alone ? threadIdx.x : threadIdx.x % THREADS; }
    // Of the whole block.
    __device__ __forceinline__ static u32 warps() { return alone ? WARPS : blockDim.x / 32; }
    __device__ __forceinline__ void wait() const {
        // Barrier 0 is the whole block's.
        if constexpr (alone) __syncthreads();
        else asm volatile("bar.sync %0, %1;" ::"r"(1 + index), "n"(THREADS) : "memory");
    }
};

// What an input's columns of a block of the format have: of one row of two blocks, of several of two rows.
template <u32 R> struct BlockSums { typedef float2 type; };
template <> struct BlockSums<1> { typedef float4 type; };

// The rows in shared memory, in T: several as they come, one so that a lane finds what it multiplies by side by side. Of 16 columns
// lane 4 g + t of a warp takes 2 t, 2 t + 1, 2 t + 8 and 2 t + 9, of 32 that is 16 bytes. Behind them lie what goes off each block's
// sums, what the warps have summed, and the warps' rings. R: 1, or as many as there may be, of which a power of two are there.
template <int F, typename T, u32 R> struct Rows {
    // Rows lie apart by 16 bytes, so that eight rows' pieces of that size are in all banks.
    static constexpr u32 APART = R == 1 ? 0 : 8;
    // Columns of a block; and of a unit how many `Sums`.
    static constexpr u32 BLOCK = Layout<F>::block ? Layout<F>::block : 32, UNIT = 64 / BLOCK;
    static constexpr u32 EACH = R == 1 ? 1 : R / 2, UNIT_SUMS = R == 1 ? UNIT / 2 : UNIT * EACH;
    T *values;
    u32 pitch, rows;
    // For formats with blocks, minus the sums of the rows' columns of a block times what the integers are more than they stand for: what
    // mma begins with. Of several rows (columns / BLOCK, EACH), two rows each, for the weight rows g. Of one row they lie behind the
    // columns of their unit: of two blocks each the weight rows g, then g + 8.
    typedef typename BlockSums<R>::type Sums;
    Sums *excess;
    // Of one row and scaled blocks a team finishes so many tiles together.
    static constexpr u32 BATCH = R == 1 && Layout<F>::scaled ? 4 : 1;
    // (teams, WARPS, R, BATCH, 16); of one row twice, by turns, so that its block waits once a batch. Before there is anything to sum, what
    // norms are made of: (slices of 256 columns, R).
    static constexpr u32 PARTS = (R == 1 ? 2 : 1) * BATCH * WARPS * R * 16;
    float *parts;
    // (teams, WARPS, Ring)
    u8 *rings;

    // `stride`: columns that are here at once.
    __device__ __forceinline__ Rows(u8 *memory, u32 stride, u32 rows_)
        : values(reinterpret_cast<T *>(memory)), pitch(stride + APART), rows(R == 1 ? 1 : rows_), excess(reinterpret_cast<Sums *>(memory + 2 * pitch * rows)),
          parts(reinterpret_cast<float *>(excess + (Layout<F>::scaled ? stride / 64 * UNIT_SUMS : 0))), rings(reinterpret_cast<u8 *>(parts + Team<F, R>().teams * PARTS)) {}

    // Of one row: where its columns of a unit lie, and behind them what mma begins with.
    static constexpr u32 COLUMNS_BYTES = 64 * sizeof(T), UNIT_BYTES = COLUMNS_BYTES + (Layout<F>::scaled ? UNIT_SUMS * sizeof(Sums) : 0);
    __device__ __forceinline__ u8 *unit(u32 i) const { return reinterpret_cast<u8 *>(values) + i * UNIT_BYTES; }
    // Where this lane of a warp reads its first unit's columns, and what mma begins with; and how far those of its next unit are behind.
    static constexpr u32 COLUMNS_STEP = WARPS * (R == 1 ? UNIT_BYTES : COLUMNS_BYTES), EXCESS_STEP = R == 1 ? COLUMNS_STEP : WARPS * UNIT_SUMS * sizeof(Sums);
    __device__ __forceinline__ u32 columns_at(u32 warp, u32 lane) const { return R == 1 ? in_shared(unit(warp)) + lane % 4 * 16 : in_shared(of(lane) + warp * 64); }
    __device__ __forceinline__ u32 excess_at(u32 warp, u32 lane) const { return R == 1 ? in_shared(unit(warp)) + COLUMNS_BYTES : in_shared(excess + warp * UNIT_SUMS + lane % 4); }

    // How many times as large the weight rows g + 8 come as those of g.
    static constexpr float HIGH = Excess<F, T>::high / Excess<F, T>::low;
    // Whether mma begins with them. Where it does not, a minimum is multiplied by them all the same.
    static constexpr bool BEGINS = Excess<F, T>::zero > 0;
    static constexpr u32 TIMES = BEGINS ? Excess<F, T>::zero : Layout<F>::minimum ? 1 : 0;
    // Where a row g comes with row g + 8 in it, what goes off it is that of both. What the upper one's is of it.
    static constexpr bool OF_BOTH = Excess<F, T>::both && BEGINS;
    static constexpr float OF_UPPER = OF_BOTH ? HIGH / (1.0f + HIGH) : HIGH;

    // A slice of 256 columns, by a warp: eight of them a lane, side by side.
    __device__ __forceinline__ void put(u32 row, u32 begin, const uint4 &eight, u32 columns, u32 lane) const {
        u32 column = begin + 8 * lane;
        if constexpr (R == 1) {
            u32 *to = reinterpret_cast<u32 *>(unit(column / 64) + column / 32 % 2 * 64) + column % 32 / 8;
            if (column < columns) to[0] = eight.x, to[4] = eight.y, to[8] = eight.z, to[12] = eight.w;
            if constexpr (!Layout<F>::scaled) return;
            // As mma's columns, the slice's pieces of 32 columns.
            __syncwarp();
            float sums[EACH_32][4];
            u32 off[4];
            off_all(off, 0);
            sum(off, column < columns ? read(in_shared(unit(column / 64)) + column % 64 * sizeof(T)) : make_uint4(0, 0, 0, 0), sums);
            // All lanes have them: of eight pieces two each.
            u32 i = lane / 4 % 2, b = lane / 8 % EACH_32, block = (begin / 32 + lane % 4 * 2 + i) * EACH_32 + b;
            float of = i ? sums[0][1] : sums[0][0];
            if (b) of = i ? sums[EACH_32 - 1][1] : sums[EACH_32 - 1][0];
            float *pair = reinterpret_cast<float *>(unit(block / UNIT) + COLUMNS_BYTES + block % UNIT / 2 * sizeof(Sums)) + block % 2;
            if (lane < 8 * EACH_32 && block * BLOCK < columns) pair[0] = of, pair[2] = OF_UPPER * of;
        } else if (column < columns) {
            *reinterpret_cast<uint4 *>(values + row * pitch + column) = eight;
        }
    }

    // Of several rows that are here, the sums of the blocks of some units' columns.
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
                        if (lane < EACH) to[((2 * unit + p) * EACH_32 + b) * EACH] = make_float2(sums[p][b][0], sums[p][b][1]);
            }
        }
    }

    // Where this lane reads its part of the first 32 columns; where there are fewer rows, some come again.
    __device__ __forceinline__ const T *of(u32 lane) const { return values + (R == 1 ? lane % 4 * 8 : (lane % 8 & (rows - 1)) * pitch + lane / 8 * 8); }
    // A lane's part of 32 columns, for mma.
    static __device__ __forceinline__ uint4 read(u32 from) {
        if constexpr (R == 1) return load_shared<uint4>(from);
        u32 part[4];
        matrices(part, from);
        return make_uint4(part[0], part[1], part[2], part[3]);
    }

  private:
    // Blocks of 32 columns.
    static constexpr u32 EACH_32 = 32 / BLOCK;

    // Products of 32 columns with what goes off each: the sums of their blocks.
    static __device__ __forceinline__ void sum(const u32 (&off)[4], const uint4 &part, float (&sums)[EACH_32][4]) {
#pragma unroll
        for (u32 b = 0; b < EACH_32; ++b)
#pragma unroll
            for (int i = 0; i < 4; ++i) sums[b][i] = 0.0f;
        Mma<T>::run(sums[0], off, part.x, part.y);
        Mma<T>::run(sums[EACH_32 - 1], off, part.z, part.w);
    }
    // The other factor. `zero` is 0: in a loop something that the compiler cannot know to be, for of constants it would make new registers for each product.
    static __device__ __forceinline__ void off_all(u32 (&off)[4], u32 zero) {
        constexpr u32 OFF = minus<T, TIMES * (OF_BOTH ? 1 + (u32)HIGH : 1)>(Excess<F, T>::low < 1.0f);
#pragma unroll
        for (u32 i = 0; i < 4; ++i) off[i] = OFF + (zero >> i);
    }
};

// What a lane multiplies a unit by: its part of the rows' 64 columns, and what each block begins with.
template <int F, typename T, u32 R> struct Columns {
    static constexpr u32 BLOCKS = Layout<F>::scaled ? Rows<F, T, R>::UNIT : 2, EACH = Rows<F, T, R>::EACH, SUMS = R == 1 ? BLOCKS / 2 : BLOCKS;
    // Whether they are read while the weights are still on their way. Blocks have their registers for other things.
    static constexpr bool early = R == 1 && !Layout<F>::scaled;
    // Whether mma begins with what goes off. Where it does not, a lane of one row reads what is for its own output alone.
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
    // In a step.
    __device__ __forceinline__ uint2 of(u32 s) const {
        const uint4 &two = two_steps[s / 2];
        return s % 2 ? make_uint2(two.z, two.w) : make_uint2(two.x, two.y);
    }
};
