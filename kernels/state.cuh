// The state that steps and prompts read and advance: conversations in device memory, the rows of the running step, and
// the mailboxes to the host in pinned memory.
//
// A row names the slot of its conversation. A recorded step therefore serves any conversation. Rows join and leave, and
// a conversation gets another token, sampler or page, by a command for one row of one step. The first kernel of a step
// applies the commands; no other kernel reads the mailbox.
#pragma once
#include "abi.h"

// Rows of a step, at most.
#define STEP_ROWS 8
// Tokens that the repetition penalty covers.
#define HISTORY 64
// Positions in a page of the cache.
#define PAGE 64
// Steps whose commands fit in the mailbox; more than the host launches ahead.
#define COMMANDS 4
// Steps whose tokens fit in the mailbox.
#define MAILBOX_STEPS 8
// The most probable tokens that are reported with the chosen one, at most.
#define BEST 20
// Words in front of a mask's bits: the number of the token that it is for, then padding to 16 bytes.
#define MASK_HEAD 4
// The slot of a row that only pads a step to a recorded size.
#define NO_SLOT 0xffffffffu
// The token of such a row, and the end of a list of tokens.
#define NO_TOKEN 0xffffffffu

// One row of a step, or all rows of a prompt.
struct Row {
    u32 slot;
    // Of the row, or of a prompt's first token.
    u32 position;
    u32 token;
    // The conversation's first row in this step. Its other rows follow, at the next positions; in a pass of an
    // assistant, which stores no K and V, all are at the same one.
    u32 first;
    // Whether this is the conversation's last row in this step: the conversation continues from it.
    u32 advances;
    // The number of the run, counted from 1 over all steps and prompts that choose a token. The host writes this field
    // of a command last.
    u32 sequence;
    // Real rows of a prompt.
    u32 count;
    // The index of the spare recurrent state that a prompt writes.
    u32 spare;
    // The position that the row turns by, or a prompt's first token if it is text: after an image it is less than
    // `position`.
    u32 turned;
    // Of a forced or guessed token whose conversation has a guide: the number of the mask after it, or 0 if there is
    // none; and the mask's index.
    u32 mask;
    u32 mask_at;
    u32 unused;
};

// A row of a prompt with images.
struct Shown {
    // The positions that it turns by: time, row and column of an image.
    u32 turned[3];
    // The positions that it sees, from the first on, where rows of an image see each other; 0 for a row of text.
    u32 length;
};

// Parameters, counter of the random numbers, and latest tokens.
struct Sampler {
    f32 temperature;
    f32 top_p;
    f32 min_p;
    f32 repetition_penalty;
    u32 top_k;
    u32 counter_low;
    u32 counter_high;
    u32 seed_low;
    u32 seed_high;
    // 1 + the number of most probable tokens that are reported; 0: nothing is reported.
    u32 best;
    u32 pushed;
    u32 history[HISTORY];
};

struct Conversation {
    // Where the next step starts.
    u32 token;
    u32 position;
    // Number of the token, counted from 1, that the next mask must be for; 0: no guide.
    u32 guide;
    // The index of its recurrent state.
    u32 state;
    Sampler sampler;
    // What its next rows add to their positions where they turn; negative after images.
    u32 offset;
};

// A token and the logarithm of its probability. Those of a step are in pinned memory, as
// (MAILBOX_STEPS, STEP_ROWS, 1 + BEST): the chosen token, the most probable ones in any order, then NO_TOKEN.
struct Scored {
    u32 token;
    f32 logprob;
};

// The parts of a conversation that a command replaces. src/device/mailbox.rs has the same values.
enum CommandFlags {
    SET_TOKEN = 1,
    SET_POSITION = 2,
    SET_SAMPLER = 4,
    SET_PAGES = 8,
    SET_GUIDE = 16,
    SET_STATE = 32,
    SET_OFFSET = 64,
};

struct Command {
    Row row;
    // CommandFlags.
    u32 flags;
    // New pages in the host's copy of the conversation's table.
    u32 first_page;
    u32 pages;
    u32 guide;
    Sampler sampler;
    u32 state;
    u32 offset;
    u32 unused[3];
};
