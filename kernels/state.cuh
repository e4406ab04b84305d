// What steps and prompts read and advance: a conversation each in device memory, the rows of the step that runs, and
// the mailboxes to the host, in pinned memory.
//
// Everything of a conversation is found by its entry, which is a number that a row names: so a step that was recorded
// serves whoever its rows name then. Rows join and leave, and a conversation gets another token, sampler or page, by a
// command for one row of one step; a kernel at the step's head takes it, the only one that reads the mailbox.
#pragma once
#include "abi.h"

// Rows of a step, at most.
#define STEP_ROWS 8
// Tokens that the penalty remembers.
#define HISTORY 64
// Positions of a page of the cache.
#define PAGE 64
// Steps whose commands are there at once; more than may be launched ahead.
#define COMMANDS 4
// Steps whose tokens are there at once.
#define TOKENS 8
// The most probable tokens that are told with a chosen one, at most.
#define BEST 20
// Words before the bits of a mask: the number of the token that it is of, and what fills up to 16 bytes.
#define MASK_HEAD 4
// A row that only fills a step up to a recorded size.
#define NOBODY 0xffffffffu

// One row of a step, or all rows of a prompt.
struct Row {
    u32 entry;
    // Of the row, or of a prompt's first.
    u32 position;
    u32 token;
    // The first row of this step that is of the same conversation; later ones follow it, at the next positions.
    u32 first;
    // Whether the conversation goes on from here: its last row of this step.
    u32 advances;
    // Number of the token that it ends with, counted from 1. Of a command: of the step that is to take it, written last.
    u32 sequence;
    // Rows of a prompt that are real.
    u32 count;
    u32 unused;
};

// The sampler: parameters, counter of the random numbers, latest tokens.
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
    // How many of the most probable tokens are told with each, and 1; 0: not even the probability of the chosen one.
    u32 best;
    u32 pushed;
    u32 history[HISTORY];
};

struct Conversation {
    // What the next step starts with.
    u32 token;
    u32 position;
    // Number of the token, counted from 1, that the next mask must be of; 0: nothing guides.
    u32 guide;
    u32 unused;
    Sampler sampler;
};

// A token and the logarithm of its probability. The n best of step n are in pinned memory, (TOKENS, STEP_ROWS, 1 + BEST): the
// chosen one, then others in any order, then NOBODY.
struct Scored {
    u32 token;
    f32 logprob;
};

// What a command says.
enum Says { SAYS_TOKEN = 1, SAYS_POSITION = 2, SAYS_SAMPLER = 4, SAYS_PAGES = 8, SAYS_GUIDE = 16 };

struct Command {
    Row row;
    u32 says;
    // Pages of the conversation's table that are new, in the host's copy of it.
    u32 first_page;
    u32 pages;
    u32 guide;
    Sampler sampler;
    u32 unused[9];
};
